"""The operands, results and regions that an op class names, read straight from the op's tuples.
xDSL's own accessors make a view of all operands first, and unpack the sizes of segments each time.

    source = operand_def(...)   # xDSL: a view of op.operands, its item 0; here: op._operands[0]
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from operator import attrgetter
from struct import unpack
from typing import Any, TypeAlias, cast

from xdsl.dialects.builtin import DenseArrayBase
from xdsl.irdl import VarIRConstruct
from xdsl.irdl import operations as irdl

Values: TypeAlias = Sequence[Any]
Read: TypeAlias = Callable[[Any], Any]

READERS: dict[VarIRConstruct, Callable[[Any], Values]] = {
    VarIRConstruct.OPERAND: attrgetter("_operands"),
    VarIRConstruct.RESULT: attrgetter("results"),
    VarIRConstruct.REGION: attrgetter("regions"),
}

# SSAValues has one of its own, which asks for the type of the index
item: Callable[[Values, int], Any] = cast(Any, tuple).__getitem__


def direct(accessor: Any) -> Any:
    """What a class has in place of an accessor of xDSL's; anything else as it is."""
    if not isinstance(accessor, irdl.BaseAccessor | irdl.BaseAttrAccessor):
        return accessor
    values = READERS.get(accessor.construct)
    if values is None:
        return accessor
    if isinstance(accessor, irdl.BaseAttrAccessor):
        return property(_in_segments(accessor, values))
    return Indexed(accessor, values)


class Indexed(property, irdl.BaseAccessor):
    """Where the places of values follow from how many there are. Formats ask for `index`."""

    indexed: Callable[[Values], Any]

    def __init__(self, accessor: irdl.BaseAccessor, values: Callable[[Any], Values]) -> None:
        property.__init__(self, _at_index(accessor, values))
        irdl.BaseAccessor.__init__(self, accessor.construct, accessor.idx)
        object.__setattr__(self, "indexed", accessor.index)

    def index(self, args: Values) -> Any:
        return self.indexed(args)


def _at_index(accessor: irdl.BaseAccessor, values: Callable[[Any], Values]) -> Read:
    index = accessor.idx
    if isinstance(accessor, irdl.AfterVariadicSingleAccessor):
        index -= accessor.num_defs
    elif not isinstance(accessor, irdl.BeforeVariadicSingleAccessor):
        return lambda op: accessor.index(values(op))
    return lambda op: item(values(op), index)


def _in_segments(accessor: irdl.BaseAttrAccessor, values: Callable[[Any], Values]) -> Read:
    """Where an attribute says how many values each definition has."""
    name, index = accessor.option.attribute_name, accessor.idx
    sizes_of: Callable[[Any], Mapping[str, Any]]
    sizes_of = attrgetter("properties" if accessor.option.as_property else "attributes")

    def ends(op: Any) -> tuple[int, ...]:
        sizes: DenseArrayBase = sizes_of(op)[name]
        return _ends(sizes.data.data)

    if isinstance(accessor, irdl.SingleAttrAccessor):
        return lambda op: item(values(op), ends(op)[index])

    def several(op: Any) -> Values:  # of launches, asked for all the time
        start, end = _ends(sizes_of(op)[name].data.data)[index : index + 2]
        return values(op)[start:end]

    def optional(op: Any) -> Any:
        start, end = ends(op)[index : index + 2]
        return item(values(op), start) if end > start else None

    return optional if isinstance(accessor, irdl.OptionalAttrAccessor) else several


@lru_cache(maxsize=4096)
def _ends(sizes: bytes) -> tuple[int, ...]:
    """Where segments begin, and where the last one ends, for their sizes as i32."""
    return tuple(accumulate(unpack(f"<{len(sizes) // 4}i", sizes), initial=0))
