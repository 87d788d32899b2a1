"""What `dynamic_shapes` says of the inputs of a model."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from ge.lowering.torch.library import pytree, torch
from ge.lowering.torch.translate import input_values


def dim_names(
    exported: Any, signature: inspect.Signature, args: Any, kwargs: Any, dynamic_shapes: Any
) -> dict[str, str]:
    """The names that `dynamic_shapes` (as of torch.export.export) gives the symbols of an exported
    program, by symbol."""
    given = dict(specs(signature, args, kwargs, dynamic_shapes))
    leaves = pytree.tree_leaves((args, kwargs))
    names: dict[str, str] = {}
    for leaf, value in zip(leaves, input_values(exported), strict=True):
        for axis, dim in given.get(id(leaf), {}).items():
            size = value.shape[axis] if isinstance(value, torch.Tensor) else None
            name = getattr(dim, "__name__", "")
            if isinstance(size, torch.SymInt) and str(size).isidentifier() and name.isidentifier():
                names.setdefault(str(size), name)
    return names


def specs(
    signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any], shapes: Any
) -> Iterator[tuple[int, dict[int, Any]]]:
    """The dimensions by axis that are given for tensors, these by `id`."""
    if isinstance(shapes, Mapping):
        arguments = signature.bind(*args, **kwargs).arguments
        named = cast(Mapping[str, Any], shapes)
        for name, value in arguments.items():
            variadic = signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD
            inner = named if variadic and name not in named else named.get(name)
            yield from matched(value, inner)
    elif shapes is not None:
        yield from matched((*args, *kwargs.values()), shapes)


def matched(value: Any, spec: Any) -> Iterator[tuple[int, dict[int, Any]]]:
    if isinstance(value, torch.Tensor):
        yield id(value), by_axis(spec)
    elif isinstance(value, Mapping) and isinstance(spec, Mapping):
        inner = cast(Mapping[Any, Any], spec)
        for key, item in cast(Mapping[Any, Any], value).items():
            yield from matched(item, inner.get(key))
    elif isinstance(value, list | tuple) and isinstance(spec, list | tuple):
        items, inner = cast(Sequence[Any], value), cast(Sequence[Any], spec)
        for item, part in zip(items, inner, strict=False):
            yield from matched(item, part)


def by_axis(spec: Any) -> dict[int, Any]:
    items: Any = spec.items() if hasattr(spec, "items") else enumerate([] if spec is None else spec)
    return {axis: dim for axis, dim in items}
