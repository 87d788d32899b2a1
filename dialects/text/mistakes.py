"""Messages of the parser, rewritten so that the mistake can be mended: the place of the word that
is wrong, the probable intention, and the place of the other half of a contradiction.

Nothing here runs before something has gone wrong: xDSL's error and the text are all it looks at.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from itertools import chain

from xdsl.utils.exceptions import MultipleSpansParseError, ParseError
from xdsl.utils.lexer import Input, Span

Note = tuple[int, int, str]  # the characters that a note points to, and what it says

# The text of an error -> a better one. An error is looked at once, by the first that fits
Explain = Callable[["Mistake", re.Match[str]], ParseError]

BUILTIN_TYPES = """bf16 complex f128 f16 f32 f64 f80 i1 i16 i32 i64 i8 index memref none tensor
    tuple vector""".split()

LOCATIONS = 'unknown, "file":line:column, "name", "name"(...), callsite(... at ...), fused[...]'

IGNORED = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*')  # strings and comments
VALUE_END = r"(?![\w$.-])"
CLOSES = {"}": "{", ")": "(", "]": "["}


class Mistake:
    """An error of the parser, and the text that it is about."""

    def __init__(self, error: ParseError) -> None:
        self.error = error
        self.input: Input[str] = error.span.input  # pyright: ignore[reportAttributeAccessIssue]
        self.text: str = self.input.content
        self.start, self.end = error.span.start, error.span.end

    @property
    def word(self) -> str:
        """The word at the place of the error; empty where there is none."""
        match = re.compile(r"[A-Za-z_][\w$.]*").match(self.text, self.start)
        return match[0] if match else ""

    def at(self, start: int, end: int, message: str, *notes: Note) -> ParseError:
        span = Span(start, end, self.input)
        if not notes:
            return ParseError(span, message)
        refs: list[tuple[Span[str] | Span[bytes], str | None]] = [
            (Span(a, b, self.input), text) for a, b, text in notes
        ]
        return MultipleSpansParseError(span, message, None, refs)

    def here(self, message: str, *notes: Note) -> ParseError:
        return self.at(self.start, self.end, message, *notes)


def explained(error: ParseError, uses: "dict[str, Span[str]]", at_end: bool) -> ParseError:
    """The error in the form that users see. `uses`: where values were used first that were not
    defined then; `at_end`: whether the parser stood at the end of the text."""
    if isinstance(error, MultipleSpansParseError) and not error.msg.startswith("region ends"):
        return error
    mistake = Mistake(error)
    if at_end and re.search("expected|block definition", error.msg, re.I):
        return unclosed(mistake)
    for pattern, explain in MISTAKES:
        if match := re.fullmatch(pattern, error.msg, re.S):
            better = explain(mistake, match)
            return with_use(better, mistake, uses)
    if re.match("expected ", error.msg, re.I) or error.msg.endswith(" expected"):
        return other_bracket(mistake) or on_its_line(mistake)
    return error


# ---- values ----------------------------------------------------------------------------------


def redefined(mistake: Mistake, match: re.Match[str]) -> ParseError:
    where = definition(mistake, match["name"])
    return mistake.here(mistake.error.msg, *where)


def other_type(mistake: Mistake, match: re.Match[str]) -> ParseError:
    name = mistake.text[mistake.start : mistake.end]
    message = f"value {name} is used with type {match['new']}, but is of type {match['old']}"
    return mistake.here(message, *definition(mistake, name.partition("#")[0], "prior use here"))


def with_use(error: ParseError, mistake: Mistake, uses: "dict[str, Span[str]]") -> ParseError:
    """The error with a note on the first use of the value that it is about, if the type of the
    value was not known there."""
    name = mistake.text[mistake.start : mistake.end].lstrip("%").partition("#")[0]
    about_types = "with type" in error.msg and not isinstance(error, MultipleSpansParseError)
    if not about_types or name not in uses or uses[name].start == mistake.start:
        return error
    span = uses[name]
    return mistake.at(
        error.span.start, error.span.end, error.msg, (span.start, span.end, "prior use here")
    )


def definition(mistake: Mistake, name: str, note: str = "first defined here") -> list[Note]:
    """The last definition of a value before the error: as a result, or as an argument."""
    value = re.compile(re.escape(name) + VALUE_END)
    result = re.compile(r"(?::\d+)?\s*(?:,\s*%[\w$.:#-]+\s*)*=(?!=)")
    hidden = [m.span() for m in IGNORED.finditer(mistake.text, 0, mistake.start)]
    places = [m for m in value.finditer(mistake.text, 0, mistake.start)]
    for place in reversed(places):
        if any(a <= place.start() < b for a, b in hidden):
            continue
        is_argument = re.compile(r"\s*:").match(mistake.text, place.end()) and in_parentheses(
            mistake.text, place.start()
        )
        if is_argument or result.match(mistake.text, place.end()):
            return [(place.start(), place.end(), note)]
    return []


def in_parentheses(text: str, place: int) -> bool:
    """True if a list in parentheses, on at most some lines, is open at a place."""
    depth = 0
    for c in reversed(text[max(place - 4000, 0) : place]):
        depth += (c == ")") - (c == "(")
        if depth < 0:
            return True
        if c in "{}":
            return False
    return False


def operand_types(mistake: Mistake, match: re.Match[str]) -> ParseError:
    """xDSL has the two numbers the wrong way round."""
    types, operands = match["types"], match["operands"]
    return mistake.here(f"expected {operands} operand types, as there are operands, got {types}")


# ---- blocks and brackets ---------------------------------------------------------------------


def missing_blocks(mistake: Mistake, _: re.Match[str]) -> ParseError:
    error = mistake.error
    assert isinstance(error, MultipleSpansParseError)
    (first, _text), *others = sorted(error.refs, key=lambda ref: ref[0].start)
    notes = [(s.start, s.end, f"and to {s.text}") for s, _text in others]
    return mistake.at(first.start, first.end, f"reference to undefined block {first.text}", *notes)


def brackets(text: str) -> tuple[list[int], list[tuple[int, int]]]:
    """The places of brackets that are open at the end of a text, from the outside in, and those of
    the pairs."""
    stack: list[int] = []
    pairs: list[tuple[int, int]] = []
    clean = IGNORED.sub(lambda m: " " * len(m[0]), text)
    for match in re.finditer(r"[{}()\[\]]", clean):
        opens = CLOSES.get(match[0])
        if opens is None:
            stack.append(match.start())
        elif stack and text[stack[-1]] == opens:
            pairs.append((stack.pop(), match.start()))
    return stack, pairs


def indentation(text: str, place: int) -> int:
    line = text[text.rfind("\n", 0, place) + 1 :]
    return len(line) - len(line.lstrip(" \t"))


def begins_line(text: str, place: int) -> bool:
    return not text[text.rfind("\n", 0, place) + 1 : place].strip()


def unclosed(mistake: Mistake) -> ParseError:
    """The text ends inside of a bracket. A brace that is closed by one further to the left is
    likelier the one than that around it."""
    text = mistake.text
    stack, pairs = brackets(text)
    message = mistake.error.msg
    end = len(text.rstrip())
    if not stack:
        return on_its_line(mistake)
    place = stack[-1]
    if "block definition" in message or message == "expected an operation":
        message = "the text ends where an operation or '}' is expected"
    notes: list[Note] = []
    if "\n" in text[place:end]:
        notes.append((place, place + 1, f"this '{text[place]}' is not closed"))
    for opened, closed in sorted(pairs):
        shifted = indentation(text, closed) < indentation(text, opened)
        if opened > place and text[opened] == "{" and begins_line(text, closed) and shifted:
            notes.append((opened, opened + 1, "or this one, by the blanks before its '}'"))
            break
    return mistake.at(end, end, message, *notes)


def other_bracket(mistake: Mistake) -> ParseError | None:
    """The error with a note on the open bracket, if one of another kind is closed; otherwise
    None."""
    closing = mistake.text[mistake.start : mistake.start + 1]
    stack, _ = brackets(mistake.text[: mistake.start])
    if closing not in CLOSES or not stack or mistake.text[stack[-1]] == CLOSES[closing]:
        return None
    place = stack[-1]
    note = (place, place + 1, f"this '{mistake.text[place]}' is not closed")
    return mistake.here(mistake.error.msg, note)


def in_block(mistake: Mistake, _: re.Match[str]) -> ParseError:
    return mistake.here("expected an operation, a block or '}'")


def on_its_line(mistake: Mistake) -> ParseError:
    """Report something missing at the end of a line there, not at the next word."""
    text, start = mistake.text, mistake.start
    if start < len(text) and not begins_line(text, start):
        return mistake.error
    before = re.sub(r"//[^\n]*", lambda m: " " * len(m[0]), text[:start]).rstrip()
    if "\n" not in text[len(before) : start] or not before or before[-1] in "{}":
        return mistake.error
    return mistake.at(len(before), len(before), mistake.error.msg)


def no_operand(mistake: Mistake, _: re.Match[str]) -> ParseError:
    """Events were numbers once, in waits as well."""
    if re.search(r"npu_task\.wait\s+$", mistake.text[: mistake.start]) is None:
        return on_its_line(mistake)
    now = "%event = npu_task.record 0 on 2, npu_task.wait %event on 1"
    return mistake.here(f"an event is the result of its record: {now}")


# ---- types, attributes, locations ------------------------------------------------------------


def unknown_type(mistake: Mistake, _: re.Match[str]) -> ParseError:
    word, start = mistake.word, mistake.start
    if not word or word in BUILTIN_TYPES or begins_line(mistake.text, start):
        return on_its_line(mistake)
    message = f"unknown type '{word}'{meant(word, BUILTIN_TYPES)}"
    return mistake.at(start, start + len(word), message)


def meant(word: str, known: Iterable[str]) -> str:
    close = get_close_matches(word, sorted(known), 1)
    return f"; did you mean '{close[0]}'?" if close else ""


def duplicate_key(mistake: Mistake, match: re.Match[str]) -> ParseError:
    key = re.compile(rf'(?<![\w$.-])"?{re.escape(match["key"])}"?(?=\s*[=,}}\]])')
    places = [m for m in key.finditer(mistake.text, 0, mistake.start)][-2:]
    if len(places) < 2:
        return mistake.error
    first, second = places
    note = (first.start(), first.end(), "first given here")
    return mistake.at(second.start(), second.end(), mistake.error.msg, note)


def dense_shape(mistake: Mistake, match: re.Match[str]) -> ParseError:
    place = mistake.text.rfind("dense<", 0, mistake.start)
    given = f"the literal has shape {match['given']}, its type {match['type']}"
    return mistake.here(given) if place < 0 else mistake.at(place, place + 5, given)


def integer_element(mistake: Mistake, _: re.Match[str]) -> ParseError:
    word = mistake.text[mistake.start : mistake.end]
    return mistake.here(f"expected an integer element, got {word}")


def unknown_location(mistake: Mistake, _: re.Match[str]) -> ParseError:
    word = re.compile(r"([A-Za-z_][\w$.]*)\s*$").search(mistake.text, 0, mistake.start)
    if word is None:
        return mistake.error
    message = f"unknown location '{word[1]}', expected {LOCATIONS}"
    return mistake.at(word.start(1), word.end(1), message)


def number_of_location(mistake: Mistake, _: re.Match[str]) -> ParseError:
    before = mistake.text[: mistake.start]
    if match := re.search(r'loc\([^()\n]*"[^"\n]*"\s*:\s*(\d+\s*:)?\s*$', before):
        what = "column" if match[1] else "line"
        return mistake.here(f"expected the number of a {what} in a location")
    return on_its_line(mistake)


def redefined_block(mistake: Mistake, match: re.Match[str]) -> ParseError:
    label = re.compile(rf"^[ \t]*({re.escape(match['name'])}){VALUE_END}", re.MULTILINE)
    places = [m.span(1) for m in label.finditer(mistake.text, 0, mistake.start)][-1:]
    return mistake.here(mistake.error.msg, *((a, b, "first defined here") for a, b in places))


def bare_types(mistake: Mistake, _: re.Match[str]) -> ParseError:
    if mistake.word not in BUILTIN_TYPES:
        return on_its_line(mistake)
    return mistake.here("types of operands stand in parentheses: (...) -> ...")


MISTAKES: Sequence[tuple[str, Explain]] = (
    (r"Expected '\('", bare_types),
    (r"SSA value (?P<name>%.*) is already defined", redefined),
    (r"operand is used with type (?P<new>.*), but .* with type (?P<old>.*)", other_type),
    (r"Result .* is defined with type .*", lambda mistake, _: mistake.error),
    (r"expected (?P<types>\d+) operand types but had (?P<operands>\d+)", operand_types),
    (r"region ends with missing block declarations.*", missing_blocks),
    (r"redefinition of block (?P<name>\^.*)", redefined_block),
    (r".*in block definition", in_block),
    (r"Expected shape type\.|type expected", unknown_type),
    (r"Duplicate key '(?P<key>.*)' in .*", duplicate_key),
    (r"Shape mismatch in .* Expected (?P<type>\[.*\]) .* got (?P<given>\[.*\]).*", dense_shape),
    (r"Expected integer value", integer_element),
    (r"Unsupported location type\.", unknown_location),
    (r"Expected integer literal", number_of_location),
    (r"operand expected", no_operand),
)


# ---- undefined values ------------------------------------------------------------------------


def undefined(spans: Sequence["Span[str]"]) -> ParseError:
    """The error about values that are used and defined nowhere."""
    first, *others = spans
    name, text = first.text, first.input.content
    start = max(text.rfind("\n}", 0, first.start), 0)
    end = text.find("\n}", first.start)
    part = text[start : end if end >= 0 else len(text)]
    known = set(chain.from_iterable(defined_in(part)))
    hint = meant(name, known) if len(name) > 3 else ""  # %0 is as near to %1 as to %2
    mistake = Mistake(ParseError(first, ""))
    notes = [(s.start, s.end, f"and of {s.text}") for s in others]
    return mistake.here(f"use of undefined value {name}{hint}", *notes)


def defined_in(text: str) -> Iterator[list[str]]:
    """The names of values that a part of a text defines."""
    for results in re.finditer(r"((?:%[\w$.-]+(?::\d+)?(?:\s*,)?\s*)+)=(?!=)", text):
        yield re.findall(r"%[\w$.-]+", results[1])
    yield re.findall(r"[(,]\s*(%[\w$.-]+)\s*:", text)
