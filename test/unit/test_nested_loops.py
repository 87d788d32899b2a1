"""Loops in loops: what inference and unrolling do is polynomial in the depth, not exponential."""

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation
from xdsl.parser import Parser

from ge.lowering.driver.compiler import context, lower
from ge.lowering.pipeline.options import Options
from ge.runtime.check.memory import Checker, check_plan
from ge.transforms.graph import infer_shapes, loops
from ge.transforms.graph.infer_shapes import InferShapesPass
from ge.transforms.graph.simplify_control_flow import SimplifyControlFlowPass

WIDE, ROW = "tensor<?x?xf32>", "tensor<1x4xf32>"


def parse(lines: list[str]) -> ModuleOp:
    return Parser(context(), "\n".join(lines)).parse_module()


def growing(depth: int) -> ModuleOp:
    """Loops in each other; each starts from one row and doubles what the inner one makes."""
    lines = [f"func.func @main(%n: tensor<i64>, %x: {ROW}) -> {WIDE} {{"]
    for i in range(depth):
        lines.append(
            f"%h{i} = graph.loop (%i{i}, %g{i}) trip %n : tensor<i64>"
            f" carry (%s{i} : {WIDE} = %x : {ROW}) -> ({WIDE}) {{"
        )
    inner = f"%s{depth - 1}"
    for i in reversed(range(depth)):
        lines += [
            f"%t{i} = graph.concat {inner}, %s{i} axis 0 : ({WIDE}, {WIDE}) -> {WIDE}",
            f"graph.yield %g{i}, %t{i} : tensor<i1>, {WIDE}",
            "}",
        ]
        inner = f"%h{i}"
    return parse([*lines, f"func.return {inner} : {WIDE}", "}"])


def counted(depth: int) -> ModuleOp:
    """Loops of two rounds in each other. The inner one is as good written out, the others not."""
    return carrying(depth, "%s: tensor<4xf32>", ["%n = graph.constant dense<2> : tensor<i64>"])


def carrying(depth: int, args: str, before: list[str]) -> ModuleOp:
    """Loops of %n rounds in each other that carry %s."""
    t = "tensor<4xf32>"
    lines = [f"func.func @main({args}) -> {t} {{", *before]
    inner = "%s"
    for i in range(depth):
        lines.append(
            f"%h{i} = graph.loop (%i{i}, %g{i}) trip %n : tensor<i64>"
            f" carry (%s{i} = {inner} : {t}) -> ({t}) {{"
        )
        inner = f"%s{i}"
    lines.append(f"%t = graph.sin {inner} : ({t}) -> {t}")
    inner = "%t"
    for i in reversed(range(depth)):
        lines += [f"graph.yield %g{i}, {inner} : tensor<i1>, {t}", "}"]
        inner = f"%h{i}"
    return parse([*lines, f"func.return {inner} : {t}", "}"])


def inferences(depth: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many ops are inferred, counted again when they are inferred again."""
    module, calls = growing(depth), 0
    real = infer_shapes.infer_op

    def infer_op(op: Operation) -> bool:
        nonlocal calls
        calls += 1
        return real(op)

    with monkeypatch.context() as m:
        m.setattr(infer_shapes, "infer_op", infer_op)
        InferShapesPass().apply(context(), module)
    assert f"-> {WIDE.replace('x?xf32', 'x4xf32')}" in str(module)
    return calls


def test_inference_is_polynomial_in_the_depth(monkeypatch: pytest.MonkeyPatch):
    few, many = inferences(6, monkeypatch), inferences(24, monkeypatch)
    assert many <= 4 * 4 * few


@pytest.mark.parametrize("depth", [*(pytest.param(n, marks=pytest.mark.soak) for n in (6, 24)), 12])
def test_unrolling_is_polynomial_in_the_depth(depth: int, monkeypatch: pytest.MonkeyPatch):
    module, attempts = counted(depth), 0
    real = loops.inline_rounds

    def inline_rounds(*args: int) -> None:
        nonlocal attempts
        attempts += 1
        real(*args)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(loops, "inline_rounds", inline_rounds)
    SimplifyControlFlowPass().apply(context(), module)
    assert attempts <= 1000
    assert str(module).count("graph.loop") == depth - 1


def test_the_proof_of_a_plan_is_polynomial_in_the_depth(monkeypatch: pytest.MonkeyPatch):
    depth, walks = 10, 0
    module = carrying(depth, "%n: tensor<i64>, %s: tensor<4xf32>", [])
    lower(module, Options())
    real = Checker.walk

    def walk(checker: Checker, block: Block) -> None:
        nonlocal walks
        walks += 1
        real(checker, block)

    monkeypatch.setattr(Checker, "walk", walk)
    assert not check_plan(module)
    assert depth < walks <= depth * (depth + 2)
