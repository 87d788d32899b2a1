"""The table of options: flags, environment and documentation follow from it."""

import dataclasses
import os
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import ge
from ge.dialects.support.errors import GeError
from ge.lowering.pipeline.options import Options, facts_of, flags_of
from ge.tools.cli.flags import options_from
from ge.tools.cli.parsers import PARSERS as ALL_PARSERS
from ge.tools.cli.parsers import compile_parser
from ge.tools.commands import ge_check, ge_compile, ge_import, ge_opt, ge_run
from ge.tools.reference.pages import options_table

ROOT = Path(__file__).parents[2]
PARSERS = {tool: ALL_PARSERS[tool] for tool in ("ge-import", "ge-compile", "ge-run")}
TEXT = """\
func.func @main(%x: tensor<4xf32> {graph.name = "x"}) -> (tensor<4xf32> {graph.name = "y"}) {
  %0 = graph.relu %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
"""


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch):
    for name in [n for n in os.environ if n.startswith("GE_")]:
        monkeypatch.delenv(name)


@pytest.mark.parametrize("field", dataclasses.fields(Options), ids=lambda f: f.name)
def test_flag_variable_and_argument_are_the_same(
    field: "dataclasses.Field[Any]", monkeypatch: pytest.MonkeyPatch
):
    """Another value than the default's, by each way in."""
    facts = facts_of(field)
    samples: dict[object, tuple[str, Any]] = {
        bool: ("1", True), int: ("2", 2), tuple: ("a, b", ("a", "b")), type(None): ("1", True),
    }  # fmt: skip
    word = next(reversed([c for c in facts.choices if isinstance(c, str)]), "aggressive")
    texts = {"accuracy": "snr>=25", "ranges": "percentile:99.9", "state_capacity": "past=64"}
    texts |= {"state_layout": "paged:128", "mesh": "dp=2,tp=4", "pipeline": "pp=2"}
    word = texts.get(field.name, word)
    text, value = samples.get(type(field.default), (word, word))
    if field.name in ("dim", "shape"):  # a shape has commas
        text = "a; b"
    want = Options(**{field.name: value})
    if facts.variable:
        assert Options.from_environment({facts.variable: text}) == want
        monkeypatch.setenv(facts.variable, text)
        assert Options.from_environment() == want
        monkeypatch.delenv(facts.variable)
    for tool in [t for t in facts.tools if t in PARSERS]:
        flag = [flags_of(field)[0], *([text] if facts.metavar else [])]
        args = PARSERS[tool]().parse_args(["input", *flag])
        assert options_from(args) == want
    assert f"`{field.name}`" in options_table()


def test_arguments_may_be_text_and_paths():
    assert Options(quantize_skip="fc, head") == Options(quantize_skip=("fc", "head"))  # pyright: ignore[reportArgumentType]
    assert Options(calibration=Path("x.npz")) == Options(calibration="x.npz")  # pyright: ignore[reportArgumentType]


def test_a_flag_wins_over_its_variable(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GE_PIECES", "1")
    monkeypatch.setenv("GE_MEMORY_OPTIMIZE", "level:3")
    monkeypatch.setenv("GE_CUSTOM_PASS", f"a.py{os.pathsep}b.py")
    args = compile_parser().parse_args(["--no-pieces", "--memory", "0", "x"])
    options = options_from(args)
    assert (options.pieces, options.memory) == (False, 0)
    args = compile_parser().parse_args(["--load-plugin", "c.py", "--load-plugin", "b.py"])
    assert options_from(args).plugins == ("c.py", "b.py", "a.py")
    assert Options(custom_pass="").plugins == ()


@pytest.mark.parametrize(
    ("text", "level"),
    [("true", 1), ("on", 1), ("1", 1), ("2", 2), ("3", 3), ("False", 0), ("off", 0), ("0", 0)],
)
def test_details_of_dumps(text: str, level: int):
    assert Options.from_environment({"GE_DUMP_GRAPH": text}).dump_graph == level


@pytest.mark.parametrize("tool", [ge_check, ge_compile, ge_opt, ge_run], ids=lambda t: t.tool)
def test_a_variable_that_no_option_has(
    tool: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
):
    monkeypatch.setenv("GE_FUSON", "off")
    monkeypatch.setenv("GE_ZZ", "1")
    (tmp_path / "in.mlir").write_text(TEXT)
    assert tool([str(tmp_path / "in.mlir")]) == (tool is ge_check)
    first, second, *_ = capfd.readouterr().err.splitlines()
    assert first == "warning: no option has the variable GE_FUSON; did you mean 'GE_GRAPH_FUSION'?"
    assert second == "warning: no option has the variable GE_ZZ"


@pytest.mark.parametrize(("value", "shown"), [("0", False), ("off", False), ("1", True)])
@pytest.mark.parametrize(
    "tool", [ge_check, ge_compile, ge_import, ge_opt, ge_run], ids=lambda t: t.tool
)
def test_tracebacks_are_shown_where_the_variable_says_so(
    tool: ModuleType,
    value: str,
    shown: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
):
    monkeypatch.setenv("GE_DEBUG", value)
    for name in ("in.mlir", "in.onnx"):
        (tmp_path / name).write_text("nonsense")
        if tool is not ge_check or name == "in.mlir":
            assert tool([str(tmp_path / name)]) == 1
            assert ("Traceback" in capfd.readouterr().err) == shown


@pytest.mark.parametrize("detail", ["true", "2", "3"])
def test_dumps(detail: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GE_DUMP_GRAPH", detail)
    (tmp_path / "in.mlir").write_text(TEXT)
    assert ge_compile([str(tmp_path / "in.mlir"), "--dump-path", str(tmp_path / "d")]) == 0
    text = next((tmp_path / "d").glob("00-*.mlir")).read_text()
    assert "relu" in text
    assert text.startswith("builtin.module {\n")


def test_static_shapes(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]):
    model = str(ROOT / "test/models/bert_base.ts.dynamic.onnx")
    monkeypatch.setenv("GE_STATIC_SHAPE", "1")
    assert ge_compile([model]) == 1
    assert (
        "wants the sizes of all inputs to be known; fix them with --dim" in capfd.readouterr().err
    )


def test_ops_are_named_as_in_rules():
    """`MatMul` of --no-reuse is `ge.OpType("MatMul")`."""
    model = str(ROOT / "test/models/if_cond.tiny.onnx")
    programs = [ge.compile(model, no_reuse=(name,)) for name in ("MatMul", "graph.matmul")]
    assert str(programs[0].module) == str(programs[1].module)


def test_one_place_reads_the_environment():
    folders = ("dialects", "ge", "lowering", "runtime", "tools", "transforms")
    files = [p for folder in folders for p in (ROOT / folder).rglob("*.py")]
    readers = [p.name for p in files if re.search(r"os\.environ|getenv", p.read_text("utf-8"))]
    assert readers == ["environment.py"]


def test_what_no_option_takes_in_python():
    with pytest.raises(GeError, match="memory is one of 0, 1, 2, 3, not '7'"):
        Options(memory=7)
    with pytest.raises(GeError, match=r"fusion is one of off, .*, not 'some'"):
        Options(fusion="some")


@pytest.mark.parametrize(("name", "value"), [("calibration", ["x.npz"]), ("precision", 3)])
def test_a_text_is_told_from_other_values(name: str, value: Any):
    with pytest.raises(GeError, match=re.escape(f"{name} is a text, not {value!r}")):
        Options(**{name: value})
