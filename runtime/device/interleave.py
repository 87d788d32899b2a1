"""Random legal timings of a program: other orders in which its tasks may take effect.

A task starts when the one before it on its stream, and all that it waits for, are done. With a
random duration for each task, and streams that are faster or slower by orders of magnitude, the
times follow in one walk; sorted by them, the tasks are in an order that streams and events allow.
Control flow keeps its place: all streams are idle before and after. A program without races gives
the same bits in each of these orders.

    launch @a on 0          times of stream 0: @a 0..7, of stream 1: @b 0..2, @c 7..8
    launch @b on 1    ->    order @b, @a, @c
    %event = record 0 on 0
    wait %event on 1
    launch @c on 1
"""

from collections import defaultdict

import numpy as np
from xdsl.ir import Operation

from ge.dialects.npu_task.memory import Task
from ge.dialects.npu_task.ops import RecordOp, WaitOp, event_number
from ge.runtime.device.executable import Code

SPREAD = 4.0  # streams differ in speed by up to about e to this power, both ways


class Timing:
    """Start and end of each task of an epoch."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.speeds = defaultdict[int, float](lambda: float(np.exp(rng.normal(0.0, SPREAD / 2))))
        # When all that was issued to a stream so far is done, and when events happen
        self.now, self.events = defaultdict[int, float](float), defaultdict[int, float](float)

    def visit(self, op: Operation) -> tuple[float, float] | None:
        """Issue an op; return start and end of a task, None for other ops."""
        match op:
            case RecordOp():
                self.events[event_number(op)] = self.now[op.stream.value.data]
            case WaitOp():
                stream = op.stream.value.data
                self.now[stream] = max(self.now[stream], self.events[event_number(op)])
            case _ if isinstance(op, Task):
                stream = 0 if op.stream is None else op.stream.value.data
                start = self.now[stream]
                self.now[stream] += self.speeds[stream] * float(np.exp(self.rng.normal())) + 1e-9
                return start, self.now[stream]
            case _:
                pass
        return None


def random_order(code: Code, rng: np.random.Generator) -> list[int]:
    """The steps of a block in the order of a random legal timing. A task takes effect when it
    starts or when it ends, the same for all tasks of an order; steps that are no tasks (views,
    control flow) come when what they read is there."""
    if not code.instructions:
        return []
    block = code.instructions[0].op.parent
    assert block is not None
    steps = defaultdict[Operation, list[int]](list)
    for number, instruction in enumerate(code.instructions):
        steps[instruction.op].append(number)
    at_end = bool(rng.integers(2))
    order: list[int] = []
    timed: list[tuple[float, int]] = []
    timing = Timing(rng)
    for op in block.ops:
        span, own = timing.visit(op), steps.get(op, [])
        if span is not None and own:
            timed += [(span[at_end], step) for step in own]
        elif op.regions:
            order += [step for _, step in sorted(timed)]
            order += own
            timed, timing = [], Timing(rng)
    return with_views(code, [*order, *(step for _, step in sorted(timed))])


def with_views(code: Code, order: list[int]) -> list[int]:
    """The order with the steps that it does not name before the first one that needs them."""
    makers = {w: i for i, step in enumerate(code.instructions) for w in step.writes}
    named, placed = set(order), set[int]()
    result: list[int] = []

    def place(step: int) -> None:
        if step in placed:
            return
        placed.add(step)
        for register in code.instructions[step].reads:
            maker = makers.get(register)
            if maker is not None and maker not in named:
                place(maker)
        result.append(step)

    for step in (*order, *range(len(code.instructions))):
        place(step)
    return result
