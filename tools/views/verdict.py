"""The verdict on a run, in a few sentences. Each gives figures of the simulated run; an estimated
figure is called so. What a user can change comes before what another machine would change."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from ge.runtime.profile.what_if import WhatIf
from ge.tools.views.data import LevelGraph, Noted
from ge.tools.views.memory import MemoryView
from ge.tools.views.times import TaskView, TimeView

SMALL_GAIN = 0.98  # of the time: less than this is told as no gain
SHOWN = 0.005  # of the time: what takes less is left out


def verdict(
    time: TimeView, program: LevelGraph, memory: MemoryView | None, changes: Mapping[str, WhatIf],
    near: Sequence[Noted], tried: Sequence[Mapping[str, Any]] = (),
) -> list[str]:  # fmt: skip
    """Return the sentences: the time, the tasks, what a user can change, the memory, the machine.
    `tried` are the options that `ge-run --explain` compiled and timed, as the report has them."""
    return [
        length(time), largest(time, program), options(time, near, tried), *memory_of(memory),
        machine(time, changes),
    ]  # fmt: skip


def length(time: TimeView) -> str:
    total = sum(time.made_of_us.values())
    if not total:
        return "The program has no tasks that take time."
    causes = [c for c, us in time.made_of_us.items() if us >= SHOWN * total][:3]
    shares = ", ".join(f"{NAMES[c]} {time.made_of_us[c] / total:.0%}" for c in causes)
    return (
        f"A run takes {duration(time.latency_us)} on {time.machine}, and no schedule of these "
        f"tasks takes less than {duration(time.lower_bound_us)}; along the critical path it is "
        f"made of {shares}."
    )


# The causes of `profile/limits.py` in a sentence
NAMES = {
    "products": "products",
    "vector": "vector work",
    "loads": "loads",
    "stores": "stores",
    "memory": "HBM traffic both ways",
    "link": "copies over the host link",
    "launch": "launches",
    "waiting": "waiting",
}


def largest(time: TimeView, program: LevelGraph) -> str:
    groups: dict[str, list[TaskView]] = defaultdict(list)
    for task in time.tasks:
        groups[kind_of(task, program)].append(task)
    sums = {k: sum(t.runs * t.duration_us for t in tasks) for k, tasks in groups.items()}
    if not (total := sum(sums.values())):
        return "None of the tasks takes any time."
    kind = max(sums, key=lambda k: sums[k])
    tasks = groups[kind]
    bounds: dict[str, float] = defaultdict(float)
    for t in tasks:
        bounds[t.bound] += t.runs * t.duration_us
    bound = max(bounds, key=lambda b: bounds[b])
    longest = max(time.tasks, key=lambda t: t.duration_us)
    count = sum(t.runs for t in tasks)
    return (
        f"{sums[kind] / total:.0%} of the tasks' time is in {count} {kind}, of which "
        f"{bounds[bound] / sums[kind]:.0%} is bound by {NAMES[bound]}; the longest single task is "
        f"{longest.name} ({kind_of(longest, program)}) with {duration(longest.duration_us)}, "
        f"{longest.duration_us / time.latency_us:.1%} of the run."
    )


def kind_of(task: TaskView, program: LevelGraph) -> str:
    """What a task computes, as the name of an op; copies by their direction."""
    if task.engine.startswith("dma"):
        return {"dma_in": "copies to the device", "dma_out": "copies to the host"}[task.engine]
    return program.nodes[task.node].attributes.get("computes", "copy") if task.node >= 0 else "copy"


def options(time: TimeView, near: Sequence[Noted], tried: Sequence[Mapping[str, Any]]) -> str:
    """Return what the user can change: options that were compiled and timed, near misses."""
    parts: list[str] = []
    own = [t for t in tried if "--target" not in t["flags"]]
    best = min(own, key=lambda t: t["us"], default=None)
    if best is None:
        parts.append("no options were tried (ge-run --explain --html compiles and times them)")
    elif best["us"] < SMALL_GAIN * time.latency_us:
        parts.append(
            f"of the options that were tried, {best['flags']} saves most: {duration(best['us'])} a "
            f"sample in place of {duration(time.latency_us)} (numbers: {best['numbers']})"
        )
    else:
        parts.append("no option that was tried saves 2% of the time")
    if lost := sum(n.loss_us or 0.0 for n in near):
        count = sum(n.loss_us is not None for n in near)
        misses = (
            "1 near miss of a rule costs" if count == 1 else f"{count} near misses of rules cost"
        )
        parts.append(f"{misses} about {duration(lost)} (view Fusion)")
    return sentence(parts)


def memory_of(memory: MemoryView | None) -> list[str]:
    """Return what the memory is taken by, where there is a plan."""
    if memory is None or not (peak := memory.figures.get("peak_bytes")):
        return []
    bound = memory.figures.get("lower_bound_bytes", 0)
    weights = memory.figures.get("weight_bytes", 0)
    return [
        f"The arena takes {size(peak)} (at least {size(bound)}) beside {size(weights)} of weights."
    ]


def machine(time: TimeView, changes: Mapping[str, WhatIf]) -> str:
    """Return which other machine would run the same program fastest."""
    best = min(changes.values(), key=lambda change: change.ratio, default=None)
    if best is None or best.ratio >= SMALL_GAIN:
        return "No change of the machine that was simulated saves 2% of the time."
    name = next(n for n, change in changes.items() if change is best)
    return (
        f"On another machine: {name} would save most, {duration(best.latency_us)} in place of "
        f"{duration(time.latency_us)}, for the program as it is."
    )


def sentence(parts: Sequence[str]) -> str:
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."


def duration(us: float) -> str:
    """Microseconds below ten milliseconds, then milliseconds."""
    return f"{us:,.1f} us" if us < 1e4 else f"{us / 1e3:,.2f} ms"


def size(count: int) -> str:
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= factor:
            return f"{count / factor:,.2f} {unit}"
    return f"{count} bytes"
