"""Proof of what a program claims about its memory: `npu_task.certificate` on @main.

`check_certificate(module)` finds out from the text alone when each slot of the arena is used, in
the order in which the host issues the tasks, and reports
- a peak that is not that of the slots, or not the size of the arena;
- a lower bound that is not the most bytes alive at one time;
- tensors at the peak that are not alive together, or do not have as many bytes as stated;
- a gap, or a word about optimality, that does not follow.

A slot is alive from the first to the last task that uses it. Branches and loops use all that is
used in them and defined outside from their begin to their end. A pinned slot is alive always.
Nothing here is shared with the planner in `transforms`; that no two slots in use at one time share
bytes is proved by `memory.check_plan`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, cast

from xdsl.dialects.builtin import DenseArrayBase, DictionaryAttr, IntegerAttr, ModuleOp, i1, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ge.dialects.npu_task.memory import owner_of
from ge.dialects.npu_task.ops import CopyOp, LaunchOp, SlotOp, TransferOp
from ge.dialects.npu_task.program_info import CERTIFICATE, PINNED, figure
from ge.dialects.support.functions import main_function
from ge.dialects.support.types import array_ints, byte_size
from ge.runtime.check.figures import aligned
from ge.runtime.check.problems import Problem

SHOWN = 5
"""Tensors that a message names."""


@dataclass(slots=True)
class Use:
    """When a slot is used: the numbers of the first and of the last step."""

    first: int
    last: int


@dataclass
class Uses:
    """Walks a program and notes when each slot of the arena is used."""

    slots: dict[SSAValue, SlotOp] = field(default_factory=dict[SSAValue, SlotOp])
    use: dict[SSAValue, Use] = field(default_factory=dict[SSAValue, Use])
    step: int = 0

    def touch(self, values: Iterable[SSAValue]) -> dict[SSAValue, None]:
        """The slots behind some values are used now. Returns them."""
        slots = {v: None for v in map(owner_of, values) if v in self.slots}
        for slot in slots:
            self.use.setdefault(slot, Use(self.step, self.step)).last = self.step
        return slots

    def walk(self, block: Block) -> dict[SSAValue, None]:
        """Go through a block; returns the slots that it uses and does not define."""
        used: dict[SSAValue, None] = {}
        own: set[SSAValue] = set()
        for op in block.ops:
            match op:
                case SlotOp():
                    if op.segment.data == "arena":
                        self.slots[op.result] = op
                        own.add(op.result)
                case LaunchOp() | CopyOp() | TransferOp():
                    self.step += 1
                    used |= self.touch(op.operands)
                case _ if op.regions:
                    used |= self.control(op)
                case _ if op is block.last_op:
                    self.step += 1
                    used |= self.touch(op.operands)
                case _:
                    pass
        return {slot: None for slot in used if slot not in own}

    def control(self, op: Operation) -> dict[SSAValue, None]:
        """A branch or a loop uses what comes from outside from its begin to its end."""
        self.step += 1
        begin = self.step
        used = self.touch(op.operands)
        for region in op.regions:
            for block in region.blocks:
                used |= self.walk(block)
        self.step += 1
        for slot in used:
            use = self.use[slot]
            use.first, use.last = min(use.first, begin), self.step
        return used


@dataclass
class Claims:
    """Checks the certificate of one function against what its text says."""

    func: FuncOp
    certificate: DictionaryAttr
    problems: list[Problem] = field(default_factory=list[Problem])

    def report(self, message: str, op: Operation | None = None) -> None:
        self.problems.append(Problem("certificate", message, op or self.func))

    def number(self, name: str, of: Attribute = i64) -> int | None:
        """An integer of the certificate; None, and a report, when it is not there."""
        attr = self.certificate.data.get(name)
        if isinstance(attr, IntegerAttr) and cast("IntegerAttr[Any]", attr).type == of:
            return attr.value.data
        self.report(f"the certificate does not state {name} as a number of type {of}")
        return None

    def claim(self, name: str, found: int, what: str) -> None:
        """Report a number of the certificate that is not what was found."""
        stated = self.number(name)
        if stated is not None and stated != found:
            self.report(f"{name} is stated as {stated}, but {what} {found}")

    def check(self) -> None:
        """Report every claim that is not true."""
        uses = Uses()
        uses.walk(self.func.body.block)
        for slot, op in uses.slots.items():
            if PINNED in op.attributes:
                uses.use[slot] = Use(0, uses.step)
            elif slot not in uses.use:
                self.report("the slot is used by no task", op)
        alignment = max(1, figure(self.func, "alignment") or 1)
        sizes = {v: aligned(byte_size(v.type), alignment) for v in uses.slots}
        peak = max((op.offset.value.data + sizes[v] for v, op in uses.slots.items()), default=0)
        bound = most_alive((use, sizes[slot]) for slot, use in uses.use.items())
        self.claim("peak_bytes", peak, "the highest slot ends at byte")
        self.claim("lower_bound_bytes", bound, "the most bytes alive at one time are")
        self.claim("gap_bytes", peak - bound, "peak and lower bound differ by")
        optimal = self.number("optimal", i1)
        if optimal is not None and bool(optimal) != (peak == bound):
            text = "optimal" if optimal else "not optimal"
            self.report(f"the plan is stated as {text}, with {peak} bytes and a bound of {bound}")
        arena = figure(self.func, "arena_bytes")
        if arena != peak:
            self.report(f"the arena has {arena} bytes, but the highest slot ends at byte {peak}")
        stated = figure(self.func, "lower_bound_bytes")
        if stated not in (bound, None):
            self.report(f"lower_bound_bytes of @main is {stated}, but the bound is {bound}")
        self.check_live(uses, sizes, bound)

    def check_live(self, uses: Uses, sizes: dict[SSAValue, int], bound: int) -> None:
        """Report live tensors that do not prove the lower bound."""
        live = self.certificate.data.get("live")
        if (
            not isinstance(live, DenseArrayBase)
            or cast("DenseArrayBase[Any]", live).elt_type != i64
        ):
            self.report("the certificate does not state live as numbers of type i64")
            return
        slots = list(uses.slots)
        places = array_ints(cast("DenseArrayBase[Any]", live))
        wrong = [i for i in places if not 0 <= i < len(slots) or slots[i] not in uses.use]
        if wrong:
            self.report(f"live names {wrong[:SHOWN]}, which are no used slots among {len(slots)}")
            return
        if len(set(places)) != len(places):
            self.report("live names a slot twice")
            return
        named = [slots[i] for i in places]
        total = sum(sizes[slot] for slot in named)
        if total != bound:
            text = f"the live tensors have {total} bytes together, the most alive at one time are"
            self.report(f"{text} {bound}")
        begin = max((uses.use[slot].first for slot in named), default=0)
        for slot in [s for s in named if uses.use[s].last < begin][:SHOWN]:
            text = "the tensor is stated as live at the peak, but is dead before others begin"
            self.report(text, uses.slots[slot])


def most_alive(buffers: Iterable[tuple[Use, int]]) -> int:
    """The most bytes that are alive at one step."""
    change: dict[int, int] = {}
    for use, size in buffers:
        change[use.first] = change.get(use.first, 0) + size
        change[use.last + 1] = change.get(use.last + 1, 0) - size
    alive = most = 0
    for step in sorted(change):
        alive += change[step]
        most = max(most, alive)
    return most


def check_certificate(module: ModuleOp) -> list[Problem]:
    """What is not true in the certificate of a program; nothing if it is proved."""
    main = main_function(module)
    if main is None:
        return [Problem("certificate", "there is no @main", module)]
    certificate = main.attributes.get(CERTIFICATE)
    if not isinstance(certificate, DictionaryAttr):
        text = f"@main has no {CERTIFICATE}: plan-memory was not run"
        return [Problem("certificate", text, main)]
    claims = Claims(main, certificate)
    claims.check()
    return claims.problems
