"""`ge-run --dispatch`: a program fed by a host in one of its modes, or in all of them."""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ge.dialects.support.errors import GeError
from ge.dialects.support.streams import print_result
from ge.dialects.text.values import did_you_mean
from ge.lowering.driver.binding import Binder, is_open
from ge.runtime.clock.clock import room_for_rows
from ge.runtime.device.gears import GearTable
from ge.runtime.device.ports import growing_symbol, input_ports
from ge.runtime.device.random_inputs import random_inputs
from ge.runtime.device.session import Session, main_of
from ge.runtime.host.host import Host, HostProgram, call_figures, modes_table, steps_table, sums
from ge.runtime.host.schedule import Mode, modes
from ge.tools.cli.flags import fixed_of
from ge.tools.cli.parsers import CALLS, options_of

if TYPE_CHECKING:
    from ge.dialects.targets.target import Target
    from ge.lowering.driver.program import Program
    from ge.lowering.pipeline.options import Options
    from ge.runtime.clock.timeline import Timeline
    from ge.runtime.data.arrays import Array
    from ge.runtime.device.state import State


@dataclass
class Feeding:
    """What there is to feed."""

    args: argparse.Namespace
    options: "Options"
    target: "Target"
    inputs: "dict[str, Array] | None"  # None: random ones

    def programs(self, loaded: "Program") -> "list[tuple[HostProgram, dict[str, Array] | None]]":
        """The program of each call, with its inputs if numbers are wanted."""
        count = self.args.steps or self.args.calls or CALLS
        if (symbol := growing_symbol(main_of(loaded.module))) is not None:
            return self._with_state(loaded, symbol, count)
        if not self.args.grow:
            return [self._program(loaded)] * count
        binder = Binder(loaded, self.options)
        shapes, dims = fixed_of(self.options)
        names = self.args.grow.split(",")
        self._check_names(loaded, names)
        result: list[tuple[HostProgram, dict[str, Array] | None]] = []
        for step in range(count):
            sizes = dims | {name: dims.get(name, 1) + step for name in names}
            result.append(self._program(binder.at(sizes, shapes), is_new=True))
        return result

    def _with_state(
        self, loaded: "Program", symbol: str, count: int
    ) -> "list[tuple[HostProgram, dict[str, Array] | None]]":
        """One program, whose state grows from call to call, and so do inputs that grow with it."""
        if self.args.grow not in (None, symbol):
            raise GeError(f"--grow {self.args.grow}: the program's state grows along '{symbol}'")
        module, main = loaded.module, main_of(loaded.module)
        shapes, dims = fixed_of(self.options)
        program, rows = self._program(loaded)[0], dims.get(symbol, 0)
        if program.session is not None:
            self.begin(program.session.state)
            rows = program.session.state.rows()
        step, room = max(p.step for p in input_ports(main)), room_for_rows(main)
        end = rows + step * (count if self.inputs is None else 1)
        if room is not None and end > room:
            text = (
                f"{count} calls add {end - rows} rows to the state's {rows}, it has room for {room}"
            )
            raise GeError(text, hint="call it less often, or compile with more --state-capacity")
        if self.inputs is not None:
            return [(program, self.inputs)] * count
        sizes = range(rows, end, step)
        if program.session is None:
            return [(HostProgram(module, self.target, rows=n + step), None) for n in sizes]
        dims_of = [dims | {symbol: n} for n in sizes]
        return [(program, random_inputs(module, self.args.seed, shapes, d)) for d in dims_of]

    def begin(self, state: "State") -> None:
        state.reset()
        if self.args.load_state:
            state.load(self.args.load_state)

    def _program(
        self, loaded: "Program", is_new: bool = False
    ) -> "tuple[HostProgram, dict[str, Array] | None]":
        module, inputs, gear = loaded.module, self.inputs, None
        gears = GearTable.of(main_of(module))
        if inputs is None and (gears is not None or not self.args.timing_only):
            shapes, dims = ({}, {}) if self.args.grow else fixed_of(self.options)
            inputs = random_inputs(module, self.args.seed, shapes, dims)
        if gears is not None and inputs is not None:
            gear = gears.chosen({name: array.shape for name, array in inputs.items()}, {})
        if self.args.timing_only:
            return HostProgram(module, self.target, gear=gear, is_new=is_new), None
        session = Session(module, loaded.payload, self.target, seed=self.args.seed)
        return HostProgram(module, self.target, session, gear, is_new=is_new), inputs

    def _check_names(self, loaded: "Program", names: Iterable[str]) -> None:
        ports = input_ports(main_of(loaded.module))
        known = sorted({name for port in ports for name in port.dims if name})
        if not is_open(loaded.module):
            hint = "compile the model with its dimensions left open, or with --state-capacity"
            raise GeError("--grow: the program has shapes that do not change", hint=hint)
        for name in names:
            if name not in known:
                near = did_you_mean(name, known, f"; dimensions: {', '.join(known)}")
                raise GeError(f"--grow: there is no dimension '{name}'{near}")


def feed(
    args: argparse.Namespace,
    loaded: "Program",
    options: "Options",
    target: "Target",
    inputs: "Mapping[str, Array] | None",
) -> "tuple[dict[str, Any], Timeline | None]":
    """Call the program in the modes asked for; print the table. The `dispatch` part of the report,
    and the timeline of the last call of the one mode."""
    given = None if inputs is None or args.grow else dict(inputs)
    feeding = Feeding(args, options, target, given)
    programs: Sequence[tuple[HostProgram, dict[str, Array] | None]] = feeding.programs(loaded)
    figures: dict[str, list[dict[str, Any]]] = {}
    timeline, report = None, dict[str, Any]()
    expected: list[dict[str, Array]] = []
    for mode in modes(args.dispatch):
        figures[mode.name], timeline = _calls(feeding, mode, programs, expected)
    if args.steps:
        steps = {mode: sums(calls) for mode, calls in figures.items()}
        for step in steps.values():
            step["tokens_per_s"] = args.steps * 1e6 / step["latency_us"]
        table, report["steps"] = steps_table(steps), steps
    else:
        table, report["calls"] = modes_table(figures), figures
    print_result(table)
    if timeline is not None:
        print_result(f"times on {timeline.machine}")
        report["machine"] = timeline.machine
    return report, timeline if len(figures) == 1 else None


def _calls(
    feeding: Feeding,
    mode: Mode,
    programs: "Sequence[tuple[HostProgram, dict[str, Array] | None]]",
    expected: "list[dict[str, Array]]",
) -> "tuple[list[dict[str, Any]], Timeline | None]":
    """The figures of all calls in a mode, and the timeline of the last one. `expected` are the
    outputs of the calls, which the first mode states. Raises GeError for other ones."""
    host = Host(mode, feeding.target, options_of(feeding.args))
    if len(programs) > 1 and programs[0][0] is not programs[1][0]:
        host.expect_growth(programs[0][0], programs[1][0])
    figures: list[dict[str, Any]] = []
    timeline = None
    first = not expected
    for number, (program, inputs) in enumerate(programs):
        if program.session is not None:
            state = program.session.state
            again = state.is_full_after_a_run or (state.grown and feeding.inputs is not None)
            feeding.begin(state) if number == 0 or again else None
        called = host.call(program, inputs)
        figures.append(call_figures(called))
        timeline = called.timeline
        if first:
            expected.append(called.outputs)
        for name, array in called.outputs.items():
            if array.tobytes() != expected[number][name].tobytes():
                raise GeError(f"output '{name}' has other bits in mode '{mode.name}'")
    return figures, timeline
