"""Programs of four devices, for benchmarks: a language model cut as Megatron-LM does, training
steps whose batch, or weights too, are cut, experts to which tokens move, a convolution and sums of
parts that do not divide.

    python test/bench/mesh_programs.py [--timings 100] [--seed N]

runs each in random timings of all devices, which must give the same bits."""

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from training_graphs import transformer
from xdsl.dialects.builtin import ModuleOp, f32

from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context, load, lower
from ge.lowering.pipeline.options import Options
from ge.runtime.data.weights import Payload, RandomPayload
from ge.runtime.device.random_inputs import random_inputs
from ge.runtime.device.session import Session

Made = tuple[ModuleOp, Mapping[str, Any], Payload]  # a program, its inputs, its weights
Rules = Mapping[str, Any]

MODELS = Path(__file__).parents[1] / "models"

# Those of a layer, two times: queries, keys, values, output, and the three of SwiGLU
COLUMNS = (39, 46, 53, 122, 124, 130, 137, 144, 210, 212, 218)
ROWS = (117, 125, 205, 213)
MEGATRON: Rules = {
    "m.model.embed_tokens.weight": [["tp"]],
    **{f"val_{n}": [[], ["tp"]] for n in COLUMNS},
    **{f"val_{n}": [["tp"]] for n in ROWS},
}

EXPERTS = """
graph.mesh @mesh ["ep"=4]
func.func @main(%x: tensor<32x16xf32> {graph.name = "x", graph.sharding = #graph.sharding<@mesh, [{"ep"}, {}]>})
    -> (tensor<4x8x16xf32> {graph.name = "y", graph.sharding = #graph.sharding<@mesh, [{"ep"}, {}, {}]>}) {
  %gate = graph.constant #graph.weight<"gate"> : tensor<16x4xf32>
  %up = graph.constant #graph.weight<"up"> : tensor<4x16x32xf32>
  %down = graph.constant #graph.weight<"down"> : tensor<4x32x16xf32>
  %u = graph.shard %up sharding <@mesh, [{"ep"}, {}, {}]> : (tensor<4x16x32xf32>) -> tensor<4x16x32xf32>
  %d = graph.shard %down sharding <@mesh, [{"ep"}, {}, {}]> : (tensor<4x32x16xf32>) -> tensor<4x32x16xf32>
  %0 = graph.matmul %x, %gate : (tensor<32x16xf32>, tensor<16x4xf32>) -> tensor<32x4xf32>
  %1 = graph.softmax %0 axis 1 : (tensor<32x4xf32>) -> tensor<32x4xf32>
  %2 = graph.transpose %1 permutation [1, 0] : (tensor<32x4xf32>) -> tensor<4x32xf32>
  %3 = graph.reshape %2 shape [4, 4, 8, 1] : (tensor<4x32xf32>) -> tensor<4x4x8x1xf32>
  %4 = graph.reshape %x shape [1, 4, 8, 16] : (tensor<32x16xf32>) -> tensor<1x4x8x16xf32>
  %5 = graph.mul %3, %4 : (tensor<4x4x8x1xf32>, tensor<1x4x8x16xf32>) -> tensor<4x4x8x16xf32>
  %6 = graph.shard %5 sharding <@mesh, [{"ep"}, {}, {}, {}]> : (tensor<4x4x8x16xf32>) -> tensor<4x4x8x16xf32>
  %7 = graph.reshape %6 shape [4, 32, 16] : (tensor<4x4x8x16xf32>) -> tensor<4x32x16xf32>
  %8 = graph.matmul %7, %u : (tensor<4x32x16xf32>, tensor<4x16x32xf32>) -> tensor<4x32x32xf32>
  %9 = graph.relu %8 : (tensor<4x32x32xf32>) -> tensor<4x32x32xf32>
  %10 = graph.matmul %9, %d : (tensor<4x32x32xf32>, tensor<4x32x16xf32>) -> tensor<4x32x16xf32>
  %11 = graph.reshape %10 shape [4, 4, 8, 16] : (tensor<4x32x16xf32>) -> tensor<4x4x8x16xf32>
  %12 = graph.shard %11 sharding <@mesh, [{}, {"ep"}, {}, {}]> : (tensor<4x4x8x16xf32>) -> tensor<4x4x8x16xf32>
  %13 = graph.mul %12, %3 : (tensor<4x4x8x16xf32>, tensor<4x4x8x1xf32>) -> tensor<4x4x8x16xf32>
  %y = graph.reduce sum %13 axes [0] keep_dims false : (tensor<4x4x8x16xf32>) -> tensor<4x8x16xf32>
  return %y : tensor<4x8x16xf32>
}
"""  # noqa: E501

IMAGES = """
graph.mesh @mesh ["a"=2, "b"=2]
func.func @main(%x: tensor<2x4x15x9xf32> {graph.name = "x"}) -> (tensor<2x6x15x9xf32> {graph.name = "y"}, tensor<15xf32> {graph.name = "z"}) {
  %w = graph.constant #graph.weight<"w"> : tensor<6x4x3x3xf32>
  %0 = graph.shard %x sharding <@mesh, [{}, {}, {"a", "b"}, {}]> : (tensor<2x4x15x9xf32>) -> tensor<2x4x15x9xf32>
  %1 = graph.conv %0, %w pads [1, 1, 1, 1] : (tensor<2x4x15x9xf32>, tensor<6x4x3x3xf32>) -> tensor<2x6x15x9xf32>
  %2 = graph.shard %1 sharding <@mesh, [{}, {}, {"b"}, {"a"}]> : (tensor<2x6x15x9xf32>) -> tensor<2x6x15x9xf32>
  %3 = graph.softmax %2 axis 3 : (tensor<2x6x15x9xf32>) -> tensor<2x6x15x9xf32>
  %4 = graph.reduce sum %2 axes [0, 1, 3] keep_dims false : (tensor<2x6x15x9xf32>) -> tensor<15xf32>
  return %3, %4 : tensor<2x6x15x9xf32>, tensor<15xf32>
}
"""  # noqa: E501


def cut(module: ModuleOp, weights: Payload, mesh: str = "", rules: Rules | str = "") -> Made:
    """A module, compiled for the devices of its mesh, or of one that is given."""
    given = random_inputs(module)
    lower(module, Options(mesh=mesh, shard=rules, tiles=False, verify=False))
    return module, given, weights


def language_model(mesh: str, more: Rules) -> Made:
    loaded = load(str(MODELS / "llama_7b_prefill.op23.tiny.onnx"))
    return cut(loaded.module, loaded.payload, mesh, {**MEGATRON, **more})


def training(mesh: str, weights: bool) -> Made:
    """A training step with the batch cut, and the weights as well."""
    module = transformer(1, 32, 4, 4, 8, element=f32, norms=False)
    rules: dict[str, Any] = {"x": [["dp"]], "g": [["dp"]], "y": [["dp"]]}
    if weights:
        rules |= {"w*": [["dp"]], "dw*": [["dp"]]}
    return cut(module, RandomPayload(module.clone()), mesh, rules)


def of_text(text: str) -> Made:
    module = parse_module(context(), SourceText("p.mlir", text))
    return cut(module, RandomPayload(module.clone()))


PROGRAMS: Mapping[str, Callable[[], Made]] = {
    "llama, tp": lambda: language_model("tp=4", {}),
    "llama, dp x tp": lambda: language_model("dp=2,tp=2", {"input_ids": [["dp"]]}),
    "training, dp": lambda: training("dp=4", weights=False),
    "training, fsdp": lambda: training("dp=4", weights=True),
    "experts": lambda: of_text(EXPERTS),
    "images": lambda: of_text(IMAGES),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--timings", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    for name, make in PROGRAMS.items():
        module, given, weights = make()
        start = time.process_time()
        Session(module, weights, sanitize=True).fuzz_schedule(given, args.timings, args.seed)
        seconds = time.process_time() - start
        print(f"{name}: {args.timings} timings, the same bits, {seconds:.1f} s of CPU time")


if __name__ == "__main__":
    main()
