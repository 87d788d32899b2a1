"""Fusion makes no launch that has no tile program, where programs are written."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from xdsl.ir import Block

sys.path.insert(0, str(Path(__file__).parent))
from tile_lowering import compare

from ge.dialects.fused_op import Body, FusedOp, RegionOp
from ge.dialects.support.functions import main_function
from ge.dialects.support.operation import all_ops
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.targets.target import Target
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context, lower
from ge.lowering.levels.level import Level
from ge.lowering.pipeline.options import Options
from ge.runtime.library import asking, table
from ge.runtime.library.asking import asked, refused
from ge.runtime.library.language.sides import Side

# Elements of a convolution are moved past each other, which no program of one does on its way out.
SHUFFLED = """
func.func @main(%x: tensor<1x16x32x32xf32>, %w: tensor<32x16x1x1xf32>)
    -> tensor<1x32x32x32xf32> {
  %0 = graph.conv %x, %w
      : (tensor<1x16x32x32xf32>, tensor<32x16x1x1xf32>) -> tensor<1x32x32x32xf32>
  %1 = graph.reshape %0 shape [1, 2, 16, 32, 32] : (tensor<1x32x32x32xf32>)
      -> tensor<1x2x16x32x32xf32>
  %2 = graph.transpose %1 permutation [0, 2, 1, 3, 4]
      : (tensor<1x2x16x32x32xf32>) -> tensor<1x16x2x32x32xf32>
  %3 = graph.reshape %2 shape [1, 32, 32, 32] : (tensor<1x16x2x32x32xf32>)
      -> tensor<1x32x32x32xf32>
  func.return %3 : tensor<1x32x32x32xf32>
}
"""


def fused(text: str, tiles: bool, target: str = "910b2") -> list[Body]:
    module = parse_module(context(), SourceText("test", text))
    lower(module, Options(target=target, tiles=tiles, tile_cache="off"), until=Level.FUSED)
    return [Body.of(op) for op in all_ops(module.body.blocks) if isinstance(op, FusedOp)]


def whole(text: str) -> Body:
    """All ops of a module as one launch."""
    module = parse_module(context(), SourceText("test", text))
    lower(module, Options(tile_cache="off"), until=Level.GRAPH)
    main = main_function(module)
    assert main is not None
    ops = [o for o in main.body.block.ops if isinstance(o, TensorOp) and o.operands]
    return Body.of(RegionOp.wrap(ops, main.body.block.last_op.operands))  # pyright: ignore


@pytest.mark.parametrize("target", ["910b2", "310p3"])
def test_a_launch_without_a_program_comes_apart(target: str):
    """What moves elements past each other leaves the launch of the convolution."""
    assert asked(whole(SHUFFLED), Target.load(target)).refusal
    assert not fused(SHUFFLED, True, target)
    compare(SHUFFLED, target, all_lowered=True, tiles=True)


def test_each_kind_of_launch_is_asked_once(monkeypatch: pytest.MonkeyPatch):
    """Layers repeat: lowerings are asked once for all that are alike."""
    calls, written = list[Body](), asking.written
    monkeypatch.setattr(asking, "written", lambda body, *a: calls.append(body) or written(body, *a))
    text = SHUFFLED.replace("16", "24").replace("x32x32x32", "x48x32x32")  # no other test has it
    text = text.replace("<32x24x1x1", "<48x24x1x1").replace("shape [1, 32,", "shape [1, 48,")
    fused(text, True)
    assert 1 < (asked := len(calls)) < 8
    fused(text, True)
    assert len(calls) == asked


def test_who_asks_for_a_program_alone_gets_no_figures(monkeypatch: pytest.MonkeyPatch):
    """Until somebody asks what it takes: then the program is not written again. Where a target
    lacks a fact, both say so."""
    calls = {"figures": 0, "kernel": 0}

    def counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            calls[name] += 1
            return function(*args)

        return call

    monkeypatch.setattr(asking, "figures", counted("figures", asking.figures))
    monkeypatch.setattr(table, "program_that_fits", counted("kernel", table.program_that_fits))
    line = "tensor<3x41x43xf32>"
    body = whole(f"""func.func @main(%x: {line}) -> {line} {{
  %0 = graph.exp %x : ({line}) -> {line}
  func.return %0 : {line} }}""")
    target = Target.load("910b2")
    assert refused(body, target) is None
    assert calls == {"figures": 0, "kernel": 1}
    assert asked(body, target).figures is not None
    assert refused(body, target) is None
    assert calls == {"figures": 1, "kernel": 1}
    cycles = {k: v for k, v in target.vector_cycles.items() if k != "exp"}
    lacking = replace(target, name="lacking", vector_cycles=cycles)
    assert (refusal := refused(body, lacking)) == asked(body, lacking).refusal
    assert "'exp'" in (refusal or "")


@pytest.mark.parametrize("op", ["softmax %x axis 1", "transpose %x permutation [1, 0]"])
def test_a_program_of_vector_cores_has_its_loops_written_once(
    op: str, monkeypatch: pytest.MonkeyPatch
):
    """None are written for a cube core, which would have no instructions in them."""
    entered, enter = list[Side](), Side.enter

    def noted(side: Side, block: Block) -> None:
        entered.append(side)
        enter(side, block)

    monkeypatch.setattr(Side, "enter", noted)
    line = "tensor<611x611xf32>"
    body = whole(f"""func.func @main(%x: {line}) -> {line} {{
  %0 = graph.{op} : ({line}) -> {line}
  func.return %0 : {line} }}""")
    assert refused(body, Target.load("910b2")) is None
    assert entered
    assert all(side.allocs for side in entered)


def test_few_launches_are_asked_of_a_long_one(monkeypatch: pytest.MonkeyPatch):
    """Where many ops have no program together, the longest launch that has one is found by halves:
    here moves that no pass is done with (a slice with steps of what is computed)."""
    calls, kernel_of = list[Body](), asking.kernel_of
    monkeypatch.setattr(asking, "kernel_of", lambda body: calls.append(body) or kernel_of(body))
    line = "tensor<1x32x32x36xf32>"
    lines = [f"  %s{i} = graph.sin %s{i - 1} : ({line}) -> {line}" for i in range(1, 41)]
    half = line.replace("36", "18")
    text = f"""func.func @main(%s0: {line}) -> {half} {{
{chr(10).join(lines)}
  %t = graph.slice %s40 starts [0] ends [36] axes [3] steps [2] : ({line}) -> {half}
  %r = graph.cos %t : ({half}) -> {half}
  func.return %r : {half} }}"""
    fused(text, True)
    assert 1 < len(calls) < 12


@pytest.mark.parametrize(
    ("target", "size", "apart"),
    [("910b2", 56, 1), ("910b2", 224, 1), ("310p3", 56, 0), ("310p3", 224, 0)],
)
def test_what_starts_late_stays_apart(target: str, size: int, apart: int):
    """Where vector cores start late, a function of a convolution's result is a launch of its own:
    the two take less time by their programs (16 us, not 22; of large results 71, not 72). Where the
    cores are one, it stays."""
    x, w = f"tensor<1x64x{size}x{size}xf32>", "tensor<64x64x3x3xf32>"
    text = f"""func.func @main(%x: {x}, %w: {w}) -> {x} {{
  %0 = graph.conv %x, %w pads [1, 1, 1, 1] : ({x}, {w}) -> {x}
  %1 = graph.silu %0 : ({x}) -> {x}
  func.return %1 : {x} }}"""
    assert len(fused(text, True, target)) == 1 - apart


def test_answers_are_kept_beside_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """By ops, wiring, types and target; what is damaged, or another compiler's, is asked anew."""
    body, target = whole(SHUFFLED), Target.load("910b2")
    looked: list[Body] = []
    lowering = asking.found
    monkeypatch.setattr(asking, "found", lambda b, *a: looked.append(b) or lowering(b, *a))
    path = tmp_path / "c" / "asked.json"

    def ask(target: Target = target) -> asking.Answer:
        asking.Answers.at.cache_clear()  # as in another process
        with asking.answers_in(str(path)):
            return asked(body, target)

    first = ask()
    assert first.refusal
    assert (ask(), len(looked)) == (first, 1)
    ask(Target.load("310p3"))
    assert (ask(), len(looked)) == (first, 2)
    path.write_text(path.read_text().replace("null", "0"))
    assert (ask(), len(looked)) == (first, 3)
    path.chmod(0o666)
    assert (ask(), len(looked)) == (first, 4)


ATTENTION = """
func.func @main(%x: tensor<1x4x32x64xf32>, %m: tensor<32x32xf32>) -> tensor<1x4x32x64xf32> {
  %0 = graph.attention %x, %x, %x mask %m : (tensor<1x4x32x64xf32>, tensor<1x4x32x64xf32>,
      tensor<1x4x32x64xf32>, tensor<32x32xf32>) -> tensor<1x4x32x64xf32>
  func.return %0 : tensor<1x4x32x64xf32>
}
"""


def test_all_passes_take_the_answers_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Passes before fusion, too: no program is written where a folder has them."""
    looked = list[Any]()
    monkeypatch.setattr(asking, "found", lambda b, *a: looked.append(b) or asking.Answer("none"))
    for _ in range(2):
        module = parse_module(context(), SourceText("test", ATTENTION))
        lower(module, Options(tile_cache=str(tmp_path)), until=Level.GRAPH)
        assert len(looked) == 1


@pytest.mark.parametrize("target", ["910b2", "310p3"])
def test_columns_of_rows_that_another_block_has(target: str):
    """A function of whole rows of a matmul, of which some columns are a result: blocks have these
    alone, and not what the rows are made of. That is no program, rather than an error."""
    text = """
func.func @main(%x: tensor<320x512xf32>, %w: tensor<512x48xf32>) -> tensor<320x32xf32> {
  %0 = graph.matmul %x, %w : (tensor<320x512xf32>, tensor<512x48xf32>) -> tensor<320x48xf32>
  %1 = graph.softmax %0 axis 1 : (tensor<320x48xf32>) -> tensor<320x48xf32>
  %2 = graph.slice %1 starts [0] ends [32] axes [1]
      : (tensor<320x48xf32>) -> tensor<320x32xf32>
  func.return %2 : tensor<320x32xf32> }"""
    compare(text, target, all_lowered=True, tiles=True)
    assert "another block" in (asked(whole(text), Target.load("310p3")).refusal or "")


def test_movements_that_are_alike_are_tried_once(monkeypatch: pytest.MonkeyPatch):
    """Where a transposition is not faster as a launch of its own, others of the same shape are
    not, either."""
    calls, kernel_of = list[Body](), asking.kernel_of
    monkeypatch.setattr(asking, "kernel_of", lambda body: calls.append(body) or kernel_of(body))
    a, b = "tensor<48x80xf32>", "tensor<80x48xf32>"
    names = [f"%x{i}" for i in range(4)]
    lines = [f"  %t{i} = graph.transpose %x{i} permutation [1, 0] : ({a}) -> {b}" for i in range(4)]
    lines += [f"  %s{i} = graph.add %s{i - 1}, %t{i} : ({b}, {b}) -> {b}" for i in range(2, 4)]
    text = f"""func.func @main({", ".join(f"{n}: {a}" for n in names)}) -> {b} {{
{chr(10).join(lines[:4])}
  %s1 = graph.add %t0, %t1 : ({b}, {b}) -> {b}
{chr(10).join(lines[4:])}
  func.return %s3 : {b} }}"""
    assert len(fused(text, True)) == 1
    without = [body for body in calls if len(body.ops) == 6]
    assert len(without) <= 1


def test_siblings_that_merge_at_once_are_asked_about_as_one(monkeypatch: pytest.MonkeyPatch):
    """Where no two launches take as little as one: nobody asks about halves."""
    asked_of, written = list[int](), asking.written
    note = lambda body, *a: asked_of.append(len(body.ops)) or written(body, *a)  # noqa: E731
    monkeypatch.setattr(asking, "written", note)
    x, w, y = "tensor<2x96xf16>", "tensor<96x80xf16>", "tensor<2x80xf16>"
    lines = [
        f"  %w{i} = graph.constant dense<{i}.0> : {w}\n"
        f"  %{i} = graph.matmul %x, %w{i} : ({x}, {w}) -> {y}"
        for i in range(1, 9)
    ]
    results = ", ".join(f"%{i}" for i in range(1, 9))
    types = ", ".join([y] * 8)
    text = f"func.func @main(%x: {x}) -> ({types}) {{\n" + "\n".join(lines)
    bodies = fused(f"{text}\n  func.return {results} : {types} }}", True)
    assert [len(body.ops) for body in bodies] == [8]
    assert asked_of == [8]
