"""What a language server works with: places in texts, edits, analyses of what is being written."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.ir import Operation

from ge.dialects.support.errors import GeError
from ge.dialects.text.reading import LocatingParser
from ge.lowering.driver.context import context
from ge.lowering.plugins.extensions import new_registry
from ge.tools.lsp.analysis import (
    Change,
    Document,
    TextChunk,
    analyse,
    analyse_part,
    common_prefix,
    failed,
    near_place,
    same_place,
)
from ge.tools.lsp.hover import Hovers, described, kind_named
from ge.tools.lsp.recording import (
    Cancelled,
    Encoding,
    Extent,
    Lines,
    Name,
    NameKind,
    TextPosition,
    code_end,
)
from ge.tools.lsp.server import Settings

TEXTS = st.text(st.sampled_from('ab %é𝄞"\n\r\u2028\t'), max_size=30)


@pytest.fixture(scope="module")
def ctx() -> Context:
    return context()


# ---- places --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("encoding", "column"), [(Encoding.UTF8, 6), (Encoding.UTF16, 3), (Encoding.UTF32, 2)]
)
def test_columns_count_code_units(encoding: Encoding, column: int):
    lines = Lines("x\r\né𝄞%y")
    assert lines.place(5, encoding) == TextPosition(1, column)
    assert lines.offset(TextPosition(1, column), encoding) == 5
    assert lines.offset(TextPosition(1, column - 1), encoding) in (
        4,
        5,
    )  # inside of a character: before


@given(TEXTS, st.sampled_from(Encoding))
def test_places_and_offsets_are_inverse(text: str, encoding: Encoding):
    lines = Lines(text)
    for offset in range(len(text) + 1):
        if text[offset - 1 : offset + 1] != "\r\n" and text[offset : offset + 1] != "":
            ends = text[offset] in "\r\n"
            place = lines.place(offset, encoding)
            assert ends or lines.offset(place, encoding) == offset


def test_a_place_outside_is_the_nearest():
    lines = Lines("ab\ncd")
    for place, offset in {(0, 9): 2, (1, 9): 5, (7, 0): 5, (-1, 4): 0, (1, -3): 3}.items():
        assert lines.offset(TextPosition(*place), Encoding.UTF16) == offset


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a b  // c\n  d", "a b"),
        ("a b\n// c\n// d\n d", "a b"),
        ('a "// b"   d', 'a "// b"'),
        ("a b d", "a b"),
    ],
)
def test_an_op_ends_before_comments(text: str, code: str):
    assert text[: code_end(text, 0, text.rindex("d"))] == code


@given(TEXTS, TEXTS, TEXTS, TEXTS)
def test_what_is_around_an_edit_is_found_again(a: str, old: str, new: str, b: str):
    before, after = a + old + b, a + new + b
    for offset in range(len(a) + 1):
        assert same_place(after, before, offset) == offset
    for offset in range(min(len(b), len(before) - common_prefix(before, after))):
        found = same_place(after, before, len(after) - offset)
        assert found in (len(before) - offset, len(after) - offset)
    for offset in range(len(after) + 1):
        assert 0 <= near_place(after, before, offset) <= len(before)


@given(TEXTS, TEXTS, st.data())
def test_edits_make_the_text_that_the_client_has(text: str, new: str, data: st.DataObject):
    lines = Lines(text)
    offsets = st.integers(0, len(text)).map(lambda o: lines.place(o, Encoding.UTF16))
    places = sorted((data.draw(offsets), data.draw(offsets)))
    first, last = (lines.offset(p, Encoding.UTF16) for p in places)
    document = Document("x.mlir", 1, text)
    document.change([Change(new, *places)], Encoding.UTF16, 2)
    assert document.text == text[:first] + new + text[last:]
    document.change([Change("whole")], Encoding.UTF16, 3)
    assert (document.text, document.version, document.generation) == ("whole", 3, 2)


# ---- analyses ------------------------------------------------------------------------------------

FUNCTION = """\
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = graph.relu %x : (tensor<8xf32>) -> tensor<8xf32>
  %1:2 = "test.op"(%0) ({
  ^bb0(%a: i1):
    %b = "test.op"(%a) : (i1) -> i1
    "test.termop"() : () -> ()
  }) : (tensor<8xf32>) -> (i1, i1)
  "test.op"(%1#1, %1#0) : (i1, i1) -> ()
  func.return %0 : tensor<8xf32>
}
"""


def known_before(part: TextChunk, end: int) -> Iterator[Name]:
    """The values that complete ops define above the line of an offset."""
    for name in part.index.names:
        owner = name.values[0].owner if name.values else None
        if isinstance(owner, Operation):
            number = part.index.numbers[owner]
            if part.index.op_extent(number).end < part.text.rfind("\n", 0, end):
                yield name


def test_each_beginning_of_a_text_is_analysed(ctx: Context):
    """Whatever stands before the end of a text that is not complete is known."""
    whole = analyse_part(FUNCTION, "x.mlir", ctx)
    assert whole.problems == []
    for end in range(len(FUNCTION)):
        part = analyse_part(FUNCTION[:end], "x.mlir", ctx)
        assert {n.text for n in known_before(whole, end)} <= {n.text for n in part.index.names}
        for offset in range(max(end - 20, 0), end + 1):
            part.index.name_at(offset)
            list(part.index.visible(offset, NameKind.VALUE))


def test_lines_that_are_not_parsed_again_are_recorded(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
):
    """The same as where each line is parsed."""
    line = "  %{0} = graph.mul %{1}, %x : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>\n"
    lines = "".join(line.format(n + 1, n) for n in range(4))
    text = FUNCTION.replace("  func.return %0", f"{lines.replace('%1', '%a')}  func.return %4")

    def record() -> tuple[list[tuple[int, str]], list[tuple[Extent, str]]]:
        index = analyse_part(text, "x.mlir", ctx).index
        ops = [(o.start, o.op.name) for o in index.record.ops if o.op is not None]
        return ops, sorted((e, name.text) for name in index.names for e in name.extents)

    assert LocatingParser.knows_lines
    known = record()
    monkeypatch.setattr(LocatingParser, "knows_lines", False)
    assert record() == known


@pytest.mark.parametrize(
    ("text", "at", "said"),
    [
        ("~", "~", "Unexpected character: ~"),
        ("func.func @f() {\n", "{", "the text ends where an operation or '}' is expected"),
        (
            "func.func private @f()\nfunc.func private @f()",
            "func.func",
            "redefinition of symbol @f",
        ),
    ],
)
def test_an_error_has_its_place(ctx: Context, text: str, at: str, said: str):
    (problem,) = analyse_part(text, "x.mlir", ctx).problems
    assert text[problem.extent.start : problem.extent.end] == at
    assert problem.extent.start == text.rindex(at)
    assert problem.message == said


def test_a_text_may_be_nested_deeply(ctx: Context):
    depth = 300
    text = '"test.op"() ({\n' * depth + '"test.termop"() : () -> ()\n'
    text += '}) : () -> ()\n"test.termop"() : () -> ()\n' * (depth - 1) + "}) : () -> ()\n"
    part = analyse_part(text, "x.mlir", ctx)
    assert part.problems == []
    assert len(part.record.regions) == depth


def test_a_bug_is_told_at_the_first_line():
    (problem,) = failed("func.func\n", KeyError("x")).parts[0].problems
    assert problem.message == "internal error: KeyError: 'x'"
    assert problem.extent == (0, len("func.func"))


def test_names_are_those_of_their_regions(ctx: Context):
    part = analyse_part(FUNCTION, "x.mlir", ctx)

    def visible(word: str) -> list[str]:
        return [n.text for n in part.index.visible(FUNCTION.index(word), NameKind.VALUE)]

    assert visible("func.func") == []
    assert visible("graph.relu") == ["x"]
    assert visible('"test.op"(%a)') == ["x", "0", "a"]
    assert visible("func.return") == ["x", "0", "1"]
    for use in ("%1#1", "#1", "%1#0"):
        found = part.index.name_at(FUNCTION.index(use))
        assert found is not None
        assert found[1].definition == (FUNCTION.index("%1"), FUNCTION.index("%1") + 2)


def test_parts_that_have_not_changed_are_kept(ctx: Context):
    before = analyse(f"{FUNCTION}// -----\n{FUNCTION}", "x.mlir", ctx)
    after = analyse(f"// new\n// -----{FUNCTION}// -----\n{FUNCTION}", "x.mlir", ctx, before)
    assert [part in before.parts for part in after.parts] == [False, False, True]
    assert after.parts[2] is before.parts[1]


def test_an_analysis_that_nobody_waits_for_ends(ctx: Context):
    steps = itertools.count()
    with pytest.raises(Cancelled):
        analyse_part(FUNCTION, "x.mlir", ctx, lambda: next(steps) == 3)
    assert next(steps) == 4


def test_stated_locations_are_kept(ctx: Context):
    """Though problems are told at the place of the op."""
    text = '"test.op"() : () -> () loc("node")\nfunc.return loc("f.mlir":1:2)\n'
    part: TextChunk = analyse_part(text, "x.mlir", ctx)
    (problem,) = part.problems
    assert text[problem.extent.start : problem.extent.end] == "func.return"
    first, second = (str(entry.op.location) for entry in part.record.ops if entry.op is not None)
    assert (first, second) == ('loc("node")', 'loc("f.mlir":1:2)')


def test_dialects_of_plugins_are_known():
    folder = Path(__file__).parents[1] / "tools" / "Inputs"
    text = "func.func @f(%a: i32) {\n  %0 = plug.twice %a\n  func.return\n}\n"
    with new_registry():
        ctx = Settings(plugins=(str(folder / "plugin.py"),)).context()
        part = analyse_part(text, "x.mlir", ctx)
        said = Hovers(part, ctx).at(text.index("plug.twice"))
    assert part.problems == []
    assert said is not None
    assert "x + x" in said.text
    with new_registry(), pytest.raises(GeError, match="cannot load plugin"):
        Settings(plugins=(str(folder / "broken_plugin.py"),)).context()


def test_every_op_is_described(ctx: Context):
    for name in ("graph", "fused_op", "npu_task", "tile", "func", "memref", "arith", "cf"):
        for kind in ctx.get_dialect(name).operations:
            assert described(kind).startswith(f"**{kind.name}**")
    assert kind_named(ctx, "nowhere.op") is None
