"""Blocks as different exporters write them, through the whole optimizer: the same few launches,
and the same numbers."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

sys.path.insert(0, str(Path(__file__).parent))
from writing import Expr, Tensor, agree, normal, run, written

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.convolution import ConvOp
from ge.dialects.graph.indexing import GatherOp
from ge.dialects.graph.linear import EinsumOp
from ge.dialects.graph.shape import BroadcastToOp, SqueezeOp, TileOp, UnsqueezeOp, View
from ge.dialects.graph.slicing import ConcatOp, SliceOp, SplitOp
from ge.dialects.support.functions import main_function
from ge.lowering.driver.compiler import lower
from ge.lowering.pipeline.options import Options

Block = Callable[[Expr], Expr]

TOKENS, HEADS, SIZE = 16, 4, 16  # columns of a head: no less than tile programs take apart
WIDTH = HEADS * SIZE
SCALE = SIZE**-0.5


def launches(module: ModuleOp) -> list[str]:
    """What the fused level launches, in order."""
    main = main_function(module)
    assert isinstance(main, FuncOp)
    ops = [op for op in main.body.block.ops if op is not main.body.block.last_op]
    return [op.name for op in ops if not isinstance(op, ConstantOp | View)]


def check(block: Block, *dims: int) -> list[str]:
    module, x = written(block, Tensor(*dims)), normal(*dims)
    before = run(module, x)
    lower(module, Options(target="910_merged"), until="fused")
    agree(before, run(module, x), 1e-4)
    return launches(module)


def weight(x: Expr, *dims: int, seed: int = 0) -> Expr:
    return x.lift(normal(*dims, seed=seed) / np.float32(np.sqrt(dims[0])))


def linear(x: Expr, width: int, seed: int = 0) -> Expr:
    return x @ weight(x, x.shape[-1], width, seed=seed)


def cut(x: Expr, start: int, end: int, axis: int) -> Expr:
    params = {"starts": (start,), "ends": (end,), "axes": (axis,)}
    return x.op(SliceOp, x, None, None, None, None, **params)


# ---- query, key and value ----------------------------------------------------------------------


def heads(x: Expr, count: int = HEADS) -> Expr:
    return x.reshape(2, TOKENS, count, SIZE).transpose(0, 2, 1, 3)


def attend(q: Expr, k: Expr, v: Expr) -> Expr:
    p = ((q @ k.transpose(0, 1, 3, 2)) * SCALE).softmax(axis=-1)
    return linear((p @ v).transpose(0, 2, 1, 3).reshape(2, TOKENS, WIDTH), WIDTH, seed=9)


def apart(x: Expr) -> Sequence[Expr]:
    return [heads(linear(x, WIDTH, seed=i)) for i in range(3)]


def by_split(x: Expr) -> Sequence[Expr]:
    y = linear(x, 3 * WIDTH)
    return [heads(p) for p in y.op(SplitOp, y, None, axis=-1, sizes=[WIDTH] * 3, results=3)]


def by_slice(x: Expr) -> Sequence[Expr]:
    y = linear(x, 3 * WIDTH)
    return [heads(cut(y, i * WIDTH, (i + 1) * WIDTH, 2)) for i in range(3)]


def packed(x: Expr) -> Expr:
    return linear(x, 3 * WIDTH).reshape(2, TOKENS, 3, HEADS, SIZE).transpose(2, 0, 3, 1, 4)


def by_gather(x: Expr) -> Sequence[Expr]:
    y = packed(x)
    return [y.op(GatherOp, y, y.lift(np.array(i)), axis=0) for i in range(3)]


def by_unbind(x: Expr) -> Sequence[Expr]:
    y = packed(x)
    parts = y.op(SplitOp, y, None, axis=0, sizes=[1, 1, 1], results=3)
    return [p.op(SqueezeOp, p, None, axes=(0,)) for p in parts]


def by_head(x: Expr) -> Sequence[Expr]:
    y = linear(x, 3 * WIDTH).reshape(2, TOKENS, HEADS, 3 * SIZE).transpose(0, 2, 1, 3)
    return y.op(SplitOp, y, None, axis=-1, sizes=[SIZE] * 3, results=3)


def grouped(repeat: Block) -> Callable[[Expr], Sequence[Expr]]:
    """Two heads of key and value for four of the query."""

    def parts(x: Expr) -> Sequence[Expr]:
        k, v = (heads(linear(x, WIDTH // 2, seed=i), HEADS // 2) for i in (1, 2))
        return heads(linear(x, WIDTH)), repeat(k), repeat(v)

    return parts


def repeated(t: Expr, how: Block) -> Expr:
    t = t.op(UnsqueezeOp, t, None, axes=(2,))
    return how(t).reshape(2, HEADS, TOKENS, SIZE)


REPEATS: dict[str, Block] = {
    "expand": lambda t: t.op(BroadcastToOp, t, None, shape=(2, 2, 2, TOKENS, SIZE)),
    "concat": lambda t: t.op(ConcatOp, [t, t], axis=2),
    "tile": lambda t: t.op(TileOp, t, None, repeats=(1, 1, 2, 1, 1)),
    "ones": lambda t: t * t.lift(np.ones((1, 1, 2, 1, 1), np.float32)),
}
PARTS: dict[str, Callable[[Expr], Sequence[Expr]]] = {
    "apart": apart,
    "split": by_split,
    "slice": by_slice,
    "gather": by_gather,
    "unbind": by_unbind,
    "head by head": by_head,
    **{f"grouped, {n}": grouped(lambda t, how=how: repeated(t, how)) for n, how in REPEATS.items()},
}


@pytest.mark.parametrize("text", PARTS)
def test_attention_from_parts(text: str) -> None:
    found = check(lambda x: attend(*PARTS[text](x)), 2, TOKENS, WIDTH)
    assert found[1:] == ["fused_op.flash_attention", "graph.matmul"]
    assert found[0] in ("fused_op.linear", "graph.matmul")  # as what behind it has a program


# ---- attention as a whole ----------------------------------------------------------------------


def with_einsum(x: Expr) -> Expr:
    w = [weight(x, WIDTH, HEADS, SIZE, seed=i) for i in range(3)]
    q, k, v = (x.op(EinsumOp, [x, m], equation="abc,cde->abde") for m in w)
    scores = q.op(EinsumOp, [q, k], equation="bqhd,bkhd->bhqk") * SCALE
    y = q.op(EinsumOp, [scores.softmax(axis=-1), v], equation="bhqk,bkhd->bqhd")
    return y.op(EinsumOp, [y, weight(x, HEADS, SIZE, WIDTH, seed=4)], equation="abcd,cde->abe")


def with_softmax_written_out(x: Expr) -> Expr:
    q, k, v = apart(x)
    s = (q @ k.transpose(0, 1, 3, 2)) / np.sqrt(SIZE)
    e = (s - s.reduce("max", -1)).exp()
    y = (e / e.reduce("sum", -1)) @ v
    return linear(y.transpose(0, 2, 1, 3).reshape(2, TOKENS, WIDTH), WIDTH, seed=9)


def with_heads_in_the_batch(x: Expr) -> Expr:
    q, k, v = (p.reshape(2 * HEADS, TOKENS, SIZE) for p in apart(x))
    y = ((q * SCALE) @ k.transpose(0, 2, 1)).softmax(axis=-1) @ v
    y = y.reshape(2, HEADS, TOKENS, SIZE).transpose(0, 2, 1, 3)
    return linear(y.reshape(2, TOKENS, WIDTH), WIDTH, seed=9)


@pytest.mark.parametrize("block", [with_einsum, with_softmax_written_out, with_heads_in_the_batch])
def test_attention(block: Block) -> None:
    found = check(block, 2, TOKENS, WIDTH)
    if block is with_heads_in_the_batch:  # no program of attention stores such parts of a batch
        found.remove("graph.transpose")
    assert found == ["fused_op.linear", "fused_op.flash_attention", "graph.matmul"]


# ---- gates -------------------------------------------------------------------------------------


def gelu(x: Expr) -> Expr:
    return x * 0.5 * ((x / np.sqrt(2)).erf() + 1)


def halves(x: Expr) -> tuple[Expr, Expr]:
    half = x.shape[-1] // 2
    return cut(x, 0, half, 2), cut(x, half, 2 * half, 2)


def geglu(x: Expr) -> Expr:
    y = linear(x, 256)
    a, b = y.op(SplitOp, y, None, axis=-1, sizes=[128, 128], results=2)
    return a * gelu(b)


def swiglu_of_slices(x: Expr) -> Expr:
    a, b = halves(linear(x, 256))
    return a * a.sigmoid() * b


def swiglu_of_two(x: Expr) -> Expr:
    gate, up = linear(x, 128), linear(x, 128, seed=1)
    return (gate / (1 + (-gate).exp())) * up


@pytest.mark.parametrize("block", [geglu, swiglu_of_slices, swiglu_of_two])
def test_gates(block: Block) -> None:
    assert check(block, 2, 16, 64) == ["fused_op.linear"]


# ---- squeeze and excite ------------------------------------------------------------------------


def excite_by_conv(x: Expr) -> Expr:
    s = x.mean(2, 3)
    s = s.op(ConvOp, s, weight(x, 4, 8, 1, 1), None).relu()
    return x * s.op(ConvOp, s, weight(x, 8, 4, 1, 1), None).sigmoid()


def excite_by_product(x: Expr) -> Expr:
    s = linear(linear(x.mean(2, 3, keep=False), 4).relu(), 8).sigmoid()
    return x * s.reshape(2, 8, 1, 1)


def excite_channels_last(x: Expr) -> Expr:
    y = x.transpose(0, 2, 3, 1)
    s = linear(linear(y.mean(1, 2, keep=False), 4).relu(), 8).sigmoid().reshape(2, 1, 1, 8)
    return (y * s).transpose(0, 3, 1, 2)


@pytest.mark.parametrize("block", [excite_by_conv, excite_by_product, excite_channels_last])
def test_squeeze_and_excite(block: Block) -> None:
    found = check(block, 2, 8, 6, 6)
    assert len(found) == 4  # the mean, two products, the gate
    assert "graph.transpose" not in found
