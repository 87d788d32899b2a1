"""Programs of many devices under MPI, each rank one device: the bits of one process, and errors
that end all ranks."""

import importlib.util
import subprocess
import sys
import time
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))

import failing_ranks

import ge
from ge.dialects.support.errors import GeError
from ge.dialects.support.mesh import Axis, Mesh, Sharding
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context
from ge.runtime.device import ranks
from ge.runtime.device.session import Session
from ge.runtime.device.spreads import Spread

PROGRAM = """
#rows = #graph.sharding<@mesh, [{"tp":(1)2}, {}]>
#columns = #graph.sharding<@mesh, [{}, {"tp":(1)2}]>
graph.mesh @mesh ["tp"=2]
func.func @main(
    %x: tensor<3x16xf16>
        {graph.name = "x", graph.sharding = #rows, graph.whole = array<i64: 5, 16>}) -> (
    tensor<16x8xf16>
        {graph.name = "y", graph.sharding = #columns, graph.whole = array<i64: 16, 16>}) {
  %0 = graph.all_to_all %x shape [5, 16] has <@mesh, [{"tp":(1)2}, {}]>
      to <@mesh, [{}, {"tp":(1)2}]> : (tensor<3x16xf16>) -> tensor<5x8xf16>
  %1 = graph.transpose %0 permutation [1, 0] : (tensor<5x8xf16>) -> tensor<8x5xf16>
  %2 = graph.all_gather %1 dim 0 over <"tp"=2> : (tensor<8x5xf16>) -> tensor<16x5xf16>
  %4 = graph.matmul %0, %1 : (tensor<5x8xf16>, tensor<8x5xf16>) -> tensor<5x5xf16>
  %5 = graph.all_reduce sum %4 over <"tp"=2> : (tensor<5x5xf16>) -> tensor<5x5xf16>
  %6 = graph.matmul %2, %5 : (tensor<16x5xf16>, tensor<5x5xf16>) -> tensor<16x5xf16>
  %7 = graph.matmul %6, %0 : (tensor<16x5xf16>, tensor<5x8xf16>) -> tensor<16x8xf16>
  return %7 : tensor<16x8xf16>
}
"""

# On rank 1 the third exchange with others fails, or is waited for in vain, or its process is killed
FAULT = """
import os
import signal
import sys
import time
import ge_npu
from ge.runtime.numbers.collectives import Member

swap, met, how = Member.swap, [], sys.argv.pop(1)

def faulty(self, *args):
    met.append(args)
    if self.device == 1 and len(met) == 3:
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60 * (how == "stay"))
        raise ValueError("the third one fails")
    return swap(self, *args)

Member.swap = faulty
sys.exit(ge_npu.ge_run())
"""

MPIEXEC = Path(sys.executable).parent / "mpiexec"
WITHOUT = importlib.util.find_spec("mpi4py") is None or not MPIEXEC.exists()
needs_mpi = pytest.mark.skipif(WITHOUT, reason="needs mpi4py and mpich: pip install 'ge-npu[mpi]'")


def start(count: int, *args: object) -> tuple[int, str, str, float]:
    """Exit status, outputs and seconds of so many ranks."""
    began = time.monotonic()
    command = [str(MPIEXEC), "-n", str(count), sys.executable, *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout, done.stderr, time.monotonic() - began


RUN = "-c", "import sys, ge_npu; sys.exit(ge_npu.ge_run())"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "p.mlir").write_text(PROGRAM, "utf-8")
    (tmp_path / "fault.py").write_text(FAULT, "utf-8")
    x = np.random.default_rng(0).standard_normal((5, 16)).astype(np.float16)
    np.savez(tmp_path / "in.npz", x=x)
    return tmp_path


@needs_mpi
@pytest.mark.parametrize("order", ["", ", device_ids=[1, 0]"])
def test_ranks_give_the_bits_of_one_process(files: Path, order: str) -> None:
    (files / "p.mlir").write_text(PROGRAM.replace("=2]\n", f"=2]{order}\n"), "utf-8")
    flags = [files / "p.mlir", "--inputs", files / "in.npz", "--outputs"]
    status, out, error, _ = start(2, *RUN, *flags, files / "two.npz")
    assert (status, error) == (0, "")
    assert out.count("y: float16[16, 16]") == 1
    alone = [sys.executable, *RUN, *flags, files / "one.npz"]
    subprocess.run(list(map(str, alone)), check=True, capture_output=True)
    one, two = (np.load(files / name)["y"] for name in ("one.npz", "two.npz"))
    assert one.tobytes() == two.tobytes()


@needs_mpi
def test_each_rank_writes_its_parts(files: Path) -> None:
    """In one process, all devices; either way the parts are those of the whole outputs."""
    flags = [files / "p.mlir", "--inputs", files / "in.npz", "--outputs"]
    status, _, error, _ = start(2, *RUN, *flags, files / "two.{rank}.npz")
    assert (status, error) == (0, "")
    for name in ("one.{rank}.npz", "whole.npz"):
        alone = [sys.executable, *RUN, *flags, files / name]
        subprocess.run(list(map(str, alone)), check=True, capture_output=True)
    whole = np.load(files / "whole.npz")["y"]
    for rank in range(2):
        one, two = (np.load(files / f"{n}.{rank}.npz")["y"] for n in ("one", "two"))
        assert one.tobytes() == two.tobytes() == whole[:, 8 * rank : 8 * rank + 8].tobytes()
    assert len(list(files.glob("*.npz"))) == 6


CHAIN = """
func.func @main(%x: tensor<8x4xf32> {graph.name = "x"}) -> (tensor<8x4xf32> {graph.name = "y"}) {
  %0 = graph.sin %x : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %1 = graph.softmax %0 axis 1 : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %2 = graph.add %1, %0 : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  return %2 : tensor<8x4xf32>
}
"""


@needs_mpi
def test_ranks_of_a_pipeline_give_the_bits_of_one_process(tmp_path: Path) -> None:
    """Each rank a stage, of which one alone has the output."""
    (tmp_path / "m.mlir").write_text(CHAIN, "utf-8")
    flags = {"mesh": "pp=2", "pipeline": 2, "microbatches": 4, "tiles": False}
    program = ge.compile(tmp_path / "m.mlir", **flags)
    (tmp_path / "p.mlir").write_text(str(program.module), "utf-8")
    x = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
    np.savez(tmp_path / "in.npz", x=x)
    given = [tmp_path / "p.mlir", "--inputs", tmp_path / "in.npz", "--outputs"]
    status, _, error, _ = start(2, *RUN, *given, tmp_path / "two.npz")
    assert status == 0, error
    found = np.load(tmp_path / "two.npz")["y"]
    assert found.tobytes() == program.session().run({"x": x})["y"].tobytes()


@needs_mpi
def test_as_many_ranks_as_devices(files: Path) -> None:
    status, out, error, _ = start(3, *RUN, files / "p.mlir", "--inputs", files / "in.npz")
    assert (status, out) == (1, "")
    text = "error: the program is for 2 devices, and there are 3 ranks; start it with mpiexec -n 2"
    assert error.count(text) == 1


@needs_mpi
@pytest.mark.parametrize(
    ("how", "text"),
    [
        (
            "fail",
            "rank 1 of 2: graph.all_reduce of (tensor<5x5xf16>) cannot be computed: the third",
        ),
        ("stay", "waits in graph.all_reduce sum of tensor<5x5xf16> over tp=2 for rank 1"),
        ("kill", "ge-run: error: rank 1 was ended by SIGKILL"),
    ],
)
def test_what_fails_on_a_rank_ends_all(files: Path, how: str, text: str) -> None:
    status, out, error, seconds = start(
        2,
        files / "fault.py",
        how,
        files / "p.mlir",
        "--inputs",
        files / "in.npz",
        "--peer-timeout",
        2,
    )
    assert status if how == "kill" else status == 1  # what mpiexec makes of several
    assert how == "kill" or not out  # in which mpiexec says the process
    assert text in error
    assert seconds < 40


# A rank ends or stops before it meets others: before MPI begins, or while the program is loaded
EARLY = """
import os
import signal
import sys
import ge_npu
from ge.runtime.device import ranks

place, answering, agree = sys.argv.pop(1), ranks.answering, ranks.Rank.agree

def is_stopped(here):
    if here == place and os.environ["PMI_RANK"] == "1":
        os.kill(os.getpid(), signal.SIGSTOP)

def stopped_in_mpi():
    is_stopped("in MPI")
    return answering()

def stopped_before(self, *args):
    is_stopped("while it loads")
    return agree(self, *args)

ranks.answering, ranks.Rank.agree = stopped_in_mpi, stopped_before
is_stopped("before MPI")
if place == "ends" and os.environ["PMI_RANK"] == "1":
    sys.exit()
sys.exit(ge_npu.ge_run())
"""


@needs_mpi
@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("ends", "rank 0 waits for rank 1, which has ended, and has not begun"),
        ("before MPI", "rank 0 waits for rank 1, which is stopped, and has not begun"),
        ("in MPI", "waits for rank 1, which is stopped, and has not begun"),
        ("while it loads", "waits in the start of the program for rank 1 (which is silent)"),
    ],
)
def test_a_rank_that_does_not_begin_ends_all(files: Path, place: str, text: str) -> None:
    (files / "early.py").write_text(EARLY, "utf-8")
    run = files / "early.py", place, files / "p.mlir", "--inputs", files / "in.npz"
    status, _, error, seconds = start(2, *run)
    assert status
    assert text in error
    assert seconds < 40


@needs_mpi
def test_a_rank_of_which_nothing_is_seen_ends_all(files: Path) -> None:
    """Another program, where no processes are seen."""
    quick = "import sys, ge_npu; from ge.runtime.device import ranks; ranks.START_S = 3.0; "
    quick += "ranks.away = lambda: {}; "
    run = "-c", quick + RUN[1], files / "p.mlir", "--inputs", files / "in.npz"
    status, _, error, seconds = start(1, *run, ":", "-n", 1, sys.executable, "-c", "exit()")
    assert status
    assert "ge-run: error: rank 0 waits for other ranks, which have not begun after 3 s" in error
    assert seconds < 40


def test_ranks_without_mpi4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PMI_RANK", "0")
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    module = parse_module(context(), SourceText("p.mlir", PROGRAM))
    with pytest.raises(GeError, match=r"mpi4py is not there.*pip install 'ge-npu\[mpi\]'"):
        Session(module, {})


class Others:
    """Ranks that have something else, of the first or the second that is compared."""

    def __init__(self, number: int) -> None:
        self.number, self.met = number, 0

    @contextmanager
    def swap(self, what: str, group: Any, sends: Any, wants: Any, like: Any) -> Any:
        self.met += 1
        yield {d: sends[d] + (d == 2 and self.met == self.number) for d in sends}


CUT = """
module attributes {graph.parts = {"w.dp" = ["w", #graph.sharding<@mesh, [{"dp"}]>],
                                  "w.all" = ["w", #graph.sharding<@mesh, [{"dp", "tp"}]>]}} {
graph.mesh @mesh ["dp"=2, "tp"=2]
func.func @main() -> (tensor<4xf32>, tensor<2xf32>) {
  %0 = graph.constant #graph.weight<"w.dp"> : tensor<4xf32>
  %1 = graph.constant #graph.weight<"w.all"> : tensor<2xf32>
  return %0, %1 : tensor<4xf32>, tensor<2xf32>
}
}
"""


@pytest.mark.parametrize(
    ("rank", "number", "error"),
    [
        (0, 0, None),
        (0, 1, r"rank 0 has another program than rank 2 \[D1\]"),
        (0, 2, None),  # rank 2 has another part of the weight
        (3, 2, r"rank 3 has another part of the weight 'w.dp' than rank 2 \[D1\]"),
    ],
)
def test_d1_ranks_have_the_same_weights(rank: int, number: int, error: str | None) -> None:
    module = parse_module(context(), SourceText("p.mlir", CUT))
    own = object.__new__(ranks.Rank)
    own.mesh, own.rank = Mesh((("dp", 2), ("tp", 2))), rank
    own.peers = Others(number)  # pyright: ignore[reportAttributeAccessIssue]
    weights = {"w": np.arange(8, dtype=np.float32)}
    with pytest.raises(GeError, match=error) if error else nullcontext():
        own.agree(module, weights)


@pytest.mark.parametrize(
    ("rank", "cut", "error"),
    [
        (0, (), r"rank 0 has another part of the input 'x' than rank 2 \[D1\]"),
        (0, (Axis("dp", 1, 2),), None),  # rank 2 has another part
        (3, (Axis("dp", 1, 2),), r"rank 3 has another part of the input 'x' than rank 2 \[D1\]"),
        (0, (Axis("dp", 1, 2), Axis("tp", 1, 2)), None),  # each rank has its own
    ],
)
def test_d1_ranks_are_given_the_same_inputs(
    rank: int, cut: tuple[Axis, ...], error: str | None
) -> None:
    own = object.__new__(ranks.Rank)
    own.mesh, own.rank, own.names = Mesh((("dp", 2), ("tp", 2))), rank, ["x"]
    own.arguments = [Spread((8,), (8 // own.mesh.parts(cut),), Sharding((cut,)))]
    own.peers = Others(1)  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(GeError, match=error) if error else nullcontext():
        own.agree_on_inputs([np.arange(8, dtype=np.float32)])


WITHOUT_MPI = "import sys; sys.modules['mpi4py'] = None; "


@needs_mpi
@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("p.mlir --bogus", "ge-run: error: unknown option '--bogus'"),
        ("nothing.mlir", "ge-run: error: cannot open 'nothing.mlir'"),
        ("p.mlir --outputs no/y.npz", "ge-run: error: cannot write 'no/y.npz'"),
        ("p.mlir", "ge-run: error: MPI has started this process, and mpi4py is not there"),
    ],
)
def test_what_all_ranks_find_is_told_once(
    files: Path, monkeypatch: pytest.MonkeyPatch, words: str, error: str
) -> None:
    monkeypatch.chdir(files)
    code = RUN[1].replace("import", WITHOUT_MPI + "import", 1) if "mpi4py" in error else RUN[1]
    status, out, told, seconds = start(2, RUN[0], code, *words.split())
    assert (status, out) == (1, "")
    assert told.count("error: ") == told.count(error) == 1
    assert seconds < 40


@needs_mpi
@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_what_is_asked_of_all_ranks_is_told_once(
    files: Path, monkeypatch: pytest.MonkeyPatch, flag: str
) -> None:
    monkeypatch.setenv("GE_NOTHING", "1")
    status, out, told, _ = start(2, *RUN, files / "p.mlir", flag)
    assert (status, told.count("GE_NOTHING")) == (0, int(flag == "--help"))
    assert out.count("ge-run 0" if flag == "--version" else "usage: ge-run") == 1


@needs_mpi
def test_an_error_names_the_rank_on_which_alone_it_is(files: Path) -> None:
    (files / "one.py").write_text(ON_ONE_RANK, "utf-8")
    run = files / "one.py", files / "p.mlir", "--inputs", files / "in.npz"
    status, _, error, seconds = start(2, *run)
    assert status == 1
    assert "ge-run: error: rank 1 of 2: cannot open 'nothing.npz': No such file" in error
    assert seconds < 40


# A rank that is given another file than the others
ON_ONE_RANK = """
import os
import sys
import ge_npu

if os.environ["PMI_RANK"] == "1":
    sys.argv[-1] = "nothing.npz"
sys.exit(ge_npu.ge_run())
"""


class Silent:
    """Other ranks that say nothing."""

    rank, size = 0, 4

    def __init__(self) -> None:
        self.told: list[tuple[Any, int]] = []

    def isend(self, message: Any, rank: int) -> None:
        self.told.append((message, rank))


def test_a_rank_that_waits_is_as_late_as_those_for_whom_it_waits() -> None:
    comm = Silent()
    thread = ranks.Answering(comm)
    assert thread.age() < 1
    thread.missing = (2, 3)
    thread.hear(2, "answers", 30.0, "waits in a collective")
    thread.hear(3, "answers", 20.0, "computes")
    assert 20 <= thread.age() < 21  # one of the two may come
    thread.hear(1, "asks", 0.0, "")
    ((rank, what, age, _), to) = comm.told[0]
    assert (rank, what, to) == (0, "answers", 1)
    assert 20 <= age < 21
    thread.hear(2, "fails", 0.0, "rank 2 of 4: nothing works")
    assert thread.failure == "rank 2 of 4: nothing works"


@needs_mpi
@pytest.mark.soak
def test_a_rank_that_fails_ends_all_in_time() -> None:
    tally = failing_ranks.run_cases(100)
    assert tally.wrong == []
