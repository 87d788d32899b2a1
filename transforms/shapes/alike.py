"""Kernels that are alike: they differ in the elements of long constants, and in the nodes of the
model that they come from, alone. The layers of a model repeat, so that what one of them becomes at
some sizes is what all of them become, with their own constants and locations.

A rule may ask whether all elements of a constant are one number, which kernels that are alike have
in common, as they have integers and short constants. Or it computes with the constant: then that
use of it is gone, and what the kernel became counts for it alone (`keeps_constants`). A rule that
kept a constant and rewrote by what else its elements say would be wrong here. Those of
`canonical/reassociation.py` ask for magnitudes, to decide whether they compute; where they do not
for one kernel, they are not tried for those that are alike.
"""

from collections import Counter
from collections.abc import Container, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    FusedLoc,
    LocationAttr,
    NoneAttr,
    UnknownLoc,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ge.dialects.fused_op import CustomOp, FusedOp
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.support.folding import splat_bytes
from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.support.element_types import is_float
from ge.dialects.support.operation import all_ops, cloned, operands_of, ops_of
from ge.dialects.support.types import Dense, number_of
from ge.runtime.library.costs.structure import SHORT

NAME = "sym_name"


def is_long(value: Attribute) -> bool:
    """Whether kernels that are alike may differ in the elements of a constant."""
    if not isinstance(value, DenseIntOrFPElementsAttr):
        return False
    elements = cast(Dense, value)
    return len(elements) > SHORT and is_float(elements.get_element_type())


def parts_of(location: LocationAttr) -> Sequence[Attribute]:
    if isinstance(location, FusedLoc):
        return cast(ArrayAttr[Attribute], location.locations).data
    return (location,)


@dataclass
class Likeness:
    """What a kernel has in common with those that are alike, and what it has not."""

    parts: list[Hashable] = field(default_factory=list[Hashable])
    # Long constants and locations, each once, in the order of the ops
    constants: dict[int, Attribute] = field(default_factory=dict[int, Attribute])
    locations: dict[int, Attribute] = field(default_factory=dict[int, Attribute])
    values: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])

    @classmethod
    def of(cls, kernel: KernelOp) -> "Likeness":
        result = cls()
        result.parts += [(n, number_of(a)) for n, a in kernel.properties.items() if n != NAME]
        result.add(kernel.body.block)
        result.values.clear()
        return result

    @property
    def key(self) -> Hashable:
        """Equal for kernels that are alike."""
        return tuple(self.parts)

    def add(self, block: Block) -> None:
        self.define(block.args)
        for op in ops_of(block):
            self.parts.append((type(op), *[self.values[v] for v in operands_of(op)]))
            self.parts += [(n, self.content(op, a)) for n, a in op.properties.items()]
            self.parts += [(n, number_of(a)) for n, a in op.attributes.items()]
            self.parts.append(tuple(map(self.place, parts_of(op.location))))
            self.define(op.results)
            for region in op.regions:
                for inner in region.blocks:
                    self.add(inner)
        self.parts.append(None)  # the block ends

    def define(self, values: Iterable[SSAValue]) -> None:
        for value in values:
            self.values[value] = len(self.values)
            self.parts.append((number_of(value.type), value.name_hint))

    def content(self, op: Operation, value: Attribute) -> Hashable:
        if not isinstance(op, ConstantOp) or not is_long(value):
            return number_of(value)
        elements = cast(Dense, value)
        first = list(self.constants).index(id(value)) if id(value) in self.constants else None
        self.constants.setdefault(id(value), value)
        return number_of(elements.type), splat_bytes(elements), first

    def place(self, location: Attribute) -> int:
        """The number of a location; none is as it is everywhere."""
        if isinstance(location, UnknownLoc):
            return -1
        number = number_of(location)
        self.locations.setdefault(number, location)
        return list(self.locations).index(number)


@dataclass
class Translation:
    """The constants and locations of a kernel in the place of those of one that is alike."""

    constants: dict[int, Attribute]
    locations: dict[int, Attribute]
    known: dict[int, LocationAttr] = field(default_factory=dict[int, LocationAttr])

    @classmethod
    def between(cls, source: Likeness, target: Likeness) -> "Translation":
        return cls(
            dict(zip(source.constants, target.constants.values(), strict=True)),
            dict(zip(source.locations, target.locations.values(), strict=True)),
        )

    def clone(self, kernel: KernelOp) -> KernelOp:
        """A kernel that was made of the source, as if it were made of the target."""
        new = cloned(kernel, {})
        for op in all_ops((new.body.block,)):
            op.location = self.location(op.location)
            if isinstance(op, ConstantOp):
                op.properties["value"] = self.constant(op.value)
        return new

    def constant(self, value: Attribute) -> Attribute:
        return self.constants.get(id(value), value)

    def location(self, location: LocationAttr) -> LocationAttr:
        number = number_of(location)
        if (known := self.known.get(number)) is None:
            parts = [self.locations.get(number_of(p), p) for p in parts_of(location)]
            fused = isinstance(location, FusedLoc)
            new = FusedLoc(tuple(parts), NoneAttr()) if fused else cast(LocationAttr, parts[0])
            known = self.known[number] = new
        return known


def keeps_constants(kernel: KernelOp, block: Block, likeness: Likeness) -> bool:
    """Whether the ops of a kernel that use long constants do so in what it became, too."""
    long = likeness.constants.keys()
    return not long or uses(kernel.body.block, long) == uses(block, long)


def uses(block: Block, constants: Container[int]) -> Counter[tuple[int, type[Operation], int]]:
    """Which ops use these constants, as which operands."""
    found: Counter[tuple[int, type[Operation], int]] = Counter()
    outside: dict[SSAValue, SSAValue] = {}
    for op in ops_of(block):
        members: Sequence[Operation] = (op,)
        if isinstance(op, FusedOp) and not isinstance(op, CustomOp):
            outside |= zip(op.block.args, op.inputs, strict=True)
            members = op.members
        for member in members:
            for i, operand in enumerate(operands_of(member)):
                owner = outside.get(operand, operand).owner
                if isinstance(owner, ConstantOp) and id(owner.value) in constants:
                    found[id(owner.value), type(member), i] += 1
    return found
