"""What every instruction of a core says of itself: its pipe, what it reads and what it writes.

This is the one place that the passes, the emulated core, its costs and the checker take it from.
"""

from abc import ABC
from collections.abc import Sequence
from typing import ClassVar

from xdsl.ir import Operation, SSAValue
from xdsl.parser import Parser

from ge.dialects.support.operation import GeOp
from ge.dialects.tile.types import Memory, Pipe


class Instruction(GeOp, ABC):
    """An op that the scalar unit issues to a pipe. All other ops it runs itself, when it comes to
    them. Operands are tiles, boxes of memrefs and fifos."""

    PIPE: ClassVar[Pipe]
    READS: ClassVar[Sequence[str]] = ("source",)
    WRITES: ClassVar[Sequence[str]] = ("target",)

    def pipe(self) -> Pipe:
        return self.PIPE

    def reads(self) -> Sequence[SSAValue]:
        """The operands whose elements it reads."""
        return [getattr(self, name) for name in self.READS]

    def writes(self) -> Sequence[SSAValue]:
        """The operands whose elements it writes."""
        return [getattr(self, name) for name in self.WRITES]

    def not_read_if(self) -> tuple[SSAValue, SSAValue] | None:
        """One of `reads()` and an i1: where that is true it is not read."""
        return None


class CoreProgram(GeOp, ABC):
    """What each core of one kind runs."""

    MEMORIES: ClassVar[frozenset[Memory]]
    PIPES: ClassVar[frozenset[Pipe]]

    @property
    def parts(self) -> int:
        """How many cores run it beside each core of the other kind, with a part of the rows of each
        tile in a fifo."""
        return 1


def program_of(op: Operation) -> CoreProgram | None:
    """The program that an op is part of."""
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, CoreProgram):
        parent = parent.parent_op()
    return parent


def parse_value(parser: Parser) -> SSAValue:
    """An operand that stands without its type: it is defined before."""
    place = parser.pos
    name = parser.parse_unresolved_operand()
    values = parser.ssa_values.get(name.operand_name)
    if values is None or name.index >= len(values):
        parser.raise_error(f"%{name.operand_name} is not defined before", place)
    return values[name.index]


def parse_end(parser: Parser, op: GeOp) -> None:
    """The attributes of an op, where any are."""
    op.attributes.update(parser.parse_optional_attr_dict())
