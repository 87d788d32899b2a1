"""Rules for `graph.loop`, a function each; all of them keep every bit. Trip counts are computed by
running the part of the body that computes the condition; loops of few trips are unrolled.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from ge.dialects import graph as g
from ge.dialects.support.boxes import Access
from ge.dialects.support.diagnostics import remark
from ge.dialects.support.editing import erase
from ge.dialects.support.errors import GeError
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import (
    byte_size,
    constant_ints,
    constant_value,
    element_type,
    has_size,
    is_ranked,
    refine,
    shape_of,
)
from ge.runtime import numbers
from ge.runtime.data.arrays import Array, array_of, dtype_of
from ge.transforms.graph.control_flow import (
    constant_before,
    end_of,
    inline,
    insert_before,
    is_pure,
    keep_results,
    move_before,
    nested_blocks,
    replace_op,
    with_limits,
)
from ge.transforms.graph.eliminate_dead_code import eliminate_dead_code
from ge.transforms.graph.share_common_subexpressions import share_common_subexpressions
from ge.transforms.rewriting.counts import count


def truth(value: SSAValue | None) -> bool | None:
    """The value of a condition, if it is known; an absent one holds."""
    if value is None:
        return True
    known = constant_ints(value)
    return bool(known[0]) if known else None


def trips(loop: g.LoopOp) -> int | None:
    known = None if loop.trip_count is None else constant_ints(loop.trip_count)
    return known[0] if known else None


def runs(loop: g.LoopOp) -> bool:
    """Return whether the body surely runs at least once."""
    return truth(loop.condition) is True and (loop.trip_count is None or (trips(loop) or 0) > 0)


def goes_on(loop: g.LoopOp) -> bool | None:
    """The condition that the body yields, if it is known."""
    end = end_of(loop.body.block).operands[0]
    return True if end is loop.body.block.args[1] else truth(end)


# ---- known numbers of rounds -----------------------------------------------------------------


def drop_idle_loop(loop: g.LoopOp) -> bool:
    """Replace a loop without rounds by the start values, and empty scan results; returns whether it
    was.

    %h, %ys = graph.loop ... trip %zero carry (%a = %x : ...) {...}
    becomes   %ys = graph.constant dense<> : tensor<0x4xf32>     (%x in the place of %h)
    """
    count_ = trips(loop)
    if truth(loop.condition) is not False and (count_ is None or count_ > 0):
        return False
    scans = loop.results[len(loop.carried) :]
    if not all(is_ranked(r) for r in scans):
        return False
    values = list[SSAValue](loop.carried)
    for scan in scans:
        shape = (0, *(max(d, 0) for d in shape_of(scan)[1:]))
        values.append(constant_before(loop, np.empty(shape, dtype_of(element_type(scan)))))
    replace_op(loop, values)
    count("drop-idle-loop")
    return True


def inline_single_round(loop: g.LoopOp) -> bool:
    """Inline the body of a loop of exactly one round; returns whether it was.

    %h = graph.loop (%i, %go) trip %one carry (%a = %x : ...) {
      %b = graph.exp %a                          becomes     %b = graph.exp %x
      graph.yield %go, %b                                    (%b in the place of %h)
    }
    """
    once = trips(loop) == 1 or goes_on(loop) is False
    if not (once and runs(loop) and scans_are_ranked(loop)):
        return False
    inline_rounds(loop, 1)
    count("inline-single-round")
    return True


def inline_rounds(loop: g.LoopOp, rounds: int) -> None:
    """Replace the loop by so many rounds (at least one). What is scanned is ranked."""
    carried = list[SSAValue](loop.carried)
    slices: list[list[SSAValue]] = [[] for _ in loop.results[len(carried) :]]
    going = constant_before(loop, np.array(True))
    for i in range(rounds):
        body = loop.body.block if i == rounds - 1 else loop.body.clone().block
        arguments = [constant_before(loop, np.array(i, np.int64)), going, *carried]
        values = inline(body, loop, arguments)[1:]
        carried = values[: len(carried)]
        for members, value in zip(slices, values[len(carried) :], strict=True):
            members.append(insert_before(loop, g.UnsqueezeOp.of(value, axes=[0])).result)
    stacks = [
        members[0] if rounds == 1 else insert_before(loop, g.ConcatOp.of(members, axis=0)).result
        for members in slices
    ]
    replace_op(loop, [*carried, *stacks])


def scans_are_ranked(loop: g.LoopOp) -> bool:
    return all(is_ranked(v) for v in end_of(loop.body.block).operands[1 + len(loop.carried) :])


# ---- what is carried -------------------------------------------------------------------------


def drop_unchanged_values(loop: g.LoopOp) -> g.LoopOp:
    """Carry no values that come around unchanged.

    %h, %k = graph.loop ... carry (%a = %x : ..., %b = %y : ...) {
      graph.yield %go, %a, %c
    }
    becomes
    %k = graph.loop ... carry (%b = %y : ...) {        (%x in the place of %a and %h)
      graph.yield %go, %c
    }
    """
    args, end = loop.body.block.args[2:], end_of(loop.body.block).operands[1:]
    dropped: set[int] = set()
    for i, (arg, start) in enumerate(zip(args, loop.carried, strict=True)):
        if (end[i] is arg or end[i] is start) and refine(arg.type, start.type) == start.type:
            arg.replace_all_uses_with(start)
            loop.results[i].replace_all_uses_with(start)
            dropped.add(i)
    if dropped:
        count("drop-unchanged-values", len(dropped), len(dropped))
    return keep_results(loop, set(range(len(loop.results))) - dropped)


def merge_equal_values(loop: g.LoopOp) -> None:
    """Two carried values that start equal and come around equal are one, and so are two scans of
    one value: the second one loses its uses."""
    args, end = loop.body.block.args[2:], end_of(loop.body.block).operands[1:]
    first: dict[tuple[SSAValue | None, SSAValue], int] = {}
    for i, result in enumerate(loop.results):
        start = loop.carried[i] if i < len(args) else None
        same = first.setdefault((start, end[i]), i)
        values = [result] if start is None else [result, args[i]]
        if same == i or all(v.first_use is None for v in values):
            continue
        result.replace_all_uses_with(loop.results[same])
        if start is not None:
            args[i].replace_all_uses_with(args[same])
        count("merge-equal-values")


# ---- invariants ------------------------------------------------------------------------------


def hoist_invariants(loop: g.LoopOp) -> None:
    """Hoist ops that compute the same in every round; out of a loop that may have no rounds only
    what cannot fail.

    %h = graph.loop ... carry (%a = %x : ...) {          %c = graph.exp %w
      %c = graph.exp %w                                  %h = graph.loop ... carry (%a = %x) {
      %b = graph.add %a, %c                    becomes     %b = graph.add %a, %c
      graph.yield %go, %b                                  graph.yield %go, %b
    }                                                    }
    """
    body, sure = loop.body.block, runs(loop)
    inside = set[SSAValue](body.args)
    for op in list(body.ops):
        fixed = op is not body.last_op and not any(
            v in inside for o in op.walk() for v in o.operands
        )
        if fixed and (sure or not may_fail(op)):
            move_before(loop, [op])
            if not isinstance(op, g.ConstantOp):
                count("hoist-invariants")
        else:
            inside.update(op.results)


def may_fail(op: Operation) -> bool:
    """Return whether an op may refuse values, or never end."""
    return not isinstance(op, TensorOp) or bool(op.regions) or op.can_fail()


MOST_STEPS = 4096  # ops that are run to find the number of rounds

MOST_OPS = 64  # that a condition depends on, to be followed

MOST_UNROLLED = 256  # ops of a loop that is unrolled on trial


# ---- counting --------------------------------------------------------------------------------


@dataclass
class Slice:
    """The part of a loop that its condition depends on: ops of its body, in order, and the indices
    of carried values."""

    ops: list[Operation]
    carried: list[int]


def condition_slice(loop: g.LoopOp, limit: int) -> Slice | None:
    """The slice of the condition over all rounds; None if it depends on more than numbers that are
    known before the loop."""
    block, end = loop.body.block, end_of(loop.body.block)
    needed: dict[SSAValue, None] = {}
    todo: list[SSAValue] = [end.operands[0]]
    while todo:
        value = todo.pop()
        if value in needed:
            continue
        needed[value] = None
        owner = value.owner
        if constant_value(value) is not None:
            continue
        if isinstance(value, BlockArgument) and owner is block:
            if value.index >= 2:
                i = value.index - 2
                todo += (loop.carried[i], end.operands[1 + i])
        elif isinstance(owner, Operation) and owner.parent is block and _is_small(owner, limit):
            todo += owner.operands
        else:
            return None
    owners = {v.owner for v in needed}
    ops = [op for op in block.ops if op in owners]
    carried = [i for i, arg in enumerate(block.args[2:]) if arg in needed]
    return Slice(ops, carried) if len(ops) <= MOST_OPS else None


def _is_small(op: Operation, limit: int) -> bool:
    return (
        isinstance(op, TensorOp)
        and not op.regions
        and is_pure(type(op))
        and all(map(has_size, op.results))
        and all(byte_size(r.type) <= limit for r in op.results)
    )


def count_rounds(loop: g.LoopOp, limit: int) -> g.LoopOp:
    """Make the trip count constant if the condition depends on constants alone. `limit`: most
    bytes of a value that is followed.

    %h = graph.loop (%i, %go) carry (%k = %zero : ..., %a = %x : ...) {
      %l = graph.add %k, %one                            becomes, if %m is 4,
      %more = graph.compare lt %l, %m                  %h = graph.loop (%i, %go) trip %four ... {
      graph.yield %more, %l, %b                            graph.yield %go, %l, %b
    }                                                    }
    """
    if goes_on(loop) is True or not truth(loop.condition):
        return loop
    known = trips(loop)
    if loop.trip_count is not None and known is None:
        return loop
    condition = condition_slice(loop, limit)
    rounds = None if condition is None else _run(loop, condition, known)
    if rounds is None:
        return loop
    trip = constant_before(loop, np.array(rounds, np.int64))
    end_of(loop.body.block).operands[0] = loop.body.block.args[1]
    count("count-rounds")
    return with_limits(loop, trip, None)


def _run(loop: g.LoopOp, condition: Slice, most: int | None) -> int | None:
    """The number of rounds, at most `most`; None if it takes too long to find out."""
    block, end = loop.body.block, end_of(loop.body.block)
    steps = [(op, numbers.prepare(op)) for op in condition.ops if not isinstance(op, g.ConstantOp)]
    known: dict[SSAValue, Array] = {}

    def array(value: SSAValue) -> Array:
        if value not in known and (constant := constant_value(value)) is not None:
            known[value] = array_of(constant)
        return known[value]

    state = [array(loop.carried[i]) for i in condition.carried]
    for rounds in range(1, MOST_STEPS // (len(steps) + 1)):
        known[block.args[0]], known[block.args[1]] = np.array(rounds - 1, np.int64), np.array(True)
        known.update(zip((block.args[2 + i] for i in condition.carried), state, strict=True))
        try:
            for op, fn in steps:
                results = numbers.results_of(fn(*(array(o) for o in op.operands)))
                known.update(zip(op.results, results, strict=True))
        except (GeError, ArithmeticError, ValueError, IndexError):
            return None  # the error belongs to the run
        if rounds == most or not array(end.operands[0]).all():
            return rounds
        state = [array(end.operands[1 + i]) for i in condition.carried]
    return None


# ---- unrolling -------------------------------------------------------------------------------


def launches(block: Block) -> int:
    """Return how many launches the ops of a block are; views and constants are none."""
    return sum(
        isinstance(op, TensorOp)
        and not isinstance(op, g.ConstantOp)
        and op.ACCESS is not Access.VIEW
        for op in block.walk()
    )


def unrolled_size(block: Block) -> int:
    """Count the ops of a block with the loops in it unrolled, as `unroll` tries that with each copy
    of the body: otherwise nested loops would take time exponential in their depth."""
    size = 0
    for op in block.ops:
        inner = sum(unrolled_size(b) for b in nested_blocks(op))
        rounds = (trips(op) or 1) if isinstance(op, g.LoopOp) else 1
        size = min(size + 1 + rounds * inner, MOST_UNROLLED + 1)
    return size


def unroll(loop: g.LoopOp, simplify: Callable[[Block], None]) -> bool:
    """Unroll a loop whose rounds, simplified by `simplify`, have no more launches than the loop;
    whether it was.

    %h = graph.loop (%i, %go) trip %two carry (%a = %x : ...) {
      %b = graph.mul %i, %zero                                    becomes %x, as every
      %c = graph.add %a, %b                                       round adds 0
      graph.yield %go, %c
    }
    """
    rounds = trips(loop)
    if not (rounds and loop.is_counted() and scans_are_ranked(loop)):
        return False
    if rounds * unrolled_size(loop.body.block) > MOST_UNROLLED:
        return False
    scratch, copy = Block(), loop.clone()
    scratch.add_ops((copy, ReturnOp(*copy.results)))
    inline_rounds(copy, rounds)
    try:
        simplify(scratch)
    except VerifyException:  # types of a later round contradict each other: an error of the run
        scratch.erase()
        return False
    share_common_subexpressions(scratch)
    eliminate_dead_code(scratch)
    before, after = launches(loop.body.block) + 1, launches(scratch)
    if after > before:
        remark(loop, f"not unrolled: {rounds} rounds would be {after} launches, not {before}")
        scratch.erase()
        return False
    count("unroll-loop")
    end = scratch.last_op
    assert isinstance(end, ReturnOp)
    values = list(end.operands)
    erase(end)
    move_before(loop, scratch.ops)
    replace_op(loop, values)
    return True
