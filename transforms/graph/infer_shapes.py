"""Refine every result type by the op's own `infer`.

    %1 = graph.add %0, %0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<?xf32>
becomes
    %1 = graph.add %0, %0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>

One walk in program order; an op with regions is inferred after its body.

The types that a loop carries are a fixpoint from those of its start: a dimension that comes around
different becomes `?`, a rank that does so unknown.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import FunctionType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph.control import LoopOp, join, yielded
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import refine, set_type
from ge.transforms.rewriting.passes import FunctionPass


def infer_op(op: Operation) -> bool:
    """Refine the op's result types; whether any changed.
    Raises VerifyException when operands and attributes contradict each other."""
    if not isinstance(op, TensorOp):
        return False
    changed = False
    for result, t in zip(op.results, op.inferred(), strict=True):
        new = refine(result.type, t)
        if new is not result.type and new != result.type:
            set_type(result, new)
            changed = True
    return changed


@dataclass
class Loops:
    """Facts of nested loops while the outer ones are inferred again.

    A fixpoint is only ever widened, so an inner loop starts from where it was when the outer
    one's types were narrower (Kleene iteration from below: the least fixpoint is the same). So the
    rounds of nested loops together are as many as dimensions become unknown, not a product over the
    depth.
    """

    # the types of carried values so far
    reached: dict[LoopOp, list[Attribute]] = field(default_factory=dict[LoopOp, list[Attribute]])
    # loops in a loop whose first types contradict its body: their declared types stay
    declared: set[LoopOp] = field(default_factory=set[LoopOp])


def infer_block(block: Block, loops: Loops | None = None) -> None:
    """Refine all result types of a block and the blocks in it."""
    loops = Loops() if loops is None else loops
    for op in block.ops:
        if isinstance(op, LoopOp):
            infer_loop(op, loops)
        else:
            for region in op.regions:
                for inner in region.blocks:
                    infer_block(inner, loops)
        infer_op(op)


def infer_loop(loop: LoopOp, loops: Loops | None = None) -> None:
    """Find the most precise types of the carried values that hold in every round, and infer the
    body with them. If the first types contradict the body, those declared stay, in the loops in it
    too."""
    body = loop.body.block
    loops = Loops() if loops is None else loops
    if loop in loops.declared:
        infer_block(body, loops)
        return
    args = body.args[2:]
    values = (v for op in body.walk() for v in (*op.results, *_arguments(op)))
    declared = [(v, v.type) for v in (*args, *values)]
    types = [refine(a.type, v.type) for a, v in zip(args, loop.carried, strict=False)]
    if before := loops.reached.get(loop):
        types = [join(t, r, "a carried value") for t, r in zip(types, before, strict=True)]
    try:
        while types != (wider := _one_round(loop, types, declared, loops)):
            types = wider
            _restore(declared)
    except VerifyException:
        _restore(declared)
        loops.declared.update(op for op in body.walk() if isinstance(op, LoopOp))
        infer_block(body, loops)
    loops.reached[loop] = types


def _one_round(
    loop: LoopOp,
    types: Sequence[Attribute],
    declared: Sequence[tuple[SSAValue, Attribute]],
    loops: Loops,
) -> list[Attribute]:
    """Infer the body with these types of carried values; returns their join with what comes
    around."""
    for arg, t in zip(loop.body.block.args[2:], types, strict=False):
        set_type(arg, t)
    infer_block(loop.body.block, loops)
    last = yielded(loop.body, "the body")[1:]
    joined = [join(t, v.type, "a carried value") for t, v in zip(types, last, strict=False)]
    return [refine(t, j) for (_, t), j in zip(declared, joined, strict=False)]


def _arguments(op: Operation) -> list[SSAValue]:
    return [arg for region in op.regions for block in region.blocks for arg in block.args]


def _restore(types: Sequence[tuple[SSAValue, Attribute]]) -> None:
    for value, t in types:
        set_type(value, t)


def refresh_signature(func: FuncOp) -> None:
    last = func.body.block.last_op
    outputs = [o.type for o in last.operands] if isinstance(last, ReturnOp) else []
    func.function_type = FunctionType.from_lists([a.type for a in func.body.block.args], outputs)


class InferShapesPass(FunctionPass):
    """Refine every tensor type by the ops' own inference, in one walk."""

    name = "infer-shapes"

    def run(self, func: FuncOp) -> None:
        infer_block(func.body.block)
        refresh_signature(func)
