"""onnxruntime's MatMulNBits: a weight of 2, 4 or 8 bits, with a scale for each block of a row.

The codes come several in a byte. They become a weight of that element type, dequantized by blocks
as quantization of weights writes it: matmuls take both in. Codes that are known at run time only
are taken out of their bytes by ops.
"""

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import i8
from xdsl.ir import Attribute, SSAValue

from ge.dialects.graph import elementwise as e
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.indexing import GatherOp
from ge.dialects.graph.quantization import DequantizeOp
from ge.dialects.graph.shape import ReshapeOp, UnsqueezeOp
from ge.dialects.graph.slicing import ConcatOp, SliceOp
from ge.dialects.support.element_types import i2, i4, is_float, ui2, ui4, ui8
from ge.dialects.support.types import element_type, tensor
from ge.lowering.onnx.contrib import ANY, contrib_op
from ge.lowering.onnx.ops.contrib_activation import plus
from ge.lowering.onnx.ops.linear import multiply
from ge.lowering.onnx.order import node_name
from ge.lowering.onnx.registry import Node, Unsupported
from ge.runtime.data.arrays import Array, dtype_of
from ge.runtime.data.packing import unpacked

# bits -> the types of codes with and without a sign
_TYPES: dict[int, tuple[Attribute, Attribute]] = {2: (i2, ui2), 4: (i4, ui4), 8: (i8, ui8)}


@dataclass(frozen=True)
class Codes:
    """How the weight of a node is stored: `rows` of `terms` codes, `block` of them with one
    scale."""

    rows: int
    terms: int
    bits: int
    block: int

    @staticmethod
    def of(n: Node) -> "Codes":
        codes = Codes(n.int("N"), n.int("K"), n.int("bits", 4), n.int("block_size"))
        if codes.bits not in _TYPES:
            raise Unsupported(f"attribute 'bits' is {codes.bits}, supported are 2, 4 and 8")
        if min(codes.rows, codes.terms, codes.block) < 1:
            raise Unsupported("attributes 'N', 'K' and 'block_size' are positive")
        return codes

    @property
    def blocks(self) -> int:
        return -(-self.terms // self.block)

    @property
    def middle(self) -> int:
        """The zero point where none is given."""
        return 1 << (self.bits - 1)


def _known(n: Node, codes: Codes, index: int, count: int) -> Array | None:
    """The first `count` codes of each row of input `index`, unsigned, if its bytes are at hand."""
    data = n.constant(index)
    if data is None:
        return None
    if data.nbytes % codes.rows or data.nbytes // codes.rows * 8 // codes.bits < count:
        raise Unsupported(f"input {index} has {data.nbytes} bytes for {codes.rows} x {count} codes")
    bytes_ = np.ascontiguousarray(data).reshape(-1).view(np.uint8).reshape(codes.rows, -1)
    if codes.bits == 8:
        return bytes_[:, :count]
    return unpacked(bytes_, dtype_of(_TYPES[codes.bits][1]), count)


def _taken_out(n: Node, codes: Codes, index: int, count: int) -> SSAValue:
    """The same as ui8, by ops."""
    data = n.emit(ReshapeOp, n[index], shape=(codes.rows, -1))
    parts: list[SSAValue] = []
    for place in range(0, 8, codes.bits):
        moved = data
        if place:
            moved = n.emit(e.ShiftOp, data, n.const(place, ui8), direction="right")
        low = n.emit(e.AndOp, moved, n.const((1 << codes.bits) - 1, ui8))
        parts.append(n.emit(UnsqueezeOp, low, axes=(2,)))
    rows = n.emit(ReshapeOp, n.emit(ConcatOp, parts, axis=2), shape=(codes.rows, -1))
    return n.emit(SliceOp, rows, starts=(0,), ends=(count,), axes=(1,))


def _is_without_bytes(value: SSAValue) -> bool:
    """Whether it is a weight, whose bytes are not at hand if they are asked for in vain."""
    return isinstance(value.owner, ConstantOp)


def _constant(
    n: Node, what: str, array: Array | None, shape: tuple[int, int], t: Attribute
) -> SSAValue:
    return n.scope.constant(f"{node_name(n.proto)}.{what}", tensor(shape, t), array)


def _signed(codes: Codes, array: Array) -> Array:
    """Codes less the zero point in the middle."""
    moved = array.astype(np.int16) - codes.middle
    return moved.astype(dtype_of(_TYPES[codes.bits][0]))


@dataclass(frozen=True)
class Quantized:
    """Codes, and their zero points where these are integers (None: 0)."""

    codes: SSAValue
    zero: SSAValue | None


def _symmetric(n: Node, codes: Codes) -> bool:
    """Whether all zero points are the one in the middle."""
    if n.get(3) is None:
        return True
    known = None if is_float(n.element(3)) else _known(n, codes, 3, codes.blocks)
    return known is not None and bool((known.astype(np.int16) == codes.middle).all())


def _quantized(n: Node, codes: Codes) -> Quantized:
    """The weight's codes; signed ones have no zero point. Zero points of floats stay apart."""
    signed, unsigned = _TYPES[codes.bits]
    shape, known = (codes.rows, codes.terms), _known(n, codes, 1, codes.terms)
    stored = known is not None or _is_without_bytes(n[1])
    if _symmetric(n, codes) and stored:
        array = None if known is None else _signed(codes, known)
        return Quantized(_constant(n, "codes", array, shape, signed), None)
    if stored:
        weight = _constant(n, "codes", known, shape, unsigned)
    else:
        weight, unsigned = _taken_out(n, codes, 1, codes.terms), ui8
    if n.get(3) is not None and is_float(n.element(3)):
        return Quantized(weight, None)
    return Quantized(weight, _zero_points(n, codes, unsigned))


def _zero_points(n: Node, codes: Codes, t: Attribute) -> SSAValue:
    """Zero points [N, blocks] of integers, of type `t`."""
    shape = (codes.rows, codes.blocks)
    if n.get(3) is None:
        return n.const(np.full(shape, codes.middle), t)
    known = _known(n, codes, 3, codes.blocks)
    if known is not None:
        return _constant(n, "zero_points", known.astype(dtype_of(t)), shape, t)
    if _is_without_bytes(n[3]):
        return _constant(n, "zero_points", None, shape, t)
    found = _taken_out(n, codes, 3, codes.blocks)
    return found if t == ui8 else n.emit(e.CastOp, found, to=t)


def _by_block(n: Node, codes: Codes, value: SSAValue) -> tuple[SSAValue, int]:
    """Scales or zero points, and how many codes each is for: one for each code where `g_idx` says
    which block a code belongs to."""
    value = n.emit(ReshapeOp, value, shape=(codes.rows, codes.blocks))
    if n.get(4) is None:
        return value, codes.block
    return n.emit(GatherOp, value, n[4], axis=1), 1


def _weight(n: Node, codes: Codes) -> SSAValue:
    """The weight [N, K] as floats."""
    quantized, (scale, block) = _quantized(n, codes), _by_block(n, codes, n[2])
    granularity = {"axis": 1, "block_size": block}
    zero = n.get(3)
    if zero is None or not is_float(element_type(zero)):
        zero = quantized.zero
        zero = zero if zero is None else _by_block(n, codes, zero)[0]
        return n.emit(DequantizeOp, quantized.codes, scale, zero, **granularity)
    # (code - zero point) scale = code scale - zero point scale
    moved = n.emit(e.MulOp, _by_block(n, codes, zero)[0], scale)
    ones = n.const(np.ones((codes.rows, codes.terms)), i8)
    spread = n.emit(DequantizeOp, ones, moved, None, **granularity)
    return n.emit(
        e.SubOp, n.emit(DequantizeOp, quantized.codes, scale, None, **granularity), spread
    )


@contrib_op(
    "MatMulNBits",
    K=ANY, N=ANY, accuracy_level=ANY, bits=ANY, block_size=ANY, weight_prepacked=0,
)  # fmt: skip
def matmul_nbits(n: Node) -> SSAValue:
    """A B^T + bias. `accuracy_level` allows onnxruntime to round A; here it stays as it is."""
    weight = _weight(n, Codes.of(n))
    return plus(n, multiply(n, n[0], weight, transpose_rhs=True), n.get(5))
