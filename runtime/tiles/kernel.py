"""Runs a `tile.kernel` on emulated cores: numbers and time from the same instructions.

    time = start of such a kernel + max(the busiest core, bytes of HBM / its bandwidth)

Each core is simulated on its own (`queues.py`), cores that issue the same records once, and of what
repeats itself (tiles of a matmul that are not cut off) only the first ones. They meet only in
bandwidth: a load takes no more than its core's share of HBM, if all cores load at once, of which L2
gives what was loaded before (`shares`), and each byte of what is loaded crosses HBM once; of what
is stored, as formulas have it: where cores are split, nothing that L2 has room for.
A cube core and the vector cores beside it run together; where those are several, the cube's pushes
and pops are an instruction for the rows of each.

Numbers: each core's instructions act on its bytes in the order in which they end, or in a random
legal order; one core after the other, since cores have nothing in common but device memory. Adding
to device memory goes by the cores' numbers, so that the sums are the same each time.

Limits: an operand larger than L2 still crosses HBM once. The time of a kernel that reads numbers
(`tile.read`) is that for the largest that they may be; reading them takes no time.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from random import Random
from typing import Any, TypeVar

import numpy as np
from xdsl.ir import Operation, SSAValue

from ge.dialects.npu_task.attributes import data_type
from ge.dialects.support.diagnostics import error_at, location_of
from ge.dialects.support.element_types import storage_bytes
from ge.dialects.support.errors import GeError
from ge.dialects.support.types import byte_size
from ge.dialects.targets.target import Target
from ge.dialects.tile.buffers import box_of
from ge.dialects.tile.compute import ReduceOp
from ge.dialects.tile.kernel import KernelOp, ProgramOp
from ge.dialects.tile.reading import ReadOp
from ge.dialects.tile.transfers import LoadOp, PopOp, StoreOp
from ge.runtime.costs.pipes import evicted_bytes, hbm_bytes_per_us
from ge.runtime.data.arrays import Array
from ge.runtime.tiles.arguments import Argument, arguments_of, array_of
from ge.runtime.tiles.costs import Share, cycles_of
from ge.runtime.tiles.instructions import Box, prepare
from ge.runtime.tiles.limits import check_fits, explained
from ge.runtime.tiles.memory import CoreMemory
from ge.runtime.tiles.program import PIPES, Tables, Walk, offsets_of, translate
from ge.runtime.tiles.queues import (
    SET,
    WAIT,
    Latencies,
    Place,
    Rounds,
    Simulation,
    by_time,
    random_order,
    side_by_side,
    simulate,
)
from ge.runtime.tiles.steps import Trace

T = TypeVar("T")
Issue = tuple[tuple[int, ...], ...]  # numbers of records, by pipe
Steps = list[tuple[int, tuple[Any, ...]]]  # numbers of instructions, and their operands

Held = tuple[float, ...]  # the parts of a kernel's arguments that are in L2; others are in HBM

MOST_KEPT = 100_000  # steps that a kernel keeps from run to run


@dataclass(frozen=True, slots=True)
class PipeTime:
    """What one pipe of the busiest core does."""

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
    """What a kernel takes, and what its busiest core does in that time."""

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
        """What sets the time: the start, HBM, or the pipe that is busy longest."""
        if self.start_us >= max(self.core_us, self.hbm_us):
            return "start"
        if self.hbm_us >= self.core_us or not self.pipes:
            return "hbm"
        return max(self.pipes, key=lambda p: p.busy_us).pipe


class TileKernel:
    """A kernel on a target. Raises GeError for one that does not fit."""

    def __init__(self, op: KernelOp, target: Target) -> None:
        self.op, self.target, self.name = op, target, op.sym_name.data
        check_fits(op, target)
        self.tables = Tables(target, op)
        self._walks: dict[bool, list[Walk]] = {}
        self._issued: list[Issue] | None = None
        self._rounds: dict[Issue, Rounds] = {}
        self._cycles: dict[Held, list[float]] = {}
        self._ordered: dict[int, Steps] = {}  # by core; nothing that is read changes them
        self._kept = 0
        self._reads = any(isinstance(o, ReadOp) for o in op.walk())

    @cached_property
    def arguments(self) -> list[Argument]:
        return arguments_of(self.op)

    @property
    def adds(self) -> bool:
        """Whether cores add to device memory."""
        return any(isinstance(op, StoreOp) and op.is_atomic for op in self.op.walk())

    # ---- what the cores issue

    def walk(self, core: int, with_values: bool) -> tuple[Issue, list[list[Any]]]:
        """What a core issues, and with that the operands."""
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
        issue = tuple(map(tuple, queues))
        if not with_values and issue not in self._rounds:
            self._rounds[issue] = side_by_side([trace.rounds() for trace in by_unit])
        return issue, values

    @property
    def issued(self) -> list[Issue]:
        """By core, equal ones being one object."""
        if self._issued is None:
            known: dict[Issue, Issue] = {}
            cores = range(self.op.core_count)
            issues = (self.walk(core, with_values=False)[0] for core in cores)
            self._issued = [known.setdefault(issue, issue) for issue in issues]
        return self._issued

    def cycles(self, held: Held = ()) -> list[float]:
        """Of each record."""
        issued, records, ops = self.issued, self.tables.records, self.tables.ops
        if len(self._cycles.get(held, ())) < len(records):
            shares = self.shares(issued, held)
            self._cycles[held] = [
                cycles_of(ops[r.op], r.sizes, shares[r.pipe // len(PIPES)], self.target)
                for r in records
            ]
        return self._cycles[held]

    # ---- memory traffic

    def traffic(self, issued: Sequence[Issue]) -> tuple[list[Counter[SSAValue]], Counter[SSAValue]]:
        """Bytes that all cores together load of each memref, by unit, and store to it."""
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
        for issue, cores in Counter(map(id, issued)).items():
            queues = next(i for i in issued if id(i) == issue)
            for pipe in pipes:
                for number, count in Counter(queues[pipe]).items():
                    if number in boxes:
                        total, memref, size = boxes[number]
                        total[memref] += cores * count * size
        return loaded, stored

    def crossing(self, loaded: Mapping[SSAValue, int], held: Held) -> dict[SSAValue, float]:
        """Bytes that come from HBM of what is loaded of each memref."""
        found: dict[SSAValue, float] = {}
        for i, memref in enumerate(self.op.body.block.args):
            missed = 1 - held[i] if i < len(held) else 1.0
            found[memref] = missed * min(loaded.get(memref, 0), _size(memref))
        return found

    def shares(self, issued: Sequence[Issue], held: Held = ()) -> list[Share]:
        """Of each unit of a core. Those that load side by side share what HBM gives by the bytes
        that they take of it; who takes less than the others is not held up by them. All cube cores
        saturate L2; where there are more vector cores than these, they share it."""
        by_unit, _ = self.traffic(issued)
        loaded = sum(by_unit, Counter[SSAValue]())
        bytes_of = self.crossing(loaded, held)
        parts = [
            sum(bytes_of[m] * size / loaded[m] for m, size in own.items() if size)
            for own in by_unit
        ]
        total, loading = sum(parts), sum(map(bool, parts))
        rate = hbm_bytes_per_us(self.op.core_count, self.target) / self.target.cycles_per_us
        each = rate * self.target.hbm_read_efficiency / self.op.core_count
        return [
            Share(
                {
                    m: each * max(part / total, 1 / loading) * loaded[m] / bytes_of[m]
                    for m, size in own.items()
                    if size and bytes_of[m]
                },
                self.target.l2_read_rate * self.l2_part(unit.program),
                self.target.l2_write_rate * self.l2_part(unit.program),
            )
            for part, own, unit in zip(parts, by_unit, self.tables.units, strict=True)
        ]

    def l2_part(self, program: ProgramOp) -> float:
        """The part of a cube core's rate of L2 that each core of a program gets."""
        return min(1.0, self.target.cube_cores / (self.op.core_count * program.parts))

    def hbm(self, issued: Sequence[Issue], held: Held = ()) -> tuple[int, float]:
        """Bytes that cross HBM, and the microseconds that they take at least."""
        by_unit, stores = self.traffic(issued)
        loaded = int(sum(self.crossing(sum(by_unit, Counter[SSAValue]()), held).values()))
        stored = sum(min(size, _size(m)) for m, size in stores.items())
        stored = evicted_bytes(loaded, stored, self.target)
        rate = hbm_bytes_per_us(self.op.core_count, self.target)
        read_rate = rate * self.target.hbm_read_efficiency
        return loaded + stored, max((loaded + stored) / rate, loaded / read_rate)

    # ---- time

    def simulate(self, issue: Issue, keep_steps: bool = False, held: Held = ()) -> Simulation:
        """One core, or two that work together. Raises GeError where they cannot go on."""
        tables, target = self.tables, self.target
        latencies = Latencies(target.flag_cycles, target.cross_flag_cycles)
        with explained(self.tables, issue):
            rounds = self._rounds.get(issue, ())
            cycles = self.cycles(held)
            return simulate(
                issue, tables.records, cycles, tables.depths, latencies, keep_steps, rounds
            )

    def time(self, with_rows: bool = False, held: Held = ()) -> KernelTime:
        """With `held` by L2 when the kernel begins. Raises GeError where a core cannot go on, or
        the target lacks what it takes."""
        different = {id(issue): issue for issue in self.issued}
        simulations = [(self.simulate(issue, held=held), issue) for issue in different.values()]
        busiest, issue = max(simulations, key=lambda s: s[0].cycles)
        per_us, (size, hbm_us) = self.target.cycles_per_us, self.hbm(self.issued, held)
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
        if not target.cross_flag_cycles and self.op.fifos:
            yield "cross_flag_cycles"

    @property
    def kind(self) -> str:
        has_rows = any(isinstance(op, ReduceOp) for op in self.op.walk())
        if self.op.cube is None:
            return "row" if has_rows else "vector"
        if self.op.vector is None:
            return "cube"
        comes_back = any(isinstance(op, PopOp) for op in self.op.cube.walk())
        return "attention" if has_rows and comes_back else "mixed"

    def _pipe_times(self, simulation: Simulation, issue: Issue) -> Iterable[PipeTime]:
        per_us = self.target.cycles_per_us
        for pipe, queue in enumerate(issue):
            if queue:
                waited = simulation.waited[pipe].items()
                waits = {self.tables.awaited(c): t / per_us for c, t in waited}
                numbers = Counter(queue).items()
                records = self.tables.records
                count = sum(c for n, c in numbers if records[n].kind not in (SET, WAIT))
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
        """The outputs for these inputs, in the order of the simulated time, or with a seed in any
        legal order. With `cores` only these run; which elements are stored is put in `stored`.
        `over`: the input that an output is written over, element by element."""
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
        self.tables.arrays.update(memrefs)
        stores: list[tuple[StoreOp, tuple[int, ...]]] = []
        with np.errstate(all="ignore"):
            for core in cores:
                steps = self._steps(core, random)
                self._run(steps)
                for number, operands in steps if stored is not None else ():
                    if isinstance(op := self.tables.ops[number], StoreOp):
                        stores.append((op, operands[1]))
        self.tables.arrays.clear()  # they are the caller's
        if stored is not None:
            masks = {a.memref: np.zeros(memrefs[a.memref].shape, np.bool_) for a in arguments}
            for op, offsets in stores:
                Box(box_of(op.target), masks).part(offsets)[...] = True
            stored.update({a.name: masks[a.memref] for a in arguments if a.is_output})
        return {a.name: memrefs[a.memref] for a in arguments if a.is_output}

    def _run(self, steps: "Steps") -> None:
        """Run instructions on fresh memories."""
        memories, actions = self._prepared
        for memory in memories:
            memory.reset()
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
        it (the first one's are the cube core's, too), and what the instructions do to them and to
        the arrays of a run."""
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

    def _steps(self, core: int, random: Random | None) -> "Steps":
        """The instructions of a core in order: their numbers, and operands."""
        known = self._ordered.get(core) if random is None else None
        if known is not None:
            return known
        issue, values = self.walk(core, with_values=True)
        records = self.tables.records
        with explained(self.tables, issue):
            steps = [
                (record.op, values[pipe][number])
                for pipe, number in self._order(issue, random)
                if (record := records[issue[pipe][number]]).kind not in (SET, WAIT)
            ]
        if random is None and not self._reads and self._kept < MOST_KEPT:
            self._ordered[core] = steps
            self._kept += len(steps)
        return steps

    def _order(self, issue: Issue, random: Random | None) -> Iterable[Place]:
        records, depths = self.tables.records, self.tables.depths
        if random is not None:
            return random_order(issue, records, depths, random)
        try:
            cycles = self.cycles()
        except GeError:  # the target does not say what instructions take: one legal order
            cycles = [1.0] * len(records)
        latencies = Latencies(self.target.flag_cycles, self.target.cross_flag_cycles)
        return by_time(simulate(issue, records, cycles, depths, latencies, keep_steps=True))


def at_op(op: Operation, function: Callable[..., T], *arguments: Any) -> T:
    """What the function returns; its errors are at the op."""
    try:
        return function(*arguments)
    except GeError as e:
        raise e if e.where else GeError(e.message, str(location_of(op)), e.hint) from None
    except (ArithmeticError, ValueError, MemoryError) as e:
        raise error_at(op, f"'{op.name}' cannot be computed: {e}") from e


def _size(memref: SSAValue) -> int:
    return byte_size(memref.type)
