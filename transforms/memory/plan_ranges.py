"""Tensors of unknown size, but of dimensions in ranges, get places that hold them at all sizes.

    func.func @main(...) attributes {graph.dim_ranges = {batch = array<i64: 1, 8>}, ...} {
      %0 = npu_task.transfer %x on 2 {npu_task.bytes = ["256 * batch"]} : ...
      %1 = npu_task.launch @relu_0 on 1 ins(%0 : ...) {npu_task.bytes = ["256 * batch"]}
becomes
    func.func @main(...) attributes {..., npu_task.dynamic_bytes = 4096 : i64} {
      %0 = npu_task.transfer %x on 2 {..., npu_task.offsets = array<i64: 0>} : ...
      %1 = npu_task.launch @relu_0 on 1 ins(%0 : ...) {..., npu_task.offsets = array<i64: 2048>}

The plan is made once, of the most bytes that each tensor takes. Tasks and events are the same at
all sizes, and a tensor is inside of its place at each: so what is apart at the largest sizes is
apart at all. The device goes on allocating (offset -1) what has no bound, and what branches and
loops take or give; and all, where the target has not as much memory.
"""

from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, OpResult, SSAValue

from ge.dialects.graph.stated import dim_ranges
from ge.dialects.npu_task.attributes import (
    BYTES,
    OFFSETS,
    figure,
    most_bytes,
    state,
    state_offsets,
    stated_bytes,
    unknown_results,
)
from ge.dialects.npu_task.memory import Task
from ge.dialects.support.operation import all_ops, ops_of
from ge.dialects.support.types import align_up
from ge.dialects.targets.target import target_for
from ge.transforms.analysis.liveness import Lifetime, Liveness
from ge.transforms.memory.packing import pack, problem_of, streams_of
from ge.transforms.rewriting.passes import MainPass


class ResultLiveness(Liveness):
    """The lifetimes of results of tasks, from the task on."""

    def __init__(self, body: Block, streams: int, sizes: dict[OpResult, int]) -> None:
        self.sizes = sizes
        super().__init__(body, streams, lambda op: False)

    def task(self, op: Task) -> None:
        for result in op.results:
            if (size := self.sizes.get(result)) is not None:
                life = Lifetime(op, size, len(self.control), uses=[0] * self.streams)
                self.by_value[result] = life
        super().task(op)


def largest_sizes(main: FuncOp) -> dict[OpResult, int]:
    """The most bytes of each result that can have a place."""
    ranges, sizes = dim_ranges(main), dict[OpResult, int]()
    for op in ops_of(main.body.block):
        if BYTES not in op.attributes:
            continue
        for result, text in zip(unknown_results(op), stated_bytes(op), strict=True):
            size = most_bytes(text, ranges)
            if size and all(isinstance(u.operation, Task) for u in result.uses):
                sizes[result] = size
    return sizes


class PlanRangesPass(MainPass):
    """Give tensors of unknown size whose dimensions have ranges places that hold them at all
    sizes."""

    name = "plan-ranges"

    def run(self, main: FuncOp) -> None:
        plan_ranges(main)


def plan_ranges(main: FuncOp) -> int:
    """Returns how many tensors have places."""
    for op in (main, *all_ops(main.body.blocks)):
        op.attributes.pop(OFFSETS, None)
    main.attributes.pop("npu_task.dynamic_bytes", None)
    if not (sizes := largest_sizes(main)):
        return 0
    alignment = max(figure(main, "alignment") or 1, 1)
    liveness = ResultLiveness(main.body.block, streams_of(main), sizes)
    problem = problem_of(liveness, alignment)
    packing = pack(problem)
    value_of = {life: value for value, life in liveness.by_value.items()}
    offsets: dict[SSAValue, int] = {
        value_of[life]: offset
        for life, offset in zip(liveness.buffers, packing.offsets, strict=True)
    }
    total = align_up(packing.peak, alignment)
    others = sum(figure(main, f"{name}_bytes") or 0 for name in ("arena", "io", "weight", "state"))
    if total + others > target_for(main).hbm_bytes:
        return 0
    state(main, dynamic_bytes=total)
    tasks: dict[Operation, None] = dict.fromkeys(result.op for result in sizes)
    for task in tasks:
        state_offsets(task, [offsets.get(r, -1) for r in unknown_results(task)])
    return len(sizes)
