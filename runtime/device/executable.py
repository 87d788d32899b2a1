"""The executable form of a block of ops: a list of steps over a file of registers.

A step is a function of the registers, made once; running is a loop over steps. A register is
emptied after its last use, so a large model does not keep its intermediate values.
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from xdsl.ir import Operation

from ge.dialects.support.diagnostics import location_of
from ge.dialects.support.errors import Ended, GeError
from ge.runtime.data.arrays import Array, type_of
from ge.runtime.numbers import Fn, bind
from ge.runtime.numbers.plan import Action, Scratch

Registers: TypeAlias = list[Any]
Step: TypeAlias = Callable[[Registers], None]
Check: TypeAlias = Callable[[Any], Array]


@dataclass(frozen=True, slots=True)
class Finished:
    """The function of a kernel that takes `then=`, and that of one that makes its result of each
    block at once. The other operands of that are the last ones, of one element, and `at` says how
    many of them stand before the block."""

    function: Fn
    then: Fn
    count: int  # operands of the first function
    at: int

    def on_blocks(self, arrays: Sequence[Array]) -> Callable[[Array, Array], None]:
        # a block may have fewer dimensions
        others = [a if a.ndim < 2 else a.reshape(1) for a in arrays[self.count :]]
        before, after, then = others[: self.at], others[self.at :], self.then

        def finish(block: Array, result: Array) -> None:
            then(*before, block, *after, out=result)

        return finish

    def __call__(self, *arrays: Array, out: Array | None = None) -> Any:
        return self.function(*arrays[: self.count], out=out, then=self.on_blocks(arrays))

    def bind(self, scratch: Scratch, *arrays: Array, out: Array) -> Action:
        first, then = arrays[: self.count], self.on_blocks(arrays)
        return bind(self.function, scratch, *first, out=out, then=then)


@dataclass(slots=True)
class Call:
    """A call of a kernel. `out` is the register of an array to write the result to (or of None:
    then the kernel makes one); only a kernel that takes `out=` has one."""

    function: Callable[..., Any]
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    checks: tuple[Check, ...]
    into: bool  # whether the kernel takes `out=`
    in_place: bool  # whether `out` may be one of the operands
    out: int | None = None
    # Whether a later step overwrites the result: then it must not be a view of an operand
    overwritten: bool = False
    blocks: bool = False  # whether the kernel takes `then=`

    def finished_by(self, last: "Call") -> "Call":
        """This call and then `last`, which reads its result, on each block while it is in the
        cache. The other operands of `last` have one element."""
        at = last.reads.index(self.writes[0])
        rest = (*last.reads[:at], *last.reads[at + 1 :])
        both = Finished(self.function, last.function, len(self.reads), at)
        return Call(both, (*self.reads, *rest), last.writes, last.checks, True, False)

    def step(self) -> Step:
        function, reads = self.function, self.reads
        if len(self.writes) != 1:
            return self._several()
        (result,), (check,), out = self.writes, self.checks, self.out
        if self.overwritten and out is None:

            def owning(registers: Registers) -> None:
                arrays = [registers[r] for r in reads]
                y = check(function(*arrays))
                shared = any(np.may_share_memory(y, a) for a in arrays)
                registers[result] = y.copy() if shared else y

            return owning
        if out is not None:

            def into(registers: Registers) -> None:
                arrays = [registers[r] for r in reads]
                registers[result] = check(function(*arrays, out=registers[out]))

            return into
        if len(reads) == 2:
            first, second = reads

            def binary(registers: Registers) -> None:
                registers[result] = check(function(registers[first], registers[second]))

            return binary

        def single(registers: Registers) -> None:
            registers[result] = check(function(*[registers[r] for r in reads]))

        return single

    def _several(self) -> Step:
        function, reads, writes, checks = self.function, self.reads, self.writes, self.checks

        def several(registers: Registers) -> None:
            values = function(*[registers[r] for r in reads])
            for r, check, y in zip(writes, checks, values, strict=True):
                registers[r] = check(y)

        return several


@dataclass(slots=True)
class Instruction:
    """A step, or the call that becomes one, with the op it comes from and the registers it reads
    and writes (of nested blocks those that belong to a block around)."""

    action: Step | Call
    op: Operation
    reads: tuple[int, ...]
    writes: tuple[int, ...]


@dataclass(slots=True)
class Code:
    """The steps of one block. `seal` is called once, when all instructions are there."""

    # Whether errors name the place of the op. The code of a kernel does not: its launch does.
    named: bool = True
    instructions: list[Instruction] = field(default_factory=list[Instruction])
    # Another order of the steps, in which registers are not emptied; None: that of the text
    order: Sequence[int] | None = None
    _steps: list[tuple[Step, tuple[int, ...]]] = field(
        default_factory=list[tuple[Step, tuple[int, ...]]]
    )

    def seal(self, arguments: Sequence[int], live: set[int]) -> None:
        """Decide after which step each register is emptied. `arguments` are written before the
        first step; `live` are registers that are read after the last one or hold constants."""
        last: dict[int, int] = dict.fromkeys(arguments, -1)
        for i, instruction in enumerate(self.instructions):
            last.update(dict.fromkeys(instruction.writes, i))
            last.update((r, i) for r in instruction.reads if r in last)
        dead: list[list[int]] = [[] for _ in self.instructions]
        for r, i in last.items():
            if i >= 0 and r not in live:
                dead[i].append(r)
        for instruction, registers in zip(self.instructions, dead, strict=True):
            action = instruction.action
            step = action.step() if isinstance(action, Call) else action
            self._steps.append((step, tuple(registers)))

    def read(self) -> set[int]:
        return {r for i in self.instructions for r in i.reads}

    def written(self) -> set[int]:
        return {w for i in self.instructions for w in i.writes}

    def after(self, index: int, extra: Callable[[], None]) -> None:
        step, dead = self._steps[index]

        def both(registers: Registers) -> None:
            step(registers)
            extra()

        self._steps[index] = (both, dead)

    def stepper(self, registers: Registers) -> Callable[[Operation | None], None]:
        """A function that runs the remaining steps up to that of an op (None: all), for callers
        that decide when."""
        places = {instruction.op: i for i, instruction in enumerate(self.instructions)}
        start = 0

        def run_until(op: Operation | None) -> None:
            nonlocal start
            first, end = start, len(self._steps) if op is None else places.get(op, -1) + 1
            start = max(first, end)
            for index in range(first, start):
                step, dead = self._steps[index]
                try:
                    step(registers)
                except Exception as e:
                    raise self._located(e, index, registers) from e
                for r in dead:
                    registers[r] = None

        return run_until

    def stages(
        self, first: Collection[int], last: Collection[int]
    ) -> tuple["Code", "Code", "Code"]:
        """Some instructions (by number) to be run before all others, and some after them, as codes
        of their own; no register that the last ones read is emptied before."""
        rest = [i for i in range(len(self.instructions)) if i not in first and i not in last]
        kept = {r for i in last for r in self.instructions[i].reads}
        parts: list[Code] = []
        for numbers in (sorted(first), rest, sorted(last)):
            part = Code(self.named, [self.instructions[i] for i in numbers])
            for step, dead in (self._steps[i] for i in numbers):
                emptied = tuple(r for r in dead if r not in kept) if numbers is rest else ()
                part._steps.append((step, emptied))
            parts.append(part)
        return parts[0], parts[1], parts[2]

    def bind(self, registers: Registers, scratch: Scratch) -> Action:
        """An action that runs the steps on the arrays that are in the registers and stay there. All
        steps are calls with one result, whose register has its array."""
        calls: list[Action] = []
        for call in (i.action for i in self.instructions):
            assert isinstance(call, Call)
            arrays, out = [registers[r] for r in call.reads], registers[call.writes[0]]
            calls.append(bind(call.function, scratch, *arrays, out=out))

        def run() -> None:
            index = 0
            try:
                for index, call in enumerate(calls):
                    call()
            except Exception as e:
                raise self._located(e, index, registers) from e

        return run

    def run(self, registers: Registers) -> None:
        """Run all steps. Raises GeError that names the op that failed and its operands."""
        index = 0
        try:
            if self.order is not None:
                for index in self.order:
                    self._steps[index][0](registers)
                return
            for index, (step, dead) in enumerate(self._steps):
                step(registers)
                for r in dead:
                    registers[r] = None
        except Exception as e:
            raise self._located(e, index, registers) from e

    def _located(self, error: Exception, index: int, registers: Registers) -> GeError:
        instruction = self.instructions[index]
        where = str(location_of(instruction.op)) if self.named else ""
        if isinstance(error, GeError):
            located = error.where or isinstance(error, Ended)
            return error if located else GeError(error.message, where, error.hint)
        operands = ", ".join(describe(registers[r]) for r in instruction.reads)
        suffix = f" of ({operands})" if operands else ""
        reason = "out of memory" if isinstance(error, MemoryError) else " ".join(str(error).split())
        reason = reason or type(error).__name__
        return GeError(f"{instruction.op.name}{suffix} cannot be computed: {reason}", where)


def reuse_operands(code: Code, live: set[int], same_type: Callable[[int, int], bool]) -> None:
    """Have kernels that may work in place write their result over an operand that nobody else
    reads: memory that is in the cache already costs less than new memory. `live` as in `seal`."""
    readers = Counter(r for instruction in code.instructions for r in instruction.reads)
    fresh: dict[int, Call] = {}
    for instruction in code.instructions:
        call = instruction.action
        if not isinstance(call, Call) or len(call.writes) != 1 or call.out is not None:
            continue
        (result,) = call.writes
        if call.in_place:
            for r in call.reads:
                if r in fresh and readers[r] == 1 and r not in live and same_type(r, result):
                    call.out, fresh[r].overwritten = r, True
                    break
        if call.into:
            fresh[result] = call


def describe(value: Array | None) -> str:
    if value is None:
        return "?"
    try:
        return str(type_of(value))
    except GeError:
        return f"{value.dtype}{list(value.shape)}"
