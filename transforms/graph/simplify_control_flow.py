"""Branches and loops in their simplest form.

    %c = graph.constant dense<true> : tensor<i1>
    %n = graph.constant dense<3> : tensor<i64>
    %0 = graph.if %c : tensor<i1> -> (...) {
      %1 = graph.exp %x
      graph.yield %1
    } else { ... }
    %2, %3 = graph.loop (%i, %go) trip %n carry (%a = %0 : ..., %b = %y : ...) {
      %4 = graph.sin %b
      %5 = graph.add %a, %4
      graph.yield %go, %5, %b
    }
becomes
    %n = graph.constant dense<3> : tensor<i64>
    %1 = graph.exp %x
    %4 = graph.sin %y
    %2 = graph.loop (%i, %go) trip %n carry (%a = %1 : ...) {
      %5 = graph.add %a, %4
      graph.yield %go, %5
    }                                                             (%y in the place of %3)

The rules are in `branches.py`, `loops.py` and `rounds.py`. One walk in program order: types are
inferred and constants folded on the way (see fold-constants), so that what one rule finds out
the next one sees; what takes the place of a branch or loop is visited again. Constants move to
the function's first ops, where prepare-weights and other passes find them.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass

from ge.dialects.fused_op import FusedOp
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.control import IfOp, LoopOp, YieldOp
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import has_size, shape_of
from ge.runtime.data.arrays import dense, type_of
from ge.transforms.graph import branches, loops, rounds
from ge.transforms.graph.control_flow import replace_op, with_limits
from ge.transforms.graph.fold_constants import fold_op
from ge.transforms.graph.infer_shapes import infer_loop, infer_op, refresh_signature

MOST_REPEATS = 4
"""How often a body is simplified again because fewer values are carried."""


def hoist_constants(entry: Block) -> None:
    """Move the constants of a function, those of branches and loops too, to its first ops; equal
    ones are one."""
    found: dict[Hashable, ConstantOp] = {}
    for op in list(entry.walk()):
        if not isinstance(op, ConstantOp) or isinstance(op.parent_op(), FusedOp):
            continue
        first = found.setdefault((op.value, op.result.type), op)
        if first is op:
            op.detach()
        else:
            replace_op(op, [first.result])
    assert entry.first_op is not None
    entry.insert_ops_before(tuple(found.values()), entry.first_op)


@dataclass
class Simplifier:
    """Simplifies the blocks of one function."""

    entry: Block
    limit: int
    """Largest result of folding, in bytes."""
    known: dict[SSAValue, bool] = field(default_factory=dict[SSAValue, bool])
    """Conditions whose value is known in the block that is visited."""
    truths: dict[tuple[Attribute, bool], SSAValue] = field(
        default_factory=dict[tuple[Attribute, bool], SSAValue]
    )
    """The constants that took the place of known conditions."""

    def block(self, block: Block) -> None:
        op = block.first_op
        while op is not None:
            op = self.visit(op)

    def visit(self, op: Operation) -> Operation | None:
        """Simplify one op; returns the one to visit next."""
        before, after, block = op.prev_op, op.next_op, op.parent
        assert block is not None
        if self.known:
            self.replace_known(op)
        if isinstance(op, IfOp):
            gone = self.branch(op)
        elif isinstance(op, LoopOp):
            gone = self.loop(op)
        else:
            gone = False
            if isinstance(op, TensorOp):
                fold_op(op, self.limit)
        if not gone:
            return after
        return block.first_op if before is None else before.next_op

    def branch(self, op: IfOp) -> bool:
        """Simplify a branch; whether it is gone."""
        if branches.take_known_branch(op):
            return True
        for block, value in ((op.then_region.block, True), (op.else_region.block, False)):
            self.inside(block, op.condition, value)
        branches.hoist_common_ops(op)
        infer_op(op)
        branches.use_equal_values(op)
        return False

    def loop(self, op: LoopOp) -> bool:
        """Simplify a loop; whether it is gone."""
        if loops.drop_idle_loop(op):
            return True
        if op.condition is not None and loops.truth(op.condition):
            op = with_limits(op, op.trip_count, None)
        for _ in range(MOST_REPEATS):
            infer_loop(op)
            if loops.inline_single_round(op):
                return True
            self.inside(op.body.block, op.body.block.args[1], True)
            smaller = loops.drop_unchanged_values(op)
            if smaller is op:
                break
            op = smaller
        if loops.inline_single_round(op):
            return True
        loops.merge_equal_values(op)
        loops.hoist_invariants(op)
        op = rounds.count_rounds(op, self.limit)
        infer_op(op)
        return loops.inline_single_round(op) or rounds.unroll(op, self.block)

    # ---- known conditions

    def inside(self, block: Block, condition: SSAValue, value: bool) -> None:
        """Simplify a block in which a condition has this value."""
        outer = self.known.get(condition)
        self.known[condition] = value
        self.block(block)
        if outer is None:
            del self.known[condition]
        else:
            self.known[condition] = outer

    def replace_known(self, op: Operation) -> None:
        """Use constants for operands that are known conditions."""
        for i, operand in enumerate(op.operands):
            if operand in self.known and has_size(operand):
                if isinstance(op, YieldOp) and _goes_on(op, i):
                    continue
                op.operands[i] = self.truth(operand, self.known[operand])

    def truth(self, condition: SSAValue, value: bool) -> SSAValue:
        """A constant of the type of `condition`, the same one for equal types."""
        key = condition.type, value
        if key not in self.truths:
            array = np.full(shape_of(condition), value)
            constant = ConstantOp.make(dense(array), type_of(array))
            first = self.entry.first_op
            assert first is not None
            self.entry.insert_op_before(constant, first)
            self.truths[key] = constant.result
        return self.truths[key]


def _goes_on(op: YieldOp, index: int) -> bool:
    """Whether this operand says that a loop goes on as before."""
    loop = op.parent_op()
    return isinstance(loop, LoopOp) and index == 0 and op.operands[0] is loop.body.block.args[1]


def simplify_control_flow(func: FuncOp, limit: int) -> None:
    """Simplify the branches and loops of a function."""
    entry = func.body.block
    if not any(isinstance(op, IfOp | LoopOp) for op in entry.ops):
        return
    hoist_constants(entry)
    Simplifier(entry, limit).block(entry)
    hoist_constants(entry)
    refresh_signature(func)


@dataclass(frozen=True)
class SimplifyControlFlowPass(ModulePass):
    """Fold branches and loops, take out of them what is the same everywhere, and unroll loops.
    `limit`: largest result of folding, in bytes, that is put into the text."""

    name = "simplify-control-flow"

    limit: int = 1024

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in op.ops:
            if isinstance(func, FuncOp) and func.body.blocks:
                simplify_control_flow(func, self.limit)
