"""ge-compile: a model or a module, all the way down to a program."""

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ge.lowering.cli.command_line import ArgumentParser, guarded
from ge.lowering.levels.level import Level

if TYPE_CHECKING:
    from ge.dialects.support.diagnostics import Handler
    from ge.lowering.driver.compiler import Watch
    from ge.lowering.pipeline.options import Options

EPILOG = """Options that are not given come from the environment: GE_TARGET, GE_GRAPH_FUSION,
GE_MEMORY_OPTIMIZE, GE_MEMORY_LIMIT and others, see the README.

examples:
  ge-compile model.onnx -o model.mlir --report model.json
  ge-compile model.onnx -o model.mlir --shape x=1x3x224x224 --target 310p3
  ge-compile --print-pipeline            (a line that ge-opt -p takes)
"""


def build_parser() -> ArgumentParser:
    parser = ArgumentParser("ge-compile", __doc__, EPILOG)
    parser.add_argument(
        "input",
        nargs="?",
        help="a .onnx model or a .mlir module of any level; - for standard input",
    )

    add = parser.add_argument_group("what comes out").add_argument
    add("-o", "--output", metavar="P.mlir", help="the program; its weights go to a .safetensors "
        "file beside it (default: nothing is written)")  # fmt: skip
    add("--report", metavar="R.json", help="figures of the compilation as JSON; sizes in bytes")
    add("--until", default=Level.PROGRAM, choices=[*Level],
        help="stop at this level (default program)")  # fmt: skip
    add("--mlir-print-debuginfo", action="store_true", help="write locations into the program")
    add("--print-pipeline", action="store_true", help="print the passes and stop")

    add = parser.add_argument_group("the model").add_argument
    add("--shape", action="append", default=[], metavar="NAME=1x3x224x224",
        help="fix the shape of an input of a .onnx model")  # fmt: skip
    add("--dim", action="append", default=[], metavar="NAME=N",
        help="fix a symbolic dimension of a .onnx model, in elements")  # fmt: skip
    add("--outputs", "--keep-outputs", action="append", default=[], metavar="NAME,...",
        help="compute only these outputs (default: all)")  # fmt: skip
    add("--drop-unused-inputs", action="store_true", help="no inputs that nothing depends on")

    add = parser.add_argument_group("the target and its launches").add_argument
    add("--target", metavar="NAME", help="preset name or .toml file (default: GE_TARGET, else "
        "910b1)")  # fmt: skip
    add("--fusion", metavar="MODE", help="off, conservative (every bit stays), default, or "
        "aggressive (may compute again)")  # fmt: skip
    add("--fusion-disable", action="append", metavar="NAME,...",
        help="leave out these passes or rules of the optimizer")  # fmt: skip
    add("--pieces", action="store_true", default=None, help="cut launches into pieces that overlap")
    add("--load-plugin", action="append", default=[], metavar="FILE.py",
        help="add its dialects, and its passes at the level that they state")  # fmt: skip

    add = parser.add_argument_group("memory").add_argument
    add("--memory", type=int, metavar="LEVEL", help="0 no reuse, 1 reuse (the default), 2 + order, "
        "3 + computing again and exact packing")  # fmt: skip
    add("--memory-limit", metavar="BYTES", help="the arena may not take more (512K, 64M, 1.5G; "
        "default: what the target has beside weights, inputs and outputs)")  # fmt: skip
    add("--no-reuse", action="append", metavar="OP,...",
        help="results of launches with these ops share bytes with nothing")  # fmt: skip
    add("--share-io", action="store_true", default=None,
        help="the device reads inputs and writes outputs where the caller has them")  # fmt: skip

    add = parser.add_argument_group("what is told, and checked").add_argument
    add("--remarks", action="store_true", help="print what each rule did, or why it did not")
    add("--print-liveness", action="store_true", default=None,
        help="print when each buffer is alive, and where, in bytes")  # fmt: skip
    add("--print-core-plans", action="store_true", default=None,
        help="print what each kernel keeps in the memories of a core, in bytes")  # fmt: skip
    add("--validate", action="store_true", help="run the module before and after each pass on "
        "random and edge inputs; stop at the first that changes the numbers")  # fmt: skip
    add("--validate-output", metavar="FILE",
        help="the test that repeats it (default validate-PASS.mlir)")  # fmt: skip
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    return guarded(lambda: run(build_parser().parse_args(argv)), "ge-compile")


def run(args: argparse.Namespace) -> int:
    from ge.dialects.support.errors import GeError
    from ge.dialects.targets.target import Target
    from ge.lowering.cli.arguments import parse_bytes, parse_dims, parse_names, parse_shapes
    from ge.lowering.cli.progress import progress_bar
    from ge.lowering.driver.cache import Request
    from ge.lowering.pipeline.options import Options
    from ge.lowering.plugins.extensions import files_in_use

    options = Options.from_environment(
        target=args.target, fusion=args.fusion, memory=args.memory,
        memory_limit=None if args.memory_limit is None else parse_bytes(args.memory_limit),
        fusion_disable=None if args.fusion_disable is None else parse_names(args.fusion_disable),
        no_reuse=None if args.no_reuse is None else parse_names(args.no_reuse),
        share_io=args.share_io,
        custom_pass=os.pathsep.join(files_in_use(args.load_plugin)) or None,
        outputs=parse_names(args.outputs), drop_unused_inputs=args.drop_unused_inputs,
        print_liveness=args.print_liveness,
        print_core_plans=args.print_core_plans,
        pieces=args.pieces,
    )  # fmt: skip
    Target.load(options.target)  # an unknown one is an error even where nothing is compiled
    if args.print_pipeline:
        from ge.lowering.pipeline.pass_options import text_of
        from ge.lowering.pipeline.stages import pipeline

        print(",".join(map(str, map(text_of, pipeline(options)))))
        return 0
    if not args.input:
        raise GeError("no input", hint="give a .onnx or .mlir file; see ge-compile --help")
    if args.remarks or args.print_liveness or args.print_core_plans:
        options = replace(options, cache_dir="")  # these are made while compiling
    request = Request(
        args.input, options, args.output, args.report, parse_shapes(args.shape),
        parse_dims(args.dim), args.until, args.mlir_print_debuginfo,
        watcher(args, options) if args.validate else None,
    )  # fmt: skip
    with progress_bar() as progress:
        summary = request.run(progress, printer(args.remarks))
    print(summary, file=sys.stderr)
    return 0


def watcher(args: argparse.Namespace, options: "Options") -> "Watch":
    """Makes what validates each pass."""
    from ge.lowering.debugging.validation import Validation
    from ge.lowering.driver.compiler import context
    from ge.lowering.driver.program import Program
    from ge.lowering.pipeline.pass_manager import Instrumentation
    from ge.runtime.device.trials import Trials

    def watch(program: Program) -> list[Instrumentation]:
        return [
            Validation(
                Trials, context(options.plugins), program.payload,
                args.validate_output, options.plugins,
            )
        ]  # fmt: skip

    return watch


def printer(remarks: bool) -> "Handler":
    """Prints warnings, and remarks if they are asked for."""
    from ge.dialects.support.diagnostics import Diagnostic, Severity

    def handle(diagnostic: Diagnostic) -> None:
        if remarks or diagnostic.severity is not Severity.REMARK:
            print(diagnostic, file=sys.stderr)

    return handle


if __name__ == "__main__":
    sys.exit(main())
