"""Edits of operands, views, slots and types of a program (see `program_edits.py`)."""

import random
from collections.abc import Sequence

from edited_ops import TASKS, buffers, main_of, ops_of, other_number, retyped, set_type
from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    StridedLayoutAttr,
    UnitAttr,
    f16,
    f32,
    i32,
    i64,
)
from xdsl.dialects.memref import ReinterpretCastOp
from xdsl.ir import SSAValue

from ge.dialects.npu_task.attributes import HBM, HOST
from ge.dialects.npu_task.control import IfOp, LoopOp, YieldOp
from ge.dialects.npu_task.ops import (
    Segment,
    SlotOp,
)
from ge.dialects.support.types import array_ints

# ---- operands --------------------------------------------------------------------------------


def replace_operand(module: ModuleOp, rng: random.Random, same_type: bool = True) -> bool:
    """An operand is another value, of the same type or of any."""
    op = rng.choice(ops_of(module, *TASKS, YieldOp, IfOp, LoopOp, ReinterpretCastOp))
    if not op.operands:
        return False
    i = rng.randrange(len(op.operands))
    values = [v for v in buffers(module) if v is not op.operands[i]
              and (not same_type or v.type == op.operands[i].type)]  # fmt: skip
    if not values:
        return False
    op.operands[i] = rng.choice(values)
    return True


def replace_operand_by_any(module: ModuleOp, rng: random.Random) -> bool:
    return replace_operand(module, rng, same_type=False)


def swap_operands(module: ModuleOp, rng: random.Random) -> bool:
    """Two operands of one op change places, or one comes twice: ins and outs, carried buffers,
    inits and scans, yielded values, source and target."""
    op = rng.choice(ops_of(module, *TASKS, YieldOp, IfOp, LoopOp))
    if len(op.operands) < 2:
        return False
    i, j = rng.sample(range(len(op.operands)), 2)
    a, b = op.operands[i], op.operands[j]
    if a is b:
        return False
    op.operands[i] = b
    if rng.random() < 0.6:
        op.operands[j] = a
    return True


# ---- views -----------------------------------------------------------------------------------


def set_view(op: ReinterpretCastOp, offset: int, sizes: Sequence[int], strides: Sequence[int]):
    op.properties["static_offsets"] = DenseArrayBase.from_list(i64, [offset])
    op.properties["static_sizes"] = DenseArrayBase.from_list(i64, list(sizes))
    op.properties["static_strides"] = DenseArrayBase.from_list(i64, list(strides))
    layout = StridedLayoutAttr(list(strides), offset)
    set_type(op.result, retyped(op.result.type, shape=list(sizes), layout=layout))


def new_view(source: SSAValue, offset: int, sizes: Sequence[int], strides: Sequence[int]):
    layout = StridedLayoutAttr(list(strides), offset)
    t = retyped(source.type, shape=list(sizes), layout=layout)
    return ReinterpretCastOp.create(
        operands=[source], result_types=[t],
        properties={
            "static_offsets": DenseArrayBase.from_list(i64, [offset]),
            "static_sizes": DenseArrayBase.from_list(i64, list(sizes)),
            "static_strides": DenseArrayBase.from_list(i64, list(strides)),
            "operandSegmentSizes": DenseArrayBase.from_list(i32, [1, 0, 0, 0]),
        },
    )  # fmt: skip


def change_view(module: ModuleOp, rng: random.Random) -> bool:
    """Another offset, stride or size of a view; its users see what they saw, where sizes stay."""
    views = ops_of(module, ReinterpretCastOp)
    if not views:
        return False
    op = rng.choice(views)
    assert isinstance(op, ReinterpretCastOp)
    (offset,) = array_ints(op.static_offsets)
    sizes, strides = list(array_ints(op.static_sizes)), list(array_ints(op.static_strides))
    kind = rng.choice(("offset", "stride", "size", "order"))
    if kind == "offset" or not sizes:
        offset = other_number(rng, offset, rng.choice((1, *strides, 1)))
    elif kind == "stride":
        i = rng.randrange(len(strides))
        strides[i] = other_number(rng, strides[i])
    elif kind == "size":
        i = rng.randrange(len(sizes))
        sizes[i] = max(other_number(rng, sizes[i]), 0)
    else:
        rng.shuffle(strides)
    set_view(op, offset, sizes, strides)
    return True


def insert_view(module: ModuleOp, rng: random.Random) -> bool:
    """An operand goes through a view of its buffer, or of its view: the same elements, or shifted,
    backwards, with a stride of zero, of other rows."""
    op = rng.choice(ops_of(module, *TASKS))
    i = rng.randrange(len(op.operands))
    value = op.operands[i]
    assert isinstance(value.type, MemRefType)
    shape = list(value.type.get_shape())
    if any(n < 0 for n in shape):
        return False
    strides = [1] * len(shape)
    for k in range(len(shape) - 2, -1, -1):
        strides[k] = strides[k + 1] * shape[k + 1]
    offset = 0
    if isinstance(value.type.layout, StridedLayoutAttr):
        strides = [s or 0 for s in value.type.layout.get_strides() or strides]
        offset = value.type.layout.get_offset() or 0
    kind = rng.choice(("same", "shifted", "backwards", "zero", "twice"))
    if not shape:
        kind = rng.choice(("same", "shifted"))
    k = rng.randrange(len(shape)) if shape else 0
    if kind == "shifted":
        offset += rng.choice((-1, 1, 2, 64))
    elif kind == "backwards":
        offset += (shape[k] - 1) * strides[k] if rng.random() < 0.7 else 0
        strides[k] = -strides[k]
    elif kind == "zero":
        strides[k] = 0
    block = op.parent
    assert block is not None
    view = new_view(value, offset, shape, strides)
    block.insert_op_before(view, op)
    if kind == "twice":
        block.insert_op_before(outer := new_view(view.result, offset, shape, strides), op)
        view = outer
    op.operands[i] = view.result
    return True


# ---- slots -----------------------------------------------------------------------------------


def move_slot(module: ModuleOp, rng: random.Random) -> bool:
    """A slot at another offset: that of another slot, or some bytes away."""
    slots = [op for op in ops_of(module, SlotOp) if isinstance(op, SlotOp)]
    if not slots:
        return False
    slot = rng.choice(slots)
    others = [s.offset.value.data for s in slots if s.segment == slot.segment]
    now = slot.offset.value.data
    offset = rng.choice((rng.choice(others), now + rng.choice((-512, 512, 64, -64, 4096, 1))))
    if offset == now:
        return False
    slot.properties["offset"] = IntegerAttr(offset, i64)
    if rng.random() < 0.5:  # and its segment grows
        key = f"npu_task.{slot.segment.data}_bytes"
        size = main_of(module).attributes.get(key)
        if isinstance(size, IntegerAttr):
            main_of(module).attributes[key] = IntegerAttr(max(size.value.data, offset + 512), i64)
    return True


def change_segment(module: ModuleOp, rng: random.Random) -> bool:
    slots = ops_of(module, SlotOp)
    if not slots:
        return False
    slot = rng.choice(slots)
    assert isinstance(slot, SlotOp)
    slot.properties["segment"] = Segment.of("io" if slot.segment.data == "arena" else "arena")
    return True


def share_slot(module: ModuleOp, rng: random.Random) -> bool:
    """All users of a buffer use another one of its type, which is defined before."""
    slots = ops_of(module, SlotOp)
    pairs = [(a, b) for i, a in enumerate(slots) for b in slots[i + 1 :]
             if a.results[0].type == b.results[0].type]  # fmt: skip
    if not pairs:
        return False
    first, second = rng.choice(pairs)
    second.results[0].replace_all_uses_with(first.results[0])
    return True


# ---- types -----------------------------------------------------------------------------------


def change_type(module: ModuleOp, rng: random.Random) -> bool:
    """A buffer in another memory space, of another element type, shape or layout."""
    value = rng.choice(buffers(module))
    t = value.type
    assert isinstance(t, MemRefType)
    shape = list(t.get_shape())
    kind = rng.choice(("space", "element", "shape", "layout"))
    if kind == "space":
        t = retyped(t, space=HOST if t.memory_space == HBM else HBM)
    elif kind == "element":
        t = retyped(t, element=rng.choice([e for e in (f32, f16, i32, i64) if e != t.element_type]))
    elif kind == "shape" and shape:
        i = rng.randrange(len(shape))
        shape[i] = max(other_number(rng, shape[i]), 0) if rng.random() < 0.8 else -1
        t = retyped(t, shape=shape)
    elif shape:
        t = retyped(t, layout=StridedLayoutAttr([rng.choice((0, 1, 2, -1, 7)) for _ in shape], 0))
    set_type(value, t)
    return True


def pin(module: ModuleOp, rng: random.Random) -> bool:
    """A slot says that it is pinned, or does not any more."""
    slots = ops_of(module, SlotOp)
    if not slots:
        return False
    attributes = rng.choice(slots).attributes
    if attributes.pop("npu_task.pinned", None) is None:
        attributes["npu_task.pinned"] = UnitAttr()
    return True
