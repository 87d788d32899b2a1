"""Random expressions of elementwise ops before and after simplify-algebra: the same bits, for 0,
-0, infinities, nan, denormal numbers and extreme integers as well."""

import sys
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp, f16, f32, i1, i8, i32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue

sys.path.insert(0, str(Path(__file__).parent))
from each_op import takes

from ge.dialects.graph import Graph
from ge.dialects.graph import elementwise as g
from ge.dialects.graph.activation import ReluOp
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.reduction import ReduceOp
from ge.dialects.graph.support.elementwise_bases import Binary, Elementwise, Unary
from ge.dialects.support.element_types import is_float, ui8
from ge.dialects.support.types import element_type, shape_of, tensor
from ge.runtime.data.arrays import Array, dense, dtype_of
from ge.runtime.device.session import Session
from ge.transforms.graph.simplify_algebra import SimplifyAlgebraPass

TYPES: list[Attribute] = [f32, f16, i32, i8, ui8, i1]
SHAPES = [(3, 8), (8,), (), (1,), (3, 1)]
UNARY: list[type[Unary]] = [
    g.AbsOp, g.NegOp, g.SignOp, g.FloorOp, g.CeilOp, g.RoundOp, g.NotOp, g.ReciprocalOp, g.SqrtOp,
    g.ExpOp, g.IsNanOp, ReluOp,
]  # fmt: skip
BINARY: list[type[Binary]] = [
    g.AddOp, g.SubOp, g.MulOp, g.DivOp, g.ModOp, g.MaximumOp, g.MinimumOp, g.AndOp, g.OrOp, g.XorOp,
    g.CompareOp,
]  # fmt: skip


def numbers(element: Attribute) -> list[Any]:
    """Numbers that identities depend on."""
    dtype = dtype_of(element)
    if dtype.kind == "b":
        return [False, True]
    if dtype.kind in "iu":
        return [0, 1, 2, 3, 8, np.iinfo(dtype).max, np.iinfo(dtype).min, np.iinfo(dtype).max - 1]
    tiny = float(np.finfo(dtype).smallest_subnormal)
    return [0.0, -0.0, 1.0, -1.0, 2.0, 3.0, 0.25, 6.0, np.inf, -np.inf, np.nan, tiny, -tiny, 1e-3]


def edge_array(element: Attribute, shape: tuple[int, ...], seed: int) -> Array:
    rng = np.random.default_rng(seed)
    with np.errstate(all="ignore"):
        picked = np.array(rng.choice(numbers(element), shape), dtype_of(element))
        if picked.dtype.kind == "f":
            noise = rng.standard_normal(shape).astype(picked.dtype) * picked.dtype.type(3)
            picked = np.where(rng.random(shape) < 0.3, noise, picked).astype(picked.dtype)
    return picked


class Builder:
    """Draws random ops on the values so far."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.types = [(t, (3, 8)) for t in TYPES]
        self.block = Block(arg_types=[tensor(s, t) for t, s in self.types])
        self.values: list[SSAValue] = list(self.block.args)

    def add(self, op: Any) -> SSAValue:
        self.block.add_op(op)
        return op.results[0]

    def operand(self, element: Attribute) -> SSAValue:
        """One of the last values, or a constant."""
        found = [v for v in self.values if element_type(v) == element]
        if self.random.random() < 0.75 and found:
            return self.random.choice(found[-4:])
        number = self.random.choice(numbers(element))
        array = np.full(self.random.choice(SHAPES), number, dtype_of(element))
        value = dense(array)
        assert isinstance(value, DenseIntOrFPElementsAttr)
        return self.add(ConstantOp.make(value, tensor(array.shape, element)))

    def step(self) -> None:
        element = self.random.choice(TYPES)
        kind = self.random.choice([*UNARY, *BINARY, *BINARY, None, None])
        if kind is None:
            made = self.other(element)
        elif not takes(kind, element):
            return
        elif issubclass(kind, Unary):
            made = kind.of(self.operand(element))
        elif kind is g.CompareOp:
            predicate = self.random.choice(g.PREDICATES)
            made = kind.of(self.operand(element), self.operand(element), predicate=predicate)
        elif element == i8 and kind in (g.DivOp, g.ModOp):
            return  # the lowest integer by -1 has no quotient
        else:
            made = kind.of(self.operand(element), self.operand(element))
        self.values.append(self.add(made))

    def other(self, element: Attribute) -> Any:
        which = self.random.randrange(5)
        if which == 0:
            pair = self.operand(element), self.operand(element)
            return g.SelectOp.of(self.operand(i1), *pair)
        if which == 1 and element != i1:
            value = self.operand(element)
            limits = [self.limit(element) for _ in range(2)]
            return g.ClampOp.of(value, *limits)
        if which == 2 and is_float(element):
            exponent = dense(np.array(self.random.choice([0, 1, 2, 3]), dtype_of(element)))
            power = self.add(ConstantOp.make(exponent, tensor((), element)))
            return g.PowOp.of(self.operand(element), power)
        if which == 3 and element != i1 and shape_of(value := self.operand(element)) == (3, 8):
            kind = self.random.choice(["sum", "max", "min"])
            return ReduceOp.of(value, None, kind=kind, axes=[self.random.randrange(2)])
        to = self.random.choice(TYPES)
        return g.CastOp.of(self.operand(element), to=i1 if is_float(element) else to)

    def limit(self, element: Attribute) -> SSAValue | None:
        number = self.random.choice([None, *numbers(element)])
        if number is None or number != number:
            return None
        value = dense(np.array(number, dtype_of(element)))
        return self.add(ConstantOp.make(value, tensor((), element)))

    def module(self) -> ModuleOp:
        outputs = self.values[len(self.types) :][-6:]
        self.block.add_op(ReturnOp(*outputs))
        types = ([a.type for a in self.block.args], [v.type for v in outputs])
        return ModuleOp([FuncOp("main", types, Region(self.block))])


def run(module: ModuleOp, inputs: dict[str, Array]) -> list[Array]:
    return list(Session(module).run(inputs).values())


def bits(x: Array) -> Any:
    """The bits, all nan alike."""
    if x.dtype.kind != "f":
        return x.tolist()
    x = np.where(np.isnan(x), x.dtype.type(np.nan), x)
    return x.view(f"u{x.itemsize}").tolist()


@settings(max_examples=settings().max_examples // 2, derandomize=True)
@given(st.randoms(use_true_random=False))
def test_every_bit_stays(random: Random):
    builder = Builder(random)
    for _ in range(random.randint(2, 14)):
        builder.step()
    module = builder.module()
    inputs = {
        f"arg{i}": edge_array(t, s, random.randrange(1000))
        for i, (t, s) in enumerate(builder.types)
    }
    before = run(module, inputs)
    changed = module.clone()
    SimplifyAlgebraPass(exact=True).apply(Context(), changed)
    changed.verify()
    after = run(changed, inputs)
    for a, b in zip(before, after, strict=True):
        assert bits(a) == bits(b), f"{module}\nbecame\n{changed}\n{inputs}"


@pytest.mark.parametrize("kind", [op for op in Graph.operations if issubclass(op, Unary)])
def test_stated_identities_hold(kind: type[Unary]):
    """What a class says of f(f(x)) is so."""
    if not (kind.IDEMPOTENT or kind.INVOLUTION):
        return
    from ge.runtime import numbers

    for element in TYPES:
        if not takes(kind, element):
            continue
        value = Block(arg_types=[tensor((64,), element)]).args[0]
        op = kind.of(value)
        assert isinstance(op, Elementwise)
        x = edge_array(element, (64,), 0)
        once = numbers.evaluate(op, [x])[0]
        twice = numbers.evaluate(op, [once])[0]
        assert bits(twice) == bits(once if kind.IDEMPOTENT else x)
