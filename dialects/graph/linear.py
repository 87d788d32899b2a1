"""Linear algebra: matmul, einsum, determinant."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, ClassVar

from xdsl.dialects.builtin import BoolAttr, StringAttr, bf16, f8E4M3FN, f8E5M2, f16, f32, i32, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph.support.parameters import (
    TYPES,
    OneResultOp,
    check_length,
    check_same_element,
    optional,
)
from ge.dialects.support.boxes import Box, Work, aligned_box
from ge.dialects.support.constraints import (
    COMPUTED,
    ELEMENT,
    FACTORS,
    FLOATS,
    INTEGERS,
    INTS,
    NUMBERS,
    choice,
    choice_def,
)
from ge.dialects.support.element_types import bitwidth, is_float, is_integer
from ge.dialects.support.tensor_op import SplitInterface
from ge.dialects.support.types import (
    DYNAMIC,
    Shape,
    broadcast,
    broadcast_dims,
    byte_size,
    element_type,
    merge_dims,
    numel,
    rank_of,
    shape_of,
    shape_text,
    tensor,
)

SMALL_FLOATS = (f8E4M3FN, f8E5M2)  # that are multiplied


def product_element(lhs: SSAValue, rhs: SSAValue) -> Attribute:
    """The element type of a sum of products: that of the operands, i32 for integers of 8 bits, i64
    where one has 16 (they may differ in sign and width), f32 for floats of 8 bits."""
    a, b = element_type(lhs), element_type(rhs)
    if all(is_integer(t) and bitwidth(t) in (8, 16) for t in (a, b)):
        return i32 if bitwidth(a) == bitwidth(b) == 8 else i64
    if a in SMALL_FLOATS and b in SMALL_FLOATS:
        return f32
    if a != b:
        raise VerifyException(f"element types differ: {a} and {b}")
    if is_float(a) or (is_integer(a) and bitwidth(a) >= 32):
        return a
    raise VerifyException(f"element type {a} is not supported")


def check_stated(own: Attribute, to: Attribute) -> None:
    """Check that sums of products may have the element type stated in the place of their own: f32,
    which sums of floats of 16 bits are before they are rounded. Raises VerifyException."""
    if own not in (f16, bf16):
        raise VerifyException(f"a product is {own} here: 'to' is for floats of 16 bits")
    if to != f32:
        raise VerifyException(f"a product of {own} is {own}, or f32 with 'to f32', not {to}")


@irdl_op_definition
class MatmulOp(OneResultOp, SplitInterface):
    """Matmul of the last two dimensions, which `transpose_lhs` and `transpose_rhs` exchange first;
    the dimensions before them broadcast. Integers of 8 bits give i32, those of 16 bits i64,
    floats of 8 bits (f8E4M3FN, f8E5M2) f32. Sums of floats of 16 bits are f32, and are rounded to
    their type unless the op states the result's: `to f32`."""

    name = "graph.matmul"
    lhs = operand_def(FACTORS)
    rhs = operand_def(FACTORS)
    result = result_def(NUMBERS)
    transpose_lhs = prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))
    transpose_rhs = prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))
    to = opt_prop_def(ELEMENT)
    IS_MATMUL: ClassVar = True
    ALWAYS_MACS: ClassVar = True
    assembly_format = f"$lhs `,` $rhs {TYPES}"

    def dimensions(self) -> tuple[Shape, int, int, int]:
        """Batch dimensions and M, N, K of [M, K] x [K, N]."""
        lhs, rhs = shape_of(self.lhs), shape_of(self.rhs)
        if min(len(lhs), len(rhs)) < 2:
            raise VerifyException(
                f"operands have two dimensions or more, got {shape_text(lhs)} and {shape_text(rhs)}"
            )
        m, k = lhs[:-3:-1] if self.transpose_lhs.value.data else lhs[-2:]
        k_rhs, n = rhs[:-3:-1] if self.transpose_rhs.value.data else rhs[-2:]
        if DYNAMIC not in (k, k_rhs) and k != k_rhs:
            shapes = f"{shape_text(lhs)} by {shape_text(rhs)}"
            k = merge_dims(k, k_rhs, f"cannot multiply {shapes}: {k} columns meet {k_rhs} rows")
            k_rhs = k
        return broadcast(lhs[:-2], rhs[:-2]), m, n, merge_dims(k, k_rhs)

    def infer(self) -> Sequence[Attribute]:
        batch, m, n, _ = self.dimensions()
        element, to = product_element(self.lhs, self.rhs), self.to
        if to is not None:
            check_stated(element, to)
        return (tensor((*batch, m, n), element if to is None else to),)

    def verify_(self) -> None:
        try:
            super().verify_()
        except VerifyException:
            own, stated = element_type(self.lhs), element_type(self.result)
            if self.to is not None or stated != f32 or own not in (f16, bf16):
                raise
            way_out = "but for those with 'to f32'"
            raise VerifyException(f"sums of {own} are rounded to it, {way_out}") from None

    @property
    def summed(self) -> tuple[int, int]:
        """The dimension of each operand along which products are summed."""
        lhs, rhs = rank_of(self.lhs), rank_of(self.rhs)
        left = lhs - (2 if self.transpose_lhs.value.data else 1)
        return left, rhs - (1 if self.transpose_rhs.value.data else 2)

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        shape = shape_of(self.operands[index])
        own = 2 * len(shape) - 3 - self.summed[index]  # the other one of the last two
        batch = aligned_box(Box.of(box.spans[:-2]), shape[:-2])
        return Box.part(
            shape, {**dict(enumerate(batch.spans)), own: box.spans[-1 if index else -2]}
        )

    def static_work(self) -> Work:
        batch, m, n, k = self.dimensions()
        return Work(numel((*batch, m, n, k)), 0, *self.traffic())


GivenGroups = choice("graph.given_groups", "numbers", "sizes", "offsets")


@irdl_op_definition
class GroupedMatmulOp(OneResultOp, SplitInterface):
    """Each matmul of a batch takes one of several right-hand sides: that of its group, the matrix
    `rhs[groups]`, as in mixtures of experts. Batch dimensions of `lhs` and `groups` broadcast;
    `transpose_rhs` exchanges the dimensions of matrices first. Negative numbers of groups count
    from the end.

    With `rows` instead the rows of `lhs`, [M, K], stand group after group: so many, one number
    for each matrix, M in all. Where they are known only at run time, `groups` has their `sizes`,
    [G], or `offsets`, [G + 1]: where each group begins, and M. Others are refused.

        %y = graph.grouped_matmul %x, %w groups %g : ...
        %y = graph.grouped_matmul %x, %w rows [300, 0, 41] : ...
        %y = graph.grouped_matmul %x, %w groups %sizes given sizes : ...
    """

    name = "graph.grouped_matmul"
    lhs = operand_def(FLOATS)
    rhs = operand_def(FLOATS.of_rank(3))
    groups = opt_operand_def(INTEGERS)
    result = result_def(FLOATS)
    rows = opt_prop_def(INTS)
    given = choice_def(GivenGroups, "numbers")
    transpose_rhs = prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))
    IS_MATMUL: ClassVar = True
    ALWAYS_MACS: ClassVar = True
    TAKES_INDICES: ClassVar = True
    assembly_format = f"$lhs `,` $rhs {optional('groups')} {TYPES}"

    @property
    def in_order(self) -> bool:
        """True if rows stand group after group."""
        return self.groups is None or self.given.data != "numbers"

    def dimensions(self) -> tuple[Shape, int, int, int]:
        """Batch dimensions and M, N, K of [M, K] x [K, N]."""
        lhs, rhs = shape_of(self.lhs), shape_of(self.rhs)
        if len(lhs) < 2:
            raise VerifyException(f"lhs has two dimensions or more, got {shape_text(lhs)}")
        k, n = rhs[:0:-1] if self.transpose_rhs.value.data else rhs[1:]
        if DYNAMIC not in (lhs[-1], k) and lhs[-1] != k:
            text = f"{shape_text(lhs)} by {shape_text(rhs[1:])}"
            k = merge_dims(lhs[-1], k, f"cannot multiply {text}: {lhs[-1]} columns meet {k} rows")
        if self.in_order:
            self.check_rows(lhs, rhs[0])
            return (), lhs[0], n, merge_dims(lhs[1], k)
        assert self.groups is not None
        groups = shape_of(self.groups)
        return broadcast(lhs[:-2], groups), lhs[-2], n, merge_dims(lhs[-1], k)

    def check_rows(self, lhs: Shape, groups: int) -> None:
        """Raises VerifyException where rows do not stand group after group."""
        if len(lhs) != 2:
            raise VerifyException(f"rows of groups are those of a matrix, not {shape_text(lhs)}")
        if (rows := self.ints("rows")) is not None:
            check_length("rows", len(rows), groups)
            check_group_rows(rows, lhs[0])
        elif self.groups is not None:
            shape = shape_of(self.groups)
            if len(shape) != 1:
                raise VerifyException(f"{self.given.data} are a vector, not {self.groups.type}")
            (count,) = shape
            more = 1 if self.given.data == "offsets" else 0
            check_length(self.given.data, count, groups if groups == DYNAMIC else groups + more)

    def infer(self) -> Sequence[Attribute]:
        check_same_element(self.lhs, self.rhs)
        if (self.groups is None) == (self.rows is None):
            raise VerifyException("either 'groups' or 'rows' is given")
        batch, m, n, _ = self.dimensions()
        return (tensor((*batch, m, n), element_type(self.lhs)),)

    def is_same_op(self, axis: int) -> bool:
        """Parts of the rows have other sizes of groups."""
        return not self.in_order or axis == 1

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        shape, *batch, row, column = shape_of(self.operands[index]), *box.spans
        if index == 1:
            columns = {1 if self.transpose_rhs.value.data else 2: column}
            return Box.part(shape, columns | self.groups_of(row))
        if self.in_order:
            return Box.part(shape, {} if index else {0: row})
        rank = len(shape) - (2 if index == 0 else 0)
        spans = aligned_box(Box.of(batch), shape[:rank]).spans
        return Box.part(shape, dict(enumerate(spans if index else [*spans, row])))

    def groups_of(self, rows: tuple[Any, int]) -> dict[int, tuple[int, int]]:
        """The matrices of rows, as a span of dimension 0, where it is known which these are."""
        sizes, (first, count) = self.ints("rows"), rows
        if sizes is None or not isinstance(first, int):
            return {}
        ends = list(accumulate(sizes))
        mine = [i for i, end in enumerate(ends) if end > first and end - sizes[i] < first + count]
        return {0: (mine[0], mine[-1] + 1 - mine[0])} if mine else {}

    def static_work(self) -> Work:
        """The work of the op; at most one matrix for each number of a group is read."""
        batch, m, n, k = self.dimensions()
        read, written = self.traffic()
        groups = shape_of(self.rhs)[0]
        one = byte_size(self.rhs.type) // max(groups, 1)
        most = m if self.groups is None or self.in_order else numel(shape_of(self.groups))
        return Work(numel((*batch, m, n, k)), 0, read - max(groups - most, 0) * one, written)


def check_group_rows(rows: Sequence[int], count: int) -> None:
    """Raises VerifyException where groups do not have these rows."""
    if min(rows, default=0) < 0:
        raise VerifyException(f"groups of {[*rows]} rows: there is a negative number")
    if count != DYNAMIC and sum(rows) != count:
        raise VerifyException(f"groups of {[*rows]} rows are {sum(rows)} in all, not {count}")


Labels = tuple[str, ...]


def parse_equation(equation: str, ranks: Sequence[int]) -> tuple[list[Labels], Labels]:
    """The label of each dimension of the operands and of the result. Dimensions of an ellipsis are
    labelled "0", "1", ... so that the last of them agree."""
    text, arrow, target = equation.replace(" ", "").partition("->")
    terms = text.split(",")
    if len(terms) != len(ranks):
        raise VerifyException(f'"{equation}" has {len(terms)} terms for {len(ranks)} operands')
    widths = [rank - len(t.replace("...", "")) for t, rank in zip(terms, ranks, strict=True)]
    for term, rank, width in zip(terms, ranks, widths, strict=True):
        if width < 0 or (width > 0 and "..." not in term):
            raise VerifyException(f'"{term}" does not fit an operand of rank {rank}')
    most = max((w for t, w in zip(terms, widths, strict=True) if "..." in t), default=0)

    def labels(term: str, width: int) -> Labels:
        before, ellipsis, after = term.partition("...")
        if not all(c.isalpha() for c in before + after):
            raise VerifyException(f'"{term}" is not a term: use letters and at most one "..."')
        dims = [str(i) for i in range(most - width, most)] if ellipsis else []
        return (*before, *dims, *after)

    operands = [labels(t, w) for t, w in zip(terms, widths, strict=True)]
    if arrow:
        return operands, labels(target, most)
    letters = [c for c in text if c.isalpha()]
    once = sorted(c for c in set(letters) if letters.count(c) == 1)
    return operands, (*(str(i) for i in range(most)), *once)


@irdl_op_definition
class EinsumOp(OneResultOp):
    """Einstein summation: `equation` labels the dimensions of the operands and of the result
    ("bij,bjk->bik"); the product is summed over the labels that the result does not have."""

    name = "graph.einsum"
    equation = prop_def(StringAttr)
    inputs = var_operand_def(COMPUTED)
    result = result_def(COMPUTED)
    IS_MATMUL: ClassVar = True
    assembly_format = f"$equation $inputs {TYPES}"

    def label_sizes(self) -> tuple[dict[str, int], Labels]:
        shapes = [shape_of(i) for i in self.inputs]
        operands, target = parse_equation(self.equation.data, [len(s) for s in shapes])
        sizes: dict[str, int] = {}
        for labels, shape in zip(operands, shapes, strict=True):
            for label, dim in zip(labels, shape, strict=True):
                try:
                    sizes[label] = broadcast_dims(sizes.get(label, 1), dim)
                except VerifyException:
                    name = "..." if label.isdigit() else label
                    raise VerifyException(
                        f'"{name}" stands for dimensions {sizes[label]} and {dim}'
                    ) from None
        for label in target:
            if label not in sizes or target.count(label) > 1:
                raise VerifyException(
                    f'label "{label}" of the result stands once in it, and in an operand'
                )
        return sizes, target

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        shapes = [shape_of(i) for i in self.inputs]
        operands, target = parse_equation(self.equation.data, [len(s) for s in shapes])
        spans, shape = dict(zip(target, box.spans, strict=True)), shapes[index]
        labels = enumerate(operands[index])
        return Box.part(shape, {i: spans[n] for i, n in labels if n in spans and shape[i] != 1})

    def infer(self) -> Sequence[Attribute]:
        if not self.inputs:
            raise VerifyException("expected at least one operand")
        for operand in self.inputs:
            check_same_element(self.inputs[0], operand)
        sizes, target = self.label_sizes()
        return (tensor((sizes[label] for label in target), element_type(self.inputs[0])),)

    def static_work(self) -> Work:
        sizes, target = self.label_sizes()
        points = numel(tuple(sizes.values()))
        if len(self.inputs) > 1 and len(sizes) > len(target):
            return Work(points * (len(self.inputs) - 1), 0, *self.traffic())
        return Work(0, points * max(len(self.inputs) - 1, 1), *self.traffic())


@irdl_op_definition
class DetOp(OneResultOp):
    """The determinant of the square matrices in the last two dimensions."""

    name = "graph.det"
    input = operand_def(FLOATS)
    result = result_def(FLOATS)
    assembly_format = f"$input {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        shape = shape_of(self.input)
        if len(shape) < 2:
            raise VerifyException(f"a matrix has two dimensions, got shape {shape_text(shape)}")
        rows, columns = shape[-2:]
        merge_dims(rows, columns, f"a matrix of {rows} x {columns} is not square")
        return (tensor(shape[:-2], element_type(self.input)),)

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        return Box.part(shape_of(self.input), dict(enumerate(box.spans)))

    def static_work(self) -> Work:
        shape = shape_of(self.input)
        return Work(0, numel(shape) * max(numel(shape[-1:]), 1), *self.traffic())  # LU: n^3
