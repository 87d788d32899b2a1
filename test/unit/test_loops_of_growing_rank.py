"""Loops whose values gain or lose dimensions from round to round are written out where it is known
how often they run, and say so where it is not."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import ge

HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'

WHILE = """w (float[N, 3] x) => (float[] y) <bool t = {1}, int64 zero = {0}> {
  i, y = Loop ("", t, zero, x) <body: graph = body (int64 r, bool c, int64 k, float[] v)
      => (bool co, int64 ko, float[] vo) <int64[1] ax = {0}, int64 one = {1}, int64 most = {3}> {
    ko = Add (k, one)
    co = Less (ko, most)
    vo = Unsqueeze (v, ax)
  }>
}"""

LOOP = """w (float[2, N] x) => (float[] y, float[] sums) <int64 n = {2}> {
  y, sums = Loop (n, "", x) <body: graph = body (int64 r, bool c, float[] v)
      => (bool co, float[] vo, float so) <int64[1] ax = {0}> {
    co = Identity (c)
    so = ReduceSum <keepdims = 0> (v)
    vo = Unsqueeze (v, ax)
  }>
}"""

FLATTENED = LOOP.replace("Unsqueeze (v, ax)", "Flatten (v)").replace("[2, N]", "[2, N, 2, 2]")


def saved(text: str, folder: Path) -> str:
    onnx.save(onnx.parser.parse_model(HEAD + text), folder / "m.onnx")
    return str(folder / "m.onnx")


@pytest.mark.parametrize(
    ("text", "shape"), [(WHILE, (2, 3)), (LOOP, (2, 3)), (FLATTENED, (2, 3, 2, 2))]
)
def test_rounds_that_are_known_are_written_out(
    text: str, shape: tuple[int, ...], tmp_path: Path
) -> None:
    """With open sizes; numbers of onnxruntime."""
    path = saved(text, tmp_path)
    x = np.random.default_rng(0).standard_normal(shape, np.float32)
    got = ge.compile(path).session().run({"x": x})
    want = onnxruntime.InferenceSession(path).run(None, {"x": x})
    for a, b in zip(got.values(), want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (WHILE.replace("Less (ko, most)", "Cast <to = 9> (k2)").replace(
            "ko = Add", "k2 = ReduceMax <keepdims = 0> (v)\n ko = Add"), "known at run time only"),
        (LOOP.replace("n = {2}", "n = {0}"), "it runs zero times, so that the shapes of its scan"),
    ],
)  # fmt: skip
def test_rounds_that_are_not_known_are_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ge.GeError, match=message):
        ge.compile(saved(text, tmp_path))
