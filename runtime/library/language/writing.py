"""A `tile.kernel` of what a function writes with a tracer: the last step of tracing."""

from collections.abc import Callable
from functools import partial

from xdsl.ir import Block
from xdsl.transforms.common_subexpression_elimination import cse
from xdsl.utils.exceptions import VerifyException

from ge.dialects.support.errors import GeError
from ge.dialects.tile.kernel import CubeOp, KernelOp, ProgramOp, VectorOp
from ge.runtime.library.language.arith import erase_unused
from ge.runtime.library.language.sides import Side, has_instructions, line_of
from ge.runtime.library.language.tracing import Tracer


def written_kernel(
    name: str,
    block: Block,
    tracer: Tracer,
    write: Callable[[Tracer], None],
    cores: int | None,
    place: str,
) -> KernelOp:
    """The kernel with `block` for its body, whose arguments are the memrefs. `cores` None: all that
    the target has of their kind. Raises GeError, at the line that writes what is wrong or at
    `place`."""
    trace(tracer, write)
    if tracer.left:
        hint = "use c.when(...) instead of break"
        raise GeError("a loop was left before its end", place, hint)
    kinds = {tracer.cube: CubeOp, tracer.vector: partial(VectorOp, split=tracer.parts)}
    programs = [p for s in tracer.sides if (p := program_of(s, kinds[s])) is not None]
    if not programs:
        hint = "c.load(...), computing on tiles and c.store(...) are"
        raise GeError(f"@{name} has no instructions", place, hint)
    block.add_ops((*tracer.fifos, *programs))
    if cores is None:
        cube = any(isinstance(p, CubeOp) for p in programs)
        cores = tracer.target.cube_cores if cube else tracer.target.vector_cores
    return KernelOp(name, cores, block, len(tracer.own))


def trace(tracer: Tracer, write: Callable[[Tracer], None]) -> None:
    """Let a function write a program. Raises GeError at the line that writes what is wrong."""
    try:
        write(tracer)
    except VerifyException as e:
        raise GeError(str(e), line_of(e)) from None
    except GeError as e:
        raise GeError(e.message, e.where or line_of(e), e.hint, e.notes) from None


def program_of(side: Side, kind: Callable[[Block], ProgramOp]) -> ProgramOp | None:
    """The program of one side, without loops, branches and numbers that it has no use for."""
    program = kind(side.block)
    erase_unused(side.block)
    if side.repeats:
        cse(program)
    return program if has_instructions(program) else None
