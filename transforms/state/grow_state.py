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
changes them is proved op by op (`growth.py`), and an op for which it cannot be is refused. Numbers
that follow from the size become constants where they are shapes, and are computed from `%n` where
they are data.

With `layout=paged:16` rows lie in blocks of 16, in an order that an argument says:
          %t: tensor<4xi64> {graph.name = "past.table", graph.block = 16} ...
      %0 = graph.append %k, %new at %n table %t axis 0
      %1 = graph.attention %q, %0, %0 length %n table %t mask %m
An op that reads them beside rows in their own order is refused.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    StringAttr,
    TensorType,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass

from ge.dialects.graph.attention import AppendOp, AttentionOp
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.elementwise import AddOp, CastOp, MulOp
from ge.dialects.graph.shape import ReshapeOp
from ge.dialects.graph.slicing import ConcatOp
from ge.dialects.graph.stated import (
    BLOCK,
    LENGTH,
    STATE,
    STEP,
    dim_relations,
    dims_of,
    name_of,
    port,
    split_capacity,
    split_layout,
    steps_beyond,
)
from ge.dialects.support.diagnostics import error_at, warning
from ge.dialects.support.dims import symbols
from ge.dialects.support.functions import main_function
from ge.dialects.support.types import (
    DYNAMIC,
    element_type,
    rank_of,
    set_type,
    shape_of,
    tensor,
)
from ge.transforms.graph.control_flow import insert_before
from ge.transforms.graph.eliminate_dead_code import eliminate_dead_code
from ge.transforms.graph.infer_shapes import infer_block, refresh_signature
from ge.transforms.rewriting.passes import Relation, SameSteps
from ge.transforms.shapes.relate_dims import relating
from ge.transforms.state.growth import Beyond, Growth, LinearSize, is_size
from ge.transforms.state.mark_state import argument_tables


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
            if isinstance(op, ConcatOp) and self.growth.is_append(op):
                self.append(op)
            elif isinstance(op, AttentionOp) and self.growth.axis(op.key) is not None:
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
        return insert_before(op, ConstantOp.make(attr, t)).result

    def computed(self, op: Operation, value: SSAValue, known: Sequence[LinearSize]) -> SSAValue:
        """slope * (length - step) + rest"""
        number: SSAValue = self.length
        if element_type(value) != i64:
            number = insert_before(op, CastOp.of(number, to=element_type(value))).result
        if any(n.slope != 1 for n in known):
            slopes = self.constant(op, value, [n.slope for n in known])
            number = insert_before(op, MulOp.of(number, slopes)).result
        rests = self.constant(op, value, [n.rest - n.slope * self.growth.step for n in known])
        number = insert_before(op, AddOp.of(number, rests)).result
        if shape_of(number) != shape_of(value):
            shape = list(shape_of(value))
            number = insert_before(op, ReshapeOp.of(number, None, shape=shape)).result
        return number

    def append(self, op: ConcatOp) -> None:
        cache, *rows = op.inputs
        new = rows[0]
        if len(rows) > 1:
            new = insert_before(op, ConcatOp.of(rows, axis=op.axis)).result
        axis = op.axis.value.data % rank_of(cache)
        appended = AppendOp.create(
            operands=[cache, new, self.length, *self.table_of(cache)],
            properties={"axis": IntegerAttr(axis, i64)},
            result_types=[op.result.type],
        )
        insert_before(op, appended)
        appended.result.name_hint = op.result.name_hint
        self.replace(op, appended)

    def table_of(self, value: SSAValue) -> list[SSAValue]:
        return [self.table] if self.table is not None and value in self.in_blocks else []

    def attend(self, op: AttentionOp) -> None:
        params: dict[str, Any] = dict(op.properties)
        params.pop("operandSegmentSizes")
        table = self.table if op.key in self.in_blocks else None
        others = [*op.masks], op.key_lengths, op.offset_value, self.length, table
        new = AttentionOp.of(op.query, op.key, op.value, *others, **params)
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
class GrowStatePass(ModulePass):
    """Make the program of a state that grows static, with room for so many rows."""

    name = "grow-state"
    RELATION: ClassVar[Relation] = SameSteps()

    capacity: str
    """NAME=N: the dimension of the model along which state grows, and the most rows."""
    layout: str = "contiguous"
    """Of rows: contiguous, or paged:N (blocks of N rows)."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if (main := main_function(op)) is None:
            return
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
