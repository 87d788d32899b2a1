"""Dimensions that follow from others, as users say it and as graphs say it: programs for them, what
contradicts them, and no size of our own choosing in any error."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import ge
from ge.dialects.graph.stated import dim_relations
from ge.dialects.support.dims import Polynomial, Range, Relation, Relations, with_related
from ge.dialects.text.values import fixed_sizes, parse_dims
from ge.runtime.device.ports import input_ports
from ge.runtime.device.session import main_of
from ge.tools.commands import ge_run
from ge.transforms.state.grow_state import SIZES

pytestmark = pytest.mark.usefixtures("without_programs")

STATE = {"past_0": "cat_4", "past_1": "cat_7"}


@pytest.fixture(scope="module")
def step(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A step of decoding whose sizes have names of their own: mask `s3`, keys `s0`, values `s1`.
    The mask is picked by positions, of which there are `s0 + 1`."""
    i64, f32 = TensorProto.INT64, TensorProto.FLOAT
    constants = {
        "one": np.int64(1), "zero": np.int64(0), "two": np.array([2]), "three": np.array([3]),
        "front": np.array([0]), "lowest": np.float32(-1e9), "none": np.float32(0),
    }  # fmt: skip
    nodes = [
        helper.make_node("Shape", ["past_0"], ["sizes"], start=1, end=2),
        helper.make_node("Squeeze", ["sizes"], ["past"]),
        helper.make_node("Add", ["past", "one"], ["count"]),
        helper.make_node("Range", ["zero", "count", "one"], ["places"]),
        helper.make_node("Gather", ["mask", "places"], ["picked"], axis=1),
        helper.make_node("Cast", ["picked"], ["allowed"], to=TensorProto.BOOL),
        helper.make_node("Where", ["allowed", "none", "lowest"], ["bias"]),
        helper.make_node("Concat", ["past_0", "x"], ["cat_4"], axis=1),
        helper.make_node("Concat", ["past_1", "x"], ["cat_7"], axis=1),
        helper.make_node("Transpose", ["cat_4"], ["turned"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["x", "turned"], ["scores"]),
        helper.make_node("Add", ["scores", "bias"], ["masked"]),
        helper.make_node("Softmax", ["masked"], ["weights"]),
        helper.make_node("MatMul", ["weights", "cat_7"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "step",
        [
            helper.make_tensor_value_info("mask", i64, [1, "s3"]),
            helper.make_tensor_value_info("x", f32, [1, 1, 8]),
            helper.make_tensor_value_info("past_0", f32, [1, "s0", 8]),
            helper.make_tensor_value_info("past_1", f32, [1, "s1", 8]),
        ],
        [
            helper.make_tensor_value_info("y", f32, [1, 1, 8]),
            helper.make_tensor_value_info("cat_4", f32, [1, "s0 + 1", 8]),
            helper.make_tensor_value_info("cat_7", f32, [1, "s1 + 1", 8]),
        ],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()],
    )
    path = tmp_path_factory.mktemp("step") / "step.onnx"
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path
    )
    return str(path)


def test_steps_of_a_model_whose_sizes_have_names_of_their_own(step: str, tmp_path: Path) -> None:
    """Keys and values are as many by the graph, the mask by the user; numbers of onnxruntime."""
    dims = {"s3": "s0+1"}
    program = ge.compile(step, state=STATE, state_capacity="s0=8", dims=dims)
    session, reference = program.session(), onnxruntime.InferenceSession(step)
    past = {n: np.zeros((1, 0, 8), np.float32) for n in STATE}
    rng = np.random.default_rng(0)
    for count in range(8):
        mask = np.ones((1, count + 1), np.int64)
        mask[0, : count // 2] = 0
        inputs = {"mask": mask, "x": rng.standard_normal((1, 1, 8), np.float32)}
        y, *new = reference.run(None, {**inputs, **past})
        np.testing.assert_allclose(session.run(inputs)["y"], y, atol=1e-5)
        past = dict(zip(STATE, new, strict=True))
        for name, value in past.items():
            np.testing.assert_array_equal(session.state[name], value)


def test_what_the_graph_says_is_one_dimension(step: str) -> None:
    program = ge.compile(step)
    main = main_of(program.module)
    assert dim_relations(main) == {"s1": "s0"}
    assert [p.dims for p in input_ports(main)][2:] == [("", "s0", "")] * 2
    rng = np.random.default_rng(1)
    inputs = {
        "mask": np.ones((1, 7), np.int64),
        **{n: rng.standard_normal((1, 4, 8), np.float32) for n in STATE},
        "x": rng.standard_normal((1, 1, 8), np.float32),
    }
    want = onnxruntime.InferenceSession(step).run(None, inputs)
    for got, value in zip(program.session().run(inputs).values(), want, strict=True):
        np.testing.assert_allclose(got, value, atol=1e-5)
    inputs["past_1"] = inputs["past_1"][:, :3]
    with pytest.raises(
        ge.GeError, match="dimension 's0' is 3 in input 'past_1', but 4 in 'past_0'"
    ):
        program.session().run(inputs)


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ({}, "size 's3' of input 'mask' does not follow from 's0'; say how it does, as in --dim"),
        ({"s3": "s9+1"}, "there is no dimension 's9'; the model has 's3', 's0', 's1'"),
        ({"s9": "s0+1"}, "there is no dimension 's9'"),
        ({"s3": "s3+1"}, "--dim s3=s3+1: the size of 's3' follows from itself"),
        (
            {"s3": "s0+1", "s1": "s0+1"},
            "contradicts the model: 's0 + 1' and 's0 + 2' are to be one",
        ),
        ({"s3": "s0+1", "s1": 6}, "'s0' is 6: that follows from sizes that are fixed; leave open"),
        (
            {"s3": "s0 +"},
            "'s0 +' is not a number of elements; or a range, as in batch=1..8, or other",
        ),
        ({"s3": "2*s0"}, "the size '2 * s0' of input 'mask' does not grow by one with 's0'"),
    ],
)
def test_sizes_that_do_not_fit(step: str, dims: dict[str, Any], message: str) -> None:
    """Errors name dimensions, and no number that stands for one."""
    with pytest.raises(ge.GeError) as error:
        ge.compile(step, state=STATE, state_capacity="s0=8", dims=dims)
    assert message in str(error.value)
    said = f"{error.value.message} {error.value.hint}"  # the folder of the model may have numbers
    numbers = {int(n) for n in re.findall(r"\d{3,}", said)}
    assert not {n for n in numbers if min(SIZES) <= n <= max(SIZES) + 9}


def test_commands_take_relations(
    step: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a model, and of a program that knows nothing of them."""
    program = str(tmp_path / "p.mlir")
    ge.compile(step).save(program, None)
    for model in (step, program):
        assert ge_run([model, "--dim", "s3=s0+1", "--dim", "s0=4"]) == 0
        assert "cat_4: float32[1, 5, 8]" in capsys.readouterr().out
    assert ge_run([program, "--dim", "s3=s0+1", "--dim", "s1=2"]) == 0
    assert "cat_4: float32[1, 3, 8]" in capsys.readouterr().out
    for flags, message in {
        (
            "s3=s0+1",
            "s1=2",
            "s0=3",
        ): "dimension 's1' is 2, and 's0' is 3; 's1' is 's0' in every run",
        ("s3=s0+1", "s3=4"): "--dim s3=4 contradicts --dim s3=s0+1; drop one",
        ("s3=q",): "--dim s3=q: there is no dimension 'q'; the module has 's3', 's0'",
    }.items():
        assert ge_run([program, *(f"--dim={flag}" for flag in flags)]) == 1
        assert message in capsys.readouterr().err
    assert ge_run([program, "--dim", "s0=4"]) == 1
    assert "the inputs are random ones with s3=1: give --inputs" in capsys.readouterr().err
    np.savez(
        tmp_path / "x.npz",
        mask=np.ones((1, 9), np.int64),
        x=np.ones((1, 1, 8), np.float32),
        **{n: np.ones((1, 4, 8), np.float32) for n in STATE},
    )
    arguments = [program, "--inputs", str(tmp_path / "x.npz"), "--dim", "s3=s0+1"]
    assert ge_run(arguments) == 1
    assert "dimension 's3' is 9, and 's0 + 1' is 5" in capsys.readouterr().err


def test_a_place_names_a_dimension_without_name(step: str, tmp_path: Path) -> None:
    model = onnx.load(step)
    model.graph.input[0].type.tensor_type.shape.dim[1].ClearField("dim_param")
    onnx.save(model, tmp_path / "m.onnx")
    path = str(tmp_path / "m.onnx")
    ge.compile(path, state=STATE, state_capacity="s0=8", dims={"mask[1]": "s0+1"})
    with pytest.raises(ge.GeError, match=r"'mask\[1\]' of input 'mask' does not follow from 's0'"):
        ge.compile(path, state=STATE, state_capacity="s0=8")


def test_inputs_of_an_open_graph_fit_what_their_names_say() -> None:
    module = ge.Graph()
    x = module.input("x", ("n", 4))
    y = module.input("y", ("n + 1", 4))
    module.output("z", module.add(x, x))
    module.output("w", module.add(y, y))
    session = ge.Session(module.module)
    ones = np.ones((5, 4), np.float32)
    with pytest.raises(ge.GeError, match=r"dimension 'n \+ 1' is 5 in input 'y', and is to be 4"):
        session.run({"x": ones[:3], "y": ones})


def test_sizes_are_read_and_follow() -> None:
    given = parse_dims(["a=b+1", "b=4", "c=1..8", "d=2*a"])
    assert given["a"] == Relation("b+1")
    assert given["c"] == Range(1, 8)
    assert fixed_sizes(given) == {"a": 5, "b": 4, "d": 10}
    relations = Relations.of({"d": "2*a", "a": "b+1"})
    assert relations.texts == {"d": "2 * b + 2", "a": "b + 1"}
    assert relations.named("d + b") == "3 * b + 2"
    assert relations.named("c") == "c"
    assert with_related({"d": 10}, {"d": "2*a", "a": "b+1"}) == {"d": 10, "a": 5, "b": 4}
    assert with_related({"d": 9}, {"d": "2*a"}) == {"d": 9}
    with pytest.raises(ge.GeError, match=r"dimension 'a' is 5, and 'b\+1' is 4"):
        with_related({"a": 5, "b": 3}, {"a": "b+1"})
    assert Polynomial.named("n // 2", {"n": Polynomial.of(7)}) == Polynomial.of(3)
