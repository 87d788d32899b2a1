"""State with a capacity: many steps of decoding agree with the program without state, bit by bit,
and with one prefill; what has no room, or is of another size, is refused."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.ir import Attribute
from xdsl.rewriter import InsertPoint, Rewriter

import ge
from ge.dialects.graph.attention import AttentionOp
from ge.dialects.graph.normalization import SoftmaxOp
from ge.dialects.graph.stated import DIMS
from ge.dialects.npu_task.attributes import GROWS
from ge.dialects.npu_task.ops import KernelOp, LaunchOp
from ge.lowering.driver.compiler import load, lower
from ge.lowering.driver.program import Program
from ge.lowering.levels.level import Level
from ge.lowering.pipeline.options import Options
from ge.runtime.check.growing_state import states_of
from ge.runtime.check.proof import assumptions, check_program
from ge.runtime.clock.clock import simulate
from ge.runtime.clock.runs import simulate_runs
from ge.runtime.device.session import Session, main_of
from ge.runtime.numbers.attention import in_blocks
from ge.tools.commands import ge_compile, ge_run

MODELS = Path(__file__).parents[1] / "models"
CACHE = (r"past_key_values\.(.*)=present.\1",)
STEPS = 9


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The small llama for any number of tokens: its mask is that of the input alone."""
    model = onnx.load(MODELS / "llama_7b_decode.fp16.tiny.onnx")
    graph = model.graph
    for info in (*graph.input, *graph.output):
        for dim in info.type.tensor_type.shape.dim:
            if dim.dim_value in (11, 12):
                dim.dim_param = "past" if dim.dim_value == 11 else "past + 1"
    del graph.value_info[:]
    (picked,) = (n for n in graph.node if n.op_type == "GatherND")
    (both,) = (n for n in graph.node if n.op_type == "And")
    graph.initializer.append(numpy_helper.from_array(np.array([1, 2]), "axes_of_mask"))
    mask = helper.make_node("Unsqueeze", [picked.input[0], "axes_of_mask"], [both.output[0]])
    nodes = [mask if n is both else n for n in graph.node if n is not picked]
    del graph.node[:]
    graph.node.extend(nodes)
    shapes = {n.input[1] for n in graph.node if n.op_type == "Reshape"}
    for tensor in graph.initializer:
        if tensor.name in shapes and 12 in (sizes := numpy_helper.to_array(tensor)):
            sizes = np.where(sizes == -1, 8, sizes)  # batches and heads
            tensor.CopyFrom(numpy_helper.from_array(np.where(sizes == 12, -1, sizes), tensor.name))
    path = tmp_path_factory.mktemp("model") / "llama.onnx"
    onnx.save(model, path)
    return str(path)


@cache
def imported(path: str) -> Program:
    return load(path, dims={"batch": 2} if "gpt2" in path else {})


def compiled(path: str, capacity: int, **options: Any) -> Program:
    loaded = replace(imported(path), module=imported(path).module.clone())
    if capacity:
        options = {"state": CACHE, "state_capacity": f"past={capacity}", **options}
    lower(loaded.module, Options(**options))
    return loaded


def step_inputs(step: int) -> dict[str, Any]:
    mask = np.ones((2, step + 1), np.int64)
    mask[0, : min(step, 3)] = 0
    ids = np.random.default_rng(step).integers(0, 400, (2, 1))
    return {
        "input_ids": ids, "attention_mask": mask, "position_ids": np.full((2, 1), step)
    }  # fmt: skip


@cache
def without_state(path: str, quantize_cache: str) -> Session:
    program = compiled(path, 0, quantize_cache=quantize_cache)
    return Session(program.module, program.payload)


def agree(path: str, layout: str = "contiguous", **options: Any) -> Session:
    """Run both programs, step by step, until the state is full."""
    plain = without_state(path, options.get("quantize_cache", Options.quantize_cache))
    program = compiled(path, STEPS, state_layout=layout, **options)
    assert check_program(program.module).problems == []
    session = Session(program.module, program.payload, poison=True)
    past: Mapping[str, Any] = {
        p.name: session.state[p.name] for p in plain.inputs if p.name not in session.input_names
    }
    for step in range(STEPS):
        want = plain.run({**step_inputs(step), **past})
        got = session.run(step_inputs(step))
        assert list(got) == ["logits"]
        assert got["logits"].tobytes() == want["logits"].tobytes()
        past = {name: want[name.replace("past_key_values", "present")] for name in past}
        assert all(session.state[n].tobytes() == v.tobytes() for n, v in past.items())
    return session


def test_steps_of_gpt2_are_those_without_state() -> None:
    session = agree(str(MODELS / "gpt2_decode.dynamic.onnx"))
    before = {name: session.state[name].tobytes() for name in session.state.names}
    with pytest.raises(ge.GeError, match=rf"has {STEPS} of {STEPS} rows, each run adds 1; reset"):
        session.run(step_inputs(STEPS))
    assert {n: session.state[n].tobytes() for n in before} == before
    name = session.state.names[0]
    session.state[name] = session.state[name][:, :, :4]
    with pytest.raises(ge.GeError, match="states grow together: "):
        session.run(step_inputs(4))
    session.state.reset()
    with pytest.raises(ge.GeError, match=r"'attention_mask' has shape \[2, 5\], not int64\[2, 1\]"):
        session.run(step_inputs(4))
    session.run(step_inputs(0))


@pytest.mark.soak  # in blocks `make check` takes it, too
def test_steps_of_llama_are_those_without_state(llama: str) -> None:
    agree(llama)


@pytest.mark.parametrize("small", [pytest.param("gpt2", marks=pytest.mark.soak), "llama"])
def test_rows_in_blocks_are_read_and_written_in_order(
    llama: str, small: str, tmp_path: Path
) -> None:
    """The plain program's bits, with blocks that are taken one by one, from the end of the pool,
    and free ones full of garbage."""
    for path in (llama if small == "llama" else str(MODELS / "gpt2_decode.dynamic.onnx"),):
        session = agree(path, "paged:3")
        assert (blocks := session.state.blocks) is not None
        assert blocks.table.tolist() == [2, 1, 0]
        with pytest.raises(ge.GeError, match=rf"has {STEPS} of {STEPS} rows, each run adds 1"):
            session.run(step_inputs(STEPS))
        session.state.save(tmp_path / "s.npz")
        want = {name: session.state[name][:, :, :4] for name in session.state.names}
        session.state.reset()
        assert (blocks.taken, blocks.table.tolist()) == (0, [-1, -1, -1])
        session.run(step_inputs(0))
        assert blocks.taken == 1
        session.state.write(want)
        assert blocks.taken == 2
        session.state.load(tmp_path / "s.npz")
        assert all(session.state[n][:, :, :4].tobytes() == v.tobytes() for n, v in want.items())


def test_blocks_are_those_of_tensors() -> None:
    sessions: list[Session] = []
    for level in (Level.GRAPH, Level.PROGRAM):
        loaded = load(str(MODELS / "gpt2_decode.dynamic.onnx"), dims={"batch": 2})
        options = Options(state=CACHE, state_capacity="past=6", state_layout="paged:2")
        lower(loaded.module, options, until=level)
        sessions.append(Session(loaded.module, loaded.payload))
    for step in range(3):
        first, second = (s.run(step_inputs(step))["logits"] for s in sessions)
        np.testing.assert_allclose(first, second, atol=1e-5)
    for name in sessions[0].state.names:
        first, second = (s.state[name] for s in sessions)
        np.testing.assert_allclose(first, second, atol=1e-5)


@pytest.mark.parametrize("layout", [pytest.param("contiguous", marks=pytest.mark.soak), "paged:3"])
def test_a_state_may_be_of_integers(llama: str, layout: str) -> None:
    session = agree(llama, layout, quantize_cache="int8")
    assert session.state["past_key_values.0.key"].dtype == np.int8
    assert session.state["past_key_values.0.key.scale"].shape == (2, 4, STEPS, 1)


def test_steps_are_one_prefill() -> None:
    file = np.load(MODELS / "gpt2_prefill.noopt.tiny.npz")
    inputs = {k[3:]: file[k] for k in file.files if k.startswith("in:")}
    inputs["attention_mask"] = np.ones_like(inputs["attention_mask"])
    prefill = ge.compile(str(MODELS / "gpt2_prefill.noopt.tiny.onnx"))
    want = Session(prefill.module, prefill.payload).run(inputs)["logits"]
    program = compiled(str(MODELS / "gpt2_decode.dynamic.onnx"), 64)
    session = Session(program.module, program.payload)
    for i in range(want.shape[1]):
        now = {
            "attention_mask": np.ones((2, i + 1), np.int64),
            **{k: inputs[k][:, i : i + 1] for k in ("input_ids", "position_ids")},
        }
        np.testing.assert_allclose(session.run(now)["logits"][:, 0], want[:, i], atol=1e-5)


def test_a_row_without_a_block_is_not_read() -> None:
    table, rows = np.array([1, -1]), range(3)
    assert in_blocks(table, 6, rows).tolist() == [3, 4, 5]
    with pytest.raises(ge.GeError, match=r"rows up to 4 lie in no block: the table is \[1, -1\]"):
        in_blocks(table, 6, range(3, 4))
    with pytest.raises(ge.GeError, match="lie in no block"):
        in_blocks(np.array([2, 0]), 6, rows)


@pytest.mark.parametrize("name", ["910_merged", "910b2"])
def test_the_clock_reads_the_rows_that_hold_values(name: str) -> None:
    """And no others: 2 layers have keys and values of 2 x 4 heads, of 16 floats a row each."""
    options: dict[str, Any] = {"state_layout": "paged:64", "target": name}
    program = compiled(str(MODELS / "gpt2_decode.dynamic.onnx"), 512, **options)
    module, target = program.module, ge.Target.load(name)
    full, told = simulate(module, target), simulate(module, target, rows=512)
    assert full.notes == ["attention reads 512 of 512 rows of 'past', as where the states are full"]
    assert told.notes == ["attention reads 512 of 512 rows of 'past'"]
    assert full.latency_us == told.latency_us
    few, half = (simulate(module, target, rows=rows) for rows in (2, 256))
    assert few.latency_us < min(half.latency_us, full.latency_us)
    assert few.bytes < half.bytes < full.bytes
    assert full.bytes - few.bytes == 510 * 2 * 2 * 2 * 4 * 16 * 4
    for rows in (0, 513):
        with pytest.raises(ge.GeError, match=f"reads from 1 to 512 rows of 'past', not {rows}"):
            simulate(module, target, rows=rows)
    with pytest.raises(ge.GeError, match="whose states grow with 'past' do not overlap"):
        simulate_runs(module, target, 4, 2)
    session = Session(module, program.payload)
    with ge.Profiler() as profiler:
        for step in (0, 1):
            session.run(step_inputs(step))
    notes = [run["time"]["notes"] for run in profiler.report()["runs"]]
    assert notes == [[f"attention reads {n} of 512 rows of 'past'"] for n in (1, 2)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"state_capacity": "seq=64"}, "no state has a dimension 'seq'; those of states are past"),
        (
            {"state_capacity": "64"},
            "state_capacity is a dimension and its size, NAME=2048, not '64'",
        ),
        ({"state": ()}, "no state has a dimension 'past'; states have none"),
        ({"state_layout": "paged:0"}, "contiguous, or paged:128 (rows of a block), not 'paged:0'"),
        ({"state_layout": "tree"}, "state_layout is contiguous, or paged:128"),
        ({"state_layout": "paged:10"}, "64 is no number of blocks of 10 rows"),
        (
            {"state_layout": "paged:8", "state_capacity": ""},
            "state layout 'paged:8' without a capacity",
        ),
        ({"state_capacity": ""}, "has a size that is known only at run time"),
    ],
)
def test_capacities_that_fit_no_state(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ge.GeError) as error:
        compiled(str(MODELS / "gpt2_decode.dynamic.onnx"), 64, **options)
    assert message in str(error.value)


def test_programs_are_run_and_timed_at_numbers_of_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first step runs by default."""
    model, program = str(MODELS / "gpt2_decode.dynamic.onnx"), str(tmp_path / "p.mlir")
    state = ("--dim", "batch=1", "--state", *CACHE, "--state-capacity", "past=8")
    assert ge_compile([model, *state, "-o", program]) == 0
    assert ge_run([program, "--sanitize"]) == 0
    for flags, rows in (((), 8), (("--dim", "past=5"), 6)):
        assert ge_run([program, "--timing-only", *flags]) == 0
        assert f"note: attention reads {rows} of 8 rows of 'past'" in capsys.readouterr().out
    assert ge_run([program, "--timing-only", "--dim", "pst=5"]) == 1
    assert "it takes no --dim and no --shape; but --dim past=N" in capsys.readouterr().err


def dropped(module: ModuleOp) -> None:
    for op in states_of(main_of(module)):
        del op.attributes[GROWS]


def another_axis(module: ModuleOp) -> None:
    states_of(main_of(module))[0].attributes[GROWS] = IntegerAttr(1, i64)


def argument(of: str = "length", **changes: Attribute | None) -> Callable[[ModuleOp], None]:
    """Attributes of the counter of rows, or of the table, are others, or missing."""

    def change(module: ModuleOp) -> None:
        tables = [dict(table.data) for table in main_of(module).arg_attrs or ()]
        (counter,) = (table for table in tables if f"graph.{of}" in table)
        for name, value in changes.items():
            counter.pop(f"graph.{name}", None)
            if value is not None:
                counter[f"graph.{name}"] = value
        main_of(module).arg_attrs = ArrayAttr(map(DictionaryAttr, tables))

    return change


def mask_of(dim: str) -> Callable[[ModuleOp], None]:
    def change(module: ModuleOp) -> None:
        tables = [dict(table.data) for table in main_of(module).arg_attrs or ()]
        for table in tables:
            if "past + 1" in str(table.get(DIMS)):
                table[DIMS] = ArrayAttr([StringAttr(""), StringAttr(dim)])
        main_of(module).arg_attrs = ArrayAttr(map(DictionaryAttr, tables))

    return change


@cache
def growing() -> ModuleOp:
    return compiled(str(MODELS / "gpt2_decode.dynamic.onnx"), STEPS).module


@cache
def paged() -> ModuleOp:
    model = str(MODELS / "gpt2_decode.dynamic.onnx")
    return compiled(model, STEPS, state_layout="paged:3").module


def breaks(
    rules: str, fault: Callable[[ModuleOp], None], message: str, of: ModuleOp | None = None
) -> None:
    """Whether a program breaks these rules, and no others."""
    module = (of or growing()).clone()
    assert not check_program(module).problems
    fault(module)
    found = check_program(module).problems
    assert {p.rule for p in found} == {*rules.split()}, [p.message for p in found]
    assert any(message in p.message for p in found)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (argument(length=None), "counts no rows"),
        (mask_of("2*past"), "has 2*past elements, which is no number of rows beyond 'past'"),
    ],
)
def test_p6_rows_are_counted(fault: Callable[[ModuleOp], None], message: str) -> None:
    breaks("P6", fault, message)


@pytest.mark.parametrize("message", ["which nobody counts", "does not say how many a run appends"])
def test_rows_that_nobody_counts_are_not_appended(message: str) -> None:
    breaks("P6 P8 P9", argument(step=None), message)


@pytest.mark.parametrize("rows", [2, 4])
def test_p7_the_table_places_all_rows(rows: int) -> None:
    """Of three blocks of three rows; it says that there are fewer, or more, in each."""
    said = f"a table of {3 * rows} rows, for 9 of state"
    breaks("P7", argument("block", block=IntegerAttr(rows, i64)), said, paged())


def test_p8_rows_are_appended_as_they_grow() -> None:
    said = "to state 'past_key_values.0.key', which does not grow along axis 2"
    breaks("P8", another_axis, said)


def test_rows_are_as_many_as_are_counted() -> None:
    """And attention reads as many."""
    fault = argument(step=IntegerAttr(2, i64))
    breaks("P8 P10", fault, "1 rows, not 2, are appended to state")


def test_p9_attention_reads_rows_of_states_that_grow() -> None:
    """To which rows are appended as well: none of a state that does not grow are."""
    said = "attention reads the first rows of state 'past_key_values.0.key', which does"
    breaks("P8 P9", dropped, said)


@pytest.mark.parametrize("rows", ["past", "past + 2"])
def test_p10_masks_have_the_rows_that_attention_reads(rows: str) -> None:
    said = f"'attention_mask' has {rows} elements, of which attention reads past + 1"
    breaks("P10", mask_of(rows), said)


def test_states_that_are_cast_to_append_to_them_are_proved() -> None:
    """With the cast back left out, nothing is appended to the state."""
    model = str(MODELS / "gpt2_decode.dynamic.onnx")
    module = compiled(model, STEPS, precision="fp16").module
    assert not check_program(module).problems
    states = {op.result for op in states_of(main_of(module))}
    back = next(
        op
        for op in module.walk()
        if isinstance(op, LaunchOp) and "cast" in op.callee and {*op.outs} & states
    )
    back.detach()
    assert "and no launch appends to it" in str([p.message for p in check_program(module).problems])


def kernels_of(module: ModuleOp) -> dict[str, KernelOp]:
    return {op.sym_name.data: op for op in module.ops if isinstance(op, KernelOp)}


def test_masks_that_are_not_followed_to_attention_are_relied_upon() -> None:
    """What mixes the elements of a mask leaves their number unknown: that is said."""
    module = growing().clone()
    main, kernels = main_of(module), kernels_of(module)
    relied = "input 'attention_mask' has as many elements as attention reads of it"
    assert relied not in [*assumptions(main, kernels, 0, 0)]
    for op in list(module.walk()):
        if isinstance(op, AttentionOp) and op.masks:
            mixed = SoftmaxOp.of(op.masks[0])
            Rewriter.insert_op(mixed, InsertPoint.before(op))
            op.operands[[*op.operands].index(op.masks[0])] = mixed.results[0]
            break
    assert relied in [*assumptions(main, kernels, 0, 0)]


# `make check` has fifty steps of contiguous states from docs/state.md
@pytest.mark.parametrize("layout", ["paged:4", pytest.param("contiguous", marks=pytest.mark.soak)])
def test_commands_run_the_steps_of_a_session(
    layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """True sizes are taken and no others, and random inputs have those of the states that a run
    begins with."""
    monkeypatch.chdir(tmp_path)
    program = compiled(str(MODELS / "gpt2_decode.dynamic.onnx"), 8, state_layout=layout)
    program.save("p.mlir", None)
    session, state = program.session(), [*("--save-state", "s.npz")]
    for step in range(3):
        np.savez("x.npz", **step_inputs(step))
        assert ge_run(["p.mlir", "--inputs", "x.npz", "--outputs", "y.npz", *state]) == 0
        want = session.run(step_inputs(step))["logits"]
        assert np.load("y.npz")["logits"].tobytes() == want.tobytes()
        state = ["--load-state", "s.npz", *("--save-state", "s.npz")]
    saved = np.load("s.npz")
    assert all(saved[n].tobytes() == session.state[n].tobytes() for n in session.state.names)
    for flags in ((), ("--dim", "past=3"), ("--fuzz-schedule", "2")):
        assert ge_run(["p.mlir", "--load-state", "s.npz", *flags]) == 0
    capsys.readouterr()
    for flags, message in {
        ("--inputs", "x.npz"): "[2, 3], not int64[2, 4]: 'past' is 3, the rows that states hold",
        ("--dim", "past=5"): "--dim past=5: the states have 3 rows; a run begins with the rows of",
    }.items():
        assert ge_run(["p.mlir", "--load-state", "s.npz", *flags]) == 1
        assert message in capsys.readouterr().err
