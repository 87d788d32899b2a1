"""Random programs: what the planner makes is proved by the checker, lifetimes agree with a
brute-force happens-before, and each planted fault is found."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.dialects.func import FuncOp
from xdsl.dialects.memref import ReinterpretCastOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.parser import Parser

from ge.dialects.npu_task.ops import CopyOp, LaunchOp, RecordOp, SlotOp, WaitOp
from ge.dialects.support.types import array_ints, numel, shape_of
from ge.lowering.driver.compiler import context
from ge.lowering.levels.level import Level
from ge.lowering.levels.verify_level import VerifyLevelPass
from ge.runtime.check.memory import check_plan
from ge.transforms.analysis.aliasing import in_arena
from ge.transforms.analysis.liveness import Liveness
from ge.transforms.memory.overwrite_operands import OverwriteOperandsPass
from ge.transforms.memory.plan_memory import PlanMemoryPass
from ge.transforms.schedule.assign_streams import AssignStreamsPass


def kernel(name: str, engine: str, ins: Sequence[int], body: Sequence[str], out: int) -> str:
    args = ", ".join(f"%{i}: {tensor(size)}" for i, size in enumerate(ins))
    lines = [*body, f"npu_task.return %y : {tensor(out)}"]
    return "\n".join((f"npu_task.kernel @{name} on {engine} {{", f"^bb0({args}):", *lines, "}\n"))


def tensor(size: int) -> str:
    return f"tensor<{size}xf32>"


def sum_kernel(name: str, engine: str, ins: Sequence[int], out: int) -> str:
    """The sum of all elements, everywhere: a result that is written over an operand is a fault."""
    outside, inside = (", ".join(f"%{c}{i}" for i in range(len(ins))) for c in ("", "a"))
    args = ", ".join(f"%a{i}: {tensor(size)}" for i, size in enumerate(ins))
    types, whole, result = ", ".join(map(tensor, ins)), tensor(sum(ins)), tensor(out)
    body = (
        f"%y = fused_op.region({outside}) : ({types}) -> {result} {{",
        f"^bb0({args}):",
        f"%b = graph.concat {inside} axis 0 : ({types}) -> {whole}",
        f'%c = graph.reduce "sum" %b axes [0] : {whole} -> {tensor(1)}',
        f"%d = graph.broadcast_to %c shape [{out}] : {tensor(1)} -> {result}",
        f"fused_op.yield %d : {result}",
        "}",
    )
    return kernel(name, engine, ins, body, out)


def neg_kernel(size: int) -> str:
    """One that may work in place."""
    t = tensor(size)
    return kernel(f"neg{size}", "vector", [size], [f"%y = graph.neg %0 : ({t}) -> {t}"], size)


CONTEXT = context()

EXAMPLES = settings().max_examples // 10  # a program takes longer than other examples do


def memref(size: int, space: str = "hbm") -> str:
    return f"memref<{size}xf32, #npu_task<space {space}>>"


Part = tuple[str, int, str]
"""A buffer, or part of one: its name, elements and type."""

MOST_OPS = (8, 4, 3)
"""Ops in a block, by depth, of a program with control flow."""


@dataclass
class Writer:
    """Writes a random program on buffers; each buffer is written once, then read."""

    draw: st.DrawFn
    lines: list[str]
    views: bool
    in_place: bool = False
    """Whether there are kernels that may work in place, and buffers written by halves."""
    count: int = 0
    kernels: dict[str, str] = field(default_factory=dict[str, str])
    """Texts by name."""

    def task(self, known: list[tuple[str, int]]) -> None:
        """A launch or a copy that writes a new buffer."""
        kinds = ["cube", "vector", "host", "in", "out"]
        more = ["neg", "neg", "neg", "halves"] if self.in_place else []
        engine = self.draw(st.sampled_from([*kinds, *more]))
        if engine in more:
            source = self.draw(st.sampled_from(known))
            (self.neg if engine == "neg" else self.halves)(source, known)
            return
        size = self.draw(st.sampled_from([1, 100, 128, 300]))
        reads = self.draw(st.lists(st.sampled_from(known), min_size=1, max_size=3, unique=True))
        name = f"%b{self.count}"
        self.count += 1
        if engine == "out":
            source, length = reads[0]
            t = memref(length, "host")
            self.lines.append(f"{name} = memref.alloc() : {t}")
            self.lines.append(f"npu_task.copy {source} to {name} : {memref(length)} to {t}")
            return
        self.lines.append(f"{name} = memref.alloc() : {memref(size)}")
        if engine == "in":
            self.lines.append(f"npu_task.copy %x{size} to {name} : "
                              f"{memref(size, 'host')} to {memref(size)}")  # fmt: skip
        else:
            ins = [self.view(v) for v in reads]
            self.sum(engine, ins, (name, size, memref(size)))
        known.append((name, size))

    def sum(self, engine: str, ins: Sequence[Part], out: Part) -> None:
        """A launch that sums; the kernel is named for the sizes of its operands and its result."""
        names, sizes, types = zip(*ins, strict=True)
        kernel = "_".join((engine, *map(str, sizes), "to", str(out[1])))
        self.kernels[kernel] = sum_kernel(kernel, engine, sizes, out[1])
        self.launch(kernel, f"{', '.join(names)} : {', '.join(types)}", out)

    def launch(self, kernel: str, ins: str, out: Part) -> None:
        name, _, t = out
        self.lines.append(f"npu_task.launch @{kernel} ins({ins}) outs({name} : {t})")

    def neg(self, source: tuple[str, int], known: list[tuple[str, int]]) -> None:
        """A launch whose result may be written over its operand."""
        size, result = source[1], self.alloc(source[1])
        t = memref(size)
        self.kernels[f"neg{size}"] = neg_kernel(size)
        self.launch(f"neg{size}", f"{source[0]} : {t}", (result, size, t))
        known.append((result, size))

    def halves(self, source: tuple[str, int], known: list[tuple[str, int]]) -> None:
        """Two launches that write the halves of a new buffer."""
        result = self.alloc(128)
        for offset in (0, 64):
            self.sum("vector", [(*source, memref(source[1]))], self.part(result, 128, offset))
        known.append((result, 128))

    def alloc(self, size: int) -> str:
        name = f"%b{self.count}"
        self.count += 1
        self.lines.append(f"{name} = memref.alloc() : {memref(size)}")
        return name

    def view(self, value: tuple[str, int]) -> Part:
        """A buffer as it is, or its second half."""
        name, size = value
        if size % 2 or not self.views or not self.draw(st.booleans()):
            return name, size, memref(size)
        return self.part(name, size, size // 2)

    def part(self, name: str, size: int, offset: int) -> Part:
        """Half of a buffer, from an element on."""
        half, part = size // 2, f"%b{self.count}"
        self.count += 1
        t = f"memref<{half}xf32, strided<[1], offset: {offset}>, #npu_task<space hbm>>"
        self.lines.append(
            f"{part} = memref.reinterpret_cast {name} to offset: [{offset}], sizes: [{half}], "
            f"strides: [1] : {memref(size)} to {t}"
        )
        return part, half, t

    def block(self, known: list[tuple[str, int]], depth: int, control: bool) -> None:
        for _ in range(self.draw(st.integers(1, MOST_OPS[depth] if control else 20))):
            kind = self.draw(st.integers(0, 7)) if control and depth < 2 else 7
            if kind == 0:
                self.loop(known, depth)
            elif kind == 1:
                self.branch(known, depth)
            else:
                self.task(known)

    def loop(self, known: list[tuple[str, int]], depth: int) -> None:
        """A loop whose carried buffer starts with a copy of a known one."""
        (source, size), name = self.draw(st.sampled_from(known)), f"%b{self.count}"
        self.count += 1
        self.lines.append(f"{name} = memref.alloc() : {memref(size)}")
        self.lines.append(f"npu_task.copy {source} to {name} : {memref(size)} to {memref(size)}")
        i, go, arg = (f"%b{self.count + k}" for k in range(3))
        self.count += 3
        self.lines.append(
            f"npu_task.loop trip %n : memref<i64, #npu_task<space hbm>> "
            f"carried({name} : {memref(size)}) order [1] stacked [] {{\n"
            f"^bb0({i}: memref<i64, #npu_task<space hbm>>, {go}: memref<i1, #npu_task<space hbm>>, "
            f"{arg}: {memref(size)}):"
        )
        inside = [*known, (arg, size)]
        self.block(inside, depth + 1, control=True)
        last = next(n for n, s in reversed(inside) if s == size)
        self.lines.append(f"npu_task.yield {go}, {last} : "
                          f"memref<i1, #npu_task<space hbm>>, {memref(size)}\n}}")  # fmt: skip
        known.append((name, size))

    def branch(self, known: list[tuple[str, int]], depth: int) -> None:
        size, name = known[0][1], f"%b{self.count}"
        self.count += 1
        self.lines.append(f"{name} = memref.alloc() : {memref(size)}")
        self.lines.append(
            f"npu_task.if %c : memref<i1, #npu_task<space hbm>> outs({name} : {memref(size)}) "
            "order [1] {"
        )
        for end in ("} else {", "}"):
            inside = list(known)
            self.block(inside, depth + 1, control=True)
            last = next(n for n, s in reversed(inside) if s == size)
            self.lines.append(f"npu_task.yield {last} : {memref(size)}\n{end}")
        known.append((name, size))


@st.composite
def programs(
    draw: st.DrawFn, control: bool = False, views: bool = True, in_place: bool = False
) -> str:
    """The text of a module on buffers, without streams."""
    writer = Writer(draw, [], views, in_place)
    sizes = (1, 100, 128, 300)
    args = [f"%x{s}: {memref(s, 'host')}" for s in sizes]
    args += [f"%{n}: memref<{t}, #npu_task<space hbm>>" for n, t in (("c", "i1"), ("n", "i64"))]
    writer.lines.append(f"%first = memref.alloc() : {memref(128)}")
    writer.lines.append(f"npu_task.copy %x128 to %first : {memref(128, 'host')} to {memref(128)}")
    writer.block([("%first", 128)], 0, control)
    body = "\n".join(writer.lines)
    kernels = "".join(writer.kernels.values())
    return f"{kernels}func.func @main({', '.join(args)}) {{\n{body}\nfunc.return\n}}"


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
                events[op.event.value.data] = set(streams.get(op.stream.value.data, set()))
            case WaitOp():
                streams.setdefault(op.stream.value.data, set()).update(events[op.event.value.data])
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
