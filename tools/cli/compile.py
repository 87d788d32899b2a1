"""ge-compile: a model or a module, all the way down to a program."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from ge.dialects.support.streams import print_result
from ge.lowering.levels.level import Level
from ge.lowering.pipeline.options import TOLD
from ge.tools.cli.arguments import add_options, argument, options_from
from ge.tools.cli.command_line import ArgumentParser
from ge.tools.cli.remark_flags import FLAGS as REMARK_FLAGS
from ge.tools.cli.remark_flags import READERS, with_form
from ge.tools.cli.watch_flags import (
    PRINTED,
    PRINTING,
    WATCHED,
    WATCHING,
    add_table,
    asks,
    look_of,
)

if TYPE_CHECKING:
    from ge.lowering.driver.compiler import Watch
    from ge.lowering.driver.program import Program
    from ge.lowering.pipeline.options import Options
    from ge.lowering.pipeline.pass_manager import Instrumentation

EPILOG = """Options that are not given come from the environment variables named with them.

examples:
  ge-compile model.onnx -o model.mlir --report model.json
  ge-compile model.onnx -o model.mlir --shape x=1x3x224x224 --target 310p3
  ge-compile --print-pipeline            (a line that ge-opt -p takes)
"""


@cache
def build_parser() -> ArgumentParser:
    parser = ArgumentParser("ge-compile", __doc__, EPILOG)
    parser.add_argument(
        "input",
        nargs="?",
        help="a .onnx model or a .mlir module of any level; - for standard input",
    )

    add = parser.section("what comes out")
    add("-o", "--output", metavar="P.mlir", help="the program; its weights go to a .safetensors "
        "file beside it (default: nothing is written)")  # fmt: skip
    add("--report", metavar="R.json", help="figures of the compilation as JSON; sizes in bytes")
    add("--html", metavar="P.html", help="a page with the graph at every level, and the time and "
        "memory of a run; also where compiling fails")  # fmt: skip
    add("--until", default=Level.PROGRAM, choices=[*Level],
        help="stop at this level (default program)")  # fmt: skip
    add("--print-pipeline", action="store_true", help="print the passes and stop")

    add_options(parser, "ge-compile")

    add = parser.section(TOLD)
    for flag, (metavar, text) in REMARK_FLAGS.items():
        add(flag, metavar=metavar, type=argument(READERS.get(flag, str)), help=text)
    add_table(parser.section(PRINTED), PRINTING)
    add_table(parser.section(WATCHED), WATCHING)
    add("--validate", action="store_true", help="run the module before and after each pass on "
        "random and edge inputs; stop at the first that changes the numbers")  # fmt: skip
    add("--validate-output", metavar="FILE",
        help="the test that repeats it (default validate-PASS.mlir)")  # fmt: skip
    return parser


def run(arguments: Sequence[str]) -> int:
    return compile_input(build_parser().parse_args(with_form(arguments)))


def compile_input(args: argparse.Namespace) -> int:
    from ge.dialects.support.errors import GeError
    from ge.dialects.targets.target import Target
    from ge.lowering.driver.cache import Request
    from ge.tools.cli.command_line import progress_bar
    from ge.tools.cli.pages import watched, write_compiled
    from ge.tools.cli.remarks import Remarks, printer
    from ge.tools.cli.run import check_writable
    from ge.tools.cli.watching import telling

    options = options_from(args)
    Target.load(options.target)  # an unknown one is an error even where nothing is compiled
    if args.print_pipeline:
        from ge.lowering.pipeline.pass_options import text_of
        from ge.lowering.pipeline.stages import pipeline

        print_result(",".join(map(str, map(text_of, pipeline(options)))))
        return 0
    if not args.input:
        raise GeError("no input", hint="give a .onnx or .mlir file; see ge-compile --help")
    made_anew = options.print_liveness or options.gear_histogram
    remarks = Remarks.asked_for(args, known_names(options) if args.remarks_pass else ())
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
        with progress_bar() as progress:
            summary = request.run(progress, printer(remarks), bool(args.remarks))
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
    told: "Watch",
    seen: "list[Program]",
) -> "Watch":
    """What watches the passes, and keeps the program that they run on in `seen`."""

    def watch(program: "Program") -> "list[Instrumentation]":
        seen.append(program)
        watching = [*more, *told(program)]
        if not args.validate:
            return watching
        from ge.lowering.driver.compiler import context
        from ge.runtime.device.trials import runner_for
        from ge.tools.debugging.validation import Validation

        validation = Validation(
            runner_for, context(options.plugins), program.payload,
            args.validate_output, options.plugins,
        )  # fmt: skip
        return [validation, *watching]

    return watch


def known_names(options: "Options") -> set[str]:
    """Of all passes and rules."""
    from ge.lowering.plugins.extensions import universe
    from ge.lowering.plugins.universe import rules

    return {*universe(*options.plugins).all_passes, *rules()}
