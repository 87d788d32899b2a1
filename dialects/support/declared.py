"""Assembly formats of ge's own ops, which xDSL reads as it defines a class: two fifths of the time
that a dialect takes to load. Most texts have ops of a few classes; the formats of others are never
asked for."""

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

from xdsl.irdl import OpDef
from xdsl.irdl.declarative_assembly_format import FormatProgram
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError, PyRDLOpDefinitionError


class Declared:
    """The format of a class of ops, read when it is first asked for."""

    def __init__(self, text: str, definition: OpDef) -> None:
        self.text, self.definition = text, definition

    @cached_property
    def program(self) -> FormatProgram:
        """Raises PyRDLOpDefinitionError for a format that makes no sense."""
        try:
            return FormatProgram.from_str(self.text, self.definition)
        except ParseError as e:
            name = self.definition.name
            raise PyRDLOpDefinitionError(f"the assembly format of {name}: {e}") from e


class Methods(NamedTuple):
    """What a class has of its format."""

    parse: Any  # a class method
    print: Callable[[Any, Printer], None]

    @classmethod
    def of(cls, declared: Declared) -> "Methods":
        def parse(kind: Any, parser: Parser) -> Any:
            return declared.program.parse(parser, kind)

        def print(self: Any, printer: Printer) -> None:
            declared.program.print(printer, self)

        return cls(classmethod(parse), print)
