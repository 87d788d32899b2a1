"""Kernels that no cut fits: what the least block takes is said, and fits."""

import re
from dataclasses import replace

import pytest

from ge.dialects.support.functions import main_function
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.targets.target import Target
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context
from ge.runtime.library.asking import asked

TARGET = Target.load("910b2")
X, W = "tensor<64x96xf16>", "tensor<96x48xf16>"
IMAGE, K, D = "tensor<1x20x9x11xf16>", "tensor<24x20x3x3xf16>", "tensor<20x1x3x3xf16>"
KERNELS = {
    "matmul": (f"graph.matmul %x, %w : ({X}, {W}) -> tensor<64x48xf16>", X, W),
    "conv": (f"graph.conv %x, %w : ({IMAGE}, {K}) -> tensor<1x24x7x9xf16>", IMAGE, K),
    "depthwise": (
        f"graph.conv %x, %w group 20 : ({IMAGE}, {D}) -> tensor<1x20x7x9xf16>", IMAGE, D
    ),
}  # fmt: skip


def refusal(name: str, target: Target) -> str | None:
    line, x, w = KERNELS[name]
    y = line.rpartition("-> ")[2]
    text = f"func.func @main(%x: {x}, %w: {w}) -> {y} {{\n%0 = {line}\nfunc.return %0 : {y} }}"
    main = main_function(parse_module(context(), SourceText("test", text)))
    assert main is not None
    (op,) = (op for op in main.body.block.ops if isinstance(op, TensorOp))
    return asked(op, target).refusal


@pytest.mark.parametrize("memory", ["l1", "l0a", "l0b", "l0c"])
@pytest.mark.parametrize("name", ["matmul", "conv"])
def test_what_the_least_block_takes(name: str, memory: str):
    key = f"{memory}_bytes"
    told = refusal(name, replace(TARGET, **{key: 64, "ub_bytes": 64}))
    found = re.fullmatch(
        rf".*no block of it fits on a core: the least takes (\d+) bytes of {memory}, which has 64",
        told or "",
    )
    assert found is not None, told
    assert refusal(name, replace(TARGET, **{key: int(found[1])})) is None


def test_what_the_least_block_of_windows_takes():
    told = refusal("depthwise", replace(TARGET, ub_bytes=64, l0c_bytes=64)) or ""
    assert re.search(r"the least takes \d+ bytes of (ub|l0c), which has 64", told), told
