"""Runs the block of `@main` on samples, op by op with the kernels of the runtime, and shows what
ops compute from what. A value is freed after its last use; what depends on constants only is
computed once; what nothing that is watched depends on is not computed.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.control import Branching, LoopOp, branch_of
from ge.dialects.graph.ports import is_seed
from ge.dialects.support.diagnostics import location_of
from ge.dialects.support.errors import GeError
from ge.runtime.data.arrays import Array
from ge.runtime.data.weights import Payload, payload_at_hand
from ge.runtime.numbers.constants import Constants
from ge.transforms.graph.control_flow import end_of
from ge.transforms.quantization.data import Chunk, Samples
from ge.transforms.quantization.layers import ConstantValues, argument_name

Environment = dict[SSAValue, Array]


@dataclass(frozen=True)
class ObservedOp:
    """What an op of `@main` computed for a chunk of samples."""

    op: Operation
    operands: Sequence[Array]
    results: Sequence[Array]
    chunk: Chunk


Watcher = Callable[[ObservedOp], object]


class Observer:
    """Evaluates the block of a function. Good for one state of its ops: make a new one after
    rewriting them."""

    def __init__(self, main: FuncOp, payload: Payload | None = None) -> None:
        self.main, self.block = main, main.body.block
        self.constants = ConstantValues(self.block)
        self._evaluated = Constants(payload_at_hand() if payload is None else payload)

    def constant(self, value: SSAValue) -> Array:
        """The elements of a value that depends on constants only, read-only. Raises GeError for a
        weight that the payload does not have."""
        return self._evaluated.value(value)

    def run(self, samples: Samples, watchers: Mapping[Operation, Watcher]) -> None:
        """Show each watcher its op, once for each chunk of samples. Raises GeError where an op
        cannot be computed."""
        ops = self._needed(watchers)
        uses = Counter(v for op in ops for v in _read(op))
        for chunk in samples.chunks():
            values: Environment = {
                arg: chunk.inputs[argument_name(arg)]
                for arg in self.block.args
                if argument_name(arg) in chunk.inputs
            }
            values |= {arg: np.array([0, chunk.first]) for arg in self.block.args if is_seed(arg)}
            left = uses.copy()
            for op in ops:
                operands = [self._value(o, values) for o in op.operands]
                results = self._run(op, operands, values)
                if (watch := watchers.get(op)) is not None:
                    watch(ObservedOp(op, operands, results, chunk))
                values.update(zip(op.results, results, strict=True))
                for value in _read(op):
                    left[value] -= 1
                    if not left[value]:
                        values.pop(value, None)
                for result in op.results:
                    if not left[result]:
                        del values[result]

    def _needed(self, watchers: Iterable[Operation]) -> list[Operation]:
        needed, stack = set[Operation](), list(watchers)
        while stack:
            op = stack.pop()
            if op not in needed:
                needed.add(op)
                owners = (v.owner for v in _read(op) if v not in self.constants)
                stack += [o for o in owners if isinstance(o, Operation) and o.parent is self.block]
        return [op for op in self.block.ops if op in needed]

    def _value(self, value: SSAValue, values: Environment) -> Array:
        return values[value] if value in values else self.constant(value)

    def _run(self, op: Operation, operands: Sequence[Array], values: Environment) -> list[Array]:
        if isinstance(op, ConstantOp):
            return [self._evaluated.constant(op)]
        if isinstance(op, Branching):
            return self._branch(op, values)
        if isinstance(op, LoopOp):
            return self._loop(op, values)
        return self._evaluated.compute(op, operands)

    # ---- branches and loops

    def _inside(self, block: Block, values: Environment) -> list[Array]:
        """The values that a block yields; `values` has its arguments and all around it."""
        inner = dict(values)
        for op in block.ops:
            if op is not block.last_op:
                operands = [self._around(o, inner) for o in op.operands]
                inner.update(zip(op.results, self._run(op, operands, inner), strict=True))
        return [self._around(v, inner) for v in end_of(block).operands]

    def _around(self, value: SSAValue, values: Environment) -> Array:
        if value in values or value in self.constants:
            return self._value(value, values)
        op = value.owner  # a constant in a branch or loop
        assert isinstance(op, ConstantOp)
        return self._evaluated.constant(op)

    def _branch(self, op: Branching, values: Environment) -> list[Array]:
        taken = int(self._around(op.operands[0], values).item())
        if (region := branch_of(op, taken)) is None:
            raise GeError(f"there is no branch {taken}", str(location_of(op)))
        return self._inside(region.block, values)

    def _loop(self, op: LoopOp, values: Environment) -> list[Array]:
        def known(value: SSAValue | None) -> Any:
            return None if value is None else self._around(value, values).item()

        limit, holds = known(op.trip_count), known(op.condition)
        going = np.array(holds is None or bool(holds))
        state = [self._around(v, values) for v in op.carried]
        scans: list[list[Array]] = [[] for _ in op.results[len(state) :]]
        for i in count() if limit is None else range(limit):
            if not going.item():
                break
            state = [np.array(i, np.int64), going, *state]
            arguments = dict(zip(op.body.block.args, state, strict=True))
            yielded = self._inside(op.body.block, values | arguments)
            going, state = yielded[0], yielded[1 : len(op.carried) + 1]
            for scan, array in zip(scans, yielded[len(op.carried) + 1 :], strict=True):
                scan.append(array)
        if any(not scan for scan in scans):
            raise GeError("a loop without rounds has no slices", str(location_of(op)))
        return [*state, *(np.stack(scan) for scan in scans)]


def _read(op: Operation) -> list[SSAValue]:
    """The values that an op reads, those in its regions included."""
    if not op.regions:
        return list(op.operands)
    return [v for inner in op.walk() for v in inner.operands]


# ---- figures that do not depend on the order of samples ----------------------------------------


def exact_sum(parts: Iterable[Array]) -> Array:
    """The sum of arrays of one shape in float64, rounded once: the same in any order."""
    stacked = np.stack([np.asarray(p, np.float64) for p in parts])
    columns = stacked.reshape(len(stacked), -1).T
    return np.array([math.fsum(c) for c in columns]).reshape(stacked.shape[1:])
