"""Convolutions of one to three spatial dimensions, layout [batch, channels, spatial...]."""

from abc import ABC
from collections.abc import Sequence
from math import prod
from typing import ClassVar

from xdsl.dialects.builtin import BoolAttr, IntegerAttr, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
)
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph.linear import product_element
from ge.dialects.graph.support.parameters import (
    SEGMENTED,
    TYPES,
    OneResultOp,
    check_same_element,
    check_shape,
    dims,
    highest,
    lowest,
    optional,
    parameter,
    partial_ints,
)
from ge.dialects.graph.support.window import Window, WindowedOp, spatial_dims
from ge.dialects.support.boxes import Box, Span, Work, blocks, joined, scaled
from ge.dialects.support.constraints import (
    COMPUTED,
    COUNT,
    FACTORS,
    FLOATS,
    INT,
    INTEGERS,
    INTS,
    NUMBERS,
)
from ge.dialects.support.element_types import is_integer
from ge.dialects.support.tensor_op import SplitInterface
from ge.dialects.support.types import (
    DYNAMIC,
    Shape,
    element_type,
    is_static,
    merge_dims,
    numel,
    rank_of,
    shape_of,
    shape_text,
    tensor,
    times,
)


class Convolution(WindowedOp, OneResultOp, ABC):
    """`group` equal parts of the channels are independent. With `input_channels_last` the input is
    [batch, spatial..., channels]; the result never is."""

    input = operand_def(FACTORS)
    weight = operand_def(FACTORS)
    bias = opt_operand_def(NUMBERS)
    result = result_def(NUMBERS)
    group = prop_def(COUNT, default_value=IntegerAttr(1, i64))
    input_channels_last = prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))
    ALWAYS_MACS: ClassVar = True
    assembly_format = f"$input `,` $weight {optional('bias')} {TYPES}"

    @property
    def groups(self) -> int:
        return self.group.value.data

    def window(self) -> Window:
        return self.window_over(shape_of(self.weight)[2:])

    @property
    def channel_axis(self) -> int:
        return rank_of(self.input) - 1 if self.input_channels_last.value.data else 1

    def input_shape(self) -> Shape:
        """The input's dimensions as [batch, channels, spatial...]."""
        shape = shape_of(self.input)
        if not self.input_channels_last.value.data or len(shape) < 3:
            return shape
        return (shape[0], shape[-1], *shape[1:-1])

    def spatial(self) -> Shape:
        """The input's spatial dimensions; VerifyException unless the weight and group fit them."""
        spatial, weight = spatial_dims(self.input_shape()), shape_of(self.weight)
        if len(weight) != len(spatial) + 2:
            raise VerifyException(
                f"weight of shape {shape_text(weight)} does not fit an input of shape "
                f"{shape_text(shape_of(self.input))}: ranks differ"
            )
        return spatial

    def check_divides(self, channels: int, what: str) -> None:
        if channels != DYNAMIC and channels % self.groups:
            raise VerifyException(f"{channels} {what} do not divide into {self.groups} groups")

    def operand_of(self, box: Box, channels: Span, spatial: Sequence[Span]) -> Box:
        """The box of the input of these channels and spatial dimensions."""
        if self.input_channels_last.value.data:
            return Box.of([box.spans[0], *spatial, channels])
        return Box.of([box.spans[0], channels, *spatial])

    def bias_work(self) -> int:
        return 0 if self.bias is None else numel(shape_of(self.result))


@irdl_op_definition
class ConvOp(Convolution, SplitInterface):
    """Convolution (cross-correlation): y[n, m, p] = bias[m] + the sum over input channels c of
    the group and kernel indices k of weight[m, c, k] * x[n, c, p * stride - pad + k * dilation].
    Weight: [output channels, input channels / group, kernel...]. Integers of 8 bits give i32, those
    of 16 bits i64, floats of 8 bits f32; padding of integers holds `pad_value`, the zero point of a
    quantized input."""

    name = "graph.conv"
    pad_value = prop_def(INT, default_value=IntegerAttr(0, i64))

    def infer(self) -> Sequence[Attribute]:
        spatial, weight, window = self.spatial(), shape_of(self.weight), self.window()
        self.check_pad_value()
        batch, channels = self.input_shape()[:2]
        expected = times(weight[1], self.groups)
        merge_dims(
            channels,
            expected,
            f"input has {channels} channels, but a weight of shape {shape_text(weight)} with "
            f"group {self.groups} takes {expected}",
        )
        self.check_divides(weight[0], "output channels")
        element = product_element(self.input, self.weight)
        check_shape(self.bias, "bias", (weight[0],), element)
        output = window.resolved(spatial).output(spatial)
        return (tensor((batch, weight[0], *output), element),)

    def check_pad_value(self) -> None:
        value, element = self.pad_value.value.data, element_type(self.input)
        if value and not is_integer(element):
            raise VerifyException(f"'pad_value' is for integers, not {element}")
        if value and not lowest(element) <= value <= highest(element):
            raise VerifyException(f"'pad_value' {value} is no {element}")

    def is_same_op(self, axis: int) -> bool:
        """True for parts of the batch, or of output channels where all of them see the same
        input."""
        return axis == 0 or (axis == 1 and self.groups == 1)

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        channels, weight = box.spans[1], shape_of(self.weight)
        if index:
            return Box.part(shape_of(self.operands[index]), {0: channels})
        one = self.groups == 1
        groups = (0, 1) if one else blocks(channels, weight[0] // self.groups)
        window = self.window().resolved(self.spatial())
        read = scaled(groups, weight[1])
        return self.operand_of(box, read, window.read(box.spans[2:]))

    def static_work(self) -> Work:
        macs = numel(shape_of(self.result)) * numel(shape_of(self.weight)[1:])
        return Work(macs, self.bias_work(), *self.traffic())


@irdl_op_definition
class ConvTransposeOp(Convolution):
    """Transposed convolution, the gradient of `graph.conv` for its input: each input element adds
    its multiple of the kernel to the output, at its index * stride - pad.
    Weight: [input channels, output channels / group, kernel...]. `output_padding` lengthens the
    output at the end; `auto_pad` asks for input * stride outputs."""

    name = "graph.conv_transpose"
    output_padding = opt_prop_def(INTS)

    def extra(self) -> Shape:
        return self.window_ints("output_padding", rank_of(self.weight) - 2, 0, least=0)

    def transposed_window(self, kernel: Shape) -> Window:
        """The pads that `auto_pad` means do not depend on the input."""
        window = self.window_over(kernel)
        if not window.auto_pad or not is_static(kernel):
            return window
        extra = self.extra()
        totals = [window.extent(i) + extra[i] - s for i, s in enumerate(window.strides)]
        return window.with_pads(totals)

    def infer(self) -> Sequence[Attribute]:
        spatial, weight, extra = self.spatial(), shape_of(self.weight), self.extra()
        batch, channels = self.input_shape()[:2]
        merge_dims(
            channels,
            weight[0],
            f"input has {channels} channels, but a weight of shape {shape_text(weight)} takes "
            f"{weight[0]}",
        )
        self.check_divides(channels, "input channels")
        element = product_element(self.input, self.weight)
        out_channels = times(weight[1], self.groups)
        check_shape(self.bias, "bias", (out_channels,), element)
        window = self.transposed_window(weight[2:])
        output = [transposed_dim(window, extra, i, size) for i, size in enumerate(spatial)]
        return (tensor((batch, out_channels, *output), element),)

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        channels, weight = box.spans[1], shape_of(self.weight)
        if index == 2:
            return Box.of([channels])
        groups = blocks(channels, weight[1])
        read = scaled(groups, weight[0] // self.groups)
        if index:
            one = self.groups == 1
            return Box.part(weight, {0: read, 1: channels} if one else {0: read})
        window = self.transposed_window(weight[2:])
        return self.operand_of(box, read, window.reaching(box.spans[2:], self.spatial()))

    def static_work(self) -> Work:
        macs = numel(shape_of(self.input)) * numel(shape_of(self.weight)[1:])
        return Work(macs, self.bias_work(), *self.traffic())


def transposed_dim(window: Window, extra: Shape, i: int, size: int) -> int:
    """A spatial dimension of the result. Raises VerifyException where pads leave nothing of it."""
    if size == DYNAMIC or window.kernel[i] == DYNAMIC:
        return DYNAMIC
    pads = window.pads[i] + window.pads[i + window.rank]
    result = (size - 1) * window.strides[i] + window.extent(i) + extra[i] - pads
    if result < 0:
        raise VerifyException(f"pads {pads} leave nothing of spatial dimension {i}")
    return result


@irdl_op_definition
class DeformConvOp(WindowedOp, OneResultOp):
    """Deformable convolution of two spatial dimensions (arXiv 1811.11168): like `graph.conv`,
    but each kernel element of each output element has its own `offset` (row, column), read
    by bilinear interpolation, zero outside, and multiplied by `mask`.
    Offset: [batch, offset_group * kernel size * 2, output...], mask half of its channels."""

    name = "graph.deform_conv"
    input = operand_def(FLOATS.of_rank(4))
    weight = operand_def(FLOATS.of_rank(4))
    offset = operand_def(FLOATS)
    bias = opt_operand_def(FLOATS)
    mask = opt_operand_def(FLOATS)
    result = result_def(FLOATS)
    group = prop_def(COUNT, default_value=IntegerAttr(1, i64))
    offset_group = prop_def(COUNT, default_value=IntegerAttr(1, i64))
    irdl_options = SEGMENTED
    assembly_format = f"$input `,` $weight `,` $offset {optional('bias', 'mask')} {TYPES}"

    def window(self) -> Window:
        return self.window_over(shape_of(self.weight)[2:])

    def infer(self) -> Sequence[Attribute]:
        shape, weight = shape_of(self.input), shape_of(self.weight)
        if not is_static(weight):
            raise VerifyException(f"the shape of the weight is known, not {shape_text(weight)}")
        group, parts = self.group.value.data, self.offset_group.value.data
        if weight[0] % group or shape[1] not in (DYNAMIC, weight[1] * group):
            raise VerifyException(
                f"input {shape_text(shape)} and weight {shape_text(weight)} do not fit "
                f"group {group}"
            )
        if weight[1] * group % parts:
            raise VerifyException(
                f"{weight[1] * group} channels do not divide into {parts} offset groups"
            )
        element = product_element(self.input, self.weight)
        channels = parts * prod(weight[2:])
        batch, output = shape[0], self.window().resolved(shape[2:]).output(shape[2:])
        for name, value, count in (("offset", self.offset, 2), ("mask", self.mask, 1)):
            batch, _, *output = check_shape(value, name, (batch, count * channels, *output))
        check_same_element(self.input, self.offset, self.mask)
        check_shape(self.bias, "bias", (weight[0],), element)
        return (tensor((batch, weight[0], *output), element),)

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        batch, channels, *places = box.spans
        shape, weight = shape_of(self.operands[index]), shape_of(self.weight)
        if index == 1 or len(shape) == 1:
            return Box.part(shape, {0: channels})
        if index > 1:
            return Box.part(shape, {0: batch, 2: places[0], 3: places[1]})
        groups = blocks(channels, weight[0] // self.group.value.data)
        return Box.part(shape, {0: batch, 1: scaled(groups, weight[1])})

    def static_work(self) -> Work:
        weight = shape_of(self.weight)
        macs = numel(shape_of(self.result)) * prod(weight[1:])
        samples = numel(shape_of(self.offset)) // 2 * weight[1] * self.group.value.data
        return Work(macs, samples * 8, *self.traffic())


@irdl_op_definition
class Col2ImOp(WindowedOp, OneResultOp):
    """The sum of overlapping blocks: column l of the input, [batch, channels * block size, L],
    is a block of `block_shape` that is added to the image at the l-th position of the window."""

    name = "graph.col2im"
    input = operand_def(COMPUTED.of_rank(3))
    image_shape_value = opt_operand_def(INTEGERS.of_rank(1))
    block_shape_value = opt_operand_def(INTEGERS.of_rank(1))
    image_shape = opt_prop_def(INTS)
    block_shape = opt_prop_def(INTS)
    result = result_def(COMPUTED)
    PARAMETERS: ClassVar = {"image_shape_value": "image_shape", "block_shape_value": "block_shape"}
    irdl_options = SEGMENTED
    assembly_format = f"$input {parameter('image_shape', 'block_shape')} {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        shape, element = shape_of(self.input), element_type(self.input)
        image = self.size("image_shape", self.image_shape_value)
        block = self.size("block_shape", self.block_shape_value)
        if len(image) != len(block):
            raise VerifyException(f"image has {len(image)} dimensions, block {len(block)}")
        window = self.window_over(block)
        if not is_static(block):
            return (tensor((shape[0], DYNAMIC, *image), element),)
        if shape[1] != DYNAMIC and shape[1] % prod(block):
            raise VerifyException(
                f"{shape[1]} rows do not divide into blocks of {shape_text(block)}"
            )
        if is_static(image) and shape[2] not in (DYNAMIC, prod(window.output(image))):
            raise VerifyException(
                f"{shape[2]} blocks given, but the window has {prod(window.output(image))} places"
            )
        channels = shape[1] if shape[1] == DYNAMIC else shape[1] // prod(block)
        return (tensor((shape[0], channels, *image), element),)

    def size(self, name: str, operand: SSAValue | None) -> Shape:
        if (known := partial_ints(self, name)) is not None:
            return dims(known)
        if operand is None:
            raise VerifyException(f"'{name}' is missing")
        (size,) = shape_of(operand)
        if size == DYNAMIC:
            raise VerifyException(f"{name} is a vector of known size, not {operand.type}")
        return (DYNAMIC,) * size

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        image, block = self.ints("image_shape"), self.ints("block_shape")
        if index or image is None or block is None:
            return None
        window, (batch, channels, *places) = self.window_over(block), box.spans
        window, size = window.resolved(image), prod(block)
        counts = window.output(image)
        columns = joined(window.reaching(places, counts), counts)
        return Box.of([batch, scaled(channels, size), columns])

    def static_work(self) -> Work:
        return Work(0, numel(shape_of(self.input)), *self.traffic())
