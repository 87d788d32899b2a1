"""Proof of the figures that a program states about itself, and that it fits into its target.

`check_figures(module, target)` checks rules F1 to F6 and M20 (docs/proofs.md). Of buffers whose
size is known only at run time the places count that they have. How constants lie in memory is
trusted (`Target.constants_bytes`).
"""

from collections.abc import Iterator
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, MemRefType, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from ge.dialects.graph.constant import WeightAttr
from ge.dialects.npu_task.attributes import HBM, data_type, space_of
from ge.dialects.npu_task.memory import owner_of
from ge.dialects.npu_task.ops import ConstantOp, KernelOp, LaunchOp, SlotOp
from ge.dialects.npu_task.program_info import FIGURES, NO_REUSE, PINNED, figure
from ge.dialects.support.discardable import wrong_attributes
from ge.dialects.support.functions import main_function
from ge.dialects.support.types import align_up, byte_size, is_dynamic
from ge.dialects.targets.target import Target
from ge.dialects.tile.workspace import workspace_bytes
from ge.runtime.check.problems import Problem, name_of


def slots(func: FuncOp, segment: str) -> list[SlotOp]:
    return [op for op in func.walk() if isinstance(op, SlotOp) and op.segment.data == segment]


SEGMENTS = ("arena", "io", "weight", "state", "dynamic")


def check_figures(module: ModuleOp, target: Target) -> list[Problem]:
    """What is not true in the figures of a program; nothing if they are proved."""
    if (main := main_function(module)) is None:
        return [Problem("F1", "there is no @main", module)]
    if problems := [Problem("F1", text, main) for text in _types(main)]:
        return problems
    problems += [Problem(rule, text, main) for rule, text in _sums(main, target)]
    return [*problems, *_capacity(module, main, target), *_weights(main), *_pinned(module, main)]


def without_slots(main: FuncOp) -> dict[SSAValue, int]:
    """The bytes of each buffer on the device that has no place in a segment, where they are known:
    what transfers, branches and loops make, and what is allocated."""
    found: dict[SSAValue, int] = {}
    for value in _values(main):
        if is_buffer(value) and space_of(value.type) == HBM and not is_dynamic(value.type):
            if not isinstance(value.owner, SlotOp | ConstantOp) and owner_of(value) is value:
                found[value] = byte_size(value.type)
    return found


def is_buffer(value: SSAValue) -> bool:
    return isinstance(value.type, MemRefType)


def _values(main: FuncOp) -> Iterator[SSAValue]:
    for op in main.walk():
        yield from op.results
        for region in op.regions:
            for block in region.blocks:
                yield from block.args


OUTSIDE = "outside of slots"  # with inputs and outputs in memory of the caller


def taken_bytes(module: ModuleOp, main: FuncOp) -> dict[str, int]:
    """All bytes of the device that a program takes at most, by what they are for."""
    taken = {name: figure(main, f"{name}_bytes") or 0 for name in SEGMENTS}
    extra = {
        "workspace": workspace_bytes(module),
        OUTSIDE: sum(without_slots(main).values()),
    }
    return taken | {name: size for name, size in extra.items() if size}


def _capacity(module: ModuleOp, main: FuncOp, target: Target) -> Iterator[Problem]:
    taken = taken_bytes(module, main)
    if (total := sum(taken.values())) > target.hbm_bytes:
        parts = ", ".join(f"{name} {size}" for name, size in taken.items())
        text = f"the program takes {total} bytes ({parts}), {target.name} has {target.hbm_bytes}"
        sizes = without_slots(main)
        largest = max(sizes, key=lambda v: sizes[v], default=None)
        at = main if largest is None or not isinstance(largest.owner, Operation) else largest.owner
        if at is not main and largest is not None:
            text += f": {name_of(at)} makes a buffer of {sizes[largest]} outside of slots"
        yield Problem("F4", text, at)


def _types(main: FuncOp) -> Iterator[str]:
    for name in FIGURES:
        if f"npu_task.{name}" not in main.attributes:
            yield f"@main does not state npu_task.{name}"
    yield from wrong_attributes(main)


def _sums(main: FuncOp, target: Target) -> Iterator[tuple[str, str]]:
    alignment = figure(main, "alignment") or 0
    if not alignment or alignment % target.hbm_alignment:
        need = f"multiples of the {target.hbm_alignment} of {target.name}"
        yield "F2", f"offsets are aligned to {alignment} bytes, not to {need}"
        return

    def size(t: Attribute) -> int:
        return align_up(byte_size(t), alignment)

    arena, io, kept = (slots(main, name) for name in ("arena", "io", "state"))
    constants = [byte_size(op.result.type) for op in main.walk() if isinstance(op, ConstantOp)]
    for name, value in (
        ("no_reuse_bytes", sum(size(op.result.type) for op in arena)),
        ("weight_bytes", target.constants_bytes(constants, alignment)),
        ("io_bytes", max((op.offset.value.data + size(op.result.type) for op in io), default=0)),
        ("state_bytes", sum(size(op.result.type) for op in kept)),
    ):
        if (stated := figure(main, name) or 0) != value:
            yield "F3", f"{name} is stated as {stated}, but the program has {value}"


def _weights(main: FuncOp) -> Iterator[Problem]:
    types: dict[str, Attribute] = {}
    for op in main.walk():
        if isinstance(op, ConstantOp) and isinstance(value := op.value, WeightAttr):
            first = types.setdefault(value.data, op.result.type)
            if data_type(first) != data_type(op.result.type):
                text = f"weight '{value.data}' is read as {first} and as {op.result.type}"
                yield Problem("M20", text, op)


def _pinned(module: ModuleOp, main: FuncOp) -> Iterator[Problem]:
    """Slots that are kept apart without being asked to be, or that are not apart."""
    arena = slots(main, "arena")
    if not (pinned := [op for op in arena if PINNED in op.attributes]):
        return
    names = cast("ArrayAttr[StringAttr]", main.attributes.get(NO_REUSE, ArrayAttr(())))
    asked = set(_written_by(module, main, {name.data for name in names}))
    for slot in pinned:
        if slot.result not in asked:
            text = f"{NO_REUSE} does not ask for this slot to be kept apart"
            yield Problem("F5", text, slot)
        low, high = _extent(slot)
        for other in arena:
            begin, end = _extent(other)
            if other is not slot and begin < high and low < end:
                yield Problem("F6", "a slot that is kept apart shares bytes with others", slot)
                break


def _written_by(module: ModuleOp, main: FuncOp, kinds: set[str]) -> Iterator[SSAValue]:
    kernels = {
        op.sym_name.data
        for op in module.ops
        if isinstance(op, KernelOp)
        and any({o.name, o.name.partition(".")[2]} & kinds for o in op.walk())
    }
    for op in main.walk():
        if isinstance(op, LaunchOp) and op.callee in kernels:
            yield from (owner_of(value) for value in op.outs)


def _extent(slot: SlotOp) -> tuple[int, int]:
    low = slot.offset.value.data
    return low, low + byte_size(slot.result.type)
