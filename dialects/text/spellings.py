"""Lines that differ in the names of values alone, parsed once.

    %7 = graph.mul %5, %6 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %8 = graph.mul %7, %7 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
The parser reads the first; the second is an op of the same class, attributes and types with other
operands, if these have the types that the first one's have. Layers of models repeat: nine lines of
ten in the graphs of U-Net, Llama and BERT are read so. Whatever is not plain (regions, successors,
forward references, names that are defined twice, tuples of values, locations but for names,
comments) is the parser's. A line that says the same in every text is parsed once for all texts of
a process: a hundred tile programs of 17,800 lines have 1,800 different ones.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import NameLoc, NoneAttr, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue

from ge.dialects.support.attributes import TextAttr
from ge.dialects.support.operation import created, operands_of

# As MLIR's lexer has names of values; others stay in the text, which then is no known one.
NAME = re.compile(r"%([0-9]++(?![\w.$-])|[A-Za-z_$.-][\w.$-]*+)", re.ASCII)
# `#dialect.attribute<"text">`, the text of which may differ too
TEXT = re.compile(r'(#[\w.$]+<")([^"\\\n]*)">', re.ASCII)
# The end of a line with the name of what an op comes from; other locations are part of a line
NAMED = re.compile(r' loc\("([^"\\\n]*)"\)$', re.ASCII)
LOCATION = re.compile(r"\bloc\(")
BLANK = re.compile(r"[ \t\r\n]*")
WORD = re.compile(r"[\w.$]+", re.ASCII)
# Longer lines are not kept: most are constants, each with elements of its own.
LINE_LIMIT = 2000  # characters
# What a text defines for itself: attributes and types with names, elements at its end
OF_ONE_TEXT = re.compile(r"[#!][\w$-]++(?!\.)|dense_resource", re.ASCII)
MOST_SHARED = 16_384  # lines

# The fields of an op; others are its own, and what they hold does not follow from the line.
FIELDS = frozenset(
    "_operands _operand_uses results properties attributes location regions parent "
    "_next_op _prev_op _successors _successor_uses".split()
)

NONE = NoneAttr()
Values = Mapping[str, Sequence[SSAValue]]


class Line(NamedTuple):
    """A line in which names, the text of one attribute and that of a location are left open."""

    key: tuple[str, ...]
    names: list[str]
    text: str | None
    location: str | None
    start: int  # in the whole text
    end: int
    next: int  # where the next token starts

    @classmethod
    def at(cls, content: str, start: int) -> "Line | None":
        """The line of an op that starts there; None for the last line of a text and for long
        ones."""
        end = content.find("\n", start, start + LINE_LIMIT)
        if end < 0:
            return None
        line, text, attribute, location = content[start:end], None, "", None
        if line[-2:] == '")' and (match := NAMED.search(line)) is not None:
            line, location = line[: match.start()], match[1]
        if '<"' in line and (match := TEXT.search(line)) is not None:
            attribute, text = match[1], match[2]
            line = f"{line[: match.start()]}\0{line[match.end() :]}"
        parts = NAME.split(line)
        blank = BLANK.match(content, end)
        assert blank is not None
        after = follower(content, blank.end())
        key = (after, attribute, "" if location is None else "loc", *parts[::2])
        return cls(key, parts[1::2], text, location, start, end, blank.end())


def follower(content: str, at: int) -> str:
    """The key that decides if an op with optional parts ends before the token at `at`: `%` for all
    names, `.` for all words with a dot (they are names of ops), else the token."""
    if content[at : at + 1] == "%":
        return "%"
    word = WORD.match(content, at)
    if word is None:
        return content[at : at + 1]
    return "." if "." in word[0] else word[0]


class Spelling(NamedTuple):
    """Contents of the line of an op."""

    kind: type[Operation]
    operand_types: tuple[Attribute, ...]
    result_types: tuple[Attribute, ...]
    properties: dict[str, Attribute]
    attributes: dict[str, Attribute]
    texts: tuple[str, type[TextAttr]] | None  # the property of which the text differs
    before: int  # characters before the op's name, those of the names of results left out

    def name_at(self, line: Line) -> int:
        """The column in a line at which the name of the op starts."""
        return self.before + sum(map(len, line.names[: len(self.result_types)]))

    def op(self, line: Line, values: Values) -> Operation | None:
        """The op of another such line; None where its operands are not plain values of the same
        types."""
        first = len(self.result_types)
        operands: list[SSAValue] = []
        for name, type in zip(line.names[first:], self.operand_types, strict=True):
            found = values.get(name)
            if found is None or len(found) != 1:
                return None
            value = found[0]
            if value.type is not type and value.type != type:
                return None
            operands.append(value)
        properties = dict(self.properties)
        if self.texts is not None and line.text is not None:
            name, kind = self.texts
            properties[name] = kind(line.text)
        op = created(self.kind, operands, self.result_types, properties)
        op.attributes.update(self.attributes)
        if line.location is not None:
            op.location = NameLoc(StringAttr(line.location), NONE)
        return op


Dialects: TypeAlias = tuple[str, ...]
"""Those of the ops around, which decide what names without a dialect mean."""

SHARED: dict[tuple[Dialects, tuple[str, ...]], Spelling] = {}
"""What lines say in all texts."""


class KnownLines:
    """The spellings of one text, and those that all texts share."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.own: dict[tuple[Dialects, tuple[str, ...]], Spelling] = {}

    def get(self, dialects: Dialects, line: Line) -> Spelling | None:
        key = dialects, line.key
        if (known := self.own.get(key)) is None and (known := SHARED.get(key)) is not None:
            if self.ctx.get_optional_op(known.kind.name) is not known.kind:  # a dialect of another
                return None
            self.own[key] = known
        return known

    def add(self, dialects: Dialects, line: Line, spelling: Spelling) -> None:
        self.own[dialects, line.key] = spelling
        if not any(map(OF_ONE_TEXT.search, (line.key[1], *line.key[3:]))):
            if len(SHARED) >= MOST_SHARED:
                SHARED.clear()
            SHARED[dialects, line.key] = spelling


def spelling_of(line: Line, op: Operation, name_at: int, values: Values) -> Spelling | None:
    """The spelling that other lines share with that of the parsed op; None if the text of a line
    alone does not tell which op it is. `name_at`: the column at which its name starts."""
    if op.regions or op.successors or not op.__dict__.keys() <= FIELDS:
        return None
    own = (*op.results, *operands_of(op))
    if len(line.names) != len(own) or len({id(v) for v in own}) != len(own):
        return None
    if any(len(found := values.get(n, ())) != 1 or found[0] is not v
           for n, v in zip(line.names, own, strict=True)):  # fmt: skip
        return None
    if any(LOCATION.search(part) or "//" in part for part in line.key):
        return None
    if line.location is not None and op.location != NameLoc(StringAttr(line.location), NONE):
        return None
    texts = None
    if line.text is not None:
        same = [
            (name, type(a))
            for name, a in op.properties.items()
            if isinstance(a, TextAttr) and line.key[1] == f'#{a.name}<"' and a.data == line.text
        ]
        if len(same) != 1 or any(isinstance(a, TextAttr) for a in op.attributes.values()):
            return None
        texts = same[0]
    return Spelling(
        type(op),
        tuple([v.type for v in operands_of(op)]),
        tuple([v.type for v in op.results]),
        dict(op.properties),
        dict(op.attributes),
        texts,
        name_at - sum(map(len, line.names[: len(op.results)])),
    )
