"""Results written over operands, in the proof of tile programs and on emulated cores."""

import sys
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.context import Context

from ge.dialects.npu_task.attributes import number
from ge.dialects.support.functions import main_function
from ge.dialects.support.types import Shape
from ge.dialects.targets.target import Target
from ge.dialects.text.reading import SourceText, parse_module
from ge.dialects.tile.kernel import KernelOp
from ge.lowering.building import tile_kernels as tile
from ge.lowering.building.tile_kernels import Tensor, TileProgram
from ge.lowering.driver.compiler import context, load
from ge.lowering.steps.lower_kernels import LowerKernelsPass
from ge.runtime.check.tile_device import Bounds, Use, boxes_in, common_shape
from ge.runtime.check.tiles import KernelProof, check_kernel, check_kernels, uses_of
from ge.runtime.cores.kernel import TileKernel

sys.path.insert(0, str(Path(__file__).parent))
from test_tiles_of_models import compiled

OVER = frozenset({(1, 0)})  # the second argument lies where the first one does
TARGET = Target.load("910b2")


@tile.kernel(shift=0, again=False, add=False, unused=False)
def doubled(c: Any, x: Any, out: Any, shift: int, again: bool, add: bool, unused: bool) -> None:
    t, rest = c.ub(16, 32, "f32", copies=2), c.ub(16, 32, "f32")
    for i in c.share(4):
        c.load(t[i], x[i * 16 + shift :], pad=0)
        if unused:
            c.load(rest, x[i * 16 :])
        t[i] = t[i] * 2
        c.store(out[i * 16 :], t[i], add=add)
        if again:
            c.load(t[i], x[i * 16 :])
            t[i] = t[i] * 2
            c.store(out[i * 16 :], t[i])


def program(cores: int = 2, **parameters: Any) -> TileProgram:
    x = Tensor((64, 32), "f32")
    return doubled.on(x, x, cores=cores, target="910b2", **parameters)


def proof(of: TileProgram, *sharings: Any) -> KernelProof:
    return check_kernel(of.kernel, TARGET, Use(frozenset(sharings)))


def goes_wrong(rules: set[str], **parameters: Any) -> None:
    """These rules are broken, which cannot be seen where the arguments share nothing, and runs
    differ."""
    wrong = program(**parameters)
    assert not proof(wrong, frozenset()).problems
    assert {p.rule for p in proof(wrong, frozenset(), OVER).problems} == rules
    x = np.random.default_rng(0).standard_normal((64, 32), np.float32)
    results = [
        TileKernel(wrong.kernel, TARGET).run({"x": x}, seed, over=over)["out"].tobytes()
        for over in (None, {"out": "x"})
        for seed in range(5)
    ]
    assert len(set(results)) > 1


def test_t3_rows_that_another_core_reads_over_an_operand():
    goes_wrong({"T3"}, shift=8)


def test_rows_that_a_core_has_written_over_are_read_late():
    goes_wrong({"T1", "T10"}, shift=-8, cores=1)


def test_t10_an_operand_is_not_read_after_a_result_is_written_over_it():
    goes_wrong({"T10"}, again=True)


def test_t11_sums_are_not_added_to_an_operand():
    goes_wrong({"T11"}, add=True)


def test_what_is_right_over_an_operand():
    """Loads whose tile nothing reads may come too late."""
    for parameters in ({}, {"unused": True}):
        right = program(**parameters)
        text = proof(right, OVER).summary
        assert text.endswith("in any order of the pipes, with %out over %x"), text
        assert proof(right, frozenset(), OVER).summary.endswith(", also with %out over %x")
        x = np.random.default_rng(0).standard_normal((64, 32), np.float32)
        for seed in range(5):
            (out,) = (
                TileKernel(right.kernel, TARGET).run({"x": x}, seed, over={"out": "x"}).values()
            )
            assert (out == 2 * x).all()


@tile.kernel()
def heads(c: Any, x: Any, out: Any) -> None:
    t = c.ub(8, 16, "f32", copies=2)
    for i in c.share(4):
        c.store(out[:, i], c.load(t[i], x[:, i * 16 :]))


def test_an_element_is_the_same_in_other_shapes():
    kernel = heads.on(Tensor((8, 64), "f32"), Tensor((8, 4, 16), "f32"), cores=4, target="910b2")
    assert not proof(kernel, OVER).problems


@tile.kernel(rows=32)
def halves(c: Any, x: Any, out: Any, rows: int) -> None:
    """Only some rows of the result, and none of the operand"""
    t = c.ub(16, 32, "f32")
    for i in c.share(rows // 16):
        c.fill(t, 1)
        c.store(out[i * 16 :], t)


@pytest.mark.parametrize("sharing", [frozenset[tuple[int, int]](), OVER])
def test_elements_that_nothing_stores_are_missing_over_an_operand_too(sharing: Any):
    """Whether cores load the operand or not: only where the launch's op says that the others stay
    may a program leave them out, and then it stores as many as the op says."""
    x = Tensor((64, 32), "f32")
    program = halves.on(x, x, cores=2, target="910b2")
    for in_part in ({}, {1: 512}, {1: 1024}, {1: 1536}):
        use = Use(frozenset([sharing]), frozenset([1]), frozenset(in_part.items()))
        problems = check_kernel(program.kernel, TARGET, use).problems
        said = "1024 elements of %out are stored over an operand, not"
        missing = "elements of %out, from [32, 0] on, are stored by no core"
        wanted = said if sharing and in_part else missing
        right = sharing == OVER and in_part == {1: 1024}
        assert [wanted in p.message for p in problems] == ([] if right else [True])


APPEND = """
npu_task.kernel @append on vector {
^bb0(%c: tensor<2x16x32xf32>, %r: tensor<2x5x32xf32>, %n: tensor<i64>):
  %0 = graph.append %c, %r at %n axis 1
    : (tensor<2x16x32xf32>, tensor<2x5x32xf32>, tensor<i64>) -> tensor<2x16x32xf32>
  npu_task.return %0 : tensor<2x16x32xf32>
}
func.func @main(%c: memref<2x16x32xf32, "hbm">,
                %r: memref<2x5x32xf32, "hbm">,
                %n: memref<i64, "hbm">) {
  npu_task.launch @append on 0
    ins(%c, %r, %n : memref<2x16x32xf32, "hbm">,
        memref<2x5x32xf32, "hbm">, memref<i64, "hbm">)
    outs(%c : memref<2x16x32xf32, "hbm">)
  func.return
}
"""


def test_all_rows_are_appended():
    module = parse_module(context(), SourceText("append.mlir", APPEND))
    LowerKernelsPass("910b2", finish=True).apply(Context(), module)
    (proof,) = check_kernels(module, TARGET)
    assert not proof.problems
    assert "with %out0 over %in0" in proof.summary
    (program,) = (op for op in module.ops if isinstance(op, KernelOp))
    program.properties["cores"] = number(program.core_count - 1)
    (proof,) = check_kernels(module, TARGET)
    assert proof.problems


SHAPES = [((8, 6), (2, 4, 6)), ((8, 6), (48,)), ((4, 1, 6), (2, 12)), ((6, 4), (3, 2, 4)),
          ((6, 4), (4, 6)), ((1,), (1, 1)), ((5, 4, 3), (20, 3))]  # fmt: skip


@given(st.data(), st.sampled_from([*SHAPES, *((b, a) for a, b in SHAPES)]))
def test_boxes_in_another_shape(data: st.DataObject, shapes: tuple[Any, Any]):
    own, _ = shapes
    common = common_shape(shapes)
    ends = [sorted(data.draw(st.tuples(*[st.integers(0, d)] * 2))) for d in own]
    bounds = tuple((a, max(b, a + 1)) if b < d else (min(a, d - 1), d)
                   for (a, b), d in zip(ends, own, strict=True))  # fmt: skip

    def numbers(shape: Shape, box: Bounds) -> list[int]:
        part = np.arange(prod(shape)).reshape(shape)[tuple(slice(a, b) for a, b in box)]
        return [int(n) for n in part.ravel()]

    wanted = numbers(own, bounds)
    found = [n for box in boxes_in(common, bounds, own) for n in numbers(common, box)]
    assert len(set(found)) == len(found)
    if common == (prod(own),):
        assert set(wanted) <= set(found) <= set(range(min(wanted), max(wanted) + 1))
    else:
        assert sorted(found) == wanted


CHAIN = """
func.func @main(%x: tensor<9x512xf32>) -> tensor<9x512xf32> {
  %0 = graph.relu %x : (tensor<9x512xf32>) -> tensor<9x512xf32>
  %1 = graph.exp %0 : (tensor<9x512xf32>) -> tensor<9x512xf32>
  %2 = graph.neg %1 : (tensor<9x512xf32>) -> tensor<9x512xf32>
  func.return %2 : tensor<9x512xf32>
}
"""


def test_sharing_is_what_the_plan_has(tmp_path: Path):
    path = compiled(tmp_path, CHAIN, "--target", "910b2", "--tiles")
    session = load(str(path))
    assert main_function(session.module) is not None
    uses = uses_of(session.module)
    assert uses["exp_0_tiles"].sharings == {OVER} == uses["neg_0_tiles"].sharings
    assert uses["relu_0_tiles"].sharings == {frozenset()}
    proofs = {p.name: p.summary for p in check_kernels(session.module)}
    assert proofs["exp_0_tiles"].endswith("with %out0 over %in0")
    x = np.random.default_rng(0).standard_normal((9, 512), np.float32)
    for tiles in ("all", "sample:1"):
        (out,) = session.session(tiles=tiles).run({"arg0": x}).values()
        np.testing.assert_allclose(out, -np.exp(np.maximum(x, 0)), rtol=1e-6)
