"""Bodies of launches on as few dimensions as they have: the form that a lowering to tiles works on.

    %0 = graph.add %x, %b : (tensor<2x16x8x8xf32>, tensor<2x16x1x1xf32>)
    %1 = graph.layer_norm %0, %w, %v axis 2 : (tensor<2x16x8x8xf32>, tensor<8x8xf32>, ...)
becomes, after `simple_ops` has made reductions and elementwise ops of the norm,
    %0 = graph.add %x, %b : (tensor<32x64xf32>, tensor<32x1xf32>)
    %1 = graph.reduce sum %0 axes [1] : (tensor<32x64xf32>) -> tensor<32x1xf32>
    ...

An axis runs through all values whose elements stand against each other. Two axes are one where no
value has one of them alone, or another one between them; views cut axes, or do nothing. All values
that share axes have the same dimensions, of size 1 where a value lacks the axis. Other ops keep
their shapes, and stand between two `graph.reshape`.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import prod
from typing import TypeAlias, TypeGuard

from xdsl.ir import Block, SSAValue

from ge.dialects.fused_op import Body
from ge.dialects.graph.attention import RotaryEmbeddingOp
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.quantization import LookupOp, RequantizeOp
from ge.dialects.graph.reduction import CumulativeOp, ReduceOp
from ge.dialects.npu_task.attributes import number
from ge.dialects.support.boxes import Access
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import Shape, element_type, normalize_axis, numel, shape_of, tensor
from ge.runtime.library.launch import Launch, NotLowered, Replaced
from ge.runtime.library.rows.simple_ops import reshaped as reshape_to
from ge.runtime.library.rows.simple_ops import simple_body
from ge.runtime.library.tile_ops import GridOp, is_pointwise

Node: TypeAlias = tuple[int, int]
"""An axis of one value, by its stride in elements. Values have numbers: hashes of theirs take
longer."""


@dataclass(frozen=True)
class Rewritten(Replaced):
    """A launch on few dimensions."""

    shape: Shape  # the dimensions of its results, with those that they are reduced along
    reduced: frozenset[int]  # these


def rewritten(launch: Launch) -> Rewritten:
    """The launch on few dimensions. Raises NotLowered if an axis stands against itself, or a result
    is an operand or another result unchanged."""
    body = launch.body
    values = (*body.inputs, *(r for op in body.ops for r in op.results))
    if any(numel(shape_of(v)) == 0 for v in values):
        raise NotLowered("it has no elements")
    simple, known = simple_body(body)
    axes = Axes(simple)
    new, renamed = axes.rebuilt()
    arguments = dict.fromkeys((*body.inputs, *body.outputs))
    before = {renamed[known[v]]: v for v in arguments}
    if len(before) < len(arguments):
        raise NotLowered("a result is the same value as another argument")
    family = axes.family(simple.outputs)
    return Rewritten(launch.kernel, launch.target, new, before, *family, of=launch)


@lru_cache(maxsize=4096)
def strides_of(shape: Shape) -> Sequence[int]:
    return [prod(shape[i + 1 :]) for i in range(len(shape))]


@dataclass
class Axes:
    """The axes of a body."""

    body: Body
    cuts: dict[SSAValue, list[set[int]]] = field(default_factory=dict[SSAValue, list[set[int]]])
    """Of each dimension: the strides within it, in its own elements, at which it is cut."""
    parts: dict[SSAValue, list[tuple[int, int]]] = field(
        default_factory=dict[SSAValue, list[tuple[int, int]]]
    )
    """Strides and sizes of what the dimensions are cut into, but for those of size 1."""
    parents: dict[Node, Node] = field(default_factory=dict[Node, Node])

    def __post_init__(self) -> None:
        for value in self.values:
            self.cuts[value] = [set() for _ in shape_of(value)]
        aligned = {op: list(aligned_dims(op)) for op in self.body.ops}
        while any([self._cut(op, dims) for op, dims in aligned.items()]):
            pass
        self.parts.update((value, self._parts(value)) for value in self.values)
        for op, dims in aligned.items():
            for a, b in self._pairs(op, dims):
                self.parents[self.find(a)] = self.find(b)

    @cached_property
    def numbers(self) -> dict[SSAValue, int]:
        return {value: number for number, value in enumerate(self.values)}

    @cached_property
    def values(self) -> list[SSAValue]:
        ops = self.body.ops
        found = (*self.body.inputs, *(v for op in ops for v in (*op.operands, *op.results)))
        return list(dict.fromkeys(found))

    # ---- where dimensions are cut

    def _cut(self, op: TensorOp, aligned: "Sequence[tuple[Dim, Dim]]") -> bool:
        """Cut operands and results in the same way; whether that was new."""
        new = False
        for (a, i), (b, j) in aligned:
            first, second = self.cuts[a], self.cuts[b]
            if first[i] != second[j]:
                first[i] = second[j] = first[i] | second[j]
                new = True
        if op.ACCESS is Access.VIEW:
            ends = op.operands[0], op.results[0]
            for source, target in (ends, ends[::-1]):
                new |= self._cut_view(op, self._parts(source), target)
        return new

    def _cut_view(self, op: TensorOp, parts: Sequence[tuple[int, int]], target: SSAValue) -> bool:
        new, shape = False, shape_of(target)
        for at, _ in parts:
            for dim, (extent, stride) in enumerate(zip(shape, strides_of(shape), strict=True)):
                if stride < at < stride * extent:
                    inner = at // stride
                    chain = {*self.cuts[target][dim], inner, extent}
                    ordered = sorted(chain)
                    pairs = itertools.pairwise(ordered)
                    if at % stride or any(b % a for a, b in pairs):
                        raise NotLowered(f"{op.name} to {target.type} cuts its dimensions anew")
                    new |= inner not in self.cuts[target][dim]
                    self.cuts[target][dim].add(inner)
        return new

    # ---- axes

    def nodes(self, value: SSAValue) -> list[Node]:
        """The axes of a value, the outermost first."""
        number = self.numbers[value]
        return [(number, stride) for stride, _ in self.parts[value]]

    def _parts(self, value: SSAValue) -> list[tuple[int, int]]:
        shape, found = shape_of(value), list[tuple[int, int]]()
        for extent, stride, cuts in zip(shape, strides_of(shape), self.cuts[value], strict=True):
            ends = sorted({1, *cuts, extent}, reverse=True)
            sizes = itertools.pairwise(ends)
            found += [(stride * inner, outer // inner) for outer, inner in sizes]
        return found

    def find(self, node: Node) -> Node:
        while (parent := self.parents.get(node, node)) != node:
            node = parent
        return node

    def _pairs(
        self, op: TensorOp, aligned: "Sequence[tuple[Dim, Dim]]"
    ) -> Iterator[tuple[Node, Node]]:
        """Axes of an op's operands and results that are one."""
        for (a, i), (b, j) in aligned:
            first, second = (strides_of(shape_of(v))[k] for v, k in ((a, i), (b, j)))
            for inner in {1, *self.cuts[a][i]} - {shape_of(a)[i]}:
                yield (self.numbers[a], first * inner), (self.numbers[b], second * inner)
        if op.ACCESS is Access.VIEW:
            for node in self.nodes(op.operands[0]):
                yield node, (self.numbers[op.results[0]], node[1])

    # ---- axes that are one

    @cached_property
    def lists(self) -> dict[SSAValue, list[Node]]:
        """The axes of each value. Raises NotLowered where an axis stands against itself."""
        found = {v: [self.find(n) for n in self.nodes(v)] for v in self.values}
        for value, axes in found.items():
            if len(set(axes)) < len(axes):
                raise NotLowered(f"{value.type} has the same axis twice")
        return found

    @cached_property
    def sizes(self) -> dict[Node, int]:
        return {
            axis: size
            for value, axes in self.lists.items()
            for axis, (_, size) in zip(axes, self.parts[value], strict=True)
        }

    def walls(self, value: SSAValue) -> Iterator[tuple[Node, Node]]:
        """Pairs of axes that are of two dimensions next to each other."""
        axes, inner = self.lists[value], strides_of(shape_of(value))
        for (_, stride), before, after in zip(self.nodes(value), axes, axes[1:], strict=False):
            if stride in inner:
                yield before, after

    def along(self, op: TensorOp) -> list[Node]:
        """The axes that an op accumulates along."""
        dims = op.row_axes() or () if isinstance(op, CumulativeOp) else ()
        strides, shape = strides_of(shape_of(op.results[0])), shape_of(op.results[0])
        return [
            axis
            for dim in dims
            for axis, (_, at) in zip(
                self.lists[op.results[0]], self.nodes(op.results[0]), strict=True
            )
            if strides[dim] <= at < strides[dim] * shape[dim]
        ]

    def walls_around(self, op: TensorOp) -> Iterator[tuple[Node, Node]]:
        """Pairs of axes that are next to each other, of which an op accumulates along one."""
        if along := self.along(op):
            axes = self.lists[op.results[0]]
            pairs = itertools.pairwise(axes)
            yield from (pair for pair in pairs if (pair[0] in along) != (pair[1] in along))

    @cached_property
    def groups(self) -> dict[Node, list[Node]]:
        """Axes that are one, by the first of them."""
        walls = {
            pair
            for op in self.body.ops
            if not is_along_axes(op)
            for v in (*op.operands, *op.results)
            for pair in self.walls(v)
        } | {wall for op in self.body.ops for wall in self.walls_around(op)}
        following: dict[Node, set[Node | None]] = {axis: set() for axis in self.sizes}
        leading: dict[Node, set[Node | None]] = {axis: set() for axis in self.sizes}
        for axes in self.lists.values():
            for before, axis, after in zip([None, *axes], axes, [*axes[1:], None], strict=False):
                following[axis].add(after)
                leading[axis].add(before)
        joined: dict[Node, Node] = {}
        for axis, others in following.items():
            other = next(iter(others))
            if len(others) == 1 and other is not None and leading[other] == {axis}:
                if (axis, other) not in walls:
                    joined[axis] = other
        found: dict[Node, list[Node]] = {}
        for axis in self.sizes:
            if axis not in joined.values():
                found[axis] = [axis]
                while (last := found[axis][-1]) in joined:
                    found[axis].append(joined[last])
        return found

    @cached_property
    def families(self) -> dict[Node, list[Node]]:
        """For each group the groups that it stands in values with, the outermost first. Raises
        NotLowered if two values have them in another order."""
        lists = {tuple([a for a in axes if a in self.groups]) for axes in self.lists.values()}
        families = {axis: {axis} for axis in self.groups}
        for axes in lists:
            whole = set[Node]().union(*(families[a] for a in axes))
            for axis in whole:
                families[axis] = whole
        found: dict[Node, list[Node]] = {}
        for axis, family in families.items():
            order, left = list[Node](), [a for a in self.groups if a in family]
            while left:
                behind = {b for axes in lists for i, b in enumerate(axes) if {*axes[:i]} & {*left}}
                if all(a in behind for a in left):
                    raise NotLowered("its values have their dimensions in different orders")
                first = next(a for a in left if a not in behind)
                order.append(first)
                left.remove(first)
            found[axis] = order
        return found

    def shape(self, value: SSAValue) -> Shape:
        """Shape of the value on few dimensions."""
        axes = [a for a in self.lists[value] if a in self.groups]
        if not axes:
            return (1,)
        extents = {a: prod(self.sizes[n] for n in self.groups[a]) for a in axes}
        return tuple(extents.get(a, 1) for a in self.families[axes[0]])

    def family(self, values: Sequence[SSAValue]) -> tuple[Shape, frozenset[int]]:
        """The dimensions of values (of reduced ones, if a reduction leaves none), and which of them
        are reduced. Raises NotLowered for values that share none."""
        reductions = [op for op in self.body.ops if isinstance(op, ReduceOp)]
        sources = [op.operands[0] for op in reversed(reductions)]
        axes = next(
            (a for v in (*values, *sources) for a in self.lists[v] if a in self.groups), None
        )
        if axes is None:
            return (1,), frozenset()
        order = self.families[axes]
        if any({*self.lists[v]} - {a for g in order for a in self.groups[g]} for v in values):
            raise NotLowered("its results have no dimensions in common")
        gone = {
            a
            for op in reductions
            for a in {*self.lists[op.operands[0]]} - {*self.lists[op.results[0]]}
        }
        for op in self.body.ops:
            if isinstance(op, RotaryEmbeddingOp):  # it needs whole rows, too
                gone |= set(self.lists[op.results[0]][-1:])
            gone |= set(self.along(op))
        shape = tuple(prod(self.sizes[n] for n in self.groups[a]) for a in order)
        return shape, frozenset(i for i, a in enumerate(order) if a in gone)

    # ---- the new body

    def rebuilt(self) -> tuple[Body, dict[SSAValue, SSAValue]]:
        """The body on few dimensions, and its value for each of this one."""
        block, new = Block(), dict[SSAValue, SSAValue]()
        for value in self.body.inputs:
            kind = tensor(self.shape(value), element_type(value))
            new[value] = block.insert_arg(kind, len(block.args))

        def reshaped(value: SSAValue, shape: Shape) -> SSAValue:
            if shape_of(value) == shape:
                return value
            op = reshape_to(value, shape)
            block.add_op(op)
            return op.result

        for op in self.body.ops:
            if isinstance(op, ConstantOp):
                copy: TensorOp = op.clone()
            elif op.ACCESS is Access.VIEW:
                new[op.results[0]] = new[op.operands[0]]
                continue
            elif isinstance(op, ReduceOp):
                source, result = self.shape(op.operands[0]), self.shape(op.results[0])
                operand = new[op.operands[0]]
                if len(result) != len(source):  # one number is left
                    result = (1,) * len(source)
                pairs = enumerate(zip(source, result, strict=True))
                axes = [i for i, (a, b) in pairs if a != b]
                if not axes:
                    new[op.results[0]] = operand
                    continue
                copy = ReduceOp.of(operand, kind=op.kind.data, axes=axes)
            elif isinstance(op, CumulativeOp):
                copy = self.accumulated(op, new[op.input])
            elif has_axis(op):
                copy = self.scaled(op, new, reshaped)
            elif is_pointwise(op):
                copy = op.with_operands([new[v] for v in op.operands])
            elif isinstance(op, LookupOp):
                table = reshaped(new[op.table], shape_of(op.table))
                copy = op.with_operands([new[op.input], table])
            else:
                copy = op.with_operands([reshaped(new[v], shape_of(v)) for v in op.operands])
            block.add_op(copy)
            for old, result in zip(op.results, copy.results, strict=True):
                wanted = shape_of(old) if isinstance(op, ConstantOp) else self.shape(old)
                new[old] = reshaped(result, wanted)
        ops = [op for op in block.ops if isinstance(op, TensorOp)]
        outputs = [new[v] for v in self.body.outputs]
        return Body(ops, list(block.args), outputs), new

    def accumulated(self, op: CumulativeOp, operand: SSAValue) -> TensorOp:
        """Along the new dimension. Raises NotLowered where it is cut."""
        axes = self.along(op)
        if not axes:
            raise NotLowered(f"{op.name} is along a dimension of one element")
        if self.groups.get(axes[0]) != axes:
            raise NotLowered(f"{op.name} is along a dimension that is cut")
        axis = number(self.families[axes[0]].index(axes[0]))
        properties = {**op.properties, "axis": axis}
        return CumulativeOp.create(
            operands=[operand], result_types=[operand.type], properties=properties
        )

    def scaled(
        self,
        op: GridOp,
        new: Mapping[SSAValue, SSAValue],
        reshaped: Callable[[SSAValue, Shape], SSAValue],
    ) -> TensorOp:
        """An op with scales. Raises NotLowered where their dimension is cut."""
        operands, properties = [new[op.input]], dict(op.properties)
        for value in op.operands[1:]:
            if numel(shape_of(value)) == 1:
                operands.append(new[value])
                continue
            operands.append(reshaped(new[value], shape_of(value)))
            axes = self.lists[value]
            if len(axes) > 1:
                raise NotLowered(f"{value.type} is along a dimension that is cut")
            properties["axis"] = number(self.families[axes[0]].index(axes[0]))
        kind = tensor(shape_of(new[op.input]), element_type(op.results[0]))
        return type(op).create(operands=operands, result_types=[kind], properties=properties)


Dim: TypeAlias = tuple[SSAValue, int]


def is_along_axes(op: TensorOp) -> bool:
    """True if the axes of an op's results are those of its operands."""
    kinds = ReduceOp | CumulativeOp | ConstantOp | LookupOp
    simple = isinstance(op, kinds) or is_pointwise(op) or has_axis(op)
    return simple or op.ACCESS is Access.VIEW


def has_axis(op: TensorOp) -> TypeGuard[GridOp]:
    """True if scales are one number, or one for each index of a dimension."""
    if not isinstance(op, GridOp) or (
        not isinstance(op, RequantizeOp) and op.block_size.value.data
    ):
        return False
    several = [v for v in op.operands[1:] if numel(shape_of(v)) > 1]
    return not several or (op.axis is not None and all(len(shape_of(v)) == 1 for v in several))


def aligned_dims(op: TensorOp) -> Iterator[tuple[Dim, Dim]]:
    """Dimensions of operands and results, of more than one element, that stand against each
    other."""
    if has_axis(op):
        (result,), rank = op.results, len(shape_of(op.input))
        yield from (((op.input, i), (result, i)) for i in range(rank) if shape_of(result)[i] > 1)
        for value in op.operands[1:]:
            if numel(shape_of(value)) > 1 and op.axis is not None:
                yield (value, 0), (result, normalize_axis(op.axis.value.data, rank))
        return
    if not is_pointwise(op) and not isinstance(op, ReduceOp | CumulativeOp | LookupOp):
        return
    result = op.results[0]
    shape = shape_of(result)
    for operand in op.operands[:1] if isinstance(op, LookupOp) else op.operands:
        own = shape_of(operand)
        skip = len(shape) - len(own)
        for i, extent in enumerate(own):
            if extent > 1 and shape[skip + i] > 1:
                yield (operand, i), (result, skip + i)
