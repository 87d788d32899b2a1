"""Keys and values that are stored as integers until attention loads them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from ge.dialects.fused_op import Body, FlashAttentionOp, FusedOp
from ge.dialects.graph.quantization import DequantizeOp
from ge.dialects.targets.target import Target
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context, lower
from ge.lowering.pipeline.options import Options
from ge.runtime.check.proof import check_program
from ge.runtime.data.arrays import Array
from ge.runtime.device.session import Session
from ge.runtime.library.asking import estimated_times

TARGET = Target.load("910_merged")
MERGED = Options(target="910_merged")


def text(heads: int, queries: int, keys: int, size: int, by_head: bool = False) -> str:
    """@main: attention on keys and values of 8 bits, with a scale for all or for each head."""
    q = f"tensor<1x{heads}x{queries}x{size}xf16>"
    stored, k = (f"tensor<1x{heads}x{keys}x{size}x{t}>" for t in ("i8", "f16"))
    s, axis = (f"tensor<{heads}xf16>", " axis 1") if by_head else ("tensor<f16>", "")
    return f"""
func.func @main(%q: {q} {{graph.name = "q"}}, %k: {stored} {{graph.name = "k"}},
                %v: {stored} {{graph.name = "v"}}, %s: {s} {{graph.name = "s"}}) -> {q} {{
  %0 = graph.dequantize %k, %s{axis} : ({stored}, {s}) -> {k}
  %1 = graph.dequantize %v, %s{axis} : ({stored}, {s}) -> {k}
  %2 = graph.attention %q, %0, %1 : ({q}, {k}, {k}) -> {q}
  func.return %2 : {q}
}}
"""


def lowered(source: str, until: str = "program", options: Options | None = None) -> ModuleOp:
    module = parse_module(context(), SourceText("t.mlir", source))
    lower(module, options or Options(), until=until)
    return module


def launch(source: str) -> Body:
    module = lowered(source, "fused", MERGED)
    (op,) = (op for op in module.walk() if isinstance(op, FusedOp))
    return Body.of(op)


@settings(max_examples=settings().max_examples // 4)  # each is a compile
@given(
    st.sampled_from([1, 3]),
    st.sampled_from([1, 40, 300]),
    st.sampled_from([7, 64, 1000]),
    st.sampled_from([16, 40, 128]),
    st.booleans(),
    st.sampled_from(Target.presets()),
)
def test_plans_are_proved(
    heads: int, queries: int, keys: int, size: int, by_head: bool, target: str
) -> None:
    module = lowered(text(heads, queries, keys, size, by_head), options=Options(target=target))
    assert [str(p) for p in check_program(module).problems] == []


def test_attention_loads_integers():
    body = launch(text(32, 1, 2048, 128))
    one = body.static_work()
    assert one.read == 32 * 128 * 2 + 2 * 32 * 2048 * 128 + 2
    times = estimated_times(body, TARGET)
    assert times is not None
    # nor does the program move much more than what is read and written once
    assert one.read + one.written <= times.moved() < 1.2 * (one.read + one.written)


@pytest.mark.parametrize(("queries", "inside"), [(1, 2), (512, 0)])
def test_keys_of_many_queries_are_dequantized_before(queries: int, inside: int):
    """Once, not again for each tile of queries."""
    module = lowered(text(24, queries, 512, 64), "fused", MERGED)
    (op,) = (op for op in module.walk() if isinstance(op, FlashAttentionOp))
    assert sum(isinstance(member, DequantizeOp) for member in op.members) == inside


@pytest.mark.parametrize("by_head", [False, True])
def test_numbers_are_those_of_dequantizing_first(by_head: bool) -> None:
    rng, source = np.random.default_rng(0), text(3, 5, 70, 16, by_head)
    inputs: dict[str, Array] = {
        "q": rng.standard_normal((1, 3, 5, 16)).astype(np.float16),
        "k": rng.integers(-128, 128, (1, 3, 70, 16), np.int8),
        "v": rng.integers(-128, 128, (1, 3, 70, 16), np.int8),
        "s": (rng.random((3,) if by_head else ()) / 64).astype(np.float16),
    }
    one, other = (
        next(iter(Session(lowered(source, options=Options(fusion=mode))).run(inputs).values()))
        for mode in ("off", "default")
    )
    np.testing.assert_allclose(one, other, rtol=2e-3, atol=1e-3)
