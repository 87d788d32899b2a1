"""What a lowering of kernels to tiles is given, and what it returns.

A lowering is a function `Launch -> Written`: it looks at what one launch computes, and returns a
function that writes the tile program with the calls of `ge.tile`, as authors of kernels do. It
raises `NotLowered`, with a reason, for what it has no program for.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from xdsl.ir import SSAValue

from ge.dialects.fused_op import Body, FusedOp
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.support.types import Shape, constant_value, numel, shape_of
from ge.dialects.targets.target import Target

if TYPE_CHECKING:  # a compilation whose programs are all kept writes none
    from ge.runtime.library.language.tracing import Tracer
    from ge.runtime.library.language.values import Argument


class NotLowered(Exception):
    """There is no tile program for a kernel; the text says why."""


def no_room(needs: Mapping[str, int], target: Target) -> NotLowered:
    """No cut of a kernel fits: what the least one takes of memories that have less."""
    room = target.core_memories
    full = [f"{n} bytes of {m}, which has {room[m]}" for m, n in needs.items() if n > room[m]]
    least = f": the least takes {', '.join(full)}" if full else ""
    return NotLowered(f"no block of it fits on a core{least}")


Arguments: TypeAlias = "Mapping[SSAValue, Argument]"
"""The tile program's argument for each input and each output of the launch's body."""


@dataclass(frozen=True)
class Written:
    """How a tile program is written, and on how many cores it runs (None: all of their kind).

    `shapes`: those of memrefs that are not the values' own; the elements are the same, in the same
    order. `us`: how long it takes with its start, by the estimate of its cut, where there is one.
    """

    write: "Callable[[Tracer, Arguments], None]"
    cores: int | None
    shapes: Mapping[SSAValue, Shape] = field(default_factory=dict[SSAValue, Shape])
    us: float | None = None


@dataclass(frozen=True)
class Launch:
    """What one kernel computes, and for which target."""

    kernel: KernelOp
    target: Target

    @cached_property
    def body(self) -> Body:
        return Body.of(self.kernel.main)

    @cached_property
    def operands(self) -> dict[SSAValue, SSAValue]:
        """The value of the kernel for each input of the body: its argument, or a constant."""
        main = self.kernel.main
        if isinstance(main, FusedOp):
            return dict(zip(self.body.inputs, main.operands, strict=True))
        return {v: v for v in self.body.inputs}

    def constant(self, value: SSAValue) -> ConstantOp | None:
        """The constant that an input of the body is."""
        owner = self.operands.get(value, value).owner
        return owner if isinstance(owner, ConstantOp) else None

    def number(self, value: SSAValue) -> Any | None:
        """The one number that an input of the body is; None where it is none, or not in the
        text."""
        constant = self.constant(value)
        if constant is None or numel(shape_of(value)) != 1:
            return None
        dense = constant_value(constant.result)
        return None if dense is None else dense.get_values()[0]

    def in_memory(self) -> list[tuple[str, list[SSAValue]]]:
        """The arguments of the tile program: the name of each, and the values of the body that it
        is. They are the kernel's arguments, its constants in device memory, its results."""
        block, main = self.kernel.body.block, self.kernel.main
        users: dict[SSAValue, list[SSAValue]] = {a: [] for a in block.args}
        users |= {c.results[0]: [] for c in self.kernel.constants}
        for value, operand in self.operands.items():
            if operand in users:
                users[operand].append(value)
        for arg in block.args:
            users[arg] = users[arg] or [arg]  # that nothing reads
        inputs = [(f"in{i}", values) for i, values in enumerate(users.values())]
        last = block.last_op
        assert last is not None
        results = [self.body.outputs[main.results.index(v)] for v in last.operands]
        return inputs + [(f"out{i}", [v]) for i, v in enumerate(results)]


@dataclass(frozen=True)
class Replaced(Launch):
    """A launch whose body is another one that computes the same."""

    new: Body
    before: Mapping[SSAValue, SSAValue]
    """The inputs and outputs of the launch by those of `new`."""
    of: Launch | None = field(default=None, kw_only=True)  # that has another body already

    @cached_property
    def body(self) -> Body:
        return self.new

    @cached_property
    def operands(self) -> dict[SSAValue, SSAValue]:
        old = (self.of or Launch(self.kernel, self.target)).operands
        return {v: old[self.before[v]] for v in self.new.inputs}

    def original(self, written: Written) -> Written:
        """The same program, by the values of the launch itself."""

        def write(c: "Tracer", arguments: Arguments) -> None:
            written.write(c, {v: arguments[o] for v, o in self.before.items() if o in arguments})

        shapes = {o: written.shapes.get(v, shape_of(v) or (1,)) for v, o in self.before.items()}
        return replace(written, write=write, shapes=shapes)
