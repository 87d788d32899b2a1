"""numpy kernels, one for each op; folding, every interpreter and the emulated NPU share them.

A kernel is registered for an op class as a *factory*: it reads the op's attributes once and
returns the function of arrays that is run many times.

    @kernel(TransposeOp)
    def transpose(op: TransposeOp) -> Fn:
        permutation = array_ints(op.permutation)
        return lambda x: x.transpose(permutation)

The function takes one argument for each operand *definition* of the op (None for an absent optional
operand; the members of a variadic operand one by one) and returns an array, or a tuple for several
results. With `into=True` it also takes `out=`, an array to write the result to; with `blocks=True`
also `then=`, which makes of each block of the result another one, in the array that is its second
argument. It may have a method `bind` (see `Bindable`), which prepares calls. A result may be a view
of an operand; the caller copies where that matters. Operands lie in memory in order, so that sums
are rounded alike whatever came before; only for functions that move elements or work on each alone
they may be views with any strides. Overflow, division by zero and the like give the values of IEEE
754; the caller silences numpy's warnings of them.
"""

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import isfunction
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

import numpy as np
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import IRDLOperation, VarOperandDef

from ge.dialects.fused_op import user_kernels
from ge.dialects.graph.elementwise import ClampOp, Elementwise
from ge.dialects.support.boxes import Access
from ge.dialects.support.errors import GeError
from ge.dialects.support.packages import of_dialect
from ge.dialects.support.processes import Once
from ge.dialects.support.tensor_op import TensorOp
from ge.runtime.data.arrays import Array, contiguous
from ge.runtime.numbers.plan import Action, Scratch

Fn = Callable[..., Any]
OpT = TypeVar("OpT", bound=Operation)


@runtime_checkable
class Bindable(Protocol):
    """A kernel function that can be prepared for arrays that stay where they are."""

    def bind(self, scratch: Scratch, *arrays: Array | None, **named: Any) -> Action:
        """A function that does the same as the call with these arguments, each time with the
        elements of that time; those of read-only arrays stay. It computes in `scratch`, which has
        one user at a time."""
        ...


def bind(fn: Fn, scratch: Scratch, *arrays: Array | None, **named: Any) -> Action:
    """Prepare a call, as far as the function can."""
    if isinstance(fn, Bindable):
        return fn.bind(scratch, *arrays, **named)
    return partial(fn, *arrays, **named)


@dataclass(frozen=True, slots=True)
class KernelFactory:
    factory: Callable[[Any], Fn]
    into: bool  # whether the function takes `out=`
    blocks: bool = False  # whether it takes `then=`


_KERNELS: dict[type[Operation], KernelFactory] = {}


_INSIDE: dict[tuple[type[Operation], type[Operation]], KernelFactory] = {}


def kernel(
    *ops: type[OpT], into: bool = False, blocks: bool = False, inside: type[Operation] | None = None
) -> Callable[[Callable[[OpT], Fn]], Callable[[OpT], Fn]]:
    """Register the factory below for these op classes; with `inside`, for those in the body of such
    a fused op. Raises GeError for an op that has a kernel."""

    def register(factory: Callable[[OpT], Fn]) -> Callable[[OpT], Fn]:
        for op in ops:
            if inside is None:
                if op in _KERNELS:
                    hint = "ge.FusedOp replaces ops by one with another kernel"
                    raise GeError(f"a kernel for {op.name} exists already", hint=hint)
                _KERNELS[op] = KernelFactory(factory, into, blocks)
            else:
                _INSIDE[op, inside] = KernelFactory(factory, into, blocks)
        return factory

    return register


def array_kernel(*ops: type[Operation], into: bool = False) -> Callable[[Fn], Fn]:
    """Register the function of arrays below for these op classes: no attribute changes it."""

    def register(fn: Fn) -> Fn:
        kernel(*ops, into=into)(lambda op: fn)
        return fn

    return register


def custom_kernel(kind: str, fn: Fn) -> None:
    """Register the function of arrays that runs `fused_op.custom "kind"`; a lambda may be made
    anew for each match. Raises GeError when the kind has another one."""
    if not _is_same(user_kernels().functions.setdefault(kind, fn), fn):
        raise GeError(f"a kernel named '{kind}' exists already", hint="give each its own name")


def _is_same(a: Fn, b: Fn) -> bool:
    """True if the functions are one, or of the same code around the same values."""
    if a is b:
        return True
    parts = [(f.__code__, f.__defaults__, f.__closure__) for f in (a, b) if isfunction(f)]
    if len(parts) < 2 or parts[0][:2] != parts[1][:2]:
        return False
    cells = ((c.cell_contents for c in closure or ()) for _, _, closure in parts)
    return all(x is y for x, y in zip(*cells, strict=True))


def find_custom(kind: str) -> Fn | None:
    return user_kernels().functions.get(kind)


def find(op: type[Operation]) -> KernelFactory | None:
    """The first call imports all kernel modules; those of an installed package are imported for
    the first op of its dialects. Raises GeError where that fails."""
    _import_kernels()
    if op not in _KERNELS:
        for package in of_dialect(op.name.partition(".")[0]):
            for module in package.adds.kernels:
                package.load(module)
    return _KERNELS.get(op)


@Once
def _import_kernels() -> None:
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        importlib.import_module(module.name)


def prepare(op: Operation) -> Fn:
    """The function of arrays for this op, of one argument for each operand *value*. Raises GeError
    when no kernel is registered."""
    registered, around = find(type(op)), op.parent_op()
    if around is not None:
        registered = _INSIDE.get((type(op), type(around)), registered)
    if registered is None:
        packages = of_dialect(op.name.partition(".")[0])
        where = f"the modules of `kernels` of {packages[0]}" if packages else "runtime/numbers"
        raise GeError(f"no kernel is registered for {op.name}", hint=f"add one to {where}")
    fn = registered.factory(op)
    slots = operand_slots(op)
    takes_views = isinstance(op, TensorOp) and op.ACCESS in TAKES_VIEWS
    if slots is not None:
        fn = WithAbsent(fn, slots)
    return fn if takes_views else OnContiguous(fn)


def may_overwrite(op: Operation, function: Fn) -> bool:
    """Return whether the function of an op may write the result over an operand of its type."""
    known = find(type(op))
    return (known is not None and known.into) and (
        isinstance(function, np.ufunc)
        or (isinstance(op, Elementwise) and len(op.operands) == 1)
        or isinstance(op, ClampOp)
    )


@dataclass(frozen=True, slots=True)
class WithAbsent:
    """Give a function None for absent operands."""

    fn: Fn
    slots: Sequence[int | None]

    def arguments(self, arrays: Sequence[Array]) -> list[Array | None]:
        return [None if i is None else arrays[i] for i in self.slots]

    def __call__(self, *arrays: Array, **named: Any) -> Any:
        return self.fn(*self.arguments(arrays), **named)

    def bind(self, scratch: Scratch, *arrays: Array, **named: Any) -> Action:
        return bind(self.fn, scratch, *self.arguments(arrays), **named)


@dataclass(frozen=True, slots=True)
class OnContiguous:
    """Copy operands into order, so that sums have the same order, and bits, however launches are
    cut."""

    fn: Fn

    def __call__(self, *arrays: Array, **named: Any) -> Any:
        for a in arrays:
            if not a.flags.c_contiguous:
                return self.fn(*map(contiguous, arrays), **named)
        return self.fn(*arrays, **named)

    def bind(self, scratch: Scratch, *arrays: Array, **named: Any) -> Action:
        if all(a.flags.c_contiguous for a in arrays):
            return bind(self.fn, scratch, *arrays, **named)
        return partial(self, *arrays, **named)


# The ops whose results are the same however the operands lie in memory.
TAKES_VIEWS = (Access.POINTWISE, Access.VIEW, Access.MOVEMENT, Access.LOOKUP)


def operand_slots(op: Operation) -> list[int | None] | None:
    """For each argument of the kernel function the index of its operand, None for an absent one;
    None altogether when no operand is absent."""
    if not isinstance(op, IRDLOperation):
        return None
    slots: list[int | None] = []
    index, absent = 0, False
    for name, definition in op.get_irdl_definition().operands:
        value = cast(SSAValue | Sequence[SSAValue] | None, getattr(op, name))
        if value is None:
            slots.append(None)
            absent = True
        elif isinstance(value, SSAValue):
            slots.append(index)
            index += 1
        else:
            assert isinstance(definition, VarOperandDef)
            slots.extend(range(index, index + len(value)))
            index += len(value)
    return slots if absent else None


def evaluate(op: Operation, arrays: Sequence[Array]) -> tuple[Array, ...]:
    with np.errstate(all="ignore"):
        result = prepare(op)(*arrays)
    return results_of(result)


def results_of(returned: Any) -> tuple[Array, ...]:
    return cast(tuple[Array, ...], returned) if isinstance(returned, tuple) else (returned,)
