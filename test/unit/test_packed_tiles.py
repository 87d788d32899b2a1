"""Cores write whole bytes of outputs whose elements have fewer bits."""

import pytest
from xdsl.dialects.builtin import ModuleOp

from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context, lower
from ge.lowering.pipeline.options import Options
from ge.runtime.check.proof import check_program


def module_of(arguments: str, shape: str, element: str, *ops: str) -> ModuleOp:
    """A function that quantizes %p at last."""
    types = f"(tensor<{shape}xf32>, tensor<f32>) -> tensor<{shape}x{element}>"
    lines = "\n".join((*ops, f"%y = graph.quantize %p, %s to {element} : {types}"))
    result = f"tensor<{shape}x{element}>"
    text = f"""
func.func @main({arguments}, %s: tensor<f32>) -> {result} {{
{lines}
  func.return %y : {result}
}}"""
    return parse_module(context(), SourceText("text", text))


def pointwise(shape: str, element: str) -> ModuleOp:
    return module_of(f"%p: tensor<{shape}xf32>", shape, element)


def in_rows(rows: int, columns: int, element: str) -> ModuleOp:
    t = f"tensor<{rows}x{columns}xf32>"
    softmax = f"%p = graph.softmax %x : ({t}) -> {t}"
    return module_of(f"%x: {t}", f"{rows}x{columns}", element, softmax)


def matmul(rows: int, columns: int, element: str) -> ModuleOp:
    x, w, y = f"tensor<{rows}x64xf32>", f"tensor<64x{columns}xf32>", f"{rows}x{columns}"
    product = f"%p = graph.matmul %x, %w : ({x}, {w}) -> tensor<{y}xf32>"
    return module_of(f"%x: {x}, %w: {w}", y, element, product)


def moved(rows: int, columns: int) -> ModuleOp:
    t, u = f"tensor<{rows}x{columns}xf32>", f"tensor<{columns}x{rows}xf32>"
    turned = f"%p = graph.transpose %x permutation [1, 0] : ({t}) -> {u}"
    return module_of(f"%x: {t}", f"{columns}x{rows}", "i4", turned)


@pytest.mark.parametrize("target", ["910b2", "310p3"])
@pytest.mark.parametrize(
    "module",
    [
        pointwise("2001x333", "i4"),
        pointwise("1000001", "ui2"),
        pointwise("48x50001", "f4E2M1FN"),
        in_rows(999, 1001, "i4"),
        in_rows(50, 3001, "ui2"),
        matmul(512, 256, "i4"),
        matmul(512, 255, "i4"),
        moved(1001, 999),
    ],
    ids=["pointwise i4", "ui2", "f4", "rows i4", "rows ui2", "matmul", "odd matmul", "moved"],
)
def test_no_two_cores_write_one_byte(module: ModuleOp, target: str) -> None:
    """A launch has a program that is proved to write each byte on one core, or none."""
    lower(module := module.clone(), Options(target=target, tiles=True))
    assert [str(p) for p in check_program(module).problems] == []
