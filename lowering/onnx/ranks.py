"""Why the number of dimensions of a value is not known during import, and the way out."""

from collections.abc import Callable, Iterable

from xdsl.dialects.builtin import UnrankedTensorType
from xdsl.ir import Block, SSAValue

from ge.dialects.graph.control import IfOp, LoopOp
from ge.dialects.support.editing import names_in
from ge.lowering.onnx.size_conditions import follows_from_sizes
from ge.lowering.onnx.values import Value


def rank_hint(inputs: Iterable[Value], rounds: Callable[[Block], SSAValue | None]) -> str:
    """The end of an error about the first input without a rank; empty where all have one. `rounds`
    gives what the number of rounds of a loop that is being imported follows from, by its body."""
    value = next((v for v in inputs if isinstance(v, SSAValue) and is_unranked(v)), None)
    if value is None:
        return ""
    owner = value.owner
    names = [] if isinstance(owner, Block) else [*names_in(owner.location)]
    name = f"'{names[0]}'" if names else "it"
    what, decides = decided_by(value, rounds)
    if decides is None:
        return f"; how many dimensions {name} has is known at run time only"
    if follows_from_sizes(decides):
        way = "which follows from sizes of inputs: give them, with --dim or --shape"
    else:
        way = (
            "which is known at run time only; a value of a program has one number of dimensions: "
            f"make {what} a constant of the model"
        )
    return f"; how many dimensions {name} has depends on {what}, {way}"


def is_unranked(value: SSAValue) -> bool:
    return isinstance(value.type, UnrankedTensorType)


def decided_by(
    value: SSAValue, rounds: Callable[[Block], SSAValue | None]
) -> tuple[str, SSAValue | None]:
    """What the rank of a value depends on, in words, and the condition or the trip count itself;
    None where that is neither an If nor a loop."""
    match value.owner:
        case IfOp() as op:
            return "its condition", op.condition
        case LoopOp() as op:
            decides = op.condition if op.trip_count is None else op.trip_count
        case Block() as block:
            decides = rounds(block)
        case op:
            source = next(filter(is_unranked, op.operands), None)
            return ("", None) if source is None else decided_by(source, rounds)
    return "the number of rounds of its loop", decides
