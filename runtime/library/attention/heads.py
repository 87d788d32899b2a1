"""Heads that share keys as rows of one tile, so that their keys are loaded once.

Where queries are few, as when tokens are generated one by one, a tile of one head's queries would
be nearly empty, and each head would load the keys again. The memrefs of query and result are seen
in another shape then, in which the rows of a tile stand side by side:

    [B, H, Q, E] as [B, H / n, n Q, E]      tokens of a head stand together, or there is one token
    [B, Q, H, E] as [B, Q, H / n, n, E]     heads of a token do: those of several are a box
"""

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from ge.dialects.graph.attention import AttentionOp
from ge.dialects.graph.elementwise import FloorOp
from ge.dialects.support.boxes import Access
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import Shape, shape_of
from ge.runtime.library.language import values as v
from ge.runtime.library.language.indices import Scalar
from ge.runtime.library.launch import Launch

MOST = 128  # rows that several heads have together


@dataclass(frozen=True)
class Heads:
    """`count` heads of `tokens` queries each; `inner`: those of a token stand together."""

    count: int
    tokens: int
    tokens_first: bool

    @property
    def inner(self) -> bool:
        return self.tokens_first and self.count > 1 and self.tokens > 1

    @property
    def unit(self) -> int:
        """Rows of tiles are multiples of it."""
        return self.count if self.inner else 1

    def shape(self, sizes: Shape) -> Shape:
        """That of the memref of these sizes: batch, heads, tokens and elements."""
        batch, heads, tokens, size = sizes
        if self.inner:
            return batch, tokens, heads // self.count, self.count, size
        if self.count > 1:
            return batch, heads // self.count, self.count * tokens, size
        return (batch, tokens, heads, size) if self.tokens_first else sizes

    def box(
        self, given: v.Argument, batch: Scalar, head: Scalar, row: Scalar, col: Scalar, size: Shape
    ) -> v.Subview:
        """The box of a tile of this size, whose rows begin at `row` of those of all these heads."""
        if self.inner:
            box = given[batch, row // self.count :, head, 0:, col:]
            return box.sized(size[0] // self.count, self.count, size[1])
        if self.tokens_first and self.count == 1:
            return given[batch, row:, head, col:]
        return given[batch, head, row:, col:]

    def first_token(self, row: Scalar) -> Scalar:
        """The least token of a tile of rows."""
        if self.count == 1:
            return row
        return row // self.count if self.inner else 0

    def tokens_of(self, rows: int) -> int:
        """How many tokens a tile of rows has at most."""
        if self.count == 1:
            return rows
        return rows // self.count if self.inner else self.tokens

    def positions(self, rows: int, row: Scalar, offset: Scalar) -> v.Expression:
        """The token of each row, and an offset to it."""
        if self.count == 1:
            return v.rows(rows, row + offset)
        if self.inner:
            return divided(v.rows(rows, row + offset * self.count), self.count)
        heads = divided(v.rows(rows, row), self.tokens)
        return v.rows(rows, row + offset) - heads * self.tokens


def divided(x: v.Expression, by: int) -> v.Expression:
    """Rounded down."""
    near = (v.cast(x, "f32") + 0.5) * (1 / by)
    return v.cast(v.unary(FloorOp, near), i32)


def heads_of(launch: Launch, op: AttentionOp) -> Iterator[tuple[Heads, SSAValue | None]]:
    """How many heads a tile may have, and the input whose memref is seen in another shape; None
    for one token that is computed, whose heads are rows of a box."""
    _, heads, tokens, _ = op.sizes("query")
    first = op.tokens_first("query")
    yield Heads(1, tokens, op.tokens_first("result")), None
    query = plain_query(launch, op)
    group = heads // max(op.sizes("key")[1], 1)
    if tokens > 1 and (query is None or first != op.tokens_first("result")):
        return
    for mask in op.masks:
        _, mask_heads, mask_rows, _ = (*(1,) * (4 - len(shape_of(mask))), *shape_of(mask))
        if mask_rows > 1 or (mask_heads > 1 and tokens > 1):
            return
    for count in range(2, group + 1):
        if group % count == 0 and count * tokens <= MOST:
            yield Heads(count, tokens, first), query


def plain_query(launch: Launch, op: AttentionOp) -> SSAValue | None:
    """The input that the query is, maybe in another shape, if nothing else has its memref."""
    value = op.query
    while value not in launch.body.inputs:
        owner = value.owner
        if not isinstance(owner, TensorOp) or owner.ACCESS is not Access.VIEW:
            return None
        if len(list(value.uses)) > 1 or value in launch.body.outputs:
            return None
        value = owner.operands[0]
    memref = launch.operands[value]
    alone = sum(operand is memref for operand in launch.operands.values()) == 1
    return value if alone and len(list(value.uses)) == 1 else None
