"""Arguments of a kernel in Python, tensors in device memory, and boxes of them."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias
from typing import cast as cast_type

from xdsl.ir import Attribute, SSAValue

from ge.dialects.support.errors import GeError
from ge.dialects.tile.buffers import ViewOp
from ge.dialects.tile.types import box_in
from ge.runtime.library.language.indices import Scalar, number_of, whole

if TYPE_CHECKING:
    from ge.runtime.library.language.sides import Side

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
        `a[i:end]`: what lies from `end` on is padded by loads, and left as it is by stores."""
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
