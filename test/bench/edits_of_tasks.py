"""Edits of loops, branches, streams, events and the order of a program (see `program_edits.py`)."""

import random
import re

from edited_ops import TASKS, buffers, main_of, ops_of, other_number, retyped, set_type
from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation

from ge.dialects.npu_task.attributes import number
from ge.dialects.npu_task.control import IfOp, LoopOp, YieldOp
from ge.dialects.npu_task.ops import (
    ConstantOp,
    CopyOp,
    LaunchOp,
    RecordOp,
    WaitOp,
    event_number,
)
from ge.dialects.support.types import array_ints

# ---- loops and branches ----------------------------------------------------------------------


def change_flags(module: ModuleOp, rng: random.Random) -> bool:
    """`order` or `stacked` of a loop or branch says something else."""
    ops = ops_of(module, IfOp, LoopOp)
    if not ops:
        return False
    op = rng.choice(ops)
    name = rng.choice([n for n in ("order", "stacked") if n in op.properties])
    values = list(array_ints(op.properties[name]))  # pyright: ignore[reportArgumentType]
    if values and rng.random() < 0.7:
        i = rng.randrange(len(values))
        values[i] = rng.choice((1 - values[i], 2, -1))
    else:
        values.append(rng.choice((0, 1)))
    op.properties[name] = DenseArrayBase.from_list(i64, values)
    return True


def change_trips(module: ModuleOp, rng: random.Random) -> bool:
    """A loop runs another number of times: another constant, or a value that is there."""
    loops = [op for op in ops_of(module, LoopOp) if isinstance(op, LoopOp)]
    if not loops:
        return False
    loop = rng.choice(loops)
    if loop.trip is not None and isinstance(loop.trip.owner, ConstantOp) and rng.random() < 0.7:
        text = str(loop.trip.owner.value)
        count = int(match[1]) if (match := re.match(r"dense<(-?\d+)>", text)) else 0
        from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, TensorType

        loop.trip.owner.properties["value"] = DenseIntOrFPElementsAttr.from_list(
            TensorType(i64, []), [other_number(rng, count) % 1000]
        )
        return True
    heads = [i for i, v in enumerate(loop.operands) if v in (loop.trip, loop.condition)]
    values = [v for v in buffers(module) if v.type == loop.operands[heads[0]].type] if heads else []
    if not values:
        return False
    loop.operands[heads[0]] = rng.choice(values)
    return True


def change_rows(module: ModuleOp, rng: random.Random) -> bool:
    """A scan buffer has more or fewer rows, in all that uses it."""
    loops = [op for op in ops_of(module, LoopOp) if isinstance(op, LoopOp) and op.scans]
    if not loops:
        return False
    scan = rng.choice(list(rng.choice(loops).scans))
    assert isinstance(scan.type, MemRefType)
    shape = list(scan.type.get_shape())
    shape[0] = max(shape[0] + rng.choice((-3, -1, 1, 2)), 0)
    set_type(scan, retyped(scan.type, shape=shape))
    return True


# ---- streams and events ----------------------------------------------------------------------


def change_event(module: ModuleOp, rng: random.Random) -> bool:
    """A record has another number, or a wait another event."""
    ops = ops_of(module, RecordOp, WaitOp)
    if not ops:
        return False
    op = rng.choice(ops)
    if isinstance(op, RecordOp):
        op.properties["number"] = number(other_number(rng, event_number(op)))
    else:
        op.operands[0] = rng.choice([o.results[0] for o in ops if isinstance(o, RecordOp)])
    return True


def drop_event(module: ModuleOp, rng: random.Random) -> bool:
    ops = ops_of(module, RecordOp, WaitOp)
    if not ops:
        return False
    remove(rng.choice(ops))
    return True


def change_stream(module: ModuleOp, rng: random.Random) -> bool:
    op = rng.choice(ops_of(module, *TASKS, RecordOp, WaitOp))
    stream = op.properties.get("stream")
    assert isinstance(stream, IntegerAttr)
    streams = main_of(module).attributes["npu_task.streams"]
    assert isinstance(streams, IntegerAttr)
    count = streams.value.data
    op.properties["stream"] = number(rng.choice((*range(count), rng.choice((count, -1, 4000)))))
    return op.properties["stream"] != stream


def remove(op: Operation) -> None:
    op.detach()
    op.drop_all_references()


def inner_ops(module: ModuleOp) -> list[Operation]:
    ends = (YieldOp, FuncOp, ReturnOp)
    return [op for op in ops_of(module, Operation) if not isinstance(op, ends)]


def delete_op(module: ModuleOp, rng: random.Random) -> bool:
    """A task, a view, a slot or an alloc is missing."""
    remove(rng.choice(inner_ops(module)))
    return True


def move_op(module: ModuleOp, rng: random.Random) -> bool:
    """An op stands elsewhere in its block, mostly near by, or in another block."""
    op = rng.choice(inner_ops(module))
    targets = [o for o in ops_of(module, Operation) if not isinstance(o, FuncOp)]
    if rng.random() < 0.7:
        same = [o for o in targets if o.parent is op.parent]
        at = same.index(op)
        targets = same[max(at - 5, 0) : at] + same[at + 2 : at + 7]
    targets = [t for t in targets if t is not op and t not in list(op.walk())]
    if not targets:
        return False
    target = rng.choice(targets)
    op.detach()
    assert target.parent is not None
    target.parent.insert_op_before(op, target)
    return True


def duplicate_op(module: ModuleOp, rng: random.Random) -> bool:
    """A task, record or wait comes twice, the second time somewhere behind."""
    op = rng.choice(ops_of(module, LaunchOp, CopyOp, RecordOp, WaitOp, LoopOp, IfOp))
    if op.results:
        return False
    block = op.parent
    assert block is not None
    after = list(block.ops)
    after = after[after.index(op) + 1 :]
    block.insert_op_before(op.clone(), rng.choice(after[:8] or [op]))
    return True
