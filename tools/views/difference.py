"""Differences between two levels, dumps or models (`ge-parser --diff`), by what their ops came
from: nodes of the model, which their locations name, or places in a text. Lines do not matter.

Ops of both sides that share a source belong together: one and one are the same op, or a changed
one; many and one are joined (fused); one and many are split. Where a text states no locations, ops
are matched in order, by kind and type.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from ge.dialects.support.diagnostics import listing
from ge.dialects.support.errors import GeError
from ge.tools.views.data import LevelGraph, LevelNode

PLACE = re.compile(r"(:\d+){1,2}$")
PORTS = ("input", "output")
LEAST_SHARED = 0.1  # of the sources of the smaller side; models that share less are different ones


@dataclass(slots=True)
class Change:
    """Ops of the one side, and what they are on the other."""

    kind: str  # changed, joined, split, rewritten, removed or added
    before: list[LevelNode]
    after: list[LevelNode]
    why: str = ""  # what differs between two

    def __str__(self) -> str:
        match self.kind:
            case "removed":
                return f"- {text_of(self.before)}"
            case "added":
                return f"+ {text_of(self.after)}"
            case "changed":
                return f"~ {self.before[0].name}: {self.why}"
            case _:
                return f"{MARKS[self.kind]} {text_of(self.before)} -> {text_of(self.after)}"


MARKS = {"joined": ">", "split": "<", "rewritten": "*"}


@dataclass(slots=True)
class Difference:
    """All changes; `same` counts ops that are alike, `by` says how ops were matched."""

    same: int
    changes: list[Change] = field(default_factory=list[Change])
    by: str = "source"

    @property
    def counts(self) -> dict[str, int]:
        return dict(Counter(c.kind for c in self.changes))


def text_of(nodes: Sequence[LevelNode], most: int = 6) -> str:
    """The ops with their names, or, of many, the kinds."""
    if len(nodes) > most:
        kinds = Counter(n.op for n in nodes)
        listed = ", ".join(f"{count} {op}" for op, count in kinds.most_common(most))
        return f"{len(nodes)} ops ({listed}{', ...' if len(kinds) > most else ''})"
    return ", ".join(n.op if is_named_by(n) else f"{n.op} {n.name}" for n in nodes)


def is_named_by(node: LevelNode) -> bool:
    """Return whether its op is all that a node is named by."""
    return node.name in (node.op, node.op.partition(".")[2], node.op.removeprefix("launch @"))


def difference(a: LevelGraph, b: LevelGraph, own: Iterable[str] = ()) -> Difference:
    """`own` are the files that the graphs were read from: where one side alone names places in one
    of these, they are no sources, for the text states no locations. Raises GeError for graphs of
    different models."""
    before, after = (top(level) for level in (a, b))
    named_files = [{file_of(s) for n in nodes for s in n.sources} for nodes in (before, after)]
    files = {f for f in own if not all(f in names for names in named_files)}
    sources = [{s for n in nodes for s in named(n, files)} for nodes in (before, after)]
    check_inputs(a, b)
    if not all(sources):
        return in_order(before, after)
    shared = sources[0] & sources[1]
    if len(shared) < LEAST_SHARED * min(map(len, sources)):
        counts = " and ".join(str(len(s)) for s in sources)
        what = f"they share {len(shared)} of {counts} nodes of the model"
        raise GeError(f"these are of different models: {what}", hint="compare two of one model")
    return by_sources(before, after, files)


def file_of(source: str) -> str:
    """Return the file of a place in a text, FILE:LINE:COLUMN."""
    return PLACE.sub("", source)


def top(level: LevelGraph) -> list[LevelNode]:
    """The ops except inputs, outputs, and members of fused ops."""
    nodes = level.nodes
    fused = {i for i, n in enumerate(nodes) if n.op.startswith("fused_op.")}
    return [n for n in nodes if n.op not in PORTS and n.parent not in fused]


def named(node: LevelNode, files: Iterable[str]) -> list[str]:
    return [s for s in node.sources if file_of(s) not in files]


def check_inputs(a: LevelGraph, b: LevelGraph) -> None:
    """Raises GeError where no input has the name of one of the other graph."""
    names = [{n.name for n in level.nodes if n.op == "input"} for level in (a, b)]
    if all(names) and not names[0] & names[1]:
        listed = " and ".join(listing(sorted(n), 4, ", ") for n in names)
        what = f"their inputs are {listed}"
        raise GeError(f"these are of different models: {what}", hint="compare two of one model")


def by_sources(
    before: Sequence[LevelNode], after: Sequence[LevelNode], files: Iterable[str]
) -> Difference:
    """Groups of ops that share sources, in the order of the first side."""
    nodes = [*before, *after]
    group = list(range(len(nodes)))

    def root(i: int) -> int:
        while group[i] != i:
            group[i] = i = group[group[i]]
        return i

    first: dict[str, int] = {}
    for i, node in enumerate(nodes):
        for source in named(node, files):
            group[root(i)] = root(first.setdefault(source, i))
    sides: dict[int, tuple[list[LevelNode], list[LevelNode]]] = {}
    for i, node in enumerate(nodes):
        sides.setdefault(root(i), ([], []))[i >= len(before)].append(node)
    result = Difference(0)
    for ours, theirs in sides.values():
        compare(ours, theirs, result)
    pair_up(result, files)
    return result


def compare(ours: list[LevelNode], theirs: list[LevelNode], result: Difference) -> None:
    """Add what became of a group: those that are alike, and one change of the rest."""
    rest = list(theirs)
    left: list[LevelNode] = []
    for node in ours:
        alike = next((t for t in rest if alike_as(t) == alike_as(node)), None)
        if alike is None:
            left.append(node)
        else:
            rest.remove(alike)
            result.same += 1
    if not left and not rest:
        return
    match len(left), len(rest):
        case 1, 1:
            change = Change("changed", left, rest, what_differs(left[0], rest[0]))
        case _, 0:
            change = Change("removed", left, [])
        case 0, _:
            change = Change("added", [], rest)
        case _, 1:
            change = Change("joined", left, rest)
        case 1, _:
            change = Change("split", left, rest)
        case _:
            change = Change("rewritten", left, rest)
    result.changes.append(change)


def alike_as(node: LevelNode) -> tuple[object, ...]:
    return node.op, tuple(node.results), tuple(sorted(node.attributes.items()))


def what_differs(a: LevelNode, b: LevelNode) -> str:
    parts: list[str] = []
    if a.op != b.op:
        parts.append(f"{a.op} -> {b.op}")
    if a.results != b.results:
        parts.append(f"{', '.join(a.results)} -> {', '.join(b.results)}")
    keys = [*dict.fromkeys((*a.attributes, *b.attributes))] if a.op == b.op else []
    for key in keys:
        old, new = a.attributes.get(key, "none"), b.attributes.get(key, "none")
        if old != new:
            parts.append(f"{key} {old} -> {new}")
    return "; ".join(parts)


def pair_up(result: Difference, files: Iterable[str]) -> None:
    """Ops without a source, which are alike on both sides, are the same."""
    added = [c for c in result.changes if c.kind == "added" and not named(c.after[0], files)]
    for change in list(result.changes):
        if change.kind != "removed" or named(change.before[0], files):
            continue
        alike = next((c for c in added if alike_as(c.after[0]) == alike_as(change.before[0])), None)
        if alike is not None:
            added.remove(alike)
            result.changes.remove(change)
            result.changes.remove(alike)
            result.same += 1


def in_order(before: Sequence[LevelNode], after: Sequence[LevelNode]) -> Difference:
    """Ops are matched by kind and type, as lines of texts are."""
    result = Difference(0, by="kind and type, in order")
    keys = [[(n.op, tuple(n.results)) for n in nodes] for nodes in (before, after)]
    matcher = SequenceMatcher(None, *keys, autojunk=False)
    for tag, i, end_i, j, end_j in matcher.get_opcodes():
        ours, theirs = list(before[i:end_i]), list(after[j:end_j])
        if tag == "equal":
            for a, b in zip(ours, theirs, strict=True):
                compare([a], [b], result)
        else:
            compare(ours, theirs, result)
    return result
