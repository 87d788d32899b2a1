"""Rows of grouped matmuls that stand group after group, in sizes that are known.

Groups of one size that follow each other are a stretch. Blocks of rows cut the rows of each group
evenly, and the last one of a group has what is left: blocks of as many rows are a lot, which is one
loop of the program. Cores take the blocks of all lots in turn, so that a group with few rows holds
up none.

    sizes 300, 300, 7 and blocks of 160 rows:
        lot of groups 0 and 1, their rows from   0 on, 1 block of 160
        lot of groups 0 and 1, their rows from 160 on, 1 block of 140
        lot of group 2,                                1 block of   7
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import ceil

from ge.dialects.support.types import align_up
from ge.dialects.tile.types import FRACTAL


@dataclass(frozen=True)
class Stretch:
    """`count` groups from number `group` on, of `size` rows each, which begin at row `first`."""

    group: int
    count: int
    first: int
    size: int


@dataclass(frozen=True)
class Lot:
    """Of the groups of a stretch `blocks` blocks each, of `rows` rows, from row `begin` of the
    group on."""

    stretch: Stretch
    begin: int
    blocks: int
    rows: int

    @property
    def places(self) -> int:
        """Blocks of rows in all."""
        return self.stretch.count * self.blocks


def stretches(sizes: Sequence[int]) -> list[Stretch]:
    """Groups of one size that stand side by side; those without rows are left out."""
    found: list[Stretch] = []
    group = first = 0
    for size, members in groupby(sizes):
        count = len(list(members))
        if size:
            found.append(Stretch(group, count, first, size))
        group, first = group + count, first + count * size
    return found


def lots(sizes: Sequence[int], most: int) -> list[Lot]:
    """With blocks of `most` rows at most; lots of many rows come first, since what is left over at
    the end is small then."""
    found = [lot for stretch in stretches(sizes) for lot in lots_of(stretch, most)]
    return sorted(found, key=lambda lot: -lot.rows)


def lots_of(stretch: Stretch, most: int) -> Iterator[Lot]:
    blocks = ceil(stretch.size / most)
    rows = align_up(ceil(stretch.size / blocks), FRACTAL)
    whole, left = divmod(stretch.size, rows)
    if whole:
        yield Lot(stretch, 0, whole, rows)
    if left:
        yield Lot(stretch, whole * rows, 1, left)
