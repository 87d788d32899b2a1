"""Proof of the claims of a program about its memory: `npu_task.certificate` on @main.

`prove_certificate(main)` derives from the IR alone when each slot of the arena is used, in the
order in which the host issues the tasks, and checks rules C1 to C7 (docs/proofs.md).

The certificate counts a slot as live from the first to the last task that uses it. Branches and
loops use values defined outside of them from begin to end, a pinned slot is live always.
`CertificateProof.least` counts a slot as dead between the last use of a value and the task that
writes another one over all of it: no plan of these slots in the same order needs less.
Nothing here is shared with the planner in `transforms`.

The other figures that a program states about itself are proved as well, and that it fits into its
target: `check_figures(module, target)` checks rules F1 to F6 and M20 (docs/proofs.md). Buffers
whose size is known only at run time count with the places that they have. The layout of constants
in memory is trusted (`Target.constants_bytes`)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    StringAttr,
    i1,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ge.dialects.graph.constant import WeightAttr
from ge.dialects.graph.sharding import mesh_of
from ge.dialects.npu_task.attributes import (
    CERTIFICATE,
    FIGURES,
    HBM,
    NO_REUSE,
    PINNED,
    data_type,
    figure,
    space_of,
)
from ge.dialects.npu_task.memory import Task, access, owner_of, view_of
from ge.dialects.npu_task.ops import ConstantOp, KernelOp, LaunchOp, SlotOp
from ge.dialects.support.definitions import wrong_attributes
from ge.dialects.support.functions import main_function
from ge.dialects.support.types import align_up, array_ints, byte_size, is_dynamic
from ge.dialects.targets.target import Target
from ge.dialects.tile.kernel import workspace_bytes
from ge.runtime.check.problems import Problem, name_of

SHOWN = 5  # tensors that a message names


@dataclass(slots=True)
class LiveRange:
    """The numbers of the first and of the last step that need the contents of a slot."""

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
        """True if an op writes all of a slot and reads nothing of it."""
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
        """Let a branch or a loop use values from outside from its begin to its end; returns their
        slots."""
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


def slots(func: FuncOp, segment: str) -> list[SlotOp]:
    return [op for op in func.walk() if isinstance(op, SlotOp) and op.segment.data == segment]


SEGMENTS = ("arena", "io", "weight", "state", "dynamic")


def check_figures(module: ModuleOp, target: Target) -> list[Problem]:
    """Errors in the figures of a program; none if they are proved."""
    if (main := main_function(module)) is None:
        return [Problem("F1", "there is no @main", module)]
    if problems := [Problem("F1", text, main) for text in _types(main)]:
        return problems
    problems += [Problem(rule, text, main) for rule, text in _sums(main, target)]
    return [*problems, *_capacity(module, main, target), *_weights(main), *_pinned(module, main)]


def without_slots(main: FuncOp) -> dict[SSAValue, int]:
    """The bytes of each buffer on the device that has no place in a segment, if they are known:
    results of transfers, branches and loops, and allocations."""
    found: dict[SSAValue, int] = {}
    for value in _values(main):
        if is_buffer(value) and space_of(value.type) == HBM and not is_dynamic(value.type):
            if not isinstance(value.owner, SlotOp | ConstantOp) and owner_of(value) is value:
                found[value] = byte_size(value.type)
    return found


def is_buffer(value: SSAValue) -> bool:
    return isinstance(value.type, MemRefType)


def _values(main: FuncOp) -> Iterator[SSAValue]:
    for op in main.walk():
        yield from op.results
        for region in op.regions:
            for block in region.blocks:
                yield from block.args


OUTSIDE = "outside of slots"  # with inputs and outputs in memory of the caller


def taken_bytes(module: ModuleOp, main: FuncOp) -> dict[str, int]:
    """Most bytes of the device that a program takes, by what they are for."""
    taken = {name: figure(main, f"{name}_bytes") or 0 for name in SEGMENTS}
    extra = {
        "workspace": workspace_bytes(module),
        OUTSIDE: sum(without_slots(main).values()),
    }
    return taken | {name: size for name, size in extra.items() if size}


def _capacity(module: ModuleOp, main: FuncOp, target: Target) -> Iterator[Problem]:
    taken = taken_bytes(module, main)
    if (total := sum(taken.values())) > target.hbm_bytes:
        parts = ", ".join(f"{name} {size}" for name, size in taken.items())
        text = f"the program takes {total} bytes ({parts}), {target.name} has {target.hbm_bytes}"
        sizes = without_slots(main)
        largest = max(sizes, key=lambda v: sizes[v], default=None)
        at = main if largest is None or not isinstance(largest.owner, Operation) else largest.owner
        if at is not main and largest is not None:
            text += f": {name_of(at)} makes a buffer of {sizes[largest]} outside of slots"
        yield Problem("F4" if mesh_of(module) is None else "D14", text, at)


def _types(main: FuncOp) -> Iterator[str]:
    for name in FIGURES:
        if f"npu_task.{name}" not in main.attributes:
            yield f"@main does not state npu_task.{name}"
    yield from wrong_attributes(main)


def _sums(main: FuncOp, target: Target) -> Iterator[tuple[str, str]]:
    alignment = figure(main, "alignment") or 0
    if not alignment or alignment % target.hbm_alignment:
        need = f"multiples of the {target.hbm_alignment} of {target.name}"
        yield "F2", f"offsets are aligned to {alignment} bytes, not to {need}"
        return

    def size(t: Attribute) -> int:
        return align_up(byte_size(t), alignment)

    arena, io, kept = (slots(main, name) for name in ("arena", "io", "state"))
    constants = [byte_size(op.result.type) for op in main.walk() if isinstance(op, ConstantOp)]
    for name, value in (
        ("no_reuse_bytes", sum(size(op.result.type) for op in arena)),
        ("weight_bytes", target.constants_bytes(constants, alignment)),
        ("io_bytes", max((op.offset.value.data + size(op.result.type) for op in io), default=0)),
        ("state_bytes", sum(size(op.result.type) for op in kept)),
    ):
        if (stated := figure(main, name) or 0) != value:
            yield "F3", f"{name} is stated as {stated}, but the program has {value}"


def _weights(main: FuncOp) -> Iterator[Problem]:
    types: dict[str, Attribute] = {}
    for op in main.walk():
        if isinstance(op, ConstantOp) and isinstance(value := op.value, WeightAttr):
            first = types.setdefault(value.data, op.result.type)
            if data_type(first) != data_type(op.result.type):
                text = f"weight '{value.data}' is read as {first} and as {op.result.type}"
                yield Problem("M20", text, op)


def _pinned(module: ModuleOp, main: FuncOp) -> Iterator[Problem]:
    """Slots that are kept apart without being asked to be, or that are not apart."""
    arena = slots(main, "arena")
    if not (pinned := [op for op in arena if PINNED in op.attributes]):
        return
    names = cast("ArrayAttr[StringAttr]", main.attributes.get(NO_REUSE, ArrayAttr(())))
    asked = set(_written_by(module, main, {name.data for name in names}))
    for slot in pinned:
        if slot.result not in asked:
            text = f"{NO_REUSE} does not ask for this slot to be kept apart"
            yield Problem("F5", text, slot)
        low, high = _extent(slot)
        for other in arena:
            begin, end = _extent(other)
            if other is not slot and begin < high and low < end:
                yield Problem("F6", "a slot that is kept apart shares bytes with others", slot)
                break


def _written_by(module: ModuleOp, main: FuncOp, kinds: set[str]) -> Iterator[SSAValue]:
    kernels = {
        op.sym_name.data
        for op in module.ops
        if isinstance(op, KernelOp)
        and any({o.name, o.name.partition(".")[2]} & kinds for o in op.walk())
    }
    for op in main.walk():
        if isinstance(op, LaunchOp) and op.callee in kernels:
            yield from (owner_of(value) for value in op.outs)


def _extent(slot: SlotOp) -> tuple[int, int]:
    low = slot.offset.value.data
    return low, low + byte_size(slot.result.type)
