"""Descriptions of a simulated run: tables in the columns that Ascend users know, figures for the
report, and a short table for people. (`trace.py` draws it, `limits.py` finds what decides.)"""

import csv
import io
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from xdsl.ir import Attribute

from ge.dialects.npu_task.attributes import data_type
from ge.dialects.support.diagnostics import visible
from ge.dialects.support.element_types import type_name
from ge.dialects.targets.target import Target
from ge.runtime.clock.timeline import COMM, DMA_IN, DMA_OUT, Task, Timeline, estimated, longest
from ge.runtime.profile.limits import NEARLY, collectives_of, critical_path, slack

# ---- figures ---------------------------------------------------------------------------------


def time_report(timeline: Timeline) -> dict[str, Any]:
    latency = timeline.latency_us
    report: dict[str, Any] = {
        "machine": timeline.machine,
        "latency_us": latency,
        "first_us": timeline.first_us,
        "lower_bound_us": timeline.lower_bound_us,
        "engines": {
            engine: {"busy_us": busy, "utilization": busy / latency if latency else 0.0}
            for engine, busy in timeline.busy_us.items()
        },
        "idle": {c: us for c, us in timeline.idle_us.items() if us or c != "communication"},
    }
    path = critical_path(timeline)
    busy = sum(t.runs * t.duration_us for t in path)
    report["critical_path"] = {"tasks": len(path), "busy_us": busy, "wait_us": latency - busy}
    launches, estimated, share = timeline.estimated
    counts = {"tiles": launches - estimated, "estimates": estimated}
    if collectives := collectives_of(timeline):
        us = sum(row.runs * row.us for row in collectives)
        exposed = sum(row.exposed_us for row in collectives)
        rows = [asdict(row) for row in collectives]
        hidden = 1 - exposed / us if us else 1.0
        report["communication"] = {
            "us": us, "exposed_us": exposed, "hidden": hidden, "collectives": rows
        }  # fmt: skip
    report["timed_by"] = {**counts, "share_of_estimates": share}
    if timeline.notes:
        report["notes"] = timeline.notes
    return report


def summary_table(
    timeline: Timeline, report: dict[str, Any] | None = None, slowest: int = 10
) -> str:
    """The figures of the `time_report`, which may be given, in a few lines for people."""
    report = time_report(timeline) if report is None else report
    latency = report["latency_us"]
    lines = [
        f"latency {latency:,.1f} us, lower bound {report['lower_bound_us']:,.1f} us, "
        f"{len(timeline.tasks)} tasks on {timeline.machine}",
        "engine        busy us   used",
    ]
    lines += [
        f"{engine:8} {row['busy_us']:12,.1f} {row['utilization']:6.1%}"
        for engine, row in report["engines"].items()
        if row["busy_us"]
    ]
    if first := report["first_us"]:
        lines.insert(1, f"the first run at these sizes: {first:,.1f} us of the host before it")
    idle = ", ".join(f"{cause} {us:,.1f}" for cause, us in report["idle"].items() if us)
    lines.append(f"idle us of the busiest: {idle or 'none'}")
    lines += communication_lines(report.get("communication"))
    path = report["critical_path"]
    lines.append(
        f"critical path: {path['tasks']} tasks, {path['busy_us']:,.1f} us of work, "
        f"{path['wait_us']:,.1f} us of launches and waits"
    )
    lines.append(f"the {min(slowest, len(timeline.tasks))} slowest tasks:")
    for task in longest(timeline, slowest):
        share = task.duration_us / latency if latency else 0.0
        lines.append(
            f"{share:6.1%} {task.duration_us:12,.1f} us  {task.engine:7} {visible(task.name)}"
        )
    lines += [f"note: {note}" for note in dict.fromkeys(timeline.notes)]
    return "\n".join(lines)


def communication_lines(report: dict[str, Any] | None, most: int = 5) -> list[str]:
    """Lines of what devices send each other, and why it is not hidden behind other work."""
    if report is None:
        return []
    us, exposed, hidden = report["us"], report["exposed_us"], report["hidden"]
    lines = [f"communication: {us:,.1f} us, exposed {exposed:,.1f} us, {hidden:.0%} hidden"]
    for row in report["collectives"][:most]:
        if row["exposed_us"] > NEARLY:
            by = f" by {row['algorithm']}" if row["algorithm"] else ""
            head = f"  {visible(row['kernel'])}: {row['runs']} of {row['us']:,.1f} us{by}"
            cause, _ = max(row["causes"].items(), key=lambda item: item[1])
            lines.append(f"{head}, exposed {row['exposed_us']:,.1f} us: {visible(cause)}")
    return lines


# ---- tables ----------------------------------------------------------------------------------

# The columns of msprof's op_summary that this emulator has values for: there is one device, without
# a number, and tensors have no formats, but lie in memory in the order of their shapes. mte2 is the
# pipe into the core, mte3 and fixpipe the ones out of it; a task's cycles are those of all its
# cores. Ours are slack, by how much the task might end later, how much of what it reads L2 holds
# when it is issued, and the target, with whether a tile program was simulated for its time.
OP_SUMMARY = (
    "Model Name", "Task ID", "Stream ID", "Op Name", "OP Type", "Task Type",
    "Task Start Time(us)", "Task Duration(us)", "Task Wait Time(us)", "Block Num", "Mix Block Num",
    "Input Shapes", "Input Data Types", "Output Shapes", "Output Data Types",
    "aicore_time(us)", "aic_total_cycles", "aic_mac_time(us)", "aic_mac_ratio",
    "aic_mte2_time(us)", "aic_mte2_ratio", "aic_fixpipe_time(us)", "aic_fixpipe_ratio",
    "aiv_time(us)", "aiv_total_cycles", "aiv_vec_time(us)", "aiv_vec_ratio",
    "aiv_mte2_time(us)", "aiv_mte2_ratio", "aiv_mte3_time(us)", "aiv_mte3_ratio",
    "memory_bound", "cube_utilization(%)", "Slack Time(us)", "Warm Inputs(%)", "Timed By", "Clock",
)  # fmt: skip

OP_STATISTIC = (
    "Model Name", "OP Type", "Core Type", "Count",
    "Total Time(us)", "Min Time(us)", "Avg Time(us)", "Max Time(us)", "Ratio(%)", "Clock",
)  # fmt: skip


def op_summary(timeline: Timeline, model: str) -> list[dict[str, Any]]:
    """One row for each task, by start."""
    tasks = (t for t in timeline.tasks if t.on_device)
    ordered, slacks = sorted(tasks, key=lambda t: t.start_us), slack(timeline)
    rows = [_summary_row(i, t, timeline.target, model) for i, t in enumerate(ordered)]
    for row, task in zip(rows, ordered, strict=True):
        row["Slack Time(us)"] = _us(slacks[task])
    return rows


def _summary_row(number: int, task: Task, target: Target, model: str) -> dict[str, Any]:
    time, cores, ins, outs = task.time, dict(task.cores), task.reads, task.writes
    row: dict[str, Any] = dict.fromkeys(OP_SUMMARY, "N/A")
    row |= {
        "Model Name": model,
        "Task ID": number,
        "Stream ID": task.stream,
        "Op Name": task.name,
        "OP Type": op_type(task),
        "Task Type": task_type(task),
        "Task Start Time(us)": _us(task.start_us),
        "Task Duration(us)": _us(task.duration_us),
        "Task Wait Time(us)": _us(task.wait_us),
        "Block Num": cores.get(task.engine, 0),
        "Mix Block Num": cores.get("vector", 0) if task.engine == "cube" else 0,
        "Input Shapes": _shapes(ins),
        "Input Data Types": _dtypes(ins),
        "Output Shapes": _shapes(outs),
        "Output Data Types": _dtypes(outs),
        "Clock": target.timed(*estimated([task])),
    }
    duration = task.duration_us or 1.0
    if "cube" in cores:
        cycles = task.duration_us * target.cycles_per_us * cores["cube"]
        row |= {"aicore_time(us)": _us(task.duration_us), "aic_total_cycles": round(cycles)}
        row |= _pipe("aic_mac", time.cube_us, duration)
        row |= _pipe("aic_mte2", time.in_us, duration) | _pipe("aic_fixpipe", time.out_us, duration)
        full = target.cycles_per_us * target.cube_cores * duration
        row["cube_utilization(%)"] = round(100 * cycles / full, 2)
    if "vector" in cores:
        cycles = task.duration_us * target.cycles_per_us * cores["vector"]
        row |= {"aiv_time(us)": _us(task.duration_us), "aiv_total_cycles": round(cycles)}
        row |= _pipe("aiv_vec", time.vector_us, duration)
        if task.engine == "vector":
            row |= _pipe("aiv_mte2", time.in_us, duration)
            row |= _pipe("aiv_mte3", time.out_us, duration)
    if task.kernel is not None:
        row["Warm Inputs(%)"] = round(100 * time.warm, 1)
        row["Timed By"] = "estimates" if time.estimated else "tiles"
    if task.engine in ("cube", "vector"):
        busiest = max(time.cube_us, time.vector_us)
        row["memory_bound"] = round(time.in_us / busiest, 3) if busiest else "N/A"
    return row


def _pipe(name: str, us: float, duration: float) -> dict[str, Any]:
    return {f"{name}_time(us)": _us(us), f"{name}_ratio": round(us / duration, 4)}


def op_statistic(timelines: Sequence[Timeline], model: str) -> list[dict[str, Any]]:
    """One row for each kind of op and engine in these runs, the most time first."""
    groups: dict[tuple[str, str], list[Task]] = defaultdict(list)
    targets: dict[tuple[str, str], Target] = {}
    for timeline in timelines:
        for task in (t for t in timeline.tasks if t.on_device):
            groups[key := (op_type(task), task_type(task))].append(task)
            targets[key] = timeline.target
    counts = {key: sum(t.runs for t in tasks) for key, tasks in groups.items()}
    sums = {key: sum(t.runs * t.duration_us for t in tasks) for key, tasks in groups.items()}
    total = sum(sums.values()) or 1.0
    rows = [
        {
            "Model Name": model,
            "OP Type": kind,
            "Core Type": core,
            "Count": counts[kind, core],
            "Total Time(us)": _us(sums[kind, core]),
            "Min Time(us)": _us(min(t.duration_us for t in tasks)),
            "Avg Time(us)": _us(sums[kind, core] / counts[kind, core]),
            "Max Time(us)": _us(max(t.duration_us for t in tasks)),
            "Ratio(%)": round(100 * sums[kind, core] / total, 3),
            "Clock": targets[kind, core].timed(*estimated(tasks)),
        }
        for (kind, core), tasks in groups.items()
    ]
    return sorted(rows, key=lambda r: -float(r["Total Time(us)"]))


FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv_text(columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    for row in rows:  # a spreadsheet takes a text that begins so for a formula
        writer.writerow(
            {
                key: f"'{value}" if isinstance(value, str) and value[:1] in FORMULA else value
                for key, value in row.items()
            }
        )
    return out.getvalue()


def op_type(task: Task) -> str:
    """The op that a task computes: `fused_op.linear`, `graph.softmax`, `copy`."""
    return task.kind if task.kernel is None else task.kernel.main.name


def task_type(task: Task) -> str:
    """Ascend's name of the engine that executes a task."""
    if task.engine == "cube" and len(task.cores) > 1:
        return "MIX_AIC"
    return TASK_TYPES[task.engine]


TASK_TYPES = {
    "cube": "AI_CORE",
    "vector": "AI_VECTOR_CORE",
    "host": "AI_CPU",
    DMA_IN: "MEMCPY_H2D",
    DMA_OUT: "MEMCPY_D2H",
    COMM: "COMMUNICATION",
}


def _shapes(types: Sequence[Attribute]) -> str:
    return ";".join(",".join(map(str, data_type(t)[1])) for t in types)


def _dtypes(types: Sequence[Attribute]) -> str:
    return ";".join(type_name(data_type(t)[0]).upper() for t in types)


def _us(value: float) -> float:
    return round(value, 3)
