"""What vector cores compute of operands of matmuls may be copied: once for all blocks."""

import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from ge.dialects.npu_task.ops import LaunchOp
from ge.dialects.targets.target import Target
from ge.lowering.driver.compiler import compile_file
from ge.lowering.pipeline.options import Options
from ge.runtime.clock.clock import simulate
from ge.runtime.library.matmul import matmul

sys.path.insert(0, str(Path(__file__).parent))
from test_lower_matmul import linear, small
from tile_lowering import compare, lowered

EPILOGUES = ("none", "silu", "gate")


def weights(
    m: int, n: int, k: int, count: int, bits: int, turned: bool, block: int, epilogue: str
) -> ModuleOp:
    """Products of rows with `count` weights of so many bits, of which each has a scale for each of
    its columns, or scales and zero points for each `block` of terms of them."""
    x, shape, y = f"#{m}x{k}xf16", f"{n}x{k}" if turned else f"{k}x{n}", f"#{m}x{n}xf16"
    codes, weight = f"#{shape}xi{bits}", f"#{shape}xf16"
    blocks = f"{n}x{k // block}" if block and turned else f"{k // block if block else 0}x{n}"
    axis = int(turned) if block else int(not turned)
    flag = " transpose_rhs true" if turned else ""
    inputs, body, results = [f"{m}x{k}xf16"], list[str](), list[str]()
    for i in range(count):
        at = len(inputs)
        inputs += [codes[1:], f"{blocks}xf16" if block else f"{n}xf16"]
        operands, types = f"%x{at}, %x{at + 1}", f"{codes}, #{inputs[-1]}"
        if block:
            inputs.append(f"{blocks}xi{bits}")
            operands, types = f"{operands}, %x{at + 2}", f"{types}, #{inputs[-1]}"
        size = f" block_size {block}" if block else ""
        body += [
            f"%w{i} = graph.dequantize {operands} axis {axis}{size} : ({types}) -> {weight}",
            f"%y{i} = graph.matmul %x0, %w{i}{flag} : ({x}, {weight}) -> {y}",
        ]
        results.append(f"%y{i}")
    if epilogue != "none":
        body.append(f"%s = graph.silu %y0 : ({y}) -> {y}")
        results[0] = "%s"
    if epilogue == "gate" and count > 1:
        body.append(f"%g = graph.mul %s, %y1 : ({y}, {y}) -> {y}")
        results[:2] = ["%g"]
    return linear(inputs, body, results)


@settings(max_examples=12, deadline=None)
@given(
    st.integers(17, 70),
    st.integers(1, 20).map(lambda n: 16 * n),
    st.integers(1, 12).map(lambda n: 32 * n),
    st.integers(1, 3),
    st.sampled_from([4, 8]),
    st.booleans(),
    st.sampled_from([0, 32]),
    st.sampled_from(EPILOGUES),
    st.booleans(),
)
def test_weights_that_are_computed_once(
    m: int,
    n: int,
    k: int,
    count: int,
    bits: int,
    turned: bool,
    block: int,
    epilogue: str,
    early: bool,
) -> None:
    """All at once, or those of the first columns of blocks before the others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matmul, "faster", lambda _, first, *others: first)
        if early:
            patch.setattr(matmul, "copying", lambda *_: 1e9)
        module = weights(m, n, k, count, bits, turned, block, epilogue)
        compare(module, make=small, orders=2)


@pytest.mark.parametrize(("turned", "block"), [(True, 0), (False, 0), (False, 32)])
def test_first_columns_are_computed_first(turned: bool, block: int) -> None:
    """The others are beside the first blocks, so there is a barrier more."""
    module = weights(64, 2048, 256, 2, 8, turned, block, "silu")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matmul, "faster", lambda _, first, *others: first)
        barriers = list[int]()
        for cost in (0.0, 1e9):
            patch.setattr(matmul, "copying", lambda *_, cost=cost: cost)
            ((_, program),) = lowered(module.clone()).pairs
            barriers.append(len(program.barriers))
        assert barriers == [2, 4]  # of cube and vector cores
        compare(module, all_lowered=True, make=small, orders=2)


def test_vector_cores_that_have_more_to_do_compute_weights_once() -> None:
    """They would compute those of a block behind what follows the block before, while the cube
    waits."""
    module = lowered(weights(2048, 4096, 4096, 1, 8, True, 0, "silu"))
    ((_, program),) = module.pairs
    assert program.workspace
    assert len(program.barriers) == 4  # a part of the weight, the rest beside the first blocks


def test_a_weight_of_which_a_block_needs_little_is_computed_beside_the_cube() -> None:
    ((_, program),) = lowered(weights(2048, 4096, 4096, 1, 8, True, 0, "none")).pairs
    assert not program.workspace


@pytest.mark.soak
@pytest.mark.parametrize("scheme", ["w8a16", "w4a16"])
def test_a_prefill_has_no_more_launches_with_integers_as_weights(scheme: str) -> None:
    """LLaMA-7B had 420 and 453 launches for 260, and took 1.05 of fp16's time."""
    path = Path(__file__).parent.parent / "models" / "llama_7b_prefill.structure.onnx"
    figures = list[tuple[int, float]]()
    for quantize in ("", scheme):
        options = Options(quantize=quantize, ranges="minmax", precision="fp16", target="910b2")
        module = compile_file(str(path), options).module
        timeline = simulate(module, Target.load("910b2"))
        launches = [t for t in timeline.tasks if isinstance(t.op, LaunchOp)]
        figures.append((len(launches), timeline.latency_us))
    (most, float_us), (count, us) = figures
    assert count <= most
    assert us < 1.02 * float_us
