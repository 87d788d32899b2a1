"""The body of a gear: types that follow from the shapes of its inputs, and what folds then.

    %1 = graph.shape_of %0 : tensor<8x64xf32> -> tensor<2xi64>
    %2 = graph.relu %0 : (tensor<8x64xf32>) -> tensor<?x64xf32>
    %3 = graph.reshape %2 shape(%1 : tensor<2xi64>) : tensor<?x64xf32> -> tensor<?x?xf32>
becomes
    %2 = graph.relu %0 : (tensor<8x64xf32>) -> tensor<8x64xf32>

The layers of a model repeat: what was inferred of a fused op counts for those of the same members,
wired alike, on inputs of the same types and constants.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ge.dialects.fused_op import Body, CustomOp, FusedOp
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.control import LoopOp, YieldOp
from ge.dialects.support.editing import detach, erase, replace_uses
from ge.dialects.support.operation import (
    created,
    operands_of,
    put_after,
    put_before,
)
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import (
    constant_value,
    element_type,
    is_shape_like,
    number_of,
    set_type,
)
from ge.runtime.library.costs.structure import structure
from ge.transforms.graph.control_flow import insert_before, replace_op
from ge.transforms.graph.fold_constants import FROM_SIZES, fold_identity, fold_op, fold_parameters
from ge.transforms.graph.infer_shapes import infer_loop, infer_op
from ge.transforms.shapes.split_oversized import gathered

Alike = Mapping[Operation, Hashable]
"""Fused ops of a body -> what is equal for those of the same members, wired alike."""


def alike(ops: Iterable[Operation]) -> dict[Operation, Hashable]:
    """Of fused ops as they are before sizes are known, where there are several that are equal;
    kernels of users equal no others."""
    fused = [op for op in ops if isinstance(op, FusedOp) and not isinstance(op, CustomOp)]
    structures = [structure(Body.of(op)) for op in fused]
    counts = Counter(structures)
    return {op: s for op, s in zip(fused, structures, strict=True) if counts[s] > 1}


@dataclass(slots=True)
class Member:
    """What becomes of a member of a fused op."""

    types: Sequence[Attribute]  # of its results
    # where constant operands become properties: those that stay, and the properties
    operands: Sequence[int] | None = None
    properties: Mapping[str, Attribute] = field(default_factory=dict[str, Attribute])

    def apply(self, op: TensorOp) -> None:
        if self.operands is not None:
            operands = [operands_of(op)[i] for i in self.operands]
            new = created(type(op), operands, self.types, dict(self.properties))
            new.attributes.update(op.attributes)
            replace_op(op, insert_before(op, new).results)
            return
        for result, t in zip(op.results, self.types, strict=True):
            set_type(result, t)


def settle(block: Block, alike: Alike, limit: int = FROM_SIZES) -> None:
    """Infer the types of the body of a gear, and fold what follows, up to so many bytes."""
    Settling(alike, limit).block(block)


@dataclass
class Settling:
    """Works on the body of one gear."""

    alike: Alike
    limit: int
    # What `retyped` has done to the members of a fused op -> the same for those that equal it
    known: dict[Hashable, Sequence[Member]] = field(
        default_factory=dict[Hashable, "Sequence[Member]"]
    )

    def block(self, block: Block) -> None:
        """Infer the types of a block whose operands have got others, and fold what follows."""
        for op in list(block.ops):
            if isinstance(op, FusedOp):
                if isinstance(op, CustomOp) or not self.retyped(op):
                    settle_fused(op, self.limit)
                continue
            if isinstance(op, LoopOp):
                infer_loop(op)
            for region in op.regions:
                self.block(region.block)
            if isinstance(op, TensorOp):
                fold_op(op, self.limit)

    def retyped(self, op: FusedOp) -> bool:
        """As `retyped`, once for all fused ops that are equal."""
        members, args = op.members, op.block.args
        if len(members) < 2 or len(set(op.inputs)) < len(args) or set(op.yielded) & set(args):
            return False
        key = self.key(op)
        known = None if key is None else self.known.get(key)
        for arg, value in zip(args, op.inputs, strict=True):
            set_type(arg, value.type)
        if known is not None:
            for member, its in zip(members, known, strict=True):
                its.apply(member)
        elif (found := retyped(op, members)) is None:
            return False
        elif key is not None:
            self.known[key] = found
        for result, value in zip(op.results, op.yielded, strict=True):
            set_type(result, value.type)
        drop_unused(op)
        return True

    def key(self, op: FusedOp) -> Hashable:
        """Equal for fused ops that become equal; None where no other is known to be alike. Of
        constants the integers count, which may become properties, and that others are some."""
        if (structure := self.alike.get(op)) is None:
            return None
        parts: list[Hashable] = [structure]
        for value in op.inputs:
            fixed: Hashable = (constant := constant_value(value)) is not None
            if constant is not None and isinstance(element_type(value), IntegerType):
                fixed = number_of(constant)
            parts += (number_of(value.type), fixed)
        return tuple(parts)


def retyped(op: FusedOp, members: Sequence[TensorOp]) -> list[Member] | None:
    """Infer the types of the members where they are, with constant parameters as properties.
    Returns what they have become; None where something else folds too: then they cannot stay."""
    outside: dict[SSAValue, SSAValue] = dict(zip(op.block.args, op.inputs, strict=True))
    after: list[Member] = []

    def is_known(member: Operation) -> bool:
        """Whether all operands are constants."""
        for operand in operands_of(member):
            value = outside.get(operand)
            if value is None or constant_value(value) is None:
                return False
        return True

    for member in members:
        kept: list[int] | None = None
        if is_known(member):
            return None
        if any([getattr(member, name) is not None for name in member.PARAMETERS]):
            simpler = fold_parameters(member, outside)
            if simpler is None or is_known(simpler):
                return None
            if any([getattr(simpler, name) is not None for name in simpler.PARAMETERS]):
                return None
            kept = remaining(operands_of(member), operands_of(simpler))
            replace_op(member, insert_before(member, simpler).results)
            member = simpler
        infer_op(member)
        if any(map(is_shape_like, member.results)) or fold_identity(member) is not None:
            return None
        types = [r.type for r in member.results]
        after.append(Member(types, kept, {} if kept is None else member.properties))
    return after


def remaining(before: Sequence[SSAValue], after: Sequence[SSAValue]) -> list[int]:
    """The places of values, of which some are left, in their order."""
    places: list[int] = []
    for i, value in enumerate(before):
        if len(places) < len(after) and value is after[len(places)]:
            places.append(i)
    return places


def drop_unused(op: FusedOp) -> None:
    """Leave out the inputs that no member uses."""
    args = op.block.args
    kept = [v for a, v in zip(args, op.inputs, strict=True) if a.first_use is not None]
    if len(kept) < len(args):
        for arg in args:
            if arg.first_use is None:
                op.block.erase_arg(arg)
        op.operands = kept


def settle_fused(op: FusedOp, limit: int) -> None:
    """A fused op on operands of other types, without what is known of its body."""
    block = op.parent
    assert block is not None
    if isinstance(op, CustomOp):  # a kernel of the user's, which has its operands as they are
        new = op.on(op.inputs)
        block.insert_op_before(new, op)
        replace_op(op, new.results)
        return
    members = op.members
    end = YieldOp(*op.yielded)
    put_after(block, end, op)
    for arg, value in zip(op.block.args, op.inputs, strict=True):
        replace_uses(arg, value)
    for member in members:
        detach(member, op.block)
        put_before(block, member, end)
    for member in members:
        fold_op(member, limit)
    left = [o for o in between(op, end) if not isinstance(o, ConstantOp)]
    for member in reversed(left):
        if all(r.first_use is None for r in member.results):
            erase(member)
    left = [o for o in left if o.parent is block]
    results = list(end.operands)
    if len(left) > 1:
        computed = [v for v in dict.fromkeys(results) if v.owner in left]
        new = fused(op, left, computed)
        put_before(block, new, end)
        outside = dict(zip(computed, new.results, strict=True))
        results = [outside.get(v, v) for v in results]
    erase(end)
    replace_op(op, results)


def fused(op: FusedOp, members: Sequence[Operation], results: Sequence[SSAValue]) -> FusedOp:
    """A fused op of the kind of another one, into which the members move."""
    new = gathered(type(op), members, results, op.properties)
    new.location = op.location
    return new


def between(first: Operation, last: Operation) -> list[Operation]:
    ops: list[Operation] = []
    op = first.next_op
    while op is not None and op is not last:
        ops.append(op)
        op = op.next_op
    return ops
