"""Times of tile programs against published ones:

    python test/bench/tile_times.py ROWS.csv [FAMILY ...]

A row is one op of given shapes (family, case, us): the tile program that `lower-kernels` writes for
it is simulated, and its time set against the published microseconds, and against the formulas' time
of the launch. Of each family the geometric mean of ours / published, and the rms factor.
"""

import argparse
import csv
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xdsl.context import Context

from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.support.diagnostics import Diagnostic, diagnostic_handler
from ge.dialects.targets.target import Target, record_target
from ge.dialects.tile.kernel import KernelOp as TileKernelOp
from ge.lowering.driver.compiler import context, lower
from ge.lowering.kernels.lower_kernels import LowerKernelsPass
from ge.lowering.levels.level import Level
from ge.lowering.pipeline.options import Options
from ge.lowering.text.reading import Source, parse_module
from ge.lowering.tiles.writing import finish
from ge.runtime.costs.cost import task_time
from ge.runtime.tiles.kernel import KernelTime, TileKernel

Case = dict[str, Any]


def tensor(shape: Sequence[int], element: str) -> str:
    return "tensor<" + "x".join(map(str, [*shape, element])) + ">"


def module(arguments: Sequence[str], result: str, *lines: str) -> str:
    """A function whose result is %r."""
    inputs = ", ".join(f"%a{i}: {t}" for i, t in enumerate(arguments))
    body = "".join(f"  {line}\n" for line in lines)
    return f"func.func @main({inputs}) -> {result} {{\n{body}  func.return %r : {result}\n}}\n"


def gemm(case: Case) -> str:
    m, k, n, element = (case[key] for key in ("m", "k", "n", "dtype"))
    a, b, out = (tensor(s, element) for s in ((m, k), (k, n), (m, n)))
    return module([a, b], out, f"%r = graph.matmul %a0, %a1 : ({a}, {b}) -> {out}")


def int8_matmul(case: Case) -> str:
    m, k, n, element = (case[key] for key in ("m", "k", "n", "out"))
    a, b, scale = tensor((m, k), "i8"), tensor((k, n), "i8"), tensor((n,), "f32")
    whole, real, out = (tensor((m, n), t) for t in ("i32", "f32", element))
    return module(
        [a, b, scale],
        out,
        f"%0 = graph.matmul %a0, %a1 : ({a}, {b}) -> {whole}",
        f"%1 = graph.cast %0 to f32 : ({whole}) -> {real}",
        f"%2 = graph.mul %1, %a2 : ({real}, {scale}) -> {real}",
        f"%r = graph.cast %2 to {element} : ({real}) -> {out}",
    )


TEXTS: dict[str, Callable[[Case], str]] = {"gemm": gemm, "int8_matmul": int8_matmul}


@dataclass(frozen=True)
class Measured:
    """Times of the tile programs of a function's launches, those that the formulas say, and why
    launches have no program."""

    times: list[KernelTime]
    formulas: float
    reasons: list[str]


def measured(text: str, name: str) -> Measured:
    ops, target = parse_module(context(), Source("case", text)), Target.load(name)
    lower(ops, Options(target=name), until=Level.TASKS)
    record_target(ops, name)
    found: list[Diagnostic] = []
    with diagnostic_handler(found.append):
        LowerKernelsPass(name).apply(Context(), ops)
    finish(ops)
    formulas = 0.0
    for kernel in ops.ops:
        if isinstance(kernel, KernelOp):
            cost = task_time(kernel.main, kernel.engine.data, kernel.tiling, target)
            formulas += 0 if cost is None else cost.total_us
    programs = [op for op in ops.ops if isinstance(op, TileKernelOp)]
    times = [TileKernel(program, target).time() for program in programs]
    return Measured(times, formulas, [d.message for d in found])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=Path)
    parser.add_argument("families", nargs="*", default=list(TEXTS))
    parser.add_argument("--target", default="910b2")
    args = parser.parse_args()
    logs: dict[str, list[float]] = {}
    for row in csv.DictReader(args.rows.open()):
        family, published = row["family"], float(row["us"])
        if family not in args.families:
            continue
        result = measured(TEXTS[family](json.loads(row["case"])), args.target)
        if result.reasons:
            print(f"{family:12} {row['case']:60} {'; '.join(result.reasons)}")
            continue
        ours, formula = sum(t.total_us for t in result.times), result.formulas
        logs.setdefault(family, []).append(math.log(ours / published))
        bounds = ", ".join(f"{t.kind} by {t.bound}" for t in result.times)
        shares = [f"{us:8.2f} ({us / published:.2f})" for us in (ours, formula)]
        print(
            f"{family:12} {row['case']:60} published {published:8.2f} tiles {shares[0]} "
            f"formulas {shares[1]} {bounds}",
            flush=True,
        )
    for family, each in logs.items():
        mean = math.exp(sum(each) / len(each))
        rms = math.exp(math.sqrt(sum(x * x for x in each) / len(each)))
        print(f"{family:12} {len(each)} rows, geometric mean {mean:.2f}, rms factor {rms:.2f}")


if __name__ == "__main__":
    main()
