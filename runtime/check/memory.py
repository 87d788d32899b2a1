"""Proof of a memory plan and of its events, from the program alone.

`check_plan(module)` walks the program in its order and keeps, for every byte of memory, which
buffer wrote it last, by which task, and which tasks have read it since. Streams, events and
barriers order the tasks (`happens_before.py`). It checks rules M1 to M19 (docs/proofs.md), those of
states (P: `growing_state.py`), and S1 and S4.

Without races every run gives the numbers of the run in program order, and in that each read
sees the data written to its own buffer.

Both sides of a branch are walked from one state; afterwards bytes are written if both leave the
same buffer there. In each iteration a loop's body does the same to a byte: leaves it, gives it to
one buffer, or loses it. So two walks see all; a loop that may run no iteration is a branch as well.
Row i of a scan buffer is written when iteration i ends: a later iteration has some of them.

Taken on trust, as by the emulator: what a memref is a view or an alias of, what ops read and write
(`npu_task/memory.py`), what a kernel may overwrite, and that a tensor of unknown size takes the
bytes that it states (a run refuses one that takes more than its place has).

Some columns of a tensor are many runs of bytes, equally far apart (a *comb*): millions in a program
with concatenated heads. So the bytes are kept as cells: stretches of memory that repeat one pattern
with some pitch. A task that touches a comb changes the patterns of a few cells."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import lcm, prod

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.dialects.memref import AllocOp
from xdsl.ir import Block, Operation, SSAValue

from ge.dialects.graph.stated import dim_ranges
from ge.dialects.npu_task.attributes import figure, placed_results
from ge.dialects.npu_task.control import CaseOp, IfOp, LoopOp, MapIndexOp, YieldOp
from ge.dialects.npu_task.memory import (
    EVERYTHING,
    FOREVER,
    ByteBox,
    Task,
    access,
    merged,
    moves,
    owner_of,
    source_of,
    trips,
    view_of,
)
from ge.dialects.npu_task.ops import (
    BatchCopyOp,
    ConstantOp,
    CopyOp,
    KernelOp,
    LaunchOp,
    SlotOp,
    TransferOp,
    WaitOp,
)
from ge.dialects.npu_task.rules import misuses
from ge.dialects.support.functions import main_function
from ge.dialects.support.types import align_up, byte_size, is_dynamic, shape_of
from ge.runtime.check.growing_state import (
    check_growing,
    check_states,
    name_of_state,
    states_of,
    valid_region,
)
from ge.runtime.check.happens_before import HappensBefore, Item
from ge.runtime.check.problems import Problem, name_of, placed, require_none

# How often a pattern is repeated to fit one of another pitch, before it is written out
MOST_REPEATS = 64

MOST_COMBS = 1 << 14  # combs that the bytes of one access may be

# Stretch [low, high) of memory, pitch, width: the first `width` bytes of each `pitch`
Runs = tuple[int, int, int, int]


def runs_of(box: ByteBox) -> Iterator[Runs]:
    """The bytes of a box as runs of one pitch. Raises ValueError where that takes too many."""
    if not box.dims:
        yield box.low, box.low + box.width, box.width, box.width
        return
    longest = max(range(len(box.dims)), key=lambda i: box.dims[i][0])
    count, pitch = box.dims[longest]
    others = [d for i, d in enumerate(box.dims) if i != longest]
    if prod(n for n, _ in others) > MOST_COMBS:
        raise ValueError("too many runs of bytes")
    for at in product(*(range(0, n * step, step) for n, step in others)):
        low = box.low + sum(at)
        last = low + (count - 1) * pitch
        yield low, last, pitch, box.width
        yield last, last + box.width, box.width, box.width


@dataclass(frozen=True, slots=True)
class History:
    """Bytes were written last by task `writer` for `buffer`, and read by `readers`."""

    buffer: SSAValue
    writer: int
    readers: tuple[int, ...] = ()


@dataclass(slots=True)
class CellPart:
    """Bytes [start, end) of each repetition of a cell's pattern have one history."""

    start: int
    end: int
    history: History


@dataclass(slots=True)
class Cell:
    """Bytes [low, high), in which a pattern of `pitch` bytes is repeated; bytes of no part were
    never written."""

    low: int
    high: int
    pitch: int
    parts: list[CellPart]

    def key(self) -> Hashable:
        """A key that is equal for cells in which the same bytes belong to the same buffers."""
        parts = tuple((p.start, p.end, p.history.buffer) for p in self.parts)
        return self.low, self.high, self.pitch, parts

    @property
    def is_uniform(self) -> bool:
        return len(self.parts) == 1 and self.parts[0].end - self.parts[0].start == self.pitch

    def between(self, low: int, high: int) -> list["Cell"]:
        """A cell of some of the bytes: whole repetitions of the pattern, turned so that it begins
        at `low`, and the rest of it."""
        turned: list[CellPart] = []
        shift = (low - self.low) % self.pitch
        for p in self.parts:
            start = p.start if p.end - p.start == self.pitch else (p.start - shift) % self.pitch
            end = start + p.end - p.start
            turned.append(CellPart(start, min(end, self.pitch), p.history))
            if end > self.pitch:
                turned.append(CellPart(0, end - self.pitch, p.history))
        turned.sort(key=lambda p: p.start)
        middle = high - (high - low) % self.pitch
        rest = [CellPart(p.start, min(p.end, high - middle), p.history) for p in turned]
        cells = (
            Cell(low, middle, self.pitch, turned),
            Cell(middle, high, high - middle, [p for p in rest if p.start < p.end]),
        )
        return [c for c in cells if c.low < c.high and c.parts]

    def repeated(self, pitch: int) -> list["Cell"]:
        """The same bytes with another pitch, a multiple of this one if there are several parts."""
        if self.is_uniform:
            parts = [CellPart(0, pitch, self.parts[0].history)]
        else:
            starts = range(0, pitch, self.pitch)
            parts = [
                CellPart(s + p.start, s + p.end, p.history) for s in starts for p in self.parts
            ]
        return Cell(self.low, self.high, pitch, parts).between(self.low, self.high)

    def fitted(self, pitch: int) -> list["Cell"]:
        """The same bytes, in patterns in which runs with this pitch repeat as well."""
        length = self.high - self.low
        common = pitch if self.is_uniform else lcm(self.pitch, pitch)
        if common <= length and common <= MOST_REPEATS * min(self.pitch, pitch):
            return self.repeated(common)
        return self.repeated(length)

    def split(self, origin: int, pitch: int, width: int) -> None:
        """Cut the parts so that each is inside of runs of `width` bytes, `pitch` apart, one of them
        at byte `origin`, or outside."""
        parts: list[CellPart] = []
        for p in self.parts:
            at = p.start
            while at < p.end:
                ahead = (self.low + at - origin) % pitch
                end = min(p.end, at + (width if ahead < width else pitch) - ahead)
                parts.append(CellPart(at, end, p.history))
                at = end
        self.parts = parts

    def is_inside(self, part: CellPart, origin: int, pitch: int, width: int) -> bool:
        return (self.low + part.start - origin) % pitch < width

    def write(self, new: History, origin: int, pitch: int, width: int) -> None:
        parts = [p for p in self.parts if not self.is_inside(p, origin, pitch, width)]
        first = (origin - self.low) % pitch - pitch
        for start in range(first, self.pitch, pitch):
            low, high = max(start, 0), min(start + width, self.pitch)
            if low < high:
                parts.append(CellPart(low, high, new))
        self.parts = sorted(parts, key=lambda p: p.start)


class Bytes:
    """The cells of one memory, in order. Bytes in no cell were never written."""

    def __init__(self, cells: Iterable[Cell] = ()) -> None:
        self.cells = list(cells)
        self.lows = [c.low for c in self.cells]

    def copy(self) -> "Bytes":
        return Bytes(
            Cell(c.low, c.high, c.pitch, [CellPart(p.start, p.end, p.history) for p in c.parts])
            for c in self.cells
        )

    def put(self, where: slice, cells: list[Cell]) -> None:
        self.cells[where] = cells
        self.lows[where] = [c.low for c in cells]

    def cut(self, at: int) -> None:
        i = bisect_right(self.lows, at) - 1
        if i >= 0 and (cell := self.cells[i]).low < at < cell.high:
            self.put(slice(i, i + 1), cell.between(cell.low, at) + cell.between(at, cell.high))

    def between(self, low: int, high: int) -> slice:
        """The cells in a range of bytes, cut at its ends."""
        self.cut(low)
        self.cut(high)
        return slice(bisect_left(self.lows, low), bisect_left(self.lows, high))

    def parts(self, low: int, high: int, pitch: int, width: int) -> Iterator[tuple[CellPart, int]]:
        """The parts of the runs of `width` bytes, `pitch` apart, in a range that begins with one;
        each with the number of its bytes. They hold no other bytes."""
        where = self.between(low, high)
        cells = self.cells[where]
        if pitch != width:
            cells = [fitted for c in cells for fitted in c.fitted(pitch)]
            for cell in cells:
                cell.split(low, pitch, width)
            self.put(where, cells)
        for cell in cells:
            times = (cell.high - cell.low) // cell.pitch
            for part in cell.parts:
                if cell.is_inside(part, low, pitch, width):
                    yield part, times * (part.end - part.start)

    def write(self, new: History, low: int, high: int, pitch: int, width: int) -> None:
        """Give the same runs, whose parts were asked for just before, a new history."""
        where = self.between(low, high)
        runs = Cell(low, high, pitch, [CellPart(0, width, new)])
        cells: list[Cell] = []
        at = low
        for cell in self.cells[where] if pitch != width else ():
            if all(cell.is_inside(p, low, pitch, width) for p in cell.parts):
                continue
            cell.write(new, low, pitch, width)
            cells += [*runs.between(at, cell.low), cell]
            at = cell.high
        self.put(where, [*cells, *runs.between(at, high)])

    def overwrite(self, new: History, low: int, high: int, pitch: int, width: int) -> None:
        for _ in self.parts(low, high, pitch, width):
            pass
        self.write(new, low, high, pitch, width)

    def stretches(self, low: int = 0, high: int = 1 << 62) -> Iterator[tuple[int, int, History]]:
        """All stretches of bytes with one history in a range, in order."""
        first = max(bisect_right(self.lows, low) - 1, 0)
        for cell in self.cells[first : bisect_left(self.lows, high)]:
            for start in range(cell.low, cell.high, cell.pitch):
                for part in cell.parts:
                    begin, end = max(start + part.start, low), min(start + part.end, high)
                    if begin < end:
                        yield begin, end, part.history

    def merged(self, other: "Bytes") -> "Bytes":
        """The bytes that belong to the same buffer in both."""
        mine, theirs = ({c.key(): c for c in b.cells} for b in (self, other))
        common = [c for key, c in mine.items() if key in theirs]
        rest = Bytes(c for key, c in mine.items() if key not in theirs)
        other = Bytes(c for key, c in theirs.items() if key not in mine)
        return Bytes(sorted([*common, *rest.intersection(other)], key=lambda c: c.low))

    def intersection(self, other: "Bytes") -> Iterator[Cell]:
        theirs = other.stretches()
        stretch = next(theirs, None)
        for low, high, history in self.stretches():
            while stretch is not None and stretch[0] < high:
                start, end = max(low, stretch[0]), min(high, stretch[1])
                if start < end and stretch[2].buffer is history.buffer:
                    yield Cell(start, end, end - start, [CellPart(0, end - start, history)])
                if stretch[1] > high:
                    break
                stretch = next(theirs, None)


# Where bytes are: a segment ("arena", "io"), or a buffer that has no place in one
Memory = str | SSAValue


@dataclass(frozen=True, slots=True)
class MemrefBytes:
    """The bytes of a memref, as boxes and as runs."""

    memory: Memory
    buffer: SSAValue
    boxes: tuple[ByteBox, ...]
    runs: tuple[Runs, ...]
    order: object  # equal for two memrefs that have the same elements in the same places

    def overlaps(self, other: "MemrefBytes") -> bool:
        return self.memory == other.memory and any(
            a.meets(b) for a in self.boxes for b in other.boxes
        )


def span_of(value: SSAValue) -> MemrefBytes:
    """The bytes of a memref; one byte for a buffer whose size is not known. Raises ValueError for a
    view that is too scattered."""
    view = view_of(value)
    owner = view.owner
    if not view.is_known:
        box = ByteBox(0, 1)
        return MemrefBytes(owner, owner, (box,), (*runs_of(box),), None)
    slot = owner.owner if isinstance(owner.owner, SlotOp) else None
    base = 0 if slot is None else slot.offset.value.data
    boxes = view.region.boxes
    if boxes == EVERYTHING:
        raise ValueError("too many boxes of bytes")
    boxes = tuple(ByteBox(box.low + base, box.width, box.dims) for box in boxes)
    runs = tuple(r for box in boxes for r in runs_of(box))
    bits = view.bits
    order = 8 * base + view.offset * bits, bits, *merged(view.sizes, view.strides)
    return MemrefBytes(owner if slot is None else slot.segment.data, owner, boxes, runs, order)


@dataclass(frozen=True, slots=True)
class Visit:
    """A task, or the effect of a barrier, in one of the rounds of the walk."""

    op: Operation
    epoch: int
    item: Item | None = None

    def follows(self, other: "Visit") -> bool:
        """True if the other one is done in every run when this one starts."""
        if other.epoch != self.epoch:
            return other.epoch < self.epoch
        return bool(self.item and other.item and self.item.follows(other.item))


class Checker:
    """Walks the program of one function. `kernels` are those of the module by name."""

    def __init__(self, func: FuncOp, kernels: Mapping[str, KernelOp], order: HappensBefore) -> None:
        self.func = func
        self.kernels = kernels
        # What launches of a kernel may do in place, for kernels seen so far
        self.overwrites: dict[str, set[tuple[int, int]]] = {}
        self.order = order
        self.problems: dict[Problem, None] = dict.fromkeys(order.strays)
        self.tasks: list[Visit] = []
        self.epoch = 0
        self.memories: dict[Memory, Bytes] = {}
        self.spans: dict[SSAValue, MemrefBytes] = {}
        self.rounds = 2  # how often loops are walked
        self.place_results()

    def figure(self, name: str, default: int) -> int:
        stated = figure(self.func, name)
        return default if stated is None else stated

    def report(self, rule: str, op: Operation, text: str) -> None:
        self.problems[Problem(rule, text, op)] = None

    def span(self, value: SSAValue, op: Operation) -> MemrefBytes:
        """The bytes of a memref that `op` uses; none, and a report, if it is too scattered."""
        span = self.spans.get(value)
        if span is None:
            try:
                span = span_of(value)
            except ValueError as e:
                text = f"{name_of(op)} uses {value.type}: {e} to prove anything about"
                self.report("M8", op, f"{text}; copy it to a dense buffer")
                span = MemrefBytes(value, value, (), (), None)
            self.spans[value] = span
        return span

    def place_results(self) -> None:
        """Reserve the places of tensors of unknown size that have one: all of a place, as at the
        tensor's largest."""
        ranges, alignment = dim_ranges(self.func), max(self.figure("alignment", 1), 1)
        limit = self.figure("dynamic_bytes", 0)
        for op in self.func.walk():
            for value, low, size in placed_results(op, ranges):
                if not size:
                    self.report("M9", op, f"{name_of(op)} has a place for a result without end")
                    continue
                if low + size > limit:
                    text = f"{name_of(op)} has a result that ends at byte {low + size} of {limit}"
                    self.report("M6", op, f"{text} of the dynamic segment")
                if low % alignment:
                    text = f"offset {low} of a result is no multiple of {alignment}"
                    self.report("M7", op, text)
                if not all(isinstance(u.operation, Task) for u in value.uses):
                    text = f"{name_of(op)} has a place for a result that control flow takes"
                    self.report("M9", op, text)
                box = ByteBox(low, size)
                self.spans[value] = MemrefBytes("dynamic", value, (box,), (*runs_of(box),), None)

    def check_slot(self, op: SlotOp) -> None:
        boxes = self.span(op.result, op).boxes
        low = op.offset.value.data
        high = boxes[0].high if boxes else low
        limit = self.figure(f"{op.segment.data}_bytes", high)
        if high > limit:
            text = f"slot ends at byte {high} of {limit} of the {op.segment.data}"
            self.report("M6", op, text)
        if low % (alignment := max(self.figure("alignment", 1), 1)):
            self.report("M7", op, f"offset {low} is no multiple of {alignment}")

    def check_together(self, op: BatchCopyOp) -> None:
        """Check that one transfer moves the slots of a batch copy: each is all of a slot, and
        begins where the one before it ends, except for alignment."""
        alignment, end = max(self.figure("alignment", 1), 1), None
        for value in op.on_device:
            slot = owner_of(value).owner
            if not isinstance(slot, SlotOp) or slot.segment.data != "io":
                self.report("M11", op, f"{name_of(op)} copies {value.type}, which is no input or "
                            "output of the model")  # fmt: skip
                return
            low, size = slot.offset.value.data, byte_size(slot.result.type)
            if view_of(value).region != view_of(slot.result).region:
                self.report("M11", op, f"{name_of(op)} copies a part of the slot at {low}")
            if end is not None and low != end:
                text = f"{name_of(op)} moves bytes in one piece, but a slot begins at {low}"
                self.report("M12", op, f"{text}, not at {end}")
            end = align_up(low + size, alignment)

    # ---- state

    def begin_states(self) -> None:
        """State holds values before the first task."""
        for op in states_of(self.func):
            if (region := valid_region(op)) is not None:
                task, base = self.new_task(op), op.offset.value.data
                memory = self.memories.setdefault(op.segment.data, Bytes())
                for box in region.boxes:
                    for runs in runs_of(ByteBox(box.low + base, box.width, box.dims)):
                        memory.write(History(op.result, task), *runs)
        self.epoch += 1

    def end_states(self) -> None:
        """State holds values of its own after the last task."""
        for op in states_of(self.func):
            span, name = self.span(op.result, op), name_of_state(op)
            memory = self.memories.setdefault(span.memory, Bytes())
            for low, high, pitch, width in span.runs:
                missing = (high - low) // pitch * width
                for part, size in memory.parts(low, high, pitch, width):
                    missing -= size
                    if part.history.buffer is not op.result:
                        writer = self.tasks[part.history.writer].op
                        text = f"{placed(writer)} writes over state '{name}', which is not its own"
                        self.report("P1", writer, text)
                if missing:
                    text = f"state '{name}' is not all written when the run ends"
                    self.report("P2", op, text)

    # ---- what a task does to memory

    def read(self, task: int, value: SSAValue) -> None:
        step = self.tasks[task]
        op, span = step.op, self.span(value, step.op)
        memory = self.memories.setdefault(span.memory, Bytes())
        for low, high, pitch, width in span.runs:
            unwritten = (high - low) // pitch * width
            for part, size in memory.parts(low, high, pitch, width):
                unwritten -= size
                last = part.history
                writer = self.tasks[last.writer]
                if last.buffer is not span.buffer:
                    text = f"{name_of(op)} reads bytes that {placed(writer.op)} has overwritten"
                    self.report("M3", op, text)
                elif not step.follows(writer):
                    text = f"{name_of(op)} reads what {placed(writer.op)} may still be writing"
                    self.report("M1", op, text)
                readers = (*(r for r in last.readers if not step.follows(self.tasks[r])), task)
                part.history = History(last.buffer, last.writer, readers)
            if unwritten and self.is_computed(span.buffer):
                self.report("M2", op, f"{name_of(op)} reads bytes that nothing has written")

    def is_computed(self, buffer: SSAValue) -> bool:
        if buffer in self.func.body.block.args:
            return False
        return not isinstance(buffer.owner, ConstantOp | MapIndexOp)  # of the host: from sizes

    def write(self, task: int, value: SSAValue) -> None:
        step = self.tasks[task]
        span = self.span(value, step.op)
        memory = self.memories.setdefault(span.memory, Bytes())
        for runs in span.runs:
            for part, _ in memory.parts(*runs):
                self.check_write(step, part.history)
            memory.write(History(span.buffer, task), *runs)

    def check_write(self, step: Visit, last: History) -> None:
        others = (("writing", last.writer), *(("reading", r) for r in last.readers))
        for doing, other in ((doing, self.tasks[i]) for doing, i in others):
            if other is not step and not step.follows(other):
                text = f"{name_of(step.op)} writes what {placed(other.op)} may still be {doing}"
                self.report("M1", step.op, text)

    def check_in_place(self, op: Task, reads: Sequence[SSAValue], writes: list[SSAValue]) -> None:
        spans = [self.span(v, op) for v in writes]
        for i, value in enumerate(reads):
            span = self.span(value, op)
            for j, written in enumerate(spans):
                if not span.overlaps(written):
                    continue
                if not (span.order == written.order and self.may(op, j, i)):
                    text = f"{name_of(op)} writes bytes that it reads as operand {i}"
                    self.report("M4", op, text)
        self.check_apart(op, spans)

    def check_apart(self, op: Operation, spans: Iterable[MemrefBytes]) -> None:
        if any(a.overlaps(b) for a, b in combinations(spans, 2)):
            self.report("M5", op, f"{name_of(op)} writes the same bytes twice")

    def may(self, op: Operation, out: int, operand: int) -> bool:
        """True if a launch may write destination `out` over an operand."""
        if not isinstance(op, LaunchOp) or (kernel := self.kernels.get(op.callee)) is None:
            return False
        if op.callee not in self.overwrites:
            self.overwrites[op.callee] = kernel.in_place_pairs()
        static = [r for r, t in enumerate(kernel.output_types) if not is_dynamic(t)]
        return out < len(static) and (static[out], operand) in self.overwrites[op.callee]

    # ---- the walk

    def new_task(self, op: Operation) -> int:
        self.tasks.append(Visit(op, self.epoch, self.order.items.get(op)))
        return len(self.tasks) - 1

    def walk(self, block: Block) -> None:
        for op in block.ops:
            for rule, text in misuses(op):
                self.report(rule, op, text)
            match op:
                case BatchCopyOp():
                    self.check_together(op)
                    self.task(op)
                case LaunchOp() | CopyOp() | TransferOp():
                    self.task(op)
                case WaitOp():
                    self.wait(op)
                case SlotOp():
                    self.check_slot(op)
                case AllocOp():
                    self.memories.pop(op.memref, None)
                case IfOp() | CaseOp():
                    self.branch(op)
                case LoopOp():
                    self.loop(op)
                case YieldOp():
                    self.end(op)
                case _ if op is block.last_op:
                    self.barrier(op, access(op).reads, ())
                case _:
                    pass

    def task(self, op: Task) -> None:
        if op not in self.order.items:
            return
        task = self.new_task(op)
        reads, writes, new = access(op)
        self.check_in_place(op, reads, [*writes, *(v for v in new if v in self.spans)])
        for value in reads:
            self.read(task, value)
        for value in (*writes, *new):
            self.write(task, value)

    def wait(self, op: WaitOp) -> None:
        item = self.order.items.get(op)
        if item is not None and item.record is None:
            text = f"event {item.event} is waited for, but was not recorded"
            self.report("S4", op, f"{text} since the last barrier")

    def barrier(self, op: Operation, reads: Iterable[SSAValue], writes: Iterable[SSAValue]) -> None:
        self.epoch += 1
        task = self.new_task(op)
        for value in reads:
            self.read(task, value)
        for value in writes:
            self.write(task, value)
        self.epoch += 1

    # ---- control flow

    def state(self) -> dict[Memory, Bytes]:
        return {memory: content.copy() for memory, content in self.memories.items()}

    def join(self, other: Mapping[Memory, Bytes]) -> None:
        for memory, content in self.memories.items():
            self.memories[memory] = content.merged(other.get(memory, Bytes()))

    def branch(self, op: IfOp | CaseOp) -> None:
        by_host = isinstance(op, CaseOp) and op.is_decided_by_host
        self.barrier(op, () if by_host else access(op).reads, ())
        before, ends = self.state(), list[dict[Memory, Bytes]]()
        for region in op.regions:
            self.memories = {memory: content.copy() for memory, content in before.items()}
            self.walk(region.block)
            ends.append(self.memories)
        for end in ends[:-1]:
            self.join(end)
        self.barrier(op, (), op.results)

    def end(self, op: YieldOp) -> None:
        """Read the values that a block yields, and write them to their places; rows come with the
        loop."""
        parent = op.parent_op() or op
        placed = [(m.value, m.target, m.row) for m in moves(op)]
        spans = [
            (self.span(v, parent), self.span(t, parent), t, row)
            for v, t, row in placed
            if t is not None
        ]
        self.check_apart(parent, [target for _, target, _, _ in spans])
        writes = [t for value, target, t, row in spans if not row and not _same(value, target)]
        self.barrier(parent, [v for v, _, _ in placed], writes)

    def loop(self, op: LoopOp) -> None:
        """Go through the body twice, if it may run so often. In the second round a loop inside is
        walked once: its second round met the bytes that it writes itself before, and others are as
        its first one meets them."""
        least, most = trips(op)
        if least == FOREVER:
            self.report("M18", op, "the loop never ends: no trip count, and always its condition")
        self.barrier(op, access(op).reads, ())
        before = None if least else self.state()
        own = [a for a in op.body.block.args if source_of(a) is None]
        rounds, start = self.rounds, 0
        for turn in range(rounds if most is None or most > 1 else 1):
            self.rounds = 1 if turn else rounds
            if turn:
                self.overlay(op, own[0], lambda last, buffer: last.buffer is buffer)
            start = len(self.tasks)
            self.barrier(op, (), own)
            self.walk(op.body.block)
        self.rounds = rounds
        for scan in op.scans:
            rows = shape_of(scan)[0]
            if (least, most) != (rows, rows):
                times = "any number of" if most is None else f"{least} to {most}"
                text = f"a scan buffer has {rows} rows, but the loop runs {times} times"
                self.report("M19", op, text)
        self.overlay(op, None, lambda last, _: last.writer >= start)
        if before is not None:
            self.join(before)
        self.barrier(op, (), op.results)

    def overlay(
        self, op: LoopOp, lost: SSAValue | None, keep: Callable[[History, SSAValue], bool]
    ) -> None:
        """Write the scan buffers of a loop, or give their bytes to `lost`, except for the bytes'
        histories that `keep` selects."""
        task = self.new_task(op)
        for scan in op.scans:
            span = self.span(scan, op)
            memory = self.memories.setdefault(span.memory, Bytes())
            for low, high, pitch, width in span.runs:
                unchanged = [p for p in memory.stretches(low, high) if keep(p[2], span.buffer)]
                new = History(span.buffer if lost is None else lost, task)
                memory.overwrite(new, low, high, pitch, width)
                for begin, end, history in unchanged:
                    memory.overwrite(history, begin, end, end - begin, end - begin)


def _same(a: MemrefBytes, b: MemrefBytes) -> bool:
    return a.buffer is b.buffer and a.order == b.order and a.order is not None


def check_plan(module: ModuleOp, order: HappensBefore | None = None) -> list[Problem]:
    """Errors in the memory plan and the events of a program; none if it is proved."""
    if (main := main_function(module)) is None:
        return []
    kernels = {op.sym_name.data: op for op in module.ops if isinstance(op, KernelOp)}
    checker = Checker(main, kernels, order or HappensBefore(main))
    for rule, text in misuses(main):
        checker.report(rule, main, text)
    checker.begin_states()
    checker.walk(main.body.block)
    checker.end_states()
    return [*checker.problems, *check_states(main), *check_growing(main, kernels)]


def require_safe(module: ModuleOp) -> None:
    """Raises GeError that lists the errors in a program's plan and events, if there are any."""
    require_none(check_plan(module), "plan")
