"""ge-calibrate: what quantization decides for a model from samples of its inputs, as a table that
can be read and edited."""

import argparse
import os
from collections.abc import Sequence

from ge.dialects.support.streams import print_result
from ge.tools.cli.arguments import add_options, options_from
from ge.tools.cli.command_line import ArgumentParser
from ge.transforms.precision.modes import ORIGIN
from ge.transforms.quantization.schemes import INT8

EPILOG = """examples:
  ge-calibrate model.onnx --data samples.npz -o table.toml
  ge-compile model.onnx -o program.mlir --quantize int8 --calibration table.toml

A file of samples has an array for each input of the model, by its name or in:NAME; the samples are
along the batch. A layer is left in floats by a line "NAME" = "float" below [layers] of the table,
or takes another scheme than the others by its name.

--sensitivity prints, for each layer: signal to noise of the model's outputs where it alone is
quantized, and of its own result where all are; its range, and the share of elements beyond it; how
much longer it takes in floats, by the model of time.
"""


def build_parser() -> ArgumentParser:
    parser = ArgumentParser("ge-calibrate", __doc__, EPILOG)
    add = parser.add_argument
    add("model", help="the .onnx file, or a .mlir module of the graph level")
    add("--data", action="append", required=True, metavar="X.npz",
        help="samples; several files are taken one after the other")  # fmt: skip
    add("-o", "--output", default="-", metavar="T.toml", help="the table (default: standard "
        "output)")  # fmt: skip
    add("--sensitivity", action="store_true", help="print the noise that each layer adds, "
        "the largest first")  # fmt: skip
    add_options(parser, "ge-calibrate")
    return parser


def run(arguments: Sequence[str]) -> int:
    return calibrate_input(build_parser().parse_args(arguments))


def calibrate_input(args: argparse.Namespace) -> int:
    from ge.dialects.support.diagnostics import warning_handler
    from ge.dialects.support.errors import GeError
    from ge.lowering.driver.calibration import table_for
    from ge.lowering.driver.compiler import context, load
    from ge.runtime.data.files import Outputs
    from ge.runtime.data.weights import files_of
    from ge.tools.cli.remarks import Remarks, printer
    from ge.transforms.quantization.data import Calibration
    from ge.transforms.quantization.table import listing

    if tables := [f for f in args.data if f.endswith(".toml")]:
        raise GeError("this is a table, no samples", tables[0], "ge-compile takes it")
    options = options_from(args, calibration=os.pathsep.join(args.data))
    if not options.quantize and options.precision == ORIGIN:
        options = options_from(args, calibration=options.calibration, quantize=INT8)
    if args.sensitivity and not options.quantize:
        raise GeError("sensitivity is that to quantization", hint="give --quantize int8 too")
    with warning_handler(printer(Remarks())):
        program = load(args.model, plugins=options.plugins)
        wanted = Calibration(sensitivity=args.sensitivity)
        table = table_for(program, options, context(options.plugins), wanted)
    if args.output == "-":
        print(table.text(), end="")
    else:
        inputs = [args.model, *args.data, *options.plugins, *files_of(program.payload)]
        with Outputs(inputs) as out:
            out.text(args.output, table.text())
    if args.sensitivity:
        print_result(listing(wanted.layers.values()).rstrip("\n"))
    return 0
