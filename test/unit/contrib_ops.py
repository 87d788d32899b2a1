"""One node of onnxruntime's own ops: what ge computes beside onnxruntime."""

from collections.abc import Mapping, Sequence
from itertools import product
from math import gcd
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from ge.lowering.onnx.importer import import_model
from ge.runtime.data.arrays import Array
from ge.runtime.device.session import Session

Arrays = Mapping[str, Any]  # None: an optional input that is absent

F32, F16 = np.float32, np.float16


def spread(*choices: Sequence[Any], count: int) -> list[tuple[Any, ...]]:
    """`count` of all combinations, spread over them so that each choice takes part."""
    every = list(product(*choices))
    step = next(
        s for s in range(round(len(every) * 0.382), 2 * len(every)) if gcd(s, len(every)) == 1
    )
    return [every[i * step % len(every)] for i in range(min(count, len(every)))]


def normal(*dims: int, seed: int = 0, dtype: Any = F32) -> Array:
    return np.random.default_rng(seed).standard_normal(dims).astype(dtype)


def model_of(
    op: str,
    inputs: Arrays,
    outputs: Sequence[str],
    constants: Sequence[str] = (),
    domain: str = "com.microsoft",
    version: int = 21,
    dynamic: Mapping[str, Sequence[Any]] | None = None,
    **attributes: Any,
) -> ModelProto:
    """A model of one node. `inputs` in their order, of which `constants` are initializers and those
    in `dynamic` have the shapes that stand there; an output "" is not asked for."""
    names = ["" if a is None else name for name, a in inputs.items()]
    node = helper.make_node(op, names, outputs, "node", domain=domain, **attributes)
    given = {k: np.asarray(a) for k, a in inputs.items() if a is not None}
    graph = helper.make_graph(
        [node],
        "g",
        [
            helper.make_tensor_value_info(k, onnx_type(a), (dynamic or {}).get(k, a.shape))
            for k, a in given.items()
            if k not in constants
        ],
        [helper.make_tensor_value_info(o, TensorProto.UNDEFINED, None) for o in outputs if o],
        [numpy_helper.from_array(given[k], k) for k in constants],
    )
    opsets = [helper.make_opsetid("", version), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    for info in model.graph.output:
        info.ClearField("type")
        if info.name == "scores":  # of which onnxruntime does not infer the type
            info.type.tensor_type.elem_type = TensorProto.FLOAT
    return model


def onnx_type(array: Array) -> int:
    return helper.np_dtype_to_tensor_dtype(array.dtype)


def feeds(inputs: Arrays, constants: Sequence[str]) -> dict[str, Array]:
    return {k: np.asarray(a) for k, a in inputs.items() if a is not None and k not in constants}


def run_in_ge(model: ModelProto, arrays: Mapping[str, Array]) -> list[Array]:
    imported = import_model(model)
    imported.module.verify()
    outputs = Session(imported.module, imported.payload).run(arrays)
    return [outputs[o.name] for o in model.graph.output]


def run_in_onnxruntime(model: ModelProto, arrays: Mapping[str, Array]) -> list[Array]:
    ort = pytest.importorskip("onnxruntime", reason="the numbers are compared with onnxruntime's")
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, arrays)


def agree(
    op: str,
    inputs: Arrays,
    outputs: Sequence[str] = ("y",),
    constants: Sequence[str] = (),
    tolerance: float = 1e-5,
    **attributes: Any,
) -> list[Array]:
    """Compare with onnxruntime: floats within `tolerance` of the largest number, integers within
    one. Returns its outputs."""
    model = model_of(op, inputs, outputs, constants, **attributes)
    arrays = feeds(inputs, constants)
    want, got = run_in_onnxruntime(model, arrays), run_in_ge(model, arrays)
    for name, w, g in zip((o for o in outputs if o), want, got, strict=True):
        assert (w.shape, w.dtype) == (g.shape, g.dtype), name
        wide = np.abs(w.astype(np.float64) - g.astype(np.float64))
        limit = 1 if w.dtype.kind in "iu" else tolerance * max(np.abs(w).max(initial=0), 1e-3)
        assert wide.max(initial=0) <= limit, (name, wide.max(initial=0), limit)
        assert not np.isnan(g.astype(np.float64)).any()
    return want
