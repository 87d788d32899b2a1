"""Module -> MLIR text.

The outline of an op is all that it says, in the fewest characters: equal ops have the same one, no
others do, so it is a key. It takes a fraction of the time of the text that is read back, since it
needs no syntax."""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from io import StringIO
from typing import Any, TextIO, cast

from xdsl.dialects.builtin import AnyFloat, DenseIntOrFPElementsAttr, ModuleOp
from xdsl.ir import Attribute, Block, Operation

from ge.dialects.support.operation import operands_of, ops_of
from ge.dialects.support.types import Dense
from ge.dialects.text.look import PLAIN, Look
from ge.dialects.text.printer import TextPrinter


def text_printer(
    stream: TextIO, look: Look = PLAIN, attributes: dict[Any, str] | None = None
) -> TextPrinter:
    """A printer to a stream. `attributes`: texts that others printed with the same look, to which
    this printer adds."""
    options: dict[str, Any] = {
        "stream": stream,
        "print_generic_format": look.generic,
        "print_debuginfo": look.debuginfo,
        "print_properties_as_attributes": look.properties_as_attributes,
        "limit": look.elide,
        "resource_limit": look.elide_resources,
        "attributes": attributes,
    }
    if look.is_plain:
        return TextPrinter(**options)
    from ge.dialects.text.looks import LookPrinter

    return LookPrinter(look=look, **options)


def op_text(
    op: Operation,
    look: Look | None = None,
    *,
    generic: bool = False,
    debuginfo: bool = False,
    elide: int | None = None,
    attributes: dict[Any, str] | None = None,
) -> str:
    """The text of an op, with a look or with these parts of one (see `text_printer`)."""
    out = StringIO()
    look = look or Look(generic=generic, debuginfo=debuginfo, elide=elide)
    text_printer(out, look, attributes).print_whole(op)
    return out.getvalue()


ELIDED = {1: None, 2: 16, 3: 0}  # of what number of elements on they are left out, by detail


def dump_text(module: ModuleOp, detail: int) -> str:
    """A module for `GE_DUMP_GRAPH`, to be read again: 1 in full, with locations, 2 without them and
    the elements of large constants, 3 without the elements of any."""
    return op_text(module, elide=ELIDED[detail], debuginfo=detail == 1)


def head_text(op: Operation, elide: int = 16) -> str:
    """One line for an op, in generic form and without its regions."""
    alone = op.clone_without_regions()
    try:
        return op_text(alone, elide=elide, generic=True)
    finally:
        alone.drop_all_references()  # else it is a user of its operands


class Outline:
    """Writes outlines of ops without successors. `texts`: those of attributes, which are added to;
    others may have printed some of them."""

    def __init__(self, texts: dict[Any, str]) -> None:
        self.text_of = text_printer(StringIO(), attributes=texts).attribute_text

    def of(self, op: Operation, without: Iterable[str] = ()) -> str:
        """The outline of an op: all but its properties of these names, and the names of values."""
        properties = {n: a for n, a in op.properties.items() if n not in without}
        lines: list[str] = []
        self._add(op, properties, lines, {})
        return "\n".join(lines)

    def _add(
        self,
        op: Operation,
        properties: Mapping[str, Attribute],
        lines: list[str],
        numbers: dict[int, int],
    ) -> None:
        """The lines of an op. `numbers`: of values, by their ids, in the order of the text."""
        operands = [str(numbers.setdefault(id(v), len(numbers))) for v in operands_of(op)]
        results = [self.text_of(r.type) for r in op.results]
        for result in op.results:
            numbers.setdefault(id(result), len(numbers))
        kept = [self._dictionary(d) if d else "" for d in (properties, op.attributes)]
        lines.append(" | ".join((op.name, " ".join(operands), ", ".join(results), *kept)))
        for region in op.regions:
            lines.append("{")
            for block in region.blocks:
                self._add_block(block, lines, numbers)
            lines.append("}")

    def _add_block(self, block: Block, lines: list[str], numbers: dict[int, int]) -> None:
        for arg in block.args:
            numbers.setdefault(id(arg), len(numbers))
        lines.append("^" + ", ".join([self.text_of(arg.type) for arg in block.args]))
        for op in ops_of(block):
            self._add(op, op.properties, lines, numbers)

    def _dictionary(self, attributes: Mapping[str, Attribute]) -> str:
        return ", ".join([f"{n} = {self._said(a)}" for n, a in sorted(attributes.items())])

    def _said(self, attribute: Attribute) -> str:
        """The text of an attribute; for floats a hash of their bytes, as digits take long to
        find."""
        if not isinstance(attribute, DenseIntOrFPElementsAttr):
            return self.text_of(attribute)
        dense = cast(Dense, attribute)
        if not isinstance(dense.get_element_type(), AnyFloat):
            return self.text_of(dense)
        return f"{sha256(dense.data.data).hexdigest()} {self.text_of(dense.type)}"
