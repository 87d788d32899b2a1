"""Estimates against simulations: what fusion, splitting and scheduling take a launch to last, and
what the simulation of its tile program says, each alone with its operands in HBM.

    python test/bench/estimates.py MODEL ... [--target 910b2,310p3] [--worst 10] [--each FILE.csv]

Of each op that a launch is about, and of all: launches, the median and the worst of how far the
two are apart (1.10: one is 10 % more than the other), the share of launches beyond 1.25. Launches
of one kernel count as often as they run; a kernel without a program has no simulation, and is
counted apart. Exits 1 where the median is beyond 1.10 or a launch beyond 1.25.
"""

import argparse
import csv
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from ge.dialects.npu_task.ops import KernelOp, LaunchOp
from ge.dialects.support.operation import walk
from ge.dialects.support.types import is_dynamic
from ge.dialects.targets.target import Target
from ge.lowering.driver.compiler import compile_file
from ge.lowering.driver.tiles import alone_us, programs_of
from ge.lowering.pipeline.options import Options
from ge.runtime.cores.kernel import TileKernel

MEDIAN, WORST = 1.10, 1.25


@dataclass(frozen=True)
class Launch:
    model: str
    target: str
    kernel: str
    family: str
    estimate_us: float
    simulated_us: float

    @property
    def apart(self) -> float:
        ratio = self.estimate_us / self.simulated_us
        return max(ratio, 1 / ratio) if ratio else float("inf")

    def __str__(self) -> str:
        times = f"{self.estimate_us:.1f} us by estimate, {self.simulated_us:.1f} simulated"
        return f"{self.apart:5.2f}x  {self.model} {self.target} @{self.kernel}: {times}"


def launches(path: Path, target: Target) -> Iterator[Launch | None]:
    """One for each launch of a model; None for one without a program."""
    module = compile_file(str(path), Options(target=target.name, tiles=True)).module
    counts: dict[str, int] = defaultdict(int)
    for op in walk(module):
        if isinstance(op, LaunchOp):
            counts[op.callee] += 1
    programs = programs_of(module)
    for kernel in module.ops:
        if not isinstance(kernel, KernelOp) or not counts[kernel.sym_name.data]:
            continue
        found = None
        program = programs.get(kernel)
        if program is not None and not any(map(is_dynamic, kernel.input_types)):
            simulated = TileKernel(program, target).time().total_us
            name = kernel.sym_name.data
            family = name.rstrip("0123456789").rstrip("_")
            estimate = alone_us(kernel, program, target)
            found = Launch(path.stem, target.name, name, family, estimate, simulated)
        yield from [found] * counts[kernel.sym_name.data]


def row(name: str, found: Sequence[Launch]) -> str:
    apart = [launch.apart for launch in found]
    beyond = sum(a > WORST for a in apart) / len(apart)
    return f"{name:20}{len(found):7}{median(apart):8.2f}{max(apart):8.2f}{beyond:9.0%}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else "")
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL")
    parser.add_argument("--target", default="910b2,310p3")
    parser.add_argument("--worst", type=int, default=10, metavar="N")
    parser.add_argument("--each", type=Path, metavar="FILE.csv")
    args = parser.parse_args()
    found, without = list[Launch](), 0
    for name in args.target.split(","):
        for path in args.models:
            both = list(launches(path, Target.load(name)))
            without += both.count(None)
            found += (launch for launch in both if launch is not None)
    by_family: dict[str, list[Launch]] = defaultdict(list)
    for launch in found:
        by_family[launch.family].append(launch)
    print(f"{'':20}{'launches':>7}{'median':>8}{'worst':>8}{'> 1.25':>9}")
    for family, mine in sorted(by_family.items(), key=lambda pair: -len(pair[1])):
        print(row(family, mine))
    print(row("all", found))
    print(f"{without} launches have no program, or sizes that are not known")
    different = {(x.target, x.family, x.estimate_us, x.simulated_us): x for x in found}
    for launch in sorted(different.values(), key=lambda x: -x.apart)[: args.worst]:
        print(launch)
    if args.each is not None:
        with args.each.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(Launch.__dataclass_fields__)
            writer.writerows(vars(launch).values() for launch in found)
    apart = [launch.apart for launch in found]
    return int(median(apart) > MEDIAN or max(apart) > WORST)


if __name__ == "__main__":
    sys.exit(main())
