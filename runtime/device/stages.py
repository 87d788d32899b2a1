"""A stage of a pipeline on one device: its program, for one microbatch after the other.

Of each microbatch a device receives what other stages give, takes its parts of inputs, runs,
and sends. All devices do so in one order, by microbatch, sender and receiver, so that none waits
for another one in a circle. To its program each microbatch is another place along an axis of the
mesh."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from ge.dialects.graph.sharding import Pipeline
from ge.dialects.graph.stated import input_name, name_of
from ge.dialects.npu_task.attributes import data_type
from ge.dialects.npu_task.pipeline import (
    ReceiveOp,
    SendOp,
    main_of_stage,
    receives_of,
    sends_of,
    stages_of,
)
from ge.dialects.support.context import having
from ge.dialects.support.mesh import Mesh, Sharding, is_in_time
from ge.dialects.support.types import Shape
from ge.runtime.data.arrays import Array, dtype_of
from ge.runtime.device.function import Driver, Function, Watch
from ge.runtime.device.memory import Device
from ge.runtime.device.spreads import Spread
from ge.runtime.numbers.collectives import Member, Peers


def names_of(main: FuncOp) -> tuple[list[str], list[str]]:
    """The names of the arguments and of the results of a function."""
    results = (name_of(t.data) or f"result{i}" for i, t in enumerate(main.res_attrs or ()))
    return [input_name(main, i) for i in range(len(main.args))], list(results)


@dataclass(frozen=True)
class Collected(Spread):
    """An output of a pipeline: devices of one stage have their parts of all microbatches, one
    behind the other in an array."""

    pipeline: Pipeline
    stage: int

    def owners(self, mesh: Mesh) -> list[int]:
        """The devices whose parts make up the whole."""
        first = dict[tuple[tuple[int, int], ...], int]()
        for device in range(mesh.count):
            if self.pipeline.stage(device) == self.stage:
                box = tuple(self.sharding.box(self.whole, self.pipeline.mesh, device))
                first.setdefault(box, device)
        return list(first.values())

    def own(self, whole: Array, mesh: Mesh, device: int) -> Array | None:
        """Return the parts of all microbatches, in their order; None on devices of other stages."""
        if self.pipeline.stage(device) != self.stage:
            return None
        numbers = range(device, self.pipeline.mesh.count, mesh.count)
        parts = [super(Collected, self).own(whole, self.pipeline.mesh, n) for n in numbers]
        cut = (d for d, axes in enumerate(self.sharding.dims) if is_in_time(axes))
        return np.concatenate([p for p in parts if p is not None], axis=next(cut))

    @property
    def is_everywhere(self) -> bool:
        return False

    def joined(self, parts: Sequence[Array], mesh: Mesh) -> Array:
        own = [self.pipeline.at_stage(d, self.stage) for d in range(mesh.count)]
        places = [parts[d][m] for m in range(self.pipeline.microbatches) for d in own]
        return super().joined(places, self.pipeline.mesh)


def stage_spreads(
    module: ModuleOp, main: FuncOp, pipeline: Pipeline
) -> tuple[list[Spread], list[Spread]]:
    """Return how arguments and results of a pipeline are cut: arguments are whole, since each
    stage takes its own parts."""
    inputs: list[Spread] = []
    for t in main.function_type.inputs:
        shape = data_type(t)[1]
        inputs.append(Spread(shape, shape, Sharding.whole(len(shape))))
    made: dict[str, Spread] = {}
    for number, stage in enumerate(stages_of(module)):
        own, sent = main_of_stage(stage), {op.value.data for op in sends_of(stage)}
        pairs = zip(names_of(own)[1], own.function_type.outputs, own.res_attrs or (), strict=True)
        for name, t, table in pairs:
            if name not in sent:
                one = Spread.of(t, table.data, pipeline.mesh)
                made[name] = Collected(one.whole, one.local, one.sharding, pipeline, number)
    return inputs, [made[name] for name in names_of(main)[1]]


@dataclass(frozen=True)
class InTime:
    """The other devices, by their numbers at one microbatch."""

    peers: Peers
    count: int  # of devices
    first: int  # the number of the first device at this microbatch

    @contextmanager
    def swap(
        self,
        what: str,
        group: Sequence[int],
        sends: Mapping[int, Array],
        wants: Mapping[int, Shape],
        like: Array,
    ) -> Generator[Mapping[int, Array]]:
        n = self.count
        there = {d % n: a for d, a in sends.items()}
        here = {d % n: shape for d, shape in wants.items()}
        with self.peers.swap(what, [d % n for d in group], there, here, like) as found:
            yield {self.first + d: array for d, array in found.items()}


class StageFunction:
    """The function of a stage on one device, which takes and gives what the pipeline does."""

    def __init__(
        self, module: ModuleOp, main: FuncOp, device: int, make: Callable[[ModuleOp], Function]
    ) -> None:
        pipeline = Pipeline.of(module)
        assert pipeline is not None
        self.pipeline, self.number = pipeline, device
        self.stage = stages_of(module)[pipeline.stage(device)]
        self.function = make(self.stage)
        self.main = main_of_stage(self.stage)
        inputs, outputs = names_of(main)
        self.places = {name: i for i, name in enumerate(inputs)}
        self.outputs = outputs
        _, self.results = stage_spreads(module, main, pipeline)
        self.dtypes = [dtype_of(data_type(t)[0]) for t in main.function_type.outputs]

    @property
    def device(self) -> Device:
        return self.function.device

    @cached_property
    def takes(self) -> list[tuple[str, Spread, np.dtype[Any]]]:
        """The arguments of the stage's function."""
        own, mesh = self.main, self.pipeline.mesh
        tables = own.arg_attrs or ()
        return [
            (name, Spread.of(t, table.data, mesh), dtype_of(data_type(t)[0]))
            for name, t, table in zip(
                names_of(own)[0], own.function_type.inputs, tables, strict=True
            )
        ]

    def run(
        self,
        arguments: Sequence[Array],
        outputs: Sequence[Array | None] | None = None,
        driver: Driver | None = None,
        watch: Watch | None = None,
    ) -> list[Array]:
        """The parts of outputs that a device has, for all microbatches; those of other stages are
        any numbers. A driver and a watch see the first microbatch."""
        del outputs
        names = names_of(self.main)[1]
        found: dict[str, list[Array]] = {name: [] for name in names}
        for number in range(self.pipeline.microbatches):
            own = self.taken(arguments, number)
            with having(self.member(number)):
                seen = (driver, watch) if number == 0 else (None, None)
                results = dict(zip(names, self.function.run(own, None, *seen), strict=True))
            for op in sends_of(self.stage):
                self.send(op, results[op.value.data], number)
            for name in self.outputs:
                if name in results:
                    found[name].append(results[name])
        shapes = [(self.pipeline.microbatches, *spread.local) for spread in self.results]
        return [
            np.stack(found[name]) if name in found else np.zeros(shape, dtype)
            for name, shape, dtype in zip(self.outputs, shapes, self.dtypes, strict=True)
        ]

    def member(self, number: int) -> Member:
        """This device at a microbatch."""
        here, count = Member.here("a stage"), self.pipeline.devices.count
        first = number * count
        peers = None if here.peers is None else InTime(here.peers, count, first)
        return Member(self.pipeline.mesh, first + self.number, peers, here.late)

    def taken(self, arguments: Sequence[Array], number: int) -> list[Array]:
        """The arguments of the stage's function for a microbatch."""
        forms = {name: (spread.local, dtype) for name, spread, dtype in self.takes}
        there = {
            op.value.data: self.receive(op, *forms[op.value.data], number)
            for op in receives_of(self.stage)
        }
        place = number * self.pipeline.devices.count + self.number
        return [
            there[name]
            if name in there
            else spread.part(
                arguments[self.places[name]], self.pipeline.mesh, place, self.device.poison
            )
            for name, spread, _ in self.takes
        ]

    def receive(self, op: ReceiveOp, shape: Shape, dtype: np.dtype[Any], number: int) -> Array:
        sender = self.pipeline.at_stage(self.number, op.stage.value.data)
        what = (
            f"'{op.value.data}' of microbatch {number} for stage {self.pipeline.stage(self.number)}"
        )
        member, group = Member.here("a stage"), (sender, self.number)
        like = np.empty(0, dtype)
        with member.swap(what, group, {}, {sender: shape}, like) as found:
            return found[sender].copy()

    def send(self, op: SendOp, array: Array, number: int) -> None:
        receiver = self.pipeline.at_stage(self.number, op.stage.value.data)
        what = f"'{op.value.data}' of microbatch {number} for stage {op.stage.value.data}"
        member, group = Member.here("a stage"), (self.number, receiver)
        with member.swap(what, group, {receiver: array}, {}, array):
            pass
