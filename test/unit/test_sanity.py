"""The model of time against times measured on an A100: no parameter depends on the model."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

TEST = Path(__file__).resolve().parents[1]


def bench() -> Any:
    """`test/bench/sanity.py` as a module."""
    spec = importlib.util.spec_from_file_location("sanity", TEST / "bench" / "sanity.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "name",
    [
        "llama_7b_prefill.structure",
        pytest.param("sd15_unet.fp16.structure", marks=pytest.mark.soak),
    ],
)
def test_emulated_latency_is_near_what_was_measured(name: str) -> None:
    sanity = bench()
    measured = sanity.MEASURED_MS[name]
    emulated = sanity.emulated_ms(TEST / "models" / f"{name}.onnx")
    assert abs(emulated / measured - 1) <= sanity.WITHIN, f"{emulated:.1f} ms"


def test_all_that_was_measured_is_compared() -> None:
    (cases,) = test_emulated_latency_is_near_what_was_measured.pytestmark
    names = {case if isinstance(case, str) else case.values[0] for case in cases.args[1]}
    assert names == set(bench().MEASURED_MS)
