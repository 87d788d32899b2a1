"""Proof of what a program with gears says of inputs between them (`graph.padding`): padded with
zeros along a dimension, and outputs cut along the axes that it names, they give the numbers of
their own size.

    graph.padding = {batch = {y = array<i64: 0>}}    y is cut along axis 0
    graph.softmax %x {axis = 0} in a gear            and refused: valid rows need padded ones

For each such dimension each gear is followed from its inputs (`moved_axes.py`). What does not go
along an axis of a result is right where what is padded adds nothing: zeros in sums and products,
scores without weight in a softmax or in attention; or where the same first elements are picked in
all gears, by constant indices or a slice. Outputs are cut along the axes that come out, and along
those alone whose size is in proportion to that of the dimension. Numbers in the kernels
of two gears are the same, or those of the smaller one the first ones of the larger one's: none
follows from the size.

Relied upon, and said in the summary: that weights and inputs are finite, and what ops make of
finite elements too; that scores to which a mask is added are small beside it, and leave each valid
query a key; that indices that the program computes are not those of padded elements.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import cast

from xdsl.dialects.builtin import (
    DenseArrayBase,
    DictionaryAttr,
    ModuleOp,
    StringAttr,
)
from xdsl.dialects.func import FuncOp
from xdsl.dialects.func import ReturnOp as FuncReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from ge.dialects.graph.ports import PADDING, argument_attributes, dims_of, name_of
from ge.dialects.graph.state import growing_symbol
from ge.dialects.npu_task.control import CaseOp, MapIndexOp, YieldOp
from ge.dialects.npu_task.ops import BatchCopyOp, CopyOp, KernelOp, TransferOp
from ge.dialects.support.dims import symbols
from ge.dialects.support.types import (
    DYNAMIC,
    array_ints,
    is_dynamic,
    rank_of,
    shape_of,
)
from ge.runtime.check.gear_numbers import GearNumbers
from ge.runtime.check.moved_axes import Digit
from ge.runtime.check.padded_axes import PaddedAxes, mixes_in
from ge.runtime.check.problems import Problem
from ge.runtime.check.problems import name_of as op_name

NO_NUMBER = "no number in a gear follows from a size that is padded"


@dataclass
class Gears:
    """The gears of a function, and what it says of sizes between them. `relied`: clauses for the
    summary."""

    func: FuncOp
    index: MapIndexOp
    case: CaseOp
    kernels: Mapping[str, KernelOp]
    problems: list[Problem] = field(default_factory=list[Problem])
    relied: dict[str, None] = field(default_factory=dict[str, None])

    @property
    def names(self) -> list[str]:
        """Of the dimensions, one for each measured size."""
        pairs = zip(self.index.inputs, self.index.measured, strict=True)
        return [dimension(self.func, value, axis) for value, axis in pairs]

    def report(self, rule: str, text: str, op: Operation | None = None) -> None:
        self.problems.append(Problem(rule, text, op or self.func))

    def check(self) -> None:
        claims, names = claims_of(self.func), self.names
        safe = [n for n, axes in claims.items() if n in names and axes is not None]
        numbers = self.check_numbers(safe)
        for name, axes in claims.items():
            if axes is None:
                continue
            if name not in names:
                self.report("G1", f"{PADDING} names '{name}', which is no dimension of the gears")
            elif other := next((o for o in names if o != name and follows(name, o)), None):
                self.report("G2", f"'{name}' is padded, and '{other}' follows from it")
            else:
                self.check_dimension(name, axes, numbers)

    def check_dimension(
        self, name: str, claim: Mapping[str, Sequence[int]], numbers: GearNumbers
    ) -> None:
        column = self.names.index(name)
        rows = [*zip(self.index.rows, self.case.regions, strict=False)]
        sizes, firsts = {row[column] for row, _ in rows}, set[frozenset[int]]()
        for row, region in sorted(rows, key=lambda gear: -gear[0][column]):
            largest = row[column] == max(sizes)
            of_larger = None if largest else firsts
            gear = PaddedAxes(self.kernels, smallest=min(sizes), of_larger=of_larger)
            if row[column] > 1:
                gear.take_constants({op: numbers.padded(op, name, row[column])
                                     for op in numbers.grown})  # fmt: skip
            for arg in self.func.args:
                dims = dims_of(argument_attributes(self.func, arg.index), rank_of(arg))
                marks = {(a, Digit(1, row[column])): 0.0 for a, d in enumerate(dims) if d == name}
                if marks and row[column] > 1:
                    gear.axes[arg] = dict(marks)
            for op in (*before(self.case), *region.block.ops):
                gear.task(op)
            for target, value in self.yielded(region.block):
                gear.write(target, gear.read(value, self.case))
            for op in after(self.case):
                gear.task(op)
            if largest:
                firsts |= gear.firsts
            for op in gear.by_indices:
                self.relied[f"indices of {op.name} are not those of padded elements"] = None
            self.check_outputs(name, row, region.block, gear, claim)
        if firsts and len(sizes) == 1:
            self.relied[NO_NUMBER] = None
        self.relied["inputs and weights are finite, and small beside masks, in gears"] = None

    def check_outputs(
        self,
        name: str,
        row: Sequence[int],
        block: Block,
        gear: PaddedAxes,
        claim: Mapping[str, Sequence[int]],
    ) -> None:
        """Outputs are cut along the axes that are padded, and no others."""
        for output, value in self.outputs(block):
            cut = {*claim.get(output, ())}
            marks = gear.read(value, block.last_op or self.case)
            if (mixes := mixes_in(marks)) is not None:
                text = op_name(mixes.op)
                text = f"{text} mixes padded elements along '{name}' into valid ones of output"
                text = f"{text} '{output}': {PADDING} says that it may be padded"
                self.report("G3", text, mixes.op)
                return
            shape = shape_of(value)
            for (axis, digit), _ in marks.items():
                whole = source_shape(value)[axis]
                if digit.unit * digit.count != whole:
                    text = f"padded elements along '{name}' lie between others of output"
                    self.report("G4", f"{text} '{output}', axis {axis}")
                elif axis not in cut:
                    text = (
                        f"output '{output}' is not cut along axis {axis}, along which it is padded"
                    )
                    self.report("G5", f"{text} with '{name}'")
            for axis in cut - {axis for axis, _ in marks}:
                if not 0 <= axis < len(shape) or not self.grows(name, output, axis):
                    text = f"output '{output}' is cut along axis {axis}, which does not grow"
                    self.report("G6", f"{text} with '{name}'")

    def outputs(self, block: Block) -> Iterator[tuple[str, SSAValue]]:
        """The outputs of the model that a gear makes, by name."""
        last = self.func.body.block.last_op
        if not isinstance(last, FuncReturnOp):
            return
        own = dict(self.yielded(block))
        tables = self.func.res_attrs.data if self.func.res_attrs is not None else ()
        for i, value in enumerate(last.operands):
            table: Mapping[str, Attribute] = tables[i].data if i < len(tables) else {}
            yield name_of(table) or f"result{i}", own.get(value, value)

    def yielded(self, block: Block) -> Iterator[tuple[SSAValue, SSAValue]]:
        """Buffers and results of the branch, and what a gear puts there."""
        last, outs, results = block.last_op, iter(self.case.outs), iter(self.case.results)
        if not isinstance(last, YieldOp):
            return
        for value, order in zip(last.operands, array_ints(self.case.order), strict=False):
            target = next(outs if order else results, None)
            if target is not None:
                yield target, value

    def grows(self, name: str, output: str, axis: int) -> bool:
        """Whether the size of an output is in proportion to that of a dimension, or this is 1 in
        all gears: then there is no size between."""
        column, found = self.names.index(name), set[tuple[int, int]]()
        for row, region in zip(self.index.rows, self.case.regions, strict=False):
            value = dict(self.outputs(region.block)).get(output)
            if value is None:
                return False
            found.add((row[column], source_shape(value)[axis]))
        if all(size == 1 for size, _ in found):
            return True
        return all(m * b == n * a for (m, a), (n, b) in pairwise(sorted(found))) and len(found) > 1

    def check_numbers(self, safe: Sequence[str]) -> GearNumbers:
        """No number in a gear follows from a size that may be padded."""
        gears = [(r, b.block) for r, b in zip(self.index.rows, self.case.regions, strict=False)]
        numbers = GearNumbers(self.kernels, self.names, safe, gears)
        if (found := numbers.differing()) is not None:
            op, other, changed = found
            text = f"{op_name(op)} has numbers that follow from"
            text = f"{text} {', '.join(f'{n!r}' for n in sorted(changed))}"
            self.report("G7", f"{text}: {other.name} of two gears; {PADDING} says that they may be "
                        "padded", op)  # fmt: skip
        largest = dict(zip(self.names, map(max, zip(*self.index.rows, strict=True)), strict=True))
        if found is None and any(largest[n] > 1 for n in {*safe} - numbers.compared):
            self.relied[NO_NUMBER] = None
        return numbers


def dimension(func: FuncOp, value: SSAValue, axis: int) -> str:
    """The name of a dimension of an argument: its symbol, or else its place."""
    assert isinstance(value, BlockArgument)
    table = argument_attributes(func, value.index)
    name = name_of(table) or f"arg{value.index}"
    return dims_of(table, rank_of(value))[axis] or f"{name}[{axis}]"


def unmeasured(func: FuncOp) -> list[str]:
    """The dimensions of arguments that are copied into buffers of one size and are neither those
    of the gear nor follow from rows of states: that they fit is for a run to find out."""
    known = {growing_symbol(func)}
    found = dict[str, None]()
    for op in func.walk():
        if isinstance(op, MapIndexOp):
            pairs = zip(op.inputs, op.measured, strict=True)
            known |= {dimension(func, value, axis) for value, axis in pairs}
        for source, target in copies(op):
            if not isinstance(source, BlockArgument) or source.block is not func.body.block:
                continue
            if is_dynamic(source.type) and not is_dynamic(target.type):
                axes = (i for i, size in enumerate(shape_of(source)) if size == DYNAMIC)
                found |= dict.fromkeys(dimension(func, source, axis) for axis in axes)
    return [name for name in found if name not in known and not {*symbols(name)} <= known]


def copies(op: Operation) -> Iterator[tuple[SSAValue, SSAValue]]:
    match op:
        case CopyOp():
            yield op.source, op.target
        case BatchCopyOp():
            yield from zip(op.sources, op.targets, strict=True)
        case _:
            pass


def follows(name: str, other: str) -> bool:
    return name in symbols(other) or other in symbols(name)


def source_shape(value: SSAValue) -> Sequence[int]:
    """The shape of what a value of unknown size is copied from."""
    if DYNAMIC in shape_of(value) and isinstance(value.owner, TransferOp):
        return shape_of(value.owner.source)
    return shape_of(value)


def before(case: CaseOp) -> Iterator[Operation]:
    op, found = case.prev_op, list[Operation]()
    while op is not None:
        found.append(op)
        op = op.prev_op
    return reversed(found)


def after(case: CaseOp) -> Iterator[Operation]:
    op = case.next_op
    while op is not None:
        yield op
        op = op.next_op


def claims_of(func: FuncOp) -> dict[str, dict[str, Sequence[int]] | None]:
    """By dimension the axes along which outputs are cut; None where it must not be padded."""
    table, found = func.attributes.get(PADDING), dict[str, dict[str, Sequence[int]] | None]()
    for name, entry in table.data.items() if isinstance(table, DictionaryAttr) else ():
        if isinstance(entry, DictionaryAttr):
            axes = entry.data.items()
            found[name] = {
                n: array_ints(cast(Attribute, a)) for n, a in axes if isinstance(a, DenseArrayBase)
            }
        elif isinstance(entry, StringAttr):
            found[name] = None
    return found


def check_padding(module: ModuleOp, func: FuncOp) -> tuple[list[Problem], list[str]]:
    """What is wrong with what a program says of sizes between its gears, and what the proof of it
    relies on."""
    claims = claims_of(func)
    if all(axes is None for axes in claims.values()):
        return [], []
    index = next((op for op in func.body.block.ops if isinstance(op, MapIndexOp)), None)
    users = [] if index is None else [use.operation for use in index.result.uses]
    case = next((op for op in users if isinstance(op, CaseOp)), None)
    if index is None or case is None:
        text = f"{PADDING} is of gears, and there is no branch for sizes of inputs"
        return [Problem("G1", text, func)], []
    kernels = {op.sym_name.data: op for op in module.ops if isinstance(op, KernelOp)}
    gears = Gears(func, index, case, kernels)
    gears.check()
    return gears.problems, [*gears.relied]
