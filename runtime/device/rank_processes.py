"""Ranks that will not begin, as the processes of this machine show them: MPI waits for ever for one
that has ended, or is stopped, before it met the others.

`mpiexec` starts the ranks of a machine from one process. What descends from that one and has the
number of a rank in its environment is a rank: its own process, what has started it, or its
children. There is nothing to see where a system has no `/proc`."""

import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ge.dialects.support.environment import RANKS, ranks_here

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Process:
    parent: int
    state: str  # a letter, as /proc has it: T is stopped, Z and X have ended
    rank: int | None

    @property
    def is_alive(self) -> bool:
        return self.state not in "ZX"


def processes() -> dict[int, Process]:
    """The processes of this machine, with the numbers of those that are of a rank."""
    found: dict[int, Process] = {}
    for entry in PROC.iterdir() if PROC.is_dir() else ():
        with suppress(OSError, ValueError, IndexError):
            state, parent = (entry / "stat").read_text("utf-8").rpartition(")")[2].split()[:2]
            found[int(entry.name)] = Process(int(parent), state, rank_in(entry / "environ"))
    return found


def rank_in(environ: Path) -> int | None:
    """The number of a rank in the environment of a process, if it can be read."""
    with suppress(OSError):
        pairs = (text.partition(b"=") for text in environ.read_bytes().split(b"\0"))
        numbers = {os.fsdecode(name): value for name, _, value in pairs}
        return next((int(numbers[name]) for name in RANKS if name in numbers), None)
    return None


def starter(found: Mapping[int, Process], pid: int) -> int:
    """The process that has started the rank which a process is of."""
    while pid in found and found[pid].rank is not None:
        pid = found[pid].parent
    return pid


def of_this_run(found: Mapping[int, Process]) -> dict[int, Process]:
    """The processes of ranks that were started as this one was."""
    own = starter(found, os.getpid())
    return {
        pid: process
        for pid, process in found.items()
        if process.rank is not None and starter(found, pid) == own
    }


def away() -> dict[int, str]:
    """The ranks of this machine that will not begin, and why: those that are stopped and, where
    all ranks are seen, those that have ended."""
    found = processes()
    alive = [p for p in of_this_run(found).values() if p.is_alive]
    gone = {p.rank: "is stopped" for p in alive if p.state == "T" and p.rank is not None}
    numbers, own = {p.rank for p in alive}, starter(found, os.getpid())
    others = [p for p in found.values() if p.parent == own and p.is_alive and p.rank is None]
    if own in found and not others:
        gone |= {n: "has ended" for n in range(ranks_here()) if n not in numbers}
    return gone


def kill_stopped() -> None:
    """End the ranks of this machine that are stopped: no other signal does."""
    for pid, process in of_this_run(processes()).items():
        if process.state == "T":
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
