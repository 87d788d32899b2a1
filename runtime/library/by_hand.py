"""Kernels by hand (`ge.FusedOp(kernel=gemm.returning(...))`, `@ge.tile.program(MyOp)`): what their
authors wrote is the tile program of their launches."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from xdsl.ir import Operation

from ge.dialects.fused_op import USER_KERNELS, CustomOp
from ge.dialects.support.packages import of_dialect
from ge.dialects.support.types import shape_of
from ge.runtime.library.language.tracing import Tracer
from ge.runtime.library.language.values import Argument
from ge.runtime.library.launch import Arguments, Launch, NotLowered, Written


@runtime_checkable
class ByHand(Protocol):
    """A kernel that its author has written for launches."""

    @property
    def options(self) -> Mapping[str, Any]: ...

    def write(self, c: Tracer, arguments: Sequence[Argument]) -> None: ...


_PROGRAMS: dict[type[Operation], Callable[[Any], ByHand]] = {}


def register(op: type[Operation], author: Callable[[Any], ByHand]) -> None:
    """Have launches of an op class run what `author` returns for the op."""
    _PROGRAMS[op] = author


def program_for(op: Operation) -> ByHand | None:
    """The tile program that the author of an op has written for it; those of an installed package
    are imported for the first op of its dialects. Raises GeError where that fails."""
    if type(op) not in _PROGRAMS and not type(op).__module__.startswith("ge."):
        for package in of_dialect(op.name.partition(".")[0]):
            for module in package.adds.tiles:
                package.load(module)
    found = _PROGRAMS.get(type(op))
    return None if found is None else found(op)


def by_hand(launch: Launch) -> ByHand | None:
    """The kernel by hand that a launch is of."""
    if not isinstance(main := launch.kernel.main, CustomOp):
        return program_for(main)
    function = USER_KERNELS.get().functions.get(main.kind.data)
    return function if isinstance(function, ByHand) else None


def lower_by_hand(launch: Launch) -> Written:
    """Raises NotLowered for operands that memrefs cannot be."""
    values, kernel = (*launch.body.inputs, *launch.body.outputs), by_hand(launch)
    assert kernel is not None
    if any(not shape_of(v) for v in values):
        raise NotLowered("arguments of a kernel by hand have at least one dimension")

    def write(c: Tracer, given: Arguments) -> None:
        kernel.write(c, [given[v] for v in values])

    return Written(write, kernel.options.get("cores"))
