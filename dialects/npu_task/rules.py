"""Rules of ops on buffers that look beyond the op: views and owners."""

from collections.abc import Iterable, Iterator
from typing import TypeAlias, cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType, NoneAttr, StridedLayoutAttr
from xdsl.dialects.func import FuncOp
from xdsl.dialects.memref import AllocOp, ReinterpretCastOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from ge.dialects.npu_task.attributes import HBM, HOST, data_type, space_of
from ge.dialects.npu_task.control import CaseOp, IfOp, LoopOp, MapIndexOp
from ge.dialects.npu_task.memory import is_writable, numbers_of, owner_of, row_major, view_of
from ge.dialects.npu_task.ops import BatchCopyOp, ConstantOp, CopyOp, LaunchOp, TransferOp
from ge.dialects.support.element_types import bitwidth, storage_bytes
from ge.dialects.support.operation import all_ops, operands_of
from ge.dialects.support.types import DYNAMIC, array_ints, is_dynamic, numel, shape_of

Misuse: TypeAlias = tuple[str, str]
"""The number of a rule, as in docs/proofs.md, and how it is broken."""


def misuses(op: Operation) -> Iterator[Misuse]:
    """The misuses of buffers by an op, or by the arguments of a function."""
    match op:
        case LaunchOp():
            for value in (*operands_of(op), *op.results):
                if (space := space_of(value.type)) is not HBM and space not in (HBM, None):
                    yield "M13", f"a launch is on the memory of the device, not on {value.type}"
            yield from _written(op, op.outs)
            yield from _new(op.results)
        case FuncOp():
            yield from _new(op.body.block.args)
        case ReinterpretCastOp():
            yield from _view(op)
        case AllocOp():
            yield from _new(op.results)
            if is_dynamic(op.memref.type):
                yield "M15", f"{op.memref.type} is dynamic; the device allocates it as a result"
        case CopyOp():
            yield from _written(op, (op.target,))
        case BatchCopyOp():
            yield from _written(op, op.targets)
        case TransferOp():
            yield from _new(op.results)
        case IfOp() | CaseOp():
            yield from _written(op, op.outs)
            yield from _new(op.results)
            if isinstance(op, CaseOp) and isinstance(op.index.owner, MapIndexOp):
                yield from _gears(op, op.index.owner)
        case LoopOp():
            yield from _written(op, (*op.carried, *op.scans))
            carried = iter(array_ints(op.order))
            yield from _new(a for a in op.body.block.args[2:] if not next(carried))
            yield from _new(op.results)
        case _:
            pass


def _view(op: ReinterpretCastOp) -> Iterator[Misuse]:
    """A view is static, within its buffer, and of its element type and memory space."""
    offsets, sizes, strides = numbers_of(op)
    value, *dynamic = operands_of(op)
    result = cast("MemRefType[Attribute]", op.results[0].type)
    if dynamic or DYNAMIC_INDEX in (*offsets, *sizes, *strides):
        yield "M14", "a view has static offset, sizes and strides"
        return
    if len(offsets) != 1 or len(strides) != len(sizes):
        yield "M14", f"a view has one offset and {len(sizes)} strides"
        return
    source, view = value.type, view_of(op.results[0])
    if view.element != data_type(source)[0] or space_of(result) != space_of(source):
        yield "M14", f"a view keeps element type and memory space: {result} is none of {source}"
    elif is_dynamic(view.owner.type):
        yield "M14", f"a view is of a buffer of known size, not of {view.owner.type}"
    elif min(sizes, default=0) < 0 or min(strides, default=0) < 0:
        yield "M14", "sizes and strides of a view are at least 0"
    elif view.offset < 0:
        size = storage_bytes(-view.offset, view.element)
        yield "M14", f"the view begins {size} bytes before its buffer"
    elif view.end > (count := numel(data_type(view.owner.type)[1])):
        end, size = (storage_bytes(n, view.element) for n in (view.end, count))
        yield "M14", f"the view ends at byte {end} of {size}"
    elif not view.is_whole_bytes():
        yield "M14", f"a view of packed {view.element} has whole bytes, not parts of them: copy it"
    elif numel(sizes) and _layout(result) != (view.offset, strides):
        text = f"{result} is not the type of a view at {view.offset}"
        yield "M14", f"{text} with strides {[*strides]}"


def _layout(t: MemRefType[Attribute]) -> tuple[int | None, tuple[int | None, ...]]:
    if isinstance(t.layout, NoneAttr):
        return 0, row_major(t.get_shape())
    if isinstance(t.layout, StridedLayoutAttr):
        return t.layout.get_offset(), tuple(t.layout.get_strides())
    return None, ()


def _new(values: Iterable[SSAValue]) -> Iterator[Misuse]:
    """A buffer is dense, of elements that have a size, in one of the two memories."""
    for value in values:
        if space_of(value.type) is None:
            continue
        t = cast("MemRefType[Attribute]", value.type)
        try:
            bitwidth(t.element_type)
        except VerifyException as e:
            yield "M15", str(e)
        if t.memory_space not in (HOST, HBM):
            yield "M15", f"{t} is not in a memory space of npu_task"
        elif not isinstance(t.layout, NoneAttr):
            yield "M15", f"a buffer is dense; only views have a layout, not {t}"


def _written(op: Operation, values: Iterable[SSAValue]) -> Iterator[Misuse]:
    """Yield a misuse unless only slots and allocations are written to, each element once."""
    for value in values:
        if space_of(value.type) is None:
            continue
        if is_writable(value):  # all of it, as it lies there
            continue
        if not is_writable(owner := owner_of(value)):
            yield "M16", f"{op.name} writes {_what(owner)}"
        elif not view_of(value).is_injective():
            yield "M16", f"{op.name} writes to {value.type}, of which elements may be in one place"


def _gears(op: CaseOp, index: MapIndexOp) -> Iterator[Misuse]:
    """Yield a misuse unless there is a branch for each row of sizes, which copies inputs of these
    sizes, and one for all other sizes, which copies its own inputs."""
    rows = index.rows
    if len(op.branches) not in (len(rows), len(rows) + 1):
        text = "rows of sizes need a branch each, and may have one for all others"
        yield "M17", f"{len(rows)} {text}"
    others = (DYNAMIC,) * len(index.measured)
    for i, (row, region) in enumerate(zip([*rows, others], op.branches, strict=False)):
        sizes = list(zip(index.inputs, index.measured, row, strict=True))
        copies = [o for o in all_ops(region.blocks) if isinstance(o, CopyOp | BatchCopyOp)]
        for source, target in (pair for copy in copies for pair in _copied(copy)):
            for value, axis, size in sizes:
                if value is source and (found := shape_of(target)[axis]) not in (size, DYNAMIC):
                    runs = f"runs for {'all other sizes' if size == DYNAMIC else size}"
                    yield "M17", f"branch {i} copies {found} of dimension {axis}, and {runs}"


def _copied(op: CopyOp | BatchCopyOp) -> Iterator[tuple[SSAValue, SSAValue]]:
    if isinstance(op, CopyOp):
        yield op.source, op.target
    else:
        yield from zip(op.sources, op.targets, strict=True)


def _what(owner: SSAValue) -> str:
    if isinstance(owner.owner, ConstantOp):
        return "a constant"
    if isinstance(owner.owner, Operation):
        return f"what {owner.owner.name} has defined, which is written once"
    return "an argument"
