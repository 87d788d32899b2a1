"""Formulas, by which tilings are chosen and programs without tile programs are timed, against the
simulation of tile programs."""

import math
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))
from tile_times import TEXTS, measured

MOST = 2.0  # times as long, or as short
LAYOUTS = (
    3.0  # formulas of convolutions have kernels that change layouts; tile programs do it inside
)
MEAN = 1.25

CASES: list[tuple[str, dict[str, Any]]] = [
    ("gemm", {"m": 1024, "k": 512, "n": 1024, "dtype": "f16"}),
    ("gemm", {"m": 1, "k": 4096, "n": 4096, "dtype": "bf16"}),
    ("gelu", {"shape": [512, 4096], "dtype": "bf16"}),
    ("sigmoid", {"shape": [1000003], "dtype": "f32"}),
    ("softmax", {"shape": [1024, 1000], "axis": 1, "dtype": "f16"}),
    ("softmax", {"shape": [64, 100, 128], "axis": 1, "dtype": "f32"}),
    ("maximum", {"a": [512, 1024], "b": [1024], "dtype": "f32"}),
    ("rms_norm", {"shape": [512, 2048], "dtype": "bf16"}),
    ("group_norm", {"shape": [4, 64, 32, 32], "groups": 8, "dtype": "f16"}),
    ("transpose", {"shape": [1024, 1024], "permutation": [1, 0], "dtype": "f16"}),
    (
        "conv",
        {
            "x": [1, 64, 56, 56], "w": [64, 64, 3, 3], "strides": [1, 1], "pads": [1, 1, 1, 1],
            "dilations": [1, 1], "dtype": "f16",
        },
    ),
    (
        "attention",
        {
            "q": [8, 1, 8, 128], "k": [8, 512, 2, 128], "v": [8, 512, 2, 128], "dtype": "f16",
            "causal": False,
        },
    ),
]  # fmt: skip


def test_formulas_are_near_the_simulation() -> None:
    logs: list[float] = []
    for family, case in CASES:
        found = measured(TEXTS[family](case), "910b2")
        assert not found.reasons
        ratio = sum(t.total_us for t in found.times) / found.formulas
        most = LAYOUTS if family == "conv" else MOST
        assert 1 / most <= ratio <= most, (family, case, ratio)
        logs.append(math.log(ratio))
    assert abs(sum(logs) / len(logs)) < math.log(MEAN)
