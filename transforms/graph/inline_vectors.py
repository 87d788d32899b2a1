"""Short vectors that follow from weights stand in the text, as short constants of a model do.

    %b = graph.constant #graph.weight<"conv.bias"> : tensor<16xf32>
    %q = graph.cast %b : tensor<16xf32> -> tensor<16xi32>
    %y = graph.conv %x, %w bias %q ...
becomes
    %q = graph.constant dense<[3, -7, ...]> : tensor<16xi32>
    %y = graph.conv %x, %w bias %q ...

Quantization computes a bias of integers and a scale for each channel from weights. Those of up to
`INLINE_BYTES` are computed here, so that their kernels hold them, as kernels of floats hold the
biases that the importer has put into the text. Tables (of two dimensions and more), longer vectors
and numbers that cannot be computed stay for `@prepare`. Without a payload at hand
(`payload_at_hand`), nothing changes.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from ge.dialects.graph.constant import INLINE_BYTES
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.support.types import byte_size
from ge.runtime.data.weights import Payload, payload_at_hand
from ge.runtime.numbers.constants import Constants
from ge.transforms.graph.control_flow import constant_before
from ge.transforms.graph.prepare_weights import computed, constant_expressions, is_table


def inline_vectors(main: FuncOp, payload: Payload, grow: int) -> None:
    block = main.body.block
    expressions = constant_expressions(block, grow, stored=True)
    constants = Constants(payload)
    for value in computed(expressions):
        if is_table(value) or byte_size(value.type) > INLINE_BYTES:
            continue
        op = value.owner
        assert isinstance(op, Operation)
        try:
            array = constants.value(value)
        except GeError:  # said where it is needed, with its place: when the weights are loaded
            continue
        finally:
            constants.forget()  # what it was computed from may be large
        inline = constant_before(op, array)
        value.replace_uses_with_if(inline, lambda use: use.operation not in expressions)


@dataclass(frozen=True)
class InlineVectorsPass(ModulePass):
    """Compute short vectors that follow from weights, and write them into the text.
    `grow`: as that of prepare-weights."""

    name = "inline-vectors"

    grow: int = 1 << 20

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        main, payload = main_function(op), payload_at_hand()
        if main is not None and payload is not None:
            inline_vectors(main, payload, self.grow)
