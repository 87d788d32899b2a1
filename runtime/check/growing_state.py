"""Proof that a program keeps to one count of rows for all states that grow (`npu_task.grows`).

The arguments of @main tell how many rows a run appends, and of how many rows each block is that
the table places. Of every state that grows these have to be the sizes; a launch that appends to a
state, or attends to the first rows of one, does it to one that grows along that axis; it appends
that many rows, and takes the table where there is one, and none where there is none.

An argument with a dimension that follows from the number of rows (a mask, of `past + 1`) has as
many elements as attention reads of it. From the argument it is followed through copies and kernels
(`moved_axes.py`), along axes of which each element of a result needs the one at its place alone;
one that does not arrive at attention so is relied upon, and named.

A state is followed from its slot into its launches' kernels, and as a cast that comes back to it,
no further: other values computed from a state (a dequantized cache) are not. That lengths and
tables arrive unchanged, and that kernels use them rightly, is trusted; `--validate` compares the
numbers run by run.

Proof, too, of a program's other claims about state: the slots of the segment "state", which keep
their values from run to run.

Each has a name that no other one has, bytes that no other slot has, and says which part of it holds
values when a run begins (`npu_task.valid`). The walk of `memory.py` starts with these bytes as
written, and ends with all bytes of each state as its own: so a run reads what the last run, or the
session before the first one, has left there, and nobody else writes to it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import cast

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, StringAttr, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ge.dialects.fused_op import FusedOp
from ge.dialects.graph.attention import AppendOp, AttentionOp
from ge.dialects.graph.elementwise import CastOp
from ge.dialects.graph.stated import (
    BLOCK,
    LENGTH,
    STEP,
    argument_attributes,
    dims_of,
    growing_symbol,
    steps_beyond,
)
from ge.dialects.graph.stated import name_of as port_name
from ge.dialects.npu_task.attributes import GROWS, STATE, VALID
from ge.dialects.npu_task.memory import ByteRegion, owner_of, view_of
from ge.dialects.npu_task.ops import KernelOp, LaunchOp, SlotOp
from ge.dialects.support.dims import symbols
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import array_ints, byte_size, numel, rank_of, shape_of
from ge.runtime.check.moved_axes import Digit, Key, Marks, MovedAxes, Source
from ge.runtime.check.problems import Problem, name_of

SEGMENT = "state"


def states_of(func: FuncOp) -> list[SlotOp]:
    return [op for op in func.walk() if isinstance(op, SlotOp) and op.segment.data == SEGMENT]


def name_of_state(op: Operation) -> str:
    name = op.attributes.get(STATE)
    return name.data if isinstance(name, StringAttr) else ""


def check_states(func: FuncOp) -> Iterator[Problem]:
    """Yield errors in the names, sizes and use of the slots that keep states."""
    slots = states_of(func)
    names = [name_of_state(op) for op in slots]
    for op, name in zip(slots, names, strict=True):
        if not name:
            yield Problem("P3", f"the slot of a state has no name ({STATE})", op)
        elif names.count(name) > 1:
            yield Problem("P3", f"two slots keep state '{name}'", op)
        if valid_region(op) is None:
            text = f"{VALID} does not say which part of state '{name}' holds values at first"
            yield Problem("P4", text, op)
    in_order = sorted(slots, key=lambda op: op.offset.value.data)
    for a, b in pairwise(in_order):
        if a.offset.value.data + byte_size(a.result.type) > b.offset.value.data:
            text = f"states '{name_of_state(a)}' and '{name_of_state(b)}' share bytes"
            yield Problem("P5", text, b)
    for op in func.walk():
        if STATE in op.attributes and isinstance(op, SlotOp) and op.segment.data != SEGMENT:
            text = f"state '{name_of_state(op)}' is in the {op.segment.data}, which is used again"
            yield Problem("P5", text, op)


def valid_region(op: SlotOp) -> ByteRegion | None:
    """The bytes of a state that hold values when a run begins; None where that is not said."""
    valid, shape = op.attributes.get(VALID), shape_of(op.result)
    if not isinstance(valid, DenseArrayBase):
        return None
    typed = cast("DenseArrayBase", valid)
    sizes = array_ints(typed) if typed.elt_type == i64 else ()
    if len(sizes) != len(shape) or any(not 0 <= n <= m for n, m in zip(sizes, shape, strict=True)):
        return None
    return replace(view_of(op.result), sizes=sizes).region


def check_growing(func: FuncOp, kernels: Mapping[str, KernelOp]) -> Iterator[Problem]:
    """Yield errors in the states that grow, in their counters and in their tables of blocks."""
    axes: dict[SSAValue, int | None] = {}
    step, blocks = numbers(func, STEP), numbers(func, BLOCK)
    rows = next((n * numel(shape_of(arg)) for arg, n in blocks.items()), None)
    yield from check_counters(func, step)
    for op in states_of(func):
        axes[op.result] = None
        if not isinstance(grows := op.attributes.get(GROWS), IntegerAttr):
            continue
        axis, shape = grows.value.data, shape_of(op.result)
        if not 0 <= axis < len(shape) or not step:
            text = f"state '{name_of_state(op)}' grows along axis {axis}, which nobody counts"
            yield Problem("P6", text, op)
            continue
        axes[op.result] = axis
        if rows not in (None, shape[axis]):
            text = f"a table of {rows} rows, for {shape[axis]} of state '{name_of_state(op)}'"
            yield Problem("P7", text, op)
    states, appended = dict(axes), set[SSAValue]()
    origin = {state: state for state in states}  # of states, and of casts of them
    for op in func.walk():
        if not isinstance(op, LaunchOp) or (kernel := kernels.get(op.callee)) is None:
            continue
        for value, arg in zip(op.ins, kernel.body.block.args, strict=False):
            owner = owner_of(value)
            if owner not in axes or not isinstance(slot := origin[owner].owner, Operation):
                continue
            use = CacheUse(axes[owner], {*step.values()}, rows is not None)
            for rule, text in use.wrong(arg, f"state '{name_of_state(slot)}'"):
                yield Problem(rule, f"{name_of(op)}: {text}", op)
            if use.appends:
                appended.add(owner)
            target = owner_of(op.outs[0]) if is_cast(kernel) and op.outs else owner
            if target not in states:
                axes[target], origin[target] = axes[owner], origin[owner]
            elif origin[owner] is target and owner in appended:  # a cast comes back
                appended.add(target)
    for state, axis in states.items():
        if axis is not None and state not in appended and isinstance(state.owner, Operation):
            text = f"state '{name_of_state(state.owner)}' grows along axis {axis}, and no launch"
            yield Problem("P8", f"{text} appends to it", state.owner)
    if (masks := masks_of(func, kernels)) is not None:
        yield from masks.problems


def is_cast(kernel: KernelOp) -> bool:
    """True if a kernel changes the element type of its operand, and does nothing else."""
    first = kernel.body.block.first_op
    return isinstance(first, CastOp) and first.next_op is kernel.body.block.last_op


def check_counters(func: FuncOp, step: Mapping[SSAValue, int]) -> Iterator[Problem]:
    """An argument that counts rows says how many a run appends; others have as many elements as the
    rows that hold values then."""
    symbol = growing_symbol(func)
    for arg in func.args:
        table = argument_attributes(func, arg.index)
        name = port_name(table) or f"arg{arg.index}"
        if (LENGTH in table) != (STEP in table):
            text = f"argument '{name}' counts rows of states, and does not say how many a run"
            text = f"{text} appends" if LENGTH in table else f"argument '{name}' counts no rows"
            yield Problem("P6", f"{text} ({LENGTH}, {STEP})", func)
        elif LENGTH in table and (
            not isinstance(table[LENGTH], StringAttr) or step.get(arg, 0) < 1
        ):
            yield Problem("P6", f"argument '{name}' counts {step.get(arg)} rows a run", func)
        for dim in dims_of(table, rank_of(arg)):
            if symbol and symbol in symbols(dim) and steps_beyond(dim, symbol) is None:
                text = f"argument '{name}' has {dim} elements, which is no number of rows beyond"
                yield Problem("P6", f"{text} '{symbol}'", func)


def numbers(func: FuncOp, name: str) -> dict[SSAValue, int]:
    """The arguments that have a number of this name."""
    tables = zip(func.args, func.arg_attrs or (), strict=False)
    found = ((arg, table.data.get(name)) for arg, table in tables)
    return {arg: n.value.data for arg, n in found if isinstance(n, IntegerAttr)}


@dataclass
class CacheUse:
    """The use that a kernel makes of a state, one of its values, that grows along an axis (None: it
    does not say that it grows)."""

    axis: int | None
    steps: set[int]
    in_blocks: bool
    appends: bool = False

    def wrong(self, cache: SSAValue, state: str) -> Iterator[tuple[str, str]]:
        """Yield the errors of the use, each with its rule."""
        for use in cache.uses:
            op = use.operation
            if isinstance(op, FusedOp):
                yield from self.wrong(op.block.args[use.index], state)
            if isinstance(op, AppendOp) and op.cache is cache:
                self.appends = True
                axis = op.axis.value.data % rank_of(cache)
                if axis != self.axis:
                    yield (
                        "P8",
                        f"rows are appended to {state}, which does not grow along axis {axis}",
                    )
                elif (count := shape_of(op.rows)[axis]) not in self.steps:
                    yield "P8", f"{count} rows, not {min(self.steps)}, are appended to {state}"
            elif not isinstance(op, AttentionOp) or op.length is None:
                continue
            elif self.axis is None:
                yield "P9", f"attention reads the first rows of {state}, which does not grow"
            if (op.table is not None) != self.in_blocks:
                yield "P7", f"{'no' if self.in_blocks else 'a'} table comes with {state}"


@dataclass(frozen=True, slots=True)
class StateRows:
    """So many elements of an argument, beyond the rows that states have before a run."""

    beyond: int
    name: str


def masks_of(func: FuncOp, kernels: Mapping[str, KernelOp]) -> "Masks | None":
    """The arguments that have an element for each row of the states that grow, followed to the ops
    that read them; None if nothing grows."""
    symbol, step = growing_symbol(func), numbers(func, STEP)
    if not symbol or not step:
        return None
    masks = Masks(kernels, symbol=symbol, step=min(step.values()))
    masks.check(func)
    return masks


@dataclass
class Masks(MovedAxes[StateRows]):
    """Follows arguments that have an element for each row to the masks of attention.

    A value made of one in a way that is not followed has its name under an axis below 0."""

    symbol: str = ""
    step: int = 0
    problems: list[Problem] = field(default_factory=list[Problem])
    names: list[str] = field(default_factory=list[str])
    compared: set[str] = field(default_factory=set[str])
    missed: set[str] = field(default_factory=set[str])  # behind masks that are not compared
    hidden: dict[SSAValue, Marks[StateRows]] = field(
        default_factory=dict[SSAValue, Marks[StateRows]]
    )

    @property
    def unfollowed(self) -> list[str]:
        """The arguments of which it is not known how many elements attention reads."""
        return [n for n in self.names if n not in self.compared or n in self.missed]

    def check(self, func: FuncOp) -> None:
        for arg in func.args:
            table, shape = argument_attributes(func, arg.index), shape_of(arg)
            name = port_name(table) or f"arg{arg.index}"
            for axis, dim in enumerate(dims_of(table, len(shape))):
                if (beyond := steps_beyond(dim, self.symbol)) is not None:
                    row = StateRows(beyond, name)
                    self.axes.setdefault(arg, {})[axis, Digit(1, shape[axis])] = row
                    self.names.append(name)
        for op in func.walk():
            self.task(op)

    def lost_in(self, before: Iterable[StateRows], after: Marks[StateRows]) -> Marks[StateRows]:
        """Marks that are not followed any more, of those known before and after a step."""
        kept = {rows.name for rows in after.values()}
        gone = (rows for rows in before if rows.name not in kept)
        return {(-1 - self.names.index(rows.name), Digit(1, 1)): rows for rows in gone}

    def read(self, value: SSAValue, op: Operation) -> Marks[StateRows]:
        found, owner = super().read(value, op), owner_of(value)
        lost = self.lost_in(self.memory.get(owner, {}).values(), found)
        return found | lost | self.hidden.get(owner, {})

    def write(self, value: SSAValue, marks: Marks[StateRows]) -> None:
        self.hidden[owner_of(value)] = {k: rows for k, rows in marks.items() if k[0] < 0}
        super().write(value, {k: rows for k, rows in marks.items() if k[0] >= 0})

    def made(
        self, op: TensorOp, key: Key, sources: Sequence[tuple[Source, StateRows]]
    ) -> StateRows:
        rows = sources[0][1]
        if isinstance(op, AppendOp) and key[0] == op.axis.value.data % rank_of(op.cache):
            return replace(rows, beyond=rows.beyond + shape_of(op.rows)[key[0]])
        return rows

    def result(
        self, op: TensorOp, index: int, known: Sequence[Marks[StateRows]]
    ) -> Marks[StateRows]:
        if isinstance(op, AttentionOp) and op.length is not None:
            for mask, marks in zip(op.operands, known, strict=True):
                if mask in op.masks:
                    self.compare(rank_of(mask) - 1, marks)
        followed = [{k: rows for k, rows in marks.items() if k[0] >= 0} for marks in known]
        found = super().result(op, index, followed)
        return found | self.lost_in((rows for marks in known for rows in marks.values()), found)

    def compare(self, last: int, marks: Marks[StateRows]) -> None:
        read = {rows.name: rows for (axis, _), rows in marks.items() if axis == last}
        self.compared |= {*read}
        self.missed |= {rows.name for rows in marks.values()} - {*read}
        for name, rows in read.items():
            if rows.beyond != self.step and self.launched is not None:
                own, all_ = (
                    f"{self.symbol} + {n}" if n else self.symbol for n in (rows.beyond, self.step)
                )
                text = f"input '{name}' has {own} elements, of which attention reads {all_}"
                text = f"{name_of(self.launched)}: {text}"
                self.problems.append(Problem("P10", text, self.launched))
