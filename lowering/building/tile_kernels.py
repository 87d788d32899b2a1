"""`ge.tile`: kernels by hand.

from ge import tile

@tile.kernel(M=64)
def double(c, x, out, M):
    t = c.ub(M, x.shape[1])
    for i in c.share(x.shape[0] // M):
        c.load(t, x[i * M:])
        t[:] = t * 2
        c.store(out[i * M:], t)

program = double.on(x, out, target="910b2")      # traced for these shapes
program.check()                                  # no order of the pipes changes a result
program.run(x, out)                              # out is written
program.time().total_us
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.ir import Attribute, Block, Operation
from xdsl.utils.exceptions import VerifyException

from ge.dialects.support.editing import name_hint
from ge.dialects.support.element_types import element_named
from ge.dialects.support.errors import GeError
from ge.dialects.targets import DEFAULT_TARGET
from ge.dialects.targets.target import Target, record_target
from ge.dialects.tile.kernel import KernelOp
from ge.runtime.data.arrays import Array, dtype_of
from ge.runtime.library import by_hand
from ge.runtime.library.language.indices import ceil_div
from ge.runtime.library.language.tracing import Tracer
from ge.runtime.library.language.values import (
    Argument,
    ElementLike,
    abs,
    cast,
    ceil,
    colmax,
    colmin,
    colsum,
    columns,
    erf,
    exp,
    floor,
    gelu,
    is_inf,
    is_nan,
    log,
    maximum,
    minimum,
    mod,
    power,
    reciprocal,
    relu,
    round,
    rowmax,
    rowmin,
    rows,
    rowsum,
    rsqrt,
    sigmoid,
    sign,
    silu,
    softplus,
    sqrt,
    tanh,
    where,
)
from ge.runtime.library.language.writing import written_kernel
from ge.transforms.tiles.finish import finish

__all__ = [
    "Kernel", "Returning", "Tensor", "TileProgram", "abs", "cast", "ceil", "ceil_div", "colmax",
    "colmin", "colsum", "columns", "erf", "exp", "floor", "gelu", "is_inf", "is_nan", "kernel",
    "log", "maximum", "minimum", "mod", "power", "program", "reciprocal", "relu", "round",
    "rowmax", "rowmin", "rows", "rowsum", "rsqrt", "sigmoid", "sign", "silu", "softplus",
    "sqrt", "tanh", "where",
]  # fmt: skip

if TYPE_CHECKING:
    from ge.runtime.check.tiles import KernelProof
    from ge.runtime.cores.times import KernelTime


@dataclass(frozen=True)
class Tensor:
    """Shape and element type of an argument, where there is no array yet."""

    shape: tuple[int, ...]
    dtype: ElementLike


Like: TypeAlias = Any  # a numpy array, or a `Tensor`


@dataclass(frozen=True)
class Kernel:
    """A kernel in Python, for any shapes: `function(c, *arguments, **parameters)`."""

    function: Callable[..., None]
    parameters: dict[str, Any]

    @property
    def name(self) -> str:
        return self.function.__name__

    def on(
        self,
        *arguments: Like,
        cores: int | None = None,
        target: str = DEFAULT_TARGET,
        tunings: str = "",
        **parameters: Any,
    ) -> "TileProgram":
        """The program for arguments of these shapes, on so many cores (default: all that the target
        has of their kind). Parameters that are not given are those that the file `tunings` of
        `ge-tune` has for these types, or the kernel's own. Raises GeError, which names the line of
        the kernel."""
        types = [memref_of(a) for a in arguments]
        chosen = self.chosen(types, Target.load(target), tunings, parameters)
        return traced(self, arguments, cores, target, chosen)

    def chosen(
        self,
        types: "Sequence[MemRefType[Attribute]]",
        target: Target,
        tunings: str,
        parameters: Mapping[str, Any],
    ) -> dict[str, Any]:
        """All parameters for arguments of these types. Raises GeError for those that are none."""
        if unknown := [p for p in parameters if p not in self.parameters]:
            known = ", ".join(self.parameters) or "none"
            text = f"@{self.name} has no parameter '{unknown[0]}'"
            raise GeError(text, hint=f"there are: {known}")
        tuned: Mapping[str, Any] = self._tuned(tunings, types, target) if tunings else {}
        return {**self.parameters, **tuned, **parameters}

    def _tuned(
        self, path: str, types: "Sequence[MemRefType[Attribute]]", target: Target
    ) -> Mapping[str, Any]:
        from ge.lowering.building.tuning import Tunings, type_text

        return Tunings.read(path).parameters(self, [type_text(t) for t in types], target.name)

    def __call__(self, *arrays: Any, **options: Any) -> None:
        """Run it on arrays, of which those that it stores to are written."""
        self.on(*arrays, **options).run(*arrays)

    def returning(self, result: Callable[..., Like], **options: Any) -> "Returning":
        """A function of the inputs that returns the last argument, such as the kernel of a
        `ge.FusedOp`: `result(*inputs)` has its shape and element type. `options`: those of `on`."""
        return Returning(self, result, options)


@dataclass(frozen=True, eq=False)
class Returning:
    """See `Kernel.returning`. Programs are traced once for each shape of the inputs."""

    kernel: Kernel
    result: Callable[..., Like]
    options: Mapping[str, Any]
    programs: dict[Any, "TileProgram"] = field(default_factory=dict[Any, "TileProgram"])

    def __call__(self, *inputs: Array) -> Array:
        like = self.result(*inputs)
        out = np.zeros(like.shape, dtype_of(element_named(like.dtype)))
        key = tuple((a.shape, str(a.dtype)) for a in (*inputs, out))
        if key not in self.programs:
            self.programs[key] = self.kernel.on(*inputs, out, **self.options)
        self.programs[key].run(*inputs, out)
        return out

    def write(self, c: Tracer, arguments: Sequence[Argument]) -> None:
        """Write the program into another one that is traced, for that one's target."""
        own = {k: v for k, v in self.options.items() if k not in ("cores", "target", "tunings")}
        types = [MemRefType(a.element, a.shape) for a in arguments]
        chosen = self.kernel.chosen(types, c.target, self.options.get("tunings", ""), own)
        self.kernel.function(c, *arguments, **chosen)


def kernel(*function: Callable[..., None], **parameters: Any) -> Any:
    """Make a function a kernel: `@tile.kernel` or `@tile.kernel(M=128, ...)`, with parameters that
    `on(...)` may change."""

    def decorated(f: Callable[..., None]) -> Kernel:
        return Kernel(f, parameters)

    return decorated(function[0]) if function else decorated


Program = TypeVar("Program", bound=Callable[[Any], Returning])


def program(*ops: type[Operation]) -> Callable[[Program], Program]:
    """Register the function below, which returns the tile program of an op's launch
    (`kernel.returning(...)`), for these op classes: one's own, or those of ge. A launch that has
    such an op fused with others keeps ge's program, with a warning."""

    def register(function: Program) -> Program:
        for op in ops:
            by_hand.register(op, function)
        return function

    return register


@dataclass(frozen=True)
class TileProgram:
    """A kernel for arguments of known shapes, on one target."""

    module: ModuleOp
    kernel: KernelOp
    target: Target

    @cached_property
    def mlir(self) -> str:
        return str(self.module)

    def check(self) -> "KernelProof":
        """Whether no order of the pipes changes a result (`ge-check`)."""
        from ge.runtime.check.tiles import check_kernel

        return check_kernel(self.kernel, self.target)

    def run(self, *arrays: Any, seed: int | None = None) -> None:
        """Run it on the emulated cores; arrays that it stores to are written. With a seed the pipes
        run in a random legal order. Raises GeError where the arrays are not those it is for."""
        from ge.runtime.cores.arguments import argument_names
        from ge.runtime.cores.kernel import TileKernel

        arguments, names = self.kernel.arguments, argument_names(self.kernel)
        if len(arrays) != len(arguments):
            raise GeError(f"{len(arrays)} arrays for {len(arguments)} arguments")
        for array, arg, name in zip(arrays, arguments, names, strict=True):
            if memref_of(array) != arg.type:
                text = f"%{name} is {arg.type}, not {memref_of(array)}"
                raise GeError(text, hint="kernel.on(...) makes a program for these")
        given = {
            name: np.reshape(array, array.shape or (1,))
            for name, array in zip(names, arrays, strict=True)
        }
        for name, result in TileKernel(self.kernel, self.target).run(given, seed).items():
            given[name][...] = result

    def time(self) -> "KernelTime":
        """The time that the emulated cores take, by pipe."""
        from ge.runtime.cores.kernel import TileKernel

        return TileKernel(self.kernel, self.target).time()


def traced(
    kernel: Kernel,
    arguments: Sequence[Like],
    cores: int | None,
    target_name: str,
    parameters: dict[str, Any],
) -> TileProgram:
    """Trace a kernel, and bring it to what a core runs: loops without branches, flags, offsets."""
    target = Target.load(target_name)
    code = kernel.function.__code__
    place = f"{Path(code.co_filename).name}:{code.co_firstlineno}"
    try:
        signature(kernel.function).bind(None, *arguments, **parameters)
    except TypeError as e:
        raise GeError(f"@{kernel.name}: {e}", place) from None
    types = [memref_of(a) for a in arguments]
    block = Block(arg_types=types)
    names = code.co_varnames[1 : 1 + len(types)]
    given: list[Argument] = []
    for arg, name, t in zip(block.args, names, types, strict=False):
        arg.name_hint = name_hint(name)
        given.append(Argument(arg, t.get_shape(), t.element_type))
    write = partial(call, kernel.function, given, parameters)
    op = written_kernel(kernel.name, block, Tracer(given, target), write, cores, place)
    module = ModuleOp([op])
    record_target(module, target_name)
    try:
        finish(module)
        module.verify()
    except VerifyException as e:
        raise GeError(f"@{kernel.name}: {e}", place) from None
    return TileProgram(module, op, target)


def call(
    function: Callable[..., None],
    arguments: Sequence[Argument],
    parameters: dict[str, Any],
    c: Tracer,
) -> None:
    function(c, *arguments, **parameters)


def memref_of(like: Like) -> "MemRefType[Attribute]":
    """A scalar is a memref of one element."""
    return MemRefType(element_named(like.dtype), like.shape or (1,))
