"""Places that hold tensors of unknown size at all sizes of ranges: proof, planted faults, runs."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from ge.dialects.graph.stated import state_ranges
from ge.dialects.npu_task.attributes import (
    OFFSETS,
    figure,
    placed_results,
    state_bytes,
    state_offsets,
)
from ge.dialects.npu_task.ops import KernelOp, LaunchOp, TransferOp, WaitOp
from ge.dialects.support.dims import Range
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.support.types import array_ints
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.binding import Binder
from ge.lowering.driver.compiler import context, lower_program
from ge.lowering.driver.program import Program
from ge.lowering.pipeline.options import Options
from ge.runtime.check.dynamic_sizes import DynamicSizes
from ge.runtime.check.proof import check_program
from ge.runtime.device.session import Session

MOST = 40
RANGES = {"n": Range(1, MOST)}
TEXT = f"""func.func @main(%x: tensor<?x64xf32> {{graph.name = "x", graph.dims = ["n", ""]}})
    -> (tensor<?x64xf32> {{graph.name = "y"}}, tensor<2x?xi64> {{graph.name = "z"}})
    attributes {{graph.dim_ranges = {{n = array<i64: 1, {MOST}>}}}} {{
  %0 = graph.softmax %x : (tensor<?x64xf32>) -> tensor<?x64xf32>
  %1 = graph.concat %0, %x axis 0 : (tensor<?x64xf32>, tensor<?x64xf32>) -> tensor<?x64xf32>
  %2 = graph.softmax %1 : (tensor<?x64xf32>) -> tensor<?x64xf32>
  %3 = graph.exp %2 : (tensor<?x64xf32>) -> tensor<?x64xf32>
  %r = graph.relu %x : (tensor<?x64xf32>) -> tensor<?x64xf32>
  %z = graph.nonzero %r : (tensor<?x64xf32>) -> tensor<2x?xi64>
  %y = graph.concat %3, %2 axis 0 : (tensor<?x64xf32>, tensor<?x64xf32>) -> tensor<?x64xf32>
  func.return %y, %z : tensor<?x64xf32>, tensor<2x?xi64>
}}"""


def compiled() -> Program:
    made = Program(parse_module(context(), SourceText("test", TEXT)), {}, "test.mlir")
    lower_program(made, Options(fusion="off"))
    return made


@pytest.fixture(scope="module")
def program() -> Program:
    return compiled()


def body(module: ModuleOp) -> FuncOp:
    main = main_function(module)
    assert main is not None
    return main


def values(n: int) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(n).normal(size=(n, 64)).astype(np.float32)}


def test_one_plan_is_proved_for_all_sizes(program: Program):
    proof = check_program(program.module)
    assert not proof.problems
    assert f"8 of unknown size lie in {figure(body(program.module), 'dynamic_bytes')} bytes" in (
        proof.summary
    )
    assert "at all sizes of n=1..40" in proof.summary
    places = [p for op in body(program.module).walk() for p in placed_results(op, RANGES)]
    assert len({low for _, low, _ in places}) < len(places)  # bytes are used again


@settings(max_examples=settings().max_examples // 3)
@given(st.integers(1, MOST))
def test_runs_at_any_size_and_timing_are_those_of_the_bound_program(n: int):
    session = Session(PROGRAM.module, poison=True)
    bound = Binder(PROGRAM, Options()).at({"n": n}).module
    want = Session(bound).run(values(n))
    got = session.run(values(n))
    for name, array in want.items():
        np.testing.assert_array_equal(got[name], array)
    session.fuzz_schedule(values(n), 2)
    arena = figure(body(bound), "arena_bytes") or 0
    assert arena <= PROGRAM.compilation.unknown["at_most"]["peak_bytes"]


PROGRAM = compiled()


@pytest.mark.usefixtures("at_once")
def test_batches_that_overlap_have_inputs_of_their_own(program: Program):
    session = Session(program.module)
    batches = [values(n) for n in (40, 3, 17)]
    for want, got in zip(map(session.run, batches), session.run_many(batches), strict=True):
        np.testing.assert_array_equal(got["y"], want["y"])


def test_m10_what_takes_more_than_it_states_is_refused(program: Program):
    module = program.module.clone()
    first = next(op for op in body(module).walk() if isinstance(op, TransferOp))
    state_bytes(first, ["4 * n"])
    (problem,) = check_program(module).problems
    assert (
        "states '4 * n' bytes for a result that takes 10240 at n=40, not 160 [M10]"
        in problem.message
    )
    with pytest.raises(GeError, match=r"a tensor has 2560 bytes, and its place 160"):
        Session(module, sanitize=False).run(values(10))


def test_places_that_this_machine_has_no_memory_for_are_not_made(
    program: Program, monkeypatch: pytest.MonkeyPatch
):
    want = Session(program.module).run(values(9))
    monkeypatch.setattr("ge.runtime.device.memory.machine_bytes", lambda: 1024)
    session = Session(program.module)
    np.testing.assert_array_equal(session.run(values(9))["y"], want["y"])
    session.run(values(MOST))
    with pytest.raises(GeError, match="its place"):
        session.run(values(MOST + 1))


# ---- planted faults


def task(module: ModuleOp, kernel: str) -> Operation:
    main = body(module)
    return next(op for op in main.walk() if isinstance(op, LaunchOp) and kernel in op.callee)


def moved_onto_what_is_live(module: ModuleOp) -> None:
    first = next(op for op in body(module).walk() if OFFSETS in op.attributes)
    state_offsets(task(module, "softmax"), array_ints(first.attributes[OFFSETS]))


def moved_by_a_part(module: ModuleOp) -> None:
    op = task(module, "relu")
    state_offsets(op, [o - 512 for o in array_ints(op.attributes[OFFSETS])])


def unaligned(module: ModuleOp) -> None:
    op = task(module, "concat")
    state_offsets(op, [o + 4 for o in array_ints(op.attributes[OFFSETS])])


def larger_range(module: ModuleOp) -> None:
    state_ranges(body(module), {"n": Range(1, MOST + 8)})


def no_range(module: ModuleOp) -> None:
    state_ranges(body(module), {"n": Range(1, None)})


def without_bytes(module: ModuleOp) -> None:
    state_bytes(task(module, "exp"), [""])


def without_waits(module: ModuleOp) -> None:
    for op in list(body(module).walk()):
        if isinstance(op, WaitOp):
            op.detach()
            op.erase()


@pytest.mark.parametrize(
    ("plant", "kind"),
    [
        (moved_onto_what_is_live, "alias"), (moved_by_a_part, "overwritten"),
        (unaligned, "alignment"), (larger_range, "bounds"), (without_bytes, "bounds"),
        (without_waits, "race"),
    ],
)  # fmt: skip
def test_planted_faults_are_found(program: Program, plant: Callable[[ModuleOp], None], kind: str):
    module = program.module.clone()
    plant(module)
    assert kind in {p.kind for p in check_program(module).problems}


def test_m9_places_are_for_results_that_end(program: Program):
    module = program.module.clone()
    no_range(module)
    assert {p.rule for p in check_program(module).problems} == {"M9"}


def test_sizes_follow_from_constants():
    """A range from 0 to 5 has 5 numbers, whatever the program states."""
    number, numbers = 'memref<i64, "hbm">', 'memref<?xi64, "hbm">'
    constants = "".join(
        f"  %{name} = npu_task.constant dense<{value}> : tensor<i64> as {number}\n"
        for name, value in (("a", 0), ("b", 5), ("c", 1))
    )
    types = "tensor<i64>, tensor<i64>, tensor<i64>"
    text = f"""npu_task.kernel @range on vector {{
^bb0(%a: tensor<i64>, %b: tensor<i64>, %c: tensor<i64>):
  %0 = graph.range %a, %b, %c : ({types}) -> tensor<?xi64>
  npu_task.return %0 : tensor<?xi64>
}}
func.func @main() {{
{constants}
  %0 = npu_task.launch @range on 0 ins(%a, %b, %c : {number}, {number}, {number})
    {{npu_task.offsets = array<i64: 0>, npu_task.bytes = ["BYTES"]}} -> {numbers}
  func.return
}}"""
    for stated in (40, 39):
        module = parse_module(context(), SourceText("m", text.replace("BYTES", str(stated))))
        kernels = {op.sym_name.data: op for op in module.ops if isinstance(op, KernelOp)}
        sizes = DynamicSizes(body(module), kernels)
        sizes.check()
        assert not sizes.trusted
        assert [p.rule for p in sizes.problems.values()] == ["M10"] * (stated < 40)
