"""Regular expressions of users: what would be tried for ever is refused before it meets a text, and
what names of models are picked by is not."""

import ast
import re
from collections.abc import Callable
from pathlib import Path

import pytest

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

ENDLESS = [
    r"(a+)+$", r"(a*)*b", r"(.*)*x", r"(.+?)+?x", r"(\w+\s?)*$", r"(\w*\.?)*$", r"(x+x+)+y",
    r"(a|a)*b", r"(a|aa)+$", r"(ab|a|b)*c", r"(\d+|\d\d)+z", r"([^x]|y\b)*x", r"((?i:a)|A)+b",
    r"(a(|))*b", r"(?:a(b?)*)*c", r"(?=(a+)+$)a", r"(?>(a+)+b)", r"(a++|a)*b", r"(a+)\1*b(a|a)*",
    r"(.*a){20}", r"(a{1,3}){1,9}$", r"(a?){30}a{30}", "a?" * 30 + "a" * 30, "a*" * 12 + "b",
    r".*.*.*.*.*x", r"(\w+\s?){1,6}$",
]  # fmt: skip

USUAL = [
    r"", r"relu", r".*", r"past_key_values\.(.*)", r"h(.*)", r"a+b+c+", r"(\w+\.)*\w+", r"(.*)\1",
    r".*layers\.\d+\.(self_attn|mlp)\..*", r"^/model/.*/MatMul(_\d+)?$", r"(foo|fob|bar)+",
    r"(?:\d{1,3}\.){3}\d{1,3}", r".*\.\d+\..*\.weight", r"(?!lm_head).*", r"a.*b.*c.*d.*e.*f",
    r"(\w+/)*Conv_\d+", r"(?:[^.]+\.)+weight", r"[^.]*" + r"\.[^.]*" * 8, r".*\d+.*\d+",
    r"(encoder|decoder)(\.\w+)+$", r"(?i)(relu|gelu)+", r"(a++)+$", r"(?>a+)+$", r"(\w|\d)+x",
    "|".join(rf"/layers\.{i}/.*MatMul_{i}" for i in range(200)),
]  # fmt: skip


@pytest.mark.parametrize("text", ENDLESS)
def test_what_may_take_for_ever_is_refused(text: str):
    with pytest.raises(GeError, match="is a regular expression that may take for ever") as error:
        user_pattern(text)
    assert f"'{text}'" in error.value.message
    assert "[^.]*" in error.value.hint


@pytest.mark.parametrize("text", USUAL)
def test_what_is_usual_is_compiled_as_it_is(text: str):
    pattern = user_pattern(text)
    assert pattern is re.compile(text)
    pattern.search("a" * 40 + "!")  # at once


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
@pytest.mark.parametrize("text", [r"(a+)+$", r"(a|a)*b", r"(.*)*x", r"(\w+\s?)*$"])
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
    "dialects/support/patterns.py": {"text"},
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
