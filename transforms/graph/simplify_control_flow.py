"""Branches and loops in their simplest form.

    %c = graph.constant dense<true> : tensor<i1>
    %n = graph.constant dense<3> : tensor<i64>
    %0 = graph.if %c : (tensor<i1>) -> (...) {
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

The rules are in `branches.py` and `loops.py`. One walk in program
order infers types and folds constants on the way (see fold-constants), so that each rule sees what
others have done; ops that replace a branch or loop are visited again. Then chains of branches are
merged. Constants move to the start of the function, where prepare-weights and other passes look for
them.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ge.dialects.fused_op import FusedOp
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.control import Branching, Control, IfOp, LoopOp, YieldOp
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import has_size, shape_of
from ge.runtime.data.arrays import dense, type_of
from ge.transforms.graph import branches, loops
from ge.transforms.graph.branches import merge_chains
from ge.transforms.graph.control_flow import replace_op, with_limits
from ge.transforms.graph.fold_constants import fold_op
from ge.transforms.graph.infer_shapes import infer_loop, infer_op, refresh_signature
from ge.transforms.rewriting.passes import FunctionPass

MOST_REPEATS = 4  # how often a body is simplified again because fewer values are carried


def hoist_constants(entry: Block) -> None:
    """Move the constants of a function, those of branches and loops too, to its start; equal ones
    are one."""
    constants: dict[Hashable, ConstantOp] = {}
    for op in list(entry.walk()):
        if not isinstance(op, ConstantOp) or isinstance(op.parent_op(), FusedOp):
            continue
        first = constants.setdefault((op.value, op.result.type), op)
        if first is op:
            op.detach()
        else:
            replace_op(op, [first.result])
    assert entry.first_op is not None
    entry.insert_ops_before(tuple(constants.values()), entry.first_op)


@dataclass
class Simplifier:
    """Simplifies the blocks of one function."""

    entry: Block
    limit: int  # largest result of folding, in bytes
    # conditions whose value is known in the block that is visited
    known: dict[SSAValue, bool] = field(default_factory=dict[SSAValue, bool])
    # the constants that replaced known conditions
    truths: dict[tuple[Attribute, bool], SSAValue] = field(
        default_factory=dict[tuple[Attribute, bool], SSAValue]
    )

    def block(self, block: Block) -> None:
        op = block.first_op
        while op is not None:
            op = self.visit(op)

    def visit(self, op: Operation) -> Operation | None:
        """Simplify an op; returns the one to visit next."""
        before, after, block = op.prev_op, op.next_op, op.parent
        assert block is not None
        if self.known:
            self.replace_known(op)
        if isinstance(op, Branching):
            inlined = self.branch(op)
        elif isinstance(op, LoopOp):
            inlined = self.loop(op)
        else:
            inlined = False
            if isinstance(op, TensorOp):
                fold_op(op, self.limit)
        if not inlined:
            return after
        return block.first_op if before is None else before.next_op

    def branch(self, op: Branching) -> bool:
        """Simplify a branch; whether it was replaced."""
        if branches.take_known_branch(op):
            return True
        if isinstance(op, IfOp):
            for block, value in ((op.then_region.block, True), (op.else_region.block, False)):
                self.inside(block, op.condition, value)
        else:
            for region in op.branches:
                self.block(region.block)
        branches.hoist_common_ops(op)
        infer_op(op)
        branches.use_equal_values(op)
        return False

    def loop(self, op: LoopOp) -> bool:
        """Simplify a loop; whether it was replaced."""
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
        op = loops.count_rounds(op, self.limit)
        infer_op(op)
        return loops.inline_single_round(op) or loops.unroll(op, self.block)

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
            assert self.entry.first_op is not None
            self.entry.insert_op_before(constant, self.entry.first_op)
            self.truths[key] = constant.result
        return self.truths[key]


def _goes_on(op: YieldOp, index: int) -> bool:
    """Return whether this operand yields a loop's own condition."""
    loop = op.parent_op()
    return isinstance(loop, LoopOp) and index == 0 and op.operands[0] is loop.body.block.args[1]


def simplify_control_flow(func: FuncOp, limit: int) -> None:
    entry = func.body.block
    if not any(isinstance(op, Control) for op in entry.ops):
        return
    hoist_constants(entry)
    Simplifier(entry, limit).block(entry)
    merge_chains(entry)
    hoist_constants(entry)
    refresh_signature(func)


@dataclass(frozen=True)
class SimplifyControlFlowPass(FunctionPass):
    """Fold branches and loops, hoist ops that compute the same everywhere, and unroll loops.
    `limit`: largest result of folding, in bytes, that becomes a constant in the IR."""

    name = "simplify-control-flow"

    limit: int = 1024

    def run(self, func: FuncOp) -> None:
        simplify_control_flow(func, self.limit)
