"""How large the tiles of attention are: what fits into the core's memories and takes least time, by
a rough estimate of the pipes."""

from collections.abc import Iterator, Mapping
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
from ge.runtime.library.costs.cycles import row_reduction
from ge.runtime.library.costs.instructions import REPEAT_BYTES
from ge.runtime.library.costs.rates import peak_macs, share_of
from ge.runtime.library.launch import NotLowered

AHEAD = 3  # tiles of keys that the cube is ahead of what the vector cores give back
ROWS = (256, 192, 128, 96, 64, 48, 32, 16)
KEYS = (512, 384, 256, 192, 128, 96, 64, 48, 32, 16)
SPLITS = (2, 3, 4, 6, 8, 12, 16, 24)  # cores that share keys
MOST_TURNS = 4  # parts of keys that a core takes then
COPIES = ((2, 2), (2, 1), (1, 1))
LONGEST_PART = 128  # of a sum's length that is in L0A and L0B
LONG_VALUE = 256  # elements of values that are summed in parts

COLUMNS = 9  # instructions on one number a row, for a tile of keys
LAST = 0.8  # how much of a step's way through all pipes is seen at a tile's end: an assumption


@dataclass(frozen=True)
class Rates:
    """What a target takes: of the vector core cycles for 256 bytes, by instruction, and for the
    start of one; bytes a cycle that leave L0C and that come to UB."""

    target: Target
    cycles: Mapping[str, float]
    start: float
    out: float
    back: float

    @staticmethod
    @lru_cache(16)
    def of(target: Target) -> "Rates":
        """Raises NotLowered for a target that lacks a fact."""
        try:
            cycles = {name: target.vector_cycles_of(name) for name in INSTRUCTIONS}
            out = target.stated("l0c_out_rate" if target.split_cores else "l0c_to_ub_rate")
            back = target.stated("gm_to_ub_rate" if target.split_cores else "l0c_to_ub_rate")
        except GeError as e:
            raise NotLowered(f"attention takes facts of {target.name}: {e.message}") from None
        return Rates(target, cycles, target.vector_start_cycles, out, back)

    def scores(self, rows: int, keys: int, masks: int) -> float:
        """Cycles of what a vector core does to the scores of a tile of keys."""
        c, count = self.cycles, ceil(keys * 4 / REPEAT_BYTES)
        elements = rows * count * (c["scalar"] + c["sub"] + c["exp"] + c["cast"])
        elements += masks * (rows * count * (c["add"] + c["cast"] + c["scalar"]) + 3 * self.start)
        reduced = sum(
            row_reduction(kind, rows, keys * 4, True, False, self.target) for kind in ("max", "sum")
        )
        return elements + reduced + 3 * self.start + self.by_column(rows, count)

    def sums(self, rows: int, size: int) -> float:
        """Cycles of scaling sums of this size, and of adding more to them."""
        count = ceil(size * 4 / REPEAT_BYTES)
        added = rows * count * (self.cycles["mul"] + self.cycles["add"])
        return added + self.start + self.apart(rows, count)

    def apart(self, rows: int, count: int) -> float:
        """Cycles besides those of its elements that an instruction takes which meets one number a
        row: it starts for each row or each repeat, and the numbers are spread before."""
        spread = ceil(rows * BLOCK / REPEAT_BYTES) * self.cycles["copy"]
        return (min(rows, count) + 1) * self.start + spread

    def by_column(self, rows: int, count: int) -> float:
        each = ceil(rows * 4 / REPEAT_BYTES) * self.cycles["sub"]
        return COLUMNS * (self.start + each) + self.apart(rows, count)


INSTRUCTIONS = "add cast copy exp group_add max mul row_max row_sum scalar sub".split()


@dataclass(frozen=True)
class Problem:
    """What the choice depends on. Each of `items` groups of `rows` queries sees some keys, which
    `sharing` groups have in common. A vector core has multiples of `unit` rows; `whole`: values are
    not summed in parts; `step`: how many keys are met at a time, where not any number. Of each
    mask: whether it has rows, columns, and its bits."""

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
    def of(op: AttentionOp, count: int = 1, unit: int = 1, whole: bool = False) -> "Problem":
        """Rows of a tile are those of `count` heads."""
        batch, heads, queries, size = op.sizes("query")
        _, key_heads, keys, value_size = op.sizes("value")
        apart = [key_heads if op.tokens_first(name) else 1 for name in ("key", "value")]
        strides = size * apart[0], value_size * apart[1]
        masks: list[tuple[bool, bool, int]] = []
        for mask in op.masks:
            q, k = (1, 1, *shape_of(mask))[-2:]
            masks.append((q * count > 1, k > 1, bitwidth(element_type(mask))))
        return Problem(
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
        """How many tiles of keys one of queries meets, on average."""
        if not self.causal:
            return ceil(self.keys / keys)
        tiles = ceil(self.rows / rows)
        ends = (ceil(self.queries * min((i + 1) * rows / self.rows, 1)) for i in range(tiles))
        seen = (min(max(end + self.offset, 0), self.keys) for end in ends)
        return sum(ceil(n / keys) for n in seen) / tiles

    def shares(self, target: Target) -> tuple[float, float]:
        """Of the full rate, for rows of keys and of values."""
        if not target.split_cores:
            return 1.0, 1.0
        key, value = (share_of(n, self.element) for n in self.strides)
        return key, value

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
    """How many keys lie in a block; 0: they lie in order."""
    return 0 if op.table is None else op.sizes("key")[2] // numel(shape_of(op.table))


class Tiles(NamedTuple):
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
        """Whether L1 has tiles of keys and of values as a whole."""
        return self.piece == self.keys and self.value_part == self.value_size


@lru_cache(64)  # what comes before or behind attention asks for the same tiles
def tiles_for(p: Problem, target: Target) -> tuple[tuple[float, Tiles, int], ...]:
    """Those that fit, the fastest first, with the cycles that they take; each for one core, then
    for as many as share its keys where that is faster. Raises NotLowered where none fits."""
    fit = [t for t in candidates(p, target) if not overflow(p, t, target)]
    if fit:
        known = dict[tuple[int, ...], float]()

        def cycles(t: Tiles, splits: int = 1) -> float:
            key = (*t[:8], t.copies > 1, splits)  # on what else there is no estimate depends
            if (found := known.get(key)) is None:
                found = known[key] = estimate(p, t, target, splits)
            return found

        found = list[tuple[float, Tiles, int]]()
        for t in sorted(fit, key=lambda t: (cycles(t), -t.copies, -t.back, -t.sums)):
            found.append((cycles(t), t, 1))
            shared = [(cycles(t, n), t, n) for n in splits_for(p, t, target)]
            found += [f for f in shared if f[0] < cycles(t)]
        return tuple(found)
    least = min(candidates(p, target), key=lambda t: (t.rows * t.keys, t.copies, t.sums))
    memory, size = overflow(p, least, target)[0]
    text = f"{least.rows} queries and {least.keys} keys need {size} bytes of {memory}"
    raise NotLowered(f"{text}, which has {target.core_memories[memory]}")


def candidates(p: Problem, target: Target) -> Iterator[Tiles]:
    """Of the pieces of keys the largest with which the others fit into L1."""
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
                                yield Tiles(*shape, parts, own, copies, back, sums)


def sizes(known: tuple[int, ...], whole: int, unit: int) -> list[int]:
    """Those below the whole, and the whole itself where it is not larger than all of them: in
    multiples of a unit."""
    found = sorted({max(n // unit, 1) * unit for n in known if n < whole}, reverse=True)
    return [n for n in found if n < whole] + [whole] * (whole <= max(known[0], unit))


def value_parts(p: Problem) -> list[int]:
    """How many elements of values are summed at a time."""
    size, found = p.aligned[1], [p.aligned[1]]
    while found[-1] >= LONG_VALUE and found[-1] % (2 * p.grain) == 0 and size == p.value_size:
        if p.whole:
            break
        found.append(found[-1] // 2)
    return found


def largest(whole: int, most: int, grain: int) -> int:
    """The largest part that the whole is a multiple of, up to a size."""
    fits = (n for n in range(grain, whole + 1, grain) if whole % n == 0 and n <= most)
    return max(fits, default=grain)


def part(length: int, rows: int, cols: int, p: Problem, target: Target) -> int:
    """The longest part of a sum of which half of L0A and half of L0B hold two: the other halves are
    for the other product."""
    l0a, l0b = (target.core_memories[memory] // (4 * p.width) for memory in ("l0a", "l0b"))
    rows += rows // 2 * p.is_integer  # there is a constant tile, too
    return largest(length, min(l0a // rows, l0b // cols, LONGEST_PART), p.grain)


def overflow(p: Problem, t: Tiles, target: Target) -> list[tuple[str, int]]:
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


def splits_for(p: Problem, t: Tiles, target: Target) -> Iterator[int]:
    """How many cores may share the keys of a tile of queries: each has some tiles of them."""
    items, steps = p.items * ceil(p.rows / t.rows), ceil(p.keys / t.keys)
    yield from (n for n in SPLITS if n <= steps and items * n <= MOST_TURNS * target.cube_cores)


def merging(p: Problem, t: Tiles, splits: int, target: Target) -> float:
    """Cycles of a barrier, and of adding what several cores have of a tile of queries."""
    H, D, r, start = t.rows // t.parts, t.value_size, Rates.of(target), target.mte2_start_cycles
    items = ceil(p.items * ceil(p.rows / t.rows) / target.cube_cores)
    stored = H * D * 4 / r.out + 2 * start
    each = 6 * r.start + 3 * start + H * D * 4 / r.back + 2 * r.sums(H, D)
    return 2 * target.cross_flag_cycles + stored + items * (splits * each + stored)


def estimate(p: Problem, t: Tiles, target: Target, splits: int = 1) -> float:
    """Cycles of the busiest core: those of its busiest pipe, and the way of a tile's last keys.
    `splits`: how many cores share the keys. Raises NotLowered for a target that lacks a fact."""
    M, N, H, D, width = t.rows, t.keys, t.rows // t.parts, t.value_size, p.width
    counts, tiles, r = N // t.piece, ceil(p.rows / M), Rates.of(target)
    start = target.mte2_start_cycles
    more = D // t.value_part - 1
    vector = r.scores(H, N, len(p.masks)) + (1 + more) * r.sums(H, t.value_part)
    out = M * (N + D) * 4 / r.out
    back = H * (N + D) * 4 / r.back + (2 + more) * start
    hbm = target.hbm_rate * target.hbm_efficiency * target.hbm_read_efficiency * p.sharing * tiles
    of_key, of_value = (min(target.l2_read_rate * share, hbm) for share in p.shares(target))
    load = N * width * (t.size / of_key + D / of_value) + counts * (2 + more) * start
    load += M * N * width / target.l2_read_rate + start
    moves = counts * feed(t.size, t.size_part, M, t.piece, width, target)
    moves += counts * (1 + more) * feed(t.piece, t.key_part, M, t.value_part, width, target)
    macs = M * N * (t.size + D * (3 if p.is_integer else 1)) / peak_macs(p.element, target)
    passed = [out, back, load, moves, macs]
    step = max(vector, *passed) if t.copies > 1 else max(vector + out, *passed)
    # what the cube waits for meanwhile: scores there, weights back
    cross = target.cross_flag_cycles
    there = M * N * (4 / r.out + width / target.l2_read_rate) + H * N * 4 / r.back + 2 * cross
    step = max(step, (there + r.scores(H, N, len(p.masks))) / AHEAD)
    items = ceil(p.items * tiles * splits / target.cube_cores)
    steps = p.steps(M, N)
    steps = ceil(steps / splits) if splits > 1 else steps
    # values are loaded before the weights are there, if all of a tile are
    ahead = t.is_simple * 2 * N * D * width / of_value
    last = LAST * (vector + out + back + moves + macs) + 3 * cross - ahead
    merged = merging(p, t, splits, target) if splits > 1 else 0
    return items * (steps * step + r.sums(H, D) * 2 + max(last, 0)) + merged


def feed(length: int, part: int, rows: int, cols: int, width: int, target: Target) -> float:
    """Cycles of bringing the operands of a product to L0A and L0B."""
    bytes_cycles = rows / target.l1_to_l0a_rate + cols / target.l1_to_l0b_rate
    return length // part * (2 * target.mte1_start_cycles + part * width * bytes_cycles)
