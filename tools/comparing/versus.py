"""Compares what a program gives with what another one gives, output by output and, on request, node
by node, for the nodes that both have, while one of them runs.

Which nodes are to blame follows from what each of them adds to the error of what it reads: the peer
runs once more, and each of its nodes reads what the program computed (see `nodes.py`). A value that
differs although all that is computed from it agrees is another value under the same name: the
compiler computes something else there and makes up for it later (channels that were scaled)."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import InitVar, dataclass, field
from functools import partial
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp, bf16, f16, f64
from xdsl.ir import Attribute, Operation

from ge.dialects.graph.quantization import QuantizeOp
from ge.dialects.graph.stated import CODES, Codes, Divided, codes_of, divided_in
from ge.dialects.npu_task.attributes import data_type
from ge.dialects.npu_task.ops import LaunchOp
from ge.dialects.support.element_types import ELEMENT_TYPES, i2, i4
from ge.dialects.support.errors import GeError
from ge.dialects.support.types import shape_text
from ge.runtime.data import accuracy
from ge.runtime.data.accuracy import INTEGERS, TOLERANCES, Measured, Tolerance, measured
from ge.runtime.data.arrays import Array, kind_of
from ge.runtime.device.function import Watch
from ge.runtime.device.session import main_of
from ge.tools.comparing.nodes import (
    Code,
    Doubt,
    Given,
    Held,
    InputSteps,
    Move,
    Nodes,
    Origins,
    PeerTrial,
    Place,
    Run,
    Values,
    result_bytes,
    shown,
)
from ge.tools.comparing.peers import Arrays, Asked, Onnxruntime, OtherProgram, Peer

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
        """Return how far an array is from a result; None if it holds something else."""
        name, index = at
        want = self.reference[name][index]
        if want.size != array.size or not want.size:
            return None
        codes = list[Code | None]([None])
        if kind_of(want.dtype) == "f" and kind_of(array.dtype) in "iu":
            codes = [Code(*pair, array.dtype) for pair in self.codes.get(name, ())]
        elif kind_of(want.dtype) != kind_of(array.dtype):
            return None
        orders = [array]
        if array.ndim > 2 and np.moveaxis(array, -1, 1).shape == want.shape:  # channels are last
            orders.append(np.moveaxis(array, -1, 1))
        forms = [self.as_held(name, want, form, code) for form in orders for code in codes]
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
        """Return those that are wrong first, of these and of the others those that add most."""
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


OF_INTEGERS = ("Quant", "QLinear", "Integer", "NBits")  # in the names of ONNX's ops

SHOWN = 12  # nodes that are printed


@dataclass(frozen=True, slots=True)
class ComparedOutput:
    """An output of both programs; without figures where shapes or types differ."""

    name: str
    type: str
    complaint: str
    measured: Measured | None = None

    def report(self) -> dict[str, Any]:
        figures = {} if self.measured is None else accuracy.report(self.measured)
        return {"type": self.type, **figures, "verdict": self.complaint or "agrees"}


@dataclass
class Result:
    """The result of a comparison. `missing`: outputs that one of the two does not have, and
    which."""

    title: str
    tolerance: Tolerance
    outputs: list[ComparedOutput] = field(default_factory=list[ComparedOutput])
    missing: dict[str, str] = field(default_factory=dict[str, str])
    layers: Comparison | None = None

    @property
    def agrees(self) -> bool:
        return not any(o.complaint for o in self.outputs)

    def report(self) -> dict[str, Any]:
        return {
            "with": self.title,
            "tolerance": str(self.tolerance),
            "agrees": self.agrees,
            "outputs": {o.name: o.report() for o in self.outputs},
            **({"not_compared": self.missing} if self.missing else {}),
            **({} if self.layers is None else {"layers": self.layers.report()}),
        }

    def text(self) -> str:
        rows = [("output", "type", "error", "of the largest", "cosine", "SNR", "verdict")]
        rows += [(o.name, o.type, *figures(o.measured), o.complaint or "agrees")
                 for o in self.outputs]  # fmt: skip
        lines = [f"compared with {self.title}; tolerance: {self.tolerance}", *table(rows)]
        lines += [f"not compared: '{name}': {why}" for name, why in self.missing.items()]
        if self.layers is not None:
            lines += ["", *layer_lines(self.layers)]
        return "\n".join(lines)


def figures(m: Measured | None) -> tuple[str, str, str, str]:
    if m is None:
        return "", "", "", ""
    if not m.is_float:
        return f"{m.error:.4g}", "", "", f"{m.differ} differ"
    snr = "exact" if m.snr == float("inf") else f"{m.snr:.1f} dB"
    return f"{m.error:.3g}", f"{m.share:.1e}", f"{m.cos:.7f}", snr


def table(rows: list[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip()


def layer_lines(layers: Comparison) -> Iterator[str]:
    """Yield which nodes are wrong, and a table of these and others by what they add."""
    ranked, first = layers.ranked, layers.first
    differ, wrong = (sum(map(bool, flags)) for flags in (
        [x.complaint for x in ranked], [x.is_wrong for x in ranked]))  # fmt: skip
    yield f"{len(ranked)} nodes compared, {differ} beyond the tolerance, {wrong} wrong alone"
    if not ranked:
        yield "(results in branches and loops are not compared)"
        return
    if first is not None:
        yield f"wrong alone: {told(ranked[0])}"
        if ranked[0] is not first:
            yield f"the first in the model: {told(first)}"
    rows = [("node", "op", "error", "of the largest", "SNR", "alone", "")]
    for layer in ranked[:SHOWN]:
        error, share, _, snr = figures(layer.measured)
        op, alone = layer.op.removeprefix("graph."), figures(layer.alone)[-1]
        rows.append((layer.name, op, error, share, snr, alone, layer.verdict))
    yield from table(rows)
    if len(ranked) > SHOWN:
        yield f"and {len(ranked) - SHOWN} more: --report has all"


def told(layer: ComparedLayer) -> str:
    others = [name for name in layer.sources if name != layer.name]
    made = f"; computed from {', '.join(others)} (not compared)" if others else ""
    return f"{layer.name} ({layer.op}): {layer.alone_complaint}{made}"


@dataclass
class Versus:
    """A program, at any level, beside a peer. Raises GeError where nodes are to be compared and
    the program does not name them."""

    module: ModuleOp
    peer: Peer
    by_node: bool = False
    asked: Tolerance | None = None
    quantized: bool = False  # whether the program was made of a model of floats
    kind: str = field(init=False)  # what numbers are computed in, as `TOLERANCES` call it
    tolerance: Tolerance = field(init=False)
    layers: Comparison | None = None
    parts: list[set[str]] = field(default_factory=list[set[str]])

    def __post_init__(self) -> None:
        self.kind = self.computed_in()
        self.tolerance = self.asked or TOLERANCES[self.kind]
        if not self.by_node:
            return
        nodes = self.peer.nodes
        if nodes is None:
            raise GeError(f"--compare-layers: {self.peer.why_not}", hint="compare outputs alone")
        origins = Origins(self.module)
        self.parts = chunks(self.module, nodes, origins)
        if not self.parts and any(True for _ in shown(self.module)):
            hint = "compile it with --mlir-print-debuginfo, or run the model itself"
            text = f"no op of the program has the name of a node of {self.peer.title}"
            raise GeError(f"--compare-layers: {text}", hint=hint)
        main = main_of(self.module)
        codes, divided = codes_of(main), divided_in(main)
        self.layers = Comparison(nodes, origins, self.tolerance, self.share, codes, divided)

    def computed_in(self) -> str:
        """Return what numbers are computed in, as `TOLERANCES` call it: the coarser one of the
        two."""
        own, other = computed_in(self.module), peers_type(self.peer)
        if own == other == INTEGERS or (own == INTEGERS and not other and not self.is_coded):
            return INTEGERS
        if INTEGERS in (own, other):
            return accuracy.CODES
        return max((n for n in (own, other) if n), key=[*TOLERANCES].index)

    @property
    def is_coded(self) -> bool:
        return self.quantized or CODES in main_of(self.module).attributes

    def runs(self, inputs: Arrays) -> "Iterator[tuple[Arrays, Watch | None]]":
        """Run the peer, for each part of the nodes: its outputs, and what watches the same run of
        the program. Then it runs on what that computed."""
        layers = self.layers
        for part in self.parts or [set[str]()]:
            wanted = part if layers is None else layers.wanted(part)
            ran = self.peer.run(inputs, Asked(wanted))
            if layers is not None:
                layers.reference = ran.values
            yield ran.outputs, layers
            if layers is not None:
                layers.judge(partial(self._on_given, inputs, wanted), self.steps)

    def _on_given(
        self,
        inputs: Arrays,
        wanted: Collection[str],
        given: Given,
        move: Move | None,
        names: Collection[str] | None,
    ) -> Values:
        """The results of nodes (default: all wanted) that read the given arrays."""
        if move is not None:
            inputs = {name: move(array) for name, array in inputs.items()}
        asked = Asked(wanted if names is None else names, given, move)
        return self.peer.run(inputs, asked).values

    def steps(self) -> InputSteps:
        """Return the steps of inputs and weights, by what the program computes in."""
        if self.share:
            return InputSteps(self.share, False)
        types = elements_of(self.module)
        bits = next((t.bitwidth for t in (i2, i4) if t in types), 8)
        return InputSteps(1 / (2 ** (bits - 1) - 1), True)

    @property
    def share(self) -> float:
        """A unit in the last place of 1 in the floats computed in; 0 for codes."""
        floats = (row.precision for row in ELEMENT_TYPES if row.name == self.kind)
        return next((2.0 ** (1 - precision) for precision in floats), 0.0)

    def result(self, want: Arrays, got: Arrays) -> Result:
        """Compare outputs. Raises GeError for outputs of which none has a name that both know."""
        found = Result(self.peer.title, self.tolerance, layers=self.layers)
        both = [name for name in got if name in want]
        if not both:
            a, b = (", ".join(f"'{n}'" for n in arrays) or "none" for arrays in (got, want))
            what = f"no output has the same name: the program has {a}, {self.peer.title} {b}"
            raise GeError(what, hint="compare programs of one model")
        found.missing |= {n: f"{self.peer.title} has none" for n in got if n not in want}
        found.missing |= {n: "the program has none" for n in want if n not in got}
        found.outputs = [self.output(name, want[name], got[name]) for name in both]
        if self.layers is not None:
            self.layers.finish()
        return found

    def output(self, name: str, want: Array, got: Array) -> ComparedOutput:
        text = f"{got.dtype}[{', '.join(map(str, got.shape))}]"
        if want.shape != got.shape:
            what = f"its shape is {shape_text(got.shape)}, not {shape_text(want.shape)}"
            return ComparedOutput(name, text, what)
        if (kind_of(want.dtype) == "f") != (kind_of(got.dtype) == "f"):
            return ComparedOutput(name, text, f"it is of {got.dtype}, not of {want.dtype}")
        m = measured(want, got)
        return ComparedOutput(name, text, m.complaint(self.tolerance), m)


def computed_in(module: ModuleOp) -> str:
    """Return what a module computes in: integers, or the narrowest of its floats."""
    if any(type(op).__module__ == QuantizeOp.__module__ for op in module.walk()):
        return INTEGERS
    elements = elements_of(module)
    for name, element in (("bf16", bf16), ("f16", f16)):
        if element in elements:
            return name
    floats = {str(e) for e in elements if str(e).startswith("f")}
    return "f64" if f64 in elements and floats == {"f64"} else "f32"


def elements_of(module: ModuleOp) -> set[Attribute]:
    """The element types of the results of all ops."""
    types = {v.type for op in module.walk() for v in op.results}
    return {data_type(t)[0] for t in types if hasattr(t, "element_type")}


def peers_type(peer: Peer) -> str:
    """The same of a peer; empty if that is not known."""
    if isinstance(peer, OtherProgram):
        return computed_in(peer.program.module)
    if isinstance(peer, Onnxruntime):
        kinds = (n.op_type for n in peer.model.graph.node)
        return INTEGERS if any(part in k for k in kinds for part in OF_INTEGERS) else "f32"
    return ""
