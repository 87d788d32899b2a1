"""The launches of a program that have tile programs, their share of its time, and the reasons why
the others have none."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from xdsl.dialects.builtin import ModuleOp, StringAttr

from ge.dialects.npu_task.attributes import NO_TILES, OPEN_TILES, Engine
from ge.dialects.npu_task.ops import KernelOp, LaunchOp
from ge.dialects.npu_task.pipeline import stages_of
from ge.dialects.support.operation import walk
from ge.dialects.targets.target import Target
from ge.dialects.tile.kernel import KernelOp as TileKernelOp
from ge.lowering.driver.context import context
from ge.lowering.pipeline.options import Options
from ge.lowering.pipeline.stages import tile_programs
from ge.lowering.steps.open_programs import BY_SIZES
from ge.runtime.clock.clock import launched
from ge.runtime.library.costs.estimates import figures_of

UNKNOWN = "nothing was written for it yet"


@dataclass
class Coverage:
    """Launches and microseconds, each launch alone and with its operands in HBM, by what becomes of
    its kernel. Launches in loops count once, and those of which sizes leave nothing are none."""

    target: Target
    launches: Counter[str] = field(default_factory=Counter[str])  # by reason, "" on tiles
    us: dict[str, float] = field(default_factory=lambda: defaultdict[str, float](float))

    @classmethod
    def of(cls, module: ModuleOp, target: Target) -> "Coverage":
        coverage = cls(target)
        for stage in stages_of(module):
            one = cls.of(stage, target)
            coverage.launches += one.launches
            for reason, us in one.us.items():
                coverage.us[reason] += us
        counts = Counter(op.callee for op in walk(module) if isinstance(op, LaunchOp))
        programs = programs_of(module)
        for kernel in module.ops:
            if isinstance(kernel, KernelOp) and (count := counts[kernel.sym_name.data]):
                if kernel.engine.data is Engine.COMM:
                    continue  # it runs on no core
                if (reason := reason_of(kernel)) == BY_SIZES:
                    continue
                coverage.launches[reason] += count
                coverage.us[reason] += count * alone_us(kernel, programs.get(kernel), target)
        return coverage

    @cached_property
    def total_us(self) -> float:
        return sum(self.us.values())

    @property
    def share(self) -> float:
        """Return the share of the time that is on tiles."""
        return self.us[""] / self.total_us if self.total_us else 1.0

    def report(self) -> dict[str, Any]:
        reasons = sorted(self.launches.keys() - {""}, key=lambda r: -self.us[r])
        return {
            "launches": self.launches.total(),
            "us": self.total_us,
            "on_tiles": {"launches": self.launches[""], "us": self.us[""]},
            "others": [
                {"reason": r, "launches": self.launches[r], "us": self.us[r]} for r in reasons
            ],
        }

    def __str__(self) -> str:
        text = f"tile programs for {self.launches['']} of {self.launches.total()} launches"
        return f"{text}, {self.share:.0%} of their time" if self.share < 1 else text


def reason_of(kernel: KernelOp) -> str:
    """Return why a kernel has no tile program, "" for one that has."""
    if kernel.tiles is not None or OPEN_TILES in kernel.attributes:
        return ""
    reason = kernel.attributes.get(NO_TILES)
    return reason.data if isinstance(reason, StringAttr) else UNKNOWN


def alone_us(kernel: KernelOp, program: TileKernelOp | None, target: Target) -> float:
    """The estimate of a launch alone, with its operands in HBM and without its launch cost: that of
    its tile program, if it has one; 0 where its sizes are not known."""
    if program is not None and (figures := figures_of(program, target)) is not None:
        return figures.total_us
    if kernel.engine.data is Engine.HOST:
        return 0.0
    core = launched(kernel, target).core
    return 0.0 if core is None else (time := core.time(())).start_us + time.core_us


def programs_of(module: ModuleOp) -> dict[KernelOp, TileKernelOp]:
    known = {op.sym_name.data: op for op in module.ops if isinstance(op, TileKernelOp)}
    kernels = [op for op in module.ops if isinstance(op, KernelOp) and op.tiles is not None]
    return {k: known[k.tiles.data] for k in kernels if k.tiles and k.tiles.data in known}


def write_tile_programs(module: ModuleOp, options: Options, target: str = "") -> None:
    """Write a tile program beside each kernel that has none, and can have one: for its own target,
    or another one."""
    for written in tile_programs(replace(options, target=target)):
        written.apply(context(options.plugins), module)
