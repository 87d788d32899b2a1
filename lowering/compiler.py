"""From a model or a module to the program: the driver behind `ge-compile`, `ge-run` and the
Python face."""

import gc
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, IntegerAttr, MemRefType, ModuleOp, TensorType
from xdsl.dialects.func import Func
from xdsl.dialects.memref import MemRef
from xdsl.dialects.tensor import Tensor
from xdsl.ir import Attribute
from xdsl.printer import Printer

from ge.dialects.diagnostics import remark
from ge.dialects.errors import GeError
from ge.dialects.functions import main_function
from ge.dialects.fused_op import FusedOp, FusedOps
from ge.dialects.graph import Graph
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.interfaces import TensorOp
from ge.dialects.npu_task import LaunchOp, NpuTask, is_dynamic
from ge.dialects.target import Target
from ge.dialects.types import byte_size
from ge.lowering.extensions import universe
from ge.lowering.files import Outputs, write_module
from ge.lowering.instrumentation import Instrumentation
from ge.lowering.options import Options
from ge.lowering.pass_options import PassTable
from ge.lowering.pipelines import PassRecord, Progress, check_switches, run_passes, stages
from ge.lowering.remedies import SLOWER, Remedies, Tried, find_fit
from ge.lowering.text import parse_module, read_source
from ge.runtime.weights import Payload, open_payload
from ge.transforms.graph.deduplicate_constants import share_equal_weights
from ge.transforms.memory.over_limit import OverLimitError
from ge.transforms.statistics import RuleCount, collecting, disabling

MEMORY_KEYS = (
    "arena_bytes",
    "lower_bound_bytes",
    "no_reuse_bytes",
    "weight_bytes",
    "io_bytes",
)


@contextmanager
def paused_collector() -> Generator[None]:
    """No garbage collection inside the block: a module is one large web of live objects, which
    each full collection would visit again (a third of the time at 50,000 ops)."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def context(plugins: Sequence[str] = ()) -> Context:
    """A context with every dialect that ge's levels use; those of xDSL, of installed packages and
    of plugin files are loaded when a text needs them.
    Raises GeError for a plugin that cannot be loaded."""
    ctx = Context()
    for dialect in (Builtin, Func, MemRef, Tensor, Graph, FusedOps, NpuTask):
        ctx.load_dialect(dialect)
    for name, factory in universe(*plugins).all_dialects.items():
        if name not in ctx.registered_dialect_names:
            ctx.register_dialect(name, factory)
    return ctx


def level_of(module: ModuleOp) -> str:
    """The level that a module is at, by the ops of its main function."""
    main = main_function(module)
    names: set[str] = set() if main is None else {op.name for op in main.walk()}
    if "npu_task.slot" in names or (main is not None and "npu_task.streams" in main.attributes):
        return "program"
    if "npu_task.copy" in names or "npu_task.transfer" in names or "memref.alloc" in names:
        return "buffers"
    if "npu_task.launch" in names:
        return "tasks"
    return "fused" if any(n.startswith("fused_op.") for n in names) else "graph"


def count_work(module: ModuleOp) -> int:
    """The ops of the program that compute: graph ops and fused ops, constants not counted."""
    main = main_function(module)
    found = 0
    stack = [] if main is None else [main.body.block]
    while stack:
        for op in stack.pop().ops:
            found += isinstance(op, TensorOp) and not isinstance(op, ConstantOp)
            if not isinstance(op, FusedOp):
                stack.extend(b for r in op.regions for b in r.blocks)
    return found


@dataclass
class Compilation:
    """What `lower` did: time by pass, ops by level, rules of fusion, memory of the program."""

    options: Options
    passes: list[PassRecord] = field(default_factory=list[PassRecord])
    seconds: float = 0.0
    ops: dict[str, int] = field(default_factory=dict[str, int])
    fusion: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    memory: dict[str, int] = field(default_factory=dict[str, int])
    remedies: list[Tried] = field(default_factory=list[Tried])
    """What was done about the memory limit."""

    def report(self, model: str) -> dict[str, Any]:
        """The compiler's part of the report: one JSON object with stable keys."""
        return {
            "model": model,
            "target": self.options.target,
            "options": self.options.as_dict(),
            "compile": {
                "seconds": self.seconds,
                "passes": [asdict(p) for p in self.passes],
            },
            "ops": self.ops,
            "fusion": self.fusion,
            "memory": {**self.memory, **self.remedies_tried()},
        }

    def remedies_tried(self) -> dict[str, Any]:
        """What was done about the memory limit, for the report; empty where nothing had to be."""
        return {"remedies": [asdict(t) for t in self.remedies]} if self.remedies else {}


def memory_figures(module: ModuleOp) -> dict[str, int]:
    """The bytes that the memory plan states on the main function; empty without a plan."""
    main = main_function(module)
    found: dict[str, int] = {}
    for key in MEMORY_KEYS:
        attr = None if main is None else main.attributes.get(f"npu_task.{key}")
        if isinstance(attr, IntegerAttr):
            found["peak_bytes" if key == "arena_bytes" else key] = attr.value.data
    return found


def count_launches(module: ModuleOp) -> int:
    return sum(isinstance(op, LaunchOp) for op in module.walk())


@dataclass
class Lowering:
    """Runs the stages of the pipeline on a module, and keeps what there is to report."""

    result: Compilation
    context: Context
    passes: PassTable
    progress: Progress | None
    after: Callable[[str, ModuleOp], None] | None
    instrumentations: Sequence[Instrumentation]
    rules: dict[str, dict[str, RuleCount]] = field(default_factory=dict[str, dict[str, RuleCount]])
    """The first of the levels that were done in one go -> what the rules did there."""

    def run(
        self, module: ModuleOp, levels: Sequence[str], path: Mapping[str, Sequence[str]]
    ) -> None:
        """Lower a module in place through `levels`, by the passes that `path` has for each."""
        todo: list[str] = []
        marks: dict[int, list[str]] = {}
        for level in levels:
            todo += path[level]
            marks.setdefault(len(todo), []).append(level)
            if self.result.options.verify:
                todo.append(f"verify-level{{level={level}}}")
        done = 0

        def observe(name: str, current: ModuleOp) -> None:
            nonlocal done
            done += 1
            for level in marks.get(done, ()):
                if level in ("graph", "fused"):
                    self.result.ops[level] = count_work(current)
            if self.after is not None:
                self.after(name, current)

        with collecting() as counts:
            self.result.passes += run_passes(
                module, todo, self.context, self.passes, self.progress, observe,
                self.instrumentations,
            )  # fmt: skip
        self.rules["".join(levels[:1])] = counts

    def to_program(self, module: ModuleOp, levels: Sequence[str]) -> None:
        """Lower a module to a program that keeps the memory limit. What comes after the graph
        level is done again with remedies where it does not, and without recomputation where that
        does not pay. Raises OverLimitError."""
        options = self.result.options
        done = [level for level in levels if level == "graph"]
        rest = levels[len(done) :]
        self.run(module, done, stages(options))
        kept = module.clone()
        limit = options.memory_limit

        def attempt(remedies: Remedies) -> int:
            trial = kept.clone()
            wanted = replace(options, memory=max(options.memory, 2)) if remedies.order else options
            self.run(trial, rest, stages(wanted, remedies))
            become(module, trial)
            return memory_figures(module)["peak_bytes"]

        try:
            self.run(module, rest, stages(options))
            if is_recomputed(module):
                self.weigh_recomputation(module, kept, rest)
        except OverLimitError as e:
            names = [name for name, level in REMEDY_LEVELS.items() if level in rest]
            if options.fusion in ("off", "aggressive") and "fuse" in names:
                names.remove("fuse")
            self.result.remedies = find_fit(e, Remedies(limit), names, attempt)
            if (main := main_function(module)) is not None:
                for tried in self.result.remedies:
                    remark(main, f"over the memory limit; {tried}")

    def weigh_recomputation(
        self, module: ModuleOp, before: ModuleOp, levels: Sequence[str]
    ) -> None:
        """Make the program without recomputation as well, from the module `before` the `levels`,
        and in other ways: with less of it where it takes too much time, and of launches only.
        That which needs the least memory is taken."""
        options, target = self.result.options, Target.load(self.result.options.target)

        def made(slower: float, elementwise: bool = True) -> Trial:
            trial = before.clone()
            remedies = Remedies(options.memory_limit, slower=slower, elementwise=elementwise)
            self.run(trial, levels, stages(options, remedies))
            return self.trial(trial)

        def in_time(trials: Iterable[Trial]) -> Trial:
            return next((t for t in trials if t.latency_us(target) <= most_us), plain)

        first, plain = self.trial(module), made(1.0)
        most_us = SLOWER * plain.latency_us(target)
        found = [plain, in_time(chain([first], map(made, LESS_SLOW)))]
        if options.fusion != "off":
            found.append(in_time(made(slower, False) for slower in (SLOWER, *LESS_SLOW)))
        chosen = min(found, key=lambda t: t.peak_bytes)
        self.rules, self.result.ops = chosen.rules, chosen.ops
        if chosen is not first:
            become(module, chosen.module)

    def trial(self, module: ModuleOp) -> "Trial":
        """A program that was made just now."""
        return Trial(module, dict(self.rules), dict(self.result.ops))


@dataclass
class Trial:
    """A program, and what the report says about how it was made."""

    module: ModuleOp
    rules: dict[str, dict[str, RuleCount]]
    ops: dict[str, int]

    @property
    def peak_bytes(self) -> int:
        return memory_figures(self.module)["peak_bytes"]

    def latency_us(self, target: Target) -> float:
        """How long it takes by the clock; 0 where shapes are known only at run time."""
        from ge.runtime.clock import simulate

        try:
            return simulate(self.module, target).latency_us
        except GeError:
            return 0.0


REMEDY_LEVELS = {"order": "tasks", "fuse": "fused", "recompute": "tasks", "spill": "buffers"}
"""Each remedy with the level at which it is done, in the order in which they are tried."""

LESS_SLOW = (1.1, 1.05)
"""How many times as long the launches may take, if the program takes too long: side by side, they
have less room, and data less often in L2."""


def become(module: ModuleOp, other: ModuleOp) -> None:
    """Give a module the body and the attributes of another one, which is of no use any more."""
    module.detach_region(module.body)
    module.add_region(other.detach_region(other.body))
    module.attributes = other.attributes


def is_recomputed(module: ModuleOp) -> bool:
    """Whether a program computes values again to need less memory."""
    from ge.transforms.memory.recompute_elementwise import COPIES
    from ge.transforms.memory.rematerialize import RECOMPUTED

    main = main_function(module)
    return main is not None and any(key in main.attributes for key in (RECOMPUTED, COPIES))


def add_counts(total: dict[str, dict[str, int]], counts: Mapping[str, RuleCount]) -> None:
    """Add what rules did to the figures of the report."""
    for rule, found in counts.items():
        entry = total.setdefault(rule, {"matched": 0, "applied": 0})
        entry["matched"] += found.matched
        entry["applied"] += found.applied


def is_shaped(t: Attribute) -> bool:
    """Whether values of a type have bytes."""
    return isinstance(t, TensorType | MemRefType)


def may_exceed(module: ModuleOp, target: Target) -> bool:
    """Whether the memory plan might be more than the target has: all values and weights together
    are more than half of it."""
    main = main_function(module)
    values = () if main is None else (r for op in main.walk() for r in op.results)
    types = (v.type for v in values if is_shaped(v.type))
    return 2 * sum(byte_size(t) for t in types if not is_dynamic(t)) > target.hbm_bytes


def lower(
    module: ModuleOp,
    options: Options,
    progress: Progress | None = None,
    after: Callable[[str, ModuleOp], None] | None = None,
    until: str = "program",
    instrumentations: Sequence[Instrumentation] = (),
) -> Compilation:
    """Lower a module in place from the level it is at to `until`.
    Raises GeError and VerifyException for what is wrong with the module."""
    start = time.perf_counter()
    result = Compilation(options)
    target = Target.load(options.target)  # an unknown one is no error of the pass that loads it
    ctx, passes = context(options.plugins), universe(*options.plugins).all_passes
    path = stages(options)
    levels = list(path)
    first = levels.index(level_of(module))
    if first and (options.outputs or options.drop_unused_inputs):
        hint = f"the module is at the {levels[first]} level"
        raise GeError("outputs and inputs are pruned at the graph level only", hint=hint)
    wanted = levels[first if first == 0 else first + 1 : levels.index(until) + 1]
    check_switches(options, passes)
    lowering = Lowering(result, ctx, passes, progress, after, instrumentations)
    with paused_collector(), disabling(options.fusion_disable):
        tries = options.memory_limit or options.memory > 2 or may_exceed(module, target)
        if wanted[-1:] == ["program"] and tries:
            lowering.to_program(module, wanted)
        else:
            lowering.run(module, wanted, path)
    result.seconds = time.perf_counter() - start
    if until == "program":
        result.ops["launches"] = count_launches(module)
        result.memory = memory_figures(module)
    for counts in lowering.rules.values():
        add_counts(result.fusion, counts)
    return result


@dataclass
class Loaded:
    """A module as read, the weights it refers to, and where it came from."""

    module: ModuleOp
    payload: Payload
    path: str


def load(
    path: str,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    plugins: Sequence[str] = (),
) -> Loaded:
    """Read a model (`.onnx`) or a module of any level (`.mlir`, or "-" for standard input).
    `shapes` and `dims` fix inputs by name and symbolic dimensions of an ONNX model; `plugins` are
    files with dialects of a `.mlir`. Raises GeError or ParseError for what cannot be read."""
    if path.endswith(".onnx"):
        from ge.lowering.onnx.importer import import_file

        with paused_collector():
            imported = import_file(path, shapes, dims)
        return Loaded(imported.module, imported.payload, path)
    if shapes or dims:
        raise GeError("--shape and --dim are for .onnx models", path, "import the model anew")
    module = parse_module(context(plugins), read_source(None if path == "-" else path))
    return Loaded(module, open_payload(module, Path(path).parent), path)


Watch = Callable[[Loaded], Sequence[Instrumentation]]
"""Makes what watches the passes."""


@dataclass
class Program:
    """A compiled module with its weights and the compiler's figures."""

    module: ModuleOp
    payload: Payload
    compilation: Compilation
    path: str

    @property
    def name(self) -> str:
        return Path(self.path).stem

    def report(self) -> dict[str, Any]:
        return self.compilation.report(self.name)

    def save(self, output: str | None, report: str | None, debug_info: bool = False) -> None:
        """Write program, weights and report: all of them or, when one fails, none."""
        with Outputs() as out:
            if output:
                write_module(out, output, self.module, self.payload, debug_info)
            if report:
                out.json(report, self.report())

    def summary(self, name: str) -> str:
        """The figures in a few lines for people."""
        c = self.compilation
        parts = [f"{name}: {c.seconds:.2f} s"]
        parts += [f"{n} {level}" for level, n in c.ops.items()]
        if c.memory:
            peak, bound = c.memory["peak_bytes"], c.memory["lower_bound_bytes"]
            mib = 1 << 20
            parts.append(f"arena {peak / mib:.2f} MiB (bound {bound / mib:.2f})")
            parts.append(f"weights {c.memory['weight_bytes'] / mib:.2f} MiB")
        return ", ".join(parts)


def compile_file(
    path: str,
    options: Options | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    progress: Progress | None = None,
    until: str = "program",
    watch: Watch | None = None,
) -> Program:
    """Read a model or module and lower it. Raises GeError, ParseError, VerifyException."""
    options = options or Options.from_environment()
    start = time.perf_counter()
    loaded = load(path, shapes, dims, options.plugins)
    share_equal_weights(loaded.module, loaded.payload)
    seconds = time.perf_counter() - start
    watching = () if watch is None else watch(loaded)
    compilation = lower(loaded.module, options, progress, dumper(options), until, watching)
    compilation.passes.insert(0, PassRecord("import", seconds, 0))
    compilation.seconds += seconds
    return Program(loaded.module, loaded.payload, compilation, path)


def dumper(options: Options) -> Callable[[str, ModuleOp], None] | None:
    """What writes the module after each pass when `dump_graph` asks for it.
    Raises GeError when the folder cannot be made."""
    if not options.dump_graph:
        return None
    folder, number = Path(options.dump_path), 0
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise GeError(f"cannot write to '{folder}': {e.strerror}", hint="see GE_DUMP_PATH") from e

    def dump(name: str, module: ModuleOp) -> None:
        nonlocal number
        with Outputs() as out:
            out.text(folder / f"{number:02d}-{name}.mlir", lambda f: Printer(f).print_op(module))
        number += 1

    return dump


def compile_model(
    path: str,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    **options: Any,
) -> Program:
    """`ge.compile`: a model or module by path, options by name (see Options); what is not given
    comes from the environment. Raises GeError for what is wrong with model or options."""
    from ge.lowering.cache import Request

    given = Options.from_environment(**options)
    return Request(path, given, shapes=shapes or {}, dims=dims or {}).program()
