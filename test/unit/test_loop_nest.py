"""Estimates of tile programs, by hand and against their simulations."""

from typing import Any

import kernels_by_hand as examples
import numpy as np
import pytest

import ge
from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.targets.target import Target
from ge.dialects.tile.instruction import Instruction
from ge.dialects.tile.kernel import KernelOp as TileKernelOp
from ge.dialects.tile.transfers import LoadOp
from ge.lowering.driver.compiler import compile_file
from ge.lowering.pipeline.options import Options
from ge.runtime.clock.clock import ProgramClock
from ge.runtime.cores.kernel import TileKernel
from ge.runtime.library.costs import estimates, units
from ge.runtime.library.costs.estimates import LoopNests, cores_of
from ge.runtime.library.language.tracing import Tracer
from ge.runtime.library.language.values import exp
from ge.transforms.schedule.assign_streams import AssignStreamsPass

B2 = Target.load("910b2")
BERT = "test/models/bert_base.tiny.onnx"


def relu_in(turns: int, copies: int) -> TileKernelOp:
    """Rows of 4,096 elements on one core, in so many turns."""

    def relus(c: Tracer, x: Any, y: Any) -> None:
        ring = c.ub(1, 4096, copies=copies)
        for i in c.range(turns):
            t = ring[i]
            c.load(t, x[i:, 0:])
            t[:] = ge.tile.maximum(t, 0)
            c.store(y[i:, 0:], t)

    x = np.zeros((turns, 4096), "f4")
    return ge.tile.kernel(relus).on(x, x, cores=1, target="910b2").kernel


def cycles(op: TileKernelOp) -> float:
    return LoopNests(op, B2).estimate().core_us * B2.cycles_per_us


def test_a_ring_lets_pipes_overlap() -> None:
    """With one copy a turn is all three instructions, with three the longest of them."""
    load = B2.mte2_start_cycles + 16384 / B2.hbm_rate
    store = 16384 / B2.l2_write_rate
    relu = B2.vector_start_cycles + 64 * B2.vector_cycles_of("scalar")
    more = [
        cycles(relu_in(n, copies)) - cycles(relu_in(n - 1, copies))
        for n in (9,)
        for copies in (1, 3)
    ]
    assert more[1] == pytest.approx(max(load, store, relu), rel=0.1)
    assert more[0] > load + relu
    assert more[0] <= (load + store + relu + 4 * B2.flag_cycles) * 1.05


def test_a_copy_is_free_when_the_last_of_its_readers_is_done() -> None:
    """The store of a tile is written behind long work on it, and may be over before that."""

    def both(c: Tracer, x: Any, y: Any, z: Any) -> None:
        t, work = c.ub(1, 4096), c.ub(1, 4096, copies=2)
        for i in c.range(16):
            c.load(t, x[i:, 0:])
            work[i][:] = exp(exp(exp(exp(t)))) / t
            c.store(y[i:, 0:], t)
            c.store(z[i:, 0:], work[i])

    x = np.zeros((16, 4096), "f4")
    op = ge.tile.kernel(both).on(x, x, x, cores=1, target="910b2").kernel
    want = TileKernel(op, B2).time()
    assert LoopNests(op, B2).estimate().core_us == pytest.approx(want.core_us, rel=0.1)


@pytest.mark.parametrize("name", ["gemm", "rms_norm"])
def test_examples_are_near_their_simulations(name: str) -> None:
    shapes = {"gemm": [(512, 512)] * 3, "rms_norm": [(512, 256), (256,), (512, 256)]}
    given = [ge.tile.Tensor(shape, "f16") for shape in shapes[name]]
    op = getattr(examples, name).on(*given, target="910b2").kernel
    found, want = LoopNests(op, B2).estimate(), TileKernel(op, B2).time()
    assert found.core_us == pytest.approx(want.core_us, rel=0.25)
    assert found.hbm_us == pytest.approx(want.hbm_us, rel=0.1)


@pytest.fixture(scope="module", params=["910b2", "310p3"])
def program(request: pytest.FixtureRequest) -> Any:
    options = Options(target=request.param, tiles=True)
    return compile_file(BERT, options), Target.load(request.param)


def test_launches_of_a_model_are_near_their_simulations(program: Any) -> None:
    module, target = program[0].module, program[1]
    apart: list[float] = []
    for op in module.ops:
        if isinstance(op, TileKernelOp):
            figures, time = estimates.figures_of(op, target), TileKernel(op, target).time()
            assert figures is not None
            assert figures.warm_us <= figures.cold_us
            apart.append(figures.total_us / time.total_us)
    assert len(apart) > 8
    assert all(1 / 1.25 < a < 1.25 for a in apart)


def test_streams_are_assigned_by_the_programs(
    program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock of the schedule takes the programs' figures, and estimates none anew."""
    module, target = program[0].module.clone(), program[1]
    programs = [op for op in module.ops if isinstance(op, TileKernelOp)]
    kernels = [op for op in module.ops if isinstance(op, KernelOp) and op.tiles is not None]
    for op in programs:
        estimates.figures_of(op, target)
    asked, timed = list[TileKernelOp](), list[int]()
    begin = ProgramClock.__init__

    def counted(self: ProgramClock, *args: Any, **more: Any) -> None:
        timed.append(len(more.get("tiles") or ()))
        begin(self, *args, **more)

    monkeypatch.setattr(estimates, "figures", lambda op, target: asked.append(op))
    monkeypatch.setattr(ProgramClock, "__init__", counted)
    AssignStreamsPass(target.name).apply(None, module)  # pyright: ignore[reportArgumentType]
    assert timed == [len(programs)]
    assert len(kernels) >= len(programs) > 0
    assert not asked


def test_instructions_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever operands are: these matter to loads alone. Of cores of which one goes through all
    loops as often as the others, or more often, its pipes are followed alone."""
    asked, cycles_of = list[Any](), units.cycles_of

    def counted(op: Instruction, sizes: tuple[int, ...], *more: Any) -> float:
        asked.append((op, sizes))
        return cycles_of(op, sizes, *more)

    monkeypatch.setattr(units, "cycles_of", counted)
    op = examples.gemm.on(*[ge.tile.Tensor((1000, 1000), "f16")] * 3, target="910b2").kernel
    nests = LoopNests(op, B2)
    assert len(cores_of(op)) > len(nests.cores) == 1
    nests.estimate()
    assert len(asked) == len(set(asked)) > 5
    asked.clear()
    nests.estimate((1.0, 1.0))
    assert asked
    assert all(isinstance(op, LoadOp) for op, _ in asked)


def test_what_cores_pass_is_counted_once(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever operands are."""
    asked, segments, target = list[Any](), units.segments, program[1]

    def counted(phase: Any) -> Any:
        asked.append(phase)
        return segments(phase)

    monkeypatch.setattr(units, "segments", counted)
    programs = [op for op in program[0].module.ops if isinstance(op, TileKernelOp)]
    for op in programs:
        if len(op.programs) > 1:
            nests, before = LoopNests(op, target), len(asked)
            nests.estimate()
            first = len(asked) - before
            nests.estimate((1.0,) * len(op.arguments))
            assert len(asked) - before == first > 0
    assert asked
