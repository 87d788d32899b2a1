"""The scalar unit: the instructions that a core issues to its pipes. Each program is translated to
a Python function once, since loops of thousands of instructions run through it:

    scf.for %k = %c0 to %c4 step %c1 {                   for x0 in span0(0, 4, 1):
      %row = arith.muli %k, %c128 : index                  x1 = x0 * 128
      %box = tile.view %a[%row, %c0] : ...
      tile.load %box to %tile                      ->      q1(7 if 0 <= x1 <= 272 else clip4(x1, 0))
      tile.set mte2 -> mte1 [%k]                           q1(flag5[x0])
    }

`q1` appends to the queue of a pipe the number of a record (`queues.Record`): one for each op, and
more where its box is cut off at the memref's end, or its flag has several ids. Where numbers are
computed as well, `v1` takes the operands: offsets of tiles in their memories, of boxes in memrefs.
Indices are taken as numbers of any size; unsigned operands must not be negative.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import numpy as np
from xdsl.dialects.arith import CmpiOp, ConstantOp
from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType, i1
from xdsl.dialects.scf import ForOp, IfOp
from xdsl.ir import Block, Operation, SSAValue

from ge.dialects.support.diagnostics import error_at
from ge.dialects.support.element_types import storage_bytes
from ge.dialects.targets.target import Target
from ge.dialects.tile.buffers import (
    AllocOp,
    ReadOp,
    SlotOp,
    ViewOp,
    constant_index,
    memref_shape,
    number_at,
    row_stride,
    within,
)
from ge.dialects.tile.compute import FlagOp, SetOp
from ge.dialects.tile.instruction import Instruction, quotient
from ge.dialects.tile.kernel import BarrierOp, CoreOp, CoresOp, KernelOp, PartOp, ProgramOp
from ge.dialects.tile.transfers import LoadOp, PopOp, PushOp
from ge.dialects.tile.types import BoxType, FifoType, Pipe, TileType, fifo_type
from ge.runtime.cores.replay import MEET, POP, PUSH, RUN, SET, WAIT, Record
from ge.runtime.cores.steps import LoopSteps, Signature, Trace
from ge.runtime.data.arrays import Array

PIPES = tuple(Pipe)
MOST_STEPS = 10**7  # of a loop
MOST_NESTED = 15  # loops in loops: Python has no more than 20

EXPRESSIONS = {
    "addi": "{0} + {1}",
    "subi": "{0} - {1}",
    "muli": "{0} * {1}",
    "divui": "{0} // {1}",
    "divsi": "divsi({0}, {1})",
    "floordivsi": "{0} // {1}",
    "ceildivsi": "-(-{0} // {1})",
    "remui": "{0} % {1}",
    "remsi": "{0} - {1} * divsi({0}, {1})",
    "minsi": "min({0}, {1})",
    "maxsi": "max({0}, {1})",
    "minui": "min({0}, {1})",
    "maxui": "max({0}, {1})",
    "select": "{1} if {0} else {2}",
    "andi": "{0} & {1}",
    "ori": "{0} | {1}",
    "xori": "{0} ^ {1}",
}
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=", "<", "<=", ">", ">=")  # by predicate of arith.cmpi


# ---- facts of a kernel -------------------------------------------------------------------------


Issued: TypeAlias = Instruction | BarrierOp


@dataclass(slots=True)
class Tables:
    """Records, ops and channels of a kernel by number."""

    target: Target
    kernel: KernelOp
    records: list[Record] = field(default_factory=list[Record])
    units: list[tuple[ProgramOp, int]] = field(init=False)
    ops: list[Issued] = field(default_factory=list["Issued"])
    ends: list[int] = field(default_factory=list[int])  # of each op: which part of tiles in fifos
    channels: list[str] = field(default_factory=list[str])  # what they are called
    fifos: dict[tuple[SSAValue, int], int] = field(default_factory=dict[tuple[SSAValue, int], int])
    depths: dict[int, int] = field(default_factory=dict[int, int])  # of fifos
    arrays: dict[SSAValue, Array] = field(default_factory=dict[SSAValue, Array])  # of a run
    parts: int = field(init=False)  # vector cores beside a cube core
    barrier: int = field(init=False)  # the channel of all barriers
    _numbers: dict[Record, int] = field(default_factory=dict[Record, int])
    _flags: dict[tuple[int, Pipe, Pipe, int], int] = field(
        default_factory=dict[tuple[int, Pipe, Pipe, int], int]
    )

    def number(self, record: Record) -> int:
        if (known := self._numbers.get(record)) is not None:
            return known
        self.records.append(record)
        return self._numbers.setdefault(record, len(self.records) - 1)

    def __post_init__(self) -> None:
        self.units = self.kernel.units
        parts = self.parts = self.kernel.parts
        for fifo in self.kernel.fifos:
            name = fifo.result.name_hint or f"fifo{len(self.fifos) // parts}"
            for part in range(parts):
                whose = f" [{part}]" if parts > 1 else ""
                number = self.fifos[fifo.result, part] = self._channel(f"fifo %{name}{whose}")
                self.depths[number] = fifo.places
        self.barrier = self._channel("all cores at the barrier")

    def flag(self, unit: int, op: FlagOp, id: int) -> int:
        key = unit, op.source.data, op.target.data, id
        if not 0 <= id < self.target.flags:
            most = f"'{self.target.name}' has {self.target.flags} from {key[1]} to {key[2]}"
            raise error_at(op, f"there is no flag {id}: {most}, numbered from 0 on")
        if key not in self._flags:
            self._flags[key] = self._channel(f"flag {key[1]} -> {key[2]} [{id}]")
        return self._flags[key]

    def pipe_name(self, pipe: int) -> str:
        unit, local = divmod(pipe, len(PIPES))
        program, part = self.units[unit]
        number = f" {part}" if program.parts > 1 else ""
        return f"{program.kind}{number} {PIPES[local]}"

    def awaited(self, channel: int) -> str:
        """Text of what a pipe waits for at a channel, or at the negative number of a fifo."""
        if channel < 0:
            return f"room in {self.channels[~channel]}"
        return (
            f"a tile in {self.channels[channel]}"
            if channel in self.depths
            else self.channels[channel]
        )

    def _channel(self, name: str) -> int:
        self.channels.append(name)
        return len(self.channels) - 1


class FlagNumbers(dict[int, int]):
    """The record of a set or wait, by the flag's id."""

    def __init__(self, tables: Tables, unit: int, pipe: int, op: FlagOp, number: int) -> None:
        super().__init__()
        self.tables, self.unit, self.pipe, self.op, self.op_number = tables, unit, pipe, op, number

    def __missing__(self, id: int) -> int:
        channel = self.tables.flag(self.unit, self.op, id)
        kind = SET if isinstance(self.op, SetOp) else WAIT
        record = Record(kind, self.pipe, channel, self.op_number, ())
        self[id] = self.tables.number(record)
        return self[id]


# ---- translation -------------------------------------------------------------------------------


Walk = Callable[[int, Sequence[list[int]], Sequence[list[Any]], Trace], None]
"""Issue the program of a core of this number; append records and operands by pipe, and where
operands are not asked for the steps of its outermost loops."""


def translate(unit: int, tables: Tables, with_values: bool) -> Walk:
    """The function that walks through the program of a unit, whose pipes come after those of the
    units before it. Raises GeError for a program that cannot be run."""
    translation = _Translation(unit, tables, with_values)
    translation.block(tables.kernel.body.block)
    translation.block(translation.program.body.block)
    return translation.function()


class _Translation:
    def __init__(self, unit: int, tables: Tables, with_values: bool) -> None:
        self.unit, self.tables, self.with_values = unit, tables, with_values
        self.program, self.part = tables.units[unit]
        self.lines: list[str] = []
        self.depth = 1
        self.names: dict[SSAValue, str] = {}  # expressions of scalars and of offsets of tiles
        self.scope: dict[str, Any] = {"divsi": quotient}
        self.own: dict[type[Operation], str] = {
            CoreOp: "core",
            CoresOp: str(tables.kernel.core_count),
            PartOp: str(self.part),
        }

    def function(self) -> Walk:
        pipes = range(len(PIPES))
        head = ["def walk(core, queues, values, trace):"]
        head += [f" q{p} = queues[{p}].append; v{p} = values[{p}].append" for p in pipes]
        exec("\n".join([*head, *self.lines]), self.scope)
        walk: Walk = self.scope["walk"]

        def checked(core: int, queues: Any, values: Any, trace: Trace) -> None:
            try:
                walk(core, queues, values, trace)
            except ZeroDivisionError:
                raise error_at(self.program, f"core {core} divides an index by zero") from None

        return checked

    def line(self, text: str) -> None:
        self.lines.append(" " * self.depth + text)

    def define(self, value: SSAValue, expression: str) -> None:
        self.names[value] = f"x{len(self.names)}"
        self.line(f"{self.names[value]} = {expression}")

    def known(self, name: str, value: Any) -> str:
        """The name by which the function knows a value of ours."""
        name = f"{name}{len(self.scope)}"
        self.scope[name] = value
        return name

    def block(self, block: Block) -> None:
        for op in block.ops:
            match op:
                case ForOp() | IfOp():
                    self.nested(op)
                case ConstantOp(value=IntegerAttr() as attr):
                    value = attr.value.data
                    is_truth = op.result.type == i1
                    self.names[op.result] = str(bool(value)) if is_truth else f"({value})"
                case CoreOp() | CoresOp() | PartOp():
                    self.names[op.result] = self.own[type(op)]
                case ReadOp():
                    at = ", ".join(self.names[o] for o in op.offsets)
                    read = self.known("read", _reader(op, self.tables.arrays, self.with_values))
                    self.define(op.result, f"{read}({at})")
                case AllocOp() | SlotOp() | ViewOp():
                    if self.with_values and isinstance(op.result.type, TileType):
                        self.tile(op)
                case PushOp() | PopOp() if self.program.parts == 1:
                    for part in range(self.tables.parts):
                        self.instruction(op, part)
                case Instruction():
                    self.instruction(op, self.part)
                case BarrierOp():
                    self.barrier(op)
                case ConstantOp():
                    pass  # a number that nothing here can use
                case _ if op.name.startswith("arith."):
                    if not isinstance(t := op.results[0].type, IndexType | IntegerType):
                        raise error_at(op, f"a core computes integers itself, and no {t}")
                    self.define(op.results[0], expression(op, [self.names[o] for o in op.operands]))
                case _:  # fifos, programs, ends of blocks
                    pass

    def nested(self, op: ForOp | IfOp) -> None:
        if self.depth > MOST_NESTED:
            raise error_at(op, f"more than {MOST_NESTED} loops and branches are nested")
        if isinstance(op, ForOp):
            bounds = ", ".join(self.names[b] for b in (op.lb, op.ub, op.step))
            self.names[op.body.block.args[0]] = name = f"x{len(self.names)}"
            self.line(f"for {name} in {self.known('span', _span(op))}({bounds}):")
            if self.depth == 1 and not self.with_values:
                self.steps(op, name)
            else:
                self.body(op.body.block)
            return
        self.line(f"if {self.names[op.cond]}:")
        self.body(op.true_region.block)
        if op.false_region.blocks:
            self.line("else:")
            self.body(op.false_region.block)

    def steps(self, op: ForOp, index: str) -> None:
        """Write the body of an outermost loop: the records of a known step are issued again without
        running it."""
        signature = Signature(self.names, self.own, expression)
        key = signature.key(op, index) or "None"
        steps = self.known("steps", LoopSteps(len(self.scope)))
        self.depth += 1
        for line in signature.lines if key != "None" else ():
            self.line(line)
        self.line(f"key = {key}")
        self.line(f"if {steps}.replay(queues, trace, key): continue")
        self.line("heads = [*map(len, queues)]")
        self.depth -= 1
        self.body(op.body.block)
        self.depth += 1
        self.line(f"{steps}.keep(queues, heads, trace, key)")
        self.depth -= 1

    def body(self, block: Block) -> None:
        self.depth += 1
        self.line("pass")
        self.block(block)
        self.depth -= 1

    # ---- tiles

    def tile(self, op: AllocOp | SlotOp | ViewOp) -> None:
        """The offset of a tile in its memory."""
        if isinstance(op, AllocOp):
            self.names[op.result] = str(offsets_of(op)[0])
        elif isinstance(op, SlotOp):
            ring = op.ring.owner
            assert isinstance(ring, AllocOp)
            offsets = self.known("ring", offsets_of(ring))
            self.define(op.result, f"{offsets}[{self.names[op.index]} % {ring.copies}]")
        else:
            at = ", ".join(self.names[v] for v in (op.source, *op.offsets))
            self.define(op.result, f"{self.known('part', _part(op))}({at})")

    # ---- instructions

    def instruction(self, op: Instruction, part: int) -> None:
        number = len(self.tables.ops)
        self.tables.ops.append(op)
        self.tables.ends.append(part)
        local = PIPES.index(op.pipe())
        pipe = self.unit * len(PIPES) + local
        if isinstance(op, FlagOp):
            numbers = FlagNumbers(self.tables, self.unit, pipe, op, number)
            if (id := constant_index(op.id)) is not None:
                self.line(f"q{local}({numbers[id]})")
            else:
                self.line(f"q{local}({self.known('flag', numbers)}[{self.names[op.id]}])")
        else:
            self.line(f"q{local}({self.record(op, number, pipe)})")
        if self.with_values:
            values = "" if isinstance(op, FlagOp) else "".join(map(self.value, op.operands))
            self.line(f"v{local}(({values}))")

    def barrier(self, op: BarrierOp) -> None:
        """Add a barrier, where all pipes that the unit uses meet."""
        number = len(self.tables.ops)
        self.tables.ops.append(op)
        self.tables.ends.append(0)
        for used in self.program.pipes:
            local = PIPES.index(used)
            pipe = self.unit * len(PIPES) + local
            record = Record(MEET, pipe, self.tables.barrier, number, ())
            self.line(f"q{local}({self.tables.number(record)})")
            if self.with_values:
                self.line(f"v{local}(())")

    def record(self, op: Instruction, number: int, pipe: int) -> str:
        fifo = op.target if isinstance(op, PushOp) else op.source if isinstance(op, PopOp) else None
        if fifo is not None:
            kind = PUSH if isinstance(op, PushOp) else POP
            channel = self.tables.fifos[fifo, self.tables.ends[number]]
            rows, cols = fifo_type(fifo).shape
            sizes = rows // self.tables.parts, cols
            return str(self.tables.number(Record(kind, pipe, channel, number, sizes)))
        boxes = [v.owner for v in op.operands if isinstance(v.type, BoxType)]
        if not boxes:
            return str(self.tables.number(Record(RUN, pipe, -1, number, ())))
        (view,) = boxes
        assert isinstance(view, ViewOp)
        extents, sizes = memref_shape(view.source), view.box_sizes
        offsets, ends = ([self.names[o] for o in places] for places in (view.offsets, view.ends))
        clip = _Clip(op, view, lambda s: self.tables.number(Record(RUN, pipe, -1, number, s)))
        last = [e - (n - 1) * s - 1 for e, n, s in zip(extents, sizes, view.box_steps, strict=True)]
        free = [
            f"0 <= {at} <= {most}"
            for at, most in zip(offsets, last, strict=True)
            if not (at.startswith("(") and 0 <= int(at[1:-1]) <= most)
        ]
        if ends:
            reach = [(n - 1) * s + 1 for n, s in zip(sizes, view.box_steps, strict=True)]
            free += [f"{at} + {n} <= {e}" for at, n, e in zip(offsets, reach, ends, strict=True)]
        whole = str(clip.whole())
        if not free:
            return whole
        cut = f"{self.known('clip', clip)}({', '.join(offsets + ends)})"
        return f"{whole} if {' and '.join(free)} else {cut}"

    def value(self, operand: SSAValue) -> str:
        if isinstance(operand.type, FifoType):
            return ""
        if isinstance(operand.type, BoxType):
            view = operand.owner
            assert isinstance(view, ViewOp)
            places = *view.offsets, *view.ends
            return f"({''.join(f'{self.names[o]},' for o in places)}),"
        return f"{self.names[operand]},"


def expression(op: Operation, names: Sequence[str]) -> str:
    """The expression of an op of `arith` on operands of these names."""
    if isinstance(op, CmpiOp):
        return f"{names[0]} {COMPARISONS[op.predicate.value.data]} {names[1]}"
    return EXPRESSIONS[op.name.removeprefix("arith.")].format(*names)


def offsets_of(op: AllocOp) -> tuple[int, ...]:
    """Raises GeError before `tile-plan`."""
    if op.offsets is None:
        hint = "ge-opt -p tile-plan gives all buffers a place"
        raise error_at(op, f"a buffer in {op.tile.space} has no offset", hint)
    return op.offsets


def _span(op: ForOp) -> Callable[[int, int, int], range]:
    def span(first: int, end: int, step: int) -> range:
        if step < 1:
            raise error_at(op, f"a loop goes on by at least 1, not by {step}")
        steps = range(first, end, step)
        if end - first > step * MOST_STEPS:
            raise error_at(op, f"a loop of {(end - first) // step} steps is too long to emulate")
        return steps

    return span


def _reader(op: ReadOp, arrays: Mapping[SSAValue, Array], with_values: bool) -> Callable[..., int]:
    """A function that reads a number as the scalar unit does; without values it returns the largest
    number that may be read, or of those that ascend the one that divides groups of one size."""
    span, shape = op.span, memref_shape(op.source)

    def read(*at: int) -> int:
        if not all(0 <= i < size for i, size in zip(at, shape, strict=True)):
            raise error_at(op, f"a number is read at {[*at]}, outside of {op.source.type}")
        if not with_values:
            return span[-1] if op.ascending is None else number_at(op, at[0], shape[0] - 1)
        value = int(arrays[op.source][at])
        if value not in span:
            promised = f"at least {span.start} and below {span.stop}"
            raise error_at(op, f"the number read at {[*at]} is {value}, not {promised}")
        if op.distinct is not None and (arrays[op.source] == value).sum() > 1:
            raise error_at(op, f"the number read at {[*at]} is {value}, as is another element")
        if op.ascending is not None:
            check_ascending(op, arrays[op.source])
        return value

    return read


def check_ascending(op: ReadOp, numbers: Array) -> None:
    """Raises GeError for numbers of which one is less than that before, or that do not begin and
    end as the op says."""
    if (falls := np.flatnonzero(numbers[1:] < numbers[:-1])).size:
        i = int(falls[0]) + 1
        text = f"the number at [{i}] is {numbers[i]}, and {numbers[i - 1]} stands before it"
        raise error_at(op, f"{text}: they ascend")
    first, last = int(numbers[0]), int(numbers[-1])
    if (first, last) != (op.span[0], op.span[-1]):
        promised = f"from {op.span[0]} to {op.span[-1]}"
        raise error_at(op, f"numbers that ascend {promised} go from {first} to {last}")


def _part(op: ViewOp) -> Callable[[int, int, int], int]:
    """Offset of a tile, row, column -> offset of the sub-tile."""
    source, part = cast(TileType, op.source.type), cast(TileType, op.result.type)
    rows, cols = (w - p for w, p in zip(source.shape, part.shape, strict=True))
    stride = row_stride(op.source)

    def place(offset: int, row: int, col: int) -> int:
        if not (0 <= row <= rows and 0 <= col <= cols):
            where = f"{part.text()} from [{row}, {col}] on"
            raise error_at(op, f"the sub-tile passes its tile: {where} of {source.text()}")
        return offset + storage_bytes(row * stride + col, part.element)

    return place


@dataclass(slots=True)
class _Clip:
    """Offsets and ends of a box -> the record of an instruction on the part of it that exists."""

    op: Instruction
    view: ViewOp
    number: Callable[[tuple[int, ...]], int]

    def whole(self) -> int:
        return self.number(self.view.box_sizes)

    def __call__(self, *places: int) -> int:
        offsets = places[: len(self.view.offsets)]
        if min(offsets) < 0 and not (isinstance(self.op, LoadOp) and self.op.pad is not None):
            box = f"a box of sizes {[*self.view.box_sizes]} at {[*offsets]}"
            raise error_at(
                self.op, f"{box} begins before the memref", "a load of such a box has `pad`"
            )
        return self.number(tuple(high - low for low, high in within(self.view, places)))
