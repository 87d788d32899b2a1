"""What was asked for and has nothing to do: an option that changes nothing says so."""

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ge.dialects.support import environment
from ge.dialects.support.functions import main_function
from ge.lowering.driver.program import Compilation
from ge.lowering.pipeline.options import Options, facts_of, flags_of
from ge.lowering.pipeline.pass_manager import Instrumentation
from ge.transforms.quantization.schemes import FLOAT

# Passes that an option asks for alone: the option, and why one has changed nothing
ASKED = {
    "merge-copies": (
        "merge_io",
        "no two inputs or outputs are small enough for one copy",
    ),
    "split-launches": ("pieces", "the clock finds no cut of launches that is faster"),
    "prune-outputs": ("drop_unused_inputs", "an output depends on each input"),
}

MOST_REASONS = 3  # that are told


def without_effect(options: Options) -> Iterator[str]:
    """The options that are part of others (see `OptionFacts.of`), all of which are off. What a
    variable of the environment says is for all commands, and for those that have no use for it
    too."""
    set_for_all = environment.variables()
    fields = {f.name: f for f in dataclasses.fields(options)}
    for name, field in fields.items():
        owners = facts_of(field).of
        if not owners or getattr(options, name) == field.default:
            continue
        if set_for_all.get(facts_of(field).variable):
            continue
        off = {owner: d if (d := fields[owner].default) is not True else False for owner in owners}
        if all(getattr(options, owner) == off[owner] for owner in owners):
            flags = " or ".join(flags_of(fields[owner])[0] for owner in owners)
            yield f"{flags_of(field)[0]} has nothing to do without {flags}"


def none_quantized(options: Options, quantization: Mapping[str, Any]) -> str:
    """Why not one layer is computed as `--quantize` says; empty where some are."""
    entries: Sequence[Mapping[str, Any]] = quantization["layers"]
    done = [e for e in entries if e["scheme"] != FLOAT]
    is_off = options.fusion in ("off", "conservative")
    if done and not is_off:
        return ""
    reasons = Counter(e.get("reason", "no reason is known") for e in entries if e not in done)
    if done:
        reasons[f"--fusion {options.fusion} computes what is quantized in floats"] += len(done)
    if not (total := sum(reasons.values())):
        return "0 of 0 layers are quantized: the model has no matmul, convolution or attention"
    told = [f"{why} ({count})" for why, count in reasons.most_common(MOST_REASONS)]
    more = f"; and {len(reasons) - len(told)} more reasons" if len(reasons) > len(told) else ""
    return f"0 of {total} layers are quantized: {'; '.join(told)}{more}"


@dataclasses.dataclass
class Effects(Instrumentation):
    """Watches passes that were asked for: `changed` says of those that ran whether one of their
    runs has changed the ops or the inputs of the module."""

    changed: dict[str, bool] = dataclasses.field(default_factory=dict[str, bool])
    _before: tuple[Any, ...] = ()

    def before(self, p: ModulePass, module: ModuleOp) -> None:
        if p.name in ASKED:
            self._before = figure(module)

    def after(self, p: ModulePass, module: ModuleOp) -> None:
        if p.name in ASKED:
            is_other = figure(module) != self._before
            self.changed[p.name] = is_other or self.changed.get(p.name, False)

    def nothing_done(self, options: Options) -> Iterator[str]:
        fields = {f.name: f for f in dataclasses.fields(options)}
        for name, (option, why) in ASKED.items():
            if getattr(options, option) and not self.changed.get(name, True):
                yield f"{flags_of(fields[option])[0]} changes nothing: {why}"


def figure(module: ModuleOp) -> tuple[Any, ...]:
    """How many ops there are of each kind, and how many inputs."""
    main = main_function(module)
    return Counter(op.name for op in module.walk()), main and len(main.body.block.args)


def nothing_done(compilation: Compilation) -> Iterator[str]:
    """What a compilation through the graph level was asked for and has changed nothing for."""
    options, precision = compilation.options, compilation.precision
    if options.quantize and (why := none_quantized(options, compilation.quantization)):
        yield f"--quantize {options.quantize}: {why}"
    if precision and not precision["narrow"]:
        kept = len(precision["kept"])
        why = f"{kept} ops stay in f32" if kept else "the model computes nothing in f32"
        yield f"--precision {precision['mode']} changes nothing: {why}"
