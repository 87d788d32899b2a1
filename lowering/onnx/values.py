"""What an ONNX name stands for during import: a tensor, a sequence of tensors, or an optional.

Only tensors reach the graph level. Control flow passes on those that a value is made of
(`tensors_of`), and puts a value of the same form together from what comes out (`rebuilt`).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from xdsl.ir import Block, SSAValue


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
