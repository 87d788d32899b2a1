"""Pipelines: stages that are found or stated, what they send each other, the numbers of one device,
and what a pipeline does not take."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import ge
from ge.dialects.graph.sharding import Pipeline
from ge.dialects.npu_task.pipeline import main_of_stage, receives_of, sends_of, stages_of
from ge.dialects.support.errors import GeError
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context
from ge.lowering.driver.program import Program
from ge.runtime.check.proof import check_program
from ge.runtime.clock.pipeline import PipelineTime, Sending
from ge.tools.commands import ge_compile

T = "tensor<16x8xf32>"
W = "tensor<8x8xf32>"


def layer(number: int, x: str, y: str, weight: str = "") -> str:
    return (
        f'  %w{number} = graph.constant #graph.weight<"{weight or f"w{number}"}"> : {W}\n'
        f"  %m{number} = graph.matmul %{x}, %w{number} : ({T}, {W}) -> {T}\n"
        f"  %{y} = graph.tanh %m{number} : ({T}) -> {T}\n"
    )


def model(body: str, results: str = "y", returned: str = "") -> str:
    names = results.split()
    outputs = ", ".join(f'{T} {{graph.name = "{n}"}}' for n in names)
    values = ", ".join(f"%{n}" for n in returned.split() or names)
    types = ", ".join([T] * len(names))
    return (
        f'func.func @main(%x: {T} {{graph.name = "x"}}) -> ({outputs}) {{\n'
        f"{body}  return {values} : {types}\n}}"
    )


CHAIN = model(layer(0, "x", "a") + layer(1, "a", "b") + layer(2, "b", "c") + layer(3, "c", "y"))


def compiled(folder: Path, text: str, **options: Any) -> Program:
    path = folder / "model.mlir"
    path.write_text(text)
    return ge.compile(path, tiles=False, **options)


def weights(count: int = 4) -> dict[str, Any]:
    random = np.random.default_rng(0)
    return {f"w{i}": random.standard_normal((8, 8)).astype(np.float32) for i in range(count)}


def outputs_of(program: Program, x: Any) -> dict[str, Any]:
    program.payload = weights()
    return program.session(sanitize=True).run({"x": x})


def check_numbers(folder: Path, text: str, **options: Any) -> Program:
    """Compile a pipeline whose outputs are those of one device."""
    x = np.random.default_rng(1).standard_normal((16, 8)).astype(np.float32)
    wanted = outputs_of(compiled(folder, text), x)
    program = compiled(folder, text, **options)
    found = outputs_of(program, x)
    assert set(found) == set(wanted)
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, atol=1e-5)
    return program


def sent(program: Program) -> list[list[tuple[str, int]]]:
    return [
        [(op.value.data, op.stage.value.data) for op in sends_of(stage)]
        for stage in stages_of(program.module)
    ]


@pytest.mark.parametrize(
    ("mesh", "pipeline", "microbatches"),
    [
        ("pp=4", 4, 2), ("pp=4", 4, 16), ("dp=2,pp=2", 2, 8), ("pp=2,dp=2", "pp=2", 1),
        ("", 4, 8), ("", "pp=2", 4),  # each stage is one device
    ],
)  # fmt: skip
def test_stages_give_the_numbers_of_one_device(
    tmp_path: Path, mesh: str, pipeline: int | str, microbatches: int
) -> None:
    flags = {"mesh": mesh, "pipeline": pipeline, "microbatches": microbatches}
    program = check_numbers(tmp_path, CHAIN, **flags)
    pipe = Pipeline.of(program.module)
    assert pipe is not None
    assert (pipe.axis, pipe.microbatches) == ("pp", microbatches)
    assert [len(own) for own in sent(program)] == [1] * (pipe.stages - 1) + [0]
    figures = program.report()["devices"]
    assert figures["parameter_bytes"] == 4 // pipe.stages * 8 * 8 * 4
    part = 16 * 8 * 4 * pipe.stages // pipe.devices.count
    assert figures["sent_bytes"] == part  # each of the microbatches once


def test_rules_may_say_how_many_stages_there_are(tmp_path: Path) -> None:
    """Then no option does; one that says something else is an error."""
    rules = {"mesh": {"pp": 2}, "shard": {}, "pipeline": 2, "microbatches": 4}
    pipe = Pipeline.of(check_numbers(tmp_path, CHAIN, shard=rules).module)
    assert pipe is not None
    assert (pipe.stages, pipe.microbatches) == (2, 4)
    with pytest.raises(GeError, match="--microbatches 8, but --shard states 4; drop one"):
        compiled(tmp_path, CHAIN, shard=rules, microbatches=8)


def test_devices_of_stages_may_be_in_another_order(tmp_path: Path) -> None:
    """A place of the mesh has the stage, whichever device is there."""
    order = 'graph.mesh @mesh ["dp"=2, "pp"=2], device_ids=[3, 1, 0, 2]\n'
    flags = {"mesh": "dp=2,pp=2", "pipeline": 2, "microbatches": 4}
    program = check_numbers(tmp_path, order + CHAIN, **flags)
    pipe = Pipeline.of(program.module)
    assert pipe is not None
    assert pipe.devices.order == (3, 1, 0, 2)
    assert [pipe.stage(device) for device in range(4)] == [0, 1, 1, 0]
    assert [pipe.at_stage(3, stage) for stage in range(2)] == [3, 1]
    rows = np.arange(16 * 8, dtype=np.float32).reshape(16, 8)
    parts = program.session().parts_of({"y": rows})
    assert [list(own) for own in parts.values()] == [[], ["y"], ["y"], []]
    micro = rows.reshape(4, 2, 2, 8)  # microbatches, parts along dp
    assert np.array_equal(parts[1]["y"], micro[:, 0].reshape(8, 8))
    assert np.array_equal(parts[2]["y"], micro[:, 1].reshape(8, 8))
    assert check_program(program.module).problems == []


def test_stages_end_as_stated(tmp_path: Path) -> None:
    rules = {"shard": {}, "stages_end_at": ["c", ["y"]]}
    flags = {"mesh": "pp=2", "pipeline": 2, "microbatches": 4, "shard": rules}
    program = check_numbers(tmp_path, CHAIN, **flags)
    assert sent(program) == [[("c", 1)], []]
    assert check_program(program.module).problems == []


def test_values_go_from_the_stage_that_computes_them_to_all_that_use_them(tmp_path: Path) -> None:
    """Over several stages too, and to the caller; a weight may be of two stages."""
    skip = f"  %s = graph.add %a, %c : ({T}, {T}) -> {T}\n"
    body = layer(0, "x", "a") + layer(1, "a", "b") + layer(2, "b", "c", "w0") + skip
    text = model(body + layer(3, "s", "y"), "y a x2 b", "y a x b")
    rules = {"shard": {}, "stages_end_at": ["a", "b", "s"]}
    flags = {"mesh": "pp=4", "pipeline": 4, "microbatches": 8, "shard": rules}
    program = check_numbers(tmp_path, text, **flags)
    assert sent(program) == [[("a.1", 1), ("a.1", 2)], [("b.1", 2)], [("s", 3)], []]
    slots = [[op.slots.value.data for op in receives_of(s)] for s in stages_of(program.module)]
    assert slots == [[], [2], [3, 2], [2]]


def test_what_follows_from_inputs_alone_is_where_it_is_used(tmp_path: Path) -> None:
    side = f"  %n = graph.neg %x : ({T}) -> {T}\n"
    late = f"  %y = graph.add %b, %n : ({T}, {T}) -> {T}\n"
    text = model(side + layer(0, "x", "a") + layer(1, "a", "b") + late)
    rules = {"shard": {}, "stages_end_at": ["a"]}
    program = check_numbers(tmp_path, text, mesh="pp=2", pipeline=2, microbatches=2, shard=rules)
    assert sent(program) == [[("a", 1)], []]


def test_a_stacked_weight_is_on_the_devices_that_use_its_layers(tmp_path: Path) -> None:
    """Along the axis of stages it is cut in any case; along others as stated."""
    stack = 'graph.constant #graph.weight<"w"> : tensor<2x8x8xf32>'
    body = f"  %w = {stack}\n"
    for i, (x, y) in enumerate((("x", "a"), ("a", "y"))):
        body += (
            f"  %i{i} = graph.constant dense<{i}> : tensor<i64>\n"
            f"  %w{i} = graph.gather %w, %i{i} : (tensor<2x8x8xf32>, tensor<i64>) -> {W}\n"
            f"  %{y} = graph.matmul %{x}, %w{i} : ({T}, {W}) -> {T}\n"
        )
    rules = {"w": [["s"], [], ["tp"]], "x": [["s"]], "y": []}
    flags = {"mesh": "tp=2,s=2", "pipeline": 2, "microbatches": 4, "shard": rules}
    program = compiled(tmp_path, model(body), **flags)
    pipe = Pipeline.of(program.module)
    assert pipe is not None
    assert pipe.axis == "s"
    assert program.report()["devices"]["parameter_bytes"] == 8 * 4 * 4
    random = np.random.default_rng(3)
    w = random.standard_normal((2, 8, 8)).astype(np.float32)
    x = random.standard_normal((16, 8)).astype(np.float32)
    program.payload = {"w": w}
    found = program.session().run({"x": x})["y"]
    np.testing.assert_allclose(found, x @ w[0] @ w[1], atol=1e-4)


def test_a_program_is_one_file(tmp_path: Path) -> None:
    program = compiled(tmp_path, CHAIN, mesh="pp=2", pipeline=2, microbatches=4)
    module = parse_module(context(), SourceText("p.mlir", str(program.module)))
    assert str(module) == str(program.module)
    assert [main_of_stage(s).sym_name.data for s in stages_of(module)] == ["main", "main"]
    assert check_program(module).problems == []


def test_the_batch_may_be_in_constants(tmp_path: Path) -> None:
    """A constant with an element for each row of the batch is another one for each microbatch."""
    rows = f"  %r = graph.constant dense<{[[float(i)] * 8 for i in range(16)]}> : {T}\n"
    add = f"  %y = graph.add %r, %b : ({T}, {T}) -> {T}\n"
    text = model(rows + layer(0, "x", "a") + layer(1, "a", "b") + add)
    check_numbers(tmp_path, text, mesh="pp=2", pipeline=2, microbatches=4)


# ---- time ----------------------------------------------------------------------------------------


def test_fill_drain_and_bubbles() -> None:
    time = PipelineTime([10.0, 10.0], [Sending(0, 1, 2, 0.0)], 4)
    time.run()
    assert (time.us, time.fill_us, time.drain_us) == (50.0, 10.0, 10.0)
    assert time.bubble == pytest.approx(0.2)
    late = PipelineTime([10.0, 30.0], [Sending(0, 1, 2, 5.0)], 4)
    late.run()
    assert late.us == 10 + 5 + 4 * 30  # the second stage never waits
    assert late.longest == 1
    assert "bubbles 41%" in str(late)


def test_a_stage_waits_for_a_slot() -> None:
    """The first stage sends a microbatch when the one before the last has left its slot."""
    time = PipelineTime([1.0, 10.0], [Sending(0, 1, 1, 0.0)], 3)
    time.run()
    assert time.ends[0] == [1.0, 2.0, 12.0]
    assert time.us == 31.0


# ---- what a pipeline does not take ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"mesh": "pp=2", "pipeline": 2, "microbatches": 3}, ["batch of 16", "'x'", "3 micro"]),
        ({"mesh": "pp=16", "pipeline": 16}, ["16 stages", "8 ops"]),
        ({"mesh": "dp=2", "pipeline": 4}, ["dp=2 has no axis of 4"]),
        ({"mesh": "a=2,b=2", "pipeline": 2}, ["several axes", "--pipeline a=2 or b=2"]),
        ({"mesh": "dp=2,pp=4", "pipeline": "dp=4"}, ["'dp' has 2 devices"]),
        ({"mesh": "pp=2", "pipeline": "tp=2"}, ["no axis 'tp'"]),
        ({"mesh": "pp=2", "pipeline": 2, "state": {"x": "y"}}, ["--state"]),
        ({"mesh": "pp=2", "pipeline": 2, "dynamic_batch": "2,4"}, ["--dynamic-batch is not"]),
        ({"mesh": "pp=2", "pipeline": 2, "shard": {"shard": {}, "stages_end_at": ["q"]}}, ["'q'"]),
        (
            {"mesh": "pp=4", "pipeline": 4, "shard": {"shard": {}, "stages_end_at": ["a"]}},
            ["1 ends", "4 stages"],
        ),
        ({"mesh": "pp=2", "pipeline": 2, "shard": {"shard": {}, "stages_end_at": 3}}, ["list"]),
        ({"mesh": "microbatch=2,pp=2", "pipeline": "pp=2"}, ["'microbatch'"]),
    ],
)
def test_what_a_pipeline_does_not_take(
    tmp_path: Path, flags: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(GeError) as caught:
        compiled(tmp_path, CHAIN, **flags)
    text = f"{caught.value.where} {caught.value.message} {caught.value.hint}"
    assert all(word in text for word in words), text


def test_a_batch_whose_rows_meet(tmp_path: Path) -> None:
    mixed = f"  %y = graph.cumulative sum %b axis 0 : ({T}) -> {T}\n"
    text = model(layer(0, "x", "a") + layer(1, "a", "b") + mixed)
    with pytest.raises(GeError, match="several microbatches"):
        compiled(tmp_path, text, mesh="pp=2", pipeline=2, microbatches=4)


def test_a_batch_of_unknown_size(tmp_path: Path) -> None:
    text = CHAIN.replace("16x8", "?x8")
    with pytest.raises(GeError, match="'x' are not all known"):
        compiled(tmp_path, text, mesh="pp=2", pipeline=2, microbatches=4)


# ---- proof ---------------------------------------------------------------------------------------

FAULTS = [
    ('npu_task.send "a" to 1 slots 2 on comm\n', "", "does not send"),
    ('npu_task.receive "a" from 0 slots 2 on comm\n', "", "does not receive"),
    ('send "a" to 1', 'send "a" to 2', "2 slots, and 3"),
    ('send "b" to 2', 'send "b" to 0', "later ones"),
    ('receive "b" from 1', 'receive "b" from 2', "later ones"),
    ('receive "a" from 0 slots 2', 'receive "a" from 0 slots 1', "1 slots, and 2"),
    ('receive "a" from 0 slots 2', 'receive "a" from 0 slots 3', "3 slots here"),
    ('send "a" to 2 slots 3', 'send "a" to 2 slots 2', "3 microbatches are between"),
    ('"pp"=3] pipeline', '"pp"=4] pipeline', "3 programs for 4 stages"),
    ('graph.name = "y"', 'graph.name = "z"', "nobody"),
]  # fmt: skip


@pytest.fixture(scope="module")
def proved(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A program of three stages, the first of which sends to both others."""
    last = f"  %s = graph.add %a, %b : ({T}, {T}) -> {T}\n"
    text = model(layer(0, "x", "a") + layer(1, "a", "b") + last + layer(2, "s", "y"))
    rules = {"shard": {}, "stages_end_at": ["a", "b"]}
    flags = {"mesh": "pp=3", "pipeline": 3, "microbatches": 4, "shard": rules}
    program = compiled(tmp_path_factory.mktemp("proved"), text, **flags)
    assert check_program(program.module).problems == []
    return str(program.module)


@pytest.mark.parametrize(("old", "new", "told"), FAULTS)
def test_d16_stages_fit_together(proved: str, old: str, new: str, told: str) -> None:
    wrong = proved.replace(old, new, 1)
    assert wrong != proved
    problems = check_program(parse_module(context(), SourceText("p.mlir", wrong))).problems
    assert any(p.rule == "D16" and told in p.text for p in problems), problems


def test_d16_stages_send_and_receive_in_one_order(proved: str) -> None:
    lines = proved.splitlines()
    first, second = [i for i, line in enumerate(lines) if "send " in line][:2]
    lines[first], lines[second] = lines[second], lines[first]
    problems = check_program(parse_module(context(), SourceText("p", "\n".join(lines)))).problems
    assert [p.rule for p in problems] == ["D16"]
    assert "in a circle" in problems[0].text


def test_the_report_of_a_pipeline(tmp_path: Path) -> None:
    program = compiled(tmp_path, CHAIN, mesh="pp=2", pipeline=2, microbatches=4)
    report = json.loads(json.dumps(program.report()))
    pipeline = report["devices"]["pipeline"]
    assert pipeline["microbatches"] == 4
    assert 0 < pipeline["bubble"] < 1
    assert [s["parameter_bytes"] for s in pipeline["stages"]] == [512, 512]
    row = {"op": "send", "bytes": 128, "axes": ["pp"], "count": 4}
    assert report["devices"]["collectives"][0].items() >= row.items()
    assert "pipeline: 2 stages, 4 microbatches" in program.summary("m")


# ---- with others ---------------------------------------------------------------------------------


def test_stages_that_the_model_states(tmp_path: Path) -> None:
    """By `pipeline_stage` of nodes, which may be of several ops."""
    size = [16, 8]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Gelu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "w"], ["c"]),
        helper.make_node("Add", ["c", "x"], ["y"]),
    ]
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, size) for n in ("x", "y")]
    w = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
    weights = [numpy_helper.from_array(w, "w")]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], weights)
    imports = [helper.make_opsetid("", 20)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=11)
    model.configuration.add(name="c", num_devices=2)
    for node, stage in zip(model.graph.node, (0, 1, 1, 1), strict=True):
        node.device_configurations.add(configuration_id="c", pipeline_stage=stage)
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    flags = {"mesh": "pp=2", "pipeline": 2, "microbatches": 4, "tiles": False}
    program = ge.compile(path, **flags)
    assert [len(own) for own in sent(program)] == [1, 0]
    assert [len(list(main_of_stage(s).args)) for s in stages_of(program.module)] == [1, 2]
    x = np.random.default_rng(1).standard_normal(size).astype(np.float32)
    wanted = ge.compile(path, tiles=False).session().run({"x": x})["y"]
    np.testing.assert_allclose(program.session().run({"x": x})["y"], wanted, atol=1e-5)


def test_shardings_are_searched_for_inside_of_stages(tmp_path: Path) -> None:
    big = CHAIN.replace("8x8", "4096x4096").replace("16x8", "16x4096")
    flags = {"mesh": "pp=2,tp=4", "pipeline": 2, "microbatches": 4, "shard": "auto"}
    program = compiled(tmp_path, big, **flags)
    figures = program.report()["devices"]
    assert figures["parameter_bytes"] == 2 * 4096 * 4096 * 4 // 4
    assert {row["op"] for row in figures["collectives"]} > {"send"}
    assert check_program(program.module).problems == []


def test_what_a_split_gives_is_cut_with_what_is_split(tmp_path: Path) -> None:
    halves = "tensor<16x4xf32>"
    split = f"  %p, %q = graph.split %a sizes [4, 4] axis 1 : ({T}) -> ({halves}, {halves})\n"
    both = f"  %y = graph.concat %q, %p axis 1 : ({halves}, {halves}) -> {T}\n"
    text = model(layer(0, "x", "a") + split + both)
    program = check_numbers(tmp_path, text, mesh="pp=2", pipeline=2, microbatches=4)
    assert program.report()["devices"]["collectives"][0]["op"] == "send"


def test_weights_of_a_stage_without_room_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """By the limit of memory that was asked for, also where stages are stated."""
    (path := tmp_path / "m.mlir").write_text(STAGED)
    given = [str(path), "--mesh", "pp=2", "--pipeline", "2", "-o", str(tmp_path / "p.mlir")]
    for rules in ("{}", '{"stages_end_at": ["h"]}'):
        assert ge_compile([*given, "--shard", rules, "--memory-limit", "1K"]) == 0
        assert "room" not in capsys.readouterr().err
        assert ge_compile([*given, "--shard", rules, "--memory-limit", "512"]) == 0
        said = capsys.readouterr().err
        assert (
            "the weights of stage 0 take 1024 bytes on a device, and there is room for 512" in said
        )


def test_a_batch_that_cannot_be_cut_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (path := tmp_path / "m.mlir").write_text(STAGED)
    given = [
        str(path),
        "--mesh",
        "pp=2,dp=3",
        "--pipeline",
        "2",
        "--pad",
        "-o",
        str(tmp_path / "p"),
    ]
    assert ge_compile([*given, "--shard", '{"x": [["dp"]]}', "--microbatches", "2"]) == 1
    said = capsys.readouterr().err
    assert "'graph.matmul' needs elements of several microbatches: the batch cannot" in said


STAGED = """
func.func @main(%x: tensor<32x16xf32> {graph.name = "x"}) -> (tensor<32x16xf32> {graph.name = "y"}) {
  %w0 = graph.constant #graph.weight<"w0"> : tensor<16x16xf32>
  %0 = graph.matmul %x, %w0 : (tensor<32x16xf32>, tensor<16x16xf32>) -> tensor<32x16xf32>
  %h = graph.tanh %0 : (tensor<32x16xf32>) -> tensor<32x16xf32>
  %w1 = graph.constant #graph.weight<"w1"> : tensor<16x16xf32>
  %1 = graph.matmul %h, %w1 : (tensor<32x16xf32>, tensor<16x16xf32>) -> tensor<32x16xf32>
  func.return %1 : tensor<32x16xf32>
}
"""  # noqa: E501
