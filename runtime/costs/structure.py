"""Which launches cost the same: those of the same ops on the same shapes, wired alike.

The layers of a model repeat, so that what the model of time says of a body is cached for all bodies
of its structure. Long constants count by their type: no cost depends on what is in a weight.
"""

from collections.abc import Callable, Hashable
from functools import lru_cache, wraps
from itertools import count
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from xdsl.ir import Attribute, OpResult, SSAValue

from ge.dialects.fused_op import Body
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.support.operation import operands_of
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import number_of as attribute_number
from ge.dialects.support.types import numel, shape_of

SHORT = 16  # elements of a constant that may say what an op does: axes, sizes, scales

CACHE_SIZE = 1 << 16  # results that are cached for one function
BODIES = 64  # bodies that are compared at one time

MISSING = object()

P = ParamSpec("P")
T = TypeVar("T")

# What `number_of` has seen; equal ops of all modules have one number.
_numbers: dict[Hashable, int] = {}
_next_number = count()  # no two threads get the same


def number_of(op: TensorOp) -> int:
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
    """Equal for bodies of equal ops, wired alike, with the same inputs and outputs."""
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


def _argument(argument: Any) -> Hashable:
    """What equal arguments have in common: xDSL hashes all of an attribute each time."""
    return ("", attribute_number(argument)) if isinstance(argument, Attribute) else argument


def once(
    function: Callable[Concatenate[TensorOp | Body, P], T],
) -> Callable[Concatenate[TensorOp | Body, P], T]:
    """Call a function of a body once for all bodies with the same structure and other arguments. It
    must return nothing that refers to the body or that callers change. Kernels of users and ops
    with regions are not cached."""
    cache: dict[Hashable, T | object] = {}

    @wraps(function)
    def call(body: TensorOp | Body, /, *args: P.args, **more: P.kwargs) -> T:
        body = Body.of(body)
        if body.kind or any([op.regions for op in body.ops]):
            return function(body, *args, **more)
        key = structure(body), *[_argument(a) for a in args], *more.items()
        result = cache.get(key, MISSING)
        if result is MISSING:
            if len(cache) > CACHE_SIZE:
                cache.clear()
            result = cache[key] = function(body, *args, **more)
        return cast(T, result)

    return call
