"""What recomputation (memory level 3) saves on training graphs: the arena and the emulated time at
level 2 and at level 3, and their ratios. The arena holds activations and workspaces only: weights
and the model's inputs and outputs have memory of their own, and a gradient is reduced to its norm
as soon as it is known. No payload is needed; plans are proved by `check_plan`.

    python test/bench/recompute.py [--only transformer] [--fusion off,default] [--target 910b2]
"""

import argparse
import sys

from training_graphs import resnet, transformer

from ge.dialects.targets.target import Target
from ge.lowering.driver.compiler import lower
from ge.lowering.pipeline.options import Options
from ge.runtime.check.memory import check_plan
from ge.runtime.clock.clock import simulate

GRAPHS = {"transformer": transformer, "resnet": resnet}

MIB = 1 << 20


def figures(name: str, options: Options) -> tuple[int, float, int]:
    """Bytes of the arena, microseconds and launches of a training graph."""
    module = GRAPHS[name]()
    compiled = lower(module, options)
    if problems := check_plan(module):
        sys.exit(f"the plan is not safe: {problems[0]}")
    latency = simulate(module, Target.load(options.target)).latency_us
    return compiled.memory["peak_bytes"], latency, compiled.ops["launches"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--only", choices=GRAPHS, default=None)
    parser.add_argument("--fusion", default="off,default")
    parser.add_argument("--target", default=Options.target)
    args = parser.parse_args()
    for name in [args.only] if args.only else GRAPHS:
        for fusion in args.fusion.split(","):
            found: list[tuple[int, float, int]] = []
            for level in (2, 3):
                options = Options(target=args.target, fusion=fusion, memory=level)
                found.append(figures(name, options))
                peak, us, launches = found[-1]
                print(
                    f"{name:12} {fusion:8} level {level}: {peak / MIB:9.2f} MiB "
                    f"{us:10.1f} us {launches:5} launches",
                    flush=True,
                )
            (before, us, _), (after, more_us, _) = found
            print(f"{name:12} {fusion:8} memory / {before / after:.2f}, time x {more_us / us:.3f}")


if __name__ == "__main__":
    main()
