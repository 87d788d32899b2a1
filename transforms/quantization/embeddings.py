"""Embedding tables: constants that are looked up by tokens, or added for positions, on the way to
layers.

    %x = graph.gather %table, %tokens
    %y = graph.add %x, %positions
    %z = graph.layer_norm %y ...
    %0 = graph.matmul %z, %w

Their elements are parameters like weights, and what becomes of them is as exact as what layers
read. So it is not with angles and anchors (looked up or added, but multiplied, or handed out), nor
with masks and biases of attention scores: these are no such tables.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ge.dialects.graph.attention import AttentionLike
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.elementwise import AddOp, CastOp, MulOp
from ge.dialects.graph.indexing import GatherOp
from ge.dialects.graph.normalization import SoftmaxLike, TrailingNorm
from ge.dialects.graph.quantization import DequantizeOp
from ge.dialects.support.boxes import Access
from ge.dialects.support.element_types import is_float
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import byte_size, element_type, numel, shape_of
from ge.transforms.graph.prepare_weights import is_table
from ge.transforms.quantization.layers import (
    ConstantValues,
    Layer,
    all_names,
    base_name,
    numbered,
    value_name,
)

LEAST = 1.5  # times as many bytes as in 8 bits


@dataclass(frozen=True)
class Embedding:
    """An op that looks up rows of a constant table, or adds it."""

    op: Operation
    name: str
    index: int  # of the table among the operands

    @property
    def table(self) -> SSAValue:
        return self.op.operands[self.index]

    def texts(self) -> list[str]:
        """What people may know it by."""
        return [self.name, self.op.name, *all_names(self.op), value_name(self.table)]


@dataclass
class Ways:
    """Where results of ops lead; `add` takes ops of a block from the last to the first."""

    layers: set[Operation]
    to_layers: set[Operation] = field(default_factory=set[Operation])
    to_scores: set[Operation] = field(default_factory=set[Operation])  # of an attention
    summed: set[Operation] = field(default_factory=set[Operation])  # in sums, norms, layers alone

    def add(self, op: Operation) -> None:
        users = [use.operation for r in op.results for use in r.uses]
        if any(u in self.layers or u in self.to_layers for u in users):
            self.to_layers.add(op)
        if any(is_score(v, u) for v in op.results for u in users) or any(
            access(u) in (Access.POINTWISE, Access.VIEW, Access.MOVEMENT) and u in self.to_scores
            for u in users
        ):
            self.to_scores.add(op)
        if all(
            u in self.layers
            or isinstance(u, AddOp | TrailingNorm)
            or (u in self.summed and only_moves(u))
            for u in users
        ):
            self.summed.add(op)


def access(op: Operation) -> Access:
    return op.ACCESS if isinstance(op, TensorOp) else Access.WHOLE


def is_score(value: SSAValue, user: Operation) -> bool:
    """Whether a value is scores of an attention, or is added to them."""
    return isinstance(user, SoftmaxLike) or (
        isinstance(user, AttentionLike) and value in user.masks
    )


def only_moves(op: Operation) -> bool:
    """Whether an op moves elements, casts them or multiplies them by a constant."""
    if isinstance(op, MulOp):
        return any(isinstance(v.owner, ConstantOp) for v in op.operands)
    return isinstance(op, CastOp) or access(op) in (Access.VIEW, Access.MOVEMENT)


def tables_of(op: Operation, constants: ConstantValues, ways: Ways) -> Iterator[int]:
    """The operand of an op that is an embedding table, if one is."""
    if op not in ways.to_layers or op in ways.to_scores:
        return
    fixed = [i for i, v in enumerate(op.operands) if v in constants]
    if isinstance(op, GatherOp):
        found = fixed == [0] and op.axis.value.data == 0 and op in ways.summed
    else:
        found = isinstance(op, AddOp) and len(fixed) == 1
    if found and takes_less(op.operands[fixed[0]]):
        yield fixed[0]


def takes_less(value: SSAValue) -> bool:
    """Whether floats are a table that takes at most two thirds of its bytes in 8 bits."""
    if isinstance(value.owner, DequantizeOp) or not is_float(element_type(value)):
        return False
    if not is_table(value) or shape_of(value)[-1] == 1:
        return False
    size, scales = byte_size(value.type), shape_of(value)[-1]
    return LEAST * (numel(shape_of(value)) + scales * size // numel(shape_of(value))) <= size


def embeddings(main: FuncOp, layers: Sequence[Layer]) -> list[Embedding]:
    """The embeddings of the block of `@main`, in order, with names that its layers do not have."""
    block = main.body.block
    constants, ways = ConstantValues(block), Ways({layer.op for layer in layers})
    for op in reversed(list(block.ops)):
        ways.add(op)
    found = [(op, i) for op in block.ops for i in tables_of(op, constants, ways)]
    ops = [*(layer.op for layer in layers), *(op for op, _ in found)]
    names = list(numbered(map(base_name, ops)))[len(layers) :]
    return [Embedding(op, name, i) for (op, i), name in zip(found, names, strict=True)]
