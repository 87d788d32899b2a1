"""ge-calibrate: what quantization decides for a model from samples of its inputs, as a table that
can be read and edited."""

import argparse
import os

from ge.dialects.support.diagnostics import warning_handler
from ge.dialects.support.errors import GeError
from ge.dialects.support.streams import print_result
from ge.lowering.driver.calibration import table_for
from ge.lowering.driver.compiler import context, load
from ge.runtime.data.files import Outputs
from ge.runtime.data.weights import files_of
from ge.tools.cli.flags import options_from
from ge.tools.cli.remarks import Remarks, printer
from ge.transforms.precision.modes import ORIGIN
from ge.transforms.quantization.data import Calibration
from ge.transforms.quantization.schemes import INT8
from ge.transforms.quantization.table import listing


def run(args: argparse.Namespace) -> int:
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
