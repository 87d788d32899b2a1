"""Twelve models: the numbers of eager, the launches of the ONNX path, open sizes, short floats."""

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from models import CASES, Case, case, difference

import ge


def file_launches(case: Case, path: Path) -> int:
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            case.model, (), path, kwargs=dict(case.inputs), dynamo=True, verbose=False
        )
    return ge.compile(str(path)).compilation.ops["launches"]


@pytest.mark.parametrize("name", CASES)
def test_model(name: str, tmp_path: Path):
    c = case(name)
    with torch.inference_mode():
        want = c.model(**c.inputs)
        ahead = ge.torch.compile(c.model, c.inputs)
        assert difference(ahead(**c.inputs), want) < 1e-5
        jit = torch.compile(c.model, backend="ge")
        got = jit(**c.inputs)
        assert difference(got, want) < 1e-5
        assert type(got) is type(want)
    launches = ahead.program.compilation.ops["launches"]
    expected = file_launches(c, tmp_path / "model.onnx")
    assert abs(launches - expected) <= 0.03 * expected


def resized(value: torch.Tensor, dims: dict[int, str], sizes: dict[str, int]) -> torch.Tensor:
    """Elements of a tensor, repeated, in another size."""
    for axis, name in dims.items():
        value = value.index_select(axis, torch.arange(sizes[name]) % value.shape[axis])
    return value


@pytest.mark.parametrize("name", ["resnet18", "vit_tiny", "bert", "llama"])
def test_open_sizes(name: str):
    c = case(name)
    dims = {n: torch.export.Dim(n, min=1, max=20) for n in ("batch", "length")}
    shapes = {k: {a: dims[n] for a, n in of.items()} for k, of in c.dims.items()}
    with torch.no_grad():
        ahead = ge.torch.compile(c.model, c.inputs, dynamic_shapes=shapes)
        jit = torch.compile(c.model, backend="ge", dynamic=True)
        for sizes in ({"batch": 5, "length": 7}, {"batch": 3, "length": 16}):
            inputs = {k: resized(v, c.dims.get(k, {}), sizes) for k, v in c.inputs.items()}
            want = c.model(**inputs)
            assert difference(ahead(**inputs), want) < 1e-5
            assert difference(jit(**inputs), want) < 1e-5
    text = str(ahead.program.module)
    assert 'graph.dims = ["batch"' in text
    assert len(ahead.graph.loaded) == 1


# The eager kernels round after each op as ge does, but sum in other orders
TOLERANCE = {torch.bfloat16: 4e-2, torch.float16: 5e-3}


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("name", ["resnet18", "vit_tiny", "bert", "llama"])
def test_short_floats(name: str, dtype: torch.dtype):
    c = case(name)
    model = c.model.to(dtype)
    inputs = {k: v.to(dtype) if v.is_floating_point() else v for k, v in c.inputs.items()}
    with torch.no_grad():
        want: Any = model(**inputs)
        assert difference(torch.compile(model, backend="ge")(**inputs), want) < TOLERANCE[dtype]
        ahead = ge.torch.compile(model, inputs)
        assert difference(ahead(**inputs), want) < TOLERANCE[dtype]
    element = {torch.bfloat16: "bf16", torch.float16: "f16"}[dtype]
    assert f"x{element}>" in str(ahead.program.module)
