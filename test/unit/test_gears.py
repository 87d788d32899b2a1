"""Programs with a body for each of several sizes: what users ask for, numbers, memory, time."""

import itertools
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import DenseArrayBase, DictionaryAttr, i64

sys.path.insert(0, str(Path(__file__).parent))
from sums import assert_near

import ge
from ge.dialects.graph.stated import PADDING
from ge.dialects.npu_task.control import CaseOp
from ge.dialects.npu_task.ops import SlotOp
from ge.dialects.support.errors import GeError
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context
from ge.runtime.check.memory import check_plan
from ge.runtime.check.padding import check_padding
from ge.runtime.check.proof import check_program
from ge.runtime.device.random_inputs import random_inputs
from ge.runtime.device.session import Session, main_of
from ge.tools.commands import ge_check, ge_compile, ge_run
from ge.transforms.analysis.dependencies import Segment
from ge.transforms.analysis.task_graph import Window
from ge.transforms.schedule.assign_streams import StreamAssignment
from ge.transforms.schedule.list_scheduling import Schedule
from ge.transforms.shapes.gears import exact, waste

pytestmark = pytest.mark.usefixtures("without_programs")

MODELS = Path(__file__).resolve().parents[1] / "models"

TEXT = """
func.func @main(%x: tensor<?x?x8xf32> {graph.name = "x", graph.dims = ["batch", "length", ""]},
                %m: tensor<?x?xf32> {graph.name = "m", graph.dims = ["batch", "length + 1"]})
    -> (tensor<?x?x4xf32> {graph.name = "y"}, tensor<8x4xf32> {graph.name = "v"}) {
  %w = graph.constant dense<0.5> : tensor<8x4xf32>
  %0 = graph.matmul %x, %w : (tensor<?x?x8xf32>, tensor<8x4xf32>) -> tensor<?x?x4xf32>
  %1 = graph.tanh %0 : (tensor<?x?x4xf32>) -> tensor<?x?x4xf32>
  %2 = graph.reduce sum %m axes [1] : (tensor<?x?xf32>) -> tensor<?x1xf32>
  %3 = graph.unsqueeze %2 axes [2] : (tensor<?x1xf32>) -> tensor<?x1x1xf32>
  %4 = graph.add %1, %3 : (tensor<?x?x4xf32>, tensor<?x1x1xf32>) -> tensor<?x?x4xf32>
  %5 = graph.exp %w : (tensor<8x4xf32>) -> tensor<8x4xf32>
  func.return %4, %5 : tensor<?x?x4xf32>, tensor<8x4xf32>
}
"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    (tmp_path / "m.mlir").write_text(TEXT)
    return str(tmp_path / "m.mlir")


def of_inputs(tmp_path: Path, *types: str) -> str:
    """A model with these inputs, that computes the exponential of the first."""
    args = ", ".join(f"%a{i}: {t}" for i, t in enumerate(types))
    first = types[0].partition(" ")[0]
    path = tmp_path / "inputs.mlir"
    path.write_text(
        f"func.func @main({args}) -> {first} {{\n"
        f"  %0 = graph.exp %a0 : ({first}) -> {first}\n  func.return %0 : {first}\n}}\n"
    )
    return str(path)


def test_each_gear_has_the_numbers_of_the_static_program(model: str):
    program = ge.compile(model, target="910_merged", dynamic_dims="1,4;2,4;2,9")
    assert check_plan(program.module) == []
    session = Session(program.module, program.payload, sanitize=True)
    largest: dict[str, int] = {}
    for row in ((1, 4), (2, 4), (2, 9)):
        text = TEXT
        for name, size in (("?x?x8", f"{row[0]}x{row[1]}x8"), ("?x?x4", f"{row[0]}x{row[1]}x4")):
            text = text.replace(name, size)
        text = text.replace("%m: tensor<?x?xf32>", f"%m: tensor<{row[0]}x{row[1] + 1}xf32>")
        text = text.replace("(tensor<?x1xf32>)", "(T)").replace("%m axes [1] : (tensor<?x?xf32>)",
            f"%m axes [1] : (tensor<{row[0]}x{row[1] + 1}xf32>)")  # fmt: skip
        text = text.replace("tensor<?x1xf32>", f"tensor<{row[0]}x1xf32>")
        text = text.replace("(T)", f"(tensor<{row[0]}x1xf32>)").replace("?x1x1", f"{row[0]}x1x1")
        Path(model).write_text(text)
        static = ge.compile(model, target="910_merged")
        inputs = random_inputs(static.module, 3)
        want = Session(static.module, static.payload).run(inputs)
        got = session.run(inputs)
        assert all(got[name].tobytes() == want[name].tobytes() for name in want), row
        for key, value in static.compilation.memory.items():
            largest[key] = max(value, largest.get(key, 0))
    memory = program.compilation.memory
    for key in ("peak_bytes", "io_bytes", "weight_bytes"):
        assert memory[key] <= largest[key], key


@pytest.fixture(scope="module")
def geared(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The program of the model, with two gears."""
    path = tmp_path_factory.mktemp("geared") / "m.mlir"
    path.write_text(TEXT)
    return str(ge.compile(str(path), dynamic_dims="1,4;1,9").module)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("table [{0}, {1}]", "table [{1}, {0}]", "branch 0 copies 5 of dimension 1, and runs for"),
        ("table [{0}, {1}]", "table [{0}]", "and runs for all other sizes"),
        ("table [{0}, {1}]", "table [{0}, {1}, array<i64: 3, 9, 10>, array<i64: 4, 9, 10>]",
         "4 rows of sizes need a branch each"),
        ("ins(%5, %m_2 :", "ins(%3, %m_2 :", "use of undefined value %3"),
        ('%m_2 = npu_task.slot io 512', '%m_2 = npu_task.slot io 0', "has overwritten"),
    ],
)  # fmt: skip
def test_faults_planted_in_gears_are_refused(
    old: str, new: str, message: str, model: str, geared: str,
    capsys: pytest.CaptureFixture[str],
):  # fmt: skip
    """A table with wrong branches, too few or too many, a branch that uses the buffer of another
    one, buffers of one branch in one place."""
    rows = "array<i64: 1, 4, 5>", "array<i64: 1, 9, 10>"
    old, new = old.format(*rows), new.format(*rows)
    assert geared.count(old) == 1
    Path(model).write_text(geared.replace(old, new))
    assert ge_check([model]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("rows", [1, 4])
def test_m17_a_branch_for_each_row_of_sizes(rows: int, geared: str):
    """Two branches are for two rows, or for one and all other sizes."""
    first, table = "array<i64: 1, 4, 5>", "table [array<i64: 1, 4, 5>, array<i64: 1, 9, 10>]"
    assert table in geared
    changed = geared.replace(table, f"table [{', '.join([first] * rows)}]")
    found = check_plan(parse_module(context(), SourceText("m", changed)))
    assert {p.rule for p in found} == {"M17"}


def test_g2_what_is_padded_has_nothing_that_follows_from_it(geared: str):
    module = parse_module(context(), SourceText("m", geared))
    cut = DictionaryAttr({"y": DenseArrayBase.from_list(i64, [1])})
    main_of(module).attributes[PADDING] = DictionaryAttr({"length": cut})
    (problem,) = check_padding(module, main_of(module))[0]
    said = "'length' is padded, and 'length + 1' follows from it [G2]"
    assert problem.message == said


@pytest.fixture
def scheduled(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tasks the segments have for which schedules are compared."""
    counts: list[int] = []
    best = StreamAssignment.best

    def counted(self: StreamAssignment, segment: Segment, first: Schedule, window: Window):
        counts.append(len(segment.tasks))
        return best(self, segment, first, window)

    monkeypatch.setattr(StreamAssignment, "best", counted)
    return counts


def test_gears_of_one_structure_share_a_schedule(model: str, scheduled: list[int]):
    program = ge.compile(model, target="910_merged", dynamic_dims="1,4;2,4;2,9")
    (case,) = (op for op in program.module.walk() if isinstance(op, CaseOp))
    first, *others = (
        [
            (op.name, op.properties.get("stream"))
            for op in region.block.ops
            if op.name != SlotOp.name
        ]
        for region in case.branches
    )
    assert all(ops == first for ops in others)
    assert scheduled.count(5) == 1


def test_so_do_gears_with_constants_of_their_own(scheduled: list[int]):
    """Numbers that follow from the sizes are constants of kernels where they are short, operands
    where they are long."""
    decode = str(MODELS / "gpt2_decode.dynamic.onnx")
    program = ge.compile(decode, dynamic_dims="1,8;2,128;3,300")
    assert len([count for count in scheduled if count > 10]) == 1
    assert not check_program(program.module, None).problems


def test_sizes_of_no_gear_are_refused_with_the_gears(model: str):
    program = ge.compile(model, dynamic_batch="1,2", dynamic_dims="4;9")
    session = Session(program.module, program.payload)
    x, m = np.zeros((3, 4, 8), np.float32), np.zeros((3, 5), np.float32)
    with pytest.raises(GeError) as error:
        session.run({"x": x, "m": m})
    assert "no gear is for batch=3, length=4" in str(error.value)
    assert "batch=1, length=4, length + 1=5; batch=1, length=9" in str(error.value)


@pytest.fixture(scope="module", params=[["--dynamic-dims", "1,4;2,4;2,9"], []])
def compiled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The program of the model, with gears and without."""
    folder = tmp_path_factory.mktemp("gears")
    (folder / "m.mlir").write_text(TEXT)
    program = str(folder / "p.mlir")
    assert ge_compile([str(folder / "m.mlir"), *request.param, "-o", program]) == 0
    return program


@pytest.fixture
def inputs(tmp_path: Path) -> str:
    """A file of inputs of 2 rows of 4."""
    path = str(tmp_path / "x.npz")
    np.savez(path, x=np.zeros((2, 4, 8), np.float32), m=np.zeros((2, 5), np.float32))
    return path


def test_inputs_of_the_sizes_given_are_taken(compiled: str, inputs: str):
    assert ge_run([compiled, "--inputs", inputs, "--shape", "x=2x4x8"]) == 0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--shape", "x=1x4x8"], "dimension 'batch' is 1, and 2 in the shape of input 'x'"),
        (["--dim", "length=9"], "dimension 'length' is 9, and 4 in the shape of input 'x'"),
        (["--shape", "z=1"], "there is no input 'z'"),
        (["--timing-only", "--dim", "batch=1"], "dimension 'batch' is 1, and 2 in the shape of"),
    ],
)
def test_inputs_that_are_not_of_the_sizes_given_are_refused(
    flags: list[str], message: str, compiled: str, inputs: str,
    capsys: pytest.CaptureFixture[str],
):  # fmt: skip
    assert ge_run([compiled, "--inputs", inputs, *flags]) == 1
    assert message in capsys.readouterr().err


def test_sizes_that_contradict_each_other_are_refused(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    program = str(tmp_path / "p.mlir")
    assert ge_compile([model, "--dynamic-dims", "1,4;2,9", "-o", program]) == 0
    flags = ["--timing-only", "--dim", "batch=1", "--shape", "x=2x9x8"]
    assert ge_run([program, *flags]) == 1
    error = capsys.readouterr().err
    assert "dimension 'batch' is 1, and 2 in the shape of input 'x'" in error


def test_all_that_the_device_holds_is_proved(model: str):
    proof = check_program(ge.compile(model, dynamic_dims="1,4;2,9").module)
    assert "known at run time" not in proof.summary
    assert "optimal" in proof.summary
    with_others = ge.compile(model, dynamic_dims="1,4;2,9", dynamic_fallback=True)
    assert "whose size is known at run time" in check_program(with_others.module).summary


def test_random_inputs_are_those_of_the_largest_gear(model: str):
    program = ge.compile(model, dynamic_dims="1,4;2,9;2,4")
    assert random_inputs(program.module)["x"].shape == (2, 9, 8)
    assert random_inputs(program.module, dims={"length": 4})["x"].shape == (2, 4, 8)
    Path(model).write_text(re.sub(r", graph.dims = [^}]*", "", TEXT))
    program = ge.compile(model, dynamic_dims="1,4,1,5;2,9,2,10")
    assert random_inputs(program.module)["m"].shape == (2, 10)


def test_every_level_has_the_numbers(model: str):
    inputs = random_inputs(ge.load(model).module, dims={"batch": 2, "length": 3, "length + 1": 4})
    want = Session(ge.load(model).module).run(inputs)
    for level in ("fused", "tasks", "buffers", "program"):
        program = ge.load(model)
        ge.lower(program.module, ge.Options(dynamic_dims="1,3;2,3"), until=level)
        got = Session(program.module, program.payload).run(inputs)
        for name, array in want.items():
            assert_near(got[name], array, 1e-5)


def test_branches_of_the_host_are_sunk(model: str):
    from ge.dialects.targets.target import Target
    from ge.runtime.clock.clock import ProgramClock

    program = ge.compile(model, dynamic_dims="1,4;2,9")
    clock = ProgramClock(program.module, Target.load("910_merged"))
    longest = clock.main(program.module)
    assert len(clock.branches) == 2
    assert longest.latency_us >= max(t.latency_us for t in clock.branches)
    assert longest.latency_us < Target.load("910_merged").host_launch_us * len(longest.tasks)
    (case,) = (op for op in program.module.walk() if isinstance(op, CaseOp))
    assert case.is_decided_by_host


def test_a_fallback_takes_all_other_sizes(model: str):
    program = ge.compile(model, dynamic_dims="1,4;2,9", dynamic_fallback=True)
    assert check_plan(program.module) == []
    session = Session(program.module, program.payload, sanitize=True)
    plain = Session(ge.load(model).module)
    for batch, length in ((1, 4), (2, 9), (3, 9), (2, 11)):
        dims = {"batch": batch, "length": length, "length + 1": length + 1}
        inputs = random_inputs(ge.load(model).module, dims=dims)
        got, want = session.run(inputs), plain.run(inputs)
        for name, array in want.items():
            assert_near(got[name], array, 1e-5)
    others = program.report()["other_sizes"]["tensors"]
    assert others > 0
    text = f"all other sizes: the device allocates {others} tensors as it runs"
    assert text in program.summary("m")
    with pytest.raises(GeError, match="--dynamic-fallback is beside gears"):
        ge.compile(model, dynamic_fallback=True)


def test_the_report_says_what_each_gear_costs(model: str, tmp_path: Path):
    sizes = tmp_path / "sizes.csv"
    sizes.write_text("batch,length,count\n1,4,90\n2,9,1\n1,9,9\n3,4,5\n")
    program = ge.compile(model, dynamic_dims="1,4;2,9", gear_histogram=str(sizes))
    report = program.report()
    first, second = report["gears"]
    assert second["sizes"] == {"batch": 2, "length": 9, "length + 1": 10}
    assert first["latency_us"] <= second["latency_us"]
    assert second["arena_bytes"] <= report["memory"]["peak_bytes"]
    histogram = report["histogram"]
    assert histogram["now"]["not_taken"] == 5 / 105
    assert histogram["now"]["wasted"] == 81 / (90 * 4 + 18 + 9 * 18)
    assert histogram["best"]["gears"] == [(1, 4), (3, 9)]
    assert histogram["best"]["method"] == "greedy"
    summary = program.summary("m")
    assert "gear batch=1, length=4, length + 1=5:" in summary
    inside = "'length + 1' follows from it, whose padding would lie inside"
    assert f"'length' cannot be padded: {inside}" in summary
    assert "'length + 1' cannot be padded: it follows from 'length'" in summary
    assert "'batch' may be padded to the next gear, given finite inputs and weights" in summary
    assert report["padding"]["dims"]["batch"] == {"y": (0,)}
    assert "scores under 4e29" in report["padding"]["assumes"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("batch,count\n1,2\n", "the columns are batch, count; expected batch, length, count"),
        ("batch,length,count\n1,x,2\n", "line 2 has '1,x,2'; whole numbers of at least 1"),
        ("batch,length,count\n", "the histogram has no sizes"),
    ],
)
def test_bad_histograms_are_named(text: str, message: str, model: str, tmp_path: Path):
    (tmp_path / "s.csv").write_text(text)
    with pytest.raises(GeError) as error:
        ge.compile(model, dynamic_dims="1,4;2,9", gear_histogram=str(tmp_path / "s.csv"))
    assert message in str(error.value)


@given(st.dictionaries(st.integers(1, 20), st.integers(1, 9), min_size=1, max_size=7),
       st.integers(1, 4))  # fmt: skip
def test_the_best_gears_of_one_dimension_are_exact(counts: dict[int, int], k: int):
    sizes = {(n,): c for n, c in counts.items()}
    best = waste([(n,) for n in exact(counts, k)], sizes)
    others = (
        waste([(n,) for n in (*some, max(counts))], sizes)
        for some in itertools.combinations(counts, min(k, len(counts)) - 1)
    )
    assert best == min(others)


BATCH = 'tensor<?x4xf32> {graph.dims = ["n", ""]}'
IMAGE = 'tensor<1x3x?x?xf32> {graph.dims = ["", "", "h", "w"]}'
BOTH = 'tensor<?x?xf32> {graph.dims = ["n", "s"]}'


@pytest.mark.parametrize(
    ("options", "types", "message"),
    [
        ({"dynamic_dims": "1;;2"}, [BATCH], "E10011: gear 2 of --dynamic-dims is empty"),
        ({"dynamic_batch": "1,x"}, [BATCH], "E10002: gear 2 of --dynamic-batch has 'x'"),
        ({"dynamic_batch": "1,2", "dynamic_dims": "1,8;2,8"}, [BOTH],
         "E10009: --dynamic-dims and --dynamic-batch both size 'n'"),
        ({"dynamic_batch": "1,2"}, ["tensor<2x4xf32>"], "E10012: gears need dynamic dimensions"),
        ({"dynamic_batch": "1,2"}, ["tensor<2x?xf32>"], "E10012: --dynamic-batch needs an input"),
        ({"dynamic_image_size": "1,2;3,4"}, ["tensor<2x4xf32>"], "E10031: gears need dynamic"),
        ({"dynamic_image_size": "1,2;3,4"}, [BATCH], "E10031: --dynamic-image-size needs an image"),
        ({"dynamic_dims": "1;2"}, ["tensor<2x4xf32>"], "E10040: gears need dynamic dimensions"),
        ({"dynamic_batch": "1,2"}, [BOTH], "E10018: dimension 's' is dynamic, and --dynamic-batch"),
        ({"dynamic_batch": "1,2"}, ['tensor<?x?xf32> {graph.dims = ["n", "n"]}'],
         "E10018: --dynamic-batch sizes the first dimension alone"),
        ({"dynamic_image_size": "1,2;3,4"}, ['tensor<1x?x?x?xf32>'],
         "E10019: --dynamic-image-size sizes height and width alone"),
        ({"dynamic_image_size": "1,2;3,4"}, ['tensor<?x3x?x?xf32>'],
         "E10019: dimension 'arg0[0]' is dynamic"),
        ({"dynamic_batch": "8"}, [BATCH], "E10035: --dynamic-batch has 1 gear; at least 2"),
        ({"dynamic_batch": ",".join(map(str, range(1, 102)))}, [BATCH],
         "E10036: --dynamic-batch has 101 gears; at most 100"),
        ({"dynamic_dims": "1,8;2"}, [BOTH], "E10037: gear 2 of --dynamic-dims has 1 sizes, and"),
        ({"dynamic_image_size": "8;9"}, [IMAGE], "E10037: gear 1 of --dynamic-image-size has 1"),
        ({"dynamic_batch": "1,0"}, [BATCH], "E10038: gear 2 of --dynamic-batch has 0; sizes are"),
        ({"dynamic_batch": "1,-2"}, [BATCH], "E10038: gear 2 of --dynamic-batch has -2"),
        ({"dynamic_dims": "1,8;2,8;1,8"}, [BOTH], "E10039: gear 3 of --dynamic-dims is 1,8, as"),
        ({"dynamic_dims": "1;2"}, [BOTH], "E10045: gear 1 of --dynamic-dims has 1 sizes; 2 are"),
        ({"dynamic_dims": "1,8,2,8;1,9,1,8"}, [BOTH, BOTH],
         "E10046: gear 1 of --dynamic-dims has two sizes of 'n': 1 and 2"),
        ({"dynamic_image_size": "1,2;3,4"}, ["tensor<1x?x?xf32>"],
         "E10049: --dynamic-image-size is of images of 4 dimensions; input 'arg0' has 3"),
    ],
)  # fmt: skip
def test_bad_gears_are_named(
    options: dict[str, Any], types: list[str], message: str, tmp_path: Path
):
    with pytest.raises(GeError) as error:
        ge.compile(of_inputs(tmp_path, *types), **options)
    assert message in str(error.value)


def test_ranges_and_gears_are_not_for_one_program(tmp_path: Path):
    path = Path(of_inputs(tmp_path, BATCH))
    text = path.read_text().replace(
        "xf32> {\n", "xf32> attributes {graph.dim_ranges = {n = 1}} {\n"
    )
    path.write_text(text)
    with pytest.raises(GeError, match="E10040: gears need dimensions that are -1, not ranges"):
        ge.compile(str(path), dynamic_batch="1,2")


def test_gears_are_made_of_graphs(tmp_path: Path):
    program = ge.load(of_inputs(tmp_path, BATCH))
    ge.lower(program.module, ge.Options(), until="tasks")
    with pytest.raises(GeError, match="gears are made of a graph"):
        ge.lower(program.module, ge.Options(dynamic_batch="1,2"))


def test_sizes_may_be_one_for_each_dynamic_dimension(tmp_path: Path):
    path = of_inputs(tmp_path, BOTH, BOTH)
    program = ge.compile(path, dynamic_dims="1,8,1,8;2,8,2,8")
    got = Session(program.module).run({"arg0": np.zeros((2, 8), np.float32),
                                       "arg1": np.zeros((2, 8), np.float32)})  # fmt: skip
    assert got["result0"].shape == (2, 8)


@pytest.mark.usefixtures("at_once")
def test_batches_between_gears_are_padded(tmp_path: Path):
    program = ge.compile(of_inputs(tmp_path, "tensor<?x4xf32>"), dynamic_batch="2,8")
    session = Session(program.module, program.payload)
    batches = [np.full((n, 4), n, np.float32) for n in (2, 3, 3, 8, 1)]
    for batch, outputs in zip(batches, session.run_many(batches), strict=True):
        (got,) = outputs.values()
        (want,) = session.run({session.input_names[0]: batch}).values()
        assert got.tobytes() == want.tobytes()
        assert got.shape == batch.shape
    with pytest.raises(GeError, match=r"batch 1: no gear is for .*=9"):
        list(session.run_many([batches[0], np.zeros((9, 4), np.float32)]))
    binding = session.bind({session.input_names[0]: ge.DeviceArray.of(batches[1])})
    with pytest.raises(GeError, match="has the sizes of one; run the session itself"):
        binding.run()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dims": 5}, "dims are sizes by name, not of type int"),
        ({"memory_limit": "1K"}, "the memory limit is a number of bytes, not 1K"),
    ],
)
def test_options_of_other_types_are_named(model: str, options: dict[str, Any], message: str):
    with pytest.raises(GeError, match=message):
        ge.compile(model, **options)
