"""Constants: small ones as `dense<...>` in the IR, weights by key into the payload."""

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, DenseResourceAttr
from xdsl.interfaces import HasFolderInterface
from xdsl.ir import Attribute, OpResult, SSAValue
from xdsl.irdl import irdl_attr_definition, irdl_op_definition, prop_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.traits import ConstantLike, Pure
from xdsl.utils.exceptions import VerifyException

from ge.dialects.support.boxes import Work
from ge.dialects.support.constraints import ANY
from ge.dialects.support.definitions import TextAttr
from ge.dialects.support.operation import LineOp, Names, created
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import (
    AnyTensor,
    Dense,
    constant_value,
    is_static,
    numel,
    shape_of,
)

# What stands for the elements of a constant in a text that leaves them out: such a constant is read
# as a weight that nothing has
ELIDED = "__elided__"

# Constants up to this size stand in the text; larger ones are keyed into the payload
INLINE_BYTES = 1024

# Constants in the text up to this size become part of the kernels that read them
SMALL_BYTES = 1024


@irdl_attr_definition
class WeightAttr(TextAttr):
    """The key of a tensor in the payload (a safetensors file beside the IR):
    `#graph.weight<"encoder.0.weight">`."""

    name = "graph.weight"


@irdl_op_definition
class ConstantOp(TensorOp, LineOp, HasFolderInterface):
    """`graph.constant dense<1.0> : tensor<f32>` (in the IR; for about 1 KiB and less) or
    `graph.constant #graph.weight<"key"> : tensor<768x768xf32>` (in the payload)."""

    name = "graph.constant"
    value = prop_def(Attribute)
    result = result_def(ANY)
    traits = traits_def(Pure(), ConstantLike())

    @classmethod
    def make(cls, value: Attribute, type: Attribute) -> "ConstantOp":
        return created(cls, (), [type], {"value": value})

    @property
    def key(self) -> str | None:
        """The payload key, None for a constant in the IR."""
        return self.value.data if isinstance(self.value, WeightAttr) else None

    def infer(self) -> Sequence[Attribute]:
        value = self.value
        if isinstance(value, DenseIntOrFPElementsAttr):
            dense = cast(DenseIntOrFPElementsAttr[Any], value)
            t, count = cast(AnyTensor, dense.type), len(dense)
            if count not in (1, numel(t.get_shape())):
                raise VerifyException(f"{count} elements given for {t}")
            return (t,)
        if isinstance(value, WeightAttr):
            if not is_static(shape_of(self.result)):
                raise VerifyException(f"a weight has a static shape, not {self.result.type}")
            return (self.result.type,)
        raise VerifyException("a constant is dense<...> or #graph.weight<...>")

    def static_work(self) -> Work:
        return Work()

    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        return (self.value,)

    @classmethod
    def parse(cls, parser: Parser) -> "ConstantOp":
        attrs = parser.parse_optional_attr_dict()
        value = parser.parse_attribute()
        if isinstance(value, DenseIntOrFPElementsAttr):
            t = cast(DenseIntOrFPElementsAttr[Any], value).type
        elif isinstance(value, DenseResourceAttr) and value.resource_handle.data.startswith(
            ELIDED  # the reader makes handles unique
        ):
            t, value = value.type, WeightAttr(ELIDED)
        else:
            parser.parse_punctuation(":")
            t = parser.parse_type()
        op = cls.make(cast(Attribute, value), t)
        op.attributes.update(attrs)
        return op

    def line(self, names: Names, attributes: str) -> str:
        value = names.attribute_text(self.value)
        if isinstance(self.value, DenseIntOrFPElementsAttr):
            return f"{attributes} {value}"
        return f"{attributes} {value} : {names.attribute_text(self.result.type)}"


def small_constant(value: SSAValue) -> Dense | None:
    """The elements of a constant that becomes part of the kernels that read it, else None."""
    if not isinstance(value, OpResult) or not isinstance(value.op, ConstantOp):
        return None
    elements = constant_value(value)
    small = elements is not None and len(elements.data.data) <= SMALL_BYTES
    return elements if small else None
