"""Which ops there are to make launches of, and what each can be part of."""

from collections.abc import Iterator

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import NoMemoryEffect

from ge.dialects.fused_op import FusedOp
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.shape import is_shape_arithmetic
from ge.dialects.support.boxes import Access
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import has_size, is_ranked, numel, shape_of
from ge.transforms.analysis.views import view_offsets
from ge.transforms.graph.prepare_weights import FUNCTION

REGION = (
    Access.POINTWISE,
    Access.VIEW,
    Access.MOVEMENT,
    Access.LOOKUP,
    Access.WINDOW,
    Access.ROWS,
)


def blocks_of(module: ModuleOp) -> Iterator[Block]:
    """The blocks of the program: function bodies and control flow in them, but neither bodies of
    fused ops nor the function that prepares weights."""

    def walk(block: Block) -> Iterator[Block]:
        yield block
        for op in block.ops:
            if not isinstance(op, FusedOp):
                for region in op.regions:
                    for inner in region.blocks:
                        yield from walk(inner)

    for func in module.ops:
        if isinstance(func, FuncOp) and func.sym_name.data != FUNCTION and func.body.blocks:
            yield from walk(func.body.block)


def is_view(op: Operation) -> bool:
    """Whether the result of an op is memory of its operand, so that it is no launch."""
    return view_offsets(op) is not None


def is_pure(op: Operation) -> bool:
    """Whether the results of a graph op follow from its operands alone."""
    return (
        isinstance(op, TensorOp)
        and not op.regions
        and not isinstance(op, ConstantOp)
        and op.has_trait(NoMemoryEffect)
    )


def can_join(op: Operation) -> bool:
    """Whether an op can be part of a launch. Shape arithmetic is no work for the NPU."""
    return is_pure(op) and not is_shape_arithmetic(op) and all(map(is_ranked, op.results))


def is_vector_op(op: Operation) -> bool:
    """Whether a launch of the vector unit can hold the op."""
    return can_join(op) and not isinstance(op, FusedOp) and access(op) in REGION


def size_of(value: SSAValue) -> int | None:
    """The number of elements, None where unknown."""
    return numel(shape_of(value)) if has_size(value) else None


def access(op: Operation) -> Access:
    return op.ACCESS if isinstance(op, TensorOp) else Access.WHOLE
