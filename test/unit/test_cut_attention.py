"""Attention whose queries and results devices send each other, in parts of its queries: the same
numbers, and proved."""

import json
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from ge.dialects.graph.attention import AttentionOp
from ge.dialects.graph.collectives import AllToAllOp
from ge.dialects.graph.sharding import ShardingAttr
from ge.dialects.npu_task.ops import LaunchOp, kernels_of
from ge.dialects.support.mesh import Sharding
from ge.dialects.support.operation import all_ops
from ge.dialects.targets.target import Target
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context, lower
from ge.lowering.pipeline.options import Options
from ge.runtime.check.devices import check_devices
from ge.runtime.check.memory import check_plan
from ge.runtime.check.schedule import check_schedule
from ge.runtime.data.arrays import Array
from ge.runtime.device.session import Session
from ge.transforms.sharding.cut_attention import Exchanged

Patch = pytest.MonkeyPatch
TARGET = Target.load()
WEIGHTS = {"wq": (128, 128), "wk": (128, 64), "wv": (128, 64), "wo": (128, 128)}
LAYER = """
  %q{i} = graph.matmul %x{i}, %wq : (tensor<{b}x16x128xf32>, tensor<128x128xf32>) -> tensor<{b}x16x128xf32>
  %k{i} = graph.matmul %x{i}, %wk : (tensor<{b}x16x128xf32>, tensor<128x64xf32>) -> tensor<{b}x16x64xf32>
  %v{i} = graph.matmul %x{i}, %wv : (tensor<{b}x16x128xf32>, tensor<128x64xf32>) -> tensor<{b}x16x64xf32>
  %qh{i} = graph.reshape %q{i} shape [{b}, 16, 8, 16] : (tensor<{b}x16x128xf32>) -> tensor<{b}x16x8x16xf32>
  %kh{i} = graph.reshape %k{i} shape [{b}, 16, 4, 16] : (tensor<{b}x16x64xf32>) -> tensor<{b}x16x4x16xf32>
  %vh{i} = graph.reshape %v{i} shape [{b}, 16, 4, 16] : (tensor<{b}x16x64xf32>) -> tensor<{b}x16x4x16xf32>
  %a{i} = graph.attention %qh{i}, %kh{i}, %vh{i}{mask} query_tokens_first true key_tokens_first true value_tokens_first true result_tokens_first true : (tensor<{b}x16x8x16xf32>, tensor<{b}x16x4x16xf32>, tensor<{b}x16x4x16xf32>{type}) -> tensor<{b}x16x8x16xf32>
  %ar{i} = graph.reshape %a{i} shape [{b}, 16, 128] : (tensor<{b}x16x8x16xf32>) -> tensor<{b}x16x128xf32>
  %p{i} = graph.matmul %ar{i}, %wo : (tensor<{b}x16x128xf32>, tensor<128x128xf32>) -> tensor<{b}x16x128xf32>
  %x{j} = graph.add %x{i}, %p{i} : (tensor<{b}x16x128xf32>, tensor<{b}x16x128xf32>) -> tensor<{b}x16x128xf32>
"""  # noqa: E501
MASKS = {"none": "", "keys": "1x1x1x16", "rows": "1x1x16x16", "heads": "1x8x16x16", "two": "16x16"}


def model(batch: int, mask: str, layers: int, causal: bool) -> ModuleOp:
    shape = f"tensor<{MASKS[mask]}xf32>"
    said = {"mask": f" mask %m{' causal true' * causal}", "type": f", {shape}"}
    if mask == "none":
        said = {"mask": " causal true" * causal, "type": ""}
    x = f"tensor<{batch}x16x128xf32>"
    weights = "".join(
        f'  %{n} = graph.constant #graph.weight<"{n}"> : tensor<{a}x{b}xf32>\n'
        for n, (a, b) in WEIGHTS.items()
    )
    body = "".join(LAYER.format(i=i, j=i + 1, b=batch, **said) for i in range(layers))
    given = "" if mask == "none" else f', %m: {shape} {{graph.name = "m"}}'
    text = f"""
func.func @main(%x0: {x} {{graph.name = "x"}}{given}) -> ({x} {{graph.name = "y"}}) {{
{weights}{body}  func.return %x{layers} : {x}
}}
"""
    return parse_module(context(), SourceText("x.mlir", text))


def lowered(
    folder: Path, mesh: str, batch: int, mask: str, layers: int, chunks: bool, **more: bool
) -> ModuleOp:
    """A program in which tokens are cut outside of attention, and heads in it. `rows`: what devices
    send each other are rows of all heads."""
    batches, own = ["dp"] if "dp" in mesh else [], ["a", "b"] if "b=" in mesh else ["tp"]
    rules = {"x": [batches, own], "y": [batches, own], "a[0-9]": [batches, [], own, []]}
    rules |= {"w*": [], "[qkvp][0-9]": [batches, own]} | ({} if mask == "none" else {"m": []})
    if not more.get("rows"):
        rules |= {f"{name}[0-9]": [batches, own] for name in ("qh", "kh", "vh", "ar")}
    (path := folder / "rules.json").write_text(json.dumps(rules))
    module = model(batch, mask, layers, more.get("causal", False))
    lower(module, Options(mesh=mesh, shard=str(path), chunks=chunks))
    return module


def data(batch: int, mask: str) -> tuple[dict[str, Array], dict[str, Array]]:
    rng = np.random.default_rng(1)
    weights = {k: (rng.standard_normal(s) / 8).astype(np.float32) for k, s in WEIGHTS.items()}
    inputs = {"x": rng.standard_normal((batch, 16, 128)).astype(np.float32)}
    if mask != "none":
        shape = tuple(map(int, MASKS[mask].split("x")))
        inputs["m"] = rng.standard_normal(shape).astype(np.float32)
    return weights, inputs


def attentions(module: ModuleOp) -> list[LaunchOp]:
    kernels = kernels_of(module)
    return [
        op
        for op in module.walk()
        if isinstance(op, LaunchOp)
        and any(isinstance(o, AttentionOp) for o in all_ops(kernels[op.callee].body.blocks))
    ]


def problems(module: ModuleOp) -> list[object]:
    return [*check_schedule(module, TARGET), *check_plan(module), *check_devices(module)]


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(
    ("mesh", "batch", "count", "rows"),
    [
        ("tp=4", 1, 2, False),
        ("tp=4", 1, 4, True),
        ("dp=2,tp=2", 2, 2, False),
        ("tp=2", 2, 4, False),
    ],
)
def test_parts_give_the_same_numbers_and_are_proved(
    mesh: str, batch: int, count: int, mask: str, rows: bool, tmp_path: Path, monkeypatch: Patch
) -> None:
    whole = lowered(tmp_path, mesh, batch, mask, 2, chunks=False, rows=rows)
    monkeypatch.setattr(Exchanged, "fastest", lambda *_: (count, 1e9))
    parts = lowered(tmp_path, mesh, batch, mask, 2, chunks=True, rows=rows)
    assert len(attentions(parts)) == count * len(attentions(whole)) == 2 * count
    assert problems(parts) == []
    weights, inputs = data(batch, mask)
    want, found = (Session(m, weights, sanitize=False).run(inputs)["y"] for m in (whole, parts))
    np.testing.assert_allclose(found, want, rtol=2e-5, atol=2e-5)


def test_positions_keep_attention_whole(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(Exchanged, "fastest", lambda *_: (2, 1e9))
    found = lowered(tmp_path, "tp=4", 1, "rows", 1, chunks=True, causal=True)
    assert len(attentions(found)) == 1


def test_parts_that_cost_more_than_they_hide_stay_whole(tmp_path: Path) -> None:
    assert len(attentions(lowered(tmp_path, "tp=4", 1, "rows", 1, chunks=True))) == 1


def test_a_part_of_devices_in_another_order_is_refused(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(Exchanged, "fastest", lambda *_: (2, 1e9))
    module = lowered(tmp_path, "a=2,b=2", 1, "rows", 1, chunks=True)
    assert problems(module) == []
    sent = [k.main for k in kernels_of(module).values() if isinstance(k.main, AllToAllOp)]
    parts = [op for op in sent if op.has.data.dims[1] and len(op.whole) == 5]
    assert parts
    for op in parts:
        dims = tuple(tuple(reversed(own)) for own in op.has.data.dims)
        op.has = ShardingAttr(Sharding(dims))
    assert "D10" in {p.rule for p in check_devices(module)}
