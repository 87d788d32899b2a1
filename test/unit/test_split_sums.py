"""Cores that share the terms of a matmul's sums: of few rows (split-K), or of the blocks that are
left where all cores have had as many (stream-K)."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

from ge.dialects.tile.transfers import StoreOp
from ge.runtime.cores.kernel import TileKernel
from ge.runtime.library.matmul import blocks, matmul
from ge.runtime.library.matmul.blocks import MatmulCut

sys.path.insert(0, str(Path(__file__).parent))
from test_lower_matmul import linear
from test_lower_operands import weights
from tile_lowering import Lowered, compare, lowered


def is_shared(result: Lowered) -> bool:
    ((_, program),) = result.pairs
    assert bool(program.workspace) == bool(program.barriers)
    return bool(program.workspace)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three cores share each block's terms, as if merging took no time."""
    monkeypatch.setattr(matmul, "SPLITS", (3,))
    monkeypatch.setattr(blocks, "merging", lambda *_: -1e9)


def plain(m: int, k: int, n: int, dtype: str = "f16") -> str:
    a, b, c = (f"tensor<{s}x{dtype}>" for s in (f"{m}x{k}", f"{k}x{n}", f"{m}x{n}"))
    return f"""func.func @main(%a: {a}, %b: {b}) -> {c} {{
      %r = graph.matmul %a, %b : ({a}, {b}) -> {c}
      func.return %r : {c}
    }}"""


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize(
    "text",
    [
        linear(*weights(1, 2048, 96, "i4", block=32)),
        linear(*weights(5, 2000, 200)),
        pytest.param(linear(*weights(16, 2048, 70, turned=True)), marks=pytest.mark.soak),
    ],
)
def test_parts_are_added_in_their_order(text: str) -> None:
    """In any order of cores and pipes the same bits, and proved."""
    assert is_shared(compare(text, all_lowered=True, orders=2))


GATED = [  # two matmuls that meet
    "%0 = graph.matmul %x0, %x1 : (#3x2000xf16, #2000x200xf16) -> #3x200xf16",
    "%1 = graph.matmul %x0, %x2 : (#3x2000xf16, #2000x200xf16) -> #3x200xf16",
    "%2 = graph.mul %0, %1 : (#3x200xf16, #3x200xf16) -> #3x200xf16",
]
BESIDE = [  # and two that do not
    "%0 = graph.matmul %x0, %x1 : (#3x2000xf16, #2000x200xf16) -> #3x200xf16",
    "%1 = graph.matmul %x0, %x2 : (#3x2000xf16, #2000x72xf16) -> #3x72xf16",
    "%2 = graph.add %1, %x3 : (#3x72xf16, #72xf16) -> #3x72xf16",
]

HEADS_OF_A_ROW = [  # rotated ones, and others beside them
    "%0 = graph.matmul %x0, %x1 : (#1x1x2000xf16, #2000x96xf16) -> #1x1x96xf16",
    "%1 = graph.reshape %0 shape [1, 1, 3, 32] : (#1x1x96xf16) -> #1x1x3x32xf16",
    "%2 = graph.transpose %1 permutation [0, 2, 1, 3] : (#1x1x3x32xf16) -> #1x3x1x32xf16",
    "%3 = graph.rotary_embedding %2, %x3, %x3 : "
    "(#1x3x1x32xf16, #1x1x1x16xf16, #1x1x1x16xf16) -> #1x3x1x32xf16",
    "%4 = graph.matmul %x0, %x2 : (#1x1x2000xf16, #2000x200xf16) -> #1x1x200xf16",
]


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize(
    "module",
    [
        linear(["3x2000xf16", "2000x200xf16", "2000x200xf16"], GATED, ["%2"]),
        linear(
            ["1x1x2000xf16", "2000x96xf16", "2000x200xf16", "1x1x1x16xf16"],
            HEADS_OF_A_ROW,
            ["%3", "%4"],
        ),
        linear(["3x2000xf16", "2000x200xf16", "2000x72xf16", "72xf16"], BESIDE, ["%0", "%2"]),
    ],
)
def test_several_matmuls_share_their_terms_and_wait_once(module: ModuleOp) -> None:
    result = compare(module, all_lowered=True, orders=2)
    ((_, program),) = result.pairs
    assert is_shared(result)
    assert len(program.barriers) == len(program.programs)  # one in each


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("dtype", ["f16", "f32"])
def test_sums_that_would_be_stored_as_they_are(dtype: str) -> None:
    assert is_shared(compare(plain(3, 5000, 48, dtype), all_lowered=True, orders=1))


@pytest.mark.parametrize(("text", "shares"), [
    (linear(*weights(1, 4096, 4096, "i4", block=32)), True),
    (linear(*weights(1, 64, 64)), False),
    (plain(1, 4096, 4096), False),  # the vector cores would have to be started
])  # fmt: skip
def test_terms_are_shared_where_it_pays(text: str, shares: bool) -> None:
    assert is_shared(lowered(text)) == shares


def test_weights_of_4_bits_by_two_rows_take_three_quarters_of_the_time() -> None:
    """Narrow blocks have short rows, each of which the vector cores load as a piece."""

    def time() -> float:
        result = lowered(linear(*weights(2, 4096, 2048, "i4", block=32)))
        ((_, program),) = result.pairs
        return TileKernel(program, result.target).time().core_us

    shared = time()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matmul, "SPLITS", ())
        assert 0.75 * time() > shared


# ---- the last wave ---------------------------------------------------------------------------


def with_bias(m: int, k: int, n: int, dtype: str = "f16") -> ModuleOp:
    x, w, b, y = (f"{s}x{dtype}" for s in (f"{m}x{k}", f"{k}x{n}", n, f"{m}x{n}"))
    ops = [
        f"%0 = graph.matmul %x0, %x1 : (#{x}, #{w}) -> #{y}",
        f"%1 = graph.add %0, %x2 : (#{y}, #{b}) -> #{y}",
    ]
    return linear([x, w, b], ops, ["%1"])


HEADS = [
    "%0 = graph.matmul %x0, %x1 : (#2x40x512xf16, #512x96xf16) -> #2x40x96xf16",
    "%1 = graph.reshape %0 shape [2, 40, 3, 32] : (#2x40x96xf16) -> #2x40x3x32xf16",
    "%2 = graph.transpose %1 permutation [0, 2, 1, 3] : (#2x40x3x32xf16) -> #2x3x40x32xf16",
]


def returning(found: tuple[MatmulCut, int] | None) -> Callable[..., tuple[MatmulCut, int] | None]:
    def search(*_: object) -> tuple[MatmulCut, int] | None:
        return found

    return search


def cut_into(monkeypatch: pytest.MonkeyPatch, m: int, n: int, k: int, splits: int) -> None:
    """Blocks of m x n, whose last ones have their terms shared."""
    cut = MatmulCut(m, n, k, k // 2, 1)
    monkeypatch.setattr(matmul, "best_shared_wave", returning((cut, splits)))


@pytest.mark.parametrize(
    ("module", "cut"),
    [
        pytest.param(plain(300, 512, 170), (32, 64, 64, 4), marks=pytest.mark.soak),
        # a whole wave, and blocks
        (plain(70, 500, 40, "f32"), (32, 32, 64, 3)),  # all blocks are of the last wave
        pytest.param(with_bias(70, 520, 100), (32, 64, 64, 2), marks=pytest.mark.soak),
        (with_bias(270, 310, 170), (32, 64, 64, 3)),  # not as many steps for each
        (linear(["2x40x512xf16", "512x96xf16"], HEADS, ["%2"]), (48, 32, 64, 3)),
    ],
)
def test_parts_of_the_last_wave_are_added_in_their_order(
    module: ModuleOp | str, cut: tuple[int, int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_into(monkeypatch, *cut)
    assert is_shared(compare(module, all_lowered=True, orders=2))


def test_whole_blocks_beside_a_shared_wave_are_stored_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cut_into(monkeypatch, 32, 64, 64, 4)
    ((_, program),) = lowered(plain(300, 512, 170)).pairs
    assert program.cube is not None
    stored = [op.target.type for op in program.cube.walk() if isinstance(op, StoreOp)]
    assert [str(t) for t in stored] == ["!tile.box<32x64xf16>", "!tile.box<32x64xf32>"]


def time_of(result: Lowered) -> float:
    ((_, program),) = result.pairs
    return TileKernel(program, result.target).time().total_us


@pytest.mark.parametrize("module", [
    lambda: with_bias(1024, 8192, 1024),
    pytest.param(lambda: plain(384, 32768, 384), marks=pytest.mark.soak),
    lambda: linear(*weights(40, 4096, 96)),
])  # fmt: skip
def test_a_last_wave_is_shared_where_it_pays(module: Callable[[], ModuleOp | str]) -> None:
    result = lowered(module())
    assert is_shared(result)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matmul, "best_shared_wave", returning(None))
        assert time_of(result) < time_of(lowered(module()))


@pytest.mark.parametrize("module", [
    plain(1024, 8192, 1024),  # the vector cores would have to be started
    with_bias(1536, 4096, 1536),  # blocks fill three waves
    plain(4096, 4096, 4096),  # that is within what estimates are unsure of
])  # fmt: skip
def test_full_waves_are_not_shared(module: ModuleOp | str) -> None:
    assert not is_shared(lowered(module))
