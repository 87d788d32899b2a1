"""Exported models in QDQ form: the numbers of onnxruntime's simulation, and what becomes of their
layers."""

from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import i32

from ge.dialects.graph.attention import AttentionOp
from ge.dialects.graph.convolution import Convolution
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.support.types import element_type
from ge.lowering.driver.cache import compile_model
from ge.lowering.driver.program import Program
from ge.runtime.device.session import Session
from ge.transforms.rewriting import remarks

MODELS = Path(__file__).parents[1] / "models"


def compiled(name: str, lowered: bool = True) -> tuple[Program, list[remarks.Remark]]:
    disabled = () if lowered else ("lower-quantization",)
    with remarks.collecting() as collected:
        path = str(MODELS / f"{name}.onnx")
        program = compile_model(path, target="910_merged", fusion_disable=disabled)
    return program, [r for r in collected if r.rule == "lower-quantization"]


@pytest.mark.parametrize(("name", "missed"), [
    ("bert_qdq.tiny", 4), pytest.param("resnet_qdq_u8.tiny", 0, marks=pytest.mark.soak),
])  # fmt: skip
def test_model(name: str, missed: int) -> None:
    program, missed_layers = compiled(name)
    floats = {
        str(op.location)
        for op in program.module.walk()
        if isinstance(op, MatmulOp | Convolution) and element_type(op.result) != i32
    }
    # The matmuls of attention, whose operands are both computed and have zero points: they are two
    # launches, which round scores and weights in between.
    assert len(missed_layers) == missed
    assert not missed or {r.op for r in missed_layers} == {"graph.matmul"}
    assert not floats
    attention = {op.location for op in program.module.walk() if isinstance(op, AttentionOp)}
    assert len(attention) == missed / 2
    data = np.load(MODELS / f"{name}.npz")
    inputs = {k[3:]: data[k] for k in data.files if k.startswith("in:")}
    outputs = Session(program.module, program.payload).run(inputs)
    for key in data.files:
        if not key.startswith("out:"):
            continue
        want, got = data[key].astype(np.float64), outputs[key[4:]].astype(np.float64)
        noise = float(((got - want) ** 2).sum())
        assert 10 * np.log10(float((want**2).sum()) / max(noise, 1e-30)) >= 45
        assert (got.argmax(-1) == want.argmax(-1)).mean() >= 0.995


def test_what_it_is_worth() -> None:
    """Bytes of weights and of values at the peak, launches."""
    before, after = (
        compiled("resnet_qdq_u8.tiny", lowered)[0].report() for lowered in (False, True)
    )
    assert after["ops"]["launches"] <= before["ops"]["launches"]
    assert after["memory"]["peak_bytes"] <= 0.5 * before["memory"]["peak_bytes"]
    assert after["memory"]["weight_bytes"] <= before["memory"]["weight_bytes"]
