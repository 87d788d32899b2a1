"""Compares what a program gives with what another one gives, output by output and, on request, node
by node."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from xdsl.dialects.builtin import ModuleOp, bf16, f16, f64
from xdsl.ir import Attribute

from ge.dialects.graph.quantization import QuantizeOp
from ge.dialects.graph.recoded import CODES, codes_of, divided_in
from ge.dialects.npu_task.attributes import data_type
from ge.dialects.support.element_types import ELEMENT_TYPES, i2, i4
from ge.dialects.support.errors import GeError
from ge.dialects.support.types import shape_text
from ge.runtime.data import accuracy
from ge.runtime.data.accuracy import INTEGERS, TOLERANCES, Measured, Tolerance, measured
from ge.runtime.data.arrays import Array, kind_of
from ge.runtime.device.function import Watch
from ge.runtime.device.session import main_of
from ge.tools.comparing.added import Given, InputSteps, Move, Values
from ge.tools.comparing.layers import ComparedLayer, Comparison, chunks
from ge.tools.comparing.nodes import Origins, shown
from ge.tools.comparing.peers import Arrays, Asked, Onnxruntime, OtherProgram, Peer

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
    """What came of it. `missing`: outputs that one of the two does not have, and which."""

    title: str
    tolerance: Tolerance
    outputs: list[ComparedOutput] = field(default_factory=list[ComparedOutput])
    missing: dict[str, str] = field(default_factory=dict[str, str])
    layers: Comparison | None = None

    @property
    def agrees(self) -> bool:
        return not any(o.complaint for o in self.outputs)

    def report(self) -> dict[str, Any]:
        """The figures for JSON."""
        return {
            "with": self.title,
            "tolerance": str(self.tolerance),
            "agrees": self.agrees,
            "outputs": {o.name: o.report() for o in self.outputs},
            **({"not_compared": self.missing} if self.missing else {}),
            **({} if self.layers is None else {"layers": self.layers.report()}),
        }

    def text(self) -> str:
        """Tables for people."""
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
    """Which nodes are wrong, and a table of these and others by what they add."""
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
        """What numbers are computed in, as `TOLERANCES` call it: the coarser one of the two."""
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
        """The results of nodes (default: all wanted) that read what is given."""
        if move is not None:
            inputs = {name: move(array) for name, array in inputs.items()}
        asked = Asked(wanted if names is None else names, given, move)
        return self.peer.run(inputs, asked).values

    def steps(self) -> InputSteps:
        """Those of inputs and weights, by what the program computes in."""
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
        """Raises GeError for outputs of which none has a name that both know."""
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
    """What a module computes in: integers, or the narrowest of its floats."""
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
    """The same of a peer; empty where that is not known."""
    if isinstance(peer, OtherProgram):
        return computed_in(peer.program.module)
    if isinstance(peer, Onnxruntime):
        kinds = (n.op_type for n in peer.model.graph.node)
        return INTEGERS if any(part in k for k in kinds for part in OF_INTEGERS) else "f32"
    return ""
