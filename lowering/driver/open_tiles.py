"""Tile programs for a program of unknown shapes, whose sizes are their arguments.

It is bound to three sizes (`open_programs.py` says why): first to the largest that its dimensions
may have, and where one has no largest to MIDDLE. For these the programs are cut. Where a dimension
may be 1, bodies may be others then (a transposition is a view): these have programs of their own,
and if the dimension is the first of an input all have, which are cut for a batch of 1.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph.ports import dim_ranges
from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.npu_task.program_info import OPEN_TILES
from ge.dialects.support.diagnostics import remark
from ge.dialects.support.dims import Range
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.targets.target import target_for
from ge.dialects.tile.kernel import KernelOp as TileKernelOp
from ge.lowering.driver.binding import Binder
from ge.lowering.driver.context import context
from ge.lowering.driver.kept_open_tiles import entry_of, give, held, place_of, state
from ge.lowering.driver.program import Program
from ge.lowering.driver.tiles import Coverage, reason_of
from ge.lowering.steps.bound_programs import AtSizes, OpenPrograms
from ge.lowering.steps.kept_programs import entry_at, keep_entry
from ge.lowering.steps.lower_to_tasks import symbols_of
from ge.lowering.steps.open_programs import (
    BY_SIZES,
    holes_at,
    open_program,
)
from ge.runtime.library.launch import NotLowered
from ge.transforms.shapes.open_kernels import Samples, samples_of
from ge.transforms.shapes.sizes import named_dims
from ge.transforms.shapes.specialize import kernels_of


def write_open_programs(program: Program) -> None:
    """Beside the kernels of a program that leaves sizes open. Those of whose launches some have no
    program keep a reason, as all others do."""
    module = program.module
    main = main_function(module)
    assert main is not None
    options, kernels = program.compilation.options, kernels_of(module)
    place = place_of(module, options)
    if place is not None and (entry := entry_at(place, module)) is not None:
        give(module, entry, context(options.plugins))
    else:
        write_all(program, main)
        if place is not None:
            keep_entry(place, entry_of(module), module)
    for name, kernel in kernels.items():
        if (reason := reason_of(kernel)) not in ("", BY_SIZES):
            remark(kernel, f"@{name} has no tile program: {reason}")
    program.compilation.tiles = Coverage.of(module, target_for(main))


def write_all(program: Program, main: FuncOp) -> None:
    """The programs, or why there are none."""
    without_payload = Program(program.module, {}, program.path)  # what they do not follow from
    binder = Binder(without_payload, replace(program.compilation.options, tiles=False))
    old, writer = kernels_of(program.module), OpenProgramWriter(program.module)
    try:
        writer.write(old, samples := samples_of(main), binder)
    except (GeError, VerifyException) as e:
        for kernel in old.values():
            state(kernel, f"the program is not bound to sizes: {e}")
        return
    for name, size in samples.sizes[0].items():
        if size != 1 and 1 in dim_ranges(main).get(name, Range()):
            with suppress(GeError, VerifyException):  # it may have no such sizes
                is_first = any(axis == 0 for _, axis in named_dims(main).get(name, ()))
                writer.add_others(old, samples.where(name, 1), binder, only_new=not is_first)


class OpenProgramWriter:
    """Writes the programs of a module."""

    def __init__(self, module: ModuleOp) -> None:
        self.module, self.taken = module, symbols_of(module)
        self.known: dict[str, str] = {}  # names of programs by what they compute
        main = main_function(module)
        assert main is not None
        self.target, self.named = target_for(main), main.attributes

    def write(self, kernels: Mapping[str, KernelOp], samples: Samples, binder: Binder) -> None:
        """Those of all kernels, or why there is none."""
        bound = [binder.kernels(sizes) for sizes in samples.sizes]
        made: dict[str, list[KernelOp]] = {name: [] for name in kernels}
        for name, kernel in bound[0].items():
            made[origin(name, kernels)].append(kernel)
        for name, kernel in kernels.items():
            try:
                if not made[name]:
                    raise NotLowered(BY_SIZES)
                names = [self.program(k, kernel, bound, samples) for k in made[name]]
            except NotLowered as e:
                state(kernel, str(e))
                continue
            state(kernel, names)

    def add_others(
        self, kernels: Mapping[str, KernelOp], samples: Samples, binder: Binder, only_new: bool
    ) -> None:
        """Those for these sizes alone: of all kernels, or of bodies that are others then."""
        first, *others = samples.sizes
        known, at = OpenPrograms.of(self.module.ops), AtSizes(OpenPrograms(), first, self.target)
        found = {
            name: kernel
            for name, kernel in binder.kernels(first).items()
            if OPEN_TILES in kernels[origin(name, kernels)].attributes
            and not (only_new and known.found(kernel, at) is not None)
        }
        bound = [found, *(binder.kernels(sizes) for sizes in others if found)]
        for name, kernel in found.items():
            of = kernels[origin(name, kernels)]
            with suppress(NotLowered):
                state(of, [*held(of), self.program(kernel, of, bound, samples)])

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


def origin(name: str, kernels: Mapping[str, KernelOp]) -> str:
    """The kernel that one of this name is made of: names of further ones have a number behind."""
    while name not in kernels:
        name = name.rpartition("_")[0]
        assert name
    return name
