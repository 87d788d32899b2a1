"""Proof of what a program claims about its memory: `npu_task.certificate` on @main.

`prove_certificate(main)` finds out from the IR alone when each slot of the arena is used, in the
order in which the host issues the tasks, and checks rules C1 to C7 (docs/proofs.md).

The certificate counts a slot as live from the first to the last task that uses it. Branches and
loops use what is defined outside of them from begin to end, a pinned slot is live always.
`CertificateProof.least` counts a slot as dead between the last use of a value and the task that
writes another one over all of it: no plan of these slots in the same order needs less.
Nothing here is shared with the planner in `transforms`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, cast

from xdsl.dialects.builtin import DenseArrayBase, DictionaryAttr, IntegerAttr, i1, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ge.dialects.npu_task.memory import Task, access, owner_of, view_of
from ge.dialects.npu_task.ops import SlotOp
from ge.dialects.npu_task.program_info import CERTIFICATE, PINNED, figure
from ge.dialects.support.types import align_up, array_ints, byte_size
from ge.runtime.check.problems import Problem

SHOWN = 5  # tensors that a message names


@dataclass(slots=True)
class LiveRange:
    """The numbers of the first and of the last step that need what a slot holds."""

    first: int
    last: int


@dataclass
class SlotUses:
    """Walks a program and notes the live ranges of each slot of the arena, in order."""

    slots: dict[SSAValue, SlotOp] = field(default_factory=dict[SSAValue, SlotOp])
    ranges: dict[SSAValue, list[LiveRange]] = field(default_factory=dict[SSAValue, list[LiveRange]])
    step: int = 0

    def touch(self, op: Operation, values: Iterable[SSAValue]) -> dict[SSAValue, None]:
        """An op uses the slots behind some values now. Returns them."""
        slots = {v: None for v in map(owner_of, values) if v in self.slots}
        for slot in slots:
            ranges = self.ranges.setdefault(slot, [])
            if not ranges or self.overwrites(op, slot):
                ranges.append(LiveRange(self.step, self.step))
            ranges[-1].last = self.step
        return slots

    def overwrites(self, op: Operation, slot: SSAValue) -> bool:
        """Whether an op writes all of a slot and reads nothing of it."""
        reads, writes, _ = access(op)
        if slot in map(owner_of, reads):
            return False
        views = [view_of(v) for v in writes if owner_of(v) is slot]
        return any(v.region.covers(view_of(slot).region) for v in views)

    def walk(self, block: Block) -> dict[SSAValue, None]:
        """Go through a block; returns the slots that it uses and does not define."""
        used: dict[SSAValue, None] = {}
        own: set[SSAValue] = set()
        for op in block.ops:
            if isinstance(op, SlotOp):
                if op.segment.data == "arena":
                    self.slots[op.result] = op
                    own.add(op.result)
            elif op.regions:
                used |= self.control(op)
            elif isinstance(op, Task) or op is block.last_op:
                self.step += 1
                used |= self.touch(op, op.operands)
        return {slot: None for slot in used if slot not in own}

    def control(self, op: Operation) -> dict[SSAValue, None]:
        """A branch or a loop uses what comes from outside from its begin to its end."""
        self.step += 1
        begin = self.step
        used = self.touch(op, op.operands)
        for block in (b for r in op.regions for b in r.blocks):
            used |= self.walk(block)
        self.step += 1
        for slot in used:
            ranges = self.ranges[slot]
            first = begin
            while ranges and ranges[-1].last >= begin:
                first = min(first, ranges.pop().first)
            ranges.append(LiveRange(first, self.step))
        return used


@dataclass
class CertificateProof:
    """Checks the certificate of a function against its IR."""

    func: FuncOp
    problems: list[Problem] = field(default_factory=list[Problem])
    bound: int = 0  # the most bytes of slots that are live from their first to their last use
    least: int = 0  # the most bytes of slots that hold a value which is needed

    def __post_init__(self) -> None:
        self.claims: dict[str, Attribute] = {}
        self.uses = SlotUses()
        self.sizes: dict[SSAValue, int] = {}
        # From first to last use, always for pinned slots
        self.extents: dict[SSAValue, LiveRange] = {}

    def report(self, rule: str, text: str, op: Operation | None = None) -> None:
        self.problems.append(Problem(rule, text, op or self.func))

    def number(self, name: str, of: Attribute = i64) -> int | None:
        attr = self.claims.get(name)
        if isinstance(attr, IntegerAttr) and cast("IntegerAttr[Any]", attr).type == of:
            return attr.value.data
        self.report("C1", f"the certificate does not state {name} as a number of type {of}")
        return None

    def compare(self, name: str, actual: int, what: str) -> None:
        stated = self.number(name)
        if stated is not None and stated != actual:
            self.report("C2", f"{name} is stated as {stated}, but {what} {actual}")

    def check(self) -> None:
        certificate = self.func.attributes.get(CERTIFICATE)
        if not isinstance(certificate, DictionaryAttr):
            self.report("C1", f"@main has no {CERTIFICATE}: plan-memory was not run")
            return
        self.claims = dict(certificate.data)
        self.measure()
        ends = (op.offset.value.data + self.sizes[v] for v, op in self.uses.slots.items())
        peak, bound = max(ends, default=0), self.bound
        self.compare("peak_bytes", peak, "the highest slot ends at byte")
        self.compare("lower_bound_bytes", bound, "the most bytes live at one time are")
        self.compare("gap_bytes", peak - bound, "peak and lower bound differ by")
        optimal = self.number("optimal", i1)
        if optimal is not None and bool(optimal) != (peak == bound):
            text = "optimal" if optimal else "not optimal"
            text = f"the plan is stated as {text}, with {peak} bytes and a bound of {bound}"
            self.report("C2", text)
        arena = figure(self.func, "arena_bytes")
        if arena != peak:
            text = f"the arena has {arena} bytes, but the highest slot ends at byte {peak}"
            self.report("C3", text)
        stated = figure(self.func, "lower_bound_bytes")
        if stated not in (bound, None):
            text = f"lower_bound_bytes of @main is {stated}, but the bound is {bound}"
            self.report("C3", text)
        self.check_live()

    def measure(self) -> None:
        uses = self.uses
        uses.walk(self.func.body.block)
        alignment = max(1, figure(self.func, "alignment") or 1)
        self.sizes = {v: align_up(byte_size(v.type), alignment) for v in uses.slots}
        for slot, op in uses.slots.items():
            if PINNED in op.attributes:
                self.extents[slot] = LiveRange(0, uses.step)
                uses.ranges[slot] = [self.extents[slot]]
            elif ranges := uses.ranges.get(slot):
                self.extents[slot] = LiveRange(ranges[0].first, ranges[-1].last)
            else:
                self.report("C4", "the slot is used by no task", op)
        self.bound = most_live((r, self.sizes[slot]) for slot, r in self.extents.items())
        self.least = most_live(
            (r, self.sizes[slot]) for slot, ranges in uses.ranges.items() for r in ranges
        )

    def check_live(self) -> None:
        live = self.claims.get("live")
        if (
            not isinstance(live, DenseArrayBase)
            or cast("DenseArrayBase[Any]", live).elt_type != i64
        ):
            self.report("C1", "the certificate does not state live as numbers of type i64")
            return
        slots = list(self.uses.slots)
        places = array_ints(cast("DenseArrayBase[Any]", live))
        unused = [i for i in places if not 0 <= i < len(slots) or slots[i] not in self.extents]
        if unused:
            text = f"live names {unused[:SHOWN]}, which are no used slots among {len(slots)}"
            self.report("C5", text)
            return
        if len(set(places)) != len(places):
            self.report("C5", "live names a slot twice")
            return
        named = [slots[i] for i in places]
        total = sum(self.sizes[slot] for slot in named)
        if total != self.bound:
            text = f"the live tensors have {total} bytes together, the most live at one time are"
            self.report("C6", f"{text} {self.bound}")
        begin = max((self.extents[slot].first for slot in named), default=0)
        for slot in [s for s in named if self.extents[s].last < begin][:SHOWN]:
            text = "the tensor is stated as live at the peak, but is dead before others begin"
            self.report("C7", text, self.uses.slots[slot])


def most_live(buffers: Iterable[tuple[LiveRange, int]]) -> int:
    change: dict[int, int] = {}
    for live, size in buffers:
        change[live.first] = change.get(live.first, 0) + size
        change[live.last + 1] = change.get(live.last + 1, 0) - size
    return max(accumulate(change[step] for step in sorted(change)), default=0)


def prove_certificate(main: FuncOp) -> CertificateProof:
    proof = CertificateProof(main)
    proof.check()
    return proof
