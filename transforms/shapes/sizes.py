"""The shapes of a program's inputs, from sizes of named dimensions."""

from collections.abc import Mapping, Sequence

from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from ge.dialects.graph.ports import dim_ranges, dim_relations, dims_of, name_of
from ge.dialects.npu_task.attributes import data_type
from ge.dialects.support.dims import size_of, symbols, with_related
from ge.dialects.support.errors import GeError
from ge.dialects.support.types import DYNAMIC, Shape, shape_text


def named_dims(main: FuncOp) -> dict[str, list[tuple[str, int]]]:
    """Each name of an unknown dimension of an input -> the inputs and axes that have it; one
    without a name is called `x[0]`, after the input and the axis."""
    places: dict[str, list[tuple[str, int]]] = {}
    for name, shape, dims in inputs_of(main):
        for axis, (size, dim) in enumerate(zip(shape, dims, strict=True)):
            if size == DYNAMIC:
                places.setdefault(dim, []).append((name, axis))
    return places


def inputs_of(main: FuncOp) -> list[tuple[str, Shape, tuple[str, ...]]]:
    """Name, shape, and the names of the dimensions, of each input."""
    attributes = main.arg_attrs.data if main.arg_attrs is not None else ()
    result: list[tuple[str, Shape, tuple[str, ...]]] = []
    for i, t in enumerate(main.function_type.inputs.data):
        table: Mapping[str, Attribute] = attributes[i].data if attributes else {}
        name, (_, shape) = name_of(table) or f"arg{i}", data_type(t)
        dims = dims_of(table, len(shape))
        result.append((name, shape, tuple(d or f"{name}[{a}]" for a, d in enumerate(dims))))
    return result


def argument_shapes(
    main: FuncOp, dims: Mapping[str, int], shapes: Mapping[str, Sequence[int]] | None = None
) -> list[Shape]:
    """The shapes of the inputs where `dims` have these sizes, and the inputs in `shapes` these
    shapes (-1 for what is not known). Raises GeError for a size that is missing, of nothing, out of
    its range, or contradicts another."""
    inputs, sizes = inputs_of(main), dict(dims)
    for name, shape in (shapes or {}).items():
        take_shape(name, shape, inputs, sizes)
    names, relations = list(named_dims(main)), dim_relations(main)
    known = {s for n in names for s in (n, *symbols(n))} | relations.keys()
    if unknown := [n for n in sizes if n not in known]:
        listing = ", ".join(f"'{n}'" for n in names) or "none: all sizes are fixed"
        raise GeError(f"there is no dimension '{unknown[0]}'", hint=f"the program has {listing}")
    sizes = with_related(sizes, relations)
    for name in names:
        if (computed := size_of(name, {n: s for n, s in sizes.items() if n != name})) is not None:
            if sizes.setdefault(name, computed) != computed:
                raise GeError(f"dimension '{name}' is {sizes[name]}, but others make it {computed}")
    missing = [n for n in names if n not in sizes]
    if missing:
        needed = dict.fromkeys(s for n in missing for s in symbols(n) if s not in sizes)
        listing = ", ".join(f"'{n}'" for n in needed)
        hint = " ".join(f"--dim '{n}=8'" if " " in n else f"--dim {n}=8" for n in needed)
        raise GeError(f"the sizes of {listing} are not known", hint=f"give them, as in {hint}")
    for name, sizes_allowed in dim_ranges(main).items():
        if (size := size_of(name, sizes)) is not None and size not in sizes_allowed:
            raise GeError(f"dimension '{name}' is {size}, out of its range {sizes_allowed}")
    if negative := [n for n in names if sizes[n] < 0]:
        raise GeError(f"dimension '{negative[0]}' is {sizes[negative[0]]}")
    return [
        tuple(sizes[n] if d == DYNAMIC else d for d, n in zip(shape, dims, strict=True))
        for _, shape, dims in inputs
    ]


def take_shape(
    name: str,
    shape: Sequence[int],
    inputs: Sequence[tuple[str, Shape, tuple[str, ...]]],
    sizes: dict[str, int],
) -> None:
    """Note the sizes of the dimensions of an input of this shape."""
    found = [(declared, dims) for n, declared, dims in inputs if n == name]
    if not found:
        listing = ", ".join(f"'{n}'" for n, _, _ in inputs) or "none"
        raise GeError(f"there is no input '{name}'", hint=f"the program has {listing}")
    ((declared, dims),) = found
    fits = len(shape) == len(declared)
    if not fits or any(
        d not in (DYNAMIC, s) and s >= 0 for d, s in zip(declared, shape, strict=True)
    ):
        raise GeError(f"input '{name}' is {shape_text(declared)}, not {shape_text(shape)}")
    for size, declared_size, dim in zip(shape, declared, dims, strict=True):
        if size >= 0 and declared_size == DYNAMIC and sizes.setdefault(dim, size) != size:
            text = f"dimension '{dim}' is {sizes[dim]}, and {size} in the shape of input '{name}'"
            raise GeError(text)
