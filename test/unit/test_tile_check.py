"""The proof of tile programs, on a kernel that is right and on faults planted in it."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ge.dialects.targets.target import Target
from ge.dialects.text.reading import SourceText, parse_module
from ge.dialects.tile.kernel import KernelOp
from ge.lowering.building import tile_kernels as tile
from ge.lowering.building.tile_kernels import Tensor
from ge.lowering.driver.compiler import context
from ge.runtime.check import tile_program
from ge.runtime.check.tile_device import Use
from ge.runtime.check.tiles import KernelProof, check_kernel, check_kernels

sys.path.insert(0, str(Path(__file__).parent))
from tile_texts import SPLIT

TWICE = (Path(__file__).parents[1] / "runtime/cores/check.mlir").read_text("utf-8")


def proof_of(text: str, target: Target | None = None) -> KernelProof:
    module = parse_module(context(), SourceText("twice.mlir", text))
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


FIRST = "  %c0 = arith.constant 0 : index\n"
NUMBERS = """
  %minus = arith.constant -1 : index
"""
FAULTS = [
    (") cores 2 {", ") cores 49 {", "capacity", "49 vector cores, and 910b2 has 48"),
    ("arith.muli %i, %c16", "arith.divui %minus, %c16", "loop", "of a negative number, -1"),
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
        changed = TWICE.replace(old, new).replace(FIRST, FIRST + NUMBERS)
    found = proof_of(changed).problems
    assert any(p.kind == kind and text in p.message for p in found), [str(p) for p in found]


def test_memories_and_flags_are_those_of_the_target():
    small = replace(Target.load(), ub_bytes=4096, flags=1)
    kinds = {(p.kind, "pass its end" in p.message) for p in proof_of(TWICE, small).problems}
    assert kinds == {("bounds", True), ("event", False)}


# ---- what a proof could miss ----

SUMS = """
tile.kernel @sums(%y: memref<16x64xf32>) cores 2 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  tile.vector {
    %t = tile.alloc at [0] : !tile.tile<16x64xf32, ub>
    %me = tile.core
    %reads = arith.cmpi eq, %me, %READER : index
    %box = tile.view %y[%c0, %c0] : memref<16x64xf32> -> !tile.box<16x64xf32>
    tile.fill %t, 1.0
    tile.set v -> mte3 [%c0]
    tile.wait v -> mte3 [%c0]
    tile.store %t to %box add
    tile.set mte3 -> mte2 [%c0]
    tile.wait mte3 -> mte2 [%c0]
    scf.if %reads {
      tile.load %box to %t
    }
  }
}
"""


@pytest.mark.parametrize("reader", ["c0", "c1"])
def test_no_core_reads_sums_that_another_one_adds_to(reader: str):
    found = proof_of(SUMS.replace("READER", reader)).problems
    assert [p.kind for p in found] == ["race"]
    assert "one core reads elements of %y that another one stores" in found[0].message


VECTOR = """
tile.kernel @k(%y: memref<16x64xf32>, %z: memref<64x1xi4>) cores 1 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %true = arith.constant true
  tile.vector {
    %t = tile.alloc at [0] : !tile.tile<16x64xf32, ub>
    %narrow = tile.alloc at [8192] : !tile.tile<64x1xi4, ub>
    %one = arith.addi %c0, %c1 : index
    BODY
  }
}
"""
FILL = "tile.fill %t, 1.0"
STORED = """tile.set v -> mte3 [%c0]
    tile.wait v -> mte3 [%c0]
    %box = tile.view %y[%c0, %c0] : memref<16x64xf32> -> !tile.box<16x64xf32>
    tile.store %t to %box"""
NOT = f"""%same = arith.cmpi eq, %c0, %one : index
    %branch = arith.xori %same, %true : i1
    scf.if %branch {{
      {FILL}
    }}
    {STORED}"""
MISSED = [
    ("unwritten", "tile.store %narrow to %box", "%z[%c0, %c0] : memref<64x1xi4>", "64x1xi4"),
    ("bounds", "tile.store %part to %box", "%y[%c0, %c0] : memref<16x64xf32>", "16x32xf32"),
]


@pytest.mark.parametrize(("kind", "store", "source", "box"), MISSED)
def test_columns_of_few_bits_and_places_of_sub_tiles(kind: str, store: str, source: str, box: str):
    tile = "tile.tile<16x64xf32, ub> -> !tile.tile<16x32xf32, ub>"
    view = f"%part = tile.view %t[%c0, %one] : !{tile}\n    " if "%part" in store else ""
    body = f"{view}%box = tile.view {source} -> !tile.box<{box}>\n    {store}"
    assert kind in [p.kind for p in proof_of(VECTOR.replace("BODY", body)).problems]


def test_not_of_a_condition():
    """True is kept as -1: what is not true is false."""
    alone = VECTOR.replace(", %z: memref<64x1xi4>", "")
    assert not proof_of(alone.replace("BODY", NOT)).problems
    (problem,) = proof_of(alone.replace("BODY", NOT.replace("eq,", "ne,"))).problems
    assert "reads bytes of ub that nothing wrote" in problem.message


def sums_of_columns(pad: float | None, filled: bool, copies: int = 1) -> KernelProof:
    """Of 40 columns, 16 at a time: the last tile has 8."""

    def kernel(c: Any, x: Any, out: Any):
        t, s = c.ub(16, 16, "f32", copies=copies), c.ub(16, 1, "f32")
        s[:] = 0
        for i in c.range(3):
            if filled:
                t[i] = 0
            c.load(t[i], x[0:, i * 16 :], pad=pad)
            s[:] = s + tile.rowsum(t[i])
        c.store(out[0:], s)

    x, out = Tensor((16, 40), "f32"), Tensor((16, 1), "f32")
    return tile.kernel(kernel).on(x, out, cores=1).check()


@pytest.mark.parametrize("copies", [1, 2])
def test_tails_without_a_mask(copies: int):
    (problem,) = sums_of_columns(None, False, copies).problems
    assert problem.kind == "left"
    assert "reads bytes of ub that an earlier load wrote" in problem.message
    assert "load with `pad`" in problem.message


def test_tails_that_are_padded():
    assert not sums_of_columns(0, False).problems
    assert not sums_of_columns(None, True).problems  # by what was there before
    assert not sums_of_columns(None, True, 2).problems


def test_a_tail_of_what_is_stored_needs_no_padding():
    def kernel(c: Any, x: Any, out: Any):
        t = c.ub(16, 16, "f32", copies=2)
        for i in c.range(3):
            c.load(t[i], x[0:, i * 16 :])
            c.store(out[0:, i * 16 :], t[i])

    x = Tensor((16, 40), "f32")
    assert not tile.kernel(kernel).on(x, x, cores=1).check().problems


def test_loops_that_never_end_are_left(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tile_program, "MOST_INSTRUCTIONS", 1000)
    endless = """tile.kernel @endless(%x: memref<128x64xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %many = arith.constant 1000000000000 : index
  tile.vector {
    %t = tile.alloc at [0] : !tile.tile<16x64xf32, ub>
    scf.for %i = %c0 to %many step %c1 {
    }
    tile.fill %t, 0.0
  }
}"""
    (problem,) = proof_of(endless).problems
    assert "rounds of loops" in problem.message


def test_vector_cores_beside_a_cube_core() -> None:
    """Each needs what the other has, too: a push less, a pop less, the same rows stored twice."""
    target = Target.load("910b2")
    assert not proof_of(SPLIT, target).problems
    many = proof_of(SPLIT.replace("cores 2", "cores 25"), replace(target, cube_cores=99))
    assert "takes 50 vector cores, and 910b2 has 48" in many.problems[0].message
    first = "%part = tile.part\n %one = arith.cmpi eq, %part, %c0 : index\n scf.if %one {"
    for op in ("tile.push %p to %weights", "tile.pop %scores to %s"):
        faulty = SPLIT.replace(op, f"{first}\n {op}\n }}")
        assert "deadlock" in {p.kind for p in proof_of(faulty, target).problems}
    store = """
      %all = tile.view %o[%c0, %c0] : memref<32x32xf32> -> !tile.box<8x32xf32>
      tile.store %s to %all
      tile.pop %scores to %s"""
    twice = SPLIT.replace("cores 2", "cores 1").replace("tile.pop %scores to %s", store)
    assert "race" in {p.kind for p in proof_of(twice, target).problems}


@tile.kernel(add=True, reads=False)
def halves(c: Any, x: Any, out: Any, add: bool, reads: bool) -> None:
    """out += the upper half of 2 x + its lower half, by two vector cores"""
    rows = 32 // c.split()
    a, b, acc, half = c.l1(32, 32), c.l1(32, 32), c.l0c(32, 32), c.ub(rows, 32, "f32")
    sums = c.queue(half, 1)
    c.mmad(acc, c.load(a, x[0:]), c.load(b, x[0:]), init=True)
    sums.send(acc, half)
    c.store(out[0:], half, add=add)
    if reads:
        c.store(out[0:], c.load(half, out[0:]), add=add)


def test_sums_are_added_in_any_order() -> None:
    """By several cores beside one; not so what is stored, or read meanwhile."""
    x, out = Tensor((32, 32), "f16"), Tensor((16, 32), "f32")

    def kinds(**parameters: bool) -> set[str]:
        proof = halves.on(x, out, cores=1, target="910b2", **parameters).check()
        return {p.kind for p in proof.problems}

    assert not kinds()
    assert kinds(add=False) == {"race"}
    assert kinds(reads=True) == {"race"}


STORED_RESULTS = """
tile.kernel @k(%x: memref<64x64xf32>, %y: memref<64x64xf32>) cores 4 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  tile.vector {
    %t = tile.alloc at [0] : !tile.tile<16x64xf32, ub>
    %me = tile.core
    scf.for %i = %c0 to %c1 step %c1 {
      %row = arith.muli %me, %c16 : index
      %in = tile.view %x[%row, %c0] : memref<64x64xf32> -> !tile.box<16x64xf32>
      tile.load %in to %t
      tile.set mte2 -> mte3 [%c0]
      tile.wait mte2 -> mte3 [%c0]
      %out = tile.view %y[%row, %c0] : memref<64x64xf32> -> !tile.box<16x64xf32>
      tile.store %t to %out
    }
  }
}
"""
STORE = "tile.store %t to %out"
BRANCH = f"%is = arith.cmpi eq, %me, %c16 : index\n scf.if %is {{\n {STORE}\n }}"
MISSING = [
    ("%i = %c0", "%i = %c1", "elements of %y, from [0, 0] on, are stored by no core"),
    ("cores 4", "cores 3", "elements of %y, from [48, 0] on, are stored by no core"),
    ("tile.core\n", "tile.cores\n", "elements of %y, from [0, 0] on, are stored by no core"),
    (STORE, BRANCH, "elements of %y, from [0, 0] on, are stored by no core"),
    (STORE, "", "nothing reads %y or stores to it: store to it if it is a result"),
    ("view %x[", "view %y[", "reads elements of %y that nothing stored before a barrier"),
]


@pytest.mark.parametrize(("old", "new", "text"), MISSING)
def test_every_element_of_a_result_is_stored_and_not_read_before(old: str, new: str, text: str):
    assert not proof_of(STORED_RESULTS).problems
    found = proof_of(STORED_RESULTS.replace(old, new)).problems
    assert ("unwritten", True) in {(p.kind, text in p.message) for p in found}


def test_sums_are_added_to_what_was_stored():
    """A kernel alone may be given what it adds to; a launch's result holds nothing at first."""
    added = STORED_RESULTS.replace(STORE, f"{STORE} add")
    assert proof_of(added).summary.endswith("provided that %y holds what its sums are added to")
    module = parse_module(context(), SourceText("added.mlir", added))
    (kernel,) = (op for op in module.ops if isinstance(op, KernelOp))
    (problem,) = check_kernel(kernel, Target.load(), Use(results=frozenset([1]))).problems
    assert "adds to elements of %y that nothing stored" in problem.message
    cleared = STORED_RESULTS.replace(STORE, f"{STORE}\n {STORE} add")
    assert {p.kind for p in proof_of(cleared).problems} <= {"race"}
