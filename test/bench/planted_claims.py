"""Edits of what programs say of states that grow, of sizes between gears, and of the bytes of
tensors of unknown size: does ge-check refuse each one after which runs fail or give other numbers?

    python test/bench/planted_claims.py [--cases 500] [--seed N] [--only states|gears|dynamic]

Each case changes attributes of one of a few small programs. It is run as the program was: four
steps with state, sizes at and between gears, sizes at the ends of ranges; over memory with garbage
in two ways. Where a run fails, or outputs are not those of the program before, ge-check must have
refused it.
"""

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))

from program_judge import GARBAGE, garbage
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    i64,
)
from xdsl.ir import Attribute, Operation

from ge.dialects.graph.stated import DIMS, LENGTH, PADDING, STEP, dim_ranges, state_ranges
from ge.dialects.npu_task.attributes import (
    BYTES,
    GROWS,
    OFFSETS,
    VALID,
    state_bytes,
    state_offsets,
    stated_bytes,
)
from ge.dialects.npu_task.ops import SlotOp
from ge.dialects.support.dims import Range
from ge.dialects.support.types import array_ints
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context, load, lower, lower_program
from ge.lowering.driver.program import Program
from ge.lowering.pipeline.options import Options
from ge.runtime.check.proof import check_program
from ge.runtime.data.weights import Payload
from ge.runtime.device.session import Session, main_of

MODELS = Path(__file__).parents[1] / "models"
Inputs = dict[str, Any]
Change = Callable[[ModuleOp, random.Random], None]


@dataclass(frozen=True)
class Case:
    """A program, its weights, and the inputs of runs one after the other."""

    module: ModuleOp
    payload: Payload
    runs: Sequence[Inputs]
    changes: Sequence[Change]

    def outputs(self, module: ModuleOp) -> list[list[Any]]:
        session = Session(module, self.payload, sanitize=False, poison=True)
        return [[*session.run(inputs).values()] for inputs in self.runs]


# ---- states that grow ----


def states() -> Case:
    program = load(str(MODELS / "gpt2_decode.dynamic.onnx"), dims={"batch": 1})
    options = {"state": (r"past_key_values\.(.*)=present.\1",), "state_capacity": "past=6"}
    lower(program.module, Options(**options))
    runs = [
        {
            "input_ids": np.full((1, 1), 7 * step),
            "attention_mask": np.ones((1, step + 1), np.int64),
            "position_ids": np.full((1, 1), step),
        }
        for step in range(4)
    ]
    changes = (grows, one_grows, counter, rows_of_mask, valid, swapped_states)
    return Case(program.module, program.payload, runs, changes)


def slots(module: ModuleOp) -> list[SlotOp]:
    return [op for op in module.walk() if isinstance(op, SlotOp) and GROWS in op.attributes]


def edit_axis(op: Operation, rng: random.Random) -> None:
    if rng.random() < 0.5:
        del op.attributes[GROWS]
    else:
        op.attributes[GROWS] = IntegerAttr(rng.choice((0, 1, 3, 4)), i64)


def grows(module: ModuleOp, rng: random.Random) -> None:
    """No state says that it grows, or all say it of another axis."""
    axis = rng.choice((None, 0, 1, 3))
    for op in slots(module):
        if axis is None:
            del op.attributes[GROWS]
        else:
            op.attributes[GROWS] = IntegerAttr(axis, i64)


def one_grows(module: ModuleOp, rng: random.Random) -> None:
    edit_axis(rng.choice(slots(module)), rng)


def edit_arguments(module: ModuleOp, change: Callable[[dict[str, Attribute]], None]) -> None:
    main = main_of(module)
    tables = [dict(table.data) for table in main.arg_attrs or ()]
    for table in tables:
        change(table)
    main.arg_attrs = ArrayAttr(map(DictionaryAttr, tables))


def counter(module: ModuleOp, rng: random.Random) -> None:
    """The counter of rows says less, or another step."""
    kind, step = rng.choice((STEP, LENGTH, "step")), rng.choice((0, 2, 3, -1))

    def change(table: dict[str, Attribute]) -> None:
        if kind == "step" and STEP in table:
            table[STEP] = IntegerAttr(step, i64)
        else:
            table.pop(kind, None)

    edit_arguments(module, change)


def rows_of_mask(module: ModuleOp, rng: random.Random) -> None:
    """A mask has more or fewer elements than rows."""
    name = rng.choice(("past", "past + 2", "past + 3", "2*past", "past - 1"))

    def change(table: dict[str, Attribute]) -> None:
        dims = table.get(DIMS)
        if isinstance(dims, ArrayAttr) and StringAttr("past + 1") in dims.data:
            table[DIMS] = ArrayAttr([StringAttr(name) if d.data else d for d in dims.data])

    edit_arguments(module, change)


def valid(module: ModuleOp, rng: random.Random) -> None:
    """A state holds fewer values at first than it has room for."""
    op = rng.choice(slots(module))
    sizes = list(array_ints(op.attributes[VALID]))
    i = rng.randrange(len(sizes))
    sizes[i] = max(sizes[i] + rng.choice((-1, 1, -2)), 0)
    op.attributes[VALID] = DenseArrayBase.from_list(i64, sizes)


def swapped_states(module: ModuleOp, rng: random.Random) -> None:
    """Two states lie where the other one does, or one where another one does."""
    a, b = rng.sample(slots(module), 2)
    if rng.random() < 0.5:
        a.properties["offset"] = b.properties["offset"]
    else:
        a.properties["offset"], b.properties["offset"] = b.offset, a.offset


# ---- gears ----


def gears(number: int) -> Case:
    import test_gear_padding as cases

    texts = [
        cases.attention(),
        cases.body(cases.SAFE["a sum of zeros"]),
        cases.body(cases.SAFE["a product of zeros"]),
        cases.body(cases.SAFE["rows stay apart"]),
        cases.body(cases.UNSAFE["graph.softmax"]),
        cases.body(cases.UNSAFE["graph.reduce"]),
        cases.body(cases.UNSAFE["graph.matmul"]),
        cases.body(cases.UNSAFE["graph.gather"]),
        cases.body(cases.UNSAFE["graph.cast"]),
        cases.body(cases.UNSAFE["graph.range"]),
        cases.body(cases.UNSAFE["graph.if"]),
    ]
    module = parse_module(context(), SourceText("gears", texts[number % len(texts)]))
    made = Program(module, {}, "gears.mlir")
    lower_program(made, Options(dynamic_dims="2,4;4,9"))
    claims = main_of(made.module).attributes[PADDING]
    assert isinstance(claims, DictionaryAttr)
    sizes = [(2, 4), (4, 9)]
    safe = {n for n, claim in claims.data.items() if isinstance(claim, DictionaryAttr)}
    sizes += [(1, 4), (3, 9)] * ("batch" in safe) + [(2, 3), (4, 6)] * ("length" in safe)
    sizes += [(3, 5)] * (len(safe) > 1)
    return Case(made.module, {}, [cases.inputs(*size) for size in sizes], (cut, more_padding))


def claim_of(axes: Sequence[int]) -> DictionaryAttr:
    return DictionaryAttr({"y": DenseArrayBase.from_list(i64, axes)} if axes else {})


def cut(module: ModuleOp, rng: random.Random) -> None:
    """Outputs are cut along other axes, more or fewer of them."""
    main = main_of(module)
    claims = dict(main.attributes[PADDING].data)  # pyright: ignore
    name = rng.choice([*claims])
    axes = rng.choice(([], [0], [1], [2], [0, 1], [0, 2], [1, 2], [0, 1, 2], [3], [-1]))
    if isinstance(claims[name], DictionaryAttr) or rng.random() < 0.5:
        claims[name] = claim_of(axes)
    main.attributes[PADDING] = DictionaryAttr(claims)


def more_padding(module: ModuleOp, rng: random.Random) -> None:
    """A dimension that must not be padded may be, or one that there is none of."""
    main = main_of(module)
    claims = dict(main.attributes[PADDING].data)  # pyright: ignore
    name = rng.choice(("batch", "length", "rows"))
    claims[name] = claim_of({"batch": [0], "length": [1], "rows": [0]}[name])
    main.attributes[PADDING] = DictionaryAttr(claims)


# ---- plans for ranges of sizes ----


def dynamic() -> Case:
    import test_plan_ranges as cases

    module = parse_module(context(), SourceText("test", cases.TEXT))
    made = Program(module, {}, "test.mlir")
    lower_program(made, Options(fusion="off"))
    runs = [cases.values(n) for n in (1, cases.MOST, 17)]
    return Case(made.module, {}, runs, (bytes_stated, offset, ranges, figure))


def placed(module: ModuleOp) -> list[Operation]:
    return [op for op in module.walk() if OFFSETS in op.attributes and BYTES in op.attributes]


def bytes_stated(module: ModuleOp, rng: random.Random) -> None:
    """A result states other bytes."""
    op = rng.choice(placed(module))
    texts = stated_bytes(op)
    i = rng.randrange(len(texts))
    number = rng.choice((1, 4, 8, 64, 128, 255, 257, 512, 1024, 4096))
    texts[i] = rng.choice((f"{number} * n", f"{number}", f"at most {number} * n",
                           f"{texts[i].removeprefix('at most ')} - {number}", ""))  # fmt: skip
    state_bytes(op, texts)


def offset(module: ModuleOp, rng: random.Random) -> None:
    op, other = (rng.choice(placed(module)) for _ in range(2))
    own = list(array_ints(op.attributes[OFFSETS]))
    i = rng.randrange(len(own))
    others = array_ints(other.attributes[OFFSETS])
    own[i] = rng.choice((own[i] + 512, own[i] - 512, own[i] + 4, -1, 0, others[0]))
    state_offsets(op, own)


def ranges(module: ModuleOp, rng: random.Random) -> None:
    main = main_of(module)
    known = dim_ranges(main)
    by = rng.choice((1, 8, 100))
    state_ranges(main, {n: Range(r.least, (r.most or 0) + by) for n, r in known.items()})


def figure(module: ModuleOp, rng: random.Random) -> None:
    name = rng.choice(("dynamic_bytes", "arena_bytes", "io_bytes", "state_bytes"))
    attributes = main_of(module).attributes
    own = attributes.get(f"npu_task.{name}")
    value = own.value.data if isinstance(own, IntegerAttr) else 0
    value = max(value + rng.choice((-512, 512, -value)), 0)
    attributes[f"npu_task.{name}"] = IntegerAttr(value, i64)


# ---- cases ----


@cache
def case_of(kind: str, number: int) -> tuple[Case, list[list[Any]]]:
    case = {"states": states, "dynamic": dynamic}[kind]() if kind != "gears" else gears(number)
    assert not check_program(case.module).problems
    return case, case.outputs(case.module)


def same(a: Sequence[Sequence[Any]], b: Sequence[Sequence[Any]]) -> bool:
    return all(
        x.shape == y.shape and np.allclose(x, y, 1e-4, 1e-5, equal_nan=True)
        for m, n in zip(a, b, strict=True)
        for x, y in zip(m, n, strict=True)
    )


def harm_of(case: Case, module: ModuleOp, want: Sequence[Sequence[Any]]) -> str:
    """What goes wrong in a run; empty: nothing."""
    for value in GARBAGE:
        try:
            with garbage(value):
                if not same(case.outputs(module), want):
                    return "other numbers"
        except Exception as e:
            return f"{type(e).__name__}: {str(e)[:100]}"
    return ""


def judge(number: int, kinds: Sequence[str]) -> tuple[str, str]:
    """What becomes of an edit, and which it is."""
    rng = random.Random(number)
    kind = rng.choice(kinds)
    case, want = case_of(kind, rng.randrange(11) if kind == "gears" else 0)
    module = case.module.clone()
    change = rng.choice(case.changes)
    change(module, rng)
    name = f"{kind}: {change.__name__}"
    if str(module) == str(case.module):
        return "no edit", name
    problems = check_program(module).problems
    if harm := harm_of(case, module, want):
        return ("harm, refused", name) if problems else (f"MISSED: {harm}", name)
    return ("harmless, refused" if problems else "harmless, proved"), name


KINDS = ("states", "gears", "dynamic")


def run_cases(numbers: Iterable[int], kinds: Sequence[str] = KINDS) -> Counter[tuple[str, str]]:
    """How many edits met with each verdict, by what they change; prints those that are missed."""
    counts = Counter[tuple[str, str]]()
    for number in numbers:
        verdict, name = judge(number, kinds)
        if verdict.startswith("MISSED"):
            print(f"case {number}: {name}: {verdict}", flush=True)
            verdict = "MISSED"
        counts[verdict, name] += 1
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0, help="number of the first case")
    parser.add_argument("--only", choices=KINDS)
    args = parser.parse_args()
    kinds = [args.only] if args.only else KINDS
    counts = run_cases(range(args.seed, args.seed + args.cases), kinds)
    for (verdict, name), count in sorted(counts.items()):
        print(f"{count:5} {verdict:18} {name}")
    totals = Counter[str]()
    for (verdict, _), count in counts.items():
        totals[verdict] += count
    print(", ".join(f"{count} {verdict}" for verdict, count in totals.most_common()))
    return int(any(verdict == "MISSED" for verdict in totals))


if __name__ == "__main__":
    sys.exit(main())
