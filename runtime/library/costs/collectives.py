"""The time of what devices send each other, by algorithm: alpha + bytes x beta for each step, and
gamma for each byte that is added (Hockney; HCCL's documents state its algorithms so).

alpha is the latency of the links of a level, beta their rate one way (`[cluster]` of a target),
gamma three accesses of HBM, at its full rate, after the bytes have come: an assumption. Before,
once, a collective takes the cluster's `start_us`.

n are the bytes of the whole value, p the devices of a group. Where a group lies on several levels
of the cluster, algorithms that know nothing of levels take each step over the slowest one. Each
formula is that of HCCL's document of its name (hicann/hccl: Mesh, Ring, RHD, NHR, PairWise), unless
another source is stated.

Groups do not share links: devices of a mesh have one for each pair, of a switch a port each. In a
ring this is an assumption."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from math import prod

import numpy as np
from xdsl.ir import Operation

from ge.dialects.graph.collectives import (
    ALGORITHMS,
    AllToAllOp,
    Collective,
    OfWhole,
)
from ge.dialects.graph.sharding import mesh_of
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import module_around
from ge.dialects.support.mesh import Mesh
from ge.dialects.support.types import byte_size
from ge.dialects.targets.cluster import NO_CLUSTER, Cluster, Level
from ge.dialects.targets.target import Target
from ge.runtime.library.costs.estimates import hbm_bytes_per_us
from ge.runtime.library.costs.moved import Messages, Moved

ACCESSES = 3  # of HBM for a byte that is added: both are read, the sum is written

Sends = list[tuple[int, float]]  # how far away in the group, and bytes: equal on each device

# ---- steps -----------------------------------------------------------------------------------


def step_us(level: Level, members: int, sends: Sequence[tuple[int, float]]) -> float:
    """The time in which each device of a group sends what it sends, over the links of one level. A
    mesh has a link for each pair; a port sends one after the other; a ring passes on what goes
    further than to a neighbour, each way round."""
    if level.topology == "switch":
        return sum(level.latency_us + size / level.bytes_per_us for _, size in sends)
    if level.topology == "ring":
        ways, furthest = [0.0, 0.0], 0
        for offset, size in sends:
            hops = min(offset, members - offset)
            ways[hops < offset] += hops * size
            furthest = max(furthest, hops)
        return furthest * level.latency_us + max(ways) / level.bytes_per_us
    links: dict[int, float] = defaultdict(float)
    for offset, size in sends:
        links[offset] += level.latency_us + size / level.bytes_per_us
    return max(links.values(), default=0.0)


# ---- all_gather; a reduce_scatter takes the same steps from the last to the first, an all_reduce
# both -----------------------------------------------------------------------------------------

Steps = Iterator[tuple[int, Sends]]  # how often, and what each device sends


def ring(p: int, n: float) -> Steps:
    """Each device passes on to the next one: (p - 1) (alpha + n / p beta)."""
    yield p - 1, [(1, n / p)]


def halving_doubling(p: int, n: float) -> Steps:
    """Pairs at distances 1, 2, 4, ... swap all that they have: log2 p alpha + (p - 1) / p n beta;
    for powers of two."""
    if p & (p - 1) == 0:
        for k in range(p.bit_length() - 1):
            yield 1, [(1 << k, n / p * (1 << k))]


def nhr(p: int, n: float) -> Steps:
    """Nonuniform hierarchical ring, any p: ceil(log2 p) alpha + (p - 1) / p n beta."""
    for k in range((p - 1).bit_length()):
        yield 1, [(1 << k, n / p * min(1 << k, p - (1 << k)))]


STEPS: dict[str, Callable[[int, float], Steps]] = {
    "ring": ring, "halving_doubling": halving_doubling, "nhr": nhr,
}  # fmt: skip


def mesh_us(levels: Sequence[Level], spread: Sequence[int], n: float) -> float:
    """Each device sends its part to all others at once: alpha + n / p beta on a full mesh,
    (p - 1) (alpha + n / p beta) through one port. Levels work side by side."""
    longest, inner = 0.0, 1
    for level, members in zip(levels, spread, strict=True):
        sends = [(o, n / prod(spread)) for o in range(1, members)] * inner
        longest, inner = max(longest, step_us(level, members, sends)), inner * members
    return longest


def flat_us(levels: Sequence[Level], spread: Sequence[int], n: float) -> dict[str, float]:
    """Times of an all_gather by the algorithms that know nothing of levels."""
    slowest, p = levels[-1], prod(spread)
    found = {"mesh": mesh_us(levels, spread, n)}
    for name, steps in STEPS.items():
        if made := [times * step_us(slowest, p, sends) for times, sends in steps(p, n)]:
            found[name] = sum(made)
    return found


def two_level_us(levels: Sequence[Level], spread: Sequence[int], n: float) -> float:
    """Gather between servers first, then in each: what crosses the slow links is a part of the
    value, 1 / devices of a server. At each level by what is fastest there. A reduce_scatter begins
    in the server, so that both are an all_reduce as HCCL has it on A2 (scatter in the server,
    all-reduce between, gather in the server). HCCL's all_gather begins in the server, for pieces
    that are continuous, and sends all of them between servers; here transfers are of boxes."""
    total = 0.0
    for level, members in zip(levels, spread, strict=True):
        total += min(flat_us([level], [members], n).values())
        n /= members
    return total


@lru_cache(maxsize=4096)
def gather_us(cluster: Cluster, spread: tuple[int, ...], n: float) -> dict[str, float]:
    """Times of an all_gather of n bytes in a group, by algorithm, without the start."""
    spanned = [(level, k) for level, k in zip(cluster.levels, spread, strict=True) if k > 1]
    levels, members = [level for level, _ in spanned], [k for _, k in spanned]
    if not levels:
        return {"mesh": 0.0}
    found = flat_us(levels, members, n)
    if len(levels) > 1:
        found["two_level"] = two_level_us(levels, members, n)
    return found


def reduction_us(
    kind: str, cluster: Cluster, spread: tuple[int, ...], n: float, target: Target
) -> dict[str, float]:
    """Times of an all_gather, a reduce_scatter or an all_reduce (`kind`) of n bytes of the whole
    value, by algorithm. Sums: (p - 1) / p n gamma, for all of them."""
    p = prod(spread)
    gamma = ACCESSES / hbm_bytes_per_us(target.cube_cores, target)
    sums = 0.0 if kind == "all_gather" else (p - 1) / p * n * gamma
    halves = 2 if kind == "all_reduce" else 1
    gathered = gather_us(cluster, spread, n)
    return {name: cluster.start_us + halves * us + sums for name, us in gathered.items()}


# ---- all_to_all, exchange ----------------------------------------------------------------------


def longest_us(cluster: Cluster, messages: Sequence[Messages]) -> dict[str, float]:
    """The time of the device that takes longest, of those that send some messages over the links of
    each level: by `mesh` all at once, each over the links of its level (alpha + the most bytes of a
    link beta); `pairwise` one peer after the other (the sum over peers of alpha + n_ij beta). A
    message to a device in the same server takes the links in there."""
    at_once = one_by_one = np.zeros(1)
    for level, (offsets, counts, sizes) in zip(cluster.levels, messages, strict=bool(messages)):
        us = counts * level.latency_us + sizes / level.bytes_per_us
        if level.topology == "switch":
            together = us.sum(axis=1)
        elif level.topology == "ring":
            offsets = offsets % level.devices
            hops = np.where(counts, np.minimum(offsets, level.devices - offsets), 0)
            carried = hops * sizes / level.bytes_per_us
            back = hops < offsets
            ways = [np.where(w, carried, 0.0).sum(axis=1) for w in (back, ~back)]
            together = hops.max(axis=1) * level.latency_us + np.maximum(*ways)
            us = hops * us
        else:
            together = us.max(axis=1)
        at_once = np.maximum(at_once, together)
        one_by_one = one_by_one + us.sum(axis=1)
    return {"mesh": float(at_once.max()), "pairwise": float(one_by_one.max())}


def staged_us(cluster: Cluster, spread: tuple[int, ...], n: float) -> float:
    """An all_to_all of n bytes of a device in stages: in the server, each device gets all that is
    for those of its place in other servers, then between servers: few and large messages."""
    return sum(
        step_us(level, k, [(o, n / k) for o in range(1, k)])
        for level, k in zip(cluster.levels, spread, strict=True)
    )


@lru_cache(maxsize=1 << 14)
def moved_us(moved: Moved, staged: bool, cluster: Cluster, mesh: Mesh) -> dict[str, float]:
    """Times of what brings a value from one way to be cut to another, by algorithm; `staged`: as an
    all_to_all, whose parts are of one size."""
    found = longest_us(cluster, moved.messages(mesh, cluster))
    spread = cluster.spread(mesh, moved.group) if staged else ()
    if sum(k > 1 for k in spread) > 1:
        size = prod(moved.has.local_shape(moved.whole)) * moved.bits / 8
        found["two_level"] = staged_us(cluster, spread, size)
    return {name: cluster.start_us + us for name, us in found.items()}


# ---- ops ---------------------------------------------------------------------------------------


def cluster_of(target: Target, mesh: Mesh) -> Cluster:
    """The devices around one of a target. Raises GeError for a mesh of more devices."""
    if (cluster := target.cluster) is None:
        what = f"the target states no cluster: a mesh of {mesh.count} devices needs one"
        raise GeError(what, target.name, NO_CLUSTER)
    if (count := mesh.devices.count) > cluster.devices:
        what = f"a mesh of {count} devices, and the target's cluster has {cluster.devices}"
        raise GeError(what, target.name, "take a smaller mesh, or state more devices in [cluster]")
    return cluster


def mesh_around(op: Operation) -> Mesh:
    """The mesh of the module of an op; one of the axes of the op where it is in none."""
    module = module_around(op)
    mesh = None if module is None else mesh_of(module)
    if mesh is None:
        sizes: dict[str, int] = {}
        for axis in op.group() if isinstance(op, Collective) else ():
            sizes[axis.name] = max(sizes.get(axis.name, 1), axis.pre * axis.size)
        mesh = Mesh(tuple(sizes.items()))
    return mesh


def times(op: Collective, target: Target) -> dict[str, float]:
    """The time of a collective by each algorithm that it can take."""
    mesh = mesh_around(op)
    cluster = cluster_of(target, mesh)
    if isinstance(op, OfWhole):
        return moved_us(Moved.by(op), isinstance(op, AllToAllOp), cluster, mesh)
    n = max(byte_size(v.type) for v in (op.input, op.result))
    return reduction_us(kind_of(op), cluster, cluster.spread(mesh, op.group()), n, target)


def kind_of(op: Collective) -> str:
    return op.name.rpartition(".")[2]


def cheapest(found: dict[str, float]) -> str:
    """The algorithm that takes least; of several the one that stands first in `ALGORITHMS`."""
    return min(found, key=lambda name: (round(found[name], 9), ALGORITHMS.index(name)))


def collective_us(op: Operation, target: Target) -> float:
    """The time of a collective by its algorithm, by the cheapest where it states none; or of the
    acknowledgement of one: the latency of the links that the mesh lies on."""
    if isinstance(op, Collective):
        found = times(op, target)
        stated = None if op.algorithm is None else str(op.algorithm.data)
        return found[cheapest(found) if stated not in found else stated]
    mesh = mesh_around(op)
    latency, block = 0.0, 1
    for level in cluster_of(target, mesh).levels:
        latency = max(latency, level.latency_us if block < mesh.count else 0.0)
        block *= level.devices
    return latency
