"""An exported program as an ONNX model in memory, whose weights are the tensors of PyTorch.

PyTorch's own exporter translates the ops. Nothing is written, and no weight is copied: the model
names each as external data, and `Weights` has it. The exporter's optimizer does not run, for it
computes new weights (of batch norms in convolutions); ge's passes do the same work later.
"""

import logging
import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto

from ge.dialects.support.dims import Range
from ge.dialects.support.errors import GeError
from ge.lowering.onnx.model import Tensors
from ge.lowering.torch.capture import Captured, quiet
from ge.lowering.torch.faithful import replacements
from ge.lowering.torch.library import onnx_ir, torch
from ge.lowering.torch.tensors import array_of
from ge.lowering.torch.traces import unsupported
from ge.runtime.data.arrays import Array

MOST_ROUNDS = 4
UNBOUNDED = 1 << 31  # sizes of this and more are no bound


class Weights(Tensors):
    """External data that is in memory, by location."""

    def __init__(self, tensors: Mapping[str, Any]) -> None:
        super().__init__()
        self.tensors = tensors

    def array(self, proto: TensorProto) -> Array | None:
        if proto.data_location != TensorProto.EXTERNAL:
            return super().array(proto)
        location = next(e.value for e in proto.external_data if e.key == "location")
        array = np.ascontiguousarray(array_of(location, self.tensors[location])).view()
        array.flags.writeable = False
        return array.reshape(tuple(proto.dims))


@dataclass(frozen=True)
class Translated:
    """A model without its weights, the names of those that it has, of its inputs, and of the output
    that each result is; and the ranges of its dimensions."""

    model: ModelProto
    weights: Sequence[str]
    inputs: Sequence[str]
    outputs: Sequence[str]
    ranges: Mapping[str, Range]


def translate(
    captured: Captured,
    table: Mapping[Any, Any] | None = None,
    dims: Mapping[str, str] | None = None,
    shown: Mapping[str, str] | None = None,
) -> Translated:
    """Translate an exported program; `table` has translations of ops (`custom_translation_table`
    of torch.onnx.export), `dims` names for symbols of sizes, `shown` names for inputs in messages.
    Raises GeError for ops that have no translation, for tensors that the model writes to, and for
    inputs and outputs of complex numbers."""
    refuse_complex(captured.exported, shown or {})
    with quiet(), quiet_logger():
        try:
            made = onnx_program(captured.exported, table or {})
        except torch.onnx.errors.OnnxExporterError as e:
            raise unsupported(e, captured.exported) from e
    refuse_writes(captured, made.exported_program.graph_signature, shown or {})
    model = made.model
    weights = detach_weights(model, captured)
    rename_inputs(model, shown or {})
    name_dims(model, dims or {})
    cast_outputs(model, captured.exported)
    outputs = list(model.graph.outputs)
    model.graph.outputs[:] = dict.fromkeys(outputs)  # aliases of a tensor are one output
    return Translated(
        onnx_ir.to_proto(model),
        weights,
        [v.name for v in model.graph.inputs],
        [v.name for v in outputs],
        ranges_of(made.exported_program, dims or {}),
    )


def onnx_program(exported: Any, table: Mapping[Any, Any]) -> Any:
    """What PyTorch's exporter makes of an exported program, without the translations of its that
    do something else than the op."""

    def export(program: Any) -> Any:
        return torch.onnx.export(
            program, (), dynamo=True, verbose=False, optimize=False,
            custom_translation_table=table or None,
        )  # fmt: skip

    left: Mapping[Any, Any] = {}
    for _ in range(MOST_ROUNDS):  # decompositions may have such calls, too
        if left := replacements(exported, table):  # before the exporter has its own
            exported = exported.run_decompositions(dict(left))
        made = export(exported)
        exported = made.exported_program
        if not (left := replacements(exported, table)):
            return made
    raise GeError(f"PyTorch has no decomposition of {', '.join(map(str, left))}")


@contextmanager
def quiet_logger() -> Generator[None]:
    """The exporter warns about what is no concern of a user who wants no ONNX file."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def refuse_writes(captured: Captured, signature: Any, shown: Mapping[str, str]) -> None:
    """Raises GeError for a model that changes its buffers, parameters or inputs."""
    own = {**signature.buffers_to_mutate, **signature.parameters_to_mutate}
    written = [f"'{captured.key(n)}'" for n in own.values()]
    written += [f"input '{shown.get(n, n)}'" for n in signature.user_inputs_to_mutate.values()]
    if written:
        hint = (
            "call model.eval() if that is by training, else take the old value as an input and "
            "return the new one"
        )
        raise GeError(f"the model writes to {', '.join(written)}", hint=hint)


def refuse_complex(exported: Any, shown: Mapping[str, str]) -> None:
    """Raises GeError for an exported program that takes or returns complex numbers. The exporter
    makes pairs of real ones of them without notice; inside of the program these do no harm."""
    values: dict[Any, Any] = {n.name: n.meta.get("val") for n in exported.graph.nodes}
    signature = exported.graph_signature
    for place, names in (("input", signature.user_inputs), ("output", signature.user_outputs)):
        for number, name in enumerate(names):
            value: Any = values.get(name)
            if isinstance(value, torch.Tensor) and value.is_complex():
                what = f"{place} '{shown.get(name, name) if place == 'input' else number}'"
                raise GeError(
                    f"{what} is {value.dtype}, which ge does not have",
                    hint="give and return real numbers (torch.view_as_real)",
                )


def rename_inputs(model: Any, shown: Mapping[str, str]) -> None:
    """Give inputs the names that users know, where no other value has them."""
    taken = value_names(model)
    for value in model.graph.inputs:
        if (name := shown.get(value.name, value.name)) not in taken:
            taken.add(name)
            value.name = name


def value_names(model: Any) -> set[str]:
    made = {v.name for node in model.graph for v in node.outputs}
    return made | {v.name for v in model.graph.inputs} | set(model.graph.initializers)


def detach_weights(model: Any, captured: Captured) -> list[str]:
    """Make parameters and buffers external data, at their keys; returns these."""
    tensors, taken = captured.weights, value_names(model)
    keys: list[str] = []
    for old, value in list(model.graph.initializers.items()):
        held, key = value.const_value, captured.key(old)
        if held is None or key not in tensors:
            continue
        value.const_value = onnx_ir.ExternalTensor(
            key, 0, held.nbytes, held.dtype, shape=held.shape, name=old
        )
        if key not in taken:
            value.name = key
        keys.append(key)
    return keys


def cast_outputs(model: Any, exported: Any) -> None:
    """Give outputs the element types that they have in PyTorch; some translations make others."""
    values: dict[Any, Any] = {n.name: n.meta.get("val") for n in exported.graph.nodes}
    wanted: list[Any] = [values.get(name) for name in exported.graph_signature.user_outputs]
    for i, (output, value) in enumerate(zip(model.graph.outputs, wanted, strict=True)):
        if output.dtype is None or not isinstance(value, torch.Tensor):
            continue
        name = str(value.dtype).removeprefix("torch.").replace("_", "")
        dtype = onnx_ir.DataType[DTYPES.get(name, name.upper())]
        if output.dtype != dtype:
            cast: Any = onnx_ir.Node("", "Cast", [output], [onnx_ir.AttrInt64("to", dtype)])
            model.graph.append(cast)
            model.graph.outputs[i] = result = cast.outputs[0]
            result.name, result.dtype, result.shape = f"{output.name}_cast_{i}", dtype, output.shape


DTYPES = {"float32": "FLOAT", "float64": "DOUBLE"}  # by other names than in ONNX

WORD = re.compile(r"[A-Za-z_]\w*")


def renamed(text: str, names: Mapping[str, str]) -> str:
    return WORD.sub(lambda m: names.get(m[0], m[0]), text)


def name_dims(model: Any, names: Mapping[str, str]) -> None:
    """Give the dimensions of inputs the names that users have for them."""
    for value in model.graph.inputs:
        if names and value.shape is not None:
            dims = [d if isinstance(d, int) else renamed(str(d.value), names) for d in value.shape]
            value.shape = onnx_ir.Shape(dims)


def input_values(exported: Any) -> list[Any]:
    """The examples, with symbols for sizes, of the inputs of an exported program; None for those
    that are part of it."""
    nodes = {n.name: n.meta.get("val") for n in exported.graph.nodes if n.op == "placeholder"}
    return [nodes.get(n) for n in exported.graph_signature.user_inputs]


def ranges_of(exported: Any, names: Mapping[str, str]) -> dict[str, Range]:
    """The sizes that dimensions of inputs may have, where there are bounds."""
    tensors = [v for v in input_values(exported) if isinstance(v, torch.Tensor)]
    used = {str(s) for v in tensors for s in v.shape if isinstance(s, torch.SymInt)}
    ranges: dict[str, Range] = {}
    for symbol, bounds in exported.range_constraints.items():
        if str(symbol) in used:
            most = int(bounds.upper) if bounds.upper < UNBOUNDED else None
            ranges[renamed(str(symbol), names)] = Range(int(bounds.lower), most)
    return ranges
