"""The way from one sharding of a value to another, and what it costs.

    [{}, {}], unreduced={"tp"}   to [{}, {"tp"}]     reduce_scatter
    [{}, {}], unreduced={"tp"}   to [{}, {}]         all_reduce
    [{"tp"}, {}]                 to [{}, {}]         all_gather
    [{"tp"}, {}]                 to [{}, {"tp"}]     all_to_all
    [{}, {}]                     to [{"tp"}, {}]     exchange without anything sent: its own part

Bytes are those that a device sends by the algorithm that sends least: of all-reduce 2 (n-1)/n of
the value, of all-gather and reduce-scatter (n-1)/n of the larger one, of all else what a device
gets and does not have.

No order of steps gets more than once what a device lacks, so the steps below send least, but for
axes that are to be gathered from the middle of a dimension's, which one exchange does."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

import numpy as np

from ge.dialects.graph.collectives import Needed, Place
from ge.dialects.support.digits import Axes, DigitSum, all_digits, cut, joined
from ge.dialects.support.mesh import SUM, Axis, Sharding
from ge.dialects.support.types import Shape
from ge.transforms.sharding.strategies import Need, terms_of


@dataclass(frozen=True, slots=True)
class Step:
    """A collective, or `part`: a device's own part of what it has. `axes` are those of its group;
    `dim` that along which it gathers or scatters."""

    op: str
    axes: Axes
    to: Need
    dim: int = 0


def count(axes: Sequence[Axis]) -> int:
    return prod([a.size for a in axes]) if axes else 1


@lru_cache(maxsize=1 << 16)
def steps(have: Sharding, need: Need, shape: Shape) -> tuple[Step, ...]:
    """The collectives, in order, that bring a value from one sharding to what is needed."""
    found = list[Step]()
    goal = need if isinstance(need, Sharding) else None
    if missing := reduced_axes(have, goal):
        have = _reduced(have, missing, goal, shape, found)
    if goal is None:
        found.append(Step("exchange", joined(tuple(have.axes)), need))
        return tuple(found)
    have, goal = [replace(s, open=frozenset()) if s.open else s for s in (have, goal)]
    if have.dims == goal.dims:
        return tuple(found)
    have = _parted(have, goal, shape, found)
    if have.dims != goal.dims:
        found += _moved(have, goal, shape)
    return tuple(found)


def reduced_axes(have: Sharding, goal: Sharding | None) -> Axes:
    kept = all_digits(goal.unreduced) if goal is not None else ()
    return joined(tuple(d for d in all_digits(have.unreduced) if d not in kept))


def divides(own: Axes, more: Axes, size: int) -> bool:
    """Return whether parts of a dimension's parts are its parts along all these axes: those of the
    whole dimension always, others where they have as many elements."""
    ratio = count(more) // count(own)
    return not own or -(-size // count(own)) == ratio * -(-size // count(more))


def _gathers(have: Sharding, goal: Sharding, shape: Shape) -> bool:
    """Return whether parts put together are all that is needed."""
    return all(
        all_digits(b) == all_digits(a)[: len(all_digits(b))] and divides(b, a, size)
        for a, b, size in zip(have.dims, goal.dims, shape, strict=True)
    )


def _reduced(
    have: Sharding, axes: Axes, goal: Sharding | None, shape: Shape, found: list[Step]
) -> Sharding:
    """Reduce along axes: where the goal has the value in parts along them, by a reduce-scatter."""
    rest = set(all_digits(axes))
    left = joined(tuple(d for d in all_digits(have.unreduced) if d not in rest))
    for dim, own in enumerate(goal.dims if goal is not None else ()):
        before, wanted = all_digits(have.dims[dim]), all_digits(own)
        new = wanted[len(before) :]
        scattered = tuple(d for d in new if d in rest)
        if wanted[: len(before)] != before or not scattered or new[: len(scattered)] != scattered:
            continue
        if shape[dim] % count((*before, *scattered)):
            continue  # parts of a sum that does not divide: reduce, then take parts
        dims = (*have.dims[:dim], joined((*before, *scattered)), *have.dims[dim + 1 :])
        rest -= set(scattered)
        still = joined(tuple(d for d in all_digits(have.unreduced) if d not in set(scattered)))
        have = replace(have, dims=dims, unreduced=still)
        found.append(Step("reduce_scatter", joined(scattered), have, dim))
    if rest:
        along = joined(tuple(d for d in all_digits(axes) if d in rest))
        have = replace(have, unreduced=left, kind=have.kind if left else SUM)
        found.append(Step("all_reduce", along, have))
    return have


def _parted(have: Sharding, goal: Sharding, shape: Shape, found: list[Step]) -> Sharding:
    """Take parts along axes that only the goal has, where they are the next ones there: before
    anything is sent."""
    used = set(all_digits((*have.axes, *have.unreduced)))
    dims = list[Axes]()
    for own, wanted, size in zip(have.dims, goal.dims, shape, strict=True):
        before, after = all_digits(own), all_digits(wanted)
        new = list[Axis]()
        if after[: len(before)] == before:
            for digit in after[len(before) :]:
                if digit in used:
                    break
                new.append(digit)
        more = joined((*before, *new))
        dims.append(more if divides(own, more, size) else own)
    if tuple(dims) == have.dims:
        return have
    have = replace(have, dims=tuple(dims))
    found.append(Step("part", (), have))
    return have


def _moved(have: Sharding, goal: Sharding, shape: Shape) -> list[Step]:
    if _gathers(have, goal, shape):
        found = list[Step]()
        for dim, (own, wanted) in enumerate(zip(have.dims, goal.dims, strict=True)):
            if own != wanted:
                gathered = joined(all_digits(own)[len(all_digits(wanted)) :])
                have = replace(have, dims=(*have.dims[:dim], wanted, *have.dims[dim + 1 :]))
                found.append(Step("all_gather", gathered, have, dim))
        return found
    before, after = set(all_digits(have.axes)), set(all_digits(goal.axes))
    lost = joined(tuple(d for d in all_digits(have.axes) if d not in after))
    moved = joined(tuple(have.axes))
    if not lost and before == after:
        return [Step("all_to_all", moved, goal)]
    return [Step("exchange", moved, goal)]


# ---- bytes --------------------------------------------------------------------------------------


def elements(shape: Shape, sharding: Need) -> int:
    if isinstance(sharding, Needed):
        return prod(sharding.sizes)
    return prod(sharding.local_shape(shape))


def sent_by(step: Step, have: Sharding, shape: Shape) -> float:
    """Return the elements that a device sends, at most, in a step."""
    n, own = count(step.axes), elements(shape, have)
    if step.op == "all_reduce":
        return 2 * (n - 1) / n * own
    if step.op in ("reduce_scatter", "all_to_all"):
        return (n - 1) / n * own
    if step.op == "all_gather":
        return (n - 1) / n * elements(shape, step.to)
    return exchanged(have, step.to, shape) if step.op == "exchange" else 0.0


def sent(have: Sharding, need: Need, shape: Shape) -> float:
    """Return the elements that a device sends, at most, on the way to what is needed."""
    total = 0.0
    for step in steps(have, need, shape):
        total += sent_by(step, have, shape)
        have = step.to if isinstance(step.to, Sharding) else have
    return total


def exchanged(have: Sharding, need: Need, shape: Shape) -> float:
    """The elements that a device gets in an exchange, at most: those that it needs and does not
    have."""
    spans = as_needed(need, shape).spans
    wanted = prod(min(size, dim) for (_, size), dim in zip(spans, shape, strict=True))
    own = [
        _overlap(place, size, axes, dim)
        for (place, size), axes, dim in zip(spans, have.dims, shape, strict=True)
    ]
    return wanted - prod(own)


@lru_cache(maxsize=1 << 14)
def _overlap(place: Place, size: int, axes: Axes, dim: int) -> int:
    """Return the elements of a span that a device has, at least."""
    terms = [(d, by * prod(e.size for e in rest)) for d, by, rest in _digits_of(place)]
    own = all_digits(axes)
    digits = list(dict.fromkeys((*own, *(d for d, _ in terms))))
    shapes = [[d.size if i == j else 1 for j in range(len(digits))] for i, d in enumerate(digits)]
    at = {d: np.arange(d.size).reshape(s) for d, s in zip(digits, shapes, strict=True)}
    each = -(-dim // count(axes))
    first, number = np.array(place.constant), np.array(0)
    for digit, by in terms:
        first = first + at[digit] * by
    for digit in own:
        number = number * digit.size + at[digit]
    low = np.maximum(np.maximum(first, number * each), 0)
    high = np.minimum(np.minimum(first + size, (number + 1) * each), dim)
    return max(int((high - low).min()), 0)


def _digits_of(place: Place) -> Iterator[tuple[Axis, int, Axes]]:
    """Each digit of a number's axes, with the axis' coefficient and the digits behind it there."""
    for axis, by in place.terms:
        own = all_digits((axis,))
        for i, digit in enumerate(own):
            yield digit, by, own[i + 1 :]


def as_needed(need: Need, shape: Shape) -> Needed:
    """Return what is needed as a box for each device."""
    if isinstance(need, Needed):
        return need
    places = list[tuple[Place, int]]()
    for offset, size in cut(shape, need.dims):
        terms = tuple(terms_of(offset)) if isinstance(offset, DigitSum) else ()
        places.append((Place(0, terms), size))
    return Needed(tuple(places))
