"""The `graph` dialect: mathematics on tensors, value semantics, one op for one operation.

Ops are grouped by family, a file each; `Graph` collects them from the modules below. Passes write
`g.MatmulOp` with `from ge.dialects import graph as g`, whichever file it is in.
"""

# ruff: noqa: F403, F405

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
from ge.dialects.graph.acknowledge import *
from ge.dialects.graph.activation import *
from ge.dialects.graph.attention import *
from ge.dialects.graph.collectives import *
from ge.dialects.graph.constant import *
from ge.dialects.graph.control import *
from ge.dialects.graph.convolution import *
from ge.dialects.graph.creation import *
from ge.dialects.graph.elementwise import *
from ge.dialects.graph.image import *
from ge.dialects.graph.indexing import *
from ge.dialects.graph.linear import *
from ge.dialects.graph.normalization import *
from ge.dialects.graph.pooling import *
from ge.dialects.graph.quantization import *
from ge.dialects.graph.recurrent import *
from ge.dialects.graph.reduction import *
from ge.dialects.graph.shape import *
from ge.dialects.graph.sharding import *
from ge.dialects.graph.signal import *
from ge.dialects.graph.slicing import *
from ge.dialects.graph.support import window
from ge.dialects.graph.transfers import *
from ge.dialects.support.definitions import attributes_of, ops_of

FAMILIES: tuple[ModuleType, ...] = (
    acknowledge, activation, attention, collectives, constant, control, convolution, creation,
    elementwise, image, indexing, linear, normalization, pooling, quantization, recurrent,
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
