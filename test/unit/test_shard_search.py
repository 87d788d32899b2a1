"""The search for shardings asks little of layers that repeat, and of a second axis."""

import os
import subprocess
import sys
from collections import Counter
from math import isfinite
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))
from counting_steps import calls
from decoder_stack import Decoder

from ge.dialects.graph.collectives import AllGatherOp, AllReduceOp, Collective, ExchangeOp
from ge.dialects.graph.sharding import mesh_of
from ge.dialects.support.functions import main_function
from ge.dialects.support.mesh import Mesh
from ge.dialects.support.types import numel, shape_of
from ge.dialects.targets.target import Target
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context, lower
from ge.lowering.pipeline.options import Options
from ge.runtime.check.devices import check_devices
from ge.runtime.data.arrays import Array
from ge.runtime.device.session import Session
from ge.transforms.sharding.assignment import Assignment
from ge.transforms.sharding.host_times import unhidden
from ge.transforms.sharding.partition_spmd import PartitionSpmdPass
from ge.transforms.sharding.plans import ALIKE, Search, ShardPlan, time_text
from ge.transforms.sharding.rates import TimedRates

X, H, W = "tensor<512x256xf16>", "tensor<512x1024xf16>", "tensor<256x1024xf16>"


def searched(monkeypatch: pytest.MonkeyPatch, mesh: str, layers: int) -> int:
    """The calls that a search takes, of layers that each give an output too."""
    lines, x = [f"graph.mesh @mesh [{mesh}]", "@main"], "%x"
    for i in range(layers):
        lines += [
            f'%up{i} = graph.constant #graph.weight<"{i}.up"> : {W}',
            f"%h{i} = graph.matmul {x}, %up{i} : ({X}, {W}) -> {H}",
            f"%r{i} = graph.relu %h{i} : ({H}) -> {H}",
            f"%y{i} = graph.matmul %r{i}, %up{i} transpose_rhs 1 : ({H}, {W}) -> {X}",
            f"%x{i} = graph.add {x}, %y{i} : ({X}, {X}) -> {X}",
        ]
        x = f"%x{i}"
    results = ", ".join([X] * layers)
    lines[1] = f"func.func @main(%x: {X}) -> ({results}) {{"
    lines += [f"return {', '.join(f'%x{i}' for i in range(layers))} : {results}", "}"]
    module = parse_module(context(), SourceText("test.mlir", "\n".join(lines)))
    found: list[int] = []
    run = Search.run
    with monkeypatch.context() as patch:
        patch.setattr(Search, "run", lambda self: found.append(calls(lambda: run(self))))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
        PartitionSpmdPass(auto=True).apply(context(), module)
    return found[0]


def test_layers_that_repeat_are_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = (searched(monkeypatch, '"dp"=2, "tp"=4', n) for n in (12, 36))
    assert many < 1.2 * few


@pytest.mark.parametrize(("mesh", "most"), [('"tp"=8', 45_000), ('"dp"=2, "tp"=4', 200_000)])
def test_a_search_takes_so_many_calls(
    monkeypatch: pytest.MonkeyPatch, mesh: str, most: int
) -> None:
    searched(monkeypatch, mesh, 2)  # what a process works out once does not count
    assert searched(monkeypatch, mesh, 12) < most


def compile_calls(mesh: str, chunks: bool, cache: Path) -> int:
    """The calls of a compilation of LLaMA-7B, in a process and with a cache of its own: what has
    been worked out is not worked out again."""
    model = Path(__file__).parents[1] / "models" / "llama_7b_prefill.structure.onnx"
    code = f"""
from counting_steps import calls
from ge.lowering.driver.compiler import compile_file
from ge.lowering.pipeline.options import Options
options = Options(mesh={mesh!r}, shard={"auto" if mesh else ""!r}, tiles=True, chunks={chunks})
print(calls(lambda: compile_file({str(model)!r}, options)))
"""
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": path, "XDG_CACHE_HOME": str(cache)},
        capture_output=True,
        text=True,
        check=True,
    )
    return int(ran.stdout)


@pytest.mark.soak
def test_a_mesh_adds_so_much_to_a_compilation(tmp_path: Path) -> None:
    """Its attention has a mask, and so is tried in parts. Chunks are more launches: what is behind
    them takes longer too. Start-up, which is the same for all, is not counted."""
    one = compile_calls("", True, tmp_path / "one")
    most = {
        "tp=8": (1.19, 1.27),
        "dp=2,tp=4": (1.27, 1.35),
        "tp=1024": (1.12, 1.21),
        "dp=128,tp=8": (1.31, 1.38),
    }
    found = {
        (mesh, chunks): compile_calls(mesh, chunks, tmp_path / f"{mesh}{chunks}") / one
        for mesh in most for chunks in (False, True)
    }  # fmt: skip
    assert not {k: ratio for k, ratio in found.items() if ratio >= most[k[0]][k[1]]}, found


def test_of_plans_that_are_nearly_as_fast_the_one_with_fewer_kinds_of_ops_is_taken() -> None:
    """A first layer with a way of its own, for a thousandth of the time, takes twice the kernels.
    A plan that does not fit is not taken for that."""
    module = parse_module(
        context(),
        SourceText("test.mlir", 'graph.mesh @mesh ["tp"=2]\nfunc.func @main() { return }'),
    )
    mesh, main = mesh_of(module), main_function(module)
    assert mesh is not None
    assert main is not None
    rates = TimedRates(Target.load(), mesh)
    search = Search(Assignment(main, mesh, rates), limit=100)

    def plan(seconds: float, kinds: int, size: float = 0.0) -> ShardPlan:
        return ShardPlan({}, {}, (), seconds, 0.0, size, 0.0, kinds)

    def best(*plans: ShardPlan) -> ShardPlan:
        search.plans = list(plans)
        search.order()
        assert sorted(map(id, search.plans)) == sorted(map(id, plans))
        return search.plans[0]

    own, alike, slower = plan(1.0, 33), plan(1.0015, 28), plan(1.003, 20)
    assert best(own, slower, alike) is alike
    assert best(own, slower) is own
    assert best(own, plan(1.001, 28, size=200)) is own
    assert best(large := plan(1.0, 33, size=200), plan(0.999, 28, size=300)) is large


THREE = """
func.func @main(%x: tensor<4xf32>, %m: tensor<4xf32>)
    -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %a = graph.relu %x : (tensor<4xf32>) -> tensor<4xf32>
  %b = graph.exp %a : (tensor<4xf32>) -> tensor<4xf32>
  %c = graph.add %b, %m : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %a, %b, %c : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
"""


@pytest.mark.parametrize(("size", "names"), [(0.5, "xc"), (0.9, "xc"), (1.5, "xabc"), (9, "xmabc")])
def test_what_comes_and_goes_while_others_are_computed_costs_nothing(size: float, names: str):
    """Ops of one second each. Three values of 1.5 seconds leave one behind the other from the first
    op on: each more of them is later."""
    main = main_function(parse_module(context(), SourceText("test.mlir", THREE)))
    assert main is not None
    *ops, _ = main.body.block.ops
    values = dict(zip("xmabc", (*main.body.block.args, *(o.results[0] for o in ops)), strict=True))
    found = unhidden(main, lambda op: float(op in ops), lambda value: size)
    assert found == {values[name] for name in names}


@pytest.mark.parametrize(("count", "unhidden"), [(1, 1), (8, 0)])
def test_what_comes_hides_behind_starts_of_launches_too(count: int, unhidden: int):
    """A cache takes 33 us from the host, and a softmax of 4 elements its start."""
    x, m = "tensor<4xf32>", "tensor<65536x4xf32>"
    rows = [f"%{i} = graph.softmax %{i - 1 if i else 'x'} : ({x}) -> {x}" for i in range(count)]
    text = "\n".join(
        [
            f"func.func @main(%x: {x}, %m: {m}) -> {m} {{",
            *rows,
            f"%y = graph.add %m, %{count - 1} : ({m}, {x}) -> {m}",
            f"return %y : {m}",
            "}",
        ]
    )
    main = main_function(parse_module(context(), SourceText("test.mlir", text)))
    assert main is not None
    rates = TimedRates(Target.load(), Mesh((("tp", 4),)))
    cache = Assignment(main, rates.mesh, rates, free=True).by_argument[main.body.block.args[1]]
    assert cache.unhidden == unhidden


def test_rows_of_images_are_cut_though_each_group_of_a_norm_has_all_of_them() -> None:
    """Devices add up two sums of each group: where the norm needed all rows, they would gather
    them, and nothing would be cut."""
    x, w, c = "tensor<1x256x64x64xf32>", "tensor<256x256x3x3xf32>", "tensor<256xf32>"
    text = f"""
func.func @main(%x: {x} {{graph.name = "x"}}) -> ({x} {{graph.name = "y"}}) {{
  %w = graph.constant #graph.weight<"w"> : {w}
  %s = graph.constant #graph.weight<"s"> : {c}
  %b = graph.constant #graph.weight<"b"> : {c}
  %v = graph.constant #graph.weight<"v"> : {w}
  %0 = graph.conv %x, %w pads [1, 1, 1, 1] : ({x}, {w}) -> {x}
  %1 = graph.group_norm %0, %s, %b groups 32 : ({x}, {c}, {c}) -> {x}
  %2 = graph.silu %1 : ({x}) -> {x}
  %3 = graph.conv %2, %v pads [1, 1, 1, 1] : ({x}, {w}) -> {x}
  func.return %3 : {x}
}}"""
    rng = np.random.default_rng(0)
    shapes = {"w": (256, 256, 3, 3), "v": (256, 256, 3, 3), "s": (256,), "b": (256,)}
    payload = {k: (rng.standard_normal(s) / 32).astype(np.float32) for k, s in shapes.items()}
    given = {"x": rng.standard_normal((1, 256, 64, 64), np.float32)}
    results: list[Array] = []
    for options in (Options(), Options(mesh="tp=4", shard="auto")):
        module = parse_module(context(), SourceText("norm.mlir", text))
        lower(module, options)
        results.append(Session(module, payload, sanitize=False).run(given)["y"])
    assert check_devices(module) == []
    sums = [op for op in module.walk() if isinstance(op, AllReduceOp)]
    assert [numel(shape_of(op.result)) for op in sums] == [32]  # one kernel, launched twice
    assert sum(isinstance(op, ExchangeOp) for op in module.walk()) == 2
    np.testing.assert_allclose(results[1], results[0], rtol=1e-4, atol=1e-5)


def test_norms_are_found_before_values_are_cut() -> None:
    """So that a norm is computed of a device's rows, and its result gathered: written out, what it
    computes in f32 is gathered, or computed of all rows."""
    x, wide, one = "tensor<512x256xf16>", "tensor<512x256xf32>", "tensor<512x1xf32>"
    w, y = "tensor<256x2048xf16>", "tensor<512x2048xf16>"
    text = f"""
graph.mesh @mesh ["tp"=4]
func.func @main(%x: {x} {{graph.sharding = #graph.sharding<@mesh, [{{"tp"}}, {{}}]>}})
    -> ({y} {{graph.sharding = #graph.sharding<@mesh, [{{}}, {{"tp"}}]>}}) {{
  %two = graph.constant dense<2.0> : tensor<f32>
  %epsilon = graph.constant dense<1.0e-05> : tensor<f32>
  %g = graph.constant #graph.weight<"g"> : tensor<256xf16>
  %w = graph.constant #graph.weight<"w"> : {w}
  %0 = graph.cast %x to f32 : ({x}) -> {wide}
  %1 = graph.mul %0, %0 : ({wide}, {wide}) -> {wide}
  %2 = graph.reduce mean %1 axes [1] : ({wide}) -> {one}
  %3 = graph.add %2, %epsilon : ({one}, tensor<f32>) -> {one}
  %4 = graph.sqrt %3 : ({one}) -> {one}
  %5 = graph.reciprocal %4 : ({one}) -> {one}
  %6 = graph.mul %0, %5 : ({wide}, {one}) -> {wide}
  %7 = graph.cast %6 to f16 : ({wide}) -> {x}
  %8 = graph.mul %7, %g : ({x}, tensor<256xf16>) -> {x}
  %9 = graph.matmul %8, %w : ({x}, {w}) -> {y}
  func.return %9 : {y}
}}"""
    module = parse_module(context(), SourceText("test.mlir", text))
    lower(module, Options(mesh="tp=4"), until="graph")
    gathers = [op for op in module.walk() if isinstance(op, AllGatherOp)]
    assert [op.input.owner.name for op in gathers] == ["graph.rms_norm"]


def plans(
    decoder: Decoder, mesh: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[ShardPlan], float]:
    """The plans that are compared first for layers, the best one first, and the seconds of one that
    cuts nothing."""
    module = parse_module(context(), SourceText("decoder.mlir", decoder.text()))
    found: list[ShardPlan] = []
    seconds: list[float] = []
    run = Search.run

    def recorded(search: Search) -> list[ShardPlan]:
        own = run(search)
        best = own[0]
        search.assignment.take([0] * len(search.assignment.nodes))
        seconds.append(search.assignment.seconds())
        search.assignment.take(best.choice)
        found.extend([] if found else own)
        return own

    with monkeypatch.context() as patch:
        patch.setattr(Search, "run", recorded)
        lower(module, Options(mesh=mesh, shard="auto"), until="graph")
    return found, seconds[0]


@pytest.mark.parametrize("layers", [4, 12])
def test_all_layers_are_cut_in_the_same_way_however_many_there_are(layers: int) -> None:
    """By heads, for which all devices send each other parts: queries, keys, values and results. Of
    many layers (those in the middle are one class) whole keys and values were sent, which takes
    twice as long."""
    decoder = Decoder(layers, 4096, 32, 11008)
    module = parse_module(context(), SourceText("decoder.mlir", decoder.text()))
    lower(module, Options(mesh="tp=8", shard="auto"), until="graph")
    found = Counter(op.name for op in module.walk() if isinstance(op, Collective))
    assert found == {"graph.all_to_all": 4 * layers, "graph.all_gather": 1}  # of the mask


@pytest.mark.parametrize("mesh", ["tp=8", "dp=2,tp=4", "dp=128,tp=8"])
@pytest.mark.parametrize("decoder", [Decoder(12, 4096, 32, 11008), Decoder(12, 256, 4, 512, 64)])
def test_no_plan_is_impossible_or_slower_than_one_that_cuts_nothing(
    decoder: Decoder, mesh: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, whole = plans(decoder, mesh, monkeypatch)
    assert all(isfinite(plan.seconds) for plan in found)
    assert found[0].seconds <= whole * (1 + ALIKE)


def test_times_of_plans_have_digits_however_small() -> None:
    times = 0.0, 2.5e-9, 1.25e-7, 9.96e-6, 3.784e-5, 9.994e-4, 9.996e-4, 1.2041e-3, 2.5
    assert [time_text(s) for s in times] == [
        "0 us", "0.0025 us", "0.125 us", "9.96 us", "37.8 us", "999.4 us", "1.000 ms", "1.204 ms",
        "2500.000 ms",
    ]  # fmt: skip
