"""The programs of cube and vector cores while they are written, and the lines that write them."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import dropwhile
from pathlib import Path
from traceback import walk_tb
from typing import TypeVar

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    FileLineColLoc,
    IndexType,
    IntAttr,
    IntegerAttr,
    StringAttr,
    i1,
)
from xdsl.ir import Block, Operation, SSAValue

from ge.dialects.support.errors import GeError
from ge.dialects.support.operation import GeOp
from ge.dialects.tile import buffers, kernel
from ge.dialects.tile.instruction import Instruction
from ge.dialects.tile.reading import ReadOp
from ge.dialects.tile.types import RingType, TileType
from ge.lowering.tiles.indices import (
    Condition,
    Index,
    KnownIndex,
    LoopIndex,
    ReadIndex,
    Scalar,
    whole,
)

OpT = TypeVar("OpT", bound=Operation)

ROOM = ("sides", "tracing", "values", "indices", "writing", "api")
HERE = {str(Path(__file__).with_stem(n)) for n in ROOM} | {contextmanager.__code__.co_filename}
"""Files whose lines are none of the kernel's."""


class Side:
    """The program of one kind of core, while it is written."""

    def __init__(self) -> None:
        self.block = Block()
        self.allocs = 0  # that stand at its beginning
        self.open = [self.block]

    def add(self, op: OpT) -> OpT:
        op.location = source_line()
        self.open[-1].add_op(op)
        if isinstance(op, GeOp):
            op.verify_()
        return op

    @contextmanager
    def at(self, level: int) -> Generator[None]:
        """What is added meanwhile stands in `open[level]`, before the loop or branch in it that is
        open now."""
        block, inner = self.open[level], self.open[level + 1 :]
        del self.open[level + 1 :]
        last = block.last_op
        yield
        self.open += inner
        if inner and last is not None:
            while (op := last.next_op) is not None:
                op.detach()
                block.insert_op_before(op, last)

    def alloc(self, type: TileType | RingType) -> SSAValue:
        op = buffers.AllocOp(type)
        op.result.name_hint = f"{type.space}_{self.allocs}"
        op.location = source_line()
        at = list(self.block.ops)[self.allocs] if self.allocs < len(self.block.ops) else None
        self.allocs += 1
        if at is None:
            self.block.add_op(op)
        else:
            self.block.insert_op_before(op, at)
        return op.result

    def index(self, number: Scalar) -> SSAValue:
        """The value of a number, computed here."""
        if not isinstance(number, Index):
            attr = IntegerAttr(whole(number), IndexType())
            return self.add(arith.ConstantOp(attr)).result
        if isinstance(number, LoopIndex):
            if self not in number.values:
                raise GeError("a loop's variable is used after its loop")
            return number.values[self]
        if isinstance(number, KnownIndex):
            return number.values[self]
        if number.kind in NUMBERS:
            return self.add(NUMBERS[number.kind]()).results[0]
        if isinstance(number, ReadIndex):
            offsets = [self.index(n) for n in number.box.starts]
            memref, span = number.box.argument.memref, number.span
            return self.add(ReadOp(memref, offsets, span.stop, span.start)).result
        a, b = (self.index(n) for n in number.args)
        return self.add(ARITH[number.kind](a, b)).results[0]

    def condition(self, test: Condition | bool) -> SSAValue:
        if isinstance(test, bool):
            return self.add(arith.ConstantOp(IntegerAttr(int(test), i1))).result
        if test.kind == "andi":
            left, right = (self.condition(t) for t in test.args)
            return self.add(arith.AndIOp(left, right)).result
        a, b = (self.index(n) for n in test.args)
        return self.add(arith.CmpiOp(a, b, test.kind)).result


NUMBERS: dict[str, Callable[[], Operation]] = {
    "core": kernel.CoreOp,
    "cores": kernel.CoresOp,
    "part": kernel.PartOp,
}
ARITH: dict[str, Callable[[SSAValue, SSAValue], Operation]] = {
    "addi": arith.AddiOp,
    "subi": arith.SubiOp,
    "muli": arith.MuliOp,
    "floordivsi": arith.FloorDivSIOp,
    "ceildivsi": arith.CeilDivSIOp,
    "minsi": arith.MinSIOp,
    "maxsi": arith.MaxSIOp,
}


def source_line() -> FileLineColLoc:
    """Where the kernel's source says what is traced: the innermost line outside of this room."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and frame.f_code.co_filename in HERE:
        frame = frame.f_back
    name = StringAttr(Path(frame.f_code.co_filename).name)
    return FileLineColLoc(name, IntAttr(frame.f_lineno), IntAttr(0))


def line_of(error: Exception) -> str:
    """The line of the kernel's source that an error is about."""
    frames = [(f.f_code.co_filename, n) for f, n in walk_tb(error.__traceback__)]
    line = ""
    for file, number in dropwhile(lambda frame: frame[0] in HERE, frames):
        if file in HERE:
            break
        line = f"{Path(file).name}:{number}"
    return line


def has_instructions(op: Operation) -> bool:
    return any(isinstance(o, Instruction) for o in op.walk())
