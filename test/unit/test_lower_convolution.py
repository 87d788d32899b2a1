"""Tile programs of convolutions, against the bodies of their kernels."""

import sys
from collections.abc import Callable
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from xdsl.ir import Attribute

from ge.dialects.graph.convolution import ConvOp
from ge.dialects.targets.target import Target
from ge.dialects.text.reading import SourceText, parse_module
from ge.dialects.tile.compute import MmadOp
from ge.lowering.driver.compiler import context
from ge.runtime.cores.kernel import TileKernel
from ge.runtime.device.random_inputs import random_array
from ge.runtime.library.convolution import blocks, convolution
from ge.runtime.library.convolution.cuts import (
    Candidates,
    ConvolutionCut,
    ConvolutionProblem,
    Sizes,
    block_sizes,
    cuts,
    least_cycles,
)
from ge.runtime.library.launch import fastest

sys.path.insert(0, str(Path(__file__).parent))
from tile_lowering import compare, lowered

Shape = tuple[int, ...]


def tensor(shape: Shape, element: str) -> str:
    return f"tensor<{'x'.join(map(str, shape))}x{element}>"


def conv(
    x: Shape,
    w: Shape,
    out: Shape,
    flags: str = "",
    element: str = "f32",
    bias: bool = True,
    after: str = "",
) -> str:
    """`after`: ops on %0, whose type is T, with %r of that type and %s for each channel; the last
    one is %1."""
    result = tensor(out, "i32" if element == "i8" else element)
    types = [tensor(x, element), tensor(w, element), tensor(w[:1], element), result]
    column = tensor((1, out[1], *(1 for _ in out[2:])), element)
    given_bias, bias_type = (" bias %b", f", {types[2]}") if bias else ("", "")
    arguments = zip("xwbrs", (*types, column), strict=True)
    used = [f"%{n}: {t}" for n, t in arguments if f"%{n}" in f"%x %w {given_bias} {after}"]
    after = after.replace("T", result).replace("S", column)
    return (
        f"func.func @main({', '.join(used)}) -> {result} {{\n"
        f"  %0 = graph.conv %x, %w{given_bias} {flags} : ({types[0]}, {types[1]}{bias_type})"
        f" -> {result}\n{after}\n  func.return {'%1' if after else '%0'} : {result}\n}}"
    )


def unfolding(w: ConvolutionProblem, target: Target) -> list[Sizes]:
    """Blocks whose windows are unfolded in L1, but for where no cut of such blocks fits."""
    found = list(block_sizes(w, target))
    return [b for b in found if b.image and any(cuts(w, target, b))] or found


def blocks_of(way: Callable[..., Any]) -> Any:
    """A context in which blocks are chosen among these."""

    def found(search: Candidates) -> ConvolutionCut | None:
        w, target = search.w, search.target
        blocks = way(w, target)
        return fastest((cut for b in blocks for cut in cuts(w, target, b)), search.cycles)

    return patch.object(Candidates, "fastest", found)


@pytest.mark.parametrize("way", [block_sizes, unfolding])
@settings(max_examples=settings().max_examples // 5)
@given(st.data())
def test_numbers(way: Callable[..., Any], data: st.DataObject) -> None:
    """Any kernel, stride, dilation, pads, groups, with ragged ends of each."""
    rank = data.draw(st.sampled_from([2, 2, 3]))

    def numbers(low: int, high: int) -> list[int]:
        return data.draw(st.lists(st.integers(low, high), min_size=rank, max_size=rank))

    kernel, strides, dilations = numbers(1, 4 if rank == 2 else 3), numbers(1, 3), numbers(1, 2)
    begin, end, image = numbers(0, 2), numbers(0, 2), numbers(3, 30 if rank == 2 else 9)
    batch, group = data.draw(st.sampled_from([(1, 1), (2, 1), (1, 3)]))
    ins, outs = numbers(1, 24)[:2]
    both = zip(image, begin, end, kernel, dilations, strides, strict=True)
    result = tuple((d + a + b - (k - 1) * n - 1) // s + 1 for d, a, b, k, n, s in both)
    assume(min(result) >= 1)
    element, bias = data.draw(st.sampled_from(["f16", "f32", "i8"])), data.draw(st.booleans())
    flags = f"strides {strides} pads {begin + end} dilations {dilations} group {group}"
    x, w = (batch, ins * group, *image), (outs * group, ins, *kernel)
    out = batch, outs * group, *result
    text = conv(x, w, out, flags, element, bias and element != "i8")
    with blocks_of(way):
        compare(text, all_lowered=True, proved=group == 1)


def test_an_element_of_the_kernel_may_lie_in_the_padding_alone() -> None:
    flags = "strides [1, 1, 1] pads [0, 0, 0, 0, 0, 1] dilations [1, 1, 2]"
    text = conv((1, 1, 3, 3, 4), (1, 1, 1, 1, 3), (1, 1, 3, 3, 1), flags, "f16")
    with blocks_of(unfolding):
        compare(text, all_lowered=True)


FIRST = ("keep-channels-last",)  # left out: channels come first
AFTER = {
    "relu": "%1 = graph.relu %0 : (T) -> T",
    "residual": "%2 = graph.add %0, %r : (T, T) -> T\n%1 = graph.relu %2 : (T) -> T",
    "scaled": "%2 = graph.mul %0, %s : (T, S) -> T\n%1 = graph.neg %2 : (T) -> T",
}


@pytest.mark.parametrize(
    ("after", "way"),
    [
        ("residual", unfolding),
        ("scaled", block_sizes),
        *(pytest.param("relu", way, marks=pytest.mark.soak) for way in (block_sizes, unfolding)),
        pytest.param("residual", block_sizes, marks=pytest.mark.soak),
        pytest.param("scaled", unfolding, marks=pytest.mark.soak),
    ],
)
def test_ops_on_the_result(after: str, way: Callable[..., Any]) -> None:
    text = conv(
        (1, 20, 5, 9), (40, 20, 3, 3), (1, 40, 5, 9), "pads [1, 1, 1, 1]", after=AFTER[after]
    )
    with blocks_of(way):
        compare(text, all_lowered=True, orders=1)


@pytest.mark.parametrize("target", ["910b2", pytest.param("910_merged", marks=pytest.mark.soak)])
@pytest.mark.parametrize("after", ["", *AFTER.values()])
def test_the_fastest_cut_that_fits_is_taken(after: str, target: str) -> None:
    """Also where blocks are left out that cannot be the fastest, and where the search asks no more
    of a cut than how long its cube takes."""
    searches, found = list[Candidates](), Candidates.fastest

    def watched(search: Candidates) -> ConvolutionCut | None:
        searches.append(search)
        return found(search)

    text = conv((1, 40, 14, 18), (70, 40, 3, 3), (1, 70, 14, 18), "pads [1, 1, 1, 1]", after=after)
    with patch.object(Candidates, "fastest", watched):
        lowered(text, target)
    assert searches
    for search in searches:
        assert is_fastest(search)


def is_fastest(search: Candidates) -> bool:
    least = min(map(search.cycles, search.cuts()), default=inf)
    cut = search.fastest()
    return least == inf if cut is None else search.cycles(cut) == least


@given(st.data())
def test_no_fastest_cut_is_left_out(data: st.DataObject) -> None:
    """Of any convolution: what blocks take at least is no more than what any of their cuts does."""
    number = st.integers
    kernel, stride, size = (data.draw(number(1, most)) for most in (5, 3, 60))
    ins, outs = data.draw(number(1, 600)), data.draw(number(1, 600))
    last, turned, pad = data.draw(st.booleans()), data.draw(st.booleans()), kernel // 2
    element = data.draw(st.sampled_from(["f16", "f32", "i8"]))
    out = (size + 2 * pad - kernel) // stride + 1
    image = (1, size, size, ins) if last else (1, ins, size, size)
    flags = f"strides [{stride}, {stride}] pads [{pad}, {pad}, {pad}, {pad}]"
    flags += " input_channels_last true" if last else ""
    text = conv(image, (outs, ins, kernel, kernel), (1, outs, out, out), flags, element, bias=False)
    module = parse_module(context(), SourceText("a convolution", text))
    op = next(op for op in module.walk() if isinstance(op, ConvOp))
    target = Target.load(data.draw(st.sampled_from(["910b2", "310p3"])))
    w = ConvolutionProblem.of(op, turned)
    if data.draw(st.booleans()) and not turned:
        w = replace(w, passing=2, pixel_bits=128, columns=1)
    search = Candidates(w, target)
    assert is_fastest(search)
    for sizes in block_sizes(w, target):
        bound = least_cycles(w, sizes, target)
        assert all(bound <= search.cycles(cut) * (1 + 1e-9) for cut in cuts(w, target, sizes))


@pytest.mark.parametrize(
    ("element", "strides"),
    [
        ("f16", 1),
        ("i8", 2),
        pytest.param("f16", 2, marks=pytest.mark.soak),
        pytest.param("i8", 1, marks=pytest.mark.soak),
    ],
)
def test_windows_of_an_image_with_channels_last(element: str, strides: int) -> None:
    """They are unfolded of what is loaded: there are no vector cores."""
    out = 2, 24, 7 // strides + 1, 10 // strides + 1
    flags = f"strides [{strides}, {strides}] pads [0, 1, 1, 1] input_channels_last true"
    text = conv((2, 9, 11, 40), (24, 40, 3, 3), out, flags, element, False)
    ((_, program),) = compare(text, all_lowered=True, orders=1).pairs
    assert program.vector is None


@pytest.mark.parametrize("target", ["910b2", "310p3"])
@pytest.mark.parametrize("pads", [[2, 0], [0, 3], [2, 1]])
@pytest.mark.parametrize("last", [False, True])
def test_single_elements_with_zeros_around(last: bool, pads: list[int], target: str) -> None:
    """A window of one element is not where it would be without pads."""
    out, flag = 8 + sum(pads), " input_channels_last true" if last else ""
    x = "5x8x5" if last else "5x5x8"
    text = f"""
func.func @main(%x: tensor<{x}xf32>, %w: tensor<3x5x1xf32>) -> tensor<5x3x{out}xf32> {{
  %0 = graph.conv %x, %w pads {pads}{flag}
      : (tensor<{x}xf32>, tensor<3x5x1xf32>) -> tensor<5x3x{out}xf32>
  func.return %0 : tensor<5x3x{out}xf32> }}"""
    compare(text, target, all_lowered=True)
    image = (
        text.replace("x8x5xf32", "x6x8x5xf32") if last else text.replace("x5x8xf32", "x5x6x8xf32")
    )
    image = image.replace("3x5x1xf32", "3x5x1x1xf32").replace(f"3x{out}x", f"3x9x{out}x")
    compare(image.replace(f"{pads}", f"[1, {pads[0]}, 2, {pads[1]}]"), target, all_lowered=True)


@pytest.mark.parametrize("target", ["910b2", "310p3"])
def test_an_input_that_is_the_weight_is_not_lowered(target: str) -> None:
    """One argument would have the shape of the other one."""
    x = "tensor<2x2x3x3xf32>"
    text = f"""
func.func @main(%x: {x}) -> {x} {{
  %0 = graph.conv %x, %x pads [1, 1, 1, 1] : ({x}, {x}) -> {x}
  func.return %0 : {x} }}"""
    found = lowered(text, target, fusion_disable=FIRST)
    assert not found.pairs
    assert any("its input is its weight" in reason for reason in found.reasons)
    compare(text, target, all_lowered=True)  # with channels last they are two


def test_strides_are_taken_where_windows_are_unfolded() -> None:
    """Elements that do not lie side by side would take 32 bytes each: 33 microseconds in all."""
    flags = "strides [2, 2] pads [3, 3, 3, 3]"
    text = conv((1, 3, 224, 224), (64, 3, 7, 7), (1, 64, 112, 112), flags, "f16")
    ((_, program),) = (found := lowered(text, fusion_disable=FIRST)).pairs
    time = TileKernel(program, found.target).time()
    assert time.kind == "mixed"
    assert time.core_us < 8


def test_integers_are_padded_with_their_zero_point() -> None:
    flags = "pads [1, 1, 1, 1] pad_value 5"
    text = conv((1, 5, 6, 6), (8, 5, 3, 3), (1, 8, 6, 6), flags, "i8", False)
    compare(text, all_lowered=True, exact=True)


def test_one_dimension() -> None:
    compare(conv((2, 6, 50), (9, 6, 5), (2, 9, 46)), all_lowered=True)


@pytest.mark.parametrize("target", ["910b2", "310p3"])
@pytest.mark.parametrize("after", [pytest.param("relu", marks=pytest.mark.soak), "scaled"])
def test_three_dimensions(after: str, target: str) -> None:
    """Each plane of the result is an image of its own."""
    out, flags = (2, 20, 2, 2, 9), "strides [2, 1, 1] pads [1, 0, 1, 1, 0, 1]"
    text = conv((2, 6, 4, 3, 9), (20, 6, 3, 2, 3), out, flags, after=AFTER[after])
    compare(text, target, all_lowered=True, orders=1)


def test_one_element_of_three_dimensions() -> None:
    """All planes are one line."""
    text = conv((1, 20, 3, 4, 9), (24, 20, 1, 1, 1), (1, 24, 3, 4, 9))
    ((_, program),) = compare(text, all_lowered=True).pairs
    assert "memref<1x24x1x108xf32>" in str(program)


def test_a_window_of_one_element_takes_as_long_as_a_matmul() -> None:
    text = conv((1, 512, 32, 32), (512, 512, 1, 1), (1, 512, 32, 32), element="f16", bias=False)
    found = lowered(text)
    ((_, program),) = found.pairs
    assert TileKernel(program, found.target).time().total_us < 1.7 + 4.0


def test_an_operand_for_each_image_and_channel() -> None:
    after = "%1 = graph.add %0, %s : (T, S) -> T"
    text = conv((2, 8, 5, 6), (20, 8, 3, 3), (2, 20, 3, 4), after=after)
    column = tensor((2, 20, 1, 1), "f32")
    compare(text.replace(tensor((1, 20, 1, 1), "f32"), column), all_lowered=True)


@pytest.mark.parametrize("element", ["f16", "i8"])
def test_channels_of_the_input_are_last(element: str) -> None:
    x, w, out = (2, 5, 7, 40), (24, 40, 1, 1), (2, 24, 5, 7)
    flags = "input_channels_last true"
    compare(conv(x, w, out, flags, element, element == "f16"), all_lowered=True)


@pytest.mark.parametrize(
    ("kernel", "relu"),
    [
        (1, False),
        (3, True),
        pytest.param(1, True, marks=pytest.mark.soak),
        pytest.param(3, False, marks=pytest.mark.soak),
    ],
)
def test_channels_of_the_result_are_last(kernel: int, relu: bool) -> None:
    """A transposition is on the way out."""
    x, w = (2, 20, 9, 11), (24, 20, kernel, kernel)
    out = (2, 24, 10 - kernel, 12 - kernel)
    result, turned = tensor(out, "f32"), tensor((out[0], *out[2:], out[1]), "f32")
    flags = "strides [1, 1]"
    text = conv(x, w, out, flags, after="%1 = graph.relu %0 : (T) -> T" if relu else "")
    last = "%1" if relu else "%0"
    kernel_text = (
        f"  %9 = graph.transpose {last} permutation [0, 2, 3, 1] : ({result}) -> {turned}\n"
        f"  func.return %9 : {turned}"
    )
    text = text.replace(f"  func.return {last} : {result}", kernel_text)
    found = compare(text.replace(f"-> {result} {{", f"-> {turned} {{"), all_lowered=True)
    assert len(found.pairs) == 1


@pytest.mark.parametrize(
    ("group", "way"),
    [
        (20, block_sizes),
        (1, unfolding),
        pytest.param(1, block_sizes, marks=pytest.mark.soak),
        pytest.param(20, unfolding, marks=pytest.mark.soak),
    ],
)
def test_integers_with_bias_and_scales(group: int, way: Callable[..., Any]) -> None:
    """On the cube, or on vector cores where each channel is one of its own; the bias and the scales
    of channels are on vector cores."""
    x, w, out = "tensor<2x20x6x7xi8>", f"tensor<20x{20 // group}x3x3xi8>", "tensor<2x20x3x4x"
    types = f"{x}, {w}, tensor<20xi32>, tensor<20xf32>"
    results = f"{out}i32>, {out}i8>"
    text = f"""func.func @main(%x: {x}, %w: {w}, %b: tensor<20xi32>, %s: tensor<20xf32>) -> ({results}) {{
  %z = graph.constant dense<-7> : tensor<i8>
  %r, %q = fused_op.conv(%x, %w, %b, %s, %z) : ({types}, tensor<i8>) -> ({results}) {{
  ^bb0(%0: {x}, %1: {w}, %2: tensor<20xi32>, %3: tensor<20xf32>, %4: tensor<i8>):
    %5 = graph.conv %0, %1 bias %2 pad_value -5 group {group} strides [2, 2] pads [1, 1, 1, 1] : ({x}, {w}, tensor<20xi32>) -> {out}i32>
    %6 = graph.requantize %5, %3 zero_point %4 to i8 axis 1 rounding float32 : ({out}i32>, tensor<20xf32>, tensor<i8>) -> {out}i8>
    fused_op.yield %5, %6 : {results}
  }}
  func.return %r, %q : {results}
}}"""  # noqa: E501

    def few(rng: np.random.Generator, element: Attribute, shape: Shape) -> Any:
        array = random_array(rng, element, shape)
        return abs(array) / 1000 if array.dtype == np.float32 else array

    with blocks_of(way):
        compare(text, all_lowered=True, exact=True, make=few, orders=1)


def joined(kernel: int, ops: bool, place: int, others: Shape, element: str = "f32") -> str:
    """A launch: a convolution, and its result among inputs of so many channels."""
    counts = [*others[:place], 32, *others[place:]]
    x, w, out = (
        tensor(t, element) for t in ((2, 20, 6, 9), (32, 20, kernel, kernel), (2, 32, 6, 9))
    )
    whole = tensor((2, sum(counts), 6, 9), element)
    inputs = [x, w, *(tensor((2, n, 6, 9), element) for n in others)]
    given = ", ".join(f"%a{i}: {t}" for i, t in enumerate(inputs))
    taken = ", ".join(f"%a{i}" for i in range(len(inputs)))
    names = [f"%b{i + 2}" for i in range(len(others))]
    names.insert(place, "%1" if ops else "%0")
    types = ", ".join(tensor((2, n, 6, 9), element) for n in counts)
    return f"""func.func @main({given}) -> {whole} {{
  %r = fused_op.conv({taken}) : ({", ".join(inputs)}) -> {whole} {{
  ^bb0({given.replace("%a", "%b")}):
    %0 = graph.conv %b0, %b1 pads {[kernel // 2] * 4} : ({x}, {w}) -> {out}
    {f"%1 = graph.neg %0 : ({out}) -> {out}" if ops else ""}
    %2 = graph.concat {", ".join(names)} axis 1 : ({types}) -> {whole}
    fused_op.yield %2 : {whole}
  }}
  func.return %r : {whole}
}}"""


@pytest.mark.parametrize(
    "text",
    [joined(3, True, 0, (20,)), joined(1, False, 1, (5, 48)), joined(3, False, 1, (7,), "f16")],
)
def test_a_result_among_other_channels(text: str) -> None:
    compare(text, all_lowered=True, orders=1)


REASONS = {
    "channels are last, and in groups": (
        conv(
            (1, 8, 8, 4),
            (8, 2, 3, 3),
            (1, 8, 6, 6),
            "group 2 input_channels_last true",
        ),
    ),
    "channels are last, and images have planes": (
        conv((1, 4, 4, 4, 8), (8, 8, 3, 3, 3), (1, 8, 2, 2, 2), "input_channels_last true"),
    ),
    "an input that is not in device memory": (
        """func.func @main(%w: tensor<1x1x1x1xf32>) -> tensor<1x1x1x1xf32> {
  %x = graph.constant dense<-1.68> : tensor<1x1x1x1xf32>
  %r = graph.conv %x, %w pads [0, 0, 0, 0] : (tensor<1x1x1x1xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x1x1xf32>
  func.return %r : tensor<1x1x1x1xf32>
}""",  # noqa: E501
    ),
    "4 spatial dimensions": (conv((1, 4, 4, 4, 4, 4), (8, 4, 2, 2, 2, 2), (1, 8, 3, 3, 3, 3)),),
}


@pytest.mark.parametrize("reason", REASONS)
def test_what_has_no_program(reason: str) -> None:
    found = lowered(REASONS[reason][0])
    assert not found.pairs
    assert any(reason in r for r in found.reasons)


@pytest.mark.parametrize(
    ("element", "channels", "flags", "after"),
    [
        ("f16", 32, "strides [2, 1] pads [1, 0, 2, 0]", ""),
        ("bf16", 16, "strides [1, 1] pads [2, 2, 2, 2]", AFTER["scaled"]),
        ("f32", 48, "strides [1, 1] dilations [1, 2]", AFTER["relu"]),
        ("f16", 58, "strides [2, 1] pads [1, 0, 2, 0]", AFTER["relu"]),  # groups of 29, not of 16
    ],
)
@pytest.mark.parametrize("target", ["910b2", "310p3"])
def test_single_channels_are_merged_on_the_cube(
    element: str, channels: int, flags: str, after: str, target: str
) -> None:
    """Where vector cores are slower: as if they had no program."""
    image = {"f16": (4, 7), "bf16": (9, 11), "f32": (5, 3)}[element]
    x, w, out = (2, channels, 9, 11), (channels, 1, 5, 5), (2, channels, *image)
    text = conv(x, w, out, f"{flags} group {channels}", element, after=after)
    with patch.object(convolution, "DEPTHWISE", (convolution.lower_merged,)):
        found = compare(text, target, all_lowered=True, orders=1, fusion_disable=FIRST)
    ((_, program),) = found.pairs
    assert any(isinstance(op, MmadOp) for op in program.walk())


@pytest.mark.parametrize("target", ["910b2", "310p3"])
def test_groups_of_few_channels_are_merged(target: str) -> None:
    """Of 8 groups of 4 to 2 channels all are one: 16 channels are those of 8 groups."""
    flags = "pads [1, 1, 1, 1] group 8"
    text = conv((2, 32, 9, 11), (16, 4, 3, 3), (2, 16, 9, 11), flags, "f16", after=AFTER["relu"])

    with patch.object(blocks, "merging_us", lambda *_: -1e9):  # as if it were the fastest
        found = compare(text, target, all_lowered=True, orders=1)
    assert any(op.name == "tile.barrier" for op in found.pairs[0][1].walk())


@pytest.mark.parametrize(("channels", "size", "is_merged"), [(256, 128, True), (32, 56, False)])
def test_large_images_of_single_channels_are_on_the_cube(
    channels: int, size: int, is_merged: bool
) -> None:
    """Where what a kernel with both kinds of cores starts later is made up for."""
    x, flags = (2, channels, size, size), f"pads [2, 2, 2, 2] group {channels}"
    ((_, program),) = lowered(conv(x, (channels, 1, 5, 5), x, flags, "f16", bias=False)).pairs
    assert any(isinstance(op, MmadOp) for op in program.walk()) == is_merged
