"""Boxes of operands, by brute force: what lies outside of them never changes the box of the result
by a bit, and they are no larger than they must be: each of their faces changes it."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import settings
from xdsl.dialects.builtin import f16, f32, i1, i8, i32, i64
from xdsl.ir import Attribute, Block, SSAValue

from ge.dialects.fused_op import LinearOp
from ge.dialects.graph import Graph, slicing
from ge.dialects.graph import attention as a
from ge.dialects.graph import cache as c
from ge.dialects.graph import convolution as v
from ge.dialects.graph import elementwise as e
from ge.dialects.graph import image as i
from ge.dialects.graph import indexing as x
from ge.dialects.graph import linear as m
from ge.dialects.graph import normalization as n
from ge.dialects.graph import pooling as p
from ge.dialects.graph import quantization as q
from ge.dialects.graph import recurrent as u
from ge.dialects.graph import reduction as r
from ge.dialects.graph import shape as s
from ge.dialects.graph import signal as g
from ge.dialects.support.access import Access
from ge.dialects.support.boxes import Box, BoxInterface
from ge.dialects.support.interfaces import split_axes
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import element_type, shape_of, tensor
from ge.lowering.tiles.indices import Index
from ge.runtime import kernels
from ge.runtime.data.arrays import Array, dtype_of

TRIALS = 200  # after which an element that changed nothing is not needed
BOXES = max(2, settings().max_examples // 8)

Numbers = int | range
Operand = tuple[tuple[int, ...], Attribute] | tuple[tuple[int, ...], Attribute, Numbers] | None
"""Shape and element type; of integers also which they are, or the number that they are below."""

Operands = Sequence[Operand | list[Operand]]

F = f32
B = (2, 2, 4, 2)  # attention: batch, heads, tokens, elements
K = (2, 2, 6, 2)
TOKENS_FIRST = {"query_tokens_first": True, "value_tokens_first": True}
INTERLEAVED = {"interleaved": True, "full_tables": True}
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
    (s.DepthToSpaceOp, [((2, 8, 2, 3), F)], {"block": 2}),
    (s.DepthToSpaceOp, [((2, 8, 2, 3), F)], {"block": 2, "mode": "crd"}),
    (s.SpaceToDepthOp, [((1, 2, 4, 6), F)], {"block": 2}),
    (s.SpaceToDepthOp, [((1, 2, 4, 6), F)], {"block": 2, "mode": "crd"}),
    (s.ReverseSequenceOp, [((3, 4), F), ((3,), i64, 5)], {"batch_axis": 0, "time_axis": 1}),
    (slicing.PadOp, [((4, 5), F), None, None, ((), F)], {"pads": [1, 2, -1, 3]}),
    (slicing.PadOp, [((4, 5), F)], {"pads": [2, 1], "axes": [1], "mode": "edge"}),
    (slicing.PadOp, [((4, 5), F)], {"pads": [2, -1, 3, 1], "mode": "reflect"}),
    (slicing.PadOp, [((4, 5), F)], {"pads": [2, -1, 3, 1], "mode": "wrap"}),
    (slicing.SliceOp, [((8, 9), F)], {"starts": [1, -1], "ends": [7, -9], "steps": [2, -3]}),
    # elements at indices
    (x.GatherOp, [((5, 4), F), ((2, 3), i64, 5)], {"axis": 0}),
    (x.GatherOp, [((3, 5, 4), F), ((), i64, 5)], {"axis": 1}),
    (x.GatherElementsOp, [((5, 4), F), ((3, 4), i64, 5)], {"axis": 0}),
    (x.GatherNdOp, [((2, 3, 4, 5), F), ((2, 6, 1), i64, 3)], {"batch_dims": 1}),
    (x.ScatterElementsOp, [((3, 4), F), ((3, 2), i64, 4), ((3, 2), F)], {"axis": 1}),
    (x.ScatterNdOp, [((3, 4), F), ((2, 1), i64, 3), ((2, 4), F)], {"reduction": "add"}),
    (x.TensorScatterOp, [((2, 5, 3), F), ((2, 2, 3), F), ((2,), i64, 4)], {}),
    (x.OneHotOp, [((3, 4), i64, 5), None, ((2,), F)], {"depth": 5}),
    (x.TopKOp, [((3, 6), F)], {"k": 4}),
    (c.AppendOp, [((2, 6, 3), F), ((2, 2, 3), F), ((), i64, range(2, 7))], {"axis": 1}),
    # rows
    (n.SoftmaxOp, [((3, 4, 2), F)], {"axis": 1}),
    (n.SoftmaxOp, [((3, 4, 2), F)], {"axis": 1, "flatten": True}),
    (n.LayerNormOp, [((2, 3, 8), F), ((8,), F), ((3, 1), F)], {"axis": 1}),
    (n.RmsNormOp, [((3, 8), F), ((8,), F)], {}),
    (n.GroupNormOp, [((2, 6, 4), F), ((6,), F), ((6,), F)], {"groups": 3}),
    (n.BatchNormOp, [((2, 3, 4), F), *[((3,), F)] * 4], {}),
    (r.ReduceOp, [((3, 4, 5), F)], {"kind": "sum", "axes": [0, 2], "keep_dims": False}),
    (r.ReduceOp, [((3, 4, 5), F)], {"kind": "max", "axes": [1]}),
    (r.ArgReduceOp, [((3, 8), F)], {"kind": "max", "axis": 1}),
    (r.CumulativeOp, [((3, 6), F)], {"kind": "sum", "axis": 1}),
    (r.CumulativeOp, [((6, 3), F)], {"kind": "sum", "axis": 0, "exclusive": True}),
    (r.CumulativeOp, [((3, 6), F)], {"kind": "sum", "axis": 1, "reverse": True}),
    # matrices
    (m.MatmulOp, [((2, 3, 4), F), ((4, 5), F)], {}),
    (m.MatmulOp, [((4, 3), F), ((2, 1, 5, 4), F)], {"transpose_lhs": True, "transpose_rhs": True}),
    (m.GroupedMatmulOp, [((5, 2, 3), F), ((4, 3, 6), F), ((5,), i64, 4)], {}),
    (
        m.GroupedMatmulOp,
        [((3, 1, 1, 4), F), ((2, 5, 4), F), ((3, 2), i64, 2)],
        {"transpose_rhs": True},
    ),
    (m.EinsumOp, [[((3, 4), F), ((4, 1, 5), F)]], {"equation": "ij,jkl->lik"}),
    (m.DetOp, [((4, 2, 2), F)], {}),
    # windows
    (v.ConvOp, [((2, 3, 6, 7), F), ((4, 3, 2, 3), F), ((4,), F)], {"pads": [1, 0, 0, 2]}),
    (v.ConvOp, [((1, 4, 9), F), ((6, 2, 2), F)], {"group": 2, "strides": [2], "dilations": [3]}),
    (v.ConvOp, [((1, 6, 3), F), ((3, 3, 2), F)], {"input_channels_last": True}),
    (v.ConvOp, [((1, 2, 7), F), ((2, 2, 3), F)], {"strides": [2], "auto_pad": "same_upper"}),
    (v.ConvTransposeOp, [((1, 2, 4, 3), F), ((2, 3, 3, 2), F), ((3,), F)], {"strides": [2, 3]}),
    (v.ConvTransposeOp, [((1, 4, 5), F), ((4, 1, 2), F)], {"group": 2, "dilations": [2]}),
    (v.Col2ImOp, [((1, 8, 9), F)], {"image_shape": [4, 4], "block_shape": [2, 2]}),
    (p.PoolOp, [((1, 2, 6, 5), F)], {"kind": "max", "kernel": [3, 2], "pads": [1, 0, 1, 0]}),
    (p.PoolOp, [((2, 1, 9), F)], {"kind": "average", "kernel": [3], "strides": [2]}),
    (p.MaxPoolIndicesOp, [((1, 2, 8), F)], {"kernel": [2], "strides": [2]}),
    (p.LrnOp, [((1, 6, 3), F)], {"size": 4}),
    (v.DeformConvOp, [((2, 4, 4, 4), F), ((2, 2, 2, 2), F), ((2, 8, 3, 3), F)], {"group": 2}),
    (i.ResizeOp, [((1, 2, 3, 4), F)], {"sizes": [1, 2, 6, 12]}),
    (i.ResizeOp, [((1, 2, 4), F)], {"sizes": [1, 2, 7], "mode": "linear"}),
    (i.GridSampleOp, [((2, 3, 3, 4), F), ((2, 4, 2, 2), F)], {}),
    (i.AffineGridOp, [((2, 2, 3), F)], {"size": [2, 1, 3, 4]}),
    (p.RoiAlignOp, [((2, 3, 4, 4), F), ((3, 4), F), ((3,), i64, 2)], {"output_size": [2, 2]}),
    # attention
    (a.AttentionOp, [(B, F), (B, F), (B, F), [((4, 4), F)]], {}),
    (a.AttentionOp, [(B, F), (K, F), (K, F)], {"causal": True, "left_window": 1, "offset": 1}),
    (a.AttentionOp, [((1, 2, 6, 2), F), ((1, 3, 2, 2), F), ((1, 2, 3, 2), F)], TOKENS_FIRST),
    (a.AttentionScoresOp, [(B, F), (B, F)], {"stage": "biased"}),
    (a.AttentionScoresOp, [(B, F), (B, F)], {"stage": "weights"}),
    (a.RotaryEmbeddingOp, [((2, 3, 8), F), ((3, 3), F), ((3, 3), F)], {}),
    (a.RotaryEmbeddingOp, [((2, 8), F), ((6,), F), ((6,), F)], INTERLEAVED),
    # integers
    (q.QuantizeOp, [((3, 4), F), ((4,), F), ((4,), i8)], {"to": i8, "axis": 1}),
    (q.DequantizeOp, [((3, 9), i8), ((3, 3), F)], {"axis": 1, "block_size": 3}),
    (q.RequantizeOp, [((3, 4), i32, 999), ((3,), F)], {"to": i8, "axis": 0}),
    (q.LookupOp, [((3, 4), i8), ((256,), F)], {}),
    # signals and sequences
    (g.DftOp, [((2, 5, 1), F)], {"axis": 1}),
    (g.StftOp, [((2, 9, 1), F), ((3,), F)], {"frame_step": 2, "frame_length": 3}),
    (u.RnnOp, [((4, 2, 3), F), ((1, 5, 3), F), ((1, 5, 5), F), ((1, 10), F)], {}),
    (u.GruOp, [((3, 2, 3), F), ((2, 6, 3), F), ((2, 6, 2), F)], {"direction": "bidirectional"}),
]

# axes along which boxes have elements that may not count: weights of windows that see padding
# alone, the block elements that do not reach a place, what no sample falls on, entries of a table
# that are not used, terms with sin 0, what no length turns to a place
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
    (g.DftOp, 0): {1},
    (g.StftOp, 0): {1},
    (g.StftOp, 1): {0},
}
FIXED = {g.DftOp, g.StftOp}
"""Ops of which a part of the result never changes: the imaginary part of a sum of real numbers."""
ANY = {
    "if", "case", "loop", "constant", "fill", "eye", "mel_weight_matrix", "map_index", "nonzero",
    "compress", "unique", "non_max_suppression", "max_unpool", "dynamic_quantize",
    "random_normal", "random_uniform", "derive_seed",
}  # fmt: skip
"""Ops that may need any element, or have no operands of many."""


def value(shape: tuple[int, ...], element: Attribute) -> SSAValue:
    return Block(arg_types=[tensor(shape, element)]).args[0]


def built(kind: type[TensorOp], operands: Operands, params: dict[str, Any]) -> TensorOp:
    def given(operand: Operand) -> SSAValue | None:
        return None if operand is None else value(*operand[:2])

    values = [[given(v) for v in o] if isinstance(o, list) else given(o) for o in operands]
    return kind.of(*cast(Any, values), **params)


def limits_of(operands: Operands) -> list[Numbers]:
    flat = [o for group in operands for o in (group if isinstance(group, list) else [group])]
    return [o[2] if len(o) > 2 else 100 for o in flat if o is not None]


def random(rng: np.random.Generator, v: SSAValue, limit: Numbers) -> Array:
    dtype = dtype_of(element_type(v))
    if dtype.kind == "b":
        return rng.integers(0, 2, shape_of(v)).astype(bool)
    if dtype.kind in "iu":
        among = range(limit) if isinstance(limit, int) else limit
        return rng.integers(among.start, among.stop, shape_of(v)).astype(dtype)
    eighths = rng.integers(-64, 65, shape_of(v))  # sums of products of these are exact in any order
    return (eighths / 8).astype(dtype)


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
            result = np.asarray(kernels.evaluate(self.op, arrays)[self.result])
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
        if not inside.any() or (type(self.op) in FIXED and not self.counts(index, inside)):
            return
        for axis in {*range(len(shape))} - LOOSE.get((type(self.op), index), set()):
            for end in (0, -1):
                face = np.zeros(shape, bool)
                within = [slice(*r.indices(d)) for r, d in zip(region(box, shape), shape)]
                at = within[axis].start if end == 0 else within[axis].stop - 1
                within[axis] = slice(at, at + 1)
                face[tuple(within)] = True
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
    missing = {o.name.removeprefix("graph.") for o in ops if o.operand_box is default}
    assert missing == ANY


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
