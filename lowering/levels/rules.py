"""Rules about one op at a level; `level.py` says which op keeps which rules where."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.dialects.memref import AllocOp
from xdsl.dialects.tensor import EmptyOp
from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

from ge.dialects.npu_task import ops as npu
from ge.dialects.npu_task.attributes import HOST, figure
from ge.dialects.npu_task.rules import misuses
from ge.dialects.support.types import Dense, byte_size, numel, shape_of
from ge.dialects.targets.target import Target
from ge.dialects.tile.kernel import KernelOp
from ge.transforms.analysis.views import view_offsets

if TYPE_CHECKING:
    from ge.dialects.tile import kernel as tile


def is_tile_program(op: Operation) -> bool:
    return op.name == "tile.kernel"


def tile_programs(module: ModuleOp) -> "dict[str, tile.KernelOp]":
    """Return tile programs by their names. Most modules have none, and then their dialect is not
    imported."""
    found = [op for op in module.ops if is_tile_program(op)]
    if not found:
        return {}

    return {op.sym_name.data: op for op in found if isinstance(op, KernelOp)}


@dataclass
class Surroundings:
    """The module around an op, as rules may ask about it."""

    main: FuncOp
    target: Target
    kernels: Mapping[str, npu.KernelOp]
    programs: "Mapping[str, tile.KernelOp]" = field(default_factory=dict[str, "tile.KernelOp"])

    def figure(self, name: str) -> int | None:
        return figure(self.main, name)


Rule = Callable[[Operation, Surroundings], Iterator[str]]  # yields what is wrong with an op

Rules = Mapping[type[Operation], tuple[Rule, ...]]


def constant_size(op: Operation, _: Surroundings) -> Iterator[str]:
    value = op.properties.get("value")
    if isinstance(value, DenseIntOrFPElementsAttr):
        count, expected = len(cast(Dense, value)), numel(shape_of(op.results[0]))
        if count not in (1, expected):
            yield f"{count} elements for {op.results[0].type}, which has {expected}"


def kernel_holds(op: Operation, around: Surroundings) -> Iterator[str]:
    """Yield contradictions in a kernel's own facts. ge-check proves what its tile program keeps on
    a core."""
    assert isinstance(op, npu.KernelOp)
    try:
        op.check()
    except VerifyException as e:
        yield str(e)


def tiles_match(op: Operation, around: Surroundings) -> Iterator[str]:
    """A kernel's tile program takes what the kernel does, in memrefs of any shape."""
    assert isinstance(op, npu.KernelOp)
    if op.tiles is None:
        return
    if (program := around.programs.get(op.tiles.data)) is None:
        yield f"there is no tile.kernel @{op.tiles.data}"
        return
    if program.is_unread:  # it was written for this kernel
        return
    try:
        op.check_program([a.type for a in program.arguments])
    except VerifyException as e:
        yield str(e)


def launch_matches(op: Operation, around: Surroundings) -> Iterator[str]:
    assert isinstance(op, npu.LaunchOp)
    kernel = around.kernels.get(op.callee)
    if kernel is None:
        yield f"there is no kernel @{op.callee}"
        return
    try:
        op.verify_against(kernel)
    except VerifyException as e:
        yield str(e)


def into_empty(op: Operation, _: Surroundings) -> Iterator[str]:
    assert isinstance(op, npu.LaunchOp)
    if not all(isinstance(v.owner, EmptyOp) for v in op.outs):
        yield "an outs operand is no tensor.empty"


def is_view(op: Operation, _: Surroundings) -> Iterator[str]:
    if view_offsets(op) is None:
        yield f"{op.name} is no view here, so it must be the launch of a kernel"


def on_buffers(op: Operation, _: Surroundings) -> Iterator[str]:
    return (text for _, text in misuses(op))


def on_host(op: Operation, _: Surroundings) -> Iterator[str]:
    assert isinstance(op, AllocOp)
    if op.memref.type.memory_space != HOST:
        yield "a buffer of the device has no slot: plan-memory was not run"


def on_no_stream(op: Operation, _: Surroundings) -> Iterator[str]:
    if "stream" in op.properties:
        yield "there are no streams yet"


def on_a_stream(op: Operation, around: Surroundings) -> Iterator[str]:
    stream, count = op.properties.get("stream"), around.figure("streams")
    if count is None:
        yield "@main does not say how many streams there are: assign-streams was not run"
    elif not isinstance(stream, IntegerAttr):
        yield f"{op.name} is on no stream"
    elif not 0 <= stream.value.data < count:
        yield f"stream {stream.value.data} is not one of {count}"
    elif count > around.target.max_streams:
        yield f"{count} streams are more than {around.target.name} has"


def event_in_range(op: Operation, around: Surroundings) -> Iterator[str]:
    assert isinstance(op, npu.RecordOp)
    event, count = npu.event_number(op), around.figure("events") or 0
    if not 0 <= event < count:
        yield f"event {event} is not one of {count}"
    elif count > around.target.max_events:
        yield f"{count} events are more than {around.target.name} has"


def slot_inside(op: Operation, around: Surroundings) -> Iterator[str]:
    assert isinstance(op, npu.SlotOp)
    segment, offset = op.segment.data, op.offset.value.data
    size, end = around.figure(f"{segment}_bytes"), offset + byte_size(op.result.type)
    if size is None:
        yield f"@main does not say how large the {segment} is: plan-memory was not run"
    elif end > size:
        yield f"the slot ends at byte {end}, but the {segment} has {size}"
    if offset % (alignment := around.figure("alignment") or around.target.hbm_alignment):
        yield f"offset {offset} is no multiple of {alignment}"
