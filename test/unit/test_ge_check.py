"""ge-check: proves what the compiler wrote, and finds each fault that is edited into the text."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.printer import Printer

from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context
from ge.runtime.check.proof import check_program
from ge.runtime.check.schedule import check_streams
from ge.tools.cli import check
from ge.tools.commands import ge_check as main
from ge.tools.commands import ge_compile
from ge.transforms.memory.plan_memory import PlanMemoryPass

HBM, HOST = (f'memref<128xf32, "{space}">' for space in ("hbm", "host"))

CUBE = "[16, 16, 16] blocks 1 buffers 1"

TILING = "tiling <[128] blocks 1 buffers 1>"


PROGRAM = f"""
npu_task.kernel @neg on vector {TILING} {{
^bb0(%0: tensor<128xf32>):
  %1 = graph.neg %0 : (tensor<128xf32>) -> tensor<128xf32>
  npu_task.return %1 : tensor<128xf32>
}}
func.func @main(%x: {HOST}, %p: memref<i1, "hbm">)
    attributes {{npu_task.streams = 2 : i64, npu_task.events = 2 : i64}} {{
  %y = memref.alloc() : {HOST}
  %0 = memref.alloc() : {HBM}
  %1 = memref.alloc() : {HBM}
  %2 = memref.alloc() : {HBM}
  %3 = memref.alloc() : {HBM}
  npu_task.copy %x to %0 on 0 : {HOST} to {HBM}
  %e0 = npu_task.record 0 on 0
  npu_task.wait %e0 on 1
  npu_task.launch @neg on 1 ins(%0 : {HBM}) outs(%1 : {HBM})
  npu_task.launch @neg on 1 ins(%1 : {HBM}) outs(%2 : {HBM})
  npu_task.if %p : memref<i1, "hbm"> outs(%3 : {HBM}) order [1] {{
    %a = memref.alloc() : {HBM}
    npu_task.launch @neg on 1 ins(%2 : {HBM}) outs(%a : {HBM})
    npu_task.yield %a : {HBM}
  }} else {{
    npu_task.yield %2 : {HBM}
  }}
  npu_task.copy %3 to %y on 0 : {HBM} to {HOST}
  func.return
}}
"""


def text_of(module: ModuleOp) -> str:
    import io

    out = io.StringIO()
    Printer(out).print_op(module)
    return out.getvalue()


@pytest.fixture(scope="module")
def program() -> str:
    module = parse_module(context(), SourceText("in.mlir", PROGRAM))
    PlanMemoryPass().apply(Context(), module)
    return text_of(module)


def problems(text: str) -> list[str]:
    return [
        p.message for p in check_program(parse_module(context(), SourceText("p", text))).problems
    ]


def test_the_plan_is_proved(program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "program.mlir"
    path.write_text(program)
    assert main([str(path)]) == 0
    expected = "proved, 5 tasks on 2 streams, arena of 1536 bytes, "
    expected += "which is optimal for the order of its tasks, 3 tensors"
    assert expected in capsys.readouterr().out


MERGED = f"""
npu_task.kernel @neg on vector {TILING} {{
^bb0(%0: tensor<128xf32>):
  %1 = graph.neg %0 : (tensor<128xf32>) -> tensor<128xf32>
  npu_task.return %1 : tensor<128xf32>
}}
func.func @main(%x: {HOST}) attributes {{npu_task.streams = 1 : i64, npu_task.events = 0 : i64}} {{
  %y = memref.alloc() : {HOST}
  %0 = memref.alloc() : {HBM}
  %1 = memref.alloc() : {HBM}
  %2 = memref.alloc() : {HBM}
  npu_task.copy %x to %0 on 0 : {HOST} to {HBM}
  npu_task.launch @neg on 0 ins(%0 : {HBM}) outs(%1 : {HBM})
  npu_task.launch @neg on 0 ins(%1 : {HBM}) outs(%2 : {HBM})
  npu_task.launch @neg on 0 ins(%2 : {HBM}) outs(%0 : {HBM})
  npu_task.copy %0 to %y on 0 : {HBM} to {HOST}
  func.return
}}
"""


def test_a_slot_with_a_dead_gap_is_not_called_optimal():
    module = parse_module(context(), SourceText("in.mlir", MERGED))
    PlanMemoryPass().apply(context(), module)
    proof = check_program(module)
    text = "arena of 1536 bytes, which is optimal for slots live from first to last use (1024 bytes"
    assert text in proof.summary


def test_the_limits_of_a_cap_are_said(program: str):
    text = program.replace("npu_task.streams", "npu_task.cap_bytes = 1536 : i64, npu_task.streams")
    summary = check_program(parse_module(context(), SourceText("p", text))).summary
    assert "at most 1536 bytes live outside of branches and loops when one stream" in summary


def test_a_circle_of_streams_has_a_wait_before_its_record(program: str):
    """Of such a text dominance is not verified first."""
    circle = "npu_task.wait %e1 on 0\n %e0 = npu_task.record 0 on 0\n npu_task.wait %e0 on 1\n"
    text = program.replace("%e0 = npu_task.record 0 on 0\n", circle, 1)
    text = text.replace(circle, circle + "%e1 = npu_task.record 1 on 1\n")
    problems = check_streams(parse_module(context(), SourceText("p", text)))
    assert [p.message for p in problems] == ["event 1 is not recorded before the end waits for it"]


FAULTS = {
    "shifted offset": ('"arena" 1024', '"arena" 256', "writes bytes that it reads"),
    "shifted below the peak": ('"arena" 1024', '"arena" 512', "peak_bytes is stated as 1536"),
    "offset beyond the others": ('"arena" 1024', '"arena" 2048', "slot ends at byte 2560 of 1536"),
    "offset not aligned": ('"arena" 1024', '"arena" 1000', "no multiple of 512"),
    "wrong peak": ("peak_bytes = 1536", "peak_bytes = 1024", "highest slot ends at byte 1536"),
    "wrong bound": (
        "{peak_bytes = 1536 : i64, lower_bound_bytes = 1536",
        "{peak_bytes = 1536 : i64, lower_bound_bytes = 1024",
        "stated as 1024, but the most bytes live at one time are 1536",
    ),
    "wrong gap": ("gap_bytes = 0", "gap_bytes = 512", "peak and lower bound differ by 0"),
    "not optimal": ("optimal = true", "optimal = false", "the plan is stated as not optimal"),
    "missing tensor": ("live = array<i64: 2, 3, 4>", "live = array<i64: 2, 3>", "1024 bytes"),
    "dead tensor": ("live = array<i64: 2, 3, 4>", "live = array<i64: 0, 3, 4>", "is dead before"),
    "no such tensor": ("live = array<i64: 2, 3, 4>", "live = array<i64: 2, 3, 9>", "names [9]"),
    "tensor twice": ("live = array<i64: 2, 3, 4>", "live = array<i64: 2, 3, 3>", "a slot twice"),
    "dropped wait": ("npu_task.wait %e0 on 1\n", "", "may still be writing"),
    "event used too early": (
        "npu_task.wait %e0 on 1\n",
        "npu_task.wait %e0 on 1\n %e1 = npu_task.record 0 on 0\n",
        "event 0 is recorded again after npu_task.copy",
    ),
    "number of a later event": (
        "npu_task.wait %e0 on 1\n",
        "%e1 = npu_task.record 0 on 0\n npu_task.wait %e0 on 1\n",
        "waits for the one before [reused]",
    ),
    "buffer outside of slots": (
        "    func.return",
        '    %z = memref.alloc() : memref<20000000000xf32, "hbm">\n    func.return',
        "memref.alloc makes a buffer of 80000000000 outside of slots",
    ),
    "event that is not stated": ("events = 2", "events = 0", "event 0 is not among those"),
    "more streams than the target": ("streams = 2", "streams = 2000", "910b2 has 1984"),
    "cap exceeded": (
        "npu_task.events = 2 : i64",
        "npu_task.events = 2 : i64, npu_task.cap_bytes = 512 : i64",
        "bytes may be live when stream",
    ),
    "dropped producer": (
        "npu_task.copy %x to %0 on 0", "npu_task.copy %x to %1 on 0", "nothing has written"
    ),
    "larger arena": (
        "npu_task.arena_bytes = 1536", "npu_task.arena_bytes = 2048", "the arena has 2048 bytes"
    ),
    "no certificate": ("npu_task.certificate", "my.certificate", "plan-memory was not run"),
    "alignment below the target's": (
        "npu_task.alignment = 512", "npu_task.alignment = 256", "aligned to 256 bytes, not to"
    ),
    "no alignment": ("npu_task.alignment = 512", "npu_task.alignment = 0", "aligned to 0 bytes"),
    "weights": ("weight_bytes = 0", "weight_bytes = 512", "weight_bytes is stated as 512"),
    "bytes without reuse": (
        "no_reuse_bytes = 2560", "no_reuse_bytes = 4096", "no_reuse_bytes is stated as 4096"
    ),
    "inputs and outputs": ("io_bytes = 0", "io_bytes = 512", "io_bytes is stated as 512"),
    "bound of the program": (
        "npu_task.lower_bound_bytes = 1536", "npu_task.lower_bound_bytes = 1024",
        "lower_bound_bytes of @main is 1024",
    ),
    "gap below zero": ("gap_bytes = 0", "gap_bytes = -512", "peak and lower bound differ by 0"),
    "optimal of the wrong type": ("optimal = true", "optimal = 1 : i64", "state optimal as"),
    "more than the device": (
        "npu_task.arena_bytes = 1536", "npu_task.arena_bytes = 137438953472",
        "910b2 has 68719476736",
    ),
    "pinned without being asked": (
        '"arena" 1024 ', '"arena" 1024 {npu_task.pinned} ', "does not ask for this slot"
    ),
    "no peak": ("{peak_bytes", "{peak_byte", "does not state peak_bytes"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_found(
    fault: str, program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    old, new, message = FAULTS[fault]
    assert old in program
    path = tmp_path / "program.mlir"
    path.write_text(program.replace(old, new, 1))
    assert main([str(path)]) == 1
    told = capsys.readouterr()
    assert message in told.err
    assert "not proved" in told.out


REFUSED = {
    "negative figure": (
        "weight_bytes = 0",
        "weight_bytes = -512",
        "'npu_task.weight_bytes': expected an i64 that is not negative",
    ),
    "cap of the wrong type": (
        "npu_task.events = 2 : i64",
        'npu_task.events = 2 : i64, npu_task.cap_bytes = "1"',
        "'npu_task.cap_bytes': expected an i64 that is not negative",
    ),
    "target of the wrong type": (
        "npu_task.events = 2 : i64",
        "npu_task.events = 2 : i64, npu_task.target = 5 : i64",
        "'npu_task.target': expected a string",
    ),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_figures_of_the_wrong_type_are_refused_before(
    fault: str, program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """By the verifier."""
    old, new, message = REFUSED[fault]
    path = tmp_path / "program.mlir"
    path.write_text(program.replace(old, new, 1))
    assert main([str(path)]) == 1
    assert message in capsys.readouterr().err


def test_a_pinned_slot_is_asked_for_and_apart():
    module = parse_module(context(), SourceText("in.mlir", PROGRAM))
    PlanMemoryPass(no_reuse=("neg",)).apply(context(), module)
    assert problems(text_of(module)) == []
    text = re.sub(r'("arena") 1024 {', r"\1 512 {", text_of(module))
    assert any("kept apart shares bytes" in p for p in problems(text))


def test_a_shorter_pinned_slot_counts_everywhere(program: str):
    text = re.sub(r'(%0 = npu_task.slot "arena" \d+)', r"\1 {npu_task.pinned}", program)
    assert any("the most bytes live at one time are 2048" in p for p in problems(text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("func.func @main() { func.return }", "is at the graph level"),
        ("func.func @f(", "error"),
        (
            PROGRAM.replace(TILING, f"tiling <{CUBE}>"),
            "a tile of three sizes is for",
        ),
    ],
)
def test_what_is_no_program(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "in.mlir"
    path.write_text(text)
    assert main([str(path)]) == 1
    assert message in capsys.readouterr().err
    assert main([str(tmp_path / "none.mlir")]) == 1


@settings(max_examples=settings().max_examples // 2)
@given(st.sampled_from(["bound", "live"]), st.integers(-3, 6))
def test_wrong_figures_are_found(kind: str, change: int):
    module = parse_module(context(), SourceText("in.mlir", PROGRAM))
    PlanMemoryPass().apply(Context(), module)
    text = text_of(module)
    if kind == "bound":
        text = text.replace("{peak_bytes = 1536", f"{{peak_bytes = {1536 + 512 * change}")
        assert bool(problems(text)) == (change != 0)
    else:
        text = text.replace("array<i64: 2, 3, 4>", f"array<i64: 2, {change}, 4>")
        assert bool(problems(text)) == (change != 3)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        # a slot after its first use
        (
            r"(.*%0 = npu_task.slot.*\n(?:.*\n)*?)(.*npu_task.copy %x.*\n)",
            r"\2\1",
            "does not dominate",
        ),
        # a slot before the arena
        ('"arena" 512', '"arena" -512', "offset is at least 0"),
        # a branch without a terminator
        (r"npu_task.yield %2[^\n]*\n", "", "npu_task.if"),
    ],
)
def test_a_program_that_is_not_legal_is_not_proved(
    old: str, new: str, message: str, program: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
):  # fmt: skip
    text = re.sub(old, new, program, count=1)
    assert text != program
    path = tmp_path / "program.mlir"
    path.write_text(text)
    assert main([str(path)]) == 1
    assert message in capsys.readouterr().err


OPEN = """
func.func @main(%x: tensor<?x64xf32> {graph.name = "x", graph.dims = ["batch", ""]})
    -> tensor<?x64xf32> {
  %y = graph.relu %x : (tensor<?x64xf32>) -> tensor<?x64xf32>
  func.return %y : tensor<?x64xf32>
}
"""


def test_many_sizes_are_proved_where_all_are_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    path, program = tmp_path / "m.mlir", tmp_path / "p.mlir"
    path.write_text(OPEN)
    assert ge_compile([str(path), "-o", str(program)]) == 0
    monkeypatch.setattr(check, "MOST_SIZES", 2)
    capsys.readouterr()
    assert main([str(program), "--dim", "batch=1..3"]) == 0
    assert "proved as bound programs at the ends of the ranges only" in capsys.readouterr().out
    assert main([str(program), "--dim", "batch=1..3", "--every-size"]) == 0
    assert "proved at all 3 sizes of batch=1..3" in capsys.readouterr().out
