"""What `ge-opt --bisect` compares by."""

import math
from collections.abc import Sequence
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ge.dialects.support.diagnostics import Diagnostic
from ge.dialects.support.errors import GeError
from ge.runtime.data.weights import open_payload
from ge.runtime.device.trials import runner_for
from ge.tools.debugging.bisect import Bisection, Diagnosis, Judge, Script, told
from ge.tools.debugging.validation import compared

SECONDS = 600.0  # that one run of a script may take


def bisect(
    ctx: Context, passes: Sequence[ModulePass], module: ModuleOp, folder: Path, script: str
) -> Diagnostic | None:
    """Find what does harm; None if nothing does. `script`: one that says so of a module in a file,
    empty: numbers and verification. Raises GeError where it says so of the input."""
    judge = by_script(script, module, folder) if script else by_numbers(folder)
    culprit = Bisection(ctx, passes, judge).find(module)
    return None if culprit is None else told(culprit, passes)


def by_numbers(folder: Path) -> Diagnosis:
    def judge(p: ModulePass, old: ModuleOp, new: ModuleOp) -> str:
        payload = open_payload(old, folder)
        try:
            runner = runner_for(old, payload)
        except GeError:  # what cannot be run is held to verification alone
            return ""
        done = compared(runner_for, p, (old, new), payload, runner, runner.first)
        return "" if done.difference is None else f"it changes the numbers: {done.difference}"

    return judge


def by_script(text: str, module: ModuleOp, folder: Path) -> Diagnosis:
    payload = open_payload(module, folder)
    of_file = Judge(Script.of(text, (), SECONDS), payload, math.inf)
    if of_file.ask(module):
        raise GeError("the script says that the input is wrong before any pass (status 1)")
    return lambda p, old, new: "the script says so" if of_file(new) else ""
