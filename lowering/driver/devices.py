"""What the program of one device says of all devices of its mesh: what they send each other, and
what each has."""

from collections.abc import Iterator
from math import prod
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation

from ge.dialects.graph.collectives import AllGatherOp, Collective, ExchangeOp, OfWhole
from ge.dialects.graph.constant import ConstantOp, WeightAttr
from ge.dialects.graph.control import LoopOp as GraphLoopOp
from ge.dialects.graph.sharding import mesh_of_parts
from ge.dialects.graph.transfers import Transfers, common, needs_of, sent_bytes
from ge.dialects.npu_task.control import LoopOp
from ge.dialects.npu_task.memory import FOREVER, trips
from ge.dialects.npu_task.ops import ConstantOp as TaskConstantOp
from ge.dialects.npu_task.ops import LaunchOp, kernels_of
from ge.dialects.support.functions import main_function
from ge.dialects.support.mesh import Axis, Mesh
from ge.dialects.support.operation import all_ops, ops_of
from ge.dialects.support.types import byte_size, constant_ints, has_size


def device_figures(module: ModuleOp) -> dict[str, Any]:
    """The `devices` part of the report; empty for a program of one device."""
    mesh, main = mesh_of_parts(module), main_function(module)
    if mesh is None or main is None:
        return {}
    kernels = {name: kernel.main for name, kernel in kernels_of(module).items()}
    counts: dict[tuple[str, int, tuple[str, ...]], int] = {}
    for op, times in repeated(main.body.block, 1):
        inner = kernels.get(op.callee) if isinstance(op, LaunchOp) else op
        if isinstance(inner, Collective):
            name, size = sent(inner, mesh)
            if size and name:
                key = name, size, tuple(axis_name(a, mesh) for a in inner.group())
                counts[key] = counts.get(key, 0) + times
    collectives = [
        {"op": op, "bytes": size, "axes": list(axes), "count": count}
        for (op, size, axes), count in counts.items()
    ]
    figures = {
        "count": mesh.count,
        "mesh": dict(mesh.sizes),
        "collectives": collectives,
        "sent_bytes": sum(moved(row, mesh) for row in collectives),
        "parameter_bytes": parameter_bytes(module),
    }
    return {"devices": figures}


def repeated(block: Block, times: int) -> Iterator[tuple[Operation, int]]:
    """The ops of a block and of those in it, and how many times each runs: loops of unknown length
    count as one iteration."""
    for op in ops_of(block):
        yield op, times
        inside = times
        if isinstance(op, LoopOp):
            least, _ = trips(op)
            inside *= least if 0 < least < FOREVER else 1
        elif isinstance(op, GraphLoopOp) and op.trip_count is not None:
            inside *= prod(constant_ints(op.trip_count) or (1,))
        for region in op.regions:
            for inner in region.blocks:
                yield from repeated(inner, inside)


def sent(op: Collective, mesh: Mesh) -> tuple[str, int]:
    """The name and the bytes of a collective: what is reduced, gathered or scattered on a device;
    of boxes what the device that sends most sends, unless each sends all others as much."""
    name = op.name.rpartition(".")[2]
    if not isinstance(op, OfWhole):
        return name, byte_size((op.result if isinstance(op, AllGatherOp) else op.input).type)
    bytes_sent, payload = sent_bytes(op, mesh), byte_size(op.input.type)
    devices = mesh.parts(op.group())
    if not isinstance(op, ExchangeOp) and bytes_sent * devices == payload * (devices - 1):
        return name, payload
    return ("halo" if is_halo(op, mesh) else "shift"), bytes_sent


def is_halo(op: OfWhole, mesh: Mesh) -> bool:
    """Tell whether a device in the middle keeps all that it has, and gets more."""
    transfers = Transfers(mesh, mesh.count // 2, op.whole, op.has.data, needs_of(op))
    return common(transfers.own, transfers.need) == list(transfers.own)


def axis_name(axis: Axis, mesh: Mesh) -> str:
    return axis.name if mesh.is_whole(axis) else f"{axis.name}:({axis.pre}){axis.size}"


def moved(row: dict[str, Any], mesh: Mesh) -> int:
    """The bytes that a device sends for a collective, by the algorithm that sends least."""
    payload: int = row["bytes"] * row["count"]
    if row["op"] in ("halo", "shift"):
        return payload
    sizes = (int(a.split(")")[1]) if ":" in a else mesh.sizes[a] for a in row["axes"])
    devices = prod(sizes)
    return (1 + (row["op"] == "all_reduce")) * (devices - 1) * payload // devices


def parameter_bytes(module: ModuleOp) -> int:
    """The bytes of the weights that a device keeps, of each once."""
    main, sizes = main_function(module), dict[str, int]()
    for op in () if main is None else all_ops(main.body.blocks):
        if isinstance(op, ConstantOp | TaskConstantOp) and isinstance(op.value, WeightAttr):
            sizes[op.value.data] = byte_size(op.result.type) if has_size(op.result) else 0
    return sum(sizes.values())
