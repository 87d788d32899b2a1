"""What an edited program really does, found by brute force; nothing here is shared with the checker
(`ge.runtime.check`).

The meaning of a text is its run in program order on a device of endless memory, where no two slots
share bytes. A program is harmful if
- it fails: it cannot be translated, or an emulated run raises an error;
- a run where its slots really are, in program order or in a random legal timing, gives another
  result than that; both memories are filled with different garbage, so bytes that nothing has
  written differ as well;
- it breaks a limit that follows from the text alone: memory, views, streams, events, engines and
  the memories of a core (`limits`).
A program that does none of these, but has other results than the one that was edited, is another
program; it is as good as that one. So is one that has not ended after `LONGEST` seconds on the
device of endless memory: whether a loop ends depends on what it computes.
"""

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from programs import Program
from xdsl.dialects.builtin import (
    Attribute,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    StridedLayoutAttr,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.dialects.memref import AllocOp, ReinterpretCastOp
from xdsl.ir import BlockArgument, SSAValue

from ge.dialects.npu_task.attributes import HBM, HOST, Engine
from ge.dialects.npu_task.control import IfOp, LoopOp
from ge.dialects.npu_task.ops import (
    ConstantOp,
    CopyOp,
    KernelOp,
    LaunchOp,
    RecordOp,
    SlotOp,
    TransferOp,
    WaitOp,
    event_number,
)
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.support.types import array_ints, byte_size
from ge.dialects.targets.target import Target
from ge.runtime.data.arrays import Array
from ge.runtime.device import function as device_function
from ge.runtime.device import memory as device_memory
from ge.runtime.device.function import Function

GARBAGE = (0xFF, 0x5B)
LONGEST = 10  # seconds of a run on the CPU; most take a few milliseconds
TIMINGS = 6
DATA = re.compile("weight .* is not in|the constant is|.*index \\d+ is out of bounds for axis")
"""Errors that are found when weights are loaded, or follow from what is computed."""
APART = 1 << 12
"""Slots of the endless memory begin at multiples of this, each on its own."""

Results = list[Array]


@dataclass(frozen=True)
class Verdict:
    """What a program does. `harm` is empty where it does none."""

    harm: str
    another: bool = False
    """Whether it has other results than the program that was edited."""


@contextmanager
def garbage(value: int) -> Iterator[None]:
    device_memory.POISON = device_function.POISON = value
    try:
        yield
    finally:
        device_memory.POISON = device_function.POISON = GARBAGE[0]


def apart(module: ModuleOp) -> ModuleOp:
    """The program with no two slots that share bytes."""
    clone = module.clone()
    end = 0
    for op in clone.walk():
        if isinstance(op, SlotOp):
            op.properties["offset"] = IntegerAttr(end, i64)
            end += -(-max(byte_size(op.result.type), 1) // APART) * APART
    return clone


def same(a: Results, b: Results) -> bool:
    return len(a) == len(b) and all(
        x.shape == y.shape
        and x.dtype == y.dtype
        and (x.tobytes() == y.tobytes()
             or (x.dtype.kind == "f" and np.allclose(x, y, 1e-4, 1e-6, equal_nan=True)))
        for x, y in zip(a, b, strict=True)
    )  # fmt: skip


class Endless(Exception):
    """A run has not ended."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raises Endless inside of a block that takes more CPU time."""

    def stop(*_: object) -> None:
        raise Endless

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


class Judge:
    """Judges edits of one program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        func = main_function(program.module)
        assert func is not None
        self.names = [str(i) for i in range(len(func.args))]
        self.inputs = [list(case.values()) for case in program.inputs]
        self.target = Target.load()
        self.results = [self.run(program.module, case) for case in self.inputs]
        broken = list(limits(program.module, program.module, self.target))
        assert not broken, f"{program.name}: {broken}"

    def run(self, module: ModuleOp, case: list[Any]) -> Results:
        func = main_function(module)
        assert func is not None
        return Function(module, func, self.program.payload, poison=True).run(case)

    def verdict(self, module: ModuleOp, seed: int) -> Verdict:
        """Judge an edited program."""
        broken = next(limits(module, self.program.module, self.target), None)
        if broken is not None:
            return Verdict(f"limit: {broken}")
        func = main_function(module)
        assert func is not None
        try:
            with garbage(GARBAGE[1]), limited(LONGEST):
                ideal = apart(module)
                main = main_function(ideal)
                assert main is not None
                function = Function(ideal, main, self.program.payload, poison=True)
                expected = [[y.copy() for y in function.run(case)] for case in self.inputs]
        except Endless:
            return Verdict("", another=True)
        except Exception as e:
            return failure(e)
        try:
            here = Function(module, func, self.program.payload, poison=True)
            for case, want in zip(self.inputs, expected, strict=True):
                with limited(10 * LONGEST):
                    result = here.run(case)
                if not same(result, want):
                    return Verdict("result in program order")
            rng = np.random.default_rng(seed)
            timed = Function(module, func, self.program.payload, timing=rng)
            for case, want in zip(self.inputs, expected, strict=True):
                for _ in range(TIMINGS):
                    with limited(10 * LONGEST):
                        result = timed.run(case)
                    if not same(result, want):
                        return Verdict("result in another timing")
        except Exception as e:
            return failure(e)
        return Verdict("", not all(map(same, expected, self.results)))


def failure(error: Exception) -> Verdict:
    if isinstance(error, GeError) and DATA.match(error.message):
        return Verdict("", another=True)
    return Verdict(f"fails: {type(error).__name__}: {str(error)[:80]}")


# ---- limits ----------------------------------------------------------------------------------


def figure(func: FuncOp, name: str) -> int | None:
    attr = func.attributes.get(f"npu_task.{name}")
    return attr.value.data if isinstance(attr, IntegerAttr) else None


def buffer_of(value: SSAValue) -> SSAValue:
    """What a value is a part of: through views, and through the arguments of loops that are
    carried buffers."""
    while True:
        if isinstance(value.owner, ReinterpretCastOp):
            value = value.owner.source
        elif isinstance(value, BlockArgument) and isinstance(
            loop := value.block.parent_op(), LoopOp
        ):
            order, i = array_ints(loop.order), value.index - 2
            if i < 0 or i >= len(order) or not order[i]:
                return value
            value = loop.carried[sum(order[:i])]
        else:
            return value


def reach(t: Attribute) -> tuple[int, int]:
    """The first and the last element of a memref, from where its buffer begins."""
    assert isinstance(t, MemRefType)
    shape, layout = t.get_shape(), t.layout
    if not isinstance(layout, StridedLayoutAttr) or any(n < 0 for n in shape):
        return 0, int(np.prod([max(n, 0) for n in shape])) - 1
    steps = [s or 0 for s in layout.get_strides() or ()]
    corners = [sum(c) for c in product(*([0, (n - 1) * s] for n, s in zip(shape, steps)))]
    offset = layout.get_offset() or 0
    return offset + min(corners, default=0), offset + max(corners, default=0)


def memory_limits(func: FuncOp, target: Target) -> Iterator[str]:
    """Segments, addresses, views, and who may be where."""
    for op in func.walk():
        if isinstance(op, SlotOp):
            end = op.offset.value.data + byte_size(op.result.type)
            if end > (figure(func, f"{op.segment.data}_bytes") or 0):
                yield "slot outside of its segment"
            if op.offset.value.data % target.hbm_alignment:
                yield "slot is not aligned"
            if op.result.type.memory_space != HBM:
                yield "slot outside of the device"
        elif isinstance(op, ReinterpretCastOp):
            root = buffer_of(op.source)
            t, whole = op.result.type, root.type
            assert isinstance(whole, MemRefType)
            if t.memory_space != whole.memory_space:
                yield "view in another memory"
            if t.element_type != whole.element_type:
                yield "view of another element type"
            first, last = reach(t)
            if first < 0 or last > reach(whole)[1]:
                yield "view outside of its buffer"
        elif isinstance(op, LaunchOp):
            if any(v.type.memory_space != HBM for v in op.operands):  # pyright: ignore
                yield "launch on memory of the host"
        elif isinstance(op, AllocOp) and op.memref.type.memory_space != HOST:
            yield "buffer of the device without a slot"
        if isinstance(op, LaunchOp | CopyOp | IfOp | LoopOp):
            written = op.outs if isinstance(op, LaunchOp | IfOp) else ()
            written = (op.target,) if isinstance(op, CopyOp) else written
            written = (*op.carried, *op.scans) if isinstance(op, LoopOp) else written
            for root in map(buffer_of, written):
                if isinstance(root.owner, ConstantOp):
                    yield "constant is written"
    weights = {str(op.value): byte_size(op.result.type) for op in func.walk()
               if isinstance(op, ConstantOp)}  # fmt: skip
    used = sum(weights.values())
    used += sum(figure(func, f"{s}_bytes") or 0 for s in ("arena", "io"))
    if used > target.hbm_bytes:
        yield "more memory than the target has"


def schedule_limits(func: FuncOp, target: Target) -> Iterator[str]:
    """Streams and events are among those that the program states, and the target has as many."""
    for what, most in (("streams", target.max_streams), ("events", target.max_events)):
        count = figure(func, what)
        if count is None or not 0 <= count <= most:
            yield f"number of {what}"
    for op in func.walk():
        if not isinstance(op, LaunchOp | CopyOp | TransferOp | RecordOp | WaitOp):
            continue
        stream = op.properties.get("stream")
        if not isinstance(stream, IntegerAttr):
            yield "task on no stream"
        elif not 0 <= stream.value.data < (figure(func, "streams") or 0):
            yield "stream that is none"
        if isinstance(op, RecordOp):
            if not 0 <= event_number(op) < (figure(func, "events") or 0):
                yield "event that is none"


def figures(func: FuncOp, original: FuncOp) -> Iterator[str]:
    """What the program claims, where nothing but the claim was edited."""
    if not func.body.is_structurally_equivalent(original.body):
        return
    for name in ("arena_bytes", "io_bytes", "alignment"):
        if figure(func, name) != figure(original, name):
            yield f"{name} is not what it was"
    before, after = (f.attributes.get("npu_task.certificate") for f in (original, func))
    assert isinstance(before, DictionaryAttr)
    if not isinstance(after, DictionaryAttr):
        yield "no certificate"
        return
    for name in before.data:
        if name == "live":
            if not isinstance(after.data.get(name), DenseArrayBase):
                yield "certificate without live"
        elif after.data.get(name) != before.data[name]:
            yield f"{name} of the certificate is not what it was"


def kernel_limits(kernel: KernelOp, original: KernelOp, target: Target) -> Iterator[str]:
    """A kernel runs on the engine that can, on no more cores than there are."""
    engine = kernel.engine.data
    if engine is not original.engine.data and Engine.CUBE in (engine, original.engine.data):
        yield "engine that cannot run the kernel"
    if engine not in (Engine.CUBE, Engine.VECTOR) or kernel.tiling is None:
        return
    is_cube = len(kernel.tiling.sizes) == 3
    cores = target.cube_cores if is_cube else target.vector_cores
    if not 1 <= kernel.tiling.blocks.data <= cores:
        yield "more blocks than cores"


def limits(module: ModuleOp, original: ModuleOp, target: Target) -> Iterator[str]:
    """The limits that a program breaks, as far as they follow from its text and from what the
    compiler wrote before the edit."""
    func, other = main_function(module), main_function(original)
    assert func is not None
    assert other is not None
    yield from memory_limits(func, target)
    yield from schedule_limits(func, target)
    yield from figures(func, other)
    known = {k.sym_name.data: k for k in original.ops if isinstance(k, KernelOp)}
    for kernel in module.ops:
        if isinstance(kernel, KernelOp) and kernel.sym_name.data in known:
            old = known[kernel.sym_name.data]
            if kernel.body.is_structurally_equivalent(old.body):
                yield from kernel_limits(kernel, old, target)
