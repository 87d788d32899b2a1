"""Between gears: fills, expansions and positions whose sizes follow from those of inputs, and rows
that are flattened in between, agree with onnxruntime."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import ge

HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'

# Biases by relative position, in buckets of which the last one is a fill (as of T5)
POSITIONS = """w (float[batch, length, 4] x, int64[batch, length] m) => (float[batch, length, 4] y)
  <float[4, 1] table = {0.5, -0.25, 0.125, 1.0}, int64 zero = {0}, int64 one = {1},
   int64[1] front = {0}, int64[1] second = {1}, float none = {0.0}, float low = {-3e38}> {
  size = Shape <start = 1, end = 2> (x)
  n = Squeeze (size)
  i = Range (zero, n, one)
  a = Unsqueeze (i, front)
  b = Unsqueeze (i, second)
  apart = Sub (a, b)
  near = Abs (apart)
  both = SIZES
  most = ConstantOfShape <value = int64[1] {3}> (both)
  bucket = Min (near, most)
  picked = Gather (table, bucket)
  bias = Transpose <perm = [2, 0, 1]> (picked)
  kept = Cast <to = 9> (m)
  hidden = Where (kept, none, low)
  mask = Unsqueeze (hidden, second)
  turned = Transpose <perm = [0, 2, 1]> (x)
  scores = MatMul (x, turned)
  biased = Add (scores, bias)
  masked = Add (biased, mask)
  weights = Softmax (masked)
  y = MatMul (weights, x)
}"""

# Rows of all samples in one axis, and back (as of OPT)
FLATTENED = """w (float[batch, length, 4] x, int64[batch, length] m) => (float[batch, length, 6] y)
  <int64[2] rows = {-1, 4}, float[4, 6] weight = {0.5, -0.25, 0.125, 1.0, 2.0, -1.0,
     0.5, 0.25, 0.125, 1.5, 2.0, -1.0, 0.5, -0.25, 0.125, 1.0, -2.0, -1.0, 0.5, 0.75, 1, 1, 2, 1},
   float[6] shift = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}, int64[1] last = {6},
   float[6] ones = {1, 1, 1, 1, 1, 1}> {
  flat = Reshape (x, rows)
  long = Gemm (flat, weight, shift)
  cut = Relu (long)
  normed = LayerNormalization (cut, ones, shift)
  size = Shape <start = 0, end = 2> (x)
  shape = Concat <axis = 0> (size, last)
  y = Reshape (normed, shape)
}"""


@pytest.mark.parametrize(
    "text",
    [
        POSITIONS.replace("SIZES", "Concat <axis = 0> (size, size)"),
        POSITIONS.replace("SIZES", "Expand (size, twice)").replace(
            "int64[1] front", "int64[1] twice = {2}, int64[1] front"),
        FLATTENED,
    ],
    ids=["concat", "expand", "rows"],
)  # fmt: skip
def test_sizes_between_gears(text: str, tmp_path: Path) -> None:
    path = str(tmp_path / "m.onnx")
    onnx.save(onnx.parser.parse_model(HEAD + text), path)
    session = ge.compile(path, dynamic_dims="2,5;3,8").session()
    reference = onnxruntime.InferenceSession(path)
    rng = np.random.default_rng(0)
    for batch, length in ((2, 5), (1, 4), (2, 2), (3, 8), (3, 7), (2, 6)):
        mask = np.ones((batch, length), np.int64)
        mask[0, length // 2 + 1 :] = 0
        inputs = {"x": rng.standard_normal((batch, length, 4), np.float32), "m": mask}
        wanted = {i.name: inputs[i.name] for i in reference.get_inputs()}
        (want,) = reference.run(None, wanted)
        np.testing.assert_allclose(session.run(inputs)["y"], want, atol=1e-5)
