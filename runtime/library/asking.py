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
from ge.runtime.library.answers import ANSWERS, signature
from ge.runtime.library.by_hand import author_of
from ge.runtime.library.costs.structure import is_comparable, once
from ge.runtime.library.launch import Launch, NotLowered


@dataclass(frozen=True)
class Answer:
    """Why no lowering has a program for a launch; or, where one has, how many microseconds that
    takes, if its lowering has an estimate."""

    refusal: str | None = None
    us: float | None = None


def asked(body: TensorOp | Body, target: Target) -> Answer:
    """Whether a lowering has a program for a launch of a body, as far as that is known without
    writing it. Shapes are static."""
    answers = ANSWERS.get()
    if answers is None or not (key := key_of(body, target)):
        return found(body, target)
    if (known := answers.known.get(key)) is not None:
        return Answer(*known)
    answer = found(body, target)
    answers.known[key] = answers.new[key] = [answer.refusal, answer.us]
    return answer


@once
def key_of(body: TensorOp | Body, target: Target) -> str:
    """By which an answer is kept; empty where nobody knows what an op's author writes next time."""
    body = Body.of(body)
    is_ours = is_comparable(body) and not any(map(author_of, body.ops))
    return signature(body, target) if is_ours else ""


@once
def found(body: TensorOp | Body, target: Target) -> Answer:
    """What the lowering itself says."""
    from ge.runtime.library.programs import bytes_left  # takes longer to import than to be told
    from ge.runtime.library.table import lowering_of

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
