"""Feature maps with their channels last, where convolutions are faster so.

    %1 = graph.conv %0, ...                                   pixels of a channel side by side
    %2 = graph.relu %1
    %3 = graph.conv %2, ...
becomes
    %1 = graph.conv %0, ...
    %2 = graph.relu %1
    %t = graph.transpose %2 permutation [0, 2, 3, 1]          channels of a pixel side by side
    %3 = graph.conv %t, ... input_channels_last true

The cube multiplies channels. Where these lie side by side in memory, it loads all that a window is
within at once, and windows are unfolded on their way to L0A; where they do not, it loads each
element of the kernel, or vector cores turn the pixels before. The transposition is part of the
launch that stores the map (`fuse_conv.py`), as such chips' libraries keep their own layout from
convolution to convolution. So are what makes f16 or i8 of sums of integers: their scales are along
columns of the cube's way out, which channels are where they are last (`ways_out`).

Elementwise ops between convolutions take any layout, but one for all that they join: a *web* of
maps. So does a resize to the nearest pixels, which copies whole pixels where channels are last, and
one element after the other where they are not. A web has its channels last where that takes less
time: of convolutions that read or store its maps, by the sums by which their cuts are chosen, of
resizes, and of the transpositions of what comes from others and goes to others. First each
convolution counts half for the web that it reads and half for the one that it stores; then webs
change as long as the sum of all times gets smaller, at most `SWEEPS` times.

Where vector cores are not apart from the cube, elementwise ops are part of the launch of a
convolution, whose program has none before a transposition: there convolutions store their channels
first. Feature maps are [batch, channels, lines, columns] of known sizes.
"""

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, TypeGuard

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, f16, i32
from xdsl.ir import Block, Operation, SSAValue, Use
from xdsl.utils.disjoint_set import DisjointSet

from ge.dialects import graph as g
from ge.dialects.fused_op import Body
from ge.dialects.support.boxes import Access
from ge.dialects.support.editing import erase
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.functions import main_function
from ge.dialects.support.tensor_op import PermuteInterface, TensorOp, attribute
from ge.dialects.support.types import (
    constant_value,
    element_type,
    has_size,
    is_ranked,
    numel,
    rank_of,
    shape_of,
    tensor,
)
from ge.dialects.targets.target import Target, target_for
from ge.runtime.library.asking import answers_in, cut_us, launch_us
from ge.runtime.library.costs.structure import number_of
from ge.runtime.library.ways import scaled_way
from ge.transforms.analysis.parts import composed
from ge.transforms.fusion.groups import blocks_of
from ge.transforms.graph.control_flow import insert_before
from ge.transforms.graph.move_transposes import Move, carry_out, takes_any_order
from ge.transforms.rewriting import remarks
from ge.transforms.rewriting.counts import count, is_enabled
from ge.transforms.rewriting.passes import Relation, TargetPass, Ulps

LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)  # the orders that bring channels there
SWEEPS = 4  # over the webs
REFUSED = 1e9  # microseconds of a launch without a program: none is made for a layout


def is_map(value: SSAValue) -> bool:
    """Return whether a value may be a feature map."""
    return (
        isinstance(value.type, TensorType)
        and is_ranked(value)
        and rank_of(value) == len(LAST)
        and has_size(value)
        and not isinstance(value.owner, g.ConstantOp)
    )


def ways_out(conv: g.ConvOp, target: Target) -> list[list[TensorOp]]:
    """Return the ops that the cube has for each value that the launch of a convolution stores with
    its channels last, on the way out: a relu, or what makes f16 or i8 of sums of integers."""
    users = list(dict.fromkeys(use.operation for use in conv.result.uses))
    ways, integers = list[list[TensorOp]](), element_type(conv.result) == i32
    for op in users if conv.groups == 1 else ():
        if isinstance(op, g.ReluOp) and len(users) == 1 and not integers:
            ways.append([op])
        elif integers and min(target.bt_bytes, target.fb_bytes) and (way := scaled(op)):
            ways.append(way)
    return ways if ways and len(ways) == len(users) else [*ways, []]


def scaled(op: Operation) -> list[TensorOp]:
    """Return an op that makes f16 or i8 of sums of integers as the cube does on the way out, and a
    relu behind it; nothing for other ops."""
    if not isinstance(op, g.DequantizeOp | g.RequantizeOp) or scaled_way(op, known_number) is None:
        return []
    users = [use.operation for use in op.result.uses]
    relus = [user for user in users if isinstance(user, g.ReluOp) and len(users) == 1]
    return [op, *(relus if element_type(op.result) == f16 else ())]


def known_number(value: SSAValue) -> float | None:
    """The one number that a constant is."""
    elements = constant_value(value) if numel(shape_of(value)) == 1 else None
    return None if elements is None else float(elements.get_values()[0])


@dataclass
class Web:
    """Feature maps that have one layout, the ops that take any layout and compute some of them
    (resizes are among these) or reduce some, and convolutions that read and store some."""

    maps: list[SSAValue] = field(default_factory=list[SSAValue])
    ops: list[PermuteInterface] = field(default_factory=list[PermuteInterface])
    resizes: list[g.ResizeOp] = field(default_factory=list[g.ResizeOp])
    ends: list[g.ReduceOp] = field(default_factory=list[g.ReduceOp])
    readers: list[g.ConvOp] = field(default_factory=list[g.ConvOp])
    writers: list[g.ConvOp] = field(default_factory=list[g.ConvOp])
    stored: set[SSAValue] = field(default_factory=set[SSAValue])  # maps that writers store

    @cached_property
    def computed(self) -> set[SSAValue]:
        """The maps that its ops compute."""
        return {op.results[0] for op in self.ops}

    @cached_property
    def uses(self) -> dict[SSAValue, list[Use]]:
        """The uses of each map by convolutions and ops that take its layout."""
        takers = {*self.ops, *self.ends, *self.readers}
        found = {v: [use for use in v.uses if use.operation in takers] for v in self.maps}
        return {
            v: [u for u in uses if not (u.index and isinstance(u.operation, g.ConvOp))]
            for v, uses in found.items()
        }


def webs_of(block: Block, target: Target) -> list[Web]:
    """The webs of convolutions or resizes, in program order."""
    convs = [op for op in block.ops if isinstance(op, g.ConvOp) and is_map(op.result)]
    stored, inside = dict[SSAValue, g.ConvOp](), set[Operation]()
    for op in convs if target.split_cores else ():
        for way in ways_out(op, target):
            inside.update(way)
            stored[(way or [op])[-1].results[0]] = op
    reading = [op for op in convs if is_map(op.input) and not op.input_channels_last.value.data]
    sets = DisjointSet[SSAValue](())
    known = dict.fromkeys([*stored, *(op.input for op in reading)])
    for value in known:
        sets.add(value)
    first_of = {op: value for value, op in reversed(stored.items())}
    for value, op in stored.items():
        sets.union(first_of[op], value)
    joining, made = list[PermuteInterface](), set(stored)
    for op in block.ops:
        if joins(op, target) and op not in inside and not begins_narrow(op, made):
            joining.append(op)
            made.add(op.results[0])
    for op in joining:
        first, *others = joined_by(op)
        for value in (first, *others):
            if value not in known:
                known[value] = None
                sets.add(value)
            sets.union(first, value)
    webs = defaultdict[SSAValue, Web](Web)
    for value in known:
        webs[sets.find(value)].maps.append(value)
    for op in joining:
        web = webs[sets.find(op.results[0])]
        web.ops.append(op)
        if isinstance(op, g.ResizeOp):
            web.resizes.append(op)
    for op in reading:
        webs[sets.find(op.input)].readers.append(op)
    for value, op in stored.items():
        web = webs[sets.find(value)]
        web.stored.add(value)
        if value is first_of[op]:
            web.writers.append(op)
    for op in block.ops:
        if isinstance(op, g.ReduceOp) and op.input in known and takes_any_order(op, False):
            webs[sets.find(op.input)].ends.append(op)
    return [web for web in webs.values() if web.readers or web.writers or web.resizes]


def begins_narrow(op: PermuteInterface, made: set[SSAValue]) -> bool:
    """Return whether an op makes fewer bits of the maps of other launches, `made` being those of
    webs, which nothing else uses, or a cast that such an op reads: its result is turned in their
    place."""
    end, maps = op.results[0], joined_by(op)[1:]
    for use in end.uses if isinstance(op, g.CastOp) and end.has_one_use() else ():
        end = use.operation.results[0] if use.operation.results else end
    bits = bitwidth(element_type(end))
    return all(v not in made and v.has_one_use() and bitwidth(element_type(v)) > bits for v in maps)


def joins(op: Operation, target: Target) -> TypeGuard[PermuteInterface]:
    """Return whether an op takes any layout and computes a map."""
    is_pointwise = isinstance(op, TensorOp) and op.ACCESS is Access.POINTWISE
    return (
        isinstance(op, PermuteInterface)
        and (isinstance(op, g.ResizeOp) or (is_pointwise and target.split_cores))
        and len(op.results) == 1
        and is_map(op.results[0])
        and takes_any_order(op, True) is not None
    )


def joined_by(op: PermuteInterface) -> list[SSAValue]:
    """The maps that an op computes and reads; not what elementwise ops broadcast."""
    if isinstance(op, g.ResizeOp):
        return [op.result, op.input]
    shape = shape_of(op.results[0])
    return [v for v in (*op.results, *op.operands) if is_map(v) and shape_of(v) == shape]


# ---- what layouts cost ---------------------------------------------------------------------------


@dataclass
class Prices:
    """Times of launches, each asked for once: of convolutions by the sums of their cuts, without
    the launch cost, which all layouts have; of others by their programs, with it."""

    target: Target
    _convs: dict[Hashable, float] = field(default_factory=dict[Hashable, float])

    def conv_us(self, op: g.ConvOp, reads_last: bool, stores_last: bool) -> float:
        """Return the time of a convolution, and of what its launch stores, in these layouts."""
        ways = ways_out(op, self.target)
        numbers = tuple(tuple(map(number_of, way)) for way in ways)
        key = number_of(op), numbers, reads_last, stores_last
        if key not in self._convs:
            self._convs[key] = self._conv_us(op, ways, reads_last, stores_last)
        return self._convs[key]

    def _conv_us(
        self, op: g.ConvOp, ways: list[list[TensorOp]], reads_last: bool, stores_last: bool
    ) -> float:
        x = op.input
        if reads_last and not op.input_channels_last.value.data:
            (x,) = Block(arg_types=[turned(x)]).args
        last = op.input_channels_last.value.data or reads_last
        params: dict[str, Any] = {**op.properties, "input_channels_last": bool(last)}
        ops: list[TensorOp] = [g.ConvOp.of(x, op.weight, op.bias, **params)]
        outs, given = list[SSAValue](), [x, op.weight, op.bias]
        for way in ways:
            value = ops[0].results[0]
            for behind in way:
                given += behind.operands[1:]
                ops.append(copy := behind.clone())
                copy.operands[0] = value
                value = copy.results[0]
            if stores_last:
                ops.append(g.TransposeOp.of(value, permutation=LAST))
                value = ops[-1].results[0]
            outs.append(value)
        body = Body(ops, list(dict.fromkeys(v for v in given if v is not None)), outs)
        us = cut_us(body, self.target)
        for made in reversed(ops):
            made.erase()
        return REFUSED if us is None else us

    def op_us(self, op: g.ResizeOp | g.ReduceOp, last: bool) -> float:
        """Return the time of a resize, or a reduction, of a map in a layout."""
        (x,), params = Block(arg_types=[op.input.type]).args, dict[str, Any](op.properties)
        if last:
            (x,) = Block(arg_types=[turned(op.input)]).args
            permuted = op.permuted(LAST)
            assert permuted is not None
            params |= permuted.params
        others = (None,) * (len(op.get_irdl_definition().operands) - 1)
        made = type(op).of(x, *others, **params)
        us = launch_us(made, self.target) or 0.0
        made.erase()
        return us

    def turning_us(self, value: SSAValue) -> float:
        """Return the time of a launch that brings the channels of a map elsewhere."""
        op = g.TransposeOp.of(value, permutation=LAST)
        us = launch_us(op, self.target) or 0.0
        op.erase()
        return us


def turned(value: SSAValue) -> TensorType:
    return tensor(composed(shape_of(value), LAST), element_type(value))


@dataclass
class Layouts:
    """A choice of the webs that have their channels last, and the times of all launches that depend
    on it."""

    webs: list[Web]
    prices: Prices
    last: list[bool] = field(init=False)
    edges: list[float] = field(init=False)
    """Of each web what transpositions, resizes and reductions take more, or less, if its channels
    are last."""
    reads: dict[g.ConvOp, int] = field(default_factory=dict[g.ConvOp, int])
    stores: dict[g.ConvOp, int] = field(default_factory=dict[g.ConvOp, int])

    def __post_init__(self) -> None:
        for i, web in enumerate(self.webs):
            self.reads |= dict.fromkeys(web.readers, i)
            self.stores |= dict.fromkeys(web.writers, i)
        self.edges = [self.edges_us(web) for web in self.webs]
        self.last = [self.promises(web) > self.edges[i] for i, web in enumerate(self.webs)]

    def edges_us(self, web: Web) -> float:
        """Return the time of turning what comes from others, and what others read, and of resizes
        and reductions."""
        own, us = web.computed | web.stored, 0.0
        for value in web.maps:
            others = value.uses.get_length() > len(web.uses[value])
            if times := (value not in own) + others:
                us += times * self.prices.turning_us(value)
        for op in (*web.resizes, *web.ends):
            us += self.prices.op_us(op, True) - self.prices.op_us(op, False)
        return us

    def promises(self, web: Web) -> float:
        """Microseconds that the convolutions around a web would save, each if both of its maps had
        their channels last, and half for each."""
        conv_us = self.prices.conv_us
        return sum(
            (conv_us(op, False, False) - conv_us(op, op in self.reads, op in self.stores)) / 2
            for op in (*web.readers, *web.writers)
        )

    def conv_us(self, op: g.ConvOp) -> float:
        reads, stores = self.reads.get(op), self.stores.get(op)
        reads_last = reads is not None and self.last[reads]
        return self.prices.conv_us(op, reads_last, stores is not None and self.last[stores])

    def saved_by(self, number: int) -> float:
        """Microseconds less if a web changes its layout."""
        web = self.webs[number]
        convs = dict.fromkeys((*web.readers, *web.writers))
        before = sum(map(self.conv_us, convs)) + self.last[number] * self.edges[number]
        self.last[number] = not self.last[number]
        after = sum(map(self.conv_us, convs)) + self.last[number] * self.edges[number]
        self.last[number] = not self.last[number]
        return before - after

    def is_at_border(self, number: int) -> bool:
        """Return whether a convolution reads one layout and stores another one, or maps of a web
        are turned."""
        web = self.webs[number]
        if self.last[number] and self.edges[number] > 0:
            return True
        read = [self.reads.get(op) for op in web.writers]
        near = [*read, *(self.stores.get(op) for op in web.readers)]
        return any(n is None or self.last[n] != self.last[number] for n in near)

    def settle(self) -> float:
        """Change the layouts of webs while that saves time; returns the time saved in all."""
        for _ in range(SWEEPS):
            changes = [i for i in range(len(self.webs)) if self.is_at_border(i)]
            if not any([self.changed(i) for i in changes]):
                break
        convs = dict.fromkeys((*self.reads, *self.stores))
        first = sum(self.prices.conv_us(op, False, False) for op in convs)
        edges = sum(us for us, last in zip(self.edges, self.last, strict=True) if last)
        return first - sum(map(self.conv_us, convs)) - edges

    def changed(self, number: int) -> bool:
        """Change the layout of a web if that saves time; whether it does."""
        if saves := self.saved_by(number) > 0:
            self.last[number] = not self.last[number]
        return saves


# ---- giving maps their layout --------------------------------------------------------------------


def turn(web: Web) -> None:
    """Give the maps of a web their channels last. Convolutions that read one turn it back first,
    which they then need not do (`read_last`)."""
    for value in web.maps:
        if value not in web.computed and (uses := web.uses[value]):
            before = first_after(value)
            there = insert_before(before, g.TransposeOp.of(value, permutation=LAST)).result
            back = insert_before(before, g.TransposeOp.of(there, permutation=FIRST)).result
            if isinstance(value.owner, Operation):  # it is what the map's node computes
                for moved in (there, back):
                    moved.owner.location = value.owner.location
            for use in uses:
                use.operation.operands[use.index] = back
    carry_out(Move.of([*web.ops, *web.ends], LAST, exact=False))
    for op in web.readers:
        read_last(op)


def first_after(value: SSAValue) -> Operation:
    """The op before which something can be computed of a value."""
    owner = value.owner
    op = owner.first_op if isinstance(owner, Block) else owner.next_op
    assert op is not None
    return op


def read_last(op: g.ConvOp) -> None:
    """Let a convolution read the value that its input was turned from."""
    if isinstance(back := op.input.owner, g.TransposeOp) and back.ints("permutation") == FIRST:
        op.operands[0] = back.input
        attr = attribute(True)
        assert attr is not None
        op.properties["input_channels_last"] = attr
        if back.result.first_use is None:
            erase(back)


def keep_channels_last(block: Block, target: Target, rule: str) -> None:
    if not (webs := webs_of(block, target)):
        return
    layouts = Layouts(webs, Prices(target))
    if (saved := layouts.settle()) <= 0:
        return
    for web, last in zip(webs, layouts.last, strict=True):
        if last:
            turn(web)
            count(rule)
    first = webs[layouts.last.index(True)]
    gain = None if saved > REFUSED / 2 else saved  # more where there was no program before
    remarks.applied(rule, [*first.readers, *first.writers, *first.resizes][0], gain_us=gain)


@dataclass(frozen=True)
class KeepChannelsLastPass(TargetPass):
    """Store feature maps with their channels last, where convolutions are faster so."""

    name = "keep-channels-last"
    RELATION: ClassVar[Relation] = Ulps()

    answers: str = ""
    """File that keeps what the library answers about launches (empty: none)."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_for(main_function(op) or op, self.target)
        if not is_enabled(self.name):
            return
        with answers_in(self.answers):
            for block in list(blocks_of(op)):
                keep_channels_last(block, target, self.name)
