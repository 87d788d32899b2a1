"""Groups of ops of a block, which become fused ops, and which ops there are to make launches of.
Merging groups never creates a cycle.

    groups = Groups(block)
    groups.merge(groups.of(matmul), groups.of(add))     # False if a path runs around them
    groups.of(matmul).kind = LinearOp
    groups.emit()

Groups stay in a topological order. Two groups can merge unless a path leads from the first through
others to the second. Both ends search for it in turn, only among the groups between them in the
order. If the forward search ends first, the groups that it met move after the second group, else
those of the backward search move before the first (Pearce and Kelly, ACM JEA 11, 2006, searching
from both sides, one edge of the graph at a time). A search gives up after `REACH` edges, so that
time stays linear in the number of ops. Groups of two phases, or of two engines where users chose
one (see `PHASE` and `ENGINE` of `fused_op`), do not merge.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue, Use
from xdsl.traits import NoMemoryEffect

from ge.dialects.fused_op import ENGINE, PHASE, FusedOp, RegionOp, multiplies
from ge.dialects.graph.collectives import Collective
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.shape import is_shape_arithmetic
from ge.dialects.npu_task.attributes import Engine
from ge.dialects.support.boxes import Access
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import has_size, is_ranked, numel, shape_of
from ge.transforms.analysis.views import view_offsets
from ge.transforms.graph.prepare_weights import FUNCTION

REACH = 2000  # edges that a search for a path looks at from each end

_GAP = 1 << 20  # distance of the labels of neighbours when they are dealt out


class Group:
    """Ops that are one launch; most groups are one op."""

    __slots__ = ("after", "before", "kind", "label", "ops")

    def __init__(self, op: Operation) -> None:
        self.ops: list[Operation] = [op]  # in no particular order; see `Groups.in_order`
        self.kind: type[FusedOp] | None = None  # None leaves its one op unchanged
        self.label = 0  # grows along the topological order
        self.before: Group | None = None
        self.after: Group | None = None


class Groups:
    """The groups of one block, in topological order."""

    def __init__(self, block: Block, bodies: Iterable[Sequence[Operation]] = ()) -> None:
        """Each of the `bodies` is one group; its ops are next to each other in the block."""
        self.block = block
        together = {op: body[0] for body in bodies for op in body[1:]}
        self.number: dict[Operation, int] = {}  # position in the block as it was
        self._group: dict[Operation, Group] = {}
        self._captured: dict[Operation, list[SSAValue]] = {}
        self._first: Group | None = None
        self._by_hand = any(ENGINE in op.attributes for op in block.ops)
        last: Group | None = None
        for i, op in enumerate(block.ops):
            self.number[op] = i
            if (head := together.get(op)) is not None:
                self._group[op] = self._group[head]
                self._group[op].ops.append(op)
                continue
            group = self._group[op] = Group(op)
            group.label = (i + 1) * _GAP
            if op.regions and not isinstance(op, FusedOp):
                self._captured[op] = [v for inner in op.walk() for v in inner.operands]
            self._link(last, group)
            last = group

    # ---- the order

    def _link(self, before: Group | None, after: Group | None) -> None:
        if before is None:
            self._first = after
        else:
            before.after = after
        if after is not None:
            after.before = before

    def _place(self, groups: list[Group], before: Group | None) -> None:
        """Insert groups right after `before` (None: at the start)."""
        after = self._first if before is None else before.after
        low = 0 if before is None else before.label
        room = (low + 2 * _GAP * (len(groups) + 1) if after is None else after.label) - low
        if room <= len(groups):
            for i, group in enumerate(self):
                group.label = (i + 1) * _GAP
            self._place(groups, before)
            return
        for i, group in enumerate(groups):
            group.label = low + (i + 1) * room // (len(groups) + 1)
            self._link(before, group)
            before = group
        self._link(before, after)

    def __iter__(self) -> Iterator[Group]:
        group = self._first
        while group is not None:
            following = group.after
            yield group
            group = following

    # ---- the graph

    def of(self, op: Operation) -> Group:
        return self._group[op]

    def find(self, op: Operation | Block | None) -> Group | None:
        """The group of an op of the block, or of the op of the block around it."""
        while isinstance(op, Operation):
            if (group := self._group.get(op)) is not None:
                return group
            op = op.parent_op()
        return None

    @cached_property
    def collectives(self) -> bool:
        """Return whether ops of the block send something to other devices."""
        return any(isinstance(op, Collective) for op in self.number)

    def defining(self, value: SSAValue) -> Operation | None:
        """The op of the block that defines a value, if any."""
        owner = value.owner
        return owner if isinstance(owner, Operation) and owner in self.number else None

    def producer(self, value: SSAValue) -> Group | None:
        """The group that defines a value; None for values from outside the block."""
        return self._group.get(value.owner) if isinstance(value.owner, Operation) else None

    def in_order(self, group: Group) -> list[Operation]:
        """The ops of a group, each after its operands."""
        return sorted(group.ops, key=self.number.__getitem__)

    def users(self, group: Group) -> Iterator[Group]:
        """Groups that use values of a group, some more than once."""
        for op in group.ops:
            for result in op.results:
                for use in result.uses:
                    if (user := self.find(use.operation)) is not None and user is not group:
                        yield user

    def producers(self, group: Group) -> Iterator[Group]:
        """Groups whose values a group uses, some more than once."""
        for op in group.ops:
            for value in (*op.operands, *self._captured.get(op, ())):
                if (producer := self.producer(value)) is not None and producer is not group:
                    yield producer

    def outputs(self, group: Group) -> list[SSAValue]:
        """Results of the ops of a group that are used outside."""
        inside = set(group.ops)
        return [
            r
            for op in self.in_order(group)
            for r in op.results
            if any(use.operation not in inside for use in r.uses)
        ]

    # ---- merging

    def merge(self, a: Group, b: Group) -> bool:
        """Merge group `b` into `a`. Returns False, and changes nothing, if that would create a
        cycle or they are too far apart to know."""
        if a is b:
            return True
        first, last = (a, b) if a.label < b.label else (b, a)
        moves = self._between(first, last)
        if moves is None:
            return False
        forward, groups = moves
        groups.sort(key=lambda g: g.label)
        for group in groups:
            self._link(group.before, group.after)
        place = last if forward else first
        self._place(groups, place if forward else place.before)
        a.ops += b.ops
        for op in b.ops:
            self._group[op] = a
        if place is b:  # a takes its place
            self._link(a.before, a.after)
            self._link(b.before, a)
            self._link(a, b.after)
            a.label = b.label
        else:
            self._link(b.before, b.after)
        b.ops = []
        return True

    def can_merge(self, a: Group, b: Group) -> bool:
        """Return whether `merge` would succeed."""
        first, last = (a, b) if a.label < b.label else (b, a)
        return a is b or self._between(first, last) is not None

    def _between(self, first: Group, last: Group) -> tuple[bool, list[Group]] | None:
        """The groups between two in the order that depend on the first (True) or that the last
        depends on (False), whichever is known sooner; None where a path leads from the first to
        the last through other groups, or where there are too many groups."""
        if first.ops[0].attributes.get(PHASE) != last.ops[0].attributes.get(PHASE):
            return None
        if self._by_hand and not one_engine([*first.ops, *last.ops]):
            return None
        users: dict[Group, None] = {}
        producers: dict[Group, None] = {}
        forward = self._search(first, last, self.users, users)
        backward = self._search(last, first, self.producers, producers)
        for _ in range(REACH):
            if (around := next(forward, None)) is None:
                return True, list(users)
            if around:
                return None
            if (around := next(backward, None)) is None:
                return False, list(producers)
            if around:
                return None
        return None

    def _search(
        self,
        start: Group,
        goal: Group,
        neighbours: Callable[[Group], Iterator[Group]],
        visited: dict[Group, None],
    ) -> Iterator[bool]:
        """Collect the groups on this side of `goal` that `start` leads to. Yields for each edge
        whether it ends a path through other groups from `start` to `goal`."""
        forward, todo = start.label < goal.label, [start]
        while todo:
            group = todo.pop()
            for other in neighbours(group):
                if (other.label < goal.label) == forward and other is not goal:
                    if other not in visited:
                        visited[other] = None
                        todo.append(other)
                yield other is goal and group is not start

    def split_off(self, op: Operation, before: bool) -> None:
        """Take an op out of its group, to right before or after it. The caller knows that nothing
        else in the group has to come before, or after, it."""
        group = self._group[op]
        group.ops.remove(op)
        single = self._group[op] = Group(op)
        self._place([single], group.before if before else group)

    def split(self, group: Group, ops: Sequence[Operation]) -> Group:
        """Make the last ops of a group, some of them, a group right behind it."""
        group.ops = [op for op in group.ops if op not in {*ops}]
        rest = Group(ops[0])
        rest.ops = [*ops]
        self._group.update(dict.fromkeys(ops, rest))
        self._place([rest], group)
        return rest

    def take_apart(self, group: Group) -> None:
        """Make each op of a group one of its own."""
        for op in self.in_order(group)[:0:-1]:
            self.split_off(op, before=False)

    def _copy(self, op: Operation, uses: Callable[[Use], bool]) -> Operation:
        """A copy of an op right after it, for some of its uses."""
        copy = op.clone()
        self.block.insert_op_after(copy, op)
        for old, new in zip(op.results, copy.results, strict=True):
            old.replace_uses_with_if(new, uses)
        self.number[copy] = self.number[op]
        return copy

    def duplicate(self, op: Operation) -> None:
        """Have the users outside of the group of `op` use a copy of it, right after the group."""
        group = self._group[op]
        copy = self._copy(op, lambda use: self.find(use.operation) is not group)
        single = self._group[copy] = Group(copy)
        self._place([single], group)

    def absorb(self, op: Operation, user: Group) -> None:
        """Put a copy of `op`, whose results the group uses, into the group."""
        copy = self._copy(op, lambda use: self.find(use.operation) is user)
        self._group[copy] = user
        user.ops.append(copy)
        if all(r.first_use is None for r in op.results):
            group = self._group.pop(op)
            group.ops.remove(op)
            if not group.ops:
                self._link(group.before, group.after)
            op.detach()
            op.erase()

    # ---- the result

    def emit(self) -> list[FusedOp]:
        """Rewrite the block: each group with a kind becomes one op of that kind, or a region where
        what the kind is for has come apart from it. There are no groups afterwards."""
        order: list[Operation] = []
        fused: list[FusedOp] = []
        for group in self:
            group.before = group.after = None  # else the collector has to find all of them
            if group.kind is None:
                order.append(group.ops[0])
                continue
            ops, results = self.in_order(group), self.outputs(group)
            is_left = any(group.kind.computes(o) for o in ops if isinstance(o, TensorOp))
            new = (group.kind if is_left else RegionOp).wrap(ops, results)
            for old, value in zip(results, new.results, strict=True):
                old.replace_all_uses_with(value)
            for op in reversed(ops):
                op.detach()
                op.erase()
            order.append(new)
            fused.append(new)
        if fused:
            for op in order:
                if op.parent is not None:
                    op.detach()
            self.block.add_ops(order)
        self._first = None
        return fused


def one_engine(ops: Sequence[Operation]) -> bool:
    """Return whether one engine may run all ops, where users chose some for vector cores or the
    host."""
    marks = {op.attributes.get(ENGINE) for op in ops} - {None, StringAttr(Engine.CUBE)}
    if len(marks) != 1:
        return not marks
    on_host = marks == {StringAttr(Engine.HOST)}
    return all(ENGINE in op.attributes or may_join(op, on_host) for op in ops)


def may_join(op: Operation, on_host: bool) -> bool:
    """Return whether an op without a choice of its own may run on the engine chosen for the
    others."""
    on_shapes = isinstance(op, TensorOp) and is_shape_arithmetic(op)
    return on_shapes if on_host else not (on_shapes or multiplies(op))


REGION = (
    Access.POINTWISE,
    Access.VIEW,
    Access.MOVEMENT,
    Access.LOOKUP,
    Access.WINDOW,
    Access.ROWS,
)


def blocks_of(module: ModuleOp) -> Iterator[Block]:
    """The blocks of the program: function bodies and control flow in them, but neither bodies of
    fused ops nor the function that prepares weights."""

    def walk(block: Block) -> Iterator[Block]:
        yield block
        for op in block.ops:
            if not isinstance(op, FusedOp):
                for region in op.regions:
                    for inner in region.blocks:
                        yield from walk(inner)

    for func in module.ops:
        if isinstance(func, FuncOp) and func.sym_name.data != FUNCTION and func.body.blocks:
            yield from walk(func.body.block)


def is_view(op: Operation) -> bool:
    """Return whether the result of an op is memory of its operand, so that it is no launch."""
    return view_offsets(op) is not None


def is_pure(op: Operation) -> bool:
    """Return whether the results of a graph op follow from its operands alone."""
    return (
        isinstance(op, TensorOp)
        and not op.regions
        and not isinstance(op, ConstantOp)
        and op.has_trait(NoMemoryEffect)
    )


def can_join(op: Operation) -> bool:
    """Return whether an op can be part of a launch. Shape arithmetic is no work for the NPU."""
    return is_pure(op) and not is_shape_arithmetic(op) and all(map(is_ranked, op.results))


def is_vector_op(op: Operation) -> bool:
    """Return whether a launch of the vector unit can hold the op."""
    return can_join(op) and not isinstance(op, FusedOp) and access(op) in REGION


def size_of(value: SSAValue) -> int | None:
    """The number of elements, None where unknown."""
    return numel(shape_of(value)) if has_size(value) else None


def access(op: Operation) -> Access:
    return op.ACCESS if isinstance(op, TensorOp) else Access.WHOLE
