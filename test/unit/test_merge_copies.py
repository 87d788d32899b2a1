"""Small inputs and outputs that cross the link as one copy: same numbers, less time, and planted
faults of the plan are found."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ge.dialects.npu_task.ops import BatchCopyOp, CopyOp
from ge.dialects.targets.target import Target
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context, load, lower
from ge.lowering.driver.program import Program
from ge.lowering.pipeline.options import Options
from ge.runtime.check.memory import check_plan
from ge.runtime.check.proof import check_program
from ge.runtime.clock.clock import simulate
from ge.runtime.clock.runs import simulate_runs
from ge.runtime.device.binding import DeviceArray
from ge.runtime.device.random_inputs import random_inputs
from ge.runtime.device.session import Session

MODELS = Path(__file__).parents[1] / "models"
TARGET = Target.load("910_merged")


def recommender(tables: int = 26, batch: int = 16) -> onnx.ModelProto:
    """Two dense inputs and one of indices for each table, joined and put through two layers."""
    rng = np.random.default_rng(0)
    weights: list[onnx.TensorProto] = []

    def weight(name: str, *shape: int) -> str:
        values = rng.standard_normal(shape).astype(np.float32)
        weights.append(numpy_helper.from_array(values, name))
        return name

    make = helper.make_node
    inputs = [helper.make_tensor_value_info("dense", TensorProto.FLOAT, [batch, 13])]
    inputs.append(helper.make_tensor_value_info("context", TensorProto.FLOAT, [batch, 8]))
    nodes: list[onnx.NodeProto] = []
    for i in range(tables):
        inputs.append(helper.make_tensor_value_info(f"id_{i}", TensorProto.INT64, [batch]))
        nodes.append(make("Gather", [weight(f"table_{i}", 20, 4), f"id_{i}"], [f"row_{i}"]))
    parts = ["dense", "context", *(f"row_{i}" for i in range(tables))]
    nodes += [
        make("Concat", parts, ["all"], axis=1),
        make("MatMul", ["all", weight("w", 21 + 4 * tables, 32)], ["h"]),
        make("Relu", ["h"], ["r"]),
        make("MatMul", ["r", weight("v", 32, 1)], ["logit"]),
        make("Sigmoid", ["logit"], ["click"]),
    ]
    outputs = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, [batch, 1]) for n in ("click", "logit")
    ]
    graph = helper.make_graph(nodes, "recommender", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Program]:
    path = tmp_path_factory.mktemp("recommender") / "model.onnx"
    onnx.save(recommender(), str(path))
    made: dict[bool, Program] = {}
    for merged in (False, True):
        made[merged] = load(str(path))
        lower(made[merged].module, Options(merge_io=merged))
    return made


@pytest.mark.usefixtures("at_once")
def test_the_recommender_has_same_numbers_in_fewer_copies(programs: dict[bool, Program]):
    plain, merged = (Session(p.module, p.payload, poison=True) for p in programs.values())
    inputs = random_inputs(plain.module, 1)
    want = plain.run(inputs)
    assert len(inputs) == 28
    ops = list(merged.module.walk())
    batches = [len(op.sources) for op in ops if isinstance(op, BatchCopyOp)]
    assert sorted(batches) == [2, 28]
    assert not any(isinstance(op, CopyOp) for op in ops)
    first, *others = list(inputs)
    binding = merged.bind({first: DeviceArray.of(inputs[first])})  # a part of the batch
    for got in (
        merged.run(inputs),
        next(merged.run_many([inputs])),
        binding.run({n: inputs[n] for n in others}),
    ):
        for name in want:
            assert got[name].tobytes() == want[name].tobytes()
    merged.fuzz_schedule(inputs, 3)
    assert check_program(merged.module).problems == []


def test_the_recommender_takes_less_time(programs: dict[bool, Program]):
    """28 copies take most of the time, one takes little (GE: 53.6 % to 10.4 % with 2)."""
    share: list[float] = []
    for program in programs.values():
        one = simulate(program.module, TARGET)
        runs = simulate_runs(program.module, TARGET, 16, 2, one)
        assert runs.interval_us == pytest.approx(max(runs.stages_us.values()), rel=0.05)
        share.append(runs.stages_us["inputs"] / one.latency_us)
    assert share[0] > 0.6
    assert share[1] < 0.25


@pytest.mark.parametrize(
    "name",
    [
        "bert_base.tiny",
        pytest.param("llama_7b_decode.fp16.tiny", marks=pytest.mark.soak),
        "loop_ts.tiny",
    ],
)
def test_no_program_takes_more_time(name: str):
    times: list[float] = []
    for merged in (False, True):
        loaded = load(str(MODELS / f"{name}.onnx"))
        lower(loaded.module, Options(merge_io=merged))
        assert check_program(loaded.module).problems == []
        times.append(simulate(loaded.module, TARGET).latency_us)
    assert times[1] <= times[0] * (1 + 1e-9)


# ---- planted faults ----------------------------------------------------------------------------


def slots_of(program: Program) -> BatchCopyOp:
    return next(op for op in program.module.walk() if isinstance(op, BatchCopyOp))


def copy_of(program: Program) -> Program:
    return Program(program.module.clone(), program.payload, program.path)


def breaks(rule: str, program: Program, text: str) -> None:
    """Whether the copies of a program break this rule."""
    found = [p for p in check_plan(program.module) if p.kind == "batch"]
    assert {p.rule for p in found} == {rule}
    assert any(text in p.message for p in found)


def test_m12_slots_of_one_copy_follow_each_other(programs: dict[bool, Program]):
    program = copy_of(programs[True])
    first, second = (v.owner for v in slots_of(program).targets[:2])
    first.properties["offset"], second.properties["offset"] = (  # pyright: ignore
        second.properties["offset"],  # pyright: ignore
        first.properties["offset"],  # pyright: ignore
    )
    breaks("M12", program, "moves bytes in one piece, but a slot begins at 0, not")


def test_m11_slots_of_one_copy_are_inputs_or_outputs(programs: dict[bool, Program]):
    program = copy_of(programs[True])
    arena = next(
        op.properties["segment"]
        for op in program.module.walk()
        if op.name == "npu_task.slot" and "arena" in str(op.properties["segment"])
    )
    slots_of(program).targets[3].owner.properties["segment"] = arena  # pyright: ignore
    breaks("M11", program, "is no input or output of the model")


@pytest.mark.parametrize("rows", [4, 3])
def test_m11_slots_are_copied_whole(rows: int):
    """The first of two inputs of four floats is copied to all of its slot, or to three of them."""
    host, slot = f'memref<{rows}xf32, "host">', 'memref<4xf32, "hbm">'
    part = f'memref<{rows}xf32, strided<[1]>, "hbm">' if rows < 4 else 'memref<4xf32, "hbm">'
    view = f"""%v = memref.reinterpret_cast %a to offset: [0], sizes: [{rows}], strides: [1]
    : {slot} to {part}"""
    text = f"""func.func @main(%x: {host}, %y: memref<4xf32, "host">)
    attributes {{npu_task.streams = 1 : i64, npu_task.io_bytes = 32 : i64}} {{
  %a = npu_task.slot io 0 : {slot}
  %b = npu_task.slot io 16 : {slot}
  {view}
  npu_task.batch_copy %x, %y to %v, %b on 0
    : {host}, memref<4xf32, "host"> to {part}, {slot}
  func.return
}}"""
    module = parse_module(context(), SourceText("in.mlir", text))
    module.verify()
    assert [p.rule for p in check_plan(module)] == (["M11"] if rows < 4 else [])
