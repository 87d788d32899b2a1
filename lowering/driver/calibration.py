"""Decisions of quantization from samples: the model is lowered to the graph level once more, with a
chunk of samples as its batch, and every pass that needs data observes them there. The decisions are
a table, by which the program itself is compiled, at any batch and without data.

Nodes of a model keep their element type where `keep_dtype` names them. It names a type that ONNX
nodes of the model have (OpType::Gemm), else one of the graph level by ge's name or a framework's
(OpType::layer_norm, OpType::BatchMatMul); capitals and underscores do not count. Nodes are named as
in the model, so that an op made of several nodes is matched by their names, too."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.quantization import Granular, QuantizeOp
from ge.dialects.graph.stated import is_seed
from ge.dialects.graph.support.op_names import plain, short_name
from ge.dialects.support.diagnostics import error_at, warning, warning_handler, without_remarks
from ge.dialects.support.effort import effort_at_hand
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import (
    DYNAMIC,
    byte_size,
    element_type,
    has_size,
    set_type,
    shape_of,
    tensor,
)
from ge.dialects.targets.target import Target
from ge.dialects.text.kept import hash_of
from ge.dialects.text.look import LOCATED
from ge.dialects.text.values import did_you_mean
from ge.lowering.driver.program import Program
from ge.lowering.levels.level import Level, level_of
from ge.lowering.pipeline.instrumentation import dumps_for
from ge.lowering.pipeline.options import Options
from ge.lowering.pipeline.pass_manager import PassManager
from ge.lowering.pipeline.stages import Passes, enabled, to_calibrate, to_quantized
from ge.runtime.data.arrays import kind_of
from ge.runtime.data.files import Outputs, write_module
from ge.runtime.data.weights import weights_at_hand, weights_of
from ge.runtime.device.ports import batch_of, input_ports
from ge.transforms.graph.infer_shapes import refresh_signature
from ge.transforms.precision import modes
from ge.transforms.precision.magnitudes import random_samples
from ge.transforms.precision.modes import MODES, ORIGIN
from ge.transforms.quantization.correct_bias import NAME as CORRECT_BIAS
from ge.transforms.quantization.data import (
    Calibration,
    Samples,
    calibrating,
    calibration_at_hand,
)
from ge.transforms.quantization.layers import all_names, argument_name, base_name
from ge.transforms.quantization.schemes import FLOAT, Scheme, scheme_of
from ge.transforms.quantization.sources import Files, Source, samples_of
from ge.transforms.quantization.table import Table, read_table
from ge.transforms.rewriting import remarks
from ge.transforms.rewriting.counts import collecting, disabling

TYPE = "OpType::"


def kept_names(program: Program, entries: Sequence[str]) -> frozenset[str]:
    """The names of nodes that entries name, themselves or by their type, in a model that was loaded
    and not lowered yet. Raises GeError for an entry that matches nothing."""
    by_type: dict[str, set[str]] = {}
    main = main_function(program.module) if entries else None
    for op in () if main is None else main.walk():
        if isinstance(op, TensorOp) and not isinstance(op, ConstantOp):
            by_type.setdefault(plain(op.name.removeprefix("graph.")), set()).update(all_names(op))
    names = {name for found in by_type.values() for name in found}
    if program.path.endswith(".onnx") and any(e.startswith(TYPE) for e in entries):
        from ge.lowering.onnx.model import node_name, read_model

        nodes: dict[str, set[str]] = {}
        for node in read_model(program.path).graph.node:
            nodes.setdefault(plain(node.op_type), set()).add(node_name(node))
        by_type |= nodes
    kept: set[str] = set()
    for entry in entries:
        kind = entry.removeprefix(TYPE)
        named = plain(kind) if plain(kind) in by_type else short_name(kind)
        if kind != entry and named in by_type:
            kept |= by_type[named]
        elif kind == entry and entry in names:
            kept.add(entry)
        else:
            what = f"nodes of type '{kind}'" if kind != entry else f"node '{entry}'"
            known = sorted(names if kind == entry else by_type)
            hint = did_you_mean(kind if kind == entry else plain(kind), known).removeprefix("; ")
            hint = hint or "give names of nodes, OpType::MatMul, or a file with one on each line"
            raise GeError(f"keep_dtype: the model has no {what}", program.path, hint)
    return frozenset(kept)


GO_ON = "the table (of ge-calibrate, `table=` in Python) beside the samples goes on from there"

MOST_BYTES = 1 << 28  # of one value of a chunk, where that can be had

SCALED = 100.0  # times as large is data that another scale was applied to: 255 for pixels

MOST_MACS = 10**12  # of a model that is run on random inputs: about a minute


# Of dimensions that are not known, where a model is run on random inputs: the first that it takes.
# Random integers are 0 or 1, and often indices; what halves sizes again and again takes neither 2
# nor 1.
RANDOM_SIZES = (2, 1, 16, 64, 256)


def table_for(
    program: Program, options: Options, ctx: Context, wanted: Calibration | None = None
) -> Table:
    """Return the decisions for a model that was loaded and not lowered yet; facts `wanted` besides
    are added there. Raises GeError for data that is missing or does not fit, and for the table of
    another model."""
    main, files = main_function(program.module), options.calibration_files
    wanted = wanted or Calibration()
    tables = [f for f in files if f.endswith(".toml")]
    given: Source | None = wanted.source
    if samples := [f for f in files if f not in tables]:
        given = Files(samples)
    if main is None:
        return Table()
    if (level := level_of(program.module)) is not Level.GRAPH:
        what = "a model is quantized" if options.quantize else "the precision of a model is chosen"
        raise error_at(main, f"{what} at the graph level", f"this is at {level}")
    if options.quantize and any(isinstance(op, QuantizeOp) for op in main.walk()):
        hint = "without --quantize it is compiled to integers as it is"
        raise GeError("the model is quantized already", program.path, hint)
    wanted.kept = kept_names(program, options.keep_dtype)
    scheme = scheme_of(options.quantize) if options.quantize else Scheme("")
    check_rate(scheme, options.target)
    absent = (key for key in weights_of(program.module) if program.payload.get(key) is None)
    if not tables and any(absent):
        what = "the weights are not there: the program can be timed, but not computed with"
        if scheme.is_calibrated:
            warning(main, f"{what}; the ranges of all activations are taken as [-1, 1]")
        elif not options.quantize and MODES[options.precision].has_less_range:
            warning(main, f"{what}; all values are taken to fit f16")
        return Table(nominal=(-1.0, 1.0))
    if given is None and not tables:
        if options.fit_weights:
            hint = "give --calibration X.npz with samples of its inputs"
            raise GeError("weights are fitted to samples", program.path, hint)
        if options.accuracy or wanted.accuracy:
            hint = "give --calibration X.npz with samples of its inputs"
            raise GeError("an accuracy is measured on samples", program.path, hint)
        if scheme.is_calibrated:
            hint = "give --calibration X.npz with samples of its inputs; dynamic needs none"
            raise GeError(f"{scheme.name} needs calibration", program.path, hint)
        return Table()
    table = table_given(program, main, options, tables)
    if given is not None:
        wanted.table = table.to_go_on_from(CORRECT_BIAS)
        return observed(program, options, ctx, wanted, given)
    if options.accuracy:
        what = "the table says in what layers are computed; for an accuracy give samples"
        warning(main, what)
    return table


def table_given(program: Program, main: FuncOp, options: Options, paths: Sequence[str]) -> Table:
    """The table of a file, an empty one where none is given. Raises GeError for that of another
    model, and for several."""
    if len(paths) > 1:
        raise GeError(f"one table is taken, not {len(paths)}", paths[1])
    if not paths:
        return Table(hash_of(program.path) or "")
    table = read_table(paths[0])
    table.check(hash_of(program.path) or "", names_of(main), paths[0])
    for name in table.layers.values():
        if name != FLOAT:
            check_rate(scheme_of(name), options.target)
    if options.fit_weights and not table.fitted and not table.is_unfinished:
        what = f"no weights are fitted: {paths[0]} has none, give samples in its place"
        warning(main, what)
    return table


def check_rate(scheme: Scheme, target: str) -> None:
    """Raises GeError where the target does not multiply what a scheme needs."""
    if scheme.rate and scheme.rate not in Target.load(target).macs_per_cycle:
        others = [t for t in Target.presets() if scheme.rate in Target.load(t).macs_per_cycle]
        hint = f"{', '.join(others)} have one; w8a16 and w4a16 store weights alone in integers"
        raise GeError(f"target {target} has no rate for matmuls of {scheme.rate}", hint=hint)


def names_of(main: FuncOp) -> Iterator[str]:
    yield from map(argument_name, main.args)
    yield from map(base_name, main.walk())


# ---- observing -------------------------------------------------------------------------------


def observed(
    program: Program, options: Options, ctx: Context, wanted: Calibration, source: Source
) -> Table:
    """The table, with what passes decide from the samples of a source."""
    free = main_function(unfixed(program))
    assert free is not None
    fixed = main_function(program.module)
    samples = samples_of(source, free, fixed, labels=wanted.accuracy is not None)
    table, undone = wanted.table, effort_at_hand().undone
    has_all = not undone
    if samples.count == 1:
        warning(free, "one sample alone says little about ranges; take a hundred")
    for line in doubts(samples):
        warning(free, line)
    try:
        module = with_chunks(program, samples)
    except GeError:  # a model may state a batch of any size and yet take one sample only
        if not samples.is_free:
            raise
        samples, module = with_one_sample(program, samples)
    while (size := largest_value(module)) > MOST_BYTES and samples.chunk > 1 and samples.is_free:
        samples = replace(samples, chunk=max(1, samples.chunk * MOST_BYTES // size))
        module = with_chunks(program, samples)
    decide(module, program, options, ctx, replace(wanted, samples=samples))
    if undone:
        table.is_unfinished = True
        if not has_all:  # other decisions may come from more samples
            table.passes, table.samples = [], 0
        what = f"{options.time_limit} s were over before all was decided, and the best so far holds"
        warning(free, f"{what}; missing: {'; '.join(undone)}; {GO_ON}")
    else:
        table.finish()
    return table


def doubts(samples: Samples) -> Iterator[str]:
    """Yield what is strange about samples of floats: inputs of one value, and files or batches of
    which one is a hundred times as large as another, as if it were scaled and the other not."""
    for name, array in samples.arrays.items():
        if kind_of(array.dtype) != "f" or array.size < 2:
            continue
        if array.min() == array.max():
            yield f"input '{name}' is {array.flat[0]:g} everywhere in the samples: no range to see"
        if len(tops := samples.tops.get(name, {})) < 2:
            continue
        least, most = min(tops, key=tops.__getitem__), max(tops, key=tops.__getitem__)
        if tops[least] > 0 and tops[most] >= SCALED * tops[least]:
            reach = f"{tops[least]:.4g} in {least} and {tops[most]:.4g} in {most}"
            yield f"input '{name}' reaches {reach}: is one of them scaled?"


def with_one_sample(program: Program, samples: Samples) -> tuple[Samples, ModuleOp]:
    """Return the samples one at a time, or all as one if they have the sizes that are asked for: an
    axis that looks like a batch is then none. Raises GeError that says what was taken for an axis
    of samples, for the model may be right."""
    single = replace(samples, chunk=1)
    try:
        return single, with_chunks(program, single)
    except GeError as e:
        main = main_function(program.module)
        shapes = {n: a.shape for n, a in samples.arrays.items()}
        args = () if main is None else (arg for arg in main.args if not is_seed(arg))
        if all(shapes.get(argument_name(arg)) == tuple(shape_of(arg)) for arg in args):
            whole = {name: a[None] for name, a in samples.arrays.items()}
            axes = dict.fromkeys(whole, 0)
            one = Samples(whole, axes, 1, 1, apart=True)
            return one, with_chunks(program, one)
        taken = [f"{axis} of '{name}'" for name, axis in samples.axes.items() if axis is not None]
        what = f"samples were taken to lie along axis {', '.join(taken)}, and the model takes no"
        hint = "fix the sizes with --shape or --dim, and give arrays with an axis of samples before"
        text = f"{what} single one: {e.message}"
        raise GeError(text, e.where, f"{hint} the whole shape") from None


def estimate(program: Program, options: Options, ctx: Context, wanted: Calibration) -> None:
    """Add how large values get on random inputs to the table, if precision needs that and there is
    no data."""
    main, nominal = main_function(program.module), wanted.table.nominal
    if main is None or options.precision == ORIGIN or options.calibration or nominal is not None:
        return
    wanted.estimated = True
    try:
        samples, module = random_inputs(program, main)
        if macs(module) > MOST_MACS:
            raise GeError("that would take minutes")
        decide(module, program, options, ctx, replace(wanted, random=samples))
    except (GeError, VerifyException) as e:
        warning(main, f"the model cannot be run on random inputs: {e}; give --calibration")


def random_inputs(program: Program, main: FuncOp) -> tuple[Samples, ModuleOp]:
    """One sample at random, as small as the model takes it, and the module for it. Raises GeError
    where it takes none."""
    for size in RANDOM_SIZES[:-1]:
        samples = random_samples(main, size)
        with suppress(GeError, VerifyException):
            return samples, with_chunks(program, samples)
    samples = random_samples(main, RANDOM_SIZES[-1])
    return samples, with_chunks(program, samples)


def macs(module: ModuleOp) -> int:
    """Multiply-accumulates of a run, as far as shapes are known."""
    works = (op.work() for op in module.walk() if isinstance(op, TensorOp))
    return sum(work.macs for work in works if work is not None)


def decide(
    module: ModuleOp, program: Program, options: Options, ctx: Context, calibration: Calibration
) -> None:
    """Run the passes that decide from data; they write their decisions to the table."""
    run_quietly(to_calibrate(options), module, program, options, ctx, calibration)


def run_quietly(
    passes: Passes,
    module: ModuleOp,
    program: Program,
    options: Options,
    ctx: Context,
    calibration: Calibration,
) -> None:
    """Run passes on a module of the program that is not the one to be compiled; its dumps are in a
    folder of their own."""
    apart = replace(options, dump_path=os.path.join(options.dump_path, "calibration"))
    with (
        without_remarks(), remarks.collecting(), collecting(), modes.collecting(),
        disabling(options.fusion_disable), weights_at_hand(program.payload),
        calibrating(calibration),
    ):  # fmt: skip
        chosen = list(enabled(passes, options.fusion_disable))
        PassManager(chosen, dumps_for(apart)).run(ctx, module)


def export_of(program: Program, options: Options, ctx: Context) -> Callable[[Outputs], object]:
    """Return a function that writes the quantized model of a program that was not lowered yet.
    Raises GeError for a model that is not quantized, or that ONNX has no form for."""
    if (level := level_of(program.module)) is not Level.GRAPH:
        hint = f"this is at the {level} level"
        raise GeError("a model is exported from the graph level", program.path, hint)
    if options.export_qdq == "-":
        raise GeError("a model is exported to a file, not to standard output")
    source, path = with_open_batch(program), options.export_qdq
    module, payload = source.module.clone(), source.payload
    calibration = replace(calibration_at_hand(), layers={})
    with warning_handler(lambda _: None):  # the program itself tells all
        run_quietly(to_quantized(options), module, program, options, ctx, calibration)
    if not options.quantize and not any(isinstance(op, Granular) for op in module.walk()):
        hint = "give --quantize int8 and --calibration X.npz"
        raise GeError("the model is not quantized: it has no QDQ form", program.path, hint)
    if path.endswith(".mlir"):
        return lambda out: write_module(out, path, module, payload, LOCATED)
    from ge.lowering.onnx.export.exporter import model_and_weights, write_model

    model = model_and_weights(module, payload, program.name)
    return lambda out: write_model(out, path, *model)


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


def with_open_batch(program: Program) -> Program:
    """The model with any batch if it says so itself, whatever that of the program to be compiled
    is, and with the other sizes of that."""
    main, opened = main_function(program.module), unfixed(program)
    free, name = main_function(opened), batch_of(opened)
    if main is None or free is None or program.reload is None or not name:
        return program
    inputs = zip(input_ports(free), main.args, strict=True)
    sizes = {n: d for p, a in inputs for n, d in zip(p.dims, shape_of(a), strict=True) if n}
    if sizes.pop(name) == DYNAMIC:
        return program
    known = {n: d for n, d in sizes.items() if d != DYNAMIC}
    try:
        return program.reload(shapes=None, dims=known)
    except GeError:  # a size that is computed from others
        return program


def with_chunks(program: Program, samples: Samples) -> ModuleOp:
    """A module of the model whose inputs are chunks of the samples."""
    shapes = samples.shapes()
    if program.path.endswith(".onnx") and program.reload is not None:
        return program.reload(shapes=shapes, dims=None).module
    module = program.module.clone()
    main = main_function(module)
    assert main is not None
    for arg in main.args:
        if is_seed(arg):
            continue
        set_type(arg, tensor(shapes[argument_name(arg)], element_type(arg)))
    refresh_signature(main)
    return module
