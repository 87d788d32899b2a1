"""Ops of each kind with operands, for tests of what they say of the elements that they need."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import f16, f32, i1, i8, i32, i64
from xdsl.ir import Attribute, Block, SSAValue

from ge.dialects.graph import attention as a
from ge.dialects.graph import attention as c
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
from ge.dialects.graph import slicing
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import element_type, shape_of, tensor
from ge.runtime.data.arrays import Array, dtype_of

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
    (m.GroupedMatmulOp, [((5, 3), F), ((2, 3, 6), F)], {"rows": [2, 3]}),
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
