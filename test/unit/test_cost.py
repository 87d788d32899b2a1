"""The cost model: tilings fit, times add up and move the way they must."""

from dataclasses import replace
from itertools import product
from math import ceil
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import bf16, f16, f32, f64, i8
from xdsl.ir import Attribute, Block

from ge.dialects.fused_op import Body, LinearOp
from ge.dialects.graph.attention import AttentionOp
from ge.dialects.graph.convolution import ConvOp
from ge.dialects.graph.elementwise import AddOp, ExpOp
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.normalization import SoftmaxOp
from ge.dialects.graph.reduction import ReduceOp
from ge.dialects.npu_task.attributes import Engine, TilingAttr
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import DYNAMIC, tensor
from ge.dialects.targets.target import Target
from ge.runtime.library.costs.cost import kernel_cost, task_time
from ge.runtime.library.costs.cube import matrices
from ge.runtime.library.costs.cube_search import cube_kernel
from ge.runtime.library.costs.pipes import Pipes, TaskTime, l2_bytes_per_us
from ge.runtime.library.costs.tiling import choose_tiling, fits, on_core_bytes, pipes
from ge.runtime.library.costs.vector import VectorKernel

PRESETS = [Target.load(name) for name in Target.presets()]
TARGET = Target.load("910_merged")


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


def attention(queries: int, size: int, element: Attribute) -> AttentionOp:
    types = [tensor((1, 1, queries, size), element)] * 3
    return AttentionOp.of(*values(*types), (), None, None)


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
    attention(4096, 512, f32),
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


@pytest.mark.parametrize("target", PRESETS, ids=lambda t: t.name)
def test_no_launch_is_faster_than_the_machine(target: Target) -> None:
    peak_us = 4096**3 / (target.cube_cores * target.macs_per_cycle["f16"] * target.cycles_per_us)
    assert peak_us < time_of(matmul(4096, 4096, 4096), target=target).total_us
    x, y = values(*[tensor((4096, 4096), f16)] * 2)
    read_us = 2 * 4096 * 4096 * 2 / (target.hbm_rate * target.cube_cores * target.cycles_per_us)
    assert read_us < time_of(AddOp.of(x, y), Engine.VECTOR, target).total_us


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


# ---- random shapes ---------------------------------------------------------------------------

EXTENTS = st.one_of(st.integers(1, 300), st.sampled_from([512, 1000, 2048, 4096, 11008]))
ELEMENTS = st.sampled_from([f16, f32, i8])
TARGETS = st.sampled_from(PRESETS)


def powers(extent: int, target: Target) -> list[int]:
    """Tile sizes by powers of two, or those that the target has, up to the extent."""
    sizes = target.cube_tiles or tuple(16 << i for i in range(6))
    return [s for s in sizes if s < 2 * extent] or [sizes[0]]


def check_cube_tiling(op: TensorOp, target: Target) -> None:
    """The tiling fits, and no tiling by powers of two is faster."""
    tiling = choose_tiling(op, Engine.CUBE, target)
    assert tiling is not None
    assert fits(on_core_bytes(op, tiling, target), target)
    assert 1 <= tiling.blocks.data <= target.cube_cores
    best = task_time(op, Engine.CUBE, tiling, target)
    kernel = cube_kernel(Body.of(op), target)
    for m, n in product(powers(kernel.p.m, target), powers(kernel.p.n, target)):
        if (k := kernel.largest_k(m, n)) and kernel.fits_ub(m, n, k):
            time = task_time(op, Engine.CUBE, kernel.tiling(m, n, k), target)
            assert best is not None
            assert time is not None
            assert best.total_us <= time.total_us * (1 + 1e-9), (m, n, k)


@settings(deadline=None)
@given(EXTENTS, EXTENTS, EXTENTS, st.integers(1, 40), ELEMENTS, TARGETS)
@example(33, 1000, 33, 7, f16, Target.load("910_merged"))
@example(97, 512, 17, 7, f32, Target.load("910_93"))  # a smaller tile began later
@example(183, 11008, 24, 38, i8, Target.load("910b2"))  # and had longer steps
def test_tilings_of_products(
    m: int, k: int, n: int, batch: int, element: Attribute, target: Target
) -> None:
    check_cube_tiling(matmul(m, k, n, element, (batch,)), target)


@settings(deadline=None)
@given(
    st.integers(1, 300), st.integers(1, 300), st.integers(8, 64), st.integers(1, 7), TARGETS
)  # fmt: skip
def test_tilings_of_convolutions(
    channels: int, filters: int, size: int, kernel: int, target: Target
) -> None:
    check_cube_tiling(conv(channels, filters, size, kernel, 1), target)


@settings(deadline=None)
@given(EXTENTS, EXTENTS, st.integers(1, 256), st.integers(1, 32), TARGETS)
def test_tilings_of_attention(
    queries: int, keys: int, size: int, heads: int, target: Target
) -> None:
    types = (tensor((1, heads, n, size), f16) for n in (queries, keys, keys))
    op = AttentionOp.of(*values(*types), (), None, None)
    check_cube_tiling(op, target)


@settings(deadline=None)
@given(EXTENTS, EXTENTS, st.sampled_from([f16, f32]), st.booleans(), TARGETS)
@example(50, 287, f32, False, Target.load("310p3"))
def test_tilings_of_vector_kernels(
    rows: int, length: int, element: Attribute, softmax: bool, target: Target
) -> None:
    """They fit, and neither more nor fewer cores with one tile each are faster."""
    (x,) = values(tensor((rows, length), element))
    op = SoftmaxOp.of(x, axis=1) if softmax else ExpOp.of(x)
    tiling = choose_tiling(op, Engine.VECTOR, target)
    assert tiling is not None
    assert fits(on_core_bytes(op, tiling, target), target)
    assert 1 <= tiling.blocks.data <= target.vector_cores
    best = task_time(op, Engine.VECTOR, tiling, target)
    shape = VectorKernel(Body.of(op), target).shape
    usable = max(1, ceil(shape.elements * shape.width / target.full_rate_bytes))
    blocks = min(target.vector_cores, usable, ceil(shape.elements / shape.row))
    tile = ceil(shape.elements / shape.row / blocks) * shape.row
    blocks = ceil(shape.elements / tile)
    if 2 * tile * shape.width <= target.ub_bytes:
        whole = task_time(op, Engine.VECTOR, TilingAttr.of((tile,), blocks, 1), target)
        assert best is not None
        assert whole is not None
        assert best.total_us <= whole.total_us * (1 + 1e-9)


def test_windows_are_loaded_once_where_the_target_unfolds_them() -> None:
    op, apart = conv(256, 256, 58, 3, 1), replace(TARGET, unfolds_windows=False, name="apart")
    once, again = (choose_pipes(op, t) for t in (TARGET, apart))
    assert once.l2_bytes < again.l2_bytes
    pointwise = conv(256, 256, 56, 1, 1)
    assert choose_pipes(pointwise, TARGET).l2_bytes == choose_pipes(pointwise, apart).l2_bytes


def choose_pipes(op: TensorOp, target: Target) -> Pipes:
    return pipes(Body.of(op), choose_tiling(op, Engine.CUBE, target), target)


def test_hits_in_l2_save_the_time_of_hbm() -> None:
    x, y = values(*[tensor((2048, 2048), f16)] * 2)
    cost = kernel_cost(AddOp.of(x, y), Engine.VECTOR, None, TARGET)
    assert isinstance(cost, Pipes)
    cold, half, warm = (cost.time(TARGET, read, 0) for read in (cost.read, cost.read // 2, 0))
    assert cold.total_us > half.total_us > warm.total_us
    assert [t.bytes for t in (cold, half, warm)] == [cost.read, cost.read // 2, 0]
    assert warm.in_us >= cost.read / l2_bytes_per_us(TARGET.cube_cores, TARGET)


def test_efficiencies_and_latencies_of_a_target_cost_time() -> None:
    op = matmul(2048, 2048, 2048)
    for change in (
        {"cube_efficiency": 0.5}, {"tile_latency_us": 1.0}, {"cube_tiles": (192,)},
    ):  # fmt: skip
        slower = replace(TARGET, name=str(change), **change)
        assert time_of(op, target=slower).total_us > 1.02 * time_of(op).total_us
    fused = linear(2048, 2048, 2048, 2)
    together = replace(TARGET, name="together", vector_overlaps=False)
    assert time_of(fused, target=together).total_us > time_of(fused).total_us


@settings(deadline=None)
@given(st.integers(1, 3000), st.integers(2, 6000), TARGETS)
def test_rows_that_fit_on_the_core_stay_whole(rows: int, length: int, target: Target) -> None:
    (x,) = values(tensor((rows, length), f16))
    op = SoftmaxOp.of(x, axis=1)
    tiling = choose_tiling(op, Engine.VECTOR, target)
    assert tiling is not None
    assert VectorKernel(Body.of(op), target).passes == 1
    assert tiling.sizes[0] % length == 0
    assert tiling.blocks.data <= rows


@pytest.mark.parametrize("target", PRESETS, ids=lambda target: target.name)
def test_rows_of_no_elements_have_a_time(target: Target) -> None:
    (x,) = values(tensor((2, 0), f16))
    op = ReduceOp.of(x, None, kind="mean", axes=(-1,), keep_dims=True)
    assert 0 <= time_of(op, Engine.VECTOR, target).total_us < 100
