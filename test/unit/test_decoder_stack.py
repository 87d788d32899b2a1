"""Decoder layers with attention, of several cards: they fit, and are proved."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))

from decoder_stack import Decoder, compiled, held_bytes, judged, options

from ge.dialects.targets.target import Target


def test_layers_are_proved() -> None:
    module = compiled(Decoder(2, 256, 4, 512, 64), options("tp=4", auto=False, tiles=False))
    proof, _ = judged(module)
    assert proof.problems == []
    assert "4 collectives of 4 devices, in one order on all" in proof.summary


@pytest.mark.soak
def test_layers_of_65e9_parameters_fit_four_cards_and_are_proved() -> None:
    decoder = Decoder()
    assert decoder.parameters > 64e9
    module = compiled(decoder, options("tp=4", auto=False, tiles=False))
    proof, timeline = judged(module)
    assert proof.problems == []
    assert decoder.parameters * 2 / 4 < held_bytes(module) < Target.load().hbm_bytes / 2
    collectives = [t for t in timeline.tasks if t.engine == "comm"]
    assert sum(t.exposed_us for t in collectives) < 0.3 * sum(t.duration_us for t in collectives)
