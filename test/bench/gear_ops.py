"""Ops with an open axis and gears: which sizes between gears are taken, and are the numbers right?

`python test/bench/gear_ops.py [OP...]` prints for each op, with the batch open and with another
axis, whether inputs may be padded to the next gear, the largest difference from onnxruntime at
sizes
between, and where padding is refused, whether the numbers of padded inputs would have been right
("needlessly", which is no proof: the data may hide it). The proof must agree: it refuses a program
that says of itself what the compiler does not say.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import DenseArrayBase, DictionaryAttr, i64

import ge
from ge.dialects.graph.stated import PADDING
from ge.dialects.support.errors import GeError
from ge.runtime.check.padding import check_padding
from ge.runtime.data.arrays import Array
from ge.runtime.device.session import Session, main_of

N = "n"  # an open axis
GEARS = (2, 6)
BETWEEN = (1, 3, 4, 5)

Dims = Sequence[int | str]


@dataclass(frozen=True)
class Case:
    """A model of one node. Of inputs that are not constant, the dimensions that are open by turns:
    the first of each shape in `open_axes` is "batch"."""

    op: str
    inputs: Mapping[str, Dims]
    constants: Mapping[str, Any] = field(default_factory=dict[str, Any])
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    open_axes: Sequence[Mapping[str, int]] = ({"x": 0}, {"x": 1})
    outputs: int = 1
    opset: int = 18
    order: Sequence[str] = ()  # of all inputs; "" is left out
    integers: Mapping[str, int] = field(default_factory=dict[str, int])  # inputs below a number

    def models(self) -> "Iterator[tuple[str, onnx.ModelProto]]":
        for axes in self.open_axes:
            label = ", ".join(f"{name}[{axis}]" for name, axis in axes.items())
            yield label, self.model(axes)

    def model(self, axes: Mapping[str, int]) -> onnx.ModelProto:
        order = self.order or [*self.inputs, *self.constants]
        node = helper.make_node(
            self.op, order, [f"y{i}" for i in range(self.outputs)], self.op, **self.attributes
        )
        infos = [
            helper.make_tensor_value_info(
                name,
                TensorProto.INT64 if name in self.integers else TensorProto.FLOAT,
                [N if axes.get(name) == i else d for i, d in enumerate(dims)],
            )
            for name, dims in self.inputs.items()
        ]
        outputs = [helper.make_empty_tensor_value_info(o) for o in node.output]
        weights = [numpy_helper.from_array(np.asarray(v), k) for k, v in self.constants.items()]
        graph = helper.make_graph([node], "g", infos, outputs, weights)
        opsets = [helper.make_opsetid("", self.opset)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
        return onnx.shape_inference.infer_shapes(model)

    def arrays(self, model: onnx.ModelProto, size: int) -> dict[str, Array]:
        rng = np.random.default_rng(size)
        arrays: dict[str, Array] = {}
        for info in model.graph.input:
            shape = [d.dim_value or size for d in info.type.tensor_type.shape.dim]
            if (limit := self.integers.get(info.name)) is not None:
                arrays[info.name] = rng.integers(0, limit, shape)
            else:
                arrays[info.name] = rng.standard_normal(shape).astype(np.float32)
        return arrays


def ones(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def ints(*values: Any) -> Array:
    return np.array(values, np.int64)


X = {"x": (4, 4, 8)}
IMAGE = {"x": (4, 4, 4, 6)}
SPATIAL = ({"x": 0}, {"x": 1}, {"x": 2})
RNN = {"x": (5, 4, 8)}
STEPS = ({"x": 1}, {"x": 0})
CASES = (
    Case("Pad", X, {"p": ints(0, 0, 1, 0, 0, 2)}),
    Case("Pad", X, {"p": ints(0, 0, 1, 0, 0, 2)}, {"mode": "reflect"}),
    Case("Resize", IMAGE, {"s": np.array([1, 1, 2, 2], np.float32)}, open_axes=SPATIAL,
         order=["x", "", "s"]),
    Case("ConvTranspose", IMAGE, {"w": ones(4, 2, 2, 2)}, {"strides": [2, 2]},
         ({"x": 0}, {"x": 2})),
    Case("MaxPool", IMAGE, {}, {"kernel_shape": [2, 2]}, SPATIAL),
    Case("MaxPool", IMAGE, {}, {"kernel_shape": [1, 2]}, SPATIAL, outputs=2),
    Case("Conv", IMAGE, {"w": ones(2, 4, 3, 3)}, {"pads": [2, 1, 0, 1]}, ({"x": 0}, {"x": 2})),
    Case("InstanceNormalization", IMAGE, {"a": ones(4), "b": ones(4)},
         open_axes=({"x": 0}, {"x": 2})),
    Case("LayerNormalization", X, {"a": ones(8)}),
    Case("BatchNormalization", IMAGE, {k: abs(ones(4)) for k in "abcd"},
         open_axes=({"x": 0}, {"x": 2})),
    Case("GroupNormalization", IMAGE, {"a": ones(2), "b": ones(2)}, {"num_groups": 2},
         ({"x": 0}, {"x": 2})),
    Case("LRN", IMAGE, {}, {"size": 3}, ({"x": 0}, {"x": 2})),
    Case("LpNormalization", X, {}, {"axis": -1}),
    Case("MeanVarianceNormalization", IMAGE, {}, {"axes": [1, 2, 3]}, ({"x": 0}, {"x": 2})),
    Case("TopK", X, {"k": ints(3)}, {"axis": -1}, outputs=2),
    Case("ArgMax", X, {}, {"axis": -1}),
    Case("ArgMin", X, {}, {"axis": -1, "keepdims": 0}),
    Case("Tile", X, {"r": ints(1, 1, 2)}),
    Case("DepthToSpace", IMAGE, {}, {"blocksize": 2}, ({"x": 0}, {"x": 2})),
    Case("SpaceToDepth", IMAGE, {}, {"blocksize": 2}),
    Case("Einsum", X, {"w": ones(8, 5)}, {"equation": "bij,jk->bik"}),
    Case("CumSum", X, {"a": np.array(1, np.int64)}),
    Case("CumSum", X, {"a": np.array(1, np.int64)}, {"reverse": 1}),
    Case("Slice", X, {"s": ints(-1), "e": ints(-100), "a": ints(2), "t": ints(-1)}),
    Case("Gather", X, {"g": ints(1, 2)}, {"axis": 2}),
    Case("GatherElements", {"x": (4, 4, 8), "i": (4, 4, 3)}, {}, {"axis": 2},
         ({"x": 0, "i": 0}, {"x": 1, "i": 1}), integers={"i": 8}),
    Case("GatherND", {"x": (4, 4, 8)}, {"i": np.zeros((4, 2, 1), np.int64)}, {"batch_dims": 1},
         ({"x": 2},)),
    Case("ScatterND", X, {"i": ints([0]), "u": ones(1, 4, 8)}, open_axes=({"x": 0},)),
    Case("ScatterElements", {"x": (4, 4, 8), "i": (4, 4, 3), "u": (4, 4, 3)}, {}, {"axis": 2},
         ({"x": 0, "i": 0, "u": 0}, {"x": 1, "i": 1, "u": 1}), integers={"i": 8}),
    Case("LSTM", RNN, {"w": ones(1, 16, 8), "r": ones(1, 16, 4)}, {"hidden_size": 4}, STEPS,
         outputs=3),
    Case("LSTM", RNN, {"w": ones(1, 16, 8), "r": ones(1, 16, 4)}, {"hidden_size": 4}, STEPS),
    Case("GRU", RNN, {"w": ones(2, 12, 8), "r": ones(2, 12, 4)},
         {"hidden_size": 4, "direction": "bidirectional"}, STEPS, outputs=2),
    Case("RNN", RNN, {"w": ones(1, 4, 8), "r": ones(1, 4, 4)}, {"hidden_size": 4}, STEPS),
    Case("GridSample", {"x": (4, 3, 4, 5), "g": (4, 4, 3, 2)}, opset=20,
         open_axes=({"x": 0, "g": 0}, {"g": 1}, {"x": 2})),
    Case("Trilu", X),
    Case("QuantizeLinear", X, {"s": np.float32(0.1), "z": np.int8(0)}),
    Case("DynamicQuantizeLinear", X, outputs=3),
    Case("NonZero", X),
    Case("Compress", X, {"c": np.array([True, False, True])}, {"axis": 2}),
    Case("OneHot", {"i": (4, 3)}, {"d": np.array(5, np.int64), "v": np.array([0, 1], np.float32)},
         open_axes=({"i": 0}, {"i": 1}), integers={"i": 5}),
    Case("Hardmax", X),
    Case("Dropout", X),
    Case("ReverseSequence", {"x": (5, 4, 3), "l": (4,)}, {}, {"batch_axis": 1, "time_axis": 0},
         ({"x": 1, "l": 0},), integers={"l": 5}),
    Case("Shrink", X, {}, {"lambd": 0.5}),
    Case("Mod", {"x": (4, 4, 8), "z": (4, 4, 8)}, {}, {"fmod": 1},
         ({"x": 0, "z": 0}, {"x": 1, "z": 1})),
    Case("Det", {"x": (4, 3, 2, 2)}),
    Case("Reshape", X, {"s": ints(0, 0, 2, 4)}),
    Case("AffineGrid", {"x": (4, 2, 3)}, {"s": ints(4, 1, 3, 3)}, open_axes=(), opset=20),
)  # fmt: skip


@dataclass
class Outcome:
    case: Case
    axis: str
    refused: str | None  # why
    difference: float | None  # of sizes between; of padded inputs too, where they are refused
    error: str = ""
    problems: Sequence[str] = ()  # of the claim that inputs may be padded, in the proof

    def __str__(self) -> str:
        if self.error:
            text = self.error
        elif self.refused is None:
            text = f"padded, within {self.difference:.1e}"
            text += f", not proved: {self.problems[0]}" if self.problems else ", proved"
        else:
            right = self.difference is not None and self.difference < 1e-4
            text = f"refused{', needlessly' if right else ''}: {self.refused}"
        return f"{self.case.op:26} {self.axis:14} {text}"


def outcomes(cases: Sequence[Case]) -> Iterator[Outcome]:
    for case in cases:
        for label, model in case.models():
            try:
                yield outcome(case, label, model)
            except GeError as error:
                yield Outcome(case, label, None, None, f"error: {error}")


def outcome(case: Case, label: str, model: onnx.ModelProto) -> Outcome:
    import onnxruntime as ort

    with TemporaryDirectory() as folder:
        onnx.save(model, path := str(Path(folder) / "m.onnx"))
        program = ge.compile(path, dynamic_dims=";".join(map(str, GEARS)))
    session = Session(program.module, program.payload)
    assert session.gears is not None
    (padding,) = session.gears.padding.values()
    refused = padding if isinstance(padding, str) else None
    if refused is not None:  # as if it had been found safe: all axes that grow are cut
        axes = {
            o.name: tuple(i for i, d in enumerate(o.type.tensor_type.shape.dim) if not d.dim_value)
            for o in model.graph.output
        }
        object.__setattr__(session.gears, "padding", {name: axes for name in session.gears.padding})
        cut = {o: DenseArrayBase.from_list(i64, found) for o, found in axes.items()}
        claims = {name: DictionaryAttr(cut) for name in session.gears.padding}
        main_of(program.module).attributes[PADDING] = DictionaryAttr(claims)
    problems = [p.message for p in check_padding(program.module, main_of(program.module))[0]]
    options = ort.SessionOptions()
    options.log_severity_level = 4
    peer = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    worst = 0.0
    for size in BETWEEN:
        arrays = case.arrays(model, size)
        want = peer.run(None, arrays)
        try:
            got = session.run(arrays)
        except GeError as error:
            text = "" if refused else f"error: {error}"
            return Outcome(case, label, refused, None, text, problems)
        for info, expected in zip(model.graph.output, want, strict=True):
            worst = max(worst, distance(got[info.name], expected))
    return Outcome(case, label, refused, worst, problems=problems)


def distance(got: Array, want: Array) -> float:
    if got.shape != want.shape:
        return float("inf")
    if not want.size:
        return 0.0
    wide = np.abs(got.astype(np.float64) - want.astype(np.float64))
    return float(wide.max() / max(float(np.abs(want.astype(np.float64)).max()), 1e-3))


def main(names: Sequence[str]) -> int:
    wrong = 0
    for each in outcomes([c for c in CASES if not names or c.op in names]):
        print(each, flush=True)
        known = each.difference is not None and each.difference < 1e-4
        wrong += bool(each.error) or (each.refused is None and not known)
        wrong += (each.refused is None) == bool(each.problems)
    print(f"{wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
