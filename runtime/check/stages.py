"""Proof of a pipeline: rule D16 (docs/proofs.md). Each stage's program is proved by itself; here,
that they fit together, whatever the time that each takes.

    @stage_0  npu_task.send "h" to 1 slots 2        paired by the value's name: of one type, cut in
    @stage_1  npu_task.receive "h" from 0 slots 2   one way, with as many slots, and one way onwards

All devices go by microbatch, then receive by sender, run, and send by receiver. So they do not
wait for each other in a circle where stages send to later ones, in this order, what those receive
in the same order. A sender may be some microbatches ahead of a receiver: there are slots for as
many as lie between two stages, so that no stage waits for a slot when all compute."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute

from ge.dialects.graph.sharding import SHARDING, WHOLE, Pipeline, sharding_of, whole_shape
from ge.dialects.graph.stated import input_name, name_of
from ge.dialects.npu_task.attributes import HBM, data_type, space_of
from ge.dialects.npu_task.pipeline import (
    DEPTH,
    Link,
    ReceiveOp,
    SendOp,
    link_bytes,
    links_of,
    main_of_stage,
    receives_of,
    sends_of,
    stages_of,
    type_of_link,
)
from ge.dialects.support.functions import main_function
from ge.dialects.targets.target import Target
from ge.runtime.check.certificate import taken_bytes
from ge.runtime.check.problems import Problem

Port = tuple[Attribute, Mapping[str, Attribute]]  # its type, and what is stated of it


def ports(module: ModuleOp) -> tuple[dict[str, Port], dict[str, Port]]:
    """The arguments and the results of the main function by name."""
    main = main_of_stage(module)
    ends = main.function_type
    inputs: dict[str, Port] = {
        input_name(main, i): (t, table.data)
        for i, (t, table) in enumerate(zip(ends.inputs, main.arg_attrs or (), strict=False))
    }
    outputs: dict[str, Port] = {
        name_of(table.data) or f"result{i}": (t, table.data)
        for i, (t, table) in enumerate(zip(ends.outputs, main.res_attrs or (), strict=False))
    }
    return inputs, outputs


@dataclass
class StageChecker:
    module: ModuleOp
    pipeline: Pipeline
    target: Target
    problems: list[Problem] = field(default_factory=list[Problem])

    def report(self, text: str, op: ModuleOp | Link) -> None:
        self.problems.append(Problem("D16", text, op))

    def check(self) -> None:
        self.stages = stages_of(self.module)
        if len(self.stages) != self.pipeline.stages:
            text = f"{len(self.stages)} programs for {self.pipeline.stages} stages along "
            self.report(f"{text}'{self.pipeline.axis}'", self.module)
            return
        for number, stage in enumerate(self.stages):
            if main_function(stage) is None:
                self.report(f"stage {number} has no function @main", stage)
                return
            if Pipeline.of(stage) != self.pipeline:
                self.report(f"stage {number} is of another mesh", stage)
        if self.problems:
            return
        for number, stage in enumerate(self.stages):
            seen = set[tuple[type[Link], str, int]]()
            for op in links_of(stage):
                key = type(op), op.value.data, op.stage.value.data
                if key in seen:
                    self.report(f"'{op.value.data}' is {verb(op)} twice", op)
                seen.add(key)
                self.check_link(op, number, stage)
            self.check_order(number)
            self.check_room(number, stage)
        if not self.problems:
            self.check_ports()

    # ---- what is sent

    def check_link(self, op: Link, number: int, stage: ModuleOp) -> None:
        name, other = op.value.data, op.stage.value.data
        is_onward = other > number if isinstance(op, SendOp) else other < number
        if not is_onward or other >= len(self.stages):
            text = f"stage {number} {'sends' if isinstance(op, SendOp) else 'receives'} '{name}' "
            way = "to" if isinstance(op, SendOp) else "from"
            self.report(f"{text}{way} stage {other}: stages send to later ones", op)
            return
        found = [o for o in links_of(self.stages[other]) if is_pair(op, o, number)]
        if not found:
            text = f"stage {number} waits for '{name}', which stage {other} does not send"
            if isinstance(op, SendOp):
                text = f"stage {number} sends '{name}', which stage {other} does not receive"
            self.report(text, op)
            return
        own, distance = op.slots.value.data, abs(other - number)
        if own < (depth := max(DEPTH, distance + 1)):
            text = f"'{name}' has {own} slots, and {depth} microbatches are between stages "
            self.report(f"{text}{number} and {other}", op)
        if own != (theirs := found[0].slots.value.data):
            self.report(f"'{name}' has {own} slots here, and {theirs} in stage {other}", op)
        t = type_of_link(op, stage)
        if t is None:
            what = "result" if isinstance(op, SendOp) else "argument"
            self.report(f"the function of stage {number} has no {what} '{name}'", op)
        elif space_of(t) != HBM:
            self.report(f"'{name}' is not in the memory of the device: {t}", op)
        elif isinstance(op, ReceiveOp):
            self.check_same(op, t, number, other)

    def check_same(self, op: ReceiveOp, t: Attribute, number: int, other: int) -> None:
        """Check that what is received is what is sent, cut in the same way."""
        name = op.value.data
        inputs, _ = ports(self.stages[number])
        _, outputs = ports(self.stages[other])
        if name not in outputs:
            return  # told of the send
        (sent, theirs), (_, ours) = outputs[name], inputs[name]
        if data_type(sent) != data_type(t):
            self.report(f"'{name}' is sent as {sent}, and received as {t}", op)
        elif any(ours.get(key) != theirs.get(key) for key in (SHARDING, WHOLE)):
            self.report(f"'{name}' is cut in another way where it is sent", op)

    def check_order(self, number: int) -> None:
        """Check that a stage receives by sender and sends by receiver, and that both sides have
        several values between two stages in one order."""
        stage = self.stages[number]
        for ops in (receives_of(stage), sends_of(stage)):
            numbers = [op.stage.value.data for op in ops]
            for op, one, next_one in zip(ops[1:], numbers, numbers[1:], strict=False):
                if next_one < one:
                    text = f"'{op.value.data}' is {verb(op)} after what is of stage {one}: devices "
                    self.report(f"{text}wait for each other in a circle", op)
        for other in range(number + 1, len(self.stages)):
            sent = [o for o in sends_of(stage) if o.stage.value.data == other]
            got = [o for o in receives_of(self.stages[other]) if o.stage.value.data == number]
            names, theirs = [o.value.data for o in sent], [o.value.data for o in got]
            if names != theirs and sorted(names) == sorted(theirs):
                text = f"stage {number} sends {listed(names)}, and stage {other} receives "
                self.report(f"{text}{listed(theirs)}: in another order", sent[0])

    def check_room(self, number: int, stage: ModuleOp) -> None:
        """Check that slots have room beside the program."""
        main = main_of_stage(stage)
        size, own = sum(link_bytes(stage).values()), sum(taken_bytes(stage, main).values())
        if size and own + size > self.target.hbm_bytes:
            text = f"stage {number} takes {own} bytes, and {size} for what it sends and receives: "
            self.report(f"{text}{self.target.name} has {self.target.hbm_bytes}", stage)

    # ---- inputs and outputs

    def check_ports(self) -> None:
        inputs, outputs = ports(self.module)
        made: dict[str, int] = {}
        for number, stage in enumerate(self.stages):
            own, results = ports(stage)
            received = {op.value.data for op in receives_of(stage)}
            sent = {op.value.data for op in sends_of(stage)}
            for name in own.keys() - received:
                self.check_whole(name, own[name], inputs.get(name), stage, number)
            for name in results.keys() - sent:
                self.check_whole(name, results[name], outputs.get(name), stage, number)
                if name in made:
                    text = f"output '{name}' comes from stages {made[name]} and {number}"
                    self.report(text, stage)
                made[name] = number
        for name in outputs.keys() - made.keys():
            self.report(f"no stage makes output '{name}'", self.module)

    def check_whole(
        self, name: str, own: Port, whole: Port | None, stage: ModuleOp, number: int
    ) -> None:
        if whole is None:
            text = f"nobody gives '{name}' to stage {number}, or takes it from there"
            self.report(text, stage)
            return
        (t, table), (of, _) = own, whole
        element, local = data_type(t)
        if (element, whole_shape(table, local)) != data_type(of):
            self.report(f"'{name}' is {of}, and of stage {number} parts of another value", stage)
        elif sharding_of(table) is None:
            self.report(f"how '{name}' is cut is not stated in stage {number}", stage)


def is_pair(op: Link, other: Link, number: int) -> bool:
    """Return whether two ops are the ends of one way, the first one in a stage of this number."""
    is_other = isinstance(op, SendOp) != isinstance(other, SendOp)
    return is_other and other.value == op.value and other.stage.value.data == number


def verb(op: Link) -> str:
    return "sent" if isinstance(op, SendOp) else "received"


def listed(names: list[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def check_stages(module: ModuleOp, target: Target) -> list[Problem]:
    """Errors of how the stages of a pipeline fit together."""
    pipeline = Pipeline.of(module)
    if pipeline is None:
        return [Problem("D16", "the mesh states no axis of stages", module)]
    checker = StageChecker(module, pipeline, target)
    checker.check()
    return checker.problems


def stage_clauses(module: ModuleOp) -> Iterator[str]:
    """Clauses on a pipeline that is proved."""
    stages, pipeline = stages_of(module), Pipeline.of(module)
    assert pipeline is not None
    count = sum(len(sends_of(stage)) for stage in stages)
    times = pipeline.microbatches
    yield f"{len(stages)} stages and {count} sends between them, of {times} microbatches"
