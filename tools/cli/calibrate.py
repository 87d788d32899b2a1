"""ge-calibrate; `parsers.py` says what it is for."""

import argparse
import os
from pathlib import Path

from ge.dialects.support.diagnostics import warning_handler
from ge.dialects.support.effort import effort
from ge.dialects.support.errors import GeError
from ge.dialects.support.streams import print_result
from ge.lowering.driver.calibration import table_for
from ge.lowering.driver.compiler import context, load
from ge.runtime.data.files import Outputs
from ge.runtime.data.weights import files_of
from ge.tools.cli.flags import options_from
from ge.tools.cli.remarks import Remarks, printer
from ge.tools.views.plots import page_of
from ge.transforms.precision.modes import ORIGIN
from ge.transforms.quantization.data import Calibration
from ge.transforms.quantization.schemes import INT8
from ge.transforms.quantization.table import listing


def run(args: argparse.Namespace) -> int:
    if all(f.endswith(".toml") for f in args.data):
        raise GeError("this is a table, no samples", args.data[0], "ge-compile takes it")
    options = options_from(args, calibration=os.pathsep.join(args.data))
    if not options.quantize and options.precision == ORIGIN:
        options = options_from(args, calibration=options.calibration, quantize=INT8)
    measured = args.sensitivity or bool(args.plot)
    if measured and not options.quantize:
        raise GeError("sensitivity is that to quantization", hint="give --quantize int8 too")
    with effort(options.time_limit), warning_handler(printer(Remarks())):
        program = load(args.model, plugins=options.plugins)
        wanted = Calibration(sensitivity=measured)
        table = table_for(program, options, context(options.plugins), wanted)
    data = [f for f in args.data if f != args.output]  # a table that was gone on from
    inputs = [args.model, *data, *options.plugins, *files_of(program.payload)]
    with Outputs(inputs) as out:
        if args.output != "-":
            out.text(args.output, table.text())
        if args.plot:
            title = f"{Path(args.model).stem} - ge-calibrate"
            facts = wanted.layers.values()
            out.text(args.plot, page_of(title, options.quantize, facts, table, wanted.left))
    if args.output == "-":
        print(table.text(), end="")
    if args.sensitivity:
        print_result(listing(wanted.layers.values()).rstrip("\n"))
    return 0
