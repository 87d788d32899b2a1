"""The strategy of each op of a function, so that little is sent: a search over the few that the
shardings around an op suggest.

    %h = graph.matmul %x, %up       result [{"dp"}, {"tp"}]
    %y = graph.matmul %h, %down     sum over {"tp"}: one all_reduce; anything else sends more

1. From arguments, constants and stated shardings to their users, and back from stated results, each
   op collects strategies (`strategies.py`).
2. In program order the least cost to each strategy is added up (min-sum, as in Viterbi's
   algorithm; a value with several users counts in part for each); from the results back one is
   chosen.
3. Rounds over all ops take the one that costs least beside its neighbors; then those of all users
   of a value at once.

Ops of layers that repeat are equal (`equal_ops.py`): each class of them is decided once.

The cost of what is sent is its time at the links' rate, that of an op the time of its products and
element-operations in parts, at the target's peak, or of the bytes of products and of rows in HBM,
where that is longer: elementwise ops are taken to be fused. Starts of collectives do not count:
they hide behind other work, and merge. Ties go to fewer collectives."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, prod

from xdsl.dialects.func import FuncOp
from xdsl.dialects.func import ReturnOp as FuncReturnOp
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.control import LoopOp, YieldOp
from ge.dialects.graph.sharding import SHARDING, ShardingAttr, ShardOp
from ge.dialects.graph.stated import argument_attributes
from ge.dialects.support.boxes import Access
from ge.dialects.support.digits import all_digits
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.mesh import Mesh, Sharding
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import constant_ints, element_type, is_static, rank_of, shape_of
from ge.transforms.sharding.equal_ops import classes
from ge.transforms.sharding.local_ops import builds, may_cut
from ge.transforms.sharding.rates import Rates
from ge.transforms.sharding.resharding import count, elements, sent, steps
from ge.transforms.sharding.strategies import Need, Rules, Strategy

PASSES = 3  # along the program, at most
ROUNDS = 4  # over all ops after each, at most
STEP_S = 1e-12  # what decides between ways that send as much
MOST = 24  # strategies of an op


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
    strategies: list[Strategy] = field(default_factory=list[Strategy])
    needs: list[tuple[Need | None, ...]] = field(default_factory=list[tuple[Need | None, ...]])
    results: list[Sharding] = field(default_factory=list[Sharding])
    others: Sequence[Sharding] | None = None  # of each value: of loops
    work: list[float] = field(default_factory=list[float])
    parameters: list[float] = field(default_factory=list[float])  # bytes of constants
    best: list[float] = field(default_factory=list[float])
    allowed: Sequence[int] = ()  # strategies that are compared
    inputs: list[list["Group"]] = field(default_factory=list[list["Group"]])
    outputs: list["Group"] = field(default_factory=list["Group"])
    chosen: int = 0

    def result(self, k: int, index: int) -> Sharding:
        """Return how one of its values is cut by a strategy."""
        if self.others is not None:
            return self.others[index]
        own, rank = self.results[k], _rank(self.values[index])
        return own if len(own.dims) == rank else Sharding.whole(rank)


@dataclass(eq=False, slots=True)
class Group:
    """Equal values: results of one node that the same nodes use."""

    source: OpNode
    index: int
    users: Sequence[tuple[OpNode, int]]
    count: int
    shape: tuple[int, ...] | None  # None: not known
    bits: int
    costs: dict[tuple[Sharding, Need | None], float]

    def needs(self) -> set[tuple[Need | None, int]]:
        """Return what its users need as they are chosen; each need counts once."""
        return {(u.needs[u.chosen][i], u.times) for u, i in self.users}


class Assignment:
    """Strategies of the ops of a function, and the shardings of its values. `free`: arguments of
    which nothing is stated may be cut."""

    def __init__(self, main: FuncOp, mesh: Mesh, rates: Rates, free: bool = False) -> None:
        self.main, self.mesh, self.rates, self.free = main, mesh, rates, free
        self.fixed: dict[SSAValue, Sharding] = {}  # arguments, also of blocks
        self.nodes: list[OpNode] = []
        self.by_op: dict[Operation, OpNode] = {}
        self.by_argument: dict[SSAValue, OpNode] = {}
        self._classes = classes(main)
        self._by_class: dict[int, OpNode] = {}
        self._costs: dict[tuple[object, int], dict[tuple[Sharding, Need | None], float]] = {}
        for i, arg in enumerate(main.body.block.args):
            attr = argument_attributes(main, i).get(SHARDING)
            whole = Sharding.whole(rank_of(arg))
            own = self.resolved(attr) if isinstance(attr, ShardingAttr) else whole
            is_free = free and attr is None and is_static(shape_of(arg))
            self._argument(main, arg, own, is_free)
        self._collect(main.body.block, 1)
        self._connect()

    # ---- nodes

    def resolved(self, attr: ShardingAttr) -> Sharding:
        found = attr.data.resolved(self.mesh)
        return Sharding(found.dims, unreduced=found.unreduced, kind=found.kind)

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
            rules = Rules(op, may_cut, builds) if isinstance(op, TensorOp) else None
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

    def _connect(self) -> None:
        """Tell each node the values that it uses and gives."""
        users: dict[SSAValue, list[tuple[OpNode, int]]] = {}
        for op, node in self.by_op.items():
            node.inputs = node.inputs or [[] for _ in op.operands]
            for i, value in enumerate(op.operands):
                users.setdefault(value, []).append((node, i))
        groups: dict[tuple[OpNode, int, tuple[tuple[int, int], ...]], Group] = {}
        for value, own in users.items():
            if (source := self.producer(value)) is None:
                continue
            index, own = _index(value), list(dict.fromkeys(own))
            key = source, index, tuple(sorted((id(n), i) for n, i in own))
            if (group := groups.get(key)) is not None:
                group.count += 1
                continue
            shape = _static_shape(value)
            bits = 0 if shape is None else bitwidth(element_type(value))
            costs = self._costs.setdefault((shape, bits), {})
            group = Group(source, index, own, 1, shape, bits, costs)
            groups[key] = group
            source.outputs.append(group)
            for node, i in own:
                node.inputs[i].append(group)

    # ---- costs

    def edge(self, group: Group, have: Sharding, need: Need | None, times: int) -> float:
        """Seconds to bring the values of a group to what is needed."""
        if group.shape is None or have == need:
            return 0.0
        cost = group.costs.get((have, need))
        if cost is None:
            cost = group.costs[have, need] = self._sent(have, need, group.shape, group.bits)
        return cost * times * group.count

    def _sent(self, have: Sharding, need: Need | None, shape: tuple[int, ...], bits: int) -> float:
        if need is None:
            need = Sharding(have.dims)
        if isinstance(need, Sharding) and not set(all_digits(need.unreduced)) <= set(
            all_digits(have.unreduced) if have.kind == need.kind else ()
        ):
            return inf
        collectives = sum(s.op != "part" for s in steps(have, need, shape))
        seconds = sum(n / self.rates.link(axes) for axes, n in sent(have, need, shape))
        return seconds * bits / 8 + collectives * STEP_S

    def _work(self, op: TensorOp, strategy: Strategy, needs: Sequence[Need | None]) -> float:
        work = op.work()
        if work is None:
            return 0.0
        cut = (*strategy.dims, *strategy.sums)
        parts = count([a for axes in cut for a in axes])
        seconds = work.macs / self.rates.macs / parts
        if op.ALWAYS_MACS or op.ACCESS is Access.ROWS:
            moved = [_bytes(v, n) for v, n in zip(op.operands, needs, strict=True)]
            moved += [_bytes(r, strategy.result) for r in op.results]
            seconds = max(seconds, sum(moved) / self.rates.memory)
        return seconds + work.vector / self.rates.vector / parts

    # ---- 1. strategies

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
            node.allowed = range(len(node.strategies))
            op = node.op
            if node.rules is None or not node.rules.is_static or node.work:
                continue
            assert isinstance(op, TensorOp)
            pairs = list(zip(node.strategies, node.needs, strict=True))
            node.work = [self._work(op, s, n) * node.times * node.count for s, n in pairs]

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
        found = rules.strategies(known, wanted)
        every = dict.fromkeys([*found[:1], *proposed, *found[1:], *node.strategies])
        node.strategies = [s for s in every if self._can(node, s)][:MOST]
        node.needs = [rules.needs(s) or () for s in node.strategies]
        node.results = [s.result for s in node.strategies]
        node.work = []

    @staticmethod
    def _can(node: OpNode, strategy: Strategy) -> bool:
        """Return whether an op can be computed so: constants are no sums that are not complete."""
        assert node.rules is not None
        taken = strategy.takes if strategy.through else ()
        return all(node.inputs[i] for i in taken) and node.rules.needs(strategy) is not None

    @staticmethod
    def _shardings(group: Group) -> list[Sharding]:
        source = group.source
        found = [source.result(k, group.index) for k in range(len(source.strategies))]
        return list(dict.fromkeys(found))

    def _suggest_argument(self, node: OpNode, wanted: Sequence[Sharding]) -> None:
        """An argument may be cut as its users want it, into parts of one size."""
        shape = shape_of(node.values[0])
        for own in wanted:
            even = all(d % count(axes) == 0 for d, axes in zip(shape, own.dims, strict=True))
            if even and own not in node.results and len(node.results) < MOST:
                node.strategies.append(Strategy(own.dims))
                node.results.append(own)
                node.needs.append(())
                node.work.append(0.0)

    # ---- 2. least cost along the program

    def choose(self) -> None:
        """Choose the strategy of each op."""
        self.collect()
        self.settle()

    def settle(self) -> None:
        """Choose of the allowed strategies, from the start."""
        for node in self.nodes:
            node.chosen = node.allowed[0]
        least, kept = inf, self.choice()
        for number in range(PASSES):
            self._along(first=number == 0)
            self.improve()
            if (total := self.seconds()) >= least * (1 - 1e-9):
                break
            least, kept = total, self.choice()
        self.take(kept)

    def choice(self) -> list[int]:
        return [n.chosen for n in self.nodes]

    def take(self, choice: Sequence[int]) -> None:
        for node, k in zip(self.nodes, choice, strict=True):
            node.chosen = k
        for arg, node in self.by_argument.items():
            self.fixed[arg] = node.results[node.chosen]

    def _along(self, first: bool) -> None:
        """Choose the least cost along the program. What another op asks of a value, as all are
        chosen now, costs nothing more; the `first` time, when nothing is chosen, a part."""
        for node in self.nodes:
            node.best = []
        for node in self.nodes:
            node.best = [
                node.work[k] + self._arrivals(node, node.needs[k], first)
                if k in node.allowed
                else inf
                for k in range(len(node.strategies))
            ]
        for node in reversed(self.nodes):
            costs = [
                (node.best[k] + sum([self._onward(g, node, k) for g in node.outputs]), k)
                for k in node.allowed
            ]
            node.chosen = min(costs)[1]

    def _arrivals(self, user: OpNode, needs: Sequence[Need | None], first: bool) -> float:
        """Return the least cost of having all operands as they are needed: the share of what leads
        there, and what is sent."""
        total = 0.0
        for groups, need in zip(user.inputs, needs, strict=True):
            for group in groups:
                total += self._arrival(user, group, need, first)
        return total

    def _arrival(self, user: OpNode, group: Group, need: Need | None, first: bool) -> float:
        source, share = group.source, 1 / len(group.users)
        has = source.result(source.chosen, group.index)
        others = [n for n, i in group.users if n is not user and n.needs[n.chosen][i] == need]
        sending = share if first else 0.0 if others else 1.0
        least = inf
        for k in source.allowed:
            have = source.result(k, group.index)
            edge = self.edge(group, have, need, user.times)
            edge *= sending if (first or have == has) and edge < inf else 1.0
            # a layer that repeats: the source comes later, and its cost is not known
            before = source.best[k] * share * group.count / source.count if source.best else 0.0
            least = min(least, before + edge)
        return least

    def _onward(self, group: Group, node: OpNode, k: int) -> float:
        """Return what the users of a value cost as they are chosen."""
        have = node.result(k, group.index)
        return sum([self.edge(group, have, need, times) for need, times in group.needs()])

    # ---- 3. rounds

    def improve(self) -> None:
        for _ in range(ROUNDS):
            if not self._round():
                break

    def _round(self) -> bool:
        changed = False
        for node in (*self.nodes, *reversed(self.nodes)):
            if len(node.allowed) > 1:
                changed |= self._improve(node)
        for node in self.nodes:
            for group in node.outputs:
                if len(group.users) > 1:
                    changed |= self._improve_users(group)
        return changed

    def local_cost(self, nodes: Sequence[OpNode]) -> float:
        """The work of some ops, and what is sent from and to them; each need of a value counts
        once, with those of its other users."""
        groups = {g: None for n in nodes for own in (*n.inputs, n.outputs) for g in own}
        return sum([n.work[n.chosen] for n in nodes]) + sum(map(self.group_cost, groups))

    def group_cost(self, group: Group) -> float:
        return self._onward(group, group.source, group.source.chosen)

    def seconds(self) -> float:
        return self.local_cost(self.nodes)

    def _improve(self, node: OpNode) -> bool:
        before, best = node.chosen, self.local_cost([node])
        chosen = before
        for k in node.allowed:
            node.chosen = k
            if k != before and (cost := self.local_cost([node])) < best * (1 - 1e-9):
                best, chosen = cost, k
        node.chosen = chosen
        return chosen != before

    def _improve_users(self, group: Group) -> bool:
        """Have all users of a value that can take it in the same form."""
        users = [(n, i) for n, i in group.users if len(n.allowed) > 1]
        nodes = list(dict.fromkeys(n for n, _ in users))
        before, best = [n.chosen for n in nodes], self.local_cost(nodes)
        kept = before
        for need in dict.fromkeys(n.needs[k][i] for n, i in users for k in n.allowed):
            for node, i in users:
                takers = [k for k in node.allowed if node.needs[k][i] == need]
                if takers:
                    costs = [(self._with(node, k), k) for k in takers]
                    node.chosen = min(costs)[1]
            if (cost := self.local_cost(nodes)) < best * (1 - 1e-9):
                best, kept = cost, [n.chosen for n in nodes]
            for node, k in zip(nodes, before, strict=True):
                node.chosen = k
        for node, k in zip(nodes, kept, strict=True):
            node.chosen = k
        return kept != before

    def _with(self, node: OpNode, k: int) -> float:
        node.chosen = k
        return self.local_cost([node])


def _rank(value: SSAValue) -> int:
    try:
        return rank_of(value)
    except (AttributeError, TypeError, ValueError):
        return 0


def _whole(value: SSAValue) -> Sharding:
    return Sharding.whole(_rank(value))


def _index(value: SSAValue) -> int:
    return value.index if isinstance(value, OpResult) else 0


def _static_shape(value: SSAValue) -> tuple[int, ...] | None:
    try:
        shape = shape_of(value)
    except (AttributeError, TypeError, ValueError):
        return None
    return shape if is_static(shape) else None


def _bytes(value: SSAValue, need: Need | None) -> float:
    """The bytes of a part of a value."""
    shape = shape_of(value)
    held = prod(shape) if need is None else elements(shape, need)
    return held * bitwidth(element_type(value)) / 8
