"""ge-reduce: a module made smaller while it stays interesting.

`delta.py` finds the few ops of a function that matter; the steps here go on where it ends, on any
module. Each takes many places at once, then fewer, as long as the module stays interesting. Each
makes something smaller that no other makes larger, so they come to an end together.

    %0 = "a"() {x = 1, y = 2} : () -> tensor<64xf32>
    %1 = "b"(%0) : (tensor<64xf32>) -> tensor<64xf32>
    "c"(%1) : (tensor<64xf32>) -> ()
becomes
    %0 = "a"() {y = 2} : () -> tensor<1xf32>
    "c"(%0) : (tensor<1xf32>) -> ()
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FunctionType,
    IntAttr,
    IntegerType,
    MemRefType,
    ModuleOp,
    TensorType,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.traits import IsTerminator

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.support.errors import GeError
from ge.dialects.support.types import AnyTensor, Dense, array_ints, set_type
from ge.runtime.data.arrays import array_of, dense
from ge.tools.debugging.delta import Shows, reduce, with_arguments

Target = tuple[int, Hashable]  # an op by its place in a walk, and what of it


def reduce_module(module: ModuleOp, shows: Shows) -> ModuleOp:
    """A smaller module that shows it too; `module` itself shows it."""
    best = module
    if all(len(o.body.blocks) < 2 for o in module.ops if isinstance(o, FuncOp)):
        best = reduce(module, shows, math.inf)
        best = best if shows(best) else module
    before = None
    while before is not best:
        before = best
        for step in STEPS:
            best = step.taken(best, shows)
    return best


class ReductionStep(ABC):
    """One way to make a module smaller, at many places."""

    @abstractmethod
    def targets(self, module: ModuleOp) -> Sequence[Target]:
        """Where it can be tried, what is most likely to go first."""

    @abstractmethod
    def changed(self, module: ModuleOp, chosen: Sequence[Target]) -> ModuleOp | None:
        """Another module, changed at the chosen places; None where that cannot be."""

    def taken(self, module: ModuleOp, shows: Shows) -> ModuleOp:
        targets = self.targets(module)
        size = len(targets)
        while size:
            start = 0
            while start < len(targets):
                new = self.changed(module, targets[start : start + size])
                left = targets if new is None else self.targets(new)
                if new is not None and len(left) < len(targets) and shows(new):
                    module, targets = new, left
                else:
                    start += size
            size //= 2
        return module


class Edit(ReductionStep):
    """A step that changes a copy of the module in place."""

    @abstractmethod
    def change(self, ops: Sequence[Operation], chosen: Sequence[Target]) -> None:
        """Change a module, whose ops in the order of a walk are given, at the chosen places."""

    def changed(self, module: ModuleOp, chosen: Sequence[Target]) -> ModuleOp | None:
        new = module.clone()
        try:
            self.change(list(new.walk()), chosen)
        except Exception:  # not every op can be built in every form
            return None
        return new


class Erase(Edit):
    """Ops whose results nobody uses, with what they alone use; from the end."""

    def targets(self, module: ModuleOp) -> Sequence[Target]:
        ops = enumerate(module.walk())
        found: list[Target] = [(i, "") for i, op in ops if i and not is_terminator(op)]
        return found[::-1]

    def change(self, ops: Sequence[Operation], chosen: Sequence[Target]) -> None:
        for i, _ in chosen:
            op = ops[i]
            if op.parent is not None and all(r.first_use is None for r in op.results):
                op.detach()
                op.erase()


def is_terminator(op: Operation) -> bool:
    return op.has_trait(IsTerminator, value_if_unregistered=False)


class Bypass(Edit):
    """Ops whose results may be an operand, or an argument of the block, of their types."""

    def targets(self, module: ModuleOp) -> Sequence[Target]:
        ops = enumerate(module.walk())
        return [(i, "") for i, op in ops if i and op.results and instead_of(op) is not None]

    def change(self, ops: Sequence[Operation], chosen: Sequence[Target]) -> None:
        for i, _ in chosen:
            op = ops[i]
            values = instead_of(op)
            if values is not None:
                for result, value in zip(op.results, values, strict=True):
                    result.replace_all_uses_with(value)
                op.detach()
                op.erase()


def instead_of(op: Operation) -> list[SSAValue] | None:
    """Values of the types of an op's results that are there without it."""
    block = op.parent
    around = list(block.args) if isinstance(block, Block) else []
    there: list[SSAValue] = [*op.operands, *around]
    values = [next((v for v in there if v.type == r.type), None) for r in op.results]
    return None if None in values else [v for v in values if v is not None]


class MergeOperands(Edit):
    """Operands that may be the first value of their type among the arguments of the block."""

    def targets(self, module: ModuleOp) -> Sequence[Target]:
        return [
            (i, k)
            for i, op in enumerate(module.walk())
            for k, value in enumerate(op.operands)
            if (first := first_like(op, value)) is not None and first is not value
        ]

    def change(self, ops: Sequence[Operation], chosen: Sequence[Target]) -> None:
        for i, k in chosen:
            assert isinstance(k, int)
            first = first_like(ops[i], ops[i].operands[k])
            if first is not None:
                ops[i].operands[k] = first


def first_like(op: Operation, value: SSAValue) -> SSAValue | None:
    block = op.parent
    if block is None:
        return None
    return next((a for a in block.args if a.type == value.type), None)


KEPT = ("sym_name", "op_name__")  # the name of a symbol, and of an op that nobody knows


class DropAttributes(Edit):
    """Attributes and properties of ops, of functions' arguments and results."""

    def targets(self, module: ModuleOp) -> Sequence[Target]:
        return [
            (i, key)
            for i, op in enumerate(module.walk())
            for key in (*op.attributes, *op.properties)
            if key not in KEPT
        ]

    def change(self, ops: Sequence[Operation], chosen: Sequence[Target]) -> None:
        for i, key in chosen:
            assert isinstance(key, str)
            table = ops[i].attributes if key in ops[i].attributes else ops[i].properties
            table.pop(key)


class DropArguments(Edit):
    """Arguments of functions that nobody uses."""

    def targets(self, module: ModuleOp) -> Sequence[Target]:
        return [
            (i, k)
            for i, op in enumerate(module.walk())
            if isinstance(op, FuncOp) and op.body.blocks
            for k, arg in reversed([*enumerate(op.body.block.args)])
            if arg.first_use is None
        ]

    def change(self, ops: Sequence[Operation], chosen: Sequence[Target]) -> None:
        for i, k in chosen:
            func = ops[i]
            assert isinstance(func, FuncOp)
            assert isinstance(k, int)
            block = func.body.block
            block.erase_arg(block.args[k])
            inputs = [a.type for a in block.args]
            func.function_type = FunctionType.from_lists(inputs, [*func.function_type.outputs])
            if func.arg_attrs is not None:
                tables: list[DictionaryAttr] = list(func.arg_attrs.data)
                del tables[k]
                func.arg_attrs = ArrayAttr(tables)


class TurnConstants(ReductionStep):
    """Constants into arguments of their function."""

    def targets(self, module: ModuleOp) -> Sequence[Target]:
        ops = enumerate(module.walk())
        return [(i, "") for i, op in ops if isinstance(op, ConstantOp)]

    def changed(self, module: ModuleOp, chosen: Sequence[Target]) -> ModuleOp | None:
        return with_arguments(module, [i for i, _ in chosen])


class FillConstants(Edit):
    """Constants of many numbers into those of one: the first."""

    def targets(self, module: ModuleOp) -> Sequence[Target]:
        return [
            (i, key)
            for i, op in enumerate(module.walk())
            for key, value in (*op.properties.items(), *op.attributes.items())
            if (numbers := dense_in(value)) is not None and has_several_numbers(numbers)
        ]

    def change(self, ops: Sequence[Operation], chosen: Sequence[Target]) -> None:
        for i, key in chosen:
            assert isinstance(key, str)
            for table in (ops[i].properties, ops[i].attributes):
                if key in table and (numbers := dense_in(table[key])) is not None:
                    table[key] = resized(numbers, cast(Attribute, numbers.type))


def dense_in(attribute: Attribute) -> Dense | None:
    return cast(Dense, attribute) if isinstance(attribute, DenseIntOrFPElementsAttr) else None


def has_several_numbers(value: Dense) -> bool:
    try:
        numbers = array_of(value)
    except GeError:  # of a type that is not computed with
        return False
    return numbers.size > 1 and dense(numbers).data != dense(numbers.reshape(-1)[:1]).data


def resized(value: Dense, type: Attribute) -> Dense:
    """The first number of a constant everywhere in one of another shape."""
    first = array_of(value).reshape(-1)[:1]
    return DenseIntOrFPElementsAttr(cast(Any, type), dense(first).data)


class ShrinkDims(Edit):
    """One size of tensors and buffers into a smaller one, wherever it stands: in types, or also in
    lists of numbers."""

    def targets(self, module: ModuleOp) -> Sequence[Target]:
        values = (v for op in module.walk() for v in values_of(op))
        sizes = {n for v in values for n in sizes_in(v.type) if n > 1}
        return [
            (0, Size(n, to, in_lists))
            for n in sorted(sizes, reverse=True)
            for to in sorted({1, 2, n // 2} - {n})
            for in_lists in (False, True)
        ]

    def taken(self, module: ModuleOp, shows: Shows) -> ModuleOp:
        """One at a time: sizes that are changed together mix."""
        targets = list(self.targets(module))
        while targets:
            target = targets.pop(0)
            new = self.changed(module, [target])
            if new is not None and shows(new):
                module, targets = new, list(self.targets(new))
        return module

    def change(self, ops: Sequence[Operation], chosen: Sequence[Target]) -> None:
        for _, size in chosen:
            assert isinstance(size, Size)
            for op in ops:
                for table in (op.properties, op.attributes):
                    for key, value in table.items():
                        table[key] = size.of(value)
                for value in values_of(op):
                    set_type(value, size.of(value.type))


def values_of(op: Operation) -> Iterator[SSAValue]:
    yield from op.results
    for region in op.regions:
        for block in region.blocks:
            yield from block.args


@dataclass(frozen=True)
class Size:
    """A size, and the one in its place."""

    old: int
    new: int
    in_lists: bool

    def of(self, attribute: Attribute) -> Attribute:
        """An attribute with the new size wherever the old one stands in it."""
        if isinstance(attribute, TensorType | MemRefType):
            shaped = cast("AnyTensor | MemRefType[Any]", attribute)
            sizes = [IntAttr(self.new if n == self.old else n) for n in shaped.get_shape()]
            return type(shaped).new([ArrayAttr(sizes), *shaped.parameters[1:]])
        if (numbers := dense_in(attribute)) is not None:
            before = cast(Attribute, numbers.type)
            after = self.of(before)
            return numbers if after == before else resized(numbers, after)
        if isinstance(attribute, DenseArrayBase):
            return self._of_list(cast("DenseArrayBase[Any]", attribute))
        if isinstance(attribute, ArrayAttr):
            parts = cast("ArrayAttr[Attribute]", attribute).data
            return ArrayAttr([self.of(a) for a in parts])
        if isinstance(attribute, DictionaryAttr):
            return DictionaryAttr({k: self.of(a) for k, a in attribute.data.items()})
        if isinstance(attribute, FunctionType):
            inputs, outputs = attribute.inputs.data, attribute.outputs.data
            return FunctionType.from_lists([*map(self.of, inputs)], [*map(self.of, outputs)])
        return attribute

    def _of_list(self, numbers: "DenseArrayBase[Any]") -> Attribute:
        element: Attribute = numbers.elt_type
        if not self.in_lists or not isinstance(element, IntegerType):
            return numbers
        whole = [self.new if n == self.old else n for n in array_ints(numbers)]
        return DenseArrayBase.from_list(cast("IntegerType[Any, Any]", element), whole)


def sizes_in(type: Attribute) -> tuple[int, ...]:
    if not isinstance(type, TensorType | MemRefType):
        return ()
    return cast("AnyTensor | MemRefType[Any]", type).get_shape()


STEPS: Sequence[ReductionStep] = (
    Erase(), Bypass(), TurnConstants(), MergeOperands(), DropArguments(), DropAttributes(),
    FillConstants(), ShrinkDims(),
)  # fmt: skip
