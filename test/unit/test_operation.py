"""The short ways to make ops and to read what they name do what xDSL's own do."""

from abc import ABCMeta
from dataclasses import replace
from typing import Any, cast

import pytest
from xdsl.dialects.arith import AddiOp, ConstantOp
from xdsl.dialects.builtin import (
    Float32Type,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    f32,
)
from xdsl.dialects.scf import ForOp
from xdsl.dialects.test import TestOp
from xdsl.ir import (
    Attribute,
    Block,
    Operation,
    ParametrizedAttribute,
    Region,
    SSAValue,
    TypeAttribute,
)
from xdsl.irdl import IRDLOperation, irdl_attr_definition
from xdsl.irdl.operations import get_accessors_from_op_def
from xdsl.utils.exceptions import PyRDLOpDefinitionError, VerifyException

from ge.dialects.fused_op import FusedOps
from ge.dialects.graph import Graph
from ge.dialects.graph.control import LoopOp
from ge.dialects.graph.elementwise import AddOp, ClampOp
from ge.dialects.graph.indexing import OneHotOp
from ge.dialects.graph.shape import ReshapeOp
from ge.dialects.npu_task import NpuTask
from ge.dialects.support.operation import Declared, GeOp, cloned, created
from ge.dialects.support.types import tensor
from ge.dialects.text.reading import SourceText, parse_module
from ge.dialects.tile import Tile
from ge.dialects.tile.buffers import ViewOp
from ge.dialects.tile.kernel import CubeOp
from ge.dialects.tile.transfers import StoreOp
from ge.dialects.tile.types import BoxType, Memory, TileType
from ge.lowering.driver.context import context

T = tensor((4, 4), f32)
INDEX = IndexType()
VALUES = TestOp(result_types=[T, T, MemRefType(f32, (8, 8)), INDEX, INDEX]).results
X, Y, M, ROW, COL = VALUES
BOX, TILE = TestOp(result_types=[BoxType(2, 8, f32), TileType(2, 8, f32, Memory.UB)]).results


def test_regions():
    region = Region(Block())
    program = CubeOp(region)
    assert region.parent is program


NAMED: list[tuple[type[GeOp], list[Any]]] = [
    (AddOp, [X, Y]),
    (ViewOp, [M, [ROW, COL], []]),
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
    accessors = get_accessors_from_op_def(replace(definition, assembly_format=None), None)
    for defs in (definition.operands, definition.results, definition.regions):
        for name, _ in defs:
            found, wanted = getattr(op, name), accessors[name].__get__(op)
            assert found is wanted or [*found] == [*wanted]
            with pytest.raises(AttributeError):
                setattr(op, name, None)


@pytest.mark.parametrize(
    ("kind", "operands", "types", "properties"),
    [
        (AddiOp, (ROW, ROW), (INDEX,), {}),  # with what it has by default
        (ConstantOp, (), (INDEX,), {"value": IntegerAttr(3, INDEX)}),
        (ForOp, (ROW, ROW, ROW), (), {}),
        (AddOp, (X, X), (T,), {}),
    ],
)
def test_ops_of_any_dialect(kind: Any, operands: Any, types: Any, properties: Any) -> None:
    regions = [Region(Block(arg_types=[INDEX])) for _ in range(2)] if kind is ForOp else [None] * 2
    short = created(kind, operands, types, dict(properties), [r for r in regions[:1] if r])
    long = kind.create(
        operands=operands, result_types=types, properties=properties,
        regions=[r for r in regions[1:] if r],
    )  # fmt: skip
    assert short.is_structurally_equivalent(long)
    assert short.location == long.location
    for op in (short, long):
        users = [(u.operation, u.index) for v in dict.fromkeys(operands) for u in v.uses]
        assert [index for user, index in users if user is op] == [*reversed(range(len(operands)))]
    short.erase()
    assert not any(u.operation is short for v in operands for u in v.uses)


def test_what_a_class_verifies_itself() -> None:
    """Not what its definition says: of what kinds operands are."""
    store = StoreOp(TILE, X)
    with pytest.raises(VerifyException, match="expected a box"):
        store.verify_more()
    AddOp.of(X, Y).verify_more()
    mixed = AddOp.create(operands=[X, ROW], result_types=[T])
    with pytest.raises(VerifyException):
        mixed.verify_()


def test_the_formats_of_all_ops_are_read_when_they_are_asked_for() -> None:
    formats = 0
    for dialect in (Graph, FusedOps, NpuTask, Tile):
        for kind in dialect.operations:
            definition = cast("type[GeOp]", kind).get_irdl_definition()
            cells = getattr(kind.print, "__closure__", None) or ()
            declared = [c.cell_contents for c in cells if isinstance(c.cell_contents, Declared)]
            assert bool(declared) == (definition.assembly_format is not None), kind
            formats += len([d.program for d in declared])
    assert formats > 100


def test_a_wrong_format_is_told() -> None:
    declared = Declared("$nothing attr-dict", AddOp.get_irdl_definition())
    with pytest.raises(PyRDLOpDefinitionError, match=r"the assembly format of graph\.add: "):
        _ = declared.program


def test_a_fast_clone_is_the_clone():
    text = """
    func.func @main(%c: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
      %r = graph.if %c : (tensor<i1>) -> tensor<4xf32> {
        %a = fused_op.region(%x) : (tensor<4xf32>) -> tensor<4xf32> {
        ^bb0(%inner: tensor<4xf32>):
          %b = graph.exp %inner : (tensor<4xf32>) -> tensor<4xf32>
          %d = graph.neg %b : (tensor<4xf32>) -> tensor<4xf32>
          fused_op.yield %d : tensor<4xf32>
        }
        graph.yield %a : tensor<4xf32>
      } else {
        graph.yield %x : tensor<4xf32>
      }
      func.return %r : tensor<4xf32>
    }
    """
    (func,) = parse_module(context(), SourceText("test", text)).ops
    new = cloned(func, {})
    new.verify()
    assert new.is_structurally_equivalent(func)
    assert str(new) == str(func.clone())
    assert [o.location for o in new.walk()] == [o.location for o in func.walk()]


def test_classes_of_xdsl_are_checked_quickly(monkeypatch: pytest.MonkeyPatch):
    """Those that were there before, and those that are made later: Python code of abstract base
    classes is not asked."""

    @irdl_attr_definition
    class Later(ParametrizedAttribute, TypeAttribute):
        name = "test.later"

    asked = list[type]()
    monkeypatch.setattr(ABCMeta, "__instancecheck__", lambda cls, x: asked.append(cls))
    values = Later(), f32, IntegerType(8), Block(arg_types=[f32]).args[0]
    kinds = (Attribute, TypeAttribute, Later, Float32Type, SSAValue, Operation, AddiOp)
    found = [sum(isinstance(v, kind) for v in values) for kind in kinds]
    monkeypatch.undo()
    assert found == [3, 3, 1, 1, 1, 0, 0]
    assert not asked
