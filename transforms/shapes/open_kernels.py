"""Kernels of a program of unknown shapes at a few sizes, and with extents in the place of sizes:
what tile programs of open sizes are written for (`lowering/steps/open_programs.py`).

`OpenBodies` says whether a launch of unknown shapes would have tile programs, before it is made:

    %1 = graph.reshape %0 shape(%s : tensor<3xi64>)     %1 = graph.reshape %0
    %2 = graph.exp %1 : tensor<?x196x768xf32>           %2 = graph.exp %1 : tensor<64x196x768xf32>

What it is made of is bound to sizes, as its program will be (`lowering/driver/tiles.py`); the
library is asked about what comes of that at the first ones, for which programs are cut, and with
extents in the place of sizes, for which they are written.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from hashlib import sha256
from itertools import combinations_with_replacement
from math import prod
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, TensorType, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from ge.dialects.fused_op import Body
from ge.dialects.graph.constant import ConstantOp, small_constant
from ge.dialects.graph.stated import dim_ranges
from ge.dialects.graph.support.parameters import splat_bytes
from ge.dialects.npu_task.attributes import data_type
from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.support.context import at_hand
from ge.dialects.support.dims import Extent, Polynomial, Range, symbols, value_of
from ge.dialects.support.errors import GeError
from ge.dialects.support.operation import all_ops, block_of, cloned, ops_of, put_before
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import (
    DYNAMIC,
    AnyTensor,
    Dense,
    element_type,
    number_of,
    set_type,
    shape_of,
    tensor,
)
from ge.dialects.targets.target import Target
from ge.runtime.data.arrays import Array
from ge.runtime.library.asking import Answers, kernel_of, signature
from ge.runtime.library.costs.structure import is_comparable
from ge.runtime.library.launch import Decisions, Launch, NotLowered, author_of, deciding
from ge.transforms.analysis.dimensions import Dimensions
from ge.transforms.shapes.sizes import SizeExpressions, inputs_of, named_dims
from ge.transforms.shapes.specialize import Surroundings, copy_into, specialize

FAR = (100003, 700001)  # the first dimension at which programs are written: primes, as all are

MIDDLE = 64  # of a dimension that has no largest size

MOST_FACTORS = 3  # dimensions in one product

OF_TYPES = frozenset(("shape",))  # properties that the types of results say as well


@dataclass(frozen=True)
class Samples:
    """Sizes of dimensions: those that a program was bound to, and expressions of them that stand
    for sizes in it."""

    sizes: Sequence[Mapping[str, int]]
    texts: Sequence[str]

    def where(self, name: str, size: int) -> "Samples":
        """Return the same sizes except one dimension, which is this large in all of them."""
        return Samples([{**sizes, name: size} for sizes in self.sizes], self.texts)

    @cached_property
    def products(self) -> list[tuple[Polynomial, tuple[int, ...]]]:
        """Return products of some of the expressions, with their values at each of the sizes."""
        named = [p for p in map(Polynomial.named, self.texts) if p is not None]
        found: list[tuple[Polynomial, tuple[int, ...]]] = []
        for count in range(1, MOST_FACTORS + 1):
            for some in combinations_with_replacement(named, count):
                p = prod(some, start=Polynomial.of(1))
                found.append((p, tuple(size_at(p, sizes) for sizes in self.sizes)))
        return found

    def expression(self, numbers: tuple[int, ...]) -> Polynomial:
        """Return the expression that has these values at the sizes: a constant, or a product times
        a number plus a number. Raises NotLowered for anything else."""
        if len(set(numbers)) == 1:
            return Polynomial.of(numbers[0])
        first, *others = numbers
        for p, (start, *more) in self.products:
            if start == more[0]:
                continue
            factor, rest = divmod(others[0] - first, more[0] - start)
            term = first - factor * start
            if not rest and all(factor * m + term == n for m, n in zip(more, others, strict=True)):
                return p * factor + term
        raise NotLowered(f"a size, {first} at the first sizes, is no product of dimensions")

    def far(self) -> list[dict[str, int]]:
        """Two choices of sizes at which no dimension is small that has several."""
        first, other, *_ = self.sizes
        names = list(enumerate(first))
        return [
            {n: 1 if first[n] == other[n] == 1 else prime_from(at + 977 * i) for i, n in names}
            for at in FAR
        ]


def size_at(p: Polynomial, sizes: Mapping[str, int]) -> int:
    found = value_of(str(p), sizes)
    if found is None:
        raise NotLowered(f"the size '{p}' is not known")
    return found


def prime_from(number: int) -> int:
    while any(number % n == 0 for n in range(2, int(number**0.5) + 1)):
        number += 1
    return number


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


def with_extents(
    kernels: Sequence[KernelOp], samples: Samples, sizes: Mapping[str, int]
) -> KernelOp:
    """A copy of the first kernel, with extents in the place of its sizes. Raises NotLowered where
    bodies differ in more than that."""
    new = cloned(kernels[0], {})
    for ops in zip(all_ops([new.body.block]), *map(ops_in, kernels), strict=True):
        op, *others = ops
        if any(type(o) is not type(op) for o in others):
            raise NotLowered("its body is another one at other sizes")
        check_properties(others)
        for result, *those in zip(op.results, *(o.results for o in others), strict=True):
            set_extents(result, those, samples, sizes)
    for blocks in zip(blocks_in(new), *map(blocks_in, kernels), strict=True):
        for arg, *those in zip(*(b.args for b in blocks), strict=True):
            set_extents(arg, those, samples, sizes)
    return new


def ops_in(kernel: KernelOp) -> Iterable[Operation]:
    return all_ops([kernel.body.block])


def blocks_in(kernel: KernelOp) -> list[Block]:
    inner = [b for op in ops_in(kernel) for region in op.regions for b in region.blocks]
    return [kernel.body.block, *inner]


def check_properties(ops: Sequence[Operation]) -> None:
    """Raises NotLowered where what an op does depends on sizes by more than its types."""
    for name in ops[0].properties:
        values = {number_of(op.properties[name]) for op in ops}
        if len(values) > 1 and name not in OF_TYPES and not is_one_number(ops):
            raise NotLowered(f"'{name}' of {ops[0].name} depends on sizes")


def is_one_number(ops: Sequence[Operation]) -> bool:
    """Return whether these are constants all of whose elements are one number."""
    values = [op.value for op in ops if isinstance(op, ConstantOp)]
    dense = [cast(Dense, v) for v in values if isinstance(v, DenseIntOrFPElementsAttr)]
    found = {splat_bytes(v) for v in dense}
    return len(dense) == len(ops) and len(found) == 1 and None not in found


def set_extents(
    value: SSAValue, those: Sequence[SSAValue], samples: Samples, sizes: Mapping[str, int]
) -> None:
    shapes = [data_type(v.type)[1] for v in those]
    shape: list[int] = []
    for numbers in zip(*shapes, strict=True):
        p = samples.expression(numbers)
        size = size_at(p, sizes)
        shape.append(size if p.number is not None else Extent(size, p))
    set_type(value, tensor(shape, data_type(value.type)[0]))


T = TypeVar("T")

Question: TypeAlias = Callable[[Body, Target], float | None]


@dataclass(frozen=True)
class LaunchOperand:
    """An operand of a launch: its dimensions and, of a vector of sizes, its elements."""

    value: SSAValue
    shape: Sequence[Polynomial]
    elements: Sequence[Polynomial] = ()

    def __str__(self) -> str:
        return f"{[*map(str, self.shape)]} {[*map(str, self.elements)]}"


_OPEN = "_ge_open_bodies"  # kept in the function, so that they go with it


class OpenBodies:
    """Launches that may be made of the ops of a function's outermost block. The sizes that others
    follow from are computed once, although one pass after the other makes launches of ops."""

    def __init__(self, main: FuncOp) -> None:
        self.block, self.samples = main.body.block, samples_of(main)
        self.known: dict[str, Any] = {}  # answers, where no file keeps any
        self.bodies: dict[Hashable, Sequence[Body] | None] = {}  # at the first sizes
        # Copies of the values of the block, in one that has members in the place of fused ops
        self.flat = FuncOp("flat", main.function_type, Region(block_of(self.block.arg_types)))
        self.flat.arg_attrs = main.arg_attrs
        copies = self.flat.body.block.args
        self.values: dict[SSAValue, SSAValue] = dict(zip(self.block.args, copies, strict=True))
        names = [names for _, _, names in inputs_of(main)]
        self.sizes = SizeExpressions(self.flat.body.block, Dimensions(self.flat.body), names)

    @classmethod
    def of(cls, main: FuncOp) -> "OpenBodies":
        known: OpenBodies | None = vars(main).get(_OPEN)
        if known is None or known.block is not main.body.block:
            known = vars(main)[_OPEN] = cls(main)
        return known

    def copy(self, value: SSAValue) -> SSAValue | None:
        """Return the copy of a value of the block; None for one of elsewhere."""
        if value not in self.values and value.owner.parent is self.block:
            self.follow()
        return self.values.get(value)

    def follow(self) -> None:
        """Copy the ops that are new."""
        flat = self.flat.body.block
        for op in ops_of(self.block):
            if not op.results or op.results[0] in self.values:
                continue
            last = flat.last_op
            if isinstance(op, TensorOp):
                copy_into(flat, op, self.values)
            else:
                flat.add_op(cloned(op, self.values))
            new = flat.first_op if last is None else last.next_op
            while new is not None:
                for result in new.results:
                    if isinstance(result.type, TensorType):
                        self.sizes.define(result)
                new = new.next_op

    def refusal(self, body: Body, target: Target) -> str | None:
        """Return why a launch of a body has no program for all sizes, empty if it has; None if its
        sizes do not follow from those of inputs."""
        return self.kept("refusal", body, target, partial(self.found, body, target))

    def us(self, question: Question, body: Body, target: Target) -> float | None:
        """Return the answer to a question about launches for a body at the first sizes; None if its
        sizes do not follow from those of inputs."""

        def find(operands: Sequence[LaunchOperand]) -> float | None:
            bodies = self.first_bodies(body, operands)
            return None if bodies is None else sum(question(b, target) or 0.0 for b in bodies)

        return self.kept(question.__name__, body, target, find)

    def first_bodies(self, body: Body, operands: Sequence[LaunchOperand]) -> Sequence[Body] | None:
        """Return the bodies of the launches of a body at the first sizes; None if these do not fit,
        or do not say all others."""
        if (key := (*body.ops, *body.outputs)) not in self.bodies:
            self.bodies[key] = None
            with suppress(ValueError, NotLowered, GeError, VerifyException):
                found = bodies_at(body, operands, self.samples.sizes[0])
                self.bodies[key] = found if all(b.is_static for b in found) else None
        return self.bodies[key]

    def kept(
        self, name: str, body: Body, target: Target, find: Callable[[Sequence[LaunchOperand]], T]
    ) -> T | None:
        """Return an answer about a body, computed now or kept from before."""
        if (operands := self.operands(body)) is None:
            return None
        if not is_comparable(body) or any(map(author_of, body.ops)):
            return find(operands)
        facts = name, signature(body, target), *map(str, operands), str(self.samples.sizes)
        key, answers = sha256("\n".join(facts).encode()).hexdigest(), at_hand(Answers)
        known = self.known if answers is None else answers.known
        if key not in known:
            known[key] = [find(operands)]
            if answers is not None:
                answers.new[key] = known[key]
        return known[key][0]

    def operands(self, body: Body) -> list[LaunchOperand] | None:
        found: list[LaunchOperand] = []
        for value in dict.fromkeys(body.inputs):
            if small_constant(value) is None:
                shape = self.expressions(value)
                if None in shape:
                    return None
                elements = self.numbers(value) if element_type(value) == i64 else ()
                found.append(LaunchOperand(value, [p for p in shape if p is not None], elements))
        return found

    def expressions(self, value: SSAValue) -> list[Polynomial | None]:
        """The dimensions of a value, None for those that data decide."""
        shape = shape_of(value)
        if DYNAMIC not in shape:
            return [Polynomial.of(n) for n in shape]
        if (copy := self.copy(value)) is None:
            return [None] * len(shape)
        found = [self.sizes.at(copy, axis) for axis in range(len(shape))]
        return [None if p is None or p.is_bound else p for p in found]

    def numbers(self, value: SSAValue) -> list[Polynomial]:
        """The elements of a vector that follows from sizes."""
        found = () if (copy := self.copy(value)) is None else self.sizes.numbers(copy)
        known = [p for p in found if p is not None and not p.is_bound]
        return known if len(known) == len(found) else []

    def found(self, body: Body, target: Target, operands: Sequence[LaunchOperand]) -> str:
        """Return the library's own answer."""
        try:
            at_sizes = [launches(body, operands, sizes) for sizes in self.samples.sizes]
            for kernels in zip(*at_sizes, strict=True):
                ask(kernels, self.samples, target)
        except ValueError:
            return "other kernels are made of it at other sizes"
        except (NotLowered, GeError, VerifyException) as e:
            return e.message if isinstance(e, GeError) else str(e)
        return ""


def launches(
    body: Body, operands: Sequence[LaunchOperand], sizes: Mapping[str, int]
) -> list[KernelOp]:
    """Return the kernels that one of a body becomes at these sizes. Raises VerifyException if these
    do not fit."""
    return [kernel_of(found) for found in bodies_at(body, operands, sizes)]


def bodies_at(
    body: Body, operands: Sequence[LaunchOperand], sizes: Mapping[str, int]
) -> list[Body]:
    """Return the bodies of the launches of a body at these sizes."""
    types, known = list[AnyTensor](), dict[int, Array]()
    for i, operand in enumerate(operands):
        shape = [size_at(p, sizes) for p in operand.shape]
        types.append(tensor(shape, element_type(operand.value)))
        if operand.elements:
            numbers = [size_at(p, sizes) for p in operand.elements]
            known[i] = np.array(numbers, np.int64).reshape(shape)
    made = specialize(kernel_of(body), types, known, Surroundings(views=True))
    for arg, operand in zip(made.block.args, operands, strict=True):
        if isinstance(constant := operand.value.owner, ConstantOp):  # it does not lie in L2
            put_before(made.block, copy := constant.clone(), ops_of(made.block)[0])
            arg.replace_all_uses_with(copy.result)
    ops = [op for op in made.block.ops if isinstance(op, TensorOp) and op not in made.views]
    return [Body.of(op) for op in ops if not isinstance(op, ConstantOp)]


def ask(kernels: Sequence[KernelOp], samples: Samples, target: Target) -> None:
    """Raises NotLowered and GeError where there is no program for all sizes of a kernel, which is
    given as it is at each of the sizes, as far as that is known without writing it."""
    from ge.runtime.library.programs import bytes_left  # takes longer to import than to be told
    from ge.runtime.library.table import lowering_of

    decisions, first = Decisions(), Launch(kernels[0], target)
    with deciding(decisions):
        lowering_of(first)(first)
    launch = Launch(with_extents(kernels, samples, samples.far()[0]), target)
    with deciding(Decisions([*decisions.made], again=True)):
        left = bytes_left(launch, lowering_of(launch)(launch))
    if full := [memory for memory, size in left.items() if size < 0]:
        raise NotLowered(f"its tiles do not fit into {full[0].value}")
