"""Rules for `graph.loop`, a function each; all of them keep every bit."""

import numpy as np
from xdsl.ir import Operation, SSAValue

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.control import LoopOp
from ge.dialects.graph.shape import UnsqueezeOp
from ge.dialects.graph.slicing import ConcatOp
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import constant_ints, element_type, is_ranked, refine, shape_of
from ge.runtime.data.arrays import dtype_of
from ge.transforms.graph.control_flow import (
    constant_before,
    end_of,
    inline,
    insert_before,
    keep_results,
    move_before,
    replace_op,
)
from ge.transforms.rewriting.counts import count


def truth(value: SSAValue | None) -> bool | None:
    """The value of a condition, if it is known; an absent one holds."""
    if value is None:
        return True
    known = constant_ints(value)
    return bool(known[0]) if known else None


def trips(loop: LoopOp) -> int | None:
    known = None if loop.trip_count is None else constant_ints(loop.trip_count)
    return known[0] if known else None


def runs(loop: LoopOp) -> bool:
    """Whether the body surely runs at least once."""
    return truth(loop.condition) is True and (loop.trip_count is None or (trips(loop) or 0) > 0)


def goes_on(loop: LoopOp) -> bool | None:
    """The condition that the body yields, if it is known."""
    end = end_of(loop.body.block).operands[0]
    return True if end is loop.body.block.args[1] else truth(end)


# ---- known numbers of rounds -----------------------------------------------------------------


def drop_idle_loop(loop: LoopOp) -> bool:
    """Replace a loop without rounds by the start values, and empty scan results; whether it was.

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


def inline_single_round(loop: LoopOp) -> bool:
    """Inline the body of a loop of exactly one round; whether it was.

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


def inline_rounds(loop: LoopOp, rounds: int) -> None:
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
            members.append(insert_before(loop, UnsqueezeOp.of(value, axes=[0])).result)
    stacks = [
        members[0] if rounds == 1 else insert_before(loop, ConcatOp.of(members, axis=0)).result
        for members in slices
    ]
    replace_op(loop, [*carried, *stacks])


def scans_are_ranked(loop: LoopOp) -> bool:
    return all(is_ranked(v) for v in end_of(loop.body.block).operands[1 + len(loop.carried) :])


# ---- what is carried -------------------------------------------------------------------------


def drop_unchanged_values(loop: LoopOp) -> LoopOp:
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


def merge_equal_values(loop: LoopOp) -> None:
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


def hoist_invariants(loop: LoopOp) -> None:
    """Hoist what is the same in every round; out of a loop that may have no rounds only what cannot
    fail.

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
            if not isinstance(op, ConstantOp):
                count("hoist-invariants")
        else:
            inside.update(op.results)


def may_fail(op: Operation) -> bool:
    """Whether an op may refuse values, or never end."""
    return not isinstance(op, TensorOp) or bool(op.regions) or op.can_fail()
