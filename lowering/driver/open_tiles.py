"""Tile programs for a program of unknown shapes, whose sizes are their arguments.

It is bound to three sizes (`open_programs.py` says why): first to the largest that its dimensions
may have, and where one has no largest to MIDDLE. For these the programs are cut. Where a dimension
may be 1, bodies may be others then (a transposition is a view): these have programs of their own,
and if the dimension is the first of an input all have, which are cut for a batch of 1.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph.ports import dim_ranges
from ge.dialects.npu_task.ops import NO_TILES, OPEN_TILES, KernelOp
from ge.dialects.support.diagnostics import remark
from ge.dialects.support.dims import Range, symbols
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.targets.target import target_for
from ge.dialects.tile.kernel import KernelOp as TileKernelOp
from ge.lowering.driver.binding import Binder, options_of
from ge.lowering.driver.tiles import Coverage
from ge.lowering.steps.lower_to_tasks import symbols_of
from ge.lowering.steps.open_programs import (
    BY_SIZES,
    OpenPrograms,
    Samples,
    Values,
    holes_at,
    open_program,
    prime_from,
)
from ge.runtime.library.launch import NotLowered
from ge.transforms.shapes.sizes import named_dims

if TYPE_CHECKING:
    from ge.lowering.driver.program import Program

MIDDLE = 64  # of a dimension that has no largest size


def write_open_programs(program: "Program") -> None:
    """Beside the kernels of a program that leaves sizes open. Those of whose launches some have no
    program keep a reason, as all others do."""
    module = program.module
    main = main_function(module)
    assert main is not None
    options = replace(options_of(module, program.compilation.options), tiles=False)
    binder, writer = Binder(program, options), Writer(module)
    old = kernels_in(module)
    try:
        writer.write(old, samples := samples_of(main), binder)
    except (GeError, VerifyException) as e:
        for kernel in old.values():
            kernel.attributes[NO_TILES] = StringAttr(f"the program is not bound to sizes: {e}")
        return
    for name, size in samples.sizes[0].items():
        if size != 1 and 1 in dim_ranges(main).get(name, Range()):
            with suppress(GeError, VerifyException):  # it may have no such sizes
                is_first = any(axis == 0 for _, axis in named_dims(main).get(name, ()))
                writer.add_others(old, samples.where(name, 1), binder, only_new=not is_first)
    program.compilation.tiles = Coverage.of(module, target_for(main))


def samples_of(main: FuncOp) -> Samples:
    """Sizes that a program may be bound to."""
    names = dict.fromkeys(s for n in named_dims(main) for s in symbols(n))
    ranges = dim_ranges(main)
    columns = {n: three(ranges.get(n, Range()), i) for i, n in enumerate(names)}
    sizes = [{n: column[i] for n, column in columns.items()} for i in range(3)]
    return Samples(sizes, list(dict.fromkeys((*names, *named_dims(main)))))


def three(allowed: Range, number: int) -> Sequence[int]:
    """Sizes of dimension `number`: the largest, and others of no special kind."""
    if allowed.most is None:
        first = max(MIDDLE, allowed.least)
        return first, prime_from(first + 3 + 5 * number), prime_from(first + 31 + 7 * number)
    most, least = allowed.most, max(allowed.least, min(1, allowed.most))
    return most, max(most - 1 - 2 * number, least), max(most - 3 - 3 * number, least)


def kernels_in(module: ModuleOp) -> dict[str, KernelOp]:
    return {op.sym_name.data: op for op in module.ops if isinstance(op, KernelOp)}


class Writer:
    """Writes the programs of a module."""

    def __init__(self, module: ModuleOp) -> None:
        self.module, self.taken = module, symbols_of(module)
        self.known: dict[str, str] = {}  # names of programs by what they compute
        main = main_function(module)
        assert main is not None
        self.target, self.named = target_for(main), main.attributes

    def write(self, kernels: Mapping[str, KernelOp], samples: Samples, binder: Binder) -> None:
        """Those of all kernels, or why there is none."""
        bound = [kernels_in(binder.at(sizes).module) for sizes in samples.sizes]
        made: dict[str, list[KernelOp]] = {name: [] for name in kernels}
        for name, kernel in bound[0].items():
            made[origin(name, kernels)].append(kernel)
        for name, kernel in kernels.items():
            try:
                if not made[name]:
                    raise NotLowered(BY_SIZES)
                names = [self.program(k, kernel, bound, samples) for k in made[name]]
            except NotLowered as e:
                kernel.attributes[NO_TILES] = StringAttr(str(e))
                if str(e) != BY_SIZES:
                    remark(kernel, f"@{name} has no tile program: {e}")
                continue
            kernel.attributes.pop(NO_TILES, None)
            kernel.attributes[OPEN_TILES] = names_of(names)

    def add_others(
        self, kernels: Mapping[str, KernelOp], samples: Samples, binder: Binder, only_new: bool
    ) -> None:
        """Those for these sizes alone: of all kernels, or of bodies that are others then."""
        bound = [kernels_in(binder.at(sizes).module) for sizes in samples.sizes]
        known, values = OpenPrograms.of(self.module.ops), Values(samples.sizes[0])
        for name, kernel in bound[0].items():
            of = kernels[origin(name, kernels)]
            is_known = only_new and known.found(kernel, values) is not None
            if OPEN_TILES in of.attributes and not is_known:
                with suppress(NotLowered):
                    before = cast("ArrayAttr[StringAttr]", of.attributes[OPEN_TILES])
                    names = [text.data for text in before]
                    made = self.program(kernel, of, bound, samples)
                    of.attributes[OPEN_TILES] = names_of([*names, made])

    def program(
        self,
        kernel: KernelOp,
        of: KernelOp,
        bound: Sequence[Mapping[str, KernelOp]],
        samples: Samples,
    ) -> str:
        """The name of the program of a kernel that another one becomes. Raises NotLowered."""
        name = kernel.sym_name.data
        if any(name not in kernels for kernels in bound):
            raise NotLowered("other kernels are made of it at other sizes")
        kernels = [kernels[name] for kernels in bound]
        holes = str(holes_at(kernels, samples))
        if holes not in self.known:
            made = open_program(kernels, samples, self.target, self.named)
            self.known[holes] = self.add(made, f"{name}_tiles", of)
        return self.known[holes]

    def add(self, program: TileKernelOp, name: str, after: KernelOp) -> str:
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        program.sym_name = StringAttr(name)
        self.module.body.block.insert_op_after(program, after)
        return name


def names_of(programs: Sequence[str]) -> ArrayAttr[StringAttr]:
    return ArrayAttr(map(StringAttr, dict.fromkeys(programs)))


def origin(name: str, kernels: Mapping[str, KernelOp]) -> str:
    """The kernel that one of this name is made of: names of further ones have a number behind."""
    while name not in kernels:
        name = name.rpartition("_")[0]
        assert name
    return name
