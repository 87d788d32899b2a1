"""The content of a page, as plain data: `plain` makes JSON of it. Times are in microseconds, sizes
in bytes; empty fields are left out."""

from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, NamedTuple, cast


class LevelOperand(NamedTuple):
    """A value that an op reads: its name, its type, and the number of the node that makes it; -1
    for constants."""

    name: str
    type: str
    node: int


@dataclass(slots=True)
class LevelNode:
    """An op of a level. `sources` are names of nodes of the model (or places in a text) that it
    came from; `module` is the path of the part of the model that it belongs to; `parent` is the
    number of the node in whose body it is, -1: none."""

    name: str
    op: str
    sources: list[str]
    operands: list[LevelOperand] = field(default_factory=list[LevelOperand])
    results: list[str] = field(default_factory=list[str])  # types
    attributes: dict[str, str] = field(default_factory=dict[str, str])
    module: str = ""
    parent: int = -1
    group: int = -1  # at the graph level: the number of the node of the fused level that has it
    task: int = -1  # the number of the node of the program level that executes it
    broken: str = ""  # what is wrong with it


@dataclass(slots=True)
class LevelGraph:
    """The ops of @main at a level, in order, after so many passes."""

    name: str
    summary: str
    after: int
    nodes: list[LevelNode] = field(default_factory=list[LevelNode])


@dataclass(slots=True)
class Touch:
    """A change that a pass made to the ops that came from a source: `made`, `changed` or
    `removed`."""

    step: int
    what: str


@dataclass(slots=True)
class Noted:
    """A remark: what a rule did to an op, or why it did not and what that costs, about. A chance
    that was missed is `settled` where the rule was applied to the same op in another way: a sum of
    two products goes into one of them only."""

    rule: str
    applied: bool
    op: str
    source: str
    why: str
    step: int
    loss_us: float | None = None
    settled: bool | None = None


def plain(value: Any) -> Any:
    """The value as JSON has it: dataclasses are objects without empty fields, numbers short."""
    if isinstance(value, float):
        return float(f"{value:.7g}")
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in cast(dict[Any, Any], value).items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in cast(list[Any], value)]
    if is_dataclass(value):
        pairs = ((f.name, getattr(value, f.name)) for f in fields(value))
        return {name: plain(v) for name, v in pairs if not is_absent(v)}
    return value


def is_absent(value: Any) -> bool:
    return value is None or value == -1 or (value in ("", [], {}) and value is not False)
