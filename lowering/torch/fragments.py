"""Which outputs of a graph of dynamo's Python makes itself: numbers, and what is on the memory of
the graph's inputs. Of

    x, n: y = x.view(-1); z = x * 2; return y, n + 1, z

`y` shares its elements with `x`, as a program's output could not, and `n + 1` is no tensor: a
program is made for `z` alone."""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

from ge.lowering.torch.library import pytree, torch


@dataclass(frozen=True)
class SplitGraph:
    """Two graphs with the inputs of one, and which of its outputs each has, in order."""

    python: Any
    in_python: Sequence[int]
    computed: Any
    in_program: Sequence[int]

    def merged(self, python: Sequence[Any], computed: Sequence[Any]) -> tuple[Any, ...]:
        """The outputs of the whole graph."""
        values = dict(zip(self.in_python, python, strict=True))
        values |= zip(self.in_program, computed, strict=True)
        return tuple(values[i] for i in range(len(values)))


def parts_of(graph: Any) -> SplitGraph:
    """The parts of a graph module. That of Python has only what its outputs need; that of the
    program keeps all, with what the graph writes to its inputs."""
    outputs = leaves_of(graph.graph.output_node())
    made = made_in_python(graph.graph.nodes)
    in_python = [i for i, v in enumerate(outputs) if not is_node(v) or v in made]
    in_program = [i for i in range(len(outputs)) if i not in in_python]
    python = with_outputs(graph, in_python)
    python.graph.eliminate_dead_code()
    python.recompile()
    return SplitGraph(python, in_python, with_outputs(graph, in_program), in_program)


def is_node(value: Any) -> bool:
    return isinstance(value, torch.fx.Node)


def leaves_of(output: Any) -> list[Any]:
    """What a graph of dynamo's returns: one flat sequence."""
    return list(output.args[0])


def with_outputs(graph: Any, numbers: Sequence[int]) -> Any:
    """A copy of a graph module that returns some of the outputs."""
    nodes: dict[Any, Any] = {}
    new = torch.fx.Graph()
    leaves = leaves_of(graph.graph.output_node())
    for node in graph.graph.nodes:
        if node.op != "output":
            nodes[node] = new.node_copy(node, nodes.__getitem__)
            nodes[node].meta = copy(node.meta)
    kept = [leaves[i] for i in numbers]
    new.output(tuple(nodes[v] if is_node(v) else v for v in kept))
    return torch.fx.GraphModule(graph, new)


def made_in_python(nodes: Sequence[Any]) -> set[Any]:
    """The nodes that compute no element of a tensor, nor follow from one that does."""
    made: set[Any] = set()
    for node in nodes:
        if node.op == "placeholder" or (
            made.issuperset(node.all_input_nodes) and not has_new_memory(node)
        ):
            made.add(node)
    return made


def has_new_memory(node: Any) -> bool:
    """Whether a node makes a tensor that is on the memory of none that it reads."""
    read = {key for n in node.all_input_nodes for key in memories(n)}
    return not read.issuperset(memories(node))


def memories(node: Any) -> list[int]:
    """What stands for the memory of each tensor that a node makes."""
    values = pytree.tree_leaves(node.meta.get("example_value"))
    return [memory(v) for v in values if isinstance(v, torch.Tensor)]


def memory(tensor: Any) -> int:
    try:
        return tensor.untyped_storage()._cdata
    except (NotImplementedError, RuntimeError):  # sparse: none
        return id(tensor)
