"""MLIR text -> module: xDSL's parser, with a location on each op and in each error. It raises
ParseError (position known) or GeError (the file cannot be read); `errors.py` prints both.

Lines that differ in the names of values alone, parsed once.

    %7 = graph.mul %5, %6 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %8 = graph.mul %7, %7 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
The parser reads the first; the second is an op of the same class, attributes and types with other
operands, if these have the types that the first one's have. Layers of models repeat: nine lines of
ten in the graphs of U-Net, Llama and BERT are read so. Whatever is not plain (regions, successors,
forward references, names that are defined twice, tuples of values, locations but for names,
comments) is the parser's. A line that says the same in every text is parsed once for all texts of
a process: a hundred tile programs of 17,800 lines have 1,800 different ones.

The literals of constants, `dense<...>`: those that xDSL reads, and those that it does not."""

import re
import stat
import struct
import sys
from bisect import bisect_right
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, partial
from itertools import chain, islice
from math import prod
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    UNKNOWN_LOC,
    AnyFloat,
    ComplexType,
    DenseIntOrFPElementsAttr,
    FileLineColLoc,
    FusedLoc,
    IndexType,
    IntegerType,
    LocationAttr,
    ModuleOp,
    NameLoc,
    NoneAttr,
    RankedStructure,
    StringAttr,
    i1,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue, TypeAttribute
from xdsl.irdl import AttrConstraint, base
from xdsl.parser import Parser, ParserState, UnresolvedOperand
from xdsl.utils.exceptions import DiagnosticException, ParseError, PyRDLError
from xdsl.utils.lexer import Input, Span, Token
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRTokenKind, StringLiteral

from ge.dialects.support.definitions import TextAttr
from ge.dialects.support.editing import lasting_hint, place
from ge.dialects.support.errors import GeError
from ge.dialects.support.operation import created, operands_of, put_last
from ge.dialects.text.mistakes import explained, meant, undefined
from ge.dialects.text.values import did_you_mean

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


DENSE_LIMIT = 1 << 24  # elements of one `dense<...>`; xDSL expands even a splat
QUOTED = re.compile(r'<\s*"')  # bytes
NUMBER = r"-?[0-9]+(?:\.[0-9]*(?:[eE][-+]?[0-9]+)?)?"
NUMBERS = re.compile(rf"\[\s*{NUMBER}(?:\s*,\s*{NUMBER})*\s*\]")
ONE_NUMBER = re.compile(NUMBER)

Literal = tuple[list[Parser._TensorLiteralElement], list[int]]  # pyright: ignore[reportPrivateUsage]


class Bits(Parser._TensorLiteralElement):  # pyright: ignore[reportPrivateUsage]
    """A hexadecimal number in dense<...>, which for a float type gives the bits of the value.
    xDSL prints inf, nan and some large values so, but reads the number itself."""

    def to_type(self, parser: Any, type: AnyFloat | IntegerType | IndexType | ComplexType) -> Any:
        if not isinstance(type, AnyFloat) or self.is_negative:
            return super().to_type(parser, type)
        bits, size = self.to_int(parser), type.compile_time_size
        if bits.bit_length() > 8 * size:
            parser.raise_error(f"{type} has only {8 * size} bits", at_position=self.span)
        return type.unpack(bits.to_bytes(size, "little"), 1)[0]


DenseType = RankedStructure[IntegerType | IndexType | AnyFloat | ComplexType]


@cache
def dense_types() -> AttrConstraint[DenseType]:
    return base(DenseType)


def unpacked(text: str, count: int) -> list[int] | None:
    """The bits of a constant of `i1` that is given as bytes, eight bits in each, the lowest first;
    None where the text is something else."""
    digits = text.removeprefix("0x")
    if not re.fullmatch(r"(?:[0-9A-Fa-f]{2})*", digits) or len(digits) // 2 != -(-count // 8):
        return None
    data = bytes.fromhex(digits)
    return [data[k // 8] >> k % 8 & 1 for k in range(count)]


class DenseParser(Parser):
    """Reads hexadecimal numbers as the bits of floats, and bytes as eight bits each."""

    def parse_dense_int_or_fp_elements_attr(
        self, type: RankedStructure[Any] | None
    ) -> DenseIntOrFPElementsAttr:
        """Parse elements as upstream does, which takes a byte of bits for one of them."""
        start = self.pos
        if QUOTED.match(self.lexer.input.content, start):
            self.parse_punctuation("<")
            text = self.parse_str_literal()
            self.parse_punctuation(">", " in dense attribute")
            shaped: Any = type
            if shaped is None:
                self.parse_punctuation(":", " in dense attribute")
                shaped = self._parse_dense_literal_type()
            if shaped.get_element_type() == i1:
                if (bits := unpacked(text, prod(shaped.get_shape()))) is not None:
                    return DenseIntOrFPElementsAttr.from_list(shaped, bits)
            self._resume_from(start)
        return super().parse_dense_int_or_fp_elements_attr(type)

    def _parse_tensor_literal(self) -> Literal:
        """Parse a literal as upstream does; a list of decimal numbers by one regular expression,
        not token by token."""
        input = self.lexer.input
        found = NUMBERS.match(input.content, self._current_token.span.start)
        if found is None:
            return super()._parse_tensor_literal()
        elements: list[Parser._TensorLiteralElement] = []
        for each in ONE_NUMBER.finditer(input.content, found.start(), found.end()):
            value = float(each[0]) if "." in each[0] else int(each[0])
            span = Span(each.start(), each.end(), input)
            elements.append(self._TensorLiteralElement(value < 0, value, span))
        self._resume_from(found.end())
        return elements, [len(elements)]

    def _parse_tensor_literal_element(self) -> Parser._TensorLiteralElement:
        is_hexadecimal = self._current_token.text[:2] in ("0x", "0X")
        element = super()._parse_tensor_literal_element()
        if is_hexadecimal:
            return Bits(element.is_negative, element.value, element.span)
        return element

    def _parse_dense_literal_type(self) -> DenseType:
        """Parse a type as upstream does, which makes the constraint on types anew for each
        literal."""
        start = self.pos
        parsed = self.expect(self.parse_optional_type, "Dense attribute must be typed!")
        if not dense_types().verifies(parsed):
            self.raise_error(
                "Expected memref, vector or tensor type of integer, index, float, or complex type"
            )
        if DYNAMIC_INDEX in parsed.get_shape():
            self.raise_error("Dense literal attribute should have a static shape.")
        if (elements := prod(parsed.get_shape())) > DENSE_LIMIT:
            self.raise_error(
                f"{elements} elements are too many for dense<...>: keep them in the payload, "
                "as #graph.weight<...>",
                start,
                self.pos,
            )
        return parsed


STDIN = "<stdin>"
TEXT_LIMIT, CHUNK = 1 << 30, 1 << 20  # bytes
# Python frames; xDSL takes about ten for each nested region, four for each nested attribute
RECURSION_LIMIT = 20_000

NOT_ABOUT_THE_TEXT = (
    ParseError,  # has its place already
    RecursionError,
    MemoryError,
    ImportError,  # the last three: a dialect that does not load
    SyntaxError,
    PyRDLError,
)


ALIAS = re.compile(r"[#!][A-Za-z_][\w$.-]*")
LOCATION_ALIAS = re.compile(r"^#[\w$.-]+\s*=\s*loc\(", re.MULTILINE)
ALIAS_LIMIT = 1 << 24  # characters that an alias may stand for

SPLIT_MARKER = "// -----"
CODE = re.compile(r"^\s*(?!//)\S", re.MULTILINE)
OP_NAME = re.compile(r'"?([\w.$]*)"?')
NO_NUMBERS_TYPE = "Invalid type given for integer or float attribute."
OLD_SPELLINGS = {"'npu_task.space'": 'as a string: memref<4xf32, "hbm">'}
# Types whose meaning depends on their text alone; most of the types of a program
SIMPLE_TYPE = re.compile(
    r"(?:tensor|memref)<(?:(?:[0-9]+|\?)x)*[a-z]+[0-9]+"
    r"(?:, strided<\[[0-9, ]*\](?:, offset: [0-9]+)?>)?(?:, \"[a-z]+\")?>"
)


@dataclass(frozen=True)
class SourceText:
    """A text, or a part of it that begins after `lines_before` lines."""

    name: str
    text: str
    lines_before: int = 0
    is_part: bool = False

    def split(self, marker: str = SPLIT_MARKER) -> list["SourceText"]:
        """The parts between the lines that begin with a marker."""
        parts: list[SourceText] = []
        start = line = 0
        for match in re.finditer(rf"^[ \t]*{re.escape(marker)}.*$", self.text, re.MULTILINE):
            parts.append(
                SourceText(self.name, self.text[start : match.start()], line, is_part=True)
            )
            line += self.text.count("\n", start, match.start())
            start = match.end()
        parts.append(SourceText(self.name, self.text[start:], line, is_part=bool(parts)))
        return parts

    @property
    def has_code(self) -> bool:
        return CODE.search(self.text) is not None


def read_source(path: str | None) -> SourceText:
    """The text of a regular file, of standard input for `-` or None.
    Raises GeError when it cannot be read, is too long or is not text."""
    name = STDIN if path in (None, "-", "/dev/stdin") else str(path)
    try:
        data = _standard_input() if name == STDIN else _bytes_of(Path(name))
    except OSError as e:
        raise GeError(f"cannot open '{name}': {e.strerror or e}") from None
    if data is None:
        raise GeError(f"the text has more than {TEXT_LIMIT >> 20} MiB", name)
    if data.startswith(b"ML\xefR"):
        raise GeError("this is MLIR bytecode", name, "convert it to text with mlir-opt")
    try:
        return SourceText(name, data.decode("utf-8"))
    except UnicodeDecodeError as e:
        line = data.count(b"\n", 0, e.start) + 1
        column = e.start - data.rfind(b"\n", 0, e.start)
        hint = "an ONNX model is read by ge-import" if name.endswith(".onnx") else ""
        raise GeError(
            f"byte 0x{data[e.start]:02x} is not UTF-8 text", f"{name}:{line}:{column}", hint
        ) from None


def _standard_input() -> bytes | None:
    chunks = iter(partial(sys.stdin.buffer.read, CHUNK), b"")
    data = b"".join(islice(chunks, TEXT_LIMIT // CHUNK + 1))
    return data if len(data) <= TEXT_LIMIT else None


def _bytes_of(path: Path) -> bytes | None:
    info = path.stat()
    if not stat.S_ISREG(info.st_mode):
        raise GeError("this is not a file", str(path), "- reads standard input")
    return path.read_bytes() if info.st_size <= TEXT_LIMIT else None


class _Lexer(MLIRLexer):
    """xDSL's pattern for strings takes exponential time on one that is not closed, and a string
    with an escaped byte above 127 is bytes for it; LLVM writes all that is not ASCII so."""

    _unescaped_characters_regex = re.compile(r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"')

    def _lex_string_literal(self, start_pos: int) -> Token[MLIRTokenKind]:
        token = super()._lex_string_literal(start_pos)
        if token.kind is MLIRTokenKind.BYTES_LIT:
            try:
                StringLiteral.from_span(token.span).bytes_contents.decode()
            except UnicodeDecodeError:
                return token
            return Token(MLIRTokenKind.STRING_LIT, token.span)
        return token


MOST_BITS = (1 << 24) - 1  # as in LLVM
MOST_DIMS = 64  # as in numpy
TOO_MANY_DIMS = re.compile(rf"(?:(?:\d+|\?)x){{{MOST_DIMS + 1}}}")


def with_lasting_hint(value: SSAValue) -> None:
    if (hint := value.name_hint) is not None and (hint == "" or hint[-1].isdigit()):
        value.name_hint = lasting_hint(hint)


class LocatingParser(DenseParser):
    """Gives each op without explicit `loc(...)` the position of its name, and each failure
    while parsing the position of the op, type or attribute that it is about."""

    # Whether `parse_operation` may be left out for lines like others before (see above)
    knows_lines = True

    def __init__(self, ctx: Context, source: SourceText) -> None:
        super().__init__(ctx, "", source.name)
        # Blank lines instead of the parts before keep line numbers those of the whole file.
        text = "\n" * source.lines_before + source.text
        self._parser_state = ParserState(_Lexer(Input(text, source.name)))
        self._file = StringAttr(source.name)
        content = self.lexer.input.content
        self._line_starts = [0, *(m.end() for m in re.finditer("\n", content))]
        self._op_names: list[int] = []  # where those of the ops around start
        self._last_name = 0
        self._first_uses: dict[str, Span] = {}
        self._types: dict[str, TypeAttribute] = {}
        self._alias_sizes: dict[str, int] = {}
        self._location_aliases: dict[int, int] = {}  # where each begins and ends
        self._known = KnownLines(ctx)

    def location(self, position: int) -> FileLineColLoc:
        line = bisect_right(self._line_starts, position)
        column = position - self._line_starts[line - 1] + 1
        return place(self._file, line, column)

    def _fail(self, start: int, end: int, error: Exception, subject: str = "") -> NoReturn:
        message = describe(error)
        raise ParseError(
            Span(start, end, self.lexer.input), f"{subject} {message}" if subject else message
        ) from error

    # ---- ops ---------------------------------------------------------------------------------

    def _parse_op_result_list(self) -> list[tuple[Span, int]]:
        results = super()._parse_op_result_list()
        self._op_names.append(self._current_token.span.start)
        return results

    def parse_operation(self) -> Operation:
        try:
            op = super().parse_operation()
        except ParseError as e:
            if e.msg.endswith("does not have a custom format."):
                start, end, name = self._op_name()
                form = f'"{name}"(...) : (...) -> (...)'
                e.msg = f"'{name}' op has no custom format, write it as {form}"
                e.span = Span(start, end, self.lexer.input)
            raise
        except NOT_ABOUT_THE_TEXT:
            raise
        except Exception as e:
            start, end, name = self._op_name()
            self._fail(start, end, e, f"'{name}' op")
        start = self._last_name = self._op_names.pop()
        if op.location == UNKNOWN_LOC:
            op.location = self.location(start)
        return op

    def _parse_external_resources(self) -> None:
        """Skip the resources that others wrote for tools, as a reproducer does for ours (see
        `reproducer.py`)."""
        self.parse_comma_separated_list(self.Delimiter.BRACES, self._skip_resource)

    def _skip_resource(self) -> None:
        self.parse_identifier()
        self.parse_punctuation(":")
        if self._current_token.kind is MLIRTokenKind.L_BRACE:
            self.parse_comma_separated_list(self.Delimiter.BRACES, self._skip_resource)
        else:
            self._consume_token()

    def _parse_block_body(self, block: Block) -> None:
        """Parse a body as upstream does; lines that differ in names alone are parsed once."""
        while True:
            line = self._read_known_lines(block) if self.knows_lines else None
            start = self.pos
            if (op := self.parse_optional_operation()) is None:
                return
            block.add_op(op)
            if line is not None and self.pos == line.next:
                known = spelling_of(line, op, self._last_name - start, self.ssa_values)
                if known is not None:
                    self._known.add(self._dialects(), line, known)

    def _dialects(self) -> tuple[str, ...]:
        return tuple(self._parser_state.dialect_stack)

    def _read_known_lines(self, block: Block) -> Line | None:
        """Append the ops of the next lines while their spellings are known. The line that the
        parser has to read."""
        content, start = self.lexer.input.content, self.pos
        dialects, position = self._dialects(), start
        while (line := Line.at(content, position)) is not None:
            spelling = self._known.get(dialects, line)
            if spelling is None or (op := self._known_op(line, spelling)) is None:
                break
            if line.location is None:
                op.location = self.location(position + spelling.name_at(line))
            put_last(block, op)
            position = line.next
        if position != start:
            self._resume_from(position)
        return line

    def _known_op(self, line: Line, spelling: Spelling) -> Operation | None:
        """The op of a line, whose results have their names; None if the parser has to make it."""
        names = line.names[: len(spelling.result_types)]
        taken, awaited = self.ssa_values, self.forward_ssa_references
        if any(n in taken or n in awaited for n in names) or len(set(names)) != len(names):
            return None
        op = spelling.op(line, taken)
        if op is not None:
            for name, result in zip(names, op.results, strict=True):
                taken[name] = (result,)
                if not name[0].isdigit():
                    result.name_hint = name
                    with_lasting_hint(result)
        return op

    def _register_ssa_definition(self, name: str, values: Sequence[SSAValue], span: Span) -> None:
        super()._register_ssa_definition(name, values, span)
        for value in values:
            with_lasting_hint(value)

    def _op_name(self) -> tuple[int, int, str]:
        start = self._op_names[-1] if self._op_names else self.pos
        match = OP_NAME.match(self.lexer.input.content, start)
        assert match is not None
        return start, match.end(), match[1]

    def _get_op_by_name(self, name: str) -> type[Operation]:
        op = self.ctx.get_optional_op(name, dialect_stack=self._parser_state.dialect_stack)
        if op is not None:
            return op
        start, end, _ = self._op_name()
        self.raise_error(self._unknown_op(name), start, end)

    def _unknown_op(self, name: str) -> str:
        dialect, _, mnemonic = name.rpartition(".")
        known = sorted(self.ctx.registered_dialect_names)
        if not dialect:
            return f"unknown op '{name}'"
        if dialect.partition(".")[0] not in known:
            return f"unknown op '{name}': there is no dialect '{dialect}'" + did_you_mean(
                dialect, known, "; --allow-unregistered-dialect accepts it in generic form"
            )
        names = [o.name.removeprefix(f"{dialect}.") for o in self.ctx.loaded_ops]
        close = get_close_matches(mnemonic, names, 1)
        hint = f"; did you mean '{dialect}.{close[0]}'?" if close else ""
        return f"unknown op '{name}'{hint}"

    # ---- values ------------------------------------------------------------------------------

    def resolve_operand(self, operand: UnresolvedOperand, type: Attribute) -> SSAValue:  # pyright: ignore[reportIncompatibleMethodOverride]
        name = operand.operand_name
        if name not in self.ssa_values:
            self._first_uses.setdefault(name, operand.span)
        return super().resolve_operand(operand, type)

    def parse_module(self, allow_implicit_module: bool = True) -> ModuleOp:
        """Parse a module as upstream does, with clearer errors. Raises ParseError."""
        try:
            self._parse_location_aliases()
            return super().parse_module(allow_implicit_module)
        except ParseError as e:
            if self._current_token.kind == MLIRTokenKind.EOF and self.forward_ssa_references:
                self._fail_undefined(e)
            if e.msg == "Could not parse entire input!":
                e.msg = "expected an operation"
            at_end = self._current_token.kind == MLIRTokenKind.EOF
            raise explained(e, self._first_uses, at_end) from None
        except (RecursionError, MemoryError) as e:
            self._fail(self.pos, self.pos + 1, e)

    def _fail_undefined(self, error: ParseError) -> NoReturn:
        names = sorted(self.forward_ssa_references, key=lambda n: self._first_uses[n].start)
        if not error.msg.startswith("values used"):
            raise error
        raise undefined([self._first_uses[n] for n in names]) from None

    def _parse_block(self) -> Block:
        """Parse a block as upstream does; a second definition of a block that was used before is an
        error."""
        name = self._current_token.text[1:]
        known = self.blocks.get(name)
        if known is not None and known[1] is None and name not in self.forward_block_references:
            self.raise_error(f"redefinition of block ^{name}")
        return super()._parse_block()

    # ---- types and attributes ----------------------------------------------------------------

    def _parse_location_aliases(self) -> None:
        """Parse the definitions `#loc = loc(...)`, which MLIR prints behind their uses."""
        content = self.lexer.input.content
        if "= loc(" not in content:
            return
        for match in LOCATION_ALIAS.finditer(content):
            self._resume_from(match.start())
            self._parse_alias_def()
            self._location_aliases[match.start()] = self.pos
        self._resume_from(0)

    def _parse_alias_def(self) -> None:
        """Parse an alias as upstream does. Aliases of aliases may stand for more than any memory
        holds."""
        start = self.pos
        if start in self._location_aliases:
            self._resume_from(self._location_aliases[start])
            return
        super()._parse_alias_def()
        text = self.lexer.input.content[start : self.pos]
        name, *used = ALIAS.findall(text)
        size = self._alias_sizes[name] = len(text) + sum(self._alias_sizes.get(u, 0) for u in used)
        if size > ALIAS_LIMIT:
            self.raise_error(f"alias '{name}' stands for {size} characters", start, self.pos)

    def _parse_location(self) -> LocationAttr:
        """Parse a location as upstream does; also the metadata of a fused location, and ranges (of
        which the start is kept)."""
        if self.parse_optional_keyword("fused"):
            metadata: Attribute = NoneAttr()
            if self.parse_optional_punctuation("<") is not None:
                metadata = self.parse_attribute()
                self.parse_punctuation(">")
            parts = self.parse_comma_separated_list(self.Delimiter.SQUARE, self._parse_location)
            return FusedLoc(tuple(parts), metadata)
        location = super()._parse_location()
        if isinstance(location, FileLineColLoc) and self.parse_optional_keyword("to"):
            self.parse_optional_integer(False, False)
            self.parse_punctuation(":")
            self.parse_integer(False, False)
        return location

    def parse_optional_type(self) -> TypeAttribute | None:
        """Parse a type as upstream does; a plain tensor or memref type is parsed once for each
        spelling."""
        start = self.pos
        match = SIMPLE_TYPE.match(self.lexer.input.content, start)
        if match is not None and (known := self._types.get(match[0])) is not None:
            self._resume_from(match.end())
            return known
        with self._place_errors(start):
            parsed = super().parse_optional_type()
        if match is not None and parsed is not None:
            self._types[match[0]] = parsed
        return parsed

    def _parse_optional_integer_or_float_type(self) -> TypeAttribute | None:
        """Parse a type as upstream does; not wider than in LLVM: the ends of the type are numbers
        of that width."""
        start = self.pos
        parsed = super()._parse_optional_integer_or_float_type()
        if getattr(parsed, "bitwidth", 0) > MOST_BITS:
            self.raise_error(f"integers have at most {MOST_BITS:,} bits", start, self.pos)
        return parsed

    def parse_dimension_list(self) -> list[int]:
        """Parse dimensions as upstream does, which reads the rest of a shape again for each
        dimension."""
        if TOO_MANY_DIMS.match(self.lexer.input.content, start := self.pos):
            self.raise_error(f"a shape has at most {MOST_DIMS} dimensions", start, start + 1)
        return super().parse_dimension_list()

    def parse_optional_attribute(self) -> Attribute | None:
        with self._place_errors(self.pos):
            return super().parse_optional_attribute()

    @contextmanager
    def _place_errors(self, start: int) -> Generator[None]:
        """Errors about the type or attribute that starts at `start` are placed there."""
        try:
            yield
        except ParseError as e:
            if e.msg.endswith("is not registered"):
                e.msg = self._unknown_attribute(e.msg.removesuffix(" is not registered"))
                e.span = Span(start, start + 1, self.lexer.input)
            elif e.msg == NO_NUMBERS_TYPE:  # told of what comes behind the type
                e.msg = "what follows ':' is no type of a number; a property of one width, such as "
                e.msg += "IntegerAttr[I64], is written without it"
                e.span = Span(start, start + 1, self.lexer.input)
            raise
        except NOT_ABOUT_THE_TEXT:
            raise
        except Exception as e:
            self._fail(start, self.pos, e)

    def _unknown_attribute(self, quoted: str) -> str:
        if quoted in OLD_SPELLINGS:
            return f"{quoted} is now written {OLD_SPELLINGS[quoted]}"
        dialect, _, name = quoted.strip("'").partition(".")
        attributes = chain(self.ctx.loaded_attrs, self.ctx.loaded_types)
        known = {a.name for a in attributes if a.name.startswith(f"{dialect}.")}
        return f"unknown type or attribute {quoted}{meant(f'{dialect}.{name}', known)}"


def describe(error: BaseException) -> str:
    """The message of an exception, on one line."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, MemoryError):
        return "too large for the memory of this machine"
    text = " ".join(str(error).split("\n")).strip()
    if isinstance(error, struct.error):
        return f"holds a number that its type cannot: {text}"
    if isinstance(error, DiagnosticException | ValueError) and text:
        return text
    return f"is malformed ({type(error).__name__}{': ' if text else ''}{text})"


def parse_module(ctx: Context, source: SourceText, *, implicit: bool = True) -> ModuleOp:
    """Parse a text. Raises ParseError if it is wrong."""
    sys.setrecursionlimit(max(sys.getrecursionlimit(), RECURSION_LIMIT))
    if not source.has_code:
        if not source.is_part:
            raise ParseError(Span(0, 0, Input(source.text, source.name)), "there is no operation")
        return ModuleOp([])
    return LocatingParser(ctx, source).parse_module(implicit)
