"""The ops of a function as a search sees them: equal ones once, each with the ways to compute it
(strategies) and what these need, and what each way and each value that is sent cost.

From arguments, constants and stated shardings to their users, and back from stated results, each op
collects strategies (`strategies.py`). Ops of layers that repeat are equal (`equal_ops.py`): each
class of them is decided once, in the order of one layer in the middle of the program.

The cost of what is sent is its time at the links' rate, that of an op the time of its products and
element-operations in parts, or of the bytes of products and of rows in HBM, where that is longer
(`rates.py`). Ties go to fewer collectives."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import islice
from math import inf, prod

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.dialects.func import ReturnOp as FuncReturnOp
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.control import LoopOp, YieldOp
from ge.dialects.graph.normalization import GroupNormOp
from ge.dialects.graph.sharding import SHARDING, ShardingAttr, ShardOp
from ge.dialects.graph.stated import argument_attributes
from ge.dialects.support.digits import all_digits, joined
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.mesh import MICROBATCH, Mesh, Sharding, is_in_time
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import constant_ints, element_type, is_static, rank_of, shape_of
from ge.transforms.sharding.equal_ops import classes
from ge.transforms.sharding.host_times import unhidden
from ge.transforms.sharding.local_ops import builds, may_cut
from ge.transforms.sharding.rates import Rates
from ge.transforms.sharding.resharding import count, elements, steps
from ge.transforms.sharding.strategies import Need, NormRules, Rules, Strategy, of_result

STEP_S = 1e-12  # what decides between ways that send as much
MOST = 24  # strategies of an op; of one whose are proposed these, and a third as many


@dataclass(eq=False, slots=True)
class OpNode:
    """Equal ops, their strategies with what they need, and the one chosen. An argument, or several
    that are equal, is one without an op of its own: then `op` is the one around."""

    op: Operation
    rules: Rules | None
    times: int  # how often it runs
    values: Sequence[SSAValue]  # that it gives: of the first op
    is_free: bool = False  # an argument of which nobody has stated how it is cut
    count: int = 1  # ops of it
    unhidden: int = 0  # of these: arguments that hide behind no work on their way from the host
    place: int = 0  # in the row of nodes
    strategies: list[Strategy] = field(default_factory=list[Strategy])
    suggested: object = None  # what they follow from: shardings around it, and what is proposed
    needs: list[tuple[Need | None, ...]] = field(default_factory=list[tuple[Need | None, ...]])
    results: list[Sharding] = field(default_factory=list[Sharding])
    # Of each value: how it is cut by these, where that has been asked for
    shardings: dict[int, list[Sharding]] = field(default_factory=dict[int, list[Sharding]])
    others: Sequence[Sharding] | None = None  # of each value: of loops
    work: list[float] = field(default_factory=list[float])
    parameters: list[float] = field(default_factory=list[float])  # bytes of constants
    cost: list[float] = field(default_factory=list[float])  # work, and what memory is worth
    best: np.ndarray | None = None  # what leads to each strategy, at least
    allowed: Sequence[int] = ()  # strategies that are compared
    inputs: list[list["Group"]] = field(default_factory=list[list["Group"]])
    outputs: list["Group"] = field(default_factory=list["Group"])
    around: Sequence["Group"] = ()  # both
    # Numbers of forms: of each value by strategy, and of what each strategy needs
    has: list[list[int]] = field(default_factory=list[list[int]])
    wants: list[list[int]] = field(default_factory=list[list[int]])
    asked: dict["Group", list[frozenset[int]]] = field(
        default_factory=dict["Group", list[frozenset[int]]]
    )
    chosen: int = 0
    is_new: bool = True  # something around it has changed since it was compared

    @property
    def is_end(self) -> bool:
        """Return whether it has the results, which are alike where they are wanted alike."""
        return isinstance(self.op, FuncReturnOp)

    def result(self, k: int, index: int) -> Sharding:
        """Return how one of its values is cut by a strategy."""
        if self.others is not None:
            return self.others[index]
        own, rank = self.results[k], _rank(self.values[index])
        if rank == len(own.dims):
            return own
        return Sharding.whole(rank) if rank > len(own.dims) else of_result(own, rank)


@dataclass(eq=False, slots=True)
class Group:
    """Equal values: results of one node that the same nodes use."""

    source: OpNode
    index: int
    users: Sequence[tuple[OpNode, int]]
    count: int
    shape: tuple[int, ...] | None  # None: not known
    bits: int
    unhidden: int = 0  # of the values: those that hide behind no work on their way to the host
    # Of one value, by its form and the one that is needed; and of all that its users may need
    costs: dict[int, dict[int, float]] = field(default_factory=dict[int, dict[int, float]])
    known: dict[int, Mapping[int, float]] = field(default_factory=dict[int, Mapping[int, float]])
    is_new: bool = True
    table: tuple[dict[int, int], np.ndarray] | None = None  # costs by strategy and by need

    def wants(self, before: bool = True) -> set[tuple[int, int]]:
        """Return what its users need as they are chosen, and how often; each need counts once.
        `before`: those count too that come before the source."""
        return {
            (u.wants[u.chosen][i], u.times)
            for u, i in self.users
            if before or u.place > self.source.place
        }


class OpGraph:
    """The ops of a function, the strategies of each, and what these cost. Some ops are computed
    `whole`. `free`: arguments of which nothing is stated may be cut."""

    def __init__(
        self,
        main: FuncOp,
        mesh: Mesh,
        rates: Rates,
        whole: Set[Operation] = frozenset(),
        free: bool = False,
    ) -> None:
        self.main, self.mesh, self.rates, self.free = main, mesh, rates, free
        self.whole = whole
        self.fixed: dict[SSAValue, Sharding] = {}  # arguments, also of blocks
        self.nodes: list[OpNode] = []
        self.row: list[OpNode] = []  # in the order of `begin_at`
        self.by_op: dict[Operation, OpNode] = {}
        self.by_argument: dict[SSAValue, OpNode] = {}
        self._classes, self._kinds = classes(main)
        self._by_class: dict[int, OpNode] = {}
        self._rules: dict[int, Rules] = {}  # by kinds of ops
        self._costs: dict[Hashable, dict[int, dict[int, float]]] = {}
        self._numbers: dict[Need | None, int] = {}  # of forms
        self.forms: list[Need | None] = []
        for i, arg in enumerate(main.body.block.args):
            attr = argument_attributes(main, i).get(SHARDING)
            own = Sharding.whole(rank_of(arg))
            if isinstance(attr, ShardingAttr):
                own = self.resolved(attr)
            is_free = free and attr is None and is_static(shape_of(arg))
            self._argument(main, arg, own, is_free)
        self._collect(main.body.block, 1)
        self.begin_at(0)
        alone = unhidden(main, self._seconds_of(), self._border_s) if free else set[SSAValue]()
        for arg in alone & self.by_argument.keys():
            self.by_argument[arg].unhidden += 1
        self._connect(alone)

    # ---- nodes

    def resolved(self, attr: ShardingAttr) -> Sharding:
        found = attr.data.resolved(self.mesh)
        dims = tuple(map(joined, found.dims))  # without axes of one device
        return Sharding(dims, unreduced=joined(found.unreduced), kind=found.kind)

    def _argument(self, around: Operation, arg: SSAValue, own: Sharding, free: bool) -> None:
        """Add an argument of a block, which is cut as stated, unless it is `free`."""
        number = self._classes.get(arg)
        node = None if number is None else self._by_class.get(number)
        if node is not None:
            node.count += 1
        else:
            node = OpNode(around, None, 1, [arg], free)
            node.strategies, node.results, node.work = [Strategy(own.dims)], [own], [0.0]
            node.needs = [()]
            self.nodes.append(node)
            if number is not None:
                self._by_class[number] = node
        self.fixed[arg], self.by_argument[arg] = own, node

    def _collect(self, block: Block, times: int) -> None:
        for op in block.ops:
            if isinstance(op, ConstantOp):
                continue
            number = self._classes.get(op)
            if number is not None and (node := self._by_class.get(number)) is not None:
                node.count += 1
                self.by_op[op] = node
                continue
            if isinstance(op, LoopOp):
                self._collect_loop(op, times)
                continue
            for region in op.regions:
                for inner in region.blocks:
                    for arg in inner.args:
                        self._argument(op, arg, Sharding.whole(_rank(arg)), False)
                    self._collect(inner, times)
            rules = None
            if isinstance(op, TensorOp) and op not in self.whole:
                rules = self._rules_of(op)
            node = self._add(OpNode(op, rules, times, op.results))
            if number is not None:
                self._by_class[number] = node
            if isinstance(op, ShardOp):
                own = self.resolved(op.sharding)
                self._fix(node, (own,), own)
            elif isinstance(op, FuncReturnOp):
                self._fix(node, self._wanted(op), None)
            elif rules is None or not rules.is_static:
                needs = tuple(Sharding.whole(_rank(v)) for v in op.operands)
                if isinstance(op, YieldOp):
                    needs = self._yielded(op, needs)
                self._fix(node, needs, None)

    def begin_at(self, start: int) -> None:
        """Have a search go along that one of the layers that repeat which is the first at a place
        of the program or behind it."""
        places = dict[OpNode, int]()
        for i, op in enumerate(self.main.body.block.ops):
            if (node := self.by_op.get(op)) is not None and places.get(node, -1) < start:
                places[node] = i
        place, found = 0, list[tuple[int, OpNode]]()
        for node in reversed(self.nodes):  # what is inside of an op stands before it
            place = -1 if node.op is self.main else places.get(node, place)
            found.append((place, node))
        self.row = [node for _, node in sorted(reversed(found), key=_first)]
        for i, node in enumerate(self.row):
            node.place = i

    def _rules_of(self, op: TensorOp) -> Rules:
        kind = self._kinds.get(op)
        if kind is None or (rules := self._rules.get(kind)) is None:
            rules = self._new_rules(op)
            if kind is not None:
                self._rules[kind] = rules
        return rules

    def _new_rules(self, op: TensorOp) -> Rules:
        if self.free and isinstance(op, GroupNormOp):
            return NormRules(op, lambda op, d: d > 1 or may_cut(op, d), builds)
        return Rules(op, may_cut, builds)

    def _add(self, node: OpNode) -> OpNode:
        self.nodes.append(node)
        self.by_op[node.op] = node
        return node

    def _collect_loop(self, op: LoopOp, times: int) -> None:
        """Add a loop; what it carries is cut as it is before the loop."""
        args = op.body.block.args
        carried = [self._origin(v) for v in op.carried]
        for arg, own in zip(args, [*map(_whole, args[:2]), *carried], strict=True):
            self._argument(op, arg, own, False)
        trips = None if op.trip_count is None else constant_ints(op.trip_count)
        self._collect(op.body.block, times * max(trips[0] if trips else 1, 1))
        node = self._add(OpNode(op, None, times, op.results))
        outer = len(op.operands) - len(carried)
        self._fix(node, (*map(_whole, op.operands[:outer]), *carried), None)
        rest = op.outputs[len(carried) :]
        node.others = [*carried, *map(_whole, rest)]

    def _origin(self, value: SSAValue) -> Sharding:
        if isinstance(value, BlockArgument) and value in self.fixed:
            return self.fixed[value]
        if isinstance(value.owner, ShardOp):
            return self.resolved(value.owner.sharding)
        return _whole(value)

    def _yielded(self, op: YieldOp, needs: tuple[Need, ...]) -> tuple[Need, ...]:
        loop = op.parent_op()
        if not isinstance(loop, LoopOp):
            return needs
        carried = [self.fixed[a] for a in loop.body.block.args[2:]]
        return (needs[0], *carried, *needs[1 + len(carried) :])

    def _wanted(self, op: FuncReturnOp) -> tuple[Need | None, ...]:
        tables = self.main.res_attrs
        found: list[Need | None] = []
        for i in range(len(op.operands)):
            attr = None if tables is None else tables.data[i].data.get(SHARDING)
            found.append(self.resolved(attr) if isinstance(attr, ShardingAttr) else None)
        return tuple(found)

    def _fix(self, node: OpNode, needs: tuple[Need | None, ...], result: Sharding | None) -> None:
        ranks = [_rank(r) for r in node.op.results[:1]]
        own = result or Sharding.whole(ranks[0] if ranks else 0)
        node.strategies, node.needs, node.results = [Strategy(own.dims)], [needs], [own]
        node.work = [0.0]

    # ---- values

    def producer(self, value: SSAValue) -> OpNode | None:
        """The node that gives a value; None for a constant."""
        if isinstance(value.owner, Operation):
            return self.by_op.get(value.owner)
        return self.by_argument.get(value)

    def chosen(self, value: SSAValue) -> Sharding:
        if (node := self.producer(value)) is None:
            return _whole(value)
        return node.result(node.chosen, _index(value))

    def _connect(self, alone: Set[SSAValue]) -> None:
        """Tell each node the values that it uses and gives. Of some the time at the host's link is
        not hidden."""
        users: dict[SSAValue, list[tuple[OpNode, int]]] = {}
        for op, node in self.by_op.items():
            node.inputs = node.inputs or [[] for _ in op.operands]
            for i, value in enumerate(op.operands):
                users.setdefault(value, []).append((node, i))
        groups: dict[tuple[OpNode, int, tuple[tuple[int, Hashable], ...]], Group] = {}
        for value, own in users.items():
            if (source := self.producer(value)) is None:
                continue
            index, own = _index(value), list(dict.fromkeys(own))
            uses = [(id(n), n.needs[0][i] if n.is_end else i) for n, i in own]
            key = source, index, tuple(sorted(uses, key=_first))
            if (group := groups.get(key)) is not None:
                group.count += 1
                group.unhidden += value in alone
                continue
            shape = _static_shape(value)
            bits = 0 if shape is None else bitwidth(element_type(value))
            group = groups[key] = Group(source, index, own, 1, shape, bits, int(value in alone))
            source.outputs.append(group)
            for node, i in own:
                node.inputs[i].append(group)
        for group in groups.values():
            key = group.shape, group.bits, group.unhidden / group.count
            group.costs = self._costs.setdefault(key, {})

    # ---- costs

    def _border_s(self, value: SSAValue) -> float:
        """Seconds of a whole value between host and device."""
        return self.rates.border_s(bytes_of(value, None))

    def _seconds_of(self) -> Callable[[Operation], float]:
        """Return what an op, with those inside of it, takes in even parts."""
        known, parts = dict[OpNode, float](), prod(self.mesh.sizes.values())

        def seconds(op: Operation) -> float:
            ops = op.walk() if op.regions else (op,)
            return sum([own(self.by_op[o]) + start(o) for o in ops if o in self.by_op])

        def start(op: Operation) -> float:
            node = self.by_op[op]
            return 0.0 if node.rules is None else self.rates.start_s(op, op.prev_op) * node.times

        def own(node: OpNode) -> float:
            if node in known:
                return known[node]
            known[node] = 0.0
            if node.rules is not None and node.rules.is_static:
                values = (*node.op.operands, *node.op.results)
                moved = sum(bytes_of(v, None) for v in values) / parts
                known[node] = self.rates.work_s(node.rules.op, parts, moved) * node.times
            return known[node]

        return seconds

    def sending(self, group: Group, have: int, wants: Iterable[tuple[int, int]]) -> float:
        """Seconds to bring the values of a group to each form that is needed, so many times."""
        if group.shape is None:
            return 0.0
        seconds, known = 0.0, self._costs_of(group, have)
        for need, times in wants:
            seconds += known[need] * times * group.count
        return seconds

    def _costs_of(self, group: Group, have: int) -> Mapping[int, float]:
        """Seconds to bring one value of a group, whose shape is known, from a form to each of those
        that its users may need."""
        if (known := group.known.get(have)) is None:
            known = group.known[have] = group.costs.setdefault(have, {have: 0.0})
            own, shape = self.forms[have], group.shape
            assert isinstance(own, Sharding)
            assert shape is not None
            for need in {w[i] for user, i in group.users for w in user.wants} - known.keys():
                known[need] = self._sent(own, self.forms[need], shape, group)
        return known

    def _number(self, form: Need | None) -> int:
        if (number := self._numbers.get(form)) is None:
            number = self._numbers[form] = len(self.forms)
            self.forms.append(form)
        return number

    def _sent(
        self, have: Sharding, need: Need | None, shape: tuple[int, ...], group: Group
    ) -> float:
        seconds, bits = 0.0, group.bits
        if need is None:  # a result
            need, share = Sharding(have.dims), group.unhidden / group.count
            seconds = share * self.rates.border_s(elements(shape, need) * bits / 8)
        if isinstance(need, Sharding) and need.unreduced:
            kept = all_digits(have.unreduced) if have.kind == need.kind else ()
            if not set(all_digits(need.unreduced)) <= set(kept):
                return inf
        for step in steps(have, need, shape):
            if step.op != "part":
                seconds += self.rates.sending_s(step, have, shape, bits) + STEP_S
            have = step.to if isinstance(step.to, Sharding) else have
        return seconds

    def _work(self, op: TensorOp, strategy: Strategy, needs: Sequence[Need | None]) -> float:
        cut = (*strategy.dims, *strategy.sums)
        parts, own = count([a for axes in cut for a in axes]), strategy.result
        moved = [bytes_of(v, n) for v, n in zip(op.operands, needs, strict=True)]
        moved += [bytes_of(r, of_result(own, _rank(r))) for r in op.results]
        return self.rates.work_s(op, parts, sum(moved)) + self._norm_s(op, strategy)

    def _norm_s(self, op: TensorOp, strategy: Strategy) -> float:
        """Return the time of sums and of squares of a norm that devices add up."""
        if not (self.free and isinstance(op, GroupNormOp) and (axes := NormRules.shared(strategy))):
            return 0.0
        sums = 4.0 * shape_of(op.input)[0] * op.groups.value.data
        return 2 * self.rates.summed_s(joined(axes), sums)

    # ---- strategies

    def collect(self, proposed: Mapping[OpNode, Sequence[Strategy]] | None = None) -> None:
        """Collect the strategies of all ops: those that their neighbors suggest, and those that are
        proposed."""
        proposed = proposed or {}
        wanted: dict[tuple[OpNode, int], list[Sharding]] = {}
        for _ in range(2):
            for node in self.nodes:
                self._suggest(node, wanted.get((node, 0), ()), proposed.get(node, ()))
            wanted = {}
            for node in reversed(self.nodes):
                self._suggest(node, wanted.get((node, 0), ()), proposed.get(node, ()))
                for needs in node.needs:
                    for groups, need in zip(node.inputs, needs, strict=True):
                        if not isinstance(need, Sharding) or not any(need.dims):
                            continue
                        for group in groups:
                            own = wanted.setdefault((group.source, group.index), [])
                            if need not in own and len(own) < 6:
                                own.append(Sharding(need.dims))
        for node in self.nodes:
            node.allowed = in_time(node.strategies, self.mesh) or range(len(node.strategies))
            op = node.op
            if node.rules is not None and node.rules.is_static and not node.work:
                assert isinstance(op, TensorOp)
                pairs = list(zip(node.strategies, node.needs, strict=True))
                node.work = [self._work(op, s, n) * node.times * node.count for s, n in pairs]
            for group in node.outputs:
                group.known, group.table = {}, None
            node.parameters = [parameter_bytes(op, needs) * node.count for needs in node.needs]
            node.wants, node.asked = [[self._number(n) for n in own] for own in node.needs], {}
            every = range(len(node.strategies))
            node.has = [
                [self._number(node.result(k, i)) for k in every] for i in range(len(node.values))
            ]
            groups = (g for own in (*node.inputs, node.outputs) for g in own)
            node.around = tuple(dict.fromkeys(groups))
        self.price(0.0)

    def price(self, byte_s: float) -> None:
        """Have a byte of parameters cost as much as some seconds."""
        for node in self.nodes:
            pairs = zip(node.work, node.parameters, strict=True)
            node.cost = [work + byte_s * size for work, size in pairs]

    def _suggest(
        self, node: OpNode, wanted: Sequence[Sharding], proposed: Sequence[Strategy]
    ) -> None:
        rules, op = node.rules, node.op
        if node.is_free:
            self._suggest_argument(node, wanted)
        if rules is None or not rules.is_static or isinstance(op, ShardOp):
            return
        known = [
            list(dict.fromkeys(s for g in groups for s in self._shardings(g)))
            for groups in node.inputs
        ]
        if node.suggested == (suggested := (known, list(wanted), proposed)):
            return  # as before
        node.suggested = suggested
        found = rules.strategies(known, wanted)
        every = dict.fromkeys([*found[:1], *proposed, *found[1:], *node.strategies])
        able = ((s, needs) for s in every if (needs := self._needs(node, s)) is not None)
        most = max(MOST, len(proposed) + MOST // 3)
        pairs = list(islice(able, most))
        node.strategies, node.needs = [s for s, _ in pairs], [needs for _, needs in pairs]
        node.results = [s.result for s in node.strategies]
        node.work, node.shardings = [], {}

    @staticmethod
    def _needs(node: OpNode, strategy: Strategy) -> tuple[Need, ...] | None:
        """Return what an op needs to be computed so; None where it cannot be: constants are no sums
        that are not complete."""
        assert node.rules is not None
        if strategy.through and not all(node.inputs[i] for i in strategy.takes):
            return None
        return node.rules.needs(strategy)

    @staticmethod
    def _shardings(group: Group) -> list[Sharding]:
        source, index = group.source, group.index
        if (known := source.shardings.get(index)) is None:
            found = [source.result(k, index) for k in range(len(source.strategies))]
            known = source.shardings[index] = list(dict.fromkeys(found))
        return known

    def _suggest_argument(self, node: OpNode, wanted: Sequence[Sharding]) -> None:
        """An argument may be cut as its users want it, into parts of one size."""
        shape = shape_of(node.values[0])
        whole = bytes_of(node.values[0], node.results[0])
        node.work[0] = self.rates.border_s(whole) * node.unhidden
        for own in wanted:
            even = all(d % count(axes) == 0 for d, axes in zip(shape, own.dims, strict=True))
            if even and own not in node.results and len(node.results) < MOST:
                node.shardings = {}
                node.strategies.append(Strategy(own.dims))
                node.results.append(own)
                node.needs.append(())
                seconds = self.rates.border_s(bytes_of(node.values[0], own))
                node.work.append(seconds * node.unhidden)


def _rank(value: SSAValue) -> int:
    try:
        return rank_of(value)
    except (AttributeError, TypeError, ValueError):
        return 0


def _whole(value: SSAValue) -> Sharding:
    return Sharding.whole(_rank(value))


def _first(pair: tuple[int, Hashable]) -> int:
    return pair[0]


def _index(value: SSAValue) -> int:
    return value.index if isinstance(value, OpResult) else 0


def _static_shape(value: SSAValue) -> tuple[int, ...] | None:
    try:
        shape = shape_of(value)
    except (AttributeError, TypeError, ValueError):
        return None
    return shape if is_static(shape) else None


def in_time(strategies: Sequence[Strategy], mesh: Mesh) -> list[int]:
    """Return the strategies for a microbatch, if there are such: nothing is to be sent from one to
    another."""
    if MICROBATCH not in mesh.sizes:
        return []
    return [k for k, s in enumerate(strategies) if is_in_time(s.axes)]


def bytes_of(value: SSAValue, need: Need | None) -> float:
    """Return the bytes of a part of a value; none where its size is known at run time only."""
    if (shape := _static_shape(value)) is None:
        return 0.0
    held = prod(shape) if need is None else elements(shape, need)
    return held * bitwidth(element_type(value)) / 8


def parameter_bytes(op: Operation, needs: Sequence[Need | None]) -> float:
    """Return the bytes of the constants that an op uses, as it needs them; of one that others use
    too a part."""
    if op.regions:
        return 0.0
    return sum(
        bytes_of(value, need) / max(len(list(value.uses)), 1)
        for value, need in zip(op.operands, needs, strict=False)
        if isinstance(value.owner, ConstantOp)
    )
