"""Functions of codes of 8 bits as tables.

    %0 = graph.dequantize %q, %s, %z
    %1 = graph.gelu %0                         becomes  %2 = graph.lookup %q, %table
    %2 = graph.quantize %1, %t, %y to i8

where %table is what the same ops make of all 256 codes, computed once. Exceptions: scales along an
axis, values between that something else uses, and numbers that are not known before run time, or
are not one for all.
"""

import numpy as np
from xdsl.dialects.builtin import i8
from xdsl.ir import SSAValue

from ge.dialects.graph.quantization import DequantizeOp, LookupOp, QuantizeOp
from ge.dialects.graph.support.elementwise_bases import Elementwise
from ge.dialects.graph.support.folding import highest, lowest
from ge.dialects.support.element_types import ui8
from ge.dialects.support.tensor_op import SEGMENTS, TensorOp
from ge.dialects.support.types import element_type
from ge.runtime.data.arrays import dense, dtype_of
from ge.transforms.graph.canonical.linear_maps import is_prepared
from ge.transforms.graph.canonical.local import Make, Replacement, rule
from ge.transforms.quantization.grids import Grid, has_one_element, scalar

MOST_OPS = 32
KINDS = (DequantizeOp, Elementwise, QuantizeOp)


@rule(QuantizeOp)
def lookup(op: QuantizeOp, make: Make) -> Replacement:
    """quantize(f(dequantize x)) = table[x]"""
    ops = function_of(op)
    if not ops:
        return None
    codes = ops[0].operands[0]
    low, high = (int(limit(element_type(codes))) for limit in (lowest, highest))
    all_codes = np.arange(low, high + 1).astype(dtype_of(element_type(codes)))
    values = {codes: make.dense(dense(all_codes))}
    for o in ops:
        values[o.results[0]] = with_values(o, values, make)
    return make(LookupOp, codes, values[op.result])


def with_values(op: TensorOp, values: dict[SSAValue, SSAValue], make: Make) -> SSAValue:
    """An op on other values, and on its own numbers."""
    operands: list[SSAValue | None] = []
    for name, _ in op.get_irdl_definition().operands:
        value: SSAValue | None = getattr(op, name)
        operands.append(None if value is None else values.get(value) or scalar(make, value))
    return make(type(op), *operands, **{k: v for k, v in op.properties.items() if k != SEGMENTS})


def function_of(op: QuantizeOp) -> list[TensorOp]:
    """The ops that compute codes from other codes, in order: a dequantize, functions of one value,
    the quantize itself. Empty where there is anything else, or nothing between."""
    ops: dict[TensorOp, None] = {}

    def visit(o: TensorOp, depth: int = 0) -> bool:
        if max(depth, len(ops)) == MOST_OPS or not isinstance(o, KINDS):
            return False
        for value in o.operands:
            owner = value.owner
            if (isinstance(o, DequantizeOp) and value is o.input) or owner in ops:
                continue
            if is_prepared(value):
                if not has_one_element(value):
                    return False
            elif not isinstance(owner, TensorOp) or not visit(owner, depth + 1):
                return False
        ops[o] = None
        return True

    if not visit(op) or len(ops) < 3:
        return []
    source, *between, _ = ops
    ends_fit = all(
        isinstance(end, DequantizeOp | QuantizeOp)
        and (grid := Grid.of(end)) is not None
        and grid.axis is None
        for end in (source, op)
    )
    if not ends_fit or not {element_type(source.operands[0]), op.to} <= {i8, ui8}:
        return []
    if not all(isinstance(o, Elementwise) for o in between):
        return []
    users = (use.operation for o in between for r in o.results for use in r.uses)
    return list(ops) if all(user in ops for user in users) else []
