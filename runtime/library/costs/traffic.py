"""What the cores of a tile program move between their memories, L2 and HBM, and the bandwidth that
each of them gets: for the simulation of a program and for its estimate (`loop_nest.py`)."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from xdsl.ir import SSAValue

from ge.dialects.support.types import byte_size
from ge.dialects.targets.target import Target
from ge.dialects.tile.kernel import KernelOp, ProgramOp
from ge.runtime.library.costs.cycles import Share
from ge.runtime.library.costs.l2 import evicted_bytes
from ge.runtime.library.costs.reuse import loaded_again
from ge.runtime.library.costs.times import hbm_bytes_per_us

Held = tuple[float, ...]  # the parts of a kernel's arguments that are in L2; others are in HBM


@dataclass(frozen=True, eq=False)
class KernelTraffic:
    """Bytes that all cores together load of each memref, by unit of a core (a cube core, or one of
    the vector cores beside it), and store to it."""

    op: KernelOp
    target: Target
    loaded: Sequence[Counter[SSAValue]]
    stored: Counter[SSAValue]
    turns: int | None = None
    """Turns of a core that are followed for what is loaded again; None: all."""

    @cached_property
    def total(self) -> Counter[SSAValue]:
        """Of all units."""
        return sum(self.loaded, Counter[SSAValue]())

    @property
    def moved(self) -> int:
        """Bytes between the cores and L2, of all cores."""
        return sum(self.total.values()) + sum(self.stored.values())

    @cached_property
    def again(self) -> Counter[SSAValue]:
        """Bytes of each memref that come from HBM more than once: where some are loaded again, and
        L2 has not room for all."""
        sizes = {m: byte_size(m.type) for m in self.total}
        if sum(sizes.values()) <= self.target.l2_bytes:
            return Counter()
        if all(size <= sizes[m] for m, size in self.total.items()):
            return Counter()
        facts = self.op.core_count, self.target.l2_bytes, self.turns
        return loaded_again(self.op.units, *facts)

    def crossing(self, held: Held) -> dict[SSAValue, float]:
        """Bytes that come from HBM of what is loaded of each memref."""
        found: dict[SSAValue, float] = {}
        own = self.op.workspace if self.op.workspace_bytes <= self.target.l2_bytes else ()
        for i, memref in enumerate(self.op.body.block.args):
            missed = 0.0 if memref in own else 1 - held[i] if i < len(held) else 1.0
            once = min(self.total.get(memref, 0), byte_size(memref.type))
            found[memref] = missed * once + self.again[memref]
        return found

    def shares(self, held: Held) -> list[Share]:
        """Of each unit of a core. Those that load side by side share what HBM gives by the bytes
        that they take of it; who takes less than the others is not held up by them. All cube cores
        saturate L2; where there are more vector cores than these, they share it."""
        bytes_of, loaded = self.crossing(held), self.total
        parts = [
            sum(bytes_of[m] * size / loaded[m] for m, size in own.items() if size)
            for own in self.loaded
        ]
        total, loading = sum(parts), sum(map(bool, parts))
        rate = hbm_bytes_per_us(self.op.core_count, self.target) / self.target.cycles_per_us
        each = rate * self.target.hbm_read_efficiency / self.op.core_count
        return [
            Share(
                {
                    m: each * max(part / total, 1 / loading) * loaded[m] / bytes_of[m]
                    for m, size in own.items()
                    if size and bytes_of[m]
                },
                self.target.stated("l2_rate") * self.l2_part(program),
                self.target.l2_write_rate * self.l2_part(program),
            )
            for part, own, (program, _) in zip(parts, self.loaded, self.op.units, strict=True)
        ]

    def l2_part(self, program: ProgramOp) -> float:
        """The part of a cube core's rate of L2 that each core of a program gets."""
        return min(1.0, self.target.cube_cores / (self.op.core_count * program.parts))

    def hbm(self, held: Held) -> tuple[int, float]:
        """Bytes that cross HBM, and the microseconds that they take at least."""
        loaded = int(sum(self.crossing(held).values()))
        stored = sum(min(size, byte_size(m.type)) for m, size in self.stored.items())
        stored = evicted_bytes(loaded, stored, self.target)
        rate = hbm_bytes_per_us(self.op.core_count, self.target)
        read_rate = rate * self.target.hbm_read_efficiency
        return loaded + stored, max((loaded + stored) / rate, loaded / read_rate)
