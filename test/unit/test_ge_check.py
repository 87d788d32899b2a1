"""ge-check: proves what the compiler wrote, and finds each fault that is edited into the text."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.printer import Printer

from ge.dialects.targets.target import Target
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context, lower
from ge.lowering.pipeline.options import Options
from ge.runtime.check.problems import RULES
from ge.runtime.check.proof import check_program
from ge.runtime.check.schedule import useless_events
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


FAULTS = {
    "shifted offset": ('arena 1024', 'arena 256', "writes bytes that it reads"),
    "shifted below the peak": ('arena 1024', 'arena 512', "peak_bytes is stated as 1536"),
    "offset beyond the others": ('arena 1024', 'arena 2048', "slot ends at byte 2560 of 1536"),
    "offset not aligned": ('arena 1024', 'arena 1000', "no multiple of 512"),
    "buffer outside of slots": (
        "    func.return",
        '    %z = memref.alloc() : memref<20000000000xf32, "hbm">\n    func.return',
        "memref.alloc makes a buffer of 80000000000 outside of slots",
    ),
    "dropped producer": (
        "npu_task.copy %x to %0 on 0", "npu_task.copy %x to %1 on 0", "nothing has written"
    ),
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


# ---- one fault for each rule of docs/proofs.md ----


def breaks(rule: str, program: str, edits: dict[str, str], message: str = "") -> None:
    """Whether an edited program breaks this rule, and no other one."""
    for old, new in edits.items():
        assert old in program
        program = program.replace(old, new, 1)
    found = problems(program)
    assert found
    assert all(text.endswith(f" [{rule}]") for text in found), found
    assert message in found[0]


EVENTS, AT_THE_END = "npu_task.events = 2 : i64", "    func.return"


def test_s2_events_that_are_stated(program: str):
    breaks("S2", program, {"events = 2": "events = 0"}, "event 0 is not among those")


@pytest.mark.parametrize("what", ["streams", "events"])
def test_s3_streams_and_events_of_the_target(program: str, what: str):
    breaks("S3", program, {f"{what} = 2": f"{what} = 2000000"}, f"2000000 {what}, 910b2 has")


def test_s4_events_are_recorded_before_they_are_waited_for(program: str):
    """Of a text in which streams wait for each other in a circle one waits before the record.
    Dominance is not verified here."""
    circle = "npu_task.wait %e1 on 0\n    %e0 = npu_task.record 0 on 0\n"
    wait = "npu_task.wait %e0 on 1\n"
    edits = {"%e0 = npu_task.record 0 on 0\n": circle}
    breaks("S4", program, {**edits, wait: f"{wait}    %e1 = npu_task.record 1 on 1\n"})


def test_s4_events_are_recorded_since_the_last_barrier(program: str):
    breaks("S4", program, {AT_THE_END: f"    npu_task.wait %e0 on 1\n{AT_THE_END}"})


def test_s5_the_number_of_an_event_is_its_own_until_it_is_waited_for(program: str):
    wait = "npu_task.wait %e0 on 1\n"
    again = f"%e1 = npu_task.record 0 on 0\n {wait}"
    breaks("S5", program, {wait: again}, "waits for the one before")


def test_s6_events_that_are_recorded_again(program: str):
    wait = "npu_task.wait %e0 on 1\n"
    again = f"{wait} %e1 = npu_task.record 0 on 0\n"
    breaks("S6", program, {wait: again}, "event 0 is recorded again after npu_task.copy")


@pytest.mark.parametrize("cap", [1023, 1024])
def test_s7_bytes_live_at_most(program: str, cap: int):
    """Two slots are live while one is copied into the other; branches are not looked into."""
    edits = {EVENTS: f"{EVENTS}, npu_task.cap_bytes = {cap} : i64"}
    if cap < 1024:
        breaks("S7", program, edits, "1024 bytes may be live when stream")
    else:
        assert problems(program.replace(*next(iter(edits.items())))) == []


def test_s8_events_that_order_nothing(program: str):
    record = "    %e1 = npu_task.record 1 on 1\n    npu_task.wait %e1 on 0\n"
    text = program.replace("    npu_task.copy %x", f"{record}    npu_task.copy %x", 1)
    module = parse_module(context(), SourceText("p", text))
    assert [p.rule for p in useless_events(module)] == ["S8", "S8"]
    assert problems(text) == []


@pytest.mark.parametrize("name", ["io", "weight", "no_reuse"])
def test_f1_figures_are_stated(program: str, name: str):
    breaks("F1", program, {f"npu_task.{name}_bytes": f"my.{name}_bytes"})


@pytest.mark.parametrize("alignment", [256, 0, 768])
def test_f2_alignment_of_the_target(program: str, alignment: int):
    text = f"aligned to {alignment} bytes, not to"
    edits = {"npu_task.alignment = 512": f"npu_task.alignment = {alignment}"}
    found = problems(program.replace(*next(iter(edits.items()))))
    assert any(text in p and p.endswith("[F2]") for p in found)
    if alignment != 768:  # else offsets are no multiples of it either
        breaks("F2", program, edits)


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [("weight", 0, 512), ("no_reuse", 2560, 4096), ("io", 0, 512), ("io", 0, 1)],
)
def test_f3_sums_of_sizes(program: str, name: str, right: int, wrong: int):
    edits = {f"{name}_bytes = {right}": f"{name}_bytes = {wrong}"}
    breaks("F3", program, edits, f"{name}_bytes is stated as {wrong}, but the program has {right}")


def test_f4_bytes_of_the_device(program: str):
    alloc = '    %z = memref.alloc() : memref<20000000000xf32, "hbm">\n'
    breaks("F4", program, {AT_THE_END: alloc + AT_THE_END})


def test_f4_bytes_of_the_device_to_the_byte(program: str):
    module = parse_module(context(), SourceText("p", program))
    enough = replace(Target.load(), hbm_bytes=1537)  # one is that of the condition
    assert check_program(module, enough).problems == []
    (problem,) = check_program(module, replace(enough, hbm_bytes=1536)).problems
    assert problem.rule == "F4"


def test_f5_slots_are_kept_apart_where_it_is_asked_for(program: str):
    breaks("F5", program, {"arena 1024 ": "arena 1024 {npu_task.pinned} "})


def test_f6_slots_that_are_kept_apart_are():
    module = parse_module(context(), SourceText("in.mlir", PROGRAM))
    PlanMemoryPass(no_reuse=("neg",)).apply(context(), module)
    assert problems(text_of(module)) == []
    breaks("F6", text_of(module), {"arena 1024 {": "arena 512 {"})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("optimal = true", "optimal = 1 : i64"),
        ("{peak_bytes", "{peak_byte"),
        ("array<i64: 2, 3, 4>", "array<i32: 2, 3, 4>"),
        ("npu_task.certificate", "my.certificate"),
    ],
)
def test_c1_the_certificate_is_stated(program: str, old: str, new: str):
    breaks("C1", program, {old: new})


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("{peak_bytes = 1536", "{peak_bytes = 1024", "highest slot ends at byte 1536"),
        ("1536 : i64, gap", "1024 : i64, gap", "the most bytes live at one time are 1536"),
        ("gap_bytes = 0", "gap_bytes = 512", "peak and lower bound differ by 0"),
        ("gap_bytes = 0", "gap_bytes = -512", "peak and lower bound differ by 0"),
        ("optimal = true", "optimal = false", "the plan is stated as not optimal"),
    ],
)
def test_c2_peak_bound_and_gap(program: str, old: str, new: str, message: str):
    breaks("C2", program, {old: new}, message)


NESTED = """func.func @main(%c: tensor<i1>, %d: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.if %c : (tensor<i1>) -> tensor<4xf32> {
    %1 = graph.cosh %x : (tensor<4xf32>) -> tensor<4xf32>
    %2 = graph.mish %1 : (tensor<4xf32>) -> tensor<4xf32>
    %3 = graph.if %d : (tensor<i1>) -> tensor<4xf32> {
      graph.yield %2 : tensor<4xf32>
    } else {
      graph.yield %x : tensor<4xf32>
    }
    graph.yield %3 : tensor<4xf32>
  } else {
    graph.yield %x : tensor<4xf32>
  }
  %4 = graph.elu %0 : (tensor<4xf32>) -> tensor<4xf32>
  return %4 : tensor<4xf32>
}"""


def test_c2_the_result_of_a_branch_in_a_branch_is_live_in_both():
    module = parse_module(context(), SourceText("p", NESTED))
    lower(module, Options(memory=0, fusion="off", tiles=False, verify=False))
    assert not check_program(module).problems


@pytest.mark.parametrize("figure", ["arena", "lower_bound"])
def test_c3_figures_are_those_of_the_certificate(program: str, figure: str):
    breaks("C3", program, {f"npu_task.{figure}_bytes = 1536": f"npu_task.{figure}_bytes = 2048"})


def test_c4_slots_are_used(program: str):
    slot = f"    %z = npu_task.slot arena 0 : {HBM}\n"
    breaks("C4", program, {AT_THE_END: slot + AT_THE_END, "= 2560": "= 3072"})


@pytest.mark.parametrize(("live", "message"), [("2, 3, 9", "names [9]"), ("2, 3, 3", "twice")])
def test_c5_live_tensors_are_slots(program: str, live: str, message: str):
    breaks("C5", program, {"array<i64: 2, 3, 4>": f"array<i64: {live}>"}, message)


def test_c6_live_tensors_are_as_many_bytes_as_the_bound(program: str):
    breaks("C6", program, {"array<i64: 2, 3, 4>": "array<i64: 2, 3>"}, "1024 bytes")


def test_c7_live_tensors_are_live_at_one_time(program: str):
    breaks("C7", program, {"array<i64: 2, 3, 4>": "array<i64: 0, 3, 4>"}, "is dead before")


def test_k1_engines_that_can_run_a_kernel(program: str):
    breaks("K1", program, {"@neg on vector": "@neg on cube"}, "and there are none in graph.neg")


@pytest.mark.parametrize("blocks", [48, 49])
def test_k2_cores_of_the_engine(program: str, blocks: int):
    edits = {"blocks 1": f"blocks {blocks}"}
    if blocks > 48:
        breaks("K2", program, edits, "has 49 blocks for 48 vector cores")
    else:
        assert problems(program.replace(*next(iter(edits.items())))) == []


def test_m20_a_weight_has_one_type(program: str):
    reads = [
        f'    %k{i} = npu_task.constant #graph.weight<"w"> as memref<{shape}xf32, "hbm">\n'
        for i, shape in enumerate(("4", "2x2"))
    ]
    edits = {AT_THE_END: "".join(reads) + AT_THE_END, "weight_bytes = 0": "weight_bytes = 512"}
    breaks("M20", program, edits)


def test_each_rule_is_checked_has_a_sentence_and_a_test():
    """Rules, the files that check them, docs/proofs.md and the tests of their numbers agree."""
    root = Path(__file__).parents[2]
    number = f"[{''.join({rule[0] for rule in RULES})}]"
    checks, tests = dict[str, set[str]](), dict[str, set[str]]()
    for path in (*root.glob("runtime/check/*.py"), root / "dialects/npu_task/rules.py"):
        if path.name != "problems.py":
            for rule in re.findall(rf'"({number}\d+)"', path.read_text("utf-8")):
                name = path.name if path.parent.name == "check" else "npu_task/rules.py"
                checks.setdefault(rule, set()).add(f"`{name}`")
    # Of ranks that run, not of a program's text
    checks |= {"D1": {"`device/ranks.py`"}, "D18": {"`numbers/collectives.py`"}}
    for path in root.glob("test/unit/test_*.py"):
        found = re.findall(rf"^def (test_({number.lower()}\d+)_\w+)", path.read_text("utf-8"), re.M)
        for test, rule in found:
            tests.setdefault(rule.upper(), set()).add(f"`{test}`")
    page = (root / "docs/proofs.md").read_text("utf-8")
    rows = re.findall(r"^\| (\w\d+) \| (.+)\. \| (.+) \| (.+) \|$", page, re.M)
    assert [rule for rule, *_ in rows] == list(RULES)
    assert {rule: {*files.split(", ")} for rule, _, files, _ in rows} == checks
    assert tests.keys() == RULES.keys()
    assert all(test in tests[rule] for rule, *_, test in rows)


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


def test_a_shorter_pinned_slot_counts_everywhere(program: str):
    text = re.sub(r"(%0 = npu_task.slot arena \d+)", r"\1 {npu_task.pinned}", program)
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
        ("arena 512", "arena -512", "offset is at least 0"),
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
    monkeypatch.setattr("ge.tools.cli.check.MOST_SIZES", 2)
    capsys.readouterr()
    assert main([str(program), "--dim", "batch=1..3"]) == 0
    assert "proved as bound programs at the ends of the ranges only" in capsys.readouterr().out
    assert main([str(program), "--dim", "batch=1..3", "--every-size"]) == 0
    assert "proved at all 3 sizes of batch=1..3" in capsys.readouterr().out
