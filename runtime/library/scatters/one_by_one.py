"""Elements that the scalar unit puts at indices along an axis, one after the other, as the chips'
library does (`scatter_elements_v2` of ops-nn): where an axis is so long that no update can pass
over all of it.

A core has lines as `lines.py` says:

    for b in share(columns x parts of the axis)
      load input[p, part.., c..] to t
      for k in range(updates / high)
        load indices[p, k.., c..] to i, updates[p, k.., c..] to u     # high x width
        scatter u at (i - part) * width + (0, 1, .. width - 1, 0, 1, ..) to t
      store t

What is none of a part's elements is left out.
"""

from dataclasses import dataclass
from math import ceil, prod
from typing import TypeAlias

from xdsl.dialects.builtin import i32

from ge.dialects.graph.indexing import ScatterElementsOp
from ge.dialects.support.types import align_up, element_type
from ge.dialects.targets.target import Target
from ge.runtime.library.costs.paces import Core
from ge.runtime.library.language import values as v
from ge.runtime.library.language.indices import Scalar
from ge.runtime.library.language.tracing import Tracer
from ge.runtime.library.language.values import Argument
from ge.runtime.library.launch import Arguments, Written
from ge.runtime.library.scatters.lines import NUMBERS, Lines, columns_of, counted

Scattered: TypeAlias = Lines[ScatterElementsOp]


@dataclass(frozen=True)
class ScatterCut:
    """`lines` of a tile, along the last axis, or `width` columns; of which `part` elements along
    the axis come at once, and `high` updates."""

    lines: int
    width: int
    part: int
    high: int

    @staticmethod
    def of(p: Scattered, target: Target) -> "ScatterCut":
        """Three quarters of UB are for what updates are put into."""
        room, unit, cores = target.ub_bytes * 3 // 4, p.unit, target.vector_cores
        most = room // p.bytes // unit * unit  # elements
        lines = width = 1
        if p.is_last:
            lines = max(min(most // align_up(p.size, unit), ceil(p.before / cores)), 1)
            part = min(align_up(p.size, unit), most // lines // unit * unit)
        else:
            width = min(align_up(ceil(p.before * p.after / cores), unit), most // p.size)
            width = min(max(width // unit * unit, unit), p.after)
            part = min(p.size, most // align_up(width, unit))
        if (few := p.before * ceil(p.after / width)) < cores and lines == 1:  # share the axis
            part = min(part, align_up(ceil(p.size / (cores // few)), unit))
        grain = unit if p.is_last else 1
        part = align_up(ceil(p.size / ceil(p.size / part)), grain)
        each = 2 * (p.index_bytes + p.bytes) + 4 * (1 + (width > 1)) + NUMBERS
        high = (target.ub_bytes - room) // (each * lines * width)
        high = min(max(high // grain * grain, grain), align_up(p.count, grain))
        return ScatterCut(lines, width, part, high)

    def items(self, p: Scattered) -> int:
        """What cores share."""
        return prod(self.counts(p))

    def counts(self, p: Scattered) -> tuple[int, int, int]:
        """Planes or groups of lines, columns, and parts of the axis."""
        return ceil(p.before / self.lines), ceil(p.after / self.width), ceil(p.size / self.part)

    def cycles(self, p: Scattered, target: Target) -> float:
        """Of the busiest core's scalars, beside which nothing else counts."""
        each = Core.of(target).scattered(p.count * self.lines * self.width)
        return ceil(self.items(p) / target.vector_cores) * each


def one_by_one(p: Scattered, cut: ScatterCut, target: Target) -> Written:
    """The program."""
    cores = min(cut.items(p), target.vector_cores)

    def write(c: Tracer, given: Arguments) -> None:
        ScatterWriter(c, p, cut).write(given)

    return Written(write, cores, p.shapes())


class ScatterWriter:
    """The program, while it is written."""

    def __init__(self, c: Tracer, p: Scattered, cut: ScatterCut) -> None:
        self.c, self.p, self.cut = c, p, cut
        element = element_type(p.op.input)
        whole, some = cut.part * cut.width, cut.high * cut.width
        fits = 8 * cut.lines * whole * p.bytes <= 3 * c.target.ub_bytes
        self.into = c.ub(cut.lines, whole, element, copies=2 if fits else 1)
        self.indices = c.ub(cut.lines, some, element_type(p.op.indices), copies=2)
        self.updates = c.ub(cut.lines, some, element, copies=2)
        self.places = c.ub(cut.lines, some, i32)
        if cut.width > 1:
            self.inner = columns_of(c, cut.high, cut.width)

    def write(self, given: Arguments) -> None:
        c, p, cut, op = self.c, self.p, self.cut, self.p.op
        _, across, parts = cut.counts(p)
        for i in c.share(cut.items(p)):
            block = c.now(i // parts)
            first = c.now(i % parts * cut.part)
            plane, col = block // across * cut.lines, c.now(block % across * cut.width)
            lines = plane, first, col, cut.part
            tile = c.load(self.into[i], self.box(given[op.input], *lines), pad=0)
            for k in c.range(ceil(p.count / cut.high)):
                at = plane, k * cut.high, col, cut.high
                # what lies behind the last update is for none of the columns that are stored
                index = c.load(self.indices[k], self.box(given[op.indices], *at), pad=p.size)
                update = c.load(self.updates[k], self.box(given[op.updates], *at), pad=0)
                self.places[:] = self.place(index, first)
                c.scatter(tile, update, self.places, op.reduction.data)
            c.store(self.box(given[op.result], *lines), tile)

    def place(self, index: v.Tile, first: Scalar) -> v.Expression:
        """In the tile."""
        at = counted(index, self.p.size)
        if self.cut.part < self.p.size:
            at = at - v.columns(1, first)
        return at * self.cut.width + self.inner if self.cut.width > 1 else at

    def box(self, of: Argument, plane: Scalar, row: Scalar, col: Scalar, count: int) -> v.Subview:
        """So many elements along the axis."""
        if self.p.is_last:
            return of[plane:, row:]
        return of[plane, row:, col:].sized(count, self.cut.width)
