"""ge-reduce: what is interesting stays, all else goes."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

from ge.tools.commands import ge_reduce
from ge.tools.debugging.bisect import Judge, Script

MODELS = Path(__file__).resolve().parents[1] / "models"

TEXT = """\
func.func private @other() -> ()
func.func @main(%x: tensor<4x16xf32> {graph.name = "x"}, %y: tensor<4x16xf32>)
    -> (tensor<4x16xf32> {graph.name = "r"}, tensor<4x16xf32>) {
  %c = graph.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %s = graph.reshape %c shape [4, 1] : (tensor<4xf32>) -> tensor<4x1xf32>
  %0 = graph.add %x, %s : (tensor<4x16xf32>, tensor<4x1xf32>) -> tensor<4x16xf32>
  %1 = graph.relu %0 : (tensor<4x16xf32>) -> tensor<4x16xf32>
  %2 = graph.mul %1, %y : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  %3 = graph.tanh %2 {my.note = "n"} : (tensor<4x16xf32>) -> tensor<4x16xf32>
  func.return %3, %2 : tensor<4x16xf32>, tensor<4x16xf32>
}
"""

Reduce = Callable[..., int]


@pytest.fixture
def reduce(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reduce:
    """Runs ge-reduce on TEXT, or on a file, with a test of these lines of shell."""
    monkeypatch.chdir(tmp_path)
    Path("in.mlir").write_text(TEXT)

    def run(lines: str, *arguments: str, file: str = "in.mlir") -> int:
        script = Path("test.sh")
        script.write_text(f"#!/bin/sh\n{lines}\n")
        script.chmod(0o755)
        return ge_reduce([file, "--test", "./test.sh", *arguments])

    return run


def test_what_matters_stays(reduce: Reduce, capfd: pytest.CaptureFixture[str]):
    assert reduce("grep -q graph.tanh $1 && exit 1\nexit 0") == 0
    out, err = capfd.readouterr()
    assert out.count("graph.") == 1
    assert "graph.tanh %0 : (tensor<1x1xf32>) -> tensor<1x1xf32>" in out
    assert "@other" not in out
    assert err.startswith("9 ops -> 3: ")


def test_an_attribute_and_the_numbers_of_a_constant(
    reduce: Reduce, capfd: pytest.CaptureFixture[str]
):
    assert reduce("grep -q note $1 && grep -q graph.constant $1 && exit 1\nexit 0") == 0
    out = capfd.readouterr().out
    assert 'my.note = "n"' in out
    assert "dense<1.0" in out
    assert "graph.name" not in out


def test_unregistered_ops_at_the_top(reduce: Reduce, capfd: pytest.CaptureFixture[str]):
    Path("top.mlir").write_text(
        '%0 = "a.a"() {x = 1} : () -> i32\n"a.b"(%0) {y = 2} : (i32) -> ()\n"a.c"() : () -> ()\n'
    )
    unknown = "--allow-unregistered-dialect"
    assert reduce("grep -q a.b $1 && exit 3\nexit 0", unknown, file="top.mlir") == 0
    out = capfd.readouterr().out
    assert '"a.b"(%0) : (i32) -> ()' in out
    assert "a.c" not in out


def test_a_model_and_its_weights(reduce: Reduce):
    """The weight that the test looks at is written beside the module, for the test and at last."""
    model = str(MODELS / "if_cond.tiny.onnx")
    lines = "grep -q graph.weight $1 && test -s ${1%.mlir}.safetensors && exit 1\nexit 0"
    assert reduce(lines, "-o", "out.mlir", file=model) == 0
    text = Path("out.mlir").read_text()
    assert text.count("graph.weight") == 1
    assert Path("out.safetensors").exists()


def test_arguments_of_the_script_come_before_the_file(
    reduce: Reduce, capfd: pytest.CaptureFixture[str]
):
    lines = 'test "$1" = "a b" && grep -q $2 $3 && exit 1\nexit 0'
    assert reduce(lines, "--test-arg", "a b", "--test-arg", "relu") == 0
    assert "graph.relu" in capfd.readouterr().out


def test_an_empty_module_is_interesting_too(reduce: Reduce, capfd: pytest.CaptureFixture[str]):
    assert reduce("exit 1") == 0
    out, err = capfd.readouterr()
    assert "func" not in out
    assert "warning: the test script says that a module without ops is interesting" in err


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("exit 0", "not interesting (status 0); as for mlir-reduce, status 1 says"),
        ("nonsense-command $1", "ended with status 127: a command in it cannot be run"),
        ("kill -SEGV $$", "was ended by SIGSEGV: it says nothing of"),
    ],
)
def test_a_script_that_says_nothing(
    reduce: Reduce, capfd: pytest.CaptureFixture[str], lines: str, message: str
):
    assert reduce(lines, "-o", "out") == 1
    assert message in capfd.readouterr().err
    assert not Path("out").exists()


def ends(pid: int, seconds: float = 10) -> bool:
    """Whether a process that was sent SIGKILL is gone, or a zombie, within some seconds: the kernel
    ends it when it is its turn, which on a busy machine is later than the call."""
    status = Path(f"/proc/{pid}/stat")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if status.read_text().rpartition(")")[2].split()[0] in "ZX":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.01)
    return False


def test_a_script_that_hangs(reduce: Reduce, capfd: pytest.CaptureFixture[str]):
    """What it has started is ended with it."""
    start = time.monotonic()
    assert reduce("sleep 30 & echo $! > pid; sleep 30", "--timeout", "0.5") == 1
    assert "took more than 0.5 s on the input; --timeout gives it more" in capfd.readouterr().err
    assert time.monotonic() - start < 10
    started = Path("pid").read_text().strip() if Path("pid").exists() else ""
    assert not started or ends(int(started))


def test_a_file_that_a_script_hangs_on_is_not_interesting():
    script = Script.of("sh", ["-c", "sleep 30"], 0.05)
    assert not Judge(script, {}, time.monotonic() + 60)(ModuleOp([]))
    assert (script.runs, script.late) == (1, 1)


def test_nothing_is_run_after_the_time_limit():
    script = Script.of("false", [], 60)
    assert not Judge(script, {}, time.monotonic() - 1)(ModuleOp([]))
    assert script.runs == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.mlir", "--test", "true"], "cannot open 'none.mlir': No such file"),
        (["in.mlir", "--test", "./none.sh"], "there is no test script './none.sh'"),
        (["in.mlir", "--test", "./plain.sh"], "'./plain.sh' cannot be run; chmod +x ./plain.sh"),
        (["in.mlir", "--test", "'"], "the test ''' cannot be read: No closing quotation"),
        (["in.mlir", "--test", ""], "there is no test script ''"),
        (["in.mlir"], "arguments are required: --test"),
        (["in.mlir", "--test", "true", "--timeout", "0"], "a number of seconds above 0"),
        (["bad.mlir", "--test", "true"], "use of undefined value %x"),
        (["invalid.mlir", "--test", "true"], "'graph.relu' op"),
        (["in.mlir", "--test", "./words.sh"], "its first line names the program"),
    ],
)
def test_bad_input(
    reduce: Reduce, capfd: pytest.CaptureFixture[str], arguments: list[str], message: str
):
    Path("plain.sh").write_text("exit 1")
    Path("words.sh").write_text("words")
    Path("words.sh").chmod(0o755)
    Path("bad.mlir").write_text("func.func @f() -> () {\n  func.return %x : i32\n}\n")
    Path("invalid.mlir").write_text('%0 = "graph.relu"() : () -> tensor<4xf32>\n')
    assert ge_reduce(arguments) == 1
    err = capfd.readouterr().err
    assert message in err
    assert "Traceback" not in err
