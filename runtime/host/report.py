"""What calls in each mode came to, as figures and as a table."""

from collections.abc import Mapping, Sequence
from typing import Any

from ge.runtime.host.host import Called
from ge.runtime.host.host_clock import HOST_CAUSES


def call_figures(called: Called) -> dict[str, Any]:
    """Stable keys, for reports. `idle_us` is of the device, before each launch, by cause; that for
    the host has a part before the first launch, and the rest is between launches."""
    counts, idle = called.counts, called.idle_us
    return {
        "latency_us": called.latency_us,
        "host_us": called.host_us,
        "idle_us": idle,
        "idle_for_host_us": sum(idle[cause] for cause in HOST_CAUSES),
        "idle_at_start_us": called.idle_at_start_us,
        "setups": counts.setups,
        "setups_skipped": counts.skipped,
        "tilings": {**counts.found, "patched": counts.patched},
        "captures": counts.captures,
        "refused": counts.refused,
        "replays": counts.replays,
        "updates": counts.updates,
    }


def sums(calls: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The figures of several calls together."""
    total: dict[str, Any] = {}
    for call in calls:
        for key, value in call.items():
            if isinstance(value, Mapping):
                total[key] = sums([total.get(key, {}), value])  # pyright: ignore
            else:
                total[key] = total.get(key, 0) + value
    return total


GROUPS = (*[""] * 3, "host:", *[""] * 6, "idle:", *[""] * 6, "kernels:", *[""] * 4)
COLUMNS = (
    "mode", "call", "latency us", "us", "setup", "tiling", "args", "launch", "copy", "sync",
    "us", "setup", "tiling", "args", "launch", "copy", "sync", "set up", "skipped",
    "local", "global", "miss",
)  # fmt: skip


def modes_table(calls: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """A row for each mode and call: when it ended; the time of the host threads, and the time for
    which the device waited for them, by what they did; what was set up, skipped, and found."""
    rows: list[Sequence[str]] = [GROUPS, COLUMNS]
    for mode, figures in calls.items():
        for number, call in enumerate(figures, 1):
            host, idle, tilings = call["host_us"], call["idle_us"], call["tilings"]
            times = [call["latency_us"], sum(host.values()), *(host[c] for c in HOST_CAUSES)]
            times += [call["idle_for_host_us"], *(idle[c] for c in HOST_CAUSES)]
            numbers = [call["setups"], call["setups_skipped"]]
            numbers += [tilings[c] for c in ("local", "global", "miss")]
            texts = [f"{us:,.1f}" if us else "-" for us in times]
            rows.append([mode, str(number), *texts, *map(_count, numbers)])
    return aligned(rows)


STEP_COLUMNS = (
    "mode", "total us", "tokens/s", "host us", "idle us", "setups", "skipped", "hits", "patched",
    "miss", "captures", "refused", "updates",
)  # fmt: skip


def steps_table(steps: Mapping[str, Mapping[str, Any]]) -> str:
    """A row for each mode: all steps together."""
    rows: list[Sequence[str]] = [STEP_COLUMNS]
    for mode, s in steps.items():
        tilings = s["tilings"]
        hits = tilings["local"] + tilings["global"]
        times = (s["latency_us"], s["tokens_per_s"], sum(s["host_us"].values()))
        counts = (
            s["setups"], s["setups_skipped"], hits, tilings["patched"], tilings["miss"],
            s["captures"], s["refused"], s["updates"],
        )  # fmt: skip
        texts = [f"{us:,.1f}" if us else "-" for us in (*times, s["idle_for_host_us"])]
        rows.append([mode, *texts, *map(_count, counts)])
    return aligned(rows)


def _count(number: int) -> str:
    return str(number) if number else "-"


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as they need; the first one is text, the others numbers."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)
