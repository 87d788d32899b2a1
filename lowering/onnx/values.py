"""The value of an ONNX name during import: a tensor, a sequence of tensors, or an optional; and
what is known of its rank and sizes.

Only tensors reach the graph level. Control flow passes on those that a value is made of
(`tensors_of`), and puts a value of the same form together from what comes out (`rebuilt`).

What a condition on sizes is for all sizes but a few:

    %s = graph.shape_of %x end 1 : (tensor<?x?xf32>) -> tensor<1xi64>
    %c = graph.compare eq %s, %one : (tensor<1xi64>, tensor<1xi64>) -> tensor<1xi1>
    usual(%c)    # False: most sizes are not 1

A size that is compared with 0 or 1 is taken to be a larger one: these are sizes of axes that are
empty, or broadcast. Sizes that are compared with each other, or for equality with a number, are
taken to differ."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from xdsl.dialects.builtin import UnrankedTensorType
from xdsl.ir import Block, Operation, SSAValue

from ge.dialects.graph.control import IfOp, LoopOp
from ge.dialects.graph.elementwise import AndOp, CastOp, CompareOp, NotOp, OrOp
from ge.dialects.graph.shape import ShapeOfOp, View, is_shape_arithmetic
from ge.dialects.support.editing import names_in
from ge.dialects.support.types import constant_ints


@dataclass(frozen=True)
class SequenceParts:
    """A sequence of which the number of tensors is known only at run time: the parts of a tensor
    along an axis, of `size` elements each (the last may be smaller), without it unless
    `keeps_axis`."""

    whole: SSAValue
    axis: int
    size: int
    keeps_axis: bool


@dataclass(frozen=True)
class Growing:
    """A sequence in the body of a loop of which the number of rounds is known only at run time:
    what earlier rounds left, of which nothing is known here, and behind it the tensors that this
    round appends. `place`: its number among the carried values."""

    body: Block
    place: int
    added: tuple[SSAValue, ...] = ()


@dataclass(frozen=True)
class Maybe:
    """An optional that is known at run time only: `tensor` if `is_there` (a scalar i1), which is
    anything of its type if not."""

    is_there: SSAValue
    tensor: SSAValue


Value: TypeAlias = SSAValue | tuple[SSAValue, ...] | SequenceParts | Growing | Maybe | None


def tensors_of(value: Value) -> tuple[SSAValue, ...]:
    """The values of the module that hold a value of the model, in a fixed order."""
    match value:
        case None:
            return ()
        case SSAValue():
            return (value,)
        case SequenceParts():
            return (value.whole,)
        case Growing():
            return value.added
        case Maybe():
            return (value.is_there, value.tensor)
        case _:
            return value


def rebuilt(like: Value, tensors: Iterator[SSAValue]) -> Value:
    """A value of the form of `like`, of the next tensors."""
    match like:
        case None:
            return None
        case SSAValue():
            return next(tensors)
        case SequenceParts():
            return replace(like, whole=next(tensors))
        case Growing():
            return replace(like, added=tuple(next(tensors) for _ in like.added))
        case Maybe():
            return Maybe(next(tensors), next(tensors))
        case _:
            return tuple(next(tensors) for _ in like)


def form_of(value: Value) -> object:
    """Equal for values that differ in their tensors alone."""
    match value:
        case SequenceParts():
            return value.axis, value.size, value.keeps_axis
        case Growing():
            return value.body, value.place, len(value.added)
        case tuple():
            return len(value)
        case _:
            return described(value)


def described(value: Value) -> str:
    """A value in an error message, with its article."""
    match value:
        case None:
            return "an empty optional"
        case SSAValue():
            return "a tensor"
        case Maybe():
            return "an optional that is known at run time only"
        case tuple():
            return f"a sequence of {len(value)} tensors"
        case _:
            return "a sequence of a length known at run time"


def flat(values: Iterable[Value]) -> list[SSAValue]:
    return [t for v in values for t in tensors_of(v)]


def grouped(tensors: Sequence[SSAValue], like: Iterable[Value]) -> list[Value]:
    """The reverse of `flat`."""
    rest = iter(tensors)
    return [rebuilt(v, rest) for v in like]


SMALL = 1  # sizes up to this are special: an axis that is empty, or broadcast


MOST_STEPS = 8  # of a chain of shape computations


def follows_from_sizes(value: SSAValue, steps: int = MOST_STEPS) -> bool:
    """Return whether a value is shape arithmetic that begins at the shape of a tensor."""
    op = value.owner
    if not steps or not isinstance(op, Operation) or not is_shape_arithmetic(op):
        return False
    return isinstance(op, ShapeOfOp) or any([follows_from_sizes(v, steps - 1) for v in op.operands])


def usual(condition: SSAValue) -> bool | None:
    """Return the truth of a condition for all sizes but a few; None if that is not known."""
    match condition.owner:
        case NotOp() as op:
            inner = usual(op.operands[0])
            return None if inner is None else not inner
        case CastOp() | View() as op:
            return usual(op.operands[0])
        case AndOp() as op:
            return both(usual(op.lhs), usual(op.rhs))
        case OrOp() as op:
            a, b = usual(op.lhs), usual(op.rhs)
            neither = both(a if a is None else not a, b if b is None else not b)
            return None if neither is None else not neither
        case CompareOp() as op:
            return compared(op.predicate.data, op.lhs, op.rhs)
        case _:
            return None


def both(a: bool | None, b: bool | None) -> bool | None:
    if a is False or b is False:
        return False
    return True if a and b else None


MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def compared(predicate: str, a: SSAValue, b: SSAValue) -> bool | None:
    if not follows_from_sizes(a):
        a, b, predicate = b, a, MIRRORED.get(predicate, predicate)
    if not follows_from_sizes(a):
        return None
    if predicate in ("eq", "ne"):
        known = follows_from_sizes(b) or constant_ints(b) is not None
        return predicate == "ne" if known else None
    limit = constant_ints(b)
    least = SMALL + (predicate in ("lt", "ge"))  # x < 2 and x >= 2 split as x <= 1 and x > 1
    if limit is None or max(limit, default=0) > least:
        return None
    return predicate in ("gt", "ge")


def rank_hint(inputs: Iterable[Value], rounds: Callable[[Block], SSAValue | None]) -> str:
    """Return the end of an error about the first input without a rank; empty if all have one.
    `rounds` gives what the number of rounds of a loop that is being imported follows from, by its
    body."""
    value = next((v for v in inputs if isinstance(v, SSAValue) and is_unranked(v)), None)
    if value is None:
        return ""
    owner = value.owner
    names = [] if isinstance(owner, Block) else [*names_in(owner.location)]
    name = f"'{names[0]}'" if names else "it"
    what, decides = decided_by(value, rounds)
    if decides is None:
        return f"; how many dimensions {name} has is known at run time only"
    if follows_from_sizes(decides):
        way = "which follows from sizes of inputs: give them, with --dim or --shape"
    else:
        way = (
            "which is known at run time only; a value of a program has one number of dimensions: "
            f"make {what} a constant of the model"
        )
    return f"; how many dimensions {name} has depends on {what}, {way}"


def is_unranked(value: SSAValue) -> bool:
    return isinstance(value.type, UnrankedTensorType)


def decided_by(
    value: SSAValue, rounds: Callable[[Block], SSAValue | None]
) -> tuple[str, SSAValue | None]:
    """Return what the rank of a value depends on, in words, and the condition or the trip count
    itself; None if it is neither an If nor a loop."""
    match value.owner:
        case IfOp() as op:
            return "its condition", op.condition
        case LoopOp() as op:
            decides = op.condition if op.trip_count is None else op.trip_count
        case Block() as block:
            decides = rounds(block)
        case op:
            source = next(filter(is_unranked, op.operands), None)
            return ("", None) if source is None else decided_by(source, rounds)
    return "the number of rounds of its loop", decides
