"""What a kernel takes, for reports."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PipeTime:
    """What one pipe of the busiest core does."""

    pipe: str
    instructions: int
    busy_us: float
    waits: dict[str, float]  # microseconds, by what it waits for


@dataclass(frozen=True, slots=True)
class Row:
    """One instruction of a trace, in microseconds."""

    pipe: str
    name: str
    start_us: float
    end_us: float
    place: str


@dataclass(frozen=True, slots=True)
class KernelTime:
    """What a kernel takes, and what its busiest core does in that time."""

    kernel: str
    kind: str  # of those that have a start of their own: see `Target.kernel_start_us`
    cores: int
    start_us: float
    core_us: float  # of the busiest core
    hbm_us: float  # what the bytes of the operands take at least
    hbm_bytes: int
    pipes: tuple[PipeTime, ...]
    unstated: tuple[str, ...] = ()  # what the target does not say, and is taken for 0
    rows: tuple[Row, ...] = ()  # of the busiest core, where they are asked for

    @property
    def total_us(self) -> float:
        return self.start_us + max(self.core_us, self.hbm_us)

    @property
    def bound(self) -> str:
        """What sets the time: the start, HBM, or the pipe that is busy longest."""
        if self.start_us >= max(self.core_us, self.hbm_us):
            return "start"
        if self.hbm_us >= self.core_us or not self.pipes:
            return "hbm"
        return max(self.pipes, key=lambda p: p.busy_us).pipe
