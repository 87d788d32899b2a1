"""An op as it would be if the dimensions that are known only at run time had numbers."""

from collections.abc import Callable

from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from ge.dialects.support.operation import block_of, initialize, operands_of
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import (
    DYNAMIC,
    element_type,
    is_ranked,
    is_static,
    set_type,
    shape_of,
    tensor,
)

STEP = 60  # what dimensions are often divided by divides it


def stand_in(op: TensorOp, number: Callable[[SSAValue, int], int]) -> TensorOp | None:
    """The op where dimensions of operands that are not known, of a value and an axis, have these
    numbers; None where it does not take them, or where sizes of results do not follow from them. It
    stands nowhere, and leaves no uses of values."""

    def static(value: SSAValue) -> SSAValue:
        if not is_ranked(value) or is_static(shape := shape_of(value)):
            return value
        sizes = [number(value, i) if d == DYNAMIC else d for i, d in enumerate(shape)]
        return block_of([tensor(sizes, element_type(value))]).args[0]

    kind, types = type(op), [r.type for r in op.results]
    made = kind.__new__(kind)
    initialize(made, map(static, operands_of(op)), types, dict(op.properties))
    try:
        inferred = made.inferred()
    except VerifyException:
        return None
    finally:
        made.drop_all_references()  # it knows its operands, which do not know of it
    for result, of in zip(made.results, inferred, strict=True):
        set_type(result, of)
    return made if all(is_ranked(r) and is_static(shape_of(r)) for r in made.results) else None
