"""Damaged models: ge-import ends with one clear message and no output, or imports them.

The mutations are seeded; `FUZZ=500 pytest test/unit/test_fuzz_onnx.py` runs more of them.
"""

import os
import random
import signal
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import GraphProto, ModelProto, TensorProto

from ge.tools.commands import ge_import

COUNT = int(os.environ.get("FUZZ", "60"))
SECONDS = 20
MODELS = sorted((Path(__file__).parent.parent / "models").glob("*.onnx"))
SMALL = [m for m in MODELS if m.stat().st_size < 200_000]


# ---- damage to the bytes


def flip(data: bytearray, rng: random.Random) -> None:
    for _ in range(rng.choice((1, 3, 10))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def truncate(data: bytearray, rng: random.Random) -> None:
    del data[rng.randrange(len(data)) :]


def insert(data: bytearray, rng: random.Random) -> None:
    place = rng.randrange(len(data))
    data[place:place] = rng.randbytes(rng.choice((1, 4, 100)))


def remove(data: bytearray, rng: random.Random) -> None:
    place = rng.randrange(len(data))
    del data[place : place + rng.choice((1, 4, 100))]


def repeat(data: bytearray, rng: random.Random) -> None:
    place, size = rng.randrange(len(data)), rng.choice((4, 100, 1000))
    data[place:place] = data[place : place + size]


# ---- damage to the message


def graphs(model: ModelProto) -> list[GraphProto]:
    found = [model.graph]
    for graph in found:
        found += [a.g for n in graph.node for a in n.attribute if a.g.node]
    return found


def rename(model: ModelProto, rng: random.Random) -> None:
    graph = rng.choice(graphs(model))
    node = rng.choice(graph.node)
    names = [name for n in graph.node for name in (*n.input, *n.output)]
    side = rng.choice([s for s in (node.input, node.output) if s] or [node.input])
    if side:
        side[rng.randrange(len(side))] = rng.choice([*names, "", "nothing"])


def change_attribute(model: ModelProto, rng: random.Random) -> None:
    nodes = [n for g in graphs(model) for n in g.node if n.attribute]
    attribute = rng.choice(rng.choice(nodes).attribute)
    match rng.randrange(4):
        case 0:
            attribute.i = rng.choice((-1, 0, 7, 2**40, -(2**63)))
        case 1:
            attribute.ints.append(rng.choice((-1, 0, 7, 2**40)))
        case 2:
            attribute.type = rng.randrange(15)
        case _:
            attribute.name = rng.choice(("axis", "perm", "to", "nothing"))


def change_dims(model: ModelProto, rng: random.Random) -> None:
    graph = rng.choice(graphs(model))
    dims = [t.dims for t in graph.initializer]
    sizes = [d for v in graph.input for d in v.type.tensor_type.shape.dim]
    value = rng.choice((-1, 0, 1, 3, 2**31, 2**62))
    if dims and (rng.random() < 0.5 or not sizes):
        target = rng.choice(dims)
        target.append(value)
    elif sizes:
        rng.choice(sizes).dim_value = value


def change_type(model: ModelProto, rng: random.Random) -> None:
    graph = rng.choice(graphs(model))
    kind = rng.randrange(30)
    tensors: list[TensorProto] = list(graph.initializer)
    if tensors and rng.random() < 0.7:
        rng.choice(tensors).data_type = kind
    elif graph.input:
        rng.choice(graph.input).type.tensor_type.elem_type = kind


def change_op(model: ModelProto, rng: random.Random) -> None:
    ops = ("Reshape", "Gather", "Loop", "If", "Scan", "Concat", "Split", "Slice", "Resize", "LSTM")
    rng.choice(rng.choice(graphs(model)).node).op_type = rng.choice(ops)


def drop(model: ModelProto, rng: random.Random) -> None:
    graph = rng.choice(graphs(model))
    parts = [p for p in (graph.node, graph.initializer, graph.input, graph.output) if p]
    part = rng.choice(parts)
    del part[rng.randrange(len(part))]


def change_values(model: ModelProto, rng: random.Random) -> None:
    """Other numbers in constants, among them shapes, axes and indices."""
    tensors = [t for g in graphs(model) for t in g.initializer if t.data_type == TensorProto.INT64]
    tensors += [a.t for g in graphs(model) for n in g.node for a in n.attribute if a.HasField("t")]
    if not tensors:
        return
    tensor = rng.choice(tensors)
    data = bytearray(tensor.raw_data)
    if data:
        data[rng.randrange(len(data))] = rng.choice((0, 1, 0x7F, 0xFF))
        tensor.raw_data = bytes(data)


def externalize(model: ModelProto, rng: random.Random) -> None:
    tensors = [t for g in graphs(model) for t in g.initializer if t.raw_data]
    if tensors:
        tensor = rng.choice(tensors)
        onnx.external_data_helper.set_external_data(
            tensor, rng.choice(("../x", "/etc/passwd", "", "model.onnx", "x/../y", ".")),
            rng.choice((None, 0, 2**50)), rng.choice((None, 0, 8)),
        )  # fmt: skip
        tensor.ClearField("raw_data")


BYTES: tuple[Callable[[bytearray, random.Random], None], ...] = (
    flip, flip, truncate, insert, remove, repeat,
)  # fmt: skip
MESSAGE: tuple[Callable[[ModelProto, random.Random], None], ...] = (
    rename, rename, change_attribute, change_attribute, change_dims, change_type, change_op, drop,
    change_values, change_values, externalize,
)  # fmt: skip


def damaged(rng: random.Random) -> bytes:
    data = rng.choice(SMALL).read_bytes()
    if rng.random() < 0.4:
        changed = bytearray(data)
        rng.choice(BYTES)(changed, rng)
        return bytes(changed)
    model = onnx.load_from_string(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        if model.graph.node:
            rng.choice(MESSAGE)(model, rng)
    return model.SerializeToString()


def hang(*_: object) -> None:
    raise TimeoutError(f"no answer after {SECONDS} s")


@pytest.mark.parametrize("seed", range(COUNT))
def test_damaged_model(seed: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model, output = tmp_path / "model.onnx", tmp_path / "out" / "model.mlir"
    model.write_bytes(damaged(random.Random(seed)))
    output.parent.mkdir()
    earlier = signal.signal(signal.SIGALRM, hang)
    signal.alarm(SECONDS)
    try:
        status = ge_import([str(model), "-o", str(output)])
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, earlier)
    text = capfd.readouterr().err
    made = sorted(p.name for p in output.parent.iterdir())
    assert "Traceback" not in text
    assert "internal error" not in text
    if status == 0:
        assert made in (["model.mlir"], ["model.mlir", "model.safetensors"])
        assert text == ""
    else:
        assert status == 1
        assert text.count("error:") == 1, text
        assert text.startswith(f"{model}: error: "), text
        assert made == []
