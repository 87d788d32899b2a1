"""`ge.host`: what users call."""

from ge.runtime.host.context import Context, Stream, Workspace
from ge.runtime.host.host import Called, Host, HostProgram
from ge.runtime.host.layers import LayerCall, Layers, layers
from ge.runtime.host.operation import (
    CapturedGraph,
    GraphOperation,
    Node,
    Operation,
    TensorDesc,
    VariantPack,
    capture,
    create_operation,
    register_operation,
)
from ge.runtime.host.schedule import HostOptions

__all__ = [
    "Called", "CapturedGraph", "Context", "GraphOperation", "Host", "HostOptions", "HostProgram",
    "LayerCall", "Layers", "Node", "Operation", "Stream", "TensorDesc", "VariantPack", "Workspace",
    "capture", "create_operation", "layers", "register_operation",
]  # fmt: skip
