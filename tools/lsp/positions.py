"""Positions in a text: offsets count characters from its start, as xDSL's parser does; an editor
counts lines from 0 and in a line the code units of an encoding that it has chosen."""

import re
from bisect import bisect_right
from enum import StrEnum
from typing import NamedTuple

LINE_END = re.compile(r"\r\n|\n|\r")  # what the protocol takes for the end of a line
IN_LINE = re.compile(r'"(?:[^"\\\n]|\\.)*+"|(?P<comment>//)')


class Encoding(StrEnum):
    """What a column counts: bytes, pairs of bytes, or characters."""

    UTF8 = "utf-8"
    UTF16 = "utf-16"
    UTF32 = "utf-32"

    def units(self, text: str) -> int:
        """How many code units a text takes."""
        match self:
            case Encoding.UTF8:
                return len(text.encode("utf-8", "surrogatepass"))
            case Encoding.UTF16:
                return len(text.encode("utf-16-le", "surrogatepass")) // 2
            case Encoding.UTF32:
                return len(text)


class Extent(NamedTuple):
    """A part of a text, from `start` up to `end`."""

    start: int
    end: int

    def moved(self, by: int) -> "Extent":
        return Extent(self.start + by, self.end + by)

    def has(self, offset: int) -> bool:
        """Whether an offset is inside, or a cursor stands just behind the end."""
        return self.start <= offset <= self.end


class TextPosition(NamedTuple):
    """A line, and a column in it; both count from 0."""

    line: int
    column: int


class Lines:
    """Where the lines of a text begin."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = [0, *(m.end() for m in LINE_END.finditer(text))]

    def line(self, number: int) -> str:
        """A line without its end; empty where there is none of that number."""
        if not 0 <= number < len(self.starts):
            return ""
        last = number + 1 == len(self.starts)
        end = len(self.text) if last else self.starts[number + 1]
        return self.text[self.starts[number] : end].rstrip("\r\n")

    def offset(self, place: TextPosition, encoding: Encoding) -> int:
        """The offset of a place. Behind the end of a line it is that end, behind the last line the
        end of the text, inside of a character the start of it."""
        if place.line < 0:
            return 0
        if place.line >= len(self.starts):
            return len(self.text)
        line, column = self.line(place.line), max(place.column, 0)
        if line.isascii() or encoding is Encoding.UTF32:
            return self.starts[place.line] + min(column, len(line))
        units = 0
        for index, character in enumerate(line):
            units += encoding.units(character)
            if units > column:
                return self.starts[place.line] + index
        return self.starts[place.line] + len(line)

    def place(self, offset: int, encoding: Encoding) -> TextPosition:
        """The place of an offset, which may be outside of the text."""
        offset = min(max(offset, 0), len(self.text))
        number = bisect_right(self.starts, offset) - 1
        before = self.text[self.starts[number] : offset].rstrip("\r\n")
        return TextPosition(number, len(before) if before.isascii() else encoding.units(before))


def code_end(text: str, start: int, following: int) -> int:
    """Where what begins at `start` ends, if the token behind it begins at `following`: blanks and
    comments in between are left out."""
    end = following
    while True:
        end = start + len(text[start:end].rstrip())
        line = max(text.rfind("\n", start, end) + 1, start)
        comment = next((m.start() for m in IN_LINE.finditer(text, line, end) if m["comment"]), -1)
        if comment < 0:
            return end
        end = comment
