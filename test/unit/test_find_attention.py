"""Attention in the spellings of exporters: found, and the same numbers, masked rows included."""

import sys
from collections.abc import Callable
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, f16, f32, i1

sys.path.insert(0, str(Path(__file__).parent))
from writing import Expr, Tensor, agree, half, normal, op_names, run, written

from ge.dialects.graph.attention import AttentionOp, RotaryEmbeddingOp
from ge.dialects.graph.indexing import GatherOp
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.shape import BroadcastToOp
from ge.dialects.graph.slicing import ConcatOp, SliceOp, SplitOp
from ge.dialects.support.errors import GeError
from ge.dialects.support.types import DYNAMIC
from ge.lowering.driver.compiler import context
from ge.runtime.data.arrays import Array
from ge.transforms.graph.composites.find_attention import FindAttentionPass
from ge.transforms.rewriting.remarks import collecting as collecting_remarks

Formula = Callable[..., Any]

B, H, Q, S, D = 2, 3, 5, 7, 4
QUERY, KEY = Tensor(B, H, Q, D), Tensor(B, H, S, D)
INF = float("inf")
LOWEST = float(np.finfo(np.float32).min)


def found(module: ModuleOp) -> list[str]:
    FindAttentionPass().apply(context(), module)
    module.verify()
    return op_names(module)


def the_op(module: ModuleOp) -> AttentionOp:
    (op,) = [op for op in module.walk() if isinstance(op, AttentionOp)]
    return op


def inputs(*arguments: Tensor) -> list[Array]:
    arrays: list[Array] = []
    for i, a in enumerate(arguments):
        x = normal(*a.type.get_shape(), seed=i)
        arrays.append(x > 0 if a.type.element_type == i1 else x.astype(np.float32))
    return arrays


def check(formula: Formula, *arguments: Tensor, others: tuple[str, ...] = ()) -> ModuleOp:
    """The formula becomes attention and these other ops, and the numbers stay."""
    before, after = (written(formula, *arguments) for _ in range(2))
    assert sorted(n for n in found(after) if n != "reshape") == sorted(["attention", *others])
    arrays = inputs(*arguments)
    agree(run(before, *arrays), run(after, *arrays), 1e-5)
    return after


def turned(k: Expr) -> Expr:
    return k.transpose(0, 1, 3, 2)


def through_three(k: Expr) -> Expr:
    """[B, H, S, D] -> [B, H, D, S] by a batch of matrices."""
    b, h, s, d = k.shape
    return k.reshape(-1, s, d).transpose(0, 2, 1).reshape(b, h, d, s)


def guard(p: Expr) -> Expr:
    return p.is_nan().where(0.0, p)


def softmax(s: Expr) -> Expr:
    return s.softmax()


SCALES: dict[str, Formula] = {
    "after": lambda q, k: (q @ turned(k)) * 0.5,
    "quotient": lambda q, k: (q @ turned(k)) / sqrt(D),
    "query": lambda q, k: (q * 0.5) @ turned(k),
    "both": lambda q, k: (q * sqrt(0.5)) @ (turned(k) * np.full(1, sqrt(0.5))),
    "before the transpose": lambda q, k: (q * 0.25) @ through_three(k * 2.0),
    "everywhere": lambda q, k: ((q / 2) @ (turned(k * 3.0))) * np.full((1, 1, 1, 1), 1 / 3),
    "none": lambda q, k: q @ turned(k),
}


@pytest.mark.parametrize("text", SCALES)
def test_scales(text: str) -> None:
    module = check(lambda q, k, v: softmax(SCALES[text](q, k)) @ v, QUERY, KEY, KEY)
    scale = the_op(module).scale
    assert scale is not None
    assert scale.value.data == pytest.approx(1.0 if text == "none" else 0.5, rel=1e-6)


MASKS: dict[str, tuple[Formula, Tensor]] = {
    "added": (lambda s, m: s + m, Tensor(B, 1, Q, S)),
    "added from the left": (lambda s, m: m + s, Tensor(Q, S)),
    "added, for heads": (lambda s, m: s + m, Tensor(1, H, Q, S)),
    "from truth": (lambda s, m: s + m.where(s.lift(0.0), LOWEST), Tensor(B, 1, 1, S, element=i1)),
    "from truth, infinite": (lambda s, m: s + m.where(s.lift(0.0), -INF), Tensor(Q, S, element=i1)),
    "where": (lambda s, m: m.where(s, LOWEST), Tensor(Q, S, element=i1)),
    "where, infinite": (lambda s, m: m.where(s, -INF), Tensor(Q, S, element=i1)),
    "where, small": (lambda s, m: m.where(s, -10000.0), Tensor(B, 1, 1, S, element=i1)),
    "masked fill": (lambda s, m: m.where(s.lift(-INF), s), Tensor(B, 1, Q, S, element=i1)),
}


@pytest.mark.parametrize("text", MASKS)
@pytest.mark.parametrize("guarded", [False, True])
def test_masks(text: str, guarded: bool) -> None:
    """Some rows are masked altogether: what is left there depends on mask and guard."""
    mask, argument = MASKS[text]

    def formula(q: Expr, k: Expr, v: Expr, m: Expr) -> Expr:
        p = softmax(mask((q @ turned(k)) * 0.5, m))
        return (guard(p) if guarded else p) @ v

    arguments = QUERY, KEY, KEY, argument
    before, after = (written(formula, *arguments) for _ in range(2))
    names = found(after)
    assert names.count("attention") == 1
    assert not {"softmax", "matmul", "add", "is_nan"} & set(names)
    arrays = inputs(*arguments)
    arrays[3][..., 0, :] = text == "masked fill" if argument.type.element_type == i1 else -INF
    with np.errstate(all="ignore"):
        agree(run(before, *arrays), run(after, *arrays), 1e-5)
    assert the_op(after).undefined.data == ("guard" if guarded else "nan")


def test_two_masks() -> None:
    def where_first(q: Expr, k: Expr, v: Expr, m: Expr, t: Expr) -> Expr:
        return softmax(t.where(q @ turned(k), -1e4) + m) @ v

    def where_last(q: Expr, k: Expr, v: Expr, m: Expr, t: Expr) -> Expr:
        return softmax(t.where(q @ turned(k) * 0.5 + m, -INF)) @ v

    def two_added(q: Expr, k: Expr, v: Expr, m: Expr, t: Expr) -> Expr:
        return softmax(m + (q @ turned(k) + m)) @ v

    arguments = QUERY, KEY, KEY, Tensor(B, 1, Q, S), Tensor(Q, S, element=i1)
    for formula in (where_first, where_last, two_added):
        assert len(the_op(check(formula, *arguments)).masks) == 2


def test_softcap() -> None:
    def formula(q: Expr, k: Expr, v: Expr, m: Expr) -> Expr:
        s = q @ turned(k) * 0.5
        return softmax((s / 5.0).tanh() * 5.0 + m) @ v

    module = check(formula, QUERY, KEY, KEY, Tensor(Q, S))
    assert the_op(module).softcap.value.data == 5.0
    assert the_op(module).scale.value.data == pytest.approx(0.5)


@pytest.mark.parametrize("mask", [False, True])
def test_batches_of_matrices(mask: bool) -> None:
    """Batch and heads are one dimension; masks are added where they are two."""

    def formula(q: Expr, k: Expr, v: Expr, m: Expr) -> Expr:
        q, k, v = (x.reshape(B * H, -1, D) for x in (q, k, v))
        s = q @ k.transpose(0, 2, 1)
        if mask:
            s = (s.reshape(B, H, Q, S) + m).reshape(B * H, Q, S)
        return (softmax(s) @ v).reshape(B, H, Q, D)

    check(formula, QUERY, KEY, KEY, Tensor(B, 1, Q, S))


def test_matrices_without_a_batch() -> None:
    check(lambda q, k, v: softmax(q @ k.transpose(1, 0)) @ v, Tensor(Q, D), *[Tensor(S, D)] * 2)


def test_windows_with_a_mask_each() -> None:
    """Swin: windows are the batch, and have a mask each in five dimensions."""

    def formula(q: Expr, k: Expr, v: Expr, bias: Expr, m: Expr) -> Expr:
        s = q @ turned(k) + bias
        s = (s.reshape(1, B, H, Q, S) + m).reshape(B, H, Q, S)
        return softmax(s) @ v

    check(formula, QUERY, KEY, KEY, Tensor(1, H, Q, S), Tensor(1, B, 1, Q, S))


def test_softmax_in_float32() -> None:
    def formula(q: Expr, k: Expr, v: Expr, m: Expr) -> Expr:
        s = q @ turned(k) * 0.5 + m
        return s.to(f32).softmax().to(f16) @ v

    arguments = half(B, H, Q, D), half(B, H, S, D), half(B, H, S, D), half(B, 1, Q, S)
    before, after = (written(formula, *arguments) for _ in range(2))
    assert found(after) == ["attention"]
    arrays = [x.astype(np.float16) for x in inputs(*arguments)]
    arrays[3][:, :, 0] = np.finfo(np.float16).min
    agree(run(before, *arrays), run(after, *arrays), 4e-3)


def test_all_in_float32() -> None:
    def formula(q: Expr, k: Expr, v: Expr) -> Expr:
        q, k, v = (x.to(f32) for x in (q, k, v))
        return (softmax(q @ turned(k) * 0.5) @ v).to(f16)

    arguments = half(B, H, Q, D), half(B, H, S, D), half(B, H, S, D)
    before, after = (written(formula, *arguments) for _ in range(2))
    assert found(after) == ["attention"]
    arrays = [x.astype(np.float16) for x in inputs(*arguments)]
    agree(run(before, *arrays), run(after, *arrays), 1e-3)


# ---- where operands and result lie -----------------------------------------------------------


def heads(x: Expr) -> Expr:
    return x.reshape(0, 0, H, D).transpose(0, 2, 1, 3)


def attend(q: Expr, k: Expr, v: Expr) -> Expr:
    return softmax(q @ turned(k) * 0.5) @ v


def test_tokens_first() -> None:
    def formula(q: Expr, k: Expr, v: Expr) -> Expr:
        y = attend(heads(q), heads(k), heads(v))
        return y.transpose(0, 2, 1, 3).reshape(B, Q, H * D)

    module = check(formula, Tensor(B, Q, H * D), *[Tensor(B, S, H * D)] * 2)
    op = the_op(module)
    assert all(op.tokens_first(n) for n in ("query", "key", "value", "result"))


def test_key_transposed_at_once() -> None:
    def formula(q: Expr, k: Expr, v: Expr) -> Expr:
        kt = k.reshape(0, 0, H, D).transpose(0, 2, 3, 1)
        return softmax(heads(q) @ kt * 0.5) @ heads(v)

    check(formula, Tensor(B, Q, H * D), *[Tensor(B, S, H * D)] * 2)


def test_key_transposed_by_three() -> None:
    def formula(q: Expr, k: Expr, v: Expr) -> Expr:
        return softmax(heads(q) @ through_three(heads(k))) @ heads(v)

    check(formula, Tensor(B, Q, H * D), *[Tensor(B, S, H * D)] * 2)


def test_a_transposed_key_is_transposed_back() -> None:
    """Attention takes it so, and nothing better is known."""
    check(
        lambda q, kt, v: softmax(q @ kt) @ v,
        QUERY,
        Tensor(B, H, D, S),
        KEY,
        others=("transpose",),
    )


def test_heads_of_a_batch_of_matrices() -> None:
    def formula(q: Expr, k: Expr, v: Expr) -> Expr:
        q, k, v = (heads(x).reshape(B * H, -1, D) for x in (q, k, v))
        y = softmax(q @ k.transpose(0, 2, 1)) @ v
        return y.reshape(B, H, Q, D).transpose(0, 2, 1, 3).reshape(B, Q, H * D)

    check(formula, Tensor(B, Q, H * D), *[Tensor(B, S, H * D)] * 2)


@pytest.mark.parametrize("part", ["gather", "slice", "split"])
@pytest.mark.parametrize("order", ["three first", "heads first"])
def test_packed(part: str, order: str) -> None:
    """Query, key and value of one product."""

    def formula(x: Expr) -> Expr:
        if order == "three first":
            packed = x.reshape(0, 0, 3, H, D).transpose(2, 0, 3, 1, 4)
        else:
            packed = x.reshape(0, 0, H, 3, D).transpose(3, 0, 2, 1, 4)
        if part == "gather":
            q, k, v = (x.op(GatherOp, packed, np.int64(i), axis=0) for i in range(3))
        elif part == "slice":
            q, k, v = (cut(packed, 0, i, i + 1).reshape(B, H, S, D) for i in range(3))
        else:
            parts = x.op(SplitOp, packed, None, axis=0, sizes=(1, 1, 1), results=3)
            q, k, v = (p.reshape(B, H, S, D) for p in parts)
        return attend(q, k, v).transpose(0, 2, 1, 3).reshape(B, S, H * D)

    before, after = (written(formula, Tensor(B, S, 3 * H * D)) for _ in range(2))
    names = found(after)
    if order == "three first":
        assert set(names) == {"split", "reshape", "attention"}
    (x,) = inputs(Tensor(B, S, 3 * H * D))
    agree(run(before, x), run(after, x), 1e-5)


def cut(x: Expr, axis: int, start: int, end: int) -> Expr:
    bounds = {"starts": (start,), "ends": (end,), "axes": (axis,)}
    return x.op(SliceOp, x, None, None, None, None, **bounds)


@pytest.mark.parametrize("tokens_first", [False, True])
def test_grouped_heads(tokens_first: bool) -> None:
    def repeated(k: Expr) -> Expr:
        if tokens_first:
            k = k.reshape(B, S, 2, 1, D)
            k = k.op(BroadcastToOp, k, None, shape=(B, S, 2, 3, D)).reshape(B, S, 6, D)
            return k.transpose(0, 2, 1, 3)
        k = k.reshape(B, S, 2, D).transpose(0, 2, 1, 3).reshape(B, 2, 1, S, D)
        return k.op(BroadcastToOp, k, None, shape=(B, 2, 3, S, D)).reshape(B, 6, S, D)

    module = check(
        lambda q, k, v: attend(q, repeated(k), repeated(v)),
        Tensor(B, 6, Q, D),
        *[Tensor(B, S, 2 * D)] * 2,
    )
    assert the_op(module).sizes("key")[1] == 2


@pytest.mark.parametrize("tokens_first", [False, True])
def test_heads_repeated_by_gather(tokens_first: bool) -> None:
    places = np.repeat(np.arange(2), 3)

    def repeated(k: Expr) -> Expr:
        if tokens_first:
            return k.op(GatherOp, k, k.lift(places), axis=2).transpose(0, 2, 1, 3)
        return k.op(GatherOp, k, k.lift(places), axis=1)

    heads = Tensor(B, S, 2, D) if tokens_first else Tensor(B, 2, S, D)
    module = check(
        lambda q, k, v: attend(q, repeated(k), repeated(v)), Tensor(B, 6, Q, D), heads, heads
    )
    assert the_op(module).sizes("key")[1] == 2


@pytest.mark.parametrize("places", [[0, 1, 0, 1, 0, 1], [0, 0, 0, 0, 1, 1], [1, 1, 1, 0, 0, 0]])
def test_heads_gathered_in_another_way(places: list[int]) -> None:
    def repeated(k: Expr) -> Expr:
        return k.op(GatherOp, k, k.lift(np.array(places)), axis=1)

    check(
        lambda q, k, v: attend(q, repeated(k), repeated(v)),
        Tensor(B, 6, Q, D),
        *[Tensor(B, 2, S, D)] * 2,
        others=("gather", "gather"),
    )


@pytest.mark.parametrize("turn", ["op", "flag"])
def test_channels_first(turn: str) -> None:
    """Query, key and value as [B, H, D, tokens], packed in one, as convolutions make them."""

    def formula(x: Expr) -> Expr:
        x = x.reshape(B, H, 4 * D, Q)
        q, k, v = cut(x, 2, 0, D), cut(x, 2, D, 2 * D), cut(x, 2, 2 * D, 4 * D)
        p = softmax((turned(q) @ k) * 0.5)
        if turn == "op":
            return (v @ turned(p)).reshape(B, H * 2 * D, Q)
        return v.op(MatmulOp, v, p, transpose_rhs=True).reshape(B, H * 2 * D, Q)

    moves = ("slice",) * 3 + ("transpose",) * 4
    check(formula, Tensor(B, H * 4 * D, Q), others=moves)


def test_weights_transposed_alone() -> None:
    """P^T V is no attention."""

    def formula(q: Expr, k: Expr, v: Expr) -> Expr:
        return turned(softmax(q @ turned(k))) @ v

    assert "attention" not in found(written(formula, KEY, KEY, KEY))


def test_one_key_head() -> None:
    module = check(attend, QUERY, Tensor(B, 1, S, D), Tensor(B, 1, S, D))
    assert the_op(module).sizes("key")[1] == 1


def test_repeated_in_another_order() -> None:
    """Runs of heads that are repeated are no groups."""

    def repeated(k: Expr) -> Expr:
        k = k.reshape(B, 1, 2, S, D)
        return k.op(BroadcastToOp, k, None, shape=(B, 3, 2, S, D)).reshape(B, 6, S, D)

    check(
        lambda q, k, v: attend(q, repeated(k), repeated(v)),
        Tensor(B, 6, Q, D),
        *[Tensor(B, 2, S, D)] * 2,
        others=("broadcast_to", "broadcast_to"),
    )


def test_cache() -> None:
    def formula(q: Expr, k: Expr, v: Expr, past_k: Expr, past_v: Expr) -> tuple[Expr, ...]:
        k = k.op(ConcatOp, [past_k, heads(k)], axis=2)
        v = v.op(ConcatOp, [past_v, heads(v)], axis=-2)
        return attend(heads(q), k, v), k, v

    arguments = [*[Tensor(B, 1, H * D)] * 3, *[Tensor(B, H, S, D)] * 2]
    check(formula, *arguments, others=("concat", "concat", "transpose", "transpose"))


def test_rotary_before_the_transpose() -> None:
    def formula(q: Expr, k: Expr, v: Expr, c: Expr, s: Expr) -> tuple[Expr, Expr]:
        q, k = (x.op(RotaryEmbeddingOp, heads(x), c, s) for x in (q, k))
        return attend(q, k, heads(v)).transpose(0, 2, 1, 3), k

    arguments = *[Tensor(B, S, H * D)] * 3, Tensor(B, 1, S, D // 2), Tensor(S, D // 2)
    others = ("rotary_embedding", "rotary_embedding", "squeeze", "unsqueeze", "unsqueeze")
    module = check(formula, *arguments, others=(*others, "transpose"))
    assert the_op(module).tokens_first("query")
    assert not the_op(module).tokens_first("key")  # wanted as it is by somebody else


def test_dynamic_shapes() -> None:
    def formula(q: Expr, k: Expr, v: Expr, m: Expr) -> Expr:
        q, k, v = (heads(x) for x in (q, k, v))
        y = guard(softmax(q @ turned(k) * 0.5 + m)) @ v
        return y.transpose(0, 2, 1, 3).reshape(0, 0, H * D)

    unknown = Tensor(DYNAMIC, DYNAMIC, H * D)
    arguments = unknown, unknown, unknown, Tensor(DYNAMIC, 1, DYNAMIC, DYNAMIC)
    before, after = (written(formula, *arguments) for _ in range(2))
    names = found(after)
    assert names.count("attention") == 1
    assert "transpose" not in names
    arrays = inputs(*[Tensor(B, S, H * D)] * 3, Tensor(B, 1, S, S))
    agree(run(before, *arrays), run(after, *arrays), 1e-5)
    with pytest.raises(GeError, match="does not broadcast to"):
        run(after, *arrays[:3], np.zeros((3 * B, 1, S, S), np.float32))


# ---- what is not attention -------------------------------------------------------------------


def weights_kept(q: Expr, k: Expr, v: Expr) -> tuple[Expr, Expr]:
    p = softmax(q @ turned(k))
    return p @ v, p


def scores_kept(q: Expr, k: Expr, v: Expr) -> tuple[Expr, Expr]:
    s = q @ turned(k)
    return softmax(s) @ v, s


NOT_FOUND: dict[str, tuple[Formula, str]] = {
    "weights used": (weights_kept, "the weights are used elsewhere too"),
    "scores used": (scores_kept, "graph.matmul is used elsewhere too"),
    "another axis": (lambda q, k, v: (q @ turned(k)).softmax(axis=-2) @ v, ""),
    "another function": (
        lambda q, k, v: softmax((q @ turned(k)).exp()) @ v,
        "graph.exp is no part of attention",
    ),
    "scaled after the mask": (
        lambda q, k, v: softmax((q @ turned(k) + np.ones(S)) * 2.0) @ v,
        "graph.add masks scores that are scaled after it",
    ),
    "weights changed": (
        lambda q, k, v: (softmax(q @ turned(k)) * 2.0) @ v,
        "the weights are not multiplied by values",
    ),
    "another guard": (
        lambda q, k, v: (lambda p: p.is_nan().where(1.0, p))(softmax(q @ turned(k))) @ v,
        "the weights are used elsewhere too",
    ),
    "two numbers filled in": (
        lambda q, k, v: (
            softmax(
                (q.lift(np.arange(S) > 1)).where(
                    q.lift(np.arange(S) > 2).where(q @ turned(k), -5.0), -7.0
                )
            )
            @ v
        ),
        "graph.select fills in -5 where another mask has -7",
    ),
}


@pytest.mark.parametrize("text", NOT_FOUND)
def test_not_found(text: str) -> None:
    formula, why = NOT_FOUND[text]
    module = written(formula, QUERY, KEY, KEY)
    with collecting_remarks() as remarks:
        assert "attention" not in found(module)
    assert [r.why for r in remarks] == ([why] if why else [])


def test_plain_softmax_is_no_near_miss() -> None:
    with collecting_remarks() as remarks:
        assert found(written(lambda x: x.softmax(), Tensor(3, 4))) == ["softmax"]
    assert remarks == []
