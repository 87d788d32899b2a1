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
def test_t3_no_core_reads_sums_that_another_one_adds_to(reader: str):
    (problem,) = proof_of(SUMS.replace("READER", reader)).problems
    assert "one core reads elements of %y that another one stores" in problem.message
    assert problem.rule == "T3"


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
def test_t8_tails_without_a_mask(copies: int):
    (problem,) = sums_of_columns(None, False, copies).problems
    assert "reads bytes of ub that an earlier load wrote" in problem.message
    assert problem.message.endswith("load with `pad` [T8]")


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
]


@pytest.mark.parametrize(("old", "new", "text"), MISSING)
def test_t7_every_element_of_a_result_is_stored(old: str, new: str, text: str):
    assert not proof_of(STORED_RESULTS).problems
    (problem,) = proof_of(STORED_RESULTS.replace(old, new)).problems
    assert text in problem.message
    assert problem.rule == "T7"


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


# ---- one fault for each rule of docs/proofs.md ----


def breaks(rule: str, proof: KernelProof) -> None:
    """Whether a kernel breaks this rule, and no other one."""
    assert {p.rule for p in proof.problems} == {rule}, [str(p) for p in proof.problems]


def vector(body: str) -> str:
    """A kernel of one core that stores a tile, before which it does this."""
    alone = VECTOR.replace(", %z: memref<64x1xi4>", "")
    return alone.replace("BODY", f"{FILL}\n    {body}\n    {STORED}")


def of_rows(kernel: Any, cores: int = 1, of: int = 64) -> KernelProof:
    x = Tensor((of, 64), "f32")
    return tile.kernel(kernel).on(x, x, cores=cores).check()


def test_t1_order_on_one_core() -> None:
    """The store does not wait for what computes: the flags' numbers are those of others."""
    breaks("T1", proof_of(vector("").replace("v -> mte3", "v -> mte2")))


def test_t2_two_cores_store_the_same() -> None:
    def same(c: Any, x: Any, out: Any) -> None:
        c.store(out[0:], c.load(c.ub(64, 64, "f32"), x[0:]))

    breaks("T2", of_rows(same, cores=2))


def test_t4_stores_at_numbers_that_are_read() -> None:
    """All rows are copied, and some again to wherever numbers say: half over others."""

    def copy(c: Any, x: Any, numbers: Any, out: Any) -> None:
        t = c.ub(16, 64, "f32")
        for i in c.range(4):
            c.store(out[i * 16 :], c.load(t, x[i * 16 :]))
        for i in c.range(2):
            c.store(out[c.read(numbers[i], below=40) :], t)

    x = Tensor((64, 64), "f32")
    breaks("T4", tile.kernel(copy).on(x, Tensor((2,), "i32"), x, cores=1).check())


def test_t5_bytes_that_nothing_wrote() -> None:
    breaks("T5", proof_of(vector("").replace(FILL, "")))


def test_t5_halves_of_bytes_that_nothing_wrote() -> None:
    box = "%z[%c0, %c0] : memref<64x1xi4> -> !tile.box<64x1xi4>"
    store = f"%box = tile.view {box}\n    tile.store %narrow to %box"
    text = VECTOR.replace("%y: memref<16x64xf32>, ", "")
    breaks("T5", proof_of(text.replace("BODY", store)))


def test_t6_elements_that_nothing_stored() -> None:
    """The result is read, and then stored."""

    def late(c: Any, x: Any, out: Any) -> None:
        t = c.ub(64, 64, "f32")
        c.load(t, out[0:])
        c.store(out[0:], c.load(t, x[0:]))

    breaks("T6", of_rows(late))


def test_t9_a_buffer_in_whose_place_another_one_is() -> None:
    other = "%other = tile.alloc at [4032] : !tile.tile<16x64xf32, ub>\n    tile.fill %other, 2.0"
    breaks("T9", proof_of(vector(other)))


def test_t12_flags_of_the_target() -> None:
    breaks("T12", proof_of(TWICE, replace(Target.load(), flags=1)))


def test_t13_a_flag_that_is_set_twice() -> None:
    flags = "tile.set v -> mte3 [%c0]\n    tile.wait v -> mte3 [%c0]"
    again = f"tile.set v -> mte3 [%c0]\n    {flags}\n    tile.wait v -> mte3 [%c0]"
    breaks("T13", proof_of(vector("").replace(flags, again)))


def test_t14_a_flag_that_is_left_set() -> None:
    breaks("T14", proof_of(vector("tile.set v -> mte2 [%c1]")))


def test_t15_a_wait_in_vain() -> None:
    breaks("T15", proof_of(vector("tile.wait mte2 -> v [%c1]")))


def test_t15_a_push_that_one_of_two_vector_cores_lacks() -> None:
    own = "%part = tile.part\n %one = arith.cmpi eq, %part, %c0 : index\n scf.if %one {"
    push = "tile.push %p to %weights"
    text = SPLIT.replace(push, f"{own}\n {push}\n }}")
    breaks("T15", proof_of(text, Target.load("910b2")))


def test_t16_a_tile_that_is_left_in_a_fifo() -> None:
    store = "tile.store %acc to %ob"
    text = SPLIT.replace(store, f"{store}\n    tile.push %acc to %scores")
    breaks("T16", proof_of(text, Target.load("910b2")))


def test_t17_a_barrier_that_one_core_comes_to() -> None:
    def meet(c: Any, x: Any, out: Any) -> None:
        t = c.ub(16, 64, "f32")
        for i in c.share(4):
            c.store(out[i * 16 :], c.load(t, x[i * 16 :]))
        with c.when(c.core < 1):
            c.barrier()

    breaks("T17", of_rows(meet, cores=4))


@pytest.mark.parametrize(("kind", "text"), [("vector", STORED_RESULTS), ("cube", SPLIT)])
def test_t18_more_cores_than_there_are(kind: str, text: str) -> None:
    target = Target.load("910b2")
    assert not proof_of(text, replace(target, cube_cores=2, vector_cores=4)).problems
    few = {"cube_cores": 1} if kind == "cube" else {"vector_cores": 3}
    breaks("T18", proof_of(text, replace(target, **few)))


@pytest.mark.parametrize("bytes_", [8223, 8224])
def test_t19_the_end_of_a_memory(bytes_: int) -> None:
    proof = proof_of(vector(""), replace(Target.load(), ub_bytes=bytes_))
    if bytes_ < 8224:
        breaks("T19", proof)
    else:
        assert not proof.problems


@pytest.mark.parametrize("column", [1, 40])
def test_t20_places_of_sub_tiles(column: int) -> None:
    """At 4 bytes none begins, and at column 40 of 64 none of 32 columns ends."""
    at = f"%n = arith.constant {column} : index\n%at = arith.muli %n, %one : index"
    part = "%part = tile.view %t[%c0, %at]"
    types = "!tile.tile<16x64xf32, ub> -> !tile.tile<16x32xf32, ub>"
    fill = "tile.fill %part, 2.0"
    breaks("T20", proof_of(vector(f"{at}\n{part} : {types}\n{fill}")))


def test_t20_a_number_for_all_others_begins_anywhere() -> None:
    """The scalar unit reads it; what the vector unit writes begins at 32 bytes."""
    at = "%n = arith.constant 3 : index\n%at = arith.muli %n, %one : index"
    part = "%part = tile.view %t[%c0, %at] : !tile.tile<16x64xf32, ub> -> !tile.tile<1x1xf32, ub>"
    scaled = """tile.map ins(%t, %part) outs(%t) {
    ^bb0(%a: tensor<16x64xf32>, %b: tensor<1x1xf32>):
      %m = graph.mul %a, %b : (tensor<16x64xf32>, tensor<1x1xf32>) -> tensor<16x64xf32>
      tile.yield %m : tensor<16x64xf32>
    }"""
    assert not proof_of(vector(f"{at}\n{part}\n{scaled}")).problems
    breaks("T20", proof_of(vector(f"{at}\n{part}\n{scaled}\ntile.fill %part, 2.0")))


@pytest.mark.parametrize("first", [-1, 1])
def test_t21_boxes_begin_in_their_memref(first: int) -> None:
    """A box that begins after it stores no rows at its end, which another one has stored."""
    again = f"""%at = arith.constant {first} : index
    tile.set v -> mte3 [%c1]
    tile.wait v -> mte3 [%c1]
    %more = tile.view %y[%at, %c0] : memref<16x64xf32> -> !tile.box<16x64xf32>
    tile.store %t to %more"""
    proof = proof_of(vector(again))
    if first < 0:
        breaks("T21", proof)
    else:
        assert not proof.problems


def test_t22_a_buffer_without_a_place() -> None:
    breaks("T22", proof_of(vector("").replace("%t = tile.alloc at [0]", "%t = tile.alloc")))


@pytest.mark.parametrize(("lhs", "rhs"), [(4, 0), (-1, 4)])
def test_t23_arithmetic(lhs: int, rhs: int) -> None:
    """A division by zero, and an unsigned one of a negative number."""
    numbers = f"%lhs = arith.constant {lhs} : index\n%rhs = arith.constant {rhs} : index\n"
    breaks("T23", proof_of(vector(f"{numbers}%q = arith.divui %lhs, %rhs : index")))


@pytest.mark.parametrize(("step", "text"), [(0, "at least 1, not 0"), (1, "rounds of loops")])
def test_t24_loops_end(step: int, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tile_program, "MOST_INSTRUCTIONS", 1000)
    proof = proof_of(
        vector(f"""%n = arith.constant {step} : index
    %step = arith.muli %n, %one : index
    %many = arith.constant 1001 : index
    scf.for %i = %c0 to %many step %step {{
    }}""")
    )
    breaks("T24", proof)
    assert text in proof.problems[0].message
