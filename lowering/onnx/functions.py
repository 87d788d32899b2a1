"""Functions: ops that a model, or ONNX itself, defines by a small graph. A call is imported as the
body in its place, on the types of this call's inputs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, cast

from onnx import (
    AttributeProto,
    FunctionProto,
    NodeProto,
    OperatorSetIdProto,
    TypeProto,
    defs,
    helper,
)
from xdsl.ir import SSAValue

from ge.dialects.support.types import DYNAMIC, element_type, shape_of
from ge.lowering.onnx.model import ONNX_NUMBERS
from ge.lowering.onnx.order import domain_of
from ge.lowering.onnx.values import Maybe, SequenceParts, Value, tensors_of


@dataclass
class OnnxFunction:
    """A function, the opsets of its body, and the attributes that a call need not give."""

    key: tuple[str, ...]
    proto: FunctionProto
    opsets: Mapping[str, int]
    defaults: Mapping[str, AttributeProto] = field(default_factory=dict[str, AttributeProto])
    anonymous: bool = False  # whether the body's own names mean nothing to the user


def versions(opsets: Iterable[OperatorSetIdProto]) -> dict[str, int]:
    """The version of each domain that states one; "" is ONNX's own, which has two spellings."""
    return {("" if o.domain == "ai.onnx" else o.domain): o.version for o in opsets if o.version}


def local_function(proto: FunctionProto) -> OnnxFunction:
    """A function of the model."""
    opsets = versions(proto.opset_import)
    defaults = {a.name: a for a in proto.attribute_proto}
    return OnnxFunction(
        local_key(proto.domain, proto.name, proto.overload), proto, opsets, defaults
    )


def local_key(domain: str, name: str, overload: str) -> tuple[str, ...]:
    return ("" if domain == "ai.onnx" else domain, name, overload)


def find_function(node: NodeProto, inputs: Sequence[Value], opset: int) -> OnnxFunction | None:
    """The body that ONNX gives an op, for a call with these inputs; None if it gives none."""
    try:
        schema = defs.get_schema(node.op_type, opset, domain_of(node))
    except defs.SchemaError:
        return None
    text = _body(cast(FunctionSchema, schema), node, inputs, opset)
    if text is None:
        return None
    proto = FunctionProto()
    proto.ParseFromString(text)
    opsets = versions(proto.opset_import) or {domain_of(node): opset}
    defaults = {
        name: a.default_value
        for name, a in schema.attributes.items()
        if a.default_value.type != AttributeProto.UNDEFINED
    }
    key = ("onnx", domain_of(node), node.op_type)
    return OnnxFunction(key, proto, opsets, defaults, anonymous=True)


class FunctionSchema(Protocol):
    function_opset_versions: Sequence[int]
    context_dependent_function_opset_versions: Sequence[int]

    def get_function_with_opset_version(self, version: int) -> bytes: ...

    def get_context_dependent_function_with_opset_version(
        self, version: int, node: bytes, types: Sequence[bytes]
    ) -> bytes: ...


def _body(
    schema: FunctionSchema, node: NodeProto, inputs: Sequence[Value], opset: int
) -> bytes | None:
    known = [v for v in schema.function_opset_versions if v <= opset]
    if known:
        return schema.get_function_with_opset_version(max(known))
    known = [v for v in schema.context_dependent_function_opset_versions if v <= opset]
    if not known:
        return None
    types = [_type(value).SerializeToString() for value in inputs]
    text = schema.get_context_dependent_function_with_opset_version(
        max(known), node.SerializeToString(), types
    )
    return text or None


def _type(value: Value) -> TypeProto:
    match value:
        case None:
            return TypeProto()
        case SSAValue():
            dims = [None if d == DYNAMIC else d for d in shape_of(value)]
            return helper.make_tensor_type_proto(ONNX_NUMBERS[element_type(value)], dims)
        case Maybe():
            return helper.make_optional_type_proto(_type(value.tensor))
        case SequenceParts():  # the last part may be smaller
            element = ONNX_NUMBERS[element_type(value.whole)]
            return helper.make_sequence_type_proto(helper.make_tensor_type_proto(element, None))
        case _:
            first = next(iter(tensors_of(value)), None)
            return helper.make_sequence_type_proto(_type(first))
