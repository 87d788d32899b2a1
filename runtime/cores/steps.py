"""Steps of the outermost loops of a core's program: those that issue the same are issued once.

Steps issue the same records where they agree in what these follow from (`Signature`):

    scf.for %i ... {                               for x0 in ...:
      %m = arith.muli %i, %c128                     s0 = x0 * 128
      scf.for %k = %c0 to %c8 step %c1 {     ->     key = (None if 0 <= s0 <= 3968 else s0,)
        %n = arith.muli %k, %c64
        %box = tile.view %a[%m, %n] : ...

Which record an instruction issues depends on where its box is cut off, and on its flag's number;
how many come depends on bounds of loops and on branches. Each index in the step is an `IndexText`:
a base, known before the loops inside of the step run, plus what depends on these loops alone, which
lies between two bounds. A box that stays inside of its memref for all of them adds nothing to the
key; else its base does. So it is with comparisons; of a remainder, only the base's matters."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from operator import add
from typing import Any, NamedTuple

from xdsl.dialects.arith import CmpiOp, ConstantOp
from xdsl.dialects.builtin import IntegerAttr, i1
from xdsl.dialects.scf import ForOp, IfOp
from xdsl.ir import Block, Operation, SSAValue

from ge.dialects.tile.buffers import AllocOp, SlotOp, ViewOp, constant_index, memref_shape
from ge.dialects.tile.compute import FlagOp
from ge.dialects.tile.instruction import Instruction
from ge.dialects.tile.types import BoxType
from ge.runtime.cores.replay import END, LoopRound


class LoopStep(NamedTuple):
    """The records that a step of an outermost loop issued."""

    kind: tuple[int, int]  # the loop's number, and which of its different steps
    parts: tuple[tuple[int, tuple[int, ...]], ...]  # pipes and their records
    counts: tuple[int, ...]  # of each pipe's records


@dataclass(slots=True)
class Trace:
    """The steps of the outermost loops of a program, on one core."""

    first: tuple[int, ...] = ()  # records of each pipe before them
    steps: list[LoopStep] = field(default_factory=list["LoopStep"])

    def key(self, queues: list[list[int]]) -> Hashable:
        """A key that tells issues apart: the steps, and all records that are in none."""
        if len({step.kind[0] for step in self.steps}) != 1:
            return tuple(map(tuple, queues))
        counts = map(sum, zip(*(step.counts for step in self.steps), strict=True))
        cuts = zip(queues, self.first, counts, strict=True)
        others = tuple((*queue[:n], -1, *queue[n + count :]) for queue, n, count in cuts)
        return tuple(step.kind for step in self.steps), others

    def rounds(self) -> list[LoopRound]:
        """And where the last one ends; none, if there are several loops."""
        if len({step.kind[0] for step in self.steps}) != 1:
            return []
        heads, found = self.first, list[LoopRound]()
        for step in self.steps:
            found.append(LoopRound(step.kind, heads))
            heads = tuple(map(add, heads, step.counts))
        return [*found, LoopRound(END, heads)]


@dataclass(slots=True)
class LoopSteps:
    """The records that the steps of an outermost loop issue, by their keys (`Signature`)."""

    loop: int
    known: dict[Any, LoopStep] = field(default_factory=dict[Any, "LoopStep"])
    kinds: dict[Any, int] = field(default_factory=dict[Any, int])

    def replay(self, queues: list[list[int]], trace: Trace, key: Any) -> bool:
        """Issue the records of a step, if they are known."""
        if not trace.steps:
            trace.first = tuple(map(len, queues))
        step = self.known.get(key)
        if step is None:
            return False
        trace.steps.append(step)
        for pipe, part in step.parts:
            queues[pipe].extend(part)
        return True

    def keep(self, queues: list[list[int]], heads: list[int], trace: Trace, key: Any) -> None:
        """Keep the records of a step that was issued behind `heads`."""
        numbered = enumerate(zip(queues, heads, strict=True))
        parts = tuple((p, tuple(queue[n:])) for p, (queue, n) in numbered if len(queue) > n)
        counts = tuple(len(queue) - n for queue, n in zip(queues, heads, strict=True))
        step = LoopStep((self.loop, self.kinds.setdefault(parts, len(self.kinds))), parts, counts)
        trace.steps.append(step)
        if key is not None:
            self.known[key] = step


class UnknownSignature(Exception):
    """A step whose records may depend on more than a key says."""


@dataclass(frozen=True, slots=True)
class IndexText:
    """Python expressions: an index is `base`, plus something from `low` to `high` that the base
    does not change."""

    base: str
    low: str = "0"
    high: str = "0"

    @property
    def exact(self) -> bool:
        return self.low == self.high == "0"

    @property
    def literal(self) -> int | None:
        text = self.base.strip("()")
        return int(text) if self.exact and text.lstrip("-").isdigit() else None

    @property
    def least(self) -> str:
        return f"{self.base} + {self.low}"

    @property
    def most(self) -> str:
        return f"{self.base} + {self.high}"


@dataclass(slots=True)
class Signature:
    """The key of a loop's step, as lines of Python and the parts of a tuple. `names`: what holds
    each index that is defined before the loop; `own`: what a core's program knows of itself, by the
    op that asks for it; `expression`: of an op of `arith` in such names."""

    names: Mapping[SSAValue, str]
    own: Mapping[type[Operation], str]
    expression: Callable[[Operation, list[str]], str]
    lines: list[str] = field(default_factory=list[str])
    items: list[str] = field(default_factory=list[str])
    values: dict[SSAValue, IndexText] = field(default_factory=dict[SSAValue, IndexText])

    def key(self, op: ForOp, index: str) -> str | None:
        """Key of a step with this index; None if it is not known."""
        try:
            self.values[op.body.block.args[0]] = IndexText(index)
            self.block(op.body.block)
        except UnknownSignature:
            return None
        return f"({''.join(f'{item},' for item in dict.fromkeys(self.items))})"

    def of(self, value: SSAValue) -> IndexText:
        return self.values.get(value) or IndexText(self.names[value])

    def put(self, expression: str) -> str:
        """A name for an expression, or its number."""
        if not any(map(str.isalpha, expression)):
            number = eval(expression)
            return str(number) if number >= 0 else f"({number})"
        self.lines.append(f"s{len(self.lines)} = {expression}")
        return f"s{len(self.lines) - 1}"

    def define(self, op: Operation, value: IndexText) -> None:
        parts = (value.base, value.low, value.high)
        self.values[op.results[0]] = IndexText(*(p if p.isalnum() else self.put(p) for p in parts))

    # ---- ops

    def block(self, block: Block) -> None:
        for op in block.ops:
            match op:
                case ForOp():
                    self.loop(op)
                case IfOp() if not op.results:
                    if self.of(op.cond).exact:
                        self.items.append(f"bool({self.of(op.cond).base})")
                    for region in op.regions:
                        for inner in region.blocks:
                            self.block(inner)
                case ConstantOp(value=IntegerAttr() as attr):
                    truth = op.result.type == i1
                    number = attr.value.data
                    self.values[op.result] = IndexText(
                        str(bool(number)) if truth else f"({number})"
                    )
                case FlagOp():
                    if constant_index(op.id) is None:
                        self.items.append(self.of(op.id).base)
                case Instruction():
                    self.boxes(op)
                case _ if op.name.startswith("arith.") and len(op.results) == 1:
                    self.scalar(op)
                case _ if type(op) in self.own:
                    self.values[op.results[0]] = IndexText(self.own[type(op)])
                case AllocOp() | SlotOp() | ViewOp():
                    pass
                case _ if not op.results:
                    pass
                case _:
                    raise UnknownSignature

    def loop(self, op: ForOp) -> None:
        low, high, step = map(self.of, (op.lb, op.ub, op.step))
        if step.literal is None or step.literal < 1:
            raise UnknownSignature
        index = op.body.block.args[0]
        if low.exact and high.exact:
            size = self.put(f"{high.base} - {low.base}")
            self.items.append(size)
            last = self.put(f"({size} - 1) // {step.literal} * {step.literal}")
            self.values[index] = IndexText(low.base, "0", last)
        else:
            self.items += [low.base, high.base]
            self.values[index] = IndexText("0", self.put(low.least), self.put(f"{high.most} - 1"))
        self.block(op.body.block)

    def boxes(self, op: Instruction) -> None:
        for view in (v.owner for v in op.operands if isinstance(v.type, BoxType)):
            assert isinstance(view, ViewOp)
            extents = zip(memref_shape(view.source), view.box_sizes, view.box_steps, strict=True)
            for offset, (extent, size, step) in zip(view.offsets, extents, strict=True):
                at, end = self.of(offset), extent - (size - 1) * step - 1
                if at.literal is None or not 0 <= at.literal <= end:
                    inside = f"0 <= {at.least} and {at.most} <= {end}"
                    self.items.append(f"None if {inside} else {at.base}")
            for offset, end in zip(view.offsets, view.ends, strict=False):
                at, to = self.of(offset), self.of(end)
                self.items.append(f"({at.base}, {to.base})")

    # ---- indices

    def scalar(self, op: Operation) -> None:
        operands = [self.of(v) for v in op.operands]
        if all(v.exact for v in operands):
            self.define(op, IndexText(self.expression(op, [v.base for v in operands])))
            return
        a, b = operands[0], operands[-1]
        match op.name.removeprefix("arith."):
            case "addi":
                found = IndexText(
                    f"{a.base} + {b.base}", f"{a.low} + {b.low}", f"{a.high} + {b.high}"
                )
            case "subi":
                found = IndexText(
                    f"{a.base} - {b.base}", f"{a.low} - {b.high}", f"{a.high} - {b.low}"
                )
            case "muli":
                found = product(a, b)
            case "divui" | "divsi" | "floordivsi" | "ceildivsi" | "remui" | "remsi" as name:
                found = self.quotient(name, a, b)
            case "minsi" | "minui" | "maxsi" | "maxui" as name:
                self.items += [a.base, b.base]
                ends = (f"{name[:3]}({x}, {y})" for x, y in ((a.least, b.least), (a.most, b.most)))
                found = IndexText("0", *ends)
            case "cmpi":
                assert isinstance(op, CmpiOp)
                base = self.put(f"{a.base} - {b.base}")
                low, high = f"{base} + {a.low} - {b.high}", f"{base} + {a.high} - {b.low}"
                self.items.append(f"1 if {low} > 0 else -1 if {high} < 0 else ({base},)")
                found = IndexText("0", "0", "1")
            case _:
                raise UnknownSignature
        self.define(op, found)

    def quotient(self, name: str, a: IndexText, b: IndexText) -> IndexText:
        n = b.literal
        if n is None or n < 1:
            raise UnknownSignature
        if name == "ceildivsi":
            a = IndexText(self.put(f"{a.base} + {n - 1}"), a.low, a.high)
        rest = self.put(f"{a.base} % {n}")
        self.items.append(f"{rest} if {a.least} >= 0 else ({a.base},)")
        if name.startswith("rem"):
            return IndexText("0", f"(0 if {a.least} >= 0 else {1 - n})", str(n - 1))
        # rounded to zero, a negative one is greater by one at most
        low, high = f"({rest} + {a.low}) // {n}", f"({rest} + {a.high}) // {n} + ({a.least} < 0)"
        return IndexText(f"{a.base} // {n}", low, high)


def product(a: IndexText, b: IndexText) -> IndexText:
    """Raises Unknown for that of two indices."""
    if a.literal is not None:
        a, b = b, a
    factor = b.literal
    if factor is None:
        raise UnknownSignature
    low, high = (a.low, a.high) if factor >= 0 else (a.high, a.low)
    return IndexText(*(f"({part}) * ({factor})" for part in (a.base, low, high)))
