"""The proof of a program: its plan, schedule, figures, certificate, and the plans of its kernels.

What is proved holds for each run on the target, whatever the time that tasks take and whatever the
inputs. Taken on trust are

- what memrefs are views of, what ops read and write, and what kernels may overwrite (the dialect's
  word, and the emulator's);
- that of state that grows (`npu_task.grows`) attention reads only the rows that its length leaves,
  and that the session counts them, and gives each block of rows a place of its own in their table;
- that a loop with a condition that the program computes comes to its end;
- sizes that are known only at run time: that values fit where they are copied to, that they take no
  more bytes than they state (a run refuses those that do), and that what the device allocates for
  them fits beside the rest;
- `npu_task.cap_bytes` in runs in which no single stream is ahead of all others, and inside of
  branches and loops; arena_bytes is a limit for all;
- that the kernels, and their order, compute what the model asks for.
"""

from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import DenseArrayBase, ModuleOp
from xdsl.dialects.func import FuncOp

from ge.dialects.graph.ports import dim_ranges
from ge.dialects.npu_task.attributes import HOST, is_dynamic, space_of
from ge.dialects.npu_task.memory import Task
from ge.dialects.npu_task.ops import KernelOp, SlotOp
from ge.dialects.npu_task.program_info import CAP, figure
from ge.dialects.npu_task.sizes import placed_results
from ge.dialects.support.functions import main_function
from ge.dialects.targets.target import Target, target_for
from ge.runtime.check.certificate import CertificateProof, prove_certificate
from ge.runtime.check.cores import prove_core_plans
from ge.runtime.check.dynamic_sizes import DynamicSizes
from ge.runtime.check.figures import check_figures, taken_bytes
from ge.runtime.check.happens_before import HappensBefore
from ge.runtime.check.memory import check_plan
from ge.runtime.check.problems import Problem
from ge.runtime.check.schedule import check_streams

# Problems of a schedule that the plan's check has as well
SAID_BY_THE_PLAN = {"stream", "lost wake-up"}


@dataclass(frozen=True, slots=True)
class Proof:
    """The problems of a program, and what was proved where there are none."""

    problems: list[Problem]
    proved: str = ""

    @property
    def summary(self) -> str:
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
    certificate = prove_certificate(main)
    cores = prove_core_plans(module, target)
    kernels = {op.sym_name.data: op for op in module.ops if isinstance(op, KernelOp)}
    sizes = DynamicSizes(main, kernels)
    sizes.check()
    problems = [
        *plan,
        *(p for p in schedule if not plan or p.kind not in SAID_BY_THE_PLAN),
        *check_figures(module, target),
        *certificate.problems,
        *sizes.problems.values(),
        *cores.problems,
    ]
    if problems:
        return Proof(problems)
    ops = list(main.walk())
    tasks = sum(isinstance(op, Task) for op in ops)
    dynamic = sum(is_dynamic(v.type) and space_of(v.type) != HOST for op in ops for v in op.results)
    ranges = dim_ranges(main)
    placed = sum(1 for op in ops for _ in placed_results(op, ranges))
    arena = f"arena of {figure(main, 'arena_bytes')} bytes"
    known = sum(isinstance(op, SlotOp) and op.segment.data == "arena" for op in ops)
    parts = [
        f"{tasks} tasks on {figure(main, 'streams')} streams",
        f"{arena} for the {known} tensors of known size" if dynamic else arena,
        *([] if dynamic else [_optimality(main, certificate)]),
        f"{len(cast(DenseArrayBase, certificate.claims['live']))} tensors live at the peak",
        f"{sum(taken_bytes(module, main).values())} of {target.hbm_bytes} bytes of {target.name}",
    ]
    if placed:
        sizes = ", ".join(f"{name}={r}" for name, r in ranges.items())
        place = f"{placed} of unknown size lie in {figure(main, 'dynamic_bytes')} bytes more"
        parts.append(f"{place}, at all sizes of {sizes}" if sizes else f"{place}, at the most")
    if dynamic > placed:
        count = f"{dynamic - placed} tensors whose size is known at run time"
        parts.append(f"nothing is proved of the memory of {count}")
    if CAP in main.attributes:
        parts.append(
            f"at most {figure(main, 'cap_bytes')} bytes live outside of branches and loops "
            "when one stream runs ahead of the others"
        )
    return Proof([], ", ".join([*parts, cores.summary]))


def _optimality(main: FuncOp, certificate: CertificateProof) -> str:
    """How far the arena is from the least that the order of the tasks needs."""
    peak = figure(main, "arena_bytes") or 0
    if peak == certificate.least:
        return "which is optimal for the order of its tasks"
    if peak == certificate.bound:
        text = "which is optimal for slots live from first to last use"
        return f"{text} ({certificate.least} bytes without their gaps)"
    return f"{peak - certificate.bound} over the lower bound"
