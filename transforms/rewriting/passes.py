"""Bases of passes (those that go function by function or ask for the target, and names for several
passes in a row), and what a pass may do to the numbers.

A pass that states `LOCAL = True` changes each function by what stands in it alone: it may be nested
in a pipeline, `builtin.module(func.func(infer-shapes))`.

A pass class declares by `RELATION` what becomes of the numbers; `--validate` holds it to that:

    class FindGeluPass(ModulePass):
        RELATION: ClassVar[Relation] = Ulps(16)

`RELATION` may be a property, where it follows from the pass's options. Without one a pass is
bit-exact.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from ge.dialects.support.functions import defined_functions, main_function
from ge.runtime.data.arrays import Array, float_limits, kind_of


class FunctionPass(ModulePass, ABC):
    """A pass over each function that has a body."""

    LOCAL: ClassVar[bool] = True

    @abstractmethod
    def run(self, func: FuncOp) -> None: ...

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in defined_functions(op):
            self.run(func)


class MainPass(ModulePass, ABC):
    """A pass over @main: a module without it stays as it is."""

    @abstractmethod
    def run(self, main: FuncOp) -> None: ...

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if (main := main_function(op)) is not None:
            self.run(main)


@dataclass(frozen=True)
class TargetPass(ModulePass, ABC):
    """A pass that asks what the target is."""

    target: str = ""
    """Preset name, or path of a target file; empty: what @main was lowered to, else the default."""


class PassSequence(ModulePass, ABC):
    """A name for passes that run one after the other: the default pipeline lists its parts."""

    @abstractmethod
    def parts(self) -> Sequence[ModulePass]: ...

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for part in self.parts():
            part.apply(ctx, op)


SIGNED: dict[int, type[np.signedinteger[Any]]] = {
    1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64
}  # fmt: skip
"""Bytes of a float type -> the integers of that size."""

SPREAD = 4
"""How many times the difference that tiny changes of the inputs make is put down to rounding."""

FAR = np.iinfo(np.uint64).max
"""The distance of a number and nan."""


def is_float(array: Array) -> bool:
    return kind_of(array.dtype) == "f"


def ulp_distance(a: Array, b: Array) -> NDArray[np.uint64]:
    """Return how many floats of their type lie from each element of `a` to that of `b`, one of the
    two counted: 0 and -0 are the same number, infinity is next to the largest one, nan is `FAR`
    from every number and 0 from nan."""
    integer = SIGNED[a.dtype.itemsize]
    low = np.iinfo(integer).min

    def place(x: Array) -> NDArray[np.int64]:
        """The number of the float in order, 0 for 0; the bits of negative ones count down."""
        bits = x.view(integer).astype(np.int64)
        with np.errstate(over="ignore"):
            return np.where(bits < 0, np.int64(low) - bits, bits)

    m, n = place(a), place(b)
    with np.errstate(over="ignore"):  # modulo 2^64 the difference is right
        distance = np.where(m < n, n - m, m - n).astype(np.uint64)
    nan_a, nan_b = np.isnan(a), np.isnan(b)
    return np.where(nan_a | nan_b, np.where(nan_a & nan_b, np.uint64(0), FAR), distance)


def bits_differ(a: Array, b: Array) -> NDArray[np.bool_]:
    """Return where elements are not the same: 0 and -0 are two, all nans are one."""
    if not is_float(a):
        return a != b
    integer = SIGNED[a.dtype.itemsize]
    differ = a.view(integer) != b.view(integer)
    return differ & ~(np.isnan(a) & np.isnan(b))


def listing(before: Array, after: Array, wrong: NDArray[np.bool_]) -> str | None:
    """Describe for people where two arrays differ; None if `wrong` is false everywhere."""
    count = int(np.count_nonzero(wrong))
    if not count:
        return None
    first = tuple(int(i) for i in np.argwhere(wrong)[0])
    place = f" at {list(first)}" if first else ""
    values = f"{before[first].item()!r} became {after[first].item()!r}{place}"
    return values if before.size == 1 else f"{count} of {before.size} elements differ: {values}"


@dataclass(frozen=True)
class Relation(ABC):
    """A relation of the outputs after a pass to those before it."""

    prunes: bool = field(default=False, kw_only=True)
    """Whether outputs may go."""

    def difference(self, before: Array, after: Array, others: Sequence[Array] = ()) -> str | None:
        """Describe for people how the relation is broken; None if it holds. `others` are outputs of
        the program before the pass for inputs that are a few ULPs off: differences as large as
        theirs are not put down to the pass."""
        if before.dtype != after.dtype or before.shape != after.shape:
            return f"{before.dtype}{list(before.shape)} became {after.dtype}{list(after.shape)}"
        if before.size == 0:
            return None
        return listing(before, after, self.wrong(before, after, others))

    @abstractmethod
    def wrong(self, before: Array, after: Array, others: Sequence[Array]) -> NDArray[np.bool_]:
        """Return which elements break the relation."""

    @property
    def is_exact(self) -> bool:
        """Return whether rounding may not differ."""
        return False


@dataclass(frozen=True)
class BitExact(Relation):
    """The same bits; only the payload of a nan is free."""

    def wrong(self, before: Array, after: Array, others: Sequence[Array]) -> NDArray[np.bool_]:
        return bits_differ(before, after)

    @property
    def is_exact(self) -> bool:
        return True

    def __str__(self) -> str:
        return "bit-exact"


@dataclass(frozen=True)
class Ulps(Relation):
    """At most so many units in the last place of the tensor's largest finite element, since sums
    lose that much to cancellation; integers, nan and infinities are the same."""

    count: float = 64
    half: float = 8
    """The same for types of 16 bits."""
    each: bool = False
    """Measure each element by units in its own last place."""
    overflow: bool = False
    """Whether numbers may become finite that were nan or infinite."""

    def limit(self, array: Array) -> float:
        return self.half if array.dtype.itemsize <= 2 else self.count

    def wrong(self, before: Array, after: Array, others: Sequence[Array]) -> NDArray[np.bool_]:
        if not is_float(before):
            excused = any(bool((o != before).any()) for o in others)
            return np.zeros(before.shape, np.bool_) if excused else before != after
        if self.each and not others:
            wrong = ulp_distance(before, after) > np.uint64(self.limit(before))
        else:
            wrong = ~self.close(before, after, others)
        return wrong & np.isfinite(before) if self.overflow else wrong

    def close(self, before: Array, after: Array, others: Sequence[Array]) -> NDArray[np.bool_]:
        """For each element whether it is as close as the relation allows; `others` are results of
        other orders of computation, whose spread is allowed as well."""
        finite = np.isfinite(before)
        if any(bool((np.isfinite(o) != finite).any()) for o in others):
            return np.ones(before.shape, np.bool_)
        wide, got = before.astype(np.float64), after.astype(np.float64)
        with np.errstate(all="ignore"):
            largest = float(np.abs(wide[finite]).max(initial=0.0))
            allowed = self.limit(before) * last_place(largest, before.dtype)
            for other in others:
                spread = np.abs(other.astype(np.float64) - wide)[finite]
                allowed += SPREAD * float(spread.max(initial=0.0))
            same = (wide == got) | (np.isnan(wide) & np.isnan(got))
            return same | (finite & np.isfinite(got) & (np.abs(got - wide) <= allowed))

    def __str__(self) -> str:
        of = "each element" if self.each else "the largest element"
        return f"{self.count:g} ULPs of {of} ({self.half:g} for 16 bits)"


def last_place(magnitude: float, dtype: np.dtype[Any]) -> float:
    """A unit in the last place of a number of this magnitude in a float type."""
    info = float_limits(dtype)
    exponent = int(np.frexp(max(magnitude, float(info.tiny)))[1])
    return float(np.ldexp(1.0, exponent - 1 - info.nmant))


@dataclass(frozen=True)
class Decibels(Relation):
    """A signal-to-noise ratio of each output, for what quantizes; integers differ by one step at
    most; nan and infinities are the same."""

    ratio: float = 40

    def wrong(self, before: Array, after: Array, others: Sequence[Array]) -> NDArray[np.bool_]:
        if not is_float(before):
            if before.dtype.kind == "b":
                return before != after
            return np.maximum(before, after) - np.minimum(before, after) > 1
        wide, got = before.astype(np.float64), after.astype(np.float64)
        finite = np.isfinite(wide)
        with np.errstate(all="ignore"):
            strange = ~finite & ~((wide == got) | (np.isnan(wide) & np.isnan(got)))
            strange |= finite & ~np.isfinite(got)
            noise = np.where(finite & ~strange, got - wide, 0.0)
            signal = float(np.sum(np.square(wide[finite])))
            power = float(np.sum(np.square(noise)))
        if power > signal * 10 ** (-self.ratio / 10):
            return strange | (noise != 0)
        return strange

    def __str__(self) -> str:
        return f"{self.ratio:g} dB"


@dataclass(frozen=True)
class Unbounded(Relation):
    """Any other numbers, for a pass whose result is right only for inputs like those that it was
    made with."""

    def wrong(self, before: Array, after: Array, others: Sequence[Array]) -> NDArray[np.bool_]:
        return np.zeros(before.shape, np.bool_)

    def __str__(self) -> str:
        return "no bound"


class OtherInputs(Unbounded):
    """Any other numbers, of inputs of other types: later passes are held to what comes now."""

    def __str__(self) -> str:
        return "no bound, and other inputs"


class SameSteps(BitExact):
    """Of a module with states that grow, which the caller counted before: the same bits run by run,
    where runs follow each other (`runtime/device/trials.py`)."""

    def __str__(self) -> str:
        return "bit-exact run by run"


def relation_of(pass_: object) -> Relation:
    """Return the relation that a pass declares."""
    return getattr(pass_, "RELATION", BitExact())
