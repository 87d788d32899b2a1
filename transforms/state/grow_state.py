"""State that grows gets a buffer of its largest size, and the program static shapes.

    @main(%k: tensor<?x16xf32> {graph.name = "k", graph.dims = ["past", ""], graph.state = "a"},
          %m: tensor<?xf32> {graph.dims = ["past + 1"]}, ...)
      %0 = graph.concat %k, %new axis 0
      %1 = graph.attention %q, %0, %0 mask %m
becomes, with `grow-state{capacity=past=64}`,
    @main(%k: tensor<64x16xf32> {...}, %m: tensor<64xf32> {...},
          %n: tensor<i64> {graph.name = "past.length", graph.length = "past"}, ...)
      %0 = graph.append %k, %new at %n axis 0
      %1 = graph.attention %q, %0, %0 length %n mask %m

`%n` is the number of rows that hold values when what this run appends is among them. Each value
that grows has 64 rows, of which the first ones are those of the program before; that no other one
changes them is proved op by op (`Growth`), and an op for which it cannot be is refused. Numbers
that follow from the size become constants where they are shapes, and are computed from `%n` where
they are data.

With `layout=paged:16` rows lie in blocks of 16, in an order that an argument says:
          %t: tensor<4xi64> {graph.name = "past.table", graph.block = 16} ...
      %0 = graph.append %k, %new at %n table %t axis 0
      %1 = graph.attention %q, %0, %0 length %n table %t mask %m
An op that reads them beside rows in their own order is refused.

Sizes and short vectors of integers are inferred at three sizes of the dimension: what differs grows
with it, and must do so by one row at a time along one axis. An op keeps rows apart from the rest if
it can be cut along the axis (`SplitInterface`), if it is a view that leaves the axis one of its
own, or if it is one of a few others. If no result of an op grows, the op sums over rows: only
attention gets the number of valid rows, and only it and the shape of a value may read one that
grows.

`closed_value` is one that follows from the sizes of a function's arguments alone.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    TensorType,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from ge.dialects import graph as g
from ge.dialects.graph.stated import (
    BLOCK,
    LENGTH,
    STATE,
    STEP,
    dim_relations,
    dims_of,
    input_name,
    name_of,
    port,
    split_capacity,
    split_layout,
    steps_beyond,
)
from ge.dialects.graph.support.parameters import elements_of
from ge.dialects.support.diagnostics import error_at, warning
from ge.dialects.support.dims import Polynomial, symbols
from ge.dialects.support.errors import GeError
from ge.dialects.support.tensor_op import TensorOp, split_axes
from ge.dialects.support.types import (
    DYNAMIC,
    Dense,
    element_type,
    is_ranked,
    rank_of,
    set_type,
    shape_of,
    tensor,
)
from ge.runtime.data.arrays import Array, array_of, dtype_of
from ge.runtime.numbers import evaluate
from ge.transforms.graph.control_flow import insert_before
from ge.transforms.graph.eliminate_dead_code import eliminate_dead_code
from ge.transforms.graph.infer_shapes import infer_block, refresh_signature
from ge.transforms.rewriting.passes import MainPass, Relation, SameSteps
from ge.transforms.shapes.relate_dims import relating
from ge.transforms.state.mark_state import argument_tables, typed_outputs


def is_size(op: Operation, value: SSAValue) -> bool:
    """Return whether an op has a value for a size: of a result, or of a part."""
    if isinstance(op, g.RangeOp):
        return value is op.limit and value not in (op.start, op.delta)
    if not isinstance(op, TensorOp):
        return False
    sizes = [name for name in op.PARAMETERS if getattr(op, name) is value]
    return bool(sizes) and sum(v is value for v in op.operands) == len(sizes)


def closed_value(value: SSAValue, follows: Callable[[SSAValue], bool]) -> Array | None:
    """The elements of a value; None where they follow from more than constants and sizes. A number
    that `follows` from a size is taken as a size alone, not as data."""
    op = value.owner
    if not isinstance(op, TensorOp):
        return None
    if isinstance(op, g.ConstantOp):
        dense = op.value
        is_dense = isinstance(dense, DenseIntOrFPElementsAttr)
        return array_of(cast(Dense, dense)) if is_dense else None
    if isinstance(op, g.ShapeOfOp):
        known = elements_of(value)
        if known is None or None in known:
            return None
        return np.array(known, dtype_of(element_type(value))).reshape(shape_of(value))
    arrays: list[Array] = []
    for operand in op.operands:
        if follows(operand) and not (is_size(op, operand) or follows(value)):
            return None
        if (array := closed_value(operand, follows)) is None:
            return None
        arrays.append(array)
    return evaluate(op, arrays)[op.results.index(value)]


SIZES = (1009, 1013, 1021)  # at which a dimension is tried: no model has them as other sizes

NUMBER = re.compile(r"\d+")


class LinearSize(NamedTuple):
    """slope * size of the dimension + rest"""

    slope: int
    rest: int


class GrowingRows(NamedTuple):
    """The axis along which a value grows, and how many rows it has beyond the dimension."""

    axis: int
    beyond: int


@dataclass
class InferredSizes:
    """Facts inferred at one size: of each value the shape, and the integers of a short one."""

    shapes: list[tuple[int, ...] | None] = field(default_factory=list[tuple[int, ...] | None])
    integers: list[tuple[int | None, ...] | None] = field(
        default_factory=list[tuple[int | None, ...] | None]
    )


# Argument and axis -> how much larger it is than the dimension
Beyond = Mapping[tuple[BlockArgument, int], int]


def values_of(main: FuncOp) -> list[SSAValue]:
    return [*main.args, *(r for op in main.body.block.ops for r in op.results)]


def clone_at(main: FuncOp, beyond: Beyond, size: int) -> FuncOp:
    """The function with types as of this size of the dimension. Raises VerifyException where they
    contradict an op."""
    index = {arg: arg.index for arg in main.args}
    places = {(index[arg], axis): n for (arg, axis), n in beyond.items()}
    clone = main.clone()
    for arg in clone.args:
        shape = [
            size + places[arg.index, i] if (arg.index, i) in places else n
            for i, n in enumerate(shape_of(arg))
        ]
        set_type(arg, tensor(shape, element_type(arg)))
    infer_block(clone.body.block)
    return clone


def contradiction(main: FuncOp, beyond: Beyond, symbol: str) -> GeError:
    """Return the error of an op whose sizes contradict it, with the dimension in the place of the
    numbers that stand for it."""
    texts: list[str] = []
    for size in SIZES:
        try:
            clone_at(main, beyond, size)
        except VerifyException as e:
            texts.append(str(e))
    hint = f"leave open what grows with it, or say how: --dim 'keys={symbol}+1'"
    what = f"sizes do not follow from '{symbol}'"
    columns = list(zip(*(NUMBER.findall(text) for text in texts), strict=False))
    if len(texts) < len(SIZES) or len({NUMBER.sub("", text) for text in texts}) > 1:
        return error_at(main, what, hint)
    numbers = iter([number_of([int(n) for n in column]) for column in columns])

    def named(match: re.Match[str]) -> str:
        number = next(numbers)
        if number is None or not number.slope:
            return match[0] if number else "?"
        return str(Polynomial.named(f"{number.slope} * ({symbol}) + {number.rest}") or symbol)

    return error_at(main, f"{what}: {NUMBER.sub(named, texts[0])}", hint)


def facts_at(main: FuncOp, beyond: Beyond, size: int) -> InferredSizes:
    facts = InferredSizes()
    for value in values_of(clone_at(main, beyond, size)):
        facts.shapes.append(shape_of(value) if is_ranked(value) else None)
        facts.integers.append(elements_of(value))
    return facts


@dataclass
class Growth:
    """The rows and numbers of a function that follow from a dimension."""

    main: FuncOp
    symbol: str
    beyond: Beyond
    most: int  # rows
    rows: dict[SSAValue, GrowingRows]
    numbers: dict[SSAValue, Sequence[LinearSize]]
    static: dict[Operation, Operation]  # each op, and the same one with sizes that are known
    step: int = 0  # rows that a run appends

    @classmethod
    def of(cls, main: FuncOp, beyond: Beyond, symbol: str, most: int) -> "Growth":
        """Infer what grows. Raises GeError for sizes that are not known, or grow otherwise."""
        try:
            all_facts = [facts_at(main, beyond, size) for size in SIZES]
        except VerifyException:
            raise contradiction(main, beyond, symbol) from None
        clone = clone_at(main, beyond, SIZES[0])
        static = dict(zip(main.body.block.ops, clone.body.block.ops, strict=True))
        growth = cls(main, symbol, beyond, most, {}, {}, static)
        for i, value in enumerate(values_of(main)):
            shapes = [f.shapes[i] for f in all_facts]
            if None in shapes or any(DYNAMIC in (s or ()) for s in shapes):
                raise growth.unknown(value)
            dims = [number_of(sizes) for sizes in zip(*(s or () for s in shapes), strict=True)]
            grown = [a for a, d in enumerate(dims) if d is None or d.slope]
            if grown:
                (axis, *more), of = grown, dims[grown[0]]
                if more or of is None or of.slope != 1:
                    raise growth.refused(value, f"does not grow by one row with '{symbol}'")
                growth.rows[value] = GrowingRows(axis, of.rest)
                continue
            columns = [f.integers[i] for f in all_facts]
            if all(c is not None and None not in c for c in columns):
                known = [number_of(n) for n in zip(*(c or () for c in columns), strict=True)]  # pyright: ignore
                if any(n is None for n in known):
                    raise growth.refused(value, f"is no multiple of '{symbol}'")
                numbers = [n for n in known if n is not None]
                if any(n.slope for n in numbers):
                    growth.numbers[value] = numbers
        growth.step = growth.steps()
        return growth

    def axis(self, value: SSAValue) -> int | None:
        rows = self.rows.get(value)
        return None if rows is None else rows.axis

    def is_number(self, value: SSAValue) -> bool:
        return value in self.numbers

    def take(self, value: SSAValue, of: SSAValue) -> None:
        """A value grows as another one does."""
        if of in self.rows:
            self.rows[value] = self.rows[of]

    def steps(self) -> int:
        """Return how many rows each run appends to all states."""
        last, names = self.main.body.block.last_op, [o.name for o in typed_outputs(self.main)]
        assert isinstance(last, ReturnOp)
        steps: dict[str, int] = {}
        for arg, table in zip(self.main.args, argument_tables(self.main), strict=True):
            if STATE in table.data and arg in self.rows:
                becomes = getattr(table.data[STATE], "data", "")
                value = last.operands[names.index(becomes)] if becomes in names else arg
                rows, name = self.rows.get(value), input_name(self.main, arg.index)
                if rows is None or rows.axis != self.rows[arg].axis or self.rows[arg].beyond:
                    raise error_at(self.main, f"state '{name}' does not grow along '{self.symbol}'")
                steps[name] = rows.beyond
        if len(set(steps.values())) > 1:
            raise error_at(self.main, f"states grow by different numbers of rows: {steps}")
        return next(iter(steps.values()), 0)

    # ---- the proof

    def prove(self) -> None:
        """Prove that valid rows follow from valid rows. Raises GeError for an op of which a valid
        row may depend on others."""
        for op in self.main.body.block.ops:
            if isinstance(op, ReturnOp):
                self.check_outputs(op)
                continue
            inner = (v for o in op.walk() for v in o.operands if o is not op)
            if any(v in self.rows or v in self.numbers for v in inner):
                raise self.refused_op(op, "has a body that reads what grows")
            grown = [v for v in op.operands if v in self.rows]
            both = (self.rows[v] for v in (*grown, *op.results) if v in self.rows)
            if any(r.beyond > self.step for r in both):
                raise self.refused_op(op, "has more rows than a state and what is appended to it")
            if isinstance(op, g.RangeOp):
                if any(v in self.numbers for v in (op.start, op.delta)):
                    raise self.refused_op(op, "begins or steps by the size")
            elif not isinstance(op, g.ShapeOfOp) and grown and not self.keeps_apart(op):
                raise self.refused_op(op, "may read rows that hold no values")

    def check_outputs(self, op: ReturnOp) -> None:
        kept = {getattr(t.data.get(STATE), "data", "") for t in argument_tables(self.main)}
        for output, value in zip(typed_outputs(self.main), op.operands, strict=True):
            if output.name not in kept and (value in self.rows or value in self.numbers):
                hint = "only states may"
                text = f"output '{output.name}' grows with '{self.symbol}'"
                raise error_at(self.main, text, hint)

    def in_blocks(self) -> set[SSAValue]:
        """Values that have the rows of states. Raises GeError where they meet rows of others, or
        are picked by number: rows of states are in another order."""
        tables = argument_tables(self.main)
        kept = {getattr(t.data.get(STATE), "data", "") for t in tables}
        args = zip(self.main.args, tables, strict=True)
        found: set[SSAValue] = {a for a, t in args if STATE in t.data and a in self.rows}
        for op in self.main.body.block.ops:
            grown = [v for v in op.operands if v in self.rows]
            if isinstance(op, g.AttentionOp):
                grown = [v for v in (op.key, op.value) if v in self.rows]
                if any(m in found for m in op.masks):
                    raise self.refused_op(op, "has a mask whose rows lie in blocks")
            elif isinstance(op, ReturnOp):
                names = (o.name for o in typed_outputs(self.main))
                states = zip(names, op.operands, strict=True)
                grown = [v for n, v in states if n in kept and v in self.rows]
            elif isinstance(op, g.ShapeOfOp):
                continue
            inside = [v for v in grown if v in found]
            is_state = isinstance(op, ReturnOp) and grown
            if (inside or is_state) and (len(inside) < len(grown) or self.picks_by_number(op)):
                raise self.refused_op(op, "reads rows in blocks beside others, or by their number")
            if inside:
                found.update(r for r in op.results if r in self.rows)
        return found

    def is_append(self, op: Operation) -> bool:
        """Return whether an op puts rows behind those of a value that grows."""
        if not isinstance(op, g.ConcatOp) or self.axis(op.inputs[0]) is None:
            return False
        axis = op.axis.value.data
        others = op.inputs[1:]
        return self.axis(op.inputs[0]) == axis and all(v not in self.rows for v in others)

    def keeps_apart(self, op: Operation) -> bool:
        """Return whether the valid rows of an op's results follow from those of its operands."""
        result = op.results[0] if op.results else None
        rows = None if result is None else self.rows.get(result)
        if isinstance(op, g.AttentionOp):
            return self.attends(op)
        if rows is None or len(op.results) > 1:
            return False
        match op:
            case g.ConcatOp() if self.is_append(op):
                return rows.beyond == self.step
            case g.ReshapeOp() | g.SqueezeOp() | g.UnsqueezeOp():
                return self.keeps_axis(op.input, rows)
            case g.BroadcastToOp():
                shape = shape_of(op.input)
                axis = rows.axis - len(shape_of(op.result)) + len(shape)
                return self.rows.get(op.input) == GrowingRows(axis, rows.beyond)
            case g.GatherNdOp() | g.GatherOp() if self.picks_by_number(op):
                return self.picks(op, rows)
            case _:
                axes = split_axes(self.static[op], rows.axis)
                return axes is not None and all(
                    self.rows.get(v) == (None if a is None else GrowingRows(a, rows.beyond))
                    for v, a in zip(op.operands, axes, strict=True)
                )

    def keeps_axis(self, value: SSAValue, rows: GrowingRows) -> bool:
        """Return whether a view leaves rows unchanged: as many of them, of as many elements, in as
        many groups."""
        before = self.rows.get(value)
        if before is None or before.beyond != rows.beyond:
            return False
        users = [u.operation for u in value.uses]
        results = [u.results[0] for u in users if u.results and self.rows.get(u.results[0]) == rows]
        return any(
            prod(shape_of(value)[: before.axis]) == prod(shape_of(r)[: rows.axis]) for r in results
        )

    def attends(self, op: g.AttentionOp) -> bool:
        """Return whether attention over the first keys alone is what the program computes."""
        if op.key_lengths is not None or op.length is not None:
            return False
        for name in op.KEYED:
            want = GrowingRows(op.dimension(name, 2), self.step)
            if self.rows.get(getattr(op, name)) != want:
                return False
        if op.query in self.rows or op.result in self.rows:
            return False
        return all(
            m not in self.rows or self.rows[m] == GrowingRows(len(shape_of(m)) - 1, self.step)
            for m in op.masks
        )

    def picks_by_number(self, op: Operation) -> bool:
        """Return whether an op picks rows by indices of which there are more at each step."""
        return isinstance(op, g.GatherNdOp) or (
            isinstance(op, g.GatherOp) and op.indices in self.rows
        )

    def picks(self, op: g.GatherOp | g.GatherNdOp, rows: GrowingRows) -> bool:
        """Return whether each row of the result is picked from rows that are valid where it is:
        indices follow from sizes alone, and those of row i name no row behind it."""
        taken, indices = self.rows.get(op.input), self.rows.get(op.indices)
        if indices is None:
            return False
        if isinstance(op, g.GatherOp):  # each index a vector of one; they stand where the axis was
            first = op.axis.value.data
            axis = first + indices.axis
        elif indices.axis == len(shape_of(op.indices)) - 1:
            return False
        else:
            first, axis = op.batch_dims.value.data, indices.axis
        place = values_of(self.main).index(op.indices)
        clone = clone_at(self.main, self.beyond, max(self.most, 1))
        values = values_of(clone)
        numbers = {values[i] for i, v in enumerate(values_of(self.main)) if v in self.numbers}
        array = closed_value(values[place], numbers.__contains__)
        if array is None or rows != GrowingRows(axis, indices.beyond):
            return False
        if taken is None:
            return True
        if isinstance(op, g.GatherOp):
            array = array[..., None]
        index = taken.axis - first
        if not 0 <= index < array.shape[-1] or taken.beyond != rows.beyond:
            return False
        picked: Array = np.moveaxis(array[..., index], indices.axis, -1)
        return all(
            0 <= n <= i
            for row in picked.reshape(-1, len(picked.T)).tolist()
            for i, n in enumerate(row)
        )

    def refused_op(self, op: Operation, why: str) -> GeError:
        hint = "state with a capacity needs a model whose ops all keep rows apart"
        return error_at(op, f"{op.name} {why}", hint)

    def refused(self, value: SSAValue, why: str) -> GeError:
        owner = value.owner
        return error_at(self.main, why) if not isinstance(owner, Operation) else error_at(
            owner, f"{owner.name} {why}"
        )  # fmt: skip

    def unknown(self, value: SSAValue) -> GeError:
        hint = "fix other dimensions with --dim or --shape"
        if isinstance(value.owner, Operation):
            return error_at(value.owner, f"the size of {value.owner.name} is not known", hint)
        assert isinstance(value, BlockArgument)
        name = input_name(self.main, value.index)
        return error_at(self.main, f"the size of input '{name}' is not known", hint)


def number_of(values: Sequence[int]) -> LinearSize | None:
    """Return a number that takes these values at `SIZES`; None if it is no line."""
    a, b, c = values
    slope, odd = divmod(b - a, SIZES[1] - SIZES[0])
    if odd or c - b != slope * (SIZES[2] - SIZES[1]):
        return None
    return LinearSize(slope, a - slope * SIZES[0])


@dataclass
class Growing:
    """Rewrites one function, whose sizes are known to follow from one symbol."""

    main: FuncOp
    symbol: str
    capacity: int
    growth: Growth
    length: BlockArgument
    table: BlockArgument | None
    in_blocks: set[SSAValue]  # what has its rows in blocks

    def run(self) -> None:
        block = self.main.body.block
        for op in list(block.ops):
            self.numbers(op)
            if isinstance(op, g.ConcatOp) and self.growth.is_append(op):
                self.append(op)
            elif isinstance(op, g.AttentionOp) and self.growth.axis(op.key) is not None:
                self.attend(op)
        for arg in block.args:
            self.fix(arg)
        eliminate_dead_code(block)
        infer_block(block)
        refresh_signature(self.main)

    def fix(self, value: SSAValue) -> None:
        """Give a value that grows its largest size."""
        axis = self.growth.axis(value)
        if axis is not None:
            shape = [self.capacity if i == axis else n for i, n in enumerate(shape_of(value))]
            set_type(value, tensor(shape, element_type(value)))

    def numbers(self, op: Operation) -> None:
        """Let an op read a constant or a number that the program computes, in place of each operand
        that follows from the size."""
        if op.results and all(self.growth.is_number(r) for r in op.results):
            return
        for i, value in enumerate(op.operands):
            if (known := self.growth.numbers.get(value)) is None:
                continue
            new = self.fixed if is_size(op, value) else self.computed
            op.operands[i] = new(op, value, known)

    def fixed(self, op: Operation, value: SSAValue, known: Sequence[LinearSize]) -> SSAValue:
        sizes = [self.capacity if n.slope else n.rest for n in known]
        return self.constant(op, value, sizes)

    def constant(self, op: Operation, like: SSAValue, values: Sequence[int]) -> SSAValue:
        t = tensor(shape_of(like), element_type(like))
        attr = DenseIntOrFPElementsAttr.from_list(cast("TensorType[IntegerType]", t), [*values])
        return insert_before(op, g.ConstantOp.make(attr, t)).result

    def computed(self, op: Operation, value: SSAValue, known: Sequence[LinearSize]) -> SSAValue:
        """slope * (length - step) + rest"""
        number: SSAValue = self.length
        if element_type(value) != i64:
            number = insert_before(op, g.CastOp.of(number, to=element_type(value))).result
        if any(n.slope != 1 for n in known):
            slopes = self.constant(op, value, [n.slope for n in known])
            number = insert_before(op, g.MulOp.of(number, slopes)).result
        rests = self.constant(op, value, [n.rest - n.slope * self.growth.step for n in known])
        number = insert_before(op, g.AddOp.of(number, rests)).result
        if shape_of(number) != shape_of(value):
            shape = list(shape_of(value))
            number = insert_before(op, g.ReshapeOp.of(number, None, shape=shape)).result
        return number

    def append(self, op: g.ConcatOp) -> None:
        cache, *rows = op.inputs
        new = rows[0]
        if len(rows) > 1:
            new = insert_before(op, g.ConcatOp.of(rows, axis=op.axis)).result
        axis = op.axis.value.data % rank_of(cache)
        appended = g.AppendOp.create(
            operands=[cache, new, self.length, *self.table_of(cache)],
            properties={"axis": IntegerAttr(axis, i64)},
            result_types=[op.result.type],
        )
        insert_before(op, appended)
        appended.result.name_hint = op.result.name_hint
        self.replace(op, appended)

    def table_of(self, value: SSAValue) -> list[SSAValue]:
        return [self.table] if self.table is not None and value in self.in_blocks else []

    def attend(self, op: g.AttentionOp) -> None:
        params: dict[str, Any] = dict(op.properties)
        params.pop("operandSegmentSizes")
        table = self.table if op.key in self.in_blocks else None
        others = [*op.masks], op.key_lengths, op.offset_value, self.length, table
        new = g.AttentionOp.of(op.query, op.key, op.value, *others, **params)
        self.replace(op, insert_before(op, new))

    def replace(self, op: Operation, new: Operation) -> None:
        self.growth.take(new.results[0], op.results[0])
        if op.results[0] in self.in_blocks:
            self.in_blocks.add(new.results[0])
        op.results[0].replace_all_uses_with(new.results[0])
        op.detach()
        op.erase()


def names_of(main: FuncOp) -> list[tuple[str, ...]]:
    """The names of the dimensions of each argument."""
    pairs = zip(argument_tables(main), main.args, strict=True)
    return [dims_of(t.data, rank_of(a)) for t, a in pairs]


def relate(main: FuncOp, symbol: str) -> None:
    """Let dimensions that broadcast with those that follow from a symbol follow from it too: an
    input of such a one would have no size of its own in a program whose state grows."""
    names = {n for of_argument in names_of(main) for n in of_argument if n}
    if all(symbols(n) == (symbol,) for n in names) or (this := relating(main)) is None:
        return
    found, sources = this.relations(broadcast_to=symbol)
    this.write(found)
    for name, text in found.texts.items():
        what = f"dimension '{name}' is taken to be '{text}': sizes broadcast here if they are equal"
        warning(sources[name], f"{what}; --dim {name}=N says otherwise")


def require_sizes(
    main: FuncOp, names: Sequence[Sequence[str]], beyond: Beyond, symbol: str
) -> None:
    """Raises GeError for an input with a size that does not follow from the dimension along which
    state grows."""
    tables = argument_tables(main)
    for arg, table, of_argument in zip(main.args, tables, names, strict=True):
        for axis, (size, name) in enumerate(zip(shape_of(arg), of_argument, strict=True)):
            if size != DYNAMIC or (arg, axis) in beyond:
                continue
            port_name = name_of(table.data) or f"arg{arg.index}"
            name = name or f"{port_name}[{axis}]"
            how = "grow by one with" if symbols(name) == (symbol,) else "follow from"
            what = f"the size '{name}' of input '{port_name}' does not {how} '{symbol}'"
            hint = f"say how it does, as in --dim '{name}={symbol}+1', or fix it: --dim '{name}=8'"
            raise error_at(main, what, hint)


@dataclass(frozen=True)
class GrowStatePass(MainPass):
    """Make the program of a state that grows static, with room for so many rows."""

    name = "grow-state"
    RELATION: ClassVar[Relation] = SameSteps()

    capacity: str
    """NAME=N: the dimension of the model along which state grows, and the most rows."""
    layout: str = "contiguous"
    """Of rows: contiguous, or paged:N (blocks of N rows)."""

    def run(self, main: FuncOp) -> None:
        symbol, capacity = split_capacity(self.capacity)
        if (known := dim_relations(main).get(symbol, symbol)).isdecimal():
            what = f"'{symbol}' is {known}: that follows from sizes that are fixed"
            raise error_at(main, what, "leave open, without --dim and --shape, what grows with it")
        symbol = known
        relate(main, symbol)
        tables = argument_tables(main)
        names = names_of(main)
        kept = [n for n, t in zip(names, tables, strict=True) if STATE in t.data]
        if not any(symbol in n for n in kept):
            known = sorted({name for n in kept for name in n if name})
            hint = "states have none: export the model with a dynamic axis for what they remember"
            hint = f"those of states are {', '.join(known)}" if known else hint
            raise error_at(main, f"no state has a dimension '{symbol}'", hint)
        beyond = {
            (arg, i): rows
            for arg, dims in zip(main.args, names, strict=True)
            for i, name in enumerate(dims)
            if (rows := steps_beyond(name, symbol)) is not None
        }
        require_sizes(main, names, beyond, symbol)
        growth = Growth.of(main, beyond, symbol, capacity)
        if growth.step > capacity:
            what = f"each run appends {growth.step} rows"
            raise error_at(main, f"a capacity of {capacity} is too small: {what}")
        growth.prove()
        if (block := split_layout(self.layout)) and capacity % block:
            more = capacity + -capacity % block
            what = f"a capacity of {capacity} is no number of blocks of {block} rows"
            raise error_at(main, what, f"take {symbol}={more}")
        in_blocks = growth.in_blocks() if block else set[SSAValue]()
        length = main.body.block.insert_arg(tensor((), i64), len(main.args))
        length.name_hint = "length"
        table = {**port(f"{symbol}.length"), LENGTH: StringAttr(symbol)}
        table[STEP] = IntegerAttr(growth.step, i64)
        tables.append(DictionaryAttr(table))
        places: BlockArgument | None = None
        if block:
            places = main.body.block.insert_arg(tensor((capacity // block,), i64), len(main.args))
            places.name_hint = "table"
            table = {**port(f"{symbol}.table"), BLOCK: IntegerAttr(block, i64)}
            tables.append(DictionaryAttr(table))
        main.arg_attrs = ArrayAttr(tables)
        Growing(main, symbol, capacity, growth, length, places, in_blocks).run()
