"""Whether a launch would have a tile program, asked before it is made: fusion makes none that no
lowering takes."""

from dataclasses import dataclass

from xdsl.ir import Block, SSAValue

from ge.dialects.fused_op import Body, RegionOp, multiplies
from ge.dialects.graph.constant import ConstantOp, small_constant
from ge.dialects.npu_task.attributes import Engine
from ge.dialects.npu_task.ops import KernelOp, ReturnOp
from ge.dialects.support.editing import set_operands
from ge.dialects.support.errors import GeError
from ge.dialects.support.operation import created, operands_of, put_last
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.targets.target import Target
from ge.runtime.library.costs.structure import once
from ge.runtime.library.launch import Launch, NotLowered
from ge.runtime.library.programs import bytes_left
from ge.runtime.library.table import lowering_of


@dataclass(frozen=True)
class Answer:
    """Why no lowering has a program for a launch; or, where one has, how many microseconds that
    takes, if its lowering has an estimate."""

    refusal: str | None = None
    us: float | None = None


@once
def asked(body: TensorOp | Body, target: Target) -> Answer:
    """Whether a lowering has a program for a launch of a body, as far as that is known without
    writing it. Shapes are static."""
    launch = Launch(kernel_of(Body.of(body)), target)
    try:
        written = lowering_of(launch)(launch)
        left = bytes_left(launch, written)
    except (NotLowered, GeError) as e:
        return Answer(str(e))
    if full := [memory for memory, size in left.items() if size < 0]:
        return Answer(f"its tiles do not fit into {full[0].value}")
    return Answer(us=written.us)


def kernel_of(body: Body) -> KernelOp:
    """The kernel that computes a body. What it is made of stays where it is."""
    main = RegionOp.wrap(body.ops, body.outputs)
    block, operands = Block(), list[SSAValue]()
    for value in operands_of(main):
        if (elements := small_constant(value)) is not None:
            constant = ConstantOp.make(elements, value.type)
            put_last(block, constant)
            operands.append(constant.result)
        else:
            operands.append(block.insert_arg(value.type, len(block.args)))
    set_operands(main, operands)
    put_last(block, main)
    put_last(block, created(ReturnOp, main.results))
    engine = Engine.CUBE if any(map(multiplies, body.ops)) else Engine.VECTOR
    return KernelOp("asked", engine, None, block)
