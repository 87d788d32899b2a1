"""The end of a collective. Its result is there when it is `ready`; its memory is `free` when the
other devices have read all that they read of it. In between others may still read what this device
has brought, so that memory keeps what it holds:

    %y = npu_task.launch @all_reduce_0 ins(%x) ...         ready
    npu_task.launch @acknowledge_0 ins(%x, %y)             free

Both are on the stream of collectives. Users of %y wait for the first alone; what takes the memory
of %x or %y waits for the second one, which reads them."""

from collections.abc import Sequence

from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, traits_def, var_operand_def

from ge.dialects.support.boxes import Work
from ge.dialects.support.constraints import ANY
from ge.dialects.support.tensor_op import TensorOp


@irdl_op_definition
class AcknowledgeOp(TensorOp):
    """The other devices have read what they read of these values: those that a collective has read
    and made. A part of kernels alone."""

    name = "graph.acknowledge"
    values = var_operand_def(ANY)
    traits = traits_def()
    assembly_format = "$values attr-dict `:` type($values)"

    def infer(self) -> Sequence[Attribute]:
        return ()

    def static_work(self) -> Work:
        return Work(0, 0, 0, 0)
