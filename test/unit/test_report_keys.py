"""The page of report keys explains each key of actual reports, and none that there is not."""

import json
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from documents import ROOT, Run, blocks, run

from ge.tools.reference.report_keys import CALL, KEYS
from ge.transforms.quantization.table import LayerFacts

__all__ = ["run"]

MODELS = ROOT / "test" / "models"
GPT2 = MODELS / "gpt2_decode.dynamic.onnx"

FILES = {
    "ranges.toml": '[ranges]\nx = [-4.0, 4.0]\n"graph.relu" = [0.0, 6.0]\n',
    "sizes.csv": "batch,count\n1,10\n7,3\n",
    "wide.mlir": """
func.func @main(%x: tensor<64x64xf32> {graph.name = "x"}) -> tensor<64x64xf32> {
  %0 = graph.exp %x : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = graph.matmul %x, %0 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %2 = graph.matmul %1, %0 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %3 = graph.matmul %2, %1 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %4 = graph.matmul %3, %0 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  func.return %4 : tensor<64x64xf32>
}""",
    "large.mlir": """
func.func @main(%x: tensor<2x4xf32> {graph.name = "x"}) -> tensor<2x4xf32> {
  %w = graph.constant dense<0.25> : tensor<4x4xf32>
  %c = graph.constant dense<[1.0e6, 2.0e6, 1.0e6, 2.0e6]> : tensor<4xf32>
  %0 = graph.matmul %x, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = graph.minimum %0, %c : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  func.return %1 : tensor<2x4xf32>
}""",
    "det.mlir": """
func.func @main(%x: tensor<2x9x9xf32> {graph.name = "x"}) -> tensor<2xf32> {
  %0 = graph.det %x : (tensor<2x9x9xf32>) -> tensor<2xf32>
  func.return %0 : tensor<2xf32>
}""",
    "mean.mlir": """
func.func @main(%x: tensor<?x8xf32> {graph.dims = ["n", ""], graph.name = "x"}) -> tensor<1x8xf32> {
  %0 = graph.reduce mean %x axes [0] : (tensor<?x8xf32>) -> tensor<1x8xf32>
  func.return %0 : tensor<1x8xf32>
}""",
    "devices.mlir": """
graph.mesh @mesh ["tp"=2]
func.func @main(%x: tensor<2x4xf32> {graph.sharding = #graph.sharding<@mesh, [{"tp"}, {}]>,
                                     graph.whole = array<i64: 4, 4>}) -> tensor<2x4xf32> {
  %0 = graph.all_reduce sum %x over <"tp"=2> : (tensor<2x4xf32>) -> tensor<2x4xf32>
  func.return %0 : tensor<2x4xf32>
}""",
}

FEW = """\
ge-compile two_layers.mlir -o p.mlir --quantize int8 --calibration ranges.toml --report 1.json
ge-compile rows.mlir -o g.mlir --dynamic-batch 1,8 --gear-histogram sizes.csv --report 2.json
ge-compile rows.mlir -o r.mlir --report 3.json
ge-run p.mlir --timing-only --runs 4 --what-if launch_us=0.5 --report 4.json
ge-run p.mlir --random-weights --report 5.json
ge-run p.mlir --timing-only --dispatch captured --report 6.json"""

MORE = f"""\
ge-compile two_layers.mlir -o f.mlir --precision fp16 --report 7.json
ge-compile large.mlir -o f.mlir --precision fp16 --report 8.json
ge-compile large.mlir -o f.mlir --precision fp16 --precision-clip --report 9.json
ge-compile two_layers.mlir -o e.mlir --engine graph.relu=vector --report 10.json
ge-compile two_layers.mlir -o t.mlir --tiles --tile-cache off --target 910b2 --report 11.json
ge-compile det.mlir -o d.mlir --tiles --tile-cache off --target 910b2 --report 12.json
ge-compile wide.mlir -o w.mlir --memory-limit 50000 --report 13.json
ge-compile rows.mlir -o g.mlir --dynamic-batch 1,8 --dynamic-fallback --report 14.json
ge-compile mean.mlir -o m.mlir --dynamic-batch 1,8 --dynamic-fallback --report 15.json
ge-compile {GPT2} --dim batch=1 -o s.mlir --state-capacity past=64 \
--state 'past_key_values\\.(.*)=present.\\1' --report 16.json
ge-compile {GPT2} --dim batch=1 --dim past=1..9 -o b.mlir --report 17.json
ge-run s.mlir --timing-only --dispatch captured --steps 3 --report 18.json
ge-run {MODELS}/llama_7b_decode.fp16.tiny.onnx --timing-only --report 19.json
ge-run t.mlir --timing-only --explain 2 --report 20.json --model two_layers.mlir \
--explain-variants fp16
ge-run t.mlir --random-weights --tiles --fuzz-schedule 2 --report 21.json
ge-run d.mlir --tiles --report 22.json
ge-run two_layers.mlir --timing-only --what-if cube_cores=2x --what-if-recompile --report 23.json
ge-run {MODELS}/bert_base.tiny.onnx --precision fp16 --compare {MODELS}/bert_base.tiny.onnx \
--compare-layers --report 24.json
ge-run large.mlir --timing-only --explain 1 --explain-variants int8 --calibration x.npz \
--report 25.json
ge-compile large.mlir -o q.mlir --quantize int8 --calibration x.npz --report 26.json
ge-run devices.mlir --report 27.json
ge-compile devices.mlir -o v.mlir --report 28.json
ge-run v.mlir --timing-only --report 29.json
ge-compile wide.mlir -o a.mlir --mesh tp=2 --shard auto --report 30.json"""

# what takes a model of many kernels to come about, one of which little is left in integers, or a
# program whose numbers are wrong
NODE = ("compared", "layers", "nodes", "[]")
RARE = {
    ("memory", "workspace_bytes"),
    ("quantization", "mended", "layers"),
    ("quantization", "mended", "time"),
    ("quantization", "unchanged", "*"),
    ("compared", "not_compared", "*"),
    ("compared", "layers", "first"),
    *((*m, k) for m in (("compared", "outputs", "*"), NODE) for k in ("differ", "strange")),
    *((*NODE, "alone", k) for k in ("differ", "strange")),
}


def explained_paths() -> set[tuple[str, ...]]:
    paths: set[tuple[str, ...]] = set()
    for path in KEYS:
        if path.endswith("CALL"):
            paths |= {tuple(path.replace("CALL", more).split(".")) for more in CALL}
        else:
            paths.add(tuple(path.split(".")))
    return paths


def paths_of(report: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of a report's leaves: numbers, texts, and lists of them."""
    if isinstance(report, dict):
        for key, value in cast("dict[str, Any]", report).items():
            yield from paths_of(value, (*path, key))
        return
    items = cast("list[object]", report) if isinstance(report, list) else []
    if any(isinstance(item, dict | list) for item in items):
        for item in items:
            yield from paths_of(item, (*path, "[]"))
    else:
        yield path


def find(path: tuple[str, ...], explained: set[tuple[str, ...]]) -> set[tuple[str, ...]]:
    """The explained paths that a path of a report is an instance of; an empty list or dict of an
    explained one counts."""

    def matches(pattern: tuple[str, ...]) -> bool:
        return len(pattern) >= len(path) and all(
            p in ("*", key) for p, key in zip(pattern, path, strict=False)
        )

    same = {pattern for pattern in explained if len(pattern) == len(path) and matches(pattern)}
    return same or {pattern for pattern in explained if matches(pattern)}


def reports(folder: Path, run: Run, commands: str) -> list[object]:
    """What commands write."""
    tutorial = (ROOT / "docs/tutorial.md").read_text("utf-8")
    (module,) = (b.body for b in blocks(tutorial) if b.title)
    rows = module.replace("<8x", "<?x").replace('"x"}', '"x", graph.dims = ["batch", ""]}')
    for name, text in {**FILES, "two_layers.mlir": module, "rows.mlir": rows}.items():
        (folder / name).write_text(text, "utf-8")
    np.savez(folder / "x.npz", x=np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4))
    run(commands)
    return [json.loads(path.read_text("utf-8")) for path in folder.glob("*.json")]


def used_in(found: list[object]) -> set[tuple[str, ...]]:
    """The explained paths of which reports have an instance; each of theirs must be one."""
    explained, used, unknown = explained_paths(), set[tuple[str, ...]](), set[str]()
    for path in {path for report in found for path in paths_of(report)}:
        matches = find(path, explained)
        if not matches:
            unknown.add(".".join(path))
        used |= {match for match in matches if len(match) == len(path)}
    assert not unknown, "no meaning in tools/reference/report_keys.py"
    return used


def test_keys_of_reports_are_explained(tmp_path: Path, run: Run):
    assert len(used_in(reports(tmp_path, run, FEW))) > 60


@pytest.mark.soak
def test_explained_keys_are_those_of_reports(tmp_path: Path, run: Run):
    used = used_in(reports(tmp_path, run, f"{FEW}\n{MORE}"))
    layer = {("quantization", "layers", "[]", field.name) for field in fields(LayerFacts)}
    assert layer <= explained_paths()
    assert explained_paths() - used - layer == RARE
