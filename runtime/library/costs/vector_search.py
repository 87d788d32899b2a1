"""The search for the fastest tiling of a vector kernel.

Where the target states cycles of instructions, the time of a tiling grows with the size of its
tiles, the rounds of tiles and, above the cube cores, which saturate HBM, the blocks that share it
(`VectorShape.pipes` counts whole rounds). So of the tilings with so many blocks and rounds the
smallest tile is the fastest, and longer kernels of a kind take no less time if the search tries
numbers of blocks, numbers of rounds and sizes of tiles that do not depend on the length:

- all numbers of blocks from the cube cores up; where a block has more units than there are blocks,
  so that no block is left without work, a few of them;
- all numbers of rounds up to `MOST_ROUNDS`, with tiles as small as they allow, or as rows need to
  be loaded ahead of the work on the tile before;
- beyond that the sizes of `TILE_SIZES`.

Most of these are not looked at closely: `Bound` says that they cannot be the fastest. Tiles are
whole rows, or repeats of the vector unit; longer rows take no less time as long as they stay on the
core. Where pieces lie apart in memory, larger tiles may have longer ones, and none of this is sure.

Other targets: a few tilings, none with less than a full-rate transfer of a tile if not all of a
block is less. There twice the elements may take less time.
"""

from bisect import bisect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, lcm

from ge.dialects.npu_task.attributes import TilingAttr
from ge.dialects.tile.types import FRACTAL
from ge.runtime.library.costs.cube import round_up
from ge.runtime.library.costs.pipes import hbm_bytes_per_us, store_us
from ge.runtime.library.costs.vector import VectorShape

MOST_ROUNDS = 16
STEPS = 4  # numbers of blocks that are tried where these are few, but for the most
ROUNDED = 1 + 1e-12  # bounds may be above what they bound by this, from rounding

TILE_SIZES = sorted({(4 + i) * 2**e // 4 for e in range(24) for i in range(4)})
"""In units; neighbours are at most a quarter apart."""


@lru_cache(maxsize=8192)
def vector_tiling(shape: VectorShape) -> TilingAttr:
    """The fastest tiling of those that are tried; the first of those that tie."""
    few = shape.program is None
    tile, blocks = fastest_of(shape, a_few(shape)) if few else fastest(shape)
    return TilingAttr.of((tile,), blocks, 2 if tile * blocks < shape.elements else 1)


def total_us(shape: VectorShape, tile: int, blocks: int) -> float:
    """Of a tiling that has two buffers if a block has several tiles."""
    double_buffered = tile * blocks < shape.elements
    return shape.pipes(tile, blocks, double_buffered).time(shape.target).total_us


# ---- where the target states instructions ----------------------------------------------------


def fastest(shape: VectorShape) -> tuple[int, int]:
    """Elements of a tile, and blocks."""
    unit = shape.unit
    units = ceil(shape.elements / unit)
    best, found = float("inf"), (1, 1)
    for share in dict.fromkeys(ceil(units / n) for n in numbers_of_blocks(shape, units)):
        blocks = ceil(units / share)
        bound = Bound.of(shape, blocks)
        for size in tile_sizes(shape, share, units):
            tile, rounds = min(size * unit, shape.elements), ceil(share / size)
            if bound.transfers_us(rounds) > ROUNDED * best:
                break  # smaller tiles have more rounds
            if bound.us(tile, rounds) > ROUNDED * best:
                continue
            if (us := total_us(shape, tile, blocks)) < best:
                best, found = us, (tile, blocks)
    return found


def numbers_of_blocks(shape: VectorShape, units: int) -> Iterable[int]:
    t = shape.target
    most = 1 if shape.alone else min(t.vector_cores, shape.parts or t.vector_cores)
    least = min(t.cube_cores, most)
    step = 1 if units < most * most else max((most - least) // STEPS, 1)
    return (most, *range(least, most, step))


def tile_sizes(shape: VectorShape, share: int, units: int) -> list[int]:
    """Units of a tile, of a block that has so many: descending, none that does not fit."""
    program, most = shape.program, max(shape.most // shape.unit, 1)
    assert program is not None
    most = min(share, units if shape.most == shape.elements else most)
    sizes = {ceil(share / rounds) for rounds in range(1, MOST_ROUNDS + 1)}
    sizes.add(program.rows_ahead)
    sizes.update(TILE_SIZES[: bisect(TILE_SIZES, most)])
    return sorted((size for size in sizes if size <= most), reverse=True)


@dataclass(frozen=True, slots=True)
class Bound:
    """What tilings with so many blocks take at least, by a part of what `VectorShape.pipes` counts:
    the work of the vector unit, and bytes at the rates that the blocks share."""

    shape: VectorShape
    start_us: float
    lane_us: float  # for each element of a block
    load_us: float
    store_us: float  # for each, and of a transfer at the full rate:
    least_load_us: float
    least_store_us: float

    @classmethod
    def of(cls, shape: VectorShape, blocks: int) -> "Bound":
        t, work = shape.target, shape.work
        lanes = sum(operations for operations, _ in shape.operations) / t.vector_lanes
        read_us = blocks / (hbm_bytes_per_us(blocks, t) * t.hbm_read_efficiency)
        full = t.full_rate_bytes
        least_store = store_us(full * blocks, blocks, t)
        return cls(
            shape,
            t.kernel_start_us.get(shape.kind, 0.0),
            lanes / shape.elements / t.cycles_per_us,
            (work.read - shape.whole) / shape.elements * read_us,
            work.written / shape.elements * least_store / full,
            full * read_us if work.read else 0.0,
            least_store if work.written else 0.0,
        )

    def transfers_us(self, rounds: int) -> float:
        """With so many rounds or more, whatever the tiles are."""
        ends = self.least_load_us + self.least_store_us
        longest = max(self.least_load_us, self.least_store_us) if rounds > 1 else 0.0
        return self.start_us + rounds * longest + ends

    def us(self, tile: int, rounds: int) -> float:
        t, program = self.shape.target, self.shape.program
        assert program is not None
        starts = rounds * program.tile_starts(tile) * t.vector_start_cycles / t.cycles_per_us
        vector = min(rounds * tile, self.shape.elements) * self.lane_us + starts
        load = max(tile * self.load_us, self.least_load_us)
        store = max(tile * self.store_us, self.least_store_us)
        if rounds == 1:
            return self.start_us + vector + load + store
        serial = vector + rounds * load if program.row_by_row(tile) else vector
        return self.start_us + max(serial, rounds * load, rounds * store) + load + store


# ---- others ----------------------------------------------------------------------------------


def fastest_of(shape: VectorShape, tilings: Iterable[tuple[int, int]]) -> tuple[int, int]:
    best, found = float("inf"), (1, 1)
    for tile, blocks in tilings:
        us = total_us(shape, tile, blocks)
        if us < best * (1 - 1e-9):
            best, found = us, (tile, blocks)
    return found


def a_few(shape: VectorShape) -> Iterator[tuple[int, int]]:
    """Tiles that fit into UB twice, and blocks: none without a tile or with less than a full-rate
    transfer, and no smaller tile unless it is all of a block."""
    t, run = shape.target, shape.run
    unit = run if shape.row > 1 else lcm(FRACTAL, run)
    least = max(t.full_rate_bytes // shape.width, 1)
    most = max(shape.most // unit * unit, run)
    usable = max(1, min(t.vector_cores, ceil(shape.elements / max(least, run))))
    usable = 1 if shape.alone else min(usable, shape.parts or usable)
    for blocks in dict.fromkeys((usable, min(usable, t.cube_cores), max(usable // 2, 1))):
        share = ceil(shape.elements / run / blocks) * run
        parts = (max(ceil(share / n), least) for n in (4, 1, 2, 8, 16, 32))
        for tile in dict.fromkeys(min(most, round_up(size, unit), share) for size in parts):
            yield tile, min(blocks, ceil(shape.elements / tile))
