"""Faults planted in random programs: does the checker report each one that can change a result?

    python test/bench/planted_faults.py --cases 10000 [--seed N] [--timings N]

A case is a random graph, compiled all the way down (fusion, in-place work and streams as they
come). The program as it is must pass the checker (`ge.runtime.check.memory`), and give the same
result in every random timing (`random_timings.py`). Then it gets one fault: a wait is dropped, a
lifetime is cut short (another buffer takes its bytes too early), or a buffer is shifted.
When a random timing gives another result, the checker must have reported the fault.
"""

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from random_graphs import Graphs, op_classes
from random_timings import differs, outcome
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.ir import Operation
from xdsl.parser import Parser

from ge.dialects.npu_task.ops import CopyOp, LaunchOp, RecordOp, SlotOp, TransferOp, WaitOp
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.support.types import byte_size, is_dynamic
from ge.lowering.driver.compiler import context, lower
from ge.lowering.pipeline.options import Options
from ge.runtime.check.memory import check_plan

# ---- programs --------------------------------------------------------------------------------

SIZES = (8, 16, 32)


def network(rng: random.Random) -> str:
    """A graph of matmuls and elementwise ops: work for the cube and the vector cores, with values
    that are used far from their definition."""
    lines: list[str] = []
    values: list[tuple[str, tuple[int, int]]] = []
    args = [(f"%x{i}", (rng.choice(SIZES), rng.choice(SIZES))) for i in range(rng.randint(1, 3))]
    values += args
    used: set[str] = set()

    def t(shape: tuple[int, ...]) -> str:
        return f"tensor<{'x'.join(map(str, shape))}xf32>"

    def pick(
        accept: Callable[[tuple[int, int]], bool] = lambda _: True,
    ) -> tuple[str, tuple[int, int]]:
        matches = [v for v in values if accept(v[1])]
        choice = rng.choice(matches[-5:] if rng.random() < 0.7 else matches)
        used.add(choice[0])
        return choice

    for i in range(rng.randint(3, 14)):
        name, (x, shape) = f"%{i}", pick()
        m, n = shape
        kind = rng.random()
        if kind < 0.35:
            k = rng.choice(SIZES)
            lines.append(f'%w{i} = graph.constant #graph.weight<"w{i}"> : {t((n, k))}')
            lines.append(
                f"{name} = graph.matmul {x}, %w{i} : ({t(shape)}, {t((n, k))}) -> {t((m, k))}"
            )
            shape = (m, k)
        elif kind < 0.6:
            y, _ = pick(lambda s, shape=shape: s == shape)
            what = rng.choice(("add", "mul", "sub"))
            lines.append(f"{name} = graph.{what} {x}, {y} : ({t(shape)}, {t(shape)}) -> {t(shape)}")
        elif kind < 0.7:
            y, (p, _) = pick(lambda s, n=n: s[1] == n)
            lines.append(f"{name} = graph.concat {x}, {y} axis 0 : "
                         f"({t(shape)}, {t((p, n))}) -> {t((m + p, n))}")  # fmt: skip
            shape = (m + p, n)
        elif kind < 0.8 and m > 8:
            half = m // 2
            lines.append(f"{name} = graph.slice {x} starts [{half}] ends [{m}] axes [0] : "
                         f"({t(shape)}) -> {t((half, n))}")  # fmt: skip
            shape = (half, n)
        else:
            what = rng.choice(("relu", "exp", "tanh"))
            lines.append(f"{name} = graph.{what} {x} : ({t(shape)}) -> {t(shape)}")
        values.append((name, shape))
    outputs = [v for v in values if v[0] not in used and v not in args] or values[-1:]
    head = ", ".join(f"{n}: {t(s)}" for n, s in args)
    types = ", ".join(t(s) for _, s in outputs)
    body = "\n  ".join(lines)
    returned = ", ".join(n for n, _ in outputs)
    return (
        f"func.func @main({head}) -> ({types}) {{\n  {body}\n  func.return {returned} : {types}\n}}"
    )


def program(seed: int, graphs: Graphs, ctx: Context) -> ModuleOp | None:
    """The compiled random graph of a seed; None where it has no fixed plan."""
    rng = random.Random(seed)
    if rng.random() < 0.7:
        module = Parser(ctx, network(rng)).parse_module()
    elif (graph := graphs.make(seed)) is not None:
        module = graph.clone()  # ops that were tried in vain still use values of the original
    else:
        return None
    fusion, memory = rng.choice(("off", "default")), rng.choice((0, 1, 1, 2))
    # what is planted is in plans and schedules (planted_tile_faults.py: in tile programs)
    options = Options(fusion=fusion, memory=memory, verify=False, tiles=False)
    try:
        lower(module, options)
    except GeError:
        return None
    func = main_function(module)
    assert func is not None
    if any(is_dynamic(t) for t in func.function_type.inputs) or any(
        isinstance(op, TransferOp) or any(is_dynamic(r.type) for r in op.results)
        for op in func.walk() if not isinstance(op, RecordOp)
    ):  # fmt: skip
        return None
    return module


# ---- faults ----------------------------------------------------------------------------------


def drop_wait(module: ModuleOp, rng: random.Random) -> str | None:
    """Take a wait away."""
    waits = [op for op in module.walk() if isinstance(op, WaitOp)]
    if not waits:
        return None
    op = rng.choice(waits)
    op.detach()
    op.erase()
    return "dropped wait"


def shorten_lifetime(module: ModuleOp, rng: random.Random) -> str | None:
    """Give a buffer the bytes of an earlier one, as if that had been dead by then."""
    slots = [op for op in module.walk() if isinstance(op, SlotOp) and op.segment.data == "arena"]
    if len(slots) < 2:
        return None
    first, second = sorted(rng.sample(range(len(slots)), 2))
    return move(module, slots[second], slots[first].offset.value.data, "shortened lifetime")


def shift(module: ModuleOp, rng: random.Random) -> str | None:
    """Move a buffer by some bytes."""
    slots = [op for op in module.walk() if isinstance(op, SlotOp)]
    if not slots:
        return None
    by = rng.choice((-1024, -512, -64, 64, 512, 1024))
    slot = rng.choice(slots)
    return move(module, slot, max(slot.offset.value.data + by, 0), "shifted offset")


def move(module: ModuleOp, slot: SlotOp, offset: int, name: str) -> str | None:
    """Put a slot elsewhere; its segment grows if need be."""
    if offset == slot.offset.value.data:
        return None
    slot.properties["offset"] = IntegerAttr(offset, i64)
    func = main_function(module)
    assert func is not None
    key = f"npu_task.{slot.segment.data}_bytes"
    size, end = func.attributes.get(key), offset + byte_size(slot.result.type)
    if isinstance(size, IntegerAttr) and size.value.data < end:
        func.attributes[key] = IntegerAttr(end, i64)
    return name


FAULTS = (drop_wait, shorten_lifetime, shift)


# ---- cases -----------------------------------------------------------------------------------


@dataclass
class Tally:
    """What came out."""

    programs: int = 0
    tasks: int = 0
    faults: Counter[str] = field(default_factory=Counter[str])
    reported: Counter[str] = field(default_factory=Counter[str])
    harmful: Counter[str] = field(default_factory=Counter[str])
    wrong: list[str] = field(default_factory=list[str])


def check_case(seed: int, graphs: Graphs, ctx: Context, timings: int, tally: Tally) -> None:
    """Check one program as it is, and with one fault."""
    module = program(seed, graphs, ctx)
    if module is None:
        return
    tally.programs += 1
    tally.tasks += sum(isinstance(op, TASKS) for op in module.walk())
    if problems := check_plan(module):
        tally.wrong.append(f"seed {seed}: false alarm: {problems[0]}")
        return
    want = outcome(module, seed)
    if differs(module, want, max(timings // 4, 1), seed):
        tally.wrong.append(f"seed {seed}: the program depends on timing")
        return
    rng = random.Random(seed)
    fault = rng.choice(FAULTS)(module, rng)
    if fault is None:
        return
    tally.faults[fault] += 1
    problems = check_plan(module)
    tally.reported[fault] += bool(problems)
    if differs(module, want, timings if not problems else max(timings // 4, 1), seed + 1):
        tally.harmful[fault] += 1
        if not problems:
            tally.wrong.append(f"seed {seed}: {fault} changes a result and is not reported")


TASKS: tuple[type[Operation], ...] = (LaunchOp, CopyOp, RecordOp, WaitOp)


PROGRESS = 250
"""Faults after which a line tells how far it is."""


def run_cases(faults: int, timings: int, seed: int = 0) -> Tally:
    """Check programs from a seed on until so many faults were planted; prints what is wrong, and
    now and then how far it is."""
    ctx, graphs, tally = context(), Graphs(op_classes()), Tally()
    planted = 0
    while planted < faults:
        known = len(tally.wrong)
        check_case(seed, graphs, ctx, timings, tally)
        for line in tally.wrong[known:]:
            print(line, flush=True)
        seed += 1
        if (now := tally.faults.total()) > planted and now % PROGRESS == 0:
            print(f"{now} faults, next seed {seed}, {len(tally.wrong)} wrong", flush=True)
        planted = now
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--cases", type=int, default=10000, help="programs with a planted fault")
    parser.add_argument("--seed", type=int, default=0, help="first seed")
    parser.add_argument(
        "--timings", type=int, default=20, help="random timings of a faulty program"
    )
    args = parser.parse_args()
    start = time.process_time()
    tally = run_cases(args.cases, args.timings, args.seed)
    print(f"{tally.programs} programs of {tally.tasks / tally.programs:.1f} tasks on average")
    for name, count in sorted(tally.faults.items()):
        print(f"{name}: {count} planted, {tally.reported[name]} reported, "
              f"{tally.harmful[name]} seen to change a result")  # fmt: skip
    print(f"{len(tally.wrong)} wrong, {time.process_time() - start:.0f} s of CPU time")
    return bool(tally.wrong)


if __name__ == "__main__":
    sys.exit(main())
