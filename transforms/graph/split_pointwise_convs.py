"""1 x 1 convolutions come before what enlarges their input.

    %0 = graph.resize %y sizes [64, 64] axes [2, 3]       %y : tensor<1x256x16x16xf32>
    %1 = graph.concat %x, %0 axis 1                       %x : tensor<1x256x64x64xf32>
    %2 = graph.conv %1, %w                                %w : tensor<256x512x1x1xf32>
becomes
    %0 = graph.conv %y, (%w[:, 256:])                     a sixteenth of the products
    %1 = graph.resize %0 sizes [64, 64] axes [2, 3]
    %2 = graph.conv %x, (%w[:, :256])
    %3 = graph.add %1, %2                                 the concatenation is not stored

Decoders that join maps of several sizes have this form. Each kernel adds what the one before it
made, so that one large value is stored at a time. All rules
add in another order.

Each element of a resize is a sum of elements of its input with weights that add to 1, the same for
all channels: a 1 x 1 convolution, which sums over channels, may come before, and takes its bias
along. Resize and concatenation have no other user, and the convolution makes no more channels than
it reads, so that no larger value is resized.
"""

from collections.abc import Sequence

from xdsl.ir import SSAValue

from ge.dialects import graph as g
from ge.dialects.graph.support.parameters import partial_ints
from ge.dialects.support.element_types import is_float
from ge.dialects.support.types import element_type, is_static, numel, rank_of, shape_of
from ge.transforms.analysis.parts import Range
from ge.transforms.graph.canonical.linear_maps import is_own
from ge.transforms.graph.canonical.local import Replacement, SimplifyPass, rule
from ge.transforms.graph.canonical.slices import sliced_along
from ge.transforms.rewriting.building import Make


def is_pointwise(op: g.ConvOp) -> bool:
    """Return whether a convolution sums over channels alone, by weights that are its own."""
    if not is_static(shape_of(op.input)) or op.groups != 1 or op.channel_axis != 1:
        return False
    window = op.window().resolved(op.spatial())
    return (
        all(n == 1 for n in (*window.kernel, *window.strides))
        and not any(window.pads)
        and is_float(element_type(op.result))
        and element_type(op.result) == element_type(op.input)
        and is_own(op.weight)
    )


def enlarged(value: SSAValue) -> g.ResizeOp | None:
    """Return the resize that makes a value from a smaller one, along spatial dimensions to known
    sizes, for one user."""
    op = value.owner
    if not isinstance(op, g.ResizeOp) or not value.has_one_use():
        return None
    small, large = shape_of(op.input), shape_of(value)
    if not is_static((*small, *large)) or small[:2] != large[:2] or numel(small) >= numel(large):
        return None
    stretches = op.keep_aspect_ratio_policy.data == "stretch"
    if not stretches or op.coordinates.data == "tf_crop_and_resize":
        return None
    return op if op.scale_values() or partial_ints(op, "sizes") else None


def resized(make: Make, op: g.ResizeOp, value: SSAValue) -> SSAValue:
    """A value of other channels resized as the input of the op is."""
    scales, sizes = op.scale_values(), partial_ints(op, "sizes")
    places = [(a, i) for i, a in enumerate(op.resized_axes()) if a > 1]
    target = (
        {"scales": [scales[i] for _, i in places]}
        if scales
        else {"sizes": [sizes[i] for _, i in places] if sizes else ()}
    )
    same = ("mode", "coordinates", "nearest_mode", "cubic_coeff_a", "exclude_outside", "antialias")
    kept = {name: op.properties[name] for name in same if name in op.properties}
    return make(g.ResizeOp, value, axes=[a for a, _ in places], **target, **kept)


@rule(g.ConvOp, exact=False)
def pointwise_conv_of_resize(op: g.ConvOp, make: Make) -> Replacement:
    """conv(resize(x)) = resize(conv(x))"""
    resize = enlarged(op.input)
    if resize is None or not is_pointwise(op) or shape_of(op.weight)[0] > shape_of(op.weight)[1]:
        return None
    return resized(make, resize, make(g.ConvOp, resize.input, op.weight, op.bias))


@rule(g.ConvOp, exact=False)
def pointwise_conv_of_concat(op: g.ConvOp, make: Make) -> Replacement:
    """conv(concat(x, resize(y))) = resize(conv(y)) + conv(x)"""
    concat = op.input.owner
    if not isinstance(concat, g.ConcatOp) or not op.input.has_one_use() or not is_pointwise(op):
        return None
    if concat.axis.value.data not in (1, 1 - rank_of(op.input)):
        return None
    resizes = [enlarged(v) for v in concat.inputs]
    read = sum(shape_of(r.input)[1] for r in resizes if r is not None)
    made = shape_of(op.weight)[0] * sum(r is not None for r in resizes)
    if not 0 < made <= read:
        return None
    plain = [i for i, r in enumerate(resizes) if r is None]
    bias = None if plain else op.bias
    terms: list[SSAValue] = []
    for i, resize in enumerate(resizes):
        if resize is not None:
            (weight,) = columns(make, op, concat, [i])
            terms.append(resized(make, resize, make(g.ConvOp, resize.input, weight, bias)))
            bias = None
    if plain:  # last, as kernels add the sum of the terms before to their own
        values = [concat.inputs[i] for i in plain]
        weight = joined(make, columns(make, op, concat, plain))
        terms.append(make(g.ConvOp, joined(make, values), weight, op.bias))
    total, *others = terms
    for term in others:
        total = make(g.AddOp, total, term)
    return total


def columns(make: Make, op: g.ConvOp, concat: g.ConcatOp, parts: Sequence[int]) -> list[SSAValue]:
    """Return the weights of a convolution for the channels of each of these parts."""
    sizes = [shape_of(v)[1] for v in concat.inputs]
    ranges = [Range(sum(sizes[:i]), sizes[i]) for i in parts]
    return [sliced_along(make, op.weight, 1, one) for one in ranges]


def joined(make: Make, values: Sequence[SSAValue]) -> SSAValue:
    return values[0] if len(values) == 1 else make(g.ConcatOp, values, axis=1)


class SplitPointwiseConvsPass(SimplifyPass):
    """Apply 1 x 1 convolutions to the smaller values that their input is made of.
    `exact`: not at all."""

    name = "split-pointwise-convs"
    root = g.ConvOp
