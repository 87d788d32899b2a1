"""Answers to two questions about a launch before it is made: does it have a tile program, and what
time does that take? Fusion makes only launches that a lowering takes.

Answers are kept in a file: a compilation whose programs are in a folder already need not work out
again which launches have one. Launches are told apart by all that a program follows from: ops with
their properties, how they are wired, types, the values of short constants, and the target. The file
belongs to one compiler, whose hash is in its name. Compilations add lines to it, so that no answer
is written twice, and take those of others; a damaged line is ignored.
"""

import json
from collections.abc import Generator, Hashable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from xdsl.ir import Attribute, Block, Operation, SSAValue

from ge.dialects.fused_op import Body, RegionOp, multiplies
from ge.dialects.graph.constant import ConstantOp, small_constant
from ge.dialects.npu_task.attributes import Engine
from ge.dialects.npu_task.ops import KernelOp, ReturnOp
from ge.dialects.support.context import at_hand, having
from ge.dialects.support.editing import set_operands
from ge.dialects.support.environment import WRONG, Unsound, add_line, read_lines
from ge.dialects.support.errors import GeError
from ge.dialects.support.operation import all_ops, created, operands_of, put_last
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import byte_size, number_of
from ge.dialects.targets.target import Target
from ge.dialects.tile.kernel import KernelOp as TileKernelOp
from ge.runtime.library.costs.estimates import (
    CoreTimes,
    Figures,
    core_times,
    figures,
    keep,
    read_figures,
)
from ge.runtime.library.costs.structure import data_of, hide, is_comparable, once, wiring
from ge.runtime.library.launch import Launch, NotLowered, author_of

_texts: dict[Any, str] = {}  # of attributes, by their numbers


@dataclass
class Answers:
    """The answers of a file."""

    path: Path
    known: dict[str, Any] = field(default_factory=dict[str, Any])
    new: dict[str, Any] = field(default_factory=dict[str, Any])
    end: int = 0  # of the known part of the file

    @classmethod
    @cache
    def at(cls, path: str) -> "Answers":
        return cls(Path(path))

    def read(self) -> None:
        """Read the lines added to the file since; nothing if there is no file of ours."""
        with suppress(Unsound, *WRONG):
            lines, self.end = read_lines(self.path, self.end)
            for line in lines:
                self.known.update(line)

    def write(self) -> None:
        """Add the new answers to the file."""
        if self.new:
            with suppress(OSError):  # then it is worked out again
                start, end = add_line(self.path, self.new)
                self.end = end if start == self.end else self.end
            self.new.clear()


@contextmanager
def answers_in(path: str) -> Generator[None]:
    """Take answers from a file, and keep others there; none where `path` is empty."""
    if not path:
        yield
        return
    answers = Answers.at(path)
    answers.read()
    with having(answers):
        yield
    answers.write()


def signature(body: Body, target: Target) -> str:
    """A hash of all that a program follows from."""
    return sha256("\n".join([facts_of(target), *lines_of(body)]).encode()).hexdigest()


@cache
def facts_of(target: Target) -> str:
    return json.dumps(asdict(target), default=str)


def lines_of(body: Body) -> Iterator[str]:
    places: dict[SSAValue, int] = {}
    for value in body.inputs:
        places[value] = len(places)
        elements = small_constant(value)
        yield text_of(value.type) + ("" if elements is None else text_of(elements))
    for op in body.ops:
        yield f"{op.name} {properties_of(op)} {[places[v] for v in op.operands]}"
        for result in op.results:
            places[result] = len(places)
            yield text_of(result.type)
    yield str([places[v] for v in body.outputs])


def properties_of(op: Operation) -> str:
    if isinstance(op, ConstantOp):
        return text_of(op.value)
    return " ".join([f"{name}={text_of(a)}" for name, a in sorted(op.properties.items())])


def text_of(attribute: Attribute) -> str:
    number = number_of(attribute)
    if (text := _texts.get(number)) is None:
        text = _texts[number] = str(attribute)
    return text


MOST_WRITTEN = 512  # programs that wait for somebody to take them

SCALAR_CYCLES = 10.0  # of an operation of a plain loop: an assumption


class Answer(NamedTuple):
    """The reason why no lowering has a program for a launch; or the figures of the program's time,
    if somebody asked."""

    refusal: str | None = None
    figures: Figures | None = None


def launch_us(body: TensorOp | Body, target: Target) -> float | None:
    """Microseconds of a launch with its launch cost, by the estimate of its program, where L2 has
    the operands that are no constants; None while a shape is dynamic. A launch that no lowering has
    a program for is a loop over its elements."""
    body = Body.of(body)
    return answer_us(body, asked(body, target), target) if body.is_static else None


def core_us(body: TensorOp | Body, target: Target) -> float | None:
    """The same without its launch cost, and without the start of its kernel."""
    if not (body := Body.of(body)).is_static:
        return None
    return figures_of(body, asked(body, target), target).core_us(held_by_l2(body, target))


def answer_us(body: Body, answer: Answer, target: Target) -> float:
    """The time of `launch_us`, from the library's answer about the body."""
    figures = figures_of(body, answer, target)
    return figures.core_us(held_by_l2(body, target)) + figures.start_us + target.launch_us


def figures_of(body: Body, answer: Answer, target: Target) -> Figures:
    """The figures of the program that the library has for a body, or else of a plain loop."""
    return plain_figures(body, target) if answer.figures is None else answer.figures


def held_by_l2(body: Body, target: Target) -> tuple[float, ...]:
    """The parts of the arguments of a body's program that L2 has, if other launches compute them:
    as much as there is room for."""
    inputs = [v for v in body.inputs if small_constant(v) is None]
    computed = [not isinstance(v.owner, ConstantOp) for v in inputs]
    sizes = [byte_size(v.type) for v in inputs]
    total = sum(size for size, is_computed in zip(sizes, computed) if is_computed)
    part = min(1.0, target.l2_bytes / total) if total else 0.0
    return tuple([part * is_computed for is_computed in computed])


def estimated_times(body: Body, target: Target) -> CoreTimes | None:
    """Estimated times of the program of a body on cores, without simulation; None while a shape is
    dynamic."""
    if not body.is_static:
        return None
    return core_times(figures_of(body, asked(body, target), target))


def plain_figures(body: Body, target: Target) -> Figures:
    """Figures of a plain loop over elements, one operation after the other, on the scalar units of
    all vector cores: one in `SCALAR_CYCLES`."""
    cores, us, size = target.vector_cores, 0.0, 0
    if (work := body.work()) is not None:
        cycles = (work.macs + max(work.vector, 1)) * SCALAR_CYCLES / cores
        us, size = cycles / target.cycles_per_us, work.read + work.written
    pipes = 0.0, us, 0.0, 0.0
    return Figures((("vector", cores),), (), 0.0, us, us, 0.0, 0.0, *pipes, size, (1,), 1)


def asked(body: TensorOp | Body, target: Target) -> Answer:
    """Answer whether a lowering has a program for a launch of a body, and what time that takes.
    Shapes are static. Where an op has an author by hand, nobody knows what that writes next time:
    it is asked anew."""
    return answered(Body.of(body), target, timed=True)


def refused(body: TensorOp | Body, target: Target) -> str | None:
    """The reason why no lowering has a program for a launch, None if one has; its time is worked
    out only if that may not follow from the target. Shapes are static."""
    return answered(Body.of(body), target, timed=not target.states_all).refusal


def answered(body: Body, target: Target, timed: bool) -> Answer:
    answers = at_hand(Answers)
    if any(map(author_of, body.ops)):
        return written(body, target, timed)[0]
    if answers is None or not (key := key_of(body, target)):
        return found(body, target, timed)
    if (known := answers.known.get(key)) is not None:
        answer = Answer(known[0], read_figures(known[1]))
        if answer.refusal is not None or answer.figures is not None or not timed:
            return answer
    answer = found(body, target, timed)
    answers.known[key] = answers.new[key] = list(answer)
    return answer


@once
def key_of(body: TensorOp | Body, target: Target) -> str:
    """The key by which an answer is kept; "" if bodies that look alike may be others."""
    body = Body.of(body)
    return signature(body, target) if is_comparable(body) else ""


@once
def found(body: TensorOp | Body, target: Target, timed: bool) -> Answer:
    """The lowering's own answer; the program is kept for the caller that makes the launch."""
    answer, kernel, program = written(Body.of(body), target, timed)
    if program is not None:
        if len(_written) == MOST_WRITTEN:
            del _written[next(iter(_written))]
        _written[wiring(kernel), target] = kernel, program
    return answer


def cut_us(body: TensorOp | Body, target: Target) -> float | None:
    """Microseconds of a launch with its start, by the sum by which its lowering chooses a cut: no
    program is written for it. None where no lowering takes it, or chooses by no sum."""
    answers, body = at_hand(Answers), Body.of(body)
    if answers is None or not (key := key_of(body, target)):
        return found_us(body, target)
    key = f"{key} by its cut"
    if key not in answers.known:
        answers.known[key] = answers.new[key] = found_us(body, target)
    return answers.known[key]


@once
def found_us(body: TensorOp | Body, target: Target) -> float | None:
    """Time of the cut by the lowering's own estimate, in us; None if there is no program."""
    from ge.runtime.library.table import lowering_of  # it takes long to import

    kernel = kernel_of(Body.of(body))
    hide(data_of(all_ops(kernel.body.blocks)))
    launch = Launch(kernel, target)
    try:
        return lowering_of(launch)(launch).us
    except (NotLowered, GeError):
        return None


def written(
    body: Body, target: Target, timed: bool
) -> tuple[Answer, KernelOp, TileKernelOp | None]:
    """The answer, the kernel that would be the launch, and its program."""
    from ge.runtime.library.table import program_that_fits  # it takes long to import

    kernel = kernel_of(body)
    hide(data_of(all_ops(kernel.body.blocks)))
    try:
        program = written_before(kernel, target) or program_that_fits(Launch(kernel, target))
        takes = figures(program, target) if timed else None
    except (NotLowered, GeError) as e:
        return Answer(e.message if isinstance(e, GeError) else str(e)), kernel, None
    if takes is not None:
        keep(program, target, takes)
    return Answer(figures=takes), kernel, program


_written: dict[tuple[Hashable, Target], tuple[KernelOp, TileKernelOp]] = {}


def written_before(kernel: KernelOp, target: Target) -> TileKernelOp | None:
    """The program of a kernel whose long constants are hidden, if it is that of a launch that the
    library was asked about: it is given away."""
    if (wired := wiring(kernel)) is None:
        return None
    other, program = _written.pop((wired, target), (None, None))
    if other is None or other.engine != kernel.engine:
        return None
    return program if constants_of(other) == constants_of(kernel) else None


def constants_of(kernel: KernelOp) -> list[Attribute]:
    return [op.value for op in kernel.body.block.ops if isinstance(op, ConstantOp)]


def kernel_of(body: Body) -> KernelOp:
    """The kernel that computes a body. The body's ops stay where they are."""
    first = body.ops[0]
    alone = len(body.ops) == 1 and list(body.outputs) == list(first.results)
    main = first.clone() if alone else RegionOp.wrap(body.ops, body.outputs)
    block, inside = Block(), dict[SSAValue, SSAValue]()
    for value in dict.fromkeys(operands_of(main)):
        if (elements := small_constant(value)) is not None:
            constant = ConstantOp.make(elements, value.type)
            put_last(block, constant)
            inside[value] = constant.result
        else:
            inside[value] = block.insert_arg(value.type, len(block.args))
    set_operands(main, [inside[v] for v in operands_of(main)])
    put_last(block, main)
    put_last(block, created(ReturnOp, main.results))
    engine = Engine.CUBE if any(map(multiplies, body.ops)) else Engine.VECTOR
    return KernelOp("asked", engine, block)
