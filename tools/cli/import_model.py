"""ge-import: an ONNX model to the graph level, as MLIR text with its weights beside it."""

import argparse
from collections.abc import Sequence

from ge.tools.cli.arguments import add_model_arguments, add_options, options_from
from ge.tools.cli.command_line import ArgumentParser
from ge.tools.cli.watch_flags import PRINTED, PRINTING, add_table, look_of

EPILOG = """examples:
  ge-import model.onnx -o model.mlir             (weights go to model.safetensors)
  ge-import model.onnx --shape x=1x3x224x224     (prints the text; no weights are written)
  ge-import model.onnx -o model.mlir --dim batch=2 --dim sequence=128
"""


def build_parser() -> ArgumentParser:
    parser = ArgumentParser("ge-import", __doc__, EPILOG)
    add = parser.add_argument
    add("model", help="the .onnx file; external data is read from its folder")
    add("-o", "--output", default="-", help="the text; its weights go to a .safetensors file "
        "beside it (default: the text alone, to standard output)")  # fmt: skip
    add_table(parser.section(PRINTED), PRINTING)
    add_model_arguments(parser)
    add_options(parser, "ge-import")
    return parser


def run(arguments: Sequence[str]) -> int:
    return import_input(build_parser().parse_args(arguments))


def import_input(args: argparse.Namespace) -> int:
    from ge.dialects.text.values import parse_dims, parse_shapes
    from ge.lowering.onnx.importer import import_file
    from ge.lowering.plugins.extensions import universe
    from ge.runtime.data.files import Outputs, write_module
    from ge.runtime.data.weights import files_of
    from ge.tools.cli.command_line import progress_bar

    plugins = options_from(args).plugins
    universe(*plugins)  # they may import ops
    shapes, dims = parse_shapes(args.shape), parse_dims(args.dim)
    with progress_bar() as progress:
        imported = import_file(args.model, shapes, dims, progress)
        with Outputs([args.model, *plugins, *files_of(imported.payload)]) as out:
            write_module(
                out, args.output, imported.module, imported.payload, look_of(args),
                progress,
            )  # fmt: skip
    return 0
