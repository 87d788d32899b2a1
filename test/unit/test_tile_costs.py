"""What instructions of tile programs take, by hand."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.ir import SSAValue

import ge
from ge.dialects.targets.target import Target
from ge.dialects.tile.compute import MapOp
from ge.dialects.tile.transfers import LoadOp
from ge.dialects.tile.types import tile_type
from ge.lowering.building.tile_kernels import TileProgram
from ge.runtime.cores.kernel import TileKernel
from ge.runtime.library.language.tracing import Tracer
from ge.runtime.library.language.values import cast, exp, rowsum

B2 = Target.load("910b2")
NAMES = "cast", "copy", "add", "mul", "exp", "scalar"
CAST, COPY, ADD, MUL, EXP, SCALAR = map(B2.vector_cycles_of, NAMES)
START = B2.vector_start_cycles


def on_cores(program: TileProgram) -> TileKernel:
    return TileKernel(program.kernel, program.target)


def maps(function: Any, *arrays: Any) -> list[float]:
    """The cycles of a kernel's maps, in order."""
    run = on_cores(ge.tile.kernel(function).on(*arrays, cores=1))
    run.time()
    ops = run.tables.ops
    found = dict(zip(run.tables.records, run.cycles(), strict=True))
    return [c for r, c in found.items() if isinstance(ops[r.op], MapOp)]


@pytest.mark.parametrize("dtype", ["float16", "float32", ml_dtypes.bfloat16])
def test_narrow_floats_without_instructions_are_computed_in_32_bits(dtype: Any) -> None:
    """exp and sums of 64 x 64: of bf16 in 32 bits, with casts before and behind; of f16 as it is,
    where an exponential takes as long as one of 32 bits."""
    x = np.zeros((64, 64), dtype)

    def twice(c: Tracer, x: Any, y: Any) -> None:
        a, b = c.load(c.ub(64, 64), x[0:, 0:]), c.ub(64, 64)
        b[:] = exp(a)
        b[:] = b + a
        c.store(y[0:, 0:], b)

    wide = START + 64 * CAST
    casts = 0 if isinstance(dtype, str) else 2 * wide
    added = {"float16": START + 32 * ADD, "float32": START + 64 * ADD}
    assert maps(twice, x, x) == [
        START + 64 * EXP + casts,
        added.get(dtype, START + 64 * ADD + 3 * wide),
    ]


def test_a_column_takes_an_instruction_for_each_row_or_repeat() -> None:
    x = np.zeros((32, 256), "f4")

    def scaled(c: Tracer, x: Any, y: Any) -> None:
        a, s = c.load(c.ub(32, 256), x[0:, 0:]), c.ub(32, 1)
        s[:] = rowsum(a)
        a[:] = a * s
        b = a[0:2]
        b[:] = b * s[0:2]
        c.store(y[0:, 0:], a)

    spread = [
        START + 4 * COPY,
        START + COPY + 16,
    ]  # 32 bytes for a number: 4 repeats, a part of one
    products = [4 * START + 32 * 4 * MUL, 2 * START + 2 * 4 * MUL]
    assert maps(scaled, x, x) == [a + b for a, b in zip(spread, products, strict=True)]


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_products_of_narrow_floats_are_added_at_once(dtype: str) -> None:
    """In f32 a product is rounded before it is added, which takes two instructions."""
    x = np.zeros((32, 64), dtype)

    def summed(c: Tracer, x: Any, y: Any) -> None:
        a, b, s = c.load(c.ub(32, 64), x[0:, 0:]), c.ub(1, 64), c.ub(32, 64, "f32")
        c.load(b, x[0, 0:])
        s[:] = s + cast(a, "f32") * cast(b, "f32")
        c.store(y[0:, 0:], s)

    product, added = START + 32 * MUL, START + 32 * ADD
    at_once = START + 32 * B2.vector_cycles_of("mul_add")
    y = np.zeros((32, 64), "f4")
    assert maps(summed, x, y) == [at_once if dtype == "float16" else product + added]


def test_a_tile_times_a_number_is_added_at_once() -> None:
    """The number lies anywhere in a tile; one that the loop writes is spread as any operand is."""
    x = np.zeros((4, 64), "f2")

    def summed(c: Tracer, x: Any, y: Any) -> None:
        a, n, s = c.load(c.ub(4, 64), x[0:, 0:]), c.ub(1, 64), c.ub(1, 64, "f32")
        for i in c.range(4):
            s[:] = s + cast(a.part(i, 0, (1, 64)), "f32") * cast(a.part(0, i, (1, 1)), "f32")
            c.load(n, x[i, 0:])
            s[:] = s + cast(a.part(i, 0, (1, 64)), "f32") * cast(n.part(0, 0, (1, 1)), "f32")
        c.store(y[0:, 0:], s)

    known, read = START + B2.vector_cycles_of("axpy"), START + B2.vector_cycles_of("mul_add")
    assert maps(summed, x, np.zeros((1, 64), "f4")) == [known, read + START + COPY + 16]


def test_an_instruction_has_255_repeats() -> None:
    x = np.zeros((64, 256), "f4")

    def added(c: Tracer, x: Any, y: Any) -> None:
        a = c.load(c.ub(64, 256), x[0:, 0:])
        a[:] = a + a
        c.store(y[0:, 0:], a)

    assert maps(added, x, x) == [2 * START + 256 * ADD]


def test_a_number_from_before_the_loop_is_scalar() -> None:
    """In the loop that writes it, it comes from UB as any operand does."""
    x, s = np.zeros((4, 64), "f4"), np.zeros((1, 1), "f4")

    def scaled(c: Tracer, x: Any, s: Any, y: Any) -> None:
        n, m, a = c.load(c.ub(1, 1), s[0:, 0:]), c.ub(1, 1), c.ub(1, 64)
        for i in c.range(4):
            c.load(a, x[i:, 0:])
            a[:] = a * n
            m[:] = rowsum(a)
            a[:] = a * m
            c.store(y[i:, 0:], a)

    assert maps(scaled, x, s, x) == [START + SCALAR, START + MUL + START + COPY + 16]


def test_what_l2_holds_is_loaded_sooner() -> None:
    x = np.zeros((64, 1024), "f4")

    @ge.tile.kernel
    def added(c: Tracer, x: Any, z: Any, y: Any) -> None:
        for i in c.share(64):
            a, b = c.load(c.ub(1, 1024), x[i:, 0:]), c.load(c.ub(1, 1024), z[i:, 0:])
            a[:] = a + b
            c.store(y[i:, 0:], a)

    run = on_cores(added.on(x, x, x, cores=32))
    times = [run.time(held=held) for held in ((), (0.25, 0), (1, 0), (0, 1), (1, 1))]
    cold, half, one, other, warm = (t.core_us for t in times)
    assert cold > half > one > warm
    assert one == pytest.approx(other)
    assert [t.hbm_bytes for t in times] == [n * 2**17 for n in (4, 3.5, 2, 2, 0)]


def test_cube_and_vector_cores_share_what_hbm_gives() -> None:
    """Each of two vector cores loads as many bytes as the cube core beside them loads of its
    second operand; the first one is loaded by both."""
    a, w, r = np.zeros((512, 64), "f2"), np.zeros((64, 64), "f2"), np.zeros((512, 256), "f4")

    @ge.tile.kernel
    def product(c: Tracer, a: Any, w: Any, r: Any, y: Any) -> None:
        A, W, C = c.l1(64, 64), c.l1(64, 64), c.l0c(64, 64)
        s, t = c.ub(64, 64, "f32"), c.ub(64, 256, "f32")
        sums = c.queue(s, 2)
        for i in c.share(8):
            c.load(t, r[i * 64 :, 0:])
            c.load(A, a[i * 64 :, 0:])
            c.load(W, w[0:, 0:])
            c.mmad(C, A, W, init=True)
            sums.send(C, s)
            t[0:64, 0:64] = t[0:64, 0:64] + s
            c.store(y[i * 64 :, 0:], t)

    run = on_cores(product.on(a, w, r, r, cores=8))
    cube, vector = run.traffic.shares(())
    names = dict[SSAValue, str](zip(run.op.body.block.args, "awry", strict=True))
    each = B2.hbm_rate * B2.hbm_efficiency * B2.hbm_read_efficiency
    (total,), (part,) = ((a.nbytes + w.nbytes + r.nbytes,), (r.nbytes,))
    rates = {names[m]: rate for own in (cube, vector) for m, rate in own.hbm.items()}
    assert rates == {
        "a": pytest.approx(each / 2),
        "w": pytest.approx(8 * each / 2),
        "r": pytest.approx(each * part / total),
    }


def test_all_vector_cores_share_l2() -> None:
    """They get 58.5 bytes a cycle each of what L2 gives: CANN's data_copy sample has 5.2 TB/s."""
    x = np.zeros((480, 1024), "f4")

    @ge.tile.kernel
    def copied(c: Tracer, x: Any, y: Any) -> None:
        for i in c.share(480):
            c.store(y[i:, 0:], c.load(c.ub(1, 1024), x[i:, 0:]))

    for cores, read, write in ((24, B2.stated("gm_to_ub_rate"), 86), (48, 58.5, 43)):
        run = on_cores(copied.on(x, x, cores=cores))
        found = run.cycles((1.0,))
        cycles = {
            run.tables.ops[r.op].name: c for r, c in zip(run.tables.records, found, strict=True)
        }
        assert cycles["tile.load"] == pytest.approx(B2.mte2_start_cycles + 4096 / read)
        assert cycles["tile.store"] == pytest.approx(B2.mte2_start_cycles + 4096 / write)


def test_rows_that_begin_within_blocks_of_hbm_take_longer() -> None:
    """Published for this copy on 48 vector cores (CANN's data_copy sample): 203 us with 12288
    columns, 259 us with 12287, 1.28 times as long; to L1, 256 columns at a time, 214.5 and
    422.5. Shorter pieces are as they were, and those that begin at multiples of the least
    request."""

    def cycles(columns: int, rows: int = 64, size: int = 1024, l1: bool = False) -> float:
        @ge.tile.kernel
        def loads(c: Tracer, x: Any, y: Any) -> None:
            t = c.l1(rows, size) if l1 else c.ub(rows, size)
            for i in c.share(12288 // rows):
                c.load(t, x[i * rows :, 0:], pad=0)
                if not l1:
                    c.store(y[i:], t)

        x = ge.tile.Tensor((12288, columns), "f16")
        run = on_cores(loads.on(x, x, cores=24 if l1 else 48))
        found = zip(run.tables.records, run.cycles(), strict=True)
        return max(c for r, c in found if run.tables.ops[r.op].name == "tile.load")

    assert cycles(12287) / cycles(12288) == pytest.approx(1.25, rel=1e-3)
    at_odd_places = cycles(12287, size=256, l1=True) / cycles(12288, size=256, l1=True)
    assert at_odd_places == pytest.approx(422.515 / 214.519, rel=0.03)
    assert cycles(12288 + 128) == cycles(12288)
    assert cycles(12287, size=128) == cycles(12288, size=128)


@pytest.mark.parametrize("apart", [65_280, 65_536, 70_016])
def test_rows_beyond_the_field_of_an_instruction_are_loaded_one_by_one(apart: int) -> None:
    """16 rows of 128 elements to L1: one start up to 65,535 elements apart, then one for each."""
    given = [np.zeros(shape, "f2") for shape in ((16, apart), (16, 16))]
    given.append(np.zeros((16, 128), "f4"))

    def first(c: Tracer, x: Any, w: Any, y: Any) -> None:
        rows, sums = c.l1(16, 128), c.l0c(16, 128)
        c.mmad(sums, c.load(c.l1(16, 16), w[0:, 0:]), c.load(rows, x[0:, 0:]), init=True)
        c.store(y[0:, 0:], sums)

    run = on_cores(ge.tile.kernel(first).on(*given, cores=1, target="910b2"))
    run.time()
    loads = [
        cycles
        for record, cycles in zip(run.tables.records, run.cycles(), strict=True)
        if isinstance(op := run.tables.ops[record.op], LoadOp)
        and tile_type(op.target).cols.data == 128
    ]
    starts = 16 if apart > 65_535 else 1
    alone = starts * B2.mte2_start_cycles + 16 * 256 / B2.l2_read_rate
    of_hbm = 16 * 256 / (B2.hbm_rate * B2.hbm_efficiency * B2.hbm_read_efficiency)
    assert loads == [pytest.approx(max(alone, of_hbm))]
