"""Arithmetic, comparisons, choices, conversions and pooling in their simplest form.

    %0 = graph.neg %y
    %1 = graph.add %x, %0                     %1 = graph.sub %x, %y
    %2 = graph.div %1, 4.0          becomes   %2 = graph.mul %1, 0.25
    %3 = graph.maximum %2, 0.0                %3 = graph.relu %2

The rules are in `canonical/`, a family a file. With `exact` only those that keep every bit of
every result, -0 and nan included; without it also those that round in another place (two constant
factors that become one).
"""

from ge.transforms.graph.canonical import arithmetic, logic
from ge.transforms.graph.canonical.local import SimplifyPass


class SimplifyAlgebraPass(SimplifyPass):
    """Bring elementwise ops to their simplest form.
    `exact`: only by rules that keep every bit."""

    name = "simplify-algebra"
    families = (arithmetic, logic)
