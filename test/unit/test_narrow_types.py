"""Floats of at most 8 bits and packed elements: every code, every half, every byte."""

from bisect import bisect_left
from fractions import Fraction
from functools import partial
from itertools import pairwise
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from xdsl.dialects.builtin import MemRefType, f8E4M3FN, f8E5M2, f8E8M0FNU, f16, f32
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.test_value import create_ssa_value

import ge
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.elementwise import AddOp, CastOp, ClampOp
from ge.dialects.graph.linear import SMALL_FLOATS, MatmulOp
from ge.dialects.graph.quantization import DequantizeOp, QuantizeOp
from ge.dialects.graph.support.parameters import holds, splat
from ge.dialects.npu_task.memory import MemoryView
from ge.dialects.support.element_types import (
    ELEMENT_TYPES,
    ElementType,
    i4,
    row_of,
    storage_bytes,
    ui8,
)
from ge.dialects.support.errors import GeError
from ge.dialects.support.types import tensor
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import compile_file, context
from ge.lowering.driver.program import Program
from ge.lowering.levels.level import Level
from ge.lowering.pipeline.options import Options
from ge.runtime.check.memory import runs_of
from ge.runtime.data.arrays import array_of, dense, dtype_of, packed, statistics, unpacked
from ge.runtime.data.files import Outputs
from ge.runtime.data.npz import read_npz
from ge.runtime.data.weights import SafetensorsPayload, restored, write_safetensors
from ge.runtime.device.memory import PackedView
from ge.runtime.numbers import evaluate

pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in cast")

SMALL = [row.type for row in ELEMENT_TYPES if row.is_float and row.bits == 8]
SATURABLE = [t for t in SMALL if t != f8E8M0FNU]
PACKED = [row.type for row in ELEMENT_TYPES if row.is_packed]

each_small = pytest.mark.parametrize("t", SMALL, ids=str)
each_saturable = pytest.mark.parametrize("t", SATURABLE, ids=str)
each_packed = pytest.mark.parametrize("t", PACKED, ids=str)


def cast(x: np.ndarray, source: Attribute, to: Attribute, **params: bool | str) -> np.ndarray:
    op = CastOp.of(create_ssa_value(tensor(x.shape, source)), to=to, **params)
    (y,) = evaluate(op, [x])
    assert y.dtype == dtype_of(to)
    return y


def codes(t: Attribute) -> np.ndarray:
    row = row_of(t)
    assert row is not None
    return np.arange(1 << row.bits, dtype=np.uint8).view(dtype_of(t))


def bits(x: np.ndarray) -> np.ndarray:
    """With one nan for all."""
    return np.where(np.isnan(x.astype(np.float32)), 255, x.view(np.uint8))


HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16)


@pytest.mark.parametrize("t", [*SMALL, *PACKED], ids=str)
@pytest.mark.parametrize("wide", [f16, f32], ids=str)
def test_all_codes_go_both_ways(t: Attribute, wide: Attribute) -> None:
    if t == f8E8M0FNU and wide == f16:
        pytest.skip("f16 does not hold its powers of two")
    x = codes(t)
    y = cast(x, t, wide)
    np.testing.assert_array_equal(y, x.astype(dtype_of(wide)))
    assert (bits(cast(y, wide, t)) == bits(x)).all()


@each_small
def test_halves_are_rounded_as_by_ml_dtypes(t: Attribute) -> None:
    assert (bits(cast(HALVES, f16, t)) == bits(HALVES.astype(np.float32).astype(dtype_of(t)))).all()


@each_saturable
def test_halves_saturate(t: Attribute) -> None:
    dtype = dtype_of(t)
    largest = float(ml_dtypes.finfo(dtype).max)
    want = np.clip(HALVES.astype(np.float32), -largest, largest).astype(dtype)
    got = cast(HALVES, f16, t, saturate=True)
    assert (bits(got) == bits(want)).all()
    assert (np.isnan(got.astype(np.float32)) == np.isnan(HALVES)).all()
    assert float(got[HALVES == np.inf][0]) == largest


@each_saturable
def test_integers_saturate(t: Attribute) -> None:
    largest = float(ml_dtypes.finfo(dtype_of(t)).max)
    x = np.array([0, 1, 255], np.uint8)
    assert cast(x, ui8, t, saturate=True).astype(np.float64).tolist() == [
        0, 1, min(256.0, largest)
    ]  # fmt: skip


@each_saturable
def test_doubles_are_rounded_once(t: Attribute) -> None:
    values = sorted(float(x) for x in codes(t) if np.isfinite(float(x)))
    x: list[float] = []
    for low, high in pairwise(dict.fromkeys(values)):
        middle = (low + high) / 2
        x += [np.nextafter(middle, low), middle, np.nextafter(middle, high)]
    y = cast(np.array(x), row_type("f64"), t)
    table = {float(v): int(v.view(np.uint8)) for v in codes(t) if np.isfinite(float(v))}
    for before, after in zip(x, y, strict=True):
        above = bisect_left(values, before)
        around = values[max(above - 1, 0) : above + 2]
        even = min(around, key=lambda v: (abs(Fraction(v) - Fraction(before)), table[v] & 1))
        assert float(after) == even


def row_type(name: str) -> Attribute:
    return next(row.type for row in ELEMENT_TYPES if row.name == name)


def test_powers_of_two_are_rounded_up_or_down() -> None:
    x = np.array([1.0, 1.1, 1.9, 3.0, 0.0, 1e39, np.inf, np.nan, 2.0**-127], np.float32)

    def powers(rounding: str, saturate: bool) -> list[float]:
        y = cast(x, f32, f8E8M0FNU, rounding=rounding, saturate=saturate)
        return [float(v) for v in y]

    low, high = 2.0**-127, 2.0**127
    np.testing.assert_equal(powers("up", True), [1, 2, 2, 4, low, high, high, np.nan, low])
    np.testing.assert_equal(powers("down", True), [1, 1, 1, 2, low, high, high, np.nan, low])
    nan = np.nan
    np.testing.assert_equal(powers("nearest", False), [1, 1, 2, 4, nan, nan, nan, nan, low])


@pytest.mark.parametrize(
    ("to", "x", "saturate", "want"),
    [
        (f8E4M3FN, 1e5, True, 448.0),
        (f8E4M3FN, 1e5, False, np.nan),
        (f8E5M2, 1e6, True, 57344.0),
        (f8E5M2, 1e6, False, np.inf),
    ],
)
def test_quantize_to_floats(to: Attribute, x: float, saturate: bool, want: float) -> None:
    data, scale = np.array([x, -1.0, 3.3], np.float32), np.array(0.5, np.float32)
    operands = (create_ssa_value(tensor(a.shape, f32)) for a in (data, scale))
    (q,) = evaluate(QuantizeOp.of(*operands, to=to, saturate=saturate), [data, scale])
    assert q.dtype == dtype_of(to)
    np.testing.assert_equal(float(q[0]), want)
    assert q[1:].tolist() == (data[1:] / scale).astype(q.dtype).tolist()
    operands = (create_ssa_value(tensor(q.shape, to)), create_ssa_value(tensor((), f32)))
    (y,) = evaluate(DequantizeOp.of(*operands), [q, scale])
    np.testing.assert_array_equal(y, q.astype(np.float32) * scale)


@pytest.mark.parametrize("t", [*SMALL, row_type("f4E2M1FN")], ids=str)
def test_a_small_float_holds_no_other_type_and_is_held(t: Attribute) -> None:
    others = [row.type for row in ELEMENT_TYPES if row.type != t]
    assert not any(holds(t, other) for other in others)
    assert holds(f32, t)
    assert holds(t, t)


def test_infinities_do_not_fold_away() -> None:
    x = create_ssa_value(tensor([4], f8E5M2))
    wide = CastOp.of(x, to=f32)
    assert CastOp.of(wide.result, to=f8E5M2).fold() == (x,)
    assert CastOp.of(wide.result, to=f8E5M2, saturate=True).fold() is None
    x = create_ssa_value(tensor([4], f8E4M3FN))
    wide = CastOp.of(x, to=f32)
    assert CastOp.of(wide.result, to=f8E4M3FN, saturate=True).fold() == (x,)


# ---- packed elements -------------------------------------------------------------------------


@each_packed
def test_all_bytes_are_unpacked_low_bits_first(t: Attribute) -> None:
    dtype, many = dtype_of(t), 8 // (8 * storage_bytes(8, t) // 8)
    data = np.arange(256, dtype=np.uint8)
    elements = unpacked(data, dtype, 256 * many)
    width = 8 // many
    for byte in range(256):
        for place in range(many):
            code = byte >> place * width & (1 << width) - 1
            assert elements[byte * many + place] == np.array([code], np.uint8).view(dtype)[0]
    assert (packed(elements) == data).all()


@each_packed
@pytest.mark.parametrize("count", range(10))
def test_the_last_byte_may_have_few_elements(t: Attribute, count: int) -> None:
    x = np.resize(codes(t), count)
    data = packed(x)
    assert data.shape == (storage_bytes(count, t),)
    assert (unpacked(data, x.dtype, count) == x).all()
    rows = packed(np.stack([x, x]))
    assert (rows == data).all()
    assert (unpacked(rows, x.dtype, count) == x).all()


def test_constants_in_the_text_have_mlirs_numbers() -> None:
    attr = dense(np.array([-2, -2], ml_dtypes.int4))
    assert str(attr) == "dense<-2> : tensor<2xi4>"
    assert splat(ConstantOp.make(attr, attr.type).result) == -2
    assert (array_of(attr) == np.array([-2, -2], ml_dtypes.int4)).all()
    assert array_of(attr).view(np.uint8).tolist() == [14, 14]
    x = np.array([1, 448, np.nan], ml_dtypes.float8_e4m3fn)
    text = "dense<[1.000000e+00, 4.480000e+02, 0x7f]> : tensor<3xf8E4M3FN>"
    assert str(dense(x)) == text
    assert array_of(dense(x)).tobytes() == x.tobytes()


@pytest.mark.parametrize("t", [*SMALL, *PACKED], ids=str)
@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (2, 4), (0, 3)])
def test_a_payload_has_packed_bytes(t: Attribute, shape: tuple[int, ...], tmp_path: Path) -> None:
    x = np.resize(codes(t), shape)
    path = tmp_path / "w.safetensors"
    with open(path, "wb") as file:
        write_safetensors(file, {"w": x})
    size = storage_bytes(x.size, t)
    data = path.read_bytes()
    assert len(data) == 8 + int.from_bytes(data[:8], "little") + size
    if size:
        want = packed(x.reshape(-1)) if t in PACKED else x
        assert data[-size:] == want.tobytes()
    again = restored(SafetensorsPayload(path)["w"], tensor(shape, t))
    assert again.shape == shape
    assert again.dtype == x.dtype
    assert again.tobytes() == x.tobytes()


def compiled(model: onnx.ModelProto, tmp_path: Path, level: str) -> Program:
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    return compile_file(str(path), Options(), until=level)


@pytest.mark.parametrize("row", [r for r in ELEMENT_TYPES if r.storage_only], ids=lambda r: r.name)
def test_npz_files_are_read_back(row: ElementType, tmp_path: Path) -> None:
    """Those that `ge-run --outputs` writes, and those of np.savez."""
    x = np.resize(codes(row.type), (3, 5))
    with Outputs() as out:
        out.npz(tmp_path / "ours.npz", {"x": x})
    np.savez(tmp_path / "numpys.npz", x=x)
    t = f"tensor<3x5x{row.name}>"
    names = '{graph.name = "x"}'
    text = f"func.func @main(%x: {t} {names}) -> ({t} {names}) {{ func.return %x : {t} }}"
    module = parse_module(context(), SourceText("x.mlir", text))
    for name in ("ours.npz", "numpys.npz"):
        inputs = read_npz(tmp_path / name, ["x"])
        assert ge.Session(module).run(inputs)["x"].tobytes() == x.tobytes()


def test_figures_of_packed_integers_do_not_wrap_around() -> None:
    figures = statistics(np.array([7, 7, -8, 6], ml_dtypes.int4))
    assert (figures["min"], figures["max"], figures["mean"]) == (-8, 7, 3.0)


@pytest.mark.parametrize("name", ["i4", "ui4", "f4E2M1FN"])
def test_the_last_group_may_be_cut(name: str) -> None:
    """Groups of 4 along an axis of 10: the third has two elements."""
    t = row_type(name)
    x = np.resize(codes(t), (3, 10))
    scale = np.linspace(0.5, 2.0, 9, dtype=np.float32).reshape(3, 3)
    operands = [create_ssa_value(tensor(a.shape, e)) for a, e in ((x, t), (scale, f32))]
    (y,) = evaluate(DequantizeOp.of(*operands, axis=1, block_size=4), [x, scale])
    want = x.astype(np.float32) * np.repeat(scale, 4, 1)[:, :10]
    np.testing.assert_array_equal(y, want)
    operands = [create_ssa_value(tensor(a.shape, f32)) for a in (y, scale)]
    (q,) = evaluate(QuantizeOp.of(*operands, axis=1, block_size=4, to=t), [y, scale])
    assert (q.astype(np.float32) == x.astype(np.float32)).all()


VIEWS = [  # offset, sizes, strides; bytes, or None where there are parts of bytes
    (2, [4], [1], [1, 2]),
    (8, [7], [1], [4, 5, 6, 7]),  # the end of the buffer
    (0, [2, 2], [4, 1], [0, 2]),
    (2, [2, 1, 4], [6, 9, 1], [1, 2, 4, 5]),
    (0, [3, 5], [5, 1], [0, 1, 2, 3, 4, 5, 6, 7]),
    (4, [0], [1], []),
    (1, [4], [1], None),
    (0, [3], [1], None),
    (0, [4], [2], None),
    (0, [2, 3], [4, 1], None),
    (0, [2, 2], [5, 1], None),
    (0, [4, 2], [1, 4], None),
]


@pytest.mark.parametrize(("offset", "sizes", "strides", "expected"), VIEWS)
def test_views_of_packed_elements_are_whole_bytes(
    offset: int, sizes: list[int], strides: list[int], expected: list[int] | None
) -> None:
    owner = create_ssa_value(MemRefType(i4, [3, 5]))
    view = MemoryView(owner, offset, tuple(sizes), tuple(strides), i4)
    assert view.is_whole_bytes() == (expected is not None)
    x = np.resize(codes(i4), (3, 5))
    whole = PackedView(packed(x.reshape(-1)), x.dtype, x.shape, 15)
    if expected is None:
        with pytest.raises(GeError, match="whole bytes, not parts of them"):
            whole.view(view)
        return
    boxes = view.region.boxes
    touched = [
        b
        for box in boxes
        for low, high, pitch, width in runs_of(box)
        for start in range(low, high, pitch)
        for b in range(start, start + width)
    ]
    assert sorted(touched) == expected
    elements = np.ndarray(sizes, x.dtype, x.reshape(-1).view(np.uint8), offset, strides)
    part = whole.view(view)
    assert (part.load() == elements).all()
    part.store(np.zeros(sizes, x.dtype))
    elements[...] = 0
    assert (whole.load() == x).all()


def narrow_model(number: int, width: int) -> onnx.ModelProto:
    """Slices, splits, transposes and concatenations of rows of `width` elements."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0]),
        helper.make_node("Concat", ["x", "w"], ["c"], axis=0),
        helper.make_node("Slice", ["c", "one", "four", "zero"], ["rows"]),
        helper.make_node("Slice", ["c", "one", "four", "last"], ["columns"]),
        helper.make_node("Split", ["c", "parts"], ["first", "second"], axis=0),
        helper.make_node("Cast", ["second"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Neg", ["f"], ["n"]),
        helper.make_node("Cast", ["n"], ["back"], to=number),
        helper.make_node("Concat", ["back", "x"], ["joined"], axis=1),
    ]
    shapes = {
        "t": [width, 3], "rows": [3, width], "columns": [5, 3], "first": [2, width],
        "joined": [3, 2 * width],
    }  # fmt: skip
    ints = {"zero": [0], "one": [1], "four": [4], "last": [1], "parts": [2, 3]}
    weights = [helper.make_tensor("w", number, [2, width], np.ones(2 * width), raw=False)]
    weights += [helper.make_tensor(k, TensorProto.INT64, [len(v)], v) for k, v in ints.items()]
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x", number, [3, width])],
        [helper.make_tensor_value_info(k, number, s) for k, s in shapes.items()],
        weights,
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)])


WIDTHS_OF_BITS = {2: (4, 5, 6), 4: (4, 5), 8: (5,)}
WIDTHS = ("ui2",)
"""The types that are tried in all widths."""
OF_A_KIND = {"f8E4M3FN", "f8E4M3FNUZ", "f8E5M2FNUZ", "ui4"}
"""Types that others stand for, of as many bits and as many kinds of numbers."""


@pytest.mark.parametrize(
    ("row", "width"),
    [
        pytest.param(
            row,
            width,
            id=f"{width}-{row.name}",
            marks=[]
            if (width == 5 and row.name not in OF_A_KIND) or row.name in WIDTHS
            else pytest.mark.soak,
        )
        for row in ELEMENT_TYPES
        if row.storage_only
        for width in WIDTHS_OF_BITS[row.bits]  # whole bytes, or part of the last
    ],
)
def test_all_levels_give_the_same_elements(row: ElementType, width: int, tmp_path: Path) -> None:
    number = getattr(TensorProto, row.onnx)
    x = np.resize(codes(row.type), (3, width))
    model = narrow_model(number, width)
    outputs: list[dict[str, np.ndarray]] = []
    for level in Level:
        program = compiled(model, tmp_path, level)
        session = ge.Session(program.module, program.payload, sanitize=level is Level.PROGRAM)
        outputs.append(session.run({"x": x}))
        if level is Level.PROGRAM:
            session.fuzz_schedule({"x": x}, 5)
    whole = np.concatenate([x, np.ones((2, width), x.dtype)])
    want = {"t": x.T, "rows": whole[1:4], "columns": whole[:, 1:4], "first": whole[:2]}
    for got in outputs:
        for name, array in want.items():
            assert got[name].tobytes() == array.tobytes()
        assert got["joined"].tobytes() == outputs[0]["joined"].tobytes()


def aligned(size: int) -> int:
    return -(-size // 512) * 512


@pytest.mark.parametrize("name", ["i4", "ui2", "f4E2M1FN", "f8E5M2"])
def test_a_plan_and_its_files_have_packed_bytes(name: str, tmp_path: Path) -> None:
    row = next(r for r in ELEMENT_TYPES if r.name == name)
    number = getattr(TensorProto, row.onnx)
    nodes = [
        helper.make_node("Concat", ["x", "w"], ["c"], axis=0),
        helper.make_node("Transpose", ["c"], ["t"]),
        helper.make_node("MatMul", ["f", "f"], ["m"]),
        helper.make_node("Cast", ["m"], ["q"], to=number),
        helper.make_node("Concat", ["t", "q"], ["y"], axis=1),
    ]
    weight = helper.make_tensor("w", number, [101, 97], np.ones(9797), raw=False)
    infos = [
        helper.make_tensor_value_info("x", number, [33, 97]),
        helper.make_tensor_value_info("f", TensorProto.FLOAT, [97, 97]),
    ]
    out = helper.make_tensor_value_info("y", number, [97, 231])
    graph = helper.make_graph(nodes, "g", infos, [out], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)])
    compiled(model, tmp_path, Level.GRAPH).save(str(tmp_path / "m.mlir"), None)
    program = compiled(model, tmp_path, Level.PROGRAM)
    size = partial(storage_bytes, t=row.type)
    data = (tmp_path / "m.safetensors").read_bytes()
    assert len(data) == 8 + int.from_bytes(data[:8], "little") + size(9797)
    memory = program.compilation.memory
    assert memory["weight_bytes"] == aligned(size(9797))
    assert memory["io_bytes"] == sum(map(aligned, (size(3201), size(22407), 4 * 97 * 97)))


# ---- what is refused -------------------------------------------------------------------------


@pytest.mark.parametrize("t", [*SMALL, *PACKED], ids=str)
def test_storage_types_are_not_computed_with(t: Attribute) -> None:
    x = create_ssa_value(tensor([4, 4], t))
    for op in (AddOp,) if t in SMALL_FLOATS else (AddOp, MatmulOp):
        with pytest.raises(VerifyException, match=r"is only stored|is not supported"):
            op.of(x, x)
    assert ClampOp.of(x).result.type == x.type


def test_wrong_casts() -> None:
    x, s = create_ssa_value(tensor([4], f32)), create_ssa_value(tensor([], f32))
    with pytest.raises(VerifyException, match="saturate is for floats of 8 bits, not for f16"):
        CastOp.of(x, to=f16, saturate=True)
    with pytest.raises(VerifyException, match="rounding is for f8E8M0FNU, not for f8E5M2"):
        CastOp.of(x, to=f8E5M2, rounding="up")
    with pytest.raises(VerifyException, match="ui8 always saturates"):
        QuantizeOp.of(x, s, to=ui8, saturate=False)
    with pytest.raises(VerifyException, match="not f8E8M0FNU"):
        QuantizeOp.of(x, s, to=f8E8M0FNU)
    scale = create_ssa_value(tensor([], f8E8M0FNU))
    with pytest.raises(VerifyException, match="f8E8M0FNU is only stored: cast it"):
        DequantizeOp.of(create_ssa_value(tensor([4], f8E4M3FN)), scale)
