"""Ways in for shardings: --mesh and --shard, Python, the configurations of ONNX models."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from ge.dialects.graph.sharding import ShardOp, mesh_of, sharding_of, sharding_text
from ge.dialects.graph.stated import VALUES, name_of
from ge.dialects.support.diagnostics import Diagnostic, warning_handler
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.lowering.driver.compiler import Program, load
from ge.lowering.pipeline.options import Options
from ge.lowering.pipeline.pass_options import text_of
from ge.lowering.pipeline.stages import pipeline
from ge.tools.commands import ge_compile, ge_opt, ge_run
from ge.transforms.sharding.annotate_shardings import AnnotateShardingsPass
from ge.transforms.sharding.rules import asked, read_mesh, without_auto

MESH = "dp=2,tp=4"


def tensor(name: str, *shape: int) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def layers() -> ModelProto:
    """x w = p, which is split in a and b; y is their sum."""
    weight = numpy_helper.from_array(np.ones((16, 32), np.float32), "w")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"], "first"),
        helper.make_node("Split", ["p"], ["a", "b"], "second", axis=1, num_outputs=2),
        helper.make_node("Identity", ["a"], ["same"], "third"),
        helper.make_node("Add", ["same", "b"], ["y"], "fourth"),
    ]
    graph = helper.make_graph(nodes, "g", [tensor("x", 8, 16)], [tensor("y", 8, 16)], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=11)


def configured(devices: int, **values: tuple[Sequence[int], Sequence[Sequence[int]]]) -> ModelProto:
    """The model with a configuration: how many parts each dimension of a value has, and the groups
    of devices that have each part."""
    model = layers()
    model.configuration.add(name="c", num_devices=devices)
    own = model.graph.node[0].device_configurations.add(configuration_id="c")
    for name, (parts, groups) in values.items():
        spec = own.sharding_spec.add(tensor_name=name)
        for i, group in enumerate(groups):
            spec.device.append(-1 - i)
            spec.index_to_device_group_map.add(key=-1 - i, value=group)
        for axis, number in enumerate(parts):
            if number > 1:
                spec.sharded_dim.add(axis=axis).simple_sharding.add(num_shards=number)
    return model


def read(model: ModelProto, path: Path, mesh: str = "", shard: Any = "") -> Program:
    onnx.save(model, path)
    rules = shard if isinstance(shard, str) else json.dumps(shard)
    program = load(str(path), rules=asked(mesh, rules))
    AnnotateShardingsPass(mesh, rules).apply(None, program.module)  # pyright: ignore[reportArgumentType]
    program.module.verify()
    return program


def cut(program: Program) -> dict[str, str]:
    """Shardings by the names of inputs and outputs, and by numbers of others."""
    main = main_function(program.module)
    assert main is not None
    found: dict[str, str] = {}
    for table in (*(main.arg_attrs or ()), *(main.res_attrs or ())):
        if (sharding := sharding_of(table.data)) is not None:
            found[name_of(table.data) or ""] = sharding_text(sharding)
    for op in main.walk():
        assert VALUES not in op.attributes
        if isinstance(op, ShardOp):
            text = sharding_text(op.sharding.data)
            found[op.location.desc.data] = text  # pyright: ignore
    return found


def test_values_have_the_names_of_the_model(tmp_path: Path):
    rules = {"p": [["dp"]], "b": [[], ["tp:(1)2", "?"]], "w": [[], "tp"], "same": [None, ["dp"]]}
    assert cut(read(layers(), tmp_path / "m.onnx", MESH, rules)) == {
        "p": '[{"dp"}, {}]', "b": '[{}, {"tp":(1)2, ?}]', "w": '[{}, {"tp"}]',
        "same": '[{}, {"dp"}]',
    }  # fmt: skip


def test_whole_names_come_before_globs_and_the_first_glob_holds(tmp_path: Path):
    rules = {"*": [["dp"]], "x": [[], ["tp"]], "?": [["tp"]]}
    found = cut(read(layers(), tmp_path / "m.onnx", MESH, rules))
    assert found.pop("x") == '[{}, {"tp"}]'
    assert set(found) > {"y", "w", "p"}
    assert set(found.values()) == {'[{"dp"}, {}]'}


def test_python_and_environment(tmp_path: Path):
    rules = {"x": [["dp"], []]}
    options = Options(mesh={"dp": 2, "tp": 4}, shard=rules)  # pyright: ignore[reportArgumentType]
    assert options.mesh == MESH
    first = text_of(pipeline(options)[0])
    assert (first.name, first.options) == (
        "annotate-shardings", {"mesh": (MESH,), "rules": (json.dumps(rules),)},
    )  # fmt: skip
    (path := tmp_path / "rules.json").write_text(json.dumps({"mesh": {"dp": 2}, "shard": rules}))
    assert Options.from_environment({"GE_SHARD": str(path)}).read_files == (str(path),)
    assert not options.read_files
    with pytest.raises(GeError, match="cannot be written as JSON"):
        Options(shard={"x": [{"dp"}]})  # pyright: ignore[reportArgumentType]


def test_the_file_may_have_the_mesh_and_what_is_of_others(tmp_path: Path):
    rules = {"mesh": {"dp": 2}, "shard": {"x": [["dp"]]}, "parameters": ["w"]}
    program = read(layers(), tmp_path / "m.onnx", "", rules)
    assert mesh_of(program.module) == read_mesh("dp=2")
    assert cut(program) == {"x": '[{"dp"}, {}]'}


def test_parameters_that_no_weight_is_called_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (path := tmp_path / "rules.json").write_text(
        json.dumps({"mesh": {"dp": 2}, "shard": {"x": [["dp"]]}, "parameters": ["w", "ww", "x"]})
    )
    onnx.save(layers(), tmp_path / "m.onnx")
    model, made = str(tmp_path / "m.onnx"), str(tmp_path / "p.mlir")
    assert ge_compile([model, "--shard", str(path), "-o", made]) == 0
    told = capsys.readouterr().err
    assert "warning: parameters: there is no weight 'ww'; did you mean 'w'?" in told
    assert "there is no weight 'x'" in told
    assert "'w'\n" not in told


@pytest.mark.parametrize(
    ("mesh", "rules", "text"),
    [
        (MESH, {"x": [["zz"]]}, "the mesh dp=2,tp=4 has no axis 'zz', which 'x' states"),
        (MESH, {"x": [["dp"], ["dp"]]}, "'x' has axis 'dp' twice: dimension 0 and dimension 1"),
        (MESH, {"nothing": [["dp"]]}, "there is no value 'nothing'"),
        (MESH, {"wp": [["dp"]]}, "did you mean 'w'"),
        (MESH, {"q*": [["dp"]]}, "no value is called like 'q*'"),
        (MESH, {"": [["dp"]]}, "there is no value ''"),
        (MESH, {"x": [[], [], ["dp"]]}, "'x' has 2 dimensions ([8, 16]), and its sharding has 3"),
        ("dp=3", {"x": [["dp"]]}, "dimension 0 of 'x' has 8 elements, and 'dp' (3 devices)"),
        ("dp=3", {"x": [["dp"]]}, "2 of 3, 1 of 2; cut it over 1 or 2 or 4 or 8 devices, or have"),
        ("a=4,b=4", {"x": [["a", "b"]]}, "'a', 'b' (4 x 4 = 16 devices)"),
        (MESH, {"x": [["tp:(1)3"]]}, "(1)3 is no part of axis 'tp' of 4 devices"),
        (MESH, {"x": [["tp:2"]]}, "the rule of 'x' has no axis 'tp:2'; a sub-axis is written"),
        (MESH, {"x": 3}, "the rule of 'x' is no sharding: 3"),
        (MESH, [], "rules are a table"),
        (MESH, {"shard": []}, "shardings are a table"),
        (MESH, {"mesh": 3, "shard": {}}, "a mesh is a table"),
        (MESH, {"mesh": {"dp": 8}, "shard": {}}, "--mesh dp=2,tp=4, but"),
        (MESH, '{"x": [["dp"]], "x": []}', "'x' is stated twice"),
        (MESH, '{"x": [["dp"', "are no JSON"),
        ("", {"x": [["dp"]]}, "shardings are of a mesh, and none is given; give --mesh dp=2,tp=4"),
        ("dp=two", {}, "as in dp=2,tp=4, not 'dp=two'"),
        ("dp=0", {}, "'dp' has none"),
        ("dp=2,dp=2", {}, "two are called 'dp'"),
        (MESH, {"x": [["DP"]]}, "which 'x' states (dimension 0); did you mean 'dp'?"),
        (MESH, {"X": [["dp"]]}, "there is no value 'X'; did you mean 'x'?"),
        (MESH, {"shrad": {"x": [["dp"]]}}, "did you mean 'shard'?"),
        (MESH, {"shard": {}, "parameter": []}, "no part 'parameter'; did you mean 'parameters'?"),
        (MESH, {"shard": {}, "stage_ends_at": []}, "did you mean 'stages_end_at'?"),
        (MESH, {"shard": {}, "x": [["dp"]]}, "no part 'x'; parts are mesh, shard, parameters, "),
        (MESH, {"mesh": {"dp": 2}, "x": [["dp"]]}, 'rules of values stand in "shard"'),
    ],
)  # fmt: skip
def test_bad_input_is_one_error(
    mesh: str, rules: Any, text: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    onnx.save(layers(), tmp_path / "m.onnx")
    path = tmp_path / "rules.json"
    path.write_text(rules if isinstance(rules, str) else json.dumps(rules))
    given = ["--mesh", mesh] if mesh else []
    assert ge_compile([str(tmp_path / "m.onnx"), *given, "--shard", str(path)]) == 1
    said = capfd.readouterr().err
    assert text in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("shard", "meant"),
    [("autp", "auto"), ("Auto", "auto"), ("auto,r.json", "r.json,auto"),
     ("r.json,autoo", "r.json,auto"), ("r.json,", "r.json,auto")],
)  # fmt: skip
def test_what_was_meant_by_a_file_that_is_none(shard: str, meant: str):
    with pytest.raises(GeError) as raised:
        asked(MESH, shard)
    assert raised.value.hint == f"did you mean '{meant}'?"


def test_a_file_that_is_none_is_not_taken_for_a_search():
    with pytest.raises(GeError) as raised:
        asked(MESH, "layers.json")
    assert raised.value.hint.startswith("a file, a table, auto, or")


def test_the_end_of_a_list_of_names_says_how_many_follow(tmp_path: Path):
    model = layers()
    for i in range(30):
        model.graph.node.add(op_type="Relu", input=["x"], output=[f"r{i}"])
    with pytest.raises(GeError) as raised:
        read(model, tmp_path / "m.onnx", MESH, {"nothing": []})
    assert raised.value.hint.startswith("values: 'x', 'y', ")
    assert raised.value.hint.count("'") == 40
    assert raised.value.hint.endswith(" more")
    with pytest.raises(GeError) as raised:
        load(str(tmp_path / "m.onnx"), shapes={"nothing": (1,)})
    assert "'x'" in raised.value.message + raised.value.hint


def test_what_is_of_pipelines_has_no_use_without_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    onnx.save(layers(), tmp_path / "m.onnx")
    given = [str(tmp_path / "m.onnx"), "-o", str(tmp_path / "p.mlir"), "--until", "graph"]
    rules = {"mesh": {"dp": 2}, "shard": {"x": [["dp"]]}, "stages_end_at": ["p"], "microbatches": 2}
    assert ge_compile([*given, "--shard", json.dumps(rules)]) == 0
    said = capsys.readouterr().err
    assert "nothing is made of microbatches and stages_end_at without --pipeline" in said


@pytest.mark.parametrize(
    ("stated", "pipeline", "microbatches", "found"),
    [
        ({"pipeline": 4, "microbatches": 8}, "", 0, ("4", 8)),
        ({"pipeline": "pp=4", "microbatches": 8}, "4", 8, ("pp=4", 8)),
        ({"pipeline": 4}, "pp=4", 2, ("pp=4", 2)),
        ({}, "4", 2, ("4", 2)),
        ({"pipeline": 4}, "2", 0, "--pipeline 2, but --shard states a pipeline of 4"),
        ({"pipeline": "pp=4"}, "a=4", 0, "--pipeline a=4, but --shard states a pipeline of pp=4"),
        ({"microbatches": 8}, "4", 4, "--microbatches 4, but --shard states 8"),
        ({"pipeline": "four"}, "", 0, "'pipeline' is a number of stages, or an axis of the mesh"),
        ({"pipeline": None}, "", 0, "'pipeline' is a number of stages, or an axis of the mesh"),
        ({"microbatches": 0}, "", 0, "'microbatches' is "),
        ({"microbatches": [2]}, "", 0, "'microbatches' is "),
    ],
)
def test_rules_and_options_agree_on_a_pipeline(
    stated: dict[str, Any], pipeline: str, microbatches: int, found: tuple[str, int] | str
):
    text = json.dumps({"shard": {}, **stated})
    if isinstance(found, str):
        with pytest.raises(GeError) as raised:
            asked("pp=4", text, pipeline, microbatches)
        assert found in str(raised.value)
        return
    rules = asked("pp=4", text, pipeline, microbatches)
    assert rules is not None
    assert (rules.pipeline, rules.microbatches) == found


@pytest.mark.parametrize("until", ["graph", "program"])
def test_a_program_is_of_one_mesh(until: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """No tool takes a program for one of another mesh, or makes nothing of what is asked."""
    onnx.save(layers(), tmp_path / "m.onnx")
    model, made = str(tmp_path / "m.onnx"), str(tmp_path / "p.mlir")
    given = ["--mesh", "dp=2", "--shard", '{"x": [["dp"]]}', "--until", until]
    assert ge_compile([model, *given, "-o", made]) == 0
    other = ["--mesh", "dp=4"]
    for run in (
        lambda: ge_run([made, *other]),
        lambda: ge_run([made, *other, "--timing-only"]),
        lambda: ge_compile([made, *other, "-o", str(tmp_path / "q.mlir")]),
        lambda: ge_opt([made, "-p", 'annotate-shardings{mesh="dp=4"}']),
    ):
        capsys.readouterr()
        assert run() == 1
        assert "dp=2" in capsys.readouterr().err


def test_ge_run_cuts_a_graph(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """A mesh and rules hold for graphs as for models of ONNX, and their errors are told."""
    (path := tmp_path / "x.mlir").write_text(HAND.replace(STATED, "").replace(PARTS, ""))
    given = [str(path), "--mesh", "dp=2", "--shard"]
    assert ge_run([*given, '{"x": [["dp"]]}', "--sanitize"]) == 0
    assert "the program is proved" in capsys.readouterr().out
    assert ge_run([*given, '{"x": [["tp"]]}']) == 1
    assert "has no axis 'tp'" in capsys.readouterr().err


def test_a_sharding_without_a_mesh_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (path := tmp_path / "x.mlir").write_text(HAND.replace(STATED, ""))
    assert ge_compile([str(path), "-o", str(tmp_path / "p.mlir")]) == 1
    assert "'x' has a sharding, and the module no mesh; write graph.mesh" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "text"),
    [({"pipeline": 0}, "pipeline is a number of stages"),
     ({"pipeline": "pp="}, "pipeline is a number of stages"),
     ({"pipeline": 2, "microbatches": -3}, "microbatches is a whole number of at least 1, not"),
     ({"mesh": {"dp": 0}}, "mesh is axes of one device or more, and 'dp' has none"),
     ({"mesh": {"dp": 2.5}}, "mesh is axes and how many devices lie along each"),
     ({"peer_timeout": 0}, "peer_timeout is a whole number of at least 1")],
)  # fmt: skip
def test_values_of_python_are_read_as_those_of_flags(given: Any, text: str):
    with pytest.raises(GeError, match=text):
        Options(**given)


def test_rules_and_a_text_that_differ_name_both_places(tmp_path: Path):
    (path := tmp_path / "x.mlir").write_text(HAND)
    AnnotateShardingsPass("", '{"x": [["dp"]]}').apply(None, load(str(path)).module)  # pyright: ignore[reportArgumentType]
    with pytest.raises(GeError) as raised:
        AnnotateShardingsPass("", '{"x": []}').apply(None, load(str(path)).module)  # pyright: ignore[reportArgumentType]
    assert str(raised.value).startswith("--shard: error: 'x' is cut as [{}] by the rules, and as [")
    assert f"{path}:2:1" in raised.value.message
    with pytest.raises(GeError, match="the mesh asked for is tp=4, but the module states the mesh"):
        AnnotateShardingsPass("", '{"mesh": {"tp": 4}}').apply(None, load(str(path)).module)  # pyright: ignore[reportArgumentType]


STATED = 'graph.mesh @mesh ["dp"=2]'
PARTS = ', graph.sharding = #graph.sharding<@mesh, [{"dp"}]>'
HAND = f"""{STATED}
func.func @main(%x: tensor<4xf32> {{graph.name = "x"{PARTS}}})
    -> (tensor<4xf32> {{graph.name = "y"{PARTS}}}) {{
  %0 = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}}
"""


def test_a_file_may_state_the_mesh_alone(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    onnx.save(layers(), tmp_path / "m.onnx")
    given = [str(tmp_path / "m.onnx"), "-o", str(tmp_path / "p.mlir"), "--until", "graph"]
    assert ge_compile([*given, "--shard", '{"mesh": {"dp": 2}}']) == 0
    assert 'graph.mesh @mesh ["dp"=2]' in (tmp_path / "p.mlir").read_text()
    assert ge_compile([*given, "--mesh", "dp=2", "--shard", "auto,rules.json"]) == 1
    assert "did you mean 'rules.json,auto'?" in capfd.readouterr().err


@pytest.mark.parametrize("way", ["text", "--mesh", "file"])
def test_a_mesh_is_enough_for_parts(way: str, tmp_path: Path):
    """Whoever states it: one device has a half of the elements."""
    text, rules = tmp_path / "x.mlir", {"x": [["dp"]], "y": [["dp"]]}
    text.write_text(HAND if way == "text" else HAND.replace(STATED, "").replace(PARTS, ""))
    given = {
        "text": [], "--mesh": ["--mesh", "dp=2", "--shard", json.dumps(rules)],
        "file": ["--shard", json.dumps({"mesh": {"dp": 2}, "shard": rules})],
    }  # fmt: skip
    output = tmp_path / "p.mlir"
    assert ge_compile([str(text), "-o", str(output), "--until", "graph", *given[way]]) == 0
    assert "graph.exp %x : (tensor<2xf32>) -> tensor<2xf32>" in output.read_text()
    assert ge_compile([str(text), "-o", str(output), *given[way]]) == 0
    assert ge_compile([str(output), "-o", str(output), "--mesh", "dp=2"]) == 1


def test_two_places_that_differ(tmp_path: Path):
    halves = [range(4), range(4, 8)]
    model = configured(8, x=([2], halves))
    same = cut(read(model, tmp_path / "m.onnx", MESH, {"x": [["dp"]]}))
    assert same == {"x": '[{"dp"}, {}]'}
    with pytest.raises(
        GeError, match=r"'x' is cut as .*tp.* by the rules, and as .*dp.* in the mo"
    ):
        read(model, tmp_path / "m.onnx", MESH, {"x": [["tp"]]})


def test_configurations_of_a_model(tmp_path: Path):
    """Their mesh follows from the devices; another one has its own axes for the same parts."""
    quarters = [[i, i + 4] for i in range(4)]
    model = configured(
        8, x=([2], [range(4), range(4, 8)]), w=([1, 4], quarters), p=([8], [[i] for i in range(8)])
    )
    program = read(model, tmp_path / "m.onnx")
    assert mesh_of(program.module) == read_mesh("d0=2,d1=4")
    parts = {"x": '[{"d0"}, {}]', "w": '[{}, {"d1"}]', "p": '[{"d0", "d1"}, {}]'}
    assert cut(program) == parts
    found = cut(read(model, tmp_path / "m.onnx", "tp=8"))
    assert found == {"x": '[{"tp":(1)2}, {}]', "w": '[{}, {"tp":(2)4}]', "p": '[{"tp"}, {}]'}


@pytest.mark.parametrize(
    ("x", "others", "order", "parts"),
    [
        (([4], [[3], [2], [1], [0]]), {}, (3, 2, 1, 0), '[{"d0"}, {}]'),
        (([2], [[0, 3], [1, 2]]), {}, (0, 3, 1, 2), '[{"d0"}, {}]'),
        (([2], [[0, 2], [1, 3]]), {}, (), '[{"d1"}, {}]'),
        (([2, 2], [[0], [2], [1], [3]]), {}, (), '[{"d1"}, {"d0"}]'),
        # the order in which most values are cut along axes
        (
            ([2], [[0, 3], [1, 2]]),
            {"w": ([1, 4], [[2], [1], [3], [0]]), "p": ([2], [[1, 2], [0, 3]])},
            (2, 1, 3, 0),
            "",
        ),
    ],
)
def test_devices_in_another_order(
    x: Any, others: Any, order: Sequence[int], parts: str, tmp_path: Path
):
    """Devices are listed by their parts: the mesh has them in that order (`device_ids`)."""
    program = read(configured(4, x=x, **others), tmp_path / "m.onnx")
    mesh = mesh_of(program.module)
    assert mesh is not None
    assert mesh.order == tuple(order)
    assert cut(program).get("x", "") == parts


def test_configurations_that_cannot_be_used(tmp_path: Path):
    told: list[Diagnostic] = []
    pairs = [[0, 3], [1, 2]]
    model = configured(4, x=([2], pairs), w=([2], [[0], [1]]), zz=([2], pairs))
    onnx.save(model, tmp_path / "m.onnx")
    with warning_handler(told.append):
        load(str(tmp_path / "m.onnx"), rules=asked("d0=4", ""))
        load(str(tmp_path / "m.onnx"), rules=asked("dp=2", ""))
    texts = [d.message for d in told]
    assert texts == [
        "how the model cuts 'w' over devices is not understood, and not used",
        "the model states how 'zz' is cut over devices, which is none of its tensors",
        "how the model cuts 'x' fits no axes of d0=4: not used",
        "device configurations of the model ('c' of 4 devices) are not used: the mesh dp=2 has 2",
    ]


def test_configurations_of_a_model_that_are_none(tmp_path: Path):
    told: list[Diagnostic] = []
    halves = [range(4), range(4, 8)]
    models = [configured(8, x=([2], halves)) for _ in range(3)]
    models[0].graph.node[0].device_configurations[0].configuration_id = "cc"
    models[1].configuration[0].num_devices = 0
    models[2].configuration.add(name="d", num_devices=8)
    with warning_handler(told.append):
        for model in models:
            onnx.save(model, tmp_path / "m.onnx")
            load(str(tmp_path / "m.onnx"))
    assert [d.message for d in told] == [
        "nodes of the model are cut by the device configuration 'cc', which it does not have: "
        "not used; did you mean 'c'?",
        "the device configuration 'c' of the model has 0 devices: not used",
        "of the device configurations 'c' and 'd' of the model the first is used",
    ]


@pytest.mark.parametrize(
    ("text", "rules", "auto"),
    [("auto", "", True), ("r.json,auto", "r.json", True), ("r.json", "r.json", False),
     ('{"x": [["dp"]]}, auto', '{"x": [["dp"]]}', True), ("", "", False)],
)  # fmt: skip
def test_a_search_is_asked_for_beside_rules(text: str, rules: str, auto: bool):
    assert without_auto(text) == (rules, auto)


def test_a_search_needs_a_mesh(tmp_path: Path):
    (tmp_path / "m.mlir").write_text("func.func @main(%x: tensor<8x4xf32>) {\n  func.return\n}\n")
    with pytest.raises(GeError, match="shardings are of a mesh, and none is given"):
        AnnotateShardingsPass("", "auto").apply(None, load(str(tmp_path / "m.mlir")).module)  # pyright: ignore[reportArgumentType]
