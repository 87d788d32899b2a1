"""The nodes of a model by which two programs are compared: their order, what each reads, which of
them a value in a program is the result of, and what each adds to the error of what it reads.

An op that came from several nodes (a fused op, a launch, what a rewriting made of two ops) gives
the result of the last of them.

What a node adds is its result in a program beside the one that the peer computes from the same
operands, the program's own. What rounding does is no error: a result is compared with the peer's
as the program would store it, and one step of its type is granted: a code, or a unit in the last
place. And where the peer's own result changes as much when each operand moves by a step, the node
makes much of little (a softmax of large scores) in any program."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from onnx import ModelProto
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, OpResult, SSAValue

from ge.dialects.fused_op import FusedOp
from ge.dialects.npu_task.attributes import data_type
from ge.dialects.npu_task.memory import owner_of
from ge.dialects.npu_task.ops import KernelOp, LaunchOp
from ge.dialects.support.diagnostics import sources_of
from ge.dialects.support.functions import main_function
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import byte_size
from ge.lowering.onnx.model import domain_of, in_order, node_name, reads
from ge.runtime.data.accuracy import Measured, decibels, measured
from ge.runtime.data.arrays import Array, float_limits, integer_limits, kind_of


@dataclass
class Nodes:
    """Names in order, each with its kind of op and the names of the nodes that it reads."""

    ops: dict[str, str] = field(default_factory=dict[str, str])
    reads: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    results: dict[str, list[str]] = field(default_factory=dict[str, list[str]])  # of ONNX nodes

    def __post_init__(self) -> None:
        self.places = {name: number for number, name in enumerate(self.ops)}

    @classmethod
    def of_onnx(cls, model: ModelProto) -> "Nodes":
        """The nodes of the graph itself; of two with one name, and of constants, there is none."""
        counts = Counter(map(node_name, model.graph.node))
        nodes = [n for n in in_order(model.graph.node)
                 if counts[node_name(n)] == 1 and n.op_type != "Constant"]  # fmt: skip
        makers = {value: node_name(n) for n in nodes for value in n.output if value}
        known = cls()
        for node in nodes:
            name = node_name(node)
            known.ops[name] = ".".join(filter(None, (domain_of(node), node.op_type)))
            known.reads[name] = {makers[v] for v in reads(node) if v in makers} - {name}
            known.results[name] = list(node.output)
        known.__post_init__()
        return known

    @classmethod
    def of_module(cls, module: ModuleOp) -> "Nodes":
        """The sources of the ops of @main that a run shows (see `shown`)."""
        ops, known = list(shown(module)), cls()
        for op in ops:
            known.ops |= {name: op.name for name in sources_of(op) if name not in known.ops}
        known.__post_init__()
        makers: dict[SSAValue, str] = {}
        same, origins = passed(module), Origins(module)
        for op in ops:
            operands = op.ins if isinstance(op, LaunchOp) else op.operands
            owners = (owner_of(same.get(o, o)) for o in operands)
            sources = {makers[v] for v in owners if v in makers}
            for value, names in zip(written(op), origins.of(op), strict=True):
                if (name := known.last(names)) is not None:
                    known.ops[name] = op.name
                    known.reads.setdefault(name, set()).update(sources - {name})
                    makers[owner_of(value)] = name
                    makers |= dict.fromkeys(same_results(value), name)
        return known

    def last(self, names: Iterable[str]) -> str | None:
        """Return the last node of some names; None if there is no node of any."""
        known = [name for name in names if name in self.places]
        return max(known, key=self.places.__getitem__, default=None)


def shown(module: ModuleOp) -> Iterator[Operation]:
    """The ops of @main that give values in a run, as `runtime/device/function.py` shows them: not
    those in branches and loops."""
    main = main_function(module)
    yield from () if main is None else _shown(main.body.block)


def _shown(block: Block) -> Iterator[Operation]:
    for op in block.ops:
        if isinstance(op, FusedOp):
            yield from _shown(op.block)
        elif isinstance(op, LaunchOp | TensorOp) and not op.regions and op.operands:
            yield op


def passed(module: ModuleOp) -> dict[SSAValue, SSAValue]:
    """Arguments of the bodies of fused ops, and the values that they stand for."""
    fused = [op for op in module.walk() if isinstance(op, FusedOp)]
    return {a: v for op in fused for a, v in zip(op.block.args, op.inputs, strict=True)}


def same_results(value: SSAValue) -> Iterator[SSAValue]:
    """The results of the fused op around a value that it is handed out as."""
    block = value.owner.parent if isinstance(value.owner, Operation) else None
    fused = None if block is None else block.parent_op()
    if isinstance(fused, FusedOp):
        pairs = zip(fused.results, fused.yielded, strict=True)
        yield from (result for result, inner in pairs if inner is value)


def written(op: Operation) -> Sequence[SSAValue]:
    return op.outs if isinstance(op, LaunchOp) and op.on_buffers else op.results


@dataclass
class Origins:
    """The nodes that each result of an op came from. That of a launch follows from the op in the
    body of its kernel that makes it; a kernel is named after the first of its launches, whose nodes
    correspond one by one to those of the others."""

    module: ModuleOp
    kernels: dict[str, list[list[str]]] = field(default_factory=dict[str, list[list[str]]])
    first: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    def __post_init__(self) -> None:
        for op in self.module.ops:
            if isinstance(op, KernelOp):
                end = op.body.block.last_op
                self.kernels[op.sym_name.data] = [made_by(v) for v in end.operands] if end else []
        for op in shown(self.module):
            if isinstance(op, LaunchOp):
                self.first.setdefault(op.callee, sources_of(op))

    def of(self, op: Operation) -> list[list[str]]:
        """The nodes of each result; none where they are not known."""
        own, count = sources_of(op), len(written(op))
        if not isinstance(op, LaunchOp):
            return [own] * count
        inside, first = self.kernels.get(op.callee, []), self.first.get(op.callee, [])
        if len(inside) != count or len(first) != len(own):
            return [[] for _ in range(count)]
        twin = dict(zip(first, own, strict=True))
        return [[twin[n] for n in names if n in twin] for names in inside]


def made_by(value: SSAValue) -> list[str]:
    """The nodes of the op that makes a value, within fused ops."""
    while isinstance(value, OpResult) and isinstance(value.op, FusedOp):
        value = value.op.yielded[value.index]
    return sources_of(value.owner) if isinstance(value.owner, Operation) else []


def leaves(op: Operation, value: SSAValue, name: str, nodes: Nodes) -> bool:
    """Return whether a value of an op is read by ops of other nodes, or by none: not a step within
    its own node."""
    uses = [u.operation for u in value.uses if u.operation is not op]
    return not uses or any(nodes.last(sources_of(user)) != name for user in uses)


def result_bytes(op: Operation) -> int:
    """Bytes that an op writes, as far as sizes are known."""
    known = (v.type for v in written(op) if min(data_type(v.type)[1], default=0) >= 0)
    return sum(byte_size(t) for t in known)


Place: TypeAlias = tuple[str, int]  # a node, and the number of its result

Values: TypeAlias = Mapping[str, Sequence[Array]]

Given: TypeAlias = Mapping[Place, Array]

Move: TypeAlias = Callable[[Array], Array]  # by a step

Run: TypeAlias = Callable[[Given, Move | None, Collection[str] | None], Values]

TRIALS = 4  # of moving all operands

SLACK = 1 + 1e-4  # of a step, which is itself computed in floats


@dataclass(frozen=True, slots=True)
class Code:
    """The meaning of integers of a type: (code - zero) * scale."""

    scale: float
    zero: int
    dtype: np.dtype[Any]

    def decoded(self, codes: Array) -> Array:
        return (codes.astype(np.float32) - np.float32(self.zero)) * np.float32(self.scale)

    def clipped(self, numbers: Array) -> Array:
        """Return numbers limited to those that have codes."""
        limits = integer_limits(self.dtype)
        least, most = ((int(c) - self.zero) * self.scale for c in (limits.min, limits.max))
        return np.clip(numbers, least, most)


@dataclass
class Held:
    """A result as a program holds it: `array` in the dtype and shape of the peer's, before channels
    are multiplied by `factors`, `dtype` that of the program, `code` where it is in codes. `share`:
    a unit in the last place of the narrowest floats that the program computes in, which may have
    rounded it before it was widened."""

    array: Array
    dtype: np.dtype[Any]
    share: float
    code: Code | None = None
    factors: Array | None = None

    @cached_property
    def numbers(self) -> Array:
        """Return the numbers to compare with the peer's."""
        return self.array if self.factors is None else self.array * self.factors

    def within(self, want: Array) -> Array:
        """A result of the peer, within what the program's type can hold."""
        if kind_of(want.dtype) != "f":
            return want
        plain = want if self.factors is None else want / self.factors
        if self.code is not None:
            return self.code.clipped(plain)
        with np.errstate(all="ignore"):
            rounded = plain.astype(self.dtype).astype(want.dtype)
        return np.where(np.isfinite(rounded), plain, rounded)

    def step(self, array: Array) -> Array:
        """One step of the program's type at each element: a code, or a unit in the last place."""
        if self.code is not None:
            return np.full_like(array, self.code.scale)
        limits = float_limits(self.dtype)
        share = max(float(limits.eps), self.share)
        step = np.ldexp(array.dtype.type(share), np.frexp(array)[1] - 1)
        return np.where(
            array == 0, 0, np.maximum(step, array.dtype.type(limits.smallest_subnormal))
        )

    def moved(self, steps: "InputSteps") -> Array:
        """`numbers`, each moved by a step, up or down."""
        if kind_of(self.array.dtype) != "f":
            return self.array
        array = steps.by(self.array, self.step(self.array))
        return array if self.factors is None else array * self.factors

    def beyond(self, want: Array, signal: Array) -> Measured:
        """Return how far the result is from what it should be, beyond what rounding does to it:
        `signal` is what of it counts. Rounding moves an element by less than a step, and all of
        them by the power of an even distribution over a step, within six sigma of that."""
        step = self.step(np.maximum(np.abs(self.array), np.abs(want)))
        noise = np.where(self.array == want, 0, self.array - want)
        far = np.where(np.abs(noise) <= SLACK * step, 0, noise - np.copysign(step, noise))
        most = measured(signal, signal + far)
        if most.strange:
            return most
        rounding = _power(step) / 12 * (1 + 6 * math.sqrt(0.8 / want.size))
        return replace(most, snr=decibels(_power(signal), max(_power(noise) - rounding, 0.0)))


@dataclass
class InputSteps:
    """Those of inputs and weights: a `share` of each element or, where they are codes, of the
    largest magnitude."""

    share: float
    of_codes: bool
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def by(self, array: Array, step: Array) -> Array:
        signs = self.rng.integers(0, 2, array.shape, np.int8) * 2 - 1
        with np.errstate(all="ignore"):
            moved = array + (signs * step).astype(array.dtype)
        return np.where(np.isfinite(moved), moved, array)

    def moved(self, array: Array) -> Array:
        """An array of floats, each moved by a step, up or down."""
        if kind_of(array.dtype) != "f" or not array.size:
            return array
        step = self.share * np.abs(array)
        return self.by(array, step.max() if self.of_codes else step)


@dataclass
class Doubt:
    """A result that is beyond the tolerance alone, and those that it is computed from. `moves`: how
    far the peer's own goes; `is_explained`: whether that is as far."""

    at: Place
    held: Held
    kept: Sequence[Place]
    reads: Sequence[Place]
    alone: Measured
    moves: Array = field(default_factory=lambda: np.zeros(()))
    is_explained: bool = False


@dataclass
class PeerTrial:
    """The peer's results where its nodes read `given` instead of their operands."""

    given: Mapping[Place, Held]
    run: Run

    def __post_init__(self) -> None:
        self.want = self.run({at: held.numbers for at, held in self.given.items()}, None, None)

    def added(self, at: Place, held: Held, kept: Iterable[Place]) -> Measured:
        """Return how far a result is from what the peer computes of the same operands, beyond a
        step. `kept`: operands that a sum hands on unchanged; what it adds to them counts."""
        want = held.within(self.want[at[0]][at[1]])
        if kind_of(want.dtype) != "f":
            return measured(want, held.array)
        with np.errstate(all="ignore"):
            return held.beyond(want, self._least(want, kept)[0])

    def explain(self, doubts: Sequence[Doubt], steps: InputSteps) -> None:
        """See how far the peer's own results go, or what they add, where each operand moves by a
        step: of each element the furthest of some trials."""
        for _ in range(TRIALS):
            left = [doubt for doubt in doubts if not doubt.is_explained]
            if not left:
                return
            read = dict.fromkeys(place for doubt in left for place in doubt.reads)
            moved = {at: self.given[at].moved(steps) for at in read}
            changed = self.run(moved, steps.moved, {doubt.at[0] for doubt in left})
            for doubt in left:
                self._add(doubt, moved, changed)

    def _add(self, doubt: Doubt, moved: Given, changed: Values) -> None:
        name, i = doubt.at
        want, other = (doubt.held.within(values[name][i]) for values in (self.want, changed))
        with np.errstate(all="ignore"):
            signal, operand = self._least(want, doubt.kept)
            by = other.astype(np.float64) - want
            if operand is not None:
                by -= moved[operand] - self.given[operand].numbers
            doubt.moves = np.fmax(doubt.moves, np.abs(by))
            power = decibels(_power(signal), _power(doubt.moves))
        doubt.is_explained = not doubt.alone.strange and power <= doubt.alone.snr

    def _least(self, want: Array, kept: Iterable[Place]) -> tuple[Array, Place | None]:
        """A result, or the rest of it without one of the operands kept, whichever is least."""
        found: tuple[Array, Place | None] = want, None
        for place in kept:
            operand = self.given[place].array
            if operand.shape == want.shape and _power(left := want - operand) < _power(found[0]):
                found = left, place
        return found


def _power(array: Array) -> float:
    return float(np.square(array, dtype=np.float64).sum())
