"""What each gear of a program costs, and which gears would waste least."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Region

from ge.dialects.npu_task.attributes import HBM, space_of
from ge.dialects.npu_task.control import CaseOp
from ge.dialects.npu_task.ops import LaunchOp, SlotOp
from ge.dialects.support.dims import symbols
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.support.types import byte_size, is_dynamic
from ge.dialects.targets.target import target_for
from ge.runtime.clock.clock import ProgramClock
from ge.runtime.device.gears import padding_of
from ge.transforms.shapes.gears import Gears, Size, best_gears, waste

# What padding takes for granted (see `transforms/shapes/padding.py`)
ASSUMED = (
    "finite inputs and weights, and no overflow; scores under 4e29 (2e4 in f16); a key that the "
    "mask leaves for each valid query"
)


@dataclass
class GearReport:
    """Of a compiled program, made when it is asked for: it takes a run of the clock."""

    gears: Gears
    histogram: Mapping[str, Any]
    seconds: float = 0.0  # that the bodies of all gears take to compile
    known: dict[str, Any] = field(default_factory=dict[str, Any])

    def of(self, module: ModuleOp) -> dict[str, Any]:
        if not self.known:
            self.known["gears"] = gear_costs(module, self.gears, self.seconds)
            if main := main_function(module):
                case = gear_case(main)
                if case is not None and len(case.branches) > len(self.gears.rows):
                    self.known["other_sizes"] = {"tensors": unplanned(case.branches[-1])}
                self.known["padding"] = {"dims": padding_of(main), "assumes": ASSUMED}
            if self.histogram:
                self.known["histogram"] = self.histogram
        return self.known


def gear_costs(module: ModuleOp, gears: Gears, seconds: float) -> list[dict[str, Any]]:
    """For each gear launches, kernels (and how many no other gear has), bytes of the arena, latency
    by the clock, and its part by launches of the seconds that bodies of gears take to compile."""
    main = main_function(module)
    case = None if main is None else gear_case(main)
    if main is None or case is None:
        return []
    clock = ProgramClock(module, target_for(main))
    clock.main(module)
    bodies = [launches(region) for region in case.branches[: len(gears.rows)]]
    total = max(sum(map(len, bodies)), 1)
    costs: list[dict[str, Any]] = []
    for i, (row, region) in enumerate(zip(gears.rows, case.branches, strict=False)):
        kernels = set(bodies[i])
        others = {name for j, body in enumerate(bodies) if j != i for name in body}
        costs.append({
            "sizes": dict(zip(gears.names, row, strict=True)),
            "seconds": seconds * len(bodies[i]) / total,
            "launches": len(bodies[i]),
            "kernels": len(kernels),
            "own_kernels": len(kernels - others),
            "arena_bytes": arena_of(region),
            "latency_us": clock.branches[i].latency_us,
            "machine": clock.branches[i].machine,
        })  # fmt: skip
    return costs


def gear_case(main: FuncOp) -> CaseOp | None:
    cases = (op for op in main.body.block.ops if isinstance(op, CaseOp))
    return next((op for op in cases if op.is_decided_by_host), None)


def unplanned(region: Region) -> int:
    """How many tensors of a branch the device allocates."""
    results = (r for op in region.walk() for r in op.results if space_of(r.type) == HBM)
    return sum(is_dynamic(r.type) for r in results)


def launches(region: Region) -> list[str]:
    return [op.callee for op in region.walk() if isinstance(op, LaunchOp)]


def arena_of(region: Region) -> int:
    slots = [op for op in region.walk() if isinstance(op, SlotOp) and op.segment.data == "arena"]
    return max((s.offset.value.data + byte_size(s.result.type) for s in slots), default=0)


# ---- how often sizes come --------------------------------------------------------------------


def read_histogram(path: str, names: Sequence[str]) -> dict[Size, int]:
    """The counts of a file with a column for each dimension, and one of counts. Raises GeError."""
    try:
        with open(path, newline="", encoding="utf-8") as file:
            rows = [[cell.strip() for cell in row] for row in csv.reader(file) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as e:
        raise GeError(f"the histogram of sizes cannot be read: {e}", path) from None
    header = rows[0] if rows else []
    expected = [*names, "count"]
    if sorted(header) != sorted(expected):
        found = ", ".join(header) or "none"
        raise GeError(f"the columns are {found}", path, f"expected {', '.join(expected)}")
    counts: dict[Size, int] = {}
    for line, row in enumerate(rows[1:], 2):
        values = dict(zip(header, row, strict=False))
        if len(row) != len(header) or not all(
            v.isascii() and v.isdecimal() and len(v) < 19 and int(v) for v in row
        ):
            raise GeError(f"line {line} has '{','.join(row)}'", path, "whole numbers of at least 1")
        size = tuple(int(values[n]) for n in names)
        counts[size] = counts.get(size, 0) + int(values["count"])
    if not counts:
        raise GeError("the histogram has no sizes", path)
    return counts


def judged(path: str, gears: Gears) -> dict[str, Any]:
    """What the gears waste of the elements they compute, and the gears, as many, that would waste
    least."""
    own = [i for i, n in enumerate(gears.names) if symbols(n) == (n,)]
    names = [gears.names[i] for i in own]
    counts = read_histogram(path, names)
    rows = list(dict.fromkeys(tuple(row[i] for i in own) for row in gears.rows))
    best, method = best_gears(counts, len(rows))
    return {
        "dims": names,
        "now": {"gears": rows, **share(rows, counts)},
        "best": {"gears": best, **share(best, counts), "method": method},
    }


def share(gears: Sequence[Size], counts: Mapping[Size, int]) -> dict[str, Any]:
    wasted, missed = waste(gears, counts)
    _, none = waste([], counts)
    used = sum(n * _volume(size) for size, n in counts.items() if waste(gears, {size: 1})[1] == 0)
    return {"wasted": wasted / max(used + wasted, 1), "not_taken": missed / max(none, 1)}


def _volume(size: Size) -> int:
    volume = 1
    for n in size:
        volume *= n
    return volume


def lines(report: Mapping[str, Any]) -> list[str]:
    """The report for people."""
    shown: list[str] = []
    for gear in report["gears"]:
        sizes = ", ".join(f"{n}={size}" for n, size in gear["sizes"].items())
        shown.append(
            f"gear {sizes}: {gear['latency_us']:.1f} us on {gear['machine']}, "
            f"{gear['launches']} launches, "
            f"{gear['own_kernels']} of {gear['kernels']} kernels its own, arena "
            f"{gear['arena_bytes']} bytes, {gear['seconds']:.2f} s of compiling by its launches"
        )
    if "other_sizes" in report:
        count = report["other_sizes"]["tensors"]
        shown.append(f"all other sizes: the device allocates {count} tensors as it runs")
    dims: Mapping[str, Any] = report["padding"]["dims"]
    shown += [f"'{n}' cannot be padded: {why}" for n, why in dims.items() if isinstance(why, str)]
    if padded := [n for n, axes in dims.items() if not isinstance(axes, str)]:
        names = ", ".join(f"'{n}'" for n in padded)
        shown.append(f"{names} may be padded to the next gear, given {ASSUMED}")
    for key, part in report.get("histogram", {}).items():
        if key in ("now", "best"):
            gears = ";".join(",".join(map(str, g)) for g in part["gears"])
            how = f" ({part['method']})" if "method" in part else ""
            shown.append(
                f"{'best' if key == 'best' else 'these'} gears {gears}{how}: "
                f"{part['wasted']:.1%} wasted, {part['not_taken']:.1%} of the runs not taken"
            )
    return shown
