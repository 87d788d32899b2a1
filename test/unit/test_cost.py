"""The cost model: tilings fit, times add up and move the way they must."""

from dataclasses import replace
from typing import Any

import pytest
from xdsl.dialects.builtin import bf16, f16, f32, f64, i8
from xdsl.ir import Attribute, Block

from ge.dialects.fused_op import LinearOp
from ge.dialects.graph.convolution import ConvOp
from ge.dialects.graph.elementwise import AddOp, ExpOp
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.interfaces import TensorOp
from ge.dialects.npu_task import Engine
from ge.dialects.target import Target
from ge.dialects.types import DYNAMIC, tensor
from ge.runtime.cost import task_time
from ge.runtime.cube_kernels import matrices
from ge.runtime.pipes import TaskTime
from ge.runtime.tiling import choose_tiling, fits, on_core_bytes

PRESETS = [Target.load(name) for name in Target.presets()]
TARGET = Target.load()


def values(*types: Attribute) -> Any:
    return Block(arg_types=types).args


def matmul(
    m: int, k: int, n: int, element: Attribute = f16, batch: tuple[int, ...] = ()
) -> MatmulOp:
    lhs, rhs = values(tensor((*batch, m, k), element), tensor((*batch, k, n), element))
    return MatmulOp.of(lhs, rhs)


def linear(m: int, k: int, n: int, extra: int) -> LinearOp:
    """A fused matmul with `extra` residuals of the size of the result."""
    product = matmul(m, k, n)
    ops: list[TensorOp] = [product]
    for value in values(*[tensor((m, n), f16)] * extra):
        ops.append(AddOp.of(ops[-1].results[0], value))
    block = Block(arg_types=[])
    block.add_ops(ops)
    return LinearOp.wrap(ops, ops[-1].results)  # pyright: ignore[reportReturnType]


def conv(channels: int, filters: int, size: int, kernel: int, group: int) -> ConvOp:
    x, w = values(
        tensor((2, channels, size, size), f16),
        tensor((filters, channels // group, kernel, kernel), f16),
    )
    return ConvOp.of(x, w, None, group=group)


def time_of(op: TensorOp, engine: Engine = Engine.CUBE, target: Target = TARGET) -> TaskTime:
    time = task_time(op, engine, choose_tiling(op, engine, target), target)
    assert time is not None
    return time


CUBE_OPS = [
    matmul(2048, 4096, 11008),
    matmul(1, 4096, 4096),
    matmul(1, 1, 1),
    matmul(128, 768, 3072, f32),
    matmul(128, 768, 3072, f64),
    matmul(128, 768, 3072, bf16),
    matmul(128, 4096, 512, i8),
    matmul(2048, 128, 2048, f16, (32,)),
    linear(128, 768, 768, 1),
    linear(128, 768, 768, 12),
    conv(64, 64, 56, 3, 1),
    conv(96, 96, 56, 3, 96),
]


@pytest.mark.parametrize("target", PRESETS, ids=lambda t: t.name)
@pytest.mark.parametrize("op", CUBE_OPS, ids=lambda op: f"{op.name}")
def test_cube_tilings_fit(op: TensorOp, target: Target) -> None:
    tiling = choose_tiling(op, Engine.CUBE, target)
    assert tiling is not None
    assert all(size % 16 == 0 for size in tiling.sizes)
    assert 1 <= tiling.blocks.data <= target.cube_cores
    assert fits(on_core_bytes(op, tiling, target), target)


@pytest.mark.parametrize("target", PRESETS, ids=lambda t: t.name)
@pytest.mark.parametrize("shape", [(1,), (7, 3), (4096, 4096), (100_000,)])
def test_vector_tilings_fit(shape: tuple[int, ...], target: Target) -> None:
    x, y = values(tensor(shape, f32), tensor(shape, f32))
    op = AddOp.of(x, y)
    tiling = choose_tiling(op, Engine.VECTOR, target)
    assert tiling is not None
    assert 1 <= tiling.blocks.data <= target.vector_cores
    assert fits(on_core_bytes(op, tiling, target), target)


def test_convolution_is_an_implicit_matrix_product() -> None:
    op = conv(64, 128, 56, 3, 2)
    work = op.work()
    assert work is not None
    p = matrices(op, work.macs)
    assert (p.batch, p.m, p.n, p.k) == (2, 2 * 54 * 54, 64, 32 * 9)


def test_dynamic_shapes_have_no_tiling_and_no_time() -> None:
    (x,) = values(tensor((DYNAMIC, 4), f32))
    op = ExpOp.of(x)
    assert choose_tiling(op, Engine.VECTOR, TARGET) is None
    assert task_time(op, Engine.VECTOR, None, TARGET) is None


@pytest.mark.parametrize("op", CUBE_OPS, ids=lambda op: f"{op.name}")
def test_a_task_is_bound_by_its_pipes(op: TensorOp) -> None:
    tiling = choose_tiling(op, Engine.CUBE, TARGET)
    time = time_of(op)
    assert tiling is not None
    pipes = (time.cube_us, time.vector_us, time.in_us, time.out_us)
    bound = max(pipes) if tiling.buffers.data == 2 else sum(pipes)
    assert time.total_us >= bound + time.ramp_us
    work = op.work()
    assert work is not None
    peak = TARGET.cube_cores * TARGET.cycles_per_us * 16384
    assert time.cube_us >= work.macs / peak


def test_a_large_product_nears_the_peak() -> None:
    op = matmul(4096, 4096, 4096)
    peak_us = 4096**3 / (TARGET.cube_cores * 4096 * TARGET.cycles_per_us)
    assert peak_us < time_of(op).total_us < 1.15 * peak_us


def test_a_memory_bound_op_is_as_fast_as_hbm() -> None:
    x, y = values(*[tensor((4096, 4096), f16)] * 2)
    moved = 3 * 4096 * 4096 * 2
    hbm_us = moved / (TARGET.hbm_rate * TARGET.cube_cores * TARGET.cycles_per_us)
    assert hbm_us < time_of(AddOp.of(x, y), Engine.VECTOR).total_us < 1.1 * hbm_us


def test_types_and_targets_order_the_times() -> None:
    by_type = [time_of(matmul(2048, 2048, 2048, t)).cube_us for t in (i8, f16, f32, f64)]
    assert by_type == sorted(by_type)
    faster = replace(TARGET, clock_ghz=2 * TARGET.clock_ghz)
    op = matmul(512, 512, 512)
    assert time_of(op, target=faster).total_us < time_of(op).total_us
    (x,) = values(tensor((1 << 20,), f16))
    (wide,) = values(tensor((1 << 20,), f32))
    vector = [time_of(ExpOp.of(v), Engine.VECTOR).vector_us for v in (x, wide)]
    assert vector[1] == pytest.approx(2 * vector[0])


def test_an_epilogue_costs_vector_time() -> None:
    plain, fused = time_of(matmul(128, 768, 768)), time_of(linear(128, 768, 768, 2))
    assert plain.vector_us == 0 < fused.vector_us
    assert fused.bytes > plain.bytes


def test_small_transfers_do_not_reach_the_full_rate() -> None:
    def us(elements: int) -> float:
        (x,) = values(tensor((elements,), f16))
        return time_of(ExpOp.of(x), Engine.VECTOR).in_us

    assert us(64) == us(TARGET.full_rate_bytes // 4) > 0
