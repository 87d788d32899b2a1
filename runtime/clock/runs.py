"""Times of many runs of a program that overlap: the copies of the next inputs and of the last
outputs run while a run computes (`Session.run_many`).

Inputs and outputs that have slots of their own (`npu_task/memory.py`) have `prefetch` of each, in
turn; the arena is there once. So, for run n,

- copies of inputs wait for those of run n - 1 on their stream, and until run n - prefetch has
  computed: its inputs are overwritten;
- what computes waits until run n - 1 has, and until the outputs of run n - prefetch are copied;
- copies of outputs wait for those of run n - 1 on their stream.

All else is as in one run; what L2 has of operands too. A program with branches or loops ends before
its next run begins: the host, which issues their tasks, waits for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from ge.dialects.graph.stated import growing_symbol
from ge.dialects.npu_task.attributes import figure
from ge.dialects.npu_task.memory import Place, input_places, output_places
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.support.types import align_up, byte_size
from ge.dialects.targets.target import Target
from ge.runtime.clock.clock import simulate
from ge.runtime.clock.simulation import Simulation
from ge.runtime.clock.timeline import Task, Timeline, again

INPUTS, COMPUTE, OUTPUTS = "inputs", "compute", "outputs"
STAGES = (INPUTS, COMPUTE, OUTPUTS)


@dataclass(slots=True)
class Runs:
    """So many runs of a program, and how long each stage of one takes alone."""

    timeline: Timeline
    runs: int
    prefetch: int
    stages_us: dict[str, float]
    interval_us: float  # from the end of a run to that of the next one, on average
    io_bytes: int  # of the slots of inputs and outputs of all sets

    @property
    def slowest(self) -> str:
        return max(STAGES, key=lambda stage: self.stages_us[stage])

    def report(self) -> dict[str, object]:
        return {
            "runs": self.runs,
            "prefetch": self.prefetch,
            "total_us": self.timeline.latency_us,
            "interval_us": self.interval_us,
            "per_second": 1e6 / self.interval_us if self.interval_us else 0.0,
            "slowest_stage": self.slowest,
            "stages_us": self.stages_us,
            "io_bytes": self.io_bytes,
        }

    def __str__(self) -> str:
        stages = ", ".join(f"{stage} {us:,.1f}" for stage, us in self.stages_us.items())
        return (
            f"{self.runs} runs, prefetch {self.prefetch}: {self.interval_us:,.1f} us each on "
            f"{self.timeline.machine}, "
            f"{1e6 / max(self.interval_us, 1e-9):,.0f} a second; us of the stages: {stages}; "
            f"{self.io_bytes} bytes of inputs and outputs"
        )


def simulate_runs(
    module: ModuleOp, target: Target, runs: int, prefetch: int, one: Timeline | None = None
) -> Runs:
    """Simulate so many runs. `one`: the timeline of a single one, if known. Raises GeError for a
    program that cannot be timed, and if the target has no memory for so many sets of inputs and
    outputs."""
    main = main_function(module)
    assert main is not None
    kind, places = staged(main)
    one = one or simulate(module, target)
    if any(op.regions for op in main.body.block.ops):
        one.notes.append("branches and loops: runs do not overlap")
    io_bytes = check_memory(main, target, prefetch, places)
    if not kind:
        latency, total = one.latency_us, Timeline(target)
        total.append(one, runs)
        stages = {INPUTS: 0.0, COMPUTE: latency, OUTPUTS: 0.0}
        return Runs(total, runs, prefetch, stages, latency, io_bytes)
    stages = {s: alone([t for t in one.tasks if stage_of(t, kind) == s], target) for s in STAGES}
    issued = issue_runs(one.tasks, kind, runs, prefetch)
    tasks = [t for run in issued for t in run]
    timeline = Simulation(tasks, target, host_driven=False).run()
    timeline.notes = one.notes
    ends = [max((t.end_us for t in run), default=0.0) for run in issued]
    interval = (ends[-1] - ends[0]) / (runs - 1) if runs > 1 else timeline.latency_us
    return Runs(timeline, runs, prefetch, stages, interval, io_bytes)


def overlapping(main: FuncOp, one: Timeline, runs: int, prefetch: int) -> list[Task]:
    """The tasks of so many runs of a program in the order of issue, with the tasks that each waits
    for."""
    kind, _ = staged(main)
    return [t for run in issue_runs(one.tasks, kind, runs, prefetch) for t in run] if kind else []


def staged(main: FuncOp) -> tuple[dict[Operation, str], list[Place]]:
    """The tasks of a program that copy inputs or outputs, with their stages, and where these are;
    none where runs do not overlap. Raises GeError where a run needs the state of the last one to
    know its inputs."""
    if (symbol := growing_symbol(main)) is not None:
        text = f"runs of a program whose states grow with '{symbol}' do not overlap"
        raise GeError(text, hint="simulate one, at --dim NAME=N rows")
    block = main.body.block
    if any(op.regions for op in block.ops):
        return {}, []
    inputs, outputs = input_places(block).values(), output_places(block).values()
    kind: dict[Operation, str] = {p.task: INPUTS for p in inputs}
    return kind | {p.task: OUTPUTS for p in outputs}, [*inputs, *outputs]


def stage_of(task: Task, kind: dict[Operation, str]) -> str:
    return kind.get(task.op, COMPUTE)


def alone(tasks: Sequence[Task], target: Target) -> float:
    """The time of some tasks of a run without the others."""
    return Simulation(again(tasks, replace), target, host_driven=False).run().latency_us


def issue_runs(
    tasks: Sequence[Task], kind: dict[Operation, str], runs: int, prefetch: int
) -> list[list[Task]]:
    """The tasks of all runs, with the tasks that each waits for."""
    nothing: dict[str, list[Task]] = {stage: [] for stage in STAGES}
    issued: list[list[Task]] = []
    ends: list[dict[str, list[Task]]] = []  # of each run, by stage, the tasks that end it
    streams: dict[tuple[str, int], Task] = {}  # the last copy of each stage on each stream
    for number in range(runs):
        run = again(tasks, partial(replace, run=number))
        by_stage = {s: [t for t in run if stage_of(t, kind) == s] for s in STAGES}
        before = ends[-1][COMPUTE] if ends else []
        old = ends[number - prefetch] if number >= prefetch else nothing
        for t in starts(by_stage[COMPUTE]):
            t.after = [*t.after, *before, *old[OUTPUTS]]
        for t in starts(by_stage[INPUTS]):
            t.after = [*t.after, *old[COMPUTE]]
        for stage in (INPUTS, OUTPUTS):
            for t in by_stage[stage]:
                last = streams.get((stage, t.stream))
                if last is not None and last.run < number:
                    t.after = [*t.after, last]
                streams[stage, t.stream] = t
        issued.append(run)
        ends.append({stage: sinks(by_stage[stage]) for stage in STAGES})
    return issued


def starts(tasks: Sequence[Task]) -> list[Task]:
    """The tasks that wait for none of the others."""
    inside = set(tasks)
    return [t for t in tasks if inside.isdisjoint(t.after)]


def sinks(tasks: Sequence[Task]) -> list[Task]:
    """The tasks that none of the others waits for."""
    waited = {b for t in tasks for b in t.after}
    return [t for t in tasks if t not in waited]


def check_memory(main: FuncOp, target: Target, prefetch: int, places: Sequence[Place]) -> int:
    """The bytes of all sets of inputs and outputs. Raises GeError where the target has not enough
    for them."""
    more = sum(align_up(byte_size(p.value.type), target.hbm_alignment) for p in places if p.is_slot)
    io_bytes = (figure(main, "io_bytes") or 0) + (prefetch - 1) * more
    total = io_bytes + sum(figure(main, f"{part}_bytes") or 0 for part in ("arena", "weight"))
    if total > target.hbm_bytes:
        raise GeError(
            f"prefetch {prefetch} takes {total} bytes, {target.name} has {target.hbm_bytes}",
            hint="inputs and outputs are there so many times: prefetch fewer batches",
        )
    return io_bytes
