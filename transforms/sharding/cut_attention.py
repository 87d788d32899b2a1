"""Attention whose queries and results devices send each other comes in parts of its queries.

    %q = graph.all_to_all %x                        tokens are cut, then heads are
    %y = graph.attention %q, %k, %v mask %m
    %z = graph.all_to_all %y                        heads are cut, then tokens are
    %p = graph.matmul %z, %w
becomes, in two parts (%x0 and %x1 are the first and the second half of each device's tokens, %m0
and %m1 the rows of the mask for these)
    %q0 = graph.all_to_all %x0
    %q1 = graph.all_to_all %x1
    %y0 = graph.attention %q0, %k, %v mask %m0
    %z0 = graph.all_to_all %y0
    %y1 = graph.attention %q1, %k, %v mask %m1
    %z1 = graph.all_to_all %y1
    %p = graph.concat (graph.matmul %z0, %w), (graph.matmul %z1, %w)

so that %q1 and %z0 are under way while attention of the other half is computed, and %z1 while the
first half is multiplied. Queries count one by one, in any order, where positions do not count. What
parts cost (starts, cores without a tile at the end) follows from the times of launches, and where
it is more than what they hide, attention stays whole. The rows of a mask are put in order once for
all layers that have it.

Attention that is so cut over devices is that of DeepSpeed-Ulysses (arXiv 2309.14509)."""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph.attention import AttentionOp
from ge.dialects.graph.chunks import Along, chunk_of, split_collective
from ge.dialects.graph.collectives import AllToAllOp
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.shape import ReshapeOp
from ge.dialects.graph.sharding import mesh_of
from ge.dialects.graph.slicing import ConcatOp, SliceOp
from ge.dialects.support.editing import erase
from ge.dialects.support.functions import main_function
from ge.dialects.support.operation import operands_of, ops_of
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import Shape, byte_size, element_type, is_dynamic, shape_of, tensor
from ge.dialects.targets.target import Target, target_for
from ge.runtime.library.asking import launch_us
from ge.runtime.library.costs.collectives import collective_us
from ge.runtime.library.costs.estimates import hbm_bytes_per_us
from ge.transforms.graph.control_flow import insert_before, replace_op
from ge.transforms.rewriting import remarks
from ge.transforms.rewriting.passes import Relation, TargetPass, Ulps

COUNTS = (2, 4)  # numbers of parts that are tried
GAIN = 0.02  # share of the time that parts must gain: estimates are not exacter

OpT = TypeVar("OpT", bound=TensorOp)


@dataclass(frozen=True)
class CutAttentionPass(TargetPass):
    """Compute attention in parts where devices send each other its queries and results."""

    name = "cut-attention"
    RELATION: ClassVar[Relation] = Ulps()

    parts: int = 0
    """number of parts wherever there are so many; 0: the number that is fastest by the clock"""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        main = main_function(op)
        if main is None or mesh_of(op) is None:
            return
        target = target_for(main, self.target)
        alike: dict[Hashable, list[Exchanged]] = defaultdict(list)
        for attention in ops_of(main.body.block):
            if isinstance(attention, AttentionOp) and (found := Exchanged.of(attention)):
                alike[found.key()].append(found)
        for own in alike.values():
            count, gain = self.parts, 0.0
            if not self.parts:
                count, gain = own[0].fastest(target)
                count = count if gain * len(own) > own[0].masks_us(target) else 1
            if count > 1 and own[0].rows % count == 0:
                masks = own[0].mask_parts(count)
                for one in own:
                    one.cut(count, masks, gain)


@dataclass(frozen=True)
class Exchanged:
    """Attention, the exchanges before and behind it, and the product that alone uses what the
    second one brings, if there is one; `ops` are these and the views between them, in order."""

    op: AttentionOp
    before: AllToAllOp
    after: AllToAllOp
    product: MatmulOp | None
    ops: tuple[TensorOp, ...]

    @classmethod
    def of(cls, op: AttentionOp) -> "Exchanged | None":
        """Return attention of whole rows of tokens, in any order, between two exchanges."""
        ops: list[TensorOp] = [op]
        view = op.query.owner
        if isinstance(view, ReshapeOp) and joins_heads(op, "query", view.input):
            ops.insert(0, view)
        if not isinstance(before := ops[0].operands[0].owner, AllToAllOp):
            return None
        if not op.is_same_op(op.dimension("result", 2)) or any(map(is_dynamic, types_of(op))):
            return None
        view = only_user(op.result, ReshapeOp)
        ops += [view] if view is not None and joins_heads(op, "result", view.result) else []
        after = only_user(ops[-1].results[0], AllToAllOp)
        if after is None or any(not o.results[0].has_one_use() for o in (before, *ops)):
            return None
        product = product_of(op, after)
        found = cls(
            op, before, after, product[-1] if product else None, (before, *ops, after, *product)
        )
        there, back = (split_collective(*own) for own in found.exchanges)
        if there is None or back is None:
            return None
        has, to = there[1].blocks, back[0].blocks
        return found if has == to > 1 and there[0].blocks == back[1].blocks == 1 else None

    @property
    def exchanges(self) -> tuple[tuple[AllToAllOp, int], tuple[AllToAllOp, int]]:
        """The two exchanges, and the dimension of tokens in each."""
        at = self.op.dimension
        return (self.before, at("query", 2)), (self.after, at("result", 2))

    @property
    def cuts(self) -> tuple[tuple[Along, Along], tuple[Along, Along]]:
        """Along what the operand and the result of each exchange come in parts."""
        there, back = (split_collective(*own) for own in self.exchanges)
        assert there is not None
        assert back is not None
        return there, back

    @property
    def rows(self) -> int:
        """Tokens of a device."""
        return self.cuts[0][0].extent(shape_of(self.before.input))

    def key(self) -> Hashable:
        """Equal for attention that takes as long, and has the same masks."""
        product = None if self.product is None else self.product.lhs.type
        sent = tuple((op.has, op.to, op.result.type) for op, _ in self.exchanges)
        operands = tuple(v.type for v in self.op.operands)
        return tuple(self.long_masks()), operands, sent, product

    def long_masks(self) -> list[SSAValue]:
        """The masks that have a row for each query."""
        return [m for m in self.op.masks if (1, *shape_of(m))[-2:][0] > 1]

    # ---- whether it pays ------------------------------------------------------------------------

    def fastest(self, target: Target) -> tuple[int, float]:
        """Return the number of parts with the shortest time, and the microseconds that it saves."""
        best, whole = 1, self.end_us(1, 1, target)
        least = whole * (1 - GAIN)
        for count in COUNTS:
            whole = min(whole, self.end_us(1, count, target))
            if (us := self.end_us(count, count, target)) >= min(least, whole * (1 - GAIN)):
                break
            best, least = count, us
        return best, whole - least if best > 1 else 0.0

    def end_us(self, parts: int, behind: int, target: Target) -> float:
        """Return when all is done: the exchanges one after the other on the links, attention (in so
        many parts) and products (in so many, as what they need is sent in) on the cores. Infinity
        where there are no such parts."""
        if self.rows % parts or self.rows % behind:
            return float("inf")
        times = [
            [self.part_us(i, n, target)] * n for i, n in enumerate((parts, parts, behind, behind))
        ]
        sent = in_turn([0.0], times[0], 0.0)
        met = in_turn(sent, times[1], 0.0)
        back = in_turn(met, times[2], sent[-1])
        return in_turn(back, times[3], met[-1])[-1]

    def part_us(self, stage: int, count: int, target: Target) -> float:
        """Return how long one of so many parts takes in one of the four stages."""
        there, back = self.cuts
        if stage in (0, 2):
            op, axis = self.exchanges[stage // 2]
            if count == 1:
                return collective_us(op, target)
            along = (there, back)[stage // 2][0]
            shape = along.part(shape_of(op.input), count)
            block = Block(arg_types=[tensor(shape, element_type(op.input))])
            chunk = self.put(chunk_of(op, axis, block.args[0], count))  # where its mesh is known
            us = collective_us(chunk, target)
            erase(chunk)
            return us
        if stage == 1:
            return us_on(self.op, self.part_shapes(count), target)
        if self.product is None:
            return 0.0
        rows, *others = map(shape_of, self.product.operands)
        return us_on(self.product, [fewer(rows, -2, count), *others], target)

    def part_shapes(self, count: int) -> list[Shape]:
        """Return the shapes of the operands of a part of attention."""
        query, *others = self.op.operands
        shapes = [fewer(shape_of(query), self.op.dimension("query", 2), count)]
        long = self.long_masks()
        return shapes + [fewer(shape_of(v), -2, count if v in long else 1) for v in others]

    def masks_us(self, target: Target) -> float:
        """Return how long it takes to put the rows of masks in order: each is read and written."""
        size = sum(byte_size(m.type) for m in self.long_masks())
        return 2 * size / hbm_bytes_per_us(target.vector_cores, target)

    # ---- parts ----------------------------------------------------------------------------------

    def mask_parts(self, count: int) -> list[dict[SSAValue, SSAValue]]:
        """Return the masks of each part: of the tokens that it has of each device."""
        parts = [dict[SSAValue, SSAValue]() for _ in range(count)]
        for mask in self.long_masks():
            *outer, rows, keys = shape_of(mask)
            blocks = self.cuts[0][1].blocks
            raised = self.reshaped(mask, (*outer, blocks, rows // blocks, keys))
            for own, some in zip(parts, self.slices(raised, len(outer) + 1, count), strict=True):
                own[mask] = self.reshaped(some, (*outer, rows // count, keys))
        return parts

    def cut(self, count: int, masks: Sequence[dict[SSAValue, SSAValue]], gain: float) -> None:
        """Replace attention and what is around it by parts."""
        (before, axis), (after, to) = self.exchanges
        there, back = self.cuts
        raised = self.reshaped(before.input, there[0].raised(shape_of(before.input)))
        some = self.slices(raised, there[0].place, count)
        sent = [self.put(chunk_of(before, axis, x, count)).results[0] for x in some]
        shape, found = self.part_shapes(count)[0], list[SSAValue]()
        for query, own in zip(sent, masks, strict=True):
            operands = [own.get(v, v) for v in self.op.operands]
            operands[0] = self.reshaped(query, shape)
            part = self.put(self.op.with_operands(operands)).results[0]
            part = self.reshaped(part, back[0].part(shape_of(after.input), count))
            found.append(self.put(chunk_of(after, to, part, count)).results[0])
        if self.product is not None:
            found = [self.multiplied(part, self.product) for part in found]
        remarks.applied("cut-attention", self.op, f"{count} parts", gain)
        *gone, last = self.ops
        joined = insert_before(last, ConcatOp.of(found, axis=back[1].place))
        whole = ReshapeOp.of(joined.result, shape=shape_of(last.results[0]))
        replace_op(last, insert_before(last, whole).results)
        for op in reversed(gone):
            erase(op)

    def multiplied(self, part: SSAValue, product: MatmulOp) -> SSAValue:
        """Return the product of a part, in which each token has a row of all heads."""
        shape = (*shape_of(part)[:3], shape_of(product.lhs)[-1])
        rows = insert_before(product, ReshapeOp.of(part, shape=shape)).results[0]
        return insert_before(product, product.with_operands([rows, product.rhs])).results[0]

    def put(self, op: OpT) -> OpT:
        op.location = self.op.location
        return insert_before(self.op, op)

    def reshaped(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        return self.put(ReshapeOp.of(value, shape=shape)).results[0]

    def slices(self, value: SSAValue, dim: int, count: int) -> list[SSAValue]:
        """Return parts of a value along a dimension."""
        size = shape_of(value)[dim] // count
        return [
            self.put(SliceOp.of(value, starts=[i * size], ends=[i * size + size], axes=[dim]))
            .results[0]
            for i in range(count)
        ]  # fmt: skip


def types_of(op: TensorOp) -> list[Attribute]:
    return [*(v.type for v in op.operands), *(v.type for v in op.results)]


def only_user(value: SSAValue, kind: type[OpT]) -> OpT | None:
    """Return the one op that uses a value, once, if it is of a kind."""
    use = value.get_user_of_unique_use()
    return use if isinstance(use, kind) else None


def joins_heads(op: AttentionOp, name: str, rows: SSAValue) -> bool:
    """Return whether a value has an operand or the result of attention, [B, T, H, E], as rows
    [B, T, H E]."""
    batch, heads, tokens, size = op.sizes(name)
    return op.tokens_first(name) and shape_of(rows) == (batch, tokens, heads * size)


def product_of(
    op: AttentionOp, after: AllToAllOp
) -> tuple[()] | tuple[MatmulOp] | tuple[ReshapeOp, MatmulOp]:
    """Return the product by one matrix of what an exchange brings, if heads of a token are a row
    there, and the view before it."""
    view = only_user(after.result, ReshapeOp)
    rows = after.result if view is None else view.result
    product = only_user(rows, MatmulOp)
    if product is None or product.lhs is not rows or not op.tokens_first("result"):
        return ()
    batch, tokens, *_ = shape_of(after.result)
    if product.transpose_lhs.value.data or len(shape_of(product.rhs)) != 2:
        return ()
    if shape_of(rows)[:-1] not in ((batch, tokens), *([(tokens,)] if batch == 1 else ())):
        return ()
    return (product,) if view is None else (view, product)


def fewer(shape: Shape, dim: int, count: int) -> Shape:
    """Return a shape with one of `count` parts of a dimension."""
    dim %= max(len(shape), 1)
    return tuple(n // count if i == dim else n for i, n in enumerate(shape))


def us_on(op: TensorOp, shapes: Sequence[Shape], target: Target) -> float:
    """Return how long an op takes on operands of other shapes; infinity where it does not take
    them."""
    pairs = zip(shapes, operands_of(op), strict=True)
    block = Block(arg_types=[tensor(shape, element_type(v)) for shape, v in pairs])
    try:
        part = op.with_operands(block.args)
    except VerifyException:
        return float("inf")
    block.add_op(part)
    us = launch_us(part, target)
    return float("inf") if us is None else us


def in_turn(ready: Sequence[float], times: Sequence[float], free: float) -> list[float]:
    """Return when parts end that take so long, one after the other from a time on, each once its
    share of what was before is ready."""
    ends: list[float] = []
    for i, us in enumerate(times, 1):
        needs = ready[-(-i * len(ready) // len(times)) - 1]
        ends.append(free := max(free, needs) + us)
    return ends
