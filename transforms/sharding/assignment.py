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

The cost of what is sent is its time at the links' rate, that of an op the time of its products and
element-operations in parts, at the target's peak. Starts of collectives do not count: they hide
behind other work, and merge. Ties go to fewer collectives."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import cast

from xdsl.dialects.func import FuncOp
from xdsl.dialects.func import ReturnOp as FuncReturnOp
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.control import LoopOp, YieldOp
from ge.dialects.graph.sharding import SHARDING, ShardingAttr, ShardOp
from ge.dialects.graph.stated import argument_attributes
from ge.dialects.support.digits import all_digits
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.mesh import Mesh, Sharding
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import constant_ints, element_type, is_static, rank_of, shape_of
from ge.transforms.sharding.local_ops import builds, may_cut
from ge.transforms.sharding.resharding import count, sent, steps
from ge.transforms.sharding.strategies import Need, Rules, Strategy

PASSES = 3  # along the program, at most
ROUNDS = 4  # over all ops after each, at most
STEP_S = 1e-12  # what decides between ways that send as much


@dataclass(frozen=True, slots=True)
class Rates:
    """How fast a device computes and sends: multiply-accumulates, element-operations and bytes in a
    second."""

    macs: float = 1.5e14
    vector: float = 5e12
    link: float = 1.26e11


@dataclass(eq=False, slots=True)
class Node:
    """An op, its strategies with what they need, and the one chosen."""

    op: Operation
    rules: Rules | None
    times: int  # how often it runs
    strategies: list[Strategy] = field(default_factory=list[Strategy])
    needs: list[tuple[Need | None, ...]] = field(default_factory=list[tuple[Need | None, ...]])
    results: list[Sharding] = field(default_factory=list[Sharding])
    work: list[float] = field(default_factory=list[float])
    best: list[float] = field(default_factory=list[float])
    chosen: int = 0


Users = Mapping[SSAValue, list[tuple[Node, int]]]
"""The users of each value, with the numbers of their operands."""

Paid = dict[tuple[SSAValue, Need | None], set[Node]]
"""The ops that have each need of a value."""


class Assignment:
    """Strategies of the ops of a function, and the shardings of its values."""

    def __init__(self, main: FuncOp, mesh: Mesh, rates: Rates | None = None) -> None:
        self.main, self.mesh, self.rates = main, mesh, rates or Rates()
        self.fixed: dict[SSAValue, Sharding] = {}  # arguments and what loops carry
        self.nodes: list[Node] = []
        self.by_op: dict[Operation, Node] = {}
        self._costs: dict[tuple[Sharding, Need, tuple[int, ...], int], float] = {}
        for i, arg in enumerate(main.body.block.args):
            table = argument_attributes(main, i)
            attr = table.get(SHARDING)
            whole = Sharding.whole(rank_of(arg))
            self.fixed[arg] = self.resolved(attr) if isinstance(attr, ShardingAttr) else whole
        self._collect(main.body.block, 1)

    # ---- nodes

    def resolved(self, attr: ShardingAttr) -> Sharding:
        found = attr.data.resolved(self.mesh)
        return Sharding(found.dims, unreduced=found.unreduced, kind=found.kind)

    def _collect(self, block: Block, times: int) -> None:
        for op in block.ops:
            if isinstance(op, ConstantOp):
                continue
            if isinstance(op, LoopOp):
                self._collect_loop(op, times)
                continue
            for region in op.regions:
                for inner in region.blocks:
                    self.fixed |= {a: Sharding.whole(rank_of(a)) for a in inner.args}
                    self._collect(inner, times)
            rules = Rules(op, may_cut, builds) if isinstance(op, TensorOp) else None
            node = Node(op, rules, times)
            self.nodes.append(node)
            self.by_op[op] = node
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

    def _collect_loop(self, op: LoopOp, times: int) -> None:
        """What a loop carries is cut as it is before the loop."""
        args = op.body.block.args
        self.fixed |= {a: Sharding.whole(_rank(a)) for a in args[:2]}
        carried = [self._origin(v) for v in op.carried]
        self.fixed |= dict(zip(args[2:], carried, strict=True))
        trips = None if op.trip_count is None else constant_ints(op.trip_count)
        self._collect(op.body.block, times * max(trips[0] if trips else 1, 1))
        node = Node(op, None, times)
        self.nodes.append(node)
        self.by_op[op] = node
        outer = len(op.operands) - len(carried)
        whole = [Sharding.whole(_rank(v)) for v in op.operands[:outer]]
        self._fix(node, (*whole, *carried), None)

    def _origin(self, value: SSAValue) -> Sharding:
        if isinstance(value, BlockArgument) and value in self.fixed:
            return self.fixed[value]
        if isinstance(value.owner, ShardOp):
            return self.resolved(value.owner.sharding)
        return Sharding.whole(_rank(value))

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

    def _fix(self, node: Node, needs: tuple[Need | None, ...], result: Sharding | None) -> None:
        ranks = [_rank(r) for r in node.op.results[:1]]
        own = result or Sharding.whole(ranks[0] if ranks else 0)
        node.strategies, node.needs, node.results = [Strategy(own.dims)], [needs], [own]
        node.work = [0.0]

    # ---- values

    def producer(self, value: SSAValue) -> Node | None:
        return self.by_op.get(value.owner) if isinstance(value.owner, Operation) else None

    def shardings(self, value: SSAValue) -> list[Sharding] | None:
        """The shardings that a value may have; None for a constant, which may have any."""
        if value in self.fixed:
            return [self.fixed[value]]
        node = self.producer(value)
        if node is None:
            return None
        if isinstance(node.op, LoopOp):
            return [self.chosen(value)]
        return list(
            dict.fromkeys(self._of_result(node, k, value) for k in range(len(node.results)))
        )

    def _of_result(self, node: Node, k: int, value: SSAValue) -> Sharding:
        if isinstance(node.op, LoopOp):
            index = node.op.outputs.index(cast(OpResult, value))
            carried = [self.fixed[a] for a in node.op.body.block.args[2:]]
            return carried[index] if index < len(carried) else Sharding.whole(_rank(value))
        own = node.results[k]
        return own if len(own.dims) == _rank(value) else Sharding.whole(_rank(value))

    def chosen(self, value: SSAValue) -> Sharding:
        if value in self.fixed:
            return self.fixed[value]
        node = self.producer(value)
        if node is None:
            return Sharding.whole(_rank(value))
        return self._of_result(node, node.chosen, value)

    # ---- costs

    def edge(self, value: SSAValue, have: Sharding | None, need: Need | None, times: int) -> float:
        """Seconds to bring a value to what is needed."""
        if (
            have is None
            or (shape := shape_of(value) if is_static(shape_of(value)) else None) is None
        ):
            return 0.0
        if need is None:
            need = Sharding(have.dims)
        if isinstance(need, Sharding) and not set(all_digits(need.unreduced)) <= set(
            all_digits(have.unreduced) if have.kind == need.kind else ()
        ):
            return inf
        bits = bitwidth(element_type(value))
        key = have, need, shape, bits
        if key not in self._costs:
            collectives = sum(s.op != "part" for s in steps(have, need, shape))
            seconds = sent(have, need, shape) * bits / 8 / self.rates.link
            self._costs[key] = seconds + collectives * STEP_S
        return self._costs[key] * times

    def _work(self, op: TensorOp, strategy: Strategy) -> float:
        work = op.work()
        if work is None:
            return 0.0
        seconds = work.macs / self.rates.macs + work.vector / self.rates.vector
        cut = (*strategy.dims, *strategy.sums)
        return seconds / count([a for axes in cut for a in axes])

    # ---- 1. strategies

    def collect(self) -> None:
        wanted: dict[SSAValue, list[Sharding]] = {}
        for _ in range(2):
            for node in self.nodes:
                self._suggest(node, wanted)
            wanted = {}
            for node in reversed(self.nodes):
                self._suggest(node, wanted)
                for needs in node.needs:
                    for value, need in zip(node.op.operands, needs, strict=True):
                        if isinstance(need, Sharding) and any(need.dims):
                            own = wanted.setdefault(value, [])
                            if need not in own and len(own) < 6:
                                own.append(Sharding(need.dims))
        for node in self.nodes:
            if node.rules is not None and node.rules.is_static and not node.work:
                op = node.op
                assert isinstance(op, TensorOp)
                node.work = [self._work(op, s) * node.times for s in node.strategies]

    def _suggest(self, node: Node, wanted: Mapping[SSAValue, Sequence[Sharding]]) -> None:
        rules, op = node.rules, node.op
        if rules is None or not rules.is_static or isinstance(op, ShardOp):
            return
        known = [self.shardings(v) or [] for v in op.operands]
        found = rules.strategies(known, wanted.get(op.results[0], ()))
        node.strategies = list(dict.fromkeys([*found, *node.strategies]))[:24]
        node.needs = [rules.needs(s) or () for s in node.strategies]
        node.results = [s.result for s in node.strategies]
        node.work = []

    # ---- 2. least cost along the program

    def choose(self) -> None:
        """Choose the strategy of each op."""
        self.collect()
        users = self._users()
        least, kept = inf, [n.chosen for n in self.nodes]
        for number in range(PASSES):
            self._along(users, None if number == 0 else self._paid(users))
            for _ in range(ROUNDS):
                if not self._round(users):
                    break
            if (total := self.local_cost(self.nodes, users)) >= least * (1 - 1e-9):
                break
            least, kept = total, [n.chosen for n in self.nodes]
        for node, k in zip(self.nodes, kept, strict=True):
            node.chosen = k

    def _along(self, users: Users, paid: Paid | None) -> None:
        """Choose the least cost along the program. What another op asks of a value, as all are
        chosen now (`paid`), costs nothing more; before anything is chosen, a part."""
        for node in self.nodes:
            pairs = [list(zip(node.op.operands, needs, strict=True)) for needs in node.needs]
            node.best = [
                work + sum(self._arrival(node, v, need, users, paid) for v, need in own)
                for work, own in zip(node.work, pairs, strict=True)
            ]
        for node in reversed(self.nodes):
            after = [
                sum(self._onward(node, k, r, users) for r in node.op.results)
                for k in range(len(node.strategies))
            ]
            costs = [a + b for a, b in zip(node.best, after, strict=True)]
            node.chosen = costs.index(min(costs))

    def _paid(self, users: Users) -> Paid:
        """For each value and need the ops that have it."""
        paid: Paid = {}
        for value, own in users.items():
            for node, i in own:
                paid.setdefault((value, node.needs[node.chosen][i]), set()).add(node)
        return paid

    def _users(self) -> dict[SSAValue, list[tuple[Node, int]]]:
        users: dict[SSAValue, list[tuple[Node, int]]] = {}
        for node in self.nodes:
            for i, value in enumerate(node.op.operands):
                users.setdefault(value, []).append((node, i))
        return users

    def _arrival(
        self, user: Node, value: SSAValue, need: Need | None, users: Users, paid: Paid | None
    ) -> float:
        """What it costs, at least, to have a value as it is needed: its share of what leads there,
        and what is sent."""
        share = 1 / max(len(users.get(value, ())), 1)
        sending = share if paid is None else 1.0
        has = None if paid is None else self.chosen(value)
        if paid is not None and paid.get((value, need), {user}) != {user}:
            sending = 0.0
        node = self.producer(value)
        if value in self.fixed or node is None or isinstance(node.op, LoopOp):
            have = None if node is None and value not in self.fixed else self.chosen(value)
            return self.edge(value, have, need, user.times) * sending
        costs: list[float] = []
        for k in range(len(node.strategies)):
            have = self._of_result(node, k, value)
            part = sending if paid is None or have == has else 1.0
            edge = self.edge(value, have, need, user.times)
            costs.append(node.best[k] * share + (edge * part if edge < inf else inf))
        return min(costs)

    def _onward(self, node: Node, k: int, value: SSAValue, users: Users) -> float:
        """What the users of a result cost as they are chosen; each need counts once."""
        have = self._of_result(node, k, value)
        needs = {(u.needs[u.chosen][i], u.times) for u, i in users.get(value, ())}
        return sum(self.edge(value, have, need, times) for need, times in needs)

    # ---- 3. rounds

    def _round(self, users: Users) -> bool:
        changed = False
        for node in (*self.nodes, *reversed(self.nodes)):
            if len(node.strategies) > 1:
                changed |= self._improve(node, users)
        for value, own in users.items():
            if len(own) > 1:
                changed |= self._improve_users(value, own, users)
        return changed

    def local_cost(self, nodes: Sequence[Node], users: Users) -> float:
        """The work of some ops, and what is sent from and to them; each need of a value counts
        once, with those of its other users."""
        total = sum(n.work[n.chosen] for n in nodes)
        values = dict.fromkeys(v for n in nodes for v in (*n.op.operands, *n.op.results))
        for value in values:
            if value not in self.fixed and self.producer(value) is None:
                continue
            have = self.chosen(value)
            needs = {(u.needs[u.chosen][i], u.times) for u, i in users.get(value, ())}
            total += sum(self.edge(value, have, need, times) for need, times in needs)
        return total

    def _improve(self, node: Node, users: Users) -> bool:
        before, best = node.chosen, self.local_cost([node], users)
        chosen = before
        for k in range(len(node.strategies)):
            node.chosen = k
            if k != before and (cost := self.local_cost([node], users)) < best * (1 - 1e-9):
                best, chosen = cost, k
        node.chosen = chosen
        return chosen != before

    def _improve_users(
        self,
        value: SSAValue,
        own: Sequence[tuple[Node, int]],
        users: Users,
    ) -> bool:
        """Have all users of a value that can take it in the same form."""
        nodes = list(dict.fromkeys(n for n, _ in own))
        before, best = [n.chosen for n in nodes], self.local_cost(nodes, users)
        kept = before
        for need in dict.fromkeys(needs[i] for n, i in own for needs in n.needs):
            for node, i in own:
                takers = [k for k, needs in enumerate(node.needs) if needs[i] == need]
                if takers:
                    costs = [(self._with(node, k, users), k) for k in takers]
                    node.chosen = min(costs)[1]
            if (cost := self.local_cost(nodes, users)) < best * (1 - 1e-9):
                best, kept = cost, [n.chosen for n in nodes]
            for node, k in zip(nodes, before, strict=True):
                node.chosen = k
        for node, k in zip(nodes, kept, strict=True):
            node.chosen = k
        return kept != before

    def _with(self, node: Node, k: int, users: Users) -> float:
        node.chosen = k
        return self.local_cost([node], users)


def _rank(value: SSAValue) -> int:
    try:
        return rank_of(value)
    except (AttributeError, TypeError, ValueError):
        return 0
