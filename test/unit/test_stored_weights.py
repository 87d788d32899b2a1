"""Weights that stay integers until their matmul: bytes, times, programs, numbers."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from ge.dialects.fused_op import Body, FusedOp
from ge.dialects.targets.target import Target
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context, lower
from ge.lowering.pipeline.options import Options
from ge.runtime.check.proof import check_program
from ge.runtime.data.arrays import Array
from ge.runtime.device.session import Session
from ge.runtime.library.asking import asked, estimated_times
from ge.runtime.numbers import quantization

TARGET = Target.load("910_merged")


def text(m: int, k: int, n: int, block: int = 0, turned: bool = False, zero: bool = False) -> str:
    """@main: a matmul by a weight of 8 bits with a scale for each column, or for each block of
    rows, of a column."""
    rows = -(-k // block) if block else 1
    axis = (0 if block else 1) ^ turned
    weight, shape = (f"{n}x{k}", f"{n}x{rows}") if turned else (f"{k}x{n}", f"{rows}x{n}")
    scale = f"tensor<{shape if block else n}xf16>"
    points = scale.replace("f16", "i8")
    more = f" block_size {block}" if block else ""
    operands, types = ("%w, %s, %z", f"{scale}, {points}") if zero else ("%w, %s", scale)
    kind = "transpose_rhs true " if turned else ""
    x, w, y = f"tensor<{m}x{k}xf16>", f"tensor<{weight}xf16>", f"tensor<{m}x{n}xf16>"
    stored = w.replace("f16", "i8")
    return f"""
func.func @main(%x: {x} {{graph.name = "x"}}) -> {y} {{
  %w = graph.constant #graph.weight<"w"> : {stored}
  %s = graph.constant #graph.weight<"s"> : {scale}
  %z = graph.constant #graph.weight<"z"> : {points}
  %d = graph.dequantize {operands} axis {axis}{more} : ({stored}, {types}) -> {w}
  %0 = graph.matmul %x, %d {kind}: ({x}, {w}) -> {y}
  %1 = graph.relu %0 : ({y}) -> {y}
  func.return %1 : {y}
}}
"""


def lowered(source: str, until: str = "program", **options: Any) -> ModuleOp:
    module = parse_module(context(), SourceText("t.mlir", source))
    options = {"target": "910_merged", "tiles": False} | options
    lower(module, Options(**options), until=until)
    return module


def launch(source: str) -> Body:
    (op,) = (op for op in lowered(source, "fused").walk() if isinstance(op, FusedOp))
    return Body.of(op)


def in_floats(source: str) -> str:
    """The same with a weight of f16."""
    lines = [line for line in source.split("\n") if "%d = " not in line]
    return "\n".join(lines).replace("xi8>", "xf16>").replace("%x, %d", "%x, %w")


SIZES = st.sampled_from([1, 7, 32, 100, 512, 1000])


@settings(max_examples=settings().max_examples // 4)  # each is a compile
@given(SIZES, SIZES, SIZES, st.sampled_from([0, 4, 32]), st.booleans(), st.booleans(), st.data())
def test_plans_are_proved(
    m: int, k: int, n: int, block: int, turned: bool, zero: bool, data: st.DataObject
) -> None:
    target = data.draw(st.sampled_from(Target.presets()))
    module = lowered(text(m, k, n, block, turned, zero), target=target)
    assert [str(p) for p in check_program(module).problems] == []


@pytest.mark.parametrize("block", [0, 32])
@pytest.mark.parametrize("turned", [False, True])
def test_the_core_loads_integers(block: int, turned: bool) -> None:
    m, k, n = 1, 4096, 11008
    body, floats = (launch(t(text(m, k, n, block, turned))) for t in (str, in_floats))
    scales = n * (k // block if block else 1) * 2
    assert body.static_work().read == m * k * 2 + k * n + scales
    assert floats.static_work().read == m * k * 2 + k * n * 2
    for b in (body, floats):
        times, once = estimated_times(b, TARGET), b.static_work()
        assert times is not None
        # nor does the program move much more than what is read and written once
        assert 1 <= times.moved() / (once.read + once.written) < 1.1
    if not (block and turned):  # whose scales are not in the order of its rows
        figures = [asked(b, TARGET).figures for b in (body, floats)]
        fast, slow = (0.0 if f is None else f.total_us for f in figures)  # all of it from HBM
        assert 0.49 < fast / slow < 0.56


@pytest.mark.parametrize("block", [0, 32])
@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("turned", [False, True])
def test_numbers_are_those_of_dequantizing_first(block: int, zero: bool, turned: bool) -> None:
    rng, source = np.random.default_rng(0), text(5, 96, 40, block, turned, zero)
    shape = (3, 40) if block else (40,)
    arrays: dict[str, Array] = {
        "w": rng.integers(-128, 128, (96, 40), np.int8),
        "s": rng.random(shape).astype(np.float16),
        "z": rng.integers(-9, 9, shape, np.int8),
    }
    if turned:
        arrays = {k: np.ascontiguousarray(a.T) for k, a in arrays.items()}
    x = rng.standard_normal((5, 96)).astype(np.float16)
    results = [
        Session(lowered(source, fusion=mode), arrays).run({"x": x})
        for mode in ("off", "conservative", "default")
    ]
    expected, *others = (next(iter(r.values())) for r in results)
    assert all(np.array_equal(expected, y) for y in others)


def test_a_session_dequantizes_a_weight_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    class Counting:
        """numpy, but products are counted."""

        def __getattr__(self, name: str) -> Any:
            return getattr(np, name)

        def multiply(self, x: Array, *args: Any, **more: Any) -> Array:
            sizes.append(x.size)
            return np.multiply(x, *args, **more)

    monkeypatch.setattr(quantization, "np", Counting())
    rng = np.random.default_rng(0)
    arrays = {
        "w": rng.integers(-128, 128, (96, 40), np.int8),
        "s": rng.random(40).astype(np.float16),
    }
    session = Session(lowered(text(5, 96, 40)), arrays)
    for _ in range(3):
        session.run({"x": np.ones((5, 96), np.float16)})
    assert sizes.count(96 * 40) == 1
