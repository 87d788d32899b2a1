"""ge-sweep: many configurations of a model side by side. ge-scale: a model on more and more
devices."""

import argparse
from collections.abc import Sequence
from html import escape
from pathlib import Path

from ge.dialects.support.errors import GeError
from ge.dialects.support.streams import print_result
from ge.lowering.driver.sweep import Row, best_rows, configurations, option_name
from ge.lowering.driver.sweep import run as run_all
from ge.runtime.data.files import Outputs, check_writable
from ge.tools.cli.flags import options_from
from ge.tools.reference.markdown import table
from ge.tools.views.plots import Point, page, scatter, section
from ge.transforms.sharding.rules import read_mesh

MIB = 1 << 20

SHOWN = ("ms", "MiB a device", "dB", "devices")


def run(args: argparse.Namespace) -> int:
    return sweep(args) if "vary" in args else scale(args)


def sweep(args: argparse.Namespace) -> int:
    """Compute the rows of a sweep; the status is 1 where all have failed."""
    varied: dict[str, Sequence[str]] = {}
    for text, *values in args.vary:
        if (name := option_name(text)) in varied:
            hint = "all values of an option stand behind one --vary"
            raise GeError(f"'{text}' is varied twice", "--vary", hint)
        varied[name] = values or [""]
    head = [*varied, *SHOWN, ""]
    rows = computed(args, varied)
    best = best_rows(rows)
    cells = [
        [*(str(r[n]) or "-" for n in varied), *shown(r), "best" if r in best else ""] for r in rows
    ]
    summary = f"{len(best)} of {len(rows)} configurations are not worse than another in all"
    made = f"{sum('error' in r for r in rows)} failed"
    if args.plot:
        points = [
            (r["us"] / 1e3, r["bytes"] / MIB, "good" if r in best else "span",
             ", ".join(f"{n} {r[n]}" for n in varied if r[n]))
            for r in rows if "us" in r
        ]  # fmt: skip
        draw(args, f"{summary}; {made}.", (points, "ms", "MiB a device", False), head, cells)
    print_result(f"{table(head, cells)}\n\n{summary}; {made}")
    return int(bool(rows) and all("error" in r for r in rows))


def scale(args: argparse.Namespace) -> int:
    """Compute the rows of meshes; the status is 1 where all have failed."""
    meshes = meshes_of(args.mesh)
    shard = options_from(args).shard or "auto"
    head = ["mesh", *SHOWN, "MiB sent", "times as fast", "efficiency"]
    rows = computed(args, {"mesh": meshes, "shard": [shard]})
    base = next((r for r in rows if "us" in r), None)
    cells: list[list[str]] = []
    points: list[tuple[float, float, str, str]] = []
    for row in rows:
        line = [row["mesh"] or "one device", *shown(row)]
        if base is not None and "us" in row:
            count, first = row.get("count", 1), base.get("count", 1)
            faster = base["us"] / row["us"]
            share = faster * first / count
            line += [f"{row.get('sent_bytes', 0) / MIB:,.1f}", f"{faster:.2f}", f"{share:.0%}"]
            points.append((count, row["us"] / 1e3, "span", f"{line[0]}: {line[1]} ms, {share:.0%}"))
        else:
            line += ["", "", ""]
        cells.append(line)
    if args.plot:
        draw(args, f"By devices, {shard}.", (points, "devices", "ms", True), head, cells)
    print_result(table(head, cells))
    return int(all("error" in r for r in rows))


def computed(args: argparse.Namespace, varied: dict[str, Sequence[str]]) -> list[Row]:
    """Return the rows of all combinations; those of a file stay as they are."""
    options = options_from(args)
    check_writable([p for p in (args.output, args.plot) if p], [args.model])
    wanted = configurations(args.model, options, varied)
    return run_all(wanted, args.output, args.jobs, args.cluster)


def shown(row: Row) -> list[str]:
    if "error" in row:
        return [str(row["error"]), "", "", ""]
    db = "" if row["db"] is None else f"{row['db']:.1f}"
    return [f"{row['us'] / 1e3:,.3f}", f"{row['bytes'] / MIB:,.1f}", db, str(row.get("count", 1))]


def draw(
    args: argparse.Namespace,
    summary: str,
    plot: tuple[Sequence[Point], str, str, bool],
    head: Sequence[str],
    cells: Sequence[Sequence[str]],
) -> None:
    """Write the page with a plot and the table."""
    with Outputs([args.model]) as out:
        rows = [[escape(c) for c in row] for row in cells]
        parts = scatter(*plot), section("Configurations", "", head, rows)
        out.text(args.plot, page(Path(args.model).stem, summary, *parts))


def meshes_of(text: str) -> list[str]:
    """Return the meshes of `dp=2,tp=1..8`: each count of a range twice the one before. One device
    has none. Raises GeError."""
    ways: list[str] = [""]
    for part in text.split(","):
        name, _, number = part.partition("=")
        low, dots, high = number.partition("..")
        if not dots:
            sizes = [number]
        elif low.isdecimal() and high.isdecimal() and 0 < int(low) <= int(high):
            sizes = [str(int(low) << i) for i in range(64) if int(low) << i <= int(high)]
        else:
            raise GeError(f"meshes are as in dp=2,tp=1..8, not '{text}'", "--mesh")
        ways = [f"{way},{name}={size}".lstrip(",") for way in ways for size in sizes]
    try:
        return [way if read_mesh(way).count > 1 else "" for way in ways]
    except ValueError as e:
        raise GeError(f"a mesh is {e}: not '{text}'", "--mesh") from None
