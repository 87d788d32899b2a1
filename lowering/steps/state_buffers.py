"""State in buffers: arguments marked `graph.state` stay in the memory of the device.

    @main(%h: tensor<4xf32> {graph.name = "h", graph.state = "next"}) -> (... {graph.name = "next"})
becomes a buffer that is no argument and no result; what is the state of the next run is copied
there when all else is done (`update-state` removes copies):
    %0 = memref.alloc() {npu_task.state = "h"} : memref<4xf32, hbm>
    ...
    npu_task.copy %1 to %0 : ...

Where the output is larger along an axis, so is the buffer. Its first part holds values when a run
begins (`npu_task.valid`), which are copied to a buffer of the input's shape.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    MemRefType,
    StridedLayoutAttr,
    StringAttr,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.dialects.memref import AllocOp, ReinterpretCastOp
from xdsl.ir import Block, Operation, SSAValue

from ge.dialects.graph.ports import dims_of, name_of
from ge.dialects.graph.state import STATE, Typed, growing_axis, growing_symbol
from ge.dialects.npu_task.attributes import HBM, data_type, number
from ge.dialects.npu_task.memory import owner_of, row_major
from ge.dialects.npu_task.ops import CopyOp
from ge.dialects.npu_task.program_info import GROWS, VALID
from ge.dialects.npu_task.program_info import STATE as STATE_BUFFER
from ge.dialects.support.diagnostics import error_at
from ge.dialects.support.operation import segments
from ge.dialects.support.types import Shape, element_type, is_dynamic, shape_of


@dataclass(frozen=True, slots=True)
class StateArgument:
    """An argument that the device keeps, and the number of the result that it becomes."""

    name: str
    result: int
    shape: Shape  # of the result
    grows: int | None = None  # the axis of a buffer that runs fill


def state_arguments(func: FuncOp, returned: ReturnOp) -> dict[SSAValue, StateArgument]:
    """Raises GeError for state that no output becomes, or of a size that is not known."""
    found: dict[SSAValue, StateArgument] = {}
    results = () if func.res_attrs is None else func.res_attrs.data
    symbol = growing_symbol(func)
    outputs = {name_of(t.data) or f"result{i}": i for i, t in enumerate(results)}
    for arg, table in zip(func.args, func.arg_attrs or (), strict=False):
        if not isinstance(becomes := table.data.get(STATE), StringAttr):
            continue
        name = name_of(table.data) or f"arg{arg.index}"
        index = outputs.get(becomes.data)
        if index is None:
            raise error_at(func, f"state '{name}' becomes '{becomes.data}', which is no output")
        value = returned.operands[index]
        if is_dynamic(arg.type) or is_dynamic(value.type):
            hint = "fix its shape with --dim, or give --state-capacity"
            raise error_at(func, f"state '{name}' has a size that is known only at run time", hint)
        types = Typed(name, *data_type(arg.type)), Typed(becomes.data, *data_type(value.type))
        growing_axis(*types)
        dims = dims_of(table.data, len(shape_of(value)))
        grows = dims.index(symbol) if symbol in dims else None
        found[arg] = StateArgument(name, index, shape_of(value), grows)
    return found


def state_buffer(arg: SSAValue, state: StateArgument) -> AllocOp:
    """A buffer of the device that keeps a state; its valid part is as large as `arg`."""
    shape = DenseArrayBase.from_list(i64, list(shape_of(arg)))
    alloc = AllocOp.create(
        result_types=[MemRefType(element_type(arg), state.shape, memory_space=HBM)],
        properties={"operandSegmentSizes": segments(0, 0)},
        attributes={STATE_BUFFER: StringAttr(state.name), VALID: shape},
    )
    if state.grows is not None:
        alloc.attributes[GROWS] = number(state.grows)
    alloc.memref.name_hint = arg.name_hint
    return alloc


def valid_part(buffer: SSAValue, shape: Shape) -> ReinterpretCastOp:
    """The first rows of a state."""
    strides = row_major(shape_of(buffer))
    t = MemRefType(element_type(buffer), shape, StridedLayoutAttr(strides, 0), HBM)
    return ReinterpretCastOp(buffer, (), (), (), [0], shape, strides, t)


def updates(
    values: Mapping[SSAValue, SSAValue], new_buffer: Mapping[SSAValue, AllocOp]
) -> Iterator[Operation]:
    """Copies that put values into states, all as if at once; `new_buffer` is for values that lie in
    a state now."""
    moved = dict(values)
    for state, value in values.items():
        if owner_of(value) is not owner_of(state) and value in new_buffer:
            alloc = new_buffer[value]
            yield alloc
            yield CopyOp(value, alloc.memref)
            moved[state] = alloc.memref
    for state, value in moved.items():
        if value is not state:
            yield CopyOp(value, state)


def erase_ports(func: FuncOp, states: Mapping[SSAValue, StateArgument]) -> None:
    """Take states out of a function's arguments, and out of its attributes."""
    if not states:
        return
    arguments = {arg.index for arg in func.args if arg in states}
    results = {s.result for s in states.values()}
    func.arg_attrs = _without(func.arg_attrs, arguments)
    func.res_attrs = _without(func.res_attrs, results)
    for arg in reversed(func.args):
        if arg in states:
            func.body.block.erase_arg(arg)


def _without(
    tables: ArrayAttr[DictionaryAttr] | None, indices: set[int]
) -> ArrayAttr[DictionaryAttr] | None:
    if tables is None:
        return None
    return ArrayAttr[DictionaryAttr](t for i, t in enumerate(tables.data) if i not in indices)


def is_state(buffer: Operation | Block) -> bool:
    return isinstance(buffer, AllocOp) and STATE_BUFFER in buffer.attributes
