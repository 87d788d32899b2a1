"""ge-reduce: a module made smaller while it stays interesting.

First a module is cut down to the few ops that matter, by delta debugging (Zeller and Hildebrandt,
"Simplifying and isolating failure-inducing input", 2002). A candidate is a subset of the ops of a
block as a function of its own: values from other ops become arguments, values that other ops use
become results. The search shrinks the block from its end, from its start, and then in chunks.
Blocks of branches and loops are candidates, too.

The steps of `ge-reduce` go on where that ends, on any module. Each takes many places at once,
then fewer, as long as the module stays interesting. Each makes something smaller that no other
makes larger, so they come to an end together.

    %0 = "a"() {x = 1, y = 2} : () -> tensor<64xf32>
    %1 = "b"(%0) : (tensor<64xf32>) -> tensor<64xf32>
    "c"(%1) : (tensor<64xf32>) -> ()
becomes
    %0 = "a"() {y = 2} : () -> tensor<1xf32>
    "c"(%0) : (tensor<1xf32>) -> ()
"""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

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
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.traits import IsTerminator

from ge.dialects.fused_op import FusedOp
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.stated import DIMS
from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.support.errors import GeError
from ge.dialects.support.types import AnyTensor, Dense, array_ints, set_type
from ge.runtime.data.arrays import array_of, dense

T = TypeVar("T")

# Whether a module shows what is looked for. It may be no valid module; it is not changed.
Shows = Callable[[ModuleOp], bool]


def reduce(module: ModuleOp, shows: Shows, end: float) -> ModuleOp:
    """A small part of `module` that shows it as well; the search stops at the time `end` (of
    `time.process_time`: a busy machine finds the same part)."""
    return _Reduction(shows, end).run(module)


def ops_of(block: Block) -> list[Operation]:
    last = block.last_op
    return [o for o in block.ops if o is not last and not isinstance(o, ConstantOp)]


def read_by(op: Operation) -> Iterator[SSAValue]:
    for inner in op.walk():
        yield from inner.operands


class ExtractedOps:
    """Some ops of a block as a module of one function."""

    def __init__(self, block: Block, ops: Sequence[Operation]) -> None:
        self.block, self.ops = block, ops
        inside = {v for op in ops for inner in op.walk() for v in _defined(inner)}
        outer = dict.fromkeys(v for op in ops for v in read_by(op) if v not in inside)
        self.constants = [v.owner for v in outer if isinstance(v.owner, ConstantOp)]
        self.inputs = [v for v in outer if not isinstance(v.owner, ConstantOp)]
        kept = set(ops)
        self.outputs = [
            r
            for op in ops
            for r in op.results
            if r.first_use is None or any(_top(u.operation, block) not in kept for u in r.uses)
        ]

    def module(self, outputs: Sequence[SSAValue] | None = None) -> ModuleOp:
        """The module, with the other symbols of the one around; `outputs` are all by default."""
        outputs = self.outputs if outputs is None else outputs
        body = Block(arg_types=[v.type for v in self.inputs])
        values: dict[SSAValue, SSAValue] = dict(zip(self.inputs, body.args, strict=True))
        for value, arg in values.items():
            arg.name_hint = value.name_hint
        for op in (*dict.fromkeys(self.constants), *self.ops):
            body.add_op(op.clone(values))
        body.add_op(ReturnOp(*(values[v] for v in outputs)))
        around = _function_around(self.block)
        types = [v.type for v in self.inputs], [v.type for v in outputs]
        func = FuncOp(around.sym_name.data, FunctionType.from_lists(*types), Region(body))
        func.attributes.update(around.attributes)
        tables = [_dims(around, v) for v in self.inputs]
        if any(t.data for t in tables):
            func.arg_attrs = ArrayAttr(tables)
        module = around.parent_op()
        assert isinstance(module, ModuleOp)
        new = ModuleOp([func if o is around else o.clone() for o in module.ops])
        new.attributes.update(module.attributes)
        return new


def _defined(op: Operation) -> Iterator[SSAValue]:
    yield from op.results
    for region in op.regions:
        for block in region.blocks:
            yield from block.args


def _top(op: Operation, block: Block) -> Operation | None:
    current: Operation | None = op
    while current is not None and current.parent is not block:
        current = current.parent_op()
    return current


def _function_around(block: Block) -> FuncOp:
    op = block.parent_op()
    while op is not None and not isinstance(op, FuncOp):
        op = op.parent_op()
    assert op is not None
    return op


def _dims(around: FuncOp, value: SSAValue) -> DictionaryAttr:
    attributes: dict[str, Attribute] = {}
    if (
        isinstance(value, BlockArgument)
        and value.block.parent_op() is around
        and around.arg_attrs is not None
        and DIMS in (table := around.arg_attrs.data[value.index].data)
    ):
        attributes[DIMS] = table[DIMS]
    return DictionaryAttr(attributes)


class _Reduction:
    def __init__(self, shows: Shows, end: float) -> None:
        self.shows, self.end = shows, end

    @property
    def late(self) -> bool:
        return time.process_time() > self.end

    def run(self, module: ModuleOp) -> ModuleOp:
        best = self.without_symbols(module, FuncOp)
        for func in [o for o in best.ops if isinstance(o, FuncOp) and o.body.blocks]:
            part = self.smallest(func.body.block)
            if part is not None:
                return self.without_symbols(part, Operation)
        return best

    def smallest(self, block: Block) -> ModuleOp | None:
        ops = ops_of(block)
        if not self.shows(ExtractedOps(block, ops).module()):
            return None
        ops = self.window(block, ops)
        ops = self.chunks(block, ops)
        for op in ops:
            if isinstance(op, FusedOp | KernelOp):
                continue
            for inner in (b for r in op.regions for b in r.blocks):
                if not self.late and (small := self.smallest(inner)) is not None:
                    return small
        part = ExtractedOps(block, ops)
        outputs = self.fewest(part.outputs, lambda o: self.shows(part.module(o)))
        return self.finish(part.module(outputs))

    def window(self, block: Block, ops: list[Operation]) -> list[Operation]:
        """The shortest beginning that shows it, then the shortest end of that."""

        def shows(first: int, last: int) -> bool:
            return not self.late and self.shows(ExtractedOps(block, ops[first:last]).module())

        low, high = 0, len(ops)  # the beginning of `high` ops shows it
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if shows(0, middle) else (middle, high)
        first, late = 0, high
        while late - first > 1:
            middle = (first + late) // 2
            first, late = (middle, late) if shows(middle, high) else (first, middle)
        return ops[first:high]

    def chunks(self, block: Block, ops: list[Operation]) -> list[Operation]:
        return self.fewest(ops, lambda part: self.shows(ExtractedOps(block, part).module()))

    def fewest(self, items: Sequence[T], shows: Callable[[list[T]], bool]) -> list[T]:
        """The items without chunks that are not needed."""
        needed = list(items)
        size = max(len(needed) // 2, 1)
        while True:
            start, before = 0, len(needed)
            while start < len(needed) and len(needed) > 1 and not self.late:
                rest = needed[:start] + needed[start + size :]
                if rest and shows(rest):
                    needed = rest
                else:
                    start += size
            if self.late or (size == 1 and len(needed) == before):
                return needed
            size = max(size // 2, 1)

    def finish(self, module: ModuleOp) -> ModuleOp:
        """Return the module with arguments in place of weights, if weights do not matter."""
        weights = [o for o in module.walk() if isinstance(o, ConstantOp) and o.key is not None]
        for chosen in [weights, *([w] for w in weights)]:
            if chosen and not self.late:
                candidate = with_arguments(module, [_index(module, o) for o in chosen])
                if candidate is not None and self.shows(candidate):
                    return self.finish(candidate)
        return module

    def without_symbols(self, module: ModuleOp, kind: type[Operation]) -> ModuleOp:
        ops = [o for o in module.ops if isinstance(o, kind)]

        def part(some: Sequence[Operation]) -> ModuleOp:
            gone = {*ops} - {*some}
            new = ModuleOp([o.clone() for o in module.ops if o not in gone])
            new.attributes.update(module.attributes)
            return new

        return part(self.fewest(ops, lambda some: self.shows(part(some))))


def _index(module: ModuleOp, op: Operation) -> int:
    return next(i for i, o in enumerate(module.walk()) if o is op)


def with_arguments(module: ModuleOp, indices: Sequence[int]) -> ModuleOp | None:
    """The module with arguments of its function in place of constants, which are given by their
    place in a walk; None where they are not in a function's block."""
    new = module.clone()
    for op in [o for i, o in enumerate(new.walk()) if i in indices]:
        func = op.parent_op()
        if not isinstance(func, FuncOp) or func.sym_name.data == "prepare":
            return None
        arg = func.body.block.insert_arg(op.results[0].type, len(func.body.block.args))
        arg.name_hint = op.results[0].name_hint
        op.results[0].replace_all_uses_with(arg)
        op.detach()
        op.erase()
        outputs = func.function_type.outputs.data
        func.function_type = FunctionType.from_lists(
            [a.type for a in func.body.block.args], outputs
        )
        if func.arg_attrs is not None:
            func.arg_attrs = ArrayAttr([*func.arg_attrs.data, DictionaryAttr({})])
    return new


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
        """Return the places where it can be tried, those most likely to go first."""

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
    """Ops whose results are not used, with the ops that they alone use; from the end."""

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


KEPT = ("sym_name", "op_name__")  # the name of a symbol, and of an unknown op


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
    """Unused arguments of functions."""

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
        """Take changes one at a time: sizes that are changed together mix."""
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
