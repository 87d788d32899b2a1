"""Proposal of state that a program could keep on the device between its runs, and of the time that
this would save."""

from dataclasses import dataclass

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from ge.dialects.graph.stated import likely_states
from ge.dialects.support.operation import yielded
from ge.runtime.clock.timeline import DMA_IN, DMA_OUT, Timeline
from ge.runtime.device.ports import input_ports, output_ports, typed


@dataclass(frozen=True, slots=True)
class StateProposal:
    """Inputs that look like state, and the time that their copies keep the link busy one way."""

    inputs: int
    copies_us: float
    latency_us: float
    patterns: tuple[str, ...]
    machine: str  # which, and where the times come from

    def __str__(self) -> str:
        copies, latency = self.copies_us / 1000, self.latency_us / 1000
        option = f"--state '{','.join(self.patterns)}'"
        return (
            f"{self.inputs} inputs look like state: {copies:,.1f} of {latency:,.1f} ms on "
            f"{self.machine}, are their copies ({option} keeps them on the device)"
        )


def propose_state(main: FuncOp, timeline: Timeline) -> StateProposal | None:
    """Propose state for a program; None if no input looks like state."""
    inputs, outputs = input_ports(main), output_ports(main)
    found = likely_states(typed(inputs), typed(outputs))
    if not found:
        return None
    pairs = [pair for group in found.values() for pair in group]
    names = [[p.name for p in ports] for ports in (inputs, outputs)]
    arguments = {main.args[names[0].index(i)] for i, _ in pairs}
    results = {yielded(main.body.block)[names[1].index(o)] for _, o in pairs}
    busy = dict.fromkeys((DMA_IN, DMA_OUT), 0.0)
    for task in timeline.tasks:
        values: set[object] = set(ends(task.op))
        if task.engine in busy and not values.isdisjoint(arguments | results):
            busy[task.engine] += task.duration_us
    if not (copies := max(busy.values())):
        return None
    return StateProposal(len(pairs), copies, timeline.latency_us, tuple(found), timeline.machine)


def ends(op: Operation) -> list[object]:
    return [*op.operands, *op.results]
