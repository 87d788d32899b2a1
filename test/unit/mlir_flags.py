"""Flags of mlir-opt beside those of ge-opt: what each does, and how that is seen. The table of
docs/mlir_opt.md is made of this (`python test/unit/mlir_flags.py`)."""

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "mlir_opt.md"
MLIR_OPT = next(filter(None, map(shutil.which, ("mlir-opt-19", "mlir-opt"))), None)
BEGIN, END = "| flag |", "\n\n"

INPUTS = {
    "a.mlir": """\
func.func @f(%arg0: f32, %arg1: i1) -> f32 {
  %0 = arith.addf %arg0, %arg0 : f32
  %1 = arith.addf %arg0, %arg0 : f32
  %2 = scf.if %arg1 -> (f32) {
    %3 = arith.mulf %0, %1 : f32
    scf.yield %3 : f32
  } else {
    scf.yield %arg0 : f32
  }
  func.return %2 : f32
}
func.func @g(%arg0: f32) -> f32 {
  %0 = arith.negf %arg0 : f32 loc("Neg_1")
  func.return %0 : f32
}
""",
    "constants.mlir": """\
%cst = arith.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
%cst_0 = arith.constant dense<7> : tensor<100xi32>
%cst_1 = arith.constant dense_resource<blob> : tensor<4xi32>
{-# dialect_resources: { builtin: { blob: "0x0400000001000000020000000300000004000000" } } #-}
""",
    "wrong.mlir": """\
func.func @f(%arg0: i32) -> i64 {
  func.return %arg0 : i32
}
""",
    "parts.mlir": """\
func.func private @a() -> ()
//===//
func.func private @b() -> ()
""",
    "expected.mlir": """\
// expected-error@+1 {{other words}}
"test.op"(%x) : (i32) -> ()
""",
    "symbols.mlir": """\
func.func private @callee(%x: i32) -> i32 {
  func.return %x : i32
}
func.func private @unused() -> () {
  func.return
}
func.func @caller(%x: i32) -> i32 {
  %0 = func.call @callee(%x) : (i32) -> i32 loc("here")
  func.return %0 : i32
}
""",
    "arguments": "--pass-pipeline='builtin.module(cse, canonicalize)'\n",
    "unknown.mlir": '"foo.bar"() : () -> ()\n',
}


@dataclass(frozen=True)
class Row:
    """A flag: what mlir-opt and ge-opt do; with which arguments that is seen, on which input, and
    what is found in the output of each then. `same`: both outputs are alike but for the names of
    values, and for dialects that one of them leaves out. DIR is a folder of the tool's own."""

    flag: str
    mlir: str
    ge: str
    arguments: str
    found: str = ""
    found_ge: str | None = None  # None: as in mlir-opt's
    ge_arguments: str | None = None
    input: str = "a.mlir"
    same: bool = False

    def words(self, tool: str, folder: Path) -> list[str]:
        text = self.arguments if tool == "mlir-opt" or self.ge_arguments is None else ""
        text = text or self.ge_arguments or ""
        return [word.replace("DIR", str(folder)) for word in text.split()]


NESTED = "--pass-pipeline=builtin.module(func.func(cse),canonicalize)"
TWO = "--pass-pipeline=builtin.module(func.func(cse,canonicalize))"
THREADS = "--mlir-disable-threading"

ROWS = [
    # ---- how modules are printed
    Row("--mlir-print-op-generic", "generic form", "the same; properties in the order in which an "
        "op defines them", "--mlir-print-op-generic", r'= "arith.negf"\(%\S+\) <\{fastmath'),
    Row("--mlir-print-debuginfo", "locations as aliases (`#loc1`)", "locations where they stand; "
        "`unknown` for arguments, whose places are not kept", "--mlir-print-debuginfo",
        r"^#loc\d* = loc\(", r'arith.addf .* loc\("\S*a.mlir":2:8\)'),
    Row("--mlir-print-local-scope", "locations where they stand", "no effect: always so",
        "--mlir-print-debuginfo --mlir-print-local-scope",
        r'arith.addf .* loc\("\S*a.mlir":2:8\)'),
    Row("--mlir-pretty-debuginfo", "locations for people, with `--mlir-print-debuginfo`",
        "the same", "--mlir-print-debuginfo --mlir-pretty-debuginfo",
        r'arith.addf .* : f32 \S*a.mlir:2:8$(.|\n)*arith.negf .* : f32 "Neg_1"$'),
    Row("--mlir-print-skip-regions", "`{...}` for regions", "the same",
        "--mlir-print-skip-regions", r"module \{\.\.\.\}", same=True),
    Row("--mlir-print-unique-ssa-ids", "one numbering for all functions, the last one first",
        "one numbering, in the order of the text; names that are taken get one, too",
        "--mlir-print-unique-ssa-ids", r"@f\(%arg1", r"@g\(%arg0_1"),
    Row("--mlir-print-value-users", "comments with the users of values", "the same; no "
        "number stands for two ops, as it does in the branches of an scf.if there",
        "--mlir-print-value-users", r"// %\S+ is used by %\S+, %(.|\n)*// user: %(.|\n)*// id: %"),
    Row("--mlir-use-nameloc-as-prefix", "unknown to version 19", "names from locations: of the "
        "nodes of an ONNX model", "--mlir-use-nameloc-as-prefix", "Unknown command line argument",
        r"%Neg_1 = arith.negf"),
    Row("--mlir-elide-elementsattrs-if-larger=N", "`dense_resource<__elided__>`", "the same",
        "--mlir-elide-elementsattrs-if-larger=2", r"dense_resource<__elided__> : tensor<3xf32>",
        input="constants.mlir", same=True),
    Row("--mlir-elide-resource-strings-if-larger=N", "an empty `{-# #-}` is left", "nothing is "
        "left", "--mlir-elide-resource-strings-if-larger=4", r"\{-#\s*#-\}", r"^(?!.*\{-#)",
        input="constants.mlir"),
    Row("--mlir-print-elementsattrs-with-hex-if-larger=N", "bytes for more elements (default 100, "
        "-1: none)", "the same; bits (`i1`) are always listed, and read in either form",
        "--mlir-print-elementsattrs-with-hex-if-larger=2", r'dense<"0x0000803F0000004000004040">',
        input="constants.mlir", same=True),
    Row("--allow-unregistered-dialect", "takes ops of unknown dialects", "the same",
        "--allow-unregistered-dialect", r'"foo.bar"\(\) : \(\) -> \(\)', input="unknown.mlir",
        same=True),
    # ---- the IR around passes
    Row("--mlir-print-ir-before=PASS", "the op that the pass runs on, on stderr", "the same; "
        "several passes may stand behind one flag", f"{NESTED} --mlir-print-ir-before=cse",
        r"// -----// IR Dump Before \w+ \(cse\) //----- //\nfunc.func @f"),
    Row("--mlir-print-ir-before-all", "before each pass", "the same",
        f"{NESTED} --mlir-print-ir-before-all", r"Dump Before \w+ \(cse\)(.|\n)*\(canonicalize\)"),
    Row("--mlir-print-ir-after=PASS", "after it", "the same, under the name of xDSL's class",
        "--cse --mlir-print-ir-after=cse", r"IR Dump After CSE \(cse\)",
        r"IR Dump After CommonSubexpressionElimination \(cse\)"),
    Row("--mlir-print-ir-after-all", "after each pass", "the same; nested passes run, and are "
        "printed, pass by pass instead of function by function", f"{TWO} --mlir-print-ir-after-all",
        r"\(cse\)(.|\n)*@f(.|\n)*\(canonicalize\)(.|\n)*@f"),
    Row("--mlir-print-ir-after-change", "with `-after` or `-after-all`: only where it changed",
        "the same; alone it means all passes", "--cse --canonicalize --mlir-print-ir-after-change",
        r"^(?!.*IR Dump)", r"IR Dump After \w+ \(cse\)"),
    Row("--mlir-print-ir-after-failure", "only after a pass that failed", "the same",
        "--test-pass-failure --mlir-print-ir-after-failure",
        r"IR Dump After .* Failed \(test-pass-failure\)", r"IR Dump After \w+ Failed \(plug-fail\)",
        "--load-plugin=PLUGIN --plug-fail --mlir-print-ir-after-failure"),
    Row("--mlir-print-ir-module-scope", "the whole module; needs `--mlir-disable-threading`",
        "the whole module, as it is when the pass has run on all functions",
        f"{NESTED} --mlir-print-ir-after=cse --mlir-print-ir-module-scope {THREADS}",
        r"After \w+ \(cse\) \('func.func' operation: @f\) //----- //\n(builtin\.)?module \{"),
    Row("--mlir-print-ir-tree-dir=DIR", "a file for each, in a folder for each op",
        "the same names", f"{NESTED} --mlir-print-ir-after-all --mlir-print-ir-tree-dir=DIR",
        r"FILE builtin_module_no-symbol-name/1_canonicalize.mlir\n(.|\n)*"
        r"FILE builtin_module_no-symbol-name/func_func_g/0_0_cse.mlir"),
    # ---- times and figures
    Row("--mlir-timing", "seconds of each pass, on stderr", "the same, with the number of ops "
        "after each; verifying has lines of its own", f"--cse --mlir-timing {THREADS}",
        r"-Wall Time-+  -+Name-(.|\n)*CSE(.|\n)*Total",
        r"-Wall Time-+  -+Ops-+  -+Name-(.|\n)*'cse' Pass(.|\n)*Total"),
    Row("--mlir-timing-display=list, tree", "one list by time, or nested (default)",
        "the same", f"{NESTED} --mlir-timing --mlir-timing-display=list {THREADS}",
        r"Total Execution Time(.|\n)*'func.func' Pipeline\n(.|\n)*Rest\n"),
    Row("--mlir-output-format=text, json", "JSON of the times; `{}` ends each list of `passes`",
        "the same keys, and `ops`", f"--cse --mlir-timing --mlir-output-format=json {THREADS}",
        r'^\{"wall": \{"duration": +\d(.|\n)*"name": "Total"\}\n\]'),
    Row("--mlir-pass-statistics", "the heading alone (a release does not count)", "ops added and "
        "removed, and how often each rule was applied or refused", "--cse --mlir-pass-statistics",
        r"Pass statistics report \.\.\.\n.*\n\n", r"\(S\) 1 ops-removed - Ops fewer than before"),
    Row("--mlir-pass-statistics-display=list, pipeline", "by name, or nested (default)",
        "the same", "--cse --mlir-pass-statistics --mlir-pass-statistics-display=list",
        r"Pass statistics report"),
    # ---- pipelines and reproducers
    Row("--PASS, -PASS, --PASS='a=1 b=2'", "passes in the order of the flags", "the same",
        "-cse --canonicalize", r"arith.addf(?!(.|\n)*addf)", same=True),
    Row("--dump-pass-pipeline", "the pipeline on stderr, with the options of passes", "the same, "
        "with options that are not the default", "--pass-pipeline=builtin.module(func.func(cse),"
        "cse) --dump-pass-pipeline",
        r"Pass Manager with 2 passes:\nbuiltin\.module\(func\.func\(cse\),cse\)"),
    Row("--mlir-generate-reproducer=FILE", "the module *after* the passes, with the passes; "
        "nothing where one fails", "the module *before* the passes",
        f"{NESTED} --mlir-generate-reproducer=DIR/r.mlir",
        r"FILE r.mlir\n(.|\n)*mlir_reproducer: \{\s*pipeline: \"builtin.module\(.*func.func\(cse\),"
        r"(.|\n)*disable_threading: (.|\n)*verify_each: "),
    Row("--mlir-pass-pipeline-crash-reproducer=FILE", "where a pass fails", "the same; why it was "
        "is a comment in the file", "--cse --test-pass-failure "
        "--mlir-pass-pipeline-crash-reproducer=DIR/r.mlir", r"pipeline: \"builtin.module\(cse, ",
        r"pipeline: \"builtin.module\(cse,plug-fail\)\"", "--load-plugin=PLUGIN --cse --plug-fail "
        "--mlir-pass-pipeline-crash-reproducer=DIR/r.mlir"),
    Row("--mlir-pass-pipeline-local-reproducer", "only the failing pass", "the same", "--cse "
        "--test-pass-failure --mlir-pass-pipeline-crash-reproducer=DIR/r.mlir "
        f"--mlir-pass-pipeline-local-reproducer {THREADS}",
        r"pipeline: \"builtin.module\(test-pass-failure\)",
        r"pipeline: \"builtin.module\(plug-fail\)\"", "--load-plugin=PLUGIN --cse --plug-fail "
        "--mlir-pass-pipeline-crash-reproducer=DIR/r.mlir --mlir-pass-pipeline-local-reproducer"),
    Row("--run-reproducer", "runs what a reproducer says; another file runs as it is",
        "the same; another file is an error, and a reproducer runs without the flag, too. Each "
        "takes the other's files", "--run-reproducer", r"module \{", "this is not a reproducer"),
    Row("--mlir-disable-threading", "one thread", "no effect: always one",
        f"--cse {THREADS}", r"arith.addf(?!(.|\n)*addf)", same=True),
    Row("--pass-pipeline='builtin.module(func.func(a,b{c=1}),any(d))'", "nested pipelines", "the "
        "same; `builtin.module` may be left out", "--pass-pipeline=builtin.module(func.func(cse),"
        "any(cse))", r"arith.addf(?!(.|\n)*addf(.|\n)*@g)", same=True),
    Row("a pass of a module in func.func(...)", "in `func.func(inline)` the pass says that the "
        "function has no symbol table", "the place, and what to write",
        "--pass-pipeline=builtin.module(func.func(inline))", r"'func.func' op  was scheduled",
        r"1:26: error: pass 'inline' runs on a whole 'builtin.module', it cannot run on each"),
    Row("--split-input-file, =MARKER", "parts between markers; lines of a part count from 1",
        "the same; lines count from the beginning of the file", "--split-input-file=//===//",
        r"@a(.|\n)*// -----\n(.|\n)*@b", input="parts.mlir"),
    Row("--output-split-marker=MARKER", "stands between the parts printed", "the same",
        "--split-input-file=//===// --output-split-marker=//", r"@a(.|\n)*^//$(.|\n)*@b",
        input="parts.mlir"),
    Row("--verify-diagnostics", "what is not expected, or not said, is an error",
        "the same; comments that cannot be read are errors, too", "--verify-diagnostics",
        r'expected error "other words" was not produced', input="expected.mlir"),
    Row("--verify-diagnostics=all, only-expected", "later versions; 19 knows the bare flag alone",
        "all: as bare; only-expected: nothing is said of what no comment expects",
        "--verify-diagnostics=only-expected", "invalid value for boolean",
        r'\A\S+ error: expected error "other words" was not produced', input="expected.mlir"),
    Row("--verify-each, =false", "verify after each pass (default)", "the same",
        "--verify-each --cse", r"@f", same=True),
    Row("--verify-roundtrip", "text and bytecode are read back and compared", "the custom and the "
        "generic form are", "--verify-roundtrip", r"@f", same=True),
    Row("--no-implicit-module", "a file of one op gets no module around it; that of two is an "
        "error", "ge-opt runs on modules: a file without one is an error", "--no-implicit-module",
        "source must contain a single top-level operation", "error: "),
    Row("@FILE", "arguments in a file", "the same; a file that is not there is named as such",
        "@arguments", r"arith.addf(?!(.|\n)*addf(.|\n)*@g)"),
    Row("--color, NO_COLOR", "colours of diagnostics", "the same; `--color=auto, always, never`",
        "--color", "\x1b\\[", input="wrong.mlir"),
    Row("--strip-debuginfo", "forgets locations", "the same", "--strip-debuginfo "
        "--mlir-print-debuginfo", r"loc\(unknown\)", input="symbols.mlir"),
    Row("--symbol-dce", "erases private symbols that are not used", "the same", "--symbol-dce",
        r"@callee(?!(.|\n)*@unused)", input="symbols.mlir"),
    Row("--inline", "puts functions in place of calls; options for pipelines and thresholds",
        "the same for functions of one block; `max-iterations`", "--inline",
        r"@caller(?!(.|\n)*call)", input="symbols.mlir"),
    Row("--mlir-debug-counter=NAME-skip=N,NAME-count=M", "leaves out actions of a name (those that "
        "a tool registers; mlir-opt itself none)", "leaves out applications of a rule, of all "
        "(`rule-application`), or runs of passes (`pass-execution`)",
        "--cse --mlir-debug-counter=pass-execution-count=0", r"arith.addf",
        r"arith.addf(.|\n)*arith.addf(.|\n)*@g"),
    Row("--mlir-print-debug-counter", "a table of counters", "the same",
        "--cse --mlir-print-debug-counter", "DebugCounter counters:"),
    Row("--bisect, --bisect=SCRIPT", "unknown", "finds the pass, and the application of a rule, "
        "that does harm", "--cse --bisect", "Unknown command line argument", "no pass does harm"),
    # ---- what is told
    Row("--show-dialects", "names of the dialects", "the same (`--list-dialects` says more)",
        "--show-dialects", r"^Available Dialects: .*arith.*func.*scf"),
    Row("--mlir-print-op-on-diagnostic=BOOL", "a note with the op (default)", "the same; default: "
        "where a pass made the op, for else the line of the source shows it",
        "--mlir-print-op-on-diagnostic", r'note: see current operation: "func.return"\(%',
        input="wrong.mlir"),
    Row("--mlir-print-stacktrace-on-diagnostic", "frames of C++", "frames of Python",
        "--mlir-print-stacktrace-on-diagnostic", r"emitted with trace:",
        r"Traceback \(most recent call last\)", input="wrong.mlir"),
    Row("-flag, --flag=false", "one dash or two; switches take a value", "the same",
        "-mlir-print-op-generic=false --mlir-timing=0 -cse", r"arith.addf(?!(.|\n)*addf)",
        same=True),
    Row("--flag=wrong", "names the flag and the value", "the same, and what is expected",
        "--mlir-elide-elementsattrs-if-larger=x", r"option: 'x' value invalid for uint argument",
        "a whole number of at least 0, not 'x'"),
]  # fmt: skip


def normalized(text: str) -> str:
    """A text with values called by their place in it, function by function, and without what one
    tool prints and the other leaves out."""
    text = re.sub(r"\bbuiltin\.(?=module\b)|\bfunc\.(?=return\b|call\b)", "", text)
    parts = re.split(r"(?=func\.func)", text.strip())
    return "".join(map(_renamed, parts))


def _renamed(text: str) -> str:
    names: dict[str, str] = {}
    return re.sub(r"%[\w$.-]+", lambda m: names.setdefault(m[0], f"%v{len(names)}"), text)


def output_of(done: "subprocess.CompletedProcess[str]", folder: Path) -> str:
    """All that a run said and wrote."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    texts = [f"FILE {path.relative_to(folder)}\n{path.read_text()}" for path in files]
    return "\n".join([done.stderr + done.stdout, *texts])


def run(words: Sequence[str], file: Path, folder: Path) -> str:
    folder.mkdir()
    done = subprocess.run([*words, file.name], cwd=file.parent, capture_output=True, text=True)
    return output_of(done, folder)


def table() -> str:
    lines = ["| flag | mlir-opt 19 | ge-opt |", "|---|---|---|"]
    lines += [f"| `{row.flag}` | {row.mlir} | {row.ge} |" for row in ROWS]
    return "\n".join(lines)


def with_table(page: str) -> str:
    """A page with the table in place of the one that it has."""
    start = page.index(BEGIN)
    end = page.find(END, start)
    return page[:start] + table() + (page[end:] if end >= 0 else "\n")


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
    sys.exit(0)
