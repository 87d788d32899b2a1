"""The time of a pipeline: stages compute one microbatch after the other, and send what they have.

    stage 0  | 0 | 1 | 2 | 3 |                        fill: until the last stage begins
    stage 1      | 0 | 1 | 2 | 3 |
    stage 2          | 0 | 1 | 2 | 3 |                drain: after the first stage has ended

A stage begins a microbatch when it has computed the one before, has all that it receives, and has a
slot free for what it sends. A send takes the links of its level of the cluster, one after the other
on a device, and begins when its slot at the receiver is free: when that has computed the microbatch
that was there. Runs of one stage do not overlap: copies from and to the host count each time. The
share of bubbles is the time of all devices in which they compute nothing."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from ge.dialects.graph.sharding import Pipeline
from ge.dialects.npu_task.pipeline import SendOp, is_pipeline, sends_of, stages_of, type_of_link
from ge.dialects.support.mesh import Axis
from ge.dialects.support.types import byte_size
from ge.dialects.targets.target import Target
from ge.runtime.clock.clock import simulate
from ge.runtime.library.costs.collectives import cluster_of, step_us


@dataclass(frozen=True, eq=False)
class Sending:
    """What a stage sends for each microbatch."""

    sender: int
    receiver: int
    slots: int
    us: float


@dataclass
class PipelineTime:
    """Times of stages, of what they send, and of the whole, in microseconds."""

    stages: Sequence[float]
    sendings: Sequence[Sending]
    microbatches: int
    us: float = 0.0
    fill_us: float = 0.0
    drain_us: float = 0.0
    pipeline: Pipeline | None = None
    target: Target | None = None
    machine: str = ""
    ends: list[list[float]] = field(default_factory=list[list[float]])  # by stage

    @classmethod
    def of(cls, module: ModuleOp, target: Target) -> "PipelineTime":
        """Simulate the programs of all stages, and their microbatches."""
        pipeline, stages = Pipeline.of(module), stages_of(module)
        assert pipeline is not None
        lines = [simulate(stage, target) for stage in stages]
        time = cls([t.latency_us for t in lines], [], pipeline.microbatches)
        time.pipeline, time.target, time.machine = pipeline, target, lines[0].machine
        time.sendings = [
            time.sending(op, number, stage)
            for number, stage in enumerate(stages)
            for op in sends_of(stage)
        ]
        time.run()
        return time

    def sending(self, op: SendOp, number: int, stage: ModuleOp) -> Sending:
        t = type_of_link(op, stage)
        us = 0.0 if t is None else self.sending_us(byte_size(t))
        return Sending(number, op.stage.value.data, op.slots.value.data, us)

    def sending_us(self, size: int) -> float:
        """The time in which a device sends bytes to one of another stage, over the outermost level
        that lies between them."""
        assert self.pipeline is not None
        assert self.target is not None
        mesh = self.pipeline.devices
        cluster = cluster_of(self.target, mesh)
        axis = Axis(self.pipeline.axis, 1, self.pipeline.stages)
        spread = cluster.spread(mesh, (axis,))
        levels = [level for level, n in zip(cluster.levels, spread, strict=True) if n > 1]
        return cluster.start_us + sum(
            step_us(level, 2, [(1, float(size))]) for level in levels[-1:]
        )

    def run(self) -> None:
        """Follow all microbatches through all stages."""
        count = len(self.stages)
        ends = self.ends = [[] for _ in range(count)]
        links = [0.0] * count  # when a device of a stage has sent all before
        sent: dict[Sending, list[float]] = {s: [] for s in self.sendings}
        begins: list[list[float]] = [[] for _ in range(count)]
        for m in range(self.microbatches):
            for n in range(count):
                ready = [ends[n][-1]] if ends[n] else [0.0]
                ready += [sent[s][m] for s in self.sendings if s.receiver == n]
                own = [s for s in self.sendings if s.sender == n]
                ready += [sent[s][m - s.slots] for s in own if m >= s.slots]
                begins[n].append(max(ready))
                ends[n].append(begins[n][-1] + self.stages[n])
                for s in own:
                    slot = ends[s.receiver][m - s.slots] if m >= s.slots else 0.0
                    links[n] = max(ends[n][-1], links[n], slot) + s.us
                    sent[s].append(links[n])
        self.us = max(*links, *(e[-1] for e in ends))
        self.fill_us, self.drain_us = begins[-1][0], self.us - ends[0][-1]

    def utilisation(self, number: int) -> float:
        """The share of the time in which a stage computes."""
        return self.stages[number] * self.microbatches / self.us if self.us else 1.0

    @cached_property
    def bubble(self) -> float:
        shares = [self.utilisation(n) for n in range(len(self.stages))]
        return 1.0 - sum(shares) / len(shares)

    @property
    def longest(self) -> int:
        """The number of the stage that takes longest."""
        return max(range(len(self.stages)), key=self.stages.__getitem__)

    def report(self) -> dict[str, Any]:
        return {
            "microbatches": self.microbatches,
            "us": self.us,
            "fill_us": self.fill_us,
            "drain_us": self.drain_us,
            "bubble": self.bubble,
            "most_loaded": self.longest,
        }

    def __str__(self) -> str:
        shares = " ".join(f"{self.utilisation(n):.0%}" for n in range(len(self.stages)))
        return (
            f"pipeline: {len(self.stages)} stages, {self.microbatches} microbatches: "
            f"{self.us:,.1f} us (fill {self.fill_us:,.1f}, drain {self.drain_us:,.1f}, "
            f"bubbles {self.bubble:.0%}); "
            f"stages compute {shares} of it, most stage {self.longest}: "
            f"{self.stages[self.longest]:,.1f} us a microbatch"
        )


def latency_of(module: ModuleOp, target: Target) -> tuple[float, str]:
    """The time of a program or a pipeline in microseconds, and of which machine it is."""
    if is_pipeline(module):
        time = PipelineTime.of(module, target)
        return time.us, time.machine
    timeline = simulate(module, target)
    return timeline.latency_us, timeline.machine
