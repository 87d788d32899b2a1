"""ge-reduce: a small module that is still interesting, by a script that says what is."""

import argparse
import math
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ge.tools.cli.arguments import add_model_arguments, argument
from ge.tools.cli.command_line import ArgumentParser, expanded

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from ge.runtime.data.weights import Payload
    from ge.tools.debugging.bisect import Judge, Script

EPILOG = """the test:
  It is run as `SCRIPT ARG... FILE` with a module in FILE (and its weights beside it). It ends with
  status 0 if the module is not interesting and with 1 (to 125) if it is, as for mlir-reduce; for
  llvm-reduce it is the other way round. Its output is dropped. A script for a crash of ge-opt:
    #!/bin/sh
    ge-opt "$1" --fuse-region 2>&1 | grep -q 'internal error' && exit 1
    exit 0
  Every module that is tried verifies. Removed or made smaller are functions, ops, operands,
  attributes, unused arguments and results, constants' numbers, sizes of tensors.
examples:
  ge-reduce model.mlir --test ./crashes.sh -o small.mlir
  ge-reduce model.onnx --test ./differs.sh -o small.mlir --shape x=1x3x64x64
"""


def seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < math.inf:
        raise ValueError("a number of seconds above 0")
    return value


def build_parser() -> ArgumentParser:
    parser = ArgumentParser("ge-reduce", __doc__, EPILOG)
    add = parser.add_argument
    add("input", nargs="?", default="-", help="a .mlir module of any level, or a .onnx model")
    add("--test", required=True, metavar="SCRIPT", help="the file of a script, or a command")
    add("--test-arg", action="append", default=[], metavar="ARG", help="an argument of the script")
    add("--timeout", type=argument(seconds), default=60.0, metavar="SECONDS", help="a run that "
        "takes longer is ended, and what it ran on is not interesting (default 60)")  # fmt: skip
    add("--time-limit", type=argument(seconds), default=math.inf, metavar="SECONDS",
        help="when to stop with what there is then (default: never)")  # fmt: skip
    add("-o", "--output", default="-", metavar="FILE", help="the module, its weights beside it "
        "(default: the text alone, to standard output)")  # fmt: skip
    add("--load-plugin", action="append", default=[], metavar="FILE.py", help="add its dialects")
    add("--allow-unregistered-dialect", action="store_true", help="take ops that nobody knows")
    add("--debug", action="store_true", help="print Python's traceback with an error")
    add_model_arguments(parser)
    return parser


def run(arguments: Sequence[str]) -> int:
    from ge.runtime.data.files import Outputs, write_module
    from ge.runtime.data.weights import files_of, weights_of
    from ge.tools.debugging.bisect import Judge, Script
    from ge.tools.debugging.reduction import reduce_module

    args = build_parser().parse_args(expanded(arguments))
    script = Script.of(args.test, args.test_arg, args.timeout)
    module, payload = read_input(args)
    judge = Judge(script, payload, time.monotonic() + args.time_limit)
    first_look(judge, module, args.input)
    small = reduce_to(judge, module, reduce_module)
    inputs = [args.input, *args.load_plugin, *files_of(payload)]
    with Outputs([] if args.input == "-" else inputs) as out:
        write_module(out, args.output, small, payload)
    tell(script, module, small)
    if args.output == "-" and weights_of(small):
        print("warning: its weights are not written; -o FILE writes them", file=sys.stderr)
    return 0


def read_input(args: argparse.Namespace) -> "tuple[ModuleOp, Payload]":
    """The module and its weights. Raises GeError or ParseError for what cannot be read."""
    from pathlib import Path

    from ge.dialects.text.reading import parse_module, read_source
    from ge.dialects.text.values import parse_dims, parse_shapes
    from ge.lowering.driver.context import context
    from ge.lowering.levels.dominance import verify
    from ge.runtime.data.weights import open_payload

    if args.input.endswith(".onnx"):
        from ge.lowering.onnx.importer import import_file

        shapes, dims = parse_shapes(args.shape), parse_dims(args.dim)
        imported = import_file(args.input, shapes, dims)
        return imported.module, imported.payload
    ctx = context(args.load_plugin)
    ctx.allow_unregistered = args.allow_unregistered_dialect
    source = read_source(args.input)
    module = parse_module(ctx, source)
    verify(module)
    return module, open_payload(module, Path(source.name).parent)


def first_look(judge: "Judge", module: "ModuleOp", name: str) -> None:
    """Raises GeError where there is nothing to be reduced."""
    from ge.dialects.support.errors import GeError
    from ge.tools.debugging.bisect import TookTooLongError

    try:
        interesting = judge.ask(module)
    except TookTooLongError:
        raise GeError(
            f"the test script took more than {judge.script.seconds:g} s on the input", name,
            "--timeout gives it more",
        ) from None  # fmt: skip
    if not interesting:
        raise GeError(
            "the test script says that the input is not interesting (status 0)", name,
            "as for mlir-reduce, status 1 says that a file is interesting",
        )  # fmt: skip


def reduce_to(
    judge: "Judge",
    module: "ModuleOp",
    reduce: "Callable[[ModuleOp, Callable[[ModuleOp], bool]], ModuleOp]",
) -> "ModuleOp":
    """The reduced module; an empty one where that is interesting too, with a warning."""
    from xdsl.dialects.builtin import ModuleOp

    empty = ModuleOp([])
    if judge(empty):
        what = "the test script says that a module without ops is interesting"
        print(f"warning: {what}", file=sys.stderr)
        return empty
    return reduce(module, judge)


def tell(script: "Script", module: "ModuleOp", small: "ModuleOp") -> None:
    from ge.dialects.support.operation import count_ops

    before, after = count_ops(module.body.blocks), count_ops(small.body.blocks)
    late = f", {script.late} of them ended after {script.seconds:g} s" if script.late else ""
    print(f"{before} ops -> {after}: {script.runs} runs of the test{late}", file=sys.stderr)
