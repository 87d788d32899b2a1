"""The stages of a pipeline: of one program for all devices one for those of each stage.

    %h = ...            stage 0: func.func @main(%x) -> (h), npu_task.send "h" to 1
    %y = ... %h         stage 1: npu_task.receive "h" from 0, func.func @main(%h) -> (y)

Stages follow from values with which they end (`graph.stage` behind them), or are found: parts of
the program in its order whose longest takes least, by the times that the library has for launches
of their ops (what a part sends is a time, too), and that have room for their weights. Of several
such ways the one that sends fewest bytes is taken.

A value goes from the stage that computes it to each stage that uses it, however far away. The
model's inputs are read by each stage that uses them, and constants, with what follows from them
alone, are where they are used: a weight that two stages use is on the devices of both. What follows
from inputs alone, and is not placed by a stated end, is computed in the first stage that uses
it."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from math import inf

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.creation import RandomOp
from ge.dialects.graph.sharding import (
    SHARDING,
    Pipeline,
    ShardingAttr,
    ShardOp,
    StageOp,
    mesh_op_of,
)
from ge.dialects.graph.stated import port
from ge.dialects.npu_task.pipeline import DEPTH, ReceiveOp, SendOp
from ge.dialects.support.boxes import Access
from ge.dialects.support.diagnostics import error_at, warning
from ge.dialects.support.editing import erase, names_in
from ge.dialects.support.functions import MAIN, functions
from ge.dialects.support.mesh import Axis, Sharding
from ge.dialects.support.tensor_op import TensorOp
from ge.runtime.library.asking import launch_us
from ge.transforms.graph.control_flow import is_pure
from ge.transforms.sharding.assignment import Assignment
from ge.transforms.sharding.local_ops import drop, is_concat, local
from ge.transforms.sharding.op_graph import OpNode, bytes_of, parameter_bytes
from ge.transforms.sharding.rates import is_epilogue

HALVINGS = 50  # of the time of the longest stage, to find the least


@dataclass
class Costs:
    """Of each op its seconds on a device, and the bytes of its weights there; of values between
    ops their bytes on a device."""

    assignment: Assignment
    pipeline: Pipeline

    def seconds(self, op: Operation, before: Operation | None) -> float:
        """The time of an op: of a launch of its own, unless it is likely to be a part of the one
        before it, and of what it sends."""
        node = self.assignment.by_op.get(op)
        if node is None:
            return 0.0
        sending = sum(self.assignment.group_cost(g) / g.count for g in node.outputs)
        start = self.assignment.rates.start_s(op, before)
        own = self.launch_s(op, node) if start and isinstance(op, TensorOp) else None
        return sending + (node.work[node.chosen] / node.count + start if own is None else own)

    def launch_s(self, op: TensorOp, node: OpNode) -> float | None:
        """The time of launches that compute a device's part of an op, as the library has it; None
        where that is no program of its own."""
        strategy, needs = node.strategies[node.chosen], node.needs[node.chosen]
        if op.regions or isinstance(op, ShardOp) or node.rules is None or not node.rules.is_static:
            return None
        if not strategy.axes:
            made = [op]
        elif (
            is_concat(op, strategy)
            or (made := local(op, strategy, [n for n in needs if n])) is None
        ):
            return None
        launched = [new for new in made if new.ACCESS is not Access.VIEW]
        times = [launch_us(new, self.assignment.rates.target) for new in launched]
        drop([new for new in made if new is not op])
        return None if None in times else sum(us for us in times if us is not None) / 1e6

    def parameters(self, op: Operation) -> float:
        node = self.assignment.by_op.get(op)
        return 0.0 if node is None else parameter_bytes(op, node.needs[node.chosen])

    def bytes(self, value: SSAValue) -> float:
        return bytes_of(value, self.sharding(value))

    def sharding(self, value: SSAValue) -> Sharding:
        """The way in which a value is cut where stages meet: complete, also where it is a sum of
        terms."""
        return Sharding(self.assignment.chosen(value).dims)

    def sending_s(self, size: float) -> float:
        axis = Axis(self.pipeline.axis, 1, self.pipeline.stages)
        return size / self.assignment.rates.link((axis,))


class Ops:
    """The ops of a function that stages consist of, in order, and those that are anywhere."""

    def __init__(self, main: FuncOp) -> None:
        self.main = main
        self.anywhere: set[Operation] = set()
        self.placed: list[Operation] = []
        constants = set[Operation]()

        def follows(op: Operation) -> bool:
            is_free = not isinstance(op, RandomOp) and not op.regions and is_pure(type(op))
            return is_free and all(v.owner in constants for v in op.operands)

        for op in main.body.block.ops:
            if isinstance(op, ReturnOp):
                continue
            if isinstance(op, ConstantOp) or follows(op):
                constants.add(op)
                self.anywhere.add(op)
            elif isinstance(op, ShardOp) and isinstance(op.input, BlockArgument):
                self.anywhere.add(op)  # each stage has its own inputs
            else:
                self.placed.append(op)

    def sources(self, op: Operation) -> Iterator[Operation]:
        """Yield the placed ops whose results an op, or one in its regions, uses."""
        for inner in op.walk() if op.regions else (op,):
            for value in inner.operands:
                owner = value.owner
                if isinstance(owner, Operation) and owner.parent is self.main.body.block:
                    if owner not in self.anywhere:
                        yield owner


# ---- which op is in which stage ------------------------------------------------------------------


@dataclass(frozen=True)
class Ends:
    """What is stated of stages: those from which ops may be computed, and the ops that give the
    values with which stages end."""

    least: Mapping[Operation, int]
    given: set[Operation]

    @classmethod
    def taken_from(cls, main: FuncOp) -> "Ends":
        """Read what ops state that stand behind values; these ops go."""
        least: dict[Operation, int] = {}
        marks = [op for op in main.body.block.ops if isinstance(op, StageOp)]
        for mark in marks:
            for user in outer_users(mark.result, main):
                least[user] = max(least.get(user, 0), mark.number.value.data)
        for mark in marks:  # the users of one that stands behind another one
            if mark in least and mark.number.value.data < least[mark]:
                for user in outer_users(mark.result, main):
                    least[user] = max(least[user], least[mark])
        given = set[Operation]()
        for mark in marks:
            if isinstance(mark.input.owner, Operation):
                given.add(mark.input.owner)
            mark.result.replace_all_uses_with(mark.input)
            erase(mark)
        given -= set(marks)
        return cls({op: n for op, n in least.items() if op not in marks}, given)


def stages_of_ops(
    ops: Ops, costs: Costs, ends: Ends, count: int, limit: float
) -> Mapping[Operation, int]:
    """The stage of each placed op. Raises GeError for more stages than ops."""
    if len(ops.placed) < count:
        what = f"{count} stages, and the program has {len(ops.placed)} ops to be placed"
        raise error_at(ops.main, what, "take fewer stages")
    if not ends.least:
        return balanced(ops, costs, count, limit)
    stages: dict[Operation, int] = {}
    for op in ops.placed:
        stages[op] = max([ends.least.get(op, 0), *(stages[s] for s in ops.sources(op))])
    sink(ops, ends, stages)
    empty = sorted(set(range(count)) - set(stages.values()))
    if empty or max(stages.values()) >= count:
        reached = f"has no op in stage {empty[0]}" if empty else f"has {max(stages.values()) + 1}"
        hint = "state an end for each stage but the last"
        raise error_at(ops.main, f"{count} stages, and the program {reached} by its ends", hint)
    return stages


def sink(ops: Ops, ends: Ends, stages: dict[Operation, int]) -> None:
    """Have what follows from inputs alone, and leads to no stated end, computed in the first stage
    that uses it."""
    users: dict[Operation, list[Operation]] = {}
    leads = set(ends.given)
    for op in reversed(ops.placed):
        for source in ops.sources(op):
            users.setdefault(source, []).append(op)
            if op in leads:
                leads.add(source)
    early = set[Operation]()
    for op in ops.placed:
        if op not in leads and op not in ends.least and early.issuperset(ops.sources(op)):
            early.add(op)
    for op in reversed(ops.placed):
        if op in early and (own := users.get(op)):
            stages[op] = min(stages[u] for u in own)


@dataclass
class Balance:
    """Ways to cut a list of ops into parts: by the time before each place, and what crosses it."""

    seconds: Sequence[float]  # of all ops before a place
    parameters: Sequence[float]
    crossing: Sequence[float]  # bytes
    sending: Sequence[float]  # seconds
    count: int
    limit: float
    inside: Sequence[bool]  # of a place whether it is within what is likely to be one launch
    slowest: float = inf  # of sends

    @property
    def places(self) -> int:
        return len(self.seconds) - 1

    def reach(self, start: int, most: float) -> int:
        """The last place at which a part from `start` may end."""
        slack = most * 1e-12
        end = bisect_right(self.seconds, self.seconds[start] + most + slack) - 1
        room = bisect_right(self.parameters, self.parameters[start] + self.limit) - 1
        return min(end, room)

    def is_cut(self, place: int) -> bool:
        return place == self.places or (
            self.sending[place] <= self.slowest and not self.inside[place]
        )

    def least(self) -> float:
        """The time of the longest part, as short as can be: first of parts and sends, whichever
        takes longest, then of parts alone."""
        longest = max(self.seconds[-1], *self.sending) or 1.0
        if self.cuts(longest) is None:
            self.inside = [False] * len(self.seconds)
        if self.cuts(longest) is None:
            return inf
        self.slowest = self.halved(longest, with_sends=True)
        return self.halved(self.slowest, with_sends=False)

    def halved(self, high: float, with_sends: bool) -> float:
        """The least time, below one that is enough, that is enough too."""
        low = 0.0
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            self.slowest = middle if with_sends else self.slowest
            low, high = (low, middle) if self.cuts(middle) is not None else (middle, high)
        return high

    def cuts(self, most: float) -> list[int] | None:
        """The ends of parts none of which takes longer, with fewest bytes across them; None where
        there are no such parts."""
        best: list[float] = [0.0] + [inf] * self.places
        ways: list[list[int]] = []
        for number in range(1, self.count + 1):
            new, came = [inf] * (self.places + 1), [0] * (self.places + 1)
            window: list[int] = []  # starts, by bytes: the first one is the best that reaches
            head, start = 0, number - 1
            for end in range(number, self.places + 1):
                while start < end:
                    if best[start] < inf:
                        while len(window) > head and best[window[-1]] >= best[start]:
                            window.pop()
                        window.append(start)
                    start += 1
                while head < len(window) and self.reach(window[head], most) < end:
                    head += 1
                if head < len(window) and self.is_cut(end):
                    came[end] = window[head]
                    new[end] = best[window[head]] + self.crossing[end]
            best, ways = new, [*ways, came]
        if best[self.places] == inf:
            return None
        ends = [self.places]
        for came in reversed(ways[1:]):
            ends.insert(0, came[ends[0]])
        return ends


def balanced(ops: Ops, costs: Costs, count: int, limit: float) -> Mapping[Operation, int]:
    """Parts of the program in its order, whose longest takes least."""
    at = {op: i for i, op in enumerate(ops.placed)}
    steps = [0.0] * (len(at) + 1)  # of the bytes that cross each place
    for op, i in at.items():
        for value in op.results:
            users = [at[u] for u in outer_users(value, ops.main) if u in at]
            if users and max(users) > i:
                size = costs.bytes(value)
                steps[i + 1] += size
                steps[max(users) + 1] -= size
    crossing = list(accumulate(steps))
    crossing[-1] = 0.0
    balance = Balance(
        list(accumulate(map(costs.seconds, ops.placed, (None, *ops.placed)), initial=0.0)),
        list(accumulate(map(costs.parameters, ops.placed), initial=0.0)),
        crossing,
        [costs.sending_s(size) for size in crossing],
        count,
        limit,
        [False, *(is_epilogue(op, before) for before, op in pairwise(ops.placed)), False],
    )
    most = balance.least()
    if most == inf:  # weights have no room: the check of capacity tells by how much
        balance.limit = inf
        most = balance.least()
    ends = balance.cuts(most)
    assert ends is not None
    return {op: bisect_right(ends, i) for op, i in at.items()}


def outer_users(value: SSAValue, main: FuncOp) -> Iterator[Operation]:
    """Yield the ops of a function's own block that use a value, in their regions too."""
    for use in value.uses:
        op: Operation | None = use.operation
        while op is not None and op.parent is not main.body.block:
            op = op.parent_op()
        if op is not None:
            yield op


# ---- the programs of the stages ------------------------------------------------------------------


@dataclass
class Stage:
    """A stage on its way: what it takes and gives, by value of the whole program."""

    number: int
    ops: list[Operation] = field(default_factory=list[Operation])
    inputs: dict[SSAValue, None] = field(default_factory=dict[SSAValue, None])
    received: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    outputs: dict[SSAValue, list[int]] = field(default_factory=dict[SSAValue, list[int]])
    results: dict[int, SSAValue] = field(default_factory=dict[int, SSAValue])  # of the model


class Cut:
    """A program that is cut into stages."""

    def __init__(self, module: ModuleOp, costs: Costs, limit: float) -> None:
        self.module, self.costs = module, costs
        self.main = functions(module)[MAIN]
        self.pipeline = costs.pipeline
        ends = Ends.taken_from(self.main)
        self.ops = Ops(self.main)
        count = self.pipeline.stages
        self.home = stages_of_ops(self.ops, costs, ends, count, limit)
        self.warn_of_room(limit)
        self.stages = [Stage(n) for n in range(count)]
        self.names: dict[SSAValue, str] = {}
        self.taken = {n for table in self._tables() for n in [table.get("graph.name")] if n}

    def _tables(self) -> Iterator[Mapping[str, Attribute]]:
        for table in (*(self.main.arg_attrs or ()), *(self.main.res_attrs or ())):
            yield table.data

    def warn_of_room(self, limit: float) -> None:
        """Warn where the weights of a stage have no room on a device."""
        sizes = [0.0] * self.pipeline.stages
        for op, number in self.home.items():
            sizes[number] += self.costs.parameters(op)
        most = max(sizes)
        if most > limit:
            what = f"the weights of stage {sizes.index(most)} take {most:.0f} bytes on a device"
            hint = "take more stages, or cut weights along another axis"
            warning(self.main, f"{what}, and there is room for {limit:.0f}; {hint}")

    def run(self) -> list[ModuleOp]:
        """The modules of the stages."""
        for op, number in self.home.items():
            self.stages[number].ops.append(op)
        last = self.main.body.block.last_op
        assert isinstance(last, ReturnOp)
        for index, value in enumerate(last.operands):
            self.stages[self.stage_of(value)].results[index] = value
        for stage in self.stages:
            needed = set(stage.results.values())
            for op in stage.ops:
                for inner in op.walk() if op.regions else (op,):
                    needed.update(inner.operands)
            self.take(stage, needed)
        return [self.built(stage) for stage in self.stages]

    def stage_of(self, value: SSAValue) -> int:
        """The stage that gives an output: one that is an input or a constant is of the first."""
        return self.home.get(value.owner, 0) if isinstance(value.owner, Operation) else 0

    def take(self, stage: Stage, needed: set[SSAValue]) -> None:
        """See where a stage has each value from that its ops use."""
        free = list[Operation]()
        todo, seen = list(needed), set[SSAValue]()
        while todo:
            value = todo.pop()
            owner = value.owner
            if value in seen:
                continue
            seen.add(value)
            if isinstance(owner, Block):
                if owner is self.main.body.block:
                    stage.inputs[value] = None
            elif owner in self.ops.anywhere:
                free.append(owner)
                todo += owner.operands
            elif (home := self.home.get(owner)) is not None and home != stage.number:
                stage.received[value] = home
                self.stages[home].outputs.setdefault(value, []).append(stage.number)
        order = {op: i for i, op in enumerate(self.main.body.block.ops)}
        stage.ops = sorted({*free, *stage.ops}, key=order.__getitem__)

    def name(self, value: SSAValue) -> str:
        """A name for what is sent: the model's, if no other value has it."""
        if (name := self.names.get(value)) is None:
            op = value.owner
            assert isinstance(op, Operation)
            base = value.name_hint or next(iter(names_in(op.location)), "value")
            name, number = base, 0
            while StringAttr(name) in self.taken:
                number += 1
                name = f"{base}.{number}"
            self.taken.add(StringAttr(name))
            self.names[value] = name
        return name

    def built(self, stage: Stage) -> ModuleOp:
        """The module of a stage."""
        given = sorted(stage.inputs, key=self.main.args.index)
        received = sorted(stage.received, key=lambda v: (stage.received[v], self.name(v)))
        block = Block(arg_types=[v.type for v in (*given, *received)])
        copies: dict[SSAValue, SSAValue] = {}
        for value, arg in zip((*given, *received), block.args, strict=True):
            copies[value] = arg
            arg.name_hint = value.name_hint
        for op in stage.ops:
            block.add_op(op.clone(copies))
        results = sorted(stage.results)
        sent = sorted(stage.outputs, key=self.name)
        returned = [*(stage.results[i] for i in results), *sent]
        block.add_op(ReturnOp(*[copies[v] for v in returned]))
        old = self.main
        tables = [old.arg_attrs.data[old.args.index(v)] if old.arg_attrs else DictionaryAttr({})
                  for v in given]  # fmt: skip
        ends = [old.res_attrs.data[i] if old.res_attrs else DictionaryAttr({}) for i in results]
        types = FunctionType.from_lists(list(block.arg_types), [v.type for v in returned])
        main = FuncOp(
            MAIN,
            types,
            Region(block),
            arg_attrs=ArrayAttr([*tables, *map(self.port, received)]),
            res_attrs=ArrayAttr([*ends, *map(self.port, sent)]),
        )
        main.attributes.update(old.attributes)
        main.location = old.location
        mesh = mesh_op_of(self.module)
        assert mesh is not None
        links = [
            ReceiveOp(self.name(v), stage.received[v], slots(stage.received[v], stage.number))
            for v in received
        ]
        sends = [(to, v) for v in sent for to in stage.outputs[v]]
        sends.sort(key=lambda end: (end[0], self.name(end[1])))
        outgoing = [SendOp(self.name(v), to, slots(stage.number, to)) for to, v in sends]
        new = ModuleOp([mesh.clone(), *links, *outgoing, main], dict(self.module.attributes))
        new.properties["sym_name"] = StringAttr(f"stage_{stage.number}")
        return new

    def port(self, value: SSAValue) -> DictionaryAttr:
        """State of a value that is sent its name, and how it is cut."""
        sharding = self.costs.sharding(value)
        return DictionaryAttr({**port(self.name(value)), SHARDING: ShardingAttr(sharding)})


def slots(sender: int, receiver: int) -> int:
    """As many microbatches as are between two stages, when all stages compute."""
    return max(DEPTH, receiver - sender + 1)
