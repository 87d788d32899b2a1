"""1 x 1 convolutions before what enlarges their input: numbers stay, in every mode of a resize."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ge.dialects.graph.convolution import ConvOp
from ge.dialects.graph.image import ResizeOp
from ge.dialects.graph.slicing import ConcatOp
from ge.dialects.support.types import shape_of
from ge.lowering.driver.compiler import context, lower, lower_program
from ge.lowering.driver.program import Program
from ge.lowering.levels.level import Level
from ge.lowering.pipeline.options import Options
from ge.transforms.graph.split_pointwise_convs import SplitPointwiseConvsPass

sys.path.insert(0, str(Path(__file__).parent))
from writing import Expr, Tensor, run, written

RNG = np.random.default_rng(0)
WEIGHT = RNG.normal(size=(6, 16, 1, 1)).astype(np.float32)
BIAS = RNG.normal(size=6).astype(np.float32)
MODES: list[dict[str, Any]] = [
    {"mode": mode, "coordinates": coordinates}
    for mode in ("nearest", "linear", "cubic")
    for coordinates in ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")
]
MODES += [{"mode": "cubic", "exclude_outside": True}, {"mode": "linear", "antialias": True}]


def decoder(**mode: Any) -> ModuleOp:
    """Maps of three sizes, joined: enlarged by sizes, as they are, enlarged by scales."""

    def formula(x: Expr, y: Expr, z: Expr) -> Expr:
        sizes = {"sizes": (1, 6, 9, 12)}
        large = x.op(ResizeOp, x, None, None, None, **sizes, **mode)
        scaled = z.op(ResizeOp, z, None, None, None, scales=(1.0, 1.0, 4.5, 3.0), **mode)
        joined = x.op(ConcatOp, [large, y, scaled], axis=1)
        return x.op(ConvOp, joined, WEIGHT, BIAS)

    return written(formula, Tensor(1, 6, 4, 5), Tensor(1, 3, 9, 12), Tensor(1, 7, 2, 4))


def of_kind(module: ModuleOp, *kinds: type[Operation]) -> list[Any]:
    return [op for op in module.walk() if isinstance(op, kinds)]


@pytest.mark.parametrize("mode", MODES, ids=lambda m: "-".join(map(str, m.values())))
def test_numbers_stay(mode: dict[str, Any]) -> None:
    inputs = [
        RNG.normal(size=s).astype(np.float32) for s in ((1, 6, 4, 5), (1, 3, 9, 12), (1, 7, 2, 4))
    ]
    module = decoder(**mode)
    expected = run(module, *inputs)
    SplitPointwiseConvsPass().apply(context(), module)
    module.verify()
    assert not of_kind(module, ConcatOp)
    assert len(of_kind(module, ConvOp)) == 3
    np.testing.assert_allclose(run(module, *inputs), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("fusion", ["off", "conservative", "default"])
def test_only_where_sums_may_be_taken_in_another_order(fusion: str) -> None:
    lower(module := decoder(), Options(fusion=fusion), until=Level.GRAPH)
    sizes = {shape_of(op.input)[2:] for op in of_kind(module, ConvOp)}
    assert sizes == ({(9, 12), (4, 5), (2, 4)} if fusion == "default" else {(9, 12)})


@pytest.mark.parametrize("target", ["910_merged", "910b2", "310p3"])
def test_the_head_of_a_segmenter_stores_two_large_maps(target: str) -> None:
    """Fewer than the four that were put together: terms are added as soon as they are there."""
    channels, sizes = (16, 40, 64, 8), (8, 16, 32, 64)  # as in SegFormer: 256 channels, 128 x 128

    def formula(*maps: Expr) -> Expr:
        x = maps[-1]
        wide = [m.op(ConvOp, m, weight(64, c)) for m, c in zip(maps, channels, strict=True)]
        large = [m.op(ResizeOp, m, None, None, None, sizes=(1, 64, 64, 64), mode="linear")
                 for m in wide[:-1]]  # fmt: skip
        return x.op(ConvOp, x.op(ConcatOp, [*large, wide[-1]], axis=1), weight(64, 256))

    def weight(*shape: int) -> np.ndarray[Any, Any]:
        return RNG.normal(size=(*shape, 1, 1)).astype(np.float32)

    inputs = [Tensor(1, c, s, s) for c, s in zip(channels, sizes, strict=True)]
    peaks = dict[str, int]()
    for fusion in ("off", "default"):
        program = Program(written(formula, *inputs), {}, "head.mlir")
        lower_program(program, Options(fusion=fusion, target=target, tiles=False))
        peaks[fusion] = program.compilation.memory["peak_bytes"]
    large = 4 * 64 * 64 * 64
    assert peaks["off"] >= 8 * large
    assert peaks["default"] < 4 * large
