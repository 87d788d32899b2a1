"""The body of a `tile.map`, of an expression."""

from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import (
    TensorType,
    i1,
)
from xdsl.ir import Attribute, Block, SSAValue

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.elementwise import CastOp, SelectOp
from ge.dialects.graph.support.folding import constants
from ge.dialects.support.element_types import is_float
from ge.dialects.support.types import tensor
from ge.runtime.library.language import values as v

if TYPE_CHECKING:
    from ge.runtime.library.language.tracing import Tracer


class MapBody:
    """The region of one `tile.map`, while it is written."""

    def __init__(self, tracer: "Tracer") -> None:
        self.tracer = tracer
        self.block = Block()
        self.tiles: list[v.Tile] = []
        self.known: dict[v.Expression, SSAValue] = {}

    def value(self, expression: v.Expression) -> SSAValue:
        if expression not in self.known:
            self.known[expression] = self.emit(expression)
        return self.known[expression]

    def emit(self, expression: v.Expression) -> SSAValue:
        match expression:
            case v.Apply():
                args = [self.operand(a, expression) for a in expression.args]
                op = expression.op.of(*args, **expression.parameters)
            case v.Copied():
                op = expression.op.with_operands([self.value(a) for a in expression.args])
            case v.Number():
                return self.constant(expression.number, expression.element)
            case v.Cast():
                op = CastOp.of(self.value(expression.arg), to=expression.element)
            case _:  # what the vector unit does not compute elementwise is a tile of its own
                tile = self.tracer.tile_of(expression)
                self.tiles.append(tile)
                return self.block.insert_arg(tile.type.tensor, len(self.block.args))
        self.block.add_op(op)
        return op.results[0]

    def operand(self, arg: v.Value, user: v.Apply) -> SSAValue:
        if isinstance(arg, v.Expression):
            return self.value(arg)
        others = [a for a in user.args if isinstance(a, v.Expression)]
        return self.constant(arg, others[-1].element)

    def constant(self, number: float, element: Attribute) -> SSAValue:
        type = tensor((1, 1), element)
        value = constants(number if is_float(element) else int(number), type)
        assert value is not None
        assert isinstance(value[0], Attribute)
        op = ConstantOp.make(value[0], type)
        self.block.add_op(op)
        return op.result

    def broadcast(self, value: SSAValue, wanted: Attribute) -> SSAValue:
        """A row or a column repeated to a whole tile."""
        shape = cast("TensorType[Attribute]", wanted).get_shape()
        always = constants(1, tensor(shape, i1))
        assert always is not None
        assert isinstance(always[0], Attribute)
        condition = ConstantOp.make(always[0], tensor(shape, i1))
        op = SelectOp.of(condition.result, value, value)
        self.block.add_ops((condition, op))
        return op.results[0]
