"""Products and convolutions read their operands where they lie, without a transpose.

    %0 = graph.transpose %x permutation [0, 3, 1, 2]      (channels last)
    %1 = graph.conv %0, %w
    %2 = graph.transpose %k permutation [0, 2, 1]
    %3 = graph.matmul %q, %2
becomes
    %1 = graph.conv %x, %w input_channels_last true
    %3 = graph.matmul %q, %k transpose_rhs true

For transposes that did not cancel (see move-transposes), before what goes into weights is looked
for: a convolution takes that from channels that are last, too (fold-batch-norm). A transpose
behind a matmul or convolution needs nothing of the kind: it is part of the launch, see the fusion
passes.
"""

from xdsl.ir import SSAValue

from ge.dialects import graph as g
from ge.dialects.support.types import rank_of
from ge.transforms.analysis.parts import last_swapped
from ge.transforms.graph.canonical.local import Replacement, SimplifyPass, rule
from ge.transforms.graph.canonical.transposes import permutation
from ge.transforms.rewriting.building import Make


def untransposed(value: SSAValue) -> SSAValue | None:
    """Return the value whose last two dimensions are swapped to give this one; None if there is
    none."""
    op = value.owner
    if not isinstance(op, g.TransposeOp) or (rank := rank_of(value)) < 2:
        return None
    return op.input if op.ints("permutation") == last_swapped(rank) else None


@rule(g.MatmulOp, exact=False)
def transpose_into_product(op: g.MatmulOp, make: Make) -> Replacement:
    """The matmul of a transposed matrix takes the matrix and transposes it itself. A weight that
    others need untransposed need not be stored twice, then."""
    lhs, rhs = untransposed(op.lhs), untransposed(op.rhs)
    if lhs is None and rhs is None:
        return None
    return make(
        g.MatmulOp, lhs or op.lhs, rhs or op.rhs,
        transpose_lhs=bool(op.transpose_lhs.value.data) != (lhs is not None),
        transpose_rhs=bool(op.transpose_rhs.value.data) != (rhs is not None),
    )  # fmt: skip


@rule(g.TransposeOp, exact=False)
def transpose_of_product(op: g.TransposeOp, make: Make) -> Replacement:
    """The transpose of x y is that of y times that of x."""
    value = untransposed(op.result)
    matmul = None if value is None else value.owner
    if not isinstance(matmul, g.MatmulOp) or not op.input.has_one_use():
        return None
    if rank_of(matmul.lhs) != rank_of(matmul.rhs):
        return None
    return make(
        g.MatmulOp, matmul.rhs, matmul.lhs,
        transpose_lhs=not matmul.transpose_rhs.value.data,
        transpose_rhs=not matmul.transpose_lhs.value.data,
    )  # fmt: skip


@rule(g.Convolution)
def transpose_into_conv(op: g.Convolution, make: Make) -> Replacement:
    """A convolution reads an input whose channels are the last dimension without a transpose."""
    if op.input_channels_last.value.data or not isinstance(moved := op.input.owner, g.TransposeOp):
        return None
    rank = rank_of(op.input)
    if permutation(moved) != [0, rank - 1, *range(1, rank - 1)]:
        return None
    params = {**op.properties, "input_channels_last": True}
    return make(type(op), moved.input, op.weight, op.bias, **params)


class AbsorbTransposesPass(SimplifyPass):
    """Let matmuls and convolutions read transposed operands.
    `exact`: only by rules that keep every bit."""

    name = "absorb-transposes"
    root = g.TransposeOp
