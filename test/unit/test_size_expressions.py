"""Bytes as expressions of dimensions, against what a run of the unbound program allocates."""

from collections.abc import Callable, Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ge.dialects.npu_task.attributes import AT_MOST, expression_of, stated_bytes, unknown_results
from ge.dialects.npu_task.memory import Task
from ge.dialects.support.dims import Polynomial, Range, most, value_of
from ge.dialects.support.functions import main_function
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context, lower_program
from ge.lowering.driver.program import Program
from ge.lowering.pipeline.options import Options
from ge.runtime.device.function import Function

NAMES: tuple[str, ...] = ("n", "past", "rows")
ONE = '%x: tensor<?x4xf32> {graph.name = "x", graph.dims = ["n", ""]}'
IMAGE = '%x: tensor<?x2x?x8xf32> {graph.name = "x", graph.dims = ["n", "", "rows", ""]}'


def program(inputs: str, ops: str, result: str, **options: object) -> Program:
    text = f"""func.func @main({inputs}) -> ({result} {{graph.name = "y"}}) {{
      {ops}
      func.return %y : {result}
    }}"""
    made = Program(parse_module(context(), SourceText("test", text)), {}, "test.mlir")
    lower_program(made, Options(fusion="off", **options))  # type: ignore[arg-type]
    return made


def allocated(module: ModuleOp, inputs: Mapping[str, np.ndarray]) -> list[tuple[str, int]]:
    """The bytes that each tensor of unknown size states, and those that a run gives it."""
    main = main_function(module)
    assert main is not None
    function = Function(module, main, {})
    registers = function.registers(list(inputs.values()))
    found: list[tuple[str, int]] = []

    def driver(run_until: Callable[[Operation | None], None]) -> None:
        for op in main.body.block.ops:
            if isinstance(op, Task):
                run_until(op)
                pairs = zip(unknown_results(op), stated_bytes(op), strict=True)
                arrays = [(t, registers[function.register(r)]) for r, t in pairs]
                found.extend((t, a.nbytes) for t, a in arrays if a is not None)  # that is used

    function.execute(registers, driver=driver)
    return found


def concat(a: str, b: str, t: str) -> str:
    return f"graph.concat {a}, {b} axis 0 : ({t}, {t}) -> {t}"


T = "tensor<?x4xf32>"
CASES = {
    "sum": (ONE, f"%y = {concat('%x', '%x', T)}", T, ["16 * n", "32 * n"]),
    "grown": (
        f'{ONE}, %p: {T} {{graph.name = "p", graph.dims = ["past", ""]}}',
        f"%y = {concat('%p', '%x', T)}", T, ["16 * n", "16 * past", "16 * n + 16 * past"],
    ),
    "name": (
        f'{ONE}, %p: {T} {{graph.name = "p", graph.dims = ["n + 1", ""]}}',
        f"%y = {concat('%p', '%x', T)}", T, ["16 * n", "16 * n + 16", "32 * n + 16"],
    ),
    "none": ('%x: tensor<?x4xf32> {graph.name = "x"}', f"%y = graph.exp %x : ({T}) -> {T}", T,
             ["16 * x[0]", "16 * x[0]"]),
    "pad": (
        ONE, f"%y = graph.pad %x pads [1, 0, 2, 0] : ({T}) -> {T}", T, ["16 * n", "16 * n + 48"],
    ),
    "conv": (
        IMAGE,
        "%w = graph.constant dense<1.0> : tensor<3x2x3x3xf32>\n"
        "%y = graph.conv %x, %w strides [2, 1] pads [1, 1, 1, 1]"
        " : (tensor<?x2x?x8xf32>, tensor<3x2x3x3xf32>) -> tensor<?x3x?x8xf32>",
        "tensor<?x3x?x8xf32>",
        ["64 * n * rows", "96 * ((rows - 1) // 2) * n + 96 * n"],
    ),
    "pool": (
        IMAGE,
        '%y = graph.pool max %x kernel [3, 3] ceil_mode true strides [2, 2]'
        " : (tensor<?x2x?x8xf32>) -> tensor<?x2x?x4xf32>",
        "tensor<?x2x?x4xf32>",
        ["64 * n * rows", "at most 32 * ((rows - 2) // 2) * n + 32 * n"],
    ),
    "expand": (
        ONE,
        f"%n = graph.shape_of %x end 1 : ({T}) -> tensor<1xi64>\n"
        "%four = graph.constant dense<-1> : tensor<1xi64>\n"
        "%one = graph.constant dense<1> : tensor<3xi64>\n"
        "%s = graph.concat %n, %n, %four axis 0 : (tensor<1xi64>, tensor<1xi64>, tensor<1xi64>)"
        " -> tensor<3xi64>\n"
        '%e = graph.compare eq %s, %four : (tensor<3xi64>, tensor<1xi64>) -> tensor<3xi1>\n'
        "%t = graph.select %e, %one, %s : (tensor<3xi1>, tensor<3xi64>, tensor<3xi64>)"
        " -> tensor<3xi64>\n"
        f"%r = graph.unsqueeze %x axes [1] : ({T}) -> tensor<?x1x4xf32>\n"
        "%y = graph.broadcast_to %r shape %t : (tensor<?x1x4xf32>, tensor<3xi64>)"
        " -> tensor<?x?x4xf32>",
        "tensor<?x?x4xf32>", ["16 * n", "16 * n", "16 * n * n"],
    ),
    "slice": (
        ONE, f"%y = graph.slice %x starts [1] ends [3] axes [0] : ({T}) -> {T}", T,
        ["16 * n", "at most 32"],
    ),
    "split": (
        ONE, f"%y, %z = graph.split %x axis 0 : ({T}) -> ({T}, {T})", T,
        ["16 * n", "at most 16 * ((n + 1) // 2)"],
    ),
    "nonzero": (
        ONE, f"%y = graph.nonzero %x : ({T}) -> tensor<2x?xi64>", "tensor<2x?xi64>",
        ["16 * n", "at most 64 * n"],
    ),
    "gathered": (
        ONE,
        f"%i = graph.nonzero %x : ({T}) -> tensor<2x?xi64>\n"
        "%t = graph.transpose %i permutation [1, 0] : (tensor<2x?xi64>) -> tensor<?x2xi64>\n"
        f"%y = graph.gather_nd %x, %t : ({T}, tensor<?x2xi64>) -> tensor<?xf32>",
        "tensor<?xf32>", ["16 * n", "at most 64 * n", "at most 64 * n", "at most 16 * n"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_expressions_are_what_is_allocated(name: str):
    inputs, ops, result, want = CASES[name]
    module = program(inputs, ops, result).module
    for sizes in ({"n": 4, "past": 3, "rows": 9}, {"n": 7, "past": 1, "rows": 6}):
        rng = np.random.default_rng(sizes["n"])
        arrays = {"x": rng.integers(0, 2, (sizes["n"], 4)).astype(np.float32)}
        if inputs is IMAGE:
            arrays["x"] = np.ones((sizes["n"], 2, sizes["rows"], 8), np.float32)
        if "%p" in inputs:
            rows = sizes["past"] if "past" in inputs else sizes["n"] + 1
            arrays["p"] = np.ones((rows, 4), np.float32)
        found = allocated(module, arrays)
        assert [text for text, _ in found] == want
        for text, count in found:
            stated = value_of(expression_of(text), {**sizes, "x[0]": sizes["n"]})
            assert stated is not None
            assert count <= stated if text.startswith(AT_MOST) else count == stated


def test_positions_of_windows_of_unknown_size_have_no_expression():
    """No number stands for the unknown size in what the program states."""
    inputs = (
        f'{IMAGE}, %w: tensor<3x2x?x3xf32> {{graph.name = "w", graph.dims = ["", "", "k", ""]}}'
    )
    t = "tensor<?x3x?x8xf32>"
    ops = (
        f"%c = graph.conv %x, %w pads [1, 1, 1, 1]"
        f" : (tensor<?x2x?x8xf32>, tensor<3x2x?x3xf32>) -> {t}\n%y = graph.exp %c : ({t}) -> {t}"
    )
    module = program(inputs, ops, t).module
    arrays = {"x": np.ones((2, 2, 9, 8), np.float32), "w": np.ones((3, 2, 4, 3), np.float32)}
    sizes = {"n": 2, "rows": 9, "k": 4}
    for text, count in allocated(module, arrays):
        stated = value_of(expression_of(text), sizes)
        assert stated is None or count <= stated <= 64 * count


# ---- polynomials


def joined(parts: tuple[str, str, str]) -> str:
    return "({} {} {})".format(*parts)


def expressions() -> st.SearchStrategy[str]:
    signs, numbers = st.sampled_from(("+", "-", "*")), st.integers(1, 5).map(str)

    def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        either = st.tuples(inner, signs, inner) | st.tuples(inner, st.just("//"), numbers)
        return either.map(joined)

    return st.recursive(st.sampled_from(NAMES) | numbers, larger, max_leaves=6)


@settings(max_examples=2 * settings().max_examples)
@given(expressions(), st.tuples(*(st.integers(0, 9) for _ in NAMES)))
def test_polynomials_keep_values_and_ranges_bound_them(text: str, numbers: tuple[int, ...]):
    sizes: dict[str, int] = dict(zip(NAMES, numbers, strict=True))
    polynomial = Polynomial.named(text)
    assert polynomial is not None
    value = value_of(text, sizes)
    assert value_of(str(polynomial), sizes) == value
    assert Polynomial.named(str(polynomial)) == polynomial
    for expression in (text, str(polynomial)):
        end = most(expression, {n: Range(max(s - 2, 0), s + 3) for n, s in sizes.items()})
        assert value is not None
        assert end is not None
        assert end >= value
