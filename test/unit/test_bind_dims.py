"""Programs of unknown shapes at known ones: numbers, plan and proof, control flow, bad sizes."""

import sys
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.printer import Printer

sys.path.insert(0, str(Path(__file__).parent))
from counting_steps import calls
from sums import assert_sums

from ge.dialects.graph.slicing import ConcatOp
from ge.dialects.npu_task.attributes import figure
from ge.dialects.npu_task.control import CaseOp, IfOp, LoopOp
from ge.dialects.npu_task.memory import Task
from ge.dialects.npu_task.ops import KernelOp, LaunchOp
from ge.dialects.support.dims import Range, size_of, symbols
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.support.types import is_dynamic
from ge.dialects.targets.target import Target
from ge.dialects.text.printing import op_text
from ge.dialects.text.reading import SourceText, parse_module
from ge.dialects.text.values import parse_dims, parse_shapes, shape_from
from ge.lowering.driver.binding import Binder
from ge.lowering.driver.compiler import compile_file, context, lower_program
from ge.lowering.driver.program import Program
from ge.lowering.pipeline.options import Options
from ge.runtime.check.proof import check_program
from ge.runtime.data.arrays import Array
from ge.runtime.device.session import Session
from ge.runtime.host.api import Host, HostProgram
from ge.transforms.shapes import specialize

MODELS = Path(__file__).parent.parent / "models"


def program(text: str) -> Program:
    made = Program(parse_module(context(), SourceText("test", text)), {}, "test.mlir")
    lower_program(made, Options())
    return made


def bound(text: str, **dims: int) -> tuple[ModuleOp, ModuleOp]:
    """The program, and the program at these sizes, which is proved."""
    open_ = program(text)
    module = Binder(open_, Options()).at(dims).module
    assert not check_program(module, None).problems
    return open_.module, module


def same_numbers(modules: tuple[ModuleOp, ModuleOp], inputs: Mapping[str, object]) -> None:
    want, got = (Session(m, poison=True).run(inputs) for m in modules)
    for name, array in want.items():
        np.testing.assert_array_equal(got[name], array)


def dynamic(module: ModuleOp) -> int:
    """How many values of the program are of unknown shape."""
    values = (
        v
        for op in module.walk()
        if isinstance(op, Task | IfOp | CaseOp | LoopOp)
        for v in op.results
    )
    return sum(is_dynamic(v.type) for v in values)


HEAD = """func.func @main(%x: tensor<?x4xf32> {graph.name = "x", graph.dims = ["n", ""]},
                %c: tensor<i1> {graph.name = "c"}, %k: tensor<i64> {graph.name = "k"})"""


def exp_if(condition: str, before: str = "") -> str:
    """A program that computes something, and exp(x) if a condition holds, else x."""
    return f"""{HEAD} -> (tensor<?x4xf32> {{graph.name = "y"}}) {{
      {before}
      %y = graph.if {condition} : (tensor<i1>) -> tensor<?x4xf32> {{
        %0 = graph.exp %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
        graph.yield %0 : tensor<?x4xf32>
      }} else {{
        graph.yield %x : tensor<?x4xf32>
      }}
      func.return %y : tensor<?x4xf32>
    }}"""


X = np.arange(12, dtype=np.float32).reshape(3, 4)


def test_a_branch_of_shapes_that_are_now_known_has_a_buffer():
    modules = bound(exp_if("%c"), n=3)
    assert dynamic(modules[0])
    assert not dynamic(modules[1])
    for c in (True, False):
        same_numbers(modules, {"x": X, "c": np.array(c), "k": np.array(0)})


def test_a_branch_that_does_not_fit_leaves_the_sizes_to_the_run():
    """It may be one that is not taken: only the run knows the condition."""
    open_ = program(f"""{HEAD} -> (tensor<4xf32> {{graph.name = "y"}}) {{
      %y = graph.if %c : (tensor<i1>) -> tensor<4xf32> {{
        %0 = graph.reduce sum %x axes [0] keep_dims false : (tensor<?x4xf32>) -> tensor<4xf32>
        graph.yield %0 : tensor<4xf32>
      }} else {{
        %0 = graph.exp %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
        %1 = graph.squeeze %0 axes [0] : (tensor<?x4xf32>) -> tensor<4xf32>
        graph.yield %1 : tensor<4xf32>
      }}
      func.return %y : tensor<4xf32>
    }}""")
    session = open_.session()
    inputs = {"x": X, "c": np.array(True), "k": np.array(0)}
    assert_sums(session.run(inputs)["y"], X.sum(0), len(X), np.abs(X).sum(0))
    with pytest.raises(GeError, match="squeeze"):
        session.run({**inputs, "c": np.array(False)})
    assert Binder(open_, Options()).at({"n": 3}).module is open_.module
    assert not dynamic(Binder(open_, Options()).at({"n": 1}).module)


def case_of(index: str, before: str = "", n: str = "?") -> str:
    """A program of three branches, one of which yields what is computed before."""
    t = f"tensor<{n}x4xf32>"
    head = HEAD.replace("tensor<?x4xf32>", t)
    head = head.replace(', graph.dims = ["n", ""]', "") if n != "?" else head
    return f"""{head} -> ({t} {{graph.name = "y"}}) {{
      {before}
      %e = graph.exp %x : ({t}) -> {t}
      %y = graph.case {index} : (tensor<i64>) -> {t} {{
        %0 = graph.tanh %e : ({t}) -> {t}
        graph.yield %0 : {t}
      }} {{
        %0 = graph.cos %e : ({t}) -> {t}
        graph.yield %0 : {t}
      }} {{
        graph.yield %e : {t}
      }}
      func.return %y : {t}
    }}"""


def test_cases_by_data_and_by_sizes():
    modules = bound(case_of("%k"), n=3)
    assert dynamic(modules[0])
    assert not dynamic(modules[1])
    for k in range(3):
        same_numbers(modules, {"x": X, "c": np.array(True), "k": np.array(k)})
    with pytest.raises(GeError, match="there is no branch 3 of 3"):
        Session(modules[1]).run({"x": X, "c": np.array(True), "k": np.array(3)})
    rows = """
      %n = graph.shape_of %x end 1 : (tensor<?x4xf32>) -> tensor<1xi64>
      %s = graph.squeeze %n axes [0] : (tensor<1xi64>) -> tensor<i64>"""
    modules = bound(case_of("%s", rows), n=1)
    assert not any(isinstance(op, CaseOp) for op in modules[1].walk())
    same_numbers(modules, {"x": X[:1], "c": np.array(True), "k": np.array(0)})


def test_a_branch_that_copies_what_it_yields_is_dispatched():
    module = program(case_of("%k", n="3")).module
    inputs = {"x": X, "c": np.array(True), "k": np.array(2)}
    want = Session(module).run(inputs)["y"]
    np.testing.assert_array_equal(want, np.exp(X))
    for mode in ("eager", "graph", "captured"):
        called = Host.of(mode).call(HostProgram(module, Target.load("910_merged")))
        assert called.timeline is not None


def test_a_branch_that_sizes_decide_is_taken():
    is_big = """
      %n = graph.shape_of %x end 1 : (tensor<?x4xf32>) -> tensor<1xi64>
      %s = graph.squeeze %n axes [0] : (tensor<1xi64>) -> tensor<i64>
      %two = graph.constant dense<2> : tensor<i64>
      %big = graph.compare gt %s, %two : (tensor<i64>, tensor<i64>) -> tensor<i1>"""
    modules = bound(exp_if("%big", is_big), n=3)
    assert not any(isinstance(op, IfOp) for op in modules[1].walk())
    same_numbers(modules, {"x": X, "c": np.array(True), "k": np.array(0)})


def test_a_loop_carries_known_shapes_in_buffers_and_stacks_rows():
    modules = bound(HEAD + """
        -> (tensor<?x4xf32> {graph.name = "y"}, tensor<?x?x4xf32> {graph.name = "z"}) {
      %n = graph.shape_of %x end 1 : (tensor<?x4xf32>) -> tensor<1xi64>
      %s = graph.squeeze %n axes [0] : (tensor<1xi64>) -> tensor<i64>
      %y, %z = graph.loop (%i, %go) trip %s : tensor<i64>
          carry (%a : tensor<?x4xf32> = %x : tensor<?x4xf32>)
          -> (tensor<?x4xf32>, tensor<?x?x4xf32>) {
        %0 = graph.add %a, %x : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
        graph.yield %go, %0, %0 : tensor<i1>, tensor<?x4xf32>, tensor<?x4xf32>
      }
      func.return %y, %z : tensor<?x4xf32>, tensor<?x?x4xf32>
    }""", n=3)  # fmt: skip
    assert not dynamic(modules[1])
    same_numbers(modules, {"x": X, "c": np.array(True), "k": np.array(0)})


def test_what_grows_in_a_loop_stays_with_the_device():
    modules = bound(HEAD + """ -> (tensor<?x4xf32> {graph.name = "y"}) {
      %y = graph.loop (%i, %go) trip %k : tensor<i64>
          carry (%a : tensor<?x4xf32> = %x : tensor<?x4xf32>) -> (tensor<?x4xf32>) {
        %0 = graph.concat %a, %x axis 0 : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
        graph.yield %go, %0 : tensor<i1>, tensor<?x4xf32>
      }
      func.return %y : tensor<?x4xf32>
    }""", n=3)  # fmt: skip
    assert dynamic(modules[1])
    same_numbers(modules, {"x": X, "c": np.array(True), "k": np.array(2)})


def test_what_depends_on_data_stays_with_the_device():
    modules = bound(HEAD + """ -> (tensor<2x?xi64> {graph.name = "y"}) {
      %e = graph.exp %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
      %y = graph.nonzero %e : (tensor<?x4xf32>) -> tensor<2x?xi64>
      func.return %y : tensor<2x?xi64>
    }""", n=3)  # fmt: skip
    assert dynamic(modules[1]) == 2  # the indices, and their copy to the host
    same_numbers(modules, {"x": X, "c": np.array(True), "k": np.array(0)})


@pytest.mark.parametrize(("past", "apart"), [(0, True), (1, True), (3, True)])
def test_what_is_appended_is_written_in_place_where_most_of_the_result_is_there(
    past: int, apart: bool
):
    modules = bound("""func.func @main(%x: tensor<4x8xf32> {graph.name = "x"},
                       %p: tensor<4x?x8xf32> {graph.name = "p", graph.dims = ["", "past", ""]})
        -> (tensor<4x?x8xf32> {graph.name = "y"}, tensor<4x?x8xf32> {graph.name = "c"}) {
      %w = graph.constant dense<2.0> : tensor<8x8xf32>
      %m = graph.matmul %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
      %r = graph.reshape %m shape [4, 1, 8] : (tensor<4x8xf32>) -> tensor<4x1x8xf32>
      %c = graph.concat %p, %r axis 1 : (tensor<4x?x8xf32>, tensor<4x1x8xf32>) -> tensor<4x?x8xf32>
      %y = graph.exp %c : (tensor<4x?x8xf32>) -> tensor<4x?x8xf32>
      func.return %y, %c : tensor<4x?x8xf32>, tensor<4x?x8xf32>
    }""", past=past)  # fmt: skip
    kernels = [op for op in modules[1].ops if isinstance(op, KernelOp)]
    joined = [op for k in kernels for op in k.walk() if isinstance(op, ConcatOp)]
    assert len(joined) == (not apart)
    main = main_function(modules[1])
    if not past:  # what is computed is the output itself, no part of the arena
        assert main is not None
        assert figure(main, "arena_bytes") == 0
    rng = np.random.default_rng(0)
    x, p = (rng.normal(size=s).astype(np.float32) for s in ((4, 8), (4, past, 8)))
    same_numbers(modules, {"x": x, "p": p})


def test_what_is_only_joined_is_a_launch():
    """The kernel holds nothing but a concatenation of what other launches compute."""
    rows, w = "tensor<?x4xf32>", "tensor<4x4xf32>"
    modules = bound(HEAD + f""" -> ({rows} {{graph.name = "y"}}) {{
      %w = graph.constant dense<2.0> : {w}
      %v = graph.constant dense<1.0> : {w}
      %a = graph.matmul %x, %v : ({rows}, {w}) -> {rows}
      %b = graph.matmul %x, %w : ({rows}, {w}) -> {rows}
      %y = graph.concat %a, %b axis 0 : ({rows}, {rows}) -> {rows}
      func.return %y : {rows}
    }}""", n=3)  # fmt: skip
    same_numbers(modules, {"x": X, "c": np.array(True), "k": np.array(0)})


@pytest.mark.parametrize(
    ("name", "size"),
    [("past + 1", 8), ("2*past-past", 7), ("(past+1)//2", 4), ("other", None), ("past +", None)],
)
def test_names_of_dimensions_may_be_expressions(name: str, size: int | None):
    assert size_of(name, {"past": 7}) == size
    assert symbols(name) == (("past",) if size else (name,))


TOKEN = """func.func @main(%x: tensor<?x?x64xf32> {graph.name = "x", graph.dims = ["b", "s", ""]},
    %g: tensor<64xf32> {graph.name = "g"}, %w: tensor<64x64xf32> {graph.name = "w"})
    -> (tensor<?x?x64xf32> {graph.name = "y"}, tensor<?x64xf32> {graph.name = "z"}) {
  %0 = graph.rms_norm %x, %g : (tensor<?x?x64xf32>, tensor<64xf32>) -> tensor<?x?x64xf32>
  %i = graph.constant dense<0> : tensor<i64>
  %1 = graph.gather %0, %i axis 1 : (tensor<?x?x64xf32>, tensor<i64>) -> tensor<?x64xf32>
  %2 = graph.matmul %1, %w : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
  func.return %0, %2 : tensor<?x?x64xf32>, tensor<?x64xf32>
}"""


@pytest.mark.parametrize(("b", "s"), [(2, 64), (3, 7), (1, 5)])
def test_one_token_of_each_row_is_read_where_it_lies_at_any_sizes(b: int, s: int):
    """The same launches as in the static program: where there are as many numbers of the tokens as
    rows, too (2 x 64)."""
    static = program(TOKEN.replace("?x?", f"{b}x{s}").replace("?x64", f"{b}x64")).module
    open_, module = bound(TOKEN, b=b, s=s)
    for made in (static, module):
        assert [op.callee for op in made.walk() if isinstance(op, LaunchOp)] == [
            "rms_norm_0",
            "matmul_0",
        ]
    rng = np.random.default_rng(0)
    shapes = {"x": (b, s, 64), "g": (64,), "w": (64, 64)}
    inputs = {n: rng.normal(size=shape).astype(np.float32) for n, shape in shapes.items()}
    same_numbers((open_, module), inputs)
    same_numbers((static, module), inputs)


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ({}, "the sizes of 'n', 'p' are not known"),
        ({"n": 2}, "the sizes of 'p' are not known"),
        ({"n": 2, "p": 3, "q": 1}, "there is no dimension 'q'"),
        ({"n": 2, "p": 3, "p + 1": 5}, "dimension 'p \\+ 1' is 5, but others make it 4"),
    ],
)
def test_bad_sizes_are_named(dims: dict[str, int], message: str):
    text = """func.func @main(%x: tensor<?x?xf32> {graph.name = "x", graph.dims = ["n", "p + 1"]})
        -> (tensor<?x?xf32> {graph.name = "y"}) {
      %0 = graph.exp %x : (tensor<?x?xf32>) -> tensor<?x?xf32>
      func.return %0 : tensor<?x?xf32>
    }"""
    binder = Binder(program(text), Options())
    with pytest.raises(GeError, match=message):
        binder.at(dims)


def test_programs_are_kept_by_their_shapes():
    text = """func.func @main(%x: tensor<?x?xf32> {graph.name = "x"})
        -> (tensor<?x?xf32> {graph.name = "y"}) {
      %0 = graph.exp %x : (tensor<?x?xf32>) -> tensor<?x?xf32>
      func.return %0 : tensor<?x?xf32>
    }"""
    binder = Binder(program(text), Options())
    first = binder.at({"x[0]": 2, "x[1]": 3})
    assert binder.at({}, {"x": (2, 3)}) is first
    assert binder.at({}, {"x": (2, 4)}) is not first


OPEN = """func.func @main(%x: tensor<?x4xf32> {graph.name = "x", graph.dims = ["n", ""]})
    -> (tensor<?x4xf32> {graph.name = "y"}) attributes {graph.dim_ranges = {n = array<i64: 2, 8>}} {
  %0 = graph.exp %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
  func.return %0 : tensor<?x4xf32>
}"""


def test_a_session_binds_to_the_shapes_of_its_inputs():
    made = program(OPEN)
    session = made.session(poison=True)
    for rows in (3, 2, 3):
        x = np.ones((rows, 4), np.float32)
        np.testing.assert_array_equal(session.run({"x": x})["y"], np.exp(x))
    session.fuzz_schedule({"x": np.ones((3, 4), np.float32)}, 2)
    with pytest.raises(GeError, match="dimension 'n' is 9, out of its range"):
        session.run({"x": np.ones((9, 4), np.float32)})


def test_sizes_are_numbers_ranges_or_any():
    assert parse_dims(["n=1..8", "past + 1=7"]) == {"n": Range(1, 8), "past + 1": 7}
    want = (Range(1, 10), 3, Range())
    assert parse_shapes(["x:1~10,3,-1"]) == {"x": want}
    assert shape_from("x", [(1, 10), 3, -1]) == want
    for bad in ("n=a..b", "n=1..x"):
        with pytest.raises(GeError, match="is not a number"):
            parse_dims([bad])
    for bad in ("8..7", "8~7"):
        swapped = "goes from the larger size to the smaller; write it as 7"
        with pytest.raises(GeError, match=swapped):
            parse_dims([f"n={bad}"])
        with pytest.raises(GeError, match=swapped):
            parse_shapes([f"x:{bad},3"])


def test_the_report_names_what_the_plan_does_not_hold():
    made = program(OPEN)
    memory = made.report()["memory"]
    assert "peak_bytes" not in memory
    assert memory["unknown"]["dims"] == ["n"]
    assert [t["bytes"] for t in memory["unknown"]["sizes"]] == ["16 * n", "16 * n"]
    assert memory["unknown"]["at_most"]["dims"] == {"n": 8}
    text = (
        "2 tensors of unknown size (n), 2 of them in 0.00 MiB at all sizes, arena 0.00 MiB at n=8"
    )
    assert text in made.summary("m")
    assert memory["unknown"]["placed_bytes"] == 1024


def biased(positions: str, arguments: str = "", most: str = "tensor<i64>") -> str:
    """Scores of heads and pairs of positions, to which a table's rows for distances are added."""
    return f"""func.func @main(
        %x: tensor<2x4x?x?xf32> {{graph.name = "x", graph.dims = ["", "", "n", "n"]}}{arguments})
        -> (tensor<2x4x?x?xf32> {{graph.name = "y"}}) {{
      %zero = graph.constant dense<0> : tensor<i64>
      %one = graph.constant dense<1> : tensor<i64>
      {positions}
      %r = graph.unsqueeze %p axes [0] : (tensor<?xi64>) -> tensor<1x?xi64>
      %c = graph.unsqueeze %p axes [1] : (tensor<?xi64>) -> tensor<?x1xi64>
      %d = graph.sub %r, %c : (tensor<1x?xi64>, tensor<?x1xi64>) -> tensor<?x?xi64>
      %a = graph.abs %d : (tensor<?x?xi64>) -> tensor<?x?xi64>
      %m = graph.minimum %a, %most : (tensor<?x?xi64>, {most}) -> tensor<?x?xi64>
      %t = graph.constant dense<{np.arange(64.0).reshape(16, 4).tolist()}> : tensor<16x4xf32>
      %g = graph.gather %t, %m : (tensor<16x4xf32>, tensor<?x?xi64>) -> tensor<?x?x4xf32>
      %b = graph.transpose %g permutation [2, 0, 1] : (tensor<?x?x4xf32>) -> tensor<4x?x?xf32>
      %y = graph.add %x, %b : (tensor<2x4x?x?xf32>, tensor<4x?x?xf32>) -> tensor<2x4x?x?xf32>
      func.return %y : tensor<2x4x?x?xf32>
    }}"""


COUNTED = """%most = graph.constant dense<15> : tensor<i64>
      %s = graph.shape_of %x start 2 end 3 : (tensor<2x4x?x?xf32>) -> tensor<1xi64>
      %n = graph.squeeze %s axes [0] : (tensor<1xi64>) -> tensor<i64>
      %p = graph.range %zero, %n, %one : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64>"""


@pytest.mark.parametrize(("n", "folds"), [(8, True), (128, True), (600, False)])
def test_what_sizes_alone_decide_is_computed_once(n: int, folds: bool):
    """Up to a size: then it is computed in each run."""
    modules = bound(biased(COUNTED), n=n)
    x = np.random.default_rng(0).standard_normal((2, 4, n, n)).astype(np.float32)
    same_numbers(modules, {"x": x})
    names = {op.name for op in modules[1].walk()}
    assert ("graph.gather" not in names) == folds


LARGEST = """, %p: tensor<?xi64> {graph.name = "p", graph.dims = ["n"]},
        %most: tensor<?x?xi64> {graph.name = "most", graph.dims = ["n", "n"]}"""


def biased_inputs(n: int) -> dict[str, Array]:
    x = np.random.default_rng(0).standard_normal((2, 4, n, n)).astype(np.float32)
    return {"x": x, "p": np.arange(n)[::-1].copy(), "most": np.full((n, n), 15)}


@pytest.mark.parametrize("n", [8, 64])
def test_what_has_no_program_is_several_launches(n: int):
    """A tile of the transposed value takes all rows of the largest distances."""
    modules = bound(biased("", LARGEST, "tensor<?x?xi64>"), n=n)
    same_numbers(modules, biased_inputs(n))
    assert len([op for op in modules[1].ops if isinstance(op, KernelOp)]) == 4


def test_so_it_is_in_a_gear():
    text = biased("", LARGEST, "tensor<?x?xi64>")
    gears = Program(parse_module(context(), SourceText("test", text)), {}, "test.mlir")
    lower_program(gears, Options(dynamic_dims="8,8,8,8,8;64,64,64,64,64"))
    assert not check_program(gears.module, None).problems
    for n in (8, 64):
        same_numbers((program(text).module, gears.module), biased_inputs(n))
    assert len([op for op in gears.module.ops if isinstance(op, KernelOp)]) == 8


# ---- what binding to further sizes costs


def test_bodies_whose_operands_have_the_shapes_of_before_are_kept(monkeypatch: pytest.MonkeyPatch):
    binder = Binder(compile_file(str(MODELS / "gpt2_decode.dynamic.onnx"), Options()), Options())
    made, open_ = specialized(monkeypatch), op_text(binder.program.module)
    bound = binder.at({"batch": 1, "past": 7}).module
    first = len(made)
    assert op_text(binder.program.module) == open_  # whose ops are read, not copied
    assert all(op.tiles is not None for op in bound.ops if isinstance(op, KernelOp))
    again = Binder(binder.program, Options()).at({"batch": 1, "past": 8})
    made.clear()
    grown = binder.at({"batch": 1, "past": 8})
    assert 0 < 3 * len(made) <= first  # those that read the past
    assert str(grown.module) == str(again.module)


def text_of(module: ModuleOp) -> str:
    """With locations."""
    text = StringIO()
    Printer(text, print_debuginfo=True).print_op(module)
    return text.getvalue()


def specialized(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels that are specialized from now on."""
    made: list[str] = []
    unnoted = specialize.specialize

    def noted(kernel: KernelOp, *more: Any) -> object:
        made.append(kernel.sym_name.data)
        return unnoted(kernel, *more)

    monkeypatch.setattr(specialize, "specialize", noted)
    return made


@pytest.mark.parametrize(
    "model", ["bert_base.ts", pytest.param("gpt2_decode", marks=pytest.mark.soak)]
)
def test_layers_are_alike(model: str, monkeypatch: pytest.MonkeyPatch):
    """What the kernels of one layer become, those of the others do, with constants and locations of
    their own: as if each had been looked at alone."""
    options = Options(tiles=False)  # programs of open sizes: `test_open_programs.py`
    open_ = compile_file(str(MODELS / f"{model}.dynamic.onnx"), options)
    length = "past" if model == "gpt2_decode" else "sequence"
    sizes = [{"batch": b, length: n} for b, n in ((1, 1), (1, 16), (2, 16), (4, 4), (3, 19))]
    made = specialized(monkeypatch)
    binder = Binder(open_, options)
    texts = [text_of(binder.at(each).module) for each in sizes]
    together = len(made)
    made.clear()
    monkeypatch.setattr(specialize, "keeps_constants", lambda *_: False)
    assert [text_of(Binder(open_, options).at(each).module) for each in sizes] == texts
    assert 4 * together <= 3 * len(made)


SCALED = "%{i}2 = graph.mul %x{i}, %{i}1 : (tensor<?x32xf32>, tensor<4x32xf32>) -> {x}"
CUT = """%{i}3 = graph.shape_of %x{i} end 1 : (tensor<?x32xf32>) -> tensor<1xi64>
    %{i}4 = graph.slice %{i}1 starts [0] ends %{i}3 axes [0] steps [1]
        : (tensor<4x32xf32>, tensor<1xi64>) -> {x}
    %{i}2 = graph.mul %x{i}, %{i}4 : ({x}, {x}) -> {x}"""


@pytest.mark.parametrize(
    ("lines", "n", "looked_at"), [(SCALED, 1, 3), (SCALED, 4, 3), (CUT, 3, 7), (CUT, 4, 7)]
)
def test_kernels_that_are_alike_have_their_own_constants(
    lines: str, n: int, looked_at: int, monkeypatch: pytest.MonkeyPatch
):
    """Among them ones, by which a product is its other factor at four rows; and tables of which the
    size says which part is used."""
    rng, x = np.random.default_rng(0), "tensor<?x32xf32>"
    tables = [np.ones((4, 32)), *rng.normal(size=(2, 4, 32))]
    ops, names = list[str](), ("1", "2", "3")
    for i, table in zip(names, tables, strict=True):
        data = table.astype(np.float32).tobytes().hex().upper()
        ops += [
            f'%{i}1 = graph.constant dense<"0x{data}"> : tensor<4x32xf32>',
            lines.format(i=i, x=x),
            f"%{i}5 = graph.exp %{i}2 : ({x}) -> {x}",
        ]
    args = (f'%x{i}: {x} {{graph.name = "x{i}", graph.dims = ["n{i}", ""]}}' for i in names)
    outs = ", ".join(f'{x} {{graph.name = "y{i}"}}' for i in names)
    end = f"func.return %15, %25, %35 : {x}, {x}, {x}"
    head = f"func.func @main({', '.join(args)}) -> ({outs})"
    open_ = program("\n".join((head, "{", *ops, end, "}")))
    made = specialized(monkeypatch)
    module = Binder(open_, Options()).at({f"n{i}": n for i in names}).module
    assert len(made) == looked_at
    inputs = {f"x{i}": rng.normal(size=(n, 32)).astype(np.float32) for i in names}
    same_numbers((open_.module, module), inputs)


@pytest.mark.parametrize(
    ("model", "sizes", "most"),
    [
        ("gpt2_decode", [{"batch": 1, "past": n} for n in (7, 8, 9)], 4_000),
        ("gpt2_decode", [{"batch": n, "past": 8 * n} for n in (1, 2, 3)], 6_550),
        ("bert_base.ts", [{"batch": n, "sequence": 8 * n} for n in (1, 2, 3)], 9_000),
    ],
)
def test_binding_to_further_sizes_takes_so_many_calls_a_launch(
    model: str, sizes: list[dict[str, int]], most: int
):
    binder = Binder(compile_file(str(MODELS / f"{model}.dynamic.onnx"), Options()), Options())
    *first, last = sizes
    for each in first:
        binder.at(each)
    taken = calls(lambda: binder.at(last))
    launches = binder.at(last).compilation.ops["launches"]
    assert taken <= most * launches
