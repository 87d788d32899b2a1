"""Users' fusion rules in the short form: ops in a row, and what replaces them. The graph that a
pass gets is one of `lowering/building/graph.py`.

    import ge

    @ge.register_pass("fuse-custom-attention")
    def fuse_attention(graph: ge.Graph) -> None:
        pattern = ge.Pattern([ge.OpType("MatMul"), ge.OpType("Softmax"), ge.OpType("MatMul")])
        graph.apply_pattern(pattern, lambda found: ge.FusedOp("MyAttention", kernel=my_attention))

A file with this is loaded by `--load-plugin FILE.py` or `GE_CUSTOM_PASS=FILE.py`. The long form is
a pattern class on xDSL's rewriter (`transforms/rewriting/driver.py`,
`transforms/rewriting/rules.py`); both use the matcher of `transforms/rewriting/matching.py`.

Patterns are ops in a row:

    Pattern([OpType("MatMul"), OpType("Softmax"), OpType("MatMul")])                  a chain
    Pattern([OpType("MatMul"), OpType("MatMul"), OpType("MatMul"), OpType("Concat")]) siblings

Each op has a result of the one before as any of its operands. Ops of one type in a row stand for
siblings where the op after them reads as many: all three products are operands of one concat. The
op before siblings is an operand of each. Where there are no siblings the row is a chain, of
products of products here.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias, cast, overload

import numpy as np
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation, SSAValue

from ge.dialects.fused_op import Body, CustomOp, user_kernels
from ge.dialects.graph import Graph as GraphDialect
from ge.dialects.graph.support.op_names import framework_op, nearest_name, plain
from ge.dialects.support import diagnostics
from ge.dialects.support.boxes import Work
from ge.dialects.support.errors import GeError
from ge.dialects.support.packages import installed
from ge.dialects.support.tensor_op import Param, TensorOp
from ge.dialects.support.types import element_type, is_static, shape_of
from ge.runtime import numbers
from ge.runtime.data.arrays import Array, dtype_of
from ge.transforms.fusion.groups import blocks_of
from ge.transforms.rewriting import remarks
from ge.transforms.rewriting.counts import count
from ge.transforms.rewriting.matching import Bound, Match, Miss, Op, Predicate
from ge.transforms.rewriting.rules import loss_us


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
    """The part of a pattern matched so far: ops, the last first, and their names."""

    ops: tuple[Operation, ...] = ()
    bound: tuple[tuple[str, Bound], ...] = ()


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
            after = Partial((*after.ops, *match.ops), (*after.bound, *match.bound.items()))
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
        """Return for each of these ops of the pattern the first operand of `user` that fits."""
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
        """Return whether only `users` use the results of op `index` of the pattern."""
        others = {use.operation for r in op.results for use in r.uses}.difference(users)
        if others and not self.ops[index].shared:
            miss.note(op, f"the result of {op.name} is used elsewhere too", (*matched, op))
            return False
        return True


def producers(op: Operation) -> list[Operation]:
    """The ops of its block that compute its operands, each once, in order."""
    owners = dict.fromkeys(v.owner for v in op.operands)
    return [o for o in owners if isinstance(o, Operation) and o.parent is op.parent]


KernelFn: TypeAlias = Callable[..., Any]


@dataclass(frozen=True)
class FusedOp:
    """The replacement of a match: one launch of a kernel of the user's own.

    `kernel` is a function of numpy arrays, one for each input, that returns the result (a tuple
    for several). `inputs` are the values that it takes, by default all operands of the match, in
    order; an op of the match stands for what it reads from outside of it (`inputs=nodes[:3]`),
    another op for its results. `work` states multiply-accumulates and the rest (default: the sum
    over the ops matched). With `check`, the kernel is compared with the ops that it replaces, on
    random inputs: the largest difference relative to the largest value may be `check`; without, a
    quick kernel is run once for the shapes of its results. Without a kernel the matched ops
    themselves run, as one launch.
    """

    kind: str
    inputs: Sequence[SSAValue | Operation] | None = None
    kernel: KernelFn | None = None
    work: Callable[[Body], Work] | None = None
    check: float | None = None

    def build(self, ops: Sequence[Operation], results: Sequence[SSAValue]) -> CustomOp:
        """The op, not inserted yet. Raises GeError when inputs are missing or the check fails."""
        op = CustomOp.wrap(ops, results, kind=StringAttr(self.kind))
        if self.inputs is not None:
            _reorder(op, _values(self.inputs, ops))
        if self.kernel is not None:
            numbers.custom_kernel(self.kind, self.kernel)
        if self.work is not None:
            user_kernels().work[self.kind] = self.work
        if self.kernel is not None and (self.check is not None or _is_quick(op)):
            self_check(op, self.kernel, self.check)
        return op


def by_dependence(ops: Sequence[Operation]) -> list[Operation]:
    """The ops, each after those whose results it reads, else in the order given: siblings may read
    each other where their results are shared."""
    todo, ordered = list(ops), list[Operation]()
    while todo:
        op = next(o for o in todo if not any(v.owner in todo for v in o.operands))
        todo.remove(op)
        ordered.append(op)
    return ordered


def _values(inputs: Sequence[SSAValue | Operation], matched: Sequence[Operation]) -> list[SSAValue]:
    """The values that inputs stand for, each once."""
    values: list[SSAValue] = []
    for item in inputs:
        if isinstance(item, SSAValue):
            values.append(item)
        elif item in matched:
            values += [v for v in item.operands if v.owner not in matched]
        else:
            values += item.results
    return list(dict.fromkeys(values))


def _reorder(op: CustomOp, inputs: list[SSAValue]) -> None:
    """Make the op take exactly `inputs`, in this order."""
    missing = [v for v in op.inputs if v not in inputs]
    if missing:
        raise GeError(
            f"{op.kind.data} reads {len(missing)} values that are not among its inputs",
            hint="leave `inputs` out to take all of them",
        )
    old = dict(zip(op.inputs, op.block.args, strict=True))
    for i, value in enumerate(inputs):
        arg = op.block.insert_arg(value.type, i)
        if value in old:
            old[value].replace_all_uses_with(arg)
    for arg in list(op.block.args)[len(inputs) :]:
        op.block.erase_arg(arg)
    op.operands = inputs


QUICK = 1 << 24  # multiply-accumulates, and elements, that a kernel is run on for its shapes alone


def _is_quick(op: CustomOp) -> bool:
    work = Body.of(op).work()
    return work is not None and work.macs + work.vector <= QUICK


def self_check(op: CustomOp, kernel: KernelFn, tolerance: float | None) -> None:
    """Run a kernel on seeded random inputs. Raises GeError when it fails, when a result has another
    shape, and, with a tolerance, when it differs from the ops that it replaces. Does nothing while
    a shape is dynamic."""
    if not all(is_static(shape_of(v)) for v in (*op.inputs, *op.outputs)):
        return
    arrays = _random_inputs(op)
    try:
        output = kernel(*arrays)
    except Exception as error:
        shapes = ", ".join(str(a.shape) for a in arrays)
        what = f"kernel '{op.kind.data}' fails on {shapes}: {type(error).__name__}: {error}"
        raise GeError(what) from error
    outputs: Sequence[Any] = cast(Sequence[Any], output) if isinstance(output, tuple) else (output,)
    shapes = [np.shape(o) for o in outputs]
    wanted = [shape_of(v) for v in op.outputs]
    if shapes != wanted:
        gives, replaces = (", ".join(map(str, s)) for s in (shapes, wanted))
        what = f"kernel '{op.kind.data}' gives {gives}; what it replaces has {replaces}"
        raise GeError(what, hint="its arguments are, in order, the inputs of the FusedOp")
    if tolerance is not None:
        _compare(op, arrays, outputs, tolerance)


def _random_inputs(op: CustomOp) -> list[Array]:
    rng = np.random.default_rng(0)
    arrays: list[Array] = []
    for value in op.inputs:
        dtype, shape = dtype_of(element_type(value)), shape_of(value)
        is_float = dtype.kind not in "iub"
        array = rng.standard_normal(shape) if is_float else rng.integers(0, 2, shape)
        arrays.append(array.astype(dtype))
    return arrays


def _compare(
    op: CustomOp, arrays: Sequence[Array], outputs: Sequence[Any], tolerance: float
) -> None:
    values: dict[SSAValue, Any] = dict(zip(op.block.args, arrays, strict=True))
    for member in op.members:
        computed = numbers.evaluate(member, [values[o] for o in member.operands])
        values.update(zip(member.results, computed, strict=True))
    for actual, expected in zip(outputs, (values[v] for v in op.yielded), strict=True):
        wide = np.asarray(expected, np.float64)
        error = float(np.max(np.abs(np.asarray(actual, np.float64) - wide), initial=0.0))
        scale = max(float(np.max(np.abs(wide), initial=0.0)), 1e-30)
        if not error <= tolerance * scale:
            raise GeError(
                f"kernel '{op.kind.data}' differs from the ops it replaces by {error / scale:.1e} "
                f"of the largest value, more than {tolerance:.1e}",
                hint="mend the kernel, or raise `check`",
            )


Replace: TypeAlias = Callable[[Nodes], FusedOp | SSAValue | None]


class Matcher:
    """A module in which a user's rule replaces what patterns match (`ge.Graph` is one). A rule
    without a name has that of the pass that runs."""

    def __init__(self, module: ModuleOp, rule: str) -> None:
        self._module, self.rule = module, rule or diagnostics.listeners().running
        self.before: Operation | None = None  # the last op of the match that is being replaced

    @property
    def module(self) -> ModuleOp:
        return self._module

    def operations(self) -> Iterable[TensorOp]:
        """The ops of the program that compute, in order."""
        blocks = blocks_of(self.module)
        return [op for block in blocks for op in block.ops if isinstance(op, TensorOp)]

    def apply_pattern(self, pattern: Pattern, replace: Replace) -> int:
        """Replace each match of the pattern; returns how many. `replace` gets the ops of the match
        in the order of the pattern (`nodes[0]`, `nodes[:3]`) and returns a FusedOp, a value instead
        of the last result, or None to leave the match as it is. Where nothing matches, a warning
        names the nearest miss (not for a package's rule, which runs on all models); `--remarks`
        shows all. Raises GeError for a replacement of another
        type."""
        kind, found, replaced = pattern.ops[-1].kind, 0, 0
        nearest = Miss()
        for op in self.operations():
            if not isinstance(op, kind) or op.parent is None:
                continue
            if (nodes := pattern.match(op, miss := Miss())) is not None:
                found += 1
                replaced += self._replace(nodes, replace)
                continue
            nearest.note(miss.op or op, miss.why, miss.ops)
            if miss.depth > 0:
                failed = () if miss.op is None else (miss.op,)
                remarks.missed(self.rule, op, miss.why, loss_us((*miss.ops, *failed)))
        if not found and not any(self.rule in p.universe.all_passes for p in installed()):
            self._warn(pattern, nearest)
        return replaced

    def _warn(self, pattern: Pattern, nearest: Miss) -> None:
        """Say why nothing matched: a type that no op has, or else the nearest miss."""
        text = f"{self.rule}: nothing matches {pattern}"
        kinds = {type(op) for op in self.operations()}
        absent = dict.fromkeys(o.kind.name for o in pattern.ops if o.kind not in kinds)
        if absent:
            where = self.module.body.block.first_op or self.module
            diagnostics.warning(where, f"{text}: there is no {' and no '.join(absent)}")
        elif nearest.op is not None:
            matched = f"{len(nearest.ops)} of {len(pattern.ops)} ops match, then {nearest.why}"
            diagnostics.warning(nearest.op, f"{text}: at the nearest miss {matched}")

    def _replace(self, nodes: Nodes, replace: Replace) -> bool:
        self.before = last = nodes.root
        new = replace(nodes)
        self.before = None
        count(self.rule, applied=new is not None)
        if new is None:
            return False
        if isinstance(new, FusedOp):
            fused = new.build(by_dependence(nodes.in_order), last.results)
            assert last.parent is not None
            last.parent.insert_op_before(fused, last)
            results: Sequence[SSAValue] = fused.results
        else:
            results = (new,)
        for old, value in zip(last.results, results, strict=True):
            if value.type != old.type:
                text = f"{self.rule}: {value.type} cannot take the place of {old.type}"
                raise diagnostics.error_at(last, text)
        remarks.applied(self.rule, last)
        for old, value in zip(last.results, results, strict=True):
            old.replace_all_uses_with(value)
        for op in nodes.ops:
            if all(r.first_use is None for r in op.results):
                op.detach()
                op.erase()
        return True
