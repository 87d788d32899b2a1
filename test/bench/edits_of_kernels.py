"""Edits of kernels, tilings and figures of a program (see `program_edits.py`)."""

import random

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
    """Other numbers of blocks."""
    tiled = [k for k in kernels(module) if k.tiling is not None]
    if not tiled:
        return False
    kernel = rng.choice(tiled)
    assert kernel.tiling is not None
    tiling = kernel.tiling
    blocks = rng.choice((0, -1, tiling.blocks.data + 1, tiling.blocks.data * 2, 100_000, 1))
    kernel.properties["tiling"] = TilingAttr.of(tiling.sizes, blocks, tiling.buffers.data)
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
