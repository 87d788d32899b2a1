"""The devices around one of a target: levels of links, from inside out, as a target's file states
them (`[cluster]`).

    [cluster]
    start_us = 10.0               of a collective
    [cluster.server]              a level: 8 devices, each with a link to each other one
    devices = 8
    topology = "mesh"
    link = "HCCS"
    link_gbs = 28.0               one way
    efficiency = 0.7              the share of it that collectives reach
    latency_us = 1.0
    [cluster.cluster]             128 servers, a port of each device into a switch
    devices = 128
    topology = "switch"
    ...

Devices are numbered from inside out: the first 8 are those of the first server. A mesh numbers its
devices row-major, so its last axes lie inside of a server, and its first ones between servers;
unless it states which device is where."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from functools import lru_cache
from itertools import accumulate
from math import prod
from operator import mul
from typing import Any, cast

from ge.dialects.support.digits import all_digits
from ge.dialects.support.errors import GeError
from ge.dialects.support.mesh import Axis, Mesh

# Each device has a link to each other one of its level; one to its neighbours; one port for all.
# A level joins as many devices of each group of the level below, by links of their own.
TOPOLOGIES = ("mesh", "ring", "switch")

NO_CLUSTER = "state [cluster] in the target's file (910b2.toml shows how), or take one device"


@dataclass(frozen=True, slots=True)
class Level:
    """Devices, or groups of the level below, that links of one kind join."""

    name: str
    devices: int  # of the first level; then groups
    topology: str
    link_gbs: float  # gigabytes a second one way, of a link (of a switch: of a device's port)
    latency_us: float = 0.0
    efficiency: float = 1.0  # the share of `link_gbs` that collectives reach
    link: str = ""  # its kind

    @property
    def bytes_per_us(self) -> float:
        return self.link_gbs * self.efficiency * 1e3

    @property
    def device_rate(self) -> float:
        """Bytes a microsecond that a device sends over all of its links of this level."""
        links = {"mesh": self.devices - 1, "ring": 2, "switch": 1}[self.topology]
        return links * self.bytes_per_us


# The least and the most that numbers can be
BOUNDS = {"devices": (2, 2**20), "link_gbs": (1e-3, 1e6), "efficiency": (1e-3, 1), "_us": (0, 1e6)}


@dataclass(frozen=True, slots=True)
class Cluster:
    """Levels of links, from inside out, and what each collective takes before its first step."""

    levels: tuple[Level, ...]
    start_us: float = 0.0

    @property
    def devices(self) -> int:
        return prod(level.devices for level in self.levels)

    @property
    def blocks(self) -> tuple[int, ...]:
        """The devices of a group that each level joins."""
        return tuple(accumulate([level.devices for level in self.levels], mul))

    @classmethod
    def of(cls, table: Any, where: str) -> "Cluster":
        """A cluster from the tables of a target's file. Raises GeError for what it cannot be."""
        if not isinstance(table, dict):
            raise GeError(f"'cluster' is a table of levels, not {table!r}", where)
        start, levels = 0.0, list[Level]()
        for name, value in cast(dict[str, Any], table).items():
            if isinstance(value, dict):
                levels.append(_level(name, cast(dict[str, Any], value), where))
            elif name == "start_us":
                start = _number("cluster.start_us", value, where)
            else:
                raise GeError(f"unknown key 'cluster.{name}'", where, "keys: start_us, and levels")
        if not levels:
            hint = "a level is a table: [cluster.server]"
            raise GeError("'cluster' has no level", where, hint)
        return cls(tuple(levels), start)

    def table(self) -> dict[str, Any]:
        """The tables of a target's file."""
        found: dict[str, Any] = {"start_us": self.start_us}
        for level in self.levels:
            stated = {f.name: getattr(level, f.name) for f in fields(Level)[1:]}
            found[level.name] = {key: v for key, v in stated.items() if v != ""}
        return found

    def numbers(self) -> dict[str, float]:
        """The numbers that can change: `cluster.start_us`, `cluster.server.link_gbs`, ..."""
        found = {"cluster.start_us": self.start_us}
        for level in self.levels:
            for key in ("link_gbs", "latency_us", "efficiency"):
                found[f"cluster.{level.name}.{key}"] = cast(float, getattr(level, key))
        return found

    def changed(self, numbers: dict[str, float]) -> "Cluster":
        """The cluster with other numbers, as `numbers` names them."""
        levels = [
            replace(level, **{
                key.rpartition(".")[2]: v
                for key, v in numbers.items() if key.startswith(f"cluster.{level.name}.")
            })
            for level in self.levels
        ]  # fmt: skip
        return Cluster(tuple(levels), numbers.get("cluster.start_us", self.start_us))

    def spread(self, mesh: Mesh, axes: Sequence[Axis]) -> tuple[int, ...]:
        """The devices of a group along some axes, by level: of the first one how many lie in one of
        its groups; then how many of these there are, and so on. Where a group does not fill the
        levels evenly, all its devices count as apart."""
        counts, blocks = [1] * len(self.levels), self.blocks
        if mesh.order:
            return _widest_spread(blocks, mesh, tuple(axes))
        for stride, size in _strides(mesh, axes):
            for i, whole in enumerate(blocks):
                last = i + 1 == len(blocks)
                if last or mesh.count <= whole or whole % (stride * size) == 0:
                    counts[i] *= size  # all of it lies here
                    break
                if whole > stride and whole % stride == 0 and size % (whole // stride) == 0:
                    here = whole // stride
                    counts[i], stride, size = counts[i] * here, whole, size // here
        return tuple(counts)


@lru_cache(maxsize=1024)
def _widest_spread(blocks: Sequence[int], mesh: Mesh, axes: tuple[Axis, ...]) -> tuple[int, ...]:
    """Return the spread of the group that lies furthest apart, where a mesh states which device is
    where."""
    left, found = set(mesh.order), set[tuple[int, ...]]()
    while left:
        group = mesh.group(axes, next(iter(left)))
        left.difference_update(group)
        counts = list[int]()
        for block in blocks[:-1]:
            inside = Counter(device // block for device in group)
            is_even = len({*inside.values()}) == 1
            counts.append(max(inside.values()) if is_even else 1)
            group = [number * block for number in inside] if is_even else group
        found.add((*counts, len(group)))
    return max(found, key=lambda counts: counts[::-1])


def _strides(mesh: Mesh, axes: Sequence[Axis]) -> list[tuple[int, int]]:
    """The distances between devices of a group, and how many there are, by digit, nearest first."""
    found: list[tuple[int, int]] = []
    for axis in all_digits([mesh.resolved(a) for a in axes]):
        names = [name for name, _ in mesh.axes]
        after = prod(mesh.sizes[n] for n in names[names.index(axis.name) + 1 :])
        rest = mesh.sizes[axis.name] // (axis.pre * axis.size)
        found.append((after * rest, axis.size))
    return sorted(found)


def _level(name: str, table: dict[str, Any], where: str) -> Level:
    known = {f.name: f for f in fields(Level)[1:]}
    for key, value in table.items():
        full = f"cluster.{name}.{key}"
        if key not in known:
            near = get_close_matches(key, known, 1)
            hint = f"did you mean '{near[0]}'?" if near else f"keys: {', '.join(known)}"
            raise GeError(f"unknown key '{full}'", where, hint)
        if key == "topology" and value not in TOPOLOGIES:
            raise GeError(f"'{full}' is one of {', '.join(TOPOLOGIES)}, not {value!r}", where)
        if key == "link" and not isinstance(value, str):
            raise GeError(f"'{full}' is a text, not {value!r}", where)
        if key not in ("topology", "link"):
            table[key] = _number(full, value, where, whole=key == "devices")
    if absent := [k for k in ("devices", "topology", "link_gbs") if k not in table]:
        raise GeError(f"missing keys of cluster.{name}: {', '.join(absent)}", where)
    return Level(name, **table)


def _number(key: str, value: Any, where: str, whole: bool = False) -> float:
    kinds = int if whole else int | float
    if isinstance(value, bool) or not isinstance(value, kinds):
        raise GeError(f"'{key}' is {'an integer' if whole else 'a number'}, not {value!r}", where)
    low, high = next(bounds for end, bounds in BOUNDS.items() if key.endswith(end))
    if not low <= value <= high:
        raise GeError(f"'{key}' is from {low:g} to {high:g}, not {value!r}", where)
    return value if whole else float(value)
