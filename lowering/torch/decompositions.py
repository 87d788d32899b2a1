"""Calls of ops by other ops, where PyTorch's exporter translates them into something else and
PyTorch has no decomposition of its own that does better (see `faithful.py`)."""

import math
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


def atan2(own: Any, other: Any) -> Any:
    """Of the signs of zeros and of infinities, too."""
    y, x = own.abs(), other.abs()
    angle = torch.where(y == x, math.pi / 4, torch.atan(y / x))  # as of two infinities
    angle = torch.where((y == 0) & (x == x), 0.0, angle)
    angle = torch.where(signbit(other), math.pi - angle, angle)
    return torch.where(signbit(own), -angle, angle)


def log_sigmoid(own: Any) -> Any:
    return own.clamp(max=0) - torch.log1p(torch.exp(-own.abs()))


def log_sum(base: float) -> Callable[..., Any]:
    """The logarithm of the sum of two powers of `base`, whatever the exponents are."""

    def call(own: Any, other: Any) -> Any:
        less = torch.exp(-(own - other).abs() * math.log(base))
        less = torch.where(own == other, 1.0, less)  # of two infinities, too
        return torch.maximum(own, other) + torch.log1p(less) / math.log(base)

    return call


def hypot(own: Any, other: Any) -> Any:
    """Without squares of large numbers."""
    a, b = own.abs(), other.abs()
    most = torch.maximum(a, b)
    length = most * torch.sqrt((torch.minimum(a, b) / most).square() + 1)
    length = torch.where(most == 0, most, length)
    return torch.where((a == math.inf) | (b == math.inf), math.inf, length)


def xlogy(own: Any, other: Any) -> Any:
    product = own * torch.log(other)
    return torch.where((other == other) & (own == 0), 0.0, product)


def never(own: Any) -> Any:
    """Whether integers are what only floats may be."""
    return torch.zeros_like(own, dtype=torch.bool)


def always(own: Any) -> Any:
    return torch.ones_like(own, dtype=torch.bool)


def summed(product: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """A product times `alpha`, and a tensor times `beta`. What is times 0 is left out, even where
    it is no number."""

    def call(own: Any, left: Any, right: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
        result = product(left, right)
        result = result * alpha if alpha else torch.zeros_like(result)
        return result + own * beta if beta else result

    return call


def scan(combine: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Of each element and those before it what `combine` makes, in as many steps as the logarithm
    of their number (Hillis and Steele, "Data parallel algorithms", 1986)."""

    def call(own: Any, dim: int, *, dtype: Any = None) -> Any:
        whole = None if own.dtype.is_floating_point else torch.int64
        result, step = own.to(dtype or whole or own.dtype, copy=True), 1
        size = own.shape[dim] if own.dim() else 1
        while step < size:
            rest = size - step
            after = combine(result.narrow(dim, step, rest), result.narrow(dim, 0, rest))
            result = torch.cat([result.narrow(dim, 0, step), after], dim)
            step *= 2
        return result

    return call


def least(own: Any, dim: Any = (), keepdim: bool = False) -> Any:
    return own.amin(tuple(range(own.dim())), keepdim) if own.dim() else own.clone()


def largest(own: Any, dim: Any = (), keepdim: bool = False) -> Any:
    return own.amax(tuple(range(own.dim())), keepdim) if own.dim() else own.clone()


def both(own: Any, *, dim: Any = None, keepdim: bool = False) -> tuple[Any, Any]:
    return least(own, keepdim=keepdim), largest(own, keepdim=keepdim)


def place_of(name: str) -> Callable[..., Any]:
    """The place of the extreme of all elements, as a tensor of their rank."""

    def call(own: Any, dim: Any, keepdim: bool) -> Any:
        return getattr(own.reshape(-1), name)(0).reshape([1] * own.dim())

    return call


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
    **dict.fromkeys(("aten::isinf", "aten::isnan"), never),
    "aten::isfinite": always,
    "aten::addbmm": summed(lambda left, right: torch.bmm(left, right).sum(0)),
    "aten::addmm": summed(torch.mm),
    "aten::addmv": summed(torch.mv),
    "aten::amax": largest,
    "aten::amin": least,
    "aten::aminmax": both,
    "aten::argmax": place_of("argmax"),
    "aten::argmin": place_of("argmin"),
    "aten::atan2": atan2,
    **dict.fromkeys(("aten::xlogy.Scalar_Self", "aten::xlogy.Tensor"), xlogy),
    "aten::baddbmm": summed(torch.bmm),
    "aten::cumprod": scan(torch.mul),
    "aten::hypot": hypot,
    "aten::log_sigmoid": log_sigmoid,
    "aten::logaddexp": log_sum(math.e),
    "aten::logaddexp2": log_sum(2),
    "aten::logcumsumexp": scan(torch.logaddexp),
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
