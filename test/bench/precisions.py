"""What schemes of quantization take beside fp16: time of kernels, latency and launches of networks
that are made here, with random weights, or of ONNX files with `NAME.calib.npz` beside them.

    python test/bench/precisions.py [MODEL.onnx ...] [--only bert,decode] [--schemes int8,w4a16]
        [--target 910b2] [--layers 2] [--dim batch=1] [--table]

`bert`: an encoder (batch 16, 128 tokens, 768 wide); `decode`: a norm and a SwiGLU block (4096 and
11008 wide) for one token, of which weights alone are quantized. Each scheme stands alone and with
`--precision fp16` beside it (`+fp16`). `--table` names the launches that take longest.
"""

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper

from ge.dialects.npu_task.ops import LaunchOp
from ge.dialects.support.errors import GeError
from ge.dialects.targets.target import Target
from ge.lowering.driver.compiler import compile_file
from ge.lowering.pipeline.options import Options
from ge.runtime.clock.clock import simulate
from ge.runtime.clock.timeline import Task

FLOAT = "fp16"
LONGEST = 14  # launches in a table


class Network:
    """An ONNX model that is written op by op. `absent`: weights are sizes alone."""

    def __init__(self, absent: bool) -> None:
        self.absent, self.random = absent, np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[TensorProto] = []

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def array(self, values: Any) -> str:
        name = f"const_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def weight(self, rows: int, cols: int) -> str:
        if not self.absent:
            scale = rows**-0.5
            return self.array((self.random.standard_normal((rows, cols)) * scale).astype("f4"))
        name = f"const_{len(self.weights)}"
        tensor = TensorProto(name=name, dims=[rows, cols], data_type=TensorProto.FLOAT)
        tensor.data_location = TensorProto.EXTERNAL
        entry = tensor.external_data.add()
        entry.key, entry.value = "location", "absent.bin"
        self.weights.append(tensor)
        return name

    def linear(self, x: str, rows: int, cols: int) -> str:
        bias = self.random.standard_normal(cols).astype("f4")
        return self.op("Add", self.op("MatMul", x, self.weight(rows, cols)), self.array(bias))

    def model(self, x: Sequence[int], y: str) -> ModelProto:
        info = helper.make_tensor_value_info
        ends = info("x", TensorProto.FLOAT, x), info(y, TensorProto.FLOAT, x)
        graph = helper.make_graph(self.nodes, "main", ends[:1], ends[1:], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


def bert(layers: int, batch: int = 16, tokens: int = 128, width: int = 768) -> ModelProto:
    """An encoder as exporters write it out."""
    net, heads = Network(absent=False), width // 64
    ints = np.array([batch, tokens, heads, 64], "i8")
    apart, joined = net.array(ints), net.array(np.array([batch, tokens, width], "i8"))
    scale, half, one = (net.array(np.float32(n)) for n in (0.125, 0.5, 1.0))
    root = net.array(np.float32(2**0.5))

    def norm(x: str) -> str:
        gamma, beta = (1 + 0.1 * net.random.standard_normal((2, width))).astype("f4") - [[0], [1]]
        ends = (net.array(n.astype("f4")) for n in (gamma, beta))
        return net.op("LayerNormalization", x, *ends, axis=-1)

    x = "x"
    for _ in range(layers):
        q, k, v = (
            net.op("Transpose", net.op("Reshape", net.linear(x, width, width), apart), perm=perm)
            for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
        )
        weights = net.op("Softmax", net.op("Mul", net.op("MatMul", q, k), scale), axis=-1)
        mixed = net.op("Transpose", net.op("MatMul", weights, v), perm=[0, 2, 1, 3])
        mixed = net.linear(net.op("Reshape", mixed, joined), width, width)
        x = norm(net.op("Add", x, mixed))
        wide = net.linear(x, width, 4 * width)
        sums = net.op("Add", net.op("Erf", net.op("Div", wide, root)), one)
        wide = net.op("Mul", net.op("Mul", wide, sums), half)
        x = norm(net.op("Add", x, net.linear(wide, 4 * width, width)))
    return net.model([batch, tokens, width], x)


def decode(tokens: int = 1, width: int = 4096, hidden: int = 11008) -> ModelProto:
    """The second half of a layer of a llama: norm, gated pair, product, residual."""
    net = Network(absent=True)
    two, little = net.array(np.float32(2)), net.array(np.float32(1e-5))
    mean = net.op("ReduceMean", net.op("Pow", "x", two), net.array(np.array([-1], "i8")))
    root = net.op("Sqrt", net.op("Add", mean, little))
    x = net.op("Mul", net.op("Div", "x", root), net.array(np.ones(width, "f4")))
    gate = net.op("MatMul", x, net.weight(width, hidden))
    gate = net.op("Mul", gate, net.op("Sigmoid", gate))
    wide = net.op("Mul", gate, net.op("MatMul", x, net.weight(width, hidden)))
    y = net.op("Add", "x", net.op("MatMul", wide, net.weight(hidden, width)))
    return net.model([1, tokens, width], y)


@dataclass(frozen=True)
class Times:
    """Microseconds of all kernels and of the program; its launches."""

    kernels: float
    latency: float
    tasks: Sequence[Task]

    @property
    def launches(self) -> int:
        return sum(t.runs for t in self.tasks)

    def table(self) -> str:
        times, counts = Counter[str](), Counter[str]()
        for t in self.tasks:
            ends = " ".join(str(r).partition(",")[0].removeprefix("memref<") for r in t.reads)
            key = f"{t.kind} ({ends}) on {t.engine}"
            times[key] += t.duration_us * t.runs
            counts[key] += t.runs
        rows = times.most_common(LONGEST)
        return "\n".join(f"      {us:9.1f} us {counts[key]:3}x {key}" for key, us in rows)


def measure(
    path: Path, scheme: str, target: str, samples: Path | None, dim: tuple[str, ...] = ()
) -> Times:
    name, _, half = scheme.partition("+")
    options: dict[str, Any] = {"precision": FLOAT} if name == FLOAT or half else {}
    if name not in (FLOAT, "f32"):
        options["quantize"] = name
    if samples is not None and options:
        options["calibration"] = str(samples)
    given = Options(target=target, ranges="minmax", dim=dim, **options)
    module = compile_file(str(path), given).module
    timeline = simulate(module, Target.load(target))
    tasks = [t for t in timeline.tasks if isinstance(t.op, LaunchOp)]
    return Times(sum(t.duration_us * t.runs for t in tasks), timeline.latency_us, tasks)


def report(path: Path, schemes: Sequence[str], args: argparse.Namespace) -> None:
    beside = path.with_suffix(".calib.npz")
    samples = beside if beside.exists() else None
    least: Times | None = None
    for scheme in (FLOAT, *schemes):
        if scheme.startswith("int8") and samples is None:
            continue
        try:
            times = measure(path, scheme, args.target, samples, args.dim)
        except GeError as e:
            print(f"{path.stem:12} {scheme:12} {e}", flush=True)
            continue
        least = least or times
        ratio = times.kernels / least.kernels, times.latency / least.latency
        counts = f"{times.launches} launches ({least.launches})"
        line = f"kernels {times.kernels:9.1f} us {ratio[0]:5.2f}x, latency {times.latency:9.1f} us"
        print(f"{path.stem:12} {scheme:12} {line} {ratio[1]:5.2f}x, {counts}", flush=True)
        if args.table:
            print(times.table(), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--only", default="bert,decode")
    parser.add_argument("--schemes", default="f32,int8,int8+fp16,w8a16,w8a16+fp16,w4a16,w4a16+fp16")
    parser.add_argument("--target", default="910b2")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--dim", type=lambda text: tuple(text.split(",")), default=())
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    schemes = args.schemes.split(",")
    for path in args.models:
        report(path, schemes, args)
    with TemporaryDirectory() as folder:
        for name in args.only.split(",") if not args.models else ():
            path = Path(folder, name + ".onnx")
            onnx.save(bert(args.layers) if name == "bert" else decode(), path)
            if name == "bert":
                x = np.random.default_rng(1).standard_normal((16, 128, 768)).astype("f4")
                np.savez(path.with_suffix(".calib.npz"), x=x)
            report(path, schemes, args)


if __name__ == "__main__":
    main()
