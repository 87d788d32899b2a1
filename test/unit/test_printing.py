"""Texts are those that xDSL's printer writes, op for op."""

from io import StringIO
from math import prod
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.arith import AddiOp, CmpiOp
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp, StringAttr, TensorType, f32
from xdsl.dialects.memref import ReinterpretCastOp
from xdsl.printer import Printer

from ge.dialects.support.operation import LineOp
from ge.dialects.text.formats import format_of
from ge.dialects.text.look import PLAIN, Look
from ge.dialects.text.looks import LookPrinter
from ge.dialects.text.printer import TextPrinter
from ge.dialects.text.printing import op_text
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import compile_file, context
from ge.lowering.pipeline.options import Options

IMAGES = """func.func @main(%x: tensor<1x24x9x9xf32>, %w: tensor<20x24x3x3xf32>, %b: tensor<20xf32>)
    -> tensor<1x20x9x9xf32> {
  %0 = graph.conv %x, %w bias %b pads [1, 1, 1, 1]
    : (tensor<1x24x9x9xf32>, tensor<20x24x3x3xf32>, tensor<20xf32>) -> tensor<1x20x9x9xf32>
  %1 = graph.sigmoid %0 : (tensor<1x20x9x9xf32>) -> tensor<1x20x9x9xf32>
  func.return %1 : tensor<1x20x9x9xf32>
}"""

OTHERS = """
func.func @f(%m: memref<8x8xf32>, %i: index, %j: i32, %x: f32, %t: tensor<4xi32>) -> index {
  %a = arith.addi %j, %j overflow<nsw> : i32
  %b = arith.addf %x, %x fastmath<fast> : f32
  %c = arith.addf %x, %x {note = "n"} : f32
  %d = arith.select %p, %i, %i : index
  %e = arith.cmpi slt, %i, %i : index
  %p = arith.constant true
  %f = arith.constant {note = 1 : i64} 3 : index
  %g, %h = arith.addui_extended %j, %j : i32, i1
  %k = memref.subview %m[%i, 0] [4, 4] [1, 1]
    : memref<8x8xf32> to memref<4x4xf32, strided<[8, 1], offset: ?>>
  %n = memref.reinterpret_cast %m to offset: [%i], sizes: [4, %i], strides: [8, 1]
    : memref<8x8xf32> to memref<4x?xf32, strided<[8, 1], offset: ?>>
  %o = memref.reinterpret_cast %m to offset: [0], sizes: [], strides: []
    : memref<8x8xf32> to memref<f32>
  %l = tensor.extract %t[%i] : tensor<4xi32>
  func.return %d : index
}"""


def by_xdsl(module: ModuleOp) -> str:
    out = StringIO()
    Printer(stream=out).print_op(module)
    return out.getvalue()


@pytest.mark.parametrize("target", [pytest.param("910_merged", marks=pytest.mark.soak), "910b2"])
def test_a_program_with_tiles(tmp_path: Path, target: str) -> None:
    path = tmp_path / "m.mlir"
    path.write_text(IMAGES)
    module = compile_file(str(path), Options(tiles=True, tile_cache="off", target=target)).module
    text = op_text(module)
    assert "tile.mmad" in text
    assert text == by_xdsl(module)
    read = parse_module(context(()), SourceText("m", text))
    assert op_text(read) == text
    for op in read.walk():
        if isinstance(op, LineOp):
            op.attributes["note"] = StringAttr("n")
    noted = op_text(read)
    assert noted == by_xdsl(read) != text
    assert op_text(parse_module(context(()), SourceText("m", noted))) == noted


LOOKS = [
    Look(unique_ids=True), Look(users=True), Look(hex_above=1), Look(location_names=True),
    Look(users=True, debuginfo=True), Look(users=True, location_names=True),
]  # fmt: skip


def without_names(text: str) -> str:
    """The module of a text in its generic form, its values numbered."""
    module = parse_module(context(()), SourceText("m", text))
    for op in module.walk():
        for value in (*op.results, *(a for r in op.regions for b in r.blocks for a in b.args)):
            value.name_hint = None
    return op_text(module, generic=True)


@pytest.mark.parametrize("look", LOOKS, ids=str)
def test_other_looks_are_read_as_the_same_module(look: Look, tmp_path: Path) -> None:
    path = tmp_path / "m.mlir"
    path.write_text(IMAGES)
    for module in (
        parse_module(context(()), SourceText("m", OTHERS)),
        compile_file(str(path)).module,
    ):
        assert without_names(op_text(module, look)) == without_names(op_text(module))


def test_a_printer_of_looks_prints_as_the_plain_one(tmp_path: Path) -> None:
    path = tmp_path / "m.mlir"
    path.write_text(IMAGES)
    for module in (
        parse_module(context(()), SourceText("m", OTHERS)),
        compile_file(str(path)).module,
    ):
        out = StringIO()
        LookPrinter(look=PLAIN, stream=out).print_whole(module)
        assert out.getvalue() == op_text(module)


def test_parts_that_an_op_may_have_and_attributes_beside_them() -> None:
    module = parse_module(context(()), SourceText("m", OTHERS))
    assert op_text(module) == by_xdsl(module)
    for op in module.walk():
        op.attributes["of lines"] = StringAttr("one\ntwo")
    assert op_text(module) == by_xdsl(module)


def test_texts_of_attributes_are_kept_for_other_ops() -> None:
    module = parse_module(context(()), SourceText("m", OTHERS))
    texts: dict[Any, str] = {}
    first = op_text(module, attributes=texts)
    assert texts
    assert op_text(module, attributes=texts) == first


def test_only_declared_formats_are_known() -> None:
    assert format_of(AddiOp) is not None
    assert format_of(CmpiOp) is None
    form = format_of(ReinterpretCastOp)  # of which programs of many pieces have thousands
    module = parse_module(context(()), SourceText("m", OTHERS))
    casts = [op for op in module.walk() if isinstance(op, ReinterpretCastOp)]
    assert form is not None
    assert all([form.text(op, TextPrinter()) for op in casts])


LARGEST = 3.4028234663852886e38
F32 = st.floats(width=32) | st.sampled_from([0.0, -0.0, 1.0, 1e6, 123456789.0, LARGEST])


@given(st.data(), st.sampled_from([(2,), (5,), (2, 3), (1, 4, 2), (100,), (101,), (0,)]))
def test_lists_of_floats(data: st.DataObject, shape: tuple[int, ...]) -> None:
    size = prod(shape)
    values = data.draw(st.lists(F32, min_size=size, max_size=size))
    dense = DenseIntOrFPElementsAttr.from_list(TensorType(f32, shape), values)
    texts: list[str] = []
    for printer in Printer(out := StringIO()), TextPrinter(stream=out):
        out.seek(0)
        out.truncate()
        printer.print_attribute(dense)
        texts.append(out.getvalue())
    assert texts[0] == texts[1]
