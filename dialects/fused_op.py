"""The `fused_op` dialect: one op is one kernel launch.

Values of the body have no memory outside the core. The op's name is the algorithm of the kernel:
`linear` and `conv` run the body's tail on the tile that the cube just produced, `region` streams
elementwise ops through the vector unit.

    %y = fused_op.linear(%x, %w, %b) : (tensor<8x64xf32>, ...) -> tensor<8x32xf32> {
    ^bb0(%0: tensor<8x64xf32>, %1: tensor<64x32xf32>, %2: tensor<32xf32>):
      %3 = graph.matmul %0, %1 : ...
      %4 = graph.add %3, %2 : ...
      fused_op.yield %4 : tensor<8x32xf32>
    }
"""

from abc import ABC
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import gcd, prod
from typing import Any, ClassVar, Self

from xdsl.dialects.builtin import StringAttr, TensorType
from xdsl.ir import Attribute, Block, Dialect, Operation, OpResult, Region, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    lazy_traits_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import (
    IsolatedFromAbove,
    IsTerminator,
    NoMemoryEffect,
    Pure,
    RecursivelySpeculatable,
    ReturnLike,
)
from xdsl.utils.exceptions import VerifyException

from ge.dialects.support.boxes import MOVING, Access, Box, Work, hull, same_bytes
from ge.dialects.support.constraints import ANY, VALUES
from ge.dialects.support.context import at_hand
from ge.dialects.support.definitions import FUNCTION, NUMBER, OP, TEXT, Stated
from ge.dialects.support.editing import fuse_locations
from ge.dialects.support.operation import (
    GeOp,
    block_of,
    cloned,
    created,
    initialize,
    operands_of,
    ops_of,
    put_last,
)
from ge.dialects.support.tensor_op import (
    ResizeInterface,
    SplitInterface,
    TensorOp,
    split_axes,
)
from ge.dialects.support.types import byte_size, is_static, set_type, shape_of

# attribute of ops: a number, 0 where absent; ops of two phases do not share a launch
PHASE = "fused_op.phase"

# attribute of ops: the engine that the user chose; what multiplies shares no launch with "vector"
ENGINE = "fused_op.engine"

RECOMPUTED = "fused_op.recomputed"  # attribute of @main: how many ops recompute a value

STATED = {
    PHASE: Stated(NUMBER, (OP,)),
    ENGINE: Stated(TEXT, (OP,)),
    RECOMPUTED: Stated(NUMBER, (FUNCTION,)),
}


def multiplies(op: Operation) -> bool:
    """True if the op needs the cube."""
    return isinstance(op, TensorOp) and (op.IS_MATMUL or op.ALWAYS_MACS)


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    """The ops that one launch computes, in order, their operands and results in memory. It need not
    be an op yet: rules compare bodies before they build one."""

    ops: Sequence[TensorOp]
    inputs: Sequence[SSAValue]
    outputs: Sequence[SSAValue]
    kind: str = ""  # of `CustomOp`
    # caches that bodies of the same ops share: the work of ops, and equal numbers of equal ops
    works: dict[TensorOp, Work] = field(default_factory=dict[TensorOp, Work])
    numbers: dict[TensorOp, int] = field(default_factory=dict[TensorOp, int])

    @classmethod
    def of(cls, op: "TensorOp | Body") -> "Body":
        """The body of a fused op; any other op is a body of one."""
        if isinstance(op, Body):
            return op
        if isinstance(op, FusedOp):
            kind = op.kind.data if isinstance(op, CustomOp) else ""
            return cls(op.members, op.block.args, op.yielded, kind)
        return cls([op], list(dict.fromkeys(operands_of(op))), op.results)

    @property
    def is_static(self) -> bool:
        new = [r for op in self.ops if op not in self.works for r in op.results]
        for value in (*self.inputs, *self.outputs, *new):
            if not isinstance(value.type, TensorType) or not is_static(shape_of(value)):
                return False
        return True

    def work_of(self, op: TensorOp) -> Work:
        work = self.works.get(op)
        if work is None:
            work = self.works[op] = op.static_work()
        return work

    def work(self) -> Work | None:
        try:
            return self.static_work()
        except ValueError:
            return None

    def static_work(self) -> Work:
        """The work of the ops; each input is read and each output written once."""
        if self.kind and (work := user_kernels().work.get(self.kind)):
            return work(self)
        inner = [self.work_of(op) for op in self.ops]
        if len(inner) == 1:
            return inner[0]
        read = sum(self.bytes_read().values())
        written = sum(byte_size(v.type) for v in self.outputs)
        return Work(sum(w.macs for w in inner), sum(w.vector for w in inner), read, written)

    def boxes(self, value: SSAValue, box: Box) -> dict[SSAValue, Box | None]:
        """The boxes of values that a box of one needs. None: it may need any element, or users need
        boxes that have none in common as far as is known."""
        boxes: dict[SSAValue, Box | None] = {value: box}
        for op in reversed(self.ops):
            for number, own in [(r, boxes[v]) for r, v in enumerate(op.results) if v in boxes]:
                for i, operand in enumerate(op.operands):
                    need = None if own is None else op.operand_box(i, own, number)
                    boxes[operand] = need if operand not in boxes else hull(boxes[operand], need)
        return boxes

    def bytes_read(self) -> dict[SSAValue, int]:
        """Bytes of each input that the ops need, each byte once."""
        read = dict.fromkeys(self.inputs, 0)
        for op in self.ops:
            for i, value in enumerate(operands_of(op)):
                if value in read:
                    read[value] += op.bytes_read(i)
        return {v: min(size, byte_size(v.type)) for v, size in read.items()}


def worker(ops: Sequence[Operation]) -> Operation:
    """The op of a launch that does the most of its work, whose source node names the launch: the
    one that multiplies most, else one that normalizes, else the one with most work on elements.
    Where sizes are not known, the facts of ops decide."""

    def work(op: Operation) -> tuple[int, bool, int]:
        if not isinstance(op, TensorOp):
            return 0, False, 0
        try:
            known = op.static_work()
        except ValueError:
            return int(op.ALWAYS_MACS), op.NORMALIZES, int(op.ACCESS not in MOVING)
        return known.macs, op.NORMALIZES, known.vector

    return max(ops, key=work)


@irdl_op_definition
class YieldOp(GeOp):
    """The results of a fused op's body."""

    name = "fused_op.yield"
    values = var_operand_def(VALUES)
    traits = lazy_traits_def(lambda: (IsTerminator(), ReturnLike(), Pure()))
    assembly_format = "$values attr-dict `:` type($values)"

    def __init__(self, *values: SSAValue):
        initialize(self, values)


class FusedOp(SplitInterface, ABC):
    """Base of the fused ops."""

    HOLDS: ClassVar[str] = "an op"  # which the algorithm is for: see `computes`
    inputs = var_operand_def(ANY)
    outputs = var_result_def(VALUES)
    body = region_def("single_block")
    traits = traits_def(NoMemoryEffect(), RecursivelySpeculatable(), IsolatedFromAbove())
    assembly_format = (
        "`(` $inputs `)` `:` functional-type($inputs, $outputs) attr-dict-with-keyword $body"
    )

    @classmethod
    def wrap(
        cls, ops: Sequence[Operation], results: Sequence[SSAValue], **properties: Attribute
    ) -> Self:
        """A fused op (not inserted yet) whose body are clones of `ops`, in their order, yielding
        the clones of `results`; values from outside become its inputs."""
        inside = {r for op in ops for r in op.results}
        used = [v for op in ops for v in operands_of(op) if v not in inside]
        inputs = list(dict.fromkeys(used))
        block = block_of([v.type for v in inputs])
        mapping: dict[SSAValue, SSAValue] = dict(zip(inputs, block.args, strict=True))
        for op in ops:
            put_last(block, cloned(op, mapping))
        put_last(block, YieldOp(*[mapping[r] for r in results]))
        types = [r.type for r in results]
        fused = created(cls, inputs, types, dict(properties), [Region(block)])
        fused.location = fuse_locations((worker(ops), *ops))
        return fused

    @classmethod
    def computes(cls, op: TensorOp) -> bool:
        """True if the op, by its facts, is what the algorithm of the body is for."""
        return True

    @property
    def block(self) -> Block:
        return self.body.block

    @property
    def yielded(self) -> Sequence[SSAValue]:
        last = self.body.block.last_op
        return operands_of(last) if isinstance(last, YieldOp) else ()

    @property
    def members(self) -> list[TensorOp]:
        ops = ops_of(self.body.block)
        if ops and type(ops[-1]) is YieldOp:
            ops.pop()
        return [op for op in ops if isinstance(op, TensorOp)]

    def infer(self) -> Sequence[Attribute]:
        if not isinstance(self.body.block.last_op, YieldOp):
            raise VerifyException("the body ends in fused_op.yield")
        args = self.body.block.args
        if tuple(a.type for a in args) != tuple(v.type for v in self.inputs):
            raise VerifyException("the body's arguments differ from the inputs in number or type")
        for op in self.body.block.ops:
            if not isinstance(op, TensorOp | YieldOp) or isinstance(op, FusedOp) or op.regions:
                raise VerifyException(f"the body holds graph ops only, not {op.name}")
        if not any(map(self.computes, members := self.members)):
            names = ", ".join(dict.fromkeys(op.name for op in members)) or "nothing"
            raise VerifyException(f"the body holds {self.HOLDS}, not {names}")
        return [v.type for v in self.yielded]

    def static_work(self) -> Work:
        return Body.of(self).static_work()

    def bytes_written(self, index: int) -> int:
        value = self.yielded[index]
        if not isinstance(value, OpResult) or not isinstance(value.op, TensorOp):
            return super().bytes_written(index)  # an input, unchanged
        return value.op.bytes_written(value.index)

    def accepts_strided(self) -> bool:
        return all(op.accepts_strided() for op in self.members)

    def local_parts(self, index: int) -> int | None:
        """The greatest common divisor over the ops between the input and a result."""
        parts = self.following(self.block.args[index]) if Body.of(self).is_static else None
        return None if parts is None else gcd(*(parts.get(v, 0) for v in self.yielded))

    def in_place_pairs(self) -> Iterator[tuple[int, int]]:
        """Pairs of a result and an input such that all that depends on the input needs it chunk by
        chunk, and the result depends on it: no other result, where each is computed of boxes of its
        own. Of rows, which cores cut within a chunk, both have the same."""
        if not Body.of(self).is_static:
            return
        apart = self.is_cut_apart
        in_rows = any(op.ACCESS is Access.ROWS for op in self.members)
        for i, (arg, value) in enumerate(zip(self.block.args, self.inputs, strict=True)):
            fitting = [
                r
                for r, result in enumerate(self.results)
                if same_bytes(result, value) and (not in_rows or have_same_rows(result, value))
            ]
            if fitting and (following := self.following(arg)) is not None:
                if apart and sum(value in following for value in self.yielded) > 1:
                    continue
                yield from ((r, i) for r in fitting if self.yielded[r] in following)

    @property
    def is_cut_apart(self) -> bool:
        """True if each result is computed of boxes of its own: where vector cores move elements,
        unless these stand in rows that all results are computed of."""
        if any(multiplies(op) or op.ACCESS is Access.ROWS for op in self.members):
            return False
        return any(op.ACCESS in (Access.MOVEMENT, Access.LOOKUP) for op in self.members)

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        boxes = Body.of(self).boxes(self.yielded[result], box)
        return boxes.get(self.block.args[index], Box.nothing(shape_of(self.inputs[index])))

    def split_axes(self, axis: int) -> tuple[int | None, ...] | None:
        return self.split_along([axis] * len(self.yielded))

    def split_along(self, axes: Sequence[int]) -> tuple[int | None, ...] | None:
        """The axes of operands for an axis of each result, propagated backwards. None where an op
        needs all of a value that another one computes, which each part would have to compute
        again."""
        needed: dict[SSAValue, int | None] = dict(zip(self.yielded, axes, strict=True))
        for op in reversed(self.members):
            if not (mine := {needed[r] for r in op.results if r in needed}) or not op.operands:
                continue
            own = mine.pop()
            if mine or own is None:
                return None
            if isinstance(op, ResizeInterface):
                its_axes = None if (part := op.part_axis(own)) is None else (part,)
            else:
                its_axes = split_axes(op, own)
            if its_axes is None:
                return None
            for operand, its in zip(op.operands, its_axes, strict=True):
                if needed.setdefault(operand, its) != its:
                    return None
        if any(needed.get(op.results[0]) is not None for op in self.members if not op.operands):
            return None
        return tuple(needed.get(a) for a in self.block.args)

    def on(self, inputs: Sequence[SSAValue]) -> Self:
        """A clone (not inserted yet) on inputs of other shapes. Raises VerifyException where an op
        inside does not take them."""
        block = Block(arg_types=[v.type for v in inputs])
        mapping: dict[SSAValue, SSAValue] = dict(zip(self.block.args, block.args, strict=True))
        for op in self.members:
            clone: TensorOp = op.clone(mapping)
            if isinstance(op, ResizeInterface) and isinstance(clone, ResizeInterface):
                clone.resize(op)
            block.add_op(clone)
            for result, t in zip(clone.results, clone.inferred(), strict=True):
                set_type(result, t)
            mapping |= zip(op.results, clone.results, strict=True)
        block.add_op(YieldOp(*(mapping[v] for v in self.yielded)))
        new = type(self)(
            operands=[inputs],
            result_types=[[mapping[v].type for v in self.yielded]],
            properties=dict(self.properties),
            regions=[Region(block)],
        )
        new.location = self.location
        return new

    def following(self, arg: SSAValue) -> dict[SSAValue, int] | None:
        """The values that depend on an input of the body, and in how many chunks both can be cut so
        that chunk i reads chunk i only; None when something reads others."""
        chunks = {arg: prod(shape_of(arg))}
        for op in self.members:
            for index, operand in enumerate(op.operands):
                if operand not in chunks:
                    continue
                if (parts := op.local_parts(index)) is None:
                    return None
                for result in op.results:
                    chunks[result] = gcd(chunks.get(result, 0), chunks[operand], parts)
        return chunks


def have_same_rows(a: SSAValue, b: SSAValue) -> bool:
    """True if both values have the same dimensions, apart from dimensions of size 1 if their ranks
    differ."""
    first, second = shape_of(a), shape_of(b)
    long = ([d for d in shape if d != 1] for shape in (first, second))
    return first == second if len(first) == len(second) else next(long) == next(long)


@irdl_op_definition
class LinearOp(FusedOp):
    """Matmuls, of one left-hand side if there are several, and ops on their tiles on the way out:
    bias, scale, activation, gate, residual, stores to other addresses."""

    name = "fused_op.linear"
    HOLDS: ClassVar = "a matmul"

    @classmethod
    def computes(cls, op: TensorOp) -> bool:
        return op.IS_MATMUL


@irdl_op_definition
class ConvOp(FusedOp):
    """A convolution and ops on its tiles on the way out: bias, activation, residual, pad, pool."""

    name = "fused_op.conv"
    HOLDS: ClassVar = "a convolution"

    @classmethod
    def computes(cls, op: TensorOp) -> bool:
        return op.ALWAYS_MACS and not op.IS_MATMUL


@irdl_op_definition
class NormOp(FusedOp):
    """Norms of rows that stay on the core, with the ops around them."""

    name = "fused_op.norm"
    HOLDS: ClassVar = "a norm"

    @classmethod
    def computes(cls, op: TensorOp) -> bool:
        return op.ACCESS is Access.ROWS


@irdl_op_definition
class FlashAttentionOp(FusedOp):
    """Attention by tiles with online softmax (Dao et al., arXiv 2205.14135; Milakov and Gimelshein,
    arXiv 1805.02867)."""

    name = "fused_op.flash_attention"
    HOLDS: ClassVar = "an attention"

    @classmethod
    def computes(cls, op: TensorOp) -> bool:
        return op.ALWAYS_MACS and not op.IS_MATMUL


@irdl_op_definition
class RegionOp(FusedOp):
    """Ops of the vector unit in one walk over tiles."""

    name = "fused_op.region"


@dataclass(frozen=True, slots=True)
class UserKernels:
    """For each kind of `CustomOp`, the function of arrays that runs it, and the work of one launch
    if its author states it."""

    functions: dict[str, Callable[..., Any]] = field(default_factory=dict[str, Callable[..., Any]])
    work: dict[str, Callable[[Body], Work]] = field(
        default_factory=dict[str, Callable[[Body], Work]]
    )


_OF_PROCESS = UserKernels()


def user_kernels() -> UserKernels:
    """The kernels of users: those of the process, unless others are at hand."""
    return at_hand(UserKernels) or _OF_PROCESS


@irdl_op_definition
class CustomOp(FusedOp):
    """A launch of a kernel that a user wrote (`ge.FusedOp`). The body computes the same: it is run
    where the kernel is not loaded, and the kernel is checked by it."""

    name = "fused_op.custom"
    kind = prop_def(StringAttr)

    def in_place_pairs(self) -> Iterator[tuple[int, int]]:
        return iter(())

    def accepts_strided(self) -> bool:
        return False

    def split_axes(self, axis: int) -> tuple[int | None, ...] | None:
        return None

    assembly_format = (
        "$kind `(` $inputs `)` `:` functional-type($inputs, $outputs) attr-dict-with-keyword $body"
    )


FusedOps = Dialect(
    "fused_op", [YieldOp, LinearOp, ConvOp, NormOp, FlashAttentionOp, RegionOp, CustomOp], []
)
