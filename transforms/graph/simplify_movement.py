"""Ops that move data without computing, in their shortest form.

    %0 = graph.reshape %x shape [6, 4]                      (%x : tensor<2x3x4xf32>)
    %1 = graph.reshape %0 shape [2, 3, 4]
    %2 = graph.slice %1 starts [1] ends [3] axes [1]        %3 = graph.slice %x starts [2]
    %3 = graph.slice %2 starts [1] ends [2] axes [1]  becomes       ends [3] axes [1]

Chains of reshapes and of transposes become one or none, slices of slices and of concatenations
read from the source, parts put together again are the whole, broadcasts go where the user
broadcasts by itself, constant indices become slices. The rules are in `canonical/`. With `exact`
only those that keep every bit of every result.
"""

from ge.transforms.graph.canonical import slices, transposes
from ge.transforms.graph.canonical.local import SimplifyPass


class SimplifyMovementPass(SimplifyPass):
    """Bring reshapes, transposes, slices and the like to their shortest form.
    `exact`: only by rules that keep every bit."""

    name = "simplify-movement"
    families = (slices, transposes)
