"""Cuts of matmuls into blocks of the result, and of blocks into steps.

A core takes a block of m x n sums at a time. Its operands come to L1 `k` deep at a time, and from
there to L0A and L0B `part` deep. There are two of each buffer: the next ones come while the cube
works. With two `sums` in L0C the next block begins while one is taken out. Where L1 has room for
all of a block's left-hand side, a core may take a `run` of blocks side by side, which share it.

Of the cuts that fit the fastest is taken, by the times of the pipes.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import ceil, gcd, inf, lcm, nextafter, prod
from typing import TypeAlias

from xdsl.ir import Attribute

from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.types import align_up
from ge.dialects.targets.target import Target
from ge.dialects.tile.types import BLOCK, FRACTAL
from ge.runtime.library.costs.cycles import REPEAT_BYTES, peak_macs
from ge.runtime.library.costs.paces import Applied, Core, paced

SUM_BYTES = 4  # of f32 and of i32
Units: TypeAlias = tuple[int, int, int]  # of m, n and k
TINY = 1e-9  # of a bound: the sums that it bounds are rounded
TABLES = 2  # rows of numbers for each column: bias and scales
SIZES = tuple(FRACTAL * i for i in (32, 24, 20, 16, 12, 11, 10, 8, 6, 5, 4, 3, 2, 1))
LONGEST = 2048  # elements of rows that vector cores compute
MOST_COMPUTED = 16384  # elements of operands that one of them computes at a time
WIDE = tuple(FRACTAL * i for i in (64, 48, 40))  # where each row takes a start of the vector cores


@dataclass(frozen=True)
class Computing:
    """Cost of an element that the vector cores compute: instructions, their cycles, and bytes that
    are loaded. `by_terms`: rows of their tiles are terms of products; `blocks`: rows and columns
    that have one row or column of scales; 0: all."""

    instructions: int
    cycles: float
    bytes: float
    by_terms: bool
    blocks: tuple[int, int]

    def tile(self, rows: int, cols: int, target: Target) -> float:
        """Cycles of a tile of it. Each instruction starts; one that meets a number a row does for
        each row, or each repeat."""
        wide = self.blocks[1]
        several = ceil(cols / wide) if 0 < wide < cols else 0
        count = self.instructions + (several > 0)  # scales are spread, block by block
        starts = count + 2 * several + min(rows, ceil(cols * SUM_BYTES / REPEAT_BYTES))
        return starts * target.vector_start_cycles + rows * cols * self.cycles


@dataclass(frozen=True)
class Matrices:
    """`batch` pairs of matrices, m x k by k x n; of lhs and rhs: how many there are, and the
    elements from one of their rows in memory to the next. `terms`: how many right-hand sides of
    these sizes one block of the left-hand side meets. Blocks have multiples of `units` of m, n and
    k; `after`: what vector cores apply to sums that pass to them, None where none does;
    `computing`: operands that they compute; `by_tables`: sums leave by scales in FB, and may begin
    with what is in BT;
    `splits`: how many cores share the terms of a block's sums, with `last_wave` of those blocks
    that are left where all cores have had as many; `may_run`: blocks may share a left-hand side."""

    batch: int
    m: int
    n: int
    k: int
    element: Attribute
    result: Attribute
    batches: tuple[int, int]
    strides: tuple[int, int]
    terms: int = 1
    units: Units = (1, 1, 1)
    after: Applied | None = None
    computing: tuple[Computing | None, Computing | None] = (None, None)
    splits: int = 1
    last_wave: bool = False
    by_tables: bool = False
    may_run: bool = False

    @cached_property
    def bits(self) -> int:
        return bitwidth(self.element)

    @cached_property
    def result_bits(self) -> int:
        return bitwidth(self.result)


@dataclass(frozen=True)
class MatmulCut:
    """Blocks of m x n of the result. L1 takes steps of k of their operands, L0 parts of these; L0C
    holds `sums` blocks. Cores take `run` blocks of a row of them at a time."""

    m: int
    n: int
    k: int
    part: int
    sums: int
    run: int = 1

    def counts(self, p: Matrices) -> tuple[int, int]:
        """Blocks along m, and along n."""
        return -(-p.m // self.m), -(-p.n // self.n)

    def blocks(self, p: Matrices) -> int:
        return self.places(p) * (1 if p.last_wave else p.splits)

    def places(self, p: Matrices) -> int:
        """Blocks, however many cores share one."""
        down, across = self.counts(p)
        return p.batch * down * across

    def depth(self, p: Matrices) -> int:
        """Terms of products in all steps."""
        return ceil(p.k / self.k) * self.k

    def waves(self, p: Matrices, cores: int) -> tuple[int, int]:
        """Waves in which each core has a block, and the blocks that are left."""
        return divmod(self.places(p), cores)


GROUPS = (96, 64, 48, 32, 24, 16, 12, 8, 6, 4, 3, 2, 1)  # columns of blocks, walked down together
SPLITS = (2, 3, 4, 6, 8, 12, 16, 24)  # cores that share the terms of a block's sums


@lru_cache(1024)
def best_shared_wave(p: Matrices, target: Target, most: float) -> tuple[MatmulCut, int] | None:
    """The fastest cut whose last wave is shared, and by how many cores each of its blocks; None:
    none takes less than so many cycles."""
    core, cores, found = Core.of(target), target.cube_cores, None
    shared = {splits: replace(p, splits=splits) for splits in SPLITS}

    def is_slow(m: int, n: int) -> bool:
        cut = MatmulCut(m, n, 1, 1, 1)
        return cut.places(p) // cores * least_pace(cut, p, target) * (1 - TINY) >= most

    sizes = (s for s in block_sizes(p, p.units, target) if not is_slow(*s))
    for cut in (cut for s in sizes for cut in cuts(p, *s, p.units, target)):
        waves, left = cut.waves(p, cores)
        if not left or cut.run > 1:
            continue
        each, alone = pace(cut, p, target, most / waves if waves else inf)
        if waves * each + alone >= most:
            continue
        steps, (m, n) = ceil(p.k / cut.k), (min(cut.m, p.m), min(cut.n, p.n))
        after = epilogue(ceil(left * m / target.vector_cores), n, p, core)
        for splits in (n for n in SPLITS if n <= min(cores // left, steps)):
            part, _ = pace(cut, shared[splits], target)
            merged = core.merging(splits, ceil(left * m / target.vector_cores), n)
            time = waves * each + part + alone + merged + after
            if time < most:
                most, found = time, (cut, splits)
    return found


@lru_cache(1024)
def columns_together(cut: MatmulCut, p: Matrices, target: Target) -> int:
    """Number of columns of blocks that are walked down together, row after row of them: all, or
    fewer where L2 has no room for both operands and so fewer bytes cross HBM."""
    down, across = cut.counts(p)
    width = p.k * bitwidth(p.element) / 8
    lhs, rhs = p.m * width, p.n * width

    def crossing(group: int) -> float:
        """Bytes of one of the matmuls."""
        mine, groups = group * cut.n * width, ceil(across / group)
        lines = ceil(target.cube_cores / group)  # that cores have at a time, which share columns
        again = groups > 1 and lhs + mine > target.l2_bytes
        fits = mine + (lines + 1) * cut.m * width <= target.l2_bytes
        sweeps = 1 if fits else ceil(down * group / max(target.cube_cores, group))
        return lhs * (groups if again else 1) + rhs * sweeps

    if lhs + rhs <= target.l2_bytes:
        return across
    fewer = (n for n in GROUPS if n < across)
    return min((across, *fewer), key=crossing)


@lru_cache(1024)
def best_cut(ps: tuple[Matrices, ...], target: Target) -> MatmulCut | None:
    """The fastest cut for all of these, of one m and k, and of equal ones the first; None: there is
    none that fits. Blocks that cannot be the fastest are not cut into steps (`least_cycles`)."""
    counts, (largest, units) = Counter(ps), largest_of(ps)
    blocks = enumerate(block_sizes(largest, units, target))
    bounds = [(least_cycles(counts, *sizes, target), i, sizes) for i, sizes in blocks]
    best, least, place = None, inf, 0
    for bound, i, sizes in sorted(bounds):
        if bound > least:
            break
        for cut in cuts(largest, *sizes, units, target):
            found = cycles(counts, target, cut, nextafter(least, inf))
            if found < least or (found == least < inf and i < place):
                best, least, place = cut, found, i
    return best


def least_cycles(ps: Counter[Matrices], m: int, n: int, target: Target) -> float:
    """Lower bound of `cycles` for cuts into blocks of m x n."""
    cut = MatmulCut(m, n, 1, 1, 1)
    blocks = [cut.blocks(p) * count for p, count in ps.items()]
    total = sum([number * least_pace(cut, p, target) for number, p in zip(blocks, ps, strict=True)])
    return ceil(sum(blocks) / target.cube_cores) * total / sum(blocks) * (1 - TINY)


def least_pace(cut: MatmulCut, p: Matrices, target: Target) -> float:
    """Lower bound of the cycles of a block, whatever its steps are: by its products, by what leaves
    or by what comes to L1 or L0, without the starts of instructions."""
    core, terms, size = Core.of(target), p.terms * p.k / p.splits, p.bits / 8
    (down, across), lines = cut.counts(p), (min(cut.m, p.m), min(cut.n, p.n))
    m = align_up(p.m, FRACTAL) if p.m <= cut.m - FRACTAL else cut.m
    macs = align_up(m, target.cube_block) * align_up(cut.n, target.cube_block) * terms
    cube = macs / (peak_macs(p.element, target) * target.cube_efficiency)
    out = core.out(prod(lines) * p.terms * (SUM_BYTES if p.splits > 1 else p.result_bits / 8))
    load = lines[1] * terms * size / rate_of(1, p, down, core)
    if not p.may_run:  # a run of blocks shares the left-hand side
        load += lines[0] * terms / p.terms * size / rate_of(0, p, across, core)
    feed = terms * size * (m / target.l1_to_l0a_rate + cut.n / target.l1_to_l0b_rate)
    return max(cube, out, load, feed)


def rate_of(side: int, p: Matrices, others: int, core: Core) -> float:
    """Bytes a cycle of loading rows of the left- or right-hand side, which `others` load, too."""
    if p.computing[side] is not None:
        return core.rate(inf)
    share = 1.0 if core.is_far(p.strides[side]) else core.share(p.strides[side], p.element)
    return core.rate(others * p.batch / p.batches[side], share)


def all_cuts(ps: Sequence[Matrices], target: Target) -> Iterator[MatmulCut]:
    """Cuts that fit all of these matmuls."""
    largest, units = largest_of(ps)
    blocks = block_sizes(largest, units, target)
    return (cut for sizes in blocks for cut in cuts(largest, *sizes, units, target))


def largest_of(ps: Sequence[Matrices]) -> tuple[Matrices, Units]:
    """The largest of some matmuls, and the units of blocks and steps of all of them."""
    m, n, k = (lcm(*sizes) for sizes in zip(*{p.units for p in ps}, strict=True))
    return max(ps, key=lambda p: (p.terms, p.n, p.m)), (m, n, k)


def cycles(ps: Counter[Matrices], target: Target, cut: MatmulCut, most: float = inf) -> float:
    """Cycles of the busiest core; infinite if the cube of one alone takes `most`, or columns of
    blocks are no whole runs."""
    if cut.run > 1 and any(columns_together(cut, p, target) % cut.run for p in ps):
        return inf
    blocks = [cut.blocks(p) * count for p, count in ps.items()]
    rounds = ceil(sum(blocks) / cut.run / target.cube_cores) * cut.run
    limit = most / rounds if len(ps) == 1 else inf
    paces = [pace(cut, p, target, limit) for p in ps]
    mean = sum([n * each for n, (each, _) in zip(blocks, paces, strict=True)]) / sum(blocks)
    merged = sum([n * merging(p, target) for p, n in ps.items() if p.splits > 1])
    return rounds * mean + max([alone for _, alone in paces]) + merged


def block_sizes(p: Matrices, units: Units, target: Target) -> Iterator[tuple[int, int]]:
    """Sizes of blocks, m and n, whose sums fit on a core, in multiples of these."""
    inner, room = inner_of(p), target.core_memories
    rows, cols = (lcm(inner, size) for size in units[:2])
    for m in extents(p.m, rows):
        for n in extents(p.n, cols, WIDE + SIZES if p.computing[1] else SIZES):
            tables = n * SUM_BYTES if p.by_tables else 0  # rows of them, which pass L1
            if tables <= min(room["bt"], room["fb"]) and p.terms * m * n * SUM_BYTES <= room["l0c"]:
                yield m, n


def inner_of(p: Matrices) -> int:
    """The unit of all sizes: a fractal is 16 x 32 bytes, and columns may be inner."""
    return max(FRACTAL, BLOCK * 8 // bitwidth(p.element))


def cuts(p: Matrices, m: int, n: int, units: Units, target: Target) -> Iterator[MatmulCut]:
    """Cuts into blocks of m x n that fit on a core, with steps in multiples of the last unit."""
    bits, room, inner = bitwidth(p.element), target.core_memories, inner_of(p)
    unit, tables = lcm(inner, units[2]), n * SUM_BYTES if p.by_tables else 0
    sums = room["l0c"] // (p.terms * m * n * SUM_BYTES)
    deepest = min(room["l0a"] // m, room["l0b"] // n) * 8 // (2 * bits)
    if deepest < inner:
        return
    most = (room["l1"] - 2 * TABLES * tables) * 8 // (2 * bits)
    longest = most // (m + p.terms * n)
    for parts, part in depths(p, (inner, unit), deepest, longest):
        yield MatmulCut(m, n, parts * part, part, min(sums, 2))
    if p.may_run and (longest := (most - m * p.k) // (p.terms * n)) > 0:
        for parts, part in depths(p, (inner, unit), deepest, longest):
            cut = MatmulCut(m, n, parts * part, part, min(sums, 2))
            if m * cut.depth(p) + p.terms * n * cut.k <= most:
                yield from (replace(cut, run=run) for run in runs(ceil(p.n / n)))


def runs(across: int) -> list[int]:
    """The numbers of blocks of which there are whole ones in a row of so many."""
    return [n for n in SPLITS if across % n == 0]


def least_bytes(ps: Sequence[Matrices]) -> dict[str, int]:
    """Bytes that the least block of all of these takes of each memory, with steps of two parts."""
    p = max(ps, key=lambda p: (p.terms, p.n, p.m))
    bits = bitwidth(p.element)
    inner = max(FRACTAL, BLOCK * 8 // bits)
    m, n, unit = (lcm(inner, *sizes) for sizes in zip(*{p.units for p in ps}, strict=True))
    part = lcm(inner, unit // gcd(unit, 2))
    left, right = (2 * side * part * bits // 8 for side in (m, n))
    l1 = 2 * (left + p.terms * right)
    return {"l0c": p.terms * m * n * SUM_BYTES, "l0a": left, "l0b": right, "l1": l1}


def depths(
    p: Matrices, units: tuple[int, int], deepest: int, longest: int
) -> Iterator[tuple[int, int]]:
    """Possible numbers of parts in a step, and their depths. Parts are multiples of the first of
    `units` and at most `deepest`, steps multiples of the second and at most `longest`."""
    # an even number of parts, so that the two tiles of L0 take turns over steps as well
    parts, (inner, unit) = 2, units
    deepest = min(deepest, longest // parts)  # where L1 is not much larger than L0
    few = any(c is not None and not c.by_terms for c in p.computing)
    while parts * inner <= longest:
        grain = lcm(inner, unit // gcd(unit, parts))
        part = deepest // grain * grain
        most = min(longest, max(LONGEST, 2 * part)) if few else longest
        if part and parts * part <= most:
            steps = -(-p.k // (parts * part))
            if steps >= p.splits:
                yield parts, align_up(-(-p.k // (parts * steps)), grain)
            if steps <= p.splits:
                break
        parts *= 2


@lru_cache(4096)
def extents(size: int, unit: int, sizes: tuple[int, ...] = SIZES) -> tuple[int, ...]:
    """Sizes of blocks that cut an extent evenly."""
    even = (ceil(size / ceil(size / most)) for most in sizes)
    return tuple(dict.fromkeys(align_up(s, unit) for s in even))


def merging(p: Matrices, target: Target) -> float:
    """Cycles of adding the parts of sums, of which each vector core has some columns."""
    return Core.of(target).merging(p.splits * p.terms, p.m, ceil(p.n / target.vector_cores))


def epilogue(rows: int, cols: int, p: Matrices, core: Core) -> float:
    """Cycles of the ops after the sums on a vector core, which has these."""
    return core.applied(p.after or (), rows, cols)


def pace(cut: MatmulCut, p: Matrices, target: Target, most: float = inf) -> tuple[float, float]:
    """Cycles of a block, and of the work that runs alone. If the cube alone takes `most` for a
    block, the transfers of its operands are not computed: then they are infinite."""
    core, size, steps = Core.of(target), p.bits / 8, -(-p.k // cut.k // p.splits)
    tables = TABLES * core.load(cut.n * SUM_BYTES) if p.by_tables else 0.0
    m = align_up(p.m, FRACTAL) if p.m <= cut.m - FRACTAL else cut.m  # of a group with less rows
    parts = p.terms * cut.k // cut.part
    macs = core.mmad(m, cut.n, cut.part, p.element)
    elements = p.terms * min(m, p.m) * min(cut.n, p.n)
    out = core.out(elements * (SUM_BYTES if p.splits > 1 else p.result_bits / 8))
    cube = steps * parts * macs + (out if cut.sums == 1 else 0)
    if max(cube, out) >= most:
        return inf, inf
    feed = core.feed(m * cut.part * size, cut.n * cut.part * size)
    load, beside, computed = operands(replace(cut, m=m) if m < cut.m else cut, p, target)
    after = back = 0.0
    if p.after is not None and p.splits == 1:
        rows, cols = ceil(min(m, p.m) / target.vector_parts), min(cut.n, p.n)
        after = p.terms * epilogue(rows, cols, p, core)
        back = p.terms * rows * cols * p.result_bits / 8 / core.back_rate
    times = steps * parts
    each, alone = paced(
        (steps * load + tables, steps),
        (steps * beside, steps),
        (times * feed, times),
        (cube, times),
        (out, 1),
        (back, 1),
        (steps * computed + after, steps if computed else 1),
    )
    return each, alone + (core.load(m * p.k * size) if cut.run > 1 else 0)  # which comes first


def rows_at_a_time(rows: int, cols: int, parts: int, block: int, most: int) -> int:
    """Number of rows of a tile that a vector core computes at a time, if it has room for `most`
    elements: fractals that divide the tile, and the `block` of rows that has one row of scales, or
    blocks."""
    units = rows // FRACTAL
    sizes = [rows // n // parts for n in range(1, units + 1) if units % n == 0]
    fitting = [s for s in sizes if s * cols <= most] or sizes[-1:]
    within = [s for s in fitting if block and block % s == 0]
    whole = [s for s in fitting if not block or s % block == 0]
    return (within or whole or fitting)[0]


def operands(cut: MatmulCut, p: Matrices, target: Target) -> tuple[float, float, float]:
    """Cycles of a step: of loading its operands; of loading those that the vector cores compute
    first, row by row; and of computing them."""
    core, depth, load, beside, computed = Core.of(target), p.k / ceil(p.k / cut.k), 0.0, 0.0, 0.0
    sizes, lines, steps = (cut.m, cut.n), (min(cut.m, p.m), min(cut.n, p.n)), ceil(p.k / cut.k)
    vectors, facts = target.vector_parts, (p.batches, p.strides, p.computing)
    sides = zip(sizes, lines, (1, p.terms), cut.counts(p)[::-1], *facts, strict=True)
    for side, (whole, line, terms, others, batch, stride, computing) in enumerate(sides):
        users, width = others * p.batch / batch, depth * p.bits / 8
        if cut.run > 1 and side == 0:
            whole_side = core.load_rows(line, p.k * p.bits / 8, stride, p.element, users)
            load += whole_side / (cut.run * steps)
            continue
        if computing is None:
            load += terms * core.load_rows(line, width, stride, p.element, users)
            continue
        load += core.load(terms * line * width, inf)  # L2 has it
        pieces = terms * (depth if computing.by_terms else line) / vectors
        size = terms * line * depth * computing.bytes
        beside += max(core.ub(pieces, size / vectors / pieces), size / (core.hbm * users))
        rows, cols = (cut.k, terms * whole) if computing.by_terms else (terms * whole, cut.k)
        each = rows_at_a_time(rows, cols, vectors, computing.blocks[0], MOST_COMPUTED)
        computed += ceil(rows / each) / vectors * computing.tile(each, cols, target)
    return load, beside, computed
