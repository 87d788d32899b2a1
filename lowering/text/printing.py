"""Module -> MLIR text, with large constants left out on request."""

from io import StringIO
from typing import Any, cast

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FixedBitwidthType, ModuleOp
from xdsl.ir import Attribute, Operation
from xdsl.printer import Printer


def _element_count(attr: Any) -> int:
    """The number of elements that the text of a DenseIntOrFPElementsAttr would list; one for a
    splat."""
    data: bytes = attr.data.data
    size = max(cast(FixedBitwidthType, attr.get_element_type()).compile_time_size, 1)
    return 1 if data[:size] * (len(data) // size) == data else len(data) // size


class TextPrinter(Printer):
    """Prints `dense_resource<__elided__>` for a constant of more than `limit` elements, and builds
    the text of equal attributes once: most of a program's text is types that repeat."""

    def __init__(
        self,
        *,
        limit: int | None = None,
        attributes: dict[Attribute, str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.limit = limit
        self.attributes: dict[Attribute, str] = {} if attributes is None else attributes

    def print_string(self, text: str, *, indent: int | None = None) -> None:
        if "\n" in text or self.stream is None:
            super().print_string(text, indent=indent)
        else:
            self._current_column += len(text)
            self.stream.write(text)

    def print_attribute(self, attribute: Attribute) -> None:
        if self.printing_location:  # what is printed then depends on where it stands
            self.print_new_attribute(attribute)
            return
        text = self.attributes.get(attribute)
        if text is None:
            out, self.stream = self.stream, StringIO()
            try:
                self.print_new_attribute(attribute)
                text = self.stream.getvalue()
            finally:
                self.stream = out
            if "\n" not in text:  # its lines are indented for this place
                self.attributes[attribute] = text
        self.print_string(text, indent=0)

    def print_new_attribute(self, attribute: Attribute) -> None:
        elements = cast(Any, attribute)
        if (
            self.limit is not None
            and isinstance(elements, DenseIntOrFPElementsAttr)
            and _element_count(elements) > self.limit
        ):
            self.print_string("dense_resource<__elided__> : ")
            self.print_attribute(cast(Any, elements).type)
        else:
            super().print_attribute(attribute)


def op_text(
    op: Operation,
    *,
    elide: int | None = None,
    generic: bool = False,
    debuginfo: bool = False,
    properties_as_attributes: bool = False,
    attributes: dict[Attribute, str] | None = None,
) -> str:
    """The text of an op; constants of more than `elide` elements are left out. `attributes`: texts
    that others printed with the same options, which this adds to."""
    out = StringIO()
    printer = TextPrinter(
        stream=out,
        print_generic_format=generic,
        print_debuginfo=debuginfo,
        print_properties_as_attributes=properties_as_attributes,
        limit=elide,
        attributes=attributes,
    )
    printer.print_op(op)
    return out.getvalue()


def dump_text(module: ModuleOp, detail: int) -> str:
    """A module for `GE_DUMP_GRAPH`: 1 in full, 2 without the elements of large constants, 3 a line
    for each op of each function."""
    if detail < 3:
        return op_text(module, elide=16 if detail == 2 else None)
    return "\n".join(map(head_text, module.walk()))


def head_text(op: Operation, elide: int = 16) -> str:
    """One line for an op, in generic form and without its regions."""
    alone = op.clone_without_regions()
    try:
        return op_text(alone, elide=elide, generic=True)
    finally:
        alone.drop_all_references()  # else it is a user of its operands
