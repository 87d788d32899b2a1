"""What PyTorch's exporter drops of an op: each argument is known, and the numbers are eager's."""

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from models import difference
from torch.onnx._internal.exporter import _registration

import ge
from ge.lowering.torch.decompositions import DROPPED

# Which change no number of an inference on this machine
WITHOUT_EFFECT = {
    *("layout", "device", "pin_memory", "non_blocking", "memory_format", "requires_grad"),  # where
    *("sparse_grad", "scale_grad_by_freq", "sparse", "padding_idx"),  # of gradients
    *("cudnn_enable", "cudnn_enabled", "path", "implicit", "return_debug_mask"),  # how
    *("C", "HxW", "output_size", "stride"),  # of shapes, which are known
    *("sorted", "stable", "return_inverse", "return_counts"),  # it is, they are
    "generator",  # random numbers are ge's
    "return_complex",  # always, for PyTorch has no other way any more
    "self", "dim",  # of `sym_storage_offset`, which is 0 for what is contiguous
}  # fmt: skip


def dropped_by(function: Callable[..., Any], schema: Any) -> set[str]:
    """The arguments that a translation does not read, overwrites by a constant, or does not
    take."""
    function = getattr(function, "function", None) or getattr(function, "func", None) or function
    source = textwrap.dedent(inspect.getsource(inspect.unwrap(function)))
    tree = next(n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef))
    names = [a.arg for a in (*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs)]
    inside = [n for statement in tree.body for n in ast.walk(statement)]
    read = {n.id for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    overwritten = {
        target.id
        for n in tree.body
        if isinstance(n, ast.Assign) and isinstance(n.value, ast.Constant)
        for target in n.targets
        if isinstance(target, ast.Name)
    }
    taken = {a.name for i, a in enumerate(schema.arguments) if i < len(names) and not a.kwarg_only}
    unknown = {a.name for a in schema.arguments} - taken - set(names)
    return {n for n in names if n not in read or n in overwritten} | unknown


def test_each_argument_that_is_dropped_is_known():
    """A new release of the exporter that drops another one fails here."""
    wrong: list[str] = []
    metas = _registration.ONNXRegistry.from_torchlib(20).functions.values()
    for meta in (m for by_op in metas for m in by_op):
        if isinstance(meta.fx_target, torch._ops.OpOverload):
            name = meta.fx_target.name()
            if name.startswith("onnx_symbolic::"):  # no op of PyTorch's
                continue
            known = WITHOUT_EFFECT | set(DROPPED.get(name, {}))
            lost = dropped_by(meta.onnx_function, meta.fx_target._schema) - known
            wrong += [f"{name} drops {argument}" for argument in lost]
    assert not wrong, "\n".join(sorted(wrong))


MAPS, ROWS = torch.randn(4, 8, 6, 6) * 3 + 1, torch.randn(6, 5)
CLASSES = torch.tensor([0, 4, -100, 2, 1, 3])
WEIGHTS = torch.tensor([0.5, 1.0, 2.0, 0.25, 1.5])
PLACES = torch.tensor([[0, 1, 0, 2, 1], [2, 2, 1, 0, 0]])
EIGHT = torch.linspace(-1, 1, 8)

CASES: dict[str, tuple[Callable[..., Any], torch.Tensor]] = {
    "batch norm by the batch": (
        lambda x: F.batch_norm(x, torch.zeros(8), torch.ones(8), training=True),
        MAPS,
    ),
    "batch norm by the batch, affine": (
        lambda x: F.batch_norm(
            x, torch.zeros(8), torch.ones(8), EIGHT, EIGHT, training=True, eps=0.1
        ),
        MAPS,
    ),
    "batch norm without statistics": (
        torch.nn.BatchNorm2d(8, track_running_stats=False),
        MAPS,
    ),
    "native batch norm": (
        lambda x: torch.native_batch_norm(
            x, EIGHT, EIGHT, torch.zeros(8), torch.ones(8), True, 0.1, 1e-5
        ),
        MAPS,
    ),
    "smoothed labels": (lambda x: F.cross_entropy(x, CLASSES, label_smoothing=0.1), ROWS),
    "smoothed labels, weighted": (
        lambda x: F.cross_entropy(x, CLASSES, WEIGHTS, label_smoothing=0.1, reduction="sum"),
        ROWS,
    ),
    "smoothed maps": (
        lambda x: F.cross_entropy(
            x, torch.ones(4, 6, 6, dtype=torch.int64), label_smoothing=0.2, reduction="none"
        ),
        MAPS,
    ),
    "probabilities": (lambda x: F.cross_entropy(x, x.sigmoid(), label_smoothing=0.3), ROWS),
    "total weight": (
        lambda x: torch.ops.aten.nll_loss_forward(x, CLASSES, WEIGHTS, 1, -100),
        ROWS,
    ),
    "means that are scattered": (
        lambda x: x[:3].scatter_reduce(0, PLACES, x[4:], "mean"),
        ROWS,
    ),
    "means of others alone": (
        lambda x: x[:3].scatter_reduce(0, PLACES, x[4:], "mean", include_self=False),
        ROWS,
    ),
    "means of integers": (
        lambda x: x[:3].long().scatter_reduce(0, PLACES, (x[4:] * 9).long(), "mean"),
        ROWS,
    ),
    **{
        f"{mode} x{factor}": (lambda x, m=mode, f=factor: F.interpolate(x, None, f, m), MAPS)
        for mode in ("bilinear", "bicubic", "nearest", "nearest-exact")
        for factor in (1.7, 0.6)
    },
    "linear x1.7": (lambda x: F.interpolate(x, None, 1.7, "linear"), MAPS[0]),
    "trilinear x1.7": (lambda x: F.interpolate(x, None, 1.7, "trilinear"), MAPS[None]),
    "antialias": (lambda x: F.interpolate(x, (3, 9), mode="bilinear", antialias=True), MAPS),
}

REFUSED: dict[str, tuple[Callable[..., Any], str]] = {
    "divisor_override": (
        lambda x: F.avg_pool2d(x, 2, divisor_override=3),
        "aten.avg_pool2d.default",
    ),
    "scales_h": (
        lambda x: F.interpolate(x, None, 0.6, "bilinear", antialias=True),
        "aten._upsample_bilinear2d_aa.default",
    ),
    "replacement": (lambda x: x.abs()[0, 0].multinomial(3), "aten.multinomial.default"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_the_exporter_drops_is_computed(name: str):
    function, x = CASES[name]
    with torch.no_grad():
        assert difference(ge.torch.compile(function, x)(x), function(x)) < 1e-4


class Calls(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


@pytest.mark.parametrize("name", REFUSED)
def test_what_nothing_else_computes_is_refused(name: str):
    function, op = REFUSED[name]
    with torch.no_grad(), pytest.raises(ge.GeError) as e:
        ge.torch.compile(Calls(function), MAPS)
    assert e.value.message == f"PyTorch's exporter drops the argument '{name}' of {op}"
    assert "test_faithful.py" in e.value.where


def test_a_translation_of_the_users_stays():
    from onnxscript import opset18

    table = {
        torch.ops.aten.avg_pool2d.default: lambda x, *_: opset18.Mul(
            opset18.AveragePool(x, kernel_shape=[2, 2], strides=[2, 2]),
            opset18.Constant(value_float=4 / 3),
        )
    }
    function = REFUSED["divisor_override"][0]
    with torch.no_grad():
        net = ge.torch.compile(function, MAPS, custom_translation_table=table)
        assert difference(net(MAPS), function(MAPS)) < 1e-5
