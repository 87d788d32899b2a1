"""Launches on memory that stays where it is: from the second run on their calls are prepared."""

from threading import Thread
from typing import Any

import numpy as np
import pytest

from ge.dialects.support.errors import GeError
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context, lower
from ge.lowering.pipeline.options import Options
from ge.runtime.data.arrays import Array
from ge.runtime.device import interpreter
from ge.runtime.device.session import Session
from ge.runtime.numbers import convolution
from ge.runtime.numbers.plan import Scratch, ThreadScratch

X, WIDE = "tensor<1x4x12x12xf32>", "tensor<1x8x12x12xf32>"
BLOCK = f"""
func.func @main(%x: {X} {{graph.name = "x"}}) -> ({X} {{graph.name = "y"}}) {{
  %a = graph.constant #graph.weight<"a"> : tensor<8x4x1x1xf32>
  %b = graph.constant #graph.weight<"b"> : tensor<8xf32>
  %c = graph.constant #graph.weight<"c"> : tensor<8x1x3x3xf32>
  %d = graph.constant #graph.weight<"d"> : tensor<4x8x1x1xf32>
  %low = graph.constant dense<0.0> : tensor<f32>
  %high = graph.constant dense<6.0> : tensor<f32>
  %0 = graph.conv %x, %a bias %b : ({X}, tensor<8x4x1x1xf32>, tensor<8xf32>) -> {WIDE}
  %1 = graph.clamp %0 low %low high %high : ({WIDE}, tensor<f32>, tensor<f32>) -> {WIDE}
  %2 = graph.conv %1, %c bias %b group 8 pads [1, 1, 1, 1]
    : ({WIDE}, tensor<8x1x3x3xf32>, tensor<8xf32>) -> {WIDE}
  %3 = graph.clamp %2 low %low high %high : ({WIDE}, tensor<f32>, tensor<f32>) -> {WIDE}
  %4 = graph.conv %3, %d : ({WIDE}, tensor<4x8x1x1xf32>) -> {X}
  %5 = graph.add %4, %x : ({X}, {X}) -> {X}
  %6 = graph.conv %5, %a bias %b : ({X}, tensor<8x4x1x1xf32>, tensor<8xf32>) -> {WIDE}
  %7 = graph.conv %6, %d : ({WIDE}, tensor<4x8x1x1xf32>) -> {X}
  func.return %7 : {X}
}}
"""
SHAPES = {"a": (8, 4, 1, 1), "b": (8,), "c": (8, 1, 3, 3), "d": (4, 8, 1, 1)}


def session(level: str = "program", **checks: Any) -> Session:
    rng = np.random.default_rng(1)
    module = parse_module(context(), SourceText("test.mlir", BLOCK))
    lower(module, Options(), until=level)
    payload = {name: rng.standard_normal(shape, np.float32) for name, shape in SHAPES.items()}
    return Session(module, payload, **checks)


def inputs(seed: int) -> dict[str, Array]:
    return {"x": np.random.default_rng(seed).standard_normal((1, 4, 12, 12), np.float32)}


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the calls of a launch could be prepared, as they are."""
    found: list[bool] = []
    prepare = interpreter.KernelCode.bind

    def watched(code: interpreter.KernelCode, *arguments: Any) -> Any:
        result = prepare(code, *arguments)
        found.append(result is not None)
        return result

    monkeypatch.setattr(interpreter.KernelCode, "bind", watched)
    return found


@pytest.mark.parametrize("checks", [{}, {"poison": True}])
def test_each_run_computes_with_its_inputs(bound: list[bool], checks: Any) -> None:
    one = session(**checks)
    for seed in (0, 1, 2, 1):
        want = session(**checks).run(inputs(seed))["y"]
        np.testing.assert_array_equal(one.run(inputs(seed))["y"], want)
    launches = len(bound)
    assert launches >= 3
    assert all(bound)
    one.run(inputs(3))
    assert len(bound) == launches  # once each


def test_the_first_run_prepares_nothing(bound: list[bool]) -> None:
    session().run(inputs(0))
    assert not bound


def test_tensors_have_no_memory_that_stays(bound: list[bool]) -> None:
    one = session("tasks")
    for seed in (0, 1, 2):
        one.run(inputs(seed))
    assert not bound


def test_large_arrays_are_not_worth_it(bound: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "BOUND_BYTES", 1000)
    one, want = session(), session().run(inputs(1))["y"]
    for _ in range(3):
        np.testing.assert_array_equal(one.run(inputs(1))["y"], want)
    assert bound
    assert not any(bound)


def test_sessions_of_two_threads_have_memory_of_their_own() -> None:
    sessions, results = [session(), session()], [list[Array](), list[Array]()]

    def work(number: int) -> None:
        for seed in range(20):
            results[number].append(sessions[number].run(inputs(seed + number))["y"])

    threads = [Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for first, second in zip(results[0][1:], results[1], strict=False):
        np.testing.assert_array_equal(first, second)


def test_an_error_of_a_prepared_call_names_the_op(monkeypatch: pytest.MonkeyPatch) -> None:
    multiply, hot = convolution.into, list[bool]()

    def into(a: Array, b: Array, out: Array) -> None:
        if hot:
            raise ValueError("too hot")
        multiply(a, b, out)

    monkeypatch.setattr(convolution, "into", into)
    one, message = session(), r"graph\.conv of \(tensor<1x4x12x12xf32>.*\) cannot .*: too hot"
    one.run(inputs(0))
    one.run(inputs(1))
    hot.append(True)
    with pytest.raises(GeError, match=message):
        one.run(inputs(2))
    with pytest.raises(GeError, match=message):
        session().run(inputs(2))


def test_scratch_grows_and_keeps_what_it_gave() -> None:
    scratch, f32 = Scratch(), np.dtype(np.float32)
    small = scratch("use", (4,), f32)
    small[:] = 1
    assert scratch("use", (2,), f32).base is small.base
    large = scratch("use", (5,), f32)
    large[:] = 2
    assert (small == 1).all()
    assert scratch.bytes["use"].size == 32  # twice as much, at least
    assert not np.may_share_memory(large, scratch("other", (5,), f32))


def test_threads_have_scratch_of_their_own() -> None:
    scratch, f32 = ThreadScratch(), np.dtype(np.float32)
    found = [scratch("use", (4,), f32)]
    thread = Thread(target=lambda: found.append(scratch("use", (4,), f32)))
    thread.start()
    thread.join()
    assert not np.may_share_memory(*found)


def test_convolutions_with_channels_last_run_again() -> None:
    """Fewer channels than a window is wide are no image that is too narrow."""
    x, w, y = "tensor<1x4x4x2xf32>", "tensor<2x2x3x3xf32>", "tensor<1x2x2x2xf32>"
    text = f"""
    func.func @main(%x: {x} {{graph.name = "x"}}) -> ({y} {{graph.name = "y"}}) {{
      %w = graph.constant dense<1.0> : {w}
      %0 = graph.conv %x, %w input_channels_last true : ({x}, {w}) -> {y}
      func.return %0 : {y}
    }}"""
    module = parse_module(context(), SourceText("test.mlir", text))
    lower(module, Options())
    one, given = Session(module, {}), {"x": np.ones((1, 4, 4, 2), np.float32)}
    for _ in range(2):
        np.testing.assert_array_equal(one.run(given)["y"], np.full((1, 2, 2, 2), 18.0))
