"""Faults planted in tile programs: does the checker report each one that can change a result?

    python test/bench/planted_tile_faults.py --cases 5000 [--seed N] [--orders 6]
    python test/bench/planted_tile_faults.py --seconds 400 --totals F.json
    python test/bench/planted_tile_faults.py --cases 0 --right 100

The second one goes on after the cases of F, the third one runs each kernel without a fault.

A case is one of the example kernels (`docs/examples/kernels_by_hand.py`) or one that
`lower-kernels` wrote, some with a result over an operand. It must pass the checker
(`ge.runtime.check.tiles`), and then gets one fault: a flag's set, its wait or both are dropped, or
the padding of a load; a flag
gets another number, a buffer another offset, a slot, a box or a ring's copies another number;
operands trade places; an instruction or a barrier is dropped or moved; a loop begins later, ends
sooner or takes two steps at once, a core is another one or left out, a condition is never true, a
box is of another memref or beyond its own, or loses its end, a store adds. Then it runs on the
emulated cores in random legal orders of the pipes, and over memory with other garbage. Where an
order fails, or two orders or what nothing wrote give other results, the checker must have reported
the fault. A fault
that gives other numbers in all orders alike (the wrong box, say) is another program, which no
checker of one program can see: it is counted as such, as is what is reported although no order
that was tried showed it, where that is a read of bytes that nothing wrote by itself: these may
reach no result. Of other reports that no order shows, those that were looked into read what is out
of order, and the result is the same for one of four reasons: it is multiplied by 0 (what attention
has before its first tile of keys), it lies in rows of padding, the same bytes were written again,
or a map changes the padding beside what a load brings meanwhile, and the emulated core does one
after the other, whichever is first. (Of kernels with barriers, two reports that 300 orders did not
show were of rows of padding: where the query fills its tiles, 73 and 60 of 80 orders show them.)
The checker knows no values, and takes an instruction for what reads and writes at any time while
it runs.
"""

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
from ml_dtypes import int4
from xdsl.context import Context
from xdsl.dialects.arith import AddiOp, CmpiOp, ConstantOp, SubiOp
from xdsl.dialects.builtin import (
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    UnitAttr,
    i1,
    i64,
)
from xdsl.dialects.scf import ForOp, IfOp, YieldOp
from xdsl.ir import Operation
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import VerifyException

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs" / "examples"))
import kernels_by_hand as examples

from ge import tile
from ge.dialects.npu_task.attributes import data_type
from ge.dialects.npu_task.ops import KernelOp as TaskKernelOp
from ge.dialects.support.errors import GeError
from ge.dialects.targets.target import Target, record_target
from ge.dialects.text.reading import SourceText, parse_module
from ge.dialects.tile.buffers import AllocOp, SlotOp, ViewOp
from ge.dialects.tile.compute import FlagOp, SetOp, WaitOp
from ge.dialects.tile.instruction import Instruction
from ge.dialects.tile.kernel import BarrierOp, CoreOp, CoresOp, KernelOp
from ge.dialects.tile.transfers import LoadOp, StoreOp
from ge.dialects.tile.types import Memory
from ge.lowering.building.tile_kernels import TileProgram
from ge.lowering.driver.compiler import context
from ge.lowering.steps.lower_kernels import LowerKernelsPass
from ge.runtime.check.problems import Problem
from ge.runtime.check.tile_device import NOTHING, Sharing, Use
from ge.runtime.check.tiles import check_kernel
from ge.runtime.cores import memory
from ge.runtime.cores.kernel import TileKernel
from ge.runtime.cores.memory import arguments_of, unwritten
from ge.runtime.device.random_inputs import random_array
from ge.transforms.tiles.finish import finish

TARGET = Target.load("910b2")
SMALL = {"M": 32, "N": 32, "K": 32}
Arrays = dict[str, Any]


@dataclass(frozen=True)
class Right:
    """A kernel without a fault, its inputs by name, which arguments share elements, and those that
    are its results (None: what it stores to)."""

    program: TileProgram
    inputs: Arrays
    sharing: Sharing = NOTHING
    results: frozenset[int] | None = None

    @property
    def name(self) -> str:
        return self.program.kernel.sym_name.data

    @cached_property
    def text(self) -> str:
        return self.program.mlir

    def problems(self, kernel: KernelOp) -> tuple[Problem, ...]:
        return check_kernel(kernel, TARGET, Use(frozenset([self.sharing]), self.results)).problems

    def outcomes(self, kernel: KernelOp, seeds: Iterable[int | None]) -> Iterator[bytes]:
        """The results of random orders; where one fails, what it says."""
        arguments = arguments_of(kernel)
        names = [argument.name for argument in arguments]
        over = {names[result]: names[operand] for result, operand in self.sharing}
        try:
            cores = TileKernel(kernel, TARGET)
        except GeError as e:
            yield f"error: {e}".encode()
            return
        for seed in seeds:
            given = self.inputs | {
                a.name: unwritten(a.memref)  # not 0 where a launch adds to it
                for i, a in enumerate(arguments)
                if self.results is not None and i in self.results and a.name not in over
            }
            try:
                result = cores.run(given, seed, over=over)
                yield b"".join(array.tobytes() for array in result.values())
            except GeError as e:
                yield f"error with seed {seed}: {e}".encode()


@contextmanager
def garbage(value: int) -> Iterator[None]:
    """Memory that nothing wrote holds such bytes."""
    memory.POISON, before = value, memory.POISON
    try:
        yield
    finally:
        memory.POISON = before


def normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype("f2")


COMPILED = Path(__file__).with_name("planted_tile_kernels.mlir")


def kernels() -> list[Right]:
    """The examples on small arrays and kernels of the compiler."""
    return [*by_hand(), *of_the_compiler()]


def of_the_compiler() -> Iterable[Right]:
    """What `lower-kernels` writes for the kernels of a file, and what of it works in place."""
    module = parse_module(context(), SourceText(COMPILED.name, COMPILED.read_text()))
    LowerKernelsPass(TARGET.name).apply(Context(), module)
    tasks = {k.tiles.data: k for k in module.ops if isinstance(k, TaskKernelOp) and k.tiles}
    for written in [op for op in module.ops if isinstance(op, KernelOp)]:
        written.detach()
        alone = ModuleOp([written])
        record_target(alone, TARGET.name)
        finish(alone)
        program, task = TileProgram(alone, written, TARGET), tasks[written.sym_name.data]
        inputs, pairs = inputs_of(written), sorted(task.in_place_pairs())
        count = len(written.arguments)
        first = count - len(task.output_types)
        results = frozenset(range(first, count))
        yield Right(program, inputs, NOTHING, results)
        if pairs:
            result, operand = pairs[0]
            yield Right(program, inputs, frozenset({(first + result, operand)}), results)


BOUNDS = dict.fromkeys(("gather_tiles", "picked_tiles", "scatter_tiles", "summed_tiles"), 9)
BOUNDS["lengths_tiles"] = 41
"""Of the integers that kernels of the file read as numbers: what they are below."""


def inputs_of(kernel: KernelOp) -> Arrays:
    rng, found = np.random.default_rng(1), Arrays()
    for argument in arguments_of(kernel):
        element, shape = data_type(argument.memref.type)
        if argument.is_input and element == i64:
            numbers = rng.integers(1, BOUNDS[kernel.sym_name.data], shape)
            numbers.flat[0] = BOUNDS[kernel.sym_name.data] - 1  # that uses all of a tile
            found[argument.name] = numbers
        elif argument.is_input:
            found[argument.name] = random_array(rng, element, shape)
    return found


def by_hand() -> list[Right]:
    parted = np.array([0, 40, 40, 96])
    page, experts = np.array([[2, 0, 4], [1, 3, 5]]), np.array([1, 0, 1])
    codes = np.random.default_rng(2).integers(-8, 8, (96, 48)).astype(int4)
    # Keys and values differ: a load in the other one's place is to be seen
    keys, values = (normal(6, 16, 2, 32, seed=seed) for seed in (3, 4))
    decode = [normal(2, 2, 4, 32), keys, values, page, np.array([33, 48])]
    keys, values = (normal(96, 32, seed=seed) for seed in (3, 4))
    cases: list[tuple[Any, list[Any], Any, dict[str, Any]]] = [
        (
            examples.gemm,
            [normal(100, 96), normal(96, 80)],
            "100x80xf2",
            {"M": 32, "N": 64, "K": 32},
        ),
        (examples.rms_norm, [normal(70, 64), normal(64)], "70x64xf2", {"M": 16}),
        (examples.conv3x3, [normal(4, 18, 16), normal(9, 16, 32)], "2x16x32xf2", {"M": 16}),
        (examples.flash, [normal(64, 32), keys, values], "64x32xf4", {"M": 32, "N": 32}),
        (examples.w4a16, [normal(40, 96), codes, normal(2, 48)], "40x48xf2", {"M": 32, "N": 64}),
        (examples.grouped_gemm, [normal(96, 64), normal(2, 64, 48), experts], "96x48xf4", SMALL),
        (examples.ragged_gemm, [normal(96, 64), normal(3, 64, 48), parted], "96x48xf4", SMALL),
        (examples.paged_decode, decode, "2x2x4x32xf4", {}),
        (examples.split_k, [normal(32, 64), normal(64, 48)], "32x48xf4", {"parts": 2}),
        (columns, [normal(64, 48)], "1x48xf4", {}),
    ]
    found: list[Right] = []
    for kernel, inputs, result, parameters in cases:
        *shape, dtype = result.split("x")
        out = np.zeros(tuple(map(int, shape)), dtype)
        program = kernel.on(*inputs, out, cores=2, target=TARGET.name, **parameters)
        names = [a.name_hint or "" for a in program.kernel.arguments]
        found.append(Right(program, dict(zip(names, inputs, strict=False))))
    return found


@tile.kernel(M=16)
def columns(c: Any, x: Any, out: Any, M: int) -> None:
    """out += the sums of columns, in two parts of each block of rows"""
    t = c.ub(M, x.shape[1], copies=2)
    s = c.ub(1, x.shape[1], "f32", copies=2)
    for i in c.share(x.shape[0] // M):
        c.load(t[i], x[i * M :])
        for half in c.range(2):
            part = t[i].part(half * (M // 2), 0, (M // 2, x.shape[1]))
            s[half] = tile.colsum(tile.cast(part, "f32"))
            c.store(out[0:], s[half], add=True)


# ---- faults ----------------------------------------------------------------------------------


def drop(op: Operation) -> None:
    op.detach()
    op.erase()


def ops_of(kernel: KernelOp, kind: type[Any]) -> list[Any]:
    return [op for op in kernel.walk() if isinstance(op, kind)]


def drop_flag(kernel: KernelOp, rng: random.Random) -> None:
    drop(rng.choice(ops_of(kernel, FlagOp)))


def drop_pair(kernel: KernelOp, rng: random.Random) -> None:
    """Both ends of a flag in one block: nothing waits in vain, and nothing is ordered."""
    flags = ops_of(kernel, FlagOp)
    first = rng.choice([f for f in flags if isinstance(f, SetOp)] or flags)
    key = first.source, first.target, first.id, first.parent
    for op in flags[flags.index(first) + 1 :]:
        if isinstance(op, WaitOp) and (op.source, op.target, op.id, op.parent) == key:
            drop(first)
            drop(op)
            return


def drop_padding(kernel: KernelOp, rng: random.Random) -> None:
    if loads := [op for op in ops_of(kernel, LoadOp) if "pad" in op.properties]:
        del rng.choice(loads).properties["pad"]


def swap_operands(kernel: KernelOp, rng: random.Random) -> None:
    """Two operands of one type, such as those of a map."""
    pairs = [
        (op, i, j)
        for op in ops_of(kernel, Instruction)
        for i, j in combinations(range(len(op.operands)), 2)
        if op.operands[i].type == op.operands[j].type and op.operands[i] is not op.operands[j]
    ]
    if pairs:
        op, i, j = rng.choice(pairs)
        op.operands[i], op.operands[j] = op.operands[j], op.operands[i]


def shift_box(kernel: KernelOp, rng: random.Random) -> None:
    """A box or a sub-tile begins an element, or a fractal, later or sooner."""
    view = rng.choice(ops_of(kernel, ViewOp))
    step = ConstantOp(IntegerAttr(rng.choice((-16, -1, 1, 16)), IndexType()))
    i = rng.randrange(len(view.offsets))
    moved = AddiOp(view.offsets[i], step.result)
    Rewriter.insert_op([step, moved], InsertPoint.before(view))
    view.operands[1 + i] = moved.result


def drop_instruction(kernel: KernelOp, rng: random.Random) -> None:
    drop(rng.choice([op for op in ops_of(kernel, Instruction) if not isinstance(op, FlagOp)]))


def move_index(op: Any, rng: random.Random) -> None:
    """The op's index plus or minus one."""
    one = ConstantOp(IntegerAttr(rng.choice((-1, 1)), IndexType()))
    number = op.index if isinstance(op, SlotOp) else op.id
    moved = AddiOp(number, one.result)
    Rewriter.insert_op([one, moved], InsertPoint.before(op))
    op.operands[list(op.operands).index(number)] = moved.result


def renumber_flag(kernel: KernelOp, rng: random.Random) -> None:
    move_index(rng.choice(ops_of(kernel, FlagOp)), rng)


def shift_slot(kernel: KernelOp, rng: random.Random) -> None:
    move_index(rng.choice(ops_of(kernel, SlotOp) or ops_of(kernel, FlagOp)), rng)


def shift_offset(kernel: KernelOp, rng: random.Random) -> None:
    alloc = rng.choice(ops_of(kernel, AllocOp))
    offsets = list(alloc.offsets)
    i = rng.randrange(len(offsets))
    offsets[i] = max(0, offsets[i] + 512 * rng.choice((-4, -2, -1, 1, 2, 4)))
    alloc.properties["at"] = DenseArrayBase.from_list(i64, offsets)


def join_copies(kernel: KernelOp, rng: random.Random) -> None:
    """All copies of a ring are one."""
    rings = [a for a in ops_of(kernel, AllocOp) if a.copies > 1]
    if rings:
        alloc = rng.choice(rings)
        offsets = [alloc.offsets[0]] * alloc.copies
        alloc.properties["at"] = DenseArrayBase.from_list(i64, offsets)


def move_up(kernel: KernelOp, rng: random.Random) -> None:
    """An instruction trades places with the one before it, if both are of one block."""
    ops = [op for op in ops_of(kernel, Instruction) if isinstance(op.prev_op, Instruction)]
    if ops:
        op = rng.choice(ops)
        before = op.prev_op
        op.detach()
        block = before.parent_block()
        assert block is not None
        block.insert_op_before(op, before)


def drop_barrier(kernel: KernelOp, rng: random.Random) -> None:
    """Of one program, or where all of them meet: the first of each, or the last."""
    one = rng.random() < 0.5
    if one:
        drop(rng.choice(kernel.barriers))
        return
    place = rng.choice((0, -1))
    for program in kernel.programs:
        if barriers := [op for op in program.walk() if isinstance(op, BarrierOp)]:
            drop(barriers[place])


def move_barrier(kernel: KernelOp, rng: random.Random) -> None:
    """A barrier trades places with what stands before or behind it."""
    barrier = rng.choice(kernel.barriers)
    block, other = barrier.parent_block(), barrier.prev_op
    if rng.random() < 0.5 or other is None:
        other = barrier.next_op
    if block is not None and other is not None and not other.has_trait(IsTerminator):
        first = other if other is barrier.prev_op else barrier
        second = barrier if first is other else other
        if not any(use.operation is second for r in first.results for use in r.uses):
            first.detach()
            block.insert_op_after(first, second)


# ---- what is not stored, or stored to the wrong place ----


def constant(value: int, before: Operation) -> Any:
    op = ConstantOp(IntegerAttr(value, IndexType()))
    Rewriter.insert_op(op, InsertPoint.before(before))
    return op.result


def change_loop(kernel: KernelOp, rng: random.Random) -> None:
    """A loop begins later, ends sooner, or takes several steps at once."""
    if not (loops := ops_of(kernel, ForOp)):
        return
    op = rng.choice(loops)
    i = rng.randrange(3)  # first, end, step
    by = constant(rng.choice((-1, 1, 1, 2)) if i < 2 else rng.choice((1, 2)), op)
    kind = SubiOp if i == 1 and rng.random() < 0.7 else AddiOp
    Rewriter.insert_op(moved := kind(op.operands[i], by), InsertPoint.before(op))
    op.operands[i] = moved.result


def change_core(kernel: KernelOp, rng: random.Random) -> None:
    """A core takes itself for another one, or for their number."""
    if not (cores := ops_of(kernel, CoreOp) + ops_of(kernel, CoresOp)):
        return
    op = rng.choice(cores)
    new = rng.choice((CoresOp, CoreOp))() if rng.random() < 0.5 else None
    if new is not None:
        Rewriter.insert_op(new, InsertPoint.before(op))
        op.results[0].replace_all_uses_with(new.results[0])
        return
    by = constant(rng.choice((-1, 1)), op.next_op)
    Rewriter.insert_op(moved := AddiOp(op.results[0], by), InsertPoint.after(by.owner))
    op.results[0].replace_uses_with_if(moved.result, lambda use: use.operation is not moved)


def change_cores(kernel: KernelOp, rng: random.Random) -> None:
    """The kernel runs on more or fewer cores."""
    count = max(kernel.core_count + rng.choice((-1, 1)), 1)
    kernel.properties["cores"] = IntegerAttr(count, i64)


def change_condition(kernel: KernelOp, rng: random.Random) -> None:
    """A condition is another one, or never true."""
    if branches := ops_of(kernel, IfOp):
        op = rng.choice(branches)
        false = ConstantOp(IntegerAttr(rng.choice((0, 0, 1)), i1))
        Rewriter.insert_op(false, InsertPoint.before(op))
        op.operands[0] = false.result
    elif stores := ops_of(kernel, StoreOp):  # or an instruction gets one
        op = rng.choice(stores)
        last = constant(kernel.core_count - rng.choice((0, 1)), op)
        me = CoreOp()
        Rewriter.insert_op(me, InsertPoint.before(op))
        Rewriter.insert_op(
            is_last := CmpiOp(me.result, last, rng.choice(("eq", "ne"))), InsertPoint.before(op)
        )
        block = op.parent_block()
        assert block is not None
        branch = IfOp(is_last.result, [], [YieldOp()])
        block.insert_op_before(branch, op)
        op.detach()
        body = branch.true_region.block
        assert body.last_op is not None
        body.insert_op_before(op, body.last_op)


def box_elsewhere(kernel: KernelOp, rng: random.Random) -> None:
    """A box is of another memref of the type: what is loaded or stored is."""
    boxes = [v for v in ops_of(kernel, ViewOp) if isinstance(v.source.type, MemRefType)]
    pairs = [
        (view, arg)
        for view in boxes
        for arg in kernel.body.block.args
        if arg.type == view.source.type and arg is not view.source
    ]
    if pairs:
        view, arg = rng.choice(pairs)
        view.operands[0] = arg


def box_beyond(kernel: KernelOp, rng: random.Random) -> None:
    """A box of some cores is beyond its memref, or before it."""
    boxes = [v for v in ops_of(kernel, ViewOp) if isinstance(v.source.type, MemRefType)]
    view = rng.choice(boxes)
    i = rng.randrange(len(view.offsets))
    size = view.source.type.get_shape()[i]
    by = constant(rng.choice((size, size, -size, max(size // 2, 1))), view)
    Rewriter.insert_op(moved := AddiOp(view.offsets[i], by), InsertPoint.before(view))
    view.operands[1 + i] = moved.result


def drop_end(kernel: KernelOp, rng: random.Random) -> None:
    """A box goes on behind its end."""
    if ended := [v for v in ops_of(kernel, ViewOp) if v.ends]:
        view = rng.choice(ended)
        whole = ViewOp(view.source, view.offsets, view.result.type, view.box_sizes, view.box_steps)
        Rewriter.replace_op(view, whole)


def add_or_store(kernel: KernelOp, rng: random.Random) -> None:
    """A store adds to what is there, or one that adds does not."""
    if stores := ops_of(kernel, StoreOp):
        op = rng.choice(stores)
        if op.properties.pop("add", None) is None:
            op.properties["add"] = UnitAttr()


def load_own_result(kernel: KernelOp, rng: random.Random) -> None:
    """What a store is of is loaded from its own box before."""
    stores = [s for s in ops_of(kernel, StoreOp) if s.source.type.space is Memory.UB]
    if stores:
        op = rng.choice(stores)
        Rewriter.insert_op(LoadOp(op.target, op.source), InsertPoint.before(op))


Fault = Callable[[KernelOp, random.Random], None]

FAULTS: list[Fault] = [
    drop_flag,
    drop_pair,
    drop_padding,
    renumber_flag,
    shift_slot,
    shift_offset,
    join_copies,
    move_up,
    drop_instruction,
    swap_operands,
    shift_box,
]

UNSTORED: list[Fault] = [
    change_loop,
    change_core,
    change_cores,
    change_condition,
    box_elsewhere,
    box_beyond,
    drop_end,
    add_or_store,
    load_own_result,
]

OF_BARRIERS: list[Fault] = [drop_barrier, move_barrier]


# ---- judging ---------------------------------------------------------------------------------


def judge(right: Right, expected: bytes, rng: random.Random, orders: int) -> str:
    """What becomes of one fault."""
    module = right.program.module.clone()
    kernel = next(op for op in module.ops if isinstance(op, KernelOp))
    faults = FAULTS + UNSTORED
    fault = rng.choice(faults + 2 * OF_BARRIERS if kernel.barriers else faults)
    fault(kernel, rng)
    try:
        module.verify()
    except VerifyException:
        return "refused by a verifier"
    if str(module) == right.text:
        return "no fault"
    problems = right.problems(kernel)
    found, seed = set[bytes](), rng.randrange(1 << 30)
    with garbage(0x5B):
        found |= set(right.outcomes(kernel, [None]))
    for outcome in right.outcomes(kernel, [None, *range(seed, seed + orders - 1)]):
        found.add(outcome)
        if len(found) > 1 or outcome.startswith(b"error"):
            text = f"MISSED ({fault.__name__} in @{right.name}, {set(right.sharing)})\n{module}"
            return "reported" if problems else text
    if problems and found == {expected}:  # perhaps few orders show it
        found |= set(right.outcomes(kernel, range(seed + orders, seed + 20 * orders)))
        if len(found) > 1 or any(f.startswith(b"error") for f in found):
            return "reported"
    if not problems:
        same = found == {expected}
        return "same result" if same else "other numbers in all orders, as said above"
    if found != {expected}:
        return "reported, other numbers in all orders"
    if {p.kind for p in problems} <= {"unwritten", "left"}:
        return "reported, bytes that stand for nothing are read and reach no result"
    return f"reported, no order tried shows it ({fault.__name__} in @{right.name})"


def check_right(rights: Iterable[Right], orders: int) -> int:
    """Run each kernel as it is; how many have problems, or orders with another result."""
    wrong = count = 0
    for right in rights:
        kernel = right.program.kernel
        results = set(right.outcomes(kernel, [None, *range(1, orders)]))
        problems = right.problems(kernel)
        if problems or len(results) > 1 or any(r.startswith(b"error") for r in results):
            print(f"@{right.name}: {[p.message for p in problems]}, {len(results)} results")
            wrong += 1
        count += 1
    print(f"{orders} orders each of {count} kernels without a fault: {wrong} kernels are wrong")
    return wrong


def run_cases(cases: Iterable[int], seed: int, orders: int, seconds: float = inf) -> Counter[str]:
    """How many faults met with each verdict; none is begun after so many seconds."""
    rights, end = kernels(), monotonic() + seconds
    results: dict[int, bytes] = {}
    counts = Counter[str]()
    for case in cases:
        if monotonic() > end:
            break
        rng = random.Random(seed * 1_000_003 + case)
        i = rng.randrange(len(rights))
        if i not in results:
            kernel = rights[i].program.kernel
            assert not rights[i].problems(kernel), kernel.sym_name
            (results[i],) = set(rights[i].outcomes(kernel, [None, *range(1, orders)]))
        verdict, _, text = judge(rights[i], results[i], rng, orders).partition("\n")
        if text:
            print(f"case {case} of seed {seed}: {verdict}\n{text}", file=sys.stderr)
        counts[verdict] += 1
    return counts


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--orders", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=inf, help="begin no case after these")
    parser.add_argument("--totals", type=Path, help="JSON of the cases so far, to which these add")
    parser.add_argument("--right", type=int, default=0, help="run as many orders without a fault")
    args = parser.parse_args(arguments)
    wrong = check_right(kernels(), args.right) if args.right else 0
    before = Counter[str]()
    if args.totals and args.totals.exists():
        before.update(json.loads(args.totals.read_text()))
    cases = range(before.total(), args.cases)
    counts = before + run_cases(cases, args.seed, args.orders, args.seconds)
    if args.totals:
        args.totals.write_text(json.dumps(counts, indent=1))
    for verdict, count in counts.most_common():
        print(f"{count:6} {verdict}")
    print(f"{counts.total():6} of {args.cases} cases")
    return int(wrong or any(v.startswith("MISSED") for v in counts))


if __name__ == "__main__":
    sys.exit(main())
