"""The payload of a page, from what is known of a compilation, a module, and its run."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from ge.dialects.support.errors import GeError
from ge.runtime.clock.timeline import Timeline
from ge.runtime.profile.what_if import WhatIf, what_if
from ge.tools.views.data import LevelGraph, plain
from ge.tools.views.levels import Numbers
from ge.tools.views.links import link
from ge.tools.views.memory import memory_view
from ge.tools.views.model import model_level
from ge.tools.views.modules import Modules, Sourced
from ge.tools.views.times import time_view
from ge.tools.views.verdict import verdict
from ge.tools.views.watch import Watcher, final_level, settle

# What a page tells the time of, and what it calls that
CHANGES = {
    "hbm_bandwidth=2x": "HBM twice as fast",
    "l2_bandwidth=2x": "L2 twice as fast",
    "cube=2x": "cube cores twice as fast",
    "vector=2x": "vector cores twice as fast",
    "host_link=2x": "a host link twice as fast",
    "launch=0.5x": "launches in half the time",
}


QUOTED = re.compile(r"'([^']+)'")  # names in messages


@dataclass
class Seen:
    """What there is to show. Without a timeline, `untimed` says why there is none; `failure` is
    what stopped the compilation."""

    path: str
    watcher: Watcher = field(default_factory=Watcher)
    module: ModuleOp | None = None
    timeline: Timeline | None = None
    untimed: str = ""
    failure: str = ""
    report: Mapping[str, Any] = field(default_factory=dict[str, Any])
    target: str = ""
    rows: int | None = None  # of states that grow, as in `simulate`


def payload(seen: Seen) -> dict[str, Any]:
    """All that the page shows, as JSON."""
    watcher = seen.watcher
    settle(watcher.noted)
    levels = [*model_levels(seen), *watcher.levels.values()]
    levels += [watcher.stopped] if watcher.stopped else []
    sources = [*sources_in(levels[0])] if levels else []
    numbers: Numbers = {}
    if seen.module is not None:
        last, numbers = final_level(seen.module, len(watcher.steps))
        levels = [level for level in levels if level.name != last.name] + [last]
    if seen.path.endswith(".onnx") and levels and levels[0].name == "model":
        sources = _named_sources(seen.path)
    link(levels, Modules.of(sources))
    blame(levels[:1], complaints(seen))
    shown: dict[str, Any] = {
        "model": Path(seen.path).stem,
        "path": Path(seen.path).name,
        "target": seen.timeline.target.name if seen.timeline else seen.target,
        "levels": levels,
        "steps": [{"name": p.name} for p in watcher.steps],
        "history": watcher.history,
        "remarks": watcher.noted,
        "report": seen.report,
        "untimed": seen.untimed,
        "tries": watcher.tries,
    }
    if seen.failure:
        shown["failure"] = {"message": seen.failure, "pass": watcher.failed_in}
    if seen.timeline is not None and seen.module is not None:
        shown |= timed(seen, seen.module, seen.timeline, numbers, levels[-1])
    return plain({k: v for k, v in shown.items() if v not in ("", [], {})})


def complaints(seen: Seen) -> str:
    """What stopped the compilation, or what comparing numbers has found, a line for each node."""
    nodes = seen.report.get("compared", {}).get("layers", {}).get("nodes", ())
    wrong = [n for n in nodes if n["verdict"] == "wrong"]
    return "\n".join([seen.failure, *(f"'{n['name']}': {n['complaint']}" for n in wrong)])


def blame(levels: Sequence[LevelGraph], failure: str) -> None:
    """Mark the nodes of the model that an error names, with the line that does."""
    named = {name: line for line in failure.splitlines() for name in QUOTED.findall(line)}
    for level in levels:
        for node in level.nodes:
            node.broken = named.get(node.name, "") if node.sources else ""


def timed(
    seen: Seen, module: ModuleOp, timeline: Timeline, numbers: Numbers, program: LevelGraph
) -> dict[str, Any]:
    """What is known where a run was simulated."""
    time = time_view(timeline, numbers)
    memory = memory_view(module, timeline, numbers)
    changes = changed_times(seen, module, timeline)
    near = [n for n in seen.watcher.noted if not n.applied and not n.settled]
    return {
        "time": time,
        "memory": memory,
        "what_if": [{**asdict(w), "title": CHANGES[w.change]} for w in changes],
        "verdict": verdict(
            time,
            program,
            memory,
            {CHANGES[w.change]: w for w in changes},
            near,
            seen.report.get("time", {}).get("explained", {}).get("tried", []),
        ),
    }


def changed_times(seen: Seen, module: ModuleOp, timeline: Timeline) -> list[WhatIf]:
    try:
        return what_if(module, timeline.target, timeline.latency_us, tuple(CHANGES), seen.rows)
    except GeError:  # what the run was of cannot be simulated by itself: one gear of several
        return []


def model_levels(seen: Seen) -> list[LevelGraph]:
    """The nodes of the model's file, or the module as it was read."""
    if seen.path.endswith(".onnx"):
        try:
            return [model_level(seen.path)[0]]
        except GeError:
            return []
    read = seen.watcher.read
    if read is None:
        return []
    read.summary = f"{read.summary}, as read"
    if read.name in seen.watcher.levels:
        read.name = "model"
    return [read]


def _named_sources(path: str) -> list[Sourced]:
    return model_level(path)[1]


def sources_in(level: LevelGraph) -> Sequence[Sourced]:
    """Of a module: its ops in order, with the constants that they read."""
    return [
        Sourced(name, [o.name for o in node.operands if o.node < 0 and o.name])
        for node in level.nodes
        for name in node.sources
    ]
