"""What kernels by hand are written with: each function against numpy, and what is refused."""

import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ge import tile
from ge.dialects.support.errors import GeError
from ge.lowering.building import tile_kernels as api
from ge.runtime.library.language.tracing import Tracer

Array = Any
Make = Callable[..., Any]
PAGE = Path(__file__).parents[2] / "docs/kernels_by_hand.md"


def mapped(make: Make, *arrays: Array, dtype: Any = None, shape: Any = None) -> Array:
    """What a kernel of one expression of whole arrays computes, proved and in another order too."""

    @tile.kernel
    def kernel(c: Any, *args: Any) -> None:
        *ins, out = args
        tiles = [c.load(c.ub(*x.shape, x.dtype), x[0:]) for x in ins]
        result = c.ub(*out.shape, out.dtype)
        result[:] = make(*tiles)
        c.store(out[0:], result)

    out = np.zeros(shape or arrays[0].shape, dtype or arrays[0].dtype)
    names = ", ".join(f"x{i}" for i in range(len(arrays)))
    scope: dict[str, Any] = {"kernel": kernel.function}
    exec(f"def one(c, {names}, out): kernel(c, {names}, out)", scope)
    program = tile.Kernel(scope["one"], {}).on(*arrays, out, cores=1, target="910b2")
    assert not program.check().problems
    program.run(*arrays, out)
    again = np.zeros_like(out)
    program.run(*arrays, again, seed=1)
    np.testing.assert_array_equal(out, again)
    return out


def values(dtype: str = "f4") -> Array:
    """Halves and thirds between -8 and 8."""
    x = np.concatenate([np.arange(-16, 16) / 2, np.linspace(-7, 7, 32)])
    return np.tile(x, (8, 1)).astype(dtype)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


ELEMENTWISE: dict[str, tuple[Make, Make]] = {
    "abs": (tile.abs, np.abs),
    "ceil": (tile.ceil, np.ceil),
    "exp": (tile.exp, np.exp),
    "floor": (tile.floor, np.floor),
    "relu": (tile.relu, lambda x: np.maximum(x, 0)),
    "round": (tile.round, np.rint),
    "sigmoid": (tile.sigmoid, sigmoid),
    "sign": (tile.sign, np.sign),
    "silu": (tile.silu, lambda x: x * sigmoid(x)),
    "softplus": (tile.softplus, lambda x: np.log1p(np.exp(x))),
    "tanh": (tile.tanh, np.tanh),
    "log": (lambda x: tile.log(tile.abs(x) + 1), lambda x: np.log(np.abs(x) + 1)),
    "sqrt": (lambda x: tile.sqrt(tile.abs(x)), lambda x: np.sqrt(np.abs(x))),
    "rsqrt": (lambda x: tile.rsqrt(tile.abs(x) + 1), lambda x: 1 / np.sqrt(np.abs(x) + 1)),
    "reciprocal": (lambda x: tile.reciprocal(x + 9), lambda x: 1 / (x + 9)),
    "power": (lambda x: tile.power(x, 2.0), lambda x: x**2),
    "mod": (lambda x: tile.mod(x, 3.0), lambda x: np.mod(x, 3)),
    "maximum": (lambda x: tile.maximum(x, 1.5), lambda x: np.maximum(x, 1.5)),
    "minimum": (lambda x: tile.minimum(x, 1.5), lambda x: np.minimum(x, 1.5)),
    "erf": (tile.erf, lambda x: np.vectorize(__import__("math").erf)(x)),
    "gelu": (
        tile.gelu,
        lambda x: x * (1 + np.vectorize(__import__("math").erf)(x / np.sqrt(2))) / 2,
    ),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise(name: str):
    """Within 2e-6 of numpy in f32; what rounds is equal."""
    ours, numpys = ELEMENTWISE[name]
    x = values()
    np.testing.assert_allclose(mapped(ours, x), numpys(x.astype("f8")), rtol=2e-6, atol=2e-6)


COMPARISONS: dict[str, Make] = {
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "number": lambda x, y: x == 1.0,
    "and": lambda x, y: (x > y) & (y >= 0),
    "or": lambda x, y: (x <= y) | (y < 0),
    "xor": lambda x, y: (x > y) ^ (y > 0),
    "not": lambda x, y: ~(x > y),
    "several": lambda x, y: ~((x == y) | (x != 0)) & (y < 1) | (x == 2),
}


@pytest.mark.parametrize("dtype", ["f4", "f2", "i4"])
@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons(name: str, dtype: str):
    x = values(dtype)
    y = x[:, ::-1].copy()
    y[:, ::3] = x[:, ::3]
    make = COMPARISONS[name]
    chosen = mapped(lambda a, b: tile.cast(make(a, b), np.dtype(dtype)), x, y)
    np.testing.assert_array_equal(chosen, make(x, y).astype(dtype))
    chosen = mapped(lambda a, b: tile.where(make(a, b), 1, a - a), x, y)
    np.testing.assert_array_equal(chosen, make(x, y).astype(dtype))


def test_bits_of_integers_and_tests_of_floats():
    x = values("i4")
    np.testing.assert_array_equal(mapped(lambda a: a & (a + 1) | ~a ^ a, x), x & (x + 1) | ~x ^ x)
    y = values()
    y[0, :3] = np.nan, np.inf, -np.inf
    for ours, numpys in ((tile.is_nan, np.isnan), (tile.is_inf, np.isinf)):
        chosen = mapped(lambda a, ours=ours: tile.cast(ours(a), "f32"), y)
        np.testing.assert_array_equal(chosen, numpys(y).astype("f4"))


@pytest.mark.parametrize("shape", [(16, 32), (1, 32), (16, 1), (1, 1)])
@pytest.mark.parametrize("kind", ["sum", "max", "min"])
def test_reductions_of_rows_and_columns(kind: str, shape: tuple[int, int]):
    x = np.random.default_rng(0).standard_normal(shape).astype("f4")
    for along, axis, reduced in (("row", 1, (shape[0], 1)), ("col", 0, (1, shape[1]))):
        ours = mapped(getattr(tile, along + kind), x, shape=reduced)
        expected = getattr(np, kind)(x, axis=axis, keepdims=True)
        np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("rounding", "numpys"),
    [("even", np.rint), ("floor", np.floor), ("ceil", np.ceil), ("trunc", np.trunc),
     (None, np.trunc)],
)  # fmt: skip
@pytest.mark.parametrize("to", ["i1", "i4"])
@pytest.mark.parametrize("dtype", ["f4", "f2"])
def test_casts_round_as_they_say(rounding: str | None, numpys: Make, to: str, dtype: str):
    x = values(dtype)
    ours = mapped(lambda a: tile.cast(a, np.dtype(to), rounding), x, dtype=to)
    np.testing.assert_array_equal(ours, numpys(x).astype(to))


def time_of(make: Make) -> float:
    @tile.kernel
    def kernel(c: Any, x: Any, out: Any) -> None:
        t, codes = c.ub(64, 256), c.ub(64, 256, "i32")
        codes[:] = make(c.load(t, x[0:]))
        c.store(out[0:], codes)

    like = tile.Tensor((64, 256), "f32"), tile.Tensor((64, 256), "i32")
    return kernel.on(*like, cores=1, target="910b2").time().total_us


def test_a_cast_that_rounds_takes_no_longer():
    """One conversion of the vector unit has both; what is rounded and stays a float is another."""
    plain, even = (time_of(lambda t, r=r: tile.cast(t, "i32", r)) for r in (None, "even"))
    apart = time_of(lambda t: tile.cast(tile.round(t) + 1.0, "i32"))
    assert plain == even < apart


def test_quantized_swiglu_has_the_codes_of_numpy():
    """With truncation 46 % of the codes were off by one."""
    rng = np.random.default_rng(0)
    gate, up = (rng.standard_normal((16, 64)).astype("f4") for _ in range(2))

    def make(g: Any, u: Any) -> Any:
        y = tile.silu(g) * u
        scale = tile.maximum(tile.rowmax(tile.abs(y)), 1e-6) / 127
        return tile.cast(y / scale, "i8", rounding="even")

    y = gate * sigmoid(gate.astype("f8")) * up
    expected = y / (np.abs(y).max(1, keepdims=True) / 127)
    ours = mapped(make, gate, up, dtype="i1")
    assert np.abs(ours - expected).max() <= 0.5 + 1e-4


def refused(make: Make, *arrays: Array) -> str:
    with pytest.raises(GeError) as e:
        mapped(make, *(arrays or (values(),)))
    return str(e.value)


def test_messages():
    assert "hint" not in refused(lambda x: tile.cast(x, "i8", rounding="odd"))
    assert "there is no rounding 'odd'; there are: 'even'" in refused(
        lambda x: tile.cast(x, "i8", rounding="odd")
    )
    assert "f32 becomes f16 without 'floor'; roundings are of floats to integers" in refused(
        lambda x: tile.cast(x, "f16", rounding="floor")
    )
    assert 'cast(condition, "f32") is 1' in refused(lambda x: tile.where(x > 1, 1.0, 0.0))
    text = refused(lambda x: tile.where(x, 1.0, 0.0))
    assert "where(...) chooses by a comparison, not by f32; compare" in text
    assert "and is of comparisons or integers, not of f32" in refused(lambda x: x & x)
    assert "choose by where(...), join comparisons by &, | and ~" in refused(
        lambda x: x if x == 1.0 else -x
    )
    assert "a value of type NoneType stands where a tile or a number" in refused(
        lambda x: tile.where(x == None, 1.0, 0.0)  # noqa: E711
    )


# ---- scalars ---------------------------------------------------------------------------------


@tile.kernel(M=16)
def softcap(c: Any, x: Any, cap: Any, out: Any, M: int) -> None:
    t, s = c.ub(M, x.shape[1], copies=2), c.ub(1, 1)
    c.load(s, cap[0:])
    for i in c.share(tile.ceil_div(x.shape[0], M)):
        c.load(t[i], x[i * M :], pad=0)
        t[i] = tile.tanh(t[i] / s) * s
        c.store(out[i * M :], t[i])


@tile.kernel
def total(c: Any, x: Any, out: Any) -> None:
    t, row, all_of_it = c.ub(*x.shape), c.ub(1, x.shape[1]), c.ub(1, 1)
    row[:] = tile.colsum(c.load(t, x[0:]))
    all_of_it[:] = tile.rowsum(row)
    c.store(out[0:], all_of_it)


def test_scalars_are_arguments_and_results():
    x, cap = values(), np.array(0.5, "f4")
    out, sum_of_all = np.zeros_like(x), np.zeros((), "f4")
    softcap(x, cap, out, cores=2)
    np.testing.assert_allclose(out, np.tanh(x / 0.5) / 2, rtol=1e-6)
    total(np.abs(x), sum_of_all, cores=1)
    np.testing.assert_allclose(sum_of_all, np.abs(x).sum(), rtol=1e-6)


# ---- the door, and the page --------------------------------------------------------------------


def test_the_door_is_a_module_that_is_imported_when_it_is_used():
    code = """
import sys, ge
assert not {m for m in sys.modules if m.startswith(("numpy", "xdsl", "ge.lowering", "ge.tile"))}
import ge.tile
from ge.tile import exp, ceil_div
from ge import tile
assert tile is ge.tile is sys.modules["ge.tile"]
import ge.host
from ge.host import Host
from ge.torch import compile
assert ge.host.Host is Host
"""
    subprocess.run([sys.executable, "-c", code], check=True)


INSIDE = {
    *("again", "alloc", "arguments", "assign", "at", "buffer", "check_room", "chunk", "cube"),
    *(
        "fifos",
        "load_number",
        "loop",
        "map",
        "nth",
        "on_cores",
        "reduce",
        "side_of",
        "spare",
        "staged",
    ),
    *("staging_of", "taken", "target", "tile_of", "turns", "vector"),
}


def documented(heading: str) -> set[str]:
    """The names of a table of the page: what stands in code in its first column."""
    section = PAGE.read_text().partition(f"### {heading}\n")[2].partition("\n#")[0]
    rows = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    return {re.match(r"(?:c\.)?(\w+)", code)[1] for row in rows for code in row.split("`")[1::2]}  # type: ignore[index]


def test_the_page_has_every_name_of_the_language():
    assert documented("Functions and classes") == set(api.__all__)
    own = {n for n, _ in inspect.getmembers(Tracer) if not n.startswith("_")}
    own |= {n for n in Tracer.__annotations__ if not n.startswith("_")}
    own -= {"alone", "left", "own", "staging"} | INSIDE
    assert documented("What a kernel calls `c`") == own


# ---- tiles that are narrower than 32 bytes -----------------------------------------------------


@pytest.mark.parametrize("width", [1, 3, 10, 33])
@pytest.mark.parametrize("dtype", ["f2", "f4", "i1"])
def test_narrow_tiles(width: int, dtype: str):
    """Rows of any number of bytes: loaded, computed, reduced, cut into columns, stored."""

    @tile.kernel(M=16)
    def kernel(c: Any, x: Any, out: Any, last: Any, M: int) -> None:
        t, u, m = c.ub(M, width, copies=2), c.ub(M, width), c.ub(M, 1)
        column = c.ub(M, 1)
        for i in c.share(tile.ceil_div(x.shape[0], M)):
            c.load(t[i], x[i * M :], pad=0)
            m[:] = tile.rowmax(t[i])
            u[:] = m - t[i]
            u[:, 0:1] = t[i][:, 0:1]
            c.take(column, t[i], width - 1, 1)
            c.store(out[i * M :], u)
            c.store(last[i * M :], column)

    x = np.random.default_rng(0).integers(-9, 9, (40, width)).astype(dtype)
    expected = x.max(1, keepdims=True) - x
    expected[:, :1] = x[:, :1]
    out, last = np.zeros_like(x), np.zeros((40, 1), dtype)
    program = kernel.on(x, out, last, cores=2, target="910b2")
    assert not program.check().problems
    for seed in (None, *range(5)):
        out[...], last[...] = 0, 0
        program.run(x, out, last, seed=seed)
        np.testing.assert_array_equal(out, expected)
        np.testing.assert_array_equal(last, x[:, -1:])


def test_a_part_begins_at_32_bytes():
    """The vector unit addresses nothing else; columns from elsewhere are taken."""
    assert "begins at a multiple of 32 bytes, not at byte 12; a tile.move of columns" in refused(
        lambda x: x[:, 3:4] * 1.0
    )


# ---- what is said of mistakes ------------------------------------------------------------------


def test_a_full_memory_names_its_buffers_and_their_lines():
    @tile.kernel(M=256)
    def big(c: Any, x: Any, out: Any, M: int) -> None:
        t = c.ub(M, x.shape[1], copies=2)
        total = c.ub(M, x.shape[1])
        for i in c.share(tile.ceil_div(x.shape[0], M)):
            c.load(t[i], x[i * M :], pad=0)
            total[:] = t[i] + tile.rowsum(t[i])
            c.store(out[i * M :], total)

    first = inspect.getsourcelines(big.function)[1] + 2
    like = tile.Tensor((512, 64), "f32"), tile.Tensor((512, 64), "f32")
    with pytest.raises(GeError) as e:
        big.on(*like, target="910b2")
    assert f"test_tile_language.py:{first}: error: ub of 910b2 has 196608" in str(e.value)
    needs = f"the program needs 197632: %ub 2 x 256x64xf32 = 131072 (line {first}); %ub 256x64xf32"
    needs += f" = 65536 (line {first + 1}); %ub 256x1xf32 = 1024 (line {first + 4}); smaller tiles"
    assert needs in str(e.value)
    with pytest.raises(GeError, match=f"{first}: error: ub of 910b2 has .* 2 x 1024x64xf32 takes"):
        big.on(*like, target="910b2", M=1024)


def not_shared(c: Any, x: Any, out: Any) -> None:
    t = c.ub(16, 64)
    for i in range(x.shape[0] // 16):
        c.load(t, x[i * 16 :])
        c.store(out[i * 16 :], t)


def a_branch_of_python(c: Any, x: Any, out: Any) -> None:
    t = c.ub(16, 64)
    for i in c.share(4):
        if i > 3:
            t[:] = 0
        c.store(out[i * 16 :], t)


def too_large(c: Any, x: Any, out: Any) -> None:
    c.l0c(1024, 1024)


def nothing(c: Any, x: Any, out: Any) -> None:
    c.ub(16, 64)


def another_memory(c: Any, x: Any, out: Any) -> None:
    t, u = c.l1(16, 64), c.ub(16, 64)
    u[:] = c.load(t, x[0:]) * 2
    c.store(out[0:], u)


def half_a_block(c: Any, x: Any, out: Any) -> None:
    c.load(c.l1(12, 64), x[0:])


def other_shapes(c: Any, x: Any, out: Any) -> None:
    t = c.ub(16, 64)
    t[:] = t + c.ub(16, 32)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (not_shared, r"such as: tile.store \(.*:\d+\): two cores .* elements of %out, .*c.share"),
        (a_branch_of_python, "known when the core runs, .*; write `with c.when"),
        (too_large, "l0c of 910b2 has 131072 bytes, and 1024x1024xf32 takes .*; smaller tiles"),
        (nothing, r"@nothing has no instructions; c.load\("),
        (another_memory, "works on ub, not on .*16x64xf32, l1>: bring what it computes of to"),
        (half_a_block, "multiples of 16, not 12x64xf32: take a larger tile, which a load fills"),
        (other_shapes, "tiles of 16x64 and 16x32 do not go together; a row"),
    ],
)
def test_mistakes_name_the_thing_the_place_and_the_way_out(body: Make, text: str):
    like = tile.Tensor((64, 64), "f32")
    try:
        said = tile.kernel(body).on(like, like, cores=2, target="910b2").check().summary
    except GeError as e:
        said = str(e)
    assert re.search(text, said), said
    assert re.search(r"test_tile_language.py:\d+", said)


# ---- conditions of numbers that a core computes ------------------------------------------------


def test_conditions_are_joined():
    """Where a loop is cut, and where the sums of a matmul begin."""

    @tile.kernel
    def kernel(c: Any, x: Any, out: Any) -> None:
        t = c.ub(16, 32)
        for i in c.range(6):
            c.load(t, x[i * 16 :])
            with c.when((i >= 1) & (i < 5)):
                with c.when(~(i < 2)):
                    t[:] = t * 2
                t[:] = t + 1
            c.store(out[i * 16 :], t)

    x = np.random.default_rng(0).standard_normal((96, 32)).astype("f4")
    out, expected = np.zeros_like(x), x.copy()
    expected[32:80] *= 2
    expected[16:80] += 1
    program = kernel.on(x, out, cores=1)
    assert not program.check().problems
    program.run(x, out)
    np.testing.assert_array_equal(out, expected)

    @tile.kernel
    def sums(c: Any, a: Any, b: Any, out: Any) -> None:
        A, B, acc = c.l1(16, 16), c.l1(16, 16), c.l0c(16, 16)
        for k in c.range(4):
            c.mmad(acc, c.load(A, a[k * 16 :]), c.load(B, b[0:]), init=(k == 0) | ~(k <= 2))
        c.store(out[0:], acc)

    a, b = np.random.default_rng(0).integers(-4, 4, (2, 64, 16)).astype("f2")
    out = np.zeros((16, 16), "f4")
    program = sums.on(a, b[:16].copy(), out, cores=1)
    program.run(a, b[:16].copy(), out)
    np.testing.assert_array_equal(out, a[48:].astype("f4") @ b[:16].astype("f4"))


@tile.kernel(M=8, K=8)
def top_k(c: Any, x: Any, values: Any, places: Any, M: int, K: int) -> None:
    """The K largest of each row, the first of equal ones first: K times the largest, struck out."""
    N, INF = x.shape[1], float("inf")
    t, best, first = c.ub(M, N), c.ub(M, 1), c.ub(M, 1, "i32")
    V, P = c.ub(M, K), c.ub(M, K, "i32")
    for i in c.share(tile.ceil_div(x.shape[0], M)):
        c.load(t, x[i * M :], pad=-INF)
        V[:], P[:] = 0, 0
        for k in range(K):
            best[:] = tile.rowmax(t)
            first[:] = tile.rowmin(tile.where(t == best, tile.columns(N), N))
            V[:] = tile.where(tile.columns(K) == k, best, V)
            P[:] = tile.where(tile.columns(K) == k, first, P)
            t[:] = tile.where(tile.columns(N) == first, -INF, t)
        c.store(values[i * M :], V)
        c.store(places[i * M :], P)


def test_top_k():
    x = np.random.default_rng(0).integers(-20, 20, (20, 96)).astype("f4")
    values, places = np.zeros((20, 8), "f4"), np.zeros((20, 8), "i4")
    program = top_k.on(x, values, places, cores=2)
    assert not program.check().problems
    expected = np.argsort(-x, axis=1, kind="stable")[:, :8]
    for seed in (None, *range(5)):
        program.run(x, values, places, seed=seed)
        np.testing.assert_array_equal(places, expected)
        np.testing.assert_array_equal(values, np.take_along_axis(x, expected, axis=1))
