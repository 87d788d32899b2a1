"""The strategy of each op of a function, so that little is sent: a search over the few that the
shardings around an op suggest.

    %h = graph.matmul %x, %up       result [{"dp"}, {"tp"}]
    %y = graph.matmul %h, %down     sum over {"tp"}: one all_reduce; anything else sends more

1. Each op collects strategies (`op_graph.py`).
2. In program order the least cost to each strategy is added up (min-sum, as in Viterbi's
   algorithm; a value with several users counts in part for each, one from a layer further on for
   nothing); from the results back one is chosen.
3. Rounds over all ops take the one that costs least beside its neighbors; then those of all users
   of a value at once."""

from collections.abc import Sequence, Set
from itertools import accumulate
from math import inf

import numpy as np
from xdsl.ir import Operation

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.support.mesh import Sharding
from ge.transforms.sharding.op_graph import Group, OpGraph, OpNode

PASSES = 3  # along the program, at most
ROUNDS = 4  # over all ops after each, at most
WAYS = 3  # for all users of a value, that are compared


class Assignment(OpGraph):
    """Strategies of the ops of a function, and the shardings of its values."""

    # ---- 2. least cost along the program

    def choose(self) -> None:
        """Choose the strategy of each op."""
        self.collect()
        self.settle()

    def settle(self, passes: int = PASSES) -> None:
        """Choose of the allowed strategies, from the start, in so many passes at most."""
        for node in self.nodes:
            node.chosen = node.allowed[0]
        least, kept = inf, self.choice()
        for number in range(passes):
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
            node.best = None
        for node in self.row:
            best = np.full(len(node.cost), inf)
            best[list(node.allowed)] = [node.cost[k] for k in node.allowed]
            for i, groups in enumerate(node.inputs):
                for group in groups:
                    best += self._arrivals(node, i, group, first)
            node.best = best
        for node in reversed(self.row):
            assert node.best is not None
            costs = {k: float(node.best[k]) for k in node.allowed}
            for group in node.outputs:
                self._add_onward(group, group.wants(before=not first), costs)
            for i, groups in enumerate(node.inputs):
                for group in groups:
                    if group.source.place > node.place:
                        self._add_need(node, i, group, costs)
            node.chosen = min((cost, k) for k, cost in costs.items())[1]

    def _arrivals(self, user: OpNode, operand: int, group: Group, first: bool) -> np.ndarray:
        """Return the least cost of having a value as each strategy of a user needs it: the share of
        what leads there, and what is sent."""
        source, share = group.source, 1 / len(group.users)
        if source.best is None:  # of a layer further on: it need not be an unfinished sum
            forms = [self.forms[needs[operand]] for needs in user.wants]
            sums = [isinstance(form, Sharding) and bool(form.unreduced) for form in forms]
            return np.where(sums, inf, 0.0)
        columns, table = self._table(group)
        edges = table * (user.times * (share if first else 1.0))
        if not first:
            others = {n.wants[n.chosen][i] for n, i in group.users if n is not user}
            chosen = source.has[group.index][source.chosen]
            rows = [k for k, form in enumerate(source.has[group.index]) if form == chosen]
            for need in others:
                column = edges[rows, columns[need]]
                edges[rows, columns[need]] = np.where(column < inf, 0.0, inf)
        before = np.array([0.0 if k in source.allowed else inf for k in range(len(table))])
        before += source.best * (share * group.count / source.count)
        least = (before[:, None] + edges).min(axis=0)
        return least[[columns[needs[operand]] for needs in user.wants]]

    def _table(self, group: Group) -> tuple[dict[int, int], np.ndarray]:
        """Return what it costs to bring each form in which a value may be made to those that its
        users may need, and the column of each of these."""
        if group.table is None:
            needs = dict.fromkeys(w[i] for user, i in group.users for w in user.wants)
            forms = group.source.has[group.index]
            rows = dict[int, list[float]]()
            for form in dict.fromkeys(forms):
                known = dict.fromkeys(needs, 0.0)
                if group.shape is not None:
                    known = self._costs_of(group, form)
                rows[form] = [known[need] for need in needs]
            table = np.array([rows[form] for form in forms]) * group.count
            group.table = {need: i for i, need in enumerate(needs)}, table
        return group.table

    def _add_need(self, user: OpNode, operand: int, group: Group, costs: dict[int, float]) -> None:
        """Add what it costs to bring a value, as it is made, to what each strategy of a user
        needs."""
        if group.shape is not None:
            known = self._costs_of(group, group.source.has[group.index][group.source.chosen])
            for k in costs:
                costs[k] += known[user.wants[k][operand]] * user.times * group.count

    def _add_onward(
        self, group: Group, wants: Set[tuple[int, int]], costs: dict[int, float]
    ) -> None:
        """Add what users of a value cost that need it so, by the strategy that makes it."""
        if group.shape is None:
            return
        forms = group.source.has[group.index]
        by_form, known_of = dict[int, float](), group.known
        for k in costs:
            if (form := forms[k]) not in by_form:
                seconds, known = 0.0, known_of.get(form) or self._costs_of(group, form)
                for need, times in wants:
                    seconds += known[need] * times * group.count
                by_form[form] = seconds
            costs[k] += by_form[form]

    # ---- 3. rounds

    def improve(self) -> None:
        for node in self.nodes:
            self._changed(node)
        for _ in range(ROUNDS):
            if not self._round():
                break

    def _round(self) -> bool:
        changed = False
        for node in (*self.nodes, *reversed(self.nodes)):
            if node.is_new and len(node.allowed) > 1:
                node.is_new = False
                changed |= self._improve(node)
        for node in self.nodes:
            for group in node.outputs:
                if group.is_new and len(group.users) > 1 and self._is_sent(group):
                    group.is_new = False
                    changed |= self._improve_users(group)
        return changed

    def _is_sent(self, group: Group) -> bool:
        """Return whether a value is sent between devices, as all is chosen now."""
        have = group.source.has[group.index][group.source.chosen]
        needs = [w for w in group.wants() if self.forms[w[0]] is not None]
        return self.sending(group, have, needs) > 0

    @staticmethod
    def _changed(node: OpNode) -> None:
        """Have all around an op compared again."""
        for group in node.around:
            group.is_new = group.source.is_new = True
            for user, _ in group.users:
                user.is_new = True

    def local_cost(self, nodes: Sequence[OpNode]) -> float:
        """The work of some ops, and what is sent from and to them; each need of a value counts
        once, with those of its other users."""
        groups = dict.fromkeys(g for n in nodes for g in n.around)
        return sum([n.cost[n.chosen] for n in nodes]) + sum(map(self.group_cost, groups))

    def group_cost(self, group: Group) -> float:
        have = group.source.has[group.index][group.source.chosen]
        return self.sending(group, have, group.wants())

    def seconds(self) -> float:
        return self.local_cost(self.nodes)

    def beside(self, node: OpNode, strategies: Sequence[int]) -> dict[int, float]:
        """Return what some strategies of an op cost beside its neighbors, as these are chosen."""
        costs = {k: node.cost[k] for k in strategies}
        for group in node.around:
            own = [i for user, i in group.users if user is node]
            if group.source is not node:
                self._add_needs(node, group, own, costs)
            elif not own:
                self._add_onward(group, group.wants(), costs)
            else:  # it uses its own result: of a layer that repeats
                before = node.chosen
                for k in strategies:
                    node.chosen = k
                    costs[k] += self.group_cost(group)
                node.chosen = before
        return costs

    def _add_needs(
        self, node: OpNode, group: Group, own: Sequence[int], costs: dict[int, float]
    ) -> None:
        """Add what an op needs of a value that no other user of it needs."""
        if group.shape is None:
            return
        known = self._costs_of(group, group.source.has[group.index][group.source.chosen])
        others = {(u.wants[u.chosen][i], u.times) for u, i in group.users if u is not node}
        added, times = dict[frozenset[int], float](), node.times
        asked = node.asked.get(group)
        if asked is None:
            asked = node.asked[group] = [frozenset([w[i] for i in own]) for w in node.wants]
        for k in costs:
            if (wants := asked[k]) not in added:
                seconds = 0.0
                for need in wants:
                    if (need, times) not in others:
                        seconds += known[need] * times * group.count
                added[wants] = seconds
            costs[k] += added[wants]

    def _improve(self, node: OpNode) -> bool:
        before, costs = node.chosen, self.beside(node, node.allowed)
        best = costs.get(before, inf)
        for k, cost in costs.items():
            if cost < best * (1 - 1e-9):
                best, node.chosen = cost, k
        if node.chosen != before:
            self._changed(node)
        return node.chosen != before

    def _improve_users(self, group: Group) -> bool:
        """Have all users of a value that can take it in the same form: that of which most is saved
        where each sees its neighbors as they are."""
        users = [(n, i) for n, i in group.users if len(n.allowed) > 1]
        nodes = list(dict.fromkeys(n for n, _ in users))
        costs = {n: self.beside(n, n.allowed) for n in nodes}
        before, best = [n.chosen for n in nodes], self.local_cost(nodes)
        ways: list[tuple[float, list[int]]] = []
        for need in dict.fromkeys(n.wants[k][i] for n, i in users for k in n.allowed):
            chosen = {n: n.chosen for n in nodes}
            for node, i in users:
                takers = [k for k in node.allowed if node.wants[k][i] == need]
                chosen[node] = min(takers, key=costs[node].__getitem__, default=chosen[node])
            ways.append((sum([costs[n][k] for n, k in chosen.items()]), list(chosen.values())))
        kept = before
        for _, way in sorted(ways)[:WAYS]:
            for node, k in zip(nodes, way, strict=True):
                node.chosen = k
            if (cost := self.local_cost(nodes)) < best * (1 - 1e-9):
                best, kept = cost, way
        for node, k, old in zip(nodes, kept, before, strict=True):
            node.chosen = k
            if k != old:
                self._changed(node)
        return kept != before


def fewest_live(ops: Sequence[Operation]) -> int:
    """The place in the middle third of some ops of which the fewest values that are made before it
    are used there or behind it: constants do not count."""
    places = {op: i for i, op in enumerate(ops) if not isinstance(op, ConstantOp)}
    last = {v: i for op, i in places.items() for v in op.operands if v.owner in places}
    change = [0] * (len(ops) + 1)
    for value, i in last.items():
        assert isinstance(value.owner, Operation)
        change[places[value.owner] + 1] += 1
        change[i + 1] -= 1
    live, third = list(accumulate(change)), len(ops) // 3
    return min(range(third, len(ops) - third), key=live.__getitem__, default=0)
