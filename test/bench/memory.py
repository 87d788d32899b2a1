"""What the memory passes save, model by model: the arena without reuse, with reuse, with in-place
execution as well (all three without fusion), and with everything on. No payload is needed.

    python test/bench/memory.py FOLDER [--only TEXT] [--fusion off] [--level N] [--target 910b1]

Each peak comes with the lower bound of its order; ratios are those of in-place execution against
reuse alone, and of everything against reuse alone. `--fusion` is the mode of the first three
columns, `--level` the memory level of the last one; plans are proved by `check_plan`.
"""

import argparse
import re
import sys
from pathlib import Path

from ge.dialects.support.errors import GeError
from ge.lowering.driver.compiler import load, lower
from ge.lowering.pipeline.options import Options
from ge.runtime.check.memory import check_plan

IN_PLACE = ("overwrite-operands",)
"""The passes that put results in the place of operands."""

MIB = 1 << 20


def plan(path: Path, options: Options) -> dict[str, int]:
    """The figures of the plan, in bytes. Raises GeError for a plan that cannot be proved."""
    loaded = load(str(path))
    memory = lower(loaded.module, options).memory
    if problems := check_plan(loaded.module):
        raise GeError(f"the plan is not safe: {problems[0]}")
    return memory


def show(path: Path, fusion: str, level: int, target: str) -> bool:
    """Print a line for one model; False when a plan fails."""
    variants = (
        Options(target=target, fusion=fusion, memory=1, fusion_disable=IN_PLACE),
        Options(target=target, fusion=fusion, memory=1),
        Options(target=target, memory=level),
    )
    try:
        found = [plan(path, options) for options in variants]
    except GeError as e:
        print(f"{path.stem:34} {e}")
        return False
    figures = f"{found[0]['no_reuse_bytes'] / MIB:9.2f}"
    for memory in found:
        peak, bound = memory["peak_bytes"], memory["lower_bound_bytes"]
        figures += f" {peak / MIB:9.2f} ({peak / max(bound, 1):5.3f})"
    alone, in_place, everything = (max(memory["peak_bytes"], 1) for memory in found)
    ratios = f"in-place {in_place / alone:5.3f} all {everything / alone:5.3f}"
    print(f"{path.stem:34} {figures}   {ratios}", flush=True)
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default=r"\.structure\.onnx$", help="pattern of file names")
    parser.add_argument("--fusion", default="off")
    parser.add_argument("--level", type=int, default=Options.memory)
    parser.add_argument("--target", default=Options.target)
    args = parser.parse_args()
    print("MiB (of the lower bound):          no reuse     reuse          in place     everything")
    good = True
    for path in sorted(args.folder.glob("*.onnx")):
        if re.search(args.only, path.name):
            good &= show(path, args.fusion, args.level, args.target)
    sys.exit(not good)


if __name__ == "__main__":
    main()
