"""Which part of a model a node belongs to: a path of modules (`encoder/layer.0/attention`).

    node names with slashes        /m/encoder/layer.0/attention/Add    the path, without the last
                                   (where several nodes begin so)
    names of weights               m.encoder.layer.0.query.bias        the node that reads it
    scopes that exporters write    m.encoder.layer.0                   as they are
    all other nodes                what the nodes before and after have in common

Weights that several nodes read say nothing: exporters keep one of several equal ones. Nodes are in
the order of the model, which exporters write in the order of execution. That a node between two of
one module belongs to it, and one between two layers to the first, is an assumption.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

Path = tuple[str, ...]


@dataclass(slots=True)
class Sourced:
    """A node as far as its module depends on it."""

    name: str
    weights: list[str] = field(default_factory=list[str])
    scope: str = ""


@dataclass(slots=True)
class Modules:
    """The module of each node, by name, without the modules that all of them are in; the nodes of
    which something says it."""

    paths: dict[str, Path]
    stated: set[str] = field(default_factory=set[str])

    @classmethod
    def of(cls, nodes: Sequence[Sourced]) -> "Modules":
        readers = Counter(weight for node in nodes for weight in node.weights)
        names = {node.name for node in nodes}
        own = {w for w, count in readers.items() if count == 1 and w.split(".")[0] not in names}
        counts = Counter(folder_of(node.name) for node in nodes)
        folders = {f for f, count in counts.items() if f and count > 1}
        stated = [stated_path(node, own, folders) for node in nodes]
        shared = _shared_prefix([path for path in stated if path])
        found = cls({}, {node.name for node, path in zip(nodes, stated, strict=True) if path})
        for node, path in zip(nodes, between(stated), strict=True):
            found.paths[node.name] = numbered(path[shared:])
        return found

    def module_of(self, sources: Sequence[str]) -> str:
        """The module of an op that came from these nodes; those of which something says it count,
        if there are any."""
        known = [s for s in sources if s in self.stated] or sources
        return "/".join(common([self.paths[s] for s in known if s in self.paths]))


def folder_of(name: str) -> str:
    """The first part of a name with slashes; of others, none."""
    return name.lstrip("/").partition("/")[0] if "/" in name else ""


def stated_path(node: Sourced, own: Collection[str], folders: Collection[str]) -> Path | None:
    """The module that a node names, in one of `folders`, or whose weights, of those in `own`, it
    reads; None where nothing says it."""
    if node.scope:
        return tuple(node.scope.split("."))
    if folder_of(node.name) in folders:
        return tuple(part for part in node.name.split("/")[:-1] if part)
    for weight in (w for w in node.weights if w in own):
        *path, last = weight.split(".")
        if path and not last.isdigit() and "::" not in weight:
            return tuple(path)
    return None


def between(stated: Sequence[Path | None]) -> list[Path]:
    """The paths, with those of the other nodes by what is before and after them."""
    following: list[Path | None] = [None] * len(stated)
    after: Path | None = None
    for i in reversed(range(len(stated))):
        after = following[i] = stated[i] if stated[i] is not None else after
    found: list[Path] = []
    before: Path | None = None
    for own, after in zip(stated, following, strict=True):
        if own is not None:
            before = own
        found.append(own if own is not None else common([p for p in (before, after) if p]))
    return found


def common(paths: Sequence[Path]) -> Path:
    """What the paths begin with; where they go on in two numbered modules (layers 3 and 4), with
    the one of the first."""
    if not paths:
        return ()
    end = _shared_prefix(paths)
    first = paths[0]
    parts = {path[end] if end < len(path) else "" for path in paths}
    if len(parts) > 1 and all(ends_in_number(part) for part in parts):
        end += 1
    return first[:end]


def ends_in_number(part: str) -> bool:
    return part.rpartition(".")[2].isdigit()


def numbered(path: Path) -> Path:
    """The path with numbers behind the names that they are of: `layers.3`."""
    parts: list[str] = []
    for part in path:
        if part.isdigit() and parts and not ends_in_number(parts[-1]):
            parts[-1] += f".{part}"
        else:
            parts.append(part)
    return tuple(parts)


def _shared_prefix(paths: Sequence[Path]) -> int:
    """How many parts all of the paths begin with."""
    least, most = min(paths, default=()), max(paths, default=())
    count = 0
    for one, other in zip(least, most, strict=False):
        if one != other:
            break
        count += 1
    return count
