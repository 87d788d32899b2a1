"""The kernels of a program that is bound to sizes: each is made once for equal operands."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from ge.dialects.graph.constant import ConstantOp, small_constant
from ge.dialects.npu_task.ops import KernelOp, ReturnOp
from ge.dialects.support.context import at_hand, having
from ge.dialects.support.operation import block_of, cloned, operands_of, put_last
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import Dense, Shape, constant_value, element_type, is_dynamic, tensor
from ge.dialects.targets.target import Target
from ge.runtime.data.arrays import Array, array_of
from ge.runtime.library.costs.structure import settle
from ge.transforms.analysis.engines import choose_engine
from ge.transforms.shapes.alike import Likeness, Translation, keeps_constants
from ge.transforms.shapes.specialize import LaunchBody, Surroundings, specialize
from ge.transforms.shapes.split_oversized import split_oversized

Operands: TypeAlias = tuple[tuple[Shape, ...], tuple[object, ...], Surroundings]
"""The shapes of the operands of a launch, what is known of them, and what its place allows."""

MOST_BODIES = 1024  # of one program, over all sizes


def kernels_of(module: ModuleOp) -> dict[str, KernelOp]:
    return {op.sym_name.data: op for op in module.ops if isinstance(op, KernelOp)}


@dataclass
class Made:
    """What the launches of a kernel, and of those that are alike, become for operands of known
    types."""

    likeness: Likeness  # of the kernel that it was made of
    body: LaunchBody
    dynamic: Sequence[bool]  # whether the kernel's results were dynamic
    # Op that computes -> its kernel, whose name others may have, and the operands of the launch
    kernels: dict[Operation, tuple[KernelOp, list[SSAValue]]] = field(
        default_factory=dict[Operation, tuple[KernelOp, list[SSAValue]]]
    )
    constants: dict[SSAValue, Dense] = field(default_factory=dict[SSAValue, Dense])
    # Kernel that is alike -> how to get from the one that this was made of to it
    translations: dict[KernelOp, Translation] = field(default_factory=dict[KernelOp, Translation])

    @property
    def returned(self) -> Sequence[SSAValue]:
        last = self.body.block.last_op
        assert last is not None
        return last.operands


@dataclass
class Bodies:
    """What the launches of a program became at the sizes that it was bound to so far."""

    # Of the program, which stay as they are
    kernels: Mapping[str, KernelOp] = field(default_factory=dict[str, KernelOp])
    block: Block | None = None  # of @main; None: that of the module that is bound
    # Whether there is a program of a kernel, which says how it is cut
    has_program: Callable[[KernelOp], bool] = lambda kernel: False
    # What a launch is of, with the shapes of its operands -> what it computes
    made: dict[Hashable, Made] = field(default_factory=dict[Hashable, Made])
    # Kernel -> what it has in common with others, and a number for that
    alike: dict[str, tuple[Likeness, int]] = field(default_factory=dict[str, tuple[Likeness, int]])
    numbers: dict[Hashable, int] = field(default_factory=dict[Hashable, int])

    def likeness(self, name: str) -> tuple[Likeness, int]:
        if (known := self.alike.get(name)) is None:
            likeness = Likeness.of(self.kernels[name])
            number = self.numbers.setdefault(likeness.key, len(self.numbers))
            known = self.alike[name] = likeness, number
        return known

    def keep(self, key: Hashable, made: Made) -> None:
        if len(self.made) >= MOST_BODIES:
            self.made.clear()
        self.made[key] = made


def bodies_at_hand(bodies: Bodies) -> AbstractContextManager[Bodies]:
    """Let a module be bound whose kernels, and ops of @main, are those of `bodies`, not of its own:
    what was made when they were bound to other sizes is taken, and what is made is added."""
    return having(bodies)


@dataclass
class Launch:
    """What the launch of a kernel becomes for operands of known types."""

    made: Made
    kernels: Mapping[Operation, str]  # op that computes -> its kernel
    translation: Translation | None  # of the constants; None: they are its own

    def inputs(self, op: Operation) -> Sequence[SSAValue]:
        """The operands of the launch of an op that computes."""
        return self.made.kernels[op][1]

    def constant(self, value: SSAValue) -> Array | None:
        """The elements of a constant of the body."""
        if (elements := self.made.constants.get(value)) is None:
            return None
        if self.translation is not None:
            elements = cast(Dense, self.translation.constant(elements))
        return array_of(elements)


class Kernels:
    """The kernels of a module, and those that take their place."""

    def __init__(self, module: ModuleOp, target: Target) -> None:
        self.target, self.module = target, module
        self.bodies = at_hand(Bodies) or Bodies(kernels_of(module))
        self.old = self.bodies.kernels
        self.new: dict[str, KernelOp] = {}
        self.launches: dict[object, Launch] = {}

    def launch(
        self,
        name: str,
        shapes: Sequence[Shape],
        known: Mapping[int, Array],
        around: Surroundings,
    ) -> Launch:
        """The launch of a kernel on operands of these shapes, `known` ones being constants. Raises
        VerifyException for shapes that it does not take."""
        values = tuple((i, a.dtype.str, a.shape, a.tobytes()) for i, a in sorted(known.items()))
        operands = tuple(shapes), values, around
        if (launch := self.launches.get((name, operands))) is None:
            made = self.made(name, operands, known)
            launch = self.launches[name, operands] = self.add(self.old[name], made)
        return launch

    def made(self, name: str, operands: Operands, known: Mapping[int, Array]) -> Made:
        """What a kernel becomes: as before, or as one that is alike did."""
        bodies, kernel = self.bodies, self.old[name]
        likeness, common = bodies.likeness(name)
        for key in ((common, operands), (name, operands)):
            if (made := bodies.made.get(key)) is not None:
                return made
        shapes, _, around = operands
        args = kernel.body.block.args
        types = [tensor(s, element_type(a)) for s, a in zip(shapes, args, strict=True)]
        body = specialize(kernel, types, known, around)
        outlining = Outlining(kernel, bodies.has_program)
        split_oversized(body.block, self.target, outlining.is_cut)
        made = self.outlined(kernel, body, likeness, outlining)
        shared = keeps_constants(kernel, body.block, likeness)
        bodies.keep((common if shared else name, operands), made)
        return made

    def outlined(
        self, kernel: KernelOp, body: LaunchBody, likeness: Likeness, outlining: "Outlining"
    ) -> Made:
        """A body with kernels of the ops that compute."""
        made = Made(likeness, body, [is_dynamic(t) for t in kernel.output_types])
        for op in body.block.ops:
            if isinstance(op, ConstantOp):
                value = constant_value(op.result)
                if value is not None:
                    made.constants[op.result] = value
            elif isinstance(op, TensorOp) and op not in body.views:
                made.kernels[op] = outlining.kernel(op)
        return made

    def add(self, kernel: KernelOp, made: Made) -> Launch:
        """Add the kernels that a kernel becomes to those of the module."""
        bodies = self.bodies
        likeness, _ = bodies.likeness(kernel.sym_name.data)
        translation: Translation | None = None
        if likeness is not made.likeness:
            if (translation := made.translations.get(kernel)) is None:
                translation = Translation.between(made.likeness, likeness)
                made.translations[kernel] = translation
        names: dict[Operation, str] = {}
        for op, (pattern, _) in made.kernels.items():
            new = cloned(pattern, {}) if translation is None else translation.clone(pattern)
            new.main.location = new.location = kernel.location
            name = names[op] = self.new_name(kernel.sym_name.data)
            new.properties["sym_name"] = StringAttr(name)
            settle(new, pattern)
            self.new[name] = new
        return Launch(made, names, translation)

    def new_name(self, name: str) -> str:
        number, new = 0, name
        while new in self.new or (number and new in self.old):
            number += 1
            new = f"{name}_{number}"
        return new

    def replace(self, main: FuncOp) -> None:
        """Put the new kernels in the place of the old ones, before `main`."""
        for op in self.module.ops:
            if isinstance(op, KernelOp):
                Rewriter.erase_op(op)
        assert main.parent is not None
        main.parent.insert_ops_before(tuple(self.new.values()), main)


@dataclass
class Outlining:
    """Kernels of the ops that a kernel becomes."""

    origin: KernelOp
    has_program: Callable[[KernelOp], bool]
    known: dict[TensorOp, tuple[KernelOp, list[SSAValue]]] = field(
        default_factory=dict[TensorOp, tuple[KernelOp, list[SSAValue]]]
    )
    cut: dict[TensorOp, bool] = field(default_factory=dict[TensorOp, bool])

    def is_cut(self, op: TensorOp) -> bool:
        """Whether there is a program of an op."""
        if op not in self.cut:
            self.cut[op] = self.has_program(self.kernel(op)[0])
        return self.cut[op]

    def kernel(self, op: TensorOp) -> tuple[KernelOp, list[SSAValue]]:
        """The kernel of an op, and the operands of its launches."""
        if op not in self.known:
            self.known[op] = self.outlined(op)
        return self.known[op]

    def outlined(self, op: TensorOp) -> tuple[KernelOp, list[SSAValue]]:
        operands = dict.fromkeys(operands_of(op))
        inputs = [v for v in operands if small_constant(v) is None]
        block = block_of([v.type for v in inputs])
        inside: dict[SSAValue, SSAValue] = dict(zip(inputs, block.args, strict=True))
        for value in operands:
            if value not in inside:
                assert isinstance(value.owner, ConstantOp)
                put_last(block, constant := cloned(value.owner, {}))
                inside[value] = constant.result
        put_last(block, new := cloned(op, inside))
        new.location = self.origin.location
        put_last(block, ReturnOp(*new.results))
        dynamic = any([is_dynamic(v.type) for v in (*operands, *op.results)])
        engine = self.origin.engine.data if dynamic else choose_engine(new)
        return KernelOp("", engine, block), inputs
