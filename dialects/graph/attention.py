"""Scaled dot-product attention, its scores, and rotary position embedding.

Sizes: B batch, H query heads, K key heads (H is a multiple; each key head serves H / K query heads
in a row), Q queries, S keys, E elements of a query or key, V elements of a value. `query` is
[B, H, Q, E], `key` [B, K, S, E], `value` [B, K, S, V], the result [B, H, Q, V]; each of them has
heads and tokens exchanged ([B, Q, H, E] ...) where its flag `..._tokens_first` is set.

The scores s are scale * query key^T (scale is 1 / sqrt(E) when absent), with a positive `softcap`
they become softcap * tanh(s / softcap). Then the `masks` change them one by one (each broadcasts to
[B, H, Q, S]): a float mask is added; where a mask of i1 is false, the score becomes `fill`. At last
a key j is left out for query i if
 - `causal` and j > p, where p = offset + i is the query's position among the keys;
 - j < p - left_window or j > p + right_window, for windows that are not negative;
 - j >= key_lengths of its batch. Without an offset the queries are then the last of these keys.

With a `length` all of this is of the first keys, values and columns of masks alone: the others are
not read. With a `table` the keys and values lie in blocks, as many as it has elements: block i of
them is where element i says (PagedAttention, arXiv 2309.06180).

The weights are the softmax of the scores. It is undefined in two cases, and `undefined` says what
comes of them: no key takes part (all scores are -inf), or a score is nan or +inf.
 - "zero": result 0 where no key takes part, nan in the other case;
 - "nan": nan in both cases, like softmax itself;
 - "guard": 0 in both cases.

16-bit floats are computed in float32 and rounded once, so that scores beyond the range of 16 bits
stay numbers. Whether the scale multiplies queries or sums of products is not said: where query
key^T by itself is beyond the range of float32, scores may be so too. (The kernels multiply queries,
tile programs the sums that the cube computes.) One thing is as in 16 bits: adding a mask of the
lowest 16-bit number swallows the score. So rows without a score above -1024 are rounded to the
element type before softmax, if a float mask of that type was added.

Attention can have `rounded_weights`: the exponentials of scores s, exp(s - m), are integers of 8
bits then, steps of 1/255, and are divided by their own sum at the end. m is the largest score of
the row so far, where keys come `KEYS` at a time; what was summed before is scaled when m grows.
Query, key and value may then be i8: `scale` has the scales of query and key in it, `value_scale` is
that of the value, both products are exact sums in 32 bits, and the result is f32.

Attention of floats can round in between as a model of integers does. With `score_scale` and
`score_zero_point`, whose type is that of the integers, scale * query key^T is quantized to them and
dequantized, before `softcap` and masks; with `weight_scale` and `weight_zero_point` so are the
weights. As these are divided by their sum before, it takes all keys at a time, at most `KEYS`.

The last ops are caches of a fixed size that fill from run to run.
"""

import math
from abc import ABC
from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import BoolAttr, FloatAttr, IntegerAttr, f32, i1, i8, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph.support.parameters import (
    SEGMENTED,
    TYPES,
    HasAxes,
    Movement,
    OneResultOp,
    check_blocks,
    check_broadcast_to,
    check_same_element,
    check_scalar,
    element_axis,
    highest,
    lowest,
    optional,
    parameter,
)
from ge.dialects.support.boxes import Access, Box, Span, Work, aligned_box, blocks, element_span
from ge.dialects.support.constraints import (
    COMPUTED,
    F64,
    FLOATS,
    INT,
    INTEGER,
    INTEGERS,
    NOT_NEGATIVE,
    POSITIVE,
    TensorOf,
    choice,
    choice_def,
)
from ge.dialects.support.tensor_op import SplitInterface
from ge.dialects.support.types import (
    DYNAMIC,
    Shape,
    broadcast,
    byte_size,
    element_type,
    is_static,
    merge_dims,
    numel,
    rank_of,
    shape_of,
    shape_text,
    tensor,
)

STAGES = ("raw", "capped", "biased", "weights")
ScoreStage = choice("graph.score_stage", *STAGES)
UndefinedRows = choice("graph.undefined_rows", "zero", "nan", "guard")
KEYS = 512  # keys that a tile of queries meets at a time
STEPS = 255  # of rounded weights between 0 and 1
LOW = -1024.0  # rows of 16-bit attention without a score above it are rounded before softmax
SCORE_VECTOR_COST = 10  # element-operations for each score: scale, mask, softmax, element type
GRIDS = ("score", "weight")
GRID_VECTOR_COST = 5  # divide, round, two limits that have the zero point in them, multiply

OPERANDS = TensorOf([*FLOATS.elements, i8], "floats or i8").of_rank(4)
MASKS = TensorOf([*FLOATS.elements, i1], "floats or truth values (i1)")

_OFF = BoolAttr.from_bool(False)

_OPTIONS = f"(`mask` $masks^)? {optional('key_lengths')} {parameter('offset')}"


def merge(what: str, a: int, b: int) -> int:
    return merge_dims(a, b, f"{what} differ: {a} and {b}")


class AttentionLike(OneResultOp, SplitInterface, ABC):
    """Ops with a query, keys, and masks on their scores."""

    query = operand_def(FLOATS.of_rank(4))
    key = operand_def(FLOATS.of_rank(4))
    masks = var_operand_def(MASKS)
    key_lengths = opt_operand_def(INTEGERS.of_rank(1))
    offset_value = opt_operand_def(INTEGERS)
    result = result_def(FLOATS.of_rank(4))
    offset = opt_prop_def(INT)
    scale = opt_prop_def(F64)
    softcap = prop_def(NOT_NEGATIVE, default_value=FloatAttr(0.0, 64))
    fill = prop_def(F64, default_value=FloatAttr(float("-inf"), 64))
    undefined = choice_def(UndefinedRows, "zero")
    causal = prop_def(BoolAttr, default_value=_OFF)
    left_window = prop_def(INT, default_value=IntegerAttr(-1, i64))
    right_window = prop_def(INT, default_value=IntegerAttr(-1, i64))
    query_tokens_first = prop_def(BoolAttr, default_value=_OFF)
    key_tokens_first = prop_def(BoolAttr, default_value=_OFF)
    PARAMETERS: ClassVar = {"offset_value": "offset"}
    ALWAYS_MACS: ClassVar = True
    KEYED: ClassVar[tuple[str, ...]] = ("key",)  # operands that have a token for each key
    irdl_options = SEGMENTED

    def sizes(self, name: str) -> Shape:
        """Batch, heads, tokens and elements of an operand or the result, in this order."""
        value: SSAValue = getattr(self, name)
        shape = shape_of(value)
        return swap_heads(shape) if self.tokens_first(name) else shape

    def tokens_first(self, name: str) -> bool:
        flag = getattr(self, f"{name}_tokens_first", _OFF)
        return bool(flag.value.data)

    def scores_shape(self) -> Shape:
        """[B, H, Q, S], once all but `value` is known to fit together."""
        (b, heads, queries, e), (kb, key_heads, keys, ke) = self.sizes("query"), self.sizes("key")
        merge("sizes of query and key", e, ke)
        if DYNAMIC not in (heads, key_heads) and heads % max(key_heads, 1):
            raise VerifyException(f"{heads} heads do not divide among {key_heads} key heads")
        shape = (merge("batches of query and key", b, kb), heads, queries, keys)
        self.check_masks(shape)
        return shape

    def check_masks(self, shape: Shape) -> None:
        """Masks broadcast to `shape` (batch, heads, queries, keys)."""
        for mask in self.masks:
            check_broadcast_to(shape_of(mask), shape, "mask")
        if self.key_lengths is not None:
            merge("batches of query and key_lengths", shape[0], shape_of(self.key_lengths)[0])
        if self.offset_value is not None:
            shape = shape_of(self.offset_value)
            if not is_static(shape) or numel(shape) != 1:
                raise VerifyException(f"offset has one element, not shape {shape_text(shape)}")

    def dimension(self, name: str, index: int) -> int:
        """The axis of batch, heads, tokens or elements of an operand or the result, and back."""
        return (0, 2, 1, 3)[index] if self.tokens_first(name) else index

    def is_same_op(self, axis: int) -> bool:
        """True for parts of the batch, of heads, and of queries where positions do not count."""
        cut = self.dimension("result", axis)
        windows = (self.left_window, self.right_window)
        positional = self.causal.value.data or any(w.value.data >= 0 for w in windows)
        return cut < 2 or (cut == 2 and not positional)

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        """The box of an operand of attention: batch, heads and tokens of the query, all of its
        keys. Keys that positions leave out are not needed."""
        batch, heads, queries, last = (box.spans[self.dimension("result", i)] for i in range(4))
        shape = shape_of(self.operands[index])
        if index > len(self.KEYED) + len(self.masks):
            lengths = (
                self.key_lengths is not None and index == len(self.KEYED) + len(self.masks) + 1
            )
            return Box.of([batch]) if lengths else None
        keys = self.needed_keys(queries, last)
        if index > len(self.KEYED):
            return aligned_box(Box.of([batch, heads, queries, keys]), shape)
        name, size = ("query", *self.KEYED)[index], self.sizes("query")[3]
        spans = [batch, heads, queries, (0, size)]
        if index:
            group = self.sizes("query")[1] // max(self.sizes("key")[1], 1)
            spans = [batch, blocks(heads, group), keys, last if name == "value" else (0, size)]
        return Box.of([spans[self.dimension(name, i)] for i in range(4)])

    def has_unknown_offset(self) -> bool:
        """True if positions of queries follow from values, and how many queries there are."""
        return self.offset_value is not None or (
            self.key_lengths is not None and self.offset is None
        )

    def counts_size(self, axis: int, result: int = 0) -> bool:
        return axis == self.dimension("result", 2) and self.has_unknown_offset()

    def needed_keys(self, queries: Span, last: Span) -> Span:
        """The keys whose scores a span of queries needs: those at positions that take part."""
        keys, (first, count) = self.sizes("key")[2], queries
        offset = self.ints("offset") or (0,)
        if self.has_unknown_offset() or not isinstance(first, int):
            return 0, keys
        left, right = self.left_window.value.data, self.right_window.value.data
        right = 0 if self.causal.value.data else right
        begin = 0 if left < 0 else max(first + offset[0] - left, 0)
        end = keys if right < 0 else min(first + count + offset[0] + right, keys)
        return begin, max(end - begin, 0)

    def scores_work(self, size: int, vector: int = SCORE_VECTOR_COST) -> Work:
        count = numel((*self.sizes("query")[:3], self.sizes("key")[2]))
        return Work(count * size, vector * count, *self.traffic())


def swap_heads(shape: Shape) -> Shape:
    batch, a, b, size = shape
    return batch, b, a, size


@irdl_op_definition
class AttentionOp(AttentionLike):
    """softmax(scale * query key^T + mask) value (Vaswani et al., arXiv 1706.03762; fewer key than
    query heads: arXiv 2305.13245)."""

    name = "graph.attention"
    # Operands of a base class come last unless they are repeated.
    query = operand_def(OPERANDS)
    key = operand_def(OPERANDS)
    value = operand_def(OPERANDS)
    masks = var_operand_def(MASKS)
    key_lengths = opt_operand_def(INTEGERS.of_rank(1))
    offset_value = opt_operand_def(INTEGERS)
    length = opt_operand_def(INTEGERS)
    table = opt_operand_def(INTEGERS.of_rank(1))
    result = result_def(FLOATS.of_rank(4))
    value_tokens_first = prop_def(BoolAttr, default_value=_OFF)
    KEYED: ClassVar = ("key", "value")
    IN_PLACE: ClassVar = (0,)  # a row of the query, and all keys and values, for one of the result
    ROUNDED_ONCE: ClassVar = 3
    result_tokens_first = prop_def(BoolAttr, default_value=_OFF)
    rounded_weights = prop_def(BoolAttr, default_value=_OFF)
    value_scale = opt_prop_def(POSITIVE)
    score_scale = opt_prop_def(POSITIVE)
    score_zero_point = opt_prop_def(INTEGER)
    weight_scale = opt_prop_def(POSITIVE)
    weight_zero_point = opt_prop_def(INTEGER)
    assembly_format = f"$query `,` $key `,` $value {_OPTIONS} {optional('length', 'table')} {TYPES}"

    def local_parts(self, index: int) -> int | None:
        """Rows. Where those of the query lie in another order than those of the result, a kernel
        would write over rows that other tiles of it have not read yet."""
        parts, rows = super().local_parts(index), math.prod(shape_of(self.result)[:-1])
        return parts if parts == rows else None

    @property
    def is_integer(self) -> bool:
        """True if query, key and value are integers."""
        return element_type(self.query) == i8

    def grid(self, name: str) -> tuple[float, float, float] | None:
        """The scale that scores or weights ("score" or "weight") are quantized with, the least and
        the largest integer less the zero point."""
        scale: FloatAttr | None = getattr(self, f"{name}_scale")
        zero: IntegerAttr | None = getattr(self, f"{name}_zero_point")
        if scale is None or zero is None:
            return None
        offset = zero.value.data
        return scale.value.data, lowest(zero.type) - offset, highest(zero.type) - offset

    @property
    def has_grids(self) -> bool:
        return any(self.grid(name) is not None for name in GRIDS)

    def check_grids(self) -> None:
        for name in GRIDS:
            scale, zero = getattr(self, f"{name}_scale"), getattr(self, f"{name}_zero_point")
            if (scale is None) != (zero is None):
                raise VerifyException(f"{name}_scale and {name}_zero_point come together")
        if self.has_grids and (self.is_integer or self.rounded_weights.value.data):
            raise VerifyException("scores and weights that are rounded anyway have no other grids")
        if self.grid("weight") is not None and (keys := self.sizes("key")[2]) > KEYS:
            raise VerifyException(f"weights of up to {KEYS} keys have a grid, not of {keys}")

    def check_types(self) -> None:
        self.check_grids()
        if not self.is_integer:
            check_same_element(self.query, self.key, self.value)
            if self.value_scale is not None:
                raise VerifyException("value_scale is for values of i8")
            return
        key, value = element_type(self.key), element_type(self.value)
        if (key, value) != (i8, i8):
            raise VerifyException(f"key and value are i8 like the query, not {key}, {value}")
        if not self.rounded_weights.value.data or self.value_scale is None or self.scale is None:
            raise VerifyException("integers need rounded_weights, scale and value_scale")

    def infer(self) -> Sequence[Attribute]:
        self.check_types()
        if self.length is not None:
            check_scalar(self.length, "length")
        if self.table is not None:
            if self.length is None:
                raise VerifyException("a table of blocks comes with a length")
            check_blocks(self.table, self.sizes("key")[2])
        batch, heads, queries, keys = self.scores_shape()
        value_batch, value_heads, values, size = self.sizes("value")
        batch = merge("batches of query and value", batch, value_batch)
        merge("heads of key and value", self.sizes("key")[1], value_heads)
        merge("numbers of keys and values", keys, values)
        shape = (batch, heads, queries, size)
        shape = swap_heads(shape) if self.tokens_first("result") else shape
        return (tensor(shape, f32 if self.is_integer else element_type(self.query)),)

    def needed_keys(self, queries: Span, last: Span) -> Span:
        """Keys lie elsewhere where there is a table of blocks."""
        in_order = self.table is None
        return super().needed_keys(queries, last) if in_order else (0, self.sizes("key")[2])

    def static_work(self) -> Work:
        """Scores of integers become floats before softmax, and weights integers after it."""
        grids = sum(self.grid(name) is not None for name in GRIDS)
        vector = SCORE_VECTOR_COST + 2 * self.is_integer + GRID_VECTOR_COST * grids
        return self.scores_work(self.sizes("query")[3] + self.sizes("value")[3], vector)


@irdl_op_definition
class AttentionScoresOp(AttentionLike):
    """The scores that attention computes before it meets the values, [B, H, Q, S], at a `stage`:
    `raw` scores scale * query key^T, `capped` (after `softcap`), `biased` (after the masks) or
    `weights` (after softmax)."""

    name = "graph.attention_scores"
    stage = choice_def(ScoreStage)
    assembly_format = f"$stage $query `,` $key {_OPTIONS} {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        check_same_element(self.query, self.key)
        return (tensor(self.scores_shape(), element_type(self.query)),)

    def needed_keys(self, queries: Span, last: Span) -> Span:
        return super().needed_keys(queries, last) if self.stage.data == "weights" else last

    def static_work(self) -> Work:
        return self.scores_work(self.sizes("query")[3])


@irdl_op_definition
class RotaryEmbeddingOp(OneResultOp, SplitInterface):
    """Rotary position embedding (Su et al., arXiv 2104.09864): pairs (a, b) of the first R elements
    of the last dimension become (a cos - b sin, a sin + b cos); the other elements stay. Pairs
    are halves (i, i + R/2), or neighbours (2 i, 2 i + 1) when `interleaved`.

    `cos` and `sin` broadcast to the input's other dimensions. Their last dimension is R/2, one
    angle a pair; or with `full_tables` R, one for each element of the input."""

    name = "graph.rotary_embedding"
    input = operand_def(FLOATS)
    cos = operand_def(FLOATS)
    sin = operand_def(FLOATS)
    result = result_def(FLOATS)
    interleaved = prop_def(BoolAttr, default_value=_OFF)
    full_tables = prop_def(BoolAttr, default_value=_OFF)
    ACCESS: ClassVar = Access.POINTWISE
    IN_PLACE: ClassVar = (0,)  # the other element of a pair lies in the same row
    VECTOR_COST: ClassVar = 3
    ROUNDED_ONCE: ClassVar = 1

    def is_same_op(self, axis: int) -> bool:
        """Along all dimensions but the one with the pairs."""
        known = shape_of(self.input)[-1], shape_of(self.cos)[-1]
        return axis < len(shape_of(self.result)) - 1 and DYNAMIC not in known

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        shape, span = shape_of(self.operands[index]), box.spans[-1]
        if span == (0, shape_of(self.result)[-1]):  # whole rows need whole tables
            return aligned_box(Box.of([*box.spans[:-1], (0, shape[-1])]), shape)
        full, table = self.full_tables.value.data, shape_of(self.cos)[-1]
        rotated = table if full else 2 * table
        half = rotated // 2

        def needed(i: int) -> tuple[int, ...]:
            if index == 0 and i < rotated:
                return i, i ^ 1 if self.interleaved.value.data else (i + half) % rotated
            if index == 0 or i >= rotated:
                return () if index else (i,)
            return (i if full else i // 2 if self.interleaved.value.data else i % half,)

        others = aligned_box(Box.of(box.spans[:-1]), shape[:-1]).spans
        return Box.of([*others, element_span(span, shape[-1], needed)])

    assembly_format = f"$input `,` $cos `,` $sin {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        shape, table = shape_of(self.input), broadcast(shape_of(self.cos), shape_of(self.sin))
        if not shape or not table:
            raise VerifyException("a tensor of rank 0 has nothing to rotate")
        full = bool(self.full_tables.value.data)
        if table[-1] != DYNAMIC:
            rotated = table[-1] if full else 2 * table[-1]
            if rotated % 2:
                raise VerifyException(f"full tables of {rotated} elements do not make pairs")
            if shape[-1] != DYNAMIC and rotated > shape[-1]:
                raise VerifyException(
                    f"cos and sin rotate {rotated} elements, but there are {shape[-1]}"
                )
        check_broadcast_to(table, (*shape[:-1], table[-1]), "table of cos and sin")
        return (self.input.type,)


@irdl_op_definition
class AppendOp(Movement, OneResultOp, HasAxes):
    """`cache` with `rows` along `axis` as the last ones before `length`. Later ones, and what was
    there, are of no meaning: the kernel writes the rows alone where the result lies in the
    cache's memory. With a `table` rows lie in blocks, as many as it has elements: block i is where
    element i says."""

    name = "graph.append"
    cache = operand_def(COMPUTED)
    rows = operand_def(COMPUTED)
    length = operand_def(INTEGERS)
    table = opt_operand_def(INTEGERS.of_rank(1))
    result = result_def(COMPUTED)
    axis = prop_def(INT)
    ACCESS: ClassVar = Access.WHOLE
    IN_PLACE: ClassVar = (0,)
    TAKES_INDICES: ClassVar = True
    assembly_format = f"$cache `,` $rows `at` $length {optional('table')} {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        check_same_element(self.cache, self.rows)
        check_scalar(self.length, "length")
        shape, rows = shape_of(self.cache), shape_of(self.rows)
        axis = element_axis(self.axis.value.data, rank_of(self.cache))
        if len(rows) != len(shape) or rows[axis] > shape[axis] >= 0:
            raise VerifyException(f"{self.rows.type} is no part of {self.cache.type}")
        if self.table is not None:
            check_blocks(self.table, shape[axis])
        for i, (m, n) in enumerate(zip(shape, rows, strict=True)):
            if i != axis:
                merge_dims(m, n)
        return (self.cache.type,)

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        axis = self.axis.value.data
        own = box.along(shape_of(self.operands[index]), (axis,)) if index == 1 else None
        return own if index else box

    def counts_size(self, axis: int, result: int = 0) -> bool:
        """True along the axis of the rows: their place depends on their number and the cache's
        length."""
        return axis == self.axis.value.data

    def bytes_read(self, index: int) -> int:
        return 0 if index == 0 else super().bytes_read(index)

    def bytes_written(self, index: int) -> int:
        return byte_size(self.rows.type)

    def static_work(self) -> Work:
        rows = byte_size(self.rows.type)
        read = sum(byte_size(v.type) for v in self.operands[1:])
        return Work(0, numel(shape_of(self.rows)), read, rows)
