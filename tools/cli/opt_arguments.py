"""The command line of ge-opt: its options, and a flag for each pass."""

import argparse
from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import Any

from xdsl.utils.arg_spec import ArgSpec, parse_spec
from xdsl.utils.exceptions import ArgSpecParseError

from ge.dialects.support.environment import truth
from ge.dialects.text import colours
from ge.dialects.text.colours import When
from ge.dialects.text.reading import SPLIT_MARKER
from ge.lowering.pipeline.pass_options import PassText, read_options
from ge.tools.cli.arguments import argument
from ge.tools.cli.command_line import ArgumentParser
from ge.tools.cli.remark_flags import FLAGS as REMARK_FLAGS
from ge.tools.cli.remark_flags import READERS, with_form
from ge.tools.cli.watch_flags import PRINTED, PRINTING, WATCHED, WATCHING, add_table
from ge.tools.debugging.verification import ALL, LEVELS

DESCRIPTION = "Run any passes on a module of any level: graph, fused_op, npu_task."
EPILOG = """passes:
  Each pass is a flag too, and the order of the flags is the order of the passes:
    ge-opt x.mlir --canonicalize --plan-memory=alignment=512,reuse=true
  --list-passes says what there is.
environment:
  GE_DEBUG=1 (or --debug) prints Python's traceback with an error; GE_CUSTOM_PASS=FILE.py is a
  plugin as with --load-plugin.
"""

# Flags and metavar (none: a switch) -> help
OPTIONS = {
    "-f --frontend FORMAT": "format of the input: mlir (default)",
    "--split-input-file [=MARKER]": """treat the parts between lines that begin with a marker
        (default `// -----`) one by one""",
    "--output-split-marker MARKER": "the line between the parts of the output (default `// -----`)",
    "--allow-unregistered-dialect": "take ops of dialects that nobody knows",
    "--no-implicit-module": "do not wrap the input in a module",
    "--load-plugin FILE.py": "add its dialects and passes",
    "-p --passes --pass-pipeline PIPELINE": "run passes: 'a,b{x=1}' or 'builtin.module(a,b{x=1})'",
    "--verify-each [=BOOL]": "verify after each pass (default true); the input is always verified",
    "--verify-roundtrip": "also print the input in both forms, read them back, and compare",
    "--disable-verify": "verify neither the input nor after passes",
    "-o --output-file FILE": "where the text goes (default, and -: standard output)",
    "--output-format FORMAT": "of the result: {targets}",
    "-t --target NAME": """the NPU, for passes with an option `target` that is not given: a preset
        or a .toml file. Scripts for xdsl-opt may name an output format instead""",
    "--print-no-properties": "print properties as attributes",
    "--print-op-irdl": "print the module as mlir-opt takes it with the file of --export-irdl",
    "--syntax-highlight": "colours on a terminal",
    "--verify-diagnostics [=LEVEL]": """the input states its errors in comments, `expected-error@+1
        {{text}}`: status 0 if these come, and with LEVEL all (default) no others; only-expected
        says nothing of others""",
    "--parsing-diagnostics": "print errors on standard output and exit with 0",
    "--color [=WHEN]": "colours of diagnostics: auto (default), always or never; NO_COLOR counts",
    **{f"{flag} {metavar}": text for flag, (metavar, text) in REMARK_FLAGS.items()},
    "--mlir-print-op-on-diagnostic [=BOOL]": """show the op that an error is about as it is, in a
        note (default: where a pass made it)""",
    "--mlir-print-stacktrace-on-diagnostic": "as --debug",
    "--debug": "print Python's traceback with an error",
    "--print-between-passes": "print the IR between passes",
    "--time-passes": "print the seconds of each pass",
    "--run-reproducer": "the input must be a reproducer",
    "--validate": """run the module before and after each pass on random and edge inputs; stop at
        the first pass that changes the numbers by more than it declares""",
    "--validate-output FILE": """the test that repeats it, cut down to the ops that matter (default:
        validate-PASS.mlir)""",
    "--bisect [=SCRIPT]": """find the pass, and the application of a rule in it, that changes the
        numbers by more than it declares, fails or does not verify; or after which a script ends
        with status 1 (as for ge-reduce)""",
    "--mlir-debug-counter COUNTER,...": """NAME-skip=N, NAME-count=M: apply the rule M times after
        the first N; also pass-execution (passes) and rule-application (all rules)""",
    "--mlir-print-debug-counter": "print how often each was seen, skipped and applied, on stderr",
    "--shrink": "status 0 if a pass says that the input can shrink, else 1",
    "--list-passes NAME,...": """describe the passes of ge, packages and plugins, or some; with
        all, xDSL's too""",
    "--list-ops NAME": """the ops of ge, packages and plugins, those of a dialect or of all; or
        what there is to know of one: graph.conv""",
    "--list-dialects": "the dialects, and of which package they are",
    "--list-rules": "the rules that passes are made of",
    "--list-targets": "the NPUs that --target takes",
    "--export-irdl": "write the dialects in IRDL, for mlir-opt --irdl-file=FILE",
    "--show-dialects": "the dialects whose ops are known",
    "-v --version": "print the versions of ge and xDSL",
}


# Flags whose value may be left out -> what they stand for then; a value is behind a `=`
BARE = {
    "--split-input-file": SPLIT_MARKER,
    "--verify-diagnostics": ALL,
    "--verify-each": "true",
    "--bisect": "",
    "--mlir-print-op-on-diagnostic": "true",
    "--color": When.ALWAYS.value,
}


def format_of(formats: Collection[str]) -> Callable[[str], ArgSpec]:
    def read(text: str) -> ArgSpec:
        try:
            spec = parse_spec(text)
        except ArgSpecParseError:
            raise ValueError("NAME or NAME{key=value}") from None
        if spec.name not in formats:
            raise ValueError(f"one of {', '.join(formats)}")
        return spec

    return argument(read)


def split_target(args: argparse.Namespace, formats: Collection[str]) -> None:
    """Take `--target` as an output format where it names one, as xdsl-opt does."""
    if (args.target or "").partition("{")[0] in formats:
        args.output_format = format_of(formats)(args.target)
        args.target = None


@cache
def build_parser(targets: tuple[str, ...] = ()) -> ArgumentParser:
    """The options without the flags of passes; `targets` are the output formats."""
    facts: dict[str, dict[str, Any]] = {
        "--frontend": {"choices": ["mlir"]},
        "--load-plugin": {"action": "append", "default": []},
        "--pass-pipeline": {"default": ""},
        "--verify-each": {"type": argument(truth), "default": True},
        "--verify-diagnostics": {"choices": LEVELS},
        "--mlir-debug-counter": {"action": "append", "default": []},
        "--mlir-print-op-on-diagnostic": {"type": argument(truth)},
        "--color": {"type": argument(colours.read), "default": When.AUTO},
        "--output-split-marker": {"default": SPLIT_MARKER},
        "--output-format": {"type": format_of(targets), "default": "mlir"},
        "--list-passes": {"nargs": "?", "const": ""},
        "--list-ops": {"nargs": "?", "const": ""},
        **{flag: {"type": argument(read)} for flag, read in READERS.items()},
    }
    parser = ArgumentParser("ge-opt", DESCRIPTION, EPILOG, allow_abbrev=False)
    parser.add_argument("input_file", nargs="?", help="a .mlir module of any level (default: -)")
    add_table(
        parser.add_argument,
        {w: text.replace("{targets}", ", ".join(targets)) for w, text in OPTIONS.items()},
        facts,
    )
    add_table(parser.section(PRINTED), PRINTING)
    add_table(parser.section(WATCHED), WATCHING)
    return parser


def plugin_files(args: Sequence[str]) -> list[str]:
    """The values of `--load-plugin`; needed before the passes are known."""
    parser = ArgumentParser("ge-opt", None, "", add_help=False, allow_abbrev=False)
    parser.add_argument("--load-plugin", action="append", default=[])
    return parser.parse_known_args(args)[0].load_plugin


def read_arguments(
    args: Sequence[str], passes: Collection[str], targets: Collection[str]
) -> tuple[argparse.Namespace, list[PassText]]:
    """The options, and the passes that flags name; other options of one dash and several letters
    (`-split-input-file`) get their second dash. Raises GeError for what nobody knows."""
    parser = build_parser(tuple(targets))
    parser.more_flags = passes
    end = args.index("--") if "--" in args else len(args)
    rest: list[str] = []
    texts: list[PassText] = []
    for arg in args[:end]:
        flag, equals, value = arg.partition("=")
        name = flag.lstrip("-")
        if arg.startswith("-") and parser.has_flag(f"--{name}"):
            if not equals and f"--{name}" in BARE:
                arg = f"--{name}={BARE[f'--{name}']}"
            rest += parser.spelled(arg)
        elif arg.startswith("-") and name in passes:
            texts.append(PassText(name, read_options(value, f"--{name}")))
        else:
            rest.append(arg)
    result = parser.parse_args(with_form([*rest, *args[end:]]))
    split_target(result, targets)
    return result, texts
