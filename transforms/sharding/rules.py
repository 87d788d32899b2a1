"""Shardings that users ask for: a mesh, and how values are cut over it, by their names.

    dp=2,tp=4                              --mesh, the last axis counts fastest

    {"mesh": {"dp": 2, "tp": 4},           --shard rules.json
     "shard": {"x": [["dp"]],              dimension 0 is cut along dp, the others are not
               "w_*": [[], ["tp"]],        a glob
               "p": [["tp:(1)2", "?"]]}}   along a sub-axis; `?` as in Shardy

The file may have the second table alone, or the mesh. A list "parameters" says which weights count
as such in reports; others are constants. "pipeline" and "microbatches" are what the options of
these names say; a list "stages_end_at" has the values (a name, or a list of names) with which the
stages end. Anything else beside "shard" is an error. A rule with the whole name of a value comes
before globs, and the first of these holds.

`--shard auto`, or `--shard rules.json,auto`: what no rule states is searched for (`plans.py`)."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard, cast

from ge.dialects.support.errors import GeError
from ge.dialects.support.mesh import Axis, Mesh, Sharding
from ge.dialects.text.values import did_you_mean, whole

OPEN = "?"
AUTO = "auto"

OF_PIPELINE = ("pipeline", "microbatches", "stages_end_at")
PARTS = ("mesh", "shard", "parameters", *OF_PIPELINE)  # of a file of rules


@dataclass(frozen=True)
class ShardRules:
    """A mesh, None if it is stated elsewhere, and shardings by names of values or globs. They may
    have fewer dimensions than the values: the last ones are not cut. `source` is where they
    stand. `parameters` are the weights that count as such in reports, None for all."""

    mesh: Mesh | None = None
    shard: Mapping[str, Sharding] = field(default_factory=dict[str, Sharding])
    source: str = ""
    parameters: Sequence[str] | None = None
    auto: bool = False  # what is not stated is searched for
    pipeline: str = ""  # the stages of a pipeline, as `read_pipeline` takes them
    microbatches: int = 0  # parts of the batch, 0 if none are stated
    ends: Sequence[Sequence[str]] = ()  # the values with which each of them ends
    of_pipeline: Sequence[str] = ()  # parts of the file that say something about a pipeline


def mesh_line(mesh: Mesh) -> str:
    return ",".join(f"{name}={size}" for name, size in mesh.axes)


def read_mesh(text: str) -> Mesh:
    """Read `dp=2,tp=4`. Raises ValueError that says what is expected."""
    axes: dict[str, int] = {}
    for part in text.split(","):
        name, _, number = (piece.strip() for piece in part.partition("="))
        try:
            size = whole()(number)
        except ValueError:
            name, size = "", 0
        if not name.isprintable() or not name or set(name) & set('"?:\\'):
            raise ValueError("axes and how many devices lie along each, as in dp=2,tp=4")
        if not size:
            raise ValueError(f"axes of one device or more, and '{name}' has none")
        if name in axes:
            raise ValueError(f"axes of different names, and two are called '{name}'")
        axes[name] = size
    return Mesh(tuple(axes.items()))


def read_pipeline(text: str) -> tuple[str, int]:
    """Read `4`, or `pp=4`: the axis ("" if none is named) and the number of stages. Raises
    ValueError that says what is expected."""
    axis, _, number = text.rpartition("=")
    try:
        return axis.strip(), whole(1)(number)
    except ValueError:
        raise ValueError(
            "a number of stages, or an axis of the mesh and that, as in pp=4"
        ) from None


def asked(mesh: str, shard: str, pipeline: str = "", microbatches: int = 0) -> ShardRules | None:
    """Return what `--mesh`, `--shard`, `--pipeline` and `--microbatches` say together; None if
    nothing. Raises GeError for what cannot be read, and where they contradict each other."""
    if not mesh and not shard:
        return None
    source, auto = without_auto(shard)
    rules = read_rules(source) if source else ShardRules(source="--shard")
    stated = agreed(_mesh(mesh, "--mesh"), rules.mesh, rules.source)
    pipeline = agreed_stages(pipeline, rules)
    if microbatches and rules.microbatches and microbatches != rules.microbatches:
        what = f"--microbatches {microbatches}, but {rules.source} states {rules.microbatches}"
        raise GeError(what, hint="drop one of the two")
    microbatches = microbatches or rules.microbatches
    return replace(rules, auto=auto, mesh=stated, pipeline=pipeline, microbatches=microbatches)


def agreed_stages(ours: str, rules: ShardRules) -> str:
    """The stages that `--pipeline` and a file of rules state, of which one may say nothing, or
    leave the axis out. Raises GeError for two numbers or axes."""
    if not ours or not rules.pipeline:
        return ours or rules.pipeline
    (axis, count), (other, stages) = read_pipeline(ours), read_pipeline(rules.pipeline)
    if count != stages or (axis and other and axis != other):
        what = f"--pipeline {ours}, but {rules.source} states a pipeline of {rules.pipeline}"
        raise GeError(what, hint="drop one of the two")
    return ours if axis else rules.pipeline


def without_auto(shard: str) -> tuple[str, bool]:
    """Return the rules of `--shard`, and whether it asks for a search."""
    rules, _, last = shard.rpartition(",")
    return (rules, True) if last.strip() == AUTO else (shard, False)


def agreed(ours: Mesh | None, theirs: Mesh | None, source: str = "") -> Mesh | None:
    """The mesh that two places state, one of which may say nothing: --mesh and a file of rules, or
    both of these and a module, which alone may say which device is where. Raises GeError for two
    meshes."""
    if ours and theirs and ours.axes != theirs.axes:
        first, source = ("--mesh", source) if source else ("the mesh asked for is", "the module")
        what = f"{first} {mesh_line(ours)}, but {source} states the mesh {mesh_line(theirs)}"
        raise GeError(what, hint="drop one of the two")
    return theirs or ours


def _mesh(text: str, where: str) -> Mesh | None:
    if not text:
        return None
    try:
        return read_mesh(text)
    except ValueError as e:
        raise GeError(f"a mesh is {e}: not '{text}'", where) from None


# ---- the file --------------------------------------------------------------------------------


def is_file(source: str) -> bool:
    """Return whether rules stand in a file of this name, not in the text itself."""
    return bool(source) and not source.lstrip().startswith("{")


def rules_text(rules: Mapping[str, Any]) -> str:
    """Return rules that are given in Python as the text of a file. Raises GeError."""
    try:
        return json.dumps(rules)
    except (TypeError, ValueError) as e:
        hint = 'as in {"x": [["dp"], []]}: lists of axes by dimension'
        raise GeError(f"the rules of shard cannot be written as JSON: {e}", hint=hint) from None


def _is_meant(source: str) -> str:
    """`did you mean rules.json,auto?` for a text that nearly asks for a search, and is no file."""
    parts = [part.strip() for part in source.split(",")]
    files = [part for part in parts if part and not did_you_mean(part, [AUTO])]
    return f"did you mean '{','.join([*files, AUTO])}'?" if len(files) < len(parts) else ""


def read_rules(source: str) -> ShardRules:
    """Read a file of rules, or the text of one. Raises GeError."""
    text, where = source, "--shard"
    if is_file(source):
        where = source
        try:
            with open(source, encoding="utf-8") as file:
                text = file.read()
        except (OSError, UnicodeDecodeError) as e:
            why = os.strerror(e.errno) if isinstance(e, OSError) and e.errno else str(e)
            hint = f"a file, a table, {AUTO}, or a file and {AUTO} as in rules.json,{AUTO}"
            what = f"the rules of --shard cannot be read: {why}"
            raise GeError(what, source, _is_meant(source) or hint) from None
    try:
        table: Any = json.loads(text, object_pairs_hook=_Table)
    except (ValueError, RecursionError) as e:
        raise GeError(f"the rules of --shard are no JSON: {e}", where) from None
    if not _is_table(table):
        raise GeError('rules are a table, as in {"x": [["dp"], []]}', where)
    has_parts = bool({"shard", "stages_end_at"} & table.keys()) or _is_table(table.get("mesh"))
    if has_parts:
        _check_parts(table, where)
    mesh, shard = (table.get("mesh"), table.get("shard", {})) if has_parts else (None, table)
    if mesh is not None and not _is_table(mesh):
        raise GeError('a mesh is a table, as in {"dp": 2, "tp": 4}', where)
    if not _is_table(shard):
        raise GeError('shardings are a table, as in {"x": [["dp"], []]}', where)
    for named in (table, shard, mesh or {}):
        if isinstance(named, _Table) and named.twice:
            what = f"'{named.twice[0]}' is stated twice"
            raise GeError(what, where, "drop one of the two")
    line = ",".join(f"{name}={size}" for name, size in (mesh or {}).items())
    shardings = {name: _sharding(name, dims, where) for name, dims in shard.items()}
    parameters = table.get("parameters") if has_parts else None
    if parameters is not None and not isinstance(parameters, list):
        raise GeError('parameters are a list of names of weights, as in ["w", "b"]', where)
    names = None if parameters is None else [str(n) for n in cast("list[Any]", parameters)]
    ends = _ends(table.get("stages_end_at") or [] if has_parts else [], where)
    of_pipeline = [part for part in OF_PIPELINE if has_parts and part in table]
    pipeline, microbatches = _stages(table, where) if has_parts else ("", 0)
    return ShardRules(
        _mesh(line, where), shardings, where, names, pipeline=pipeline,
        microbatches=microbatches, ends=ends, of_pipeline=of_pipeline,
    )  # fmt: skip


def _check_parts(table: Mapping[str, Any], where: str) -> None:
    """Raises GeError for a part of a file of rules that none has."""
    for name in table:
        if name not in PARTS:
            near = did_you_mean(name, PARTS, f"; parts are {', '.join(PARTS)}")
            hint = f'{near.removeprefix("; ")}; rules of values stand in "shard"'
            raise GeError(f"rules have no part '{name}'", where, hint)


def _stages(table: Mapping[str, Any], where: str) -> tuple[str, int]:
    """The pipeline that a file states, as `read_pipeline` takes it, and its microbatches; "" and 0
    for what it does not."""
    part = "pipeline"
    try:
        pipeline = str(table[part]) if part in table else ""
        if pipeline:
            read_pipeline(pipeline)
        part = "microbatches"
        return pipeline, whole(1)(str(table[part])) if part in table else 0
    except ValueError as e:
        raise GeError(f"'{part}' is {e}, not {json.dumps(table[part])}", where) from None


def _ends(listed: Any, where: str) -> list[list[str]]:
    entries = cast("list[Any]", listed) if isinstance(listed, list) else [None]
    ends: list[Any] = [[entry] if isinstance(entry, str) else entry for entry in entries]
    for own in ends:
        if not isinstance(own, list) or not all(isinstance(n, str) for n in cast("list[Any]", own)):
            hint = 'a name, or a list of names, for each stage, as in ["h0", ["h1", "mask"]]'
            raise GeError("stages_end_at is no list of names of values", where, hint)
    return ends


class _Table(dict[str, Any]):
    """A table of a file, and the names that it states more than once."""

    def __init__(self, pairs: Sequence[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        names = [name for name, _ in pairs]
        self.twice = (
            [n for i, n in enumerate(names) if n in names[:i]] if len(self) < len(names) else []
        )


def _is_table(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _sharding(name: str, dims: Any, where: str) -> Sharding:
    if not isinstance(dims, list):
        raise _no_sharding(name, dims, where)
    read: list[tuple[Axis, ...]] = []
    is_open = set[int]()
    for i, axes in enumerate(cast("list[Any]", dims)):
        texts: list[Any] = [axes] if isinstance(axes, str) else [] if axes is None else axes
        if not isinstance(texts, list) or not all(isinstance(t, str) for t in texts):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise _no_sharding(name, dims, where)
        if OPEN in texts:
            is_open.add(i)
        read.append(tuple(_axis(t, name, where) for t in texts if t != OPEN))
    return Sharding(tuple(read), frozenset(is_open))


def _no_sharding(name: str, dims: Any, where: str) -> GeError:
    near = did_you_mean(name, PARTS) if _is_table(dims) else ""
    hint = f'for each dimension a list of axes, as in [["dp"], []]{near}'
    return GeError(f"the rule of '{name}' is no sharding: {json.dumps(dims)[:60]}", where, hint)


def _axis(text: str, name: str, where: str) -> Axis:
    """Read `tp`, or `tp:(1)2`."""
    axis, colon, part = text.partition(":")
    pre, paren, size = part.removeprefix("(").partition(")")
    try:
        if not colon:
            return Axis(axis)
        if part[:1] == "(" and paren:
            return Axis(axis, whole(1)(pre), whole(1)(size))
    except ValueError:
        pass
    hint = "a sub-axis is written as tp:(1)2: a digit of 2 values behind one of 1 value"
    raise GeError(f"the rule of '{name}' has no axis '{text}'", where, hint)
