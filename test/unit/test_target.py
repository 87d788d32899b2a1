"""Target files: presets load, and what is wrong in a file is said."""

import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from ge.dialects.support.errors import GeError
from ge.dialects.targets.target import Target

PRESET = tomllib.loads((files("ge.dialects.targets") / "910b1.toml").read_text("utf-8"))


@pytest.mark.parametrize("name", Target.presets())
def test_presets_load(name: str) -> None:
    target = Target.load(name)
    assert target.name == name
    assert 0 < target.cube_efficiency <= 1
    assert 0 < target.hbm_efficiency <= 1


def test_a_file_may_say_what_has_a_default() -> None:
    more = {"cube_tiles": [128, 64], "vector_overlaps": False, "tile_latency_us": 1}
    target = Target.of(PRESET | more, "my.toml")
    assert target.cube_tiles == (64, 128)
    assert not target.vector_overlaps
    assert target.tile_latency_us == 1.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cube_cores": 2.5}, "'cube_cores' is an integer, not 2.5"),
        ({"cube_cores": 0}, "'cube_cores' is positive and finite, not 0"),
        ({"clock_ghz": float("nan")}, "'clock_ghz' is positive and finite, not nan"),
        ({"hbm_rate": float("inf")}, "'hbm_rate' is positive and finite, not inf"),
        ({"clock_ghz": "fast"}, "'clock_ghz' is a float, not 'fast'"),
        ({"vector_overlaps": 1}, "'vector_overlaps' is true or false, not 1"),
        ({"cube_efficiency": 1.5}, "'cube_efficiency' is a share, at most 1, not 1.5"),
        ({"cube_tiles": [100]}, "'cube_tiles' is a list of multiples of 16, not \\[100\\]"),
        ({"cube_tiles": 64}, "'cube_tiles' is a list of multiples of 16, not 64"),
        ({"cube_core": 24}, "unknown key 'cube_core'"),
        ({"macs_per_cycle": {"i8": 1}}, "'macs_per_cycle' is a table with at least f16"),
        ({"macs_per_cycle": {"f16": 1, "f33": 1}}, "'macs_per_cycle' has no type 'f33'"),
        ({"hbm_alignment": 3}, "'hbm_alignment' is a power of two, not 3"),
        ({"macs_per_cycle": {"f16": 0}}, "'macs_per_cycle' of f16 is positive, not 0"),
        ({"macs_per_cycle": {"f16": "x"}}, "'macs_per_cycle' of f16 is positive, not 'x'"),
    ],
)
def test_what_is_wrong_is_said(change: dict[str, Any], message: str) -> None:
    with pytest.raises(GeError, match=message):
        Target.of(PRESET | change, "my.toml")


def test_unknown_targets(tmp_path: Path) -> None:
    with pytest.raises(GeError, match="unknown target '910b2'") as error:
        Target.load("910b2")
    assert "did you mean '910b1'?" in error.value.hint
    with pytest.raises(GeError, match="cannot read the target"):
        Target.load(str(tmp_path / "none.toml"))
    (tmp_path / "bad.toml").write_text("name = ")
    with pytest.raises(GeError, match="not TOML"):
        Target.load(str(tmp_path / "bad.toml"))
