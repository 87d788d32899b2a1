"""Groups of rows by offsets that a kernel reads: boxes that end where the next group begins."""

import inspect
import re
from collections.abc import Callable
from itertools import combinations
from typing import Any, ClassVar

import kernels_by_hand as examples
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.arith import AddiOp
from xdsl.ir import SSAValue

from ge import tile
from ge.dialects.support.errors import GeError
from ge.dialects.tile.buffers import ReadOp
from ge.lowering.building.tile_kernels import TileProgram
from ge.runtime.check.tile_device import Use
from ge.runtime.check.tile_numbers import IndexValues
from ge.runtime.check.tile_program import Walk
from ge.runtime.check.tiles import check_kernel
from ge.runtime.library.language.arith import index_constant
from ge.runtime.library.language.indices import maximum, minimum

Array = Any
LIKE = tile.Tensor
ROWS, GROUPS, WIDTH, BLOCK = 40, 3, 32, 16


def rows_kernel(body: Callable[..., None]) -> Callable[..., TileProgram]:
    """A kernel that copies rows group by group, with `body` for each group of a core."""

    def copy(c: Any, x: Any, offsets: Any, out: Any) -> None:
        t = c.ub(BLOCK, x.shape[1], copies=2)
        for e in c.share(GROUPS):

            def at(i: int, e: Any = e) -> Any:
                return c.read(offsets[e + i], below=ROWS + 1, ascending=True)

            body(c, x, out, t, at)

    def on(cores: int = 2) -> TileProgram:
        x = LIKE((ROWS, WIDTH), "f32")
        return tile.kernel(copy).on(x, LIKE((GROUPS + 1,), "i32"), x, cores=cores)

    return on


@rows_kernel
def right(c: Any, x: Any, out: Any, t: Any, at: Any) -> None:
    for b in c.range(tile.ceil_div(at(1) - at(0), BLOCK)):
        first = at(0) + b * BLOCK
        c.load(t[b], x[first : at(1)], pad=0)
        c.store(out[first : at(1)], t[b])


@rows_kernel
def row_by_row(c: Any, x: Any, out: Any, t: Any, at: Any) -> None:
    for row in c.range(at(0), at(1)):
        c.load(t[row].part(0, 0, (1, WIDTH)), x[row:])
        c.store(out[row:], t[row].part(0, 0, (1, WIDTH)))


@rows_kernel
def backwards(c: Any, x: Any, out: Any, t: Any, at: Any) -> None:
    """Blocks from the last one down: boxes end at the end of their block, too."""
    blocks = tile.ceil_div(at(1) - at(0), BLOCK)
    for b in c.range(blocks):
        first = at(0) + b * BLOCK
        c.load(t[b], x[first : at(1)], pad=0)
        c.store(out[first : at(1)], t[b])


RIGHT = {"blocks": right, "row by row": row_by_row, "backwards": backwards}


def wrong(start: Callable[..., Any], end: Callable[..., Any] | None) -> Callable[..., TileProgram]:
    """`start` and `end`: where a block is stored, by the offsets and the block's number."""

    @rows_kernel
    def kernel(c: Any, x: Any, out: Any, t: Any, at: Any) -> None:
        for b in c.range(tile.ceil_div(at(1) - at(0), BLOCK)):
            c.load(t[b], x[at(0) + b * BLOCK :], pad=0)
            first = start(at, b)
            c.store(out[first:] if end is None else out[first : end(at, b)], t[b])

    return kernel


WRONG = {
    "without an end": wrong(lambda at, b: at(0) + b * BLOCK, None),
    "an end that is a row too far": wrong(lambda at, b: at(0) + b * BLOCK, lambda at, b: at(1) + 1),
    "a row before": wrong(lambda at, b: at(0) + b * BLOCK - 1, lambda at, b: at(1)),
    "the end of its block": wrong(
        lambda at, b: at(0) + b * BLOCK, lambda at, b: at(0) + b * BLOCK + BLOCK
    ),
    "the group before": wrong(lambda at, b: b * BLOCK, lambda at, b: at(1)),
}


def copied(program: TileProgram, offsets: Array, seed: int | None) -> tuple[Array, Array]:
    x = np.random.default_rng(0).standard_normal((ROWS, WIDTH)).astype("f4")
    out = np.full_like(x, np.nan)
    program.run(x, np.array(offsets, "i4"), out, seed=seed)
    return x, out


@pytest.mark.parametrize("name", RIGHT)
@settings(max_examples=20)
@given(
    st.lists(st.integers(0, ROWS), min_size=GROUPS - 1, max_size=GROUPS - 1),
    st.integers(1, 4),
    st.integers(0, 100),
)
def test_any_groups(name: str, between: list[int], cores: int, seed: int):
    """Equal to the rows that go in, whatever the groups, the cores and the order of the pipes."""
    x, out = copied(RIGHT[name](cores), [0, *sorted(between), ROWS], seed)
    np.testing.assert_array_equal(out, x)


@pytest.mark.parametrize("name", RIGHT)
def test_right_kernels_are_proved(name: str):
    for cores in (1, 2, 3):
        proof = RIGHT[name](cores).check()
        assert not proof.problems
        assert "whatever they are, groups of %offsets stay apart" in proof.summary
        assert "provided that the numbers of %offsets ascend from 0 to 40" in proof.summary


@pytest.mark.parametrize("cores", [1, 2, 3])
@pytest.mark.parametrize("name", WRONG)
def test_wrong_kernels_are_never_proved(name: str, cores: int):
    """On one core, too, where blocks follow each other in some order."""
    proof = WRONG[name](cores).check()
    assert proof.problems
    assert "proved" not in proof.summary


def test_the_wrong_ones_are_wrong():
    """Of the last group first: rows of its neighbour are written over."""

    def run(c: Any, x: Any, offsets: Any, out: Any) -> None:
        t = c.ub(BLOCK, x.shape[1])
        for i in c.range(GROUPS):
            e = GROUPS - 1 - i
            low, high = (c.read(offsets[e + j], below=ROWS + 1) for j in (0, 1))
            for b in c.range(tile.ceil_div(high - low, BLOCK)):
                c.load(t, x[low + b * BLOCK : high], pad=0)
                c.store(out[low + b * BLOCK :], t)

    x = LIKE((ROWS, WIDTH), "f32")
    program = tile.kernel(run).on(x, LIKE((GROUPS + 1,), "i32"), x, cores=1)
    x, out = copied(program, [0, 5, 23, ROWS], None)
    assert not np.array_equal(x, out)
    texts = [problem.message for problem in program.check().problems]
    assert any("may lie over a part of what another one stores: end its box" in t for t in texts)


def test_the_ragged_matmul_of_the_examples():
    """Without its ends it is refused, as read without `ascending` or with the wrong neighbour."""
    args = [LIKE((256, 64), "f16"), LIKE((4, 64, 64), "f16"), LIKE((5,), "i32")]
    args.append(LIKE((256, 64), "f32"))
    text = inspect_source(examples.ragged_gemm)
    for old, new in (
        ("out[low + b * M : high, n:]", "out[low + b * M :, n:]"),
        (", ascending=True", ""),
        ("offsets[e + j]", "offsets[e + 2 * j]"),
    ):
        assert old in text
        scope: dict[str, Any] = vars(examples).copy()
        exec(text.replace(old, new), scope)
        kernel = tile.Kernel(scope["ragged_gemm"], examples.ragged_gemm.parameters)
        for cores in (1, 2, 4):
            try:
                program = kernel.on(*args, cores=cores, M=64)
            except GeError:
                continue
            assert program.check().problems, (new, cores)


def inspect_source(kernel: Any) -> str:
    return re.sub(r"^@.*\n", "", inspect.getsource(kernel.function))


@pytest.mark.parametrize(
    ("offsets", "text"),
    [
        ([0, 9, 8, 40], r"the number at \[2\] is 8, and 9 stands before it: they ascend"),
        ([1, 9, 12, 40], "numbers that ascend from 0 to 40 go from 1 to 40"),
        ([0, 9, 12, 39], "numbers that ascend from 0 to 40 go from 0 to 39"),
    ],
)
def test_a_run_refuses_numbers_that_do_not_ascend(offsets: list[int], text: str):
    with pytest.raises(GeError, match=text):
        copied(right(), offsets, None)


# ---- boxes that end ----------------------------------------------------------------------------


def moved(rows: int, dtype: str = "f32", whole: bool = False) -> TileProgram:
    """A copy of so many rows of a tile of 64, as its size or by the end of its box."""

    def copy(c: Any, x: Any, out: Any) -> None:
        t = c.ub(rows if whole else 64, 64)
        c.load(t, x[0:] if whole else x[0:rows], pad=0)
        c.store(out[0:] if whole else out[0:rows], t)

    like = LIKE((64, 64), dtype)
    return tile.kernel(copy).on(like, like, cores=1, target="910b2")


@pytest.mark.parametrize("rows", [1, 17, 64])
def test_times_are_of_the_rows_that_are_moved(rows: int):
    assert moved(rows).time().total_us == moved(rows, whole=True).time().total_us
    if rows < 64:
        assert moved(rows).time().core_us < moved(64).time().core_us


def test_ends_in_several_dimensions():
    """Loads pad what lies beyond, stores leave it; steps count elements of the tensor."""

    @tile.kernel
    def copy(c: Any, x: Any, out: Any) -> None:
        t, u = c.ub(16, 16), c.ub(16, 16)
        u[:] = c.load(t, x[3:20:2, 1:11], pad=-1) * 1.0
        c.store(out[0:12, 0:14], u)

    x = np.random.default_rng(0).standard_normal((32, 32)).astype("f4")
    out = np.zeros((16, 16), "f4")
    copy.on(x, out, cores=1).run(x, out)
    expected = np.full((16, 16), -1, "f4")
    expected[:9, :10] = x[3:20:2, 1:11]
    expected[12:], expected[:, 14:] = 0, 0
    np.testing.assert_array_equal(out, expected)


def test_what_is_read_behind_an_end_is_found():
    """Without padding, rows that the box ends before hold what an earlier load brought."""

    @tile.kernel
    def copy(c: Any, x: Any, out: Any) -> None:
        t = c.ub(16, 64)
        for i in c.range(2):
            c.load(t, x[i * 16 : 24])
            c.store(out[i * 16 :], t)

    like = LIKE((32, 64), "f32")
    (problem,) = copy.on(like, like, cores=1).check().problems
    assert problem.kind in ("left", "unwritten")


# ---- what is known of numbers ------------------------------------------------------------------

EXPRESSIONS = st.recursive(
    st.sampled_from(["core", "i", "j", "n", "0", "1", "3", "8"]),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from("+-"), inner, inner).map(lambda t: f"({t[1]} {t[0]} {t[2]})"),
        st.tuples(inner, st.sampled_from(["2", "4"])).map(lambda t: f"({t[0]} * {t[1]})"),
        st.tuples(inner, st.sampled_from(["2", "4"])).map(lambda t: f"({t[0]} // {t[1]})"),
        st.tuples(inner, st.sampled_from(["3", "4"])).map(lambda t: f"({t[0]} % {t[1]})"),
        st.tuples(inner, inner).map(lambda t: f"least({t[0]}, {t[1]})"),
    ),
    max_leaves=6,
)


@settings(max_examples=60)
@given(EXPRESSIONS)
def test_what_is_said_to_be_natural_is(expression: str):
    """Against all values that core, loops and a number that is read may have."""

    def kernel(c: Any, x: Any, numbers: Any, out: Any) -> None:
        t, n = c.ub(1, 16), c.read(numbers[0], below=5, least=2)
        for i in c.range(1, 4):
            for j in c.range(i, n + i):
                scope = {"core": c.core, "i": i, "j": j, "n": n, "least": minimum}
                c.load(t, x[eval(expression, scope) + c.core * 0 :], pad=0)
                c.store(out[i:], t)

    like = LIKE((64,), "f32")
    program = tile.kernel(kernel).on(like, LIKE((1,), "i32"), like, cores=3)
    values = IndexValues(program.kernel)
    (view, *_) = (
        op for op in program.kernel.walk()
        if op.name == "tile.view" and op.operands[0] is program.kernel.arguments[0]
    )  # fmt: skip
    total = values.sum(view.operands[1])
    least = min(
        eval(expression, {"core": core, "i": i, "j": j, "n": n, "least": min})
        for core in range(3)
        for n in range(2, 5)
        for i in range(1, 4)
        for j in range(i, n + i)
    )
    if values.is_natural(total):
        assert least >= 0


def test_remainders_and_blocks_are_known():
    """A place in a block lies within it, as appending to pages writes it."""

    def kernel(c: Any, x: Any, numbers: Any, out: Any) -> None:
        t, n = c.ub(1, 16), c.read(numbers[0], below=64, least=4)
        for i in c.range(4):
            row = n - 4 + i
            c.load(t, x[row % 8 :], pad=0)
            c.store(out[i:], t)

    like = LIKE((64,), "f32")
    program = tile.kernel(kernel).on(like, LIKE((1,), "i32"), like, cores=1)
    values = IndexValues(program.kernel)
    places = [op for op in program.kernel.walk() if op.name == "tile.view"]
    inside = values.sum(places[0].operands[1])
    assert values.is_natural(inside)
    assert values.is_natural(values.sum(constant_of(program, 7)).minus(inside))
    assert not values.is_natural(values.sum(constant_of(program, 4)).minus(inside))


def constant_of(program: TileProgram, number: int) -> SSAValue:
    """A new constant of the program."""
    first = next(op for op in program.kernel.walk() if isinstance(op, AddiOp | ReadOp))
    block = first.parent_block()
    assert block is not None
    op = index_constant(number)
    block.insert_op_before(op, first)
    return op.result


def test_masks_of_a_length_that_is_read():
    """Rows behind it are padded: proved for all lengths. What is loaded without padding is not."""

    def kernel(pad: float | None) -> TileProgram:
        def masked(c: Any, x: Any, lengths: Any, out: Any) -> None:
            t = c.ub(BLOCK, WIDTH)
            n = c.read(lengths[0], below=ROWS + 1)
            for i in c.share(tile.ceil_div(ROWS, BLOCK)):
                t[:] = 0
                c.load(t, x[i * BLOCK : n], pad=pad)
                c.store(out[i * BLOCK :], t)

        x = LIKE((ROWS, WIDTH), "f32")
        return tile.kernel(masked).on(x, LIKE((1,), "i32"), x, cores=2)

    for pad in (0, None):
        proof = kernel(pad).check()
        assert not proof.problems
        assert ("not for all" in proof.summary) == (pad is None)
        for n in (0, 1, 16, 23, 40):
            x = np.random.default_rng(0).standard_normal((ROWS, WIDTH)).astype("f4")
            out = np.full_like(x, np.nan)
            kernel(pad).run(x, np.array([n], "i4"), out)
            x[n:] = 0
            np.testing.assert_array_equal(out, x)


@pytest.mark.parametrize("steps", [[1, 1], [16, 3], [40, -5]])
def test_steps_of_a_loop_take_what_their_boxes_have(steps: list[int]):
    """Steps whose boxes end elsewhere are not taken for one: as loops of Python have them."""
    base, by = steps

    def of(loop: Callable[[Any, int], Any]) -> TileProgram:
        def kernel(c: Any, x: Any, out: Any) -> None:
            t = c.ub(BLOCK, WIDTH, copies=2)
            for i in loop(c, 8):
                c.load(t[i], x[i * BLOCK : i * BLOCK + base + i * by], pad=0)
                c.store(out[i * BLOCK : i * BLOCK + base + i * by], t[i])
            c.store(out[0:], t[0])

        like = LIKE((8 * BLOCK, WIDTH), "f32")
        return tile.kernel(kernel).on(like, like, cores=1, target="910b2")

    ours, pythons = of(lambda c, n: c.range(n)).time(), of(lambda c, n: range(n)).time()
    assert ours.hbm_bytes == pythons.hbm_bytes
    for pipe, other in zip(ours.pipes, pythons.pipes, strict=True):
        assert pipe.instructions == other.instructions
        assert pipe.busy_us == pytest.approx(other.busy_us, rel=1e-6)


# ---- what is proved, against all that cores store ----------------------------------------------

STARTS = st.sampled_from(
    ["low + b * 4", "low + b", "low * 4", "low * 4 + b % 4", "low * 8 + b", "e * 6 + b", "b * 4",
     "least(b * 4, e * 6) + e * 6", "low * 4 + high % 4", "high - b", "low // 4 + e * 6", "e * 4"]
)  # fmt: skip
ENDS = st.sampled_from([None, "high", "high - 1", "high + 1", "least(high, low + b * 4 + 4)", "b"])


class Given(Walk):
    """A walk for numbers that are given."""

    given: ClassVar[list[int]] = []

    def number_read(self, op: ReadOp, at: Any) -> int:
        return self.given[at[0]]


def stores_of(program: TileProgram) -> list[tuple[int, Any]]:
    """The core and the bounds of all that is stored of the last argument."""
    found: list[tuple[int, Any]] = []
    for core in range(program.kernel.core_count):
        for step in Given(program.kernel, program.kernel.programs[0], core).run():
            regions = step.written_boxes
            found += [(core, region.bounds) for region in regions if not region.is_empty]
    return found


@settings(max_examples=40, deadline=None)
@given(
    STARTS,
    ENDS,
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from(["ascending", "distinct", ""]),
    st.data(),
)
def test_what_is_proved_never_meets(
    start: str, end: str | None, size: int, kind: str, data: st.DataObject
):
    """Whatever the numbers are, no two cores store to one element."""
    count, most = 4, 25 if kind == "ascending" else 6

    def kernel(c: Any, x: Any, numbers: Any, out: Any) -> None:
        t = c.ub(8, 32)
        for e in c.share(count):
            how = {kind: True} if kind else {}
            low, high = (c.read(numbers[e + i], below=most, **how) for i in (0, 1))
            blocks = tile.ceil_div(maximum(high - low, 0), 4) if kind == "ascending" else 2
            for b in c.range(blocks):
                scope = {"low": low, "high": high, "b": b, "e": e, "least": minimum}
                first, last = eval(start, scope), end and eval(end, scope)
                c.load(t, x[0:])
                c.store(out[first:] if end is None else out[first:last], t.part(0, 0, (size, 32)))

    args = [LIKE((8, 32), "f32"), LIKE((count + 1,), "i32"), LIKE((64, 32), "f32")]
    program = tile.kernel(kernel).on(*args, cores=2)
    if check_kernel(program.kernel, program.target, Use(results=frozenset())).problems:
        return
    for _ in range(10):
        if kind == "ascending":
            inner = data.draw(st.lists(st.integers(0, 24), min_size=3, max_size=3))
            Given.given = [0, *sorted(inner), 24]
        else:
            numbers = st.integers(0, most - 1)
            lists = st.lists(numbers, min_size=5, max_size=5, unique=kind == "distinct")
            Given.given = data.draw(lists)
        found = stores_of(program)
        for (core, a), (other, b) in combinations(found, 2):
            apart = any(x[1] <= y[0] or y[1] <= x[0] for x, y in zip(a, b, strict=True))
            assert core == other or apart, (start, end, size, kind, Given.given)
