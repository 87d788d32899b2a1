"""Processes that help to write tile programs: what they write is the same, and what they fail at is
done without them."""

import os
import sys
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from ge.dialects.support.diagnostics import Diagnostic, diagnostic_handler
from ge.lowering.driver.compiler import context
from ge.lowering.kernels import helpers, kept
from ge.lowering.kernels.helpers import process_of, share
from ge.lowering.kernels.lower_kernels import LowerKernelsPass
from ge.lowering.text.printing import op_text
from ge.lowering.text.reading import Source, parse_module

T = "tensor<40x70xf32>"
SOME = f"%x : ({T}) -> {T}"
OPS = [f"exp {SOME}", f"tanh {SOME}", f"erf {SOME}", f"exp {SOME}", f"tri %x : {T} -> {T}"]
KERNELS = "\n".join(
    f"npu_task.kernel @k{i} on vector {{\n^bb0(%x: {T}):\n"
    f"  %0 = graph.{op}\n  npu_task.return %0 : {T}\n}}"
    for i, op in enumerate(OPS)
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux")


def lowered(cache: Path | str) -> tuple[str, list[str]]:
    """The text with programs, and what is said about it."""
    found: list[Diagnostic] = []
    module = parse_module(context(), Source("k", KERNELS))
    with diagnostic_handler(found.append):
        LowerKernelsPass("910b2", finish=True, cache=str(cache)).apply(context(), module)
    return op_text(module), [d.message for d in found]


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The helpers that are begun: two at a time, for any number of programs."""
    begun: list[int] = []
    fork = os.fork

    def watched() -> int:
        begun.append(child := fork())
        return child

    monkeypatch.setattr(os, "fork", watched)
    monkeypatch.setattr(kept, "helpers", lambda: 2)
    monkeypatch.setattr(kept, "WORTH", 2)
    return begun


def test_what_helpers_write_is_the_same(tmp_path: Path, forks: list[int]):
    plain = lowered("")
    assert lowered(tmp_path) == plain
    assert len(forks) == 2
    assert len(list(tmp_path.iterdir())) == 4  # two kernels are equal, one has no program
    assert lowered(tmp_path) == plain
    assert len(forks) == 2  # nothing is left to write


@pytest.mark.parametrize("fails", ["helper", "fork"])
def test_what_helpers_fail_at_is_done_without_them(
    tmp_path: Path, forks: list[int], monkeypatch: pytest.MonkeyPatch, fails: str,
    capfd: pytest.CaptureFixture[str],
):  # fmt: skip
    plain, here, write = lowered(""), os.getpid(), kept.new_entry

    def failing(*args: Any) -> Any:
        if os.getpid() != here:
            raise MemoryError
        return write(*args)

    def refused() -> int:
        raise BlockingIOError

    if fails == "fork":
        monkeypatch.setattr(os, "fork", refused)
    monkeypatch.setattr(kept, "new_entry", failing)
    assert lowered(tmp_path) == plain
    assert len(forks) == (2 if fails == "helper" else 0)
    assert capfd.readouterr().err == ""


def test_every_piece_is_done(tmp_path: Path):
    share(40, lambda number: (tmp_path / str(number)).touch(), most=3)
    assert len(list(tmp_path.iterdir())) == 40


def test_helpers_end_when_the_tool_fails():
    here = os.getpid()

    def work(number: int) -> None:
        if os.getpid() == here:
            raise ValueError(number)
        sleep(0.01)

    with pytest.raises(ValueError, match=r"\d+"):
        share(1000, work, most=1)
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_who_has_helpers(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2})
    monkeypatch.setattr(helpers, "active_count", lambda: 1)
    assert helpers.helpers() == 0
    with process_of(tool=True):
        assert helpers.helpers() == 2
        with process_of(tool=False):
            assert helpers.helpers() == 0
        monkeypatch.setattr(helpers, "active_count", lambda: 2)
        assert helpers.helpers() == 0
