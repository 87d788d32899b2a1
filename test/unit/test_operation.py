"""The short way to construct an op makes the op that xDSL makes, and refuses what xDSL refuses."""

from typing import Any

import pytest
from xdsl.dialects.builtin import IndexType, IntegerAttr, MemRefType, f32, i64
from xdsl.dialects.test import TestOp
from xdsl.ir import Block, Region
from xdsl.irdl import IRDLOperation
from xdsl.irdl.operations import get_accessors_from_op_def

from ge.dialects.graph.control import LoopOp
from ge.dialects.graph.elementwise import AddOp, CastOp, ClampOp
from ge.dialects.graph.indexing import OneHotOp
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.shape import ReshapeOp
from ge.dialects.support.operation import GeOp
from ge.dialects.support.types import tensor
from ge.dialects.tile.buffers import AllocOp, ViewOp
from ge.dialects.tile.kernel import CoreOp, CubeOp
from ge.dialects.tile.types import BoxType, Memory, TileType

T = tensor((4, 4), f32)
INDEX = IndexType()
VALUES = TestOp(result_types=[T, T, MemRefType(f32, (8, 8)), INDEX, INDEX]).results
X, Y, M, ROW, COL = VALUES
CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "operands": (AddOp, {"operands": [X, Y], "result_types": [T]}),
    "an op for its result": (CastOp, {"operands": [TestOp(result_types=[T])], "result_types": [T]}),
    "properties by default": (MatmulOp, {"operands": [X, Y], "result_types": [T]}),
    "properties": (
        MatmulOp,
        {
            "operands": [X, Y],
            "result_types": [T],
            "properties": {"transpose_lhs": IntegerAttr.from_bool(True), "none": None},
            "attributes": {"mark": IntegerAttr(1, i64)},
        },
    ),
    "a list": (ViewOp, {"operands": [M, [ROW, COL]], "result_types": [BoxType(2, 2, f32)]}),
    "an empty list": (ViewOp, {"operands": [M, []], "result_types": [BoxType(2, 2, f32)]}),
    "no operands": (CoreOp, {"result_types": [INDEX]}),
    "a list of one type": (AllocOp, {"result_types": [[TileType(16, 16, f32, Memory.UB)]]}),
    "one operand for two": (AddOp, {"operands": [X], "result_types": [T]}),
    "two in the place of one": (AddOp, {"operands": [X, [X, Y]], "result_types": [T]}),
    "no type": (AddOp, {"operands": [X, Y], "result_types": [None]}),
    "no region": (CubeOp, {}),
}


@pytest.mark.parametrize("name", CASES)
def test_constructor(name: str):
    kind, arguments = CASES[name]
    made: list[str] = []
    for constructor in (GeOp.__init__, IRDLOperation.__init__):
        op = kind.__new__(kind)
        try:
            constructor(op, **arguments)
        except (ValueError, AttributeError) as e:
            made.append(str(e))
            continue
        assert all(op in [u.operation for u in v.uses] for v in op.operands)
        operands = [id(v) for v in op.operands]
        made.append(f"{op.properties} {op.attributes} {operands} {[*op.result_types]}")
    assert made[0] == made[1]


def test_regions():
    region = Region(Block())
    program = CubeOp(region)
    assert region.parent is program


NAMED: list[tuple[type[GeOp], list[Any]]] = [
    (AddOp, [X, Y]),
    (ViewOp, [M, [ROW, COL]]),
    (ClampOp, [X, None, Y]),
    (ReshapeOp, [X, Y]),
    (ReshapeOp, [X, None]),
    (OneHotOp, [X, Y, X]),
    (LoopOp, [X, None, [X, Y]]),
]


@pytest.mark.parametrize(("kind", "operands"), NAMED)
def test_accessors(kind: type[GeOp], operands: list[Any]):
    """What an op's names say is what xDSL's accessors find."""
    definition, op = kind.get_irdl_definition(), kind.__new__(kind)
    results = [[T, T] if kind is LoopOp else T]
    regions = [Region(Block()) for _ in definition.regions]
    IRDLOperation.__init__(op, operands=operands, result_types=results, regions=regions)
    accessors = get_accessors_from_op_def(definition, None)
    for defs in (definition.operands, definition.results, definition.regions):
        for name, _ in defs:
            found, wanted = getattr(op, name), accessors[name].__get__(op)
            assert found is wanted or [*found] == [*wanted]
            with pytest.raises(AttributeError):
                setattr(op, name, None)
