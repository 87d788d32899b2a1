"""Proof of what the devices of a mesh have: rules D3, D10 to D13, D17 and D19
(docs/proofs.md).

The program is followed once, for all devices. Of each value its *form* says how those of devices
differ, for each digit of an axis of the mesh: not at all, as parts along a dimension, as terms of a
sum (or what a reduction says), or in some other way. Arguments, weights and exchanges state it; of
other values it follows from the boxes that ops need.

    %x  parts along dim 1 by tp        %w  parts along dim 0 by tp
    %0 = graph.matmul %x, %w           terms of a sum, by tp
    %1 = graph.all_reduce sum %0       the same on all devices of tp

What differs in some other way may be anything: it is no error by itself, until a result says that
it is the same on all devices, or a condition of a collective has to be. Numbers that follow from a
device's place and constants alone are computed, for a few devices of each axis: its first ones, one
in the middle, its last ones.

`device_forms.py` says what forms are, `device_ops.py` and `device_collectives.py` what those of
results of ops are. Here is the program, and what its memory holds."""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from math import prod
from typing import Any, TypeAlias

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.dialects.memref import ReinterpretCastOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ge.dialects.graph import collectives as c
from ge.dialects.graph.acknowledge import AcknowledgeOp
from ge.dialects.graph.constant import ConstantOp as GraphConstantOp
from ge.dialects.graph.constant import WeightAttr
from ge.dialects.graph.sharding import WHOLE, Unseen, parts_of, sharding_of
from ge.dialects.graph.slicing import ConcatOp
from ge.dialects.npu_task.attributes import data_type
from ge.dialects.npu_task.control import CaseOp, IfOp, LoopOp, YieldOp
from ge.dialects.npu_task.memory import (
    ByteBox,
    MemoryView,
    Task,
    access,
    moves,
    owner_of,
    source_of,
    view_of,
)
from ge.dialects.npu_task.ops import ConstantOp, KernelOp, LaunchOp, SlotOp
from ge.dialects.support.digits import all_digits
from ge.dialects.support.functions import functions
from ge.dialects.support.mesh import Axis, Mesh
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import Shape, array_ints, byte_size, is_static, shape_of
from ge.runtime.check.device_forms import (
    EMPTY,
    Forms,
    Kind,
    axes_of,
    everywhere,
    form_of,
    forms,
    names,
    part_of_view,
    piece,
    reshaped,
    together,
    viewed,
)
from ge.runtime.check.device_ops import Tensors, constant_form
from ge.runtime.check.memory import MemrefBytes, runs_of, span_of
from ge.runtime.check.problems import Problem, name_of

Entry: TypeAlias = tuple[SSAValue, MemrefBytes | None, Forms]
Row: TypeAlias = tuple[int, Sequence[int], Forms]  # where a value begins in a row, its shape there


class Values:
    """Follows the program of a device, and the forms of what its buffers hold."""

    def __init__(self, module: ModuleOp, main: FuncOp, mesh: Mesh) -> None:
        self.module, self.main, self.mesh = module, main, mesh
        self.tensors = Tensors(mesh, Unseen.of(module))
        self.kernels = {op.sym_name.data: op for op in module.ops if isinstance(op, KernelOp)}
        self.problems: dict[Problem, None] = {}
        self.held: dict[SSAValue, list[Entry]] = {}  # by owner of the memory
        self.rows: dict[SSAValue, list[Row]] = {}  # values beside each other
        self.weights: dict[str, Forms] = {}
        # Of kernels on operands of some forms: launches of one layer are like those of another
        self.results: dict[tuple[str, tuple[Forms, ...]], list[Forms]] = {}

    def report(self, rule: str, text: str, op: Operation) -> None:
        self.problems[Problem(rule, text, op)] = None

    def check(self) -> list[Problem]:
        for key, part in parts_of(self.module).items():
            self.weights[key] = (form_of(part.sharding, self.mesh),)
        for func in functions(self.module).values():
            if func is not self.main:
                self.prepare(func)
        for i, arg in enumerate(self.main.body.block.args):
            table = self.tables(self.main.arg_attrs, i)
            form = self.stated(table, data_type(arg.type)[1], f"argument {i}")
            self.held[arg] = [(arg, None, (form,))]
        for state in self.states:
            form = self.stated(state.attributes, data_type(state.result.type)[1], "state")
            self.held[state.result] = [(state.result, None, (form,))]
        self.walk(self.main.body.block)
        return list(self.problems)

    @property
    def states(self) -> list[SlotOp]:
        """The slots of state that say how it is cut, before a run as after it."""
        slots = [op for op in self.main.body.block.ops if isinstance(op, SlotOp)]
        return [op for op in slots if sharding_of(op.attributes) is not None]

    def tables(self, attrs: Any, index: int) -> Mapping[str, Attribute]:
        return {} if attrs is None else attrs.data[index].data

    def stated(self, table: Mapping[str, Attribute], local: Shape, what: str) -> Kind:
        """The form that an argument or result states."""
        sharding = sharding_of(table)
        if sharding is None:
            return Kind()
        whole = array_ints(table[WHOLE]) if WHOLE in table else local
        try:
            resolved = sharding.resolved(self.mesh)
        except KeyError as error:
            self.report("D11", f"{what} is cut along {error}, which the mesh lacks", self.main)
            return Kind()
        if len(sharding.dims) != len(local) or len(whole) != len(local):
            self.report("D11", f"{what} is cut in another number of dimensions", self.main)
            return Kind()
        digits = all_digits(resolved.axes)
        if len(set(digits)) < len(digits):
            self.report("D11", f"{what} is cut along an axis twice", self.main)
            return Kind()
        if is_static(local) and (wanted := resolved.local_shape(whole)) != tuple(local):
            text = f"{what} has parts of {list(local)}, which do not tile {list(whole)}: "
            self.report("D11", f"{text}they have {list(wanted)}", self.main)
        return form_of(resolved, self.mesh, whole)

    def prepare(self, func: FuncOp) -> None:
        """The forms of weights that are computed when the program is loaded."""
        block = func.body.block
        made: dict[SSAValue, Forms] = {
            arg: (self.stated(self.tables(func.arg_attrs, i), shape_of(arg), f"argument {i}"),)
            for i, arg in enumerate(block.args)
        }
        for op in block.ops:
            if isinstance(op, TensorOp):
                own = [made[v] for v in op.operands]
                found = list(self.tensors.op(op, own))
                if isinstance(op, GraphConstantOp) and isinstance(op.value, WeightAttr):
                    found = [self.weights.get(op.value.data, (Kind(),))]
                made |= zip(op.results, found, strict=True)
                self.take_problems(op)
            elif isinstance(op, ReturnOp):
                for i, value in enumerate(op.operands):
                    name = self.tables(func.res_attrs, i).get("graph.name")
                    if isinstance(name, StringAttr):
                        self.weights[name.data] = made[value]

    def take_problems(self, op: Operation, where: str = "") -> None:
        for rule, text in self.tensors.problems:
            self.report(rule, f"{where}{text}", op)
        self.tensors.problems.clear()

    # ---- memory

    def span(self, value: SSAValue) -> MemrefBytes | None:
        try:
            return span_of(value)
        except ValueError:
            return None

    def read(self, value: SSAValue) -> Forms:
        owner = owner_of(value)
        if 0 in data_type(value.type)[1]:
            return (EMPTY,)
        if isinstance(owner.owner, ConstantOp):
            return self.viewed(self.constant(owner.owner), owner, value)
        entries = self.held.get(owner, [])
        if value is not owner or len(entries) > 1:
            span = self.span(value)
            if span is not None:
                entries = [x for x in entries if x[1] is None or x[1].overlaps(span)]
                same = [i for i, x in enumerate(entries) if x[1] and x[1].boxes == span.boxes]
                entries = entries[same[-1] :] if same else entries  # the others are written over
        if not entries:
            return (Kind(),)
        if len(entries) > 1 and value is not owner and is_view(value, owner):
            return self.viewed(self.read(owner), owner, value)
        spans = [span for _, span, _ in entries if span is not None]
        ranks = {len(data_type(v.type)[1]) for v in (value, *(held for held, _, _ in entries))}
        are_apart = (
            len(spans) == len(entries)
            and len(ranks) == 1  # of another one, dimensions may be shared out in other ways
            and not any(a.overlaps(b) for i, a in enumerate(spans) for b in spans[:i])
        )
        return together([self.viewed(own, held, value) for held, _, own in entries], are_apart)

    def viewed(self, own: Forms, held: SSAValue, value: SSAValue) -> Forms:
        """The forms of a view of what is held, which may have some."""
        shape = data_type(value.type)[1]
        found = (kind for form in own for kind in self.of_view(form, held, value))
        unseen = self.tensors.unseen
        return forms(kind for form in found for kind in form.of_ones(shape, unseen))

    def of_view(self, form: Kind, held: SSAValue, value: SSAValue) -> Forms:
        before, after = data_type(held.type)[1], data_type(value.type)[1]
        if held is value or not form.axes:
            return (form,)
        is_static_view = is_static(before) and is_static(after)
        # in the same steps as many elements in another shape are others
        same_steps = before != after and view_of(held).strides == view_of(value).strides
        if is_static_view and prod(before) == prod(after) and not same_steps:
            return viewed(form, view_of(held), view_of(value), self.tensors.unseen)
        if len(before) == len(after) and keeps_dims(view_of(value), view_of(held)):
            starts = starts_of(view_of(value), view_of(held)) if form.cuts else ()
            cuts = [
                x if before[x.dim] == after[x.dim]
                else piece(x, before[x.dim], after[x.dim], starts[x.dim])
                for x in form.cuts
            ]  # fmt: skip
            return (replace(form, cuts=tuple(cuts), known=None),)
        if is_static_view:
            return part_of_view(form, view_of(held), view_of(value))
        return (form.varying(),)

    def constant(self, op: ConstantOp) -> Forms:
        if isinstance(op.value, WeightAttr):
            return self.weights.get(op.value.data, (Kind(),))
        return (constant_form(op.value, data_type(op.result.type)[1], self.tensors.devices),)

    def write(self, value: SSAValue, form: Forms) -> None:
        owner = owner_of(value)
        entries = self.held.get(owner, [])
        if value is owner:
            self.held[owner] = [(value, None, form)]
            return
        span = self.span(value)
        if span is None:
            self.held[owner] = [*entries, (value, None, form)]
            return
        whole = self.span(owner)
        own = None if whole is None else whole.boxes
        kept = [x for x in entries if span.boxes not in (own, own if x[1] is None else x[1].boxes)]
        new = [*kept, (value, span, form)]
        pieces = [(x[0], x[1]) for x in new if x[1] is not None]
        if is_all(pieces, data_type(owner.type)[1]):
            new = [x for x in new if x[1] is not None]
        self.held[owner] = new

    # ---- the walk

    def walk(self, block: Block) -> None:
        for op in block.ops:
            match op:
                case LaunchOp():
                    self.launch(op)
                case IfOp() | CaseOp():
                    self.branch(op)
                case LoopOp():
                    self.loop(op)
                case ReturnOp():
                    self.returned(op)
                case _ if isinstance(op, Task):
                    reads, writes, new = access(op)
                    for source, target in zip(reads, [*writes, *new], strict=False):
                        self.write(target, self.read(source))
                case _:
                    pass

    def launch(self, op: LaunchOp) -> None:
        kernel = self.kernels.get(op.callee)
        if kernel is None:
            return
        if isinstance(kernel.main, c.AllReduceOp) and self.reduce_pieces(op, kernel.main):
            return
        if isinstance(kernel.main, c.ReduceScatterOp) and self.scatter_rows(op, kernel.main):
            return
        if self.rows_of(op, kernel) or self.pieces_of(op, kernel):
            return
        own = tuple(self.read(v) for v in op.ins)
        key = None if any(f.known is not None for kinds in own for f in kinds) else (op.callee, own)
        if key is None or (results := self.results.get(key)) is None:
            given = dict[SSAValue, Forms](zip(kernel.body.block.args, own, strict=True))
            results = self.tensors.block(kernel.body.block, given)
            if key is not None and not self.tensors.problems:
                self.results[key] = results
            self.take_problems(op, f"{name_of(op)}: ")
        _, writes, new = access(op)
        for target, form in zip([*writes, *new], results, strict=False):
            self.write(target, form)

    def reduce_pieces(self, op: LaunchOp, kernel: c.AllReduceOp) -> bool:
        """Follow several values that are reduced in one buffer, each alone; return if it is so."""
        (source,), (target,) = op.ins, op.outs
        entries, ends = self.held.get(source, []), (self.span(source), self.span(target))
        pieces = [(v, span, form) for v, span, form in entries if span is not None]
        is_whole = is_all([(v, span) for v, span, _ in pieces], data_type(source.type)[1])
        if len(pieces) < 2 or len(pieces) < len(entries) or not is_whole or None in ends \
                or owner_of(target) is not target:  # fmt: skip
            return False
        before, after = (end.boxes[0].low for end in ends if end is not None)
        found = list[Entry]()
        for value, span, form in pieces:
            boxes = tuple(replace(box, low=box.low + after - before) for box in span.boxes)
            moved = replace(span, memory=(ends[1] or span).memory, boxes=boxes)
            found.append((value, moved, self.reduced(kernel, form)))
        self.held[target] = found
        self.take_problems(op, f"{name_of(op)}: ")
        return True

    def row(self, own: Forms, size: Sequence[int], after: Sequence[int]) -> Forms:
        """The forms of a device's row as a view shows it. It may be a part along any dimension that
        only ones are before: with a one more the view does not say which."""
        found, shape, unseen = list[Kind](), tuple(after), self.tensors.unseen
        for form in own:
            more = tuple(replace(x, dim=x.dim + 1) if x.dim else x for x in form.cuts)
            found += reshaped(form, (1, *size), shape, unseen)
            found += reshaped(replace(form, cuts=more), (1, 1, *size), shape, unseen)
        return forms(found)

    def reduced(self, kernel: c.AllReduceOp | c.ReduceScatterOp, form: Forms) -> Forms:
        """The forms of one of several values that are reduced together."""
        (found,) = self.tensors.of_each(
            [form], lambda own: [(self.tensors.reduced(kernel, own[0]),)]
        )
        return found

    def joined_for(self, op: LaunchOp, kernel: KernelOp, rank: int, kind: type[Any]) -> bool:
        """True for a concat along the last one of some dimensions, of which a collective of a kind
        alone makes something."""
        main, target = kernel.main, op.outs[0] if len(op.outs) == 1 else None
        if not isinstance(main, ConcatOp) or target is None or owner_of(target) is not target \
                or not main.axis.value.data == len(shape_of(main.results[0])) - 1 == rank - 1 \
                or len(op.ins) != len(main.operands):  # fmt: skip
            return False
        users = [self.kernels.get(u.operation.callee) for u in target.uses
                 if isinstance(u.operation, LaunchOp) and u.operation is not op]  # fmt: skip
        mains = [k.main for k in users if k is not None]
        return any(isinstance(m, kind) for m in mains) and all(
            isinstance(m, kind | AcknowledgeOp) for m in mains
        )

    def pieces_of(self, op: LaunchOp, kernel: KernelOp) -> bool:
        """Remember the values that a concat puts behind each other to be reduced, each in the shape
        that it had before; return if it is such a one."""
        if not self.joined_for(op, kernel, 1, c.AllReduceOp) or \
                (end := self.span(target := op.outs[0])) is None:  # fmt: skip
            return False
        low, entries = end.boxes[0].low, list[Entry]()
        for value in op.ins:
            source = owner_of(value) if is_view(value, owner_of(value)) else value
            box = ByteBox(low, byte_size(value.type))
            span = MemrefBytes(end.memory, end.buffer, (box,), (*runs_of(box),), None)
            entries.append((source, span, self.read(source)))
            low = box.high
        self.held[target] = entries
        return True

    def rows_of(self, op: LaunchOp, kernel: KernelOp) -> bool:
        """Remember the values that a concat puts beside each other in rows, one for each device, of
        which a reduce_scatter alone makes something; return if it is such a one."""
        if not self.joined_for(op, kernel, 2, c.ReduceScatterOp):
            return False
        target = op.outs[0]
        rows, offset = list[Row](), 0
        for value in op.ins:
            size = data_type(value.type)[1][1:]
            rows.append((offset, size, self.read(value)))
            offset += prod(size)
        self.rows[target] = rows
        self.write(target, (everywhere({a for _, _, own in rows for a in axes_of(own)}),))
        return True

    def scatter_rows(self, op: LaunchOp, kernel: c.ReduceScatterOp) -> bool:
        """Follow several values of which each device gets a row of one buffer, each alone; return
        if it is so. A row is what all views of the result show that begin where a value does."""
        (source,), (target,) = op.ins, op.outs
        shape = data_type(source.type)[1]
        if kernel.dim.value.data or len(shape) != 2 or not is_static(shape) \
                or owner_of(target) is not target or data_type(target.type)[1][0] != 1:  # fmt: skip
            return False
        rows = self.rows.pop(source, None)
        if rows is None:
            held = [(view_of(v), form) for v, _, form in self.held.get(source, [])]
            if len(held) < 2 or any(v.sizes[0] != shape[0] or v.strides[0] != shape[1]
                                    for v, _ in held):  # fmt: skip
                return False
            rows = [(view.offset, view.sizes[1:], form) for view, form in held]
        # of other elements of it only is known where they may differ
        axes = {*all_digits(kernel.axes.data), *(a for _, _, own in rows for a in axes_of(own))}
        found: list[Entry] = [(target, self.span(target), (everywhere(axes),))]
        views = [u.operation for u in target.uses]
        for offset, size, form in rows:
            for view in views:
                if isinstance(view, ReinterpretCastOp):
                    after = view_of(view.result)
                    if after.offset == offset and prod(after.sizes) == prod(size):
                        kinds = self.row(self.reduced(kernel, form), size, after.sizes)
                        found.append((view.result, self.span(view.result), kinds))
        self.held[target] = found
        self.take_problems(op, f"{name_of(op)}: ")
        return True

    def check_condition(self, value: SSAValue | None, op: Operation) -> None:
        """Check that a condition is the same on all devices that meet behind it."""
        if value is None or not (axes := axes_of(self.read(value))):
            return
        for inner in op.walk():
            kernel = self.kernels.get(inner.callee) if isinstance(inner, LaunchOp) else None
            met = None if kernel is None else kernel.main
            if isinstance(met, c.Collective) and axes & set(all_digits(met.group())):
                text = f"{name_of(inner)} is behind a condition that differs along {names(axes)}"
                self.report("D3", text, inner)

    def branch(self, op: IfOp | CaseOp) -> None:
        self.check_condition(op.condition if isinstance(op, IfOp) else op.index, op)
        before, ends = self.copied(), list[dict[SSAValue, list[Entry]]]()
        results: list[list[Forms]] = [[] for _ in op.results]
        decided = axes_of(self.read(op.condition if isinstance(op, IfOp) else op.index))
        for region in op.regions:
            self.held = {owner: list(entries) for owner, entries in before.items()}
            self.walk(region.block)
            self.yielded(region.block, results)
            ends.append(self.held)
        self.held = ends[0]
        for end in ends[1:]:
            self.join(end)
        if decided:  # what is written in one of them is not the same on all devices
            for owner, entries in self.held.items():
                if entries != before.get(owner):
                    self.held[owner] = [
                        (v, span, (everywhere(axes_of(f) | decided),)) for v, span, f in entries
                    ]
        for value, parts in zip(op.results, results, strict=True):
            found = together(parts)
            self.write(value, (everywhere(axes_of(found) | decided),) if decided else found)

    def yielded(self, block: Block, results: Sequence[list[Forms]]) -> None:
        last, new = block.last_op, iter(results)
        if not isinstance(last, YieldOp):
            return
        given = [(m, self.read(m.value)) for m in moves(last)]
        if isinstance(last.parent_op(), LoopOp):
            given = given[1:]
        for move, form in given:
            if move.target is None:
                next(new, list[Forms]()).append(form)
            elif owner_of(move.value) is not owner_of(move.target):
                row = forms(replace(kind, cuts=()).varying() for kind in form)
                self.write(move.target, row if move.row else form)

    def loop(self, op: LoopOp) -> None:
        """Go through the body until nothing changes: forms only become less certain."""
        self.check_condition(op.trip, op)
        self.check_condition(op.condition, op)
        args = [a for a in op.body.block.args if source_of(a) is None]
        carried = args[2:]  # after the number of the iteration and the condition
        for arg, init in zip(carried, op.inits, strict=False):
            self.write(arg, self.read(init))
        results: list[list[Forms]] = [[self.read(i)] for i in op.inits]
        results += [[] for _ in op.results[len(op.inits) :]]
        for _ in range(6):
            before = self.copied()
            new: list[list[Forms]] = [[] for _ in op.results]
            self.walk(op.body.block)
            if isinstance(last := op.body.block.last_op, YieldOp):
                self.check_condition(last.values[0], op)
            self.yielded(op.body.block, new)
            for own, found in zip(results, new, strict=True):
                own += found
            self.join(before)
            for arg, own in zip(carried, results, strict=False):
                self.write(arg, together(own))
            if self.held == before:
                break
        for value, own in zip(op.results, results, strict=True):
            self.write(value, together(own) if own else (Kind(),))

    def copied(self) -> dict[SSAValue, list[Entry]]:
        return {owner: list(entries) for owner, entries in self.held.items()}

    def join(self, other: Mapping[SSAValue, list[Entry]]) -> None:
        for owner, entries in other.items():
            mine = self.held.get(owner)
            if mine is None or mine == entries:
                self.held[owner] = list(entries)
                continue
            form = together([f for _, _, f in (*mine, *entries)])
            self.held[owner] = [(mine[0][0] if len(mine) == 1 else owner, None, form)]

    def returned(self, op: ReturnOp) -> None:
        for i, value in enumerate(op.operands):
            table = self.tables(self.main.res_attrs, i)
            what = f"result {i}"
            stated = self.stated(table, data_type(value.type)[1], what)
            if sharding_of(table) is not None:
                own = [f.restated(stated.cuts, data_type(value.type)[1]) for f in self.read(value)]
                self.check_result(what, own, stated, op)
        for state in self.states:
            stated = self.stated(state.attributes, data_type(state.result.type)[1], "state")
            self.check_result("state", self.read(state.result), stated, op)

    def check_result(self, what: str, own: Sequence[Kind], stated: Kind, op: ReturnOp) -> None:
        """Check that one of the forms of a result is the stated one."""
        repeated = self.tensors.unseen.repeated
        for rule, text in min((list(mismatches(form, stated, repeated)) for form in own), key=bool):
            self.report(rule, f"{what} {text}", op)


def mismatches(form: Kind, stated: Kind, repeated: Set[Axis]) -> Iterator[tuple[str, str]]:
    """Yield how a form of a result is not the stated one: rules with texts."""
    said = stated.axes
    for axis in sorted(form.axes - said):
        if axis in form.terms:
            yield "D12", f"is terms of a {form.kind} along {axis.name} that nobody combines"
        else:
            yield "D11", f"is not the same on devices along {axis.name}, as it says"
    if set(form.terms) & said and not set(stated.terms) & set(form.terms):
        yield "D12", f"is terms of a {form.kind} that nobody combines"
    for own in form.cuts:
        if any(own.edges):  # in whichever dimension
            yield "D19", f"is {own.wrong}"
    for cut in stated.cuts:
        if set(cut.axes) & {*form.terms, *form.unsure} and not form.contradicts(cut.axes):
            continue
        own = form.cut_at(cut.dim, cut.axes)
        if own is None and form.drawn:
            text = f"is cut by {names(cut.axes)}, and all parts are the same random numbers"
            yield "D17", text
        is_same = not form.axes & set(cut.axes)
        if own is None and (form.free or ((form.loose or {*cut.axes} <= repeated) and is_same)):
            continue  # what is the same on all devices may be parts that are equal
        if own is not None and not own.is_part:
            yield "D19", f"is {own.wrong}"
        if own is None or own.axes != cut.axes:
            differs = form.axes & set(cut.axes)
            has = "different in another way" if differs else "whole"
            has = has if own is None else f"cut by {names(own.axes)}"
            text = f"says that dimension {cut.dim} is cut by {names(cut.axes)}"
            yield "D11", f"{text}, and it is {has}"


def is_all(pieces: Sequence[tuple[SSAValue, MemrefBytes]], whole: Shape) -> bool:
    """True if pieces are all of a buffer."""
    sizes = [data_type(value.type)[1] for value, _ in pieces]
    if (
        not is_static(whole)
        or not all(map(is_static, sizes))
        or sum(map(prod, sizes)) < prod(whole)
    ):
        return False
    spans = [span for _, span in pieces]
    return not any(a.overlaps(b) for i, a in enumerate(spans) for b in spans[:i])


def is_view(value: SSAValue, owner: SSAValue) -> bool:
    """True if a view has as many elements as a buffer."""
    shapes = data_type(value.type)[1], data_type(owner.type)[1]
    return all(map(is_static, shapes)) and prod(shapes[0]) == prod(shapes[1])


def keeps_dims(view: MemoryView, held: MemoryView) -> bool:
    """True if each dimension of a view has elements along that of what is held, some or more."""
    pairs = zip(view.sizes, view.strides, held.sizes, held.strides, strict=True)
    return all(1 in (n, size) or s == step or step < s < step * size for n, s, size, step in pairs)


def starts_of(view: MemoryView, held: MemoryView) -> list[int]:
    """The element along each dimension of what is held at which a view of some begins."""
    rest, starts = view.offset - held.offset, [0] * len(held.sizes)
    for d in sorted(range(len(starts)), key=lambda d: -held.strides[d]):
        if held.sizes[d] > 1 and held.strides[d]:
            starts[d], rest = divmod(rest, held.strides[d])
    return starts


def check_values(module: ModuleOp, main: FuncOp, mesh: Mesh) -> list[Problem]:
    """Errors in how the values of devices differ, of a program whose order is proved."""
    return Values(module, main, mesh).check()
