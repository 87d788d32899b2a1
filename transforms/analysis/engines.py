"""Choice of the engine that executes a kernel: cube: the op has multiply-accumulates (matmul,
convolution, attention, recurrence); 2. host: shape arithmetic (short vectors and scalars of
integers), or an op whose result shape depends on the *values* of its operands (nonzero, unique,
...); 3. comm: what devices send each other; 4. vector: everything else.

Where users chose an engine (`fused_op.ENGINE`), shape arithmetic may run on the vector cores.
"""

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from ge.dialects import graph as g
from ge.dialects.fused_op import ENGINE, FusedOp
from ge.dialects.graph.shape import is_shape_arithmetic
from ge.dialects.npu_task.attributes import Engine
from ge.dialects.support.operation import operands_of
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import (
    DYNAMIC,
    element_type,
    is_dynamic,
    is_ranked,
    set_type,
    shape_of,
    tensor,
)

COLLECTIVES = g.Collective, g.AcknowledgeOp


def choose_engine(op: TensorOp, members: Sequence[TensorOp] = ()) -> Engine:
    """Return the engine for a kernel that computes `op` (see the top of this file), which consists
    of `members`, if these are known."""
    members = members or (op.members if isinstance(op, FusedOp) else (op,))
    if any([o.ALWAYS_MACS and has_elements(o) for o in members]):
        return Engine.CUBE
    dynamic = any([is_dynamic(v.type) for v in (*operands_of(op), *op.results)])
    instance = an_instance(op) if dynamic else op
    work = None if instance is None else instance.work()
    if (work is not None and work.macs) or (dynamic and any(o.ALWAYS_MACS for o in members)):
        return Engine.CUBE
    if isinstance(op, COLLECTIVES):
        return Engine.COMM
    if all(map(is_shape_arithmetic, members)):
        return Engine.VECTOR if any(map(on_vector_cores, members)) else Engine.HOST
    if instance is not None and dynamic and shape_depends_on_values(op, instance):
        return Engine.HOST
    return Engine.VECTOR


def has_elements(op: Operation) -> bool:
    """Return whether shapes are static, and each operand and result has elements."""
    values = (*operands_of(op), *op.results)
    return not any([is_dynamic(v.type) or 0 in shape_of(v) for v in values])


def on_vector_cores(op: Operation) -> bool:
    """Return whether users chose the vector cores for an op."""
    return op.attributes.get(ENGINE) == StringAttr(Engine.VECTOR)


def shape_depends_on_values(op: TensorOp, instance: TensorOp) -> bool:
    """Return whether a result's shape is unknown although everything is known that types and
    parameters can say. `instance` is the op with every dimension known."""
    if isinstance(op, FusedOp) or any(getattr(op, name) is not None for name in op.PARAMETERS):
        return False
    if not any(is_dynamic(r.type) for r in op.results):
        return False
    try:
        return any(is_dynamic(t) for t in instance.inferred())
    except VerifyException:
        return False


def an_instance(op: TensorOp) -> TensorOp | None:
    """The op on operands and results without `?`: a dynamic dimension is taken to be 1, or
    another one of the op's dimensions where 1 does not fit. None when nothing fits."""
    known = [shape_of(v) for v in (*op.operands, *op.results) if is_ranked(v)]
    sizes = {d for shape in known for d in shape if d != DYNAMIC}
    for size in (1, *sorted(sizes - {1})):
        clone = _copy(op)
        for value in _values(clone):
            if not _fix(value, size):
                return None
        try:
            if clone.work() is not None:
                return clone
        except VerifyException:
            continue
    return None


def _copy(op: TensorOp) -> TensorOp:
    block = Block()
    inside: dict[SSAValue, SSAValue] = {}
    for value in op.operands:
        if isinstance(value.owner, g.ConstantOp):
            constant = value.owner.clone()
            block.add_op(constant)
            inside[value] = constant.result
        elif value not in inside:
            inside[value] = block.insert_arg(value.type, len(block.args))
    clone = op.clone(inside)
    block.add_op(clone)
    return clone


def _values(op: Operation) -> list[SSAValue]:
    values: list[SSAValue] = [*op.operands]
    for inner in op.walk():
        values.extend(inner.results)
        values.extend(a for r in inner.regions for b in r.blocks for a in b.args)
    return values


def _fix(value: SSAValue, size: int) -> bool:
    if not is_ranked(value):
        return False
    if is_dynamic(value.type):
        shape = (size if d == DYNAMIC else d for d in shape_of(value))
        set_type(value, tensor(shape, element_type(value)))
    return True
