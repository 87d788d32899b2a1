"""The plan of a core's memories while one kernel runs: `#npu_task.core<...>`.

    core <l1 [lhs 8192 at [0, 8192], rhs 32768 at [16384, 49152]],
          ub [in0 6144 at [0, 6144], op1 3072 at [12288] from 2 to 3]>

A kernel is a loop over tiles; what a tile of a value takes is a buffer of the core. A buffer has a
name, bytes, and an offset for each of its copies: two where one is filled or emptied while the
other is in use. `from` and `to` are the first and the last step of the loop's body that use it;
without them it is in use all the time. Step 0 loads, step i is op i of the body, counted from 1,
and the step after the last op stores.

A tile of [elements] is a run of so many elements of the kernel's longest value; where it is shorter
than a row, or than the rows of input that a window spans, it passes them in parts. Of a tile of
[m, n, k] some rows at a time pass `ub` (`PASSING_ROWS`).

Buffers of `ub` are named for values: `in2` is input 2 of the kernel's main op, `op3` the result of
op 3 of its body, from 0, `op3_1` that op's second result. What a product of matrices keeps in the
other memories has its own names: `lhs`, `rhs` and `sum`; those of attention are `query`, `key`,
`value`, `scores`, `weights`, `statistics` and `sum`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

MEMORIES = ("l1", "l0a", "l0b", "l0c", "ub")
"""The memories of a core."""

# How a kernel runs on a core: what the planner and its proof both take for granted.

FRACTAL = 16
"""The cube's operands come in blocks of 16 x 16."""

ACCUMULATOR_BYTES = 4
"""Bytes of a sum in L0C, and of a product that comes from there to UB, at least."""

PASSING_ROWS = 16
"""Rows of a product's tile that pass UB at a time."""

PROLOGUE_ELEMENTS = 1024
"""Elements that the vector unit makes at a time of what products are computed from."""

STATISTICS = 2
"""Numbers that attention keeps for each query: the largest score and the sum of exponentials."""


@dataclass(frozen=True, slots=True)
class CoreBuffer:
    """One buffer in a memory of the core."""

    name: str
    bytes: int
    offsets: tuple[int, ...]
    steps: tuple[int, int] | None = None
    """The first and the last step that use it; None: all of them."""

    def __str__(self) -> str:
        places = ", ".join(map(str, self.offsets))
        during = "" if self.steps is None else f" from {self.steps[0]} to {self.steps[1]}"
        return f"{self.name} {self.bytes} at [{places}]{during}"


@irdl_attr_definition
class CorePlanAttr(Data[tuple[tuple[str, tuple[CoreBuffer, ...]], ...]]):
    """The buffers of each memory of a core that a kernel uses."""

    name = "npu_task.core"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[tuple[str, tuple[CoreBuffer, ...]], ...]:
        def memory() -> tuple[str, tuple[CoreBuffer, ...]]:
            name = parser.expect(lambda: _known(parser), f"expected one of {', '.join(MEMORIES)}")
            found = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, lambda: _buffer(parser)
            )
            return name, tuple(found)

        return tuple(parser.parse_comma_separated_list(parser.Delimiter.ANGLE, memory))

    def print_parameter(self, printer: Printer) -> None:
        parts = (f"{name} [{', '.join(map(str, found))}]" for name, found in self.data)
        with printer.in_angle_brackets():
            printer.print_string(", ".join(parts))

    @property
    def buffers(self) -> dict[str, Sequence[CoreBuffer]]:
        """Memory -> its buffers."""
        return dict(self.data)


def _known(parser: AttrParser) -> str | None:
    return next((name for name in MEMORIES if parser.parse_optional_keyword(name)), None)


def _buffer(parser: AttrParser) -> CoreBuffer:
    name = parser.parse_identifier("the name of a buffer")
    size = parser.parse_integer(allow_boolean=False)
    parser.parse_keyword("at")
    offsets = parser.parse_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: parser.parse_integer(allow_boolean=False)
    )
    steps = None
    if parser.parse_optional_keyword("from"):
        first = parser.parse_integer(allow_boolean=False)
        parser.parse_keyword("to")
        steps = first, parser.parse_integer(allow_boolean=False)
    return CoreBuffer(name, size, tuple(offsets), steps)
