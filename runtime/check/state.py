"""Proof of what a program says about state: the slots of the segment "state", which keep their
values from run to run.

Each has a name that no other one has, bytes that no other slot has, and says which part of it holds
values when a run begins (`npu_task.valid`). The walk of `memory.py` starts with these bytes as
written, and ends with all bytes of each state as its own: so a run reads what the last run, or the
session before the first one, has left there, and nobody else writes to it.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import cast

from xdsl.dialects.builtin import DenseArrayBase, StringAttr, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from ge.dialects.npu_task.memory import ByteRegion, view_of
from ge.dialects.npu_task.ops import SlotOp
from ge.dialects.npu_task.program_info import STATE, VALID
from ge.dialects.support.types import array_ints, byte_size, shape_of
from ge.runtime.check.problems import Problem

SEGMENT = "state"


def states_of(func: FuncOp) -> list[SlotOp]:
    return [op for op in func.walk() if isinstance(op, SlotOp) and op.segment.data == SEGMENT]


def name_of_state(op: Operation) -> str:
    name = op.attributes.get(STATE)
    return name.data if isinstance(name, StringAttr) else ""


def check_states(func: FuncOp) -> Iterator[Problem]:
    """What is wrong with the names, sizes and use of the slots that keep states."""
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
