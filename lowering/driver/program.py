"""A module on its way, its weights, and what the compiler did to it; what each gear of a program
costs, and which gears would waste least."""

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Region, SSAValue

from ge.dialects.fused_op import FusedOp
from ge.dialects.graph.attention import AttentionLike
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.convolution import Convolution
from ge.dialects.graph.linear import GroupedMatmulOp, MatmulOp
from ge.dialects.graph.quantization import DequantizeOp
from ge.dialects.graph.stated import dim_ranges, padding_of
from ge.dialects.npu_task.attributes import (
    HBM,
    data_type,
    figure,
    placed_results,
    space_of,
    stated_bytes,
    unknown_results,
)
from ge.dialects.npu_task.control import CaseOp, IfOp, LoopOp, MapIndexOp
from ge.dialects.npu_task.memory import Task
from ge.dialects.npu_task.ops import KernelOp, LaunchOp, SlotOp
from ge.dialects.npu_task.pipeline import is_pipeline, programs_of, stages_of
from ge.dialects.support.diagnostics import SourceLocation, read_location
from ge.dialects.support.dims import symbols
from ge.dialects.support.element_types import is_integer
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.support.operation import all_ops, ops_of
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import DYNAMIC, byte_size, element_type, is_dynamic, numel, shape_of
from ge.dialects.targets.target import target_for
from ge.dialects.text.look import PLAIN, Look
from ge.lowering.driver.devices import device_figures
from ge.lowering.driver.tiles import Coverage, write_tile_programs
from ge.lowering.levels.rules import tile_programs
from ge.lowering.pipeline.instrumentation import PassRecord
from ge.lowering.pipeline.options import Options
from ge.lowering.pipeline.remedies import TriedRemedy
from ge.runtime.clock.clock import ProgramClock
from ge.runtime.clock.pipeline import PipelineTime
from ge.runtime.data.files import Outputs, write_module
from ge.runtime.data.weights import Payload
from ge.transforms.graph.canonical.linear_maps import is_prepared
from ge.transforms.precision.modes import ORIGIN
from ge.transforms.rewriting.counts import RuleCount
from ge.transforms.shapes.gears import Gears, Size, best_gears, waste
from ge.transforms.shapes.sizes import named_dims

if TYPE_CHECKING:
    from ge.runtime.device.session import Session


# What padding takes for granted (see `transforms/shapes/padding.py`)
ASSUMED = (
    "finite inputs and weights, and no overflow; scores under 4e29 (2e4 in f16); a key that the "
    "mask leaves for each valid query"
)


@dataclass
class GearReport:
    """Of a compiled program, made when it is asked for: it takes a run of the clock."""

    gears: Gears
    histogram: Mapping[str, Any]
    seconds: float = 0.0  # that the bodies of all gears take to compile
    known: dict[str, Any] = field(default_factory=dict[str, Any])

    def of(self, module: ModuleOp) -> dict[str, Any]:
        if not self.known:
            self.known["gears"] = gear_costs(module, self.gears, self.seconds)
            if main := main_function(module):
                case = gear_case(main)
                if case is not None and len(case.branches) > len(self.gears.rows):
                    self.known["other_sizes"] = {"tensors": unplanned(case.branches[-1])}
                self.known["padding"] = {"dims": padding_of(main), "assumes": ASSUMED}
            if self.histogram:
                self.known["histogram"] = self.histogram
        return self.known


def gear_costs(module: ModuleOp, gears: Gears, seconds: float) -> list[dict[str, Any]]:
    """Return for each gear launches, kernels (and how many no other gear has), bytes of the arena,
    latency by the clock, and its part by launches of the seconds that bodies of gears take to
    compile."""
    main = main_function(module)
    case = None if main is None else gear_case(main)
    if main is None or case is None:
        return []
    clock = ProgramClock(module, target_for(main))
    clock.main(module)
    bodies = [launches(region) for region in case.branches[: len(gears.rows)]]
    total = max(sum(map(len, bodies)), 1)
    costs: list[dict[str, Any]] = []
    for i, (row, region) in enumerate(zip(gears.rows, case.branches, strict=False)):
        kernels = set(bodies[i])
        others = {name for j, body in enumerate(bodies) if j != i for name in body}
        costs.append({
            "sizes": dict(zip(gears.names, row, strict=True)),
            "seconds": seconds * len(bodies[i]) / total,
            "launches": len(bodies[i]),
            "kernels": len(kernels),
            "own_kernels": len(kernels - others),
            "arena_bytes": arena_of(region),
            "latency_us": clock.branches[i].latency_us,
            "machine": clock.branches[i].machine,
        })  # fmt: skip
    return costs


def gear_case(main: FuncOp) -> CaseOp | None:
    cases = (op for op in main.body.block.ops if isinstance(op, CaseOp))
    return next((op for op in cases if op.is_decided_by_host), None)


def unplanned(region: Region) -> int:
    """Return how many tensors of a branch the device allocates."""
    results = (r for op in region.walk() for r in op.results if space_of(r.type) == HBM)
    return sum(is_dynamic(r.type) for r in results)


def launches(region: Region) -> list[str]:
    return [op.callee for op in region.walk() if isinstance(op, LaunchOp)]


def arena_of(region: Region) -> int:
    slots = [op for op in region.walk() if isinstance(op, SlotOp) and op.segment.data == "arena"]
    return max((s.offset.value.data + byte_size(s.result.type) for s in slots), default=0)


# ---- how often sizes come --------------------------------------------------------------------


def read_histogram(path: str, names: Sequence[str]) -> dict[Size, int]:
    """The counts of a file with a column for each dimension, and one of counts. Raises GeError."""
    try:
        with open(path, newline="", encoding="utf-8") as file:
            rows = [[cell.strip() for cell in row] for row in csv.reader(file) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as e:
        raise GeError(f"the histogram of sizes cannot be read: {e}", path) from None
    header = rows[0] if rows else []
    expected = [*names, "count"]
    if sorted(header) != sorted(expected):
        found = ", ".join(header) or "none"
        raise GeError(f"the columns are {found}", path, f"expected {', '.join(expected)}")
    counts: dict[Size, int] = {}
    for line, row in enumerate(rows[1:], 2):
        values = dict(zip(header, row, strict=False))
        if len(row) != len(header) or not all(
            v.isascii() and v.isdecimal() and len(v) < 19 and int(v) for v in row
        ):
            raise GeError(f"line {line} has '{','.join(row)}'", path, "whole numbers of at least 1")
        size = tuple(int(values[n]) for n in names)
        counts[size] = counts.get(size, 0) + int(values["count"])
    if not counts:
        raise GeError("the histogram has no sizes", path)
    return counts


def judged(path: str, gears: Gears) -> dict[str, Any]:
    """Return what the gears waste of the elements they compute, and the same number of gears that
    would waste least."""
    own = [i for i, n in enumerate(gears.names) if symbols(n) == (n,)]
    names = [gears.names[i] for i in own]
    counts = read_histogram(path, names)
    rows = list(dict.fromkeys(tuple(row[i] for i in own) for row in gears.rows))
    best, method = best_gears(counts, len(rows))
    return {
        "dims": names,
        "now": {"gears": rows, **share(rows, counts)},
        "best": {"gears": best, **share(best, counts), "method": method},
    }


def share(gears: Sequence[Size], counts: Mapping[Size, int]) -> dict[str, Any]:
    wasted, missed = waste(gears, counts)
    _, none = waste([], counts)
    used = sum(n * _volume(size) for size, n in counts.items() if waste(gears, {size: 1})[1] == 0)
    return {"wasted": wasted / max(used + wasted, 1), "not_taken": missed / max(none, 1)}


def _volume(size: Size) -> int:
    volume = 1
    for n in size:
        volume *= n
    return volume


def lines(report: Mapping[str, Any]) -> list[str]:
    shown: list[str] = []
    for gear in report["gears"]:
        sizes = ", ".join(f"{n}={size}" for n, size in gear["sizes"].items())
        shown.append(
            f"gear {sizes}: {gear['latency_us']:.1f} us on {gear['machine']}, "
            f"{gear['launches']} launches, "
            f"{gear['own_kernels']} of {gear['kernels']} kernels its own, arena "
            f"{gear['arena_bytes']} bytes, {gear['seconds']:.2f} s of compiling by its launches"
        )
    if "other_sizes" in report:
        count = report["other_sizes"]["tensors"]
        shown.append(f"all other sizes: the device allocates {count} tensors as it runs")
    dims: Mapping[str, Any] = report["padding"]["dims"]
    shown += [f"'{n}' cannot be padded: {why}" for n, why in dims.items() if isinstance(why, str)]
    if padded := [n for n, axes in dims.items() if not isinstance(axes, str)]:
        names = ", ".join(f"'{n}'" for n in padded)
        shown.append(f"{names} may be padded to the next gear, given {ASSUMED}")
    for key, part in report.get("histogram", {}).items():
        if key in ("now", "best"):
            gears = ";".join(",".join(map(str, g)) for g in part["gears"])
            how = f" ({part['method']})" if "method" in part else ""
            shown.append(
                f"{'best' if key == 'best' else 'these'} gears {gears}{how}: "
                f"{part['wasted']:.1%} wasted, {part['not_taken']:.1%} of the runs not taken"
            )
    return shown


MEMORY_KEYS = (
    "arena_bytes",
    "lower_bound_bytes",
    "no_reuse_bytes",
    "weight_bytes",
    "io_bytes",
    "state_bytes",
)


ARENA_KEYS = ("peak_bytes", "lower_bound_bytes", "no_reuse_bytes")


@dataclass
class Compilation:
    """Time by pass, ops by level, rules of fusion, memory of the program."""

    options: Options
    passes: list[PassRecord] = field(default_factory=list[PassRecord])
    seconds: float = 0.0
    ops: dict[str, int] = field(default_factory=dict[str, int])
    fusion: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    memory: dict[str, int] = field(default_factory=dict[str, int])
    # Layers by what they multiply, and what is known of each
    quantization: dict[str, Any] = field(default_factory=dict[str, Any])
    # What was done about the memory limit
    remedies: list[TriedRemedy] = field(default_factory=list[TriedRemedy])
    precision: dict[str, Any] = field(default_factory=dict[str, Any])
    # What engines chosen by hand cost
    engines: dict[str, Any] = field(default_factory=dict[str, Any])
    # What the plan does not hold (see `unknown_sizes`)
    unknown: dict[str, Any] = field(default_factory=dict[str, Any])
    gears: GearReport | None = None
    tiles: Coverage | None = None
    plan: list[str] = field(default_factory=list[str])  # of shardings that were searched for

    @property
    def memory_part(self) -> dict[str, Any]:
        """Figures of the plan. Those of an arena that does not hold the tensors of the program, for
        their sizes follow from those of its inputs, are left out."""
        figures: dict[str, Any] = dict(self.memory)
        if self.unknown:
            figures["unknown"] = self.unknown
        for key in ARENA_KEYS if self.unknown.get("dims") else ():
            figures.pop(key, None)
        return figures

    def report(self, model: str) -> dict[str, Any]:
        remedies = {"remedies": [asdict(t) for t in self.remedies]} if self.remedies else {}
        quantization = {"quantization": self.quantization} if self.quantization else {}
        return {
            "model": model,
            "target": self.options.target,
            "options": self.options.as_dict(),
            "compile": {"seconds": self.seconds, "passes": [asdict(p) for p in self.passes]},
            "ops": self.ops,
            "fusion": self.fusion,
            **quantization,
            "memory": {**self.memory_part, **remedies},
            **({"precision": self.precision} if self.precision else {}),
            **({"engines": self.engines} if self.engines else {}),
            **({"tiles": self.tiles.report()} if self.tiles else {}),
        }

    def add_counts(self, counts: Mapping[str, RuleCount]) -> None:
        for rule, number in counts.items():
            entry = self.fusion.setdefault(rule, {"matched": 0, "applied": 0})
            entry["matched"] += number.matched
            entry["applied"] += number.applied


@dataclass
class Program:
    """A module at any level, its weights, where it came from, and the compiler's figures."""

    module: ModuleOp
    payload: Payload
    path: str
    compilation: Compilation = field(default_factory=lambda: Compilation(Options()))
    # Reads it again, as it was before it was lowered; with `shapes` and `dims` if given
    reload: "Callable[..., Program] | None" = None
    # The program at sizes of dimensions, and at shapes of inputs, where it leaves them open
    bind: "Callable[..., Program] | None" = None
    # Writes the quantized model, where that is asked for
    export: Callable[[Outputs], object] | None = None

    def session(self, target: str = "", **how: Any) -> "Session":
        """A session of the program (see `ge.Session`), which binds it to the shapes of its inputs
        where it leaves them open."""
        from ge.runtime.device.session import Session

        def bind(shapes: Mapping[str, Sequence[int]]) -> ModuleOp:
            assert self.bind is not None
            return self.bind({}, shapes).module

        def timed(shapes: Mapping[str, Sequence[int]]) -> ModuleOp:
            module = bind(shapes)
            if self.compilation.options.tiles:
                write_tile_programs(module, self.compilation.options)
            return module

        is_bound = self.bind is None or self.compilation.options.static_shape is False
        name = target or self.compilation.options.target
        session = Session(self.module, self.payload, name, bind=None if is_bound else bind, **how)
        session.module_at = None if self.bind is None else timed
        return session

    @property
    def name(self) -> str:
        return Path(self.path).stem

    def report(self) -> dict[str, Any]:
        gears = self.compilation.gears
        more = device_figures(self.module) | (gears.of(self.module) if gears else {})
        if self.compilation.plan and "devices" in more:
            more["devices"]["plan"] = self.compilation.plan
        return self.compilation.report(self.name) | more

    def save(
        self,
        output: str | None,
        report: str | None,
        look: Look = PLAIN,
        inputs: Iterable[Path | str] = (),
    ) -> None:
        """Write program, weights, report and what else is to be exported: all of them or, when one
        fails, none; `inputs` are files that they must not replace."""
        with Outputs(inputs) as out:
            if output is not None:
                write_module(out, output, self.module, self.payload, look)
            if report is not None:
                out.json(report, self.report())
            if self.export is not None:
                self.export(out)

    def summary(self, name: str) -> str:
        c = self.compilation
        parts = [f"{name}: {c.seconds:.2f} s"]
        parts += [f"{n} {level}" for level, n in c.ops.items()]
        mib, dims = 1 << 20, c.unknown.get("dims")
        if c.unknown:
            by = ", ".join(dims) if dims else "by data"
            parts.append(f"{c.unknown['tensors']} tensors of unknown size ({by})")
        if placed := c.unknown.get("placed"):
            size = c.unknown["placed_bytes"] / mib
            parts.append(f"{placed} of them in {size:.2f} MiB at all sizes")
        if most := c.unknown.get("at_most"):
            sizes = " ".join(f"{n}={size}" for n, size in most["dims"].items())
            parts.append(f"arena {most['peak_bytes'] / mib:.2f} MiB at {sizes}")
        if c.memory:
            if not dims:
                peak, bound = c.memory["peak_bytes"], c.memory["lower_bound_bytes"]
                parts.append(f"arena {peak / mib:.2f} MiB (bound {bound / mib:.2f})")
            parts.append(f"weights {c.memory['weight_bytes'] / mib:.2f} MiB")
        told = accuracy_text(c.quantization), slower_text(c.quantization, c.options)
        if any(told):
            parts.append(f"{c.options.quantize}: {', '.join(filter(None, told))}")
        if left := accuracy_text(c.precision, c.precision.get("ranges") == "random inputs"):
            parts.append(f"{c.options.precision}: {left}")
        if c.tiles:
            parts.append(str(c.tiles))
        elif "launches" in c.ops:
            parts.append("no tile programs: times are estimates")
        if c.engines:
            by_hand, without = c.engines["latency_us"], c.engines["without_us"]
            cost = f"{by_hand:,.1f} us, {without:,.1f} us without ({by_hand - without:+,.1f})"
            parts.append(f"engines by hand: {cost}, on {c.engines['machine']}")
        gears = [] if c.gears is None else lines(c.gears.of(self.module))
        pipeline = [pipeline_line(self.module)] if is_pipeline(self.module) else []
        return "\n".join((", ".join(parts), *gears, *c.plan, *pipeline))


def pipeline_line(module: ModuleOp) -> str:
    main = main_function(module)
    assert main is not None
    return str(PipelineTime.of(module, target_for(main)))


def slower_text(told: Mapping[str, Any], options: Options) -> str:
    """Say that a quantized program takes longer than one in fp16; empty if it does not."""
    us, floats = told.get("us", 0.0), told.get("fp16_us", 0.0)
    if not floats or us <= floats:
        return ""
    more = "" if options.precision != ORIGIN else "; --precision fp16 beside it may help"
    return f"slower than fp16 on {options.target} ({us:,.1f} us, {floats:,.1f} in fp16){more}"


def accuracy_text(told: Mapping[str, Any], is_random: bool = False) -> str:
    """Say in words what accuracy quantizing, or a precision, leaves on the samples; empty if that
    is not known."""
    left: Mapping[str, float] = told.get("left_db", {})
    unchanged: Mapping[str, float] = told.get("unchanged", {})
    same = [f"{share:.1%} of '{n}' unchanged" for n, share in unchanged.items()]
    if not left:
        return ", ".join(same)
    name = min(left, key=left.__getitem__)
    which = "on random inputs" if is_random else "on the samples"
    if len(left) > 1:
        which = f"worst of {len(left)} outputs" + (", on random inputs" if is_random else "")
    mended: Mapping[str, Any] = told.get("mended", {})
    if mended:
        what = f"{mended['layers']} layers in floats, {mended['time']:.1%} more time for layers"
        same.insert(0, what)
    return ", ".join((f"{left[name]:.1f} dB of '{name}' ({which})", *same))


def count_work(module: ModuleOp) -> int:
    """The ops of the program that compute: graph ops and fused ops, constants not counted."""
    main = main_function(module)
    work = 0
    stack = [] if main is None else [main.body.block]
    while stack:
        for op in stack.pop().ops:
            work += isinstance(op, TensorOp) and not isinstance(op, ConstantOp)
            if op.regions and not isinstance(op, FusedOp):
                stack.extend(b for r in op.regions for b in r.blocks)
    return work


def count_layers(module: ModuleOp) -> dict[str, int]:
    """The matmuls, convolutions and attentions of the program by what they multiply: integers,
    floats with weights of integers, or floats. Products of bytes of the same codes are one: they
    have the place of their layer in the model, and its weight."""
    main = main_function(module)
    counts = {"integer": 0, "integer weights": 0, "float": 0}
    seen = set[tuple[SourceLocation, SSAValue]]()
    for op in () if main is None else all_ops(main.body.blocks):
        if isinstance(op, MatmulOp | GroupedMatmulOp | Convolution | AttentionLike):
            factors = op.operands[:2]
            if all(is_integer(element_type(v)) for v in factors):
                place = read_location(op.location)
                counts["integer"] += place is None or (place, factors[1]) not in seen
                seen |= set() if place is None else {(place, factors[1])}
            elif any(isinstance(v.owner, DequantizeOp) and is_prepared(v) for v in factors):
                counts["integer weights"] += 1
            else:
                counts["float"] += 1
    return counts


def count_launches(module: ModuleOp) -> int:
    """Return how many launches a program has; a pipeline in all stages."""
    programs = programs_of(module)
    functions = (op for program in programs for op in program.ops if isinstance(op, FuncOp))
    blocks = [b for op in functions for b in op.body.blocks]
    return sum([isinstance(op, LaunchOp) for op in all_ops(blocks)])


def memory_figures(module: ModuleOp) -> dict[str, int]:
    """The bytes that the memory plan states on the main function, and those of workspaces where
    launches have any and of `kernel_constants`; empty without a plan. Of a pipeline those of the
    stage whose device needs most."""
    if stages := stages_of(module):
        return max(map(memory_figures, stages), key=device_bytes)
    main = main_function(module)
    figures: dict[str, int] = {}
    for key in MEMORY_KEYS:
        if main is not None and (stated := figure(main, key)) is not None:
            figures["peak_bytes" if key == "arena_bytes" else key] = stated
    if figures and tile_programs(module):
        from ge.dialects.tile.kernel import workspace_bytes

        if workspace := workspace_bytes(module):
            figures["workspace_bytes"] = workspace
    if figures and (constants := kernel_constants(module)):
        figures["kernel_constant_bytes"] = constants
    return figures


def device_bytes(figures: Mapping[str, int]) -> int:
    """Return all that a device has at the peak."""
    return sum(figures.get(key, 0) for key in ("peak_bytes", *MEMORY_KEYS[3:]))


def kernel_constants(module: ModuleOp) -> int:
    """The bytes of short constants, of more than one element, that are part of kernels:
    `weight_bytes` does not have them."""
    kernels = [op for op in ops_of(module.body.block) if isinstance(op, KernelOp)]
    constants = [op for k in kernels for op in ops_of(k.body.block) if isinstance(op, ConstantOp)]
    return sum(byte_size(op.result.type) for op in constants if numel(shape_of(op.result)) > 1)


def type_text(value: SSAValue) -> str:
    element, shape = data_type(value.type)
    return "x".join((*("?" if d == DYNAMIC else str(d) for d in shape), str(element)))


def unknown_sizes(module: ModuleOp) -> dict[str, Any]:
    """The tensors in the memory of the device that no plan holds, since their sizes are known only
    at run time: how many, the named dimensions of the inputs that they follow from, and of each
    what makes it, and its bytes as an expression of dimensions; where these have ranges, how many
    have places that hold them at all sizes, and the bytes of all places. Empty where there are
    none."""
    main = main_function(module)
    defining = Task | IfOp | CaseOp | LoopOp
    ops = (
        [] if main is None else [op for op in all_ops(main.body.blocks) if isinstance(op, defining)]
    )
    count = sum(len(unknown_results(op)) for op in ops)
    if main is None or not count or any(isinstance(op, MapIndexOp) for op in main.walk()):
        return {}
    dims = list(named_dims(main))
    sizes = [
        {
            "made_by": op.callee if isinstance(op, LaunchOp) else op.name.rpartition(".")[2],
            "type": type_text(result),
            "bytes": text or "allocated by the device, no bound",
        }
        for op in ops
        for result, text in zip(unknown_results(op), stated_bytes(op), strict=True)
    ]
    ranges = dim_ranges(main)
    placed = sum(1 for op in ops for _ in placed_results(op, ranges))
    places = {"placed": placed, "placed_bytes": figure(main, "dynamic_bytes") or 0}
    return {
        "tensors": count,
        **({"dims": dims} if dims else {}),
        "sizes": sizes,
        **(places if placed else {}),
    }
