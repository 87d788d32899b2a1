"""How far rounding alone may take the results of a graph: its intrinsic noise.

A fused program computes what the graph says in another order, so it rounds elsewhere. Where the
graph cancels, divides by what is nearly 0, or compares what is nearly equal, that shows by far more
than a few ULPs, and no fixed number tells it from a wrong result. So the graph itself is run
several times with *random rounding*: each op that rounds gives its result up to `STEPS` floats off,
and an op that sums inside takes its operands up to `STEPS` floats off; a matmul or a reduction has
its terms in a random order, too, since a part of a sum may overflow. What an element differs in
these runs is its noise (Parker, "Monte Carlo Arithmetic: exploiting the floating-point arithmetic
for error estimation", 1997; Vignes, "A stochastic arithmetic for reliable scientific computation",
1993).

A difference is put down to rounding when, for this very element,
- a float is no farther off than its noise, or
- it is infinite or nan as it is in one of the runs, which differ in that: it is at the end of the
  type's range, or finite among runs of which some are not, or
- an integer or boolean lies within what the runs give, or
- the shape of the result differs between the runs.

A difference on inputs that are no extremes is put down to rounding only if those on more inputs
are, too. (Results of 170 compiled graphs were off by 0.8 standard deviations of the runs at most.)

Where that is not the same, but for rounding, as what the graph gives in its own types, an element
may also be what it gives in float64, throughout (but for casts, which round as they say) or inside
of each op (so that sums alone do not overflow): a value in between left the range of its type (the
square of a norm, the scores of attention in 16 bits), and the composite has no such value.
Throughout in float64, the graph has noise of its own, by roundings of the types as written.
Infinities are also cut, where the element does not depend on an exponential (there -inf may be a
mask): two infinities that meet in one order of products only (x W V and x (W V)) are at the end of
the range. A fused op also rounds some values and others not: an element may be what the graph gives
in float64 with the results of any ops rounded to their types (`MIXTURES` choices are tried), each
element within the relation: the square of a norm is finite, what follows the norm overflows; or one
of two terms is infinite where in the graph both are, which gives nan. For float64 itself there is
no wider type to tell its range from a fault: its numbers are cut to `LARGE` at most, before
anything is run.

Everything else is a mismatch. Ops that only move, choose or compare elements do not round: ties and
nans have no noise. A zero that an op gives which rounds may have either sign: 0 and -0 are no ULP
apart, but their reciprocals are.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from random_rounding import RUN, STEPS, in_float64, with_noise
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from ge.dialects import graph as g
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import functions
from ge.runtime.data.arrays import Array
from ge.runtime.data.weights import Payload
from ge.runtime.device.session import output_ports
from ge.runtime.device.trials import Callee, Outcome, Trial, Trials
from ge.transforms.rewriting.passes import Relation, Ulps, last_place, listing
from ge.transforms.rewriting.passes import is_float as has_floats

ROUNDS = (8, 24)
"""Runs; more of them where the first do not explain the difference."""

MIXTURES = 64
"""Choices of the results that are rounded, and of those that are not."""

e = g.elementwise


class InFloat64:
    """Weights in 64 bits."""

    def __init__(self, payload: Payload) -> None:
        self.payload = payload

    def get(self, key: str, /) -> Array | None:
        array = self.payload.get(key)
        return None if array is None else wider(array)


LARGE = 2.0**120
"""The greatest number of float64, much less than its range: products and sums of squares of such
numbers do not overflow. In other types greater numbers stay; they overflow, in float64 they do
not."""

EXPONENTIALS = (e.ExpOp, g.normalization.SoftmaxOp, g.normalization.LogSoftmaxOp)
"""Where one of these is in a graph, an infinity means something: -inf masks."""


def cut(array: Array) -> Array:
    """Float64 numbers cut to `LARGE`; infinities and other types as they are."""
    if array.dtype != np.float64:
        return array
    return np.where(np.isinf(array), array, array.clip(-LARGE, LARGE))


def wider(array: Array, infinities: bool = True) -> Array:
    """Floats as float64, without infinities unless they stay."""
    if not has_floats(array):
        return array
    wide = array.astype(np.float64)
    return wide if infinities else wide.clip(-(2.0**300), 2.0**300)


INFINITE = 2.0**300
"""Stands for infinity where infinities are cut: greater than other types' numbers, and products
of it do not overflow float64."""

KINDS = ((True, True), (False, True), (True, False))
"""How a graph is run in float64: throughout or inside of each op, with infinities or not."""


class Runs:
    """What a graph gives in each trial, and what rounding makes of that. Trials have `inputs`."""

    def __init__(
        self,
        noisy: ModuleOp,
        trials: Sequence[Trial],
        inputs: Sequence[Mapping[str, Array]],
        payload: Payload,
    ) -> None:
        self.noisy, self.trials, self.inputs, self.payload = noisy, trials, inputs, payload
        self.made: list[Sequence[Outcome]] = []

    def of(self, module: ModuleOp) -> Sequence[Outcome]:
        """What a module gives."""
        return self.call(self.callees(module))

    def callees(self, module: ModuleOp) -> dict[str, Callee]:
        return {t.function: Callee(module, t.function, self.payload, {}) for t in self.trials}

    def call(self, callees: Mapping[str, Callee]) -> Sequence[Outcome]:
        pairs = zip(self.trials, self.inputs, strict=True)
        return [callees[t.function](inputs) for t, inputs in pairs]

    @cached_property
    def noisy_callees(self) -> dict[str, Callee]:
        return self.callees(self.noisy)

    def again(self, count: int, trial: int, name: str) -> list[Array]:
        """An output of a trial in so many runs with noise; those that fail are left out."""
        while len(self.made) < count:
            token = RUN.set(len(self.made))
            self.made.append(self.call(self.noisy_callees))
            RUN.reset(token)
        outcomes = [run[trial] for run in self.made[:count]]
        return [o[name] for o in outcomes if not isinstance(o, GeError)]


class Rounding:
    """What rounding alone may make of the results of the module that a runner is for."""

    def __init__(self, module: ModuleOp, runner: Trials) -> None:
        self.runner, self.module = runner, module
        self.explained: Counter[str] = Counter()
        """How many results differed by more than the relation, by what that is put down to."""
        self.doubts = 0
        """How many of them did so on inputs that are no extremes."""

    @cached_property
    def runs(self) -> Runs:
        trials = self.runner.trials
        inputs = [t.inputs for t in trials]
        return Runs(with_noise(self.module), trials, inputs, self.runner.payload)

    @cached_property
    def mixed(self) -> Runs:
        """The graph in float64, with results of ops rounded in some runs."""
        trials = self.runner.trials
        inputs = [{k: wider(a) for k, a in t.inputs.items()} for t in trials]
        module = in_float64(self.module, throughout=True, at_random=True)
        return Runs(module, trials, inputs, InFloat64(self.runner.payload))

    @cached_property
    def wide(self) -> Sequence[tuple[Runs, Sequence[Outcome]]]:
        """The runs in float64 of each of the `KINDS`, and what they give without noise."""
        payload, trials = InFloat64(self.runner.payload), self.runner.trials
        found: list[tuple[Runs, Sequence[Outcome]]] = []
        for throughout, infinities in KINDS:
            inputs = [{k: wider(a, infinities) for k, a in t.inputs.items()} for t in trials]
            noisy = in_float64(with_noise(self.module), throughout)
            runs = Runs(noisy, trials, inputs, payload)
            found.append((runs, runs.of(in_float64(self.module, throughout))))
        return found

    def wide_result(
        self, relation: Ulps, trial: int, name: str, before: Array, after: Array
    ) -> NDArray[np.bool_]:
        """The elements that are what the graph gives in float64, but for rounding, and that its own
        type gives otherwise."""
        same = np.zeros(after.shape, np.bool_)
        masked, own = self.may_be_masked(name), self.own(trial, name, before)
        for (_, infinities), (runs, outcomes) in zip(KINDS, self.wide, strict=True):
            outcome = outcomes[trial]
            if masked and not infinities:
                continue
            if same.all() or isinstance(outcome, GeError) or outcome[name].shape != after.shape:
                continue
            with np.errstate(all="ignore"):
                found = outcome[name].astype(after.dtype)
                as_found = ~replace(relation, each=True, overflow=False).wrong(found, after, ())
                if not (same | as_found).all():
                    others = runs.again(ROUNDS[0], trial, name)
                    others = [o.astype(after.dtype) for o in others if o.shape == after.shape]
                    as_found |= explained(found, after, others)
                same |= as_found & ~explained(before, found, own)
        return same

    def mixed_result(
        self, relation: Ulps, trial: int, name: str, before: Array, after: Array
    ) -> NDArray[np.bool_]:
        """The elements that are what the graph gives where some results are rounded to their types
        and others are not, but for rounding in the relation, and that it gives otherwise where all
        are rounded."""
        same, own = np.zeros(after.shape, np.bool_), self.own(trial, name, before)
        relation = replace(relation, each=True, overflow=False)
        with np.errstate(all="ignore"):
            for found in self.mixed.again(MIXTURES, trial, name):
                if found.shape == after.shape:
                    found = found.astype(after.dtype)
                    as_found = ~relation.wrong(found, after, ())
                    same |= as_found & ~explained(before, found, own)
        return same

    def own(self, trial: int, name: str, before: Array) -> list[Array]:
        """Runs of the graph in its own types, with noise."""
        runs = self.runs.again(ROUNDS[-1], trial, name)
        return [o for o in runs if o.shape == before.shape]

    def may_be_masked(self, name: str) -> bool:
        """Whether an output depends on an exponential."""
        return any(isinstance(op, EXPONENTIALS) for op in self.sources(name))

    def sources(self, name: str) -> set[Operation]:
        """The ops that an output, of any function, depends on, and those inside of them."""
        todo: list[SSAValue] = []
        for func in functions(self.module).values():
            last, ports = func.body.block.last_op, output_ports(func)
            values = () if last is None else last.operands
            todo += [v for v, port in zip(values, ports, strict=True) if port.name == name]
        seen: set[Operation] = set()
        while todo:
            op = todo.pop().owner
            if isinstance(op, Operation) and op not in seen:
                seen |= set(op.walk())
                todo += [v for inner in op.walk() for v in inner.operands]
        return seen

    def difference(
        self, relation: Relation, trial: int, name: str, before: Array, after: Array
    ) -> str | None:
        """What breaks the relation and is not rounding, for people; None when nothing does."""
        excused = self.explained.total()
        with np.errstate(invalid="ignore"):  # of nans that signal
            text = self._difference(relation, trial, name, before, after)
        if self.runner.trials[trial].kind != "extremes":
            self.doubts += self.explained.total() - excused
        return text

    def _difference(
        self, relation: Relation, trial: int, name: str, before: Array, after: Array
    ) -> str | None:
        text = relation.difference(before, after)
        for count in ROUNDS:
            if text is None or not isinstance(relation, Ulps):
                break
            others = self.runs.again(count, trial, name)
            if before.dtype != after.dtype or before.shape != after.shape:
                if all(o.shape == before.shape for o in others):
                    return text
                self.explained["noise"] += 1
                return None
            others = [o for o in others if o.shape == before.shape]
            wrong = relation.wrong(before, after, ()) & ~explained(before, after, others)
            why = "range" if wrong.any() else "noise"
            if wrong.any():
                wrong &= ~self.wide_result(relation, trial, name, before, after)
            if wrong.any():
                wrong &= ~self.mixed_result(relation, trial, name, before, after)
            text = listing(before, after, wrong)
            if text is None:
                self.explained[why] += 1
        return text


def explained(before: Array, after: Array, others: Sequence[Array]) -> NDArray[np.bool_]:
    """The elements whose difference the runs in `others` explain."""
    if not others:
        return np.zeros(before.shape, np.bool_)
    if not has_floats(before):
        runs = np.stack([before, *others])
        return (runs.min(axis=0) <= after) & (after <= runs.max(axis=0))
    wide, got = before.astype(np.float64), after.astype(np.float64)
    runs = np.stack([before, *others]).astype(np.float64)
    with np.errstate(all="ignore"):
        finite = np.isfinite(runs)
        deviation = np.where(finite, np.abs(runs - wide), 0.0).max(axis=0)
        near = np.isfinite(wide) & (np.abs(got - wide) <= deviation)
        at_the_end = (kinds(runs) != kinds(wide)).any(axis=0)
        return near | (at_the_end & is_among(got, runs, last_place(1.0, before.dtype)))


def is_among(
    got: NDArray[np.float64], runs: NDArray[np.float64], epsilon: float
) -> NDArray[np.bool_]:
    """Whether elements are what runs at the end of a type's range may give: infinite or nan as in
    one of them, or finite and, but for rounding, no less than the least in a run; no greater than
    the greatest, unless a run is infinite."""
    finite = np.isfinite(runs)
    least, greatest = (
        np.where(finite, runs, np.inf).min(axis=0),
        np.where(finite, runs, -np.inf).max(axis=0),
    )
    steps = STEPS * epsilon * np.maximum(np.abs(least), np.abs(greatest))
    slack = greatest - least + steps
    low = np.isneginf(runs).any(axis=0) | (got >= least - slack)
    high = np.isposinf(runs).any(axis=0) | (got <= greatest + slack)
    known = (kinds(got) == kinds(runs)).any(axis=0)
    return known & (~np.isfinite(got) | (low & high))


def kinds(array: NDArray[np.float64]) -> NDArray[np.int64]:
    """0 for finite elements; nan, inf and -inf have numbers of their own."""
    return np.isnan(array) + 2 * np.isposinf(array) + 4 * np.isneginf(array)
