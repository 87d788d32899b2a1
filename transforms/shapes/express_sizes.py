"""Tensors of unknown size state their bytes, as expressions of the dimensions of the inputs.

    func.func @main(%x: memref<?x64xf32, host> {graph.name = "x", graph.dims = ["batch", ""]}) {
      %0 = npu_task.transfer %x : memref<?x64xf32, host> to memref<?x64xf32, hbm>
      %1 = npu_task.launch @nonzero_0 ins(%0 : ...) -> memref<2x?xi64, hbm>
becomes
      %0 = npu_task.transfer %x {npu_task.bytes = ["256 * batch"]} : ...
      %1 = npu_task.launch @nonzero_0 ins(%0 : ...) {npu_task.bytes = ["at most 1024 * batch"]}

Text "" stands for a tensor of which nothing is known; tasks inside of branches and loops state
nothing.

To ask for the sizes of its values, the launches of a program are written as one function of graph
ops (`Flat`).
"""

from xdsl.context import Context
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.dialects.memref import ReinterpretCastOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from ge.dialects.graph.constant import ConstantOp as GraphConstantOp
from ge.dialects.graph.shape import ReshapeOp
from ge.dialects.npu_task.attributes import AT_MOST, data_type, state_bytes, unknown_results
from ge.dialects.npu_task.memory import Task, owner_of, view_of
from ge.dialects.npu_task.ops import ConstantOp, LaunchOp, TransferOp, kernels_of
from ge.dialects.support.dims import Polynomial
from ge.dialects.support.functions import main_function
from ge.dialects.support.operation import ops_of
from ge.dialects.support.types import DYNAMIC, is_dynamic, numel, shape_of, tensor
from ge.transforms.analysis.dimensions import Dimensions
from ge.transforms.shapes.bind_dims import written
from ge.transforms.shapes.sizes import SizeExpressions, inputs_of
from ge.transforms.shapes.specialize import copy_into


def as_tensor(value: SSAValue | Attribute) -> Attribute:
    element, shape = data_type(value.type if isinstance(value, SSAValue) else value)
    return tensor(shape, element)


class Flat:
    """A function that computes what a program computes outside of branches and loops. What these
    make, and buffers that are written in parts, are arguments of it."""

    def __init__(self, module: ModuleOp, main: FuncOp) -> None:
        self.kernels = kernels_of(module)
        self.block = Block(arg_types=[as_tensor(a) for a in main.args])
        self.func = FuncOp("flat", ((), ()), Region(self.block), arg_attrs=main.arg_attrs)
        # Value of the program -> value of the function; of a buffer, what it holds by now
        self.values: dict[SSAValue, SSAValue] = dict(zip(main.args, self.block.args, strict=True))
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
                for value in (v for inner in op.walk() for v in written(inner)):
                    self.values.pop(owner_of(value), None)

    def launch(self, op: LaunchOp) -> None:
        kernel = self.kernels[op.callee]
        inside: dict[SSAValue, SSAValue] = dict(
            zip(kernel.body.block.args, map(self.of, op.ins), strict=True)
        )
        for member in kernel.body.block.ops:
            if member is not kernel.body.block.last_op:
                copy_into(self.block, member, inside)
        for value, out in op.returned(kernel):
            if is_dynamic(value.type):
                self.values[out] = inside[value]
            else:
                owner = owner_of(out)
                self.values.pop(owner, None)
                if numel(shape_of(out)) == numel(shape_of(owner)):
                    self.values[owner] = inside[value]

    def of(self, value: SSAValue) -> SSAValue:
        """Return the tensor that stands for a value of the program."""
        if (known := self.values.get(value)) is not None:
            return known
        owner, shape = owner_of(value), shape_of(value)
        whole = self.values.get(owner)
        if whole is None or DYNAMIC in shape or not isinstance(value.owner, ReinterpretCastOp):
            return self.block.insert_arg(as_tensor(value), len(self.block.args))
        if numel(shape) != numel(shape_of(whole)) or view_of(value).offset:
            return self.block.insert_arg(as_tensor(value), len(self.block.args))
        self.block.add_op(view := ReshapeOp.of(whole, shape=list(shape), allow_zero=0 in shape))
        return view.result


class ExpressSizesPass(ModulePass):
    """State the bytes of tensors of unknown size as expressions of the dimensions of the inputs."""

    name = "express-sizes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if (main := main_function(op)) is None:
            return
        ops = ops_of(main.body.block)
        tasks = [t for t in ops if isinstance(t, Task) and unknown_results(t)]
        if not tasks:
            return
        flat = Flat(op, main)
        names = [names for _, _, names in inputs_of(main)]
        sizes = SizeExpressions(flat.block, Dimensions(flat.func.body), names)
        for task in tasks:
            values = [flat.values.get(r) for r in unknown_results(task)]
            state_bytes(task, [text(None if v is None else sizes.bytes_of(v)) for v in values])


def text(size: Polynomial | None) -> str:
    if size is None:
        return ""
    return f"{AT_MOST}{size}" if size.is_bound else str(size)
