"""Proof of the plans of on-core memory that kernels state: `core <...>`
(`dialects/npu_task/core_plan.py`).

`check_core_plans(module)` finds out from body and tiling of each kernel, as the text has them,
which buffers there must be, and reports
- an offset that is not aligned, or a buffer that ends beyond its memory;
- buffers in use at one step, or copies of one buffer, that share bytes; but a result may take over
  just the bytes of an operand that the kernel may overwrite and that nothing needs any more;
- a value without a buffer where an op reads or writes it, or whose buffer is not in use then;
- a buffer with fewer bytes than the tile has, and one that is filled or emptied while it is in use
  because it has no second copy in a double-buffered loop;
- a kernel with a tiling but without a plan.

Nothing here is shared with the planner: what broadcast operands a tile needs is counted by index
(`touched`), shares and the tiles of products follow from the tiling. Not proved are the halo of
windows and that rows are whole in their buffers: a kernel may as well pass over rows again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil, prod

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ge.dialects.fused_op import Body
from ge.dialects.graph.attention import AttentionLike, AttentionOp
from ge.dialects.graph.elementwise import Elementwise
from ge.dialects.npu_task.core_plan import CoreBuffer
from ge.dialects.npu_task.ops import Engine, KernelOp
from ge.dialects.support.functions import main_function
from ge.dialects.support.tensor_op import Access, TensorOp
from ge.dialects.support.types import byte_size, numel, shape_of
from ge.dialects.targets.target import Target, target_for
from ge.runtime.check.memory import PlanProblem

ROWS = 16
"""Rows of a product's tile that pass UB at a time."""

ACCUMULATOR = 4
"""Bytes of a sum in L0C, at least."""


@dataclass
class KernelProof:
    """Checks the plan of one kernel."""

    kernel: KernelOp
    target: Target
    problems: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        assert self.kernel.core is not None
        assert self.kernel.tiling is not None
        self.body = Body.of(self.kernel.main)
        self.last_step = len(self.body.ops) + 1
        self.plan = self.kernel.core.buffers
        self.tile = self.kernel.tiling.sizes
        self.double = self.kernel.tiling.buffers.data == 2
        self.ub = {b.name: b for b in self.plan.get("ub", ())}
        self.names = {v: f"in{i}" for i, v in enumerate(self.body.inputs)}
        self.source: dict[SSAValue, SSAValue] = {}
        """View -> what it is of."""
        for i, op in enumerate(self.body.ops):
            for j, r in enumerate(op.results):
                self.names[r] = f"op{i}_{j}" if j else f"op{i}"
                if op.ACCESS is Access.VIEW:
                    self.source[r] = self.root(op.operands[0])
        self.products = [op for op in self.body.ops if len(self.tile) == 3 and self.macs(op)]

    def check(self) -> list[str]:
        """Everything that is wrong."""
        for memory, buffers in self.plan.items():
            self.check_places(memory, buffers)
            self.check_sharing(memory, buffers)
        if len(self.tile) == 3:
            self.check_product()
        self.check_values()
        return self.problems

    def macs(self, op: TensorOp) -> int:
        return self.body.work_of(op).macs

    def root(self, value: SSAValue) -> SSAValue:
        return self.source.get(value, value)

    def buffer(self, value: SSAValue) -> CoreBuffer | None:
        return self.ub.get(self.names[self.root(value)])

    def during(self, buffer: CoreBuffer) -> tuple[int, int]:
        return buffer.steps or (0, self.last_step)

    # ---- places ----

    def check_places(self, memory: str, buffers: Sequence[CoreBuffer]) -> None:
        """Alignment, ends, and steps that there are."""
        limits, align = self.target.core_memories, self.target.core_alignment
        if len({b.name for b in buffers}) != len(buffers):
            self.problems.append(f"{memory} has two buffers of one name")
        for b in buffers:
            first, last = self.during(b)
            if not 0 <= first <= last <= self.last_step:
                self.problems.append(f"{memory} {b.name}: there are no steps {first} to {last}")
            if b.bytes < 1 or not b.offsets:
                self.problems.append(f"{memory} {b.name} has no bytes or no place")
            for offset in b.offsets:
                if offset < 0 or offset % align:
                    self.problems.append(
                        f"{memory} {b.name}: offset {offset} is no multiple of {align}"
                    )
                if offset + b.bytes > limits[memory]:
                    self.problems.append(
                        f"{memory} {b.name} ends at byte {offset + b.bytes} of {limits[memory]}"
                    )

    def check_sharing(self, memory: str, buffers: Sequence[CoreBuffer]) -> None:
        """No two buffers in use at one step share bytes."""
        spans = sorted(
            (offset, offset + b.bytes, i, b)
            for i, b in enumerate(buffers)
            for offset in b.offsets
        )  # fmt: skip
        for at, (low, high, i, one) in enumerate(spans):
            for begin, _, j, other in spans[at + 1 :]:
                if begin >= high:
                    break
                if i == j:
                    self.problems.append(f"{memory}: copies of {one.name} share bytes")
                elif self.meet(one, other) and not (
                    begin == low and (self.taken_over(one, other) or self.taken_over(other, one))
                ):
                    self.problems.append(
                        f"{memory}: {one.name} and {other.name} are in use together and share bytes"
                    )

    def meet(self, one: CoreBuffer, other: CoreBuffer) -> bool:
        (a, b), (c, d) = self.during(one), self.during(other)
        return a <= d and c <= b

    def taken_over(self, result: CoreBuffer, operand: CoreBuffer) -> bool:
        """Whether an op makes `result` out of `operand`, which nothing needs any more, and may
        write it over there."""
        if result.steps is None or operand.steps is None or result.bytes != operand.bytes:
            return False
        step = result.steps[0]
        if operand.steps[1] != step or not 1 <= step < self.last_step:
            return False
        op = self.body.ops[step - 1]
        made = [r for r, v in enumerate(op.results) if self.names[v] == result.name]
        read = [
            i for i, v in enumerate(op.operands) if self.names[self.root(v)] == operand.name
        ]  # fmt: skip
        allowed = set(op.overwrites())
        return bool(made and read) and all((made[0], i) in allowed for i in read)

    # ---- values ----

    def check_values(self) -> None:
        """Each value has a buffer, large enough, where an op needs it there."""
        movable = {*self.body.inputs, *(r for op in self.products for r in op.results)}
        self.loaded = set(self.body.inputs)
        for i, op in enumerate(self.body.ops):
            step, kind = i + 1, op.ACCESS
            if kind is Access.VIEW:
                continue
            if kind in (Access.MOVEMENT, Access.LOOKUP):
                data = op.operands[:1] if kind is Access.LOOKUP else op.operands
                for v in op.operands[len(data) :]:
                    self.require(v, step, f"step {step} looks it up by")
                if all(self.root(v) in movable for v in data):
                    movable.update(op.results)
                    self.loaded.update(op.results)
                    continue
                missing = [v for v in data if self.buffer(v) is None and numel(shape_of(v)) > 1]
                if missing:
                    self.problems.append(
                        f"ub: {self.names[self.root(missing[0])]} is moved, but has no buffer"
                    )
                continue
            if op in self.products:
                for v in op.operands:
                    if self.root(v) not in movable:
                        self.require_source(v, step, f"step {step} reads")
                continue
            for v in op.operands:
                self.require(v, step, f"step {step} reads")
                if len(self.tile) == 1:
                    self.check_touched(op, v)
            for v in op.results:
                self.require(v, step, f"step {step} writes")
        self.check_outputs(movable)
        self.check_sizes()

    def check_outputs(self, movable: set[SSAValue]) -> None:
        """What is stored is in use until the end; a product is stored as it is."""
        made = {r for op in self.products for r in op.results}
        for value in self.body.outputs:
            if self.root(value) not in made:
                require = self.require if value in movable else self.require_source
                require(value, self.last_step, "the last step stores")

    def require_source(self, value: SSAValue, step: int, what: str) -> None:
        """As `require`; a value that is only moved, and has no buffer, leaves from where its
        operands are."""
        op = value.owner
        if isinstance(op, TensorOp) and op.ACCESS is Access.MOVEMENT and not self.buffer(value):
            for v in op.operands:
                self.require(v, step, what)
        else:
            self.require(value, step, what)

    def require(self, value: SSAValue, step: int, what: str) -> None:
        """Report a value that has no buffer in use at a step. Inputs of one element are registers,
        values without elements nothing."""
        root = self.root(value)
        size = numel(shape_of(root))
        if not size or (size == 1 and root in self.loaded):
            return
        buffer, name = self.buffer(value), self.names[root]
        if buffer is None:
            self.problems.append(f"ub: {what} {name}, which has no buffer")
            return
        first, last = self.during(buffer)
        if not first <= step <= last:
            self.problems.append(f"ub: {what} {name}, which is in use from {first} to {last}")

    def check_sizes(self) -> None:
        """Buffers of values hold their share of a tile, twice where that is needed."""
        outputs = {self.root(v) for v in self.body.outputs}
        arriving = {r for op in self.products for r in op.results}
        before = self.before_products()
        for value, name in self.names.items():
            count = numel(shape_of(value))
            if (buffer := self.ub.get(name)) is None or value in self.source or not count:
                continue
            width = byte_size(value.type) // count
            if value in arriving:
                width = max(width, ACCUMULATOR)
            share = 1 if value in before else self.share(value)
            if buffer.bytes < share * width:
                self.problems.append(
                    f"ub: {name} has {buffer.bytes} bytes, its tile {share * width}"
                )
            crosses = value in self.loaded or value in outputs or value in arriving
            stays = value in self.loaded and buffer.bytes >= count * width
            alone = len(buffer.offsets) < 2 or buffer.steps is not None
            if self.double and crosses and alone and not (stays and buffer.steps is None):
                self.problems.append(f"ub: {name} has no second copy in a double-buffered loop")

    def before_products(self) -> set[SSAValue]:
        """What operands of products are computed from: in pieces of any size."""
        found = {v for op in self.products for v in op.operands}
        for op in reversed(self.body.ops):
            if op not in self.products and any(r in found for r in op.results):
                found.update(op.operands)
        return found

    def share(self, value: SSAValue) -> int:
        """Elements of a value that the tiles of the kernel have at least, dealt out equally; of
        what is shorter than a product, one for each column may be all."""
        count = numel(shape_of(value))
        share = ceil(count * self.tile_elements / self.elements)
        return min(share, self.columns) if self.products and count < self.elements else share

    @property
    def tile_elements(self) -> int:
        """Elements of a tile, as far as it is in UB at a time."""
        if len(self.tile) == 1:
            return min(self.tile[0], self.elements)
        return min(min(self.tile[0], ROWS) * self.columns, self.elements)

    @cached_property
    def columns(self) -> int:
        """Columns of the result's tile: of attention those of the values."""
        op = max(self.products, key=self.macs)
        if isinstance(op, AttentionOp):
            return op.sizes("value")[3]
        return self.tile[1]

    @cached_property
    def elements(self) -> int:
        """Elements that tiles cut: of the products, or of the longest value."""
        if self.products:
            return max(1, sum(numel(shape_of(r)) for op in self.products for r in op.results))
        read = self.body.bytes_read()
        inputs = [
            size * numel(shape_of(v)) // max(byte_size(v.type), 1) for v, size in read.items()
        ]
        return max(1, *inputs, *(numel(shape_of(r)) for op in self.body.ops for r in op.results))

    def check_touched(self, op: TensorOp, value: SSAValue) -> None:
        """The buffer of an elementwise op's operand holds what tiles of the result need of it."""
        buffer, count = self.buffer(value), numel(shape_of(value))
        if not isinstance(op, Elementwise) or buffer is None or not count:
            return
        width = byte_size(value.type) // count
        shape = shape_of(op.results[0])
        needed = touched(shape_of(value), shape, self.share(op.results[0]))
        if buffer.bytes < needed * width:
            name = self.names[self.root(value)]
            self.problems.append(
                f"ub: {name} has {buffer.bytes} bytes, a tile of {self.names[op.results[0]]} "
                f"needs {needed * width}"
            )

    # ---- products ----

    def check_product(self) -> None:
        """The tiles of the product, or of attention, are where the cube takes them from."""
        op = max(self.products, key=self.macs)
        for memory, name, size, copies in self.tiles_of(op):
            found = next((b for b in self.plan.get(memory, ()) if b.name == name), None)
            if found is None:
                self.problems.append(f"{memory} has no buffer {name}")
            elif found.bytes < size:
                self.problems.append(f"{memory}: {name} has {found.bytes} bytes, its tile {size}")
            elif len(found.offsets) < copies or found.steps is not None:
                self.problems.append(f"{memory}: {name} is not there {copies} times all the time")

    def tiles_of(self, op: TensorOp) -> Iterator[tuple[str, str, int, int]]:
        """Memory, name, bytes and copies of each buffer that the tiling asks for."""
        m, n, k = self.tile
        width = byte_size(op.operands[0].type) // max(numel(shape_of(op.operands[0])), 1)
        sums, copies = max(width, ACCUMULATOR), 2 if self.double else 1
        yield from (("l0a", "lhs", m * k * width, copies), ("l0b", "rhs", k * n * width, copies))
        if not isinstance(op, AttentionLike):
            yield from (("l1", "lhs", m * k * width, copies), ("l1", "rhs", k * n * width, copies))
            yield "l0c", "sum", m * n * sums, 1
            return
        rows, size = min(m, ROWS), op.sizes("query")[3]
        yield from (("l1", "query", m * size * width, 1), ("l1", "key", n * size * width, copies))
        yield "l0c", "scores", m * n * sums, 1
        yield from (("ub", name, rows * n * sums, copies) for name in ("scores", "weights"))
        yield "ub", "statistics", 2 * m * sums, 1
        masks = [v for v in op.masks if numel(shape_of(v)) > 1]
        if masks:
            each = sum(byte_size(v.type) // numel(shape_of(v)) for v in masks)
            yield "ub", "mask", rows * n * each, copies
        if isinstance(op, AttentionOp):
            size = op.sizes("value")[3]
            yield "l1", "value", n * size * width, copies
            yield "l1", "weights", m * n * width, copies
            yield "l0c", "sum", m * size * sums, 1


def touched(small: Sequence[int], large: Sequence[int], tile: int) -> int:
    """The most elements of a value, which is broadcast to shape `large`, that a tile of so many
    elements of that needs: of the first tile, one in the middle, and the last one that is full."""
    total = prod(large)
    tile = min(tile, total)
    padded = (1,) * (len(large) - len(small)) + tuple(small)
    strides = [0 if d == 1 else prod(padded[i + 1 :]) for i, d in enumerate(padded)]
    most, count = 0, max(total // max(tile, 1), 1)
    for at in {0, count // 2, count - 1}:
        places = np.arange(at * tile, (at + 1) * tile)
        index = np.zeros_like(places)
        for i, stride in enumerate(strides):
            index += stride * (places // prod(large[i + 1 :]) % large[i])
        most = max(most, len(np.unique(index)))
    return most


def check_core_plans(module: ModuleOp) -> list[PlanProblem]:
    """What is wrong with the plans of the kernels of a program; nothing if they are proved."""
    main = main_function(module)
    target = target_for(module if main is None else main)
    problems: list[PlanProblem] = []
    for kernel in module.ops:
        if not isinstance(kernel, KernelOp) or kernel.tiling is None:
            continue
        if kernel.engine.data not in (Engine.CUBE, Engine.VECTOR):
            continue
        name = f"@{kernel.sym_name.data}"
        if kernel.core is None:
            found = ["has a tiling, but no plan of the core's memories"]
        else:
            found = KernelProof(kernel, target).check()
        problems += [PlanProblem("core", f"{name}: {text}", kernel) for text in found]
    return problems
