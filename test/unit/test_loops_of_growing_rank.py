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


NONE = LOOP.replace("n = {2}", "n = {0}")
ONE = LOOP.replace("n = {2}", "n = {1}")
BY_SIZE = LOOP.replace("n = {2}", "z = {0}").replace(
    "  y, sums", "  s = Shape (x)\n  n = Gather (s, z)\n  y, sums", 1
)
NEVER = LOOP.replace("int64 n = {2}", "bool never = {0}").replace('Loop (n, ""', "Loop (n, never")
NEVER_BY_VALUE = NEVER.replace("[2, N] x", "[2, N] x, int64 n")


@pytest.mark.parametrize("text", [NONE, ONE, BY_SIZE, NEVER_BY_VALUE])
def test_no_rounds_and_rounds_by_sizes(text: str, tmp_path: Path) -> None:
    path = saved(text, tmp_path)
    x = np.random.default_rng(0).standard_normal((2, 3), np.float32)
    fed = {"x": x} | ({"n": np.array(4)} if text is NEVER_BY_VALUE else {})
    got = ge.compile(path).session().run(fed)
    want = onnxruntime.InferenceSession(path).run(None, fed)
    for a, b in zip(got.values(), want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


TRIPS = LOOP.replace("[2, N] x", "[2, N] x, int64 n").replace("<int64 n = {2}>", "")
SIZES = BY_SIZE.replace("[2, N]", "[K, N]")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (WHILE.replace("Less (ko, most)", "Cast <to = 9> (k2)").replace(
            "ko = Add", "k2 = ReduceMax <keepdims = 0> (v)\n ko = Add"), "known at run time only"),
        (TRIPS, "depends on the number of rounds of its loop, which is known at run time only; a "
                "value of a program has one number of dimensions: make the number of rounds of"),
        (SIZES, "rounds of its loop, which follows from sizes of inputs: give them, with --dim"),
    ],
)  # fmt: skip
def test_rounds_that_are_not_known_are_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ge.GeError, match=message):
        ge.compile(saved(text, tmp_path))


def test_sizes_decide_on_rounds(tmp_path: Path) -> None:
    path = saved(SIZES, tmp_path)
    x = np.ones((3, 2), np.float32)
    got = ge.compile(path, dims={"K": 3}).session().run({"x": x})
    assert got["y"].shape == (1, 1, 1, 3, 2)
