"""Sizes between gears: padded where no valid element depends on padding, refused elsewhere."""

import re
import sys
from collections.abc import Callable, Sequence
from itertools import product
from math import inf
from operator import add, eq, gt, le, lt, mul, ne, neg, sub
from operator import ge as at_least
from pathlib import Path
from typing import Any, cast
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import DenseArrayBase, DictionaryAttr, ModuleOp, f32, i1, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, SSAValue

import ge
from ge.dialects.graph.activation import ReluOp
from ge.dialects.graph.attention import AttentionOp
from ge.dialects.graph.constant import ConstantOp, WeightAttr
from ge.dialects.graph.control import AssumeShapeOp
from ge.dialects.graph.elementwise import (
    AddOp,
    CompareOp,
    DivOp,
    Elementwise,
    MulOp,
    NegOp,
    SelectOp,
    SubOp,
)
from ge.dialects.graph.stated import PADDING
from ge.dialects.support.errors import GeError
from ge.dialects.support.types import Dense, shape_of, tensor
from ge.lowering.driver.compiler import context
from ge.lowering.pipeline.pass_manager import PassManager
from ge.runtime.check.padding import check_padding, evaluated
from ge.runtime.data.arrays import Array, array_of
from ge.runtime.device.session import Session, main_of
from ge.runtime.device.trials import Trials
from ge.runtime.numbers import evaluate
from ge.tools.debugging.validation import Validation
from ge.transforms.analysis.dimensions import Dimensions
from ge.transforms.shapes import expand_gears
from ge.transforms.shapes.expand_gears import ExpandGearsPass
from ge.transforms.shapes.gears import Gears
from ge.transforms.shapes.padding import Fill, FillKind, Padding, computed, cut_axes, unfused
from ge.transforms.shapes.sizes import named_dims

sys.path.insert(0, str(Path(__file__).parent))
from padded_texts import CLAIMS, FLAT, SAFE, UNSAFE, attention, body, gathered


def session(text: str, folder: Path) -> Session:
    (folder / "m.mlir").write_text(text)
    program = ge.compile(str(folder / "m.mlir"), dynamic_dims="2,4;4,9")
    return Session(program.module, program.payload)


def inputs(batch: int, length: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    mask = rng.integers(0, 2, (batch, length))
    mask[:, 0] = 1
    return {"x": rng.standard_normal((batch, length, 8)).astype(np.float32), "m": mask}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Session, Session]:
    """A program with gears, and the graph, which has any size."""
    folder = tmp_path_factory.mktemp("gears")
    gears = session(attention(), folder)
    return gears, Session(ge.load(str(folder / "m.mlir")).module)


@given(st.integers(1, 4), st.integers(1, 9), st.integers(0, 99))
def test_padded_inputs_have_the_numbers_of_their_own_size(
    both: tuple[Session, Session], batch: int, length: int, seed: int
):
    gears, plain = both
    values = inputs(batch, length, seed)
    got, want = gears.run(values)["y"], plain.run(values)["y"]
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)


def test_the_smallest_gear_takes_a_size_and_arrays_are_filled(both: tuple[Session, Session]):
    gears, plain = both
    assert gears.gears is not None
    assert gears.gears.row_for((1, 3)) == (2, 4)
    assert gears.gears.row_for((3, 3)) == (4, 9)
    values, place = inputs(3, 5), np.empty((3, 5, 8), np.float32)
    assert gears.run(values, {"y": place})["y"] is place
    np.testing.assert_allclose(place, plain.run(values)["y"], rtol=2e-5, atol=2e-5)
    gears.fuzz_schedule(values, 2)
    with pytest.raises(GeError, match="no gear is for batch=5, length=3"):
        gears.run(inputs(5, 3))


@pytest.mark.parametrize(("sides", "low"), [("%low, %zero", "-3.0e38"), ("%zero, %low", "-1.0")])
def test_a_wrong_mask_is_refused_and_would_be_found(sides: str, low: str, tmp_path: Path):
    """A mask that hides the valid tokens, or hides too little."""
    gears = session(attention(sides, low), tmp_path)
    assert gears.gears is not None
    assert isinstance(gears.gears.padding["batch"], dict)
    reason = gears.gears.padding["length"]
    assert isinstance(reason, str)
    assert reason.startswith("graph.attention")
    with pytest.raises(GeError, match=r"'length' cannot be padded: graph\.attention"):
        gears.run(inputs(2, 3))
    padding = {**gears.gears.padding, "length": {"y": (1,)}}  # as if it had been found safe
    object.__setattr__(gears.gears, "padding", padding)
    values = inputs(2, 3)
    want = Session(ge.load(str(tmp_path / "m.mlir")).module).run(values)["y"]
    assert np.abs(gears.run(values)["y"] - want).max() > 1e-3


def validated(text: str, folder: Path, dims: str = "2,4;4,9") -> None:
    """Expand gears under `--validate`. Raises GeError for what it finds."""
    (folder / "m.mlir").write_text(text)
    module = ge.load(str(folder / "m.mlir")).module
    validation = Validation(Trials, context(), {}, str(folder / "t.mlir"), seconds=0.0)
    PassManager([ExpandGearsPass(dims=dims)], [validation]).run(context(), module)


def plant(monkeypatch: pytest.MonkeyPatch, found: dict[str, Any]) -> None:
    def paddings(func: FuncOp, gears: Gears) -> dict[str, Any]:
        return found

    monkeypatch.setattr(expand_gears, "paddings", paddings)


def test_validation_runs_gears_and_sizes_between(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """It finds a mask that hides too little, a cut along no axis, a fault in one gear alone."""
    validated(attention(), tmp_path)
    plant(monkeypatch, {"batch": [(0, 0)], "length": [(0, 1)]})
    for text in (attention(low="-1.0"), body(UNSAFE["graph.reduce"])):
        with pytest.raises(GeError, match=r"'expand-gears' declares bit-exact.*padded inputs"):
            validated(text, tmp_path)
    plant(monkeypatch, {"batch": [], "length": "mixes"})
    with pytest.raises(GeError, match=r"padded inputs: output 'y': float32\[1, 4, 8\] became"):
        validated(attention(), tmp_path)
    monkeypatch.undo()
    fold_block = expand_gears.fold_block

    def wrong(block: Block, *others: Any) -> None:
        fold_block(block, *others)
        assumed = block.first_op
        assert isinstance(assumed, AssumeShapeOp)
        if shape_of(assumed.result)[0] == 4:
            (add,) = (op for op in block.ops if isinstance(op, AddOp))
            add.operands = [add.operands[0], add.operands[0]]

    monkeypatch.setattr(expand_gears, "fold_block", wrong)
    with pytest.raises(GeError, match="normal inputs: output 'y'"):
        validated(attention(), tmp_path)


def test_inputs_that_are_not_finite_are_not_padded(tmp_path: Path):
    gears = session(attention(), tmp_path)
    values = inputs(2, 3)
    values["x"][0, 0, 0] = np.inf
    with pytest.raises(GeError, match="input 'x' has elements that are infinite or nan: it cannot"):
        gears.run(values)
    assert gears.run({**inputs(2, 4), "x": np.full((2, 4, 8), np.nan, np.float32)})["y"].size
    program = ge.compile(str(tmp_path / "m.mlir"), dynamic_dims="2,4;4,9", dynamic_fallback=True)
    got = Session(program.module, program.payload).run(values)["y"]
    want = Session(ge.load(str(tmp_path / "m.mlir")).module).run(values)["y"]
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)


# ---- what the analysis claims, one value at a time ----------------------------------------------


def claimed(value: SSAValue, padding: Padding, array: Array, valid: tuple[int, int]) -> Array:
    """Where a value is padded and not known: the claims about the rest are checked."""
    known, free = np.zeros(array.shape, bool), np.zeros(array.shape, bool)
    for axis, fill in padding.along(value).items():
        end = array.shape[axis] * valid[1] // valid[0]
        slab = (slice(None),) * axis + (slice(end, None),)
        if isinstance(fill, float):
            assert (array[slab] == fill).all()
        elif fill is FillKind.LOW:
            assert (array[slab] <= -1e30).all()
        elif fill is FillKind.MASK:
            assert (np.isfinite(array[slab]) | (array[slab] == -inf)).all()
        elif fill is not FillKind.ANY:
            assert np.isfinite(array[slab]).all()
        unknown = fill in (FillKind.FINITE, FillKind.ANY)
        (free if unknown else known)[slab] = True
    return free & ~known


def weight(op: ConstantOp) -> Array:
    if isinstance(op.value, WeightAttr):
        shape = shape_of(op.result)
        return np.random.default_rng(crc32(op.value.data.encode())).standard_normal(shape, "f4")
    return array_of(cast(Dense, op.value))


def outputs_with(
    func: FuncOp, padding: Padding, arrays: Sequence[Array], valid: tuple[int, int], seed: int
) -> list[Array]:
    """The valid elements of the outputs, where padded ones of all values are random (seed 0: as
    they are); each axis of `valid[0]` padded elements has `valid[1]` valid ones."""
    body, rng = func.body.block, np.random.default_rng(seed)
    known: dict[SSAValue, Array] = dict(zip(body.args, arrays, strict=True))
    for op in body.ops:
        if isinstance(op, ReturnOp):
            break
        if isinstance(op, ConstantOp):
            known[op.result] = weight(op)
            continue
        results = evaluate(op, [known[v] for v in op.operands])
        for value, array in zip(op.results, results, strict=True):
            free = claimed(value, padding, array, valid)
            if seed and free.any() and array.dtype.kind in "fb":  # integers may be indices
                noise = rng.standard_normal(array.shape) * 3
                array = np.where(free, noise.astype(array.dtype), array)
            known[value] = array
    returned = body.last_op
    assert returned is not None
    outputs = [known[v] for v in returned.operands]
    for i, axis in cut_axes(body, padding):
        end = outputs[i].shape[axis] * valid[1] // valid[0]
        outputs[i] = outputs[i][(slice(None),) * axis + (slice(end),)]
    return outputs


def check_claims(
    module: ModuleOp, arrays: Sequence[Array], dim: str, valid: tuple[int, int]
) -> None:
    """Pad inputs along a dimension; claims hold, and no valid output depends on what is padded."""
    (main,) = (op for op in module.ops if isinstance(op, FuncOp))
    func, dims = unfused(main), named_dims(main)
    sizes = Dimensions(func.body)
    places = dims[dim]
    padding = Padding(sizes, sizes.of(func.body.block.args[places[0][0]])[places[0][1]])
    padded = list(arrays)
    for i, axis in places:
        padding.axes.setdefault(func.body.block.args[i], {})[axis] = 0.0
        width = [(0, valid[0] - valid[1] if a == axis else 0) for a in range(arrays[i].ndim)]
        padded[i] = np.pad(padded[i], width)
    padding.block(func.body.block)
    want = outputs_with(func, padding, padded, valid, 0)
    for seed in (1, 2, 3):
        got = outputs_with(func, padding, padded, valid, seed)
        for a, b in zip(got, want, strict=True):
            assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("dim", ["batch", "length"])
@pytest.mark.parametrize("name", [*SAFE, *CLAIMS])
def test_no_valid_output_depends_on_a_padded_element(name: str, dim: str, tmp_path: Path):
    (tmp_path / "m.mlir").write_text(CLAIMS[name] if name in CLAIMS else body(SAFE[name]))
    program = ge.load(str(tmp_path / "m.mlir"))
    ge.lower(program.module, ge.Options(), until="graph")
    valid = (7, 5) if dim == "length" else (4, 3)
    values = inputs(4 if dim == "length" else 3, 5 if dim == "length" else 7)
    check_claims(program.module, list(values.values()), dim, valid)


def test_a_wrong_claim_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def leaves_out(self: Padding, op: AttentionOp) -> bool:
        return True

    monkeypatch.setattr(Padding, "leaves_out", leaves_out)
    (tmp_path / "m.mlir").write_text(FLAT.replace("0xff800000", "-1.0"))
    module = ge.load(str(tmp_path / "m.mlir")).module
    ge.lower(module, ge.Options(), until="graph")
    with pytest.raises(AssertionError):
        check_claims(module, list(inputs(4, 5).values()), "length", (7, 5))


def test_a_mask_by_index_is_no_gather(tmp_path: Path):
    gears = session(FLAT, tmp_path)
    assert "graph.gather" not in str(gears.module)
    want = Session(ge.load(str(tmp_path / "m.mlir")).module).run(inputs(3, 5))["y"]
    np.testing.assert_allclose(gears.run(inputs(3, 5))["y"], want, rtol=2e-5, atol=2e-5)


FILLS: list[tuple[type[Elementwise], list[Fill], Fill]] = [
    (AddOp, [FillKind.LOW, FillKind.FINITE], FillKind.LOW),
    (AddOp, [FillKind.COPY, -inf], FillKind.LOW),
    (AddOp, [FillKind.LOW, FillKind.MASK], FillKind.LOW),
    (AddOp, [FillKind.LOW, 1e38], FillKind.ANY),
    (AddOp, [FillKind.LOW, FillKind.ANY], FillKind.ANY),
    (SubOp, [FillKind.LOW, FillKind.FINITE], FillKind.LOW),
    (SubOp, [FillKind.LOW, FillKind.LOW], FillKind.ANY),
    (SubOp, [FillKind.LOW, -1e38], FillKind.ANY),
    (SubOp, [FillKind.FINITE, -inf], FillKind.ANY),
    (MulOp, [FillKind.FINITE, 0.0], 0.0),
    (MulOp, [FillKind.LOW, 0.0], FillKind.ANY),
    (MulOp, [FillKind.MASK, 0.0], FillKind.ANY),
    (SelectOp, [FillKind.FINITE, 0.0, -inf], FillKind.MASK),
    (SelectOp, [FillKind.FINITE, 0.0, FillKind.LOW], FillKind.MASK),
    (SelectOp, [FillKind.FINITE, 0.0, inf], FillKind.ANY),
    (ReluOp, [FillKind.LOW], FillKind.ANY),
]


@pytest.mark.parametrize(("kind", "fills", "expected"), FILLS)
def test_fills_of_elementwise_ops(kind: type[Elementwise], fills: list[Fill], expected: Fill):
    values = Block(arg_types=[tensor((4,), f32)] * len(fills)).args
    op = kind(operands=[*values], result_types=[values[0].type])
    assert computed(op, fills) == expected


COMPARISONS = {"eq": eq, "ne": ne, "lt": lt, "le": le, "gt": gt, "ge": at_least}
ON_NUMBERS: list[tuple[type[Elementwise], int, dict[str, Any], Callable[..., Any]]] = [
    (AddOp, 2, {}, add), (SubOp, 2, {}, sub), (MulOp, 2, {}, mul), (NegOp, 1, {}, neg),
    (DivOp, 2, {}, lambda a, b: a / b if b else None),
    (SelectOp, 3, {}, lambda c, a, b: a if c else b),
    *((CompareOp, 2, {"predicate": name}, holds) for name, holds in COMPARISONS.items()),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "count", "params", "expected"), ON_NUMBERS)
def test_masks_are_made_of_numbers(
    kind: type[Elementwise], count: int, params: dict[str, Any], expected: Callable[..., Any]
):
    """What the proof computes of masks is what ops compute."""
    types = [tensor((4,), i1 if kind is SelectOp and not i else f32) for i in range(count)]
    op = kind.of(*Block(arg_types=types).args, **params)
    for row in product((0.0, 1.0, -2.5), repeat=count):
        assert evaluated(op, row) == expected(*row), row


MASKED = """
  %zero = graph.constant dense<0.0> : tensor<f32>
  %low = graph.constant dense<LOW> : tensor<f32>
  %b = graph.cast %m to i1 : (tensor<?x?xi64>) -> tensor<?x?xi1>
  %u = graph.unsqueeze %b axes [2] : (tensor<?x?xi1>) -> tensor<?x?x1xi1>
  %s = graph.select %u, %zero, %low : (tensor<?x?x1xi1>, tensor<f32>, tensor<f32>)
      -> tensor<?x?x1xf32>
  %bias = graph.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]> : tensor<8xf32>
  %v = graph.add %x, %bias : (T, tensor<8xf32>) -> T
  %0 = graph.add %v, %s : (T, tensor<?x?x1xf32>) -> T
  %1 = graph.matmul %0, %x transpose_lhs true : (T, T) -> tensor<?x8x8xf32>
  %2 = graph.matmul %x, %1 : (T, tensor<?x8x8xf32>) -> T
  func.return %2 : T
"""


def test_what_is_low_may_be_infinite(tmp_path: Path):
    """-inf times the zeros of the other operand is nan."""
    gears = session(body(MASKED.replace("LOW", "0xff800000")), tmp_path)
    assert gears.run(inputs(4, 9))["y"].shape == (4, 9, 8)
    with pytest.raises(GeError, match=r"'length' cannot be padded: graph\.matmul"):
        gears.run(inputs(4, 5))


@pytest.mark.parametrize("text", SAFE.values(), ids=list(SAFE))
def test_what_does_not_mix_is_padded(text: str, tmp_path: Path):
    gears = session(body(text), tmp_path)
    values = inputs(3, 5)
    want = Session(ge.load(str(tmp_path / "m.mlir")).module).run(values)["y"]
    np.testing.assert_allclose(gears.run(values)["y"], want, rtol=2e-5, atol=2e-5)
    assert not check_padding(gears.module, main_of(gears.module))[0]


@pytest.mark.parametrize("name", UNSAFE)
def test_what_mixes_is_refused_by_name(name: str, tmp_path: Path):
    gears = session(body(UNSAFE[name]), tmp_path)
    assert gears.run(inputs(4, 9))["y"].shape == (4, 9, 8)
    with pytest.raises(GeError, match=f"'length' cannot be padded: {re.escape(name)}"):
        gears.run(inputs(4, 5))
    if name != "graph.gather_elements":  # whose padded indices are those of elements all the same
        found = problems_where(gears.module, batch={"y": [0]}, length={"y": [1]})
        assert any("mixes padded" in p or "has numbers that follow from" in p for p in found)


def test_a_mask_that_constant_indices_gather_is_followed(tmp_path: Path):
    gears = session(gathered(), tmp_path)
    assert "graph.gather_nd" in str(gears.module)
    want = Session(ge.load(str(tmp_path / "m.mlir")).module).run(inputs(3, 5))["y"]
    np.testing.assert_allclose(gears.run(inputs(3, 5))["y"], want, rtol=2e-5, atol=2e-5)
    assert not problems_where(gears.module, batch={"y": [0]}, length={"y": [1]})


@pytest.mark.parametrize(
    "text",
    [gathered(sides="%low, %zero"), gathered("back"), gathered("half")],
    ids=["hides valid keys", "from the end", "each element twice"],
)
def test_a_gathered_mask_that_leaves_padded_keys_is_refused(text: str, tmp_path: Path):
    module = session(text, tmp_path).module
    assert "graph.gather" in str(module)
    assert problems_where(module, length={"y": [1]})


# The sum of some elements along the padded axis
SOME = """
  %c0 = graph.constant dense<0> : tensor<i64>
  %c1 = graph.constant dense<1> : tensor<i64>
  %c2 = graph.constant dense<2> : tensor<i64>
  %two = graph.constant dense<[0, 1]> : tensor<2xi64>
  %n = graph.shape_of %x start 1 end 2 : (T) -> tensor<1xi64>
  %s = graph.squeeze %n axes [0] : (tensor<1xi64>) -> tensor<i64>
  %h = graph.div %s, %c2 : (tensor<i64>, tensor<i64>) -> tensor<i64>
  %end = graph.unsqueeze %h axes [0] : (tensor<i64>) -> tensor<1xi64>
  %all = graph.range %c0, %s, %c1 : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64>
  %half = graph.range %c0, %h, %c1 : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64>
  %0 = graph.cos %x : (T) -> T
  %1 = OP
  %2 = graph.reduce sum %1 axes [1] : (T) -> tensor<?x1x8xf32>
  %3 = graph.add %x, %2 : (T, tensor<?x1x8xf32>) -> T
  func.return %3 : T
"""
TWO = "graph.gather %0, %two axis 1 : (T, tensor<2xi64>) -> tensor<?x2x8xf32>"
ALL = "graph.gather %0, %all axis 1 : (T, tensor<?xi64>) -> T"
HALF = "graph.slice %0 starts [0] ends %end axes [1] : (T, tensor<1xi64>) -> T"


@pytest.mark.parametrize(
    ("text", "mixes"),
    [(TWO, False), (ALL, True), (ALL.replace("%all", "%half"), True), (HALF, True)],
    ids=["two", "all", "half of them", "half by a slice"],
)
def test_elements_from_the_front_are_those_of_all_gears(text: str, mixes: bool, tmp_path: Path):
    """Numbers of elements that are constants in a gear may follow from its size."""
    picked = text.rpartition(" -> ")[2]
    some = SOME.replace("OP", text).replace("%1 axes [1] : (T)", f"%1 axes [1] : ({picked})")
    module = session(body(some), tmp_path).module
    assert bool(problems_where(module, length={"y": [1]})) == mixes


def problems_where(module: ModuleOp, **claims: dict[str, list[int]]) -> list[str]:
    """What is wrong with a program that says this of its padding."""
    clone = module.clone()
    main_of(clone).attributes[PADDING] = DictionaryAttr({
        name: DictionaryAttr({y: DenseArrayBase.from_list(i64, axes) for y, axes in cut.items()})
        for name, cut in claims.items()
    })  # fmt: skip
    return [p.message for p in check_padding(clone, main_of(clone))[0]]


def breaks(rule: str, of: Session, text: str, **claims: dict[str, list[int]]) -> None:
    """Whether a program that says this of its padding breaks this rule, and no other one."""
    found = problems_where(of.module, **claims)
    assert found
    assert all(problem.endswith(f" [{rule}]") for problem in found), found
    assert text in found[0]


def test_outputs_may_be_cut_where_they_are_padded(both: tuple[Session, Session]):
    assert not problems_where(both[0].module, batch={"y": [0]}, length={"y": [1]})


def test_g1_claims_are_about_dimensions_of_gears(both: tuple[Session, Session]):
    breaks("G1", both[0], "names 'rows', which is no dimension of the gears", rows={"y": [0]})
    breaks("G1", both[1], "there is no branch for sizes of inputs", batch={"y": [0]})


@pytest.mark.parametrize("axes", [[], [1]])
def test_g5_outputs_are_cut_where_they_are_padded(axes: list[int], both: tuple[Session, Session]):
    claims = {"batch": {"y": axes}}
    found = problems_where(both[0].module, **claims)
    assert "'y' is not cut along axis 0, along which it is padded with 'batch' [G5]" in found[0]
    if not axes:
        breaks("G5", both[0], "", **claims)


@pytest.mark.parametrize("axis", [2, 7, -1])
def test_g6_outputs_are_cut_where_they_grow(axis: int, both: tuple[Session, Session]):
    said = f"'y' is cut along axis {axis}, which does not grow with 'batch'"
    breaks("G6", both[0], said, batch={"y": [0, axis]})


def test_g3_padded_elements_do_not_mix_into_others(tmp_path: Path):
    """A softmax along the padded axis."""
    gears = session(body(UNSAFE["graph.softmax"]), tmp_path)
    breaks("G3", gears, "mixes padded elements along 'length'", length={"y": [1]})


def test_g7_numbers_do_not_follow_from_sizes(tmp_path: Path):
    """A mean divides by the size."""
    gears = session(body(UNSAFE["graph.cast"]), tmp_path)
    breaks("G7", gears, "has numbers that follow from", batch={"y": [0]}, length={"y": [1]})


def test_g4_padded_elements_lie_at_the_end(tmp_path: Path):
    """Rows of all batches behind each other: those of the last one alone end the output."""
    flat = "graph.reshape %x shape [-1, 8] : (T) -> tensor<?x8xf32>"
    text = body(f"  %y = {flat}\n  func.return %y : tensor<?x8xf32>\n", "?x8")
    gears = session(text, tmp_path)
    breaks("G4", gears, "along 'length' lie between others of output 'y'", length={"y": [0]})
