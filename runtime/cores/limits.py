"""What a kernel must keep to on a target, and what is said where it does not."""

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager

from ge.dialects.support.diagnostics import Diagnostic, Severity, error_at, location_of
from ge.dialects.support.errors import GeError
from ge.dialects.targets.target import Target
from ge.dialects.tile.compute import SetOp
from ge.dialects.tile.kernel import KernelOp
from ge.dialects.tile.transfers import PushOp
from ge.runtime.cores.program import Tables, offsets_of
from ge.runtime.cores.replay import MEET, PUSH, BadFlag, Stuck


def check_fits(kernel: KernelOp, target: Target) -> None:
    """Raises GeError for more cores than there are, and for a buffer outside of its memory."""
    for kind, count in kernel.cores_taken.items():
        if count > (have := target.cores[kind]):
            text = f"the kernel takes {count} {kind} cores, and '{target.name}' has {have}"
            raise error_at(kernel, text)
    for program in kernel.programs:
        for op in program.allocs:
            size, memory = target.core_memories[op.tile.space], op.tile.space
            end = max(offsets_of(op)) + op.tile.bytes
            if end > size:
                name = f" %{op.result.name_hint}" if op.result.name_hint else ""
                where = f"it ends at byte {end} of {size}"
                raise error_at(op, f"the buffer{name} does not fit into {memory}: {where}")


def check_meetings(tables: Tables, issues: Iterable[Sequence[Sequence[int]]]) -> None:
    """Raises GeError where not all cores come to as many barriers."""
    if all(record.kind != MEET for record in tables.records):
        return
    counts: set[int] = set()
    for issue in issues:
        queue = next((queue for queue in issue if queue), ())
        counts.add(sum(tables.records[n].kind == MEET for n in queue))
    if len(counts) > 1:
        few, many = min(counts), max(counts)
        message = f"some cores come to {few} barriers, and others to {many}, where they wait"
        raise error_at(tables.kernel, message, "tile.barrier is for all cores of a kernel")


@contextmanager
def explained(tables: Tables, issue: Sequence[Sequence[int]]) -> Generator[None]:
    """Raises GeError where pipes cannot go on, or flags are set wrongly."""
    try:
        yield
    except Stuck as stuck:
        notes: list[Diagnostic] = []
        for pipe, number in stuck.heads:
            record = tables.records[issue[pipe][number]]
            channel = ~record.channel if record.kind == PUSH else record.channel
            text = f"{tables.pipe_name(pipe)} waits for {tables.awaited(channel)}"
            op = tables.ops[record.op]
            notes.append(Diagnostic(Severity.NOTE, f"{text} at {op.name}", location_of(op)))
        message = f"the core stops for ever: {notes[0].message}"
        hint = "what pipes wait for is issued behind these waits, or not at all"
        raise GeError(message, str(notes[0].location), hint, notes[1:]) from None
    except BadFlag as bad:
        givers = (tables.ops[r.op] for r in tables.records if r.channel == bad.channel)
        op = next(op for op in givers if isinstance(op, SetOp | PushOp))
        name = tables.channels[bad.channel]
        if bad.left and isinstance(op, PushOp):
            raise error_at(op, f"{name} is not empty when the kernel ends", "pop all") from None
        if bad.left:
            raise error_at(op, f"{name} is still set when the kernel ends", "wait for it") from None
        hint = "wait for it before it is set again"
        raise error_at(op, f"{name} is set while it is set", hint) from None
