"""Linear maps before and after fold-batch-norm: the numbers agree, and what went into the weights
is gone from the graph."""

from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from ge.dialects.graph import elementwise as g
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.normalization import BatchNormOp
from ge.dialects.support.tensor_op import TensorOp
from ge.lowering.driver.compiler import context
from ge.runtime.data.weights import RandomPayload
from ge.runtime.device.random_inputs import random_inputs
from ge.runtime.device.session import Session
from ge.transforms.graph.eliminate_dead_code import EliminateDeadCodePass
from ge.transforms.graph.fold_batch_norm import FoldBatchNormPass
from ge.transforms.graph.prepare_weights import PrepareWeightsPass
from ge.transforms.rewriting.passes import Relation

WEIGHTS = {
    "w": "4x3x3x3", "grouped": "4x1x3x3", "turned": "2x2x3x3", "point": "5x4x1x1", "c": "4",
    "d": "4", "m": "4", "v": "4", "cc": "4x1x1", "x3": "3x1x1", "x2": "2x1x1", "mat": "6x8",
    "tam": "8x6", "next": "8x3", "row": "8", "six": "6", "five": "5",
}  # fmt: skip


def main(arguments: str, results: str, body: str) -> ModuleOp:
    """A module whose weights are named by `%w.NAME`."""
    lines = [
        f'%w.{k} = graph.constant #graph.weight<"{k}"> : tensor<{t}xf32>'
        for k, t in WEIGHTS.items()
        if f"%w.{k}" in body
    ]
    text = f"func.func @main({arguments}) -> {results} {{\n" + "\n".join(lines) + body + "\n}"
    return Parser(context(), text).parse_module()


IMAGE = "%x: tensor<2x3x6x5xf32>"
CONV = """%0 = graph.conv %x, %w.w pads [1, 1, 1, 1]
            : (tensor<2x3x6x5xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x6x5xf32>"""
OUT = "tensor<2x4x6x5xf32>"


def norm(value: str, t: str) -> str:
    return (
        f"graph.batch_norm {value}, %w.c, %w.d, %w.m, %w.v : "
        f"({t}, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> {t}"
    )


CASES: dict[str, tuple[str, str, str, int]] = {
    "conv and batch norm": (IMAGE, OUT, f"""
        {CONV}
        %1 = {norm("%0", OUT)}
        func.return %1 : {OUT}""", 1),
    "bias, batch norm, factor": (IMAGE, OUT, f"""
        %f = graph.constant dense<0.25> : tensor<f32>
        {CONV}
        %1 = graph.add %0, %w.cc : ({OUT}, tensor<4x1x1xf32>) -> {OUT}
        %2 = {norm("%1", OUT)}
        %3 = graph.mul %f, %2 : (tensor<f32>, {OUT}) -> {OUT}
        func.return %3 : {OUT}""", 1),
    "grouped": ("%x: tensor<1x4x5x5xf32>", "tensor<1x4x3x3xf32>", f"""
        %0 = graph.conv %x, %w.grouped bias %w.c group 4
            : (tensor<1x4x5x5xf32>, tensor<4x1x3x3xf32>, tensor<4xf32>) -> tensor<1x4x3x3xf32>
        %1 = {norm("%0", "tensor<1x4x3x3xf32>")}
        func.return %1 : tensor<1x4x3x3xf32>""", 1),
    "transposed, two groups": ("%x: tensor<1x2x5x5xf32>", "tensor<1x4x7x7xf32>", f"""
        %0 = graph.conv_transpose %x, %w.turned group 2
            : (tensor<1x2x5x5xf32>, tensor<2x2x3x3xf32>) -> tensor<1x4x7x7xf32>
        %1 = {norm("%0", "tensor<1x4x7x7xf32>")}
        func.return %1 : tensor<1x4x7x7xf32>""", 1),
    "factor before": (IMAGE, OUT, f"""
        %y = graph.mul %x, %w.x3 : (tensor<2x3x6x5xf32>, tensor<3x1x1xf32>) -> tensor<2x3x6x5xf32>
        {CONV.replace("%x,", "%y,")}
        func.return %0 : {OUT}""", 1),
    "factor and offset before": (IMAGE, "tensor<2x4x4x3xf32>", """
        %y = graph.mul %x, %w.x3 : (tensor<2x3x6x5xf32>, tensor<3x1x1xf32>) -> tensor<2x3x6x5xf32>
        %z = graph.add %y, %w.x3 : (tensor<2x3x6x5xf32>, tensor<3x1x1xf32>) -> tensor<2x3x6x5xf32>
        %0 = graph.conv %z, %w.w : (tensor<2x3x6x5xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x4x3xf32>
        func.return %0 : tensor<2x4x4x3xf32>""", 1),
    "offset and quotient before, padded": (IMAGE, OUT, f"""
        %y = graph.add %x, %w.x3 : (tensor<2x3x6x5xf32>, tensor<3x1x1xf32>) -> tensor<2x3x6x5xf32>
        %z = graph.div %y, %w.x3 : (tensor<2x3x6x5xf32>, tensor<3x1x1xf32>) -> tensor<2x3x6x5xf32>
        {CONV.replace("%x,", "%z,")}
        func.return %0 : {OUT}""", 2),
    "quotient before a product": ("%x: tensor<3x6xf32>", "tensor<3x8xf32>", """
        %y = graph.div %x, %w.six : (tensor<3x6xf32>, tensor<6xf32>) -> tensor<3x6xf32>
        %0 = graph.matmul %y, %w.mat : (tensor<3x6xf32>, tensor<6x8xf32>) -> tensor<3x8xf32>
        func.return %0 : tensor<3x8xf32>""", 1),
    "point by point after": (IMAGE, "tensor<2x5x6x5xf32>", f"""
        {CONV}
        %1 = graph.add %0, %w.cc : ({OUT}, tensor<4x1x1xf32>) -> {OUT}
        %2 = graph.conv %1, %w.point bias %w.five
            : ({OUT}, tensor<5x4x1x1xf32>, tensor<5xf32>) -> tensor<2x5x6x5xf32>
        func.return %2 : tensor<2x5x6x5xf32>""", 2),
    "product": ("%x: tensor<2x3x6xf32>", "tensor<2x3x8xf32>", """
        %f = graph.constant dense<3.0> : tensor<f32>
        %0 = graph.matmul %x, %w.mat : (tensor<2x3x6xf32>, tensor<6x8xf32>) -> tensor<2x3x8xf32>
        %1 = graph.add %0, %w.row : (tensor<2x3x8xf32>, tensor<8xf32>) -> tensor<2x3x8xf32>
        %2 = graph.mul %1, %w.row : (tensor<2x3x8xf32>, tensor<8xf32>) -> tensor<2x3x8xf32>
        %3 = graph.mul %2, %f : (tensor<2x3x8xf32>, tensor<f32>) -> tensor<2x3x8xf32>
        func.return %3 : tensor<2x3x8xf32>""", 2),
    "transposed product": ("%x: tensor<3x6xf32>", "tensor<3x8xf32>", """
        %y = graph.mul %x, %w.six : (tensor<3x6xf32>, tensor<6xf32>) -> tensor<3x6xf32>
        %0 = graph.matmul %y, %w.tam transpose_rhs true
            : (tensor<3x6xf32>, tensor<8x6xf32>) -> tensor<3x8xf32>
        %1 = graph.div %0, %w.row : (tensor<3x8xf32>, tensor<8xf32>) -> tensor<3x8xf32>
        func.return %1 : tensor<3x8xf32>""", 1),
    "product of a product": ("%x: tensor<4x6xf32>", "tensor<4x3xf32>", """
        %0 = graph.matmul %x, %w.tam transpose_rhs true
            : (tensor<4x6xf32>, tensor<8x6xf32>) -> tensor<4x8xf32>
        %1 = graph.add %0, %w.row : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
        %2 = graph.matmul %1, %w.next : (tensor<4x8xf32>, tensor<8x3xf32>) -> tensor<4x3xf32>
        func.return %2 : tensor<4x3xf32>""", 2),
}  # fmt: skip


def outputs(module: ModuleOp) -> list[Any]:
    payload = RandomPayload(module, seed=1)
    return list(Session(module, payload).run(random_inputs(module)).values())


def prepared(module: ModuleOp) -> list[TensorOp]:
    """The ops that are left to run once the weights are prepared."""
    PrepareWeightsPass().apply(Context(), module)
    EliminateDeadCodePass().apply(Context(), module)
    found = (op for op in next(iter(module.ops)).walk() if isinstance(op, TensorOp))
    return [op for op in found if not isinstance(op, ConstantOp)]


@pytest.mark.parametrize("name", CASES)
def test_numbers_agree(name: str):
    arguments, results, body, left = CASES[name]
    before = outputs(main(arguments, results, body))
    module = main(arguments, results, body)
    fold = FoldBatchNormPass()
    fold.apply(context(), module)
    module.verify()
    relation: Relation = fold.RELATION
    after = outputs(module)
    for a, b in zip(before, after, strict=True):
        assert relation.difference(a, b) is None
    assert len(prepared(module)) == left, module


@pytest.mark.parametrize("name", CASES)
def test_exact_rules_keep_every_bit(name: str):
    arguments, results, body, _ = CASES[name]
    before = outputs(main(arguments, results, body))
    module = main(arguments, results, body)
    FoldBatchNormPass(exact=True).apply(context(), module)
    module.verify()
    assert not any(isinstance(op, BatchNormOp) for op in module.walk())
    for a, b in zip(before, outputs(module), strict=True):
        assert np.array_equal(a, b)


@pytest.mark.parametrize(
    "body",
    [
        # the convolution is used twice
        f"""{CONV}
        %1 = {norm("%0", OUT)}
        %2 = graph.add %0, %1 : ({OUT}, {OUT}) -> {OUT}
        func.return %2 : {OUT}""",
        # the weight is used twice
        f"""{CONV}
        %1 = {norm("%0", OUT)}
        {CONV.replace("%0", "%2")}
        %3 = graph.add %1, %2 : ({OUT}, {OUT}) -> {OUT}
        func.return %3 : {OUT}""",
    ],
)
def test_what_others_need_stays(body: str):
    module = main(IMAGE, OUT, body)
    FoldBatchNormPass().apply(context(), module)
    assert any(isinstance(op, g.MulOp) for op in prepared(module))
