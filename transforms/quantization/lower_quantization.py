"""Lowering of floats on grids (QDQ form) to arithmetic of integers.

    %0 = graph.dequantize %q, %s, %z                    %0 = graph.conv %q, %v bias %c
    %1 = graph.dequantize %v, %t                              pad_value z : (i8, i8) -> i32
    %2 = graph.conv %0, %1 bias %b             becomes  %1 = graph.requantize %0, %r
    %3 = graph.relu %2                                        zero_point %y low y to i8
    %4 = graph.quantize %3, %u, %y

Local rules, by subject: `signed_codes.py` (before all others), `linear_layers.py` (matmuls,
convolutions and attention), `movement.py` (dequantize and quantize change places with what moves
elements, and parts of a value are quantized together), `requantization.py` (what is left between
them). All parameters are expressions of constants: small ones are folded here, others are moved by
prepare-weights.

A layer of quantized operands that stays in floats is named in a remark, with the reason.

Where cubes multiply floats of 8 bits, layers of these are lowered here:

    %xf = graph.dequantize %x, %sx                      %0 = graph.matmul %x, %w
    %wf = graph.dequantize %w, %sw axis 1    becomes          : (f8E4M3FN, f8E4M3FN) -> f32
    %0 = graph.matmul %xf, %wf                          %1 = graph.mul %0, %sx * %sw

Products of them are exact in f32. Exceptions: scales that are known only at run time.
"""

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from ge.dialects import graph as g
from ge.dialects.graph.quantization import Rounding
from ge.dialects.support.constraints import ROUNDINGS
from ge.dialects.support.element_types import ui8
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import defined_functions
from ge.dialects.support.operation import all_ops
from ge.dialects.support.types import element_type, rank_of
from ge.dialects.targets import DEFAULT_TARGET
from ge.dialects.targets.target import Target
from ge.transforms.graph.canonical.linear_maps import as_type, shaped
from ge.transforms.graph.canonical.local import Replacement, rule, simplify
from ge.transforms.graph.share_common_subexpressions import share_common_subexpressions
from ge.transforms.quantization import linear_layers, movement, requantization, signed_codes
from ge.transforms.quantization.grids import Refused, as_scale, has_one_element, scalar
from ge.transforms.quantization.linear_layers import LinearLayer, conv_layer, matmul_layer
from ge.transforms.rewriting import remarks
from ge.transforms.rewriting.building import Make
from ge.transforms.rewriting.passes import Decibels, Relation


def scaled(make: Make, sums: SSAValue, layer: LinearLayer, axis: int, like: SSAValue) -> SSAValue:
    """Return sums times the scales of input and weight; that of the weight is along an axis."""
    scale = as_scale(make, layer.weight.grid.scale)
    scale = make(g.MulOp, scale, as_scale(make, scalar(make, layer.x.grid.scale)))
    if has_one_element(scale):
        scale = scalar(make, scale)
    else:
        scale = shaped(make, scale, (layer.count, *[1] * (rank_of(sums) - 1 - axis)))
    return as_type(make, make(g.MulOp, sums, scale), element_type(like))


@rule(g.MatmulOp, exact=False)
def small_float_matmul(op: g.MatmulOp, make: Make) -> Replacement:
    """The sums of products of small floats times the product of the scales"""
    try:
        layer = matmul_layer(op, floats=True)
    except Refused:
        return None
    if layer.x.factor is not None:
        return None
    on_the_right = layer.x.op.result is op.lhs
    pair = (layer.x.values, layer.weight.values)
    sums = make(g.MatmulOp, *(pair if on_the_right else pair[::-1]), **op.properties)
    return scaled(make, sums, layer, rank_of(sums) - (1 if on_the_right else 2), op.result)


@rule(g.ConvOp, g.ConvTransposeOp, exact=False)
def small_float_convolution(op: g.ConvOp | g.ConvTransposeOp, make: Make) -> Replacement:
    """The same for convolutions, with the bias behind the scale"""
    try:
        layer = conv_layer(op, floats=True)
    except Refused:
        return None
    if layer.x.factor is not None:
        return None
    sums = make(type(op), layer.x.values, layer.weight.values, None, **op.properties)
    result = scaled(make, sums, layer, 1, op.result)
    if op.bias is None:
        return result
    bias = shaped(make, op.bias, (layer.count, *[1] * (rank_of(sums) - 2)))
    return make(g.AddOp, result, bias)


FAMILIES = (linear_layers, movement, requantization)


def is_quantized(op: Operation) -> bool:
    if isinstance(op, g.MatmulOp | g.ConvOp):
        return any(element_type(v) == ui8 for v in op.operands[:2])
    return isinstance(op, g.DequantizeOp | g.QuantizeOp)


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
        own = {o for o in op.walk() if isinstance(o, g.RequantizeOp)}
        rates = Target.load(self.target).macs_per_cycle
        simplify(op, (signed_codes,))
        for func in defined_functions(op):  # a quantize again for each of its dequantizes
            share_common_subexpressions(func.body.block)
        small = (small_float_matmul, small_float_convolution) if "f8E4M3FN" in rates else ()
        simplify(op, (*FAMILIES, *small))
        for new in op.walk():
            if isinstance(new, g.RequantizeOp) and new not in own:
                new.rounding = Rounding.of(rounding)
        for func in defined_functions(op):
            share_common_subexpressions(func.body.block)
        if remarks.wanted():
            for layer in op.walk():
                if isinstance(layer, g.AttentionOp | g.MatmulOp | g.Convolution):
                    linear_layers.remark_refused(layer)
