"""What the checker takes and must not take: the smallest program of each kind, by its rule.

A program has a buffer %a of four floats that is written, and an argument %n that is a trip count
nobody knows.
"""

import pytest

from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context
from ge.runtime.check.memory import check_plan

HBM, HOST = '"hbm">', 'memref<4xf32, "host">'
ROW, NUMBER, TRUTH = f"memref<4xf32, {HBM}", f"memref<i64, {HBM}", f"memref<i1, {HBM}"
SQUARE, LONG = f"memref<4x4xf32, {HBM}", f"memref<32xf32, {HBM}"
HOST_SQUARE = HOST.replace("4x", "4x4x")

KERNELS = """
npu_task.kernel @neg on vector {
^bb0(%0: tensor<4xf32>):
  %1 = graph.neg %0 : (tensor<4xf32>) -> tensor<4xf32>
  npu_task.return %1 : tensor<4xf32>
}
npu_task.kernel @square on vector {
^bb0(%0: tensor<4x4xf32>):
  %1 = graph.neg %0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  npu_task.return %1 : tensor<4x4xf32>
}
npu_task.kernel @both on vector {
^bb0(%0: tensor<4xf32>):
  %1 = graph.neg %0 : (tensor<4xf32>) -> tensor<4xf32>
  %2 = graph.exp %0 : (tensor<4xf32>) -> tensor<4xf32>
  npu_task.return %1, %2 : tensor<4xf32>, tensor<4xf32>
}
npu_task.kernel @box on vector {
^bb0(%0: tensor<4xf32>):
  %1 = graph.reshape %0 shape [2, 2, 1] : (tensor<4xf32>) -> tensor<2x2x1xf32>
  npu_task.return %1 : tensor<2x2x1xf32>
}
"""


def problems(body: str, figures: str = "") -> list[str]:
    """What the checker says about a program; it has streams 0 and 1."""
    text = f"""{KERNELS}
func.func @main(%x: {HOST}, %n: {NUMBER}, %p: {TRUTH})
    attributes {{{figures}npu_task.streams = 2 : i64, npu_task.events = 4 : i64}} {{
  %a = npu_task.slot arena 0 : {ROW}
  npu_task.copy %x to %a on 0 : {HOST} to {ROW}
  %e3 = npu_task.record 3 on 0
  npu_task.wait %e3 on 1
  {body}
  func.return
}}"""
    module = parse_module(context(), SourceText("in.mlir", text))
    module.verify()
    return [f"{p.kind}: {p.message}" for p in check_plan(module)]


def slot(name: str, offset: int, t: str = ROW) -> str:
    return f"{name} = npu_task.slot arena {offset} : {t}\n"


def neg(source: str, target: str, stream: int = 0, types: tuple[str, str] = (ROW, ROW)) -> str:
    a, b = types
    return f"npu_task.launch @neg on {stream} ins({source} : {a}) outs({target} : {b})\n"


def result(value: str) -> str:
    """The value is a result: it goes to the host."""
    return f"%r = memref.alloc() : {HOST}\nnpu_task.copy {value} to %r on 0 : {ROW} to {HOST}\n"


def view(name: str, source: str, t: str, offset: int, sizes: list[int], strides: list[int]):
    """The text of a view, and its type."""
    layout = f"strided<{strides}, offset: {offset}>" if offset else f"strided<{strides}>"
    new = f"memref<{'x'.join(map(str, sizes))}xf32, {layout}, {HBM}"
    where = f"offset: [{offset}], sizes: {sizes}, strides: {strides}"
    return f"{name} = memref.reinterpret_cast {source} to {where} : {t} to {new}\n", new


def constant(value: int) -> str:
    return f"%c = npu_task.constant dense<{value}> : tensor<i64> as {NUMBER}\n"


def loop(trip: str, body: str, carried: str = "%a", s: str = "%s", last: str = "") -> str:
    """A loop that carries one buffer as `s`, and yields it, or `last`."""
    head = f"npu_task.loop trip {trip} : {NUMBER} carried({carried} : {ROW})"
    return f"""{head} order [1] stacked [] {{
    ^bb0(%i{s[1:]}: {NUMBER}, %g{s[1:]}: {TRUTH}, {s}: {ROW}):
      {body}
      npu_task.yield %g{s[1:]}, {last or s} : {TRUTH}, {ROW}
    }}
    """


def scan(trip: str, body: str = "", after: str = "") -> str:
    """A loop with a scan buffer of four rows at byte 1024, whose rows are computed at byte 512."""
    return f"""{slot("%b", 512)} {slot("%w", 1024, SQUARE)}
    npu_task.loop trip {trip} : {NUMBER} scans(%w : {SQUARE}) order [] stacked [1] {{
    ^bb0(%i: {NUMBER}, %g: {TRUTH}):
      {body} {neg("%a", "%b")} {after}
      npu_task.yield %g, %b : {TRUTH}, {ROW}
    }}
    %r = memref.alloc() : {HOST_SQUARE}
    npu_task.copy %w to %r on 0 : {SQUARE} to {HOST_SQUARE}
    """


def branch(then: str, otherwise: str) -> str:
    return f"""{slot("%o", 512)} npu_task.if %p : {TRUTH} outs(%o : {ROW}) order [1] {{
      {then} : {ROW}
    }} else {{
      {otherwise} : {ROW}
    }}
    """


INNER = constant(2) + loop(
    "%c", slot("%b", 512) + slot("%d", 1024) + neg("%t", "%d") + "BODY", "%s", "%t"
)
IN_ORDER = "%e0 = npu_task.record 0 on 0\nnpu_task.wait %e0 on 1\n"
EVEN, EVEN_TYPE = view("%v", "%w", LONG, 0, [4], [2])
ODD, ODD_TYPE = view("%u", "%w", LONG, 1, [4], [2])
FIRST, BOX_TYPE = view("%v", "%w", LONG, 0, [2, 2, 1], [16, 4, 1])
SECOND, OTHER_BOX = view("%u", "%w", LONG, 1, [2, 2, 1], [16, 4, 1])
SAME, SAME_TYPE = view("%z", "%a", ROW, 0, [4], [0])
HIGH, HIGH_TYPE = view("%v", "%w", LONG, 16, [8], [1])
FILL, FILL_TYPE = view("%f", "%w", LONG, 16, [4], [1])
LOW, LOW_TYPE = view("%y", "%v", HIGH_TYPE, 0, [4], [1])
TURNED, TURNED_TYPE = view("%z", "%w", SQUARE, 0, [4, 4], [1, 4])


def boxes(one: str, other: str, types: tuple[str, str]) -> str:
    """Two streams write boxes of a slot."""
    return "".join(
        f"npu_task.launch @box on {stream} ins(%a : {ROW}) outs({value} : {t})\n"
        for stream, (value, t) in enumerate(zip((one, other), types, strict=True))
    )


SWAP = (
    constant(2)
    + f"""
  npu_task.loop trip %c : {NUMBER} carried(%a, %b : {ROW}, {ROW}) order [1, 1] stacked [] {{
  ^bb0(%i: {NUMBER}, %g: {TRUTH}, %s: {ROW}, %t: {ROW}):
    npu_task.yield %g, %t, %s : {TRUTH}, {ROW}, {ROW}
  }}"""
)


RIGHT = {
    "in place": neg("%a", "%a") + result("%a"),
    "loop that runs": slot("%b", 512) + constant(3) + loop("%c", neg("%s", "%b")) + result("%b"),
    "loops in loops": loop("%n", INNER.replace("BODY", neg("%d", "%b"))) + result("%a"),
    "scan": constant(4) + scan("%c"),
    "branch": branch(neg("%a", "%o") + "npu_task.yield %o", "npu_task.yield %a") + result("%o"),
    "swap": slot("%b", 512) + neg("%a", "%b") + SWAP,
    "event in a loop": loop(
        "%n",
        slot("%b", 512) + slot("%d", 1024) + neg("%s", "%b") + IN_ORDER + neg("%b", "%d", 1),
    ),
    "columns on two streams": slot("%w", 1024, LONG) + EVEN + ODD
    + neg("%a", "%v", 0, (ROW, EVEN_TYPE)) + neg("%a", "%u", 1, (ROW, ODD_TYPE)),
    "boxes on two streams": slot("%w", 1024, LONG) + FIRST + SECOND
    + boxes("%v", "%u", (BOX_TYPE, OTHER_BOX)),
    "in place in another shape": slot("%b", 0, f"memref<2x2x1xf32, {HBM}")
    + f"npu_task.launch @box on 0 ins(%a : {ROW}) outs(%b : memref<2x2x1xf32, {HBM})\n",
    "read with stride 0": slot("%b", 512) + SAME + neg("%z", "%b", 0, (SAME_TYPE, ROW)),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_right_programs_are_proved(name: str):
    assert problems(RIGHT[name]) == []


UNWRITTEN, OVERWRITTEN = "unwritten: npu_task.copy reads", "has overwritten"
WRONG = {
    "trip count may be 0": (
        slot("%b", 512) + loop("%n", neg("%s", "%b")) + result("%b"), UNWRITTEN
    ),
    "no iteration": (
        slot("%b", 512) + constant(-3) + loop("%c", neg("%s", "%b")) + result("%b"), UNWRITTEN
    ),
    "inner value is the outer one's, raced on": (
        loop("%n", INNER.replace("BODY", neg("%d", "%t", 1))), "race"
    ),
    "recycled for the second iteration": (
        slot("%b", 512) + neg("%a", "%b")
        + loop("%n", slot("%d", 1024) + slot("%e", 512) + neg("%b", "%d") + neg("%d", "%e")),
        OVERWRITTEN,
    ),
    "an allocation is new in each iteration": (
        loop("%n", f"%q = memref.alloc() : {ROW}\n" + slot("%b", 512) + neg("%q", "%b")
             + neg("%b", "%q")), "unwritten: launch of @neg",
    ),
    "carried buffers that overlap": (
        slot("%b", 8) + SWAP, "npu_task.loop writes the same bytes twice"
    ),
    "as many iterations as rows, while a condition holds": (
        constant(4) + scan("%c").replace(" scans", f" while %p : {TRUTH} scans"),
        "loop: a scan buffer has 4 rows, but the loop runs 0 to 4 times",
    ),
    "more iterations than rows": (constant(6) + scan("%c"), "loop: a scan buffer has 4 rows"),
    "any number of iterations": (scan("%n"), "loop: a scan buffer has 4 rows"),
    "a slot of the body over the rows": (
        constant(4) + scan("%c", slot("%z", 1024) + neg("%a", "%z")), OVERWRITTEN
    ),
    "the yielded row is recycled": (
        constant(4) + scan("%c", after=slot("%z", 512) + neg("%a", "%z")), OVERWRITTEN
    ),
    "written on one way": (
        slot("%b", 1024)
        + branch(neg("%a", "%b") + "npu_task.yield %b", "npu_task.yield %a") + result("%b"),
        UNWRITTEN,
    ),
    "out that a branch does not write": (
        branch(neg("%a", "%o") + "npu_task.yield %o", "npu_task.yield %o"),
        "unwritten: npu_task.if reads",
    ),
    "recycled on one way": (
        branch(slot("%z", 0) + neg("%a", "%z") + "npu_task.yield %z", "npu_task.yield %a")
        + result("%a"), UNWRITTEN,
    ),
    "wait before the record of a loop": (
        loop("%n", slot("%b", 512) + neg("%s", "%b") + "npu_task.wait %e0 on 1\n"
             "%e0 = npu_task.record 0 on 0\n"), "event 0 is waited for, but was not recorded",
    ),
    "event across a barrier": (
        loop("%n", "") + "npu_task.wait %e3 on 1\n", "event 3 is waited for, but was not recorded"
    ),
    "boxes that meet on two streams": (
        slot("%w", 1024, LONG) + FIRST + boxes("%v", "%v", (BOX_TYPE, BOX_TYPE)), "race"
    ),
    "a view of a view counts from the buffer": (
        slot("%w", 1024, LONG) + slot("%b", 512) + HIGH + FILL + LOW
        + neg("%a", "%f", 0, (ROW, FILL_TYPE)) + neg("%y", "%b", 0, (LOW_TYPE, ROW)),
        "unwritten: launch of @neg",
    ),
    "view before its buffer": (view("%z", "%a", ROW, -1, [4], [1])[0], "begins 4 bytes before"),
    "negative stride": (view("%z", "%a", ROW, 3, [4], [-1])[0], "at least 0"),
    "write with stride 0": (
        SAME + neg("%a", "%z", 0, (ROW, SAME_TYPE)), "elements may be in one place"
    ),
    "rows that overlap": (
        slot("%w", 1024, LONG) + view("%z", "%w", LONG, 0, [4, 4], [2, 1])[0]
        + f"npu_task.launch @square on 0 ins(%q : {SQUARE}) outs(%z : "
        f"{view('%z', '%w', LONG, 0, [4, 4], [2, 1])[1]})\n", "elements may be in one place",
    ),
    "view of another type": (
        "%z = memref.reinterpret_cast %a to offset: [0], sizes: [4], strides: [1] : "
        f"{ROW} to memref<4xi32, {HBM}\n", "keeps element type and memory space",
    ),
    "view in another space": (
        "%z = memref.reinterpret_cast %a to offset: [0], sizes: [4], strides: [1] : "
        f"{ROW} to {HOST}\n", "keeps element type and memory space",
    ),
    "write of a constant": (
        f"%k = npu_task.constant dense<1.0> : tensor<4xf32> as {ROW}\n" + neg("%a", "%k"),
        "writes a constant",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_programs_are_refused(name: str):
    body, message = WRONG[name]
    if "%q" in body and "memref.alloc" not in body:
        body = slot("%q", 2048, SQUARE) + body
    found = problems(body)
    assert any(message in text for text in found), found


# ---- one fault for each rule of docs/proofs.md --------------------------------------------------


def breaks(rule: str, body: str, figures: str = "") -> None:
    """Whether a program breaks this rule, and no other one."""
    found = problems(body, figures)
    assert found
    assert all(text.endswith(f" [{rule}]") for text in found), found


def test_m1_race() -> None:
    writes = [neg("%a", "%v", stream, (ROW, EVEN_TYPE)) for stream in (0, 1)]
    breaks("M1", slot("%w", 1024, LONG) + EVEN + "".join(writes))


def test_m2_unwritten() -> None:
    breaks("M2", slot("%b", 512) + result("%b"))


def test_m3_overwritten() -> None:
    """An inner loop's value is the outer one's, whose bytes another slot has by then."""
    breaks("M3", loop("%n", INNER.replace("BODY", slot("%e", 0) + neg("%d", "%e"))))


def test_m4_in_place() -> None:
    launch = f"npu_task.launch @square on 0 ins(%z : {TURNED_TYPE}) outs(%w : {SQUARE})\n"
    ones = f"%k = npu_task.constant dense<1.0> : tensor<4x4xf32> as {SQUARE}\n"
    filled = f"npu_task.launch @square on 0 ins(%k : {SQUARE}) outs(%w : {SQUARE})\n"
    breaks("M4", ones + slot("%w", 1024, SQUARE) + filled + TURNED + launch)


def test_m5_twice() -> None:
    launch = f"npu_task.launch @both on 0 ins(%a : {ROW}) outs(%b, %d : {ROW}, {ROW})\n"
    breaks("M5", slot("%b", 512) + slot("%d", 520) + launch)


@pytest.mark.parametrize("offset", [512, 4096])
def test_m6_segment(offset: int) -> None:
    """The last four bytes of a slot, or all of it, are beyond its segment."""
    breaks("M6", slot("%b", offset), "npu_task.arena_bytes = 524 : i64, ")


def test_m7_alignment() -> None:
    breaks("M7", slot("%b", 520), "npu_task.alignment = 512 : i64, ")


def test_m8_scattered() -> None:
    large, host = f"memref<15000xf32, {HBM}", 'memref<70x70x70xf32, "host">'
    some, t = view("%v", "%w", large, 0, [70, 70, 70], [71, 70, 69])
    copy = f"%r = memref.alloc() : {host}\nnpu_task.copy %v to %r on 0 : {t} to {host}\n"
    breaks("M8", slot("%w", 1024, large) + some + copy)


def test_m13_launch_on_the_device() -> None:
    breaks("M13", f"%h = memref.alloc() : {HOST}\n" + neg("%a", "%h", 0, (ROW, HOST)))


def test_m14_view() -> None:
    breaks("M14", view("%z", "%a", ROW, 1, [4], [1])[0])


def test_m15_buffer() -> None:
    breaks("M15", f"%z = memref.alloc() : memref<4xf32, strided<[2]>, {HBM}\n")


def test_m16_written() -> None:
    breaks("M16", f"npu_task.copy %a to %x on 0 : {ROW} to {HOST}\n")


def test_m18_end_of_a_loop() -> None:
    breaks("M18", loop("%n", "").replace(f"trip %n : {NUMBER}", ""))


def test_m19_rows_of_a_scan() -> None:
    breaks("M19", constant(2) + scan("%c"))


@pytest.mark.parametrize("stream", [2, -1])
def test_s1_stream(stream: int) -> None:
    breaks("S1", slot("%b", 512) + neg("%a", "%b", stream))


def state(name: str, offset: int, says: str, segment: str = "state") -> str:
    """A slot of a state, with what it says of itself."""
    return f"{name} = npu_task.slot {segment} {offset} {{{says}}} : {ROW}\n"


S, T = (f'npu_task.state = "{name}"' for name in "st")
VALID = "npu_task.valid = array<i64: 4>"


def test_p1_nobody_else_writes_a_state() -> None:
    """Of two that share bytes one has them at the end."""
    found = problems(state("%s", 0, f"{S}, {VALID}") + state("%t", 8, f"{T}, {VALID}"))
    assert any("writes over state 's', which is not its own [P1]" in text for text in found)
    assert {text[-4:] for text in found} == {"[P1]", "[P5]"}


@pytest.mark.parametrize("rows", [3, 0])
def test_p2_a_state_is_all_written_at_the_end(rows: int) -> None:
    breaks("P2", state("%s", 0, f"{S}, {VALID.replace('4>', f'{rows}>')}"))


@pytest.mark.parametrize("says", [VALID, f"{T}, {VALID}"])
def test_p3_a_state_has_a_name_of_its_own(says: str) -> None:
    breaks("P3", state("%s", 0, f"{T}, {VALID}") + state("%t", 16, says))


@pytest.mark.parametrize("says", [S, f"{S}, {VALID.replace('4>', '5>')}"])
def test_p4_a_state_says_which_part_holds_values(says: str) -> None:
    breaks("P4", state("%s", 0, says) + neg("%a", "%s"))


def test_p5_a_state_has_bytes_that_are_not_used_again() -> None:
    breaks("P5", state("%s", 512, f"{S}, {VALID}", "arena"))
