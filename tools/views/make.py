"""Pages of a compilation, its module and its run, from first to last: what is kept while passes run
(the ops at each level, and which passes made, changed or removed what came from each node of the
model) or read from a folder that `GE_DUMP_GRAPH` wrote; the payload; and one HTML file of it, with
nothing to be fetched. A compilation that fails has a page, too."""

import base64
import json
import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import ParseError

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.support.diagnostics import sources_of
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.targets.target import target_for
from ge.dialects.text.errors import diagnose
from ge.dialects.text.reading import parse_module, read_source
from ge.lowering.driver.context import context
from ge.lowering.driver.program import Program
from ge.lowering.levels.level import Level, level_of
from ge.lowering.levels.verify_level import VerifyLevelPass
from ge.lowering.pipeline.instrumentation import PassRecord
from ge.lowering.pipeline.options import Options
from ge.lowering.pipeline.pass_manager import Instrumentation
from ge.runtime.clock.clock import simulate
from ge.runtime.clock.timeline import COMM, Timeline
from ge.runtime.data.files import Outputs
from ge.runtime.device.gears import GearTable
from ge.runtime.device.session import main_of
from ge.runtime.profile.what_if import WhatIf, what_if
from ge.tools.views.data import LevelGraph, Noted, Touch, plain
from ge.tools.views.levels import Numbers, level_graph, link
from ge.tools.views.model import Modules, Sourced, ge_level, is_ge_text, model_level
from ge.tools.views.verdict import memory_view, time_view, verdict
from ge.transforms.rewriting import remarks
from ge.transforms.rewriting.remarks import Remark

# What of an op a pass changes; which values it reads is not among it, as each replacement of what
# makes them changes that
Looks = tuple[int, tuple[tuple[str, Attribute], ...], tuple[Attribute, ...]]


@dataclass
class Watcher(Instrumentation):
    """Watches one compilation. Where it tries several ways down, levels are those of the last."""

    remarks: list[Remark] = field(default_factory=list[Remark])  # to which passes append
    levels: dict[Level, LevelGraph] = field(default_factory=dict[Level, LevelGraph])
    read: LevelGraph | None = None  # the module before the first pass
    history: dict[str, list[Touch]] = field(default_factory=dict[str, list[Touch]])
    steps: list[PassRecord] = field(default_factory=list[PassRecord])
    tries: dict[Level, int] = field(default_factory=dict[Level, int])
    failed_in: str = ""  # the pass that raised an exception
    stopped: LevelGraph | None = None  # what it left
    noted: list[Noted] = field(default_factory=list[Noted])
    _seen: dict[Operation, Looks] = field(default_factory=dict[Operation, Looks])
    _sources: dict[Operation, list[str]] = field(default_factory=dict[Operation, list[str]])

    def start(self, module: ModuleOp) -> None:
        self._seen = looks_of(module)
        self._sources = {op: sources_of(op) for op in self._seen}
        if self.read is None:
            self.read, _ = level_graph(module, level_of(module))

    def after(self, p: ModulePass, module: ModuleOp) -> None:
        self.note_remarks()
        self.steps.append(PassRecord(p.name, 0.0))
        self.compare(module)
        if isinstance(p, VerifyLevelPass):
            level = Level.named(p.level)
            self.levels[level], _ = level_graph(module, level, len(self.steps))
            self.tries[level] = self.tries.get(level, 0) + 1

    def failed(self, p: ModulePass, module: ModuleOp, why: str) -> None:
        self.note_remarks()
        self.failed_in = p.name
        with suppress(Exception):  # what a pass left half done may be no module
            self.stopped, _ = level_graph(module, level_of(module), len(self.steps))
            self.stopped.name, self.stopped.summary = "stopped", f"as {p.name} left it"

    def note_remarks(self) -> None:
        """Remarks belong to the pass that ran when they were made; each is kept once."""
        known = {(n.rule, n.source, n.why) for n in self.noted}
        for remark in self.remarks:
            source = remark.where.removeprefix('loc("').removesuffix('")')
            if (remark.rule, source, remark.why) not in known:
                known.add((remark.rule, source, remark.why))
                self.noted.append(
                    Noted(
                        remark.rule, remark.applied, remark.op, source, remark.why,
                        len(self.steps), remark.loss_us,
                    )
                )  # fmt: skip
        self.remarks.clear()

    def compare(self, module: ModuleOp) -> None:
        step, seen = len(self.steps) - 1, looks_of(module)
        sources = {op: self._sources.get(op) or sources_of(op) for op in seen}
        for op, looks in seen.items():
            before = self._seen.get(op)
            if before != looks:
                self.touch(sources[op], step, "made" if before is None else "changed")
        here = {name for names in sources.values() for name in names}
        for op, names in self._sources.items():
            if op not in seen:
                gone = [name for name in names if name not in here]
                self.touch(gone, step, "changed" if self.is_part(op, here) else "removed")
        self._seen, self._sources = seen, sources

    def is_part(self, op: Operation, here: set[str]) -> bool:
        """Return whether an op was in the body of one that is still there, as another op: of a
        launch only the whole has a name."""
        outer = op.parent_op()
        return outer is not None and any(name in here for name in self._sources.get(outer, ()))

    def touch(self, names: list[str], step: int, what: str) -> None:
        for name in names:
            touches = self.history.setdefault(name, [])
            if not touches or touches[-1].step != step:
                touches.append(Touch(step, what))
            elif what == "made":
                touches[-1].what = what


def settle(noted: Iterable[Noted]) -> None:
    """Mark the missed chances that cost nothing, since their rule was applied there in another
    way."""
    noted = list(noted)
    done = {(n.rule, n.op, n.source) for n in noted if n.applied}
    for n in noted:
        n.settled = True if not n.applied and (n.rule, n.op, n.source) in done else None


def looks_of(module: ModuleOp) -> dict[Operation, Looks]:
    """The ops of @main and of kernels, constants left out, with what passes change of them."""
    main = main_function(module)
    return {
        op: (
            len(op.operands), (*op.properties.items(), *op.attributes.items()),
            tuple(r.type for r in op.results),
        )
        for op in (() if main is None else main.body.block.walk())
        if not isinstance(op, ConstantOp)
    }  # fmt: skip


# Changes that a page gives the time of, and their names on it
CHANGES = {
    "hbm_bandwidth=2x": "HBM twice as fast",
    "l2_bandwidth=2x": "L2 twice as fast",
    "cube=2x": "cube cores twice as fast",
    "vector=2x": "vector cores twice as fast",
    "host_link=2x": "a host link twice as fast",
    "links=2x": "links between devices twice as fast",
    "launch=0.5x": "launches in half the time",
}


QUOTED = re.compile(r"'([^']+)'")  # names in messages


@dataclass
class Seen:
    """A compilation and its run to show. Without a timeline, `untimed` says why there is none;
    `failure` is what stopped the compilation."""

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
        last, numbers = level_graph(seen.module, level_of(seen.module), len(watcher.steps))
        levels = [level for level in levels if level.name != last.name] + [last]
    if seen.path.endswith(".onnx") and levels and levels[0].name == "model":
        sources = model_level(seen.path)[1]
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
    """Return what stopped the compilation, or the result of comparing numbers, a line for each
    node."""
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
    """Return the parts of a page that need a simulated run."""
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
    sends = timeline.busy_us[COMM] > 0
    changes = [change for change in CHANGES if sends or not change.startswith("links")]
    try:
        return what_if(module, timeline.target, timeline.latency_us, changes, seen.rows)
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


def sources_in(level: LevelGraph) -> Sequence[Sourced]:
    """Return the sources of a module: its ops in order, with the constants that they read."""
    return [
        Sourced(name, [o.name for o in node.operands if o.node < 0 and o.name])
        for node in level.nodes
        for name in node.sources
    ]


MODULES = "page"  # the folder of our own modules, each imported by others as `views/NAME`

LIBRARIES = ("dagre.min.js", "d3.min.js")

# A page that shows what is in it can load nothing, and send nothing
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; img-src data:"
)


def page(payload: dict[str, Any], title: str) -> str:
    """The text of the file."""
    here = files(__package__ or "ge.tools.views")
    own = {f.name: f.read_text("utf-8") for f in (here / MODULES).iterdir() if "." in f.name}
    scripts = "\n".join(
        f"<script>{script(here.joinpath('vendor', name).read_text('utf-8'))}</script>"
        for name in LIBRARIES
    )
    imports = {
        f"views/{name.removesuffix('.js')}": data_url(text)
        for name, text in sorted(own.items())
        if name.endswith(".js")
    }
    parts = {
        "TITLE": escape(title),
        "POLICY": POLICY,
        "STYLE": own["style.css"],
        "LIBRARIES": scripts,
        "IMPORTS": json.dumps({"imports": imports}),
        "PAYLOAD": script(json.dumps(payload, ensure_ascii=False, separators=(",", ":"))),
    }
    pieces = own["page.html"].split("@@")  # text and names of parts in turn
    return "".join(parts[p] if i % 2 else p for i, p in enumerate(pieces))


def data_url(text: str) -> str:
    return "data:text/javascript;base64," + base64.b64encode(text.encode()).decode()


def script(text: str) -> str:
    """A text as it may stand in a script element: nothing in it ends the element."""
    return text.replace("</", "<\\/").replace("<!--", "<\\!--")


def write_page(out: Outputs, path: str, seen: Seen) -> None:
    out.text(path, page(payload(seen), f"{Path(seen.path).stem} - ge"))


@contextmanager
def watching(
    source: str, output: str, inputs: Iterable[Path | str], tell: Callable[[str], object]
) -> Generator[Watcher]:
    """Watch a compilation for a page. If it raises an exception, the page is written all the same,
    with what stopped it, and `tell` gets a line about it; if nothing was read there is no page."""
    with remarks.collecting() as found:
        watcher = Watcher(found)
        try:
            yield watcher
        except Exception as error:
            watcher.note_remarks()
            tell(failed_page(source, output, inputs, watcher, error))
            raise


def failed_page(
    source: str, output: str, inputs: Iterable[Path | str], watcher: Watcher, error: Exception
) -> str:
    """Write the page of a compilation that failed; returns what became of it."""
    try:
        shown = payload(Seen(source, watcher, failure=str(diagnose(error))))
        if "levels" not in shown:
            return f"{output} was not written: nothing was read"
        with Outputs([source, *inputs]) as out:
            out.text(output, page(shown, f"{Path(source).stem} - ge"))
        return f"{output} shows how far it got"
    except Exception as second:  # the first one is what the user is to see
        return f"{output} was not written: {second}"


def simulated(
    program: Program, options: Options, watcher: Watcher,
    shapes: Mapping[str, tuple[int, ...]], dims: Mapping[str, int],
) -> Seen:  # fmt: skip
    """Return what there is to show of a program: one with gears runs at these sizes. Without a
    time, it says why there is none."""
    module = program.module
    seen = Seen(program.path, watcher, module, report=program.report(), target=options.target)
    if (level := level_of(module)) is not Level.PROGRAM:
        seen.untimed = f"the module is at the {level} level, and time is known of programs"
        return seen
    target = target_for(main_of(module))
    seen.target = target.name
    try:
        gears = GearTable.of(main_of(module))
        taken = None
        if gears is not None:  # other sizes were fixed when the model was read
            taken = gears.chosen(shapes, {n: size for n, size in dims.items() if n in gears.names})
        seen.timeline = simulate(module, target, taken)
    except GeError as error:
        seen.untimed = f"{error.message}; {error.hint}" if error.hint else error.message
    return seen


NAMED = re.compile(r"(\d+)-([\w-]+)\.(?:mlir|onnx)")

OF_GE = re.compile(r"(?:graph_|ge_(?:proto|onnx)_)(\d+)(\w*)\.(?:pbtxt|txt)")  # in GE's text form

UNTIMED = "dumps have no time: compile the model"


def seen_in(path: str, options: Options) -> Seen:
    """The last dump of each level of a folder, or a dump in GE's text form; of a folder that has
    these alone, the last one. Raises GeError for a folder without dumps, and for dumps that cannot
    be read."""
    files = dumped(Path(path)) if Path(path).is_dir() else [("", Path(path))]
    if is_ge_text(str(files[-1][1])):
        level = ge_level(str(files[-1][1]))
        return Seen(path, Watcher(levels={Level.GRAPH: level}), untimed=UNTIMED)
    watcher = Watcher(steps=[PassRecord(name, 0.0) for name, _ in files])
    for number, (name, file) in enumerate(files):
        is_last = number == len(files) - 1
        if name != "verify-level" and not is_last:
            continue
        if file.suffix == ".onnx":
            level = model_level(str(file))[0]
            watcher.levels[Level.GRAPH] = replace(level, name=Level.GRAPH)
            continue
        module = parsed(file, options)
        level = level_of(module)
        watcher.levels[level], _ = level_graph(module, level, number + 1)
    return Seen(path, watcher, untimed=UNTIMED)


def dumped(folder: Path) -> list[tuple[str, Path]]:
    """The dumps of a folder in order, each with the name of its pass. Raises GeError for a folder
    without any. Those in GE's text form count where there are no others."""
    found = [(match, f) for f in folder.iterdir() if (match := NAMED.fullmatch(f.name))]
    found = found or [(m, f) for f in folder.iterdir() if (m := OF_GE.fullmatch(f.name))]
    if not found:
        hint = "GE_DUMP_GRAPH=1 ge-compile MODEL writes one, ge_dump unless GE_DUMP_PATH says else"
        raise GeError("no dumps (NN-PASS.mlir) in this folder", str(folder), hint)
    return [(m[2], f) for m, f in sorted(found, key=lambda pair: int(pair[0][1]))]


def parsed(file: Path, options: Options) -> ModuleOp:
    try:
        return parse_module(context(options.plugins), read_source(str(file)))
    except ParseError as error:
        hint = "was it cut off, or written by another version?"
        raise GeError("this dump is no whole module", str(file), hint) from error
