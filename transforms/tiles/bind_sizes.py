"""A kernel whose sizes are arguments, at known sizes.

    tile.kernel @k(%x: memref<?x64xf32>) sizes ["batch"] cores 4 {
      tile.vector {
        %n = tile.size "batch"
        %0 = arith.addi %n, %c7 : index
        %1 = arith.floordivsi %0, %c8 : index
with `batch = 20` becomes
    tile.kernel @k(%x: memref<20x64xf32>) cores 4 {
      tile.vector {
        // %1 is %c3

Values that follow from sizes alone are computed here. The program is the same one: no cut is
chosen, and no place, flag or buffer is chosen anew.
"""

from collections.abc import Mapping
from typing import cast

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, Block, Operation

from ge.dialects.support.dims import value_of
from ge.dialects.support.editing import replace_uses
from ge.dialects.support.errors import GeError
from ge.dialects.support.operation import cloned, operands_of, ops_of
from ge.dialects.support.types import DYNAMIC, Shape, dense_memref, set_type
from ge.dialects.tile.buffers import constant_index
from ge.dialects.tile.instruction import ARITHMETIC, Binary
from ge.dialects.tile.kernel import KernelOp, SizeOp
from ge.runtime.library.language.arith import INDEX, Constants


def bound_types(kernel: KernelOp, sizes: Mapping[str, int]) -> list[MemRefType[Attribute]]:
    """Return the types of its memrefs where dimensions have these sizes. Raises GeError if one has
    none."""
    texts = iter([] if kernel.sizes is None else [text.data for text in kernel.sizes])
    types: list[MemRefType[Attribute]] = []
    for arg in kernel.body.block.args:
        memref = cast("MemRefType[Attribute]", arg.type)
        shape: Shape = tuple(
            size_at(next(texts), sizes) if d == DYNAMIC else d for d in memref.get_shape()
        )
        types.append(dense_memref(memref.element_type, shape))
    return types


def size_at(text: str, sizes: Mapping[str, int]) -> int:
    if (size := value_of(text, sizes)) is None:
        raise GeError(f"the size '{text}' of a tile program is not known")
    return size


def bound(kernel: KernelOp, sizes: Mapping[str, int]) -> KernelOp:
    """A copy of a kernel at these sizes. Raises GeError where one is not known."""
    types = bound_types(kernel, sizes)
    new = cloned(kernel, {})
    new.properties.pop("sizes", None)
    new.attributes.clear()
    for arg, t in zip(new.body.block.args, types, strict=True):
        set_type(arg, t)
    fold(new.body.block, sizes)
    for program in new.programs:
        fold(program.body.block, sizes)
    return new


def fold(block: Block, sizes: Mapping[str, int]) -> None:
    """Put numbers in the place of values that follow from sizes; each is there once, at the
    beginning."""
    constant = Constants(block)

    def walk(inner: Block) -> None:
        for op in ops_of(inner):
            if (number := number_of(op, sizes)) is not None:
                replace_uses(op.results[0], constant(number))
                op.detach()
                op.erase()
                continue
            for region in op.regions:
                for nested in region.blocks:
                    walk(nested)

    walk(block)


def number_of(op: Operation, sizes: Mapping[str, int]) -> int | None:
    """Return the number that an op computes of numbers; None if it does not."""
    if isinstance(op, SizeOp):
        return size_at(op.dim.data, sizes)
    if not isinstance(op, Binary) or op.result.type != INDEX:
        return None
    a, b = map(constant_index, operands_of(op))
    return None if a is None or b is None else ARITHMETIC[type(op)](a, b)
