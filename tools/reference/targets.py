"""The page of targets: what their files state, with the comments that say from where."""

import dataclasses
import re
from importlib.resources import files

from ge.dialects.targets.target import Target
from ge.tools.reference.markdown import code, paragraphs, table

INTRODUCTION = """# Targets

A target is a short TOML file; `--target NAME` takes one of these, `--target my.toml` one of yours
(`ge-compile --help`). Sizes are bytes, rates bytes a cycle a core, times microseconds. The last
column is what the file says of where a number is from; *assumption* means that nobody
published it."""

# a key with its comment, which lines may go on that have nothing else
LINE = re.compile(r"^(\w+) = ([^#\n]*?) *(?:# (.*(?:\n +# .*)*))?$", re.MULTILINE)


def targets_page() -> str:
    """Each preset, and the keys that a file may have."""
    sections = [target_section(name) for name in Target.presets()]
    return paragraphs(INTRODUCTION, *sections, "## Keys", keys_table())


def target_section(name: str) -> str:
    """The facts of one preset. A heading of the file is that of the lines behind it."""
    text = (files("ge.dialects.targets") / f"{name}.toml").read_text("utf-8")
    comment, _, _ = text.partition("\nname = ")
    about = " ".join(line.removeprefix("#").strip() for line in comment.splitlines())
    rows = [(code(key), value, re.sub(r"\n +#", "", why)) for key, value, why in LINE.findall(text)]
    return paragraphs(f"## {name}", about, table(["key", "value", "source and meaning"], rows))


def keys_table() -> str:
    """All keys of a target with type and default."""
    none = dataclasses.MISSING
    rows: list[tuple[str, str, str]] = []
    for field in dataclasses.fields(Target):
        kind = getattr(field.type, "__name__", str(field.type))
        default = "required" if field.default is field.default_factory is none else "none"
        if field.default is not none:
            default = str(field.default)
        rows.append((code(field.name), kind, default))
    return table(["key", "type", "default"], rows)
