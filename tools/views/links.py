"""What the ops of one level became at the next: by the nodes of the model that they came from."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from ge.lowering.levels.level import Level
from ge.tools.views.data import LevelGraph, LevelNode
from ge.tools.views.modules import Modules

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
    """The name of the op that a launch computes, or a launch is made of; empty for what is none."""
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
        node.module = modules.module_of(dict_order(inner.get(number, []), node.sources))
        if not node.module and node.op in COPIES and node.operands:  # of what is copied
            maker = node.operands[0].node
            node.module = nodes[maker].module if maker >= 0 else ""


def inherit(fused: Sequence[LevelNode], program: Sequence[LevelNode]) -> None:
    """Launches have the modules of the fused ops that they execute."""
    for node in fused:
        if node.parent < 0 and node.task >= 0:
            program[node.task].module = node.module


def dict_order(*names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(name for part in names for name in part))
