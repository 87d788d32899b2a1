"""Users' fusion rules in the short form: a chain of ops, and what replaces it.

    import ge

    @ge.register_pass("fuse-custom-attention")
    def fuse_attention(graph: ge.Graph) -> None:
        pattern = ge.Pattern([ge.OpType("MatMul"), ge.OpType("Softmax"), ge.OpType("MatMul")])
        graph.apply_pattern(pattern, lambda found: ge.FusedOp("MyAttention", kernel=my_attention))

A file with this is loaded by `--load-plugin FILE.py` or `GE_CUSTOM_PASS=FILE.py`. The long form is
a pattern class on xDSL's rewriter (`transforms/rewriting/driver.py`,
`transforms/rewriting/rules.py`); both use the matcher of `transforms/rewriting/matching.py`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import Any, TypeAlias, cast

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation, SSAValue

from ge.dialects.fused_op import USER_KERNELS, Body, CustomOp
from ge.dialects.graph import Graph as GraphDialect
from ge.dialects.support.errors import GeError
from ge.dialects.support.inference import Param
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import element_type, is_static, shape_of
from ge.dialects.support.work import Work
from ge.runtime import kernels
from ge.runtime.data.arrays import Array, dtype_of
from ge.transforms.fusion.merging import blocks_of
from ge.transforms.rewriting import remarks
from ge.transforms.rewriting.counts import count
from ge.transforms.rewriting.losses import loss_us
from ge.transforms.rewriting.matching import Match, Miss, Op, Predicate


@cache
def op_names() -> dict[str, type[Operation]]:
    """Name of a graph op, in small letters without underscores -> its class."""
    return {
        op.name.partition(".")[2].replace("_", ""): op
        for op in GraphDialect.operations
        if issubclass(op, TensorOp)
    }


@dataclass(frozen=True)
class OpType:
    """One op of a chain, by its name: "MatMul", "matmul" and "graph.matmul" are the same.

    `where` is a predicate on the op, `attributes` the Python values of some of its properties,
    `name` its name in the match. With `shared`, other ops may use its result (it is then computed
    twice). Raises GeError for a name that no graph op has.
    """

    op: str
    name: str = ""
    where: Predicate | None = None
    shared: bool = False
    attributes: tuple[tuple[str, Param], ...] = ()

    def __post_init__(self) -> None:
        self.kind

    @property
    def kind(self) -> type[Operation]:
        plain = self.op.removeprefix("graph.").lower().replace("_", "")
        known = op_names()
        if plain not in known:
            near = get_close_matches(plain, known, 1)
            hint = f"did you mean {known[near[0]].name}?" if near else ""
            raise GeError(f"there is no graph op '{self.op}'", hint=hint)
        return known[plain]


@dataclass(frozen=True)
class Pattern:
    """Ops in a row, each with a result of the one before as any of its operands. Only the last
    result has users outside of the chain, and those of `shared` ops."""

    ops: Sequence[OpType]

    def __post_init__(self) -> None:
        if not self.ops:
            raise GeError("a pattern has at least one op")

    def match(self, last: Operation, miss: Miss | None = None) -> Match | None:
        """The chain that ends in op `last`, the last op first in the match."""
        return self._match(last, len(self.ops) - 1, miss or Miss(), ())

    def _match(
        self, op: Operation, index: int, miss: Miss, after: tuple[Operation, ...]
    ) -> Match | None:
        """The first ops of the chain up to `op`; those `after` it have matched."""
        spec = self.ops[index]
        attributes: dict[str, Any] = dict(spec.attributes)
        pattern = Op(spec.kind, ..., name=spec.name, where=spec.where, **attributes)
        match = pattern.match(op, reason := Miss())
        if match is None:
            miss.note(op, reason.why, after)
            return None
        if index == 0:
            return match
        for value in op.operands:
            producer = value.owner
            if not isinstance(producer, Operation) or producer.parent is not op.parent:
                continue
            inner = self._match(producer, index - 1, miss, (*after, op))
            if inner is None:
                continue
            users = {use.operation for r in producer.results for use in r.uses}
            if users != {op} and not self.ops[index - 1].shared:
                why = f"the result of {producer.name} is used elsewhere too"
                miss.note(producer, why, (*after, op, producer))
                continue
            return Match((op, *inner.ops), {**inner.bound, **match.bound})
        return None


KernelFn: TypeAlias = Callable[..., Any]


@dataclass(frozen=True)
class FusedOp:
    """What replaces a match: one launch of a kernel of the user's own.

    `kernel` is a function of numpy arrays, one for each input, that returns the result (a tuple
    for several). `inputs` are the values that it takes, by default all operands of the match, in
    order. `work` states multiply-accumulates and the rest (default: the sum over the ops matched).
    With `check`, the kernel is compared with the ops that it replaces, on random inputs: the
    largest difference relative to the largest value may be `check`. Without a kernel the matched
    ops themselves run, as one launch.
    """

    kind: str
    inputs: Sequence[SSAValue] | None = None
    kernel: KernelFn | None = None
    work: Callable[[Body], Work] | None = None
    check: float | None = None

    def build(self, ops: Sequence[Operation], results: Sequence[SSAValue]) -> CustomOp:
        """The op, not inserted yet. Raises GeError when inputs are missing or the check fails."""
        op = CustomOp.wrap(ops, results, kind=StringAttr(self.kind))
        if self.inputs is not None:
            _reorder(op, list(self.inputs))
        if self.kernel is not None:
            kernels.custom_kernel(self.kind, self.kernel)
        if self.work is not None:
            USER_KERNELS.get().work[self.kind] = self.work
        if self.check is not None and self.kernel is not None:
            self_check(op, self.kernel, self.check)
        return op


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


def self_check(op: CustomOp, kernel: KernelFn, tolerance: float) -> None:
    """Compare a kernel with the ops that it replaces, on seeded random inputs. Raises GeError when
    they differ; does nothing while a shape is dynamic."""
    import numpy as np

    if not all(is_static(shape_of(v)) for v in (*op.inputs, *op.outputs)):
        return
    rng = np.random.default_rng(0)
    arrays: list[Array] = []
    for value in op.inputs:
        dtype = dtype_of(element_type(value))
        shape = shape_of(value)
        is_float = dtype.kind not in "iub"
        array = rng.standard_normal(shape) if is_float else rng.integers(0, 2, shape)
        arrays.append(array.astype(dtype))
    values: dict[SSAValue, Any] = dict(zip(op.block.args, arrays, strict=True))
    for member in op.members:
        computed = kernels.evaluate(member, [values[o] for o in member.operands])
        values.update(zip(member.results, computed, strict=True))
    output = kernel(*arrays)
    outputs: Sequence[Any] = cast(Sequence[Any], output) if isinstance(output, tuple) else (output,)
    for actual, expected in zip(outputs, (values[v] for v in op.yielded), strict=True):
        if (shape := np.shape(actual)) != np.shape(expected):
            raise GeError(f"kernel '{op.kind.data}' gives {shape}, not {np.shape(expected)}")
        wide = np.asarray(expected, np.float64)
        error = float(np.max(np.abs(np.asarray(actual, np.float64) - wide), initial=0.0))
        scale = max(float(np.max(np.abs(wide), initial=0.0)), 1e-30)
        if not error <= tolerance * scale:
            raise GeError(
                f"kernel '{op.kind.data}' differs from the ops it replaces by {error / scale:.1e} "
                f"of the largest value, more than {tolerance:.1e}",
                hint="mend the kernel, or raise `check`",
            )


Replace: TypeAlias = Callable[[Match], "FusedOp | SSAValue | None"]


@dataclass(frozen=True)
class Graph:
    """The module during a user's pass."""

    module: ModuleOp
    rule: str

    def operations(self) -> Iterable[TensorOp]:
        """The ops of the program that compute, in order."""
        blocks = blocks_of(self.module)
        return [op for block in blocks for op in block.ops if isinstance(op, TensorOp)]

    def apply_pattern(self, pattern: Pattern, replace: Replace) -> int:
        """Replace each match of the pattern; returns how many. `replace` gets the match and
        returns a FusedOp, a value instead of the chain's result, or None to leave the match as it
        is. `--remarks` shows chains that nearly match."""
        kind = pattern.ops[-1].kind
        return sum(
            self._apply(op, pattern, replace)
            for block in list(blocks_of(self.module))
            for op in list(block.ops)
            if isinstance(op, kind) and op.parent is not None
        )

    def _apply(self, last: Operation, pattern: Pattern, replace: Replace) -> bool:
        match = pattern.match(last, miss := Miss())
        if match is None:
            if miss.depth > 0:
                failed = () if miss.op is None else (miss.op,)
                remarks.missed(self.rule, last, miss.why, loss_us((*miss.ops, *failed)))
            return False
        new = replace(match)
        count(self.rule, applied=new is not None)
        if new is None:
            return False
        if isinstance(new, FusedOp):
            fused = new.build(match.ops[::-1], last.results)
            assert last.parent is not None
            last.parent.insert_op_before(fused, last)
            results: Sequence[SSAValue] = fused.results
        else:
            results = (new,)
        remarks.applied(self.rule, last)
        for old, value in zip(last.results, results, strict=True):
            old.replace_all_uses_with(value)
        for op in match.ops:
            if all(r.first_use is None for r in op.results):
                op.detach()
                op.erase()
        return True
