"""The fastest cuts of the kernels of a program: tried on the emulated cores.

When a program is compiled, estimates choose how its kernels are cut. Here the cuts that they call
the fastest are written as programs, and the one whose simulation takes the least time is kept
(`lowering/steps/tunings.py`). Numbers are neither computed nor proved here.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.support.functions import main_function
from ge.dialects.support.operation import all_ops
from ge.dialects.targets.target import Target, target_for
from ge.lowering.steps.tunings import TunedKernel, kernel_hash
from ge.lowering.steps.written import finish_alone, tile_program
from ge.runtime.cores.kernel import TileKernel
from ge.runtime.library.costs.structure import data_of, unseen
from ge.runtime.library.launch import Choice, NotLowered, choosing

LIMIT = 16  # cuts of a kernel that are tried


@dataclass(frozen=True)
class KernelTuning:
    """What was found for a kernel: how many cuts were tried, and the fastest."""

    tried: int
    best: TunedKernel

    @property
    def is_faster(self) -> bool:
        """Than the one that is chosen by estimate."""
        return self.best.us < self.best.own_us

    @property
    def summary(self) -> str:
        e = self.best
        text = f"@{e.name}: {e.own_us:,.2f} us"
        text += f", {e.us:,.2f} us with {e.cut}" if self.is_faster else ", nothing is faster"
        return f"{text} ({self.tried:,} cuts tried)"


@dataclass(frozen=True)
class Timer:
    """Times of a kernel's programs."""

    kernel: KernelOp
    target: Target
    around: Operation  # what says for which target the program is

    def us(self, choice: Choice) -> float:
        """Of one launch, with its operands in HBM. Raises NotLowered where there is no program."""
        with choosing(choice):
            program = tile_program(self.kernel, "program", self.target)
        finish_alone(program, "", self.around.attributes)
        return TileKernel(program, self.target).time().total_us


def tune_program(module: ModuleOp, limit: int = LIMIT) -> Iterator[KernelTuning]:
    """Try up to `limit` cuts of each kernel that has a tile program, equal kernels once. The target
    is that of the program. Raises GeError where it cannot be read."""
    around = main_function(module) or module
    target, known = target_for(around), set[str]()
    for kernel in [op for op in module.ops if isinstance(op, KernelOp)]:
        with unseen(data_of(all_ops(kernel.body.blocks))):
            key = kernel_hash(kernel, target)
            if key not in known:
                known.add(key)
                try:
                    yield tuned(Timer(kernel, target, around), key, limit)
                except NotLowered:
                    continue


def tuned(timer: Timer, key: str, limit: int) -> KernelTuning:
    """Raises NotLowered where a kernel has no program."""
    own = Choice(most=limit)
    own_us = timer.us(own)
    best, cut = own_us, ""
    for text in own.seen:
        try:
            us = timer.us(Choice(text))
        except NotLowered:  # it does not fit
            continue
        if us < best:
            best, cut = us, text
    name = timer.kernel.sym_name.data
    entry = TunedKernel(name, key, timer.target.name, cut, best, own_us)
    return KernelTuning(len(own.seen), entry)
