"""Matmuls and convolutions of floats of 8 bits.

    %xf = graph.dequantize %x, %sx                      %0 = graph.matmul %x, %w
    %wf = graph.dequantize %w, %sw {axis = 1}  becomes        : (f8E4M3FN, f8E4M3FN) -> f32
    %0 = graph.matmul %xf, %wf                          %1 = graph.mul %0, %sx * %sw

Products of them are exact in f32. Exceptions: those of integers (see
`linear_layers.py`), and scales that are known only at run time.
"""

from xdsl.ir import SSAValue

from ge.dialects.graph import elementwise as g
from ge.dialects.graph.convolution import ConvOp, ConvTransposeOp
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.support.types import element_type, rank_of
from ge.transforms.graph.canonical.linear_maps import as_type, shaped
from ge.transforms.graph.canonical.local import Make, Replacement, rule
from ge.transforms.quantization.grids import Refused, as_scale, has_one_element, scalar
from ge.transforms.quantization.linear_layers import LinearLayer, conv_layer, matmul_layer


def scaled(make: Make, sums: SSAValue, layer: LinearLayer, axis: int, like: SSAValue) -> SSAValue:
    """Sums times the scales of what was multiplied; that of the weight is along an axis."""
    scale = as_scale(make, layer.weight.grid.scale)
    scale = make(g.MulOp, scale, as_scale(make, scalar(make, layer.x.grid.scale)))
    if has_one_element(scale):
        scale = scalar(make, scale)
    else:
        scale = shaped(make, scale, (layer.count, *[1] * (rank_of(sums) - 1 - axis)))
    return as_type(make, make(g.MulOp, sums, scale), element_type(like))


@rule(MatmulOp, exact=False)
def small_float_matmul(op: MatmulOp, make: Make) -> Replacement:
    """The sums of products of small floats times the product of the scales"""
    try:
        layer = matmul_layer(op, floats=True)
    except Refused:
        return None
    if layer.x.factor is not None:
        return None
    on_the_right = layer.x.op.result is op.lhs
    pair = (layer.x.values, layer.weight.values)
    sums = make(MatmulOp, *(pair if on_the_right else pair[::-1]), **op.properties)
    return scaled(make, sums, layer, rank_of(sums) - (1 if on_the_right else 2), op.result)


@rule(ConvOp, ConvTransposeOp, exact=False)
def small_float_convolution(op: ConvOp | ConvTransposeOp, make: Make) -> Replacement:
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
