"""Layers in simpler ops: the same numbers as their kernels, and programs for all launches."""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from tile_lowering import compare
from writing import agree, normal, op_names, run

from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context
from ge.transforms.graph.expand_layers import ExpandLayersPass

GATES = {"rnn": 1, "gru": 3, "lstm": 4}
Sizes = tuple[int, int, int, int]


def shapes_of(name: str, sizes: Sizes, both: bool) -> list[tuple[int, ...]]:
    """Of input, weights, recurrence, bias and initial states."""
    steps, batch, size, hidden = sizes
    d, gates = 1 + both, GATES[name] * hidden
    states = 2 if name == "lstm" else 1
    return [
        (steps, batch, size),
        (d, gates, size),
        (d, gates, hidden),
        (d, 2 * gates),
        *[(d, batch, hidden)] * states,
    ]


def layer(
    name: str,
    sizes: Sizes,
    direction: str,
    options: str = "",
    start: bool = True,
    kind: str = "f32",
) -> str:
    steps, batch, _, hidden = sizes
    both = direction == "bidirectional"
    types = [f"tensor<{'x'.join(map(str, s))}x{kind}>" for s in shapes_of(name, sizes, both)]
    arguments = ", ".join(f'%in{i}: {t} {{graph.name = "in{i}"}}' for i, t in enumerate(types))
    d = 1 + both
    last = f"tensor<{d}x{batch}x{hidden}x{kind}>"
    results = [f"tensor<{steps}x{d}x{batch}x{hidden}x{kind}>", *[last] * (len(types) - 4)]
    h, cell = (" initial_state %in4", " initial_cell %in5") if start else ("", "")
    cell = cell if name == "lstm" else ""
    named = ", ".join(f'{t} {{graph.name = "out{i}"}}' for i, t in enumerate(results))
    names = ", ".join(f"%r{i}" for i in range(len(results)))
    wanted = f"direction {direction}{options}"
    return f"""
func.func @main({arguments}) -> ({named}) {{
  {names} = graph.{name} %in0, %in1, %in2 bias %in3{h}{cell} {wanted}
    : ({", ".join([*types[:4], *[last] * (bool(h) + bool(cell))])}) -> ({", ".join(results)})
  func.return {names} : {", ".join(results)}
}}"""


@settings(deadline=None)
@given(
    st.sampled_from(["rnn", "gru", "lstm"]),
    st.tuples(st.integers(1, 5), st.integers(1, 4), st.integers(1, 6), st.integers(1, 7)),
    st.sampled_from(["forward", "reverse", "bidirectional"]),
    st.booleans(),
    st.booleans(),
)
def test_any_layer(name: str, sizes: Sizes, direction: str, start: bool, flag: bool) -> None:
    own = {"gru": " linear_before_reset true", "lstm": " input_forget true"}
    options = own.get(name, "") if flag else ""
    text = layer(name, sizes, direction, options, start)
    module = parse_module(context(), SourceText("test", text))
    arrays = [normal(*s, seed=i) for i, s in enumerate(shapes_of(name, sizes, direction[0] == "b"))]
    before = run(module, *arrays)
    ExpandLayersPass().apply(context(), module)
    module.verify()
    agree(before, run(module, *arrays), 1e-5)
    assert name not in op_names(module)


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ("910b2", "f32"),
        ("310p3", "f16"),
        pytest.param("910b2", "f16", marks=pytest.mark.soak),
        pytest.param("310p3", "f32", marks=pytest.mark.soak),
    ],
)
@pytest.mark.parametrize("name", ["rnn", "gru", "lstm"])
def test_all_launches_have_programs(name: str, target: str, kind: str) -> None:
    text = layer(name, (6, 4, 32, 48), "bidirectional", kind=kind)
    compare(text, target, all_lowered=True, tiles=True)


@pytest.mark.parametrize(
    "name",
    ["affine", "scaled_tanh", "hard_sigmoid", "leaky_relu", "elu", "softsign", "softplus", "relu"],
)
def test_other_activations(name: str) -> None:
    """With their parameters, and a limit of what goes into them."""
    parameters = "alphas [0.3] betas [0.6] clip 0.7"
    sizes = 3, 2, 4, 5
    text = layer("rnn", sizes, "forward", f" activations [{name}] {parameters}")
    module = parse_module(context(), SourceText("test", text))
    arrays = [normal(*s, seed=i) for i, s in enumerate(shapes_of("rnn", sizes, False))]
    before = run(module, *arrays)
    ExpandLayersPass().apply(context(), module)
    agree(before, run(module, *arrays), 1e-5)
    assert "rnn" not in op_names(module)


def test_what_stays_a_layer() -> None:
    text = layer("rnn", (3, 2, 4, 5), "forward", " activations [thresholded_relu]")
    module = parse_module(context(), SourceText("test", text))
    ExpandLayersPass().apply(context(), module)
    assert op_names(module) == ["rnn"]


@pytest.mark.parametrize("target", ["910b2", "310p3"])
@pytest.mark.parametrize("element", ["f32", "i32"])
@pytest.mark.parametrize(
    ("shape", "axis", "k"), [((1, 50257), 1, 5), ((3, 10001), 1, 40), ((70, 5, 6), 0, 3)]
)
def test_the_largest_anywhere(
    target: str, element: str, shape: tuple[int, ...], axis: int, k: int
) -> None:
    """Of long rows, in parts, and along other dimensions; many elements are equal."""
    found = "x".join(str(k if i == axis else d) for i, d in enumerate(shape))
    x, y = f"tensor<{'x'.join(map(str, shape))}x{element}>", f"tensor<{found}x"
    text = f"""
func.func @main(%in0: {x} {{graph.name = "in0"}})
    -> ({y}{element}> {{graph.name = "out0"}}, {y}i64> {{graph.name = "out1"}}) {{
  %v, %i = graph.top_k %in0 k {k} axis {axis} : ({x}) -> ({y}{element}>, {y}i64>)
  func.return %v, %i : {y}{element}>, {y}i64>
}}"""
    module = parse_module(context(), SourceText("test", text))
    numbers = np.random.default_rng(k).integers(-50, 50, shape)
    array = numbers.astype(np.float32 if element == "f32" else np.int32)
    before = run(module, array)
    ExpandLayersPass().apply(context(), module)
    module.verify()
    for got, want in zip(run(module, array), before, strict=True):
        np.testing.assert_array_equal(got, want)
    compare(text, target, all_lowered=True, exact=True, tiles=True)


@pytest.mark.parametrize("target", ["910b2", "310p3"])
@pytest.mark.parametrize("size", [1, 2, 5, 8])
def test_local_response_normalization(target: str, size: int) -> None:
    x = "tensor<2x12x9x7xf32>"
    options = f"size {size} alpha 0.02 beta 0.75 bias 2.0"
    text = f"""
func.func @main(%in0: {x} {{graph.name = "in0"}}) -> ({x} {{graph.name = "out0"}}) {{
  %0 = graph.lrn %in0 {options} : ({x}) -> {x}
  func.return %0 : {x}
}}"""
    module = parse_module(context(), SourceText("test", text))
    array = normal(2, 12, 9, 7, seed=size)
    before = run(module, array)
    ExpandLayersPass().apply(context(), module)
    module.verify()
    agree(before, run(module, array), 1e-5)
    compare(text, target, all_lowered=True, tiles=True)


@settings(deadline=None)
@given(st.data())
def test_transposed_convolutions_of_stride_1(data: st.DataObject) -> None:
    """Any kernel, dilation, pads and groups; a stride, or more pads than a kernel has, stay."""
    rank, groups = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 2))

    def numbers(low: int, high: int) -> list[int]:
        return data.draw(st.lists(st.integers(low, high), min_size=rank, max_size=rank))

    image, kernel, dilations = numbers(3, 7), numbers(1, 4), numbers(1, 2)
    strides = numbers(1, 2) if data.draw(st.booleans()) else [1] * rank
    begin, end = numbers(0, 3), numbers(0, 3)
    ins, outs = data.draw(st.integers(1, 3)) * groups, data.draw(st.integers(1, 3))
    dims = zip(image, kernel, dilations, strides, begin, end, strict=True)
    sizes = [(n - 1) * s + (k - 1) * d + 1 - a - b for n, k, d, s, a, b in dims]
    assume(min(sizes) >= 1)

    def tensor(*shape: int) -> str:
        return f"tensor<{'x'.join(map(str, shape))}xf32>"

    x, w, y = tensor(2, ins, *image), (ins, outs, *kernel), tensor(2, outs * groups, *sizes)
    weights, bias = normal(*w, seed=1).tolist(), normal(outs * groups, seed=2).tolist()
    flags = f"strides {strides} pads {begin + end} dilations {dilations}"
    b = tensor(outs * groups)
    text = f"""
func.func @main(%in0: {x} {{graph.name = "in0"}}) -> ({y} {{graph.name = "out0"}}) {{
  %w = graph.constant dense<{weights}> : {tensor(*w)}
  %b = graph.constant dense<{bias}> : {b}
  %0 = graph.conv_transpose %in0, %w bias %b {flags} group {groups}
      : ({x}, {tensor(*w)}, {b}) -> {y}
  func.return %0 : {y}
}}"""
    module = parse_module(context(), SourceText("test", text))
    array = normal(2, ins, *image, seed=3)
    before = run(module, array)
    ExpandLayersPass().apply(context(), module)
    module.verify()
    agree(before, run(module, array), 1e-5)
    pairs = zip(kernel, dilations, begin, end, strict=True)
    fits = all(max(a, b) <= (k - 1) * d for k, d, a, b in pairs)
    assert ("conv_transpose" in op_names(module)) != (fits and set(strides) == {1})


MOVES = {
    "backwards": ("slice %in0 starts [39] ends [-41] axes [1] steps [-1]", "9x40x30", "9x40x30"),
    "columns": ("slice %in0 starts [29] ends [3] axes [2] steps [-2]", "9x40x30", "9x40x13"),
    "both ways": (
        "slice %in0 starts [-1, 3, 2] ends [-99, -99, 30] axes [0, 1, 2] steps [-1, -3, 2]",
        "2x5x30",
        "2x2x14",
    ),
    "at numbers": ("gather %in0, %few axis 1", "49x60", "49x70"),
    "at more numbers": ("gather %in0, %more axis 2", "9x40x30", "9x40x5x4"),
}


@pytest.mark.parametrize("target", ["910b2", "310p3"])
@pytest.mark.parametrize("name", MOVES)
def test_what_is_moved_backwards_and_at_numbers(name: str, target: str) -> None:
    line, given, made = MOVES[name]
    x, y = f"tensor<{given}xf32>", f"tensor<{made}xf32>"
    indices = {"%few": "tensor<70xi64>", "%more": "tensor<5x4xi64>"}
    used = next((t for n, t in indices.items() if n in line), None)
    types = x if used is None else f"{x}, {used}"
    text = f"""
func.func @main(%in0: {x} {{graph.name = "in0"}}) -> ({y} {{graph.name = "out0"}}) {{
  %few = graph.constant dense<{[(7 * k) % 60 - 5 for k in range(70)]}> : tensor<70xi64>
  %more = graph.constant dense<{[[(7 * k + j) % 30 for j in range(4)] for k in range(5)]}>
    : tensor<5x4xi64>
  %0 = graph.{line} : ({types}) -> {y}
  func.return %0 : {y}
}}"""
    module = parse_module(context(), SourceText("test", text))
    array = normal(*map(int, given.split("x")), seed=1)
    before = run(module, array)
    ExpandLayersPass().apply(context(), module)
    module.verify()
    for got, want in zip(run(module, array), before, strict=True):
        np.testing.assert_array_equal(got, want)
    compare(text, target, all_lowered=True, exact=True, tiles=True)
