"""RMS norms in the way of the published kernel, simulated, against its times:

    python test/bench/norm_by_rows.py ROWS.csv [--target 910b2]

The kernel that was measured (CANN's ops-nn, norm/rms_norm) has one buffer for what comes in and one
for what goes out, so that loads and stores wait for the vector unit, and takes one row at a time
where rows are long: of more than 2,000 columns, an assumption that fits its times. The compiler's
own program has two buffers and several rows. What is left between the time of this program and the
published one is the model's; what is between this program and the compiler's is the programs'.
"""

import argparse
import csv
import json
import math
from math import ceil, prod
from pathlib import Path
from typing import Any

from ge.lowering.building import tile_kernels as tile
from ge.lowering.building.tile_kernels import cast, ceil_div, rowsum, sqrt

MERGED = 2000  # columns up to which several rows are taken at a time
ROOM = 190_000  # bytes of UB


@tile.kernel(M=1)
def by_rows(c: Any, x: Any, weight: Any, out: Any, M: int) -> None:
    """out = x / sqrt(mean(x * x)) * weight, in steps that use each buffer once"""
    narrow, unit = x.dtype != "f32", 16 if x.dtype != "f32" else 8
    N = ceil(x.shape[1] / unit) * unit
    w, t, y = c.ub(1, N), c.ub(M, N), c.ub(M, N)
    f, g, s = c.ub(M, N, "f32"), c.ub(M, N, "f32"), c.ub(M, 1, "f32")
    c.load(w, weight[0:], pad=1)
    for i in c.share(ceil_div(x.shape[0], M)):
        c.load(t, x[i * M :], pad=0)
        f[:] = cast(t, "f32")
        g[:] = f * f
        s[:] = rowsum(g)
        s[:] = 1 / sqrt(s / x.shape[1] + 1e-6)
        f[:] = f * s
        if narrow:
            g[:] = cast(w, "f32")
            f[:] = f * g
            y[:] = cast(f, x.dtype)
        else:
            y[:] = f * w
        c.store(out[i * M :], y)


def microseconds(shape: tuple[int, int], element: str, target: str) -> float:
    width = 4 if element == "f32" else 2
    bytes_of_row = (2 * width + 8) * shape[1]  # what comes and goes, and two in f32
    rows = 1 if shape[1] > MERGED else ROOM // (bytes_of_row + 64) - 1
    x, weight = tile.Tensor(shape, element), tile.Tensor((1, shape[1]), element)
    return by_rows.on(x, weight, x, target=target, M=max(rows, 1)).time().total_us


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--target", default="910b2")
    args = parser.parse_args()
    logs: list[float] = []
    for row in csv.DictReader(args.rows.open()):
        if row["family"] != "rms_norm":
            continue
        case, published = json.loads(row["case"]), float(row["us"])
        shape = prod(case["shape"][:-1]), case["shape"][-1]
        ours = microseconds(shape, case["dtype"], args.target)
        logs.append(math.log(ours / published))
        print(f"{row['case']:50} published {published:7.2f} {ours:7.2f} ({ours / published:.2f})")
    print(f"{len(logs)} rows, geometric mean {math.exp(sum(logs) / len(logs)):.2f}")


if __name__ == "__main__":
    main()
