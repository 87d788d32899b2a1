"""ge-check: prove the memory plan, the schedule (streams, events, the limits of its target) and the
certificate of a program from its text."""

import argparse
import sys
from collections.abc import Sequence

from ge.lowering.cli.arguments import add_options
from ge.lowering.cli.command_line import ArgumentParser

EPILOG = """examples:
  ge-compile model.onnx -o program.mlir && ge-check program.mlir
"""


def build_parser() -> ArgumentParser:
    parser = ArgumentParser("ge-check", __doc__, EPILOG)
    parser.add_argument("program", help="a .mlir at the program level; - for standard input")
    parser.add_argument("--target", metavar="NAME|FILE.toml", default="",
        help="prove it for this target instead of the one that the program names")  # fmt: skip
    add_options(parser, "ge-check")
    return parser


def run(arguments: Sequence[str]) -> int:
    return prove(build_parser().parse_args(arguments))


def prove(args: argparse.Namespace) -> int:
    from ge.dialects.support.diagnostics import Diagnostic, Severity, location_of
    from ge.dialects.support.errors import GeError
    from ge.dialects.targets.target import Target
    from ge.lowering.driver.compiler import context
    from ge.lowering.levels.level import Level, level_of
    from ge.lowering.levels.verify_level import VerifyLevelPass
    from ge.lowering.text.reading import parse_module, read_source
    from ge.runtime.check.proof import check_program

    source = read_source(None if args.program == "-" else args.program)
    ctx = context()
    module = parse_module(ctx, source)
    if (level := level_of(module)) is not Level.PROGRAM:
        raise GeError(f"the module is at the {level} level", args.program, "compile it first")
    module.verify()
    target = Target.load(args.target) if args.target else None
    proof = check_program(module, target)
    if not proof.problems:  # what the proof takes for granted: values defined before they are used
        VerifyLevelPass(Level.PROGRAM, args.target).apply(ctx, module)
    for problem in proof.problems:
        text = f"{problem.message} [{problem.kind}]"
        print(Diagnostic(Severity.ERROR, text, location_of(problem.op)), file=sys.stderr)
    print(f"{args.program}: {proof.summary}")
    return 1 if proof.problems else 0
