"""Reading an ONNX file: the model proto, its tensors as arrays, its nodes in an order in which
each follows the nodes that it reads, and the line of a user's program that a node stands for, as
PyTorch's exporter writes it.

Nothing in the file is believed: sizes are compared before memory is allocated, and external data
is memory-mapped from regular files in the model's own folder only."""

import math
import mmap
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
    helper,
    numpy_helper,
)
from onnx.defs import onnx_opset_version
from xdsl.ir import Attribute

from ge.dialects.support.diagnostics import listing
from ge.dialects.support.element_types import ELEMENT_TYPES
from ge.dialects.support.errors import GeError
from ge.dialects.support.types import AnyTensor, byte_size, tensor
from ge.runtime.data.arrays import Array, dtype_of, is_packed, unpacked

# A tensor with more elements than this (65B models have 2^29 in one) is taken for damage
MAX_ELEMENTS = 1 << 40

# ONNX's data type number -> element type
ONNX_ELEMENTS: dict[int, Attribute] = {
    getattr(TensorProto, row.onnx): row.type for row in ELEMENT_TYPES
}

ONNX_NUMBERS: dict[Attribute, int] = {t: n for n, t in ONNX_ELEMENTS.items()}


def element_of_onnx(data_type: int) -> Attribute:
    """The element type of an ONNX data type number. Raises GeError for one ge does not have."""
    element = ONNX_ELEMENTS.get(data_type)
    if element is None:
        names = TensorProto.DataType
        known = data_type in names.values()
        name = names.Name(data_type).lower() if known else f"number {data_type}"  # pyright: ignore
        raise GeError(f"element type {name} is not supported")
    return element


def read_model(path: str | Path) -> ModelProto:
    """Read a model without its external data. Raises GeError for a file that is not an ONNX
    model."""
    where = str(path)
    try:
        info = Path(path).stat()
        if not stat.S_ISREG(info.st_mode):
            raise GeError("this is not a file", where)
        if info.st_size >= 1 << 31:
            raise GeError(
                "the file is 2 GiB or larger, which protobuf cannot read", where,
                "save the model with external data",
            )  # fmt: skip
        data = Path(path).read_bytes()
    except (OSError, ValueError) as e:
        reason = e.strerror if isinstance(e, OSError) else str(e)
        raise GeError(f"cannot read the model: {reason}", where) from e
    if not data:
        raise GeError("the file is empty", where)
    model = ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError as e:
        raise GeError(
            "this is not an ONNX model, or it is damaged: it does not parse as protobuf", where
        ) from e
    check_header(model, where)
    return model


def check_header(model: ModelProto, where: str) -> None:
    if not model.HasField("graph") or not model.graph.output:
        raise GeError("this is not an ONNX model, or it is damaged: no graph with outputs", where)
    newest = onnx_opset_version()
    for opset in model.opset_import:
        if opset.domain in ("", "ai.onnx") and not 0 <= opset.version <= newest:
            raise GeError(
                f"opset {opset.version} is not known", where, f"export with one up to {newest}"
            )


def check_names(graph: GraphProto) -> None:
    """Raises GeError when a name in a graph, subgraphs apart, is not UTF-8."""
    for value in (*graph.input, *graph.output, *graph.initializer):
        check_name(value.name)
    for node in graph.node:
        for name in (node.name, node.op_type, node.domain, *node.input, *node.output):
            check_name(name)
        for attribute in node.attribute:
            check_name(attribute.name)


def check_name(name: str | bytes) -> None:
    """Raises GeError for a name that is not UTF-8 (protobuf hands those over as bytes)."""
    if isinstance(name, bytes):
        raise GeError(f"the name {name!r} is not UTF-8: the model is damaged")


class Tensors:
    """Turns tensor protos into arrays. `folder` holds the external data, None if unknown."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        # External files by location, None for one that does not exist
        self.files: dict[str, mmap.mmap | None] = {}

    def external_files(self) -> list[Path]:
        return [] if self.folder is None else [self.folder / name for name in self.files]

    def type_of(self, proto: TensorProto) -> AnyTensor:
        element = element_of_onnx(proto.data_type)
        dims = tuple(proto.dims)
        if any(d < 0 for d in dims) or math.prod(dims) > MAX_ELEMENTS:
            raise GeError(f"dimensions {list(dims)} are absurd")
        return tensor(dims, element)

    def array(self, proto: TensorProto) -> Array | None:
        """The elements of a tensor, None when they are in an external file that is not there.
        Raises GeError when bytes and dimensions do not fit together."""
        t = self.type_of(proto)
        dtype, dims = dtype_of(t.element_type), t.get_shape()
        size = byte_size(t)
        if proto.data_location == TensorProto.EXTERNAL:
            data = self._external(proto, size)
        elif proto.HasField("raw_data"):
            data = memoryview(proto.raw_data)
        else:
            return _typed(proto, dtype, dims, size if is_packed(dtype) else math.prod(dims))
        if data is None:
            return None
        if len(data) != size:
            raise GeError(f"{len(data)} bytes are given for {t}, which has {size}")
        if dtype == np.bool_:
            return np.frombuffer(data, np.uint8).reshape(dims) != 0
        if is_packed(dtype):
            return unpacked(np.frombuffer(data, np.uint8), dtype, math.prod(dims)).reshape(dims)
        return np.frombuffer(data, dtype).reshape(dims)

    def sparse(self, proto: SparseTensorProto) -> Array:
        values, indices = self.array(proto.values), self.array(proto.indices)
        dims = tuple(proto.dims)
        if values is None or indices is None:
            raise GeError("sparse tensors in external data are not supported")
        if any(d < 0 for d in dims) or math.prod(dims) > 1 << 28:
            raise GeError(f"dimensions {list(dims)} are too large for a sparse tensor")
        result = np.zeros(dims, values.dtype)
        if not len(values):
            return result
        places = indices if indices.ndim == 1 else np.ravel_multi_index(tuple(indices.T), dims)
        result.reshape(-1)[places] = values
        return result

    def _external(self, proto: TensorProto, size: int) -> memoryview | None:
        entries = {e.key: e.value for e in proto.external_data}
        location = entries.get("location", "")
        offset = _number(entries.get("offset", "0"), "offset")
        length = _number(entries.get("length", str(size)), "length")
        if length != size:
            raise GeError(f"external data has length {length}, but the tensor has {size} bytes")
        if location not in self.files:
            self.files[location] = self._open(location)
        data = self.files[location]
        if data is None:
            return None
        if offset + length > len(data):
            raise GeError(
                f"external data at {offset} with length {length} is beyond the end of "
                f"'{location}' ({len(data)} bytes)"
            )
        return memoryview(data)[offset : offset + length]

    def _open(self, location: str) -> mmap.mmap | None:
        path = PurePosixPath(location)
        if not location or "\0" in location or "\\" in location:
            raise GeError(f"external data has no usable location: {location!r}")
        if path.is_absolute() or ".." in path.parts:
            raise GeError(f"external data at '{location}' is outside of the model's folder")
        if self.folder is None:
            return None
        file = self.folder
        for part in path.parts:
            file /= part
            if file.is_symlink():
                raise GeError(
                    f"external data at '{location}' is reached through a link",
                    hint="put the file itself beside the model",
                )
        if not file.exists():
            return None
        if not file.is_file():
            raise GeError(f"external data at '{location}' is not a file")
        if file.stat().st_size == 0:
            raise GeError(f"external data at '{location}' is an empty file")
        try:
            with open(file, "rb") as f:
                return mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as e:
            raise GeError(f"cannot read external data at '{location}': {e.strerror}") from e


def external_files(model: ModelProto) -> list[str]:
    """The locations of external data that tensors of the model state, as they are written."""
    locations: dict[str, None] = {}
    graphs = [model.graph]
    nodes = [n for f in model.functions for n in f.node]
    while graphs or nodes:
        tensors: list[TensorProto] = []
        if graphs:
            graph = graphs.pop()
            nodes += graph.node
            tensors += graph.initializer
        else:
            for a in nodes.pop().attribute:
                graphs += [*a.graphs, *([a.g] if a.HasField("g") else [])]
                tensors += [*a.tensors, *([a.t] if a.HasField("t") else [])]
        for tensor_proto in tensors:
            for entry in tensor_proto.external_data:
                if entry.key == "location":
                    locations[entry.value] = None
    return list(locations)


def _number(text: str, what: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise GeError(f"external data has {what} {text!r}")
    return int(text)


def _typed(proto: TensorProto, dtype: np.dtype[Any], dims: tuple[int, ...], expected: int) -> Array:
    field = helper.tensor_dtype_to_field(proto.data_type)
    count = len(getattr(proto, field))
    if count != expected:
        raise GeError(f"{count} elements are given for dimensions {list(dims)}")
    return numpy_helper.to_array(proto).astype(dtype, copy=False)


def describe(node: NodeProto) -> str:
    return f"{node.op_type} '{node_name(node)}'"


def node_name(node: NodeProto) -> str:
    return node.name or next((o for o in node.output if o), node.op_type)


def domain_of(node: NodeProto) -> str:
    """The domain of a node's op; "" for ONNX's own, which has two spellings."""
    return "" if node.domain == "ai.onnx" else node.domain


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs in a node's attributes."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == AttributeProto.GRAPHS:
            yield from attribute.graphs


def reads(node: NodeProto) -> Iterator[str]:
    yield from (name for name in node.input if name)
    for graph in subgraphs(node):
        yield from captures(graph)


def captures(graph: GraphProto) -> Iterator[str]:
    own = {v.name for v in (*graph.input, *graph.initializer)}
    own.update(s.values.name for s in graph.sparse_initializer)
    own.update(name for node in graph.node for name in node.output)
    for node in graph.node:
        yield from (name for name in reads(node) if name not in own)
    yield from (o.name for o in graph.output if o.name not in own)


def is_constant(node: NodeProto) -> bool:
    return node.op_type == "Constant" and not domain_of(node)


def in_order(nodes: Sequence[NodeProto]) -> Sequence[NodeProto]:
    """The nodes sorted so that each follows what it reads; unchanged if that holds already. Raises
    GeError for a name with two producers, other than constants, and for a cycle."""
    producer: dict[str, int] = {}
    for i, node in enumerate(nodes):
        for name in node.output:
            if name in producer and not is_constant(node):  # those may be equal
                first = nodes[producer[name]]
                raise GeError(
                    f"'{name}' is the output of both {describe(first)} and {describe(node)}"
                )
            if name:
                producer[name] = i
    needs = [sorted({producer[name] for name in reads(node) if name in producer}) for node in nodes]
    if all(not n or n[-1] < i for i, n in enumerate(needs)):
        return nodes
    return [nodes[i] for i in _sorted(nodes, needs)]


def _sorted(nodes: Sequence[NodeProto], needs: Sequence[Sequence[int]]) -> list[int]:
    """Depth first, in the order of the file where that is free."""
    order: list[int] = []
    visited: set[int] = set()
    for start in range(len(nodes)):
        path: dict[int, Iterator[int]] = {}
        if start not in visited:
            path[start] = iter(needs[start])
        while path:
            current = next(reversed(path))
            following = next((i for i in path[current] if i not in visited), None)
            if following is None:
                del path[current]
                visited.add(current)
                order.append(current)
            elif following in path:
                raise _cycle(nodes, path, following)
            else:
                path[following] = iter(needs[following])
    return order


def _cycle(nodes: Sequence[NodeProto], path: Mapping[int, object], back: int) -> GeError:
    members = list(path)
    cycle = members[members.index(back) :]
    text = listing([describe(nodes[i]) for i in cycle], 3, ", ")
    return GeError(f"the graph has a cycle: {text}")


STACK_TRACE = "pkg.torch.onnx.stack_trace"  # metadata of nodes

FRAME = re.compile(r'File "([^"\n]+)", line (\d+), in [^\n]*(?:\n +([^\n]*))?')

LIBRARY = re.compile(r"[/\\](?:site|dist)-packages[/\\]torch[/\\]")

OURS = str(Path(__file__).parents[1] / "torch")  # PyTorch leaves out the frames of a mere function

LONGEST = 120  # characters of a line that are shown


def user_line(trace: str) -> str:
    """`FILE:LINE: code` of the innermost frame of a Python stack trace outside of PyTorch, or of
    the innermost one; "" if there is none outside of ge."""
    frames = [frame for frame in FRAME.findall(trace) if not frame[0].startswith(OURS)]
    own = [frame for frame in frames if not LIBRARY.search(frame[0])]
    if not frames:
        return ""
    file, line, code = (own or frames)[-1]
    return f"{file}:{line}: {code[:LONGEST].strip()}".rstrip(": ")


def line_of(node: NodeProto) -> str:
    """The line that a node says it stands for, "" if it says none."""
    return next((user_line(p.value) for p in node.metadata_props if p.key == STACK_TRACE), "")
