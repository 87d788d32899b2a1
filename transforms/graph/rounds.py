"""Trip counts of loops, found by running the part of the body that computes the condition; and
loop unrolling."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.control import LoopOp
from ge.dialects.support.boxes import Access
from ge.dialects.support.diagnostics import remark
from ge.dialects.support.editing import erase
from ge.dialects.support.errors import GeError
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import byte_size, constant_value, has_size
from ge.runtime import numbers
from ge.runtime.data.arrays import Array, array_of
from ge.transforms.graph.control_flow import (
    constant_before,
    end_of,
    is_pure,
    move_before,
    nested_blocks,
    replace_op,
    with_limits,
)
from ge.transforms.graph.eliminate_dead_code import eliminate_dead_code
from ge.transforms.graph.loops import goes_on, inline_rounds, scans_are_ranked, trips, truth
from ge.transforms.graph.share_common_subexpressions import share_common_subexpressions
from ge.transforms.rewriting.counts import count

MOST_STEPS = 4096  # ops that are run to find the number of rounds
MOST_OPS = 64  # that a condition depends on, to be followed
MOST_UNROLLED = 256  # ops of a loop that is unrolled on trial


# ---- counting --------------------------------------------------------------------------------


@dataclass
class Slice:
    """What the condition of a loop depends on: ops of its body, in order, and the indices of
    carried values."""

    ops: list[Operation]
    carried: list[int]


def condition_slice(loop: LoopOp, limit: int) -> Slice | None:
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


def count_rounds(loop: LoopOp, limit: int) -> LoopOp:
    """Make the trip count constant if the condition depends on constants alone. `limit`: most
    bytes of a value that is followed.

    %h = graph.loop (%i, %go) carry (%k = %zero : ..., %a = %x : ...) {
      %l = graph.add %k, %one                            becomes, if %m is 4,
      %more = graph.compare "lt" %l, %m                  %h = graph.loop (%i, %go) trip %four ... {
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


def _run(loop: LoopOp, condition: Slice, most: int | None) -> int | None:
    """The number of rounds, at most `most`; None if it takes too long to find out."""
    block, end = loop.body.block, end_of(loop.body.block)
    steps = [(op, numbers.prepare(op)) for op in condition.ops if not isinstance(op, ConstantOp)]
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
    """How many launches the ops of a block are; views and constants are none."""
    return sum(
        isinstance(op, TensorOp) and not isinstance(op, ConstantOp) and op.ACCESS is not Access.VIEW
        for op in block.walk()
    )


def unrolled_size(block: Block) -> int:
    """How many ops a block is with the loops in it unrolled, as `unroll` tries that with each copy
    of the body: otherwise nested loops would take time exponential in their depth."""
    size = 0
    for op in block.ops:
        inner = sum(unrolled_size(b) for b in nested_blocks(op))
        rounds = (trips(op) or 1) if isinstance(op, LoopOp) else 1
        size = min(size + 1 + rounds * inner, MOST_UNROLLED + 1)
    return size


def unroll(loop: LoopOp, simplify: Callable[[Block], None]) -> bool:
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
