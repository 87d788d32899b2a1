"""MLIR text -> module: xDSL's parser, with a location on each op and in each error. It raises
ParseError (position known) or GeError (the file cannot be read); `errors.py` prints both."""

import re
import stat
import struct
import sys
from bisect import bisect_right
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import NoReturn

from xdsl.context import Context
from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    FileLineColLoc,
    FusedLoc,
    LocationAttr,
    ModuleOp,
    NoneAttr,
    StringAttr,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue, TypeAttribute
from xdsl.parser import ParserState, UnresolvedOperand
from xdsl.utils.exceptions import (
    DiagnosticException,
    ParseError,
    PyRDLError,
)
from xdsl.utils.lexer import Input, Span, Token
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRTokenKind, StringLiteral

from ge.dialects.support.editing import lasting_hint, place
from ge.dialects.support.errors import GeError
from ge.dialects.support.operation import put_last
from ge.dialects.text.dense import DenseParser
from ge.dialects.text.mistakes import explained, meant, undefined
from ge.dialects.text.spellings import KnownLines, Line, Spelling, spelling_of
from ge.dialects.text.values import did_you_mean

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

    # Whether `parse_operation` may be left out for lines like others before (`spellings.py`)
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
