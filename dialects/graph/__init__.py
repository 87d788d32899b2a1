"""The `graph` dialect: mathematics on tensors, value semantics, one op for one operation.

Ops are grouped by family, a file each; `Graph` collects them from the modules below.
"""

from types import ModuleType
from typing import cast

from xdsl.dialect_interfaces.constant_materialization import ConstantMaterializationInterface
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Attribute, Dialect, Operation

from ge.dialects.graph import (
    acknowledge,
    activation,
    attention,
    collectives,
    constant,
    control,
    convolution,
    creation,
    elementwise,
    gears,
    image,
    indexing,
    linear,
    normalization,
    pooling,
    quantization,
    recurrent,
    reduction,
    shape,
    sharding,
    signal,
    slicing,
)
from ge.dialects.graph.constant import ConstantOp, WeightAttr
from ge.dialects.graph.support import window
from ge.dialects.support.definitions import attributes_of, ops_of

FAMILIES: tuple[ModuleType, ...] = (
    acknowledge, activation, attention, collectives, constant, control, convolution, creation,
    elementwise, gears, image, indexing, linear, normalization, pooling, quantization, recurrent,
    reduction, shape, sharding, signal, slicing,
)  # fmt: skip


class _MaterializeConstant(ConstantMaterializationInterface):
    def materialize_constant(self, value: Attribute, type: Attribute) -> Operation | None:
        if isinstance(value, DenseIntOrFPElementsAttr | WeightAttr):
            return ConstantOp.make(cast(Attribute, value), type)
        return None


Graph = Dialect(
    "graph", ops_of(*FAMILIES), attributes_of(*FAMILIES, window), [_MaterializeConstant()]
)
