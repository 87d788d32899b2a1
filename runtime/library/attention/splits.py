"""Attention whose keys are shared by several cores: where queries are few, as when tokens are
generated one by one, and keys are many.

    core (item, split):   weighted sums, totals and tops of its tiles of keys   -> workspace
    barrier
    core item:            top = max of tops, sums = sum of exp(its top - top) sums   -> result

Each split takes as many tiles of keys of every part as the others (Dao et al., Flash-Decoding). The
splits of an item are added in their order, whichever core had them first.
"""

from xdsl.dialects.builtin import f32

from ge.runtime.library.attention.cores import Vector, several
from ge.runtime.library.attention.facts import AttentionFacts
from ge.runtime.library.language.indices import Scalar
from ge.runtime.library.language.tracing import Tracer
from ge.runtime.library.language.values import Argument, Tile, exp, maximum


def why_whole(a: AttentionFacts) -> str:
    """Why keys are not shared by cores; empty: they may be. What is rounded relative to the largest
    score so far depends on which keys came before."""
    if a.op.is_integer or a.weight_grid is not None:
        return "weights are rounded relative to all keys before"
    return "rows are rounded while their scores are low" if a.rounds else ""


def share_of(first: Scalar, last: Scalar, split: Scalar, splits: int) -> tuple[Scalar, Scalar]:
    """The tiles of keys of a split, of those from first to last."""
    count = last - first
    return first + count * split // splits, first + count * (split + 1) // splits


class Splits:
    """What is stored of each item's splits, and merged. `u`: the tiles of parts of sums."""

    def __init__(self, attention: AttentionFacts, c: Tracer, vector: Vector, u: Tile) -> None:
        t, count = attention.tiles, attention.items * attention.splits
        self.a, self.c, self.vector, self.u = attention, c, vector, u
        self.sums: Argument = c.workspace(count, t.rows, t.value_size, dtype=f32)
        self.rows: Argument = c.workspace(2, count, t.rows, 1, dtype=f32)  # totals and tops
        self.top, self.total = c.ub(vector.rows, 1, f32), c.ub(vector.rows, 1, f32)

    def store(self, number: Scalar) -> None:
        """What the vector core has of a split."""
        v, row = self.vector, self.row
        self.c.store(self.sums[number, row:, 0:], v.acc)
        self.c.store(self.rows[0, number, row:, 0:], v.total)
        self.c.store(self.rows[1, number, row:, 0:], v.top)

    @property
    def row(self) -> Scalar:
        return self.c.part * self.vector.rows if self.c.parts > 1 else 0

    def merge(self, item: Scalar) -> None:
        """Leaves what all splits of an item have where one that has all keys would leave it."""
        a, c, v, row = self.a, self.c, self.vector, self.row
        v.clear()
        size = a.tiles.value_part
        for split in c.range(a.splits):
            number = item * a.splits + split
            c.load(self.total, self.rows[0, number, row:, 0:])
            c.load(self.top, self.rows[1, number, row:, 0:])
            v.new[:] = maximum(v.top, self.top)
            before = v.factor[0]
            before[:], self.top[:] = exp(v.top - v.new), exp(self.top - v.new)
            v.top[:] = v.new
            v.total[:] = v.total * before + self.total * self.top
            for some in several(c, a.tiles.value_size // size):
                col, acc = some * size, v.some(some * size)
                part = c.load(self.u[split], self.sums[number, row:, col:])
                acc[:] = acc * before + part * self.top
