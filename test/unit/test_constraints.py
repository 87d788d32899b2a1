"""Definitions say what ops take: a type that no kernel has is refused for each operand and result
of each op."""

from collections.abc import Iterator
from functools import cache

import pytest
from xdsl.dialects.builtin import (
    ComplexType,
    IndexType,
    MemRefType,
    NoneType,
    StringAttr,
    TensorType,
    UnrankedTensorType,
    f32,
    i1,
)
from xdsl.ir import Attribute, Block
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    OperandDef,
    ResultDef,
    VerificationContext,
)
from xdsl.utils.exceptions import VerifyException

from ge.dialects.fused_op import FusedOps
from ge.dialects.graph import Graph
from ge.dialects.npu_task import NpuTask
from ge.dialects.support.element_types import ELEMENT_TYPES
from ge.dialects.support.operation import created, segments
from ge.dialects.support.types import tensor
from ge.dialects.tile import Tile
from ge.dialects.tile.types import BoxType, FifoType, Memory, RingType, TileType

OPS = [
    op
    for dialect in (Graph, FusedOps, NpuTask, Tile)
    for op in dialect.operations
    if issubclass(op, IRDLOperation)
]

COMPLEX, INDEX = ComplexType(f32), IndexType()
NO_KERNEL_TAKES = {
    "encoded": TensorType(f32, (2, 2), StringAttr("csr")),
    "complex": TensorType(COMPLEX, (2, 2)),
    "index": TensorType(INDEX, (2, 2)),
    "unranked index": UnrankedTensorType(INDEX),
    "none": NoneType(),
}
ON_BUFFERS = {
    "complex memref": MemRefType(COMPLEX, (2, 2)),
    "index memref": MemRefType(INDEX, (2, 2)),
}
MEMREF = MemRefType(f32, (2, 2))


def takes(definition: OperandDef | ResultDef, t: Attribute) -> bool:
    try:
        definition.constr.verify((t,), VerificationContext())
    except VerifyException:
        return False
    return True


def known_types() -> Iterator[Attribute]:
    for row in ELEMENT_TYPES:
        for rank in range(5):
            yield tensor((2,) * rank, row.type)
    yield from (MEMREF, INDEX, i1)
    yield TileType(16, 16, f32, Memory.UB)
    yield RingType(2, 16, 16, f32, Memory.UB)
    yield from (BoxType(16, 16, f32), FifoType(16, 16, f32))


KNOWN = list(known_types())


@cache
def fitting(kind: type[IRDLOperation], name: str) -> Attribute:
    definition = dict(values(kind))[name]
    return next(t for t in KNOWN if takes(definition, t))


def built(kind: type[IRDLOperation], name: str, t: Attribute) -> IRDLOperation:
    """An op whose operand or result `name` has the type, and the others one that they may have."""
    definition = kind.get_irdl_definition()

    operands, results = (
        [t if n == name else fitting(kind, n) for n, _ in defs]
        for defs in (definition.operands, definition.results)
    )
    segmented = any(isinstance(o, AttrSizedOperandSegments) for o in definition.options)
    sizes = {"operandSegmentSizes": segments(*[1] * len(operands))} if segmented else {}
    return created(kind, Block(arg_types=operands).args, results, dict(sizes))


def values(kind: type[IRDLOperation]) -> list[tuple[str, OperandDef | ResultDef]]:
    definition = kind.get_irdl_definition()
    return [*definition.operands, *definition.results]


@pytest.mark.parametrize("kind", OPS, ids=lambda op: op.name)
def test_types_that_no_kernel_takes_are_refused(kind: type[IRDLOperation]):
    on_memrefs = kind.name.partition(".")[0] in ("npu_task", "tile")
    for name, definition in values(kind):
        refused = {**NO_KERNEL_TAKES, **ON_BUFFERS} | ({} if on_memrefs else {"memref": MEMREF})
        for what, t in refused.items():
            assert not takes(definition, t), f"{name} of {kind.name} may be {what}"
            with pytest.raises(VerifyException, match=f"(operand|result) '{name}'"):
                built(kind, name, t).verify()
