"""The page of command lines: what each tool says with `--help`."""

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Mapping
from functools import partial
from importlib import import_module

from ge.lowering.reference.markdown import block, paragraphs

PARSERS: Mapping[str, str] = {
    "ge-bench": "bench",
    "ge-calibrate": "calibrate",
    "ge-check": "check",
    "ge-compile": "compile",
    "ge-import": "import_model",
    "ge-lsp": "lsp",
    "ge-opt": "opt_arguments",
    "ge-parser": "parse",
    "ge-reduce": "reduce",
    "ge-run": "run",
    "ge-tune": "tune",
    "ge-visualizer": "visualize",
}
"""Tool -> the module of `lowering/cli` with its command line."""

WIDTH = 96

INTRODUCTION = """# Command lines

What each tool says with `--help`. [Options](options.md) that several tools share are one table.

Standard output has what a command is asked for: a module, the tables and figures of its flags, what
`ge-compile` says of a program that it writes nowhere. Standard error has what a command says by
itself (progress, remarks, notes, warnings) and errors; with `--quiet`, errors alone. Where a module
or another file goes to standard output (as `ge-opt` does without `-o`, or by `-o -` and
`--report /dev/stdout`), nothing else does: tables go to standard error. The flags that `ge-opt` has
from `mlir-opt` (`--mlir-timing`, `--mlir-print-ir-after-all`, `--print-op-stats`) print where those
of `mlir-opt` print, on standard error. A reader that goes away (`ge-run ... | head`) ends no
command before its files are written, except one that prints a module."""


def tools_page() -> str:
    """The help of all tools."""
    return paragraphs(INTRODUCTION, *(f"## {tool}\n\n{block(help_of(tool))}" for tool in PARSERS))


def help_of(tool: str) -> str:
    """What `TOOL --help` prints, in lines of a fixed width."""
    parser: ArgumentParser = import_module(f"ge.lowering.cli.{PARSERS[tool]}").build_parser()
    as_wide_as_the_terminal = parser.formatter_class
    parser.formatter_class = partial(RawDescriptionHelpFormatter, width=WIDTH)
    try:
        return parser.format_help()
    finally:
        parser.formatter_class = as_wide_as_the_terminal
