"""Microbatches of a pipeline: parts of the batch, as parts of values along an axis of the mesh that
is in time.

    graph.mesh @mesh ["pp"=4, "dp"=2]
    @main(%x: tensor<32x16xf32> {... [{"dp"}, {}]})
becomes, with 8 microbatches
    graph.mesh @mesh ["microbatch"=8, "pp"=4, "dp"=2] pipeline "pp"
    @main(%x: tensor<32x16xf32> {... [{"microbatch", "dp"}, {}]})

So what a microbatch has of each value follows as for a device, and so does the proof that all of
them together are the whole. Nothing may be sent along the new axis: microbatches are computed one
after the other. Along the axis of stages nothing is cut: a stacked weight of which each stage takes
its own layers is on the devices of that stage anyway."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, OpResult, SSAValue

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.sharding import (
    SHARDING,
    MeshOp,
    ShardingAttr,
    ShardOp,
    StageOp,
    mesh_op_of,
    sharding_of,
)
from ge.dialects.graph.stated import STATE, argument_attributes, input_name, name_of
from ge.dialects.support.diagnostics import error_at, warning
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.support.mesh import MICROBATCH, Axis, Mesh, Sharding
from ge.dialects.support.operation import all_ops, created
from ge.dialects.support.types import DYNAMIC, AnyTensor, is_ranked, shape_of, type_shape
from ge.transforms.sharding.rules import mesh_line, read_pipeline

USUAL = ("pp", "pipe", "pipeline", "stage", "stages")  # names of axes of stages


def cut_batches(module: ModuleOp, pipeline: str, microbatches: int, auto: bool = False) -> None:
    """Cut inputs and outputs into microbatches. Raises GeError for stages that are no axis of the
    mesh, and for a batch that does not divide."""
    op, main = mesh_op_of(module), main_function(module)
    if main is None or (op is not None and op.pipeline is not None):
        return
    axis, count = read_pipeline(pipeline)
    mesh = Mesh(()) if op is None else op.mesh.data
    axis = axis_of(main, mesh, axis, count)
    assert op is not None
    if MICROBATCH in mesh.sizes:
        raise GeError(f"an axis of a pipeline's mesh is not called '{MICROBATCH}'", "--mesh")
    batches = microbatches or count
    for name, sharding in shardings(main):
        if any(a.name == axis for a in sharding.axes) and name:
            warning(main, f"'{name}' is not cut along '{axis}': it is where stages use it")
    without_axis(main, axis)
    new = MeshOp.of(replace(mesh, axes=((MICROBATCH, batches), *mesh.axes)), axis)
    block = op.parent
    assert block is not None
    block.insert_op_before(new, op)
    block.erase_op(op)
    taken = {a.name for _, own in shardings(main) for a in own.axes} | {axis}
    free = (
        [] if auto else [Axis(n, 1, size) for n, size in mesh.axes if n not in taken and size > 1]
    )
    cut_ports(main, batches, free)


def axis_of(main: FuncOp, mesh: Mesh, axis: str, count: int) -> str:
    """The axis of stages: the one that is named, or has a usual name, or cuts the first dimension
    of weights alone, or nothing. Raises GeError where it is none or several."""
    where, line = "--pipeline", mesh_line(mesh)
    if axis and axis not in mesh.sizes:
        raise GeError(f"the mesh {line or 'of no devices'} has no axis '{axis}'", where)
    if axis and mesh.sizes[axis] != count:
        raise GeError(f"{count} stages, and axis '{axis}' has {mesh.sizes[axis]} devices", where)
    fitting = [axis] if axis else [name for name, size in mesh.axes if size == count]
    if not fitting:
        hint = f"each stage has a place along an axis of its own, as in --mesh pp={count}"
        text = f"{count} stages, and the mesh {line} has no axis of {count} devices"
        raise GeError(text if line else f"{count} stages are of a mesh", where, hint)
    stated = list(shardings(main))
    first = {a.name for name, own in stated if not name for axes in own.dims[:1] for a in axes}
    values = {a.name for name, own in stated if name for a in own.axes}
    inner = {a.name for _, own in stated for axes in own.dims[1:] for a in axes}
    for likely in (
        [n for n in fitting if n.lower() in USUAL],
        [n for n in fitting if n in first - inner],
        [n for n in fitting if n not in values | inner],
    ):
        fitting = likely if len(fitting) > 1 and likely else fitting
    if len(fitting) > 1:
        names = " or ".join(f"{n}={count}" for n in fitting)
        text = f"the mesh {line} has several axes of {count} devices"
        raise GeError(text, where, f"say which one has the stages: --pipeline {names}")
    return fitting[0]


def shardings(main: FuncOp) -> Iterator[tuple[str, Sharding]]:
    """Yield what is stated: names of values, "" of weights, and how they are cut."""
    for i in range(len(main.args)):
        if (own := sharding_of(argument_attributes(main, i))) is not None:
            yield input_name(main, i), own
    for i, table in enumerate(main.res_attrs or ()):
        if (own := sharding_of(table.data)) is not None:
            yield name_of(table.data) or f"result{i}", own
    for op in all_ops(main.body.blocks):
        if isinstance(op, ShardOp):
            name = "" if isinstance(op.input.owner, ConstantOp) else op.input.name_hint or op.name
            yield name, op.sharding.data


def without_axis(main: FuncOp, axis: str) -> None:
    """Take an axis out of all shardings."""

    def without(attr: ShardingAttr) -> ShardingAttr:
        own = attr.data
        dims = tuple(tuple(a for a in axes if a.name != axis) for axes in own.dims)
        rest = frozenset(a for a in own.replicated if a.name != axis)
        unreduced = tuple(a for a in own.unreduced if a.name != axis)
        return ShardingAttr(replace(own, dims=dims, replicated=rest, unreduced=unreduced))

    for op in all_ops(main.body.blocks):
        if isinstance(op, ShardOp):
            op.properties["sharding"] = without(op.sharding)
    for tables in ("arg_attrs", "res_attrs"):
        found: ArrayAttr[DictionaryAttr] | None = getattr(main, tables)
        for i, table in enumerate(found or ()):
            if isinstance(own := table.data.get(SHARDING), ShardingAttr):
                state(main, tables, i, without(own))


def state(main: FuncOp, tables: str, index: int, sharding: ShardingAttr) -> None:
    ends = main.function_type.inputs if tables == "arg_attrs" else main.function_type.outputs
    found: ArrayAttr[DictionaryAttr] | None = getattr(main, tables)
    own = [DictionaryAttr({})] * len(ends) if found is None else list(found.data)
    own[index] = DictionaryAttr({**own[index].data, SHARDING: sharding})
    setattr(main, tables, ArrayAttr(own))


def cut_ports(main: FuncOp, batches: int, free: Sequence[Axis]) -> None:
    """Cut inputs and outputs along the batch, the first dimension of the first input, and values
    inside along free axes too. Raises GeError where it is not known, or does not divide."""
    sizes = {i: batch_of(main, i) for i in range(len(main.args))}
    ranked = [i for i, size in sizes.items() if size]
    if not ranked:
        raise GeError("no input has a batch that could be cut", "--microbatches")
    first, batch = ranked[0], sizes[ranked[0]]
    if batch % batches:
        divisors = [str(n) for n in range(1, batch + 1) if batch % n == 0]
        raise error_at(
            main,
            f"the batch of {batch} ('{input_name(main, first)}') is not {batches} microbatches of "
            "one size",
            f"give --microbatches {', '.join(divisors[-8:])}, or another batch",
        )
    inside = prod(a.size for a in free)
    free = free if batch // batches % inside == 0 else ()
    for i, size in sizes.items():
        if size == batch:
            cut_port(main, "arg_attrs", i, main.args[i].type, batches, free)
    last = main.body.block.last_op
    for i, value in enumerate(() if last is None else last.operands):
        if is_ranked(value) and (shape := shape_of(value)) and shape[0] % batch == 0 < shape[0]:
            cut_port(main, "res_attrs", i, value.type, batches, free)


def batch_of(main: FuncOp, index: int) -> int:
    """The first dimension of an input, 0 for a scalar."""
    arg: SSAValue = main.args[index]
    name, table = input_name(main, index), argument_attributes(main, index)
    if STATE in table:
        hint = "state would be that of another microbatch; compile it without --pipeline"
        raise error_at(main, f"'{name}' is state: it is not kept in a pipeline", hint)
    if not isinstance(arg.type, TensorType) or DYNAMIC in shape_of(arg):
        text = f"the sizes of input '{name}' are not all known, and a pipeline cuts its batch"
        raise error_at(main, text, "fix them with --dim or --shape")
    return (shape_of(arg) or (0,))[0]


def cut_port(
    main: FuncOp, tables: str, index: int, type: Attribute, batches: int, free: Sequence[Axis]
) -> None:
    """Cut an input or output into microbatches, and each of these as it is stated. Of an input that
    is stated to be whole each device uses its part along free axes."""
    found: ArrayAttr[DictionaryAttr] | None = getattr(main, tables)
    stated = None if found is None else sharding_of(found.data[index].data)
    own = stated or Sharding.whole(len(type_shape(cast(AnyTensor, type))))
    time = (Axis(MICROBATCH, 1, batches),) if batches > 1 else ()
    inside = replace(own, dims=((*time, *own.dims[0], *free), *own.dims[1:]))
    ports = replace(own, dims=((*time, *own.dims[0]), *own.dims[1:])) if stated else inside
    state(main, tables, index, ShardingAttr(ports))
    if tables == "arg_attrs" and inside != ports:
        arg = main.args[index]
        new = created(ShardOp, (arg,), [arg.type], {"sharding": ShardingAttr(inside)})
        insert_behind(new, arg)


def insert_behind(new: ShardOp | StageOp, value: SSAValue) -> None:
    """Insert an op that gives the same value, which the users get then."""
    users = [use for use in value.uses if use.operation is not new]
    if isinstance(value, OpResult):
        block = value.op.parent
        assert block is not None
        block.insert_op_after(new, value.op)
    else:
        block = value.owner
        assert isinstance(block, Block)
        first = block.first_op
        assert first is not None
        block.insert_op_before(new, first)
    for use in users:
        use.operation.operands[use.index] = new.result
