"""What ge-opt's verifiers refuse, every tool refuses with the same message at the same place."""

import re
from pathlib import Path

import pytest

import ge
from ge.dialects.text.errors import diagnose
from ge.dialects.text.reading import SourceText
from ge.tools.commands import ge_compile, ge_opt, ge_run

TESTS = Path(__file__).resolve().parents[1]
NEGATIVE = sorted(
    p for p in TESTS.rglob("*.mlir") if re.search(r"expected-error|\bnot ge-", p.read_text("utf-8"))
)


@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("file", NEGATIVE, ids=lambda p: str(p.relative_to(TESTS)))
def test_every_tool_refuses_it(
    file: Path,
    every: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    """Parts of a file, each or every so many."""
    monkeypatch.chdir(tmp_path)
    text = file.read_text("utf-8")
    for i, part in enumerate(SourceText(file.name, text).split()[::every]):
        name = f"{i}.mlir"
        Path(name).write_text(part.text, "utf-8")
        if not ge_opt([name]):
            capsys.readouterr()
            continue
        expected = capsys.readouterr().err.splitlines()[0].removeprefix("ge-opt: ")
        for tool, main in (("ge-compile", ge_compile), ("ge-run", ge_run)):
            assert main([name]) == 1, expected
            assert capsys.readouterr().err.splitlines()[0].removeprefix(f"{tool}: ") == expected
        with pytest.raises(Exception) as info:  # noqa: PT011
            ge.compile(name)
        assert str(diagnose(info.value)) == expected


def test_there_are_many():
    assert len(NEGATIVE) > 40
