"""ONNX's backend tests through the whole pipeline, down to the program. What is not supported is
listed in `unsupported.py`; a listed test that passes is an error, so that the list gets shorter."""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference.ops import op_pool_common

from ge.dialects.support.errors import GeError
from ge.lowering.driver.compiler import context
from ge.lowering.onnx.export.exporter import model_and_weights
from ge.lowering.onnx.importer import import_model
from ge.lowering.pipeline.options import Options
from ge.lowering.pipeline.pass_manager import PassManager
from ge.lowering.pipeline.stages import to_quantized
from ge.runtime.data.weights import weights_at_hand

sys.path.insert(0, str(Path(__file__).parent))
from suite import KINDS, cases, pool, run
from unsupported import ON_TILES, UNSUPPORTED


def reason(name: str, listed: Mapping[str, list[str]] = UNSUPPORTED) -> str | None:
    found = (why for why, patterns in listed.items() for p in patterns if re.fullmatch(p, name))
    return next(found, None)


SMALLEST = {"light": 8}
"""The number of the smallest model of a kind: SqueezeNet."""


def check_kind(
    kind: str,
    every: int,
    listed: Mapping[str, list[str]] = UNSUPPORTED,
    first: int = 0,
    tiles: str = "",
) -> None:
    """Tests of a kind, each or every so many: those not listed pass, those listed fail."""
    check(kind, islice(cases(kind), first, None, every), listed, tiles)


def check(
    kind: str, chosen: Iterable[tuple[str, Any]], listed: Mapping[str, list[str]], tiles: str = ""
) -> None:
    wrong: list[str] = []
    passed = total = 0
    for name, case in chosen:
        total += 1
        why = reason(name, listed)
        try:
            run(case, tiles)
            passed += 1
            if why is not None:
                wrong.append(f"{name} passes but is listed: {why}")
        except Exception as e:
            if why is None:
                wrong.append(f"{name}: {type(e).__name__}: {str(e).strip()[:200]}")
    print(f"{kind}: {passed} of {total} pass")
    assert total
    assert not wrong, "\n".join(wrong)


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_kind(kind: str):
    check_kind(kind, every=1)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "node"])
def test_some_of_a_kind(kind: str):
    check_kind(kind, every=127, first=SMALLEST.get(kind, 0))


def one_of_each_op() -> Iterator[tuple[str, Any]]:
    """The first test of nodes that are seen for the first time."""
    seen = set[str]()
    for name, case in cases("node"):
        ops = {node.op_type for node in case.model.graph.node}
        if not ops <= seen:
            yield name, case
        seen |= ops


def test_a_node_of_each_op():
    check("node", one_of_each_op(), UNSUPPORTED)


def check_on_tiles(kind: str, every: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GE_TARGET", "910b2")
    check_kind(kind, every, {**UNSUPPORTED, **ON_TILES}, tiles="all")


@pytest.mark.soak
@pytest.mark.parametrize("kind", [k for k in KINDS if k != "light"])  # test_tiles_of_models
def test_kind_on_tiles(kind: str, monkeypatch: pytest.MonkeyPatch):
    check_on_tiles(kind, 1, monkeypatch)


def test_some_nodes_on_tiles(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GE_TILE_CACHE", "off")  # no two have the same program; text is not read
    check_on_tiles("node", 211, monkeypatch)


def exported(model: onnx.ModelProto) -> onnx.ModelProto:
    imported = import_model(model)
    with weights_at_hand(imported.payload):
        PassManager(to_quantized(Options())).run(context(), imported.module)
    return model_and_weights(imported.module, imported.payload, "main")[0]


@pytest.mark.soak
def test_nodes_are_exported():
    """What is written as ONNX again passes, or the exporter says that it cannot write it."""
    wrong: list[str] = []
    passed = 0
    for name, case in cases("node"):
        if reason(name) is not None:
            continue
        try:
            run(replace(case, model=exported(case.model)))
            passed += 1
        except Exception as e:
            if not (isinstance(e, GeError) and "be written as ONNX" in str(e)):
                wrong.append(f"{name}: {type(e).__name__}: {str(e).strip()[:200]}")
    assert not wrong, "\n".join(wrong)
    assert passed >= 1500


@pytest.mark.parametrize("kind", ["AVG", "MAX", "LPPOOL"])
@pytest.mark.parametrize("include", [0, 1])
@pytest.mark.parametrize(
    ("sizes", "kernel", "strides", "pads", "dilations"),
    [
        ((7,), [3], [2], [0, 0], [1]),
        ((5, 6), [2, 3], [1, 2], [1, 0, 0, 2], [1, 1]),
        ((7, 8), [3, 2], [2, 1], [1, 1, 1, 1], [2, 3]),
        ((4, 5, 3), [2, 2, 2], [1, 2, 1], [0, 1, 1, 0, 0, 1], [1, 2, 1]),
    ],
)
def test_the_reference_of_pooling(
    kind: str,
    include: int,
    sizes: tuple[int, ...],
    kernel: list[int],
    strides: list[int],
    pads: list[int],
    dilations: list[int],
):
    """It gives what ONNX's own gives, which loops over all pixels."""
    rank = len(sizes)
    x = np.random.default_rng(0).standard_normal((2, 3, *sizes)).astype(np.float32)
    widths = [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)]
    filled = 0.0 if include and kind != "MAX" else np.nan
    padded = np.pad(x, widths, constant_values=filled)
    extents = [1 + (k - 1) * d for k, d in zip(kernel, dilations, strict=True)]
    out = [
        (n + sum(w) - e) // s + 1
        for n, w, e, s in zip(sizes, widths[2:], extents, strides, strict=True)
    ]
    given = (padded, x.shape, kernel, strides, out, kind, pads, pads, dilations, include, 2)
    np.testing.assert_allclose(pool(*given), op_pool_common.pool(*given), rtol=1e-5)
