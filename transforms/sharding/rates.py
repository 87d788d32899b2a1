"""How fast a device computes and sends: what decides between ways to cut values."""

from dataclasses import dataclass, field

from ge.dialects.support.mesh import Axis, Mesh
from ge.dialects.targets.target import Target
from ge.runtime.library.costs.collectives import cluster_of
from ge.runtime.library.costs.estimates import hbm_bytes_per_us


@dataclass(frozen=True, slots=True)
class Rates:
    """Peaks of a device of a mesh in a second: multiply-accumulates of f16, additions of elements
    of 16 bits, bytes of its memory, and those that it sends, by axes."""

    target: Target
    mesh: Mesh
    macs: float = field(init=False)
    vector: float = field(init=False)
    memory: float = field(init=False)
    _links: dict[tuple[Axis, ...], float] = field(
        init=False, default_factory=dict[tuple[Axis, ...], float]
    )

    def __post_init__(self) -> None:
        target, clock = self.target, self.target.clock_ghz * 1e9
        peaks = {
            "macs": target.cube_cores * target.macs_per_cycle["f16"] * clock,
            "vector": target.vector_cores * target.lanes * clock,
            "memory": hbm_bytes_per_us(target.cube_cores, target) * 1e6,
        }
        for name, rate in peaks.items():
            object.__setattr__(self, name, rate)

    def link(self, axes: tuple[Axis, ...]) -> float:
        """Bytes that a device sends to those that differ along axes, over all of its links at the
        slowest level between them. What crosses an outer level is taken to be the part of one
        device of the group below, as in a collective of two levels."""
        if (rate := self._links.get(axes)) is None:
            cluster = cluster_of(self.target, self.mesh)
            rate, inside = float("inf"), 1
            for level, n in zip(cluster.levels, cluster.spread(self.mesh, axes), strict=True):
                rate = min(rate, inside * level.device_rate * 1e6) if n > 1 else rate
                inside *= n
            self._links[axes] = rate
        return rate
