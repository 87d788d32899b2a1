"""Remarks as asked for: filters, LLVM's YAML, the summary by rule."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ge.dialects.support.diagnostics import Diagnostic, RemarkFacts, Severity
from ge.dialects.support.remark_kinds import RemarkKind
from ge.tools.cli.remarks import Remarks, quoted, summary_lines, yaml_lines
from ge.tools.commands import ge_compile, ge_opt
from ge.transforms.rewriting import remarks

TEXT = """
func.func @main(%x: tensor<8x64xf32>, %w: tensor<64x32xf32>, %b: tensor<32xf32>)
    -> (tensor<8x32xf32>, tensor<8x32xf32>, tensor<8x32xf32>) {
  %0 = graph.matmul %x, %w : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  %1 = graph.add %0, %b : (tensor<8x32xf32>, tensor<32xf32>) -> tensor<8x32xf32>
  %2 = graph.sigmoid %1 : (tensor<8x32xf32>) -> tensor<8x32xf32>
  %3 = graph.mul %1, %2 : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
  %4 = graph.constant dense<1.41421354> : tensor<f32>
  %5 = graph.constant dense<1.0> : tensor<f32>
  %6 = graph.div %3, %4 : (tensor<8x32xf32>, tensor<f32>) -> tensor<8x32xf32>
  %7 = graph.erf %6 : (tensor<8x32xf32>) -> tensor<8x32xf32>
  %8 = graph.add %7, %5 : (tensor<8x32xf32>, tensor<f32>) -> tensor<8x32xf32>
  %9 = graph.mul %8, %3 : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
  func.return %0, %9, %7 : tensor<8x32xf32>, tensor<8x32xf32>, tensor<8x32xf32>
}
"""


@pytest.fixture
def module(tmp_path: Path) -> str:
    path = tmp_path / "m.mlir"
    path.write_text(TEXT)
    return str(path)


def told(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    capfd.readouterr()
    assert not ge_compile([*arguments, "-o", os.devnull])
    return capfd.readouterr().err


def documents(text: str) -> list[dict[str, Any]]:
    """What a reader of LLVM's remarks takes: documents with a tag, keys, and arguments in order."""
    found: list[dict[str, Any]] = []
    for part in re.findall(r"^--- !(Passed|Missed|Analysis)\n(.*?)^\.\.\.\n", text, re.M | re.S):
        document: dict[str, Any] = {"kind": part[0], "Args": []}
        for line in part[1].splitlines():
            key, value = re.fullmatch(r"(?:  - )?(\w+): *(.*)", line).groups()  # pyright: ignore
            if line.startswith("  - "):
                document["Args"].append((key, value.strip('"')))
            elif key != "Args":
                document[key] = value
        found.append(document)
    return found


def test_yaml_has_what_llvm_s_viewers_read(module: str, capfd: pytest.CaptureFixture[str]):
    found = documents(told(capfd, module, "--remarks=yaml"))
    lines = told(capfd, module, "--remarks").splitlines()
    assert len(found) == sum("remark: " in line for line in lines) > 1
    kinds = {d["kind"] for d in found}
    assert kinds == {"Passed", "Missed"}
    silu = next(d for d in found if d["Name"] == "find-silu")
    assert silu["Pass"] == "find-activations"
    assert silu["Function"] == "main"
    assert silu["DebugLoc"] == f'{{ File: "{module}", Line: 6, Column: 8 }}'
    assert silu["Args"][-1] == ("String", " us won")
    for document in found:
        assert all(key in document for key in ("Pass", "Name", "Function", "Args"))


def test_an_analysis_of_a_node_without_a_text():
    facts = RemarkFacts(why='say "a"\n', running="p")
    text = "".join(
        f"{line}\n" for line in yaml_lines([Diagnostic(Severity.REMARK, "", remark=facts)])
    )
    (document,) = documents(text)
    assert document["kind"] == "Analysis"
    assert "DebugLoc" not in document
    assert document["Name"] == "p"
    assert quoted("true story") == '"true story"'
    assert quoted("plain-name_1") == "plain-name_1"
    assert quoted("on") == '"on"'  # else a truth value
    assert quoted("\u540d \U0001f600\x85") == '"\\U0000540d \\U0001f600\\U00000085"'
    empty = Diagnostic(Severity.REMARK, "", remark=RemarkFacts(RemarkKind.PASSED, "r"))
    assert "Args:            []" in yaml_lines([empty])  # readers go through a list


def test_filters(module: str, capfd: pytest.CaptureFixture[str]):
    every = told(capfd, module, "--remarks").splitlines()

    def lines(*flags: str) -> list[str]:
        return told(capfd, module, "--remarks", *flags).splitlines()[:-1]

    assert lines("--remarks-kind", "passed,missed,analysis") == every[:-1]
    missed = lines("--remarks-kind", "missed")
    assert missed
    assert all(" missed: " in line for line in missed)
    passed = lines("--remarks-kind", "passed")
    assert len(passed) + len(missed) == len(every) - 1
    assert all("fuse-bias" in line for line in lines("--remarks-pass", "fuse-bias"))
    by_pass = lines("--remarks-pass", "^find-activations$")
    assert len(set(by_pass)) == 2
    silu = [line for line in by_pass if "find-silu applied" in line]
    assert [line for line in lines("--remarks-text", r"m\.mlir:6:") if "find-" in line] == silu


def test_the_summary_adds_up(module: str, capfd: pytest.CaptureFixture[str]):
    text = told(capfd, module, "--remarks=summary")
    documents_ = documents(told(capfd, module, "--remarks=yaml"))
    again = [d for i, d in enumerate(documents_) if d["kind"] == "Missed" and d in documents_[:i]]
    assert again  # passes that run twice miss the same
    documents_ = [d for d in documents_ if not any(d is other for other in again)]
    won, lost = 0.0, 0.0
    for d in documents_:
        us = sum(float(v) for k, v in d["Args"] if k == "Microseconds")
        won, lost = (won + us, lost) if d["kind"] == "Passed" else (won, lost + us)
    total = next(line for line in text.splitlines() if line.startswith("all ")).split()
    assert total[1:3] == [
        str(sum(d["kind"] == kind for d in documents_)) for kind in ("Passed", "Missed")
    ]
    assert float(total[4]) == pytest.approx(won, abs=0.05)
    assert float(total[5]) == pytest.approx(lost, abs=0.05)


def test_rules_that_lose_most_come_first():
    def remark(rule: str, kind: RemarkKind, us: float | None, why: str = "") -> Diagnostic:
        facts = RemarkFacts(kind, rule, why, us, "a-pass")
        return Diagnostic(Severity.REMARK, "", remark=facts)

    passed, missed = RemarkKind.PASSED, RemarkKind.MISSED
    told = [
        remark("b", passed, 5.0), remark("a", passed, None), remark("c", missed, 2.0),
        remark("c", missed, 2.0), remark("c", missed, 1.5, "else"),
    ]  # fmt: skip
    other = Diagnostic(Severity.REMARK, "", remark=RemarkFacts(why="x"))
    lines = list(summary_lines([*told, other]))
    assert [line.split()[0] for line in lines[1:-2]] == ["c", "b", "a", "driver"]
    assert lines[1].split() == ["c", "0", "2", "0", "0.0", "3.5", "a-pass"]
    assert lines[-2].split() == ["all", "2", "2", "1", "5.0", "3.5"]


def test_remarks_go_to_a_file(module: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    file = tmp_path / "m.opt.yaml"
    assert "--- !" not in told(capfd, module, "--remarks=yaml", "--remarks-output", str(file))
    assert documents(file.read_text())
    assert Remarks().take(Diagnostic(Severity.REMARK, "")) is False
    assert ge_compile([module, "--remarks", "--remarks-output", module]) == 1
    assert "is an input" in capfd.readouterr().err or Path(module).read_text() == TEXT


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--remarks-kind", "passed"], "--remarks-kind is of --remarks; add --remarks"),
        (["--remarks", "--remarks-kind", "missd"], "did you mean 'missed'?"),
        (["--remarks=yml"], "one of text, yaml, summary, not 'yml'"),
        (["--remarks", "--remarks-pass", "fuse-linar"], "did you mean 'fuse-linear'?"),
        (["--remarks", "--remarks-pass", "f["], "is no regular expression"),
    ],
)
@pytest.mark.parametrize("tool", [ge_compile, ge_opt])
def test_what_cannot_be_asked_for(
    module: str, tool: Any, flags: list[str], text: str, capfd: pytest.CaptureFixture[str]
):
    assert tool([module, *flags]) == 1
    (line,) = capfd.readouterr().err.strip().splitlines()
    assert text in line


@pytest.mark.parametrize("main", [ge_compile, ge_opt])
def test_remarks_that_nobody_asks_for_are_not_made(
    main: Callable[[list[str]], int], module: str, monkeypatch: pytest.MonkeyPatch
):
    made: list[str] = []
    monkeypatch.setattr(remarks, "_add", lambda op, remark: made.append(remark.rule))
    line = ["-p", "find-activations,fuse-linear"] if main is ge_opt else []
    assert main([module, *line]) == 0
    assert made == []
    assert main([module, *line, "--remarks"]) == 0
    assert "fuse-linear" in made
