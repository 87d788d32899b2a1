"""Take shapes from the first value that has them.

    %1 = graph.transpose %0 permutation [0, 2, 1, 3]
    %2 = graph.shape_of %1
    %3 = graph.gather %2, 2                                  dimension 2 of %1
becomes
    %s = graph.shape_of %0 start 1 end 2                     dimension 1 of %0
    %3 = graph.squeeze %s

Which dimensions are equal follows from what ops do (see `transforms/analysis/dimensions.py`). So
no value is computed, or kept in one order rather than another, for its shape alone. A dimension
that is a number in every run stands in the type then, here 64 / 16 heads:

    %s = graph.concat (dimension 0 of %x), (dimension 1 of %x), -1, 16
    %1 = graph.reshape %x shape %s : (tensor<?x?x64xf32>) -> tensor<?x?x?x16xf32>
becomes
    %1 = graph.reshape %x shape %s : (tensor<?x?x64xf32>) -> tensor<?x?x4x16xf32>

A gather from a flattened value that counts all of its elements, as exporters write `mask[b, s]`,

    %1 = graph.reshape %0 shape [-1, 1] : (tensor<?x?xi1>) -> tensor<?x1xi1>
    %2 = graph.gather %1, (b * size of s + s) : ... -> tensor<?x1x1x?x1xi1>
becomes
    %2 = graph.unsqueeze %0 axes [1, 2, 4]
"""

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.creation import RangeOp
from ge.dialects.graph.elementwise import AddOp, MulOp
from ge.dialects.graph.indexing import GatherOp
from ge.dialects.graph.shape import ReshapeOp, ShapeOfOp, SqueezeOp, UnsqueezeOp
from ge.dialects.graph.slicing import ConcatOp, SliceOp
from ge.dialects.support.operation import all_ops
from ge.dialects.support.types import (
    DYNAMIC,
    constant_ints,
    element_type,
    has_size,
    numel,
    rank_of,
    set_type,
    shape_of,
    tensor,
)
from ge.runtime.data.arrays import dense, type_of
from ge.transforms.analysis.dimensions import ONE, Dimensions, Size
from ge.transforms.graph.infer_shapes import infer_block, refresh_signature
from ge.transforms.rewriting.driver import rewrite
from ge.transforms.rewriting.passes import FunctionPass
from ge.transforms.rewriting.rules import Search, is_attached, substitute

RULE = "resolve-shape"


class ResolveShape(Search):
    """A shape of which some dimension is that of an earlier value, element by element."""

    names = (RULE,)
    ops = (ShapeOfOp,)

    def __init__(self, dimensions: Dimensions) -> None:
        self.dimensions = dimensions
        self.queries: dict[tuple[SSAValue, int], SSAValue] = {}

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        assert isinstance(op, ShapeOfOp)
        sizes = self.dimensions.of(op.input)[op.bounds()]
        places = [self.dimensions.place(s) for s in sizes]
        if any(p is not None and not is_attached(p[0]) for p in places):
            return
        if all(p is None or p[0] is op.input for p in places):
            return
        if any(s.number is None and p is None for s, p in zip(sizes, places, strict=True)):
            return
        parts: list[SSAValue] = []
        for size, place in zip(sizes, places, strict=True):
            if place is None:
                array = np.array([size.factor], np.int64)
                constant = ConstantOp.make(dense(array), type_of(array))
                rewriter.insert(constant, InsertPoint.before(op))
                parts.append(constant.result)
            else:
                parts.append(self.dimension(*place, rewriter))
        substitute(RULE, op, rewriter, op.result, joined(parts, op, rewriter))

    def dimension(self, value: SSAValue, axis: int, rewriter: PatternRewriter) -> SSAValue:
        """One dimension of a value, by an op right behind its definition."""
        known = self.queries.get((value, axis))
        if known is not None and is_attached(known):
            return known
        new = ShapeOfOp.of(value, start=axis, end=axis + 1)
        if isinstance(value.owner, Block):
            rewriter.insert(new, InsertPoint.at_start(value.owner))
        else:
            new.location = value.owner.location
            rewriter.insert(new, InsertPoint.after(value.owner))
        self.queries[value, axis] = new.result
        return new.result


def joined(parts: list[SSAValue], op: Operation, rewriter: PatternRewriter) -> SSAValue:
    if len(parts) == 1:
        return parts[0]
    rewriter.insert(concat := ConcatOp.of(parts, axis=0, location=op.location))
    return concat.result


class PartOfVector(Search):
    """Elements of a shape, or of a vector that is joined from vectors of one element."""

    names = (RULE,)
    ops = (GatherOp, SliceOp)

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        vector = op.operands[0].owner
        if not isinstance(vector, ShapeOfOp | ConcatOp) or not has_size(vector.result):
            return
        places = elements_taken(op, numel(shape_of(vector.result)))
        new = part_of(vector, places, rewriter) if places else None
        if new is None:
            return
        if rank_of(op.results[0]) == 0:
            rewriter.insert(scalar := SqueezeOp.of(new, axes=(0,), location=op.location))
            new = scalar.result
        substitute(RULE, op, rewriter, op.results[0], new)


def part_of(
    vector: ShapeOfOp | ConcatOp, places: list[int], rewriter: PatternRewriter
) -> SSAValue | None:
    """The elements of a vector at some places, by one op; None if that takes more."""
    if isinstance(vector, ConcatOp):
        if any(shape_of(p) != (1,) for p in vector.inputs):
            return None
        return joined([vector.inputs[i] for i in places], vector, rewriter)
    dims = range(rank_of(vector.input))[vector.bounds()]
    start, end = dims[places[0]], dims[places[-1]] + 1
    if [dims[i] for i in places] != list(range(start, end)):
        return None
    new = ShapeOfOp.of(vector.input, start=start, end=end, location=vector.location)
    rewriter.insert(new)
    return new.result


def elements_taken(op: Operation, count: int) -> list[int] | None:
    """The indices that a gather or slice takes of a vector of `count` elements, if known."""
    if isinstance(op, SliceOp):
        return op.taken(range(count))
    assert isinstance(op, GatherOp)
    places = constant_ints(op.indices)
    if places is None or rank_of(op.indices) > 1 or not all(-count <= i < count for i in places):
        return None
    return [i % count for i in places]


class GatherOfAll(Search):
    """A gather at b * n + s from a value whose first two axes, of m and n elements, are flattened,
    where b counts to m and s to n along axes of their own, in this order."""

    names = ("gather-of-all",)
    ops = (GatherOp,)

    def __init__(self, dimensions: Dimensions) -> None:
        self.dimensions = dimensions

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        assert isinstance(op, GatherOp)
        flat, indices = op.input.owner, op.indices
        if not isinstance(flat, ReshapeOp) or op.axis.value.data != 0 or rank_of(flat.input) < 2:
            return
        (m, n, *rest), (first, *tail) = map(self.dimensions.of, (flat.input, flat.result))
        if first != m * n or (tail != rest and (rest or any(s != ONE for s in tail))):
            return
        if (places := self.places(indices, m, n)) is not None:
            rank = rank_of(indices)
            more = range(rank, rank + len(tail) - len(rest))
            axes = [a for a in (*range(rank), *more) if a not in places]
            new = UnsqueezeOp.of(flat.input, axes=axes, location=op.location)
            rewriter.insert(new)
            substitute(self.names[0], op, rewriter, op.result, new.result)

    def places(self, indices: SSAValue, m: Size, n: Size) -> tuple[int, int] | None:
        """The axes along which the indices count rows and columns."""
        add, rank = indices.owner, rank_of(indices)
        if not isinstance(add, AddOp):
            return None
        for column, product in ((add.lhs, add.rhs), (add.rhs, add.lhs)):
            mul, j = product.owner, self.counting(column, n, rank)
            if j is None or not isinstance(mul, MulOp):
                continue
            for row, factor in ((mul.lhs, mul.rhs), (mul.rhs, mul.lhs)):
                i = self.counting(row, m, rank)
                if i is not None and i < j and self.dimensions.elements(factor) == [n]:
                    return i, j
        return None

    def counting(self, value: SSAValue, size: Size, rank: int) -> int | None:
        """The axis, of as many, along which a value counts from 0 to a size."""
        axes = [i for i, s in enumerate(self.dimensions.of(value)) if s != ONE]
        axis = axes[0] + rank - rank_of(value) if len(axes) == 1 else None
        while isinstance(view := value.owner, ReshapeOp | SqueezeOp | UnsqueezeOp):
            value = view.input
        counts = isinstance(range_ := value.owner, RangeOp) and self.dimensions.counted(range_)
        return axis if counts == [size] else None


def refine_types(region: Region, dimensions: Dimensions) -> bool:
    """Write sizes that are numbers in every run into types; whether there were any."""
    refined = False
    for op in all_ops(region.blocks):
        for result in op.results:
            if not isinstance(result.type, TensorType) or DYNAMIC not in shape_of(result):
                continue
            numbers = [DYNAMIC if (n := s.number) is None else n for s in dimensions.of(result)]
            if tuple(numbers) != shape_of(result):
                set_type(result, tensor(numbers, element_type(result)))
                refined = True
    return refined


class ResolveShapesPass(FunctionPass):
    """Take a dimension from the first value that has it, not from one computed from that."""

    name = "resolve-shapes"

    def run(self, func: FuncOp) -> None:
        if any(isinstance(o, ShapeOfOp) for o in all_ops(func.body.blocks)):
            dimensions = Dimensions(func.body)
            rewrite(
                func.body,
                [ResolveShape(dimensions), PartOfVector(), GatherOfAll(dimensions)],
            )
            if refine_types(func.body, dimensions):
                infer_block(func.body.block)
                refresh_signature(func)
