"""The `fused_op` dialect: one op is one kernel launch.

The body holds the `graph` ops that the launch computes; what is inside has no memory outside the
core. The op's name tells the algorithm of the kernel: `linear` and `conv` run the body's tail on
the tile that the cube just produced, `region` streams elementwise ops through the vector unit.

    %y = fused_op.linear(%x, %w, %b) : (tensor<8x64xf32>, ...) -> tensor<8x32xf32> {
    ^bb0(%0: tensor<8x64xf32>, %1: tensor<64x32xf32>, %2: tensor<32xf32>):
      %3 = graph.matmul %0, %1 : ...
      %4 = graph.add %3, %2 : ...
      fused_op.yield %4 : tensor<8x32xf32>
    }
"""

from abc import ABC
from collections.abc import Sequence

from xdsl.ir import Attribute, Block, Dialect, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    lazy_traits_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import IsolatedFromAbove, IsTerminator, Pure, ReturnLike
from xdsl.utils.exceptions import VerifyException

from ge.dialects.interfaces import TensorOp, Work


@irdl_op_definition
class YieldOp(IRDLOperation):
    """The results of a fused op's body."""

    name = "fused_op.yield"
    values = var_operand_def()
    traits = lazy_traits_def(lambda: (IsTerminator(), ReturnLike(), Pure()))
    assembly_format = "$values attr-dict `:` type($values)"

    def __init__(self, *values: SSAValue):
        super().__init__(operands=[values])


class FusedOp(TensorOp, ABC):
    """Base of the fused ops: isolated body of graph ops, one block, ends in `fused_op.yield`."""

    inputs = var_operand_def()
    outputs = var_result_def()
    body = region_def("single_block")
    traits = traits_def(Pure(), IsolatedFromAbove())
    assembly_format = (
        "`(` $inputs `)` `:` functional-type($inputs, $outputs) attr-dict-with-keyword $body"
    )

    @classmethod
    def wrap(cls, ops: Sequence[Operation], results: Sequence[SSAValue]) -> "FusedOp":
        """A fused op (not inserted yet) whose body are clones of `ops`, in their order, yielding
        the clones of `results`; values from outside become its inputs. The last op's location
        is the fused op's."""
        inside = {r for op in ops for r in op.results}
        inputs = list(dict.fromkeys(v for op in ops for v in op.operands if v not in inside))
        block = Block(arg_types=[v.type for v in inputs])
        mapping: dict[SSAValue, SSAValue] = dict(zip(inputs, block.args, strict=True))
        for op in ops:
            block.add_op(op.clone(mapping))
        block.add_op(YieldOp(*(mapping[r] for r in results)))
        fused = cls(
            operands=[inputs],
            result_types=[[r.type for r in results]],
            regions=[Region(block)],
        )
        fused.location = ops[-1].location
        return fused

    @property
    def block(self) -> Block:
        return self.body.block

    @property
    def yielded(self) -> Sequence[SSAValue]:
        last = self.body.block.last_op
        return last.operands if isinstance(last, YieldOp) else ()

    @property
    def members(self) -> list[TensorOp]:
        """The ops of the body, in order, without the terminator."""
        return [op for op in self.body.block.ops if isinstance(op, TensorOp)]

    def infer(self) -> Sequence[Attribute]:
        if not isinstance(self.body.block.last_op, YieldOp):
            raise VerifyException("the body ends in fused_op.yield")
        args = self.body.block.args
        if tuple(a.type for a in args) != tuple(v.type for v in self.inputs):
            raise VerifyException("the body's arguments differ from the inputs in number or type")
        for op in self.body.block.ops:
            if not isinstance(op, TensorOp | YieldOp) or isinstance(op, FusedOp) or op.regions:
                raise VerifyException(f"the body holds graph ops only, not {op.name}")
        return [v.type for v in self.yielded]

    def static_work(self) -> Work:
        inner = [op.static_work() for op in self.members]
        macs = sum(w.macs for w in inner)
        return Work(macs, sum(w.vector for w in inner), *self.traffic())


@irdl_op_definition
class LinearOp(FusedOp):
    """A matmul and what follows on its output tile: bias, activation, residual."""

    name = "fused_op.linear"


@irdl_op_definition
class ConvOp(FusedOp):
    """A convolution and what follows on its output tile: bias, activation, residual."""

    name = "fused_op.conv"


@irdl_op_definition
class RegionOp(FusedOp):
    """Elementwise ops in one pass over the data."""

    name = "fused_op.region"


FusedOps = Dialect("fused_op", [YieldOp, LinearOp, ConvOp, RegionOp], [])
