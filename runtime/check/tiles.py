"""The proof of tile programs: no order in which the pipes of the cores may run changes a result.

Each core's programs are walked (`tile_program.py`), and their instructions replayed with vector
clocks (Fidge 1988; DJIT+, Pozniansky and Schuster, PPoPP 2003): a pipe's instructions run in order,
a wait after the set that it is for, a pop after its push, a push after the pop that made room, all
behind a barrier after all before it, on any core.
Whatever two instructions touch, one of them writing, must be ordered so.

The proof is for the shapes of the kernel's arguments, its number of cores, and the results
that its launches write over operands (`uses_of`; a kernel alone has none); cores whose
instructions touch the same bytes of their memories are replayed once. Sums that several cores or
pipes add to are the same but for rounding. The rules are T1 to T24 (docs/proofs.md).

Numbers that a kernel reads (`tile.read`) are taken at their least and at their largest. That proves
it for all where they only say which box is loaded; where loops and conditions depend on them, the
summary says that it is proved for these two alone. Numbers that the text says to be distinct are
taken in order, from the least on and from the largest down, those that ascend so that the first or
the last group has all, that all have as many, and that they grow: the summary says for which
memrefs that is a condition. An emulated run refuses others; a device does not look. That stores at
such numbers do not meet is proved for all of them, or the kernel is refused (`tile_numbers.py`).

Not proved: that numbers are right, nor that the padding of a tile is right for what is computed of
it: a load without `pad` leaves earlier contents there, and is right where these pad. Tiles
lie in memory row by row here, not in the fractals of L1 and L0, which matters only where buffers
overlap in parts. Of a result that a launch stores in part over an operand (`graph.append`), as many
elements are stored as the op says; not proved is which. What a proof relies on stands in its
summary: "provided that".
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast
from weakref import WeakKeyDictionary

from xdsl.dialects.arith import AddiOp, MuliOp, SubiOp
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import SSAValue

from ge.dialects.npu_task.attributes import OPEN_TILES, data_type
from ge.dialects.npu_task.ops import KernelOp as TaskKernelOp
from ge.dialects.npu_task.ops import LaunchOp
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.operation import walk
from ge.dialects.support.types import byte_size, is_dynamic
from ge.dialects.targets.target import Target
from ge.dialects.tile.buffers import ReadOp, ViewOp, box_of, constant_index
from ge.dialects.tile.instruction import Instruction
from ge.dialects.tile.kernel import KernelOp
from ge.dialects.tile.transfers import LoadOp, StoreOp
from ge.dialects.tile.types import BoxType
from ge.runtime.check.memory import span_of
from ge.runtime.check.problems import Problem, Problems, placed
from ge.runtime.check.tile_device import ALONE, NOTHING, Device, Sharing, Use, name, ordered_memory
from ge.runtime.check.tile_numbers import StoredPlaces
from ge.runtime.check.tile_program import KernelFacts, ReadNumbers, WalkError
from ge.runtime.check.tile_replay import Core, replay


@dataclass(frozen=True, slots=True)
class KernelProof:
    """The result of the proof of one kernel."""

    name: str
    cores: int
    instructions: int  # of all cores
    problems: tuple[Problem, ...]
    for_numbers: str = ""  # of those that it reads for which it is proved; empty: all
    over: str = ""  # the results that launches write over operands
    provided: tuple[str, ...] = ()  # what the proof relies on

    @property
    def summary(self) -> str:
        if self.problems:
            first, more = self.problems[0], len(self.problems) > 1
            such = f"{', such as' * more}: {placed(first.op)}: {first.message}"
            return f"@{self.name}: {len(self.problems)} problem{'s' * more}{such}"
        text = f"{self.instructions} instructions on {self.cores} cores, in any order of the pipes"
        text += self.over
        text += self.for_numbers
        if self.provided:
            text += f", provided that {', that '.join(self.provided)}"
        return f"@{self.name}: proved, {text}"


def check_kernels(module: ModuleOp, target: Target | None = None) -> list[KernelProof]:
    """The proofs of all tile programs of a module, on the target, or on the default one, for the
    sharing of their launches. Of those of kernels of unknown shapes there are none: they are proved
    when they are bound to sizes."""
    target, uses, unbound = target or Target.load(), uses_of(module), unbound_programs(module)
    return [
        checked(k, target, uses.get(k.sym_name.data, ALONE))
        for k in module.ops
        if isinstance(k, KernelOp) and not k.is_open and k.sym_name.data not in unbound
    ]


def unbound_programs(module: ModuleOp) -> set[str]:
    """The programs of kernels of unknown shapes: some have no size for an argument, as all that
    they have are 1."""
    found = [op.attributes.get(OPEN_TILES) for op in module.ops if isinstance(op, TaskKernelOp)]
    lists = [cast("ArrayAttr[StringAttr]", names) for names in found if names is not None]
    return {name.data for names in lists for name in names}


# Equal programs that are texts so far are one kernel, in all modules: it is proved once
_proved: WeakKeyDictionary[KernelOp, dict[tuple[Target, Use], KernelProof]] = WeakKeyDictionary()


def checked(kernel: KernelOp, target: Target, use: Use) -> KernelProof:
    """The proof of `check_kernel`; an equal kernel's proof is used again."""
    if (program := kernel.unchanged) is kernel:
        return check_kernel(kernel, target, use)
    known = _proved.setdefault(program, {})
    if (target, use) not in known:
        proof = check_kernel(program, target, use)
        if proof.problems:  # which are of the ops of this one
            return check_kernel(kernel, target, use)
        known[target, use] = proof
    return replace(known[target, use], name=kernel.sym_name.data)


def check_kernel(kernel: KernelOp, target: Target, use: Use = ALONE) -> KernelProof:
    """The proof of one tile program, on a target, for this use of its arguments."""
    problems = Problems()
    reads = [op for op in kernel.walk() if isinstance(op, ReadOp)]
    check_memories(kernel, target, problems)
    stored = StoredPlaces(kernel) if reads else None
    anywhere = {} if stored is None else stored.anywhere
    devices = [Device(kernel, sharing, use, anywhere=anywhere) for sharing in use.sharings]
    for device in devices:
        device.check(problems)
    for op, place in [] if stored is None else stored.refused:
        problems.add("T4", meets(op, place), op)
    numbers = numbers_of(reads)
    steps = [check_cores(kernel, target, problems, devices, n) for n in numbers]
    args = kernel.body.block.args
    pairs = sorted(frozenset[tuple[int, int]]().union(*use.sharings))
    over = ", ".join(f"{name(args[r])} over {name(args[i])}" for r, i in pairs)
    also = "also " * (NOTHING in use.sharings)
    return KernelProof(
        kernel.sym_name.data,
        kernel.core_count,
        max(steps),
        tuple(problems.found.values()),
        for_numbers(reads, devices, stored),
        f", {also}with {over}" if over else "",
        tuple(assumptions(kernel, reads, devices, use)),
    )


def numbers_of(reads: Sequence[ReadOp]) -> Sequence[ReadNumbers]:
    """The choices of numbers that a kernel is walked for."""
    if any(op.ascending is not None for op in reads):
        return [*ReadNumbers]
    return (ReadNumbers.LARGEST, ReadNumbers.LEAST) if reads else (ReadNumbers.LARGEST,)


def for_numbers(
    reads: Sequence[ReadOp], devices: Sequence[Device], stored: StoredPlaces | None
) -> str:
    """Text of the numbers for which a kernel is proved; "" if these are all that it may read."""
    if all(only_chooses_boxes(op, device) for op in reads for device in devices):
        return ""
    text = ", for the least and the largest of each number that it reads"
    if ascending := dict.fromkeys(name(op.source) for op in reads if op.ascending is not None):
        text += f", and for groups of {', '.join(ascending)} that are alike and that grow"
    text += ", not for all"
    if stored is not None and stored.groups:
        text += f"; whatever they are, groups of {', '.join(map(name, stored.groups))} stay apart"
    return text


def meets(op: StoreOp, place: SSAValue) -> str:
    """The error of a store whose place is refused, in words."""
    target = name(box_of(op.target).source)
    text = f"{placed(op)} stores to {target} from a number on that the kernel reads, and may lie"
    text = f"{text} over a part of what another one stores: end its box where the next begins"
    return f"{text}, at the next number of those that are read as `ascending`"


def assumptions(
    kernel: KernelOp, reads: Sequence[ReadOp], devices: Sequence[Device], use: Use
) -> Iterator[str]:
    """The assumptions that the proof of a kernel relies on, each as a clause."""
    if distinct := dict.fromkeys(name(op.source) for op in reads if op.distinct is not None):
        yield f"no two elements of {', '.join(distinct)} are the same"
    for op in {op.source: op for op in reads if op.ascending is not None}.values():
        yield f"the numbers of {name(op.source)} ascend from {op.span[0]} to {op.span[-1]}"
    if numbers := dict.fromkeys(name(op.source) for op in reads if op.ascending is None):
        yield f"the numbers of {', '.join(numbers)} are in the ranges that it states"
    for arg in dict.fromkeys(a for device in devices for a in device.added):
        yield f"{name(arg)} holds what its sums are added to"
    for result, _ in sorted(use.in_part):
        yield f"it stores the elements of {name(kernel.arguments[result])} that its op appends"


def check_cores(
    kernel: KernelOp,
    target: Target,
    problems: Problems,
    devices: Sequence[Device],
    numbers: ReadNumbers,
) -> int:
    """Replay all cores, for some of the numbers that they read. How many instructions they have."""
    cores: list[Core] = []
    facts = KernelFacts()
    try:
        for number in range(kernel.core_count):
            cores.append(Core.walk(kernel, number, numbers, facts))
    except WalkError as e:
        problems.add(e.rule, str(e), e.op)
    else:
        check_barriers(kernel, cores, problems)
        for device in devices:
            ordered = ordered_memory(device, (core.accesses for core in cores), problems)
            seen: set[object] = set()
            for core in cores:
                grids = core.grids(device, ordered)
                if (shape := core.shape(device, grids)) not in seen and not problems.full:
                    seen.add(shape)
                    replay(core, device, grids, target.flags, problems)
    return sum(isinstance(s.op, Instruction) for core in cores for s in core.steps())


def check_barriers(kernel: KernelOp, cores: Sequence[Core], problems: Problems) -> None:
    """Check that all cores come to the same number of barriers."""
    few, many = (f(cores, key=lambda core: core.barriers) for f in (min, max))
    if few.barriers < many.barriers:
        text = f"core {few.number} comes to {few.barriers} of the {many.barriers} barriers"
        text = f"{text} that core {many.number} waits at"
        problems.add("T17", text, kernel.barriers[0])


def only_chooses_boxes(op: ReadOp, device: Device) -> bool:
    """True if a number that is read only says where boxes of memrefs begin that are only loaded
    from, and these begin later the larger it is, or where such boxes end, of loads that pad: a fact
    that holds for the largest numbers and for the least ones, all at once, then holds for those
    between. Distinct numbers are not all the least or the largest at once."""
    if op.distinct is not None or op.ascending is not None:
        return False
    values: list[SSAValue] = [op.result]
    while values:
        for use in values.pop().uses:
            user = use.operation
            added = isinstance(user, AddiOp) or (isinstance(user, SubiOp) and not use.index)
            if added or (isinstance(user, MuliOp) and max(map(factor, user.operands)) >= 0):
                values.append(user.results[0])
            elif not (isinstance(user, ViewOp) and _is_loaded_box(user, device)):
                return False
            elif use.index > len(user.offsets) and not _is_padded(user):
                return False
    return True


def factor(value: SSAValue) -> int:
    """The value of a constant; -1 for other values."""
    number = constant_index(value)
    return -1 if number is None else number


def _is_loaded_box(view: ViewOp, device: Device) -> bool:
    if not isinstance(view.result.type, BoxType):
        return False
    home = device.homes[view.source]
    uses = [u.operation for a, h in device.homes.items() if h is home for u in a.uses]
    boxes = (op for op in uses if isinstance(op, ViewOp))
    return not any(isinstance(u.operation, StoreOp) for b in boxes for u in b.result.uses)


def _is_padded(view: ViewOp) -> bool:
    """True if all loads of a box write all of their tiles."""
    users = (use.operation for use in view.result.uses)
    return all(isinstance(op, LoadOp) and op.pad is not None for op in users)


def check_memories(kernel: KernelOp, target: Target, problems: Problems) -> None:
    """There are as many cores, and buffers end where their memory does."""
    sizes = target.core_memories
    for kind, count in kernel.cores_taken.items():
        if count > (have := target.cores[kind]):
            text = f"the kernel takes {count} {kind} cores, and {target.name} has {have}"
            problems.add("T18", text, kernel)
    for program in kernel.programs:
        for alloc in program.allocs:
            size, space = alloc.tile.bytes, alloc.tile.space
            for offset in alloc.offsets or ():
                if offset + size > sizes[space]:
                    text = f"{space} of {target.name} has {sizes[space]} bytes"
                    text = f"{text}: {size} bytes at {offset} pass its end"
                    problems.add("T19", text, alloc)


# ---- what launches do with the arguments -------------------------------------------------------


def uses_of(module: ModuleOp) -> dict[str, Use]:
    """For each tile program that kernels name: how their launches use its arguments. Others that
    share bytes are problems of the plan (`memory.py`)."""
    kernels = [op for op in module.ops if isinstance(op, TaskKernelOp)]
    named = [(k.tiles.data, k) for k in kernels if k.tiles is not None]
    program_of = {kernel.sym_name.data: (program, kernel) for program, kernel in named}
    sharings: dict[str, set[Sharing]] = {}
    for op in walk(module):
        if isinstance(op, LaunchOp) and op.callee in program_of:
            program, kernel = program_of[op.callee]
            sharings.setdefault(program, set()).add(sharing_of(op, kernel))
    results, parts = dict[str, set[int]](), dict[str, set[tuple[int, int]]]()
    for program, kernel in named:
        first = len(kernel.input_types) + len(kernel.constants)
        results.setdefault(program, set()).update(range(first, first + len(kernel.output_types)))
        parts.setdefault(program, set()).update(stored_in_part(kernel))
    return {
        program: Use(
            frozenset(sharings.get(program, {NOTHING})), frozenset(own), frozenset(parts[program])
        )
        for program, own in results.items()
    }


def stored_in_part(kernel: TaskKernelOp) -> Iterator[tuple[int, int]]:
    """Results of which a launch stores only so many elements, where they lie over an operand
    (elements appended to a cache): by the numbers of the tile program's arguments."""
    first = len(kernel.input_types) + len(kernel.constants)
    for r, t in enumerate(kernel.output_types):
        if not is_dynamic(t) and (size := kernel.bytes_written()[r]) < byte_size(t):
            yield first + r, 8 * size // bitwidth(data_type(t)[0])


def sharing_of(launch: LaunchOp, kernel: TaskKernelOp) -> Sharing:
    """The sharing of a launch, by the numbers of the tile program's arguments: operands, constants,
    results."""
    try:
        reads, writes = ([span_of(v) for v in values] for values in (launch.ins, launch.outs))
    except ValueError:  # too scattered: the plan is not proved either
        return frozenset()
    first = len(reads) + len(kernel.constants)
    return frozenset(
        (first + r, i)
        for r, written in enumerate(writes)
        for i, read in enumerate(reads)
        if written.overlaps(read) and written.order == read.order
    )
