"""A script that says whether a file shows what is looked for, as of mlir-reduce.

It gets its arguments and then the name of the file. Status 0: the file is not interesting; any
other up to 125: it is. (llvm-reduce has it the other way round.) A script that cannot be run, that
is ended by a signal, or whose shell finds no command (126, 127) says nothing of the file: that is
an error.
"""

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from ge.dialects.support.errors import GeError
from ge.dialects.text.printing import op_text
from ge.lowering.levels.dominance import verify
from ge.runtime.data.files import Outputs, write_module
from ge.runtime.data.weights import Payload

NOT_FOUND = (126, 127)  # statuses of a shell: no command that can be run, no command


class TookTooLongError(Exception):
    """The script was ended after its time."""


@dataclass
class Script:
    """`command`: the script and its arguments; `seconds`: how long one run may take."""

    command: Sequence[str]
    seconds: float
    runs: int = 0
    late: int = 0  # runs that were ended

    @classmethod
    def of(cls, text: str, arguments: Sequence[str], seconds: float) -> "Script":
        """The script of a command line: the name of a file, or a command with arguments. Raises
        GeError for what cannot be run."""
        words = [text] if Path(text).is_file() else _words(text)
        name = words[0] if words else ""
        path = shutil.which(name)
        if path is None and Path(name).is_file():
            raise GeError(f"the test script '{name}' cannot be run", hint=f"chmod +x {name}")
        if path is None:
            raise GeError(f"there is no test script '{name}'")
        return cls((str(Path(path).absolute()), *words[1:], *arguments), seconds)

    def is_interesting(self, file: Path) -> bool:
        """Raises GeError where the script says nothing of the file, TookTooLongError for one that
        was ended."""
        self.runs += 1
        try:
            process = subprocess.Popen(
                (*self.command, str(file)),
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                start_new_session=True,  # what it starts is ended with it
            )  # fmt: skip
        except OSError as e:
            what = f"the test script '{self.command[0]}' cannot be run: {e.strerror}"
            raise GeError(
                what, hint="its first line names the program that runs it: #!/bin/sh"
            ) from e
        try:
            status = process.wait(self.seconds)
        except subprocess.TimeoutExpired:
            self.late += 1
            raise TookTooLongError from None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if status < 0:
            name = signal.Signals(-status).name
            raise GeError(f"the test script was ended by {name}: it says nothing of {file}")
        if status in NOT_FOUND:
            raise GeError(
                f"the test script ended with status {status}: a command in it cannot be run",
                hint=f"try {shlex.join(self.command)} FILE",
            )
        return status != 0


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as e:
        raise GeError(f"the test '{text}' cannot be read: {e}") from None


@dataclass
class Judge:
    """Whether a module is interesting: it is valid, and the script says so of it as a file. What
    was asked before is remembered; after `end` (of `time.monotonic`) nothing is any more."""

    script: Script
    payload: Payload
    end: float
    _known: dict[str, bool] = field(default_factory=dict[str, bool])

    def __call__(self, module: ModuleOp) -> bool:
        if time.monotonic() > self.end:
            return False
        try:
            verify(module)
            text = op_text(module)
        except Exception:  # a candidate may be wrong in any way
            return False
        if text not in self._known:
            try:
                self._known[text] = self.ask(module)
            except TookTooLongError:
                self._known[text] = False
        return self._known[text]

    def ask(self, module: ModuleOp) -> bool:
        """Raises as the script does."""
        with tempfile.TemporaryDirectory(prefix="ge-reduce-") as folder:
            path = Path(folder) / "candidate.mlir"
            with Outputs() as out:
                write_module(out, path, module, self.payload)
            return self.script.is_interesting(path)
