"""Import of an ONNX node as `graph` ops: a handler for each ONNX op type.

    @onnx_op("Transpose")
    def transpose(n: Node) -> SSAValue:
        return n.emit(TransposeOp, n[0], permutation=n.ints("perm", range(n.rank(0))[::-1]))

A handler returns its output value, or a sequence of one for each output; the value of a sequence
is a tuple of tensors. It raises `Unsupported` with the reason when it cannot. A node that is one
op of ge needs no handler: a row of `forms.py` says how import and export spell it.

    @contrib_op("QuickGelu", alpha=ANY)
    def quick_gelu(n: Node) -> SSAValue:
        return n.emit(SiluOp, n[0], alpha=n.float("alpha", 1.702))

The ops that onnxruntime adds to ONNX (its domain `com.microsoft`) change from one onnxruntime to
the next. So their handlers state what they take: attributes and their values, and inputs that
must be absent. A node that says anything else is refused with all that does not fit, before the
handler sees it."""

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar, cast

import numpy as np
from onnx import AttributeProto, GraphProto, NodeProto, helper, numpy_helper
from xdsl.dialects.builtin import LocationAttr, TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.irdl import OptOperandDef, VarOperandDef

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.elementwise import CastOp
from ge.dialects.graph.shape import ReshapeOp
from ge.dialects.support.constraints import INT
from ge.dialects.support.errors import GeError
from ge.dialects.support.packages import Installed, installed, left_out, way_out
from ge.dialects.support.processes import Once
from ge.dialects.support.tensor_op import Operand, Param, TensorOp, name_loc
from ge.dialects.support.types import constant_value, element_type, rank_of, shape_of
from ge.lowering.onnx.forms import FORMS, ONNX_NAMES, Default
from ge.lowering.onnx.model import node_name
from ge.lowering.onnx.values import Growing, SequenceParts, Value, described
from ge.runtime.data.arrays import Array, array_of, dense, dtype_of, type_of

Handler: TypeAlias = Callable[["Node"], Any]

OpT = TypeVar("OpT", bound=TensorOp)

T = TypeVar("T")

# Node has methods with these names, which hide the types from the annotations in its class
Int: TypeAlias = int

Float: TypeAlias = float

Str: TypeAlias = str

_HANDLERS: dict[tuple[str, str], Handler] = {}

_OLD: dict[tuple[str, str], tuple[int, Handler]] = {}  # with the last opset that it is for

_ADDED: dict[tuple[str, str], Handler] = {}  # of plugin files and of packages, for all opsets


class Unsupported(Exception):
    """A node cannot be imported; the text says why."""


def onnx_op(
    *names: str, domain: str = "", until: int | None = None
) -> Callable[[Handler], Handler]:
    """Register the function below as the handler of these ONNX op types; with `until`, of those of
    opsets up to that one."""

    def register(handler: Handler) -> Handler:
        own = handler.__module__.startswith(f"{__name__.rpartition('.')[0]}.")
        for name in names:
            if own and until is not None:
                _OLD[domain, name] = until, handler
            else:
                (_HANDLERS if own else _ADDED)[domain, name] = handler
        return handler

    return register


def own_handlers() -> Mapping[tuple[str, str], Handler]:
    """ge's own handlers, by domain and op type. The first call imports all modules of `ops`."""
    _import_handlers()
    return _HANDLERS


@Once
def _import_handlers() -> None:
    package = __name__.rpartition(".")[0] + ".ops"
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        importlib.import_module(f"{package}.{module.name}")
    for name in FORMS:
        _HANDLERS.setdefault(("", name), one_node)


def find(domain: str, op_type: str, opset: int) -> Handler | None:
    """The handler of an op type in an opset of its domain: that of a plugin file, or ge's own, or
    one of an installed package. Modules of packages are imported for the first node of their domain
    that ge does not have."""
    handlers = own_handlers()
    key = "" if domain == "ai.onnx" else domain, op_type
    until, old = _OLD.get(key, (0, None))
    added, own = _ADDED.get(key), old if opset <= until else handlers.get(key)
    if own is not None and (added is None or _package_of(added) is not None):
        return own
    for package in installed():
        if added is not None:
            break
        if (module := package.adds.onnx.get(key[0])) is not None:
            _load_handlers(package, module)
            added = _ADDED.get(key)
    return added


def _load_handlers(package: Installed, module: str) -> None:
    """Import a module of handlers. One that fails, or has what there is already, is warned of."""
    before = dict(_ADDED)
    try:
        importlib.import_module(module)
    except (Exception, SystemExit) as e:
        left_out(f"module '{module}' of {package}", e, way_out(package.name))
    for key, handler in list(_ADDED.items()):
        other = _HANDLERS.get(key) or before.get(key, handler)
        if other is not handler and _package_of(handler) is package:
            by = _package_of(other)
            what = f"ONNX op '{'.'.join(filter(None, key))}' of {package}"
            left_out(what, GeError(f"{'ge' if by is None else by} has a handler of it"))
            _ADDED[key] = other
            if key in _HANDLERS:
                del _ADDED[key]


def _package_of(handler: Handler) -> Installed | None:
    top = handler.__module__.partition(".")[0]
    return next((p for p in installed() if p.module.partition(".")[0] == top), None)


def check_attributes(proto: NodeProto) -> None:
    """Raises Unsupported for an attribute that a node has twice with different values."""
    first: dict[str, AttributeProto] = {}
    for attribute in proto.attribute:
        if first.setdefault(attribute.name, attribute) != attribute:
            raise Unsupported(f"attribute '{attribute.name}' is given twice, and differs")


class Node:
    """An ONNX node during import: its inputs as values, its attributes as Python values.

    `n[i]` is input i (error when absent), `n.get(i)` the same or None, `n.opset` the opset
    version of the node's domain, `n.subgraph(name)` a GraphProto attribute.
    """

    def __init__(
        self, proto: NodeProto, inputs: Sequence[Value], opset: int, block: Block, scope: Any = None
    ) -> None:
        self.proto, self.inputs, self.opset, self.block = proto, inputs, opset, block
        self.scope = scope  # the importer's scope, for handlers that import subgraphs
        self.attributes = {a.name: a for a in proto.attribute}
        if len(self.attributes) < len(proto.attribute):
            check_attributes(proto)
        self.location: LocationAttr = name_loc(node_name(proto))

    @property
    def op_type(self) -> str:
        return self.proto.op_type

    # ---- inputs

    def get(self, index: int) -> SSAValue | None:
        value = self.inputs[index] if index < len(self.inputs) else None
        if value is not None and not isinstance(value, SSAValue):
            raise Unsupported(f"input {index} is {described(value)} where a tensor is expected")
        return value

    def __getitem__(self, index: int) -> SSAValue:
        value = self.get(index)
        if value is None:
            raise Unsupported(f"input {index} is missing")
        return value

    def sequence(self, index: int) -> tuple[SSAValue, ...]:
        value = self.inputs[index] if index < len(self.inputs) else None
        if isinstance(value, SequenceParts):
            raise Unsupported(f"the length of sequence {index} is known only at run time")
        if isinstance(value, Growing):
            raise Unsupported(
                f"sequence {index} grows in a loop of which the number of rounds is known only at "
                "run time: the loop can append to its end, and nothing else"
            )
        if not isinstance(value, tuple):
            raise Unsupported(f"input {index} is not a sequence known at import")
        return value

    def tensors(self, start: int = 0) -> list[SSAValue]:
        return [self[i] for i in range(start, len(self.inputs))]

    def constant(self, index: int) -> Array | None:
        """The elements of input `index` if they are known at import, else None."""
        value = self.get(index)
        attr = None if value is None else constant_value(value)
        if attr is not None:
            return array_of(attr)
        return None if value is None or self.scope is None else self.scope.known(value)

    def constant_ints(self, index: int) -> tuple[int, ...] | None:
        """The integers of input `index`, flattened, if known at import, else None."""
        array = self.constant(index)
        return None if array is None else tuple(int(v) for v in array.reshape(-1))

    def rank(self, index: int) -> int:
        return rank_of(self[index])

    def shape(self, index: int) -> tuple[int, ...]:
        return shape_of(self[index])

    def element(self, index: int) -> Attribute:
        return element_type(self[index])

    def wants(self, output: int) -> bool:
        return output < len(self.proto.output) and bool(self.proto.output[output])

    # ---- attributes

    def attribute(self, name: Str) -> Any:
        """The attribute as a Python value (bytes become str, tensors arrays), None if absent."""
        proto = self.attributes.get(name)
        if proto is None:
            return None
        value = helper.get_attribute_value(proto)
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        if proto.type == AttributeProto.TENSOR:
            return (
                numpy_helper.to_array(proto.t) if self.scope is None else self.scope.array(proto.t)
            )
        return value

    def _typed(self, name: Str, kind: type[T]) -> T | None:
        value = self.attribute(name)
        if value is not None and not isinstance(value, kind):
            raise Unsupported(f"attribute '{name}' is {value!r}, expected {kind.__name__}")
        return value

    def int(self, name: Str, default: Int = 0) -> Int:
        value = self._typed(name, int)
        return default if value is None else value

    def float(self, name: Str, default: Float = 0.0) -> Float:
        value = self.given_float(name)
        return default if value is None else value

    def given_float(self, name: Str) -> Float | None:
        """Return a float attribute; None if it is absent, which is not 0."""
        return self._typed(name, float)

    def str(self, name: Str, default: Str = "") -> Str:
        value = self._typed(name, str)
        return default if value is None else value

    def ints(self, name: Str, default: Sequence[Int] | None = None) -> tuple[Int, ...]:
        """An attribute that is a list of integers. Raises Unsupported when it is something else, or
        missing without a default."""
        value = self.attribute(name)
        if value is None:
            if default is None:
                raise Unsupported(f"attribute '{name}' is missing")
            return tuple(default)
        values = cast(list[object], value if isinstance(value, list) else [None])
        if not all(isinstance(v, int) for v in values):
            raise Unsupported(f"attribute '{name}' is {value!r}, expected integers")
        return tuple(cast(list[Int], values))

    def given(self, name: Str, default: "Default") -> "Default":
        """An attribute of the type of its default; where that is None, the attribute itself, or
        None."""
        match default:
            case bool():
                return bool(self.int(name, default))
            case Int():
                return self.int(name, default)
            case Float():
                return self.float(name, default)
            case Str():
                return self.str(name, default)
            case _:
                return self._typed(name, int)

    def subgraph(self, name: Str) -> GraphProto:
        attribute = self.attributes.get(name)
        if attribute is None or attribute.type != AttributeProto.GRAPH:
            raise Unsupported(f"attribute '{name}' is missing or not a graph")
        return attribute.g

    def distinct(self, axes: tuple[Int, ...]) -> tuple[Int, ...]:
        """Return axes of input 0 without repetitions, for an op to which a repetition says nothing
        more."""
        rank = self.rank(0)
        kept = {a + rank if a < 0 else a: a for a in reversed(axes)}
        if len(kept) == len(axes):
            return axes
        self.scope.importer.warn(f"{self.op_type} '{node_name(self.proto)}' names an axis twice")
        return tuple(reversed(kept.values()))

    # ---- random numbers

    def seed(self) -> SSAValue:
        return self.scope.seed()

    def stream(self) -> Int:
        """The number of a stream that no other node draws from."""
        return self.scope.stream(next((o for o in self.proto.output if o), self.op_type))

    # ---- results

    def build(self, op: type[OpT], *operands: Any, **params: Any) -> OpT:
        return self.add(op.of(*operands, location=self.location, **params))

    def add(self, op: OpT) -> OpT:
        """Append an op that was made elsewhere; its value is known at once if its operands are."""
        op.location = self.location
        self.block.add_op(op)
        if self.scope is not None:
            self.scope.evaluate(op)
        return op

    def emit(self, op: type[TensorOp], *operands: Any, **params: Param | Operand) -> SSAValue:
        """Append an op and return its first result."""
        return self.build(op, *operands, **params).results[0]

    def cast(self, value: SSAValue, to: Attribute) -> SSAValue:
        return value if element_type(value) == to else self.emit(CastOp, value, to=to)

    def const(self, array: Any, element: Attribute | None = None) -> SSAValue:
        """A constant in the text. `element` converts to that element type first."""
        value = np.asarray(array)
        if element is not None:
            value = value.astype(dtype_of(element))
        elif value.dtype == np.int32:
            value = value.astype(np.int64)
        op: Operation = self.add(ConstantOp.make(dense(value), type_of(value)))
        return op.results[0]

    def like(self, scalar: Float, value: SSAValue) -> SSAValue:
        """A scalar constant of the element type of `value`."""
        return self.const(scalar, element_type(value))


def parameter(
    n: Node, index: int, attribute: str = ""
) -> tuple[SSAValue | None, tuple[int, ...] | None]:
    """Operand and property for a parameter that is input `index`, or an attribute in earlier
    opsets: the property when its value is known at import. A scalar is taken for a vector of one
    element, and a matrix of one row for that row."""
    if attribute in n.attributes:
        return None, n.ints(attribute)
    value = n.get(index)
    known = None if value is None else n.constant_ints(index)
    return (as_vector(n, value), None) if known is None else (None, known)


def as_vector(n: Node, value: SSAValue | None) -> SSAValue | None:
    if value is None or not isinstance(value.type, TensorType) or rank_of(value) == 1:
        return value
    return n.emit(ReshapeOp, value, shape=(-1,))


def scalar_parameter(
    n: Node, index: int, attribute: str = ""
) -> tuple[SSAValue | None, int | None]:
    """The same for a single integer."""
    if attribute in n.attributes:
        return None, n.int(attribute)
    value = n.get(index)
    known = None if value is None else n.constant_ints(index)
    return (None, known[0]) if known else (value, None)


def one_node(n: Node) -> tuple[SSAValue, ...]:
    """The op that `FORMS` has for the node."""
    form = FORMS[n.op_type]
    params: dict[str, Any] = {
        name: n.given(ONNX_NAMES.get(name, name), default)
        for name, default in form.defaults.items()
    }
    properties = form.op.operand_slots().properties
    for index, name in enumerate(form.inputs.split()):
        if name in properties:
            read = scalar_parameter if properties[name] is INT else parameter
            params[f"{name}_value"], params[name] = read(n, index, name)
        else:
            params[name] = n[index]
    operands = () if form.inputs else operands_in_order(form.op, n)
    op = n.build(form.op, *operands, **params, **form.fixed)
    return tuple(op.results)[: len(n.proto.output)]


def operands_in_order(op: type[TensorOp], n: Node) -> list[Any]:
    """The inputs as operands of an op: those that it needs, those that it may have, and the rest
    where it takes any number."""
    found: list[Any] = []
    for index, (_, definition) in enumerate(op.get_irdl_definition().operands):
        if isinstance(definition, OptOperandDef):
            found.append(n.get(index))
        elif isinstance(definition, VarOperandDef):
            found.append(n.tensors(index))
        else:
            found.append(n[index])
    return found


DOMAIN: Final = "com.microsoft"

LAYOUTS: Final = "com.microsoft.nchwc"

ANY: Final = object()
"""An attribute that may have any value: the handler itself says what it does not take."""

Names = Mapping[int, str]

Ranks = Mapping[int, Sequence[int]]


def contrib_op(
    *names: str,
    absent: Names | None = None,
    unwanted: Names | None = None,
    ranks: Ranks | None = None,
    domains: Sequence[str] = (DOMAIN,),
    **attributes: object,
) -> "Registration":
    """Register the function below as the handler of these ops of onnxruntime. `attributes` are all
    that it takes: ANY, or the one value that is supported. `absent` and `unwanted` are the inputs
    and outputs, by index, that are not supported, `ranks` those that an input may have."""
    return Registration(names, domains, attributes, absent or {}, unwanted or {}, ranks or {})


@dataclass(frozen=True)
class Registration:
    """The attributes and inputs that a handler takes, applied to the function that it decorates."""

    names: Sequence[str]
    domains: Sequence[str]
    attributes: Mapping[str, object]
    absent: Names
    unwanted: Names
    ranks: Ranks

    def __call__(self, handler: Handler) -> Handler:
        checked = Checked(handler, self)
        for domain in self.domains:
            onnx_op(*self.names, domain=domain)(checked)
        return handler

    def problems(self, n: Node) -> list[str]:
        """Return a text for each fact of the node that the handler does not take."""
        found: list[str] = []
        for name in n.attributes:
            value = n.attribute(name)
            if name not in self.attributes:
                found.append(f"attribute '{name}' is not known")
            elif (only := self.attributes[name]) is not ANY and value != only:
                found.append(f"attribute '{name}' is {value!r}, supported is {only!r}")
        given = [i for i, value in enumerate(n.inputs) if value is not None]
        found += [
            f"input {i} '{self.absent[i]}' is not supported" for i in given if i in self.absent
        ]
        asked = (i for i in self.unwanted if n.wants(i))
        found += [f"output {i} '{self.unwanted[i]}' is not supported" for i in asked]
        return found + [
            f"input {i} has rank {n.rank(i)}, supported is {' or '.join(map(str, self.ranks[i]))}"
            for i in given
            if i in self.ranks and n.rank(i) not in self.ranks[i]
        ]


class Checked:
    """A handler that sees only nodes of which it takes all that they say."""

    def __init__(self, handler: Handler, takes: Registration) -> None:
        self.handler, self.takes = handler, takes
        self.__module__ = handler.__module__  # whose handler it is
        self.__doc__ = handler.__doc__

    def __call__(self, n: Node) -> object:
        if problems := self.takes.problems(n):
            raise Unsupported("; ".join(problems))
        return self.handler(n)


def advice(domain: str) -> str:
    """Return what to do about an op of a domain whose ops have no meaning outside of onnxruntime,
    "" for other domains."""
    if domain != LAYOUTS:
        return ""
    return (
        "its layout is one of this machine's CPU: save the optimized model with graph optimization "
        "level ORT_ENABLE_EXTENDED, not ORT_ENABLE_ALL"
    )
