"""Kernels for the cube: convolutions, and transposed ones.

A convolution is weights (output channels x depth) times windows (depth x pixels), where depth goes
over input channels and, within each, over kernel elements, as weights lie in memory. So neither
weights nor results are transposed: rows are channels, columns are pixels.

    for i in share(blocks)                       # m channels, `lines` lines of `cols` pixels
      for s in range(steps)                      # `channels` input channels each
        load weights[m.., s..] to A[s]
        for each kernel element t
          load input[s.., y + t // 3.., x + t % 3..] to B[s] rows t step 9 pad 0
        mmad sums, A[s], B[s]
      store sums to result[m.., y.., x..]

Or a step brings the pixels that all windows of a block are within, and windows are unfolded between
L1 and L0. For that channels lie side by side in L1. Where they do not in memory, vector cores
transpose them first; the two beside a cube core have half of the lines each:

        load input[s.., y.., x..] to lines; turned = transposed lines; push, pop to B[s]
        mmad sums, A[s], unfold B[s]

Kernels of one element on whole images have one long line. Channels of a result that is transposed
on its way out are last: then the product is transposed. Bias is a product, too: of the bias as a
column by ones. Pads of images are those of loads. Other ops than relu are on vector cores, which
have half of the rows each; so is a bias of integers. Where the result is concatenated with other
channels, vector cores copy those. But where channels of a result are last, they are columns of the
product, and a bias of integers, and scales by which sums of integers become f16 or i8, are rows of
tables on the cube's own way out (`way_out`), one for each result.

Elements of a transposed convolution's result that lie a stride apart are a convolution of their
own, of stride 1, with every so manyth element of the kernel, backwards. With stride 2 and a kernel
of 4 elements:

    y[2 u + 0] = x[u] w[1] + x[u - 1] w[3]          pad 1
    y[2 u + 1] = x[u + 1] w[0] + x[u] w[2]

These phases are blocks like others; which one it is, is a number that the core computes. A result
has its phases as dimensions of its memref, so that a block has a box of it:

    for i in share(blocks)                       # a phase, m channels, `lines` lines of `cols`
      for s in range(steps)                      # `channels` input channels each
        for each of the kernel's elements t that a phase may have
          load weight[s.., m.., k] to A[s] rows t step taps pad 0
          load input[s.., u..] to B[s] rows t step taps pad 0
        mmad sums, A[s] transposed, B[s]
      store sums to result[m.., u.., phase, ..]

Where a phase has fewer elements than others, both are 0 for those that it lacks. Everything else is
as for other convolutions. Zeros beside the image are multiplied by weights, which the kernel's body
does not: an infinite weight gives nan there."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import ceil, gcd, inf, prod
from typing import Any

from xdsl.ir import SSAValue

from ge.dialects.graph.convolution import ConvOp, ConvTransposeOp
from ge.dialects.graph.shape import TransposeOp
from ge.dialects.graph.slicing import ConcatOp
from ge.dialects.npu_task.attributes import Engine
from ge.dialects.support.errors import GeError
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import Shape, normalize_axis, shape_of
from ge.runtime.library.convolution import blocks as groups
from ge.runtime.library.convolution.blocks import COPIES, ConvolutionWriter
from ge.runtime.library.convolution.cuts import (
    Candidates,
    ConvolutionCut,
    ConvolutionProblem,
    cycles,
    element_of,
    has_bias,
    least_bytes,
)
from ge.runtime.library.costs.paces import Core
from ge.runtime.library.language.indices import Index, Scalar, SharedIndex
from ge.runtime.library.language.tracing import Tracer
from ge.runtime.library.language.values import Subview, Tile, Transposed
from ge.runtime.library.launch import (
    Arguments,
    Launch,
    NotLowered,
    Written,
    chosen,
    is_free,
    no_room,
)
from ge.runtime.library.matmul.outputs import way_out
from ge.runtime.library.ways import WayOut
from ge.runtime.library.windows.depthwise import lower_channels_last, lower_sliding
from ge.runtime.library.windows.windows import Rest, windows_of


def lower_convolution(launch: Launch) -> Written:
    """A convolution, and ops on its result. Where each channel is one of its own, vector cores do
    it: the cube would multiply one row of 16."""
    body = launch.body
    op = next(op for op in body.ops if isinstance(op, ConvOp))
    if op.groups > 1 and shape_of(op.weight)[:2] == (op.groups, 1):
        return lower_depthwise(launch, op)
    last, outs = body.ops[-1], [v.owner for v in body.outputs]
    turned = all(isinstance(o, TransposeOp) and o.ints("permutation") == LAST for o in outs)
    placed = last if turned or isinstance(last, ConcatOp) else None
    written = by_blocks(launch, ConvolutionProblem.of(op, turned), ConvolutionWriter, placed)
    if op.groups == 1 or placed is not None or op.channel_axis != 1:
        return written
    try:
        return min(written, lower_merged(launch), key=lambda found: found.us or 0.0)
    except NotLowered:
        return written


def lower_depthwise(launch: Launch, op: ConvOp) -> Written:
    """A program by rows of pixels, by rows of channels, or on the cube, whichever is fastest by
    estimate."""
    if op.channel_axis != 1:
        return lower_channels_last(launch)
    found, why = list[Written](), NotLowered("")
    start = launch.target.kernel_start_us.get("mixed", 0.0)
    for lowering in DEPTHWISE:
        if lowering is lower_merged and any((written.us or inf) < start for written in found):
            continue
        try:
            found.append(lowering(launch))
        except (NotLowered, GeError) as e:
            why = why if found or str(why) else NotLowered(str(e))
    if not found:
        raise why
    return min(found, key=lambda written: written.us or 0.0)


def lower_merged(launch: Launch) -> Written:
    """A program with groups that are merged."""
    (op,) = (op for op in launch.body.ops if isinstance(op, ConvOp))
    outs, *own = shape_of(op.weight)
    w = groups.merged(op, launch.target)
    written = by_blocks(launch, w, groups.MergedBlocks, unfolded=True)
    shapes = {**written.shapes, op.weight: (outs, prod(own))}
    us = (written.us or 0.0) + groups.merging_us(w, launch.target)
    return replace(written, shapes=shapes, us=us)


LAST = (0, 2, 3, 1)  # the order that brings channels there
DEPTHWISE = lower_sliding, lower_channels_last, lower_merged


def by_blocks(
    launch: Launch,
    w: ConvolutionProblem,
    blocks: type[ConvolutionWriter],
    placed: TensorOp | None = None,
    unfolded: bool = False,
) -> Written:
    """`placed`: the last op, where it says only where results stand. `unfolded`: windows are."""
    op, joined = w.op, placed if isinstance(placed, ConcatOp) else None
    after = op.bias if w.bias is None else None  # that of integers
    ways = ways_of(launch, w)
    rest = Rest(launch, op, w.result_shape, (w.groups, w.outs, 1), placed, after, ways)
    scales = {way.scale for way in ways.values()} - {None}
    w = replace(w, scales=len(scales), bias_row=op.bias is not None and bool(ways))
    passes = not rest.is_empty and not rest.is_relu
    if w.turned and passes:
        raise NotLowered("there are other ops before a transposition")
    if passes:
        w = replace(
            w,
            passing=1 + [*rest.others.values()].count("all"),
            narrowest=rest.narrowest,
            pixel_bits=rest.pixel_bits,
            columns=len(rest.others),
        )
    together = [values for _, values in launch.in_memory() if op.input in values]
    if not together:
        raise NotLowered("there is none for an input that is not in device memory")
    w = replace(w, shared=len(together[0]) > 1 or op.input in rest.others)
    if joined is not None:
        check_joined(joined, rest)
        w = replace(w, copies=COPIES * (len(joined.inputs) - 1))
    within = joined is not None and joined.inputs[-1] is not rest.computed

    target = launch.target
    candidates = Candidates(w, target, even=within, unfolded=unfolded)
    cut = candidates.fastest() if is_free() else chosen(candidates.cuts, candidates.cycles)
    if cut is None:
        raise no_room(least_bytes(w), launch.target)

    def write(c: Tracer, arguments: Arguments) -> None:
        blocks(c, w, cut, arguments, rest).write()

    cores = min(cut.blocks(w), target.cube_cores)
    us = Core.of(target).us("cube", cycles(w, cut, target))
    rows = (v for way in ways.values() for v in (way.scale, way.bias) if v is not None)
    tables = {v: shape_of(v) for v in rows}
    shapes = w.shapes(cut) | rest.shapes | tables
    alone = blocks is not groups.MergedBlocks and not cut.passes(w)
    return Written(write, cores, shapes, us, engine=Engine.CUBE if alone else None)


def ways_of(launch: Launch, w: ConvolutionProblem) -> dict[SSAValue, WayOut]:
    """The ways of sums of integers to all results, which have their channels last: scales are of
    columns. None of other results."""
    room, body = launch.target.core_memories, launch.body
    if not w.turned or not min(room["bt"], room["fb"]):
        return {}
    found = {v: way_out(launch, v) for v in body.outputs}
    ways = {v: way for v, way in found.items() if way is not None}
    at_hand = all(way.is_at_hand(body.inputs) for way in ways.values())
    return ways if at_hand and len(ways) == len(found) else {}


def check_joined(op: ConcatOp, rest: Rest) -> None:
    """Raises NotLowered unless inputs are concatenated with channels of the result."""
    inputs = {*rest.launch.body.inputs}
    if rest.shape[0] != shape_of(op.result)[0]:
        raise NotLowered("its result is concatenated, and in groups")
    if normalize_axis(op.axis.value.data, len(shape_of(op.result))) != 1:
        raise NotLowered("its result is concatenated along other dimensions than channels")
    others = [v for v in op.inputs if v is not rest.computed]
    if len(others) != len(op.inputs) - 1 or not inputs.issuperset(others):
        raise NotLowered("its result is concatenated with what is no input")


def lower_transposed(launch: Launch) -> Written:
    """A transposed convolution, and elementwise ops on its result."""
    op = next(op for op in launch.body.ops if isinstance(op, ConvTransposeOp))
    return by_blocks(launch, Phases.transposed(op), PhaseBlocks)


@dataclass(frozen=True)
class Phases(ConvolutionProblem):
    """A transposed convolution as convolutions of stride 1: `kernel` has the elements that a phase
    has at most, `result` those of its results at most. `steps`: strides, and numbers of phases;
    `begins`: pads; `whole`: the kernel and the result, unchanged."""

    steps: Shape = ()
    begins: Shape = ()
    whole: tuple[Shape, Shape] = ((), ())

    @classmethod
    def transposed(cls, op: ConvTransposeOp) -> "Phases":
        """Raises NotLowered if there is no program for it here."""
        element, shape, weight = element_of(op), op.input_shape(), shape_of(op.weight)
        if op.channel_axis != 1:
            raise NotLowered("its channels are last")
        windows = windows_of(op.transposed_window(weight[2:]), shape[2:], shape_of(op.result)[2:])
        image, result, kernel, steps, apart, begins = windows
        if any(gcd(step, n) > 1 for step, n in zip(steps, apart, strict=True)):
            raise NotLowered("its strides and dilations have a divisor in common")
        if result[-1] % steps[-1]:
            raise NotLowered(f"{result[-1]} columns of its result are no multiple of the stride")
        ones = (1,) * len(image)
        groups, ins = op.groups, weight[0] // op.groups
        return cls(
            image, counts(result, steps), counts(kernel, steps), ones, apart, begins, op,
            element, has_bias(op), shape[0] * groups, groups, ins, weight[1], False, False,
            single_lines=result[-2] % steps[-2] > 0,
            steps=steps, begins=begins, whole=(kernel, result),
        )  # fmt: skip

    @property
    def unfolds(self) -> bool:
        return False

    @cached_property
    def planes(self) -> int:
        """Planes of all phases: each is an image of its own."""
        return prod(self.result[:-2]) * prod(self.steps)

    @property
    def result_shape(self) -> Shape:
        """Lines that are a stride apart, and columns, are dimensions of their own."""
        *planes, high, wide = self.whole[1]
        step, across = self.steps[-2:]
        lines = (high,) if self.single_lines or step == 1 else (high // step, step)
        return (self.batch, self.outs, *planes, *lines, wide // across, across)

    def shapes(self, cut: ConvolutionCut) -> dict[SSAValue, Shape]:
        op = self.op
        shapes: dict[SSAValue, Shape] = {
            op.input: (self.batch, self.ins, *self.image),
            op.weight: (self.groups, self.ins, self.outs, *self.whole[0]),
        }
        if op.bias is not None:
            shapes[op.bias] = self.groups, self.outs, 1
        return shapes

    def taps_of(
        self, at: Sequence[tuple[Scalar, Scalar]], turns: Sequence[Scalar]
    ) -> list[tuple[Scalar, Scalar]]:
        """For each dimension: the element of the kernel that a phase has as its turn's one, and the
        element of the input that it meets at a place of the phase."""
        found = list[tuple[Scalar, Scalar]]()
        dims = zip(at, turns, self.steps, self.dilations, self.begins, strict=True)
        for (place, phase), turn, step, apart, begin in dims:
            first = (
                (phase + begin) * pow(apart, -1, step) % step
            )  # k apart = phase + begin mod step
            start = place + (phase + begin - first * apart) // step - turn * apart
            found.append((first + turn * step, start))
        return found


def counts(sizes: Shape, steps: Shape) -> Shape:
    return tuple(ceil(size / step) for size, step in zip(sizes, steps, strict=True))


class PhaseBlocks(ConvolutionWriter):
    """Places are pairs along each dimension: the place in a phase, and the phase."""

    w: Phases

    @property
    def weights_shape(self) -> tuple[int, int]:
        return self.cut.depth, self.cut.m

    def clear(self) -> None:
        super().clear()
        for copy in range(2):
            self.c.fill(self.weights[copy], 0)

    def place(self, i: SharedIndex) -> tuple[Index, Index, Sequence[Any]]:
        c, w, cut = self.c, self.w, self.cut
        down, high, across = cut.counts(w)
        block, pixel = c.now(i // (high * across)), c.now(i % (high * across))
        at: list[Scalar] = [
            c.now(pixel // across * cut.lines), c.now(pixel % across * cut.cols)
        ]  # fmt: skip
        number, phases = c.now(block // down), list[Scalar]()
        for step in w.steps:
            phases.append(c.now(number % step) if step > 1 else 0)
            number = c.now(number // step) if step > 1 else number
        if w.has_planes:
            at = [c.now(number % w.result[0]), *at]
            number = c.now(number // w.result[0])
        return number, c.now(block % down * cut.m), list(zip(at, phases, strict=True))

    def load_weights(
        self, copy: Index, group: Scalar, m: Index, channel: Index, at: Sequence[Any]
    ) -> Tile | Transposed:
        tile, weight = self.weights[copy], self.arguments[self.w.op.weight]
        for number, turns in self.turns():
            elements = [element for element, _ in self.w.taps_of(at, turns)]
            self.load_tap(tile, number, weight[group, channel:, m:, *elements])
        return tile.T

    def load_windows(self, copy: Index, image: Index, channel: Index, at: Sequence[Any]) -> Tile:
        tile, w = self.windows[copy], self.w
        for number, turns in self.turns():
            found = w.taps_of(at, turns)
            *plane, line, col = [start for _, start in found]
            first: Scalar = channel
            for (element, _), size, step in zip(found, w.whole[0], w.steps, strict=True):
                if size % step:  # beyond the channels, where the kernel has no such element
                    first = first + element // size * w.ins
            box = self.arguments[w.op.input][image, first:, *plane, line:, col:]
            box = box.sized(self.cut.channels, self.cut.lines, self.cut.cols)
            self.load_tap(tile, number, box)
        return tile

    def turns(self) -> list[tuple[int, tuple[int, ...]]]:
        """The elements of the kernel that a phase may have, numbered."""
        return list(enumerate(product(*map(range, self.w.kernel))))

    def load_tap(self, tile: Tile, number: int, box: Subview) -> None:
        self.c.load(tile, box, pad=0, rows=(number, self.cut.channels, self.w.taps))

    def result(
        self, value: SSAValue, image: Scalar, m: Scalar, at: Sequence[Any], rows: int
    ) -> Subview:
        w, steps = self.w, self.w.steps
        *planes, (line, odd), (col, phase) = at
        front = [u * step + e for (u, e), step in zip(planes, steps, strict=False)]
        argument = self.arguments[value]
        if w.single_lines:
            box = argument[image, m:, *front, line * steps[-2] + odd, col:, phase]
            return box.sized(rows, self.cut.cols)
        lines = [slice(line, None)] if steps[-2] == 1 else [slice(line, None), odd]
        box = argument[image, m:, *front, *lines, col:, phase]
        return box.sized(rows, self.cut.lines, self.cut.cols)
