"""A kernel for operands whose types, or even values, are known.

    npu_task.kernel @linear_0 on cube {
    ^bb0(%0: tensor<?x64xf32>, %1: tensor<64x64xf32>, %2: tensor<2xi64>):
      %3 = fused_op.linear(%0, %1, %2) {
        graph.matmul : tensor<?x64xf32>
        graph.reshape shape(%2) : tensor<?x?x64xf32>
      }
      npu_task.return %3
    }
for 6x64 rows and dense<[2, -1]> becomes
      %3 = graph.matmul %0, %1 : tensor<6x64xf32>
      %4 = graph.reshape %3 shape [2, -1] : tensor<6x64xf32> -> tensor<2x3x64xf32>
      npu_task.return %4

Types are inferred by the ops, what follows from constants and shapes is folded, views of operands
and of results come out of the fused op, and so does what only shapes held together. The numbers
keep every bit.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain

from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from ge.dialects.fused_op import CustomOp, FusedOp
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.slicing import ConcatOp
from ge.dialects.npu_task.ops import KernelOp, ReturnOp
from ge.dialects.support.editing import detach, erase
from ge.dialects.support.operation import block_of, cloned, operands_of, ops_of, put_last
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import AnyTensor, is_dynamic, is_static, numel, shape_of
from ge.runtime.data.arrays import Array, dense
from ge.transforms.analysis.views import view_offsets
from ge.transforms.graph.canonical import repetition, slices, transposes, views
from ge.transforms.graph.canonical.simplify import simplify
from ge.transforms.graph.fold_constants import FROM_SIZES, fold_block
from ge.transforms.shapes.split_oversized import wrap

LIMIT = 1024  # bytes of a value that may stand in a kernel

FAMILIES = repetition, slices, transposes, views


@dataclass(frozen=True)
class LaunchBody:
    """What a launch computes: constants, ops that compute and views, in order, and
    `npu_task.return`."""

    block: Block
    views: Set[Operation]


@dataclass(frozen=True)
class Surroundings:
    """What the place of a launch allows."""

    # Whether nobody writes to its operands later: results may be views of them
    views: bool
    # Operands that are used by this launch alone, and those that launches compute
    sole: frozenset[int] = frozenset()
    computed: frozenset[int] = frozenset()


def specialize(
    kernel: KernelOp,
    types: Sequence[AnyTensor],
    known: Mapping[int, Array],
    around: Surroundings,
) -> LaunchBody:
    """The body of a kernel for operands of these types, those in `known` being constants. Raises
    VerifyException where an op does not take these types."""
    block = block_of(types)
    values: dict[SSAValue, SSAValue] = dict(zip(kernel.body.block.args, block.args, strict=True))
    for i, array in known.items():
        put_last(block, constant := ConstantOp.make(dense(array), types[i]))
        values[kernel.body.block.args[i]] = constant.result
    for op in ops_of(kernel.body.block):
        copy_into(block, op, values)
    fold_block(block, FROM_SIZES)
    simplify(Region(block), FAMILIES, exact=True, is_folded=True)
    for op in reversed(ops_of(block)):
        if op.results and all([r.first_use is None for r in op.results]):
            erase(op)
    last = block.last_op
    assert last is not None
    kept = {v for v, t in zip(last.operands, kernel.output_types, strict=True) if not is_dynamic(t)}
    return LaunchBody(block, regroup(block, kernel.main, kept, around))


def copy_into(block: Block, op: Operation, values: dict[SSAValue, SSAValue]) -> None:
    """Add a copy of an op; of a fused op, its members."""
    if isinstance(op, CustomOp):
        put_last(block, new := op.on([values[v] for v in op.inputs]))
        values |= zip(op.results, new.results, strict=True)
    elif isinstance(op, FusedOp):
        values |= zip(op.block.args, (values[v] for v in op.inputs), strict=True)
        for member in op.members:
            copy_into(block, member, values)
        values |= zip(op.results, (values[v] for v in op.yielded), strict=True)
    else:
        put_last(block, cloned(op, values))


def regroup(
    block: Block, main: TensorOp, kept: Set[SSAValue], around: Surroundings
) -> Set[Operation]:
    """Put what computes together into an op of the class of `main`, and views around it, but for
    the values in `kept`. Returns the views."""
    last = block.last_op
    assert isinstance(last, ReturnOp)
    ops = [op for op in ops_of(block) if isinstance(op, TensorOp)]
    constants = [op for op in ops if isinstance(op, ConstantOp)]
    ops = [op for op in ops if not isinstance(op, ConstantOp)]
    leading: list[TensorOp] = []
    trailing: list[TensorOp] = []
    given = set[SSAValue](block.args) if around.views else set[SSAValue]()
    for op in ops:
        if is_free(op, kept) and operands_of(op)[0] in given:
            leading.append(op)
            given.update(op.results)
    for op in reversed([op for op in ops if op not in leading]):
        if is_free(op, kept) and operands_of(op)[0] not in given:
            if {use.operation for r in op.results for use in r.uses} <= {last, *trailing}:
                trailing.insert(0, op)
    computed = [op for op in ops if op not in leading and op not in trailing]
    concats = [op for op in computed if starts(op, last, around)]
    rest = [op for op in computed if op not in concats]
    groups = components(rest) if isinstance(main, FusedOp) else [[op] for op in rest]
    groups = [*([op] for op in concats), *groups]
    for op in ops_of(block):
        detach(op, block)
    for op in (*constants, *leading, *chain.from_iterable(groups), *trailing, last):
        put_last(block, op)
    for group in groups:
        if len(group) > 1:
            wrap(block, group, type(main))
    return {*leading, *trailing}


def starts(op: TensorOp, last: ReturnOp, around: Surroundings) -> bool:
    """Whether an op joins operands of the launch, which are used for nothing else, to a result: a
    launch of its own may be written in parts (see `extract-concats`). Where an input of the model
    is no larger than what is appended to it, a copy into its place costs more than it saves."""
    if not isinstance(op, ConcatOp) or op.result not in last.operands:
        return False
    if not all(is_static(shape_of(v)) for v in op.inputs):
        return False
    args = [v.index for v in op.inputs if isinstance(v, BlockArgument) and v.has_one_use()]
    sizes = [numel(shape_of(v)) for v in op.inputs]
    given = sum(n for i, n in zip(args, sizes, strict=False) if i not in around.computed)
    return (
        len(args) == len(op.inputs)
        and (not given or 2 * given > sum(sizes))
        and around.sole.issuperset(args)
        and not around.computed.isdisjoint(args)
    )


def is_free(op: TensorOp, kept: Set[SSAValue]) -> bool:
    return view_offsets(op) is not None and kept.isdisjoint(op.results)


def components(ops: Sequence[TensorOp]) -> list[list[TensorOp]]:
    """The ops in groups that have no operand in common but constants: what shapes alone held
    together is not one launch."""
    groups: list[tuple[set[SSAValue], list[TensorOp]]] = []
    for op in ops:
        values = {v for v in (*operands_of(op), *op.results) if not isinstance(v.owner, ConstantOp)}
        members: list[TensorOp] = []
        for group in [g for g in groups if not g[0].isdisjoint(values)]:
            groups.remove(group)
            values |= group[0]
            members += group[1]
        groups.append((values, [*members, op]))
    place = {op: i for i, op in enumerate(ops)}
    return [sorted(members, key=place.__getitem__) for _, members in groups]
