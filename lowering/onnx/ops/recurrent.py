"""ONNX's RNN, GRU and LSTM."""

from typing import TypeAlias

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import SSAValue

from ge.dialects.graph import recurrent as g
from ge.dialects.graph.shape import TransposeOp
from ge.dialects.support.tensor_op import Param
from ge.lowering.onnx.registry import Node, Unsupported, onnx_op

# ONNX's name -> ours, and the defaults of alpha and beta where they are used
ACTIVATIONS: dict[str, tuple[str, float | None, float | None]] = {
    "Relu": ("relu", None, None),
    "Tanh": ("tanh", None, None),
    "Sigmoid": ("sigmoid", None, None),
    "Affine": ("affine", 1.0, 0.0),
    "LeakyRelu": ("leaky_relu", 0.01, None),
    "ThresholdedRelu": ("thresholded_relu", 1.0, None),
    "ScaledTanh": ("scaled_tanh", 1.0, 1.0),
    "HardSigmoid": ("hard_sigmoid", 0.2, 0.5),
    "Elu": ("elu", 1.0, None),
    "Softsign": ("softsign", None, None),
    "Softplus": ("softplus", None, None),
}


_BY_NAME = {name.lower(): known for name, known in ACTIVATIONS.items()}


def _activations(n: Node) -> dict[str, Param]:
    """ONNX lists alphas and betas only for the functions that take them, in order."""
    names = n.attribute("activations")
    if not names:
        return {}
    functions = [name.decode() if isinstance(name, bytes) else str(name) for name in names]
    known: list[tuple[str, float | None, float | None]] = []
    for name in functions:
        if name.lower() not in _BY_NAME:
            raise Unsupported(f"activation '{name}' is not supported")
        known.append(_BY_NAME[name.lower()])
    alphas: list[float] = list(n.attribute("activation_alpha") or ())
    betas: list[float] = list(n.attribute("activation_beta") or ())

    def consume(values: list[float], default: float | None) -> float:
        if default is None:
            return 0.0
        return float(values.pop(0)) if values else default

    params: dict[str, Param] = {
        "activations": ArrayAttr([StringAttr(name) for name, _, _ in known])
    }
    if any(alpha is not None for _, alpha, _ in known):
        params["alphas"] = [consume(alphas, alpha) for _, alpha, _ in known]
    if any(beta is not None for _, _, beta in known):
        params["betas"] = [consume(betas, beta) for _, _, beta in known]
    return params


Operands: TypeAlias = tuple[SSAValue, SSAValue, SSAValue]


def layer(
    n: Node,
    op: type[g.Recurrent],
    others: tuple[int, ...] = (),
    operands: Operands | None = None,
    **params: Param,
) -> tuple[SSAValue, ...]:
    """The op on inputs X, W, R (or `operands` in place of these), B, sequence_lens, initial_h and
    `others`; layout 1 has the batch first everywhere."""
    batch_first = bool(n.int("layout"))
    x, weights, recurrence = (n[0], n[1], n[2]) if operands is None else operands

    def steps_first(x: SSAValue | None) -> SSAValue | None:
        if x is None or not batch_first:
            return x
        return n.emit(TransposeOp, x, permutation=(1, 0, 2))

    lengths = n.get(4)
    if lengths is not None and (known := n.constant_ints(4)) is not None:
        lengths = None if set(known) == {n.shape(0)[1 if batch_first else 0]} else lengths
    tail = [steps_first(n.get(i)) if i != 7 else n.get(i) for i in others]
    clip = n.given_float("clip")
    if clip is not None and not clip >= 0:
        raise Unsupported(f"clip is {clip:g}; it bounds sizes, and is no less than 0")
    layer = n.build(
        op, steps_first(x), weights, recurrence, n.get(3), lengths, steps_first(n.get(5)), *tail,
        direction=n.str("direction", "forward").lower(), clip=clip,
        **_activations(n), **params,
    )  # fmt: skip
    results: list[SSAValue] = list(layer.results)
    if batch_first:
        results[0] = n.emit(TransposeOp, results[0], permutation=(2, 0, 1, 3))
        results[1:] = [n.emit(TransposeOp, r, permutation=(1, 0, 2)) for r in results[1:]]
    return tuple(results[: len(n.proto.output)])


@onnx_op("RNN")
def rnn(n: Node) -> tuple[SSAValue, ...]:
    return layer(n, g.RnnOp)


@onnx_op("GRU")
def gru(n: Node) -> tuple[SSAValue, ...]:
    return layer(n, g.GruOp, linear_before_reset=bool(n.int("linear_before_reset")))


@onnx_op("LSTM")
def lstm(n: Node) -> tuple[SSAValue, ...]:
    return layer(n, g.LstmOp, (6, 7), input_forget=bool(n.int("input_forget")))
