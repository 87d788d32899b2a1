"""The layers of `@main` that can be quantized, and the names that people know them by. Attention is
a layer without a weight: its query, key and value are activations. A recurrent layer has two
weights, and multiplies its own states.

So are embedding tables: constants that are looked up by tokens, or added for positions, on the way
to layers.

    %x = graph.gather %table, %tokens
    %y = graph.add %x, %positions
    %z = graph.layer_norm %y ...
    %0 = graph.matmul %z, %w

Their elements are parameters like weights, and what becomes of them is as exact as what layers
read. So it is not with angles and anchors (looked up or added, but multiplied, or handed out), nor
with masks and biases of attention scores: these are no such tables.
"""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from xdsl.dialects.builtin import ArrayAttr, FusedLoc, NameLoc
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, SSAValue

from ge.dialects import graph as g
from ge.dialects.fused_op import FusedOp
from ge.dialects.graph.stated import argument_attributes, name_of
from ge.dialects.support.boxes import Access
from ge.dialects.support.diagnostics import read_location
from ge.dialects.support.element_types import is_float
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import (
    byte_size,
    element_type,
    has_size,
    is_ranked,
    numel,
    rank_of,
    shape_of,
)
from ge.transforms.graph.control_flow import is_pure
from ge.transforms.graph.prepare_weights import is_table

LayerOp: TypeAlias = g.MatmulOp | g.ConvOp | g.ConvTransposeOp


@dataclass(frozen=True)
class Layer:
    """A matmul, convolution, attention or recurrent layer of floats."""

    op: LayerOp | g.AttentionOp | g.Recurrent
    name: str
    activations: tuple[int, ...]  # the operands that depend on the inputs of the model
    weight: int | None  # the operand that depends on constants only

    @property
    def linear(self) -> LayerOp:
        """The op of a layer that is a matmul or a convolution."""
        assert isinstance(self.op, LayerOp)
        return self.op

    @property
    def weights(self) -> Sequence[int]:
        """The operands that depend on constants only."""
        if isinstance(self.op, g.Recurrent):
            return 1, 2
        return () if self.weight is None else (self.weight,)

    @property
    def multiplied(self) -> Sequence[SSAValue]:
        """The values that are multiplied by weights or by each other."""
        states = self.op.results[:1] if isinstance(self.op, g.Recurrent) else ()
        return *(self.op.operands[i] for i in self.activations), *states

    @property
    def input(self) -> SSAValue:
        return self.op.operands[self.activations[0]]

    @property
    def channel_axis(self) -> int:
        """The axis of output channels in the weight (of a grouped transposed convolution: those of
        one group)."""
        assert self.weight is not None
        return weight_axes(self.op, self.weight)[0]

    @property
    def input_axis(self) -> int:
        """The axis of input channels in the weight (of a grouped convolution: those of one
        group)."""
        assert self.weight is not None
        return weight_axes(self.op, self.weight)[1]


def weight_axes(op: Operation, operand: int = 1) -> tuple[int, int]:
    """The axes of the weight of a layer, or of one operand of a matmul: that of the result, and
    that which is summed over."""
    if not isinstance(op, g.MatmulOp):
        return (
            (1, 2)
            if isinstance(op, g.Recurrent)
            else (0, 1)
            if isinstance(op, g.ConvOp)
            else (1, 0)
        )
    rank = rank_of(op.operands[operand])
    turned = bool((op.transpose_lhs, op.transpose_rhs)[operand].value.data)
    summed = rank - 1 if turned == (operand == 1) else rank - 2
    return 2 * rank - 3 - summed, summed


def output_axis(op: Operation) -> int:
    """The axis of the channels in a layer's result."""
    return rank_of(op.results[0]) - 1 if isinstance(op, g.MatmulOp) else 1


class ConstantValues(Container[SSAValue]):
    """The constants of a block, and values that depend on constants only. Membership is computed
    when asked, so that ops which are inserted later count too."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self._known: dict[SSAValue, bool] = {}

    def __contains__(self, value: object, /) -> bool:
        value = cast(SSAValue, value)
        known, stack = self._known, [value]
        while value not in known:
            op = stack[-1].owner
            operands = op.operands if isinstance(op, Operation) and self.may_be(op) else ()
            unknown = [o for o in operands if o not in known]
            if unknown and all(known.get(o, True) for o in operands):
                stack += unknown
                continue
            constant = isinstance(op, g.ConstantOp) and op.parent is self.block
            known[stack.pop()] = constant or (
                bool(operands) and all(known.get(o) for o in operands)
            )
        return known[value]

    def may_be(self, op: Operation) -> bool:
        """Return whether results of an op depend on its operands alone."""
        return (
            isinstance(op, TensorOp)
            and not isinstance(op, FusedOp)
            and not op.regions
            and op.parent is self.block
            and is_pure(type(op))
        )


def layers(main: FuncOp) -> list[Layer]:
    """The layers of the block of `@main`, in order."""
    block = main.body.block
    constants = ConstantValues(block)
    ops = [op for op in block.ops if is_layer(op, constants)]
    names = numbered(map(base_name, ops))
    return [_layer(op, name, constants) for op, name in zip(ops, names, strict=True)]


def is_layer(op: Operation, constants: Container[SSAValue]) -> bool:
    """Return whether an op multiplies floats of known rank, some of which depend on the model's
    inputs."""
    if not isinstance(op, LayerOp | g.AttentionOp | g.Recurrent):
        return False
    factors = factors_of(op)
    fixed = [v for v in factors if v in constants]
    if not all(is_ranked(v) and is_float(element_type(v)) for v in factors):
        return False
    if isinstance(op, g.AttentionOp):
        return not fixed and not op.has_grids
    is_weighted = isinstance(op, g.MatmulOp) or all(v in constants for v in factors[1:])
    return is_weighted and len(fixed) < len(factors) and all(map(has_elements, fixed))


def has_elements(value: SSAValue) -> bool:
    return has_size(value) and numel(shape_of(value)) > 0


def factors_of(op: LayerOp | g.AttentionOp | g.Recurrent) -> Sequence[SSAValue]:
    """Return the operands that a layer multiplies."""
    return op.operands[: 2 if isinstance(op, LayerOp) else 3]


def _layer(op: Operation, name: str, constants: Container[SSAValue]) -> Layer:
    assert isinstance(op, LayerOp | g.AttentionOp | g.Recurrent)
    moving = tuple(i for i, v in enumerate(factors_of(op)) if v not in constants)
    return Layer(op, name, moving, 1 - moving[0] if len(moving) == 1 else None)


def activations(layers: Iterable[Layer]) -> dict[SSAValue, str]:
    """The values that layers multiply by weights or by each other, with a name for each."""
    values = dict.fromkeys(value for layer in layers for value in layer.multiplied)
    return dict(zip(values, numbered(map(value_name, values)), strict=True))


# ---- names -----------------------------------------------------------------------------------


def value_name(value: SSAValue) -> str:
    """The name of a value in the model, or that of the op it is a result of."""
    if isinstance(value, BlockArgument):
        return argument_name(value)
    assert isinstance(value, OpResult)
    name = base_name(value.op)
    return f"{name}:{value.index}" if len(value.op.results) > 1 else name


def base_name(op: Operation) -> str:
    """The name of an op in the model; without one, that of its result in the text, or of its
    kind."""
    location = read_location(op.location)
    if location is not None and location.name:
        return location.name
    hints = (r.name_hint for r in op.results if r.name_hint)
    return next(hints, op.name)


def computed_outputs(main: FuncOp) -> dict[str, SSAValue]:
    """The results of a function that ops of its block compute, by their names in the model."""
    end = main.body.block.last_op
    assert end is not None
    attrs = [None] * len(end.operands) if main.res_attrs is None else main.res_attrs.data
    named = {
        ((attr and name_of(attr.data)) or f"result{i}"): value
        for i, (attr, value) in enumerate(zip(attrs, end.operands, strict=True))
    }
    return {name: value for name, value in named.items() if isinstance(value.owner, Operation)}


def all_names(op: Operation) -> list[str]:
    """The names of all nodes of the model that became an op."""
    names: list[str] = []
    stack: list[Attribute] = [op.location]
    while stack:
        match stack.pop():
            case NameLoc(desc=desc):
                names.append(desc.data)
            case FusedLoc(locations=ArrayAttr(data=parts)):
                stack.extend(parts)
            case _:
                pass
    return [*names, base_name(op)]


def argument_name(value: BlockArgument) -> str:
    """The name of an input of the model; without one, that of the argument in the text."""
    main = value.block.parent_op()
    named = name_of(argument_attributes(main, value.index)) if isinstance(main, FuncOp) else None
    return named or value.name_hint or f"arg{value.index}"


def numbered(names: Iterable[str]) -> Iterator[str]:
    """The names; the second of one name is `name#2`, and so on."""
    seen = Counter[str]()
    for name in names:
        seen[name] += 1
        yield name if seen[name] == 1 else f"{name}#{seen[name]}"


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
        """Return the texts that people may know it by."""
        return [self.name, self.op.name, *all_names(self.op), value_name(self.table)]


@dataclass
class Ways:
    """The ops that results lead to; `add` takes ops of a block from the last to the first."""

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
            or isinstance(u, g.AddOp | g.TrailingNorm)
            or (u in self.summed and only_moves(u))
            for u in users
        ):
            self.summed.add(op)


def access(op: Operation) -> Access:
    return op.ACCESS if isinstance(op, TensorOp) else Access.WHOLE


def is_score(value: SSAValue, user: Operation) -> bool:
    """Return whether a value is scores of an attention, or is added to them."""
    return isinstance(user, g.SoftmaxLike) or (
        isinstance(user, g.AttentionLike) and value in user.masks
    )


def only_moves(op: Operation) -> bool:
    """Return whether an op moves elements, casts them or multiplies them by a constant."""
    if isinstance(op, g.MulOp):
        return any(isinstance(v.owner, g.ConstantOp) for v in op.operands)
    return isinstance(op, g.CastOp) or access(op) in (Access.VIEW, Access.MOVEMENT)


def tables_of(op: Operation, constants: ConstantValues, ways: Ways) -> Iterator[int]:
    """The operand of an op that is an embedding table, if one is."""
    if op not in ways.to_layers or op in ways.to_scores:
        return
    fixed = [i for i, v in enumerate(op.operands) if v in constants]
    if isinstance(op, g.GatherOp):
        found = fixed == [0] and op.axis.value.data == 0 and op in ways.summed
    else:
        found = isinstance(op, g.AddOp) and len(fixed) == 1
    if found and takes_less(op.operands[fixed[0]]):
        yield fixed[0]


def takes_less(value: SSAValue) -> bool:
    """Return whether floats are a table that takes at most two thirds of its bytes in 8 bits."""
    if isinstance(value.owner, g.DequantizeOp) or not is_float(element_type(value)):
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
