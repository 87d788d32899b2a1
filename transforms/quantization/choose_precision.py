"""Leave layers in 16 bits or in floats, where the outputs are to be more exact.

With `accuracy="snr>=40"` and samples at hand
    [layers]
    "/fc/Gemm" = "float"
is added to the table, which insert-quantization obeys, where weights that are fitted to the samples
(see fit-weights) are not enough; matmuls of w8a16 may get groups too. For each layer two numbers
are known: the noise that it alone puts on the outputs, and the time that it takes longer in more
bits. The layer that removes most noise for its time comes first, and no more layers are left in
more bits than the bound needs. Their number comes from bisection, each step with all layers
quantized, and with corrected biases, on all samples. Where a time limit comes before, layers have
the most bits that were tried, and the table keeps what was measured, to go on from. Measured noise
is kept for reports where these are asked for.

Beside a precision of 16 bits, layers whose launch takes longer with activations of 8 bits than in
that stay floats, such as many depthwise convolutions, of which vector cores widen what they load.

Without an accuracy two kinds of parts have more bits than 8, where outputs are clearly more exact
then: layers that read inputs of the model, that compute its outputs, or that take least time more,
are floats if that takes hardly more time and memory; embedding tables, which take no time, have 16
bits. And where an output keeps less than 25 dB, as many layers become floats as it takes to keep
that, while all layers take at most a tenth longer: those that take least time more, or those that
cost the outputs most.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial

from xdsl.dialects.builtin import bf16, f16
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation

from ge.dialects.support.diagnostics import location_of, warning
from ge.dialects.support.effort import TimeIsUp, effort_at_hand, unlimited
from ge.dialects.support.errors import GeError
from ge.dialects.support.types import has_size, numel, shape_of
from ge.dialects.targets import DEFAULT_TARGET
from ge.dialects.targets.target import Target
from ge.runtime.data.accuracy import decibels
from ge.transforms.quantization.accuracy import Accuracy, accuracy_of
from ge.transforms.quantization.calibrated_pass import CalibratedPass
from ge.transforms.quantization.data import Calibration, calibration_at_hand
from ge.transforms.quantization.fit_weights import fit_weights
from ge.transforms.quantization.layers import Layer, base_name, computed_outputs
from ge.transforms.quantization.linear_layers import BITS
from ge.transforms.quantization.schemes import (
    FLOAT,
    GROUPS,
    INT8,
    INT16,
    SCHEMES,
    W8A16,
    Scheme,
    scheme_of,
)
from ge.transforms.quantization.table import NOISES, LayerFacts, Table
from ge.transforms.quantization.trials import Trials, layer_us, nearest, trials_of
from ge.transforms.rewriting import remarks

NAME = "choose-precision"
LITTLE = 25.0  # dB of an output: below it is told
NAMED = 3  # layers that are told then
LITTLE_TIME = 0.01  # of all layers, that those at an end, each, or cheap ones may take longer
LITTLE_SIZE = 0.05  # of all weights, that they may have
CLEARLY = {FLOAT: 10**-0.03, INT16: 10**-0.2}  # of the noise: 0.3 dB less, for bytes 2 dB
MENDED_TIME = 0.1  # the same where an output keeps little
SLOWER = 1.05  # times that of floats: a layer that takes longer in integers is floats
LEAST_US = 0.05  # that more bits cost: what is below is not known so exactly

Precisions = Mapping[str, str]


@dataclass(frozen=True)
class Promotion:
    """A layer in more bits than before: what that takes from the noise, and adds to the time."""

    layer: str
    precision: str
    noise: float
    us: float

    @property
    def worth(self) -> float:
        return self.noise / max(self.us, LEAST_US)


def steps_of(
    layer: str, noise: float, choices: Sequence[tuple[str, float, float]]
) -> list[Promotion]:
    """The steps of a layer with a `noise` through precisions of more and more bits, each with its
    noise and extra time; every step is worth no more than the one before."""
    steps: list[Promotion] = []
    for precision, left, us in choices:
        while True:
            gain, spent = noise - left - sum(s.noise for s in steps), us - sum(s.us for s in steps)
            step = Promotion(layer, precision, gain, spent)
            if not steps or step.worth <= steps[-1].worth:
                break
            steps.pop()
        if step.noise > 0:
            steps.append(step)
    return steps


@dataclass
class PrecisionSearch:
    """The search for one function. `facts`: of the layers that can be quantized; `table`: keeps
    what was measured."""

    trials: Trials
    facts: Mapping[str, LayerFacts]
    table: Table = field(default_factory=Table)

    def wider(self) -> list[Scheme]:
        """Schemes of more bits that the target multiplies, or of groups."""
        scheme, rates = self.trials.scheme, self.trials.target.macs_per_cycle
        if scheme.name == W8A16:
            return [SCHEMES[GROUPS]]
        found = SCHEMES.values() if scheme.is_calibrated else ()
        bits = scheme.activation_bits
        return [s for s in found if s.activation_bits > bits and s.rate in rates]

    def steps(self) -> list[Promotion]:
        """Return what layers can become, the best first; each layer's noise alone is kept."""
        found: list[Promotion] = []
        for done, (name, facts) in enumerate(self.facts.items()):
            effort_at_hand().tell("layers", done, len(self.facts))
            layer = self.trials.layers.get(name)
            noise, *wider = self.noises(name, self.wider() if layer is not None else ())
            facts.alone_db = decibels(1.0, noise)
            if layer is None:  # a table, which has 8 bits or is of floats
                found += steps_of(name, noise, [(FLOAT, 0.0, 0.0)])
                continue
            us = partial(layer_us, layer, target=self.trials.target)
            least = us(self.trials.scheme)
            facts.extra_us = us(None) - least
            choices = [
                (s.name, left, us(s) - least) for s, left in zip(self.wider(), wider, strict=True)
            ]
            found += steps_of(name, noise, [*choices, (FLOAT, 0.0, facts.extra_us)])
        return sorted(found, key=lambda s: -s.worth)

    def noises(self, name: str, wider: Sequence[Scheme]) -> list[float]:
        """The noise of the outputs where a layer alone is quantized, and where it has wider
        schemes."""
        known = self.table.vector(NOISES, name)
        if known is not None and len(known) == 1 + len(wider):
            return known
        others = {n: FLOAT for n in self.facts if n != name}
        schemes = [{}, *({name: s.name} for s in wider)]
        noises = [self.trials.noise({**others, **own}) for own in schemes]
        if all(map(math.isfinite, noises)):
            self.table.set_vector(NOISES, name, noises)
        return noises

    def meet(self, accuracy: Accuracy) -> Precisions:
        """The precisions with which the outputs have an accuracy; where time is up, with more bits
        than that may take. Raises GeError where it takes all layers in floats."""
        tried: Precisions = dict.fromkeys(self.facts, FLOAT)
        self.table.open = []
        try:
            for tried in self.reaching(accuracy):
                pass
        except TimeIsUp:
            measured = sum(f.alone_db is not None for f in self.facts.values())
            self.table.open = list(tried)
            what = f"which layers {accuracy} needs in floats ({len(tried)} are, the noise of "
            effort_at_hand().undone.append(f"{what}{measured} of {len(self.facts)} was measured)")
        return tried

    def reaching(self, accuracy: Accuracy) -> Iterator[Precisions]:
        """Yield precisions that reach a bound, each time with fewer layers in more bits."""
        least = accuracy.bound(self.trials.wanted, self.trials.samples.labels)
        first, calibration = self.trials.value(accuracy, {}), calibration_at_hand()
        if first < least and not calibration.table.fitted:
            fit_weights(self.trials, calibration)
            first = self.trials.value(accuracy, {}) if calibration.table.fitted else first
        if first >= least:
            yield {}
            return
        steps = self.steps()

        def value(count: int) -> float:
            return self.trials.value(accuracy, precisions(steps[:count]))

        low, high = 0, max(len(steps) - 1, 0)
        if (reached := value(high) if high else first) < least:
            told, what = accuracy.told, f"{accuracy.told(first)} with all layers quantized"
            what += f", {told(reached)} with '{steps[-1].layer}' alone" if steps else ""
            hint = f"ask for {told(reached)}, or compile without --quantize"
            raise GeError(f"{accuracy} cannot be met: outputs have {what}", hint=hint)
        yield precisions(steps[:high])
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if value(middle) >= least else (middle, high)
            yield precisions(steps[:high])


def precisions(steps: Sequence[Promotion]) -> Precisions:
    return {step.layer: step.precision for step in steps}


@dataclass(frozen=True)
class ChoosePrecisionPass(CalibratedPass):
    """Leave layers in more bits for an accuracy, where there are samples.
    `scheme`, `skip`, `asymmetric`: what insert-quantization has; `target`: what multiplies;
    `accuracy`: a bound such as snr>=25 or cos>=0.999; `data`: a file with samples (.npz), else what
    is at hand; `floats`: what layers that stay floats have, f16 or bf16 (empty: their own type)."""

    name = NAME

    scheme: str = INT8
    skip: tuple[str, ...] = ()
    asymmetric: bool = False
    target: str = DEFAULT_TARGET
    accuracy: str = ""
    floats: str = ""

    def run_within(self, main: FuncOp, calibration: Calibration) -> None:
        self.run(main, calibration)  # what is left is said in any case

    def run(self, main: FuncOp, calibration: Calibration) -> None:
        scheme = scheme_of(self.scheme)
        accuracy = calibration.accuracy or accuracy_of(self.accuracy)
        if calibration.samples is None:
            return
        target, symmetric = Target.load(self.target), not self.asymmetric
        trials = trials_of(main, calibration, scheme, target, self.skip, symmetric)
        costs = Costs(trials)
        chosen: Precisions = {}
        if accuracy is not None or calibration.sensitivity:
            chosen = searched(trials, calibration, accuracy)
        if accuracy is None and scheme.activation_bits == BITS:
            with suppress(TimeIsUp):
                chosen = spared(trials, calibration, costs)
        if scheme.activation_bits == BITS and self.floats:
            floats = bf16 if self.floats == "bf16" else f16
            chosen = {**chosen, **no_faster(trials, calibration, costs, floats)}
        with unlimited():
            left, unchanged = trials.left(chosen)
            if lost := [name for name, db in left.items() if db == -math.inf]:
                refuse_strange(trials, chosen, lost)
        keep_little = accuracy is None and min(left.values(), default=math.inf) < LITTLE
        if keep_little and scheme.activation_bits == BITS:
            with suppress(TimeIsUp):
                chosen = mended(trials, calibration, costs, chosen)
            with unlimited():
                left, unchanged = trials.left(chosen)
        trials.keep_corrections(chosen, calibration.table)
        calibration.left.update(left)
        calibration.unchanged.update(unchanged)
        if accuracy is None and min(left.values(), default=math.inf) < LITTLE:
            with suppress(TimeIsUp):
                tell_of_little(trials, left)


def weight_size(layer: Layer) -> int:
    """Elements of the weight of a layer, 0 without one."""
    return 0 if layer.weight is None else numel(shape_of(layer.op.operands[layer.weight]))


@dataclass
class Costs:
    """What floats cost layers with weights: time that a layer takes longer, elements of weights."""

    trials: Trials

    @cached_property
    def integers(self) -> dict[str, float]:
        """Microseconds of each layer in integers."""
        us = partial(layer_us, scheme=self.trials.scheme, target=self.trials.target)
        return {name: us(layer) for name, layer in self.trials.layers.items()}

    @cached_property
    def sizes(self) -> dict[str, int]:
        found = {name: weight_size(layer) for name, layer in self.trials.layers.items()}
        return {name: size for name, size in found.items() if size}

    @cached_property
    def longer(self) -> dict[str, float]:
        us = partial(layer_us, scheme=None, target=self.trials.target)
        return {n: us(self.trials.layers[n]) - self.integers[n] for n in self.sizes}

    @property
    def time(self) -> float:
        return sum(self.integers.values())

    @property
    def size(self) -> int:
        tables = (numel(shape_of(e.table)) for e in self.trials.embeddings.values())
        return sum(self.sizes.values()) + sum(tables)

    def within(self, names: Iterable[str], time: float, size: float) -> list[str]:
        """The first of some layers that in floats take no more than these shares, together, of the
        time of all layers longer, and of all weights."""
        time, size, found = time * self.time, size * self.size, list[str]()
        for name in names:
            if name not in self.sizes or self.sizes[name] > size:
                continue
            if (us := self.longer[name]) <= time:
                found.append(name)
                time, size = time - us, size - self.sizes[name]
        return found

    def cheapest(self, names: Iterable[str]) -> list[str]:
        return sorted(self.sizes.keys() & {*names}, key=lambda n: (self.longer[n], n))


def layers_at_ends(trials: Trials) -> list[set[str]]:
    """The layers that compute outputs, and those that read inputs of the model."""
    main = trials.main
    ops: dict[Operation, str] = {layer.op: name for name, layer in trials.layers.items()}
    behind = set[Operation]()
    for op in main.body.block.ops:
        if any(v.owner in behind or v.owner in ops for v in op.operands):
            behind.add(op)
    ends = [v.owner for v in computed_outputs(main).values() if isinstance(v.owner, Operation)]
    last = {ops[o] for end in ends for o in nearest(end, ops)}
    return [last, {name for op, name in ops.items() if op not in behind}]


def undecided(facts: Mapping[str, LayerFacts], calibration: Calibration) -> set[str]:
    """The layers and tables that are quantized, and of which the table says nothing."""
    return {n for n, f in facts.items() if f.scheme != FLOAT} - calibration.table.layers.keys()


def spared(trials: Trials, calibration: Calibration, costs: Costs) -> Precisions:
    """The precisions of layers at the ends, of those that take no longer in floats, and of tables,
    that outputs are clearly more exact with."""
    noise = trials.noise({})  # first: this run corrects biases too
    free = undecided(trials.quantized({}, trials.few)[1], calibration)
    little = partial(costs.within, time=LITTLE_TIME, size=LITTLE_SIZE)
    ends = [[n for n in sorted(free & end) if little([n])] for end in layers_at_ends(trials)]
    chosen: dict[str, str] = {}
    for precision, names in (
        *((FLOAT, names) for names in ends),
        (FLOAT, little(costs.cheapest(free))),
        (INT16, [n for n in trials.embeddings if n in free]),
    ):
        names = [n for n in names if n not in chosen]
        if not names:
            continue
        more = {**chosen, **dict.fromkeys(names, precision)}
        if (left := trials.noise(more)) >= noise * CLEARLY[precision]:
            continue
        why = f"outputs gain {decibels(noise, left):.1f} dB"
        tell(trials, calibration, dict.fromkeys(names, precision), why)
        chosen, noise = more, left
    return chosen


def no_faster(
    trials: Trials, calibration: Calibration, costs: Costs, floats: Attribute
) -> Precisions:
    """Floats for the layers whose launch takes longer in integers, with both times; of layers of
    unknown sizes none is known to."""
    found: dict[str, str] = {}
    for name in costs.sizes.keys() - calibration.table.layers.keys():
        layer, scheme = trials.layers[name], trials.scheme.name
        if not all(map(has_size, (*layer.op.operands, *layer.op.results))):
            continue
        us, others = costs.integers[name], layer_us(layer, None, trials.target, floats)
        if us > SLOWER * others:
            why = f"{us:.1f} us in {scheme}, {others:.1f} in {floats}, on {trials.target.name}"
            tell(trials, calibration, {name: FLOAT}, why)
            found[name] = FLOAT
    return found


def tell(
    trials: Trials, calibration: Calibration, chosen: Precisions, why: str, rule: str = NAME
) -> None:
    for name, precision in chosen.items():
        calibration.decide(name, trials.op_of(name), precision, why)
        remarks.applied(rule, trials.op_of(name), f"'{name}' in {precision}: {why}")


def mended(
    trials: Trials, calibration: Calibration, costs: Costs, chosen: Precisions
) -> Precisions:
    """The precisions with as few layers in floats as it takes for no output to keep little; where
    the time that they may take does not reach that far, with those that leave clearly more."""
    facts = trials.quantized(chosen, trials.few)[1]
    free = undecided(facts, calibration)
    before, cheap = trials.worst(chosen), costs.cheapest(free)

    def left(floats: Sequence[str]) -> float:
        return trials.worst({**chosen, **dict.fromkeys(floats, FLOAT)})

    if not (found := costs.within(cheap, MENDED_TIME, 1.0)):
        return chosen
    if (reached := left(found)) < LITTLE:
        costly = [name for name, _ in trials.costliest(facts, NAMED) if name in free]
        order = [*costly, *(n for n in cheap if n not in costly)]
        others = costs.within(order, MENDED_TIME, 1.0)
        if (db := left(others)) > reached:
            found, reached = others, db
    if reached < before + decibels(1.0, CLEARLY[INT16]):
        return chosen
    low, high = 0, len(found)
    while reached >= LITTLE and high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if left(found[:middle]) >= LITTLE else (middle, high)
    floats = dict.fromkeys(found[:high], FLOAT)
    why = f"outputs would have {before:.1f} dB with all of {trials.scheme.name}"
    tell(trials, calibration, floats, why)
    time = max(sum(map(costs.longer.__getitem__, floats)), 0.0) / costs.time
    calibration.mended.update(layers=high, time=time)
    return {**chosen, **floats}


def refuse_strange(trials: Trials, chosen: Precisions, outputs: Sequence[str]) -> None:
    """Raises GeError for outputs that are infinite or nan where the float model's are not."""
    for output in outputs:
        if (found := trials.first_strange(chosen, output)) is None:
            continue
        op, layers = found
        what = f"{trials.scheme.name} makes output '{output}' infinite or nan on the samples"
        behind = f", behind {', '.join(map(repr, layers))}" if layers else ""
        skip = ",".join(layers) or base_name(op)
        raise GeError(
            f"{what}, which floats do not: first in '{base_name(op)}' ({op.name}){behind}",
            str(location_of(op)),
            f"--quantize-skip '{skip}' leaves {'these' if layers else 'this'} in floats",
        )


def tell_of_little(trials: Trials, left: Mapping[str, float]) -> None:
    """Warn of outputs that keep little of what they are, with the layers that cost most and the
    ways out."""
    output = min(left, key=left.__getitem__)
    layers = trials.costliest(trials.quantized({}, trials.few)[1], NAMED)
    named = ", ".join(f"'{name}' ({db:.1f} dB alone)" for name, db in layers) or "no layer alone"
    skip = ",".join(name for name, _ in layers)
    ways = f"--quantize-skip '{skip}' leaves these in floats, " if skip else ""
    if not calibration_at_hand().table.fitted:
        ways = f"--fit-weights rounds weights by the samples, {ways}"
    what = f"{trials.scheme.name} leaves {left[output]:.1f} dB of '{output}' on the samples"
    bound = f"--accuracy 'snr>={LITTLE:g}' as many as that takes"
    warning(trials.main, f"{what}; most cost {named}: {ways}{bound}")


def searched(trials: Trials, calibration: Calibration, accuracy: Accuracy | None) -> Precisions:
    """The precisions that an accuracy asks for; what layers are like goes to their facts."""
    with unlimited():
        facts = trials.quantized({}, trials.few)[1]
    calibration.layers.update(facts)
    quantized = {n: f for n, f in facts.items() if f.scheme != FLOAT}
    search = PrecisionSearch(trials, quantized, calibration.table)
    chosen: Precisions = search.meet(accuracy) if accuracy is not None else {}
    for name, precision in chosen.items():
        op = trials.op_of(name)
        calibration.decide(name, op, precision, f"{accuracy} asks for it")
        alone = facts[name].alone_db
        noise = "" if alone is None else f": {alone:.1f} dB alone"
        remarks.applied(NAME, op, f"'{name}' in {precision} for {accuracy}{noise}")
    if calibration.sensitivity:
        try:
            if not any(f.alone_db is not None for f in facts.values()):
                search.steps()
            trials.accumulated(chosen, facts)
        except TimeIsUp:
            effort_at_hand().undone.append("the noise of layers")
    return chosen
