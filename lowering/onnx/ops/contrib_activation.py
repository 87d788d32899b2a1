"""onnxruntime's activation functions, with the bias that it adds before them."""

from xdsl.ir import SSAValue

from ge.dialects.graph.activation import (
    GeluOp,
    HardSigmoidOp,
    LeakyReluOp,
    ReluOp,
    SigmoidOp,
    SiluOp,
)
from ge.dialects.graph.elementwise import AddOp, ClampOp, MulOp, TanhOp
from ge.dialects.graph.slicing import SplitOp
from ge.dialects.support.tensor_op import TensorOp
from ge.lowering.onnx.contrib import ANY, contrib_op
from ge.lowering.onnx.registry import Node, Unsupported

# op type -> how its gelu is approximated
_GELUS = {"Gelu": "none", "BiasGelu": "none", "FastGelu": "tanh"}


def plus(n: Node, value: SSAValue, addend: SSAValue | None) -> SSAValue:
    """The sum with a bias or residual that may be absent."""
    return value if addend is None else n.emit(AddOp, value, addend)


@contrib_op(*_GELUS)
def gelu(n: Node) -> SSAValue:
    return n.emit(GeluOp, plus(n, n[0], n.get(1)), approximate=_GELUS[n.op_type])


@contrib_op("QuickGelu", alpha=ANY)
def quick_gelu(n: Node) -> SSAValue:
    """x sigmoid(alpha x): silu with a slope."""
    return n.emit(SiluOp, n[0], alpha=n.float("alpha", 1.702))


@contrib_op("BiasAdd")
def bias_add(n: Node) -> SSAValue:
    return n.emit(AddOp, n.emit(AddOp, n[0], n[1]), n[2])


@contrib_op("BiasSplitGelu")
def bias_split_gelu(n: Node) -> SSAValue:
    """The first half of x + bias times the gelu of the second."""
    halves = n.build(SplitOp, n.emit(AddOp, n[0], n[1]), None, axis=-1, results=2).results
    return n.emit(MulOp, halves[0], n.emit(GeluOp, halves[1]))


# name -> the op, and its properties by the order of `activation_params`
_FUSED: dict[str, tuple[type[TensorOp], tuple[str, ...]]] = {
    "Relu": (ReluOp, ()),
    "Tanh": (TanhOp, ()),
    "Sigmoid": (SigmoidOp, ()),
    "LeakyRelu": (LeakyReluOp, ("alpha",)),
    "HardSigmoid": (HardSigmoidOp, ("alpha", "beta")),
}


def activated(n: Node, value: SSAValue, params: list[float]) -> SSAValue:
    """The function of attribute `activation`, with its parameters, of what a fused op computes."""
    name = n.str("activation")
    if not name:
        return value
    if name == "Clip" and len(params) == 2:
        return n.emit(ClampOp, value, n.like(params[0], value), n.like(params[1], value))
    op, names = _FUSED.get(name, (None, ()))
    if op is None or len(params) > len(names):
        known = ", ".join((*_FUSED, "Clip"))
        given = f" with parameters {params}" if params else ""
        raise Unsupported(f"attribute 'activation' is {name!r}{given}, supported are {known}")
    return n.emit(op, value, **dict(zip(names, params, strict=False)))
