"""Looks of a text that mlir-opt has flags for, and few ask for: the users of a value, regions left
out, one numbering for all functions, names from locations, constants as bytes."""

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    CallSiteLoc,
    DenseIntOrFPElementsAttr,
    FileLineColLoc,
    FusedLoc,
    LocationAttr,
    NameLoc,
    NoneAttr,
    UnknownLoc,
    i1,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ge.dialects.support.editing import value_name
from ge.dialects.support.operation import ops_of, regions_of
from ge.dialects.text.look import Look
from ge.dialects.text.printer import TextPrinter, element_count, is_isolated, is_terminator


class LookPrinter(TextPrinter):
    """Prints with any look.

    `users` numbers all values before the first line is printed, for a comment names those that come
    later; an op without results that uses some has a number too, as in mlir-opt.
    """

    def __init__(self, *, look: Look, **options: Any) -> None:
        super().__init__(**options)
        self.look = look
        self.ids: dict[int, str] = {}  # of ops without results
        self.used: list[set[str]] = [set()]  # names of values, for each scope that is open

    @property
    def _is_plain(self) -> bool:
        return False

    def print_whole(self, op: Operation) -> None:
        if self.look.users:
            self.number(op)
        super().print_whole(op)

    def print_op(self, op: Operation) -> None:
        super().print_op(op)
        if node := "" if self.print_debuginfo or self.print_generic_format else self.node_text(op):
            self.print_string(node)
        if self.look.users and (comment := self.comment_on(op)):
            self.print_string(f" // {comment}")

    # ---- names -------------------------------------------------------------------------------

    def enter_scope(self) -> None:
        if not self.look.unique_ids:
            super().enter_scope()
            self.used.append({*self.used[-1]})

    def exit_scope(self) -> None:
        if not self.look.unique_ids:
            super().exit_scope()
            self.used.pop()

    def name_of(self, value: SSAValue) -> str:
        if id(value) in self.names or not self.look.location_names:
            return super().name_of(value)
        hint = value_name(location_name(value).lstrip("/")) or value.name_hint
        if not hint:
            return super().name_of(value)
        name, number = hint, 0
        while name in self.used[-1]:
            number += 1
            name = f"{hint}_{number}"
        self.used[-1].add(name)
        self.names[id(value)] = value, f"%{name}"
        return f"%{name}"

    def number(self, op: Operation) -> None:
        """Name all values in the order of the text."""
        for result in op.results:
            self.name_of(result)
        if op.operands and not op.results:
            self.ids[id(op)] = f"%{self._get_new_valid_name_id()}"
        if isolated := is_isolated(type(op)):
            self.enter_scope()
        for block in (b for region in regions_of(op) for b in region.blocks):
            for value in block.args:
                self.name_of(value)
            for inner in ops_of(block):
                self.number(inner)
        if isolated:
            self.exit_scope()

    # ---- users of a value --------------------------------------------------------------------

    def users_of(self, value: SSAValue) -> str:
        """The names of its users' results, the last one first; none for no users."""
        found: dict[str, None] = {}
        for use in value.uses:
            names = [self.name_of(r) for r in use.operation.results]
            found |= dict.fromkeys(names or [self.ids.get(id(use.operation), "(not printed)")])
        return ", ".join(found)

    def comment_on(self, op: Operation) -> str:
        if not op.results:
            return f"id: {self.ids[id(op)]}" if id(op) in self.ids else ""
        by_result = [self.users_of(result) for result in op.results]
        if not any(by_result):
            return "unused"
        if len(by_result) > 1:
            return "users: " + ", ".join(f"({users or 'unused'})" for users in by_result)
        return f"users: {by_result[0]}" if ", " in by_result[0] else f"user: {by_result[0]}"

    def print_block(
        self, block: Block, print_block_args: bool = True, print_block_terminator: bool = True
    ) -> None:
        if not self.look.users:
            super().print_block(block, print_block_args, print_block_terminator)
            return
        if print_block_args:
            self.print_block_head(block)
        self._indent += 1
        for value in block.args:
            users = self.users_of(value)
            says = f"is used by {users}" if users else "is unused"
            self._print_new_line()
            self.print_string(f"// {self.name_of(value)} {says}")
        for op in ops_of(block):
            if print_block_terminator or not is_terminator(type(op)):
                self._print_new_line()
                self.print_op(op)
        self._indent -= 1

    # ---- regions and attributes --------------------------------------------------------------

    def print_region(
        self,
        region: Region,
        print_entry_block_args: bool = True,
        print_empty_block: bool = True,
        print_block_terminators: bool = True,
    ) -> None:
        if self.look.skip_regions:
            self.print_string("{...}")
        else:
            super().print_region(
                region, print_entry_block_args, print_empty_block, print_block_terminators
            )

    def print_new_attribute(self, attribute: Attribute) -> None:
        elements = cast(Any, attribute)
        if isinstance(attribute, LocationAttr) and self.look.pretty:
            self.print_string(pretty_location(attribute))
        elif text := "" if self.is_elided(attribute) else self.bytes_of(elements):
            self.print_string(f"dense<{text}> : ")
            self.print_attribute(elements.type)
        else:
            super().print_new_attribute(attribute)

    def bytes_of(self, attribute: Any) -> str:
        """The bytes of a constant that is to be printed so, as a quoted hexadecimal number; empty
        for another one, a list, and one that stands for all elements."""
        limit = self.look.hex_above
        if limit is None or limit < 0 or not isinstance(attribute, DenseIntOrFPElementsAttr):
            return ""
        if element_count(attribute) <= max(limit, 1) or attribute.get_element_type() == i1:
            return ""
        return f'"0x{attribute.data.data.hex().upper()}"'

    def is_listed(self, attribute: Any) -> bool:
        """True for a constant that is printed as a list: with a limit, any that is not printed as
        bytes."""
        if element_count(attribute) <= 1:
            return False
        return self.look.hex_above is not None or super().is_listed(attribute)


# ---- locations -------------------------------------------------------------------------------


def location_name(value: SSAValue) -> str:
    """The first name in the location of a value, that of an op for its results."""
    owner = value.owner
    location = cast(Any, value).location if isinstance(owner, Block) else owner.location
    return first_name(location) or ""


def first_name(location: Attribute) -> str | None:
    match location:
        case NameLoc():
            return location.desc.data
        case CallSiteLoc():
            return first_name(location.callee) or first_name(location.caller)
        case FusedLoc(locations=ArrayAttr() as parts):  # pyright: ignore[reportUnknownVariableType]
            return next(filter(None, map(first_name, cast("Sequence[Attribute]", parts))), None)
        case _:
            return None


def pretty_location(location: Attribute) -> str:
    """A location as mlir-opt writes it for people: `"Conv_3"(model.py:12:4)`."""
    match location:
        case FileLineColLoc():
            return f"{location.filename.data}:{location.line.data}:{location.column.data}"
        case NameLoc():
            inner = location.location
            known = not isinstance(inner, NoneAttr | UnknownLoc)
            return f"{location.desc}{f'({pretty_location(inner)})' if known else ''}"
        case CallSiteLoc():
            together = isinstance(location.callee, NameLoc) and isinstance(
                location.caller, FileLineColLoc
            )
            callee, caller = pretty_location(location.callee), pretty_location(location.caller)
            return f"{callee}{' ' if together else chr(10) + ' '}at {caller}"
        case FusedLoc():
            meta = location.metadata
            about = "" if isinstance(meta, NoneAttr) else f"<{meta}>"
            parts = cast("Sequence[Attribute]", location.locations)
            return f"{about}[{', '.join(map(pretty_location, parts))}]"
        case _:
            return "[unknown]"
