"""Proof of a memory plan and of its events, from the program alone.

`check_plan(module)` walks the program once in its order and keeps, for every byte of device memory,
which buffer wrote it last, by which task, and which tasks have read it since. For each stream it
keeps the set of tasks (the bits of an integer) that are done whenever its next task starts, as
streams, events and barriers order them. It reports
- a race: two tasks, one of which writes, touch the same bytes and nothing orders them;
- a read of bytes that nothing has written, or that another buffer has overwritten;
- a task that writes bytes which it reads, unless its kernel may (`KernelOp.overwrites`) and they
  are the same place of both;
- slots and views that leave their segment, offsets that are not aligned;
- tasks on no stream, and waits for events that were not recorded.

Without races every run gives the numbers of the run in program order, and in that each read
sees what its own buffer wrote. Nothing here is shared with the planner in `transforms`.

Loops are walked twice, so that a second iteration meets what the first one left; after a branch,
bytes count as written if both ways leave the same buffer there.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.dialects.memref import AllocOp, ReinterpretCastOp
from xdsl.ir import Block, Operation, SSAValue

from ge.dialects.npu_task.ops import (
    ConstantOp,
    CopyOp,
    IfOp,
    KernelOp,
    LaunchOp,
    LoopOp,
    RecordOp,
    SlotOp,
    TransferOp,
    WaitOp,
    is_dynamic,
)
from ge.dialects.support.diagnostics import error_at, listing, place_of
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.types import array_ints, element_type, numel, shape_of
from ge.runtime.check.byte_history import Bytes, Comb, History, combs_of

Memory = str | SSAValue
"""Where bytes are: a segment ("arena", "io"), or a buffer that has no place in one."""


@dataclass(frozen=True, slots=True)
class PlanProblem:
    """What is wrong with a program's plan, and at which op."""

    kind: str
    """race, unwritten, overwritten, alias, bounds, alignment, stream, event, useless, certificate
    or core."""
    message: str
    op: Operation = field(compare=False)

    def __str__(self) -> str:
        place = str(place_of(self.op))
        return f"{place}: {self.message}" if place else self.message


@dataclass(frozen=True, slots=True)
class Span:
    """The bytes of a memref, as part of a buffer: runs in [low, high) of a memory."""

    memory: Memory
    low: int
    high: int
    buffer: SSAValue
    combs: tuple[Comb, ...]

    @property
    def size(self) -> int:
        return sum(c.width * c.count for c in self.combs)

    def overlaps(self, other: "Span") -> bool:
        """Whether they have a byte in common."""
        if self.memory != other.memory or self.low >= other.high or other.low >= self.high:
            return False
        return any(a.overlaps(b) for a in self.combs for b in other.combs)


class Checker:
    """Walks the program of one function. `kernels` are those of the module by name."""

    def __init__(self, func: FuncOp, kernels: Mapping[str, KernelOp]) -> None:
        self.func = func
        self.kernels = kernels
        self.overwrites: dict[str, set[tuple[int, int]]] = {}
        """What launches of a kernel may do in place, for kernels seen so far."""
        self.streams = self.figure("streams", 0)
        self.problems: dict[PlanProblem, None] = {}
        self.tasks: list[Operation] = []
        self.done = [0] * self.streams
        self.events: dict[int, int] = {}
        self.recorded: dict[int, RecordOp] = {}
        self.useful: dict[RecordOp | WaitOp, bool] = {}
        """Whether a stream has learned something new by an event."""
        self.memories: dict[Memory, Bytes] = {}
        self.aliases: dict[SSAValue, SSAValue] = {}
        """Argument of a loop's body -> the carried buffer that it is."""
        self.rounds = 2
        """How often loops are walked."""

    def figure(self, name: str, default: int) -> int:
        attr = self.func.attributes.get(f"npu_task.{name}")
        return attr.value.data if isinstance(attr, IntegerAttr) else default

    def report(self, kind: str, op: Operation, message: str) -> None:
        self.problems[PlanProblem(kind, message, op)] = None

    # ---- where values are

    def span(self, value: SSAValue) -> Span:
        """The bytes that a value stands for; a view is a part of its buffer."""
        value = self.aliases.get(value, value)
        op = value.owner
        if isinstance(op, ReinterpretCastOp):
            return _part(self.span(op.source), op)
        if isinstance(op, SlotOp):
            return _whole(op.segment.data, op.offset.value.data, _size(value), value)
        return _whole(value, 0, 1 if is_dynamic(value.type) else _size(value), value)

    def check_slot(self, op: SlotOp) -> None:
        """Report a slot that is outside of its segment, or not aligned."""
        span = self.span(op.result)
        limit = self.figure(f"{op.segment.data}_bytes", span.high)
        if span.high > limit:
            text = f"slot ends at byte {span.high} of {limit} of the {op.segment.data}"
            self.report("bounds", op, text)
        if span.low % (alignment := self.figure("alignment", 1)):
            self.report("alignment", op, f"offset {span.low} is no multiple of {alignment}")

    def check_view(self, op: ReinterpretCastOp) -> None:
        """Report a view that reaches over the begin or the end of its buffer."""
        whole, part = self.span(op.source), self.span(op.result)
        if part.low < whole.low:
            self.report(
                "bounds", op, f"the view begins {whole.low - part.low} bytes before its buffer"
            )
        if not isinstance(op.source.owner, ReinterpretCastOp) and part.high > whole.high:
            text = f"the view ends at byte {part.high - whole.low} of {whole.high - whole.low}"
            self.report("bounds", op, text)

    # ---- what a task does to memory

    def read(self, task: int, done: int, value: SSAValue) -> None:
        """Report what is wrong with a task reading a value: bytes never written, overwritten, or
        still being written. `done` has a bit for each task that is finished by then."""
        span = self.span(value)
        if span.low == span.high:
            return
        memory = self.memories.setdefault(span.memory, Bytes())
        op = self.tasks[task]
        ranges = [r for comb in span.combs for r in comb.ranges()]
        found = [part for r in ranges for part in memory.parts(*r)]
        if isinstance(span.buffer.owner, SlotOp | AllocOp):
            if sum(size for _, size in found) < span.size:
                self.report("unwritten", op, f"{_name(op)} reads bytes that nothing has written")
        for part, _ in found:
            last = part.history
            if last.buffer is not span.buffer:
                other = _place(self.tasks[last.writer])
                text = f"{_name(op)} reads bytes that {other} has overwritten"
                self.report("overwritten", op, text)
            elif not done >> last.writer & 1:
                other = _place(self.tasks[last.writer])
                self.report("race", op, f"{_name(op)} reads what {other} may still be writing")
            readers = (*(r for r in last.readers if not done >> r & 1), task)
            part.history = History(last.buffer, last.writer, readers)

    def write(self, task: int, done: int, value: SSAValue) -> None:
        """Report what is wrong with a task writing a value: a constant, or bytes that others may
        still be reading or writing. `done` as in `read`."""
        span = self.span(value)
        if span.low == span.high:
            return
        memory = self.memories.setdefault(span.memory, Bytes())
        op = self.tasks[task]
        if isinstance(span.buffer.owner, ConstantOp):
            self.report("alias", op, f"{_name(op)} writes a constant")
        for runs in (r for comb in span.combs for r in comb.ranges()):
            self.check_write(task, done, [part.history for part, _ in memory.parts(*runs)])
            memory.write(History(span.buffer, task), *runs)

    def check_write(self, task: int, done: int, found: Iterable[History]) -> None:
        """Report others that may be reading or writing bytes, with these histories, which a task
        writes."""
        op = self.tasks[task]
        for last in found:
            if not done >> last.writer & 1 and last.writer != task:
                other = _place(self.tasks[last.writer])
                self.report("race", op, f"{_name(op)} writes what {other} may still be writing")
            for reader in last.readers:
                if reader != task and not done >> reader & 1:
                    other = _place(self.tasks[reader])
                    text = f"{_name(op)} writes what {other} may still be reading"
                    self.report("race", op, text)

    def check_in_place(
        self, op: LaunchOp | CopyOp | TransferOp, reads: Sequence[SSAValue], writes: list[SSAValue]
    ) -> None:
        """Report a task that writes bytes which it reads or writes as something else, unless its
        kernel works in place there."""
        spans = [self.span(v) for v in writes]
        for i, value in enumerate(reads):
            span = self.span(value)
            for j, written in enumerate(spans):
                if not span.overlaps(written):
                    continue
                if not (span.combs == written.combs and self.may(op, j, i)):
                    text = f"{_name(op)} writes bytes that it reads as operand {i}"
                    self.report("alias", op, text)
        for j, written in enumerate(spans):
            if any(written.overlaps(other) for other in spans[:j]):
                self.report("alias", op, f"{_name(op)} writes the same bytes twice")

    def may(self, op: Operation, out: int, operand: int) -> bool:
        """Whether a launch may write destination `out` over an operand."""
        if not isinstance(op, LaunchOp) or (kernel := self.kernels.get(op.callee)) is None:
            return False
        if op.callee not in self.overwrites:
            self.overwrites[op.callee] = kernel.overwrites()
        static = [r for r, t in enumerate(kernel.output_types) if not is_dynamic(t)]
        return out < len(static) and (static[out], operand) in self.overwrites[op.callee]

    # ---- the walk

    def new_task(self, op: Operation) -> int:
        self.tasks.append(op)
        return len(self.tasks) - 1

    def walk(self, block: Block) -> None:
        """Go through a block in the order in which the host issues it."""
        for op in block.ops:
            match op:
                case LaunchOp():
                    self.task(op, op.ins, (*op.outs, *op.results_))
                case CopyOp():
                    self.task(op, (op.source,), (op.target,))
                case TransferOp():
                    self.task(op, (op.source,), (op.result,))
                case RecordOp():
                    self.record(op)
                case WaitOp():
                    self.wait(op)
                case SlotOp():
                    self.check_slot(op)
                case ReinterpretCastOp():
                    self.check_view(op)
                case IfOp():
                    self.branch(op)
                case LoopOp():
                    self.loop(op)
                case _ if op is block.last_op:
                    self.barrier(op, op.operands, ())
                case _:
                    pass

    def stream(self, op: LaunchOp | CopyOp | TransferOp | RecordOp | WaitOp) -> int | None:
        """The stream that an op is on; None, and a report, when there is none such."""
        if op.stream is not None and 0 <= op.stream.value.data < self.streams:
            return op.stream.value.data
        self.report("stream", op, f"{_name(op)} is on none of the {self.streams} streams")
        return None

    def task(
        self,
        op: LaunchOp | CopyOp | TransferOp,
        reads: Sequence[SSAValue],
        writes: Sequence[SSAValue],
    ) -> None:
        """Let a task read and write, knowing what its stream has waited for."""
        if (stream := self.stream(op)) is None:
            return
        task, done = self.new_task(op), self.done[stream]
        self.check_in_place(op, reads, [v for v in writes if not is_dynamic(v.type)])
        for value in reads:
            self.read(task, done, value)
        for value in writes:
            self.write(task, done, value)
        self.done[stream] = done | 1 << task

    def record(self, op: RecordOp) -> None:
        """The event stands for all that the stream knows to be done."""
        self.useful.setdefault(op, False)
        if (stream := self.stream(op)) is not None:
            self.events[op.event.value.data] = self.done[stream]
            self.recorded[op.event.value.data] = op

    def wait(self, op: WaitOp) -> None:
        """What was done when the event was recorded is done for the stream too."""
        self.useful.setdefault(op, False)
        happened = self.events.get(op.event.value.data)
        if happened is None:
            text = f"event {op.event.value.data} is waited for, but was not recorded"
            self.report("event", op, text)
        elif (stream := self.stream(op)) is not None:
            if happened & ~self.done[stream]:
                self.useful[op] = self.useful[self.recorded[op.event.value.data]] = True
            self.done[stream] |= happened

    def barrier(self, op: Operation, reads: Iterable[SSAValue], writes: Iterable[SSAValue]) -> None:
        """All streams are idle while `op` does this."""
        everything = (1 << len(self.tasks)) - 1
        task = self.new_task(op)
        for value in reads:
            self.read(task, everything, value)
        for value in writes:
            self.write(task, everything, value)
        self.done = [everything | 1 << task] * self.streams

    def branch(self, op: IfOp) -> None:
        """Go through both branches from the same state, and join what they wrote."""
        self.barrier(op, (op.condition,), ())
        before = {m: b.copy() for m, b in self.memories.items()}
        self.walk(op.then.block)
        after, self.memories = self.memories, before
        self.walk(op.otherwise.block)
        for memory, content in self.memories.items():
            self.memories[memory] = content.merged(after.get(memory, Bytes()))
        self.barrier(op, (), op.outs)

    def loop(self, op: LoopOp) -> None:
        """Go through the body twice: the second round meets what the first one left. Loops inside
        have had their second round then: what they read comes from outside, which the one round
        sees, or from themselves, which has been seen."""
        self.barrier(op, [v for v in (op.trip, op.condition) if v is not None], ())
        self.aliases.update(_carried(op))
        self.barrier(op, (*op.carried, *op.inits), ())
        rounds = self.rounds
        for turn in range(rounds):
            self.rounds = 1 if turn else rounds
            self.walk(op.body.block)
            self.barrier(op, (), (*op.carried, *op.scans))
        self.rounds = rounds


def _carried(op: LoopOp) -> Iterator[tuple[SSAValue, SSAValue]]:
    buffers = iter(op.carried)
    for arg, static in zip(op.body.block.args[2:], array_ints(op.order), strict=True):
        if static:
            yield arg, next(buffers)


def _whole(memory: Memory, low: int, size: int, value: SSAValue) -> Span:
    """The bytes of a buffer."""
    return Span(memory, low, low + size, value, (Comb(low, size, size, 1),) if size else ())


def _part(whole: Span, op: ReinterpretCastOp) -> Span:
    """The bytes of a view of a buffer."""
    width = _width(op.result)
    low = whole.low + array_ints(op.static_offsets)[0] * width
    if not _size(op.result):
        return Span(whole.memory, low, low, whole.buffer, ())
    dims = zip(array_ints(op.static_sizes), array_ints(op.static_strides), strict=True)
    combs = combs_of(low, width, ((n, stride * width) for n, stride in dims))
    return Span(whole.memory, low, max(c.high for c in combs), whole.buffer, combs)


def _width(value: SSAValue) -> int:
    return bitwidth(element_type(value)) // 8


def _size(value: SSAValue) -> int:
    return numel(shape_of(value)) * _width(value)


def _name(op: Operation) -> str:
    return f"launch of @{op.callee}" if isinstance(op, LaunchOp) else op.name


def _place(op: Operation) -> str:
    """An op and where it comes from."""
    place = str(place_of(op))
    return f"{_name(op)} ({place})" if place else _name(op)


def _checkers(module: ModuleOp) -> Iterator[Checker]:
    """A checker that has walked the program of the module, if it has one."""
    kernels = {op.sym_name.data: op for op in module.ops if isinstance(op, KernelOp)}
    for func in module.ops:
        if isinstance(func, FuncOp) and func.sym_name.data == "main" and func.body.blocks:
            checker = Checker(func, kernels)
            checker.walk(func.body.block)
            yield checker


def check_plan(module: ModuleOp) -> list[PlanProblem]:
    """What is wrong with the memory plan and the events of a program; nothing if it is proved."""
    return [problem for checker in _checkers(module) for problem in checker.problems]


def useless_events(module: ModuleOp) -> list[PlanProblem]:
    """The records that nobody needs, and the waits for what the order of a stream or another event
    tells already: they cost time, no more."""
    return [
        PlanProblem("useless", f"{op.name} of event {op.event.value.data} orders nothing", op)
        for checker in _checkers(module)
        for op, useful in checker.useful.items()
        if not useful
    ]


def require_safe(module: ModuleOp) -> None:
    """Raises GeError that lists what is wrong with a program's plan and events, if anything is."""
    if problems := check_plan(module):
        found = listing([p.message for p in problems])
        hint = "compile the model again; if the compiler made it, this is a bug of the compiler"
        raise error_at(problems[0].op, f"the plan is not safe: {found}", hint)
