"""Time of the blocks of a cut on the busiest core, estimated before a program is written: by this
sum families choose their cuts.

A family says what each pipe does for a block, by the cycles of instructions of written programs
(`cycles.py`), and how much of that it does before another one goes on. Pipes work side by side, so
that the busiest one sets the pace of all blocks; work of the others before the first block, or
after the last one, stands alone.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import ceil, inf
from typing import TypeAlias

from xdsl.ir import Attribute

from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import numel, shape_of
from ge.dialects.targets.target import Target
from ge.dialects.tile.types import BLOCK, Memory
from ge.runtime.library.costs.cycles import (
    MOST_STRIDE,
    REPEAT_BYTES,
    bits_for,
    bits_of,
    instructions_of,
    l0_cycles,
    load_rate,
    mmad_cycles,
    out_rate,
    pieces_cycles,
    pop_rate,
    push_rate,
    row_reduction,
    scatter_cycles,
    share_of,
    vector_cycles,
)

Pipe: TypeAlias = tuple[float, float]
"""Cycles of all that a pipe does for a block, and how many times it goes on to another one."""


Applied: TypeAlias = tuple[tuple[str, int, bool], ...]
"""Instructions, the bits that they work on, and whether a row or column meets all others."""


def applied_by(ops: Sequence[TensorOp], bits: int) -> Applied:
    """The instructions of ops, on values that come and go in so many bits."""
    found = list[tuple[str, int, bool]]()
    for op in ops:
        whole = numel(shape_of(op.results[0]))
        meets_row = any(1 < numel(shape_of(v)) < whole for v in op.operands)
        found += [(name, bits_of(op), meets_row) for name in instructions_of(op)]
    wide = max([size for _, size, _ in found], default=bits)
    found = [(name, bits_for(name, size), meets_row) for name, size, meets_row in found]
    return (*found, *[("cast", wide, False)] * (2 * (wide > bits)))


def paced(*pipes: Pipe) -> tuple[float, float]:
    """Cycles of a block, and of what no other block goes on beside: the busiest pipe waits for the
    others at first, and they end after it; of those that do more at a time than it does..."""
    pace, often = max(pipes)
    once = [total / times for total, times in pipes]
    others = [total / min(times, often) - each for (total, times), each in zip(pipes, once)]
    busiest = pace / often
    return pace, sum(once) - busiest + max(others)


def cycles_of_blocks(rounds: float, *pipes: Pipe) -> float:
    """Cycles of as many blocks on the busiest core."""
    pace, alone = paced(*pipes)
    return rounds * pace + alone


class Core:
    """Cycles that the pipes of a core take, by sizes."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.hbm = target.hbm_rate * target.hbm_efficiency * target.hbm_read_efficiency
        self.out_rate = push_rate(Memory.L0C, target)
        self.back_rate = pop_rate(Memory.UB, target)
        self.ub_rate = load_rate(Memory.UB, target)
        self.ub_out_rate = out_rate(Memory.UB, target)
        self.barrier = 2 * target.cross_flag_cycles

    @staticmethod
    @lru_cache(16)
    def of(target: Target) -> "Core":
        """Raises GeError where the target lacks a rate."""
        return Core(target)

    def late(self, kind: str, than: str) -> float:
        """Cycles by which a kernel of a kind begins later than one of another kind."""
        start = self.target.kernel_start_us
        return (start.get(kind, 0.0) - start.get(than, 0.0)) * self.target.cycles_per_us

    def us(self, kind: str, cycles: float) -> float:
        """Time of a kernel of a kind, with its start."""
        return self.target.kernel_start_us.get(kind, 0.0) + cycles / self.target.cycles_per_us

    # ---- to the cube

    def share(self, stride: int, element: Attribute) -> float:
        """Share of the full rate of loading to L1, for rows so many elements apart that come
        together."""
        return share_of(stride, element) if self.target.split_cores else 1.0

    def load(self, size: float, users: float = inf, share: float = 1.0, starts: int = 1) -> float:
        """Cycles to load bytes to L1, each of which `users` blocks load; by default from L2."""
        return starts * self.target.mte2_start_cycles + size / self.rate(users, share)

    def rate(self, users: float, share: float = 1.0) -> float:
        """Bytes a cycle of the same."""
        return min(self.target.l2_read_rate * share, self.hbm * users)

    def load_rows(
        self, rows: float, size: float, stride: int, element: Attribute, users: float
    ) -> float:
        """The same of rows: an instruction for each of those that lie far apart."""
        if self.is_far(stride):
            return self.load(rows * size, users, starts=max(ceil(rows), 1))
        return self.load(rows * size, users, self.share(stride, element))

    def is_far(self, stride: int) -> bool:
        """Return whether rows so many elements apart have an instruction each."""
        return self.target.split_cores and stride > MOST_STRIDE

    def apart(self, count: float, starts: int) -> float:
        """Cycles to load elements to L1 that lie apart from others."""
        return pieces_cycles(starts, count, BLOCK, self.target.l2_read_rate, self.target)

    def feed(self, lhs: float, rhs: float) -> float:
        """Cycles to load bytes to L0A and L0B."""
        l0a = l0_cycles(Memory.L0A, lhs, self.target)
        return l0a + l0_cycles(Memory.L0B, rhs, self.target)

    def mmad(self, m: int, n: int, k: int, element: Attribute) -> float:
        return mmad_cycles(m, n, k, element, self.target)

    def out(self, size: float) -> float:
        """Cycles of bytes that leave L0C."""
        return size / self.out_rate

    # ---- vector cores

    def ub(self, pieces: float, size: float, starts: float = 1) -> float:
        """Cycles to load as many pieces of these bytes to UB."""
        return pieces_cycles(starts, pieces, max(size, BLOCK), self.ub_rate, self.target)

    def store(self, pieces: float, size: float, starts: float = 1) -> float:
        return pieces_cycles(starts, pieces, max(size, BLOCK), self.ub_out_rate, self.target)

    def vector(self, names: str, rows: int, row_bytes: float, apart: bool = False) -> float:
        """Cycles of these instructions on as many rows, one after the other."""
        size = ceil(row_bytes)
        return sum([vector_cycles(name, rows, size, apart, self.target) for name in names.split()])

    def by_column(self, name: str, rows: int, row_bytes: float) -> float:
        """Cycles of an instruction that meets one number a row, which is spread before."""
        spread = vector_cycles("copy", 1, rows * BLOCK, False, self.target)
        return spread + self.vector(name, rows, row_bytes, rows > 1)

    def each(self, ops: Sequence[TensorOp]) -> float:
        """Cycles of an element of all of these, without the starts of instructions."""
        cycles = self.target.vector_cycles_of
        names = [(name, bits_of(op)) for op in ops for name in instructions_of(op)]
        bits = [cycles(name) * bits_for(name, size) for name, size in names]
        return sum(bits) / 8 / REPEAT_BYTES

    @lru_cache(4096)
    def applied(self, instructions: Applied, rows: int, cols: int) -> float:
        """Cycles of these instructions on a tile."""
        each = (
            vector_cycles(name, rows, cols * bits // 8, meets_row and rows > 1, self.target)
            for name, bits, meets_row in instructions
        )
        return sum(each)

    def scattered(self, count: int) -> float:
        return scatter_cycles(count, self.target)

    def reduced(self, kind: str, rows: int, row_bytes: int) -> float:
        return row_reduction(kind, rows, row_bytes, True, False, self.target)

    def merging(self, parts: int, rows: int, cols: int) -> float:
        """Cycles to wait for all cores, and to add parts of sums in f32, of which a vector core has
        these."""
        each = self.ub(rows, 4 * cols) + self.vector("add", rows, 4 * cols)
        return self.barrier + parts * each
