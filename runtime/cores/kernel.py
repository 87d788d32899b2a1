"""Runs a `tile.kernel` on emulated cores: numbers and time from the same instructions.

    time = start of such a kernel + max(the busiest core, bytes of HBM / its bandwidth)

Each core is simulated on its own (`replay.py`), cores that issue the same records once, and of what
repeats itself (tiles of a matmul that are not cut off) only the first ones. They meet only in
bandwidth: a load takes no more than its core's share of HBM, if all cores load at once, of which L2
gives what was loaded before (`shares`), and each loaded byte crosses HBM once, or again where L2
has no room for the loads in between (`nest.py`); of the stored bytes, where cores are split, none
that L2 has room for. The workspace is in L2 if it has room for
it. A cube core and the vector cores beside it run together; where those are several, the cube's
pushes and pops are an instruction for the rows of each.

All leave a barrier at one time, after the last has come: each core is simulated without the others
first, then with these times.

Numbers: each core's instructions act on its bytes in the order in which they would end if it shared
no bandwidth, or in a random legal order; one core after the other, since cores have nothing in
common but device memory, and up to the next barrier, since there they have. Adding to device memory
goes by the cores' numbers, so that the sums are the same each time.

Limits: the time of a kernel that reads numbers (`tile.read`) is that for the largest that they may
be, and for groups of one size where they ascend; reading them takes no time."""

from collections import Counter
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from math import prod
from random import Random
from typing import Any, TypeVar

import numpy as np
from xdsl.ir import Operation, SSAValue

from ge.dialects.npu_task.attributes import data_type
from ge.dialects.support.diagnostics import Diagnostic, Severity, error_at, location_of
from ge.dialects.support.element_types import storage_bytes
from ge.dialects.support.errors import GeError
from ge.dialects.targets.target import Target
from ge.dialects.tile.buffers import ReadOp, box_of
from ge.dialects.tile.compute import SetOp
from ge.dialects.tile.instruction import Instruction
from ge.dialects.tile.kernel import KernelOp, MemrefUses
from ge.dialects.tile.transfers import LoadOp, PushOp, StoreOp
from ge.runtime.cores.instructions import TileBox, prepare
from ge.runtime.cores.memory import Argument, CoreMemory, Kept, arguments_of, array_of, unwritten
from ge.runtime.cores.program import PIPES, Tables, Walk, offsets_of, translate
from ge.runtime.cores.replay import (
    MEET,
    PUSH,
    SET,
    WAIT,
    BadFlag,
    Known,
    Latencies,
    QueuePosition,
    Rounds,
    Simulation,
    Stuck,
    by_time,
    meetings,
    random_order,
    side_by_side,
    simulate,
)
from ge.runtime.cores.steps import Trace
from ge.runtime.data.arrays import Array
from ge.runtime.library.costs.cycles import Share, cycles_of
from ge.runtime.library.costs.estimates import Held, KernelTraffic, kind_of


def check_fits(kernel: KernelOp, target: Target) -> None:
    """Raises GeError for more cores than there are, and for a buffer outside of its memory."""
    for kind, count in kernel.cores_taken.items():
        if count > (have := target.cores[kind]):
            text = f"the kernel takes {count} {kind} cores, and '{target.name}' has {have}"
            raise error_at(kernel, text)
    for program in kernel.programs:
        for op in program.allocs:
            size, memory = target.core_memories[op.tile.space], op.tile.space
            end = max(offsets_of(op)) + op.tile.bytes
            if end > size:
                name = f" %{op.result.name_hint}" if op.result.name_hint else ""
                where = f"it ends at byte {end} of {size}"
                raise error_at(op, f"the buffer{name} does not fit into {memory}: {where}")


def check_meetings(tables: Tables, issues: Iterable[Sequence[Sequence[int]]]) -> None:
    """Raises GeError where not all cores come to as many barriers."""
    if all(record.kind != MEET for record in tables.records):
        return
    counts: set[int] = set()
    for issue in issues:
        queue = next((queue for queue in issue if queue), ())
        counts.add(sum(tables.records[n].kind == MEET for n in queue))
    if len(counts) > 1:
        few, many = min(counts), max(counts)
        message = f"some cores come to {few} barriers, and others to {many}, where they wait"
        raise error_at(tables.kernel, message, "tile.barrier is for all cores of a kernel")


@contextmanager
def explained(tables: Tables, issue: Sequence[Sequence[int]]) -> Generator[None]:
    """Raises GeError where pipes cannot go on, or flags are set wrongly."""
    try:
        yield
    except Stuck as stuck:
        notes: list[Diagnostic] = []
        for pipe, number in stuck.heads:
            record = tables.records[issue[pipe][number]]
            channel = ~record.channel if record.kind == PUSH else record.channel
            text = f"{tables.pipe_name(pipe)} waits for {tables.awaited(channel)}"
            op = tables.ops[record.op]
            notes.append(Diagnostic(Severity.NOTE, f"{text} at {op.name}", location_of(op)))
        message = f"the core stops for ever: {notes[0].message}"
        hint = "what pipes wait for is issued behind these waits, or not at all"
        raise GeError(message, str(notes[0].location), hint, notes[1:]) from None
    except BadFlag as bad:
        givers = (tables.ops[r.op] for r in tables.records if r.channel == bad.channel)
        op = next(op for op in givers if isinstance(op, SetOp | PushOp))
        name = tables.channels[bad.channel]
        if bad.left and isinstance(op, PushOp):
            raise error_at(op, f"{name} is not empty when the kernel ends", "pop all") from None
        if bad.left:
            raise error_at(op, f"{name} is still set when the kernel ends", "wait for it") from None
        hint = "wait for it before it is set again"
        raise error_at(op, f"{name} is set while it is set", hint) from None


@dataclass(frozen=True, slots=True)
class PipeTime:
    """The work of one pipe of the busiest core."""

    pipe: str
    instructions: int
    busy_us: float
    waits: dict[str, float]  # microseconds, by what it waits for


@dataclass(frozen=True, slots=True)
class Row:
    """One instruction of a trace, in microseconds."""

    pipe: str
    name: str
    start_us: float
    end_us: float
    place: str


@dataclass(frozen=True, slots=True)
class KernelTime:
    """Time of a kernel, and the work of its busiest core in that time."""

    kernel: str
    kind: str  # of those that have a start of their own: see `Target.kernel_start_us`
    cores: int
    start_us: float
    core_us: float  # of the busiest core
    hbm_us: float  # what the bytes of the operands take at least
    hbm_bytes: int
    pipes: tuple[PipeTime, ...]
    unstated: tuple[str, ...] = ()  # what the target does not say, and is taken for 0
    rows: tuple[Row, ...] = ()  # of the busiest core, where they are asked for

    @property
    def total_us(self) -> float:
        return self.start_us + max(self.core_us, self.hbm_us)

    @property
    def bound(self) -> str:
        """The cause that sets the time: the start, HBM, or the pipe that is busy longest."""
        if self.start_us >= max(self.core_us, self.hbm_us):
            return "start"
        if self.hbm_us >= self.core_us or not self.pipes:
            return "hbm"
        return max(self.pipes, key=lambda p: p.busy_us).pipe


T = TypeVar("T")
Issue = tuple[tuple[int, ...], ...]  # numbers of records, by pipe
Steps = list[tuple[int, tuple[Any, ...]]]  # numbers of instructions, and their operands
Phases = list[Steps]  # between barriers

MOST_KEPT = 100_000  # steps that a kernel keeps from run to run


class TileKernel:
    """A kernel on a target. Raises GeError for one that does not fit."""

    def __init__(self, op: KernelOp, target: Target) -> None:
        self.op, self.target, self.name = op, target, op.sym_name.data
        check_fits(op, target)
        self.tables = Tables(target, op)
        self._walks: dict[bool, list[Walk]] = {}
        self._issued: list[Issue] | None = None
        self._rounds: dict[int, Rounds] = {}  # by the identity of the issue
        self._cycles: dict[Held, list[float]] = {}
        self.known: dict[Held, Known] = {}  # what rounds take
        self._alone: list[float] = []
        self._released: dict[Held, list[float]] = {}  # when barriers let cores go on, in cycles
        self._ordered: dict[int, Phases] = {}  # by core; nothing that is read changes them
        self._kept = 0
        self._reads = any(isinstance(o, ReadOp) for o in op.walk())

    @cached_property
    def arguments(self) -> list[Argument]:
        return arguments_of(self.op)

    @cached_property
    def adds(self) -> bool:
        """True if cores add to device memory."""
        return bool(MemrefUses.of(self.op).added)

    @cached_property
    def meets(self) -> bool:
        return bool(self.op.barriers)

    @property
    def needs_all_cores(self) -> bool:
        """True if the stores of one core depend on others: a sum is whole when all have added to
        it."""
        return self.adds or self.meets

    # ---- what the cores issue

    def walk(
        self, core: int, with_values: bool
    ) -> tuple[list[list[int]], list[list[Any]], list[Trace]]:
        """The records that a core issues, by pipe, their operands if `with_values`, and the steps
        of each unit."""
        if with_values not in self._walks:
            # records are the same either way: their ops are numbered in the order of the program
            self.tables.ops.clear()
            self.tables.ends.clear()
            units = range(len(self.tables.units))
            self._walks[with_values] = [translate(u, self.tables, with_values) for u in units]
        queues, values = list[list[int]](), list[list[Any]]()
        by_unit = list[Trace]()
        for walk in self._walks[with_values]:
            own: list[list[int]] = [[] for _ in PIPES]
            operands: list[list[Any]] = [[] for _ in PIPES]
            trace = Trace()
            walk(core, own, operands, trace)
            queues += own
            values += operands
            by_unit.append(trace)
        return queues, values, by_unit

    @property
    def issued(self) -> list[Issue]:
        """The issue of each core; equal issues are one object."""
        if self._issued is None:
            known: dict[Hashable, Issue] = {}
            self._issued = []
            for core in range(self.op.core_count):
                queues, _, traces = self.walk(core, with_values=False)
                own = (queues[i : i + len(PIPES)] for i in range(0, len(queues), len(PIPES)))
                key = tuple(trace.key(part) for trace, part in zip(traces, own, strict=True))
                if key not in known:
                    known[key] = issue = tuple(map(tuple, queues))
                    self._rounds[id(issue)] = side_by_side([trace.rounds() for trace in traces])
                self._issued.append(known[key])
            check_meetings(self.tables, known.values())
        return self._issued

    def cycles(self, held: Held = ()) -> list[float]:
        """Cycles of each record."""
        _ = self.issued  # adds records
        if len(self._cycles.get(held, ())) < len(self.tables.records):
            self._cycles[held] = self._cycles_from(0, self.traffic.shares(held))
        return self._cycles[held]

    def _cycles_from(self, first: int, shares: Sequence[Share]) -> list[float]:
        """Cycles of each record from number `first` on."""
        ops = self.tables.ops
        return [
            cycles_of(op, r.sizes, shares[r.pipe // len(PIPES)], self.target)
            if isinstance(op := ops[r.op], Instruction)
            else 0.0
            for r in self.tables.records[first:]
        ]

    @property
    def _cycles_alone(self) -> list[float]:
        """Cycles of each record on a core that shares no bandwidth, for which others need not be
        walked."""
        known = self._alone
        if len(known) < len(self.tables.records):
            known += self._cycles_from(len(known), [Share()] * len(self.tables.units))
        return known

    # ---- memory traffic

    @cached_property
    def traffic(self) -> KernelTraffic:
        """Bytes that all cores together load of each memref, by unit, and store to it."""
        different = {id(issue): issue for issue in self.issued}
        loaded, stored = [Counter[SSAValue]() for _ in self.tables.units], Counter[SSAValue]()
        boxes: dict[int, tuple[Counter[SSAValue], SSAValue, int]] = {}
        for number, record in enumerate(self.tables.records):
            op = self.tables.ops[record.op]
            if isinstance(op, LoadOp | StoreOp):
                own = loaded[record.pipe // len(PIPES)]
                total, box = (own, op.source) if isinstance(op, LoadOp) else (stored, op.target)
                memref = box_of(box).source
                element = data_type(memref.type)[0]
                boxes[number] = total, memref, storage_bytes(prod(record.sizes), element)
        pipes = {self.tables.records[number].pipe for number in boxes}
        for issue, cores in Counter(map(id, self.issued)).items():
            for pipe in pipes:
                for number, count in Counter(different[issue][pipe]).items():
                    if number in boxes:
                        total, memref, size = boxes[number]
                        total[memref] += cores * count * size
        return KernelTraffic(self.op, self.target, loaded, stored)

    # ---- time

    @property
    def latencies(self) -> Latencies:
        return Latencies(self.target.flag_cycles, self.target.cross_flag_cycles)

    def simulate(
        self,
        issue: Issue,
        keep_steps: bool = False,
        held: Held = (),
        released: Sequence[float] | None = None,
    ) -> Simulation:
        """Simulate one core, or two that work together. `released`: the times at which barriers let
        them go on; None: as they do with all other cores. Raises GeError if they cannot go on."""
        cycles, tables = self.cycles(held), self.tables
        if released is None:
            released = self.released(held)
        with explained(tables, issue):
            facts = tables.records, cycles, tables.depths, self.latencies
            rounds = () if self.meets else self._rounds.get(id(issue), ())
            known = self.known.setdefault(held, Known())
            return simulate(issue, *facts, keep_steps, rounds, released, known)

    def released(self, held: Held) -> list[float]:
        """The times at which each barrier lets the cores go on: the slowest up to there sets the
        time."""
        if held not in self._released:
            different = {id(issue): issue for issue in self.issued} if self.meets else {}
            alone = [self.simulate(i, held=held, released=()).met for i in different.values()]
            self._released[held] = meetings(alone, self.latencies.barrier)
        return self._released[held]

    def time(self, with_rows: bool = False, held: Held = ()) -> KernelTime:
        """Time of the kernel with `held` by L2 when it begins. Raises GeError if a core cannot go
        on, or the target lacks a fact that it takes."""
        different = {id(issue): issue for issue in self.issued}
        simulations = [(self.simulate(issue, held=held), issue) for issue in different.values()]
        busiest, issue = max(simulations, key=lambda s: s[0].cycles)
        per_us, (size, hbm_us) = self.target.cycles_per_us, self.traffic.hbm(held)
        return KernelTime(
            self.name,
            self.kind,
            self.op.core_count,
            self.target.kernel_start_us.get(self.kind, 0.0),
            busiest.cycles / per_us,
            hbm_us,
            size,
            tuple(self._pipe_times(busiest, issue)),
            tuple(self._unstated()),
            tuple(self._rows(issue, held)) if with_rows else (),
        )

    def _unstated(self) -> Iterable[str]:
        target = self.target
        if self.kind not in target.kernel_start_us:
            yield f"kernel_start_us.{self.kind}"
        if not target.flag_cycles and any(r.kind == WAIT for r in self.tables.records):
            yield "flag_cycles"
        if not target.cross_flag_cycles and (self.op.fifos or self.meets):
            yield "cross_flag_cycles"

    @cached_property
    def kind(self) -> str:
        return kind_of(self.op)

    def _pipe_times(self, simulation: Simulation, issue: Issue) -> Iterable[PipeTime]:
        per_us = self.target.cycles_per_us
        for pipe, queue in enumerate(issue):
            if queue:
                waited = simulation.waited[pipe].items()
                waits = {self.tables.awaited(c): t / per_us for c, t in waited}
                numbers = Counter(queue).items()
                records = self.tables.records
                count = sum(c for n, c in numbers if records[n].kind not in (SET, WAIT, MEET))
                yield PipeTime(
                    self.tables.pipe_name(pipe), count, simulation.busy(pipe) / per_us, waits
                )

    def _rows(self, issue: Issue, held: Held) -> Iterable[Row]:
        per_us, cycles = self.target.cycles_per_us, self.cycles(held)
        for end, start, pipe, number in self.simulate(issue, True, held).steps:
            if cycles[issue[pipe][number]]:
                op = self.tables.ops[self.tables.records[issue[pipe][number]].op]
                ends = start / per_us, end / per_us
                yield Row(self.tables.pipe_name(pipe), op.name, *ends, str(location_of(op)))

    # ---- numbers

    def run(
        self,
        arrays: Mapping[str, Array],
        seed: int | None = None,
        cores: Sequence[int] | None = None,
        stored: dict[str, Array] | None = None,
        over: Mapping[str, str] | None = None,
    ) -> dict[str, Array]:
        """The outputs for these inputs, in the simulated order of each core, or with a seed in
        any legal order. With `cores` only these run; which elements are stored is put in
        `stored`. `over`: the input that an output is written over, element by element."""
        arguments = self.arguments
        random = None if seed is None else Random(seed)
        cores = list(range(self.op.core_count)) if cores is None else cores
        if random is not None and not self.adds:
            cores = random.sample(cores, len(cores))
        places = {a.name: array_of(a, arrays) for a in arguments}
        for result, operand in (over or {}).items():
            place = places[result]
            places[result] = places[operand].view(place.dtype).reshape(place.shape)
        memrefs = {a.memref: places[a.name] for a in arguments}
        memrefs.update((m, unwritten(m)) for m in self.op.workspace)
        self.tables.arrays.update(memrefs)
        stores: list[tuple[StoreOp, tuple[int, ...]]] = []
        with np.errstate(all="ignore"):
            for steps in self._run_all(cores, random):
                for number, operands in steps if stored is not None else ():
                    if isinstance(op := self.tables.ops[number], StoreOp):
                        stores.append((op, operands[1]))
        self.tables.arrays.clear()  # they are the caller's
        if stored is not None:
            masks = {m: np.zeros(array.shape, np.bool_) for m, array in memrefs.items()}
            for op, offsets in stores:
                TileBox(box_of(op.target), masks).part(offsets)[...] = True
            stored.update({a.name: masks[a.memref] for a in arguments if a.is_output})
        return {a.name: memrefs[a.memref] for a in arguments if a.is_output}

    def _run_all(self, cores: Sequence[int], random: Random | None) -> Iterator[Steps]:
        """Run cores, up to the next barrier one after the other; return those that were run."""
        if not self.meets:
            for core in cores:
                (steps,) = self._phases(core, random)
                self._run(steps)
                yield steps
            return
        phases = {core: self._phases(core, random) for core in cores}
        kept: dict[int, list[Kept]] = {}
        for number in range(len(phases[cores[0]])):
            if random is not None and not self.adds:
                cores = random.sample(cores, len(cores))
            for core in cores:
                self._run(phases[core][number], kept.get(core))
                kept[core] = [memory.kept() for memory in self._prepared[0]]
                yield phases[core][number]

    def _run(self, steps: Steps, kept: "Sequence[Kept] | None" = None) -> None:
        """Run instructions on fresh memories, or on those kept of a core."""
        memories, actions = self._prepared
        for i, memory in enumerate(memories):
            if kept is None:
                memory.reset()
            else:
                memory.restore(kept[i])
        number = 0
        try:
            for number, operands in steps:
                actions[number](*operands)
        except GeError as e:
            where = e.where or str(location_of(self.tables.ops[number]))
            raise GeError(e.message, where, e.hint, e.notes) from None
        except (ArithmeticError, ValueError, MemoryError) as e:
            op = self.tables.ops[number]
            raise error_at(op, f"'{op.name}' cannot be computed: {e}") from e

    @cached_property
    def _prepared(self) -> tuple[list[CoreMemory], list[Callable[..., None]]]:
        """The memories of a core, as far as the kernel's buffers reach, of each vector core beside
        it (the first one's are the cube core's, too), and the functions of the instructions on them
        and on the arrays of a run."""
        sizes = dict.fromkeys(self.target.core_memories, 0)
        for program in self.op.programs:
            for op in program.allocs:
                end = max(offsets_of(op)) + op.tile.bytes
                sizes[op.tile.space] = max(sizes[op.tile.space], end)
        fifos, parts, arrays = self.op.fifos, self.tables.parts, self.tables.arrays
        first = CoreMemory(sizes, fifos, parts)
        memories = [first, *(CoreMemory(sizes, fifos, parts, p, first) for p in range(1, parts))]
        ends = zip(self.tables.ops, self.tables.ends, strict=True)
        return memories, [at_op(op, prepare, op, memories[part], arrays) for op, part in ends]

    def _phases(self, core: int, random: Random | None) -> Phases:
        """The instructions of a core in order: their numbers, and operands."""
        known = self._ordered.get(core) if random is None else None
        if known is not None:
            return known
        queues, values, _ = self.walk(core, with_values=True)
        issue = tuple(map(tuple, queues))
        records = self.tables.records
        phases: Phases = [[]]
        first = next((p for p, queue in enumerate(issue) if queue), 0)  # all come to barriers
        with explained(self.tables, issue):
            for pipe, number in self._order(issue, random):
                record = records[issue[pipe][number]]
                if record.kind == MEET:
                    phases += [[]] * (pipe == first)
                elif record.kind not in (SET, WAIT):
                    phases[-1].append((record.op, values[pipe][number]))
        if random is None and not self._reads and self._kept < MOST_KEPT:
            self._ordered[core] = phases
            self._kept += sum(map(len, phases))
        return phases

    def _order(self, issue: Issue, random: Random | None) -> Iterable[QueuePosition]:
        records, depths = self.tables.records, self.tables.depths
        if random is not None:
            return random_order(issue, records, depths, random)
        try:
            # the times of all cores, where it matters whether they come to as many barriers
            cycles = self.cycles() if self.meets else self._cycles_alone
        except GeError:  # the target does not say what instructions take: one legal order
            cycles = [1.0] * len(records)
        return by_time(simulate(issue, records, cycles, depths, self.latencies, keep_steps=True))


def at_op(op: Operation, function: Callable[..., T], *arguments: Any) -> T:
    """Return the function's result; its errors are placed at the op."""
    try:
        return function(*arguments)
    except GeError as e:
        raise e if e.where else GeError(e.message, str(location_of(op)), e.hint) from None
    except (ArithmeticError, ValueError, MemoryError) as e:
        raise error_at(op, f"'{op.name}' cannot be computed: {e}") from e
