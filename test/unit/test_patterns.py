"""Regular expressions of users: they match what they match by `re`, and none takes for ever."""

import ast
import re
import sys
from collections.abc import Callable
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

import ge
from ge.dialects.graph.state import state_pairs
from ge.dialects.support.errors import GeError
from ge.dialects.support.patterns import user_pattern
from ge.lowering.cli.remark_flags import READERS
from ge.lowering.debugging.expected_diagnostics import expectations
from ge.lowering.text.reading import Source
from ge.transforms.fusion.assign_engines import choice
from ge.transforms.quantization.insert_quantization import patterns

ROOT = Path(ge.__file__).parents[1]
LIBRARY = ("dialects", "transforms", "runtime", "lowering")

# `re` takes ever longer for a text that they do not match
SLOW = [
    r"(a+)+$", r"(a*)*b", r"(.*)*x", r"(.+?)+?x", r"(\w+\s?)*$", r"(\w*\.?)*$", r"(x+x+)+y",
    r"(a|a)*b", r"(a|aa)+$", r"(ab|a|b)*c", r"(\d+|\d\d)+z", r"([^x]|y\b)*x", r"((?i:a)|A)+b",
    r"(a(|))*b", r"(?:a(b?)*)*c", r"(?=(a+)+$)a", r"(a|aa|aaa){1,40}(?<!a)b", r"(ab|(?:ab)+)*c",
    r"(.*a){20}", r"(a?){30}a{30}", "a?" * 30 + "a" * 30, "a*" * 12 + "b",
    r".*.*.*.*.*x", r"(\w+\s?){1,6}$", r"((a{1,3}){1,3}){1,9}b", r"(?!(a*)*b)(a*)*b",
]  # fmt: skip

# The same with what refers to a group, or is not tried again
ENDLESS = [r"(?>(a+)+b)", r"(a++|a)*b", r"(a+)\1*b(a|a)*", r"(a)?(?(1)(a*)*b|c)"]

USUAL = [
    r"", r"relu", r".*", r"past_key_values\.(.*)", r"h(.*)", r"a+b+c+", r"(.*)\1",
    r".*layers\.\d+\.(self_attn|mlp)\..*", r"^/model/.*/MatMul(_\d+)?$",
    r".*\.\d+\..*\.weight", r"(?!lm_head).*", r"(a++)+$", r"(?>a+)+$", r"(\w|\d)+x",
    r"(?:\d{1,3}\.){3}\d{1,3}", "|".join(rf"/layers\.{i}/.*MatMul_{i}" for i in range(200)),
]  # fmt: skip

# Harmless as well, though their ways are many
STEPWISE = [
    r"(\w+\.)*\w+", r".*\d+.*\d+", r"a.*b.*c.*d.*e.*f", r"(\w+/)*Conv_\d+",
    r"(?:[^.]+\.)+weight", r"[^.]*" + r"\.[^.]*" * 8, r"(encoder|decoder)(\.\w+)+$",
    r"(?i)(relu|gelu)+", r"(foo|fob|bar)+", r"((\w+)\.)+(?P<last>\w*?)(_\d+)?",
]  # fmt: skip

TEXTS = [
    "", "a", "aaaa", "aaab", "abab", "aaaaaaa!", "ababc", "AaB", "x.y_1", "relu", "ReLUgelu",
    "past_key_values.7.key", "encoder.layer.3.weight", "a/b/Conv_17", "fobbar", "1.22.333.4",
]  # fmt: skip


def calls(action: Callable[[], object]) -> int:
    """How many functions an action calls."""
    count = 0

    def called(_: object, event: str, __: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(called)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count


def agrees(text: str, subject: str) -> None:
    """What matches is what `re` matches, and so are the groups, except of one that may match
    nothing in a loop."""
    for how in ("fullmatch", "search"):
        want, got = (getattr(p, how)(subject) for p in (re.compile(text), user_pattern(text)))
        assert (got is None) == (want is None), (how, subject)
        if want and "*)*" not in text and "?)" not in text and "|)" not in text:
            assert (got.group(), got.groups()) == (want.group(), want.groups()), (how, subject)
            assert got.groupdict() == want.groupdict()
            if want.re.groups:
                assert got.expand(r"\g<0>-\1") == want.expand(r"\g<0>-\1")


@pytest.mark.parametrize("text", [*SLOW, *STEPWISE])
def test_what_has_many_ways_takes_few_steps(text: str):
    pattern = user_pattern(text)
    assert not isinstance(pattern, re.Pattern)
    for subject in TEXTS if text in STEPWISE else TEXTS[:9]:
        agrees(text, subject)
    for long in ("a" * 60 + "!", "ab" * 30 + "!", "x1 " * 20):
        for how in (pattern.search, pattern.fullmatch):
            assert calls(lambda: how(long)) < 200_000


@pytest.mark.parametrize("text", USUAL)
def test_what_is_usual_is_compiled_as_it_is(text: str):
    assert user_pattern(text) is re.compile(text)


@pytest.mark.parametrize("text", ENDLESS)
def test_what_no_steps_can_follow_is_refused(text: str):
    with pytest.raises(GeError, match="is a regular expression that may take for ever") as error:
        user_pattern(text)
    assert f"'{text}'" in error.value.message


LEAVES = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\w", r"\b", "^", "$", "(?i:B)", ""])
REPEATS = st.sampled_from(["*", "+", "?", "*?", "+?", "{2}", "{1,2}", "{0,2}?", "{2,}"])


def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    around = st.sampled_from(["(%s)", "(?:%s)", "(?=%s)", "(?!%s)", "%s|a", "%s", "(?:%s)(?<=b)"])
    return st.one_of(
        st.builds(lambda a, t: a % t, around, inner),
        st.builds("{}{}".format, inner, inner),
        st.builds("{}|{}".format, inner, inner),
        st.builds("(?:{}){}".format, inner, REPEATS),
    )


@given(st.recursive(LEAVES, larger, max_leaves=8), st.text("abB\n", max_size=7))
def test_whether_it_matches_is_as_by_re(text: str, subject: str):
    of_ge = user_pattern(f"(?:{text})(?:(?:){{0,9}}){{9}}")  # too many ways for `re`
    assert not isinstance(of_ge, re.Pattern)
    for how in ("fullmatch", "search"):
        want, got = (getattr(p, how)(subject) for p in (re.compile(text), of_ge))
        assert (got and got.group()) == (want and want.group())


def test_each_text_that_is_none_is_refused():
    for text in ("(a", "*", "a{2,1}", "(" * 5000, "x{99999999999}", "[a-z]*" * 20_000):
        with pytest.raises(GeError, match="is no regular expression"):
            user_pattern(text)


def _expected(text: str) -> None:
    _, wrong = expectations(Source("a.mlir", f"// expected-error-re {{{{a {{{{{text}}}}}}}}}\n"))
    for diagnostic in wrong:
        raise GeError(diagnostic.message)


TAKERS: dict[str, Callable[[str], object]] = {
    "state": lambda text: state_pairs({text: "y"}, [], []),
    "engine": lambda text: choice(f"{text}=vector"),
    "layers": lambda text: patterns([text]),
    "expected": _expected,
    **{flag: READERS[flag] for flag in ("--remarks-pass", "--remarks-text")},
}


@pytest.mark.parametrize("taker", TAKERS)
@pytest.mark.parametrize("text", ENDLESS)
def test_everything_that_takes_an_expression_refuses_it(taker: str, text: str):
    with pytest.raises(GeError) as error:
        TAKERS[taker](text)
    assert f"'{text}' is a regular expression that may take for ever" in str(error.value)


def _constant(node: ast.expr, names: set[str]) -> bool:
    """Whether what is compiled stands in the source, apart from text that is escaped."""
    match node:
        case ast.Constant():
            return True
        case ast.Name(id=name):
            return name in names or name.isupper()
        case ast.BinOp(left=a, right=b):
            return _constant(a, names) and _constant(b, names)
        case ast.JoinedStr(values=values) | ast.Set(elts=values):
            return all(_constant(v, names) for v in values)
        case ast.FormattedValue(value=value):
            return _constant(value, names) or isinstance(value, ast.BinOp)
        case ast.Call(func=ast.Attribute(attr="escape")):
            return True
        case _:
            return False


# Where a name stands for texts of a table in the same file
TABLES = {
    "transforms/quantization/accuracy.py": {"pattern"},
    "lowering/text/mistakes.py": {"pattern"},
    "lowering/cli/run.py": {"pattern"},
    "lowering/cli/claims.py": {"self.models"},
    "dialects/support/patterns.py": {"text", "escaped"},
}
FUNCTIONS = {"compile", "search", "match", "fullmatch", "sub", "split", "findall", "finditer"}


def test_re_itself_meets_expressions_of_the_source_alone():
    """So that an option which takes expressions takes them by `user_pattern`; and those of the
    source are none that it would refuse."""
    foreign = list[str]()
    for path in (p for folder in LIBRARY for p in (ROOT / folder).rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        text = path.read_text("utf-8")
        if "re." not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="re"), attr=attr), args=[first, *_]
                ) if attr in FUNCTIONS:
                    if isinstance(first, ast.Constant) and isinstance(first.value, str):
                        user_pattern(first.value)
                    elif ast.unparse(first) not in TABLES.get(name, ()) and not _constant(
                        first, TABLES.get(name, set())
                    ):
                        foreign.append(f"{name}:{node.lineno}: {ast.unparse(first)}")
                case _:
                    pass
    assert foreign == []
