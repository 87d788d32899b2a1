"""The model of time against times measured on an A100 and throughput published for a 310P3: no
parameter depends on the model."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

TEST = Path(__file__).resolve().parents[1]


def bench(name: str = "sanity") -> Any:
    """A script of `test/bench` as a module."""
    spec = importlib.util.spec_from_file_location(name, TEST / "bench" / f"{name}.py")
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


@pytest.mark.soak
def test_published_throughput_of_a_card(tmp_path: Path) -> None:
    """Of BERT, 8 x 512 tokens; `card_times.py` compares the other networks."""
    cards = bench("card_times")
    (network,) = (n for n in cards.NETWORKS if n.model == "bert_base")
    model = cards.resized(TEST / "models" / "bert_base.structure.onnx", network)
    path = tmp_path / "bert_base.structure.onnx"
    path.write_bytes(model.SerializeToString())
    published = 1e3 * network.batch / network.samples_a_second
    assert 2 / 3 <= cards.milliseconds(path, "310p3", cards.APART) / published <= 1.5
