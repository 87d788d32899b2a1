"""What a memory plan claims about itself, so that others can prove it again.

    npu_task.certificate = {peak_bytes = 1536 : i64, lower_bound_bytes = 1536 : i64,
                            gap_bytes = 0 : i64, optimal = true, live = array<i64: 0, 2>}

`peak_bytes` is the size of the arena; `lower_bound_bytes` what the buffers in `live` have together:
they are alive at one time in the order of the program, so no arena for that order is smaller. They
are named by their place among the arena's slots in the text, from 0. `ge-check` proves it with
code of its own (`runtime/check/certificate.py`).
"""

from collections.abc import Collection

from xdsl.dialects.builtin import BoolAttr, DenseArrayBase, DictionaryAttr, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from ge.dialects.npu_task.ops import SlotOp, number

CERTIFICATE = "npu_task.certificate"


def certify(func: FuncOp, peak: int, lower_bound: int, live: Collection[SlotOp]) -> None:
    """State the certificate of a function's plan. `live` are the slots that are alive when the
    most bytes are, in any order."""
    arena = (op for op in func.walk() if isinstance(op, SlotOp) and op.segment.data == "arena")
    places = [i for i, op in enumerate(arena) if op in live]
    claims: dict[str, Attribute] = {
        "peak_bytes": number(peak),
        "lower_bound_bytes": number(lower_bound),
        "gap_bytes": number(peak - lower_bound),
        "optimal": BoolAttr.from_bool(peak == lower_bound),
        "live": DenseArrayBase.from_list(i64, places),
    }
    func.attributes[CERTIFICATE] = DictionaryAttr(claims)
