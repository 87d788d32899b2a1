"""What a sharding must be to hold for a value, whoever has stated it. Errors name the value, the
dimension, the axis and the way out.

Parts of what crosses the border of a program (inputs, outputs, weights) are of one size, unless
these are padded. A value inside is cut by the compiler, which masks what lies beyond its end."""

from collections.abc import Iterator, Mapping
from typing import cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.sharding import ShardOp, mesh_of, sharding_of, whole_shape
from ge.dialects.graph.stated import argument_attributes, input_name, name_of
from ge.dialects.support.diagnostics import error_at
from ge.dialects.support.editing import names_in
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.support.mesh import Axis, Mesh, Sharding
from ge.dialects.support.operation import all_ops
from ge.dialects.support.types import (
    DYNAMIC,
    AnyTensor,
    Shape,
    shape_of,
    shape_text,
    type_shape,
)
from ge.dialects.text.values import did_you_mean
from ge.transforms.sharding.rules import mesh_line


def check_sharding(name: str, sharding: Sharding, shape: Shape, mesh: Mesh, even: bool) -> None:
    """Raises GeError, without a place, for a sharding that does not hold for a value of this name
    and shape. `even`: parts are of one size, as those of what crosses the border of the program."""
    if len(sharding.dims) > len(shape):
        what = f"'{name}' has {len(shape)} dimensions ({shape_text(shape)})"
        raise GeError(f"{what}, and its sharding has {len(sharding.dims)}", hint="drop the last")
    for axis, place in _stated_axes(sharding):
        _check_axis(name, axis, place, mesh)
    _check_apart(name, sharding.resolved(mesh))
    for i, (own, size) in enumerate(zip(sharding.dims, shape, strict=False)):
        if (parts := mesh.parts(own)) > 1:
            _check_size(f"dimension {i} of '{name}'", own, size, parts, mesh, even)


def _stated_axes(sharding: Sharding) -> Iterator[tuple[Axis, str]]:
    for i, own in enumerate(sharding.dims):
        yield from ((axis, f"dimension {i}") for axis in own)
    yield from ((axis, "replicated") for axis in sorted(sharding.replicated))
    yield from ((axis, "unreduced") for axis in sharding.unreduced)


def _check_axis(name: str, axis: Axis, place: str, mesh: Mesh) -> None:
    if axis.name not in mesh.sizes:
        near = did_you_mean(axis.name, list(mesh.sizes))
        what = f"the mesh {mesh_line(mesh)} has no axis '{axis.name}'"
        raise GeError(f"{what}, which '{name}' states ({place}){near}")
    whole = mesh.sizes[axis.name]
    if axis.size and whole % (axis.pre * axis.size):
        what = f"'{name}' ({place}): ({axis.pre}){axis.size} is no part of axis '{axis.name}'"
        hint = f"the product of both numbers divides {whole}, as in {axis.name}:(1){_least(whole)}"
        raise GeError(f"{what} of {whole} devices", hint=hint)


def _least(number: int) -> int:
    return next((n for n in range(2, int(number**0.5) + 1) if number % n == 0), number)


def _check_apart(name: str, sharding: Sharding) -> None:
    """Raises GeError if an axis, or a part of one, stands twice in a sharding of known sizes."""
    seen: list[tuple[Axis, str]] = []
    for axis, place in _stated_axes(sharding):
        for other, first in seen:
            ends = axis.pre * axis.size, other.pre * other.size
            if axis.name == other.name and axis.pre < ends[1] and other.pre < ends[0]:
                where = place if place == first else f"{first} and {place}"
                what = f"'{name}' has axis '{axis.name}' twice: {where}"
                raise GeError(what, hint="an axis, or a part of one, cuts one dimension")
        seen.append((axis, place))


def _check_size(
    what: str, own: tuple[Axis, ...], size: int, parts: int, mesh: Mesh, even: bool
) -> None:
    axes = ", ".join(f"'{a.name}'" for a in own)
    if size == DYNAMIC:
        hint = "fix its size with --dim or --shape"
        raise GeError(f"{what} is cut along {axes}, and its size is not known", hint=hint)
    if not even or size % parts == 0:
        return
    number = f"{parts} devices"
    if len(own) > 1:
        number = f"{' x '.join(str(mesh.resolved(a).size) for a in own)} = {number}"
    part = -(-size // parts)
    full, rest = divmod(size, part)
    held = (full, part), (int(rest > 0), rest), (parts - full - (rest > 0), 0)
    told = ", ".join(f"{n} of {s}" for n, s in held if n)
    divisors = [str(n) for n in range(1, min(size, 64) + 1) if size % n == 0]
    raise GeError(
        f"{what} has {size} elements, and {axes} ({number}) would cut it into parts of unequal "
        f"size, {told}",
        hint=f"cut it over {' or '.join(divisors)} devices, or have it padded with --pad",
    )


# ---- the module ------------------------------------------------------------------------------


def check_shardings(module: ModuleOp, pad: bool = False) -> None:
    """Raises GeError for the first sharding that does not hold, at the place of its value, and for
    shardings without a mesh. With `pad` arguments, results and weights may have unequal parts."""
    mesh = mesh_of(module)
    main = main_function(module)
    if main is None:
        return
    results = main.res_attrs.data if main.res_attrs is not None else ()
    for i, arg in enumerate(main.args):
        table = argument_attributes(main, i)
        _check_port(main, input_name(main, i), table, arg.type, mesh, pad)
    for i, (table, type) in enumerate(zip(results, main.function_type.outputs, strict=False)):
        _check_port(main, name_of(table.data) or f"result{i}", table.data, type, mesh, pad)
    for op in all_ops(main.body.blocks):
        if isinstance(op, ShardOp):
            even = isinstance(op.input.owner, ConstantOp) and not pad
            _check_at(op, value_name(op.input), op.sharding.data, shape_of(op.input), mesh, even)


def _check_port(
    main: FuncOp,
    name: str,
    table: Mapping[str, Attribute],
    type: Attribute,
    mesh: Mesh | None,
    pad: bool,
) -> None:
    if (sharding := sharding_of(table)) is None:
        return
    shape = whole_shape(table, type_shape(cast(AnyTensor, type)))
    if len(sharding.dims) < len(shape):
        what = f"'{name}' has {len(shape)} dimensions ({shape_text(shape)})"
        hint = "write {} for a dimension that is not cut"
        raise error_at(main, f"{what}, and its sharding has {len(sharding.dims)}", hint)
    if sharding.unreduced:
        axes = ", ".join(f"'{a.name}'" for a in sharding.unreduced)
        what = (
            f"'{name}' is to be terms of a {sharding.kind} along {axes}, as only values inside are"
        )
        hint = "inputs and outputs are whole arrays or parts of them: drop unreduced"
        raise error_at(main, what, hint)
    _check_at(main, name, sharding, shape, mesh, not pad)


def _check_at(
    op: Operation, name: str, sharding: Sharding, shape: Shape, mesh: Mesh | None, even: bool
) -> None:
    if mesh is None:
        hint = 'write graph.mesh @mesh ["dp"=2, "tp"=4] before the functions, or give --mesh'
        raise error_at(op, f"'{name}' has a sharding, and the module no mesh", hint)
    try:
        check_sharding(name, sharding, shape, mesh, even)
    except GeError as e:
        raise error_at(op, e.message, e.hint) from None


def value_name(value: SSAValue) -> str:
    """Return the name of a value inside of the program in the model, or in the text."""
    op = value.owner
    if isinstance(op, Block):
        return value.name_hint or "an argument of a block"
    key = op.key if isinstance(op, ConstantOp) else None
    return key or value.name_hint or next(names_in(op.location), op.name)
