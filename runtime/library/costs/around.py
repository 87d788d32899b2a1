"""What the vector unit does before and after matmuls, and what a fixpipe does in its place."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from ge.dialects.fused_op import Body
from ge.dialects.graph.quantization import Granular, RequantizeOp
from ge.dialects.support.access import Access
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.operation import operands_of
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import element_type, normalize_axis, numel, shape_of
from ge.runtime.library.costs.core_tiles import Footprint, Within, bytes_of


def around(
    body: Body, matmuls: list[TensorOp], accumulator: int, fixpipe: Mapping[TensorOp, None]
) -> tuple[Footprint | None, Footprint | None]:
    """What the vector unit computes of the operands of matmuls, and what follows them; None where
    it has nothing to do. A result of the cube comes to UB with `accumulator` bytes an element,
    that of an op of the fixpipe with its own, unless it goes to memory as it is."""
    before = ops_before(body, matmuls)
    beyond = {*before, *matmuls, *fixpipe}
    after = [op for op in body.ops if op not in beyond]
    names = Within.all_of(body)
    prologue = epilogue = None
    if any(op.ACCESS is not Access.VIEW for op in before):
        part = _part(body, list(before), {v for op in matmuls for v in operands_of(op)})
        longest = max(numel(shape_of(r)) for op in before for r in op.results)
        prologue = Footprint.of(part, max(longest, 1), rows_stay=False, within=names)
    if any(op.ACCESS is not Access.VIEW for op in after):
        part = _part(body, after, set(body.outputs))
        widths = {r: accumulator for op in matmuls for r in op.results}
        elements = max(sum(numel(shape_of(v)) for v in widths), 1)
        widths.update((r, bytes_of(r)) for op in fixpipe for r in op.results)
        arriving = {v: width for v, width in widths.items() if v in part.inputs}
        axes = {shape_of(r): column_axis(op) for op in matmuls for r in op.results}
        read = {v: names.step[op] for op in matmuls for v in operands_of(op) if v.owner in before}
        within = replace(names, arriving=arriving, axes=axes, read=read)
        epilogue = Footprint.of(part, elements, whole_rows=True, within=within)
    return prologue, epilogue


def column_axis(op: TensorOp) -> int:
    """The dimension of a result for which the right-hand side has columns: channels of a
    convolution, else the last one."""
    last = max(len(shape_of(op.results[0])) - 1, 0)
    return min(1, last) if "group" in op.properties else last


@dataclass(frozen=True, slots=True)
class Arrival:
    """How one side's operands of matmuls come to the core."""

    bytes: float  # loaded for an element of the operands
    vector: float = 0.0  # element-operations of 16-bit lanes that compute it


def arrivals(
    body: Body, matmuls: Sequence[TensorOp], lanes: Mapping[TensorOp, float], operands: int = 2
) -> list[Arrival]:
    """Those of the first operands; `lanes` is the work of the ops that count, which compute
    operands anew for each tile."""
    before, read = ops_before(body, matmuls), body.bytes_read()

    def arrival(side: int) -> Arrival:
        values = dict.fromkeys(v for op in matmuls for v in operands_of(op)[side : side + 1])
        needed, ops = dict(values), list[TensorOp]()
        for op in reversed(before):
            if any(r in needed for r in op.results):
                needed.update(dict.fromkeys(operands_of(op)))
                ops.append(op)
        size = sum(numel(shape_of(v)) for v in values)
        work = [lanes[op] for op in ops if op in lanes]
        if not work or not size:
            return Arrival(bytes_of(matmuls[0].operands[0]))
        loaded = sum(read[v] for v in needed if v in read)
        return Arrival(loaded / size, sum(work) / size)

    return [arrival(side) for side in range(operands)]


def fixpipe_ops(body: Body, matmuls: Sequence[TensorOp]) -> Mapping[TensorOp, None]:
    """The ops that a fixpipe computes of sums of integers. Each takes values of its own place at
    most once (see `TensorOp.FIXPIPE`), with parameters from memory of one element, or of one for
    each column; what leaves the fixpipe for UB or memory are sums, or elements of 16 bits at
    most."""
    place: dict[SSAValue, int] = {}
    axes: dict[SSAValue, int] = {}
    for op in matmuls:
        if element_type(result := op.results[0]) == i32:
            place[result], axes[result] = 0, column_axis(op)
    if not place:
        return {}
    candidates: dict[TensorOp, SSAValue] = {}  # with what they take from the fixpipe
    for op in body.ops:
        sums = [v for v in operands_of(op) if v in place]
        if len(sums) != 1 or op.FIXPIPE <= place[sums[0]]:
            continue
        (source,), result = sums, op.results[0]
        others = [i for i, v in enumerate(operands_of(op)) if v is not source]
        if shape_of(source) == shape_of(result) and all(
            operands_of(op)[i] in body.inputs and _by_column(op, i, axes[source]) for i in others
        ):
            candidates[op] = source
            place[result], axes[result] = op.FIXPIPE, axes[source]
    stored = set(body.outputs)
    users: dict[SSAValue, list[TensorOp]] = {}
    for op in body.ops:
        for v in operands_of(op):
            users.setdefault(v, []).append(op)
    fitting: dict[TensorOp, SSAValue] = {}
    for op, source in reversed(candidates.items()):
        result = op.results[0]
        inside = result not in stored and all(u in fitting for u in users.get(result, ()))
        if inside or op.FIXPIPE == 1 or bitwidth(element_type(result)) <= 16:
            fitting[op] = source
    taken: dict[TensorOp, None] = {}
    for op in candidates:
        if op in fitting and (fitting[op].owner in matmuls or fitting[op].owner in taken):
            taken[op] = None
    return taken


def _by_column(op: TensorOp, index: int, axis: int) -> bool:
    """Whether an operand has one element, or one for each index of an axis of the result."""
    shape, large = shape_of(operands_of(op)[index]), shape_of(op.results[0])
    if numel(shape) == 1:
        return True
    if isinstance(op, Granular | RequantizeOp):
        along = None if op.axis is None else normalize_axis(op.axis.value.data, len(large))
        return len(shape) == 1 and along == axis
    padded = (*(1,) * (len(large) - len(shape)), *shape)
    return all(d == (large[i] if i == axis else 1) for i, d in enumerate(padded))


def ops_before(body: Body, matmuls: Sequence[TensorOp]) -> dict[TensorOp, None]:
    """The ops that compute operands of the matmuls, in order."""
    values = {v for op in matmuls for v in operands_of(op)}
    before: list[TensorOp] = []
    for op in reversed(body.ops):
        if op not in matmuls and any(r in values for r in op.results):
            values.update(operands_of(op))
            before.append(op)
    return dict.fromkeys(reversed(before))


def _part(body: Body, ops: list[TensorOp], used: set[SSAValue]) -> Body:
    inside = {r for op in ops for r in op.results}
    inputs = dict.fromkeys(v for op in ops for v in operands_of(op) if v not in inside)
    outputs = [r for op in ops for r in op.results if r in used or r in body.outputs]
    return Body(ops, list(inputs), outputs, works=body.works)
