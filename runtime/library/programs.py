"""The program that a lowering writes, and whether it fits into a core."""

from collections.abc import Mapping

from xdsl.ir import Block, SSAValue

from ge.dialects.npu_task.attributes import data_type
from ge.dialects.support.diagnostics import location_of
from ge.dialects.support.types import dense_memref
from ge.dialects.tile.kernel import KernelOp
from ge.dialects.tile.types import Memory
from ge.runtime.library.language.arguments import OneNumber
from ge.runtime.library.language.sketch import Full, Sketch
from ge.runtime.library.language.tracing import Tracer
from ge.runtime.library.language.values import Argument
from ge.runtime.library.language.writing import trace, written_kernel
from ge.runtime.library.launch import Launch, NotLowered, Written


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
    """Of each memory of a core that a program uses: the bytes that it leaves free, less than 0
    where it does not fit. The program is not written for it."""
    return sketched(launch, written).bytes_left


def fits(launch: Launch, written: Written) -> bool:
    """Whether all buffers of a program have room. What comes after the first one that has none is
    not looked at."""
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
