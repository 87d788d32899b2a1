"""Kernels on emulated cores: times that can be computed by hand, numbers beside numpy's, and what
becomes visible when a flag is missing."""

import json
import sys
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import bf16, f16, f32

sys.path.insert(0, str(Path(__file__).parent))
from sums import assert_matmul
from tile_texts import EXP, GEMM, SOFTMAX, SPLIT, WEIGHTED, WIDE

from ge.dialects.support.errors import GeError
from ge.dialects.targets.target import Target
from ge.dialects.text.reading import SourceText, parse_module
from ge.dialects.tile.kernel import KernelOp
from ge.lowering.driver.context import context
from ge.runtime.cores.kernel import TileKernel
from ge.runtime.cores.report import summary_table
from ge.runtime.data.arrays import Array, dtype_of
from ge.runtime.profile.what_if import changed
from ge.tools.commands import ge_run as main

B2 = Target.load("910b2")
# round numbers: 64 bytes a cycle in, 128 out, a cycle a nanosecond
TARGET = replace(
    B2, clock_ghz=1.0, hbm_rate=1000.0, hbm_efficiency=1.0, hbm_read_efficiency=1.0,
    gm_to_ub_rate=64.0, ub_out_rate=128.0, l2_read_rate=64.0, l0c_out_rate=64.0,
    mte2_start_cycles=46.0, mte1_start_cycles=46.0, l2_write_rate=128.0,
    mmad_start_cycles=6.0, vector_start_cycles=24.0, flag_cycles=20.0, cross_flag_cycles=220.0,
    vector_cycles=B2.vector_cycles | {"exp": 2.0, "copy": 1.0},
)  # fmt: skip


@cache
def parsed(text: str) -> KernelOp:
    module = parse_module(context(), SourceText("k.mlir", text))
    module.verify()
    (op,) = (op for op in module.ops if isinstance(op, KernelOp))
    return op


def kernel(text: str, target: Target = TARGET) -> TileKernel:
    return TileKernel(parsed(text), target)


def test_time_of_three_instructions() -> None:
    """A load of 4096 bytes takes 46 + 4096 / 64 = 110 cycles; with the flag until 130; exp 24 and
    16 repeats of 2, until 186; flag 206; the store 46 + 4096 / 128 = 78 more."""
    time = kernel(EXP).time(with_rows=True)
    assert time.core_us == pytest.approx(0.284)
    assert time.start_us == TARGET.kernel_start_us["vector"]
    assert [p.busy_us for p in time.pipes] == pytest.approx([0.110, 0.078, 0.056])
    assert [p.pipe for p in time.pipes] == ["vector mte2", "vector mte3", "vector v"]
    assert time.pipes[2].waits == pytest.approx({"flag mte2 -> v [0]": 0.130})
    rows = [(r.name, round(r.start_us, 3), round(r.end_us, 3)) for r in time.rows]
    assert sorted(rows) == [
        ("tile.load", 0.0, 0.110), ("tile.map", 0.130, 0.186), ("tile.store", 0.206, 0.284)
    ]  # fmt: skip
    assert [r.place for r in time.rows] == ["k.mlir:7:5", "k.mlir:10:5", "k.mlir:18:5"]


def test_time_is_not_less_than_that_of_hbm() -> None:
    """Without L2 both operands cross HBM once, at the rate that one core gets."""
    slow = replace(TARGET, hbm_rate=1.0, l2_bytes=0)
    time = kernel(EXP, slow).time()
    assert time.hbm_bytes == 2 * 4096
    assert time.hbm_us == pytest.approx(8.192)
    assert time.total_us == time.start_us + time.hbm_us
    assert time.bound == "hbm"
    assert time.pipes[0].busy_us == pytest.approx(4.096)  # loads take the share of one core
    time = kernel(EXP, replace(slow, hbm_read_efficiency=0.25)).time()  # of reading alone
    assert time.hbm_us == pytest.approx(4 * 4.096)
    assert time.pipes[0].busy_us == pytest.approx(4 * 4.096)


def test_a_short_kernel_is_bound_by_its_start() -> None:
    time = kernel(EXP, replace(TARGET, kernel_start_us={"vector": 2.5})).time()
    assert time.bound == "start"


def test_a_vector_unit_that_is_twice_as_fast() -> None:
    """16 repeats of 1 cycle instead of 2; the start stays."""
    later = kernel(EXP, changed(TARGET, "launch=2x")).time()
    assert later.start_us == 2 * TARGET.kernel_start_us["vector"]
    time = kernel(EXP, changed(TARGET, "vector=2x")).time()
    assert time.pipes[2].busy_us == pytest.approx(0.024 + 0.016)


def test_numbers_of_three_instructions() -> None:
    x = np.random.default_rng(0).standard_normal((16, 64), np.float32)
    np.testing.assert_array_equal(kernel(EXP).run({"x": x})["y"], np.exp(x))


def test_numbers_need_no_walk_of_other_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    walked: list[int] = []
    walk = TileKernel.walk

    def counted(tiles: TileKernel, core: int, with_values: bool) -> Any:
        walked.append(core)
        return walk(tiles, core, with_values)

    monkeypatch.setattr(TileKernel, "walk", counted)
    x = np.random.default_rng(0).standard_normal((16, 64), np.float32)
    tiles = kernel(EXP)
    tiles.run({"x": x}, cores=[0])
    tiles.run({"x": x}, cores=[0])
    assert walked == [0]
    tiles.time()
    assert len(walked) == 1 + tiles.op.core_count


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


# ---- the cube --------------------------------------------------------------------------------


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
    run = kernel(gemm(n=cores))
    c = run.run(given)["c"]
    assert_matmul(c, given["a"], given["b"])
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
    coarse = kernel(gemm(n=1), replace(TARGET, cube_block=64)).cycles()
    assert dict(zip(run.cycles(), coarse, strict=True))[6 + 8] == 6 + 32  # 64 rows for 16
    time = run.time()
    assert time.kind == "cube"
    assert time.pipes[2].pipe == "cube m"
    assert time.pipes[2].busy_us == pytest.approx(15 * 0.014)


# ---- the vector unit -------------------------------------------------------------------------


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


def test_a_tile_with_gaps_takes_a_repeat_for_each_row() -> None:
    """The copy of 64 rows of 32 bytes, down the rows: 24 + 64 + 16 cycles, since the repeats are
    not full; of as many bytes without gaps, in the fill of twice as many bytes, 24 + 16."""
    run = kernel(SOFTMAX.format(t="f32"))
    pairs = zip(run.cycles(), run.tables.records, strict=True)
    cycles = [(run.tables.ops[r.op].name, c) for c, r in pairs]
    assert ("tile.fill", 24 + 16) in cycles
    assert ("tile.reduce", 24 + 8 * TARGET.vector_cycles["group_add"] + 24 + 1) in cycles
    assert ("tile.move", 24 + 64 + 16) in cycles


def test_reductions_by_hand() -> None:
    """Three repeats a row: sums of 8 of all 16 x 3, of which two repeats are added to others twice,
    and sums of 8 of those; of columns 8, 4, 2 and 1 rows with as many others. Without the fast
    instruction, 16 x 2 repeats are added in two instructions, then 16 are summed up by rows."""
    run, cycles = kernel(WIDE), TARGET.vector_cycles
    columns = 4 * 24 + 45 * cycles["min"]
    groups = (16 * 3 + 2) * cycles["group_add"] + 2 * 2 * cycles["add"]
    assert run.cycles() == [4 * 24 + groups, columns]
    slow = replace(TARGET, vector_cycles=cycles | {"group_add": 13.0})
    rows = 3 * 24 + 16 * 2 * cycles["add"] + 16 * cycles["row_sum"]
    assert kernel(WIDE, slow).cycles() == [rows, columns]


# ---- cube and vector core together -----------------------------------------------------------


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
    assert time.kind == "attention"
    assert time.total_us > TARGET.kernel_start_us["attention"]
    without_rows = kernel(WEIGHTED.replace("tile.reduce max %s to %top", "tile.fill %top, 0"))
    assert without_rows.time().kind == "mixed"
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


def test_what_a_target_does_not_state_is_said() -> None:
    bare = replace(TARGET, kernel_start_us={}, flag_cycles=0.0, cross_flag_cycles=0.0)
    time = kernel(WEIGHTED, bare).time()
    assert time.unstated == ("kernel_start_us.attention", "flag_cycles", "cross_flag_cycles")
    said = "taken for 0, since 910b2 does not state it: kernel_start_us.attention, flag_cycles"
    assert said in summary_table(time, bare)
    assert not kernel(WEIGHTED).time().unstated


def test_results_stay_in_l2_where_they_fit() -> None:
    size = 16 * 64 * 4
    assert kernel(EXP).time().hbm_bytes == size
    # half of what L2 has no room for is the result
    assert kernel(EXP, replace(TARGET, l2_bytes=size)).time().hbm_bytes == size + size // 2
    assert kernel(EXP, replace(TARGET, split_cores=False)).time().hbm_bytes == 2 * size


def test_vector_cores_beside_a_cube_core_share_rows() -> None:
    rng = np.random.default_rng(2)
    given = {
        name: rng.standard_normal((n, 32), np.float32).astype(np.float16)
        for name, n in {"q": 32, "k": 96, "v": 96}.items()
    }
    one, two = kernel(WEIGHTED), kernel(SPLIT)
    want = one.run(given)["o"].tobytes()
    for seed in (None, *range(10)):
        assert two.run(given, seed)["o"].tobytes() == want
    pipes = {p.pipe: p for p in two.time().pipes}
    assert pipes["vector 0 v"].instructions == pipes["vector 1 v"].instructions == 9
    assert pipes["cube fix"].instructions == 7  # a push of the rows of each
    whole = {p.pipe: p for p in one.time().pipes}
    assert pipes["vector 1 v"].busy_us < whole["vector v"].busy_us
    assert pipes["cube fix"].busy_us == pytest.approx(whole["cube fix"].busy_us)
    assert "a tile in fifo %scores [1]" in pipes["vector 1 mte2"].waits
    few = replace(TARGET, vector_cores=3)
    with pytest.raises(GeError, match="takes 4 vector cores, and '910b2' has 3"):
        kernel(SPLIT, few)


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
        (("cores 2", "cores 25"), "the kernel takes 25 cube cores, and '910b2' has 24"),
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
        text = text.replace("%a[%row", "%a[%m").replace(" pad 0.0", "").replace(" pad 0", "")
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
    told = "error: a tile of i4 is loaded and read by maps, nothing else"
    with pytest.raises(GeError, match=rf"k.mlir:\d+:7: {told}"):
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
        kernel(gemm(), replace(TARGET, l0c_out_rate=0.0, ub_out_rate=0.0)).time()


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
    assert "\ny: float32[16, 64] min" in shown.out
    assert "2 random orders: the same bits" in shown.out
    assert f"on 1 core of 910b2, simulated: start of a vector kernel {start:.2f}" in shown.out
    figures = json.loads(Path(report).read_text("utf-8"))
    assert set(figures) == {"kernel", "target", "numerics", "time"}
    assert list(figures["time"]["pipes"]) == ["vector mte2", "vector mte3", "vector v"]
    rows = [e for e in json.loads(Path(trace).read_text("utf-8"))["traceEvents"] if e["ph"] == "X"]
    assert [r["name"] for r in rows] == ["tile.load", "tile.map", "tile.store"]
    assert max(r["ts"] + r["dur"] for r in rows) == pytest.approx(figures["time"]["core_us"])

    def refused(*arguments: str) -> str:
        assert main([file, *arguments]) == 1
        return capsys.readouterr().err

    assert "--runs needs a program, and this is a kernel" in refused("--runs", "2")
    preset = (files("ge.dialects.targets") / "910b2.toml").read_text("utf-8")
    few = tmp_path / "few.toml"
    few.write_text(preset.replace("exp = 2 ", "# "), "utf-8")
    assert "'vector_cycles' has no instruction 'exp'" in refused("--target", str(few))
    assert main([file, "--timing-only", "--target", "910_merged"]) == 0
    assert "taken for 0, since 910_merged does not state it: " in capsys.readouterr().out
    Path(file).write_text(f'module attributes {{npu_task.target = "910b3"}} {{{EXP}}}', "utf-8")
    assert main([file, "--timing-only"]) == 0
    assert "on 1 core of 910b3, simulated" in capsys.readouterr().out
    np.savez(inputs, z=x)
    assert "there is no input 'z'; input 'x' is missing" in refused("--inputs", inputs)
    Path(file).write_text(EXP.replace("v -> mte3 [%c0]", "v -> mte2 [%c0]"), "utf-8")
    assert "output 'y' has other bits in the random order of seed" in refused(
        "--fuzz-schedule", "9"
    )
    Path(file).write_text(EXP + EXP.replace("@exp", "@again"), "utf-8")
    assert "this has @exp, @again; give each kernel a file of its own" in refused()
    Path(file).write_text(EXP.replace("cores 1", "cores 99"), "utf-8")
    assert "the kernel takes 99 vector cores, and '910b2' has 48" in refused()
