"""Scaled dot-product attention, its scores, and rotary position embedding.

Sizes: B batch, H query heads, K key heads (H is a multiple; each key head serves H / K query heads
in a row), Q queries, S keys, E elements of a query or key, V elements of a value. `query` is
[B, H, Q, E], `key` [B, K, S, E], `value` [B, K, S, V].

A key j takes part for query i unless
 - `mask` (i1, broadcasts to [B, H, Q, S]) is false; a float mask is added to the score instead;
 - `causal` and j > p, where p = offset + i is the query's position among the keys;
 - j < p - left_window or j > p + right_window, for windows that are not negative;
 - j >= key_lengths of its batch. Without an offset the queries are then the last of these keys.
A query for which no key takes part has weights 0 and result 0, not nan.
"""

from abc import ABC
from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import BoolAttr, FloatAttr, IntegerAttr, StringAttr, i1, i64
from xdsl.ir import Attribute
from xdsl.irdl import (
    AttrSizedOperandSegments,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph.normalization import check_broadcast_to, check_floats
from ge.dialects.graph.parameters import INT, Parameter, parameter
from ge.dialects.interfaces import Access, TensorOp, Work
from ge.dialects.types import (
    DYNAMIC,
    Shape,
    broadcast,
    element_type,
    is_integer,
    is_static,
    merge_dims,
    numel,
    shape_of,
    shape_text,
    tensor,
)

STAGES = ("raw", "capped", "biased", "weights")

_OPTIONS = (
    "(`mask` $mask^ `:` type($mask))? "
    "(`key_lengths` $key_lengths^ `:` type($key_lengths))? "
    + parameter("offset")
    + " attr-dict `:` "
)


def merge(what: str, *dims: int) -> int:
    """The one size that all dims have. Raises VerifyException naming `what` on a clash."""
    result = DYNAMIC
    for d in dims:
        try:
            result = merge_dims(result, d)
        except VerifyException:
            raise VerifyException(f"{what} differ: {result} and {d}") from None
    return result


class AttentionLike(TensorOp, ABC):
    """Base: query, key, and which keys take part."""

    query = operand_def()
    key = operand_def()
    mask = opt_operand_def()
    key_lengths = opt_operand_def()
    offset_value = opt_operand_def()
    offset = opt_prop_def(INT)
    scale = opt_prop_def(FloatAttr)
    """Factor of the scores; 1 / sqrt(E) when absent."""
    softcap = prop_def(FloatAttr, default_value=FloatAttr(0.0, 64))
    """When positive, scores s become softcap * tanh(s / softcap), before any mask."""
    causal = prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))
    left_window = prop_def(IntegerAttr, default_value=IntegerAttr(-1, i64))
    right_window = prop_def(IntegerAttr, default_value=IntegerAttr(-1, i64))
    result = result_def()
    PARAMETERS: ClassVar = {"offset_value": "offset"}
    custom_directives = (Parameter,)
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    traits = traits_def(Pure())

    def scores_shape(self) -> Shape:
        """[B, H, Q, S], once all but `value` is known to fit together."""
        check_floats(self.query, self.key)
        for value, name in ((self.query, "query"), (self.key, "key")):
            if len(shape_of(value)) != 4:
                raise VerifyException(f"{name} has 4 dimensions, not {shape_text(shape_of(value))}")
        (b, heads, queries, e), (kb, key_heads, keys, ke) = map(shape_of, (self.query, self.key))
        merge("sizes of query and key", e, ke)
        if DYNAMIC not in (heads, key_heads) and heads % max(key_heads, 1):
            raise VerifyException(f"{heads} heads do not divide among {key_heads} key heads")
        shape = (merge("batches of query and key", b, kb), heads, queries, keys)
        self.check_masks(shape)
        return shape

    def check_masks(self, shape: Shape) -> None:
        if self.mask is not None:
            if element_type(self.mask) not in (i1, element_type(self.query)):
                raise VerifyException(
                    f"mask is i1 or {element_type(self.query)}, not {element_type(self.mask)}"
                )
            check_broadcast_to(shape_of(self.mask), shape, "mask")
        for value, name in ((self.key_lengths, "key_lengths"), (self.offset_value, "offset")):
            if value is not None and not is_integer(element_type(value)):
                raise VerifyException(f"{name} is of integers, not {element_type(value)}")
        if self.key_lengths is not None:
            lengths = shape_of(self.key_lengths)
            if len(lengths) != 1:
                raise VerifyException(f"key_lengths is a vector, not {shape_text(lengths)}")
            merge("batches of query and key_lengths", shape[0], lengths[0])
        if self.offset_value is not None:
            given = shape_of(self.offset_value)
            if not is_static(given) or numel(given) != 1:
                raise VerifyException(f"offset has one element, not shape {shape_text(given)}")

    def scores_work(self, size: int) -> Work:
        """Work of `size` multiply-accumulates for each score, and of softmax."""
        b, heads, queries, _ = shape_of(self.query)
        count = numel((b, heads, queries, shape_of(self.key)[2]))
        return Work(count * size, 10 * count, *self.traffic())


@irdl_op_definition
class AttentionOp(AttentionLike):
    """softmax(scale * query key^T + mask) value, [B, H, Q, V] (Vaswani et al., arXiv 1706.03762;
    fewer key than query heads: arXiv 2305.13245)."""

    name = "graph.attention"
    # Operands of a base class come last unless they are repeated.
    query = operand_def()
    key = operand_def()
    value = operand_def()
    mask = opt_operand_def()
    key_lengths = opt_operand_def()
    offset_value = opt_operand_def()
    assembly_format = (
        "$query `,` $key `,` $value " + _OPTIONS + "type($query) `,` type($key) `,` "
        "type($value) `->` type($result)"
    )

    def infer(self) -> Sequence[Attribute]:
        batch, heads, queries, keys = self.scores_shape()
        check_floats(self.query, self.value)
        shape = shape_of(self.value)
        if len(shape) != 4:
            raise VerifyException(f"value has 4 dimensions, not {shape_text(shape)}")
        batch = merge("batches of query and value", batch, shape[0])
        merge("heads of key and value", shape_of(self.key)[1], shape[1])
        merge("numbers of keys and values", keys, shape[2])
        return (tensor((batch, heads, queries, shape[3]), element_type(self.query)),)

    def static_work(self) -> Work:
        return self.scores_work(shape_of(self.query)[3] + shape_of(self.value)[3])


@irdl_op_definition
class AttentionScoresOp(AttentionLike):
    """What attention computes before it meets the values, [B, H, Q, S], at a `stage`: "raw" scores
    scale * query key^T, "capped" (after `softcap`), "biased" (after the masks) or "weights"
    (after softmax)."""

    name = "graph.attention_scores"
    stage = prop_def(StringAttr)
    assembly_format = (
        "$stage $query `,` $key " + _OPTIONS + "type($query) `,` type($key) `->` type($result)"
    )

    def infer(self) -> Sequence[Attribute]:
        if self.stage.data not in STAGES:
            raise VerifyException(f'stage is one of {", ".join(STAGES)}, not "{self.stage.data}"')
        return (tensor(self.scores_shape(), element_type(self.query)),)

    def static_work(self) -> Work:
        return self.scores_work(shape_of(self.query)[3])


@irdl_op_definition
class RotaryEmbeddingOp(TensorOp):
    """Rotary position embedding (Su et al., arXiv 2104.09864): pairs (a, b) of the first R elements
    of the last dimension become (a cos - b sin, a sin + b cos); the other elements stay. Pairs
    are halves (i, i + R/2), or neighbours (2 i, 2 i + 1) when `interleaved`. `cos` and `sin` have
    R/2 elements in the last dimension and broadcast to the input's other dimensions."""

    name = "graph.rotary_embedding"
    input = operand_def()
    cos = operand_def()
    sin = operand_def()
    interleaved = prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))
    result = result_def()
    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    ACCESS: ClassVar = Access.POINTWISE
    VECTOR_COST: ClassVar = 3
    assembly_format = "$input `,` $cos `,` $sin attr-dict `:` functional-type(operands, results)"

    def infer(self) -> Sequence[Attribute]:
        check_floats(self.input, self.cos, self.sin)
        shape, table = shape_of(self.input), broadcast(shape_of(self.cos), shape_of(self.sin))
        if not shape or not table:
            raise VerifyException("a tensor of rank 0 has nothing to rotate")
        if DYNAMIC not in (table[-1], shape[-1]) and 2 * table[-1] > shape[-1]:
            raise VerifyException(
                f"cos and sin rotate {2 * table[-1]} elements, but there are {shape[-1]}"
            )
        check_broadcast_to(table, (*shape[:-1], table[-1]), "table of cos and sin")
        return (self.input.type,)
