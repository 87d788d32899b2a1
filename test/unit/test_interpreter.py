"""The interpreter: memory it reuses, memory it lets go, errors it explains."""

import random
import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import MemRefType, ModuleOp, f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.utils.test_value import create_ssa_value

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.npu_task.memory import MemoryView
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import functions
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context, lower
from ge.lowering.pipeline.options import Options
from ge.runtime import numbers
from ge.runtime.data.arrays import array_of
from ge.runtime.device.function import Function
from ge.runtime.device.memory import SegmentRange, SlotUse, dead_after, strided_view
from ge.runtime.device.session import Session

UNARY = ("relu", "tanh", "abs", "sigmoid", "neg")
BINARY = ("add", "mul", "sub", "maximum")


def parse(text: str) -> ModuleOp:
    return parse_module(context(), SourceText("test.mlir", text))


def main_of(module: ModuleOp) -> FuncOp:
    return functions(module)["main"]


def random_network(seed: int, ops: int = 30) -> str:
    """Elementwise ops, transposes and products of 3x3 matrices, each on random earlier values."""
    rng = random.Random(seed)
    t = "tensor<3x3xf32>"
    values = ["%x", "%y"]
    lines: list[str] = []
    for i in range(ops):
        name = f"%{i}"
        a, b = rng.choice(values[-5:]), rng.choice(values[-5:])
        match rng.randrange(6):
            case 0:
                lines.append(f"{name} = graph.transpose {a} permutation [1, 0] : ({t}) -> {t}")
            case 1:
                lines.append(f"{name} = graph.reshape {a} shape [3, 3] : ({t}) -> {t}")
            case 2:
                lines.append(f"{name} = graph.matmul {a}, {b} : ({t}, {t}) -> {t}")
            case 3:
                lines.append(f"{name} = graph.{rng.choice(UNARY)} {a} : ({t}) -> {t}")
            case _:
                lines.append(f"{name} = graph.{rng.choice(BINARY)} {a}, {b} : ({t}, {t}) -> {t}")
        values.append(name)
    results = [values[-1], *rng.sample(values, 2)]
    types = ", ".join([t] * 3)
    body = "\n  ".join(lines)
    return f"""func.func @main(%x: {t}, %y: {t}) -> ({types}) {{
  {body}
  func.return {", ".join(results)} : {types}
}}"""


def evaluate_one_by_one(func: FuncOp, inputs: list[Any]) -> Iterator[Any]:
    """The results with a new array for each op."""
    values: dict[SSAValue, Any] = dict(zip(func.body.block.args, inputs, strict=True))
    *ops, last = func.body.block.ops
    for op in ops:
        if isinstance(op, ConstantOp):
            values[op.result] = array_of(op.value)  # pyright: ignore[reportArgumentType]
        else:
            results = numbers.evaluate(op, [values[o].copy() for o in op.operands])
            values.update(zip(op.results, (r.copy() for r in results), strict=True))
    for operand in last.operands:
        yield values[operand]


@pytest.mark.parametrize("level", ["graph", "fused", "tasks", "program"])
@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(s, marks=pytest.mark.soak) for s in range(3, 16))]
)
def test_reuse_of_memory_changes_no_number(seed: int, level: str) -> None:
    text = random_network(seed)
    rng = np.random.default_rng(seed)
    inputs = [rng.standard_normal((3, 3), np.float32) for _ in range(2)]
    with np.errstate(all="ignore"):
        want = list(evaluate_one_by_one(main_of(parse(text)), inputs))
    module = parse(text)
    if level != "graph":
        lower(module, Options(), until=level)
    got = Function(module, main_of(module), {}, poison=True).run(inputs)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("level", ["graph", "tasks", "buffers"])
def test_values_are_let_go_after_their_last_use(level: str) -> None:
    t = "tensor<256x256xf32>"
    lines = [f"%{i + 1} = graph.softmax %{i} : ({t}) -> {t}" for i in range(20)]
    text = f"""func.func @main(%0: {t}) -> {t} {{
      {" ".join(lines)}
      func.return %20 : {t}
    }}"""
    module = parse(text)
    lower(module, Options(), until=level)
    session = Session(module)
    x = np.ones((256, 256), np.float32)
    session.run({"arg0": x})
    tracemalloc.start()
    session.run({"arg0": x})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 6 * x.nbytes


def test_an_error_names_op_place_and_operands() -> None:
    text = """
func.func @main(%x: tensor<?x3xf32>, %y: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %0 = graph.add %x, %y : (tensor<?x3xf32>, tensor<?x3xf32>) -> tensor<?x3xf32>
  func.return %0 : tensor<?x3xf32>
}
"""
    inputs = {"arg0": np.zeros((2, 3), np.float32), "arg1": np.zeros((5, 3), np.float32)}
    for level in ("graph", "program"):
        module = parse(text)
        lower(module, Options(), until=level)
        with pytest.raises(GeError) as error:
            Session(module).run(inputs)
        assert str(error.value).startswith("test.mlir:3:8: error: ")
        assert "tensor<2x3xf32>, tensor<5x3xf32>) cannot be computed" in str(error.value)


def test_a_result_of_another_shape_than_declared_is_found() -> None:
    text = """
func.func @main(%x: tensor<?xf32>, %n: tensor<1xi64>) -> tensor<4xf32> {
  %0 = graph.reshape %x shape %n : (tensor<?xf32>, tensor<1xi64>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
"""
    session = Session(parse(text))
    x = np.zeros(4, np.float32)
    session.run({"arg0": x, "arg1": np.array([4])})
    with pytest.raises(GeError, match="gives tensor<5xf32> where tensor<4xf32> is declared"):
        session.run({"arg0": np.zeros(5, np.float32), "arg1": np.array([5])})


def test_a_value_too_large_for_the_machine_is_refused() -> None:
    t = "tensor<1048576x1048576x64xf32>"
    text = f"""func.func @main(%x: tensor<64xf32>, %y: tensor<1048576x1048576x1xf32>) -> {t} {{
      %0 = graph.add %x, %y : (tensor<64xf32>, tensor<1048576x1048576x1xf32>) -> {t}
      func.return %0 : {t}
    }}"""
    with pytest.raises(GeError, match="GiB, more than this machine has"):
        Session(parse(text))


def test_views_stay_in_their_buffer() -> None:
    base = np.arange(6, dtype=np.float32)
    owner = create_ssa_value(MemRefType(f32, (6,)))
    view = strided_view(base, base.dtype, MemoryView(owner, 3, (1, 3), (3, 1), f32))
    np.testing.assert_array_equal(view, [[3, 4, 5]])
    view[0, 0] = 7
    assert base[3] == 7
    with pytest.raises(GeError, match="leaves its buffer of 6"):
        strided_view(base, base.dtype, MemoryView(owner, 4, (1, 3), (3, 1), f32))
    everywhere = np.broadcast_to(np.float32(7), (7,))  # of a constant that lies in memory once
    found = strided_view(everywhere, base.dtype, MemoryView(owner, 3, (2, 2), (2, 1), f32))
    np.testing.assert_array_equal(found, np.full((2, 2), 7))


def test_dead_bytes_spare_those_that_live_on() -> None:
    def at(start: int, end: int) -> SegmentRange:
        return SegmentRange("arena", start, end)

    lifetimes = [
        SlotUse(at(0, 100), 0, 2),
        SlotUse(at(40, 60), 2, 5),  # written in place of a part of the first
        SlotUse(SegmentRange("io", 0, 100), 0, 9),
    ]
    dead = dead_after(lifetimes)
    assert dead[2] == [at(0, 40), at(60, 100)]
    assert dead[5] == [at(40, 60)]


@pytest.mark.parametrize(
    ("op", "types", "result"),
    [
        ("conv %a, %b bias %c", "2x2x4xf32 3x2x3xf32 ?xf32", "2x3x2xf32"),
        ("conv_transpose %a, %b bias %c", "2x2x4xf32 2x3x3xf32 ?xf32", "2x3x6xf32"),
        ("scatter_elements %a, %b, %c", "4x8xf32 2x8xi64 ?x8xf32", "4x8xf32"),
        ("grid_sample %a, %b", "2x3x4xf32 ?x5x1xf32", "2x3x5xf32"),
        ("non_max_suppression %a, %b", "2x4x4xf32 ?x3x4xf32", "?x3xi64"),
        ("rnn %a, %b, %c", "2x1x3xf32 2x4x3xf32 ?x4x4xf32", "2x2x1x4xf32"),
        ("reverse_sequence %a, %b batch_axis 0 time_axis 1", "4x3xf32 ?xi64", "4x3xf32"),
        ("batch_norm %a, %b, %c, %d, %e", "2x4x3xf32 ?xf32 4xf32 4xf32 4xf32", "2x4x3xf32"),
        ("attention %a, %b, %c", "1x2x3x4xf32 1x2x5x4xf32 1x2x?x4xf32", "1x2x3x4xf32"),
    ],
)
def test_sizes_that_do_not_go_together_are_refused(op: str, types: str, result: str) -> None:
    """Where numpy would broadcast, or take a part."""
    shapes = [f"tensor<{t}>" for t in types.split()]
    named = ", ".join(f"%{n}: {t}" for n, t in zip("abcde", shapes, strict=False))
    ends = f"tensor<{result}>"
    line = f"%r = graph.{op} : ({', '.join(shapes)}) -> {ends}"
    if "rnn" in op:
        line = f"%r, %s = graph.{op} : ({', '.join(shapes)}) -> ({ends}, tensor<2x1x4xf32>)"
        line = line.replace("%c :", "%c direction bidirectional :")
    text = f"func.func @main({named}) -> {ends} {{\n{line}\nreturn %r : {ends}\n}}"
    session = Session(parse(text))
    inputs: dict[str, Any] = {}
    for i, t in enumerate(types.replace("?", "1").split()):
        *shape, element = t.split("x")
        dtype = {"f32": np.float32, "i64": np.int64}[element]
        inputs[f"arg{i}"] = np.ones([int(d) for d in shape], dtype)
    with pytest.raises(GeError, match=r"expected|differ|for 4 channels|batches"):
        session.run(inputs)


def test_one_element_is_repeated_where_the_op_says_so() -> None:
    t, u = "tensor<?x3xf32>", "tensor<?x?xf32>"
    session = Session(
        parse(
            f"func.func @main(%x: {t}, %y: {u}) -> {t} {{\n"
            f"  %0 = graph.add %x, %y : ({t}, {u}) -> {t}\n  func.return %0 : {t}\n}}"
        )
    )
    x = np.ones((2, 3), np.float32)
    for shape in ((1, 1), (2, 1), (1, 3), (2, 3)):
        (y,) = session.run({"arg0": x, "arg1": np.ones(shape, np.float32)}).values()
        assert (y == 2).all()
