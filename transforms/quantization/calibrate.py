"""Write how large the activations of layers get, from the calibration table or from samples.

    %0 = graph.relu %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %1 = graph.matmul %0, %w ...
becomes
    %0 = graph.relu %x {graph.range = [0.0 : f64, 4.25 : f64]} : ...
    %1 = graph.matmul %0, %w ...

The range of an argument of @main is an attribute of the argument. What the table has is taken from
there; the rest is observed if samples are at hand, and added to the table. A value that is not
finite for some sample has no range. Where a time limit comes, ranges are those of the first
samples, one chunk at least, and later ones are added when the table is gone on from. A table
without the ranges of most layers draws a warning.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FloatAttr, f64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, BlockArgument, Operation, OpResult, SSAValue

from ge.dialects.graph.stated import RANGE
from ge.dialects.support import diagnostics
from ge.dialects.support.effort import TimeIsUp, effort_at_hand, unlimited
from ge.runtime.data.arrays import Array
from ge.transforms.quantization.calibrated_pass import CalibratedPass
from ge.transforms.quantization.data import Calibration, Chunk
from ge.transforms.quantization.layers import activations, layers
from ge.transforms.quantization.observe import Collecting, ObservedOp, Observer, both
from ge.transforms.quantization.schemes import INT8, SCHEMES
from ge.transforms.quantization.table import Range, Table

TOLD = 3  # names of layers in a warning


# ---- the attribute ---------------------------------------------------------------------------


def range_of(value: SSAValue) -> Range | None:
    """The range that a value is marked with."""
    attr = _attributes(value).get(_key(value))
    match attr:
        case ArrayAttr(data=(FloatAttr() as low, FloatAttr() as high)):  # pyright: ignore[reportUnknownVariableType]
            return low.value.data, high.value.data
        case _:
            return None


def set_range(value: SSAValue, bounds: Range | None) -> None:
    """Mark a value with a range; None removes it."""
    attrs = dict(_attributes(value))
    attrs.pop(_key(value), None)
    if bounds is not None:
        attrs[_key(value)] = ArrayAttr([FloatAttr(b, f64) for b in bounds])
    if isinstance(value, BlockArgument):
        main = value.block.parent_op()
        assert isinstance(main, FuncOp)
        tables = _argument_tables(main)
        tables[value.index] = DictionaryAttr(attrs)
        main.arg_attrs = ArrayAttr(tables)
    elif isinstance(value, OpResult):
        value.op.attributes = attrs


def _key(value: SSAValue) -> str:
    if isinstance(value, OpResult) and len(value.op.results) > 1:
        return f"{RANGE}.{value.index}"
    return RANGE


def _attributes(value: SSAValue) -> Mapping[str, Attribute]:
    if isinstance(value, OpResult):
        return value.op.attributes
    assert isinstance(value, BlockArgument)
    main = value.block.parent_op()
    return _argument_tables(main)[value.index].data if isinstance(main, FuncOp) else {}


def _argument_tables(main: FuncOp) -> list[DictionaryAttr]:
    attrs = main.arg_attrs
    return [DictionaryAttr({}) for _ in main.args] if attrs is None else list(attrs.data)


# ---- observing -------------------------------------------------------------------------------


@dataclass
class Extremes:
    """The least and the greatest element of a value, over all samples."""

    low: float = np.inf
    high: float = -np.inf
    sample: int | None = None  # the first that has an element that is not finite

    def add(self, array: Array, chunk: Chunk, places: NDArray[np.int64]) -> None:
        """Add the elements that a chunk has; `places`: of its samples among all."""
        low, high = float(array.min(initial=np.inf)), float(array.max(initial=-np.inf))
        if array.size and not np.isfinite([low, high]).all():
            rows = chunk.rows(array)
            those = places[chunk.first :][: 1 if rows is None else len(rows)]
            if rows is not None:
                those = those[~np.isfinite(rows).reshape(len(rows), -1).all(1)]
            known = [] if self.sample is None else [self.sample]
            self.sample = min([*known, *those.tolist()], default=None)
        self.low, self.high = min(self.low, low), max(self.high, high)


def observed_ranges(
    main: FuncOp, calibration: Calibration, values: Collection[SSAValue]
) -> dict[SSAValue, Extremes]:
    """The extremes of activations of layers, in samples of which the table has none yet. Where all
    samples are seen, what the passes that follow ask of layers is collected on the way."""
    assert calibration.samples is not None
    samples, table, known = calibration.samples.canonical, calibration.table, effort_at_hand()
    extremes = {value: Extremes() for value in values}
    first: dict[SSAValue, Operation] = {}
    for layer in layers(main):
        for value in layer.multiplied:
            first.setdefault(value, layer.op)
    seen_by: dict[Operation, list[tuple[int, SSAValue]]] = {}
    for value in values:
        op = first[value]
        seen_by.setdefault(op, []).append(([*op.operands, *op.results].index(value), value))

    def watch(step: ObservedOp) -> None:
        for i, value in seen_by[step.op]:
            extremes[value].add([*step.operands, *step.results][i], step.chunk, places[done:])

    places = np.arange(samples.count) if samples.order is None else samples.order
    observer, done = Observer(main), table.samples if table.samples < samples.count else 0
    collecting = None if done else Collecting(observer, samples.count)
    watchers = both(dict.fromkeys(seen_by, watch), collecting.watchers if collecting else {})
    with unlimited():
        observer.run(samples.part(done, samples.chunk), watchers)
    table.samples = 0
    for done in range(done + samples.chunk, samples.count, samples.chunk):
        known.tell("ranges", done, samples.count)
        try:
            observer.run(samples.part(done, samples.chunk), watchers)
        except TimeIsUp:
            known.undone.append(f"ranges of samples after the first {done}")
            table.samples = done
            return extremes
    if collecting is not None:
        collecting.keep(calibration)
    return extremes


def calibrate(main: FuncOp, calibration: Calibration) -> None:
    """Write ranges on the activations of all layers."""
    table, names = calibration.table, activations(layers(main))
    goes_on = table.samples if calibration.samples else 0
    known = set[SSAValue]() if goes_on else set(names)
    for value, name in names.items():
        if value in known and (bounds := table.range_of(name)) is not None:
            set_range(value, bounds)
    missing = [v for v, n in names.items() if v not in known or n not in table.ranges]
    if calibration.samples is None or not missing:
        return
    for value, extremes in observed_ranges(main, calibration, missing).items():
        name = names[value]
        if extremes.sample is not None:
            what = f"is not finite for sample {extremes.sample}: what it is used in stays float"
            op = value.owner if isinstance(value.owner, Operation) else main
            diagnostics.warning(op, f"calibrate: '{name}' {what}")
            set_range(value, None)
            table.ranges.pop(name, None)
        elif extremes.low <= extremes.high:
            before = table.ranges.get(name) if goes_on else None
            low, high = before or (extremes.low, extremes.high)
            bounds = min(low, extremes.low), max(high, extremes.high)
            set_range(value, table.set_range(name, *bounds))


def tell_missing(main: FuncOp, table: Table) -> None:
    """Warn of a table that lacks the ranges of most layers that need them: it is an old one, or one
    of another model. Those of a few may be missing by design."""
    found = layers(main)
    names = activations(found)
    needed: dict[str, bool] = {}
    for layer in found:
        scheme = SCHEMES.get(table.layers.get(layer.name, INT8))
        if scheme is not None and scheme.is_calibrated:
            ranges = (table.range_of(names[value]) for value in layer.multiplied)
            needed[layer.name] = all(r is not None for r in ranges)
    missing = [name for name, is_known in needed.items() if not is_known]
    if 2 * len(missing) > len(needed):
        first = diagnostics.names_text(missing, TOLD)
        what = f"no ranges for {len(missing)} of {len(needed)} layers, which stay float"
        hint = "make it anew by ge-calibrate, with this model and the options of ge-compile"
        diagnostics.warning(main, f"{table.path} has {what}: {first}; {hint}")


class CalibratePass(CalibratedPass):
    """Write `graph.range` on the activations of layers.
    `data`: a file with samples (.npz) or a table (.toml), else what is at hand."""

    name = "calibrate"
    is_first: ClassVar[bool] = True

    def run(self, main: FuncOp, calibration: Calibration) -> None:
        calibrate(main, calibration)
        if calibration.table.path:
            tell_missing(main, calibration.table)
