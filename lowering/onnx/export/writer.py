"""Writes graph ops as ONNX nodes: a function for each kind of op.

    @writes(SiluOp)
    def silu(op: SiluOp, w: Writer) -> str:
        return w.node("Mul", op.input, w.node("Sigmoid", op.input))

It returns the name of the result, or a list of one for each result. What depends on constants only
is computed and stored; but of quantized weights the integers are, with a DequantizeLinear.
"""

import importlib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NoReturn, TypeAlias, TypeVar, cast

import numpy as np
from onnx import FunctionProto, GraphProto, NodeProto, TensorProto, ValueInfoProto, helper
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.traits import IsTerminator, NoMemoryEffect

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.quantization import DequantizeOp
from ge.dialects.support.diagnostics import location_of, read_location
from ge.dialects.support.errors import GeError
from ge.dialects.support.processes import Once
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import DYNAMIC, element_type, is_ranked, shape_of
from ge.lowering.onnx.model import ONNX_NUMBERS
from ge.runtime.data.arrays import Array, dtype_of, element_of
from ge.runtime.data.packing import is_packed, packed
from ge.runtime.data.weights import Payload
from ge.runtime.numbers.constants import Constants

OPSET, IR_VERSION = 20, 9  # of a model that needs no newer one

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
        # Beside the nodes: further inputs, functions by what they do, and domains of ops
        self.inputs: list[ValueInfoProto] = []
        self.functions: dict[bytes, FunctionProto] = {}
        self.domains: set[str] = set()
        self._fixed: set[SSAValue] = set()
        self._vectors: dict[tuple[int, ...], str] = {}
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
        """What a value is called, "" for an absent one. A constant is stored when it is named."""
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
        """All but the first ones."""
        dropped = {t.name for t in self.initializers[count:]}
        del self.initializers[count:]
        self.large = {n: data for n, data in self.large.items() if n not in dropped}
        self.values = {v: n for v, n in self.values.items() if n not in dropped}
        self._vectors = {v: n for v, n in self._vectors.items() if n not in dropped}

    @property
    def fits(self) -> bool:
        """Whether one file holds all constants."""
        return self._bytes <= MOST_BYTES

    def ints(self, values: Sequence[int]) -> str:
        """A vector of i64."""
        key = tuple(values)
        if key not in self._vectors:
            self._vectors[key] = self.array(np.array(key, np.int64).reshape(-1), "ints")
        return self._vectors[key]

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

    def is_fixed(self, value: SSAValue) -> bool:
        return value in self._fixed

    def prefix(self) -> str:
        return "" if self._op is None else self.label(self._op)

    def label(self, op: Operation) -> str:
        """What nodes and results of an op are called."""
        return prefix_of(op)

    def refuse(self, why: str) -> NoReturn:
        """Raises GeError for the op that is being written."""
        assert self._op is not None
        raise refusal(self._op, why)

    # ---- blocks

    def block(self, block: Block) -> list[NodeProto]:
        """The nodes of a block's ops but for its end."""
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
            and not isinstance(op, DequantizeOp)
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
    for module in ("table", "layers", "composites", "control", "recurrent"):
        importlib.import_module(f"ge.lowering.onnx.export.{module}")


def prefix_of(op: Operation) -> str:
    """The name of an op in the model, or that of its kind."""
    location = read_location(op.location)
    return location.name if location is not None and location.name else op.name


def refusal(op: Operation, why: str) -> GeError:
    hint = "--export-qdq M.mlir writes it as text"
    return GeError(f"{op.name} cannot be written as ONNX: {why}", str(location_of(op)), hint)


def numbered(name: str, taken: Counter[str]) -> str:
    """The name, with a number behind it where it is taken."""
    taken[name] += 1
    if taken[name] == 1:
        return name
    return numbered(f"{name}#{taken[name]}", taken)
