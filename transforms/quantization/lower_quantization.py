"""From floats on grids (QDQ form) to arithmetic of integers.

    %0 = graph.dequantize %q, %s, %z                    %0 = graph.conv %q, %v bias %c
    %1 = graph.dequantize %v, %t                              {pad_value = z} : (i8, i8) -> i32
    %2 = graph.conv %0, %1 bias %b             becomes  %1 = graph.requantize %0, %r
    %3 = graph.relu %2                                        zero_point %y {low = y} to i8
    %4 = graph.quantize %3, %u, %y

Local rules, by subject: `signed_codes.py` (before all others), `linear_layers.py` (matmuls and
convolutions), `attention_layers.py`, `movement.py` (dequantize and quantize change places with what
moves elements), `parts.py` (parts of a value, each quantized by itself), `requantization.py` (what
is left between them). All parameters are expressions of constants: small ones are folded here,
others are moved by prepare-weights.

A layer of quantized operands that stays in floats is named in a remark, with the reason.
"""

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from ge.dialects.graph.attention import AttentionOp
from ge.dialects.graph.convolution import Convolution, ConvOp
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.quantization import DequantizeOp, QuantizeOp, RequantizeOp
from ge.dialects.support.choices import ROUNDINGS
from ge.dialects.support.element_types import ui8
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import defined_functions
from ge.dialects.support.operation import all_ops
from ge.dialects.support.types import element_type
from ge.dialects.targets import DEFAULT_TARGET
from ge.dialects.targets.target import Target
from ge.transforms.graph.canonical.simplify import simplify
from ge.transforms.graph.share_common_subexpressions import share_common_subexpressions
from ge.transforms.quantization import (
    attention_layers,
    linear_layers,
    movement,
    parts,
    requantization,
    signed_codes,
    small_floats,
    tables,
)
from ge.transforms.rewriting import remarks
from ge.transforms.rewriting.relations import Decibels, Relation

FAMILIES = (linear_layers, attention_layers, movement, parts, requantization, tables)


def is_quantized(op: Operation) -> bool:
    if isinstance(op, MatmulOp | ConvOp):
        return any(element_type(v) == ui8 for v in op.operands[:2])
    return isinstance(op, DequantizeOp | QuantizeOp)


@dataclass(frozen=True)
class LowerQuantizationPass(ModulePass):
    """Compute matmuls and convolutions of dequantized values, and what is between them and the next
    quantize, in integers. `rounding`: as in `graph.requantize`; that of the target, where empty."""

    name = "lower-quantization"

    target: str = DEFAULT_TARGET
    rounding: str = ""
    RELATION: ClassVar[Relation] = Decibels(40)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not any(map(is_quantized, all_ops(op.body.blocks))):
            return
        rounding = self.rounding or Target.load(self.target).requantize
        if rounding not in ROUNDINGS:
            known = ", ".join(ROUNDINGS)
            raise GeError(f"rounding is one of {known}, not {self.rounding}")
        own = {o for o in op.walk() if isinstance(o, RequantizeOp)}
        rates = Target.load(self.target).macs_per_cycle
        simplify(op, (signed_codes,))
        for func in defined_functions(op):  # a quantize again for each of its dequantizes
            share_common_subexpressions(func.body.block)
        simplify(op, (*FAMILIES, small_floats) if "f8E4M3FN" in rates else FAMILIES)
        for new in op.walk():
            if isinstance(new, RequantizeOp) and new not in own:
                new.rounding = StringAttr(rounding)
        for func in defined_functions(op):
            share_common_subexpressions(func.body.block)
        if remarks.wanted():
            for layer in op.walk():
                if isinstance(layer, AttentionOp):
                    attention_layers.remark_refused(layer)
                elif isinstance(layer, MatmulOp | Convolution):
                    linear_layers.remark_refused(layer)
