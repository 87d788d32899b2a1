"""Tracing: a kernel in Python becomes a `tile.kernel`.

The function runs once. Its calls of `c` are written down twice, in a program for the cube cores
and in one for the vector cores; each keeps the loops and branches around its own instructions:

    for j in c.range(8):                     tile.cube                    tile.vector
        c.load(K[j], k[j * N:])              scf.for %j {                 scf.for %j {
        c.mmad(C, Q, K[j].T, init=True)        tile.load, move, mmad
        scores.push(C)                         tile.push                    tile.pop
        scores.pop(s[j])                     }                              tile.map
        s[j] = exp(s[j])                                                  }"""

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partialmethod
from typing import TypeAlias, cast

from xdsl.dialects.builtin import MemRefType, TensorType, f32, i1, i32
from xdsl.dialects.scf import ForOp, IfOp, YieldOp
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.transforms.common_subexpression_elimination import cse

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.elementwise import CastOp, SelectOp
from ge.dialects.graph.support.parameters import constants
from ge.dialects.support.editing import source_line
from ge.dialects.support.element_types import bitwidth, element_named, is_float
from ge.dialects.support.errors import GeError
from ge.dialects.support.operation import block_of, created
from ge.dialects.support.types import align_up, tensor
from ge.dialects.targets.target import Target
from ge.dialects.tile import buffers, compute, transfers
from ge.dialects.tile.kernel import BarrierOp
from ge.dialects.tile.types import BLOCK, FRACTAL, FifoType, Memory, TileType, ring_in, tile_in
from ge.dialects.tile.unfold import UnfoldOp
from ge.runtime.library.language import values as v
from ge.runtime.library.language.arith import INDEX
from ge.runtime.library.language.indices import (
    Condition,
    Index,
    KnownIndex,
    LoopIndex,
    ReadIndex,
    Scalar,
    SharedIndex,
    ceil_div,
    is_once,
    number_of,
    truth_of,
    whole,
)
from ge.runtime.library.language.sides import HERE, OneNumber, Side
from ge.runtime.library.language.values import Unfolded


class MapBody:
    """The region of one `tile.map`, while it is written."""

    def __init__(self, tracer: "Tracer") -> None:
        self.tracer = tracer
        self.block = Block()
        self.tiles: list[v.Tile] = []
        self.known: dict[v.Expression, SSAValue] = {}

    def value(self, expression: v.Expression) -> SSAValue:
        if expression not in self.known:
            self.known[expression] = self.emit(expression)
        return self.known[expression]

    def emit(self, expression: v.Expression) -> SSAValue:
        match expression:
            case v.Apply():
                args = [self.operand(a, expression) for a in expression.args]
                op = expression.op.of(*args, **expression.parameters)
            case v.Copied():
                op = expression.op.with_operands([self.value(a) for a in expression.args])
            case v.Number():
                return self.constant(expression.number, expression.element)
            case v.Cast():
                op = CastOp.of(self.value(expression.arg), to=expression.element)
            case _:  # what the vector unit does not compute elementwise is a tile of its own
                tile = self.tracer.tile_of(expression)
                self.tiles.append(tile)
                return self.block.insert_arg(tile.type.tensor, len(self.block.args))
        self.block.add_op(op)
        return op.results[0]

    def operand(self, arg: v.Value, user: v.Apply) -> SSAValue:
        if isinstance(arg, v.Expression):
            return self.value(arg)
        others = [a for a in user.args if isinstance(a, v.Expression)]
        return self.constant(arg, others[-1].element)

    def constant(self, number: float, element: Attribute) -> SSAValue:
        type = tensor((1, 1), element)
        value = constants(number if is_float(element) else int(number), type)
        assert value is not None
        assert isinstance(value[0], Attribute)
        op = ConstantOp.make(value[0], type)
        self.block.add_op(op)
        return op.result

    def broadcast(self, value: SSAValue, wanted: Attribute) -> SSAValue:
        """A row or a column repeated to a whole tile."""
        shape = cast("TensorType[Attribute]", wanted).get_shape()
        always = constants(1, tensor(shape, i1))
        assert always is not None
        assert isinstance(always[0], Attribute)
        condition = ConstantOp.make(always[0], tensor(shape, i1))
        op = SelectOp.of(condition.result, value, value)
        self.block.add_ops((condition, op))
        return op.results[0]


IN_MEMORY = 8  # tiles on their way through a fifo in memory: pto-isa's flash attention


@dataclass(frozen=True, eq=False)
class Queue:
    """A fifo between the programs."""

    tracer: "Tracer"
    fifo: SSAValue

    def push(self, tile: v.Tile, scale: v.Tile | None = None) -> None:
        """Put a tile in it; sums of integers may leave by a row of scales in FB."""
        side = self.tracer.side_of(tile)
        row = None if scale is None else scale.value(side)
        side.add(transfers.PushOp, tile.value(side), self.fifo, row)

    def pop(self, tile: v.Tile) -> v.Tile:
        side = self.tracer.side_of(tile)
        side.add(transfers.PopOp, self.fifo, tile.value(side))
        return tile

    def send(self, source: v.Tile, target: v.Tile) -> None:
        """A push of the one program and its pop by the other."""
        self.push(source)
        self.pop(target)


Operand: TypeAlias = "v.Tile | v.Transposed | Unfolded"  # of a matmul


@dataclass
class Tracer:
    """The object that a kernel calls `c`."""

    arguments: Sequence[v.Argument]
    target: Target
    cube: Side = field(default_factory=Side)
    vector: Side = field(default_factory=Side)
    fifos: list[buffers.FifoOp] = field(default_factory=list[buffers.FifoOp])
    staging: dict[TileType, list[v.Tile]] = field(default_factory=dict[TileType, list[v.Tile]])
    left: int = 0  # loops that were left before their end
    parts: int = 1  # vector cores beside each cube core
    own: list[v.Argument] = field(default_factory=list[v.Argument])  # the workspace
    at: "tuple[Index, Index] | None" = None  # core and cores of a part: see `on_cores`
    turns: list[LoopIndex] = field(default_factory=list[LoopIndex])  # the loop of such a part
    taken: list[v.Tile] = field(default_factory=list[v.Tile])  # its buffers
    spare: list[v.Tile] = field(default_factory=list[v.Tile])  # those of parts before

    def __post_init__(self) -> None:
        self.sides: tuple[Side, ...] = self.cube, self.vector

    # ---- cores and loops ----

    @property
    def core(self) -> Index:
        """The number of the core, from 0 on."""
        return Index("core") if self.at is None else self.at[0]

    @property
    def cores(self) -> Index:
        return Index("cores") if self.at is None else self.at[1]

    @contextmanager
    def on_cores(self, first: int, count: int, total: int) -> Generator[None]:
        """A part of the program for `count` of all `total` cores, from the first on: they have
        numbers from 0 on. It takes the buffers that such parts before it have left."""
        me = self.now((self.core + (total - first)) % total) if first else self.core
        for turn in self.range(ceil_div(count - me, total)) if count < total else (0,):
            self.at = me, Index("constant", (count,))
            self.turns = [turn] if isinstance(turn, LoopIndex) else []
            yield
        self.spare += self.taken
        self.at, self.turns = None, []
        self.taken.clear()

    def split(self) -> int:
        """Split the rows of what passes between cube and vector cores between all vector cores
        beside a cube core: tiles of queues in UB then have a part of the rows. How many they are;
        `c.part` is the number of one."""
        if self.fifos:
            raise GeError("c.split() stands before the first queue")
        target = self.target
        self.parts = target.vector_parts
        return self.parts

    @property
    def part(self) -> Index:
        """The number of a vector core among those beside one cube core."""
        return Index("part")

    def range(self, *bounds: Scalar) -> Iterator[Index]:
        """Like `range`, for the cores: `for j in c.range(n)`. One turn alone is no loop."""
        if not 1 <= len(bounds) <= 3:
            hint = "write c.range(n), c.range(low, high) or c.range(low, high, step)"
            raise GeError(f"a range has one to three numbers, not {len(bounds)}", hint=hint)
        low, high, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
        self.left += 1
        if is_once(low, high, step):
            yield Index("constant", (number_of(low),))
        else:
            yield from self.loop(low, high, step)
        self.left -= 1

    def loop(self, low: Scalar, high: Scalar, step: Scalar) -> Iterator[Index]:
        variable = LoopIndex(first=low)
        for side in self.sides:
            body = block_of([INDEX])
            args = (side.index(low), side.index(high), side.index(step))
            side.add(created, ForOp, args, regions=(Region(body),))
            side.enter(body)
            variable.values[side] = body.args[0]
        yield variable
        for side in self.sides:
            side.add(created, YieldOp)
            side.close()
        variable.values.clear()

    def share(self, count: Scalar) -> Iterator[SharedIndex]:
        """The numbers below `count` that are this core's: every `cores`-th."""
        for turn in self.range(ceil_div(count - self.core, self.cores)):
            yield self.nth(turn)

    def nth(self, turn: Index) -> SharedIndex:
        """The number that is this core's in its turn."""
        return SharedIndex("addi", (self.core, turn * self.cores), turn=turn)

    def now(self, number: Index) -> Index:
        """The number, computed here and not where it is used, such as in a loop."""
        if number_of(number) is not None:
            return number
        values = {side: side.index(number) for side in self.sides}
        return KnownIndex("known", (number,), values=values)

    @contextmanager
    def when(self, test: Condition | bool) -> Generator[None]:
        """`with c.when(j < n)`: only then."""
        if isinstance(test, Condition) and test.kind == "andi":  # loops are cut at both of its ends
            with self.when(test.args[0]), self.when(test.args[1]):
                yield
            return
        if (truth := truth_of(test)) is True:
            yield
            return
        for side in self.sides:
            body = Block()
            regions = Region(body), Region(Block([created(YieldOp)]))
            side.add(created, IfOp, (side.condition(test),), regions=regions)
            side.enter(body)
        yield
        for side in self.sides:
            side.add(created, YieldOp)
            body = side.close()
            if truth is False and (op := body.parent_op()) is not None:
                op.detach()
                op.erase()

    def barrier(self) -> None:
        """Wait until all cores have come here, and all their earlier work is done."""
        for side in self.sides:
            side.add(BarrierOp)

    # ---- memories ----

    def workspace(self, *shape: int, dtype: v.ElementLike) -> v.Argument:
        """A tensor in device memory that is the kernel's own, unwritten when it begins: cores store
        data that others load behind a barrier."""
        element = element_named(dtype)
        block = self.arguments[0].memref.owner
        assert isinstance(block, Block)
        memref = block.insert_arg(MemRefType(element, shape), len(block.args))
        memref.name_hint = f"workspace_{len(self.own)}"
        self.own.append(v.Argument(memref, shape, element))
        return self.own[-1]

    def alloc(
        self,
        space: Memory,
        rows: int,
        cols: int,
        dtype: v.ElementLike = None,
        copies: int | None = None,
    ) -> v.Tile:
        """A tile, or with `copies` a ring of them (typed as a tile, whose `[j]` is a copy). Without
        a type its elements are those of the kernel's first argument. Of tiles in UB with rows of
        other than a multiple of 32 bytes the allocation has wider ones."""
        element = self.arguments[0].element if dtype is None else element_named(dtype)
        rows, cols = whole(rows), whole(cols)
        type, bits = tile_in(rows, cols, element, space), bitwidth(element)
        if space is Memory.UB and min(rows, cols) > 1 and cols * bits % (8 * BLOCK):
            cols = align_up(cols * bits, 8 * BLOCK) // bits
        held = tile_in(rows, cols, element, space)
        if self.at is not None:
            return self.again(type, held, copies)
        return self.buffer(type, held, copies)

    def again(self, type: TileType, held: TileType, copies: int | None) -> v.Tile:
        """A buffer that a part of the program before has left, or a new one."""
        kinds = [(tile.type, getattr(tile, "copies", None)) for tile in self.spare]
        if (type, copies) in kinds:
            tile = self.spare.pop(kinds.index((type, copies)))
        else:
            tile = self.buffer(type, held, copies)
        self.taken.append(tile)
        return tile

    def buffer(self, type: TileType, held: TileType, copies: int | None) -> v.Tile:
        """A new tile, or ring, in an allocation of tiles that may be wider."""
        side = self.vector if held.space is Memory.UB else self.cube
        self.check_room(held, copies or 1)
        if copies is None:
            buffer = v.Buffer(self, held, side.alloc(held))
            return buffer if held is type else buffer.part(0, 0, type.shape)
        ring = ring_in(copies, held.rows.data, held.cols.data, held.element, held.space)
        return cast(v.Tile, v.Ring(self, type, copies, side.alloc(ring), held))

    l1 = partialmethod(alloc, Memory.L1)
    l0a = partialmethod(alloc, Memory.L0A)
    l0b = partialmethod(alloc, Memory.L0B)
    ub = partialmethod(alloc, Memory.UB)
    bt = partialmethod(alloc, Memory.BT)
    fb = partialmethod(alloc, Memory.FB)

    def l0c(
        self, rows: int, cols: int, dtype: v.ElementLike = None, copies: int | None = None
    ) -> v.Tile:
        """Sums: of f32, or of i32 where the kernel's first argument is of integers."""
        if dtype is None:
            dtype = f32 if is_float(self.arguments[0].element) else i32
        return self.alloc(Memory.L0C, rows, cols, dtype, copies)

    def check_room(self, tile: TileType, copies: int) -> None:
        """Raises GeError for a buffer that a memory of the core has no room for by itself."""
        size, room = copies * buffers.copy_bytes(tile), self.target.core_memories[tile.space]
        if size > room:
            what = f"{copies} x {tile.text()}" if copies > 1 else tile.text()
            text = f"{tile.space} of {self.target.name} has {room} bytes, and {what} takes {size}"
            raise GeError(text, hint="smaller tiles or rings of fewer copies take less")

    def queue(self, like: "v.Tile | v.Ring", depth: int | None = None) -> Queue:
        """A fifo from one program to the other, of tiles like this one; a tile in UB is the part of
        one vector core. Without `depth` it has places for as many tiles as are on their way through
        memory meanwhile, or for two where the cores are one."""
        depth = depth or (IN_MEMORY if self.target.split_cores else 2)
        rows, cols = like.type.shape
        if like.type.space is Memory.UB:
            rows *= self.parts
        fifo = buffers.FifoOp(depth, FifoType(rows, cols, like.type.element))
        fifo.location = source_line(HERE)
        fifo.verify_()
        self.fifos.append(fifo)
        return Queue(self, fifo.result)

    def side_of(self, tile: v.Tile) -> Side:
        return self.vector if v.tile_of(tile).space is Memory.UB else self.cube

    def read(
        self,
        box: v.Subview,
        below: int | None = None,
        least: int = 0,
        distinct: bool = False,
        ascending: bool = False,
    ) -> Index:
        """The integer at one place of an argument, `c.read(ids[i], below=n)`: at least `least` and
        below `below`, and with `distinct` at no other place of the argument. With `ascending` none
        is less than the one before, the first is `least`, and the last `below` - 1. Raises GeError
        without a bound, which proofs and times need."""
        hint = "write c.read(ids[i], below=n)"
        if v.box_of(box).spans:
            raise GeError("one number is read", hint=hint)
        if isinstance(box.argument, OneNumber):
            return Index("constant", (whole(box.argument.number),))
        if below is None or below <= least:
            text = "has no bound" if below is None else f"is at least {least} and below {below}"
            raise GeError(f"a number that is read {text}", hint=hint)
        span = range(least, below)
        return ReadIndex("read", box=box, span=span, distinct=distinct, ascending=ascending)

    def read_index(self, box: v.Subview, count: int) -> Index:
        """The index at one place of an argument, of `count`; those below 0 count from the end. Of
        one it is 0, but read, so that others are refused."""
        index = self.read(box, count, -count)
        return index % count if count > 1 else Index("maxsi", (index, 0))

    # ---- instructions ----

    def load(
        self,
        tile: v.Tile,
        box: v.Subview,
        pad: float | None = None,
        rows: tuple[Scalar, int, int] | None = None,
    ) -> v.Tile:
        """Load a box from device memory to L1 or UB; returns the tile. Outside of the tensor it
        becomes `pad`. `rows` (first, count, step): the box becomes these rows of the tile, and
        others stay."""
        side = self.side_of(tile)
        if isinstance(number := v.box_of(box).argument, OneNumber):
            return self.load_number(tile, number, pad)
        shape = tile.shape if rows is None else (rows[1], tile.shape[1])
        place = box.value(side, shape)
        apart = None if rows is None else (side.index(rows[0]), whole(rows[2]))
        side.add(transfers.LoadOp, place, tile.value(side), pad, apart)
        return tile

    def load_number(self, tile: v.Tile, argument: OneNumber, pad: float | None) -> v.Tile:
        """Load a constant of one element: nothing lies in memory."""
        one = tile if pad is None or tile.shape == (1, 1) else tile.part(0, 0, (1, 1))
        if pad is not None and one is not tile:
            self.fill(tile, pad)
        self.fill(one, argument.number)
        return tile

    def store(
        self,
        box: v.Subview,
        tile: v.Tile,
        relu: bool = False,
        add: bool = False,
        scale: v.Tile | None = None,
        zero: int = 0,
    ) -> None:
        """Store a tile from L0C or UB to device memory, in the element type there. Sums of integers
        may leave by a row of scales in FB, with a zero point."""
        side = self.side_of(tile)
        place = v.box_of(box).value(side, tile.shape)
        side.add(
            transfers.StoreOp,
            tile.value(side),
            place,
            relu=relu,
            add=add,
            scale=None if scale is None else scale.value(side),
            zero=zero,
        )

    def move(self, target: v.Tile, source: "v.Tile | v.Transposed") -> None:
        side = self.side_of(target)
        tile, turned = (source.tile, True) if isinstance(source, v.Transposed) else (source, False)
        side.add(transfers.MoveOp, tile.value(side), target.value(side), transposed=turned)

    def take(
        self,
        target: v.Tile,
        source: v.Tile,
        first: int,
        step: int,
        groups: tuple[int, int] | None = None,
    ) -> v.Tile:
        """Take columns of a tile in UB from `first` on, `step` apart; with `groups` so many at a
        time, and the next ones so many columns further on. Returns the target."""
        ends = source.value(self.vector), target.value(self.vector)
        self.vector.add(transfers.MoveOp, *ends, columns=(first, step, *(groups or ())))
        return target

    def gather(self, target: v.Tile, source: v.Tile, at: v.Tile) -> v.Tile:
        """The columns of each row of `source` whose numbers (i32) the row of `at`, or its only row,
        has. Returns the target."""
        self.vector.add(compute.GatherOp, *(t.value(self.vector) for t in (source, at, target)))
        return target

    def scatter(self, target: v.Tile, source: v.Tile, at: v.Tile, combine: str = "none") -> v.Tile:
        """Put the elements of each row of `source` at the columns of `target` whose numbers (i32)
        the row of `at` has, one after the other, or "add", "mul", "max", "min" them to the elements
        there; numbers that are no columns are left out. Returns the target."""
        ends = (t.value(self.vector) for t in (source, at, target))
        self.vector.add(compute.ScatterOp, combine, *ends)
        return target

    def fill(self, tile: v.Tile, number: float) -> None:
        side = self.side_of(tile)
        side.add(compute.FillOp, tile.value(side), number)

    def mmad(
        self,
        acc: v.Tile,
        a: Operand,
        b: Operand,
        init: Condition | bool = False,
        k: int | None = None,
        bias: v.Tile | None = None,
    ) -> None:
        """acc (+)= a b; with `init` the sums begin anew, with a row of BT where there is a `bias`.
        Operands in L1 pass L0A and L0B in parts of `k`, by default the most of which both hold
        two."""
        for operand in (acc, a, b):
            plain = not isinstance(operand, v.Transposed | Unfolded)
            v.tile_of(operand if plain else operand.tile)
        (rows, depth), (deep, columns) = a.shape, b.shape
        if depth != deep or acc.shape != (rows, columns):
            lhs, rhs, out = ("x".join(map(str, t.shape)) for t in (a, b, acc))
            raise GeError(f"no product of {lhs} by {rhs} is a tile of {out}")
        chunk = k or self.chunk(a, b)
        for at in range(0, depth, chunk):
            size = min(chunk, depth - at)
            left = self.staged(a, Memory.L0A, (0, at), (a.shape[0], size))
            right = self.staged(b, Memory.L0B, (at, 0), (size, b.shape[1]))
            begin = None if at or init is False else self.cube.condition(init)
            sums, lhs, rhs = (t.value(self.cube) for t in (acc, left, right))
            row = None if bias is None or begin is None else bias.value(self.cube)
            self.cube.add(compute.MmadOp, sums, lhs, rhs, begin, row)

    def chunk(self, a: Operand, b: Operand) -> int:
        """The longest part of the sums' length, of those that halve it at least once (a part is
        moved while the cube works on another), of which L0A and L0B hold two."""
        tile = a if isinstance(a, v.Tile) else a.tile
        bits, length = bitwidth(tile.element), a.shape[1]
        least = max(256 // bits, FRACTAL)
        room, whole = self.target.core_memories, length
        while length % (2 * least) == 0 and (
            length == whole
            or a.shape[0] * length * bits // 4 > room["l0a"]
            or b.shape[1] * length * bits // 4 > room["l0b"]
        ):
            length //= 2
        return length

    def staged(self, source: Operand, space: Memory, at: v.Shape, shape: v.Shape) -> v.Tile:
        """A part of an operand in L0A or L0B; two tiles take turns."""
        tile = source if isinstance(source, v.Tile) else source.tile
        turned = isinstance(source, v.Transposed)
        if tile.space is space and not turned and shape == tile.shape:
            return tile
        turn = self.staging_of(tile_in(*shape, tile.element, space))
        turn.append(turn.pop(0))
        target = turn[0].part(0, 0, shape)
        if isinstance(source, Unfolded):
            ends = tile.value(self.cube), target.value(self.cube)
            self.cube.add(UnfoldOp, *ends, source.windows, max(at), source.pad)
            return target
        if turned:
            at, corner_shape = (at[1], at[0]), (shape[1], shape[0])
        else:
            corner_shape = shape
        corner = tile if shape == source.shape else tile.part(*at, corner_shape)
        self.move(target, corner.T if turned else corner)
        return target

    def staging_of(self, type: TileType) -> list[v.Tile]:
        """Two tiles of L0 of this type, or of one with more rows of which there are some."""
        wanted = type.space, type.element, type.cols
        for known, tiles in self.staging.items():
            alike = (known.space, known.element, known.cols) == wanted
            if alike and known.rows.data >= type.rows.data:
                return tiles
        self.staging[type] = [v.Buffer(self, type, self.cube.alloc(type)) for _ in range(2)]
        return self.staging[type]

    # ---- expressions ----

    def assign(self, target: v.Tile, value: "v.Value | v.Transposed") -> None:
        """`target[:] = value`."""
        if isinstance(value, v.Transposed) or (
            isinstance(value, v.Tile) and value.type == target.type
        ):
            return self.move(target, value)
        if not isinstance(value, v.Expression):
            return self.fill(target, v.operand(value))
        if target.space is not Memory.UB:
            raise GeError(f"the vector unit computes tiles in ub, not in {target.space}")
        if value.element != target.element:
            text = f"{value.element} is assigned to a tile of {target.element}"
            raise GeError(text, hint=f'write cast(..., "{target.element}")')
        if any(a not in (1, b) for a, b in zip(value.shape, target.shape, strict=True)):
            text = "{}x{} is assigned to a tile of {}x{}".format(*value.shape, *target.shape)
            raise GeError(text)
        if isinstance(value, v.Reduced) and value.shape == target.shape:
            return self.reduce(target, value)
        self.map(target, value)
        return None

    def reduce(self, target: v.Tile, value: v.Reduced) -> None:
        source = self.tile_of(value.arg)
        sides = source.value(self.vector), target.value(self.vector)
        self.vector.add(compute.ReduceOp, value.kind, *sides)

    def tile_of(self, value: v.Expression) -> v.Tile:
        """A tile with the elements of an expression."""
        if isinstance(value, v.Tile):
            return value
        new = self.alloc(Memory.UB, *value.shape, value.element, None)
        if isinstance(value, v.Counted):
            base = self.vector.index(value.base)
            self.vector.add(compute.IndexOp, value.axis, base, new.value(self.vector))
        else:
            self.assign(new, value)
        return new

    def map(self, target: v.Tile, value: v.Expression) -> None:
        body = MapBody(self)
        result = body.value(value)
        if result.type != (wanted := target.type.tensor):  # repeated along rows or columns
            result = body.broadcast(result, wanted)
        body.block.add_op(last := compute.YieldOp(result))
        if last.prev_op is not None and last.prev_op.prev_op is not None:  # of several ops
            cse(body.block)
        ins = [t.value(self.vector) for t in body.tiles]
        self.vector.add(compute.MapOp, ins, [target.value(self.vector)], body.block)
