"""Figures of a module: ops by kind and type, shapes, parameters, work, memory, and the chain of ops
that takes the longest (`ge-parser`)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue

from ge.dialects.fused_op import Body, FusedOp
from ge.dialects.graph.constant import ConstantOp, WeightAttr
from ge.dialects.graph.stated import argument_attributes, dims_of, name_of
from ge.dialects.npu_task.attributes import Engine, data_type
from ge.dialects.npu_task.ops import ConstantOp as TaskConstantOp
from ge.dialects.npu_task.ops import KernelOp, LaunchOp, kernels_of
from ge.dialects.support.boxes import Work
from ge.dialects.support.diagnostics import sources_of
from ge.dialects.support.functions import main_function
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import byte_size, is_static, numel
from ge.dialects.targets.target import Target
from ge.lowering.driver.program import memory_figures
from ge.lowering.levels.level import Level, level_of
from ge.runtime.clock.clock import UnknownShapes, simulate
from ge.runtime.library.asking import launch_us
from ge.runtime.profile.limits import critical_path
from ge.runtime.profile.tables import op_type
from ge.tools.views.levels import HIDDEN, kind, label, type_text
from ge.transforms.analysis.engines import choose_engine
from ge.transforms.analysis.task_graph import used_by, value_graph
from ge.transforms.analysis.views import view_offsets


@dataclass(slots=True)
class KindFacts:
    """The ops of one kind and one type of result."""

    op: str
    type: str  # element type of the first result
    count: int = 0
    macs: int = 0  # multiply-accumulates
    vector: int = 0  # other operations on elements
    bytes: int = 0  # read and written
    open: int = 0  # how many have work that is not known, for sizes are not


@dataclass(slots=True)
class CriticalStep:
    """An op of the longest chain, and its time: in a run, or alone by estimate."""

    name: str
    op: str
    us: float


@dataclass(slots=True)
class ModuleFigures:
    """A module in figures. Sizes are in bytes, times in microseconds."""

    level: str
    ops: int  # of @main, without constants, views of buffers and ends of bodies
    inside: int  # further ones in the bodies of fused ops and kernels
    inputs: dict[str, str]
    outputs: dict[str, str]
    dims: list[str]  # names of dimensions that are open
    kinds: list[KindFacts]
    weights: int
    parameters: int
    weight_bytes: int
    # The memory plan, or the most bytes that values take at one time in this order
    memory: dict[str, int] = field(default_factory=dict[str, int])
    chain: list[CriticalStep] = field(default_factory=list[CriticalStep])
    machine: str = ""  # which, and where the times of the chain come from

    @property
    def chain_us(self) -> float:
        return sum(s.us for s in self.chain)


def facts_of(module: ModuleOp, target: Target) -> ModuleFigures:
    """The figures of a module of any level, times on `target`."""
    main, level = main_function(module), level_of(module)
    kernels = kernels_of(module)
    if main is None:
        return ModuleFigures(level, 0, 0, {}, {}, [], [], 0, 0, 0)
    ops = list(working(main.body.block.ops))
    computed = [(op, body_of(op, kernels)) for op in ops]
    inside = [b for _, b in computed if b is not None and b.kind_of_body]
    constants = weights_in(module)
    inputs, outputs, dims = ports_of(main)
    return ModuleFigures(
        level,
        len(ops),
        sum(len(b.body.ops) for b in inside),
        inputs,
        outputs,
        dims,
        kinds_of(computed),
        len(constants),
        sum(numel(data_type(t)[1]) for t in constants.values()),
        sum(byte_size(t) for t in constants.values()),
        memory_of(module, main, level),
        *chain_of(module, main, level, computed, target),
    )


@dataclass(frozen=True, slots=True)
class Computed:
    """The computation of an op, and its engine."""

    body: Body
    engine: Engine
    kind_of_body: bool  # whether it is a body of several ops


def working(ops: Iterable[Operation]) -> Iterator[Operation]:
    """The ops of a block and of the branches and loops in it."""
    for op in ops:
        if isinstance(op, (*HIDDEN, ReturnOp)):
            continue
        yield op
        if not isinstance(op, FusedOp):
            for region in op.regions:
                for block in region.blocks:
                    yield from working(block.ops)


def body_of(op: Operation, kernels: dict[str, KernelOp]) -> Computed | None:
    """Return what an op computes; None if it computes nothing: copies, branches, views."""
    if isinstance(op, LaunchOp):
        kernel = kernels.get(op.callee)
        if kernel is None:
            return None
        main = kernel.main
        return Computed(Body.of(main), kernel.engine.data, isinstance(main, FusedOp))
    if not isinstance(op, TensorOp) or (op.regions and not isinstance(op, FusedOp)):
        return None
    if view_offsets(op) is not None:
        return None
    return Computed(Body.of(op), choose_engine(op), isinstance(op, FusedOp))


def kinds_of(computed: Sequence[tuple[Operation, Computed | None]]) -> list[KindFacts]:
    """The most work first, then the most ops."""
    rows: dict[tuple[str, str], KindFacts] = {}
    for op, what in computed:
        name = what.body.kind if what is not None and what.body.kind else shown_kind(op, what)
        values = op.outs if isinstance(op, LaunchOp) else op.results
        element = element_text(values[0]) if values else ""
        row = rows.setdefault((name, element), KindFacts(name, element))
        row.count += 1
        work = Work() if what is None else what.body.work()
        if work is None:
            row.open += 1
            continue
        row.macs += work.macs
        row.vector += work.vector
        row.bytes += work.read + work.written
    return sorted(rows.values(), key=lambda r: (-r.macs, -r.vector, -r.count, r.op))


def shown_kind(op: Operation, what: Computed | None) -> str:
    """The op that a launch computes, else the op's own name."""
    if not isinstance(op, LaunchOp) or what is None:
        return op.name
    if what.kind_of_body:
        around = what.body.ops[0].parent_op()
        return op.name if around is None else around.name
    return what.body.ops[0].name


def element_text(value: SSAValue) -> str:
    return type_text(value.type).rpartition("x")[2]


def weights_in(module: ModuleOp) -> dict[str, Attribute]:
    """The types of weights by key."""
    constants = (op for op in module.walk() if isinstance(op, ConstantOp | TaskConstantOp))
    return {op.value.data: op.result.type for op in constants if isinstance(op.value, WeightAttr)}


def ports_of(main: FuncOp) -> tuple[dict[str, str], dict[str, str], list[str]]:
    """Types of inputs and outputs by name, and the names of open dimensions."""
    inputs: dict[str, str] = {}
    dims: dict[str, None] = {}
    for index, value in enumerate(main.args):
        table = argument_attributes(main, index)
        inputs[name_of(table) or value.name_hint or f"arg{index}"] = type_text(value.type)
        names = dims_of(table, len(data_type(value.type)[1]))
        dims |= dict.fromkeys(n for n in names if n)
    end = main.body.block.last_op
    values = end.operands if isinstance(end, ReturnOp) else ()
    tables = main.res_attrs.data if main.res_attrs is not None else ()
    named = [name_of(t.data) for t in tables] or [None] * len(values)
    outputs = {
        name or f"result{i}": type_text(v.type)
        for i, (name, v) in enumerate(zip(named, values, strict=True))
    }
    return inputs, outputs, list(dims)


def memory_of(module: ModuleOp, main: FuncOp, level: Level) -> dict[str, int]:
    if figures := memory_figures(module):
        return figures
    if level.depth > Level.TASKS.depth:
        return {}
    tasks = [[op] for op in main.body.block.ops if not isinstance(op, ConstantOp | TaskConstantOp)]
    graph = value_graph(tasks, known_bytes)
    live = graph.live(range(len(graph)))
    return {"live_bytes": live.peak}


def known_bytes(value: SSAValue) -> int:
    """0 where a size is open."""
    return byte_size(value.type) if is_static(data_type(value.type)[1]) else 0


def chain_of(
    module: ModuleOp,
    main: FuncOp,
    level: Level,
    computed: Sequence[tuple[Operation, Computed | None]],
    target: Target,
) -> tuple[list[CriticalStep], str]:
    """The critical path of a program, and of tensors the longest chain of ops; none where sizes are
    open, and of buffers on no streams. And where the times come from."""
    if level.depth < Level.BUFFERS.depth:
        return longest_chain(main, computed, target), target.timed(1, 1)
    if level is not Level.PROGRAM:
        return [], ""
    try:
        timeline = simulate(module, target)
    except UnknownShapes:
        return [], ""
    steps = [CriticalStep(t.name, op_type(t), t.duration_us) for t in critical_path(timeline)]
    return steps, timeline.machine


def longest_chain(
    main: FuncOp, computed: Sequence[tuple[Operation, Computed | None]], target: Target
) -> list[CriticalStep]:
    """The chain of ops, each reading the one before, whose times alone add up to the most. What is
    inside branches and loops does not count."""
    alone = {op: time_alone(what, target) for op, what in computed}
    until: dict[Operation, float] = {}
    before: dict[Operation, Operation | None] = {}
    for op in main.body.block.ops:
        owners = (v.owner for v in used_by(op))
        earlier = [o for o in owners if isinstance(o, Operation) and o in until]
        last = max(earlier, key=lambda o: until[o], default=None)
        until[op] = alone.get(op, 0.0) + (0.0 if last is None else until[last])
        before[op] = last
    end: Operation | None = max(until, key=lambda o: until[o], default=None)
    chain: list[CriticalStep] = []
    while end is not None:
        if alone.get(end):
            chain.append(CriticalStep(label(end, sources_of(end)), kind(end), alone[end]))
        end = before[end]
    return chain[::-1]


def time_alone(what: Computed | None, target: Target) -> float:
    """Microseconds with the launch; 0 for what computes nothing, and where a size is open."""
    if what is None or what.engine not in (Engine.CUBE, Engine.VECTOR):
        return 0.0
    return launch_us(what.body, target) or 0.0
