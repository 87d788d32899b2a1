"""The text of ops whose format is declared. xDSL works out for each op where spaces stand and which
parts the op has; here this is worked out once for each class and each choice of its parts.

    $source `[` $offsets `]` (`sizes` $sizes^)? attr-dict `:` type($source) `->` type($result)
is, for ops that have sizes,
    " ", name of source, "[", names of offsets, "] sizes ", text of sizes, " : ", type of source...
"""

from collections.abc import Callable, Sequence
from functools import cache
from io import StringIO
from itertools import takewhile
from operator import attrgetter
from typing import Any, NamedTuple, Protocol, TypeAlias, cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerType
from xdsl.dialects.utils.dynamic_index_list import DynamicIndexList
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import IRDLOperation, VariadicDef
from xdsl.irdl import declarative_assembly_format as xdsl
from xdsl.printer import Printer

from ge.dialects.support.constraints import Parameter, Properties
from ge.dialects.support.operation import Declared, Names, item, operands_of
from ge.dialects.support.types import array_ints

SILENT = (xdsl.OptionalUnitAttrVariable,)  # where there is nothing
LITERAL = (xdsl.WhitespaceDirective, xdsl.PunctuationDirective, xdsl.KeywordDirective)


class Texts(Names, Protocol):
    """An object that also knows the texts that variables give attributes."""

    def variable_text(self, variable: xdsl.AttributeVariable, attribute: Attribute) -> str: ...


Write: TypeAlias = Callable[[Texts, Operation], str]
Part: TypeAlias = str | Write
IsPresent: TypeAlias = Callable[[Any], bool]


class UnknownFormat(Exception):
    """A part whose text xDSL alone knows."""


@cache
def format_of(kind: type[Operation]) -> "Format | None":
    """The format that a class declares. xDSL keeps it in the method that it makes of it."""
    for cell in getattr(kind.print, "__closure__", None) or ():
        program = cell.cell_contents
        if isinstance(program, Declared):
            program = program.program
        if isinstance(program, xdsl.FormatProgram):
            return Format(cast("type[IRDLOperation]", kind), program.stmts)
    return None


class FormatParts(NamedTuple):
    """The text of an op, and the writers of the places that are left open in it."""

    text: str
    open: tuple[Write, ...]

    @classmethod
    def of(cls, parts: Sequence[Part]) -> "FormatParts":
        texts = [p.replace("%", "%%") if isinstance(p, str) else "%s" for p in parts]
        return cls("".join(texts), tuple(p for p in parts if not isinstance(p, str)))


class Format:
    """The declared format of a class of ops."""

    def __init__(
        self, kind: type[IRDLOperation], directives: Sequence[xdsl.FormatDirective]
    ) -> None:
        operands = kind.get_irdl_definition().operands
        singles = [*takewhile(lambda d: not isinstance(d[1], VariadicDef), operands)]
        self.singles = len(singles)  # operands that are where they are defined
        self.directives = directives
        self.choices: list[IsPresent] = []
        self.numbers: dict[int, int] = {}  # of choices, by the ids of directives
        self.parts: dict[tuple[bool, ...], FormatParts | None] = {}
        self._collect(directives)

    def text(self, op: Operation, texts: Texts) -> str | None:
        """The text behind the name of an op; None where xDSL has to print it."""
        if op.attributes:
            return None
        choice = tuple([is_present(op) for is_present in self.choices]) if self.choices else ()
        if choice not in self.parts:
            self.parts[choice] = self._parts(choice)
        if (parts := self.parts[choice]) is None:
            return None
        text, places = parts
        return text % tuple([write(texts, op) for write in places])

    def _collect(self, directives: Sequence[xdsl.FormatDirective]) -> None:
        """Number the choices of directives, and of those in them."""
        for d in directives:
            if (is_present := choice_of(d)) is not None:
                self.numbers[id(d)] = len(self.choices)
                self.choices.append(is_present)
            if isinstance(d, xdsl.OptionalGroupDirective):
                self._collect((d.then_first, *d.then_elements, *d.else_elements))
            elif isinstance(d, Parameter):
                self._collect((d.property,))
            elif isinstance(d, Properties):
                self._collect(tuple(d.groups.values()))

    def _parts(self, choice: Sequence[bool]) -> FormatParts | None:
        found, state = list[Part](), xdsl.PrintingState()  # which knows where spaces stand
        try:
            for d in self.directives:
                self._add(d, choice, state, found)
        except UnknownFormat:
            return None
        return FormatParts.of(found)

    def _add(
        self,
        d: xdsl.FormatDirective,
        choice: Sequence[bool],
        state: xdsl.PrintingState,
        found: list[Part],
    ) -> None:
        is_chosen = id(d) not in self.numbers or choice[self.numbers[id(d)]]
        if isinstance(d, xdsl.AttrDictDirective):
            if d.expected_properties:  # of dialects that are not ge's
                raise UnknownFormat
            return  # of ops that have no attributes: see `text`
        if isinstance(d, Properties):
            for group in d.groups.values():
                self._add(group, choice, state, found)
        elif isinstance(d, LITERAL):
            found.append(printed(lambda printer: d.print(printer, state, cast(Any, None))))
        elif isinstance(d, xdsl.OptionalGroupDirective):
            then = (*d.then_whitespace, d.then_first, *d.then_elements)
            for inner in then if is_chosen else d.else_elements:
                self._add(inner, choice, state, found)
        elif isinstance(d, Parameter) and not is_chosen:
            self._add(d.property, choice, state, found)
        elif is_chosen and not isinstance(d, SILENT):
            part = text_of(d, self.singles)
            found += [printed(state.print_whitespace), part]


def printed(write: Callable[[Printer], object]) -> str:
    out = StringIO()
    write(Printer(stream=out))
    return out.getvalue()


def choice_of(d: xdsl.FormatDirective) -> IsPresent | None:
    """A predicate that is true if an op has what the directive prints; None where all ops have."""
    match d:
        case xdsl.OptionalGroupDirective(anchor=Parameter() as anchor):
            return cast(IsPresent, anchor.is_present)
        case xdsl.OptionalGroupDirective():
            return choice_of(cast(Any, d.anchor)) or d.anchor.is_present
        case Parameter():
            return d.operand.is_present
        case xdsl.AttributeVariable():
            attributes, name = attributes_of(d), d.name
            if d.default_value is None:
                return lambda op: name in attributes(op)
            return lambda op: is_said(d, op)
        case xdsl.VariadicOperandVariable():
            return d.is_present
        case xdsl.TypeDirective(inner=xdsl.VariadicOperandVariable()):
            return d.is_present
        case _:
            return None


def is_said(d: xdsl.AttributeVariable, op: Operation) -> bool:
    """True if an op has an attribute that is not the default."""
    attribute = (op.properties if d.is_property else op.attributes).get(d.name)
    is_default = attribute is d.default_value or attribute == d.default_value
    return attribute is not None and not is_default


def text_of(d: xdsl.FormatDirective, singles: int) -> Part:
    """A writer of what a directive prints, without the space before. The first `singles` operands
    of the op are single, before any that are several or none. Raises Unknown."""
    match d:
        case xdsl.OperandVariable() if (at := d.index) < singles:
            return lambda texts, op: texts.name_of(item(operands_of(op), at))
        case xdsl.OperandVariable():
            value = value_of(d, singles)
            return lambda texts, op: texts.name_of(value(op))
        case xdsl.VariadicOperandVariable():
            values = attrgetter(d.name)
            return lambda texts, op: ", ".join(map(texts.name_of, values(op)))
        case xdsl.TypeDirective(inner=xdsl.OperandVariable() | xdsl.ResultVariable() as inner):
            value = value_of(inner, singles)
            return lambda texts, op: texts.attribute_text(value(op).type)
        case xdsl.TypeDirective(inner=xdsl.VariadicOperandVariable() as inner):
            types = types_of(inner)
            return lambda texts, op: ", ".join(map(texts.attribute_text, types(op)))
        case xdsl.FunctionalTypeDirective():
            sources = types_of(d.operand_typeable_directive)
            targets = types_of(d.result_typeable_directive)
            return lambda texts, op: function_text(texts, sources(op), targets(op))
        case Parameter():
            value = attrgetter(d.operand.name)
            return lambda texts, op: texts.name_of(value(op))
        case xdsl.DenseArrayAttributeVariable(elt_type=IntegerType()):
            attributes = attributes_of(d)
            return lambda texts, op: str([*array_ints(attributes(op)[d.name])])
        case xdsl.AttributeVariable():
            attributes = attributes_of(d)
            return lambda texts, op: texts.variable_text(d, attributes(op)[d.name])
        case DynamicIndexList(dynamic_position=dynamic, static_position=static):
            values, numbers = attrgetter(dynamic.name), attributes_of(static)
            return lambda texts, op: index_list(texts, values(op), numbers(op)[static.name])
        case _:
            raise UnknownFormat


def index_list(texts: Texts, values: Sequence[SSAValue], numbers: Attribute) -> str:
    """`[4, %x]`: numbers, and values in the places of those that are known at run time only."""
    names = map(texts.name_of, values)
    known = [next(names) if n == DYNAMIC_INDEX else str(n) for n in array_ints(numbers)]
    return f"[{', '.join(known)}]"


def value_of(
    d: xdsl.OperandVariable | xdsl.ResultVariable, singles: int
) -> Callable[[Operation], SSAValue]:
    """The value of an op that a variable names."""
    at = d.index
    if isinstance(d, xdsl.OperandVariable) and at < singles:
        return lambda op: item(operands_of(op), at)
    if isinstance(d, xdsl.ResultVariable) and at == 0:
        return lambda op: item(op.results, 0)
    return attrgetter(d.name)


def types_of(d: xdsl.TypeableDirective) -> Callable[[Operation], Sequence[Attribute]]:
    match d:
        case xdsl.OperandsDirective():
            return lambda op: [v.type for v in operands_of(op)]
        case xdsl.ResultsDirective():
            return lambda op: [v.type for v in op.results]
        case _:
            return lambda op: d.get_types(cast(IRDLOperation, op))


def function_text(texts: Texts, sources: Sequence[Attribute], targets: Sequence[Attribute]) -> str:
    """`(types) -> type`, or `(types) -> (types)`."""
    names = ", ".join(map(texts.attribute_text, targets))
    result = names if len(targets) == 1 else f"({names})"
    return f"({', '.join(map(texts.attribute_text, sources))}) -> {result}"


def attributes_of(d: xdsl.AttributeVariable) -> Callable[[Operation], dict[str, Attribute]]:
    return attrgetter("properties" if d.is_property else "attributes")
