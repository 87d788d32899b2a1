"""What is known of each layer of a quantized model: for reports, and as a table for people."""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from ge.transforms.quantization.schemes import FLOAT
from ge.transforms.quantization.table import Range


@dataclass
class LayerFacts:
    """One layer, or another op that multiplies. `alone_db`: signal to noise of the model's outputs
    where this layer alone is quantized; `accumulated_db`: of its own result where all layers are
    that will be; `saturated`: share of its inputs' elements beyond `range`; `extra_us`: how much
    longer it takes in floats, by the model of time. None: not measured."""

    name: str
    op: str
    scheme: str = FLOAT
    reason: str = ""
    range: Range | None = None
    alone_db: float | None = None
    accumulated_db: float | None = None
    saturated: float | None = None
    extra_us: float | None = None

    def entry(self) -> dict[str, Any]:
        """What is known, for JSON: without noise there are no dB."""
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
