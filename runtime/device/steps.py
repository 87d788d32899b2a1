"""Runs a module whose states grow, so many times one after the other, to compare it with what a
pass makes of it, as `trials.py` does with other modules.

A trial begins with states of some rows: none; as many as leave room for its runs and no more; where
rows lie in blocks, as many as end just before the second block. What was appended, and all outputs,
are compared by run.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp

from ge.dialects.graph.state import growing_symbol
from ge.dialects.support.element_types import is_integer
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import functions
from ge.runtime.data.arrays import Array
from ge.runtime.data.weights import Fallback, Payload, RandomPayload
from ge.runtime.device.ports import Port, input_ports, with_rows
from ge.runtime.device.session import Session, main_of
from ge.runtime.device.trials import (
    BOUNDS,
    KINDS,
    NudgedPayload,
    Outcome,
    Sizes,
    Trials,
    as_error,
    make_inputs,
    nudged,
    refuse_large,
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
        """What each trial gives with another module, also one whose states have no capacity yet;
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
    """What a module is run on to be validated."""
    main = functions(module).get("main")
    grows = main is not None and main.body.blocks and growing_symbol(main) is not None
    return GrowingTrials(module, payload) if grows else Trials(module, payload)
