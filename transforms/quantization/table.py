"""The calibration table: decisions from data, by the names of the model, as a text that people can
read and edit; and the facts of each layer, for reports and as a table for people.

    model = "c0ffee..."                  # hash of the model that it is for

    [ranges]                             # smallest and largest value of an activation
    "/pool/MaxPool" = [0.0, 4.25]

    [layers]                             # what a layer is computed in, where not in the scheme
    "/fc/Gemm" = "float"

    [vectors.correct-bias]               # by pass and layer: what it adds or multiplies by
    "/fc/Gemm" = [0.125, -0.5]

    [fitted]                             # codes of weights less the nearest ones, compressed
    "/fc/Gemm" = 'i8 eJxjYGRiBgAADgAH'

    [unfinished]                         # where a time limit came, what is decided all the same
    passes = ["calibrate"]
    samples = 64                         # from which ranges are
    layers = ["/fc/Gemm"]                # that may do with less bits
"""

import base64
import binascii
import math
import re
import tomllib
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast

from ge.dialects.support.errors import GeError
from ge.transforms.quantization.schemes import FLOAT, SCHEMES

Range = tuple[float, float]

# What numbers the results of one op, and values of one name
SUFFIX = re.compile(r"(:\d+)?(#\d+)?$")


# By layer, the noise of outputs where it alone is quantized, in its scheme and in wider ones: what
# an unfinished search for an accuracy has measured
NOISES = "noises"


def packed_codes(element: str, differences: bytes) -> str:
    """The differences of codes of an element type, a byte each, as the table has them."""
    return f"{element} {base64.b64encode(zlib.compress(differences)).decode()}"


def unpacked_codes(text: str) -> tuple[str, bytes]:
    """Element type and differences of codes. Raises ValueError for a text that is none."""
    element, _, packed = text.partition(" ")
    try:
        return element, zlib.decompress(base64.b64decode(packed, validate=True))
    except (binascii.Error, zlib.error):
        raise ValueError("codes that are fitted are as ge-calibrate wrote them") from None


def shortened(number: float) -> float:
    """A number as the table has it: nine digits, so that a float32 keeps its value."""
    return float(f"{number:.9g}")


@dataclass
class Table:
    """Decisions: `vectors` by pass and layer; `layers` has the scheme of those that have their own,
    or "float"; `fitted` what fit-weights made of a layer's weight. `nominal`: the range of all
    activations where nothing can be observed. `path`: the file that it was read from."""

    model: str = ""
    ranges: dict[str, Range] = field(default_factory=dict[str, Range])
    layers: dict[str, str] = field(default_factory=dict[str, str])
    vectors: dict[str, dict[str, list[float]]] = field(
        default_factory=dict[str, dict[str, list[float]]]
    )
    fitted: dict[str, str] = field(default_factory=dict[str, str])
    nominal: Range | None = None
    passes: list[str] = field(default_factory=list[str], compare=False)  # that decided all
    samples: int = field(
        default=0, compare=False
    )  # whose ranges are known, where those of others are not
    open: list[str] = field(default_factory=list[str], compare=False)  # layers with too many bits
    is_unfinished: bool = field(default=False, compare=False)
    path: str = field(default="", compare=False)

    def range_of(self, name: str) -> Range | None:
        return self.ranges.get(name, self.nominal)

    def set_range(self, name: str, low: float, high: float) -> Range:
        self.ranges[name] = shortened(low), shortened(high)
        return self.ranges[name]

    def vector(self, decision: str, name: str) -> list[float] | None:
        """Return what a pass decided for a layer; None if it decided to do nothing."""
        return self.vectors.get(decision, {}).get(name)

    def set_vector(self, decision: str, name: str, values: Iterable[float]) -> list[float]:
        vector = [shortened(float(v)) for v in values]
        self.vectors.setdefault(decision, {})[name] = vector
        return vector

    def has_all(self, decision: str) -> bool:
        """Return whether a pass has decided all."""
        is_whole = bool(self.path) and not self.is_unfinished
        return is_whole or decision in self.passes

    def to_go_on_from(self, last: str) -> "Table":
        """The table without what an unfinished one has for the time being: layers with too many
        bits, and what the `last` pass decided."""
        if not self.is_unfinished:
            return self
        if not self.passes and not self.samples:
            return Table(self.model)
        for name in self.open:
            self.layers.pop(name, None)
        self.vectors.pop(last, None)
        return self

    def finish(self) -> None:
        """Forget how far passes came."""
        self.passes, self.samples, self.open, self.is_unfinished = [], 0, [], False
        self.vectors.pop(NOISES, None)

    def names(self) -> list[str]:
        tables: list[Mapping[str, Any]] = [self.ranges, self.layers, self.fitted]
        tables += self.vectors.values()
        return list(dict.fromkeys(name for table in tables for name in table))

    def check(self, model: str, names: Iterable[str], where: str) -> None:
        """Raises GeError for the table of another model, and for a name that this one does not
        have. Names of what has none in the model, `graph.add#2`, are not checked."""
        if self.model and model and self.model != model:
            hint = "calibrate this model, or remove 'model' from the table to use it all the same"
            raise GeError("the table is that of another model", where, hint)
        known = set(names)
        for name in self.names():
            base = SUFFIX.sub("", name)
            if not {name, base} & known and not base.startswith("graph."):
                near = get_close_matches(name, known, 1)
                hint = f"did you mean '{near[0]}'?" if near else ""
                raise GeError(f"the model has nothing named '{name}'", where, hint)

    def text(self) -> str:
        lines = [f"model = {_quoted(self.model)}"] if self.model else []
        ranges = {name: _numbers(r) for name, r in self.ranges.items()}
        layers = {name: _quoted(text) for name, text in self.layers.items()}
        sections = {"ranges": ranges, "layers": layers}
        for decision, table in self.vectors.items():
            sections[f"vectors.{decision}"] = {name: _numbers(v) for name, v in table.items()}
        sections["fitted"] = {name: f"'{text}'" for name, text in self.fitted.items()}
        for title, table in sections.items():
            if table:
                lines += ["", f"[{title}]", *(f"{_quoted(k)} = {v}" for k, v in table.items())]
        if self.is_unfinished:
            lines += ["", "[unfinished]", f"samples = {self.samples}"]
            for key, names in (("passes", self.passes), ("layers", self.open)):
                lines.append(f"{key} = [{', '.join(map(_quoted, names))}]")
        return "\n".join([*lines, ""]).lstrip("\n")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped) + '"'


def _numbers(numbers: Iterable[float]) -> str:
    return "[" + ", ".join(repr(n) for n in numbers) + "]"


# ---- reading ---------------------------------------------------------------------------------


def read_table(path: str | Path) -> Table:
    """Read a calibration table. Raises GeError for a file that is no such table."""
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as e:
        reason = e.strerror if isinstance(e, OSError) else "it is no text"
        raise GeError(f"cannot read the table: {reason}", str(path)) from None
    try:
        return replace(parsed(text), path=str(path))
    except (tomllib.TOMLDecodeError, ValueError) as e:
        raise GeError(f"this is no calibration table: {e}", str(path)) from None


def parsed(text: str) -> Table:
    """Return the table of a text. Raises ValueError for a text that is no such table."""
    content = tomllib.loads(text)
    table = Table(model=_text(content.pop("model", ""), "model"))
    for name, value in _table(content.pop("ranges", {}), "ranges").items():
        low_high = _vector(value, name)
        if len(low_high) != 2 or low_high[0] > low_high[1]:
            raise ValueError(f"a range is [smallest, largest], not {value} for '{name}'")
        table.ranges[name] = low_high[0], low_high[1]
    for name, value in _table(content.pop("layers", {}), "layers").items():
        if value not in (FLOAT, *SCHEMES):
            known = ", ".join((FLOAT, *SCHEMES))
            raise ValueError(f"a layer is one of {known}, not '{value}' for '{name}'")
        table.layers[name] = cast(str, value)
    for decision, entries in _table(content.pop("vectors", {}), "vectors").items():
        vectors = _table(entries, f"vectors.{decision}").items()
        table.vectors[decision] = {name: _vector(v, name) for name, v in vectors}
    for name, value in _table(content.pop("fitted", {}), "fitted").items():
        unpacked_codes(_text(value, name))
        table.fitted[name] = value
    table.is_unfinished = "unfinished" in content
    left = _table(content.pop("unfinished", {}), "unfinished")
    table.passes = [_text(name, "passes") for name in left.get("passes", ())]
    table.open = [_text(name, "layers") for name in left.get("layers", ())]
    table.samples = int(left.get("samples", 0))
    for key in content:
        near = get_close_matches(
            key, ("model", "ranges", "layers", "vectors", "fitted", "unfinished"), 1
        )
        meant = f"; did you mean '{near[0]}'?" if near else ""
        raise ValueError(f"there is no section '{key}'{meant}")
    return table


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"'{name}' is a text, not {value}")
    return value


def _table(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"'{name}' is a section, not {value}")
    return cast(dict[str, Any], value)


def _vector(value: Any, name: str) -> list[float]:
    items = cast(list[Any], value) if isinstance(value, list) else [value]
    numbers = [float(v) for v in items if isinstance(v, int | float) and math.isfinite(v)]
    if not isinstance(value, list) or len(numbers) < len(items):
        raise ValueError(f"'{name}' has a list of numbers, not {value}")
    return numbers


@dataclass
class LayerFacts:
    """One layer, or another op that multiplies. `alone_db`: signal to noise of the model's outputs
    where this layer alone is quantized; `accumulated_db`: of its own result where all layers are
    that will be; `saturated`: share of its inputs' elements beyond `range`; `extra_us`: how much
    longer it takes in floats, by the model of time; `fitted_db`: how much less error its fitted
    weight makes. None: not measured."""

    name: str
    op: str
    scheme: str = FLOAT
    reason: str = ""
    range: Range | None = None
    alone_db: float | None = None
    accumulated_db: float | None = None
    saturated: float | None = None
    extra_us: float | None = None
    fitted_db: float | None = None

    def entry(self) -> dict[str, Any]:
        """Return what is known, for JSON: without noise there are no dB."""
        return {
            key: value
            for key, value in asdict(self).items()
            if value not in (None, "") and value not in (math.inf, -math.inf)
        }


COLUMNS = ("layer", "op", "in", "alone", "accumulated", "range", "saturated", "extra us", "why")


def listing(facts: Iterable[LayerFacts]) -> str:
    """A table, the layers that add most noise first."""
    ordered = sorted(facts, key=lambda f: math.inf if f.alone_db is None else f.alone_db)
    rows = [COLUMNS, *map(_row, ordered)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in rows)
    return "".join(line.rstrip() + "\n" for line in lines)


def _row(facts: LayerFacts) -> tuple[str, ...]:
    f = facts
    return (
        f.name, f.op.removeprefix("graph."), f.scheme,
        _number(f.alone_db, "{:.1f} dB"), _number(f.accumulated_db, "{:.1f} dB"),
        "" if f.range is None else f"[{f.range[0]:.4g}, {f.range[1]:.4g}]",
        _number(f.saturated and 100 * f.saturated, "{:.3g} %"), _number(f.extra_us, "{:.2f}"),
        f.reason,
    )  # fmt: skip


def _number(value: float | None, form: str) -> str:
    return "" if value is None else form.format(value)
