"""Compares the results of the nodes that two programs both have, while one of them runs.

Which nodes are to blame follows from what each of them adds to the error of what it reads: the peer
runs once more, and each of its nodes reads what the program computed (see `added.py`). A value that
differs although all that is computed from it agrees is another value under the same name: the
compiler computes something else there and makes up for it later (channels that were scaled).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ge.dialects.graph.recoded import Codes, Divided
from ge.dialects.npu_task.ops import LaunchOp
from ge.runtime.data import accuracy
from ge.runtime.data.accuracy import Measured, Tolerance, measured
from ge.runtime.data.arrays import Array, kind_of
from ge.tools.comparing.added import Code, Doubt, Held, InputSteps, PeerTrial, Place, Run, Values
from ge.tools.comparing.nodes import Nodes, Origins, result_bytes, shown

CHUNK = 1 << 30  # bytes of results of nodes that are kept at a time

SUMS = {"add", "sum"}  # ops, of ONNX and of ge, that hand their operands on


@dataclass
class ComparedLayer:
    """A node that both programs have. `sources`: itself and the nodes that it is computed from
    whose results were not compared, as they stay within a launch. `complaint`: how its result is
    beyond the tolerance; `alone`: the same beside what the peer computes of the program's own
    operands, and `alone_complaint` how that is beyond it. `is_noisy`: the peer's result changes as
    much where what it reads moves by a step; `is_other`: what is computed from it agrees all the
    same."""

    name: str
    op: str
    sources: list[str]
    type: str
    measured: Measured
    complaint: str
    alone: Measured
    alone_complaint: str = ""
    is_noisy: bool = False
    is_other: bool = False

    @property
    def is_wrong(self) -> bool:
        return bool(self.alone_complaint) and not (self.is_other or self.is_noisy)

    @property
    def verdict(self) -> str:
        if self.is_wrong:
            return "wrong"
        if self.complaint and self.is_other:
            return "what follows agrees"
        if self.alone_complaint and self.is_noisy:
            return "as rounding does"
        return "differs" if self.complaint else ""

    def report(self) -> dict[str, Any]:
        entry: dict[str, Any] = {"name": self.name, "op": self.op, "type": self.type}
        if self.sources != [self.name]:
            entry["sources"] = self.sources
        entry |= accuracy.report(self.measured)
        entry["alone"] = accuracy.report(self.alone)
        entry["verdict"] = self.verdict or "agrees"
        if complaint := self.alone_complaint if self.is_wrong else self.complaint:
            entry["complaint"] = complaint
        return entry


@dataclass
class Comparison:
    """The results of nodes of one program, `reference`, against those of another one while that
    runs. `share`: a unit in the last place of the narrowest floats that the other one computes in,
    0 for codes. `held`: its results, that in floats before that in codes."""

    nodes: Nodes
    origins: Origins  # of the results of the other one
    tolerance: Tolerance
    share: float
    codes: Codes = field(default_factory=dict[str, Any])
    divided: InitVar[Sequence[Divided]] = ()
    reference: Values = field(default_factory=dict[str, Sequence[Array]])
    layers: dict[Place, ComparedLayer] = field(default_factory=dict[Place, ComparedLayer])
    others: set[str] = field(default_factory=set[str])  # that have no counterpart
    held: dict[Place, list[Held]] = field(default_factory=dict[Place, list[Held]])
    _compared: set[str] = field(default_factory=set[str])
    _judged: set[Place] = field(default_factory=set[Place])

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
            found = [(*pair, at) for at in places if (pair := self.against(at, array))]
            if found:
                m, held, at = min(found, key=lambda f: (-f[0].snr, f[0].error))
                self.add(op, at, m, held, f"{array.dtype}[{', '.join(map(str, array.shape))}]")
            elif places:
                self.others.add(name)

    def against(self, at: Place, array: Array) -> tuple[Measured, Held] | None:
        """How far an array is from a result; None where it holds something else."""
        name, index = at
        want = self.reference[name][index]
        if want.size != array.size or not want.size:
            return None
        codes = list[Code | None]([None])
        if kind_of(want.dtype) == "f" and kind_of(array.dtype) in "iu":
            codes = [Code(*pair, array.dtype) for pair in self.codes.get(name, ())]
        elif kind_of(want.dtype) != kind_of(array.dtype):
            return None
        forms = [self.as_held(name, want, array, code) for code in codes]
        pairs = [(measured(want, form.numbers), form) for form in forms]
        best = max(pairs, key=lambda pair: pair[0].snr, default=None)
        if best is not None and best[0].complaint(self.tolerance) and want.shape != array.shape:
            return None
        return best

    def as_held(self, name: str, want: Array, array: Array, code: Code | None) -> Held:
        numbers = array if code is None else code.decoded(array)
        factors = np.ones((), np.float32)
        for axis, by in self._factors.get(name, ()):
            if array.shape[axis : axis + 1] == by.shape:
                factors = factors * by.reshape(-1, *[1] * (array.ndim - axis - 1))
        held = Held(numbers.astype(want.dtype).reshape(want.shape), array.dtype, self.share, code)
        if factors.ndim:
            held.factors = np.broadcast_to(factors, array.shape).reshape(want.shape)
        return held

    def add(self, op: Operation, at: Place, m: Measured, held: Held, text: str) -> None:
        """Note a result. That in floats stands for a node that has one in codes too."""
        name, _ = at
        kind = self.nodes.ops[name] if not isinstance(op, LaunchOp) else f"@{op.callee}"
        forms = {h.code is not None: h for h in [*self.held.get(at, ()), held]}
        self.held[at] = [forms[is_code] for is_code in sorted(forms)]
        if self.held[at][0] is held and at not in self._judged:
            complaint = m.complaint(self.tolerance)
            self.layers[at] = ComparedLayer(name, kind, [name], text, m, complaint, m)
        self._compared.add(name)

    def read_by(self, name: str) -> tuple[list[str], list[str]]:
        """The nodes whose results were compared and that a node reads, through others that were
        not: these come second, with the node itself."""
        seen, stack = {name}, [*self.nodes.reads.get(name, ())]
        compared, between = list[str](), [name]
        while stack:
            if (read := stack.pop()) in seen:
                continue
            seen.add(read)
            if read in self._compared:
                compared.append(read)
            else:
                between.append(read)
                stack += self.nodes.reads.get(read, ())
        return compared, sorted(between, key=self.nodes.places.__getitem__)

    def wanted(self, part: Iterable[str]) -> set[str]:
        """The nodes of a part, and those of the parts before it that it reads."""
        return {*part, *(read for name in part for read in self.read_by(name)[0])}

    # ---- after it has run

    def judge(self, run: Run, steps: Callable[[], InputSteps]) -> None:
        """Measure what each node adds. `run` gives the peer's results where nodes read these arrays
        instead of their operands: those in floats or, where that is nearer, those in codes."""
        ends = (0, -1) if any(len(held) > 1 for held in self.held.values()) else (0,)
        trials = [PeerTrial({at: held[end] for at, held in self.held.items()}, run) for end in ends]
        doubtful: list[list[Doubt]] = [[] for _ in trials]
        for at, forms in self.held.items():
            if at in self._judged:
                continue
            self._judged.add(at)
            layer, kept = self.layers[at], self.kept_by(at)
            nearest = [
                max(((t.added(at, held, kept), held, i) for i, t in enumerate(trials)),
                    key=lambda found: found[0].snr)
                for held in forms
            ]  # fmt: skip
            layer.alone, held, number = min(nearest, key=lambda found: found[0].snr)
            if complaint := layer.alone.complaint(self.tolerance):
                layer.alone_complaint = complaint
                names = {*self.read_by(at[0])[0]}
                reads = [place for place in self.held if place[0] in names]
                doubtful[number].append(Doubt(at, held, kept, reads, layer.alone))
        for trial, doubts in zip(trials, doubtful, strict=True):
            if doubts:
                trial.explain(doubts, steps())
            for doubt in doubts:
                self.layers[doubt.at].is_noisy = doubt.is_explained
        self.held.clear()

    def kept_by(self, at: Place) -> list[Place]:
        """The operands of a sum, which it hands on."""
        name, _ = at
        if self.nodes.ops[name].removeprefix("graph.").lower() not in SUMS:
            return []
        return [place for place in self.held if place[0] in self.nodes.reads[name]]

    def finish(self) -> None:
        """Find the values that differ under the same name while what is computed from them agrees:
        then what is computed from the program's own value does not."""
        readers: dict[str, set[str]] = {}
        layers: dict[str, list[ComparedLayer]] = {}
        for layer in self.layers.values():
            layers.setdefault(layer.name, []).append(layer)
            reads, layer.sources = self.read_by(layer.name)
            for read in reads:
                readers.setdefault(read, set()).add(layer.name)
        for name in sorted(layers, key=self.nodes.places.__getitem__, reverse=True):
            after = [layer for n in readers.get(name, ()) for layer in layers[n]]
            if any(x.complaint and not x.is_other for x in after):
                continue
            if any(x.is_other or x.alone_complaint for x in after):
                for layer in layers[name]:
                    layer.is_other = bool(layer.complaint)
        for layer in self.layers.values():
            reads, _ = self.read_by(layer.name)
            if not layer.complaint and any(x.is_other for n in reads for x in layers[n]):
                layer.alone, layer.alone_complaint = layer.measured, ""

    @property
    def ranked(self) -> list[ComparedLayer]:
        """Those that are wrong first, of these and of the others those that add most."""
        return sorted(
            self.layers.values(),
            key=lambda x: (x.is_other, not x.is_wrong, x.is_noisy, x.alone.snr),
        )

    @property
    def first(self) -> ComparedLayer | None:
        """The first node, in the order of the model, that is wrong."""
        wrong = (layer for layer in self.layers.values() if layer.is_wrong)
        return min(wrong, key=lambda x: self.nodes.places[x.name], default=None)

    def report(self) -> dict[str, Any]:
        first = self.first
        return {
            "compared": len(self.layers),
            "differ": sum(bool(x.complaint) for x in self.layers.values()),
            "wrong": sum(x.is_wrong for x in self.layers.values()),
            **({} if first is None else {"first": first.name}),
            "nodes": [layer.report() for layer in self.ranked],
        }


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
