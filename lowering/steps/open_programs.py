"""Tile programs whose sizes are arguments: of kernels of a program with dimensions that are not
known yet.

What such a program's launches compute is known when it is bound to sizes. It is bound to a few, the
first of which are those that its cuts are chosen for. A kernel whose body is the same at all of
them, but for numbers that follow from dimensions by products and sums, is written once more with
extents (`dialects/support/dims.py`) in the place of these numbers, at two sizes far above all
bounds of tiles: then every dimension takes the way of many tiles with a part of one at the end, and
what of a program depends on sizes says how. Where the two programs differ, there is none.

    npu_task.kernel @relu_0 : tensor<4096x64xf32>, at others tensor<3233x64xf32>, ...
    tile.kernel @relu_0_tiles(%in0: memref<?x64xf32>, ...) sizes ["batch * past", ...] cores 40

At further sizes a kernel has the one that was written for its text (`bound_programs.py`), and
nothing is written.
"""

import json
from collections.abc import Mapping, Sequence
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, MemRefType, StringAttr
from xdsl.ir import Attribute

from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.support.dims import Extent
from ge.dialects.support.operation import all_ops
from ge.dialects.support.types import (
    DYNAMIC,
    dense_memref,
    set_type,
)
from ge.dialects.targets.target import Target
from ge.dialects.text.outline import Outline
from ge.dialects.text.printing import op_text
from ge.dialects.tile.kernel import KernelOp as TileKernelOp
from ge.lowering.steps.bound_programs import COMPUTES, ESTIMATES, Holes, text_of
from ge.runtime.library.costs.estimates import Figures, figures_of
from ge.runtime.library.costs.structure import data_of, unseen
from ge.runtime.library.launch import Decisions, NotLowered, deciding
from ge.transforms.shapes.open_kernels import Samples, with_extents
from ge.transforms.tiles.bind_sizes import bound

BY_SIZES = "sizes alone decide what it computes: no launch of it is left"


# ---- writing ----------------------------------------------------------------------------------


def holes_at(kernels: Sequence[KernelOp], samples: Samples) -> Holes:
    """What is the same of a kernel, which is given as it is at each of the sizes. Raises
    NotLowered where that is not all but numbers."""
    outline = Outline({})
    return Holes.of([text_of(k, outline) for k in kernels], samples.expression)


def open_program(
    kernels: Sequence[KernelOp],
    samples: Samples,
    target: Target,
    named: Mapping[str, Attribute],
) -> TileKernelOp:
    """The program of a kernel, which is given as it is at each of the sizes; finished for the
    target that the attributes `named` name. Raises NotLowered where there is none for all sizes."""
    from ge.lowering.steps.written import finish_alone, lowered, tile_program

    holes, decisions = holes_at(kernels, samples), Decisions()
    with deciding(decisions):
        lowered(kernels[0], target)
    programs: list[TileKernelOp] = []
    for sizes in samples.far():
        kernel = with_extents(kernels, samples, sizes)
        with unseen(data_of(all_ops(kernel.body.blocks))):
            with deciding(Decisions([*decisions.made], again=True)):
                programs.append(opened(tile_program(kernel, "program", target)))
    check_same(*programs)
    program = programs[0]
    finish_alone(program, "", named)
    program.attributes[COMPUTES] = StringAttr(str(holes))
    if figures := ends_of(program, samples.sizes[0], target):
        program.attributes[ESTIMATES] = StringAttr(json.dumps(figures))
    return program


def check_same(program: TileKernelOp, other: TileKernelOp) -> None:
    """Raises NotLowered where programs differ, or have sizes in the place of numbers."""
    text, other_text = map(Outline({}).of, (program, other))
    if text != other_text:
        lines = difference(*map(op_text, (program, other)))
        raise NotLowered(f"it has other programs at other sizes: {lines}")
    if "⟨" in text:
        line = next(line for line in op_text(program).splitlines() if "⟨" in line)
        raise NotLowered(f"a size stands where a number is wanted: {line.strip()}")


def ends_of(
    program: TileKernelOp, largest: Mapping[str, int], target: Target
) -> list[Figures] | None:
    """What a program takes by estimate, at the least sizes and at those that it is cut for; None
    where the target lacks what that follows from."""
    ends = [figures_of(bound(program, s), target) for s in (dict.fromkeys(largest, 1), largest)]
    known = [figures for figures in ends if figures is not None]
    return known if len(known) == len(ends) else None


def difference(a: str, b: str) -> str:
    """The first lines that differ."""
    pairs = zip(a.splitlines(), b.splitlines(), strict=False)
    return next((f"'{x.strip()}', '{y.strip()}'" for x, y in pairs if x != y), "one is longer")


def opened(program: TileKernelOp) -> TileKernelOp:
    """The program with `?` in the place of extents, which `sizes` has."""
    texts: list[str] = []
    for arg in program.body.block.args:
        memref = cast("MemRefType[Attribute]", arg.type)
        extents = [d for d in memref.get_shape() if type(d) is Extent]
        texts += [str(d.size) for d in extents]
        shape = tuple(DYNAMIC if type(d) is Extent else d for d in memref.get_shape())
        set_type(arg, dense_memref(memref.element_type, shape))
    program.sizes = ArrayAttr(map(StringAttr, texts)) if texts else None
    return program
