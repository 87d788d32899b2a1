"""Compute at compile time what depends on constants only, with the runtime's own kernels.

    %0 = graph.constant dense<[2, 3]> : tensor<2xi64>
    %1 = graph.constant dense<[1, 2]> : tensor<2xi64>
    %2 = graph.mul %0, %1 : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi64>
    %3 = graph.reshape %x shape %2 ...
becomes
    %3 = graph.reshape %x shape [2, 6] ...

Types are inferred again on the way, as folding a reshape target or slice limits makes shapes known,
which makes more ops fold: one walk in program order reaches the common fixpoint outside of loops.
Results over `limit` bytes stay expressions (see prepare-weights), and so does all that depends on
weights: compiling needs no payload.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import cast

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.dialects.func import FuncOp
from xdsl.interfaces import HasFolderInterface
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.irdl import VerificationContext
from xdsl.utils.exceptions import VerifyException

from ge.dialects import graph as g
from ge.dialects.fused_op import FusedOp
from ge.dialects.support.errors import GeError
from ge.dialects.support.operation import created, segments
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import (
    AnyTensor,
    Dense,
    byte_size,
    constant_ints,
    constant_value,
    folds,
    has_size,
    int_array,
    shape_of,
    tensor,
)
from ge.runtime import numbers
from ge.runtime.data.arrays import array_of, dense
from ge.transforms.graph.control_flow import insert_before, is_pure, nested_blocks, replace_op
from ge.transforms.graph.infer_shapes import infer_loop, infer_op, refresh_signature
from ge.transforms.rewriting.passes import FunctionPass

# Bytes of what follows from the sizes of a gear, or of a run, as distances of queries and keys do:
# as much as prepare-weights computes at load where the sizes are known at once
FROM_SIZES = 1 << 20

OPERANDS = "operandSegmentSizes"
SEGMENTS = (OPERANDS, "resultSegmentSizes")


def fold(op: TensorOp, limit: int) -> list[Dense] | None:
    """The values of the op's results if all operands are constants in the IR and the results take
    at most `limit` bytes together. Quantized weights stay integers, for `lower-quantization`."""
    if isinstance(op, g.ConstantOp) or op.regions or not is_pure(type(op)) or not op.results:
        return None
    if isinstance(op, g.DequantizeOp) and len(shape_of(op.input)) > 0:
        return None
    values: list[Dense] = []
    for operand in op.operands:
        if (value := constant_value(operand)) is None:
            return None
        values.append(value)
    if sum(byte_size(r.type) for r in op.results if has_size(r)) > limit:
        return None
    try:
        results = numbers.evaluate(op, [array_of(v) for v in values])
    except (GeError, ArithmeticError, ValueError, IndexError, MemoryError):
        return None  # the error belongs to the run, if the op is ever reached
    if sum(r.nbytes for r in results) > limit:
        return None
    return [dense(r) for r in results]


@cache
def _folds(kind: type[TensorOp]) -> bool:
    return folds(kind) and not issubclass(kind, g.ConstantOp)


def fold_identity(op: TensorOp) -> Sequence[SSAValue | Attribute] | None:
    """The results of the op's own `fold`: operands, or values that follow from types alone (the
    shape of a static tensor)."""
    # the interface is an abstract base class of xDSL's, which is slow to ask
    return cast(HasFolderInterface, op).fold() if _folds(type(op)) else None


def fold_parameters(op: TensorOp) -> TensorOp | None:
    """The same op with constant parameter operands as properties (see TensorOp.PARAMETERS), None
    if it has none."""
    known: dict[str, tuple[str, Attribute]] = {}
    definition = op.get_irdl_definition()
    for operand, prop in op.PARAMETERS.items():
        value: SSAValue | None = getattr(op, operand)
        if value is not None and (ints := constant_ints(value)) is not None:
            if (attr := _parameter(type(op), prop, ints)) is not None:
                known[operand] = prop, attr
    if not known:
        return None
    operands, sizes = list[SSAValue](), list[int]()
    for name, _ in definition.operands:
        group: SSAValue | Sequence[SSAValue] | None = None if name in known else getattr(op, name)
        values = () if group is None else (group,) if isinstance(group, SSAValue) else group
        operands += values
        sizes.append(len(values))
    properties = {k: v for k, v in op.properties.items() if k not in SEGMENTS}
    properties.update(known.values())
    for name in SEGMENTS:
        if name in op.properties:
            own = name == OPERANDS
            properties[name] = segments(*sizes) if own else op.properties[name]
    new = created(type(op), operands, [r.type for r in op.results], properties)
    new.attributes.update(op.attributes)
    return new


@lru_cache(maxsize=4096)
def _parameter(kind: type[TensorOp], prop: str, ints: tuple[int, ...]) -> Attribute | None:
    """`ints` as the property takes them: an array or one integer."""
    definition = kind.get_irdl_definition()
    forms: list[Attribute] = [int_array(ints)]
    if len(ints) == 1:
        forms.append(IntegerAttr(ints[0], i64))
    for attr in forms:
        try:
            definition.properties[prop].constr.verify(attr, VerificationContext())
            return attr
        except VerifyException:
            continue
    return None


def fold_block(
    block: Block, limit: int, fold_fused: Callable[[FusedOp, int], None] | None = None
) -> None:
    """Fold the ops of a block and of blocks in it, and infer their types; results have at most
    `limit` bytes. Fused ops are folded as a whole, or by `fold_fused`."""
    for op in list(block.ops):
        if fold_fused is not None and isinstance(op, FusedOp):
            fold_fused(op, limit)
            continue
        if isinstance(op, g.LoopOp):
            infer_loop(op)
        for inner in nested_blocks(op):
            fold_block(inner, limit, fold_fused)
        if isinstance(op, TensorOp):
            fold_op(op, limit)


def fold_op(op: TensorOp, limit: int) -> None:
    """Fold and infer one op; it may be replaced by a simpler one, or by values."""
    if op.PARAMETERS and (simpler := fold_parameters(op)) is not None:
        insert_before(op, simpler)
        replace_op(op, simpler.results)
        op = simpler
    infer_op(op)
    if (values := fold_identity(op) or fold(op, limit)) is not None:
        replace_op(op, [v if isinstance(v, SSAValue) else _constant(op, v) for v in values])


def _constant(before: Operation, value: Attribute) -> SSAValue:
    elements = cast(Dense, value)
    shaped = cast(AnyTensor, elements.type)
    t = tensor(shaped.get_shape(), shaped.element_type)
    return insert_before(before, g.ConstantOp.make(elements, t)).result


@dataclass(frozen=True)
class FoldConstantsPass(FunctionPass):
    """Compute what depends on constants only; infer shapes again on the way.
    `limit`: largest result, in bytes, that becomes a constant in the IR."""

    name = "fold-constants"

    limit: int = 1024

    def run(self, func: FuncOp) -> None:
        fold_block(func.body.block, self.limit)
        refresh_signature(func)
