"""Patterns of users' fusion rules (`user_rules.py`): ops in a row.

    Pattern([OpType("MatMul"), OpType("Softmax"), OpType("MatMul")])                  a chain
    Pattern([OpType("MatMul"), OpType("MatMul"), OpType("MatMul"), OpType("Concat")]) siblings

Each op has a result of the one before as any of its operands. Ops of one type in a row stand for
siblings where the op after them reads as many: all three products are operands of one concat. The
op before siblings is an operand of each. Where there are no siblings the row is a chain, of
products of products here.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, overload

from xdsl.ir import Operation, SSAValue

from ge.dialects.graph import Graph as GraphDialect
from ge.dialects.graph.support.op_names import framework_op, nearest_name, plain
from ge.dialects.support.errors import GeError
from ge.dialects.support.tensor_op import Param, TensorOp
from ge.transforms.rewriting.matching import Bound, Match, Miss, Op, Predicate


@cache
def op_names() -> dict[str, type[Operation]]:
    """Name of a graph op, in small letters without underscores -> its class."""
    return {
        plain(op.name.partition(".")[2]): op
        for op in GraphDialect.operations
        if issubclass(op, TensorOp)
    }


@dataclass(frozen=True)
class OpType:
    """One op of a pattern, by its name: "MatMul", "matmul" and "graph.matmul" are the same, and
    names of frameworks ("BatchMatMul", "ReduceMean") stand for ops of the graph level (see
    `op_names.py`); or by its class, where it is of a dialect of one's own.

    `where` is a predicate on the op, `attributes` the Python values of some of its properties,
    `name` its name in the match. With `shared`, other ops may use its result (it is then computed
    twice). Raises GeError for a name that no graph op has.
    """

    op: str | type[Operation]
    name: str = ""
    where: Predicate | None = None
    shared: bool = False
    attributes: tuple[tuple[str, Param], ...] = ()

    def __post_init__(self) -> None:
        self.kind

    @property
    def kind(self) -> type[Operation]:
        if not isinstance(self.op, str):
            return self.op
        known = op_names()
        name = plain(self.op.removeprefix("graph."))
        if name not in known and (named := framework_op(name)) is not None:
            name = plain(named.op)
        if name not in known:
            near = nearest_name(self.op, [op.name for op in known.values()])
            raise GeError(f"there is no graph op '{self.op}'", hint=near)
        return known[name]

    @property
    def values(self) -> dict[str, Any]:
        """Values of properties that its name or `attributes` ask for."""
        own = isinstance(self.op, str) and plain(self.op.removeprefix("graph.")) not in op_names()
        named = framework_op(str(self.op)) if own else None
        return {**({} if named is None else named.values), **dict(self.attributes)}

    def match(self, op: Operation, miss: Miss) -> Match | None:
        """The op alone, whatever its operands."""
        return Op(self.kind, ..., name=self.name, where=self.where, **self.values).match(op, miss)


class Nodes(Match):
    """The ops of a match in the order of the pattern, so that `nodes[0]`, `nodes[:3]` and
    `nodes["name"]` (a value) work; `ops` has the last op first, as in every match."""

    @property
    def in_order(self) -> tuple[Operation, ...]:
        return self.ops[::-1]

    def __len__(self) -> int:
        return len(self.ops)

    def __iter__(self) -> Iterator[Operation]:
        return iter(self.in_order)

    @overload
    def __getitem__(self, name: str) -> SSAValue: ...

    @overload
    def __getitem__(self, name: int) -> Operation: ...

    @overload
    def __getitem__(self, name: slice) -> tuple[Operation, ...]: ...

    def __getitem__(self, name: str | int | slice) -> Any:
        return super().__getitem__(name) if isinstance(name, str) else self.in_order[name]


@dataclass(frozen=True)
class Partial:
    """What has matched of a pattern: ops, the last first, and their names."""

    ops: tuple[Operation, ...] = ()
    bound: tuple[tuple[str, Bound], ...] = ()

    def with_match(self, match: Match) -> "Partial":
        return Partial((*self.ops, *match.ops), (*self.bound, *match.bound.items()))


@dataclass(frozen=True)
class Pattern:
    """Ops in a row: a chain, or siblings that one op reads. Only the last result has users outside
    of the match, and those of `shared` ops."""

    ops: Sequence[OpType]

    def __post_init__(self) -> None:
        if not self.ops:
            raise GeError("a pattern has at least one op")

    def __str__(self) -> str:
        return ", ".join(o.op if isinstance(o.op, str) else o.kind.name for o in self.ops)

    def match(self, last: Operation, miss: Miss | None = None) -> Nodes | None:
        """The match whose last op is `last`."""
        end = len(self.ops) - 1
        partial = self._match((last,), end, miss or Miss(), Partial())
        return None if partial is None else Nodes(partial.ops, dict(partial.bound))

    def _match(
        self, ops: Sequence[Operation], end: int, miss: Miss, after: Partial
    ) -> Partial | None:
        """The pattern up to its op `end`, where `ops` stand for its last ones, and those `after`
        them have matched."""
        index = end - len(ops)  # the op of the pattern before them
        for i, op in reversed(list(enumerate(ops, index + 1))):
            if (match := self.ops[i].match(op, reason := Miss())) is None:
                miss.note(op, reason.why, after.ops)
                return None
            after = after.with_match(match)
        if index < 0:
            return after
        first = self._first_of_row(index)
        if len(ops) == 1 and first < index and self.ops[end].kind is not self.ops[index].kind:
            siblings = self._siblings(ops[0], range(first, index + 1), miss, after)
            if siblings is not None and (found := self._match(siblings, index, miss, after)):
                return found
        return self._chain(ops, index, miss, after)

    def _first_of_row(self, index: int) -> int:
        """The first of the ops of one type in a row up to `index`."""
        while index > 0 and self.ops[index - 1].kind is self.ops[index].kind:
            index -= 1
        return index

    def _chain(
        self, ops: Sequence[Operation], index: int, miss: Miss, after: Partial
    ) -> Partial | None:
        """The match in which one op, which all of `ops` read, is op `index` of the pattern."""
        read_by_all = [p for p in producers(ops[0]) if all(p in producers(op) for op in ops)]
        if len(ops) > 1 and not read_by_all:
            miss.note(ops[0], "they do not all read the same op", after.ops)
        for producer in read_by_all:
            found = self._match((producer,), index, miss, after)
            if found is not None and self._is_free(producer, index, ops, miss, after.ops):
                return found
        return None

    def _siblings(
        self, user: Operation, indices: range, miss: Miss, after: Partial
    ) -> list[Operation] | None:
        """For each of these ops of the pattern, the first operand of `user` that fits."""
        kind = self.ops[indices[0]].kind
        left = [p for p in producers(user) if isinstance(p, kind)]
        chosen: list[Operation] = []
        for index in indices:
            matched = (*after.ops, *chosen)
            for op in left:
                if self.ops[index].match(op, reason := Miss()) is None:
                    miss.note(op, reason.why, matched)
                elif self._is_free(op, index, (user,), miss, matched):
                    break
            else:
                why = "%d of its operands fit as %s, of %d"
                miss.note(user, why, matched, len(chosen), kind.name, len(indices))
                return None
            chosen.append(op)
            left.remove(op)
        return chosen

    def _is_free(
        self,
        op: Operation,
        index: int,
        users: Sequence[Operation],
        miss: Miss,
        matched: tuple[Operation, ...],
    ) -> bool:
        """Whether only `users` use the results of op `index` of the pattern."""
        others = {use.operation for r in op.results for use in r.uses}.difference(users)
        if others and not self.ops[index].shared:
            miss.note(op, f"the result of {op.name} is used elsewhere too", (*matched, op))
            return False
        return True


def producers(op: Operation) -> list[Operation]:
    """The ops of its block that compute its operands, each once, in order."""
    owners = dict.fromkeys(v.owner for v in op.operands)
    return [o for o in owners if isinstance(o, Operation) and o.parent is op.parent]
