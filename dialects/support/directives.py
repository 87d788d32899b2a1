"""Parts of assembly formats that xDSL has not."""

from xdsl.irdl import IRDLOperation
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    OptionalOperandVariable,
    ParsingState,
    PrintingState,
    TypeDirective,
    irdl_custom_directive,
)
from xdsl.parser import Parser
from xdsl.printer import Printer


@irdl_custom_directive
class Parameter(CustomDirective):
    """`custom<Parameter>($x_value, type($x_value), $x)`"""

    operand: OptionalOperandVariable
    type: TypeDirective
    property: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        if not parser.parse_optional_punctuation("("):
            self.set_empty(state)
            position = parser.pos
            self.property.parse(parser, state)
            if parser.pos == position:
                parser.raise_error("expected a constant, or `(`, an operand and its type")
            return
        self.operand.set(state, parser.parse_unresolved_operand())
        parser.parse_punctuation(":")
        self.type.set(state, (parser.parse_type(),))
        parser.parse_punctuation(")")

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        value = self.operand.get(op)
        if value is None:
            self.property.print(printer, state, op)
            return
        with printer.in_parens():
            printer.print_ssa_value(value)
            printer.print_string(" : ")
            printer.print_attribute(value.type)
        state.should_emit_space, state.last_was_punctuation = True, False

    def set_empty(self, state: ParsingState) -> None:
        self.operand.set_empty(state)
        self.type.set_empty(state)

    def is_present(self, op: IRDLOperation) -> bool:
        return self.operand.is_present(op) or self.property.is_present(op)

    def is_anchorable(self) -> bool:
        return True
