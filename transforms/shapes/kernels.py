"""The kernels of a program that is bound to sizes: each is made once for equal operands."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from ge.dialects.graph.constant import ConstantOp, small_constant
from ge.dialects.npu_task.attributes import is_dynamic
from ge.dialects.npu_task.ops import KernelOp, ReturnOp
from ge.dialects.support.context import setting
from ge.dialects.support.operation import cloned
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import Shape, constant_value, element_type, tensor
from ge.dialects.targets.target import Target
from ge.runtime.costs.tiling import choose_tiling
from ge.runtime.data.arrays import Array, array_of
from ge.transforms.analysis.engines import choose_engine
from ge.transforms.shapes.specialize import Body, Surroundings, specialize
from ge.transforms.shapes.split_oversized import split_oversized

Bodies = dict[object, Body]
"""What a launch is of, with the shapes of its operands -> what it computes."""

MOST_BODIES = 1024  # of one program, over all sizes

_at_hand: ContextVar[Bodies | None] = ContextVar("bodies", default=None)


def bodies_at_hand(bodies: Bodies) -> AbstractContextManager[Bodies | None]:
    """Let a program that is bound take these bodies, made when it was bound to other sizes, and
    add those that it makes."""
    return setting(_at_hand, bodies)


@dataclass
class Launch:
    """What the launch of a kernel becomes for operands of known types."""

    body: Body
    dynamic: Sequence[bool]  # whether the kernel's results were dynamic
    # Op that computes -> its kernel, and the operands of the launch
    kernels: dict[Operation, tuple[str, list[SSAValue]]] = field(
        default_factory=dict[Operation, tuple[str, list[SSAValue]]]
    )
    constants: dict[SSAValue, Array] = field(default_factory=dict[SSAValue, Array])

    @property
    def returned(self) -> Sequence[SSAValue]:
        last = self.body.block.last_op
        assert last is not None
        return last.operands


class Kernels:
    """The kernels of a module, and those that take their place."""

    def __init__(self, module: ModuleOp, target: Target) -> None:
        self.target = target
        self.old = {op.sym_name.data: op for op in module.ops if isinstance(op, KernelOp)}
        self.new: dict[str, KernelOp] = {}
        self.launches: dict[object, Launch] = {}
        bodies = _at_hand.get()
        self.bodies = Bodies() if bodies is None else bodies

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
        key = name, tuple(shapes), values, around
        if (launch := self.launches.get(key)) is None:
            kernel = self.old[name]
            if (body := self.bodies.get(key)) is None:
                body = self.body(kernel, shapes, known, around)
                if len(self.bodies) >= MOST_BODIES:
                    self.bodies.clear()
                self.bodies[key] = body
            launch = self.launches[key] = self.make(kernel, body)
        return launch

    def body(
        self,
        kernel: KernelOp,
        shapes: Sequence[Shape],
        known: Mapping[int, Array],
        around: Surroundings,
    ) -> Body:
        """What a kernel computes of operands of these shapes, in ops that fit on a core."""
        args = kernel.body.block.args
        types = [tensor(s, element_type(a)) for s, a in zip(shapes, args, strict=True)]
        body = specialize(kernel, types, known, around)
        split_oversized(body.block, self.target)
        return body

    def make(self, kernel: KernelOp, body: Body) -> Launch:
        """The launch of a body, whose kernels are new ones of the module."""
        launch = Launch(body, [is_dynamic(t) for t in kernel.output_types])
        for op in body.block.ops:
            if isinstance(op, ConstantOp):
                value = constant_value(op.result)
                if value is not None:
                    launch.constants[op.result] = array_of(value)
            elif isinstance(op, TensorOp) and op not in body.views:
                launch.kernels[op] = self.outline(kernel, op)
        return launch

    def outline(self, kernel: KernelOp, op: TensorOp) -> tuple[str, list[SSAValue]]:
        """The name of the kernel of an op, and the operands of its launches."""
        inputs = [v for v in dict.fromkeys(op.operands) if small_constant(v) is None]
        block = Block(arg_types=[v.type for v in inputs])
        inside: dict[SSAValue, SSAValue] = dict(zip(inputs, block.args, strict=True))
        for value in dict.fromkeys(op.operands):
            if value not in inside:
                assert isinstance(value.owner, ConstantOp)
                block.add_op(constant := cloned(value.owner, {}))
                inside[value] = constant.result
        block.add_op(new := cloned(op, inside))
        new.location = kernel.location
        block.add_op(ReturnOp(*new.results))
        dynamic = any(is_dynamic(v.type) for v in (*op.operands, *op.results))
        engine = kernel.engine.data if dynamic else choose_engine(new)
        name = self.new_name(kernel.sym_name.data)
        made = KernelOp(name, engine, choose_tiling(new, engine, self.target), block)
        made.location = kernel.location
        self.new[name] = made
        return name, inputs

    def new_name(self, name: str) -> str:
        number, new = 0, name
        while new in self.new or (number and new in self.old):
            number += 1
            new = f"{name}_{number}"
        return new

    def replace(self, main: FuncOp) -> None:
        """Put the new kernels in the place of the old ones, before `main`."""
        for kernel in self.old.values():
            Rewriter.erase_op(kernel)
        assert main.parent is not None
        main.parent.insert_ops_before(tuple(self.new.values()), main)
