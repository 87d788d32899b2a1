"""Facts of a value or an op beyond its text: bytes, when it is live, its place in memory, its time
in the target's clock, its node of the model."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue
from xdsl.utils.exceptions import VerifyException

from ge.dialects.npu_task.memory import owner_of
from ge.dialects.npu_task.ops import KernelOp, LaunchOp, SlotOp, kernels_of
from ge.dialects.support.diagnostics import listing, sources_of
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.support.tensor_op import InferenceInterface
from ge.dialects.support.types import byte_size
from ge.dialects.targets.target import Target, target_for
from ge.lowering.levels.level import Level, level_of
from ge.runtime.clock.clock import simulate
from ge.runtime.clock.timeline import Task, Timeline, estimated
from ge.runtime.profile.trace import residences
from ge.tools.views.facts import body_of, time_alone

# What the compiler raises about a module that does not verify, or that is none of its levels
UNKNOWN = (
    *(GeError, VerifyException, ValueError, LookupError),
    *(AttributeError, AssertionError, TypeError),
)


@dataclass
class ModuleFacts:
    """The facts of a module, each worked out when it is asked for. What cannot be known is left
    out: a module that is being written need not make sense."""

    module: ModuleOp
    file: str = ""  # that it was read from
    target_name: str = ""  # instead of the one that the module names

    @cached_property
    def main(self) -> FuncOp | None:
        try:
            return main_function(self.module)
        except GeError:
            return None

    @cached_property
    def target(self) -> Target | None:
        try:
            return None if self.main is None else target_for(self.main, self.target_name)
        except GeError:
            return None

    @cached_property
    def kernels(self) -> dict[str, KernelOp]:
        return kernels_of(self.module)

    @cached_property
    def tasks(self) -> dict[Operation, list[Task]]:
        """The tasks of a program by op, as they are when it runs; of anything else none."""
        tasks: dict[Operation, list[Task]] = {}
        for task in self._timeline.tasks if self._timeline else ():
            tasks.setdefault(task.op, []).append(task)
        return tasks

    @cached_property
    def _timeline(self) -> Timeline | None:
        self._lives: dict[Operation, tuple[float, float]] = {}
        try:
            if self.target is None or level_of(self.module) is not Level.PROGRAM:
                return None
            timeline = simulate(self.module, self.target)
            for use in residences(timeline):
                start, end = self._lives.get(use.slot, (use.start_us, use.end_us))
                self._lives[use.slot] = min(start, use.start_us), max(end, use.end_us)
            return timeline
        except UNKNOWN:
            return None

    # ---- lines of text -----------------------------------------------------------------------

    def of_value(self, value: SSAValue) -> Iterator[str]:
        inferred = inferred_type(value)
        if inferred is not None and inferred != value.type:
            yield f"`{inferred}` follows from the operands"
        size = bytes_of(value)
        if size is not None:
            yield f"{size:,} bytes"
        yield from self.place(value)
        yield from self.life(value)

    def place(self, value: SSAValue) -> Iterator[str]:
        """Yield where the memory plan has a buffer."""
        slot = self.slot_of(value)
        size = None if slot is None else bytes_of(slot.result)
        if slot is not None and size is not None:
            first = slot.offset.value.data
            yield f'in segment "{slot.segment.data}", bytes {first:,} to {first + size:,}'

    def slot_of(self, value: SSAValue) -> SlotOp | None:
        try:
            owner = owner_of(value).owner
        except UNKNOWN:
            return None
        return owner if isinstance(owner, SlotOp) else None

    def life(self, value: SSAValue) -> Iterator[str]:
        """Yield from when to when a value is in use: in the clock of a program, else by the order
        of the ops of its block."""
        slot = self.slot_of(value)
        timeline = self._timeline
        if slot is not None and timeline is not None and slot in self._lives:
            start, end = self._lives[slot]
            run = f"of a run on {timeline.machine}"
            yield f"in use from {start:.2f} to {end:.2f} us {run}"
        elif (steps := steps_of(value)) is not None:
            first, last, count = steps
            until = "the end" if last is None else f"op {last}"
            beyond = ", and in other blocks" if last is None else ""
            yield f"live from op {first} to {until} of the {count} in its block{beyond}"

    def of_op(self, op: Operation) -> Iterator[str]:
        yield from self.time(op)
        if sources := [s for s in sources_of(op) if s and not s.startswith(f"{self.file}:")]:
            yield "from " + listing([f"`{s}`" for s in sources], 8, ", ")

    def time(self, op: Operation) -> Iterator[str]:
        """Yield how long an op takes: in a run of the program that it is in, or alone."""
        if self.target is None:
            return
        if tasks := self.tasks.get(op):
            first = tasks[0]
            runs = sum(t.runs for t in tasks)
            times = "" if runs == 1 else f", the first of {runs} runs"
            yield (
                f"{first.duration_us:.2f} us on {first.engine}, from {first.start_us:.2f} us"
                f"{times}, on {self.target.timed(*estimated(tasks))}"
            )
            return
        if op.parent_op() is not self.main and not isinstance(op, LaunchOp):
            return  # what is in a body takes no launch of its own
        try:
            alone = time_alone(body_of(op, self.kernels), self.target)
        except UNKNOWN:
            return
        if alone:
            yield f"{alone:.2f} us alone, with its launch, on {self.target.timed(1, 1)}"


def inferred_type(value: SSAValue) -> Attribute | None:
    """The type that an op infers for its result; None where it infers none."""
    op = value.owner
    if not isinstance(op, InferenceInterface) or not isinstance(value, OpResult):
        return None
    try:
        return op.inferred()[value.index]
    except UNKNOWN:
        return None


def bytes_of(value: SSAValue) -> int | None:
    """The bytes of a tensor or buffer whose sizes are known."""
    try:
        return byte_size(value.type)
    except UNKNOWN:
        return None


def steps_of(value: SSAValue) -> tuple[int, int | None, int] | None:
    """The number, from 1, of the op of a block that makes a value (0: it is an argument) and of the
    last one that uses it or holds such an op (None: another block does); and how many ops the block
    has."""
    owner = value.owner
    block = owner if isinstance(owner, Block) else owner.parent_block()
    if block is None:
        return None
    numbers = {op: number for number, op in enumerate(block.ops, 1)}
    first = 0 if isinstance(owner, Block) else numbers[owner]
    users = [block.find_ancestor_op_in_block(use.operation) for use in value.uses]
    inside = [numbers[op] for op in users if op is not None]
    last = max(inside, default=first) if len(inside) == len(users) else None
    return first, last, len(numbers)
