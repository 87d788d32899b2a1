"""Edits of the IR that passes make for most ops, done on its linked lists directly: xDSL's own make
a view of the operands for each use, and an erased value for each result. With them the data that a
new op takes over: names of values, locations of several ops, lines of the source that calls ge."""

import re
import sys
from collections.abc import Container, Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    LocationAttr,
    NameLoc,
    NoneAttr,
    StringAttr,
    UnknownLoc,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue, SSAValues

# pyright: reportPrivateUsage=false


def replace_uses(value: SSAValue, new: SSAValue) -> None:
    """Replace the uses of a value like `value.replace_all_uses_with(new)`: the same uses, in the
    same order."""
    if new is value:
        return
    use, first = value.first_use, new.first_use
    while use is not None:
        following, op = use._next_use, use._operation
        operands = [*op._operands]
        operands[use._index] = new
        op._operands = SSAValues(operands)
        use._prev_use, use._next_use = None, first
        if first is not None:
            first._prev_use = use
        first, use = use, following
    value.first_use, new.first_use = None, first
    if new.name_hint is None:
        new.name_hint = value.name_hint


def set_operands(op: Operation, values: Sequence[SSAValue]) -> None:
    """Set operands like `op.operands = values`, for as many operands as before."""
    for old, value, use in zip(op._operands, values, op._operand_uses, strict=True):
        old.remove_use(use)
        value.add_use(use)
    op._operands = SSAValues(values)


def detach(op: Operation, block: Block) -> None:
    """Detach an op of the block like `block.detach_op(op)`."""
    before, after = op._prev_op, op._next_op
    if before is None:
        block._first_op = after
    else:
        before._next_op = after
    if after is None:
        block._last_op = before
    else:
        after._prev_op = before
    op.parent = op._prev_op = op._next_op = None


def erase(op: Operation) -> None:
    """Detach an op, if it is in a block, and erase it. Raises ValueError where a result has
    uses."""
    if op.parent is not None:
        detach(op, op.parent)
    if op.regions or op._successors or any([r.first_use is not None for r in op.results]):
        op.erase()
        return
    for operand, use in zip(op._operands, op._operand_uses, strict=True):
        operand.remove_use(use)
    op._operand_uses = ()


def put_in_row(block: Block, old: Sequence[Operation], new: Sequence[Operation]) -> None:
    """Let ops, in their order, take the place of some that follow each other in a block: new ones
    with all of the old ones among them."""
    before, after = old[0]._prev_op, old[-1]._next_op
    for op in new:
        op.parent, op._prev_op = block, before
        if before is None:
            block._first_op = op
        else:
            before._next_op = op
        before = op
    assert before is not None
    before._next_op = after
    if after is None:
        block._last_op = before
    else:
        after._prev_op = before


def value_name(name: str) -> str | None:
    """Return the name as a value is called in the text, None if it cannot be one."""
    hint = re.sub(r"[^A-Za-z0-9_$.-]", "_", name)
    if hint[:1].isdigit():
        hint = f"_{hint}"
    return hint if SSAValue.is_valid_name(hint) else None


def name_hint(name: str) -> str | None:
    """Return the part of the name that a value may keep as its hint, None if nothing is left of
    it."""
    hint = value_name(name)
    return None if hint is None else lasting_hint(hint)


def lasting_hint(hint: str) -> str | None:
    """The part of a value's name that copies keep. Each time that a value gets one, xDSL takes a
    number at its end off; of "_1_2" it leaves "_1", then "", which it refuses to copy."""
    return re.sub(r"(_\d+)+$", "", hint) or None


# Locations that one op keeps of those that became it: an op that thousands are folded into, one
# after the other, would name all of them each time.
MOST_LOCATIONS = 32


def place(file: StringAttr, line: int, column: int) -> FileLineColLoc:
    """Return `FileLineColLoc(file, IntAttr(line), IntAttr(column))`, without the checks of an
    attribute made from unknown ones: each op of a text has one."""
    location = FileLineColLoc.__new__(FileLineColLoc)
    for name, value in ("filename", file), ("line", _number(line)), ("column", _number(column)):
        object.__setattr__(location, name, value)
    return location


@lru_cache(maxsize=1024)
def _number(value: int) -> IntAttr:
    return IntAttr(value)


def fuse_locations(ops: Iterable[Operation]) -> LocationAttr:
    """The distinct locations of the ops in order, `MOST_LOCATIONS` at most, as one."""
    parts: dict[Attribute, None] = {}
    for op in ops:
        location = op.location
        inner = (
            cast(ArrayAttr[Attribute], location.locations)
            if isinstance(location, FusedLoc)
            else [location]
        )
        parts.update((part, None) for part in inner if not isinstance(part, UnknownLoc))
        if len(parts) >= MOST_LOCATIONS:
            break
    if len(parts) > 1:
        return FusedLoc(tuple(parts)[:MOST_LOCATIONS], NoneAttr())
    return cast(LocationAttr, next(iter(parts), UnknownLoc()))


def names_in(location: Attribute) -> Iterator[str]:
    """The names of nodes of the model in a location."""
    match location:
        case NameLoc():
            yield location.desc.data
        case FusedLoc():
            for part in cast(ArrayAttr[Attribute], location.locations):
                yield from names_in(part)
        case _:
            pass


def source_line(room: Container[str]) -> FileLineColLoc:
    """The innermost line outside of these files."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and frame.f_code.co_filename in room:
        frame = frame.f_back
    return _line(frame.f_code.co_filename, frame.f_lineno)


@lru_cache(maxsize=4096)
def _line(file: str, number: int) -> FileLineColLoc:
    return FileLineColLoc(StringAttr(Path(file).name), IntAttr(number), IntAttr(0))
