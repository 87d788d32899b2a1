"""Launches of ops that have nothing to do with each other, as the weights of several layers are
dequantized together: the programs of their parts, one after the other on each core.

    for a in share(boxes of the first part)   ...
    for b in share(boxes of the second part)  ...       its first core is the next one

Cores wait for nobody between parts. A part takes the buffers that the parts before it have left,
where these have its shapes; where all of them do not fit, each is cut for a part of the room.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from xdsl.ir import SSAValue

from ge.dialects.fused_op import Body
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import Shape, numel, shape_of
from ge.runtime.library.language.tracing import Tracer
from ge.runtime.library.launch import Arguments, Launch, NotLowered, Replaced, Written
from ge.runtime.library.programs import first_fitting

ROOMS = (1, 2, 4, 8)  # parts of the room for which programs are cut


def parts_of(body: Body) -> list[Body]:
    """The parts of a body that have no values in common, but numbers."""
    parts = list[tuple[list[TensorOp], set[SSAValue]]]()
    for op in body.ops:
        values = {v for v in op.operands if numel(shape_of(v)) > 1 or v not in body.inputs}
        values |= set(op.results)
        mine = [part for part in parts if not part[1].isdisjoint(values)]
        parts = [part for part in parts if part not in mine]
        ops = [*(o for own, _ in mine for o in own), op]
        parts.append((ops, values.union(*(own for _, own in mine))))
    if len(parts) == 1:
        return [body]
    return [
        Body(
            ops,
            [v for v in body.inputs if any(v in op.operands for op in ops)],
            [v for v in body.outputs if v in values],
        )
        for ops, values in parts
    ]


def lower_side_by_side(
    parts: Sequence[Body], lower: Callable[[Launch], Written], launch: Launch
) -> Written:
    """The programs of the parts, one after the other."""

    def in_room(share: int) -> Written:
        target = replace(launch.target, ub_bytes=launch.target.core_memories["ub"] // share)
        found = list[Written]()
        for part in parts:
            same = {v: v for v in (*part.inputs, *part.outputs)}
            own = Replaced(launch.kernel, target, part, same, of=launch)
            found.append(own.original(lower(own)))
        return joined(found, launch)

    return first_fitting(launch, ROOMS, in_room)


def joined(parts: Sequence[Written], launch: Launch) -> Written:
    """The parts, one after the other. Raises NotLowered where they take a value from memory in
    different shapes."""
    cores = launch.target.vector_cores
    counts = [part.cores or cores for part in parts]
    total = min(sum(counts), cores)

    def write(c: Tracer, arguments: Arguments) -> None:
        before = 0
        for part, count in zip(parts, counts, strict=True):
            with c.on_cores(before % total, count, total):
                part.write(c, arguments)
            before += count

    shapes = dict[SSAValue, Shape]()
    for value, shape in (item for part in parts for item in part.shapes.items()):
        if shapes.setdefault(value, shape) != shape and launch.number(value) is None:
            raise NotLowered("parts have a number in other shapes")
    return Written(write, total, shapes)
