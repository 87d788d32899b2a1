"""How long a launch takes, and the rates at which cores together move bytes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from ge.dialects.targets.target import Target

# Element-operations of the control processor in a microsecond. Not published: an assumption.
HOST_OPS_PER_US = 1000.0


@dataclass(frozen=True, slots=True)
class TaskTime:
    """One launch in isolation, without its launch cost."""

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
    """The time of a tile program by the parts of its operands that L2 holds when it begins, the
    cores that it takes, by engine, and the bytes that all of them move."""

    cores: tuple[tuple[str, int], ...]
    time: Callable[[tuple[float, ...]], CoreTime]
    moved: Callable[[], int]
    estimated: bool = False


def link_time(size: int, target: Target) -> TaskTime:
    """Of a copy between host and device."""
    us = max(size, target.full_rate_bytes) / (target.host_link_gbs * 1e3)
    return TaskTime(in_us=us, total_us=us, bytes=size)


def copy_times(size: int, target: Target) -> CoreTimes:
    """Of a copy on the device, by as many vector cores as find a full-rate transfer to do: an
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
