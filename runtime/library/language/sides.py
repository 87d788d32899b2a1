"""The programs of cube and vector cores while they are written, the lines that write them, and
their arguments: tensors in device memory, and boxes of them."""

import ast
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import dropwhile
from pathlib import Path
from traceback import walk_tb
from typing import Any, TypeAlias
from typing import cast as cast_type

from xdsl.dialects.builtin import i1
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ge.dialects.support.dims import Extent, parsed
from ge.dialects.support.editing import source_line
from ge.dialects.support.errors import GeError
from ge.dialects.support.operation import GeOp, ops_of, put_after, put_before, put_last
from ge.dialects.tile import buffers, kernel
from ge.dialects.tile.buffers import ReadOp, ViewOp
from ge.dialects.tile.instruction import BY_NAME, Instruction
from ge.dialects.tile.types import RingType, TileType, box_in
from ge.runtime.library.language.arith import arith_op, compare_op, constant_op, index_constant
from ge.runtime.library.language.indices import (
    Condition,
    Index,
    KnownIndex,
    LoopIndex,
    ReadIndex,
    Scalar,
    number_of,
    truth_of,
    whole,
)

ROOM = {str(p) for p in Path(__file__).parent.glob("*.py") if p.stem != "examples"}
HERE = ROOM | {contextmanager.__code__.co_filename}
"""Files whose lines are none of the kernel's."""


class Side:
    """The program of one kind of core, while it is written. Nothing is computed twice."""

    def __init__(self) -> None:
        self.block = Block()
        self.first: dict[Any, SSAValue] = {}  # what ops at its beginning compute
        self.last: Operation | None = None  # of them
        self.allocs: list[buffers.AllocOp] = []  # they come next
        self.open = [self.block]
        self.scopes: list[dict[Any, SSAValue]] = [{}]  # values computed in these blocks
        self.aside: list[Block] = []  # open, too, but ops added now stand before them
        self.numbers: list[Index] = []  # those that scopes have by their ids
        self.repeats = False  # whether a loop repeats values that are computed before it by now

    def add(self, kind: Callable[..., Operation], *args: Any, **more: Any) -> None:
        self._add(kind(*args, **more))

    def value(self, key: Any, kind: Callable[..., Operation], *args: Any) -> SSAValue:
        """The result of an op without effects; of equal ones, which have the same key, there is
        one in a scope. Keys have ids of values, since these are asked for their hashes often."""
        if (found := self._known(key)) is None:
            (result,) = self._add(kind(*args)).results
            found = self._keep(key, result)
        return found

    def once(self, key: Any, kind: Callable[..., Operation], *args: Any) -> SSAValue:
        """The result of an op at the beginning of the program, where its operands are, too."""
        if (found := self.first.get(key)) is None:
            self._insert(op := kind(*args), self.last)
            (found,), self.last = op.results, op
            self.first[key] = found
        return found

    def _insert(self, op: Operation, last: Operation | None) -> None:
        """Put an op behind another one, or at the beginning of the program."""
        if last is not None:
            put_after(self.block, op, last)
        elif (first := self.block.first_op) is not None:
            put_before(self.block, op, first)
        else:
            put_last(self.block, op)

    def enter(self, block: Block) -> None:
        """Open the block of a loop or branch."""
        self.open.append(block)
        self.scopes.append({})

    def close(self) -> Block:
        """Leave the loop or branch that was opened last."""
        self.scopes.pop()
        return self.open.pop()

    def _add(self, op: Operation) -> Operation:
        self.locate(op)
        put_last(self.open[-1], op)
        if isinstance(op, GeOp):
            op.verify_more()  # its operands are of the kinds that its definition asks for
        return op

    def locate(self, op: Operation) -> None:
        """Keep the line of the kernel's source that an op is of."""
        op.location = source_line(HERE)

    def _known(self, key: Any) -> SSAValue | None:
        for values in self.scopes:
            if key in values:
                return values[key]
        return None

    def _keep(self, key: Any, value: SSAValue) -> SSAValue:
        self.scopes[-1][key] = value
        return value

    @contextmanager
    def at(self, level: int) -> Generator[None]:
        """Place ops that are added meanwhile in `open[level]`, before the loop or branch in it that
        is open now."""
        block, inner = self.open[level], self.open[level + 1 :]
        last = block.last_op
        with self.aside_from(level + 1):
            yield
        own, *others = self.scopes[level:]
        self.repeats |= any(not own.keys().isdisjoint(values) for values in others)
        if inner and last is not None:
            while (op := last.next_op) is not None:
                op.detach()
                put_before(block, op, last)

    @contextmanager
    def aside_from(self, level: int) -> Generator[None]:
        """The blocks from a level on are not added to."""
        inner, scopes, before = self.open[level:], self.scopes[level:], self.aside
        del self.open[level:], self.scopes[level:]
        self.aside = inner + before
        yield
        self.aside = before
        self.open += inner
        self.scopes += scopes

    def alloc(self, type: TileType | RingType) -> SSAValue:
        op = buffers.AllocOp(type)
        op.result.name_hint = f"{type.space}_{len(self.allocs)}"
        self.locate(op)
        self._insert(op, self.allocs[-1] if self.allocs else self.last)
        self.allocs.append(op)
        return op.result

    def index(self, number: Scalar) -> SSAValue:
        """The value of a number, computed here."""
        if type(number) is int or not isinstance(number, Index):
            return self.constant(number if type(number) is Extent else whole(number))
        if number.kind == "constant":
            return self.constant(number.args[0])
        if type(number) is LoopIndex:
            if self not in number.values:
                raise GeError("a loop's variable is used after its loop")
            return number.values[self]
        if type(number) is KnownIndex:
            value = number.values[self]
            if not self.aside or block_of(value) not in self.aside:
                return value
            (number,) = number.args  # it stands behind ops added now
            return self.index(number)
        if (found := self._known(id(number))) is None:
            self.numbers.append(number)  # or its id might become another one's
            found = self._keep(id(number), self._computed(number))
        return found

    def _computed(self, number: Index) -> SSAValue:
        kind = number.kind
        if kind in NUMBERS:
            return self.once(kind, NUMBERS[kind])
        if isinstance(number, ReadIndex):
            offsets = [self.index(n) for n in number.box.starts]
            memref, span = number.box.argument.memref, number.span
            given = span.stop, span.start, number.distinct, number.ascending
            key = kind, id(memref), *map(id, offsets), *given
            return self.value(key, ReadOp, memref, offsets, *given)
        a, b = (self.index(n) for n in number.args)
        return self.value((kind, id(a), id(b)), arith_op, BY_NAME[kind], a, b)

    def constant(self, number: int) -> SSAValue:
        if type(number) is Extent:
            text = str(number.size)
            tree = parsed(text)
            assert tree is not None, text
            return self.size(tree)
        return self.once(number, index_constant, number)

    def size(self, tree: ast.expr) -> SSAValue:
        """An expression of dimensions, computed once at the beginning of the program."""
        match tree:
            case ast.Constant(int(number)):
                return self.constant(number)
            case ast.BinOp(left, op, right):
                a, b = self.size(left), self.size(right)
                kind = SIZES[type(op)]
                return self.once((kind, id(a), id(b)), arith_op, BY_NAME[kind], a, b)
            case _:
                name = ast.unparse(tree)
                return self.once(("size", name), kernel.SizeOp, name)

    def condition(self, test: Condition | bool) -> SSAValue:
        if (truth := truth_of(test)) is not None:
            return self.once(("i1", truth), constant_op, int(truth), i1)
        assert isinstance(test, Condition)
        if test.kind in BY_NAME:
            left, right = (self.condition(t) for t in test.args)
            return self.value(
                (test.kind, id(left), id(right)), arith_op, BY_NAME[test.kind], left, right
            )
        a, b = (self.index(n) for n in test.args)
        return self.value((test.kind, id(a), id(b)), compare_op, test.kind, a, b)


NUMBERS: dict[str, Callable[[], Operation]] = {
    "core": kernel.CoreOp,
    "cores": kernel.CoresOp,
    "part": kernel.PartOp,
}
SIZES: dict[type[ast.operator], str] = {
    ast.Add: "addi",
    ast.Sub: "subi",
    ast.Mult: "muli",
    ast.FloorDiv: "floordivsi",
}


def block_of(value: SSAValue) -> Block | None:
    """The block in which a value is known."""
    owner = value.owner
    return owner if isinstance(owner, Block) else owner.parent


def line_of(error: Exception) -> str:
    """The line of the kernel's source that an error is about."""
    frames = [(f.f_code.co_filename, n) for f, n in walk_tb(error.__traceback__)]
    line = ""
    for file, number in dropwhile(lambda frame: frame[0] in HERE, frames):
        if file in HERE:
            break
        line = f"{Path(file).name}:{number}"
    return line


def has_instructions(op: Operation) -> bool:
    return any(
        isinstance(o, Instruction) or has_instructions(o)
        for region in op.regions
        for block in region.blocks
        for o in ops_of(block)
    )


Shape: TypeAlias = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Argument:
    """An argument of the kernel: a tensor in device memory."""

    memref: SSAValue
    shape: tuple[int, ...]
    element: Attribute

    @property
    def dtype(self) -> Attribute:
        return self.element

    def __getitem__(self, key: Any) -> "Subview":
        """`a[i:, h, j:]`: a box from there on; ranges are its rows and columns, whose number the
        tile says that it is loaded to or stored from; `h` is one index. `a[i::2]`: every second.
        `a[i:end]`: loads pad from `end` on, and stores leave memory there unchanged."""
        keys = keys_of(key, len(self.shape))
        starts: list[Scalar] = []
        ends: list[Scalar] = []
        steps: list[int] = []
        for at, extent in zip(keys, self.shape, strict=True):
            part = span(at)
            starts.append(at if part is None else start_of(part))
            steps.append(1 if part is None or part.step is None else whole(part.step))
            ends.append(extent if part is None or part.stop is None else part.stop)
            if (end := number_of(ends[-1])) is not None and whole(end) < 0:
                hint = "ends are counted from the beginning: write x.shape[0] - 1 for -1"
                raise GeError(f"a box ends at {end}, before its tensor", hint=hint)
        spans = tuple(i for i, at in enumerate(keys) if isinstance(at, slice))
        limited = any((part := span(at)) is not None and part.stop is not None for at in keys)
        return Subview(self, tuple(starts), spans, tuple(steps), tuple(ends) if limited else ())


@dataclass(frozen=True, eq=False)
class OneNumber(Argument):
    """An argument that is one number, known while the kernel is traced, and not in memory."""

    number: float


def keys_of(key: Any, rank: int) -> tuple[Any, ...]:
    """An index or a range for each dimension; those that are left out are whole."""
    keys = cast_type("tuple[Any, ...]", key) if isinstance(key, tuple) else (key,)
    if len(keys) > rank:
        raise GeError(f"{len(keys)} indices for {rank} dimensions")
    return (*keys, *(slice(None),) * (rank - len(keys)))


def span(key: Any) -> "slice[Any, Any, Any] | None":
    return cast_type("slice[Any, Any, Any]", key) if isinstance(key, slice) else None


def start_of(at: "slice[Any, Any, Any]") -> Any:
    return 0 if at.start is None else at.start


@dataclass(frozen=True, eq=False)
class Subview:
    """A box of an argument; `spans` are the dimensions along which it has more than one element;
    `ends`, where it has some, are those of all dimensions."""

    argument: Argument
    starts: tuple[Scalar, ...]
    spans: tuple[int, ...]
    steps: tuple[int, ...]
    ends: tuple[Scalar, ...] = ()
    lengths: tuple[int, ...] = ()

    def sized(self, *lengths: int) -> "Subview":
        """The box with as many elements along its ranges: of more than two, the first ones together
        are the rows of its tile, and the others the columns."""
        if len(lengths) != len(self.spans):
            raise GeError(f"{len(lengths)} sizes for {len(self.spans)} ranges")
        return replace(self, lengths=lengths)

    def value(self, side: "Side", shape: Shape) -> SSAValue:
        """The box for a tile of this shape."""
        if self.lengths:
            return self.view(side, shape, self.lengths)
        rows, cols = shape
        lengths = (rows, cols) if len(self.spans) == 2 else (max(rows, cols),)
        if not 1 <= len(self.spans) <= 2 or (len(self.spans) == 1 and min(rows, cols) > 1):
            text = f"{len(self.spans)} ranges for a tile of {rows}x{cols}"
            raise GeError(text, hint="a[i:, j:] has rows and columns, a[i, j:] is one row")
        return self.view(side, shape, lengths)

    def view(self, side: "Side", shape: Shape, lengths: tuple[int, ...]) -> SSAValue:
        sizes = [1] * len(self.starts)
        for dim, length in zip(self.spans, lengths, strict=True):
            sizes[dim] = length
        kind = box_in(*shape, self.argument.element)
        offsets = [side.index(i) for i in self.starts]
        steps = self.steps if any(step > 1 for step in self.steps) else None
        memref, ends = self.argument.memref, [side.index(i) for i in self.ends]
        key = id(memref), *map(id, offsets), *map(id, ends), shape, *sizes, steps
        return side.value(key, ViewOp, memref, offsets, kind, sizes, steps, ends)
