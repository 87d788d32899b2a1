"""Recurrent layers as ONNX nodes."""

from typing import Any

from xdsl.dialects.builtin import DenseArrayBase, Float64Type, i32

from ge.dialects.graph.recurrent import GruOp, LstmOp, Recurrent, RnnOp
from ge.dialects.support.types import array_floats, element_type
from ge.lowering.onnx.export.composites import to
from ge.lowering.onnx.export.table import python
from ge.lowering.onnx.export.writer import Input, ModelWriter, writes
from ge.lowering.onnx.ops.recurrent import ACTIVATIONS

OP_TYPES: dict[type[Recurrent], str] = {RnnOp: "RNN", GruOp: "GRU", LstmOp: "LSTM"}

NAMES = {ours: (name, alpha, beta) for name, (ours, alpha, beta) in ACTIVATIONS.items()}


def functions(op: Recurrent) -> dict[str, Any]:
    """The activations; ONNX lists alphas and betas for those only that take them."""
    if op.activations is None:
        return {}
    known = [NAMES[name] for name in op.activation_names()]

    def taken(values: DenseArrayBase[Float64Type] | None, which: int) -> list[float] | None:
        floats = [0.0] * len(known) if values is None else array_floats(values)
        return [v for v, k in zip(floats, known, strict=True) if k[which] is not None] or None

    return {
        "activations": [name for name, _, _ in known],
        "activation_alpha": taken(op.alphas, 1),
        "activation_beta": taken(op.betas, 2),
    }


@writes(RnnOp, GruOp, LstmOp)
def recurrent(op: Recurrent, w: ModelWriter) -> list[str]:
    lengths: Input = op.lengths
    if op.lengths is not None and element_type(op.lengths) != i32:
        lengths = to(op.lengths, i32, w)
    inputs: list[Input] = [op.input, op.weights, op.recurrence, op.bias, lengths, op.initial_state]
    attributes = functions(op)
    if isinstance(op, LstmOp):
        if op.quantize_state.value.data:
            w.refuse("ONNX has no LSTM whose state is rounded to 8 bits")
        inputs += [op.initial_cell, op.peephole]
        attributes["input_forget"] = python(op.input_forget)
    if isinstance(op, GruOp):
        attributes["linear_before_reset"] = python(op.linear_before_reset)
    return w.nodes_of(
        OP_TYPES[type(op)], *inputs, results=len(op.results),
        hidden_size=op.hidden, direction=op.direction.data, clip=python(op.clip), **attributes,
    )  # fmt: skip
