"""Choice of the sizes of attention's tiles: those that fit into the core's memories and take least
time, by a rough estimate of the pipes."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import ceil, lcm
from typing import NamedTuple

from xdsl.dialects.builtin import f32, i8
from xdsl.ir import Attribute

from ge.dialects.graph.attention import KEYS as ROUNDED_KEYS
from ge.dialects.graph.attention import AttentionOp
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.errors import GeError
from ge.dialects.support.types import Shape, align_up, element_type, numel, shape_of
from ge.dialects.targets.target import Target
from ge.dialects.tile.types import BLOCK, FRACTAL
from ge.runtime.library.costs.paces import Core
from ge.runtime.library.launch import NotLowered

AHEAD = 3  # tiles of keys that the cube is ahead of what the vector cores give back
ITEMS = 3  # of few tiles of keys, that are on their way: scores of the last, values of the first
ROWS = (256, 192, 128, 96, 64, 48, 32, 16)
KEYS = (512, 384, 256, 192, 128, 96, 64, 48, 32, 16)
SPLITS = (2, 3, 4, 6, 8, 12, 16, 24)  # cores that share keys
MOST_TURNS = 4  # parts of keys that a core takes then
COPIES = ((2, 2), (2, 1), (1, 1))
LONGEST_PART = 128  # of a sum's length that is in L0A and L0B
LONG_VALUE = 256  # elements of values that are summed in parts

ONE_A_ROW = "scalar max sub exp copy mul add"  # on one number a row, for a tile of keys
# How much of a step's way through all pipes is seen at a tile's end: an assumption, since what the
# next tile of queries begins meanwhile depends on which buffers are free then.
LAST = 0.8


@dataclass(frozen=True)
class AttentionProblem:
    """Facts that the choice depends on. Each of `items` groups of `rows` queries sees some keys,
    which `sharing` groups have in common. A vector core has multiples of `unit` rows; `whole`:
    values are not summed in parts; `step`: how many keys are met at a time, where not any number.
    Of each mask: whether it has rows, columns, and its bits."""

    items: int
    rows: int
    keys: int
    size: int
    value_size: int
    element: Attribute
    masks: tuple[tuple[bool, bool, int], ...]
    sharing: int = 1
    causal: bool = False
    unit: int = 1
    whole: bool = False
    step: int = 0
    strides: tuple[int, int] = (0, 0)  # elements from a key to the next, and from a value
    queries: int = 0  # of a head
    offset: int = 0  # of the first query among the keys

    @staticmethod
    def of(
        op: AttentionOp, count: int = 1, unit: int = 1, whole: bool = False
    ) -> "AttentionProblem":
        """Rows of a tile are those of `count` heads."""
        batch, heads, queries, size = op.sizes("query")
        _, key_heads, keys, value_size = op.sizes("value")
        apart = [key_heads if op.tokens_first(name) else 1 for name in ("key", "value")]
        strides = size * apart[0], value_size * apart[1]
        masks: list[tuple[bool, bool, int]] = []
        for mask in op.masks:
            q, k = (1, 1, *shape_of(mask))[-2:]
            masks.append((q * count > 1, k > 1, bitwidth(element_type(mask))))
        return AttentionProblem(
            batch * heads // count,
            queries * count,
            keys,
            size,
            value_size,
            element_type(op.query),
            tuple(masks),
            heads // count // key_heads,
            bool(op.causal.value.data),
            unit,
            whole,
            ROUNDED_KEYS if op.rounded_weights.value.data or op.grid("weight") else block_of(op),
            strides,
            queries,
            (op.ints("offset") or (0,))[0],
        )

    @lru_cache(1024)
    def steps(self, rows: int, keys: int) -> float:
        """Average number of tiles of keys that one tile of queries meets."""
        if not self.causal:
            return ceil(self.keys / keys)
        tiles = ceil(self.rows / rows)
        ends = (ceil(self.queries * min((i + 1) * rows / self.rows, 1)) for i in range(tiles))
        seen = (min(max(end + self.offset, 0), self.keys) for end in ends)
        return sum(ceil(n / keys) for n in seen) / tiles

    @cached_property
    def width(self) -> int:
        return bitwidth(self.element) // 8

    @property
    def is_integer(self) -> bool:
        return self.element == i8

    @property
    def grain(self) -> int:
        """Keys and elements of tiles are multiples of it: rows of a fractal have 32 bytes."""
        return max(FRACTAL, BLOCK // self.width)

    @property
    def aligned(self) -> Shape:
        """Elements of a query and of a value in tiles."""
        return tuple(align_up(max(n, 1), self.grain) for n in (self.size, self.value_size))


def block_of(op: AttentionOp) -> int:
    """Number of keys in a block; 0: they lie in order."""
    return 0 if op.table is None else op.sizes("key")[2] // numel(shape_of(op.table))


class AttentionTiles(NamedTuple):
    """A tile of queries has `rows`, and meets `keys` at a time, of which L1 has `piece` at a time;
    `size` and `value_size` are those of its and of values' elements, and `value_part` elements
    are summed at a time. The cube has `size_part` elements or `key_part` keys in L0A and L0B at a
    time, `own` tiles of queries in L1, and `sums` of both products in L0C. `parts` vector cores
    share the rows; each has `copies` of scores and weights, and `back` of what comes back."""

    rows: int
    keys: int
    piece: int
    size: int
    value_size: int
    value_part: int
    size_part: int
    key_part: int
    parts: int
    own: int
    copies: int
    back: int
    sums: int

    @property
    def is_simple(self) -> bool:
        """True if L1 has tiles of keys and of values as a whole."""
        return self.piece == self.keys and self.value_part == self.value_size


@lru_cache(64)  # what comes before or behind attention asks for the same tiles
def tiles_for(p: AttentionProblem, target: Target) -> tuple[tuple[float, AttentionTiles, int], ...]:
    """The tiles that fit, the fastest first, with the cycles that they take; each for one core,
    then for as many as share its keys if that is faster. Raises NotLowered if none fits."""
    fit = [t for t in candidates(p, target) if not overflow(p, t, target)]
    if fit:
        known = dict[tuple[int, ...], float]()

        def cycles(t: AttentionTiles, splits: int = 1) -> float:
            key = (*t[:8], t.copies > 1, splits)  # on what else there is no estimate depends
            if (found := known.get(key)) is None:
                found = known[key] = estimate(p, t, target, splits)
            return found

        found = list[tuple[float, AttentionTiles, int]]()
        for t in sorted(fit, key=lambda t: (cycles(t), -t.copies, -t.back, -t.sums)):
            found.append((cycles(t), t, 1))
            shared = [(cycles(t, n), t, n) for n in splits_for(p, t, target)]
            found += [f for f in shared if f[0] < cycles(t)]
        return tuple(found)
    least = min(candidates(p, target), key=lambda t: (t.rows * t.keys, t.copies, t.sums))
    memory, size = overflow(p, least, target)[0]
    text = f"{least.rows} queries and {least.keys} keys need {size} bytes of {memory}"
    raise NotLowered(f"{text}, which has {target.core_memories[memory]}")


def candidates(p: AttentionProblem, target: Target) -> Iterator[AttentionTiles]:
    """Candidates of tiles: of the pieces of keys the largest with which the others fit into L1."""
    parts = target.vector_parts
    unit = max([p.grain, *(BLOCK * 8 // bits for _, _, bits in p.masks)])
    row_unit = lcm(FRACTAL, parts * p.unit)
    queries, keys = align_up(p.rows, row_unit), align_up(p.keys, unit)
    (size, value_size), room = p.aligned, target.core_memories
    for rows in sizes(ROWS, queries, row_unit):
        for some in [min(p.step, keys)] if p.step else sizes(KEYS, keys, unit):
            for value_part in value_parts(p):
                for own in (2, 1):
                    left = room["l1"] // (2 * p.width) - rows * (own * size // 2 + some)
                    piece = largest(some, left // (size + value_part), p.grain)
                    size_part = part(size, rows, piece, p, target)
                    key_part = part(piece, rows, value_part, p, target)
                    shape = rows, some, piece, size, value_size, value_part, size_part, key_part
                    for sums in (2, 1):
                        if sums * 4 * rows * (some + value_part) <= room["l0c"] or rows == FRACTAL:
                            for copies, back in COPIES:
                                yield AttentionTiles(*shape, parts, own, copies, back, sums)


def sizes(known: tuple[int, ...], whole: int, unit: int) -> list[int]:
    """The sizes below the whole, and the whole itself unless it is larger than all of them, in
    multiples of a unit."""
    found = sorted({max(n // unit, 1) * unit for n in known if n < whole}, reverse=True)
    return [n for n in found if n < whole] + [whole] * (whole <= max(known[0], unit))


def value_parts(p: AttentionProblem) -> list[int]:
    """Possible numbers of elements of values that are summed at a time."""
    size, found = p.aligned[1], [p.aligned[1]]
    while found[-1] >= LONG_VALUE and found[-1] % (2 * p.grain) == 0 and size == p.value_size:
        if p.whole:
            break
        found.append(found[-1] // 2)
    return found


@lru_cache(4096)
def largest(whole: int, most: int, grain: int) -> int:
    """The largest part that the whole is a multiple of, up to a size."""
    fits = (n for n in range(grain, whole + 1, grain) if whole % n == 0 and n <= most)
    return max(fits, default=grain)


def part(length: int, rows: int, cols: int, p: AttentionProblem, target: Target) -> int:
    """The longest part of a sum of which half of L0A and half of L0B hold two: the other halves are
    for the other product."""
    l0a, l0b = (target.core_memories[memory] // (4 * p.width) for memory in ("l0a", "l0b"))
    rows += rows // 2 * p.is_integer  # there is a constant tile, too
    return largest(length, min(l0a // rows, l0b // cols, LONGEST_PART), p.grain)


def overflow(p: AttentionProblem, t: AttentionTiles, target: Target) -> list[tuple[str, int]]:
    """The memories that are too small, and how much would be needed."""
    M, N, n, E, D, width = t.rows, t.keys, t.piece, t.size, t.value_part, p.width
    H, narrow, integer = M // t.parts, p.element != f32, p.is_integer
    ub = t.copies * H * N * (4 + width * narrow) + H * 4 * (t.value_size + N * integer)
    ub += H * D * (4 * t.back + width * (narrow and not integer))
    for has_rows, has_columns, bits in p.masks:
        shape = (H if has_rows else 1) * (N if has_columns else 1)
        ub += 2 * max(32, shape * max(8, bits) // 8)
    needed = {
        "ub": ub + 16 * max(32, 4 * H) + 4 * 4 * N,  # columns of one number a row, rows of indices
        "l1": width * (t.own * M * E + 2 * (n * E + n * D + M * N) + M * t.key_part * integer),
        "l0a": width * M * (2 * t.size_part + (2 + integer) * t.key_part),
        "l0b": 2 * width * (t.size_part * n + t.key_part * D),
        "l0c": t.sums * 4 * M * (N + D),
    }
    room = target.core_memories
    return [(m, size) for m, size in needed.items() if size > room[m]]


def splits_for(p: AttentionProblem, t: AttentionTiles, target: Target) -> Iterator[int]:
    """Possible numbers of cores that share the keys of a tile of queries: each has some tiles of
    them."""
    items, steps = p.items * ceil(p.rows / t.rows), ceil(p.keys / t.keys)
    yield from (n for n in SPLITS if n <= steps and items * n <= MOST_TURNS * target.cube_cores)


@lru_cache(4096)
def scored(rows: int, keys: int, masks: int, core: Core) -> float:
    """Cycles of the work of a vector core on the scores of a tile of keys."""
    size = keys * 4
    cycles = core.vector(ONE_A_ROW, 1, rows * 4)
    cycles += core.vector("scalar exp cast", rows, size) + core.by_column("sub", rows, size)
    cycles += masks * core.vector("add cast scalar", rows, size)
    return cycles + sum(core.reduced(kind, rows, size) for kind in ("max", "sum"))


@lru_cache(4096)
def summed(rows: int, size: int, core: Core) -> float:
    """Cycles of scaling sums of this size, and of adding more to them."""
    return core.by_column("mul", rows, size * 4) + core.vector("add", rows, size * 4)


def merging(p: AttentionProblem, t: AttentionTiles, splits: int, core: Core) -> float:
    """Cycles of a barrier, and of adding the sums that several cores have of a tile of queries."""
    H, D = t.rows // t.parts, t.value_size
    items = ceil(p.items * ceil(p.rows / t.rows) / core.target.cube_cores)
    stored = core.store(1, H * D * 4, 3)
    each = core.ub(1, H * D * 4, 3) + 2 * summed(H, D, core)
    each += core.vector("max sub exp sub exp add", 1, H * 4)
    return core.barrier + stored + items * (splits * each + stored)


def estimate(p: AttentionProblem, t: AttentionTiles, target: Target, splits: int = 1) -> float:
    """Cycles of the busiest core. `splits`: how many cores share the keys. Raises NotLowered for a
    target that lacks a fact."""
    try:
        return cycles_of(p, t, Core.of(target), splits)
    except GeError as e:
        raise NotLowered(f"attention takes facts of {target.name}: {e.message}") from None


def cycles_of(p: AttentionProblem, t: AttentionTiles, core: Core, splits: int) -> float:
    M, N, H, D = t.rows, t.keys, t.rows // t.parts, t.value_size
    width, target = p.width, core.target
    pieces, more, tiles = N // t.piece, D // t.value_part, ceil(p.rows / M)
    users, (key_stride, value_stride) = p.sharing * tiles, p.strides
    # a step: a tile of keys
    scores = scored(H, N, len(p.masks), core)
    vector = scores + more * summed(H, t.value_part, core)
    out = core.out(M * (N + D) * 4)
    back = H * (N + D) * 4 / core.back_rate + (1 + more) * target.mte2_start_cycles
    load = core.load_rows(t.piece, t.size * width, key_stride, p.element, users)
    values = core.load_rows(t.piece, t.value_part * width, value_stride, p.element, users)
    load = pieces * (load + more * values) + core.load(M * N * width)
    keyed, valued = pieces * t.size // t.size_part, pieces * more * t.piece // t.key_part
    moves = keyed * core.feed(M * t.size_part * width, t.piece * t.size_part * width)
    moves += valued * core.feed(M * t.key_part * width, t.value_part * t.key_part * width)
    macs = keyed * core.mmad(M, t.piece, t.size_part, p.element)
    macs += valued * core.mmad(M, t.value_part, t.key_part, p.element) * (3 if p.is_integer else 1)
    vector += out if t.copies == 1 else 0.0  # it waits for what leaves L0C
    pipes, way = (vector, out, back, moves, macs), vector + out + back + moves + macs
    # what the cube waits for meanwhile: scores there, weights back
    cross = target.cross_flag_cycles
    there = core.out(M * N * 4) + core.load(M * N * width) + H * N * 4 / core.back_rate
    step = max(*pipes, load, (there + 2 * cross + scores) / AHEAD)
    # values are loaded before the weights are there, if all of a tile are
    ahead = t.is_simple * 2 * pieces * values
    items, steps = ceil(p.items * tiles * splits / target.cube_cores), p.steps(M, N)
    steps = ceil(steps / splits) if splits > 1 else steps
    last = max(LAST * way + 3 * cross - ahead, 0)
    merged = merging(p, t, splits, core) if splits > 1 else 0
    return items * (steps * step + 2 * summed(H, D, core) + last) + merged
