"""Building the ops of a replacement: `make(MulOp, x, y)` is the product of two values."""

from collections.abc import Sequence
from typing import Any, Self, TypeVar, cast

import numpy as np
from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.support.parameters import Number, constants
from ge.dialects.support.operation import put_before
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import Dense, element_type, tensor
from ge.runtime.data.arrays import Array, array_of, dense, dtype_of, type_of

OpT = TypeVar("OpT", bound=Operation)


class Make:
    """Creates ops. Each is inserted at once before an op, with its location or another one; without
    it they wait in `ops`, for a rule that may still decide against them."""

    def __init__(
        self, before: Operation | None = None, location: LocationAttr | None = None
    ) -> None:
        self.ops: list[Operation] = []
        self.before = before
        self.location = before.location if location is None and before is not None else location

    @classmethod
    def behind(cls, value: SSAValue) -> Self:
        """Inserts right behind the definition of a value."""
        if isinstance(value, OpResult):
            assert value.op.next_op is not None
            return cls(value.op.next_op, value.op.location)
        assert isinstance(value.owner, Block)
        return cls(value.owner.first_op)

    def add(self, new: OpT) -> OpT:
        """Take an op; returns it."""
        if self.location is not None:
            new.location = self.location
        self.put(new)
        return new

    def put(self, new: Operation) -> None:
        if self.before is None:
            self.ops.append(new)
        else:
            assert self.before.parent is not None
            put_before(self.before.parent, new, self.before)

    def op(self, kind: type[OpT], /, *operands: Any, **params: Any) -> OpT:
        make = kind.of if issubclass(kind, TensorOp) else kind  # of infers types of results
        return self.add(make(*operands, **params))

    def __call__(self, kind: type[Operation], /, *operands: Any, **params: Any) -> SSAValue:
        """Create `kind.of(...)`, of another dialect `kind(...)`; returns its first result."""
        return self.op(kind, *operands, **params).results[0]

    def constant(self, array: Array) -> SSAValue:
        return self.dense(dense(array))

    def number(self, number: float, like: SSAValue, *shape: int) -> SSAValue:
        """A splat constant of the element type of `like`."""
        return self.constant(np.full(shape, number).astype(dtype_of(element_type(like))))

    def splat(self, number: Number, element: Attribute, shape: Sequence[int] = ()) -> SSAValue:
        folded = constants(number, tensor(shape, element))
        assert folded is not None
        return self.dense(folded[0])

    def dense(self, value: SSAValue | Attribute) -> SSAValue:
        if isinstance(value, SSAValue):
            return value
        return self.add(ConstantOp.make(value, type_of(array_of(cast(Dense, value))))).result

    def discard(self) -> None:
        """Drop the ops that wait."""
        while self.ops:
            self.ops.pop().erase()
