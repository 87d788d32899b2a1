"""Images (tensors with spatial dimensions): resize, grid_sample and affine_grid resample them.
Object detection: the choice among overlapping boxes."""

import struct
from collections.abc import Sequence
from math import floor
from typing import ClassVar, cast

from xdsl.dialects.builtin import BoolAttr, FloatAttr, i1, i64
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
    SEGMENTED,
    TYPES,
    HasAxes,
    OneResultOp,
    check_same_element,
    check_scalar,
    check_shape,
    dims,
    distinct_axes,
    optional,
    parameter,
    partial_ints,
)
from ge.dialects.graph.support.window import spatial_dims
from ge.dialects.support.boxes import Access, Box, Work, blocks
from ge.dialects.support.constraints import (
    COMPUTED,
    F64,
    F64S,
    FLOATS,
    INDICES,
    INTEGERS,
    INTS,
    choice,
    choice_def,
)
from ge.dialects.support.tensor_op import Permuted, PermuteInterface
from ge.dialects.support.types import (
    DYNAMIC,
    Shape,
    array_floats,
    byte_size,
    constant_ints,
    constant_value,
    element_type,
    merge_dims,
    numel,
    shape_of,
    shape_text,
    tensor,
)

NO = BoolAttr.from_bool(False)

INTERPOLATIONS = ("nearest", "linear", "cubic")
COORDINATES = (
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
    "tf_half_pixel_for_nn", "tf_crop_and_resize",
)  # fmt: skip
NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
POLICIES = ("stretch", "not_larger", "not_smaller")
PADDINGS = ("zeros", "border", "reflection")

Interpolation = choice("graph.interpolation", *INTERPOLATIONS)
Coordinates = choice("graph.coordinates", *COORDINATES)
NearestMode = choice("graph.nearest_mode", *NEAREST)
AspectRatioPolicy = choice("graph.aspect_ratio_policy", *POLICIES)
PaddingMode = choice("graph.padding_mode", *PADDINGS)


def scaled_dim(size: int, scale: float) -> int:
    """floor(size * scale), the product rounded to float32 as ONNX implementations do."""
    if not (scale > 0 and size * scale < 2**63):
        raise VerifyException(f"cannot resize {size} elements by scale {scale}")
    (product,) = struct.unpack("f", struct.pack("f", size * scale))
    return floor(product)


def fitted_scale(size: Shape, target: Shape, policy: str) -> float:
    """The one scale of all axes under "not_larger" or "not_smaller"; 1 where all are empty."""
    scales = [t / s for t, s in zip(target, size, strict=True) if s]
    return (min if policy == "not_larger" else max)(scales, default=1.0)


@irdl_op_definition
class ResizeOp(OneResultOp, PermuteInterface, HasAxes):
    """The input resampled along `axes` (all when absent), to `sizes` or by `scales`.

    Index i of the result reads the input around the coordinate that `coordinates` names, for input
    size n, scale s and result size m = n * s. Where scales are stated m may be fractional, as in
    ONNX's reference implementation and node tests (onnxruntime takes the whole number):
      half_pixel (i + 0.5) / s - 0.5; half_pixel_symmetric the same about the image's centre;
      pytorch_half_pixel the same, 0 when m = 1; align_corners i * (n - 1) / (m - 1);
      asymmetric i / s; tf_half_pixel_for_nn (i + 0.5) / s;
      tf_crop_and_resize the crop `roi` (starts, then ends, relative) of the input, with
      `extrapolation_value` outside of the input.
    `mode` is `nearest` (rounding by `nearest_mode`), `linear` or `cubic` (Keys' kernel with
    coefficient `cubic_coeff_a`). Outside of the input the border is repeated, or with
    `exclude_outside` its weights are left out. `antialias` widens the kernel when shrinking.
    `keep_aspect_ratio_policy` `not_larger` or `not_smaller` makes `sizes` a bound.
    """

    name = "graph.resize"
    AXES: ClassVar = ("axes",)
    input = operand_def(COMPUTED)
    roi = opt_operand_def(FLOATS.of_rank(1))
    scales_value = opt_operand_def(FLOATS.of_rank(1))
    sizes_value = opt_operand_def(INTEGERS.of_rank(1))
    result = result_def(COMPUTED)
    scales = opt_prop_def(F64S)
    sizes = opt_prop_def(INTS)
    axes = opt_prop_def(INTS)
    mode = choice_def(Interpolation, "nearest")
    coordinates = choice_def(Coordinates, "half_pixel")
    nearest_mode = choice_def(NearestMode, "round_prefer_floor")
    cubic_coeff_a = prop_def(F64, default_value=FloatAttr(-0.75, 64))
    exclude_outside = prop_def(BoolAttr, default_value=NO)
    antialias = prop_def(BoolAttr, default_value=NO)
    extrapolation_value = prop_def(F64, default_value=FloatAttr(0.0, 64))
    keep_aspect_ratio_policy = choice_def(AspectRatioPolicy, "stretch")
    ACCESS: ClassVar = Access.WINDOW
    PARAMETERS: ClassVar = {"scales_value": "scales", "sizes_value": "sizes"}
    irdl_options = SEGMENTED
    assembly_format = f"$input {optional('roi')} {parameter('scales', 'sizes')} {TYPES}"

    def resized_axes(self) -> tuple[int, ...]:
        axes, rank = self.ints("axes"), len(shape_of(self.input))
        return tuple(range(rank)) if axes is None else distinct_axes(axes, rank)

    def permuted(self, order: Sequence[int]) -> Permuted | None:
        """The op on permuted dimensions, only where elements are copies: sums of weights would be
        rounded in another order."""
        if self.mode.data != "nearest" or self.roi is not None or len(self.operands) > 1:
            return None
        targets = [("scales", self.scale_values()), ("sizes", self.ints("sizes"))]
        axes = self.resized_axes()
        places = sorted(range(len(axes)), key=lambda i: order.index(axes[i]))
        params = {name: [t[i] for i in places] for name, t in targets if t is not None}
        if self.axes is not None:
            params["axes"] = [order.index(axes[i]) for i in places]
        return Permuted([0], order, params)

    def scale_values(self) -> tuple[float, ...] | None:
        """The scales, None when they are absent or known only at run time."""
        if self.scales is not None:
            return array_floats(self.scales)
        known = None if self.scales_value is None else constant_value(self.scales_value)
        if known is None:
            return None
        return tuple(float(v) for v in cast(Sequence[float], known.get_values()))

    def check(self) -> None:
        targets = (self.scales, self.scales_value, self.sizes, self.sizes_value)
        if sum(t is not None for t in targets) != 1:
            raise VerifyException("exactly one of 'scales' and 'sizes' is given")
        if self.antialias.value.data and self.mode.data == "nearest":
            raise VerifyException('antialias does not go with mode "nearest"')
        if self.coordinates.data == "tf_crop_and_resize" and self.roi is None:
            raise VerifyException('coordinates "tf_crop_and_resize" need a roi')
        if element_type(self.input) == i1 and self.mode.data != "nearest":
            raise VerifyException(f'element type i1 is not supported by mode "{self.mode.data}"')
        count = len(self.resized_axes())
        check_shape(self.roi, "roi", (2 * count,))
        check_shape(self.scales_value, "scales", (count,))
        check_shape(self.sizes_value, "sizes", (count,))

    def infer(self) -> Sequence[Attribute]:
        self.check()
        shape, axes = shape_of(self.input), self.resized_axes()
        result = list(shape)
        size = tuple(shape[a] for a in axes)
        for axis, target in zip(axes, self.targets(size), strict=True):
            if shape[axis] == 0 and target > 0:
                raise VerifyException(f"an empty axis cannot be resized to {target}")
            result[axis] = target
        return (tensor(result, element_type(self.input)),)

    def targets(self, size: Shape) -> Sequence[int]:
        scales, sizes = self.scale_values(), partial_ints(self, "sizes")
        targets = scales if sizes is None else sizes
        if targets is None:
            return [DYNAMIC] * len(size)
        if len(targets) != len(size):
            raise VerifyException(f"{len(targets)} targets are given for {len(size)} axes")
        if sizes is not None:
            return self.bounded_sizes(size, dims(sizes))
        assert scales is not None
        return [
            DYNAMIC if n == DYNAMIC else scaled_dim(n, s) for n, s in zip(size, scales, strict=True)
        ]

    def bounded_sizes(self, size: Shape, sizes: Shape) -> Sequence[int]:
        if any(s != DYNAMIC and s < 0 for s in sizes):
            raise VerifyException(f"sizes are not negative, got {list(sizes)}")
        policy = self.keep_aspect_ratio_policy.data
        if policy == "stretch":
            return sizes
        if DYNAMIC in (*size, *sizes):
            return [DYNAMIC] * len(size)
        scale = fitted_scale(size, sizes, policy)
        return [floor(scale * s + 0.5) for s in size]

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        """The box of the input: all along the axes that change, unless each element comes a number
        of times."""
        if index:
            return None
        shape, repeats = shape_of(self.input), self.repeats()
        spans = [blocks(s, repeats.get(i) or 1) for i, s in enumerate(box.spans)]
        return Box.of(spans).along(shape, [i for i, n in repeats.items() if n is None])

    def repeats(self) -> dict[int, int | None]:
        """Number of times that each element along the resized axes comes, None if that is no
        number."""
        axes, shape, target = self.resized_axes(), shape_of(self.input), shape_of(self.result)
        kind, nearest = self.coordinates.data, self.nearest_mode.data
        whole = kind == "asymmetric" and nearest == "floor"
        whole |= kind.endswith("half_pixel") and nearest.startswith("round")
        scales = self.scale_values() or [target[a] / max(shape[a], 1) for a in axes]
        stretch = self.keep_aspect_ratio_policy.data == "stretch" and self.roi is None

        def times(axis: int, scale: float) -> int | None:
            exact = stretch and scale * shape[axis] == target[axis]
            repeated = self.mode.data == "nearest" and whole and scale == int(scale)
            return int(scale) if exact and (repeated or scale == 1) else None

        return {a: times(a, s) for a, s in zip(axes, scales, strict=True)}

    def static_work(self) -> Work:
        taps = {"nearest": 1, "linear": 2, "cubic": 4}[self.mode.data]
        elements = numel(shape_of(self.result))
        return Work(0, elements * 2 * taps * len(self.resized_axes()), *self.traffic())


@irdl_op_definition
class GridSampleOp(OneResultOp):
    """Samples of the input, [batch, channels, spatial...], at the coordinates in `grid`, [batch,
    output..., rank], last spatial dimension first; -1 and 1 are the outer edges of the border
    elements, or their centres with `align_corners`. Outside of the input `padding_mode` holds:
    `zeros`, `border` repeated, `reflection` at the edges."""

    name = "graph.grid_sample"
    input = operand_def(COMPUTED)
    grid = operand_def(FLOATS)
    result = result_def(COMPUTED)
    mode = choice_def(Interpolation, "linear")
    padding_mode = choice_def(PaddingMode, "zeros")
    align_corners = prop_def(BoolAttr, default_value=NO)
    assembly_format = f"$input `,` $grid {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        shape, grid = shape_of(self.input), shape_of(self.grid)
        rank = len(spatial_dims(shape))
        if len(grid) != len(shape) or grid[-1] not in (rank, DYNAMIC):
            raise VerifyException(
                f"a grid for an input of shape {shape_text(shape)} has {len(shape)} dimensions, "
                f"the last {rank}, not shape {shape_text(grid)}"
            )
        text = f"input and grid differ in batch size: {shape[0]} and {grid[0]}"
        batch = merge_dims(shape[0], grid[0], text)
        return (tensor((batch, shape[1], *grid[1:-1]), element_type(self.input)),)

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        batch, channels, *places = box.spans
        if index:
            return Box.of([batch, *places, (0, len(places))])
        return Box.part(shape_of(self.input), {0: batch, 1: channels})

    def static_work(self) -> Work:
        taps = {"nearest": 1, "linear": 2, "cubic": 4}[self.mode.data]
        rank = len(shape_of(self.input)) - 2
        return Work(0, numel(shape_of(self.result)) * 2 * taps**rank, *self.traffic())


@irdl_op_definition
class AffineGridOp(OneResultOp):
    """The grid (see `graph.grid_sample`) of an affine map: `theta` [batch, rank, rank + 1] times
    the coordinates of each pixel of an image of `size` [batch, channels, spatial...]."""

    name = "graph.affine_grid"
    theta = operand_def(FLOATS.of_rank(3))
    size_value = opt_operand_def(INTEGERS.of_rank(1))
    result = result_def(FLOATS)
    size = opt_prop_def(INTS)
    align_corners = prop_def(BoolAttr, default_value=NO)
    PARAMETERS: ClassVar = {"size_value": "size"}
    assembly_format = f"$theta {parameter('size')} {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        theta, element = shape_of(self.theta), element_type(self.theta)
        if theta[1:] not in ((2, 3), (3, 4)):
            raise VerifyException(f"theta is [batch, 2, 3] or [batch, 3, 4], not {self.theta.type}")
        rank, size = theta[1], partial_ints(self, "size")
        if size is None:
            if self.size_value is None:
                raise VerifyException("'size' is missing")
            size = (None,) * (rank + 2)
        elif len(size) != rank + 2 or any(s is not None and s < 0 for s in size):
            raise VerifyException(f"size has {rank + 2} dimensions, got {list(size)}")
        return (tensor((theta[0], *dims(size[2:]), rank), element),)

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        ends = {0: box.spans[0], 1: box.spans[-1]}
        return None if index else Box.part(shape_of(self.theta), ends)

    def static_work(self) -> Work:
        return Work(0, numel(shape_of(self.result)) * 2 * shape_of(self.theta)[2], *self.traffic())


@irdl_op_definition
class NonMaxSuppressionOp(OneResultOp):
    """The boxes that remain when, in the order of descending score, each box drops the later ones
    whose intersection over union with it is above `iou_threshold` (0 if absent).

    `boxes` is [batch, n, 4]: two opposite corners (y, x, y, x), or with `center_point_box` the
    center and the size (x, y, width, height). `scores` is [batch, classes, n]; classes are
    independent, only scores above `score_threshold` count, and at most `max_output` boxes
    remain (none if it is absent). The result has a row (batch, class, box) for each of them: their
    number is known only at run time.
    """

    name = "graph.non_max_suppression"
    boxes = operand_def(FLOATS.of_rank(3))
    scores = operand_def(FLOATS.of_rank(3))
    max_output = opt_operand_def(INTEGERS)
    iou_threshold = opt_operand_def(FLOATS)
    score_threshold = opt_operand_def(FLOATS)
    result = result_def(INDICES.of_rank(2))
    center_point_box = prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))
    irdl_options = SEGMENTED
    assembly_format = (
        f"$boxes `,` $scores {optional('max_output', 'iou_threshold', 'score_threshold')} {TYPES}"
    )

    def dims(self) -> tuple[int, int, int]:
        """Batch, classes and boxes, DYNAMIC where unknown."""
        boxes, scores = shape_of(self.boxes), shape_of(self.scores)
        if boxes[2] not in (4, DYNAMIC):
            raise VerifyException(f"boxes are [batch, boxes, 4], not {self.boxes.type}")
        return merge_dims(boxes[0], scores[0]), scores[1], merge_dims(boxes[1], scores[2])

    def infer(self) -> Sequence[Attribute]:
        self.dims()
        check_same_element(self.boxes, self.scores)
        if self.max_output is not None:
            check_scalar(self.max_output, "max_output")
        for name in ("iou_threshold", "score_threshold"):
            if (threshold := getattr(self, name)) is not None:
                check_scalar(threshold, name)
                check_same_element(self.boxes, threshold)
        return (tensor((DYNAMIC, 3), i64),)

    def static_work(self) -> Work:
        """The work of a sort for each class and, for every box that remains, of the overlap with
        all others."""
        batch, classes, boxes = self.dims()
        if DYNAMIC in (batch, classes, boxes):
            raise ValueError("the number of boxes is not known")
        limit = None if self.max_output is None else constant_ints(self.max_output)
        rows = batch * classes * min(boxes, limit[0] if limit else boxes)
        read = sum(byte_size(o.type) for o in self.operands)
        return Work(0, batch * classes * boxes * 16 + rows * boxes * 12, read, rows * 24)
