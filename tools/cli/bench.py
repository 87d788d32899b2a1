"""ge-bench; `parsers.py` says what it is for."""

import argparse
import dataclasses
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ge.dialects.support.diagnostics import warning_handler
from ge.dialects.support.streams import print_result
from ge.lowering.driver.variants import Bench, measured
from ge.runtime.data.files import Outputs, check_writable
from ge.tools.cli.flags import options_from
from ge.tools.cli.remarks import Remarks, printer
from ge.tools.reference.markdown import table

MIB = 1 << 20


def run(args: argparse.Namespace) -> int:
    """Measure each model, and write tables. Raises GeError for what is no model."""
    options = options_from(args)
    found: list[Bench] = []
    inputs = [*args.models, options.target, *options.plugins, *options.calibration_files]
    check_writable([path for path in (args.output, args.report) if path], inputs)
    with Outputs(inputs) as out:
        with warning_handler(printer(Remarks())):
            for number, path in enumerate(args.models, 1):
                print(f"[{number} of {len(args.models)}] {path}", file=sys.stderr)
                found.append(measured(path, options))
        text = "\n\n".join(tables(found)) + "\n"
        if args.output:
            out.text(args.output, text)
        else:
            print_result(text.rstrip("\n"))
        if args.report:
            out.json(args.report, [report(b) for b in found])
    return 0


def tables(found: Sequence[Bench]) -> Iterator[str]:
    yield speed_table(found)
    yield memory_table(found)
    if rows := list(claim_rows(found)):
        yield table(("model", "what", "published", "here", "source"), rows)


def speed_table(found: Sequence[Bench]) -> str:
    """Set what fusion gains beside what there is without it."""
    head = (
        "model", "on", "launches, fusion off", "default", "ms, fusion off", "default",
        "of the time", "a second", "cube busy, off to default", "vector busy",
    )  # fmt: skip
    rows = [
        (
            b.model, machines(b), f"{b.off.launches:,}", f"{b.default.launches:,}",
            f"{b.off.latency_us / 1e3:,.2f}", f"{b.default.latency_us / 1e3:,.2f}",
            f"{b.ratio:.2f}", f"{b.rate:,.0f} {b.unit}",
            *(f"{b.off.busy[e]:.0%} to {b.default.busy[e]:.0%}" for e in ("cube", "vector")),
        )
        for b in found
    ]  # fmt: skip
    return table(head, rows)


def machines(bench: Bench) -> str:
    """Return where both times come from."""
    off, default = bench.off.machine, bench.default.machine
    return default if off == default else f"{default} (fusion off: {off})"


def memory_table(found: Sequence[Bench]) -> str:
    """The arena by level of memory, and all bytes on the device."""
    levels = list(found[0].levels)
    heads = (f"MiB of arena at memory level {n} (bound)" for n in levels)
    head = ("model", *heads, "on the device in all")
    rows = [
        (
            b.model, *(f"{f.arena / MIB:,.2f} ({f.bound / MIB:,.2f})" for f in b.levels.values()),
            f"{b.default.device / MIB:,.2f}",
        )
        for b in found
    ]  # fmt: skip
    return table(head, rows)


def claim_rows(found: Sequence[Bench]) -> Iterator[tuple[str, ...]]:

    for claim in CLAIMS:
        for bench in filter(claim.is_about, found):
            yield bench.model, claim.what, claim.published, claim.ours(bench), claim.source


def report(bench: Bench) -> dict[str, Any]:

    claims = [
        {"what": c.what, "published": c.published, "here": c.ours(bench), "source": c.source}
        for c in CLAIMS
        if c.is_about(bench)
    ]
    return {**dataclasses.asdict(bench), "rate": bench.rate, "claims": claims}


ARTICLE = "jishuzhan.net/article/2020011451160248321 (an article on GE, not its documentation)"

ATB = "docs/ATB加速原理.md of ascend-transformer-boost"

NOWHERE = "no source was found for it"


@dataclass(frozen=True, slots=True)
class Claim:
    """`models`: found in the names of those that it is about."""

    models: str
    what: str
    published: str
    source: str
    ours: Callable[[Bench], str]

    def is_about(self, bench: Bench) -> bool:
        return re.search(self.models, bench.model) is not None


def busiest(bench: Bench) -> str:
    engine = max(bench.default.busy, key=lambda e: bench.default.busy[e])
    return f"{engine} {bench.off.busy[engine]:.0%} to {bench.default.busy[engine]:.0%}"


CLAIMS = (
    Claim(
        "unet",
        "small ops fused in the U-Net of Stable Diffusion",
        "127",
        ARTICLE,
        lambda b: f"{b.off.launches - b.default.launches:,} launches less",
    ),
    Claim(
        "unet",
        "time with fusion, Stable Diffusion end to end",
        "8.5 to 4.2 s (0.49)",
        ARTICLE,
        lambda b: f"one step {b.off.latency_us / 1e3:,.1f} to {b.default.latency_us / 1e3:,.1f} ms"
        f" ({b.ratio:.2f})",
    ),
    Claim(
        "llama_7b_decode",
        "a token of LLaMA-7B, badly and well compiled",
        "12 and 4 ms",
        ARTICLE,
        lambda b: f"{b.off.latency_us / 1e3:,.1f} to {b.default.latency_us / 1e3:,.1f} ms",
    ),
    Claim(
        "llama|gpt2|bert",
        "memory of activations with reuse, transformers",
        "0.5 of it on average",
        ATB,
        lambda b: f"{b.kept:.2f} of it",
    ),
    Claim(
        "unet|llama",
        "utilization of cube and vector cores",
        "45 % to 82 %",
        NOWHERE,
        busiest,
    ),
)  # fmt: skip
