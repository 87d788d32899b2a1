"""Module -> MLIR text."""

from io import StringIO
from typing import Any, TextIO

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

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
