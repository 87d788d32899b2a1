"""The time of a kernel for reports, for people and as a Chrome trace."""

from contextlib import suppress
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

from xdsl.dialects.builtin import ModuleOp

from ge.dialects.support.diagnostics import visible
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.targets.target import TARGET, Target, target_for
from ge.dialects.tile.kernel import KernelOp
from ge.runtime.cores.kernel import KernelTime, PipeTime, TileKernel
from ge.runtime.library.costs.estimates import CoreTime, CoreTimes

# A session, a profiler and a page simulate the same programs again and again; they do not change
_known: WeakKeyDictionary[KernelOp, dict[Target, CoreTimes]] = WeakKeyDictionary()


def core_times(module: ModuleOp, target: Target) -> dict[str, CoreTimes]:
    """Return the times of tile programs, by name, of those that can run unchanged on the target.
    They are simulated when asked. They raise GeError if the target lacks another fact that they
    need."""
    if not can_run(module, target):
        return {}
    found: dict[str, CoreTimes] = {}
    for op in module.ops:
        if isinstance(op, KernelOp):
            known = _known.setdefault(program := op.unchanged, {})
            if target not in known:
                known[target] = _times_of(program, target)
            if all(n <= target.cores[kind] for kind, n in known[target].cores):
                found[op.sym_name.data] = known[target]
    return found


def can_run(module: ModuleOp, target: Target) -> bool:
    """Return whether cores of a target are such as those that a module was compiled for: apart or
    merged as these are, and with memories as large."""
    main = main_function(module)
    if main is None or TARGET not in main.attributes:
        return True
    with suppress(GeError):
        own = target_for(main)
        sizes = own.core_memories.items()
        large = all(target.core_memories[name] >= size for name, size in sizes)
        return large and own.split_cores == target.split_cores
    return False


def _times_of(op: KernelOp, target: Target) -> CoreTimes:
    @cache
    def kernel() -> TileKernel:
        return TileKernel(op, target)

    @cache
    def time(held: tuple[float, ...]) -> CoreTime:
        found = kernel().time(held=held)

        def busy(*pipes: str) -> float:
            times = (p.busy_us for p in found.pipes if p.pipe.split()[-1] in pipes)
            return max(times, default=0.0)

        pipes = busy("m"), busy("v"), busy("mte2"), busy("fix", "mte3")
        return CoreTime(found.start_us, found.core_us, *pipes)

    return CoreTimes(tuple(op.cores_taken.items()), time, lambda: kernel().traffic.moved)


def time_report(time: KernelTime) -> dict[str, Any]:
    return {
        "latency_us": time.total_us,
        "start_us": time.start_us,
        "core_us": time.core_us,
        "hbm_us": time.hbm_us,
        "hbm_bytes": time.hbm_bytes,
        "kind": time.kind,
        "cores": time.cores,
        "bound": time.bound,
        "taken_for_0": list(time.unstated),
        "pipes": {
            p.pipe: {
                "busy_us": p.busy_us,
                "utilization": share(p, time),
                "instructions": p.instructions,
                "wait_us": p.waits,
            }
            for p in time.pipes
        },
    }


def share(pipe: PipeTime, time: KernelTime) -> float:
    """Share of the time of the busiest core."""
    return pipe.busy_us / time.core_us if time.core_us else 0.0


def summary_table(time: KernelTime, target: Target) -> str:
    """The time of a kernel, and of each pipe of its busiest core."""
    cores = f"{time.cores} core{'s' * (time.cores > 1)}"
    lines = [
        f"@{visible(time.kernel)}: {time.total_us:,.2f} us on {cores} of {target.timed()}: "
        f"start of a {time.kind} kernel {time.start_us:,.2f}, busiest core {time.core_us:,.2f}, "
        f"HBM {time.hbm_us:,.2f}; bound by {time.bound}",
        "pipe            busy us   used  instructions  waits us",
    ]
    for p in time.pipes:
        waits = sorted(p.waits.items(), key=lambda w: -w[1])[:2]
        text = ", ".join(f"{us:,.2f} for {visible(what)}" for what, us in waits)
        figures = f"{p.pipe:12} {p.busy_us:10,.2f} {share(p, time):6.1%} {p.instructions:13,}"
        lines.append(f"{figures}  {text}".rstrip())
    if time.unstated:
        unstated = ", ".join(time.unstated)
        lines.append(f"taken for 0, since {target.name} does not state it: {unstated}")
    return "\n".join(lines)


def chrome_trace(time: KernelTime) -> dict[str, Any]:
    """A row for each pipe of the busiest core."""
    rows = {p.pipe: number for number, p in enumerate(time.pipes)}
    events: list[dict[str, Any]] = [
        {"name": "process_name", "ph": "M", "pid": 0, "args": {"name": f"@{time.kernel}"}}
    ]
    for pipe, number in rows.items():
        name = {"name": "thread_name", "ph": "M", "pid": 0, "tid": number}
        events.append({**name, "args": {"name": pipe}})
    for row in time.rows:
        when = {"ts": row.start_us, "dur": row.end_us - row.start_us}
        place = {"pid": 0, "tid": rows[row.pipe], "args": {"place": row.place}}
        events.append({"name": row.name, "cat": row.pipe, "ph": "X", **when, **place})
    return {"traceEvents": events, "displayTimeUnit": "ns"}
