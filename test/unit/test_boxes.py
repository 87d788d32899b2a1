"""Boxes of operands, by brute force: what lies outside of them never changes the box of the result
by a bit, and they are no larger than they must be: each of their faces changes it."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))

from box_cases import CASES, F, Numbers, Operands, built, limits_of, random, value

from ge.dialects.fused_op import LinearOp
from ge.dialects.graph import Graph
from ge.dialects.graph import convolution as v
from ge.dialects.graph import elementwise as e
from ge.dialects.graph import image as i
from ge.dialects.graph import linear as m
from ge.dialects.graph import pooling as p
from ge.dialects.graph import quantization as q
from ge.dialects.graph import shape as s
from ge.dialects.graph import signal as g
from ge.dialects.graph.attention import AppendOp
from ge.dialects.graph.indexing import TensorScatterOp
from ge.dialects.graph.recurrent import GruOp, LstmOp, RnnOp
from ge.dialects.graph.sharding import AxisIndexOp
from ge.dialects.support.boxes import Access, Box, BoxInterface
from ge.dialects.support.tensor_op import TensorOp, split_axes
from ge.dialects.support.types import shape_of
from ge.runtime import numbers
from ge.runtime.data.arrays import Array
from ge.runtime.library.language.indices import Index
from ge.transforms.analysis.engines import COLLECTIVES

TRIALS = 200  # after which an element that changed nothing is not needed
BOXES = max(2, settings().max_examples // 8)

# axes along which boxes have elements that may not count: weights of windows that see padding
# alone, the block elements that do not reach a place, what no sample falls on, entries of a table
# that are not used, terms with sin 0, what no length turns to a place, rows written behind it,
# and of cells that run along a sequence what counts in other steps, or the other direction
LOOSE: dict[tuple[type[TensorOp], int], set[int]] = {
    (v.ConvOp, 1): {2, 3},
    (v.ConvTransposeOp, 1): {2, 3},
    (v.Col2ImOp, 0): {1},
    (v.DeformConvOp, 0): {1, 2, 3},
    (v.DeformConvOp, 1): {1, 2, 3},
    (v.DeformConvOp, 2): {1},
    (s.ReverseSequenceOp, 0): {1},
    (i.ResizeOp, 0): {2},
    (i.GridSampleOp, 0): {2, 3},
    (p.RoiAlignOp, 0): {0, 2, 3},
    (p.RoiAlignOp, 1): {1},
    (q.LookupOp, 1): {0},
    (TensorScatterOp, 1): {1},
    (AppendOp, 1): {1},
    (g.DftOp, 0): {1},
    (g.StftOp, 0): {1},
    (g.StftOp, 1): {0},
}
for _op in (RnnOp, GruOp, LstmOp):
    LOOSE |= {(_op, 0): {0}, (_op, 1): {1}, (_op, 2): {0, 1, 2}, (_op, 3): {1}}
FIXED = {g.DftOp, g.StftOp}
"""Ops of which a part of the result never changes: the imaginary part of a sum of real numbers."""
ANY = {
    "if", "case", "loop", "constant", "fill", "eye", "mel_weight_matrix", "map_index", "nonzero",
    "compress", "unique", "non_max_suppression", "max_unpool", "dynamic_quantize",
    "random_normal", "random_uniform", "derive_seed",
}  # fmt: skip
"""Ops that may need any element, or have no operands of many."""


def random_box(rng: np.random.Generator, shape: Sequence[int]) -> Box:
    sizes = tuple(int(rng.integers(1, d + 1)) for d in shape)
    return Box(tuple(int(rng.integers(0, d - n + 1)) for d, n in zip(shape, sizes)), sizes)


def region(box: Box, shape: Sequence[int]) -> tuple[slice, ...]:
    """What of a box lies within its value."""
    ends = [o + n for o, n in box.spans]
    return tuple(slice(max(o, 0), max(min(e, d), 0)) for o, e, d in zip(box.offsets, ends, shape))


class Perturbing:
    """One op, random operands, and what one box of a result becomes when they change."""

    def __init__(self, op: TensorOp, limits: Sequence[Numbers], seed: int):
        self.op, self.limits, self.rng = op, limits, np.random.default_rng(seed)
        self.result = int(self.rng.integers(len(op.results)))
        self.shape = shape_of(op.results[self.result])
        self.box = random_box(self.rng, self.shape)

    def drawn(self) -> list[Array]:
        return [random(self.rng, *v) for v in zip(self.op.operands, self.limits, strict=True)]

    def run(self, arrays: Sequence[Array]) -> bytes:
        with np.errstate(all="ignore"):
            result = np.asarray(numbers.evaluate(self.op, arrays)[self.result])
        return result[region(self.box, self.shape)].tobytes()

    def changes(self, index: int, where: Array) -> bool:
        """Whether other elements of an operand, where these are true, change the box."""
        arrays = self.drawn()
        other = list(arrays)
        other[index] = np.where(where, self.drawn()[index], arrays[index])
        return self.run(arrays) != self.run(other)

    def counts(self, index: int, where: Array) -> bool:
        return any(self.changes(index, where) for _ in range(TRIALS))

    def check(self, index: int) -> None:
        shape = shape_of(self.op.operands[index])
        box = self.op.operand_box(index, self.box, self.result) or Box.whole(shape)
        assert len(box.sizes) == len(shape)
        inside, text = np.zeros(shape, bool), f"operand {index}: {box} for {self.box}"
        inside[region(box, shape)] = True
        assert not any(self.changes(index, ~inside) for _ in range(3)), f"too small, {text}"
        loose = LOOSE.get((type(self.op), index), set())
        if not inside.any():
            return
        if (loose or type(self.op) in FIXED) and not self.counts(index, inside):
            return
        for axis in {*range(len(shape))} - loose:
            for end in (0, -1):
                face = np.zeros(shape, bool)
                within = [slice(*r.indices(d)) for r, d in zip(region(box, shape), shape)]
                at = within[axis].start if end == 0 else within[axis].stop - 1
                within[axis] = slice(at, at + 1)
                face[tuple(within)] = True
                if loose and (face == inside).all():  # whether any of it counts is left open
                    continue
                assert self.counts(index, face), f"axis {axis} too large at end {end}, {text}"


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


@pytest.mark.parametrize(
    ("kind", "operands", "params"), CASES, ids=[f"{i}-{c[0].name}" for i, c in enumerate(CASES)]
)
def test_ops_that_split_need_these_parts_of_operands(
    kind: type[TensorOp], operands: Operands, params: dict[str, Any]
):
    op = built(kind, operands, params)
    shape = shape_of(op.results[0])
    for axis, size in enumerate(shape):
        axes = split_axes(op, axis) or ()
        for index, own in enumerate(axes):
            extents = shape_of(op.operands[index])
            for part in range(size):
                box = op.operand_box(index, Box.part(shape, {axis: (part, 1)}))
                if own is not None:
                    many = extents[own] // size
                    assert box is not None
                    assert box.spans[own] == (part * many, many)


def test_ops_say_which_box_they_need():
    """What an op of no access of its own needs follows from nothing."""
    default = BoxInterface.operand_box
    says = (Access.POINTWISE, Access.VIEW)
    ops = [o for o in Graph.operations if issubclass(o, TensorOp) and o.ACCESS not in says]
    missing = {o for o in ops if o.operand_box is default}
    of_devices = {o for o in missing if issubclass(o, (*COLLECTIVES, AxisIndexOp))}
    assert {o.name.removeprefix("graph.") for o in missing - of_devices} == ANY


def test_boxes_of_a_fused_op_are_those_of_its_members():
    product = m.MatmulOp.of(value((8, 4), F), value((4, 6), F))
    turned = s.TransposeOp.of(product, permutation=[1, 0])
    total = e.AddOp.of(turned, value((6, 1), F))
    op = LinearOp.wrap([product, turned, total], total.results)
    boxes = [op.operand_box(index, Box((2, 0), (3, 5))) for index in range(3)]
    assert boxes == [Box((0, 0), (5, 4)), Box((0, 2), (4, 3)), Box((2, 0), (3, 1))]


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
