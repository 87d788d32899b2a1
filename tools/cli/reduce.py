"""ge-reduce: a small module that is still interesting, by a script that says what is."""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from ge.dialects.support.errors import GeError
from ge.dialects.support.operation import count_ops
from ge.dialects.text.reading import parse_module, read_source
from ge.dialects.text.values import parse_dims, parse_shapes
from ge.lowering.driver.context import context
from ge.lowering.levels.dominance import verify
from ge.lowering.onnx.importer import import_file
from ge.runtime.data.files import Outputs, write_module
from ge.runtime.data.weights import Payload, files_of, open_payload, weights_of
from ge.tools.debugging.bisect import Judge, Script, TookTooLongError
from ge.tools.debugging.reduction import reduce_module


def run(args: argparse.Namespace) -> int:
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


def read_input(args: argparse.Namespace) -> tuple[ModuleOp, Payload]:
    """The module and its weights. Raises GeError or ParseError for what cannot be read."""
    if args.input.endswith(".onnx"):
        shapes, dims = parse_shapes(args.shape), parse_dims(args.dim)
        imported = import_file(args.input, shapes, dims)
        return imported.module, imported.payload
    ctx = context(args.load_plugin)
    ctx.allow_unregistered = args.allow_unregistered_dialect
    source = read_source(args.input)
    module = parse_module(ctx, source)
    verify(module)
    return module, open_payload(module, Path(source.name).parent)


def first_look(judge: Judge, module: ModuleOp, name: str) -> None:
    """Raises GeError where there is nothing to be reduced."""
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
    judge: Judge,
    module: ModuleOp,
    reduce: Callable[[ModuleOp, Callable[[ModuleOp], bool]], ModuleOp],
) -> ModuleOp:
    """The reduced module; an empty one where that is interesting too, with a warning."""
    empty = ModuleOp([])
    if judge(empty):
        what = "the test script says that a module without ops is interesting"
        print(f"warning: {what}", file=sys.stderr)
        return empty
    return reduce(module, judge)


def tell(script: Script, module: ModuleOp, small: ModuleOp) -> None:
    before, after = count_ops(module.body.blocks), count_ops(small.body.blocks)
    late = f", {script.late} of them ended after {script.seconds:g} s" if script.late else ""
    print(f"{before} ops -> {after}: {script.runs} runs of the test{late}", file=sys.stderr)
