"""Random programs: what the planner makes is proved by the checker, lifetimes agree with a
brute-force happens-before, and each planted fault is found."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.dialects.func import FuncOp
from xdsl.dialects.memref import ReinterpretCastOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.parser import Parser

sys.path.insert(0, str(Path(__file__).parent))
from task_programs import programs

from ge.dialects.npu_task.ops import CopyOp, LaunchOp, RecordOp, SlotOp, WaitOp
from ge.dialects.support.types import array_ints, numel, shape_of
from ge.lowering.driver.compiler import context
from ge.lowering.levels.level import Level
from ge.lowering.levels.verify_level import VerifyLevelPass
from ge.runtime.check.memory import check_plan
from ge.transforms.analysis.dependencies import in_arena
from ge.transforms.analysis.liveness import Liveness
from ge.transforms.memory.overwrite_operands import OverwriteOperandsPass
from ge.transforms.memory.plan_memory import PlanMemoryPass
from ge.transforms.schedule.assign_streams import AssignStreamsPass

CONTEXT = context()

EXAMPLES = settings().max_examples // 10  # a program takes longer than other examples do


def parse(text: str) -> ModuleOp:
    return Parser(CONTEXT, text).parse_module()


def planned(text: str, in_place: bool = False, in_order: bool = False) -> ModuleOp:
    """The program of a module on buffers, with results written over operands or without."""
    module = parse(text)
    if in_place:
        OverwriteOperandsPass().apply(Context(), module)
    AssignStreamsPass(in_order=in_order).apply(Context(), module)
    PlanMemoryPass().apply(Context(), module)
    return module


def main(module: ModuleOp) -> FuncOp:
    return next(op for op in module.ops if isinstance(op, FuncOp))


@settings(max_examples=EXAMPLES)
@given(programs())
def test_plans_are_proved(text: str):
    assert check_plan(planned(text)) == []


@settings(max_examples=EXAMPLES)
@given(programs(control=True))
def test_plans_with_control_flow_are_proved(text: str):
    VerifyLevelPass(Level.BUFFERS).apply(CONTEXT, parse(text))
    assert check_plan(planned(text)) == []


@settings(max_examples=EXAMPLES)
@given(programs(control=True, in_place=True))
def test_plans_with_work_in_place_are_proved(text: str):
    assert check_plan(planned(text, in_place=True)) == []


@settings(max_examples=EXAMPLES)
@given(programs(control=True))
def test_plans_without_reuse_and_on_one_stream_are_proved(text: str):
    module = parse(text)
    AssignStreamsPass(single=True).apply(Context(), module)
    PlanMemoryPass(reuse=False).apply(Context(), module)
    assert check_plan(module) == []


# ---- lifetimes against brute force


def ancestors(func: FuncOp) -> dict[Operation, set[Operation]]:
    """For each task those that are done before it starts, by following all edges."""
    before: dict[Operation, set[Operation]] = {}
    streams: dict[int, set[Operation]] = {}
    events: dict[int, set[Operation]] = {}
    for op in func.body.block.ops:
        match op:
            case RecordOp():
                events[op.event] = set(streams.get(op.stream.value.data, set()))
            case WaitOp():
                streams.setdefault(op.stream.value.data, set()).update(events[op.event])
            case LaunchOp() | CopyOp():
                assert op.stream is not None
                done = streams.setdefault(op.stream.value.data, set())
                before[op] = set(done)
                done.add(op)
            case _:
                pass
    return before


def users(value: SSAValue) -> Iterator[Operation]:
    """The tasks that use a buffer or a view of it."""
    for use in value.uses:
        if use.operation.name == "memref.reinterpret_cast":
            yield from users(use.operation.results[0])
        else:
            yield use.operation


def brute_conflicts(func: FuncOp, values: list[SSAValue]) -> set[frozenset[SSAValue]]:
    before = ancestors(func)
    tasks = {v: list(users(v)) for v in values}

    def precedes(a: SSAValue, b: SSAValue) -> bool:
        return all(x in before[y] for x in tasks[a] for y in tasks[b])

    return {
        frozenset((a, b))
        for i, a in enumerate(values)
        for b in values[i + 1 :]
        if not precedes(a, b) and not precedes(b, a)
    }


@settings(max_examples=EXAMPLES)
@given(programs())
def test_conflicts_are_those_of_happens_before(text: str):
    module = parse(text)
    AssignStreamsPass().apply(Context(), module)
    func = main(module)
    streams = func.attributes["npu_task.streams"]
    assert isinstance(streams, IntegerAttr)
    liveness = Liveness(func.body.block, streams.value.data, in_arena)
    groups = liveness.groups()
    values = [b.op.results[0] for b in liveness.buffers]
    found = {
        frozenset((values[i], values[group[place]]))
        for i, ranges in enumerate(liveness.conflicts())
        for group, places in zip(groups, ranges, strict=True)
        for place in places
    }
    assert found == brute_conflicts(func, values)


# ---- planted faults


@settings(max_examples=EXAMPLES)
@given(programs(views=False, control=True))
def test_every_event_is_needed(text: str):
    """Without any one wait there is a race: no event is redundant, and the checker sees it.
    (In program order: events that keep a schedule below its limit may be for bytes that the
    packing does not use again. Without views: events guard whole buffers, also where a task reads
    the half that is not overwritten.)"""
    module = parse(text)
    AssignStreamsPass(in_order=True).apply(Context(), module)
    PlanMemoryPass().apply(Context(), module)
    for wait in [op for op in module.walk() if isinstance(op, WaitOp)]:
        assert wait.parent is not None
        after = wait.next_op
        assert after is not None
        block = wait.parent
        wait.detach()
        assert any(p.kind == "race" for p in check_plan(module))
        block.insert_op_before(wait, after)


@settings(max_examples=EXAMPLES)
@given(programs(views=False), st.data())
def test_shifted_slots_are_found(text: str, data: st.DataObject):
    """A slot that is moved onto one that it conflicts with is reported, and nothing else is.
    (Without views: a task that reads half of a buffer does not mind who writes the other half.)"""
    module = planned(text)
    func = main(module)
    slots = [op for op in func.walk() if isinstance(op, SlotOp) and op.segment.data == "arena"]
    slot = slots[data.draw(st.integers(0, len(slots) - 1))]
    shift = data.draw(st.sampled_from([-1024, -512, 512, 1024, 1536]))
    slot.properties["offset"] = IntegerAttr(slot.offset.value.data + shift, i64)
    conflicts = brute_conflicts(func, [s.result for s in slots])

    def span(op: SlotOp) -> tuple[int, int]:
        low = op.offset.value.data
        return low, low + 4 * op.result.type.get_shape()[0]

    def overlaps(other: SlotOp) -> bool:
        (a, b), (c, d) = span(slot), span(other)
        return a < d and c < b

    harmed = any(
        frozenset((slot.result, other.result)) in conflicts and overlaps(other)
        for other in slots
        if other is not slot
    )
    kinds = {p.kind for p in check_plan(module)}
    assert bool(kinds & {"race", "overwritten", "alias"}) == harmed


# ---- the checker against brute force over words of memory


Word = tuple[str, int]
"""4 bytes of a segment, or of a buffer on the host."""


def buffer_of(value: SSAValue) -> SSAValue:
    return buffer_of(value.owner.source) if isinstance(value.owner, ReinterpretCastOp) else value


def words(value: SSAValue) -> frozenset[Word]:
    """What a value of f32 is. Of arguments, which nobody writes, nothing."""
    buffer, first = buffer_of(value), 0
    if isinstance(value.owner, ReinterpretCastOp):
        (first,) = array_ints(value.owner.static_offsets)
    if isinstance(buffer, BlockArgument):
        return frozenset()
    memory = f"host {id(buffer)}"
    if isinstance(buffer.owner, SlotOp):
        memory, first = buffer.owner.segment.data, first + buffer.owner.offset.value.data // 4
    return frozenset((memory, first + i) for i in range(numel(shape_of(value))))


@dataclass
class Touched:
    """What a task reads and writes: buffers with words, and all words."""

    op: LaunchOp | CopyOp
    reads: list[tuple[SSAValue, frozenset[Word]]]
    writes: list[tuple[SSAValue, frozenset[Word]]]

    @classmethod
    def of(cls, op: Operation) -> "Touched":
        assert isinstance(op, LaunchOp | CopyOp)
        launch = isinstance(op, LaunchOp)
        ins, outs = (op.ins, op.outs) if launch else ((op.source,), (op.target,))
        both = ([(buffer_of(v), words(v)) for v in values] for values in (ins, outs))
        return cls(op, *both)

    def is_faulty(self) -> bool:
        """Whether it writes words that it reads, unless it negates these words alone."""
        negates = isinstance(self.op, LaunchOp) and self.op.callee.startswith("neg")
        pairs = ((r, w) for _, r in self.reads for _, w in self.writes)
        return any(r & w and not (negates and r == w) for r, w in pairs)

    def clashes(self, other: "Touched") -> bool:
        """Whether one writes a word that the other one touches."""
        mine, others = (
            (set().union(*(w for _, w in t.reads)), set().union(*(w for _, w in t.writes)))
            for t in (self, other)
        )
        return bool(mine[1] & (others[0] | others[1]) or mine[0] & others[1])


def is_harmed(func: FuncOp) -> bool:
    """Whether a program without control flow can go wrong: two tasks that nothing orders clash, a
    task reads words that its buffer did not write last, or writes what it reads."""
    before = ancestors(func)
    tasks = [Touched.of(op) for op in before]
    last: dict[Word, SSAValue] = {}
    for task in tasks:
        if task.is_faulty() or any(last.get(w) is not b for b, read in task.reads for w in read):
            return True
        for buffer, written in task.writes:
            last |= dict.fromkeys(written, buffer)
    return any(a.op not in before[b.op] and a.clashes(b) for a, b in combinations(tasks, 2))


HARM = {"race", "overwritten", "unwritten", "alias"}


def harm_found(module: ModuleOp) -> bool:
    return bool({p.kind for p in check_plan(module)} & HARM)


@settings(max_examples=EXAMPLES)
@given(programs(in_place=True), st.data())
def test_shifted_slots_are_found_where_they_do_harm(text: str, data: st.DataObject):
    """Also with views, halves and results that are written over operands."""
    module = planned(text, in_place=True)
    func = main(module)
    assert not is_harmed(func)
    slots = [op for op in func.walk() if isinstance(op, SlotOp) and op.segment.data == "arena"]
    slot = slots[data.draw(st.integers(0, len(slots) - 1))]
    shift = data.draw(st.sampled_from([-1024, -512, -256, 256, 512, 1024, 1536]))
    slot.properties["offset"] = IntegerAttr(slot.offset.value.data + shift, i64)
    assert harm_found(module) == is_harmed(func)


@settings(max_examples=EXAMPLES)
@given(programs(in_place=True))
def test_dropped_waits_are_found_where_they_do_harm(text: str):
    """A wait may guard a buffer of which only the half is read that nobody writes; each other one
    is needed."""
    module = planned(text, in_place=True, in_order=True)
    for wait in [op for op in module.walk() if isinstance(op, WaitOp)]:
        block, after = wait.parent, wait.next_op
        assert block is not None
        assert after is not None
        wait.detach()
        assert harm_found(module) == is_harmed(main(module))
        block.insert_op_before(wait, after)
