"""The `graph` dialect: mathematics on tensors, value semantics, one op for one operation.

Ops are grouped by family, a file each; `Graph` collects them from the modules below.
"""

from types import ModuleType

from xdsl.dialect_interfaces.constant_materialization import ConstantMaterializationInterface
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Attribute, Dialect, Operation, ParametrizedAttribute
from xdsl.irdl import IRDLOperation

from ge.dialects.graph import constant, elementwise, quantization, reduction
from ge.dialects.graph.constant import ConstantOp, WeightAttr

FAMILIES: tuple[ModuleType, ...] = (constant, elementwise, quantization, reduction)


class _MaterializeConstant(ConstantMaterializationInterface):
    def materialize_constant(self, value: Attribute, type: Attribute) -> Operation | None:
        if isinstance(value, DenseIntOrFPElementsAttr | WeightAttr):
            return ConstantOp.make(value, type)
        return None


def ops_of(*modules: ModuleType) -> list[type[IRDLOperation]]:
    """The op classes that the modules define, in order of definition."""
    return [
        c
        for m in modules
        for c in vars(m).values()
        if isinstance(c, type)
        and issubclass(c, IRDLOperation)
        and c.__module__ == m.__name__
        and "name" in vars(c)
    ]


def attributes_of(*modules: ModuleType) -> list[type[Attribute]]:
    """The attribute classes that the modules define."""
    return [
        c
        for m in modules
        for c in vars(m).values()
        if isinstance(c, type)
        and issubclass(c, Attribute)
        and c is not ParametrizedAttribute
        and c.__module__ == m.__name__
        and "name" in vars(c)
    ]


Graph = Dialect(
    "graph", ops_of(*FAMILIES), attributes_of(*FAMILIES), [_MaterializeConstant()]
)
