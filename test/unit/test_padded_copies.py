"""Operands of matmuls whose rows are not aligned are copied first, where that pays."""

import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ge.runtime.cores.kernel import TileKernel
from ge.runtime.library.matmul import matmul, operands

sys.path.insert(0, str(Path(__file__).parent))
from test_lower_matmul import BATCHES, linear
from test_lower_matmul import matmul as matmul_of
from tile_lowering import compare, lowered


@settings(max_examples=5, deadline=None)
@given(
    st.integers(2, 100),
    st.integers(2, 100),
    st.integers(2, 2000),
    st.sampled_from(["f16", "f32", "i8"]),
    st.sampled_from(BATCHES),
    st.tuples(st.booleans(), st.booleans()),
    st.sampled_from([65535, 512]),
)
def test_copies(
    m: int,
    n: int,
    k: int,
    element: str,
    batch: tuple[list[int], list[int], list[int]],
    turned: tuple[bool, bool],
    longest: int,
) -> None:
    """Of any operand, of rows that come apart as well."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matmul, "copying", lambda *_: -1e9)  # they always pay
        patch.setattr(operands, "MOST_STRIDE", longest)
        compare(matmul_of(m, n, k, element, batch, turned), all_lowered=True, orders=2)


@pytest.mark.parametrize("longest", [65535, 128])
def test_what_follows_is_pulled_beside_copies(longest: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matmul, "copying", lambda *_: -1e9)
        patch.setattr(operands, "MOST_STRIDE", longest)
        module = linear(
            ["40x75xf16", "75x333xf16", "333xf16"],
            [
                "%0 = graph.matmul %x0, %x1 : (#40x75xf16, #75x333xf16) -> #40x333xf16",
                "%1 = graph.add %0, %x2 : (#40x333xf16, #333xf16) -> #40x333xf16",
            ],
            ["%1"],
        )
        assert "workspace" in str(lowered(module).pairs[0][1])
        compare(module, all_lowered=True, orders=2)


def work_us(m: int, n: int, k: int) -> float:
    module = lowered(matmul_of(m, n, k))
    ((_, program),) = module.pairs
    time = TileKernel(program, module.target).time()
    return time.start_us + max(time.core_us, time.hbm_us)


def test_unaligned_rows_take_a_copy_more() -> None:
    """4095^3 took three times as long as 4096^3; as the chips' library has it 1.15 to 1.2."""
    assert work_us(4095, 4095, 4095) < 1.3 * work_us(4096, 4096, 4096)


def test_long_sums_take_the_time_of_their_macs() -> None:
    """Rows of 80,000 elements lie farther apart than the field of an instruction says; as many
    macs of short sums took half as long."""
    same_macs = 2048 * 80000 / 4096**2
    assert work_us(2048, 4096, 80000) < 1.3 * same_macs * work_us(4096, 4096, 4096)


def test_few_bytes_are_not_copied() -> None:
    """A kernel with vector cores starts later."""
    assert "workspace" not in str(lowered(matmul_of(64, 64, 100)).module)
