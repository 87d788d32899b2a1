"""How large the tiles of attention are: what fits into the core's memories and takes least time, by
a rough estimate of the pipes."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

from xdsl.dialects.builtin import f32

from ge.dialects.graph.attention import AttentionOp
from ge.dialects.npu_task.core_plan import FRACTAL
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.types import align_up, element_type, shape_of
from ge.dialects.targets.target import Target
from ge.dialects.tile.types import BLOCK
from ge.lowering.kernels.launch import NotLowered

ROWS = (256, 192, 128, 96, 64, 48, 32, 16)
KEYS = (512, 384, 256, 192, 128, 96, 64, 48, 32, 16)
COPIES = ((2, 2), (2, 1), (1, 1))
LONGEST_PART = 128  # of a sum's length that is in L0A and L0B

# Cycles of a split core of 910B, for the choice alone: for each score 10 vector instructions of 64
# elements, and 4 bytes out of L0C; for each tile of keys the starts of its instructions; for each
# tile of queries the way through both cores and back.
SCORE, SUM, OUT, START, FILL = 10 / 64, 4 / 64, 4 / 46, 500, 3000
MORE_FOR_A_MASK = 4 / 64


@dataclass(frozen=True)
class Tiles:
    """A tile of queries has `rows`, and meets `keys` at a time; `size` and `value_size` are those
    of the elements in multiples of 16. The cube has `size_part` elements or `key_part` keys in
    L0A and L0B at a time. `parts` vector cores share the rows; each has `copies` of scores and
    weights, `back` of what comes back, and the cube has `sums` of both."""

    rows: int
    keys: int
    size: int
    value_size: int
    size_part: int
    key_part: int
    parts: int
    copies: int
    back: int
    sums: int


def tiles_for(op: AttentionOp, target: Target) -> list[Tiles]:
    """Those that fit, the fastest first. Raises NotLowered where none fits."""
    fit = [t for t in candidates(op, target) if not overflow(op, t, target)]
    if fit:
        return sorted(fit, key=lambda t: (estimate(op, t, target), -t.copies, -t.back, -t.sums))
    least = min(candidates(op, target), key=lambda t: (t.rows * t.keys, t.copies, t.sums))
    memory, size = overflow(op, least, target)[0]
    text = f"{least.rows} queries and {least.keys} keys need {size} bytes of {memory}"
    raise NotLowered(f"{text}, which has {target.core_memories[memory]}")


def candidates(op: AttentionOp, target: Target) -> Iterator[Tiles]:
    unit = max([FRACTAL, *(BLOCK * 8 // bitwidth(element_type(m)) for m in op.masks)])
    queries, keys = align_up(op.sizes("query")[2], FRACTAL), align_up(op.sizes("key")[2], unit)
    parts = max(target.vector_cores // target.cube_cores, 1)
    size, value_size = (align_up(max(op.sizes(n)[3], 1), FRACTAL) for n in ("query", "value"))
    width = bitwidth(element_type(op.query)) // 8
    for rows in sizes(ROWS, queries):
        for some in (n for n in sizes(KEYS, keys) if n % unit == 0):
            size_part = part(size, rows, some, width, target)
            key_part = part(some, rows, value_size, width, target)
            for copies, back in COPIES:
                for sums in (2, 1):
                    shape = rows, some, size, value_size, size_part, key_part
                    yield Tiles(*shape, parts, copies, back, sums)


def sizes(known: tuple[int, ...], whole: int) -> list[int]:
    """Those below the whole, and the whole itself where it is not larger than all of them."""
    return [n for n in known if n < whole] + [whole] * (whole <= known[0])


def part(length: int, rows: int, cols: int, width: int, target: Target) -> int:
    """The longest part of a sum of which half of L0A and half of L0B hold two: the other halves are
    for the other product."""
    room = target.core_memories
    most = min(room["l0a"] // (4 * rows * width), room["l0b"] // (4 * cols * width), LONGEST_PART)
    fits = (n for n in range(FRACTAL, length + 1, FRACTAL) if length % n == 0 and n <= most)
    return max(fits, default=FRACTAL)


def overflow(op: AttentionOp, t: Tiles, target: Target) -> list[tuple[str, int]]:
    """The memories that are too small, and how much would be needed."""
    width = bitwidth(element_type(op.query)) // 8
    M, N, E, D = t.rows, t.keys, t.size, t.value_size
    H, narrow = M // t.parts, element_type(op.query) != f32
    ub = t.copies * H * N * (4 + width * narrow) + H * D * (4 * t.back + 4 + width * narrow)
    for mask in op.masks:
        q, s = (1, 1, *shape_of(mask))[-2:]
        shape = (H if q > 1 else 1) * (N if s > 1 else 1)
        ub += 2 * max(32, shape * max(8, bitwidth(element_type(mask))) // 8)
    needed = {
        "ub": ub + 16 * max(32, 4 * H) + 4 * 4 * N,  # columns of one number a row, rows of indices
        "l1": 2 * width * (M * E + N * E + N * D + M * N),
        "l0a": 2 * width * M * (t.size_part + t.key_part),
        "l0b": 2 * width * (t.size_part * N + t.key_part * D),
        "l0c": t.sums * 4 * M * (N + D),
    }
    return [(m, size) for m, size in needed.items() if size > target.core_memories[m]]


def estimate(op: AttentionOp, t: Tiles, target: Target) -> float:
    """Cycles of the busiest core."""
    batch, heads, queries, _ = op.sizes("query")
    keys, width = op.sizes("key")[2], bitwidth(element_type(op.query)) // 8
    M, N, H = t.rows, t.keys, t.rows // t.parts
    score = SCORE + MORE_FOR_A_MASK * len(op.masks)
    vector = START + H * (N * score + t.value_size * SUM) + 14 * H
    out = M * (N + t.value_size) * OUT
    load = (N * (t.size + t.value_size) + M * N) * width / target.l2_read_rate
    macs = M * N * (t.size + t.value_size) / 4096 * (width / 2) ** 2
    step = max(vector, out, load, macs) if t.copies > 1 else max(vector + out, load, macs)
    items = batch * heads * ceil(queries / M)
    seen = keys / 2 + M if op.causal.value.data else keys
    steps = ceil(items / target.cube_cores) * ceil(seen / N)
    return steps * step + ceil(items / target.cube_cores) * (FILL + vector + out)
