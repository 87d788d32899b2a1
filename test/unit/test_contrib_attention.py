"""onnxruntime's ops of attention beside onnxruntime."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from contrib_ops import agree, feeds, model_of, normal, run_in_ge, run_in_onnxruntime, spread

from ge.dialects.support.errors import GeError
from ge.lowering.onnx.importer import import_model
from ge.runtime.data.arrays import Array

# batch, sequence, heads, size of a head
SIZES = [(2, 5, 2, 4), (1, 3, 4, 8), (3, 1, 2, 4)]

MASKS = ["none", "ends", "limits", "keys", "queries", "dummy"]


def integers(*dims: int, limit: int, seed: int = 3) -> Array:
    return np.random.default_rng(seed).integers(0, limit, dims).astype(np.int32)


def mask_of(kind: str, batch: int, queries: int, keys: int) -> Array | None:
    if kind == "ends":
        return integers(batch, limit=keys + 1)
    if kind == "limits":
        return np.concatenate([np.full(batch, keys), integers(batch, limit=keys)]).astype(np.int32)
    shapes = {"keys": (batch, keys), "queries": (batch, queries, keys), "dummy": (batch, 1)}
    return integers(*shapes[kind], limit=2) if kind in shapes else None


def projections(hidden: int, columns: int) -> dict[str, Any]:
    return {"w": normal(hidden, columns, seed=1) / 2, "b": normal(columns, seed=2)}


@pytest.mark.parametrize(("sizes", "kind", "causal"), spread(SIZES, MASKS, [0, 1], count=15))
def test_attention(sizes: tuple[int, int, int, int], kind: str, causal: int) -> None:
    batch, length, heads, size = sizes
    inputs: dict[str, Any] = {"x": normal(batch, length, 6), **projections(6, 3 * heads * size)}
    inputs["mask"] = mask_of(kind, batch, length, length)
    agree("Attention", inputs, num_heads=heads, unidirectional=causal)


@pytest.mark.parametrize(
    ("sizes", "past", "kind"), spread(SIZES, [0, 3], ["none", "ends", "keys"], count=7)
)
def test_attention_with_past(sizes: tuple[int, int, int, int], past: int, kind: str) -> None:
    batch, length, heads, size = sizes
    inputs: dict[str, Any] = {"x": normal(batch, length, 6), **projections(6, 3 * heads * size)}
    inputs["mask"] = mask_of(kind, batch, length, past + length)
    inputs["past"] = normal(2, batch, heads, past, size, seed=4)
    agree("Attention", inputs, ("y", "present"), num_heads=heads, unidirectional=1)


@pytest.mark.parametrize(
    ("attributes", "bias"),
    [
        ({"scale": 0.3}, (2, 2, 5, 5)),
        ({"mask_filter_value": -2.0}, (1, 2, 5, 5)),
        ({}, (2, 1, 5, 5)),
    ],
)
def test_attention_adds_a_bias(attributes: dict[str, Any], bias: tuple[int, ...]) -> None:
    inputs: dict[str, Any] = {"x": normal(2, 5, 6), **projections(6, 8 + 8 + 12)}
    inputs |= {"mask": mask_of("keys", 2, 5, 5), "past": None, "bias": normal(*bias, seed=5)}
    sizes = {"num_heads": 2, "qkv_hidden_sizes": [8, 8, 12]}
    agree("Attention", inputs, **sizes, **attributes)


def test_attention_takes_rows_of_the_past_and_after_from_a_square_mask() -> None:
    """A form that onnxruntime has on GPUs only: the same as the rows and columns cut out."""
    inputs: dict[str, Any] = {"x": normal(2, 3, 6), **projections(6, 24)}
    square = integers(2, 1, 9, 9, limit=2)
    inputs |= {"mask": square, "past": normal(2, 2, 2, 2, 4, seed=4)}
    cut = {**inputs, "mask": square[:, 0, 2:5, :5]}
    results = [
        run_in_ge(model_of("Attention", i, ["y"], num_heads=2), feeds(i, ())) for i in (inputs, cut)
    ]
    np.testing.assert_array_equal(results[0][0], results[1][0])


def of_heads(sizes: tuple[int, int, int, int], keys: int, value: int) -> dict[str, Any]:
    batch, length, heads, size = sizes
    return {
        "q": normal(batch, length, heads * size),
        "k": normal(batch, keys, heads * size, seed=1),
        "v": normal(batch, keys, heads * value, seed=2),
    }


@pytest.mark.parametrize(
    ("sizes", "kind", "bias"),
    spread(SIZES, ["none", "ends", "keys", "queries"], [False, True], count=10),
)
def test_multi_head_attention(sizes: tuple[int, int, int, int], kind: str, bias: bool) -> None:
    batch, length, heads, size = sizes
    inputs = of_heads(sizes, 4, 6)
    inputs["b"] = normal(heads * (2 * size + 6), seed=3) if bias else None
    inputs["mask"] = mask_of(kind, batch, length, 4)
    agree("MultiHeadAttention", inputs, num_heads=heads)


@pytest.mark.parametrize(("sizes", "past", "causal"), spread(SIZES, [1, 4], [0, 1], count=5))
def test_multi_head_attention_with_past(
    sizes: tuple[int, int, int, int], past: int, causal: int
) -> None:
    batch, length, heads, size = sizes
    inputs = of_heads(sizes, length, size) | {"b": None, "mask": None}
    inputs["bias"] = normal(1, heads, length, past + length, seed=4)
    inputs |= {"pk": normal(batch, heads, past, size, seed=5)}
    inputs |= {"pv": normal(batch, heads, past, size, seed=6)}
    outputs = ("y", "present_k", "present_v")
    agree("MultiHeadAttention", inputs, outputs, num_heads=heads, unidirectional=causal)


@pytest.mark.parametrize(("sizes", "kind"), spread(SIZES, ["none", "keys"], count=3))
def test_scores_of_multi_head_attention(sizes: tuple[int, int, int, int], kind: str) -> None:
    batch, length, heads, _ = sizes
    inputs = of_heads(sizes, 4, 6) | {"b": None, "mask": mask_of(kind, batch, length, 4)}
    agree("MultiHeadAttention", inputs, ("y", "", "", "scores"), num_heads=heads)


@pytest.mark.parametrize("sizes", SIZES)
def test_cross_attention_takes_heads_as_they_are(sizes: tuple[int, int, int, int]) -> None:
    batch, length, heads, size = sizes
    inputs = {"q": normal(batch, length, heads * size)}
    inputs |= {name: normal(batch, heads, 6, size, seed=i) for i, name in enumerate("kv", 1)}
    agree("MultiHeadAttention", inputs, num_heads=heads)


@pytest.mark.parametrize(("sizes", "past", "constant"), spread(SIZES, [0, 3], [0, 1], count=6))
def test_heads_as_they_are_with_a_past_and_a_bias(
    sizes: tuple[int, int, int, int], past: int, constant: int
) -> None:
    """As onnxruntime's own decoder of Whisper has it: the bias is for the query alone."""
    batch, length, heads, size = sizes
    inputs: dict[str, Any] = {"q": normal(batch, length, heads * size)}
    inputs |= {name: normal(batch, heads, length, size, seed=i) for i, name in enumerate("kv", 1)}
    inputs |= {"b": normal(3 * heads * size, seed=3), "mask": None, "bias": None}
    if past:
        inputs |= {f"p{name}": normal(batch, heads, past, size, seed=7) for name in "kv"}
    outputs = ("y", "present_k", "present_v")
    agree("MultiHeadAttention", inputs, outputs, ["b"] if constant else [], num_heads=heads)


@pytest.mark.parametrize("rank", [3, 4])
def test_the_last_query_of_causal_cross_attention_sees_all_keys(rank: int) -> None:
    inputs = {"q": normal(2, 3, 8)}
    shape = (2, 6, 8) if rank == 3 else (2, 2, 6, 4)
    inputs |= {name: normal(*shape, seed=i) for i, name in enumerate("kv", 1)}
    agree("MultiHeadAttention", inputs, num_heads=2, unidirectional=1)


@pytest.mark.parametrize("op", ["Attention", "MultiHeadAttention"])
def test_ends_with_starts_of_a_packed_batch(op: str) -> None:
    mask = np.int32([2, 5, 0, 5, 10, 0, 2, 7])
    if op == "Attention":
        inputs: dict[str, Any] = {"x": normal(2, 5, 6), **projections(6, 24), "mask": mask}
    else:
        inputs = of_heads((2, 5, 2, 4), 5, 4) | {"b": None, "mask": mask}
    agree(op, inputs, num_heads=2)


def in_buffers(length: int, mask: Array | None, bias: Array | None, used: int) -> dict[str, Any]:
    inputs = of_heads((2, length, 2, 4), length, 4)
    buffers = {f"p{name}": normal(2, 2, 8, 4, seed=i) for i, name in enumerate("kv", 5)}
    return inputs | {"mask": mask, "bias": bias} | buffers | {"used": np.int32([used])}


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("constant", [False, True])
def test_a_past_in_a_buffer(causal: int, constant: bool) -> None:
    inputs = in_buffers(3, integers(2, 6, limit=2), normal(1, 2, 3, 6, seed=9), 3)
    inputs = {**dict(list(inputs.items())[:3]), "b": normal(24, seed=4), **inputs}
    outputs, known = ("y", "present_k", "present_v"), ["used"] if constant else []
    agree("MultiHeadAttention", inputs, outputs, known, num_heads=2, unidirectional=causal)


MASKED = {"num_heads": 2, "past_present_share_buffer": 1}


@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("bias", [(), (1, 2), (2, 2)])
@pytest.mark.parametrize("constant", [False, True])
def test_decoder_masked_attention(mask: bool, bias: tuple[int, ...], constant: bool) -> None:
    scores = normal(*bias, 1, 4, seed=9) if bias else None
    inputs = in_buffers(1, integers(2, 4, limit=2) if mask else None, scores, 3)
    inputs |= {"width": None, "beams": None, "b": normal(24, seed=4)}
    outputs, known = ("y", "present_k", "present_v", "scores"), ["used"] if constant else []
    agree("DecoderMaskedMultiHeadAttention", inputs, outputs, known, output_qk=1, **MASKED)


@pytest.mark.parametrize("count", [1, 2])
def test_beams_of_decoder_masked_attention(count: int) -> None:
    beams = integers(2 // count, count, 8, limit=count)
    inputs = in_buffers(1, None, None, 3) | {"width": np.int32([count]), "beams": beams}
    outputs = ("y", "present_k", "present_v")
    agree("DecoderMaskedMultiHeadAttention", inputs, outputs, **MASKED)


@pytest.mark.parametrize("mask", [False, True])
def test_decoder_masked_cross_attention(mask: bool) -> None:
    inputs: dict[str, Any] = {"q": normal(2, 1, 8)}
    inputs |= {name: normal(2, 2, 6, 4, seed=i) for i, name in enumerate("kv", 1)}
    inputs["mask"] = integers(2, 6, limit=2) if mask else None
    inputs |= dict.fromkeys(("bias", "pk", "pv", "used", "width", "beams")) | {"b": normal(24)}
    agree("DecoderMaskedMultiHeadAttention", inputs, num_heads=2)


@pytest.mark.parametrize("sizes", SIZES)
def test_packed_query_key_and_value(sizes: tuple[int, int, int, int]) -> None:
    """Forms that onnxruntime has on GPUs only: the same as three tensors."""
    batch, length, heads, size = sizes
    flat = of_heads(sizes, length, size)
    three = {k: a.reshape(batch, length, heads, size) for k, a in flat.items()}
    forms: list[dict[str, Any]] = [
        flat,
        {"q": np.stack(list(three.values()), 3), "k": None, "v": None},
        {"q": flat["q"], "k": np.stack([three["k"], three["v"]], 3), "v": None},
    ]
    bias = {"b": normal(3 * heads * size, seed=7)}
    results = [
        run_in_ge(
            model_of("MultiHeadAttention", form | bias, ["y"], num_heads=heads),
            feeds(form | bias, ()),
        )[0]
        for form in forms
    ]
    for result in results[1:]:
        np.testing.assert_array_equal(results[0], result)


# ---- rotary embedding --------------------------------------------------------------------------


def tables(rows: int, columns: int) -> dict[str, Any]:
    angles = normal(rows, columns, seed=8)
    return {"cos": np.cos(angles), "sin": np.sin(angles)}


@pytest.mark.parametrize(
    ("sizes", "interleaved", "flat", "positions"),
    spread(SIZES, [0, 1], [False, True], ["one", "each"], count=9),
)
def test_rotary_embedding(
    sizes: tuple[int, int, int, int], interleaved: int, flat: bool, positions: str
) -> None:
    batch, length, heads, size = sizes
    x = normal(batch, length, heads * size) if flat else normal(batch, heads, length, size)
    ids = np.int64([2]) if positions == "one" else integers(batch, length, limit=9).astype(np.int64)
    inputs = {"x": x, "ids": ids, **tables(9, size // 2)}
    constants = ("ids", "cos", "sin") if flat else ()
    agree("RotaryEmbedding", inputs, interleaved=interleaved, constants=constants)


@pytest.mark.parametrize("sizes", SIZES)
def test_rotary_embedding_of_a_part(sizes: tuple[int, int, int, int]) -> None:
    batch, length, heads, size = sizes
    ids = integers(batch, length, limit=9).astype(np.int64)
    inputs = {"x": normal(batch, length, heads * size), "ids": ids, **tables(9, size // 4)}
    agree("RotaryEmbedding", inputs, num_heads=heads, rotary_embedding_dim=size // 2)


@pytest.mark.parametrize("attributes", [{"scale": 0.5}, {"is_packed_batching": 1}])
def test_rotary_embedding_of_sequences_one_after_another(attributes: dict[str, Any]) -> None:
    ids = np.int64([[0, 1, 2, 0, 1]])
    agree("RotaryEmbedding", {"x": normal(1, 5, 16), "ids": ids, **tables(9, 4)}, **attributes)


def test_what_attention_does_not_take_is_listed_at_once() -> None:
    inputs = {"x": normal(2, 5, 6), **projections(6, 24)}
    attributes = {"do_rotary": 1, "past_present_share_buffer": 1}
    model = model_of("Attention", inputs, ["y"], num_heads=2, **attributes)
    with pytest.raises(GeError) as caught:
        import_model(model)
    assert caught.value.message == (
        "Attention 'node': attribute 'do_rotary' is 1, supported is 0; "
        "attribute 'past_present_share_buffer' is 1, supported is 0"
    )


@pytest.mark.parametrize("tokens", [3, 1, 6])
def test_causal_cross_attention_of_open_lengths(tokens: int) -> None:
    """Sizes that are both unknown are not the same."""
    arrays = {"q": normal(2, tokens, 8)}
    arrays |= {name: normal(2, 6, 8, seed=i) for i, name in enumerate("kv", 1)}
    model = model_of("MultiHeadAttention", arrays, ("y",), (), num_heads=2, unidirectional=1)
    for info in model.graph.input:
        dim = info.type.tensor_type.shape.dim[1]
        dim.dim_param = "queries" if info.name == "q" else "keys"
    (want,), (got,) = run_in_onnxruntime(model, arrays), run_in_ge(model, arrays)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
