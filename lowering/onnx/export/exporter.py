"""A module at the graph level -> one ONNX model.

Names, shapes and symbolic dimensions of inputs, names of outputs and of nodes are those that the
module has. Composites without one ONNX op become several nodes (`composites.py`).
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp
from xdsl.ir import Attribute, OpResult, SSAValue

from ge.dialects.graph.ports import SEQUENCE, dims_of, name_of
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import functions, main_function
from ge.dialects.support.types import rank_of
from ge.lowering.onnx.export.writer import ModelWriter
from ge.runtime.data.arrays import Array
from ge.runtime.data.files import Outputs
from ge.runtime.data.weights import Payload

Table = dict[str, Attribute]

ALIGNMENT = 4096  # bytes, of weights beside the file: what maps it asks for that


def write_model(out: Outputs, path: str, model: ModelProto, weights: dict[str, Array]) -> None:
    """Write a model, and beside it PATH.data with the weights that it does not hold."""
    if weights:
        file = Path(path).resolve()
        file = file.with_name(f"{file.name}.data")
        tensors = [t for t in model.graph.initializer if t.name in weights]
        end = 0
        for tensor in tensors:
            start, size = -(-end // ALIGNMENT) * ALIGNMENT, weights[tensor.name].nbytes
            entries = {"location": file.name, "offset": start, "length": size}
            for key, value in entries.items():
                tensor.external_data.add(key=key, value=str(value))
            tensor.data_location = TensorProto.EXTERNAL
            end = start + size

        def write(f: BinaryIO) -> None:
            for tensor in tensors:
                f.write(bytes(-f.tell() % ALIGNMENT))
                f.write(weights[tensor.name].reshape(-1).view(np.uint8).data)

        out.binary(file, write)
    out.bytes(path, model.SerializeToString())


def export_model(module: ModuleOp, payload: Payload | None, name: str = "main") -> ModelProto:
    """The model in one file. Raises GeError as `model_and_weights` does."""
    model, weights = model_and_weights(module, payload, name)
    if weights:
        raise GeError("the weights do not fit into one ONNX file of 2 GiB")
    return model


def model_and_weights(
    module: ModuleOp, payload: Payload | None, name: str, writer: type[ModelWriter] = ModelWriter
) -> tuple[ModelProto, dict[str, Array]]:
    """The model, checked as ONNX, and its large weights if one file does not hold them. Raises
    GeError for an op that ONNX has no form for, and for a weight that the payload does not have,
    unless the `writer` has one for them."""
    main = main_function(module)
    if main is None:
        raise GeError("there is no function @main to write as ONNX")
    if writer.WHOLE and len(functions(module)) > 1:
        hint = "export the model that this was made from"
        raise GeError("weights are computed in a function of their own", hint=hint)
    block = main.body.block
    end = block.last_op
    assert end is not None
    inputs = list(ports(main.arg_attrs, len(block.args)))
    outputs = list(ports(main.res_attrs, len(end.operands)))
    names_in = [name_of(t) or a.name_hint or f"arg{a.index}" for a, t in zip(block.args, inputs)]
    names_out = [name_of(t) or f"result{i}" for i, t in enumerate(outputs)]
    if any(SEQUENCE in t for t in (*inputs, *outputs)):
        raise GeError("inputs and outputs that are sequences cannot be written as ONNX")
    w = writer(payload, (*names_in, *names_out))
    infos: list[Any] = []
    for arg, table, label in zip(block.args, inputs, names_in, strict=True):
        w.values[arg] = label
        infos.append(w.info(arg, label, dims_of(table, rank_of(arg))))
    w.nodes = w.block(block)
    name_outputs(w, end.operands, names_out)
    results = [w.info(v, label) for v, label in zip(end.operands, names_out, strict=True)]
    constants = w.constants_written() if w.fits else w.initializers
    graph = helper.make_graph(w.nodes, name, [*infos, *w.inputs], results, constants)
    opsets = [helper.make_opsetid("", w.opset)]
    opsets += [helper.make_opsetid(domain, 1) for domain in sorted(w.domains)]
    model = helper.make_model(
        graph,
        producer_name="ge",
        ir_version=w.ir_version,
        opset_imports=opsets,
        functions=list(w.functions.values()),
    )
    check(model, w.large)
    return model, w.large


def check(model: ModelProto, weights: dict[str, Array]) -> None:
    """Check a model, in which weights that it does not hold are inputs for that time."""
    shell = model
    if weights:
        shell = ModelProto()
        shell.CopyFrom(model)
        del shell.graph.initializer[:]
        for t in model.graph.initializer:
            if t.name in weights:
                shell.graph.input.append(helper.make_tensor_value_info(t.name, t.data_type, t.dims))
            else:
                shell.graph.initializer.append(t)
    onnx.checker.check_model(shell)  # pyright: ignore[reportUnknownMemberType]


def ports(attributes: ArrayAttr[DictionaryAttr] | None, count: int) -> Iterable[Table]:
    return (dict(a.data) for a in attributes) if attributes else (Table() for _ in range(count))


def name_outputs(w: ModelWriter, values: Sequence[SSAValue], names: Sequence[str]) -> None:
    """Nodes write their results under the names of the outputs; inputs, constants and what is
    handed out twice go through an Identity."""
    renamed: dict[str, str] = {}
    for value, name in zip(values, names, strict=True):
        if isinstance(value, OpResult) and not w.is_fixed(value) and w.name(value) not in renamed:
            renamed[w.name(value)] = name
        else:
            w.nodes.append(helper.make_node("Identity", [w.name(value)], [name], name))
    rename(w.nodes, renamed)


def rename(nodes: Iterable[NodeProto], names: dict[str, str]) -> None:
    for node in nodes:
        for listed in (node.input, node.output):
            for i, name in enumerate(listed):
                listed[i] = names.get(name, name)
        for attribute in node.attribute:
            rename(attribute.g.node, names)
            for output in attribute.g.output:
                output.name = names.get(output.name, output.name)
