"""The names visible in one ONNX graph while it is imported, and the block its ops go to.

A call of a function (an op that a model, or ONNX itself, defines by a small graph) is imported as
the body in its place, on the types of this call's inputs."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast

from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    NodeProto,
    OperatorSetIdProto,
    SparseTensorProto,
    TensorProto,
    TypeProto,
    defs,
    helper,
)
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    LocationAttr,
    TensorType,
    UnrankedTensorType,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.traits import NoMemoryEffect
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph.constant import INLINE_BYTES, ConstantOp, WeightAttr
from ge.dialects.graph.creation import DeriveSeedOp
from ge.dialects.graph.support.parameters import ShapeComputation
from ge.dialects.support.environment import debugging
from ge.dialects.support.errors import GeError
from ge.dialects.support.tensor_op import TensorOp, name_loc
from ge.dialects.support.types import (
    DYNAMIC,
    AnyTensor,
    NotStatic,
    constant_value,
    element_type,
    is_static,
    numel,
    set_type,
    shape_of,
    shape_text,
    tensor,
)
from ge.lowering.onnx.model import (
    MAX_ELEMENTS,
    ONNX_NUMBERS,
    check_names,
    domain_of,
    in_order,
    node_name,
)
from ge.lowering.onnx.registry import Node, Unsupported, advice, find
from ge.lowering.onnx.values import Maybe, SequenceParts, Value, rank_hint, tensors_of
from ge.runtime import numbers
from ge.runtime.data.arrays import Array, array_of, dense, type_of

if TYPE_CHECKING:
    from ge.lowering.onnx.importer import Importer


@dataclass
class OnnxFunction:
    """A function, the opsets of its body, and the attributes that a call need not give."""

    key: tuple[str, ...]
    proto: FunctionProto
    opsets: Mapping[str, int]
    defaults: Mapping[str, AttributeProto] = field(default_factory=dict[str, AttributeProto])
    anonymous: bool = False  # whether the body's own names mean nothing to the user


def versions(opsets: Iterable[OperatorSetIdProto]) -> dict[str, int]:
    """The version of each domain that states one; "" is ONNX's own, which has two spellings."""
    return {("" if o.domain == "ai.onnx" else o.domain): o.version for o in opsets if o.version}


def local_function(proto: FunctionProto) -> OnnxFunction:
    """A function of the model."""
    opsets = versions(proto.opset_import)
    defaults = {a.name: a for a in proto.attribute_proto}
    return OnnxFunction(
        local_key(proto.domain, proto.name, proto.overload), proto, opsets, defaults
    )


def local_key(domain: str, name: str, overload: str) -> tuple[str, ...]:
    return ("" if domain == "ai.onnx" else domain, name, overload)


def find_function(node: NodeProto, inputs: Sequence[Value], opset: int) -> OnnxFunction | None:
    """The body that ONNX gives an op, for a call with these inputs; None if it gives none."""
    try:
        schema = defs.get_schema(node.op_type, opset, domain_of(node))
    except defs.SchemaError:
        return None
    text = _body(cast(FunctionSchema, schema), node, inputs, opset)
    if text is None:
        return None
    proto = FunctionProto()
    proto.ParseFromString(text)
    opsets = versions(proto.opset_import) or {domain_of(node): opset}
    defaults = {
        name: a.default_value
        for name, a in schema.attributes.items()
        if a.default_value.type != AttributeProto.UNDEFINED
    }
    key = ("onnx", domain_of(node), node.op_type)
    return OnnxFunction(key, proto, opsets, defaults, anonymous=True)


class FunctionSchema(Protocol):
    function_opset_versions: Sequence[int]
    context_dependent_function_opset_versions: Sequence[int]

    def get_function_with_opset_version(self, version: int) -> bytes: ...

    def get_context_dependent_function_with_opset_version(
        self, version: int, node: bytes, types: Sequence[bytes]
    ) -> bytes: ...


def _body(
    schema: FunctionSchema, node: NodeProto, inputs: Sequence[Value], opset: int
) -> bytes | None:
    known = [v for v in schema.function_opset_versions if v <= opset]
    if known:
        return schema.get_function_with_opset_version(max(known))
    known = [v for v in schema.context_dependent_function_opset_versions if v <= opset]
    if not known:
        return None
    types = [_type(value).SerializeToString() for value in inputs]
    text = schema.get_context_dependent_function_with_opset_version(
        max(known), node.SerializeToString(), types
    )
    return text or None


def _type(value: Value) -> TypeProto:
    match value:
        case None:
            return TypeProto()
        case SSAValue():
            dims = [None if d == DYNAMIC else d for d in shape_of(value)]
            return helper.make_tensor_type_proto(ONNX_NUMBERS[element_type(value)], dims)
        case Maybe():
            return helper.make_optional_type_proto(_type(value.tensor))
        case SequenceParts():  # the last part may be smaller
            element = ONNX_NUMBERS[element_type(value.whole)]
            return helper.make_sequence_type_proto(helper.make_tensor_type_proto(element, None))
        case _:
            first = next(iter(tensors_of(value)), None)
            return helper.make_sequence_type_proto(_type(first))


def is_uniform(array: Array) -> bool:
    """Return whether a vector of bytes, as zero points are, is one number again and again."""
    return array.ndim == 1 and array.dtype.itemsize == 1 and bool((array == array[0]).all())


SMALL = 4096  # up to so many elements, what depends on constants only is computed during import


@dataclass(frozen=True)
class ImportProblem:
    """The reason why a node cannot be imported. `line`: of the program that the node comes from;
    `is_mismatch`: types of operands and attributes do not fit together, in any run."""

    op_type: str
    name: str
    reason: str
    line: str = ""
    is_mismatch: bool = False

    def __str__(self) -> str:
        return f"'{self.name}' ({self.line})" if self.line else f"'{self.name}'"


class Failed(Exception):
    """A value is missing because the node that makes it was reported already."""


class Undecided(Exception):
    """A trial (see `Scope.on_trial_with`) has come to a value whose rank is not known either."""


class TooLarge(GeError):
    """The model as a whole is refused; no use to look further."""


class Scope:
    """A graph, a subgraph or the body of a function during import.

    `parent` is the scope around a subgraph, whose names it sees, `caller` the one from which a
    function is called. `prefix` goes before the names of nodes in their locations, unless
    `location` gives them all the same one. In the body of a loop, `round_number` is a value of it,
    and `rounds` the trip count or condition; `holds` is the condition of a branch that it takes.
    """

    def __init__(
        self,
        importer: "Importer",
        block: Block,
        opsets: Mapping[str, int],
        parent: "Scope | None" = None,
    ) -> None:
        self.importer, self.block, self.opsets, self.parent = importer, block, opsets, parent
        self.values: dict[str, Value] = {}
        self.failed: set[str] = set()
        self.ranks: dict[str, int] = {}  # of nodes' outputs, as far as the graph declares them
        self.attributes: Mapping[str, AttributeProto] = parent.attributes if parent else {}
        self.calls: tuple[tuple[str, ...], ...] = parent.calls if parent else ()
        self.prefix: str = parent.prefix if parent else ""
        self.location: LocationAttr | None = parent.location if parent else None
        self.caller: Scope | None = parent
        self.nodes: Sequence[NodeProto] = ()  # of the graph, each behind what it reads
        self.node_number = -1  # of the one that is imported
        self.on_trial: bool = parent.on_trial if parent else False
        self.round_number: SSAValue | None = None
        self.rounds: SSAValue | None = None
        self.holds: SSAValue | None = None
        self._seed: SSAValue | None = None

    def child(self, arg_types: Sequence[Attribute] = ()) -> "Scope":
        return Scope(self.importer, Block(arg_types=arg_types), self.opsets, self)

    def on_trial_with(self, values: Mapping[str, Value]) -> "Scope":
        """A scope to import nodes of this one into that read other values of these names, only to
        see whether they can be imported."""
        scope = self.child()
        scope.values.update(values)
        scope.ranks, scope.on_trial = self.ranks, True
        return scope

    def inline(self, graph: GraphProto, arguments: Iterable[Value] = ()) -> list[Value]:
        return Scope(self.importer, self.block, self.opsets, self).import_graph(graph, arguments)

    # ---- names

    def lookup(self, name: str) -> Value:
        """The value of that name here or in an outer scope. Raises Unsupported for an unknown one,
        Failed when what defines it could not be imported."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            if name in scope.failed:
                raise Failed
            scope = scope.parent
        raise Unsupported(f"'{name}' is not defined by any input, initializer or node")

    def define(self, name: str, value: Value) -> None:
        if name not in self.values:
            self.values[name] = value
        elif self.is_same_constant(self.values[name], value):
            self.importer.warn(f"the name '{name}' is defined twice, by equal constants")
        else:
            raise GeError(f"the name '{name}' is defined twice")

    def is_same_constant(self, first: Value, second: Value) -> bool:
        if not (isinstance(first, SSAValue) and isinstance(second, SSAValue)):
            return False
        a, b = self.known(first), self.known(second)
        if a is None or b is None or first.type != second.type:
            return False
        return a.shape == b.shape and a.tobytes() == b.tobytes()

    def place(self, name: str) -> LocationAttr:
        if self.location is not None:
            return self.location
        return name_loc(f"{self.prefix}{name}")

    # ---- random numbers

    def seed(self) -> SSAValue:
        """Return the seed that random ops of this graph draw from: the argument of the main
        function, in a loop another one in each round."""
        if self._seed is None:
            self._seed = self.importer.seed() if self.caller is None else self.caller.seed()
            if self.round_number is not None:
                op = DeriveSeedOp.of(self._seed, self.round_number)
                self.block.add_op(op)
                self._seed = op.result
        return self._seed

    def stream(self, name: str) -> int:
        return self.importer.stream(f"{self.prefix}{name}")

    # ---- constants

    def constant(self, name: str, t: AnyTensor, array: Array | None) -> SSAValue:
        """A constant: in the text if small, else a weight. `array` is None for a weight whose
        payload is missing."""
        if array is not None and (array.nbytes <= INLINE_BYTES or is_uniform(array)):
            op = ConstantOp.make(dense(array), t)
        else:
            key = self.importer.unique_key(f"{self.prefix}{name}")
            if array is not None:
                self.importer.payload[key] = array
            op = ConstantOp.make(WeightAttr(key), t)
        op.location = self.place(name)
        self.block.add_op(op)
        return op.result

    def add_tensor(self, name: str, proto: TensorProto) -> None:
        tensors = self.importer.tensors
        self.define(name, self.constant(name, tensors.type_of(proto), tensors.array(proto)))

    def add_initializer(self, name: str, proto: TensorProto | SparseTensorProto) -> None:
        try:
            if isinstance(proto, TensorProto):
                self.add_tensor(name, proto)
            else:
                array = self.importer.tensors.sparse(proto)
                self.define(name, self.constant(name, type_of(array), array))
        except (GeError, ValueError) as e:
            self.importer.report("initializer", name, e)
            self.failed.add(name)

    def array(self, proto: TensorProto) -> Array:
        array = self.importer.tensors.array(proto)
        if array is None:
            raise Unsupported(f"the external data of tensor '{proto.name}' is missing")
        return array

    def known(self, value: SSAValue) -> Array | None:
        """The elements of a value that depends on constants only, if they are at hand."""
        attr = constant_value(value)
        if attr is not None:
            return array_of(attr)
        owner = value.owner
        if isinstance(owner, ConstantOp) and owner.key is not None:
            return self.importer.payload.get(owner.key)
        return self.importer.computed.get(value)

    def evaluate(self, op: Operation) -> None:
        """Remember the values of a new op's results when they depend on constants only. The op
        stays; whoever needs the value at import (a shape, a condition) finds it by `known`."""
        if not isinstance(op, TensorOp) or isinstance(op, ConstantOp) or op.regions:
            return
        if isinstance(op, ShapeComputation) and (folded := op.fold()) is not None:
            self._remember(op, [self._folded(v) for v in folded])
            return
        arrays: list[Array] = []
        for operand in op.operands:
            array = self.known(operand)
            if array is None or array.size > SMALL:
                return
            arrays.append(array)
        types = [r.type for r in op.results]
        if not arrays or not op.has_trait(NoMemoryEffect) or not all(_is_small(t) for t in types):
            return
        try:
            self._remember(op, numbers.evaluate(op, arrays))
        except (GeError, ArithmeticError, ValueError, IndexError, MemoryError):
            return  # whether it fails when it runs is for the run to find out

    def _folded(self, value: SSAValue | Attribute) -> Array | None:
        if isinstance(value, SSAValue):
            return self.known(value)
        return array_of(cast(Any, value)) if isinstance(value, DenseIntOrFPElementsAttr) else None

    def _remember(self, op: Operation, arrays: Iterable[Array | None]) -> None:
        for result, array in zip(op.results, arrays, strict=False):
            if array is not None:
                self.importer.computed[result] = array

    # ---- graphs and nodes

    def import_graph(self, graph: GraphProto, arguments: Iterable[Value] = ()) -> list[Value]:
        """Add the graph's initializers and nodes to the block; its inputs stand for
        `arguments`. Returns its outputs. Raises Failed when one depends on a reported node."""
        check_names(graph)
        own = {i.name for i in graph.initializer}
        arguments = list(arguments)
        inputs = list(dict.fromkeys(i.name for i in graph.input))
        if len(inputs) > len(arguments):
            inputs = [name for name in inputs if name not in own]
        if len(inputs) != len(arguments):
            raise Unsupported(f"{len(arguments)} values for the {len(inputs)} inputs of a subgraph")
        for name, value in zip(inputs, arguments, strict=True):
            self.define(name, value)
        for info in (*graph.value_info, *graph.output):
            if info.type.tensor_type.HasField("shape"):
                self.ranks[info.name] = len(info.type.tensor_type.shape.dim)
        for init in graph.initializer:
            self.add_initializer(init.name, init)
        for sparse in graph.sparse_initializer:
            self.add_initializer(sparse.values.name, sparse)
        return self.import_nodes(graph.node, [o.name for o in graph.output])

    def import_nodes(self, nodes: Sequence[NodeProto], outputs: Iterable[str]) -> list[Value]:
        self.nodes = in_order(nodes)
        for i, node in enumerate(self.nodes):
            self.node_number = i
            self.import_node(node)
        return [self.lookup(name) for name in outputs]

    def rest(self) -> Iterator[NodeProto]:
        """The nodes after the one that is imported."""
        return map(self.nodes.__getitem__, range(self.node_number + 1, len(self.nodes)))

    def import_node(self, proto: NodeProto) -> None:
        self.importer.count_node()
        inputs: Sequence[Value] = ()
        try:
            inputs = [self.lookup(name) if name else None for name in proto.input]
            proto = self._resolved(proto)
            if proto.op_type == "Constant" and not domain_of(proto) and self._tensor(proto):
                return
            self._bind(proto, self.call(proto, inputs))
            return
        except Failed:
            pass
        except (TooLarge, Undecided):
            raise
        except (Unsupported, VerifyException, GeError) as e:
            hint = rank_hint(inputs, self._rounds_of) if isinstance(e, NotStatic) else ""
            self.importer.report(proto.op_type, node_name(proto), e, proto, hint)
        except Exception as e:  # a damaged node: attributes of the wrong kind, missing inputs, ...
            if debugging():
                raise
            blamed = self.importer.blame(proto, e)
            self.importer.report(proto.op_type, node_name(proto), blamed, proto)
        self.failed.update(name for name in proto.output if name)

    def _around(self) -> Iterator["Scope"]:
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.caller

    def _rounds_of(self, body: Block) -> SSAValue | None:
        return next((s.rounds for s in self._around() if s.block is body), None)

    def is_known_to_hold(self, condition: SSAValue) -> bool:
        return any(s.holds is condition for s in self._around())

    def _tensor(self, proto: NodeProto) -> bool:
        attribute = next((a for a in proto.attribute if a.name in ("value", "sparse_value")), None)
        if attribute is None or not proto.output:
            return False
        name = proto.output[0]
        if attribute.name == "value":
            self.add_tensor(name, attribute.t)
        else:
            array = self.importer.tensors.sparse(attribute.sparse_tensor)
            self.define(name, self.constant(name, type_of(array), array))
        return True

    def call(
        self, proto: NodeProto, inputs: Sequence[Value], opset: int | None = None
    ) -> list[Value]:
        """Add the ops that a node stands for and return the values of its outputs."""
        function = self.importer.function(proto)
        version = self.opsets.get(domain_of(proto), 1) if opset is None else opset
        handler = None if function is not None else find(proto.domain, proto.op_type, version)
        if function is None and handler is None:
            function = find_function(proto, inputs, version)
        if function is not None:
            return self._expand(proto, function, inputs)
        if handler is None:
            where = f" of domain '{proto.domain}'" if proto.domain else ""
            why = f": {text}" if (text := advice(proto.domain)) else ""
            raise Unsupported(f"there is no such op{where} in ge{why}")
        node = Node(proto, inputs, version, self.block, self)
        if self.prefix or self.location is not None:
            node.location = self.place(node_name(proto))
        return _outputs(handler(node))

    def _bind(self, proto: NodeProto, values: Sequence[Value]) -> None:
        for i, name in enumerate(proto.output):
            if not name:
                continue
            if i >= len(values):
                raise Unsupported(f"there is no output {i}")
            for value in tensors_of(values[i]):
                _check_size(value)
                if isinstance(value.type, UnrankedTensorType) and name in self.ranks:
                    set_type(value, tensor([DYNAMIC] * self.ranks[name], element_type(value)))
            self.define(name, values[i])

    # ---- functions

    def _resolved(self, proto: NodeProto) -> NodeProto:
        if not any(a.ref_attr_name for a in proto.attribute):
            return proto
        result = NodeProto()
        result.CopyFrom(proto)
        del result.attribute[:]
        for attribute in proto.attribute:
            argument = self.attributes.get(attribute.ref_attr_name)
            if not attribute.ref_attr_name:
                result.attribute.append(attribute)
            elif argument is not None:
                copy = result.attribute.add()
                copy.CopyFrom(argument)
                copy.name = attribute.name
        return result

    def _expand(
        self, proto: NodeProto, function: OnnxFunction, inputs: Sequence[Value]
    ) -> list[Value]:
        if function.key in self.calls:
            raise Unsupported(f"function '{proto.op_type}' calls itself")
        body = function.proto
        scope = Scope(self.importer, self.block, {**self.opsets, **function.opsets})
        scope.caller, scope.on_trial = self, self.on_trial
        scope.calls = (*self.calls, function.key)
        scope.attributes = {**function.defaults, **{a.name: a for a in proto.attribute}}
        scope.prefix = f"{self.prefix}{node_name(proto)}/"
        scope.location = self.place(node_name(proto)) if function.anonymous else self.location
        if len(inputs) > len(body.input):
            raise Unsupported(f"{len(inputs)} inputs for a function of {len(body.input)}")
        for i, name in enumerate(body.input):
            scope.define(name, inputs[i] if i < len(inputs) else None)
        # A body may leave out outputs that the call does not ask for.
        return scope.import_nodes(body.node, body.output[: len(proto.output)])


def _outputs(result: object) -> list[Value]:
    if result is None or isinstance(result, SSAValue):
        return [result]
    return list(cast(Sequence[Value], result))


def _is_small(t: Attribute) -> bool:
    if not isinstance(t, TensorType):
        return False
    shape = cast(AnyTensor, t).get_shape()
    return is_static(shape) and numel(shape) <= SMALL


def _check_size(value: SSAValue) -> None:
    t: Attribute = value.type
    if not isinstance(t, TensorType):
        return
    shape = cast(AnyTensor, t).get_shape()
    if math.prod(d for d in shape if d > 0) > MAX_ELEMENTS:
        raise Unsupported(f"a result of shape {shape_text(shape)} is too large")
