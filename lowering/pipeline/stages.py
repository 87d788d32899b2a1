"""The default pipeline as data, and the driver that runs it on one module in one process."""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ge.dialects.support.errors import GeError
from ge.lowering.pipeline.instrumentation import Instrumentation, PassManager, count_ops
from ge.lowering.pipeline.options import Options
from ge.lowering.pipeline.pass_options import PassTable, PassText, build_pipeline, read_pipeline
from ge.lowering.pipeline.remedies import Remedies
from ge.lowering.plugins.extensions import passes_at_levels
from ge.lowering.plugins.universe import rules

CLEAN_UP = (
    "simplify-movement",
    "move-transposes",
    "simplify-algebra",
    "simplify-control-flow",
    "deduplicate-constants",
    "share-common-subexpressions",
    "absorb-transposes",
    "fold-batch-norm",
)
"""Passes at the graph level that bring ops to their simplest form."""

COMPOSITES = ("find-norms", "find-rotary", "find-softmax", "find-attention")

EXACT = (
    "simplify-movement",
    "move-transposes",
    "simplify-algebra",
    "absorb-transposes",
    "fold-batch-norm",
)
"""Those that keep every bit when they are told to."""


SEARCH_LONG = 30_000
"""Steps of the search for the smallest packing at memory level 3: about 6 seconds."""

SEARCH_BRIEFLY = 3_000
"""Steps at lower levels, where the quick methods leave a gap: about half a second. Most gaps of
real graphs close in a few hundred."""

SEARCH_FOR_LIMIT = 15_000
"""Steps where the program did not fit."""


SLOWER_FOR_LIMIT = "2.0"
"""How many times as long the tasks may take where the program did not fit."""


def stages(options: Options, remedies: Remedies | None = None) -> dict[str, list[str]]:
    """Level -> the passes that lead there from the level before, as `ge-opt -p` takes them, those
    of plugins last; with what is to be done about the memory limit. Raises GeError for a plugin
    that cannot be loaded."""
    done = remedies or Remedies(options.memory_limit)
    recomputes = options.memory > 2 and done.slower > 1
    elementwise = recomputes and done.elementwise and options.fusion != "off"

    def targeted(name: str, **more: str) -> str:
        given = {"target": options.target, **more}
        return str(PassText(name, {k: (v,) for k, v in given.items()}))

    found = {
        "graph": [
            *pruning(options),
            "infer-shapes",
            "fold-constants",
            *(["simplify-control-flow"] if options.fusion != "off" else []),
            *(["expand-einsum"] if options.fusion not in ("off", "conservative") else []),
            *composites(options),
            *clean_up(options),
            *composites(options),
            "prepare-weights",
            "eliminate-dead-code",
        ],
        "fused": [
            *(["recompute-elementwise"] if elementwise else []),
            *(targeted(name, **more) for name, more in fusion(options, done.fuse).items()),
            *(["extract-concats"] if options.memory else []),
        ],
        "tasks": [
            targeted("lower-to-tasks"),
            *([targeted("order-tasks")] if (options.memory > 1) != done.order else []),
            *recomputation(options, done, recomputes),
        ],
        "buffers": [
            *bufferization(options),
            *in_place(options),
            *([targeted("split-launches")] if options.pieces else []),
            *spilling(options, done),
        ],
        "program": [targeted("assign-streams"), planning(options, done), core_planning(options)],
    }
    for level, name in passes_at_levels(*options.plugins):
        if level not in found:
            levels = ", ".join(found)
            raise GeError(f"pass '{name}' states level '{level}'", hint=f"levels are {levels}")
        found[level].insert(0 if level == "fused" else len(found[level]), name)
    return {level: without_disabled(names, options) for level, names in found.items()}


def composites(options: Options) -> list[str]:
    """The passes that find composites in what exporters write out. They come before the clean-up,
    which may tear a spelling apart, and after it, when more has one spelling."""
    if options.fusion in ("off", "conservative"):
        return []
    aggressive = "{aggressive=true}" if options.fusion == "aggressive" else ""
    return [
        "resolve-shapes",
        "share-common-subexpressions",
        f"find-activations{aggressive}",
        *COMPOSITES,
    ]


def clean_up(options: Options) -> list[str]:
    """The passes that simplify the graph: none when off, conservative so that every bit stays."""
    if options.fusion == "off":
        return []
    exact = options.fusion == "conservative"
    return [f"{name}{{exact=true}}" if exact and name in EXACT else name for name in CLEAN_UP]


def fusion(options: Options, for_memory: bool = False) -> dict[str, dict[str, str]]:
    """The passes that put ops into one launch, with their options: none when off, conservative
    those that keep every bit."""
    if options.fusion == "off":
        return {}
    exact = {"exact": "true"} if options.fusion == "conservative" else {}
    passes: dict[str, dict[str, str]] = {
        "fuse-linear": {},
        "fuse-conv": {},
        "fuse-attention": exact,
        "fuse-norm": {},
        "fuse-region": {},
    }
    if options.fusion == "aggressive":
        passes["fuse-region"] = {"recompute": "true", "peak-memory": "true"}
    elif for_memory:
        passes["fuse-region"] = {"peak-memory": "true"}
    return passes


def bufferization(options: Options) -> list[str]:
    return ["bufferize-tasks{share-io=true}" if options.share_io else "bufferize-tasks"]


def in_place(options: Options) -> list[str]:
    """The passes that put results where they need no bytes of their own, from memory level 1 on."""
    given = {"no-reuse": options.no_reuse} if options.no_reuse else {}
    return ["write-parts", str(PassText("overwrite-operands", given))] if options.memory else []


def recomputation(options: Options, remedies: Remedies, always: bool) -> list[str]:
    """The pass that computes values again: as far as the limit wants it, else where that is done
    always, as far as it pays."""
    given = {"target": (options.target,), "slower": (str(remedies.slower),)}
    if remedies.recompute:
        given |= {"limit": (str(remedies.recompute),), "slower": (SLOWER_FOR_LIMIT,)}
    return [str(PassText("rematerialize", given))] if remedies.recompute or always else []


def spilling(options: Options, remedies: Remedies) -> list[str]:
    """The pass that takes buffers to the host, where the limit wants it."""
    if not remedies.spill:
        return []
    given: dict[str, tuple[str, ...]] = {
        "limit": (str(remedies.spill),),
        "target": (options.target,),
    }
    if options.no_reuse:
        given["no-reuse"] = options.no_reuse
    return [str(PassText("spill-buffers", given))]


def planning(options: Options, remedies: Remedies) -> str:
    """The pass that plans the memory, as memory level and limit want it."""
    given: dict[str, tuple[str, ...]] = {
        "target": (options.target,),
        "reuse": (str(options.memory > 0).lower(),),
    }
    if options.no_reuse:
        given["no-reuse"] = options.no_reuse
    if options.print_liveness:
        given["print-liveness"] = ("true",)
    if remedies.limit:
        given["limit"] = (str(remedies.limit),)
    if options.memory >= 3:
        given["search"] = (str(SEARCH_LONG),)
    elif options.memory:
        given["search"] = (str(SEARCH_FOR_LIMIT if remedies.any else SEARCH_BRIEFLY),)
    return str(PassText("plan-memory", given))


def core_planning(options: Options) -> str:
    """The pass that plans the memories of a core for each kernel."""
    given = {"target": (options.target,)}
    if options.print_core_plans:
        given["print-plans"] = ("true",)
    return str(PassText("plan-core-memory", given))


def without_disabled(names: Sequence[str], options: Options) -> list[str]:
    """The passes that are not switched off."""
    return [n for n in names if n.partition("{")[0] not in options.fusion_disable]


REQUIRED = frozenset(
    (
        *("prune-outputs", "infer-shapes", "prepare-weights", "lower-to-tasks"),
        *("bufferize-tasks", "spill-buffers", "assign-streams", "plan-memory", "verify-level"),
    )
)
"""Passes that a program cannot do without, where the options have them run."""


def check_switches(options: Options, available: Collection[str]) -> None:
    """Raises GeError for the name of a rule to leave out that no pass and no rule has, and for
    that of a pass that cannot be left out."""
    for name in options.fusion_disable:
        if name in REQUIRED:
            hint = "passes and rules that only make the program better can be: ge-opt --list-rules"
            raise GeError(f"pass '{name}' cannot be left out: programs need it", hint=hint)
    unknown = [n for n in options.fusion_disable if n not in available]
    if not unknown:
        return
    known = rules()
    for name in unknown:
        if name not in known:
            near = get_close_matches(name, [*known, *available], 1)
            close = f"did you mean {near[0]}? " if near else ""
            hint = f"{close}the rules are {', '.join(known)}; passes: see ge-opt --list-passes"
            raise GeError(f"there is no rule '{name}' to leave out", hint=hint)


def pruning(options: Options) -> list[str]:
    """The pass that removes the outputs and inputs that are not wanted, if there are any."""
    given: dict[str, tuple[str, ...]] = {}
    if options.outputs:
        given["outputs"] = options.outputs
    if options.drop_unused_inputs:
        given["unused-inputs"] = ("true",)
    return [str(PassText("prune-outputs", given))] if given else []


def pipeline(options: Options) -> list[str]:
    """The default pipeline: all stages, each closed by a check that its level is legal."""
    passes: list[str] = []
    for level, names in stages(options).items():
        passes += names
        if options.verify:
            passes.append(f"verify-level{{level={level}}}")
    return passes


@dataclass
class PassRecord:
    """What one pass did: wall time, and the number of ops after it."""

    name: str
    seconds: float
    ops: int


Progress = Callable[[str, int, int], None]
"""Called before each pass with its name, its number and the number of passes."""


@dataclass
class _Records(Instrumentation):
    """Keeps a record of each pass, and tells how far things are."""

    total: int
    progress: Progress | None
    observe: Callable[[str, ModuleOp], None] | None
    records: list[PassRecord] = field(default_factory=list[PassRecord])
    _start: float = 0.0

    def before(self, p: ModulePass, module: ModuleOp) -> None:
        if self.progress is not None:
            self.progress(p.name, len(self.records), self.total)
        self._start = time.perf_counter()

    def after(self, p: ModulePass, module: ModuleOp) -> None:
        seconds = time.perf_counter() - self._start
        self.records.append(PassRecord(p.name, seconds, count_ops(module)))
        if self.observe is not None:
            self.observe(p.name, module)


def run_passes(
    module: ModuleOp,
    specs: Sequence[str],
    ctx: Context,
    available: PassTable,
    progress: Progress | None = None,
    after: Callable[[str, ModuleOp], None] | None = None,
    instrumentations: Sequence[Instrumentation] = (),
) -> list[PassRecord]:
    """Run passes, given as text, on the module in place. Raises GeError for an unknown pass or
    option before any runs; an exception of a pass has a note that names the pass."""
    passes = build_pipeline(read_pipeline(",".join(specs)), available)
    watch = _Records(len(passes), progress, after)
    manager = PassManager(passes, [*instrumentations, watch])
    try:
        manager.pipeline.apply(ctx, module)
    except Exception as e:
        e.add_note(manager.context)
        raise
    return watch.records
