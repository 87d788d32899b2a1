"""Groups stay free of cycles and in topological order, whatever is merged."""

import gc
import random

import pytest
from xdsl.dialects.builtin import f32
from xdsl.dialects.test import TestOp as Sink
from xdsl.ir import Block, Operation, SSAValue

from ge.dialects.fused_op import NormOp, RegionOp
from ge.dialects.graph.elementwise import AddOp, NegOp
from ge.dialects.graph.normalization import RmsNormOp
from ge.dialects.support.types import tensor
from ge.lowering.pipeline.pass_manager import paused_collector
from ge.transforms.fusion.groups import Group, Groups

T = tensor((4,), f32)


def random_block(rng: random.Random, size: int) -> Block:
    """Ops that use values before them, near ones more often."""
    block = Block(arg_types=[T])
    values: list[SSAValue] = [block.args[0]]
    for _ in range(size):
        recent = values[-6:] if rng.random() < 0.8 else values
        picked = rng.choices(recent, k=rng.choice((1, 2)))
        op = NegOp.of(*picked) if len(picked) == 1 else AddOp.of(*picked)
        block.add_op(op)
        values.append(op.results[0])
    block.add_op(Sink(operands=values[-3:]))
    return block


def edges(groups: Groups) -> set[tuple[Group, Group]]:
    return {(p, g) for g in groups for p in groups.producers(g)}


def closes_cycle(groups: Groups, a: Group, b: Group) -> bool:
    """By brute force: a path between the two through a third."""
    users: dict[Group, set[Group]] = {}
    for p, g in edges(groups):
        users.setdefault(p, set()).add(g)

    def reaches(start: Group, end: Group) -> bool:
        todo, seen = [u for u in users.get(start, ()) if u is not end], set[Group]()
        while todo:
            group = todo.pop()
            if group is end:
                return True
            if group not in seen:
                seen.add(group)
                todo += users.get(group, ())
        return False

    return reaches(a, b) or reaches(b, a)


@pytest.mark.parametrize("seed", range(20))
def test_merging_is_refused_exactly_where_it_would_close_a_cycle(seed: int) -> None:
    rng = random.Random(seed)
    groups = Groups(random_block(rng, 40))
    ops = list(groups.block.ops)[:-1]
    for _ in range(60):
        a, b = (groups.of(op) for op in rng.sample(ops, 2))
        expected = a is b or not closes_cycle(groups, a, b)
        assert groups.can_merge(a, b) == expected
        assert groups.merge(a, b) == expected
        order = {g: i for i, g in enumerate(groups)}
        labels = [g.label for g in groups]
        assert labels == sorted(set(labels))
        assert all(order[p] < order[g] for p, g in edges(groups))
        assert sorted(map(id, (op for g in groups for op in g.ops))) == sorted(
            map(id, groups.block.ops)
        )


@pytest.mark.parametrize("seed", range(10))
def test_the_block_stays_in_order(seed: int) -> None:
    rng = random.Random(seed)
    groups = Groups(random_block(rng, 40))
    ops = list(groups.block.ops)[:-1]
    for _ in range(20):
        groups.merge(*(groups.of(op) for op in rng.sample(ops, 2)))
    for group in groups:
        if len(group.ops) > 1:
            group.kind = RegionOp
    fused = groups.emit()
    defined: set[SSAValue] = set(groups.block.args)
    for op in groups.block.ops:
        assert all(v in defined for v in op.operands)
        defined.update(op.results)
        op.verify()
    assert all(op.parent is groups.block for op in fused)


def test_groups_go_without_the_collector() -> None:
    """Each pass that fuses makes as many as there are ops, while the collector is paused."""
    with paused_collector():  # new objects stay in the youngest generation
        before = sum(isinstance(o, Group) for o in gc.get_objects(generation=0))
        groups = Groups(random_block(random.Random(0), 40))
        groups.emit()
        del groups
        assert sum(isinstance(o, Group) for o in gc.get_objects(generation=0)) == before


def test_labels_are_dealt_out_again_when_they_run_out() -> None:
    block = Block(arg_types=[T])
    first = NegOp.of(block.args[0])
    others: list[Operation] = [NegOp.of(block.args[0]) for _ in range(50)]
    last = AddOp.of(first.result, first.result)
    block.add_ops([first, *others, last])
    groups = Groups(block)
    for i, group in enumerate(groups):
        group.label = i  # no room between any two
    assert groups.merge(groups.of(last), groups.of(first))
    a, b = groups.of(others[0]), groups.of(others[-1])
    assert groups.merge(a, b)
    labels = [g.label for g in groups]
    assert labels == sorted(set(labels))


def test_a_far_search_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ge.transforms.fusion.groups.REACH", 5)
    block = Block(arg_types=[T])
    chain: list[Operation] = [NegOp.of(block.args[0])]
    for _ in range(20):
        chain.append(NegOp.of(chain[-1].results[0]))
    side = AddOp.of(chain[0].results[0], chain[-1].results[0])
    block.add_ops([*chain, side])
    groups = Groups(block)
    assert not groups.merge(groups.of(chain[0]), groups.of(side))
    assert groups.merge(groups.of(chain[-1]), groups.of(side))


def test_a_group_is_a_region_where_what_its_kind_is_for_has_come_apart() -> None:
    """As where a norm has no program with what stands before it: what is left would not verify."""
    for op, kind in ((RmsNormOp, NormOp), (NegOp, RegionOp)):
        block = Block(arg_types=[tensor((4, 4), f32), tensor((4,), f32)])
        operands = block.args[:1] if op is NegOp else block.args
        block.add_ops([first := op.of(*operands), second := NegOp.of(first.results[0])])
        block.add_op(Sink(operands=second.results))
        groups = Groups(block)
        groups.merge(groups.of(first), groups.of(second))
        groups.of(second).kind = NormOp
        (fused,) = groups.emit()
        assert type(fused) is kind
        block.verify()
