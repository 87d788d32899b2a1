"""The common part of kernels with windows over images: the places of windows, and the ops after."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import ceil, prod
from typing import Any, Literal, TypeAlias, TypeVar

from xdsl.ir import Attribute, SSAValue

from ge.dialects.graph.activation import ReluOp
from ge.dialects.graph.slicing import ConcatOp
from ge.dialects.graph.support.window import Window
from ge.dialects.support.boxes import Box
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import (
    Shape,
    align_up,
    element_type,
    normalize_axis,
    numel,
    shape_of,
)
from ge.runtime.library.language import values as v
from ge.runtime.library.language.indices import Index, Scalar
from ge.runtime.library.language.tracing import Tracer
from ge.runtime.library.language.values import Copied, Expression, Subview, Tile
from ge.runtime.library.launch import Arguments, Launch, NotLowered, in_order, no_room
from ge.runtime.library.pulling import number
from ge.runtime.library.tile_ops import GridOp, is_pointwise, on_grid
from ge.runtime.library.ways import WayOut

T = TypeVar("T")


@dataclass(frozen=True)
class Windows:
    """Windows of lines and columns of an image, or of planes, lines and columns: sizes, those of
    the result, kernel, strides, dilations and pads before. Each plane of a result is an image of
    its own, of as many planes as the kernel has."""

    image: Shape
    result: Shape
    kernel: Shape
    strides: Shape
    dilations: Shape
    pads: Shape

    @cached_property
    def taps(self) -> int:
        return prod(self.kernel)

    @property
    def has_planes(self) -> bool:
        return len(self.result) > 2

    @cached_property
    def planes(self) -> int:
        """Number of planes of the result."""
        return prod(self.result[:-2])

    @property
    def planes_of_kernel(self) -> list[tuple[int, ...]]:
        """The places of its planes; one of no dimension where it has none."""
        return list(product(*map(range, self.kernel[:-2])))

    def pieces(self, unit: int) -> tuple[list[int], list[int]]:
        """Numbers of lines, and of columns in whole units, that blocks of results may have."""
        lines, cols = self.result[-2:]
        wide = [align_up(ceil(cols / n), unit) for n in (1, 2, 4, 8, 16, 32, 64) if n <= cols]
        return sorted({ceil(lines / n) for n in range(1, lines + 1)}), list(dict.fromkeys(wide))

    def image_of(self, c: Tracer, number: Index) -> tuple[Index, tuple[Index, ...]]:
        """The image, and the plane if there are any, that this number of a plane of the results
        belongs to."""
        if not self.has_planes:
            return c.now(number), ()
        number = c.now(number)
        return c.now(number // self.planes), (c.now(number % self.planes),)

    def place(
        self, c: Tracer, i: Index, counts: tuple[int, int, int], sizes: tuple[int, int, int]
    ) -> tuple[Index, Index, tuple[Index, ...]]:
        """The place of block number `i`, of so many blocks of channels, lines and columns in these
        sizes: its image, first channel and first pixel (with its plane, if there are any)."""
        (down, high, across), (channels, lines, cols) = counts, sizes
        block, place = c.now(i // (high * across)), c.now(i % (high * across))
        at = c.now(place // across * lines), c.now(place % across * cols)
        image, plane = self.image_of(c, block // down)
        return image, c.now(block % down * channels), (*plane, *at)

    def starts(self, at: Sequence[Scalar], tap: Sequence[Scalar]) -> list[Scalar]:
        """The place that this kernel element has in the window of a pixel of the result."""
        dims = zip(at, tap, self.strides, self.dilations, self.pads, strict=True)
        return [pixel * step + element * apart - pad for pixel, element, step, apart, pad in dims]

    def spans(self, at: Sequence[Scalar], tap: Sequence[Scalar]) -> list[Any]:
        """The spans of `starts`, for a box of pixels of one plane from there on."""
        starts = zip(self.starts(at, tap), self.strides, strict=True)
        found: list[Any] = [slice(start, None, step) for start, step in starts]
        return [*(at.start for at in found[:-2]), *found[-2:]]


WindowFields: TypeAlias = tuple[Shape, Shape, Shape, Shape, Shape, Shape]
"""Those of `Windows`."""


def windows_of(window: Window, image: Shape, result: Shape) -> WindowFields:
    """The windows of an image, which is one line where they are single elements. Raises NotLowered
    for more than three dimensions."""
    if len(image) > 3:
        raise NotLowered(f"it has {len(image)} spatial dimensions")
    window, ones = window.resolved(image), (1, 1)
    single = {*window.kernel, *window.strides} == {1} and not any(window.pads)
    if single and image == result:
        whole = 1, prod(image)
        return whole, whole, ones, ones, ones, (0, 0)
    return each_dimension(window, image, result)


def each_dimension(window: Window, image: Shape, result: Shape) -> WindowFields:
    """The windows of an image, which has one line if it has one dimension."""
    window, line = window.resolved(image), (1,) * (len(image) == 1)
    return (
        (*line, *image),
        (*line, *result),
        (*line, *window.kernel),
        (*line, *window.strides),
        (*line, *window.dilations),
        (*(0 for _ in line), *window.pads[: window.rank]),
    )


@dataclass(frozen=True)
class Known:
    """Expressions for values, whatever box of them is asked for."""

    launch: Launch
    values: dict[SSAValue, Expression]

    def expression(self, value: SSAValue, box: Box, column: bool = False) -> Expression:
        return self.values[value]

    def tile(self, value: SSAValue, box: Box) -> v.Tile:
        raise NotLowered("there are blocks of scales behind windows")

    def buffer(self, shape: v.Shape, like: SSAValue | Attribute) -> v.Tile:
        raise NotLowered("there are blocks of scales behind windows")

    def column(self, tile: v.Tile, number: int) -> v.Tile:
        raise NotLowered("there are blocks of scales behind windows")


def fastest(launch: Launch, sizes: Mapping[T, int], cycles: Callable[[T], float]) -> T:
    """The fastest of the cuts that fit into UB, by the bytes that each takes. Raises NotLowered
    where none does."""
    room = launch.target.core_memories["ub"]
    fitting = [cut for cut, size in sizes.items() if size <= room]
    if not fitting:
        raise no_room({"ub": min(sizes.values(), default=0)}, launch.target)
    return next(iter(in_order(sorted(fitting, key=cycles))))


Kind = Literal["all", "channel", "image"]
"""Of an operand: as the result, a number for each channel, or one for each of each image."""


@dataclass(frozen=True)
class Rest:
    """The ops after a launch's first one, `op`. `shape`: that of the memref of its result and of
    all of its shape; `column`: of one with a number for each channel. `last`: the last op, where it
    says only where results stand (a transposition, a concatenation of channels); it is none of
    them. `bias`: a value added to the first one's result before them. `ways`: of all results, where
    sums of integers leave the cube by them, and nothing else is to be done. Raises NotLowered where
    the op is not the first one."""

    launch: Launch
    op: TensorOp
    shape: Shape
    column: Shape
    last: TensorOp | None = None
    bias: SSAValue | None = None
    ways: Mapping[SSAValue, WayOut] = field(default_factory=dict[SSAValue, WayOut])

    def __post_init__(self) -> None:
        body = self.launch.body
        if self.op is not body.ops[0]:
            raise NotLowered(f"{body.ops[0].name} stands before {self.op.name}")
        if len(body.outputs) > 1 and self.last is not None and not self.ways:
            raise NotLowered("it has several results, one of which is moved")

    @property
    def ops(self) -> Sequence[TensorOp]:
        return self.launch.body.ops[1 : None if self.last is None else -1]

    @property
    def computed(self) -> SSAValue:
        """The value that the ops compute, at the end."""
        return (self.ops[-1] if self.ops else self.op).results[0]

    @property
    def out(self) -> SSAValue:
        return self.launch.body.outputs[0]

    @cached_property
    def results(self) -> dict[SSAValue, SSAValue]:
        """The computed values that are stored, and the launch's result that each becomes."""
        outs = self.launch.body.outputs
        return {v: v for v in outs} if self.last is None else {self.computed: self.out}

    @cached_property
    def whole(self) -> list[SSAValue]:
        """Values of as many elements as the results, which are in UB together."""
        full = [v for v, kind in self.others.items() if kind == "all"]
        return [*full, *self.results]

    @cached_property
    def whole_bits(self) -> int:
        """Bits of an element of each of the whole operands."""
        return sum(bitwidth(element_type(v)) for v in self.whole)

    @cached_property
    def pixel_bits(self) -> int:
        """Bits in UB of each pixel: two of each whole value."""
        return 2 * (bitwidth(element_type(self.op.results[0])) + self.whole_bits)

    @cached_property
    def narrowest(self) -> int:
        """Bits of the narrowest of its whole values."""
        return min(bitwidth(element_type(v)) for v in (self.op.operands[0], *self.whole))

    @property
    def is_empty(self) -> bool:
        done = not self.ops and self.bias is None and len(self.results) == 1
        return done or bool(self.ways)

    @property
    def is_relu(self) -> bool:
        alone = self.bias is None and len(self.results) == 1
        return [type(op) for op in self.ops] == [ReluOp] and alone

    @cached_property
    def others(self) -> dict[SSAValue, Kind]:
        """The values that the ops take besides the result of `op` and numbers. Raises NotLowered
        for values of other shapes."""
        known: set[SSAValue] = {self.op.results[0]}
        found = dict[SSAValue, Kind]()
        if self.ways:
            return found
        if self.bias is not None and number(self.launch, self.bias) is None:
            found[self.bias] = "channel"
        for op in self.ops:
            if not isinstance(op, GridOp) and not is_pointwise(op):
                raise NotLowered(f"there are no tiles for {op.name} after {self.op.name}")
            for value in op.operands:
                if value not in known and number(self.launch, value) is None:
                    found[value] = self.kind(value, op)
            known.update(op.results)
        return found

    def kind(self, value: SSAValue, user: TensorOp) -> Kind:
        shape, whole = shape_of(value), shape_of(self.op.results[0])
        ones = (1,) * (len(whole) - 2)
        if shape == whole:
            return "all"
        is_column = shape in ((1, whole[1], *ones), (whole[1], *ones))
        if isinstance(user, GridOp) and user.axis is not None:
            is_column = normalize_axis(user.axis.value.data, len(whole)) == 1
        if is_column and numel(shape) == prod(self.column):
            return "channel"
        if shape == (*whole[:2], *ones):
            return "image"
        raise NotLowered(f"{value.type} is broadcast to {self.op.results[0].type}")

    @property
    def shapes(self) -> dict[SSAValue, Shape]:
        of_kind: dict[Kind, Shape] = {
            "all": self.shape, "channel": self.column, "image": (*self.shape[:2], 1)
        }  # fmt: skip
        shapes = {v: of_kind[kind] for v, kind in self.others.items()}
        if not isinstance(self.last, ConcatOp):
            return shapes | dict.fromkeys(self.launch.body.outputs, self.shape)
        joined = (*self.last.inputs, self.out)
        return shapes | {v: (self.shape[0], shape_of(v)[1], *self.shape[2:]) for v in joined}

    def load(
        self,
        c: Tracer,
        rings: Mapping[SSAValue, Tile],
        copy: Index,
        arguments: Arguments,
        place: tuple[Scalar, Scalar, Scalar],
        box: Callable[[SSAValue], Subview],
    ) -> dict[SSAValue, Expression]:
        """The values of `others` for a block at this image, group and row. `box`: the block's of a
        whole one."""
        image, group, row = place

        def part(value: SSAValue, kind: Kind) -> Subview:
            if kind == "all":
                return box(value)
            return arguments[value][image if kind == "image" else group, row:, 0:]

        kinds = self.others
        return {v: c.load(ring[copy], part(v, kinds[v]), pad=1) for v, ring in rings.items()}

    def compute(
        self,
        known: dict[SSAValue, Expression],
        tiles: Mapping[SSAValue, Tile],
        copy: Index,
        store: Callable[[SSAValue, Tile], None],
    ) -> None:
        """The results, one after the other, each in its tile, which `store` stores."""

        def keep(out: SSAValue, value: Expression) -> Tile:
            tile = tiles[out][copy]
            tile[:] = value
            store(out, tile)
            return tile

        shape = tiles[self.out][copy].shape
        first = self.op.results[0]
        if self.bias is not None:
            bias = number(self.launch, self.bias)
            known[first] += known[self.bias] if bias is None else bias
        if first in self.results:
            known[first] = keep(self.results[first], known[first])
        for op in self.ops:
            for operand in op.operands:
                if operand not in known:
                    constant = number(self.launch, operand)
                    if constant is not None:
                        known[operand] = constant
            if isinstance(op, GridOp):
                whole = Box.of([(0, size) for size in shape_of(op.results[0])])
                result = on_grid(Known(self.launch, known), op, whole, False)
            else:
                args = tuple(known[v] for v in op.operands)
                result = Copied(op, args, shape, element_type(op.results[0]))
            value = op.results[0]
            known[value] = keep(self.results[value], result) if value in self.results else result
