"""Files that repeat a run of passes: a module, and what to do with it where mlir-opt writes it.

    {-#
      external_resources: {
        mlir_reproducer: {
          pipeline: "builtin.module(cse)",
          disable_threading: true,
          verify_each: true
        }
      }
    #-}

`mlir-opt --run-reproducer` takes what is written here, and `ge-opt` what mlir-opt writes, where
both know the dialects and the passes.
"""

import os
import re
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass
from xdsl.utils.lexer import Input
from xdsl.utils.mlir_lexer import StringLiteral

from ge.dialects.support.diagnostics import diagnostic_handler
from ge.dialects.support.packages import installed
from ge.dialects.text.printing import op_text
from ge.lowering.pipeline.pass_manager import Instrumentation
from ge.lowering.pipeline.pass_options import pipeline_text
from ge.runtime.data.files import write_text

RESOURCE = """
{{-#
  external_resources: {{
    mlir_reproducer: {{
      pipeline: {pipeline},
      disable_threading: true,
      verify_each: {verify}
    }}
  }}
#-}}
"""

PACKAGES = "// packages:"  # what is installed beside ge: `acme-npu 1.0, ...`

BEGIN = re.compile(r"^\{-#", re.MULTILINE)
RECORDED = re.compile(r"\bmlir_reproducer:\s*\{(?P<entries>(?:[^}\"]|\"(?:[^\"\\]|\\.)*\")*)\}")
ENTRY = re.compile(r"(?P<key>\w+)\s*:\s*(?P<value>true|false|\"(?:[^\"\\]|\\.)*\")")


@dataclass(frozen=True)
class Recorded:
    """A reproducer's request for its module. Nothing else is taken: a file never chooses code to
    load."""

    pipeline: str
    verify_each: bool = True

    @classmethod
    def of(cls, text: str) -> "Recorded | None":
        """Read the request of a reproducer; None for a file that is none."""
        *_, start = -1, *(m.start() for m in BEGIN.finditer(text))
        if start < 0 or (found := RECORDED.search(text, start)) is None:
            return None
        entries = {e["key"]: e["value"] for e in ENTRY.finditer(found["entries"])}
        if not (quoted := entries.get("pipeline", "")).startswith('"'):
            return None
        pipeline = StringLiteral(0, len(quoted), Input(quoted, "")).string_contents
        return cls(pipeline, entries.get("verify_each") != "false")


def reproducer_text(
    module: str, passes: Sequence[ModulePass], verify_each: bool = True, why: str = ""
) -> str:
    """A file for a module's text, which says in comments why it was written, and which installed
    packages took part."""
    pipeline = str(StringAttr(pipeline_text(passes)))
    head = f"// error: {' '.join(why.split())}\n" if why else ""
    if packages := package_texts():
        head += f"{PACKAGES} {', '.join(packages)}\n"
    verify = str(verify_each).lower()
    return f"{head}{module}\n{RESOURCE.format(pipeline=pipeline, verify=verify)}"


def package_texts() -> list[str]:
    return [f"{p.name} {p.version}" for p in installed()]


def missing_packages(text: str) -> list[str]:
    """The packages that took part where a reproducer was written, and do not here."""
    head = text.split("\n", 2)[:2]
    named = next((line.removeprefix(PACKAGES) for line in head if line.startswith(PACKAGES)), "")
    return [p for part in named.split(",") if (p := part.strip()) and p not in package_texts()]


def portable_text(module: ModuleOp) -> str:
    """A module as any tool reads it."""
    return op_text(module, generic=True, debuginfo=True)


@dataclass
class Reproducer(Instrumentation):
    """On failure, writes the module as it was with the passes still to run: a file that
    `ge-opt FILE` runs again. `local` keeps the failing pass only."""

    path: Path
    passes: Sequence[ModulePass]
    verify_each: bool = True
    local: bool = False
    _text: str | None = None

    def before(self, p: ModulePass, module: ModuleOp) -> None:
        if self.local or self._text is None:
            self._text = portable_text(module)

    def start(self, module: ModuleOp) -> None:
        self._text = None

    def failed(self, p: ModulePass, module: ModuleOp, why: str) -> None:
        passes = [p] if self.local else self.passes
        write_text(self.path, reproducer_text(self._text or "", passes, self.verify_each, why))


@dataclass
class Saving(Instrumentation):
    """Writes the module that passes begin with, and the passes: nothing need fail."""

    path: Path
    passes: Sequence[ModulePass]
    verify_each: bool = True

    def start(self, module: ModuleOp) -> None:
        text = reproducer_text(portable_text(module), self.passes, self.verify_each)
        write_text(self.path, text)


def reproduce(run: Callable[[Reproducer], object]) -> str:
    """A file with the module right before the pass that fails when `run` does it all again; no name
    when nothing fails now."""
    handle, name = tempfile.mkstemp(".mlir", "ge-crash-")
    os.close(handle)
    with suppress(Exception), diagnostic_handler(lambda _: None):
        run(Reproducer(Path(name), (), local=True))
    if Path(name).stat().st_size:
        return name
    Path(name).unlink()
    return ""
