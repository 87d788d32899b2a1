"""What is published about GE and its neighbours for models, and what of ours stands beside it.

Each claim has its source, or says that none was found. None of them says on what machine, with what
inputs or in what precision it was measured: what stands beside it is of the same kind, not the same
experiment.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from ge.lowering.driver.bench import Bench

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
