"""Ops of ONNX's smaller domains: those of ai.onnx.ml that are tensor mathematics, and the
optimizers of ai.onnx.preview.training, of which one step is a few elementwise ops."""

from collections.abc import Callable

import numpy as np
from xdsl.dialects.builtin import i8
from xdsl.ir import SSAValue

from ge.dialects.graph.elementwise import (
    AddOp,
    CastOp,
    CompareOp,
    DivOp,
    MulOp,
    PowOp,
    SelectOp,
    SqrtOp,
    SubOp,
)
from ge.dialects.graph.indexing import GatherOp
from ge.dialects.graph.reduction import ArgReduceOp, ReduceOp
from ge.dialects.graph.shape import ReshapeOp, UnsqueezeOp
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import element_type
from ge.lowering.onnx.registry import Node, Unsupported, onnx_op
from ge.runtime.data.arrays import Array

ML = "ai.onnx.ml"


@onnx_op("Binarizer", domain=ML)
def binarizer(n: Node) -> SSAValue:
    above = n.emit(CompareOp, n[0], n.like(n.float("threshold"), n[0]), predicate="gt")
    return n.emit(CastOp, above, to=element_type(n[0]))


@onnx_op("ArrayFeatureExtractor", domain=ML)
def array_feature_extractor(n: Node) -> SSAValue:
    """The columns that the indices name; a vector is a matrix of one row."""
    table = n.emit(ReshapeOp, n[0], shape=(1, -1)) if n.rank(0) == 1 else n[0]
    columns = n.emit(ReshapeOp, n[1], shape=(-1,))
    return n.emit(GatherOp, table, columns, axis=-1)


_DTYPES = {"int64": np.int64, "float": np.float32}

_DEFAULTS = {"int64": -1, "float": -0.0}


@onnx_op("LabelEncoder", domain=ML)
def label_encoder(n: Node) -> SSAValue:
    """A table of numbers: x is compared with all keys; the value of the first one that is equal."""
    keys, _ = _table(n, "keys")
    values, default = _table(n, "values")
    x = n.emit(UnsqueezeOp, n[0], axes=(-1,))
    equal = n.emit(CompareOp, x, n.const(keys, n.element(0)), predicate="eq")
    known_key = n.emit(ReduceOp, equal, kind="max", axes=(-1,), keep_dims=False)
    equal = n.emit(CastOp, equal, to=i8)
    which = n.emit(ArgReduceOp, equal, kind="max", axis=-1, keep_dims=False)
    value = n.emit(GatherOp, n.const(values), which)
    return n.emit(SelectOp, known_key, value, n.const(default))


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


TRAINING = "ai.onnx.preview.training"

Operand = SSAValue | float


class Arithmetic:
    """Ops on values and Python numbers, in the element type of one tensor."""

    def __init__(self, n: Node, tensor: SSAValue) -> None:
        self.n, self.element = n, element_type(tensor)

    def value(self, x: Operand) -> SSAValue:
        if not isinstance(x, SSAValue):
            return self.n.const(x, self.element)
        return x if element_type(x) == self.element else self.n.emit(CastOp, x, to=self.element)

    def binary(self, op: type[TensorOp], a: Operand, b: Operand) -> SSAValue:
        return self.n.emit(op, self.value(a), self.value(b))

    def add(self, a: Operand, b: Operand) -> SSAValue:
        return self.binary(AddOp, a, b)

    def sub(self, a: Operand, b: Operand) -> SSAValue:
        return self.binary(SubOp, a, b)

    def mul(self, a: Operand, b: Operand) -> SSAValue:
        return self.binary(MulOp, a, b)

    def div(self, a: Operand, b: Operand) -> SSAValue:
        return self.binary(DivOp, a, b)

    def pow(self, a: Operand, b: Operand) -> SSAValue:
        return self.binary(PowOp, a, b)

    def sqrt(self, a: SSAValue) -> SSAValue:
        return self.n.emit(SqrtOp, a)

    def mix(self, weight: float, a: Operand, b: Operand) -> SSAValue:
        return self.add(self.mul(weight, a), self.mul(1 - weight, b))

    def first_step(self, count: SSAValue, then: Operand, otherwise: Operand) -> SSAValue:
        """`then` in the first step (count 0), else `otherwise`."""
        first = self.n.emit(CompareOp, count, self.n.like(0, count), predicate="eq")
        return self.n.emit(SelectOp, first, self.value(then), self.value(otherwise))


# Rate, count of steps, and (tensor, gradient, state...) to the new (tensor, state...)
Step = Callable[[Node, SSAValue, SSAValue, list[SSAValue]], tuple[SSAValue, ...]]


def for_each_tensor(n: Node, states: int, step: Step) -> tuple[SSAValue, ...]:
    """Inputs are rate, count, all tensors, all gradients, then the states; outputs likewise."""
    rest = n.tensors(2)
    count = len(rest) // (2 + states)
    results = [step(n, n[0], n[1], rest[i::count]) for i in range(count)]
    return tuple(value for group in zip(*results, strict=True) for value in group)


@onnx_op("Momentum", domain=TRAINING)
def momentum(n: Node) -> tuple[SSAValue, ...]:
    return for_each_tensor(n, 1, momentum_step)


def momentum_step(
    n: Node, rate: SSAValue, count: SSAValue, tensors: list[SSAValue]
) -> tuple[SSAValue, ...]:
    x, gradient, v = tensors
    c, alpha = Arithmetic(n, x), n.float("alpha")
    gradient = c.add(c.mul(n.float("norm_coefficient"), x), gradient)
    beta = c.first_step(count, 1.0, n.float("beta"))
    new_v = c.add(c.mul(alpha, v), c.mul(beta, gradient))
    nesterov = n.str("mode") == "nesterov"
    direction = c.add(gradient, c.mul(alpha, new_v)) if nesterov else new_v
    return c.sub(x, c.mul(rate, direction)), new_v


@onnx_op("Adagrad", domain=TRAINING)
def adagrad(n: Node) -> tuple[SSAValue, ...]:
    return for_each_tensor(n, 1, adagrad_step)


def adagrad_step(
    n: Node, rate: SSAValue, count: SSAValue, tensors: list[SSAValue]
) -> tuple[SSAValue, ...]:
    """The new x and h of one step of Adagrad (Duchi et al. 2011)."""
    x, gradient, h = tensors
    c = Arithmetic(n, x)
    rate = c.div(rate, c.add(1.0, c.mul(count, n.float("decay_factor"))))
    gradient = c.add(c.mul(n.float("norm_coefficient"), x), gradient)
    new_h = c.add(h, c.mul(gradient, gradient))
    scale = c.add(c.sqrt(new_h), n.float("epsilon", 1e-6))
    return c.sub(x, c.div(c.mul(rate, gradient), scale)), new_h


@onnx_op("Adam", domain=TRAINING)
def adam(n: Node) -> tuple[SSAValue, ...]:
    return for_each_tensor(n, 2, adam_step)


def adam_step(
    n: Node, rate: SSAValue, count: SSAValue, tensors: list[SSAValue]
) -> tuple[SSAValue, ...]:
    """The new x, v and h of one step of Adam (Kingma and Ba, arXiv 1412.6980)."""
    x, gradient, v, h = tensors
    c, alpha, beta = Arithmetic(n, x), n.float("alpha", 0.9), n.float("beta", 0.999)
    gradient = c.add(c.mul(n.float("norm_coefficient"), x), gradient)
    new_v = c.mix(alpha, v, gradient)
    new_h = c.mix(beta, h, c.mul(gradient, gradient))
    scale = c.add(c.sqrt(new_h), n.float("epsilon", 1e-6))
    correction = c.div(c.sqrt(c.sub(1.0, c.pow(beta, count))), c.sub(1.0, c.pow(alpha, count)))
    rate = c.mul(rate, c.first_step(count, 1.0, correction))
    moved = c.sub(x, c.mul(rate, c.div(new_v, scale)))
    return c.mul(1 - n.float("norm_coefficient_post"), moved), new_v, new_h
