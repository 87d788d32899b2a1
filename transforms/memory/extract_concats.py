"""A concatenation that a fused op begins with, and gives as a result, is put before it.

    %0, %1 = fused_op.flash_attention(%q, %past, %new, %v) {
    ^bb0(%2, %3, %4, %5):
      %6 = graph.concat %3, %4 axis 2 : ...
      %7 = graph.attention %2, %6, %5 : ...
      fused_op.yield %7, %6 : ...
    }
becomes
    %1 = graph.concat %past, %new axis 2 : ...
    %0 = fused_op.flash_attention(%q, %1, %v) {
    ^bb0(%2, %3, %4):
      %5 = graph.attention %2, %3, %4 : ...
      fused_op.yield %5 : ...
    }

Inside of the fused op, every element is read and written again; outside, each operand can be
written where it belongs (see `write_parts.py`): the cache of attention is appended to in place.
This is so if each operand is used by nobody else, and is an input of the model or what an op makes,
one of them at least.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import ConstantLike

from ge.dialects.fused_op import CustomOp, FusedOp
from ge.dialects.graph.slicing import ConcatOp
from ge.dialects.npu_task.attributes import is_dynamic
from ge.dialects.support.functions import main_function


def leading_concats(op: FusedOp) -> list[ConcatOp]:
    """The concatenations of inputs only in a fused op, which it yields, and whose operands can be
    written in their places."""
    outside: dict[SSAValue, SSAValue] = dict(zip(op.block.args, op.inputs, strict=True))
    yielded = set(op.yielded)
    return [
        member
        for member in op.members
        if isinstance(member, ConcatOp)
        and member.result in yielded
        and not is_dynamic(member.result.type)
        and all(arg in outside and arg.has_one_use() for arg in member.inputs)
        and all(outside[arg].has_one_use() and has_no_place(outside[arg]) for arg in member.inputs)
        and any(isinstance(outside[arg].owner, Operation) for arg in member.inputs)
    ]


def has_no_place(value: SSAValue) -> bool:
    """Whether a value may be written where it is wanted: an input, or what an op makes."""
    if isinstance(value, BlockArgument):
        return True
    return isinstance(value.owner, Operation) and not value.owner.has_trait(ConstantLike)


def extract(op: FusedOp, concats: list[ConcatOp]) -> None:
    """Put concatenations before a fused op, which is made anew of the rest of its body."""
    assert op.parent is not None
    values: dict[SSAValue, SSAValue] = dict(zip(op.block.args, op.inputs, strict=True))
    inner: list[Operation] = []
    for member in op.members:
        clone = member.clone(values)
        clone.location = member.location
        op.parent.insert_op_before(clone, op)
        if member not in concats:
            inner.append(clone)
    extracted = {c.result for c in concats}
    kept = [v for v in op.yielded if v not in extracted]
    fused = type(op).wrap(inner, [values[v] for v in kept], **op.properties)
    fused.location = op.location
    op.parent.insert_op_before(fused, op)
    made = dict(zip(kept, fused.results, strict=True))
    for result, value in zip(op.results, op.yielded, strict=True):
        new = made.get(value, values[value])
        new.name_hint = new.name_hint or result.name_hint
        result.replace_all_uses_with(new)
    for old in (op, *reversed(inner)):
        old.detach()
        old.erase()


@dataclass(frozen=True)
class ExtractConcatsPass(ModulePass):
    """Put concatenations before the fused ops that begin with them and give them as results."""

    name = "extract-concats"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if (main := main_function(op)) is None:
            return
        for fused in [o for o in main.walk() if isinstance(o, FusedOp)]:
            concats = [] if isinstance(fused, CustomOp) else leading_concats(fused)
            if concats and len(concats) < len(fused.results):
                extract(fused, concats)
