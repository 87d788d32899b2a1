"""Boxes of operands, by brute force: what lies outside of them never changes the box of the result
by a bit, and they are no larger than they must be: each of their faces changes it."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pytest
from xdsl.dialects.builtin import f16, f32, i1
from xdsl.ir import Attribute, Block, SSAValue

from ge.dialects.graph import elementwise as e
from ge.dialects.graph import shape as s
from ge.dialects.graph import slicing
from ge.dialects.support.boxes import Box
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import element_type, shape_of, tensor
from ge.lowering.tiles.indices import Index
from ge.runtime import kernels
from ge.runtime.data.arrays import Array, dtype_of

TRIALS = 12  # after which an element that changed nothing is not needed
BOXES = 6

Operand = tuple[tuple[int, ...], Attribute] | tuple[tuple[int, ...], Attribute, int] | None
"""Shape and element type; of indices also the number that they are below."""

Operands = Sequence[Operand | list[Operand]]

F = f32
CASES: list[tuple[type[TensorOp], Operands, dict[str, Any]]] = [
    # pointwise
    (e.AddOp, [((4, 5), F), ((4, 5), F)], {}),
    (e.SubOp, [((3, 1, 5), F), ((4, 1), F)], {}),
    (e.SelectOp, [((5,), i1), ((4, 5), F), ((), F)], {}),
    (e.CastOp, [((4, 5), F)], {"to": f16}),
    (e.ClampOp, [((4, 5), F), ((1,), F), None], {}),
    # views
    (s.ReshapeOp, [((6, 4), F)], {"shape": [24]}),
    (s.ReshapeOp, [((24,), F)], {"shape": [6, 4]}),
    (s.ReshapeOp, [((2, 3, 4), F)], {"shape": [24]}),
    (s.ReshapeOp, [((24, 5), F)], {"shape": [2, 3, 4, 5]}),
    (s.ReshapeOp, [((2, 3, 4, 1), F)], {"shape": [2, 1, 12]}),
    (s.SqueezeOp, [((1, 6, 1, 4), F)], {"axes": [0, 2]}),
    (s.UnsqueezeOp, [((6, 4), F)], {"axes": [1]}),
    # moves
    (s.TransposeOp, [((2, 3, 4), F)], {"permutation": [1, 2, 0]}),
    (s.BroadcastToOp, [((3, 1), F)], {"shape": [2, 3, 4]}),
    (s.TileOp, [((3, 4), F)], {"repeats": [2, 3]}),
    (slicing.ConcatOp, [[((3, 2), F), ((3, 1), F), ((3, 4), F)]], {"axis": 1}),
    (slicing.SplitOp, [((6, 4), F)], {"axis": 0, "sizes": [1, 3, 2], "results": 3}),
    (slicing.SliceOp, [((8, 9), F)], {"starts": [1, -1], "ends": [7, -9], "steps": [2, -3]}),
]


def value(shape: tuple[int, ...], element: Attribute) -> SSAValue:
    return Block(arg_types=[tensor(shape, element)]).args[0]


def built(kind: type[TensorOp], operands: Operands, params: dict[str, Any]) -> TensorOp:
    def given(operand: Operand) -> SSAValue | None:
        return None if operand is None else value(*operand[:2])

    values = [[given(v) for v in o] if isinstance(o, list) else given(o) for o in operands]
    return kind.of(*cast(Any, values), **params)


def limits_of(operands: Operands) -> list[int]:
    flat = [o for group in operands for o in (group if isinstance(group, list) else [group])]
    return [o[2] if len(o) > 2 else 100 for o in flat if o is not None]


def random(rng: np.random.Generator, v: SSAValue, limit: int) -> Array:
    dtype = dtype_of(element_type(v))
    if dtype.kind == "b":
        return rng.integers(0, 2, shape_of(v)).astype(bool)
    if dtype.kind in "iu":
        return rng.integers(0, limit, shape_of(v)).astype(dtype)
    return rng.standard_normal(shape_of(v)).astype(dtype)


def random_box(rng: np.random.Generator, shape: Sequence[int]) -> Box:
    sizes = tuple(int(rng.integers(1, d + 1)) for d in shape)
    return Box(tuple(int(rng.integers(0, d - n + 1)) for d, n in zip(shape, sizes)), sizes)


def region(box: Box, shape: Sequence[int]) -> tuple[slice, ...]:
    """What of a box lies within its value."""
    ends = [o + n for o, n in box.spans]
    return tuple(slice(max(o, 0), max(min(e, d), 0)) for o, e, d in zip(box.offsets, ends, shape))


class Perturbing:
    """One op, random operands, and what one box of a result becomes when they change."""

    def __init__(self, op: TensorOp, limits: Sequence[int], seed: int):
        self.op, self.limits, self.rng = op, limits, np.random.default_rng(seed)
        self.result = int(self.rng.integers(len(op.results)))
        self.shape = shape_of(op.results[self.result])
        self.box = random_box(self.rng, self.shape)

    def drawn(self) -> list[Array]:
        return [random(self.rng, *v) for v in zip(self.op.operands, self.limits, strict=True)]

    def run(self, arrays: Sequence[Array]) -> bytes:
        with np.errstate(all="ignore"):
            result = np.asarray(kernels.evaluate(self.op, arrays)[self.result])
        return result[region(self.box, self.shape)].tobytes()

    def changes(self, index: int, where: Array) -> bool:
        """Whether other elements of an operand, where these are true, change the box."""
        arrays = self.drawn()
        other = list(arrays)
        other[index] = np.where(where, self.drawn()[index], arrays[index])
        return self.run(arrays) != self.run(other)

    def check(self, index: int) -> None:
        shape = shape_of(self.op.operands[index])
        box = self.op.operand_box(index, self.box, self.result) or Box.whole(shape)
        assert len(box.sizes) == len(shape)
        inside, text = np.zeros(shape, bool), f"operand {index}: {box} for {self.box}"
        inside[region(box, shape)] = True
        assert not any(self.changes(index, ~inside) for _ in range(3)), f"too small, {text}"
        if not inside.any():
            return
        for axis in range(len(shape)):
            for end in (0, -1):
                face = np.zeros(shape, bool)
                within = [slice(*r.indices(d)) for r, d in zip(region(box, shape), shape)]
                at = within[axis].start if end == 0 else within[axis].stop - 1
                within[axis] = slice(at, at + 1)
                face[tuple(within)] = True
                needed = any(self.changes(index, face) for _ in range(TRIALS))
                assert needed, f"axis {axis} too large at end {end}, {text}"


@pytest.mark.parametrize(
    ("kind", "operands", "params"), CASES, ids=[f"{i}-{c[0].name}" for i, c in enumerate(CASES)]
)
def test_boxes_are_those_that_are_needed(
    kind: type[TensorOp], operands: Operands, params: dict[str, Any]
):
    op = built(kind, operands, params)
    for seed in range(BOXES):
        perturbing = Perturbing(op, limits_of(operands), seed)
        for index in range(len(op.operands)):
            perturbing.check(index)


def test_boxes_that_a_core_computes():
    """Offsets that are numbers of a core give boxes for all of its values; what divides them is
    known, so that a box of a reshape is no larger than it must be."""
    core = Index("core")
    rows = built(s.ReshapeOp, [((24, 4), F)], {"shape": [2, 12, 4]})
    box = rows.operand_box(0, Box((core, core * 4, 0), (1, 4, 4)))
    assert box is not None
    assert box.sizes == (4, 4)
    heads = built(s.ReshapeOp, [((24, 4), F)], {"shape": [96]})
    sizes = {at: heads.operand_box(0, Box((at,), (8,))) for at in (core * 8, core * 2, core)}
    assert [b and b.sizes for b in sizes.values()] == [(2, 4), (3, 4), (3, 4)]
