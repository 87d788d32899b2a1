"""How good schedules are, model by model: the makespan against the lower bound of any schedule of
the same tasks, against the program's own order, and against list scheduling without a memory limit.
No payload is needed.

    python test/bench/schedules.py FOLDER [--only TEXT] [--modes off,default] [--target 910b2]

For each model and mode of fusion: microseconds of the schedule, its lower bound and the gap, of the
program order, of list scheduling without a limit; utilization of both engines; streams, events; the
limit on bytes alive; the same of launches in pieces. The checker replays each schedule.
"""

import argparse
import re
import sys
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp

from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import functions
from ge.dialects.targets.target import Target
from ge.lowering.driver.compiler import load, lower
from ge.lowering.pipeline.options import Options
from ge.runtime.check.schedule import check_schedule
from ge.runtime.clock.clock import simulate
from ge.runtime.clock.timeline import Timeline
from ge.transforms.schedule.assign_streams import AssignStreamsPass

NO_LIMIT = 1 << 60


def figure(module: ModuleOp, name: str) -> int:
    attr = functions(module)["main"].attributes.get(f"npu_task.{name}")
    return attr.value.data if isinstance(attr, IntegerAttr) else 0


def schedule(
    buffers: ModuleOp, target: Target, assign: AssignStreamsPass
) -> tuple[ModuleOp, Timeline]:
    """A module on buffers with streams, and how it runs."""
    module = buffers.clone()
    assign.apply(Context(), module)
    return module, simulate(module, target)


def show(path: Path, mode: str, name: str) -> bool:
    """Print the line of one model and mode; False when something is wrong with its schedule."""
    target = Target.load(name)
    module = load(str(path)).module
    lower(module, Options.from_environment(fusion=mode, target=name), until="buffers")
    best, timeline = schedule(module, target, AssignStreamsPass())
    in_pieces = load(str(path)).module
    lower(in_pieces, Options.from_environment(fusion=mode, target=name, pieces=True))
    pieces = simulate(in_pieces, target)
    problems = check_schedule(in_pieces, target)
    _, in_order = schedule(module, target, AssignStreamsPass(in_order=True))
    _, unlimited = schedule(module, target, AssignStreamsPass(memory_limit=NO_LIMIT))
    problems += check_schedule(best, target)
    part = pieces.busy_us["cube"] / pieces.latency_us
    latency, bound = timeline.latency_us, timeline.lower_bound_us
    used = {e: timeline.busy_us[e] / latency for e in ("cube", "vector")}
    print(
        f"{path.stem:28} {mode:12} {len(timeline.tasks):5} tasks {latency:10.1f} us, bound "
        f"{bound:10.1f} ({latency / bound - 1:+6.1%}), program order {in_order.latency_us:10.1f}, "
        f"no limit {unlimited.latency_us:10.1f}, cube {used['cube']:4.0%} vector "
        f"{used['vector']:4.0%}, {figure(best, 'streams'):2} streams, {figure(best, 'events'):3} "
        f"events, {figure(best, 'cap_bytes') / 1e6:.1f} MB; in pieces {pieces.latency_us:10.1f} us "
        f"({len(pieces.tasks)} tasks, bound {pieces.lower_bound_us:10.1f}, "
        f"{latency / pieces.latency_us:.2f}x), cube {part:.0%}, "
        f"{figure(in_pieces, 'cap_bytes') / 1e6:.1f} MB",
        flush=True,
    )
    for problem in problems[:5]:
        print(f"    {problem}")
    return not problems


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default=r"\.structure\.onnx$", help="pattern of file names")
    parser.add_argument("--modes", default="off,default")
    parser.add_argument("--target", default="910b2")
    args = parser.parse_args()
    good = True
    for path in sorted(args.folder.glob("*.onnx")):
        for mode in args.modes.split(",") if re.search(args.only, path.name) else ():
            try:
                good &= show(path, mode, args.target)
            except GeError as e:
                print(f"{path.stem:28} {mode:12} {e}")
                good = False
    sys.exit(not good)


if __name__ == "__main__":
    main()
