"""What devices send over the links of each level, beside every message alone."""

from collections import defaultdict
from dataclasses import replace
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ge.dialects.graph.collectives import Needed, Place
from ge.dialects.graph.transfers import Transfers, elements, some_devices
from ge.dialects.support.digits import all_digits, joined
from ge.dialects.support.mesh import Axis, Mesh, Sharding
from ge.dialects.targets.cluster import TOPOLOGIES, Cluster, Level
from ge.dialects.targets.target import Target
from ge.runtime.library.costs.collectives import cluster_of, longest_us, moved_us
from ge.runtime.library.costs.moved import Moved


def one_by_one(moved: Moved, mesh: Mesh, cluster: Cluster) -> dict[str, float]:
    """The longest time of a device by algorithm, from the boxes that it sends."""
    needs, whole = moved.needs, moved.whole

    def box(mesh: Mesh, device: int) -> list[tuple[int, int]]:
        if isinstance(needs, Sharding):
            return needs.box(whole, mesh, device)
        return needs.box(mesh, device)

    longest = {"mesh": 0.0, "pairwise": 0.0}
    alike = some_devices(mesh, {a.name for a in moved.group})
    for device in range(mesh.count) if mesh.order else alike:
        boxes = Transfers(mesh, device, whole, moved.has, box).sends.items()
        sizes = {peer: -(-elements(b) * moved.bits // 8) for peer, b in boxes if peer != device}
        at_once, after = device_us(device, sizes, cluster)
        longest["mesh"] = max(longest["mesh"], at_once)
        longest["pairwise"] = max(longest["pairwise"], after)
    return longest


def device_us(device: int, sizes: dict[int, int], cluster: Cluster) -> tuple[float, float]:
    """How long a device sends others bytes: over all links at once, and to one after the other."""
    links: dict[tuple[int, int], list[tuple[int, float]]] = defaultdict(list)  # hops, microseconds
    for peer, size in sizes.items():
        if not size:
            continue
        level = next((i for i, b in enumerate(cluster.blocks) if device // b == peer // b), -1)
        level %= len(cluster.levels)
        own = cluster.levels[level]
        inner = cluster.blocks[level] // own.devices
        offset = (peer // inner - device // inner) % own.devices
        hops, link = 1, 0
        if own.topology == "ring":
            hops = min(offset, own.devices - offset)
            link = int(hops < offset)
        elif own.topology == "mesh":
            link = offset
        links[level, link].append((hops, size / own.bytes_per_us))
    at_once = after = 0.0
    for (level, _), sent in links.items():
        latency = cluster.levels[level].latency_us
        after += sum(hops * (latency + us) for hops, us in sent)
        if cluster.levels[level].topology != "ring":
            at_once = max(at_once, sum(latency + us for _, us in sent))
    for i, level in enumerate(cluster.levels):
        ways = [links.get((i, way), []) for way in (0, 1)]
        if level.topology == "ring" and any(ways):
            furthest = max(hops for way in ways for hops, _ in way)
            carried = max(sum(hops * us for hops, us in way) for way in ways)
            at_once = max(at_once, furthest * level.latency_us + carried)
    return at_once, after


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    return Cluster(tuple(
        Level(f"level{i}", draw(st.sampled_from([2, 3, 4, 8])), draw(st.sampled_from(TOPOLOGIES)),
              link_gbs=draw(st.integers(1, 50)), latency_us=draw(st.integers(0, 3)))
        for i in range(draw(st.integers(1, 3)))
    ))  # fmt: skip


@st.composite
def moves(draw: st.DrawFn) -> tuple[Moved, Mesh, Cluster]:
    """A value on a mesh that a cluster can hold, of devices in any order, cut along digits of axes
    in any order, even or not; the boxes that are needed may lie behind each other along several
    axes at once."""
    cluster = draw(clusters())
    sizes = [draw(st.sampled_from([2, 3, 4, 6, 8]))]
    while prod(sizes) * 2 <= cluster.devices and draw(st.booleans()):
        sizes.append(draw(st.integers(2, cluster.devices // prod(sizes))))
    if prod(sizes) > cluster.devices:
        sizes = [cluster.devices]
    mesh = Mesh(tuple((name, size) for name, size in zip("abcdefgh", sizes, strict=False)))
    digits = all_digits([Axis(name, 1, size) for name, size in mesh.axes])
    rank = draw(st.integers(1, 3))

    def sharding() -> Sharding:
        dims: list[list[Axis]] = [[] for _ in range(rank)]
        for digit in draw(st.permutations(digits)):
            if (dim := draw(st.integers(-1, rank - 1))) >= 0:
                dims[dim].append(digit)
        return Sharding(tuple(joined(tuple(own)) for own in dims))

    has = sharding()
    whole = tuple(
        draw(st.integers(1, 3)) * prod(a.size for a in own) + draw(st.integers(0, 1))
        for own in has.dims
    )
    needs: Sharding | Needed = sharding()
    if draw(st.booleans()):
        axes = st.sampled_from([Axis(name, 1, size) for name, size in mesh.axes])
        terms = st.lists(st.tuples(axes, st.integers(0, 4)), max_size=2, unique_by=lambda t: t[0])
        needs = Needed(tuple(
            (Place(draw(st.integers(-2, 2)), tuple(draw(terms))), draw(st.integers(1, 6)))
            for _ in range(rank)
        ))  # fmt: skip
    if draw(st.booleans()):
        mesh = replace(mesh, order=tuple(draw(st.permutations(range(mesh.count)))))
    return Moved(whole, has, needs, draw(st.sampled_from([4, 8, 16]))), mesh, cluster


@settings(max_examples=max(settings.default.max_examples, 200))
@given(moves())
def test_messages_by_digits_take_the_time_of_each_alone(
    move: tuple[Moved, Mesh, Cluster],
) -> None:
    moved, mesh, cluster = move
    found = longest_us(cluster, moved.messages(mesh, cluster))
    assert found == pytest.approx(one_by_one(moved, mesh, cluster), rel=1e-9)


def test_a_thousand_peers_are_not_looked_at_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 25 devices a few digits of the place of their peers are, each once: sizes that are cut
    evenly are alike."""
    looked_at: list[int] = []
    shared = Moved.shared

    def counted(self: Moved, mesh: Mesh, devices: np.ndarray, peers: np.ndarray) -> np.ndarray:
        looked_at.append(peers.size)
        return shared(self, mesh, devices, peers)

    monkeypatch.setattr(Moved, "shared", counted)
    mesh, a, b = Mesh((("x", 128), ("y", 8))), Axis("x", 1, 128), Axis("y", 1, 8)
    cluster = cluster_of(Target.load("910b2"), mesh)
    for i, size in enumerate((1024, 4096, 11264)):
        before = len(looked_at)
        has, needs = Sharding(((a,), (b,), ())), Sharding(((b,), (), (a,)))
        times = moved_us(Moved((size, size, size), has, needs, 16), False, cluster, mesh)
        assert min(times.values()) > cluster.start_us
        assert sum(looked_at[before:]) <= (0 if i else 25 * (128 + 8 + 1))
