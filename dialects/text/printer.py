"""The printer of MLIR text."""

import math
import re
import struct
from collections.abc import Callable
from functools import cache
from io import StringIO
from typing import Any, cast

from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface
from xdsl.dialects.builtin import (
    Builtin,
    DenseIntOrFPElementsAttr,
    FixedBitwidthType,
    ModuleOp,
    StringAttr,
    UnregisteredOp,
    f32,
    i1,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.irdl.declarative_assembly_format import AttributeVariable
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, IsTerminator

from ge.dialects.support.diagnostics import location_of
from ge.dialects.support.operation import LineOp, ops_of
from ge.dialects.text.formats import format_of

PLAIN = re.compile(rb"[ !#-\[\]-~]*")  # text that stands in quotes unchanged
LAUNCH = "npu_task.launch"  # by name: the dialect is not needed to print others


def element_count(attr: Any) -> int:
    """The number of elements that the text of a DenseIntOrFPElementsAttr would list; one for a
    splat."""
    data: bytes = attr.data.data
    size = max(cast(FixedBitwidthType, attr.get_element_type()).compile_time_size, 1)
    return 1 if data[:size] * (len(data) // size) == data else len(data) // size


@cache
def has_syntax(kind: type[Operation]) -> bool:
    """True if ops of the class have a syntax of their own."""
    return kind.print is not Operation.print and not issubclass(kind, UnregisteredOp)


@cache
def is_isolated(kind: type[Operation]) -> bool:
    return kind.has_trait(IsolatedFromAbove)


@cache
def is_terminator(kind: type[Operation]) -> bool:
    return kind.has_trait(IsTerminator, value_if_unregistered=False)


def floats_text(attribute: Any) -> str:
    """The list of a constant of a few f32 as xDSL prints it, in a sixth of its time; empty for
    other constants, as for those that are one number, or have some that are not finite."""
    data, shape = attribute.data.data, attribute.get_shape()
    count = len(data) // 4
    if attribute.get_element_type() != f32 or not 1 < count <= 100:
        return ""
    values = struct.unpack(f"<{count}f", data)
    if values.count(values[0]) == count or not all(map(math.isfinite, values)):
        return ""
    short = [f"{value:.5e}" for value in values]
    read = struct.unpack(f"<{count}f", struct.pack(f"<{count}f", *map(float, short)))
    texts = [
        f"{text[:-4]}0{text[-4:]}" if again == value else f"{value:.9g}"
        for value, again, text in zip(values, read, short, strict=True)
    ]
    if not all("." in text for text in texts):
        return ""
    for size in reversed(shape):
        texts = [f"[{', '.join(texts[i : i + size])}]" for i in range(0, len(texts), size)]
    return texts[0]


class TextPrinter(Printer):
    """Prints `dense_resource<__elided__>` for a constant of more than `limit` elements, and builds
    the text of equal attributes once: most of a program's text is types that repeat."""

    def __init__(
        self,
        *,
        limit: int | None = None,
        resource_limit: int | None = None,
        attributes: dict[Any, str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.limit, self.resource_limit = limit, resource_limit
        self.attributes: dict[Any, str] = {} if attributes is None else attributes
        # by ids, and with what has them: hashes of structures, and of values, take longest
        self.by_id: dict[int, tuple[Attribute, str]] = {}
        self.names: dict[int, tuple[SSAValue, str]] = {}

    def print_whole(self, op: Operation) -> None:
        """Print an op that stands alone, of a module also the resources that it names."""
        self.print_op(op)
        if self._dialect_resources and isinstance(op, ModuleOp):
            self.print_resources()

    def print_resources(self) -> None:
        storage = Builtin.get_interface(OpAsmDialectInterface)
        if storage is not None and self.resource_limit is not None:
            for handles in self._dialect_resources.values():
                texts = {handle: storage.lookup(handle) or "" for handle in handles}
                handles -= {h for h, text in texts.items() if len(text) > self.resource_limit}
        self.print_metadata([Builtin])

    def print_op(self, op: Operation) -> None:
        kind = type(op)
        if not (self._is_plain and has_syntax(kind)):
            super().print_op(op)
        elif (line := self.line(op)) is not None:
            self.print_string(line, indent=0)
        else:
            self.print_string(self.head(op))
            if is_isolated(kind):
                self.enter_scope()
                op.print(self)
                self.exit_scope()
            else:
                op.print(self)
                self.print_string(self.node_text(op))

    def head(self, op: Operation) -> str:
        """The names of an op's results, and its own."""
        if not (results := op.results):
            return op.name
        return f"{', '.join(map(self.name_of, results))} = {op.name}"

    def line(self, op: Operation) -> str | None:
        """The text of an op that is one line, and whose format is declared or that knows it; None
        where it prints itself."""
        form = format_of(type(op))
        if form is not None:
            head = self.head(op)  # its results have the first names
            text = form.text(op, self)
            if text is None or op.name != LAUNCH:
                return None if text is None else head + text
            return f"{head}{text}{self.node_text(op)}"
        if isinstance(op, LineOp) and not op.attributes:
            return self.head(op) + op.line(self, "")
        return None

    def node_text(self, op: Operation) -> str:
        """The node of the model that a launch comes from: the name that a profile gives it, whether
        or not locations are printed."""
        if op.name != LAUNCH:
            return ""
        name = location_of(op).name
        return f" loc({self.attribute_text(StringAttr(name))})" if name else ""

    def print_block(
        self, block: Block, print_block_args: bool = True, print_block_terminator: bool = True
    ) -> None:
        if print_block_args:
            self.print_block_head(block)
        self._indent += 1
        before = "\n" + " " * (self._indent * self.indent_num_spaces)
        is_plain, stream, width = self._is_plain, self.stream, len(before) - 1
        for op in ops_of(block):
            kind = type(op)
            if not print_block_terminator and is_terminator(kind):
                continue
            line = self.line(op) if is_plain and has_syntax(kind) else None
            if line is None or "\n" in line or stream is None:
                self._print_new_line()
                self.print_op(op)
                continue
            self._current_line += 1
            self._current_column = width + len(line)
            stream.write(before + line)  # at once, where that is all its text
        self._indent -= 1

    def print_block_head(self, block: Block) -> None:
        """The line of a block's name and arguments."""
        self._print_new_line()
        if block not in self._blocks:  # it is printed without its region
            self._populate_block_name(block)
        self.print_block_name(block)
        if block.args:
            with self.in_parens():
                self.print_list(block.args, self.print_block_argument)
        self.print_string(":")

    @property
    def _is_plain(self) -> bool:
        """True if nothing but the text of ops is printed, in the syntax of their own."""
        others = self.print_debuginfo or self.diagnostic.op_messages or self._next_line_callback
        return not (self.print_generic_format or others)

    def print_string(self, text: str, *, indent: int | None = None) -> None:
        if self.stream is None or ("\n" in text and self._next_line_callback):
            super().print_string(text, indent=indent)
            return
        if "\n" in text:
            depth = self._indent if indent is None else indent
            self._current_line += text.count("\n")
            text = text.replace("\n", "\n" + " " * (depth * self.indent_num_spaces))
            self._current_column = -1 - text.rfind("\n")
        self._current_column += len(text)
        self.stream.write(text)

    def print_bytes_literal(self, bytestring: bytes) -> None:
        """Print bytes as upstream does, which prints one character at a time."""
        if PLAIN.fullmatch(bytestring):
            self.print_string(f'"{bytestring.decode()}"', indent=0)
        else:
            super().print_bytes_literal(bytestring)

    def _print_new_line(self, indent: int | None = None, print_message: bool = True) -> None:
        if self._next_line_callback or self.stream is None:
            super()._print_new_line(indent, print_message)
            return
        self._current_line += 1
        self._current_column = (self._indent if indent is None else indent) * self.indent_num_spaces
        self.stream.write("\n" + " " * self._current_column)

    def name_of(self, value: SSAValue) -> str:
        """The name of a value, which it has from now on."""
        if (key := id(value)) in self.names:
            return self.names[key][1]
        if hint := value.name_hint:
            number = self.ssa_names.get(hint, 0)
            self.ssa_names[hint] = number + 1
            name = f"%{hint}_{number}" if number else f"%{hint}"
        else:
            name = f"%{self._get_new_valid_name_id()}"
        self.names[key] = value, name
        return name

    def print_ssa_value(self, value: SSAValue) -> str:
        name = self.name_of(value)
        self.print_string(name)
        return name[1:]

    def print_attribute(self, attribute: Attribute) -> None:
        if self.printing_location:  # the text then depends on its place
            self.print_new_attribute(attribute)
        else:
            self.print_string(self.attribute_text(attribute), indent=0)

    def attribute_text(self, attribute: Attribute) -> str:
        if (known := self.by_id.get(id(attribute))) is not None:
            return known[1]
        text = self.attributes.get(attribute)
        if text is None:
            text = self._apart(lambda: self.print_new_attribute(attribute))
            if "\n" in text:  # its lines are indented for this place
                return text
            self.attributes[attribute] = text
        self.by_id[id(attribute)] = attribute, text
        return text

    def variable_text(self, variable: AttributeVariable, attribute: Attribute) -> str:
        """The text of an attribute as a format's variable has it."""
        key = type(variable), attribute
        if (text := self.attributes.get(key)) is None:
            text = self._apart(lambda: variable.print_attr(self, attribute))
            if "\n" not in text:
                self.attributes[key] = text
        return text

    def _apart(self, write: Callable[[], object]) -> str:
        """Collect and return what `write` prints; the stream does not get it."""
        out, self.stream = self.stream, StringIO()
        try:
            write()
            return self.stream.getvalue()
        finally:
            self.stream = out

    def print_new_attribute(self, attribute: Attribute) -> None:
        constant = cast(Any, attribute)
        if self.is_elided(attribute):
            self.print_string("dense_resource<__elided__> : ")
            self.print_attribute(constant.type)
        elif isinstance(attribute, DenseIntOrFPElementsAttr) and self.is_listed(constant):
            self.print_elements(constant)
        elif isinstance(attribute, DenseIntOrFPElementsAttr) and (text := floats_text(constant)):
            self.print_string(f"dense<{text}> : ")
            self.print_attribute(constant.type)
        else:
            super().print_attribute(cast(Attribute, attribute))

    def is_listed(self, attribute: Any) -> bool:
        """True if the constant is printed as a list, however long. Bits are: of bytes xDSL has one
        for each, LLVM one for eight."""
        return attribute.get_element_type() == i1 and element_count(attribute) > 1

    def print_elements(self, attribute: Any) -> None:
        """A constant as upstream prints one of up to 100 elements."""
        self.print_string("dense<")
        attribute._print_dense_list(attribute.get_values(), attribute.get_shape(), self)
        self.print_string("> : ")
        self.print_attribute(attribute.type)

    def is_elided(self, attribute: Attribute) -> bool:
        constant = isinstance(attribute, DenseIntOrFPElementsAttr)
        return self.limit is not None and constant and element_count(attribute) > self.limit
