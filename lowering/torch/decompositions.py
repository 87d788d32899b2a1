"""Calls of ops by other ops, where PyTorch's exporter translates them into something else without
notice: an argument is dropped, a result is made up. In their place stand PyTorch's own
decompositions into other ops, or one from here where PyTorch has none that does better; where
there is none, the model is refused.

`test/torch/test_faithful.py` reads the source of the exporter's translations and fails where one
drops an argument that neither stands here nor has no effect."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ge.dialects.support.errors import GeError
from ge.lowering.onnx.model import user_line
from ge.lowering.torch.library import torch


def first(source: Any, index: Any) -> Any:
    """Return as many elements as there are indices, along each axis."""
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
    """Return the remainder of floats, with the sign of `other`."""
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
    """Return the angle, right for the signs of zeros and of infinities, too."""
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
    """Return false for each element: integers never are what only floats may be."""
    return torch.zeros_like(own, dtype=torch.bool)


def always(own: Any) -> Any:
    return torch.ones_like(own, dtype=torch.bool)


def summed(product: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """A product times `alpha`, and a tensor times `beta`. A term times 0 is left out, even if it is
    nan."""

    def call(own: Any, left: Any, right: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
        result = product(left, right)
        result = result * alpha if alpha else torch.zeros_like(result)
        return result + own * beta if beta else result

    return call


def scan(combine: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Return what `combine` makes of each element and those before it, in as many steps as the
    logarithm of their number (Hillis and Steele, "Data parallel algorithms", 1986)."""

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
    """Shift bytes without sign, by wider integers; as `shift_right`."""
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


Arguments = Mapping[str, Any]  # of a call, by name; those that are not given have their defaults

Wrong = Mapping[str, Callable[[Arguments], bool]]  # by which argument a translation is wrong, when


def is_given(name: str) -> Callable[[Arguments], bool]:
    return lambda arguments: bool(arguments.get(name))


def by_batch(arguments: Arguments) -> bool:
    """Return whether a batch norm takes the statistics of its batch although it is given others.
    Without others the exporter computes them."""
    return bool(arguments["training"]) and arguments["running_mean"] is not None


def by_probabilities(arguments: Arguments) -> bool:
    """Return whether the targets of a cross entropy are probabilities, not the numbers of
    classes."""
    return value_of(arguments["target"]).dtype.is_floating_point


def by_fraction(arguments: Arguments) -> bool:
    """Return whether corners are aligned where sizes times scales are no whole numbers, which
    PyTorch rounds down before."""
    scales = arguments["scale_factors"]
    if not arguments["align_corners"] or scales is None:
        return False
    sizes = value_of(arguments["input"]).shape[2:]
    return any(n * s != int(n * s) for n, s in zip(sizes, scales, strict=True))


def in_dtype(arguments: Arguments) -> bool:
    """Return whether a result is of another type than the input, which PyTorch converts first."""
    return arguments["dtype"] not in (None, value_of(arguments["self"]).dtype)


def by_bools(arguments: Arguments) -> bool:
    """Return whether an attention has a mask of what is seen. Rows that see nothing are 0; the
    translation makes them averages."""
    mask = arguments["attn_mask"]
    return mask is not None and value_of(mask).dtype == torch.bool


def has_floats(arguments: Arguments) -> bool:
    """Return whether one of two numbers is a float, whose quotient the translation rounds before it
    takes the floor."""
    values = [value_of(arguments[name]) for name in ("self", "other")]
    return any(
        v.dtype.is_floating_point if isinstance(v, torch.Tensor) else isinstance(v, float)
        for v in values
    )


def rounds_first(arguments: Arguments) -> bool:
    """Return whether the whole part of a quotient is that of a rounded one: of floats; and of
    integers, which the translation divides as f32."""
    return arguments["rounding_mode"] == "floor" or not has_floats(arguments)


def is_number(arguments: Arguments) -> bool:
    return not isinstance(value_of(arguments["self"]), torch.Tensor)


def is_whole(arguments: Arguments) -> bool:
    return not value_of(arguments["self"]).dtype.is_floating_point


def is_float(arguments: Arguments) -> bool:
    return not is_whole(arguments)


def is_unsigned(arguments: Arguments) -> bool:
    return value_of(arguments["self"]).dtype == torch.uint8


def from_larger(arguments: Arguments) -> bool:
    """Return whether elements that are scattered are the first along each axis of more."""
    return value_of(arguments["src"]).shape != value_of(arguments["index"]).shape


def of_rank(rank: int) -> Callable[[Arguments], bool]:
    """Return a test whether the input has `rank` dimensions, one less than the translation
    takes."""
    return lambda arguments: value_of(arguments["self"]).dim() == rank


def of_all(arguments: Arguments) -> bool:
    """Return whether a reduction is over all axes because none is named."""
    return arguments["dim"] in (None, [], ())


def at_all(arguments: Arguments) -> bool:
    return of_all(arguments) and bool(arguments["keepdim"])


def is_zero(name: str) -> Callable[[Arguments], bool]:
    """Return a test whether a factor leaves out what it multiplies, which may be no number."""
    return lambda arguments: arguments[name] == 0


def size_is_known(arguments: Arguments) -> bool:
    own = value_of(arguments["self"])
    return not own.dim() or isinstance(own.shape[arguments["dim"]], int)


def several_draws(arguments: Arguments) -> bool:
    return not arguments["replacement"] and arguments["num_samples"] != 1


def by_own_scale(axis: int, name: str) -> Callable[[Arguments], bool]:
    """Return a test whether elements are taken by a scale that is not the ratio of the sizes of
    `axis` (counted from the end)."""

    def check(arguments: Arguments) -> bool:
        scale = arguments.get(name)
        if arguments["align_corners"] or scale is None:
            return False
        size, out = value_of(arguments["self"]).shape[axis], arguments["output_size"][axis]
        if isinstance(size, int) and isinstance(out, int):
            return size * scale != out
        return float(scale) != int(scale)

    return check


ALWAYS: Wrong = {"self": lambda _: True}

BATCH: Wrong = {"training": by_batch}

LAST, BEFORE_LAST = by_own_scale(-1, "scales_w"), by_own_scale(-2, "scales_h")

PLANE: Wrong = {"scales_h": BEFORE_LAST, "scales_w": LAST}

SMOOTHED: Wrong = {**PLANE, "align_corners": is_given("align_corners")}

FRACTION: Wrong = {"scale_factors": by_fraction}

DTYPE: Wrong = {"dtype": in_dtype}

FLOATS: Wrong = {"other": has_floats}

ROUNDED: Wrong = {"rounding_mode": rounds_first}

WHOLE: Wrong = {"self": is_whole}

SHIFT: Wrong = {"self": is_unsigned}

LARGER: Wrong = {"src": from_larger}

NO_AXES: Wrong = {"dim": of_all}

BETA: Wrong = {"beta": is_zero("beta")}

SCALED: Wrong = {**BETA, "alpha": is_zero("alpha")}

DROPPED: Mapping[str, Wrong] = {
    "aten::_native_batch_norm_legit": BATCH,
    "aten::_native_batch_norm_legit_functional": BATCH,
    "aten::_upsample_bicubic2d_aa": SMOOTHED,
    "aten::_upsample_bilinear2d_aa": SMOOTHED,
    **dict.fromkeys((*LEFT_SHIFTS, *RIGHT_SHIFTS), SHIFT),
    "aten::addbmm": SCALED,
    "aten::addmm": SCALED,
    "aten::addmv": SCALED,
    "aten::allclose": {"equal_nan": is_given("equal_nan")},
    "aten::amax": NO_AXES,
    "aten::amin": NO_AXES,
    "aten::aminmax": NO_AXES,
    "aten::argmax": {"keepdim": at_all},
    "aten::argmin": {"keepdim": at_all},
    "aten::as_strided": {"self": lambda a: not value_of(a["self"]).is_contiguous()},
    "aten::atan2": ALWAYS,  # of zeros with signs, infinities, no numbers: 0
    "aten::avg_pool2d": {"divisor_override": is_given("divisor_override")},
    "aten::avg_pool3d": {"divisor_override": is_given("divisor_override")},
    "aten::baddbmm": BETA,
    "aten::ceil": WHOLE,
    "aten::conv3d": {"bias": lambda a: a["bias"] is None},
    "aten::cross_entropy_loss": {
        "self": of_rank(1),
        "label_smoothing": is_given("label_smoothing"),
        "target": by_probabilities,
    },
    "aten::cumprod": {"self": size_is_known},  # else PyTorch's, by an op without translation
    "aten::elu": {"input_scale": lambda a: a["input_scale"] != 1},
    "aten::floor": WHOLE,
    "aten::floor_divide": {"self": is_number, **FLOATS},
    "aten::floor_divide.Scalar": FLOATS,
    "aten::div.Scalar_mode": ROUNDED,
    "aten::div.Tensor_mode": ROUNDED,
    "aten::hypot": ALWAYS,  # no translation
    "aten::im2col": {"self": of_rank(3)},
    "aten::isfinite": WHOLE,
    "aten::isinf": WHOLE,
    "aten::isnan": WHOLE,
    "aten::log_sigmoid": ALWAYS,  # minus infinity of what is small
    "aten::log_softmax.int": DTYPE,
    "aten::logaddexp": ALWAYS,  # infinity of what is large
    "aten::logaddexp2": ALWAYS,
    "aten::logcumsumexp": {"self": size_is_known},  # minus infinity of what is far below others
    "aten::mean.dim": DTYPE,
    "aten::multinomial": {"replacement": several_draws},
    "aten::native_batch_norm": BATCH,
    "aten::nll_loss_forward": {"total_weight": lambda _: True},  # a result, which is made up
    "aten::remainder.Scalar": FLOATS,
    "aten::remainder.Scalar_Tensor": FLOATS,
    "aten::remainder.Tensor": FLOATS,
    "aten::round": WHOLE,
    "aten::scaled_dot_product_attention": {"attn_mask": by_bools},
    "aten::scatter.src": LARGER,
    "aten::scatter_add": LARGER,
    "aten::scatter_reduce.two": {"reduce": lambda a: a["reduce"] == "mean", **LARGER},
    "aten::sign": {"self": is_float},  # of nan: 0
    "aten::signbit": {"self": is_float},  # of -0: True
    "aten::softmax.int": DTYPE,
    "aten::special_softmax": DTYPE,
    "aten::sum.dim_IntList": DTYPE,
    "aten::trunc": WHOLE,
    "aten::stft": {"align_to_window": is_given("align_to_window")},
    "aten::upsample_bicubic2d": PLANE,
    "aten::upsample_bicubic2d.vec": FRACTION,
    "aten::upsample_bilinear2d": PLANE,
    "aten::upsample_bilinear2d.vec": FRACTION,
    "aten::upsample_linear1d": {"scales": by_own_scale(-1, "scales")},
    "aten::upsample_trilinear3d": {"scales_d": by_own_scale(-3, "scales_d"), **PLANE},
    "aten::upsample_trilinear3d.vec": FRACTION,
    "aten::xlogy.Scalar_Self": ALWAYS,  # of 0 and no number: 0
    "aten::xlogy.Tensor": ALWAYS,
}
"""Op -> argument -> whether the translation does not do what a call asks for by it."""


MADE_UP: Mapping[str, int] = {"aten::_native_batch_norm_legit_no_training": 1}
"""Op -> how many of its results a translation computes; the others it makes up."""


def refuse_made_up(node: Any) -> None:
    """Raises GeError where a graph uses a result that a translation makes up."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return
    right = MADE_UP.get(node.target.name())
    if right is not None and any(u.args[1] >= right for u in node.users if u.users):
        op = str(node.target).removeprefix("torch.ops.")
        raise GeError(
            f"PyTorch's exporter makes up the results of {op} after the first {right}",
            user_line(node.meta.get("stack_trace") or ""),
            "they are empty, leave them out, or give a translation (custom_translation_table)",
        )


def value_of(value: Any) -> Any:
    """The tensor without elements that a node of a graph stands for."""
    return value.meta["val"] if isinstance(value, torch.fx.Node) else value


def dropped(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """The argument by which a call asks for what its translation does not do; empty if there is
    none."""
    if not isinstance(target, torch._ops.OpOverload) or target.name() not in DROPPED:
        return ""
    schema = target._schema.arguments
    arguments: dict[str, Any] = {a.name: a.default_value for a in schema}
    arguments |= {a.name: v for a, v in zip(schema, args, strict=False)} | dict(kwargs)
    return next(
        (name for name, is_wrong in DROPPED[target.name()].items() if is_wrong(arguments)), ""
    )


def replacements(exported: Any, table: Mapping[Any, Any]) -> dict[Any, Callable[..., Any]]:
    """Decompositions of the ops of an exported program that would be translated into something
    else, except those for which a user has a translation (`table`). Raises GeError where PyTorch
    has no decomposition."""
    found: dict[Any, Callable[..., Any]] = {}
    for node in exported.graph.nodes:
        if node.op != "call_function" or node.target in table:
            continue
        refuse_made_up(node)
        if name := dropped(node.target, node.args, node.kwargs):
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
    """Return a function that computes the calls of an op that the exporter gets wrong by other ops:
    ours, else PyTorch's; None if there is none."""
    table = torch.export.default_decompositions()  # with those that are written in C++
    places = (OWN, target.name()), (torch._decomp.decomposition_table, target), (table, target)
    made: Any = next((place[key] for place, key in places if key in place), None)
    if made is None:
        return None

    def decomposed(*args: Any, **kwargs: Any) -> Any:
        return made(*args, **kwargs) if dropped(target, args, kwargs) else NotImplemented

    return decomposed
