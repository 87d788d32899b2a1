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
it is defined; fusion takes casts into the launches around them. What stays in float32 is stated in
`decisions.py`, and told in remarks and the report. The number that attention puts in the place of
masked scores is limited to the lowest of the format.
"""

from dataclasses import dataclass, field
from math import copysign, inf
from typing import ClassVar

from xdsl.dialects.builtin import FloatAttr, f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph.attention import AttentionLike
from ge.dialects.graph.elementwise import CastOp, ClampOp
from ge.dialects.graph.quantization import DequantizeOp
from ge.dialects.graph.support.folding import holds
from ge.dialects.support.editing import erase
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
from ge.transforms.precision import outcome
from ge.transforms.precision.decisions import Decisions, is_product, narrowed_operands
from ge.transforms.precision.magnitudes import Magnitudes, is_f32, name_of
from ge.transforms.precision.modes import MODES
from ge.transforms.quantization.data import CalibratedPass, Calibration
from ge.transforms.quantization.emitting import Emitter
from ge.transforms.quantization.layers import base_name
from ge.transforms.rewriting import remarks
from ge.transforms.rewriting.relations import Relation, Unbounded

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
        """Give an op narrow operands and results; False, and nothing is changed, where it does not
        take them."""
        before = list(op.operands)
        for i in narrowed_operands(op):
            op.operands[i] = self.narrowed(op.operands[i])
        expected = [tensor(shape_of(r), self.element) if is_f32(r) else r.type for r in op.results]
        try:
            fits = all(map(is_refinement, op.inferred(), expected))
        except VerifyException:
            fits = False
        if not fits:
            op.operands = before
            return False
        for result, t in zip(op.results, expected, strict=True):
            if result.type != t:
                self.were_f32.add(result)
                set_type(result, t)
        if isinstance(op, AttentionLike):
            self.limit_fill(op)
        return True

    def limit_fill(self, op: AttentionLike) -> None:
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
        if isinstance(owner, CastOp) and element_type(owner.input) == element:
            return owner.input
        emit = Emitter.behind(value)
        if value in self.decisions.clipped:
            largest = self.decisions.magnitudes.largest
            limits = [emit.number(n, value) for n in (-largest, largest)]
            return emit(CastOp, emit(ClampOp, value, *limits), to=element)
        if (number := constant_value(value)) is not None:
            return emit.constant(array_of(number).astype(dtype_of(element)))
        magnitudes = self.decisions.magnitudes
        if isinstance(owner, CastOp) and holds(f32, element_type(owner.input)):
            return emit(CastOp, owner.input, to=element)
        if isinstance(owner, DequantizeOp) and value in magnitudes.constants:
            if not magnitudes.loses_digits(owner.scale):
                scale, params = owner.scale, {**owner.properties, "to": None}
                scale = scale if element_type(scale) == element else self.narrowed(scale)
                return emit(DequantizeOp, owner.input, scale, owner.zero_point, **params)
        return emit(CastOp, value, to=element)

    def widened(self, value: SSAValue) -> SSAValue:
        if value not in self.up:
            self.up[value] = Emitter.behind(value)(CastOp, value, to=f32)
        return self.up[value]


def tell(refinement: Refinement) -> None:
    decisions, mode = refinement.decisions, refinement.decisions.mode
    told = outcome.current()
    told.mode, told.format, told.narrow = mode.name, mode.format, len(refinement.narrow)
    told.ranges = decisions.magnitudes.source
    for op in refinement.narrow:
        if is_product(op):
            remarks.applied(RULE, op, f"'{base_name(op)}' in {mode.format}")
    for op, why in decisions.kept.items():
        told.kept.append(outcome.Kept(op.name, base_name(op), why))
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
    """Compute in 16-bit floats what is in f32.
    `mode`: fp16, bf16, mixed or mixed_bf16; `clip`: constants that the format does not hold are
    clipped, else what uses them stays f32; `data`: samples (.npz) or a table (.toml)."""

    name = "refine-precision"
    RELATION: ClassVar[Relation] = Unbounded()

    mode: str = "fp16"
    clip: bool = False

    def run(self, main: FuncOp, calibration: Calibration) -> None:
        if self.mode not in MODES:
            raise GeError(f"mode is one of {', '.join(MODES)}, not '{self.mode}'")
        decisions = Decisions(Magnitudes(main, calibration, MODES[self.mode]), self.clip)
        decisions.run()
        refinement = Refinement(main, decisions)
        refinement.run()
        tell(refinement)
