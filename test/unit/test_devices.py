"""Programs of one device on all devices of a mesh, in one process: numbers of collectives, parts of
inputs and weights, and devices that do not agree."""

import json
from collections.abc import Mapping
from functools import reduce
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from ge.dialects.support.errors import GeError
from ge.dialects.support.mesh import Axis, Mesh, Sharding
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context, lower
from ge.lowering.driver.devices import device_figures
from ge.lowering.pipeline.options import Options
from ge.runtime.data.weights import RandomPayload, SafetensorsPayload, write_safetensors
from ge.runtime.device.devices import Spread
from ge.runtime.device.session import Session
from ge.tools.commands import ge_compile, ge_run

MESH = 'graph.mesh @mesh ["dp"=2, "tp"=4]\n'
WHOLE = Mesh((("dp", 2), ("tp", 4)))
ORDERS = "", ", device_ids=[5, 0, 3, 6, 1, 2, 7, 4]"  # the device at each place


def parse(text: str) -> ModuleOp:
    return parse_module(context(), SourceText("test.mlir", text))


def shape(numbers: Any, element: str = "f32") -> str:
    return f"tensor<{'x'.join(map(str, numbers))}x{element}>"


def spread(name: str, sharding: str, whole: Any) -> str:
    return (
        f'{{graph.name = "{name}", graph.sharding = #graph.sharding<@mesh, {sharding}>, '
        f"graph.whole = array<i64: {', '.join(map(str, whole))}>}}"
    )


def program(
    body: str, x: Any, y: Any, cut_x: str, cut_y: str, whole_x: Any, whole_y: Any, element: str
) -> str:
    """A program of one op that makes %y of %x."""
    return (
        f"{MESH}func.func @main(%x: {shape(x, element)} {spread('x', cut_x, whole_x)})"
        f" -> ({shape(y, element)} {spread('y', cut_y, whole_y)}) {{\n"
        f"  %y = {body} : ({shape(x, element)}) -> {shape(y, element)}\n"
        f"  return %y : {shape(y, element)}\n}}"
    )


def run(text: str, x: Any, level: str = "graph") -> Any:
    module = parse(text)
    if level != "graph":
        lower(module, Options(), until=level)
    return Session(module, {}, poison=True).run({"x": x})["y"]


def numbers(*sizes: int, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(0).standard_normal(sizes).astype(dtype)


# cut as parts of a sum: rows of the input are terms
SUMS = [
    ("sum", np.float32, "f32"),
    ("max", np.float32, "f32"),
    ("sum", ml_dtypes.bfloat16, "bf16"),
    ("prod", np.int32, "i32"),
]


TERMS = """
graph.mesh @mesh ["dp"=2, "tp"=4]
func.func @main(%x: tensor<1x2x5xE> X) -> (tensor<1x1x5xE> Y) {
  %t = graph.reduce KIND %x axes [1] : (tensor<1x2x5xE>) -> tensor<1x1x5xE>
  %y = graph.all_reduce KIND %t over <"tp"=4> : (tensor<1x1x5xE>) -> tensor<1x1x5xE>
  return %y : tensor<1x1x5xE>
}
"""


@pytest.mark.parametrize(("kind", "dtype", "element"), SUMS)
@pytest.mark.parametrize("level", ["graph", "program"])
def test_all_reduce(kind: str, dtype: Any, element: str, level: str) -> None:
    x = (numbers(2, 8, 5) * 2).astype(dtype)
    text = TERMS.replace("KIND", kind).replace("5xE", f"5x{element}")
    text = text.replace("X)", spread("x", '[{"dp"}, {"tp"}, {}]', (2, 8, 5)) + ")")
    text = text.replace("Y)", spread("y", '[{"dp"}, {}, {}]', (2, 1, 5)) + ")")
    got = run(text, x, level)
    wide = x.astype(np.float32) if element == "bf16" else x
    fold = {"sum": np.add, "max": np.maximum, "prod": np.multiply}[kind]
    terms = fold.reduce(wide.reshape(2, 4, 2, 5), axis=2).astype(dtype).astype(wide.dtype)
    want = fold.reduce(terms, axis=1, keepdims=True)  # one by one, in order
    assert got.dtype == x.dtype
    assert np.array_equal(got, want.astype(dtype))


def test_all_reduce_over_digits() -> None:
    x = numbers(8, 3)
    body = 'graph.all_reduce sum %x over <"tp":(2)2>'
    cut = '[{"dp", "tp"}, {}]', '[{"dp", "tp":(1)2}, {}]'
    got = run(program(body, (1, 3), (1, 3), *cut, (8, 3), (4, 3), "f32"), x)
    assert np.array_equal(got, x[0::2] + x[1::2])
    major = body.replace("(2)2", "(1)2")
    cut = cut[0], '[{"dp", "tp":(2)2}, {}]'
    got = run(program(major, (1, 3), (1, 3), *cut, (8, 3), (4, 3), "f32"), x)
    assert np.array_equal(got, x[[0, 1, 4, 5]] + x[[2, 3, 6, 7]])


@pytest.mark.parametrize("axes", ['"dp"=2, "tp"=4', '"tp"=4, "dp"=2'])
def test_d18_terms_are_added_in_the_order_of_devices(axes: str) -> None:
    """Whatever the order of axes, in one process and in random timings."""
    x = numbers(8, 64, dtype=np.float16)
    want = reduce(np.add, x.astype(np.float32)).astype(np.float16)
    body = f"graph.all_reduce sum %x over <{axes}>"
    cut = '[{"dp", "tp"}, {}]', "[{}, {}]"
    module = parse(program(body, (1, 64), (1, 64), *cut, (8, 64), (1, 64), "f16"))
    session = Session(module, {})
    assert session.run({"x": x})["y"].tobytes() == want.tobytes()
    session.fuzz_schedule({"x": x}, 3)


def test_all_gather_and_reduce_scatter() -> None:
    x = numbers(8, 12)
    body = 'graph.all_gather %x dim 1 over <"tp"=4>'
    cut = '[{"dp"}, {"tp"}]', '[{"dp"}, {}]'
    got = run(program(body, (4, 3), (4, 12), *cut, (8, 12), (8, 12), "f32"), x)
    assert np.array_equal(got, x)
    body = 'graph.reduce_scatter sum %x dim 1 over <"tp"=4>'
    cut = '[{"dp", "tp"}, {}]', '[{"dp"}, {"tp"}]'
    got = run(program(body, (1, 12), (1, 3), *cut, (8, 12), (2, 12), "f32"), x)
    want = [((x[i] + x[i + 1]) + x[i + 2]) + x[i + 3] for i in (0, 4)]
    assert np.array_equal(got, np.stack(want))


MOVES = [  # shape of the whole, cut before, local shape, cut after, local shape
    ((8, 12), '[{}, {"tp"}]', (8, 3), '[{"tp"}, {}]', (2, 12)),
    ((6, 5), '[{}, {"tp"}]', (6, 2), '[{"tp"}, {}]', (2, 5)),  # 2, 2, 1, 0 columns
    ((3, 5), '[{"dp", "tp"}, {}]', (1, 5), '[{"dp"}, {"tp"}]', (2, 2)),
    ((8, 8), '[{"tp", "dp"}, {}]', (1, 8), '[{"dp", "tp"}, {}]', (1, 8)),
    ((8, 8), '[{"tp":(2)2}, {"dp"}]', (4, 4), '[{"dp"}, {"tp"}]', (4, 2)),
]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("whole", "before", "x", "after", "y"), MOVES)
def test_all_to_all(whole: Any, before: str, x: Any, after: str, y: Any, order: str) -> None:
    values = numbers(*whole)
    sizes = f"[{', '.join(map(str, whole))}]"
    body = f"graph.all_to_all %x shape {sizes} has <@mesh, {before}> to <@mesh, {after}>"
    body = body.replace('"tp"', '"tp":(1)4').replace('"dp"', '"dp":(1)2').replace(":(1)4:", ":")
    text = program(body, x, y, before, after, whole, whole, "f32")
    got = run(text.replace("=4]\n", f"=4]{order}\n"), values)
    assert np.array_equal(got, values)


@pytest.mark.parametrize("order", ORDERS)
def test_exchange_of_halos(order: str) -> None:
    x = numbers(7, 3)
    needs = '<["tp"=4 * 2 + -1 : 4], [0 : 3]> fill -1.0 : f32'
    body = f'graph.exchange %x shape [7, 3] has <@mesh, [{{"tp":(1)4}}, {{}}]> needs {needs}'
    cut = '[{"tp"}, {}]', '[{"tp"}, {}]'
    text = program(body, (2, 3), (4, 3), *cut, (7, 3), (16, 3), "f32")
    got = run(text.replace("=4]\n", f"=4]{order}\n"), x)
    around = np.concatenate([np.full((1, 3), -1), x, np.full((2, 3), -1)])
    want = np.concatenate([around[2 * i : 2 * i + 4] for i in range(4)])
    assert np.array_equal(got, want.astype(np.float32))


def test_exchange_of_a_slice() -> None:
    """Each device gets the rows of its place in a slice, the last one nothing that counts."""
    x = numbers(8, 2)
    body = (
        'graph.exchange %x shape [8, 2] has <@mesh, [{"tp":(1)4}, {}]> '
        'needs <["tp"=4 * 2 + 3 : 2], [0 : 2]>'
    )
    cut = '[{"tp"}, {}]', '[{"tp"}, {}]'
    got = run(program(body, (2, 2), (2, 2), *cut, (8, 2), (5, 2), "f32"), x)
    assert np.array_equal(got, x[3:])


@pytest.mark.parametrize("order", ORDERS)
def test_numbers_of_devices(order: str) -> None:
    """Along axes, whichever device is at a place: outputs are put together by places."""
    text = (
        f"{MESH}func.func @main() -> (tensor<1xi64> {spread('y', '[{dp, tp}]', [8])}) {{\n"
        '  %i = graph.axis_index over <"tp"=4, "dp"=2> : () -> tensor<i64>\n'
        "  %y = graph.reshape %i shape [1] : (tensor<i64>) -> tensor<1xi64>\n"
        "  return %y : tensor<1xi64>\n}"
    )
    text = text.replace("{dp, tp}", '{"dp", "tp"}').replace("=4]\n", f"=4]{order}\n")
    for level in ("graph", "program"):
        module = parse(text)
        lower(module, Options(), until=level)
        y = Session(module, {}).run({})["y"]
        assert y.tolist() == [0, 2, 4, 6, 1, 3, 5, 7]


def test_a_mesh_says_which_device_is_where() -> None:
    """Coordinates, numbers and groups of devices; of a pipeline for each microbatch."""
    mesh = Mesh((("dp", 2), ("tp", 2)), (2, 0, 3, 1))
    assert mesh.coordinates(3) == {"dp": 1, "tp": 0}
    assert mesh.group((Axis("tp"),), 0) == [2, 0]
    assert mesh.group((Axis("dp"), Axis("tp")), 1) == [2, 0, 3, 1]
    places = [mesh.index((Axis("dp"), Axis("tp")), device) for device in range(4)]
    assert places == [1, 3, 0, 2] == [mesh.place(device) for device in range(4)]
    in_time = Mesh((("microbatch", 3), *mesh.axes), mesh.order)
    assert in_time.devices == mesh
    assert in_time.group((Axis("tp"),), 8 + 3) == [8 + 3, 8 + 1]
    assert in_time.digit(Axis("microbatch"), 8 + 3) == 2
    assert [in_time.place(in_time.device_at(n)) for n in range(12)] == [*range(12)]


# ---- parts -------------------------------------------------------------------------------------


def test_parts_that_do_not_divide() -> None:
    sharding = Sharding(((Axis("tp", 1, 4),), ())).resolved(WHOLE)
    cut = Spread((5, 2), (2, 2), sharding)
    x = numbers(5, 2)
    parts = [cut.part(x, WHOLE, device, poison=True) for device in range(8)]
    assert all(p.shape == (2, 2) for p in parts)
    assert np.array_equal(parts[2][0], x[4])
    assert np.isnan(parts[2][1]).all()
    assert np.isnan(parts[7]).all()
    assert np.array_equal(cut.joined(parts, WHOLE), x)
    meant = [cut.own(x, WHOLE, device) for device in range(4)]
    assert [m.shape for m in meant if m is not None] == [(2, 2), (2, 2), (1, 2), (0, 2)]


CUT_WEIGHT = """
module attributes {graph.parts = {"w.tp" = ["w", #graph.sharding<@mesh, [{}, {"tp"}]>]}} {
graph.mesh @mesh ["dp"=2, "tp"=4]
func.func @main(%x: tensor<2x6xf32> X) -> (tensor<2x2xf32> Y) {
  %w = graph.constant #graph.weight<"w.tp"> : tensor<6x2xf32>
  %h = graph.constant dense<0.5> : tensor<6x2xf32>
  %v = graph.mul %w, %h : (tensor<6x2xf32>, tensor<6x2xf32>) -> tensor<6x2xf32>
  %y = graph.matmul %x, %v : (tensor<2x6xf32>, tensor<6x2xf32>) -> tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}
}
"""
WEIGHTED = CUT_WEIGHT.replace("X)", spread("x", '[{"dp"}, {}]', (4, 6)) + ")").replace(
    "Y)", spread("y", '[{"dp"}, {"tp"}]', (4, 7)) + ")"
)


@pytest.mark.parametrize("level", ["graph", "program"])
def test_each_device_reads_its_part_of_a_weight(level: str, tmp_path: Path) -> None:
    x, w = numbers(4, 6), numbers(6, 7) * 2
    with open(tmp_path / "w.safetensors", "w+b") as file:
        write_safetensors(file, {"w": w})
    module = parse(WEIGHTED)
    lower(module, Options(), until=level)
    payload = SafetensorsPayload(tmp_path / "w.safetensors")
    got = Session(module, payload).run({"x": x})["y"]
    assert np.allclose(got, x @ (w * np.float32(0.5)), atol=1e-5)
    random = Session(module, RandomPayload(module)).run({"x": x})["y"]
    assert len(np.unique(random)) == random.size  # parts of one weight, not the same part


# ---- what they send ---------------------------------------------------------------------------

ROWS = [  # body, local shapes, cut before and after, whole shapes, what the report says
    (
        'graph.all_reduce sum %x over <"tp":(1)2>',
        ((1, 4), (1, 4)),
        ('[{"dp", "tp"}, {}]', '[{"dp", "tp":(2)2}, {}]'),
        ((8, 4), (4, 4)),
        ("all_reduce", 16, ["tp:(1)2"], 16),
    ),
    (
        'graph.all_gather %x dim 0 over <"tp"=4>',
        ((1, 4), (4, 4)),
        ('[{"dp", "tp"}, {}]', '[{"dp"}, {}]'),
        ((8, 4), (8, 4)),
        ("all_gather", 64, ["tp"], 48),
    ),
    (
        'graph.all_to_all %x shape [8, 4] has <@mesh, [{"tp":(1)4}, {}]> '
        'to <@mesh, [{}, {"tp":(1)4}]>',
        ((2, 4), (8, 1)),
        ('[{"tp"}, {}]', '[{}, {"tp"}]'),
        ((8, 4), (8, 4)),
        ("all_to_all", 32, ["tp"], 24),
    ),
    (
        'graph.exchange %x shape [8, 4] has <@mesh, [{"tp":(1)4}, {}]> '
        'needs <["tp"=4 * 2 + -1 : 4], [0 : 4]>',
        ((2, 4), (4, 4)),
        ('[{"tp"}, {}]', '[{"tp"}, {}]'),
        ((8, 4), (16, 4)),
        ("halo", 32, ["tp"], 32),
    ),
]


@pytest.mark.parametrize("level", ["graph", "program"])
@pytest.mark.parametrize(("body", "shapes", "cuts", "wholes", "row"), ROWS)
def test_reports_say_what_is_sent(
    body: str, shapes: Any, cuts: Any, wholes: Any, row: Any, level: str
) -> None:
    (x, y), (before, after), (whole_x, whole_y) = shapes, cuts, wholes
    module = parse(program(body, x, y, before, after, whole_x, whole_y, "f32"))
    lower(module, Options(), until=level)
    figures = device_figures(module)["devices"]
    op, size, axes, sent = row
    (found,) = figures["collectives"]
    timed = {key: found.pop(key) for key in ("algorithm", "us") if key in found}
    assert found == {"op": op, "bytes": size, "axes": axes, "count": 1}
    assert timed.keys() == ({"algorithm", "us"} if level == "program" else set())
    assert figures["sent_bytes"] == sent
    assert (figures["count"], figures["mesh"]) == (8, {"dp": 2, "tp": 4})


def test_reports_say_what_parameters_a_device_has() -> None:
    module = parse(WEIGHTED)
    lower(module, Options(), until="program")
    assert device_figures(module)["devices"]["parameter_bytes"] == 6 * 2 * 4


# ---- devices that do not agree -----------------------------------------------------------------

BRANCHES = """
func.func @main(%x: tensor<1x2xf32> X) -> (tensor<1x2xf32> Y) {
  %i = graph.axis_index over <"dp"=2, "tp"=4> : () -> tensor<i64>
  %n = graph.constant dense<3> : tensor<i64>
  %c = graph.compare eq %i, %n : (tensor<i64>, tensor<i64>) -> tensor<i1>
  %d = graph.constant dense<false> : tensor<i1>
  %y = graph.if %c : (tensor<i1>) -> tensor<1x2xf32> {
    THEN
    graph.yield %a : tensor<1x2xf32>
  } else {
    ELSE
    graph.yield %a : tensor<1x2xf32>
  }
  return %y : tensor<1x2xf32>
}
"""
SUM = 'graph.all_reduce sum %x over <"tp"=4> : (tensor<1x2xf32>) -> tensor<1x2xf32>'


def disagreeing(then: str, otherwise: str) -> str:
    cut = spread("x", '[{"dp", "tp"}, {}]', (8, 2))
    text = BRANCHES.replace("X)", f"{cut})").replace("Y)", f"{cut.replace('x', 'y', 1)})")
    text = text.replace('"x"', '"y"', 2).replace('"y"', '"x"', 1)
    return MESH + text.replace("THEN", then).replace("ELSE", otherwise)


CASES = [
    (
        "%a = graph.neg %x : (tensor<1x2xf32>) -> tensor<1x2xf32>",
        f"%a = {SUM}",
        r"device 0 in graph.all_reduce sum of tensor<1x2xf32> over tp=4 for device 3 \(has ended\)",
    ),
    (
        f"%a = {SUM}",
        f"%a = {SUM.replace('sum', 'max')}",
        "do not agree.*reduce (max|sum).*(sum|max)",
    ),
    (
        f"%a = {SUM}",
        f"%a = {SUM.replace('=4', ':(2)2')}",
        r"device 3 in graph.all_reduce .* for device 0 \(",
    ),
    (
        f'%b = graph.assert %x, %d, "no rows are left" : (tensor<1x2xf32>, tensor<i1>) -> '
        f"tensor<1x2xf32>\n%a = {SUM}",
        f"%a = {SUM}",
        "device 3 of 8: no rows are left",
    ),
]


@pytest.mark.parametrize(("then", "otherwise", "error"), CASES)
def test_errors_end_all_devices(then: str, otherwise: str, error: str) -> None:
    module = parse(disagreeing(then, otherwise))
    with pytest.raises(GeError, match=error):
        Session(module, {}).run({"x": numbers(8, 2)})


# ---- state -------------------------------------------------------------------------------------

SUMS_UP = """
func.func @main(%x: tensor<4x7xf32> {graph.name = "x"}, %s: tensor<4x7xf32> {graph.name = "s"})
    -> (tensor<4x7xf32> {graph.name = "y"}, tensor<4x7xf32> {graph.name = "t"}) {
  %t = graph.add %x, %s : (tensor<4x7xf32>, tensor<4x7xf32>) -> tensor<4x7xf32>
  %y = graph.tanh %t : (tensor<4x7xf32>) -> tensor<4x7xf32>
  return %y, %t : tensor<4x7xf32>, tensor<4x7xf32>
}
"""
COLUMNS: Any = [[], ["tp"]]


@pytest.mark.parametrize("level", ["graph", "program"])
def test_devices_keep_their_parts_of_state(level: str, tmp_path: Path) -> None:
    module = parse(SUMS_UP)
    rules = {"x": COLUMNS, "s": COLUMNS, "t": COLUMNS, "y": COLUMNS}
    options = Options(mesh="tp=3", shard=json.dumps(rules), pad=True, state=("s=t",))
    lower(module, options, until=level)
    session, x = Session(module, {}, poison=True), numbers(3, 4, 7)
    session.run({"x": x[0]})
    got = session.run({"x": x[1]})["y"]
    assert np.array_equal(got, np.tanh(x[0] + x[1]))
    assert np.array_equal(session.state["s"], x[0] + x[1])
    session.fuzz_schedule({"x": x[2]}, 2)
    session.state.save(tmp_path / "s.npz")
    session.state.reset()
    assert not session.state["s"].any()
    session.state.load(tmp_path / "s.npz")
    session.run({"x": x[2]})
    assert np.array_equal(session.state["s"], x[0] + x[1] + x[2])


PIECES = """\
graph.mesh @mesh ["tp"=4]
func.func @main(%a: tensor<2x8xf32> {graph.sharding = #graph.sharding<@mesh, [{"tp"}, {}]>, graph.whole = array<i64: 8, 8>})
    -> (tensor<4x8xf32> {graph.sharding = #graph.sharding<@mesh, [{"tp"}, {}]>, graph.whole = array<i64: 16, 8>},
        tensor<2x8xf32> {graph.sharding = #graph.sharding<@mesh, [{}, {}]>, graph.whole = array<i64: 2, 8>}) {
  %0 = graph.exchange %a shape [8, 8] has <@mesh, [{"tp":(1)4}, {}]> needs <["tp"=4 * 4 : 4], [0 : 8]> : (tensor<2x8xf32>) -> tensor<4x8xf32>
  %1 = graph.all_reduce max %a over <"tp"=4> : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %2 = graph.exchange %a shape [8, 8] has <@mesh, [{"tp":(1)4}, {}]> needs <["tp"=4 * 4 + -8 : 4], [0 : 8]> onto %0 : (tensor<2x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %2, %1 : tensor<4x8xf32>, tensor<2x8xf32>
}
"""  # noqa: E501


def test_pieces_of_one_value_are_one_exchange_whatever_stands_between():
    """Each device sends its two rows of 32 bytes in each of the two exchanges, at most."""
    module = parse_module(context(), SourceText("pieces", PIECES))
    rows = device_figures(module)["devices"]["collectives"]
    found = {(r["op"], r["bytes"], r["count"]) for r in rows}
    assert found == {("shift", 128, 1), ("all_reduce", 64, 1)}


OPEN = """
func.func @main(%x: tensor<?x8xf32> {graph.name = "x"}) -> (tensor<?x4xf32> {graph.name = "y"}) {
  %w = graph.constant dense<W> : tensor<8x4xf32>
  %0 = graph.exp %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %1 = graph.matmul %0, %w : (tensor<?x8xf32>, tensor<8x4xf32>) -> tensor<?x4xf32>
  return %1 : tensor<?x4xf32>
}
"""


@pytest.mark.parametrize("until", ["graph", "program"])
@pytest.mark.parametrize("cut", [{"x": [[], ["a"]]}, {"y": [[], ["a"]]},
                                 {"x": [[], ["a"]], "y": [[], ["a"]]}])  # fmt: skip
def test_values_of_unknown_size_are_cut_along_others(
    cut: Mapping[str, Any], until: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Inputs and outputs whose batch is not known, in parts of known width: the parts are as long
    as the arrays of a run."""
    w = np.arange(32, dtype=np.float32).reshape(8, 4)
    model, made, report = (tmp_path / n for n in ("model.mlir", "p.mlir", "report.json"))
    model.write_text(OPEN.replace("W", str(w.tolist())))
    given = ["--mesh", "a=4", "--shard", json.dumps(cut), "--until", until, "-o", str(made)]
    assert ge_compile([str(model), *given, "--report", str(report)]) == 0
    rows = json.loads(report.read_text())["devices"]["collectives"]
    assert [(row["bytes"], row["count"]) for row in rows] == [(0, 1)] * ("x" in cut)
    for size in (3, 1, 0):
        x = np.linspace(-1, 1, size * 8, dtype=np.float32).reshape(size, 8)
        np.savez(tmp_path / "x.npz", x=x)
        files = ["--inputs", str(tmp_path / "x.npz"), "--outputs", str(tmp_path / "y.npz")]
        assert ge_run([str(made), *files]) == 0, capsys.readouterr().err
        y = np.load(tmp_path / "y.npz")["y"]
        np.testing.assert_allclose(y, np.exp(x) @ w, rtol=1e-5)
