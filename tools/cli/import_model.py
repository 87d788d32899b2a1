"""ge-import: an ONNX model to the graph level, as MLIR text with its weights beside it."""

import argparse

from ge.dialects.support.effort import progress_bar
from ge.dialects.text.values import parse_dims, parse_shapes
from ge.lowering.onnx.importer import import_file
from ge.lowering.plugins.extensions import universe
from ge.runtime.data.files import Outputs, write_module
from ge.runtime.data.weights import files_of
from ge.tools.cli.flags import (
    look_of,
    options_from,
)


def run(args: argparse.Namespace) -> int:
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
