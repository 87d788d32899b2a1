"""The program that a lowering writes, and a check that it fits into a core. Of several cuts each is
written as far as its buffers fit; the program of the first that fits as a whole is kept."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeVar

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.transforms.common_subexpression_elimination import cse
from xdsl.utils.exceptions import VerifyException

from ge.dialects.npu_task.attributes import Engine, data_type
from ge.dialects.support.diagnostics import location_of
from ge.dialects.support.errors import GeError
from ge.dialects.support.types import dense_memref
from ge.dialects.targets.target import Target
from ge.dialects.tile.buffers import allocated_bytes
from ge.dialects.tile.kernel import CubeOp, KernelOp, ProgramOp, VectorOp
from ge.dialects.tile.types import Memory, RingType, TileType
from ge.runtime.library.language.arith import erase_unused
from ge.runtime.library.language.sides import OneNumber, Side, has_instructions, line_of
from ge.runtime.library.language.tracing import Tracer
from ge.runtime.library.language.values import Argument
from ge.runtime.library.launch import Launch, NotLowered, Written, no_room

T = TypeVar("T")


class Full(Exception):
    """A memory of the core has no room for the buffers of a program."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory


class LimitedSide(Side):
    """A program that ends with Full at the first buffer for which there is no room."""

    def __init__(self, room: Mapping[str, int]) -> None:
        super().__init__()
        self.left = dict(room)

    def locate(self, op: Operation) -> None:
        """A lowering's own lines are nobody's source."""

    def alloc(self, type: TileType | RingType) -> SSAValue:
        self.left[type.space] -= allocated_bytes(type)
        if self.left[type.space] < 0:
            raise Full(type.space)
        return super().alloc(type)


class Attempt(Tracer):
    """The object that a kernel calls `c` while nobody knows whether its buffers fit: they are added
    up, and not looked at one by one."""

    def check_room(self, tile: TileType, copies: int) -> None:
        pass


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
    assert all(s in tracer.sides or s.block.first_op is None for s in kinds), "none was expected"
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
    """The program that a lowering writes; one that it has written already is given away."""
    if (program := written.program) is None:
        return traced(launch, written, name)
    program.sym_name = StringAttr(name)
    return program


def fitted(launch: Launch, written: Written) -> Written | None:
    """The same with its program, if all buffers of that have room, else None."""
    found = fitted_or_full(launch, written)
    return None if isinstance(found, Memory) else found


def fitted_or_full(launch: Launch, written: Written) -> Written | Memory:
    """The same, or the memory that has no room. Nothing is written behind the first buffer that has
    none."""
    room = launch.target.core_memories
    try:
        program = traced(launch, written, sides=(LimitedSide(room), LimitedSide(room)))
    except Full as full:
        return full.memory
    return replace(written, program=program)


def first_fitting(launch: Launch, cuts: Iterable[T], written: Callable[[T], Written]) -> Written:
    """The program of the first cut that fits. Raises NotLowered where none does, or where there is
    no program of the last one."""
    last: Written | NotLowered = NotLowered("there is no block of it")
    for cut in cuts:
        try:
            if (found := fitted(launch, last := written(cut))) is not None:
                return found
        except NotLowered as e:  # smaller ones may have no such tiles
            last = e
    if isinstance(last, NotLowered):
        raise last
    room = launch.target.core_memories
    left = bytes_left(launch, last)
    needs: dict[str, int] = {memory: room[memory] - n for memory, n in left.items()}
    raise no_room(needs, launch.target)


def halves(most: int) -> Iterator[int]:
    """A number, and half of it again and again, down to one."""
    while most:
        yield most
        most //= 2


def bytes_left(launch: Launch, written: Written) -> dict[Memory, int]:
    """Bytes that a program leaves free of each memory of a core that it uses, less than 0 if it
    does not fit."""
    return left_by(traced(launch, written, sides=(Side(), Side())), launch.target)


def left_by(program: KernelOp, target: Target) -> dict[Memory, int]:
    """The same of a program that is written."""
    left = dict[Memory, int]()
    for op in (op for side in program.programs for op in side.allocs):
        memory = op.tile.space
        left[memory] = left.get(memory, target.core_memories[memory]) - op.copies * op.copy_bytes
    return left


def traced(
    launch: Launch, written: Written, name: str = "asked", sides: tuple[Side, Side] | None = None
) -> KernelOp:
    """Write the program. With `sides` of its own what does not fit is no error of the tracer."""
    block = Block()
    arguments = arguments_of(launch, written, block)
    given = [a for a in arguments.values() if not isinstance(a, OneNumber)]

    def write(c: Tracer) -> None:
        written.write(c, arguments)

    own = (given, launch.target)
    tracer = Tracer(*own) if sides is None else Attempt(*own, cube=sides[0], vector=sides[1])
    if written.engine is not None:  # the other program would have loops alone
        tracer.sides = (tracer.cube if written.engine is Engine.CUBE else tracer.vector,)
    place = str(location_of(launch.kernel))
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
