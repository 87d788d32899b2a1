"""ONNX's own backend tests, each as one callable: `node`, `simple`, `pytorch-operator`,
`pytorch-converted` and `light` (small-weight versions of known networks)."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.backend.test.case import base
from onnx.backend.test.loader import load_model_tests
from onnx.reference.ops import op_pool_common

from ge.tools.onnx_backend import Backend

# Its softmax is of a thousand sums of 9.5e9 that differ by rounding alone, by 0 or by 1024: what it
# gives depends on whether the processor's matmul adds all columns in one order. So the sums are
# compared with each other.
EQUAL_BEFORE_SOFTMAX = "test_squeezenet"

KINDS = ("node", "simple", "pytorch-operator", "pytorch-converted", "light")


def cases(kind: str) -> Iterator[tuple[str, Any]]:
    """(name, test case) of one kind."""
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")  # the generators of expected values divide by zero
        patch.setattr(op_pool_common, "pool", pool)
        patch.setattr(base, "process_snippet", lambda *_: ("", ""))  # source text, for ONNX's docs
        for case in load_model_tests(kind="real" if kind == "light" else kind):
            yield f"{kind}/{case.name}", case


def pool(
    padded: Any, x_shape: Any, kernel: Any, strides: Any, out_shape: Any, pooling_type: str,
    pads_required: Any = None, pads: Any = None, dilations: Any = None, count_include_pad: int = 0,
    p: int = 1,
) -> Any:  # fmt: skip
    """ONNX's reference for pooling, with its arguments, in numpy instead of loops over all pixels
    (`test_the_reference_of_pooling` compares the two). What is padded is NaN, unless it counts."""
    rank = len(x_shape) - 2
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    pads, required = (
        (list(q) * (2 * rank if len(q) == 1 else 1) if q is not None else [0] * 2 * rank)
        for q in (pads, pads_required)
    )
    windows, inside = padded, np.ones((), bool)
    for i in range(rank):  # each dimension becomes two: the window, and the place in it
        size = 1 + (kernel[i] - 1) * dilations[i]
        count = int((x_shape[i + 2] + required[i] + required[rank + i] - size) / strides[i] + 1)
        at = strides[i] * np.arange(count)[:, None] + dilations[i] * np.arange(kernel[i])
        end = x_shape[i + 2] + pads[i] + pads[rank + i]
        axis = 2 + 2 * i
        windows = np.take(windows, at, axis, mode="clip")
        inside = inside[..., None, None] & (at < end)
    places = tuple(range(3, 3 + 2 * rank, 2))
    counts = inside if count_include_pad and pooling_type != "MAX" else inside & ~np.isnan(windows)
    wide = np.where(counts, windows, np.nan)
    if pooling_type == "MAX":
        found = np.nanmax(wide, places)
    elif pooling_type == "AVG":
        found = np.nanmean(wide, places)
    else:
        found = np.nansum(np.abs(wide) ** p, places) ** (1.0 / p)
    y = np.zeros([x_shape[0], x_shape[1], *out_shape], padded.dtype)
    y[tuple(slice(size) for size in found.shape)] = found
    return y


def run(case: Any, tiles: str = "") -> None:
    """Raises AssertionError when an output differs, whatever the pipeline raises otherwise."""
    if case.url:
        model, sets = _light(case)
    elif case.model is not None:
        model = case.model
        sets = [([_array(x) for x in i], [_array(y) for y in o]) for i, o in case.data_sets]
    else:
        model, sets = _from_folder(Path(case.model_dir))
    program = Backend.prepare(model, tiles=tiles)
    for inputs, expected in sets:
        outputs = program.run(inputs)
        assert len(outputs) == len(expected)
        for got, want in zip(outputs, expected, strict=True):
            if isinstance(want, list):
                assert isinstance(got, list)
                assert len(got) == len(want)
                for a, b in zip(got, want, strict=True):
                    _compare(np.asarray(a), np.asarray(b), case.rtol, case.atol)
            else:
                _compare(np.asarray(got), np.asarray(want), case.rtol, case.atol)


def _compare(got: Any, want: Any, rtol: float, atol: float) -> None:
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    if want.dtype.kind in "fcV":
        wide = want.dtype.itemsize > 2
        np.testing.assert_allclose(
            got.astype(np.float64), want.astype(np.float64),
            rtol=max(rtol, 1e-3 if wide else 1e-2), atol=max(atol, 1e-6),
        )  # fmt: skip
    else:
        np.testing.assert_array_equal(got, want)


def _array(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _light(case: Any) -> tuple[onnx.ModelProto, list[Any]]:
    path = Path(onnx.__file__).parents[1] / case.url
    model = onnx.load(path)
    initialized = {i.name for i in model.graph.initializer}
    (entry,) = (i for i in model.graph.input if i.name not in initialized)
    shape = [d.dim_value for d in entry.type.tensor_type.shape.dim]
    size = int(np.prod(shape))
    x = (np.arange(size).reshape(shape) / size).astype(np.float32)
    stored = path.with_name(f"{path.stem}_output_0.pb").read_bytes()
    expected = numpy_helper.to_array(onnx.TensorProto.FromString(stored))
    if case.name == EQUAL_BEFORE_SOFTMAX:
        model = _difference_before_softmax(model)
        expected = np.zeros_like(expected)
    return model, [([x], [expected])]


def _difference_before_softmax(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the relative differences of what its softmax takes for an output, from their
    mean."""
    softmax = model.graph.node.pop()
    assert softmax.op_type == "Softmax"
    (before,), (output,) = softmax.input, softmax.output
    model.graph.node.extend(
        [
            onnx.helper.make_node("ReduceMean", [before], ["mean"], axes=[1]),
            onnx.helper.make_node("Sub", [before, "mean"], ["difference"]),
            onnx.helper.make_node("Div", ["difference", "mean"], [output]),
        ]
    )
    return model


def _from_folder(folder: Path) -> tuple[onnx.ModelProto, list[Any]]:
    model = onnx.load(folder / "model.onnx")
    sets: list[Any] = []
    for data in sorted(folder.glob("test_data_set_*")):
        arrays: list[list[Any]] = []
        for kind, infos in (("input", model.graph.input), ("output", model.graph.output)):
            files = sorted(data.glob(f"{kind}_*.pb"), key=lambda f: int(f.stem.split("_")[1]))
            arrays.append([_read(f.read_bytes(), i) for f, i in zip(files, infos, strict=False)])
        sets.append(tuple(arrays))
    return model, sets


def _read(data: bytes, info: onnx.ValueInfoProto) -> Any:
    if info.type.HasField("sequence_type"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    return numpy_helper.to_array(onnx.TensorProto.FromString(data))
