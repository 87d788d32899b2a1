"""The page of options: one row for each field of `Options`."""

import dataclasses

from ge.lowering.pipeline.options import Options, facts_of, flags_of
from ge.lowering.reference.markdown import code, paragraphs, table

INTRODUCTION = """# Options

An option exists once (`lowering/pipeline/options.py`): as an argument of `ge.compile`, as a flag of
the tools, and as an environment variable, which holds where no flag is given. A variable `GE_*`
that no option has is told. This table is made from the code, as all of the reference is."""


def options_page() -> str:
    """Argument, flag, variable, tools and meaning of each option."""
    return paragraphs(INTRODUCTION, options_table())


def options_table() -> str:
    rows: list[tuple[str, ...]] = []
    for field in dataclasses.fields(Options):
        facts = facts_of(field)
        metavar = f" {facts.metavar}" if facts.metavar else ""
        flag = code(f"{flags_of(field)[0]}{metavar}" if facts.tools else "")
        tools = ", ".join(tool.removeprefix("ge-") for tool in facts.tools)
        rows.append((code(field.name), flag, code(facts.variable), tools, facts.help))
    return table(["argument", "flag", "variable", "tools", "meaning"], rows)
