"""The ops of ai.onnx.ml that are tensor mathematics."""

import numpy as np
from xdsl.dialects.builtin import i8
from xdsl.ir import SSAValue

from ge.dialects.graph import elementwise as g
from ge.dialects.graph.indexing import GatherOp
from ge.dialects.graph.reduction import ArgReduceOp, ReduceOp
from ge.dialects.graph.shape import ReshapeOp, UnsqueezeOp
from ge.dialects.support.types import element_type
from ge.lowering.onnx.registry import Node, Unsupported, onnx_op
from ge.runtime.data.arrays import Array

DOMAIN = "ai.onnx.ml"


@onnx_op("Binarizer", domain=DOMAIN)
def binarizer(n: Node) -> SSAValue:
    above = n.emit(g.CompareOp, n[0], n.like(n.float("threshold"), n[0]), predicate="gt")
    return n.emit(g.CastOp, above, to=element_type(n[0]))


@onnx_op("ArrayFeatureExtractor", domain=DOMAIN)
def array_feature_extractor(n: Node) -> SSAValue:
    """The columns that the indices name; a vector is a matrix of one row."""
    table = n.emit(ReshapeOp, n[0], shape=(1, -1)) if n.rank(0) == 1 else n[0]
    columns = n.emit(ReshapeOp, n[1], shape=(-1,))
    return n.emit(GatherOp, table, columns, axis=-1)


_DTYPES = {"int64": np.int64, "float": np.float32}
_DEFAULTS = {"int64": -1, "float": -0.0}


@onnx_op("LabelEncoder", domain=DOMAIN)
def label_encoder(n: Node) -> SSAValue:
    """A table of numbers: x is compared with all keys; the value of the first one that is equal."""
    keys, _ = _table(n, "keys")
    values, default = _table(n, "values")
    x = n.emit(UnsqueezeOp, n[0], axes=(-1,))
    equal = n.emit(g.CompareOp, x, n.const(keys, n.element(0)), predicate="eq")
    known_key = n.emit(ReduceOp, equal, kind="max", axes=(-1,), keep_dims=False)
    equal = n.emit(g.CastOp, equal, to=i8)
    which = n.emit(ArgReduceOp, equal, kind="max", axis=-1, keep_dims=False)
    value = n.emit(GatherOp, n.const(values), which)
    return n.emit(g.SelectOp, known_key, value, n.const(default))


def _table(n: Node, name: str) -> tuple[Array, Array]:
    for kind, dtype in _DTYPES.items():
        if f"{name}_{kind}s" in n.attributes:
            default = n.attribute(f"default_{kind}")
            default = _DEFAULTS[kind] if default is None else default
            return np.asarray(n.attribute(f"{name}_{kind}s"), dtype), np.asarray(default, dtype)
    array = n.attribute(f"{name}_tensor")
    if array is None or array.dtype.kind not in "iuf":
        raise Unsupported("the table is not one of numbers")
    default = n.attribute("default_tensor")
    return array, np.zeros((), array.dtype) if default is None else default.reshape(())
