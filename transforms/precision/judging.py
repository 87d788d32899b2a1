"""Judge ops that would be narrow by the noise of what the model computes then, on samples.

Each op is computed twice, in the order of the program: from exact operands, and from what narrow
ops before it have left, rounded where it is narrow itself. The results of both say how many dB a
value has. Where an output has less than is asked for, the ops that are to blame are those of its
ancestors which are the first to be below it: their operands are good, their results are not. That
is so for differences of near-equal numbers, norms of small deviations, integers made of floats, and
whatever overflows. They become float32 with all that computes their operands back to the last norm,
and if that was not enough, back to the inputs; then the model is computed again.

Of a quantized model rounding moves codes by a step here and there, which is no more noise than they
have anyhow: a third form, of floats alone, says how much noise an output has with narrow ops and
without. Where that is clearly more, there is a fault: `CLEAR`, and two standard errors, as codes
that move change an output's noise by chance.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from ge.dialects.support.effort import effort_at_hand
from ge.runtime.data.accuracy import are_finite, decibels, powers
from ge.runtime.data.arrays import Array, dtype_of
from ge.transforms.quantization.data import Samples
from ge.transforms.quantization.observe import ObservedOp, Observer, Watcher

JUDGED = 32  # samples, at least
ROUNDS = 8  # at most, each a run of the model in both forms

CLEAR = 0.3  # dB of an output of codes, as where their ranges are decided

DROP = 20.0  # dB that an op loses which is to blame although its operands were bad already
NONE = -999.0  # dB of a value that is infinite or nan where it should not be


@dataclass
class Twins:
    """The values of a function in both forms. `operands`: which operands of a narrow op are
    rounded; `rounded`: the values of the present chunk that differ from the exact ones; `sums`: the
    signal and the noise of values so far; `strange`: values that are infinite or nan where they
    should not be; `floats`: of outputs that a quantized function computes what they were in floats,
    in this chunk; `ends`: the noise of both forms beside that, in parts of the outputs."""

    observer: Observer
    element: Attribute
    operands: Mapping[Operation, list[int]]
    rounded: dict[SSAValue, Array] = field(default_factory=dict[SSAValue, Array])
    weights: dict[SSAValue, Array] = field(default_factory=dict[SSAValue, Array])
    sums: dict[SSAValue, list[float]] = field(default_factory=dict[SSAValue, list[float]])
    strange: set[SSAValue] = field(default_factory=set[SSAValue])
    left: Counter[SSAValue] = field(default_factory=Counter[SSAValue])
    floats: dict[SSAValue, Array] = field(default_factory=dict[SSAValue, Array])
    ends: dict[SSAValue, list[tuple[float, float]]] = field(
        default_factory=dict[SSAValue, list[tuple[float, float]]]
    )

    def run(self, samples: Samples, origin: "Origin | None" = None) -> None:
        ops = [op for op in self.observer.block.ops if op.results]
        watchers: dict[Operation, Watcher] = dict.fromkeys(ops, self.watch)
        for first in range(0, samples.count, samples.chunk):
            self.rounded.clear()
            self.left = Counter(v for op in ops for v in op.operands)
            part = samples.part(first, samples.chunk)
            self.floats = {} if origin is None else origin.outputs(part)
            self.observer.run(part, watchers)

    def watch(self, step: ObservedOp) -> None:
        op = step.op
        narrow = self.operands.get(op)
        changed = any(v in self.rounded for v in op.operands)
        if (narrow is not None or changed) and not op.regions:
            self._compute(step, narrow)
        for value in op.operands:
            self.left[value] -= 1
            if not self.left[value]:
                self.rounded.pop(value, None)

    def _compute(self, step: ObservedOp, narrow: list[int] | None) -> None:
        op = step.op
        pairs = zip(op.operands, step.operands, strict=True)
        operands = [self.rounded.get(value, array) for value, array in pairs]
        for i in narrow or ():
            operands[i] = self._operand(op.operands[i], operands[i])
        results = self.observer.compute(op, operands)
        for value, want, got in zip(op.results, step.results, results, strict=True):
            if narrow is not None and want.dtype == np.float32:
                got = self._round(got)
            if got.shape != want.shape:  # of data: what follows is computed from the exact ones
                self.sums[value] = [0.0, np.inf]
                continue
            self.rounded[value] = got
            if not are_finite([got]) and (np.isfinite(want) & ~np.isfinite(got)).any():
                self.strange.add(value)
            found = np.add(self.sums.get(value, [0.0, 0.0]), powers(want, got))
            self.sums[value] = found.tolist()
            if (real := self.floats.get(value)) is not None and real.shape == want.shape:
                count = min(len(real), JUDGED) if real.ndim else 1
                parts = [np.array_split(np.atleast_1d(a), count) for a in (real, want, got)]
                pairs = [(powers(r, w)[1], powers(r, g)[1]) for r, w, g in zip(*parts, strict=True)]
                self.ends.setdefault(value, []).extend(pairs)

    def _operand(self, value: SSAValue, array: Array) -> Array:
        if value not in self.observer.constants:
            return self._round(array)
        if value not in self.weights:
            self.weights[value] = self._round(array)
        return self.weights[value]

    def _round(self, array: Array) -> Array:
        with np.errstate(all="ignore"):
            return array.astype(dtype_of(self.element)).astype(np.float32)

    def decibels(self, value: SSAValue) -> float:
        """The dB of a value; inf where it is exact."""
        signal, noise = self.sums.get(value, (1.0, 0.0))
        return decibels(signal, noise)

    def is_as_good(self, output: SSAValue) -> bool:
        """Return whether an output of codes has not clearly more noise than without narrow ops."""
        if output not in self.ends:
            return False
        noises = np.array(self.ends[output])
        if not np.isfinite(noises).all():
            return False
        more, parts = noises[:, 1] - noises[:, 0], len(noises)
        chance = 2 * more.std(ddof=1) / math.sqrt(parts) if parts > 1 else 0.0
        before, after = noises.sum(0)
        return decibels(after, before) <= CLEAR or bool(more.mean() <= chance)

    def first_strange(self, output: SSAValue) -> Operation | None:
        """The first op on the way to a value that is infinite or nan where it should not be."""
        found: Operation | None = None
        stack, seen = [output], set[SSAValue]()
        while stack:
            value = stack.pop()
            op = value.owner
            if value in seen or value not in self.strange or not isinstance(op, Operation):
                continue
            seen.add(value)
            stack += op.operands
            if found is None or op.is_before_in_block(found):
                found = op
        return found


@dataclass(frozen=True)
class Fault:
    """Why an op stays in float32. `db`: of its result in the narrow format, `NONE` for none; `all`:
    whether that is so of everything before it, not just back to the last norm."""

    db: float
    all: bool = False

    def __str__(self) -> str:
        return f"its result has {f'{self.db:.1f}' if self.db > NONE else 'no'} dB"


@dataclass(frozen=True)
class Origin:
    """The function of floats that was quantized. `ends`: its values for outputs."""

    main: FuncOp
    ends: Mapping[SSAValue, SSAValue]

    def outputs(self, samples: Samples) -> dict[SSAValue, Array]:
        found: dict[SSAValue, Array] = {}

        def watch(step: ObservedOp) -> None:
            found.update(zip(step.op.results, step.results, strict=True))

        owners = [v.owner for v in self.ends.values()]
        watchers: dict[Operation, Watcher] = {o: watch for o in owners if isinstance(o, Operation)}
        Observer(self.main).run(samples, watchers)
        return {output: found[value] for output, value in self.ends.items()}


# Which operands of which ops are rounded, with such faults
Narrowed = Callable[[Mapping[Operation, Fault]], Mapping[Operation, list[int]]]


@dataclass
class RoundingJudge:
    """Judges one function. `wanted`: the dB that values which it returns have to have; `origin`:
    what it was before it was quantized."""

    main: FuncOp
    given: Samples
    element: Attribute
    wanted: Mapping[SSAValue, float]
    origin: Origin | None = None

    @cached_property
    def samples(self) -> Samples:
        some = self.given.canonical
        return some.part(0, -(-JUDGED // some.chunk) * some.chunk)

    @cached_property
    def observer(self) -> Observer:
        return Observer(self.main)

    def run(self, narrow: Narrowed) -> tuple[dict[Operation, Fault], Twins]:
        """Return the ops that are to stay in float32, and what values are like then. Where time is
        up, outputs that have too little stay with all before them. Raises GeError where an op
        cannot be computed."""
        faults, known, is_late = dict[Operation, Fault](), effort_at_hand(), False
        for left in reversed(range(ROUNDS)):
            twins = Twins(self.observer, self.element, narrow(faults))
            twins.run(self.samples, self.origin)
            more = self.faults(twins, faults, is_last=left < 2 or known.is_over())
            if not left or is_late or all(faults.get(op) == fault for op, fault in more.items()):
                return faults, twins
            if is_late := known.is_over():
                known.undone.append("which of the ops before an output lose too much in 16 bits")
            faults |= more
        raise AssertionError

    def faults(
        self, twins: Twins, known: Mapping[Operation, Fault], is_last: bool
    ) -> dict[Operation, Fault]:
        """The ops to blame for outputs that have less than is wanted; with `is_last` those that
        compute the outputs, with all before them."""
        found: dict[Operation, Fault] = {}
        for output, wanted in self.wanted.items():
            bad, seen = [] if twins.is_as_good(output) else [output], set[SSAValue]()
            while bad:
                value = bad.pop()
                op, db = value.owner, twins.decibels(value)
                if db >= wanted or value in seen or not isinstance(op, Operation):
                    continue
                seen.add(value)
                if not is_last:
                    bad += op.operands
                least = min(map(twins.decibels, op.operands), default=math.inf)
                if is_last or least >= wanted or least > db + DROP:
                    old = known.get(op)
                    worst = max(db, NONE) if old is None else old.db
                    found[op] = Fault(worst, is_last or op in known)
        return found
