"""Levels out of a folder that `GE_DUMP_GRAPH` wrote: a file after each pass."""

import re
from dataclasses import replace
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import ParseError

from ge.dialects.support.errors import GeError
from ge.dialects.text.reading import parse_module, read_source
from ge.lowering.driver.context import context
from ge.lowering.levels.level import Level, level_of
from ge.lowering.pipeline.instrumentation import PassRecord
from ge.lowering.pipeline.options import Options
from ge.tools.views.ge_dumps import ge_level, is_ge_text
from ge.tools.views.levels import level_graph
from ge.tools.views.make import Seen
from ge.tools.views.model import model_level
from ge.tools.views.watch import Watcher

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
    watcher = Watcher(steps=[PassRecord(name, 0.0, 0) for name, _ in files])
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
