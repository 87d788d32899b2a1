"""Input and output of a lowering of kernels to tiles, and the choice among its cuts.

A lowering is a function `Launch -> Written`: it looks at the ops of one launch, and returns a
function that writes the tile program with the calls of `ge.tile`, as authors of kernels do. It
raises `NotLowered`, with a reason, for a launch that it has no program for.

Kernels by hand (`ge.FusedOp(kernel=gemm.returning(...))`, `@ge.tile.program(MyOp)`): their authors'
code is the tile program of their launches. A program registered here decides, for op classes of
ge's own as for others.

A lowering lists its candidates with the one that its estimate calls the fastest first, and takes
the first that fits. While a kernel is tuned (`lowering/driver/variants.py`), or where tunings
are at hand, another one may come first: the one asked for by its text."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from math import inf
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, runtime_checkable

from xdsl.ir import Operation, SSAValue

from ge.dialects.fused_op import Body, CustomOp, FusedOp, user_kernels
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.npu_task.attributes import Engine
from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.support.context import at_hand, having
from ge.dialects.support.errors import GeError
from ge.dialects.support.operation import yielded
from ge.dialects.support.packages import installed, left_out, of_dialect, package_of
from ge.dialects.support.types import Shape, constant_value, numel, shape_of
from ge.dialects.targets.target import Target

if TYPE_CHECKING:
    from ge.dialects.tile.kernel import KernelOp as TileKernelOp
    from ge.runtime.library.language.sides import Argument
    from ge.runtime.library.language.tracing import Tracer

Op = TypeVar("Op", bound=Operation)


class NotLowered(Exception):
    """There is no tile program for a kernel; the text says why."""


def no_room(needs: Mapping[str, int], target: Target) -> NotLowered:
    """The error that no cut of a kernel fits, with the bytes that the least one takes of memories
    that have less."""
    room = target.core_memories
    full = [f"{n} bytes of {m}, which has {room[m]}" for m, n in needs.items() if n > room[m]]
    least = f": the least takes {', '.join(full)}" if full else ""
    return NotLowered(f"no block of it fits on a core{least}")


Arguments: TypeAlias = "Mapping[SSAValue, Argument]"
"""The tile program's argument for each input and each output of the launch's body."""


@dataclass(frozen=True)
class Written:
    """The function that writes a tile program, and the number of cores that it runs on (None: all
    of their kind).

    `shapes`: those of memrefs that are not the values' own; the elements are the same, in the same
    order. `us`: how long it takes with its start, by the estimate of its cut, where there is one.
    `program`: the program itself, where it was written to see whether it fits. `engine`: the only
    kind of cores that has instructions, where that is known."""

    write: "Callable[[Tracer, Arguments], None]"
    cores: int | None
    shapes: Mapping[SSAValue, Shape] = field(default_factory=dict[SSAValue, Shape])
    us: float | None = None
    program: "TileKernelOp | None" = None
    engine: Engine | None = None


@dataclass(frozen=True)
class Launch:
    """A kernel, and the target it is lowered for."""

    kernel: KernelOp
    target: Target

    @cached_property
    def body(self) -> Body:
        return Body.of(self.kernel.main)

    @cached_property
    def operands(self) -> dict[SSAValue, SSAValue]:
        """The value of the kernel for each input of the body: its argument, or a constant."""
        main = self.kernel.main
        if isinstance(main, FusedOp):
            return dict(zip(self.body.inputs, main.operands, strict=True))
        return {v: v for v in self.body.inputs}

    def only(self, kind: type[Op]) -> Op:
        """The op of this kind. Raises NotLowered where there are others."""
        op = next(op for op in self.body.ops if isinstance(op, kind))
        if len(self.body.ops) > 1:
            raise NotLowered(f"there are ops beside {op.name}")
        return op

    def constant(self, value: SSAValue) -> ConstantOp | None:
        """The constant that an input of the body is."""
        owner = self.operands.get(value, value).owner
        return owner if isinstance(owner, ConstantOp) else None

    def number(self, value: SSAValue) -> Any | None:
        """The one number that an input of the body is; None where it is none, or not in the
        text."""
        constant = self.constant(value)
        if constant is None or numel(shape_of(value)) != 1:
            return None
        dense = constant_value(constant.result)
        return None if dense is None else dense.get_values()[0]

    def in_memory(self) -> list[tuple[str, list[SSAValue]]]:
        """The arguments of the tile program: the name of each, and the values of the body that it
        is. They are the kernel's arguments, its constants in device memory, its results."""
        block, main = self.kernel.body.block, self.kernel.main
        users: dict[SSAValue, list[SSAValue]] = {a: [] for a in block.args}
        users |= {c.results[0]: [] for c in self.kernel.constants}
        for value, operand in self.operands.items():
            if operand in users:
                users[operand].append(value)
        for arg in block.args:
            users[arg] = users[arg] or [arg]  # that nothing reads
        inputs = [(f"in{i}", values) for i, values in enumerate(users.values())]
        results = [self.body.outputs[main.results.index(v)] for v in yielded(block)]
        return inputs + [(f"out{i}", [v]) for i, v in enumerate(results)]


@dataclass(frozen=True)
class Replaced(Launch):
    """A launch whose body is another one that computes the same, or a part of it."""

    new: Body
    before: Mapping[SSAValue, SSAValue]
    """The inputs and outputs of the launch by those of `new`."""
    of: Launch | None = field(default=None, kw_only=True)  # that has another body already

    @cached_property
    def body(self) -> Body:
        return self.new

    @cached_property
    def operands(self) -> dict[SSAValue, SSAValue]:
        old = (self.of or Launch(self.kernel, self.target)).operands
        return {v: old[self.before[v]] for v in self.new.inputs}

    def in_memory(self) -> list[tuple[str, list[SSAValue]]]:
        new = dict[SSAValue, list[SSAValue]]()
        for value, old in self.before.items():
            new.setdefault(old, []).append(value)
        given = (self.of or Launch(self.kernel, self.target)).in_memory()
        return [(name, [n for v in values for n in new.get(v, [v])]) for name, values in given]

    def original(self, written: Written) -> Written:
        """The same program, by the values of the launch itself."""

        def write(c: "Tracer", arguments: Arguments) -> None:
            written.write(c, {v: arguments[o] for v, o in self.before.items() if o in arguments})

        shapes = {o: written.shapes.get(v, shape_of(v) or (1,)) for v, o in self.before.items()}
        return replace(written, write=write, shapes=shapes)


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
    """Have launches of an op class run the kernel that `author` returns for the op."""
    _PROGRAMS[op] = author


def registered() -> Sequence[type[Operation]]:
    """The op classes that have an author in this process, by now."""
    return [*_PROGRAMS]


def written_here() -> bool:
    """True if an author is of no installed package: what it does is known to this process alone."""
    return any(package_of(author.__module__) is None for author in _PROGRAMS.values())


def author_of(op: Operation) -> Author | None:
    """The author of the tile program of an op. For the first op of a dialect the modules of its
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
    """An op of a fused launch that has an author, whose program is for a launch of its own; none
    for a launch that is somebody's own fusion."""
    main = launch.kernel.main
    if main in launch.body.ops or isinstance(main, CustomOp):
        return None
    return next((op for op in launch.body.ops if author_of(op) is not None), None)


T = TypeVar("T")


@dataclass
class Choice:
    """The wanted cut, and those there are: the texts of up to `most` candidates, the fastest by
    estimate first. A text that no candidate has, or one that does not fit, asks for nothing:
    `taken` is the one that was looked at last."""

    wanted: str = ""
    most: int = 0
    seen: list[str] = field(default_factory=list[str])
    taken: str = ""

    @property
    def is_passed_over(self) -> bool:
        return self.wanted not in ("", self.taken)


@dataclass
class Decisions:
    """Decisions made while a program is written for some sizes, in order; if `again`, they are
    repeated for other sizes, which are extents."""

    made: list[Any] = field(default_factory=list[Any])
    again: bool = False

    def next(self) -> Any:
        """Raises NotLowered where at the first sizes nothing more was decided."""
        if not self.made:
            raise NotLowered("its program is cut in another way at other sizes")
        return self.made.pop(0)


def deciding(decisions: Decisions) -> AbstractContextManager[Decisions]:
    return having(decisions)


def is_open() -> bool:
    """True if a program is written for more sizes than one: decisions that depend on a count are
    then made as for any number."""
    return (decisions := at_hand(Decisions)) is not None and decisions.again


def decided(find: Callable[[], T]) -> T:
    """Result of `find`, or its earlier result for the sizes that a program is cut for."""
    if (decisions := at_hand(Decisions)) is None:
        return find()
    if decisions.again:
        return decisions.next()
    place = len(decisions.made)
    decisions.made[place:] = [found := find()]
    return found


def noted(candidates: Iterable[T], decisions: Decisions) -> Iterator[T]:
    """The candidates; the last one that is looked at is decided for."""
    place = len(decisions.made)
    for candidate in candidates:
        decisions.made[place:] = [candidate]
        yield candidate


def choosing(choice: Choice) -> AbstractContextManager[Choice]:
    return having(choice)


def is_free() -> bool:
    """True if lowerings choose cuts by themselves."""
    return at_hand(Choice) is None and at_hand(Decisions) is None


def is_own_choice() -> bool:
    """True if no cut is asked for, and none of other sizes is repeated: also where a kernel's own
    program is timed before others are tried."""
    choice = at_hand(Choice)
    return at_hand(Decisions) is None and (choice is None or not choice.wanted)


def is_passed_over() -> bool:
    """True if the cut asked for does not exist, or does not fit."""
    return (choice := at_hand(Choice)) is not None and choice.is_passed_over


def in_order(candidates: Iterable[T], text: Callable[[T], str] = str) -> Iterable[T]:
    """The candidates, of which the fastest by estimate comes first, or that which is asked for."""
    if (decisions := at_hand(Decisions)) is not None:
        return [decisions.next()] if decisions.again else noted(candidates, decisions)
    if (choice := at_hand(Choice)) is None:
        return candidates
    listed = list(candidates)
    choice.seen += (text(c) for c in islice(listed, choice.most - len(choice.seen)))
    return looked_at([*(c for c in listed if text(c) == choice.wanted), *listed], choice, text)


def looked_at(candidates: Iterable[T], choice: Choice, text: Callable[[T], str]) -> Iterator[T]:
    """The candidates; the last one that is looked at is taken."""
    for candidate in candidates:
        choice.taken = text(candidate)
        yield candidate


def chosen(candidates: Callable[[], Iterable[T]], cycles: Callable[[T, float], float]) -> T | None:
    """The fastest candidate by estimate, or that which is asked for. `cycles` of one: any number
    from `most` on where it takes so many, or does not fit."""
    if at_hand(Choice) is None or at_hand(Decisions) is not None:
        return decided(lambda: fastest(candidates(), cycles))
    found = ((cycles(candidate, inf), candidate) for candidate in candidates())
    ranked = sorted((pair for pair in found if pair[0] < inf), key=lambda pair: pair[0])
    return next(iter(in_order([candidate for _, candidate in ranked])), None)


def fastest(candidates: Iterable[T], cycles: Callable[[T, float], float]) -> T | None:
    """The first of the fastest; None where there is none."""
    best, least = None, inf
    for candidate in candidates:
        if (found := cycles(candidate, least)) < least:
            best, least = candidate, found
    return best
