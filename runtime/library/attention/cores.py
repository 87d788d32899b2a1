"""The work of the cube and the vector cores for a tile of queries in attention.

Where queries are few, as when tokens are generated one by one, and keys are many, several cores
share the keys of an item:

    core (item, split):   weighted sums, totals and tops of its tiles of keys   -> workspace
    barrier
    core item:            top = max of tops, sums = sum of exp(its top - top) sums   -> result

Each split takes as many tiles of keys of every part as the others (Dao et al., Flash-Decoding). The
splits of an item are added in their order, whichever core had them first."""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext

from xdsl.dialects.builtin import f32, i1, i8

from ge.dialects.graph.attention import LOW, STEPS
from ge.dialects.graph.elementwise import RoundOp
from ge.dialects.tile.types import Memory
from ge.runtime.library.attention.facts import (
    ALWAYS,
    AttentionFacts,
    KeySegment,
    OperandRing,
    QueryTile,
)
from ge.runtime.library.attention.tiles import AHEAD, ITEMS, AttentionTiles
from ge.runtime.library.language.indices import Scalar, SharedIndex
from ge.runtime.library.language.tracing import Queue, Tracer
from ge.runtime.library.language.values import (
    Argument,
    Expression,
    Tile,
    cast,
    columns,
    exp,
    maximum,
    minimum,
    rowmax,
    rowsum,
    tanh,
    unary,
    where,
)
from ge.runtime.library.launch import Arguments

NONE, LOWEST = float("-inf"), -3.4028234663852886e38


def several(c: Tracer, count: int) -> Iterable[Scalar]:
    """The numbers below `count`; one alone takes no loop."""
    return c.range(count) if count > 1 else (0,)


class Cube:
    """Products of a tile of queries and keys, of weights and values: in L1 are pieces of keys and
    values. `beside`: that of other keys, which has the same queries and sums."""

    def __init__(
        self,
        attention: AttentionFacts,
        c: Tracer,
        given: Arguments,
        tiles: AttentionTiles,
        beside: "Cube | None" = None,
    ) -> None:
        t, element = tiles, attention.element
        self.a, self.c, self.given, self.t = attention, c, given, tiles
        M, N, n, D = t.rows, t.keys, t.piece, t.value_part
        self.Q = beside.Q if beside else c.l1(M, t.size, element, t.own)
        self.K = c.l1(n, t.size, element, copies=2)
        self.V, self.P = c.l1(n, D, element, copies=2), c.l1(M, N, element, copies=2)
        self.S = c.l0c(M, N, attention.sums, copies=t.sums)
        self.U = beside.U if beside else c.l0c(M, D, attention.sums, copies=t.sums)
        self.constant: Tile | None = None
        if attention.op.is_integer:
            self.constant, same = c.l0a(M, t.key_part, i8), c.l1(M, t.key_part, i8)
            c.fill(same, 64)
            c.move(self.constant, same)

    def queries(self, q: OperandRing, turn: SharedIndex, at: QueryTile) -> Tile:
        if self.a.query is None:
            return q.load(turn, at.batch, at.head, at.row)
        tile = self.Q[turn]
        return self.c.load(tile, self.a.box(self.given[self.a.query], at, tile), pad=0)

    def scores(
        self, k: OperandRing, at: QueryTile, part: KeySegment, j: Scalar, own: Tile, number: Scalar
    ) -> Tile:
        """Compute the scores of tile j of a part's keys; `number` is that of all parts' tiles."""
        t, head, sums = self.t, at.head // self.a.sharing, self.S[number]
        start = part.key_token + self.a.first_key(at, j)
        for piece in several(self.c, t.keys // t.piece):
            turn, first = (number, 0) if t.piece == t.keys else (piece, piece * t.piece)
            keys = k.load(turn, at.batch, head, start + first)
            some = sums if t.piece == t.keys else sums.part(0, first, (t.rows, t.piece))
            self.c.mmad(some, own, keys.T, init=True, k=t.size_part)
        return sums

    def values(
        self,
        v: OperandRing,
        at: QueryTile,
        part: KeySegment,
        j: Scalar,
        fifo: Queue,
        turn: Scalar,
        col: Scalar,
        number: Scalar,
    ) -> Tile:
        """Product of the weights and some elements of the values, from a column on. Values that are
        one tile are loaded before the weights are there."""
        t, head, sums = self.t, at.head // self.a.sharing, self.U[turn]
        start = part.value_token + self.a.first_key(at, j)
        for piece in several(self.c, t.keys // t.piece):
            copy, first = (turn, 0) if t.piece == t.keys else (piece, piece * t.piece)
            values, weights = v.load(copy, at.batch, head, start + first, col), self.P[number]
            if t.is_simple:
                fifo.pop(weights)
            some = weights if t.piece == t.keys else weights.part(0, first, (t.rows, t.piece))
            if self.constant is None:
                self.c.mmad(sums, some, values, init=piece == 0, k=t.key_part)
                continue
            for key in range(0, t.piece, t.key_part):
                shape = t.key_part, t.value_part
                right = self.c.staged(values, Memory.L0B, (key, 0), shape)
                left = some.part(0, key, (t.rows, t.key_part))
                begin = piece == 0 if key == 0 else False
                self.c.mmad(sums, left, right, init=begin, k=t.key_part)
                for _ in range(2):
                    self.c.mmad(sums, self.constant, right, k=t.key_part)
        return sums


def on_grid(x: Expression, grid: tuple[float, float, float]) -> Expression:
    """Quantized and dequantized."""
    scale, least, most = grid
    return minimum(maximum(unary(RoundOp, x / scale), least), most) * scale


class Vector:
    """The softmax of rows whose scores come in tiles, and the values that it weighs."""

    def __init__(
        self, attention: AttentionFacts, c: Tracer, given: Arguments, steps: int = 0
    ) -> None:
        """`steps`: tiles of keys of an item, where scores of the next one come first."""
        t = attention.tiles
        self.a, self.c, self.given = attention, c, given
        M, N, D = t.rows // t.parts, t.keys, t.value_size
        self.rows = M
        self.acc, self.totals = c.ub(M, D, f32), c.ub(M, 1, f32, copies=ITEMS if steps else 1)
        self.total = self.totals[0]
        self.top, self.new = c.ub(M, 1, f32), c.ub(M, 1, f32)
        self.factor = c.ub(M, 1, f32, copies=max(AHEAD + 1, ITEMS * steps))
        element, integer = attention.result_element, attention.op.is_integer
        self.out = self.acc if element == f32 else c.ub(M, t.value_part, element)
        self.x = c.ub(M, N, f32) if integer else None  # scores as floats
        self.masks: list[Tile | None] = []
        for m in attention.masks:
            shape = (M if m.shape[2] > 1 else 1, N if m.shape[3] > 1 else 1)
            self.masks.append(c.ub(*shape, m.element, copies=2) if m.number is None else None)
        self.bounds: list[tuple[Tile, bool]] = []  # the last or the first key of each row
        if attention.left >= 0:
            self.bounds.append((c.ub(M, 1, "i32"), False))
        if attention.right >= 0:
            self.bounds.append((c.ub(M, 1, "i32"), True))

    def begin(self, at: QueryTile) -> None:
        a, M = self.a, self.rows
        self.clear()
        for bound, is_last in self.bounds:
            offset = at.offset + (a.right if is_last else -a.left)
            token = a.together.positions(M, at.row, offset)
            bound[:] = minimum(token, a.keys - 1) if is_last else maximum(token, 0)

    def turn_to(self, turn: Scalar) -> None:
        """Go on with the item of a turn."""
        self.total = self.totals[turn]

    def clear(self) -> None:
        self.top[:], self.total[:], self.acc[:] = LOWEST, 0, 0

    def weights(
        self,
        at: QueryTile,
        part: KeySegment,
        j: Scalar,
        s: Tile,
        p: Tile,
        masked: Scalar,
        number: Scalar,
        before: Scalar = 0,
        is_first: bool = False,
    ) -> None:
        """Weights of a tile of keys; `number` is that of all parts' tiles, and there are as many of
        other items `before`. Before the first one there are no sums."""
        a, scale = self.a, self.a.scale
        ring = number + before
        if self.x is not None:
            self.x[:] = cast(s, f32)
            s = self.x
        if not a.plain:
            s[:] = self.biased(at, ring, part.start + a.first_key(at, j), s)
            scale = 1.0
        if self.bounds or self.ends_within(at, part, s.shape[1]):
            with self.from_number(number, masked):
                self.leave_out(at, part, j, s)
        self.raise_top(rowmax(s) * scale if scale != 1 else rowmax(s), s, is_first)
        if not is_first:
            self.factor[ring] = exp(self.top - self.new)
        self.top[:] = self.new
        weights = exp((s * scale if scale != 1 else s) - self.top)
        s[:] = weights if self.x is None else unary(RoundOp, weights * STEPS)
        self.total[:] = rowsum(s) if is_first else self.total * self.factor[ring] + rowsum(s)
        if a.weight_grid is not None:  # all keys are in this tile
            if a.op.undefined.data == "zero":
                self.total[:] = maximum(self.total, 1e-30)
            s[:] = on_grid(s / self.total, a.weight_grid)
        if a.element != f32:
            p[:] = cast(s if self.x is None else s - 128, a.element)

    def biased(self, at: QueryTile, j: Scalar, key: Scalar, s: Tile) -> Expression:
        a = self.a
        x = s * a.scale if a.score_grid is None else on_grid(s * a.scale, a.score_grid)
        if a.cap > 0:
            y = s * (a.scale / a.cap) if a.score_grid is None else x * (1 / a.cap)
            x = tanh(y) * a.cap
        for mask, ring in zip(a.masks, self.masks, strict=True):
            if mask.number is not None:
                x = x + mask.number
                continue
            assert ring is not None
            box = mask.box(self.given[mask.value], at.batch, at.head, at.row, key)
            tile = self.c.load(ring[j], box, pad=0)
            if tile.element == i1:
                x = where(tile, x, a.op.fill.value.data)
            else:
                x = x + (tile if tile.element == f32 else cast(tile, f32))
        return x

    def from_number(self, number: Scalar, masked: Scalar) -> AbstractContextManager[None]:
        """A condition that holds from this one of the tiles on."""
        always = isinstance(masked, int) and masked == ALWAYS
        return nullcontext() if always else self.c.when(number >= masked)

    def leave_out(self, at: QueryTile, part: KeySegment, j: Scalar, s: Tile) -> None:
        """Keys that do not take part."""
        N = s.shape[1]
        for bound, is_last in self.bounds:
            key = columns(N, part.start + self.a.first_key(at, j))
            s[:] = where(key <= bound if is_last else key >= bound, s, NONE)
        if self.a.op.length is not None:  # those of the tile before
            s[:] = where(columns(N, self.a.first_key(at, j) - j * N) >= 0, s, NONE)
        elif self.ends_within(at, part, N):
            s[:] = where(columns(N, j * N - at.count(part)) < 0, s, NONE)

    def ends_within(self, at: QueryTile, part: KeySegment, keys: int) -> bool:
        """True if a tile of so many keys may have some behind the last one."""
        count = at.count(part)
        return not isinstance(count, int) or count % keys != 0

    def raise_top(self, top: Expression, s: Tile, is_first: bool) -> None:
        new, element = self.new, self.a.element
        new[:] = maximum(top, LOWEST) if is_first else maximum(self.top, top)
        if self.a.rounds:
            s[:] = where(new < LOW, cast(cast(s, element), f32), s)
            new[:] = where(new < LOW, maximum(cast(cast(new, element), f32), LOWEST), new)

    def add(self, j: Scalar, u: Tile, col: Scalar, is_first: bool) -> None:
        """Add the sums that come back for some elements, from a column on."""
        acc, more = self.some(col), u if self.x is None else cast(u, f32)
        acc[:] = more if is_first else acc * self.factor[j] + more

    def some(self, col: Scalar) -> Tile:
        shape = self.rows, self.a.tiles.value_part
        return self.acc if shape == self.acc.shape else self.acc.part(0, col, shape)

    def end(self) -> Iterator[tuple[Scalar, Tile]]:
        """The result, some elements after the other. Rows without a key have no weights: 0, or nan
        where `undefined` says so."""
        total, undefined, t = self.total, self.a.op.undefined.data, self.a.tiles
        if undefined == "zero":
            total[:] = maximum(total, 1e-30)
        for some in several(self.c, t.value_size // t.value_part):
            acc = self.some(some * t.value_part)
            result: Expression = acc / total if self.a.weight_grid is None else acc
            if (scale := self.a.op.value_scale) is not None:
                result = result * scale.value.data
            if undefined == "guard":
                result = where(total > 0, result, 0.0)
            out = acc if self.out is self.acc else self.out
            out[:] = result if self.out is self.acc else cast(result, self.a.result_element)
            yield some * t.value_part, out


def why_whole(a: AttentionFacts) -> str:
    """The reason why keys are not shared by cores; "" if they may be. Results rounded relative to
    the largest score so far depend on which keys came before."""
    if a.op.is_integer or a.weight_grid is not None:
        return "weights are rounded relative to all keys before"
    return "rows are rounded while their scores are low" if a.rounds else ""


def share_of(first: Scalar, last: Scalar, split: Scalar, splits: int) -> tuple[Scalar, Scalar]:
    """The tiles of keys of a split, of those from first to last."""
    count = last - first
    return first + count * split // splits, first + count * (split + 1) // splits


class Splits:
    """Storage and merging of each item's splits. `u`: the tiles of parts of sums."""

    def __init__(self, attention: AttentionFacts, c: Tracer, vector: Vector, u: Tile) -> None:
        t, count = attention.tiles, attention.items * attention.splits
        self.a, self.c, self.vector, self.u = attention, c, vector, u
        self.sums: Argument = c.workspace(count, t.rows, t.value_size, dtype=f32)
        self.rows: Argument = c.workspace(2, count, t.rows, 1, dtype=f32)  # totals and tops
        self.top, self.total = c.ub(vector.rows, 1, f32), c.ub(vector.rows, 1, f32)

    def store(self, number: Scalar) -> None:
        """Store the vector core's results of a split."""
        v, row = self.vector, self.row
        self.c.store(self.sums[number, row:, 0:], v.acc)
        self.c.store(self.rows[0, number, row:, 0:], v.total)
        self.c.store(self.rows[1, number, row:, 0:], v.top)

    @property
    def row(self) -> Scalar:
        return self.c.part * self.vector.rows if self.c.parts > 1 else 0

    def merge(self, item: Scalar) -> None:
        """Merge the results of all splits of an item into the place where a core that has all keys
        would leave its own."""
        a, c, v, row = self.a, self.c, self.vector, self.row
        v.clear()
        size = a.tiles.value_part
        for split in c.range(a.splits):
            number = item * a.splits + split
            c.load(self.total, self.rows[0, number, row:, 0:])
            c.load(self.top, self.rows[1, number, row:, 0:])
            v.new[:] = maximum(v.top, self.top)
            before = v.factor[0]
            before[:], self.top[:] = exp(v.top - v.new), exp(self.top - v.new)
            v.top[:] = v.new
            v.total[:] = v.total * before + self.total * self.top
            for some in several(c, a.tiles.value_size // size):
                col, acc = some * size, v.some(some * size)
                part = c.load(self.u[split], self.sums[number, row:, col:])
                acc[:] = acc * before + part * self.top
