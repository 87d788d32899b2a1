"""Compiled programs by the hash of all that they follow from (`Options.cache_dir`, `GE_CACHE_DIR`).

An entry is a folder: the program, its weights, and `entry.json` with report, summary and the hashes
of the other two. Its name hashes the model, options, target, plugins, installed packages and
versions; external weights are compared by size and times. What a plugin or a package imports
besides, from a folder of the user, is compared by contents: with a plugin file it is run first, and
what was imported until the program was made stands in the entry. Files that it reads itself are not
known. Entries that others may have written, or
that do not hold together, are ignored: nothing about the cache is an error or waits. The folder may
be deleted at any time.

A hit takes 0.2 s where ge-compile takes 2.7 s (sd15_unet, 1,635 nodes).
"""

import errno
import json
import os
import re
import shutil
import stat
import sys
import tempfile
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from importlib.metadata import version as version_of
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from xdsl.dialects.builtin import StringAttr
from xdsl.utils.lexer import Input
from xdsl.utils.mlir_lexer import StringLiteral

from ge.dialects.graph.stated import HASH
from ge.dialects.graph.stated import PAYLOAD as ATTRIBUTE
from ge.dialects.support.context import at_hand, having
from ge.dialects.support.diagnostics import (
    Diagnostic,
    Handler,
    Severity,
    diagnostic_handler,
    warning_handler,
)
from ge.dialects.support.distribution import version
from ge.dialects.support.effort import Progress
from ge.dialects.support.environment import WRONG, Unsound, is_ours, open_ours, text_of
from ge.dialects.support.errors import GeError
from ge.dialects.support.packages import installed
from ge.dialects.targets.target import Target
from ge.dialects.text.kept import hash_of, own_files, package_files
from ge.dialects.text.look import LOCATED, PLAIN, Look
from ge.dialects.text.reading import SourceText, parse_module
from ge.dialects.text.values import (
    Shapes,
    Size,
    Sizes,
    shape_from,
    size_from,
)
from ge.lowering.driver.binding import Binder
from ge.lowering.driver.compiler import Watch, compile_file, compile_loaded
from ge.lowering.driver.context import context
from ge.lowering.driver.program import Compilation, Program, memory_figures
from ge.lowering.driver.tiles import Coverage
from ge.lowering.pipeline.instrumentation import PassRecord
from ge.lowering.pipeline.options import Options
from ge.lowering.plugins.extensions import Sources, registered, seen_sources, sources_of
from ge.runtime.data.files import Outputs, is_device, same_file, weights_path
from ge.runtime.data.weights import Payload, files_of, open_payload
from ge.runtime.library import launch
from ge.transforms.quantization.accuracy import Accuracy, Asked
from ge.transforms.quantization.schemes import INT8

if TYPE_CHECKING:
    from ge.lowering.building.graph import Graph
    from ge.transforms.quantization.accuracy import Score

TEXT, WEIGHTS, ENTRY = "program.mlir", "program.safetensors", "entry.json"
CHUNK = 1 << 22  # in bytes: what a text of an entry may have, and what is copied at a time

# The name of the file with weights, in the attributes of a module
PAYLOAD = re.compile(r'graph\.payload = ("(?:[^"\\]|\\.)*")')


@dataclass(frozen=True)
class Request:
    """A file to compile, and where the results go (None: they are not wanted)."""

    path: str
    options: Options
    output: str | None = None
    report: str | None = None
    # Beside those of the options
    shapes: Shapes = field(default_factory=dict[str, Sequence[Size]])
    dims: Sizes = field(default_factory=dict[str, Size])
    until: str = "program"
    look: Look = PLAIN
    watch: Watch | None = None  # makes what watches the passes; nothing comes from the cache then

    def run(
        self,
        progress: Progress | None = None,
        tell: Handler = lambda diagnostic: None,
        remarks: bool = False,
    ) -> str:
        """Write program, weights and report, from the cache or compiled; `tell` gets warnings (a
        program that was warned about is not kept) and, where they are wanted, remarks. Returns a
        line of figures for people. Raises GeError, ParseError, VerifyException as compiling does.
        """
        to_file = (
            self.output is not None and self.output != "-" and not is_device(Path(self.output))
        )
        entry = _entry_of(self) if to_file else None
        if entry is not None and (record := _read(entry, Path(self.path).parent)) is not None:
            try:
                _restore(self, entry, record)
                return f"{record['summary']} (from the cache)"
            except Unsound:
                pass
        program, quiet = self._compile(progress, tell, remarks)
        program.save(self.output, self.report, self.look, self.inputs(program.payload))
        if entry is not None and quiet:
            _keep(self, entry, program)
        return program.summary(Path(self.path).name)

    def inputs(self, payload: Payload | None = None) -> list[Path | str]:
        """Return the files that no output may replace: those that are read, except a module that is
        compiled in place."""
        options = self.options
        files: list[Path | str] = [self.path, options.target, *options.plugins]
        files += options.read_files
        if payload is not None:
            files += files_of(payload)
        if self.output and not self.path.endswith(".onnx") and same_file(self.path, self.output):
            in_place = {Path(self.path), weights_path(self.output)}
            files = [f for f in files if Path(f) not in in_place]
        return files

    def program(self) -> Program:
        """The program in memory, from the cache or compiled (`ge.compile`). It is kept with its
        locations. Raises as compiling does."""
        request = replace(self, look=LOCATED)

        known_here = registered().all_passes or launch.written_here()
        entry = None if known_here else _entry_of(request)
        if entry is not None and (record := _read(entry, Path(self.path).parent)) is not None:
            try:
                return _recall(request, entry, record)
            except Unsound:
                pass
        program, quiet = self._compile(None, warn)
        if program.export is not None:
            program.save(None, None, inputs=self.inputs(program.payload))
            program.export = None
        if entry is not None and quiet:
            _keep(request, entry, program)
        return program

    def _compile(
        self, progress: Progress | None, tell: Handler, remarks: bool = False
    ) -> tuple[Program, bool]:
        """The program, and whether it was compiled without a warning."""
        warned = False

        def listen(diagnostic: Diagnostic) -> None:
            nonlocal warned
            warned |= diagnostic.severity is Severity.WARNING
            tell(diagnostic)

        with (diagnostic_handler if remarks else warning_handler)(listen):
            program = compile_file(
                self.path, self.options, self.shapes, self.dims, progress, self.until, self.watch
            )
        return program, not warned


# ---- the name of an entry --------------------------------------------------------------------


def _entry_of(request: Request) -> Path | None:
    """The folder of the entry, None if nothing is kept: no cache is asked for, the passes are
    watched, the source is no file, or samples or scores are given by a program."""
    options = request.options
    if not options.cache_dir or options.dump_graph or options.export_qdq or request.watch:
        return None
    if at_hand(Asked) is not None:
        return None
    if not Path(request.path).is_file():
        return None
    try:
        facts = {
            "versions": [version(), *((p, version_of(p)) for p in ("xdsl", "onnx", "numpy"))],
            "compiler": list(own_files()),
            "packages": package_files(),
            "name": Path(request.path).name,  # the report tells it
            "files": [hash_of(p) for p in (request.path, options.target, *options.plugins)],
            "imported": sources_of(options.plugins) if options.plugins else [],
            "read": [hash_of(p) for p in options.read_files],
            "options": options.of_program(),
            "shapes": {k: list(map(str, v)) for k, v in request.shapes.items()},
            "dims": {k: str(v) for k, v in request.dims.items()},
            "until": request.until,
            "look": asdict(request.look),
        }
    except OSError:
        return None  # compiling says what is wrong
    folder = Path(options.cache_dir)
    if changed := [path for path, h in _imported(options).items() if hash_of(path) != h]:
        what = "has changed since this process imported it, and takes effect in a new process"
        print(f"warning: {changed[0]}: {what}; {folder} is not used", file=sys.stderr)
        return None
    if folder.is_dir() and not is_ours(folder.stat()):
        print(f"warning: {folder}: not used, for others may write to it", file=sys.stderr)
        return None
    return folder / sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _imported(options: Options) -> Sources:
    """The files of users that this process has imported, where plugins or packages take part."""
    return seen_sources() if options.plugins or installed() else {}


# ---- entries ---------------------------------------------------------------------------------


def _identity(path: Path) -> list[int] | None:
    """Return numbers that change when a file does; None if there is no file."""
    try:
        info = path.stat()
    except OSError:
        return None
    return [info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns]


def _copy(source: BinaryIO, target: BinaryIO | None) -> str:
    digest = sha256()
    while chunk := source.read(CHUNK):
        digest.update(chunk)
        if target is not None:
            target.write(chunk)
    return digest.hexdigest()


def _read(entry: Path, folder: Path) -> dict[str, Any] | None:
    """Return the record kept of a program; None unless it is consistent and the files in the
    model's folder that it was made from are unchanged. The weights are checked when they are
    copied."""
    try:
        info = entry.lstat()
        if not stat.S_ISDIR(info.st_mode) or not is_ours(info):
            return None
        record: dict[str, Any] = json.loads(text_of(entry / ENTRY))
        record["program"] = text_of(entry / TEXT)
        sound = (
            sha256(record["program"].encode()).hexdigest() == record["text"]
            and all(hash_of(path) == h for path, h in record["imported"].items())
            and all(_identity(folder / name) == i for name, i in record["reads"].items())
            and isinstance(record["weights"], str)
            and isinstance(record["summary"], str)
            and isinstance(record["report"], dict)
        )
        return record if sound else None
    except (Unsound, *WRONG):
        return None


def _restore(request: Request, entry: Path, record: Mapping[str, Any]) -> None:
    """Write what a request asks for from an entry. Raises Unsound, and then nothing is written."""
    assert request.output is not None
    text = str(record["program"])

    def copy(target: BinaryIO) -> None:
        try:
            file = open_ours(entry / WEIGHTS)
        except OSError:
            raise Unsound from None
        with file:
            if _copy(file, target) != record["weights"]:
                raise Unsound

    with Outputs(request.inputs()) as out:
        if record["weights"]:
            weights = weights_path(request.output)
            out.binary(weights, copy)
            name = f"graph.payload = {StringAttr(weights.name)}"
            text = PAYLOAD.sub(lambda _: name, text, count=1)
        out.text(request.output, text)
        if request.report:
            out.json(request.report, record["report"])


def _recall(request: Request, entry: Path, record: Mapping[str, Any]) -> Program:
    text = PAYLOAD.sub(f'graph.payload = "{WEIGHTS}"', record["program"], count=1)
    module = parse_module(context(request.options.plugins), SourceText(str(entry / TEXT), text))
    module.attributes.pop(HASH, None)  # the whole file is compared here
    try:
        if record["weights"]:
            with open_ours(entry / WEIGHTS) as file:
                if _copy(file, None) != record["weights"]:
                    raise Unsound
        payload = open_payload(module, entry)
        module.attributes.pop(ATTRIBUTE, None)
        report = record["report"]
        passes = [PassRecord(**p) for p in report["compile"]["passes"]]
        compilation = Compilation(
            request.options, passes, report["compile"]["seconds"], report["ops"], report["fusion"],
            memory_figures(module), report.get("quantization", {}),
            precision=report.get("precision", {}), unknown=report["memory"].get("unknown", {}),
            engines=report.get("engines", {}),
            tiles=Coverage.of(module, Target.load(request.options.target))
            if "tiles" in report else None,
        )  # fmt: skip
    except (GeError, *WRONG):
        raise Unsound from None
    program = Program(module, payload, request.path, compilation)
    program.bind = Binder(program, request.options).at
    return program


def _keep(request: Request, entry: Path, program: Program) -> None:
    try:
        _store(request, entry, program)
    except (OSError, ValueError, GeError) as e:
        print(f"warning: {request.options.cache_dir}: nothing is kept: {e}", file=sys.stderr)


def _store(request: Request, entry: Path, program: Program) -> None:
    if not entry.parent.exists():
        entry.parent.mkdir(0o700, parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=".new-", dir=entry.parent))
    try:
        if request.output is None:
            program.save(str(folder / TEXT), None, request.look)
        else:
            shutil.copyfile(request.output, folder / TEXT)
            if (weights := weights_path(request.output)).exists():
                shutil.copyfile(weights, folder / WEIGHTS)
        text = (folder / TEXT).read_text(encoding="utf-8")
        if PAYLOAD.search(text) is None:
            (folder / WEIGHTS).unlink(missing_ok=True)
        about = {
            "summary": program.summary(Path(request.path).name),
            "report": program.report(),
            "text": sha256(text.encode()).hexdigest(),
            "weights": hash_of(str(folder / WEIGHTS)) or "",
            "imported": _imported(request.options),
            "reads": {n: _identity(Path(request.path).parent / n) for n in _reads(request.path)},
        }
        (folder / ENTRY).write_text(json.dumps(about), encoding="utf-8")
        for file in folder.iterdir():
            file.chmod(0o600)
        _put(folder, entry)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _put(folder: Path, entry: Path) -> None:
    """Make a folder the entry. Another thread or process may do the same at once: its entry is as
    good. What was damaged or outdated is moved away whole: nobody finds a part of it."""
    old = folder.with_name(f"{folder.name}-old")
    try:
        with suppress(FileNotFoundError):
            os.rename(entry, old)
        os.rename(folder, entry)
    except OSError as e:
        if e.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
    finally:
        if old.is_dir() and not old.is_symlink():
            shutil.rmtree(old, ignore_errors=True)
        else:
            old.unlink(missing_ok=True)


def _reads(path: str) -> list[str]:
    """The files with weights that a model or module names, in its folder."""
    if not path.endswith(".onnx"):
        text = Path(path).read_text(encoding="utf-8")
        names = (StringLiteral(*m.span(1), Input(text, path)) for m in PAYLOAD.finditer(text))
        return [name.string_contents for name in names]
    from ge.lowering.onnx.model import external_files, read_model

    return external_files(read_model(path))


def compile_model(
    model: "str | Graph",
    shapes: Mapping[str, Any] | None = None,
    dims: Mapping[str, Any] | None = None,
    **options: Any,
) -> Program:
    """`ge.compile`: a model or module by path, or a graph that was built (which is not changed),
    options by name (see Options); those not given come from the environment. Sizes, of files, are
    numbers, pairs of the least and the largest, or texts as on the command line. Raises GeError for
    errors of model or options."""
    all_options = Options.from_environment(**options)
    for what, sizes in {"shapes": shapes, "dims": dims}.items():
        if not isinstance(sizes, Mapping | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise GeError(f"{what} are sizes by name, not of type {type(sizes).__name__}")
    by_input = {n: shape_from(n, s) for n, s in (shapes or {}).items()}
    by_name = {n: size_from(n, s) for n, s in (dims or {}).items()}
    if not isinstance(model, str | os.PathLike):
        if by_input or by_name:
            raise GeError("shapes and dims are for models in files", hint="build it with them")
        return _compile_graph(model, all_options)
    return Request(os.fspath(model), all_options, shapes=by_input, dims=by_name).program()


def _compile_graph(graph: "Graph", options: Options) -> Program:
    def built() -> Program:
        return Program(graph.module.clone(), graph.payload, "graph", reload=built)

    with warning_handler(warn):
        return compile_loaded(built(), options, time.perf_counter())


def warn(diagnostic: Diagnostic) -> None:
    """Make a warning one of Python's: of `ge.compile`, which has no standard error of its own."""
    if diagnostic.severity is Severity.WARNING:
        warnings.warn(str(diagnostic), stacklevel=2)


def _score_and_loss(accuracy: Any) -> "tuple[Score, float]":
    match accuracy:
        case (score, int() | float() as loss) if callable(score):
            return cast("Score", score), loss
        case score if callable(score):
            return cast("Score", score), 0.0
        case _:
            what = "accuracy is a bound, a function, or a function and a loss"
            raise GeError(f"{what}, not {accuracy!r}")


def quantize_model(
    model: "str | Graph",
    calibration: Any = (),
    scheme: str = INT8,
    accuracy: "str | Score | tuple[Score, float]" = "",
    table: str | Path | None = None,
    **more: Any,
) -> Program:
    """`ge.quantize`: compile a model with integer weights and, for int8, activations.

    `calibration`: paths of files, or of a table of decisions; or arrays: a dict of them by the
    names of inputs, or a list, a generator or a DataLoader of batches. A batch is a dict, or a
    tuple in the order of inputs, what is behind them being labels; an array that lacks the batch of
    the model is one sample. Batches are gone through once, and each is put into a temporary file
    before the next is asked for: what decides from them goes through that file several times, so
    generators need not begin again, and samples that are made at random stay the same. No more
    than two batches are in memory.

    `accuracy`: a bound as a text, or what gives outputs a score, the higher the better, from two
    dicts of arrays by name: outputs of all samples, and what else is given for them (labels); and
    how much less it may be than that of the float model. `time_limit`: seconds after which the best
    so far is taken, with a warning that says what is undone. `table`: a file that decisions are
    written to; where it is there, they go on from it. `more`: arguments of `ge.compile`. On a
    terminal a bar shows how far it is. Raises GeError as `ge.compile` does, and for samples that do
    not fit."""
    from ge.transforms.quantization.data import Calibration
    from ge.transforms.quantization.sources import Given

    wanted, bound = Calibration(), None
    if isinstance(accuracy, str):
        bound = accuracy or None
    else:
        score, loss = _score_and_loss(accuracy)
        wanted.accuracy = Accuracy(getattr(score, "__name__", "score"), loss, score)
    files = _paths_of(calibration)
    if files is None:
        files, wanted.source = [], Given(calibration)
    if table is not None and os.path.exists(table):
        files = [str(table), *files]
    more |= {"quantize": scheme, "calibration": os.pathsep.join(files), "accuracy": bound}
    with having(Asked(wanted)):
        program = compile_model(model, **more)
    if table is not None:
        with Outputs([model] if isinstance(model, str) else []) as out:
            out.text(str(table), wanted.table.text())
    return program


def _paths_of(samples: Any) -> list[str] | None:
    """The files that samples are in; None for samples themselves."""
    if isinstance(samples, str | os.PathLike):
        return [os.fspath(cast(str, samples))]
    if not isinstance(samples, list | tuple):
        return None
    items = cast(Sequence[Any], samples)
    if not all(isinstance(item, str | os.PathLike) for item in items):
        return None
    return [os.fspath(item) for item in items]
