"""Ops with a syntax of their own that know their line as a whole.

xDSL's printer is called for each piece of a text. Who prints many ops at a time asks for the whole
line instead, with names of its own keeping (`dialects/text/printing.py`).
"""

from abc import abstractmethod
from collections.abc import Callable
from io import StringIO
from typing import Protocol

from xdsl.ir import Attribute, SSAValue
from xdsl.printer import Printer

from ge.dialects.support.operation import GeOp


class Names(Protocol):
    """Who knows the texts of values and attributes."""

    def name_of(self, value: SSAValue) -> str: ...

    def attribute_text(self, attribute: Attribute) -> str: ...


class LineOp(GeOp):
    """An op that is one line of text."""

    @abstractmethod
    def line(self, names: Names, attributes: str) -> str:
        """What stands behind the op's name. `attributes`: the text of those that are none of its
        definition, "" for none."""

    def print(self, printer: Printer) -> None:
        names = Captured(printer)
        attributes = names.text(lambda: printer.print_op_attributes(self.attributes))
        printer.print_string(self.line(names, attributes))


class Captured:
    """The texts that a printer prints."""

    def __init__(self, printer: Printer) -> None:
        self.printer = printer

    def name_of(self, value: SSAValue) -> str:
        return self.text(lambda: self.printer.print_ssa_value(value))

    def attribute_text(self, attribute: Attribute) -> str:
        return self.text(lambda: self.printer.print_attribute(attribute))

    def text(self, write: Callable[[], object]) -> str:
        """What is printed meanwhile, which the printer's stream does not get."""
        printer = self.printer
        out, printer.stream = printer.stream, StringIO()
        try:
            write()
            return printer.stream.getvalue()
        finally:
            printer.stream = out
