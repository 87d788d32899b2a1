"""Kernels by hand (`ge.FusedOp(kernel=gemm.returning(...))`, `@ge.tile.program(MyOp)`): what their
authors wrote is the tile program of their launches. What is registered here decides, for op classes
of ge's own as for others."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from xdsl.ir import Operation

from ge.dialects.fused_op import CustomOp, user_kernels
from ge.dialects.support.errors import GeError
from ge.dialects.support.packages import installed, left_out, of_dialect
from ge.runtime.library.launch import Arguments, Launch, Written

if TYPE_CHECKING:  # most compilations have no such kernels
    from ge.runtime.library.language.arguments import Argument
    from ge.runtime.library.language.tracing import Tracer


@runtime_checkable
class ByHand(Protocol):
    """A kernel that its author has written for launches."""

    @property
    def options(self) -> Mapping[str, Any]: ...

    def write(self, c: "Tracer", arguments: "Sequence[Argument]") -> None: ...


Author = Callable[[Any], ByHand]
"""Returns the kernel for an op."""

_PROGRAMS: dict[type[Operation], Author] = {}


def register(op: type[Operation], author: Author) -> None:
    """Have launches of an op class run what `author` returns for the op."""
    _PROGRAMS[op] = author


def registered() -> Sequence[type[Operation]]:
    """The op classes that have an author in this process, by now."""
    return [*_PROGRAMS]


def author_of(op: Operation) -> Author | None:
    """Who has written the tile program of an op. For the first op of a dialect the modules of its
    package are imported, those of all packages for ops that no package defines. Raises GeError
    where that fails for the package of the op; another package is left out with a warning."""
    if type(op) in _PROGRAMS:
        return _PROGRAMS[type(op)]
    own = of_dialect(op.name.partition(".")[0])
    for package in own or installed():
        for module in package.adds.tiles:
            try:
                package.load(module)
            except GeError as e:
                if own:
                    raise
                left_out(f"module '{module}' of {package}", e, e.hint)
    return _PROGRAMS.get(type(op))


def by_hand(launch: Launch) -> ByHand | None:
    """The kernel by hand that a launch is of."""
    if not isinstance(main := launch.kernel.main, CustomOp):
        author = author_of(main)
        return None if author is None else author(main)
    function = user_kernels().functions.get(main.kind.data)
    return function if isinstance(function, ByHand) else None


def lower_by_hand(launch: Launch) -> Written:
    """The author's program. Scalars are memrefs of one element, or numbers where they are constants
    of the program."""
    values, kernel = (*launch.body.inputs, *launch.body.outputs), by_hand(launch)
    assert kernel is not None

    def write(c: "Tracer", given: Arguments) -> None:
        kernel.write(c, [given[v] for v in values])

    return Written(write, kernel.options.get("cores"))


def passed_over(launch: Launch) -> Operation | None:
    """An op of a fused launch that has an author, who wrote it for a launch of its own; none of a
    launch that is somebody's own fusion."""
    main = launch.kernel.main
    if main in launch.body.ops or isinstance(main, CustomOp):
        return None
    return next((op for op in launch.body.ops if author_of(op) is not None), None)
