"""The `graph` dialect: mathematics on tensors, value semantics, one op for one operation.

Ops are grouped by family, a file each; `Graph` collects them from the modules below.
"""

from collections.abc import Sequence
from types import ModuleType
from typing import Any, cast

from xdsl.dialect_interfaces.constant_materialization import ConstantMaterializationInterface
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Attribute, Dialect, Operation
from xdsl.irdl import IRDLOperation

from ge.dialects.graph import (
    activation,
    attention,
    constant,
    control,
    convolution,
    creation,
    detection,
    elementwise,
    image,
    indexing,
    linear,
    normalization,
    pooling,
    quantization,
    recurrent,
    reduction,
    shape,
    signal,
    slicing,
    trigonometry,
)
from ge.dialects.graph.constant import ConstantOp, WeightAttr

FAMILIES: tuple[ModuleType, ...] = (
    activation,
    attention,
    constant,
    control,
    convolution,
    creation,
    detection,
    elementwise,
    image,
    indexing,
    linear,
    normalization,
    pooling,
    quantization,
    recurrent,
    reduction,
    shape,
    signal,
    slicing,
    trigonometry,
)


class _MaterializeConstant(ConstantMaterializationInterface):
    def materialize_constant(self, value: Attribute, type: Attribute) -> Operation | None:
        if isinstance(value, DenseIntOrFPElementsAttr | WeightAttr):
            return ConstantOp.make(cast(Attribute, value), type)
        return None


def _defined(kind: type, modules: Sequence[ModuleType]) -> list[Any]:
    """The named classes of a kind that the modules define, in order of definition."""
    return [
        c
        for m in modules
        for c in vars(m).values()
        # cheap tests first: this runs at the start of every tool
        if isinstance(c, type)
        and c.__module__ == m.__name__
        and "name" in vars(c)
        and issubclass(c, kind)
    ]


def ops_of(*modules: ModuleType) -> list[type[Operation]]:
    """The op classes that the modules define."""
    return _defined(IRDLOperation, modules)


def attributes_of(*modules: ModuleType) -> list[type[Attribute]]:
    """The attribute classes that the modules define."""
    return _defined(Attribute, modules)


Graph = Dialect("graph", ops_of(*FAMILIES), attributes_of(*FAMILIES), [_MaterializeConstant()])
