"""ge-visualizer; `parsers.py` says what it is for."""

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ge.dialects.support.diagnostics import print_diagnostic, warning_handler
from ge.dialects.support.effort import effort
from ge.dialects.support.streams import print_result
from ge.lowering.driver.binding import is_open
from ge.lowering.driver.compiler import compile_file
from ge.lowering.driver.tiles import write_tile_programs
from ge.runtime.data.files import Outputs, check_writable
from ge.tools.cli.flags import fixed_of, options_from
from ge.tools.cli.pages import told, write_compiled
from ge.tools.views.make import Watcher, seen_in, watching, write_page
from ge.tools.views.model import is_ge_text

if TYPE_CHECKING:
    from ge.lowering.driver.program import Program
    from ge.lowering.pipeline.options import Options


def run(args: argparse.Namespace) -> int:
    if is_named := args.output is None:
        args.output = f"{Path(os.path.abspath(args.input)).stem}.html"
    options = replace(options_from(args), cache_dir="")
    inputs = [options.target, *options.plugins, *options.read_files]
    if os.path.isdir(args.input) or is_ge_text(args.input):
        with Outputs(inputs) as out:
            write_page(out, args.output, seen_in(args.input, options))
        name_page(args.output, is_named)
        return 0
    check_writable([args.output], [args.input, *inputs])
    with watching(args.input, args.output, inputs, told) as watcher:
        program = compiled(args, options, watcher)
    write_compiled(args.output, program, options, watcher, [args.input, *inputs])
    print(program.summary(os.path.basename(args.input)), file=sys.stderr)
    name_page(args.output, is_named)
    return 0


def name_page(path: str, is_named: bool) -> None:
    """Print the path of a page that the user did not name."""
    if is_named:
        print_result(path)


def compiled(args: argparse.Namespace, options: "Options", watcher: Watcher) -> "Program":
    """The program; one that leaves sizes open, at those that are given."""
    with effort(options.time_limit) as known, warning_handler(print_diagnostic):
        program = compile_file(
            args.input, options, progress=known.report, watch=lambda program: [watcher]
        )
        shapes, dims = fixed_of(options)
        is_program = not args.input.endswith(".onnx")  # of models sizes are fixed as they are read
        if is_program and (shapes or dims) and is_open(program.module) and program.bind:
            program = program.bind(dims, shapes)
            if options.tiles:
                write_tile_programs(program.module, options)
    return program
