"""What a program may say of sizes between its gears (`graph.padding`): the proof takes what is
right, whatever the compiler says, and nothing else."""

from itertools import chain, combinations
from pathlib import Path

import numpy as np
import onnx
import pytest
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    ModuleOp,
    StringAttr,
    i64,
)

import ge
from ge.dialects.graph.stated import DIMS, PADDING
from ge.runtime.check.padding import NO_NUMBER, check_padding, unmeasured
from ge.runtime.device.session import main_of

HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'
BRANCH = """g (bool c, float[n, 4] x) => (float[] y) {
  y = If (c) <then_branch = t () => (float[] a) { a = THEN },
              else_branch = f () => (float[] b) { b = Neg (x) }>
}"""
LOOP = """g (int64 k, float[n, 4] x) => (float[n, 4] y) {
  y = Loop (k, "", x) <body: graph = b (int64 i, bool c, float[n, 4] v) => (bool co, float[] w) {
    co = Identity (c)
    m = ReduceMean <axes = [0]> (v)
    w = Sub (v, m)
  }>
}"""
FILLED = """g (float[n, 4] x) => (float[] y) {
  s = Shape <end = 1> (x)
  many = Constant <value_ints = [70000]> ()
  shape = Concat <axis = 0> (s, many)
  ones = ConstantOfShape <value = float[1] {1}> (shape)
  r = ReduceSum <keepdims = 0> (ones)
  q = ReduceSumSquare <axes = [0], keepdims = 0> (x)
  y = Add (q, r)
}"""


def model(ops: str, result: str = "float[]") -> str:
    return f"g (float[n, 4] x) => ({result} y) {{ {ops} }}"


# Texts, gears, the ranks of the results, the claims that are right
CASES = {
    "a branch that mixes": (BRANCH.replace("THEN", "Softmax <axis = 0> (x)"), "2;6", 2, []),
    "a branch that is not cut": (BRANCH.replace("THEN", "Relu (x)"), "2;6", 2, []),
    "a loop": (LOOP, "2;6", 2, []),
    "a shape": (model("y = Shape (x)", "int64[2]"), "2;6", 1, []),
    "a size that is copied": (model("s = Size (x)\n y = Cast <to = 1> (s)"), "2;6", 0, []),
    "a size that is added": (
        model("s = Size (x)\n f = Cast <to = 1> (s)\n y = Add (x, f)"), "2;6", 2, []),
    "a filled result": (
        model("s = Shape (x)\n y = ConstantOfShape <value = float[1] {3}> (s)"), "2;6", 2, [(0,)]),
    "a sum of what is filled": (FILLED, "6;12", 1, []),
    "a sum of squares": (
        model("y = ReduceSumSquare <axes = [0], keepdims = 0> (x)"), "2;6", 1, [()]),
    "an identity matrix": (model("y = EyeLike (x)"), "2;6", 2, [(0,)]),
}  # fmt: skip


def saved(text: str, folder: Path) -> str:
    proto = onnx.shape_inference.infer_shapes(onnx.parser.parse_model(HEAD + text))
    onnx.save(proto, folder / "m.onnx")
    return str(folder / "m.onnx")


def compiled(text: str, gears: str, folder: Path) -> ModuleOp:
    return ge.compile(saved(text, folder), dynamic_dims=gears).module


def claim(module: ModuleOp, axes: tuple[int, ...]) -> tuple[list[str], list[str]]:
    """What is wrong with saying that output y is cut along these axes, and what is relied upon."""
    table = DictionaryAttr({"y": DenseArrayBase.from_list(i64, axes)})
    main_of(module).attributes[PADDING] = DictionaryAttr({"n": table})
    problems, relied = check_padding(module, main_of(module))
    return [p.message for p in problems], relied


@pytest.mark.parametrize(("text", "gears", "rank", "right"), CASES.values(), ids=list(CASES))
def test_claims_that_are_right_are_taken_alone(
    text: str, gears: str, rank: int, right: list[tuple[int, ...]], tmp_path: Path
) -> None:
    module = compiled(text, gears, tmp_path)
    claims = chain.from_iterable(combinations(range(rank), k) for k in range(rank + 1))
    assert [axes for axes in claims if not claim(module, axes)[0]] == right


def test_numbers_that_cannot_be_compared_are_relied_upon(tmp_path: Path) -> None:
    """Of one size there is no other gear; folding has left another op of a small one."""
    text = model("y = Relu (x)")
    assert NO_NUMBER not in claim(compiled(text, "2;6", tmp_path), (0,))[1]
    one = compiled(text.replace("n, 4", "n, m"), "6,10;6,20", tmp_path)
    assert NO_NUMBER in claim(one, (0,))[1]
    assert NO_NUMBER in claim(compiled(FILLED, "2;6", tmp_path), ())[1]


def test_gears_of_two_dimensions_are_compared_where_one_is_exact(tmp_path: Path) -> None:
    text = "g (float[n, m] x) => (float y) { s = Size (x)\n y = Cast <to = 1> (s) }"
    module = compiled(text, "1,10;1,20;2,10;2,20", tmp_path)
    assert "has numbers that follow from 'n'" in claim(module, ())[0][0]


def test_a_dimension_of_one_in_all_gears_has_no_size_between(tmp_path: Path) -> None:
    text = model("y = Relu (x)").replace("n, 4", "n, m")
    module = compiled(text, "1,10;1,20", tmp_path)
    problems, relied = check_padding(module, main_of(module))
    assert not problems
    assert NO_NUMBER not in relied
    assert claim(module, (2,))[0]


def test_sizes_that_no_gear_measures_are_relied_upon(tmp_path: Path) -> None:
    """An input whose dimension is no longer that of the gears may not fit into their buffers."""
    text = "g (float[n, 4] x, float[n, 4] z) => (float[n, 4] y) { y = Add (x, z) }"
    main = main_of(compiled(text, "2;6", tmp_path))
    assert not unmeasured(main)
    tables = [dict(table.data) for table in main.arg_attrs or ()]
    tables[1][DIMS] = ArrayAttr([StringAttr("m"), StringAttr("")])
    main.arg_attrs = ArrayAttr(map(DictionaryAttr, tables))
    assert unmeasured(main) == ["m"]


ROWS = """g (float[4, n, 8] x) => (float[] y) {
  s = Constant <value_ints = [SHAPE]> ()
  y = Reshape (x, s)
}"""


@pytest.mark.parametrize("shape", ["4, -1", "2, 2, -1", "4, -1, 2"])
def test_places_before_an_axis_keep_its_first_elements_first(shape: str, tmp_path: Path) -> None:
    program = ge.compile(saved(ROWS.replace("SHAPE", shape), tmp_path), dynamic_dims="2;6")
    session, x = program.session(), np.random.default_rng(0).standard_normal((4, 5, 8), np.float32)
    want = x.reshape([int(n) for n in shape.split(",")])
    np.testing.assert_array_equal(session.run({"x": x})["y"], want)


@pytest.mark.parametrize("shape", ["8, -1", "2, -1", "4, 2, -1", "4, -1, 16", "-1, 16"])
def test_other_places_mix(shape: str, tmp_path: Path) -> None:
    module = compiled(ROWS.replace("SHAPE", shape), "2;6", tmp_path)
    said = str(main_of(module).attributes[PADDING])
    assert "valid elements that follow from padded ones" in said or "no whole number of" in said
