"""Calls of ops that PyTorch's exporter translates into something else, without notice: an argument
is dropped, a result is made up. In their place stand PyTorch's own decompositions into other ops;
where it has none, the model is refused.

`test/torch/test_faithful.py` reads the source of the exporter's translations and fails where one
drops an argument that neither stands here nor has no effect."""

from collections.abc import Callable, Mapping
from typing import Any

from ge.dialects.support.errors import GeError
from ge.lowering.onnx.traces import user_line
from ge.lowering.torch.library import torch

Arguments = Mapping[str, Any]  # of a call, by name; those that are not given have their defaults


def is_given(name: str) -> Callable[[Arguments], bool]:
    return lambda arguments: bool(arguments.get(name))


def by_batch(arguments: Arguments) -> bool:
    """Whether a batch norm takes the statistics of its batch although it is given others. Without
    others the exporter computes them."""
    return bool(arguments["training"]) and arguments["running_mean"] is not None


def by_probabilities(arguments: Arguments) -> bool:
    """Whether the targets of a cross entropy are probabilities, not the numbers of classes."""
    return value_of(arguments["target"]).dtype.is_floating_point


def several_draws(arguments: Arguments) -> bool:
    return not arguments["replacement"] and arguments["num_samples"] != 1


def by_own_scale(axis: int, name: str) -> Callable[[Arguments], bool]:
    """Whether elements are taken by a scale that is not the ratio of the sizes of `axis` (counted
    from the end)."""

    def check(arguments: Arguments) -> bool:
        scale = arguments.get(name)
        if arguments["align_corners"] or scale is None:
            return False
        size, out = value_of(arguments["self"]).shape[axis], arguments["output_size"][axis]
        if isinstance(size, int) and isinstance(out, int):
            return size * scale != out
        return float(scale) != int(scale)

    return check


BATCH = {"training": by_batch}
LAST, BEFORE_LAST = by_own_scale(-1, "scales_w"), by_own_scale(-2, "scales_h")
PLANE = {"scales_h": BEFORE_LAST, "scales_w": LAST}

DROPPED: Mapping[str, Mapping[str, Callable[[Arguments], bool]]] = {
    "aten::_native_batch_norm_legit": BATCH,
    "aten::_native_batch_norm_legit_functional": BATCH,
    "aten::_upsample_bicubic2d_aa": PLANE,
    "aten::_upsample_bilinear2d_aa": PLANE,
    "aten::allclose": {"equal_nan": is_given("equal_nan")},
    "aten::avg_pool2d": {"divisor_override": is_given("divisor_override")},
    "aten::avg_pool3d": {"divisor_override": is_given("divisor_override")},
    "aten::cross_entropy_loss": {
        "label_smoothing": is_given("label_smoothing"),
        "target": by_probabilities,
    },
    "aten::multinomial": {"replacement": several_draws},
    "aten::native_batch_norm": BATCH,
    "aten::nll_loss_forward": {"total_weight": lambda _: True},  # a result, which is made up
    "aten::scatter_reduce.two": {"reduce": lambda a: a["reduce"] == "mean"},
    "aten::stft": {"align_to_window": is_given("align_to_window")},
    "aten::upsample_bicubic2d": PLANE,
    "aten::upsample_bilinear2d": PLANE,
    "aten::upsample_linear1d": {"scales": by_own_scale(-1, "scales")},
    "aten::upsample_trilinear3d": {"scales_d": by_own_scale(-3, "scales_d"), **PLANE},
}
"""Op -> argument -> whether the translation does not do what a call asks for by it."""


def scatter_mean(
    own: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True
) -> Any:
    """`scatter_reduce` by means; other reductions stay (NotImplemented)."""
    if reduce != "mean":
        return NotImplemented
    counts = torch.ones_like(own) if include_self else torch.zeros_like(own)
    counts = counts.scatter_add(dim, index, torch.ones_like(source))
    start = own if include_self else torch.where(counts > 0, torch.zeros_like(own), own)
    sums, counts = start.scatter_add(dim, index, source), counts.clamp(min=1)
    mode = None if own.dtype.is_floating_point else "floor"
    return torch.div(sums, counts, rounding_mode=mode)


OWN: Mapping[str, Callable[..., Any]] = {"aten::scatter_reduce.two": scatter_mean}


def value_of(value: Any) -> Any:
    """The tensor without elements that a node of a graph stands for."""
    return value.meta["val"] if isinstance(value, torch.fx.Node) else value


def arguments_of(node: Any) -> dict[str, Any]:
    schema = node.target._schema.arguments
    given = {a.name: v for a, v in zip(schema, node.args, strict=False)} | dict(node.kwargs)
    return {a.name: a.default_value for a in schema} | given


def dropped(node: Any) -> str:
    """The argument by which a call asks for what its translation does not do; empty if there is
    none."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return ""
    wrong = DROPPED.get(node.target.name(), {})
    arguments = arguments_of(node) if wrong else {}
    return next((name for name, is_wrong in wrong.items() if is_wrong(arguments)), "")


def replacements(exported: Any, table: Mapping[Any, Any]) -> dict[Any, Callable[..., Any]]:
    """Decompositions of the ops of an exported program that would be translated into something
    else, except those for which a user has a translation (`table`). Raises GeError where PyTorch
    has no decomposition."""
    found: dict[Any, Callable[..., Any]] = {}
    for node in exported.graph.nodes:
        if node.op == "call_function" and node.target not in table and (name := dropped(node)):
            decomposition = decomposition_of(node.target)
            if decomposition is None:
                op = str(node.target).removeprefix("torch.ops.")
                raise GeError(
                    f"PyTorch's exporter drops the argument '{name}' of {op}",
                    user_line(node.meta.get("stack_trace") or ""),
                    "write it by other ops, or give a translation (custom_translation_table)",
                )
            found[node.target] = decomposition
    return found


def decomposition_of(target: Any) -> Callable[..., Any] | None:
    """What computes an op by others: ours, else PyTorch's; None where there is nothing."""
    known = OWN.get(target.name()) or torch._decomp.decomposition_table.get(target)
    table = torch.export.default_decompositions()  # with those that are written in C++
    return known or (table[target] if target in table else None)
