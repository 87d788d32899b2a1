"""From a model or a module to the program: the driver behind `ge-compile`, `ge-run` and the
Python face."""

import gc
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, MemRefType, ModuleOp, TensorType
from xdsl.dialects.func import Func
from xdsl.dialects.memref import MemRef
from xdsl.dialects.tensor import Tensor
from xdsl.ir import Attribute
from xdsl.printer import Printer

from ge.dialects.fused_op import FusedOps
from ge.dialects.graph import Graph
from ge.dialects.npu_task.ops import NpuTask, is_dynamic
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.support.types import byte_size
from ge.dialects.targets.target import Target
from ge.lowering.driver.compilation import Compilation, Lowering, count_launches, memory_figures
from ge.lowering.levels.level import Level, level_of
from ge.lowering.pipeline.instrumentation import Instrumentation
from ge.lowering.pipeline.options import Options
from ge.lowering.pipeline.stages import PassRecord, Progress, check_switches, stages
from ge.lowering.plugins.extensions import universe
from ge.lowering.text.files import Outputs, write_module
from ge.lowering.text.reading import parse_module, read_source
from ge.runtime.data.weights import Payload, open_payload, payload_path
from ge.transforms.graph.deduplicate_constants import share_equal_weights
from ge.transforms.rewriting.counts import RuleCount, disabling


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
    until: str = Level.PROGRAM,
    instrumentations: Sequence[Instrumentation] = (),
) -> Compilation:
    """Lower a module in place from the level it is at to `until`.
    Raises GeError and VerifyException for what is wrong with the module."""
    start = time.perf_counter()
    result = Compilation(options)
    target = Target.load(options.target)  # an unknown one is no error of the pass that loads it
    ctx, passes = context(options.plugins), universe(*options.plugins).all_passes
    path = stages(options)
    first = level_of(module)
    if first is not Level.GRAPH and (options.outputs or options.drop_unused_inputs):
        hint = f"the module is at the {first} level"
        raise GeError("outputs and inputs are pruned at the graph level only", hint=hint)
    wanted = first.path_to(Level.named(until))
    check_switches(options, passes)
    lowering = Lowering(result, ctx, passes, progress, after, instrumentations)
    with paused_collector(), disabling(options.fusion_disable):
        tries = options.memory_limit or options.memory > 1 or may_exceed(module, target)
        if wanted[-1:] == [Level.PROGRAM] and tries:
            lowering.to_program(module, wanted)
        else:
            lowering.run(module, wanted, path)
    result.seconds = time.perf_counter() - start
    if Level.named(until) is Level.PROGRAM:
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
    return Loaded(module, open_payload(module, text_folder(module, Path(path))), path)


def text_folder(module: ModuleOp, path: Path) -> Path:
    """Where the weights of a text stand: beside it, or beside the file that it is a link to."""
    file = payload_path(module, path.parent)
    is_here = file is None or file.exists() or not path.is_symlink()
    return path.parent if is_here else path.resolve().parent


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

    def save(
        self,
        output: str | None,
        report: str | None,
        debug_info: bool = False,
        inputs: Iterable[Path | str] = (),
    ) -> None:
        """Write program, weights and report: all of them or, when one fails, none; `inputs` are
        files that they must not replace."""
        with Outputs(inputs) as out:
            if output is not None:
                write_module(out, output, self.module, self.payload, debug_info)
            if report is not None:
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
    until: str = Level.PROGRAM,
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
