"""Values that can be scaled channel by channel without a change of the result, and the rewrite.

    %0 = graph.conv %x, %w bias %b                %0 = graph.conv %x, (%w / s) bias (%b / s)
    %1 = graph.clamp %0 low(0) high(6)    ->      %1 = graph.relu %0
                                                  %2 = graph.minimum %1, (6 / s)
    %2 = graph.conv %1, %v                        %3 = graph.conv %2, (%v * s)

A group is all values that must be divided by s together: the factor passes through ops that are
homogeneous in each channel (relu, pooling, sums, views), is made by layers and norms (producers)
and is undone by layers (users). Weights stay expressions, which prepare-weights computes once.
"""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import cast

import numpy as np
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from ge.dialects import graph
from ge.dialects.graph import elementwise as g
from ge.dialects.graph.normalization import axis_of
from ge.dialects.graph.stated import state_divided
from ge.dialects.support.diagnostics import sources_of
from ge.dialects.support.types import DYNAMIC, Shape, array_ints, element_type, rank_of, shape_of
from ge.runtime.data.arrays import Array, dtype_of
from ge.transforms.analysis.polynomials import number_of
from ge.transforms.graph.control_flow import constant_before, insert_before, replace_op
from ge.transforms.quantization.layers import LayerOp, output_axis, weight_axes

Place = tuple[SSAValue, int]  # a value and the axis of its channels


class Blocked(Exception):
    """A value that cannot be scaled: why, and the op in the way."""

    def __init__(self, why: str, op: Operation | None = None) -> None:
        super().__init__(why)
        self.op = op


@dataclass
class ChannelGroup:
    """Values that are divided by the same factors, one for each channel."""

    values: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])  # -> axis of channels
    # layers and norms -> axis of channels in the result
    producers: dict[Operation, int] = field(default_factory=dict[Operation, int])
    users: dict[LayerOp, None] = field(default_factory=dict[LayerOp, None])
    limits: dict[g.ClampOp, int] = field(default_factory=dict[g.ClampOp, int])
    # constants that are divided too: op and operand -> axis of channels in the result
    vectors: dict[tuple[Operation, int], int] = field(
        default_factory=dict[tuple[Operation, int], int]
    )

    @property
    def channels(self) -> int:
        value, axis = next(iter(self.values.items()))
        return shape_of(value)[axis]


def group_of(value: SSAValue, axis: int, constants: Container[SSAValue]) -> ChannelGroup:
    """The group of a value. Raises Blocked."""
    return _Walk(constants).run(value, axis)


def input_axis(op: LayerOp) -> int:
    """The axis of the channels in a layer's input."""
    return rank_of(op.operands[0]) - 1 if isinstance(op, graph.MatmulOp) else op.channel_axis


def takes_factors(op: Operation, constants: Container[SSAValue]) -> bool:
    """Return whether an op is a layer whose weight has input and output channels."""
    if isinstance(op, graph.MatmulOp):
        is_plain = not op.transpose_lhs.value.data and op.lhs not in constants
        return is_plain and op.rhs in constants and rank_of(op.rhs) == 2
    if not isinstance(op, graph.ConvOp | graph.ConvTransposeOp) or op.weight not in constants:
        return False
    return op.bias is None or op.bias in constants


class _Walk:
    def __init__(self, constants: Container[SSAValue]) -> None:
        self.constants, self.group = constants, ChannelGroup()

    def run(self, value: SSAValue, axis: int) -> ChannelGroup:
        todo: list[Place] = [(value, axis)]
        while todo:
            value, axis = todo.pop()
            if (known := self.group.values.get(value)) is not None:
                if known != axis:
                    raise Blocked("its channels are two axes of one value")
                continue
            if isinstance(value.owner, Block):
                raise Blocked("it is an input of the model")
            if shape_of(value)[axis] == DYNAMIC:
                raise Blocked("the number of channels is not known", value.owner)
            self.group.values[value] = axis
            todo += self.behind(value.owner, value, axis)
            for use in value.uses:
                if use.operation.parent is not value.owner.parent:
                    raise Blocked("a branch or a loop uses it", use.operation)
                todo += self.ahead(use.operation, use.index, value, axis)
        return self.group

    def behind(self, op: Operation, value: SSAValue, axis: int) -> Iterable[Place]:
        """Return the values that scale along with a result of `op`."""
        if takes_factors(op, self.constants):
            if axis != output_axis(op):
                raise Blocked(f"the channels are not those of {op.name}", op)
            self.group.producers[op] = axis
            return ()
        if isinstance(op, graph.TrailingNorm | graph.GroupNormOp):
            self.check_norm(op, axis)
            self.group.producers[op] = axis
            return ()
        return self.linked(op, value, axis)

    def check_norm(self, op: graph.TrailingNorm | graph.GroupNormOp, axis: int) -> None:
        first = 1 if isinstance(op, graph.GroupNormOp) else axis_of(op.axis.value.data, op.input)
        vectors = op.operands[1:]
        if axis < first or (isinstance(op, graph.GroupNormOp) and axis > 1):
            raise Blocked(f"the channels are not those of {op.name}", op)
        if not all(v in self.constants for v in vectors):
            raise Blocked(f"scale and bias of {op.name} are not constant", op)

    def ahead(self, op: Operation, index: int, value: SSAValue, axis: int) -> Iterable[Place]:
        """Return the values that scale along with operand `index` of `op`."""
        if isinstance(op, LayerOp):
            if index or axis != input_axis(op) or not takes_factors(op, self.constants):
                raise Blocked(f"{op.name} takes no factor for each channel", op)
            self.group.users[op] = None
            return ()
        if isinstance(op, ReturnOp):
            raise Blocked("it is a result of the model", op)
        return self.linked(op, value, axis)

    def linked(self, op: Operation, value: SSAValue, axis: int) -> Iterable[Place]:
        """The other operands and results of an op that lets factors through."""
        both = [v for v in (*op.operands, *op.results) if v not in self.constants]
        match op:
            case graph.ReluOp() | graph.LeakyReluOp():
                return [(v, axis) for v in both]
            case g.ClampOp() if all(v in self.constants for v in op.operands[1:]):
                self.group.limits[op] = axis
                return [(v, axis) for v in both]
            case graph.PoolOp() if axis == 1 and op.kind.data != "lp":
                return [(v, axis) for v in both]
            case g.AddOp() | g.SubOp() | g.MinimumOp() | g.MaximumOp() | g.MulOp() | g.DivOp():
                return self.through_binary(op, value, axis)
            case graph.ReduceOp() if op.kind.data in ("mean", "sum", "max", "min"):
                places = self.through_reduce(op, value, axis)
            case graph.ReshapeOp() | graph.SqueezeOp() | graph.UnsqueezeOp():
                source, target = shape_of(op.operands[0]), shape_of(op.results[0])
                places = _paired(op, value, axis, reshaped_axes(source, target))
            case graph.TransposeOp():
                order = array_ints(op.permutation)
                places = _paired(op, value, axis, list(zip(order, range(len(order)), strict=True)))
            case _:
                places = []
        if not places:
            raise Blocked(f"{op.name} takes no factor for each channel", op)
        return places

    def through_binary(self, op: g.Binary, value: SSAValue, axis: int) -> list[Place]:
        moving = [v for v in op.operands if v not in self.constants]
        shape = shape_of(op.result)
        if any(shape_of(v) != shape for v in moving):
            raise Blocked("it is broadcast", op)
        if isinstance(op, g.DivOp) and op.lhs in self.constants:
            raise Blocked("it is a divisor", op)
        is_factor = isinstance(op, g.MulOp | g.DivOp)
        if is_factor and op.rhs in moving:
            # of two factors that depend on the inputs one takes the scale
            takes = [v for v in moving if _is_linear(v)][:1] if isinstance(op, g.MulOp) else []
            if not takes or op.lhs is op.rhs or value not in (*takes, op.result):
                raise Blocked(f"{op.name} takes no factor for each channel", op)
            moving = takes
        elif not is_factor:
            for i, v in enumerate(op.operands):
                if v in self.constants:
                    self.group.vectors[op, i] = axis
        return [(v, axis) for v in (*moving, op.result)]

    def through_reduce(self, op: graph.ReduceOp, value: SSAValue, axis: int) -> list[Place]:
        axes, rank = op.reduced_axes(), rank_of(op.input)
        if axes is None:
            return []
        kept = [i for i in range(rank) if i not in axes]
        keeps = op.keep_dims.value.data
        return _paired(op, value, axis, [(i, i if keeps else kept.index(i)) for i in kept])


def _is_linear(value: SSAValue) -> bool:
    op = value.owner
    if isinstance(op, g.AddOp):
        return any(isinstance(v.owner, LayerOp) for v in op.operands)
    return isinstance(op, LayerOp)


def _paired(
    op: Operation, value: SSAValue, axis: int, pairs: Sequence[tuple[int, int]]
) -> list[Place]:
    """Input and result of an op with their axes, where axes (of input, of result) belong
    together."""
    side = 1 if value is op.results[0] else 0
    pair = next((p for p in pairs if p[side] == axis), None)
    return [] if pair is None else [(op.operands[0], pair[0]), (op.results[0], pair[1])]


def reshaped_axes(source: Shape, target: Shape) -> list[tuple[int, int]]:
    """The axes that a reshape keeps: of one size, with as many elements after them. Sizes before
    them, such as the batch, do not matter."""

    def tails(shape: Shape) -> dict[tuple[int, int], int]:
        known = [i for i in range(len(shape)) if DYNAMIC not in shape[i:]]
        return {(d, prod(shape[i + 1 :])): i for i in known if (d := shape[i]) > 1}

    ends = tails(target)
    return [(i, ends[key]) for key, i in tails(source).items() if key in ends]


# ---- the rewrite -----------------------------------------------------------------------------


def divide(group: ChannelGroup, factors: Array) -> None:
    """Divide all values of a group by a factor for each channel."""
    factors = factors.astype(np.float32)
    inverse = np.float32(1) / factors
    for op, axis in group.producers.items():
        scale_results(op, axis, inverse)
    for (op, index), axis in group.vectors.items():
        multiply(op, index, along(inverse, axis, rank_of(op.results[0])))
    for op, axis in group.limits.items():
        spread_limits(op, axis, inverse)
    for op in group.users:
        scale_weight(op, weight_axes(op)[1], factors)
    axes = {n: a for v, a in group.values.items() for n in sources_of(cast(Operation, v.owner))}
    if axes and (main := next(iter(group.users)).parent_op()) is not None:
        state_divided(main, axes, map(float, factors))


def along(vector: Array, axis: int, rank: int) -> Array:
    return vector.reshape([-1, *[1] * (rank - 1 - axis)])


def multiply(op: Operation, index: int, factors: Array) -> None:
    value = op.operands[index]
    factors = factors.astype(dtype_of(element_type(value)))
    op.operands[index] = insert_before(op, g.MulOp.of(value, constant_before(op, factors))).result


def scale_results(op: Operation, axis: int, factors: Array) -> None:
    if isinstance(op, LayerOp):
        scale_weight(op, weight_axes(op)[0], factors)
        if not isinstance(op, graph.MatmulOp) and op.bias is not None:
            multiply(op, 2, factors)
    else:  # a norm
        rank = 1 if isinstance(op, graph.GroupNormOp) else rank_of(op.results[0]) - axis
        for i in range(1, len(op.operands)):
            multiply(op, i, along(factors, 0, rank))


def scale_weight(op: LayerOp, axis: int, factors: Array) -> None:
    """Multiply the weight of a layer by a factor for each channel along one of its axes."""
    shape = shape_of(op.operands[1])
    if isinstance(op, graph.MatmulOp) or op.groups == 1 or axis == 0:
        multiply(op, 1, along(factors, axis, len(shape)))
    else:  # the axis has the channels of one group
        by_group = np.repeat(factors.reshape(op.groups, -1), shape[0] // op.groups, 0)
        multiply(op, 1, by_group.reshape(*shape[:2], *[1] * (len(shape) - 2)))


def spread_limits(op: g.ClampOp, axis: int, factors: Array) -> None:
    """A clamp with limits for each channel; its range is that of what replaces it."""
    value, vector = op.input, along(factors, axis, rank_of(op.input))
    for kind, limit in ((g.MaximumOp, op.low), (g.MinimumOp, op.high)):
        if limit is not None and kind is g.MaximumOp and number_of(limit) == 0:
            value = insert_before(op, graph.ReluOp.of(value)).result
        elif limit is not None:
            new = insert_before(op, kind.of(value, limit))
            multiply(new, 1, vector)
            value = new.result
    if isinstance(value.owner, Operation) and value is not op.input:
        value.owner.attributes.update(op.attributes)
    replace_op(op, [value])
