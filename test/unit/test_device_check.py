"""The proof across devices: programs that are proved, and a fault for each rule of
docs/proofs.md."""

import re
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from io import StringIO
from typing import Any

import numpy as np
import pytest
from xdsl.printer import Printer

from ge.dialects.npu_task.ops import LaunchOp
from ge.dialects.support.errors import GeError
from ge.dialects.support.types import DYNAMIC
from ge.dialects.targets.target import Target
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context, lower
from ge.lowering.pipeline.options import Options
from ge.runtime.check.proof import check_program
from ge.runtime.data.weights import RandomPayload
from ge.runtime.device.random_inputs import random_inputs
from ge.runtime.device.session import Session
from ge.runtime.numbers.collectives import Member
from ge.transforms.schedule.split_launches import SplitLaunchesPass

PARTS = (
    'module attributes {graph.parts = {"up.tp" = ["up", #graph.sharding<@mesh, [{}, {"tp"}]>], '
    '"down.tp" = ["down", #graph.sharding<@mesh, [{"tp"}, {}]>]}} {\n'
    'graph.mesh @mesh ["dp"=2, "tp"=2]\n'
)
BY_DP = 'graph.sharding = #graph.sharding<@mesh, [{"dp"}, {}]>, graph.whole = array<i64: 8, 16>'
MLP = f"""{PARTS}
func.func @main(%x: tensor<4x16xf32> {{graph.name = "x", {BY_DP}}})
    -> (tensor<4x16xf32> {{graph.name = "y", {BY_DP}}}) {{
  %up = graph.constant #graph.weight<"up.tp"> : tensor<16x8xf32>
  %down = graph.constant #graph.weight<"down.tp"> : tensor<8x16xf32>
  %0 = graph.matmul %x, %up : (tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
  %1 = graph.relu %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = graph.matmul %1, %down : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %3 = graph.all_reduce sum %2 over <"tp"=2> : (tensor<4x16xf32>) -> tensor<4x16xf32>
  %4 = graph.tanh %3 : (tensor<4x16xf32>) -> tensor<4x16xf32>
  %5 = graph.relu %x : (tensor<4x16xf32>) -> tensor<4x16xf32>
  %6 = graph.all_reduce max %5 over <"tp"=2> : (tensor<4x16xf32>) -> tensor<4x16xf32>
  %7 = graph.add %4, %6 : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  return %7 : tensor<4x16xf32>
}}
}}"""

PADDED = """graph.mesh @mesh ["tp"=2]
func.func @main(%x: tensor<4x3xf32> {graph.sharding = #graph.sharding<@mesh, [{}, {"tp"}]>,
                                     graph.whole = array<i64: 4, 5>}) -> tensor<4xf32> {
  %0 = graph.axis_index over <"tp"=2> : () -> tensor<i64>
  %1 = graph.constant dense<3> : tensor<i64>
  %2 = graph.mul %0, %1 : (tensor<i64>, tensor<i64>) -> tensor<i64>
  %3 = graph.constant dense<[0, 1, 2]> : tensor<3xi64>
  %4 = graph.add %2, %3 : (tensor<i64>, tensor<3xi64>) -> tensor<3xi64>
  %5 = graph.constant dense<5> : tensor<i64>
  %6 = graph.compare lt %4, %5 : (tensor<3xi64>, tensor<i64>) -> tensor<3xi1>
  %7 = graph.constant dense<0.0> : tensor<f32>
  %8 = graph.select %6, %x, %7 : (tensor<3xi1>, tensor<4x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %9 = graph.reduce sum %8 axes [1] keep_dims false : (tensor<4x3xf32>) -> tensor<4xf32>
  %y = graph.all_reduce sum %9 over <"tp"=2> : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}"""

HALO = """graph.mesh @mesh ["tp"=4]
func.func @main(%x: tensor<4x8xf32> {graph.sharding = #graph.sharding<@mesh, [{"tp"}, {}]>,
                                     graph.whole = array<i64: 16, 8>})
    -> (tensor<4x8xf32> {graph.sharding = #graph.sharding<@mesh, [{"tp"}, {}]>,
                         graph.whole = array<i64: 16, 8>}) {
  %0 = graph.exchange %x shape [16, 8] has <@mesh, [{"tp":(1)4}, {}]>
      needs <["tp"=4 * 4 + -1 : 4], [0 : 8]> fill 0.0 : f32 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = graph.add %0, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}"""

BRANCH = """graph.mesh @mesh ["tp"=2]
func.func @main(%c: tensor<1xi1> {graph.sharding = #graph.sharding<@mesh, [{}]>,
                                  graph.whole = array<i64: 1>},
                %x: tensor<4xf32>) -> tensor<4xf32> {
  %s = graph.reshape %c shape [] : (tensor<1xi1>) -> tensor<i1>
  %y = graph.if %s : (tensor<i1>) -> tensor<4xf32> {
    %0 = graph.all_reduce max %x over <"tp"=2> : (tensor<4xf32>) -> tensor<4xf32>
    graph.yield %0 : tensor<4xf32>
  } else {
    graph.yield %x : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}"""

# A transposition of dimensions that have one element on a device is not in its program
TURNED = """graph.mesh @mesh ["a"=2, "b"=4]
func.func @main(%x: tensor<2x1x1x2xf32> {graph.whole = array<i64: 2, 4, 2, 2>,
                    graph.sharding = #graph.sharding<@mesh, [{}, {"b"}, {"a"}, {}]>})
    -> (tensor<2x1x1x2xf32> {graph.whole = array<i64: 2, 2, 4, 2>,
                    graph.sharding = #graph.sharding<@mesh, [{}, {"a"}, {"b"}, {}]>}) {
  %0 = graph.relu %x : (tensor<2x1x1x2xf32>) -> tensor<2x1x1x2xf32>
  %1 = graph.transpose %0 permutation [0, 2, 1, 3] : (tensor<2x1x1x2xf32>) -> tensor<2x1x1x2xf32>
  return %1 : tensor<2x1x1x2xf32>
}"""

# Terms of two sums in one buffer, and a dimension whose one element is a term
TERMS = """module attributes {graph.unseen = {combined = #graph.axes<"tp"=2>}} {
graph.mesh @mesh ["tp"=2]
func.func @main(%x: tensor<1x4x8xf32> {graph.whole = array<i64: 2, 4, 8>,
                    graph.sharding = #graph.sharding<@mesh, [{"tp"}, {}, {}]>},
                %k: tensor<4x4xf32> {graph.whole = array<i64: 4, 8>,
                    graph.sharding = #graph.sharding<@mesh, [{}, {"tp"}]>},
                %w: tensor<4x8xf32> {graph.whole = array<i64: 8, 8>,
                    graph.sharding = #graph.sharding<@mesh, [{"tp"}, {}]>}) -> tensor<64xf32> {
  %0 = graph.reshape %x shape [4, 8] : (tensor<1x4x8xf32>) -> tensor<4x8xf32>
  %1 = graph.matmul %k, %w : (tensor<4x4xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = graph.add %0, %1 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = graph.neg %1 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %4 = graph.reshape PART shape [32] : (tensor<4x8xf32>) -> tensor<32xf32>
  %5 = graph.reshape %3 shape [32] : (tensor<4x8xf32>) -> tensor<32xf32>
  %6 = graph.concat %4, %5 axis 0 : (tensor<32xf32>, tensor<32xf32>) -> tensor<64xf32>
  %7 = graph.all_reduce sum %6 over <"tp"=2> : (tensor<64xf32>) -> tensor<64xf32>
  return %7 : tensor<64xf32>
}
}"""

# The first part of a dimension of one element is all of it
FIRST = """graph.mesh @mesh ["tp"=2]
func.func @main(%x: tensor<4x1xf32> {graph.whole = array<i64: 4, 1>,
                    graph.sharding = #graph.sharding<@mesh, [{}, {}]>}) -> tensor<4x1xf32> {
  %0 = graph.exchange %x shape [4, 1] has <@mesh, [{}, {"tp":(1)2}]>
      needs <[0 : 4], ["tp"=2 * 1 : 1]> : (tensor<4x1xf32>) -> tensor<4x1xf32>
  return %0 : tensor<4x1xf32>
}"""

# Groups are numbers of the first dimensions of a result
GROUPED = """graph.mesh @mesh ["tp"=2]
func.func @main(%x: tensor<1x2x2xf32> {graph.whole = array<i64: 2, 2, 2>,
                    graph.sharding = #graph.sharding<@mesh, [{"tp"}, {}, {}]>},
                %w: tensor<3x2x1xf32> {graph.whole = array<i64: 3, 2, 1>,
                    graph.sharding = #graph.sharding<@mesh, [{}, {}, {}]>},
                %g: tensor<1xi64> {graph.whole = array<i64: 2>,
                    graph.sharding = #graph.sharding<@mesh, [{"tp"}]>}) -> tensor<2x2x1xf32> {
  %0 = graph.grouped_matmul %x, %w groups %g
      : (tensor<1x2x2xf32>, tensor<3x2x1xf32>, tensor<1xi64>) -> tensor<1x2x1xf32>
  %1 = graph.all_gather %0 dim 0 over <"tp"=2> : (tensor<1x2x1xf32>) -> tensor<2x2x1xf32>
  return %1 : tensor<2x2x1xf32>
}"""

# Of no bytes an acknowledgement does not say of which collective it is, and there are no parts
EMPTY = """graph.mesh @mesh ["tp"=2]
func.func @main(%x: tensor<0x4xf32>, %y: tensor<2x4xf32>) -> (tensor<0x8xf32>, tensor<0x8xf32>) {
  %0 = graph.all_reduce sum %x over <"tp"=2> : (tensor<0x4xf32>) -> tensor<0x4xf32>
  %1 = graph.all_gather %x dim 1 over <"tp"=2> : (tensor<0x4xf32>) -> tensor<0x8xf32>
  %2 = graph.all_gather %0 dim 1 over <"tp"=2> : (tensor<0x4xf32>) -> tensor<0x8xf32>
  return %1, %2 : tensor<0x8xf32>, tensor<0x8xf32>
}"""


def compiled(text: str, fusion: str = "off", pad: bool = False) -> str:
    module = parse_module(context(), SourceText("test.mlir", text))
    lower(module, Options(tiles=False, verify=False, fusion=fusion, pad=pad))
    out = StringIO()
    Printer(out).print_op(module)
    return out.getvalue()


def rules(program: str) -> dict[str, str]:
    """The rules that a program breaks, and what is said of each."""
    module = parse_module(context(), SourceText("p", program))
    found = check_program(module, with_tiles=False).problems
    return {p.rule: p.text for p in reversed(found)}


def refused(program: str) -> str:
    """What is said of a program that does not run, whether or not it is to be proved."""
    with pytest.raises(GeError) as error:
        Session(parse_module(context(), SourceText("p", program)), sanitize=False)
    return str(error.value)


@pytest.fixture(scope="module")
def mlp() -> str:
    return compiled(MLP)


def line_of(program: str, launch: str) -> str:
    return next(li for li in program.splitlines(True) if f"npu_task.launch @{launch} " in li)


def after(program: str, first: str, second: str) -> str:
    """The program with one line behind another one."""
    return program.replace(first, "", 1).replace(second, second + first, 1)


@pytest.mark.parametrize(
    "text", [MLP, PADDED, HALO, BRANCH, TURNED, TERMS.replace("PART", "%2"), GROUPED, FIRST, EMPTY]
)
def test_programs_are_proved(text: str):
    assert rules(compiled(text)) == {}


@pytest.mark.parametrize("axes", ['"tp"=4', '"qq"=2', '"tp"=2, "tp"=2'])
def test_d2_collectives_are_of_axes_of_the_mesh(mlp: str, axes: str):
    program = mlp.replace('over <"tp"=2>', f"over <{axes}>")
    found = rules(program)
    assert list(found) == ["D2"]
    assert found["D2"] in refused(program)


def test_d2_a_launch_is_a_collective_alone(mlp: str):
    t, start = "tensor<4x16xf32>", "npu_task.kernel @all_reduce_0 on comm {"
    before, kernel = mlp.split(start)
    behind = kernel.split("npu_task.return %1", 1)[1]
    region = f"""
  ^bb0(%0: {t}):
    %1 = fused_op.region(%0) : ({t}) -> {t} {{
    ^bb0(%2: {t}):
      %3 = graph.exp %2 : ({t}) -> {t}
      %4 = graph.all_reduce sum %3 over <"tp"=2> algorithm mesh : ({t}) -> {t}
      fused_op.yield %4 : {t}
    }}
    """
    program = f"{before}{start}{region}npu_task.return %1{behind}"
    text = rules(program)["D2"]
    assert "one collective and no more, not graph.exp, graph.all_reduce" in text
    assert text in refused(program)


def test_d3_conditions_are_the_same_on_devices_that_meet_behind_them():
    program = compiled(BRANCH).replace('[{}]>, graph.whole = array<i64: 1>', '[{"tp"}]>, '
                                       "graph.whole = array<i64: 2>")  # fmt: skip
    assert "differs along tp" in rules(program)["D3"]


def test_d11_what_is_written_behind_a_condition_differs_as_it_does():
    whole = "{graph.sharding = #graph.sharding<@mesh, [{}]>, graph.whole = array<i64: 4>}"
    text = BRANCH.replace('graph.all_reduce max %x over <"tp"=2>', "graph.relu %x")
    text = text.replace("-> tensor<4xf32> {\n  %s", f"-> (tensor<4xf32> {whole}) {{\n  %s")
    program = compiled(text)
    assert rules(program) == {}
    cut = program.replace(
        "[{}]>, graph.whole = array<i64: 1>", '[{"tp"}]>, graph.whole = array<i64: 2>'
    )
    assert "not the same on devices along tp" in rules(cut)["D11"]


def test_d4_acknowledgements_come_after_their_collective(mlp: str):
    line = line_of(mlp, "all_reduce_0")
    assert "D4" in rules(after(mlp, line, line_of(mlp, "acknowledge_0")))


def test_d5_collectives_are_in_one_order_on_all_devices(mlp: str):
    line = line_of(mlp, "all_reduce_1")
    assert "D5" in rules(mlp.replace(line, line.replace(" on 5 ", " on 4 ")))


def acknowledged_late(mlp: str) -> str:
    """Without the order of an acknowledgement before the task behind it."""
    ack = line_of(mlp, "acknowledge_0")
    record = next(li for li in mlp[mlp.index(ack) :].splitlines(True) if "npu_task.record" in li)
    return after(mlp, ack, record)


def test_d8_results_keep_what_they_hold_until_all_have_read_it(mlp: str):
    assert "before all devices" in rules(acknowledged_late(mlp))["D8"]
    without = mlp.replace(line_of(mlp, "acknowledge_0"), "")
    assert "has no acknowledgement" in rules(without)["D8"]


def test_d6_sources_keep_what_they_hold_until_all_have_read_it(mlp: str):
    """Their last user in the program may be over, and its memory not yet be free."""
    source = re.search(r"ins\((%\d+)", line_of(mlp, "all_reduce_0"))
    target = re.search(r"outs\((%\d+)", line_of(mlp, "tanh_0"))
    assert source is not None
    assert target is not None
    tanh = line_of(mlp, "tanh_0")
    program = acknowledged_late(mlp.replace(tanh, tanh.replace(
        f"outs({target[1]}", f"outs({source[1]}")))  # fmt: skip
    assert "D6" in rules(program)


def test_d7_nobody_touches_a_result_before_it_is_there(mlp: str):
    tanh = line_of(mlp, "tanh_0")
    waits = mlp[: mlp.index(tanh)].splitlines(True)[-1]
    assert "npu_task.wait" in waits
    assert "D7" in rules(mlp.replace(waits + tanh, tanh))


def test_d9_memory_of_collectives_lies_at_one_place_on_all_devices(mlp: str):
    name = re.search(r"outs\((%\d+)", line_of(mlp, "all_reduce_0"))
    assert name is not None
    program = re.sub(rf"{name[1]} = npu_task.slot \w+ \d+ ", f"{name[1]} = memref.alloc() ", mlp)
    assert "D9" in rules(program)


ANY_BATCH = """
graph.mesh @mesh ["tp"=4]
func.func @main(%x: tensor<?x16xf32> {graph.name = "x", graph.dims = ["b", ""],
      graph.sharding = #graph.sharding<@mesh, [{}, {"tp"}]>, graph.whole = array<i64: UNKNOWN, 64>})
    -> (tensor<?x64xf32> {graph.name = "y",
      graph.sharding = #graph.sharding<@mesh, [{}, {}]>, graph.whole = array<i64: UNKNOWN, 64>}) {
  %0 = graph.tanh %x : (tensor<?x16xf32>) -> tensor<?x16xf32>
  %1 = graph.all_gather %0 dim 1 over <"tp"=4> : (tensor<?x16xf32>) -> tensor<?x64xf32>
  %2 = graph.softmax %1 axis 1 : (tensor<?x64xf32>) -> tensor<?x64xf32>
  func.return %2 : tensor<?x64xf32>
}
""".replace("UNKNOWN", str(DYNAMIC))
BY_DATA = """
graph.mesh @mesh ["tp"=4]
func.func @main(%x: tensor<16xf32> {graph.name = "x",
      graph.sharding = #graph.sharding<@mesh, [{"tp"}]>, graph.whole = array<i64: 64>})
    -> (tensor<1x?xi64> {graph.name = "y",
      graph.sharding = #graph.sharding<@mesh, [{}, {}]>, graph.whole = array<i64: 1, UNKNOWN>}) {
  %0 = graph.nonzero %x : (tensor<16xf32>) -> tensor<1x?xi64>
  %1 = graph.all_reduce max %0 over <"tp"=4> : (tensor<1x?xi64>) -> tensor<1x?xi64>
  func.return %1 : tensor<1x?xi64>
}
""".replace("UNKNOWN", str(DYNAMIC))


def test_d9_what_devices_allocate_is_of_one_size_where_arguments_say_it():
    """They do so in the order of the program. Others read it until they have acknowledged, as
    elsewhere; and where data say the size, or an argument is cut along it, it may differ."""
    program = compiled(ANY_BATCH)
    assert rules(program) == {}
    assert rules(compiled(ANY_BATCH.replace(', graph.dims = ["b", ""]', ""))) == {}
    gone = program.replace(line_of(program, "acknowledge_0"), "")
    assert list(rules(gone)) == ["D8"]
    cut = program.replace('[{}, {"tp"}]', '[{"tp"}, {"tp"}]')
    assert "D9" in rules(cut)
    assert "D9" in rules(compiled(BY_DATA))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("tp:(1)4}, {}", "tp:(2)2, tp:(1)2}, {}", "and not cut by"),
        (" fill 0.000000e+00 : f32", "", "nothing is said"),
        ("+ -1 : 4", "+ -40 : 4", "no device gets an element"),
    ],
)
def test_d10_boxes_are_of_what_devices_have(old: str, new: str, message: str):
    program = compiled(HALO)
    old, new = old.replace("tp", '"tp"'), new.replace("tp", '"tp"')
    assert old in program
    assert message in rules(program.replace(old, new))["D10"]


def test_d11_parts_of_which_one_dimension_may_be_another_one():
    """What is sent says which one it is."""
    by_last = '[{}, {}, {"a"}]>, graph.whole = array<i64: 2, 4, 4>'
    by_two = '[{}, {"a":(1)4}, {}, {}]>, graph.whole = array<i64: 2, 4, 1, 4>'
    program = compiled(f"""graph.mesh @mesh ["a"=4]
func.func @main(%x: tensor<2x4x1xf32> {{graph.sharding = #graph.sharding<@mesh, {by_last}}})
    -> (tensor<2x1x1x4xf32> {{graph.sharding = #graph.sharding<@mesh, {by_two}}}) {{
  %0 = graph.reshape %x shape [2, 4, 1, 1] : (tensor<2x4x1xf32>) -> tensor<2x4x1x1xf32>
  %1 = graph.all_to_all %0 shape [2, 4, 1, 4] has <@mesh, [{{}}, {{}}, {{}}, {{"a":(1)4}}]>
      to <@mesh, [{{}}, {{"a":(1)4}}, {{}}, {{}}]> : (tensor<2x4x1x1xf32>) -> tensor<2x1x1x4xf32>
  return %1 : tensor<2x1x1x4xf32>
}}""")
    assert rules(program) == {}
    other = program.replace('to <@mesh, [{}, {"a":(1)4}', 'to <@mesh, [{}, {"a":(2)2, "a":(1)2}')
    assert "cut by a, and it is cut by a" in rules(other)["D11"]


def test_d11_parts_by_the_place_are_of_what_devices_along_it_all_have():
    program = compiled("""graph.mesh @mesh ["a"=4]
func.func @main(%x: tensor<4x2xf32> {graph.sharding = #graph.sharding<@mesh, [{"a":(1)2}, {}]>,
                                     graph.whole = array<i64: 8, 2>})
    -> (tensor<2x2xf32> {graph.sharding = #graph.sharding<@mesh, [{"a"}, {}]>,
                         graph.whole = array<i64: 8, 2>}) {
  %0 = graph.axis_index over <"a":(2)2> : () -> tensor<i64>
  %1 = graph.constant dense<2> : tensor<i64>
  %2 = graph.mul %0, %1 : (tensor<i64>, tensor<i64>) -> tensor<i64>
  %3 = graph.constant dense<[0, 1]> : tensor<2xi64>
  %4 = graph.add %2, %3 : (tensor<i64>, tensor<2xi64>) -> tensor<2xi64>
  %5 = graph.gather %x, %4 : (tensor<4x2xf32>, tensor<2xi64>) -> tensor<2x2xf32>
  return %5 : tensor<2x2xf32>
}""")
    assert rules(program) == {}
    other = program.replace('[{"a":(1)2}', '[{"a":(2)2}')
    assert "what is left is in no part" in rules(other)["D11"]


def test_d10_heads_that_become_columns_are_cut_as_these():
    """Heads are the major part of what they become in a view."""
    heads = '[{}, {}, {"a"}, {}]>, graph.whole = array<i64: 1, 8, 8, 3>'
    program = compiled(f"""graph.mesh @mesh ["a"=4]
func.func @main(%x: tensor<1x8x2x3xf32> {{graph.sharding = #graph.sharding<@mesh, {heads}}})
    -> (tensor<1x2x24xf32> {{graph.sharding = #graph.sharding<@mesh, [{{}}, {{"a"}}, {{}}]>,
                            graph.whole = array<i64: 1, 8, 24>}}) {{
  %0 = graph.reshape %x shape [1, 8, 6] : (tensor<1x8x2x3xf32>) -> tensor<1x8x6xf32>
  %1 = graph.all_to_all %0 shape [1, 8, 24] has <@mesh, [{{}}, {{}}, {{"a":(1)4}}]>
      to <@mesh, [{{}}, {{"a":(1)4}}, {{}}]> : (tensor<1x8x6xf32>) -> tensor<1x2x24xf32>
  return %1 : tensor<1x2x24xf32>
}}""")
    assert rules(program) == {}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("array<i64: 8, 16>", "array<i64: 10, 16>", "do not tile"),
        ('{"dp"}, {}', '{"tp"}, {}', ""),
        ('[{"dp"}, {}]', '[{"dp"}]', "another number of dimensions"),
    ],
)
def test_d11_parts_tile_what_they_are_parts_of(mlp: str, old: str, new: str, message: str):
    assert old in mlp
    assert message in rules(mlp.replace(old, new, 1))["D11"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("all_reduce sum", "all_reduce max", "combines by max"),
        (
            'all_reduce sum %0 over <"tp"=2>',
            'all_reduce sum %0 over <"dp"=2>',
            "before they are combined",
        ),
        ('[{"tp"}, {}]', "[{}, {}]", "is the same on all devices: no parts of a sum"),
    ],
)
def test_d12_terms_of_a_sum_are_combined_once(mlp: str, old: str, new: str, message: str):
    assert old in mlp
    assert message in rules(mlp.replace(old, new, 1))["D12"]


@pytest.mark.parametrize(
    ("data", "refused"),
    [("graph.constant dense<0.0>", False), ("graph.constant dense<1.0>", True),
     ("graph.relu %x : (tensor<4x2xf32>) ->", True)],
)  # fmt: skip
def test_d12_parts_of_a_sum_are_added_to_zeros(data: str, refused: bool):
    form = "" if "relu" in data else ":"
    program = compiled(f"""graph.mesh @mesh ["tp"=2]
func.func @main(%x: tensor<4x2xf32>, %i: tensor<4x1xi64> {{graph.whole = array<i64: 8, 1>,
                    graph.sharding = #graph.sharding<@mesh, [{{"tp"}}, {{}}]>}},
                %u: tensor<4x2xf32> {{graph.whole = array<i64: 8, 2>,
                    graph.sharding = #graph.sharding<@mesh, [{{"tp"}}, {{}}]>}})
    -> tensor<4x2xf32> {{
  %z = {data} {form} tensor<4x2xf32>
  %0 = graph.scatter_nd %z, %i, %u reduction add
      : (tensor<4x2xf32>, tensor<4x1xi64>, tensor<4x2xf32>) -> tensor<4x2xf32>
  %1 = graph.all_reduce sum %0 over <"tp"=2> : (tensor<4x2xf32>) -> tensor<4x2xf32>
  return %1 : tensor<4x2xf32>
}}""")
    assert ("these count several times" in rules(program).get("D12", "")) == refused


def test_d12_terms_of_several_sums_in_one_buffer():
    program = compiled(TERMS.replace("PART", "%1"))
    assert rules(program) == {}
    assert "combines by max" in rules(program.replace("all_reduce sum", "all_reduce max"))["D12"]


ALIKE = """
func.func @main(%x: tensor<8x16xf32> {graph.name = "x"}) -> (tensor<8x16xf32> {graph.name = "y"}) {
  %up = graph.constant dense<0.5> : tensor<16x64xf32>
  %down = graph.constant dense<0.25> : tensor<64x16xf32>
  %0 = graph.matmul %x, %up : (tensor<8x16xf32>, tensor<16x64xf32>) -> tensor<8x64xf32>
  %h = graph.relu %0 : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %1 = graph.matmul %h, %down : (tensor<8x64xf32>, tensor<64x16xf32>) -> tensor<8x16xf32>
  func.return %1 : tensor<8x16xf32>
}
"""


def test_d12_parts_of_equal_elements_are_summed_once():
    """Weights of which all elements are equal do not show that a device has a part of them."""
    shard = '{"x": [["dp"]], "up": [[], ["tp"]], "down": [["tp"]], "y": [["dp"]]}'
    module = parse_module(context(), SourceText("alike.mlir", ALIKE))
    lower(module, Options(mesh="dp=2,tp=4", shard=shard), until="graph")
    Printer(out := StringIO()).print_op(module)
    program = out.getvalue()
    assert rules(compiled(program)) == {}
    most = program.replace("all_reduce sum", "all_reduce max")
    assert "may be terms" in rules(compiled(most))["D12"]
    line = next(li for li in program.splitlines() if "graph.all_reduce" in li)
    result, value = re.findall(r"%\w+", line)
    twice = line.replace(f"{result} =", "%twice =").replace(f" {value} over", f" {result} over")
    again = program.replace(line, f"{line}\n{twice}").replace(f"return {result}", "return %twice")
    assert "counted again" in rules(compiled(again))["D12"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("select %6, %x, %7", "select %6, %x, %x"),
        ("dense<0.0>", "dense<1.0>"),
        ("dense<5>", "dense<6>"),
    ],
)
def test_d13_what_stands_behind_the_last_element_gets_into_no_sum(old: str, new: str):
    text = PADDED.replace(old, new)
    if "%x, %x" in new:
        text = text.replace("tensor<4x3xf32>, tensor<f32>)", "tensor<4x3xf32>, tensor<4x3xf32>)")
    assert "gets into its sum" in rules(compiled(text))["D13"]


def test_d14_a_program_of_many_devices_fits_into_each(mlp: str):
    module = parse_module(context(), SourceText("p", mlp))
    small = replace(Target.load(), hbm_bytes=1000)
    problems = check_program(module, small, with_tiles=False).problems
    assert [p.rule for p in problems] == ["D14"]


@pytest.mark.parametrize("text", [MLP, PADDED, HALO])
def test_d15_bytes_that_collectives_bring(text: str, monkeypatch: pytest.MonkeyPatch):
    """As stated, and as counted while the program runs: each way of a sum brings the parts of
    others."""
    program = compiled(text)
    (stated,) = re.findall(r"npu_task.received_bytes = (\d+)", program)
    other = program.replace(f"received_bytes = {stated}", f"received_bytes = {int(stated) + 4}")
    assert list(rules(other)) == ["D15"]
    received: Counter[int] = Counter()

    @contextmanager
    def counting(self: Member, what: str, group: Any, sends: Any, wants: Any, like: Any) -> Any:
        with swap(self, what, group, sends, wants, like) as found:
            received[self.device] += sum(a.nbytes for a in found.values())
            yield found

    swap = Member.swap
    monkeypatch.setattr(Member, "swap", counting)
    module = parse_module(context(), SourceText("p", program))
    session = Session(module, RandomPayload(parse_module(context(), SourceText("p", text))))
    session.run(random_inputs(module))
    assert max(received.values()) == int(stated)


DRAWN = """graph.mesh @mesh ["tp"=2]
func.func @main(%s: tensor<2xi64> {graph.name = "s", SEED}) -> (tensor<4xf32> {PARTS}) {
  %0 = graph.random_uniform f32, %s shape [8] : (tensor<2xi64>) -> tensor<8xf32>
  %1 = graph.relu %0 : (tensor<8xf32>) -> tensor<8xf32>
  %2 = graph.exchange %1 shape [8] has <@mesh, [{}]> needs <["tp"=2 * 4 : 4]>
      : (tensor<8xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}"""
SEED = "graph.sharding = #graph.sharding<@mesh, [{}]>, graph.whole = array<i64: 2>"
SEEDS = SEED.replace("{}", '{"tp"}').replace(": 2", ": 4")
OF_ALL = 'graph.sharding = #graph.sharding<@mesh, [{"tp"}]>, graph.whole = array<i64: 8>'


def test_d17_random_numbers_are_those_of_one_device():
    text = DRAWN.replace("PARTS", OF_ALL)
    assert rules(compiled(text.replace("SEED", SEED))) == {}
    assert "draws by seeds" in rules(compiled(text.replace("SEED", SEEDS)))["D17"]
    parts = text.replace("SEED", SEED).replace("shape [8] : ", "shape [4] : ")
    parts = re.sub(r"  %2 = .*\n.*\n", "", parts).replace("%2", "%1").replace("<8xf32>", "<4xf32>")
    assert "the same random numbers" in rules(compiled(parts))["D17"]


def test_random_timings_of_devices_see_memory_that_is_given_back_too_early():
    """Others read what a device has brought when that one is far ahead."""
    text = """graph.mesh @mesh ["tp"=4]
func.func @main(%x: tensor<8xf32> {graph.name = "x", graph.whole = array<i64: 32>,
                                   graph.sharding = #graph.sharding<@mesh, [{"tp"}]>})
    -> (tensor<8xf32> {graph.name = "y"}) {
  %0 = graph.tanh %x : (tensor<8xf32>) -> tensor<8xf32>
  %1 = graph.all_reduce sum %0 over <"tp"=4> : (tensor<8xf32>) -> tensor<8xf32>
  %2 = graph.exp %1 : (tensor<8xf32>) -> tensor<8xf32>
  %3 = graph.all_reduce max %2 over <"tp"=4> : (tensor<8xf32>) -> tensor<8xf32>
  return %3 : tensor<8xf32>
}"""
    module = parse_module(context(), SourceText("p", text))
    lower(module, Options(tiles=False, verify=False, fusion="off"))
    given = {"x": np.arange(32, dtype=np.float32) / 32}
    Session(module, {}).fuzz_schedule(given, 8)
    launches = [op for op in module.walk() if isinstance(op, LaunchOp)]
    acks = [op for op in launches if "ack" in op.callee]
    exp = next(op for op in launches if op.callee == "exp_0")
    exp.outs[0].replace_all_uses_with(acks[0].ins[0])  # what is written where the terms are
    for ack in acks:
        ack.detach()
    with pytest.raises(GeError, match="other bits in random timing"):
        Session(module, {}, sanitize=False).fuzz_schedule(given, 8)


IMAGE = """graph.mesh @mesh ["tp"=2]
func.func @main(%x: tensor<1x2x4x4xf32> {
                    graph.sharding = #graph.sharding<@mesh, [{}, {}, {"tp"}, {}]>,
                    graph.whole = array<i64: 1, 2, 8, 4>},
                %w: tensor<2x2x3x1xf32>)
    -> (tensor<1x2xROWSx4xf32> {graph.sharding = #graph.sharding<@mesh, [{}, {}, {"tp"}, {}]>,
                             graph.whole = array<i64: 1, 2, WHOLE, 4>}) {
  %0 = graph.exchange %x shape [1, 2, 8, 4] has <@mesh, [{}, {}, {"tp":(1)2}, {}]>
      needs <[0 : 1], [0 : 2], ["tp"=2 * 4 + BEGIN : SIZE], [0 : 4]> fill 0.0 : f32
      : (tensor<1x2x4x4xf32>) -> tensor<1x2xSIZEx4xf32>
  %y = graph.OP : (tensor<1x2xSIZEx4xf32>ALSO) -> tensor<1x2xROWSx4xf32>
  return %y : tensor<1x2xROWSx4xf32>
}"""


def image(op: str, begin: int, size: int, rows: int) -> str:
    """A program in which each device has so many elements of rows, and makes others of them."""
    also = ", tensor<2x2x3x1xf32>" if "%w" in op else ""
    text = IMAGE.replace("OP", op).replace("ALSO", also).replace("WHOLE", str(2 * rows))
    return text.replace("BEGIN", str(begin)).replace("SIZE", str(size)).replace("ROWS", str(rows))


@pytest.mark.parametrize(
    ("op", "begin", "size", "rows"),
    [
        ("conv %0, %w", -1, 6, 4),
        ("conv %0, %w strides [2, 1]", -1, 5, 2),
        ("conv_transpose %0, %w strides [2, 1] pads [3, 0, 2, 0]", -1, 6, 8),
        ("pool max %0 kernel [2, 1] strides [2, 1]", 0, 4, 2),
        ("slice %0 starts [1] ends [5] axes [2]", -1, 6, 4),
        ("softmax %0 axis 3", 0, 4, 4),
    ],
)
def test_windows_of_parts_are_those_of_the_whole(op: str, begin: int, size: int, rows: int):
    assert rules(compiled(image(op, begin, size, rows))) == {}


@pytest.mark.parametrize(
    ("op", "begin", "size", "rows", "message"),
    [
        ("conv %0, %w pads [1, 0, 1, 0]", 0, 4, 4, "1 first and 1 last elements"),
        ("conv %0, %w pads [2, 0, 0, 0]", -1, 4, 4, "2 first and 0 last"),
        ("conv %0, %w", -1, 5, 3, "4 elements apart"),
        ("conv %0, %w strides [3, 1]", -1, 6, 2, "windows are 3 elements apart, and parts 4"),
        ("conv_transpose %0, %w strides [2, 1]", 0, 4, 9, "1 first and 1 last"),
        ("conv_transpose %0, %w strides [2, 1] pads [1, 0, 0, 0]", 0, 4, 8, "last elements"),
        ("pool max %0 kernel [2, 1] strides [1, 1] pads [0, 0, 1, 0]", 0, 4, 4, "1 last"),
        ("pad %0 pads [1, 1] axes [2]", 0, 4, 6, "1 first and 1 last"),
        ("slice %0 starts [0] ends [3] axes [2]", 0, 4, 3, "4 elements apart"),
        ("softmax %0 axis 2", 0, 4, 4, "has a part of each row"),
        ("resize %0 sizes [1, 2, 8, 4] mode linear", 0, 4, 8, "has a part of each row"),
    ],
)
def test_d19_ops_compute_parts_of_what_they_compute_of_the_whole(
    op: str, begin: int, size: int, rows: int, message: str
):
    assert message in rules(compiled(image(op, begin, size, rows)))["D19"]


def test_d11_parts_of_chunks_are_gathered_in_their_order():
    """A chunk has a dimension of its own for devices, which comes and goes in views."""
    program = compiled("""graph.mesh @mesh ["a"=4]
func.func @main(%x: tensor<1x2x16xf32> {graph.sharding = #graph.sharding<@mesh, [{"a"}, {}, {}]>,
                                        graph.whole = array<i64: 4, 2, 16>}) -> tensor<4x2x16xf32> {
  %0 = graph.reshape %x shape [2, 16] : (tensor<1x2x16xf32>) -> tensor<2x16xf32>
  %1 = graph.tanh %0 : (tensor<2x16xf32>) -> tensor<2x16xf32>
  %2 = graph.reshape %1 shape [1, 2, 16] : (tensor<2x16xf32>) -> tensor<1x2x16xf32>
  %3 = graph.all_gather %2 dim 0 over <"a"=4> : (tensor<1x2x16xf32>) -> tensor<4x2x16xf32>
  return %3 : tensor<4x2x16xf32>
}""")
    assert rules(program) == {}
    other = program.replace('[{"a"}, {}, {}]', '[{"a":(2)2, "a":(1)2}, {}, {}]')
    assert "in another order" in rules(other)["D11"]


def test_d10_parts_of_chunks_are_sent_as_those_of_the_order_in_which_they_are():
    """Whether one or two rows of a chunk are cut, the devices' digits stand in their order."""
    program = compiled("""graph.mesh @mesh ["a"=4]
func.func @main(%x: tensor<1x2x16xf32> {graph.sharding = #graph.sharding<@mesh, [{"a"}, {}, {}]>,
                                        graph.whole = array<i64: 4, 2, 16>})
    -> (tensor<4x2x4xf32> {graph.sharding = #graph.sharding<@mesh, [{}, {}, {"a"}]>,
                           graph.whole = array<i64: 4, 2, 16>}) {
  %0 = graph.reshape %x shape [2, 16] : (tensor<1x2x16xf32>) -> tensor<2x16xf32>
  %1 = graph.tanh %0 : (tensor<2x16xf32>) -> tensor<2x16xf32>
  %2 = graph.reshape %1 shape [1, 2, 16] : (tensor<2x16xf32>) -> tensor<1x2x16xf32>
  %3 = graph.all_to_all %2 shape [4, 2, 16] has <@mesh, [{"a":(1)4}, {}, {}]>
      to <@mesh, [{}, {}, {"a":(1)4}]> : (tensor<1x2x16xf32>) -> tensor<4x2x4xf32>
  return %3 : tensor<4x2x4xf32>
}""")
    assert rules(program) == {}
    other = program.replace('has <@mesh, [{"a":(1)4}', 'has <@mesh, [{"a":(2)2, "a":(1)2}')
    assert "not cut by a" in rules(other)["D10"]


def test_d19_elements_that_are_none_of_the_whole_stay_so_in_other_shapes():
    columns = '[{}, {}, {}, {"a"}]>, graph.whole = array<i64: 1, 2, 4, 8>'
    rows = '[{}, {}, {}, {"a"}]>, graph.whole = array<i64: 1, 2, 8, 8>'
    text = f"""graph.mesh @mesh ["a"=2]
func.func @main(%x: tensor<1x2x4x4xf32> {{graph.sharding = #graph.sharding<@mesh, {columns}}})
    -> (tensor<1x2x8x4xf32> {{graph.sharding = #graph.sharding<@mesh, {rows}}}) {{
  %0 = graph.pool max %x kernel [1, 1] strides [1, 1] pads [0, 0, 0, 0]
      : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  %1 = graph.reshape %0 shape [1, 2, 4, 1, 4] : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x1x4xf32>
  %2 = graph.broadcast_to %1 shape [1, 2, 4, 2, 4]
      : (tensor<1x2x4x1x4xf32>) -> tensor<1x2x4x2x4xf32>
  %3 = graph.reshape %2 shape [1, 2, 8, 4] : (tensor<1x2x4x2x4xf32>) -> tensor<1x2x8x4xf32>
  return %3 : tensor<1x2x8x4xf32>
}}"""
    assert rules(compiled(text)) == {}
    wide = text.replace("kernel [1, 1]", "kernel [1, 3]")
    wide = wide.replace("pads [0, 0, 0, 0]", "pads [0, 1, 0, 1]")
    assert "1 first and 1 last elements" in rules(compiled(wide))["D19"]


@pytest.mark.parametrize("first", [12, 13])
def test_d11_values_in_rows_that_are_scattered_together(first: int):
    """Each is scattered as if it were alone; what is none of them differs as they do."""
    cut = f'[{{"a"}}, {{}}]>, graph.whole = array<i64: 2, {20 - first}>'
    program = compiled(f"""graph.mesh @mesh ["a"=2]
func.func @main(
    %x: tensor<4x8xf32> {{graph.sharding = #graph.sharding<@mesh, [{{}}, {{"a"}}]>,
                         graph.whole = array<i64: 4, 16>}},
    %w: tensor<8x6xf32> {{graph.sharding = #graph.sharding<@mesh, [{{"a"}}, {{}}]>,
                         graph.whole = array<i64: 16, 6>}},
    %v: tensor<8x4xf32> {{graph.sharding = #graph.sharding<@mesh, [{{"a"}}, {{}}]>,
                         graph.whole = array<i64: 16, 4>}})
    -> (tensor<1x12xf32> {{graph.sharding = #graph.sharding<@mesh, [{{"a"}}, {{}}]>,
                          graph.whole = array<i64: 2, 12>}},
        tensor<1x{20 - first}xf32> {{graph.sharding = #graph.sharding<@mesh, {cut}}}) {{
  %0 = graph.matmul %x, %w : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %1 = graph.matmul %x, %v : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %2 = graph.reshape %0 shape [2, 12] : (tensor<4x6xf32>) -> tensor<2x12xf32>
  %3 = graph.reshape %1 shape [2, 8] : (tensor<4x4xf32>) -> tensor<2x8xf32>
  %4 = graph.concat %2, %3 axis 1 : (tensor<2x12xf32>, tensor<2x8xf32>) -> tensor<2x20xf32>
  %5 = graph.reduce_scatter sum %4 dim 0 over <"a"=2> : (tensor<2x20xf32>) -> tensor<1x20xf32>
  %6 = graph.slice %5 starts [0] ends [12] axes [1] : (tensor<1x20xf32>) -> tensor<1x12xf32>
  %7 = graph.slice %5 starts [{first}] ends [20] axes [1]
      : (tensor<1x20xf32>) -> tensor<1x{20 - first}xf32>
  %8 = graph.relu %6 : (tensor<1x12xf32>) -> tensor<1x12xf32>
  %9 = graph.relu %7 : (tensor<1x{20 - first}xf32>) -> tensor<1x{20 - first}xf32>
  return %8, %9 : tensor<1x12xf32>, tensor<1x{20 - first}xf32>
}}""")
    assert rules(program) == {}
    whole = program.replace(cut, f"[{{}}, {{}}]>, graph.whole = array<i64: 1, {20 - first}>")
    assert "result 1 is not the same" in rules(whole)["D11"]


def test_where_one_element_goes_is_not_known():
    before = '[{}, {}, {}, {"a"}]>, graph.whole = array<i64: 1, 8, 1, 2>'
    after = '[{}, {}, {}, {"a"}]>, graph.whole = array<i64: 1, 2, 2, 4>'
    program = compiled(f"""graph.mesh @mesh ["a"=2]
func.func @main(%x: tensor<1x8x1x1xf32> {{graph.sharding = #graph.sharding<@mesh, {before}}})
    -> (tensor<1x2x2x2xf32> {{graph.sharding = #graph.sharding<@mesh, {after}}}) {{
  %0 = graph.depth_to_space %x block 2 : (tensor<1x8x1x1xf32>) -> tensor<1x2x2x2xf32>
  return %0 : tensor<1x2x2x2xf32>
}}""")
    assert rules(program) == {}


def test_d13_columns_of_a_head_are_more_than_heads():
    """2 heads of 12 columns over 8 devices, of which 2 have one each."""
    by_head = '[{}, {}, {"tp":(1)2}, {}]>, graph.whole = array<i64: 1, 4, 2, 12>'
    by_row = '[{"tp":(1)2}, {}]>, graph.whole = array<i64: 24, 5>'
    program = compiled(f"""graph.mesh @mesh ["tp"=8]
func.func @main(%x: tensor<1x4x1x12xf32> {{graph.sharding = #graph.sharding<@mesh, {by_head}}},
                %w: tensor<12x5xf32> {{graph.sharding = #graph.sharding<@mesh, {by_row}}})
    -> tensor<1x4x5xf32> {{
  %0 = graph.reshape %x shape [1, 4, 12] : (tensor<1x4x1x12xf32>) -> tensor<1x4x12xf32>
  %1 = graph.matmul %0, %w : (tensor<1x4x12xf32>, tensor<12x5xf32>) -> tensor<1x4x5xf32>
  %2 = graph.all_reduce sum %1 over <"tp":(1)2> : (tensor<1x4x5xf32>) -> tensor<1x4x5xf32>
  return %2 : tensor<1x4x5xf32>
}}""")
    assert rules(program) == {}


def test_d11_a_reshape_to_what_has_the_same_shape_on_each_device():
    """It is not in the program: rows and halves of rows are rows of half as many elements."""
    program = compiled("""graph.mesh @mesh ["a"=2, "b"=2]
func.func @main(%x: tensor<1x2xf32> {graph.sharding = #graph.sharding<@mesh, [{"b"}, {"a"}]>,
                                     graph.whole = array<i64: 2, 4>})
    -> (tensor<1x2xf32> {graph.sharding = #graph.sharding<@mesh, [{"b", "a"}, {}]>,
                         graph.whole = array<i64: 4, 2>}) {
  %0 = graph.relu %x : (tensor<1x2xf32>) -> tensor<1x2xf32>
  return %0 : tensor<1x2xf32>
}""")
    assert rules(program) == {}
    assert "D11" in rules(program.replace('[{"b", "a"}, {}]', '[{"a", "b"}, {}]'))


def test_d11_weights_of_two_directions_are_those_of_all_elements_of_a_batch():
    batch = '[{}, {"tp"}, {}]>, graph.whole = array<i64: 3, 2, 2>'
    last = '[{}, {"tp"}, {}]>, graph.whole = array<i64: 2, 2, 4>'
    program = compiled(f"""graph.mesh @mesh ["tp"=2]
func.func @main(%x: tensor<3x1x2xf32> {{graph.sharding = #graph.sharding<@mesh, {batch}}},
                %w: tensor<2x12x2xf32>, %r: tensor<2x12x4xf32>)
    -> (tensor<2x1x4xf32> {{graph.sharding = #graph.sharding<@mesh, {last}}}) {{
  %0, %1 = graph.gru %x, %w, %r direction bidirectional
      : (tensor<3x1x2xf32>, tensor<2x12x2xf32>, tensor<2x12x4xf32>)
      -> (tensor<3x2x1x4xf32>, tensor<2x1x4xf32>)
  return %1 : tensor<2x1x4xf32>
}}""")
    assert rules(program) == {}


def test_d19_a_mask_that_counts_from_the_first_query_is_not_that_of_a_part():
    queries = '[{}, {}, {"tp"}, {}]>, graph.whole = array<i64: 1, 2, 8, 4>'
    program = compiled(f"""graph.mesh @mesh ["tp"=2]
func.func @main(%q: tensor<1x2x4x4xf32> {{graph.sharding = #graph.sharding<@mesh, {queries}}},
                %k: tensor<1x2x8x4xf32>)
    -> (tensor<1x2x4x4xf32> {{graph.sharding = #graph.sharding<@mesh, {queries}}}) {{
  %0 = graph.attention %q, %k, %k
      : (tensor<1x2x4x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>) -> tensor<1x2x4x4xf32>
  return %0 : tensor<1x2x4x4xf32>
}}""")
    assert rules(program) == {}
    causal = program.replace("graph.attention %0, %1, %1", "graph.attention %0, %1, %1 causal true")
    assert "the further behind" in rules(causal)["D19"]


def test_d11_a_key_head_serves_the_query_heads_of_several_devices():
    """8 query heads and 4 key heads over 8 devices: two of these have the same key head."""
    queries = '[{}, {"tp"}, {}, {}]>, graph.whole = array<i64: 1, 8, 4, 4>'
    keys = '[{}, {"tp":(1)4}, {}, {}]>, graph.whole = array<i64: 1, 4, 8, 4>'
    program = compiled(f"""graph.mesh @mesh ["tp"=8]
func.func @main(%q: tensor<1x1x4x4xf32> {{graph.sharding = #graph.sharding<@mesh, {queries}}},
                %k: tensor<1x1x8x4xf32> {{graph.sharding = #graph.sharding<@mesh, {keys}}},
                %v: tensor<1x1x8x4xf32> {{graph.sharding = #graph.sharding<@mesh, {keys}}})
    -> (tensor<1x1x4x4xf32> {{graph.sharding = #graph.sharding<@mesh, {queries}}}) {{
  %0 = graph.attention %q, %k, %v
      : (tensor<1x1x4x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>) -> tensor<1x1x4x4xf32>
  return %0 : tensor<1x1x4x4xf32>
}}""")
    assert rules(program) == {}
    for wrong in ('{"tp":(2)4}', '{"tp":(4)2, "tp":(1)2}'):
        assert "D11" in rules(program.replace('{"tp":(1)4}', wrong))
    assert "D11" in rules(program.replace("1, 4, 8, 4", "1, 8, 8, 4"))


def test_d13_each_device_has_a_group_of_channels():
    """Of one group the text does not say that there are several."""
    channels = '[{}, {"tp"}, {}]>, graph.whole = array<i64: 2, SIZE, 2>'
    inputs, results = channels.replace("SIZE", "2"), channels.replace("SIZE", "8")
    weight = '[{"tp"}, {}, {}]>, graph.whole = array<i64: 8, 1, 3>'
    program = compiled(f"""graph.mesh @mesh ["tp"=2]
func.func @main(%x: tensor<2x1x2xf32> {{graph.sharding = #graph.sharding<@mesh, {inputs}}},
                %w: tensor<4x1x3xf32> {{graph.sharding = #graph.sharding<@mesh, {weight}}})
    -> (tensor<2x4x2xf32> {{graph.sharding = #graph.sharding<@mesh, {results}}}) {{
  %0 = graph.conv %x, %w pads [2, 0] : (tensor<2x1x2xf32>, tensor<4x1x3xf32>) -> tensor<2x4x2xf32>
  return %0 : tensor<2x4x2xf32>
}}""")
    assert rules(program) == {}


ROWS = '[{}, {}, {"a"}, {}]>, graph.whole = array<i64: 1, 4, 16, 8>'
REPEATED = f"""graph.mesh @mesh ["a"=4]
func.func @main(%x: tensor<1x4x4x8xf32> {{graph.sharding = #graph.sharding<@mesh, {ROWS}}})
    -> tensor<1x4x32x8xf32> {{
  %0 = graph.tanh %x : (tensor<1x4x4x8xf32>) -> tensor<1x4x4x8xf32>
  %1 = graph.reshape %0 shape [1, 4, 4, 1, 8] : (tensor<1x4x4x8xf32>) -> tensor<1x4x4x1x8xf32>
  %2 = graph.broadcast_to %1 shape [1, 4, 4, 2, 8]
      : (tensor<1x4x4x1x8xf32>) -> tensor<1x4x4x2x8xf32>
  %3 = graph.reshape %2 shape [1, 4, 8, 8] : (tensor<1x4x4x2x8xf32>) -> tensor<1x4x8x8xf32>
  %4 = graph.softmax %3 axis 3 : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  %5 = graph.all_gather %4 dim 2 over <"a"=4> : (tensor<1x4x8x8xf32>) -> tensor<1x4x32x8xf32>
  return %5 : tensor<1x4x32x8xf32>
}}"""


def test_d11_a_new_dimension_leaves_open_which_one_is_cut_until_an_op_settles_it():
    """Rows that are repeated by means of a new dimension, which might be that of the parts: but
    then a softmax of rows, if it is right, is gathered along the wrong dimension."""
    assert rules(compiled(REPEATED)) == {}
    for fusion in ("off", "default"):
        wrong = REPEATED.replace("axis 3", "axis 2")
        found = rules(compiled(wrong, fusion=fusion))
        assert "gathers along dimension 2" in found.get("D11", "") or "D19" in found


def test_d12_no_axis_has_parts_of_rows_and_terms_of_a_sum():
    """A dimension of one element may be any, but not one that no sum is of."""
    by_channel = '[{}, {"b", "a"}, {}]>, graph.whole = array<i64: 1, 4, 8>'
    weight = '[{}, {"b", "a"}, {}]>, graph.whole = array<i64: 4, 4, 3>'
    program = compiled(f"""graph.mesh @mesh ["a"=2, "b"=2]
func.func @main(%x: tensor<1x1x8xf32> {{graph.sharding = #graph.sharding<@mesh, {by_channel}}},
                %w: tensor<4x1x3xf32> {{graph.sharding = #graph.sharding<@mesh, {weight}}})
    -> tensor<1x4x8xf32> {{
  %0 = graph.conv %x, %w pads [1, 1] : (tensor<1x1x8xf32>, tensor<4x1x3xf32>) -> tensor<1x4x8xf32>
  %1 = graph.all_reduce sum %0 over <"a"=2, "b"=2> : (tensor<1x4x8xf32>) -> tensor<1x4x8xf32>
  return %1 : tensor<1x4x8xf32>
}}""")
    assert rules(program) == {}
    other = by_channel.replace('"b", "a"', '"a", "b"')
    assert "D12" in rules(program.replace(by_channel, other))


def test_d12_terms_that_are_moved_stay_terms():
    by_row, by_column = '[{"a":(1)2}, {}]', '[{}, {"a":(1)2}]'
    weight = '[{"b"}, {}]>, graph.whole = array<i64: 32, 8>'
    program = compiled(f"""graph.mesh @mesh ["a"=2, "b"=2]
func.func @main(%x: tensor<4x16xf32> {{graph.sharding = #graph.sharding<@mesh,
                    [{{"a"}}, {{"b"}}]>, graph.whole = array<i64: 8, 32>}},
                %w: tensor<16x8xf32> {{graph.sharding = #graph.sharding<@mesh, {weight}}})
    -> (tensor<8x4xf32> {{graph.sharding = #graph.sharding<@mesh, [{{}}, {{"a"}}]>,
                         graph.whole = array<i64: 8, 8>}}) {{
  %0 = graph.matmul %x, %w : (tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
  %1 = graph.all_to_all %0 shape [8, 8] has <@mesh, {by_row}, unreduced={{"b":(1)2}}>
      to <@mesh, {by_column}, unreduced={{"b":(1)2}}>
      : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %2 = graph.all_reduce sum %1 over <"b"=2> : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %2 : tensor<8x4xf32>
}}""")
    assert rules(program) == {}
    assert "combines by min" in rules(program.replace("all_reduce sum", "all_reduce min"))["D12"]


def test_d11_pieces_of_a_result_are_cut_alike():
    """A result is written in pieces, as those of chunks are: by columns in one order, and in
    another one."""
    by_column = '[{}, {"a", "b"}]>, graph.whole = array<i64: 4, 8>'
    result = by_column.replace("4, 8", "8, 8")
    program = compiled(f"""graph.mesh @mesh ["a"=2, "b"=2]
func.func @main(%x: tensor<4x2xf32> {{graph.sharding = #graph.sharding<@mesh, {by_column}}},
                %y: tensor<4x2xf32> {{graph.sharding = #graph.sharding<@mesh, {by_column}}})
    -> (tensor<8x2xf32> {{graph.sharding = #graph.sharding<@mesh, {result}}}) {{
  %0 = graph.tanh %x : (tensor<4x2xf32>) -> tensor<4x2xf32>
  %1 = graph.exp %y : (tensor<4x2xf32>) -> tensor<4x2xf32>
  %2 = graph.concat %0, %1 axis 0 : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
  return %2 : tensor<8x2xf32>
}}""")
    assert rules(program) == {}
    other = by_column.replace('"a", "b"', '"b", "a"')
    assert "different in another way" in rules(program.replace(by_column, other, 1))["D11"]


def test_d11_chunks_of_one_element_are_pieces_of_the_dimension_that_is_cut():
    """Rows are made one by one: each may be cut along any dimension of one element, all together
    along theirs alone."""
    by_row = '[{}, {"a"}, {}]>, graph.whole = array<i64: 1, 8, 4>'
    text = f"""graph.mesh @mesh ["a"=4]
func.func @main(%x: tensor<1x2x4xf32> {{graph.sharding = #graph.sharding<@mesh, {by_row}}})
    -> (tensor<1x2x4xf32> {{graph.sharding = #graph.sharding<@mesh, {by_row}}}) {{
  %0 = graph.slice %x starts [0] ends [1] axes [1] : (tensor<1x2x4xf32>) -> tensor<1x1x4xf32>
  %1 = graph.slice %x starts [1] ends [2] axes [1] : (tensor<1x2x4xf32>) -> tensor<1x1x4xf32>
  %2 = graph.tanh %0 : (tensor<1x1x4xf32>) -> tensor<1x1x4xf32>
  %3 = graph.tanh %1 : (tensor<1x1x4xf32>) -> tensor<1x1x4xf32>
  %4 = graph.concat %2, %3 axis 1 : (tensor<1x1x4xf32>, tensor<1x1x4xf32>) -> tensor<1x2x4xf32>
  return %4 : tensor<1x2x4xf32>
}}"""
    program = compiled(text)
    assert rules(program) == {}
    end = program.rindex(by_row)
    other = by_row.replace('{"a"}', '{"a":(2)2, "a":(1)2}')
    assert "D11" in rules(program[:end] + other + program[end + len(by_row) :])


def test_d11_parts_of_what_is_repeated_may_be_equal_behind_a_gather():
    """A constant of equal elements has equal parts, and what is made of it along them too."""
    rows = '[{}, {"a"}, {}]>, graph.whole = array<i64: 2, 2, 2>'
    program = compiled(f"""graph.mesh @mesh ["a"=2, "b"=2]
func.func @main(%x: tensor<8x1xf32> {{graph.sharding = #graph.sharding<@mesh, [{{}}, {{"b"}}]>,
                                     graph.whole = array<i64: 8, 2>}})
    -> (tensor<2x1x2xf32> {{graph.sharding = #graph.sharding<@mesh, {rows}}}) {{
  %0 = graph.constant dense<2.0> : tensor<2x1x8xf32>
  %1 = graph.matmul %0, %x : (tensor<2x1x8xf32>, tensor<8x1xf32>) -> tensor<2x1x1xf32>
  %2 = graph.all_gather %1 dim 2 over <"b"=2> : (tensor<2x1x1xf32>) -> tensor<2x1x2xf32>
  return %2 : tensor<2x1x2xf32>
}}""")
    assert rules(program) == {}


def test_d11_parts_of_a_dimension_that_becomes_two_are_those_of_both():
    """A dimension that is cut by two axes becomes two, of which each is cut by one."""
    rows = '[{"a", "b"}, {}]>, graph.whole = array<i64: 16, 6>'
    both = '[{"a"}, {"b"}, {}]>, graph.whole = array<i64: 2, 8, 6>'
    program = compiled(f"""graph.mesh @mesh ["a"=2, "b"=4]
func.func @main(%x: tensor<2x6xf32> {{graph.sharding = #graph.sharding<@mesh, {rows}}},
                %y: tensor<1x2x6xf32> {{graph.sharding = #graph.sharding<@mesh, {both}}})
    -> (tensor<1x2x6xf32> {{graph.sharding = #graph.sharding<@mesh, {both}}}) {{
  %0 = graph.reshape %x shape [1, 2, 6] : (tensor<2x6xf32>) -> tensor<1x2x6xf32>
  %1 = graph.add %0, %y : (tensor<1x2x6xf32>, tensor<1x2x6xf32>) -> tensor<1x2x6xf32>
  return %1 : tensor<1x2x6xf32>
}}""")
    assert rules(program) == {}
    other = rows.replace('"a", "b"', '"b", "a"')
    assert "D11" in rules(program.replace(rows, other))


def test_d11_a_row_of_a_cache_is_cut_as_the_cache_is():
    """Columns by both axes become heads by one and columns by the other."""
    cache = '[{}, {"a"}, {}, {"b"}]>, graph.whole = array<i64: 1, 2, SIZE, 8>'
    before, after = cache.replace("SIZE", "3"), cache.replace("SIZE", "4")
    row = '[{}, {}, {"a", "b"}]>, graph.whole = array<i64: 1, 1, 16>'
    program = compiled(f"""graph.mesh @mesh ["a"=2, "b"=2]
func.func @main(%x: tensor<1x1x3x4xf32> {{graph.sharding = #graph.sharding<@mesh, {before}}},
                %y: tensor<1x1x4xf32> {{graph.sharding = #graph.sharding<@mesh, {row}}})
    -> (tensor<1x1x4x4xf32> {{graph.sharding = #graph.sharding<@mesh, {after}}}) {{
  %0 = graph.tanh %y : (tensor<1x1x4xf32>) -> tensor<1x1x4xf32>
  %1 = graph.reshape %0 shape [1, 1, 1, 4] : (tensor<1x1x4xf32>) -> tensor<1x1x1x4xf32>
  %2 = graph.concat %x, %1 axis 2
      : (tensor<1x1x3x4xf32>, tensor<1x1x1x4xf32>) -> tensor<1x1x4x4xf32>
  return %2 : tensor<1x1x4x4xf32>
}}""")
    assert rules(program) == {}


MOVED = 'attributes {graph.unseen = {moved = #graph.axes<"a"=2, "b"=2>}} '


@pytest.mark.parametrize(("stated", "is_proved"), [("", False), (MOVED, True)])
def test_d11_dimensions_of_one_element_change_places_where_it_is_stated(
    stated: str, is_proved: bool
):
    program = compiled(f"""module {stated}{{
graph.mesh @mesh ["a"=2, "b"=2]
func.func @main(%x: tensor<1x1x4xf32> {{graph.whole = array<i64: 2, 2, 4>,
                    graph.sharding = #graph.sharding<@mesh, [{{"a"}}, {{"b"}}, {{}}]>}})
    -> (tensor<1x1x4xf32> {{graph.whole = array<i64: 2, 2, 4>,
                    graph.sharding = #graph.sharding<@mesh, [{{"b"}}, {{"a"}}, {{}}]>}}) {{
  %0 = graph.relu %x : (tensor<1x1x4xf32>) -> tensor<1x1x4xf32>
  return %0 : tensor<1x1x4xf32>
}}
}}""")
    assert (rules(program) == {}) == is_proved


@pytest.mark.parametrize(("axis", "broken"), [(3, set[str]()), (1, {"D11", "D19"})])
def test_d19_a_new_dimension_elsewhere_is_not_the_one_that_is_cut(axis: int, broken: set[str]):
    program = compiled(f"""graph.mesh @mesh ["b"=2]
func.func @main(%x: tensor<1x2x4x8xf32> {{graph.whole = array<i64: 1, 4, 4, 8>,
                    graph.sharding = #graph.sharding<@mesh, [{{}}, {{"b"}}, {{}}, {{}}]>}})
    -> (tensor<1x2x8x8xf32> {{graph.whole = array<i64: 1, 4, 8, 8>,
                    graph.sharding = #graph.sharding<@mesh, [{{}}, {{"b"}}, {{}}, {{}}]>}}) {{
  %0 = graph.reshape %x shape [1, 2, 4, 1, 8] : (tensor<1x2x4x8xf32>) -> tensor<1x2x4x1x8xf32>
  %1 = graph.concat %0, %0 axis 3
      : (tensor<1x2x4x1x8xf32>, tensor<1x2x4x1x8xf32>) -> tensor<1x2x4x2x8xf32>
  %2 = graph.reshape %1 shape [1, 2, 8, 8] : (tensor<1x2x4x2x8xf32>) -> tensor<1x2x8x8xf32>
  %3 = graph.softmax %2 axis {axis} : (tensor<1x2x8x8xf32>) -> tensor<1x2x8x8xf32>
  return %3 : tensor<1x2x8x8xf32>
}}""")
    assert {*rules(program)} == broken


def test_d10_a_chunk_of_one_element_keeps_the_order_of_devices():
    program = compiled("""graph.mesh @mesh ["a"=4]
func.func @main(%x: tensor<4x1x8xf32> {graph.whole = array<i64: 4, 4, 8>,
                    graph.sharding = #graph.sharding<@mesh, [{}, {"a"}, {}]>})
    -> (tensor<1x4x8xf32> {graph.whole = array<i64: 4, 4, 8>,
                    graph.sharding = #graph.sharding<@mesh, [{"a"}, {}, {}]>}) {
  %0 = graph.relu %x : (tensor<4x1x8xf32>) -> tensor<4x1x8xf32>
  %1 = graph.reshape %0 shape [4, 1, 1, 8] : (tensor<4x1x8xf32>) -> tensor<4x1x1x8xf32>
  %2 = graph.all_to_all %1 shape [4, 4, 1, 8] has <@mesh, [{}, {"a"=4}, {}, {}]>
      to <@mesh, [{"a"=4}, {}, {}, {}]> : (tensor<4x1x1x8xf32>) -> tensor<1x4x1x8xf32>
  %3 = graph.reshape %2 shape [1, 4, 8] : (tensor<1x4x1x8xf32>) -> tensor<1x4x8xf32>
  return %3 : tensor<1x4x8xf32>
}""")
    assert rules(program) == {}
    other = program.replace('has <@mesh, [{}, {"a":(1)4}', 'has <@mesh, [{}, {"a":(2)2, "a":(1)2}')
    assert "D10" in rules(other)


MINOR = """graph.mesh @mesh ["a"=4]
func.func @main(%x: tensor<5x1x4xf32> {graph.whole = array<i64: 5, 4, 4>,
                    graph.sharding = #graph.sharding<@mesh, [{}, {"a"}, {}]>},
                %w: tensor<4x2xf32>)
    -> (tensor<5x1x2xf32> {graph.sharding = #graph.sharding<@mesh, [{}, {"a"}, {}]>,
                           graph.whole = array<i64: 5, 4, 2>}) {
  %0 = graph.reshape %x shape [5, 4] : (tensor<5x1x4xf32>) -> tensor<5x4xf32>
  %1 = graph.matmul %0, %w : (tensor<5x4xf32>, tensor<4x2xf32>) -> tensor<5x2xf32>
  %2 = graph.reshape %1 shape [5, 1, 2] : (tensor<5x2xf32>) -> tensor<5x1x2xf32>
  return %2 : tensor<5x1x2xf32>
}"""


def test_d11_elements_of_each_row_are_the_minor_digits_of_merged_rows():
    program = compiled(MINOR)
    assert rules(program) == {}
    result = '{"a"}, {}]>, graph.whole = array<i64: 5, 4, 2>'
    assert "D11" in rules(program.replace(result, result.replace('"a"', '"a":(2)2, "a":(1)2')))


def test_d11_a_scale_of_one_channel_is_that_of_the_part():
    program = compiled("""graph.mesh @mesh ["b"=2]
func.func @main(%x: tensor<4x1x8xf32> {graph.whole = array<i64: 4, 2, 8>,
                    graph.sharding = #graph.sharding<@mesh, [{}, {"b"}, {}]>},
                %s: tensor<1xf32> {graph.whole = array<i64: 2>,
                    graph.sharding = #graph.sharding<@mesh, [{"b"}]>})
    -> (tensor<4x1x8xi8> {graph.whole = array<i64: 4, 2, 8>,
                    graph.sharding = #graph.sharding<@mesh, [{}, {"b"}, {}]>}) {
  %0 = graph.quantize %x, %s to i8 axis 1 : (tensor<4x1x8xf32>, tensor<1xf32>) -> tensor<4x1x8xi8>
  return %0 : tensor<4x1x8xi8>
}""")
    assert rules(program) == {}
    assert "D19" in rules(program.replace("axis 1", "axis 0"))


HEADS = """graph.mesh @mesh ["a"=2, "b"=2]
func.func @main(%x: tensor<2x2x4xf32> {graph.sharding = #graph.sharding<@mesh, [{"a"}, {"b"}, {}]>})
    -> (tensor<2x2x4xf32> {graph.sharding = #graph.sharding<@mesh, [{"b"}, {"a"}, {}]>}) {
  %0 = graph.relu %x : (tensor<2x2x4xf32>) -> tensor<2x2x4xf32>
  %1 = graph.transpose %0 permutation [1, 0, 2] : (tensor<2x2x4xf32>) -> tensor<2x2x4xf32>
  %2 = graph.exp %1 : (tensor<2x2x4xf32>) -> tensor<2x2x4xf32>
  return %2 : tensor<2x2x4xf32>
}"""


def test_d11_what_partition_moves_unseen_is_stated():
    program = compiled(HEADS, "default")
    assert "permutation" not in program
    assert 'graph.unseen = {moved = #graph.axes<"a"=2, "b"=2>}' in program
    assert rules(program) == {}
    assert "D11" in rules(re.sub(" attributes {graph.unseen = .*?}} {", " {", program, count=1))


def test_d11_one_element_that_partition_repeats_unseen_is_stated():
    program = compiled("""graph.mesh @mesh ["a"=2]
func.func @main(%x: tensor<1xf32>)
    -> (tensor<2xf32> {graph.sharding = #graph.sharding<@mesh, [{"a"}]>}) {
  %0 = graph.abs %x : (tensor<1xf32>) -> tensor<1xf32>
  %1 = graph.broadcast_to %0 shape [2] : (tensor<1xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}""", "default")  # fmt: skip
    assert 'graph.unseen = {repeated = #graph.axes<"a"=2>}' in program
    assert rules(program) == {}
    assert "D11" in rules(re.sub(" attributes {graph.unseen = .*?}} {", " {", program, count=1))


@pytest.mark.parametrize(
    ("op", "places"), [("gather", "2"), ("gather_nd", "2x1"), ("gather_elements", "2x4")]
)
def test_d11_one_place_that_devices_look_up_is_stated(op: str, places: str):
    program = compiled(f"""graph.mesh @mesh ["a"=2]
func.func @main(%x: tensor<4x4xf32>)
    -> (tensor<2x4xf32> {{graph.sharding = #graph.sharding<@mesh, [{{"a"}}, {{}}]>}}) {{
  %0 = graph.tanh %x : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = graph.constant dense<-1> : tensor<{places}xi64>
  %2 = graph.{op} %0, %1 : (tensor<4x4xf32>, tensor<{places}xi64>) -> tensor<2x4xf32>
  return %2 : tensor<2x4xf32>
}}""", "default")  # fmt: skip
    assert 'graph.unseen = {repeated = #graph.axes<"a"=2>}' in program
    assert rules(program) == {}


def test_d10_devices_look_up_what_others_ask_of_their_rows():
    """Indices that are computed: the look-up of each device in its part loses the dimension of one
    element that says whose part it is."""
    program = compiled("""graph.mesh @mesh ["a"=2]
func.func @main(
  %x: tensor<18x8xf32> {graph.sharding = #graph.sharding<@mesh, [{"a"}, {}]>},
  %i: tensor<4xi64> {graph.sharding = #graph.sharding<@mesh, [{"a"}]>}
) -> (tensor<4x8xf32> {graph.sharding = #graph.sharding<@mesh, [{"a"}, {}]>}) {
  %n = graph.constant dense<18> : tensor<i64>
  %0 = graph.mod %i, %n : (tensor<4xi64>, tensor<i64>) -> tensor<4xi64>
  %1 = graph.gather %x, %0 : (tensor<18x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}""", "default")  # fmt: skip
    assert program.count("graph.all_to_all") == 2
    assert "graph.gather_nd" not in program
    assert rules(program) == {}


def test_d10_of_nothing_there_is_no_element_to_send():
    assert not rules(
        compiled("""graph.mesh @mesh ["a"=4]
func.func @main(%x: tensor<0x4xf32>, %y: tensor<8x4xf32>)
    -> (tensor<8x4xf32> {graph.sharding = #graph.sharding<@mesh, [{"a"}, {}]>}) {
  %0 = graph.concat %x, %y axis 0 : (tensor<0x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}""")
    )


@pytest.mark.parametrize("mode", ["off", "default"])
def test_d19_parts_that_are_turned_around_are_where_devices_are_too(mode: str):
    turn = """%N = graph.slice %M starts [-1] ends [-100] axes [0] steps [-1]
      : (tensor<8x6xf32>) -> tensor<8x6xf32>"""
    head = """graph.mesh @mesh ["a"=4]
func.func @main(%x: tensor<8x6xf32> {graph.sharding = #graph.sharding<@mesh, [{"a"}, {}]>})
    -> (tensor<8x6xf32> {graph.sharding = #graph.sharding<@mesh, [{"a"}, {}]>}) {"""
    first, last = (turn.replace("N", n).replace("M", m) for n, m in (("0", "x"), ("2", "1")))
    once = compiled(f"{head}\n{first}\nreturn %0 : tensor<8x6xf32>\n}}", mode)
    assert rules(once) == {}
    assert rules(once.replace('"a"=4 * -2 + 6 : 2', '"a"=4 * 2 : 2')) != {}
    relu = "%1 = graph.relu %0 : (tensor<8x6xf32>) -> tensor<8x6xf32>"
    twice = compiled(f"{head}\n{first}\n{relu}\n{last}\nreturn %2 : tensor<8x6xf32>\n}}", mode)
    assert rules(twice) == {}


def moves(ops: str, mesh: str, before: str, after: str, mode: str = "default") -> str:
    """The program of ops on a value that they move, from one sharding to another one."""
    (x, own), (y, stated) = (t.split(" ", 1) for t in (before, after))
    module = parse_module(context(), SourceText("test.mlir", f"""graph.mesh @mesh [{mesh}]
func.func @main(%x: {x} {{graph.sharding = #graph.sharding<@mesh, {own}>}})
    -> ({y} {{graph.sharding = #graph.sharding<@mesh, {stated}>}}) {{
{ops}
return %y : {y}
}}"""))  # fmt: skip
    lower(module, Options(tiles=False, verify=False, fusion=mode, pad=True))
    out = StringIO()
    Printer(out).print_op(module)
    return out.getvalue()


def unmarked(program: str, name: str) -> str:
    """The program without what it states to be unseen of one kind."""
    return re.sub(rf"{name} = #graph.axes<[^>]*>(, )?", "", program, count=1)


@pytest.mark.parametrize("step", [2, 5, -1, -2, -5])
@pytest.mark.parametrize("mode", ["off", "default"])
def test_d19_one_element_of_so_many_for_each_device(step: int, mode: str):
    first, last = (1, 1 + 3 * step) if step > 0 else (17, 17 + 3 * step)
    text = f"""%0 = graph.slice %x starts [{first}] ends [{last + (1 if step > 0 else -1)}] axes [0]
        steps [{step}] : (tensor<20xf32>) -> tensor<4xf32>
      %y = graph.tanh %0 : (tensor<4xf32>) -> tensor<4xf32>"""
    program = moves(text, '"a"=2, "b"=4', 'tensor<20xf32> [{"a"}]', 'tensor<4xf32> [{"b"}]', mode)
    assert rules(program) == {}
    lines = """%i = graph.constant dense<[4, 6]> : tensor<2xi64>
      %y = graph.gather %x, %i axis 0 : (tensor<8xf32>, tensor<2xi64>) -> tensor<2xf32>"""
    program = moves(lines, '"a"=8', 'tensor<8xf32> [{"a"}]', "tensor<2xf32> [{}]")
    assert rules(program) == {}
    assert "D19" in rules(unmarked(program, "resized"))


@pytest.mark.parametrize("kind", ["average", "max"])
@pytest.mark.parametrize("mode", ["off", "default"])
def test_d11_one_window_for_each_device(kind: str, mode: str):
    text = f"""%0 = graph.relu %x : (tensor<4x4x2x8xf32>) -> tensor<4x4x2x8xf32>
      %y = graph.pool {kind} %0 kernel [2, 2] strides [2, 2]
        : (tensor<4x4x2x8xf32>) -> tensor<4x4x1x4xf32>"""
    cuts = (' [{}, {}, {}, {"b"}]', ' [{"a"}, {}, {}, {"b"}]')
    for cut in cuts:
        ends = f"tensor<4x4x2x8xf32>{cut}", f"tensor<4x4x1x4xf32>{cut}"
        program = moves(text, '"a"=2, "b"=4', *ends, mode)
        assert rules(program) == {}
    if mode == "default":
        assert rules(unmarked(program, "windowed")).keys() & {"D11", "D12"}


def test_d11_rows_that_are_reduced_together_are_parts_along_any_dimension_behind_ones():
    x, w, y = "tensor<1x64x2x2xf32>", "tensor<16x64x1x1xf32>", "tensor<1x16x2x2xf32>"
    text = "\n".join(
        f"""%w{i} = graph.constant #graph.weight<"w{i}"> : {w}
      %b{i} = graph.constant #graph.weight<"b{i}"> : tensor<16xf32>
      %c{i} = graph.conv %x, %w{i} bias %b{i} : ({x}, {w}, tensor<16xf32>) -> {y}"""
        for i in range(2)
    )
    text += f"\n%r = graph.relu %c0 : ({y}) -> {y}"
    text += f"\n%y = graph.add %r, %c1 : ({y}, {y}) -> {y}"
    cut = ' [{}, {"a"}, {}, {}]'
    program = moves(text, '"a"=4', x + cut, y + cut)
    assert "reduce_scatter sum %0 dim 0" in program  # both
    assert rules(program) == {}


def test_d12_a_mean_of_all_that_devices_have_is_no_window():
    """Another axis has windows of one device each."""
    text = """%0 = graph.pool max %x kernel [1, 2] strides [1, 2]
        : (tensor<4x4x8x8xf32>) -> tensor<4x4x8x4xf32>
      %y = graph.reduce mean %0 axes [2] : (tensor<4x4x8x4xf32>) -> tensor<4x4x1x4xf32>"""
    ends = 'tensor<4x4x8x8xf32> [{}, {}, {"a"}, {"b"}]', 'tensor<4x4x1x4xf32> [{}, {}, {}, {"b"}]'
    program = moves(text, '"a"=2, "b"=4', *ends)
    assert rules(program) == {}
    assert "D12" in rules(program.replace("all_reduce sum", "all_reduce max"))


def test_d10_a_slice_that_leaves_parts_as_they_are_is_stated():
    program = moves("""%0 = graph.slice %x starts [0] ends [13] axes [0]
        : (tensor<16xf32>) -> tensor<13xf32>
      %1 = graph.tanh %0 : (tensor<13xf32>) -> tensor<13xf32>
      %y = graph.slice %1 starts [12] ends [-14] axes [0] steps [-1]
        : (tensor<13xf32>) -> tensor<13xf32>""", '"a"=4', 'tensor<16xf32> [{"a"}]',
        'tensor<13xf32> [{"a"}]')  # fmt: skip
    assert rules(program) == {}
    assert "D10" in rules(unmarked(program, "resized"))


def test_d13_padding_behind_the_last_element_may_be_in_the_last_parts():
    program = moves("""%0 = graph.pad %x pads [0, 2] axes [0] : (tensor<9xf32>) -> tensor<11xf32>
      %y = graph.reduce max %0 axes [0] : (tensor<11xf32>) -> tensor<1xf32>""", '"a"=2, "b"=4',
      'tensor<9xf32> [{"a", "b"}]', "tensor<1xf32> [{}]", "off")  # fmt: skip
    assert rules(program) == {}
    assert "D13" in rules(unmarked(program, "resized"))


def test_d13_a_mask_tells_no_end_between_devices_for_which_it_is_not_computed():
    program = moves("""%w = graph.constant #graph.weight<"w"> : tensor<3x17xf32>
      %y = graph.matmul %w, %x : (tensor<3x17xf32>, tensor<17x8xf32>) -> tensor<3x8xf32>""",
      '"a"=8', 'tensor<17x8xf32> [{"a"}, {}]', "tensor<3x8xf32> [{}, {}]")  # fmt: skip
    assert rules(program) == {}


def test_d11_a_row_of_a_part_in_another_order_of_dimensions():
    program = moves("""%0 = graph.slice %x starts [5] ends [6] axes [0]
        : (tensor<6x1x6xf32>) -> tensor<1x1x6xf32>
      %1 = graph.transpose %0 permutation [2, 1, 0] : (tensor<1x1x6xf32>) -> tensor<6x1x1xf32>
      %y = graph.tanh %1 : (tensor<6x1x1xf32>) -> tensor<6x1x1xf32>""", '"a"=2',
      'tensor<6x1x6xf32> [{}, {}, {"a"}]', 'tensor<6x1x1xf32> [{"a"}, {}, {}]')  # fmt: skip
    assert "permutation" not in program
    assert rules(program) == {}


def test_d11_two_cut_dimensions_of_one_element_are_merged():
    program = moves("""%a, %b = graph.split %x axis 0
        : (tensor<8x3xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>)
      %0 = graph.sub %b, %a : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
      %1 = graph.reshape %0 shape [4, 1, 3] : (tensor<4x3xf32>) -> tensor<4x1x3xf32>
      %2 = graph.pad %1 pads [0, 1] axes [1] : (tensor<4x1x3xf32>) -> tensor<4x2x3xf32>
      %3 = graph.reshape %2 shape [8, 3] : (tensor<4x2x3xf32>) -> tensor<8x3xf32>
      %w = graph.constant #graph.weight<"w"> : tensor<3x8xf32>
      %4 = graph.matmul %3, %w : (tensor<8x3xf32>, tensor<3x8xf32>) -> tensor<8x8xf32>
      %5 = graph.tanh %4 : (tensor<8x8xf32>) -> tensor<8x8xf32>
      %y = graph.slice %5 starts [2] ends [3] axes [1] : (tensor<8x8xf32>) -> tensor<8x1xf32>""",
      '"a"=2, "b"=4', 'tensor<8x3xf32> [{"b", "a"}, {}]', 'tensor<8x1xf32> [{"b"}, {}]',
      )  # fmt: skip
    assert rules(program) == {}


@pytest.mark.parametrize(
    ("op", "before", "after", "wrong"),
    [
        ("space_to_depth", "1x1x4x2", "1x4x2x1", '[{}, {"a"}, {}, {}] 1, 8, 1, 1'),
        ("depth_to_space", "1x4x2x1", "1x1x4x2", '[{}, {}, {}, {"a"}] 1, 1, 2, 4'),
    ],
)
def test_d11_a_block_for_each_device_goes_where_blocks_do(
    op: str, before: str, after: str, wrong: str
):
    rows = '[{}, {}, {"a"}, {}]'
    program = moves(f"""%0 = graph.{op} %x block 2 mode crd
        : (tensor<{before}xf32>) -> tensor<{after}xf32>
      %y = graph.tanh %0 : (tensor<{after}xf32>) -> tensor<{after}xf32>""", '"a"=2',
      f"tensor<{before}xf32> {rows}", f"tensor<{after}xf32> {rows}")  # fmt: skip
    assert rules(program) == {}
    (dims, sizes), attribute = wrong.split("] "), "graph.sharding = #graph.sharding<@mesh, "
    head, end = program.rsplit(attribute, 1)
    _, end = end.split("array<i64: ", 1)
    end = f"{dims}]>, graph.whole = array<i64: {sizes}>{end.split('>', 1)[1]}"
    assert "D11" in rules(head + attribute + end)


def test_d11_a_new_dimension_is_no_place_to_gather_what_is_the_same():
    text = """module attributes {graph.parts = {
  "w.a" = ["w", #graph.sharding<@mesh, [{}, {"a"}]>]}} {
graph.mesh @mesh ["a"=2, "b"=2]
func.func @main(%x: tensor<4x6xf32> {graph.whole = array<i64: 8, 6>,
                    graph.sharding = #graph.sharding<@mesh, [{"a"}, {}]>})
    -> (tensor<8x4xf32> {graph.whole = array<i64: 8, 8>,
                    graph.sharding = #graph.sharding<@mesh, [{}, {"a"}]>}) {
  %w = graph.constant #graph.weight<"w.a"> : tensor<6x4xf32>
  %0 = graph.reshape %x shape [1, 4, 6] : (tensor<4x6xf32>) -> tensor<1x4x6xf32>
  %1 = graph.all_gather %0 dim 0 over <"a"=2> : (tensor<1x4x6xf32>) -> tensor<2x4x6xf32>
  %2 = graph.reshape %1 shape [8, 6] : (tensor<2x4x6xf32>) -> tensor<8x6xf32>
  %3 = graph.matmul %2, %w : (tensor<8x6xf32>, tensor<6x4xf32>) -> tensor<8x4xf32>
  return %3 : tensor<8x4xf32>
}
}"""
    assert rules(compiled(text)) == {}
    assert "D11" in rules(compiled(text.replace('over <"a"', 'over <"b"')))


@pytest.mark.parametrize("memory", [0, 1, 2])
def test_d11_values_that_are_copied_behind_each_other_are_reduced_each_alone(memory: int):
    module = parse_module(
        context(),
        SourceText(
            "test.mlir",
            """graph.mesh @mesh ["a"=2, "b"=2]
func.func @main(%x: tensor<16x32xf32> {graph.sharding = #graph.sharding<@mesh, [{}, {"b"}]>})
    -> (tensor<16x16xf32> {graph.sharding = #graph.sharding<@mesh, [{}, {}]>},
        tensor<16x8xf32> {graph.sharding = #graph.sharding<@mesh, [{}, {"a"}]>}) {
  %v = graph.constant #graph.weight<"v"> : tensor<32x16xf32>
  %w = graph.constant #graph.weight<"w"> : tensor<32x8xf32>
  %0 = graph.matmul %x, %v : (tensor<16x32xf32>, tensor<32x16xf32>) -> tensor<16x16xf32>
  %1 = graph.matmul %x, %w : (tensor<16x32xf32>, tensor<32x8xf32>) -> tensor<16x8xf32>
  return %0, %1 : tensor<16x16xf32>, tensor<16x8xf32>
}""",
        ),
    )
    lower(module, Options(tiles=False, verify=False, memory=memory))
    out = StringIO()
    Printer(out).print_op(module)
    assert out.getvalue().count("launch @all_reduce") == 1
    assert rules(out.getvalue()) == {}


def test_d11_chunks_of_one_channel_are_cut_as_channels_are():
    ctx = context()
    module = parse_module(ctx, SourceText("test.mlir", """graph.mesh @mesh ["a"=2, "b"=2]
func.func @main(%x: tensor<1x4x16x8xf32>
        {graph.sharding = #graph.sharding<@mesh, [{}, {"a"}, {"b"}, {}]>})
    -> (tensor<1x4x8x8xf32> {graph.sharding = #graph.sharding<@mesh, [{}, {}, {}, {"b"}]>}) {
  %w = graph.constant #graph.weight<"w"> : tensor<4x4x3x3xf32>
  %0 = graph.conv %x, %w strides [2, 1] pads [1, 1, 1, 1]
      : (tensor<1x4x16x8xf32>, tensor<4x4x3x3xf32>) -> tensor<1x4x8x8xf32>
  %1 = graph.shard %0 sharding <@mesh, [{}, {"a"}, {}, {}]>
      : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  return %1 : tensor<1x4x8x8xf32>
}"""))  # fmt: skip
    options = Options(tiles=False, verify=False, fusion="off")
    lower(module, options, until="buffers")
    SplitLaunchesPass(pieces=2, collectives=True).apply(ctx, module)
    lower(module, options)
    out = StringIO()
    Printer(out).print_op(module)
    assert "all_gather_0_of_2" in out.getvalue()
    assert rules(out.getvalue()) == {}


def test_d12_rows_of_what_is_written_by_columns_are_parts_of_a_sum():
    """A chunk of columns has as many elements as one of rows, and others."""
    ctx = context()
    text = """graph.mesh @mesh ["a"=2]
func.func @main(%x: tensor<16x32xf32> {graph.sharding = #graph.sharding<@mesh, [{}, {"a"}]>})
    -> (tensor<16x8xf32>, tensor<16x32xf32> {graph.sharding = #graph.sharding<@mesh, [{"a"}, {}]>}) {
  %c = graph.constant #graph.weight<"w"> : tensor<32x8xf32>
  %w = graph.shard %c sharding <@mesh, [{"a"}, {}]> : (tensor<32x8xf32>) -> tensor<32x8xf32>
  %0 = graph.tanh %x : (tensor<16x32xf32>) -> tensor<16x32xf32>
  %2 = graph.shard %0 sharding <@mesh, [{"a"}, {}]> : (tensor<16x32xf32>) -> tensor<16x32xf32>
  %1 = graph.matmul %0, %w : (tensor<16x32xf32>, tensor<32x8xf32>) -> tensor<16x8xf32>
  return %1, %2 : tensor<16x8xf32>, tensor<16x32xf32>
}"""  # fmt: skip  # noqa: E501
    module = parse_module(ctx, SourceText("test.mlir", text))
    options = Options(tiles=False, verify=False, fusion="off")
    lower(module, options, until="buffers")
    SplitLaunchesPass(pieces=2, collectives=True).apply(ctx, module)
    lower(module, options)
    Printer(out := StringIO()).print_op(module)
    program = out.getvalue()
    assert {"tanh_0_of_2", "matmul_0_of_2"} <= set(re.findall(r"launch @(\w+)", program))
    assert rules(program) == {}
    assert "combines by max" in rules(program.replace("all_reduce sum", "all_reduce max"))["D12"]


def test_d11_no_part_is_taken_by_place_of_what_differs_by_it():
    text = """graph.mesh @mesh ["a"=2]
func.func @main(%x: tensor<2x6xf32> {graph.whole = array<i64: 4, 6>,
                    graph.sharding = #graph.sharding<@mesh, [{"a"}, {}]>})
    -> (tensor<ROWSx3xf32> {graph.whole = array<i64: ROWS, 6>,
                    graph.sharding = #graph.sharding<@mesh, [{}, {"a"}]>}) {
  %0 = graph.all_gather %x dim 0 over <"a"=2> : (tensor<2x6xf32>) -> tensor<4x6xf32>
  %1 = graph.axis_index over <"a"=2> : () -> tensor<i64>
  %2 = graph.constant dense<3> : tensor<i64>
  %3 = graph.mul %1, %2 : (tensor<i64>, tensor<i64>) -> tensor<i64>
  %4 = graph.constant dense<[0, 1, 2]> : tensor<3xi64>
  %5 = graph.add %3, %4 : (tensor<i64>, tensor<3xi64>) -> tensor<3xi64>
  %6 = graph.gather OF, %5 axis 1 : (tensor<ROWSx6xf32>, tensor<3xi64>) -> tensor<ROWSx3xf32>
  return %6 : tensor<ROWSx3xf32>
}"""
    assert rules(compiled(text.replace("OF", "%0").replace("ROWS", "4"))) == {}
    found = rules(compiled(text.replace("OF", "%x").replace("ROWS", "2")))
    assert "differs along it: what is left is in no part" in found["D11"]


def test_d11_a_part_that_others_pass_is_moved_unseen():
    program = compiled(
        """graph.mesh @mesh ["a"=2]
func.func @main(%x: tensor<4x2x1xf32> {graph.sharding = #graph.sharding<@mesh, [{}, {"a"}, {}]>})
    -> (tensor<1x2x4xf32> {graph.sharding = #graph.sharding<@mesh, [{}, {"a"}, {}]>}) {
  %0 = graph.relu %x : (tensor<4x2x1xf32>) -> tensor<4x2x1xf32>
  %1 = graph.transpose %0 permutation [2, 1, 0] : (tensor<4x2x1xf32>) -> tensor<1x2x4xf32>
  %2 = graph.exp %1 : (tensor<1x2x4xf32>) -> tensor<1x2x4xf32>
  return %2 : tensor<1x2x4xf32>
}""",
        "default",
    )
    assert rules(program) == {}


def test_d11_a_layout_of_one_column_that_is_turned_leaves_open_what_is_cut():
    program = compiled(
        """graph.mesh @mesh ["a"=2]
func.func @main(%x: tensor<1x4x1x1xf32> {graph.whole = array<i64: 1, 4, 2, 1>,
                    graph.sharding = #graph.sharding<@mesh, [{}, {}, {"a"}, {}]>})
    -> (tensor<1x1x1x4xf32> {graph.whole = array<i64: 1, 2, 1, 4>,
                    graph.sharding = #graph.sharding<@mesh, [{}, {"a"}, {}, {}]>}) {
  %0 = graph.relu %x : (tensor<1x4x1x1xf32>) -> tensor<1x4x1x1xf32>
  %1 = graph.transpose %0 permutation [0, 2, 3, 1] : (tensor<1x4x1x1xf32>) -> tensor<1x1x1x4xf32>
  %2 = graph.exp %1 : (tensor<1x1x1x4xf32>) -> tensor<1x1x1x4xf32>
  return %2 : tensor<1x1x1x4xf32>
}""",
        "default",
    )
    assert "permutation" not in program
    assert rules(program) == {}


@pytest.mark.parametrize(("pads", "dilation"), [((0, 0), 2), ((1, 1), 3)])
def test_d19_a_chunk_with_elements_of_no_part_stays_so_in_more_dimensions(
    pads: tuple[int, int], dilation: int
):
    """Rows 2 further to both sides, of which a window of 3 takes too many where it is wider."""
    program = compiled(f"""graph.mesh @mesh ["a"=2]
func.func @main(%x: tensor<1x1x8x8xf32> {{graph.whole = array<i64: 1, 1, 16, 8>,
                    graph.sharding = #graph.sharding<@mesh, [{{}}, {{}}, {{"a"}}, {{}}]>}},
                %w: tensor<1x1x3x1xf32>) -> tensor<1x1x2x8x8xf32> {{
  %0 = graph.exchange %x shape [1, 1, 16, 8] has <@mesh, [{{}}, {{}}, {{"a"=2}}, {{}}]>
      needs <[0 : 1], [0 : 1], ["a"=2 * 8 + -2 : 12], [0 : 8]> fill 0.0 : f32
      : (tensor<1x1x8x8xf32>) -> tensor<1x1x12x8xf32>
  %1 = graph.conv %0, %w pads [{pads[0]}, 0, {pads[1]}, 0] dilations [{dilation}, 1]
      : (tensor<1x1x12x8xf32>, tensor<1x1x3x1xf32>) -> tensor<1x1x8x8xf32>
  %2 = graph.reshape %1 shape [1, 1, 1, 8, 8] : (tensor<1x1x8x8xf32>) -> tensor<1x1x1x8x8xf32>
  %3 = graph.all_gather %2 dim 2 over <"a"=2>
      : (tensor<1x1x1x8x8xf32>) -> tensor<1x1x2x8x8xf32>
  return %3 : tensor<1x1x2x8x8xf32>
}}""")
    assert ("D19" in rules(program)) == (dilation == 3)


@pytest.mark.parametrize(("rows", "devices"), [(1, 2), (1, 4), (2, 4)])
@pytest.mark.parametrize("between", [False, True])
def test_parts_of_fewer_elements_than_devices(rows: int, devices: int, between: bool):
    """A dimension of one element that is cut is that element on all devices, and no op says so."""
    t, sharding = f"tensor<{rows}x8xf32>", '#graph.sharding<@mesh, [{"a"}, {}]>'
    shard = f'graph.shard %0 sharding <@mesh, [{{"a"}}, {{}}]> : ({t}) -> {t}'
    stated = f"{t}" if between else f"({t} {{graph.sharding = {sharding}}})"
    program = compiled(
        f"""graph.mesh @mesh ["a"={devices}]
func.func @main(%x: {t}) -> {stated} {{
  %0 = graph.exp %x : ({t}) -> {t}
  %1 = {shard if between else f"graph.relu %0 : ({t}) -> {t}"}
  %2 = graph.tanh %1 : ({t}) -> {t}
  return %2 : {t}
}}""",
        pad=True,
    )
    assert rules(program) == {}
