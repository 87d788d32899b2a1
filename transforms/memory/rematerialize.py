"""Recompute values before their later uses instead of keeping them live.

    %0 = npu_task.launch @exp_0 ins(%x : ...) ...             (100 MB)
    %1 = npu_task.launch @sum_0 ins(%0 : ...) ...             (1 KB)
    %2 = ...                                                  (the memory peak)
    %3 = npu_task.launch @mul_0 ins(%0, %2 : ...) ...
becomes
    %0 = npu_task.launch @exp_0 ins(%x : ...) ...
    %1 = npu_task.launch @sum_0 ins(%0 : ...) ...
    %2 = ...
    %4 = npu_task.launch @exp_0 ins(%x : ...) ...
    %3 = npu_task.launch @mul_0 ins(%4, %2 : ...) ...

`recomputation.py` chooses the values. Only launches of pure kernels of known cost are repeated:
nothing random, no branch or loop, no dynamic shape. `npu_task.recomputed` of the function is the
number of repeated launches. Run `order-tasks` before: the order of the tasks stays.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.tensor import EmptyOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import NoMemoryEffect

from ge.dialects.npu_task.attributes import number
from ge.dialects.npu_task.ops import KernelOp, LaunchOp
from ge.dialects.npu_task.program_info import RECOMPUTED
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.targets.target import Target, target_for
from ge.runtime.library.asking import launch_us
from ge.transforms.analysis.aliasing import erase_unused
from ge.transforms.analysis.task_graph import TaskGraph
from ge.transforms.analysis.views import storage, view_offsets
from ge.transforms.memory.order_tasks import task_graph
from ge.transforms.memory.recomputation import Plan, TaskRun, best_plan


def launch_costs(module: ModuleOp, target: Target) -> dict[str, float]:
    """Microseconds of a launch of each kernel that may be repeated."""
    costs: dict[str, float] = {}
    for kernel in module.ops:
        if isinstance(kernel, KernelOp) and is_repeatable(kernel):
            if (us := launch_us(kernel.main, target)) is not None:
                costs[kernel.sym_name.data] = us
    return costs


def is_repeatable(kernel: KernelOp) -> bool:
    """Whether a launch gives the same each time, and does nothing else."""
    return all(
        op.has_trait(NoMemoryEffect) for op in kernel.body.walk() if isinstance(op, TensorOp)
    )


@dataclass
class Rematerialization:
    """Carries out a plan for the tasks of one block."""

    graph: TaskGraph
    tasks: Sequence[Operation]
    current: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """Result of a task, or view of one -> its latest copy."""
    views: dict[SSAValue, list[SSAValue]] = field(default_factory=dict[SSAValue, list[SSAValue]])
    """Result of a task -> the views of it in `current`."""

    def apply(self, plan: Plan) -> None:
        """Replace the tasks by the runs of the plan."""
        first_runs: set[int] = set()
        repeated: list[TaskRun] = []
        for step in plan.steps:
            if step.again:
                repeated.append(step)
                continue
            first_runs.add(step.task)
            task = self.tasks[step.task]
            for again in repeated:
                self.repeat(again, task)
            repeated.clear()
            for op in task.walk():
                for i, value in enumerate(op.operands):
                    if (new := self.latest(value, task)) is not value:
                        op.operands[i] = new
        for i in reversed(range(len(self.tasks))):
            if i not in first_runs:
                erase(self.tasks[i])

    def repeat(self, step: TaskRun, before: Operation) -> None:
        """Repeat a launch before a task."""
        launch = self.tasks[step.task]
        assert isinstance(launch, LaunchOp)
        outs = [EmptyOp.create(result_types=[v.type]) for v in launch.outs]
        ins = [self.latest(v, before) for v in launch.ins]
        destinations = [e.tensor for e in outs]
        again = LaunchOp(launch.callee, ins, destinations, launch.result_types)
        for op in (*outs, again):
            op.location = launch.location
            Rewriter.insert_op(op, InsertPoint.before(before))
        results = self.graph.results[step.task]
        for b, old, new in zip(results, launch.results_, again.results_, strict=True):
            if b in step.fills:
                new.name_hint = old.name_hint
                self.current[old] = new
                for view in self.views.pop(old, ()):
                    del self.current[view]

    def latest(self, value: SSAValue, before: Operation) -> SSAValue:
        """The latest copy of a value; views are copied, too."""
        root = storage(value)
        if value in self.current or root not in self.current:
            return self.current.get(value, value)
        view = value.owner
        assert isinstance(view, Operation)
        new = view.clone({view.operands[0]: self.latest(view.operands[0], before)})
        Rewriter.insert_op(new, InsertPoint.before(before))
        for old, result in zip(view.results, new.results, strict=True):
            self.current[old] = result
            self.views.setdefault(root, []).append(old)
        return self.current[value]


def erase(task: Operation) -> None:
    """Erase a task of which only unused views are left, these, and its destinations."""
    for result in task.results:
        for use in list(result.uses):
            erase(use.operation)
    destinations = [v.owner for v in task.operands if isinstance(v.owner, EmptyOp)]
    Rewriter.erase_op(task)
    for empty in destinations:
        Rewriter.erase_op(empty)


@dataclass(frozen=True)
class RematerializePass(ModulePass):
    """Recompute values of @main before later uses where that lowers the memory peak."""

    name = "rematerialize"

    target: str = ""
    """Preset name, or path of a target file; empty: the target of lower-to-tasks."""
    slower: float = 1.1
    """How many times as long the tasks may take, one after the other."""
    limit: int = 0
    """Bytes that may be live: nothing more is recomputed than it takes to get there; 0: the least
    peak that `slower` allows."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.slower < 1:
            raise GeError(f"slower is at least 1, not {self.slower:g}")
        if self.limit < 0:
            raise GeError(f"limit is a number of bytes, not {self.limit}")
        if (main := main_function(op)) is None:
            return
        target, block = target_for(main, self.target), main.body.block
        graph, tasks = task_graph(block, target.hbm_alignment)
        by_kernel = launch_costs(op, target)
        costs = [by_kernel.get(t.callee) if isinstance(t, LaunchOp) else None for t in tasks]
        plan = best_plan(graph, costs, self.slower, self.limit)
        if plan is None:
            return
        Rematerialization(graph, tasks).apply(plan)
        erase_unused(o for o in block.ops if view_offsets(o) is not None)
        main.attributes[RECOMPUTED] = number(len(plan.steps) - len(tasks))
