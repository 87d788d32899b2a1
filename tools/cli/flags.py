"""Flags that several tools have: from the table of options (and options from its flags), which
remarks are told (see `remarks.py`), and those of mlir-opt: how modules are printed, and reports
about passes that run."""

import argparse
import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from ge.dialects.support.patterns import user_pattern
from ge.dialects.support.remark_kinds import RemarkKind
from ge.dialects.text.look import Look
from ge.dialects.text.values import (
    did_you_mean,
    fixed_shapes,
    fixed_sizes,
    names,
    parse_dims,
    parse_shapes,
    whole,
)
from ge.lowering.pipeline.option_values import StatisticsDisplay, TimeDisplay, TimeFormat
from ge.lowering.pipeline.options import MODEL, Options, facts_of, flags_of
from ge.tools.cli.command_line import ArgumentParser


def argument(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Make the reader of a flag's value, for argparse."""

    def of(text: str) -> Any:
        try:
            return read(text)
        except ValueError as e:
            raise argparse.ArgumentTypeError(f"{e}, not '{text}'") from None

    return of


def add_options(parser: ArgumentParser, tool: str) -> None:
    """Add a flag for each option of a tool, but for those that it has with a meaning of its own."""
    for field in dataclasses.fields(Options):
        facts = facts_of(field)
        if tool in facts.tools:
            flags = [f for f in flags_of(field) if not parser.has_flag(f)]
            if flags:
                add = parser.section(facts.group)
                add(*flags, dest=option_key(field.name), help=_help(field), **_action(field))


def option_key(name: str) -> str:
    """Name the place where argparse keeps an option, apart from what the tool's own flags give."""
    return f"option {name}"


def _action(field: dataclasses.Field[Any]) -> dict[str, Any]:
    facts = facts_of(field)
    if not facts.metavar:
        negative = facts.variable or field.default is None
        return {"action": argparse.BooleanOptionalAction if negative else "store_true"} | {
            "default": None
        }
    read = argument(facts.value)
    if isinstance(field.default, tuple):
        return {"action": "extend", "type": read, "metavar": facts.metavar}
    if facts.adds:
        return {"action": "append", "type": read, "metavar": facts.metavar}
    return {"type": read, "metavar": facts.metavar}


def _help(field: dataclasses.Field[Any]) -> str:
    facts = facts_of(field)
    default = "" if field.default in (None, False, 0, "", ()) else f"default {field.default}"
    notes = "; ".join(filter(None, (facts.variable, default)))
    return f"{facts.help} ({notes})" if notes else facts.help


def options_from(args: argparse.Namespace, **more: Any) -> Options:
    """Options from flags and environment; `more` are of the tool's own making. Raises GeError for a
    variable that cannot be read."""
    values: dict[str, Any] = {}
    for field in dataclasses.fields(Options):
        value = flag_value(args, field.name)
        if isinstance(value, list):  # a flag that was given several times
            parts = cast(list[str], value)
            value = tuple(parts) if isinstance(field.default, tuple) else os.pathsep.join(parts)
        values[field.name] = value
    return Options.from_environment(**values | more)


def flag_value(args: argparse.Namespace, name: str) -> Any:
    return getattr(args, option_key(name), None)


def add_model_arguments(parser: ArgumentParser) -> None:
    """Add what fixes the sizes of an ONNX model."""
    add = parser.section(MODEL)
    add("--shape", action="append", default=[], metavar="NAME=1x3x224x224",
        help="the shape of an input of a .onnx model, also with ranges: x:1~10,3,-1")  # fmt: skip
    add("--dim", action="append", default=[], metavar="NAME=N",
        help="the size of a symbolic dimension of a .onnx model, or its range: 1..8")  # fmt: skip


def fixed_of(options: Options) -> tuple[dict[str, tuple[int, ...]], dict[str, int]]:
    """Shapes by input and sizes by name of a dimension, of those that are given as numbers."""
    return fixed_shapes(parse_shapes(options.shape)), fixed_sizes(parse_dims(options.dim))


TEXT, YAML, SUMMARY = "text", "yaml", "summary"

FORMS = (TEXT, YAML, SUMMARY)

# Flags, for parsers of both tools: metavar, how a value is read, help
REMARK_FLAGS = {
    "--remarks": (
        "FORM", "print what each rule did, or why it did not; --remarks alone, or --remarks=FORM: "
        "text, yaml (as LLVM writes remarks), or summary (by rule, with microseconds won and lost)"
    ),
    "--remarks-pass": ("REGEX", "only remarks of passes and rules whose names match"),
    "--remarks-kind": ("KIND,...", "remarks of these kinds: passed, missed, analysis"),
    "--remarks-text": ("REGEX", "only remarks whose text or place matches"),
    "--remarks-output": ("FILE", "where remarks go (default: standard error)"),
}  # fmt: skip


def form(text: str) -> str:
    if text not in FORMS:
        raise ValueError(f"one of {', '.join(FORMS)}")
    return text


def kinds(text: str) -> tuple[str, ...]:
    found = names(text)
    for name in found:
        if name not in [*RemarkKind]:
            raise ValueError(f"kinds: {', '.join(RemarkKind)}{did_you_mean(name, [*RemarkKind])}")
    return found


READERS: dict[str, Callable[[str], Any]] = {
    "--remarks": form, "--remarks-kind": kinds,
    **{f: partial(user_pattern, what=f) for f in ("--remarks-pass", "--remarks-text")},
}  # fmt: skip


def with_form(arguments: Sequence[str]) -> list[str]:
    """`--remarks` alone with its default: what follows it may be the input."""
    return [f"{word}={TEXT}" if word == "--remarks" else word for word in arguments]


PRINTED, WATCHED = "how modules are printed", "reports about passes"  # titles of groups of flags

# Flags, and metavar (none: a switch) -> help
PRINTING = {
    "--mlir-print-op-generic --print-op-generic": "print ops in their generic form",
    "--mlir-print-debuginfo --print-debuginfo": "print locations",
    "--mlir-pretty-debuginfo": """with --mlir-print-debuginfo: for people (x.py:3:7); such a text
        cannot be read again""",
    "--mlir-print-local-scope": """print locations, types and attributes where they stand, not as
        aliases: no effect, it is always so""",
    "--mlir-print-skip-regions": "print {...} for the regions of ops",
    "--mlir-print-unique-ssa-ids": "number the values of all functions in one row",
    "--mlir-print-value-users": "print the users of each value in comments",
    "--mlir-use-nameloc-as-prefix": """call values as their locations do: as the nodes of the ONNX
        model""",
    "--mlir-elide-elementsattrs-if-larger N": "leave out constants of more than N elements",
    "--mlir-elide-resource-strings-if-larger N": """leave out resources (in `{-# #-}`) of more than
        N characters""",
    "--mlir-print-elementsattrs-with-hex-if-larger N": """print constants of more than N elements
        as bytes (default 100), -1: none. Bits are listed, however many""",
}

WATCHING = {
    "--mlir-print-ir-before PASS,...": "print the IR before these passes, on stderr",
    "--mlir-print-ir-before-all": "print the IR before every pass, on stderr",
    "--mlir-print-ir-after PASS,...": "print the IR after these passes, on stderr",
    "--mlir-print-ir-after-all": "print the IR after every pass, on stderr",
    "--mlir-print-ir-after-change": "print the IR after a pass only where it changed",
    "--mlir-print-ir-after-failure": "print only the IR that a failing pass leaves, on stderr",
    "--mlir-print-ir-module-scope": "print the whole module, also where a pass runs on functions",
    "--mlir-print-ir-tree-dir DIR": "print the IR to files of this folder instead of to stderr",
    "--mlir-timing": "time and ops per pass, on stderr",
    "--mlir-timing-display HOW": "list (by name, the longest first) or tree (default)",
    "--mlir-output-format FORM": "of the times: text (default) or json",
    "--mlir-pass-statistics": "print statistics of each pass on stderr: ops and rules",
    "--mlir-pass-statistics-display HOW": "list (by name) or pipeline (default)",
    "--dump-pass-pipeline": "print the passes that are run, on stderr",
    "--mlir-generate-reproducer FILE": "write the input, with what `ge-opt FILE` does to it again",
    "--mlir-pass-pipeline-crash-reproducer FILE": "on failure, write what `ge-opt FILE` reruns",
    "--mlir-pass-pipeline-local-reproducer": "only the failing pass, and the module before it",
    "--mlir-disable-threading": "no effect: there is one thread",
}

# Of these, what alone asks for nothing
MODIFIERS = """--mlir-print-ir-module-scope --mlir-print-ir-tree-dir --mlir-timing-display
    --mlir-output-format --mlir-pass-statistics-display --mlir-pass-pipeline-local-reproducer
    --mlir-disable-threading""".split()


def asks(args: argparse.Namespace) -> bool:
    """Tell whether anything is to be told of the passes that run."""
    flags = {words.split()[0] for words in WATCHING} - {*MODIFIERS}
    return any(getattr(args, flag[2:].replace("-", "_")) for flag in flags)


def hex_limit(text: str) -> int:
    return -1 if text.strip() == "-1" else whole(0)(text)


NAMES: dict[str, Any] = {"action": "extend", "type": names, "default": []}

VALUES: dict[str, dict[str, Any]] = {
    "--mlir-elide-elementsattrs-if-larger": {"type": argument(whole(0))},
    "--mlir-elide-resource-strings-if-larger": {"type": argument(whole(0))},
    "--mlir-print-elementsattrs-with-hex-if-larger": {"type": argument(hex_limit)},
    "--mlir-print-ir-before": NAMES,
    "--mlir-print-ir-after": NAMES,
    "--mlir-timing-display": {"choices": [*TimeDisplay], "default": TimeDisplay.TREE},
    "--mlir-output-format": {"choices": [*TimeFormat], "default": TimeFormat.TEXT},
    "--mlir-pass-statistics-display": {
        "choices": [*StatisticsDisplay], "default": StatisticsDisplay.PIPELINE,
    },
}  # fmt: skip


def add_table(
    add: Callable[..., object],
    table: Mapping[str, str],
    values: Mapping[str, dict[str, Any]] = VALUES,
) -> None:
    """Add the flags of a table (`-f --flag METAVAR` -> help), with what argparse is to know of
    those that have values, by the last spelling."""
    for words, text in table.items():
        flags = [w for w in words.split() if w.startswith("-")]
        metavar = words.split()[len(flags) :]
        kind = {"metavar": metavar[0]} if metavar else {"action": "store_true"}
        add(*flags, help=" ".join(text.split()), **kind, **values.get(flags[-1], {}))


def look_of(args: argparse.Namespace) -> Look:
    """Read from the flags how modules are to be printed."""
    return Look(
        generic=args.mlir_print_op_generic,
        debuginfo=args.mlir_print_debuginfo,
        pretty=args.mlir_pretty_debuginfo,
        elide=args.mlir_elide_elementsattrs_if_larger,
        elide_resources=args.mlir_elide_resource_strings_if_larger,
        hex_above=args.mlir_print_elementsattrs_with_hex_if_larger,
        skip_regions=args.mlir_print_skip_regions,
        unique_ids=args.mlir_print_unique_ssa_ids,
        users=args.mlir_print_value_users,
        location_names=args.mlir_use_nameloc_as_prefix,
    )
