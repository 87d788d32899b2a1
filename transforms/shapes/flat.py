"""The launches of a program as one function of graph ops, to ask for the sizes of its values."""

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.dialects.memref import ReinterpretCastOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ge.dialects.graph.constant import ConstantOp as GraphConstantOp
from ge.dialects.graph.shape import ReshapeOp
from ge.dialects.npu_task.attributes import data_type, is_dynamic
from ge.dialects.npu_task.memory import owner_of, view_of
from ge.dialects.npu_task.ops import ConstantOp, KernelOp, LaunchOp, TransferOp
from ge.dialects.support.types import DYNAMIC, numel, shape_of, tensor
from ge.transforms.shapes.buffers import written
from ge.transforms.shapes.specialize import copy_into


def as_tensor(value: SSAValue | Attribute) -> Attribute:
    element, shape = data_type(value.type if isinstance(value, SSAValue) else value)
    return tensor(shape, element)


class Flat:
    """A function that computes what a program computes outside of branches and loops. Values that
    others make, and buffers that several ops write to, are arguments of it."""

    def __init__(self, module: ModuleOp, main: FuncOp) -> None:
        self.kernels = {op.sym_name.data: op for op in module.ops if isinstance(op, KernelOp)}
        self.block = Block(arg_types=[as_tensor(a) for a in main.args])
        self.func = FuncOp("flat", ((), ()), Region(self.block), arg_attrs=main.arg_attrs)
        # Value or buffer of the program -> value of the function
        self.values: dict[SSAValue, SSAValue] = dict(zip(main.args, self.block.args, strict=True))
        self.writes: dict[SSAValue, int] = {}
        for op in main.walk():
            for value in written(op):
                self.writes[owner_of(value)] = self.writes.get(owner_of(value), 0) + 1
        for op in main.body.block.ops:
            self.copy(op)

    def copy(self, op: Operation) -> None:
        match op:
            case TransferOp():
                self.values[op.result] = self.of(op.source)
            case ConstantOp() if isinstance(op.value, DenseIntOrFPElementsAttr):
                new = GraphConstantOp.make(op.properties["value"], as_tensor(op.result))
                self.block.add_op(new)
                self.values[op.result] = new.result
            case LaunchOp():
                self.launch(op)
            case _:
                pass

    def launch(self, op: LaunchOp) -> None:
        kernel = self.kernels[op.callee]
        inside: dict[SSAValue, SSAValue] = dict(
            zip(kernel.body.block.args, map(self.of, op.ins), strict=True)
        )
        for member in kernel.body.block.ops:
            if member is not kernel.body.block.last_op:
                copy_into(self.block, member, inside)
        last = kernel.body.block.last_op
        outs, results = iter(op.outs), iter(op.results)
        for value in () if last is None else last.operands:
            if is_dynamic(value.type):
                self.values[next(results)] = inside[value]
            elif self.writes.get(owner := owner_of(out := next(outs))) == 1:
                if numel(shape_of(out)) == numel(shape_of(owner)):
                    self.values[owner] = inside[value]

    def of(self, value: SSAValue) -> SSAValue:
        """What a value of the program is."""
        if (known := self.values.get(value)) is not None:
            return known
        owner, shape = owner_of(value), shape_of(value)
        whole = self.values.get(owner)
        if whole is None or DYNAMIC in shape or not isinstance(value.owner, ReinterpretCastOp):
            new = self.block.insert_arg(as_tensor(value), len(self.block.args))
        elif numel(shape) != numel(shape_of(whole)) or view_of(value).offset:
            new = self.block.insert_arg(as_tensor(value), len(self.block.args))
        else:
            self.block.add_op(view := ReshapeOp.of(whole, shape=list(shape), allow_zero=0 in shape))
            new = view.result
        self.values[value] = new
        return new
