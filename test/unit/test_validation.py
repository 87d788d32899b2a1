"""--validate: wrong passes are found by the inputs that show them, named, and cut down to a small
test that fails as long as the pass is wrong; right ones are left in peace."""

import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f16, i8, i32
from xdsl.ir import Operation
from xdsl.passes import ModulePass

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))
from accuracy import changed_bits, run
from validate import validate
from writing import Expr, Tensor, op_names, written

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.elementwise import (
    AbsOp,
    AddOp,
    CompareOp,
    DivOp,
    ExpOp,
    LogOp,
    MaximumOp,
    MulOp,
    RoundOp,
    SubOp,
)
from ge.dialects.support.errors import GeError
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context
from ge.lowering.pipeline.options import FUSION_MODES
from ge.lowering.pipeline.pass_manager import PassManager
from ge.runtime.data.arrays import dense, type_of
from ge.runtime.data.weights import Payload, open_payload
from ge.runtime.device.trials import Trials
from ge.tools.commands import ge_opt
from ge.tools.debugging.validation import Validation, structure
from ge.transforms.rewriting.passes import Relation, Ulps

BIN = Path(sys.executable).parent
Change = Callable[[Any, Expr], Expr]
"""What an op becomes; the expression is its first operand, at its place."""


def a_pass(
    kind: type[TensorOp], change: Change, relation: Relation | None = None, name: str = "wrong"
) -> ModulePass:
    """A pass that replaces each op of a class."""

    def apply(self: ModulePass, ctx: Context, module: ModuleOp) -> None:
        for op in [op for op in module.walk() if isinstance(op, kind)]:
            block = op.parent
            assert block is not None
            place = Place(op)
            value = change(op, Expr(op.operands[0], place)).value  # pyright: ignore[reportArgumentType]
            op.results[0].replace_all_uses_with(value)
            block.erase_op(op)

    members: dict[str, Any] = {"name": name, "apply": apply}
    if relation is not None:
        members["RELATION"] = relation
    return type("APass", (ModulePass,), members)()


class Place:
    """Where an expression puts its ops: before another op."""

    def __init__(self, op: Operation) -> None:
        self.op = op

    def add_op(self, new: Operation) -> None:
        assert self.op.parent is not None
        self.op.parent.insert_op_before(new, self.op)


def validated(
    module: ModuleOp, *passes: ModulePass, output: Path | str, payload: Payload | None = None
) -> Validation:
    """Run the passes. Raises GeError for what validation finds."""
    validation = Validation(Trials, context(), payload or {}, str(output))
    PassManager(passes, [validation]).run(context(), module)
    return validation


def broken(module: ModuleOp, *passes: ModulePass, output: Path, **more: Any) -> str:
    with pytest.raises(GeError) as error:
        validated(module, *passes, output=output, **more)
    return str(error.value)


def halves_up(op: RoundOp, x: Expr) -> Expr:
    return (x + 0.5).floor()


def flushed(op: AbsOp, x: Expr) -> Expr:
    magnitude = x.op(AbsOp, x)
    return magnitude.compare("lt", np.float32(2.0**-126)).where(magnitude * 0.0, magnitude)


X, N = Tensor(3, 5), Tensor(7, element=i32)
ALWAYS = np.array(True)

WRONG: dict[str, tuple[Any, Tensor, type[TensorOp], Change, str]] = {
    "x * 0 is nan for infinity": (
        lambda x: (x * 0.0).abs(), X, MulOp, lambda op, x: zeros(x), "extremes",
    ),
    "-0 + 0 is 0": (lambda x: x + 0.0, X, AddOp, lambda op, x: x, "edges"),
    "x - x is nan for infinity": (lambda x: x - x, X, SubOp, lambda op, x: zeros(x), "extremes"),
    "maximum(nan, 0) is nan": (
        lambda x: x.maximum(0.0), X, MaximumOp,
        lambda op, x: x.compare("gt", 0.0).where(x, 0.0), "extremes",
    ),
    "0 - 0 is no -0": (
        lambda x: 0.0 - x, X, SubOp, lambda op, x: -Expr(op.operands[1], x.block), "edges",
    ),
    "ties round to even": (lambda x: x.abs().round(), X, RoundOp, halves_up, "edges"),
    "denormals are numbers": (lambda x: x.abs(), X, AbsOp, flushed, "edges"),
    "x + 1 > x overflows": (
        lambda x: (x + one(x)).compare("gt", x), N, CompareOp,
        lambda op, x: constant(x, np.ones(7, np.bool_)), "extremes",
    ),
    "(x + x) / 2 overflows": (
        lambda x: (x + x) / (one(x) + one(x)), N, DivOp,
        lambda op, x: Expr(x.value.owner.operands[0], x.block), "extremes",  # pyright: ignore
    ),
    "(x + x) - x overflows f16": (
        lambda x: ((x + x) - x).abs(), Tensor(64, element=f16), SubOp,
        lambda op, x: Expr(op.operands[1], x.block), "extremes",
    ),
    "x * x is no |x|": (lambda x: x * x, X, MulOp, lambda op, x: x.abs(), "normal"),
}  # fmt: skip


def constant(x: Expr, array: Any) -> Expr:
    op = ConstantOp.make(dense(array), type_of(array))
    x.block.add_op(op)
    return Expr(op.result, x.block)


def zeros(x: Expr) -> Expr:
    return constant(x, np.zeros(x.shape, np.float32))


def one(x: Expr) -> Expr:
    return constant(x, np.array(1, np.int32))


@pytest.mark.parametrize("case", WRONG)
def test_wrong_pass(case: str, tmp_path: Path):
    formula, argument, kind, change, inputs = WRONG[case]
    text = broken(written(formula, argument), a_pass(kind, change), output=tmp_path / "t.mlir")
    assert "pass 'wrong' declares bit-exact, but changes the numbers: " in text
    assert f"@main, {inputs} inputs: output 'out0': " in text
    assert (tmp_path / "t.mlir").exists()


# ---- relations ---------------------------------------------------------------------------------


def reordered(op: AddOp, x: Expr) -> Expr:
    """(a + b) + c as a + (b + c)"""
    inner = op.operands[0].owner
    if not isinstance(inner, AddOp):
        return x + Expr(op.operands[1], x.block)
    a, b = (Expr(v, x.block) for v in inner.operands)
    return a + (b + Expr(op.operands[1], x.block))


def sums(x: Expr, y: Expr, z: Expr) -> Expr:
    return (x + y) + z


def test_a_pass_is_held_to_what_it_declares(tmp_path: Path):
    three = [Tensor(64)] * 3
    text = broken(written(sums, *three), a_pass(AddOp, reordered), output=tmp_path / "t.mlir")
    assert "declares bit-exact" in text
    good = a_pass(AddOp, reordered, Ulps(4))
    assert validated(written(sums, *three), good, output=tmp_path / "u.mlir").passes == 1
    assert not (tmp_path / "u.mlir").exists()


def test_ill_conditioned_is_no_fault(tmp_path: Path):
    """A last bit of x is 50 last bits of exp(50 x), whatever a pass does."""

    def steep() -> ModuleOp:
        return written(lambda x: (x * 50.0).exp(), Tensor(64))

    def squared(op: ExpOp, x: Expr) -> Expr:
        half = (x * 0.5).exp()
        return half * half

    def off(op: ExpOp, x: Expr) -> Expr:
        return squared(op, x) * 1.001

    validated(steep(), a_pass(ExpOp, squared, Ulps(1)), output=tmp_path / "t.mlir")
    text = broken(steep(), a_pass(ExpOp, off, Ulps(1)), output=tmp_path / "t.mlir")
    assert "declares 1 ULPs of the largest element" in text


def test_the_first_pass_is_named(tmp_path: Path):
    module = written(lambda x: ((x + 0.0) * x).abs(), X)
    right = a_pass(MulOp, lambda op, x: Expr(op.operands[1], x.block) * x, name="right")
    first = a_pass(AddOp, lambda op, x: x, name="first")
    second = a_pass(AbsOp, lambda op, x: -x, name="second")
    assert "pass 'second'" in broken(module.clone(), right, second, output=tmp_path / "t.mlir")
    text = broken(module, right, first, second, output=tmp_path / "t.mlir")
    assert "pass 'second'" in text  # |-0 * x| hides what the first does
    module = written(lambda x: (x + 0.0, x.abs()), X)
    assert "pass 'first'" in broken(module, right, first, second, output=tmp_path / "t.mlir")


def test_a_lost_output(tmp_path: Path):
    module = written(lambda x: (x + 1.0, x.exp()), X)

    def shape(op: ExpOp, x: Expr) -> Expr:
        return x.exp().reshape(5, 3)

    def apply(self: ModulePass, ctx: Context, module: ModuleOp) -> None:
        for op in list(module.walk()):
            if isinstance(op, ExpOp):
                last = op.parent and op.parent.last_op
                assert last is not None
                last.operands = last.operands[:1]

    lose = type("LosePass", (ModulePass,), {"name": "lose", "apply": apply})()
    with pytest.raises(Exception, match="Expected arguments to have the same types"):
        validated(module.clone(), lose, output=tmp_path / "t.mlir")
    with pytest.raises(Exception, match="Expected arguments to have the same types"):
        validated(module, a_pass(ExpOp, shape), output=tmp_path / "t.mlir")


# ---- the test that is written ------------------------------------------------------------------

LONG = """
func.func @main(%x: tensor<4x6xf32>, %t: tensor<i1>) -> (tensor<4x6xf32>, tensor<4x6xf32>) {
  %zero = graph.constant dense<0.0> : tensor<f32>
  %w = graph.constant #graph.weight<"w"> : tensor<6x6xf32>
  %0 = graph.matmul %x, %w : (tensor<4x6xf32>, tensor<6x6xf32>) -> tensor<4x6xf32>
  %1 = graph.tanh %0 : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %2 = graph.if %t : (tensor<i1>) -> tensor<4x6xf32> {
    %5 = graph.exp %0 : (tensor<4x6xf32>) -> tensor<4x6xf32>
    %6 = graph.mul %5, %zero : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf32>
    graph.yield %6 : tensor<4x6xf32>
  } else {
    %7 = graph.neg %x : (tensor<4x6xf32>) -> tensor<4x6xf32>
    graph.yield %7 : tensor<4x6xf32>
  }
  %3 = graph.add %2, %1 : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %4 = graph.softmax %3 : (tensor<4x6xf32>) -> tensor<4x6xf32>
  func.return %4, %0 : tensor<4x6xf32>, tensor<4x6xf32>
}
"""

PLUGIN = '''
from dataclasses import dataclass

import numpy as np
from xdsl.passes import ModulePass

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.elementwise import MulOp
from ge.lowering.plugins.extensions import register_pass
from ge.runtime.data.arrays import dense, type_of


@dataclass(frozen=True)
class DropProductsPass(ModulePass):
    """x * 0 -> 0, also where x is infinite."""

    name = "drop-products"
    least: int = 0

    def apply(self, ctx, op):
        for product in [o for o in op.walk() if isinstance(o, MulOp)]:
            if WRONG and isinstance(product.rhs.owner, ConstantOp):
                shape = product.result.type.get_shape()
                zero = ConstantOp.make(dense(np.zeros(shape, np.float32)), product.result.type)
                product.parent.insert_op_before(zero, product)
                product.result.replace_all_uses_with(zero.result)
                product.parent.erase_op(product)


register_pass(DropProductsPass)
'''


def module_of(text: str) -> ModuleOp:
    return parse_module(context(), SourceText("test", text))


def lit(folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "lit.cfg").write_text(
        "import lit.formats, os\n"
        'config.name, config.suffixes = "written", [".mlir"]\n'
        "config.test_format = lit.formats.ShTest()\n"
        f'config.environment["PATH"] = "{BIN}" + os.pathsep + os.environ["PATH"]\n'
    )
    command = [str(BIN / "lit"), "-v", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_the_test_that_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """It is small, fails as long as the pass is wrong, and passes when the pass is right."""
    plugin, model = tmp_path / "plugin.py", tmp_path / "model" / "long.mlir"
    plugin.write_text(f"WRONG = True\n{PLUGIN}")
    model.parent.mkdir()
    model.write_text(LONG)
    cases = tmp_path / "cases"
    cases.mkdir()
    case = cases / "case.mlir"
    passes = "eliminate-dead-code,drop-products{least=3},canonicalize"
    options = ["--validate", f"--validate-output={case}"]
    monkeypatch.setenv("GE_CUSTOM_PASS", str(plugin))
    assert ge_opt([str(model), "-p", passes, *options]) == 1
    said = capsys.readouterr().err
    assert "error: pass 'drop-products' declares bit-exact, but changes the numbers" in said
    assert f"{case} repeats it with 1 op" in said
    text = case.read_text()
    assert "drop-products{least=3}" in text.splitlines()[0]
    assert op_names(module_of(text)) == ["mul"]
    assert len(text.splitlines()) < 15
    (line,) = (line for line in text.splitlines() if line.startswith("// RUN: "))
    command = line.removeprefix("// RUN: ge-opt %s ").partition(" | ")[0]
    monkeypatch.chdir(tmp_path)  # where it writes another case
    assert ge_opt([str(case), *shlex.split(command)]) == 1
    plugin.write_text(f"WRONG = False\n{PLUGIN}")
    result = lit(cases)
    assert result.returncode == 0, result.stdout


def test_weights_that_matter_are_written(tmp_path: Path):
    """Random weights have no nan; the given ones do."""
    module = module_of("""
func.func @main(%x: tensor<3xf32> {graph.name = "x"}) -> (tensor<3xf32> {graph.name = "y"}) {
  %w = graph.constant #graph.weight<"w"> : tensor<3xf32>
  %v = graph.constant #graph.weight<"v"> : tensor<3xf32>
  %0 = graph.compare eq %w, %w : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
  %1 = graph.cast %0 to f32 : (tensor<3xi1>) -> tensor<3xf32>
  %2 = graph.mul %1, %v : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  func.return %2 : tensor<3xf32>
}
""")
    weights = {"w": np.array([1, np.nan, 2], np.float32), "v": np.ones(3, np.float32)}
    true = a_pass(CompareOp, lambda op, x: constant(x, np.ones(3, np.bool_)))
    case = tmp_path / "case.mlir"
    broken(module, true, output=case, payload=weights)
    small = module_of(case.read_text())
    assert op_names(small) == ["compare"]
    payload = open_payload(small, tmp_path)
    assert payload.get("v") is None
    broken(small, true, output=tmp_path / "again.mlir", payload=payload)


def test_clean_modules_cost_no_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    runs: list[int] = []
    again = Trials.run
    monkeypatch.setattr(Trials, "run", lambda *a, **k: (runs.append(1), again(*a, **k))[1])
    nothing = a_pass(LogOp, lambda op, x: x)
    something = a_pass(AbsOp, lambda op, x: x.op(AbsOp, x))
    validation = validated(written(lambda x: x.exp(), X), nothing, output=tmp_path / "t")
    assert validation.passes == 1
    assert not runs
    validated(written(lambda x: -x.abs(), X), nothing, something, output=tmp_path / "t")
    assert not runs


def test_structure():
    one = written(lambda x, y: x + y, X, X)
    assert structure(one) == structure(one.clone())
    for other in (lambda x, y: y + x, lambda x, y: x - y, lambda x, y: x + x):
        assert structure(one) != structure(written(other, X, X))


# ---- trials ------------------------------------------------------------------------------------


def inputs_of(module: ModuleOp, kind: str) -> list[np.ndarray[Any, Any]]:
    trials = Trials(module, {}).trials
    return [a for t in trials if t.kind == kind for a in t.inputs.values()]


@pytest.mark.parametrize("dims", [(1,), (3, 5), (40, 50), ()])
def test_special_values_are_all_there(dims: tuple[int, ...]):
    module = written(lambda x: x + 1.0, Tensor(*dims))
    edges = np.concatenate([a.reshape(-1) for a in inputs_of(module, "edges")])
    bits = set(edges.view(np.int32).tolist())
    wanted = [0.0, -0.0, 1e-45, -1e-45]
    if edges.size > 4:
        wanted += [2.0**-126, 0.5, -1.5, 2.5, 6.0, -3.0]
    assert bits >= set(np.array(wanted, np.float32).view(np.int32).tolist())
    extremes = np.concatenate([a.reshape(-1) for a in inputs_of(module, "extremes")])
    assert np.isnan(extremes).any()
    assert {np.inf, -np.inf, np.finfo(np.float32).max} <= set(extremes.tolist())


def test_limits_of_integers():
    module = written(lambda x, y: (x + x, y + y), Tensor(9, element=i32), Tensor(9, element=i8))
    wide, narrow = inputs_of(module, "extremes")
    assert {-(2**31), 2**31 - 1, 0, 1} <= set(wide.tolist())
    assert {-128, 127, 0, 1} <= set(narrow.tolist())


def test_indices_are_valid():
    """What a module refuses is chosen more carefully."""
    module = module_of("""
func.func @main(%t: tensor<8x2xf32>, %i: tensor<5xi64>) -> tensor<5x2xf32> {
  %0 = graph.gather %t, %i : (tensor<8x2xf32>, tensor<5xi64>) -> tensor<5x2xf32>
  func.return %0 : tensor<5x2xf32>
}
""")
    trials = Trials(module, {})
    assert {t.kind for t in trials.trials} == {"normal", "edges", "extremes", "zeros"}
    assert all(0 <= t.inputs["arg1"].min() and t.inputs["arg1"].max() < 8 for t in trials.trials)


def test_what_cannot_be_run():
    module = module_of("""
func.func @main(%x: tensor<2x3xf32>) -> tensor<*xf32> {
  %0 = graph.constant dense<[4, 4]> : tensor<2xi64>
  %1 = graph.reshape %x shape %0 : (tensor<2x3xf32>, tensor<2xi64>) -> tensor<*xf32>
  func.return %1 : tensor<*xf32>
}
""")
    with pytest.raises(GeError, match="the module cannot be run to be validated"):
        Trials(module, {})


# ---- models ------------------------------------------------------------------------------------

MODELS = Path(__file__).parents[1] / "models"


@pytest.mark.parametrize(
    ("model", "modes"),
    [
        ("if_ts.tiny", ("aggressive",)),
        pytest.param("if_ts.tiny", FUSION_MODES, marks=pytest.mark.soak),
        ("loop_rnn.tiny", ("default",)),
        pytest.param("resnet50.ts.tiny", ("default",), marks=pytest.mark.soak),
        pytest.param("llama_7b_decode.fp16.tiny", ("aggressive",), marks=pytest.mark.soak),
    ],
)
def test_the_whole_pipeline_is_clean(model: str, modes: tuple[str, ...], tmp_path: Path):
    for mode in modes:
        done = validate(MODELS / f"{model}.onnx", mode, tmp_path)
        assert done.passes > 10
        assert done.runner is not None
        kinds = {str(t).split()[1] for t in done.runner.trials}
        assert kinds == {"normal", "edges", "extremes", "zeros"}


@pytest.mark.parametrize(
    "model",
    [
        "if_ts.tiny",
        pytest.param("resnet50.ts.tiny", marks=pytest.mark.soak),
        pytest.param("llama_7b_decode.fp16.tiny", marks=pytest.mark.soak),
    ],
)
def test_conservative_fusion_keeps_every_bit(model: str):
    path = MODELS / f"{model}.onnx"
    before, after = (run(path, "program", mode) for mode in ("off", "conservative"))
    assert before
    assert not changed_bits(before, after)
