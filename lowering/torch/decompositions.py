"""Calls of ops by other ops, where PyTorch's exporter translates them into something else and
PyTorch has no decomposition of its own that does better (see `faithful.py`)."""

from collections.abc import Callable, Mapping
from typing import Any

from ge.lowering.torch.library import torch


def first(source: Any, index: Any) -> Any:
    """As many elements as there are indices, along each axis."""
    return source[tuple(slice(0, size) for size in index.shape)]


def scatter_reduce(
    own: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True
) -> Any:
    source = first(source, index)
    if reduce != "mean":
        return own.scatter_reduce(dim, index, source, reduce, include_self=include_self)
    counts = torch.ones_like(own) if include_self else torch.zeros_like(own)
    counts = counts.scatter_add(dim, index, torch.ones_like(source))
    start = own if include_self else torch.where(counts > 0, torch.zeros_like(own), own)
    sums, counts = start.scatter_add(dim, index, source), counts.clamp(min=1)
    return sums / counts if own.dtype.is_floating_point else sums // counts


def softmax(own: Any, dim: int, dtype: Any) -> Any:
    return torch.softmax(own.to(dtype), dim)


def mean(own: Any, dim: Any, keepdim: bool = False, *, dtype: Any) -> Any:
    return own.to(dtype).mean(dim, keepdim)


def total(own: Any, dim: Any, keepdim: bool = False, *, dtype: Any) -> Any:
    return own.to(dtype).sum(dim, keepdim)


def log_softmax(own: Any, dim: int, dtype: Any) -> Any:
    return torch.log_softmax(own.to(dtype), dim)


def attention(query: Any, key: Any, value: Any, attn_mask: Any, *args: Any, **options: Any) -> Any:
    lowest = torch.finfo(query.dtype).min
    mask = torch.where(attn_mask, 0.0, lowest).to(query.dtype)
    whole = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, mask, *args, **options
    )
    return torch.where(attn_mask.any(-1, keepdim=True), whole, 0.0)


def remainder(own: Any, other: Any) -> Any:
    """Of floats, with the sign of `other`."""
    rest = torch.fmod(*promoted(own, other))
    return torch.where((rest != 0) & ((rest < 0) != (other < 0)), rest + other, rest)


def divided(own: Any, other: Any, *, rounding_mode: str = "floor") -> Any:
    """The floor of quotients, and of integers their whole part: exact, as by PyTorch (div_floor in
    c10/util/generic_math.h), where rounding the quotient first would be off by one."""
    a, b = promoted(own, other)
    if not a.dtype.is_floating_point:
        return (a - torch.fmod(a, b)) // b if rounding_mode == "trunc" else a // b
    quotient = (a - remainder(a, b)) / b
    return torch.where(b == 0, a / b, (quotient + 0.5).floor())


def sign(own: Any) -> Any:
    return (own > 0).to(own.dtype) - (own < 0).to(own.dtype)


def signbit(own: Any) -> Any:
    return (own < 0) | ((own == 0) & (1 / own < 0))


def shift_left(own: Any, by: Any) -> Any:
    """Of bytes without sign, by wider integers; as `shift_right`."""
    return torch.bitwise_left_shift(own.int(), by).to(own.dtype)


def shift_right(own: Any, by: Any) -> Any:
    return torch.bitwise_right_shift(own.int(), by).to(own.dtype)


def same(own: Any, *_: Any, **__: Any) -> Any:
    """Integers, rounded."""
    return own.clone()


def scatter(own: Any, dim: int, index: Any, source: Any) -> Any:
    return own.scatter(dim, index, first(source, index))


def scatter_add(own: Any, dim: int, index: Any, source: Any) -> Any:
    return own.scatter_add(dim, index, first(source, index))


def promoted(own: Any, other: Any) -> tuple[Any, Any]:
    """Two tensors of the type of the result."""
    kind = torch.result_type(own, other)
    return torch.as_tensor(own).to(kind), torch.as_tensor(other).to(kind)


LEFT_SHIFTS, RIGHT_SHIFTS = (
    [f"aten::bitwise_{side}_shift.{kind}" for kind in ("Tensor", "Tensor_Scalar")]
    + [f"aten::__{side[0]}shift__.Scalar"]
    for side in ("left", "right")
)

OWN: Mapping[str, Callable[..., Any]] = {
    **dict.fromkeys(("aten::div.Scalar_mode", "aten::div.Tensor_mode"), divided),
    **dict.fromkeys(("aten::floor_divide", "aten::floor_divide.Scalar"), divided),
    **dict.fromkeys(
        ("aten::remainder.Scalar", "aten::remainder.Scalar_Tensor", "aten::remainder.Tensor"),
        remainder,
    ),
    **dict.fromkeys([f"aten::{name}" for name in ("ceil", "floor", "round", "trunc")], same),
    **dict.fromkeys(LEFT_SHIFTS, shift_left),
    **dict.fromkeys(RIGHT_SHIFTS, shift_right),
    "aten::scatter.src": scatter,
    "aten::scatter_add": scatter_add,
    "aten::sign": sign,
    "aten::signbit": signbit,
    "aten::scaled_dot_product_attention": attention,
    "aten::log_softmax.int": log_softmax,
    "aten::mean.dim": mean,
    "aten::scatter_reduce.two": scatter_reduce,
    "aten::softmax.int": softmax,
    "aten::sum.dim_IntList": total,
    "aten::special_softmax": softmax,
}
