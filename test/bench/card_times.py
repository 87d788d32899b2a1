"""Networks on a 310P3 against the throughput that is published for cards with it:

    python test/bench/card_times.py FOLDER [--target 310p3]

FOLDER has the structure models (`resnet50.structure.onnx` and others). Published are samples a
second, f16, by ATC (READMEs of ModelZoo-PyTorch, December 2023), without the copies of inputs and
outputs, so those are left out here too. Models that are exported for one size have it in constants:
these are written anew for the batch, the number of tokens and that of words (the published GPT-2 is
one of 21,128).

Each network is timed twice: as ge fuses by default, and with two products and a softmax in place of
attention, each a launch of its own. That the published runs did so is an assumption: their READMEs
name CANN 6.0, and no kernel of attention.
"""

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from ge.dialects.targets.target import Target
from ge.lowering.driver.compiler import load, lower
from ge.lowering.pipeline.options import Options
from ge.runtime.clock.clock import simulate

TOKENS, WORDS = 128, 50257
"""Of the models as they were exported, for one sample."""

APART = ("find-attention", "fuse-softmax")
"""Rules without which attention is two products and a softmax."""


@dataclass(frozen=True)
class Network:
    model: str
    batch: int
    samples_a_second: float
    tokens: int = 0  # 0: images
    words: int = WORDS


NETWORKS = (
    Network("resnet50", 64, 4250),
    Network("mobilenet_v2", 4, 7072),
    Network("vit_b16", 1, 342),
    Network("bert_base", 8, 218, 512),
    Network("gpt2_prefill", 16, 189, 512, 21128),
)


def resized(path: Path, network: Network) -> onnx.ModelProto:
    """The model for another batch and, where it has tokens, another number of them."""
    model = onnx.load(str(path), load_external_data=False)
    graph, sizes = model.graph, {TOKENS: network.tokens} if network.tokens else {}
    words = {WORDS: network.words}
    shapes = {n.input[1] for n in graph.node if n.op_type == "Reshape"}
    for i, constant in enumerate(graph.initializer):
        if constant.name in shapes:
            dims = numpy_helper.to_array(constant)
            graph.initializer[i].CopyFrom(
                numpy_helper.from_array(shape(dims, network, sizes), constant.name)
            )
        elif WORDS in constant.dims:
            constant.dims[:] = [words.get(d, d) for d in constant.dims]
            places = [e for e in constant.external_data if e.key != "length"]
            del constant.external_data[:]
            constant.external_data.extend(places)
        elif (array := of_tokens(constant, network)) is not None:
            graph.initializer[i].CopyFrom(numpy_helper.from_array(array, constant.name))
    for port in (*graph.input, *graph.output):
        dims = port.type.tensor_type.shape.dim
        for i, dim in enumerate(dims):
            size = (sizes | words).get(dim.dim_value, dim.dim_value)
            dim.dim_value = network.batch if i == 0 else size
    del graph.value_info[:]
    return model


def shape(dims: np.ndarray, network: Network, sizes: dict[int, int]) -> np.ndarray:
    """What a model reshapes to: its first dimension is that of one sample, or all tokens of it."""
    first, *rest = dims.tolist()
    if len(rest) == 1 and first in sizes:
        first = network.batch * sizes[first]
    first = network.batch if first == 1 else first
    return np.array([first, *(sizes.get(d, d) for d in rest)], np.int64)


def of_tokens(constant: onnx.TensorProto, network: Network) -> np.ndarray | None:
    """Positions, places in the mask, and masks, for other sizes; None for other constants."""
    dims, n = tuple(constant.dims), network.tokens
    if not n:
        return None
    if dims == (1, TOKENS):
        return np.arange(n, dtype=np.int64)[None]
    if dims == (1, 1, 1, TOKENS, 2):
        places = np.indices((network.batch, 1, 1, n))
        return np.stack([places[0], places[3]], axis=-1).astype(np.int64)
    if dims == (1, 1, TOKENS, 1):
        return np.ones((1, 1, n, 1), np.bool_)
    if dims == (1, 1, TOKENS, TOKENS):
        return np.tril(np.ones((n, n), np.bool_))[None, None]
    return None


def milliseconds(path: Path, target: str, disabled: tuple[str, ...]) -> float:
    """From the first kernel's start to the last one's end, without some rules."""
    program = load(str(path))
    lower(program.module, Options(target=target, precision="fp16", fusion_disable=disabled))
    tasks = simulate(program.module, Target.load(target)).tasks
    kernels = [task for task in tasks if task.kernel is not None]
    return (max(t.end_us for t in kernels) - min(t.start_us for t in kernels)) / 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--target", default="310p3")
    args = parser.parse_args()
    print("network           batch  published ms  by default       attention apart")
    for network in NETWORKS:
        path = args.folder / f"{network.model}.structure.onnx"
        with tempfile.TemporaryDirectory() as folder:
            new = Path(folder) / path.name
            new.write_bytes(resized(path, network).SerializeToString())
            times = [milliseconds(new, args.target, disabled) for disabled in ((), APART)]
        published = 1e3 * network.batch / network.samples_a_second
        texts = (f"{t:8.2f} {t / published:5.2f}x" for t in times)
        print(f"{network.model:16} {network.batch:6} {published:13.2f}  {'  '.join(texts)}")


if __name__ == "__main__":
    main()
