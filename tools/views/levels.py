"""The ops of a module at any level, as nodes; and the ops that they became at the next level: by
the nodes of the model that they came from."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.dialects.memref import AllocOp, ReinterpretCastOp
from xdsl.dialects.tensor import EmptyOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ge.dialects.fused_op import FusedOp
from ge.dialects.fused_op import YieldOp as FusedYieldOp
from ge.dialects.graph import control as graph_control
from ge.dialects.graph.constant import ConstantOp, WeightAttr
from ge.dialects.graph.stated import argument_attributes, name_of
from ge.dialects.npu_task import control as task_control
from ge.dialects.npu_task import ops as task
from ge.dialects.npu_task.attributes import data_type
from ge.dialects.npu_task.memory import owner_of
from ge.dialects.support.diagnostics import sources_of
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.support.types import DYNAMIC
from ge.lowering.levels.level import Level
from ge.runtime.clock import timeline
from ge.tools.views.data import LevelGraph, LevelNode, LevelOperand
from ge.tools.views.model import Modules

CONSTANTS = ConstantOp | task.ConstantOp
# What is no node: places, views of them, events, and the ends of bodies
HIDDEN = (
    *(ConstantOp, task.ConstantOp, EmptyOp, AllocOp, ReinterpretCastOp, task.SlotOp),
    *(task.RecordOp, task.WaitOp, FusedYieldOp, graph_control.YieldOp, task_control.YieldOp),
)  # fmt: skip

LONGEST = 160  # characters of an attribute that are shown

Numbers = dict[Operation, int]


def level_graph(module: ModuleOp, level: Level, after: int = 0) -> tuple[LevelGraph, Numbers]:
    """The ops of @main, and the number of the node of each."""
    builder = Builder(LevelGraph(level, level.summary, after), task.kernels_of(module))
    if (main := main_function(module)) is not None:
        builder.function(main)
    return builder.level, builder.numbers


@dataclass
class Builder:
    """Nodes in the order of the ops, and which of them make what a value holds."""

    level: LevelGraph
    kernels: Mapping[str, task.KernelOp]
    numbers: Numbers = field(default_factory=Numbers)
    names: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])  # of bodies' constants
    # By value, of a tensor or a buffer; of a buffer that is written in parts, all writers
    makers: dict[SSAValue, list[int]] = field(default_factory=dict[SSAValue, list[int]])

    def function(self, main: FuncOp) -> None:
        nodes = self.level.nodes
        for index, value in enumerate(main.args):
            self.makers[value] = [len(nodes)]
            name = name_of(argument_attributes(main, index)) or value.name_hint or f"arg{index}"
            nodes.append(LevelNode(name, "input", [], results=[type_text(value.type)]))
        self.block(main.body.block, -1)
        end = main.body.block.last_op
        tables = () if main.res_attrs is None else main.res_attrs.data
        for index, value in enumerate(end.operands if isinstance(end, ReturnOp) else ()):
            name = name_of(tables[index].data) if index < len(tables) else None
            name = name or f"result{index}"
            nodes.append(LevelNode(name, "output", [], self.operands([value])))

    def block(self, block: Block, parent: int) -> None:
        for op in block.ops:
            if not isinstance(op, (*HIDDEN, ReturnOp)):
                self.op(op, parent)

    def op(self, op: Operation, parent: int) -> None:
        number = self.numbers[op] = len(self.level.nodes)
        sources = sources_of(op)
        read, written = ends_of(op)
        node = LevelNode(
            label(op, sources), kind(op), sources, self.operands(read),
            [type_text(v.type) for v in written], self.attributes(op), parent=parent,
        )  # fmt: skip
        self.level.nodes.append(node)
        for region in op.regions:
            for block in region.blocks:
                self.enter(op, block, number)
                self.block(block, number)
        for value in written:
            self.write(value, number)

    def enter(self, op: Operation, block: Block, number: int) -> None:
        """Note the makers of a body's arguments: an operand of a fused op, else what the op itself
        makes."""
        for index, argument in enumerate(block.args):
            if isinstance(op, FusedOp):
                self.makers[argument] = self.makers.get(op.operands[index], [])
                self.names[argument] = constant_name(op.operands[index])
            else:
                self.makers[argument] = [number]

    def write(self, value: SSAValue, number: int) -> None:
        owner = owner_of(value)
        if owner is value or owner.type == value.type:
            self.makers[owner] = [number]
        else:
            self.makers[owner] = [*self.makers.get(owner, ()), number]

    def operands(self, values: Iterator[SSAValue] | list[SSAValue]) -> list[LevelOperand]:
        found: list[LevelOperand] = []
        for value in values:
            owner, text = owner_of(value), type_text(value.type)
            makers = self.makers.get(owner) or [-1]
            name = self.names.get(owner) or constant_name(owner)
            found += [LevelOperand(name or self.made_by(maker), text, maker) for maker in makers]
        return found

    def made_by(self, maker: int) -> str:
        return self.level.nodes[maker].name if maker >= 0 else ""

    def attributes(self, op: Operation) -> dict[str, str]:
        named = {**op.properties, **op.attributes}
        texts = {k: attribute_text(v) for k, v in named.items() if "egmentSizes" not in k}
        if isinstance(op, task.LaunchOp) and (kernel := self.kernels.get(op.callee)) is not None:
            texts |= {"engine": kernel.engine.data, "computes": kernel.main.name}
            texts |= {k: attribute_text(v) for k, v in kernel_plan(kernel).items()}
        return texts


def kernel_plan(kernel: task.KernelOp) -> dict[str, Attribute]:
    plan = {"tiling": kernel.tiling, "tile program": kernel.tiles}
    return {key: value for key, value in plan.items() if value is not None}


def ends_of(op: Operation) -> tuple[list[SSAValue], list[SSAValue]]:
    """Return the values that an op reads, and those that it writes."""
    match op:
        case task.LaunchOp():
            outs = list(op.outs) if op.on_buffers else []
            return list(op.ins), [*outs, *op.results]
        case task.CopyOp():
            return [op.source], [op.target]
        case task.BatchCopyOp():
            return list(op.sources), list(op.targets)
        case _:
            return list(op.operands), list(op.results)


def label(op: Operation, sources: list[str]) -> str:
    """A name for people: that of the source, else of the kernel or the op."""
    named = [s for s in sources if not s.rpartition(":")[2].isdigit()]
    if named:  # the op that does the work of a launch is the first of its sources
        return named[0] if isinstance(op, FusedOp | task.LaunchOp) else named[-1]
    if isinstance(op, task.CopyOp | task.BatchCopyOp):
        name = timeline.label(op, "")
        return f"copy of {name}" if name else "copy"
    return op.callee if isinstance(op, task.LaunchOp) else op.name.partition(".")[2]


def kind(op: Operation) -> str:
    return f"launch @{op.callee}" if isinstance(op, task.LaunchOp) else op.name


def constant_name(value: SSAValue) -> str:
    """Return the name of a constant; empty for any other value."""
    op = value.owner
    if not isinstance(op, CONSTANTS):
        return ""
    if isinstance(op.value, WeightAttr):
        return op.value.data
    return next(iter(sources_of(op)), "") or attribute_text(op.value)


def type_text(t: Attribute) -> str:
    """Sizes and element type, 2x16xf32, `?` for an open size; other types as MLIR writes them."""
    try:
        element, shape = data_type(t)
    except (GeError, AttributeError, AssertionError, TypeError, ValueError):
        return str(t)
    return "x".join((*("?" if d == DYNAMIC else str(d) for d in shape), str(element)))


def attribute_text(value: Attribute) -> str:
    if isinstance(value, DenseIntOrFPElementsAttr):
        count = len(cast(DenseIntOrFPElementsAttr[Any], value))
        if count > 8:
            return f"dense of {count} elements"
    text = str(cast(Attribute, value))
    return text if len(text) <= LONGEST else text[:LONGEST] + "..."


Key = tuple[str, ...]

COPIES = ("npu_task.copy", "npu_task.batch_copy", "npu_task.transfer")


def link(levels: Sequence[LevelGraph], modules: Modules) -> None:
    """Set module, group and task of all nodes."""
    by_name = {level.name: level for level in levels}
    fused, program = by_name.get(Level.FUSED), by_name.get(Level.PROGRAM)
    if program is not None:
        for name in (Level.FUSED, Level.TASKS, Level.BUFFERS, Level.PROGRAM):
            if (level := by_name.get(name)) is not None:
                set_tasks(level.nodes, program.nodes)
    if fused is not None and (graph := by_name.get(Level.GRAPH)) is not None:
        set_groups(graph.nodes, fused.nodes)
    for level in levels:
        set_modules(level.nodes, modules)
    if fused is not None and program is not None:
        inherit(fused.nodes, program.nodes)
        for name in (Level.TASKS, Level.BUFFERS):
            for node in by_name[name].nodes if name in by_name else ():
                node.module = program.nodes[node.task].module if node.task >= 0 else node.module


def set_tasks(nodes: Iterable[LevelNode], program: Sequence[LevelNode]) -> None:
    """Launches that compute the same for the same sources are in the same order at all levels."""
    launches: dict[tuple[str, Key], list[int]] = defaultdict(list)
    for number, node in enumerate(program):
        launches[computed(node), tuple(node.sources)].append(number)
    taken: dict[tuple[str, Key], int] = defaultdict(int)
    for node in nodes:
        key = computed(node), tuple(node.sources)
        if node.parent < 0 and key[0] and taken[key] < len(launches[key]):
            node.task = launches[key][taken[key]]
            taken[key] += 1


def computed(node: LevelNode) -> str:
    """The name of the op that a launch computes, or a launch is made of; empty for any other op."""
    if node.op.startswith("launch "):
        return node.attributes.get("computes", "")
    return node.op if node.op.startswith(("fused_op.", "graph.")) else ""


def set_groups(graph: Iterable[LevelNode], fused: Sequence[LevelNode]) -> None:
    """Ops that went into the body of a fused op are those of its body, in the same order among
    equal ones."""
    members: dict[tuple[str, Key], list[int]] = defaultdict(list)
    for number, node in enumerate(fused):
        top = node.parent if node.parent >= 0 else number
        if not fused[number].op.startswith("fused_op."):
            members[node.op, tuple(node.sources)].append(top)
    for node in graph:
        if found := members.get((node.op, tuple(node.sources))):
            number = found.pop(0) if len(found) > 1 else found[0]
            node.group = number if fused[number].op.startswith("fused_op.") else -1
            node.task = fused[number].task


def set_modules(nodes: Sequence[LevelNode], modules: Modules) -> None:
    inner: dict[int, list[str]] = defaultdict(list)
    for node in nodes:
        if node.parent >= 0:
            inner[node.parent] += node.sources
    for number, node in enumerate(nodes):
        node.module = modules.module_of([*dict.fromkeys([*inner.get(number, []), *node.sources])])
        if not node.module and node.op in COPIES and node.operands:  # of what is copied
            maker = node.operands[0].node
            node.module = nodes[maker].module if maker >= 0 else ""


def inherit(fused: Sequence[LevelNode], program: Sequence[LevelNode]) -> None:
    """Launches have the modules of the fused ops that they execute."""
    for node in fused:
        if node.parent < 0 and node.task >= 0:
            program[node.task].module = node.module
