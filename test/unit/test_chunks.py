"""What devices send each other comes apart into chunks, with the launches that make and use it: the
same bits, proved, and faster where the clock says so."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from ge.dialects.graph.collectives import Collective
from ge.dialects.npu_task.ops import LaunchOp, kernels_of
from ge.dialects.support.functions import main_function
from ge.dialects.targets.target import Target
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context, lower
from ge.lowering.pipeline.options import Options
from ge.runtime.check.devices import check_devices
from ge.runtime.check.memory import check_plan
from ge.runtime.check.schedule import check_schedule
from ge.runtime.clock.clock import simulate
from ge.runtime.data.arrays import Array
from ge.runtime.device.session import Session
from ge.runtime.numbers import linear
from ge.runtime.profile.tables import time_report
from ge.transforms.memory.plan_memory import PlanMemoryPass
from ge.transforms.schedule.acknowledge_collectives import AcknowledgeCollectivesPass
from ge.transforms.schedule.assign_streams import AssignStreamsPass
from ge.transforms.schedule.list_scheduling import ListScheduler
from ge.transforms.schedule.pieces import Grouping, LaunchGroup
from ge.transforms.schedule.split_launches import LAYERS as SHORT
from ge.transforms.schedule.split_launches import SplitLaunchesPass, Splitter, splitter

TARGET = Target.load()
LAYERS = """
func.func @main(%x: tensor<1x{rows}x{n}xf16> {{graph.name = "x"}})
    -> (tensor<1x{rows}x{n}xf16> {{graph.name = "y"}}) {{
  %up = graph.constant #graph.weight<"up"> : tensor<{n}x{m}xf16>
  %down = graph.constant #graph.weight<"down"> : tensor<{m}x{n}xf16>
  %g = graph.constant #graph.weight<"g"> : tensor<{n}xf16>
  %a = graph.matmul %x, %up : (tensor<1x{rows}x{n}xf16>, tensor<{n}x{m}xf16>) -> tensor<1x{rows}x{m}xf16>
  %h = graph.relu %a : (tensor<1x{rows}x{m}xf16>) -> tensor<1x{rows}x{m}xf16>
  %b = graph.matmul %h, %down : (tensor<1x{rows}x{m}xf16>, tensor<{m}x{n}xf16>) -> tensor<1x{rows}x{n}xf16>
  %c = graph.add %b, %x : (tensor<1x{rows}x{n}xf16>, tensor<1x{rows}x{n}xf16>) -> tensor<1x{rows}x{n}xf16>
  %d = graph.rms_norm %c, %g axis 2 epsilon 1.0e-05 : (tensor<1x{rows}x{n}xf16>, tensor<{n}xf16>) -> tensor<1x{rows}x{n}xf16>
  %e = graph.matmul %d, %up : (tensor<1x{rows}x{n}xf16>, tensor<{n}x{m}xf16>) -> tensor<1x{rows}x{m}xf16>
  %y = graph.matmul %e, %down : (tensor<1x{rows}x{m}xf16>, tensor<{m}x{n}xf16>) -> tensor<1x{rows}x{n}xf16>
  func.return %y : tensor<1x{rows}x{n}xf16>
}}
"""  # noqa: E501
MEGATRON = {"up": [[], ["tp"]], "down": [["tp"]], "x": [], "y": []}
PLANS: dict[str, dict[str, Any]] = {
    "all_reduce": MEGATRON,
    "all_to_all": {"x": [[], ["tp"]], "c": [[], ["tp"]], "e": [[], [], ["tp"]], "y": []},
    "all_gather": {"x": [[], ["tp"]], "up": [], "down": [], "y": []},
    "reduce_scatter": MEGATRON | {"c": [[], ["tp"]], "y": [[], ["tp"]]},
}  # fmt: skip


def layers(rows: int, n: int, m: int) -> ModuleOp:
    return parse_module(context(), SourceText("x.mlir", LAYERS.format(rows=rows, n=n, m=m)))


def collectives(module: ModuleOp) -> list[str]:
    kernels = kernels_of(module)
    mains = [kernels[op.callee].main for op in module.walk() if isinstance(op, LaunchOp)]
    return [op.name.rpartition(".")[2] for op in mains if isinstance(op, Collective)]


def one_by_one(a: Array, b: Array, out: Array | None = None) -> Array:
    """A product whose sums are made in one order, however many rows and columns there are: BLAS
    rounds fewer of them in another way."""
    shape = *np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1]
    result = np.zeros(shape, a.dtype)
    for k in range(a.shape[-1]):
        result += a[..., k : k + 1] * b[..., k : k + 1, :]
    if out is None:
        return result
    out[...] = result
    return out


@pytest.mark.parametrize("fusion", ["default", pytest.param("off", marks=pytest.mark.soak)])
@pytest.mark.parametrize("plan", PLANS)
def test_chunks_give_the_same_bits_and_are_proved(
    plan: str, fusion: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linear, "float_matmul", one_by_one)
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps(PLANS[plan]))
    rng = np.random.default_rng(0)
    shapes = {"up": (128, 256), "down": (256, 128), "g": (128,)}
    payload = {k: (rng.standard_normal(s) / 8).astype(np.float16) for k, s in shapes.items()}
    x = rng.standard_normal((1, 64, 128)).astype(np.float16)
    results: list[Array] = []
    counts: list[int] = []
    for pieces in (1, 2, 4):
        module = layers(64, 128, 256)
        options = Options(mesh="tp=4", shard=str(rules), chunks=False, fusion=fusion)
        lower(module, options, until="buffers")
        SplitLaunchesPass(pieces=pieces, collectives=True).apply(Context(), module)
        module.verify()
        AcknowledgeCollectivesPass().apply(Context(), module)
        AssignStreamsPass().apply(Context(), module)
        PlanMemoryPass().apply(Context(), module)
        problems = [*check_schedule(module, TARGET), *check_plan(module), *check_devices(module)]
        assert problems == []
        assert plan in collectives(module)
        counts.append(collectives(module).count(plan))
        results.append(Session(module, payload, sanitize=False).run({"x": x})["y"])
    assert counts == [counts[0], 2 * counts[0], 4 * counts[0]]
    for found in results[1:]:
        np.testing.assert_array_equal(found.view(np.uint16), results[0].view(np.uint16))


def test_chunks_hide_what_is_sent_where_the_clock_says_so(tmp_path: Path) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps(MEGATRON))
    reports: list[dict[str, Any]] = []
    for rows, chunks in ((2048, True), (2048, False), (16, True)):
        module = layers(rows, 4096, 8192)
        lower(module, Options(mesh="tp=4", shard=str(rules), chunks=chunks, tiles=False))
        reports.append(time_report(simulate(module, TARGET)))
        found = collectives(module)
        assert (len(found) > 2) == (chunks and rows == 2048)
        assert check_devices(module) == []
    cut, whole, _ = reports
    assert cut["latency_us"] < 0.9 * whole["latency_us"]
    assert whole["communication"]["hidden"] < 0.1 < 0.4 < cut["communication"]["hidden"]


def stack(count: int) -> ModuleOp:
    """So many equal layers, each with the weights of its own."""
    x, h, up, down = (
        "tensor<64x128xf16>",
        "tensor<64x256xf16>",
        "tensor<128x256xf16>",
        "tensor<256x128xf16>",
    )
    lines, last = [f'func.func @main(%x: {x} {{graph.name = "x"}}) -> {x} {{'], "%x"
    for i in range(count):
        lines += [
            f'%u{i} = graph.constant #graph.weight<"{i}.up"> : {up}',
            f'%d{i} = graph.constant #graph.weight<"{i}.down"> : {down}',
            f"%a{i} = graph.matmul {last}, %u{i} : ({x}, {up}) -> {h}",
            f"%b{i} = graph.relu %a{i} : ({h}) -> {h}",
            f"%c{i} = graph.matmul %b{i}, %d{i} : ({h}, {down}) -> {x}",
            f"%e{i} = graph.add %c{i}, {last} : ({x}, {x}) -> {x}",
        ]
        last = f"%e{i}"
    text = "\n".join([*lines, f"func.return {last} : {x}", "}"])
    return parse_module(context(), SourceText("x.mlir", text))


def test_groups_of_layers_that_repeat_grow_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps({"*.up": [[], ["tp"]], "*.down": [["tp"]], "x": []}))
    grown: list[int] = []
    growth = Grouping.growth
    counts: list[tuple[int, int]] = []
    for count in (4, 12):
        module = stack(count)
        lower(module, Options(mesh="tp=4", shard=str(rules), chunks=False), until="buffers")
        with monkeypatch.context() as patch:
            patch.setattr(Grouping, "growth", lambda *args: grown.append(1) or growth(*args))
            SplitLaunchesPass(pieces=2, collectives=True).apply(Context(), module)
        counts.append((len(grown), collectives(module).count("all_reduce")))
        grown.clear()
    assert counts == [(counts[0][0], 8), (counts[0][0], 24)]


def test_groups_are_judged_by_whole_layers(tmp_path: Path) -> None:
    """Also where what comes apart of a group is less than all of it."""
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps({"*.up": [[], ["tp"]], "*.down": [["tp"]], "x": []}))
    module = stack(3 * SHORT)
    lower(module, Options(mesh="tp=4", shard=str(rules), chunks=False), until="buffers")
    found = splitter(module, TARGET, collectives=True)
    main = main_function(module)
    assert main is not None
    found.promising(main)
    key = max(found.firsts, key=lambda key: len(found.firsts[key]))
    assert len(found.firsts[key]) > SHORT
    short = found.shortened(main, key)
    again = main_function(short)
    assert again is not None
    keys = [group.key() for group in splitter(short, TARGET, collectives=True).groups(again)]
    assert keys.count(key) == SHORT


def test_what_is_sent_hides_behind_launches_that_take_as_long(tmp_path: Path) -> None:
    """A norm alone before a gather hides nothing of it, and of the launches before it not all are
    worth to be cut: the search for chunks begins with those that take as long as the gather."""
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps({"x": [[], ["tp"]], "up": [], "down": [], "z": []}))
    y = "tensor<1x2048x4096xf16>"
    norm = f"%z = graph.rms_norm %y, %g axis 2 epsilon 1.0e-05 : ({y}, tensor<4096xf16>) -> {y}"
    text = LAYERS.format(rows=2048, n=4096, m=11008).replace('"y"', '"z"')
    text = text.replace("func.return %y", f"{norm}\n  func.return %z")
    module = parse_module(context(), SourceText("test.mlir", text))
    lower(module, Options(mesh="tp=2", shard=str(rules), chunks=False), until="buffers")
    found = splitter(module, TARGET, collectives=True)
    main = main_function(module)
    assert main is not None
    group = max(found.groups(main), key=lambda group: len(group.members))
    last = len(group.members) - 1
    assert found.grouping.is_collective(group.members[last])
    first = found.reach(group, range(last, -1, -1))
    assert first is not None
    times = [found.makespan([op]) for op in group.members]
    assert 0 < first < last - 1
    assert sum(times[first + 1 : last]) < times[last] <= sum(times[first:last])


def on_buffers(plan: str, rows: int, n: int, m: int, tmp_path: Path) -> ModuleOp:
    """The layers by a plan over four devices, before anything comes apart."""
    (rules := tmp_path / "rules.json").write_text(json.dumps(PLANS[plan]))
    module = layers(rows, n, m)
    lower(module, Options(mesh="tp=4", shard=str(rules), chunks=False), until="buffers")
    return module


@pytest.mark.parametrize("plan", PLANS)
def test_no_pieces_are_faster_than_their_bound(
    plan: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which says without a program of theirs that they cannot win: the choice is the same."""
    module = on_buffers(plan, 2048, 4096, 8192, tmp_path)
    found: list[tuple[float, float]] = []
    pieces, at_least = Splitter.pieces, Splitter.at_least_us

    def judged(self: Splitter, group: LaunchGroup, count: int) -> Any:
        made = pieces(self, group, count)
        if made is not None:
            found.append((at_least(self, group, count), self.makespan(made)))
        return made

    def choices() -> Any:
        main = main_function(module)
        assert main is not None
        return splitter(module, TARGET, collectives=True).promising(main)

    monkeypatch.setattr(Splitter, "pieces", judged)
    chosen, few = choices(), len(found)
    assert all(0 < least <= us for least, us in found)
    monkeypatch.setattr(Splitter, "at_least_us", lambda *args: 0.0)
    assert choices() == chosen
    assert 0 < few <= len(found) - few


def test_pieces_that_cannot_win_are_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor are more launches tried than those beside a collective where these are slower so."""
    module, tried = on_buffers("all_reduce", 64, 4096, 65536, tmp_path), list[int]()
    fastest = Splitter.fastest
    monkeypatch.setattr(Splitter, "at_least_us", lambda *args: 1e9)
    monkeypatch.setattr(Splitter, "pieces", lambda *args: pytest.fail("pieces are made"))
    monkeypatch.setattr(
        Splitter,
        "fastest",
        lambda self, group, *args: tried.append(len(group.members)) or fastest(self, group, *args),  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType, reportUnknownMemberType]
    )
    main = main_function(module)
    assert main is not None
    found = splitter(module, TARGET, collectives=True)
    longest = max(len(group.members) for group in found.groups(main))
    assert not found.promising(main)
    assert max(tried) < longest


def test_no_schedule_is_made_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A patient schedule is that in program order where no task would wait."""
    played: list[ListScheduler] = []
    play = ListScheduler.play
    monkeypatch.setattr(ListScheduler, "play", lambda self: played.append(self) or play(self))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    for plan in PLANS:
        module = on_buffers(plan, 512, 1024, 4096, tmp_path)
        AcknowledgeCollectivesPass().apply(Context(), module)
        AssignStreamsPass().apply(Context(), module)
    patient = [s for s in played if s.patient]
    assert len(patient) < len(PLANS)
    assert all(s.held for s in patient)
