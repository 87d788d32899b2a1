"""How matmuls are cut into blocks of the result, and blocks into steps.

A core takes a block of m x n sums at a time. Its operands come to L1 `k` deep at a time, and from
there to L0A and L0B `part` deep. There are two of each buffer: the next ones come while the cube
works. With two `sums` in L0C the next block begins while one is taken out.

Of the cuts that fit the fastest is taken, by an estimate from the target's facts: the busiest pipe
sets the pace of a block; the first load and the last store stand alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import ceil

from xdsl.ir import Attribute

from ge.dialects.npu_task.core_plan import FRACTAL
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.types import align_up
from ge.dialects.targets.target import Target
from ge.dialects.tile.types import BLOCK
from ge.runtime.costs.cube import peak_macs
from ge.runtime.costs.split_cores import share_of

SUM_BYTES = 4  # of f32 and of i32
SIZES = tuple(FRACTAL * i for i in (32, 24, 20, 16, 12, 11, 10, 8, 6, 5, 4, 3, 2, 1))


@dataclass(frozen=True)
class Matrices:
    """`batch` pairs of matrices, m x k by k x n; of lhs and rhs: how many there are, and the
    elements from one of their rows in memory to the next."""

    batch: int
    m: int
    n: int
    k: int
    element: Attribute
    result: Attribute
    batches: tuple[int, int]
    strides: tuple[int, int]


@dataclass(frozen=True)
class Cut:
    m: int
    n: int
    k: int
    part: int
    sums: int

    def counts(self, p: Matrices) -> tuple[int, int]:
        """Blocks along m, and along n."""
        return ceil(p.m / self.m), ceil(p.n / self.n)

    def blocks(self, p: Matrices) -> int:
        down, across = self.counts(p)
        return p.batch * down * across


@lru_cache(1024)
def best_cut(p: Matrices, target: Target) -> Cut | None:
    """The fastest cut; None: there is none that fits."""
    return min(cuts(p, target), key=lambda cut: cycles(cut, p, target), default=None)


def cuts(p: Matrices, target: Target) -> Iterator[Cut]:
    """Those that fit on a core."""
    bits, room = bitwidth(p.element), target.core_memories
    inner = BLOCK * 8 // bits  # a fractal is 16 x 32 bytes: columns of either operand may be inner
    unit = max(FRACTAL, inner)
    for m in extents(p.m, unit):
        for n in extents(p.n, unit):
            sums = room["l0c"] // (m * n * SUM_BYTES)
            part = min(room["l0a"] // m, room["l0b"] // n) * 8 // (2 * bits) // unit * unit
            if not sums or not part:
                continue
            # an even number of parts, so that the two tiles of L0 take turns over steps as well
            parts, most = 2, room["l1"] * 8 // (2 * (m + n) * part * bits)
            while parts <= most:
                steps = ceil(p.k / (parts * part))
                even = align_up(ceil(p.k / (parts * steps)), unit)
                yield Cut(m, n, parts * even, even, min(sums, 2))
                if steps == 1:
                    break
                parts *= 2


def extents(size: int, unit: int) -> list[int]:
    """Sizes of blocks that cut an extent evenly."""
    even = (ceil(size / ceil(size / most)) for most in SIZES)
    return list(dict.fromkeys(align_up(s, unit) for s in even))


def cycles(cut: Cut, p: Matrices, target: Target) -> float:
    """Of the busiest core."""
    bits, cores = bitwidth(p.element), target.cube_cores
    blocks, counts = cut.blocks(p), cut.counts(p)
    steps = ceil(p.k / cut.k)
    depth = p.k / steps  # of a step, on average
    sizes = min(cut.m, p.m) * depth * bits / 8, min(cut.n, p.n) * depth * bits / 8
    hbm = target.hbm_rate * target.hbm_efficiency * target.hbm_read_efficiency
    load = 2 * target.mte2_start_cycles
    for size, across, batch, stride in zip(sizes, counts[::-1], p.batches, p.strides, strict=True):
        rate = target.l2_read_rate
        rate *= share_of(stride, p.element) if target.split_cores else 1
        load += size / min(rate, hbm * across * p.batch / batch)
    parts = cut.k // cut.part
    feed = cut.m / target.l1_to_l0a_rate + cut.n / target.l1_to_l0b_rate
    moves = parts * 2 * target.mte1_start_cycles + cut.k * bits / 8 * feed
    macs = parts * target.mmad_start_cycles + cut.m * cut.n * cut.k / peak_macs(p.element, target)
    size = min(cut.m, p.m) * min(cut.n, p.n) * bitwidth(p.result) / 8
    out = size / (target.l0c_out_rate or target.l0c_to_ub_rate)
    cube = steps * macs + (out if cut.sums == 1 else 0)
    pace = max(steps * load, steps * moves, cube, out)
    return ceil(blocks / cores) * pace + load + macs / parts + out
