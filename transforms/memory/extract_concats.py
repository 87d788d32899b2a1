"""Move concatenations out of fused ops, in front of them.

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

Inside of the fused op every element is read and written again; outside, each operand can be
written directly into the result (see `write_parts.py`), so the cache of attention is appended to in
place. The fused op must return the concatenation. Its operands must be inputs of the fused op
without other users, none of them a constant and at least one the result of an op.
"""

from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import ConstantLike

from ge.dialects.fused_op import CustomOp, FusedOp
from ge.dialects.graph.slicing import ConcatOp
from ge.dialects.support.editing import erase, replace_uses
from ge.dialects.support.operation import all_ops, cloned, put_before
from ge.dialects.support.types import is_dynamic
from ge.transforms.graph.control_flow import insert_before
from ge.transforms.rewriting.passes import MainPass


def leading_concats(op: FusedOp) -> list[ConcatOp]:
    """The concatenations that can move out of a fused op."""
    concats = [member for member in op.members if isinstance(member, ConcatOp)]
    if not concats:
        return []
    outside: dict[SSAValue, SSAValue] = dict(zip(op.block.args, op.inputs, strict=True))
    yielded = set(op.yielded)

    def movable(arg: SSAValue) -> bool:
        if arg not in outside or not arg.has_one_use() or not outside[arg].has_one_use():
            return False
        owner = outside[arg].owner
        return isinstance(owner, Block) or not owner.has_trait(ConstantLike)

    return [
        member
        for member in concats
        if member.result in yielded
        and not is_dynamic(member.result.type)
        and all(map(movable, member.inputs))
        and any(isinstance(outside[arg].owner, Operation) for arg in member.inputs)
    ]


def extract(op: FusedOp, concats: list[ConcatOp]) -> None:
    """Insert concatenations before a fused op, which is rebuilt from the rest of its body."""
    block = op.parent
    assert block is not None
    values: dict[SSAValue, SSAValue] = dict(zip(op.block.args, op.inputs, strict=True))
    inner: list[Operation] = []
    for member in op.members:
        clone = cloned(member, values)
        put_before(block, clone, op)
        if member not in concats:
            inner.append(clone)
    extracted = {c.result for c in concats}
    yielded = [v for v in op.yielded if v not in extracted]
    fused = type(op).wrap(inner, [values[v] for v in yielded], **op.properties)
    insert_before(op, fused)
    results = dict(zip(yielded, fused.results, strict=True))
    for result, value in zip(op.results, op.yielded, strict=True):
        new = results.get(value, values[value])
        new.name_hint = new.name_hint or result.name_hint
        replace_uses(result, new)
    for old in (op, *reversed(inner)):
        erase(old)


class ExtractConcatsPass(MainPass):
    """Move concatenations out of the fused ops that begin with them and return them."""

    name = "extract-concats"

    def run(self, main: FuncOp) -> None:
        for fused in [o for o in all_ops(main.body.blocks) if isinstance(o, FusedOp)]:
            concats = [] if isinstance(fused, CustomOp) else leading_concats(fused)
            if concats and len(concats) < len(fused.results):
                extract(fused, concats)
