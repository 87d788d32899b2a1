"""The page of options: one row for each field of `Options`."""

import dataclasses
from typing import Any, get_type_hints

from ge.lowering.pipeline.options import OptionFacts, Options, facts_of, flags_of
from ge.lowering.pipeline.pass_options import type_text
from ge.tools.reference.markdown import code, paragraphs, table
from ge.tools.reference.pass_help import default_text

INTRODUCTION = """# Options

An option exists once (`lowering/pipeline/options.py`): as an argument of `ge.compile`, as a flag of
the tools, and as an environment variable, which holds where no flag is given. A variable that
begins with `GE_` and belongs to no option is reported. This table is made from the code, as all of
the reference is."""


def options_page() -> str:
    """Return the page: names, type, default, tools and meaning of each option."""
    return paragraphs(INTRODUCTION, options_table())


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
