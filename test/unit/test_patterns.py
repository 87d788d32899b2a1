"""Regular expressions of users: they match what they match by `re`, and none takes for ever."""

import ast
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import regex

import ge
from ge.dialects.graph.stated import state_pairs
from ge.dialects.support import patterns as module
from ge.dialects.support.errors import GeError
from ge.dialects.support.patterns import UserPattern, user_pattern
from ge.dialects.text.reading import SourceText
from ge.tools.cli.flags import READERS
from ge.tools.debugging.verification import expectations
from ge.transforms.fusion.assign_engines import choice
from ge.transforms.quantization.insert_quantization import patterns

ROOT = Path(ge.__file__).parents[1]
LIBRARY = ("dialects", "transforms", "runtime", "lowering")

# Many ways: `re` takes ever longer for a text that they do not match
SLOW = [
    r"(a+)+$", r"(a*)*b", r"(.*)*x", r"(.+?)+?x", r"(\w+\s?)*$", r"(x+x+)+y", r"(a|a)*b",
    r"(a|aa)+$", r"(ab|a|b)*c", r"([^x]|y\b)*x", r"(a(|))*b", r"(?=(a+)+$)a",
    r"(a|aa|aaa){1,40}(?<!a)b", r"(.*a){20}", r"(a?){30}a{30}", "a*" * 12 + "b", r".*.*.*.*.*x",
    r"(\w+\s?){1,6}$",
    r"((a{1,3}){1,3}){1,9}b", r"(?>(a+)+b)", r"(a+)\1*b(a|a)*", r"(a)?(?(1)(a*)*b|c)",
]  # fmt: skip

USUAL = [
    r"", r"relu", r".*", r"past_key_values\.(.*)", r"h(.*)", r"a+b+c+", r"(.*)\1",
    r".*layers\.\d+\.(self_attn|mlp)\..*", r"^/model/.*/MatMul(_\d+)?$",
    r".*\.\d+\..*\.weight", r"(?!lm_head).*", r"(a++)+$", r"(?>a+)+$", r"(\w|\d)+x",
    r"(?:\d{1,3}\.){3}\d{1,3}", "|".join(rf"/layers\.{i}/.*MatMul_{i}" for i in range(200)),
    r"(\w+\.)*\w+", r".*\d+.*\d+", r"a.*b.*c.*d.*e.*f", r"(\w+/)*Conv_\d+",
    r"(?:[^.]+\.)+weight", r"[^.]*" + r"\.[^.]*" * 8, r"(encoder|decoder)(\.\w+)+$",
    r"(?i)(relu|gelu)+", r"(foo|fob|bar)+", r"((\w+)\.)+(?P<last>\w*?)(_\d+)?",
]  # fmt: skip

TEXTS = [
    "", "a", "aaaa", "aaab", "abab", "aaaaaaa!", "ababc", "AaB", "x.y_1", "relu", "ReLUgelu",
    "past_key_values.7.key", "encoder.layer.3.weight", "a/b/Conv_17", "fobbar", "1.22.333.4",
]  # fmt: skip


@pytest.mark.parametrize("text", [*SLOW, *USUAL])
def test_what_matches_is_what_matches_by_re(text: str):
    for subject in TEXTS[:9] if text in SLOW else TEXTS:
        for how in ("fullmatch", "search"):
            want, got = (getattr(p, how)(subject) for p in (re.compile(text), user_pattern(text)))
            assert (got is None) == (want is None), (how, subject)
            if want and text in USUAL:
                assert (got.group(), got.groups()) == (want.group(), want.groups())
                assert got.expand(r"<\g<0>>") == want.expand(r"<\g<0>>")


def test_nothing_takes_for_ever(monkeypatch: pytest.MonkeyPatch):
    """Neither a search, nor thousands of searches each of which ends."""
    monkeypatch.setattr(module, "PATIENCE", 0.1)
    ended = 0
    for text in SLOW:
        pattern = UserPattern(text, f"x '{text}'", regex.compile(text), left=0.1)
        subjects = [c * n for c in ("a", "ab", "x1 ") for n in range(10, 100, 5)]
        message = ""
        try:
            for subject in subjects:
                pattern.search(f"{subject}!")
        except GeError as error:
            message, ended = error.message, ended + 1
        assert not message or message.startswith(f"x '{text}' takes more than 0.1 s, as on '")
    assert ended  # (a|aa)+$ for one


def test_each_text_that_is_none_is_refused():
    for text in ("(a", "*", "a{2,1}", "(" * 5000, "x{99999999999}"):
        with pytest.raises(GeError, match="is no regular expression"):
            user_pattern(text)


def _expected(text: str) -> None:
    _, wrong = expectations(
        SourceText("a.mlir", f"// expected-error-re {{{{a {{{{{text}}}}}}}}}\n")
    )
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
def test_everything_that_takes_an_expression_refuses_what_is_none(taker: str):
    with pytest.raises(GeError, match=r"'\(a' is no regular expression"):
        TAKERS[taker]("(a")


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
    "dialects/text/mistakes.py": {"pattern"},
    "tools/cli/parsers.py": {"pattern"},
    "tools/cli/bench.py": {"self.models"},
    "dialects/support/patterns.py": {"text"},
}
FUNCTIONS = {"compile", "search", "match", "fullmatch", "sub", "split", "findall", "finditer"}


def test_re_itself_meets_expressions_of_the_source_alone():
    """So that an option which takes expressions takes them by `user_pattern`."""
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
                    if ast.unparse(first) not in TABLES.get(name, ()) and not _constant(
                        first, TABLES.get(name, set())
                    ):
                        foreign.append(f"{name}:{node.lineno}: {ast.unparse(first)}")
                case _:
                    pass
    assert foreign == []
