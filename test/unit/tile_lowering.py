"""Kernels both ways: by their bodies, and by the tile programs that are written for them.

sys.path.insert(0, str(Path(__file__).parent))
from tile_lowering import compare

compare("func.func @main(...) ...")         # some kernel has a program, and it is right
compare(text, all_lowered=True)             # all of them have
compare(text, exact=True)                   # bit for bit: no sum is reordered
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute

from ge.dialects.npu_task.attributes import data_type
from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.support.diagnostics import Diagnostic, Severity, diagnostic_handler
from ge.dialects.targets.target import Target, record_target
from ge.dialects.text.reading import SourceText, parse_module
from ge.dialects.tile.kernel import KernelOp as TileKernelOp
from ge.lowering.driver.compiler import context, lower
from ge.lowering.levels.level import Level, level_of
from ge.lowering.pipeline.options import Options
from ge.lowering.steps.lower_kernels import LowerKernelsPass
from ge.runtime.check.tile_device import NOTHING, Sharing, Use
from ge.runtime.check.tiles import check_kernel, stored_in_part
from ge.runtime.cores.kernel import TileKernel
from ge.runtime.data.arrays import Array, kind_of
from ge.runtime.device.interpreter import KernelCode
from ge.runtime.device.random_inputs import random_array
from ge.runtime.device.tiled import TiledCode, differences_of, differs
from ge.transforms.tiles.finish import finish

Make = Callable[[np.random.Generator, Attribute, Sequence[int]], Array]


@dataclass(frozen=True)
class Lowered:
    """A module after the passes, and why kernels have no tile program."""

    module: ModuleOp
    target: Target
    reasons: list[str]

    @property
    def pairs(self) -> list[tuple[KernelOp, TileKernelOp]]:
        programs = {k.sym_name.data: k for k in self.module.ops if isinstance(k, TileKernelOp)}
        kernels = [k for k in self.module.ops if isinstance(k, KernelOp)]
        return [(k, programs[k.tiles.data]) for k in kernels if k.tiles is not None]


def lowered(module: ModuleOp | str, target: str = "910b2", **options: Any) -> Lowered:
    """A function (or a module of tasks) compiled with these options as far as its kernels,
    and their tile programs."""
    if isinstance(module, str):
        module = parse_module(context(), SourceText("test", module))
    if level_of(module) is not Level.TASKS:
        options = {"target": target, "tiles": False} | options  # which are written below
        lower(module, Options(**options), until=Level.TASKS)
    record_target(module, target)
    found: list[Diagnostic] = []
    with diagnostic_handler(found.append):
        LowerKernelsPass(target).apply(Context(), module)
    reasons = [d.message for d in found if d.severity is Severity.REMARK]
    finish(module)
    module.verify()
    return Lowered(module, Target.load(target), reasons)


def compare(
    module: ModuleOp | str | Lowered,
    target: str = "910b2",
    *,
    all_lowered: bool = False,
    exact: bool = False,
    tolerance: float | None = None,
    make: Make = random_array,
    orders: int = 0,
    proved: bool = True,
    seed: int = 0,
    **options: Any,
) -> Lowered:
    """Run each kernel that has a tile program both ways on random inputs (those of `make`), and in
    random orders of the pipes; the results are equal but for what rounding makes of sums
    in another order, and the program is proved."""
    result = module if isinstance(module, Lowered) else lowered(module, target, **options)
    assert result.pairs, result.reasons
    assert not (all_lowered and result.reasons), result.reasons
    for kernel, program in result.pairs:
        if proved:
            count, first = len(program.arguments), len(kernel.input_types) + len(kernel.constants)
            sharings, results = frozenset([NOTHING, in_place(kernel)]), range(first, count)
            use = Use(sharings, frozenset(results), frozenset(stored_in_part(kernel)))
            proof = check_kernel(program, result.target, use)
            assert not proof.problems, f"{[p.message for p in proof.problems]}\n{program}"
        run_both_ways(kernel, program, result.target, exact, tolerance, make, orders, seed)
    return result


def in_place(kernel: KernelOp) -> Sharing:
    """As many results over operands as a memory plan may have; operands come first in a tile
    program's arguments, results last."""
    first, pairs = len(kernel.input_types) + len(kernel.constants), dict[int, int]()
    for result, operand in sorted(kernel.in_place_pairs()):
        if result not in pairs and operand not in pairs.values():
            pairs[result] = operand
    return frozenset((first + r, i) for r, i in pairs.items())


def run_both_ways(
    kernel: KernelOp,
    program: TileKernelOp,
    target: Target,
    exact: bool,
    tolerance: float | None,
    make: Make,
    orders: int,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    inputs = [make(rng, *data_type(t)) for t in kernel.input_types]
    nowhere = [None] * len(kernel.output_types)
    code = KernelCode(kernel, {})
    with np.errstate(all="ignore"):
        wanted = code.run(inputs, nowhere)
    tiles = TiledCode(kernel, TileKernel(program, target), {})
    results = tiles.run(inputs, nowhere)
    if exact or tolerance is not None:
        wrong = [unequal(r, w, exact, tolerance) for r, w in zip(results, wanted, strict=True)]
    else:
        wrong = differences_of(kernel, code, inputs, results, wanted)
    for result, want, where in zip(results, wanted, wrong, strict=True):
        assert_same(result, want, where, lambda: f"{kernel}\n{program}")
    if over := in_place(kernel):
        first = len(program.arguments) - len(results)
        pairs = [(r - first, i) for r, i in over]
        for again, result in zip(tiles.compute(inputs, over=pairs), results, strict=True):
            assert again.tobytes() == result.tobytes(), f"over operands\n{program}"
    for number in range(orders):
        tiles.random = Random(number)
        for again, result in zip(tiles.run(inputs, nowhere), results, strict=True):
            assert again.tobytes() == result.tobytes(), f"order {number}\n{program}"


def assert_close(got: Array, want: Array, exact: bool = False) -> None:
    """Equal as `differs` says, or bit for bit."""
    assert_same(got, want, unequal(got, want, exact))


def unequal(got: Array, want: Array, exact: bool, tolerance: float | None = None) -> Array:
    return _bits(got) != _bits(want) if exact else differs(got, want, tolerance)


def assert_same(got: Array, want: Array, wrong: Array, text: Callable[[], str] = str) -> None:
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    if wrong.any():
        where = tuple(np.argwhere(wrong)[0].tolist())
        count = f"{int(wrong.sum())} of {wrong.size} elements differ"
        raise AssertionError(
            f"{count}, first at {where}: {got[where]}, not {want[where]}\n{text()}"
        )


def _bits(array: Array) -> Array:
    """Elements as integers; all nan are one, and so are both zeros."""
    if kind_of(array.dtype) != "f":
        return array
    plain = np.where(np.isnan(array), np.array(np.nan, array.dtype), array + array.dtype.type(0))
    return plain.view(f"u{array.dtype.itemsize}")
