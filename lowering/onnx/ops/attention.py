"""ONNX's Attention and RotaryEmbedding: splitting heads, caches and gathering by position are ops
of their own around the core."""

from xdsl.dialects.builtin import i1
from xdsl.ir import SSAValue

from ge.dialects.graph.attention import STAGES, AttentionOp, AttentionScoresOp, RotaryEmbeddingOp
from ge.dialects.graph.indexing import GatherOp
from ge.dialects.graph.shape import ReshapeOp, ShapeOfOp, TransposeOp, UnsqueezeOp
from ge.dialects.graph.slicing import ConcatOp, SliceOp
from ge.dialects.support.tensor_op import Param
from ge.dialects.support.types import DYNAMIC, element_type, shape_of
from ge.lowering.onnx.registry import Node, Unsupported, onnx_op


def split_heads(n: Node, x: SSAValue, heads: int) -> SSAValue:
    """[B, S, heads * E] as [B, S, heads, E]."""
    if heads < 1:
        raise Unsupported("the number of heads is missing")
    return n.emit(ReshapeOp, x, shape=(0, 0, heads, -1))


def swap_heads(n: Node, x: SSAValue) -> SSAValue:
    """[B, S, heads, E] as [B, heads, S, E], or back."""
    return n.emit(TransposeOp, x, permutation=(0, 2, 1, 3))


def _heads_first(n: Node, index: int, heads: str) -> SSAValue:
    if n.rank(index) == 4:
        return n[index]
    return swap_heads(n, split_heads(n, n[index], n.int(heads)))


def _positions(n: Node) -> dict[str, Param]:
    windows: dict[str, Param] = {
        "left_window": n.int("left_window_size", -1),
        "right_window": n.int("right_window_size", -1),
    }
    return {"causal": bool(n.int("is_causal")), **windows}


def first_position(n: Node, past: SSAValue | None) -> tuple[SSAValue | None, int | None]:
    """Position of the first query among the keys, behind those of the past: operand or number."""
    if past is None:
        return None, 0
    length = shape_of(past)[2]
    return (n.emit(ShapeOfOp, past, start=2, end=3), None) if length == DYNAMIC else (None, length)


def _mask(n: Node, query: SSAValue) -> SSAValue | None:
    """The mask: truth values, or numbers of any type, which are added to scores."""
    mask = n.get(3)
    if mask is None or element_type(mask) == i1:
        return mask
    return n.cast(mask, element_type(query))


@onnx_op("Attention")
def attention(n: Node) -> SSAValue | tuple[SSAValue | None, ...]:
    """`softmax_precision` needs no word: scores are never computed in less than float32."""
    flat = n.rank(0) == 3
    q = _heads_first(n, 0, "q_num_heads")
    k, v = (_heads_first(n, i, "kv_num_heads") for i in (1, 2))
    if (past_key := n.get(4)) is not None:
        k = n.emit(ConcatOp, [past_key, k], axis=2)
        v = n.emit(ConcatOp, [n[5], v], axis=2)
    present = k, v
    mask = _mask(n, q)
    if mask is not None and shape_of(mask):
        known, keys = shape_of(mask)[-1], shape_of(k)[2]
        if DYNAMIC not in (known, keys) and known < keys:  # the mask keeps out all after it
            if n.wants(3):
                raise Unsupported("scores of keys that the mask leaves out")
            k, v = (n.emit(SliceOp, x, starts=(0,), ends=(known,), axes=(2,)) for x in (k, v))
    offset_value, offset = (None, None) if past_key is None else first_position(n, past_key)
    params: dict[str, Param] = {
        **_positions(n),
        "offset": offset,
        "scale": n.given_float("scale"),
        "softcap": n.float("softcap"),
    }
    masks = () if mask is None else (mask,)
    y = n.emit(AttentionOp, q, k, v, masks, n.get(6), offset_value, **params)
    if flat:
        y = n.emit(ReshapeOp, swap_heads(n, y), shape=(0, 0, -1))
    if not n.wants(3):
        return y if len(n.proto.output) == 1 else (y, *present)
    stage = STAGES[n.int("qk_matmul_output_mode")]
    scores = n.emit(AttentionScoresOp, q, k, masks, n.get(6), offset_value, stage=stage, **params)
    return (y, *present, scores)


@onnx_op("RotaryEmbedding")
def rotary_embedding(n: Node) -> SSAValue:
    """The tables are gathered by position first, and get a dimension for the heads."""
    x, cos, sin = n[0], n[1], n[2]
    if (positions := n.get(3)) is not None:
        cos, sin = (n.emit(GatherOp, t, positions, axis=0) for t in (cos, sin))
    flat = n.rank(0) == 3
    if flat:
        x = split_heads(n, x, n.int("num_heads"))
    size, rotated = shape_of(cos)[-1], n.int("rotary_embedding_dim") or shape_of(x)[-1]
    if DYNAMIC not in (size, rotated) and 2 * size != rotated:
        raise Unsupported(f"{rotated} elements to rotate, but {size} cosines for pairs")
    y = rotate(n, x, cos, sin, 2 if flat else 1, bool(n.int("interleaved")))
    return n.emit(ReshapeOp, y, shape=(0, 0, -1)) if flat else y


def rotate(
    n: Node, x: SSAValue, cos: SSAValue, sin: SSAValue, heads_axis: int, interleaved: bool
) -> SSAValue:
    """Rotary embedding of a tensor of rank 4 by tables [B, S, R / 2], which heads share."""
    cos, sin = (n.emit(UnsqueezeOp, t, axes=(heads_axis,)) for t in (cos, sin))
    return n.emit(RotaryEmbeddingOp, x, cos, sin, interleaved=interleaved)
