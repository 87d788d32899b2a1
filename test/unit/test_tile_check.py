"""The proof of tile programs, on a kernel that is right and on faults planted in it."""

from dataclasses import replace
from pathlib import Path

import pytest

from ge.dialects.targets.target import Target
from ge.lowering.driver.compiler import context
from ge.lowering.text.reading import Source, parse_module
from ge.runtime.check.tiles import KernelProof, check_kernels

TWICE = (Path(__file__).parents[1] / "runtime/tiles/check.mlir").read_text("utf-8")


def proof_of(text: str, target: Target | None = None) -> KernelProof:
    module = parse_module(context(), Source("twice.mlir", text))
    module.verify()
    (proof,) = check_kernels(module, target)
    return proof


def test_a_right_kernel_is_proved():
    proof = proof_of(TWICE)
    assert not proof.problems
    assert proof.summary.startswith("@twice: proved, 80 instructions on 2 cores")


def lines_with(word: str) -> list[str]:
    return [line for line in TWICE.splitlines() if f" tile.{word} " in line]


@pytest.mark.parametrize("line", lines_with("set") + lines_with("wait"))
def test_each_flag_is_needed(line: str):
    assert proof_of(TWICE.replace(line + "\n", "", 1)).problems


FAULTS = [
    ("  // ONE", None, "deadlock", "core 0 stands still"),
    ("  // LAST", None, "event", "is left set"),
    ("at [0, 4096]", "at [0, 2048]", "overwritten", "that another one was written over"),
    ("at [0, 4096]", "at [0, 196000]", "bounds", "4096 bytes at 196000 pass its end"),
    (" at [0, 4096]", "", "buffer", "run tile-plan"),
    ("remui %i, %c2", "muli %i, %c2", "deadlock", "in vain"),
    ("to %c4 step", "to %c2 step", "unwritten", "elements of %y, from [32, 0] on"),
    ("%me, %c64", "%me, %c16", "race", "two cores store to the same elements of %y"),
    ("muli %i, %c16", "subi %i, %c16", "bounds", "before the memref"),
    ("tile.load %in to %s", "", "unwritten", "that nothing wrote"),
]


@pytest.mark.parametrize(("old", "new", "kind", "text"), FAULTS)
def test_planted_faults_are_named(old: str, new: str | None, kind: str, text: str):
    if new is None:
        changed = "".join(s for s in TWICE.splitlines(keepends=True) if old not in s)
    else:
        assert old in TWICE
        changed = TWICE.replace(old, new)
    found = proof_of(changed).problems
    assert any(p.kind == kind and text in p.message for p in found), [str(p) for p in found]


def test_memories_and_flags_are_those_of_the_target():
    small = replace(Target.load(), ub_bytes=4096, flags=1)
    kinds = {(p.kind, "pass its end" in p.message) for p in proof_of(TWICE, small).problems}
    assert kinds == {("bounds", True), ("event", False)}
