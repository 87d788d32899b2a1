"""ge-compile: a model or a module, all the way down to a program."""

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ge.dialects.diagnostics import Handler
    from ge.lowering.compiler import Watch
    from ge.lowering.options import Options

EPILOG = """examples:
  ge-compile model.onnx -o model.mlir --report model.json
  ge-compile model.onnx -o model.mlir --shape x=1x3x224x224 --target 310p3
  ge-compile --print-pipeline            (a line that ge-opt -p takes)
"""


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "ge-compile", description=__doc__, epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    add = parser.add_argument
    add("input", nargs="?", help="a .onnx model or a .mlir module of any level")
    add("-o", "--output", help="the program; weights go to a .safetensors file beside it")
    add("--target", help="preset name or .toml file (default 910b1)")
    add("--report", help="figures of the compilation as JSON")
    add("--fusion", help="fusion mode: off, conservative, default, aggressive")
    add("--fusion-disable", action="append", metavar="NAME,...",
        help="leave out these passes or rules of the optimizer")  # fmt: skip
    add("--memory", type=int, help="memory level: 0 no reuse, 1 reuse, 2 + order, 3 + computing "
        "again and exact packing")  # fmt: skip
    add("--memory-limit", metavar="BYTES", help="the arena may not take more (512K, 64M, 1.5G); "
        "default: what the target has beside weights, inputs and outputs")  # fmt: skip
    add("--no-reuse", action="append", metavar="OP,...",
        help="results of launches with these ops share bytes with nothing")  # fmt: skip
    add("--share-io", action="store_true", default=None,
        help="the device reads inputs and writes outputs where the caller has them")  # fmt: skip
    add("--print-liveness", action="store_true", help="print when each buffer is alive, and where")
    add("--print-core-plans", action="store_true",
        help="print what each kernel keeps in the memories of a core, and where")  # fmt: skip
    add("--until", default="program", choices=["graph", "fused", "tasks", "buffers", "program"],
        help="stop at this level")  # fmt: skip
    add("--shape", action="append", default=[], metavar="NAME=1x3x224x224", help="fix an input")
    add("--dim", action="append", default=[], metavar="NAME=N", help="fix a symbolic dimension")
    add("--outputs", "--keep-outputs", action="append", default=[], metavar="NAME,...",
        help="compute only these outputs")  # fmt: skip
    add("--pieces", action="store_true", default=None, help="cut launches into pieces that overlap")
    add("--drop-unused-inputs", action="store_true", help="no inputs that nothing depends on")
    add("--load-plugin", action="append", default=[], metavar="FILE.py",
        help="add its dialects, and its passes at the level that they state")  # fmt: skip
    add("--remarks", action="store_true", help="print what each rule did, or why it did not")
    add("--validate", action="store_true", help="run the module before and after each pass on "
        "random and edge inputs; stop at the first that changes the numbers")  # fmt: skip
    add("--validate-output", metavar="FILE",
        help="the test that repeats it (default validate-PASS.mlir)")  # fmt: skip
    add("--print-pipeline", action="store_true", help="print the passes and stop")
    add("--mlir-print-debuginfo", action="store_true", help="write locations into the program")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    args = build_parser().parse_args(argv)
    from ge.lowering.command_line import guarded

    return guarded(lambda: run(args), "ge-compile")


def run(args: argparse.Namespace) -> int:
    from ge.dialects.errors import GeError
    from ge.lowering.arguments import parse_bytes, parse_dims, parse_names, parse_shapes
    from ge.lowering.cache import Request
    from ge.lowering.options import Options
    from ge.lowering.pipelines import pipeline
    from ge.lowering.progress import progress_bar

    options = Options.from_environment(
        target=args.target, fusion=args.fusion, memory=args.memory,
        memory_limit=None if args.memory_limit is None else parse_bytes(args.memory_limit),
        fusion_disable=None if args.fusion_disable is None else parse_names(args.fusion_disable),
        no_reuse=None if args.no_reuse is None else parse_names(args.no_reuse),
        share_io=args.share_io,
        custom_pass=os.pathsep.join(args.load_plugin) or None,
        outputs=parse_names(args.outputs), drop_unused_inputs=args.drop_unused_inputs,
        print_liveness=args.print_liveness or None,
        print_core_plans=args.print_core_plans or None,
        pieces=args.pieces,
    )  # fmt: skip
    if args.print_pipeline:
        print(",".join(pipeline(options)))
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
    from ge.lowering.compiler import Loaded, context
    from ge.lowering.extensions import files_in_use
    from ge.lowering.instrumentation import Instrumentation
    from ge.lowering.validation import Validation
    from ge.runtime.trials import Trials

    def watch(loaded: Loaded) -> list[Instrumentation]:
        return [
            Validation(
                Trials, context(options.plugins), loaded.payload,
                args.validate_output, files_in_use(options.plugins),
            )
        ]  # fmt: skip

    return watch


def printer(remarks: bool) -> "Handler":
    """Prints warnings, and remarks if they are asked for."""
    from ge.dialects.diagnostics import Diagnostic, Severity

    def handle(diagnostic: Diagnostic) -> None:
        if remarks or diagnostic.severity is not Severity.REMARK:
            print(diagnostic, file=sys.stderr)

    return handle


if __name__ == "__main__":
    sys.exit(main())
