"""Device memory in the proof of a tile program: the accesses of cores to the elements of its
arguments.

Launches may write a result over an operand: then both arguments are the same elements, one by one,
in the shapes that the program gives them (`Sharing`). Their boxes are compared as those of one
memref, in a shape whose dimensions are parts of those of both.

Results hold nothing when a launch begins: the launches of a program say which arguments they are
(`Use`). Of a kernel alone they are those that it stores to, and those that it does
nothing with. An argument that is only added to holds
values then, which the summary says.

Nothing orders cores but barriers. Between two of them, in a phase, no core touches what another one
writes, but for sums that all of them add to. Data written in an earlier phase is there.

The elements of a workspace and of results are unwritten when a launch begins: elements that are
read, or added to, were stored before a barrier by any core, or by the same program before it reads
(that these two are in order is shown by the replay of the core). All elements of a result are
stored."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import groupby, pairwise, product
from math import prod
from operator import attrgetter
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import BlockArgument, SSAValue

from ge.dialects.support.types import Shape
from ge.dialects.tile.buffers import box_of, memref_shape, reads_of
from ge.dialects.tile.kernel import KernelOp, MemrefUses
from ge.dialects.tile.transfers import StoreOp
from ge.runtime.check.problems import Problems, name_of
from ge.runtime.check.tile_program import Region, TileStep

Sharing: TypeAlias = frozenset[tuple[int, int]]
"""Arguments of a kernel, by their numbers, that are the same elements of device memory: a result,
and the operand that it is written over."""

NOTHING: Sharing = frozenset()


@dataclass(frozen=True, slots=True)
class Use:
    """Facts that a program states about the arguments of a tile program, by their numbers.
    `sharings`: those of its launches; `results`: the arguments that are results, None for a kernel
    alone; `in_part`: results of which a launch stores only so many elements where they lie over an
    operand: others keep their values."""

    sharings: frozenset[Sharing] = frozenset((NOTHING,))
    results: frozenset[int] | None = None
    in_part: frozenset[tuple[int, int]] = frozenset()


ALONE = Use()

Bounds: TypeAlias = tuple[tuple[int, int], ...]

Span: TypeAlias = "slice[int, int, None]"

Grains: TypeAlias = "Span | NDArray[np.int64]"
"""Places in the history of a memory."""


class BoxAccess(NamedTuple):
    """An access of an instruction of a core to a box; `unit`: which of the core's programs has
    it."""

    core: int
    unit: int
    step: TileStep
    region: Region
    is_write: bool

    @property
    def adds(self) -> bool:
        return isinstance(self.step.op, StoreOp) and self.step.op.is_atomic


def accesses(core: int, unit: int, steps: Iterable[TileStep]) -> Iterator[BoxAccess]:
    """The reads and writes of device memory by the steps of a core."""
    for step in steps:
        for is_write, regions in ((False, step.read_boxes), (True, step.written_boxes)):
            for region in regions:
                if not region.is_empty or (is_write and region.bounds != region.endless):
                    yield BoxAccess(core, unit, step, region, is_write)


def name(value: SSAValue) -> str:
    if value.name_hint:
        return f"%{value.name_hint}"
    return f"argument {value.index}" if isinstance(value, BlockArgument) else "a buffer"


# ---- arguments that are the same elements ----


@dataclass
class Device:
    """The arguments of a kernel. `homes`: for each that shares its elements, one of those that
    do; `shapes`: in which they are compared."""

    kernel: KernelOp
    sharing: Sharing = NOTHING
    use: Use = ALONE
    results: tuple[BlockArgument, ...] = ()
    added: tuple[BlockArgument, ...] = ()  # what a kernel alone adds to, and does not store to
    idle: tuple[BlockArgument, ...] = ()  # what it does nothing with
    homes: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    shapes: dict[SSAValue, Shape] = field(default_factory=dict[SSAValue, Shape])
    # Those whose own shape is another one: that of their home, and theirs
    reshaped: dict[SSAValue, tuple[Shape, Shape]] = field(
        default_factory=dict[SSAValue, tuple[Shape, Shape]]
    )
    # Stores that may be elsewhere than a walk says: dimensions along which at any place
    anywhere: Mapping[StoreOp, Collection[int]] = field(
        default_factory=dict[StoreOp, Collection[int]]
    )

    def __post_init__(self) -> None:
        args = self.kernel.body.block.args
        groups = {a: {a} for a in args}
        for pair in self.sharing:
            whole = set[BlockArgument]().union(*(groups[args[i]] for i in pair))
            groups |= dict.fromkeys(whole, whole)
        for arg, group in groups.items():
            self.homes[arg] = home = min(group, key=lambda a: a.index)
            self.shapes[home] = common_shape([tuple(memref_shape(a)) for a in group])
        for arg in args:
            shape, own = self.shapes[self.homes[arg]], tuple(memref_shape(arg))
            if shape != own:
                self.reshaped[arg] = shape, own
        self.find_results()

    def find_results(self) -> None:
        args = self.kernel.arguments
        if self.use.results is not None:
            self.results = tuple(args[i] for i in self.use.results)
            return
        read, stored, added = MemrefUses.of(self.kernel)
        self.idle = tuple(a for a in args if a not in read | stored | added)
        self.results = *(a for a in args if a in stored), *self.idle
        self.added = tuple(a for a in args if a in added - stored)

    def is_fresh(self, memref: BlockArgument) -> bool:
        """True if a memref holds nothing when a launch begins."""
        return memref in self.results or memref in self.kernel.workspace

    def is_alone(self, memref: BlockArgument) -> bool:
        """True if a memref shares its elements with no other one."""
        return sum(home is self.homes[memref] for home in self.homes.values()) == 1

    def home(self, region: Region) -> SSAValue:
        return self.homes[region.memref]

    def boxes(self, region: Region) -> list[Bounds]:
        """A region in the shape of its home."""
        if (shapes := self.reshaped.get(region.memref)) is None:
            return [region.bounds]
        return boxes_in(shapes[0], region.bounds, shapes[1])

    def reach(self, access: "BoxAccess") -> list[Bounds]:
        """The places that an access may have, for other numbers than those of the walk."""
        region, op = access.region, access.step.op
        dims = self.anywhere.get(op) if isinstance(op, StoreOp) else None
        if dims is None:
            return self.boxes(region)
        whole = [(0, extent) for extent in memref_shape(region.memref)]
        own = enumerate(zip(region.endless, whole, strict=True))
        bounds = tuple(every if d in dims else bound for d, (bound, every) in own)
        return self.boxes(region._replace(bounds=bounds))

    def check(self, problems: Problems) -> None:
        """Report stores to memrefs that are read as numbers: nothing orders these."""
        stores = [op for op in self.kernel.walk() if isinstance(op, StoreOp)]
        results = {self.homes[r]: r for op in stores for r in [box_of(op.target).source]}
        for arg, home in self.homes.items():
            if (reads := reads_of(arg)) and home in results:
                text = (
                    f"numbers of {name(arg)} are read, over which {name(results[home])} is stored"
                )
                problems.add("race", text, reads[0])


def common_shape(shapes: Sequence[Shape]) -> Shape:
    """A shape of the same elements whose dimensions are parts of those of all the shapes; where
    there is none, all elements in a row."""
    if len(set(shapes)) == 1:
        return shapes[0]
    size = prod(shapes[0])
    strides = sorted({prod(s[i:]) for s in shapes for i in range(len(s) + 1)}, reverse=True)
    pairs = list(pairwise(strides))
    row = len(pairs) < 2 or any(a % b for a, b in pairs)
    return (size,) if row else tuple(a // b for a, b in pairs)


def boxes_in(shape: Shape, bounds: Bounds, own: Sequence[int]) -> list[Bounds]:
    """The boxes of `shape` that a box of the same elements in another shape is."""
    if len(shape) == 1:
        return runs_in(bounds, own)
    parts, left = list[list[Bounds]](), list(shape)
    for extent, (low, high) in zip(own, bounds, strict=True):
        dims = list[int]()
        while prod(dims) < extent:
            dims.append(left.pop(0))
        parts.append(cut(low, high, dims))
    return [sum(boxes, ()) for boxes in product(*parts)]


def runs_in(bounds: Bounds, own: Sequence[int]) -> list[Bounds]:
    """The stretches of a row that a box of the same elements in another shape is."""
    inner, size = len(own), 1  # dimensions of which a stretch has all, and their elements
    while inner and bounds[inner - 1] == (0, own[inner - 1]):
        inner -= 1
        size *= own[inner]
    if not inner:
        return [((0, size),)]
    *outer, (low, high) = bounds[:inner]
    found, stride = [0], size * own[inner - 1]
    for (a, b), extent in zip(reversed(outer), reversed(own[: inner - 1]), strict=True):
        found = [i * stride + at for i in range(a, b) for at in found]
        stride *= extent
    return [((at + low * size, at + high * size),) for at in found]


def cut(low: int, high: int, dims: Sequence[int]) -> list[Bounds]:
    """The boxes over `dims` that numbers from `low` to `high` are."""
    if len(dims) < 2:
        return [((low, high),) * len(dims)]
    inner = prod(dims[1:])
    (first, start), (last, end) = divmod(low, inner), divmod(high, inner)
    if first == last:
        return [((first, first + 1), *b) for b in cut(start, end, dims[1:])]
    found = list[Bounds]()
    if start:
        found += [((first, first + 1), *b) for b in cut(start, inner, dims[1:])]
        first += 1
    if first < last:
        found.append(((first, last), *((0, d) for d in dims[1:])))
    if end:
        found += [((last, last + 1), *b) for b in cut(0, end, dims[1:])]
    return found


# ---- what cores do to the same elements ----


@dataclass
class DeviceGrid:
    """The cells into which boxes cut a shape: each box is some of them, whole."""

    borders: list[list[int]]
    shape: Shape = field(init=False)
    index: list[dict[int, int]] = field(init=False)
    known: dict[Bounds, Grains] = field(default_factory=dict[Bounds, Grains])

    def __post_init__(self) -> None:
        self.shape = tuple(len(b) - 1 for b in self.borders)
        self.index = [{edge: i for i, edge in enumerate(b)} for b in self.borders]

    @classmethod
    def of(cls, boxes: Sequence[Bounds], shape: Shape) -> "DeviceGrid":
        """Borders are where one of the boxes begins or ends."""
        borders = [{0, d} for d in shape]
        for box in boxes:
            for edges, ends in zip(borders, box, strict=True):
                edges.update(ends)
        return cls([sorted(edges) for edges in borders])

    def ends(self, box: Bounds) -> Bounds:
        """A box in cells."""
        return tuple([(at[a], at[b]) for at, (a, b) in zip(self.index, box, strict=True)])

    def spans(self, box: Bounds) -> tuple[Span, ...]:
        return tuple([slice(at[a], at[b]) for at, (a, b) in zip(self.index, box, strict=True)])

    def grains(self, box: Bounds) -> Grains:
        if (at := self.known.get(box)) is None:
            rows = [range(a, b) for a, b in self.ends(box)]
            at = np.ravel_multi_index(np.ix_(*rows), self.shape).ravel().astype(np.int64)
            self.known[box] = at
        return at

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def elements(self) -> NDArray[np.int64]:
        """Number of elements of each cell."""
        sizes = np.ones((), np.int64)
        for edges in self.borders:
            sizes = np.multiply.outer(sizes, np.diff(edges))
        return sizes


NONE = -1

Touched = tuple[BoxAccess, tuple[Span, ...]]
"""An access, and cells that it touches, or that it may touch."""


def ordered_memory(
    device: Device, cores: Iterable[Iterable[BoxAccess]], problems: Problems
) -> set[SSAValue]:
    """Compare the accesses of cores to device memory; return the homes of memrefs whose accesses by
    one core have to be ordered too."""
    touched: dict[SSAValue, list[BoxAccess]] = {}
    for core in cores:
        for access in core:
            touched.setdefault(device.home(access.region), []).append(access)
    for result in device.results:
        if prod(memref_shape(result)):
            touched.setdefault(device.homes[result], [])
    return {home for home, rows in touched.items() if compare_cores(device, home, rows, problems)}


def compare_cores(
    device: Device, home: SSAValue, rows: Sequence[BoxAccess], problems: Problems
) -> bool:
    """Report errors between cores, and elements of a result that nothing stores. Returns true if a
    core touches cells twice, one time writing."""
    args = device.kernel.body.block.args
    fresh = {a for a in args if device.homes[a] is home and device.is_fresh(a)}
    if not fresh and not any(a.is_write for a in rows):
        return False
    boxes = [device.boxes(a.region) for a in rows]
    reached = {id(a): device.reach(a) for a in rows if a.is_write}
    every = [box for found in (*boxes, *reached.values()) for box in found]
    grid = DeviceGrid.of(every, device.shapes[home])
    places = [(a, grid.spans(box)) for a, found in zip(rows, boxes, strict=True) for box in found]
    places.sort(key=lambda place: place[0].step.phase)
    reach = {number: [*map(grid.spans, found)] for number, found in reached.items()}
    read = {a.region.memref for a in rows if a.adds or not a.is_write} & fresh
    all_phases = Phases(grid.shape, read, problems)
    for _, phase in groupby(places, key=lambda place: place[0].step.phase):
        all_phases.add([*phase], reach)
    stored = {a.region.memref: a.step.op for a in rows if a.is_write}
    for result in fresh & {*device.results}:
        there = all_phases.owner == result.index
        if text := what_is_missing(device, grid, there, result):
            problems.add("T7", text, stored.get(result, device.kernel))
    return all_phases.twice


def what_is_missing(
    device: Device, grid: DeviceGrid, stored: NDArray[np.bool_], result: BlockArgument
) -> str:
    """The error in the cells that cores store of a result; "" if there is none."""
    wanted = None if device.is_alone(result) else dict(device.use.in_part).get(result.index)
    if wanted is not None:
        count = int((stored * grid.elements).sum())
        text = f"{count} elements of {name(result)} are stored over an operand, not {wanted}"
        return "" if count == wanted else text
    if stored.all():
        return ""
    if result in device.idle:
        text = f"nothing reads {name(result)} or stores to it"
        return f"{text}: store to it if it is a result, drop it if it is an operand"
    where = np.argwhere(~stored)[0]
    first = [edges[int(i)] for edges, i in zip(grid.borders, where, strict=True)]
    return f"elements of {name(result)}, from {first} on, are stored by no core"


@dataclass
class Phases:
    """Findings about one memref, or about those that are the same elements, in the phases so far.
    `fresh`: those that are read or added to and hold nothing at first; `owner`: the number of the
    argument that each cell was written as last."""

    shape: Shape
    fresh: Set[BlockArgument]
    problems: Problems
    owner: NDArray[np.int64] = field(init=False)
    twice: bool = False  # whether a core touches a cell twice, one time writing

    def __post_init__(self) -> None:
        self.owner = np.full(self.shape, NONE, np.int64)

    def add(
        self, places: Sequence[Touched], reach: Mapping[int, Sequence[tuple[Span, ...]]]
    ) -> None:
        """Another phase, in which nothing orders the cores. `reach`: where each write may be."""
        self.twice |= bool((self.owner != NONE).any())
        writer = np.full(self.shape, NONE, np.int64)  # the core that wrote each cell last
        several = np.zeros(self.shape, bool)  # whether more than one core wrote a cell
        summed = np.zeros(self.shape, bool)  # whether all writes of a cell so far add to it
        for access in {id(access): access for access, _ in places if access.is_write}.values():
            for at in reach[id(access)]:
                self._write(access, writer[at], several[at], summed[at])
        for access, at in places:
            if not access.is_write:
                self._read(access, writer[at], several[at], self.owner[at])
        if self.fresh:
            self._find_unwritten(places)
        for access, at in places:
            if access.is_write:
                self.owner[at] = access.region.memref.index

    def _write(
        self,
        access: BoxAccess,
        writer: NDArray[np.int64],
        several: NDArray[np.bool_],
        summed: NDArray[np.bool_],
    ) -> None:
        if (writer == NONE).all():  # mostly: nobody wrote here before
            summed[...] = access.adds
            writer[...] = access.core
            return
        others = (writer != NONE) & (writer != access.core)
        if (others & ~(summed & access.adds)).any():
            result = name(access.region.memref)
            text = f"two cores store to the same elements of {result}, in no order: give each its"
            text = f"{text} own (c.share, tile.core), or add to them"
            self.problems.add("T2", text, access.step.op)
        self.twice |= bool((writer == access.core).any())
        several |= others
        summed[...] = access.adds & (summed | (writer == NONE))
        writer[...] = access.core

    def _read(
        self,
        access: BoxAccess,
        writer: NDArray[np.int64],
        several: NDArray[np.bool_],
        owner: NDArray[np.int64],
    ) -> None:
        if access.adds:
            return
        operand = access.region.memref
        if (((writer != NONE) & (writer != access.core)) | several).any():
            text = f"one core reads elements of {name(operand)} that another one stores"
            self.problems.add("T3", f"{text}: no barrier is between", access.step.op)
        self.twice |= bool((writer == access.core).any())
        if ((owner != NONE) & (owner != operand.index)).any():
            text = f"elements of {name(operand)} are read after a result was written over them"
            self.problems.add("T10", text, access.step.op)

    def _find_unwritten(self, places: Sequence[Touched]) -> None:
        """Cells that are read, or added to, before anything is stored there."""
        for _, own in groupby(sorted(places, key=_program), key=_program):
            here = self.owner.copy()
            for access, at in sorted(own, key=lambda place: place[0].step.number):
                memref, op = access.region.memref, access.step.op
                if access.is_write and not access.adds:
                    here[at] = memref.index
                elif memref in self.fresh and (here[at] != memref.index).any():
                    does = "adds to" if access.adds else "reads"
                    text = f"{name_of(op)} {does} elements of {name(memref)} that nothing stored"
                    text = f"{text} before a barrier, or before in the same program"
                    self.problems.add("T6", text, op)


def _program(place: Touched) -> tuple[int, int]:
    return attrgetter("core", "unit")(place[0])
