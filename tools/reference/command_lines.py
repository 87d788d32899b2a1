"""The page of command lines: what each tool says with `--help`, as tables."""

import re
from argparse import SUPPRESS, Action, ArgumentParser, HelpFormatter
from collections.abc import Mapping, Sequence
from importlib import import_module

from ge.tools.reference.markdown import code, escaped, from_docstring, paragraphs, table

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
    "ge-shims": "shims",
    "ge-tune": "tune",
    "ge-visualizer": "visualize",
}
"""Tool -> the module of `tools/cli` with its command line."""

DEFAULT = re.compile(r" ?\(default:? ([^()]*(?:\([^()]*\)[^()]*)?)\)|; default ([^;()]+)$")
"""Where a help text states the default."""

INTRODUCTION = """# Command lines

What each tool takes, as it says itself with `--help`. [Options](options.md) that several tools
share are one table.

Standard output has what a command is asked for: a module, the tables and figures of its flags, what
`ge-compile` says of a program that it writes nowhere. Standard error has what a command says by
itself (progress, remarks, notes, warnings) and errors; with `--quiet`, errors alone. Where a module
or another file goes to standard output (as `ge-opt` does without `-o`, or by `-o -` and
`--report /dev/stdout`), nothing else does: tables go to standard error. The flags that `ge-opt` has
from `mlir-opt` (`--mlir-timing`, `--mlir-print-ir-after-all`, `--print-op-stats`) print where those
of `mlir-opt` print, on standard error. A reader that goes away (`ge-run ... | head`) ends no
command before its files are written, except one that prints a module."""


def tools_page() -> str:
    """Return the page: usage and arguments of all tools."""
    return paragraphs(INTRODUCTION, *(section_of(tool) for tool in PARSERS))


def section_of(tool: str) -> str:
    """Return what a tool is for, and a table for each group of its arguments."""
    parser: ArgumentParser = import_module(f"ge.tools.cli.{PARSERS[tool]}").build_parser()
    about = (parser.description or "").strip()
    parts = [f"## {tool}", from_docstring(about)]
    for group in parser._action_groups:  # pyright: ignore[reportPrivateUsage]
        actions: list[Action] = group._group_actions  # pyright: ignore[reportPrivateUsage]
        if rows := [row_of(action) for action in actions if action.help != SUPPRESS]:
            head = ["argument", "value", "default", "meaning"]
            parts += [f"*{group.title}*", escaped(group.description or ""), table(head, rows)]
    return paragraphs(*parts, from_docstring(parser.epilog))


def row_of(action: Action) -> Sequence[str]:
    """Return names, value, default and meaning of an argument. A default that the help text states
    stands in its own column."""
    formatter = HelpFormatter("")
    text = formatter._expand_help(action) if action.help else ""  # pyright: ignore[reportPrivateUsage]
    stated = DEFAULT.search(text)
    default = next(filter(None, stated.groups()), "") if stated else ""
    if not default and type(action.default) in (str, int, float) and action.default != SUPPRESS:
        default = str(action.default)
    names = "<br>".join(map(code, action.option_strings)) or code(
        str(action.metavar or action.dest)
    )
    value = value_of(action) if action.option_strings else ""
    return names, value, escaped(default), escaped(DEFAULT.sub("", text))


def value_of(action: Action) -> str:
    """Return what an option takes as its value, empty where it takes none."""
    if action.nargs == 0:
        return ""
    if action.choices and not action.metavar:
        return ", ".join(code(str(choice)) for choice in action.choices)
    name = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    return code(name)
