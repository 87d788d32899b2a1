"""The program that a lowering writes, and a check that it fits into a core.

The buffers of a program are known without writing it: its function runs with a tracer whose
programs have blocks, and no ops (`Sketch`). So one of several cuts is chosen in a fraction of the
time that writing it takes."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from xdsl.ir import Block, Operation, SSAValue
from xdsl.transforms.common_subexpression_elimination import cse
from xdsl.utils.exceptions import VerifyException

from ge.dialects.npu_task.attributes import data_type
from ge.dialects.support.diagnostics import location_of
from ge.dialects.support.errors import GeError
from ge.dialects.support.operation import block_of
from ge.dialects.support.types import dense_memref
from ge.dialects.targets.target import Target
from ge.dialects.tile.buffers import allocated_bytes
from ge.dialects.tile.instruction import Instruction
from ge.dialects.tile.kernel import CubeOp, KernelOp, ProgramOp, VectorOp
from ge.dialects.tile.types import Memory, RingType, TileType
from ge.runtime.library.language import values as v
from ge.runtime.library.language.arith import INDEX, erase_unused
from ge.runtime.library.language.indices import Scalar
from ge.runtime.library.language.sides import OneNumber, Side, has_instructions, line_of
from ge.runtime.library.language.tracing import Tracer
from ge.runtime.library.language.values import Argument
from ge.runtime.library.launch import Launch, NotLowered, Written


class Full(Exception):
    """A memory of the core has no room for the buffers of a sketch."""


class SketchedSide(Side):
    """A program that has buffers only, of which nothing but their bytes is known. With `limited`
    the first one for which there is no room raises Full."""

    def __init__(self, room: Mapping[str, int], limited: bool) -> None:
        super().__init__()
        self.is_empty = True
        self.room, self.limited = room, limited
        self.left: dict[Memory, int] = {}
        self.any_number = block_of([INDEX]).args[0]

    def add(self, kind: Callable[..., Operation], *args: Any, **more: Any) -> None:
        self.is_empty &= not (isinstance(kind, type) and issubclass(kind, Instruction))

    def alloc(self, type: TileType | RingType) -> SSAValue:
        memory = type.space
        left = self.left.get(memory, self.room[memory]) - allocated_bytes(type)
        self.left[memory] = left
        if left < 0 and self.limited:
            raise Full
        return self.any_number

    def value(self, key: Any, kind: Callable[..., Operation], *args: Any) -> SSAValue:
        return self.any_number

    def once(self, key: Any, kind: Callable[..., Operation], *args: Any) -> SSAValue:
        return self.any_number

    def index(self, number: Scalar) -> SSAValue:
        return self.any_number

    @contextmanager
    def at(self, level: int) -> Generator[None]:
        with self.aside_from(level + 1):
            yield


class Sketch(Tracer):
    """The object that a kernel calls `c` when only its buffers are wanted."""

    def __init__(
        self,
        arguments: Sequence[v.Argument],
        target: Target,
        limited: bool = False,
    ) -> None:
        room = target.core_memories
        self.drawn = SketchedSide(room, limited), SketchedSide(room, limited)
        super().__init__(arguments, target, *self.drawn)

    @property
    def bytes_left(self) -> dict[Memory, int]:
        """Free bytes of each memory that there are buffers in."""
        return {m: n for side in self.drawn if not side.is_empty for m, n in side.left.items()}

    def check_room(self, tile: TileType, copies: int) -> None:
        pass  # `bytes_left` shows what does not fit

    def map(self, target: v.Tile, value: v.Expression) -> None:
        self.vector.add(Instruction)
        self._inputs(value, set())

    def _inputs(self, value: v.Value, seen: set[v.Expression]) -> None:
        """The tiles that a `tile.map` reads: those that are not there are buffers of their own."""
        if not isinstance(value, v.Expression) or value in seen:
            return
        seen.add(value)
        match value:
            case v.Apply() | v.Copied():
                for arg in value.args:
                    self._inputs(arg, seen)
            case v.Cast():
                self._inputs(value.arg, seen)
            case v.Number():
                pass
            case _:
                self.tile_of(value)


def written_kernel(
    name: str,
    block: Block,
    tracer: Tracer,
    write: Callable[[Tracer], None],
    cores: int | None,
    place: str,
) -> KernelOp:
    """The kernel with `block` for its body, whose arguments are the memrefs. `cores` None: all that
    the target has of their kind. Raises GeError, at the line that is wrong or at `place`."""
    trace(tracer, write)
    if tracer.left:
        hint = "use c.when(...) instead of break"
        raise GeError("a loop was left before its end", place, hint)
    kinds = {tracer.cube: CubeOp, tracer.vector: partial(VectorOp, split=tracer.parts)}
    programs = [p for s in tracer.sides if (p := written_side(s, kinds[s])) is not None]
    if not programs:
        hint = "c.load(...), computing on tiles and c.store(...) are"
        raise GeError(f"@{name} has no instructions", place, hint)
    block.add_ops((*tracer.fifos, *programs))
    if cores is None:
        cube = any(isinstance(p, CubeOp) for p in programs)
        cores = tracer.target.cube_cores if cube else tracer.target.vector_cores
    return KernelOp(name, cores, block, len(tracer.own))


def trace(tracer: Tracer, write: Callable[[Tracer], None]) -> None:
    """Let a function write a program. Raises GeError at the line that is wrong."""
    try:
        write(tracer)
    except VerifyException as e:
        raise GeError(str(e), line_of(e)) from None
    except GeError as e:
        raise GeError(e.message, e.where or line_of(e), e.hint, e.notes) from None


def written_side(side: Side, kind: Callable[[Block], ProgramOp]) -> ProgramOp | None:
    """The program of one side, without loops, branches and numbers that it has no use for."""
    program = kind(side.block)
    erase_unused(side.block)
    if side.repeats:
        cse(program)
    return program if has_instructions(program) else None


class InMemory(dict[SSAValue, Argument]):
    """Arguments by the values that they are."""

    def __missing__(self, value: SSAValue) -> Argument:
        raise NotLowered("an operand is a constant of one element, whose number is in a file")


def program_of(launch: Launch, name: str, written: Written) -> KernelOp:
    """The program that a lowering writes."""
    block = Block()
    arguments = arguments_of(launch, written, block)
    given, place = in_memory(arguments), str(location_of(launch.kernel))

    def write(c: Tracer) -> None:
        written.write(c, arguments)

    tracer = Tracer(given, launch.target)
    return written_kernel(name, block, tracer, write, written.cores, place)


def arguments_of(launch: Launch, written: Written, block: Block) -> dict[SSAValue, Argument]:
    """The memrefs of a program, which become arguments of the block, for the launch's values; and
    the numbers of those that are constants of one element."""
    arguments = InMemory()
    for number, (memref, values) in enumerate(launch.in_memory()):
        element, shape = data_type(values[0].type)
        shape = next((written.shapes[v] for v in values if v in written.shapes), shape or (1,))
        if any(v in arguments for v in values):
            raise NotLowered(f"{memref} is the same value as another argument")
        arg = block.insert_arg(dense_memref(element, shape), number)
        arg.name_hint = memref
        arguments.update(dict.fromkeys(values, Argument(arg, shape, element)))
    for value in launch.operands:
        if value not in arguments and (number := launch.number(value)) is not None:
            element, shape = data_type(value.type)
            shape = written.shapes.get(value, shape or (1,))
            arguments[value] = OneNumber(value, shape, element, number)
    return arguments


def in_memory(arguments: Mapping[SSAValue, Argument]) -> list[Argument]:
    return [a for a in arguments.values() if not isinstance(a, OneNumber)]


def bytes_left(launch: Launch, written: Written) -> dict[Memory, int]:
    """Bytes that a program leaves free of each memory of a core that it uses, less than 0 if it
    does not fit. The program is not written for it."""
    return sketched(launch, written).bytes_left


def fits(launch: Launch, written: Written) -> bool:
    """True if all buffers of a program have room. Buffers after the first one that has none are not
    looked at."""
    try:
        sketched(launch, written, limited=True)
    except Full:
        return False
    return True


def sketched(launch: Launch, written: Written, limited: bool = False) -> Sketch:
    arguments = arguments_of(launch, written, Block())
    sketch = Sketch(in_memory(arguments), launch.target, limited)
    trace(sketch, lambda c: written.write(c, arguments))
    return sketch
