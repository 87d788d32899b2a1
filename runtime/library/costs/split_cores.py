"""Matmuls where cube and vector cores are apart (`split_cores`): what passes between them goes
through memory (L2), and the cube's pipes have rates and starts of their own.

- L1 has longer steps of k than L0A and L0B: as many of theirs as fit twice.
- Each step of L0 starts a matmul and two moves from L1; L0C has one sum, so that the fixpipe takes
  it before the next tile begins.
- Rows of operands in memory whose stride is no multiple of 512 bytes are loaded slower.
- Windows of convolutions are unfolded from a layout with 32 bytes of channels innermost (NC1HWC0),
  padded where there are fewer. Tensors in memory do not have it: kernels of their own change it
  before and behind, as a transposition of blocks.

Attention: heads that share keys are rows of one tile. A step of it (a block of keys) is a chain
of pipes: scores on the cube, to L2, weights on the vector cores, to L2, times values on the cube,
to L2, sums on the vector cores, with a flag between two cores each time. Two blocks are begun
before one ends, also of the next tile: a step takes as long as the busiest pipe, or a third of the
chain. With `causal`, steps whose keys no query sees are left out.

Limits: k is not split among cores; a block of keys has one order of stages; that loads from rows
64 KiB and more apart are far slower, and that blocks of a launch differ, is not modelled. What
pipes wait for in fact only a simulation of their instructions can tell.
"""

from dataclasses import dataclass, replace
from math import ceil

from xdsl.ir import Attribute

from ge.dialects.fused_op import Body
from ge.dialects.graph.attention import AttentionLike
from ge.dialects.graph.convolution import Convolution, ConvOp
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import Shape, element_type, numel, shape_of
from ge.dialects.targets.target import Target
from ge.dialects.tile.types import FRACTAL
from ge.runtime.library.costs.around import fixpipe_ops
from ge.runtime.library.costs.core_tiles import PASSING_ROWS, STATISTICS, bytes_of
from ge.runtime.library.costs.cube import (
    AttentionKernel,
    CubeKernel,
    Matrices,
    matmuls,
    power_above,
    round_up,
)
from ge.runtime.library.costs.instructions import REPEAT_BYTES
from ge.runtime.library.costs.pipes import Pipes

# Share of the full rate at which rows are loaded, whose stride is a multiple of so many bytes
# (catlass, which has elements of 16 bits and counts them; that bytes are what matters for others is
# an assumption, as the memory's blocks of 512 bytes are the cause).
STRIDES = ((512, 1.0), (256, 0.8), (128, 0.5), (32, 0.4), (1, 0.3))
MOST_STRIDE = 65535  # elements from one row of an operand of the cube to the next: official
LANES = REPEAT_BYTES // 4  # scores have 32 bits
LONGEST_ROWS = 128  # of a tile of attention, about
IN_FLIGHT = 3  # blocks of keys at a time: two ahead, as kernels written by hand have it
INNERMOST_BYTES = 32  # of channels, in the layout of convolutions


def stride_share(op: TensorOp, index: int) -> float:
    """Share of the full rate at which the rows of a matmul's operand are loaded."""
    shape = shape_of(op.operands[index])
    if isinstance(op, Convolution) or not shape or numel(shape) == shape[-1]:
        return 1.0
    return share_of(shape[-1], element_type(op.operands[index]))


def share_of(stride: int, element: Attribute) -> float:
    size = stride * bitwidth(element) // 8
    return next(share for unit, share in STRIDES if size % unit == 0)


def unfold_rate(op: TensorOp, target: Target) -> float:
    """Bytes a cycle from L1 to L0A."""
    if not isinstance(op, ConvOp):
        return target.l1_to_l0a_rate
    window = op.window()
    return window_rate(window.kernel, window.strides, window.dilations, target)


def window_rate(kernel: Shape, strides: Shape, dilations: Shape, target: Target) -> float:
    """Bytes a cycle of windows from L1 to L0A (official): less where they have several rows, or
    strides; an eighth where they are dilated."""
    rows = kernel[-2] if len(kernel) > 1 else 1
    if max(kernel[-2:]) == 1:
        return target.l1_to_l0a_rate
    if any(k > 1 and d > 1 for k, d in zip(kernel, dilations, strict=True)):
        return target.l1_to_l0a_rate / 8
    slower = 2 * max(strides[-2:]) + (rows if rows > 1 else 0)
    return 2 * target.l1_to_l0a_rate / slower


@dataclass(frozen=True)
class SplitCubeKernel(CubeKernel):
    """Matmuls beside which vector cores work on their own."""

    lhs_share: float = 1.0  # of the rate of loading, by the strides of rows
    rhs_share: float = 1.0
    unfold: float = 1.0  # bytes a cycle into L0A
    leaves: float = 0.0  # bytes of an element that leaves L0C
    padding: float = 1.0  # of k, by channels that there are not
    layouts: tuple[int, ...] = ()  # bytes of each tensor whose layout changes

    @classmethod
    def of(cls, body: Body, target: Target) -> "SplitCubeKernel":
        (op, _), *_ = parts = matmuls(body)
        taken = list(fixpipe_ops(body, [op for op, _ in parts]) if target.fixpipe else ())
        unfold = unfold_rate(op, target)
        channels = shape_of(op.operands[1])[1] if isinstance(op, ConvOp) else 1
        innermost = INNERMOST_BYTES // max(int(bytes_of(op.operands[0])), 1)
        tensors = (op.operands[0], op.results[0]) if unfold != target.l1_to_l0a_rate else ()
        kernel = super().of(body, target)
        assert isinstance(kernel, SplitCubeKernel)
        return replace(
            kernel,
            lhs_share=stride_share(op, 0),
            rhs_share=stride_share(op, 1),
            unfold=unfold,
            leaves=bytes_of((taken[-1] if taken else op).results[0]),
            padding=round_up(channels, innermost) / channels if tensors else 1.0,
            layouts=tuple(int(numel(shape_of(v)) * bytes_of(v)) for v in tensors),
        )

    def l1_step(self, m: int, n: int, k: int, buffers: int = 2) -> int:
        """The step of k in L1: several steps of L0, and not all of k at once, so that the cube
        begins before the last operands come."""
        return min(max(self.l1_most(m, n, buffers) // k, 1) * k, round_up(ceil(self.p.k / 2), k))

    def l1_most(self, m: int, n: int, buffers: int = 2) -> int:
        """The k that fits into L1 beside tiles of the next powers of two: so that a smaller tile
        has no longer steps than a larger one, and does not begin later."""
        return self.target.l1_bytes // (buffers * self.width * (power_above(m) + power_above(n)))

    def own_buffers(self, m: int, n: int, k: int, buffers: int) -> list[tuple[str, str, int, int]]:
        step = self.l1_step(m, n, k, buffers)
        lhs, rhs = m * step * self.width, n * step * self.width
        rest = super().own_buffers(m, n, k, buffers)[2:]
        return [("l1", "lhs", lhs, buffers), ("l1", "rhs", rhs, buffers), *rest]

    def mac_cycles(self, m: int, n: int, k: int) -> float:
        steps = ceil(self.p.k * self.padding / k)
        return steps * (m * n * k / self.macs_rate + self.target.mmad_start_cycles)

    def tile_cycles(self, m: int, n: int, k: int) -> float:
        t, steps = self.target, ceil(self.p.k * self.padding / k)
        feed = self.width * k * (m / self.unfold + n / t.l1_to_l0b_rate)
        feed = steps * (feed + 2 * t.mte1_start_cycles)
        return max(self.mac_cycles(m, n, k), feed) + m * n * self.leaves / t.l0c_out_rate

    def tile_load(self, m: int, n: int) -> tuple[float, float]:
        t = self.target
        lhs, rhs = self.rows(m) * self.lhs.bytes, n * self.p.k * self.rhs.bytes
        size = max(lhs / self.lhs_share + rhs / self.rhs_share, t.full_rate_bytes)
        steps = max(ceil(self.p.k / max(self.l1_most(m, n), 1)), 2)
        starts = 2 * steps * t.mte2_start_cycles
        return size / t.l2_read_rate + starts, lhs + rhs

    @property
    def around(self) -> bool:
        """Whether vector cores compute something before or after the matmul."""
        return bool(self.vector or self.lhs.vector or self.rhs.vector)

    def vector_time(self, m: int, n: int, blocks: int) -> float:
        """Cycles of the vector cores beside a cube core; what they load and store flows along."""
        t = self.target
        beside = max(t.vector_cores / t.cube_cores, 1 / blocks)
        rounds = ceil(self.tiles(m, n) / blocks)
        loads = self.leaves * m * n * rounds / (beside * t.gm_to_ub_rate) if self.vector else 0.0
        stores = self.width * self.before_elements(m, n) * rounds / (beside * t.ub_out_rate)
        return max(super().vector_time(m, n, blocks), loads, stores)

    def before_elements(self, m: int, n: int) -> float:
        """Elements of operands that are computed for a tile."""
        lhs, rhs = self.rows(m) * bool(self.lhs.vector), n * self.p.k * bool(self.rhs.vector)
        return lhs + rhs

    def pipes(self, m: int, n: int, k: int, blocks: int, double_buffered: bool) -> Pipes:
        t = self.target
        p = super().pipes(m, n, k, blocks, double_buffered)
        start = t.kernel_start_us.get("mixed" if self.around else "cube", 0.0)
        if self.around:  # the last tile's comes after the cube's
            start += p.vector_us / p.stores + 2 * t.cross_flag_cycles / t.cycles_per_us
        passing = self.tiles(m, n) * (self.leaves * m * n * bool(self.vector))
        passing += self.tiles(m, n) * self.width * self.before_elements(m, n)
        start += sum(map(self.layout_us, self.layouts))
        loads = p.stores * ceil(self.p.k / self.l1_step(m, n, k))
        return replace(p, start_us=start, l2_bytes=p.l2_bytes + int(2 * passing), loads=loads)

    def layout_us(self, size: int) -> float:
        """Time of the vector cores to move `size` bytes in pieces of a repeat."""
        t = self.target
        each = max(1 / t.gm_to_ub_rate, t.mte2_piece_cycles / REPEAT_BYTES)
        cycles = size / t.vector_cores * each
        return cycles / t.cycles_per_us + t.kernel_start_us.get("vector", 0.0)


@dataclass(frozen=True)
class SplitAttentionKernel(AttentionKernel):
    """Rows are the queries of heads that share keys: of as many as leave work for all cores."""

    group: int = 1
    share: float = 1.0  # of the rate of loading, by the stride of keys
    causal: bool = False
    offset: int = 0  # position of the first query among the keys
    masks: int = 0

    @classmethod
    def of(cls, body: Body, target: Target) -> "SplitAttentionKernel":
        kernel = super().of(body, target)
        assert isinstance(kernel, SplitAttentionKernel)
        op = matmuls(body)[0][0]
        assert isinstance(op, AttentionLike)
        p, key_heads = kernel.p, max(op.sizes("key")[1], 1)
        group = _shared_heads(p, op.sizes("query")[1] // key_heads, target)
        offset = 0 if op.offset is None else op.offset.value.data
        stride = op.sizes("key")[3] * (key_heads if op.tokens_first("key") else 1)
        dynamic = op.offset_value is not None or op.key_lengths is not None
        return replace(
            kernel,
            p=Matrices(p.batch // group, p.m * group, p.n, p.k),
            group=group,
            share=share_of(stride, element_type(op.key)),
            causal=bool(op.causal.value.data) and not dynamic,
            offset=offset,
            masks=len(op.masks),
        )

    def average_steps(self, m: int, n: int) -> float:
        """Blocks of keys that a tile meets."""
        every = ceil(self.p.n / n)
        if not self.causal:
            return every
        queries = self.p.m // self.group
        rows = min(ceil(m / self.group), queries)
        seen = self.offset + (queries + rows) / 2
        return min(max(seen / n + 0.5, 1), every)

    def passing_rows(self, m: int, n: int) -> int:
        """Rows of a tile that pass UB at a time: those of a vector core, if they fit."""
        t, wide = self.target, self.accumulator
        rows = max(m * t.cube_cores // t.vector_cores, 1)
        each = 2 * (n * (2 * wide + self.mask_bytes) + self.value_size * wide)
        room = t.ub_bytes - STATISTICS * m * wide - self.parts_bytes(m, n)
        return max(min(rows, room // each), min(m, PASSING_ROWS))

    def parts_bytes(self, m: int, n: int) -> int:
        align = self.target.core_alignment
        return sum(part.peak(tile, 2, align, columns) for part, tile, columns in self.parts(m, n))

    def own_buffers(self, m: int, n: int, k: int, buffers: int) -> list[tuple[str, str, int, int]]:
        least, rows = min(m, PASSING_ROWS), self.passing_rows(m, n)
        return [
            (memory, name, size // least * rows, copies)
            if memory == "ub" and name != "statistics"
            else (memory, name, size, copies)
            for memory, name, size, copies in super().own_buffers(m, n, k, buffers)
        ]

    def tile_load(self, m: int, n: int) -> tuple[float, float]:
        cycles, size = super().tile_load(m, n)
        return cycles / self.share, size

    def stages(self, m: int, n: int) -> dict[str, float]:
        """Cycles of each stage of a step, in the order of its chain."""
        t, w, wide = self.target, self.width, self.accumulator
        beside = max(t.vector_cores / t.cube_cores, 1.0)
        size, values = self.p.k, self.value_size
        scores, sums = m * n / beside, m * values / beside
        return {
            "scores": self.product(m, n, size),
            "scores out": m * n * wide / t.l0c_out_rate,
            "scores in": scores * wide / t.gm_to_ub_rate + t.mte2_start_cycles,
            "weights": self.weights(m / beside, n, self.passing_rows(m, n)),
            "weights out": scores * w / t.ub_out_rate + t.mte2_start_cycles,
            "weights in": m * n * w / t.l2_read_rate + t.mte2_start_cycles,
            "sums": self.product(m, values, n) if values else 0.0,
            "sums out": m * values * wide / t.l0c_out_rate,
            "sums in": sums * wide / t.gm_to_ub_rate + t.mte2_start_cycles,
            "rescale": self.rescale(m / beside, self.passing_rows(m, n)) if values else 0.0,
        }

    def product(self, m: int, n: int, k: int) -> float:
        """Cycles of a product whose operands are in L1."""
        t = self.target
        half = min(t.l0a_bytes // m, t.l0b_bytes // max(n, 1)) // (2 * self.width)
        steps = ceil(k / max(half, FRACTAL))
        feed = self.width * k * (m / t.l1_to_l0a_rate + n / t.l1_to_l0b_rate)
        return max(
            m * n * k / self.macs_rate + steps * t.mmad_start_cycles,
            feed + 2 * steps * t.mte1_start_cycles,
        )

    def weights(self, rows: float, n: int, passing: int) -> float:
        """Cycles of a vector core for the weights of some rows of scores."""
        t = self.target
        each = ["scalar", "max", "sub", "exp", "add", "cast", *["add"] * self.masks]
        repeats = ceil(n / LANES)
        elements = sum(map(t.vector_cycles_of, each)) * rows * repeats
        ends = rows * (t.vector_cycles_of("row_max") + t.vector_cycles_of("row_sum"))
        starts = ceil(rows / passing) * (len(each) * min(passing, repeats) + 2)
        return elements + ends + starts * t.vector_start_cycles

    def rescale(self, rows: float, passing: int) -> float:
        """Cycles of a vector core to scale what was summed before, and to add."""
        t, repeats = self.target, ceil(self.value_size / LANES)
        elements = rows * repeats * (t.vector_cycles_of("mul") + t.vector_cycles_of("add"))
        starts = ceil(rows / passing) * 2 * min(passing, repeats)
        return elements + starts * t.vector_start_cycles

    def step_cycles(self, m: int, n: int) -> tuple[float, float]:
        """Of the busiest pipe or its part of the chain, and of the chain."""
        s, flags = self.stages(m, n), 4 * self.target.cross_flag_cycles
        chain = sum(s.values()) + flags
        pipes = (
            s["scores"] + s["sums"],
            s["scores out"] + s["sums out"],
            s["scores in"] + s["sums in"],
            s["weights"] + s["rescale"],
            s["weights out"],
        )
        return max(*pipes, chain / IN_FLIGHT), chain

    def tile_cycles(self, m: int, n: int, k: int) -> float:
        return self.average_steps(m, n) * self.step_cycles(m, n)[0]

    def pipes(self, m: int, n: int, k: int, blocks: int, double_buffered: bool) -> Pipes:
        t, s = self.target, self.stages(m, n)
        p = super().pipes(m, n, k, blocks, double_buffered)
        rounds = ceil(self.tiles(m, n) / blocks)
        steps = self.average_steps(m, n)
        every = rounds * steps / t.cycles_per_us
        step, chain = self.step_cycles(m, n)
        start = t.kernel_start_us.get("attention", 0.0) + (chain - step) / t.cycles_per_us
        passing = ceil(self.tiles(m, n) * steps) * m
        passing *= n * (self.accumulator + self.width) + self.value_size * self.accumulator
        return replace(
            p,
            cube_us=every * (s["scores"] + s["sums"]),
            vector_us=p.vector_us + every * (s["weights"] + s["rescale"]),
            chain_us=rounds * self.tile_cycles(m, n, k) / t.cycles_per_us,
            start_us=start,
            l2_bytes=p.l2_bytes + 2 * passing,
        )


def _shared_heads(p: Matrices, group: int, target: Target) -> int:
    def tiles(shared: int) -> int:
        return p.batch // shared * ceil(p.m * shared / LONGEST_ROWS)

    return next(
        (d for d in range(group, 1, -1) if not group % d and tiles(d) >= target.cube_cores), 1
    )
