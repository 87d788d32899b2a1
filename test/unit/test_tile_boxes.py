"""Boxes that begin before their memref, that take every second element, whose columns are several
dimensions, and loads to rows that are apart: against numpy, proved, and what they cost."""

import sys
from dataclasses import replace
from math import ceil, prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import f16
from xdsl.utils.test_value import create_ssa_value

sys.path.insert(0, str(Path(__file__).parent))
from sums import assert_matmul

import ge
from ge.dialects.support.errors import GeError
from ge.dialects.targets.target import Target
from ge.dialects.tile.types import Memory, TileType
from ge.dialects.tile.unfold import Pair, Unfolding, UnfoldOp
from ge.runtime.library.costs.cycles import Share, cycles_of
from ge.runtime.library.language.tracing import Tracer
from ge.runtime.library.rows.vector import LEAST, even

Array = Any
B2 = Target.load("910b2")
LARGE = 8.0  # beside the random numbers, all of which are smaller


def box_of(x: Array, starts: list[int], sizes: list[int], steps: list[int], pad: float) -> Array:
    """The box with its padding."""
    ends = [max(0, a + n * s - d) for a, n, s, d in zip(starts, sizes, steps, x.shape, strict=True)]
    widths = [(max(0, -a), end) for a, end in zip(starts, ends, strict=True)]
    whole = np.pad(x, widths, constant_values=pad)
    firsts = [max(0, a) for a in starts]
    cut = zip(firsts, sizes, steps, strict=True)
    return whole[tuple(slice(a, a + n * s, s) for a, n, s in cut)]


def result_of(kernel: Any, *arrays: Array) -> Array:
    """What the last argument becomes, in the simulated order and in random ones, once proved."""
    program = kernel.on(*arrays, cores=1)
    assert not (problems := program.check().problems), problems
    results: list[Array] = []
    for seed in (None, 0, 1):
        out = arrays[-1].copy()
        program.run(*arrays[:-1], out, seed=seed)
        results.append(out)
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)
    return results[0]


@given(st.data())
def test_boxes_are_those_of_numpy(data: st.DataObject) -> None:
    def ints(low: int, high: int) -> list[int]:
        return data.draw(st.lists(st.integers(low, high), min_size=3, max_size=3))

    shape, steps, starts = ints(2, 9), ints(1, 3), ints(-6, 8)
    sizes = [data.draw(st.sampled_from((1, 3, 8))), data.draw(st.integers(1, 5)), 8]
    x = np.random.default_rng(0).random(shape).astype("f4")
    rows, cols = sizes[0], prod(sizes[1:])

    @ge.tile.kernel
    def copy(c: Tracer, x: Any, y: Any) -> None:
        t = c.ub(rows, cols)
        slices = [slice(a, None, s) for a, s in zip(starts, steps, strict=True)]
        box = x[tuple(slices)].sized(*sizes)
        starts_of_core = [c.core + a for a in starts]  # not known before the core runs
        box = replace(box, starts=tuple(starts_of_core))
        c.load(t, box, pad=LARGE)
        c.store(y[0:, 0:], t)

    expected = box_of(x, starts, sizes, steps, LARGE).reshape(rows, cols)
    found = result_of(copy, x, np.zeros((rows, cols), "f4"))
    np.testing.assert_array_equal(found, expected)


def test_stores_of_several_dimensions() -> None:
    """A ragged end of each dimension is left out."""
    x = np.random.default_rng(0).random((16, 64)).astype("f4")

    @ge.tile.kernel
    def spread(c: Tracer, x: Any, y: Any) -> None:
        t = c.ub(16, 64)
        c.store(y[0, 0:, 0:, 0:].sized(16, 4, 16), c.load(t, x[0:, 0:]))

    found = result_of(spread, x, np.zeros((1, 14, 3, 10), "f4"))
    np.testing.assert_array_equal(found[0], x.reshape(16, 4, 16)[:14, :3, :10])


def test_loads_to_rows_that_are_apart() -> None:
    """What they do not write has to be there: tails are filled."""
    x, w = (np.random.default_rng(i).random((5, 16)).astype("f2") for i in range(2))
    for filled in (False, True):

        @ge.tile.kernel
        def spread(c: Tracer, x: Any, w: Any, y: Any) -> None:
            rows, left = c.l1(16, 16), c.l1(16, 16)
            acc = c.l0c(16, 16)
            if filled:
                c.fill(rows, 0)
            for i in c.range(3):
                c.load(rows, x[0:, 0:].sized(5, 16), rows=(i, 5, 3), pad=0)
            c.load(left, w[0:, 0:], pad=0)
            c.mmad(acc, left, rows, init=True)
            c.store(y[0:, 0:], acc)

        y = np.zeros((5, 16), "f4")
        if filled:
            rows = np.zeros((16, 16), "f4")
            rows[:15] = np.repeat(x, 3, axis=0)
            assert_matmul(result_of(spread, x, w, y), w, rows)
        else:
            problems = spread.on(x, w, y, cores=1).check().problems
            assert "that nothing wrote" in str(problems[0])


@pytest.mark.parametrize(("at", "pad"), [(-1, None), (13, 0.0)])
def test_boxes_and_rows_that_pass_an_end(at: int, pad: float | None) -> None:
    @ge.tile.kernel
    def load(c: Tracer, x: Any, y: Any) -> None:
        t = c.ub(16, 16)
        first = c.core + at
        if pad is None:
            c.load(t, x[first:, 0:])
        else:
            c.load(t, x[0:, 0:].sized(4, 16), pad=pad, rows=(first, 4, 1))
        c.store(y[0:, 0:], t)

    x = np.zeros((16, 16), "f4")
    text = "before the memref" if pad is None else "4 rows from 13 on, 1 apart, pass the tile"
    assert text in str(load.on(x, x, cores=1).check().problems[0])
    with pytest.raises(GeError, match=text):
        load.on(x, x, cores=1).run(x, x.copy())


def test_columns_are_taken() -> None:
    """Every third column from the second one on; 16 x 8 f32 are 2 repeats of a gather."""
    x, y = np.random.default_rng(0).random((16, 24)).astype("f4"), np.zeros((16, 8), "f4")

    @ge.tile.kernel
    def take(c: Tracer, x: Any, y: Any) -> None:
        c.store(y[0:, 0:], c.take(c.ub(16, 8), c.load(c.ub(16, 24), x[0:, 0:]), 1, 3))

    np.testing.assert_array_equal(result_of(take, x, y), x[:, 1::3])
    (busy,) = (p.busy_us for p in take.on(x, y, cores=1).time().pipes if p.pipe == "vector v")
    cycles = B2.vector_start_cycles + 2 * B2.vector_cycles["gather"]
    assert busy * B2.cycles_per_us == pytest.approx(cycles)


@pytest.mark.parametrize("rows", [1, 16])
def test_columns_are_gathered_at_numbers(rows: int) -> None:
    """An instruction for each row that has the same columns as others, at 5 elements a cycle."""

    @ge.tile.kernel
    def gathered(c: Tracer, x: Any, k: Any, y: Any) -> None:
        t, at = c.load(c.ub(16, 64), x[0:, 0:]), c.load(c.ub(k.shape[0], 128, "i32"), k[0:, 0:])
        c.store(y[0:, 0:], c.gather(c.ub(16, 128), t, at))

    rng = np.random.default_rng(0)
    x, k = rng.random((16, 64), "f4"), rng.integers(0, 64, (rows, 128), dtype="i4")
    y = np.zeros((16, 128), "f4")
    program = gathered.on(x, k, y, cores=1)
    program.run(x, k, y, seed=1)
    np.testing.assert_array_equal(y, np.take_along_axis(x, np.broadcast_to(k, y.shape), 1))
    (busy,) = (p.busy_us * B2.cycles_per_us for p in program.time().pipes if p.pipe == "vector v")
    starts = 16 if rows == 1 else 1
    assert busy == pytest.approx(16 * 128 * 13 / 64 + starts * 24, rel=0.15)
    k[0, 3] = 64
    with pytest.raises(GeError, match="columns 0 to 64 are gathered of 64"):
        program.run(x, k, y)


def test_elements_apart_are_pieces_of_one_copy() -> None:
    """16 x 64 elements of 4 bytes: 4096 bytes side by side; where they are not, pieces. CANN's
    data_copy sample on 48 vector cores: 221 us for 128 bytes a piece, 64 pieces a copy; 548 us for
    a copy each, which is 2.5 times as long, not as many times as it has pieces."""

    def cycles(step: int) -> float:
        @ge.tile.kernel
        def copy(c: Tracer, x: Any, y: Any) -> None:
            c.store(y[0:, 0:], c.load(c.ub(16, 64), x[0:, 0::step]))

        x, y = np.zeros((16, 64 * step), "f4"), np.zeros((16, 64), "f4")
        time = copy.on(x, y, cores=1).time()
        (load,) = (p for p in time.pipes if p.pipe == "vector mte2")
        return load.busy_us * B2.cycles_per_us

    start, each = B2.mte2_start_cycles, B2.mte2_piece_cycles
    assert cycles(1) < 200
    assert cycles(2) == pytest.approx(start + 16 * 64 * each)
    apart = start + 128 / B2.stated("gm_to_ub_rate")
    assert 64 * apart / (start + 64 * each) == pytest.approx(548.161 / 220.772, rel=0.05)


@pytest.mark.parametrize(
    ("kernel", "strides", "dilations", "rate"),
    [
        ((1, 1), (1, 1), (1, 1), 128), ((1, 3), (1, 1), (1, 1), 128),
        ((3, 3), (1, 1), (1, 1), 512 / 5), ((1, 3), (1, 2), (1, 1), 128),
        ((7, 7), (2, 2), (1, 1), 512 / 11), ((3, 3), (1, 1), (2, 2), 32),
    ],
)  # fmt: skip
def test_windows_are_unfolded_at_published_rates(
    kernel: Pair, strides: Pair, dilations: Pair, rate: float
) -> None:
    """512 / (2 strides + lines of the kernel) bytes a cycle; into L0B no more than moves."""
    image = create_ssa_value(TileType(1024, 16, f16, Memory.L1))
    part = create_ssa_value(TileType(16, 32, f16, Memory.L0B))
    op = UnfoldOp(image, part, Unfolding(64, 16, kernel, strides, dilations))
    op.verify_()
    cycles = cycles_of(op, (), Share(), B2)
    assert cycles == pytest.approx(B2.mte1_start_cycles + 16 * 32 * 2 / rate)


@given(
    st.integers(1, 2000), st.integers(1, 2000), st.integers(1, 50), st.sampled_from((1, 8, 48)),
    st.sampled_from((1, 8, 64)), st.integers(1, 300),
)  # fmt: skip
def test_even_boxes_are_the_best_of_all_sizes(
    size: int, extent: int, others: int, cores: int, unit: int, beside: int
) -> None:
    size = min(size, extent)

    def most(size: int) -> int:
        return ceil(ceil(extent / size) * others / cores) * (size * beside + LEAST)

    sizes = range(size // unit * unit, (size - 1) // 2, -unit)
    best = min(sizes, key=most, default=size)
    assert even(size, extent, others, cores, unit, beside) == best


def test_even_boxes_of_large_dimensions_are_found_without_trying_all_sizes() -> None:
    assert even(2 << 40, 7 << 40, 3, 48, 64, 1) in range(1 << 40, (2 << 40) + 1, 64)
