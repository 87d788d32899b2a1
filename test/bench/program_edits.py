"""Edits of the text of a program: one seeded change each, of the structure (operands, views, slots,
events, streams, loops, kernels, plans, figures) or of the characters.

`edit(program, rng)` gives the name of the change and the text; the text need not be a program
any more. Structural changes are made in a clone of the module, so that most of them can be read
back."""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    StridedLayoutAttr,
    StringAttr,
    f16,
    f32,
    i32,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.dialects.memref import ReinterpretCastOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from ge.dialects.npu_task.attributes import HBM, HOST, Engine, EngineAttr, TilingAttr, number
from ge.dialects.npu_task.control import IfOp, LoopOp, YieldOp, flags
from ge.dialects.npu_task.core_plan import MEMORIES, CoreBuffer, CorePlanAttr
from ge.dialects.npu_task.ops import (
    ConstantOp,
    CopyOp,
    KernelOp,
    LaunchOp,
    RecordOp,
    SlotOp,
    TransferOp,
    WaitOp,
)
from ge.dialects.support.functions import main_function
from ge.dialects.support.types import array_ints

Change = Callable[[ModuleOp, random.Random], bool]
"""Makes a change; False where the module has nothing of the kind."""

TASKS = (LaunchOp, CopyOp, TransferOp)


def main_of(module: ModuleOp) -> FuncOp:
    func = main_function(module)
    assert func is not None
    return func


def ops_of(module: ModuleOp, *kinds: type[Operation]) -> list[Operation]:
    return [op for op in main_of(module).walk() if isinstance(op, kinds)]


def buffers(module: ModuleOp) -> list[SSAValue]:
    """All memrefs of the program."""
    func = main_of(module)
    values = [a for op in func.walk() for r in op.regions for b in r.blocks for a in b.args]
    values += [r for op in func.walk() for r in op.results]
    return [v for v in values if isinstance(v.type, MemRefType)]


def other_number(rng: random.Random, value: int, step: int = 1) -> int:
    """Another number, mostly near by."""
    choices = (0, value - step, value + step, value * 2, value // 2, -value, value + 32, 1 << 40)
    return rng.choice([c for c in choices if c != value])


def retyped(t: Attribute, **parts: Attribute | Sequence[int]) -> MemRefType:
    assert isinstance(t, MemRefType)
    fields = {"element": t.element_type, "shape": t.get_shape(), "layout": t.layout,
              "space": t.memory_space} | parts  # fmt: skip
    return MemRefType(fields["element"], fields["shape"], fields["layout"], fields["space"])


def set_type(value: SSAValue, t: Attribute) -> None:
    value._type = t  # pyright: ignore[reportPrivateUsage]


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
    slot.properties["segment"] = StringAttr("io" if slot.segment.data == "arena" else "arena")
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
    """A record or wait has another event."""
    ops = ops_of(module, RecordOp, WaitOp)
    if not ops:
        return False
    op = rng.choice(ops)
    event = op.properties["event"]
    assert isinstance(event, IntegerAttr)
    op.properties["event"] = number(other_number(rng, event.value.data))
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


# ---- kernels ---------------------------------------------------------------------------------


def kernels(module: ModuleOp) -> list[KernelOp]:
    return [op for op in module.ops if isinstance(op, KernelOp)]


def launch_other(module: ModuleOp, rng: random.Random) -> bool:
    """A launch of another kernel."""
    launch, kernel = rng.choice(ops_of(module, LaunchOp)), rng.choice(kernels(module))
    assert isinstance(launch, LaunchOp)
    if kernel.sym_name.data == launch.callee:
        return False
    from xdsl.dialects.builtin import SymbolRefAttr

    launch.properties["kernel"] = SymbolRefAttr(kernel.sym_name.data)
    return True


def change_engine(module: ModuleOp, rng: random.Random) -> bool:
    kernel = rng.choice(kernels(module))
    engine = rng.choice([e for e in Engine if e is not kernel.engine.data])
    kernel.properties["engine"] = EngineAttr(engine)
    return True


def change_tiling(module: ModuleOp, rng: random.Random) -> bool:
    """Other tile sizes, blocks, copies; no tiling or plan."""
    tiled = [k for k in kernels(module) if k.tiling is not None]
    if not tiled:
        return False
    kernel = rng.choice(tiled)
    assert kernel.tiling is not None
    sizes, blocks = list(kernel.tiling.sizes), kernel.tiling.blocks.data
    copies = kernel.tiling.buffers.data
    kind = rng.choice(("size", "blocks", "copies", "no tiling", "no plan", "neither"))
    if kind in ("no tiling", "neither"):
        del kernel.properties["tiling"]
    if kind in ("no plan", "neither"):
        kernel.properties.pop("core", None)
    if kind == "size":
        i = rng.randrange(len(sizes))
        sizes[i] = rng.choice((sizes[i] * 2, sizes[i] * 16, max(sizes[i] // 2, 1), 0, -1))
    elif kind == "blocks":
        blocks = rng.choice((0, -1, blocks + 1, blocks * 2, 100_000, 1))
    elif kind == "copies":
        copies = rng.choice((0, 1, 2, 3))
    if "tiling" in kernel.properties:
        kernel.properties["tiling"] = TilingAttr.of(tuple(sizes), blocks, copies)
    return True


def change_plan(module: ModuleOp, rng: random.Random) -> bool:
    """A buffer of a core plan is missing, smaller, elsewhere, there at other steps, twice, in
    another memory, under another name."""
    planned = [k for k in kernels(module) if k.core is not None and any(b for _, b in k.core.data)]
    if not planned:
        return False
    kernel = rng.choice(planned)
    assert kernel.core is not None
    plan = [(name, list(content)) for name, content in kernel.core.data]
    m = rng.choice([i for i, (_, content) in enumerate(plan) if content])
    name, content = plan[m]
    b = rng.randrange(len(content))
    buffer = content[b]
    kind = rng.choice(("delete", "bytes", "bytes", "offset", "offset", "copies", "steps", "steps",
                       "twice", "memory", "name", "memory twice", "no memory"))  # fmt: skip
    if kind == "delete":
        del content[b]
    elif kind == "bytes":
        size = rng.choice((buffer.bytes // 2, buffer.bytes - 32, buffer.bytes + 32, 32, 0, -32,
                           buffer.bytes * 2, 1 << 30))  # fmt: skip
        content[b] = replace(buffer, bytes=size)
    elif kind == "offset":
        offsets = list(buffer.offsets)
        i = rng.randrange(len(offsets))
        other = rng.choice(content).offsets[0]
        offsets[i] = rng.choice((other, offsets[i] + rng.choice((-32, 32, 16, 64, 1 << 20)), -32))
        content[b] = replace(buffer, offsets=tuple(offsets))
    elif kind == "copies":
        content[b] = replace(buffer, offsets=rng.choice((buffer.offsets[:-1], buffer.offsets * 2)))
    elif kind == "steps":
        steps = buffer.steps or (0, 3)
        choices = (None, (steps[0] + 1, steps[1]), (steps[0], steps[1] - 1), (steps[1], steps[0]),
                   (steps[0], steps[1] + 1), (-1, 99), (0, 0))  # fmt: skip
        content[b] = replace(buffer, steps=rng.choice(choices))
    elif kind == "twice":
        content.append(buffer)
    elif kind == "memory":
        del content[b]
        other = rng.choice([n for n in MEMORIES if n != name])
        plan.append((other, [buffer]))
    elif kind == "name":
        content[b] = replace(buffer, name=rng.choice((rng.choice(content).name, "in9", "spam")))
    elif kind == "memory twice":
        plan.append((name, [CoreBuffer("lhs", 32, (0,))]))
    else:
        del plan[m]
    changed = CorePlanAttr(tuple((n, tuple(c)) for n, c in plan))
    if changed == kernel.core:
        return False
    kernel.properties["core"] = changed
    return True


# ---- figures ---------------------------------------------------------------------------------


def change_figure(module: ModuleOp, rng: random.Random) -> bool:
    """A figure of the program, or of its certificate, is another number, of another type, or not
    there."""
    func = main_of(module)
    names = [n for n, a in func.attributes.items() if n.startswith("npu_task.")]
    names.append("npu_task.certificate")
    name = rng.choice(names)
    attr = func.attributes[name]
    if isinstance(attr, DictionaryAttr):
        entries = dict(attr.data)
        key = rng.choice(list(entries))
        changed = other_attribute(entries[key], rng)
        if changed is None:
            del entries[key]
        else:
            entries[key] = changed
        func.attributes[name] = DictionaryAttr(entries)
        return True
    changed = other_attribute(attr, rng)
    if changed is None:
        del func.attributes[name]
    else:
        func.attributes[name] = changed
    return True


def other_attribute(attr: Attribute, rng: random.Random) -> Attribute | None:
    kind = rng.random()
    if kind < 0.1:
        return None
    if kind < 0.25:
        return rng.choice((StringAttr("9"), flags([True]), ArrayAttr([]), IntegerAttr(1, i32)))
    if isinstance(attr, IntegerAttr):
        return IntegerAttr(other_number(rng, attr.value.data), attr.type)
    if isinstance(attr, DenseArrayBase):
        values = list(array_ints(attr))
        if values and rng.random() < 0.7:
            values[rng.randrange(len(values))] += rng.choice((-1, 1, 100))
        else:
            values.append(0)
        return DenseArrayBase.from_list(i64, values)
    return StringAttr("")


def pin(module: ModuleOp, rng: random.Random) -> bool:
    """A slot says that it is pinned, or does not any more."""
    slots = ops_of(module, SlotOp)
    if not slots:
        return False
    attributes = rng.choice(slots).attributes
    if attributes.pop("npu_task.pinned", None) is None:
        from xdsl.dialects.builtin import UnitAttr

        attributes["npu_task.pinned"] = UnitAttr()
    return True


CHANGES: dict[str, tuple[int, Change]] = {
    "operand": (4, replace_operand),
    "operand of another type": (1, replace_operand_by_any),
    "operands swapped": (4, swap_operands),
    "view": (3, change_view),
    "view inserted": (4, insert_view),
    "slot moved": (4, move_slot),
    "segment": (1, change_segment),
    "slot shared": (2, share_slot),
    "type": (3, change_type),
    "order of a loop": (1, change_flags),
    "trips": (3, change_trips),
    "scan rows": (1, change_rows),
    "event": (3, change_event),
    "event dropped": (3, drop_event),
    "stream": (3, change_stream),
    "op deleted": (3, delete_op),
    "op moved": (4, move_op),
    "op twice": (3, duplicate_op),
    "kernel": (2, launch_other),
    "engine": (1, change_engine),
    "tiling": (2, change_tiling),
    "core plan": (5, change_plan),
    "figure": (4, change_figure),
    "pinned": (1, pin),
}
"""Name -> how often, relative to the others, and the change."""


# ---- characters ------------------------------------------------------------------------------

MAIN = re.compile(r"^ *func\.func @main", re.M)


def edit_characters(text: str, rng: random.Random) -> str:
    """A number or a name in the text is another one of the text, or a line is missing."""
    lines = text.splitlines()
    i = rng.randrange(1, len(lines) - 1)
    kind = rng.choice(("number", "number", "name", "line", "word"))
    if kind == "line":
        del lines[i]
        return "\n".join(lines)
    pattern = {"number": r"(?<![%@\w])-?\d+", "name": r"[%@]\w+", "word": r"(?<![%@])\b[a-z_]+\b"}
    places = list(re.finditer(pattern[kind], lines[i]))
    if not places:
        return text
    place = rng.choice(places)
    if kind == "number":
        new = str(other_number(rng, int(place[0])))
    else:
        new = rng.choice(re.findall(pattern[kind], text))
    lines[i] = lines[i][: place.start()] + new + lines[i][place.end() :]
    return "\n".join(lines)


def edit(module: ModuleOp, text: str, rng: random.Random) -> tuple[str, str]:
    """The name of a change, and the text with it."""
    while True:
        if rng.random() < 0.1:
            changed = edit_characters(text, rng)
            if changed != text:
                return "characters", changed
            continue
        names = list(CHANGES)
        (name,) = rng.choices(names, [CHANGES[n][0] for n in names])
        clone = module.clone()
        try:
            if CHANGES[name][1](clone, rng) and (changed := str(clone)) != text:
                return name, changed
        except (VerifyException, ValueError):  # an attribute that cannot even be made
            continue
