"""Times of collectives and of links, as the target files have them, beside measured ones.

    python test/bench/collectives.py ROWS.csv [--within 1.25]

ROWS.csv has a line for each measurement, with the columns `kind` (collective, link), `op`, `chip`,
`cards`, `bytes` (a number, or `large`), `us`, `GB_s`, `source`, `confidence` and `note`. A row
without a time has that of its rate. For each row there is the ratio of the modelled time to the
measured one, for each group how many are within the bound; the others are named, with what the row
says of itself. No number of a target is made from rows of collectives."""

import argparse
import csv
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean

import numpy as np

from ge.dialects.support.mesh import Axis, Mesh
from ge.dialects.targets.target import Target
from ge.runtime.library.costs.collectives import (
    cheapest,
    cluster_of,
    longest_us,
    reduction_us,
    step_us,
)
from ge.runtime.library.costs.moved import by_level

LARGE = 1 << 30
TARGETS = {"910B": "910b2", "910B3": "910b3", "A2": "910b2", "A3": "910_93", "A3 (910C)": "910_93"}
REDUCTIONS = ("all_reduce", "all_gather", "reduce_scatter")


@dataclass
class Row:
    """A measurement, the modelled time, and by which algorithm or link."""

    group: str
    text: str
    measured_us: float
    us: float
    by: str
    says: str

    @property
    def ratio(self) -> float:
        return self.us / self.measured_us


def collective(target: Target, op: str, cards: int, size: int) -> tuple[float, str]:
    """Time of a collective over all cards, and its algorithm; tokens go to all cards evenly."""
    mesh = Mesh((("all", cards),))
    cluster = cluster_of(target, mesh)
    if op in REDUCTIONS:
        spread = cluster.spread(mesh, [Axis("all")])
        found = reduction_us(op, cluster, spread, float(size), target)
    else:
        peers = np.arange(1, cards)
        sizes = np.full(len(peers), size // cards)
        times = longest_us(cluster, by_level(cluster, np.array([0]), peers[None], sizes[None]))
        found = {name: cluster.start_us + us for name, us in times.items()}
    best = cheapest(found)
    return found[best], best


def link(target: Target, op: str, size: int) -> tuple[float, str] | None:
    """Time of a block over one link, and the level of the link; None where the target has no link
    of that kind."""
    assert target.cluster is not None
    kind = "RoCE" if re.search("RoCE|RDMA", op) else "HCCS"
    last = "two servers" in op or kind == "RoCE"
    levels = [level for level in target.cluster.levels if level.link == kind]
    if not levels:
        return None
    level = levels[-1 if last else 0]
    return step_us(level, 2, [(1, size)]), f"{level.link} of {level.name}"


def read(table: dict[str, str]) -> Row | None:
    """None for a row that is of nothing modelled, or of no time."""
    cards = re.match(r"\d+", table["cards"])
    target, op = TARGETS.get(table["chip"]), table["op"]
    if target is None or cards is None or "H2D" in op or table["kind"] == "fact":
        return None
    exact = table["bytes"].isdigit()
    size = int(table["bytes"]) if exact else LARGE
    rate = float(table["GB_s"] or 0)
    if exact and re.fullmatch(r"[\d.]+", table["us"]):
        measured = float(table["us"])
    elif rate:
        measured = size / rate / 1e3
    else:
        return None
    loaded = Target.load(target)
    if table["kind"] == "collective":
        found = collective(loaded, op, int(cards[0]), size)
    elif (found := link(loaded, op, size)) is None:
        return None
    group = f"{table['kind']}: {table['chip']} {op}, {table['source'].split(',')[0][:48]}"
    text = f"{table['cards']:>14} {size if exact else 'large':>11}"
    return Row(group, text, measured, *found, f"{table['confidence']}: {table['note']}")


def report(rows: Iterable[Row], within: float) -> None:
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.group].append(row)
    good = total = 0
    for name, own in groups.items():
        print(name)
        for row in own:
            is_good = 1 / within <= row.ratio <= within
            good, total = good + is_good, total + 1
            named = "" if is_good else f"  OUTSIDE ({row.says.strip(': ')})"
            figures = f"{row.measured_us:12,.2f} us, modelled {row.us:12,.2f}, {row.ratio:5.2f}"
            print(f"  {row.text} {figures}  {row.by}{named[:110]}")
        mean = geometric_mean([row.ratio for row in own])
        inside = sum(1 / within <= row.ratio <= within for row in own)
        print(f"  {inside} of {len(own)} within {within:g}x, mean ratio {mean:.2f}")
    print(f"{good} of {total} within {within:g}x")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("rows", type=Path, metavar="ROWS.csv")
    parser.add_argument("--within", type=float, default=1.25)
    args = parser.parse_args()
    with args.rows.open(newline="") as file:
        report(filter(None, map(read, csv.DictReader(file))), args.within)


if __name__ == "__main__":
    main()
