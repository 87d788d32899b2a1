"""Many configurations of a model: each is compiled and timed, several at once (`ge-sweep`,
`ge-scale`).

A configuration is a change of options, as `ge-compile` has them. Its row has what it makes of time,
memory and accuracy, or the error with which it failed. Rows are written as they come, one a line:
a sweep that is started again computes those that the file does not have, by a hash of the model and
all options. Processes are joblib's, which is imported where there are several."""

import dataclasses
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib import import_module
from itertools import groupby, product
from pathlib import Path
from typing import Any, cast

from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.targets.target import Target
from ge.dialects.text.kept import hash_of, own_files
from ge.dialects.text.values import did_you_mean, parse_dims, parse_shapes
from ge.lowering.driver.compiler import load
from ge.lowering.driver.devices import device_figures
from ge.lowering.driver.program import Program
from ge.lowering.driver.variants import Refused, Timed, Variant, attempt
from ge.lowering.pipeline.option_values import SAME
from ge.lowering.pipeline.options import Options, facts_of, flags_of
from ge.runtime.check.certificate import OUTSIDE, taken_bytes
from ge.runtime.clock.pipeline import latency_of
from ge.transforms.sharding.rules import asked

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Configuration:
    """A change of options of a model, in the words of the command line, and its hash."""

    path: str
    options: Options
    words: Mapping[str, str]
    change: Mapping[str, Any]
    key: str


def configurations(
    path: str, options: Options, varied: Mapping[str, Sequence[str]]
) -> list[Configuration]:
    """Return all combinations of values of options, by the names of options. Raises GeError for
    what is no option, or no value of it."""
    values = {name: [_value(name, text) for text in texts] for name, texts in varied.items()}
    own = [hash_of(path), *own_files()]
    found: dict[str, Configuration] = {}
    for chosen in product(*(zip(varied[n], values[n], strict=True) for n in varied)):
        words = {name: text for name, (text, _) in zip(varied, chosen, strict=True)}
        change = {name: value for name, (_, value) in zip(varied, chosen, strict=True)}
        if "shard" in change and not change.get("mesh", options.mesh):
            words["shard"] = change["shard"] = ""  # one device has nothing to be cut
        read = [hash_of(p) for p in (options.target, *options.plugins, *options.read_files)]
        facts = [own, read, options.of_program(), {n: str(v) for n, v in change.items()}]
        key = sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()
        found[key] = Configuration(path, options, words, change, key)
    return list(found.values())


def option_name(text: str) -> str:
    """Return the option that a text names, as a flag or as Python does. Raises GeError."""
    fields = {f.name: f for f in dataclasses.fields(Options)}
    name = text.lstrip("-").replace("-", "_")
    for field in fields.values():
        if name == field.name or text in flags_of(field):
            return field.name
    near = did_you_mean(name, list(fields))
    raise GeError(f"there is no option '{text}'{near}", hint="ge-compile --help lists options")


def _value(name: str, text: str) -> Any:
    (field,) = (f for f in dataclasses.fields(Options) if f.name == name)
    default: Any = field.default
    if text == "" and isinstance(default, str | tuple):
        return cast(Any, default)
    try:
        return facts_of(field).value(text)
    except ValueError as e:
        raise GeError(f"{name} is {e}, not '{text}'") from None


# ---- one of them -----------------------------------------------------------------------------


def row_of(configuration: Configuration) -> Row:
    """Compile and time a configuration. Whatever goes wrong is in the row."""
    head = {"key": configuration.key, **configuration.words}
    figures: dict[str, Any] = {}

    def timed(program: Program, options: Options) -> Timed:
        us, machine = latency_of(program.module, Target.load(options.target))
        figures.update(_figures(program))
        return Timed(us, machine, figures["bytes"])

    try:
        variant = Variant("", configuration.change, SAME)
        changed = replace(configuration.options, **configuration.change)
        options, path = configuration.options, configuration.path
        found = attempt(variant, options, lambda v: _read(path, changed), timed)
    except GeError as error:
        return {**head, "error": error.message}
    except Exception as error:  # a defect of the compiler ends one row, not all
        return {**head, "error": f"internal error: {type(error).__name__}: {error}"}
    if isinstance(found, Refused):
        return {**head, "error": found.why}
    return {**head, "us": found.us, "machine": found.timed.machine, **figures,
            "seconds": round(found.seconds, 3)}  # fmt: skip


def _read(path: str, options: Options) -> Program:
    shapes, dims = parse_shapes(options.shape), parse_dims(options.dim)
    return load(path, shapes, dims, options.plugins, asked(options.mesh, options.shard))


def _figures(program: Program) -> dict[str, Any]:
    """Return the bytes that a device holds, the worst decibels that are left of an output (None:
    not measured) and, of many devices, what they send and keep."""
    module, compilation = program.module, program.compilation
    main = main_function(module)
    taken = {} if main is None else taken_bytes(module, main)
    told = compilation.quantization, compilation.precision
    left = [db for t in told for db in cast("Mapping[str, float]", t.get("left_db", {})).values()]
    devices: dict[str, Any] = device_figures(module).get("devices", {})
    return {
        "bytes": sum(n for name, n in taken.items() if name != OUTSIDE),
        "db": min(left, default=None),
        **{k: devices[k] for k in ("count", "sent_bytes", "parameter_bytes") if k in devices},
    }


# ---- all of them -----------------------------------------------------------------------------


def run(wanted: Sequence[Configuration], file: str, jobs: int, cluster: str = "") -> list[Row]:
    """Compute the rows that a file does not have, add them as they come, and tell of each; on the
    dask cluster whose scheduler has an address, if one is given. Return all that are wanted, in
    their order. Raises GeError."""
    known = rows_in(file) if file else {}
    rest = [c for c in wanted if c.key not in known]
    new = _on_cluster(rest, file, cluster) if cluster and rest else _rows(rest, file, jobs)
    known |= {row["key"]: row for row in new}
    return [known[c.key] for c in wanted]


def rows_in(file: str) -> dict[str, Row]:
    """Return the rows of a file by their keys. One that a killed process left unfinished is not
    counted, and cut off."""
    path = Path(file)
    if not path.exists():
        return {}
    text = path.read_text("utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole, "utf-8")
    found: dict[str, Row] = {}
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            row = json.loads(line)
            found[row["key"]] = row
        except (ValueError, KeyError, TypeError):
            hint = "give another file, or delete this one"
            raise GeError(f"line {number} is no row of a sweep", file, hint) from None
    return found


def written(configuration: Configuration, file: str, asker: int) -> Row:
    """Compute a row, and add it to the file: lines of several processes do not mix. Nothing more is
    done for a process that has ended."""
    own = os.getpid() == asker
    if not own and os.getppid() != asker:
        raise SystemExit
    row = row_of(configuration)
    if not own and os.getppid() != asker:
        raise SystemExit
    return added(row, configuration, file)


def added(row: Row, configuration: Configuration, file: str) -> Row:
    """Add a row to the file, and tell of it."""
    if file:
        try:
            with open(file, "a", encoding="utf-8") as out:
                out.write(json.dumps(row) + "\n")
        except OSError as e:
            raise GeError(f"rows cannot be written: {e.strerror}", file) from None
    words = ", ".join(f"{k} {v}" for k, v in configuration.words.items() if v) or "as it is"
    told = row.get("error") or f"{row['us'] / 1e3:,.3f} ms"
    sys.stderr.write(f"{words}: {told}\n")  # at once: other processes write there, too
    return row


def _on_cluster(wanted: Sequence[Configuration], file: str, address: str) -> list[Row]:
    """Compute rows on the workers of a dask cluster, which have the same files; they are added
    here, as they come."""
    try:
        joblib: Any = import_module("joblib")
        client: Any = import_module("dask.distributed").Client
    except ImportError:
        hint = "pip install 'ge-npu[cluster]', or leave --cluster out"
        raise GeError("a cluster needs dask, which is not installed", hint=hint) from None
    by_key = {c.key: c for c in wanted}
    with client(address), joblib.parallel_config(backend="dask"):
        parallel = joblib.Parallel(return_as="generator_unordered")
        rows: Iterable[Row] = parallel(joblib.delayed(row_of)(c) for c in wanted)
        return [added(row, by_key[row["key"]], file) for row in rows]


def _rows(wanted: Sequence[Configuration], file: str, jobs: int) -> list[Row]:
    """Compute rows, in processes that are copies of this one, where the system has that."""
    own, groups = os.getpid(), neighbors(wanted, jobs)
    if jobs < 2 or len(groups) < 2:
        return _group(wanted, file, own)
    try:
        import joblib
    except ImportError:
        hint = "pip install 'ge-npu[sweep]', or give --jobs 1"
        raise GeError("several jobs need joblib, which is not installed", hint=hint) from None
    parallel = joblib.Parallel(min(jobs, len(groups)), backend="multiprocessing")
    delayed = cast("Callable[[Any], Callable[..., Any]]", joblib.delayed)  # pyright: ignore[reportUnknownMemberType]
    found = cast("list[list[Row]]", parallel(delayed(_group)(g, file, own) for g in groups))
    return [row for rows in found for row in rows]


def _group(configurations: Sequence[Configuration], file: str, asker: int) -> list[Row]:
    return [written(c, file, asker) for c in configurations]


def neighbors(wanted: Sequence[Configuration], jobs: int) -> list[list[Configuration]]:
    """Return what a process computes together: configurations that differ in their last option
    alone have much in common. The last ones come apart, for processes that wait at the end."""

    def others(configuration: Configuration) -> list[str]:
        return list(configuration.words.values())[:-1]

    groups = [list(same) for _, same in groupby(wanted, others)]
    whole = len(groups) - jobs + 1 if len(groups) >= 2 * jobs else 0
    return [*groups[:whole], *([c] for group in groups[whole:] for c in group)]


def best_rows(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that no other one is better than in time, memory and accuracy (Pareto's
    front). Where nothing is measured, numbers are those of the model."""

    def costs(row: Row) -> tuple[float, float, float]:
        db = row["db"]
        return row["us"], row["bytes"], -(math.inf if db is None else db)

    found = [r for r in rows if "us" in r]
    return [
        r
        for r in found
        if not any(
            all(a <= b for a, b in zip(costs(o), costs(r), strict=True)) and costs(o) != costs(r)
            for o in found
        )
    ]
