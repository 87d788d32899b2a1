"""Ops whose custom form is not read back."""

from xdsl.ir import Dialect
from xdsl.irdl import IRDLOperation, irdl_op_definition
from xdsl.parser import Parser
from xdsl.printer import Printer


@irdl_op_definition
class FormOp(IRDLOperation):
    """Prints a line that is no op of any dialect."""

    name = "unreadable.form"

    @classmethod
    def parse(cls, parser: Parser) -> "FormOp":
        return cls()

    def print(self, printer: Printer) -> None:
        printer.print_string("\nnonsense")


@irdl_op_definition
class LosesOp(IRDLOperation):
    """Prints no attributes."""

    name = "unreadable.loses"

    @classmethod
    def parse(cls, parser: Parser) -> "LosesOp":
        return cls()

    def print(self, printer: Printer) -> None:
        pass


DIALECT = Dialect("unreadable", [FormOp, LosesOp])
