"""The pages of dialects: each op with meaning, syntax, operands, attributes, results, traits,
from the op's class, and an example. Examples are the texts of `docs/examples`, which are parsed,
verified and, where they take no input, run."""

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    ArrayOfConstraint,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    MemRefType,
    ModuleOp,
    StringAttr,
    TensorType,
    UnitAttr,
    i1,
)
from xdsl.ir import Attribute, Dialect
from xdsl.irdl import (
    AnyAttr,
    AnyOf,
    BaseAttr,
    EqAttrConstraint,
    IRDLOperation,
    MessageConstraint,
    OptionalDef,
    OptOperandDef,
    OptResultDef,
    ParamAttrConstraint,
    RangeLengthConstraint,
    RangeOf,
    VarConstraint,
    VarOperandDef,
    VarResultDef,
)

from ge.dialects.graph.sharding import mesh_of
from ge.dialects.support.boxes import Access
from ge.dialects.support.constraints import ChoiceAttr, ChoiceConstraint, Properties
from ge.dialects.support.functions import functions
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.text.formats import format_of
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.context import context
from ge.lowering.plugins.universe import DIALECTS, GE_UNIVERSE
from ge.runtime.data.arrays import Array
from ge.runtime.device.devices import Devices
from ge.runtime.device.function import Function
from ge.tools.reference.markdown import anchor, block, code, from_docstring, paragraphs, table

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "examples"

SEPARATOR = "// -----\n"

OP_NAME = re.compile(r"\b(?:graph|fused_op|npu_task|tile)\.\w+")

context_of_examples = cache(context)


@dataclass(frozen=True)
class Example:
    """A text, where it begins in its file, and the op that it is about (empty: all in it)."""

    text: str
    line: int
    op: str
    place: str

    def module(self) -> ModuleOp:
        """The text as a module that was verified. Raises ParseError or VerifyException."""
        return parsed(self)

    def results(self) -> Sequence[Array]:
        """Return what its function returns, none if it takes inputs or there is no function; of
        the program of one device what all return together."""
        module = self.module()
        mesh = mesh_of(module)
        for func in functions(module).values():
            if not func.body.block.args:
                make = partial(Function, module, func, {})
                return (Devices(func, mesh, lambda _: make()) if mesh else make()).run([])
        return ()


@cache
def parsed(example: Example) -> ModuleOp:
    """See `Example.module`."""
    source = SourceText(example.place, example.text, example.line - 1)
    module = parse_module(context_of_examples(), source)
    module.verify()
    return module


@cache
def examples(dialect: str) -> Sequence[Example]:
    """The examples of a dialect, in the order of its file. Lines `// -----` are between them, else
    empty lines. None are there for dialects of others, and where the sources are not."""
    path = FOLDER / f"{dialect}.mlir"
    if not path.is_file():
        return ()
    head, _, rest = path.read_text("utf-8").partition("\n\n")  # what the file says of itself
    between = SEPARATOR if SEPARATOR in rest else "\n\n"
    found: list[Example] = []
    line = head.count("\n") + 3
    for part in rest.split(between):
        name = re.search(r"^func\.func @(\w+)", part, re.MULTILINE)
        # `_` stands behind the name of an op that another symbol has
        about = f"{dialect}.{name[1].rstrip('_')}" if name and name[1] != "main" else ""
        blank = len(part) - len(part.lstrip("\n"))
        place = f"docs/examples/{path.name}"
        found.append(Example(part.strip() + "\n", line + blank, about, place))
        line += (part + between).count("\n")
    return found


def example_of(op: str) -> Example | None:
    """The example that is named like the op, else the first one that has it."""
    of_dialect = examples(op.partition(".")[0])
    named = (e for e in of_dialect if e.op == op)
    having = (e for e in of_dialect if not e.op and op in OP_NAME.findall(e.text))
    return next(named, None) or next(having, None)


INTRODUCTION = """Each op with its syntax, operands, attributes, results and traits; the
[rationale](../rationale/{dialect}.md) says why the dialect is so. In a syntax `( ... ^)?` is there
if what `^` stands behind is. A *parameter* is written `[1, 2]` where it is constant, and
`(%s : tensor<2xi64>)` where it is known only as the program runs. Examples are parsed, verified,
printed and read again by the tests, and those that return something are run."""

# an interface of the xDSL class, and no fact of the op
UNTOLD = {"_HasFolderInterfaceTrait"}

PARAMETER = re.compile(r"custom<Parameter>\(\$\w+, (\$\w+)\)")

WORDS: dict[type[Attribute], str] = {
    ArrayAttr: "list",
    DenseArrayBase: "numbers",
    FloatAttr: "number",
    IntegerAttr: "integer",
    MemRefType: "memref",
    StringAttr: "text",
    TensorType: "tensor",
    UnitAttr: "flag",
}


def dialect_pages() -> dict[str, Callable[[], str]]:
    """Path -> what makes the page of a dialect."""
    return {f"reference/{name}.md": partial(dialect_page, name) for name in DIALECTS}


def dialect_page(name: str) -> str:
    """All ops of a dialect, by the file that they are in."""
    dialect: Dialect = GE_UNIVERSE.all_dialects[name]()
    parts = [f"# `{name}`", INTRODUCTION.format(dialect=name)]
    families = groupby(dialect.operations, key=lambda op: op.__module__)
    for module, ops in families:
        about, _, _ = inspect.cleandoc(sys.modules[module].__doc__ or "").partition("\n\n")
        file = module.removeprefix("ge.").replace(".", "/") + ".py"
        parts.append(f"## {module.rpartition('.')[2]}\n\n{from_docstring(about)} (`{file}`)")
        parts += [op_section(op) for op in ops if issubclass(op, IRDLOperation)]
    if shared := [e for e in examples(name) if not e.op]:
        parts.append("## Examples")
        parts += [f"### {title(e)}\n\n{block(e.text, 'mlir')}" for e in shared]
    return paragraphs(*parts)


def op_section(op: type[IRDLOperation]) -> str:
    example = example_of(op.name)
    facts = [("Traits", ", ".join(traits_of(op))), ("Access", access_of(op))]
    return paragraphs(
        f"### {op.name}",
        from_docstring(op.__doc__),
        syntax(op),
        table(["operand", "is", "how many"], operand_rows(op)),
        table(["attribute", "is", "default"], attribute_rows(op)),
        table(["result", "is", "how many"], result_rows(op)),
        "\n".join(f"- *{name}*: {text}" for name, text in facts if text),
        "" if example is None else shown(example),
    )


def syntax(op: type[IRDLOperation]) -> str:
    """The assembly format: parameters stand by their names, properties behind theirs."""
    form: object = getattr(op, "assembly_format", None)
    if not isinstance(form, str):
        return "Syntax: as in the example; its parser is written by hand."
    form = PARAMETER.sub(r"\1", form)
    found = format_of(op)
    for part in () if found is None else found.directives:
        if isinstance(part, Properties):
            form = part.text(form)
    return "Syntax:\n\n" + block(f"{op.name} {form}")


def traits_of(op: type[IRDLOperation]) -> list[str]:
    names = {type(trait).__name__ for trait in op.traits.traits} - UNTOLD
    return sorted(code(name) for name in names)


def access_of(op: type[IRDLOperation]) -> str:
    """Say how results follow from operands, of ops on tensors."""
    access: object = getattr(op, "ACCESS", None) if issubclass(op, TensorOp) else None
    return code(access.name) if isinstance(access, Access) else ""


# ---- rows of tables ------------------------------------------------------------------------------


def operand_rows(op: type[IRDLOperation]) -> list[tuple[str, str, str]]:
    rows: list[tuple[str, str, str]] = []
    parameters = op.PARAMETERS if issubclass(op, TensorOp) else dict[str, str]()
    for name, definition in op.get_irdl_definition().operands:
        how = "any" if isinstance(definition, VarOperandDef) else "one"
        how = "optional" if isinstance(definition, OptOperandDef) else how
        if name in parameters:
            how = f"the parameter `{parameters[name]}` where it is not constant"
        rows.append((code(name), words(definition.constr), how))
    return rows


def result_rows(op: type[IRDLOperation]) -> list[tuple[str, str, str]]:
    rows: list[tuple[str, str, str]] = []
    for name, definition in op.get_irdl_definition().results:
        how = "any" if isinstance(definition, VarResultDef) else "one"
        how = "optional" if isinstance(definition, OptResultDef) else how
        rows.append((code(name), words(definition.constr), how))
    return rows


def attribute_rows(op: type[IRDLOperation]) -> list[tuple[str, str, str]]:
    """Properties and attributes, except those that xDSL counts operands with."""
    rows: list[tuple[str, str, str]] = []
    definition = op.get_irdl_definition()
    for name, one in {**definition.properties, **definition.attributes}.items():
        if name.endswith("SegmentSizes"):
            continue
        default = "required"
        if one.default_value is not None:
            default = value_text(one.default_value)
        elif isinstance(one, OptionalDef):
            default = "optional"
        rows.append((code(name), words(one.constr, "attribute"), default))
    return rows


def value_text(value: Attribute) -> str:
    if isinstance(value, ChoiceAttr):
        return code(value.data)
    return code(re.sub(r" : [if]64$", "", str(value)))


def words(constraint: Any, anything: str = "tensor") -> str:
    """Say in words what a constraint takes."""
    match constraint:
        case ChoiceConstraint(attr=kind):
            return ", ".join(map(code, kind.words()))
        case ArrayOfConstraint(elem_range_constraint=RangeOf(constr=ChoiceConstraint(attr=kind))):
            return f"a list of {', '.join(map(code, kind.words()))}"
        case MessageConstraint(message=message):
            return message.removeprefix("a ").removeprefix("ranked ")
        case VarConstraint(constraint=inner):
            return words(inner, anything)
        case RangeOf(constr=inner) | RangeLengthConstraint(constraint=inner):
            return words(inner, anything)
        case AnyOf(attr_constrs=parts):
            return " or ".join(dict.fromkeys(words(p, anything) for p in parts))
        case ParamAttrConstraint(base_attr=base, param_constrs=inner):
            element_type = next(filter(None, map(_only, _flat(inner))), None)
            return _word(base) if element_type is None else _typed(base, element_type)
        case BaseAttr(attr=base):
            return _word(base)
        case EqAttrConstraint(attr=attr):
            return code(str(attr))
        case AnyAttr():
            return anything
        case _:
            return "attribute"


def _flat(constraints: Iterable[Any]) -> list[Any]:
    """Constraints, and those that all have to hold."""
    return [p for c in constraints for p in (c, *getattr(c, "attr_constrs", ()))]


def _only(constraint: Any) -> Attribute | None:
    """The one attribute that a constraint takes."""
    attr: object = getattr(constraint, "attr", None)
    return attr if isinstance(attr, Attribute) else None


def _typed(base: type[Attribute], element_type: Attribute) -> str:
    if element_type == i1:
        return "true or false"
    element = "integer" if isinstance(element_type, IntegerType) else "number"
    return f"{element}s" if base is DenseArrayBase else element


def _word(base: type[Attribute]) -> str:
    name = base.__name__.removesuffix("Attr").removesuffix("Type")
    return WORDS.get(base) or name.lower()


# ---- examples ------------------------------------------------------------------------------------


def shown(example: Example) -> str:
    """The text of an example with what it returns, or where it is, if it is of several ops."""
    if not example.op:
        return f"Example: [{title(example)}](#{anchor(title(example))})"
    returned = ", ".join(array_text(array) for array in example.results())
    gives = f"It returns {code(returned)}." if returned else ""
    return paragraphs("Example:", block(example.text, "mlir"), gives)


def title(example: Example) -> str:
    """The first sentence that it says of itself."""
    comment = re.match(r"(?://.*\n)+", example.text)
    about = " ".join((comment[0] if comment else "").replace("//", "").split())
    return re.split(r"[.:](?: |$)", about)[0]


def array_text(array: Array) -> str:
    """The elements, floats with at most six digits."""
    if array.ndim:
        return f"[{', '.join(array_text(np.asarray(row)) for row in array)}]"
    number = array.item()
    return f"{number:.6g}" if isinstance(number, float) else str(number).lower()
