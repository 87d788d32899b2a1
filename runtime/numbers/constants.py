"""Values that depend on constants only."""

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Operation, SSAValue

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.support.diagnostics import location_of
from ge.dialects.support.errors import GeError
from ge.dialects.support.types import constant_value
from ge.runtime import numbers
from ge.runtime.data.arrays import Array, array_of
from ge.runtime.data.weights import Payload, restored


class Constants:
    """Evaluates expressions of constants, each op once. Good for one state of the ops."""

    def __init__(self, payload: Payload | None) -> None:
        self.payload = payload
        self._known: dict[SSAValue, Array] = {}
        self._prepared: dict[Operation, numbers.Fn] = {}

    def value(self, value: SSAValue) -> Array:
        """The elements of a value that depends on constants only, read-only. Raises GeError for a
        weight that the payload does not have."""
        stack = [value]
        while stack:
            op = stack[-1].owner
            assert isinstance(op, Operation)
            missing = [o for o in op.operands if o not in self._known]
            if not missing:
                stack.pop()
                for result, array in zip(op.results, self._results(op), strict=True):
                    array = array.view()
                    array.flags.writeable = False
                    self._known[result] = array
            stack += missing
        return self._known[value]

    def forget(self) -> None:
        """Drop all values evaluated so far."""
        self._known.clear()

    def _results(self, op: Operation) -> Sequence[Array]:
        if isinstance(op, ConstantOp):
            return (self.constant(op),)
        return self.compute(op, [self._known[o] for o in op.operands])

    def constant(self, op: ConstantOp) -> Array:
        if (value := constant_value(op.result)) is not None:
            return array_of(value)
        assert op.key is not None
        weight = None if self.payload is None else self.payload.get(op.key)
        if weight is None:
            hint = "put the weights beside the model"
            raise GeError(f"weight '{op.key}' is not in the payload", str(location_of(op)), hint)
        return restored(weight, op.result.type)

    def compute(self, op: Operation, operands: Sequence[Array], spare: int = -1) -> list[Array]:
        """The results of any op for these operands; in the array of operand `spare`, which nobody
        reads any more, where the op's function can. Raises GeError where it cannot be computed."""
        if op not in self._prepared:
            self._prepared[op] = numbers.prepare(op)
        function, named = self._prepared[op], dict[str, Array]()
        if spare >= 0 and numbers.may_overwrite(op, function):
            named["out"] = operands[spare]
        try:
            with np.errstate(all="ignore"):
                return list(map(np.asarray, numbers.results_of(function(*operands, **named))))
        except (ArithmeticError, ValueError, IndexError, MemoryError) as e:
            raise GeError(f"'{op.name}' cannot be computed: {e}", str(location_of(op))) from e
