"""The bodies of gears: what is inferred once for layers that repeat is what each of them gives."""

import random
from collections.abc import Hashable, Iterable, Sequence

import pytest
from xdsl.dialects.builtin import i64
from xdsl.ir import Block, Operation

from ge.dialects.fused_op import FusedOp
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import lower
from ge.lowering.driver.context import context
from ge.lowering.levels.level import Level
from ge.lowering.pipeline.options import Options
from ge.transforms.shapes import expand_gears
from ge.transforms.shapes.expand_gears import Member, remaining

T, H = "tensor<?x?x8xf32>", "tensor<?x?x2x4xf32>"

LAYERS = {
    # %N: what the layer is on, %N_: names of its own
    "linear": """
  %N_w = graph.constant dense<VALUE> : tensor<8x8xf32>
  %N_b = graph.constant dense<VALUE> : tensor<8xf32>
  %N_0 = graph.matmul %N, %N_w : (T, tensor<8x8xf32>) -> T
  %N_1 = graph.add %N_0, %N_b : (T, tensor<8xf32>) -> T
  %OUT = graph.relu %N_1 : (T) -> T
""",
    "heads": """
  %N_w = graph.constant dense<VALUE> : tensor<8x8xf32>
  %N_0 = graph.matmul %N, %N_w : (T, tensor<8x8xf32>) -> T
  %N_1 = graph.reshape %N_0 shape %split : (T, tensor<4xi64>) -> H
  %N_2 = graph.transpose %N_1 permutation [0, 2, 1, 3] : (H) -> tensor<?x2x?x4xf32>
  %N_3 = graph.softmax %N_2 : (tensor<?x2x?x4xf32>) -> tensor<?x2x?x4xf32>
  %N_4 = graph.transpose %N_3 permutation [0, 2, 1, 3] : (tensor<?x2x?x4xf32>) -> H
  %OUT = graph.reshape %N_4 shape %whole : (H, tensor<3xi64>) -> T
""",
    "region": """
  %N_c = graph.constant dense<VALUE> : tensor<f32>
  %N_0 = graph.exp %N : (T) -> T
  %N_1 = graph.mul %N_0, %N_c : (T, tensor<f32>) -> T
  %OUT = graph.tanh %N_1 : (T) -> T
""",
    "padded": """
  %N_0 = graph.slice %N starts [0, 0, 0] ends %whole : (T, tensor<3xi64>) -> T
  %N_1 = graph.sqrt %N_0 : (T) -> T
  %OUT = graph.add %N_1, %N : (T, T) -> T
""",
}  # fmt: skip

HEAD = """
func.func @main(%x0: T {graph.name = "x", graph.dims = ["batch", "length", ""]})
    -> (T {graph.name = "y"}) {
  %shape = graph.shape_of %x0 end 2 : (T) -> tensor<2xi64>
  %two = graph.constant dense<[2, 4]> : tensor<2xi64>
  %all = graph.constant dense<8> : tensor<1xi64>
  %split = graph.concat %shape, %two axis 0 : (tensor<2xi64>, tensor<2xi64>) -> tensor<4xi64>
  %whole = graph.concat %shape, %all axis 0 : (tensor<2xi64>, tensor<1xi64>) -> tensor<3xi64>
"""


def text_of(layers: Sequence[str], rng: random.Random) -> str:
    text = HEAD
    for i, layer in enumerate(layers):
        body = LAYERS[layer].replace("%N", f"%x{i}").replace("%OUT", f"%x{i + 1}")
        for number in range(body.count("VALUE")):
            body = body.replace("VALUE", f"{rng.randrange(1, 3)}.{number}", 1)
        text += body
    text += f"  func.return %x{len(layers)} : T\n}}\n"
    return (
        text.replace(" T", f" {T}")
        .replace("(T", f"({T}")
        .replace(" H", f" {H}")
        .replace("(H", f"({H}")
    )


def gears_of(text: str) -> str:
    """The module with a body for each gear, at the fused level."""
    module = parse_module(context(), SourceText("test", text))
    lower(module, Options(dynamic_dims="1,2;1,4;3,4;8,8"), until=Level.FUSED)
    return str(module)


def none(ops: Iterable[Operation]) -> dict[Operation, Hashable]:
    """No two fused ops count as equal."""
    return {}


@pytest.mark.parametrize("seed", range(6))
def test_bodies_are_those_of_ops_settled_one_by_one(seed: int, monkeypatch: pytest.MonkeyPatch):
    rng = random.Random(seed)
    text = text_of([*rng.choices(list(LAYERS), k=6), "linear", "heads", "heads"], rng)
    once = gears_of(text)
    monkeypatch.setattr(expand_gears, "alike", none)
    assert gears_of(text) == once


def test_layers_that_repeat_are_inferred_once_for_a_gear(monkeypatch: pytest.MonkeyPatch):
    inferred: list[FusedOp] = []
    infer = expand_gears.retyped

    def counted(op: FusedOp, members: Sequence[TensorOp]) -> list[Member] | None:
        inferred.append(op)
        return infer(op, members)

    monkeypatch.setattr(expand_gears, "retyped", counted)
    counts: list[int] = []
    for layers in (["heads"], ["heads"] * 2, ["heads"] * 6):
        inferred.clear()
        gears_of(text_of(layers, random.Random(0)))
        counts.append(len(inferred))
    assert 0 < counts[0] == counts[1] == counts[2]


def test_places_of_operands_that_are_left():
    a, b, c = Block(arg_types=[i64] * 3).args
    assert remaining([a, b, c], [a, c]) == [0, 2]
    assert remaining([a, b, a], [a]) == [0]
    assert remaining([a, a], [a, a]) == [0, 1]
    assert remaining([a], []) == []
