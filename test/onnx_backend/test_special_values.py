"""Ops at special values (infinities, nan, -0.0, denormal and huge numbers, the ends of integer
types) and with float attributes of unusual values (0, negative, fractions): each output equals that
of ONNX's reference evaluator or of onnxruntime. Where it equals neither, `DIFFERS` says why."""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from ge.dialects.support.errors import GeError
from ge.lowering.driver.compiler import context
from ge.lowering.onnx.importer import import_model
from ge.lowering.pipeline.options import Options
from ge.lowering.pipeline.pass_manager import PassManager
from ge.lowering.pipeline.stages import to_quantized
from ge.runtime.data.arrays import Array
from ge.runtime.data.weights import weights_at_hand
from ge.runtime.device.session import Session

sys.path.insert(0, str(Path(__file__).parent))
from suite import cases

SPECIAL = np.array(
    (np.inf, -np.inf, np.nan, -0.0, 0.0, 1e-42, -1e-42, 3e38, -3e38, 88.8, -104, 0.5, -0.5, 1, -2.5)
)
ATTRIBUTES = (0.0, -0.75, 1.5, -5.0)
Outputs = Sequence[Any] | None  # None: this peer does not take the model

# Names of cases, with the changed attribute, where ge equals neither peer
DIFFERS = {
    "what position keeps out of attention takes no part, even where its score is nan or infinite": (
        r"attention_.*(causal|window|padded_kv).*",
    ),
    "a scale of attention is a factor: the reference takes its root, onnxruntime refuses some": (
        r"attention_.*\[scale=(0.0|-.*)\]",
    ),
    "nan + inf and inf * 0 in sums and caps of scores, in another order": (
        r"attention_.*softcap.*",
    ),
    "the largest of a window with nan is nan": (r"maxpool_.*",),
    "the mean of a window with nan is nan (the reference leaves nan out as padding)": (
        r"averagepool_.*",
    ),
    "coordinates that are nan (-1, as in PyTorch) or infinite": (r"(gridsample|roialign).*",),
    "sums that overflow on the way, in another order": (
        r"(dft|stft|(group|instance|layer).*norm|adagrad|linear_attention|resize_.*antialias|causal_conv).*",
    ),
    "powers of integers wrap; onnxruntime computes them in f64": (r"pow_types_int32_int32",),
    "random": (r"(bernoulli|training_dropout).*",),
    "clip bounds what goes into each activation: the reference has none, onnxruntime not of h": (
        r"(gru|lstm|rnn|simple_rnn).*\[clip=(0.0|1.5)\]",
    ),
    "nan has no integer, a negative number no exponent": (r"(quantizelinear_|cast_e8m0).*",),
    "an input that the specification excludes, which ge may refuse": (
        r"(melweightmatrix|onehot|resize_.*scales).*",
        r"(gru|lstm|rnn|simple_rnn).*\[clip=-.*\]",
    ),
    "a negative epsilon, which keeps nothing from being zero: ge refuses it": (
        r".*\[epsilon=-.*\]",
    ),
    "there is no such op in ge": (r"(ai_onnx_ml_tree_ensemble|tfidfvectorizer).*",),
}
# ... and where one of them is no judge
NO_REFERENCE = r"pow.*"  # numpy takes a root for the power 0.5, which differs at -0.0 and -inf


def reason(name: str) -> str | None:
    return next(
        (why for why, ps in DIFFERS.items() if any(re.fullmatch(p, name) for p in ps)), None
    )


def spoiled(array: Array, rng: np.random.Generator) -> Array:
    """A third of floats are special values; two small integers are the ends of their type."""
    result = array.copy()
    flat = result.reshape(-1)
    if result.dtype.kind == "f" and result.size:
        places = rng.choice(result.size, max(1, round(0.3 * result.size)), replace=False)
        flat[places] = rng.choice(SPECIAL, len(places)).astype(result.dtype)
    elif result.dtype.kind in "iu" and result.dtype.itemsize < 8 and result.size > 2:
        limits = np.iinfo(result.dtype)
        flat[rng.choice(result.size, 2, replace=False)] = limits.max, limits.min
    return result


def in_ge(model: ModelProto, inputs: Mapping[str, Array]) -> Sequence[Any]:
    imported = import_model(model)
    return list(Session(imported.module, imported.payload).run(inputs).values())


def in_reference(model: ModelProto, inputs: Mapping[str, Array]) -> Outputs:
    try:
        with np.errstate(all="ignore"):
            return ReferenceEvaluator(model).run(None, dict(inputs))
    except Exception:  # it raises what it likes where it lacks something
        return None


def in_onnxruntime(model: ModelProto, inputs: Mapping[str, Array]) -> Outputs:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return session.run(None, dict(inputs))
    except Exception:
        return None


def same(ours: Sequence[Any], theirs: Outputs) -> bool:
    if theirs is None:
        return False
    for x, y in zip(map(np.asarray, ours), map(np.asarray, theirs), strict=True):
        if x.shape != y.shape or x.dtype != y.dtype:
            return False
        if x.dtype.kind in "biu":
            if not np.array_equal(x, y):
                return False
            continue
        near = 1e-4 if x.dtype.itemsize >= 4 else 1e-2
        wide = x.astype(np.float64), y.astype(np.float64)
        if not np.allclose(*wide, rtol=near, atol=near / 100, equal_nan=True):
            return False
    return True


def difference(name: str, model: ModelProto, inputs: Mapping[str, Array]) -> str | None:
    """What is wrong with a case; None where ge equals a peer, or no peer takes the model."""
    is_judge = not re.fullmatch(NO_REFERENCE, name, re.IGNORECASE)
    theirs = [in_onnxruntime(model, inputs), in_reference(model, inputs) if is_judge else None]
    if theirs == [None, None]:
        return None
    try:
        ours = in_ge(model, inputs)
    except Exception as e:
        refused = isinstance(e, GeError) and reason(name) is not None
        return None if refused else f"{name}: {type(e).__name__}: {str(e)[:200]}"
    if any(same(ours, t) for t in theirs) or reason(name) is not None:
        return None
    return f"{name}: {[np.asarray(x).reshape(-1)[:8].tolist() for x in ours]}"


def check(some: Iterator[tuple[str, ModelProto, Mapping[str, Array]]], least: int) -> None:
    count, wrong = 0, list[str]()
    for case in some:
        count += 1
        if (text := difference(*case)) is not None:
            wrong.append(text)
    assert count >= least
    assert not wrong, "\n".join(wrong)


# ---- ops by hand -------------------------------------------------------------------------------

LINE = [
    "Abs", "Neg", "Sign", "Floor", "Ceil", "Round", "Reciprocal", "Sqrt", "Exp", "Log", "Sin",
    "Tanh", "Erf", "Relu", "Sigmoid", "Softplus", "Softsign", "Mish", "HardSwish", "IsNaN", "IsInf",
    "Gelu", "Selu", "Elu", "Celu", "LeakyRelu", "ThresholdedRelu", "HardSigmoid", "Shrink", "Swish",
]  # fmt: skip
PAIRS = ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Equal", "Less")
REDUCTIONS = (
    "L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare",
)  # fmt: skip
WITH_FLOATS = {
    "Elu": "alpha", "Celu": "alpha", "LeakyRelu": "alpha", "ThresholdedRelu": "alpha",
    "HardSigmoid": "alpha beta", "Selu": "alpha gamma", "Shrink": "bias lambd", "Swish": "alpha",
    "Gemm": "alpha beta",
}  # fmt: skip

Case = tuple[str, ModelProto, Mapping[str, Array]]


def one_op(op: str, *arrays: Array, held: int = 0, opset: int = 24, **attributes: Any) -> Case:
    """A model of one node, whose last `held` inputs are initializers."""
    inputs = {f"x{i}": a for i, a in enumerate(arrays)}
    given = dict(list(inputs.items())[: len(inputs) - held])
    graph = helper.make_graph(
        [helper.make_node(op, list(inputs), ["y"], **attributes)],
        "g",
        [
            helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for k, a in given.items()
        ],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(inputs[k], k) for k in inputs if k not in given],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    model = onnx.shape_inference.infer_shapes(model)
    named = ",".join(f"{k}={v}" for k, v in attributes.items())
    return f"{op} {arrays[0].dtype} [{named}]", model, given


def line(dtype: Any = np.float32) -> Array:
    if np.dtype(dtype).kind in "iu":
        limits = np.iinfo(dtype)
        return np.array((limits.min, -3, -2, -1, 0, 1, 2, 3, limits.max)).astype(dtype)
    with np.errstate(over="ignore"):
        return SPECIAL.astype(dtype)


def elementwise() -> Iterator[Case]:
    for op in LINE:
        yield one_op(op, line())
    for op, names in WITH_FLOATS.items():
        for values in product(ATTRIBUTES, repeat=len(names.split())):
            attributes = dict(zip(names.split(), values, strict=True))
            if op == "Gemm":
                yield one_op(op, np.eye(3, dtype=np.float32), *[line()[:9].reshape(3, 3)] * 2,
                             **attributes)  # fmt: skip
                continue
            yield one_op(op, line(), **attributes)
            if op == "Shrink":
                yield one_op(op, line(np.int8), **attributes)
    for op in PAIRS:
        yield one_op(op, line()[:, None], line())
    for exponent, held in product((*SPECIAL, 2, 3, -1, -0.5), (0, 1)):
        yield one_op("Pow", line(), np.array([exponent], np.float32), held=held)


def over_axes() -> Iterator[Case]:
    rows = np.stack([np.roll(line(), i)[:3] for i in range(len(SPECIAL))])
    rows = np.concatenate([rows, np.full((1, 3), -np.inf, np.float32), np.zeros_like(rows[:1])])
    for op in REDUCTIONS:
        yield one_op(f"Reduce{op}", rows, np.array([1]), held=1)
    for op in ("Softmax", "LogSoftmax"):
        yield one_op(op, rows, axis=-1)
    for op, top in product(("ArgMax", "ArgMin"), (0, 1)):
        yield one_op(op, rows, axis=1, select_last_index=top)
    yield one_op("CumSum", rows, np.array(1), held=1)


def samples() -> Iterator[Case]:
    """Points in and far outside of an image, with all modes."""
    x = np.arange(20, dtype=np.float32).reshape(1, 1, 4, 5) ** 2
    points = np.linspace(-3, 3, 13, dtype=np.float32)
    grid = np.stack(np.meshgrid(points, points[::2]), -1)[None]
    for mode, padding, corners in product(
        ("nearest", "linear", "cubic"), ("zeros", "border", "reflection"), (0, 1)
    ):
        yield one_op("GridSample", x, grid, opset=22, mode=mode, padding_mode=padding,
                     align_corners=corners)  # fmt: skip


def test_ops_by_hand() -> None:
    check(chain(elementwise(), over_axes(), samples()), 150)


# ---- all ops that ONNX has node tests of -------------------------------------------------------


def variants(model: ModelProto) -> Iterator[tuple[str, ModelProto]]:
    """The model, and the same with each float attribute of each of the values."""
    yield "", model
    node = model.graph.node[0]
    version = max(o.version for o in model.opset_import if o.domain == node.domain)
    schema = onnx.defs.get_schema(node.op_type, version, node.domain)
    floats = [
        n for n, a in schema.attributes.items() if a.type == onnx.defs.OpSchema.AttrType.FLOAT
    ]
    for name, value in product(floats, ATTRIBUTES):
        changed = ModelProto()
        changed.CopyFrom(model)
        (one,) = changed.graph.node
        kept = [a for a in one.attribute if a.name != name]
        del one.attribute[:]
        one.attribute.extend([*kept, helper.make_attribute(name, value)])
        yield f"[{name}={value}]", changed


def node_cases() -> Iterator[Case]:
    for name, case in cases("node"):
        model = case.model
        ports = [*model.graph.input, *model.graph.output]
        tensors = all(i.type.HasField("tensor_type") for i in ports)
        if len(model.graph.node) > 1 or not tensors or not case.data_sets:
            continue
        if any(i.type.tensor_type.elem_type == TensorProto.STRING for i in model.graph.input):
            continue
        names = [i.name for i in model.graph.input]
        arrays = [
            numpy_helper.to_array(a) if isinstance(a, TensorProto) else np.asarray(a)
            for a in case.data_sets[0][0]
        ]
        if sum(a.size for a in arrays) > 20_000:
            continue
        rng = np.random.default_rng(7)
        given = dict(zip(names, arrays, strict=True))
        special = {k: spoiled(a, rng) for k, a in given.items()}
        for text, changed in variants(model):
            title = f"{name.removeprefix('node/test_')}{' ' * bool(text)}{text}"
            yield title, changed, special if not text else given


@pytest.mark.soak
def test_ops_of_node_tests() -> None:
    check(node_cases(), 1500)


# ---- constants that passes look at -------------------------------------------------------------

CONSTANTS = (np.nan, np.inf, -np.inf, -0.0, 1e-40, 3e38, 1e30, 0.5, -1.0)
AROUND = ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min")
AFTER = ("Sigmoid", "Tanh", "Erf", "Exp", "Sqrt", "Softplus", "Softmax", "Relu")


def test_constants_in_patterns() -> None:
    """What may be part of an activation, a norm or a softmax, with constants that are no numbers:
    no pass fails, and the values stay the same."""
    x = np.array([[0.5, -2, 3, -0.25], [0, np.inf, -1, 1]], np.float32)
    nodes, names = list[onnx.NodeProto](), list[str]()
    held = {f"c{i}": np.array(c, np.float32) for i, c in enumerate(CONSTANTS)}
    for i, (op, after, c, turned) in enumerate(product(AROUND, AFTER, held, (False, True))):
        nodes += [
            helper.make_node(op, [c, "x"] if turned else ["x", c], [f"a{i}"]),
            helper.make_node(after, [f"a{i}"], [f"b{i}"]),
            helper.make_node(op, [c, f"b{i}"] if turned else [f"b{i}", c], [f"d{i}"]),
            helper.make_node("Mul", ["x", f"d{i}"], [f"y{i}"]),
        ]
        names.append(f"y{i}")
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, x.shape) for n in names],
        [numpy_helper.from_array(c, name) for name, c in held.items()],
    )
    imported = import_model(helper.make_model(graph, ir_version=10))
    wanted = Session(imported.module, imported.payload).run({"x": x})
    with weights_at_hand(imported.payload):
        PassManager(to_quantized(Options())).run(context(), imported.module)
    values = Session(imported.module, imported.payload).run({"x": x})
    wrong = [n for n in names if not np.allclose(values[n], wanted[n], 1e-4, 1e-6, equal_nan=True)]
    assert not wrong, {n: (values[n].tolist(), wanted[n].tolist()) for n in wrong[:5]}
