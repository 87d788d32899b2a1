"""Graphs that compute the same otherwise: with random rounding, with sums in a random order, with
floats of 64 bits, and with floats of 64 bits some of which are rounded (`random_noise.py`)."""

import math
from collections.abc import Sequence
from contextvars import ContextVar
from functools import cache
from itertools import count
from typing import cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    TensorType,
    UnrankedTensorType,
    f64,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from ge.dialects import graph as g
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.control import CaseOp, IfOp, LoopOp
from ge.dialects.support.boxes import Access
from ge.dialects.support.element_types import is_float
from ge.dialects.support.functions import functions
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import Dense, element_type, rank_of, set_type, shape_of, tensor
from ge.runtime.data.arrays import Array, array_of, dense, dtype_of
from ge.runtime.numbers import Fn, kernel
from ge.transforms.graph.infer_shapes import refresh_signature
from ge.transforms.rewriting.passes import SIGNED, last_place

STEPS = 2
"""How many floats of its type a result may be off by one rounding."""


e = g.elementwise

MOVES = (Access.VIEW, Access.MOVEMENT, Access.LOOKUP)
CHOOSES = (
    *(e.AbsOp, e.NegOp, e.SignOp, e.FloorOp, e.CeilOp, e.RoundOp, e.MaximumOp, e.MinimumOp),
    *(e.ClampOp, e.SelectOp, g.activation.ReluOp, ConstantOp, IfOp, CaseOp, LoopOp),
    *(g.reduction.ArgReduceOp, g.indexing.TopKOp, g.pooling.MaxPoolIndicesOp),
)
"""Ops that do not round."""


@irdl_op_definition
class NoiseOp(TensorOp):
    """Floats a few steps off, differently for each element and each seed; 0 may have the other
    sign, and what is not finite stays. Steps are those of the type, or of a narrower one, whose
    next number after 1 is 1 + `epsilon`, and after 0 `least`; they double at powers of two."""

    name = "trial.noise"
    input = operand_def()
    seed = prop_def(IntegerAttr)
    epsilon = opt_prop_def(FloatAttr)
    least = opt_prop_def(FloatAttr)
    result = result_def()
    traits = traits_def(Pure())

    def infer(self) -> Sequence[Attribute]:
        return (self.input.type,)


RUN: ContextVar[int] = ContextVar("RUN", default=0)
"""The number of a run: each has noise, orders and choices of its own."""


@kernel(NoiseOp)
def noise(op: NoiseOp) -> Fn:
    own = op.seed.value.data
    generator = cache(lambda run: np.random.default_rng((run, own)))
    if op.epsilon is None or op.least is None:
        return lambda x: disturbed(x, generator(RUN.get()))
    epsilon, least = op.epsilon.value.data, op.least.value.data

    def disturb(x: Array) -> Array:
        rng = generator(RUN.get())
        binade = np.ldexp(1.0, np.frexp(x)[1] - 1)
        step = np.where(x == 0, 0.0, np.maximum(binade * epsilon, least))
        moved = x + random_steps(x, rng) * step
        return signed_zeros(np.where(np.isfinite(x), moved, x), rng)

    return disturb


@irdl_op_definition
class ShuffleOp(TensorOp):
    """Elements along `axes` in an order that follows from the run and the seed, the same for
    all operands with as many of them: those that a sum runs over."""

    name = "trial.shuffle"
    input = operand_def()
    seed = prop_def(IntegerAttr)
    axes = prop_def(DenseArrayBase)
    result = result_def()
    traits = traits_def(Pure())

    def infer(self) -> Sequence[Attribute]:
        return (self.input.type,)


@kernel(ShuffleOp)
def shuffle(op: ShuffleOp) -> Fn:
    own, axes = op.seed.value.data, [int(i) for i in op.axes.get_values()]

    def run(x: Array) -> Array:
        first = np.moveaxis(x, axes, range(len(axes)))
        rows = first.reshape(math.prod(first.shape[: len(axes)]), -1)
        order = np.random.default_rng((RUN.get(), own)).permutation(len(rows))
        shuffled = np.moveaxis(rows[order].reshape(first.shape), range(len(axes)), axes)
        return np.ascontiguousarray(shuffled)

    return run


@irdl_op_definition
class RoundOrNotOp(TensorOp):
    """Floats of 64 bits, in some runs rounded to the type `to`."""

    name = "trial.round_or_not"
    input = operand_def()
    seed = prop_def(IntegerAttr)
    to = prop_def(Attribute)
    result = result_def()
    traits = traits_def(Pure())

    def infer(self) -> Sequence[Attribute]:
        return (self.input.type,)


@kernel(RoundOrNotOp)
def round_or_not(op: RoundOrNotOp) -> Fn:
    own, narrow = op.seed.value.data, dtype_of(op.to)

    def run(x: Array) -> Array:
        rounded = np.random.default_rng((RUN.get(), own)).integers(2)
        return x.astype(narrow).astype(x.dtype) if rounded else x

    return run


def disturbed(x: Array, rng: np.random.Generator) -> Array:
    """The floats up to `STEPS` places farther from 0 or nearer to it; zeros of either sign."""
    integer = SIGNED[x.dtype.itemsize]
    bits = np.ascontiguousarray(x).view(integer)
    sign = bits & np.iinfo(integer).min
    magnitude = bits ^ sign
    infinity = np.array(np.inf).astype(x.dtype).view(integer)
    moved = np.clip(magnitude + random_steps(x, rng).astype(integer), 0, infinity) | sign
    stays = (x == 0) | ~np.isfinite(x)
    return np.where(stays, signed_zeros(x, rng), moved.view(x.dtype).reshape(x.shape))


def random_steps(x: Array, rng: np.random.Generator) -> NDArray[np.int64]:
    return rng.integers(-STEPS, STEPS + 1, x.shape)


def signed_zeros(x: Array, rng: np.random.Generator) -> Array:
    """The elements, but zeros of random signs."""
    return np.where((x == 0) & (rng.integers(0, 2, x.shape) == 1), -x, x)


def rounds(op: TensorOp) -> bool:
    if isinstance(op, CHOOSES) or op.ACCESS in MOVES:
        return False
    kind = getattr(op, "kind", None)
    return kind is None or getattr(kind, "data", None) not in ("max", "min")


def with_noise(module: ModuleOp) -> ModuleOp:
    """The module with noise after each op that rounds, and before each that sums, whose terms
    are in a random order where `summed` knows the axes."""
    module, seeds = module.clone(), count()
    for op in [o for o in module.walk() if isinstance(o, TensorOp) and rounds(o)]:
        block = op.parent
        assert block is not None
        if op.ACCESS is not Access.POINTWISE:
            sizes = [getattr(op, name) for name in op.PARAMETERS]
            axes, order = summed(op), IntegerAttr(next(seeds), i64)
            for i, value in enumerate(op.operands):
                if is_float(element_type(value)) and value not in sizes:
                    before: list[TensorOp] = [disturb(value, next(seeds))]
                    if i in axes:
                        before.append(shuffled(before[-1].results[0], axes[i], order))
                    block.insert_ops_before(before, op)
                    op.operands[i] = before[-1].results[0]
        for result in op.results:
            if is_float(element_type(result)):
                new = disturb(result, next(seeds))
                result.replace_uses_with_if(
                    new.result, lambda use, new=new: use.operation is not new
                )
                block.insert_op_after(new, op)
    return module


def summed(op: TensorOp) -> dict[int, Sequence[int]]:
    """Operands of an op that sums -> the axes that it sums along, in the same order; empty where
    they are not known."""
    if isinstance(op, g.linear.MatmulOp):
        lhs, rhs = (rank_of(v) for v in op.operands)
        left = lhs - (2 if op.transpose_lhs.value.data else 1)
        return {0: (left,), 1: (rhs - (1 if op.transpose_rhs.value.data else 2),)}
    if isinstance(op, g.reduction.ReduceOp) and (axes := op.reduced_axes()) is not None:
        return {0: axes}
    return {}


def disturb(value: SSAValue, seed: int) -> NoiseOp:
    return NoiseOp.create(
        operands=[value], result_types=[value.type], properties={"seed": IntegerAttr(seed, i64)}
    )


def shuffled(value: SSAValue, axes: Sequence[int], order: IntegerAttr) -> ShuffleOp:
    along = DenseArrayBase.from_list(i64, list(axes))
    properties: dict[str, Attribute] = {"seed": order, "axes": along}
    return ShuffleOp.create(operands=[value], result_types=[value.type], properties=properties)


def widen(value: SSAValue) -> None:
    """Give floats 64 bits."""
    match value.type:
        case TensorType(element_type=t) if is_float(t):
            set_type(value, tensor(shape_of(value), f64))
        case UnrankedTensorType(element_type=t) if is_float(t):
            set_type(value, UnrankedTensorType(f64))
        case _:
            pass


AS_DECLARED = (e.CastOp, e.BitcastOp)
"""Ops whose results keep their types in float64: it is what they are for. (A cast to the type that
its operand has is a copy.)"""


def in_float64(module: ModuleOp, throughout: bool, at_random: bool = False) -> ModuleOp:
    """The module with all floats in 64 bits, weights too. Casts still round, and bits that are
    read as another type are those of the type as written; all ops round if not `throughout`, or
    in half of the runs if `at_random`."""
    module, seeds = module.clone(), count()
    for op in [o for o in module.walk() if isinstance(o, NoiseOp)]:
        dtype = dtype_of(element_type(op.input))
        op.epsilon, op.least = (FloatAttr(last_place(n, dtype), f64) for n in (1.0, 0.0))
    bits = {op: element_type(op.input) for op in module.walk() if isinstance(op, e.BitcastOp)}
    casts = [op for op in module.walk() if isinstance(op, e.CastOp)]
    copies = {op for op in casts if throughout and op.to == element_type(op.input)}
    for op in list(module.walk()):
        is_declared = isinstance(op, AS_DECLARED) and op not in copies
        results = [(r, element_type(r)) for r in op.results if is_float(element_type(r))]
        if isinstance(op, ConstantOp):
            if results and isinstance(op.value, DenseIntOrFPElementsAttr):
                op.value = dense(array_of(cast(Dense, op.value)).astype(np.float64))
        elif isinstance(op, TensorOp) and not is_declared:
            for name, p in op.properties.items():
                if is_float(p):
                    op.properties[name] = f64
                elif isinstance(op, g.creation.FillOp) and isinstance(p, FloatAttr):
                    op.properties[name] = FloatAttr(p.value.data, f64)
        for value in (*op.results, *(a for r in op.regions for b in r.blocks for a in b.args)):
            widen(value)
        if op in bits and is_float(bits[op]):
            narrowed = e.CastOp.of(op.operands[0], to=bits[op])
            assert op.parent is not None
            op.parent.insert_op_before(narrowed, op)
            op.operands[0] = narrowed.result
        for result, narrow in results:
            if is_declared or not (throughout or isinstance(op, ConstantOp)):
                round_to(result, narrow)
            elif at_random and not isinstance(op, ConstantOp):
                round_in_some_runs(result, narrow, next(seeds))
    for func in functions(module).values():
        refresh_signature(func)
    return module


def round_to(value: SSAValue, element: Attribute) -> None:
    """Have the users of a result of 64 bits take it rounded to a type; a cast does so itself."""
    op = value.owner
    assert isinstance(op, Operation)
    assert op.parent is not None
    if isinstance(op, AS_DECLARED):
        narrow = op
        set_type(value, tensor(shape_of(value), element))
    else:
        narrow = e.CastOp.of(value, to=element)
        op.parent.insert_op_after(narrow, op)
    wide = e.CastOp.of(narrow.result, to=f64)
    op.parent.insert_op_after(wide, narrow)
    value.replace_uses_with_if(wide.result, lambda use: use.operation not in (narrow, wide))


def round_in_some_runs(value: SSAValue, element: Attribute, seed: int) -> None:
    """Have the users of a result of 64 bits take it rounded to a type in half of the runs."""
    op = value.owner
    assert isinstance(op, Operation)
    assert op.parent is not None
    properties: dict[str, Attribute] = {"seed": IntegerAttr(seed, i64), "to": element}
    new = RoundOrNotOp.create(operands=[value], result_types=[value.type], properties=properties)
    op.parent.insert_op_after(new, op)
    value.replace_uses_with_if(new.result, lambda use: use.operation is not new)
