"""Shardings that are found: those of a program's products by time, on the links of a target.

    --mesh tp=4 --shard auto

Each product (of matrices, a convolution, a look-up in a table) may be cut along each dimension of
its result and what it sums along; what is around takes part as its neighbors suggest
(`assignment.py`, which compares all of it). Arguments of which nothing is stated may be cut as
their users want them; parts of weights are read as they are needed, and so cost nothing.

A search along the program finds what is best near to where it begins. So there are several: along
each axis of the mesh products are cut by

    rows       of what is not a weight: data or sequence parallel, weights are whole on each device
    columns    of a weight, or what is summed: tensor parallel, as Megatron-LM has it
    any        of these

and heads in each; without such a rule it goes along the program, and along one layer in the middle
of it. One more begins where nothing is cut, and one where all ops of a kind (those of a first layer
too) are computed as most of them are in the fastest plan.

The fastest plan that fits into a device's memory is taken; of those that are nearly as fast
(`ALIKE`: their times are estimates) the one with the fewest kinds of ops: a first layer that is cut
in a way of its own, to save a thousandth of the whole, has kernels of its own. If none fits, a byte
of parameters gets a price, which rises until one does."""

import re
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, product

from xdsl.ir import Operation, SSAValue

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.indexing import GatherOp
from ge.dialects.graph.sharding import ShardOp, sharding_text
from ge.dialects.support.boxes import Access
from ge.dialects.support.context import at_hand
from ge.dialects.support.digits import Axes, all_digits, joined
from ge.dialects.support.mesh import MICROBATCH, SUM, Axis, Sharding, is_in_time
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import shape_of, shape_text
from ge.transforms.rewriting import remarks
from ge.transforms.sharding.assignment import PASSES, Assignment, fewest_live
from ge.transforms.sharding.op_graph import Group, OpNode, bytes_of, in_time
from ge.transforms.sharding.resharding import Step, count, elements, steps
from ge.transforms.sharding.strategies import Need, Rules, Strategy

ROWS, COLUMNS, ANY = "rows", "columns", "any"

PLANS = 8  # from which a search begins, besides the free one, at most

ALIKE = 0.002  # share of the time by which plans may differ that count as equally fast

PRICES = (0.1, 1.0, 10.0, 100.0)  # of all parameters, in times of the program

Uses = Mapping[str, str]
"""How products are cut along each axis of the mesh."""


@dataclass(frozen=True, slots=True)
class ShardPlan:
    """Strategies of all ops, and what they cost on a device."""

    uses: Uses  # that were allowed
    cut: Uses  # and those that there are; "" along an axis along which nothing is cut
    choice: Sequence[int]
    seconds: float
    sent_s: float
    parameters: float  # bytes
    values: float  # bytes of all else at once, at most
    kinds: int  # of ops: equal ones, computed in the same way, are of one

    @property
    def bytes(self) -> float:
        return self.parameters + self.values

    @property
    def kind(self) -> str:
        """Return how products are cut, in words."""
        words = {
            ROWS: "activations along {}, whole weights",
            COLUMNS: "weights along {}",
            ANY: "weights and activations along {}",
            "": "nothing along {}",
        }
        return (
            ", ".join(words[use].format(axis) for axis, use in self.cut.items())
            or "no axis to cut along"
        )

    def __str__(self) -> str:
        return (
            f"{time_text(self.seconds)}, {time_text(self.sent_s)} of them to send; "
            f"{_size(self.parameters)} of parameters and at most {_size(self.values)} of values on "
            "a device"
        )


class ToldPlan(list[str]):
    """Lines about the plan that was found last."""


class Search:
    """Plans for the ops of an assignment, in so many bytes a device."""

    def __init__(self, assignment: Assignment, limit: float, held: Container[str] = ()) -> None:
        """`held`: axes along which nothing is searched for: those of stages and microbatches."""
        self.assignment, self.limit = assignment, limit
        axes = [(name, size) for name, size in assignment.mesh.axes if name not in held]
        self.axes = [Axis(name, 1, size) for name, size in axes if size > 1]
        self.places: dict[OpNode, list[Mapping[str, str]]] = {}  # of strategies of products
        self.plans: list[ShardPlan] = []
        self.bytes_of_values: dict[tuple[OpNode, int, int], float] = {}  # by how they are cut

    def run(self) -> list[ShardPlan]:
        """Choose the best plan; return the plans that were compared, the best one first."""
        nodes, names = self.assignment.nodes, {a.name for a in self.axes}
        if MICROBATCH in self.assignment.mesh.sizes:
            self.assignment.collect()  # how microbatches are cut, which all ways keep to
        proposals = {n: p for n in nodes if (p := list(self.proposed(n)))}
        self.assignment.collect(proposals)
        for node in proposals:
            weights = {i for i, v in enumerate(node.op.operands) if weight_of(v) is not None}
            places = (self.place(node, s, weights) for s in node.strategies)
            self.places[node] = [{a: p for a, p in own.items() if a in names} for own in places]
        free, *others = self.uses()
        for start in (fewest_live(list(self.assignment.main.body.block.ops)), 0):
            self.assignment.begin_at(start)
            self.begin(free)
        self.near([node.allowed[0] for node in nodes], free)  # nothing is cut
        for uses in others:
            self.begin(uses, passes=1)
        self.allow(free)
        for plan in sorted(self.plans, key=self.rank)[:2]:
            if plan.uses != free:
                self.near(plan.choice, plan.uses)
        self.alike(min(self.plans, key=self.rank))
        if not any(map(self.fits, self.plans)):
            self.find_fit()
        self.order()
        self.assignment.take(self.plans[0].choice)
        return self.plans

    def uses(self) -> Iterator[Uses]:
        """Yield how axes may be used, all free first."""
        names = [a.name for a in self.axes]
        yield dict.fromkeys(names, ANY)
        ways = product((COLUMNS, ROWS), repeat=len(names))
        yield from islice((dict(zip(names, own, strict=True)) for own in ways), PLANS)

    def begin(self, uses: Uses, passes: int = PASSES) -> None:
        """Add the plan that is found where axes are used in some ways."""
        self.allow(uses)
        self.assignment.settle(passes)
        self.add(uses)

    def alike(self, plan: ShardPlan) -> None:
        """Add a plan in which all ops of a kind are computed as most of them are in another plan,
        and the one that is found near it."""
        self.assignment.take(plan.choice)
        ways: dict[Rules, Counter[Strategy]] = {}
        for node in self.assignment.nodes:
            if node.rules is not None:
                own = ways.setdefault(node.rules, Counter())
                own[node.strategies[node.chosen]] += node.count
        for node in self.assignment.nodes:
            if node.rules is not None:
                ((most, _),) = ways[node.rules].most_common(1)
                if most in node.strategies and (k := node.strategies.index(most)) in node.allowed:
                    node.chosen = k
        self.add(plan.uses)
        self.near(self.assignment.choice(), plan.uses)

    def near(self, choice: Sequence[int], uses: Uses) -> None:
        """Add the plan that is found by rounds from a choice."""
        self.assignment.take(choice)
        self.assignment.improve()
        self.add(uses)

    def allow(self, uses: Uses) -> None:
        every = product(uses.items(), (ROWS, COLUMNS, ANY))
        taken = {(axis, kind) for (axis, use), kind in every if ANY in (kind, use) or kind == use}
        for node, places in self.places.items():
            able = in_time(node.strategies, self.assignment.mesh) or range(len(places))
            node.allowed = [k for k in able if places[k].items() <= taken]

    def find_fit(self) -> None:
        """Search on with a price for parameters, until a plan fits."""
        least = min(self.plans, key=self.rank)
        for times in PRICES:
            self.assignment.price(times * least.seconds / max(least.parameters, 1.0))
            for uses in islice(self.uses(), 2):
                self.begin(uses)
            if any(map(self.fits, self.plans)):
                break
        self.assignment.price(0.0)

    def fits(self, plan: ShardPlan) -> bool:
        return plan.bytes <= self.limit

    def rank(self, plan: ShardPlan) -> tuple[bool, float, float]:
        fits = self.fits(plan)
        return not fits, plan.seconds if fits else plan.bytes, plan.bytes

    def order(self) -> None:
        """Bring the plans into order, the best one first."""
        self.plans.sort(key=self.rank)
        nearly = self.plans[0].seconds * (1 + ALIKE)
        alike = [p for p in self.plans if self.fits(p) and p.seconds <= nearly]
        best = min(alike, key=lambda plan: plan.kinds, default=self.plans[0])
        self.plans.remove(best)
        self.plans.insert(0, best)

    # ---- what is proposed

    def proposed(self, node: OpNode) -> Iterator[Strategy]:
        """Yield the ways to cut a product: along each axis one dimension into equal parts."""
        op, rules = node.op, node.rules
        if rules is None or not rules.is_static or not is_product(op):
            return
        rank = len(rules.results[0])
        places: list[tuple[int, int]] = [
            *((d, size) for d, size in enumerate(rules.results[0]) if rules.may_cut(rules.op, d)),
            *(
                (rank + i, rules.shapes[factor.dims[0][0]][factor.dims[0][1]])
                for i, factor in enumerate(rules.contracted)
                if factor.kind == SUM
            ),
        ]
        sizes = dict(places)
        kept = [node.strategies[k] for k in in_time(node.strategies, self.assignment.mesh)[:1]]
        times = {
            i: tuple(a for a in axes if is_in_time((a,)))
            for own in kept
            for i, axes in enumerate((*own.dims, *own.sums))
        }
        for chosen in product([None, *sizes], repeat=len(self.axes)):
            cut: dict[int, Axes] = {i: axes for i, axes in times.items() if axes}
            for place, axis in zip(chosen, self.axes, strict=True):
                if place is not None:
                    cut[place] = joined((*all_digits(cut.get(place, ())), *all_digits((axis,))))
            if cut and all(sizes.get(place, 0) % count(axes) == 0 for place, axes in cut.items()):
                yield Strategy(
                    tuple(cut.get(d, ()) for d in range(rank)),
                    tuple(cut.get(rank + i, ()) for i in range(len(rules.contracted))),
                )

    @staticmethod
    def place(node: OpNode, strategy: Strategy, weights: set[int]) -> Mapping[str, str]:
        """Return what each axis cuts: rows, columns, or what is cut in all plans. Some operands are
        weights."""
        rules = node.rules
        assert rules is not None
        cut: dict[str, str] = {}
        for d, axes in enumerate(strategy.dims):
            operands = {i for (i, _), dims in rules.relation.items() if d in dims}
            if weights:
                kind = COLUMNS if operands & weights else ROWS
            else:
                kind = ANY if len(operands) > 1 else ROWS  # of a batch, as heads are
            cut |= {axis.name: kind for axis in axes}
        summed = COLUMNS if weights else ROWS
        return cut | {axis.name: summed for axes in strategy.sums for axis in axes}

    # ---- what a plan costs

    def add(self, uses: Uses) -> None:
        """Add a plan as all is chosen now, if it is a new one."""
        nodes, choice = self.assignment.nodes, self.assignment.choice()
        if any(choice == plan.choice for plan in self.plans):
            return
        work = sum(n.work[n.chosen] for n in nodes)
        sending = sum(self.assignment.group_cost(g) for n in nodes for g in n.outputs)
        parameters = sum(n.parameters[n.chosen] for n in nodes)
        seconds = work + sending
        kinds = len({(id(n.rules), n.strategies[n.chosen]) for n in nodes if n.rules is not None})
        cut, values = self.cut(), self.most_values()
        self.plans.append(ShardPlan(uses, cut, choice, seconds, sending, parameters, values, kinds))

    def cut(self) -> Uses:
        """Return what is cut along each axis as all is chosen now."""
        found: dict[str, set[str]] = {axis.name: set() for axis in self.axes}
        for node in self.assignment.nodes:
            own = self.places.get(node)
            places: Mapping[str, str] = own[node.chosen] if own else {}
            for axis in node.results[node.chosen].axes if node.results else ():
                if axis.name in found:
                    found[axis.name].add(places.get(axis.name, ""))
            for name, place in places.items():
                found[name].add(place)
        kinds: dict[str, str] = {}
        for name, ways in found.items():
            weights, rows = COLUMNS in ways, ROWS in ways
            kinds[name] = ANY if weights and rows else COLUMNS if weights else ROWS if ways else ""
        return kinds

    def most_values(self) -> float:
        """Return the bytes of values at once, at most, in the order of the program: each from the
        op that gives it to the last that uses it. A view has none."""
        sizes = [self.value_bytes(n, i) for n, i in self.lives[0]]
        now = most = 0.0
        for begins, ends in self.lives[1]:
            for value in begins:
                now += sizes[value]
            most = max(most, now)
            for value in ends:
                now -= sizes[value]
        return most

    def value_bytes(self, node: OpNode, index: int) -> float:
        """Return the bytes of a part of a value, as it is cut now."""
        form = node.has[index][node.chosen]
        if (node, index, form) not in self.bytes_of_values:
            size = bytes_of(node.values[index], node.result(node.chosen, index))
            self.bytes_of_values[node, index, form] = size
        return self.bytes_of_values[node, index, form]

    @cached_property
    def lives(self) -> tuple[list[tuple[OpNode, int]], list[tuple[list[int], list[int]]]]:
        """Values of nodes, and those that are there from each op on and that it is the last to use,
        by their places among these; first the arguments, which stay."""
        assignment = self.assignment
        block = assignment.main.body.block
        numbers: dict[tuple[OpNode, int], int] = {}
        last: dict[SSAValue, Operation] = {}
        for op in block.ops:
            last |= dict.fromkeys(op.operands, op)
        arguments = [(assignment.by_argument[a], 0) for a in block.args]
        found = [([numbers.setdefault(a, len(numbers)) for a in arguments], list[int]())]
        live: dict[SSAValue, int] = {}
        for op in block.ops:
            node = assignment.by_op.get(op)
            if node is None or (isinstance(op, TensorOp) and op.ACCESS is Access.VIEW):
                continue
            begins = [numbers.setdefault((node, i), len(numbers)) for i in range(len(op.results))]
            live |= zip(op.results, begins, strict=True)
            ended = [v for v in dict.fromkeys(op.operands) if last[v] is op and v in live]
            found.append((begins, [live.pop(v) for v in ended]))
        return list(numbers), found

    # ---- what is told of it

    def tell(self) -> None:
        """Tell the plan that is taken to those who listen."""
        if (told := at_hand(ToldPlan)) is not None:
            told[:] = self.told()
        if remarks.wanted():
            remarks.applied("shard-auto", self.assignment.main, "\n".join(self.told()))

    def told(self) -> list[str]:
        """Return the plan that is taken, by what repeats, and the next best one."""
        best = self.plans[0]
        lines = [f"shard auto: {best.kind}: {best}"]
        lines += [f"  {n} x {text}" for text, n in Counter(self.weights()).items()]
        lines += [f"  {n} x {text}" for text, n in self.sent().items()]
        if not self.fits(best):
            lines.append(f"  no plan fits into {_size(self.limit)}: this one takes least")
        others = [p for p in self.plans if round(p.seconds, 9) != round(best.seconds, 9)]
        if others:
            ahead = (p for p in others if p.seconds < best.seconds or p.kind != best.kind)
            other = next(ahead, others[0])
            why = "" if self.fits(other) else f", which does not fit into {_size(self.limit)}"
            how = "next best"
            if self.fits(other) and other.seconds < best.seconds:
                how = f"faster by less than {ALIKE:.1%}, with more kinds of ops"
            lines.append(f"  {how}: {other.kind}: {other}{why}")
        return lines

    def weights(self) -> Iterator[str]:
        """Yield how each weight is cut, with a star for numbers in its name."""
        for op, node in self.assignment.by_op.items():
            for value, need in zip(op.operands, node.needs[node.chosen], strict=False):
                constant = weight_of(value)
                if is_product(op) and constant is not None:
                    name = re.sub(r"\d+", "*", constant.key or "a constant")
                    yield f"{name} {shape_text(shape_of(value))} {_cut(need)}"

    def sent(self) -> Mapping[str, int]:
        """Return the collectives, and how often each runs."""
        found: Counter[str] = Counter()
        for node in self.assignment.nodes:
            for group in node.outputs:
                have = node.result(node.chosen, group.index)
                for need, times in group.wants():
                    for text in self.collectives(group, have, self.assignment.forms[need]):
                        found[text] += times * group.count
        return found

    def collectives(self, group: Group, have: Sharding, need: Need | None) -> Iterator[str]:
        if group.shape is None:
            return
        for step in steps(have, Sharding(have.dims) if need is None else need, group.shape):
            if step.op != "part":
                yield self.collective(group, have, step)
            have = step.to if isinstance(step.to, Sharding) else have

    def collective(self, group: Group, have: Sharding, step: Step) -> str:
        assert group.shape is not None
        most = max(elements(group.shape, have), elements(group.shape, step.to)) * group.bits / 8
        us = self.assignment.rates.sending_s(step, have, group.shape, group.bits) * 1e6
        axes = ", ".join(dict.fromkeys(a.name for a in step.axes))
        return f"{step.op} along {axes} of {_size(most)}: {us:.1f} us"


def is_product(op: Operation) -> bool:
    """Tell whether it is proposed how to cut an op: a product, or a look-up in a table."""
    if isinstance(op, GatherOp):
        return weight_of(op.input) is not None
    return isinstance(op, TensorOp) and op.ALWAYS_MACS


def weight_of(value: SSAValue) -> ConstantOp | None:
    """Return the constant that a value is, which may be stated to be cut."""
    while isinstance(value.owner, ShardOp):
        value = value.owner.input
    return value.owner if isinstance(value.owner, ConstantOp) else None


def _cut(need: Need | None) -> str:
    if not isinstance(need, Sharding):
        return "in boxes"
    return sharding_text(need) if any(need.dims) else "whole"


def time_text(seconds: float) -> str:
    """A time with three digits or more, in ms from 1 ms on: 1.204 ms, 38.2 us, 0.125 us, 0 us."""
    if (us := seconds * 1e6) >= 999.5:
        return f"{us / 1e3:.3f} ms"
    return f"{us:.1f} us" if us >= 10 else f"{us:.3g} us"


def _size(size: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.1f} {unit}" if unit != "B" else f"{size:.0f} B"
        size /= 1024
    return f"{size:.2f} GiB"
