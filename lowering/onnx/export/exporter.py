"""A module at the graph level -> one ONNX model.

    @writes(SiluOp)
    def silu(op: SiluOp, w: Writer) -> str:
        return w.node("Mul", op.input, w.node("Sigmoid", op.input))

A function for each kind of op writes its nodes. It returns the name of the result, or a list of one
for each result. What depends on constants only is computed and stored; but of quantized weights the
integers are, with a DequantizeLinear. Names, shapes and symbolic dimensions of inputs, names of
outputs and of nodes are those that the module has."""

import importlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, NoReturn, TypeAlias, TypeVar, cast

import numpy as np
import onnx
from onnx import (
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    helper,
)
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue
from xdsl.traits import IsTerminator, NoMemoryEffect

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.quantization import DequantizeOp, QuantizeOp
from ge.dialects.graph.sharding import AxisIndexOp
from ge.dialects.graph.stated import SEQUENCE, dims_of, name_of
from ge.dialects.support.diagnostics import location_of, read_location
from ge.dialects.support.element_types import is_float
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import functions, main_function
from ge.dialects.support.processes import Once
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import DYNAMIC, element_type, is_ranked, rank_of, shape_of
from ge.lowering.onnx.forms import OPSET
from ge.lowering.onnx.model import ONNX_NUMBERS
from ge.runtime.data.arrays import Array, dtype_of, element_of, is_packed, packed
from ge.runtime.data.files import Outputs
from ge.runtime.data.weights import Payload
from ge.runtime.numbers.constants import Constants

IR_VERSION = 9  # of a model that needs no newer one

KEPT = 2**26  # bytes that are written before what they were computed from is forgotten

SMALL = 1024  # bytes of a constant that is never beside the file

MOST_BYTES = 2**31 - 2**24  # of the weights of one file: protobuf ends at 2 GiB

OpT = TypeVar("OpT", bound=Operation)

Input: TypeAlias = SSAValue | str | None

Write: TypeAlias = Callable[[Any, "ModelWriter"], str | list[str]]

_WRITES: dict[type[Operation], Write] = {}


def writes(
    *ops: type[OpT],
) -> Callable[
    [Callable[[OpT, "ModelWriter"], str | list[str]]],
    Callable[[OpT, "ModelWriter"], str | list[str]],
]:
    """Register the function below for these op classes."""

    def register(
        write: Callable[[OpT, "ModelWriter"], str | list[str]],
    ) -> Callable[[OpT, "ModelWriter"], str | list[str]]:
        _WRITES.update(dict.fromkeys(ops, write))
        return write

    return register


class ModelWriter:
    """The nodes and constants of one model. All names are different, those in branches and loops
    too, so that these see the values around them."""

    WHOLE: ClassVar = True  # whether the module is all there is: its weights are not computed apart

    def __init__(self, payload: Payload | None, reserved: Sequence[str]) -> None:
        self.constants = Constants(payload)
        self.initializers: list[TensorProto] = []
        self.large: dict[str, Array] = {}  # bytes of initializers that have none in them yet
        self.nodes: list[NodeProto] = []
        self.values: dict[SSAValue, str] = {}
        self.opset, self.ir_version = OPSET, IR_VERSION
        self.codes: set[Attribute] = set()  # types that values are quantized to
        # Beside the nodes: further inputs, functions by what they do, and domains of ops
        self.inputs: list[ValueInfoProto] = []
        self.functions: dict[bytes, FunctionProto] = {}
        self.domains: set[str] = set()
        self._fixed: set[SSAValue] = set()
        self._shared: dict[tuple[Any, ...], str] = {}
        self._taken = Counter(reserved)
        self.node_names = Counter[str]()
        self._bytes = self._kept = 0
        self._op: Operation | None = None

    # ---- what functions ask for

    def node(self, op_type: str, *inputs: Input, **attributes: Any) -> str:
        """The result of a new node; inputs are values or names, attributes that are None absent."""
        return self.nodes_of(op_type, *inputs, results=1, **attributes)[0]

    def nodes_of(self, op_type: str, *inputs: Input, results: int, **attributes: Any) -> list[str]:
        prefix = f"{self.prefix()}/{op_type}"
        outputs = [self.unique(f"{prefix}_output_{i}") for i in range(results)]
        names = list(map(self.name, inputs))
        while names and not names[-1]:
            names.pop()
        given = {k: v for k, v in attributes.items() if v is not None}
        name = numbered(prefix, self.node_names)
        self.nodes.append(helper.make_node(op_type, names, outputs, name, **given))
        return outputs

    def name(self, value: Input) -> str:
        """Return the name of a value, "" for an absent one. A constant is stored when it is
        named."""
        if value is None or isinstance(value, str):
            return value or ""
        if value not in self.values:
            assert value in self._fixed
            op = cast(Operation, value.owner)
            key = op.key if isinstance(op, ConstantOp) else None
            self.values[value] = self.array(self.constants.value(value), key or self.label(op))
            if self._bytes > self._kept + KEPT:
                self._kept = self._bytes
                self.constants.forget()
        return self.values[value]

    def array(self, array: Array, name: str = "constant") -> str:
        name = self.unique(name)
        data = packed(array.reshape(-1)) if is_packed(array.dtype) else np.ascontiguousarray(array)
        self._bytes += data.nbytes
        number = ONNX_NUMBERS[element_of(array.dtype)]
        tensor = TensorProto(name=name, data_type=number, dims=array.shape)
        if data.nbytes < SMALL:
            tensor.raw_data = data.tobytes()
        else:
            self.large[name] = data
        self.initializers.append(tensor)
        return name

    def constants_written(self) -> list[TensorProto]:
        """The initializers, with their elements in them."""
        for tensor in self.initializers:
            if (data := self.large.pop(tensor.name, None)) is not None:
                tensor.raw_data = data.tobytes()
        return self.initializers

    def forget_initializers(self, count: int) -> None:
        """Forget all initializers but the first ones."""
        dropped = {t.name for t in self.initializers[count:]}
        del self.initializers[count:]
        self.large = {n: data for n, data in self.large.items() if n not in dropped}
        self.values = {v: n for v, n in self.values.items() if n not in dropped}
        self._shared = {v: n for v, n in self._shared.items() if n not in dropped}

    @property
    def fits(self) -> bool:
        """Return whether one file holds all constants."""
        return self._bytes <= MOST_BYTES

    def ints(self, values: Sequence[int]) -> str:
        """A vector of i64."""
        return self.shared(np.array(values, np.int64).reshape(-1), "ints")

    def shared(self, array: Array, name: str) -> str:
        """An array that all nodes read that ask for it."""
        key = (array.dtype, array.shape, array.tobytes())
        if key not in self._shared:
            self._shared[key] = self.array(array, name)
        return self._shared[key]

    def number(self, value: float | Sequence[float], t: Attribute) -> str:
        """A scalar, or a vector, of an element type."""
        return self.array(np.array(value).astype(dtype_of(t)), "number")

    def scalar(self, value: Input) -> Input:
        """A value of one element as a tensor of rank 0."""
        if not isinstance(value, SSAValue) or (is_ranked(value) and not shape_of(value)):
            return value
        if value in self._fixed:
            return self.array(self.constants.value(value).reshape(()), "scalar")
        return self.node("Reshape", value, self.ints(()))

    @property
    def has_float_codes(self) -> bool:
        """Before such codes onnxruntime (1.32) drops a Relu, as if no code were negative, and fails
        at a Clip; a maximum and a minimum it leaves alone."""
        return any(map(is_float, self.codes))

    def is_fixed(self, value: SSAValue) -> bool:
        return value in self._fixed

    def prefix(self) -> str:
        return "" if self._op is None else self.label(self._op)

    def label(self, op: Operation) -> str:
        return prefix_of(op)

    def refuse(self, why: str) -> NoReturn:
        """Raises GeError for the op that is being written."""
        assert self._op is not None
        raise refusal(self._op, why)

    # ---- blocks

    def block(self, block: Block) -> list[NodeProto]:
        """The nodes of a block's ops without its end."""
        outer, self.nodes = self.nodes, []
        for op in block.ops:
            if not op.has_trait(IsTerminator):
                self.write(op)
        nodes, self.nodes = self.nodes, outer
        return nodes

    def graph(self, block: Block) -> GraphProto:
        """A branch or the body of a loop; constants are those of the whole model."""
        inputs = [self.info(a, self.argument(a, f"{self.prefix()}/argument")) for a in block.args]
        nodes, end = self.block(block), block.last_op
        assert end is not None
        outer, self.nodes = self.nodes, nodes
        outputs = [self.info(v, self.node("Identity", v)) for v in end.operands]
        self.nodes = outer
        return helper.make_graph(nodes, self.prefix() or "graph", inputs, outputs)

    def argument(self, value: SSAValue, name: str) -> str:
        self.values[value] = self.unique(name)
        return self.values[value]

    def info(self, value: SSAValue, name: str, dims: Sequence[str] = ()) -> ValueInfoProto:
        """Name and type of an input or output; `dims` are names of dimensions, if any."""
        number = ONNX_NUMBERS[element_type(value)]
        if not is_ranked(value):
            return helper.make_tensor_value_info(name, number, None)
        shape = shape_of(value)
        names = dims or ("",) * len(shape)
        known = [n or None if d == DYNAMIC else d for d, n in zip(shape, names, strict=True)]
        return helper.make_tensor_value_info(name, number, known)

    def write(self, op: Operation) -> None:
        if isinstance(op, ConstantOp) or self._is_expression(op):
            self._fixed.update(op.results)
            return
        outer, self._op = self._op, op
        before = len(self.nodes)
        try:
            if (write := find(type(op))) is None:
                self.refuse("ONNX has no form of it here")
            written = write(op, self)
        finally:
            self._op = outer
        names = [written] if isinstance(written, str) else written
        self.values.update(zip(op.results, names, strict=True))
        if len(self.nodes) > before:  # the last makes the result: it has the name of the layer
            self.nodes[-1].name = numbered(self.label(op), self.node_names)

    def _is_expression(self, op: Operation) -> bool:
        return (
            isinstance(op, TensorOp)
            and not isinstance(op, DequantizeOp | AxisIndexOp)
            and not op.regions
            and op.has_trait(NoMemoryEffect)
            and all(o in self._fixed for o in op.operands)
        )

    def unique(self, name: str) -> str:
        return numbered(name, self._taken)


def find(kind: type[Operation]) -> Write | None:
    """The first call imports the modules with these functions."""
    _import_writers()
    return _WRITES.get(kind)


@Once
def _import_writers() -> None:
    for module in ("table", "composites"):
        importlib.import_module(f"ge.lowering.onnx.export.{module}")


def prefix_of(op: Operation) -> str:
    """The name of an op in the model, or that of its kind."""
    location = read_location(op.location)
    return location.name if location is not None and location.name else op.name


def refusal(op: Operation, why: str) -> GeError:
    hint = "--export-qdq M.mlir writes it as text"
    return GeError(f"{op.name} cannot be written as ONNX: {why}", str(location_of(op)), hint)


def numbered(name: str, taken: Counter[str]) -> str:
    """Return the name, with a number behind it if it is taken."""
    taken[name] += 1
    if taken[name] == 1:
        return name
    return numbered(f"{name}#{taken[name]}", taken)


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
    w.codes = {o.to for o in main.walk() if isinstance(o, QuantizeOp)}
    infos: list[Any] = []
    for arg, table, label in zip(block.args, inputs, names_in, strict=True):
        w.values[arg] = label
        infos.append(w.info(arg, label, dims_of(table, rank_of(arg))))
    w.nodes = w.block(block)
    if w.opset > OPSET:
        w.nodes = list(with_moved_codes(w.nodes, w.initializers))
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
    """Nodes write their results under the names of the outputs; inputs, constants and values
    returned twice go through an Identity."""
    renamed: dict[str, str] = {}
    for value, name in zip(values, names, strict=True):
        if isinstance(value, OpResult) and not w.is_fixed(value) and w.name(value) not in renamed:
            renamed[w.name(value)] = name
        else:
            w.nodes.append(helper.make_node("Identity", [w.name(value)], [name], name))
    rename(w.nodes, renamed)


MOVING = {"MaxPool", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"}


def with_moved_codes(
    nodes: Iterable[NodeProto], initializers: Iterable[TensorProto]
) -> Iterator[NodeProto]:
    """Yield the nodes; what moves floats of i8 codes moves codes, before they are floats. Else
    onnxruntime (1.32) quantizes behind it again, with a type that is an error from opset 21 on.

        d = DequantizeLinear(q)                      c = Transpose(q)
        t = Transpose(d)              becomes        t = DequantizeLinear(c)
    """
    signed = {t.name for t in initializers if t.data_type == TensorProto.INT8 and not t.dims}
    floats: dict[str, NodeProto] = {}
    for node in nodes:
        source = floats.get(node.input[0]) if node.op_type in MOVING else None
        if source is not None:
            of_codes, of_floats = NodeProto(), NodeProto()
            of_codes.CopyFrom(node)
            of_floats.CopyFrom(source)
            of_codes.input[0] = source.input[0]
            of_codes.output[0] = of_floats.input[0] = f"{node.output[0]}_codes"
            of_floats.output[0], of_floats.name = node.output[0], f"{node.name}_floats"
            yield of_codes
            node = of_floats
        if node.op_type == "DequantizeLinear" and len(node.input) > 2 and node.input[2] in signed:
            floats[node.output[0]] = node
        yield node


def rename(nodes: Iterable[NodeProto], names: dict[str, str]) -> None:
    for node in nodes:
        for listed in (node.input, node.output):
            for i, name in enumerate(listed):
                listed[i] = names.get(name, name)
        for attribute in node.attribute:
            rename(attribute.g.node, names)
            for output in attribute.g.output:
                output.name = names.get(output.name, output.name)
