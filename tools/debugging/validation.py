"""`--validate`: run the module before and after each pass on several inputs and compare the
results by the relation that the pass declares (`transforms/rewriting/passes.py`). The first
pass that breaks it ends the compilation; `reduction.py` cuts the module down to a test that repeats
it."""

import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.stated import PAYLOAD
from ge.dialects.support.diagnostics import location_of, warning_handler
from ge.dialects.support.errors import GeError
from ge.dialects.text.printing import op_text
from ge.lowering.pipeline.pass_manager import Instrumentation
from ge.lowering.pipeline.pass_options import text_of
from ge.runtime.data.arrays import Array
from ge.runtime.data.files import Outputs
from ge.runtime.data.weights import Payload, weights_of, write_safetensors
from ge.tools.debugging.reduction import reduce
from ge.transforms.rewriting.counts import collecting
from ge.transforms.rewriting.passes import OtherInputs, Relation, SameSteps, Ulps, relation_of

if TYPE_CHECKING:
    from ge.runtime.device.trials import GrowingTrials, Trials

Outcome = Mapping[str, Array] | GeError
Runner: TypeAlias = "Trials | GrowingTrials"  # inputs for a module, and what comes of them

NUDGES = (1, 2, 3)  # runs on inputs that are a few ULPs off, when a pass may round differently


MakeRunner = Callable[[ModuleOp, Payload], Runner]  # raises GeError for a module that cannot be run


@dataclass(frozen=True)
class Difference:
    trial: str
    output: str
    text: str

    def __str__(self) -> str:
        output = f"output '{self.output}': " if self.output else ""
        return f"{self.trial}: {output}{self.text}"


def first_difference(
    runner: Runner,
    relation: Relation,
    old: ModuleOp,
    before: Sequence[Outcome],
    after: Sequence[Outcome],
    padded: bool = False,
) -> Difference | None:
    """The first thing that breaks the relation. What a module refused before, it may compute or
    refuse now. `padded`: sums of padded trials are longer after than before."""
    others: list[Sequence[Outcome]] | None = None
    of_pass = relation
    for i, (trial, a, b) in enumerate(zip(runner.trials, before, after, strict=True)):
        relation = Ulps() if padded and trial.is_padded else of_pass
        if isinstance(a, GeError):
            continue
        if isinstance(b, GeError):
            return Difference(str(trial), "", f"cannot be run any more: {b.message}")
        for name in [*a, *(n for n in b if n not in a)]:
            if name not in b and relation.prunes:
                continue
            if name not in a or name not in b:
                what = "has gone" if name in a else "is new"
                return Difference(str(trial), name, f"it {what}")
            text = relation.difference(a[name], b[name])
            if text is not None and not relation.is_exact:
                if others is None:
                    others = [runner.run(old, n) for n in NUDGES]
                text = relation.difference(a[name], b[name], _of(others, i, name))
            if text is not None:
                return Difference(str(trial), name, text)
    return None


@dataclass(frozen=True)
class Compared:
    """The module that a pass made, on the inputs that its later forms are run on too."""

    runner: Runner
    outcomes: Sequence[Outcome]
    difference: Difference | None


def compared(
    make_runner: MakeRunner, p: ModulePass, modules: tuple[ModuleOp, ModuleOp], payload: Payload,
    runner: Runner, before: Sequence[Outcome],
) -> Compared:  # fmt: skip
    """`modules`: before the pass and after; `before`: what the first one gives on the runner's
    inputs. Raises GeError where states grow from the pass on, and a module cannot be run so."""
    old, new = modules
    relation = relation_of(p)
    if isinstance(relation, SameSteps | OtherInputs):
        try:
            runner = make_runner(new, payload)
        except GeError as e:
            raise GeError(f"after pass '{p.name}' {e.message}", e.where, e.hint) from None
        if isinstance(relation, OtherInputs):
            return Compared(runner, runner.first, None)
        before = runner.run(old)
        if error := next((o for o in before if isinstance(o, GeError)), None):
            text = f"what pass '{p.name}' made runs step by step, what was before it does not"
            raise GeError(f"{text}: {error.message}")
        outcomes = runner.first
        return Compared(runner, outcomes, first_difference(runner, relation, old, before, outcomes))
    if (for_gears := runner.for_gears(old, new)) is not None:
        runner, before = for_gears, for_gears.first
    outcomes, padded = runner.run(new), for_gears is not None
    difference = first_difference(runner, relation, old, before, outcomes, padded)
    return Compared(runner, outcomes, difference)


def _of(rounds: Sequence[Sequence[Outcome]], trial: int, name: str) -> list[Array]:
    outcomes = [outcomes[trial] for outcomes in rounds]
    return [o[name] for o in outcomes if not isinstance(o, GeError)]


def structure(module: ModuleOp) -> list[object]:
    numbers: dict[SSAValue | Operation | Block | None, int] = {}
    entries: list[object] = []

    def define(value: SSAValue) -> Attribute:
        numbers[value] = len(numbers)
        return value.type

    for op in module.walk():
        numbers[op] = len(numbers)
        operands = [numbers.get(v, -1) for v in op.operands]
        types = [define(r) for r in op.results]
        blocks = [[define(a) for a in b.args] for r in op.regions for b in r.blocks]
        around = numbers.get(op.parent_op(), -1)
        entries.append((op.name, around, operands, types, blocks, op.properties, op.attributes))
    return entries


class _Without:
    """No weights: random ones take their place."""

    def get(self, key: str, /) -> Array | None:
        return None


@dataclass
class Validation(Instrumentation):
    """Raises GeError after the first pass that breaks its relation."""

    make_runner: MakeRunner
    ctx: Context
    # The weights, or what opens those that a module names
    payload: Payload | Callable[[ModuleOp], Payload]
    # Where the test goes that repeats what went wrong; None: validate-PASS.mlir
    output: str | None = None
    plugins: Sequence[str] = ()
    seconds: float = 60.0  # how long to look for the ops that matter
    passes: int = 0  # how many passes were right
    runner: "Runner | None" = None
    _payload: Payload = field(default_factory=_Without)
    _old: ModuleOp | None = None
    _outcomes: Sequence[Outcome] = ()

    def start(self, module: ModuleOp) -> None:
        self.runner = None

    def before(self, p: ModulePass, module: ModuleOp) -> None:
        if self.runner is None:
            payload = self.payload
            self._payload = payload(module) if callable(payload) else payload
            self.runner = self.make_runner(module, self._payload)
            self._outcomes = self.runner.first
        self._old = module.clone()

    def after(self, p: ModulePass, module: ModuleOp) -> None:
        old, runner = self._old, self.runner
        assert old is not None
        assert runner is not None
        module.verify()
        self._old = None
        self.passes += 1
        if structure(old) == structure(module):
            return
        done = compared(self.make_runner, p, (old, module), self._payload, runner, self._outcomes)
        if done.difference is not None:
            raise self.broken(p, old, done.difference)
        self.runner, self._outcomes = done.runner, done.outcomes

    def broken(self, p: ModulePass, old: ModuleOp, difference: Difference) -> GeError:
        """Cut the module down, write the test, and say what the pass breaks."""
        case = Case(self, p)
        small, payload = case.reduced(old, self._payload)
        smaller = case.difference(small, payload)
        path = Path(self.output or f"validate-{p.name}.mlir")
        case.write(path, small, payload, smaller or difference)
        ops = [op for op in small.walk() if op.results and not isinstance(op, ConstantOp)]
        return GeError(
            f"pass '{p.name}' declares {relation_of(p)}, but changes the numbers: {difference}",
            next((str(location) for op in ops if str(location := location_of(op))), ""),
            f"{path} repeats it with {len(ops)} op{'s' * (len(ops) != 1)}",
        )


@dataclass
class Case:
    validation: Validation
    broken: ModulePass

    def difference(self, module: ModuleOp, payload: Payload) -> Difference | None:
        """Return what the pass breaks on a module that nothing is known about; None as well if the
        module is not valid, or the pass fails on it."""
        with ExitStack() as stack:
            stack.enter_context(warning_handler(lambda _: None))
            stack.enter_context(collecting())
            try:
                module.verify()
                after = module.clone()
                self.broken.apply(self.validation.ctx, after)
                after.verify()
                make, both = self.validation.make_runner, (module, after)
                runner = make(module, payload)
                return compared(make, self.broken, both, payload, runner, runner.first).difference
            except Exception:
                return None

    def reduced(self, module: ModuleOp, payload: Payload) -> tuple[ModuleOp, Payload]:
        """The module cut down, and the weights that it needs: none, if random ones do as well."""
        end = time.process_time() + self.validation.seconds
        for weights in (_Without(), payload):
            if self.difference(module, weights) is not None:
                small = reduce(module, lambda m, w=weights: self.difference(m, w) is not None, end)
                return small, weights
        return module, payload

    def write(self, path: Path, module: ModuleOp, payload: Payload, difference: Difference) -> None:
        weights = {k: a for k in weights_of(module) if (a := payload.get(k)) is not None}
        module.attributes.pop(PAYLOAD, None)
        plugins = [f"--load-plugin={Path(p).resolve()}" for p in self.validation.plugins]
        spec = str(text_of(self.broken))
        command = shlex.join(["ge-opt", "%s", *plugins, "-p", spec, "--validate"])
        lines = [
            f"// RUN: {command} | filecheck %s",
            f"// Declared: {relation_of(self.broken)}.",
            f"// {' '.join(str(difference).split())}",
            "// CHECK: builtin.module",
            "",
        ]
        with Outputs() as out:
            if weights:
                file = path.with_suffix(".safetensors")
                out.binary(file, lambda f: write_safetensors(f, weights))
                module.attributes[PAYLOAD] = StringAttr(file.name)
            out.text(path, "\n".join([*lines, op_text(module), ""]))
