"""The numbers of ge-run: the session that is asked for, its run, what is compared and checked."""

import argparse
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ge.dialects.support.streams import print_result
from ge.tools.cli.arguments import flag_value
from ge.tools.cli.compare import compared_with
from ge.tools.cli.prepare import inputs_for, machine_of

if TYPE_CHECKING:
    from ge.lowering.driver.program import Program
    from ge.lowering.pipeline.options import Options
    from ge.runtime.data.arrays import Array
    from ge.runtime.device.function import Watch
    from ge.runtime.device.session import Session
    from ge.tools.comparing.versus import Result


def compute(
    args: argparse.Namespace,
    loaded: "Program",
    options: "Options",
    inputs: "Mapping[str, Array] | None",
) -> tuple["dict[str, Array]", "Session", dict[str, Any], "Result | None"]:
    """Run the module on the inputs, or on random ones: the outputs, the session with the state that
    the run leaves, the `numerics` part of the report, and what came of comparing."""
    import time

    from ge.runtime.data.arrays import statistics

    session = session_of(args, loaded, options)
    if inputs is None:
        inputs = inputs_for(args, options, session)
    names = session.state.names if args.compare else ()
    states = {name: session.state[name].copy() for name in names}
    versus = compared_with(args, loaded, options, {**states, **inputs})
    if args.fuzz_schedule:  # from the state that the run begins with
        session.fuzz_schedule(inputs, args.fuzz_schedule, args.seed)
    first: tuple[Mapping[str, Array], Watch | None] = ({}, None)
    runs = iter(()) if versus is None else versus.runs({**states, **inputs})
    want, watch = next(runs, first)
    start = time.perf_counter()
    outputs = session.run(inputs, watch=watch)
    seconds = time.perf_counter() - start
    for _, again in runs:  # other nodes than before
        session_of(args, loaded, options).run(inputs, watch=again)
    figures = {name: statistics(array) for name, array in outputs.items()}
    numerics = {"seconds": seconds, "outputs": figures}
    numerics |= checked(args, session)
    return outputs, session, numerics, versus and versus.result(want, outputs)


def session_of(args: argparse.Namespace, loaded: "Program", options: "Options") -> "Session":
    """A session as it is asked for, with the state that a run begins with."""
    from ge.dialects.support.errors import GeError
    from ge.runtime.device.session import Session

    sanitize = flag_value(args, "sanitize")  # None: as the environment says
    session = Session(
        loaded.module, loaded.payload, machine_of(args, loaded.module, options), args.poison,
        sanitize, tiles=args.tiles or "", seed=args.seed,
    )  # fmt: skip
    for flag, path in (("--load-state", args.load_state), ("--save-state", args.save_state)):
        if path and not session.state.names:
            raise GeError(f"{flag}: the program keeps no state", hint="compile it with --state")
    if args.load_state:
        session.state.load(args.load_state)
    return session


def checked(args: argparse.Namespace, session: "Session") -> dict[str, Any]:
    """Tell of the checks that a run has passed; what the `numerics` part of the report has of
    them."""
    from ge.runtime.check.schedule import useless_events

    numerics: dict[str, Any] = {}
    if args.tiles:
        from ge.lowering.driver.tiles import Coverage

        coverage = Coverage.of(session.module, session.target)
        numerics["tiles"] = {"run": args.tiles, **coverage.report()}
        print_result(coverage)
    if args.fuzz_schedule:
        numerics["random_timings"] = args.fuzz_schedule
        print_result(f"{args.fuzz_schedule} random timings: the same bits")
    if session.proved:
        for note in useless_events(session.module):
            print(f"note: {note}", file=sys.stderr)
    return numerics
