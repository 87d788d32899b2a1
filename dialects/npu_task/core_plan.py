"""The plan of a core's memories while one kernel runs: `#npu_task.core<...>`.

    core <l1 [lhs 8192 at [0, 8192], rhs 32768 at [16384, 49152]],
          ub [in0 6144 at [0, 6144], op1 3072 at [12288] from 2 to 3]>

A kernel is a loop over tiles; a buffer of the core holds a tile of a value. It has a name, bytes,
and an offset for each of its copies: two where one is filled or emptied while the other is in use.
`from` and `to` are the first and the last step of the loop's body at which it is live; without them
it is always live. Step 0 loads, step i is op i of the body, counted from 1, and the step after the
last op stores.

A tile of [elements] is a run of so many elements of the kernel's longest value; where it is shorter
than a row, or than the rows of input that a window spans, it passes them in parts. Of a tile of
[m, n, k] some rows at a time pass `ub` (`PASSING_ROWS`).

Buffers of `ub` are named for values: `in2` is input 2 of the kernel's main op, `op3` the result of
op 3 of its body, from 0, `op3_1` that op's second result. A matmul also has `lhs`, `rhs` and `sum`,
attention `query`, `key`, `value`, `scores`, `weights`, `statistics` and `sum`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Attribute, Data, Operation
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from ge.dialects.support.element_types import bitwidth, is_integer
from ge.dialects.support.types import element_type

MEMORIES = ("l1", "l0a", "l0b", "l0c", "ub")

# How a kernel runs on a core: the assumptions of both the planner and its proof.

FRACTAL = 16  # the cube's operands come in blocks of 16 x 16
ACCUMULATOR_BYTES = 4  # of a sum in L0C, and at least of a result that comes from there to UB
PASSING_ROWS = 16  # rows of a matmul's tile that pass UB at a time
PROLOGUE_ELEMENTS = 1024  # that the vector unit computes at a time for the operands of matmuls
WIDE_ACCUMULATOR_BYTES = 8  # of a sum of products with integers of 16 bits
STATISTICS = 2  # of a query of attention: the largest score and the sum of exponentials


def sum_bytes(element: Attribute) -> int:
    """Bytes of a sum in L0C, of products of an element type."""
    if is_integer(element) and bitwidth(element) == 16:
        return WIDE_ACCUMULATOR_BYTES
    return max(ACCUMULATOR_BYTES, bitwidth(element) // 8)


def wider_element(op: Operation) -> Attribute:
    """The wider element type of what a matmul multiplies."""
    return max((element_type(v) for v in op.operands[:2]), key=bitwidth)


@dataclass(frozen=True, slots=True)
class CoreBuffer:
    """A buffer in one of the memories."""

    name: str
    bytes: int
    offsets: tuple[int, ...]
    steps: tuple[int, int] | None = None  # the first and the last at which it is live; None: all

    def __str__(self) -> str:
        steps = "" if self.steps is None else f" from {self.steps[0]} to {self.steps[1]}"
        return f"{self.name} {self.bytes} at [{', '.join(map(str, self.offsets))}]{steps}"


@irdl_attr_definition
class CorePlanAttr(Data[tuple[tuple[str, tuple[CoreBuffer, ...]], ...]]):
    """The buffers of each memory of a core that a kernel uses."""

    name = "npu_task.core"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[tuple[str, tuple[CoreBuffer, ...]], ...]:
        def memory() -> tuple[str, tuple[CoreBuffer, ...]]:
            name = parser.expect(lambda: _known(parser), f"expected one of {', '.join(MEMORIES)}")
            square = parser.Delimiter.SQUARE
            return name, tuple(parser.parse_comma_separated_list(square, lambda: _buffer(parser)))

        return tuple(parser.parse_comma_separated_list(parser.Delimiter.ANGLE, memory))

    def print_parameter(self, printer: Printer) -> None:
        parts = (f"{name} [{', '.join(map(str, buffers))}]" for name, buffers in self.data)
        with printer.in_angle_brackets():
            printer.print_string(", ".join(parts))

    @property
    def buffers(self) -> dict[str, Sequence[CoreBuffer]]:
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
