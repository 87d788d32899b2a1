"""What was asked for and has nothing to do: an option that changes nothing says so."""

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ge.lowering.driver.program import Compilation
from ge.lowering.pipeline.options import Options, facts_of, flags_of
from ge.transforms.quantization.schemes import FLOAT

MOST_REASONS = 3  # that are told


def without_effect(options: Options) -> Iterator[str]:
    """The options that are part of others (see `Facts.of`), none of which is given."""
    fields = {f.name: f for f in dataclasses.fields(options)}
    for name, field in fields.items():
        owners = facts_of(field).of
        if not owners or getattr(options, name) == field.default:
            continue
        if all(getattr(options, owner) == fields[owner].default for owner in owners):
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


def nothing_done(compilation: Compilation) -> Iterator[str]:
    """What a compilation through the graph level was asked for and has changed nothing for."""
    options, precision = compilation.options, compilation.precision
    if options.quantize and (why := none_quantized(options, compilation.quantization)):
        yield f"--quantize {options.quantize}: {why}"
    if precision and not precision["narrow"]:
        kept = len(precision["kept"])
        why = f"{kept} ops stay in f32" if kept else "the model computes nothing in f32"
        yield f"--precision {precision['mode']} changes nothing: {why}"
