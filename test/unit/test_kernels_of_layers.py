"""Kernels of quantization, normalizations, attention and recurrent layers against their formulas,
in the cases that ONNX's node tests leave out."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pytest
from xdsl.dialects import test
from xdsl.dialects.builtin import ArrayAttr, i8

from ge.dialects.graph import attention as a
from ge.dialects.graph import normalization as n
from ge.dialects.graph import quantization as q
from ge.dialects.graph import recurrent as r
from ge.dialects.support.element_types import ui8
from ge.dialects.support.tensor_op import TensorOp
from ge.runtime import numbers
from ge.runtime.data.arrays import BFLOAT16, Array, dtype_of, type_of

INF = np.inf


def make(op: type[TensorOp], *arrays: Any, **params: Any) -> TensorOp:
    """The op on operands of the arrays' types; None stands for an absent one, a list for a
    variadic one."""
    source = test.TestOp(result_types=[type_of(x) for x in flat(arrays)])
    values = iter(source.results)

    def operand(x: Any) -> Any:
        if isinstance(x, list):
            return [next(values) for _ in cast(list[Array], x)]
        return None if x is None else next(values)

    return op.of(*(operand(x) for x in arrays), **params)


def flat(arrays: Sequence[Any]) -> list[Array]:
    """The arrays, those of lists one by one, without absent ones."""
    found: list[Array] = []
    for x in arrays:
        found.extend(cast(list[Array], x) if isinstance(x, list) else [] if x is None else [x])
    return found


def run(op: type[TensorOp], *arrays: Any, **params: Any) -> Any:
    built = make(op, *arrays, **params)
    results = numbers.evaluate(built, flat(arrays))
    for array, value in zip(results, built.results, strict=True):
        assert type_of(array) == value.type
    return results[0] if len(results) == 1 else results


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


# ---- quantization ------------------------------------------------------------------------------


def test_quantize_rounds_half_to_even_and_saturates() -> None:
    x = np.array([-1e9, -2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 1e9, -INF, INF], np.float32)
    one = np.asarray(1, np.float32)
    got = run(q.QuantizeOp, x, one, None, to=i8)
    assert got.tolist() == [-128, -2, -2, 0, 0, 2, 2, 127, -128, 127]
    got = run(q.QuantizeOp, x, one, np.asarray(2, np.uint8), to=ui8)
    assert got.tolist() == [0, 0, 0, 2, 2, 4, 4, 255, 0, 255]


def test_blocks_may_be_cut_short() -> None:
    x = np.arange(5, dtype=np.int8)
    scale = np.array([1, 10, 100], np.float32)
    got = run(q.DequantizeOp, x, scale, np.array([0, 1, 2], np.int8), axis=0, block_size=2)
    assert got.tolist() == [0, 1, 10, 20, 200]


def test_wide_integers_keep_their_difference() -> None:
    x = np.array([2**30 + 1], np.int32)
    got = run(q.DequantizeOp, x, np.ones(1, np.float32), np.array([2**30], np.int32))
    assert got.tolist() == [1]


def test_dynamic_quantize_takes_a_scalar():
    y, scale, zero_point = run(q.DynamicQuantizeOp, np.array(2.0, np.float32))
    assert (y.item(), zero_point.item()) == (255, 0)
    assert scale.item() == np.float32(2 / 255)


@pytest.mark.parametrize("values", [[0, 0], [1, 3], [-4, -1], [-1, 3]])
def test_dynamic_quantization_has_zero_in_its_range(values: list[float]) -> None:
    x = np.array(values, np.float32)
    y, scale, zero_point = run(q.DynamicQuantizeOp, x)
    assert np.abs((y.astype(np.float32) - zero_point) * scale - x).max() <= scale


# ---- softmax and normalizations ----------------------------------------------------------------


def test_softmax_of_infinities() -> None:
    x = np.array([[-INF, -INF], [-INF, 0], [INF, 0]], np.float32)
    got = run(n.SoftmaxOp, x)
    assert np.isnan(got[0]).all()
    assert got[1].tolist() == [0, 1]
    assert np.isnan(got[2, 0])


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, BFLOAT16])
def test_softmax_along_any_axis(axis: int, dtype: Any) -> None:
    x = normal(3, 4, 5).astype(dtype)
    e = np.exp(x.astype(np.float64))
    want = e / e.sum(axis, keepdims=True)
    tolerance = {8: 1e-12, 4: 1e-6}.get(np.dtype(dtype).itemsize, 1e-2)
    got = run(n.SoftmaxOp, x, axis=axis)
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=tolerance)
    logarithm = run(n.LogSoftmaxOp, x, axis=axis).astype(np.float64)
    np.testing.assert_allclose(logarithm, np.log(want), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_softmax_leaves_its_input_alone(axis: int) -> None:
    x = normal(4, 1, 1)
    before = x.copy()
    run(n.SoftmaxOp, x, axis=axis)
    assert (x == before).all()


def test_flattened_softmax_in_many_blocks() -> None:
    x = normal(300, 10, 100)
    got = run(n.SoftmaxOp, x, axis=1, flatten=True)
    np.testing.assert_allclose(got.sum((1, 2)), 1, rtol=1e-5)
    assert (run(n.HardmaxOp, x, axis=1, flatten=True).sum((1, 2)) == 1).all()


@pytest.mark.parametrize("op", [n.SoftmaxOp, n.HardmaxOp, n.LogSoftmaxOp])
def test_empty_rows(op: type[TensorOp]) -> None:
    assert run(op, np.zeros((2, 0), np.float32)).shape == (2, 0)


def test_attention_over_vectors_of_nothing() -> None:
    """All scores are 0: the weights are equal."""
    q, k, v = np.zeros((1, 2, 3, 0)), np.zeros((1, 2, 4, 0)), np.arange(40.0).reshape(1, 2, 4, 5)
    got = run(a.AttentionOp, q, k, v, [], None, None)
    np.testing.assert_allclose(got, np.broadcast_to(v.mean(2, keepdims=True), got.shape))


@pytest.mark.parametrize(("op", "gates"), [(r.RnnOp, 1), (r.GruOp, 3), (r.LstmOp, 4)])
def test_no_sequences(op: type[TensorOp], gates: int) -> None:
    shapes = (3, 0, 2), (1, 4 * gates, 2), (1, 4 * gates, 4)
    optional = [None] * (3 if op is not r.LstmOp else 5)
    got = run(op, *(np.zeros(s, np.float32) for s in shapes), *optional)
    assert got[0].shape == (3, 1, 0, 4)


def test_results_go_where_they_are_asked_for() -> None:
    x, scale = normal(2, 6, 5), np.ones(6, np.float32)
    ops = [make(n.SoftmaxOp, x), make(n.LayerNormOp, x, normal(5), None)]
    ops += [make(n.GroupNormOp, x, scale, scale, groups=2)]
    ops += [make(n.BatchNormOp, x, *[scale] * 4)]
    rest = [(), (normal(5),), (scale, scale), (scale,) * 4]
    for op, others in zip(ops, rest, strict=True):
        fn = numbers.prepare(op)
        want = fn(x, *others)
        strided = np.empty((2, 6, 10), np.float32)[:, :, ::2]
        for out in (np.empty_like(x), strided):
            assert fn(x, *others, out=out) is out
            np.testing.assert_array_equal(out, want)
        in_place = x.copy()
        assert fn(in_place, *others, out=in_place) is in_place
        np.testing.assert_array_equal(in_place, want)


def test_group_norm_of_one_group_of_channels() -> None:
    x, scale, bias = normal(2, 6, 3, 4), normal(6, seed=1), normal(6, seed=2)
    groups = x.reshape(2, 3, -1)
    want = (groups - groups.mean(-1, keepdims=True)) / np.sqrt(groups.var(-1, keepdims=True) + 1e-5)
    want = want.reshape(x.shape) * scale[:, None, None] + bias[:, None, None]
    got = run(n.GroupNormOp, x, scale, bias, groups=3)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


# ---- attention ---------------------------------------------------------------------------------


def plain_attention(query: Array, key: Array, value: Array, allowed: Array) -> Array:
    """The formula, in float64, for heads that have a key head each."""
    s = query.astype(np.float64) @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1])
    e = np.where(allowed, np.exp(s - s.max(-1, keepdims=True)), 0)
    total = e.sum(-1, keepdims=True)
    return e / np.where(total == 0, 1, total) @ value


@pytest.mark.parametrize(
    ("batch", "heads", "queries", "keys"), [(3, 4, 7, 300), (2, 2, 600, 700), (5, 8, 3, 2000)]
)
def test_attention_in_pieces(batch: int, heads: int, queries: int, keys: int) -> None:
    query = normal(batch, heads, queries, 8)
    key, value = normal(batch, heads, keys, 8, seed=1), normal(batch, heads, keys, 6, seed=2)
    mask = np.random.default_rng(3).random((batch, 1, queries, keys)) < 0.7
    position = np.arange(queries)[:, None] + 2
    allowed = mask & (np.arange(keys) <= position)
    got = run(a.AttentionOp, query, key, value, [mask], None, None, causal=True, offset=2)
    want = plain_attention(query, key, value, allowed)
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-5)


def test_each_key_head_serves_its_group() -> None:
    query, key, value = normal(2, 6, 5, 8), normal(2, 2, 9, 8, seed=1), normal(2, 2, 9, 8, seed=2)
    mask = np.random.default_rng(3).random((2, 6, 5, 9)) < 0.5
    got = run(a.AttentionOp, query, key, value, [mask], None, None)
    spread = np.repeat(key, 3, 1), np.repeat(value, 3, 1)
    np.testing.assert_allclose(got, plain_attention(query, *spread, mask), rtol=1e-4, atol=1e-6)


def test_lengths_offset_and_windows() -> None:
    query, key, value = normal(2, 1, 4, 8), normal(2, 1, 9, 8, seed=1), normal(2, 1, 9, 8, seed=2)
    lengths, j = np.array([9, 3]), np.arange(9)
    position = (lengths - 4)[:, None, None, None] + np.arange(4)[:, None]
    allowed = (j <= position) & (j >= position - 2) & (j < lengths[:, None, None, None])
    got = run(a.AttentionOp, query, key, value, [], lengths, None, causal=True, left_window=2)
    np.testing.assert_allclose(got, plain_attention(query, key, value, allowed), atol=1e-5)
    assert (got[1, 0, 0] == 0).all()  # position -1: no key takes part
    position = np.arange(4)[:, None] + 3
    allowed = (j <= position + 1) & (j >= position - 2)
    offset = np.array([3])
    windows = {"left_window": 2, "right_window": 1}
    got = run(a.AttentionOp, query, key, value, [], None, offset, **windows)
    np.testing.assert_allclose(got, plain_attention(query, key, value, allowed), atol=1e-5)


def test_scores_at_each_stage() -> None:
    query, key, value = normal(1, 2, 3, 4), normal(1, 2, 5, 4, seed=1), normal(1, 2, 5, 4, seed=2)
    bias = normal(3, 5, seed=4)
    bias[0] = -INF

    def scores(stage: str) -> Array:
        operands = (query, key, [bias], None, None)
        return run(a.AttentionScoresOp, *operands, stage=stage, softcap=2.0, scale=1.0)

    raw = query @ key.swapaxes(-1, -2)
    np.testing.assert_allclose(scores("raw"), raw, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(scores("capped"), 2 * np.tanh(raw / 2), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(scores("biased"), scores("capped") + bias, rtol=1e-6)
    assert (scores("weights")[:, :, 0] == 0).all()
    np.testing.assert_allclose(scores("weights")[:, :, 1:].sum(-1), 1, rtol=1e-5)
    got = run(a.AttentionOp, query, key, value, [bias], None, None, softcap=2.0, scale=1.0)
    np.testing.assert_allclose(got, scores("weights") @ value, rtol=1e-4, atol=1e-6)


def test_half_precision_attention_does_not_overflow() -> None:
    query = np.full((1, 1, 2, 64), 100, np.float16)
    got = run(a.AttentionOp, query, query, query, [], None, None)
    assert (got == 100).all()


def test_where_softmax_is_undefined() -> None:
    query, key, value = normal(1, 1, 3, 4), normal(1, 1, 5, 4, seed=1), normal(1, 1, 5, 4, seed=2)
    mask = np.zeros((3, 5), np.float32)
    mask[0] = -INF
    mask[1, 2] = np.nan
    for undefined, first, second in (
        ("zero", 0, np.nan),
        ("nan",) + (np.nan,) * 2,
        ("guard", 0, 0),
    ):
        got = run(a.AttentionOp, query, key, value, [mask], None, None, undefined=undefined)[0, 0]
        np.testing.assert_array_equal(got[:2], np.full((2, 4), [[first], [second]]))
        assert np.isfinite(got[2]).all()


def test_masks_in_their_order() -> None:
    query, key, value = normal(1, 2, 3, 4), normal(1, 2, 5, 4, seed=1), normal(1, 2, 5, 4, seed=2)
    bias, allowed = normal(2, 3, 5, seed=3), np.random.default_rng(4).random((3, 5)) < 0.5
    allowed[0] = False  # a row of equal scores
    s = query @ key.swapaxes(-1, -2)

    def weights(*masks: Array) -> Array:
        operands = (query, key, list(masks), None, None)
        return run(a.AttentionScoresOp, *operands, stage="weights", scale=1.0, fill=-1e4)

    def softmax(x: Array) -> Array:
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    want = softmax(np.where(allowed, s + bias, np.float32(-1e4)))
    np.testing.assert_allclose(weights(bias, allowed), want, rtol=1e-4, atol=1e-6)
    want = softmax(np.where(allowed, s, np.float32(-1e4)) + bias)
    np.testing.assert_allclose(weights(allowed, bias), want, rtol=1e-4, atol=1e-6)
    got = run(a.AttentionOp, query, key, value, [bias, allowed], None, None, scale=1.0, fill=-1e4)
    np.testing.assert_allclose(got, weights(bias, allowed) @ value, rtol=1e-4, atol=1e-6)


def test_a_mask_of_the_lowest_half_swallows_the_scores() -> None:
    query, key = (
        normal(1, 1, 2, 8).astype(np.float16),
        normal(1, 1, 5, 8, seed=1).astype(np.float16),
    )
    mask = np.zeros((2, 5), np.float16)
    mask[0] = np.finfo(np.float16).min
    got = run(a.AttentionScoresOp, query, key, [mask], None, None, stage="weights")
    assert (got[0, 0, 0] == np.float16(0.2)).all()
    assert len(set(got[0, 0, 1].tolist())) > 1


@pytest.mark.parametrize("flags", range(16))
def test_heads_or_tokens_first(flags: int) -> None:
    query, key, value = normal(2, 6, 5, 8), normal(2, 2, 9, 8, seed=1), normal(2, 2, 9, 7, seed=2)
    mask = normal(6, 5, 9, seed=3)
    want = run(a.AttentionOp, query, key, value, [mask], None, None)
    names = ("query", "key", "value", "result")
    first = {f"{name}_tokens_first": bool(flags >> i & 1) for i, name in enumerate(names)}
    swapped = [
        np.ascontiguousarray(x.swapaxes(1, 2)) if first[f"{name}_tokens_first"] else x
        for name, x in zip(names, (query, key, value), strict=False)
    ]
    got = run(a.AttentionOp, *swapped, [mask], None, None, **first)
    got = got.swapaxes(1, 2) if first["result_tokens_first"] else got
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary_embedding_with_full_tables(interleaved: bool) -> None:
    x, cos, sin = normal(2, 3, 5, 8), normal(5, 6, seed=1), normal(5, 6, seed=2)
    got = run(a.RotaryEmbeddingOp, x, cos, sin, interleaved=interleaved, full_tables=True)
    turned = np.empty((2, 3, 5, 6), np.float32)
    if interleaved:
        turned[..., ::2], turned[..., 1::2] = -x[..., 1:6:2], x[..., :6:2]
    else:
        turned[..., :3], turned[..., 3:] = -x[..., 3:6], x[..., :3]
    np.testing.assert_allclose(got[..., :6], x[..., :6] * cos + turned * sin, rtol=1e-5, atol=1e-6)
    assert (got[..., 6:] == x[..., 6:]).all()


# ---- recurrent layers --------------------------------------------------------------------------


def sequences(directions: int, gates: int) -> list[Array]:
    """Input [5, 3, 4], weights, recurrence and bias of hidden size 6."""
    shapes = [(5, 3, 4), (directions, gates * 6, 4), (directions, gates * 6, 6)]
    shapes.append((directions, 2 * gates * 6))
    return [normal(*s, seed=i) for i, s in enumerate(shapes)]


@pytest.mark.parametrize(("op", "gates"), [(r.RnnOp, 1), (r.GruOp, 3), (r.LstmOp, 4)])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_a_short_sequence_is_as_if_alone(op: Any, gates: int, direction: str) -> None:
    operands = sequences(2 if direction == "bidirectional" else 1, gates)
    lengths = np.array([5, 2, 4], np.int32)
    more = [None] * (3 if op is r.LstmOp else 1)
    states, *last = run(op, *operands, lengths, *more, direction=direction)
    for b, length in enumerate(lengths):
        alone = [operands[0][:length, b : b + 1], *operands[1:]]
        states_alone, *last_alone = run(op, *alone, None, *more, direction=direction)
        np.testing.assert_allclose(states[:length, :, b : b + 1], states_alone, atol=1e-5)
        assert (states[length:, :, b] == 0).all()
        for x, y in zip(last, last_alone, strict=True):
            np.testing.assert_allclose(x[:, b : b + 1], y, atol=1e-5)


def test_half_precision_keeps_its_state_in_single() -> None:
    operands = [x.astype(np.float16) for x in sequences(1, 4)]
    half = run(r.LstmOp, *operands, None, None, None, None)
    single = run(r.LstmOp, *(x.astype(np.float32) for x in operands), None, None, None, None)
    for x, y in zip(half, single, strict=True):
        assert x.dtype == np.float16
        np.testing.assert_array_equal(x, y.astype(np.float16))


def test_each_activation_by_its_formula() -> None:
    x = np.linspace(-3, 3, 7, dtype=np.float32)
    alpha, beta = 0.5, 0.25
    formulas: dict[str, Any] = {
        "relu": np.maximum(x, 0), "tanh": np.tanh(x), "sigmoid": 1 / (1 + np.exp(-x)),
        "affine": alpha * x + beta, "leaky_relu": np.where(x < 0, alpha * x, x),
        "thresholded_relu": np.where(x >= alpha, x, 0), "scaled_tanh": alpha * np.tanh(beta * x),
        "hard_sigmoid": np.clip(alpha * x + beta, 0, 1), "softsign": x / (1 + np.abs(x)),
        "elu": np.where(x < 0, alpha * (np.exp(x) - 1), x), "softplus": np.log(1 + np.exp(x)),
    }  # fmt: skip
    assert set(formulas) == set(r.ACTIVATIONS)
    one = np.ones((1, 1, 1), np.float32)
    for name, want in formulas.items():
        params = {
            "activations": ArrayAttr([r.Activation.of(name)]),
            "alphas": [alpha],
            "betas": [beta],
        }
        operands = (x.reshape(1, 7, 1), one, one, None, None, None)
        _, last = run(r.RnnOp, *operands, **params)
        np.testing.assert_allclose(last.reshape(-1), want, rtol=1e-5, atol=1e-6, err_msg=name)


def test_clip_limits_what_goes_into_an_activation() -> None:
    x, one = np.array([[[-9], [9]]], np.float32), np.ones((1, 1, 1), np.float32)
    linear = ArrayAttr([r.Activation.of("affine")])
    params: dict[str, Any] = {"activations": linear, "alphas": [1.0], "betas": [0.0], "clip": 2.0}
    _, last = run(r.RnnOp, x, one, one, None, None, None, **params)
    assert last.reshape(-1).tolist() == [-2, 2]


def test_work_counts_both_products() -> None:
    op = make(r.LstmOp, *sequences(1, 4), None, None, None, None)
    work = op.work()
    assert work is not None
    assert work.macs == 5 * 3 * 4 * 6 * (4 + 6)
    query, key, value = normal(2, 4, 5, 8), normal(2, 2, 6, 8), normal(2, 2, 6, 3)
    work = make(a.AttentionOp, query, key, value, [], None, None).work()
    assert work is not None
    assert work.macs == 2 * 4 * 5 * 6 * (8 + 3)
    assert work.written == 2 * 4 * 5 * 3 * dtype_of(type_of(query).element_type).itemsize
