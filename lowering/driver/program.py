"""A module on its way, its weights, and what the compiler did to it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from ge.dialects.fused_op import FusedOp
from ge.dialects.graph.attention import AttentionLike
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.convolution import Convolution
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.quantization import DequantizeOp
from ge.dialects.npu_task.ops import LaunchOp
from ge.dialects.npu_task.program_info import figure
from ge.dialects.support.element_types import is_integer
from ge.dialects.support.functions import main_function
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import element_type
from ge.lowering.driver.gears import GearReport, lines
from ge.lowering.pipeline.instrumentation import PassRecord
from ge.lowering.pipeline.options import Options
from ge.lowering.pipeline.remedies import Tried
from ge.lowering.text.files import Outputs, write_module
from ge.runtime.data.weights import Payload
from ge.transforms.graph.canonical.linear_maps import is_prepared
from ge.transforms.rewriting.counts import RuleCount

MEMORY_KEYS = (
    "arena_bytes",
    "lower_bound_bytes",
    "no_reuse_bytes",
    "weight_bytes",
    "io_bytes",
    "state_bytes",
)


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
    remedies: list[Tried] = field(default_factory=list[Tried])
    precision: dict[str, Any] = field(default_factory=dict[str, Any])
    gears: GearReport | None = None

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
            "memory": {**self.memory, **remedies},
            **({"precision": self.precision} if self.precision else {}),
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
    # Writes the quantized model, where that is asked for
    export: "Callable[[Outputs], object] | None" = None

    @property
    def name(self) -> str:
        return Path(self.path).stem

    def report(self) -> dict[str, Any]:
        gears = self.compilation.gears
        return self.compilation.report(self.name) | (gears.of(self.module) if gears else {})

    def save(
        self,
        output: str | None,
        report: str | None,
        debug_info: bool = False,
        inputs: Iterable[Path | str] = (),
    ) -> None:
        """Write program, weights, report and what else is to be exported: all of them or, when one
        fails, none; `inputs` are files that they must not replace."""
        with Outputs(inputs) as out:
            if output is not None:
                write_module(out, output, self.module, self.payload, debug_info)
            if report is not None:
                out.json(report, self.report())
            if self.export is not None:
                self.export(out)

    def summary(self, name: str) -> str:
        c = self.compilation
        parts = [f"{name}: {c.seconds:.2f} s"]
        parts += [f"{n} {level}" for level, n in c.ops.items()]
        if c.memory:
            peak, bound = c.memory["peak_bytes"], c.memory["lower_bound_bytes"]
            mib = 1 << 20
            parts.append(f"arena {peak / mib:.2f} MiB (bound {bound / mib:.2f})")
            parts.append(f"weights {c.memory['weight_bytes'] / mib:.2f} MiB")
        gears = [] if c.gears is None else lines(c.gears.of(self.module))
        return "\n".join((", ".join(parts), *gears))


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
    floats with weights of integers, or floats."""
    main = main_function(module)
    counts = {"integer": 0, "integer weights": 0, "float": 0}
    for op in () if main is None else main.walk():
        if isinstance(op, MatmulOp | Convolution | AttentionLike):
            factors = op.operands[:2]
            if all(is_integer(element_type(v)) for v in factors):
                counts["integer"] += 1
            elif any(isinstance(v.owner, DequantizeOp) and is_prepared(v) for v in factors):
                counts["integer weights"] += 1
            else:
                counts["float"] += 1
    return counts


def count_launches(module: ModuleOp) -> int:
    return sum(isinstance(op, LaunchOp) for op in module.walk())


def memory_figures(module: ModuleOp) -> dict[str, int]:
    """The bytes that the memory plan states on the main function; empty without a plan."""
    main = main_function(module)
    figures: dict[str, int] = {}
    for key in MEMORY_KEYS:
        if main is not None and (stated := figure(main, key)) is not None:
            figures["peak_bytes" if key == "arena_bytes" else key] = stated
    return figures
