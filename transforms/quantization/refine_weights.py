"""Store weights more exactly than a scheme has them, where outputs are clearly more exact then.

For schemes that quantize weights alone, with samples at hand,
    [layers]
    "/fc/MatMul" = "w8a16g32"     matmuls of w8a16 get a scale and a zero point for 32 inputs each
    "/embed/Gather" = "int16"     embedding tables get 16 bits
is added to the table, which insert-quantization obeys. The noise of one part hides what another
would gain, so all have more at first, and what outputs hardly lose by is taken back: of all tables,
and of all matmuls. What stays is worth half a decibel, or more, for each tenth that it adds to the
bytes of all weights. Tables that are most of these keep 8 bits. Codes are fitted to samples on the
grids that this decides on, so it comes before (see fit-weights). Where an accuracy is asked for,
choose-precision decides in its place.
"""

from dataclasses import dataclass

from xdsl.dialects.func import FuncOp

from ge.dialects.graph import MatmulOp
from ge.dialects.support.types import numel, shape_of
from ge.dialects.targets import DEFAULT_TARGET
from ge.dialects.targets.target import Target
from ge.runtime.data.accuracy import decibels
from ge.transforms.quantization.calibrated_pass import CalibratedPass
from ge.transforms.quantization.choose_precision import Costs, tell, undecided
from ge.transforms.quantization.data import Calibration
from ge.transforms.quantization.schemes import GROUPS, INT16, SCHEMES, W8A16, scheme_of
from ge.transforms.quantization.trials import Trials, trials_of

NAME = "refine-weights"
LEAST = 0.3  # dB that outputs gain
TWICE = 5.0  # the same for weights that become twice as large
MOST = 1 / 2  # of all weights, that tables of 16 bits are
GROUP = 3  # bytes for a scale and a zero point


def refine(trials: Trials, calibration: Calibration) -> None:
    """Add to the table what outputs gain by."""
    costs = Costs(trials)
    tables = {n: (INT16, numel(shape_of(e.table))) for n, e in trials.embeddings.items()}
    added = tables if sum(size for _, size in tables.values()) <= MOST * costs.size else {}
    if trials.scheme.name == W8A16:
        matmuls = [n for n in costs.sizes if isinstance(trials.layers[n].op, MatmulOp)]
        added |= {n: (GROUPS, costs.sizes[n] * GROUP // SCHEMES[GROUPS].block) for n in matmuls}
    if not added:
        return
    trials.noise({})  # first: this run corrects biases too
    free = undecided(trials.quantized({}, trials.few)[1], calibration)
    chosen, gains = {n: p for n, (p, _) in added.items() if n in free}, dict[str, float]()
    for precision in (INT16, GROUPS, INT16):
        less = {n: p for n, p in chosen.items() if p != precision}
        size = sum(added[n][1] for n in chosen.keys() - less.keys())
        gains[precision] = decibels(trials.noise(less), trials.noise(chosen))
        if gains[precision] < max(LEAST, TWICE * size / costs.size):
            chosen = less
    for name, precision in chosen.items():
        why = f"outputs gain {gains[precision]:.1f} dB"
        tell(trials, calibration, {name: precision}, why, NAME)


@dataclass(frozen=True)
class RefineWeightsPass(CalibratedPass):
    """Give weights groups, or tables 16 bits, where outputs are clearly more exact then.
    `scheme`, `skip`, `asymmetric`: what insert-quantization has; `target`: what multiplies; `data`:
    a file with samples (.npz), else what is at hand."""

    name = NAME

    scheme: str = W8A16
    skip: tuple[str, ...] = ()
    asymmetric: bool = False
    target: str = DEFAULT_TARGET

    def run(self, main: FuncOp, calibration: Calibration) -> None:
        if calibration.samples is None or calibration.accuracy is not None:
            return
        scheme, target = scheme_of(self.scheme), Target.load(self.target)
        refine(
            trials_of(main, calibration, scheme, target, self.skip, not self.asymmetric),
            calibration,
        )
