"""A program of one device, run on all devices of its mesh in one process: each has memory, weights
and a thread of its own, and they meet at collectives.

A run ends on all devices when it fails on one. Devices that wait for each other in another order
are seen at once: when nobody runs, and somebody waits."""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from threading import Condition, Thread
from typing import Any, Protocol, TypeAlias

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from ge.dialects.graph.sharding import Pipeline, parts_of, sharding_of, whole_shape
from ge.dialects.npu_task.pipeline import is_pipeline
from ge.dialects.support.context import having
from ge.dialects.support.diagnostics import listing
from ge.dialects.support.errors import Ended, GeError
from ge.dialects.support.mesh import Mesh, Sharding
from ge.dialects.support.types import AnyTensor, Shape
from ge.runtime.data.arrays import Array, dtype_of, is_packed, unpacked
from ge.runtime.data.weights import Payload, part_of, weights_of
from ge.runtime.device.function import Driver, Function, Watch, put_into
from ge.runtime.device.spreads import Spread
from ge.runtime.device.stages import StageFunction, stage_spreads
from ge.runtime.device.state import DeviceState, StateValue
from ge.runtime.numbers.collectives import Member

# ---- values and their parts --------------------------------------------------------------------


def spreads(func: FuncOp, mesh: Mesh) -> tuple[list[Spread], list[Spread]]:
    """Return how the arguments and the results of a function are cut."""
    module = func.parent_op()
    pipeline = Pipeline.of(module) if isinstance(module, ModuleOp) else None
    if pipeline is not None and isinstance(module, ModuleOp) and is_pipeline(module):
        return stage_spreads(module, func, pipeline)
    found: list[list[Spread]] = []
    ends = func.function_type
    for types, attrs in ((ends.inputs.data, func.arg_attrs), (ends.outputs.data, func.res_attrs)):
        tables: list[Mapping[str, Attribute]] = [a.data for a in attrs or ()] or [{}] * len(types)
        found.append([Spread.of(t, table, mesh) for t, table in zip(types, tables, strict=True)])
    return found[0], found[1]


class WeightParts:
    """A payload in which a device has its parts of weights: of a file that is mapped the rest is
    not read."""

    def __init__(self, payload: Payload, module: ModuleOp, mesh: Mesh, device: int) -> None:
        self.payload, self.path = payload, getattr(payload, "path", None)
        self.parts = parts_of(module)
        self.module, self.mesh, self.device = module, mesh, device

    def get(self, key: str, /) -> Array | None:
        if key not in self.parts:
            return self.payload.get(key)
        of, stated, spans = self.parts[key]
        whole, sharding = part_of(self.payload, of), stated.resolved(self.mesh)
        if whole is None:
            return None
        if whole.dtype == np.uint8 and is_packed(dtype := dtype_of(self.types[key].element_type)):
            return self.unpacked(whole, dtype, self.types[key].get_shape(), sharding)
        if whole.ndim != len(sharding.dims):
            text = f"weight '{of}' has {whole.ndim} dimensions, and is cut along {sharding.dims}"
            raise GeError(text, hint="compile the program anew from the model")
        if spans:
            whole = whole[tuple(slice(first, first + size) for first, size in spans)]
        spread = Spread(whole.shape, sharding.local_shape(whole.shape), sharding)
        return spread.part(whole, self.mesh, self.device)

    @cached_property
    def types(self) -> Mapping[str, AnyTensor]:
        return weights_of(self.module)

    def unpacked(
        self, data: Array, dtype: np.dtype[Any], local: Shape, sharding: Sharding
    ) -> Array:
        """Return the part of a weight with several elements in a byte: where parts are of whole
        bytes no others are read."""
        shape = tuple(n * self.mesh.parts(a) for n, a in zip(local, sharding.dims, strict=True))
        many = prod(shape) // max(data.size, 1)
        if local[-1] % many == 0:
            rows = (*shape[:-1], shape[-1] // many)
            spread = Spread(rows, (*local[:-1], local[-1] // many), sharding)
            own = spread.part(data.reshape(rows), self.mesh, self.device)
            return unpacked(own, dtype, local[-1])
        whole = unpacked(data.reshape(-1), dtype, prod(shape)).reshape(shape)
        return Spread(shape, local, sharding).part(whole, self.mesh, self.device)


OnDevice: TypeAlias = Function | StageFunction


# ---- where devices meet ------------------------------------------------------------------------


@dataclass
class Meeting:
    """A group at a collective: what each device has come for and brings, and who has left."""

    group: tuple[int, ...]
    number: int
    brought: dict[int, tuple[str, Mapping[int, Array]]] = field(
        default_factory=dict[int, tuple[str, Mapping[int, Array]]]
    )
    left: set[int] = field(default_factory=set[int])

    @property
    def is_over(self) -> bool:
        return len(self.left) == len(self.group)

    def missing(self) -> list[int]:
        return [d for d in self.group if d not in self.brought]


class Hall:
    """The devices of a run, and their meetings. With an `order`, one device runs at a time, and at
    each meeting another one may be next; a device that has read what it gets goes on, and may be
    far ahead when others read what it has brought. It waits for them when it has to acknowledge."""

    def __init__(self, count: int, order: np.random.Generator | None = None) -> None:
        self.count = count
        self.order, self.turn = order, 0 if order is None else int(order.integers(count))
        self.running = set(range(count))
        self.waiting: dict[int, Meeting] = {}
        self.numbers: dict[tuple[int, tuple[int, ...]], int] = {}  # of meetings, device by device
        self.meetings: dict[tuple[tuple[int, ...], int], Meeting] = {}
        self.error: GeError | None = None
        self.changed = Condition()

    def fail(self, error: GeError) -> None:
        with self.changed:
            self.error = self.error or error
            self.changed.notify_all()

    def begin(self, device: int) -> None:
        """Wait for the first turn of a device."""
        with self.changed:
            self._take_turn(device)

    def end(self, device: int) -> None:
        """A device has run all of its program."""
        with self.changed:
            self.running.discard(device)
            self._look()
            self._give_turn()

    def _give_turn(self) -> None:
        """Let any device that runs be next."""
        if self.order is not None and self.running:
            self.turn = int(self.order.choice(sorted(self.running)))
            self.changed.notify_all()

    def _take_turn(self, device: int) -> None:
        """Wait until the others let a device run."""
        while self.error is None and (
            device in self.waiting or (self.order is not None and self.turn != device)
        ):
            self.changed.wait()

    def _look(self) -> None:
        """See to it that somebody runs, or nobody waits."""
        if not self.running and self.waiting and self.error is None:
            reasons = [self._why(device, m) for device, m in sorted(self.waiting.items())]
            self.error = GeError(
                f"devices wait for others that do not come: {listing(reasons, 4)}",
                hint="all devices of a group are to reach the same collectives in the same order",
            )
            self.changed.notify_all()

    def _why(self, device: int, meeting: Meeting) -> str:
        missing = meeting.missing() or [d for d in meeting.group if d not in meeting.left]
        who = ", ".join(
            f"device {d}"
            + (f" (in {self.waiting[d].brought[d][0]})" if d in self.waiting else " (has ended)")
            for d in missing[:4]
        )
        return f"device {device} in {meeting.brought[device][0]} for {who}"

    def _wait(self, device: int, meeting: Meeting, everybody: Callable[[], bool]) -> None:
        """Wait until everybody is there, or has left. The last one wakes the others."""
        if everybody():
            for other in [d for d, m in self.waiting.items() if m is meeting]:
                del self.waiting[other]
                self.running.add(other)
            self.changed.notify_all()
        else:
            self.waiting[device] = meeting
            self.running.discard(device)
            self._look()
        self._give_turn()
        self._take_turn(device)
        if self.error is not None:
            raise Ended(self.error.message)

    def meet(
        self, device: int, what: str, group: Sequence[int], sends: Mapping[int, Array]
    ) -> Meeting:
        with self.changed:
            if self.error is not None:
                raise Ended(self.error.message)
            key = tuple(group)
            number = self.numbers[device, key] = self.numbers.get((device, key), -1) + 1
            meeting = self.meetings.setdefault((key, number), Meeting(key, number))
            first = next(iter(meeting.brought), device)
            meeting.brought[device] = what, sends
            if (other := meeting.brought[first][0]) != what:
                text = f"device {first} has come to {other}, device {device} to {what}"
                self.error = GeError(f"devices do not agree: {text}")
                self.changed.notify_all()
                raise Ended(text)
            self._wait(device, meeting, lambda: len(meeting.brought) == len(key))
            return meeting

    def leave(self, device: int, meeting: Meeting) -> None:
        """Leave when nobody needs what the device has brought any more."""
        with self.changed:
            meeting.left.add(device)
            if self.order is None or meeting.is_over:
                self._wait(device, meeting, lambda: meeting.is_over)
                self.meetings.pop((meeting.group, meeting.number), None)

    def acknowledge(self, device: int) -> None:
        """Wait until others have read all that a device has brought."""
        with self.changed:
            for meeting in [m for m in self.meetings.values() if device in m.left]:
                self._wait(device, meeting, lambda m=meeting: m.is_over)


@dataclass(frozen=True)
class Neighbours:
    """The other devices of the process, for one of them."""

    hall: Hall
    device: int

    @contextmanager
    def swap(
        self,
        what: str,
        group: Sequence[int],
        sends: Mapping[int, Array],
        wants: Mapping[int, Shape],
        like: Array,
    ) -> Generator[Mapping[int, Array]]:
        meeting = self.hall.meet(self.device, what, group, sends)
        found = {d: meeting.brought[d][1].get(self.device) for d in wants}
        for d, shape in wants.items():
            if (array := found[d]) is None or array.shape != shape or array.dtype != like.dtype:
                sent = "nothing" if array is None else f"{array.dtype}{list(array.shape)}"
                raise GeError(f"device {d} sends {sent} where {like.dtype}{list(shape)} is needed")
        yield {d: array for d, array in found.items() if array is not None}
        self.hall.leave(self.device, meeting)

    def acknowledge(self) -> None:
        self.hall.acknowledge(self.device)


# ---- state ------------------------------------------------------------------------------------


@dataclass
class SpreadState(StateValue):
    """State of which each device keeps its part."""

    sharding: Sharding
    mesh: Mesh
    parts: Mapping[int, DeviceState]  # by device, those of this process

    @classmethod
    def all_of(cls, functions: Mapping[int, OnDevice], mesh: Mesh) -> "list[SpreadState]":
        """The states of the functions of some devices."""
        found: list[SpreadState] = []
        for op, first in next(iter(functions.values())).device.states.items():
            sharding = sharding_of(op.attributes) or Sharding.whole(len(first.becomes))
            whole = whole_shape(op.attributes, first.becomes)
            pairs = zip(first.reads, first.becomes, whole, strict=True)
            reads = tuple(w if read == most else read for read, most, w in pairs)
            parts = {d: function.device.states[op] for d, function in functions.items()}
            own = first.name, first.element, reads, whole, first.grows
            found.append(cls(*own, sharding.resolved(mesh), mesh, parts))
        return found

    def spread(self, shape: Shape) -> Spread:
        """Return how a value of some shape is cut."""
        return Spread(shape, self.sharding.local_shape(shape), self.sharding)

    def each(self) -> Iterator[tuple[int, DeviceState]]:
        for device, part in self.parts.items():
            part.blocks = self.blocks
            yield device, part

    def shape(self) -> Shape:
        first = next(iter(self.parts.values()))
        rows = first.shape() if self.axis is not None else self.becomes
        return tuple(rows[i] if i == self.axis else n for i, n in enumerate(self.becomes))

    def read(self) -> Array:
        parts = {device: part.read() for device, part in self.each()}
        if len(parts) < self.mesh.count and any(self.sharding.dims):
            text = f"state '{self.name}' is in the memory of other ranks, too"
            raise GeError(text, hint="run all devices in one process to save it")
        first = next(iter(parts.values()))
        arrays = [parts.get(device, first) for device in range(self.mesh.count)]
        return self.spread(self.shape()).joined(arrays, self.mesh)

    def fill(self, value: Array) -> None:
        spread = self.spread(value.shape)
        for device, part in self.each():
            part.fill(spread.part(value, self.mesh, device))

    def advance(self, step: int) -> None:
        for _, part in self.each():
            part.advance(step)

    def snapshot(self) -> list[Array]:
        return [part.snapshot() for _, part in self.each()]

    def restore(self, whole: Sequence[Array]) -> None:
        for (_, part), array in zip(self.each(), whole, strict=True):
            part.restore(array)


# ---- running -----------------------------------------------------------------------------------


class Runs(Protocol):
    """What a session runs: the function of one device, or of many."""

    @property
    def states(self) -> Sequence[DeviceState | SpreadState]: ...

    def run(
        self,
        arguments: Sequence[Array],
        outputs: Sequence[Array | None] | None = None,
        driver: Driver | None = None,
        watch: Watch | None = None,
    ) -> list[Array]: ...


Make = Callable[[int], OnDevice]  # the function of a device


def made_on(mesh: Mesh, device: int, make: Make) -> OnDevice:
    """The function of a device, with its own weights."""
    with having(Member(mesh, device)):
        return make(device)


class Devices:
    """The function of a program on all devices of its mesh, at the same time or, with a `timing`,
    in a random order. A driver and a watch see the first device."""

    def __init__(
        self, func: FuncOp, mesh: Mesh, make: Make, timing: np.random.Generator | None = None
    ) -> None:
        self.mesh, self.timing = mesh, timing
        self.arguments, self.results = spreads(func, mesh)
        self.functions = [made_on(mesh, device, make) for device in range(mesh.count)]
        self.states = SpreadState.all_of(dict(enumerate(self.functions)), mesh)
        self.here = range(mesh.count)  # the devices of this process

    def run(
        self,
        arguments: Sequence[Array],
        outputs: Sequence[Array | None] | None = None,
        driver: Driver | None = None,
        watch: Watch | None = None,
    ) -> list[Array]:
        """The whole results of whole arguments. Raises GeError that names the device for what
        fails on one."""
        hall, parts = Hall(self.mesh.count, self.timing), dict[int, list[Array]]()

        def work(device: int) -> None:
            try:
                others = Neighbours(hall, device)
                late = None if self.timing is None else others
                member = Member(self.mesh, device, others, late)
                hall.begin(device)
                function = self.functions[device]
                own = own_arguments(self.arguments, arguments, member, function)
                seen = (driver, watch) if device == 0 else (None, None)
                with having(member):
                    parts[device] = function.run(own, None, *seen)
            except Ended:
                pass
            except Exception as e:
                hall.fail(named(e, device, self.mesh.count))
            finally:
                hall.end(device)

        threads = [
            Thread(target=copy_context().run, args=(work, device), daemon=True)
            for device in range(self.mesh.count)
        ]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except BaseException:
            hall.fail(GeError("the run was given up"))
            raise
        if hall.error is not None:
            raise hall.error
        results = [
            spread.joined([parts[d][i] for d in range(self.mesh.count)], self.mesh)
            for i, spread in enumerate(self.results)
        ]
        return put_into(outputs, results)


def own_arguments(
    spreads: Sequence[Spread], arguments: Sequence[Array], member: Member, function: OnDevice
) -> list[Array]:
    pairs = zip(spreads, arguments, strict=True)
    poison = function.device.poison
    return [s.part(a, member.mesh, member.device, poison) for s, a in pairs]


def named(error: Exception, device: int, count: int, what: str = "device") -> GeError:
    """An error with the device that it is of."""
    place = f"{what} {device} of {count}"
    if isinstance(error, GeError):
        return GeError(f"{place}: {error.message}", error.where, error.hint, error.notes)
    return GeError(f"{place}: {type(error).__name__}: {error}")
