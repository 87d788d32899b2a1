"""Pipeline texts: what is read back is what was written, whatever the values."""

from contextlib import suppress
from dataclasses import dataclass
from operator import add
from string import ascii_lowercase, digits
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import ParseError

from ge.dialects.support.errors import GeError
from ge.lowering.driver.context import context
from ge.lowering.pipeline.pass_options import (
    NestedPass,
    PassText,
    build_pipeline,
    pipeline_text,
    read_options,
    read_pipeline,
    type_text,
)
from ge.lowering.plugins.extensions import universe

LETTERS = st.sampled_from(ascii_lowercase)  # text of an alphabet is drawn faster than a regex
KEYS = st.builds(add, LETTERS, st.text(ascii_lowercase + "_", max_size=8))
WORDS = st.text(ascii_lowercase + digits, min_size=1, max_size=8)
NAMES = st.builds(
    lambda first, words: first + "-".join(words), LETTERS, st.lists(WORDS, min_size=1, max_size=4)
)
VALUES = st.text(st.characters(exclude_categories=["C", "Z"]) | st.just(" "), max_size=10)
PASSES = st.builds(
    PassText,
    NAMES,
    st.dictionaries(KEYS, st.lists(VALUES, max_size=3).map(tuple), max_size=3),
)


@given(st.lists(PASSES, max_size=4), st.booleans())
def test_pipelines_read_back(passes: list[PassText], nested: bool):
    text = ",".join(map(str, passes))
    assert read_pipeline(f"builtin.module({text})" if nested else text) == passes


@given(st.text(alphabet="ab{}()=,\"' \\[]-.1\n", max_size=30))
def test_any_text_is_read_or_refused(text: str):
    with suppress(ParseError):
        read_pipeline(text)


@dataclass(frozen=True)
class SamplePass(ModulePass):
    name = "sample"
    count: int = 1
    scale: float = 1.0
    mode: Literal["fast", "exact"] = "fast"
    sizes: tuple[int, ...] = ()
    limit: int | None = None
    label: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None: ...


@given(
    st.builds(
        SamplePass,
        count=st.integers(),
        scale=st.integers(-9, 9).map(float),
        mode=st.sampled_from(["fast", "exact"]),
        sizes=st.lists(st.integers()).map(tuple),
        limit=st.none() | st.integers(),
        label=st.text("abc .=", max_size=5),
    )
)
def test_a_pass_survives_its_text(sample: SamplePass):
    text = pipeline_text([sample])
    assert build_pipeline(read_pipeline(text), {"sample": lambda: SamplePass}) == (sample,)


@pytest.mark.parametrize("text", ["a=1,b=2", "a=1 b=2", " a=1 ,  b=2 ", "a=\"1\" b='2'"])
def test_separators(text: str):
    assert read_options(text, "--x") == {"a": ("1",), "b": ("2",)}


def test_lists_end_where_the_next_option_begins():
    assert read_options("a=1,2,b=3,c", "--x") == {"a": ("1", "2"), "b": ("3", "c")}
    assert read_options("flag a=1,2 other-flag", "--x") == {
        "flag": (),
        "a": ("1", "2"),
        "other_flag": (),
    }


@pytest.mark.parametrize(
    ("t", "text"),
    [
        (int, "int"),
        (int | None, "int"),
        (tuple[int, ...], "int,..."),
        (tuple[int, float], "int,float"),
        (Literal["a", "b"], "a|b"),
        (tuple[int, ...] | str, "int,... or str"),
    ],
)
def test_type_text(t: object, text: str):
    assert type_text(t) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sample{count=1.5}", "expects int, got 1.5"),
        ("sample{count}", "expects int, got no value"),
        ("sample{mode=slow}", r"expects fast\|exact, got slow"),
        ("sample{sizes=1,x}", "expects int,..., got 1,x"),
        ("sample{cuont=1}", "did you mean 'count'"),
        ("smaple", "did you mean 'sample'"),
    ],
)
def test_errors(text: str, message: str):
    with pytest.raises(ParseError, match=message):
        build_pipeline(read_pipeline(text), {"sample": lambda: SamplePass})


@pytest.mark.parametrize(
    "text",
    [
        "builtin.module(func.func(cse,canonicalize),dce)",
        "builtin.module(dce,func.func(cse),any(cse,builtin.module(dce)))",
        "builtin.module(builtin.module(func.func(cse),dce))",
    ],
)
def test_nested_pipelines_print_as_they_are_read(text: str) -> None:
    passes = build_pipeline(read_pipeline(text), universe().all_passes)
    assert pipeline_text(passes) == text


def test_a_pass_that_fails_while_nested_leaves_the_module_whole() -> None:
    """The failing function is back in its place, for what reports on the module."""

    class Fails(ModulePass):
        name = "fails"
        LOCAL = True

        def apply(self, ctx: Context, op: ModuleOp) -> None:
            if "@b" in str(op):
                raise GeError("no")

    module = ModuleOp([FuncOp(n, ((), ()), Region(Block([ReturnOp()]))) for n in "abc"])
    with pytest.raises(GeError, match="no"):
        NestedPass.of(Fails(), ("func.func",)).apply(context(), module)
    assert [f.sym_name.data for f in module.ops if isinstance(f, FuncOp)] == ["a", "b", "c"]


def test_a_nested_pass_changes_no_more_than_its_op() -> None:
    class Adds(ModulePass):
        name = "adds"
        LOCAL = True

        def apply(self, ctx: Context, op: ModuleOp) -> None:
            op.body.block.add_op(FuncOp("new", ((), ()), Region(Block([ReturnOp()]))))

    module = ModuleOp([FuncOp("a", ((), ()), Region(Block([ReturnOp()])))])
    with pytest.raises(GeError, match=r"changed more than the 'func\.func' that it was run on"):
        NestedPass.of(Adds(), ("func.func",)).apply(context(), module)
