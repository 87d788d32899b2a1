"""Kernels for the cube: convolutions.

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
channels, vector cores copy those.
"""

from dataclasses import replace
from math import inf, prod

from ge.dialects.graph.convolution import ConvOp
from ge.dialects.graph.shape import TransposeOp
from ge.dialects.graph.slicing import ConcatOp
from ge.dialects.support.errors import GeError
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import normalize_axis, shape_of
from ge.runtime.library.choices import chosen, is_free
from ge.runtime.library.convolution.blocks import COPIES, ConvolutionWriter
from ge.runtime.library.convolution.cuts import ConvolutionProblem, least_bytes
from ge.runtime.library.convolution.times import Candidates, cycles
from ge.runtime.library.costs.paces import Core
from ge.runtime.library.language.tracing import Tracer
from ge.runtime.library.launch import Arguments, Launch, NotLowered, Written, no_room
from ge.runtime.library.windows.channels_last import lower_channels_last
from ge.runtime.library.windows.sliding import lower_sliding
from ge.runtime.library.windows.windows import Rest


def lower_convolution(launch: Launch) -> Written:
    """A convolution, and ops on its result. Where each channel is one of its own, vector cores do
    it: the cube would multiply one row of 16."""
    body = launch.body
    op = next(op for op in body.ops if isinstance(op, ConvOp))
    if op.groups > 1 and shape_of(op.weight)[:2] == (op.groups, 1):
        return lower_depthwise(launch, op)
    last = body.ops[-1]
    turned = isinstance(last, TransposeOp) and last.ints("permutation") == (0, 2, 3, 1)
    placed = last if turned or isinstance(last, ConcatOp) else None
    written = by_blocks(launch, ConvolutionProblem.of(op, turned), ConvolutionWriter, placed)
    if op.groups == 1 or placed is not None or op.channel_axis != 1:
        return written
    try:
        return min(written, lower_merged(launch), key=lambda found: found.us or 0.0)
    except NotLowered:
        return written


def lower_depthwise(launch: Launch, op: ConvOp) -> Written:
    """By rows of pixels, or by rows of channels, or on the cube, whichever is fastest by
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
    """With groups that are merged."""
    from ge.runtime.library.convolution import merged_groups as groups

    (op,) = (op for op in launch.body.ops if isinstance(op, ConvOp))
    outs, *own = shape_of(op.weight)
    w = groups.merged(op, launch.target)
    written = by_blocks(launch, w, groups.MergedBlocks, unfolded=True)
    shapes = {**written.shapes, op.weight: (outs, prod(own))}
    us = (written.us or 0.0) + groups.merging_us(w, launch.target)
    return replace(written, shapes=shapes, us=us)


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
    rest = Rest(launch, op, w.result_shape, (w.groups, w.outs, 1), placed, after)
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
    return Written(write, cores, w.shapes(cut) | rest.shapes, us)


def check_joined(op: ConcatOp, rest: Rest) -> None:
    """Raises NotLowered for what is not channels of the result, and of inputs."""
    inputs = {*rest.launch.body.inputs}
    if rest.shape[0] != shape_of(op.result)[0]:
        raise NotLowered("its result is concatenated, and in groups")
    if normalize_axis(op.axis.value.data, len(shape_of(op.result))) != 1:
        raise NotLowered("its result is concatenated along other dimensions than channels")
    others = [v for v in op.inputs if v is not rest.computed]
    if len(others) != len(op.inputs) - 1 or not inputs.issuperset(others):
        raise NotLowered("its result is concatenated with what is no input")
