"""ge-compile: a model or a module, all the way down to a program."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ge.dialects.support.effort import effort
from ge.dialects.support.errors import GeError
from ge.dialects.support.streams import print_result
from ge.dialects.targets.target import Target
from ge.lowering.driver.cache import Request
from ge.lowering.driver.compiler import Watch, context
from ge.lowering.pipeline.pass_options import text_of
from ge.lowering.pipeline.stages import pipeline
from ge.lowering.plugins.extensions import universe
from ge.lowering.plugins.universe import rules
from ge.runtime.data.files import check_writable
from ge.tools.cli.flags import (
    asks,
    look_of,
    options_from,
)
from ge.tools.cli.pages import watched, write_compiled
from ge.tools.cli.remarks import Remarks, printer
from ge.tools.cli.watching import telling

if TYPE_CHECKING:
    from ge.lowering.driver.program import Program
    from ge.lowering.pipeline.options import Options
    from ge.lowering.pipeline.pass_manager import Instrumentation


def run(args: argparse.Namespace) -> int:
    options = options_from(args)
    Target.load(options.target)  # an unknown one is an error even where nothing is compiled
    if args.print_pipeline:
        print_result(",".join(map(str, map(text_of, pipeline(options)))))
        return 0
    if not args.input:
        raise GeError("no input", hint="give a .onnx or .mlir file; see ge-compile --help")
    made_anew = options.print_liveness or options.gear_histogram
    known = {*universe(*options.plugins).all_passes, *rules()} if args.remarks_pass else ()
    remarks = Remarks.asked_for(args, known)
    if args.remarks or made_anew:
        options = replace(options, cache_dir="")  # these are made while compiling
    inputs = [options.target, *options.plugins, *options.read_files]
    if args.html:
        check_writable([args.html], [args.input, *inputs])
    seen: list[Program] = []
    with watched(args, inputs) as watching, telling(args, options, args.until) as told:
        watch = watcher(args, options, watching, told, seen)
        is_watched = args.validate or watching or asks(args)
        request = Request(
            args.input, options, args.output, args.report, until=args.until, look=look_of(args),
            watch=watch if is_watched else None,
        )  # fmt: skip
        with effort(options.time_limit) as spent:
            summary = request.run(spent.report, printer(remarks), bool(args.remarks))
    remarks.finish(list(map(str, request.inputs())))
    for page in watching:
        written = [path for path in (args.output, args.report) if path]
        write_compiled(args.html, seen[0], options, page, [args.input, *inputs, *written])
    if args.output or args.report or args.html:
        print(summary, file=sys.stderr)
    else:  # all that it was asked for
        print_result(summary)
    return 0


def watcher(
    args: argparse.Namespace,
    options: "Options",
    more: "Sequence[Instrumentation]",
    told: Watch,
    seen: "list[Program]",
) -> Watch:
    """Return a watch on the passes, which keeps the program that they run on in `seen`."""

    def watch(program: "Program") -> "list[Instrumentation]":
        seen.append(program)
        watching = [*more, *told(program)]
        if not args.validate:
            return watching
        from ge.runtime.device.trials import runner_for
        from ge.tools.debugging.validation import Validation

        validation = Validation(
            runner_for, context(options.plugins), program.payload,
            args.validate_output, options.plugins,
        )  # fmt: skip
        return [validation, *watching]

    return watch
