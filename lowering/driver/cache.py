"""Compiled programs kept by the hash of all that they follow from: compiling a model again copies
files (`GE_CACHE_DIR`, which is `Options.cache_dir`).

An entry is a folder named by the hash, with the program's text, its weights (a hard link to those
beside the first output, where the file system has such) and `entry.json`: report, summary, and
what tells a sound entry from a damaged or outdated one. The hash covers the model's bytes, options,
target and plugin files, and versions; files that the model takes weights from are compared by size
and time. What does not hold together is compiled anew: nothing about the cache is an error. The
folder may be deleted at any time.

Copying takes 0.2 s where ge-compile takes 2.7 s (sd15_unet, 1,635 nodes). `ge.compile` needs the
module in memory, with its locations: parsing takes 0.8 s where compiling takes 1.8 s
(llama_7b_prefill, 2,043 nodes), 1.3 s against 1.6 s (sd15_unet). `ge-run` goes without.
"""

import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import file_digest, sha256
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import StringAttr

from ge import dialects, lowering, runtime, transforms
from ge.dialects.support.diagnostics import Diagnostic, Handler, Severity, diagnostic_handler
from ge.dialects.support.errors import GeError
from ge.lowering.pipeline.options import Options
from ge.lowering.plugins.extensions import REGISTERED
from ge.lowering.text.files import Outputs, is_device, link_or_copy

if TYPE_CHECKING:
    from ge.lowering.driver.compiler import Watch
    from ge.lowering.driver.program import Program
    from ge.lowering.pipeline.instrumentation import Progress

TEXT, WEIGHTS, ENTRY = "program.mlir", "program.safetensors", "entry.json"

PAYLOAD = re.compile(r'graph\.payload = ("(?:[^"\\]|\\.)*")')
"""The name of the file with weights, in the attributes of a module."""


@dataclass(frozen=True)
class Request:
    """What is to be compiled, and where the results go (None: they are not wanted)."""

    path: str
    options: Options
    output: str | None = None
    report: str | None = None
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict[str, Sequence[int]])
    dims: Mapping[str, int] = field(default_factory=dict[str, int])
    until: str = "program"
    debug_info: bool = False
    watch: "Watch | None" = None
    """Makes what watches the passes; nothing comes from the cache then."""

    def run(
        self, progress: "Progress | None" = None, tell: Handler = lambda diagnostic: None
    ) -> str:
        """Write program, weights and report, from the cache or compiled; `tell` gets warnings and
        remarks (a program that was warned about is not kept). Returns a line of figures for
        people. Raises GeError, ParseError, VerifyException as compiling does."""
        to_file = self.output not in (None, "-") and not is_device(Path(self.output))
        entry = _entry_of(self) if to_file else None
        if entry is not None and (found := _read(entry, Path(self.path).parent)) is not None:
            _restore(self, entry, found)
            return f"{found['summary']} (from the cache)"
        program, quiet = self._compile(progress, tell)
        program.save(self.output, self.report, self.debug_info)
        if entry is not None and quiet:
            _keep(self, entry, program)
        return program.summary(Path(self.path).name)

    def program(self) -> "Program":
        """The program in memory, from the cache or compiled (`ge.compile`). It is kept with its
        locations. Raises as compiling does."""
        request = replace(self, debug_info=True)
        entry = None if REGISTERED.all_passes else _entry_of(request)
        if entry is not None and (found := _read(entry, Path(self.path).parent)) is not None:
            return _recall(request, entry, found)
        program, quiet = self._compile(None, lambda diagnostic: None)
        if entry is not None and quiet:
            _keep(request, entry, program)
        return program

    def _compile(self, progress: "Progress | None", tell: Handler) -> tuple["Program", bool]:
        """The program, and whether it was compiled without a warning."""
        from ge.lowering.driver.compiler import compile_file

        warned = False

        def listen(diagnostic: Diagnostic) -> None:
            nonlocal warned
            warned |= diagnostic.severity is Severity.WARNING
            tell(diagnostic)

        with diagnostic_handler(listen):
            program = compile_file(
                self.path, self.options, self.shapes, self.dims, progress, self.until, self.watch
            )
        return program, not warned


# ---- the name of an entry --------------------------------------------------------------------


def _entry_of(request: Request) -> Path | None:
    """The folder of the entry, None where nothing is kept: no cache is asked for, the passes are
    watched, or what is compiled is no file."""
    options = request.options
    if not options.cache_dir or options.dump_graph or request.watch:
        return None
    if not Path(request.path).is_file():
        return None
    try:
        facts = {
            "versions": [(p, version(p)) for p in ("ge", "xdsl", "onnx", "numpy")],
            "compiler": list(_own_files()),
            "name": Path(request.path).name,  # the report tells it
            "files": [_hash(p) for p in (request.path, options.target, *options.plugins)],
            "options": options.of_program(),
            "shapes": {k: list(v) for k, v in request.shapes.items()},
            "dims": dict(request.dims),
            "until": request.until,
            "debug_info": request.debug_info,
        }
    except OSError:
        return None  # compiling says what is wrong
    text = json.dumps(facts, sort_keys=True)
    return Path(options.cache_dir) / sha256(text.encode()).hexdigest()


def _own_files() -> Iterator[tuple[str, int, int]]:
    """ge's own files, those of targets too: whoever works on the compiler gets no results of an
    older one."""
    for package in (dialects, lowering, runtime, transforms):
        for root in package.__path__:
            files = (f for f in Path(root).rglob("*") if f.suffix in (".py", ".toml"))
            for file in sorted(files):
                info = file.stat()
                yield file.name, info.st_size, info.st_mtime_ns


def _hash(path: str) -> str | None:
    """The hash of a file's contents, None for what is no file (the name of a preset)."""
    if not Path(path).is_file():
        return None
    with open(path, "rb") as file:
        return file_digest(file, "sha256").hexdigest()


# ---- entries ---------------------------------------------------------------------------------


def _identity(path: Path) -> list[int] | None:
    """What changes when a file does; None when there is none."""
    try:
        info = path.stat()
    except OSError:
        return None
    return [info.st_size, info.st_mtime_ns]


def _read(entry: Path, folder: Path) -> dict[str, Any] | None:
    """What is kept about a program, None unless it is whole and the files in the model's folder
    that it was made from are the same."""
    try:
        found: dict[str, Any] = json.loads((entry / ENTRY).read_text(encoding="utf-8"))
        found["program"] = (entry / TEXT).read_text(encoding="utf-8")
        sound = (
            sha256(found["program"].encode()).hexdigest() == found["text"]
            and _identity(entry / WEIGHTS) == found["weights"]
            and all(_identity(folder / name) == i for name, i in found["reads"].items())
            and isinstance(found["summary"], str)
            and isinstance(found["report"], dict)
        )
        return found if sound else None
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None


def _restore(request: Request, entry: Path, found: Mapping[str, Any]) -> None:
    """Write what a request asks for from an entry."""
    assert request.output is not None
    output, text = Path(request.output), str(found["program"])
    with Outputs() as out:
        if found["weights"] is not None:
            weights = output.with_suffix(".safetensors")
            out.link(weights, entry / WEIGHTS)
            name = f"graph.payload = {StringAttr(weights.name)}"
            text = PAYLOAD.sub(lambda _: name, text, count=1)
        out.text(output, text)
        if request.report:
            out.json(request.report, found["report"])


def _recall(request: Request, entry: Path, found: Mapping[str, Any]) -> "Program":
    """The program of an entry, in memory."""
    from ge.lowering.driver.compiler import context
    from ge.lowering.driver.program import Compilation, Program
    from ge.lowering.pipeline.instrumentation import PassRecord
    from ge.lowering.text.reading import Source, parse_module
    from ge.runtime.data.weights import PAYLOAD as ATTRIBUTE
    from ge.runtime.data.weights import open_payload

    text = PAYLOAD.sub(f'graph.payload = "{WEIGHTS}"', found["program"], count=1)
    module = parse_module(context(request.options.plugins), Source(str(entry / TEXT), text))
    payload = open_payload(module, entry)
    module.attributes.pop(ATTRIBUTE, None)
    report = found["report"]
    passes = [PassRecord(**p) for p in report["compile"]["passes"]]
    compilation = Compilation(
        request.options, passes, report["compile"]["seconds"],
        report["ops"], report["fusion"], report["memory"],
    )  # fmt: skip
    return Program(module, payload, request.path, compilation)


def _keep(request: Request, entry: Path, program: "Program") -> None:
    """Keep a program; where that fails, say so."""
    try:
        _store(request, entry, program)
    except (OSError, ValueError, GeError) as e:
        print(f"warning: {request.options.cache_dir}: nothing is kept: {e}", file=sys.stderr)


def _store(request: Request, entry: Path, program: "Program") -> None:
    """Keep a program, with what is already written for it. Raises OSError, GeError."""
    entry.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=".new-", dir=entry.parent))
    try:
        if request.output is None:
            program.save(str(made / TEXT), None, request.debug_info)
        else:
            output = Path(request.output)
            shutil.copyfile(output, made / TEXT)
            if (weights := output.with_suffix(".safetensors")).exists():
                link_or_copy(weights, made / WEIGHTS)
        text = (made / TEXT).read_text(encoding="utf-8")
        if PAYLOAD.search(text) is None:
            (made / WEIGHTS).unlink(missing_ok=True)
        about = {
            "summary": program.summary(Path(request.path).name),
            "report": program.report(),
            "text": sha256(text.encode()).hexdigest(),
            "weights": _identity(made / WEIGHTS),
            "reads": {n: _identity(Path(request.path).parent / n) for n in _reads(request.path)},
        }
        (made / ENTRY).write_text(json.dumps(about), encoding="utf-8")
        shutil.rmtree(entry, ignore_errors=True)  # it was damaged or outdated
        os.rename(made, entry)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _reads(path: str) -> list[str]:
    """The files with weights that a model or module names, in its folder."""
    if not path.endswith(".onnx"):
        text = Path(path).read_text(encoding="utf-8")
        return [json.loads(match[1]) for match in PAYLOAD.finditer(text)]
    from ge.lowering.onnx.model import external_files, read_model

    return external_files(read_model(path))


def compile_model(
    path: str,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    **options: Any,
) -> "Program":
    """`ge.compile`: a model or module by path, options by name (see Options); what is not given
    comes from the environment. Raises GeError for what is wrong with model or options."""
    given = Options.from_environment(**options)
    return Request(path, given, shapes=shapes or {}, dims=dims or {}).program()
