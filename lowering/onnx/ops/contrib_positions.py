"""onnxruntime's RotaryEmbedding, and the numbers of tokens that its ops of attention count with."""

import numpy as np
from xdsl.dialects.builtin import i32, i64
from xdsl.ir import Attribute, SSAValue

from ge.dialects.graph import elementwise as e
from ge.dialects.graph.creation import RangeOp
from ge.dialects.graph.indexing import GatherOp
from ge.dialects.graph.shape import ReshapeOp, ShapeOfOp, SqueezeOp, UnsqueezeOp
from ge.dialects.graph.slicing import SliceOp
from ge.dialects.support.types import DYNAMIC, element_type, rank_of, shape_of
from ge.lowering.onnx.contrib import ANY, contrib_op
from ge.lowering.onnx.ops.attention import rotate, split_heads
from ge.lowering.onnx.registry import Node, Unsupported


def size_of(n: Node, x: SSAValue, axis: int) -> SSAValue:
    """A dimension as i64 [1]: a constant where it is known."""
    size = shape_of(x)[axis]
    return n.const([size]) if size != DYNAMIC else n.emit(ShapeOfOp, x, start=axis, end=axis + 1)


def counted(n: Node, x: SSAValue, axis: int, element: Attribute = i64) -> SSAValue:
    """0, 1, 2, ... for each index of a dimension, as i64 or i32."""
    size = shape_of(x)[axis]
    if size != DYNAMIC:
        return n.const(np.arange(size), element)
    limit = n.emit(SqueezeOp, size_of(n, x, axis), axes=(0,))
    numbers = n.emit(RangeOp, n.const(0), limit, n.const(1))
    return n.emit(e.CastOp, numbers, to=element) if element == i32 else numbers


def rows_from(n: Node, table: SSAValue, start: int, x: SSAValue, axis: int) -> SSAValue:
    """As many rows of a table, from a known one on, as x has indices of a dimension: [1, S, R]."""
    size = shape_of(x)[axis]
    if size == DYNAMIC:
        end = n.emit(e.AddOp, size_of(n, x, axis), n.const([start]))
        rows = n.emit(SliceOp, table, None, end, starts=(start,), axes=(0,))
    else:
        rows = n.emit(SliceOp, table, starts=(start,), ends=(start + size,), axes=(0,))
    return n.emit(UnsqueezeOp, rows, axes=(0,))


def as_i64(n: Node, x: SSAValue) -> SSAValue:
    return x if element_type(x) == i64 else n.emit(e.CastOp, x, to=i64)


def _tables(n: Node, tokens: int) -> list[SSAValue]:
    """Cosines and sines [B or 1, S, R / 2] at the positions of the node: [B, S] of them, or one
    that the first token has. The input has its tokens in dimension `tokens`."""
    positions = n[1]
    if rank_of(positions) == 2:
        return [n.emit(GatherOp, t, positions, axis=0) for t in (n[2], n[3])]
    if (known := n.constant_ints(1)) is not None and len(known) == 1:
        return [rows_from(n, t, known[0], n[0], tokens) for t in (n[2], n[3])]
    places = n.emit(e.AddOp, counted(n, n[0], tokens), as_i64(n, positions))
    places = n.emit(ReshapeOp, places, shape=(1, -1))
    return [n.emit(GatherOp, t, places, axis=0) for t in (n[2], n[3])]


def _heads(n: Node) -> int:
    """The number of heads of an input [B, S, hidden]: the tables say how large one is, but for
    heads of which a part is rotated."""
    if n.int("rotary_embedding_dim"):
        return n.int("num_heads")
    hidden, pairs = n.shape(0)[2], n.shape(2)[1]
    if DYNAMIC in (hidden, pairs) or not pairs or hidden % (2 * pairs):
        raise Unsupported(f"{hidden} elements do not make heads of {2 * pairs}")
    return hidden // (2 * pairs)


@contrib_op(
    "RotaryEmbedding",
    ranks={0: (3, 4), 1: (1, 2), 2: (2,), 3: (2,)},
    interleaved=ANY, is_packed_batching=ANY, num_heads=ANY, rotary_embedding_dim=ANY, scale=ANY,
)  # fmt: skip
def rotary_embedding(n: Node) -> SSAValue:
    """Of [B, S, N * H], or [B, N, S, H]. onnxruntime reads `scale` and `is_packed_batching`, and
    computes the same with them."""
    flat = n.rank(0) == 3
    cos, sin = _tables(n, 1 if flat else 2)
    x = split_heads(n, n[0], _heads(n)) if flat else n[0]
    y = rotate(n, x, cos, sin, 2 if flat else 1, bool(n.int("interleaved")))
    return n.emit(ReshapeOp, y, shape=(0, 0, -1)) if flat else y
