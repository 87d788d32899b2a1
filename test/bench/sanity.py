"""Is the model of time near what was measured on real hardware? Emulated latency on a target like
an A100 beside times that others measured on one, with no parameter that depends on the model.
Measured are kernels of libraries, and emulated programs of ge's, which are likely to take less.

    python test/bench/sanity.py FOLDER     (the folder of the structure models)
"""

import argparse
import sys
from pathlib import Path

from ge.dialects.targets.target import Target
from ge.lowering.driver.compiler import load, lower
from ge.lowering.pipeline.options import Options
from ge.runtime.clock.clock import simulate

TARGET = "a100_like"

MEASURED_MS = {
    "llama_7b_prefill.structure": 133.0,  # fp16, 2,048 tokens
    "sd15_unet.fp16.structure": 16.8,  # one step, 64 x 64 latents, guided (batch 2)
}

WITHIN = 0.3
"""How far the emulated time may be from the measured one, as a share of that."""


def emulated_ms(path: Path) -> float:
    """The latency of a model at the default options."""
    module = load(str(path)).module
    lower(module, Options.from_environment(target=TARGET))
    return simulate(module, Target.load(TARGET)).latency_us / 1e3


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    good = True
    for name, measured in MEASURED_MS.items():
        emulated = emulated_ms(folder / f"{name}.onnx")
        good &= abs(emulated / measured - 1) <= WITHIN
        print(f"{name}: {emulated:.1f} ms, measured {measured} ms: {emulated / measured - 1:+.0%}")
    return not good


if __name__ == "__main__":
    sys.exit(main())
