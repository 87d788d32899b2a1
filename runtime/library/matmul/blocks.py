"""How matmuls are cut into blocks of the result, and blocks into steps.

A core takes a block of m x n sums at a time. Its operands come to L1 `k` deep at a time, and from
there to L0A and L0B `part` deep. There are two of each buffer: the next ones come while the cube
works. With two `sums` in L0C the next block begins while one is taken out.

Of the cuts that fit the fastest is taken, by an estimate from the target's facts: the busiest pipe
sets the pace of a block; the first load and the last store stand alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import ceil, gcd, inf, lcm

from xdsl.ir import Attribute

from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.types import align_up
from ge.dialects.targets.target import Target
from ge.dialects.tile.types import BLOCK, FRACTAL
from ge.runtime.library.costs.instructions import REPEAT_BYTES
from ge.runtime.library.costs.rates import MOST_STRIDE, peak_macs, share_of

SUM_BYTES = 4  # of f32 and of i32
VECTOR_OPS = 6  # cycles of a repeat that epilogues take, about
CYCLES = 2  # of an instruction for a repeat, about
SIZES = tuple(FRACTAL * i for i in (32, 24, 20, 16, 12, 11, 10, 8, 6, 5, 4, 3, 2, 1))
LONGEST = 2048  # elements of rows that vector cores compute
MOST_COMPUTED = 16384  # elements of operands that one of them computes at a time
WIDE = tuple(FRACTAL * i for i in (64, 48, 40))  # where each row takes a start of the vector cores


@dataclass(frozen=True)
class Computing:
    """What the vector cores take for an element that they compute: instructions, and bytes that are
    loaded. `by_terms`: rows of their tiles are terms of products."""

    instructions: int
    bytes: float
    by_terms: bool


@dataclass(frozen=True)
class Matrices:
    """`batch` pairs of matrices, m x k by k x n; of lhs and rhs: how many there are, and the
    elements from one of their rows in memory to the next. `terms`: how many right-hand sides of
    these sizes one block of the left-hand side meets. Blocks have multiples of `units` of m, n and
    k; `passing`: whether sums pass to the vector cores; `computing`: operands that they compute;
    `splits`: how many cores share the terms of a block's sums, with `last_wave` of those blocks
    that are left where all cores have had as many."""

    batch: int
    m: int
    n: int
    k: int
    element: Attribute
    result: Attribute
    batches: tuple[int, int]
    strides: tuple[int, int]
    terms: int = 1
    units: tuple[int, int, int] = (1, 1, 1)
    passing: bool = False
    computing: tuple[Computing | None, Computing | None] = (None, None)
    splits: int = 1
    last_wave: bool = False

    @cached_property
    def shares(self) -> tuple[float, float]:
        """Of the full rate, for rows of either."""
        lhs, rhs = (share_of(stride, self.element) for stride in self.strides)
        return lhs, rhs

    @cached_property
    def bits(self) -> int:
        """Of an element."""
        return bitwidth(self.element)

    @cached_property
    def result_bits(self) -> int:
        """Of an element of the result."""
        return bitwidth(self.result)


@dataclass(frozen=True)
class Cut:
    """Blocks of m x n of the result. L1 takes steps of k of their operands, L0 parts of these; L0C
    holds `sums` blocks."""

    m: int
    n: int
    k: int
    part: int
    sums: int

    def counts(self, p: Matrices) -> tuple[int, int]:
        """Blocks along m, and along n."""
        return -(-p.m // self.m), -(-p.n // self.n)

    def blocks(self, p: Matrices) -> int:
        return self.places(p) * (1 if p.last_wave else p.splits)

    def places(self, p: Matrices) -> int:
        """Blocks, however many cores share one."""
        down, across = self.counts(p)
        return p.batch * down * across

    def waves(self, p: Matrices, cores: int) -> tuple[int, int]:
        """Waves in which each core has a block, and the blocks that are left."""
        return divmod(self.places(p), cores)


GROUPS = (96, 64, 48, 32, 24, 16, 12, 8, 6, 4, 3, 2, 1)  # columns of blocks, walked down together
SPLITS = (2, 3, 4, 6, 8, 12, 16, 24)  # cores that share the terms of a block's sums


@lru_cache(1024)
def best_shared_wave(p: Matrices, target: Target, most: float) -> tuple[Cut, int] | None:
    """The fastest cut whose last wave is shared, and by how many cores each of its blocks; None:
    none takes less than so many cycles."""
    cores, found = target.cube_cores, None
    for cut in cuts(p, p.units, target):
        waves, left = cut.waves(p, cores)
        if not left:
            continue
        each, alone = pace(cut, p, target)
        if waves * each + alone >= most:
            continue
        steps = ceil(p.k / cut.k)
        for splits in (n for n in SPLITS if n <= min(cores // left, steps)):
            part, _ = pace(cut, replace(p, splits=splits), target)
            time = waves * each + part + alone + merging_blocks(cut, p, left, splits, target)
            if time < most:
                most, found = time, (cut, splits)
    return found


def merging_blocks(cut: Cut, p: Matrices, left: int, splits: int, target: Target) -> float:
    """Cycles of a barrier, and of adding the parts of so many blocks, of which each vector core has
    some rows."""
    rate = target.gm_to_ub_rate or target.l0c_to_ub_rate
    size = left * min(cut.m, p.m) * min(cut.n, p.n) / target.vector_cores
    starts = target.mte2_start_cycles + target.vector_start_cycles
    each = SUM_BYTES / rate + CYCLES * SUM_BYTES / REPEAT_BYTES
    after = size * (bitwidth(p.result) / 8 / rate + VECTOR_OPS * SUM_BYTES / REPEAT_BYTES)
    return 2 * target.cross_flag_cycles + splits * (starts + size * each) + after


@lru_cache(1024)
def columns_together(cut: Cut, p: Matrices, target: Target) -> int:
    """How many columns of blocks are walked down together, row after row of them: all, or fewer
    where L2 has no room for both operands and so fewer bytes cross HBM."""
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
def best_cut(ps: tuple[Matrices, ...], target: Target) -> Cut | None:
    """The fastest cut for all of these, of one m and k; None: there is none that fits."""
    best, least, estimate = None, inf, Estimate.of(ps, target)
    for cut in estimate.cuts:
        if (found := estimate.cycles(cut, least)) < least:
            best, least = cut, found
    return best


def all_cuts(ps: Sequence[Matrices], target: Target) -> Iterator[tuple[float, Cut]]:
    """Those for all of these, of one m and k, and the cycles that they take by the estimate."""
    estimate = Estimate.of(ps, target)
    return ((estimate.cycles(cut), cut) for cut in estimate.cuts)


@dataclass(frozen=True)
class Estimate:
    """Cycles of cuts for matrices of one m and k: `numbers` are those of `ps` that there are, many
    of which are of the same sizes."""

    ps: Sequence[Matrices]
    numbers: Sequence[int]
    target: Target

    @classmethod
    def of(cls, ps: Sequence[Matrices], target: Target) -> "Estimate":
        number = {p: i for i, p in enumerate(dict.fromkeys(ps))}
        return cls(list(number), [number[p] for p in ps], target)

    @property
    def cuts(self) -> Iterator[Cut]:
        """Those that fit all of the matrices."""
        largest = max(self.ps, key=lambda p: (p.terms, p.n, p.m))
        m, n, k = (lcm(*sizes) for sizes in zip(*(p.units for p in self.ps), strict=True))
        return cuts(largest, (m, n, k), self.target)

    def cycles(self, cut: Cut, most: float = inf) -> float:
        """Of the busiest core; any number from `most` on where it takes so many."""
        if len(self.numbers) == 1:
            return self.cycles_alone(cut, self.ps[0], most)
        count = [cut.blocks(p) for p in self.ps]
        blocks = [count[i] for i in self.numbers]
        rounds = ceil(sum(blocks) / self.target.cube_cores)
        limit = most / rounds if len(self.ps) == 1 else inf
        once = [pace(cut, p, self.target, limit) for p in self.ps]
        paces = [once[i] for i in self.numbers]
        mean = sum(n * each for n, (each, _) in zip(blocks, paces, strict=True)) / sum(blocks)
        shared = (self.ps[i] for i in self.numbers if self.ps[i].splits > 1)
        merged = sum(merging(p, self.target) for p in shared)
        return rounds * mean + max(alone for _, alone in paces) + merged

    def cycles_alone(self, cut: Cut, p: Matrices, most: float) -> float:
        """Where there is one of the matrices."""
        blocks = cut.blocks(p)
        rounds = ceil(blocks / self.target.cube_cores)
        each, alone = pace(cut, p, self.target, most / rounds)
        merged = merging(p, self.target) if p.splits > 1 else 0.0
        return rounds * (blocks * each / blocks) + alone + merged


def cuts(p: Matrices, units: tuple[int, int, int], target: Target) -> Iterator[Cut]:
    """Those that fit on a core, of multiples of these sizes."""
    bits, room = bitwidth(p.element), target.core_memories
    inner = max(FRACTAL, BLOCK * 8 // bits)  # a fractal is 16 x 32 bytes, and columns may be inner
    rows, cols, unit = (lcm(inner, size) for size in units)
    for m in extents(p.m, rows):
        for n in extents(p.n, cols, WIDE + SIZES if p.computing[1] else SIZES):
            sums = room["l0c"] // (p.terms * m * n * SUM_BYTES)
            deepest = min(room["l0a"] // m, room["l0b"] // n) * 8 // (2 * bits)
            if not sums or deepest < inner:
                continue
            longest = room["l1"] * 8 // (2 * (m + p.terms * n) * bits)
            for parts, part in depths(p, (inner, unit), deepest, longest):
                yield Cut(m, n, parts * part, part, min(sums, 2))


def depths(
    p: Matrices, units: tuple[int, int], deepest: int, longest: int
) -> Iterator[tuple[int, int]]:
    """How many parts a step may have, and how deep they are. Parts are multiples of the first of
    `units` and at most `deepest`, steps multiples of the second and at most `longest`."""
    # an even number of parts, so that the two tiles of L0 take turns over steps as well
    parts, (inner, unit) = 2, units
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


def cycles(cut: Cut, ps: Sequence[Matrices], target: Target) -> float:
    """Of the busiest core."""
    return Estimate.of(ps, target).cycles(cut)


def merging(p: Matrices, target: Target) -> float:
    """Cycles of a barrier, and of adding the parts of sums, of which each vector core has some
    columns."""
    cores = target.vector_cores
    rate = target.gm_to_ub_rate or target.l0c_to_ub_rate
    starts = 3 * target.mte2_start_cycles + 2 * target.vector_start_cycles
    each = SUM_BYTES / rate + CYCLES * SUM_BYTES / REPEAT_BYTES
    parts = p.splits * p.terms
    return 2 * target.cross_flag_cycles + parts * (starts + p.m * ceil(p.n / cores) * each)


def pace(cut: Cut, p: Matrices, target: Target, most: float = inf) -> tuple[float, float]:
    """Cycles of a block, and of what no other work goes on beside. Where the cube alone takes
    `most` for a block, how its operands come is not asked: then they are infinite."""
    bits, steps = p.bits, -(-p.k // cut.k // p.splits)
    if p.m <= cut.m - FRACTAL:  # of a group with less rows than others
        cut = replace(cut, m=align_up(p.m, FRACTAL))
    parts = p.terms * cut.k // cut.part
    feed = cut.m / target.l1_to_l0a_rate + cut.n / target.l1_to_l0b_rate
    moves = parts * 2 * target.mte1_start_cycles + p.terms * cut.k * bits / 8 * feed
    macs = p.terms * cut.m * cut.n * cut.k / peak_macs(p.element, target)
    macs += parts * target.mmad_start_cycles
    size = p.terms * min(cut.m, p.m) * min(cut.n, p.n)
    width = SUM_BYTES if p.splits > 1 else p.result_bits / 8
    out = size * width / (target.l0c_out_rate or target.l0c_to_ub_rate)
    cube = steps * macs + (out if cut.sums == 1 else 0)
    if max(steps * moves, cube, out) >= most:
        return inf, inf
    load = loads(cut, p, target)
    vector = computes(cut, p, target) * steps
    if p.passing and p.splits == 1:
        rate = target.gm_to_ub_rate or target.l0c_to_ub_rate
        each = p.result_bits / 8 / rate + VECTOR_OPS * SUM_BYTES / REPEAT_BYTES
        vector += size * each / target.vector_parts
    return max(steps * load, steps * moves, cube, out, vector), load + macs / parts + out + vector


def computes(cut: Cut, p: Matrices, target: Target) -> float:
    """Cycles of the vector cores for the operands of a step that they compute, tile by tile: each
    instruction starts, and one that meets a number a row does for each row or each repeat."""
    cycles, parts = 0.0, target.vector_parts
    for size, computing in zip((cut.m, p.terms * cut.n), p.computing, strict=True):
        if computing is not None:
            rows, cols = (cut.k, size) if computing.by_terms else (size, cut.k)
            each = max(heights(rows, cols, parts, MOST_COMPUTED), default=FRACTAL // parts)
            starts = computing.instructions + min(each, ceil(cols * SUM_BYTES / REPEAT_BYTES))
            cycles += ceil(rows / each) * starts * target.vector_start_cycles
            cycles += size * cut.k * computing.instructions * CYCLES * p.bits / 8 / REPEAT_BYTES
    return cycles / parts


def heights(rows: int, cols: int, parts: int, most: int) -> Iterator[int]:
    """How many rows of a tile a vector core may compute at a time, if it has room for `most`
    elements: fractals that divide it."""
    units = rows // FRACTAL
    sizes = (rows // n // parts for n in range(1, units + 1) if units % n == 0)
    return (size for size in sizes if size * cols <= most)


def loads(cut: Cut, p: Matrices, target: Target) -> float:
    """Cycles of loading the operands of a step. What is computed is loaded by the vector cores, row
    by row, and once more from L2."""
    depth, counts = p.k / ceil(p.k / cut.k), cut.counts(p)
    width = p.bits / 8
    lines = min(cut.m, p.m), p.terms * min(cut.n, p.n)
    hbm = target.hbm_rate * target.hbm_efficiency * target.hbm_read_efficiency
    load = (1 + p.terms) * target.mte2_start_cycles
    facts = p.batches, p.shares, p.strides, p.computing
    sides = zip(lines, (1, p.terms), counts[::-1], *facts, strict=True)
    for line, terms, others, batch, kept, stride, computing in sides:
        share, size = hbm * others * p.batch / batch, line * depth
        if computing is None:
            rate = target.l2_read_rate
            if target.split_cores and stride <= MOST_STRIDE:
                rate *= kept
            elif target.split_cores:  # an instruction for each of the rows in memory
                load += (line - 1) * target.mte2_start_cycles
            load += size * width / min(rate, share)
        else:
            parts = target.vector_parts
            rate = parts * (target.gm_to_ub_rate or target.l0c_to_ub_rate)
            pieces = terms * depth if computing.by_terms else line
            beside = max(pieces * target.mte2_piece_cycles / parts, size * computing.bytes / rate)
            beside = max(beside + target.mte2_start_cycles, size * computing.bytes / share)
            load += max(size * width / target.l2_read_rate, beside)
    return load
