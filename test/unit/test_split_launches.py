"""Ops that say how they come apart do so, and programs in pieces give the same numbers."""

import sys
from collections.abc import Hashable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, SSAValue

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))

from random_builder import Builder, Unsuitable
from random_graphs import op_classes
from random_ops import make

sys.path.insert(0, str(Path(__file__).parent))
from sums import assert_near

from ge.dialects.fused_op import FusedOp
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.linear import GroupedMatmulOp
from ge.dialects.npu_task.ops import LaunchOp
from ge.dialects.support.functions import functions
from ge.dialects.support.tensor_op import SplitInterface, TensorOp
from ge.dialects.support.types import element_type, is_static, numel, set_type, shape_of, tensor
from ge.dialects.targets.target import Target
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context, lower
from ge.lowering.pipeline.options import Options
from ge.runtime import numbers
from ge.runtime.check.memory import check_plan
from ge.runtime.check.schedule import check_schedule
from ge.runtime.clock.clock import simulate
from ge.runtime.data.arrays import Array, array_of, dtype_of
from ge.runtime.device.session import Session
from ge.transforms.memory.plan_memory import PlanMemoryPass
from ge.transforms.schedule.assign_streams import AssignStreamsPass
from ge.transforms.schedule.split_launches import Choice, SplitLaunchesPass, Splitter

TARGET = Target.load()
APART = [op for op in op_classes() if issubclass(op, SplitInterface)]
CUTS = settings().max_examples // 5  # of an op along an axis


def arrays_for(op: TensorOp, seed: int) -> list[Array]:
    rng = np.random.default_rng(seed)
    found: list[Array] = []
    for value in op.operands:
        if isinstance(value.owner, ConstantOp) and hasattr(value.owner.value, "get_values"):
            found.append(array_of(value.owner.value))  # pyright: ignore[reportArgumentType]
            continue
        dtype = dtype_of(element_type(value))
        end = 2 if dtype.kind == "b" else 5
        if isinstance(op, GroupedMatmulOp) and value is op.groups:
            end = shape_of(op.rhs)[0]
        drawn = rng.integers(0, end, shape_of(value))
        found.append(np.asarray(drawn).astype(dtype))
    return found


def parts(op: SplitInterface, axis: int, arrays: list[Array]) -> Array | None:
    """The op on each part of its operands, put together; None where one fixes its shape."""
    axes = op.split_axes(axis)
    assert axes is not None
    assert len(axes) == len(op.operands)
    done: list[Array] = []
    for i in range(shape_of(op.results[0])[axis]):
        cut = [a if x is None else a.take([i], x) for a, x in zip(arrays, axes, strict=True)]
        types = [tensor(a.shape, element_type(v)) for a, v in zip(cut, op.operands, strict=True)]
        block = Block(arg_types=types)
        inside: dict[SSAValue, SSAValue] = {}
        for old, new in zip(op.operands, block.args, strict=True):
            if old in inside:
                return None
            inside[old] = new
        block.add_op(clone := op.clone(inside))
        for result, t in zip(clone.results, clone.infer(), strict=True):
            set_type(result, t)
        done.append(numbers.evaluate(clone, cut)[0])
    return np.concatenate(done, axis)


def same_sums(found: Array, whole: Array) -> None:
    assert_near(found, whole, 1e-2 if whole.dtype.itemsize < 4 else 1e-5)


@pytest.mark.parametrize("kind", APART, ids=lambda op: op.name)
def test_parts_are_independent(kind: type[SplitInterface]) -> None:
    tried = 0
    for seed in range(2 * CUTS):
        if tried >= CUTS:
            break
        b = Builder(seed)
        try:
            op = b.add(make(b, kind))[0].owner
        except Unsuitable:
            continue
        assert isinstance(op, SplitInterface)
        values = (*op.operands, *op.results)
        if len(op.results) != 1 or not all(
            is_static(shape_of(v)) and numel(shape_of(v)) for v in values
        ):
            continue
        arrays = arrays_for(op, seed)
        with np.errstate(all="ignore"):
            whole = numbers.evaluate(op, arrays)[0]
            for axis in range(len(whole.shape)):
                if op.split_axes(axis) is None:
                    continue
                if (found := parts(op, axis, arrays)) is not None:
                    same_sums(found, whole)
                    tried += 1
    assert tried, f"{kind.name} was never cut"


CHAIN = """
func.func @main(%q: tensor<1x8x64x16xf32> {{graph.name = "q"}},
                %k: tensor<1x8x16x64xf32> {{graph.name = "k"}},
                %v: tensor<1x8x64x16xf32> {{graph.name = "v"}},
                %m: tensor<64x64xf32> {{graph.name = "m"}})
    -> (tensor<1x8x64x16xf32> {{graph.name = "y"}},
        tensor<1x8x64x64xf32> {{graph.name = "s"}}) {{
  %0 = graph.matmul %q, %k
    : (tensor<1x8x64x16xf32>, tensor<1x8x16x64xf32>) -> tensor<1x8x64x64xf32>
  %1 = graph.add %0, %m : (tensor<1x8x64x64xf32>, tensor<64x64xf32>) -> tensor<1x8x64x64xf32>
  %2 = graph.softmax %1 axis {axis} : (tensor<1x8x64x64xf32>) -> tensor<1x8x64x64xf32>
  %3 = graph.mul %2, %2 : (tensor<1x8x64x64xf32>, tensor<1x8x64x64xf32>) -> tensor<1x8x64x64xf32>
  %4 = graph.matmul %3, %v : (tensor<1x8x64x64xf32>, tensor<1x8x64x16xf32>) -> tensor<1x8x64x16xf32>
  func.return %4, %2 : tensor<1x8x64x16xf32>, tensor<1x8x64x64xf32>
}}"""


def chain(axis: int = -1) -> ModuleOp:
    return parse_module(context(), SourceText("chain.mlir", CHAIN.format(axis=axis)))


def program(module: ModuleOp, pieces: int) -> ModuleOp:
    """The program of a module on buffers, in so many pieces."""
    SplitLaunchesPass(pieces=pieces).apply(Context(), module)
    module.verify()
    AssignStreamsPass().apply(Context(), module)
    PlanMemoryPass().apply(Context(), module)
    assert check_schedule(module, TARGET) == []
    assert check_plan(module) == []
    return module


def launches(module: ModuleOp) -> int:
    return sum(isinstance(op, LaunchOp) for op in module.walk())


def figure(module: ModuleOp, name: str) -> int:
    attr = functions(module)["main"].attributes[f"npu_task.{name}"]
    assert isinstance(attr, IntegerAttr)
    return attr.value.data


@pytest.mark.parametrize(
    ("axis", "comes_apart", "pieces"),
    [
        pytest.param(axis, parts, pieces, marks=() if some else pytest.mark.soak)
        for axis, parts in ((-1, 5), (1, 1), (2, 5))
        for pieces in (1, 2, 4, 8)
        for some in (pieces == 4 or (axis, pieces) == (-1, 1),)
    ],
)
def test_numbers_stay(pieces: int, axis: int, comes_apart: int) -> None:
    """The result of the softmax is an output too. Along the heads it is cut nowhere: only the
    product and the sum before it, and the two ops after it, come apart."""
    rng = np.random.default_rng(0)
    shapes = {"q": (1, 8, 64, 16), "k": (1, 8, 16, 64), "v": (1, 8, 64, 16), "m": (64, 64)}
    inputs = {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}
    want = Session(chain(axis)).run(inputs)
    module = chain(axis)
    lower(module, Options(fusion="off"), until="buffers")
    assert launches(module) == 5
    module = program(module, pieces)
    assert launches(module) == (5 * pieces if comes_apart == 5 or pieces == 1 else 4 * pieces + 1)
    found = Session(module, sanitize=False).run(inputs)  # it has no plans of a core's memories
    for name, array in want.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-6)


FUSED = """
func.func @main(%x: tensor<{batch}x8x8x8xf32> {{graph.name = "x"}},
                %k: tensor<{batch}x8x16x8xf32> {{graph.name = "k"}},
                %v: tensor<{batch}x8x16x8xf32> {{graph.name = "v"}},
                %m: tensor<8x16xf32> {{graph.name = "m"}})
    -> (tensor<{batch}x8x8x8xf32> {{graph.name = "y"}}) {{
  %w = graph.constant #graph.weight<"w"> : tensor<8x8x3x3xf32>
  %b = graph.constant #graph.weight<"b"> : tensor<8xf32>
  %u = graph.constant #graph.weight<"u"> : tensor<8x8xf32>
  {body}
  func.return %y : tensor<{batch}x8x8x8xf32>
}}"""
T = "tensor<{batch}x8x8x8xf32>"
BODIES = {
    "conv": f"""
  %0 = graph.conv %x, %w bias %b strides [1, 1] pads [1, 1, 1, 1] dilations [1, 1]
    : ({T}, tensor<8x8x3x3xf32>, tensor<8xf32>) -> {T}
  %1 = graph.relu %0 : ({T}) -> {T}
  %2 = graph.group_norm %1, %b, %b groups 4
    : ({T}, tensor<8xf32>, tensor<8xf32>) -> {T}
  %3 = graph.silu %2 : ({T}) -> {T}
  %4 = graph.conv %3, %w bias %b strides [1, 1] pads [1, 1, 1, 1] dilations [1, 1]
    : ({T}, tensor<8x8x3x3xf32>, tensor<8xf32>) -> {T}
  %y = graph.add %4, %x : ({T}, {T}) -> {T}""",
    "attention": f"""
  %0 = graph.matmul %x, %u : ({T}, tensor<8x8xf32>) -> {T}
  %1 = graph.attention %0, %k, %v mask %m
    : ({T}, tensor<{{batch}}x8x16x8xf32>, tensor<{{batch}}x8x16x8xf32>,
      tensor<8x16xf32>) -> {T}
  %2 = graph.matmul %1, %u : ({T}, tensor<8x8xf32>) -> {T}
  %3 = graph.gelu %2 : ({T}) -> {T}
  %y = graph.softmax %3 : ({T}) -> {T}""",
}


@pytest.mark.parametrize(
    ("batch", "pieces"),
    [
        (4, 4),
        (1, 8),
        *(pytest.param(*case, marks=pytest.mark.soak) for case in ((4, 2), (1, 1), (1, 2))),
    ],
)
@pytest.mark.parametrize("body", BODIES)
def test_fused_launches_come_apart(body: str, batch: int, pieces: int) -> None:
    """By batch; attention of one batch by heads. A convolution of one batch comes apart by output
    channels, of which the norm needs all."""
    text = FUSED.format(batch=batch, body=BODIES[body].format(batch=batch))
    module = parse_module(context(), SourceText("fused.mlir", text))
    whole = module.clone()
    rng = np.random.default_rng(0)
    drawn = {"w": (8, 8, 3, 3), "b": (8,), "u": (8, 8)}
    payload = {n: rng.standard_normal(s).astype(np.float32) for n, s in drawn.items()}
    shapes = {"x": (batch, 8, 8, 8), "k": (batch, 8, 16, 8), "v": (batch, 8, 16, 8), "m": (8, 16)}
    inputs = {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}
    lower(module, Options(target="910_merged"), until="buffers")
    before = launches(module)
    assert any(isinstance(op, FusedOp) for op in module.walk())
    module = program(module, pieces)
    comes_apart = body == "attention" or batch > 1
    assert launches(module) == before * (pieces if comes_apart else 1)
    want = Session(whole, payload).run(inputs)
    found = Session(module, payload, sanitize=False).run(inputs)
    np.testing.assert_allclose(found["y"], want["y"], rtol=1e-4, atol=1e-5)


def test_parts_do_not_compute_the_same_twice() -> None:
    """Each part of the sum would need all of the exponentials."""
    text = """
func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = fused_op.region(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%1: tensor<4x4xf32>):
    %2 = graph.exp %1 : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %3 = graph.OTHER
    fused_op.yield %3 : tensor<4x4xf32>
  }
  func.return %0 : tensor<4x4xf32>
}"""
    t = "tensor<4x4xf32>"
    for other, axes in (
        (f"matmul %1, %2 : ({t}, {t}) -> {t}", [None, None]),
        (f"add %1, %2 : ({t}, {t}) -> {t}", [(0,), (1,)]),
        (f"softmax %2 : ({t}) -> {t}", [(0,), None]),
        (f"transpose %2 permutation [1, 0] : ({t}) -> {t}", [(1,), (0,)]),
    ):
        module = parse_module(context(), SourceText("x.mlir", text.replace("OTHER", other)))
        (op,) = (op for op in module.walk() if isinstance(op, FusedOp))
        assert [op.split_axes(0), op.split_axes(1)] == axes


LARGE = """
func.func @main(%x: tensor<4096x4096xf16> {graph.name = "x"})
    -> (tensor<4096x4096xf16> {graph.name = "y"}) {
  %w = graph.constant #graph.weight<"w"> : tensor<4096x4096xf16>
  %v = graph.constant #graph.weight<"v"> : tensor<4096x4096xf16>
  %0 = graph.matmul %x, %w
    : (tensor<4096x4096xf16>, tensor<4096x4096xf16>) -> tensor<4096x4096xf16>
  %1 = graph.erf %0 : (tensor<4096x4096xf16>) -> tensor<4096x4096xf16>
  %2 = graph.sin %1 : (tensor<4096x4096xf16>) -> tensor<4096x4096xf16>
  %3 = graph.matmul %2, %v
    : (tensor<4096x4096xf16>, tensor<4096x4096xf16>) -> tensor<4096x4096xf16>
  %4 = graph.erf %3 : (tensor<4096x4096xf16>) -> tensor<4096x4096xf16>
  func.return %4 : tensor<4096x4096xf16>
}"""


def test_pieces_are_faster_and_smaller_where_the_clock_says_so() -> None:
    modules: list[ModuleOp] = []
    for in_pieces in (True, False):
        module = parse_module(context(), SourceText("large.mlir", LARGE))
        kept = ("overwrite-operands",)  # results written over operands take no memory either way
        lower(module, Options(fusion="off", fusion_disable=kept, pieces=in_pieces))
        modules.append(module)
    pieces, whole = modules
    assert launches(pieces) > launches(whole) == 5
    assert simulate(pieces, TARGET).latency_us < simulate(whole, TARGET).latency_us
    assert figure(pieces, "arena_bytes") < figure(whole, "arena_bytes")


def test_the_search_for_pieces_leaves_the_module_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searched: list[ModuleOp] = []
    promising = Splitter.promising

    def spy(splitter: Splitter, func: FuncOp) -> dict[Hashable, int]:
        searched.append(splitter.module)
        return promising(splitter, func)

    monkeypatch.setattr(Splitter, "promising", spy)
    module = chain()
    lower(module, Options(fusion="off"), until="buffers")
    before = str(module)
    SplitLaunchesPass().apply(Context(), module)
    assert str(module) == before
    assert searched


def test_small_launches_stay() -> None:
    module = chain()
    lower(module, Options(fusion="off", pieces=True))
    assert launches(module) == 5


def branches(count: int) -> str:
    """Independent products, each with functions of its result: without pieces, the cube cores work
    on one branch while the vector cores work on another one."""
    t = "tensor<2048x2048xf16>"
    lines = [f'%w = graph.constant #graph.weight<"w"> : {t}']
    for i in range(count):
        lines += [
            f"%p{i} = graph.matmul %x{i}, %w : ({t}, {t}) -> {t}",
            f"%e{i} = graph.erf %p{i} : ({t}) -> {t}",
            f"%y{i} = graph.sin %e{i} : ({t}) -> {t}",
        ]
    args = ", ".join(f"%x{i}: {t}" for i in range(count))
    results = ", ".join(f"%y{i}" for i in range(count))
    types = ", ".join([t] * count)
    body = "\n  ".join(lines)
    return (
        f"func.func @main({args}) -> ({types}) {{\n  {body}\n  func.return {results} : {types}\n}}"
    )


@pytest.mark.parametrize("count", [2, *(pytest.param(n, marks=pytest.mark.soak) for n in (1, 4))])
def test_pieces_never_make_the_whole_program_slower(count: int) -> None:
    found: list[float] = []
    for in_pieces in (True, False):
        module = parse_module(context(), SourceText("branches.mlir", branches(count)))
        lower(module, Options(fusion="off", pieces=in_pieces))
        found.append(simulate(module, TARGET).latency_us)
    assert found[0] <= found[1] * 1.001


def test_what_gains_alone_must_gain_in_the_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Launches this small are slower in pieces, whatever is said of them alone."""
    monkeypatch.setattr(Splitter, "fastest", lambda *_: Choice(0, 5, 4, 1.0))
    module = chain()
    lower(module, Options(fusion="off", pieces=True))
    assert launches(module) == 5


def test_programs_whose_time_is_not_known_stay_whole() -> None:
    text = """
func.func @main(%x: tensor<?x4096xf16>, %z: tensor<4096x4096xf16>) -> tensor<?x4096xf16> {
  %0 = graph.matmul %z, %z
    : (tensor<4096x4096xf16>, tensor<4096x4096xf16>) -> tensor<4096x4096xf16>
  %1 = graph.sin %0 : (tensor<4096x4096xf16>) -> tensor<4096x4096xf16>
  %2 = graph.matmul %x, %1
    : (tensor<?x4096xf16>, tensor<4096x4096xf16>) -> tensor<?x4096xf16>
  func.return %2 : tensor<?x4096xf16>
}"""
    module = parse_module(context(), SourceText("dynamic.mlir", text))
    lower(module, Options(fusion="off", pieces=True))
    assert launches(module) == 3
