"""Attention of integers: exact sums, the same numbers at all levels, and what it costs."""

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerAttr, f16, f32, i8
from xdsl.ir import Attribute, Block

from ge.dialects.fused_op import Body, FlashAttentionOp
from ge.dialects.graph.attention import GRID_VECTOR_COST, KEYS, AttentionOp
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.support.types import element_type, tensor
from ge.dialects.targets.target import Target
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context, lower
from ge.lowering.pipeline.options import Options
from ge.runtime import numbers
from ge.runtime.check.proof import check_program
from ge.runtime.data.arrays import Array, type_of
from ge.runtime.device.session import Session
from ge.runtime.library.asking import estimated_times, launch_us
from ge.transforms.quantization.layers import Layer
from ge.transforms.quantization.schemes import SCHEMES
from ge.transforms.quantization.trials import layer_us

SCALE, VALUE_SCALE = 0.004, 0.03


def codes(*shape: int, seed: int) -> Array:
    return np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)


def op_of(arrays: list[Array], mask: Array | None = None, **params: Any) -> AttentionOp:
    masks = [] if mask is None else [mask]
    block = Block(arg_types=[type_of(a) for a in (*arrays, *masks)])
    if arrays[0].dtype == np.int8:
        params = {"scale": SCALE, "value_scale": VALUE_SCALE} | params
    q, k, v, *rest = block.args
    op = AttentionOp.of(q, k, v, rest, None, None, rounded_weights=True, **params)
    block.add_op(op)
    return op


def by_definition(q: Array, k: Array, v: Array, keep: Array, scale: float) -> Array:
    """[B, H, Q, V] of integers [B, H, tokens, size], with sums in int64."""
    heads = q.shape[1] // k.shape[1]
    k, v = (np.repeat(x, heads, 1).astype(np.int64) for x in (k, v))
    scores = (q.astype(np.int64) @ k.swapaxes(-1, -2)).astype(np.float32) * np.float32(scale)
    scores[~np.broadcast_to(keep, scores.shape)] = -np.inf
    top = np.full((*scores.shape[:3], 1), -np.inf, np.float32)
    total, result = np.zeros_like(top), np.zeros((*scores.shape[:3], v.shape[3]), np.float32)
    for start in range(0, k.shape[2], KEYS):
        part = scores[..., start : start + KEYS]
        new = np.maximum(top, part.max(-1, keepdims=True))
        safe = np.where(new == -np.inf, 0, new)
        weights = np.rint(255 * np.exp(part - safe))
        sums = weights.astype(np.int64) @ v[:, :, start : start + KEYS]
        factor = np.exp(top - safe)
        total = weights.sum(-1, keepdims=True) + total * factor
        result, top = sums.astype(np.float32) + result * factor, new
    return result / np.where(total == 0, 1, total) * np.float32(VALUE_SCALE)


@pytest.mark.parametrize(("queries", "keys", "size"), [(5, 7, 16), (40, 600, 32), (3, 1300, 8)])
def test_integers_by_definition(queries: int, keys: int, size: int) -> None:
    q, k = codes(2, 4, queries, size, seed=0), codes(2, 2, keys, size, seed=1)
    v = codes(2, 2, keys, 12, seed=2)
    keep = np.random.default_rng(3).random((2, 1, queries, keys)) < 0.7
    keep[:, :, queries // 2] = False
    op = op_of([q, k, v], keep, causal=True, offset=keys // 2)
    (got,) = numbers.evaluate(op, [q, k, v, keep])
    fused = FlashAttentionOp.wrap([op], op.results)
    (again,) = numbers.evaluate(fused.members[0], [q, k, v, keep])
    assert got.tobytes() == again.tobytes()
    allowed = keep & (np.arange(keys) <= np.arange(queries)[:, None] + keys // 2)
    np.testing.assert_allclose(got, by_definition(q, k, v, allowed, SCALE), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("size", [16, 1024, 2000])
def test_the_largest_sums_are_exact(size: int) -> None:
    """One key has a score that is larger by one step of the sums."""
    k = np.full((1, 1, KEYS, size), -128, np.int8)
    k[0, 0, 5, 0] = -127
    q = np.full((1, 1, 1, size), -128, np.int8)
    v = np.full((1, 1, KEYS, 2), -128, np.int8)
    v[0, 0, 5] = 127
    (got,) = numbers.evaluate(op_of([q, k, v], scale=-1.0), [q, k, v])
    np.testing.assert_array_equal(got.ravel(), np.full(2, 127 * np.float32(VALUE_SCALE)))
    (got,) = numbers.evaluate(op_of([q, k, v], scale=0.0), [q, k, v])
    sums = np.float32(255 * (127 - 128 * (KEYS - 1))) / np.float32(255 * KEYS)
    np.testing.assert_array_equal(got.ravel(), np.full(2, sums * np.float32(VALUE_SCALE)))


def test_rounded_weights_are_close_to_softmax() -> None:
    rng = np.random.default_rng(0)
    arrays: list[Array] = [rng.standard_normal((2, 4, 50, 16)).astype(np.float32) for _ in "qkv"]
    rounded = op_of(arrays)
    plain = AttentionOp.of(*Block(arg_types=[type_of(a) for a in arrays]).args, [], None, None)
    (got,), (want,) = (numbers.evaluate(op, arrays) for op in (rounded, plain))
    noise = np.square(got - want).sum() / np.square(want).sum()
    assert -55 < 10 * np.log10(noise) < -45


GRIDS = """
func.func @main(%q: tensor<2x4x40x16xf32> {{graph.name = "q"}}, %k: tensor<2x4x{keys}x16xf32> {{graph.name = "k"}}, %m: tensor<40x{keys}xf32> {{graph.name = "m"}}) -> (tensor<2x4x40x16xf32> {{graph.name = "y"}}) {{
  %s = graph.constant dense<0.04> : tensor<f32>
  %p = graph.constant dense<0.0035> : tensor<f32>
  %z = graph.constant dense<5> : tensor<i8>
  %n = graph.constant dense<-128> : tensor<i8>
  %zero = graph.constant dense<0.0> : tensor<f32>
  %0 = graph.matmul %q, %k transpose_rhs true : (tensor<2x4x40x16xf32>, tensor<2x4x{keys}x16xf32>) -> tensor<2x4x40x{keys}xf32>
  %1 = graph.quantize %0, %s, %z to i8 : (tensor<2x4x40x{keys}xf32>, tensor<f32>, tensor<i8>) -> tensor<2x4x40x{keys}xi8>
  %2 = graph.dequantize %1, %s, %z : (tensor<2x4x40x{keys}xi8>, tensor<f32>, tensor<i8>) -> tensor<2x4x40x{keys}xf32>
  %3 = graph.add %2, %m : (tensor<2x4x40x{keys}xf32>, tensor<40x{keys}xf32>) -> tensor<2x4x40x{keys}xf32>
  %4 = graph.softmax %3 : (tensor<2x4x40x{keys}xf32>) -> tensor<2x4x40x{keys}xf32>
  %5 = graph.is_nan %4 : (tensor<2x4x40x{keys}xf32>) -> tensor<2x4x40x{keys}xi1>
  %6 = graph.select %5, %zero, %4 : (tensor<2x4x40x{keys}xi1>, tensor<f32>, tensor<2x4x40x{keys}xf32>) -> tensor<2x4x40x{keys}xf32>
  %7 = graph.quantize %6, %p, %n to i8 : (tensor<2x4x40x{keys}xf32>, tensor<f32>, tensor<i8>) -> tensor<2x4x40x{keys}xi8>
  %8 = graph.dequantize %7, %p, %n : (tensor<2x4x40x{keys}xi8>, tensor<f32>, tensor<i8>) -> tensor<2x4x40x{keys}xf32>
  %9 = graph.matmul %8, %k : (tensor<2x4x40x{keys}xf32>, tensor<2x4x{keys}x16xf32>) -> tensor<2x4x40x16xf32>
  func.return %9 : tensor<2x4x40x16xf32>
}}
"""  # noqa: E501


@pytest.mark.parametrize("keys", [pytest.param(40, marks=pytest.mark.soak), 500])
def test_grids_of_scores_and_weights(keys: int) -> None:
    """One launch with the numbers of the ops one by one, whose tiles have whole rows."""
    rng = np.random.default_rng(0)
    inputs = {
        name: rng.standard_normal(shape).astype(np.float32)
        for name, shape in (("q", (2, 4, 40, 16)), ("k", (2, 4, keys, 16)), ("m", (40, keys)))
    }
    inputs["m"][3] = -np.inf
    results: list[Array] = []
    for options in (Options(fusion="off"), Options(), Options(target="310p3")):
        module = parse_module(context(), SourceText("text", GRIDS.format(keys=keys)))
        lower(module, options)
        assert check_program(module).problems == []
        found = [op for op in module.walk() if isinstance(op, AttentionOp)]
        assert len(found) == (options.fusion != "off")
        results.append(Session(module).run(inputs)["y"])
        for kernel in module.walk():
            if found and isinstance(kernel, KernelOp) and kernel.tiling is not None:
                assert kernel.tiling.sizes[1] >= keys
    assert len({r.tobytes() for r in results}) == 1


def test_grids_cost_the_vector_unit() -> None:
    t = tensor((1, 8, 256, 64), f32)
    args = Block(arg_types=[t, t, t]).args
    grid = {"score_scale": 0.1, "score_zero_point": IntegerAttr(0, i8)}
    plain, rounded = (AttentionOp.of(*args, [], None, None, **p) for p in ({}, grid))
    more = rounded.static_work().vector - plain.static_work().vector
    assert more == GRID_VECTOR_COST * 8 * 256 * 256


TEXT = """
func.func @main(%x: tensor<1x{tokens}x64xf32> {{graph.name = "x"}}) -> (tensor<1x{tokens}x64xf32> {{graph.name = "y"}}) {{
  %s = graph.constant dense<0.03> : tensor<f32>
  %t = graph.constant dense<0.02> : tensor<f32>
  %z = graph.constant dense<3> : tensor<i8>
  %w = graph.constant #graph.weight<"w"> : tensor<64x128xi8>
  %c = graph.constant dense<0.01> : tensor<128xf32>
  %0 = graph.quantize %x, %s, %z to i8 : (tensor<1x{tokens}x64xf32>, tensor<f32>, tensor<i8>) -> tensor<1x{tokens}x64xi8>
  %1 = graph.dequantize %0, %s, %z : (tensor<1x{tokens}x64xi8>, tensor<f32>, tensor<i8>) -> tensor<1x{tokens}x64xf32>
  %2 = graph.dequantize %w, %c axis 1 : (tensor<64x128xi8>, tensor<128xf32>) -> tensor<64x128xf32>
  %3 = graph.matmul %1, %2 : (tensor<1x{tokens}x64xf32>, tensor<64x128xf32>) -> tensor<1x{tokens}x128xf32>
  %4, %5, %6 = graph.split %3 sizes [64, 32, 32] axis 2 : (tensor<1x{tokens}x128xf32>) -> (tensor<1x{tokens}x64xf32>, tensor<1x{tokens}x32xf32>, tensor<1x{tokens}x32xf32>)
  %7 = graph.reshape %4 shape [1, {tokens}, 4, 16] : (tensor<1x{tokens}x64xf32>) -> tensor<1x{tokens}x4x16xf32>
  %8 = graph.reshape %5 shape [1, {tokens}, 2, 16] : (tensor<1x{tokens}x32xf32>) -> tensor<1x{tokens}x2x16xf32>
  %9 = graph.reshape %6 shape [1, {tokens}, 2, 16] : (tensor<1x{tokens}x32xf32>) -> tensor<1x{tokens}x2x16xf32>
  %10 = graph.quantize %7, %s to i8 : (tensor<1x{tokens}x4x16xf32>, tensor<f32>) -> tensor<1x{tokens}x4x16xi8>
  %11 = graph.quantize %8, %t to i8 : (tensor<1x{tokens}x2x16xf32>, tensor<f32>) -> tensor<1x{tokens}x2x16xi8>
  %12 = graph.quantize %9, %s to i8 : (tensor<1x{tokens}x2x16xf32>, tensor<f32>) -> tensor<1x{tokens}x2x16xi8>
  %13 = graph.dequantize %10, %s : (tensor<1x{tokens}x4x16xi8>, tensor<f32>) -> tensor<1x{tokens}x4x16xf32>
  %14 = graph.dequantize %11, %t : (tensor<1x{tokens}x2x16xi8>, tensor<f32>) -> tensor<1x{tokens}x2x16xf32>
  %15 = graph.dequantize %12, %s : (tensor<1x{tokens}x2x16xi8>, tensor<f32>) -> tensor<1x{tokens}x2x16xf32>
  %16 = graph.attention %13, %14, %15 value_tokens_first true result_tokens_first true rounded_weights true causal true query_tokens_first true key_tokens_first true : (tensor<1x{tokens}x4x16xf32>, tensor<1x{tokens}x2x16xf32>, tensor<1x{tokens}x2x16xf32>) -> tensor<1x{tokens}x4x16xf32>
  %17 = graph.reshape %16 shape [1, {tokens}, 64] : (tensor<1x{tokens}x4x16xf32>) -> tensor<1x{tokens}x64xf32>
  func.return %17 : tensor<1x{tokens}x64xf32>
}}
"""  # noqa: E501


@pytest.mark.parametrize("tokens", [pytest.param(50, marks=pytest.mark.soak), 700])
def test_the_same_at_all_levels(tokens: int) -> None:
    payload = {"w": codes(64, 128, seed=4)}
    x = np.random.default_rng(5).standard_normal((1, tokens, 64)).astype(np.float32)
    want = None
    for level, options in (
        ("graph", Options()), ("program", Options()), ("program", Options(pieces=True)),
        ("program", Options(target="310p3")), ("program", Options(memory=3)),
    ):  # fmt: skip
        module = parse_module(context(), SourceText("text", TEXT.format(tokens=tokens)))
        lower(module, options, payload=payload, until=level)
        launches = [op for op in module.walk() if isinstance(op, AttentionOp)]
        assert [element_type(op.query) for op in launches] == [i8]
        assert level == "graph" or check_program(module).problems == []
        got = Session(module, payload).run({"x": x})["y"]
        want = got if want is None else want
        assert got.tobytes() == want.tobytes(), (level, options)


def test_integers_on_the_cube_and_on_the_vector_unit() -> None:
    """Products have the rate of i8; the vector unit turns sums into floats and weights into
    integers."""
    target = Target.load("910_merged")

    def op(element: Attribute) -> AttentionOp:
        t = tensor((1, 8, 1024, 64), element)
        params: dict[str, Any] = {"rounded_weights": True, "scale": 1.0, "value_scale": 1.0}
        args = Block(arg_types=[t, t, t]).args
        return AttentionOp.of(*args, [], None, None, **(params if element == i8 else {}))

    ops = integers, halves, floats = [op(element) for element in (i8, f16, f32)]
    cube, vector = zip(*(busy_us(o, target) for o in ops), strict=True)
    assert cube[0] < cube[1] < cube[2]
    assert vector[0] > vector[1]
    times = [launch_us(o, target) for o in (halves, integers, floats)]
    assert times == sorted(times, key=lambda t: t or 0)


def busy_us(op: AttentionOp, target: Target) -> tuple[float, float]:
    """How long the cube and the vector unit of a core compute."""
    times = estimated_times(Body.of(op), target)
    assert times is not None
    time = times.time((0.0, 0.0, 0.0))
    return time.cube_us, time.vector_us


def test_precisions_of_attention_have_times() -> None:
    """16 bits are floats."""
    target = Target.load("910_merged")
    t = tensor((1, 8, 1024, 64), f32)
    op = AttentionOp.of(*Block(arg_types=[t, t, t]).args, [], None, None)
    int8, int16, none = (
        layer_us(Layer(op, "a", (0, 1, 2), None), scheme, target)
        for scheme in (SCHEMES["int8"], SCHEMES["int16"], None)
    )
    assert int8 < int16 == none == launch_us(op, target)


def test_a_layer_has_no_other_users_when_its_time_is_known() -> None:
    """Rewriting visits the users of a value, and one that is in no block is an error."""
    block = Block(arg_types=[tensor((1, 64, 64), f32), tensor((64, 64), f32)])
    block.add_op(op := MatmulOp.of(*block.args))
    for scheme in (SCHEMES["int8"], SCHEMES["w8a16"], None):
        layer_us(Layer(op, "a", (0,), 1), scheme, Target.load("910b2"))
        assert [use.operation for arg in block.args for use in arg.uses] == [op, op]
