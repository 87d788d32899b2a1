"""What random graphs are built with: a block that grows, the values that are seen from it, and
leaves (arguments, weights, constants) where a value of some type is needed."""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr, f16, f32, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue

from ge.dialects.graph.constant import ConstantOp, WeightAttr
from ge.dialects.support.element_types import ELEMENT_TYPES, is_float
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import (
    Shape,
    element_type,
    is_static,
    numel,
    shape_of,
    tensor,
    tensor_type,
)
from ge.runtime.data.arrays import Array, dense, dtype_of, type_of

ELEMENTS = (
    *[f32] * 12, *[f16] * 3, *[i64] * 3,
    *(row.type for row in ELEMENT_TYPES if not row.storage_only),
)  # fmt: skip
"""Element types, as often as they are chosen."""

FLOATS = tuple(t for t in ELEMENTS if is_float(t))

SIZES = (1, 2, 2, 3, 4, 4, 5, 8)

MOST_ELEMENTS = 2048
"""Larger values are not made."""

Test = Callable[[SSAValue], bool]


class Unsuitable(Exception):
    """The op cannot be made with what there is; another one is tried."""


class Builder:
    """Builds @main of a module. `rng` decides everything: equal seeds give equal modules."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.entry = self.block = Block()
        self.values: list[SSAValue] = []
        """The values that are seen from the block."""
        self.weights = 0
        self.words: dict[type[TensorOp], set[str]] = {}
        """Words of what ops said about operands that they refused: the choices of their
        properties are among them."""

    # ---- decisions

    def flip(self, probability: float = 0.5) -> bool:
        return self.rng.random() < probability

    def size(self) -> int:
        return self.rng.choice(SIZES)

    def shape(self, low: int = 0, high: int = 4) -> Shape:
        while True:
            shape = tuple(self.size() for _ in range(self.rng.randint(low, high)))
            if numel(shape) <= MOST_ELEMENTS:
                return shape

    def element(self, accept: Callable[[Attribute], bool] | None = None) -> Attribute:
        return self.rng.choice([t for t in ELEMENTS if accept is None or accept(t)])

    def floating(self) -> Attribute:
        return self.rng.choice(FLOATS)

    # ---- values

    def leaf(self, t: Attribute) -> SSAValue:
        """A new value of a type: an argument, a weight, or a constant of random elements."""
        shape, element = t.get_shape(), t.element_type  # pyright: ignore
        kind = self.rng.random()
        if kind < 0.55:
            arg = self.entry.insert_arg(t, len(self.entry.args))
            return self.seen(arg)
        if kind < 0.75 or numel(shape) > 64:
            self.weights += 1
            op = ConstantOp.make(WeightAttr(f"w{self.weights}"), t)
            return self.add(op)[0]
        return self.constant(self.numbers(shape, element))

    def numbers(self, shape: Shape, element: Attribute) -> Array:
        """Random elements, small and often round; sometimes all equal."""
        rng = np.random.default_rng(self.rng.getrandbits(32))
        dtype = dtype_of(element)
        if self.flip(0.3):
            number = self.rng.choice((0, 1, 1, 2, 0.5, -1, -0.0))
            return np.full(shape, number).astype(dtype)
        if dtype.kind in "biu":
            return np.asarray(rng.integers(0, 2 if dtype.kind == "b" else 4, shape)).astype(dtype)
        return np.asarray(rng.standard_normal(shape)).round(2).astype(dtype)

    def constant(self, array: Array) -> SSAValue:
        return self.add(ConstantOp.make(dense(array), type_of(array)))[0]

    def ints(self, *values: int) -> SSAValue:
        """A constant vector of i64."""
        return self.constant(np.array(values, np.int64))

    def constant_int(self, value: int) -> SSAValue:
        """A constant scalar of i64."""
        return self.constant(np.array(value, np.int64))

    def number(self, value: float, element: Attribute) -> SSAValue:
        """A constant scalar."""
        return self.constant(np.array(value, np.float64).astype(dtype_of(element)))

    def value(self, shape: Sequence[int], element: Attribute, fresh: float = 0.3) -> SSAValue:
        """A value of this type; a new one with probability `fresh` or when there is none."""
        t = tensor(shape, element)
        if numel(t.get_shape()) > MOST_ELEMENTS:
            raise Unsuitable
        found = [v for v in self.values if v.type == t]
        return self.rng.choice(found) if found and not self.flip(fresh) else self.leaf(t)

    def some(self, accept: Test, make: Callable[[], Attribute], fresh: float = 0.15) -> SSAValue:
        """A value that is accepted, late ones more often, or a new one of a type that `make`
        gives."""
        found = [v for v in self.values if accept(v)]
        if not found or self.flip(fresh):
            return self.leaf(make())
        return self.rng.choice([*found, *found[-3:], *found[-1:]])

    def floats(self, low: int = 0, high: int = 4) -> SSAValue:
        """A value of floats with a rank in these limits."""
        return self.some(
            lambda v: is_float(element_type(v)) and low <= len(shape_of(v)) <= high,
            lambda: tensor(self.shape(low, high), self.floating()),
        )

    def any(self, low: int = 0, high: int = 4) -> SSAValue:
        """A value of any element type with a rank in these limits."""
        return self.some(
            lambda v: low <= len(shape_of(v)) <= high,
            lambda: tensor(self.shape(low, high), self.element()),
        )

    def broadcastable(self, value: SSAValue, element: Attribute | None = None) -> SSAValue:
        """A value whose shape broadcasts to that of `value`."""
        shape = shape_of(value)
        element = element_type(value) if element is None else element
        if self.flip(0.4):
            return self.value(shape, element)
        part = shape[self.rng.randint(0, len(shape)) :]
        part = tuple(1 if self.flip(0.2) else d for d in part)
        return self.value(part, element)

    def index(self, shape: Sequence[int], limit: int) -> SSAValue:
        """Indices below `limit`: a constant, also of negative ones, or an argument."""
        if limit < 1:
            raise Unsuitable
        if limit >= 2 and self.flip(0.4):
            return self.value(shape, i64, fresh=1.0)
        rng = np.random.default_rng(self.rng.getrandbits(32))
        return self.constant(np.asarray(rng.integers(-limit, limit, tuple(shape)), np.int64))

    def parameter(self, *values: int) -> tuple[SSAValue | None, tuple[int, ...] | None]:
        """Operand and property of a parameter: one of them is given."""
        return (self.ints(*values), None) if self.flip(0.25) else (None, values)

    # ---- ops

    def seen(self, value: SSAValue) -> SSAValue:
        self.values.append(value)
        return value

    def add(self, op: TensorOp) -> Sequence[SSAValue]:
        """Add an op to the block; its ranked results are seen from now on."""
        op.verify()
        for result in op.results:
            if numel([max(d, 1) for d in tensor_type(result).get_shape()]) > MOST_ELEMENTS:
                raise Unsuitable
        self.block.add_op(op)
        for result in op.results:
            if is_static(shape_of(result)):
                self.seen(result)
        return op.results

    @contextmanager
    def inside(self, args: Sequence[Attribute] = ()) -> Iterator[Block]:
        """A nested block, which ops go to."""
        around, count = self.block, len(self.values)
        self.block = Block(arg_types=args)
        for arg in self.block.args:
            self.seen(arg)
        try:
            yield self.block
        finally:
            leaves = [v for v in self.values[count:] if v.owner is self.entry]
            self.values[count:] = leaves
            self.block = around

    def module(self, outputs: Sequence[SSAValue]) -> ModuleOp:
        self.entry.add_op(ReturnOp(*outputs))

        def names(prefix: str, count: int) -> ArrayAttr[DictionaryAttr]:
            tables = ({"graph.name": StringAttr(f"{prefix}{i}")} for i in range(count))
            return ArrayAttr([DictionaryAttr(t) for t in tables])

        func = FuncOp(
            "main",
            ([a.type for a in self.entry.args], [v.type for v in outputs]),
            Region(self.entry),
            arg_attrs=names("x", len(self.entry.args)),
            res_attrs=names("y", len(outputs)),
        )
        return ModuleOp([func])


# ---- makers ------------------------------------------------------------------------------------

Maker = Callable[[Builder], TensorOp]

MAKERS: dict[type[TensorOp], Maker] = {}


def makes(*ops: type[TensorOp]) -> Callable[[Callable[[Builder, Any], TensorOp]], None]:
    """Register the function below as the maker of these classes."""

    def register(maker: Callable[[Builder, Any], TensorOp]) -> None:
        for op in ops:
            MAKERS[op] = lambda b, op=op: maker(b, op)

    return register
