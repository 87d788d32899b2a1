"""Graph modules written as Python expressions, for tests of rewrites.

before = written(lambda x, y: x * (y.exp() + 1), Tensor(2, 3), Tensor(3))
y = run(before, array, array)
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr, f16, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue

from ge.dialects.graph import activation, elementwise, linear, normalization, reduction, shape
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import element_type, shape_of, tensor
from ge.runtime.data.arrays import Array, dense, dtype_of, type_of
from ge.runtime.device.session import Session


class Expr:
    """A value, with Python's operators and the ops of the graph dialect as methods."""

    def __init__(self, value: SSAValue, block: Block) -> None:
        self.value, self.block = value, block

    def lift(self, other: Any, like: "Expr | None" = None) -> "Expr":
        """Numbers and arrays of floats are constants of the element type."""
        if isinstance(other, Expr):
            return other
        array = np.asarray(other)
        if not isinstance(other, np.generic | np.ndarray) or array.dtype.kind == "f":
            array = array.astype(dtype_of(element_type(self.value)))
        constant = ConstantOp.make(dense(array), type_of(array))
        self.block.add_op(constant)
        return Expr(constant.result, self.block)

    def op(self, kind: type[TensorOp], /, *operands: Any, **params: Any) -> Any:
        values: list[Any] = []
        for o in operands:
            if o is None:
                values.append(None)
            elif isinstance(o, list | tuple):
                values.append([self.lift(v).value for v in o])
            else:
                values.append(self.lift(o).value)
        new = kind.of(*values, **params)
        self.block.add_op(new)
        results = [Expr(r, self.block) for r in new.results]
        return results[0] if len(results) == 1 else results

    @property
    def shape(self) -> tuple[int, ...]:
        return shape_of(self.value)

    def __add__(self, other: Any) -> "Expr":
        return self.op(elementwise.AddOp, self, other)

    def __radd__(self, other: Any) -> "Expr":
        return self.op(elementwise.AddOp, other, self)

    def __sub__(self, other: Any) -> "Expr":
        return self.op(elementwise.SubOp, self, other)

    def __rsub__(self, other: Any) -> "Expr":
        return self.op(elementwise.SubOp, other, self)

    def __mul__(self, other: Any) -> "Expr":
        return self.op(elementwise.MulOp, self, other)

    def __rmul__(self, other: Any) -> "Expr":
        return self.op(elementwise.MulOp, other, self)

    def __truediv__(self, other: Any) -> "Expr":
        return self.op(elementwise.DivOp, self, other)

    def __rtruediv__(self, other: Any) -> "Expr":
        return self.op(elementwise.DivOp, other, self)

    def __neg__(self) -> "Expr":
        return self.op(elementwise.NegOp, self)

    def __pow__(self, other: Any) -> "Expr":
        return self.op(elementwise.PowOp, self, other)

    def __matmul__(self, other: "Expr") -> "Expr":
        return self.op(linear.MatmulOp, self, other)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """`x.erf()` is the op `graph.erf` on x, `x.maximum(0)` one of two operands."""
        for module in (elementwise, activation, normalization):
            for kind in vars(module).values():
                if getattr(kind, "name", None) == f"graph.{name}":
                    return lambda *operands, **params: self.op(kind, self, *operands, **params)
        raise AttributeError(name)

    def compare(self, predicate: str, other: Any) -> "Expr":
        return self.op(elementwise.CompareOp, self, other, predicate=predicate)

    def where(self, on_true: Any, on_false: Any) -> "Expr":
        """Of a truth value: one or the other."""
        a = on_true if isinstance(on_true, Expr) else on_false.lift(on_true)
        return self.op(elementwise.SelectOp, self, a, a.lift(on_false))

    def to(self, element: Attribute) -> "Expr":
        return self.op(elementwise.CastOp, self, to=element)

    def reshape(self, *dims: int) -> "Expr":
        return self.op(shape.ReshapeOp, self, None, shape=dims)

    def transpose(self, *order: int) -> "Expr":
        return self.op(shape.TransposeOp, self, permutation=order)

    def mean(self, *axes: int, keep: bool = True) -> "Expr":
        return self.op(reduction.ReduceOp, self, None, kind="mean", axes=axes, keep_dims=keep)

    def reduce(self, kind: str, *axes: int, keep: bool = True) -> "Expr":
        return self.op(reduction.ReduceOp, self, None, kind=kind, axes=axes, keep_dims=keep)


class Tensor:
    """The type of an argument: `Tensor(2, 3)` is f32; DYNAMIC is a dimension to come."""

    def __init__(self, *dims: int, element: Attribute = f32) -> None:
        self.type = tensor(dims, element)


def half(*dims: int) -> Tensor:
    return Tensor(*dims, element=f16)


def written(formula: Callable[..., Any], *arguments: Tensor) -> ModuleOp:
    """The module whose main function computes the formula of its arguments."""
    block = Block(arg_types=[a.type for a in arguments])
    result = formula(*(Expr(a, block) for a in block.args))
    results = [r.value for r in (result if isinstance(result, list | tuple) else [result])]
    block.add_op(ReturnOp(*results))

    def names(prefix: str, count: int) -> ArrayAttr[DictionaryAttr]:
        texts = (f"{prefix}{i}" for i in range(count))
        return ArrayAttr([DictionaryAttr({"graph.name": StringAttr(t)}) for t in texts])

    types = [a.type for a in arguments], [r.type for r in results]
    func = FuncOp("main", types, Region(block))
    func.arg_attrs, func.res_attrs = names("in", len(arguments)), names("out", len(results))
    module = ModuleOp([func])
    module.verify()
    return module


def run(module: ModuleOp, *arrays: Array) -> list[Array]:
    """The results of the main function."""
    outputs = Session(module).run({f"in{i}": a for i, a in enumerate(arrays)})
    return [outputs[f"out{i}"] for i in range(len(outputs))]


def op_names(module: ModuleOp) -> list[str]:
    """The graph ops in order, without constants and without the dialect's name."""
    names = [op.name for op in module.walk() if op.name.startswith("graph.")]
    return [n.removeprefix("graph.") for n in names if n != "graph.constant"]


def normal(*dims: int, seed: int = 0, dtype: Any = np.float32) -> Array:
    return np.random.default_rng(seed).standard_normal(dims).astype(dtype)


def agree(before: Sequence[Array], after: Sequence[Array], tolerance: float) -> None:
    """Both runs give the same numbers, nan and infinities in the same places."""
    for a, b in zip(before, after, strict=True):
        assert a.dtype == b.dtype
        wide = [x.astype(np.float64) for x in (a, b)]
        np.testing.assert_allclose(wide[1], wide[0], rtol=tolerance, atol=tolerance)
