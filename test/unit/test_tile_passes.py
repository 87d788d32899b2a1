"""Random tile programs run on pipes in any order: with the flags of `tile-flags` each slot of a
buffer is accessed in the order of the program; `tile-split-loops` keeps what runs, and when."""

import math
import operator
import random
import sys
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.scf import ForOp, IfOp, YieldOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.parser import Parser

sys.path.insert(0, str(Path(__file__).parent))
from counting_steps import calls

from ge.dialects.support.errors import GeError
from ge.dialects.tile.buffers import AllocOp, ViewOp, buffer_of, constant_index, slot_of
from ge.dialects.tile.compute import FlagOp, SetOp
from ge.dialects.tile.instruction import Instruction
from ge.dialects.tile.kernel import CoreOp, KernelOp
from ge.dialects.tile.types import Pipe
from ge.lowering.driver.context import context
from ge.transforms.tiles.tile_flags import TileFlagsPass, add_flags
from ge.transforms.tiles.tile_split_loops import TileSplitLoopsPass

CONTEXT = context()
ORDERS = list(permutations((Pipe.MTE1, Pipe.MTE2, Pipe.M, Pipe.FIX)))
EXAMPLES = settings().max_examples

COMPARE = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)
COMPUTE: dict[type[Operation], Callable[[int, int], int]] = {
    arith.AddiOp: operator.add,
    arith.SubiOp: operator.sub,
    arith.MuliOp: operator.mul,
    arith.CeilDivSIOp: lambda a, b: -(-a // b),
    arith.RemSIOp: lambda a, b: int(math.fmod(a, b)),
    arith.MaxSIOp: max,
    arith.MinSIOp: min,
}


@dataclass
class Step:
    """An instruction that runs: its op's text, and the slots that it touches."""

    op: Instruction
    slots: set[tuple[SSAValue, int]]
    flag: int = 0


def steps_of(block: Block, values: dict[SSAValue, int]) -> Iterator[Step]:
    """The instructions of a program in order, its index arithmetic computed."""
    for op in block.ops:
        if isinstance(op, ForOp):
            for i in range(*(values[v] for v in (op.lb, op.ub, op.step))):
                values[op.body.block.args[0]] = i
                yield from steps_of(op.body.block, values)
        elif isinstance(op, IfOp):
            region = op.true_region if values[op.cond] else op.false_region
            if region.blocks:
                yield from steps_of(region.block, values)
        elif isinstance(op, FlagOp):
            yield Step(op, set(), values[op.id])
        elif isinstance(op, Instruction):
            yield Step(op, {place(v, values) for v in (*op.reads(), *op.writes())})
        else:
            evaluate(op, values)


def evaluate(op: Operation, values: dict[SSAValue, int]) -> None:
    if isinstance(op, arith.ConstantOp):
        number = constant_index(op.result)
        assert number is not None
        values[op.result] = number
    elif isinstance(op, arith.CmpiOp):
        values[op.result] = COMPARE[op.predicate.value.data](values[op.lhs], values[op.rhs])
    elif type(op) in COMPUTE:
        left, right = (values[v] for v in op.operands)
        values[op.results[0]] = COMPUTE[type(op)](left, right)
    elif isinstance(op, CoreOp):
        values[op.result] = 2
    else:
        assert isinstance(op, YieldOp | AllocOp | ViewOp) or op.name == "tile.slot", op


def place(value: SSAValue, values: dict[SSAValue, int]) -> tuple[SSAValue, int]:
    buffer, slot = buffer_of(value), slot_of(value)
    if slot is None:
        return buffer, 0
    assert isinstance(buffer.owner, AllocOp)
    return buffer, values[slot.index] % buffer.owner.copies


def trace(kernel: KernelOp) -> list[Step]:
    values: dict[SSAValue, int] = {}
    for op in kernel.body.block.ops:
        if isinstance(op, arith.ConstantOp):
            evaluate(op, values)
    return list(steps_of(kernel.programs[0].body.block, values))


def run(steps: list[Step], order: tuple[Pipe, ...] | random.Random) -> None:
    """Run the pipes side by side: the first of `order` that can go on does, or any."""
    queues: dict[Pipe, deque[tuple[int, Step]]] = {pipe: deque() for pipe in Pipe}
    for at, step in enumerate(steps):
        queues[step.op.pipe()].append((at, step))
    flags: set[tuple[Pipe, Pipe, int]] = set()
    last: dict[tuple[SSAValue, int], int] = {}

    def is_ready(pipe: Pipe) -> bool:
        if not (queue := queues[pipe]):
            return False
        step = queue[0][1]
        waits = isinstance(step.op, FlagOp) and not isinstance(step.op, SetOp)
        return not waits or flag_of(step) in flags

    while any(queues.values()):
        ready = [p for p in (order if isinstance(order, tuple) else Pipe) if is_ready(p)]
        assert ready, f"deadlock before {[str(q[0][1].op) for q in queues.values() if q]}"
        at, step = queues[ready[0] if isinstance(order, tuple) else order.choice(ready)].popleft()
        if isinstance(step.op, SetOp):
            assert flag_of(step) not in flags, f"set when it is set: {step.op}"
            flags.add(flag_of(step))
        elif isinstance(step.op, FlagOp):
            flags.remove(flag_of(step))
        for slot in step.slots:
            assert last.get(slot, -1) < at, f"{step.op} before its turn"
            last[slot] = at
    assert not flags


def fails(steps: list[Step], order: tuple[Pipe, ...]) -> bool:
    try:
        run(steps, order)
    except AssertionError:
        return True
    return False


def flag_of(step: Step) -> tuple[Pipe, Pipe, int]:
    assert isinstance(step.op, FlagOp)
    return step.op.source.data, step.op.target.data, step.flag


# ---- random programs ---------------------------------------------------------------------------

ALLOCS = """
    %p = tile.alloc : !tile.ring<{} x 16x16xf16, l1>
    %q = tile.alloc : !tile.ring<{} x 16x16xf16, l1>
    %a = tile.alloc : !tile.ring<{} x 16x16xf16, l0a>
    %b = tile.alloc : !tile.tile<16x16xf16, l0b>
    %c = tile.alloc : !tile.ring<{} x 16x16xf32, l0c>
    %me = tile.core
"""
KINDS = {
    "load": "tile.load %x to {p}",
    "pop": "tile.load %x to {q}",
    "left": "tile.move {p} to {a}",
    "left2": "tile.move {q} to {a}",
    "right": "tile.move {q} to %b",
    "mmad": "tile.mmad {c}, {a}, %b",
    "out": "tile.store {c} to %y",
    "back": "tile.move {c} to {q}",
}


class Writing:
    """Writes a random program, with names that no other value has."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.copies = {r: draw(st.integers(1, 4)) for r in "pqac"}
        self.lines: list[str] = []
        self.count = 0

    def name(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def add(self, text: str) -> str:
        name = self.name()
        self.lines.append(f"{name} = {text}")
        return name

    def number(self, value: int) -> str:
        return self.add(f"arith.constant {value} : index")

    def index(self, loops: list[str]) -> str:
        """A loop's variable and a number, with another value now and then."""
        base = self.draw(st.sampled_from([*loops, *loops[-1:] * 4, "%me"]))
        offset = self.draw(st.sampled_from([0, 0, 0, -1, 1, -2]))
        if self.draw(st.integers(0, 9)) == 0:
            base = self.add(f"arith.addi {base}, %me : index")
        if offset < 0:
            return self.add(f"arith.subi {base}, {self.number(-offset)} : index")
        return self.add(f"arith.addi {base}, {self.number(offset)} : index") if offset else base

    def instruction(self, loops: list[str]) -> None:
        text = KINDS[self.draw(st.sampled_from(sorted(KINDS)))]
        slots = dict[str, str]()
        for ring, (element, space) in {
            "p": ("f16", "l1"), "q": ("f16", "l1"), "a": ("f16", "l0a"), "c": ("f32", "l0c"),
        }.items():  # fmt: skip
            if f"{{{ring}}}" in text:
                t = f"!tile.ring<{self.copies[ring]} x 16x16x{element}, {space}>"
                slots[ring] = self.add(f"tile.slot %{ring}[{self.index(loops)}] : {t}")
        self.lines.append(text.format(**slots))

    def block(self, loops: list[str], ifs: bool) -> None:
        for _ in range(self.draw(st.integers(1, 4))):
            choice = self.draw(st.integers(0, 7))
            if choice < 2 and len(loops) < 3:
                begin = self.draw(st.integers(0, 2))
                first = self.draw(st.sampled_from([self.number(begin), "%me"]))
                end = self.number(begin + self.draw(st.integers(0, 5)))
                if self.draw(st.booleans()):
                    end = self.add(f"arith.addi {end}, %me : index")
                step = self.number(self.draw(st.sampled_from([1, 1, 1, 2])))
                variable = self.name()
                self.lines.append(f"scf.for {variable} = {first} to {end} step {step} {{")
                self.block([*loops, variable], ifs)
                self.lines.append("}")
            elif choice == 2 and ifs and loops:
                predicate = self.draw(st.sampled_from(["eq", "ne", "slt", "sle", "sgt", "sge"]))
                bound = self.number(self.draw(st.integers(-1, 6)))
                bound = self.draw(st.sampled_from([bound, bound, "%me"]))
                operands = self.index(loops), bound
                left, right = operands if self.draw(st.booleans()) else operands[::-1]
                test = self.add(f"arith.cmpi {predicate}, {left}, {right} : index")
                self.lines.append(f"scf.if {test} {{")
                self.instruction(loops)
                self.lines.append("} else {")
                self.instruction(loops)
                self.lines.append("}")
            else:
                self.instruction(loops)


@st.composite
def programs(draw: st.DrawFn, ifs: bool = False) -> str:
    writing = Writing(draw)
    writing.block([], ifs)
    allocs = ALLOCS.format(*(writing.copies[r] for r in "pqac"))
    body = "\n".join(f"    {line}" for line in writing.lines)
    return f"""tile.kernel @k(%m: memref<16x16xf16>, %n: memref<16x16xf32>) cores 1 {{
  %zero = arith.constant 0 : index
  tile.cube {{{allocs}
    %x = tile.view %m[%zero, %zero] : memref<16x16xf16> -> !tile.box<16x16xf16>
    %y = tile.view %n[%zero, %zero] : memref<16x16xf32> -> !tile.box<16x16xf32>
{body}
  }}
}}"""


def parsed(text: str) -> tuple[ModuleOp, KernelOp]:
    module = Parser(CONTEXT, text).parse_module()
    kernel = module.body.block.first_op
    assert isinstance(kernel, KernelOp)
    return module, kernel


@given(programs(), st.sampled_from([3, 5, 8]), st.randoms(use_true_random=False))
@settings(max_examples=EXAMPLES // 3)
def test_flags_keep_the_order_of_accesses(text: str, most: int, chance: random.Random):
    module, kernel = parsed(text)
    before = [str(s.op) for s in trace(kernel)]
    try:
        add_flags(kernel.programs[0], most)
    except GeError:
        reject()  # more buffers than flags
    module.verify()
    steps = trace(kernel)
    assert len([s for s in steps if not isinstance(s.op, FlagOp)]) == len(before)
    assert all(s.flag < most for s in steps)
    for order in chance.sample(ORDERS, 4):
        run(steps, order)
    run(steps, chance)


@pytest.mark.parametrize("dropped", range(5))
def test_a_flag_less_is_noticed(dropped: int):
    """The same of a kernel without one of its flags fails in some order."""
    text = (Path(__file__).parents[1] / "transforms/tiles/Inputs/gemm.mlir").read_text("utf-8")
    module, kernel = parsed(text)
    TileFlagsPass().apply(CONTEXT, module)
    steps = trace(kernel)
    pairs = [flag_of(s)[:2] if isinstance(s.op, FlagOp) else None for s in steps]
    kinds = sorted({pair for pair in pairs if pair is not None})
    assert len(kinds) == 5
    less = [s for s, pair in zip(steps, pairs, strict=True) if pair != kinds[dropped]]
    assert any(fails(less, order) for order in ORDERS)


@given(programs(ifs=True))
@settings(max_examples=EXAMPLES // 6)
def test_cut_loops_run_the_same(text: str):
    def what(kernel: KernelOp) -> list[tuple[str, list[int]]]:
        return [(s.op.name, sorted(n for _, n in s.slots)) for s in trace(kernel)]

    module, kernel = parsed(text)
    before = what(kernel)
    TileSplitLoopsPass().apply(CONTEXT, module)
    module.verify()
    assert what(kernel) == before
    again = str(module)
    TileSplitLoopsPass().apply(CONTEXT, module)
    assert str(module) == again


def flag_calls(loops: int) -> int:
    """Calls of functions that flags for a program of so many loops take."""
    body = "".join(
        f"""
    scf.for %j{i} = %zero to %n step %one {{
      %s{i} = tile.slot %r[%j{i}] : !tile.ring<2 x 16x16xf32, ub>
      tile.load %x to %s{i}
      tile.store %s{i} to %x
    }}
    tile.load %x to %t
    tile.store %t to %x"""
        for i in range(loops)
    )
    _, kernel = parsed(f"""tile.kernel @k(%m: memref<16x16xf32>) cores 1 {{
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %n = arith.constant 4 : index
  tile.vector {{
    %r = tile.alloc : !tile.ring<2 x 16x16xf32, ub>
    %t = tile.alloc : !tile.tile<16x16xf32, ub>
    %x = tile.view %m[%zero, %zero] : memref<16x16xf32> -> !tile.box<16x16xf32>{body}
  }}
}}""")
    return calls(lambda: add_flags(kernel.programs[0], 8))


def test_flags_are_linear_in_the_program():
    assert flag_calls(24) < 3.3 * flag_calls(8)
