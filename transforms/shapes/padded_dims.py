"""Which dimensions of a program may be padded to a gear, and where its outputs are cut then."""

from collections.abc import Mapping

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from ge.dialects.fused_op import FusedOp
from ge.dialects.graph.shape import View
from ge.dialects.support.diagnostics import location_of
from ge.dialects.support.dims import symbols
from ge.dialects.support.operation import cloned, put_last
from ge.transforms.analysis.dimensions import Dimensions, Size
from ge.transforms.shapes.fills import Fill
from ge.transforms.shapes.gears import Gears
from ge.transforms.shapes.mixes import Mixes
from ge.transforms.shapes.padding import Padding, Parts


def unfused(func: FuncOp) -> FuncOp:
    """A copy in which the members of fused ops stand by themselves."""
    body = func.body.block
    copy, block = func.clone_without_regions(), Block(arg_types=body.arg_types)
    values: dict[SSAValue, SSAValue] = dict(zip(body.args, block.args, strict=True))
    for op in body.ops:
        inside = op.members if isinstance(op, FusedOp) else [op]
        if isinstance(op, FusedOp):
            values |= {a: values[v] for a, v in zip(op.block.args, op.inputs, strict=True)}
        for member in inside:
            put_last(block, cloned(member, values))
        if isinstance(op, FusedOp):
            values |= {r: values[v] for r, v in zip(op.results, op.yielded, strict=True)}
    copy.body.add_block(block)
    return copy


def paddings(func: FuncOp, gears: Gears) -> Mapping[str, "str | list[tuple[int, int]]"]:
    """For each dimension of the gears the axes of outputs that are to be cut (number of the output,
    and axis), or why it cannot be padded."""
    copy = unfused(func)
    body = copy.body.block
    dims = Dimensions(copy.body)
    parts: Parts = {}
    others: dict[SSAValue, Fill] = {}
    result: dict[str, str | list[tuple[int, int]]] = {}
    for name, places in gears.places.items():
        if (reason := follows_from(name, gears)) is not None:
            result[name] = reason
            continue
        size = dims.of(body.args[places[0][0]])[places[0][1]]
        padding = Padding(dims, size, parts=parts, others=others)
        for i, axis in places:
            padding.axes.setdefault(body.args[i], {})[axis] = 0.0
        try:
            padding.block(body)
            result[name] = cut_axes(body, padding)
        except Mixes as mixes:
            owner, why = mixes.args
            result[name] = why.format(named(owner))
    return result


def follows_from(name: str, gears: Gears) -> str | None:
    """Why a dimension is not padded that others follow from: what is appended to a cache would lie
    behind the padding."""
    for other in gears.names:
        if other != name and name in symbols(other):
            return f"'{other}' follows from it, whose padding would lie inside"
        if other != name and other in symbols(name):
            return f"it follows from '{other}'"
    return None


def named(owner: object) -> str:
    """An op by its name, and where the model has it."""
    if not isinstance(owner, Operation):
        return "an input"
    location = location_of(owner)
    where = location.name or str(location)
    return f"{owner.name} ({where})" if where else owner.name


def is_torn(size: Size, padding: Padding) -> bool:
    """Whether a view has made a size that is no multiple of the padded one: rows of 16 out of those
    of 8, which only an even number of these fills."""
    made = (padding.dims.values[number].owner for number, _ in size.symbols)
    return size.over(padding.size) is None and any(isinstance(op, View) for op in made)


def cut_axes(body: Block, padding: Padding) -> list[tuple[int, int]]:
    last = body.last_op
    assert isinstance(last, ReturnOp)
    for value in last.operands:
        if value in padding.sizes or value in padding.folded:
            raise Mixes(value.owner)
        for axis in padding.along(value):
            if is_torn(padding.dims.of(value)[axis], padding):
                text = f"{{}} has no whole number of elements along axis {axis} for each that is"
                raise Mixes(value.owner, f"{text} padded")
    return [(i, axis) for i, v in enumerate(last.operands) for axis in padding.along(v)]
