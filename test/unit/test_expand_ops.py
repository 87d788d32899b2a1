"""Ops without programs in ops that have them: of random operands the same numbers as their kernels,
and programs for all launches."""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "bench"))
from op_programs import modules
from random_graphs import op_classes
from tile_lowering import compare
from writing import op_names
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import Attribute

from ge.dialects.support.errors import GeError
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context
from ge.runtime.data.arrays import Array, float_limits, kind_of
from ge.runtime.data.weights import RandomPayload
from ge.runtime.device.random_inputs import random_array, random_inputs
from ge.runtime.device.session import Session
from ge.runtime.device.tiled import differs
from ge.transforms.fusion.expand_attention import ExpandAttentionPass
from ge.transforms.graph.expand_layers import ExpandLayersPass

OPS = {op.name.removeprefix("graph."): op for op in op_classes()}
EXPANDED = """
affine_grid attention_scores col2im conv deform_conv det dft gather grid_sample gru lstm
max_pool_indices max_roi_pool max_unpool pad reduce resize reverse_sequence roi_align
rotary_embedding scatter_elements stft
""".split()


def compare_numbers(module: ModuleOp, inputs: dict[str, Array] | None = None) -> list[str]:
    """Of a module before and after; the names of its ops then. Nothing is compared where random
    operands are none that the kernel takes, such as indices that are too large."""
    inputs, weights = inputs or random_inputs(module, 1), RandomPayload(module, 1)
    try:
        before = Session(module, weights).run(inputs)
    except GeError:
        return []
    for expand in (ExpandAttentionPass(), ExpandLayersPass()):
        expand.apply(context(), module)
    module.verify()
    after = Session(module, weights).run(inputs)
    for name, want in before.items():
        is_float = kind_of(want.dtype) == "f"
        tolerance = max(2e-5, 4 * float(float_limits(want.dtype).eps)) if is_float else None
        assert not differs(after[name], want, tolerance).any(), (name, after[name], want)
    return op_names(module)


@settings(max_examples=12, deadline=None)
@given(st.sampled_from(EXPANDED), st.integers(0, 10**6))
def test_random_ops(name: str, seed: int) -> None:
    for _, module in modules(OPS[name], [seed]):
        compare_numbers(module)


@pytest.mark.parametrize(("mode", "axis"), [("reflect", 2), ("edge", 2), ("wrap", 1)])
def test_wide_pads(mode: str, axis: int) -> None:
    """Around signals and around rows."""
    x, y = "tensor<2x40x30xf32>", "tensor<2x60x30xf32>" if axis == 1 else "tensor<2x40x50xf32>"
    text = f"""
func.func @main(%x: {x} {{graph.name = "x"}}) -> ({y} {{graph.name = "y"}}) {{
  %0 = graph.pad %x pads [19, 1] axes [{axis}] mode {mode} : ({x}) -> {y}
  func.return %0 : {y}
}}"""
    assert "pad" not in compare_numbers(parse_module(context(), SourceText("test", text)))
    compare(text, all_lowered=True, exact=True, tiles=True)


@pytest.mark.parametrize("ratio", [0, 2])
@pytest.mark.parametrize("half", ["true", "false"])
def test_regions_of_all_sizes(half: str, ratio: int) -> None:
    """Smaller than an element and larger than the image, turned round, and beside it."""
    rng = np.random.default_rng(0)
    x, r, y = "tensor<2x3x9x13xf32>", "tensor<60x4xf32>", "tensor<60x3x3x4xf32>"
    text = f"""
func.func @main(%x: {x} {{graph.name = "x"}}, %r: {r} {{graph.name = "r"}},
    %b: tensor<60xi64> {{graph.name = "b"}}) -> ({y} {{graph.name = "y"}}) {{
  %0 = graph.roi_align %x, %r, %b output_size [3, 4] spatial_scale 0.5
    half_pixel {half} sampling_ratio {ratio}
    : ({x}, {r}, tensor<60xi64>) -> {y}
  func.return %0 : {y}
}}"""
    rois = rng.standard_normal((60, 4)) * rng.choice([1, 10, 60], (60, 1))
    rois[:30, 2:] = rois[:30, :2] + np.abs(rois[:30, 2:])
    image = rng.standard_normal((2, 3, 9, 13)).astype(np.float32)
    inputs = {"x": image, "r": rois.astype(np.float32), "b": rng.integers(-2, 2, 60)}
    assert "roi_align" not in compare_numbers(
        parse_module(context(), SourceText("test", text)), inputs
    )


@pytest.mark.parametrize("aligned", ["true", "false"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("size", [1, 6])
def test_grids_and_images_of_extremes(mode: str, padding: str, aligned: str, size: int) -> None:
    """Infinite elements count where their weights are not 0, and there alone."""
    x, k, y = f"tensor<1x20x{size}xf32>", "tensor<1x40x1xf32>", "tensor<1x20x40xf32>"
    flags = f"mode {mode} padding_mode {padding} align_corners {aligned}"
    text = f"""
func.func @main(%x: {x} {{graph.name = "x"}}, %k: {k} {{graph.name = "k"}})
    -> ({y} {{graph.name = "y"}}) {{
  %0 = graph.grid_sample %x, %k {flags} : ({x}, {k}) -> {y}
  func.return %0 : {y}
}}"""

    def make(rng: np.random.Generator, element: Attribute, shape: Sequence[int]) -> Array:
        array = random_array(rng, element, shape)
        if array.dtype.kind == "f":
            some = array.reshape(-1)[::3]
            some[:] = rng.choice([np.nan, np.inf, -np.inf, 3e38, -1, 0, 1], some.size)
        return array

    rng = np.random.default_rng(0)
    inputs = {n: make(rng, f32, shape) for n, shape in (("x", (1, 20, size)), ("k", (1, 40, 1)))}
    module = parse_module(context(), SourceText("test", text))
    assert "graph.grid_sample" not in compare_numbers(module, inputs)
    compare(text, all_lowered=True, tiles=True, make=make)
