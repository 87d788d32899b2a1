"""A pipeline: a program for each stage, and what stages send each other.

    graph.mesh @mesh ["microbatch"=8, "pp"=4, "dp"=2] pipeline "pp"
    module @stage_0 { ... npu_task.send "h" to 1 slots 2 on comm ... func.func @main ... }
    module @stage_1 { ... npu_task.receive "h" from 0 slots 2 on comm ... func.func @main ... }
    func.func @main(%x: memref<32x16xf32, "host"> {graph.name = "x"}) -> (...) {
      %y = npu_task.pipeline %x : (memref<32x16xf32, "host">) -> memref<32x16xf32, "host">
      func.return %y
    }

The main function of a stage computes one microbatch on one device: of the inputs of the model, of
what it receives and of weights. It runs for one microbatch after the other. An argument that a
receive names is in the memory of the device, as is a result that is sent; each has so many slots,
taken in turn: a stage sends the next microbatch while others still read the last one. Devices of
two stages that are at the same place along all other axes send each other their parts."""

from collections.abc import Iterator
from typing import TypeAlias

from xdsl.dialects.builtin import I64, IntegerAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, prop_def
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph.stated import NAME
from ge.dialects.npu_task.attributes import number
from ge.dialects.npu_task.control import PipelineOp
from ge.dialects.support.functions import main_function
from ge.dialects.support.operation import GeOp, initialize
from ge.dialects.support.types import byte_size

DEPTH = 2  # slots of what a stage sends to the next one


@irdl_op_definition
class SendOp(GeOp):
    """A result of the stage's main function is sent to a later stage, for each microbatch."""

    name = "npu_task.send"
    value = prop_def(StringAttr)
    stage = prop_def(IntegerAttr[I64])
    slots = prop_def(IntegerAttr[I64])
    assembly_format = "$value `to` $stage `slots` $slots `on` `comm` attr-dict"

    def __init__(self, value: str, stage: int, slots: int):
        initialize(self, (), (), link(value, stage, slots))

    def verify_(self) -> None:
        verify_link(self)


@irdl_op_definition
class ReceiveOp(GeOp):
    """An argument of the stage's main function comes from an earlier stage, for each microbatch."""

    name = "npu_task.receive"
    value = prop_def(StringAttr)
    stage = prop_def(IntegerAttr[I64])
    slots = prop_def(IntegerAttr[I64])
    assembly_format = "$value `from` $stage `slots` $slots `on` `comm` attr-dict"

    def __init__(self, value: str, stage: int, slots: int):
        initialize(self, (), (), link(value, stage, slots))

    def verify_(self) -> None:
        verify_link(self)


Link: TypeAlias = SendOp | ReceiveOp


def link(value: str, stage: int, slots: int) -> dict[str, Attribute]:
    return {"value": StringAttr(value), "stage": number(stage), "slots": number(slots)}


def verify_link(op: Link) -> None:
    if op.stage.value.data < 0 or op.slots.value.data < 1:
        raise VerifyException("a stage is a number from 0, and slots are one or more")


def is_pipeline(module: ModuleOp) -> bool:
    main = main_function(module)
    return main is not None and any(isinstance(op, PipelineOp) for op in main.body.block.ops)


def stages_of(module: ModuleOp) -> list[ModuleOp]:
    """The programs of the stages of a pipeline, in order; none for another module."""
    return [op for op in module.ops if isinstance(op, ModuleOp)] if is_pipeline(module) else []


def programs_of(module: ModuleOp) -> list[ModuleOp]:
    """The programs of the stages of a pipeline, or the one that a module is."""
    return stages_of(module) or [module]


def links_of(stage: ModuleOp) -> Iterator[Link]:
    yield from (op for op in stage.ops if isinstance(op, SendOp | ReceiveOp))


def sends_of(stage: ModuleOp) -> list[SendOp]:
    return [op for op in links_of(stage) if isinstance(op, SendOp)]


def receives_of(stage: ModuleOp) -> list[ReceiveOp]:
    return [op for op in links_of(stage) if isinstance(op, ReceiveOp)]


def main_of_stage(stage: ModuleOp) -> FuncOp:
    main = main_function(stage)
    assert main is not None
    return main


def type_of_link(op: Link, stage: ModuleOp) -> Attribute | None:
    """The type on a device of what is sent or received; None where the function has no such
    argument or result."""
    main = main_of_stage(stage)
    ends = main.function_type
    types, tables = (
        (ends.outputs, main.res_attrs) if isinstance(op, SendOp) else (ends.inputs, main.arg_attrs)
    )
    pairs = zip(types, tables or (), strict=False)
    return next((t for t, table in pairs if table.data.get(NAME) == op.value), None)


def link_bytes(stage: ModuleOp) -> dict[tuple[type[Link], str], int]:
    """The bytes of the slots of what a stage sends and receives. What several stages get is sent
    from the same slots."""
    sizes: dict[tuple[type[Link], str], int] = {}
    for op in links_of(stage):
        if (t := type_of_link(op, stage)) is not None:
            key = type(op), op.value.data
            sizes[key] = max(sizes.get(key, 0), op.slots.value.data * byte_size(t))
    return sizes
