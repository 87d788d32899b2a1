"""The tile program of one kernel, by the lowering that writes it. It is imported where a program is
written, not where kept ones are read: importing the lowerings, and the tracer that they use, takes
longer than finding a model's programs."""

from collections.abc import Mapping

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from ge.dialects.npu_task.attributes import data_type
from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.support.errors import GeError
from ge.dialects.support.types import numel
from ge.dialects.targets.target import TARGET, TARGET_FILE, Target
from ge.dialects.tile.kernel import KernelOp as TileKernelOp
from ge.runtime.library.asking import written_before
from ge.runtime.library.launch import Launch, NotLowered, Written, is_free
from ge.runtime.library.programs import program_of
from ge.runtime.library.table import lowering_of
from ge.transforms.tiles.finish import finish


def finish_alone(program: TileKernelOp, target: str, around: Mapping[str, Attribute]) -> None:
    """Bring a program to a form that a core runs, of the target or else of the one that the
    attributes `around` name. Raises NotLowered if that fails."""
    named = {n: t for n, t in around.items() if n in (TARGET, TARGET_FILE)}
    module = ModuleOp([program], named)
    try:
        finish(module, target)
    except (GeError, VerifyException) as e:
        raise NotLowered(e.message if isinstance(e, GeError) else str(e)) from None
    program.detach()


def tile_program(kernel: KernelOp, name: str, target: Target) -> TileKernelOp:
    """Return the tile program of a kernel. Raises NotLowered if there is none, or if it asks for
    what a core cannot do: a tile of rows that are no multiple of 32 bytes, for one."""
    if is_free() and (program := written_before(kernel, target)) is not None:
        program.sym_name = StringAttr(name)
        return program
    launch, written = lowered(kernel, target)
    try:
        return program_of(launch, name, written)
    except GeError as e:
        raise NotLowered(e.message) from e


def lowered(kernel: KernelOp, target: Target) -> tuple[Launch, Written]:
    """The launch of a kernel, and what its lowering would write, whose cut is chosen. Raises
    NotLowered where there is none."""
    if kernel.has_unknown_shapes:
        raise NotLowered("its shapes are not known")
    if any(numel(data_type(t)[1]) == 0 for t in kernel.output_types):
        raise NotLowered("it has no elements")
    launch = Launch(kernel, target)
    try:
        return launch, lowering_of(launch)(launch)
    except GeError as e:
        raise NotLowered(e.message) from e
