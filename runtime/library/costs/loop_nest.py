"""How long a tile program takes: the estimate that compilers ask for, again and again.

A program is walked once on a core of each kind (`nest.py`), which says what it moves and in which
order; its pipes are followed for some steps of each loop (`units.py`). Who gets which bandwidth is
in `traffic.py`. The simulation of the finished program (`runtime/cores`) follows all steps on all
cores with the program's own flags; `test/bench/estimates.py` sets one against the other.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from xdsl.dialects.scf import ForOp
from xdsl.ir import SSAValue

from ge.dialects.targets.target import Target
from ge.dialects.tile.kernel import KernelOp
from ge.dialects.tile.transfers import LoadOp
from ge.dialects.tile.types import Pipe
from ge.runtime.library.costs.cycles import Share
from ge.runtime.library.costs.nest import Leaf, Seen, Walk
from ge.runtime.library.costs.reuse import CoreNumbers
from ge.runtime.library.costs.traffic import Held, KernelTraffic
from ge.runtime.library.costs.units import CoreUnit, cycles

MOST_TURNS = 8  # that are followed for what is loaded again
MOST_KINDS = 4  # of cores that are followed: those whose pipes have most to do


@dataclass(frozen=True)
class Estimate:
    """Microseconds of a launch, with its operands where they were said to be."""

    core_us: float  # of the busiest core, or pair of a cube core and vector cores
    hbm_us: float  # what the bytes of the operands take at least
    units: Sequence[CoreUnit]  # of that core

    def pipes(self) -> list[tuple[Pipe, float]]:
        """How long each pipe of a unit is busy."""
        busy = [(unit.target.cycles_per_us, unit.busy()) for unit in self.units]
        return [(pipe, n / per_us) for per_us, found in busy for pipe, n in found.items()]


def cores_of(op: KernelOp) -> dict[int, int]:
    """The first core of each kind, and how many there are: those of a kind go through the outermost
    loops as often."""
    kinds = dict[Hashable, list[int]]()
    loops = [[o for o in p.body.block.ops if isinstance(o, ForOp)] for p in op.programs]
    for core in range(op.core_count):
        at = CoreNumbers(core, op.core_count, 0, largest=True)
        turns = tuple([len(at.steps(loop)) for ops in loops for loop in ops])
        kinds.setdefault(turns, []).append(core)
    return {cores[0]: len(cores) for cores in kinds.values()}


class LoopNests:
    """The programs of a kernel, walked once on a core of each kind."""

    def __init__(self, op: KernelOp, target: Target) -> None:
        self.target, kinds = target, cores_of(op)
        seen, self.cycles = Seen(), dict[Leaf, float]()
        self.cores = [[Walk(op, program, core, seen) for program in op.programs] for core in kinds]
        loaded = [Counter[SSAValue]() for p in op.programs for _ in range(p.parts)]
        stored = Counter[SSAValue]()
        for walks, count in zip(self.cores, kinds.values(), strict=True):
            units = (walk for walk in walks for _ in range(walk.program.parts))
            for unit, walk in enumerate(units):
                loaded[unit].update({m: n * count for m, n in walk.loaded.items()})
                stored.update({m: n * count for m, n in walk.stored.items()})
        self.traffic = KernelTraffic(op, target, loaded, stored, MOST_TURNS)

    def estimate(self, held: Held = ()) -> Estimate:
        """With the parts `held` of its operands in L2. Raises GeError where the target lacks what
        it takes."""
        shares, known = self.traffic.shares(held), self.cycles
        # where operands are matters to loads alone
        self.cycles = {leaf: us for leaf, us in known.items() if not isinstance(leaf.op, LoadOp)}
        cores = [self.units(walks, shares) for walks in self.cores]
        if len(cores) > MOST_KINDS:
            cores.sort(key=lambda units: -max(max(u.busy().values(), default=0.0) for u in units))
        cores = cores[:MOST_KINDS]
        found = [cycles(units, self.target) for units in cores]
        core_us = max(found) / self.target.cycles_per_us
        return Estimate(core_us, self.traffic.hbm(held)[1], cores[found.index(max(found))])

    def units(self, walks: Sequence[Walk], shares: Sequence[Share]) -> list[CoreUnit]:
        """A core, or a cube core and the vector cores beside it."""
        units, first = list[CoreUnit](), 0
        for walk in walks:
            units.append(CoreUnit(walk, shares[first], self.target, self.cycles))
            first += walk.program.parts
        return units
