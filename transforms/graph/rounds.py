"""How many rounds a loop has, found by running the part of its body that decides; and loops of
few rounds written out."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.control import LoopOp
from ge.dialects.support.access import Access
from ge.dialects.support.diagnostics import remark
from ge.dialects.support.errors import GeError
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import byte_size, constant_value, has_size
from ge.runtime import kernels
from ge.runtime.data.arrays import Array, array_of
from ge.transforms.graph.control_flow import (
    end_of,
    erase,
    nested_blocks,
    replace_op,
    with_limits,
)
from ge.transforms.graph.eliminate_dead_code import eliminate_dead_code
from ge.transforms.graph.loops import (
    constant_before,
    goes_on,
    inline_rounds,
    scans_are_ranked,
    trips,
    truth,
)
from ge.transforms.graph.share_common_subexpressions import share_common_subexpressions
from ge.transforms.rewriting.counts import count

MOST_STEPS = 4096
"""Most ops that are run to find the number of rounds."""

MOST_OPS = 64
"""A condition that depends on more ops than this is not followed."""

MOST_UNROLLED = 256
"""Most ops that a loop is written out to, to see what becomes of them."""


# ---- counting --------------------------------------------------------------------------------


@dataclass
class Decision:
    """What decides whether a loop goes on: ops of its body, in order, and carried values by
    number."""

    ops: list[Operation]
    carried: list[int]


def decision(loop: LoopOp, limit: int) -> Decision | None:
    """What the next condition depends on, in this round or in later ones; None when that is more
    than numbers that are known before the loop."""
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
    return Decision(ops, carried) if len(ops) <= MOST_OPS else None


def _is_small(op: Operation, limit: int) -> bool:
    return (
        isinstance(op, TensorOp)
        and not op.regions
        and op.has_trait(Pure)
        and all(map(has_size, op.results))
        and all(byte_size(r.type) <= limit for r in op.results)
    )


def count_rounds(loop: LoopOp, limit: int) -> LoopOp:
    """A loop that starts from constants and decides by itself when to end has a constant number
    of rounds. `limit`: most bytes of a value that is followed.

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
    deciding = decision(loop, limit)
    rounds = None if deciding is None else _run(loop, deciding, known)
    if rounds is None:
        return loop
    trip = constant_before(loop, np.array(rounds, np.int64))
    end_of(loop.body.block).operands[0] = loop.body.block.args[1]
    count("count-rounds")
    return with_limits(loop, trip, None)


def _run(loop: LoopOp, deciding: Decision, most: int | None) -> int | None:
    """The number of rounds, at most `most`; None when it takes too long to find out."""
    block, end = loop.body.block, end_of(loop.body.block)
    steps = [(op, kernels.prepare(op)) for op in deciding.ops if not isinstance(op, ConstantOp)]
    known: dict[SSAValue, Array] = {}

    def array(value: SSAValue) -> Array:
        if value not in known and (constant := constant_value(value)) is not None:
            known[value] = array_of(constant)
        return known[value]

    state = [array(loop.carried[i]) for i in deciding.carried]
    for rounds in range(1, MOST_STEPS // (len(steps) + 1)):
        known[block.args[0]], known[block.args[1]] = np.array(rounds - 1, np.int64), np.array(True)
        known.update(zip((block.args[2 + i] for i in deciding.carried), state, strict=True))
        try:
            for op, fn in steps:
                results = kernels.results_of(fn(*(array(o) for o in op.operands)))
                known.update(zip(op.results, results, strict=True))
        except (GeError, ArithmeticError, ValueError, IndexError):
            return None  # the error belongs to the run
        if rounds == most or not array(end.operands[0]).all():
            return rounds
        state = [array(end.operands[1 + i]) for i in deciding.carried]
    return None


# ---- unrolling -------------------------------------------------------------------------------


def launches(block: Block) -> int:
    """How many launches the ops of a block are: views and constants are none."""
    return sum(
        isinstance(op, TensorOp) and not isinstance(op, ConstantOp) and op.ACCESS is not Access.VIEW
        for op in block.walk()
    )


def written_out(block: Block) -> int:
    """How many ops a block is when the loops in it are written out as well, as `unroll` tries
    with each copy of the body: without them loops in loops would take time exponential in their
    depth."""
    size = 0
    for op in block.ops:
        inner = sum(written_out(b) for b in nested_blocks(op))
        rounds = (trips(op) or 1) if isinstance(op, LoopOp) else 1
        size = min(size + 1 + rounds * inner, MOST_UNROLLED + 1)
    return size


def unroll(loop: LoopOp, simplify: Callable[[Block], None]) -> bool:
    """A loop whose rounds, one after another and simplified by `simplify`, have no more launches
    than the loop, is written out.

    %h = graph.loop (%i, %go) trip %two carry (%a = %x : ...) {
      %b = graph.mul %i, %zero                                    becomes %x, as every
      %c = graph.add %a, %b                                       round adds 0
      graph.yield %go, %c
    }
    """
    rounds = trips(loop)
    if not (rounds and loop.is_counted() and scans_are_ranked(loop)):
        return False
    if rounds * written_out(loop.body.block) > MOST_UNROLLED:
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
    assert loop.parent is not None
    values = list(end.operands)
    erase(end)
    for op in list(scratch.ops):
        op.detach()
        loop.parent.insert_op_before(op, loop)
    replace_op(loop, values)
    return True
