"""Products and convolutions read their operands where they lie, without a transpose.

    %0 = graph.transpose %x permutation [0, 3, 1, 2]      (channels last)
    %1 = graph.conv %0, %w
    %2 = graph.transpose %k permutation [0, 2, 1]
    %3 = graph.matmul %q, %2
becomes
    %1 = graph.conv %x, %w {input_channels_last = true}
    %3 = graph.matmul %q, %k {transpose_rhs = true}

For transposes that did not cancel (see move-transposes), before what goes into weights is looked
for: a convolution takes that from channels that are last, too (fold-batch-norm). A transpose
behind a matmul or convolution needs nothing of the kind: it is part of the launch, see the fusion
passes. The rules are in `canonical/absorption.py`.
"""

from ge.dialects.graph.shape import TransposeOp
from ge.transforms.graph.canonical import absorption
from ge.transforms.graph.canonical.simplify import SimplifyPass


class AbsorbTransposesPass(SimplifyPass):
    """Let matmuls and convolutions read transposed operands.
    `exact`: only by rules that keep every bit."""

    name = "absorb-transposes"
    families = (absorption,)
    root = TransposeOp
