"""`ge.tile`: kernels by hand, and the fastest parameters of them.

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

Parameters are tried on the emulated cores, and kept in a file:

    tuning = tune(gemm, (a, b, out), {"M": [64, 128], "N": [128, 256]})
    kept = Tunings.read("tunings.json").with_entry(tuning.entry)     # ge-tune writes kept.rows()
    gemm.on(a, b, out, tunings="tunings.json")

All combinations are tried where they are at most `limit`; else one parameter after the other, each
value of it with the best of the others, until nothing gets faster. What does not fit on the core is
left out. The time is that of the simulation (`runtime/cores`), of one launch with its operands in
HBM; numbers are neither computed nor proved here."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from hashlib import sha256
from inspect import getsource, signature
from itertools import product
from math import prod
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
from ge.runtime.library import launch
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
from ge.runtime.library.programs import written_kernel
from ge.transforms.tiles.finish import finish

if TYPE_CHECKING:
    from ge.runtime.check.tiles import KernelProof
    from ge.runtime.cores.kernel import KernelTime


__all__ = [
    "Kernel", "Returning", "Tensor", "TileProgram", "abs", "cast", "ceil", "ceil_div", "colmax",
    "colmin", "colsum", "columns", "erf", "exp", "floor", "gelu", "is_inf", "is_nan", "kernel",
    "log", "maximum", "minimum", "mod", "power", "program", "reciprocal", "relu", "round",
    "rowmax", "rowmin", "rows", "rowsum", "rsqrt", "sigmoid", "sign", "silu", "softplus",
    "sqrt", "tanh", "where",
]  # fmt: skip


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
        tuned: Mapping[str, Any] = {}
        if tunings:
            texts = [type_text(t) for t in types]
            tuned = Tunings.read(tunings).parameters(self, texts, target.name)
        return {**self.parameters, **tuned, **parameters}

    def __call__(self, *arrays: Any, **options: Any) -> None:
        """Run it on arrays; those that it stores to are written."""
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
            launch.register(op, function)
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
        """Check that no order of the pipes changes a result (`ge-check`), and return the proof."""
        from ge.runtime.check.tiles import check_kernel

        return check_kernel(self.kernel, self.target)

    def run(self, *arrays: Any, seed: int | None = None) -> None:
        """Run it on the emulated cores; arrays that it stores to are written. With a seed the pipes
        run in a random legal order. Raises GeError where the arrays are not those it is for."""
        from ge.runtime.cores.kernel import TileKernel
        from ge.runtime.cores.memory import argument_names

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
    """Trace a kernel, and bring it to a form that a core runs: loops without branches, flags,
    offsets."""
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

    def write(c: Tracer) -> None:
        kernel.function(c, *given, **parameters)

    op = written_kernel(kernel.name, block, Tracer(given, target), write, cores, place)
    module = ModuleOp([op])
    record_target(module, target_name)
    try:
        finish(module)
        module.verify()
    except VerifyException as e:
        raise GeError(f"@{kernel.name}: {e}", place) from None
    return TileProgram(module, op, target)


def memref_of(like: Like) -> "MemRefType[Attribute]":
    """A scalar is a memref of one element."""
    return MemRefType(element_named(like.dtype), like.shape or (1,))


LIMIT = 64  # programs that are tried

Parameters: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class TuningTrial:
    """A program that was tried: its time, or why there is none."""

    parameters: Parameters
    us: float | None
    bound: str = ""  # what sets the time
    why: str = ""


@dataclass(frozen=True)
class Entry:
    """A kept tuning: the fastest parameters of a kernel, for arguments of these types, on a target.
    `source` is a hash of the kernel's text: a kernel that was changed is another one."""

    kernel: str
    source: str
    arguments: Sequence[str]
    target: str
    cores: int
    parameters: Parameters
    us: float

    @property
    def key(self) -> tuple[Any, ...]:
        return self.kernel, self.source, tuple(self.arguments), self.target


@dataclass(frozen=True)
class Tuning:
    """The result of a search, and all that was tried, the fastest first."""

    entry: Entry
    trials: Sequence[TuningTrial]
    combinations: int  # number of all

    @property
    def summary(self) -> str:
        e, tried = self.entry, len(self.trials)
        how = "all" if tried == self.combinations else f"of {self.combinations:,}"
        what = ", ".join(f"{k}={v}" for k, v in e.parameters.items())
        took = f"{e.us:,.2f} us on {Target.load(e.target).timed()}"
        return f"@{e.kernel}: {took}, with {what} ({tried:,} programs tried, {how})"


def tune(
    kernel: "Kernel",
    arguments: Sequence["Like"],
    choices: Mapping[str, Sequence[Any]] | None = None,
    target: str = DEFAULT_TARGET,
    cores: int | None = None,
    limit: int = LIMIT,
    tell: Callable[[TuningTrial], None] = lambda trial: None,
) -> Tuning:
    """The fastest parameters among the choices; by default each number of the kernel's parameters,
    its half and its double. Raises GeError where no program runs."""
    choices = choices or default_choices(kernel)
    if not choices:
        raise GeError(f"@{kernel.name} has no parameters to choose", hint="give values: M=64,128")
    search = TuningSearch(kernel, arguments, target, cores, tell)
    size = prod(len(values) for values in choices.values())
    if size <= limit:
        for values in product(*choices.values()):
            search.time_of(dict(zip(choices, values, strict=True)))
    else:
        descend(search, choices, limit)
    trials = sorted(search.trials.values(), key=lambda t: (t.us is None, t.us))
    best = trials[0]
    if best.us is None:
        raise GeError(f"@{kernel.name} runs with none of the choices: {best.why}")
    program = search.programs(best.parameters)
    name = program.target.name
    types = tuple(type_text(a.type) for a in program.kernel.arguments)
    count = program.kernel.core_count
    entry = Entry(kernel.name, source_of(kernel), types, name, count, best.parameters, best.us)
    return Tuning(entry, trials, size)


@dataclass
class TuningSearch:
    """Times of programs, each tried once."""

    kernel: "Kernel"
    arguments: Sequence["Like"]
    target: str
    cores: int | None
    tell: Callable[[TuningTrial], None]
    trials: dict[tuple[Any, ...], TuningTrial] = field(
        default_factory=dict[tuple[Any, ...], TuningTrial]
    )

    def programs(self, parameters: Parameters) -> "TileProgram":
        return self.kernel.on(*self.arguments, cores=self.cores, target=self.target, **parameters)

    def time_of(self, parameters: Parameters) -> float:
        key = tuple(parameters.values())
        if key not in self.trials:
            self.trials[key] = trial = self.attempt(parameters)
            self.tell(trial)
        us = self.trials[key].us
        return float("inf") if us is None else us

    def attempt(self, parameters: Parameters) -> TuningTrial:
        try:
            time = self.programs(parameters).time()
        except GeError as e:
            return TuningTrial(parameters, None, why=e.message)
        return TuningTrial(parameters, time.total_us, time.bound)


def descend(search: TuningSearch, choices: Mapping[str, Sequence[Any]], limit: int) -> None:
    """Search one parameter after the other, from the kernel's own on."""
    own = search.kernel.parameters
    best = {n: own[n] if own[n] in values else values[0] for n, values in choices.items()}
    us = search.time_of(best)
    for name, value in around(choices, best):
        if len(search.trials) >= limit:
            return
        if (time := search.time_of({**best, name: value})) < us:
            best[name], us = value, time


def around(
    choices: Mapping[str, Sequence[Any]], best: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    """Values to try, until a round over all parameters changed nothing in `best`."""
    before = None
    while before != dict(best):
        before = dict(best)
        for name, values in choices.items():
            yield from ((name, v) for v in values)


def default_choices(kernel: "Kernel") -> dict[str, list[int]]:
    numbers = {n: v for n, v in kernel.parameters.items() if type(v) is int and v > 1}
    return {n: sorted({v, max(v // 2, 1), 2 * v}) for n, v in numbers.items()}


def source_of(kernel: "Kernel") -> str:
    return sha256(getsource(kernel.function).encode()).hexdigest()[:16]


def type_text(memref: Attribute) -> str:
    """Such as 512x256xf16."""
    return str(memref).removeprefix("memref<")[:-1]


# ---- what is kept ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tunings:
    """The entries of a file."""

    entries: Mapping[tuple[Any, ...], Entry]

    @classmethod
    def read(cls, path: str) -> "Tunings":
        """Read the tunings of a file; none if there is no file. Raises GeError for a file that is
        none."""
        if not Path(path).exists():
            return cls({})
        try:
            rows: list[dict[str, Any]] = json.loads(Path(path).read_text()).get("tunings", [])
            for row in rows:
                row["arguments"] = tuple(row["arguments"])
            entries = [Entry(**row) for row in rows]
        except (OSError, ValueError, AttributeError, TypeError) as e:
            hint = "ge-tune -o writes such files"
            raise GeError(f"it is no file of tunings: {e}", path, hint) from None
        return cls({e.key: e for e in entries})

    def with_entry(self, entry: Entry) -> "Tunings":
        """The entry in the place of one for the same."""
        return Tunings({**self.entries, entry.key: entry})

    def rows(self) -> dict[str, Any]:
        return {"tunings": [asdict(e) for e in self.entries.values()]}

    def parameters(self, kernel: "Kernel", types: Sequence[str], target: str) -> Parameters:
        """Return the parameters kept for a kernel; none for others, and for one that has changed
        since."""
        entry = self.entries.get((kernel.name, source_of(kernel), tuple(types), target))
        return {} if entry is None else entry.parameters
