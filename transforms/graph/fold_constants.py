"""Compute at compile time what depends on constants only, with the runtime's own kernels.

    %0 = graph.constant dense<[2, 3]> : tensor<2xi64>
    %1 = graph.constant dense<[1, 2]> : tensor<2xi64>
    %2 = graph.mul %0, %1 : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi64>
    %3 = graph.reshape %x shape %2 ...
becomes
    %3 = graph.reshape %x {shape = array<i64: 2, 6>} ...

Types are inferred again on the way, so that what folding fixes (a reshape target, slice limits)
makes more shapes known, which makes more ops fold: one walk in program order reaches the common
fixpoint outside of loops. Results over `limit` bytes stay expressions (see prepare-weights), and
so does all that depends on weights: compiling needs no payload.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    ModuleOp,
    i64,
)
from xdsl.interfaces import HasFolderInterface
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.irdl import OpDef, VerificationContext
from xdsl.passes import ModulePass
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from ge.dialects.fused_op import FusedOp
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.control import LoopOp
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import defined_functions
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import (
    Dense,
    byte_size,
    constant_ints,
    constant_value,
    has_size,
)
from ge.runtime import kernels
from ge.runtime.data.arrays import array_of, dense, type_of
from ge.transforms.graph.infer_shapes import infer_loop, infer_op, refresh_signature


def fold(op: TensorOp, limit: int) -> list[Dense] | None:
    """The values of the op's results when all operands are constants in the text and the
    results take at most `limit` bytes together, else None."""
    if isinstance(op, ConstantOp | FusedOp) or op.regions or not op.has_trait(Pure):
        return None
    values = [constant_value(o) for o in op.operands]
    arrays = [array_of(v) for v in values if v is not None]
    if len(arrays) != len(values) or not op.results:
        return None
    static = [r.type for r in op.results if has_size(r)]
    if sum(byte_size(t) for t in static) > limit:
        return None
    try:
        results = kernels.evaluate(op, arrays)
    except (GeError, ArithmeticError, ValueError, IndexError, MemoryError):
        return None  # the error belongs to the run, if the op is ever reached
    if sum(r.nbytes for r in results) > limit:
        return None
    return [dense(r) for r in results]


def fold_identity(op: TensorOp) -> Sequence[SSAValue | Attribute] | None:
    """What the op's own `fold` says: an operand that a result equals, or a value that follows
    from types alone (the shape of a static tensor)."""
    if isinstance(op, ConstantOp) or not isinstance(op, HasFolderInterface):
        return None
    return op.fold()


def fold_parameters(op: TensorOp) -> TensorOp | None:
    """The same op with each constant parameter operand made a property (see
    TensorOp.PARAMETERS), None when it has none."""
    known: dict[str, tuple[str, Attribute]] = {}
    definition = op.get_irdl_definition()
    for operand, prop in op.PARAMETERS.items():
        value = cast(SSAValue | None, getattr(op, operand))
        if value is not None and (ints := constant_ints(value)) is not None:
            attr = _parameter(definition, prop, ints)
            if attr is not None:
                known[operand] = prop, attr
    if not known:
        return None
    groups: list[SSAValue | Sequence[SSAValue] | None] = [
        None if name in known else getattr(op, name) for name, _ in definition.operands
    ]
    results: list[Attribute | Sequence[Attribute] | None] = []
    for name, _ in definition.results:
        value = cast(SSAValue | Sequence[SSAValue] | None, getattr(op, name))
        if isinstance(value, Sequence):
            results.append([v.type for v in value])
        else:
            results.append(None if value is None else value.type)
    segments = ("operandSegmentSizes", "resultSegmentSizes")
    properties = {k: v for k, v in op.properties.items() if k not in segments}
    properties.update(known.values())
    return type(op)(
        operands=groups, result_types=results, properties=properties, attributes=op.attributes
    )


def _parameter(definition: OpDef, prop: str, ints: tuple[int, ...]) -> Attribute | None:
    """`ints` in the form that the property takes: an array or one integer."""
    forms: list[Attribute] = [DenseArrayBase.from_list(i64, ints)]
    if len(ints) == 1:
        forms.append(IntegerAttr(ints[0], i64))
    for attr in forms:
        try:
            definition.properties[prop].constr.verify(attr, VerificationContext())
            return attr
        except VerifyException:
            continue
    return None


def fold_block(block: Block, limit: int) -> None:
    """Fold and infer every op of a block in order, nested blocks on the way."""
    for op in list(block.ops):
        if isinstance(op, LoopOp):
            infer_loop(op)
        for region in op.regions:
            if not isinstance(op, FusedOp):
                for inner in region.blocks:
                    fold_block(inner, limit)
        if isinstance(op, TensorOp):
            fold_op(op, limit)


def fold_op(op: TensorOp, limit: int) -> None:
    """Fold and infer one op; it may be replaced by a simpler one, or by values."""
    if op.PARAMETERS and (simpler := fold_parameters(op)) is not None:
        _replace(op, simpler)
        op = simpler
    infer_op(op)
    if (values := fold_identity(op) or fold(op, limit)) is not None:
        _replace_by_values(op, values)


def _replace_by_values(op: TensorOp, values: Sequence[SSAValue | Attribute]) -> None:
    assert op.parent is not None
    for result, value in zip(op.results, values, strict=True):
        if isinstance(value, DenseIntOrFPElementsAttr):
            elements = cast(Dense, value)
            constant = ConstantOp.make(elements, type_of(array_of(elements)))
            constant.location = op.location
            op.parent.insert_op_before(constant, op)
            value = constant.result
        assert isinstance(value, SSAValue)
        result.replace_all_uses_with(value)
    _erase(op)


def _replace(old: Operation, new: Operation) -> None:
    assert old.parent is not None
    new.location = old.location
    old.parent.insert_op_before(new, old)
    for a, b in zip(old.results, new.results, strict=True):
        a.replace_all_uses_with(b)
    _erase(old)


def _erase(op: Operation) -> None:
    op.detach()
    op.erase()


@dataclass(frozen=True)
class FoldConstantsPass(ModulePass):
    """Compute what depends on constants only; infer shapes again on the way.
    `limit`: largest result, in bytes, that is put into the text."""

    name = "fold-constants"

    limit: int = 1024

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in defined_functions(op):
            fold_block(func.body.block, self.limit)
            refresh_signature(func)
