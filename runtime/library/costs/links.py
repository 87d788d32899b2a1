"""The time of what devices send each other: a start, and bytes at the rate of links of a full mesh,
where each device reaches each other one by a link of its own."""

from math import prod

from xdsl.ir import Operation

from ge.dialects.graph.collectives import (
    AllGatherOp,
    AllReduceOp,
    Collective,
    OfWhole,
    ReduceScatterOp,
)
from ge.dialects.graph.sharding import mesh_of
from ge.dialects.graph.transfers import sent_bytes
from ge.dialects.support.functions import module_around
from ge.dialects.support.mesh import Mesh
from ge.dialects.support.types import byte_size

START_US = 10.0  # of a collective: an assumption of the vendor's simulator (msmodeling)
LINK_BYTES_PER_US = 18e3  # that collectives reach of 28 GB/s nominal, one way (limulidae, CANN 8.0)
ACKNOWLEDGE_US = 1.0  # latency within a server (hixl, fitted)


def collective_us(op: Operation) -> float:
    """Time of a collective, or of what acknowledges one. Of boxes, the device that sends most has a
    link for each other one that it sends to: an assumption."""
    if not isinstance(op, Collective):
        return ACKNOWLEDGE_US
    devices = prod(a.size for a in op.group())
    if devices < 2:
        return 0.0
    largest = max(byte_size(v.type) for v in (op.input, op.result))
    match op:
        case AllGatherOp() | ReduceScatterOp():
            return START_US + largest / devices / LINK_BYTES_PER_US
        case AllReduceOp():
            return 2 * (START_US + largest / devices / LINK_BYTES_PER_US)
        case OfWhole():
            sent = sent_bytes(op, mesh_around(op))
            return START_US + sent / max(devices - 1, 1) / LINK_BYTES_PER_US
        case _:
            return START_US + largest / LINK_BYTES_PER_US


def mesh_around(op: Operation) -> Mesh:
    """The mesh of the module of an op; one of the axes of the op where it is in none."""
    module = module_around(op)
    mesh = None if module is None else mesh_of(module)
    if mesh is None:
        assert isinstance(op, Collective)
        sizes: dict[str, int] = {}
        for axis in op.group():
            sizes[axis.name] = max(sizes.get(axis.name, 1), axis.pre * axis.size)
        mesh = Mesh(tuple(sizes.items()))
    return mesh
