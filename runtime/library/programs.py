"""The program that a lowering writes, and whether it fits into a core."""

from xdsl.ir import Block, SSAValue

from ge.dialects.npu_task.attributes import data_type
from ge.dialects.support.diagnostics import location_of
from ge.dialects.support.types import dense_memref
from ge.dialects.tile.kernel import KernelOp
from ge.dialects.tile.types import Memory
from ge.runtime.library.language.sketch import Full, Sketch
from ge.runtime.library.language.tracing import Tracer
from ge.runtime.library.language.values import Argument
from ge.runtime.library.language.writing import trace, written_kernel
from ge.runtime.library.launch import Launch, NotLowered, Written


class InMemory(dict[SSAValue, Argument]):
    """Arguments by the values that they are."""

    def __missing__(self, value: SSAValue) -> Argument:
        raise NotLowered("an operand is a constant of one element, which is not in memory")


def program_of(launch: Launch, name: str, written: Written) -> KernelOp:
    """The program that a lowering writes."""
    block = Block()
    arguments = arguments_of(launch, written, block)
    given, place = list(arguments.values()), str(location_of(launch.kernel))

    def write(c: Tracer) -> None:
        written.write(c, arguments)

    tracer = Tracer(given, launch.target, written.alone)
    return written_kernel(name, block, tracer, write, written.cores, place)


def arguments_of(launch: Launch, written: Written, block: Block) -> dict[SSAValue, Argument]:
    """The memrefs of a program, which become arguments of the block, for the launch's values."""
    arguments = InMemory()
    for number, (memref, values) in enumerate(launch.in_memory()):
        element, shape = data_type(values[0].type)
        shape = next((written.shapes[v] for v in values if v in written.shapes), shape or (1,))
        if any(v in arguments for v in values):
            raise NotLowered(f"{memref} is the same value as another argument")
        arg = block.insert_arg(dense_memref(element, shape), number)
        arg.name_hint = memref
        arguments.update(dict.fromkeys(values, Argument(arg, shape, element)))
    return arguments


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
    sketch = Sketch(list(arguments.values()), launch.target, written.alone, limited)
    trace(sketch, lambda c: written.write(c, arguments))
    return sketch
