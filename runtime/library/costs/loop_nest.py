"""How long a tile program takes: the estimate that compilers ask for, again and again.

A program is walked once on a core of each kind (`nest.py`), which says what it moves and in which
order; its pipes are followed for some steps of each loop (`units.py`). Who gets which bandwidth is
in `traffic.py`. The simulation of the finished program (`runtime/tiles`) follows all steps on all
cores with the program's own flags; `test/bench/estimates.py` sets one against the other.
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.scf import ForOp
from xdsl.ir import SSAValue

from ge.dialects.targets.target import Target
from ge.dialects.tile.kernel import KernelOp
from ge.runtime.library.costs.nest import Walk
from ge.runtime.library.costs.reuse import Numbers
from ge.runtime.library.costs.traffic import Held, KernelTraffic
from ge.runtime.library.costs.units import Exchange, Unit

MOST_TURNS = 8  # that are followed for what is loaded again
MOST_KINDS = 4  # of cores that are looked at


@dataclass(frozen=True)
class Estimate:
    """Microseconds of a launch, with its operands where they were said to be."""

    core_us: float  # of the busiest core, or pair of a cube core and vector cores
    hbm_us: float  # what the bytes of the operands take at least
    pipes: Mapping[str, float]  # how long each pipe of a unit is busy


def cores_of(op: KernelOp) -> dict[int, int]:
    """The first core of each kind, and how many there are: those of a kind go through the outermost
    loops as often. Of more than `MOST_KINDS` the most frequent."""
    kinds = dict[Hashable, list[int]]()
    loops = [[o for o in p.body.block.ops if isinstance(o, ForOp)] for p in op.programs]
    for core in range(op.core_count):
        at = Numbers(core, op.core_count, 0, largest=True)
        turns = tuple([len(at.steps(loop)) for ops in loops for loop in ops])
        kinds.setdefault(turns, []).append(core)
    often = sorted(kinds.values(), key=lambda cores: -len(cores))[:MOST_KINDS]
    return {cores[0]: len(cores) for cores in often}


class LoopNests:
    """The programs of a kernel, walked once on a core of each kind."""

    def __init__(self, op: KernelOp, target: Target) -> None:
        self.target, kinds = target, cores_of(op)
        self.cores = [[Walk(op, program, core) for program in op.programs] for core in kinds]
        loaded = [Counter[SSAValue]() for p in op.programs for _ in range(p.parts)]
        stored = Counter[SSAValue]()
        rest = op.core_count / sum(kinds.values())  # as if others did what these do
        for walks, count in zip(self.cores, kinds.values(), strict=True):
            units = (walk for walk in walks for _ in range(walk.program.parts))
            for unit, walk in enumerate(units):
                loaded[unit].update({m: int(n * count * rest) for m, n in walk.loaded.items()})
                stored.update({m: int(n * count * rest) for m, n in walk.stored.items()})
        self.traffic = KernelTraffic(op, target, loaded, stored, MOST_TURNS)

    def estimate(self, held: Held = ()) -> Estimate:
        """With the parts `held` of its operands in L2. Raises GeError where the target lacks what
        it takes."""
        found = [self.core(walks, held) for walks in self.cores]
        core_us, pipes = max(found, key=lambda core: core[0])
        return Estimate(core_us, self.traffic.hbm(held)[1], pipes)

    def core(self, walks: Sequence[Walk], held: Held) -> tuple[float, dict[str, float]]:
        """Microseconds of a core, or of a cube core and the vector cores beside it, and of each of
        their pipes."""
        shares, units, first = self.traffic.shares(held), list[Unit](), 0
        for walk in walks:
            units.append(Unit(walk, shares[first], self.target))
            first += walk.program.parts
        per_us, pipes = self.target.cycles_per_us, dict[str, float]()
        for unit in units:
            name = unit.walk.program.name.removeprefix("tile.")
            pipes |= {f"{name} {pipe}": cycles / per_us for pipe, cycles in unit.busy().items()}
        if len(units) == 1:
            units[0].run_all(walks[0].nest)
            return units[0].end / per_us, pipes
        return Exchange(units, self.target).cycles() / per_us, pipes
