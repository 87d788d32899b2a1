"""What several cores do to the same elements of device memory, in the proof of a tile program.

Nothing orders cores but barriers. Between two of them, in a phase, no core touches what another one
writes, but for sums that all of them add to. What was written in a phase before is there.

The elements of a workspace and of results are unwritten when a launch begins: what is read of them,
or added to, was stored before a barrier by any core, or by the same program before it reads (that
these two are in order is for the replay of the core to find). All elements of a result are stored.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import groupby
from math import prod
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import BlockArgument, SSAValue

from ge.dialects.support.types import Shape
from ge.dialects.tile.buffers import memref_shape
from ge.runtime.check.problems import Problems, name_of
from ge.runtime.check.tile_device import BoxAccess, Device, DeviceGrid, Span, name

NONE = -1

Touched = tuple[BoxAccess, tuple[Span, ...]]
"""An access, and cells that it touches, or that it may touch."""


def ordered_memory(
    device: Device, cores: Iterable[Iterable[BoxAccess]], problems: Problems
) -> set[SSAValue]:
    """Compare what cores do to device memory; the homes of memrefs whose accesses by one core have
    to be ordered too."""
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
    """Find what is wrong between cores, and elements of a result that nothing stores; whether a
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
    """What is wrong with the cells that cores store of a result; empty: nothing."""
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
    """What was found of one memref, or of those that are the same elements, in the phases so far.
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
