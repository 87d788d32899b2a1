"""Attention that does not fit on a core: what is written out has the numbers of the op."""

import numpy as np
import pytest

import ge
from ge.dialects.graph.attention import AttentionOp
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context, lower
from ge.lowering.pipeline.options import Options
from ge.runtime.check.proof import check_program
from ge.runtime.data.arrays import Array
from ge.runtime.device.random_inputs import random_inputs
from ge.transforms.fusion import expand_attention

B, H, Q, S, E, V = 2, 4, 5, 7, 8, 6


def text(
    element: str = "f32", key_heads: int = H, mask: str = "", options: str = "", first: str = ""
) -> str:
    """Attention; operands and results in `first` have tokens before heads."""

    def of(name: str, heads: int, tokens: int, size: int) -> str:
        dims = (tokens, heads) if name in first else (heads, tokens)
        return f"tensor<{B}x{dims[0]}x{dims[1]}x{size}x{element}>"

    q, k = of("q", H, Q, E), of("k", key_heads, S, E)
    v, y = of("v", key_heads, S, V), of("y", H, Q, V)
    flags = {"q": "query", "k": "key", "v": "value", "y": "result"}
    given = [*(f"{flags[n]}_tokens_first true" for n in first), *([options] if options else [])]
    return f"""func.func @main(
        %q: {q}, %k: {k}, %v: {v} {f", %m: {mask}" if mask else ""}) -> ({y}) {{
      %y = graph.attention %q, %k, %v {"mask %m" if mask else ""} {" ".join(given)}
        : ({q}, {k}, {v}{f", {mask}" if mask else ""}) -> {y}
      func.return %y : {y}
    }}"""


@pytest.fixture
def nothing_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expand_attention, "refused", lambda *_: "it does not fit")


def sessions(source: str) -> tuple[ge.Session, ge.Session, dict[str, Array]]:
    """The op, and what is written out, neither of them lowered; inputs."""
    plain, module = (parse_module(context(), SourceText("test", source)) for _ in range(2))
    expand_attention.ExpandAttentionPass().apply(context(), module)
    assert not any(isinstance(op, AttentionOp) for op in module.walk())
    return ge.Session(plain), ge.Session(module), random_inputs(plain)


@pytest.mark.usefixtures("nothing_fits")
@pytest.mark.parametrize(
    "source",
    [
        text(),
        text(options="scale 0.3 softcap 1.5"),
        text(key_heads=2, mask=f"tensor<{B}x1x{Q}x{S}xf32>"),
        text(key_heads=1, mask=f"tensor<{H}x1x{S}xi1>", options="undefined nan"),
        text(mask=f"tensor<{Q}x{S}xi1>", options="undefined guard"),
        text(mask=f"tensor<{Q}x{S}xi1>", options="fill -1.0e+4"),
        text(first="qkvy", key_heads=2),
        text(first="k", mask=f"tensor<{S}xf32>"),
        text("f64", first="vy"),
        text("f16", mask=f"tensor<{B}x1x1x{S}xf16>"),
        text("bf16", key_heads=2),
    ],
)
def test_the_numbers_are_those_of_the_op(source: str):
    plain, expanded, inputs = sessions(source)
    (want,), (got,) = (s.run(inputs).values() for s in (plain, expanded))
    tolerance = {2: 2e-2, 4: 1e-5, 8: 1e-12}[want.dtype.itemsize]
    assert got.dtype == want.dtype
    np.testing.assert_allclose(
        np.asarray(got, float), np.asarray(want, float), rtol=tolerance, atol=tolerance
    )


@pytest.mark.usefixtures("nothing_fits")
@pytest.mark.parametrize("undefined", ["zero", "nan", "guard"])
@pytest.mark.parametrize("mask", ["f32", "i1"])
def test_rows_without_a_key_and_scores_that_are_no_numbers(undefined: str, mask: str):
    plain, expanded, inputs = sessions(
        text(mask=f"tensor<{Q}x{S}x{mask}>", options=f"undefined {undefined}")
    )
    _, key, _, masks = inputs.values()
    masks[1] = -np.inf if mask == "f32" else False
    key[0, 0, 3] = np.nan
    (want,), (got,) = (s.run(inputs).values() for s in (plain, expanded))
    assert np.isnan(want).any() == (undefined != "guard")
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("nothing_fits")
def test_low_rows_are_rounded_as_where_exporters_add_the_lowest_number():
    plain, expanded, inputs = sessions(text("f16", mask=f"tensor<{Q}x{S}xf16>"))
    list(inputs.values())[3][2] = np.finfo(np.float16).min
    (want,), (got,) = (s.run(inputs).values() for s in (plain, expanded))
    np.testing.assert_allclose(got.astype(float), want.astype(float), rtol=2e-3, atol=2e-3)


def test_attention_between_channels_compiles():
    """Heads that have an element for each pixel: tiles of the fused kernel hold whole rows."""
    shape = "tensor<1x2x32x3136xf32>"
    source = f"""func.func @main(%q: {shape}, %k: {shape}, %v: {shape}) -> {shape} {{
      %y = graph.attention %q, %k, %v : ({shape}, {shape}, {shape}) -> {shape}
      func.return %y : {shape}
    }}"""
    plain, module = (parse_module(context(), SourceText("test", source)) for _ in range(2))
    lower(module, Options())
    assert not check_program(module, None).problems
    before, after = ge.Session(plain), ge.Session(module)
    inputs = random_inputs(plain)
    (want,), (got,) = (s.run(inputs).values() for s in (before, after))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
