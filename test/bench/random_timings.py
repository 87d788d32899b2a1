"""What a program computes under random timings, found without its numbers: memory holds a token for
each byte, and a task writes tokens made of its kernel and of the tokens that it reads.

A task reads at its start or at its end, and writes at its end or already at its start, whatever
the dice say: so two tasks that overlap in time see each other's half-done work. Two runs end with
equal tokens only if every read saw the same writes in both. Bytes that nothing has written have
other tokens in each run. Nothing here is shared with what makes or checks programs but the random
durations of `ge.runtime.device.interleave`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import MemRefType, ModuleOp, StridedLayoutAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.dialects.memref import AllocOp, ReinterpretCastOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ge.dialects.npu_task.control import CaseOp, IfOp, LoopOp, MapIndexOp, YieldOp
from ge.dialects.npu_task.ops import ConstantOp, CopyOp, LaunchOp, SlotOp
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.functions import main_function
from ge.dialects.support.types import element_type, shape_of
from ge.runtime.device.interleave import Timing

Tokens = NDArray[np.int64]

ROUNDS = 2
"""Iterations of a loop that stacks nothing."""


@dataclass(frozen=True)
class Place:
    """The bytes of a memref: positions in a memory, in the order of its elements."""

    memory: str | SSAValue
    positions: slice | NDArray[np.intp]


def positions(value: SSAValue) -> NDArray[np.intp]:
    """The bytes of a memref from the start of its buffer."""
    shape, width = shape_of(value), bitwidth(element_type(value)) // 8
    t = value.type
    assert isinstance(t, MemRefType)
    layout: Attribute = t.layout
    at = np.zeros(shape, np.intp)
    if isinstance(layout, StridedLayoutAttr):
        strides, start = layout.get_strides(), layout.get_offset() or 0
    else:
        strides, start = list(np.cumprod([1, *reversed(shape[1:])])[::-1]), 0
    for axis, (n, stride) in enumerate(zip(shape, strides or (), strict=False)):
        steps = np.arange(n) * int(stride or 0)
        at = at + steps.reshape([-1 if a == axis else 1 for a in range(len(shape))])
    first = (at.reshape(-1) + int(start)) * width
    return (first[:, None] + np.arange(width)).reshape(-1)


@dataclass
class Program:
    """The function of a module, and the places of its values."""

    func: FuncOp
    places: dict[SSAValue, Place] = field(default_factory=dict[SSAValue, Place])
    aliases: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])

    def place(self, value: SSAValue) -> Place:
        value = self.aliases.get(value, value)
        found = self.places.get(value)
        if found is None:
            found = self.places[value] = self.find(value)
        return found

    def find(self, value: SSAValue) -> Place:
        root = value
        while isinstance(root.owner, ReinterpretCastOp):
            root = root.owner.source
            root = self.aliases.get(root, root)
        memory: str | SSAValue = root
        base = 0
        if isinstance(root.owner, SlotOp):
            memory, base = root.owner.segment.data, root.owner.offset.value.data
        at = positions(value) + base
        if len(at) and at[-1] - at[0] + 1 == len(at):
            return Place(memory, slice(int(at[0]), int(at[-1]) + 1))
        return Place(memory, at)

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Bytes of each segment."""
        ends: dict[str, int] = {}
        for op in self.func.walk():
            if isinstance(op, SlotOp):
                size = len(positions(op.result))
                end = op.offset.value.data + size
                ends[op.segment.data] = max(ends.get(op.segment.data, 0), end)
        return ends


def program_of(module: ModuleOp) -> Program:
    func = main_function(module)
    assert func is not None
    return Program(func)


class Run:
    """One run of a program."""

    def __init__(self, program: Program, rng: np.random.Generator) -> None:
        self.program, self.rng = program, rng
        self.memory: dict[str | SSAValue, Tokens] = {
            name: rng.integers(1 << 40, 1 << 50, size) for name, size in program.sizes.items()
        }
        self.pending: list[tuple[float, int, Operation, bool]] = []
        self.seen: dict[Operation, list[bytes]] = {}
        self.timing = Timing(rng)
        for i, arg in enumerate(program.func.body.block.args):
            self.memory[arg] = self.tokens(("argument", i), len(positions(arg)))

    def result(self) -> list[bytes]:
        """The tokens of what the function returns."""
        self.block(self.program.func.body.block)
        last = self.program.func.body.block.last_op
        assert isinstance(last, ReturnOp)
        return [self.read(v) for v in last.operands]

    # ---- memory

    @staticmethod
    def tokens(source: object, size: int) -> Tokens:
        return np.arange(size, dtype=np.int64) + (hash(source) >> 8)

    def bytes_of(self, place: Place) -> Tokens:
        """The memory of a place. Buffers of the host appear when they are used first."""
        memory = self.memory.get(place.memory)
        if memory is None:
            assert isinstance(place.memory, SSAValue)
            owner, size = place.memory.owner, len(positions(place.memory))
            if isinstance(owner, MapIndexOp):
                memory = self.tokens(("gear", str(owner.properties)), size)
            elif isinstance(owner, ConstantOp):
                memory = self.tokens(("constant", str(owner.value)), size)
            else:
                assert isinstance(owner, AllocOp)
                memory = self.rng.integers(1 << 40, 1 << 50, size)
            self.memory[place.memory] = memory
        return memory

    def read(self, value: SSAValue) -> bytes:
        place = self.program.place(value)
        return self.bytes_of(place)[place.positions].tobytes()

    def write(self, value: SSAValue, tokens: Tokens) -> None:
        place = self.program.place(value)
        self.bytes_of(place)[place.positions] = tokens

    # ---- time

    def block(self, block: Block) -> None:
        for number, op in enumerate(block.ops):
            span = self.timing.visit(op)
            if span is not None:
                begin = span[int(self.rng.integers(2))]
                end = max(begin, span[int(self.rng.integers(2))])
                self.pending += [(begin, 2 * number, op, False), (end, 2 * number + 1, op, True)]
            elif isinstance(op, IfOp | CaseOp | LoopOp):
                self.flush()
                self.loop(op) if isinstance(op, LoopOp) else self.branch(op)
        self.flush()

    def flush(self) -> None:
        """All streams come to rest."""
        for _, _, op, writing in sorted(self.pending, key=lambda p: p[:2]):
            ins, outs = operands(op)
            if not writing:
                self.seen[op] = [self.read(v) for v in ins]
                continue
            seen = self.seen.pop(op)
            if isinstance(op, CopyOp):
                self.write(op.target, np.frombuffer(seen[0], np.int64))
                continue
            assert isinstance(op, LaunchOp)
            for i, out in enumerate(outs):
                source = (op.callee, i, *seen)
                self.write(out, self.tokens(source, len(positions(out))))
        self.pending = []
        self.timing = Timing(self.rng)

    # ---- control flow

    def branch(self, op: IfOp | CaseOp) -> None:
        """Which way is taken depends on the token of the condition or index."""
        region = op.regions[(hash(self.read(op.operands[0])) >> 8) % len(op.regions)]
        self.block(region.block)
        last = region.block.last_op
        assert isinstance(last, YieldOp)
        self.copy(last.values, op.outs)

    def loop(self, op: LoopOp) -> None:
        heads = [self.read(v) for v in (op.trip, op.condition) if v is not None]
        args = op.body.block.args
        self.program.aliases.update(zip(args[2:], op.carried, strict=True))
        rounds = shape_of(op.scans[0])[0] if op.scans else ROUNDS
        for i in range(rounds):
            for arg in args[:2]:
                self.memory[arg] = self.tokens((i, *heads), len(positions(arg)))
            self.block(op.body.block)
            last = op.body.block.last_op
            assert isinstance(last, YieldOp)
            _, *values = last.values
            for scan, value in zip(op.scans, values[len(op.carried) :], strict=True):
                self.write_row(scan, i, value)
            self.copy(values[: len(op.carried)], op.carried)

    def write_row(self, scan: SSAValue, i: int, value: SSAValue) -> None:
        place = self.program.place(scan)
        whole = self.bytes_of(place)[place.positions].copy()
        row = np.frombuffer(self.read(value), np.int64)
        whole[i * len(row) : (i + 1) * len(row)] = row
        self.write(scan, whole)

    def copy(self, values: Sequence[SSAValue], places: Sequence[SSAValue]) -> None:
        """Copy all at the same time."""
        seen = [np.frombuffer(self.read(v), np.int64) for v in values]
        for place, tokens in zip(places, seen, strict=True):
            self.write(place, tokens)


def operands(op: Operation) -> tuple[Sequence[SSAValue], Sequence[SSAValue]]:
    if isinstance(op, LaunchOp):
        return op.ins, op.outs
    assert isinstance(op, CopyOp)
    return (op.source,), (op.target,)


def outcome(module: ModuleOp, seed: int) -> list[bytes]:
    """What the program computes in the random timing of a seed."""
    return Run(program_of(module), np.random.default_rng(seed)).result()


def differs(module: ModuleOp, want: list[bytes], timings: int, seed: int) -> bool:
    """Whether any of so many random timings gives another result than `want`."""
    program = program_of(module)
    rng = np.random.default_rng(seed)
    return any(Run(program, rng).result() != want for _ in range(timings))
