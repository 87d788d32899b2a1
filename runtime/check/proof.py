"""The proof of a program: its plan, schedule, figures, certificate, and the plans of its kernels.

What is proved holds for each run on the target, whatever the time that tasks take and whatever the
inputs. Taken on trust are

- what memrefs are views of, what ops read and write, and what kernels may overwrite (the dialect's
  word, and the emulator's);
- that a loop with a condition that the program computes comes to its end;
- sizes that are known only at run time: that values fit where they are copied to, and that what the
  device allocates for them fits beside the rest;
- `npu_task.cap_bytes` in runs in which no single stream is ahead of all others, and of buffers that
  are made inside of branches and loops; arena_bytes is a limit for all;
- that the kernels, and their order, compute what the model asks for.
"""

from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import DenseArrayBase, DictionaryAttr, ModuleOp

from ge.dialects.npu_task.ops import CopyOp, LaunchOp, TransferOp, is_dynamic
from ge.dialects.npu_task.program_info import CERTIFICATE, figure
from ge.dialects.support.functions import main_function
from ge.dialects.targets.target import Target, target_for
from ge.runtime.check.certificate import check_certificate
from ge.runtime.check.cores import prove_core_plans
from ge.runtime.check.figures import check_figures, footprint
from ge.runtime.check.happens_before import HappensBefore
from ge.runtime.check.memory import check_plan
from ge.runtime.check.problems import Problem
from ge.runtime.check.schedule import check_streams

SAID_BY_THE_PLAN = {"stream", "lost wake-up"}
"""Problems of a schedule that the plan's check has as well."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What the checks of a program have to say: problems, or else what is proved."""

    problems: list[Problem]
    proved: str = ""

    @property
    def summary(self) -> str:
        """The outcome in one line."""
        if count := len(self.problems):
            return f"not proved, {count} problem{'s' if count > 1 else ''}"
        return f"proved, {self.proved}"


def check_program(module: ModuleOp, target: Target | None = None) -> Proof:
    """Prove the memory plan, the schedule, the figures and the certificate of a program, and what
    its kernels say about the memories of a core. Without a target, its limits are those of the one
    that the program names. Raises GeError when that cannot be read."""
    main = main_function(module)
    if main is None:
        return Proof([Problem("figure", "there is no @main", module)])
    target = target or target_for(main)
    order = HappensBefore(main)
    plan = check_plan(module, order)
    schedule = check_streams(module, target, order)
    cores = prove_core_plans(module, target)
    problems = [
        *plan,
        *(p for p in schedule if not plan or p.kind not in SAID_BY_THE_PLAN),
        *check_figures(module, target),
        *check_certificate(module),
        *cores.problems,
    ]
    if problems:
        return Proof(problems)
    claims = cast(DictionaryAttr, main.attributes[CERTIFICATE]).data
    peak, bound = figure(main, "arena_bytes") or 0, figure(main, "lower_bound_bytes") or 0
    gap = "which is optimal" if peak == bound else f"{peak - bound} over the lower bound"
    ops = list(main.walk())
    tasks = sum(isinstance(op, LaunchOp | CopyOp | TransferOp) for op in ops)
    dynamic = sum(is_dynamic(v.type) for op in ops for v in op.results)
    unsized = f", {dynamic} buffers without a size that is known are not counted" if dynamic else ""
    return Proof(
        [],
        f"{tasks} tasks on {figure(main, 'streams')} streams, arena of {peak} bytes, {gap}, "
        f"{len(cast(DenseArrayBase, claims['live']))} tensors live at the peak, "
        f"{footprint(main)} of {target.hbm_bytes} bytes of {target.name}{unsized}, {cores.summary}",
    )
