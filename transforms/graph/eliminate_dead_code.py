"""Erase dead ops, and dead results of branches and loops.

    %1 = graph.exp %x : ...      (no use)
becomes nothing, and
    %h, %k, %ys = graph.loop ... carry (%a = %x : ..., %b = %y : ...) {   (no use of %k and %ys)
      %c = graph.exp %a
      %d = graph.add %b, %c
      graph.yield %go, %c, %d, %d
    }
becomes
    %h = graph.loop ... carry (%a = %x : ...) {
      %c = graph.exp %a
      graph.yield %go, %c
    }

Live values are marked from what is returned up, through branches and rounds of loops; the rest is
erased. All graph and fused ops are pure; other ops are live, and all that they use.
"""

from dataclasses import dataclass, field

from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from ge.dialects.fused_op import FusedOp
from ge.dialects.graph.control import Branching, Control, LoopOp, YieldOp
from ge.dialects.support.editing import erase
from ge.dialects.support.operation import all_ops
from ge.transforms.graph.control_flow import end_of, is_pure, keep_results
from ge.transforms.rewriting.passes import FunctionPass


@dataclass
class _Live:
    """The live ops and values (results, and arguments of bodies of loops)."""

    ops: set[Operation] = field(default_factory=set[Operation])
    values: set[SSAValue] = field(default_factory=set[SSAValue])
    todo: list[SSAValue] = field(default_factory=list[SSAValue])

    def mark(self, root: Operation) -> None:
        self.op(root)
        while self.todo:
            value = self.todo.pop()
            if value not in self.values:
                self.values.add(value)
                self.value(value)

    def op(self, op: Operation) -> None:
        if op in self.ops:
            return
        self.ops.add(op)
        if isinstance(op, LoopOp):
            controls = (op.trip_count, op.condition, end_of(op.body.block).operands[0])
            self.todo.extend(v for v in controls if v is not None)
        elif not isinstance(op, YieldOp):
            self.todo.extend(op.operands)
        around = op.parent_op()
        if around is not None and not isinstance(around, FuncOp):
            self.op(around)

    def value(self, value: SSAValue) -> None:
        if isinstance(value, OpResult):
            self.op(value.op)
            if isinstance(value.op, LoopOp):
                self.slot(value.op, value.index)
            elif isinstance(value.op, Branching):
                ends = [end_of(region.block) for region in value.op.regions]
                self.todo.extend(end.operands[value.index] for end in ends)
        elif isinstance(value, BlockArgument):
            loop = value.block.parent_op()
            if isinstance(loop, LoopOp) and value.index >= 2:
                self.slot(loop, value.index - 2)

    def slot(self, loop: LoopOp, i: int) -> None:
        """Mark what result `i` of a loop, or the argument for it, comes from."""
        self.todo.append(end_of(loop.body.block).operands[1 + i])
        if i < len(loop.carried):
            self.todo.append(loop.carried[i])

    def results(self, op: Control) -> set[int]:
        """The live results of an op, and those of a loop whose arguments are live."""
        used = {i for i, r in enumerate(op.results) if r in self.values}
        if isinstance(op, LoopOp):
            used |= {i for i, a in enumerate(op.body.block.args[2:]) if a in self.values}
        return used


def eliminate_dead_code(block: Block) -> int:
    """Erase the dead ops of a block and of the blocks in it, and the dead results of branches and
    loops; returns how many ops were erased."""
    live = _Live()
    for op in all_ops([block]):
        if not is_pure(type(op)) or op is block.last_op:
            live.mark(op)
        elif op.parent is not block and not isinstance(op.parent_op(), Control | FusedOp):
            live.mark(op)
    return _sweep(block, live)


def _sweep(block: Block, live: _Live) -> int:
    erased = 0
    op = block.last_op
    while op is not None:
        before = op.prev_op
        if op not in live.ops and not isinstance(op, YieldOp):
            erase(op)
            erased += 1
        elif isinstance(op, FusedOp):
            erased += eliminate_dead_code(op.block)
        else:
            if isinstance(op, Control):
                op = keep_results(op, live.results(op))
            erased += sum(_sweep(inner, live) for region in op.regions for inner in region.blocks)
        op = before
    return erased


class EliminateDeadCodePass(FunctionPass):
    """Erase ops whose results have no uses."""

    name = "eliminate-dead-code"

    def run(self, func: FuncOp) -> None:
        eliminate_dead_code(func.body.block)
