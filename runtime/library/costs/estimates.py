"""What launches of kernels with a tile program take, by estimate: for schedulers, which ask again
and again, and before anybody has simulated a program."""

from collections.abc import Mapping, Sequence
from functools import cache
from math import prod
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ge.dialects.npu_task.attributes import TilingAttr
from ge.dialects.support.errors import GeError
from ge.dialects.support.operation import all_ops
from ge.dialects.support.types import byte_size
from ge.dialects.targets.target import Target
from ge.dialects.tile.buffers import AllocOp
from ge.dialects.tile.compute import MmadOp, ReduceOp
from ge.dialects.tile.kernel import KernelOp
from ge.dialects.tile.transfers import PopOp, StoreOp
from ge.dialects.tile.types import Pipe, tile_type
from ge.runtime.library.costs.loop_nest import LoopNests
from ge.runtime.library.costs.times import CoreTime, CoreTimes


class Figures(NamedTuple):
    """The estimate of a program, in microseconds: behind its start on a core, and of what crosses
    HBM, with all operands in HBM (cold) or in L2 (warm); and how long the pipes are busy."""

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
        """How the launch is cut."""
        return TilingAttr.of(self.tile, self.cores[0][1], self.buffers)

    @property
    def total_us(self) -> float:
        """Of a launch with its operands in HBM, without its launch cost."""
        return self.start_us + self.core_us(())

    def core_us(self, held: tuple[float, ...]) -> float:
        """With these parts of the operands in L2, behind the start."""
        part = self.warm_part(held)
        hbm_us = self.cold_hbm_us + (self.warm_hbm_us - self.cold_hbm_us) * part
        return max(self.time(held).core_us, hbm_us)

    def time(self, held: tuple[float, ...]) -> CoreTime:
        """With these parts of the operands in L2: between cold and warm as the bytes are."""
        core_us = self.cold_us + (self.warm_us - self.cold_us) * self.warm_part(held)
        return CoreTime(self.start_us, core_us, *self[7:11])

    def warm_part(self, held: tuple[float, ...]) -> float:
        """Of the bytes of the operands, which are the first arguments: one for each of `held`."""
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
    """Of a program whose arguments have these bytes, on the line between two: for schedules of
    programs that are bound to sizes, where nobody walks through a program. It is no time of a
    run."""
    first, last = sum(least.sizes), sum(most.sizes)
    part = (sum(sizes) - first) / (last - first) if last != first else 1.0
    pairs = zip(least[2:12], most[2:12], strict=True)
    *times, moved = [max(a + (b - a) * part, 0.0) for a, b in pairs]
    return Figures._make([most.cores, sizes, *times, int(moved), *most[12:]])


_known: WeakKeyDictionary[KernelOp, tuple[Target, Figures | None]] = WeakKeyDictionary()


def keep(op: KernelOp, target: Target, figures: Figures | None) -> None:
    """Take note of a program's figures: it may be a text that nobody has read, or have been brought
    to what cores run since."""
    _known[op] = target, figures


def keep_as(op: KernelOp, other: KernelOp) -> None:
    """The figures of a program are those of another one that it is a copy of."""
    if (known := _known.get(other)) is not None:
        _known[op] = known


def known_figures(op: KernelOp) -> Figures | None:
    """Those that somebody has asked for before."""
    return known[1] if (known := _known.get(op)) is not None else None


def figures_of(op: KernelOp, target: Target) -> Figures | None:
    """The figures of a program; None where the target lacks what they follow from."""
    known = _known.get(op)
    if known is None or known[0] is not target:
        try:
            known = target, figures(op, target)
        except GeError:
            known = target, None
        _known[op] = known
    return known[1]


def figures(op: KernelOp, target: Target) -> Figures:
    """Raises GeError where the target lacks what they follow from, or sizes are not known."""
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
    or else of what vector cores store."""
    found: list[tuple[int, ...]] = [(1,)]
    stores = op.cube is None
    for o in inner:
        if isinstance(o, MmadOp):
            found.append((*tile_type(o.acc).shape, tile_type(o.lhs).cols.data))
        elif stores and isinstance(o, StoreOp):
            found.append((prod(tile_type(o.source).shape),))
    return max(found, key=lambda tile: (len(tile), prod(tile[:2])))


def kind_of(op: KernelOp) -> str:
    """Of those that have a start of their own: see `Target.kernel_start_us`."""
    has_rows = any(isinstance(o, ReduceOp) for o in all_ops(op.body.blocks))
    if op.cube is None:
        return "row" if has_rows else "vector"
    if op.vector is None:
        return "cube"
    comes_back = any(isinstance(o, PopOp) for o in all_ops([op.cube.body.block]))
    return "attention" if has_rows and comes_back else "mixed"


def core_estimates(module: ModuleOp, target: Target) -> Mapping[str, CoreTimes]:
    """What the tile programs of a module take, by name, as far as that is known."""
    found: dict[str, CoreTimes] = {}
    for op in module.ops:
        if isinstance(op, KernelOp) and (known := figures_of(op, target)) is not None:
            found[op.sym_name.data] = core_times(known)
    return found
