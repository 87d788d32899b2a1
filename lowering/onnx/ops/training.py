"""ONNX's optimizers (ai.onnx.preview.training): one step is a few elementwise ops."""

from collections.abc import Callable

from xdsl.ir import SSAValue

from ge.dialects.graph import elementwise as g
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import element_type
from ge.lowering.onnx.registry import Node, onnx_op

DOMAIN = "ai.onnx.preview.training"
Operand = SSAValue | float


class Arithmetic:
    """Ops on values and Python numbers, in the element type of one tensor."""

    def __init__(self, n: Node, tensor: SSAValue) -> None:
        self.n, self.element = n, element_type(tensor)

    def value(self, x: Operand) -> SSAValue:
        if not isinstance(x, SSAValue):
            return self.n.const(x, self.element)
        return x if element_type(x) == self.element else self.n.emit(g.CastOp, x, to=self.element)

    def binary(self, op: type[TensorOp], a: Operand, b: Operand) -> SSAValue:
        return self.n.emit(op, self.value(a), self.value(b))

    def add(self, a: Operand, b: Operand) -> SSAValue:
        return self.binary(g.AddOp, a, b)

    def sub(self, a: Operand, b: Operand) -> SSAValue:
        return self.binary(g.SubOp, a, b)

    def mul(self, a: Operand, b: Operand) -> SSAValue:
        return self.binary(g.MulOp, a, b)

    def div(self, a: Operand, b: Operand) -> SSAValue:
        return self.binary(g.DivOp, a, b)

    def pow(self, a: Operand, b: Operand) -> SSAValue:
        return self.binary(g.PowOp, a, b)

    def sqrt(self, a: SSAValue) -> SSAValue:
        return self.n.emit(g.SqrtOp, a)

    def mix(self, weight: float, a: Operand, b: Operand) -> SSAValue:
        return self.add(self.mul(weight, a), self.mul(1 - weight, b))

    def first_step(self, count: SSAValue, then: Operand, otherwise: Operand) -> SSAValue:
        """`then` in the first step (count 0), else `otherwise`."""
        first = self.n.emit(g.CompareOp, count, self.n.like(0, count), predicate="eq")
        return self.n.emit(g.SelectOp, first, self.value(then), self.value(otherwise))


# Rate, count of steps, and (tensor, gradient, state...) to the new (tensor, state...)
Step = Callable[[Node, SSAValue, SSAValue, list[SSAValue]], tuple[SSAValue, ...]]


def for_each_tensor(n: Node, states: int, step: Step) -> tuple[SSAValue, ...]:
    """Inputs are rate, count, all tensors, all gradients, then the states; outputs likewise."""
    rest = n.tensors(2)
    count = len(rest) // (2 + states)
    results = [step(n, n[0], n[1], rest[i::count]) for i in range(count)]
    return tuple(value for group in zip(*results, strict=True) for value in group)


@onnx_op("Momentum", domain=DOMAIN)
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


@onnx_op("Adagrad", domain=DOMAIN)
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


@onnx_op("Adam", domain=DOMAIN)
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
