"""Proof that tensors of unknown size take no more bytes than they state (`npu_task.bytes`).

The sizes of the dimensions of @main's inputs are in the ranges that it states. At some of them, the
ends of the ranges among these, types are followed from the inputs through transfers and launches
by the ops' own inference, and their bytes compared with what is stated:

    %1 = npu_task.launch @matmul_0 ... {npu_task.bytes = ["4 * batch"]} -> memref<?x32xf32>
    at batch=8: 1024 bytes, stated are 32

Where only data tell a size (`graph.nonzero`), it is the most that the op may have. Of results in
whose types a size stays unknown (a reshape to numbers that a loop computes) nothing is proved:
`trusted`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from typing import cast

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from ge.dialects.fused_op import CustomOp, FusedOp
from ge.dialects.graph.constant import ConstantOp as GraphConstantOp
from ge.dialects.graph.indexing import CompressOp, NonZeroOp, UniqueOp
from ge.dialects.graph.sharding import sharding_of
from ge.dialects.graph.stated import argument_attributes, dim_ranges, dims_of
from ge.dialects.npu_task.attributes import (
    OFFSETS,
    data_type,
    expression_of,
    stated_bytes,
    unknown_results,
)
from ge.dialects.npu_task.memory import Task, access, owner_of
from ge.dialects.npu_task.ops import ConstantOp, CopyOp, KernelOp, LaunchOp, TransferOp
from ge.dialects.support.dims import Range, size_of, value_of
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import (
    DYNAMIC,
    Dense,
    byte_size,
    element_type,
    is_dynamic,
    numel,
    set_type,
    shape_of,
    tensor,
)
from ge.runtime.check.problems import Problem, name_of

MOST_SIZES = 9  # at which types are followed
SOME_SIZE = 64  # of a dimension, where any will do

# Ops of whose results only data tell a dimension: it is at most as large as the operand
AT_MOST_ITS_INPUT = (NonZeroOp, UniqueOp, CompressOp)


@dataclass
class DynamicSizes:
    """The tensors of unknown size of a function. `trusted`: those of whose bytes nothing follows
    from types."""

    func: FuncOp
    kernels: Mapping[str, KernelOp]
    problems: dict[SSAValue, Problem] = field(default_factory=dict[SSAValue, Problem])
    trusted: set[SSAValue] = field(default_factory=set[SSAValue])

    def check(self) -> None:
        ops = list(self.func.body.block.ops)
        if any(OFFSETS in op.attributes for op in ops):
            for sizes in sizes_in(dim_ranges(self.func)):
                types = TypesAt(self.func, self.kernels, sizes)
                for op in ops:
                    types.follow(op)
                    self.compare(op, types)

    def compare(self, op: Operation, types: "TypesAt") -> None:
        if not isinstance(op, Task):
            return
        for result, text in zip(unknown_results(op), stated_bytes(op), strict=True):
            t, stated = types.of(result).type, value_of(expression_of(text), types.sizes)
            if is_dynamic(t):
                self.trusted.add(result)
            elif stated is not None and stated < byte_size(t):
                at = ", ".join(f"{name}={size}" for name, size in types.sizes.items())
                text = f"{name_of(op)} states '{text}' bytes for a result that takes"
                text = f"{text} {byte_size(t)} at {at}, not {stated}"
                self.problems.setdefault(result, Problem("M10", text, op))


def sized_by_arguments(func: FuncOp, kernels: Mapping[str, KernelOp]) -> set[SSAValue]:
    """The tensors of unknown size whose sizes follow from those of arguments, as types have it: of
    a program of many devices they are the same on all. None where data tell a size, and where
    devices have parts along a dimension of unknown size."""
    by_data = (isinstance(op, AT_MOST_ITS_INPUT) for k in kernels.values() for op in k.walk())
    if any(by_data) or any(is_cut_unevenly(func, arg) for arg in func.args):
        return set()
    ports = ((argument_attributes(func, a.index), data_type(a.type)[1]) for a in func.args)
    names = {name for table, shape in ports for name in dims_of(table, len(shape)) if name}
    types = TypesAt(func, kernels, dict.fromkeys(names, SOME_SIZE))
    for arg, value in list(types.values.items()):  # dimensions without a name
        sizes = [SOME_SIZE if n == DYNAMIC else n for n in shape_of(value)]
        types.values[arg] = placeholder(sizes, element_type(value))
    found = set[SSAValue]()
    for op in func.body.block.ops:
        types.follow(op)
        new = access(op).new if isinstance(op, Task) else ()
        found |= {v for v in new if is_dynamic(v.type) and not is_dynamic(types.of(v).type)}
    return found


def is_cut_unevenly(func: FuncOp, arg: BlockArgument) -> bool:
    """True if devices have parts of an argument along a dimension of unknown size."""
    sharding = sharding_of(argument_attributes(func, arg.index))
    shape = data_type(arg.type)[1]
    dims = () if sharding is None else sharding.dims
    return any(own and n == DYNAMIC for own, n in zip(dims, shape, strict=False))


def sizes_in(ranges: Mapping[str, Range]) -> Iterator[dict[str, int]]:
    """Choices of sizes: the ends of the ranges, and sizes in the middle."""
    ends = {n: (r.least, r.most) for n, r in ranges.items() if r.most is not None}
    most, least = ({n: e[i] for n, e in ends.items()} for i in (1, 0))
    middle = {n: (a + b) // 2 for n, (a, b) in ends.items()}
    others = (dict(zip(ends, row, strict=True)) for row in product(*ends.values()))
    chosen = [most, middle, least, *islice(others, MOST_SIZES - 3)]
    return iter({tuple(sizes.items()): sizes for sizes in chosen}.values())


class TypesAt:
    """The types of the values that a function computes outside of branches and loops, as those of
    values of ops on tensors, so that values computed from sizes are known too."""

    def __init__(
        self, func: FuncOp, kernels: Mapping[str, KernelOp], sizes: Mapping[str, int]
    ) -> None:
        self.kernels, self.sizes = kernels, sizes
        self.values: dict[SSAValue, SSAValue] = {}
        for arg in func.args:
            element, shape = data_type(arg.type)
            names = dims_of(argument_attributes(func, arg.index), len(shape))
            own = (
                size_of(name, sizes) if n == DYNAMIC else n
                for n, name in zip(shape, names, strict=True)
            )
            self.values[arg] = placeholder([DYNAMIC if n is None else n for n in own], element)

    def of(self, value: SSAValue) -> SSAValue:
        """The current contents of a buffer, as a value of known type."""
        if (known := self.values.get(value)) is None:
            element, shape = data_type(value.type)
            known = self.values[value] = placeholder(shape, element)
        return known

    def follow(self, op: Operation) -> None:
        match op:
            case TransferOp():
                self.values[op.result] = self.of(op.source)
            case CopyOp() if owner_of(op.target) is op.target:
                self.values[op.target] = self.of(op.source)
            case ConstantOp() if isinstance(op.properties["value"], DenseIntOrFPElementsAttr):
                element, shape = data_type(op.result.type)
                value = cast(Dense, op.properties["value"])
                constant = GraphConstantOp.make(value, tensor(shape, element))
                self.values[op.result] = constant.result
            case LaunchOp() if op.callee in self.kernels:
                self.launch(op, self.kernels[op.callee])
            case _:
                for value in (v for inner in op.walk() for v in access(inner).writes):
                    self.values.pop(owner_of(value), None)

    def launch(self, op: LaunchOp, kernel: KernelOp) -> None:
        body = kernel.body.block
        found: dict[SSAValue, SSAValue] = dict(zip(body.args, map(self.of, op.ins), strict=False))
        try:
            for member in body.ops:
                infer(member, found)
        except (VerifyException, KeyError):  # nothing follows from types that an op does not take
            found = {}
        for value, own in op.returned(kernel):
            if value in found and owner_of(own) is own:
                self.values[own] = found[value]
            else:
                self.values.pop(owner_of(own), None)


def placeholder(shape: Sequence[int], element: Attribute) -> SSAValue:
    return Block(arg_types=[tensor(shape, element)]).args[0]


def infer(op: Operation, values: dict[SSAValue, SSAValue]) -> None:
    """Infer the results of an op on tensors, or of the members of a fused one, for the values
    that its operands are. Raises VerifyException where it does not take them."""
    if isinstance(op, CustomOp) or not isinstance(op, TensorOp):
        values |= {r: r for r in op.results}
    elif isinstance(op, FusedOp):
        values |= {a: values[v] for a, v in zip(op.block.args, op.inputs, strict=True)}
        for member in op.members:
            infer(member, values)
        values |= {r: values[v] for r, v in zip(op.results, op.yielded, strict=True)}
    else:
        copy = op.with_operands([values[v] for v in op.operands])
        for old, new in zip(op.results, copy.results, strict=True):
            set_type(new, narrowed(copy, old.type, new.type))
            values[old] = new


def narrowed(op: Operation, declared: Attribute, found: Attribute) -> Attribute:
    """An inferred type with the sizes that the text says, or that data allow at most."""
    if not is_dynamic(found) or not isinstance(found, TensorType):
        return found
    (element, own), (_, sizes) = data_type(cast(Attribute, found)), data_type(declared)
    if len(own) != len(sizes):
        return cast(Attribute, found)
    dims = [m if m != DYNAMIC else n for m, n in zip(own, sizes, strict=True)]
    if isinstance(op, AT_MOST_ITS_INPUT) and not is_dynamic(op.input.type):
        shape, axis = shape_of(op.input), None if isinstance(op, NonZeroOp) else op.axis
        most = numel(shape) if axis is None else shape[axis.value.data % len(shape)]
        dims = [most if n == DYNAMIC else n for n in dims]
    return tensor(dims, element)
