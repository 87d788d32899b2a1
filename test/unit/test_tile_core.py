"""Kernels on emulated cores: times that can be computed by hand, numbers beside numpy's, and what
becomes visible when a flag is missing."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import bf16, f16, f32

from ge.dialects.support.errors import GeError
from ge.dialects.targets.target import Target
from ge.dialects.tile.kernel import KernelOp
from ge.lowering.driver.context import context
from ge.lowering.text.reading import Source, parse_module
from ge.runtime.data.arrays import Array, dtype_of
from ge.runtime.profile.what_if import changed
from ge.runtime.tiles.kernel import TileKernel
from ge.runtime.tiles.queues import (
    POP,
    PUSH,
    RUN,
    SET,
    WAIT,
    BadFlag,
    Latencies,
    Record,
    Stuck,
    random_order,
    simulate,
)
from ge.tools.ge_run import main

B2 = Target.load("910b2")
# round numbers: 64 bytes a cycle in, 128 out, a cycle a nanosecond
TARGET = replace(
    B2, clock_ghz=1.0, hbm_rate=1000.0, hbm_efficiency=1.0, hbm_read_efficiency=1.0,
    gm_to_ub_rate=64.0, ub_out_rate=128.0, l2_read_rate=64.0, l0c_out_rate=64.0,
    mte2_start_cycles=46.0, mte1_start_cycles=46.0,
    mmad_start_cycles=6.0, vector_start_cycles=24.0, flag_cycles=20.0, cross_flag_cycles=220.0,
    vector_cycles=B2.vector_cycles | {"exp": 2.0, "copy": 1.0},
)  # fmt: skip


@cache
def parsed(text: str) -> KernelOp:
    module = parse_module(context(), Source("k.mlir", text))
    module.verify()
    (op,) = (op for op in module.ops if isinstance(op, KernelOp))
    return op


def kernel(text: str, target: Target = TARGET) -> TileKernel:
    return TileKernel(parsed(text), target)


EXP = """
tile.kernel @exp(%x: memref<16x64xf32>, %y: memref<16x64xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  tile.vector {
    %t = tile.alloc at [0] : !tile.tile<16x64xf32, ub>
    %in = tile.view %x[%c0, %c0] : memref<16x64xf32> -> !tile.box<16x64xf32>
    tile.load %in to %t
    tile.set mte2 -> v [%c0]
    tile.wait mte2 -> v [%c0]
    tile.map ins(%t) outs(%t) {
    ^bb0(%0: tensor<16x64xf32>):
      %1 = graph.exp %0 : (tensor<16x64xf32>) -> tensor<16x64xf32>
      tile.yield %1 : tensor<16x64xf32>
    }
    tile.set v -> mte3 [%c0]
    tile.wait v -> mte3 [%c0]
    %out = tile.view %y[%c0, %c0] : memref<16x64xf32> -> !tile.box<16x64xf32>
    tile.store %t to %out
  }
}
"""


def test_time_of_three_instructions() -> None:
    """A load of 4096 bytes takes 46 + 4096 / 64 = 110 cycles; with the flag until 130; exp 24 and
    16 repeats of 2, until 186; flag 206; the store 4096 / 128 = 32 more."""
    time = kernel(EXP).time(with_rows=True)
    assert time.core_us == pytest.approx(0.238)
    assert time.start_us == TARGET.kernel_start_us["vector"]
    assert [p.busy_us for p in time.pipes] == pytest.approx([0.110, 0.032, 0.056])
    assert [p.pipe for p in time.pipes] == ["vector mte2", "vector mte3", "vector v"]
    assert time.pipes[2].waits == pytest.approx({"flag mte2 -> v [0]": 0.130})
    rows = [(r.name, round(r.start_us, 3), round(r.end_us, 3)) for r in time.rows]
    assert sorted(rows) == [
        ("tile.load", 0.0, 0.110), ("tile.map", 0.130, 0.186), ("tile.store", 0.206, 0.238)
    ]  # fmt: skip
    assert [r.place for r in time.rows] == ["k.mlir:7:5", "k.mlir:10:5", "k.mlir:18:5"]


def test_time_is_not_less_than_that_of_hbm() -> None:
    """Both operands cross HBM once, at the rate that one core gets."""
    slow = replace(TARGET, hbm_rate=1.0)
    time = kernel(EXP, slow).time()
    assert time.hbm_bytes == 2 * 4096
    assert time.hbm_us == pytest.approx(8.192)
    assert time.total_us == time.start_us + time.hbm_us
    assert time.bound == "hbm"
    assert time.pipes[0].busy_us == pytest.approx(0.046 + 4.096)  # loads take the share of one core
    time = kernel(EXP, replace(slow, hbm_read_efficiency=0.25)).time()  # of reading alone
    assert time.hbm_us == pytest.approx(4 * 4.096)
    assert time.pipes[0].busy_us == pytest.approx(0.046 + 4 * 4.096)


def test_a_short_kernel_is_bound_by_its_start() -> None:
    time = kernel(EXP, replace(TARGET, kernel_start_us={"vector": 2.5})).time()
    assert time.bound == "start"


def test_a_vector_unit_that_is_twice_as_fast() -> None:
    """16 repeats of 1 cycle instead of 2; the start stays."""
    time = kernel(EXP, changed(TARGET, "vector=2x")).time()
    assert time.pipes[2].busy_us == pytest.approx(0.024 + 0.016)


def test_numbers_of_three_instructions() -> None:
    x = np.random.default_rng(0).standard_normal((16, 64), np.float32)
    np.testing.assert_array_equal(kernel(EXP).run({"x": x})["y"], np.exp(x))


def test_a_missing_flag_shows() -> None:
    """Without the flag the store takes bytes that nothing has written: nan."""
    lines = [line for line in EXP.split("\n") if "v -> mte3" not in line]
    y = kernel("\n".join(lines)).run({"x": np.ones((16, 64), np.float32)})["y"]
    assert np.isnan(y).all()


def test_flags_are_set_and_waited_for_in_turn() -> None:
    twice = EXP.replace("tile.set v", "tile.set v -> mte3 [%c0]\n tile.set v")
    with pytest.raises(GeError, match=r"flag v -> mte3 \[0\] is set while it is set"):
        kernel(twice).run({})
    left = EXP.replace("tile.wait v -> mte3 [%c0]", "")
    with pytest.raises(GeError, match=r"k.mlir:15:5: error: flag .* is still set when the kernel"):
        kernel(left).time()
    with pytest.raises(GeError, match=r"flag .* is still set when the kernel ends"):
        kernel(left).run({}, seed=1)


def test_deadlock_names_both_waits() -> None:
    text = EXP.replace("tile.load", "tile.wait v -> mte2 [%c0]\n tile.load")
    text = text.replace("tile.store", "tile.set v -> mte2 [%c0]\n tile.store")
    with pytest.raises(GeError) as error:
        kernel(text).time()
    lines = str(error.value).split("\n")
    assert lines[0].startswith("k.mlir:7:5: error: the core stops for ever: vector mte2 waits for")
    assert [line.partition(" note: ")[2] for line in lines[1:]] == [
        "vector mte3 waits for flag v -> mte3 [0] at tile.wait",
        "vector v waits for flag mte2 -> v [0] at tile.wait",
    ]
    with pytest.raises(GeError, match="the core stops for ever"):
        kernel(text).run({}, seed=3)


# ---- queues ----------------------------------------------------------------------------------


def order(queues: Any, records: Any, depths: dict[int, int], seed: int) -> list[tuple[int, int]]:
    return [(p, n) for p, n in random_order(queues, records, depths, Random(seed))]


def test_a_fifo_stops_both_sides() -> None:
    """One place: the second push waits for the first pop, which waits for the first push."""
    records = [Record(PUSH, 0, 0, 0, ()), Record(POP, 1, 0, 1, ())]
    done = simulate([[0, 0], [1, 1]], records, [10.0, 30.0], {0: 1}, Latencies(20.0, 5.0))
    # pushes end at 10 and 45 + 5 + 10, pops at 15 + 30 and 65 + 30
    assert done.ends == [60.0, 95.0]
    assert done.waited == [{~0: 40.0}, {0: 15.0 + 20.0}]
    assert order([[0, 0], [1, 1]], records, {0: 1}, 0) == [(0, 0), (1, 0), (0, 1), (1, 1)]


def test_random_orders_keep_to_flags() -> None:
    """The wait comes after the set in each, whatever else changes places."""
    records = [Record(RUN, 0, -1, 0, ()), Record(SET, 0, 0, 1, ()), Record(WAIT, 1, 0, 2, ())]
    queues = [[0, 1, 0], [0, 2, 0]]
    seen = {tuple(order(queues, records, {}, seed)) for seed in range(40)}
    assert len(seen) > 1
    assert all(o.index((0, 1)) < o.index((1, 1)) for o in seen)


def test_simulated_and_random_orders_stop_alike() -> None:
    wait, again = Record(WAIT, 0, 0, 0, ()), Record(SET, 1, 0, 1, ())
    for queues, problem in (([[0], []], Stuck), ([[0], [1, 1]], BadFlag), ([[], [1]], BadFlag)):
        with pytest.raises(problem):
            simulate(queues, [wait, again], [0.0, 0.0], {}, Latencies(1.0, 1.0))
        with pytest.raises(problem):
            order(queues, [wait, again], {}, 0)


# ---- the cube --------------------------------------------------------------------------------

GEMM = """
tile.kernel @gemm(%a: memref<72x96x{t}>, %b: memref<96x40x{t}>, %c: memref<72x40x{o}>) cores {n} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %c5 = arith.constant 5 : index
  %c16 = arith.constant 16 : index
  %c32 = arith.constant 32 : index
  tile.cube {{
    %A = tile.alloc at [0, 2048] : !tile.ring<2 x 16x32x{t}, l1>
    %B = tile.alloc at [4096, 8192] : !tile.ring<2 x 32x64x{t}, l1>
    %LA = tile.alloc at [0, 2048] : !tile.ring<2 x 16x32x{t}, l0a>
    %LB = tile.alloc at [0, 8192] : !tile.ring<2 x 32x64x{t}, l0b>
    %acc = tile.alloc at [0] : !tile.tile<16x64x{s}, l0c>
    %me = tile.core
    %cores = tile.cores
    scf.for %k = %c0 to %c2 step %c1 {{
      tile.set mte1 -> mte2 [%k]
      tile.set m -> mte1 [%k]
    }}
    scf.for %i = %me to %c5 step %cores {{
      %row = arith.muli %i, %c16 : index
      scf.for %k = %c0 to %c3 step %c1 {{
        %s = arith.remui %k, %c2 : index
        %col = arith.muli %k, %c32 : index
        %as = tile.slot %A[%k] : !tile.ring<2 x 16x32x{t}, l1>
        %bs = tile.slot %B[%k] : !tile.ring<2 x 32x64x{t}, l1>
        %la = tile.slot %LA[%k] : !tile.ring<2 x 16x32x{t}, l0a>
        %lb = tile.slot %LB[%k] : !tile.ring<2 x 32x64x{t}, l0b>
        %ab = tile.view %a[%row, %col] : memref<72x96x{t}> -> !tile.box<16x32x{t}>
        %bb = tile.view %b[%col, %c0] : memref<96x40x{t}> -> !tile.box<32x64x{t}>
        tile.wait mte1 -> mte2 [%s]
        tile.load %ab to %as pad 0
        tile.load %bb to %bs pad 0
        tile.set mte2 -> mte1 [%s]
        tile.wait mte2 -> mte1 [%s]
        tile.wait m -> mte1 [%s]
        tile.move %as to %la
        tile.move %bs to %lb
        tile.set mte1 -> mte2 [%s]
        tile.set mte1 -> m [%s]
        tile.wait mte1 -> m [%s]
        %first = arith.cmpi eq, %k, %c0 : index
        tile.mmad %acc, %la, %lb init %first
        tile.set m -> mte1 [%s]
      }}
      tile.set m -> fix [%c0]
      tile.wait m -> fix [%c0]
      %cb = tile.view %c[%row, %c0] : memref<72x40x{o}> -> !tile.box<16x64x{o}>
      tile.store %acc to %cb {relu}
      tile.set fix -> m [%c0]
      tile.wait fix -> m [%c0]
    }}
    scf.for %k = %c0 to %c2 step %c1 {{
      tile.wait mte1 -> mte2 [%k]
      tile.wait m -> mte1 [%k]
    }}
  }}
}}
"""


def gemm(t: str = "f16", s: str = "f32", o: str = "f32", relu: str = "", n: int = 2) -> str:
    return GEMM.format(t=t, s=s, o=o, relu=relu, n=n)


def matrices(dtype: Any = np.float16) -> dict[str, Array]:
    rng = np.random.default_rng(1)
    if np.dtype(dtype).kind == "i":
        return {n: rng.integers(-128, 128, s).astype(dtype) for n, s in SHAPES.items()}
    return {n: rng.standard_normal(s, np.float32).astype(dtype) for n, s in SHAPES.items()}


SHAPES = {"a": (72, 96), "b": (96, 40)}


@pytest.mark.parametrize("cores", [1, 2, 3])
def test_gemm(cores: int) -> None:
    """Rows and columns do not come out even: what lies beyond is padded and not written."""
    given = matrices()
    want = given["a"].astype(np.float32) @ given["b"].astype(np.float32)
    run = kernel(gemm(n=cores))
    c = run.run(given)["c"]
    np.testing.assert_allclose(c, want, rtol=1e-5, atol=1e-5)
    for seed in range(8):
        assert run.run(given, seed)["c"].tobytes() == c.tobytes()


def test_gemm_of_integers_and_the_fixpipe() -> None:
    given = matrices(np.int8)
    want = given["a"].astype(np.int32) @ given["b"].astype(np.int32)
    np.testing.assert_array_equal(kernel(gemm("i8", "i32", "i32")).run(given)["c"], want)
    given = matrices()
    c = kernel(gemm(o="f16", relu="relu")).run(given)["c"]
    assert c.dtype == np.float16
    assert c.min() == 0


def test_splits_of_sums_are_added() -> None:
    """`add` to a result that is given, or 0."""
    run, given = kernel(gemm(relu="add")), matrices()
    c = run.run(given)["c"]
    np.testing.assert_array_equal(run.run({**given, "c": c})["c"], 2 * c)
    assert run.run(given, seed=5)["c"].tobytes() == c.tobytes()


PAIRS = (
    "tile.set mte2 -> mte1 [%s]", "tile.set m -> fix [%c0]", "tile.set mte1 -> m [%s]",
    "tile.set fix -> m [%c0]",
)  # fmt: skip


@pytest.mark.parametrize("pair", PAIRS)
def test_random_orders_show_missing_flags(pair: str) -> None:
    """Both ends of a flag are gone: some order gives other bits, or sets another flag twice."""
    given, text = matrices(), gemm()
    want = kernel(text).run(given)["c"].tobytes()
    broken = kernel(text.replace(pair, "").replace(pair.replace("set", "wait"), ""))

    def is_seen(seed: int) -> bool:
        try:
            return broken.run(given, seed)["c"].tobytes() != want
        except GeError as error:
            return "is set while it is set" in error.message

    assert any(map(is_seen, range(10)))


def test_time_of_a_product_by_hand() -> None:
    """15 products of 16 x 32 by 32 x 64, which are 4 x 2 blocks, each in 6 + 8 cycles."""
    run = kernel(gemm(n=1))
    pairs = zip(run.cycles(), run.tables.records, strict=True)
    cycles = {run.tables.ops[r.op].name: c for c, r in pairs}
    assert cycles["tile.mmad"] == 6 + 8
    assert cycles["tile.set"] == 0
    time = run.time()
    assert time.kind == "cube"
    assert time.pipes[2].pipe == "cube m"
    assert time.pipes[2].busy_us == pytest.approx(15 * 0.014)


# ---- the vector unit -------------------------------------------------------------------------

SOFTMAX = """
tile.kernel @softmax(%x: memref<20x3x50x{t}>, %n: memref<20xi32>, %y: memref<50x20xf32>) cores 3 {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c8 = arith.constant 8 : index
  tile.vector {{
    %x0 = tile.alloc at [0] : !tile.tile<8x64x{t}, ub>
    %lengths = tile.alloc at [4096] : !tile.tile<8x1xi32, ub>
    %cols = tile.alloc at [4160] : !tile.tile<1x64xi32, ub>
    %s = tile.alloc at [8192] : !tile.tile<8x64xf32, ub>
    %m = tile.alloc at [10240] : !tile.tile<8x1xf32, ub>
    %tr = tile.alloc at [10304] : !tile.tile<64x8xf32, ub>
    %top = tile.alloc at [16384] : !tile.tile<64x16xf32, ub>
    %me = tile.core
    %row = arith.muli %me, %c8 : index
    %in = tile.view %x[%row, %c2, %c0] sizes [8, 1, 64] : memref<20x3x50x{t}> -> !tile.box<8x64x{t}>
    tile.load %in to %x0 pad -inf
    %nb = tile.view %n[%row] : memref<20xi32> -> !tile.box<8x1xi32>
    tile.load %nb to %lengths pad 0
    tile.set mte2 -> v [%c0]
    tile.wait mte2 -> v [%c0]
    tile.index columns %c0 to %cols
    tile.map ins(%x0, %cols, %lengths) outs(%s) {{
    ^bb0(%0: tensor<8x64x{t}>, %1: tensor<1x64xi32>, %2: tensor<8x1xi32>):
      %3 = graph.compare "lt" %1, %2 : (tensor<1x64xi32>, tensor<8x1xi32>) -> tensor<8x64xi1>
      %4 = graph.constant dense<0xFF800000> : tensor<f32>
      %5 = graph.cast %0 to f32 : (tensor<8x64x{t}>) -> tensor<8x64xf32>
      %6 = graph.select %3, %5, %4
        : (tensor<8x64xi1>, tensor<8x64xf32>, tensor<f32>) -> tensor<8x64xf32>
      tile.yield %6 : tensor<8x64xf32>
    }}
    tile.reduce max %s to %m
    tile.map ins(%s, %m) outs(%s) {{
    ^bb0(%0: tensor<8x64xf32>, %1: tensor<8x1xf32>):
      %2 = graph.sub %0, %1 : (tensor<8x64xf32>, tensor<8x1xf32>) -> tensor<8x64xf32>
      %3 = graph.exp %2 : (tensor<8x64xf32>) -> tensor<8x64xf32>
      tile.yield %3 : tensor<8x64xf32>
    }}
    tile.reduce sum %s to %m
    tile.map ins(%s, %m) outs(%s) {{
    ^bb0(%0: tensor<8x64xf32>, %1: tensor<8x1xf32>):
      %2 = graph.div %0, %1 : (tensor<8x64xf32>, tensor<8x1xf32>) -> tensor<8x64xf32>
      tile.yield %2 : tensor<8x64xf32>
    }}
    tile.move %s to %tr transposed
    tile.fill %top, 7
    %left = tile.view %top[%c0, %c8] : !tile.tile<64x16xf32, ub> -> !tile.tile<64x8xf32, ub>
    tile.move %tr to %left
    tile.set v -> mte3 [%c0]
    tile.wait v -> mte3 [%c0]
    %out = tile.view %y[%c0, %row] : memref<50x20xf32> -> !tile.box<64x8xf32>
    tile.store %left to %out
  }}
}}
"""


@pytest.mark.parametrize("element", ["f16", "bf16", "f32"])
def test_softmax(element: str) -> None:
    """Of one head, of as many columns as each row says, transposed: rows and columns do not come
    out even, boxes are of three dimensions, what is stored is a part of a tile."""
    x = np.random.default_rng(3).standard_normal((20, 3, 50), np.float32)
    dtype = dtype_of({"f16": f16, "bf16": bf16, "f32": f32}[element])
    x, n = x.astype(dtype), np.arange(1, 21, dtype=np.int32)
    masked = np.where(np.arange(50) < n[:, None], x[:, 2].astype(np.float32), -np.inf)
    weights = np.exp(masked - masked.max(1, keepdims=True))
    run = kernel(SOFTMAX.format(t=element))
    y = run.run({"x": x, "n": n})["y"]
    np.testing.assert_allclose(y, (weights / weights.sum(1, keepdims=True)).T, rtol=1e-6)
    assert all(run.run({"x": x, "n": n}, s)["y"].tobytes() == y.tobytes() for s in range(5))
    assert run.kind == "row"


def test_a_tile_with_gaps_takes_a_piece_for_each_row() -> None:
    """The copy of 64 rows of 32 bytes: 24 + 64 (1 + 16) cycles; of as many bytes without gaps, in
    the fill of twice as many bytes, 24 + 16."""
    run = kernel(SOFTMAX.format(t="f32"))
    pairs = zip(run.cycles(), run.tables.records, strict=True)
    cycles = [(run.tables.ops[r.op].name, c) for c, r in pairs]
    assert ("tile.fill", 24 + 16) in cycles
    assert ("tile.reduce", 24 + 8 * TARGET.vector_cycles["row_max"]) in cycles
    assert ("tile.move", 24 + 64 * 17) in cycles


WIDE = """
tile.kernel @wide(%x: memref<16x192xf32>, %y: memref<16x1xf32>, %z: memref<1x192xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  tile.vector {
    %t = tile.alloc at [0] : !tile.tile<16x192xf32, ub>
    %m = tile.alloc at [12288] : !tile.tile<16x1xf32, ub>
    %n = tile.alloc at [12352] : !tile.tile<1x192xf32, ub>
    tile.reduce sum %t to %m
    tile.reduce min %t to %n
  }
}
"""


def test_reductions_by_hand() -> None:
    """Three repeats a row: 16 x 2 are added in two instructions, then 16 are summed up by rows; of
    columns all 48 are compared."""
    run, cycles = kernel(WIDE), TARGET.vector_cycles
    assert run.cycles() == [
        3 * 24 + 16 * 2 * cycles["add"] + 16 * cycles["row_sum"], 24 + 48 * cycles["min"]
    ]  # fmt: skip


# ---- cube and vector core together -----------------------------------------------------------

WEIGHTED = """
tile.kernel @weighted(%q: memref<32x32xf16>, %k: memref<96x32xf16>, %v: memref<96x32xf16>,
                      %o: memref<32x32xf32>) cores 2 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c16 = arith.constant 16 : index
  %c32 = arith.constant 32 : index
  %scores = tile.fifo depth 2 : !tile.fifo<16x32xf32>
  %weights = tile.fifo depth 2 : !tile.fifo<16x32xf16>
  tile.cube {
    %Q = tile.alloc at [0] : !tile.tile<16x32xf16, l1>
    %K = tile.alloc at [1024] : !tile.tile<32x32xf16, l1>
    %P = tile.alloc at [3072] : !tile.tile<16x32xf16, l1>
    %la = tile.alloc at [0] : !tile.tile<16x32xf16, l0a>
    %lb = tile.alloc at [0] : !tile.tile<32x32xf16, l0b>
    %s = tile.alloc at [0] : !tile.tile<16x32xf32, l0c>
    %acc = tile.alloc at [2048] : !tile.tile<16x32xf32, l0c>
    %me = tile.core
    %row = arith.muli %me, %c16 : index
    %qb = tile.view %q[%row, %c0] : memref<32x32xf16> -> !tile.box<16x32xf16>
    tile.load %qb to %Q
    scf.for %j = %c0 to %c3 step %c1 {
      %col = arith.muli %j, %c32 : index
      %kb = tile.view %k[%col, %c0] : memref<96x32xf16> -> !tile.box<32x32xf16>
      %vb = tile.view %v[%col, %c0] : memref<96x32xf16> -> !tile.box<32x32xf16>
      tile.load %kb to %K
      tile.set mte2 -> mte1 [%c0]
      tile.wait mte2 -> mte1 [%c0]
      tile.move %Q to %la
      tile.move %K to %lb transposed
      tile.set mte1 -> m [%c0]
      tile.set mte1 -> mte2 [%c0]
      tile.wait mte1 -> m [%c0]
      tile.mmad %s, %la, %lb init %true
      tile.set m -> fix [%c0]
      tile.set m -> mte1 [%c0]
      tile.wait m -> fix [%c0]
      tile.push %s to %scores
      tile.wait mte1 -> mte2 [%c0]
      tile.load %vb to %K
      tile.pop %weights to %P
      tile.set mte2 -> mte1 [%c0]
      tile.wait mte2 -> mte1 [%c0]
      tile.wait m -> mte1 [%c0]
      tile.move %P to %la
      tile.move %K to %lb
      tile.set mte1 -> m [%c0]
      tile.set mte1 -> mte2 [%c0]
      tile.wait mte1 -> mte2 [%c0]
      tile.wait mte1 -> m [%c0]
      %first = arith.cmpi eq, %j, %c0 : index
      tile.mmad %acc, %la, %lb init %first
      tile.set m -> mte1 [%c0]
      tile.wait m -> mte1 [%c0]
      tile.set fix -> m [%c0]
      tile.wait fix -> m [%c0]
    }
    tile.set m -> fix [%c0]
    tile.wait m -> fix [%c0]
    %ob = tile.view %o[%row, %c0] : memref<32x32xf32> -> !tile.box<16x32xf32>
    tile.store %acc to %ob
  }
  tile.vector {
    %s = tile.alloc at [0] : !tile.tile<16x32xf32, ub>
    %n = tile.alloc at [2048] : !tile.tile<1x32xi32, ub>
    %p = tile.alloc at [4096] : !tile.tile<16x32xf16, ub>
    %top = tile.alloc at [8192] : !tile.tile<16x1xf32, ub>
    scf.for %j = %c0 to %c3 step %c1 {
      %col = arith.muli %j, %c32 : index
      tile.pop %scores to %s
      tile.set mte2 -> v [%c0]
      tile.wait mte2 -> v [%c0]
      tile.index columns %col to %n
      tile.reduce max %s to %top
      tile.map ins(%s, %n, %top) outs(%p) {
      ^bb0(%0: tensor<16x32xf32>, %1: tensor<1x32xi32>, %2: tensor<16x1xf32>):
        %3 = graph.sub %0, %2 : (tensor<16x32xf32>, tensor<16x1xf32>) -> tensor<16x32xf32>
        %4 = graph.exp %3 : (tensor<16x32xf32>) -> tensor<16x32xf32>
        %5 = graph.cast %1 to f32 : (tensor<1x32xi32>) -> tensor<1x32xf32>
        %6 = graph.mul %4, %5 : (tensor<16x32xf32>, tensor<1x32xf32>) -> tensor<16x32xf32>
        %7 = graph.cast %6 to f16 : (tensor<16x32xf32>) -> tensor<16x32xf16>
        tile.yield %7 : tensor<16x32xf16>
      }
      tile.set v -> mte3 [%c0]
      tile.set v -> mte2 [%c0]
      tile.wait v -> mte2 [%c0]
      tile.wait v -> mte3 [%c0]
      tile.push %p to %weights
      tile.set mte3 -> v [%c0]
      tile.wait mte3 -> v [%c0]
    }
  }
}
""".replace("  tile.cube {", "  %true = arith.constant true\n  tile.cube {")


def test_two_programs_talk_by_fifos() -> None:
    """exp of scores less those of the best column in a block, times the column's number."""
    rng = np.random.default_rng(2)
    q, k, v = (rng.standard_normal((n, 32), np.float32).astype(np.float16) for n in (32, 96, 96))
    want = np.zeros((32, 32), np.float32)
    for block in range(0, 96, 32):
        part = slice(block, block + 32)
        scores = q.astype(np.float32) @ k[part].astype(np.float32).T
        weights = np.exp(scores - scores.max(1, keepdims=True)) * np.arange(block, block + 32)
        want += weights.astype(np.float16).astype(np.float32) @ v[part].astype(np.float32)
    run, given = kernel(WEIGHTED), {"q": q, "k": k, "v": v}
    o = run.run(given)["o"]
    np.testing.assert_allclose(o, want, rtol=1e-3, atol=1e-2)
    for seed in range(10):
        assert run.run(given, seed)["o"].tobytes() == o.tobytes()
    time = run.time()
    assert time.kind == "mixed"
    assert time.total_us > TARGET.kernel_start_us["mixed"]
    assert {p.pipe: p.instructions for p in time.pipes} == {
        "cube mte1": 12, "cube mte2": 10, "cube m": 6, "cube fix": 4,
        "vector mte2": 3, "vector mte3": 3, "vector v": 9,
    }  # fmt: skip
    waits = {p.pipe: set(p.waits) for p in time.pipes}
    assert "a tile in fifo %scores" in waits["vector mte2"]
    assert "a tile in fifo %weights" in waits["cube mte2"]
    again = WEIGHTED.replace(
        "tile.wait mte3 -> v", "tile.push %p to %weights\n tile.wait mte3 -> v"
    )
    with pytest.raises(GeError, match="fifo %weights is not empty when the kernel ends; pop all"):
        kernel(again.replace("depth 2", "depth 6")).time()
    slow = kernel(WEIGHTED, replace(TARGET, cross_flag_cycles=1000.0)).time()
    assert slow.core_us - time.core_us == pytest.approx(3 * 2 * 0.78)  # there and back, three times


# ---- time ------------------------------------------------------------------------------------


def test_time_is_monotonic() -> None:
    """More cores are not slower, slower parts not faster."""
    times = [kernel(gemm(n=n)).time().core_us for n in (1, 2, 3, 5)]
    assert times == sorted(times, reverse=True)
    base = kernel(gemm()).time().total_us
    for key in ("mte1_start_cycles", "mte2_start_cycles", "mmad_start_cycles", "flag_cycles"):
        assert kernel(gemm(), replace(TARGET, **{key: 100.0})).time().total_us > base
    for key in ("l2_read_rate", "l0c_out_rate", "l1_to_l0a_rate", "l1_to_l0b_rate", "hbm_rate"):
        assert kernel(gemm(), replace(TARGET, **{key: 1.0})).time().total_us > base


def test_cores_that_issue_the_same_are_simulated_once() -> None:
    issued = kernel(gemm(n=5)).issued
    assert len({id(issue) for issue in issued}) == 2  # the last one has fewer rows
    assert kernel(gemm(n=5)).time().cores == 5


# ---- bad input -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("at [0, 2048] : !tile.ring<2 x 16x32xf16, l1>", ": !tile.ring<2 x 16x32xf16, l1>"),
         "k.mlir:11:10: error: a buffer in l1 has no offset; ge-opt -p tile-plan"),
        (("at [4096, 8192]", "at [4096, 524256]"),
         "the buffer %B does not fit into l1: it ends at byte 528352 of 524288"),
        (("cores 2", "cores 25"), "the kernel takes 25 cores, and '910b2' has 24 cube cores"),
        (("tile.set m -> fix [%c0]", "tile.set m -> fix [%c16]"),
         r"there is no flag 16: '910b2' has 8 from m to fix"),
        (("tile.set mte1 -> m [%s]", "tile.set mte1 -> m [%col]"), "there is no flag 32"),
        (("%k, %c32 : index", "%c32, %k : index\n %x = arith.divui %k, %k : index"),
         "core 0 divides an index by zero"),
        (("%me to %c5 step %cores", "%me to %c5 step %me"),
         "a loop goes on by at least 1, not by 0"),
        (("%i, %c16 : index", "%i, %c16 : index\n %m = arith.subi %row, %c16 : index"),
         r"a box of sizes \[16, 32\] at \[-16, 0\] begins before the memref"),
    ],
)  # fmt: skip
def test_bad_input(change: tuple[str, str], message: str) -> None:
    text = gemm().replace(*change)
    if "subi" in change[1]:
        text = text.replace("%a[%row", "%a[%m")
    with pytest.raises(GeError, match=message):
        kernel(text).time()


def test_tiles_of_packed_elements() -> None:
    text = SOFTMAX.format(t="f32").replace(
        "tile.fill %top, 7",
        """
      %five = tile.alloc at [65536] : !tile.tile<1x64xi4, ub>
      tile.fill %five, 7""",
    )
    given = {"x": np.zeros((20, 3, 50), np.float32), "n": np.ones(20, np.int32)}
    with pytest.raises(GeError, match=r"k.mlir:\d+:7: error: the emulated core has no tiles of i4"):
        kernel(text).run(given)


def test_indices_are_integers() -> None:
    text = EXP.replace(
        "tile.load",
        """
      %true = arith.constant true
      %f = arith.constant 1.0 : f32
      %b = arith.select %true, %t, %t : !tile.tile<16x64xf32, ub>
      tile.load""",
    )
    with pytest.raises(GeError, match="a core computes integers itself, and no !tile"):
        kernel(text).time()


def test_a_target_that_lacks_a_rate() -> None:
    with pytest.raises(GeError, match="the target does not state 'l0c_out_rate'"):
        kernel(gemm(), replace(TARGET, l0c_out_rate=0.0)).time()


# ---- ge-run ----------------------------------------------------------------------------------


def test_ge_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Numbers from one file to another, the time by pipe, a trace of the pipes."""
    file, inputs, outputs, trace, report = (
        str(tmp_path / n) for n in ("k.mlir", "x.npz", "y.npz", "t.json", "r.json")
    )
    Path(file).write_text(EXP, "utf-8")
    x = np.random.default_rng(0).standard_normal((16, 64), np.float32)
    np.savez(inputs, x=x)
    flags = ["--inputs", inputs, "--outputs", outputs, "--trace", trace, "--report", report]
    assert main([file, *flags, "--fuzz-schedule", "2"]) == 0
    np.testing.assert_array_equal(np.load(outputs)["y"], np.exp(x))
    shown, start = capsys.readouterr(), B2.kernel_start_us["vector"]
    assert shown.out.startswith("y: float32[16, 64] min")
    assert "2 random orders: the same bits" in shown.err
    assert f"on 1 core of 910b2: start of a vector kernel {start:.2f}" in shown.err
    figures = json.loads(Path(report).read_text("utf-8"))
    assert set(figures) == {"kernel", "target", "numerics", "time"}
    assert list(figures["time"]["pipes"]) == ["vector mte2", "vector mte3", "vector v"]
    rows = [e for e in json.loads(Path(trace).read_text("utf-8"))["traceEvents"] if e["ph"] == "X"]
    assert [r["name"] for r in rows] == ["tile.load", "tile.map", "tile.store"]
    assert max(r["ts"] + r["dur"] for r in rows) == pytest.approx(figures["time"]["core_us"])

    def refused(*arguments: str) -> str:
        assert main([file, *arguments]) == 1
        return capsys.readouterr().err

    assert "--runs is of programs, and this is a kernel" in refused("--runs", "2")
    assert "the target does not state 'gm_to_ub_rate'" in refused("--target", "910b1")
    Path(file).write_text(f'module attributes {{npu_task.target = "910b3"}} {{{EXP}}}', "utf-8")
    assert main([file, "--timing-only"]) == 0
    assert "on 1 core of 910b3" in capsys.readouterr().err
    np.savez(inputs, z=x)
    assert "there is no input 'z'; input 'x' is missing" in refused("--inputs", inputs)
    Path(file).write_text(EXP.replace("v -> mte3 [%c0]", "v -> mte2 [%c0]"), "utf-8")
    assert "output 'y' has other bits in the random order of seed" in refused(
        "--fuzz-schedule", "9"
    )
    Path(file).write_text(EXP + EXP.replace("@exp", "@again"), "utf-8")
    assert "this has @exp, @again; give each kernel a file of its own" in refused()
    Path(file).write_text(EXP.replace("cores 1", "cores 99"), "utf-8")
    assert "the kernel takes 99 cores, and '910b2' has 48 vector cores" in refused()
