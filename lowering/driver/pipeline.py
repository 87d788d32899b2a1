"""A program for each stage of a pipeline, and the module that has all of them."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, MemRefType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue

from ge.dialects.graph.sharding import Pipeline, mesh_op_of
from ge.dialects.npu_task.attributes import HOST
from ge.dialects.npu_task.casts import dense
from ge.dialects.npu_task.pipeline import PipelineOp
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import MAIN, functions
from ge.dialects.support.operation import created
from ge.dialects.support.types import element_type, shape_of
from ge.dialects.targets.target import TARGET, TARGET_FILE, Target
from ge.lowering.driver.program import Compilation
from ge.lowering.driver.stepper import Stepper
from ge.lowering.levels.level import Level
from ge.lowering.pipeline.options import Options
from ge.lowering.pipeline.stages import before_stages
from ge.transforms.precision.modes import ORIGIN
from ge.transforms.sharding.cut_stages import Costs, Cut
from ge.transforms.sharding.partition_spmd import PartitionSpmdPass
from ge.transforms.sharding.rules import mesh_line, without_auto

Lower = Callable[[ModuleOp, Options], Compilation]


def lower_stages(module: ModuleOp, stepper: Stepper, until: Level, lower: Lower) -> Compilation:
    """Cut a graph into the stages of a pipeline, in place, and lower each. Raises GeError for what
    a pipeline does not take."""
    options = stepper.options
    require_stages(options, until)
    stepper.run(module, [Level.GRAPH], {Level.GRAPH: before_stages(options)})
    pipeline = Pipeline.of(module)
    if pipeline is None:
        raise GeError("a pipeline is of a program with a function @main")
    main = functions(module)[MAIN]
    ports = [arg.name_hint for arg in main.args]
    ends = main.body.block.last_op
    assert isinstance(ends, ReturnOp)
    types = [[host_buffer(v) for v in values] for values in (main.args, ends.operands)]
    stages = cut(module, options, pipeline)
    _, auto = without_auto(options.shard)
    one = replace(
        options, pipeline="", microbatches=0, mesh=mesh_line(pipeline.mesh),
        shard="auto" if auto else "", outputs=(), drop_unused_inputs=False,
    )  # fmt: skip
    compilations = [lower(stage, one) for stage in stages]
    put_together(module, main, types, stages)
    for arg, name in zip(functions(module)[MAIN].args, ports, strict=True):
        arg.name_hint = name
    return joined(options, stepper, compilations)


def require_stages(options: Options, until: Level) -> None:
    """Raises GeError for options that a pipeline does not take."""
    if until is not Level.PROGRAM:
        raise GeError("a pipeline is compiled to the program level", "--pipeline")
    flags = "--dynamic-batch", "--dynamic-image-size", "--dynamic-dims"
    gears = zip(flags, options.gears, strict=True)
    for flag, given, why in (
        ("--state", options.state, "state would be that of another microbatch"),
        ("--state-capacity", options.state_capacity, "state would be that of another microbatch"),
        *((flag, gear, "the batch is cut at one size") for flag, gear in gears),
        ("--quantize", options.quantize, "it is decided on whole values"),
        ("--precision", options.precision != ORIGIN, "it is decided on whole values"),
    ):
        if given:
            raise GeError(f"{flag} is not for a pipeline: {why}", "--pipeline", "leave one out")


def host_buffer(value: SSAValue) -> MemRefType[Attribute]:
    return dense(element_type(value), shape_of(value), HOST)


def cut(module: ModuleOp, options: Options, pipeline: Pipeline) -> list[ModuleOp]:
    """The modules of the stages, at the graph level."""
    target = Target.load(options.target)
    _, auto = without_auto(options.shard)
    main = functions(module)[MAIN]
    partition = PartitionSpmdPass(options.target, auto, options.memory_limit)
    assignment, _ = partition.decided(main, pipeline.mesh)
    limit = options.memory_limit or target.hbm_bytes
    return Cut(module, Costs(assignment, pipeline), limit).run()


def put_together(
    module: ModuleOp, main: FuncOp, types: Sequence[Sequence[Attribute]], stages: list[ModuleOp]
) -> None:
    """Replace what a module has by the programs of the stages, and a function of whole values."""
    mesh = mesh_op_of(module)
    assert mesh is not None
    inputs, outputs = types
    block = Block(arg_types=inputs)
    run = created(PipelineOp, tuple(block.args), outputs)
    block.add_ops([run, ReturnOp(*run.results)])
    tables: list[ArrayAttr[DictionaryAttr] | None] = [main.arg_attrs, main.res_attrs]
    whole = FuncOp(MAIN, (inputs, outputs), Region(block), arg_attrs=tables[0], res_attrs=tables[1])
    whole.location = main.location
    first = functions(stages[0])[MAIN]
    stated = {key: first.attributes.get(key) for key in (TARGET, TARGET_FILE)}
    whole.attributes.update({key: text for key, text in stated.items() if text is not None})
    for op in list(module.ops):
        op.detach()
        if op is not mesh:
            op.drop_all_references()
    module.body.block.add_ops([mesh, *stages, whole])


def joined(options: Options, stepper: Stepper, stages: Sequence[Compilation]) -> Compilation:
    """The report of all stages together: sums, and of memory what a device of the stage has
    that needs most."""
    whole = Compilation(options)
    whole.passes = [*stepper.records, *(p for c in stages for p in c.passes)]
    whole.seconds = sum(p.seconds for p in whole.passes)
    for compilation in stages:
        for level, count in compilation.ops.items():
            whole.ops[level] = whole.ops.get(level, 0) + count
        for rule, counts in compilation.fusion.items():
            entry = whole.fusion.setdefault(rule, {"matched": 0, "applied": 0})
            for key, number in counts.items():
                entry[key] += number
        whole.remedies += compilation.remedies
        whole.plan += compilation.plan
    return whole
