"""Load a module once, run it many times: `Session(module, payload).run({"x": x})`.

The module may be at any level; all levels give the same numbers.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import cached_property, partial
from threading import Lock
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from ge.dialects.graph.sharding import Pipeline, mesh_of_parts
from ge.dialects.graph.stated import growing_symbol
from ge.dialects.npu_task.attributes import STREAMS
from ge.dialects.npu_task.pipeline import is_pipeline
from ge.dialects.support.environment import has_ranks, switch
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import functions
from ge.dialects.support.processes import renew_in_children
from ge.dialects.support.types import DYNAMIC, Shape
from ge.dialects.targets import DEFAULT_TARGET
from ge.dialects.targets.target import Target
from ge.runtime.check.proof import require_met, require_proved
from ge.runtime.data.arrays import Array, dtype_of
from ge.runtime.data.weights import Payload
from ge.runtime.device.binding import Binding, DeviceArray
from ge.runtime.device.devices import Devices, Runs, SpreadState, WeightParts
from ge.runtime.device.executable import Registers
from ge.runtime.device.function import Driver, Function, Staged, Watch
from ge.runtime.device.gears import Cut, GearTable
from ge.runtime.device.ports import (
    RunSeed,
    check_inputs,
    check_outputs,
    input_ports,
    output_ports,
    with_rows,
)
from ge.runtime.device.profiler import observe, requested_files, watch_of
from ge.runtime.device.ranks import Rank
from ge.runtime.device.stages import StageFunction
from ge.runtime.device.state import BlockTable, DeviceState, State, host_states, padded
from ge.runtime.device.streaming import run_many
from ge.runtime.device.tiled import TileKernels

MOST_BOUND = 16  # programs for different shapes that a session keeps loaded


def main_of(module: ModuleOp) -> FuncOp:
    """The function that is run. Raises GeError when there is none."""
    by_name = functions(module)
    if "main" not in by_name:
        names = ", ".join(f"@{n}" for n in by_name) or "none"
        raise GeError("the module has no function @main", hint=f"its functions: {names}")
    return by_name["main"]


class Prepared:
    """A payload with the weights that `@prepare` has computed from it."""

    def __init__(self, payload: Payload, module: ModuleOp) -> None:
        self.payload = payload
        self.path = getattr(payload, "path", None)
        self.arrays: dict[str, Array] = {}
        prepare = functions(module).get("prepare")
        if prepare is not None:
            values = Function(module, prepare, payload).run([])
            self.arrays = dict(zip((p.name for p in output_ports(prepare)), values, strict=True))

    def get(self, key: str, /) -> Array | None:
        return self.arrays[key] if key in self.arrays else self.payload.get(key)


class Session:
    """A loaded module. With `poison`, device memory that holds no live value is garbage, so that
    a wrong memory plan gives wrong numbers. With `sanitize`, the program is proved first, as by
    ge-check (`runtime/check`), and memory is poisoned; None: as GE_SANITIZE says. `state`:
    names of inputs (regular expressions) and of the outputs that they are in the next run; the
    session keeps them, as it keeps what the module says is state. With `cast_inputs`, inputs of
    other floats or integers than the module's are converted. `bind` gives the program for shapes of
    the inputs, where it leaves them open: each is loaded once (see `Program.session`). With
    `tiles` kernels that have a tile program run on emulated cores: "all", or "sample:N" (so many
    cores of each, whose results are compared with those of the kernel's body). Random numbers
    follow from `seed` and from how many runs there were before. Raises GeError when the module
    cannot be run, or is not safe."""

    absent: frozenset[Operation] = frozenset()  # no task is left out
    proved: str = ""  # what `sanitize` proved, as a sentence
    # The program for shapes of inputs by name, where the module leaves them open and runs all the
    # same: what profiles are of
    module_at: Callable[[Mapping[str, Sequence[int]]], ModuleOp] | None = None

    def __init__(
        self,
        module: ModuleOp,
        payload: Payload | None = None,
        target: Target | str = DEFAULT_TARGET,
        poison: bool = False,
        sanitize: bool | None = None,
        state: Mapping[str, str] | None = None,
        cast_inputs: bool = False,
        bind: Callable[[Mapping[str, Shape]], ModuleOp] | None = None,
        tiles: str = "",
        seed: int | RunSeed = 0,
    ) -> None:
        requested_files()  # reports a wrong request now, not after the first run
        main = main_of(module)
        self.pipeline = Pipeline.of(module) if is_pipeline(module) else None
        planned = STREAMS in main.attributes or self.pipeline is not None
        if sanitize is None:
            sanitize = switch("GE_SANITIZE") and planned
        if sanitize and planned:  # before the program level there is no plan to be proved
            self.proved = require_proved(module, with_tiles=bool(tiles))
        else:
            require_met(module)
        self.module = module
        self.target = Target.load(target) if isinstance(target, str) else target
        arguments, results = input_ports(main), output_ports(main)
        self._symbol = growing_symbol(main) or ""
        kept = host_states(arguments, results, state or {}, self._symbol)
        self._arguments, self._results = [p.name for p in arguments], [p.name for p in results]
        self._kept = kept
        becomes = {s.result for s in kept}
        own = {s.name for s in kept}
        self.inputs = [p for p in arguments if p.name not in own and not p.is_known]
        self._lengths = [p for p in arguments if p.step or p.block]
        self._rows = max((p.step for p in self._lengths), default=0)  # that a run appends
        self.outputs = [p for p in results if p.name not in becomes]
        for what, names in (("inputs", self.input_names), ("outputs", self.output_names)):
            if len(set(names)) < len(names):
                twice = next(n for n in names if names.count(n) > 1)
                raise GeError(f"two {what} are called '{twice}'", hint="give each its own name")
        self.gears = GearTable.of(main)
        weights: Payload = {} if payload is None else payload
        self.mesh = self.pipeline.devices if self.pipeline else mesh_of_parts(module)
        alone = self.mesh is None and not isinstance(weights, Prepared)
        self.weights = Prepared(weights, module) if alone else weights
        self._prepared: dict[int, Prepared] = {}  # by device
        self.tiles = TileKernels.of(module, self.target, tiles) if tiles else None
        self._function = self._made(self.tiles, poison or sanitize)
        table = next((BlockTable(p.shape[0], p.block) for p in self._lengths if p.block), None)
        self.state = State((*kept, *self._function.states), table)
        self.seed = RunSeed.of(seed, arguments)
        self.cast_inputs = cast_inputs
        self.lock = Lock()  # held by the thread that runs
        self._queue: ThreadPoolExecutor | None = None
        renew_in_children(self)
        is_open = any(DYNAMIC in p.shape for p in self.inputs) and self.gears is None
        self._bind = bind if is_open and not self.state.names else None
        self._bound: OrderedDict[tuple[Shape, ...], Session] = OrderedDict()
        self._checks: dict[str, Any] = {"poison": poison, "sanitize": sanitize, "tiles": tiles}

    def _made(
        self,
        tiles: TileKernels | None,
        poison: bool = False,
        timing: np.random.Generator | None = None,
    ) -> Runs:
        """Make what runs the program: a function, or one for each device of its mesh."""
        main = main_of(self.module)
        if (mesh := self.mesh) is None:
            function = Function(
                self.module, main, self.weights, poison, timing=timing, code_of=tiles
            )
            return function

        pipeline = self.pipeline

        def made(device: int, module: ModuleOp) -> Function:
            if device not in self._prepared:
                of = mesh if pipeline is None else pipeline.mesh
                parts = WeightParts(self.weights, module, of, device)
                self._prepared[device] = Prepared(parts, module)
            own = None if timing is None else timing.spawn(1)[0]
            weights = self._prepared[device]
            code = None if tiles is None else tiles.on_one_device()
            return Function(module, main_of(module), weights, poison, timing=own, code_of=code)

        def make(device: int) -> Function | StageFunction:
            if pipeline is None:
                return made(device, self.module)
            return StageFunction(self.module, main, device, partial(made, device))

        if has_ranks():
            return Rank(self.module, main, mesh, self.weights, make)
        return Devices(main, mesh, make, timing)

    def after_fork(self) -> None:
        """A run that another thread of the parent was at goes on in the parent alone."""
        self.lock, self._queue = Lock(), None

    @cached_property
    def staged(self) -> Staged:
        """The same program in stages, on the same device. New state of modules of tensors is known
        when the run before has computed."""
        if not isinstance(self._function, Function):
            hint = "call run for each batch"
            raise GeError("a program of many devices is not run in stages", hint=hint)
        main, kept = main_of(self.module), [(s.name, s.result) for s in self._kept]
        arguments = {self._arguments.index(name) for name, _ in kept}
        results = {self._results.index(result) for _, result in kept}
        device = self._function.device
        return Staged(self.module, main, self.weights, device, arguments, results, self.tiles)

    @property
    def rows(self) -> int | None:
        """Number of rows of states that grow; None if no state has any."""
        return (self.state.rows() or None) if self._symbol else None

    @property
    def input_names(self) -> list[str]:
        return [p.name for p in self.inputs]

    @property
    def output_names(self) -> list[str]:
        return [p.name for p in self.outputs]

    def run(
        self,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, Array] | None = None,
        driver: Driver | None = None,
        watch: Watch | None = None,
    ) -> dict[str, Array]:
        """The outputs by name, in arrays of `outputs` or new ones. A program that was compiled with
        `share_io` copies neither inputs nor outputs. A `driver` (a host, see
        `runtime/host`) decides when ops run; without one, `watch` sees what each op has written, as
        in `Function.run`. Raises GeError for missing, unknown or ill-typed arrays and for what
        fails while running."""
        return self.run_checked(self.checked(inputs), outputs, driver, watch)

    def run_checked(
        self,
        arrays: list[Array],
        outputs: Mapping[str, Array] | None = None,
        driver: Driver | None = None,
        watch: Watch | None = None,
    ) -> dict[str, Array]:
        """Run like `run`, on the arrays that `checked` gives."""
        if (bound := self._at(arrays)) is not None:
            given = dict(zip(self.input_names, arrays, strict=True))
            return bound.run(given, outputs, driver, watch)
        fitted, cut = self.fitted(arrays)
        places = None if outputs is None else check_outputs(self.outputs, outputs, arrays)
        written = watch_of(requested_files())
        watch = written if watch is None else all_of(watch, written)
        with self.lock:
            self._require(arrays)
            start = time.perf_counter()
            whole = places if cut is None else None
            results = self._call(self._function, fitted, whole, driver, watch)
            if cut is not None:
                results = cut(results, outputs or {})
            seconds = time.perf_counter() - start
            for kept in self._kept:
                kept.take(results.pop(kept.result), self._rows)
            self.state.advance(self._rows)
        observe(self, seconds, arrays, results, written)
        return results

    def _require(self, inputs: Sequence[Array]) -> None:
        """Raises GeError for state that a run cannot read or append to, and for inputs that grow
        with it and are of another size: before anything changes."""
        rows = self.state.rows()
        self.state.require(self._rows)
        if any(p.padded for p in self.inputs):
            expected = [with_rows(p, self._symbol, rows) for p in self.inputs]
            try:
                check_inputs(expected, dict(zip(self.input_names, inputs, strict=True)))
            except GeError as e:
                text = f"{e.message}: '{self._symbol}' is {rows}, the rows that states hold"
                raise GeError(text, hint=e.hint) from None

    def _call(
        self,
        function: Runs,
        inputs: Sequence[Array],
        places: Sequence[Array | None] | None = None,
        driver: Driver | None = None,
        watch: Watch | None = None,
    ) -> dict[str, Array]:
        """Run a function on inputs and on the state that the session keeps."""
        outputs = None if places is None else self.in_order(places)
        results = function.run(self.arguments(inputs), outputs, driver, watch)
        return dict(zip(self._results, results, strict=True))

    def arguments(self, inputs: Sequence[Array]) -> list[Array]:
        """The arguments of @main: inputs, and the state that the session keeps."""
        pairs = zip(self.inputs, inputs, strict=True)
        values = {p.name: padded(x, p.padded or x.shape) for p, x in pairs}
        values |= {s.name: s.argument() for s in self._kept}
        for port in self._lengths:
            rows = self.state.rows() + self._rows
            known = rows if (table := self.state.blocks) is None or port.step else table.take(rows)
            values[port.name] = np.array(known, dtype_of(port.element))
        values |= self.seed.arguments()
        return [values[name] for name in self._arguments]

    def in_order(self, outputs: Sequence[Array | None]) -> list[Array | None]:
        """The arrays for the results of @main, None for results that become state."""
        given = dict(zip(self.output_names, outputs, strict=True))
        return [given.get(name) for name in self._results]

    def parts_of(self, outputs: Mapping[str, Array]) -> dict[int, dict[str, Array]]:
        """Return what each device of this process has of outputs of a run, by its number."""
        function = self._function
        if not isinstance(function, Devices | Rank):
            return {0: {**outputs}}
        spreads = dict(zip(self._results, function.results, strict=True))
        return {
            device: {
                name: part
                for name, whole in outputs.items()
                if (part := spreads[name].own(whole, function.mesh, device)) is not None
            }
            for device in function.here
        }

    def argument_number(self, name: str) -> int:
        return self._arguments.index(name)

    def result_number(self, name: str) -> int:
        return self._results.index(name)

    def step(self, compute: Callable[[Registers], None], registers: Registers) -> None:
        """A run by registers of `staged`, which holds the lock while it computes."""
        function = self.staged.function
        with self.lock:
            self.state.require(self._rows)
            for kept in self._kept:
                number = self.argument_number(kept.name)
                function.set_argument(registers, number, kept.value)
            compute(registers)
            for kept in self._kept:
                kept.fill(function.results(registers, [self.result_number(kept.result)])[0])
            self.state.advance(self._rows)

    def run_async(
        self, inputs: Mapping[str, Any], outputs: Mapping[str, Array] | None = None
    ) -> "Future[dict[str, Array]]":
        """Run like `run`, in a thread of the session: runs take place in the order of the calls.
        Errors come out of the future. The arrays are not to be changed before it is done."""
        if self._queue is None:
            self._queue = ThreadPoolExecutor(1, "ge session")
        return self._queue.submit(copy_context().run, self.run, inputs, outputs)

    def run_many(self, batches: Iterable[Any], prefetch: int = 2) -> "Generator[dict[str, Array]]":
        """The outputs of each batch, in order. A batch has its arrays by name, or in the order of
        the inputs. While one is computed, the next ones are read and copied to the device, as many
        as `prefetch` says, and the last one is copied back: in threads, where that saves time, so
        that the iterable may be read by one of them, and by this one later. Errors are raised when
        their batch's turn has come, and name its number."""
        self._require_one_by_one("run_many")
        if type(prefetch) is not int or prefetch < 1:
            raise GeError(f"prefetch is a number of batches, at least 1, not {prefetch!r}")
        if not isinstance(batches, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise GeError(f"batches are no iterable, but of type {type(batches).__name__}")
        return run_many(self, batches, prefetch)

    def bind(
        self,
        inputs: Mapping[str, DeviceArray] | None = None,
        outputs: Mapping[str, DeviceArray] | None = None,
    ) -> Binding:
        """This session with device arrays for inputs and outputs, by name: they stay where they are
        between runs. Raises GeError for names and arrays that do not fit."""
        self._require_one_by_one("bind")
        if self.mesh is not None:
            hint = "give arrays to run; what stays on the devices between runs is state (--state)"
            raise GeError(
                "device arrays are of one device, and the program is of several", hint=hint
            )
        return Binding(self, inputs or {}, outputs or {})

    def _require_one_by_one(self, what: str) -> None:
        """Raises GeError where the sizes of inputs follow from the state that the last run left."""
        if self._symbol:
            text = f"{what} does not take a program whose inputs grow with '{self._symbol}'"
            raise GeError(text, hint="run it step by step")

    def _shapes(self, arrays: Sequence[Array]) -> dict[str, Shape]:
        return {p.name: a.shape for p, a in zip(self.inputs, arrays, strict=True)}

    def _at(self, arrays: Sequence[Array]) -> "Session | None":
        """The session of the program for these inputs, where it is bound to their shapes."""
        if self._bind is None:
            return None
        key = tuple(a.shape for a in arrays)
        with self.lock:
            session = self._bound.pop(key, None)
            if session is None:
                module = self._bind(self._shapes(arrays))
                session = Session(module, self.weights, self.target, seed=self.seed, **self._checks)
            self._bound[key] = session
            while len(self._bound) > MOST_BOUND:
                self._bound.popitem(last=False)
        return session

    def checked(self, inputs: Mapping[str, Any]) -> list[Array]:
        """The inputs in order. Raises GeError for those that the program does not take."""
        return check_inputs(self.inputs, inputs, self.cast_inputs)

    def fitted(self, arrays: list[Array]) -> tuple[list[Array], Cut | None]:
        """Inputs of the sizes of a gear, if the program has some, and the function that cuts the
        outputs. Raises GeError for sizes that no gear takes."""
        if self.gears is None:
            return arrays, None
        return self.gears.fitted(arrays, self.input_names, [p.dims for p in self.inputs])

    def fuzz_schedule(self, inputs: Mapping[str, Any], runs: int, seed: int = 0) -> None:
        """Run the program in so many random legal timings (see `interleave.py`). Raises GeError
        that names the run and the output when one is not bit-identical to that of `run`."""
        given = check_inputs(self.inputs, inputs, self.cast_inputs)
        if (bound := self._at(given)) is not None:
            bound.fuzz_schedule(dict(zip(self.input_names, given, strict=True)), runs, seed)
            return
        arrays, _ = self.fitted(given)
        self._require(given)
        states = [s.snapshot() for s in self._function.states]
        first = self.seed.run
        want = {name: w.tobytes() for name, w in self._call(self._function, arrays).items()}
        restore(self._function.states, states)
        self.seed.run = first
        timing = np.random.default_rng(seed)
        tiles = None if self.tiles is None else self.tiles.in_random_order(seed)
        function = self._made(tiles, timing=timing)
        for number in range(runs):
            restore(function.states, states)
            for name, got in self._call(function, arrays).items():
                if got.tobytes() != want[name]:
                    raise GeError(
                        f"output '{name}' has other bits in random timing {number} of seed {seed}",
                        hint="--sanitize names the tasks that race",
                    )
            self.seed.run = first


def all_of(*watches: Watch | None) -> Watch:
    """A watch that shows each op to all of these."""

    def watch(op: Operation, arrays: Sequence[Array]) -> None:
        for other in watches:
            if other is not None:
                other(op, arrays)

    return watch


def restore(states: Sequence[DeviceState | SpreadState], arrays: Sequence[Any]) -> None:
    for state, array in zip(states, arrays, strict=True):
        state.restore(array)
