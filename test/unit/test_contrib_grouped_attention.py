"""onnxruntime's GroupQueryAttention beside onnxruntime."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from contrib_ops import feeds, model_of, normal, run_in_ge, run_in_onnxruntime

from ge.dialects.support.errors import GeError
from ge.lowering.onnx.importer import import_model

HEADS, GROUPS, SIZE = 4, 2, 16

# tokens of each sequence with the new ones, new tokens, rows of the cache that comes in
PROMPT = ([5, 5], 5, 0)
RAGGED_PROMPT = ([5, 3], 5, 0)
STEP = ([7], 1, 6)
RAGGED_STEP = ([7, 4, 6], 1, 6)
SEVERAL = ([7], 3, 4)
SHARED = ([7, 4], 1, 12)
SHARED_PROMPT = ([5], 5, 12)
CASES = [PROMPT, RAGGED_PROMPT, STEP, RAGGED_STEP, SEVERAL, SHARED, SHARED_PROMPT]

Case = tuple[list[int], int, int]


def tables() -> dict[str, Any]:
    angles = normal(16, SIZE // 2, seed=8)
    return {"cos": np.cos(angles), "sin": np.sin(angles)}


def inputs_of(case: Case, packed: bool = False, rotary: bool = False) -> dict[str, Any]:
    lengths, new, past = case
    batch = len(lengths)
    qkv = [normal(batch, new, h * SIZE, seed=i) for i, h in enumerate((HEADS, GROUPS, GROUPS))]
    if packed:
        inputs: dict[str, Any] = {"q": np.concatenate(qkv, -1), "k": None, "v": None}
    else:
        inputs = dict(zip("qkv", qkv, strict=True))
    cache = {n: normal(batch, GROUPS, past, SIZE, seed=i) for i, n in enumerate(("pk", "pv"), 4)}
    inputs |= cache if past else dict.fromkeys(cache)
    inputs |= {"ends": np.int32(lengths) - 1, "total": np.int32([max(lengths)])}
    return inputs | (tables() if rotary else {"cos": None, "sin": None})


def agree(case: Case, inputs: dict[str, Any], constants: Any = ("total",), **flags: Any) -> None:
    """The outputs of tokens that there are, and the rows of the cache that they stand in."""
    lengths, new, _ = case
    names = ["y", "pk2", "pv2"]
    sizes = {"num_heads": HEADS, "kv_num_heads": GROUPS}
    model = model_of("GroupQueryAttention", inputs, names, constants, **sizes, **flags)
    arrays = feeds(inputs, constants)
    want, got = run_in_onnxruntime(model, arrays), run_in_ge(model, arrays)
    for w, g in zip(want, got, strict=True):
        assert (w.shape, w.dtype) == (g.shape, g.dtype)
    for b, length in enumerate(lengths):
        tokens = min(length, new)
        np.testing.assert_allclose(got[0][b, :tokens], want[0][b, :tokens], atol=1e-5)
        for w, g in zip(want[1:], got[1:], strict=True):
            np.testing.assert_allclose(g[b, :, :length], w[b, :, :length], atol=1e-5)


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize(("packed", "rotary"), [(False, False), (True, True)])
def test_group_query_attention(case: Case, packed: bool, rotary: bool) -> None:
    inputs = inputs_of(case, packed, rotary)
    flags = {"do_rotary": 1, "rotary_interleaved": int(packed)} if rotary else {"scale": 0.2}
    agree(case, inputs, **flags)


FLAGS: list[dict[str, Any]] = [
    {"softcap": 2.0},
    {"local_window_size": 2},
    {"smooth_softmax": 1},
    {"smooth_softmax": 1, "local_window_size": 3},
    {"causal": 0},
]


@pytest.mark.parametrize("case", [PROMPT, RAGGED_STEP, SEVERAL], ids=str)
@pytest.mark.parametrize("flags", FLAGS, ids=str)
def test_flags(case: Case, flags: dict[str, Any]) -> None:
    agree(case, inputs_of(case), **flags)


@pytest.mark.parametrize("case", [PROMPT, RAGGED_STEP, SHARED], ids=str)
@pytest.mark.parametrize("extra", ["bias", "sink", "sink and window", "positions"])
def test_further_inputs(case: Case, extra: str) -> None:
    lengths, new, _ = case
    inputs = inputs_of(case, rotary=True) | {"ids": None, "bias": None}
    flags: dict[str, Any] = {"do_rotary": 1}
    if extra == "bias":
        inputs["bias"] = normal(1, HEADS, new, max(lengths), seed=9)
    elif extra == "positions":
        starts = np.int64(lengths)[:, None] - new
        inputs["ids"] = (starts + np.arange(new))[:, ::-1].copy()
    else:
        inputs["sink"] = normal(HEADS, seed=9)
        flags |= {"local_window_size": 2} if "window" in extra else {}
    agree(case, inputs, **flags)


@pytest.mark.parametrize("case", [STEP, RAGGED_STEP], ids=str)
def test_a_cache_grows_where_its_length_comes_at_run_time(case: Case) -> None:
    agree(case, inputs_of(case, rotary=True), constants=(), do_rotary=1)


@pytest.mark.parametrize("case", [STEP, RAGGED_STEP, SEVERAL], ids=str)
def test_sizes_that_are_known_only_at_run_time(case: Case) -> None:
    inputs = inputs_of(case, rotary=True)
    dynamic = {"q": ["b", "s", HEADS * SIZE], "k": ["b", "s", GROUPS * SIZE]}
    dynamic |= {"v": dynamic["k"], "pk": ["b", GROUPS, "p", SIZE], "pv": ["b", GROUPS, "p", SIZE]}
    agree(case, inputs, constants=(), dynamic=dynamic | {"ends": ["b"]}, do_rotary=1)


def test_what_is_not_supported_is_listed_at_once() -> None:
    inputs = inputs_of(STEP) | dict.fromkeys(("ids", "bias", "sink"))
    inputs |= {"ks": normal(1), "vs": normal(1)}
    flags = {"num_heads": HEADS, "kv_num_heads": GROUPS, "k_quant_type": "PER_TENSOR"}
    model = model_of("GroupQueryAttention", inputs, ["y", "pk2", "pv2", "scores"], **flags)
    with pytest.raises(GeError) as caught:
        import_model(model)
    assert caught.value.message == (
        "GroupQueryAttention 'node': attribute 'k_quant_type' is 'PER_TENSOR', supported is "
        "'NONE'; input 12 'k_scale' is not supported; input 13 'v_scale' is not supported; "
        "output 3 'output_qk' is not supported"
    )
