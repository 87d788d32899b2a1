"""Proof of the plans of on-core memory that kernels state: `core <...>`
(`dialects/npu_task/core_plan.py`), from body, tiling and target of each kernel. It reports

- an engine that cannot run the ops (`core_engines.py`);
- a kernel of known shapes on the cube or the vector cores without a tiling or a plan, more blocks
  than cores or tiles, tiles that are not whole fractals, blocks that cut an op which needs all
  elements at once;
- a memory or a buffer stated twice, buffers of no value, offsets, ends and steps out of bounds;
- buffers in use at one step, or copies of one buffer, that share bytes; but a result may take over
  just the bytes of an operand that the kernel may overwrite and that is dead then;
- a value without a buffer in use when it is loaded, read, written or stored;
- a buffer with fewer bytes than the tile needs (`core_needs.py`), or without a second copy where it
  is filled or emptied while it is in use.

Nothing here is shared with the planner. Both take for granted what the ops state of themselves
(`ACCESS`, `FIXPIPE`, `rows`, `window`, `work`, `bytes_read`, `in_place_pairs`,
`Body.whole_parts`) and the constants of `core_plan.py`. Assumed besides: what `core_needs.py`
lists. Kernels of unknown shapes have no plan, and those with a tile program need none: that is
proved as it is (`tiles.py`); of their tilings, from which times are estimated, blocks are checked.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil, prod

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ge.dialects.fused_op import Body
from ge.dialects.graph.attention import AttentionLike, AttentionOp
from ge.dialects.npu_task.attributes import Engine
from ge.dialects.npu_task.core_plan import (
    ACCUMULATOR_BYTES,
    FRACTAL,
    PASSING_ROWS,
    PROLOGUE_ELEMENTS,
    CoreBuffer,
)
from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.support.access import Access
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.functions import main_function
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import element_type, numel, shape_of
from ge.dialects.targets.target import Target, target_for
from ge.runtime.check.core_bytes import shared_bytes
from ge.runtime.check.core_engines import engine_problem
from ge.runtime.check.core_fixpipe import through_fixpipe
from ge.runtime.check.core_needs import Columns, Needs
from ge.runtime.check.core_products import column_axis, extents, groups_of, tiles_of
from ge.runtime.check.problems import Problem


@dataclass
class KernelProof:
    """Checks engine, tiling and plan of one kernel of known shapes on the cube or vector cores."""

    kernel: KernelOp
    target: Target
    problems: list[str] = field(default_factory=list[str])
    # Ops whose rows or windows pass in parts
    streamed: dict[TensorOp, None] = field(default_factory=dict[TensorOp, None])

    def __post_init__(self) -> None:
        assert self.kernel.tiling is not None
        self.body = Body.of(self.kernel.main)
        self.last_step = len(self.body.ops) + 1
        self.plan = {} if self.kernel.core is None else self.kernel.core.buffers
        self.tile = self.kernel.tiling.sizes
        self.double = self.kernel.tiling.buffers.data == 2
        self.ub = {b.name: b for b in self.plan.get("ub", ())}
        self.names = {v: f"in{i}" for i, v in enumerate(self.body.inputs)}
        self.source: dict[SSAValue, SSAValue] = {}  # view -> what it is of
        for i, op in enumerate(self.body.ops):
            for j, r in enumerate(op.results):
                self.names[r] = f"op{i}_{j}" if j else f"op{i}"
                if op.ACCESS is Access.VIEW:
                    self.source[r] = self.root(op.operands[0])
        self.matmuls = [op for op in self.body.ops if len(self.tile) == 3 and self.macs(op)]
        self.sums = {r for op in self.matmuls for r in op.results}
        self.fixpipe: set[TensorOp] = set()
        if self.target.fixpipe:
            self.fixpipe.update(o for op in self.matmuls for o in through_fixpipe(self.body, op))
        # From L0C, some through a fixpipe
        self.arriving = self.sums | {r for op in self.fixpipe for r in op.results}
        self.loaded = set(self.body.inputs)  # inputs, and what is only moved on the way in

    def check(self) -> list[str]:
        self.check_blocks()
        if self.kernel.core is None:
            return self.problems
        stated = [memory for memory, _ in self.kernel.core.data]
        self.problems += [f"{m} is stated twice" for m in self.plan if stated.count(m) > 1]
        for memory, buffers in self.plan.items():
            self.check_places(memory, buffers)
            self.check_sharing(memory, buffers)
        if self.matmuls:
            self.check_product()
        self.check_values()
        self.check_sizes()
        return self.problems

    def report(self, text: str) -> None:
        self.problems.append(text)

    def macs(self, op: TensorOp) -> int:
        return self.body.work_of(op).macs

    def root(self, value: SSAValue) -> SSAValue:
        return self.source.get(value, value)

    def buffer(self, value: SSAValue) -> CoreBuffer | None:
        return self.ub.get(self.names[self.root(value)])

    def during(self, buffer: CoreBuffer) -> tuple[int, int]:
        return buffer.steps or (0, self.last_step)

    # ---- tiles and blocks ----

    def check_blocks(self) -> None:
        assert self.kernel.tiling is not None
        blocks, engine = self.kernel.tiling.blocks.data, self.kernel.engine.data
        cores = self.target.cube_cores if engine is Engine.CUBE else self.target.vector_cores
        if blocks > cores:
            self.report(
                f"{blocks} blocks are more than the {cores} {engine} cores of {self.target.name}"
            )
        if self.matmuls:
            if any(size % FRACTAL for size in self.tile):
                self.report(f"tile sizes are multiples of {FRACTAL}")
            count, rows, columns = self.matrices
            m, n = self.tile[:2]
            tiles = count * ceil(rows / m)
            tiles *= 1 if isinstance(self.main, AttentionLike) else ceil(columns / n)
        else:
            tiles = ceil(self.elements / self.tile[0])
        if blocks > tiles:
            self.report(f"{blocks} blocks are more than the {tiles} tiles")
        self.check_whole(blocks)
        if blocks > 1:
            for value in shared_bytes(self.body, self.tile[0], self.elements, self.matmuls):
                self.report(f"blocks share bytes of {self.names[value]}, which is packed")

    def check_whole(self, blocks: int) -> None:
        """Blocks do not see each other's elements: an op that may need any is not cut but along
        the axes that it says it comes apart along."""
        parts = None if self.matmuls else self.body.whole_parts()
        if parts is None:
            return
        name, size = self.kernel.main.name, self.tile[0]
        if blocks > parts:
            self.report(
                f"{name} may need any element of its operands: it comes apart in {parts} blocks "
                f"at most, not {blocks}"
            )
        each = self.elements // parts
        if size < each:
            self.streamed[self.kernel.main] = None
        elif size % each and size < self.elements:
            self.report(f"a tile of {size} elements cuts the {each} of a part of {name}")

    @cached_property
    def main(self) -> TensorOp:
        return max(self.matmuls, key=self.macs)

    @cached_property
    def matrices(self) -> tuple[int, int, int]:
        """How many matmuls there are, and rows and columns of each: those of one size stand side by
        side, others in a row."""
        sizes = [extents(op) for op in self.matmuls]
        count, rows, columns = extents(self.main)
        depths = {self.macs(op) // max(prod(extents(op)), 1) for op in self.matmuls}
        if len(depths) == 1 and all(s[:2] == (count, rows) for s in sizes):
            return count, rows, sum(s[2] for s in sizes)
        macs = sum(map(self.macs, self.matmuls))
        return ceil(macs / max(self.macs(self.main) // count, 1)), rows, columns

    @cached_property
    def elements(self) -> int:
        """Elements of the longest value, of an input as many as are read."""
        read = self.body.bytes_read()
        inputs = (8 * size // bitwidth(element_type(v)) for v, size in read.items())
        return max(1, *inputs, *(numel(shape_of(r)) for op in self.body.ops for r in op.results))

    # ---- places ----

    def check_places(self, memory: str, buffers: Sequence[CoreBuffer]) -> None:
        limits, align = self.target.core_memories, self.target.core_alignment
        names = [b.name for b in buffers]
        if len(set(names)) != len(names):
            self.report(f"{memory} has two buffers of one name")
        known = self.known_names(memory)
        self.problems += [
            f"{memory} {n} is no value of the kernel" for n in names if n not in known
        ]
        for b in buffers:
            first, last = self.during(b)
            if not 0 <= first <= last <= self.last_step:
                self.report(f"{memory} {b.name}: there are no steps {first} to {last}")
            if b.bytes < 1 or not b.offsets:
                self.report(f"{memory} {b.name} has no bytes or no place")
            for offset in b.offsets:
                if offset < 0 or offset % align:
                    self.report(f"{memory} {b.name}: offset {offset} is no multiple of {align}")
                if offset + b.bytes > limits[memory]:
                    self.report(
                        f"{memory} {b.name} ends at byte {offset + b.bytes} of {limits[memory]}"
                    )

    def known_names(self, memory: str) -> set[str]:
        own = {name for at, name, _, _ in self.own_tiles if at == memory}
        return own | set(self.names.values()) if memory == "ub" else own

    def check_sharing(self, memory: str, buffers: Sequence[CoreBuffer]) -> None:
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
                    self.report(f"{memory}: copies of {one.name} share bytes")
                elif self.meet(one, other) and not (
                    begin == low and (self.takes_over(one, other) or self.takes_over(other, one))
                ):
                    self.report(
                        f"{memory}: {one.name} and {other.name} are in use together and share bytes"
                    )

    def meet(self, one: CoreBuffer, other: CoreBuffer) -> bool:
        (a, b), (c, d) = self.during(one), self.during(other)
        return a <= d and c <= b

    def takes_over(self, result: CoreBuffer, operand: CoreBuffer) -> bool:
        """Whether an op makes `result` out of `operand`, which nothing needs any more, and may
        write it over there."""
        if result.steps is None or operand.steps is None or result.bytes != operand.bytes:
            return False
        step = result.steps[0]
        if operand.steps[1] != step or not 1 <= step < self.last_step:
            return False
        op = self.body.ops[step - 1]
        results = [r for r, v in enumerate(op.results) if self.names[v] == result.name]
        reads = [i for i, v in enumerate(op.operands) if self.names[self.root(v)] == operand.name]
        allowed = set(op.in_place_pairs())
        return bool(results and reads) and all((results[0], i) in allowed for i in reads)

    # ---- values ----

    def check_values(self) -> None:
        movable = {*self.body.inputs, *self.arriving}
        self.looked_up: set[SSAValue] = set()
        for step, op in enumerate(self.body.ops, 1):
            kind = op.ACCESS
            if kind is Access.VIEW:
                continue
            if kind in (Access.MOVEMENT, Access.LOOKUP):
                data = op.operands[:1] if kind is Access.LOOKUP else op.operands
                for v in op.operands[len(data) :]:
                    self.require(v, step, f"step {step} looks it up by")
                if all(self.root(v) in movable for v in data):
                    movable.update(op.results)
                    self.loaded.update(op.results)
                    if kind is Access.LOOKUP:
                        self.looked_up.update(op.results)
                        for r in filter(self.buffer, op.results):
                            self.require(r, step, f"step {step} loads")
                elif any(self.buffer(r) for r in op.results):
                    for v in (*data, *op.results):
                        self.require(v, step, f"step {step} moves")
                continue
            if op in self.matmuls:
                for v in op.operands:
                    if self.root(v) not in movable:
                        self.require_source(v, step, f"step {step} reads")
                continue
            if op in self.fixpipe:
                continue
            for v in op.operands:
                self.require(v, step, f"step {step} reads")
            for v in op.results:
                self.require(v, step, f"step {step} writes")
        self.check_ends(movable)

    def check_ends(self, movable: set[SSAValue]) -> None:
        """What is loaded is in use from step 0; what is stored until the end, but a matmul is
        stored as it is."""
        for value in self.loaded - self.looked_up - self.source.keys():
            if self.buffer(value) is not None and not numel(shape_of(value)) == 1:
                self.require(value, 0, "the first step loads")
        for value in self.body.outputs:
            if self.root(value) not in self.arriving:
                require = self.require if value in movable else self.require_source
                require(value, self.last_step, "the last step stores")

    def require_source(self, value: SSAValue, step: int, what: str) -> None:
        """As `require`; a value that is only moved, and has no buffer, leaves from where its
        operands are."""
        op = value.owner
        if isinstance(op, TensorOp) and op.ACCESS is Access.MOVEMENT and not self.buffer(value):
            for v in op.operands:
                self.require_source(v, step, what)
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
            self.report(f"ub: {what} {name}, which has no buffer")
            return
        first, last = self.during(buffer)
        if not first <= step <= last:
            self.report(f"ub: {what} {name}, which is in use from {first} to {last}")

    # ---- sizes ----

    def check_sizes(self) -> None:
        """Buffers of values hold what a tile needs, twice where they are filled or emptied while
        the other one is in use."""
        outputs = {self.root(v) for v in self.body.outputs}
        for value, (count, user) in self.needed().items():
            name, size = self.names[value], numel(shape_of(value))
            if (buffer := self.ub.get(name)) is None or not size:
                continue
            bits = bitwidth(element_type(value))
            if value in self.sums:
                bits = max(bits, 8 * ACCUMULATOR_BYTES)
            if 8 * buffer.bytes < count * bits:
                least = -(-count * bits // 8)
                self.report(f"ub: {name} has {buffer.bytes} bytes, {user} needs {least} of it")
            crosses = value in self.loaded or value in outputs or value in self.arriving
            stays = value in self.loaded and 8 * buffer.bytes >= size * bits
            single = len(buffer.offsets) < 2 or buffer.steps is not None
            if self.double and crosses and single and not (stays and buffer.steps is None):
                self.report(f"ub: {name} has no second copy in a double-buffered loop")

    def needed(self) -> dict[SSAValue, tuple[int, str]]:
        """The least elements of each value, and what needs them."""
        needs: dict[SSAValue, tuple[int, str]] = {}
        for part, what in self.parts():
            self.streamed |= part.streamed
            for value, count in part.counts.items():
                if needs.get(root := self.root(value), (-1,))[0] < count:
                    needs[root] = count, what
        return needs

    def parts(self) -> Iterator[tuple[Needs, str]]:
        """What passes UB by tiles: all of a vector kernel; prologue and epilogue of a matmul."""
        if not self.matmuls:
            tile = min(self.tile[0], self.elements)
            yield Needs(self.body.ops, self.elements, tile), f"a tile of {tile} elements"
            return
        before = self.prologue
        if results := [numel(shape_of(r)) for op in before for r in op.results]:
            longest = max(1, *results)
            tile = min(PROLOGUE_ELEMENTS, longest)
            yield Needs(before, longest, tile), f"{tile} elements before the matmul"
        beyond = {*before, *self.matmuls, *self.fixpipe}
        if after := [op for op in self.body.ops if op not in beyond]:
            elements = max(1, sum(numel(shape_of(r)) for r in self.sums))
            rows = min(self.tile[0], PASSING_ROWS, self.matrices[1])
            tile = min(rows * self.columns, elements)
            columns = [self.tile_of(op, rows) for op in self.matmuls]
            yield Needs(after, elements, tile, columns), f"{rows} rows of {self.columns} columns"

    def tile_of(self, op: TensorOp, rows: int) -> Columns:
        shape, axis = shape_of(op.results[0]), column_axis(op)
        own, total = extents(op)[2], self.matrices[2]
        if isinstance(op, AttentionLike):
            columns, places = shape[-1], 0 if op.tokens_first("result") else rows
        else:
            columns = min(own, ceil(self.tile[1] * own / max(own, total)))
            places = rows if groups_of(op) == 1 else 0
        return Columns(shape, axis, columns, min(places, numel(shape)))

    @cached_property
    def prologue(self) -> list[TensorOp]:
        sources = {v for op in self.matmuls for v in op.operands}
        ops: list[TensorOp] = []
        for op in reversed(self.body.ops):
            if op not in self.matmuls and any(r in sources for r in op.results):
                sources.update(op.operands)
                ops.append(op)
        return ops[::-1]

    @cached_property
    def columns(self) -> int:
        """Columns of the result's tile: of attention those of the values."""
        if isinstance(self.main, AttentionOp):
            return self.main.sizes("value")[3]
        return min(self.tile[1], self.matrices[2])

    # ---- matmuls ----

    def check_product(self) -> None:
        """The tiles of the matmul, or of attention, are where the cube takes them from, and as
        wide as rows that are worked on."""
        for memory, name, size, copies in self.own_tiles:
            buffer = next((b for b in self.plan.get(memory, ()) if b.name == name), None)
            if buffer is None:
                self.report(f"{memory} has no buffer {name}")
            elif buffer.bytes < size:
                self.report(f"{memory}: {name} has {buffer.bytes} bytes, its tile {size}")
            elif len(buffer.offsets) < copies or buffer.steps is not None:
                self.report(f"{memory}: {name} is not there {copies} times all the time")
        op, (keys, tile) = self.main, (self.matrices[2], self.tile[1])
        if isinstance(op, AttentionOp) and op.grid("weight") is not None and tile < keys:
            self.report(f"weights of {keys} keys have a grid, a tile has scores of {tile}")
        for op in self.body.ops:
            if (
                op.ACCESS is Access.ROWS
                and op not in self.prologue
                and self.columns < self.matrices[2]
            ):
                self.report(
                    f"{op.name} needs rows of {self.matrices[2]}, a tile has {self.columns} columns"
                )

    @cached_property
    def own_tiles(self) -> list[tuple[str, str, int, int]]:
        """Memory, name, bytes and copies of each buffer that the tiling asks for."""
        copies = 2 if self.double else 1
        return list(tiles_of(self.main, self.tile, copies)) if self.matmuls else []


# ---- all kernels -------------------------------------------------------------------------------


@dataclass
class CoreProof:
    problems: list[Problem] = field(default_factory=list[Problem])
    plans: int = 0
    programs: int = 0  # kernels with a tile program in place of a plan
    dynamic: int = 0  # kernels on cores whose shapes are not known: they have no plan
    streamed: int = 0  # those that pass rows or windows in parts: that these suffice is assumed

    @property
    def summary(self) -> str:
        text = f"on-core plans of {self.plans} kernels"
        if self.streamed:
            text += f" ({self.streamed} of them pass rows or windows in parts)"
        if self.programs:
            text += f", tile programs in place of {self.programs}"
        return text + (f", none for {self.dynamic} of unknown shapes" if self.dynamic else "")

    def check(self, kernel: KernelOp, target: Target) -> Iterator[str]:
        if (wrong := engine_problem(kernel)) is not None:
            yield wrong
            return
        on_core = kernel.engine.data in (Engine.CUBE, Engine.VECTOR)
        tiling = kernel.tiling
        if not on_core or not Body.of(kernel.main).is_static:
            self.dynamic += on_core
            if tiling is not None or kernel.core is not None:
                yield (
                    "has tiles, but runs on no core"
                    if not on_core
                    else ("has tiles, but shapes that are not known")
                )
        elif tiling is None:
            yield f"runs on the {kernel.engine.data} cores, but has no tiling"
        elif kernel.core is None and kernel.tiles is None:
            yield "has a tiling, but no plan of the core's memories"
        elif len(tiling.sizes) != (3 if kernel.engine.data is Engine.CUBE else 1):
            yield f"a tile of {len(tiling.sizes)} sizes is not for the {kernel.engine.data}"
        else:
            proof = KernelProof(kernel, target)
            yield from proof.check()
            if kernel.core is None:
                self.programs += 1
            else:
                self.plans += 1
                self.streamed += bool(proof.streamed)


def prove_core_plans(module: ModuleOp, target: Target | None = None) -> CoreProof:
    """What the plans of the kernels of a program come to. Without a target, it is the one that the
    program names. Raises GeError when that cannot be read."""
    main = main_function(module)
    machine = target or target_for(module if main is None else main)
    proof = CoreProof()
    for kernel in module.ops:
        if isinstance(kernel, KernelOp):
            name = f"@{kernel.sym_name.data}"
            proof.problems += [
                Problem("core", f"{name}: {text}", kernel) for text in proof.check(kernel, machine)
            ]
    return proof


def check_core_plans(module: ModuleOp, target: Target | None = None) -> list[Problem]:
    return prove_core_plans(module, target).problems
