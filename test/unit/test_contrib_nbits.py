"""onnxruntime's matmul with weights of a few bits beside onnxruntime."""

import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from contrib_ops import agree, model_of, normal, run_in_ge, spread

from ge.dialects.support.errors import GeError
from ge.lowering.driver.compiler import lower
from ge.lowering.onnx.importer import import_model
from ge.lowering.pipeline.options import Options
from ge.runtime.data.arrays import Array

# rows, terms, block
SIZES = [(8, 32, 16), (6, 48, 32), (4, 20, 16)]


def bytes_of(*dims: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).integers(0, 256, dims, np.uint8)


def inputs_of(size: tuple[int, int, int], bits: int, **further: Any) -> dict[str, Any]:
    rows, terms, block = size
    blocks = -(-terms // block)
    inputs: dict[str, Any] = {"a": normal(2, 3, terms)}
    inputs |= {"b": bytes_of(rows, blocks, block * bits // 8)}
    inputs |= {"s": np.abs(normal(rows, blocks, seed=2)) / 8}
    return inputs | {"z": None, "g": None, "bias": None} | further


def zeros(kind: str, size: tuple[int, int, int], bits: int) -> dict[str, Any]:
    rows, terms, block = size
    blocks = -(-terms // block)
    if kind == "packed":
        return {"z": bytes_of(rows, -(-blocks * bits // 8), seed=3)}
    if kind == "middle":
        code = sum(1 << (bits - 1 + place) for place in range(0, 8, bits))
        return {"z": np.full((rows, -(-blocks * bits // 8)), code, np.uint8)}
    return {"z": normal(rows, blocks, seed=3) + 2 ** (bits - 1)} if kind == "float" else {}


def flags(size: tuple[int, int, int], bits: int) -> dict[str, int]:
    return {"N": size[0], "K": size[1], "block_size": size[2], "bits": bits}


ZEROS = [*product((4, 8), ("none", "middle", "packed")), (4, "float")]


@pytest.mark.parametrize(("size", "form", "known"), spread(SIZES, ZEROS, [True, False], count=17))
def test_matmul_nbits(size: tuple[int, int, int], form: tuple[int, str], known: bool) -> None:
    bits, kind = form
    inputs = inputs_of(size, bits, **zeros(kind, size, bits))
    constants = [n for n in "bsz" if inputs[n] is not None] if known else []
    agree("MatMulNBits", inputs, constants=constants, tolerance=1e-5, **flags(size, bits))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("bits", [2, 4])
def test_bias(size: tuple[int, int, int], bits: int) -> None:
    inputs = inputs_of(size, bits, bias=normal(size[0], seed=4))
    agree("MatMulNBits", inputs, constants=("b", "s", "bias"), **flags(size, bits))


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("biased", [False, True])
def test_a_vector(bits: int, biased: bool) -> None:
    size = SIZES[0]
    bias = {"bias": normal(size[0], seed=4)} if biased else {}
    inputs = inputs_of(size, bits, **bias) | {"a": normal(size[1])}
    agree("MatMulNBits", inputs, constants=("b", "s", *bias), **flags(size, bits))


def indexed(kind: str) -> tuple[dict[str, Any], list[str]]:
    indices = np.random.default_rng(5).integers(0, 4, 64).astype(np.int32)
    size = (6, 64, 16)
    inputs = inputs_of(size, 4, **zeros(kind, size, 4), g=indices)
    return inputs, [n for n in "bszg" if inputs[n] is not None]


@pytest.mark.parametrize("kind", ["none", "float"])
def test_blocks_by_index(kind: str) -> None:
    """A row's codes belong to the blocks that `g_idx` says."""
    inputs, constants = indexed(kind)
    agree("MatMulNBits", inputs, constants=constants, **flags((6, 64, 16), 4))


def test_packed_zero_points_by_index() -> None:
    """By the definition: onnxruntime 1.32 takes 8 for all of them on a CPU."""
    inputs, constants = indexed("packed")
    model = model_of("MatMulNBits", inputs, ["y"], constants, **flags((6, 64, 16), 4))

    def codes(packed: Array) -> Array:
        return np.stack([packed & 15, packed >> 4], -1).reshape(6, -1).astype(np.float32)

    zero, scale = (a[:, inputs["g"]] for a in (codes(inputs["z"]), inputs["s"]))
    want = inputs["a"] @ ((codes(inputs["b"]) - zero) * scale).T
    np.testing.assert_allclose(run_in_ge(model, {"a": inputs["a"]})[0], want, rtol=1e-4, atol=1e-4)


def test_codes_are_a_weight_of_4_bits_that_the_matmul_takes_in() -> None:
    size = (64, 64, 32)
    model = model_of("MatMulNBits", inputs_of(size, 4), ["y"], ("b", "s"), **flags(size, 4))
    imported = import_model(model)
    assert "graph.dequantize" in str(imported.module)
    assert "tensor<64x64xi4>" in str(imported.module)
    lower(imported.module, Options(target="910_merged"), until="fused")
    text = str(imported.module)
    assert text.count("fused_op.linear") == 1
    assert "tensor<64x64xi4>" in text


def test_codes_without_bytes_are_a_weight_without_bytes() -> None:
    """As in files of a model's structure alone."""
    size = (8, 32, 16)
    model = model_of("MatMulNBits", inputs_of(size, 4), ["y"], ("b", "s"), **flags(size, 4))
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = tensor.EXTERNAL
    tensor.external_data.add(key="location", value="absent.bin")
    imported = import_model(model)
    assert "tensor<8x32xi4>" in str(imported.module)
    assert "node.codes" not in imported.payload


def test_few_bytes_and_other_bits_are_refused() -> None:
    size = (8, 32, 16)
    short = inputs_of(size, 4) | {"b": bytes_of(8, 1, 8)}
    with pytest.raises(GeError, match="input 1 has 64 bytes for 8 x 32 codes"):
        import_model(model_of("MatMulNBits", short, ["y"], ("b", "s"), **flags(size, 4)))
    model = model_of("MatMulNBits", inputs_of(size, 4), ["y"], ("b", "s"), **flags(size, 5))
    with pytest.raises(GeError, match="'bits' is 5, supported are 2, 4 and 8"):
        import_model(model)
