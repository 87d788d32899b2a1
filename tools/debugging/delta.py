"""Cut a module down to the few ops that still show a property, by delta debugging (Zeller and
Hildebrandt, "Simplifying and isolating failure-inducing input", 2002).

A candidate is a subset of the ops of a block as a function of its own: values from other ops become
arguments, values that other ops use become results. The search shrinks the block from its end, from
its start, and then in chunks. Blocks of branches and loops are candidates, too.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue

from ge.dialects.fused_op import FusedOp
from ge.dialects.graph.constant import ConstantOp, WeightAttr
from ge.dialects.graph.ports import DIMS
from ge.dialects.npu_task.ops import KernelOp

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
        """With arguments in place of weights, where weights do not matter."""
        weights = [o for o in module.walk() if _is_weight(o)]
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


def _is_weight(op: Operation) -> bool:
    return isinstance(op, ConstantOp) and isinstance(op.value, WeightAttr)


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
