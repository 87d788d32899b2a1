"""Pooling over sliding windows and regions, and normalization over neighbouring channels."""

from abc import ABC
from collections.abc import Sequence
from math import prod
from typing import ClassVar

from xdsl.dialects.builtin import BoolAttr, FloatAttr, IntegerAttr, i64
from xdsl.ir import Attribute
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
)
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph.support.parameters import (
    TYPES,
    OneResultOp,
    parameter,
)
from ge.dialects.graph.support.window import Window, WindowedOp, spatial_dims
from ge.dialects.support.boxes import Access, Box, Work, window_span
from ge.dialects.support.constraints import (
    COMPUTED,
    COUNT,
    F64,
    FLOATS,
    INDICES,
    INT,
    INTEGERS,
    INTS,
    NUMBERS,
    POSITIVE,
    choice,
    choice_def,
)
from ge.dialects.support.element_types import is_float
from ge.dialects.support.types import (
    DYNAMIC,
    Shape,
    agree,
    element_type,
    numel,
    shape_of,
    shape_text,
    tensor,
)

NO = BoolAttr.from_bool(False)


def fitting_dims(shape: Shape, window: Window) -> Shape:
    spatial = spatial_dims(shape)
    if window.rank != len(spatial):
        raise VerifyException(
            f"a kernel of shape {shape_text(window.kernel)} does not fit an input of shape "
            f"{shape_text(shape)}"
        )
    return spatial


class Pooling(WindowedOp, ABC):
    """One value from the elements under a window of shape `kernel`, channel by channel.
    `ceil_mode` also takes a last window that hangs over the end."""

    ACCESS: ClassVar = Access.WINDOW
    input = operand_def(NUMBERS)
    kernel = prop_def(INTS)
    ceil_mode = prop_def(BoolAttr, default_value=NO)

    def window(self) -> Window:
        kernel = self.ints("kernel") or ()
        return self.window_over(kernel, bool(self.ceil_mode.value.data))

    def pooled_shape(self) -> Shape:
        shape, window = shape_of(self.input), self.window()
        spatial = fitting_dims(shape, window)
        return (*shape[:2], *window.resolved(spatial).output(spatial))

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        window = self.window().resolved(spatial_dims(shape_of(self.input)))
        return Box.of([*box.spans[:2], *window.read(box.spans[2:])])

    def static_work(self) -> Work:
        shape = shape_of(self.input)
        elements = prod(shape[:2]) * self.window().meetings(spatial_dims(shape))
        return Work(0, elements, *self.traffic())


PoolKind = choice("graph.pool_kind", "max", "average", "lp")


@irdl_op_definition
class PoolOp(Pooling, OneResultOp):
    """Pooling of `kind` `max`, `average` or `lp` = (sum |x|^p)^(1/p). Padding does not count,
    except as zeros in the number of elements of an average with `count_include_pad`."""

    name = "graph.pool"
    kind = choice_def(PoolKind)
    result = result_def(NUMBERS)
    count_include_pad = prop_def(BoolAttr, default_value=NO)
    p = prop_def(COUNT, default_value=IntegerAttr(2, i64))
    assembly_format = f"$kind $input {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        kind, element = self.kind.data, element_type(self.input)
        if kind != "max" and not is_float(element):
            raise VerifyException(f'element type {element} is not supported by kind "{kind}"')
        return (tensor(self.pooled_shape(), element),)


@irdl_op_definition
class MaxPoolIndicesOp(Pooling):
    """Max pooling that also gives where each maximum stands (the first of equal ones): its index
    in the whole flattened input, or as if the spatial dimensions were stored in reverse order
    with `column_major`."""

    name = "graph.max_pool_indices"
    column_major = prop_def(BoolAttr, default_value=NO)
    result = result_def(NUMBERS)
    indices = result_def(INDICES)
    assembly_format = f"$input {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        element, shape = element_type(self.input), self.pooled_shape()
        return (tensor(shape, element), tensor(shape, i64))

    def counts_size(self, axis: int, result: int = 0) -> bool:
        """An index in the flattened input has all sizes but the first in it."""
        return result == 1 and axis > 0


@irdl_op_definition
class MaxUnpoolOp(WindowedOp, OneResultOp):
    """The inverse of max pooling: zeros, but for the input's elements at their `indices` into
    the flattened result. A result of larger `output_shape` (all dimensions) is filled up with
    zeros at the end of its dimensions."""

    name = "graph.max_unpool"
    TAKES_INDICES: ClassVar = True
    input = operand_def(COMPUTED)
    indices = operand_def(INDICES)
    output_shape_value = opt_operand_def(INTEGERS.of_rank(1))
    result = result_def(COMPUTED)
    kernel = prop_def(INTS)
    output_shape = opt_prop_def(INTS)
    PARAMETERS: ClassVar = {"output_shape_value": "output_shape"}
    assembly_format = f"$input `,` $indices {parameter('output_shape')} {TYPES}"

    def unpooled_shape(self, shape: Shape) -> Shape:
        window = self.window_over(self.ints("kernel") or ())
        spatial = list(fitting_dims(shape, window))
        for i, size in enumerate(spatial):
            if size != DYNAMIC:
                pads = window.pads[i] + window.pads[i + window.rank]
                spatial[i] = (size - 1) * window.strides[i] + window.extent(i) - pads
        return (*shape[:2], *spatial)

    def infer(self) -> Sequence[Attribute]:
        shape, element = shape_of(self.input), element_type(self.input)
        indices = shape_of(self.indices)
        if not agree(indices, shape):
            raise VerifyException(
                f"indices have shape {shape_text(indices)}, input {shape_text(shape)}"
            )
        inferred, stated = self.unpooled_shape(shape), self.ints("output_shape")
        if stated is None:
            known = self.output_shape_value is None
            return (tensor(inferred if known else [DYNAMIC] * len(shape), element),)
        if len(stated) != len(shape) or any(
            a < b for a, b in zip(stated, inferred, strict=True) if b != DYNAMIC
        ):
            raise VerifyException(
                f"output_shape {shape_text(stated)} is smaller than {shape_text(inferred)}"
            )
        return (tensor(stated, element),)


@irdl_op_definition
class LrnOp(OneResultOp):
    """Local response normalization (Krizhevsky et al., 2012): x / (bias + alpha / size * s)^beta,
    s the sum of x^2 over the `size` channels around the element's own."""

    name = "graph.lrn"
    input = operand_def(FLOATS)
    result = result_def(FLOATS)
    size = prop_def(COUNT)
    alpha = prop_def(F64, default_value=FloatAttr(1e-4, 64))
    beta = prop_def(F64, default_value=FloatAttr(0.75, 64))
    bias = prop_def(F64, default_value=FloatAttr(1.0, 64))
    assembly_format = f"$input {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        spatial_dims(shape_of(self.input))
        return (self.input.type,)

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        batch, channels, *rest = box.spans
        size = self.size.value.data
        return Box.of([batch, window_span(channels, 1, -((size - 1) // 2), size), *rest])

    def static_work(self) -> Work:
        shape, size = shape_of(self.input), self.size.value.data
        around = Window((size,), (1,), (1,), ((size - 1) // 2, size // 2))
        elements = numel(shape) // max(shape[1], 1) * around.meetings(shape[1:2])
        return Work(0, elements + 12 * numel(shape), *self.traffic())


class RegionPooling(OneResultOp, ABC):
    """Each region of interest of a feature map divided into a grid of `output_size`, one value a
    cell. Coordinates are multiplied by `spatial_scale` first."""

    TAKES_INDICES: ClassVar = True
    input = operand_def(FLOATS.of_rank(4))
    rois = operand_def(FLOATS.of_rank(2))
    result = result_def(FLOATS.of_rank(4))
    output_size = prop_def(INTS)
    spatial_scale = prop_def(POSITIVE, default_value=FloatAttr(1.0, 64))
    ROI_COLUMNS: ClassVar[int]

    def infer(self) -> Sequence[Attribute]:
        shape, element = shape_of(self.input), element_type(self.input)
        rois, size = shape_of(self.rois), self.ints("output_size") or ()
        columns = type(self).ROI_COLUMNS
        if not agree(rois, (DYNAMIC, columns)) or element_type(self.rois) != element:
            raise VerifyException(
                f"rois are [regions, {columns}] of {element}, not {self.rois.type}"
            )
        if len(size) != 2 or min(size) < 1:
            raise VerifyException(f"'output_size' is a positive height and width, got {list(size)}")
        return (tensor((rois[0], shape[1], *size), element),)

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        regions, channels = box.spans[:2]
        return Box.part(shape_of(self.operands[index]), {0: regions} if index else {1: channels})


RegionMode = choice("graph.region_mode", "average", "max")


@irdl_op_definition
class RoiAlignOp(RegionPooling):
    """RoIAlign (Mask R-CNN, arXiv 1703.06870). A row of `rois` is x1, y1, x2, y2;
    `batch_indices` tells the image of each. A cell is the `mode` (`average` or `max`) of
    `sampling_ratio` x `sampling_ratio` samples read by bilinear interpolation (0: one sample for
    about each element). With `half_pixel` coordinates are shifted by -0.5."""

    name = "graph.roi_align"
    input = operand_def(FLOATS.of_rank(4))
    rois = operand_def(FLOATS.of_rank(2))
    batch_indices = operand_def(INTEGERS.of_rank(1))
    mode = choice_def(RegionMode, "average")
    sampling_ratio = prop_def(INT, default_value=IntegerAttr(0, i64))
    half_pixel = prop_def(BoolAttr, default_value=BoolAttr.from_bool(True))
    ROI_COLUMNS: ClassVar = 4
    assembly_format = f"$input `,` $rois `,` $batch_indices {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        if self.sampling_ratio.value.data < 0:
            raise VerifyException(
                f"'sampling_ratio' is not negative, got {self.sampling_ratio.value.data}"
            )
        return super().infer()

    def static_work(self) -> Work:
        samples = max(self.sampling_ratio.value.data, 2) ** 2
        return Work(0, numel(shape_of(self.result)) * samples * 8, *self.traffic())


@irdl_op_definition
class MaxRoiPoolOp(RegionPooling):
    """RoI max pooling (Fast R-CNN, arXiv 1504.08083). A row of `rois` is batch index, x1, y1, x2,
    y2; corners are rounded and belong to the region. An empty cell is 0."""

    name = "graph.max_roi_pool"
    ROI_COLUMNS: ClassVar = 5
    assembly_format = f"$input `,` $rois {TYPES}"
