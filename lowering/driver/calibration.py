"""What quantization decides from samples: the model is lowered to the graph level once more, with a
chunk of samples as its batch, and every pass that needs data observes them there. What they decide
is a table, by which the program itself is compiled, at any batch and without data."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import file_digest
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from ge.dialects.graph.quantization import Granular, QuantizeOp
from ge.dialects.support.diagnostics import error_at, warning, without_remarks
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.support.types import byte_size, element_type, has_size, set_type, tensor
from ge.dialects.targets.target import Target
from ge.lowering.driver.program import Program
from ge.lowering.levels.level import Level, level_of
from ge.lowering.pipeline.options import Options
from ge.lowering.pipeline.pass_manager import PassManager
from ge.lowering.pipeline.stages import enabled, to_calibrate
from ge.lowering.text.files import Outputs, write_module
from ge.runtime.data.weights import weights_at_hand, weights_of
from ge.transforms.graph.infer_shapes import refresh_signature
from ge.transforms.quantization.data import Calibration, Samples, calibrating, read_samples
from ge.transforms.quantization.layers import argument_name, base_name
from ge.transforms.quantization.schemes import INT8
from ge.transforms.quantization.table import Table, read_table
from ge.transforms.rewriting import remarks
from ge.transforms.rewriting.counts import collecting, disabling

MOST_BYTES = 1 << 28  # of one value of a chunk, where that can be had


def table_for(program: Program, options: Options, ctx: Context) -> Table:
    """The decisions for a model that was loaded and not lowered yet. Raises GeError for data that
    is missing or does not fit, and for the table of another model."""
    main, files = main_function(program.module), options.calibration_files
    if main is None:
        return Table()
    if (level := level_of(program.module)) is not Level.GRAPH:
        raise error_at(main, "a model is quantized at the graph level", f"this is at {level}")
    if any(isinstance(op, QuantizeOp) for op in main.walk()):
        hint = "without --quantize it is compiled to integers as it is"
        raise GeError("the model is quantized already", program.path, hint)
    if options.quantize == INT8 and "i8" not in Target.load(options.target).macs_per_cycle:
        hint = "w8a16 and w4a16 store weights alone in integers"
        raise GeError(f"target {options.target} has no rate for matmuls of i8", hint=hint)
    if not any(f.endswith(".toml") for f in files) and lacks_weights(program):
        if options.quantize == INT8:
            what = "the weights are not there: the program can be timed, but not computed with"
            warning(main, f"{what}; the ranges of all activations are taken as [-1, 1]")
        return Table(nominal=(-1.0, 1.0))
    if len(files) == 0:
        if options.quantize == INT8:
            hint = "give --calibration X.npz with samples of its inputs; w8a16 needs none"
            raise GeError(f"{options.quantize} needs calibration", program.path, hint)
        return Table()
    model = model_hash(program.path)
    if not any(f.endswith(".toml") for f in files):
        return observed(program, options, ctx, Table(model))
    if len(files) > 1:
        raise GeError(f"a table is all that is taken, not {len(files)} files", files[0])
    table = read_table(files[0])
    table.check(model, names_of(main), files[0])
    return table


def lacks_weights(program: Program) -> bool:
    return any(program.payload.get(key) is None for key in weights_of(program.module))


def model_hash(path: str) -> str:
    if not Path(path).is_file():
        return ""
    with open(path, "rb") as file:
        return file_digest(file, "sha256").hexdigest()


def names_of(main: FuncOp) -> Iterator[str]:
    yield from map(argument_name, main.args)
    yield from map(base_name, main.walk())


# ---- observing -------------------------------------------------------------------------------


def observed(program: Program, options: Options, ctx: Context, table: Table) -> Table:
    """The table, with what passes decide from the samples of the options."""
    free = main_function(unfixed(program))
    assert free is not None
    samples = read_samples(options.calibration_files, free)
    if samples.count == 1:
        warning(free, "one sample alone says little about ranges; take a hundred")
    module = with_chunks(program, samples)
    while (size := largest_value(module)) > MOST_BYTES and samples.chunk > 1 and samples.is_free:
        samples = replace(samples, chunk=max(1, samples.chunk * MOST_BYTES // size))
        module = with_chunks(program, samples)
    with calibrating(Calibration(table, samples)):
        quantize(module, program, options, ctx)
    return table


def quantize(module: ModuleOp, program: Program, options: Options, ctx: Context) -> None:
    """Lower a module of the program to the graph level, but for what follows quantization."""
    passes = list(enabled(to_calibrate(options), options.fusion_disable))
    with (
        without_remarks(), remarks.collecting(), collecting(), disabling(options.fusion_disable),
        weights_at_hand(program.payload),
    ):  # fmt: skip
        PassManager(passes).run(ctx, module)


def export_of(program: Program, options: Options) -> Callable[[Outputs], object]:
    """What writes the quantized model of a program that was not lowered yet. Raises GeError for a
    model that is not quantized, or that ONNX has no form for."""
    from ge.lowering.driver.compiler import context

    if (level := level_of(program.module)) is not Level.GRAPH:
        hint = f"this is at the {level} level"
        raise GeError("a model is exported from the graph level", program.path, hint)
    module, payload, path = program.module.clone(), program.payload, options.export_qdq
    quantize(module, program, options, context(options.plugins))
    if not options.quantize and not any(isinstance(op, Granular) for op in module.walk()):
        hint = "give --quantize int8 and --calibration X.npz"
        raise GeError("the model is not quantized: it has no QDQ form", program.path, hint)
    if path.endswith(".mlir"):
        return lambda out: write_module(out, path, module, payload, locations=True)
    from ge.lowering.onnx.export.exporter import export_model

    model = export_model(module, payload, program.name).SerializeToString()
    return lambda out: out.bytes(path, model)


def largest_value(module: ModuleOp) -> int:
    """Bytes of the largest value of a module whose shape is known."""
    values = (r for op in module.walk() for r in op.results)
    return max((byte_size(v.type) for v in values if has_size(v)), default=0)


def unfixed(program: Program) -> ModuleOp:
    """The model with the batch that it says itself, not that of the program to be compiled."""
    if program.path.endswith(".onnx") and program.reload is not None:
        try:
            return program.reload(shapes=None, dims=None).module
        except GeError:
            pass  # some input has a shape only if one is given
    return program.module


def with_chunks(program: Program, samples: Samples) -> ModuleOp:
    """A module of the model whose inputs are chunks of the samples."""
    shapes = samples.shapes()
    if program.path.endswith(".onnx") and program.reload is not None:
        return program.reload(shapes=shapes, dims=None).module
    module = program.module.clone()
    main = main_function(module)
    assert main is not None
    for arg in main.args:
        set_type(arg, tensor(shapes[argument_name(arg)], element_type(arg)))
    refresh_signature(main)
    return module
