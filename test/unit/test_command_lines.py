"""What command lines are made of: files of arguments, colours."""

import io
import re
from pathlib import Path

import pytest

from ge.dialects.support.diagnostics import Diagnostic, Severity, SourceLocation
from ge.dialects.support.errors import GeError
from ge.dialects.text.errors import Sources
from ge.dialects.text.look import When, wanted
from ge.dialects.text.reading import SourceText
from ge.tools.cli.command_line import expanded, split


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        (" a\tb\n\nc ", ["a", "b", "c"]),
        ("'a b' \"c d\" e'f'\"g\"", ["a b", "c d", "efg"]),
        ("''", [""]),
        (r"a\ b '\'' \\ \"", ["a b", "'", "\\", '"']),
        ("-p='builtin.module(cse, dce)'", ["-p=builtin.module(cse, dce)"]),
    ],
)
def test_words_of_a_file_of_arguments(text: str, words: list[str]):
    assert split(text, "f") == words


def test_files_of_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("a").write_text("x @b y")
    Path("b").write_text("1 2")
    Path("c").write_text("@d")
    Path("d").write_text("@c")
    Path("@input").write_text("")
    assert expanded(["0", "@a", "@a"]) == ["0", "x", "1", "2", "y", "x", "1", "2", "y"]
    assert expanded(["@input", "@", "--", "@a"]) == ["@input", "@", "--", "@a"]
    with pytest.raises(GeError, match="'@c' is in itself"):
        expanded(["@c"])
    with pytest.raises(GeError, match=r"cannot read the arguments in 'none': No such file"):
        expanded(["@none"])


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colours_are_for_terminals(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert wanted(When.AUTO, Terminal())
    assert not wanted(When.AUTO, io.StringIO())
    assert wanted(When.ALWAYS, io.StringIO())
    assert not wanted(When.NEVER, Terminal())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not wanted(When.AUTO, Terminal())
    assert wanted(When.ALWAYS, Terminal())  # asked for on the command line
    monkeypatch.setenv("NO_COLOR", "")
    monkeypatch.setenv("TERM", "dumb")
    assert not wanted(When.AUTO, Terminal())


def test_colours_change_no_text():
    sources = Sources(SourceText("f", "a b\n"))
    note = Diagnostic(Severity.NOTE, "here", SourceLocation("f", 1, 1))
    error = Diagnostic(Severity.ERROR, "wrong\x1b[31m", SourceLocation("f", 1, 3), (note,))
    plain, painted = sources.render(error), sources.render(error, colours=True)
    assert plain == "f:1:3: error: wrong\\x1b[31m\na b\n  ^\nf:1:1: note: here\na b\n^"
    assert painted.startswith("\x1b[1mf:1:3: \x1b[0m\x1b[1;31merror: \x1b[0m\x1b[1mwrong\\x1b[31m")
    assert re.sub(r"\x1b\[[0-9;]*m", "", painted) == plain
