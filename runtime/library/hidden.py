"""Elements of constants that no program depends on: nobody who writes one sees them."""

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Operation

from ge.dialects.graph.constant import ConstantOp, WeightAttr
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import element_type, numel, shape_of


def hide(constants: Sequence[ConstantOp]) -> None:
    """Take the elements of constants away."""
    for constant in constants:
        constant.value = WeightAttr("")


@contextmanager
def unseen(constants: Sequence[ConstantOp]) -> Generator[None]:
    """Without the elements of these. Whoever writes the program does not see them either, so that
    it cannot depend on what the key has not."""
    values = [constant.value for constant in constants]
    hide(constants)
    try:
        yield
    finally:
        for constant, value in zip(constants, values, strict=True):
            constant.value = value


def data_of(ops: Sequence[Operation]) -> list[ConstantOp]:
    """Constants whose elements no program depends on: operands in device memory, floats, more than
    one of them. Where an op has a parameter as an operand (scales of a resize), there are none."""
    if has_parameters(ops):
        return []
    return [op for op in ops if isinstance(op, ConstantOp) and is_data(op)]


def has_parameters(ops: Iterable[Operation]) -> bool:
    return any(map(has_parameter, ops))


def has_parameter(op: Operation) -> bool:
    """Whether an operand is what the op does, not what it does it with."""
    return isinstance(op, TensorOp) and any(getattr(op, name) is not None for name in op.PARAMETERS)


def is_data(constant: ConstantOp) -> bool:
    kind = element_type(constant.result)
    return isinstance(kind, AnyFloat) and numel(shape_of(constant.result)) > 1
