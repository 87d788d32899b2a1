"""Composites in real models: whatever the exporter wrote, a layer comes to the same few ops."""

from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from ge.dialects.graph.attention import AttentionOp
from ge.dialects.support.functions import main_function
from ge.lowering.driver.compiler import compile_file
from ge.lowering.pipeline.options import Options

MODELS = Path(__file__).resolve().parents[1] / "models"

BERT = {"attention": 1, "gelu": 1, "layer_norm": 2, "matmul": 6}
GPT2 = {"attention": 1, "gelu": 1, "layer_norm": 2, "matmul": 4}
LLAMA = {"attention": 1, "rms_norm": 2, "rotary_embedding": 2, "silu": 1, "matmul": 7}

LAYERS: dict[str, tuple[int, dict[str, int], dict[str, int]]] = {
    "bert_base.tiny": (2, BERT, {"layer_norm": 1, "matmul": 1}),
    "bert_base.structure": (12, BERT, {"layer_norm": 1, "matmul": 1}),
    "bert_base.ts.dynamic": (2, BERT, {"layer_norm": 1, "matmul": 1}),
    "vit_b16.op20.tiny": (2, BERT, {"layer_norm": 1, "matmul": 1}),
    "gpt2_prefill.noopt.tiny": (2, GPT2, {"layer_norm": 1, "matmul": 1}),
    "gpt2_decode.dynamic": (2, GPT2, {"layer_norm": 1, "matmul": 1}),
    "llama_7b_prefill.structure": (32, LLAMA, {"rms_norm": 1, "matmul": 1}),
    "llama_7b_prefill.op23.tiny": (2, LLAMA, {"rms_norm": 1, "matmul": 1}),
    "llama_7b_decode.fp16.tiny": (2, LLAMA, {"rms_norm": 1, "matmul": 1}),
}
"""Model -> number of layers, ops of each, and ops of the rest."""

LARGE = ("llama_7b_prefill.structure",)  # other exports of the same layers are small

WRITTEN_OUT = ("softmax", "erf", "tanh", "sigmoid", "sqrt", "pow", "is_nan", "reciprocal", "neg")
"""What composites are made of."""


@cache
def composites(name: str) -> tuple[Counter[str], list[AttentionOp]]:
    """The number of ops by name, and the attention ops."""
    program = compile_file(str(MODELS / f"{name}.onnx"), Options(), until="graph")
    main = main_function(program.module)
    assert main is not None
    ops = list(main.walk())
    names = Counter(op.name.removeprefix("graph.") for op in ops)
    return names, [op for op in ops if isinstance(op, AttentionOp)]


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.soak if n in LARGE else ()) for n in LAYERS]
)
def test_layers(name: str) -> None:
    layers, each, rest = LAYERS[name]
    found, attention = composites(name)
    wanted = Counter({op: layers * count for op, count in each.items()})
    wanted.update(rest)
    assert {op: found[op] for op in wanted} == dict(wanted)
    pooler = name.startswith("bert")
    assert {op: found[op] for op in WRITTEN_OUT if found[op]} == ({"tanh": 1} if pooler else {})
    for op in attention:
        # one step of a decoder has one query: heads first and tokens first are the same
        assert op.tokens_first("result") or "decode" in name


def test_spellings_agree() -> None:
    """Exporters' ways to write one architecture leave the same transposes."""
    first, *others = (
        composites(n)[0] for n in ("bert_base.tiny", "bert_base.structure", "vit_b16.op20.tiny")
    )
    assert first["transpose"] == 0
    assert others[0]["transpose"] == 0
    assert others[1]["transpose"] <= 1  # patches to tokens


def test_diffusion() -> None:
    found, attention = composites("sd15_unet.tiny")
    blocks = len(attention) // 2
    assert blocks
    assert found["layer_norm"] == 3 * blocks
    assert found["gelu"] == blocks
    assert found["attention"] == 2 * blocks
    assert not {op: found[op] for op in WRITTEN_OUT if found[op]}
    assert found["group_norm"] > 0
    assert all(op.tokens_first("query") and op.tokens_first("result") for op in attention)
