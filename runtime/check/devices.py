"""Proof of a program that all devices of a mesh run: rules D2 to D9 and D15
(docs/proofs.md), those of order, memory and figures. `device_values.py` has those of values.

All devices run one program, so that what each of them does follows from its text. Devices differ in
time alone: one may be a collective ahead of another. A collective begins on a device when the
memory that it reads is written and that which it writes is free (*arrival*), ends there when all
that it gets has come, and others may read what the device has brought until the device has their
acknowledgement. Until then

    launch @all_reduce_0 on 5 ins(%x) outs(%y)       arrival .. ready
    launch @acknowledge_0 on 5 ins(%x, %y)           free

nothing is written to %x and %y. Devices do not wait for each other in a circle where all of them
have the collectives in one order: here each follows the one before it, whatever the time that tasks
take."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ge.dialects.fused_op import FusedOp
from ge.dialects.graph.acknowledge import AcknowledgeOp
from ge.dialects.graph.collectives import AllToAllOp, Collective, OfWhole
from ge.dialects.graph.sharding import Pipeline, mesh_of
from ge.dialects.graph.transfers import received_bytes
from ge.dialects.npu_task.attributes import CERTIFICATE, HBM, figure, space_of
from ge.dialects.npu_task.memory import Task, access, owner_of
from ge.dialects.npu_task.ops import KernelOp, LaunchOp, SlotOp
from ge.dialects.support.digits import all_digits
from ge.dialects.support.functions import main_function
from ge.dialects.support.mesh import Axis, Mesh
from ge.dialects.support.types import is_dynamic
from ge.runtime.check.device_values import check_values
from ge.runtime.check.dynamic_sizes import sized_by_arguments
from ge.runtime.check.happens_before import Epoch, HappensBefore, Item
from ge.runtime.check.memory import MemrefBytes, span_of
from ge.runtime.check.problems import Problem, name_of, placed


def check_devices(module: ModuleOp, order: HappensBefore | None = None) -> list[Problem]:
    """Errors across the devices of a program; none for a program of one device."""
    mesh, main = mesh_of(module), main_function(module)
    if mesh is None or main is None:
        return []
    checker = DeviceChecker(module, main, mesh, order or HappensBefore(main))
    checker.check()
    if not checker.problems:
        checker.problems += check_values(module, main, mesh)
        checker.check_bytes()
    return checker.problems


def device_clauses(module: ModuleOp) -> Iterator[str]:
    """A clause on the devices of a program that is proved."""
    mesh, main = mesh_of(module), main_function(module)
    if mesh is not None and main is not None:
        callees = [op.callee for op in main.walk() if isinstance(op, LaunchOp)]
        kernels = {op.sym_name.data: op for op in module.ops if isinstance(op, KernelOp)}
        met = [isinstance(collective_of(kernels.get(name)), Collective) for name in callees]
        pipeline = Pipeline.of(module)
        count = mesh.count if pipeline is None else pipeline.devices.count // pipeline.stages
        yield f"{sum(met)} collectives of {count} devices, in one order on all"


def check_met(module: ModuleOp, mesh: Mesh) -> list[Problem]:
    """Check that each kernel is one collective of axes of the mesh, or none: a program in which
    devices come for something else does not run."""
    found = list[Problem]()
    for kernel in module.ops:
        if not isinstance(kernel, KernelOp):
            continue
        inner, name = list(kernel.body.walk()), kernel.sym_name.data
        met = [op for op in inner if isinstance(op, Collective | AcknowledgeOp)]
        if len(met) > 1 or (met and isinstance(kernel.main, FusedOp)):
            ops = ", ".join(op.name for op in inner if op.name.startswith("graph."))
            text = f"@{name}: a launch is one collective and no more, not {ops}"
            found.append(Problem("D2", text, kernel))
        for op in met:
            if isinstance(op, Collective) and (text := wrong_axes(op, mesh)):
                found.append(Problem("D2", f"@{name}: {text}", kernel))
    return found


def collective_of(kernel: KernelOp | None) -> Collective | AcknowledgeOp | None:
    """The op of a kernel in which devices meet."""
    op = None if kernel is None else kernel.main
    return op if isinstance(op, Collective | AcknowledgeOp) else None


@dataclass(slots=True, eq=False)
class Meeting:
    """A collective of an epoch, its end on all devices, and the bytes that others may touch."""

    item: Item
    reads: list[MemrefBytes]
    writes: list[MemrefBytes]
    free: Item | None = None

    def is_of(self, acknowledged: Sequence[MemrefBytes]) -> bool:
        """True if all of its memory is acknowledged."""
        own = (*self.reads, *self.writes)
        return all(any(same(a, b) for b in acknowledged) for a in own)


@dataclass
class DeviceChecker:
    module: ModuleOp
    main: FuncOp
    mesh: Mesh
    order: HappensBefore
    problems: list[Problem] = field(default_factory=list[Problem])
    spans: dict[SSAValue, MemrefBytes | None] = field(
        default_factory=dict[SSAValue, MemrefBytes | None]
    )

    def report(self, rule: str, text: str, op: Operation) -> None:
        self.problems.append(Problem(rule, text, op))

    def check(self) -> None:
        self.in_stage = Pipeline.of(self.module) is not None
        self.kernels: Mapping[str, KernelOp] = {
            op.sym_name.data: op for op in self.module.ops if isinstance(op, KernelOp)
        }
        self.problems += check_met(self.module, self.mesh)
        if self.problems:
            return
        for epoch in self.order.epochs:
            self.check_epoch(epoch)

    def check_bytes(self) -> None:
        """Count again what collectives bring a device, where the program states figures."""
        callees = (op.callee for op in self.main.walk() if isinstance(op, LaunchOp))
        met = (collective_of(self.kernels.get(name)) for name in callees)
        counted = sum(received_bytes(op, self.mesh) for op in met if isinstance(op, Collective))
        stated = figure(self.main, "received_bytes")
        if stated != counted and CERTIFICATE in self.main.attributes:
            text = f"@main states npu_task.received_bytes = {stated}, and collectives bring "
            self.report("D15", f"{text}a device {counted}", self.main)

    # ---- order and memory

    def span(self, value: SSAValue) -> MemrefBytes | None:
        if value not in self.spans:
            try:
                self.spans[value] = span_of(value)
            except ValueError:  # too scattered, which the plan's proof reports
                self.spans[value] = None
        return self.spans[value]

    def span_list(self, values: Sequence[SSAValue]) -> list[MemrefBytes]:
        """The bytes of values that have some."""
        return [s for v in values if (s := self.span(v)) is not None and s.boxes]

    def check_epoch(self, epoch: Epoch) -> None:
        meetings, last = list[Meeting](), None
        self.early: list[tuple[Item, list[MemrefBytes]]] = []  # of no collective before them
        for item in epoch.items:
            op = item.op
            if not isinstance(op, LaunchOp):
                continue
            met = collective_of(self.kernels.get(op.callee))
            if met is None:
                continue
            if last is not None and not item.follows(last):
                text = f"{name_of(op)} may begin before or after {placed(last.op)}: devices in "
                self.report("D5", f"{text}different orders wait for each other", op)
            last = item
            if isinstance(met, Collective):
                self.check_places(op)
                meetings.append(Meeting(item, self.span_list(op.ins), self.span_list(op.outs)))
            else:
                self.acknowledge(item, op, meetings)
        for meeting in meetings:
            if self.is_alone(meeting):
                continue
            if meeting.free is None and any(meeting.is_of(own) for _, own in self.early):
                text = f"{name_of(meeting.item.op)} is acknowledged before it begins"
                self.report("D4", f"{text}: its memory is given back too early", meeting.item.op)
            elif meeting.free is None:
                text = f"{name_of(meeting.item.op)} has no acknowledgement"
                self.report("D8", f"{text}: others may still read its memory", meeting.item.op)
            else:
                self.check_uses(epoch, meeting)

    def is_alone(self, meeting: Meeting) -> bool:
        """True for a collective of one device, or of no bytes: nobody else reads."""
        assert isinstance(meeting.item.op, LaunchOp)
        op = collective_of(self.kernels.get(meeting.item.op.callee))
        is_one = isinstance(op, Collective) and self.mesh.parts(op.group()) < 2
        return is_one or not (meeting.reads or meeting.writes)

    def acknowledge(self, item: Item, op: LaunchOp, meetings: Sequence[Meeting]) -> None:
        """Find the collective whose memory an acknowledgement is of: the one before it that has
        the same."""
        own = self.span_list(op.ins)
        for meeting in reversed(meetings):
            if meeting.free is None and not self.is_alone(meeting) and meeting.is_of(own):
                if not item.follows(meeting.item):
                    text = f"{name_of(op)} may wait for reads of {placed(meeting.item.op)}, which "
                    self.report("D4", f"{text}has not begun: all devices wait", op)
                meeting.free = item
                return
        self.early.append((item, own))

    @cached_property
    def alike(self) -> set[SSAValue]:
        """The tensors that devices allocate in a run, of one size on all: they do so in the order
        of the program."""
        return sized_by_arguments(self.main, self.kernels)

    def check_places(self, op: LaunchOp) -> None:
        """Check that the memory lies at the same place on all devices."""
        for value in (*op.ins, *op.outs):
            owner = owner_of(value)
            is_argument = owner.owner is self.main.body.block and space_of(owner.type) == HBM
            placed_ = isinstance(owner.owner, SlotOp) or (self.in_stage and is_argument)
            placed_ = placed_ and not is_dynamic(owner.type)
            placed_ = placed_ or owner in self.alike
            if space_of(value.type) != HBM or not (placed_ or is_weight(owner, op, value)):
                text = f"{name_of(op)} takes {value.type}, which has no stated place: it may lie "
                self.report("D9", f"{text}elsewhere on other devices", op)

    def check_uses(self, epoch: Epoch, meeting: Meeting) -> None:
        begin, end, task = meeting.item, meeting.free, name_of(meeting.item.op)
        assert end is not None
        for item in epoch.items:
            if not isinstance(item.op, Task) or item in (begin, end):
                continue
            if begin.follows(item) or item.follows(end):
                continue
            reads, writes, new = access(item.op)
            touched = self.span_list([*writes, *new])
            who = f"{name_of(item.op)} may write"
            if any(a.overlaps(b) for a in touched for b in meeting.reads):
                self.report("D6", f"{who} what others may still read of {task}", item.op)
            on_target = any(a.overlaps(b) for a in touched for b in meeting.writes)
            if item.follows(begin):
                if on_target:
                    text = f"{who} over the result of {task} before all devices have "
                    self.report("D8", f"{text}acknowledged", item.op)
                continue
            is_read = any(a.overlaps(b) for a in self.span_list(reads) for b in meeting.writes)
            if on_target or is_read:
                text = f"{name_of(item.op)} touches the result of {task} while others write it"
                self.report("D7", text, item.op)


def same(a: MemrefBytes, b: MemrefBytes) -> bool:
    return a.memory == b.memory and a.boxes == b.boxes


def is_weight(owner: SSAValue, op: LaunchOp, value: SSAValue) -> bool:
    """True for a constant that a collective reads: nothing is written to it, ever."""
    return value in op.ins and not is_dynamic(owner.type) and isinstance(owner.owner, Operation) \
        and not access(owner.owner).reads and bool(access(owner.owner).new)  # fmt: skip


def wrong_axes(op: Collective, mesh: Mesh) -> str:
    """Return what is wrong with the axes of a collective, "" if nothing."""
    for axis in op.group():
        if text := wrong_axis(axis, mesh):
            return text
    shardings = [op.has.data.dims] if isinstance(op, OfWhole) else [(tuple(op.group()),)]
    shardings += [op.to.data.dims] if isinstance(op, AllToAllOp) else []
    for dims in shardings:
        used = all_digits(a for own in dims for a in own)
        if len(set(used)) < len(used):
            return "an axis is used twice"
    return ""


def wrong_axis(axis: Axis, mesh: Mesh) -> str:
    """Return what is wrong with an axis, "" if nothing."""
    size = mesh.sizes.get(axis.name)
    if size is None:
        return f"the mesh has no axis '{axis.name}'"
    if not axis.size or size % (axis.pre * axis.size):
        return f"axis '{axis.name}' of {size} devices has no digit :({axis.pre}){axis.size}"
    if axis.pre == 1 and axis.size > size:
        return f"axis '{axis.name}' has {size} devices, not {axis.size}"
    return ""
