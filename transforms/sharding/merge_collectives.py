"""Small reductions over the same devices are one.

    %a = graph.all_reduce sum %x over <"dp"=8> : (tensor<16x32xf32>) -> tensor<16x32xf32>
    %b = graph.all_reduce sum %y over <"dp"=8> : (tensor<32xf32>) -> tensor<32xf32>
becomes
    %0 = graph.concat (%x as 512 elements), (%y as 32 elements) axis 0
    %1 = graph.all_reduce sum %0 over <"dp"=8> : (tensor<544xf32>) -> tensor<544xf32>
    %a = elements 0 to 512 of %1, %b = elements 512 to 544

Each element is added in the same order as before. A start is saved for each, and two copies are
paid: of values for which these take longer on the target each keeps its own. None waits for another
one's result: a reduction joins those before it until something uses one of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass

from ge.dialects.graph.collectives import AllReduceOp
from ge.dialects.graph.shape import ReshapeOp
from ge.dialects.graph.sharding import mesh_of
from ge.dialects.graph.slicing import ConcatOp, SliceOp
from ge.dialects.support.functions import main_function
from ge.dialects.support.operation import all_ops, ops_of
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import byte_size, element_type, has_size, shape_of
from ge.dialects.targets.target import Target
from ge.runtime.library.costs.collectives import cluster_of
from ge.runtime.library.costs.estimates import hbm_bytes_per_us
from ge.transforms.graph.control_flow import insert_before, replace_op
from ge.transforms.rewriting import remarks
from ge.transforms.rewriting.passes import BitExact, Relation

PASSES_OF_HBM = 4  # two copies, each of which reads and writes

Key = tuple[Attribute, Attribute, Attribute]  # kind, axes and element type


@dataclass(frozen=True)
class MergeCollectivesPass(ModulePass):
    """Make small reductions over the same devices one."""

    name = "merge-collectives"
    RELATION: ClassVar[Relation] = BitExact()

    target: str = ""
    """whose memory and starts decide what is small; by default that of the package"""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        mesh, main = mesh_of(op), main_function(op)
        if mesh is None or main is None:
            return
        target = Target.load(*filter(None, [self.target]))
        start_us = cluster_of(target, mesh).start_us
        most = start_us * hbm_bytes_per_us(target.cube_cores, target) / PASSES_OF_HBM
        for block in blocks(main.body.block):
            for group in groups(block, most):
                merge(group)


def blocks(block: Block) -> Iterator[Block]:
    yield block
    for op in all_ops([block]):
        for region in op.regions:
            yield from region.blocks


def groups(block: Block, most: float) -> Iterator[list[AllReduceOp]]:
    """The reductions of at most so many bytes over the same devices of which none is used before
    the last."""
    open_: dict[Key, list[AllReduceOp]] = {}
    for op in ops_of(block):
        used = set(_used(op))
        for key in [k for k, members in open_.items() if not used.isdisjoint(members)]:
            yield from _several(open_.pop(key))
        if isinstance(op, AllReduceOp) and has_size(op.input):
            if byte_size(op.input.type) <= most:
                key = op.kind, op.axes, element_type(op.input)
                open_.setdefault(key, []).append(op)
    for members in open_.values():
        yield from _several(members)


def _used(op: Operation) -> Iterator[Operation]:
    inner = all_ops([b for r in op.regions for b in r.blocks]) if op.regions else ()
    for value in (v for o in (op, *inner) for v in o.operands):
        if isinstance(value.owner, Operation):
            yield value.owner


def _several(members: list[AllReduceOp]) -> Iterator[list[AllReduceOp]]:
    if len(members) > 1:
        yield members


def merge(members: Sequence[AllReduceOp]) -> None:
    """Put one reduction in the place of the last of some."""
    last = members[-1]

    def add(op: TensorOp) -> SSAValue:
        return insert_before(last, op).results[0]

    sizes = [prod(shape_of(m.input)) for m in members]
    rows = [add(ReshapeOp.of(m.input, shape=[n])) for m, n in zip(members, sizes, strict=True)]
    whole = add(ConcatOp.of(rows, axis=0))
    total = add(AllReduceOp.of(whole, kind=last.kind, axes=last.axes))
    remarks.applied("merge-collectives", last, f"{len(members)} reductions are one")
    first = 0
    for member, size in zip(members, sizes, strict=True):
        own = add(SliceOp.of(total, starts=[first], ends=[first + size], axes=[0]))
        shape, first = shape_of(member.result), first + size
        replace_op(member, [add(ReshapeOp.of(own, shape=shape, allow_zero=True))])
