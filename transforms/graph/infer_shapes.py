"""Types follow from operands: refine every result type by the op's own `infer`.

    %1 = graph.add %0, %0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<?xf32>
becomes
    %1 = graph.add %0, %0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>

One walk in program order: operands are refined before their users. An op with regions is
inferred after its body. The function's result types follow.
"""

from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType, UnrankedTensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from ge.dialects.interfaces import TensorOp
from ge.dialects.types import DYNAMIC, AnyTensor, is_refinement, set_type, tensor


def refine(declared: Attribute, inferred: Attribute) -> Attribute:
    """The type that says all that is known: dimensions of either where the other has `?`."""
    if declared == inferred or isinstance(inferred, UnrankedTensorType):
        return declared
    if not isinstance(declared, TensorType) or not isinstance(inferred, TensorType):
        return inferred
    a, b = cast(AnyTensor, declared), cast(AnyTensor, inferred)
    if DYNAMIC not in b.get_shape() or not is_refinement(a, b):
        return b
    dims = [y if x == DYNAMIC else x for x, y in zip(a.get_shape(), b.get_shape(), strict=True)]
    return tensor(dims, a.element_type)


def infer_op(op: Operation) -> bool:
    """Refine the op's result types; whether any changed.
    Raises VerifyException when operands and attributes contradict each other."""
    if not isinstance(op, TensorOp):
        return False
    changed = False
    try:
        inferred = op.infer()
    except VerifyException as e:
        e.add_note(f"in {op.name}")
        raise
    for result, t in zip(op.results, inferred, strict=True):
        new = refine(result.type, t)
        if new != result.type:
            set_type(result, new)
            changed = True
    return changed


def infer_block(block: Block) -> None:
    """Refine all result types of a block, nested blocks first."""
    for op in block.ops:
        for region in op.regions:
            for inner in region.blocks:
                infer_block(inner)
        infer_op(op)


def refresh_signature(func: FuncOp) -> None:
    """Make the function's type agree with its arguments and what it returns."""
    last = func.body.block.last_op
    outputs = [o.type for o in last.operands] if isinstance(last, ReturnOp) else []
    func.function_type = FunctionType.from_lists([a.type for a in func.body.block.args], outputs)


@dataclass(frozen=True)
class InferShapesPass(ModulePass):
    """Refine every tensor type by the ops' own inference, in one walk."""

    name = "infer-shapes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in op.ops:
            if isinstance(func, FuncOp) and func.body.blocks:
                infer_block(func.body.block)
                refresh_signature(func)
