"""Assembly formats of ge's own ops, which xDSL reads as it defines a class: two fifths of the time
that a dialect takes to load. Most texts have ops of a few classes; the formats of others are never
asked for."""

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

from xdsl.irdl import OpDef
from xdsl.irdl.declarative_assembly_format import FormatProgram, ParsingState
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError, PyRDLOpDefinitionError


class Format(FormatProgram):
    """A format that leaves constraints of types and properties to verification, which names the
    operand: xDSL asks them of a text for what variables of constraints stand for. Ops that have
    variables are read by its own program."""

    def resolve_constraint_variables(self, state: ParsingState, op_def: OpDef) -> None:
        pass


def has_variables(definition: OpDef) -> bool:
    values = (*definition.operands, *definition.results)
    constraints = (
        *(d.constr for _, d in values),
        *(d.constr for d in definition.properties.values()),
    )
    return any(c.variables() for c in constraints)


class Declared:
    """The format of a class of ops, read when it is first asked for."""

    def __init__(self, text: str, definition: OpDef) -> None:
        self.text, self.definition = text, definition

    @cached_property
    def program(self) -> FormatProgram:
        """Raises PyRDLOpDefinitionError for a format that makes no sense."""
        try:
            program = FormatProgram.from_str(self.text, self.definition)
        except ParseError as e:
            name = self.definition.name
            raise PyRDLOpDefinitionError(f"the assembly format of {name}: {e}") from e
        return program if has_variables(self.definition) else Format(program.stmts)


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
