"""Compares the results of the nodes that two programs both have, while one of them runs.

Which nodes are to blame follows from what each of them adds to the error of what it reads. A value
that differs although all that is computed from it agrees is another value under the same name: the
compiler computes something else there and makes up for it later (channels that were scaled).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ge.dialects.graph.recoded import Codes, Divided
from ge.dialects.npu_task.ops import LaunchOp
from ge.lowering.comparing.nodes import Nodes, Origins, result_bytes, shown
from ge.runtime.data import accuracy
from ge.runtime.data.accuracy import Measured, Tolerance, measured
from ge.runtime.data.arrays import Array, kind_of

CHUNK = 1 << 30  # bytes of results of nodes that are kept at a time

# dB that results have at best, by what they are computed in: what an op adds to the error of what
# it reads is counted from there
EXACT = {"f64": 280.0, "f32": 130.0, "f16": 60.0, "bf16": 40.0}
OF_CODES = 40.0


@dataclass
class Layer:
    """A node that both programs have. `sources`: itself and the nodes that it is computed from
    whose results were not compared, as they stay within a launch. `before`: the least dB of the
    results that it reads, of those that were compared; `complaint`: what is beyond the tolerance;
    `is_other`: what is computed from it agrees all the same."""

    name: str
    op: str
    sources: list[str]
    type: str
    measured: Measured
    before: float
    complaint: str = ""
    is_other: bool = False

    @property
    def jump(self) -> float:
        """How many dB the node loses."""
        lost = self.before - self.measured.snr
        return 0.0 if math.isnan(lost) else max(lost, 0.0)

    @property
    def is_wrong(self) -> bool:
        return bool(self.complaint) and not self.is_other

    def report(self) -> dict[str, Any]:
        entry: dict[str, Any] = {"name": self.name, "op": self.op, "type": self.type}
        if self.sources != [self.name]:
            entry["sources"] = self.sources
        entry |= accuracy.report(self.measured)
        entry["before_db"], entry["jump_db"] = self.before, self.jump
        if self.complaint:
            entry["complaint"] = self.complaint
            entry["agrees_later"] = self.is_other
        return entry


@dataclass
class Comparison:
    """The results of nodes of one program, `reference`, against those of another one while that
    runs. `exact`: the dB that results have at best."""

    nodes: Nodes
    origins: Origins  # of the results of the other one
    tolerance: Tolerance
    exact: float
    codes: Codes = field(default_factory=dict[str, Any])
    divided: InitVar[Sequence[Divided]] = ()
    reference: Mapping[str, Sequence[Array]] = field(default_factory=dict[str, Sequence[Array]])
    layers: dict[tuple[str, int], Layer] = field(default_factory=dict[tuple[str, int], Layer])
    others: set[str] = field(default_factory=set[str])  # that have no counterpart
    _least: dict[str, float] = field(default_factory=dict[str, float])

    def __post_init__(self, divided: Sequence[Divided]) -> None:
        self._factors: dict[str, list[tuple[int, Array]]] = {}
        for division in divided:
            factors = np.array(division.by, np.float32)
            for name, axis in division.axes.items():
                self._factors.setdefault(name, []).append((axis, factors))

    # ---- while the program runs

    def __call__(self, op: Operation, arrays: Sequence[Array]) -> None:
        """Compare each result that an op has written with that of the last of the nodes which it
        came from; of a node with several results, with the nearest one."""
        for names, array in zip(self.origins.of(op), arrays, strict=True):
            name = self.nodes.last(names)
            if name is None:
                continue
            places = [(name, i) for i in range(len(self.reference.get(name, ())))]
            found = [(m, at) for at in places if (m := self.against(at, array)) is not None]
            if found:
                m, at = min(found, key=lambda pair: (-pair[0].snr, pair[0].error))
                self.add(op, at, m, array)
            else:
                self.others.add(name)

    def against(self, at: tuple[str, int], array: Array) -> Measured | None:
        """How far an array is from a result; None where it holds something else: other elements, or
        these in another order."""
        name, index = at
        want = self.reference[name][index]
        if want.size != array.size or not want.size:
            return None
        wide = [array]
        if kind_of(want.dtype) == "f" and kind_of(array.dtype) in "iu":
            if not self.codes.get(name):
                return None
            wide = [decoded(array, *pair) for pair in self.codes[name]]
        elif kind_of(want.dtype) != kind_of(array.dtype):
            return None
        wide = [self.multiplied(name, a) for a in wide]
        m = max((measured(want, a) for a in wide), key=lambda m: m.snr)
        if m.complaint(self.tolerance):
            if want.shape != array.shape:
                return None
            if self.before(name) >= self.exact - 1 and is_moved(want, wide[0], self.tolerance):
                return None
        return m

    def multiplied(self, name: str, array: Array) -> Array:
        """An array with the factors that its channels were divided by."""
        for axis, factors in self._factors.get(name, ()):
            if array.shape[axis : axis + 1] == factors.shape:
                array = array * factors.reshape(-1, *[1] * (array.ndim - axis - 1))
        return array

    def add(self, op: Operation, at: tuple[str, int], m: Measured, array: Array) -> None:
        name, _ = at
        kind = self.nodes.ops[name] if not isinstance(op, LaunchOp) else f"@{op.callee}"
        text = f"{array.dtype}[{', '.join(map(str, array.shape))}]"
        before, complaint = self.before(name), m.complaint(self.tolerance)
        self.layers[at] = Layer(name, kind, [name], text, m, before, complaint)
        self._least[name] = min(m.snr, self.exact)

    def before(self, name: str) -> float:
        """The least dB of the compared results that a node reads, through nodes that were not."""
        return min((self._least[n] for n in self.read_by(name)[0]), default=self.exact)

    def read_by(self, name: str) -> tuple[list[str], list[str]]:
        """The nodes whose results were compared and that a node reads, through others that were
        not: these come second, with the node itself."""
        seen, stack = {name}, [*self.nodes.reads.get(name, ())]
        compared, between = list[str](), [name]
        while stack:
            if (read := stack.pop()) in seen:
                continue
            seen.add(read)
            if read in self._least:
                compared.append(read)
            else:
                between.append(read)
                stack += self.nodes.reads.get(read, ())
        return compared, sorted(between, key=self.nodes.places.__getitem__)

    # ---- after it has run

    def finish(self) -> None:
        """Find the values that differ under the same name while what is computed from them agrees,
        and what each node loses without them."""
        readers: dict[str, set[str]] = {}
        for layer in self.layers.values():
            for read in self.read_by(layer.name)[0]:
                readers.setdefault(read, set()).add(layer.name)
        wrong = {layer.name for layer in self.layers.values() if layer.complaint}
        for layer in self.layers.values():
            after = readers.get(layer.name, set())
            layer.is_other = bool(layer.complaint and after) and not (after & wrong)
            if layer.is_other:
                self._least.pop(layer.name, None)
        for layer in self.layers.values():
            layer.before, layer.sources = self.before(layer.name), self.read_by(layer.name)[1]

    @property
    def ranked(self) -> list[Layer]:
        """Those that lose most first: of floats those beyond the tolerance, then the others. What
        noise codes make hangs on the model, so that among integers the loss alone tells."""
        coded = self.exact == OF_CODES
        return sorted(
            self.layers.values(), key=lambda x: (x.is_other, not (coded or x.is_wrong), -x.jump)
        )

    @property
    def first(self) -> Layer | None:
        """The first node, in the order of the model, that is beyond the tolerance."""
        wrong = (layer for layer in self.layers.values() if layer.is_wrong)
        return min(wrong, key=lambda x: self.nodes.places[x.name], default=None)

    def report(self) -> dict[str, Any]:
        first = self.first
        return {
            "compared": len(self.layers),
            "wrong": sum(x.is_wrong for x in self.layers.values()),
            **({} if first is None else {"first": first.name}),
            "nodes": [layer.report() for layer in self.ranked],
        }


def decoded(codes: Array, scale: float, zero: int) -> Array:
    """The numbers that codes stand for."""
    return (codes.astype(np.float32) - np.float32(zero)) * np.float32(scale)


def is_moved(want: Array, got: Array, tolerance: Tolerance) -> bool:
    """Whether an array has the elements of another one in another order, as after a transpose."""
    a, b = np.sort(want, axis=None), np.sort(got, axis=None)
    return not measured(a, b).complaint(tolerance)


def chunks(module: ModuleOp, nodes: Nodes, origins: Origins) -> list[set[str]]:
    """The nodes whose results are compared at a time, so that not more than `CHUNK` bytes are
    kept."""
    parts, size = [set[str]()], 0
    for op in shown(module):
        last = {nodes.last(names) for names in origins.of(op)}
        size += result_bytes(op)
        if size > CHUNK and parts[-1]:
            parts.append(set())
            size = result_bytes(op)
        parts[-1] |= {name for name in last if name is not None}
    return [part for part in parts if part]
