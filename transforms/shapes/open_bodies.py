"""Whether a launch of unknown shapes would have tile programs, asked before it is made.

    %1 = graph.reshape %0 shape(%s : tensor<3xi64>)     %1 = graph.reshape %0
    %2 = graph.exp %1 : tensor<?x196x768xf32>           %2 = graph.exp %1 : tensor<64x196x768xf32>

What it is made of is bound to sizes, as its program will be (`lowering/driver/open_tiles.py`); the
library is asked about what comes of that at the first ones, for which programs are cut, and with
extents in the place of sizes, for which they are written.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Any, TypeAlias, TypeVar

import numpy as np
from xdsl.dialects.builtin import TensorType, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from ge.dialects.fused_op import Body
from ge.dialects.graph.constant import ConstantOp, small_constant
from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.support.context import at_hand
from ge.dialects.support.dims import Polynomial, value_of
from ge.dialects.support.errors import GeError
from ge.dialects.support.operation import block_of, cloned, ops_of, put_before
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import DYNAMIC, AnyTensor, element_type, shape_of, tensor
from ge.dialects.targets.target import Target
from ge.runtime.data.arrays import Array
from ge.runtime.library.asking import Answers, kernel_of, signature
from ge.runtime.library.costs.structure import is_comparable
from ge.runtime.library.launch import Decisions, Launch, NotLowered, author_of, deciding
from ge.transforms.analysis.dimensions import Dimensions
from ge.transforms.shapes.open_kernels import Samples, samples_of, with_extents
from ge.transforms.shapes.size_expressions import SizeExpressions
from ge.transforms.shapes.sizes import inputs_of
from ge.transforms.shapes.specialize import Surroundings, copy_into, specialize

T = TypeVar("T")
Question: TypeAlias = Callable[[Body, Target], float | None]


@dataclass(frozen=True)
class LaunchOperand:
    """What a launch takes: its dimensions and, of a vector of sizes, its elements."""

    value: SSAValue
    shape: Sequence[Polynomial]
    elements: Sequence[Polynomial] = ()

    def __str__(self) -> str:
        return f"{[*map(str, self.shape)]} {[*map(str, self.elements)]}"


_OPEN = "_ge_open_bodies"  # kept in the function, so that they go with it


class OpenBodies:
    """Of the launches that may be made of the ops of a function's outermost block. It is found out
    once what sizes follow from, although one pass after the other makes launches of ops."""

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
        """That of a value of the block; None for one of elsewhere."""
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
        """Why a launch of a body has no program for all sizes, empty where it has; None where its
        sizes do not follow from those of inputs."""
        return self.kept("refusal", body, target, partial(self.found, body, target))

    def us(self, question: Question, body: Body, target: Target) -> float | None:
        """What a question about launches is answered where a body has the first sizes; None where
        its sizes do not follow from those of inputs."""

        def find(operands: Sequence[LaunchOperand]) -> float | None:
            bodies = self.first_bodies(body, operands)
            return None if bodies is None else sum(question(b, target) or 0.0 for b in bodies)

        return self.kept(question.__name__, body, target, find)

    def first_bodies(self, body: Body, operands: Sequence[LaunchOperand]) -> Sequence[Body] | None:
        """What launches of a body are of at the first sizes; None where these do not fit, or do not
        say all others."""
        if (key := (*body.ops, *body.outputs)) not in self.bodies:
            self.bodies[key] = None
            with suppress(ValueError, NotLowered, GeError, VerifyException):
                found = bodies_at(body, operands, self.samples.sizes[0])
                self.bodies[key] = found if all(b.is_static for b in found) else None
        return self.bodies[key]

    def kept(
        self, name: str, body: Body, target: Target, find: Callable[[Sequence[LaunchOperand]], T]
    ) -> T | None:
        """What is found out about a body, or was before."""
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
        """What the library itself says."""
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
    """The kernels that one of a body becomes at these sizes. Raises VerifyException where these do
    not fit."""
    return [kernel_of(found) for found in bodies_at(body, operands, sizes)]


def bodies_at(
    body: Body, operands: Sequence[LaunchOperand], sizes: Mapping[str, int]
) -> list[Body]:
    """What launches of a body are of at these sizes."""
    types, known = list[AnyTensor](), dict[int, Array]()
    for i, operand in enumerate(operands):
        shape = [value(p, sizes) for p in operand.shape]
        types.append(tensor(shape, element_type(operand.value)))
        if operand.elements:
            numbers = [value(p, sizes) for p in operand.elements]
            known[i] = np.array(numbers, np.int64).reshape(shape)
    made = specialize(kernel_of(body), types, known, Surroundings(views=True))
    for arg, operand in zip(made.block.args, operands, strict=True):
        if isinstance(constant := operand.value.owner, ConstantOp):  # it does not lie in L2
            put_before(made.block, copy := constant.clone(), ops_of(made.block)[0])
            arg.replace_all_uses_with(copy.result)
    ops = [op for op in made.block.ops if isinstance(op, TensorOp) and op not in made.views]
    return [Body.of(op) for op in ops if small_constant(op.results[0]) is None]


def value(p: Polynomial, sizes: Mapping[str, int]) -> int:
    found = value_of(str(p), sizes)
    if found is None:
        raise NotLowered(f"the size '{p}' is not known")
    return found


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
