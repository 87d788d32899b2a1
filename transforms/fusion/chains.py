"""What the fusion passes share: finding the ops that follow an op and nothing else, and putting a
fused op in their place. Analysis only reads; `replace_chain` is the one rewrite."""

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from ge.dialects.fused_op import FusedOp
from ge.dialects.graph import activation as a
from ge.dialects.graph import elementwise as g
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.interfaces import TensorOp
from ge.dialects.types import is_static, shape_of
from ge.transforms.graph.prepare_weights import FUNCTION
from ge.transforms.statistics import count

ACTIVATIONS: tuple[type[TensorOp], ...] = (
    a.ReluOp,
    a.SigmoidOp,
    a.SiluOp,
    a.GeluOp,
    g.TanhOp,
    a.LeakyReluOp,
    a.HardSwishOp,
    a.HardSigmoidOp,
    a.EluOp,
    g.ClampOp,
)
"""Activation functions that the vector unit applies to the cube's output tile."""


def only_user(op: Operation) -> TensorOp | None:
    """The one op that uses the op's single result, once and in the same block, else None."""
    if len(op.results) != 1 or not op.results[0].has_one_use():
        return None
    use = op.results[0].first_use
    user = None if use is None else use.operation
    if isinstance(user, TensorOp) and user.parent is op.parent and len(user.results) == 1:
        return user
    return None


def keeps_shape(user: TensorOp, value: SSAValue) -> bool:
    """Whether the user's result has the shape of `value`, all of it known."""
    shape = shape_of(value)
    return is_static(shape) and shape_of(user.results[0]) == shape


def bias_add(user: TensorOp, value: SSAValue) -> bool:
    """Whether `user` adds a constant to `value` without changing its shape."""
    if not isinstance(user, g.AddOp) or not keeps_shape(user, value):
        return False
    other = user.rhs if user.lhs is value else user.lhs
    return isinstance(other.owner, ConstantOp)


def activation(user: TensorOp, value: SSAValue) -> bool:
    """Whether `user` is an activation function of `value`, with constant limits if any."""
    return (
        isinstance(user, ACTIVATIONS)
        and user.operands[0] is value
        and keeps_shape(user, value)
        and all(isinstance(o.owner, ConstantOp) for o in user.operands[1:])
    )


def replace_chain(ops: Sequence[Operation], kind: type[FusedOp]) -> FusedOp:
    """Put one fused op in the place of `ops` (in program order, one result leaves the chain, the
    last op's). Values from outside are defined before the last op, where the fused op goes."""
    last = ops[-1]
    assert last.parent is not None
    fused = kind.wrap(ops, last.results)
    last.parent.insert_op_before(fused, last)
    for old, new in zip(last.results, fused.results, strict=True):
        old.replace_all_uses_with(new)
    for op in reversed(ops):
        op.detach()
        op.erase()
    return fused


def for_each_block(module: ModuleOp, visit: Callable[[Block], None]) -> None:
    """Visit the blocks of the program: function bodies and control flow in them, but neither the
    bodies of fused ops nor what is prepared at load."""

    def walk(block: Block) -> None:
        visit(block)
        for op in block.ops:
            if not isinstance(op, FusedOp):
                for region in op.regions:
                    for inner in region.blocks:
                        walk(inner)

    for func in module.ops:
        if isinstance(func, FuncOp) and func.sym_name.data != FUNCTION and func.body.blocks:
            walk(func.body.block)


def fuse_epilogues(module: ModuleOp, root: type[TensorOp], kind: type[FusedOp], rule: str) -> None:
    """Fuse each `root` op with a bias add and an activation that follow it, counted for `rule`.
    An op with nothing to fuse stays alone: it is a launch too."""

    def visit(block: Block) -> None:
        for op in list(block.ops):
            if not isinstance(op, root):
                continue
            chain: list[TensorOp] = [op]
            if (user := only_user(op)) and bias_add(user, op.results[0]):
                chain.append(user)
            last = chain[-1]
            if (user := only_user(last)) and activation(user, last.results[0]):
                chain.append(user)
            if len(chain) > 1:
                replace_chain(chain, kind)
                count(rule)

    for_each_block(module, visit)
