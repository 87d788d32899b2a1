"""Attributes of which other parts of the compiler know the text."""

from xdsl.ir import Data
from xdsl.parser import AttrParser
from xdsl.printer import Printer


class TextAttr(Data[str]):
    """An attribute that is one text, `#dialect.name<"text">`, and means nothing by itself: any
    text makes an attribute."""

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        with parser.in_angle_brackets():
            return parser.parse_str_literal()

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string_literal(self.data)
