"""Fusion changes no number: random programs before and after each mode's passes, bit for bit, and
flash attention within the ULPs that it states."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, f16, f32, i1, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue

from ge.dialects.fused_op import FlashAttentionOp, FusedOp
from ge.dialects.graph import activation, elementwise, normalization
from ge.dialects.graph.attention import AttentionOp
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.indexing import GatherOp
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.reduction import ReduceOp
from ge.dialects.graph.shape import ReshapeOp, TransposeOp
from ge.dialects.graph.slicing import ConcatOp, SliceOp
from ge.dialects.support.types import shape_of, tensor
from ge.lowering.driver.compiler import lower
from ge.lowering.pipeline.options import Options
from ge.runtime import numbers
from ge.runtime.data.arrays import Array, dense, dtype_of
from ge.runtime.device.random_inputs import random_inputs
from ge.runtime.device.session import Session

Make = Callable[[random.Random, SSAValue, list[SSAValue], Block], Any]
"""An op on a value [rows, 16], and others of that shape; None where it does not apply."""


def constant(block: Block, rng: random.Random, *shape: int) -> SSAValue:
    array = np.random.default_rng(rng.randrange(1 << 30)).standard_normal(shape).astype(np.float32)
    op = ConstantOp.make(dense(array / 4), tensor(shape, f32))
    block.add_op(op)
    return op.result


def product(rng: random.Random, x: SSAValue, others: list[SSAValue], block: Block) -> Any:
    return MatmulOp.of(x, constant(block, rng, 16, 16))


def rotate(rng: random.Random, x: SSAValue, others: list[SSAValue], block: Block) -> Any:
    halves = [
        SliceOp.of(x, None, None, None, None, starts=(a,), ends=(b,), axes=(1,))
        for a, b in ((8, 16), (0, 8))
    ]
    block.add_ops(halves)
    return ConcatOp.of([h.result for h in halves], axis=1)


def turn(rng: random.Random, x: SSAValue, others: list[SSAValue], block: Block) -> Any:
    """Heads to the front and back, one of the two an op of its own."""
    rows = shape_of(x)[0]
    split = ReshapeOp.of(x, None, shape=(rows, 4, 4))
    swap = TransposeOp.of(split.result, permutation=(1, 0, 2))
    again = TransposeOp.of(swap.result, permutation=(1, 0, 2))
    block.add_ops([split, swap, again])
    return ReshapeOp.of(again.result, None, shape=(rows, 16))


def centre(rng: random.Random, x: SSAValue, others: list[SSAValue], block: Block) -> Any:
    mean = ReduceOp.of(x, None, kind="mean", axes=(rng.choice((0, 1)),))
    block.add_op(mean)
    return elementwise.SubOp.of(x, mean.result)


def norm(rng: random.Random, x: SSAValue, others: list[SSAValue], block: Block) -> Any:
    scale = constant(block, rng, 16)
    return normalization.LayerNormOp.of(x, scale, scale)


def look_up(rng: random.Random, x: SSAValue, others: list[SSAValue], block: Block) -> Any:
    rows = shape_of(x)[0]
    places = np.arange(rows)[::-1].copy()
    index = ConstantOp.make(dense(places), tensor((rows,), i64))
    block.add_op(index)
    return GatherOp.of(x, index.result)


OPS: list[Make] = [
    product,
    product,
    rotate,
    turn,
    centre,
    norm,
    look_up,
    lambda rng, x, others, block: activation.SiluOp.of(x),
    lambda rng, x, others, block: elementwise.TanhOp.of(x),
    lambda rng, x, others, block: elementwise.AddOp.of(x, rng.choice(others)),
    lambda rng, x, others, block: elementwise.AddOp.of(x, rng.choice(others)),
    lambda rng, x, others, block: elementwise.MulOp.of(rng.choice(others), x),
    lambda rng, x, others, block: normalization.SoftmaxOp.of(x),
]


def program(seed: int, ops: int = 30) -> ModuleOp:
    rng = random.Random(seed)
    t = tensor((24, 16), f32)
    block = Block(arg_types=[t, t])
    values: list[SSAValue] = list(block.args)
    for _ in range(ops):
        x = rng.choice(values[-4:])
        op = rng.choice(OPS)(rng, x, values, block)
        block.add_op(op)
        values.append(op.results[0])
    results = [values[-1], *rng.sample(values[2:-1], 2)]
    block.add_op(ReturnOp(*results))
    types = [r.type for r in results]
    return ModuleOp([FuncOp("main", ([t, t], types), Region(block))])


SEEDS = [*range(3), *(pytest.param(i, marks=pytest.mark.soak) for i in range(3, 50))]


@pytest.mark.parametrize("seed", SEEDS)
def test_random_programs_keep_every_bit(seed: int) -> None:
    module = program(seed)
    inputs = random_inputs(module, seed)
    before = Session(module).run(inputs)
    for mode in ("off", "conservative"):
        for level in ("fused", "program"):
            after = module.clone()
            lower(after, Options(fusion=mode), until=level)
            outputs = Session(after, sanitize=True).run(inputs)
            for name, array in before.items():
                assert array.tobytes() == outputs[name].tobytes(), (mode, level, name)
    assert any(isinstance(op, FusedOp) for op in _lowered(module).walk())


def _lowered(module: ModuleOp) -> ModuleOp:
    lower(module, Options(fusion="conservative"), until="fused")
    return module


# ---- attention -------------------------------------------------------------------------------


def both(
    element: Attribute, queries: int, keys: int, undefined: str = "zero", **params: Any
) -> tuple[Array, Array, Array]:
    """graph.attention, flash attention, and the values, for scores with a mask that leaves out
    every key of one query."""
    shapes = [(2, 4, queries, 16), (2, 2, keys, 16), (2, 2, keys, 8)]
    block = Block(arg_types=[*(tensor(s, element) for s in shapes), tensor((queries, keys), i1)])
    q, k, v, mask = block.args
    op = AttentionOp.of(q, k, v, [mask], None, None, undefined=undefined, **params)
    block.add_op(op)
    fused = FlashAttentionOp.wrap([op], op.results)
    rng = np.random.default_rng(0)
    arrays: list[Array] = [rng.standard_normal(s).astype(dtype_of(element)) for s in shapes]
    keep = rng.random((queries, keys)) < 0.7
    keep[queries // 2] = False
    (want,) = numbers.evaluate(op, [*arrays, keep])
    (got,) = numbers.evaluate(fused.members[0], [*arrays, keep])
    return want, got, arrays[2]


@pytest.mark.parametrize("undefined", ["zero", "nan", "guard"])
@pytest.mark.parametrize(("queries", "keys"), [(5, 7), (40, 512), (33, 1300), (1, 5000)])
@pytest.mark.parametrize("element", [f32, f16])
def test_flash_attention_is_within_its_ulps(
    element: Attribute, queries: int, keys: int, undefined: str
) -> None:
    want, got, values = both(element, queries, keys, undefined)
    assert np.array_equal(np.isnan(want), np.isnan(got))
    tiles = -(-keys // 512)
    allowed = 4 * tiles * float(np.spacing(np.abs(values.astype(np.float32)).max()))
    if element is f16:
        allowed = float(np.spacing(np.abs(values).max()))
    finite = ~np.isnan(want)
    error = np.abs(want[finite].astype(np.float64) - got[finite]).max(initial=0)
    assert error <= allowed
    if tiles == 1:
        assert want.tobytes() == got.tobytes()


def test_flash_attention_with_every_option() -> None:
    want, got, _ = both(
        f32, 600, 1200, softcap=5.0, causal=True, left_window=700, offset=300, scale=0.3
    )
    assert np.abs(want - got).max() < 1e-5


def test_infinite_scores() -> None:
    t = tensor((1, 1, 2, 4), f32)
    big = tensor((1, 1, 1100, 4), f32)
    block = Block(arg_types=[t, big, big])
    op = AttentionOp.of(*block.args, [], None, None, undefined="guard")
    block.add_op(op)
    fused = FlashAttentionOp.wrap([op], op.results)
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal(shape_of(a)).astype(np.float32) for a in block.args)
    k[0, 0, 700] = np.inf
    q[0, 0, 0] = 1
    (want,) = numbers.evaluate(op, [q, k, v])
    (got,) = numbers.evaluate(fused.members[0], [q, k, v])
    assert np.array_equal(want == 0, got == 0)
