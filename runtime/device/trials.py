"""Runs a module on several sets of inputs, to compare it with what a pass makes of it.

Each function is tried with sets of four kinds: normal numbers; `edges` (zeros of both signs,
denormals, ties of rounding, bounds of activations); `extremes` (these, and the largest numbers,
infinities, nan, the least and greatest integers); zeros, all of one sign. There are more sets of
special values where the inputs are too small to hold all of them at once. What a module refuses
(an index out of range, sizes that do not fit) is chosen more carefully, up to small indices and
one size for all dimensions. Weights that the payload lacks are random.

A module whose states grow is run so many times one after the other. A trial begins with states of
some rows: none; as many as leave room for its runs and no more; where rows lie in blocks, as many
as end just before the second block. What was appended, and all outputs, are compared by run."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from zlib import crc32

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from ge.dialects.graph.sharding import mesh_of_parts
from ge.dialects.graph.stated import growing_symbol
from ge.dialects.support.diagnostics import warning
from ge.dialects.support.dims import NUMBERS, evaluated, parsed
from ge.dialects.support.element_types import is_integer
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import MAIN, functions
from ge.dialects.support.types import DYNAMIC, byte_size
from ge.runtime.data.arrays import Array, dtype_of, float_limits, integer_limits, kind_of
from ge.runtime.data.npz import machine_bytes
from ge.runtime.data.weights import Fallback, Payload, RandomPayload, weights_of
from ge.runtime.device.function import Function
from ge.runtime.device.gears import GearTable
from ge.runtime.device.ports import Port, check_inputs, input_ports, output_ports, with_rows
from ge.runtime.device.session import Prepared, Session, main_of
from ge.runtime.device.tiled import TileKernels

KINDS = ("normal", "edges", "extremes", "zeros")
PADDED = "padded"  # normal floats, ones and true of a size between gears

# What a function gives: its outputs by name, or why there are none
Outcome = Mapping[str, Array] | GeError

# ---- values ----------------------------------------------------------------------------------


def edge_values(dtype: np.dtype[Any]) -> list[float]:
    """Floats at which formulas go wrong, all finite and none large."""
    info = float_limits(dtype)
    least = float(info.smallest_subnormal)
    tiny, eps = float(info.tiny), float(info.eps)
    positive = [0.0, least, 3 * least, tiny, eps, 0.5, 1.0, 1.0 + eps, 1.5, 2.5, 3.0, 6.0]
    return [sign * v for v in positive for sign in (1.0, -1.0)]


def extreme_values(dtype: np.dtype[Any]) -> list[float]:
    """Values of a float type at which sums and products leave its range."""
    largest = float(float_limits(dtype).max)
    return [math.inf, math.nan, largest, -math.inf, -largest, math.sqrt(largest)]


def with_special(
    rng: np.random.Generator, values: Array, special: Array, share: float, turn: int
) -> Array:
    """Values, a share of them replaced by special ones, each of these as often: in small arrays
    more of them, so that none is left out; the next `turn` goes on where the last one ended."""
    size = values.size
    count = max(int(size * share), min((size + 1) // 2, len(special)))
    flat = values.reshape(-1)
    flat[rng.permutation(size)[:count]] = np.resize(np.roll(special, -turn * count), count)
    return flat.reshape(values.shape)


def floats(
    rng: np.random.Generator, kind: str, shape: Sequence[int], dtype: np.dtype[Any], turn: int = 0
) -> Array:
    """Floats of a kind: half of them of the kind's own values (an eighth for extremes). Zeros have
    one sign, so that sums of them have it too."""
    if kind == "zeros":
        return np.full(shape, -0.0 if turn else 0.0).astype(dtype)
    values = np.asarray(rng.standard_normal(shape, np.float32)).astype(dtype)
    if kind == "normal":
        return values
    edges = np.array(edge_values(dtype), np.float64).astype(dtype)
    values = with_special(rng, values, edges, 0.5, turn)
    if kind == "extremes":
        extremes = np.array(extreme_values(dtype), np.float64).astype(dtype)
        values = with_special(rng, values, extremes, 0.125, turn)
    return values


def integers(
    rng: np.random.Generator,
    kind: str,
    shape: Sequence[int],
    dtype: np.dtype[Any],
    bound: int | None,
    turn: int = 0,
) -> Array:
    """Integers from 0 to below `bound`; without one, extremes are the limits of the type."""
    info = integer_limits(dtype)
    if kind == "zeros":
        return np.zeros(shape, dtype)
    if bound is not None:
        return np.asarray(rng.integers(0, min(bound, int(info.max)), shape)).astype(dtype)
    if kind == "extremes":
        values = np.array([info.min, info.max, info.min + 1, 0, 1, info.max // 2], dtype)
        return with_special(rng, np.empty(shape, dtype), values, 1.0, turn)
    low = 0 if info.min == 0 else -100
    return np.asarray(rng.integers(low, 101, shape)).astype(dtype)


def truth_values(rng: np.random.Generator, kind: str, shape: Sequence[int], turn: int) -> Array:
    """Half of them true, a single one every other turn; none for zeros."""
    false = np.zeros(shape, np.bool_)
    if kind == "zeros":
        return false
    return with_special(rng, false, np.array([True, False]), 1.0, turn)


MOST_GEARS = 4  # that are tried
BOUNDS = (None, 100, 8, 2)  # limits of integer inputs, tried in turn

# ---- dimensions ------------------------------------------------------------------------------


def size_of(text: str, sizes: Callable[[str], int]) -> int:
    """The size of a symbolic dimension, which may be a formula: `past + 1`."""
    formula = parsed(text)
    size = None if formula is None else evaluated(formula, sizes, NUMBERS)
    return sizes(text) if size is None else max(size, 0)


class Sizes:
    """Sizes of dimensions that are not known: equal for equal names. `scheme` says which:
    `differ` (from 2 to 5), `names` (those without a name are all 3), `same` (2), `one`."""

    SCHEMES = ("differ", "names", "same", "one")

    def __init__(self, scheme: str, rng: np.random.Generator) -> None:
        self.scheme, self.rng = scheme, rng
        self.free = [int(n) for n in rng.permutation([2, 3, 4, 5])]
        self.known: dict[str, int] = {}

    def of_name(self, name: str) -> int:
        if name not in self.known:
            self.known[name] = self.free[len(self.known) % len(self.free)]
        return self.known[name]

    def of(self, size: int, name: str) -> int:
        if size != DYNAMIC:
            return size
        if self.scheme in ("same", "one"):
            return size_of(name, lambda _: 2 if self.scheme == "same" else 1) if name else 2
        if name:
            return size_of(name, self.of_name)
        return int(self.rng.integers(2, 6)) if self.scheme == "differ" else 3


def make_inputs(
    ports: Sequence[Port], kind: str, scheme: str, bound: int | None, seed: int, turn: int = 0
) -> dict[str, Array]:
    """Inputs of a kind by name. The same arguments give the same inputs."""
    rng = np.random.default_rng((seed, crc32(kind.encode()), turn))
    sizes = Sizes(scheme, rng)
    inputs: dict[str, Array] = {}
    for port in ports:
        shape = [sizes.of(d, n) for d, n in zip(port.shape, port.dims, strict=True)]
        dtype = dtype_of(port.element)
        if (numbers := kind_of(dtype)) == "b":
            inputs[port.name] = truth_values(rng, kind, shape, turn)
        elif numbers in "iu":
            inputs[port.name] = integers(rng, kind, shape, dtype, bound, turn)
        else:
            inputs[port.name] = floats(rng, kind, shape, dtype, turn)
    return inputs


def sized(ports: Sequence[Port], gears: GearTable, sizes: Sequence[int]) -> list[Port]:
    """The ports at sizes of the dimensions of gears."""
    size = dict(zip(gears.names, sizes, strict=True))
    return [
        replace(p, shape=tuple(
            size.get(d or f"{p.name}[{i}]", n)
            for i, (n, d) in enumerate(zip(p.shape, p.dims, strict=True))
        ))
        for p in ports
    ]  # fmt: skip


TURNS = 4


def turns_of(inputs: Mapping[str, Array], kind: str) -> int:
    """Number of sets of a kind, `TURNS` at most, until half of each input has been each of the
    kind's values."""
    turns = [1.0]
    for array in inputs.values():
        if (numbers := kind_of(array.dtype)) == "b":
            turns.append(1 if kind == "zeros" else 2 / max(array.size, 1))
        elif numbers == "f" and kind != "normal":
            count = len(edge_values(array.dtype))
            turns.append(2 if kind == "zeros" else 2 * count / max(array.size, 1))
    return min(math.ceil(max(turns)), TURNS)


# ---- changes by a few ULPs -------------------------------------------------------------------


def nudged(array: Array, seed: int) -> Array:
    """Floats up to two ULPs off; other arrays unchanged."""
    if kind_of(array.dtype) != "f":
        return array
    rng = np.random.default_rng((seed, array.size))
    steps = rng.integers(-2, 3, array.shape) * float(float_limits(array.dtype).eps)
    with np.errstate(all="ignore"):
        return (array.astype(np.float64) * (1.0 + steps)).astype(array.dtype)


class NudgedPayload:
    """Weights that differ from the payload's by about a rounding error."""

    def __init__(self, payload: Payload, seed: int) -> None:
        self.payload, self.seed = payload, seed

    def get(self, key: str, /) -> Array | None:
        array = self.payload.get(key)
        return None if array is None else nudged(array, self.seed)


# ---- trials ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trial:
    function: str
    kind: str
    inputs: Mapping[str, Array]

    @property
    def is_padded(self) -> bool:
        """True if the sizes lie between those of gears."""
        return self.kind == PADDED

    def __str__(self) -> str:
        return f"@{self.function}, {self.kind} inputs" if self.inputs else f"@{self.function}"


def tried(module: ModuleOp) -> Iterator[FuncOp]:
    for name, func in functions(module).items():
        if func.body.blocks and name != "prepare":
            yield func


def tried_sizes(func: FuncOp) -> str:
    """A note about the sizes that a function was tried at; "" if they are all known."""
    is_open = any(DYNAMIC in p.shape for p in input_ports(func))
    return "sizes of 1 to 5 were tried: fix its dimensions with --dim or --shape" if is_open else ""


def has_loop(func: FuncOp) -> bool:
    return any(op.name.endswith((".loop", ".while", ".for")) for op in func.walk())


class Callee:
    def __init__(
        self,
        module: ModuleOp,
        name: str,
        payload: Payload,
        states: Mapping[str, str],
        code_of: TileKernels | None = None,
    ) -> None:
        self.name, self.states = name, states
        self.function: Function | None = None
        self.devices: Session | None = None  # of the program of one of several devices
        func = functions(module).get(name)
        if func is None:
            self.error = GeError(f"there is no function @{name} any more")
            return
        self.ports, self.names = input_ports(func), [p.name for p in output_ports(func)]
        self.gears = GearTable.of(func)
        try:
            if name == "main" and mesh_of_parts(module) is not None:
                self.devices = Session(module, payload, poison=True, sanitize=False)
                return
            payload = Prepared(payload, module)
            self.function = Function(module, func, payload, poison=True, code_of=code_of)
        except Exception as e:
            self.error = as_error(e)

    def __call__(self, inputs: Mapping[str, Array]) -> Outcome:
        """The outcome; inputs that the function has no more are ignored."""
        if self.function is None and self.devices is None:
            return self.error
        known = {p.name: inputs[p.name] for p in self.ports if p.name in inputs}
        try:
            if self.function is None:
                assert self.devices is not None
                return self.devices.run(known)
            for state in self.function.states:
                state.write(inputs[state.name])
            arrays, cut = check_inputs(self.ports, known), None
            if self.gears is not None:
                of_ports = [p.name for p in self.ports], [p.dims for p in self.ports]
                arrays, cut = self.gears.fitted(arrays, *of_ports)
            outputs = dict(zip(self.names, self.function.run(arrays), strict=True))
            if cut is not None:
                outputs = cut(outputs, {})
            for state in self.function.states:
                state.advance(0)
                outputs[self.states.get(state.name, state.name)] = state.read()
            return outputs
        except Exception as e:
            return as_error(e)


def as_error(error: Exception) -> GeError:
    """Kernels may raise anything for operands that do not fit."""
    return error if isinstance(error, GeError) else GeError(f"{type(error).__name__}: {error}")


@dataclass
class Trials:
    """Inputs for the functions of a module that it can be run with. `seconds` limits the processor
    time of one round: when the first sets take longer, there are no more.

    Raises GeError for a module that cannot be run at all."""

    module: ModuleOp
    payload: Payload
    seed: int = 0
    seconds: float = 10.0
    trials: list[Trial] = field(default_factory=list[Trial])
    first: list[Outcome] = field(default_factory=list[Outcome])  # what the module gives
    # Inputs that are state, as far as a module has said so, and the outputs that they become
    states: dict[str, str] = field(default_factory=dict[str, str])
    gears: GearTable | None = None  # whose sizes the inputs of @main have

    def __post_init__(self) -> None:
        refuse_large(self.module)
        self.payload = Fallback(self.payload, RandomPayload(self.module, self.seed))
        start = time.process_time()
        why: dict[FuncOp, GeError] = {}
        for func in tried(self.module):
            callee = Callee(self.module, func.sym_name.data, self.payload, {})
            for kind in KINDS if func.body.block.args else KINDS[:1]:
                if self.trials and time.process_time() - start > self.seconds:
                    break
                if error := self._find(func, callee, kind):
                    why[func] = error
        working = {t.function for t in self.trials}
        failed = {f: e for f, e in why.items() if f.sym_name.data not in working}
        if not self.trials:
            text = next((f": {e.message}" for e in failed.values()), ": it has no functions")
            hint = next(map(tried_sizes, failed), "")
            raise GeError(f"the module cannot be run to be validated{text}", hint=hint)
        for func, error in failed.items():
            text = "; ".join(filter(None, (error.message, tried_sizes(func))))
            warning(func, f"@{func.sym_name.data} is not validated: {text}")

    def _find(self, func: FuncOp, callee: Callee, kind: str) -> GeError | None:
        """Add a trial of a kind; why there is none."""
        ports, error = input_ports(func), None
        if self.gears is not None and func.sym_name.data == MAIN:
            return self._find_gears(self.gears, ports, callee, kind)
        dynamic = any(DYNAMIC in p.shape for p in ports)
        indices = any(is_integer(p.element) for p in ports)
        bounds = BOUNDS if indices and kind != "zeros" else BOUNDS[:1]
        if indices and has_loop(func):
            bounds = BOUNDS[2:]  # an input may be the number of rounds
        for scheme in Sizes.SCHEMES if dynamic else Sizes.SCHEMES[:1]:
            for bound in bounds:
                inputs = make_inputs(ports, kind, scheme, bound, self.seed)
                if (error := self._add(callee, kind, inputs)) is None:
                    for turn in range(1, turns_of(inputs, kind)):
                        more = make_inputs(ports, kind, scheme, bound, self.seed, turn)
                        self._add(callee, kind, more)
                    return None
        return error

    def _find_gears(
        self, gears: GearTable, ports: Sequence[Port], callee: Callee, kind: str
    ) -> GeError | None:
        """Add a trial of a kind for each gear, and one that is padded to it; why there is none."""
        error, count = None, len(self.trials)
        for row in gears.rows[:MOST_GEARS]:
            for bound in BOUNDS:
                inputs = make_inputs(sized(ports, gears, row), kind, "same", bound, self.seed)
                if (error := self._add(callee, kind, inputs)) is None:
                    break
            if kind == KINDS[0] and (sizes := gears.between(row)) is not None:
                inputs = make_inputs(sized(ports, gears, sizes), kind, "same", None, self.seed)
                ones = {n: a if kind_of(a.dtype) == "f" else a | 1 for n, a in inputs.items()}
                self._add(callee, PADDED, ones)
        return error if len(self.trials) == count else None

    def for_gears(self, old: ModuleOp, module: ModuleOp) -> "Trials | None":
        """Trials of the sizes of gears, which a module has that an old one has not."""
        tables = [GearTable.of(main) for m in (old, module) if (main := functions(m).get(MAIN))]
        if len(tables) < 2 or tables[0] is not None or tables[1] is None:
            return None
        return Trials(old, self.payload, self.seed, self.seconds, states=self.states,
                      gears=tables[1])  # fmt: skip

    def _add(self, callee: Callee, kind: str, inputs: Mapping[str, Array]) -> GeError | None:
        """Add a trial of a kind on these inputs; why it cannot be run."""
        outcome = callee(inputs)
        if isinstance(outcome, GeError):
            return outcome
        self.trials.append(Trial(callee.name, kind, inputs))
        self.first.append(outcome)
        return None

    def run(
        self, module: ModuleOp, nudge: int = 0, tiles: TileKernels | None = None
    ) -> list[Outcome]:
        """Outcomes of each trial with another module; with `nudge`, on inputs and weights that are
        a few ULPs off, differently for each number; with `tiles`, which are the module's, with
        kernels run by their tile programs."""
        payload = NudgedPayload(self.payload, nudge) if nudge else self.payload
        ports = (p for func in tried(module) for p in input_ports(func))
        self.states |= {p.name: p.state for p in ports if p.state}
        outcomes: dict[str, list[Outcome]] = {}
        for name in dict.fromkeys(t.function for t in self.trials):
            inputs = [t.inputs for t in self.trials if t.function == name]
            if nudge:
                inputs = [{k: nudged(a, nudge) for k, a in i.items()} for i in inputs]
            callee = Callee(module, name, payload, self.states, tiles)
            outcomes[name] = [callee(i) for i in inputs]
        return [outcomes[t.function].pop(0) for t in self.trials]


def refuse_large(module: ModuleOp) -> None:
    """Raise GeError when the weights, both the given ones and those that `@prepare` makes, do not
    fit into the memory of this machine."""
    total = sum(byte_size(t) for t in weights_of(module).values())
    if 3 * total > machine_bytes():
        raise GeError(
            f"the module cannot be validated: its weights take {total / 2**30:.1f} GiB",
            hint="validate a model of the same structure with fewer channels",
        )


RUNS = 3  # of a trial


@dataclass(frozen=True)
class StepsTrial:
    kind: str
    rows: int
    states: Mapping[str, Array]
    runs: Sequence[Mapping[str, Array]]

    is_padded = False

    def __str__(self) -> str:
        return f"{len(self.runs)} runs from row {self.rows}, {self.kind} inputs"

    def nudged(self, seed: int) -> "StepsTrial":
        states, *runs = (
            {k: nudged(a, seed) for k, a in arrays.items()} for arrays in (self.states, *self.runs)
        )
        return StepsTrial(self.kind, self.rows, states, runs)

    def outcome(self, session: Session) -> Outcome:
        """Outputs by name and number of the run, and the states that all runs leave."""
        found: dict[str, Array] = {}
        try:
            session.state.reset()
            session.state.write(self.states)
            for number, inputs in enumerate(self.runs):
                outputs = session.run(inputs)
                found |= {f"{name} of run {number}": a for name, a in outputs.items()}
            return found | {f"state {name}": session.state[name] for name in session.state.names}
        except Exception as e:
            return as_error(e)


@dataclass
class GrowingTrials:
    """Trials of a module whose states grow. Raises GeError for one that cannot be run."""

    module: ModuleOp
    payload: Payload
    seed: int = 0
    seconds: float = 10.0  # of processor time, after which no kind of inputs is added
    trials: list[StepsTrial] = field(default_factory=list[StepsTrial])
    first: list[Outcome] = field(default_factory=list[Outcome])  # what the module gives

    def __post_init__(self) -> None:
        refuse_large(self.module)
        self.payload = Fallback(self.payload, RandomPayload(self.module, self.seed))
        session = Session(self.module, self.payload, poison=True, sanitize=False)
        error, start = GeError("it has no states"), time.process_time()
        starts = self.starts(session)
        for number, kind in enumerate(KINDS):
            if self.trials and time.process_time() - start > self.seconds:
                break
            error = self._find(session, kind, starts[number % len(starts)]) or error
        if not self.trials:
            raise GeError(f"the module cannot be run to be validated: {error.message}")

    def starts(self, session: Session) -> list[int]:
        """The numbers of rows that trials begin with."""
        step = max(p.step for p in input_ports(main_of(self.module)))
        last = max(min(v.capacity for v in session.state.grown) - RUNS * step, 0)
        blocks = session.state.blocks
        return [0, last] if blocks is None else [0, min(max(blocks.rows - step, 0), last), last]

    def _find(self, session: Session, kind: str, rows: int) -> GeError | None:
        """Add a trial of a kind; why there is none."""
        ports = [*session.inputs, *self.states(session, rows)]
        bounds = BOUNDS if any(is_integer(p.element) for p in ports) else BOUNDS[:1]
        error = None
        for bound in bounds:
            trial = self.trial(session, kind, rows, bound)
            outcome = trial.outcome(session)
            if not isinstance(outcome, GeError):
                self.trials.append(trial)
                self.first.append(outcome)
                return None
            error = outcome
        return error

    def states(self, session: Session, rows: int) -> list[Port]:
        """The states as inputs of so many rows."""
        found: list[Port] = []
        for value in session.state.values.values():
            shape = tuple(rows if i == value.grows else n for i, n in enumerate(value.reads))
            found.append(Port(value.name, value.element, shape, ("",) * len(shape)))
        return found

    def trial(self, session: Session, kind: str, rows: int, bound: int | None) -> StepsTrial:
        main = main_of(self.module)
        symbol, scheme = growing_symbol(main) or "", Sizes.SCHEMES[0]
        step = max(p.step for p in input_ports(main))
        states = make_inputs(self.states(session, rows), kind, scheme, bound, self.seed)
        runs: list[Mapping[str, Array]] = []
        for number in range(RUNS):
            ports = [with_rows(p, symbol, rows + number * step) for p in session.inputs]
            runs.append(make_inputs(ports, kind, scheme, bound, self.seed, number))
        return StepsTrial(kind, rows, states, runs)

    def run(self, module: ModuleOp, nudge: int = 0) -> list[Outcome]:
        """Outcomes of each trial with another module, also one whose states have no capacity yet;
        with `nudge`, on inputs, states and weights a few ULPs off."""
        payload = NudgedPayload(self.payload, nudge) if nudge else self.payload
        try:
            session = Session(module, payload, poison=True, sanitize=False)
        except Exception as e:
            return [as_error(e)] * len(self.trials)
        return [(t.nudged(nudge) if nudge else t).outcome(session) for t in self.trials]

    def for_gears(self, old: ModuleOp, module: ModuleOp) -> None:
        """States that grow and gears do not go together."""


def runner_for(module: ModuleOp, payload: Payload) -> Trials | GrowingTrials:
    """The trials on which a module is run to be validated."""
    main = functions(module).get("main")
    grows = main is not None and main.body.blocks and growing_symbol(main) is not None
    return GrowingTrials(module, payload) if grows else Trials(module, payload)
