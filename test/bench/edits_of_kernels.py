"""Edits of kernels, tilings, core plans and figures of a program (see `program_edits.py`)."""

import random
from dataclasses import replace

from edited_ops import main_of, ops_of, other_number
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    i32,
    i64,
)
from xdsl.ir import Attribute

from ge.dialects.npu_task.attributes import Engine, EngineAttr, TilingAttr
from ge.dialects.npu_task.control import flags
from ge.dialects.npu_task.core_plan import MEMORIES, CoreBuffer, CorePlanAttr
from ge.dialects.npu_task.ops import (
    KernelOp,
    LaunchOp,
)
from ge.dialects.support.types import array_ints

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
