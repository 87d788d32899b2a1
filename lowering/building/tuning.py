"""The fastest parameters of a kernel in Python: tried on the emulated cores, kept in a file.

    tuning = tune(gemm, (a, b, out), {"M": [64, 128], "N": [128, 256]})
    kept = Tunings.read("tunings.json").with_entry(tuning.entry)     # ge-tune writes kept.rows()
    gemm.on(a, b, out, tunings="tunings.json")

All combinations are tried where they are at most `limit`; else one parameter after the other, each
value of it with the best of the others, until nothing gets faster. What does not fit on the core is
left out. The time is that of the simulation (`runtime/cores`), of one launch with its operands in
HBM; numbers are neither computed nor proved here.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from inspect import getsource
from itertools import product
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from xdsl.ir import Attribute

from ge.dialects.support.errors import GeError
from ge.dialects.targets import DEFAULT_TARGET
from ge.dialects.targets.target import Target

if TYPE_CHECKING:
    from ge.lowering.building.tile_kernels import Kernel, Like, TileProgram

LIMIT = 64  # programs that are tried

Parameters: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class TuningTrial:
    """A program that was tried: its time, or why there is none."""

    parameters: Parameters
    us: float | None
    bound: str = ""  # what sets the time
    why: str = ""


@dataclass(frozen=True)
class Entry:
    """What is kept: the fastest parameters of a kernel, for arguments of these types, on a target.
    `source` is a hash of the kernel's text: a kernel that was changed is another one."""

    kernel: str
    source: str
    arguments: Sequence[str]
    target: str
    cores: int
    parameters: Parameters
    us: float

    @property
    def key(self) -> tuple[Any, ...]:
        return self.kernel, self.source, tuple(self.arguments), self.target


@dataclass(frozen=True)
class Tuning:
    """The result of a search, and all that was tried, the fastest first."""

    entry: Entry
    trials: Sequence[TuningTrial]
    combinations: int  # that there are

    @property
    def summary(self) -> str:
        e, tried = self.entry, len(self.trials)
        how = "all" if tried == self.combinations else f"of {self.combinations:,}"
        what = ", ".join(f"{k}={v}" for k, v in e.parameters.items())
        took = f"{e.us:,.2f} us on {Target.load(e.target).timed()}"
        return f"@{e.kernel}: {took}, with {what} ({tried:,} programs tried, {how})"


def tune(
    kernel: "Kernel",
    arguments: Sequence["Like"],
    choices: Mapping[str, Sequence[Any]] | None = None,
    target: str = DEFAULT_TARGET,
    cores: int | None = None,
    limit: int = LIMIT,
    tell: Callable[[TuningTrial], None] = lambda trial: None,
) -> Tuning:
    """The fastest parameters among the choices; by default each number of the kernel's parameters,
    its half and its double. Raises GeError where no program runs."""
    choices = choices or default_choices(kernel)
    if not choices:
        raise GeError(f"@{kernel.name} has no parameters to choose", hint="give values: M=64,128")
    search = TuningSearch(kernel, arguments, target, cores, tell)
    size = prod(len(values) for values in choices.values())
    if size <= limit:
        for values in product(*choices.values()):
            search.time_of(dict(zip(choices, values, strict=True)))
    else:
        descend(search, choices, limit)
    trials = sorted(search.trials.values(), key=lambda t: (t.us is None, t.us))
    best = trials[0]
    if best.us is None:
        raise GeError(f"@{kernel.name} runs with none of the choices: {best.why}")
    program = search.programs(best.parameters)
    name = program.target.name
    types = tuple(type_text(a.type) for a in program.kernel.arguments)
    count = program.kernel.core_count
    entry = Entry(kernel.name, source_of(kernel), types, name, count, best.parameters, best.us)
    return Tuning(entry, trials, size)


@dataclass
class TuningSearch:
    """Times of programs, each tried once."""

    kernel: "Kernel"
    arguments: Sequence["Like"]
    target: str
    cores: int | None
    tell: Callable[[TuningTrial], None]
    trials: dict[tuple[Any, ...], TuningTrial] = field(
        default_factory=dict[tuple[Any, ...], TuningTrial]
    )

    def programs(self, parameters: Parameters) -> "TileProgram":
        return self.kernel.on(*self.arguments, cores=self.cores, target=self.target, **parameters)

    def time_of(self, parameters: Parameters) -> float:
        key = tuple(parameters.values())
        if key not in self.trials:
            self.trials[key] = trial = self.attempt(parameters)
            self.tell(trial)
        us = self.trials[key].us
        return float("inf") if us is None else us

    def attempt(self, parameters: Parameters) -> TuningTrial:
        try:
            time = self.programs(parameters).time()
        except GeError as e:
            return TuningTrial(parameters, None, why=e.message)
        return TuningTrial(parameters, time.total_us, time.bound)


def descend(search: TuningSearch, choices: Mapping[str, Sequence[Any]], limit: int) -> None:
    """One parameter after the other, from the kernel's own on."""
    own = search.kernel.parameters
    best = {n: own[n] if own[n] in values else values[0] for n, values in choices.items()}
    us = search.time_of(best)
    for name, value in around(choices, best):
        if len(search.trials) >= limit:
            return
        if (time := search.time_of({**best, name: value})) < us:
            best[name], us = value, time


def around(
    choices: Mapping[str, Sequence[Any]], best: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    """Values to try, until a round over all parameters changed nothing in `best`."""
    before = None
    while before != dict(best):
        before = dict(best)
        for name, values in choices.items():
            yield from ((name, v) for v in values)


def default_choices(kernel: "Kernel") -> dict[str, list[int]]:
    numbers = {n: v for n, v in kernel.parameters.items() if type(v) is int and v > 1}
    return {n: sorted({v, max(v // 2, 1), 2 * v}) for n, v in numbers.items()}


def source_of(kernel: "Kernel") -> str:
    return sha256(getsource(kernel.function).encode()).hexdigest()[:16]


def type_text(memref: Attribute) -> str:
    """Such as 512x256xf16."""
    return str(memref).removeprefix("memref<")[:-1]


# ---- what is kept ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tunings:
    """The entries of a file."""

    entries: Mapping[tuple[Any, ...], Entry]

    @classmethod
    def read(cls, path: str) -> "Tunings":
        """Those of a file; none where there is no file. Raises GeError for what is no such file."""
        if not Path(path).exists():
            return cls({})
        try:
            rows: list[dict[str, Any]] = json.loads(Path(path).read_text()).get("tunings", [])
            for row in rows:
                row["arguments"] = tuple(row["arguments"])
            entries = [Entry(**row) for row in rows]
        except (OSError, ValueError, AttributeError, TypeError) as e:
            hint = "ge-tune -o writes such files"
            raise GeError(f"it is no file of tunings: {e}", path, hint) from None
        return cls({e.key: e for e in entries})

    def with_entry(self, entry: Entry) -> "Tunings":
        """The entry in the place of one for the same."""
        return Tunings({**self.entries, entry.key: entry})

    def rows(self) -> dict[str, Any]:
        """What the file says."""
        return {"tunings": [asdict(e) for e in self.entries.values()]}

    def parameters(self, kernel: "Kernel", types: Sequence[str], target: str) -> Parameters:
        """Those kept for a kernel; none for others, and for one that has changed since."""
        entry = self.entries.get((kernel.name, source_of(kernel), tuple(types), target))
        return {} if entry is None else entry.parameters
