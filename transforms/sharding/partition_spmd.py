"""One program for all devices: each op computes a device's part, with collectives between.

    %h = graph.matmul %x, %up : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
    %y = graph.matmul %h, %down : (tensor<8x32xf32>, tensor<32x16xf32>) -> tensor<8x16xf32>
becomes, for up [{}, {"tp"}] and down [{"tp"}, {}] on tp=4
    %h = graph.matmul %x, %up.tp : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %0 = graph.matmul %h, %down.tp : (tensor<8x8xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    %y = graph.all_reduce sum %0 over <"tp"=4> : (tensor<8x16xf32>) -> tensor<8x16xf32>

Which parts is decided before (`assignment.py`); what has to be sent follows (`resharding.py`).
Arguments and results say how they are cut, and the shape of the whole. Weights are parts of those
in the payload; other constants are taken apart by the place of the device.

Where a dimension does not divide, the last parts are padded with elements that mean nothing: an op
that combines elements along it gets the neutral element in their place."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    TensorType,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from ge.dialects.graph.collectives import (
    AllGatherOp,
    AllReduceOp,
    AllToAllOp,
    Collective,
    ExchangeOp,
    NeededAttr,
    ReduceScatterOp,
)
from ge.dialects.graph.constant import ConstantOp, WeightAttr
from ge.dialects.graph.control import YieldOp
from ge.dialects.graph.elementwise import AddOp, CompareOp, MinimumOp, MulOp, SelectOp
from ge.dialects.graph.indexing import GatherOp
from ge.dialects.graph.shape import ReshapeOp
from ge.dialects.graph.sharding import (
    SHARDING,
    WHOLE,
    AxesAttr,
    AxisIndexOp,
    Pipeline,
    ShardingAttr,
    ShardOp,
    Unseen,
    WeightPart,
    mesh_of,
    mesh_of_parts,
    parts_of,
    sharding_text,
    state_parts,
)
from ge.dialects.graph.slicing import ConcatOp, SliceOp
from ge.dialects.graph.support.parameters import highest, lowest, one, splat, zero
from ge.dialects.support.boxes import Box
from ge.dialects.support.diagnostics import error_at, warning
from ge.dialects.support.digits import Axes, all_digits, cut, joined
from ge.dialects.support.editing import erase, set_operands
from ge.dialects.support.element_types import is_float
from ge.dialects.support.functions import functions
from ge.dialects.support.mesh import MICROBATCH, Mesh, Sharding, is_in_time
from ge.dialects.support.operation import all_ops
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import (
    AnyTensor,
    Shape,
    constant_value,
    element_type,
    is_dynamic,
    shape_of,
    tensor,
)
from ge.dialects.targets.target import Target
from ge.runtime.data.arrays import dense, type_of
from ge.transforms.graph.control_flow import insert_before
from ge.transforms.rewriting import remarks
from ge.transforms.rewriting.passes import Relation, Ulps
from ge.transforms.sharding.assignment import Assignment
from ge.transforms.sharding.checks import value_name
from ge.transforms.sharding.local_ops import Part, build, fill_of, is_concat, shapes_of, unseen
from ge.transforms.sharding.moves import merge_moves, piece, whole_reductions
from ge.transforms.sharding.plans import Search
from ge.transforms.sharding.rates import Rates, TimedRates
from ge.transforms.sharding.resharding import Step, as_needed, count, sent, steps
from ge.transforms.sharding.strategies import Need, Rules, Strategy, box_needed, of_result
from ge.transforms.sharding.two_levels import in_two_levels
from ge.transforms.sharding.weight_pieces import split_weights

NEUTRAL = {"sum": zero, "prod": one, "max": lowest, "min": highest}


@dataclass(frozen=True)
class PartitionSpmdPass(ModulePass):
    """Make the program of one device of the mesh, which is the same for all."""

    name = "partition-spmd"
    RELATION: ClassVar[Relation] = Ulps()

    target: str = ""
    """whose cores and links decide what is cut how; by default that of the package"""
    auto: bool = False
    """search for shardings that are not stated, by time"""
    memory_limit: int = 0
    """bytes of a device that they fit into; by default those of the target"""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        mesh = mesh_of(op)
        main = functions(op).get("main")
        if mesh is None or main is None or mesh_of_parts(op) is not None:
            return
        pieces = split_weights(main, mesh, self.auto)
        assignment, search = self.decided(main, mesh)
        if search is not None:
            search.tell()
        warn_of_unknown_sizes(main, mesh)
        Partition(op, main, mesh, assignment, pieces).run()
        for inner in all_ops(main.body.blocks):
            if isinstance(inner, Collective) and is_in_time(inner.group()):
                name = value_name(inner.input)
                text = f"'{name}' needs elements of several microbatches: the batch cannot be cut"
                raise error_at(inner, text, "compile it with --microbatches 1")

    def decided(self, main: FuncOp, mesh: Mesh) -> tuple[Assignment, Search | None]:
        """Rewrite ops along cut axes, and decide how each op is computed."""
        merge_moves(main)
        whole = whole_reductions(main)
        found = self.assigned(main, mesh, whole)
        while in_two_levels(found[0]):  # ops along a cut axis
            found = self.assigned(main, mesh, whole)
        return found

    def assigned(
        self, main: FuncOp, mesh: Mesh, whole: Set[Operation]
    ) -> tuple[Assignment, Search | None]:
        """Decide how each op is computed; with the search for it, if there is one."""
        target = Target.load(*filter(None, [self.target]))
        if not self.auto:
            assignment = Assignment(main, mesh, Rates(target, mesh), whole)
            assignment.choose()
            return assignment, None
        assignment = Assignment(main, mesh, TimedRates(target, mesh), whole, free=True)
        module = main.parent_op()
        pipeline = Pipeline.of(module) if isinstance(module, ModuleOp) else None
        held = () if pipeline is None else (MICROBATCH, pipeline.axis)
        search = Search(assignment, self.memory_limit or target.hbm_bytes, held)
        search.run()
        return assignment, search


def warn_of_unknown_sizes(main: FuncOp, mesh: Mesh) -> None:
    """Warn of products that are not shared among devices, as their sizes are not known."""
    ops = [op for op in all_ops(main.body.blocks) if isinstance(op, TensorOp) and op.ALWAYS_MACS]
    unknown = [op for op in ops if any(map(is_dynamic, (*op.operand_types, *op.result_types)))]
    if mesh.count > 1 and unknown:
        name, rest = value_name(unknown[0].results[0]), len(unknown) - 1
        also = f" (and {rest} more)" if rest else ""
        text = f"'{name}'{also}: a product of unknown size is computed whole on each device"
        warning(unknown[0], f"{text}, of whole weights; give the size by --dim or --shape")


class Partition:
    """The function of a module, being rewritten."""

    def __init__(
        self,
        module: ModuleOp,
        main: FuncOp,
        mesh: Mesh,
        assignment: Assignment,
        pieces: Mapping[str, WeightPart],
    ) -> None:
        self.module, self.main, self.mesh = module, main, mesh
        self.assignment = assignment
        self.parts = {**parts_of(module), **pieces}
        self.cut: dict[SSAValue, Sharding] = {}  # results of loops, whose old arguments are gone
        # what there is of each value: by how it is cut, and by what stands beyond its ends
        self.forms: dict[SSAValue, dict[tuple[Need, float], SSAValue]] = {}
        self.before: Operation | None = None  # where ops are inserted
        self.old: list[Operation] = []
        self.unseen = Unseen()

    def run(self) -> None:
        block = self.main.body.block
        arguments = list(block.args)
        for i, arg in enumerate(arguments):
            own = self.assignment.fixed[arg]
            self.state(True, i, own, shape_of(arg))
            self.replace_argument(block, arg, own)
        self.block(block)
        for op in reversed(self.old):
            erase(op)
        for arg in arguments:
            block.erase_arg(arg)
        for op in reversed(list(block.ops)):
            if isinstance(op, Collective) and not op.result.uses:
                erase(op)
        used = {o.key for o in all_ops(self.main.body.blocks) if isinstance(o, ConstantOp)}
        state_parts(self.module, {key: p for key, p in self.parts.items() if key in used})
        self.unseen.state(self.module)
        self.main.update_function_type()

    def replace_argument(self, block: Block, arg: SSAValue, own: Sharding) -> None:
        """Add an argument with the type of a part; the old one goes when nothing uses it."""
        local = tensor(own.local_shape(shape_of(arg)), element_type(arg))
        new = block.insert_arg(local, len(block.args))
        new.name_hint = arg.name_hint
        self.forms[arg] = {(own, 0): new}

    def state(self, is_argument: bool, index: int, own: Sharding, whole: Shape) -> None:
        """State how an argument or result is cut, and the shape of the whole."""
        func = self.main
        tables = func.arg_attrs if is_argument else func.res_attrs
        ends = func.function_type
        values = func.body.block.args if is_argument else ends.outputs.data
        all_tables = (
            list(tables.data) if tables is not None else [DictionaryAttr({}) for _ in values]
        )
        stated = {
            **all_tables[index].data,
            SHARDING: ShardingAttr(own),
            WHOLE: DenseArrayBase.from_list(i64, list(whole)),
        }
        all_tables[index] = DictionaryAttr(stated)
        if is_argument:
            func.arg_attrs = ArrayAttr(all_tables)
        else:
            func.res_attrs = ArrayAttr(all_tables)

    # ---- ops

    def block(self, block: Block) -> None:
        for op in list(block.ops):
            self.before = op
            if isinstance(op, ConstantOp):
                self.old.append(op)
            elif isinstance(op, ReturnOp):
                self.returned(op)
            elif isinstance(op, YieldOp):
                needs = self.assignment.by_op[op].needs[0]
                values = [self.get(v, n) for v, n in zip(op.operands, needs, strict=True)]
                set_operands(op, values)
            elif op.regions:
                self.with_regions(op)
            else:
                self.op(op)
                self.old.append(op)

    def op(self, op: Operation) -> None:
        node = self.assignment.by_op[op]
        if isinstance(op, ShardOp):
            self.forms[op.result] = dict(self.forms.get(op.input, {}))
            own = node.results[0]
            self.forms[op.result][own, 0] = self.get(op.input, own)
            return
        assert isinstance(op, TensorOp)
        strategy, needs = node.strategies[node.chosen], node.needs[node.chosen]
        if not strategy.axes:
            operands = [self.get(v, n) for v, n in zip(op.operands, needs, strict=True)]
            is_known = node.rules is not None and node.rules.is_static
            new = op.with_operands(operands, [r.type for r in op.results] if is_known else None)
            insert_before(op, new)
            for old, result in zip(op.results, new.results, strict=True):
                self.forms[old] = {(Sharding.whole(len(shape_of(old))), 0): result}
            return
        assert node.rules is not None
        shapes = shapes_of(op, strategy)
        if is_concat(op, strategy):
            assert isinstance(op, ConcatOp)
            results = [self.concatenated(op, strategy)]
        else:
            operands = [
                self.get(v, need, fill_of(op, i))
                for i, (v, need) in enumerate(zip(op.operands, needs, strict=True))
                if need is not None
            ]
            operands = self.masked(op, node.rules, strategy, operands)
            part = Part(op, strategy, [n for n in needs if n], shapes)
            self.unseen = self.unseen.also(unseen(part))
            results = build(part, operands, self.add)
        for old, new in zip(op.results, results, strict=True):
            self.forms[old] = {(of_result(strategy.result, len(shape_of(old))), 0): new}

    def concatenated(self, op: ConcatOp, strategy: Strategy) -> SSAValue:
        """Each device's part of values that follow each other: one exchange for each, onto what
        the others gave."""
        result: SSAValue | None = None
        box = Box.of(cut(shape_of(op.result), strategy.dims))
        for i in range(len(op.inputs)):
            value, spans = piece(op, i, box)
            assert spans is not None
            need = box_needed(spans.spans, shape_of(value))
            assert need is not None
            have = Sharding(self.chosen(value).dims)
            result = self.exchange(value, have, need, None, result)
        assert result is not None
        return result

    def masked(
        self, op: TensorOp, rules: Rules, strategy: Strategy, operands: list[SSAValue]
    ) -> list[SSAValue]:
        """Operands with the neutral element behind the last element along dimensions that the op
        combines."""
        for factor, axes in zip(rules.contracted, strategy.sums, strict=True):
            for i, dim in factor.dims:
                size = shape_of(op.operands[i])[dim]
                if axes and size % count(axes):
                    operands[i] = self.mask(operands[i], dim, axes, size, factor.kind)
        return operands

    def mask(self, x: SSAValue, dim: int, axes: Axes, size: int, kind: str) -> SSAValue:
        each, rank = shape_of(x)[dim], len(shape_of(x))
        index = self.places(axes, each)
        limit = self.constant(np.array(size, np.int64))
        inside = self.add(CompareOp.of(index, limit, predicate="lt"))
        shape = [each if d == dim else 1 for d in range(rank)]
        inside = self.add(ReshapeOp.of(inside, shape=shape))
        element = element_type(x)
        neutral = NEUTRAL[kind](element)
        return self.add(SelectOp.of(inside, x, self.number_of(neutral, tensor((), element))))

    def places(self, axes: Axes, each: int) -> SSAValue:
        """The indices in the whole dimension of the elements of a part of `each`."""
        own = self.add(AxisIndexOp.of(axes=AxesAttr(axes)))
        first = self.add(MulOp.of(own, self.constant(np.array(each, np.int64))))
        return self.add(AddOp.of(first, self.constant(np.arange(each, dtype=np.int64))))

    def with_regions(self, op: Operation) -> None:
        """Control flow stays, on parts of what a loop carries and whole values else."""
        needs = self.assignment.by_op[op].needs[0]
        cut = [self.assignment.chosen(r) for r in op.results]
        operands = [self.get(v, n) for v, n in zip(op.operands, needs, strict=True)]
        for region in op.regions:
            for block in region.blocks:
                kept, before = {v: dict(f) for v, f in self.forms.items()}, self.before
                arguments = list(block.args)
                for arg in arguments:
                    self.replace_argument(block, arg, self.assignment.fixed[arg])
                self.block(block)
                self.forms, self.before = kept, before
                inner = [o for o in self.old if o.parent is block]
                for old in reversed(inner):
                    erase(old)
                self.old = [o for o in self.old if o not in set(inner)]
                for arg in arguments:
                    block.erase_arg(arg)
        new = insert_before(op, _of_parts(op, operands, cut))
        for result, part, own in zip(op.results, new.results, cut, strict=True):
            self.cut[result] = own
            self.forms[result] = {(own, 0): part}
        self.old.append(op)

    def returned(self, op: ReturnOp) -> None:
        needs = self.assignment.by_op[op].needs[0]
        values = list[SSAValue]()
        for i, (value, need) in enumerate(zip(op.operands, needs, strict=True)):
            own = Sharding(self.chosen(value).dims) if need is None else need
            assert isinstance(own, Sharding)
            self.state(False, i, own, shape_of(value))
            values.append(self.get(value, own))
        set_operands(op, values)

    # ---- values

    def add(self, op: TensorOp) -> SSAValue:
        assert self.before is not None
        return insert_before(self.before, op).results[0]

    def constant(self, array: Any) -> SSAValue:
        return self.add(ConstantOp.make(dense(array), type_of(array)))

    def get(self, value: SSAValue, need: Need | None, fill: float = 0) -> SSAValue:
        """Return what is needed of a value, made where it is not there yet."""
        if need is None:
            need = Sharding(self.chosen(value).dims)
        source = _constant_of(value, need, self.assignment)
        if source is not None:
            return self.part_of_constant(source, need, fill)
        forms = self.forms[value]
        if (found := forms.get((need, fill if not isinstance(need, Sharding) else 0))) is not None:
            return found
        shape = shape_of(value)
        there = [(h, v) for (h, _), v in forms.items() if isinstance(h, Sharding)]
        have, local = min(there, key=lambda form: sent(form[0], need, shape))
        for step in steps(have, need, shape):
            local = self.step(value, local, have, step, fill)
            have = step.to if isinstance(step.to, Sharding) else have
            if isinstance(step.to, Sharding):
                forms[step.to, 0] = local
        forms[need, fill if not isinstance(need, Sharding) else 0] = local
        return local

    def chosen(self, value: SSAValue) -> Sharding:
        return self.cut.get(value) or self.assignment.chosen(value)

    def step(
        self, value: SSAValue, x: SSAValue, have: Sharding, step: Step, fill: float
    ) -> SSAValue:
        axes = AxesAttr(step.axes)
        if step.op == "part":
            assert isinstance(step.to, Sharding)
            return self.part(x, shape_of(value), have, step.to)
        self.remark(value, have, step)
        if step.op == "all_reduce":
            return self.add(AllReduceOp.of(x, kind=have.kind, axes=axes))
        if step.op == "reduce_scatter":
            return self.add(ReduceScatterOp.of(x, kind=have.kind, dim=step.dim, axes=axes))
        if step.op == "all_gather":
            whole = self.add(AllGatherOp.of(x, dim=step.dim, axes=axes))
            assert isinstance(step.to, Sharding)
            return self.cropped(whole, step.to.local_shape(shape_of(value)))
        of = list(shape_of(value))
        if step.op == "all_to_all":
            assert isinstance(step.to, Sharding)
            to, has = ShardingAttr(step.to), ShardingAttr(have)
            return self.add(AllToAllOp.of(x, has=has, to=to, shape=of))
        return self.exchange(value, have, step.to, fill, None, x)

    def exchange(
        self,
        value: SSAValue,
        have: Sharding,
        need: Need,
        fill: float | None,
        onto: SSAValue | None,
        x: SSAValue | None = None,
    ) -> SSAValue:
        x = self.get(value, have) if x is None else x
        shape, element = shape_of(value), element_type(value)
        number = None
        if fill is not None:
            number = (
                FloatAttr(fill, cast(AnyFloat, element))
                if is_float(element)
                else IntegerAttr(int(fill), cast(IntegerType, element))
            )
        needs = NeededAttr(as_needed(need, shape))
        has = ShardingAttr(have)
        return self.add(
            ExchangeOp.of(x, onto, has=has, needs=needs, shape=list(shape), fill=number)
        )

    def cropped(self, x: SSAValue, shape: Shape) -> SSAValue:
        """Without the elements that mean nothing behind the last one."""
        if shape_of(x) == shape:
            return x
        axes = [i for i, (a, b) in enumerate(zip(shape_of(x), shape, strict=True)) if a != b]
        ends = [shape[i] for i in axes]
        return self.add(SliceOp.of(x, starts=[0] * len(axes), ends=ends, axes=axes))

    def part(self, x: SSAValue, shape: Shape, have: Sharding, to: Sharding) -> SSAValue:
        """A device's own part of what it has: the elements at its place."""
        local = have.local_shape(shape)
        for dim, (own, wanted) in enumerate(zip(have.dims, to.dims, strict=True)):
            if own == wanted:
                continue
            before, after = count(own), count(wanted)
            each = -(-shape[dim] // after)
            new = joined(all_digits(wanted)[len(all_digits(own)) :])
            index = self.places(new, each)
            if each * (after // before) > local[dim]:
                last = self.constant(np.array(local[dim] - 1, np.int64))
                index = self.add(MinimumOp.of(index, last))
            x = self.add(GatherOp.of(x, index, axis=dim))
        return x

    def part_of_constant(self, op: ConstantOp, need: Need, fill: float) -> SSAValue:
        """A constant as it is needed: each device gets its part of a weight when it is loaded."""
        t, shape = op.result.type, shape_of(op.result)
        element = element_type(op.result)
        if not isinstance(need, Sharding):
            whole = self.add(ConstantOp.make(op.value, t))
            have = Sharding.whole(len(shape))
            return self.exchange(op.result, have, need, fill, None, whole)
        if need.is_whole:
            return self.add(ConstantOp.make(op.value, t))
        local = tensor(need.local_shape(shape), element)
        if constant_value(op.result) is not None and (value := splat(op.result)) is not None:
            return self.number_of(value, local)
        if isinstance(op.value, WeightAttr) and not is_in_time(need.axes):
            key, piece = f"{op.value.data} {sharding_text(need)}", self.parts.get(op.value.data)
            self.parts[key] = WeightPart(op.value.data, need)
            if piece is not None:
                self.parts[key] = piece._replace(sharding=need)
            return self.add(ConstantOp.make(WeightAttr(key), local))
        whole = self.add(ConstantOp.make(op.value, t))
        return self.part(whole, shape, Sharding.whole(len(shape)), need)

    def number_of(self, value: float, t: AnyTensor) -> SSAValue:
        elements = DenseIntOrFPElementsAttr.from_list(cast(TensorType[AnyFloat], t), [value])
        return self.add(ConstantOp.make(elements, t))

    def remark(self, value: SSAValue, have: Sharding, step: Step) -> None:
        if remarks.wanted() and isinstance(value.owner, Operation):
            text = sharding_text(have)
            remarks.applied(step.op, value.owner, f"of a value cut as {text}")


def _of_parts(op: Operation, operands: Sequence[SSAValue], cut: Sequence[Sharding]) -> Operation:
    """The loop or branch with the regions of another one, whose results are whole. That one stays
    without regions, until all that uses its results has parts of them."""
    types = [
        tensor(own.local_shape(shape_of(r)), element_type(r)) if any(own.dims) else r.type
        for own, r in zip(cut, op.results, strict=True)
    ]
    return type(op).create(
        operands=operands,
        result_types=types,
        properties=dict(op.properties),
        attributes=dict(op.attributes),
        regions=[op.detach_region(region) for region in tuple(op.regions)],
    )


def _constant_of(value: SSAValue, need: Need, assignment: Assignment) -> ConstantOp | None:
    """The constant that a value is, where parts of it are all that is needed: itself, or one with
    a stated sharding that what is needed refines."""
    if isinstance(value.owner, ConstantOp):
        return value.owner
    if isinstance(value.owner, ShardOp) and isinstance(value.owner.input.owner, ConstantOp):
        own = assignment.resolved(value.owner.sharding)
        kept = [s.op == "part" for s in steps(own, need, shape_of(value))]
        if isinstance(need, Sharding) and all(kept):
            return value.owner.input.owner
    return None
