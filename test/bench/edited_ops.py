"""What edits of programs are made of: the ops, the buffers, other numbers and types."""

import random
from collections.abc import Sequence

from xdsl.dialects.builtin import (
    MemRefType,
    ModuleOp,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from ge.dialects.npu_task.ops import (
    CopyOp,
    LaunchOp,
    TransferOp,
)
from ge.dialects.support.functions import main_function

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
