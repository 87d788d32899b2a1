"""The dialects in IRDL, and modules as mlir-opt takes them then.

    ge-opt --export-irdl > ge.irdl.mlir
    ge-opt m.mlir --print-op-irdl | mlir-opt --irdl-file=ge.irdl.mlir --allow-unregistered-dialect

Definitions say of operands, results, properties and regions what IRDL can say, as LLVM 19 reads it.
What they leave out, so that they take all that ge takes:

- of a builtin type or attribute all but its name (`irdl.base "!builtin.tensor"`): constraints of
  parameters are of attributes that IRDL defines;
- optional properties, as IRDL wants all that it names, and which other attributes are refused;
- what regions hold, and how operands, results and properties fit together (`infer`, `verify_`);
- ops with any number of regions, which a comment names.

All of a variadic operand have one type in IRDL, so ours are up to `MOST` optional ones. An op that
is loaded so has no properties, and none is a terminator; attributes have no syntax of their own.
`dynamic_form` of a module has properties among the attributes, parameters of attributes as
attributes, and an unregistered op at the end of blocks.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from io import StringIO
from itertools import chain
from typing import Any, TypeAlias, cast

from xdsl.dialects.builtin import (
    DenseArrayBase,
    Float4E2M1FNType,
    Float8E8M0FNUType,
    IntAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    UnregisteredOp,
    i32,
    i64,
)
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, Data, Dialect, Operation, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import (
    AllOf,
    AnyAttr,
    AnyOf,
    AttrConstraint,
    AttrSetConstraint,
    BaseAttr,
    EqAttrConstraint,
    IRDLOperation,
    MessageConstraint,
    OperandDef,
    OptionalDef,
    OptPropertyDef,
    ParamAttrConstraint,
    RangeConstraint,
    RangeLengthConstraint,
    RangeOf,
    ResultDef,
    VarConstraint,
    VariadicDef,
)
from xdsl.printer import Printer

from ge.dialects.support.errors import GeError

Values: TypeAlias = Sequence[tuple[str, OperandDef]] | Sequence[tuple[str, ResultDef]]
AnyEnum: TypeAlias = EnumAttribute[Any]

MOST = 32  # values of a variadic operand or result
DIALECTS = ("graph", "fused_op", "npu_task", "tile")

# Element types that LLVM 19 does not read, which are left out of those that an op takes
LATER = (Float4E2M1FNType, Float8E8M0FNUType)

# The names that MLIR gives attributes that have others in xDSL
NAMES = {
    "integer_type": "integer", "fun": "function", "dense": "dense_int_or_fp_elements",
    "dense_resource": "dense_resource_elements", "none_type": "none",
}  # fmt: skip


def is_own(attribute: Attribute | type[Attribute]) -> bool:
    return getattr(attribute, "name", "").partition(".")[0] in DIALECTS


def name_of(kind: type[Attribute]) -> str:
    """The name of an attribute or type, which no op has."""
    return f"{kind.name}_{'type' if issubclass(kind, TypeAttribute) else 'attribute'}"


def symbol_of(kind: type[Attribute]) -> str:
    return f"@{name_of(kind).replace('.', '::@')}"


# ---- definitions ---------------------------------------------------------------------------------


@dataclass
class Definition:
    """The lines of one definition, which name constraints %0, %1, ..."""

    lines: list[str] = field(default_factory=list[str])
    count: int = 0
    variables: dict[str, str] = field(default_factory=dict[str, str])

    def value(self, text: str) -> str:
        name = f"%{self.count}"
        self.count += 1
        self.lines.append(f"{name} = irdl.{text}")
        return name

    def any(self) -> str:
        return self.value("any")

    def any_of(self, values: Sequence[str]) -> str:
        return values[0] if len(values) == 1 else self.value(f"any_of({', '.join(values)})")

    def texts(self, texts: Iterable[str]) -> str:
        return self.any_of([self.value(f'is "{text}"') for text in texts])

    def base(self, kind: type[Attribute]) -> str:
        """Attributes or types of one kind; any where MLIR has no name for it."""
        if not hasattr(kind, "name"):  # abstract
            return self.any_of([self.base(part) for part in kind.__subclasses__()] or [self.any()])
        if is_own(kind):
            return self.value(f"base {symbol_of(kind)}")
        if "." in kind.name:  # not of the builtin dialect
            return self.any()
        name = "dense_array" if issubclass(kind, DenseArrayBase) else kind.name
        sign = "!" if issubclass(kind, TypeAttribute) else "#"
        return self.value(f'base "{sign}builtin.{NAMES.get(name, name)}"')

    def constraint(self, constraint: AttrConstraint) -> str:
        match constraint:
            case MessageConstraint(constr=inner):
                return self.constraint(inner)
            case VarConstraint(name=name, constraint=inner):
                if name not in self.variables:
                    self.variables[name] = self.constraint(inner)
                return self.variables[name]
            case EqAttrConstraint(attr=attribute) if not is_own(attribute):
                return self.value(f"is {attribute}")
            case EqAttrConstraint(attr=EnumAttribute() as attribute):
                own = cast("AnyEnum", attribute)
                of = self.texts([str(own.data)])
                return self.value(f"parametric {symbol_of(type(own))}<{of}>")
            case AnyOf(attr_constrs=parts):
                return self.any_of([self.constraint(part) for part in parts])
            case AttrSetConstraint(values=values) if not any(map(is_own, values)):
                texts = sorted(str(value) for value in values if not isinstance(value, LATER))
                return self.any_of([self.value(f"is {text}") for text in texts])
            case AllOf(attr_constrs=parts):
                values = [self.constraint(part) for part in parts]
                return self.value(f"all_of({', '.join(values)})")
            case ParamAttrConstraint(base_attr=kind, param_constrs=parts) if is_own(kind):
                values = [self.constraint(part) for part in parts]
                return self.value(f"parametric {symbol_of(kind)}<{', '.join(values)}>")
            case BaseAttr(attr=kind) | ParamAttrConstraint(base_attr=kind):
                return self.base(kind)
            case AnyAttr():
                return self.any()
            case _:
                kinds = sorted(constraint.get_bases() or (), key=lambda kind: kind.name)
                return self.any_of([*map(self.base, kinds)] or [self.any()])

    def values(self, word: str, definitions: Values) -> None:
        """Operands or results."""
        found = list[str]()
        for _, value in definitions:
            each = element_of(value.constr)
            if isinstance(value, OptionalDef):
                found.append(f"optional {self.constraint(each)}")
            elif is_of_one_type(each) and isinstance(value, VariadicDef):
                found.append(f"variadic {self.constraint(each)}")
            elif isinstance(value, VariadicDef):
                found += [f"optional {self.constraint(each)}" for _ in range(MOST)]
            else:
                found.append(self.constraint(each))
        if found:
            self.lines.append(f"irdl.{word}({', '.join(found)})")


def element_of(constraint: RangeConstraint) -> AttrConstraint:
    match constraint:
        case RangeLengthConstraint(constraint=inner):
            return element_of(inner)
        case RangeOf(constr=each):
            return each
        case _:
            return AnyAttr()


def is_of_one_type(constraint: AttrConstraint) -> bool:
    """Return whether all values that fit it together are of the same type."""
    if isinstance(constraint, MessageConstraint):
        return is_of_one_type(constraint.constr)
    return isinstance(constraint, EqAttrConstraint | VarConstraint)


def has_any_number_of_regions(kind: type[IRDLOperation]) -> bool:
    regions = kind.get_irdl_definition().regions
    return any(isinstance(region, VariadicDef) for _, region in regions)


def op_lines(kind: type[IRDLOperation]) -> Iterator[str]:
    definition, own = kind.get_irdl_definition(), Definition()
    name = kind.name.partition(".")[2]
    if has_any_number_of_regions(kind):
        yield f"// not {name}, which has any number of regions"
        return
    own.values("operands", definition.operands)
    own.values("results", definition.results)
    required, optional = dict[str, str](), list[str]()
    for prop, of in definition.properties.items():
        if isinstance(of, OptPropertyDef) or of.default_value is not None:
            optional.append(prop)
        elif not prop.endswith("SegmentSizes"):
            required[prop] = own.constraint(of.constr)
    if required:
        texts = (f'"{prop}" = {value}' for prop, value in required.items())
        own.lines.append(f"irdl.attributes {{{', '.join(texts)}}}")
    if optional:
        own.lines.append(f"// may have {', '.join(optional)}")
    if regions := [own.value("region with size 1") for _ in definition.regions]:
        own.lines.append(f"irdl.regions({', '.join(regions)})")
    yield f"irdl.operation @{name} {{"
    yield from (f"  {line}" for line in own.lines)
    yield "}"


def attribute_lines(kind: type[Attribute]) -> Iterator[str]:
    own, name = Definition(), name_of(kind).partition(".")[2]
    if issubclass(kind, EnumAttribute):
        parameters = [own.texts(str(value) for value in cast("type[AnyEnum]", kind).enum_type)]
    elif issubclass(kind, ParametrizedAttribute):
        definitions = kind.get_irdl_definition().parameters
        parameters = [own.constraint(of.constr) for _, of in definitions]
    else:
        parameters = [own.value('base "#builtin.string"')]  # a text
    word = "type" if issubclass(kind, TypeAttribute) else "attribute"
    yield f"irdl.{word} @{name} {{"
    yield from (f"  {line}" for line in own.lines)
    if parameters:
        yield f"  irdl.parameters({', '.join(parameters)})"
    yield "}"


def definitions(dialects: Iterable[Dialect]) -> str:
    """The dialects of ge among these, in IRDL."""
    lines = list[str]()
    for dialect in dialects:
        attributes = map(attribute_lines, dialect.attributes)
        ops = (op_lines(cast("type[IRDLOperation]", kind)) for kind in dialect.operations)
        lines.append(f"irdl.dialect @{dialect.name} {{")
        lines += (f"  {line}" for line in chain.from_iterable([*attributes, *ops]))
        lines.append("}")
    return "\n".join(lines)


# ---- modules -------------------------------------------------------------------------------------


def plain(parameter: Attribute) -> Attribute:
    """A number as MLIR writes it."""
    if isinstance(parameter, IntAttr):
        return IntegerAttr(cast("IntAttr[int]", parameter).data, i64)
    return parameter


class DynamicPrinter(Printer):
    """Prints attributes of the dialects with parameters that are attributes."""

    def print_attribute(self, attribute: Attribute) -> None:
        if not is_own(attribute):
            super().print_attribute(attribute)
            return
        parameters, name = list[Attribute](), name_of(type(attribute))
        if isinstance(attribute, ParametrizedAttribute):
            parameters = [*map(plain, attribute.parameters)]
        elif isinstance(attribute, Data):
            parameters = [StringAttr(str(cast("Data[object]", attribute).data))]
        sign = "!" if isinstance(attribute, TypeAttribute) else "#"
        self.print_string(sign + name)
        if parameters:
            with self.in_angle_brackets():
                self.print_list(parameters, self.print_attribute)


def segments(op: IRDLOperation, values: Values) -> Iterator[int]:
    """Yield how many values each operand or result of the definition in IRDL has."""
    for name, value in values:
        found = getattr(op, name)
        if isinstance(value, OptionalDef):
            yield int(found is not None)
        elif not isinstance(value, VariadicDef):
            yield 1
        elif is_of_one_type(element_of(value.constr)):
            yield len(found)
        elif len(found) <= MOST:
            yield from (int(i < len(found)) for i in range(MOST))
        else:
            raise GeError(f"{op.name} has {len(found)} {name}, in IRDL there are {MOST} at most")


def make_dynamic(op: Operation) -> None:
    """Turn an op into one of a dialect that is loaded from IRDL."""
    if not isinstance(op, IRDLOperation):
        return
    if has_any_number_of_regions(type(op)):
        raise GeError(f"{op.name} has any number of regions, which IRDL cannot say")
    definition = op.get_irdl_definition()
    sizes = dict[str, Attribute]()
    for word, values in (("operand", definition.operands), ("result", definition.results)):
        if any(isinstance(value, VariadicDef) for _, value in values):
            counts = DenseArrayBase.from_list(i32, [*segments(op, values)])
            sizes[f"{word}_segment_sizes"] = counts
    properties = {n: a for n, a in op.properties.items() if not n.endswith("SegmentSizes")}
    op.attributes |= {**properties, **sizes}
    op.properties = {}
    for block in (block for region in op.regions for block in region.blocks):
        block.add_op(UnregisteredOp.with_name("end.block").create())


def dynamic_form(module: ModuleOp) -> str:
    """A module as mlir-opt takes it with these definitions. Raises GeError if IRDL cannot express
    an op."""
    copy = module.clone()
    for op in [op for op in copy.walk() if op.name.partition(".")[0] in DIALECTS]:
        make_dynamic(op)
    text = StringIO()
    DynamicPrinter(text, print_generic_format=True).print_op(copy)
    return text.getvalue()
