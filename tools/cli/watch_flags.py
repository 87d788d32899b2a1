"""The flags of mlir-opt that say how modules are printed, and reports about passes that run: one
table for all tools that have them."""

import argparse
from collections.abc import Callable, Mapping
from typing import Any

from ge.dialects.text.look import Look
from ge.dialects.text.values import names, whole
from ge.lowering.pipeline.option_values import StatisticsDisplay, TimeDisplay, TimeFormat
from ge.tools.cli.arguments import argument

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
    """Whether anything is to be told of the passes that run."""
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
    """How modules are to be printed."""
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
