"""Tile programs of open sizes in the folder of kept programs (`kept_programs.py`): which programs
each kernel has, or why it has none, of a whole program, since they follow from what all of it is
bound to. A compilation that finds an entry binds nothing, and writes nothing.

Elements of weights are no part of that: whoever writes them has no payload. Small constants are, as
they stand in the program.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr

from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.npu_task.program_info import NO_TILES, OPEN_TILES
from ge.dialects.support.functions import main_function
from ge.dialects.support.operation import all_ops
from ge.dialects.support.packages import installed
from ge.dialects.targets.target import target_for
from ge.dialects.text.outline import Outline
from ge.dialects.text.printing import op_text
from ge.dialects.tile.kernel import KernelOp as TileKernelOp
from ge.dialects.tile.text import TextKernelOp
from ge.lowering.pipeline.options import Options
from ge.lowering.pipeline.stages import tile_cache
from ge.lowering.plugins.extensions import registered
from ge.lowering.steps.bound_programs import COMPUTES
from ge.lowering.steps.kept_programs import compiler, is_foreign, name_of, parsed


def place_of(module: ModuleOp, options: Options) -> Path | None:
    """The file that keeps what the kernels of a program have; None where no folder keeps any, or
    nobody knows what passes or ops of others have become since."""
    folder = tile_cache(options)
    is_extended = options.plugins or installed() or registered().all_passes
    if not folder or is_extended or any(map(is_foreign, all_ops(module.body.blocks))):
        return None
    target = json.dumps(asdict(target_for(main_function(module) or module)), default=str)
    chosen = json.dumps(options.of_program(), default=str)
    return Path(folder) / name_of(f"{compiler()}{target}{chosen}{Outline({}).of(module)}")


def entry_of(module: ModuleOp) -> dict[str, Any]:
    """What is kept of a program whose kernels have theirs."""
    kernels: dict[str, list[str] | str] = {}
    programs: list[dict[str, Any]] = []
    texts: dict[Any, str] = {}  # of attributes
    last = ""
    for op in module.ops:
        if isinstance(op, KernelOp):
            last = op.sym_name.data
            kernels[last] = held(op)
        elif isinstance(op, TileKernelOp) and COMPUTES in op.attributes:
            programs.append({"after": last, **kept_program(op, texts)})
    return {"kernels": kernels, "programs": programs}


def held(kernel: KernelOp) -> list[str] | str:
    """The names of a kernel's programs, or why it has none."""
    reason = kernel.attributes.get(NO_TILES)
    if isinstance(reason, StringAttr):
        return reason.data
    names = cast("ArrayAttr[StringAttr]", kernel.attributes[OPEN_TILES])
    return [name.data for name in names]


def kept_program(op: TileKernelOp, texts: dict[Any, str]) -> dict[str, Any]:
    name = op.sym_name.data
    return {
        "name": name,
        "cores": op.core_count,
        "sizes": None if op.sizes is None else [size.data for size in op.sizes],
        "attributes": {n: cast(StringAttr, text).data for n, text in op.attributes.items()},
        "text": op_text(op, attributes=texts).removeprefix(f"{op.name} @{name}"),
    }


def give(module: ModuleOp, entry: Mapping[str, Any], ctx: Context) -> None:
    """Give the kernels of a program what an entry has for them. Programs are their texts, and ops
    when somebody looks into them."""
    kernels = {op.sym_name.data: op for op in module.ops if isinstance(op, KernelOp)}
    for name, has in entry["kernels"].items():
        state(kernels[name], has)
    for kept in reversed(entry["programs"]):
        program = TextKernelOp(kept["name"], kept["cores"], kept["text"], partial(parsed, ctx))
        if kept["sizes"] is not None:
            program.sizes = strings(kept["sizes"])
        program.attributes.update({n: StringAttr(text) for n, text in kept["attributes"].items()})
        module.body.block.insert_op_after(program, kernels[kept["after"]])


def state(kernel: KernelOp, has: Sequence[str] | str) -> None:
    """Note the names of a kernel's programs, or why it has none."""
    if isinstance(has, str):
        kernel.attributes[NO_TILES] = StringAttr(has)
    else:
        kernel.attributes.pop(NO_TILES, None)
        kernel.attributes[OPEN_TILES] = strings([*dict.fromkeys(has)])


def strings(texts: Sequence[str]) -> ArrayAttr[StringAttr]:
    return ArrayAttr(map(StringAttr, texts))
