"""The pages of the documentation that are made from the code, path below docs/ -> text, and the
small ones among them: command lines (what each tool says with `--help`), options (a row for each
field of `Options`), ONNX's and onnxruntime's ops (which of them ge imports), and targets (what
their files state, with the comments that say from where)."""

import dataclasses
import re
from argparse import SUPPRESS, Action, ArgumentParser, HelpFormatter
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.resources import files
from typing import Any, get_type_hints

from ge.dialects.targets.target import Target
from ge.lowering.onnx.registry import ANY, DOMAIN, Checked, Handler, Registration, own_handlers
from ge.lowering.pipeline.options import OptionFacts, Options, facts_of, flags_of
from ge.lowering.pipeline.pass_options import type_text
from ge.tools.reference.markdown import code, escaped, from_docstring, paragraphs, table
from ge.tools.reference.ops import dialect_pages
from ge.tools.reference.passes import default_text, passes_page, rules_page
from ge.tools.reference.report_keys import report_page

DEFAULT = re.compile(r" ?\(default:? ([^()]*(?:\([^()]*\)[^()]*)?)\)|; default ([^;()]+)$")
"""Where a help text states the default."""

COMMAND_LINES = """# Command lines

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
    return paragraphs(COMMAND_LINES, *(section_of(tool, p()) for tool, p in parsers().items()))


def parsers() -> Mapping[str, Callable[[], ArgumentParser]]:
    """Return the command lines of all tools, of the room above."""
    return import_module("ge.tools.cli.parsers").PARSERS


def section_of(tool: str, parser: ArgumentParser) -> str:
    """Return what a tool is for, and a table for each group of its arguments."""
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


OPTIONS = """# Options

An option exists once (`lowering/pipeline/options.py`): as an argument of `ge.compile`, as a flag of
the tools, and as an environment variable, which holds where no flag is given. A variable that
begins with `GE_` and belongs to no option is reported. This table is made from the code, as all of
the reference is."""


def options_page() -> str:
    """Return the page: names, type, default, tools and meaning of each option."""
    return paragraphs(OPTIONS, options_table())


def options_table() -> str:
    rows: list[tuple[str, ...]] = []
    for field in dataclasses.fields(Options):
        facts = facts_of(field)
        flag = flags_of(field)[0] if facts.tools else ""
        names = "<br>".join(code(name) for name in (field.name, flag, facts.variable) if name)
        tools = ", ".join(tool.removeprefix("ge-") for tool in facts.tools)
        meaning = f"{facts.help}<br>*{tools}*" if tools else facts.help
        rows.append((names, type_of(field, facts), default_of(field), meaning))
    head = ["argument, flag, variable", "type", "default", "meaning, and *tools* with the flag"]
    return table(head, rows)


def type_of(field: "dataclasses.Field[Any]", facts: OptionFacts) -> str:
    """Return what values an option takes: its choices, or its type with what a value looks like."""
    if facts.choices:
        return ", ".join(code(str(choice)) for choice in facts.choices if choice not in ("", None))
    kind = code(type_text(get_type_hints(Options)[field.name]))
    return f"{kind}, {code(facts.metavar)}" if facts.metavar else kind


def default_of(field: "dataclasses.Field[Any]") -> str:
    """Return the default as text: `none` for an option that is not set."""
    return code("none" if field.default == "" else default_text(field.default))


ONNX = """# Ops of ONNX

What is imported, by domain. An op that ONNX itself defines by others is imported as these, listed
or not. A model with other nodes is refused with all of them at once."""

ONNXRUNTIME = """These are ops of [onnxruntime](../onnxruntime.md). An attribute may have any value
but where one stands beside it; nodes with other attributes are refused, and so are nodes with an
input or output of the last column."""

NAMES = {"": "ONNX", "ai.onnx.ml": "ai.onnx.ml", DOMAIN: DOMAIN}


def onnx_page() -> str:
    """A list of op types for each domain; for onnxruntime's a table of what they take."""
    by_domain: dict[str, dict[str, Handler]] = {}
    for (domain, name), handler in sorted(own_handlers().items()):
        by_domain.setdefault(domain, {})[name] = handler
    sections = [
        paragraphs(f"## {NAMES.get(domain, domain)}", section(domain, handlers))
        for domain, handlers in by_domain.items()
    ]
    return paragraphs(ONNX, *sections)


def section(domain: str, handlers: dict[str, Handler]) -> str:
    if domain != DOMAIN:
        return ", ".join(map(code, handlers))
    rows = [row(name, h.takes) for name, h in handlers.items() if isinstance(h, Checked)]
    return paragraphs(ONNXRUNTIME, table(["op", "attributes", "not supported"], rows))


def row(name: str, takes: Registration) -> tuple[str, str, str]:
    return (code(name), ", ".join(_attributes(takes)), ", ".join(_refused(takes)))


def _attributes(takes: Registration) -> Iterator[str]:
    for name, only in sorted(takes.attributes.items()):
        yield code(name if only is ANY else f"{name} = {only}")


def _refused(takes: Registration) -> Iterator[str]:
    yield from (f"input {code(name)}" for name in takes.absent.values())
    yield from (f"output {code(name)}" for name in takes.unwanted.values())


TARGETS = """# Targets

A target is a short TOML file; `--target NAME` takes one of these, `--target my.toml` one of yours
(`ge-compile --help`). Sizes are bytes, rates bytes a cycle a core, times microseconds. The last
column is what the file says of where a number is from; *assumption* means that nobody
published it."""

# a key with its comment, which lines may go on that have nothing else
LINE = re.compile(r"^(\w+) = ([^#\n]*?) *(?:# (.*(?:\n +# .*)*))?$", re.MULTILINE)


def targets_page() -> str:
    """Each preset, and the keys that a file may have."""
    sections = [target_section(name) for name in Target.presets()]
    return paragraphs(TARGETS, *sections, "## Keys", keys_table())


def target_section(name: str) -> str:
    """The facts of one preset. A heading of the file is that of the lines behind it."""
    text = (files("ge.dialects.targets") / f"{name}.toml").read_text("utf-8")
    comment, _, _ = text.partition("\nname = ")
    about = " ".join(line.removeprefix("#").strip() for line in comment.splitlines())
    _, *tables = re.split(r"^\[([\w.]+)\]$", text, flags=re.MULTILINE)
    parts = [("", text.partition("\n[")[0]), *zip((t + "." for t in tables[::2]), tables[1::2])]
    rows = [
        (code(table + key), value, re.sub(r"\n +#", "", why))
        for table, part in parts
        for key, value, why in LINE.findall(part)
    ]
    return paragraphs(f"## {name}", about, table(["key", "value", "source and meaning"], rows))


def keys_table() -> str:
    """All keys of a target with type and default."""
    none = dataclasses.MISSING
    rows: list[tuple[str, str, str]] = []
    for field in dataclasses.fields(Target):
        kind = getattr(field.type, "__name__", "table")  # the levels of a cluster
        default = "required" if field.default is field.default_factory is none else "none"
        if field.default is not none:
            default = str(field.default)
        rows.append((code(field.name), kind, default))
    return table(["key", "type", "default"], rows)


PAGES: Mapping[str, Callable[[], str]] = {
    **dialect_pages(),
    "reference/onnx.md": onnx_page,
    "reference/options.md": options_page,
    "reference/passes.md": passes_page,
    "reference/report.md": report_page,
    "reference/rules.md": rules_page,
    "reference/targets.md": targets_page,
    "reference/tools.md": tools_page,
}


def generated_pages() -> dict[str, str]:
    return {path: make() for path, make in PAGES.items()}
