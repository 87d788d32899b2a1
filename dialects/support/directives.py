"""Assembly formats of ge's ops: conventions that hold for all of them, and directives that xDSL
lacks.

    $input `,` $indices attr-dict `:` functional-type(operands, results)

Properties that a format does not name stand before `attr-dict`, each behind its name. All types
stand at the end, those of optional operands too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, ArrayOfConstraint, FloatAttr, f64
from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation, MessageConstraint, RangeOf
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    FormatDirective,
    KeywordDirective,
    OperandsDirective,
    OptionalGroupDirective,
    OptionalOperandVariable,
    ParsingState,
    PrintingState,
    TypedAttributeVariable,
    irdl_custom_directive,
)
from xdsl.irdl.declarative_assembly_format_parser import FormatParser
from xdsl.irdl.operations import AttrSizedSegments
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.mlir_lexer import MLIRTokenKind

from ge.dialects.support.choices import ChoiceAttr, ChoiceConstraint
from ge.dialects.support.constraints import FloatRange

BEHIND = ("attributes", "loc")  # words that may stand behind the properties of an op


@irdl_custom_directive
class Parameter(CustomDirective):
    """`custom<Parameter>($x_value, $x)`"""

    operand: OptionalOperandVariable
    property: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        if (operand := parser.parse_optional_unresolved_operand()) is not None:
            self.operand.set(state, operand)
            return
        self.set_empty(state)
        position = parser.pos
        self.property.parse(parser, state)
        if parser.pos == position:
            name = self.property.name
            parser.raise_error(f"expected a constant or an operand, as in '{name} %0'")

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        value = self.operand.get(op)
        if value is None:
            self.property.print(printer, state, op)
            return
        self.operand.print(printer, state, op)

    def set_empty(self, state: ParsingState) -> None:
        self.operand.set_empty(state)

    def is_present(self, op: IRDLOperation) -> bool:
        return self.operand.is_present(op) or self.property.is_present(op)

    def is_anchorable(self) -> bool:
        return True


@dataclass(frozen=True)
class Properties(FormatDirective):
    """The part of a format behind the first operands, each item behind its name, in any order:
    other operands, parameters, and the properties that a format does not place. Those that have
    their defaults are left out."""

    groups: Mapping[str, OptionalGroupDirective]
    goes_on: bool  # whether something else follows: a word, then, is no beginning of another op

    def parse(self, parser: Parser, state: ParsingState) -> None:
        given = set[str]()
        while name := next(filter(parser.parse_optional_keyword, self.groups), None):
            if name in given:
                parser.raise_error(f"'{name}' is given twice")
            given.add(name)
            for element in self.groups[name].then_elements:
                element.parse(parser, state)
        op, token = state.op_type.name, parser._current_token  # pyright: ignore[reportPrivateUsage]
        is_word = token.kind is MLIRTokenKind.BARE_IDENT and token.text not in BEHIND
        if self.goes_on and is_word:
            close = get_close_matches(token.text, self.groups, 1)
            hint = f"; did you mean '{close[0]}'?" if close else ""
            parser.raise_error(f"{op} has no '{token.text}'{hint}")
        for name, group in self.groups.items():
            if name in given:
                continue
            for element in group.then_elements:
                element.set_empty(state)
            if self.is_needed(name):
                parser.raise_error(f"{op} needs `{name}` and its value here")

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        for group in self.groups.values():
            group.print(printer, state, op)

    def text(self, form: str) -> str:
        """A format with the properties that it does not place."""
        names = [name for name in self.groups if f"`{name}`" not in form]
        texts = [f"`{n}` ${n}" if self.is_needed(n) else f"(`{n}` ${n}^)?" for n in names]
        return form.replace("attr-dict", " ".join((*texts, "attr-dict")))

    def is_needed(self, name: str) -> bool:
        """True if all ops of the class have it, and it has no default."""
        return not self.groups[name].anchor.is_anchorable()


@dataclass(frozen=True)
class ChoiceVariable(AttributeVariable):
    """A word: `tanh`."""

    kind: type[ChoiceAttr]

    def parse_attr(self, parser: Parser) -> Attribute | None:
        return self.kind.new(self.kind.parse_word(parser, self.name))

    def print_attr(self, printer: Printer, attr: Attribute) -> None:
        printer.print_string(cast(ChoiceAttr, attr).data.value)


@dataclass(frozen=True)
class ChoicesVariable(ChoiceVariable):
    """A list of words: `[tanh, sigmoid]`."""

    def parse_attr(self, parser: Parser) -> Attribute | None:
        words = parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, lambda: self.kind.parse_word(parser, self.name)
        )
        return ArrayAttr(map(self.kind.new, words))

    def print_attr(self, printer: Printer, attr: Attribute) -> None:
        words = ", ".join(word.data for word in cast("ArrayAttr[ChoiceAttr]", attr))
        printer.print_string(f"[{words}]")


class OperandTypes(OperandsDirective):
    """The types of all operands in the order of their definitions, where several definitions may
    have none or many: the names stand before."""

    def set_types(self, state: ParsingState, types: Sequence[Attribute]) -> None:
        counts = [len(names or ()) for names in state.operands]
        if sum(counts) != len(types):
            expected = f"expected {sum(counts)} operand types, as there are operands"
            raise VerifyException(f"{expected}, got {len(types)}")
        rest = iter(types)
        state.operand_types = [[next(rest) for _ in range(count)] for count in counts]


class PartsParser(FormatParser):
    """Reads the format of an op: with directives that xDSL has not."""

    def verify_properties(self, elements: list[FormatDirective], attr_dict_idx: int) -> None:
        segments = [
            o.attribute_name for o in self.op_def.options if isinstance(o, AttrSizedSegments)
        ]
        names = [n for n in self.op_def.properties if n not in (*segments, *self.seen_properties)]
        # those that each op of the class has stand first
        names.sort(key=lambda n: self.variable(n).is_anchorable())
        groups = [self.group(name) for name in names]
        super().verify_properties(elements, attr_dict_idx)
        start = attr_dict_idx
        while start and isinstance(elements[start - 1], OptionalGroupDirective):
            group = cast(OptionalGroupDirective, elements[start - 1])
            if not isinstance(group.then_first, KeywordDirective) or group.else_elements:
                break
            groups.insert(0, group)
            start -= 1
        if groups:
            named = {cast(KeywordDirective, g.then_first).keyword: g for g in groups}
            behind = elements[attr_dict_idx + 1 :]
            goes_on = bool(behind) and not isinstance(behind[0], OptionalGroupDirective)
            elements[start:attr_dict_idx] = [Properties(named, goes_on)]

    def group(self, name: str) -> OptionalGroupDirective:
        """A property behind its name."""
        self.seen_properties.add(name)
        variable, keyword = self.variable(name), KeywordDirective(name)
        return OptionalGroupDirective(variable, (), keyword, (variable,), ())

    def variable(self, name: str) -> AttributeVariable:
        """The value of a property."""
        parser = PartsParser(f"${name}", self.op_def)
        return cast(AttributeVariable, parser.parse_optional_variable(True))

    def parse_optional_variable(
        self, inside_ref: bool, *, qualified: bool = False
    ) -> FormatDirective | None:
        """Parse a variable, as one whose value is printed as short as the definition of the
        property lets it be."""
        found = super().parse_optional_variable(inside_ref, qualified=qualified)
        if not isinstance(found, AttributeVariable) or not found.is_property:
            return found
        own = found.name, True, found.is_optional, found.default_value
        match self.op_def.properties[found.name].constr:
            case ChoiceConstraint(attr=kind):
                return ChoiceVariable(*own, kind)
            case ArrayOfConstraint(
                elem_range_constraint=RangeOf(constr=ChoiceConstraint(attr=kind))
            ):
                return ChoicesVariable(*own, kind)
            case MessageConstraint(constr=FloatRange()):
                return TypedAttributeVariable(*own, FloatAttr, f64)
            case _:
                return found

    def create_operands_directive(self, inside_type: bool, inside_ref: bool) -> OperandsDirective:
        if not inside_type or inside_ref or any(self.seen_operand_types):
            return super().create_operands_directive(inside_type, inside_ref)
        self.seen_operand_types = [True] * len(self.seen_operand_types)
        return OperandTypes()
