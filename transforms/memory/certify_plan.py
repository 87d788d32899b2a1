"""State a certificate of the memory plan: claims that others can prove.

    func.func @main(...) attributes {npu_task.arena_bytes = 1536 : i64, ...} {
becomes
    func.func @main(...) attributes {npu_task.arena_bytes = 1536 : i64, ...,
      npu_task.certificate = {peak_bytes = 1536 : i64, lower_bound_bytes = 1536 : i64,
                              gap_bytes = 0 : i64, optimal = true, live = array<i64: 0, 2>}} {

`peak_bytes` is the size of the arena, `lower_bound_bytes` that of the buffers in `live` together.
They are live at one time in program order, so no arena for that order is smaller; they are numbered
by their position among the slots of the arena. `ge-check` proves the certificate with its own code
(`runtime/check/certificate.py`).
"""

from xdsl.dialects.builtin import BoolAttr, DenseArrayBase, DictionaryAttr, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from ge.dialects.npu_task.attributes import CERTIFICATE, PINNED, number
from ge.dialects.support.operation import all_ops
from ge.transforms.memory.check_capacity import plan_figure
from ge.transforms.memory.packing import is_arena_slot, lives_of_slots
from ge.transforms.rewriting.passes import MainPass


def certify(func: FuncOp) -> None:
    """State the certificate; slots that share bytes with nothing count as live."""
    names = ("arena_bytes", "lower_bound_bytes", "alignment")
    peak, lower_bound, alignment = (plan_figure(func, name) for name in names)
    live = {life.op for life in lives_of_slots(func).live_at_peak(alignment)}
    slots = [op for op in all_ops(func.body.blocks) if is_arena_slot(op)]
    numbers = [i for i, op in enumerate(slots) if op in live or PINNED in op.attributes]
    claims: dict[str, Attribute] = {
        "peak_bytes": number(peak),
        "lower_bound_bytes": number(lower_bound),
        "gap_bytes": number(peak - lower_bound),
        "optimal": BoolAttr.from_bool(peak == lower_bound),
        "live": DenseArrayBase.from_list(i64, numbers),
    }
    func.attributes[CERTIFICATE] = DictionaryAttr(claims)


class CertifyPlanPass(MainPass):
    """State the certificate of the memory plan of @main."""

    name = "certify-plan"

    def run(self, main: FuncOp) -> None:
        certify(main)
