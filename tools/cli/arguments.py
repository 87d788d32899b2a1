"""Flags of a command line from the table of options, and options from its flags."""

import argparse
import dataclasses
import os
from collections.abc import Callable
from typing import Any, cast

from ge.dialects.text.values import fixed_shapes, fixed_sizes, parse_dims, parse_shapes
from ge.lowering.pipeline.options import MODEL, Options, facts_of, flags_of
from ge.tools.cli.command_line import ArgumentParser


def argument(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """What reads a value of a flag, for argparse."""

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
            add = parser.section(facts.group)
            add(*flags, dest=option_key(field.name), help=_help(field), **_action(field))


def option_key(name: str) -> str:
    """Where argparse keeps an option, apart from what the tool's own flags give."""
    return f"option {name}"


def _action(field: "dataclasses.Field[Any]") -> dict[str, Any]:
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


def _help(field: "dataclasses.Field[Any]") -> str:
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
