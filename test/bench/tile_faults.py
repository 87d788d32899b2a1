"""Faults planted in kernels by hand: does `ge-check` report each one that can change a result?

    python test/bench/tile_faults.py --cases 5000 [--seed N] [--orders N]

A case is one of the shipped kernels with one fault: the two ends of a flag are gone, a flag is set
too early or waited for too late, a buffer or a copy of it lies elsewhere, a ring has a wrong index,
a load has no padding. It runs on emulated cores in the simulated order and in random ones
(`runtime/tiles`). It is harmful where these give different bits, or one stops; then the checker
must report it, which has only the text. It is steady where all orders give the same wrong bits:
the checker does not claim that numbers are right, and may say nothing (those are counted).
"""

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from xdsl.dialects.arith import AddiOp, ConstantOp
from xdsl.dialects.builtin import IndexType, IntegerAttr
from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

from ge.dialects.support.errors import GeError
from ge.dialects.tile.buffers import AllocOp, SlotOp
from ge.dialects.tile.compute import FlagOp, SetOp, WaitOp
from ge.dialects.tile.instruction import Instruction
from ge.dialects.tile.kernel import KernelOp
from ge.dialects.tile.transfers import LoadOp
from ge.lowering.tiles import examples
from ge.lowering.tiles.api import Kernel, TileProgram
from ge.runtime.check.tiles import check_kernel
from ge.runtime.data.arrays import Array
from ge.runtime.tiles.kernel import TileKernel

# ---- kernels ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A kernel that is right, and what it gives."""

    program: TileProgram
    arrays: dict[str, Array]
    want: dict[str, bytes]


@cache
def cases() -> tuple[Case, ...]:
    rng = np.random.default_rng(0)

    def case(kernel: Kernel, shapes: dict[str, tuple[int, ...]], **sizes: int) -> Case:
        arrays: dict[str, Array] = {
            n: rng.standard_normal(s, np.float32).astype(np.float16) for n, s in shapes.items()
        }
        arrays["out"] = np.zeros(shapes["out"], np.float32 if "k" in shapes else np.float16)
        given: dict[str, Any] = {"cores": 2, **sizes}
        program = kernel.on(*arrays.values(), **given)
        del arrays["out"]
        return Case(program, arrays, bits(TileKernel(program.kernel, program.target), arrays))

    gemm = {"a": (40, 80), "b": (80, 48), "out": (40, 48)}
    flash = {"q": (32, 32), "k": (96, 32), "v": (96, 32), "out": (32, 32)}
    return (
        case(examples.gemm, gemm, M=16, N=32, K=32),
        case(examples.rms_norm, {"x": (70, 48), "weight": (48,), "out": (70, 48)}),
        case(examples.flash, flash, M=16, N=32, ahead=1),
    )


def bits(kernel: TileKernel, arrays: dict[str, Array], seed: int | None = None) -> dict[str, bytes]:
    return {name: a.tobytes() for name, a in kernel.run(arrays, seed).items()}


# ---- faults ----------------------------------------------------------------------------------


def ops_of(kernel: KernelOp, *kinds: type[Operation]) -> list[Operation]:
    return [op for op in kernel.walk() if isinstance(op, kinds)]


def drop_flag(kernel: KernelOp, rng: random.Random) -> str | None:
    """Take a set and the next wait for the same flag away."""
    flags = [op for op in ops_of(kernel, FlagOp) if isinstance(op, FlagOp)]
    sets = [op for op in flags if isinstance(op, SetOp)]
    if not sets:
        return None
    first = rng.choice(sets)
    behind = flags[flags.index(first) :]
    key = first.source, first.target, first.id
    pair = (f for f in behind if isinstance(f, WaitOp) and (f.source, f.target, f.id) == key)
    if (second := next(pair, None)) is None or second.parent is not first.parent:
        return None
    for op in (first, second):
        op.detach()
        op.erase()
    return "dropped flag"


def move_flag(kernel: KernelOp, rng: random.Random) -> str | None:
    """Set a flag before the instruction that it is for, or wait for it behind one."""
    op = rng.choice(ops_of(kernel, FlagOp))
    assert isinstance(op, FlagOp)
    early = isinstance(op, SetOp)
    other = op.prev_op if early else op.next_op
    while other is not None:
        if isinstance(other, Instruction) and not isinstance(other, FlagOp):
            if other.pipe() is op.pipe():
                break
        other = other.prev_op if early else other.next_op
    if other is None or (block := other.parent) is None:
        return None
    op.detach()
    if early:
        block.insert_op_before(op, other)
    else:
        block.insert_op_after(op, other)
    return "early set" if early else "late wait"


def shift(kernel: KernelOp, rng: random.Random) -> str | None:
    """Move a buffer, or put a copy of a ring where another one is."""
    op = rng.choice(ops_of(kernel, AllocOp))
    assert isinstance(op, AllocOp)
    offsets = list(op.offsets or ())
    place = rng.randrange(len(offsets))
    if len(offsets) > 1 and rng.random() < 0.5:
        offsets[place], name = offsets[place - 1], "too few copies"
    else:
        by = rng.choice((-1024, -512, 512, 1024, op.tile.bytes))
        offsets[place], name = max(0, offsets[place] + by), "shifted offset"
    op.properties["at"] = AllocOp(op.tile, offsets).properties["at"]
    return name


def change_index(kernel: KernelOp, rng: random.Random) -> str | None:
    """Take the next copy of a ring, or always the same one."""
    slots = ops_of(kernel, SlotOp)
    if not slots:
        return None
    op = rng.choice(slots)
    assert isinstance(op, SlotOp)
    added: list[Operation] = [ConstantOp(IntegerAttr(1, IndexType()))]
    if rng.random() < 0.5:
        added.append(AddiOp(op.index, added[0].results[0]))
    assert op.parent is not None
    op.parent.insert_ops_before(added, op)
    op.operands[1] = added[-1].results[0]
    return "wrong ring index"


def drop_padding(kernel: KernelOp, rng: random.Random) -> str | None:
    loads = [op for op in ops_of(kernel, LoadOp) if "pad" in op.properties]
    if not loads:
        return None
    del rng.choice(loads).properties["pad"]
    return "missing padding"


FAULTS: Sequence[Callable[[KernelOp, random.Random], str | None]] = (
    drop_flag, move_flag, shift, change_index, drop_padding
)  # fmt: skip


# ---- cases -----------------------------------------------------------------------------------


@dataclass
class Tally:
    """What came out, by kind of fault."""

    faults: Counter[str] = field(default_factory=Counter[str])
    harmful: Counter[str] = field(default_factory=Counter[str])
    steady: Counter[str] = field(default_factory=Counter[str])  # and not reported
    unseen: Counter[str] = field(default_factory=Counter[str])  # reported, the same bits each time
    wrong: list[str] = field(default_factory=list[str])


def check_case(seed: int, orders: int, tally: Tally) -> None:
    rng = random.Random(seed)
    case = rng.choice(cases())
    kernel = case.program.kernel.clone()
    name = rng.choice(FAULTS)(kernel, rng)
    if name is None:
        return
    try:
        kernel.verify()
    except VerifyException:
        return
    tally.faults[name] += 1
    reported = bool(check_kernel(kernel, case.program.target).problems)
    outcome = outcomes(kernel, case, range(seed, seed + orders))
    if len(outcome) > 1 or "" in outcome:
        tally.harmful[name] += 1
        if not reported:
            tally.wrong.append(f"seed {seed}: {name} in @{kernel.sym_name.data} is not reported")
    elif outcome == {str(case.want)}:
        tally.unseen[name] += reported
    else:
        tally.steady[name] += not reported


def outcomes(kernel: KernelOp, case: Case, seeds: Sequence[int]) -> set[str]:
    """What the simulated order and random ones give; "" where the kernel stops or does not fit."""
    found = set[str]()
    try:
        run = TileKernel(kernel, case.program.target)
        for seed in (None, *seeds):
            found.add(str(bits(run, case.arrays, seed)))
    except GeError:
        found.add("")
    return found


def run_cases(seeds: Sequence[int], orders: int) -> Tally:
    """The kernels as they are give the same bits in each order, and are proved; then the faults."""
    tally = Tally()
    for case in cases():
        kernel = case.program.kernel
        if check_kernel(kernel, case.program.target).problems:
            tally.wrong.append(f"@{kernel.sym_name.data} is right, and refused")
        if outcomes(kernel, case, range(orders)) != {str(case.want)}:
            tally.wrong.append(f"@{kernel.sym_name.data} gives other bits in a random order")
    for seed in seeds:
        check_case(seed, orders, tally)
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--orders", type=int, default=12)
    args = parser.parse_args()
    tally = run_cases(range(args.seed, args.seed + args.cases), args.orders)
    print(f"{'fault':18} planted harmful reported-unseen steady-unreported")
    for name, count in sorted(tally.faults.items()):
        figures = tally.harmful[name], tally.unseen[name], tally.steady[name]
        print(f"{name:18} {count:7} {figures[0]:7} {figures[1]:15} {figures[2]:17}")
    print(*tally.wrong, sep="\n")
    print(f"{len(tally.wrong)} wrong")
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
