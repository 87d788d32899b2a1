"""Cores that meet at barriers, and what they pass each other in a workspace."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from kernels_by_hand import split_k
from sums import assert_matmul

from ge.dialects.support.errors import GeError
from ge.dialects.targets.target import Target
from ge.dialects.text.reading import SourceText, parse_module
from ge.dialects.tile.kernel import KernelOp
from ge.lowering.building import tile_kernels as tile
from ge.lowering.building.tile_kernels import Tensor, TileProgram
from ge.lowering.driver.context import context
from ge.runtime.check.tile_device import Use
from ge.runtime.check.tiles import check_kernel
from ge.runtime.cores.kernel import TileKernel
from ge.runtime.data.arrays import Array

B2 = Target.load("910b2")


@tile.kernel(stored=4, meeting=4)
def turned(c: Any, x: Any, out: Any, stored: int, meeting: int) -> None:
    """Core i stores row i of x + 1, and takes the row of the core before it. `stored`: how many
    rows are stored, and `meeting`: how many cores come to the barrier."""
    rows, size = x.shape
    own, t = c.workspace(*x.shape, dtype=x.dtype), c.ub(1, size)
    for i in c.share(stored):
        c.load(t, x[i:])
        t[:] = t + 1
        c.store(own[i:], t)
    if meeting == 4:
        c.barrier()
    elif meeting:
        with c.when(c.core < meeting):
            c.barrier()
    for i in c.share(rows):
        c.load(t, own[(i + rows - 1) % rows :])
        c.store(out[i:], t)


def rows_of(n: int = 4) -> tuple[Array, Array]:
    return np.arange(n * 16, dtype=np.float32).reshape(n, 16), np.zeros((n, 16), np.float32)


@pytest.mark.parametrize("seed", [None, *range(5)])
def test_what_others_stored_is_there_behind_a_barrier(seed: int | None) -> None:
    x, out = rows_of()
    program = turned.on(x, out, cores=4)
    program.run(x, out, seed=seed)
    np.testing.assert_array_equal(out, np.roll(x + 1, 1, axis=0))


@pytest.mark.parametrize("seed", range(3))
def test_cube_cores_store_and_vector_cores_add_in_order(seed: int) -> None:
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(s).astype(np.float16) for s in ((32, 256), (256, 48)))
    out = np.zeros((32, 48), np.float32)
    program = split_k.on(a, b, out, cores=4, target="910b2")
    assert program.check().summary.endswith("on 4 cores, in any order of the pipes")
    program.run(a, b, out, seed=seed)
    assert_matmul(out, a, b)
    same = np.zeros_like(out)
    program.run(a, b, same)
    np.testing.assert_array_equal(out, same)


def kernel_of(text: str) -> KernelOp:
    module = parse_module(context(), SourceText("k.mlir", text))
    module.verify()
    (kernel,) = module.ops
    assert isinstance(kernel, KernelOp)
    return kernel


def kinds(program: TileProgram) -> set[str]:
    return {p.kind for p in program.check().problems}


def test_a_program_reads_back_as_it_was() -> None:
    text = turned.on(*rows_of(), cores=4).mlir
    assert "workspace(%workspace" in text
    assert str(parse_module(context(), SourceText("k.mlir", text))) == text


def test_what_is_read_of_others_has_a_barrier_between() -> None:
    assert not kinds(turned.on(*rows_of(), cores=4))
    assert kinds(turned.on(*rows_of(), cores=4, meeting=0)) == {"race", "unwritten"}
    # what a core stored itself it has without one: its own flags order that
    assert not kinds(turned.on(*rows_of(1), cores=1, meeting=0, stored=1))


def test_what_is_read_of_a_workspace_was_stored() -> None:
    x, out = rows_of()
    program = turned.on(x, out, cores=4, stored=3)
    assert kinds(program) == {"unwritten"}
    program.run(x, out)
    assert np.isnan(out[0]).all()
    assert not np.isnan(out[1:]).any()


@tile.kernel(stored=4)
def summed(c: Any, x: Any, out: Any, stored: int) -> None:
    """Copies the first `stored` rows of x, and adds x to all."""
    rows, size = x.shape
    t = c.ub(1, size)
    for i in c.share(stored):
        c.load(t, x[i:])
        c.store(out[i:], t)
    c.barrier()
    for i in c.share(rows):
        c.load(t, x[(i + 1) % rows :])
        c.store(out[(i + 1) % rows :], t, add=True)


@pytest.mark.parametrize("over", [frozenset(), frozenset({(1, 0)})])
def test_what_is_added_to_was_stored_before_a_barrier(over: frozenset[tuple[int, int]]) -> None:
    """By any core, also where the result may lie over the operand, as far as nothing is read
    again."""
    problems = check_kernel(
        summed.on(*rows_of(), cores=4, stored=3).kernel, B2, Use(frozenset([over]))
    ).problems
    assert any("that nothing stored" in p.message for p in problems)
    problems = check_kernel(
        summed.on(*rows_of(), cores=4).kernel, B2, Use(frozenset([over]))
    ).problems
    assert bool(problems) == bool(over)
    assert all("are read after a result was written over them" in p.message for p in problems)


def test_all_cores_come_to_a_barrier() -> None:
    program = turned.on(*rows_of(), cores=4, meeting=3)
    assert "deadlock" in kinds(program)
    with pytest.raises(GeError, match="some cores come to 0 barriers, and others to 1"):
        program.time()


def test_both_programs_of_a_core_come_to_a_barrier() -> None:
    a, b, out = Tensor((32, 256), "f16"), Tensor((256, 48), "f16"), Tensor((32, 48), "f32")
    program = split_k.on(a, b, out, cores=4, target="910b2")
    assert program.mlir.count("tile.barrier\n") == 2
    kernel = kernel_of(program.mlir.replace("tile.barrier\n", "", 1))
    assert "deadlock" in {p.kind for p in check_kernel(kernel, B2).problems}
    with pytest.raises(GeError, match=r"waits for all cores at the barrier at tile\.barrier"):
        TileKernel(kernel, B2).time()


@tile.kernel
def over(c: Any, x: Any, out: Any) -> None:
    """Core i stores row i of x, and reads the one before behind a barrier."""
    rows, size = x.shape
    t = c.ub(1, size)
    c.store(out[c.core :], c.load(t, x[c.core :]))
    c.barrier()
    c.store(out[c.core :], c.load(t, x[(c.core + rows - 1) % rows :]))


def test_an_operand_is_not_read_after_another_core_wrote_over_it() -> None:
    """The barrier orders the two, in the wrong way."""
    kernel = over.on(*rows_of(), cores=4).kernel
    assert not check_kernel(kernel, B2).problems
    found = check_kernel(kernel, B2, Use(frozenset([frozenset([(1, 0)])]))).problems
    assert "overwritten" in {p.kind for p in found}


@tile.kernel(meets=True)
def uneven(c: Any, x: Any, out: Any, meets: bool) -> None:
    """Core i adds 1 to its row i times, before a barrier, and 3 - i times behind it."""
    t = c.ub(1, x.shape[1])
    c.load(t, x[c.core :])
    for _ in c.range(c.core):
        t[:] = t + 1
    if meets:
        c.barrier()
    for _ in c.range(3 - c.core):
        t[:] = t + 1
    c.store(out[c.core :], t)


def test_the_slowest_core_sets_the_time_up_to_a_barrier() -> None:
    """Each adds three times; with a barrier six times are seen, and two flags between cores."""
    target = replace(B2, flag_cycles=0.0)
    x, out = rows_of()
    bare, met = (
        TileKernel(uneven.on(x, out, cores=4, meets=m).kernel, target).time() for m in (False, True)
    )
    add = (bare.pipes[2].busy_us) / 3
    barrier = 2 * B2.cross_flag_cycles / B2.cycles_per_us
    assert met.core_us == pytest.approx(bare.core_us + 3 * add + barrier)
    waits = {n: t for p in met.pipes for n, t in p.waits.items() if "barrier" in n}
    assert waits
    assert [p.instructions for p in met.pipes] == [p.instructions for p in bare.pipes]
    kernel = uneven.on(x, out, cores=4, meets=True)
    kernel.run(x, out)
    np.testing.assert_array_equal(out, x + 3)
    unstated = TileKernel(kernel.kernel, replace(B2, cross_flag_cycles=0.0)).time().unstated
    assert "cross_flag_cycles" in unstated
