"""Graphs built in Python: `ge.Graph`.

    g = ge.Graph()
    x = g.input("x", (1, 64), "f16")
    w, b = g.weight("w", w_array), g.weight("b", b_array)
    y = g.gelu(x @ w + b)
    g.output("y", y)

    print(g)                   # the text of the graph level
    program = ge.compile(g)

Each op of the dialect `graph` is a method, with the op's operands and properties as arguments:
`g.softmax(x, axis=-1)`; operators and methods of its values are ops, too. Types are inferred as
each op is added, and an error names the line of the caller. Where no output is named, what
nothing uses is one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FloatAttr,
    FunctionType,
    LocationAttr,
    ModuleOp,
    NameLoc,
    StringAttr,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import AttrConstraint
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph.constant import INLINE_BYTES, ConstantOp, WeightAttr
from ge.dialects.graph.elementwise import (
    AbsOp,
    AddOp,
    CompareOp,
    DivOp,
    ModOp,
    MulOp,
    NegOp,
    PowOp,
    SubOp,
)
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.shape import SqueezeOp, TransposeOp
from ge.dialects.graph.slicing import SliceOp
from ge.dialects.graph.stated import DIMS, port
from ge.dialects.support.constraints import ELEMENT, FLOAT
from ge.dialects.support.diagnostics import SourceLocation, read_location
from ge.dialects.support.editing import name_hint, source_line
from ge.dialects.support.element_types import element_named
from ge.dialects.support.errors import GeError
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import DYNAMIC, element_type, rank_of, shape_of, tensor
from ge.dialects.text.look import LOCATED
from ge.dialects.text.printing import op_text
from ge.runtime.data.arrays import Array, dense, dtype_of, type_of
from ge.runtime.data.files import Outputs, write_module
from ge.transforms.fusion.user_rules import FusedOp, Matcher, Nodes, Pattern, op_names
from ge.transforms.rewriting.matching import variadic_at_end

LAST = 2**63 - 1  # the end of a slice that has none, as in ONNX

Part = int | slice  # of a dimension


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor of a graph. Operands of its operators may be arrays and numbers, which become
    constants; a number has the element type of the value."""

    graph: "Graph"
    ssa: SSAValue
    __array_ufunc__ = None  # arrays leave operators to the value on their right
    __iter__ = None  # a value is no sequence, though parts of it can be taken

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Return sizes, None where they are open."""
        return tuple(None if d == DYNAMIC else d for d in shape_of(self.ssa))

    @property
    def dtype(self) -> str:
        """The name of the element type, "f32"."""
        return str(element_type(self.ssa))

    @property
    def T(self) -> "Value":
        """The dimensions in reverse order."""
        return self.graph.apply(TransposeOp, self, permutation=range(rank_of(self.ssa))[::-1])

    def __repr__(self) -> str:
        return f"<{self.ssa.name_hint or 'value'}: {self.ssa.type}>"

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        op = getattr(self.graph, name)
        return lambda *operands, **params: op(self, *operands, **params)

    def __add__(self, other: Any) -> "Value":
        return self.graph.apply(AddOp, self, other)

    def __radd__(self, other: Any) -> "Value":
        return self.graph.apply(AddOp, other, self)

    def __sub__(self, other: Any) -> "Value":
        return self.graph.apply(SubOp, self, other)

    def __rsub__(self, other: Any) -> "Value":
        return self.graph.apply(SubOp, other, self)

    def __mul__(self, other: Any) -> "Value":
        return self.graph.apply(MulOp, self, other)

    def __rmul__(self, other: Any) -> "Value":
        return self.graph.apply(MulOp, other, self)

    def __truediv__(self, other: Any) -> "Value":
        return self.graph.apply(DivOp, self, other)

    def __rtruediv__(self, other: Any) -> "Value":
        return self.graph.apply(DivOp, other, self)

    def __mod__(self, other: Any) -> "Value":
        return self.graph.apply(ModOp, self, other)

    def __pow__(self, other: Any) -> "Value":
        return self.graph.apply(PowOp, self, other)

    def __matmul__(self, other: Any) -> "Value":
        return self.graph.apply(MatmulOp, self, other)

    def __rmatmul__(self, other: Any) -> "Value":
        return self.graph.apply(MatmulOp, other, self)

    def __neg__(self) -> "Value":
        return self.graph.apply(NegOp, self)

    def __abs__(self) -> "Value":
        return self.graph.apply(AbsOp, self)

    def __lt__(self, other: Any) -> "Value":
        return self.graph.apply(CompareOp, self, other, predicate="lt")

    def __le__(self, other: Any) -> "Value":
        return self.graph.apply(CompareOp, self, other, predicate="le")

    def __gt__(self, other: Any) -> "Value":
        return self.graph.apply(CompareOp, self, other, predicate="gt")

    def __ge__(self, other: Any) -> "Value":
        return self.graph.apply(CompareOp, self, other, predicate="ge")

    def __getitem__(self, key: "Part | tuple[Part, ...]") -> "Value":
        """A box: numbers, which drop their dimension, and slices, of the first dimensions."""
        parts: list[Any] = [*key] if isinstance(key, tuple) else [key]
        if not all(isinstance(p, int | slice) for p in parts):
            raise GeError("a box is of numbers and slices", hint="graph.gather takes indices")
        if not parts:
            return self
        starts, ends, steps = zip(*map(_bounds, parts), strict=True)
        axes = tuple(range(len(parts)))
        box = self.graph.apply(SliceOp, self, starts=starts, ends=ends, axes=axes, steps=steps)
        dropped = [axis for axis, p in enumerate(parts) if isinstance(p, int)]
        return self.graph.apply(SqueezeOp, box, axes=dropped) if dropped else box


def _bounds(part: Part) -> tuple[int, int, int]:
    """Start, end and step of a dimension."""
    if isinstance(part, int):
        return part, LAST if part == -1 else part + 1, 1
    step = 1 if part.step is None else part.step
    first, last = (0, LAST) if step > 0 else (LAST, -LAST)
    return (
        first if part.start is None else part.start,
        last if part.stop is None else part.stop,
        step,
    )


ROOM = {str(p) for p in Path(__file__).parent.glob("*.py")}

Size = int | str | None


class Graph(Matcher):
    """A graph that is built, or, in a pass of `ge.register_pass`, the module: its ops come before
    the match that they are to replace then."""

    def __init__(self, module: ModuleOp | None = None, rule: str = "") -> None:
        self.is_new = module is None
        self._main = FuncOp("main", FunctionType.from_lists([], []), Region(Block()))
        super().__init__(ModuleOp([self._main]) if module is None else module, rule)
        self._arguments: list[DictionaryAttr] = []
        self.payload: dict[str, Array] = {}  # weights by key
        self._outputs: dict[str, SSAValue] = {}

    @property
    def module(self) -> ModuleOp:
        """The module with all that was added so far."""
        if self.is_new:
            self._close()
        return self._module

    def __str__(self) -> str:
        return op_text(self.module)

    def save(self, path: str | Path) -> None:
        """Write the text, with the names of ops, and its weights beside it (NAME.safetensors)."""
        with Outputs(()) as out:
            write_module(out, path, self.module, self.payload, LOCATED)

    # ---- inputs, weights and outputs ---------------------------------------------------------

    def input(self, name: str, shape: Sequence[Size], type: object = "f32") -> Value:
        """An input by its name. Sizes may be names ("batch") or None for those that are open."""
        self._check_new("an input")
        if any(port(name).items() <= a.data.items() for a in self._arguments):
            raise _error_here(f"there is an input '{name}' already")
        t = tensor([d if isinstance(d, int) else DYNAMIC for d in shape], _element(type))
        block = self._main.body.block
        argument = block.insert_arg(t, len(block.args))
        argument.name_hint = name_hint(name)
        dims = ArrayAttr([StringAttr(d if isinstance(d, str) else "") for d in shape])
        named = any(isinstance(d, str) for d in shape)
        self._arguments.append(DictionaryAttr(port(name) | ({DIMS: dims} if named else {})))
        return Value(self, argument)

    def weight(self, name: str, array: Any, type: object = None) -> Value:
        """Weights by their key in the payload: an array, or the shape of one that comes later, of a
        type then."""
        shaped = isinstance(array, tuple)
        if shaped and type is None:
            raise _error_here(f"weight '{name}' has a shape, but no type")
        if name in self.payload:
            raise _error_here(f"there is a weight '{name}' already")
        if shaped:
            t = tensor(cast("tuple[int, ...]", array), _element(type))
        else:
            self.payload[name] = _array(array, type)
            t = type_of(self.payload[name])
        return self._constant(ConstantOp.make(WeightAttr(name), t), name)

    def constant(self, array: Any, type: object = None) -> Value:
        """An array, a number or a list of them, of its own type or of `type`. Large ones are
        weights."""
        values = _array(array, type)
        if values.nbytes > INLINE_BYTES:
            return self.weight(f"constant.{len(self.payload)}", values)
        return self._constant(ConstantOp.make(dense(values), type_of(values)), "")

    def output(self, name: str, value: Value) -> Value:
        self._check_new("an output")
        if not isinstance(name, str) or not isinstance(value, Value):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise _error_here("an output has a name and a value, in this order")
        if name in self._outputs:
            raise _error_here(f"there is an output '{name}' already")
        self._outputs[name] = value.ssa
        return value

    # ---- ops ---------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Callable[..., Any]:
        known = op_names()
        plain = name.replace("_", "")
        if name.startswith("_") or plain not in known:
            near = [] if name.startswith("_") else get_close_matches(plain, known, 1)
            hint = f"; did you mean '{known[near[0]].name.partition('.')[2]}'?" if near else ""
            raise AttributeError(f"no op of the dialect graph is named '{name}'{hint}")
        return partial(self.apply, known[plain])

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(op.name.partition(".")[2] for op in op_names().values())]

    def apply(self, kind: type[Operation], /, *operands: Any, name: str = "", **params: Any) -> Any:
        """Add an op of a class: its result, or a tuple where it has several. Operands are values,
        or arrays and numbers, which become constants, in the order of the op's definition or by
        name. `name` is that of the op in messages and reports. Raises GeError at the caller's line
        for operands that do not fit."""
        assert issubclass(kind, TensorOp)
        definition = kind.get_irdl_definition()
        if definition.regions:
            raise _error_here(f"{kind.name} has regions: write it as text")
        if len(definition.operands) == 1 and variadic_at_end(kind) == 0 and _are_several(operands):
            operands = (operands,)
        like = _first_value(operands)
        arguments = {key: self._argument(kind, key, v, like) for key, v in params.items()}
        try:
            op = kind.of(*(self._operand(o, like) for o in operands), **arguments)
            op.verify()
        except (VerifyException, ValueError, TypeError) as error:
            text = str(error).strip().splitlines()[-1]
            raise _error_here(text if kind.name in text else f"{kind.name}: {text}") from None
        op.location = self._location(name)
        self._insert(op)
        values = tuple(Value(self, r) for r in op.results)
        for value in values:
            value.ssa.name_hint = name_hint(name) if name else None
        return values[0] if len(values) == 1 else values

    def apply_pattern(self, pattern: Pattern, replace: Callable[[Nodes], Any]) -> int:
        def unwrapped(nodes: Nodes) -> FusedOp | SSAValue | None:
            new = replace(nodes)
            return new.ssa if isinstance(new, Value) else new

        return super().apply_pattern(pattern, unwrapped)

    def _argument(self, kind: type[TensorOp], name: str, value: Any, like: SSAValue | None) -> Any:
        """An operand or a property by its name."""
        definition = kind.get_irdl_definition()
        operands = dict(definition.operands)
        if name in operands:
            return self._operand(value, like)
        if name in definition.properties:
            return _property(definition.properties[name].constr, value)
        if name == "results":
            return value
        known = (*operands, *definition.properties)
        near = get_close_matches(name, known, 1)
        hint = f"did you mean '{near[0]}'?" if near else f"it has {', '.join(known)}"
        raise _error_here(f"{kind.name} has no '{name}'", hint)

    def _operand(self, operand: Any, like: SSAValue | None) -> Any:
        """Return an operand in the form that the constructor of an op takes; a number has the
        element type of `like`."""
        if isinstance(operand, Value):
            if operand.graph is not self:
                raise _error_here("a value of another graph")
            return operand.ssa
        if operand is None or _is_ssa(operand):
            return operand
        if _first_value((operand,)) is not None:
            return [self._operand(o, like) for o in operand]
        if like is None or hasattr(operand, "dtype"):
            return self.constant(operand).ssa
        return self.constant(operand, element_type(like)).ssa

    # ---- the module --------------------------------------------------------------------------

    def _constant(self, op: ConstantOp, name: str) -> Value:
        op.location = self._location(name)
        op.result.name_hint = name_hint(name) if name else None
        self._insert(op)
        return Value(self, op.result)

    def _insert(self, op: Operation) -> None:
        if not self.is_new:
            if self.before is None or self.before.parent is None:
                raise _error_here("ops are added to a module while a match is replaced")
            self.before.parent.insert_op_before(op, self.before)
            return
        block = self._main.body.block
        if isinstance(block.last_op, ReturnOp):
            block.erase_op(block.last_op)
        block.add_op(op)

    def _close(self) -> None:
        """Write the return, and the types of the function."""
        block = self._main.body.block
        if isinstance(block.last_op, ReturnOp):
            block.erase_op(block.last_op)
        computed = (op for op in block.ops if not isinstance(op, ConstantOp))
        unused = [r for op in computed for r in op.results if r.first_use is None]
        values = list(self._outputs.values()) or unused
        types = [[v.type for v in vs] for vs in (block.args, values)]
        self._main.function_type = FunctionType.from_lists(*types)
        self._main.arg_attrs = ArrayAttr(self._arguments)
        names = [DictionaryAttr(port(name)) for name in self._outputs]
        self._main.res_attrs = ArrayAttr(names) if names else None
        block.add_op(ReturnOp(*values))

    def _location(self, name: str) -> LocationAttr:
        line = source_line(ROOM)
        return NameLoc(StringAttr(name), line) if name else line

    def _check_new(self, what: str) -> None:
        if not self.is_new:
            raise _error_here(f"a pass cannot add {what}")


def _element(what: object) -> Attribute:
    """Return an element type. Raises GeError, at the caller's line, for what is no element type."""
    if isinstance(what, np.ndarray | list | tuple):
        raise _error_here("an element type is asked for, not an array", "graph.weight has a name")
    if isinstance(what, type | np.dtype):
        what = np.dtype(cast(Any, what)).name
    try:
        return element_named(what)
    except GeError as error:
        raise _error_here(error.message, error.hint) from None


def _error_here(text: str, hint: str = "") -> GeError:
    where = read_location(source_line(ROOM)) or SourceLocation()
    return GeError(text, str(where), hint)


def _array(values: Any, type: object) -> Array:
    array = np.asarray(values)
    if type is None:
        plain = {"float64": "f32", "int64": "i64"} if not hasattr(values, "dtype") else {}
        type = plain.get(array.dtype.name)
    return array if type is None else array.astype(dtype_of(_element(type)))


def _property(constraint: AttrConstraint[Any], value: Any) -> Any:
    """A Python value for a property. The name of an element type stands for it where the property
    is one."""
    if isinstance(value, np.generic | np.ndarray):
        value = cast(Any, value).tolist()
    if isinstance(value, str) and constraint in (ELEMENT, FLOAT):
        return _element(value)
    if isinstance(value, int) and constraint.get_bases() == {FloatAttr}:
        return float(value)
    return tuple(cast("Sequence[Any]", value)) if isinstance(value, list | range) else value


def _first_value(operands: Sequence[Any]) -> SSAValue | None:
    """The first value among operands and the members of lists of them."""
    for operand in operands:
        if isinstance(operand, Value):
            return operand.ssa
        if isinstance(operand, SSAValue):
            return cast(SSAValue, operand)
        if isinstance(operand, list | tuple):
            found = _first_value(cast("Sequence[Any]", operand))
            if found is not None:
                return found
    return None


def _is_ssa(value: object) -> bool:
    return isinstance(value, SSAValue | Operation)


def _are_several(operands: Sequence[Any]) -> bool:
    return not any(isinstance(o, list | tuple) for o in operands)
