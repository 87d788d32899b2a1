"""Lines that differ in names alone are read once, and as the parser reads them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects import test
from xdsl.dialects.builtin import i32
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError

from ge.dialects.text import reading
from ge.dialects.text.printing import op_text
from ge.dialects.text.reading import Line, LocatingParser, SourceText, parse_module, spelling_of
from ge.lowering.driver.context import context

HEAD = "func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>, %z: tensor<2xf32>) {\n"
ADD = "graph.add {} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>\n"
TESTS = Path(__file__).parents[1]


def body(*lines: str) -> str:
    return HEAD + "".join(lines) + "func.return\n}\n"


def told(text: str) -> str:
    """All that a text says: the module with its locations and the hints of its names, or the
    error."""
    ctx = context()
    ctx.allow_unregistered = True
    try:
        module = parse_module(ctx, SourceText("m", text))
    except ParseError as e:
        return f"{e.span.start}..{e.span.end} {e.msg}"
    hints = [v.name_hint for op in module.walk() for v in op.results]
    return f"{op_text(module, generic=True, debuginfo=True)}\n{hints}"


def slowly(text: str) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocatingParser, "knows_lines", False)
        return told(text)


def lines_parsed(text: str, monkeypatch: pytest.MonkeyPatch, anew: bool = True) -> int:
    """How many lines of ops the parser itself reads; `anew`: the first text of a process."""
    count = 0
    parse = Parser.parse_operation

    def counted(self: Parser) -> object:
        nonlocal count
        count += 1
        return parse(self)

    monkeypatch.setattr(Parser, "parse_operation", counted)
    if anew:
        monkeypatch.setattr(reading, "SHARED", {})
    told(text)
    return count - 2  # the function and its return


def add(name: str, a: str, b: str) -> str:
    return f"%{name} = " + ADD.format(f"%{a}, %{b}")


def test_a_line_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    text = body(add("0", "x", "y"), add("a_1", "0", "0"), add("1", "a_1", "x"), add("2", "1", "1"))
    assert told(text) == slowly(text)
    assert lines_parsed(text, monkeypatch) == 2  # the last one has another word behind it


def test_lines_of_another_text_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    text = body(add("0", "x", "y"), add("1", "0", "x"))
    assert lines_parsed(text, monkeypatch) == 2
    assert lines_parsed(text, monkeypatch, anew=False) == -1  # nor the return
    assert told(text) == slowly(text)


def test_what_a_text_names_itself_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    line = '%0 = "arith.constant"() <{value = #v}> : () -> i32\n'
    texts = [f"#v = {n} : i32\n{body(line, line.replace('%0', '%1'))}" for n in (1, 2)]
    assert [told(text) for text in texts] == [slowly(text) for text in texts]
    assert "value = 2" in told(texts[1])


@pytest.mark.parametrize(
    "lines",
    [
        (add("0", "x", "x"), add("1", "x", "y")),  # which operand is which does not show
        (add("0", "x", "y"), add("1", "x", "z")),  # another type
        (add("0", "x", "y"), add("0", "x", "y")),  # defined twice
        (add("0", "x", "y"), add("1", "x", "late"), add("late", "x", "y")),
        (add("0", "x", "y"), add("x", "x", "y")),
        (add("0", "x", "y"), add("1", "x#0", "y")),
        (add("0", "x", "y"), add("1", "x#1", "y")),
        (add("0", "x", "y"), add("0a", "x", "y")),  # no name
        (add("0", "x", "y"), add("1", "é", "y")),
        (add("0", "x", "y"), add("1", "x", "y")[:-1] + " // why\n"),
        (add("0", "x", "y"), add("1", "x", "y")[:-1] + ' loc("here")\n'),
        (add("0", "x", "y")[:-1] + ' loc("a")\n', add("1", "x", "y")[:-1] + ' loc("%b")\n'),
        (add("0", "x", "y")[:-1] + ' loc("a")\n', add("1", "x", "y")[:-1] + ' loc("b":3:4)\n'),
        (add("0", "x", "y")[:-1] + ' loc("a")\n', add("1", "x", "y")[:-1] + ' loc("b"("c"))\n'),
        (add("0", "x", "y")[:-1] + ' loc("a")\n', add("1", "x", "y")[:-1] + ' loc("\\22")\n'),
        (add("0", "x", "y")[:-1] + ' loc(unknown)\n', add("1", "x", "y")[:-1] + " loc(unknown)\n"),
        (add("0", "x", "y"), "// why\n", add("1", "x", "y")),
        (add("0", "x", "y"), add("1", "x", "y") + "{}\n"),
        (add("0", "x", "y"), add("1", "x", "y") + 'loc("here")\n'),
        ('%a = graph.constant #graph.weight<"a"> : tensor<4xf32>\n',
         '%b = graph.constant #graph.weight<"%b"> : tensor<4xf32>\n',
         '%c = graph.constant #graph.weight<"\\22"> : tensor<4xf32>\n'),
        ('"a.b"(%x) {s = "%x"} : (tensor<4xf32>) -> ()\n',
         '"a.b"(%y) {s = "%x"} : (tensor<4xf32>) -> ()\n',
         '"a.b"(%y) {s = "%y"} : (tensor<4xf32>) -> ()\n'),
        ('%p:2 = "a.b"(%x) : (tensor<4xf32>) -> (i32, i32)\n',
         '%q:2 = "a.b"(%y) : (tensor<4xf32>) -> (i32, i32)\n',
         '"a.c"(%q#1) : (i32) -> ()\n'),
        ('%p, %q = "a.b"(%x) : (tensor<4xf32>) -> (i32, i32)\n',
         '%r, %s = "a.b"(%y) : (tensor<4xf32>) -> (i32, i32)\n',
         '%t, %t = "a.b"(%y) : (tensor<4xf32>) -> (i32, i32)\n'),
    ],
)  # fmt: skip
def test_what_is_not_plain_is_the_parsers(lines: tuple[str, ...]) -> None:
    text = body(*lines)
    assert told(text) == slowly(text)


def test_what_an_unfinished_op_may_take_of_the_next_line() -> None:
    """`func.return` may have operands; `%1 = ...` behind one is the next op."""
    text = HEAD + 'func.return\n}\nfunc.func @g(%x: i32) {\n"a.b"() : () -> ()\nfunc.return\n}\n'
    for last in ("", "%x : tensor<4xf32>\n", "}\n", '"a.b"() : () -> ()\n'):
        assert told(text + last) == slowly(text + last)


NAMES = st.sampled_from(["x", "y", "z", "0", "1", "2", "a", "a_1", "late"])


@given(st.lists(st.tuples(NAMES, NAMES, NAMES), max_size=8))
def test_any_lines(adds: list[tuple[str, str, str]]) -> None:
    text = body(*(add(*names) for names in adds))
    assert told(text) == slowly(text)


@pytest.mark.parametrize("every", [9, pytest.param(1, marks=pytest.mark.soak)])
def test_the_texts_of_tests_are_read_as_the_parser_reads_them(every: int) -> None:
    files = sorted((TESTS / "dialects").rglob("*.mlir"))[::every]
    assert files
    for file in files:
        for part in SourceText(str(file), file.read_text()).split():
            assert told(part.text) == slowly(part.text), file


def test_an_op_with_more_than_its_text_is_not_kept() -> None:
    op = test.TestOp(result_types=[i32])
    line = Line.at('%0 = "test.op"() : () -> i32\n', 0)
    assert line is not None
    values = {"0": (op.results[0],)}
    assert spelling_of(line, op, 5, values) is not None
    op.__dict__["more"] = 1
    assert spelling_of(line, op, 5, values) is None
