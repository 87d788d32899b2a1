"""Estimated times of launches of kernels with a tile program: for compilers, which ask again and
again, before anybody has simulated a program.

A program is walked once on a core of each kind (`nest.py`), which says what bytes it moves and in
which order; its pipes are followed for some steps of each loop (`units.py`). The traffic of cores
between their memories, L2 and HBM, and the bandwidth that each of them gets, are for simulations
too (`KernelTraffic`). The simulation of the finished program (`runtime/cores`) follows all steps on
all cores with the program's own flags; `test/bench/estimates.py` sets one against the other."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from math import prod
from operator import le
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.scf import ForOp
from xdsl.ir import Operation, SSAValue

from ge.dialects.npu_task.attributes import TilingAttr
from ge.dialects.support.errors import GeError
from ge.dialects.support.operation import all_ops, operands_of
from ge.dialects.support.types import byte_size
from ge.dialects.targets.target import Target
from ge.dialects.tile.buffers import AllocOp
from ge.dialects.tile.compute import MmadOp, ReduceOp
from ge.dialects.tile.kernel import KernelOp, ProgramOp
from ge.dialects.tile.transfers import LoadOp, PopOp, StoreOp
from ge.dialects.tile.types import Pipe, tile_type
from ge.runtime.library.costs.cycles import Share
from ge.runtime.library.costs.l2 import evicted_bytes
from ge.runtime.library.costs.nest import CoreNumbers, Leaf, Seen, Walk, is_own, loaded_again
from ge.runtime.library.costs.units import MOST_KINDS, CoreUnit, cycles

# Element-operations of the control processor in a microsecond. Not published: an assumption.
HOST_OPS_PER_US = 1000.0


@dataclass(frozen=True, slots=True)
class TaskTime:
    """Times of one launch in isolation, without its launch cost."""

    cube_us: float = 0.0
    vector_us: float = 0.0
    in_us: float = 0.0
    out_us: float = 0.0
    total_us: float = 0.0
    bytes: int = 0  # bytes that cross HBM, read and written
    l2_bytes: int = 0  # bytes that cross between the cores and L2, read and written
    start_us: float = 0.0  # of the kernel, before its first tile: a part of the total
    hbm_us: float = 0.0  # what the bytes that cross HBM take at the rate of its cores
    # The parts of the operands that L2 holds; None: of what runs on no core
    held: tuple[float, ...] | None = None
    warm: float = 0.0  # the share of the bytes that it reads that L2 holds when it is issued
    estimated: bool = True  # no tile program was simulated


class CoreTime(NamedTuple):
    """Time of a tile program on its busiest core, without the start of such a kernel, and how long
    the pipes of that core work."""

    start_us: float
    core_us: float
    cube_us: float
    vector_us: float
    load_us: float
    store_us: float


@dataclass(frozen=True)
class CoreTimes:
    """The time of a tile program by the parts of its operands that L2 holds when it begins, the
    cores that it takes, by engine, and the bytes that all of them move."""

    cores: tuple[tuple[str, int], ...]
    time: Callable[[tuple[float, ...]], CoreTime]
    moved: Callable[[], int]
    estimated: bool = False


def link_time(size: int, target: Target) -> TaskTime:
    """Time of a copy between host and device."""
    us = max(size, target.full_rate_bytes) / (target.host_link_gbs * 1e3)
    return TaskTime(in_us=us, total_us=us, bytes=size)


def copy_times(size: int, target: Target) -> CoreTimes:
    """Times of a copy on the device, by as many vector cores as have a full-rate transfer to do: an
    assumption."""
    cores = min(target.vector_cores, max(1, size // target.full_rate_bytes))
    rounds = max(1, size // (cores * target.full_rate_bytes))
    load = max(size, target.full_rate_bytes) / l2_bytes_per_us(cores, target)
    store = store_us(size, cores, target)

    def time(held: tuple[float, ...]) -> CoreTime:
        missed = (
            size * (1 - held[0]) / (hbm_bytes_per_us(cores, target) * target.hbm_read_efficiency)
        )
        arrive = max(load, missed)
        core = max(arrive, store) + min(arrive, store) / rounds
        return CoreTime(0.0, core, 0.0, 0.0, arrive, store)

    return CoreTimes((("vector", cores),), time, lambda: 2 * size)


def hbm_bytes_per_us(cores: int, target: Target) -> float:
    """HBM bandwidth of so many cores together; all cube cores saturate it."""
    rate = target.hbm_rate * target.hbm_efficiency
    return min(cores, target.cube_cores) * rate * target.cycles_per_us


def l2_bytes_per_us(cores: int, target: Target) -> float:
    """Bandwidth of reading L2 of so many cores together; all cube cores saturate it."""
    return min(cores, target.cube_cores) * target.stated("l2_rate") * target.cycles_per_us


def whole_l2_bytes_per_us(target: Target) -> float:
    """Bandwidth of reading and of writing L2, of the whole chip."""
    each = target.stated("l2_rate") + target.l2_write_rate
    return target.cube_cores * each * target.cycles_per_us


def store_us(written: float, cores: int, target: Target) -> float:
    """Time of writing results into L2: through the path out of each core, and at the rate that all
    cube cores reach together."""
    l2 = min(cores, target.cube_cores) * target.l2_write_rate
    slowest = min(cores * target.ub_out_rate, l2)
    return max(written, cores * target.full_rate_bytes) / (slowest * target.cycles_per_us)


Held = tuple[float, ...]  # the parts of a kernel's arguments that are in L2; others are in HBM


@dataclass(frozen=True, eq=False)
class KernelTraffic:
    """Bytes that all cores together load of each memref, by unit of a core (a cube core, or one of
    the vector cores beside it), and store to it."""

    op: KernelOp
    target: Target
    loaded: Sequence[Counter[SSAValue]]
    stored: Counter[SSAValue]
    turns: int | None = None
    """Turns of a core that are followed for what is loaded again; None: all."""

    @cached_property
    def total(self) -> Counter[SSAValue]:
        """Bytes of all units, by memref."""
        return sum(self.loaded, Counter[SSAValue]())

    @property
    def moved(self) -> int:
        """Bytes between the cores and L2, of all cores."""
        return sum(self.total.values()) + sum(self.stored.values())

    @cached_property
    def again(self) -> Counter[SSAValue]:
        """Bytes of each memref that come from HBM more than once: where some are loaded again, and
        L2 has not room for all."""
        sizes = {m: byte_size(m.type) for m in self.total}
        if sum(sizes.values()) <= self.target.l2_bytes:
            return Counter()
        if all(size <= sizes[m] for m, size in self.total.items()):
            return Counter()
        facts = self.op.core_count, self.target.l2_bytes, self.turns
        return loaded_again(self.op.units, *facts)

    def crossing(self, held: Held) -> dict[SSAValue, float]:
        """Bytes loaded of each memref that come from HBM."""
        found: dict[SSAValue, float] = {}
        own = self.op.workspace if self.op.workspace_bytes <= self.target.l2_bytes else ()
        for i, memref in enumerate(self.op.body.block.args):
            missed = 0.0 if memref in own else 1 - held[i] if i < len(held) else 1.0
            once = min(self.total.get(memref, 0), byte_size(memref.type))
            found[memref] = missed * once + self.again[memref]
        return found

    def shares(self, held: Held) -> list[Share]:
        """Shares of each unit of a core. Units that load side by side share the bandwidth of HBM by
        the bytes that they take of it; one that takes less is not held up by the others. All cube
        cores saturate L2; where there are more vector cores than these, they share it."""
        bytes_of, loaded = self.crossing(held), self.total
        parts = [
            sum(bytes_of[m] * size / loaded[m] for m, size in own.items() if size)
            for own in self.loaded
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
                self.target.stated("l2_rate") * self.l2_part(program),
                self.target.l2_write_rate * self.l2_part(program),
            )
            for part, own, (program, _) in zip(parts, self.loaded, self.op.units, strict=True)
        ]

    def l2_part(self, program: ProgramOp) -> float:
        """The part of a cube core's rate of L2 that each core of a program gets."""
        return min(1.0, self.target.cube_cores / (self.op.core_count * program.parts))

    def hbm(self, held: Held) -> tuple[int, float]:
        """Bytes that cross HBM, and the microseconds that they take at least."""
        loaded = int(sum(self.crossing(held).values()))
        stored = sum(min(size, byte_size(m.type)) for m, size in self.stored.items())
        stored = evicted_bytes(loaded, stored, self.target)
        rate = hbm_bytes_per_us(self.op.core_count, self.target)
        read_rate = rate * self.target.hbm_read_efficiency
        return loaded + stored, max((loaded + stored) / rate, loaded / read_rate)


MOST_TURNS = 512  # of all cores, that are followed to count repeated loads


@dataclass(frozen=True)
class Estimate:
    """Microseconds of a launch, with its operands where they were said to be."""

    core_us: float  # of the busiest core, or pair of a cube core and vector cores
    hbm_us: float  # what the bytes of the operands take at least
    units: Sequence[CoreUnit]  # of that core

    def pipes(self) -> list[tuple[Pipe, float]]:
        """Time for which each pipe of a unit is busy."""
        busy = [(unit.target.cycles_per_us, unit.busy()) for unit in self.units]
        return [(pipe, n / per_us) for per_us, found in busy for pipe, n in found.items()]


def cores_of(op: KernelOp) -> dict[tuple[int, ...], list[int]]:
    """The cores of each kind, by how often they go through the outermost loops."""
    kinds = dict[tuple[int, ...], list[int]]()
    loops = [[o for o in p.body.block.ops if isinstance(o, ForOp)] for p in op.programs]
    bounds = {value for ops in loops for loop in ops for value in operands_of(loop)[:3]}
    first, own = CoreNumbers(0, op.core_count, 0, largest=True), dict[SSAValue, bool]()
    same = {value: first.number(value) for value in bounds if not is_own(value, own)}
    for core in range(op.core_count):
        at = CoreNumbers(core, op.core_count, 0, largest=True)
        at.known.update(same)
        turns = tuple([len(at.steps(loop)) for ops in loops for loop in ops])
        kinds.setdefault(turns, []).append(core)
    return kinds


def has_less(turns: tuple[int, ...], kinds: Iterable[tuple[int, ...]]) -> bool:
    """Return whether cores of another kind go through all loops as often, or more often."""
    return any(other != turns and all(map(le, turns, other)) for other in kinds)


class LoopNests:
    """The programs of a kernel, walked once on a core of each kind; of those whose pipes are
    followed no other one goes through all loops as often."""

    def __init__(self, op: KernelOp, target: Target) -> None:
        self.target, kinds = target, cores_of(op)
        seen, self.cycles = Seen(), dict[Leaf, float]()
        walked = [[Walk(op, p, cores[0], seen) for p in op.programs] for cores in kinds.values()]
        loaded = [Counter[SSAValue]() for p in op.programs for _ in range(p.parts)]
        stored = Counter[SSAValue]()
        for walks, count in zip(walked, map(len, kinds.values()), strict=True):
            units = (walk for walk in walks for _ in range(walk.program.parts))
            for unit, walk in enumerate(units):
                loaded[unit].update({m: n * count for m, n in walk.loaded.items()})
                stored.update({m: n * count for m, n in walk.stored.items()})
        self.traffic = KernelTraffic(
            op, target, loaded, stored, max(MOST_TURNS // op.core_count, 2)
        )
        pairs = zip(walked, kinds, strict=True)
        self.cores = [walks for walks, turns in pairs if not has_less(turns, kinds)]

    def estimate(self, held: Held = ()) -> Estimate:
        """Estimate with the parts `held` of its operands in L2. Raises GeError if the target lacks
        a fact that it takes."""
        shares, known = self.traffic.shares(held), self.cycles
        # where operands are matters to loads alone
        self.cycles = {leaf: us for leaf, us in known.items() if not isinstance(leaf.op, LoadOp)}
        cores = [self.units(walks, shares) for walks in self.cores]
        if len(cores) > MOST_KINDS:
            cores.sort(key=lambda units: -max(max(u.busy().values(), default=0.0) for u in units))
        cores = cores[:MOST_KINDS]
        found = [cycles(units, self.target) for units in cores]
        core_us = max(found) / self.target.cycles_per_us
        return Estimate(core_us, self.traffic.hbm(held)[1], cores[found.index(max(found))])

    def units(self, walks: Sequence[Walk], shares: Sequence[Share]) -> list[CoreUnit]:
        """A core, or a cube core and the vector cores beside it."""
        units, first = list[CoreUnit](), 0
        for walk in walks:
            units.append(CoreUnit(walk, shares[first], self.target, self.cycles))
            first += walk.program.parts
        return units


class Figures(NamedTuple):
    """The estimate of a program, in microseconds: behind its start on a core, and of the bytes that
    cross HBM, with all operands in HBM (cold) or in L2 (warm); and how long the pipes are busy."""

    cores: tuple[tuple[str, int], ...]  # by engine
    sizes: tuple[int, ...]  # bytes of the arguments
    start_us: float
    cold_us: float
    warm_us: float
    cold_hbm_us: float  # what the bytes that cross HBM take at least
    warm_hbm_us: float
    cube_us: float
    vector_us: float
    load_us: float
    store_us: float
    moved: int  # bytes between the cores and L2, of all cores
    tile: tuple[int, ...]  # m, n and k on the cube, elements on vector cores
    buffers: int  # 2 where the next tile comes while one is worked on

    @property
    def tiling(self) -> TilingAttr:
        """The cut of the launch."""
        return TilingAttr.of(self.tile, self.cores[0][1], self.buffers)

    @property
    def total_us(self) -> float:
        """Time of a launch with its operands in HBM, without its launch cost."""
        return self.start_us + self.core_us(())

    def core_us(self, held: tuple[float, ...]) -> float:
        """Time behind the start, with these parts of the operands in L2."""
        part = self.warm_part(held)
        hbm_us = self.cold_hbm_us + (self.warm_hbm_us - self.cold_hbm_us) * part
        return max(self.time(held).core_us, hbm_us)

    def time(self, held: tuple[float, ...]) -> CoreTime:
        """Times with these parts of the operands in L2: between cold and warm in proportion to the
        bytes."""
        core_us = self.cold_us + (self.warm_us - self.cold_us) * self.warm_part(held)
        return CoreTime(self.start_us, core_us, *self[7:11])

    def warm_part(self, held: tuple[float, ...]) -> float:
        """Part of the bytes of the operands that L2 holds; operands are the first arguments: one
        for each of `held`."""
        operands = list(zip(held, self.sizes, strict=False))
        total = sum([size for _, size in operands])
        return sum([part * size for part, size in operands]) / total if total else 0.0


@cache
def core_times(figures: Figures) -> CoreTimes:
    """The same for a clock."""
    return CoreTimes(figures.cores, figures.time, lambda: figures.moved, estimated=True)


def read_figures(kept: Sequence[Any] | None) -> Figures | None:
    """Figures that were written as JSON."""
    if kept is None:
        return None
    cores, sizes, *times, moved, tile, buffers = kept
    named = tuple((name, count) for name, count in cores)
    return Figures._make([named, tuple(sizes), *times, moved, tuple(tile), buffers])


def between(least: Figures, most: Figures, sizes: tuple[int, ...]) -> Figures:
    """Figures of a program whose arguments have these bytes, on the line between two: for schedules
    of programs that are bound to sizes, where nobody walks through a program. It is no time of a
    run."""
    first, last = sum(least.sizes), sum(most.sizes)
    part = (sum(sizes) - first) / (last - first) if last != first else 1.0
    pairs = zip(least[2:12], most[2:12], strict=True)
    *times, moved = [max(a + (b - a) * part, 0.0) for a, b in pairs]
    return Figures._make([most.cores, sizes, *times, int(moved), *most[12:]])


_known: WeakKeyDictionary[KernelOp, tuple[Target, Figures | None]] = WeakKeyDictionary()


def keep(op: KernelOp, target: Target, figures: Figures | None) -> None:
    """Take note of a program's figures: the program may be unread text, or may have been brought to
    the form that cores run since."""
    _known[op] = target, figures


def keep_as(op: KernelOp, other: KernelOp) -> None:
    """The figures of a program are those of another one that it is a copy of."""
    if (known := _known.get(other)) is not None:
        _known[op] = known


def known_figures(op: KernelOp) -> Figures | None:
    """The figures of a program, if they were asked for before."""
    return known[1] if (known := _known.get(op)) is not None else None


def figures_of(op: KernelOp, target: Target) -> Figures | None:
    """The figures of a program; None if the target lacks a fact that they follow from."""
    known = _known.get(op)
    if known is None or known[0] is not target:
        try:
            known = target, figures(op, target)
        except GeError:
            known = target, None
        _known[op] = known
    return known[1]


def figures(op: KernelOp, target: Target) -> Figures:
    """The estimate of a program. Raises GeError if the target lacks a fact that they follow from,
    or sizes are not known."""
    if op.is_open:
        raise GeError("the sizes of a tile program are its arguments")
    sizes = tuple(byte_size(a.type) for a in op.arguments)
    nests = LoopNests(op, target)
    cold, warm = nests.estimate(), nests.estimate((1.0,) * len(sizes))
    all_pipes = cold.pipes()

    def busy(*pipes: Pipe) -> float:
        return max((us for pipe, us in all_pipes if pipe in pipes), default=0)

    cores = tuple(op.cores_taken.items())
    inner = all_ops(op.body.blocks)
    start = target.kernel_start_us.get(kind_of(op), 0.0)
    pipes = busy(Pipe.M), busy(Pipe.V), busy(Pipe.MTE2), busy(Pipe.FIX, Pipe.MTE3)
    times = start, cold.core_us, warm.core_us, cold.hbm_us, warm.hbm_us, *pipes
    overlaps = any(isinstance(o, AllocOp) and o.copies > 1 for o in inner)
    moved = nests.traffic.moved
    return Figures(cores, sizes, *times, moved, tile_of(op, inner), 1 + overlaps)


def tile_of(op: KernelOp, inner: Sequence[Operation]) -> tuple[int, ...]:
    """The largest tile of a program: of sums on the cube, with the terms that are added at a time,
    or else of the tiles that vector cores store."""
    found: list[tuple[int, ...]] = [(1,)]
    stores = op.cube is None
    for o in inner:
        if isinstance(o, MmadOp):
            found.append((*tile_type(o.acc).shape, tile_type(o.lhs).cols.data))
        elif stores and isinstance(o, StoreOp):
            found.append((prod(tile_type(o.source).shape),))
    return max(found, key=lambda tile: (len(tile), prod(tile[:2])))


def kind_of(op: KernelOp) -> str:
    """Kind of the kernel, of those that have a start of their own: see `Target.kernel_start_us`."""
    has_rows = any(isinstance(o, ReduceOp) for o in all_ops(op.body.blocks))
    if op.cube is None:
        return "row" if has_rows else "vector"
    if op.vector is None:
        return "cube"
    comes_back = any(isinstance(o, PopOp) for o in all_ops([op.cube.body.block]))
    return "attention" if has_rows and comes_back else "mixed"


def core_estimates(module: ModuleOp, target: Target) -> Mapping[str, CoreTimes]:
    """Times of the tile programs of a module, by name, as far as they are known."""
    found: dict[str, CoreTimes] = {}
    for op in module.ops:
        if isinstance(op, KernelOp) and (known := figures_of(op, target)) is not None:
            found[op.sym_name.data] = core_times(known)
    return found
