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

from numpy import broadcast_shapes
from xdsl.context import Context

from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.support.diagnostics import Diagnostic, diagnostic_handler
from ge.dialects.targets.target import Target, record_target
from ge.dialects.tile.kernel import KernelOp as TileKernelOp
from ge.lowering.driver.compiler import context, lower
from ge.lowering.levels.level import Level
from ge.lowering.pipeline.options import Options
from ge.lowering.steps.lower_kernels import LowerKernelsPass
from ge.lowering.text.reading import Source, parse_module
from ge.runtime.library.costs.cost import task_time
from ge.runtime.tiles.kernel import TileKernel
from ge.runtime.tiles.times import KernelTime
from ge.transforms.tiles.finish import finish

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


def unary(op: str) -> "Callable[[Case], str]":
    def text(case: Case) -> str:
        kind = tensor(case["shape"], case["dtype"])
        axis = f" {{axis = {case['axis']} : i64}}" if "axis" in case else ""
        return module([kind], kind, f"%r = graph.{op} %a0{axis} : ({kind}) -> {kind}")

    return text


def maximum(case: Case) -> str:
    kinds = [tensor(case[key], case["dtype"]) for key in "ab"]
    out = tensor(broadcast_shapes(case["a"], case["b"]), case["dtype"])
    return module(kinds, out, f"%r = graph.maximum %a0, %a1 : ({', '.join(kinds)}) -> {out}")


def norm(case: Case) -> str:
    shape = case["shape"]
    kind, scale = tensor(shape, case["dtype"]), tensor(shape[-1:], case["dtype"])
    if "groups" not in case:
        return module(
            [kind, scale], kind, f"%r = graph.rms_norm %a0, %a1 : ({kind}, {scale}) -> {kind}"
        )
    scale = tensor(shape[1:2], case["dtype"])
    groups = f"{{groups = {case['groups']} : i64}}"
    types = f"({kind}, {scale}, {scale}) -> {kind}"
    return module(
        [kind, scale, scale], kind, f"%r = graph.group_norm %a0, %a1, %a2 {groups} : {types}"
    )


def transpose(case: Case) -> str:
    order = case["permutation"]
    kind, out = (
        tensor(s, case["dtype"]) for s in (case["shape"], [case["shape"][i] for i in order])
    )
    return module([kind], out, f"%r = graph.transpose %a0 permutation {order} : {kind} -> {out}")


def conv(case: Case) -> str:
    x, w, strides, pads, dilations = (case[k] for k in ("x", "w", "strides", "pads", "dilations"))
    spans = [d * (k - 1) + 1 for d, k in zip(dilations, w[2:], strict=True)]
    sizes = [(x[2 + i] + pads[i] + pads[2 + i] - spans[i]) // strides[i] + 1 for i in (0, 1)]
    out = tensor([x[0], w[0], *sizes], case["dtype"])
    kinds = [tensor(s, case["dtype"]) for s in (x, w, w[:1])]
    window = f"strides {strides} pads {pads} dilations {dilations}"
    types = f"({', '.join(kinds)}) -> {out}"
    return module(kinds, out, f"%r = graph.conv %a0, %a1 bias %a2 {window} : {types}")


def attention(case: Case) -> str:
    """Tokens first: batch, tokens, heads, size of a head. Of a causal one the last query is that of
    the last key."""
    kinds = [tensor(case[n], case["dtype"]) for n in "qkv"]
    out = tensor([*case["q"][:-1], case["v"][-1]], case["dtype"])
    flags = [f"{n}_tokens_first = true" for n in ("query", "key", "value", "result")]
    first, more = "", list[str]()
    if case["causal"]:
        first, more = f"offset {case['k'][1] - case['q'][1]} ", ["causal = true"]
    text = f"%r = graph.attention %a0, %a1, %a2 {first}{{{', '.join(flags + more)}}}"
    return module(kinds, out, f"{text} : {', '.join(kinds)} -> {out}")


TEXTS: dict[str, Callable[[Case], str]] = {
    "gemm": gemm,
    "int8_matmul": int8_matmul,
    **{op: unary(op) for op in ("gelu", "sigmoid", "softmax")},
    "maximum": maximum,
    "rms_norm": norm,
    "group_norm": norm,
    "transpose": transpose,
    "conv": conv,
    **dict.fromkeys(("attention", "attention_mha", "attention_gqa"), attention),
}


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
