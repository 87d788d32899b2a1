"""Small compiled programs in which faults are planted: loops, nested loops, branches, scans,
several streams, launches in pieces, shared inputs and outputs, dynamic results, views, and on-core
plans of attention and convolution. `program()` compiles one and gives it inputs with edge cases:
scalars of integers are trip counts of 0, 1, 2 and 5, truth values both."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context, load, lower
from ge.lowering.pipeline.options import Options
from ge.runtime.data.weights import Fallback, Payload, RandomPayload
from ge.runtime.device.random_inputs import random_inputs
from ge.transforms.memory.plan_memory import PlanMemoryPass
from ge.transforms.schedule.assign_streams import AssignStreamsPass
from ge.transforms.schedule.split_launches import SplitLaunchesPass

MODELS = Path(__file__).parents[1] / "models"
M, V, S, N, C = (
    "tensor<16x32xf32>", "tensor<4xf32>", "tensor<f32>", "tensor<i64>", "tensor<i1>",
)  # fmt: skip

LAYERS = f"""
func.func @main(%x: {M}) -> tensor<16x16xf32> {{
  %w = graph.constant #graph.weight<"w"> : tensor<32x24xf32>
  %b = graph.constant #graph.weight<"b"> : tensor<24xf32>
  %v = graph.constant #graph.weight<"v"> : tensor<24x16xf32>
  %0 = graph.matmul %x, %w : ({M}, tensor<32x24xf32>) -> tensor<16x24xf32>
  %1 = graph.add %0, %b : (tensor<16x24xf32>, tensor<24xf32>) -> tensor<16x24xf32>
  %2 = graph.softmax %1 : (tensor<16x24xf32>) -> tensor<16x24xf32>
  %3 = graph.matmul %2, %v : (tensor<16x24xf32>, tensor<24x16xf32>) -> tensor<16x16xf32>
  func.return %3 : tensor<16x16xf32>
}}"""

STREAMS = f"""
func.func @main(%x: {M}, %y: {M}) -> ({M}, {M}) {{
  %w = graph.constant #graph.weight<"w"> : tensor<32x32xf32>
  %0 = graph.matmul %x, %w : ({M}, tensor<32x32xf32>) -> {M}
  %1 = graph.exp %y : ({M}) -> {M}
  %2 = graph.neg %0 : ({M}) -> {M}
  %3 = graph.matmul %1, %w : ({M}, tensor<32x32xf32>) -> {M}
  %4 = graph.add %2, %3 : ({M}, {M}) -> {M}
  %5 = graph.tanh %0 : ({M}) -> {M}
  %6 = graph.matmul %4, %w : ({M}, tensor<32x32xf32>) -> {M}
  %7 = graph.mul %5, %1 : ({M}, {M}) -> {M}
  %8 = graph.sub %6, %7 : ({M}, {M}) -> {M}
  func.return %8, %7 : {M}, {M}
}}"""

VIEWS = """
func.func @main(%x: tensor<4x6x8xf32>, %y: tensor<4x6x8xf32>)
    -> (tensor<4x12x8xf32>, tensor<8x6xf32>) {
  %0 = graph.slice %x starts [1, 0] ends [4, 6] axes [1, 2]
    : (tensor<4x6x8xf32>) -> tensor<4x3x6xf32>
  %1 = graph.exp %0 : (tensor<4x3x6xf32>) -> tensor<4x3x6xf32>
  %2 = graph.slice %y starts [0, 2] ends [3, 8] axes [1, 2]
    : (tensor<4x6x8xf32>) -> tensor<4x3x6xf32>
  %3 = graph.add %1, %2 : (tensor<4x3x6xf32>, tensor<4x3x6xf32>) -> tensor<4x3x6xf32>
  %4 = graph.neg %x : (tensor<4x6x8xf32>) -> tensor<4x6x8xf32>
  %5 = graph.tanh %y : (tensor<4x6x8xf32>) -> tensor<4x6x8xf32>
  %6 = graph.concat %4, %5 axis 1 : (tensor<4x6x8xf32>, tensor<4x6x8xf32>) -> tensor<4x12x8xf32>
  %7 = graph.reshape %3 shape [12, 6] : (tensor<4x3x6xf32>) -> tensor<12x6xf32>
  %8 = graph.slice %7 starts [0] ends [8] axes [0] : (tensor<12x6xf32>) -> tensor<8x6xf32>
  %9 = graph.relu %8 : (tensor<8x6xf32>) -> tensor<8x6xf32>
  func.return %6, %9 : tensor<4x12x8xf32>, tensor<8x6xf32>
}"""

Q = "tensor<1x2x16x8xf32>"
ATTENTION = f"""
func.func @main(%q: {Q}, %k: {Q}, %v: {Q}, %m: tensor<16x16xf32>) -> {Q} {{
  %0 = graph.transpose %k permutation [0, 1, 3, 2] : ({Q}) -> tensor<1x2x8x16xf32>
  %1 = graph.matmul %q, %0 : ({Q}, tensor<1x2x8x16xf32>) -> tensor<1x2x16x16xf32>
  %2 = graph.add %1, %m : (tensor<1x2x16x16xf32>, tensor<16x16xf32>) -> tensor<1x2x16x16xf32>
  %3 = graph.softmax %2 : (tensor<1x2x16x16xf32>) -> tensor<1x2x16x16xf32>
  %4 = graph.matmul %3, %v : (tensor<1x2x16x16xf32>, {Q}) -> {Q}
  func.return %4 : {Q}
}}"""

IMAGE = "tensor<1x8x8x8xf32>"
CONV = f"""
func.func @main(%x: {IMAGE}) -> {IMAGE} {{
  %w = graph.constant #graph.weight<"w"> : tensor<8x8x3x3xf32>
  %b = graph.constant #graph.weight<"b"> : tensor<8xf32>
  %0 = graph.conv %x, %w bias %b pads [1, 1, 1, 1]
    : ({IMAGE}, tensor<8x8x3x3xf32>, tensor<8xf32>) -> {IMAGE}
  %1 = graph.relu %0 : ({IMAGE}) -> {IMAGE}
  %2 = graph.conv %1, %w bias %b pads [1, 1, 1, 1]
    : ({IMAGE}, tensor<8x8x3x3xf32>, tensor<8xf32>) -> {IMAGE}
  %3 = graph.add %2, %x : ({IMAGE}, {IMAGE}) -> {IMAGE}
  func.return %3 : {IMAGE}
}}"""

LOOP = f"""
func.func @main(%n: {N}, %x: {V}) -> ({V}, {V}) {{
  %0, %1 = graph.loop (%i, %go) trip %n : {N} carry (%p = %x : {V}, %q = %x : {V}) -> ({V}, {V}) {{
    %2 = graph.sin %p : ({V}) -> {V}
    %3 = graph.add %2, %q : ({V}, {V}) -> {V}
    graph.yield %go, %3, %p : {C}, {V}, {V}
  }}
  func.return %0, %1 : {V}, {V}
}}"""

NESTED = f"""
func.func @main(%n: {N}, %m: {N}, %x: {V}) -> {V} {{
  %0 = graph.loop (%i, %g) trip %n : {N} carry (%p = %x : {V}) -> ({V}) {{
    %1 = graph.loop (%j, %h) trip %m : {N} carry (%q = %p : {V}) -> ({V}) {{
      %2 = graph.exp %q : ({V}) -> {V}
      %3 = graph.sub %p, %2 : ({V}, {V}) -> {V}
      graph.yield %h, %3 : {C}, {V}
    }}
    %4 = graph.tanh %1 : ({V}) -> {V}
    graph.yield %g, %4 : {C}, {V}
  }}
  func.return %0 : {V}
}}"""

SCAN = f"""
func.func @main(%x: {V}) -> ({V}, tensor<6x4xf32>, tensor<6xf32>) {{
  %n = graph.constant dense<6> : {N}
  %0, %1, %2 = graph.loop (%i, %go) trip %n : {N} carry (%p = %x : {V})
      -> ({V}, tensor<6x4xf32>, tensor<6xf32>) {{
    %3 = graph.sin %p : ({V}) -> {V}
    %4 = graph.reduce sum %3 axes [0] keep_dims false : ({V}) -> {S}
    graph.yield %go, %3, %p, %4 : {C}, {V}, {V}, {S}
  }}
  func.return %0, %1, %2 : {V}, tensor<6x4xf32>, tensor<6xf32>
}}"""

WHILE = f"""
func.func @main(%n: {N}, %c: {C}, %x: {V}) -> ({V}, tensor<?x4xf32>) {{
  %0, %1 = graph.loop (%i, %go) trip %n : {N} while %c : {C} carry (%p = %x : {V})
      -> ({V}, tensor<?x4xf32>) {{
    %2 = graph.cos %p : ({V}) -> {V}
    %3 = graph.reduce sum %2 axes [0] keep_dims false : ({V}) -> {S}
    %4 = graph.compare lt %3, %3 : ({S}, {S}) -> {C}
    %5 = graph.not %4 : ({C}) -> {C}
    graph.yield %5, %2, %p : {C}, {V}, {V}
  }}
  func.return %0, %1 : {V}, tensor<?x4xf32>
}}"""

BRANCHES = f"""
func.func @main(%c: {C}, %d: {C}, %x: {V}) -> ({V}, {V}) {{
  %0 = graph.exp %x : ({V}) -> {V}
  %1, %2 = graph.if %c : ({C}) -> ({V}, {V}) {{
    %3 = graph.sin %0 : ({V}) -> {V}
    %4 = graph.if %d : ({C}) -> {V} {{
      %5 = graph.neg %3 : ({V}) -> {V}
      graph.yield %5 : {V}
    }} else {{
      graph.yield %3 : {V}
    }}
    graph.yield %4, %0 : {V}, {V}
  }} else {{
    %6 = graph.cos %x : ({V}) -> {V}
    graph.yield %0, %6 : {V}, {V}
  }}
  %7 = graph.add %1, %0 : ({V}, {V}) -> {V}
  func.return %7, %2 : {V}, {V}
}}"""

MIXED = f"""
func.func @main(%n: {N}, %c: {C}, %x: {V}) -> {V} {{
  %0 = graph.loop (%i, %go) trip %n : {N} carry (%p = %x : {V}) -> ({V}) {{
    %1 = graph.if %c : ({C}) -> {V} {{
      %2 = graph.sin %p : ({V}) -> {V}
      %3 = graph.add %2, %x : ({V}, {V}) -> {V}
      graph.yield %3 : {V}
    }} else {{
      %4 = graph.neg %p : ({V}) -> {V}
      graph.yield %4 : {V}
    }}
    graph.yield %go, %1 : {C}, {V}
  }}
  %5 = graph.exp %0 : ({V}) -> {V}
  func.return %5 : {V}
}}"""

DYNAMIC = f"""
func.func @main(%x: tensor<8xf32>, %c: {C}) -> (tensor<?xf32>, tensor<8xi64>) {{
  %0, %1, %2, %3 = graph.unique %x
    : (tensor<8xf32>) -> (tensor<?xf32>, tensor<?xi64>, tensor<8xi64>, tensor<?xi64>)
  %4 = graph.if %c : ({C}) -> tensor<?xf32> {{
    %5 = graph.exp %0 : (tensor<?xf32>) -> tensor<?xf32>
    graph.yield %5 : tensor<?xf32>
  }} else {{
    graph.yield %0 : tensor<?xf32>
  }}
  %6 = graph.neg %4 : (tensor<?xf32>) -> tensor<?xf32>
  %7 = graph.neg %2 : (tensor<8xi64>) -> tensor<8xi64>
  func.return %6, %7 : tensor<?xf32>, tensor<8xi64>
}}"""

L = "tensor<64x64xf32>"
LONG = f"""
func.func @main(%x: {L}) -> {L} {{
  %0 = graph.exp %x : ({L}) -> {L}
  %1 = graph.softmax %0 : ({L}) -> {L}
  %2 = graph.transpose %1 permutation [1, 0] : ({L}) -> {L}
  %3 = graph.softmax %2 : ({L}) -> {L}
  %4 = graph.transpose %3 permutation [1, 0] : ({L}) -> {L}
  %5 = graph.add %0, %4 : ({L}, {L}) -> {L}
  %6 = graph.transpose %5 permutation [1, 0] : ({L}) -> {L}
  func.return %6 : {L}
}}"""

CUT = """
func.func @main(%q: tensor<8x64x16xf32>, %k: tensor<8x16x64xf32>, %v: tensor<8x64x16xf32>)
    -> tensor<8x64x16xf32> {
  %0 = graph.matmul %q, %k : (tensor<8x64x16xf32>, tensor<8x16x64xf32>) -> tensor<8x64x64xf32>
  %1 = graph.softmax %0 : (tensor<8x64x64xf32>) -> tensor<8x64x64xf32>
  %2 = graph.matmul %1, %v : (tensor<8x64x64xf32>, tensor<8x64x16xf32>) -> tensor<8x64x16xf32>
  func.return %2 : tensor<8x64x16xf32>
}"""

TEXTS: dict[str, tuple[str, dict[str, Any]]] = {
    "layers": (LAYERS, {}),
    "layers, no fusion": (LAYERS, {"fusion": "off", "memory": 2}),
    "streams": (STREAMS, {"fusion": "off"}),
    "streams, shared": (STREAMS, {"fusion": "off", "share_io": True}),
    "streams, no reuse": (STREAMS, {"fusion": "off", "memory": 0}),
    "views": (VIEWS, {"fusion": "off"}),
    "views, fused": (VIEWS, {}),
    "attention": (ATTENTION, {}),
    "attention, no fusion": (ATTENTION, {"fusion": "off"}),
    "convolution": (CONV, {}),
    "loop": (LOOP, {"fusion": "off"}),
    "nested loops": (NESTED, {}),
    "scan": (SCAN, {"fusion": "off"}),
    "while": (WHILE, {}),
    "branches": (BRANCHES, {"fusion": "off"}),
    "branch in a loop": (MIXED, {}),
    "dynamic results": (DYNAMIC, {}),
    "spilled": (LONG, {"fusion": "off", "memory_limit": 33000}),
    "pieces": (CUT, {"fusion": "off"}),
}
MODEL_OPTIONS: dict[str, dict[str, Any]] = {
    "loop_rnn.tiny.onnx": {},
    "if_cond.tiny.onnx": {"fusion": "off"},
    "loop_ts.tiny.onnx": {"fusion": "off", "share_io": True},
}


@dataclass(eq=False)
class Program:
    """A program, what its weights are, and inputs that it is run on."""

    name: str
    module: ModuleOp
    payload: Payload
    inputs: list[dict[str, Any]]


TRIPS = (2, 0, 1, 5)


def inputs_of(module: ModuleOp) -> list[dict[str, Any]]:
    """Random inputs; scalars of integers take each of TRIPS, truth values both."""
    cases: list[dict[str, Any]] = []
    for seed, trip in enumerate(TRIPS):
        arrays = random_inputs(module, seed)
        numbers = 0
        for name, array in arrays.items():
            if array.dtype.kind == "i" and array.size == 1:
                arrays[name] = np.full_like(array, max(trip - numbers, 0))
                numbers += 1
            elif array.dtype.kind == "b":
                arrays[name] = np.full_like(array, seed % 3 == 0)
            elif seed == len(TRIPS) - 1:
                arrays[name] = -np.abs(array)
        cases.append({name: np.asarray(array) for name, array in arrays.items()})
    varied = any(a.dtype.kind in "ib" and a.size == 1 for a in cases[0].values())
    return cases if varied else [cases[0], cases[-1]]


NAMES = (*TEXTS, *MODEL_OPTIONS)


def program(name: str) -> Program:
    """The program of a name, compiled."""
    if name in MODEL_OPTIONS:
        loaded = load(str(MODELS / name))
        lower(loaded.module, Options(**MODEL_OPTIONS[name], tiles=False))
        payload = Fallback(loaded.payload, RandomPayload(loaded.module, 1))
        return Program(name, loaded.module, payload, inputs_of(loaded.module))
    text, options = TEXTS[name]
    module = parse_module(context(), SourceText(f"{name}.mlir", text))
    if name == "pieces":
        lower(module, Options(**options, tiles=False), until="buffers")
        split = (SplitLaunchesPass(pieces=4),)
        for step in (*split, AssignStreamsPass(), PlanMemoryPass()):
            step.apply(context(), module)
    else:
        lower(module, Options(**options, tiles=False))
    return Program(name, module, RandomPayload(module, 1), inputs_of(module))
