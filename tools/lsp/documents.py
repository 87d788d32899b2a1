"""The texts that an editor has open, as they are now and as they were when they made sense."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from ge.tools.lsp.analysis import Analysis, TextChunk, parts_of
from ge.tools.lsp.positions import Encoding, Extent, Lines, TextPosition


class Change(NamedTuple):
    """New text in place of a part of the old one; of all of it where no places are given."""

    text: str
    start: TextPosition | None = None
    end: TextPosition | None = None


@dataclass(frozen=True, slots=True)
class View:
    """A part of a text, where it begins there, and a place in it. `former` is the part when it
    could be parsed last, if it cannot be now, and `former_at` the same place there."""

    part: TextChunk
    start: int
    at: int
    former: TextChunk | None = None
    former_at: int | None = None  # None in what has been changed

    def from_former(self, extent: Extent) -> Extent | None:
        """Where something of the former part stands now; None for what has been changed."""
        if self.former is None:
            return None
        start = same_place(self.former.text, self.part.text, extent.start)
        end = same_place(self.former.text, self.part.text, extent.end)
        return None if start is None or end is None else Extent(start, end)


@dataclass(eq=False)
class Document:
    """A text by the name of its file. `generation` counts its changes: what is worked out for an
    earlier one is of no use."""

    name: str
    version: int | None
    text: str
    generation: int = 0
    analysis: Analysis | None = None  # the newest, maybe of an earlier text
    formers: dict[int, TextChunk] = field(default_factory=dict[int, TextChunk])
    """Of each part, by its number, how it was when it could be parsed last."""
    lines: Lines = field(init=False)

    def __post_init__(self) -> None:
        self.lines = Lines(self.text)

    def change(self, changes: Iterable[Change], encoding: Encoding, version: int | None) -> None:
        """Apply changes one after the other. Places outside of the text are its nearest ones."""
        for change in changes:
            if change.start is None or change.end is None:
                self.text = change.text
            else:
                start = self.lines.offset(change.start, encoding)
                end = max(start, self.lines.offset(change.end, encoding))
                self.text = self.text[:start] + change.text + self.text[end:]
            self.lines = Lines(self.text)
        self.version = version
        self.generation += 1

    def outdated(self) -> Callable[[], bool]:
        """What tells whether the text has changed since now."""
        generation = self.generation
        return lambda: self.generation != generation

    def accept(self, analysis: Analysis) -> None:
        """Keep an analysis, and of it what could be parsed."""
        self.analysis = analysis
        for number, part in enumerate(analysis.parts):
            if part.module is not None:
                self.formers[number] = part
        for number in [n for n in self.formers if n >= len(analysis.parts)]:
            del self.formers[number]

    @property
    def is_analysed(self) -> bool:
        return self.analysis is not None and self.analysis.text is self.text

    def view(self, offset: int) -> View:
        """The part at an offset. Where the analysis is of an earlier text, it knows the text
        alone."""
        if self.analysis is not None and self.is_analysed:
            starts, parts = self.analysis.starts, self.analysis.parts
        else:
            pieces = list(parts_of(self.text))
            starts, parts = [s for s, _ in pieces], [TextChunk(t) for _, t in pieces]
        number = max((i for i, start in enumerate(starts) if start <= offset), default=0)
        part, start = parts[number], starts[number]
        former = self.formers.get(number)
        if former is None or former is part:
            return View(part, start, offset - start)
        at = same_place(part.text, former.text, offset - start)
        return View(part, start, offset - start, former, at)


def same_place(text: str, other: str, offset: int) -> int | None:
    """Where an offset of a text is in another one that is mostly the same: counted from the start
    if it stands before what differs, from the end behind it; None in between."""
    prefix = common_prefix(text, other)
    if offset <= prefix:
        return offset
    rest = min(len(text), len(other)) - prefix
    suffix = common_prefix(text[: -rest - 1 : -1], other[: -rest - 1 : -1]) if rest else 0
    return offset - len(text) + len(other) if offset >= len(text) - suffix else None


def near_place(text: str, other: str, offset: int) -> int:
    """The same, and in between where the other text begins to differ."""
    place = same_place(text, other, offset)
    return common_prefix(text, other) if place is None else place


def common_prefix(one: str, other: str) -> int:
    """The length of what two texts begin with alike, by bisection: comparing slices is fast."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
