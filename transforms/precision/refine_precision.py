"""Compute in 16-bit floats what a model has in float32, with casts where the two meet.

    %0 = graph.matmul %x, %w : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
    %1 = graph.relu %0 : ...
    func.return %1
becomes, for mode fp16,
    %2 = graph.cast %x to f16
    %3 = graph.cast %w to f16                     done once, in @prepare
    %0 = graph.matmul %2, %3 : (tensor<8x64xf16>, tensor<64x32xf16>) -> tensor<8x32xf16>
    %1 = graph.relu %0 : ...
    %4 = graph.cast %1 to f32
    func.return %4

Inputs and outputs of the model keep their types. Each value is cast once for all its users, where
it is defined; fusion takes casts into the launches around them. What stays in float32 is
told in remarks and the report. The number that attention puts in the place of
masked scores is limited to the lowest of the format.

Products (matmuls, convolutions, attention) are narrow, and what passes their results on: everything
else that has a narrow operand, or in a mixed mode only what moves it or adds and multiplies
constants. Products of integers count where the mode is not mixed: what they are dequantized to is
rounded. What is computed from inputs before the first product stays in float32, where it costs no
launch. An op is kept in float32 where keep_dtype names it, and where

- an operand or a result is known not to fit: a constant by its elements, what depends on inputs by
  how large it gets on samples, with a margin;
- nothing is known, and exp, powers, squares, sums or quotients are likely not to fit;
- its result grows with inputs of which nothing is known, and norms alone read it;
- samples show that the model is not right otherwise (`judging.py`);
- integers are made of its result: one step of rounding may be another integer;
- rounding its operand would show: angles of sin and cos, exponents and scores of hundreds. What
  computes such an operand is kept too, back to the last norm.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import copysign, inf, isfinite
from typing import ClassVar

from xdsl.dialects.builtin import FloatAttr, IntegerType, f32, i1, i32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from ge.dialects import graph as g
from ge.dialects.graph.control import Control
from ge.dialects.graph.support.parameters import holds
from ge.dialects.support.boxes import MOVING, Access
from ge.dialects.support.definitions import SEGMENTS
from ge.dialects.support.diagnostics import location_of, warning
from ge.dialects.support.editing import erase
from ge.dialects.support.effort import unlimited
from ge.dialects.support.element_types import row_of
from ge.dialects.support.errors import GeError
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import (
    constant_value,
    element_type,
    is_refinement,
    set_type,
    shape_of,
    tensor,
)
from ge.runtime.data.arrays import array_of, dtype_of
from ge.transforms.precision import modes
from ge.transforms.precision.judging import Fault, Origin, RoundingJudge, Twins
from ge.transforms.precision.magnitudes import Magnitudes, is_f32, name_of
from ge.transforms.precision.modes import MODES, Mode
from ge.transforms.quantization.accuracy import Accuracy, accuracy_of
from ge.transforms.quantization.calibrated_pass import CalibratedPass
from ge.transforms.quantization.data import Calibration, calibration_at_hand
from ge.transforms.quantization.layers import base_name, computed_outputs, numbered
from ge.transforms.rewriting import remarks
from ge.transforms.rewriting.building import Make
from ge.transforms.rewriting.passes import Relation, Unbounded

PRODUCTS = (g.AttentionLike, g.Convolution, g.DeformConvOp, g.Recurrent)

ALWAYS_F32 = (
    g.AffineGridOp, g.CumulativeOp, g.DequantizeOp, g.DetOp, g.DftOp, g.DynamicQuantizeOp,
    g.GridSampleOp, g.QuantizeOp, g.RandomOp, g.RangeOp, g.RequantizeOp, g.StftOp,
)  # fmt: skip

FAULTS = "refine-precision-faults"  # in the table: dB, and 1 where all before an op is kept too
WANTED = {"f16": 40.0, "bf16": 30.0}  # dB of outputs

F32_IF_MIXED = (
    g.ExpOp,
    g.LogOp,
    g.PowOp,
    g.ReciprocalOp,
    g.ReduceOp,
    g.SoftmaxLike,
    g.SqrtOp,
    g.Trigonometric,
)


def is_product(op: Operation) -> bool:
    return isinstance(op, PRODUCTS) or (isinstance(op, TensorOp) and op.IS_MATMUL)


def narrowed_operands(op: TensorOp) -> list[int]:
    """The float32 operands that become narrow with the op: of an op that computes in float32
    itself its data, but not masks, tables or scales."""
    count = op.ROUNDED_ONCE or len(op.operands)
    return [i for i, v in enumerate(op.operands[:count]) if is_f32(v)]


def may_explode(op: Operation) -> bool:
    """Return whether results are easily much larger than operands."""
    if isinstance(op, g.ReduceOp):
        return op.kind.data not in ("max", "min", "mean")
    if isinstance(op, g.MulOp):
        return op.lhs is op.rhs
    return isinstance(op, g.DivOp | g.ExpOp | g.PowOp | g.ReciprocalOp)


@dataclass
class Decisions:
    """`narrow`: the ops in the narrow format, in order; `kept`: why others are not that would be;
    `faults`: those that lose too much on samples;
    `clipped`: the constants that are to be limited to what the format has; `values`: what narrow
    ops result in, and integer sums that were dequantized, which are rounded for narrow users."""

    magnitudes: Magnitudes
    clip: bool = False
    faults: Mapping[Operation, Fault] = field(default_factory=dict[Operation, Fault])
    narrow: dict[TensorOp, None] = field(default_factory=dict[TensorOp, None])
    kept: dict[Operation, str] = field(default_factory=dict[Operation, str])
    clipped: dict[SSAValue, float] = field(default_factory=dict[SSAValue, float])
    values: set[SSAValue] = field(default_factory=set[SSAValue])

    @property
    def mode(self) -> Mode:
        return self.magnitudes.mode

    def run(self) -> None:
        ops = list(self.magnitudes.main.body.block.ops)
        sensitive, calibration = dict(self._sensitive(ops)), calibration_at_hand()
        unknown = dict(self._only_normalized(ops))
        for op in ops:
            if isinstance(op, Control):
                self.kept[op] = "what is in a branch or loop stays f32"
            elif isinstance(op, g.DequantizeOp) and not self.mode.mixed:
                self.values.update(r for r in op.results if r not in self.magnitudes.constants)
            elif isinstance(op, TensorOp) and self._may_be_narrow(op) and self._is_wanted(op):
                named = "keep_dtype names it" if calibration.keeps(op) else ""
                if reason := named or sensitive.get(op) or self._misfit(op) or unknown.get(op):
                    self.kept[op] = reason
                else:
                    self.narrow[op] = None
                    if not self.mode.wide:
                        self.values.update(filter(is_f32, op.results))

    def _may_be_narrow(self, op: TensorOp) -> bool:
        return (
            not isinstance(op, (g.ConstantOp, *ALWAYS_F32))
            and not op.regions
            and bool(narrowed_operands(op))
            and not any(r in self.magnitudes.constants for r in op.results)
        )

    def _is_wanted(self, op: TensorOp) -> bool:
        """Return whether an op is computed in the narrow format if nothing speaks against it."""
        if is_product(op):
            return True
        operands = (op.operands[i] for i in narrowed_operands(op))
        moving = [v for v in operands if v not in self.magnitudes.constants]
        narrow = sum(v in self.values for v in moving)
        if not moving:
            return op.ACCESS in MOVING and not self.mode.mixed
        if op.ACCESS in MOVING or not self.mode.mixed or not any(map(is_f32, op.results)):
            return narrow > 0
        adds = isinstance(op, g.AddOp | g.SubOp) and len(moving) > 1
        passes_on = op.ACCESS in (Access.POINTWISE, Access.WINDOW) and not op.NORMALIZES
        return narrow == len(moving) and passes_on and not adds and not isinstance(op, F32_IF_MIXED)

    # ---- what does not fit

    def _misfit(self, op: TensorOp) -> str:
        clipped: dict[SSAValue, float] = {}
        for i in narrowed_operands(op):
            value = op.operands[i]
            if not (reason := self.magnitudes.misfit(value)):
                continue
            largest = self.magnitudes.fixed.get(value)
            if not self.clip or largest is None or largest < self.magnitudes.largest:
                return reason
            clipped[value] = largest
        for value in filter(is_f32, op.results):
            if reason := self.magnitudes.misfit(value):
                return reason
            if self.mode.has_less_range and may_explode(op) and value not in self.magnitudes.known:
                return f"nothing is known of how large a result of {op.name} gets"
        self.clipped |= clipped
        return ""

    # ---- where rounding shows

    def _sensitive(self, ops: Sequence[Operation]) -> Iterator[tuple[Operation, str]]:
        seen = set[Operation]()
        for op, fault in self.faults.items():
            yield op, f"in {self.mode.format} {fault}"
            for before in self._producers(op, set() if fault.all else seen, fault):
                if before not in self.faults:
                    yield before, f"it computes an operand of '{base_name(op)}', where {fault}"
        for op in reversed(ops):
            if not isinstance(op, TensorOp) or not op.operands or not is_f32(op.operands[0]):
                continue
            if reason := self._shows(op):
                yield op, reason
                for before in self._producers(op, seen):
                    yield before, f"it computes the operand of {op.name}, where {reason}"

    def _only_normalized(self, ops: Sequence[Operation]) -> Iterator[tuple[Operation, str]]:
        """Yield the ops whose results norms alone read, where all their operands grow with inputs
        of which nothing is known: the model takes inputs of any size, which a narrow format with
        less range does not."""
        known, found = self.magnitudes, set[Operation]()
        for op in reversed(ops):
            if (
                not isinstance(op, TensorOp)
                or not op.results
                or not all(map(known.grows, op.results))
            ):
                continue
            users = [use.operation for r in op.results for use in r.uses]
            moving = [v for v in op.operands if v not in known.constants]
            normalized = (u in found or (isinstance(u, TensorOp) and u.NORMALIZES) for u in users)
            if users and moving and all(map(known.grows, moving)) and all(normalized):
                found.add(op)
                yield op, "it grows with inputs of which nothing is known, up to the next norm"

    def _shows(self, op: TensorOp) -> str:
        """Return why rounding the operand of an op would show in its result; empty if it would
        not."""
        row = row_of(self.magnitudes.element)
        assert row is not None
        largest = self.magnitudes.known.get(op.operands[0])
        if isinstance(op, g.Trigonometric):
            if largest is not None and largest <= 2.0 ** (row.precision - 9):  # 4 in f16
                return ""
            reach = "may be large" if largest is None else f"reach {largest:.4g}"
            return f"angles {reach}"
        if isinstance(op, g.CastOp) and isinstance(t := element_type(op.result), IntegerType):
            return "" if t == i1 else "integers are made"
        if isinstance(op, g.AttentionLike):
            largest = self.magnitudes.scores.get(op)
        elif not isinstance(op, g.ExpOp | g.SoftmaxLike):
            return ""
        fits = largest is None or largest <= 2.0 ** (row.precision - 2)  # half a step is an eighth
        return "" if fits else f"exponents reach {largest:.4g}"

    def _producers(
        self, op: Operation, seen: set[Operation], fault: Fault | None = None
    ) -> Iterator[Operation]:
        """Yield the ops that compute the operand of an op, query and key of attention, all operands
        of one with a fault, back to the last norm (or to the inputs, if a fault says so), as far as
        they were not seen for a later op."""
        first = 2 if isinstance(op, g.AttentionLike) else 1
        stack = list(op.operands[: None if fault else first])
        while stack:
            before = stack.pop().owner
            if not isinstance(before, TensorOp) or before in seen or before.regions:
                continue
            seen.add(before)
            yield before
            passes_on = is_product(before) or before.ACCESS in (*MOVING, Access.POINTWISE)
            if passes_on or (fault is not None and fault.all):
                stack += [v for v in before.operands if fault is not None or is_f32(v)]


def bounds(outputs: Collection[str], mode: Mode, accuracy: Accuracy | None) -> dict[str, float]:
    """The dB that outputs have to keep. Raises GeError for an accuracy of an output that is
    none."""
    asked = {} if accuracy is None else dict.fromkeys(accuracy.of(outputs), accuracy.decibels)
    return dict.fromkeys(outputs, WANTED[mode.format]) | asked


def judged(
    magnitudes: Magnitudes, clip: bool, wanted: Mapping[str, float]
) -> dict[Operation, Fault]:
    """The ops that lose too much in the narrow format: as the table has them, or found on samples
    (inputs at random, where there are none) and added there. `wanted`: the dB of outputs."""
    main, calibration = magnitudes.main, magnitudes.calibration
    ops = list(main.body.block.ops)
    titles = dict(zip(ops, numbered(map(base_name, ops)), strict=True))
    samples = calibration.samples or calibration.random
    if samples is None:
        table = ((op, calibration.table.vector(FAULTS, name)) for op, name in titles.items())
        return {op: Fault(v[0], len(v) > 1 and v[1] > 0) for op, v in table if v}

    def narrowed(faults: Mapping[Operation, Fault]) -> dict[Operation, list[int]]:
        decisions = Decisions(magnitudes, clip, faults)
        decisions.run()
        return {op: narrowed_operands(op) for op in decisions.narrow}

    outputs = computed_outputs(main)
    of_values = {outputs[name]: db for name, db in wanted.items()}
    origin, floats = None, calibration.floats
    if floats is not None:
        ends = computed_outputs(floats)
        origin = Origin(floats, {v: ends[n] for n, v in outputs.items() if n in ends})
    judge = RoundingJudge(main, samples, magnitudes.element, of_values, origin)
    faults, twins = judge.run(narrowed)
    seen = {n: v for n, v in outputs.items() if v in twins.sums}
    refuse_strange(magnitudes.mode, seen, twins)
    left = {n: twins.decibels(v) for n, v in seen.items() if not twins.is_as_good(v)}
    calibration.left_of_floats.update(left)
    for op, fault in faults.items():
        calibration.table.set_vector(FAULTS, titles[op], [fault.db, float(fault.all)])
    return faults


def refuse_strange(mode: Mode, outputs: Mapping[str, SSAValue], twins: Twins) -> None:
    """Raises GeError for an output that is infinite or nan where that of float32 is not."""
    for name, output in outputs.items():
        if (op := twins.first_strange(output)) is None:
            continue
        what = f"{mode.name} makes output '{name}' infinite or nan, which float32 does not"
        raise GeError(
            f"{what}: first in '{base_name(op)}' ({op.name})",
            str(location_of(op)),
            f"--keep-dtype FILE with '{base_name(op)}' in it keeps that in float32",
        )


RULE = "refine-precision"


@dataclass
class Refinement:
    """Rewrites one function."""

    main: FuncOp
    decisions: Decisions
    down: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    up: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    were_f32: set[SSAValue] = field(default_factory=set[SSAValue])
    narrow: list[TensorOp] = field(default_factory=list[TensorOp])

    @property
    def element(self) -> Attribute:
        return self.decisions.magnitudes.element

    def run(self) -> None:
        for op in list(self.main.body.block.ops):
            if op in self.decisions.narrow:
                assert isinstance(op, TensorOp)
                if self.refine(op):
                    self.narrow.append(op)
                    continue
                self.decisions.kept[op] = f"{op.name} takes no {self.element}"
            for user in op.walk():
                for i, value in enumerate(user.operands):
                    if value in self.were_f32:
                        user.operands[i] = self.widened(value)
        for value, narrow in self.down.items():
            if isinstance(narrow.owner, Operation) and not narrow.uses:
                self.decisions.clipped.pop(value, None)
                erase(narrow.owner)

    def refine(self, op: TensorOp) -> bool:
        """Give an op narrow operands and results; returns False, and changes nothing, if it does
        not take them."""
        before = list(op.operands)
        for i in narrowed_operands(op):
            op.operands[i] = self.narrowed(op.operands[i])
        element, properties = self.element, {**op.properties}
        if isinstance(op, g.MatmulOp) and self.decisions.mode.wide:
            op.properties["to"] = element = f32
        expected = [tensor(shape_of(r), element) if is_f32(r) else r.type for r in op.results]
        try:
            fits = all(map(is_refinement, op.inferred(), expected))
        except VerifyException:
            fits = False
        if not fits:
            op.operands, op.properties = before, properties
            return False
        for result, t in zip(op.results, expected, strict=True):
            if result.type != t:
                self.were_f32.add(result)
                set_type(result, t)
        if isinstance(op, g.AttentionLike):
            self.limit_fill(op)
        return True

    def limit_fill(self, op: g.AttentionLike) -> None:
        """Rows without a key that takes part, whose scores are all the lowest number, keep equal
        weights: the narrow format has a lowest number of its own."""
        fill, largest = op.fill.value.data, self.decisions.magnitudes.largest
        if largest < abs(fill) < inf:
            op.properties["fill"] = FloatAttr(copysign(largest, fill), op.fill.type)

    def narrowed(self, value: SSAValue) -> SSAValue:
        if value not in self.down:
            self.down[value] = self._narrowed(value)
        return self.down[value]

    def _narrowed(self, value: SSAValue) -> SSAValue:
        owner, element = value.owner, self.element
        if isinstance(owner, g.CastOp) and element_type(owner.input) == element:
            return owner.input
        emit = Make.behind(value)
        if value in self.decisions.clipped:
            largest = self.decisions.magnitudes.largest
            limits = [emit.number(n, value) for n in (-largest, largest)]
            return emit(g.CastOp, emit(g.ClampOp, value, *limits), to=element)
        if (number := constant_value(value)) is not None:
            return emit.constant(array_of(number).astype(dtype_of(element)))
        magnitudes = self.decisions.magnitudes
        if isinstance(owner, g.CastOp) and holds(f32, element_type(owner.input)):
            return emit(g.CastOp, owner.input, to=element)
        if isinstance(owner, g.DequantizeOp) and value in magnitudes.constants:
            if not magnitudes.loses_digits(owner.scale):
                scale, params = owner.scale, {**owner.properties, "to": None}
                scale = scale if element_type(scale) == element else self.narrowed(scale)
                return emit(g.DequantizeOp, owner.input, scale, owner.zero_point, **params)
        if isinstance(owner, g.DequantizeOp) and element_type(owner.input) == i32:
            given = {k: v for k, v in owner.properties.items() if k != SEGMENTS}
            given["to"] = element  # of 32 bits all the same before
            return emit(g.DequantizeOp, owner.input, owner.scale, owner.zero_point, **given)
        return emit(g.CastOp, value, to=element)

    def widened(self, value: SSAValue) -> SSAValue:
        if value not in self.up:
            self.up[value] = Make.behind(value)(g.CastOp, value, to=f32)
        return self.up[value]


def tell(refinement: Refinement, wanted: Mapping[str, float]) -> None:
    decisions, mode = refinement.decisions, refinement.decisions.mode
    told, left = modes.current(), calibration_at_hand().left_of_floats
    told.mode, told.format, told.narrow = mode.name, mode.format, len(refinement.narrow)
    told.ranges = decisions.magnitudes.source
    told.left_db = {n: db for n, db in left.items() if isfinite(db)}
    for name, db in left.items():
        if db < wanted[name]:
            what = f"output '{name}' has {db:.1f} dB in {mode.name} on {told.ranges}"
            warning(refinement.main, f"{what}: keep it in f32 with --keep-dtype")
    for op in refinement.narrow:
        if is_product(op):
            remarks.applied(RULE, op, f"'{base_name(op)}' in {mode.format}")
    for op, why in decisions.kept.items():
        told.kept.append(modes.Kept(op.name, base_name(op), why))
        remarks.missed(RULE, op, f"'{base_name(op)}' stays f32: {why}")
    for value, largest in decisions.clipped.items():
        told.clipped[name_of(value)] = largest
        assert isinstance(value.owner, Operation)
        limit = f"{decisions.magnitudes.largest:.6g}"
        remarks.applied(RULE, value.owner, f"'{name_of(value)}' is clipped to {limit}")
    if (source := told.ranges) != "calibration":
        why = "no ranges are known" if source == "none" else f"ranges are those of {source}"
        remarks.missed(RULE, refinement.main, f"{why}: give samples with --calibration")


@dataclass(frozen=True)
class RefinePrecisionPass(CalibratedPass):
    """Compute ops of f32 in 16-bit floats. `mode`: fp16, bf16, mixed or mixed_bf16; `clip`:
    constants that the format does not hold are clipped, else what uses them stays f32; `accuracy`:
    what outputs keep, snr>=50 (40 dB in f16 and 30 in bf16 where it is not given); `data`: samples
    (.npz) or a table (.toml)."""

    name = "refine-precision"
    RELATION: ClassVar[Relation] = Unbounded()

    mode: str = "fp16"
    clip: bool = False
    accuracy: str = ""

    def run_within(self, main: FuncOp, calibration: Calibration) -> None:
        with unlimited():  # nothing holds in place of what this decides
            self.run(main, calibration)

    def run(self, main: FuncOp, calibration: Calibration) -> None:
        if self.mode not in MODES:
            raise GeError(f"mode is one of {', '.join(MODES)}, not '{self.mode}'")
        magnitudes = Magnitudes(main, calibration, MODES[self.mode])
        wanted = bounds(computed_outputs(main), magnitudes.mode, accuracy_of(self.accuracy))
        decisions = Decisions(magnitudes, self.clip, judged(magnitudes, self.clip, wanted))
        decisions.run()
        refinement = Refinement(main, decisions)
        refinement.run()
        tell(refinement, wanted)
