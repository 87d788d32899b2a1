"""Kernels by their tile programs, on emulated cores: what `KernelCode` is for their bodies.

Its sums are made in another order. Each addition rounds, and n of these errors add up like the
steps of a random walk: to about sqrt(n) * eps of the terms, however small the sum is that they
cancel to. So much is what results differ by if each element of the inputs is off by sqrt(n) * eps
of itself; the kernel is run on such inputs to see it, so that what happens to sums afterwards
counts too."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from random import Random

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import VerifyException

from ge.dialects.npu_task.attributes import data_type
from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.npu_task.pipeline import programs_of
from ge.dialects.support.boxes import MOVING, Box
from ge.dialects.support.diagnostics import location_of
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import module_around
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import shape_of
from ge.dialects.targets.target import Target
from ge.dialects.tile.kernel import KernelOp as TileKernelOp
from ge.runtime.cores.kernel import TileKernel
from ge.runtime.cores.memory import unwritten
from ge.runtime.data.arrays import Array, float_limits, kind_of
from ge.runtime.data.weights import Payload
from ge.runtime.device.interpreter import KernelCode, KernelRunner, Translator

TRIALS = 4
FACTOR = 4.0  # both ways to add have an error, and either may be larger than is usual


def most_terms(kernel: KernelOp) -> int:
    """Most elements of one operand from which an op of the kernel computes one element."""
    ops = [op for op in kernel.body.walk() if isinstance(op, TensorOp)]
    return max((_terms(op) for op in ops), default=1)


def _terms(op: TensorOp) -> int:
    if op.ACCESS in MOVING:
        return 1
    counts = [1]
    for number, result in enumerate(op.results):
        one = Box.of([(0, 1)] * len(shape_of(result)))
        for index, operand in enumerate(op.operands):
            box = op.operand_box(index, one, number)
            counts.append(prod(shape_of(operand) if box is None else box.sizes))
    return max(counts)


def rounding(
    kernel: KernelOp, code: KernelCode, inputs: Sequence[Array], wanted: Sequence[Array]
) -> list[Array]:
    """For each element of the results of a kernel on these inputs, which are `wanted`: the
    greatest difference that rounding explains. Shapes are static."""
    relative = most_terms(kernel) ** 0.5 * _eps(wanted)
    # a change must not be lost in elements of 16 bits: larger ones count for less
    eps = [float(float_limits(a.dtype).eps) for a in inputs if kind_of(a.dtype) == "f"]
    change = max([relative, *eps])
    rng = np.random.default_rng(0)
    moved = [np.zeros(want.shape) for want in wanted]
    with np.errstate(all="ignore"):
        for _ in range(TRIALS):
            results = code.run([_changed(a, change, rng) for a in inputs], [None] * len(wanted))
            for most, got, want in zip(moved, results, wanted, strict=True):
                np.maximum(most, _distance(got, want), out=most)
        return [
            FACTOR * relative * (_usual(most) / change + _distance(want, np.zeros_like(want)))
            for most, want in zip(moved, wanted, strict=True)
        ]


def explained(got: Array, want: Array, allowed: Array) -> Array:
    """A mask of the elements that differ by no more than is allowed."""
    with np.errstate(all="ignore"):
        return _distance(got, want, np.inf) <= allowed


def _eps(wanted: Sequence[Array]) -> float:
    """Precision of the type in which sums are made: floats of 16 bits are added in one of 32."""
    wide = all(want.dtype == np.float64 for want in wanted)
    return float(np.finfo(np.float64 if wide else np.float32).eps)


def _changed(array: Array, change: float, rng: np.random.Generator) -> Array:
    if kind_of(array.dtype) != "f":
        return array
    factors = 1 + change * rng.standard_normal(array.shape)
    return (array.astype(np.float64) * factors).astype(array.dtype)


def _distance(a: Array, b: Array, otherwise: float = 0.0) -> Array:
    """Between floats, and `otherwise` where that is no number, and of other types."""
    if kind_of(b.dtype) != "f":
        return np.full(b.shape, otherwise)
    apart = np.abs(a.astype(np.float64) - b.astype(np.float64))
    return np.where(np.isfinite(apart), apart, otherwise)


def _usual(moved: Array) -> Array:
    """The moves of elements, at least the median: a few trials may leave an element where it is."""
    return np.maximum(moved, np.median(moved)) if moved.size else moved


SAMPLE = "sample:"


@dataclass
class TileKernels:
    """Runner of the kernels of a module: of their tile programs, or where there is none of their
    bodies. With a `sample`, bodies, and so many cores of each tile program, to be compared with
    them."""

    target: Target
    programs: Mapping[tuple[ModuleOp | None, str], TileKernelOp]
    sample: int = 0
    random: Random | None = None  # of orders of pipes
    prepared: dict[TileKernelOp, TileKernel] = field(default_factory=dict[TileKernelOp, TileKernel])

    @classmethod
    def of(cls, module: ModuleOp, target: Target, mode: str) -> "TileKernels":
        """Raises GeError for another mode than "all" or "sample:N"."""
        count = mode.removeprefix(SAMPLE)
        if mode != "all" and not (mode.startswith(SAMPLE) and count.isdecimal() and int(count)):
            raise GeError(f"tiles are run as all or sample:N, not '{mode}'")
        programs: dict[tuple[ModuleOp | None, str], TileKernelOp] = {
            (program, k.sym_name.data): k
            for program in programs_of(module)
            for k in program.ops
            if isinstance(k, TileKernelOp)
        }
        return cls(target, programs, 0 if mode == "all" else int(count))

    def in_random_order(self, seed: int) -> "TileKernels":
        """The same, with the pipes of the cores in another legal order each time."""
        return replace(self, random=Random(seed))

    def on_one_device(self) -> "TileKernels":
        """The same, with cores of its own: devices run at the same time."""
        return replace(self, prepared={})

    def __call__(self, op: KernelOp, payload: Payload) -> KernelRunner:
        key = module_around(op), "" if op.tiles is None else op.tiles.data
        program = self.programs.get(key)
        if op.tiles is not None and program is None:
            raise GeError(f"there is no tile.kernel @{op.tiles.data}", hint="drop its name")
        code = KernelCode(op, payload) if program is None or self.sample else None
        if program is None:
            assert code is not None
            return code
        try:
            op.check_program([a.type for a in program.arguments])
        except VerifyException as e:
            hint = "write it anew: drop both, then ge-opt -p lower-kernels"
            raise GeError(str(e), str(location_of(program)), hint) from None
        if program not in self.prepared:
            self.prepared[program] = TileKernel(program, self.target)
        tiles = TiledCode(op, self.prepared[program], payload, self.random)
        return tiles if code is None else Sampled(op, tiles, code, self.sample)


class TiledCode:
    """A kernel by its tile program: run on input arrays and, if given, destinations."""

    def __init__(
        self, op: KernelOp, tiles: TileKernel, payload: Payload, random: Random | None = None
    ) -> None:
        self.name, self.tiles, self.random = op.sym_name.data, tiles, random
        self.output_types = op.output_types
        given = Translator(payload)
        self.constants = [
            given.value_of(c.properties["value"], c.results[0].type) for c in op.constants
        ]
        self.arguments = tiles.arguments
        count = len(op.input_types) + len(self.constants) + len(self.output_types)
        if len(self.arguments) != count:
            have = f"{len(self.arguments)} arguments, where @{self.name} has {count}"
            raise GeError(
                f"@{tiles.name} has {have}", hint="write it anew: ge-opt -p lower-kernels"
            )

    def run(self, inputs: Sequence[Array], outs: Sequence[Array | None]) -> list[Array]:
        """The results. Those with an array in `outs` are written there as well."""
        results = self.compute(inputs, over=overwritten(inputs, outs))
        for i, (out, result) in enumerate(zip(outs, results, strict=True)):
            if out is not None:
                np.copyto(out, result)
                results[i] = out
        return results

    def compute(
        self,
        inputs: Sequence[Array],
        cores: Sequence[int] | None = None,
        stored: list[Array] | None = None,
        over: Iterable[tuple[int, int]] = (),
    ) -> list[Array]:
        """The results; with `cores` only what these store, and in `stored` which elements. `over`:
        numbers of results, and of the inputs that they are written over."""
        arrays = [*inputs, *self.constants]
        given = {
            argument.name: array.reshape(data_type(argument.memref.type)[1])
            for argument, array in zip(self.arguments, arrays, strict=False)
        }
        for argument in self.arguments[len(arrays) :]:  # which no launch clears
            if argument.is_added_to:
                given[argument.name] = unwritten(argument.memref)
        seed = None if self.random is None else self.random.getrandbits(32)
        masks: dict[str, Array] | None = None if stored is None else {}
        try:
            names = [argument.name for argument in self.arguments]
            written = {names[len(arrays) + r]: names[i] for r, i in over}
            found = self.tiles.run(given, seed, cores, masks, written)
        except GeError as e:
            text = f"launch of @{self.name} on tiles: {e.message}"
            raise GeError(text, e.where, e.hint, e.notes) from None
        results: list[Array] = []
        for argument, t in zip(self.arguments[len(arrays) :], self.output_types, strict=True):
            shape = data_type(t)[1]
            results.append(found[argument.name].reshape(shape))
            if stored is not None and masks is not None:
                stored.append(masks[argument.name].reshape(shape))
        return results


class Sampled:
    """A kernel by its body; some cores of its tile program run too, and the elements that they
    store are compared."""

    def __init__(self, op: KernelOp, tiles: TiledCode, code: KernelCode, sample: int) -> None:
        self.op, self.tiles, self.code, self.output_types = op, tiles, code, code.output_types
        count = tiles.tiles.op.core_count
        last, sample = count - 1, min(sample, count)
        # the first and the last one, with others between them
        self.cores = sorted({i * last // max(sample - 1, 1) for i in range(sample)})
        if tiles.tiles.needs_all_cores:
            self.cores = list(range(count))

    def run(self, inputs: Sequence[Array], outs: Sequence[Array | None]) -> list[Array]:
        """The results. Raises GeError where those of the tile program are others."""
        stored: list[Array] = []
        over = list(overwritten(inputs, outs))
        kept = [a.copy() if any(i == j for _, j in over) else a for i, a in enumerate(inputs)]
        found = self.tiles.compute(inputs, self.cores, stored, over)  # before outs are written
        results = self.code.run(inputs, outs)
        differences = differences_of(self.op, self.code, kept, found, results, stored)
        for number, (got, want, mask, wrong) in enumerate(
            zip(found, results, stored, differences, strict=True)
        ):
            if wrong.any():
                where = tuple(np.argwhere(wrong)[0].tolist())
                count = f"{int(wrong.sum())} of {int(mask.sum())} elements"
                raise GeError(
                    f"launch of @{self.tiles.name}: {count} that {len(self.cores)} cores store to "
                    f"result {number} differ on tiles, the first at {list(where)}: "
                    f"{got[where]}, not {want[where]}"
                )
        return results


def overwritten(inputs: Sequence[Array], outs: Sequence[Array | None]) -> Iterator[tuple[int, int]]:
    """Each result that has its place where an input begins, with that input: they are the same
    elements one by one, as the memory plan has it."""
    for r, out in enumerate(outs):
        for i, array in enumerate(inputs):
            if out is not None and out.size and out.ctypes.data == array.ctypes.data:
                yield r, i


def differences_of(
    op: KernelOp,
    code: KernelCode,
    inputs: Sequence[Array],
    found: Sequence[Array],
    wanted: Sequence[Array],
    masks: Sequence[Array] | None = None,
) -> list[Array]:
    """Masks of the elements of each result that rounding does not explain: those that differ by
    more than units of the largest one, and by more than other orders of the sums of this kernel."""
    differences = [differs(got, want) for got, want in zip(found, wanted, strict=True)]
    if masks is not None:
        differences = [wrong & mask for wrong, mask in zip(differences, masks, strict=True)]
    if not any(wrong.any() for wrong in differences):
        return differences
    allowed = rounding(op, code, inputs, wanted)
    return [
        wrong & ~explained(got, want, most)
        for wrong, got, want, most in zip(differences, found, wanted, allowed, strict=True)
    ]


def differs(got: Array, want: Array, tolerance: float | None = None) -> Array:
    """A mask of the elements that another order of sums does not explain: floats may differ by 4
    units in the last place of the largest one (8 for those of more than 16 bits, whose sums have no
    wider type), integers and truth values not by a bit."""
    if kind_of(want.dtype) != "f":
        return got != want
    if tolerance is None:
        units = 8 if want.dtype.itemsize > 2 else 4
        tolerance = units * float(float_limits(want.dtype).eps)
    wide_got, wide_want = got.astype(np.float64), want.astype(np.float64)
    most = np.abs(wide_want, where=np.isfinite(wide_want), out=np.zeros_like(wide_want))
    bound = tolerance * float(most.max(initial=0.0))
    return ~np.isclose(wide_got, wide_want, tolerance, bound, equal_nan=True)
