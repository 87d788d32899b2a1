"""Target files: presets load, and what is wrong in a file is said."""

import re
import tomllib
from dataclasses import fields, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from xdsl.dialects.func import FuncOp

from ge.dialects.support.errors import GeError
from ge.dialects.targets.target import (
    KERNEL_KINDS,
    REPEAT_LANES,
    VECTOR_INSTRUCTIONS,
    Target,
    record_target,
    target_for,
)

PRESET = tomllib.loads((files("ge.dialects.targets") / "910_merged.toml").read_text("utf-8"))


@pytest.mark.parametrize("name", Target.presets())
def test_presets_load(name: str) -> None:
    target = Target.load(name)
    assert target.name == name
    assert 0 < target.cube_efficiency <= 1
    assert 0 < target.hbm_efficiency <= 1


def test_a_file_may_say_what_has_a_default() -> None:
    more = {"idealised": False, "flags": 4, "flag_cycles": 1}
    target = Target.of(PRESET | more, "my.toml")
    assert (target.idealised, target.flags, target.flag_cycles) == (False, 4, 1.0)


def test_every_fact_is_read() -> None:
    """A target file states nothing that changes nothing."""
    root, rooms = Path(__file__).parents[2], ("dialects", "transforms", "lowering", "runtime")
    texts = [path.read_text("utf-8") for room in rooms for path in (root / room).rglob("*.py")]
    for field in fields(Target):
        reads = [f".{field.name}", f'"{field.name}"']
        assert any(read in text for read in reads for text in texts), field.name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cube_cores": 2.5}, "'cube_cores' is an integer, not 2.5"),
        ({"cube_cores": 0}, "'cube_cores' is positive and finite, not 0"),
        ({"clock_ghz": float("nan")}, "'clock_ghz' is positive and finite, not nan"),
        ({"hbm_rate": float("inf")}, "'hbm_rate' is positive and finite, not inf"),
        ({"clock_ghz": "fast"}, "'clock_ghz' is a float, not 'fast'"),
        ({"cube_efficiency": 1.5}, "'cube_efficiency' is a share, at most 1, not 1.5"),
        ({"requantize": "up"}, "'requantize' is one of half_even, .*, not 'up'"),
        ({"cube_core": 24}, "unknown key 'cube_core'"),
        ({"macs_per_cycle": {"i8": 1}}, "'macs_per_cycle' is a table with at least f16"),
        ({"macs_per_cycle": {"f16": 1, "f33": 1}}, "'macs_per_cycle' has no type 'f33'"),
        ({"hbm_alignment": 3}, "'hbm_alignment' is a power of two, not 3"),
        ({"hbm_rate": 1e-308}, "'hbm_rate' is positive and finite and at least 0.001, not 1e-308"),
        ({"clock_ghz": 1e300}, "'clock_ghz' is at most 1e\\+06, not 1e\\+300"),
        ({"l2_bytes": -1}, "'l2_bytes' is not negative, and finite, not -1"),
        ({"macs_per_cycle": {"f16": 4096}}, "'macs_per_cycle' has no rate for f32"),
        ({"macs_per_cycle": {"f16": 0}}, "'macs_per_cycle' of f16 is positive, not 0"),
        ({"macs_per_cycle": {"f16": "x"}}, "'macs_per_cycle' of f16 is positive, not 'x'"),
        ({"split_cores": 1}, "'split_cores' is true or false, not 1"),
        ({"split_cores": True}, "missing keys: l0c_out_rate, gm_to_ub_rate"),
        ({"flags": 0}, "'flags' is positive and finite, not 0"),
        ({"flag_cycles": -1.0}, "'flag_cycles' is not negative, and finite, not -1"),
        ({"vector_cycles": 2}, "'vector_cycles' is a table of numbers, not 2"),
        ({"vector_cycles": {"tanh": 2}}, "'vector_cycles' has no 'tanh'"),
        ({"vector_cycles": {"add": "2"}}, "'vector_cycles.add' is a number, not '2'"),
        ({"vector_cycles": {"add": -2}}, "'vector_cycles.add' is not negative, and finite, not -2"),
        ({"kernel_start_us": {"mixed": 1e9}}, "'kernel_start_us.mixed' is at most 1e\\+06"),
    ],
)
def test_what_is_wrong_is_said(change: dict[str, Any], message: str) -> None:
    with pytest.raises(GeError, match=message):
        Target.of(PRESET | change, "my.toml")


def test_what_may_be_missing() -> None:
    target = Target.of(PRESET | {"l2_bytes": 0, "launch_us": 0.0}, "my.toml")
    assert (target.l2_bytes, target.launch_us) == (0, 0.0)


def test_merged_cores_state_the_path_between_them() -> None:
    without = {key: value for key, value in PRESET.items() if key != "l0c_to_ub_rate"}
    with pytest.raises(GeError, match="missing keys: l0c_to_ub_rate"):
        Target.of(without, "my.toml")
    split = {"split_cores": True, "l0c_out_rate": 40.0, "gm_to_ub_rate": 50.0}
    assert Target.of(without | split, "my.toml").split_cores


def test_what_is_not_stated_is_named() -> None:
    target = Target.load("910_merged")
    assert target.stated("gm_to_ub_rate") == target.l2_read_rate  # which is taken for it
    with pytest.raises(GeError, match="the target does not state 'gm_to_ub_rate'"):
        replace(target, l2_read_rate=0.0).stated("gm_to_ub_rate")
    assert target.vector_cycles_of("exp") * target.vector_lanes == REPEAT_LANES
    with pytest.raises(GeError, match="'vector_cycles' has no instruction 'exp'"):
        replace(target, vector_cycles={"add": 1.0}).vector_cycles_of("exp")


SPLIT = [name for name in Target.presets() if Target.load(name).split_cores]


@pytest.mark.parametrize("name", SPLIT)
def test_split_targets_state_what_instructions_cost(name: str) -> None:
    """Each number stands beside its source, or beside "assumption"."""
    target = Target.load(name)
    for key in ("gm_to_ub_rate", "l0c_out_rate", "l0c_to_l1_rate", "cross_flag_cycles"):
        assert target.stated(key) > 0
    assert set(target.vector_cycles) == set(VECTOR_INSTRUCTIONS)
    assert set(target.kernel_start_us) == set(KERNEL_KINDS)
    text = (files("ge.dialects.targets") / f"{name}.toml").read_text("utf-8")
    numbers = [line for line in text.split("\n") if re.match(r"\w+ *= *[\d\[]", line)]
    assert len(numbers) > 60
    for line in numbers:
        assert SOURCE.search(line), line


@pytest.mark.parametrize("name", ["310p3", "a100_like"])
def test_a_merged_target_states_what_instructions_cost(name: str) -> None:
    """What it lacks takes no time; these two are held against published times."""
    target = Target.load(name)
    for key in ("gm_to_ub_rate", "l0c_out_rate", "l0c_to_l1_rate", "flag_cycles"):
        assert target.stated(key) > 0
    assert set(target.vector_cycles) == set(VECTOR_INSTRUCTIONS)
    assert set(target.kernel_start_us) == set(KERNEL_KINDS)


SOURCE = re.compile(
    "#.*(assumption|official|platform files|asc-devkit|cann-bench|cann-samples|pto-isa|catlass"
    "|documents|on a board|arXiv|pypto-lib|msmodeling|hixl)"
)


@pytest.mark.parametrize("key", [*PRESET, *PRESET["macs_per_cycle"]])
def test_each_key_has_a_comment(key: str) -> None:
    text = (files("ge.dialects.targets") / "910_merged.toml").read_text("utf-8")
    lines = text.split("\n")
    at = next(i for i, line in enumerate(lines) if line.startswith((f"{key} =", f"[{key}]")))
    assert "#" in lines[at] or lines[at - 1].startswith("#")


def test_a_program_knows_the_target_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    preset = (files("ge.dialects.targets") / "910_merged.toml").read_text("utf-8")
    path = tmp_path / "my.toml"
    path.write_text(preset.replace('"910_merged"', '"mine"'))
    func = FuncOp("main", ([], []))
    monkeypatch.chdir(tmp_path)
    record_target(func, "my.toml")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert target_for(func).name == "mine"
    monkeypatch.chdir(tmp_path)
    assert target_for(func) == Target.load("my.toml")
    path.write_text(preset.replace("ub_bytes = 196608", "ub_bytes = 4096"))
    with pytest.raises(GeError, match="the target has changed since"):
        target_for(func)
    assert target_for(func, "my.toml").ub_bytes == 4096


def test_unknown_targets(tmp_path: Path) -> None:
    with pytest.raises(GeError, match="unknown target '910b11'") as error:
        Target.load("910b11")
    assert "did you mean '910b1'?" in error.value.hint
    with pytest.raises(GeError, match="cannot read the target"):
        Target.load(str(tmp_path / "none.toml"))
    (tmp_path / "bad.toml").write_text("name = ")
    with pytest.raises(GeError, match="not TOML"):
        Target.load(str(tmp_path / "bad.toml"))


def test_short_constants_lie_close_together():
    """Vectors take multiples of 32 bytes, what is read at the full rate those of the alignment."""
    target = Target.load("910_merged")
    assert target.constants_bytes([256, 20, 768, 4], 512) == 1536
    assert target.constants_bytes([512, 4096], 512) == 4608
    assert target.constants_bytes([16385, 4], 512) == 16896 + 512
    assert target.constants_bytes([1], 16) == 16
    assert target.constants_bytes([], 512) == 0
