"""Kernels in Python: traced, proved, run in any order of the pipes, and timed."""

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from ml_dtypes import int4

sys.path.insert(0, str(Path(__file__).parent))
import kernels_by_hand as examples
from sums import assert_matmul
from tile_lowering import compare

import ge
from ge.dialects.fused_op import UserKernels
from ge.dialects.support.context import having
from ge.dialects.support.errors import GeError
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context
from ge.runtime.cores.kernel import TileKernel
from ge.tools.commands import ge_check, ge_run

Array = Any
tile = ge.tile


def normal(*shape: int, dtype: str = "f2") -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def wide(x: Array) -> Array:
    return x.astype("f4")


def gemm_case() -> tuple[list[Array], Array]:
    a, b = normal(300, 192), normal(192, 272)
    return [a, b, np.zeros((300, 272), "f2")], np.maximum(wide(a) @ wide(b), 0)


def rms_norm_case() -> tuple[list[Array], Array]:
    x, w = normal(50, 256), normal(256)
    f = wide(x)
    return [x, w, np.zeros_like(x)], f / np.sqrt((f * f).mean(1, keepdims=True) + 1e-6) * wide(w)


def conv_case() -> tuple[list[Array], Array]:
    x, w = normal(6, 36, 32), normal(9, 32, 48)
    parts = [wide(x[i // 3 : i // 3 + 4, i % 3 : i % 3 + 34]) @ wide(w[i]) for i in range(9)]
    return [x, w, np.zeros((4, 34, 48), "f4")], np.sum(parts, axis=0)


def w4a16_case() -> tuple[list[Array], Array]:
    a, scale = normal(70, 96), normal(2, 144) / 8
    w = np.random.default_rng(1).integers(-8, 8, (96, 144)).astype(int4)
    scales = np.repeat(wide(scale), 64, axis=0)[:96]
    return [a, w, scale, np.zeros((70, 144), "f2")], wide(a) @ (wide(w) * scales)


def w8a16_case() -> tuple[list[Array], Array]:
    (a, w, scale, out), expected = w4a16_case()
    return [a, w.astype("i1"), scale, out], expected


def flash_case() -> tuple[list[Array], Array]:
    q, k, v = normal(128, 64), normal(384, 64), normal(384, 64)[::-1].copy()
    s = wide(q) @ wide(k).T / 8
    e = np.exp(s - s.max(1, keepdims=True))
    return [q, k, v, np.zeros((128, 64), "f4")], e / e.sum(1, keepdims=True) @ wide(v)


def paged_case() -> tuple[list[Array], Array]:
    """Two sequences, of which one ends within its second page."""
    q, k, v = normal(2, 2, 4, 64), normal(6, 16, 2, 64), normal(6, 16, 2, 64)[::-1].copy()
    table, lengths = np.array([[4, 0, 2], [1, 5, 3]]), np.array([48, 17], "i4")
    expected = np.zeros((2, 2, 4, 64), "f4")
    for b, n in enumerate(lengths):
        keys, values = (wide(x[table[b]]).reshape(-1, 2, 64)[:n] for x in (k, v))
        for h, head in np.ndindex(2, 4):
            e = np.exp(keys[:, h] @ wide(q[b, h, head]) / 8)
            expected[b, h, head] = e / e.sum() @ values[:, h]
    return [q, k, v, table, lengths, np.zeros_like(expected)], expected


def grouped_case() -> tuple[list[Array], Array]:
    a, w, expert = normal(384, 96), normal(4, 96, 80), np.array([2, 0, 3])
    parts = [wide(x) @ wide(w[e]) for x, e in zip(np.split(a, 3), expert, strict=True)]
    return [a, w, expert, np.zeros((384, 80), "f4")], np.concatenate(parts)


def ragged_case() -> tuple[list[Array], Array]:
    """A group without rows, and groups that end within a block."""
    a, w, offsets = normal(300, 96), normal(4, 96, 80), np.array([0, 0, 70, 213, 300], "i4")
    parts = [wide(a[offsets[e] : offsets[e + 1]]) @ wide(w[e]) for e in range(4)]
    return [a, w, offsets, np.zeros((300, 80), "f4")], np.concatenate(parts)


CASES: list[Any] = [
    (examples.gemm, gemm_case, 14, {}),
    (examples.rms_norm, rms_norm_case, 12, {}),
    (examples.conv3x3, conv_case, 16, {}),
    (examples.w4a16, w4a16_case, 15, {}),
    (examples.w4a16, w8a16_case, 15, {}),
    (examples.flash, flash_case, 31, {"ahead": 1}),
    pytest.param(examples.flash, flash_case, 31, {"ahead": 2}, marks=pytest.mark.soak),
    (examples.paged_decode, paged_case, 48, {}),
    (examples.grouped_gemm, grouped_case, 13, {}),
    (examples.ragged_gemm, ragged_case, 15, {"M": 64}),
]


@pytest.mark.parametrize(("kernel", "case", "lines", "parameters"), CASES)
def test_examples(kernel: Any, case: Any, lines: int, parameters: dict[str, Any]):
    arrays, expected = case()
    program = kernel.on(*arrays, cores=2, target="910b2", **parameters)
    assert not program.check().problems
    program.run(*arrays)
    out = arrays[-1].copy()
    np.testing.assert_allclose(wide(out), expected, rtol=4e-3, atol=4e-3 * np.abs(expected).max())
    for seed in range(max(2, settings().max_examples // 8)):
        arrays[-1][...] = 0
        program.run(*arrays, seed=seed)
        np.testing.assert_array_equal(arrays[-1], out)
    assert len(inspect.getsource(kernel.function).splitlines()) <= lines


def test_numbers_that_are_read():
    """Proved for all of them, or it is said for which; those out of range are refused."""
    arrays, _ = grouped_case()
    program = examples.grouped_gemm.on(*arrays, cores=2)
    assert program.check().summary.endswith(
        "in any order of the pipes, provided that the numbers of %expert are in the ranges that it "
        "states"
    )
    arrays[2][1] = 4
    with pytest.raises(GeError, match=r"the number read at \[1\] is 4, not at least 0 and below 4"):
        program.run(*arrays)
    proof = examples.paged_decode.on(*paged_case()[0], cores=2).check()
    assert "the least and the largest of each number that it reads, not for all" in proof.summary

    @tile.kernel
    def apart(c: Any, ids: Any, x: Any, out: Any) -> None:
        t, (a, b) = c.ub(1, 16, "f16"), (c.read(ids[i], below=4) for i in (0, 1))
        c.load(t, x[a - b, 0:])  # before the memref where one is 0 and the other is not
        c.store(out[0, 0:], t)

    square = normal(16, 16)
    proof = apart.on(arrays[2], square, square, cores=1).check()
    assert proof.problems or "not for all" in proof.summary

    @tile.kernel
    def rows(c: Any, ids: Any, out: Any) -> None:
        c.load(c.ub(1, 8), out[c.read(ids[0:], below=8) :])

    with pytest.raises(GeError, match="one number is read"):
        rows.on(arrays[2], normal(8))


def test_a_block_ahead_is_faster():
    arrays, _ = flash_case()
    times = [
        examples.flash.on(*arrays, cores=2, target="910b2", ahead=n).time().core_us for n in (0, 1)
    ]
    assert times[1] < times[0]


def test_two_blocks_ahead_gain_what_was_published():
    """One block of keys ahead takes 62.6 / 46.6 of the time of two, on the chip: the shape is not
    known, the ratio hardly depends on it."""
    q, kv = tile.Tensor((3072, 128), "f16"), tile.Tensor((2048, 128), "f16")
    one, two = (
        examples.flash.on(q, kv, kv, tile.Tensor((3072, 128), "f32"), target="910b2",
                          M=128, N=128, ahead=ahead).time().core_us
        for ahead in (1, 2)
    )  # fmt: skip
    assert one / two == pytest.approx(62.6 / 46.6, rel=0.1)


def test_programs_are_text_that_tools_take(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    """The text names the target that it was traced for."""
    arrays, _ = rms_norm_case()
    text = examples.rms_norm.on(*arrays, cores=2, target="910b3").mlir
    assert "tile.kernel @rms_norm(%x: memref<50x256xf16>" in text
    assert "tile.set mte2 -> v" in text
    (tmp_path / "kernel.mlir").write_text(text)
    assert not ge_check.run([str(tmp_path / "kernel.mlir")])
    assert not ge_run.run([str(tmp_path / "kernel.mlir"), "--timing-only"])
    printed = capfd.readouterr()
    assert "@rms_norm: proved" in printed.out
    assert "on 2 cores of 910b3" in printed.out


def test_a_kernel_of_a_fused_op():
    """It computes what a pattern replaces, and is compared with that."""
    text = """
func.func @main(%a: tensor<32x64xf16>, %b: tensor<64x48xf16>) -> tensor<32x48xf16> {
  %0 = graph.matmul %a, %b : (tensor<32x64xf16>, tensor<64x48xf16>) -> tensor<32x48xf16>
  %1 = graph.relu %0 : (tensor<32x48xf16>) -> tensor<32x48xf16>
  func.return %1 : tensor<32x48xf16>
}"""
    module = parse_module(context(), SourceText("test", text))
    product = examples.gemm.returning(
        lambda a, b: tile.Tensor((a.shape[0], b.shape[1]), "f16"), cores=2, M=16, N=16, K=32
    )
    pattern = ge.Pattern([ge.OpType("MatMul"), ge.OpType("relu")])
    a, b = normal(32, 64), normal(64, 48)
    with having(UserKernels()):
        replaced = ge.FusedOp("ByHand", kernel=product, check=1e-2)
        assert ge.Graph(module, "by-hand").apply_pattern(pattern, lambda found: replaced) == 1
        (y,) = ge.Session(module).run({"arg0": a, "arg1": b}).values()
        on_tiles = compare(module, all_lowered=True)
    np.testing.assert_array_equal(y, product(a, b))
    ((_, written),) = on_tiles.pairs  # and is the tile program of its launch, with its time
    alone = product.kernel.on(a, b, y, **product.options).time()
    assert TileKernel(written, on_tiles.target).time().total_us == alone.total_us
    np.testing.assert_allclose(y, np.maximum(wide(a) @ wide(b), 0), rtol=4e-3, atol=4e-2)


@tile.kernel(M=16)
def masked(c: Any, x: Any, out: Any, M: int):
    """Softmax of the first 100 columns of each row; the others become 0."""
    t, e = c.ub(M, x.shape[1]), c.ub(M, x.shape[1])
    for i in c.share(x.shape[0] // M):
        c.load(t, x[i * M :])
        e[:] = tile.where(tile.columns(x.shape[1]) < 100, t, float("-inf"))
        e[:] = tile.exp(e - tile.rowmax(e))
        e[:] = e / tile.rowsum(e)
        c.store(out[i * M :], e)


def test_masks():
    x, out = normal(32, 128, dtype="f4"), np.zeros((32, 128), "f4")
    program = masked.on(x, out, cores=2)
    assert not program.check().problems
    program.run(x, out)
    e = np.exp(x[:, :100] - x[:, :100].max(1, keepdims=True))
    np.testing.assert_allclose(out[:, :100], e / e.sum(1, keepdims=True), rtol=1e-5)
    assert not out[:, 100:].any()


@tile.kernel
def at_once(c: Any, x: Any, out: Any):
    """Twice x, in a loop of one turn; what is for other turns is not run."""
    t = c.ub(*x.shape)
    for i in c.range(1):
        with c.when((i < 1) & (i * 2 >= 0)):
            c.load(t, x[i * 16 + 0 :])
        with c.when(i == 1):
            t[:] = 0
        c.store(out[i // 3 % 2 :], t.part(i, 0, x.shape))
        t[:] = t * 2
        c.store(out[0 + i * 1 :], t)


def test_what_is_known_while_it_is_traced():
    x, out = normal(16, 32), np.zeros((16, 32), "f2")
    program = at_once.on(x, out, cores=1)
    assert not program.check().problems
    program.run(x, out)
    assert (out == x * 2).all()
    arith = [line for line in program.mlir.splitlines() if " arith." in line]
    assert all("arith.constant 0 " in line for line in arith)
    for op in ("scf.for", "scf.if", "tile.fill", "!tile.tile<16x32xf16, ub> -> !tile.tile"):
        assert op not in program.mlir


def test_names_that_differ_in_a_number():
    def difference(c: Any, x_1: Any, x_2: Any, out: Any):
        s, t = c.ub(16, 64), c.ub(16, 64)
        c.load(s, x_1[0:])
        c.load(t, x_2[0:])
        s[:] = s - t
        c.store(out[0:], s)

    a, b, out = normal(16, 64), normal(16, 64) * 2, np.zeros((16, 64), "f2")
    tile.kernel(difference).on(a, b, out, cores=1).run(a, b, out)
    np.testing.assert_array_equal(out, a - b)


# ---- what the author of a kernel does wrong ----


def broken(body: Callable[..., None], match: str) -> None:
    x = normal(64, 64, dtype="f4")
    with pytest.raises(GeError, match=match) as error:
        tile.kernel(body).on(x, x, cores=1)
    assert "test_tile_kernels.py:" in str(error.value)


def test_sums_of_one_fractal_are_not_halved():
    def product(c: Any, a: Any, b: Any, out: Any):
        lhs, rhs, acc = c.l1(16, 16), c.l1(16, 16), c.l0c(16, 16)
        c.mmad(acc, c.load(lhs, a[0:]), c.load(rhs, b[0:]), init=True)
        c.store(out[0:], acc)

    a, b = np.random.default_rng(0).standard_normal((2, 16, 16), np.float32)
    out = np.zeros((16, 16), np.float32)
    tile.kernel(product).on(a, b, out, cores=1).run(a, b, out)
    assert_matmul(out, a, b)


def test_errors_name_the_line():
    def sides(c: Any, x: Any, out: Any):
        c.load(c.l0a(64, 64), x[0:])

    def types(c: Any, x: Any, out: Any):
        t = c.ub(64, 64, "f16")
        t[:] = c.ub(64, 64, "f32") * 2

    def branch(c: Any, x: Any, out: Any):
        for i in c.range(4):
            if i < 2:
                c.load(c.ub(64, 64), x[0:])

    def shapes(c: Any, x: Any, out: Any):
        t = c.ub(64, 64)
        t[:] = t + c.ub(32, 64)

    def names(c: Any, x: Any, out: Any):
        c.ub(64, 64, "float99")

    def ranges(c: Any, x: Any, out: Any):
        c.load(c.ub(64, 64), x[0:-1])

    def moving(c: Any, x: Any, out: Any):
        t = c.ub(64, 64)
        for i in c.range(4):
            t[i * 16 : i * 16 + 16] = 0

    def endless(c: Any, x: Any, out: Any):
        for _ in c.range():
            c.load(c.ub(64, 64), x[0:])

    def boundless(c: Any, x: Any, out: Any):
        for _ in c.range(c.read(x[0, 0])):
            c.load(c.ub(64, 64), x[0:])

    def empty(c: Any, x: Any, out: Any):
        c.read(x[0, 0], below=2, least=2)

    broken(boundless, r"a number that is read has no bound; write c.read\(ids\[i\], below=n\)")
    broken(empty, "a number that is read is at least 2 and below 2")

    def product(c: Any, x: Any, out: Any):
        a = c.l1(16, 64)
        c.mmad(c.l0c(16, 16), a, a)

    def sums(c: Any, x: Any, out: Any):
        a = c.l1(16, 64)
        c.mmad(c.l0c(16, 32), a, a.T)

    broken(product, "no product of 16x64 by 16x64 is a tile of 16x16")
    broken(sums, "no product of 16x64 by 64x16 is a tile of 16x32")
    broken(moving, r"two ranges of numbers; write .*t.part\(row, col, shape\)")
    broken(endless, "a range has one to three numbers, not 0")
    broken(sides, "a load is to l1 or ub, not to l0a")
    broken(types, r'f32 is assigned to a tile of f16; write cast\(..., "f16"\)')
    broken(branch, "known when the core runs, .* write `with c.when")
    broken(shapes, "tiles of 64x64 and 32x64 do not go together")
    broken(names, "no element type 'float99'; types are")
    broken(ranges, "a box ends at -1, before its tensor; .* x.shape")


def test_what_is_no_tile_box_or_index():
    def ring(c: Any, x: Any, out: Any):
        c.load(c.ub(64, 64, copies=2), x[0:])

    def rings(c: Any, x: Any, out: Any):
        t = c.ub(64, 64)
        t[:] = t + c.ub(64, 64, copies=2)

    def product(c: Any, x: Any, out: Any):
        c.mmad(c.l0c(64, 64), c.l1(64, 64, copies=2), c.l1(64, 64))

    def argument(c: Any, x: Any, out: Any):
        c.load(c.ub(64, 64), x)

    def swapped(c: Any, x: Any, out: Any):
        c.store(c.ub(64, 64), out[0:])

    def assigned(c: Any, x: Any, out: Any):
        c.ub(64, 64)[:] = x[0:]

    def index(c: Any, x: Any, out: Any):
        for i in c.range(4):
            t = c.ub(64, 64)
            t[:] = t * i

    def number(c: Any, x: Any, out: Any):
        tile.exp(x.shape[0])

    def divided(c: Any, x: Any, out: Any):
        for _ in c.range(x.shape[0] / 16):
            pass

    def size(c: Any, x: Any, out: Any):
        c.ub(x.shape[0] / 4, 64)

    def pushed(c: Any, x: Any, out: Any):
        t = c.ub(64, 64)
        t[:] = 1
        c.queue(t, 1).push(t)

    def fewer(c: Any, x: Any):
        pass

    for body in (ring, rings, product):
        broken(body, r"a ring stands where a tile .*is wanted; write ring\[j\]")
    broken(argument, r"an argument of the kernel stands where a box, x\[i:\], is wanted")
    broken(swapped, r"a box of an argument stands where a tile is wanted; c.load\(tile, x")
    broken(assigned, "a box of an argument stands where a tile or a number is wanted")
    broken(index, r"an index stands where a tile or a number is wanted; rows\(n, base\)")
    broken(number, "a value of type int stands where a tile is wanted")
    broken(divided, "a whole number is wanted, not 4.0; divide with //")
    broken(size, "a whole number is wanted, not 16.0")
    broken(pushed, "@pushed: one program pushes to a fifo, and the other pops from it")
    broken(fewer, "@fewer: too many positional arguments")


def test_errors_of_the_whole_kernel():
    x = normal(512, 512, dtype="f4")

    def nothing(c: Any, x: Any):
        pass

    def large(c: Any, x: Any):
        t = c.ub(512, 512)
        c.load(t, x[0:])

    def left(c: Any, x: Any):
        for _ in c.range(4):
            break

    with pytest.raises(
        GeError, match=r"test_tile_kernels.py:\d+: error: @nothing has no instructions"
    ):
        tile.kernel(nothing).on(x)
    with pytest.raises(GeError, match="ub"):
        tile.kernel(large).on(x)
    with pytest.raises(
        GeError, match=r"test_tile_kernels.py:\d+: error: a loop was left before its end"
    ):
        tile.kernel(left).on(x)
    with pytest.raises(GeError, match="no parameter 'K'; there are: M"):
        masked.on(x, x, K=2)
    with pytest.raises(GeError, match="1 arrays for 2 arguments"):
        masked.on(x, x).run(x)
    with pytest.raises(GeError, match=r"%x is memref<512x512xf32>, not memref<16x16xf32>"):
        masked.on(x, x).run(x[:16, :16], x)


def test_a_race_is_named_with_its_lines():
    """Flags by hand: the tracer adds none then, and the proof names the two lines."""
    arrays, _ = rms_norm_case()
    program = examples.rms_norm.on(*arrays, cores=2)
    for op in list(program.kernel.walk()):
        if op.name in ("tile.set", "tile.wait"):
            op.detach()
            op.erase()
    (first, *_) = program.check().problems
    assert first.kind == "race"
    assert first.message.count("kernels_by_hand.py:") >= 1


PUBLISHED_US = {1024: 15.27, 2048: 80.77, 4096: 525.75}
"""Square matmuls in 16 bits on a 910B2: cann-bench, bench_lab/tilelang_ascend_bench."""


@pytest.mark.parametrize("size", PUBLISHED_US)
def test_published_times_of_matmuls(size: int):
    """The example is not the kernel that was measured: within 15 %."""
    square = tile.Tensor((size, size), "f16")
    us = examples.gemm.on(square, square, square, target="910b2").time().total_us
    assert 0.85 < us / PUBLISHED_US[size] < 1.15
