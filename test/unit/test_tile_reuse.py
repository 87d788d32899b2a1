"""What crosses HBM again where operands are larger than L2, and in which order blocks are taken."""

import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import kernels_by_hand as examples
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import MemRefType, f16
from xdsl.dialects.scf import IfOp
from xdsl.ir import Block

import ge
from ge.dialects.targets.target import Target
from ge.dialects.tile.kernel import KernelOp
from ge.lowering.building import tile_kernels
from ge.runtime.cores.kernel import TileKernel
from ge.runtime.library.costs.nest import (
    Turn,
    again,
    count_of_turns,
    loaded_again,
    sections,
)
from ge.runtime.library.language.indices import ceil_div
from ge.runtime.library.language.tracing import Tracer
from ge.runtime.library.matmul import matmul
from ge.runtime.library.matmul import program as writing
from ge.runtime.library.matmul.blocks import MatmulCut, Matrices, columns_together

sys.path.insert(0, str(Path(__file__).parent))
from test_split_sums import plain
from tile_lowering import compare, lowered

MEMREF = Block(arg_types=[MemRefType(f16, [64])]).args[0]
SIZE = 10


def turns(numbers: list[int]) -> list[Turn]:
    return [{(MEMREF, (n,)): SIZE} for n in numbers]


def crossings(numbers: list[int], room: int) -> int:
    """Pieces that are loaded again after as many others as there is room for."""
    count = 0
    for i, n in enumerate(numbers):
        if n in numbers[:i]:
            last = max(j for j in range(i) if numbers[j] == n)
            count += len({*numbers[last:i]}) > room
    return count


@settings(max_examples=2 * settings().max_examples)
@given(st.lists(st.integers(0, 6), max_size=30), st.integers(1, 7))
def test_pieces_cross_again_where_others_took_their_place(numbers: list[int], room: int) -> None:
    found = again([iter(turns(numbers))], room * SIZE)
    assert found[MEMREF] == SIZE * crossings(numbers, room)


def test_what_cores_load_in_one_turn_is_loaded_once() -> None:
    cores = [iter(turns(numbers)) for numbers in ([0, 1, 0], [0, 2, 0], [3])]
    assert again(cores, 4 * SIZE) == Counter()


def test_blocks_are_walked_so_that_l2_has_what_comes_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """8 MB of weights do not fit into an L2 of 4 MB: row after row of blocks reads them again."""
    target = replace(Target.load("910b2"), l2_bytes=1 << 22)

    def hbm_bytes(of: Target) -> int:
        def together(cut: MatmulCut, p: Matrices, _: Target) -> int:
            return columns_together(cut, p, of)

        cut = MatmulCut(256, 128, 128, 64, 1)
        monkeypatch.setattr(matmul, "best_cut", lambda *_: cut)  # pyright: ignore
        monkeypatch.setattr(writing, "columns_together", together)
        ((_, program),) = lowered(plain(1024, 512, 8192)).pairs
        return TileKernel(program, target).time().hbm_bytes

    by_rows, in_order = hbm_bytes(Target.load("910b2")), hbm_bytes(target)
    operands = 2 * 512 * (1024 + 8192)
    assert by_rows - in_order > 2 * operands


@pytest.mark.parametrize(
    ("batch", "group"),
    [
        pytest.param(batch, group, marks=[] if group == 2 or batch == 1 else pytest.mark.soak)
        for batch in (1, 3)
        for group in (1, 2, 3)
    ],
)
def test_all_blocks_are_walked_in_any_order(
    group: int, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the last columns are fewer."""
    cut = MatmulCut(32, 32, 64, 32, 1)
    monkeypatch.setattr(matmul, "best_cut", lambda *_: cut)  # pyright: ignore
    monkeypatch.setattr(writing, "columns_together", lambda *_: group)  # pyright: ignore
    text = plain(90, 70, 150)
    if batch > 1:
        text = text.replace("tensor<90", f"tensor<{batch}x90").replace(
            "tensor<70", f"tensor<{batch}x70"
        )
    compare(text, all_lowered=True, orders=1)


@pytest.mark.parametrize(("sizes", "together"), [
    ((4096, 4096, 4096), 26),  # both fit: all columns
    ((8192, 8192, 8192), 52),  # the columns of one row after the other still do
])  # fmt: skip
def test_rows_are_walked_whole_where_l2_has_room(
    sizes: tuple[int, int, int], together: int
) -> None:
    m, n, k = sizes
    p = Matrices(1, m, n, k, f16, f16, (1, 1), (k, n))
    assert columns_together(MatmulCut(192, 160, 320, 80, 1), p, Target.load("910b2")) == together


def test_a_part_of_the_turns_stands_for_all() -> None:
    """What an estimate follows: the first turns, and others as the last half of these."""
    x = ge.tile.Tensor((4096, 4096), "f16")
    program = examples.gemm.on(x, x, x, target="910b2").kernel
    facts = [(p, part) for p in program.programs for part in range(p.parts)], program.core_count
    room = 8 << 20
    whole, ((first, part), *_) = loaded_again(*facts, room), facts[0]
    most = count_of_turns(sections(first.body.block), part, facts[1])
    some = loaded_again(*facts, room, most // 2)
    assert whole.total() > 0
    assert loaded_again(*facts, room, most) == whole
    assert some.total() == pytest.approx(whole.total(), rel=0.3)


def test_a_turn_larger_than_l2_leaves_nothing_of_what_it_began_with() -> None:
    every = {piece: size for turn in turns([*range(10)]) for piece, size in turn.items()}
    assert again([iter([every, every])], 5 * SIZE)[MEMREF] == 10 * SIZE
    assert again([iter([every, every])], 10 * SIZE)[MEMREF] == 0


ROWS, WIDE = 8, 1 << 16  # of 256 KB


def ahead(c: Tracer, x: Any, y: Any) -> None:
    """Rows that are read twice, each a turn before it is stored: the first one and the last one are
    cut off from the loop."""
    ring = c.ub(1, 4096, copies=2)
    count = c.now(ceil_div(2 * ROWS - c.core, c.cores))
    for turn in c.range(count + 1):
        with c.when(turn < count):
            for part in c.range(WIDE // 4096):
                c.load(ring[part], x[c.nth(turn) % ROWS :, part * 4096 :])
        with c.when(turn >= 1):
            c.store(y[c.nth(turn) - 1 :, 0:], ring[0])


def twice(c: Tracer, x: Any, y: Any) -> None:
    """All rows, and all rows again."""
    ring = c.ub(1, 4096, copies=2)
    for _ in range(2):
        for row in c.range(ROWS // 2):
            for part in c.range(WIDE // 4096):
                c.load(ring[part], x[c.core * (ROWS // 2) + row :, part * 4096 :])
                c.store(y[row:, 0:], ring[part])


def program_of(kernel: Any) -> KernelOp:
    x = ge.tile.Tensor((ROWS, WIDE), "f32")
    return ge.tile.kernel(kernel).on(x, x, cores=2, target="910b2").kernel


def reused(op: KernelOp, room: int, most: int | None = None) -> int:
    """Bytes that two cores load again."""
    programs = [(p, part) for p in op.programs for part in range(p.parts)]
    return loaded_again(programs, op.core_count, room, most).total()


@pytest.mark.parametrize("is_finished", [False, True])
def test_turns_that_are_cut_off_count(is_finished: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before loops are cut loads are in branches; behind, the first turn stands beside the loop."""
    if not is_finished:
        monkeypatch.setattr(tile_kernels, "finish", lambda _: None)  # pyright: ignore
    op, size = program_of(ahead), 4 * ROWS * WIDE
    assert any(isinstance(o, IfOp) for o in op.walk()) != is_finished
    assert reused(op, size // 2) == size
    assert reused(op, size) == 0


@pytest.mark.parametrize("most", [None, 2])
def test_loops_one_after_the_other_load_the_same(most: int | None) -> None:
    """Also where no more than two turns are followed: each loop is one, then."""
    size = 4 * ROWS * WIDE
    op = program_of(twice)
    assert reused(op, size // 2, most) == size
    assert reused(op, size, most) == 0


@pytest.mark.parametrize("turned", [False, True])
def test_blocks_of_a_run_share_their_left_hand_side(
    turned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where rows and terms end within a block and within a step."""
    cut = MatmulCut(32, 32, 64, 32, 2, run=2)
    monkeypatch.setattr(matmul, "best_cut", lambda *_: cut)  # pyright: ignore
    monkeypatch.setattr(writing, "columns_together", lambda *_: 4)  # pyright: ignore
    text = plain(90, 150, 120)
    if turned:
        text = text.replace("tensor<90x150xf16>", "tensor<150x90xf16>")
        text = text.replace("graph.matmul %a, %b", "graph.matmul %a, %b transpose_lhs true")
    compare(text, all_lowered=True, orders=1)
