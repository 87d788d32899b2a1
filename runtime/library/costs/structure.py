"""The structure of launches: launches of the same ops on the same shapes, wired alike, cost the
same.

The layers of a model repeat, so times of a body are cached for all bodies of its structure. Long
constants count by their type: no cost depends on the values of a weight. Nor does a program depend
on them: elements of constants are hidden while one is written (`hide`).
"""

from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache, wraps
from itertools import count
from typing import Any, Concatenate, ParamSpec, TypeVar, cast
from weakref import WeakKeyDictionary

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Attribute, Operation, OpResult, SSAValue

from ge.dialects.fused_op import Body
from ge.dialects.graph.constant import ConstantOp, WeightAttr
from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.support.operation import operands_of, yielded
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import element_type, numel, shape_of
from ge.dialects.support.types import number_of as attribute_number

SHORT = 16  # elements of a constant that may say what an op does: axes, sizes, scales

CACHE_SIZE = 1 << 16  # results that are cached for one function
BODIES = 64  # bodies that are compared at one time

MISSING = object()

P = ParamSpec("P")
T = TypeVar("T")

# The structures of what kernels compute, which does not change any more. Kernels that are made of
# one another have one, and need not be looked at.
_settled: WeakKeyDictionary[TensorOp, Hashable] = WeakKeyDictionary()

# What `number_of` has seen; equal ops of all modules have one number.
_numbers: dict[Hashable, int] = {}
_next_number = count()  # no two threads get the same


def number_of(op: TensorOp) -> int:
    """A number that is equal for ops of one class with equal properties, types, and short
    constants."""
    operands = tuple([
        _constant(v, v.op) if type(v) is OpResult and type(v.op) is ConstantOp
        else attribute_number(v.type)
        for v in operands_of(op)
    ])  # fmt: skip
    results = tuple([attribute_number(r.type) for r in op.results])
    properties: Hashable = ()
    if op.properties:
        properties = frozenset([(n, attribute_number(a)) for n, a in op.properties.items()])
    return _numbers.setdefault((type(op), properties, operands, results), next(_next_number))


def _constant(value: SSAValue, op: ConstantOp) -> Hashable:
    if numel(shape_of(value)) <= SHORT:
        return attribute_number(op.value), attribute_number(value.type)
    return attribute_number(value.type)


@lru_cache(maxsize=BODIES)
def structure(body: Body) -> Hashable:
    """A key that is equal for bodies of equal ops, wired alike, with the same inputs and
    outputs."""
    places = {v: i for i, v in enumerate(map(id, body.inputs))}  # the ops keep the values
    ops: list[Hashable] = []
    for op in body.ops:
        number = body.numbers.get(op)
        if number is None:
            number = body.numbers[op] = number_of(op)
        ops.append((number, *[places[v] for v in map(id, operands_of(op))]))
        for result in op.results:
            places[id(result)] = len(places)
    return len(body.inputs), tuple(ops), tuple([places[v] for v in map(id, body.outputs)])


def is_comparable(body: Body) -> bool:
    """True if bodies of one structure compute the same: no kernels of users, no regions."""
    return not body.kind and not any([op.regions for op in body.ops])


def settle(kernel: KernelOp, like: KernelOp) -> None:
    """Take note that the body of a kernel is a copy of another one's."""
    main = like.main
    if (known := _settled.get(main)) is None:
        body = Body.of(main)
        if not is_comparable(body):
            return
        known = _settled[main] = structure(body)
    _settled[kernel.main] = known


def wiring(kernel: KernelOp) -> Hashable:
    """A key that is equal for kernels of equal bodies, wired alike, whatever their constants are;
    None for bodies of which that is not known."""
    main, block = kernel.main, kernel.body.block
    known = _settled.get(main)
    if known is None:
        body = Body.of(main)
        if not is_comparable(body):
            return None
        known = structure(body)
    places = {id(v): i for i, v in enumerate((*block.args, *main.results))}
    wired = tuple([places.get(id(v)) for v in (*operands_of(main), *yielded(block))])
    return known, len(block.args), wired


def by_structure(
    function: Callable[Concatenate[KernelOp, P], T],
) -> Callable[Concatenate[KernelOp, P], T]:
    """Cache results like `once`, for a function of kernels that asks for nothing else of them:
    engine, tiling and plan are arguments."""
    cache: dict[Hashable, T | object] = {}

    @wraps(function)
    def call(kernel: KernelOp, /, *args: P.args, **more: P.kwargs) -> T:
        if (known := wiring(kernel)) is None:
            return function(kernel, *args, **more)
        key = known, *[_argument(a) for a in args], *more.items()
        result = cache.get(key, MISSING)
        if result is MISSING:
            if len(cache) > CACHE_SIZE:
                cache.clear()
            result = cache[key] = function(kernel, *args, **more)
        return cast(T, result)

    return call


def _argument(argument: Any) -> Hashable:
    """A key that equal arguments share: xDSL hashes all of an attribute each time."""
    kind: type[Any] = argument.__class__
    return ("", attribute_number(argument)) if _is_attribute(kind) else argument


@cache
def _is_attribute(kind: type[Any]) -> bool:
    return issubclass(kind, Attribute)


def once(
    function: Callable[Concatenate[TensorOp | Body, P], T],
) -> Callable[Concatenate[TensorOp | Body, P], T]:
    """Call a function of a body once for all bodies with the same structure and other arguments. It
    must return nothing that refers to the body or that callers change. Kernels of users and ops
    with regions are not cached."""
    cache: dict[Hashable, T | object] = {}

    @wraps(function)
    def call(body: TensorOp | Body, /, *args: P.args, **more: P.kwargs) -> T:
        known = None if isinstance(body, Body) else _settled.get(body)
        if known is None:
            body = Body.of(body)
            if not is_comparable(body):
                return function(body, *args, **more)
            known = structure(body)
        key = known, *[_argument(a) for a in args], *more.items()
        result = cache.get(key, MISSING)
        if result is MISSING:
            if len(cache) > CACHE_SIZE:
                cache.clear()
            result = cache[key] = function(body, *args, **more)
        return cast(T, result)

    return call


def hide(constants: Sequence[ConstantOp]) -> None:
    """Take the elements of constants away."""
    for constant in constants:
        constant.value = WeightAttr("")


@contextmanager
def unseen(constants: Sequence[ConstantOp]) -> Generator[None]:
    """Hide the elements of these constants. The writer of the program does not see them either, so
    that the program cannot depend on facts that the key lacks."""
    values = [constant.value for constant in constants]
    hide(constants)
    try:
        yield
    finally:
        for constant, value in zip(constants, values, strict=True):
            constant.value = value


def data_of(ops: Sequence[Operation]) -> list[ConstantOp]:
    """Constants whose elements no program depends on: operands in device memory, floats, more than
    one of them. Where an op has a parameter as an operand (scales of a resize), there are none."""
    if has_parameters(ops):
        return []
    return [op for op in ops if isinstance(op, ConstantOp) and is_data(op)]


def has_parameters(ops: Iterable[Operation]) -> bool:
    return any(map(has_parameter, ops))


def has_parameter(op: Operation) -> bool:
    """True if an operand says what the op does, rather than being data for it."""
    return isinstance(op, TensorOp) and any(getattr(op, name) is not None for name in op.PARAMETERS)


def is_data(constant: ConstantOp) -> bool:
    kind = element_type(constant.result)
    return isinstance(kind, AnyFloat) and numel(shape_of(constant.result)) > 1
