"""Reorder tasks to lower peak memory.

    %0 = npu_task.launch @wide_0 ins(%x : ...) ...      (100 MB)
    %1 = npu_task.launch @wide_0 ins(%y : ...) ...      (100 MB)
    %2 = npu_task.launch @sum_0 ins(%0 : ...) ...       (1 KB)
    %3 = npu_task.launch @sum_0 ins(%1 : ...) ...       (1 KB)
becomes
    %0 = npu_task.launch @wide_0 ins(%x : ...) ...
    %2 = npu_task.launch @sum_0 ins(%0 : ...) ...
    %1 = npu_task.launch @wide_0 ins(%y : ...) ...
    %3 = npu_task.launch @sum_0 ins(%1 : ...) ...

`orders.py` computes several orders; the order of the program stays where none has a lower peak.
Buffers of the model's results, constants and values of unknown size do not count. A branch or loop
is one task, whose ops keep their order. `npu_task.order` of the function names its order.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import IsTerminator

from ge.dialects.graph.control import CaseOp, IfOp, LoopOp
from ge.dialects.npu_task.ops import LaunchOp
from ge.dialects.npu_task.program_info import ORDER
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.support.types import align_up, byte_size, has_size
from ge.dialects.targets.target import target_for
from ge.transforms.analysis.task_graph import TaskGraph, used_by, value_graph
from ge.transforms.analysis.views import storage, whole_of
from ge.transforms.memory.orders import ORDERS, best_order

PROGRAM = "program"

TASKS = (LaunchOp, IfOp, CaseOp, LoopOp)
"""The ops that are reordered; constants, destinations and views move in front of their users."""


def task_graph(block: Block, alignment: int) -> tuple[TaskGraph, list[Operation]]:
    """The graph of the tasks of a block, and the tasks; sizes are aligned. Where results of the
    model are parts of buffers, the terminator is the last task: it copies them to the host."""
    last = block.last_op
    returned = last.operands if isinstance(block.parent_op(), FuncOp) and last is not None else ()
    results = {whole_of(v) for v in returned}

    def size_of(value: SSAValue) -> int:
        counts = has_size(value) and value not in results
        return align_up(byte_size(value.type), alignment) if counts else 0

    tasks: list[Operation] = [op for op in block.ops if isinstance(op, TASKS)]
    graph = value_graph(([op] for op in tasks), size_of)
    parts = {storage(v) for v in results} - results
    if last is not None and not parts.isdisjoint(graph.buffers):
        tasks.append(last)
        return_parts(graph, [b for value, b in graph.buffers.items() if value in parts])
    return graph, tasks


def return_parts(graph: TaskGraph, buffers: list[int]) -> None:
    """Add a task that reads these buffers after all other tasks."""
    sinks = [t for t, made in enumerate(graph.results) if not any(graph.readers[b] for b in made)]
    last = graph.task()
    for task in sinks:
        if not graph.results[task]:
            graph.buffer(0, task)
        graph.read(graph.results[task][0], last)
    for b in buffers:
        graph.read(b, last)


def rearrange(block: Block, tasks: list[Operation]) -> None:
    """Put the tasks of a block in this order, each after the ops that define its operands."""
    last = block.last_op
    rest = [op for op in block.ops if op is not last or not op.has_trait(IsTerminator)]
    for op in rest:
        op.detach()
    placed: set[Operation] = set()
    order: list[Operation] = []

    def place(op: Operation) -> None:
        for value in used_by(op):
            source = value.owner
            if isinstance(source, Operation) and source in loose and source not in placed:
                place(source)
        placed.add(op)
        order.append(op)

    loose = {op for op in rest if not isinstance(op, TASKS)}
    for op in (*tasks, *(o for o in rest if o in loose)):
        if op not in placed and op is not last:
            place(op)
    if last is not None and last.parent is block:
        block.insert_ops_before(order, last)
    else:
        block.add_ops(order)


@dataclass(frozen=True)
class OrderTasksPass(ModulePass):
    """Reorder the tasks of @main to lower peak memory."""

    name = "order-tasks"

    target: str = ""
    """Preset name, or path of a target file; empty: the target of lower-to-tasks."""
    orders: tuple[str, ...] = tuple(ORDERS)
    """Candidates: program, depth-first, memory-greedy, critical-path."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        unknown = [n for n in self.orders if n not in ORDERS]
        if unknown or not self.orders:
            message = f"there is no order '{unknown[0]}'" if unknown else "no order is named"
            raise GeError(message, hint=f"orders: {', '.join(ORDERS)}")
        if (main := main_function(op)) is None:
            return
        alignment = target_for(main, self.target).hbm_alignment
        graph, tasks = task_graph(main.body.block, alignment)
        name, order = best_order(graph, self.orders)
        if order != list(range(len(tasks))):
            rearrange(main.body.block, [tasks[i] for i in order])
        main.attributes[ORDER] = StringAttr(name)
