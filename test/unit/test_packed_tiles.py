"""Cores write whole bytes of outputs whose elements have fewer bits."""

import pytest
from xdsl.dialects.builtin import ModuleOp

from ge.dialects.fused_op import Body
from ge.dialects.npu_task.attributes import Engine, TilingAttr
from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.support.functions import main_function
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import numel, shape_of
from ge.dialects.targets.target import Target
from ge.lowering.driver.compiler import context, lower
from ge.lowering.pipeline.options import Options
from ge.lowering.text.reading import Source, parse_module
from ge.runtime.check.core_bytes import shared_bytes
from ge.runtime.check.cores import check_core_plans
from ge.runtime.library.costs.tiling import choose_tiling

TARGET = Target.load("910_merged")


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
    return parse_module(context(), Source("text", text))


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
    turned = f"%p = graph.transpose %x permutation [1, 0] : {t} -> {u}"
    return module_of(f"%x: {t}", f"{columns}x{rows}", "i4", turned)


def launch(module: ModuleOp) -> tuple[TilingAttr, list[str]]:
    """All of a function as one launch, its tiling, and the outputs of which blocks share bytes."""
    main = main_function(module)
    assert main is not None
    ops = [op for op in main.body.block.ops if isinstance(op, TensorOp)]
    body = Body(ops, main.args, ops[-1].results)
    matmuls = [op for op in ops if op.ALWAYS_MACS]
    tiling = choose_tiling(body, Engine.CUBE if matmuls else Engine.VECTOR, TARGET)
    assert tiling is not None
    elements = max(numel(shape_of(v)) for op in ops for v in (*op.operands, *op.results))
    shared = shared_bytes(body, tiling.sizes[0], elements, matmuls)
    return tiling, [str(v.type) for v in shared]


@pytest.mark.parametrize("element", ["i4", "ui2", "f4E2M1FN"])
@pytest.mark.parametrize("shape", ["2001x333", "48x50001", "1000001"])
def test_tiles_of_elements(shape: str, element: str) -> None:
    tiling, shared = launch(pointwise(shape, element))
    assert tiling.blocks.data > 1
    assert not shared


@pytest.mark.parametrize("element", ["i4", "ui2"])
@pytest.mark.parametrize(("rows", "columns"), [(999, 1001), (64, 333), (50, 3001)])
def test_tiles_of_rows(rows: int, columns: int, element: str) -> None:
    tiling, shared = launch(in_rows(rows, columns, element))
    assert tiling.blocks.data > 1
    assert not shared
    assert tiling.sizes[0] % columns == 0


@pytest.mark.parametrize(("columns", "alone"), [(256, False), (254, False), (255, True)])
def test_tiles_of_matmuls(columns: int, alone: bool) -> None:
    tiling, shared = launch(matmul(512, columns, "i4"))
    assert (tiling.blocks.data == 1) == alone == bool(shared)


def test_tiles_that_are_moved() -> None:
    tiling, shared = launch(moved(1001, 999))
    assert tiling.blocks.data == 1
    assert shared == ["tensor<999x1001xi4>"]


def test_shared_bytes_are_found() -> None:
    """The tilings that there were: blocks of any number of elements or rows."""
    for module, tile in ((pointwise("200001", "i4"), 5001), (in_rows(99, 1001, "i4"), 1001)):
        lower(module, Options())
        assert check_core_plans(module) == []
        (kernel,) = (op for op in module.ops if isinstance(op, KernelOp))
        assert kernel.tiling is not None
        buffers = kernel.tiling.buffers.data
        kernel.tiling = TilingAttr.of((tile,), 8, buffers)
        assert "blocks share bytes of op" in str(check_core_plans(module))
        kernel.tiling = TilingAttr.of((tile,), 1, buffers)
        assert "share bytes" not in str(check_core_plans(module))
