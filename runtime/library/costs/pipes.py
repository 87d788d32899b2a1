"""What a launch asks of each pipe of a core, and how long that takes: see `cost.py`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from ge.dialects.targets.target import Target


@dataclass(frozen=True, slots=True)
class TaskTime:
    """One launch in isolation, without its launch cost."""

    cube_us: float = 0.0
    vector_us: float = 0.0
    in_us: float = 0.0
    out_us: float = 0.0
    ramp_us: float = 0.0
    total_us: float = 0.0
    bytes: int = 0  # bytes that cross HBM, read and written
    l2_bytes: int = 0  # bytes that cross between the cores and L2, read and written
    start_us: float = 0.0  # of the kernel, before its first tile: a part of the total
    hbm_us: float = 0.0  # what the bytes that cross HBM take at the rate of its cores
    # The parts of the operands that L2 holds, where a tile program says the time; None: formulas do
    held: tuple[float, ...] | None = None
    warm: float = 0.0  # the share of the bytes that it reads that L2 holds when it is issued


class CoreTime(NamedTuple):
    """What a tile program takes on its busiest core, behind the start of such a kernel, and how
    long the pipes of that work."""

    start_us: float
    core_us: float
    cube_us: float
    vector_us: float
    load_us: float
    store_us: float


@dataclass(frozen=True)
class CoreTimes:
    """The time of a tile program by the parts of its operands that L2 holds when it begins, and the
    cores that it takes, by engine."""

    cores: tuple[tuple[str, int], ...]
    time: Callable[[tuple[float, ...]], CoreTime]


@dataclass(frozen=True, slots=True)
class Pipes:
    """A kernel with a tiling: what the busiest core does in each pipe, times in microseconds."""

    cube_us: float
    vector_us: float
    load_us: float  # reading all tiles, if L2 has what they read
    store_us: float  # writing the results into L2
    read: int
    written: int  # bytes of the operands that are needed and of the results, each once
    l2_bytes: int  # bytes between cores and L2, of all cores
    loads: int
    stores: int  # how many tiles the busiest core reads and writes
    blocks: int  # cores that work side by side
    double_buffered: bool
    start_us: float = 0.0  # of a kernel of this kind, and what comes before and after all tiles
    # Loads of a tile are issued behind the vector work on the one before
    in_order: bool = False
    chain_us: float = 0.0  # where stages of several cores wait for each other
    # Of the busiest core, from its first instruction to its last, where a tile program says it: it
    # takes the place of all above but the start
    core_us: float = 0.0
    # What cores load and store by the time of the busiest one, over the bytes that are read and
    # written: fractions
    loaded: tuple[int, int] = (1, 1)
    stored: tuple[int, int] = (1, 1)
    # Transfers of a core, each way, that take at least the time of one at the full rate
    transfers: int = 1

    def time(self, target: Target, read: int | None = None, evicted: int | None = None) -> TaskTime:
        """The time in isolation. `read` bytes cross HBM because L2 does not have them (by default
        all); `evicted` bytes leave L2 for HBM meanwhile (by default what is written; with split
        cores, if it does not fit into L2)."""
        missed = self.read if read is None else read
        hbm = hbm_bytes_per_us(self.blocks, target)
        least = self.transfers * self.blocks * target.full_rate_bytes
        arrive, leave = self.load_us, self.store_us
        if missed:
            size = max(scaled(missed, self.loaded), least)
            arrive = max(arrive, size / (hbm * target.hbm_read_efficiency))
        if evicted is None:
            evicted = evicted_bytes(self.read, self.written, target)
            size = max(scaled(evicted, self.stored), least)
            leave = max(leave, size / hbm) if evicted else leave
        memory = (scaled(missed, self.loaded) + scaled(evicted, self.stored)) / hbm
        if target.vector_overlaps:
            busy, work = max(self.cube_us, self.vector_us), self.cube_us + self.vector_us
        else:
            busy = work = self.cube_us + self.vector_us
        if self.double_buffered:
            ramp = arrive / self.loads + leave / self.stores
            serial = arrive + self.vector_us if self.in_order else 0.0
            total = max(busy, arrive, leave, memory, serial, self.chain_us) + ramp
        else:
            ramp = 0.0
            total = max(max(work, self.chain_us) + arrive + leave, memory)
        if self.core_us:
            ramp, total = 0.0, max(self.core_us, memory)
        total += self.start_us
        return TaskTime(
            self.cube_us,
            self.vector_us,
            arrive,
            leave,
            ramp,
            total,
            missed + evicted,
            self.l2_bytes,
            self.start_us,
            memory,
        )


def scaled(size: int, fraction: tuple[int, int]) -> float:
    """Rounded once, so that what is equal stays so."""
    return size * fraction[0] / fraction[1]


def evicted_bytes(read: int, written: int, target: Target) -> int:
    """What of the results of a launch alone leaves L2 for HBM meanwhile: nothing where cores are
    split and all fits into L2."""
    stays = target.split_cores and read + written <= target.l2_bytes
    return 0 if stays else written


def hbm_bytes_per_us(cores: int, target: Target) -> float:
    """HBM bandwidth of so many cores together; all cube cores saturate it."""
    rate = target.hbm_rate * target.hbm_efficiency
    return min(cores, target.cube_cores) * rate * target.cycles_per_us


def l2_bytes_per_us(cores: int, target: Target) -> float:
    """Bandwidth of reading L2 of so many cores together; all cube cores saturate it."""
    return min(cores, target.cube_cores) * target.l2_read_rate * target.cycles_per_us


def whole_l2_bytes_per_us(target: Target) -> float:
    """Bandwidth of reading and of writing L2, of the whole chip."""
    return target.cube_cores * (target.l2_read_rate + target.l2_write_rate) * target.cycles_per_us


def store_us(written: float, blocks: int, target: Target, transfers: int = 1) -> float:
    """Time of writing results into L2 by so many transfers of each core: through the path out of
    each core, and at the rate that all cube cores reach together."""
    if not written:
        return 0.0
    l2 = min(blocks, target.cube_cores) * target.l2_write_rate
    slowest = min(blocks * target.ub_out_rate, l2)
    least = transfers * blocks * target.full_rate_bytes
    return max(written, least) / (slowest * target.cycles_per_us)
