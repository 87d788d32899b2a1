"""Edits that an editor offers: for a diagnostic the comment that expects it, or what may be meant;
and the text as the printer would write it."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from xdsl.dialects.builtin import ModuleOp

from ge.dialects.text.printing import op_text
from ge.tools.lsp.analysis import ChunkProblem, TextChunk
from ge.tools.lsp.index import TOKEN
from ge.tools.lsp.positions import Extent

MEANT = re.compile(r"did you mean '(?P<name>[^']+)'")


class Edit(NamedTuple):
    """New text in place of a part, and what that is good for."""

    title: str
    extent: Extent
    text: str


def edits_for(part: TextChunk, problem: ChunkProblem) -> Iterator[Edit]:
    """The edits for a diagnostic of a part."""
    if (match := MEANT.search(problem.message)) is not None:
        yield Edit(f"Replace by '{match['name']}'", problem.extent, match["name"])
    line = part.text.rfind("\n", 0, problem.extent.start) + 1
    indent = re.match(r"[ \t]*", part.text[line : problem.extent.start])
    blank = "" if indent is None else indent[0]
    kind = problem.severity.value
    comment = f"{blank}// expected-{kind}@+1 {{{{{problem.message}}}}}\n"
    yield Edit(f'Insert "expected-{kind}" for this diagnostic', Extent(line, line), comment)


def has_comments(text: str) -> bool:
    return any(m[0].startswith("//") for m in TOKEN.finditer(text))


def formatted(part: TextChunk) -> str | None:
    """A part as the printer writes it; None where it cannot be parsed, or has comments, which no
    module keeps."""
    if part.module is None or has_comments(part.text):
        return None
    if isinstance(part.record.ops[0].op, ModuleOp):
        return op_text(part.module) + "\n"
    return "".join(op_text(op) + "\n" for op in part.module.ops)
