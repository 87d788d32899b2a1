"""Processor time of `ge-calibrate --quantize int8` beside onnxruntime's min-max calibration.

    python test/bench/calibration_time.py [--samples 16] [--width 268] [--runs 2] [--most 6]

The network is a residual one of 53 convolutions and a linear layer (113 MB), with random weights,
on images of 224 by 224. Both read it from a file, in processes of their own that run on one core
and in turn; user and system time count, from start to end, and the least of each one's runs. It
fails above `--most` times as much.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

BLOCKS = (3, 4, 6, 3)  # of three convolutions, at each resolution
SIZE = 224

OTHERS = """
import sys
import numpy as np
from onnxruntime.quantization import calibrate

class Reader(calibrate.CalibrationDataReader):
    def __init__(self, path):
        x = np.load(path)["x"]
        self.parts = iter([{"x": x[i : i + 1]} for i in range(len(x))])
    def get_next(self):
        return next(self.parts, None)

model, samples, out = sys.argv[1:]
method = calibrate.CalibrationMethod.MinMax
made = calibrate.create_calibrator(model, augmented_model_path=out, calibrate_method=method)
made.collect_data(Reader(samples))
made.compute_data()
"""

OURS = """
import sys
from ge.tools.cli import calibrate
from ge.tools.cli.parsers import read_arguments

model, samples, out = sys.argv[1:]
words = [model, "--data", samples, "--quantize", "int8", "-o", out]
calibrate.run(read_arguments("ge-calibrate", words))
"""


class Residual:
    """Convolutions with relus between them, and sums of what they read and compute."""

    def __init__(self, width: int) -> None:
        self.random = np.random.default_rng(0)
        self.nodes, self.weights = list[onnx.NodeProto](), list[TensorProto]()
        x, read = self.conv("x", 3, 64, 7, 2), 64
        x = self.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
        for stage, blocks in enumerate(BLOCKS):
            wide = width << stage
            for i in range(blocks):
                stride = 2 if stage and not i else 1
                x, read = self.block(x, read, wide, stride), wide
        x = self.op("Flatten", self.op("GlobalAveragePool", x))
        self.op("Gemm", x, self.weight(1000, read), self.weight(1000), transB=1)

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def weight(self, *shape: int) -> str:
        scale = np.sqrt(2 / np.prod(shape[1:])) if len(shape) > 1 else 0.1
        values = self.random.standard_normal(shape, np.float32) * np.float32(scale)
        self.weights.append(numpy_helper.from_array(values, f"w{len(self.weights)}"))
        return self.weights[-1].name

    def conv(self, x: str, read: int, made: int, size: int, stride: int) -> str:
        weights = self.weight(made, read, size, size), self.weight(made)
        x = self.op("Conv", x, *weights, strides=[stride] * 2, pads=[size // 2] * 4)
        return self.op("Relu", x)

    def block(self, x: str, read: int, wide: int, stride: int) -> str:
        y = self.conv(x, read, wide // 4, 1, 1)
        y = self.conv(y, wide // 4, wide // 4, 3, stride)
        y = self.conv(y, wide // 4, wide, 1, 1)
        if stride > 1 or read != wide:
            x = self.conv(x, read, wide, 1, stride)
        half = numpy_helper.from_array(np.float32(0.7), f"w{len(self.weights)}")  # keeps it level
        self.weights.append(half)
        return self.op("Mul", self.op("Add", x, y), half.name)

    def save(self, path: Path) -> None:
        info = helper.make_tensor_value_info
        x = info("x", TensorProto.FLOAT, ["batch", 3, SIZE, SIZE])
        y = info(self.nodes[-1].output[0], TensorProto.FLOAT, ["batch", 1000])
        graph = helper.make_graph(self.nodes, "main", [x], [y], self.weights)
        opsets = [helper.make_opsetid("", 17)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


def seconds(code: str, *arguments: str) -> float:
    """User and system time of a process that runs some Python on one core."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    pin = "import os\nos.sched_setaffinity(0, [min(os.sched_getaffinity(0))])\n"
    command = [sys.executable, "-c", pin + code, *arguments]
    child = os.spawnve(os.P_NOWAIT, sys.executable, command, environment)
    _, status, used = os.wait4(child, 0)
    if status:
        sys.exit(f"a process ended with status {status}")
    return used.ru_utime + used.ru_stime


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--width", type=int, default=268, help="channels of the first blocks")
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--most", type=float, default=6.0)
    args = parser.parse_args(arguments)
    with TemporaryDirectory() as folder:
        model, samples = Path(folder, "m.onnx"), Path(folder, "x.npz")
        Residual(args.width).save(model)
        shape = args.samples, 3, SIZE, SIZE
        np.savez(samples, x=np.random.default_rng(1).standard_normal(shape, np.float32))
        given, times = (str(model), str(samples)), list[tuple[float, float]]()
        for _ in range(args.runs):
            theirs = seconds(OTHERS, *given, str(Path(folder, "augmented.onnx")))
            times.append((seconds(OURS, *given, str(Path(folder, "table.toml"))), theirs))
            print(f"ge {times[-1][0]:.1f} s, onnxruntime {theirs:.1f} s", flush=True)
        size = model.stat().st_size / 1e6
    ours, theirs = map(min, zip(*times, strict=True))
    print(f"{size:.0f} MB, {args.samples} samples: {ours / theirs:.1f}x of onnxruntime's min-max")
    return ours > args.most * theirs


if __name__ == "__main__":
    sys.exit(main())
