"""Layouts of feature maps: the same numbers whichever maps have their channels last, and less time
by simulation of the programs."""

import sys
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

sys.path.insert(0, str(Path(__file__).parent))
from writing import Expr, Tensor, normal, run, written

from ge.dialects.graph.convolution import ConvOp
from ge.dialects.graph.image import ResizeOp
from ge.dialects.graph.pooling import PoolOp
from ge.dialects.targets.target import Target
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context, lower
from ge.lowering.pipeline.options import Options
from ge.runtime.clock.clock import simulate
from ge.runtime.library import asking
from ge.transforms.fusion.keep_channels_last import KeepChannelsLastPass, Prices

SHAPE = (1, 4, 6, 6)
STEPS = "conv", "grouped", "relu", "tanh", "add", "scale", "gate", "mean", "pool", "resize"


def step(kind: str, number: int, values: list[Expr]) -> Expr:
    """What one step computes of the last value."""
    x = values[-1]
    match kind:
        case "conv":
            weight = normal(4, 4, 3, 3) / np.float32(6)
            return x.op(ConvOp, x, x.lift(weight), None, pads=(1, 1, 1, 1))
        case "grouped":
            weight = normal(4, 2, 3, 3) / np.float32(6)
            return x.op(ConvOp, x, x.lift(weight), None, pads=(1, 1, 1, 1), group=2)
        case "relu":
            return x.relu()
        case "tanh":
            return x.tanh()
        case "add":
            same = [v for v in values if v.shape == x.shape]
            return x + same[number % len(same)]
        case "scale":
            return x * x.lift(np.linspace(0, 1, 4, dtype=np.float32).reshape(4, 1, 1))
        case "gate":
            return x * x.mean(2, 3)
        case "mean":
            return x + x.mean(number % 4)
        case "resize" if x.shape[2] < 13:
            scales = [(1.0, 1.0, 2.0, 2.0), (2.0, 1.0, 2.0, 1.0)][number % 2]
            return x.op(ResizeOp, x, None, None, None, scales=scales)
        case _:
            return x.op(PoolOp, x, kind="max", kernel=(3, 3), pads=(1, 1, 1, 1))


@settings(max_examples=settings().max_examples // 3)
@given(
    st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 9)), min_size=3, max_size=14),
    st.lists(st.integers(0, 14), max_size=2),
    st.integers(0, 99),
    st.sampled_from(["910b2", "310p3"]),
)
def test_whatever_layouts_cost(
    steps: list[tuple[str, int]], outputs: list[int], seed: int, target: str
):
    def formula(x: Expr) -> list[Expr]:
        values = [x]
        for kind, number in steps:
            values.append(step(kind, number, values))
        return [values[-1], *(values[i % len(values)] for i in outputs)]

    random = Random(seed)
    before = written(formula, Tensor(*SHAPE))
    after = before.clone()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Prices, "_conv_us", lambda *a: random.uniform(1, 9))
        patch.setattr(Prices, "op_us", lambda *a: random.uniform(0, 9))
        patch.setattr(Prices, "turning_us", lambda *a: random.uniform(0, 2))
        KeepChannelsLastPass(target).apply(context(), after)
    after.verify()
    x = normal(*SHAPE)
    for a, b in zip(run(before, x), run(after, x), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)


def network(depth: int) -> ModuleOp:
    """Residual blocks, some of which halve the image."""
    lines, size, shown = list[str](), 28, "%x"
    for i in range(depth):
        now, then = f"tensor<1x128x{size}x{size}xf16>", f"tensor<1x128x{size}x{size}xf16>"
        types = f"({now}, tensor<128x128x3x3xf16>) -> {then}"
        lines += [
            f"%a{i} = graph.conv {shown}, %w pads [1, 1, 1, 1] : {types}",
            f"%b{i} = graph.relu %a{i} : ({then}) -> {then}",
            f"%c{i} = graph.conv %b{i}, %w pads [1, 1, 1, 1] : {types}",
            f"%d{i} = graph.add %c{i}, {shown} : ({then}, {now}) -> {then}",
            f"%e{i} = graph.relu %d{i} : ({then}) -> {then}",
        ]
        shown = f"%e{i}"
    x = f"tensor<1x128x{size}x{size}xf16>"
    text = f"func.func @main(%x: {x}) -> {x} {{\n" + "\n".join(
        ['%w = graph.constant #graph.weight<"w"> : tensor<128x128x3x3xf16>', *lines]
    )
    return parse_module(context(), SourceText("test", f"{text}\nfunc.return {shown} : {x} }}"))


def test_it_saves_time():
    """Both ways by simulation of all programs."""

    def us(without: tuple[str, ...]) -> float:
        module = network(3)
        lower(module, Options(target="910b2", tile_cache="off", fusion_disable=without))
        return simulate(module, Target.load("910b2")).latency_us

    assert us(()) < 0.95 * us(("keep-channels-last",))


def test_convolutions_that_are_alike_are_asked_about_once(monkeypatch: pytest.MonkeyPatch):
    """However often they are there, and no program is written for layouts that nobody takes."""
    asked, kernel_of = list[Any](), asking.kernel_of
    monkeypatch.setattr(asking, "kernel_of", lambda body: asked.append(body) or kernel_of(body))
    monkeypatch.setattr(asking, "launch_us", lambda *a: pytest.fail("a program is written"))
    monkeypatch.setattr(Prices, "turning_us", lambda *a: 1.0)
    counts = list[int]()
    for depth in (3, 12):
        KeepChannelsLastPass("910b2").apply(context(), network(depth))
        counts.append(len(asked))
    assert counts[0] == counts[1] <= 8


def test_integers_leave_the_cube_with_their_channels_last():
    """Of residual blocks of int8 convolutions, whose codes are requantized, vector cores compute
    the sums alone: half of the time with channels first."""
    x, w = "tensor<1x64x14x14x", "tensor<64x64x3x3xi8>"
    t, b, f = "tensor<64xf32>", "tensor<64xi32>", "tensor<f32>"
    conv = f"bias %b pads [1, 1, 1, 1] : ({x}i8>, {w}, {b}) -> {x}i32>"
    lines, shown = list[str](), "%x"
    for i in range(3):
        lines += [
            f"%a{i} = graph.conv {shown}, %w {conv}",
            f"%b{i} = graph.requantize %a{i}, %t to i8 axis 1 rounding float32 low 0"
            f" : ({x}i32>, {t}) -> {x}i8>",
            f"%c{i} = graph.conv %b{i}, %w {conv}",
            f"%d{i} = graph.dequantize %c{i}, %t axis 1 to f16 : ({x}i32>, {t}) -> {x}f16>",
            f"%e{i} = graph.dequantize {shown}, %f to f16 : ({x}i8>, {f}) -> {x}f16>",
            f"%g{i} = graph.add %d{i}, %e{i} : ({x}f16>, {x}f16>) -> {x}f16>",
            f"%h{i} = graph.quantize %g{i}, %f to i8 : ({x}f16>, {f}) -> {x}i8>",
        ]
        shown = f"%h{i}"
    constants = [
        f"%f = graph.constant dense<0.1> : {f}",
        f'%w = graph.constant #graph.weight<"w"> : {w}',
        f'%t = graph.constant #graph.weight<"t"> : {t}',
        f'%b = graph.constant #graph.weight<"b"> : {b}',
    ]
    body = "\n".join([*constants, *lines])
    text = f"func.func @main(%x: {x}i8>) -> {x}i8> {{\n{body}\nfunc.return {shown} : {x}i8> }}"

    def us(without: tuple[str, ...]) -> float:
        module = parse_module(context(), SourceText("test", text))
        lower(module, Options(target="910b2", tile_cache="off", fusion_disable=without))
        tasks = simulate(module, Target.load("910b2")).tasks
        return sum(task.duration_us for task in tasks)

    assert us(()) < 0.5 * us(("keep-channels-last",))
