"""Markdown of the pages that are made from the code."""

import inspect
import re
from collections.abc import Iterable, Sequence


def cell(text: str) -> str:
    """A text as a cell of a table: one line, without its separators."""
    return " ".join(text.split()).replace("|", "\\|")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; nothing if it has no rows."""
    lines = [f"| {' | '.join(map(cell, row))} |" for row in (head, ["---"] * len(head), *rows)]
    return "\n".join(lines) if len(lines) > 2 else ""


def code(text: str) -> str:
    return f"`{text}`" if text else ""


def block(text: str, language: str = "text") -> str:
    return f"```{language}\n{text.rstrip()}\n```"


def paragraphs(*parts: str) -> str:
    """Parts of a page, those that are empty left out."""
    return "\n\n".join(part.strip("\n") for part in parts if part.strip()) + "\n"


def from_docstring(doc: str | None) -> str:
    """A docstring as Markdown: what it indents is code, and needs an empty line around it."""
    lines: list[str] = []
    in_code = False
    text = inspect.cleandoc(doc or "").replace(" (see the top of this file)", "")
    for line in text.split("\n"):
        if line.strip():
            indented = line.startswith("    ")
            if indented != in_code and lines and lines[-1]:
                lines.append("")
            in_code = indented
        lines.append(line if in_code else escaped(line))
    return "\n".join(lines)


def escaped(line: str) -> str:
    """Return prose in which `<` begins no HTML, except in what is code already."""
    parts = re.split(r"(`[^`]*`)", line)
    return "".join(p if p.startswith("`") else p.replace("<", "&lt;") for p in parts)


def anchor(title: str) -> str:
    """The anchor of a heading, as mkdocs makes it."""
    plain = re.sub(r"[^\w\s-]", "", re.sub(r"[`*]", "", title)).strip().lower()
    return re.sub(r"[-\s]+", "-", plain)
