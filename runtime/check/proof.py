"""The proof of a program: its plan, schedule, figures, certificate, and the engines and tile
programs of its kernels.

The proof holds for each run on the target, whatever the time that tasks take and whatever the
inputs. A summary says what it relies on of this program: "provided that". Taken on trust are

- what memrefs are views of, what ops read and write, and what kernels may overwrite (the dialect's
  word, and the emulator's);
- that of state that grows (`npu_task.grows`) attention reads only the rows that its length leaves,
  and that the session counts them, and gives each block of rows a place of its own in their table;
- that a loop with a condition that the program computes comes to its end;
- sizes that are known only at run time: that values fit where they are copied to, that they take no
  more bytes than they state (a run refuses those that do), that devices which allocate tensors of
  equal sizes in one order have them at one place, and that what the device allocates for
  them fits beside the rest;
- `npu_task.cap_bytes` in runs in which no single stream is ahead of all others, and inside of
  branches and loops; arena_bytes is a limit for all;
- that the kernels, and their order, compute what the model asks for.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import DenseArrayBase, ModuleOp
from xdsl.dialects.func import FuncOp

from ge.dialects.graph.sharding import mesh_of
from ge.dialects.graph.stated import dim_ranges
from ge.dialects.npu_task.attributes import (
    CAP,
    CERTIFICATE,
    GROWS,
    HOST,
    figure,
    placed_results,
    space_of,
)
from ge.dialects.npu_task.control import LoopOp
from ge.dialects.npu_task.memory import Task
from ge.dialects.npu_task.ops import KernelOp, SlotOp
from ge.dialects.npu_task.pipeline import is_pipeline, programs_of, stages_of
from ge.dialects.support.functions import main_function
from ge.dialects.support.types import is_dynamic
from ge.dialects.targets.target import Target, target_for
from ge.runtime.check.certificate import (
    CertificateProof,
    check_figures,
    is_buffer,
    prove_certificate,
    taken_bytes,
)
from ge.runtime.check.devices import check_devices, check_met, device_clauses
from ge.runtime.check.dynamic_sizes import DynamicSizes
from ge.runtime.check.growing_state import masks_of
from ge.runtime.check.happens_before import HappensBefore
from ge.runtime.check.memory import check_plan
from ge.runtime.check.padding import check_padding, unmeasured
from ge.runtime.check.problems import Problem, require_none
from ge.runtime.check.schedule import check_streams, prove_cores
from ge.runtime.check.stages import check_stages, stage_clauses
from ge.runtime.check.tiles import KernelProof, check_kernels

# Problems of a schedule that the plan's check has as well
SAID_BY_THE_PLAN = {"S1", "S4"}


@dataclass(frozen=True, slots=True)
class Proof:
    """The problems of a program, and a summary of the proof if there are none."""

    problems: list[Problem]
    proved: str = ""
    provided: Sequence[str] = ()  # what the proof relies on
    tiles: Sequence[KernelProof] = ()  # of its tile programs

    @property
    def summary(self) -> str:
        if count := len(self.problems):
            return f"not proved, {count} problem{'s' if count > 1 else ''}"
        return f"proved, {self.proved}{self.condition}"

    @property
    def condition(self) -> str:
        return f", provided that {', that '.join(self.provided)}"


def check_program(module: ModuleOp, target: Target | None = None, with_tiles: bool = True) -> Proof:
    """Prove the memory plan, the schedule, the figures and the certificate of a program, and the
    tile programs of its kernels if these are to run. Without a target, its limits are those of the
    one that the program names. Raises GeError when that cannot be read."""
    main = main_function(module)
    if main is None:
        return Proof([Problem("F1", "there is no @main", module)])
    target = target or target_for(main)
    if is_pipeline(module):
        return check_pipeline(module, target, with_tiles)
    order = HappensBefore(main)
    plan = check_plan(module, order)
    schedule = check_streams(module, target, order)
    certificate = prove_certificate(main)
    cores = prove_cores(module, target)
    kernels = {op.sym_name.data: op for op in module.ops if isinstance(op, KernelOp)}
    dynamic_sizes = DynamicSizes(main, kernels)
    dynamic_sizes.check()
    tiles = check_kernels(module, target) if with_tiles else []
    padding, relied = check_padding(module, main)
    problems = [
        *plan,
        *(p for p in schedule if not plan or p.rule not in SAID_BY_THE_PLAN),
        *check_figures(module, target),
        *certificate.problems,
        *dynamic_sizes.problems.values(),
        *padding,
        *cores.problems,
        *check_devices(module, order),
        *(p for kernel in tiles for p in kernel.problems),
    ]
    if problems:
        return Proof(problems, tiles=tiles)
    ops = list(main.walk())
    tasks = sum(isinstance(op, Task) for op in ops)
    buffers = (v.type for op in ops for v in op.results if is_buffer(v))
    dynamic = sum(is_dynamic(t) and space_of(t) != HOST for t in buffers)
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
    parts += _more(main, placed)
    if dynamic > placed:
        count = f"{dynamic - placed} tensors whose size is known at run time"
        parts.append(f"nothing is proved of the memory of {count}")
    provided = assumptions(main, kernels, len(dynamic_sizes.trusted), dynamic - placed)
    parts += [*device_clauses(module), *cores.summary]
    return Proof([], ", ".join(parts), [*relied, *provided], tiles)


def check_pipeline(module: ModuleOp, target: Target, with_tiles: bool) -> Proof:
    """Prove the program of each stage, and that they fit together."""
    problems = check_stages(module, target)
    stages = [s for s in stages_of(module) if main_function(s) is not None]
    proofs = [check_program(stage, target, with_tiles) for stage in stages]
    problems += [p for proof in proofs for p in proof.problems]
    tiles = [kernel for proof in proofs for kernel in proof.tiles]
    if problems:
        return Proof(problems, tiles=tiles)
    parts = [*stage_clauses(module), *(f"stage {n}: {p.proved}" for n, p in enumerate(proofs))]
    provided = dict.fromkeys(text for proof in proofs for text in proof.provided)
    return Proof([], "; ".join(parts), [*provided], tiles)


def assumptions(
    main: FuncOp, kernels: Mapping[str, KernelOp], stated: int, allocated: int
) -> Iterator[str]:
    """The assumptions that the proof of a program relies on, each as a clause. `stated`: tensors of
    whose size nothing follows from types; `allocated`: those that have no place in the plan."""
    ops = list(main.walk())
    if any(isinstance(op, LoopOp) and op.condition is not None for op in ops):
        yield "loops with a condition end"
    if stated:
        yield f"{stated} tensors take no more bytes than they state (a run refuses those that do)"
    if allocated:
        yield f"what the device allocates for {allocated} tensors fits beside the rest"
    if any(GROWS in op.attributes for op in ops):
        yield "the session counts the rows of states that grow, and attention reads no others"
    if names := unmeasured(main):
        sizes = " and ".join(f"'{name}'" for name in names)
        yield f"{sizes} fit where inputs are copied to (a run refuses those that do not)"
    masks = masks_of(main, kernels)
    for name in () if masks is None else dict.fromkeys(masks.unfollowed):
        yield f"input '{name}' has as many elements as attention reads of it"
    yield "its kernels, in this order, compute what the model asks for"


def require_proved(module: ModuleOp, with_tiles: bool = True) -> str:
    """Raises GeError that lists the errors of a program, if there are any; with its tile programs
    where these are to run. Of a program that states no figures (written by hand) only these, plan
    and schedule are proved. Returns a text that says what is proved."""
    main = main_function(module)
    ops = [op for program in programs_of(module) for op in program.ops]
    has_tiles = any(isinstance(op, KernelOp) and op.tiles is not None for op in ops)
    left_out = "; its tile programs, which do not run, are not" if has_tiles > with_tiles else ""
    if main is None or is_pipeline(module) or CERTIFICATE in main.attributes:
        require_none(check_program(module, with_tiles=with_tiles).problems, "program")
        return f"the program is proved, as by ge-check{left_out}"
    order, target = HappensBefore(main), target_for(main)
    plan, schedule = check_plan(module, order), check_streams(module, target, order)
    kernels = check_kernels(module, target) if with_tiles else []
    tiles = (p for kernel in kernels for p in kernel.problems)
    require_none([*plan, *schedule, *check_devices(module, order), *tiles], "program")
    what = "plan, schedule and tile programs" if with_tiles else "plan and schedule"
    return f"{what} are proved; figures and capacity are not stated{left_out}"


def require_met(module: ModuleOp) -> None:
    """Raises GeError where a program launches a collective in a kernel that is not its own, or over
    other axes than the mesh has: what can be seen of it without a proof."""
    for program in programs_of(module):
        if (mesh := mesh_of(program)) is not None:
            require_none(check_met(program, mesh), "program")


def _more(main: FuncOp, placed: int) -> Iterator[str]:
    """Clauses on tensors of unknown size, and on streams that run ahead."""
    if placed:
        sizes = ", ".join(f"{name}={r}" for name, r in dim_ranges(main).items())
        place = f"{placed} of unknown size lie in {figure(main, 'dynamic_bytes')} bytes more"
        yield f"{place}, at all sizes of {sizes}" if sizes else f"{place}, at the most"
    if CAP in main.attributes:
        yield (
            f"at most {figure(main, 'cap_bytes')} bytes live outside of branches and loops "
            "when one stream runs ahead of the others"
        )


def _optimality(main: FuncOp, certificate: CertificateProof) -> str:
    """The distance of the arena from the least that the order of the tasks needs, in words."""
    peak = figure(main, "arena_bytes") or 0
    if peak == certificate.least:
        return "which is optimal for the order of its tasks"
    if peak == certificate.bound:
        text = "which is optimal for slots live from first to last use"
        return f"{text} ({certificate.least} bytes without their gaps)"
    return f"{peak - certificate.bound} over the lower bound"
