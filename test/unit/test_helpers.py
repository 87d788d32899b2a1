"""Processes that help to write tile programs: what they write is the same, and what they fail at is
done without them."""

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from ge.dialects.support import processes
from ge.dialects.support.diagnostics import Diagnostic, diagnostic_handler
from ge.dialects.support.processes import Helpers, with_helpers
from ge.dialects.text.printing import op_text
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context
from ge.lowering.steps import kept_programs as kept
from ge.lowering.steps.lower_kernels import LowerKernelsPass

T = "tensor<40x70xf32>"
SOME = f"%x : ({T}) -> {T}"
OPS = [
    f"exp {SOME}",
    f"tanh {SOME}",
    f"erf {SOME}",
    f"exp {SOME}",
    f"tri %x upper false : ({T}) -> {T}",
]
KERNELS = "\n".join(
    f"npu_task.kernel @k{i} on vector {{\n^bb0(%x: {T}):\n"
    f"  %0 = graph.{op}\n  npu_task.return %0 : {T}\n}}"
    for i, op in enumerate(OPS)
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux")


def lowered(cache: Path | str, begin: bool = False) -> tuple[str, list[str]]:
    """The text with programs, and what is said about it; with `begin` helpers begin before."""
    found: list[Diagnostic] = []
    module = parse_module(context(), SourceText("k", KERNELS))
    with diagnostic_handler(found.append):
        if begin:
            before = op_text(module)
            LowerKernelsPass("910b2", True, str(cache), begin=True).apply(context(), module)
            assert op_text(module) == before
        LowerKernelsPass("910b2", finish=True, cache=str(cache)).apply(context(), module)
    return op_text(module), [d.message for d in found]


def children() -> set[int]:
    """The processes that this one has begun and not waited for."""
    tasks = Path(f"/proc/{os.getpid()}/task").iterdir()
    return {int(pid) for task in tasks for pid in (task / "children").read_text().split()}


@pytest.fixture
def others() -> set[int]:
    """Processes that other tests have left: libraries keep some until the end."""
    return children()


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch, others: set[int]) -> Iterator[list[int]]:
    """The helpers that are begun: two at a time, for any number of programs."""
    begun: list[int] = []
    fork = os.fork

    def watched() -> int:
        begun.append(child := fork())
        return child

    monkeypatch.setattr(os, "fork", watched)
    monkeypatch.setattr(Helpers, "most", 2)
    monkeypatch.setattr(kept, "WORTH", 1)
    with with_helpers():
        yield begun
    assert children() == others


@pytest.mark.parametrize("begin", [False, True])
def test_what_helpers_write_is_the_same(tmp_path: Path, forks: list[int], begin: bool):
    plain = lowered("")
    assert lowered(tmp_path, begin) == plain
    assert len(forks) == 2
    assert len(list(tmp_path.iterdir())) == 4  # two kernels are equal
    assert lowered(tmp_path, begin) == plain
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
    assert lowered(tmp_path, begin=True) == plain
    assert len(forks) == (2 if fails == "helper" else 0)
    assert capfd.readouterr().err == ""


def test_every_piece_is_done(tmp_path: Path):
    names = [str(i) for i in range(40)]
    with with_helpers() as crew:
        crew.begin(names, lambda name: (tmp_path / name).touch(), 3)
        for name in names:
            if crew.take(name):
                (tmp_path / name).touch()
        crew.finish()
        assert len(list(tmp_path.iterdir())) == 40
        assert crew.take("another")


def test_helpers_end_when_the_tool_fails(tmp_path: Path, others: set[int]):
    def work(name: str) -> None:
        (tmp_path / name).touch()
        sleep(0.01)

    with suppress(ValueError), with_helpers() as crew:
        crew.begin([str(i) for i in range(1000)], work, 1)
        raise ValueError("tool")
    assert len(list(tmp_path.iterdir())) < 1000
    assert children() == others


def test_who_has_helpers(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2})
    monkeypatch.setattr(processes, "active_count", lambda: 1)
    assert processes.helpers() is None
    with with_helpers() as crew:
        assert processes.helpers() is crew
        assert crew.most == 2
        monkeypatch.setattr(processes, "active_count", lambda: 2)
        assert crew.most == 0
