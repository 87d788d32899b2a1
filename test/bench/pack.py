"""Packs a problem of MiniMalloc's benchmark and writes it with a column of offsets.

python test/bench/pack.py IN.csv OUT.csv --capacity BYTES [--time-limit SECONDS]

The columns are id, lower, upper (exclusive), size. Exit code 1 and no output when there is no
packing within the capacity, or none was found in time.
"""

import argparse
import csv
import sys
import time
from collections.abc import Sequence

from ge.transforms.memory.search import Outcome, search

COLUMNS = ("id", "lower", "upper", "size")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("pack.py", description=__doc__)
    parser.add_argument("input", metavar="IN.csv")
    parser.add_argument("output", metavar="OUT.csv")
    parser.add_argument("--capacity", type=int, required=True, metavar="BYTES")
    parser.add_argument("--time-limit", type=float, default=60.0, metavar="SECONDS")
    args = parser.parse_args(argv)
    with open(args.input, newline="", encoding="utf-8") as f:
        rows = list(csv.DictReader(f))
    sizes, starts = ([int(row[name]) for row in rows] for name in ("size", "lower"))
    ends = [int(row["upper"]) - 1 for row in rows]
    start = time.perf_counter()
    result = search(sizes, starts, ends, args.capacity, seconds=args.time_limit)
    seconds = time.perf_counter() - start
    print(f"{result.outcome.value} after {result.steps} steps, {seconds:.1f} s", file=sys.stderr)
    if result.outcome is not Outcome.PACKED:
        return 1
    with open(args.output, "w", newline="", encoding="utf-8") as f:
        writer = csv.writer(f, lineterminator="\n")
        writer.writerow([*COLUMNS, "offset"])
        for row, offset in zip(rows, result.offsets, strict=True):
            writer.writerow([*(row[name] for name in COLUMNS), offset])
    return 0


if __name__ == "__main__":
    sys.exit(main())
