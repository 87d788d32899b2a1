"""The nodes of an ONNX graph in an order in which each follows the nodes that it reads."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from onnx import AttributeProto, GraphProto, NodeProto

from ge.dialects.support.errors import GeError


def describe(node: NodeProto) -> str:
    return f"{node.op_type} '{node_name(node)}'"


def node_name(node: NodeProto) -> str:
    return node.name or next((o for o in node.output if o), node.op_type)


def domain_of(node: NodeProto) -> str:
    """The domain of a node's op; "" for ONNX's own, which has two spellings."""
    return "" if node.domain == "ai.onnx" else node.domain


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs in a node's attributes."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == AttributeProto.GRAPHS:
            yield from attribute.graphs


def reads(node: NodeProto) -> Iterator[str]:
    yield from (name for name in node.input if name)
    for graph in subgraphs(node):
        yield from captures(graph)


def captures(graph: GraphProto) -> Iterator[str]:
    own = {v.name for v in (*graph.input, *graph.initializer)}
    own.update(s.values.name for s in graph.sparse_initializer)
    own.update(name for node in graph.node for name in node.output)
    for node in graph.node:
        yield from (name for name in reads(node) if name not in own)
    yield from (o.name for o in graph.output if o.name not in own)


def is_constant(node: NodeProto) -> bool:
    return node.op_type == "Constant" and not domain_of(node)


def in_order(nodes: Sequence[NodeProto]) -> Sequence[NodeProto]:
    """The nodes sorted so that each follows what it reads; as they are if that holds already.
    Raises GeError for a name with two producers, other than constants, and for a cycle."""
    producer: dict[str, int] = {}
    for i, node in enumerate(nodes):
        for name in node.output:
            if name in producer and not is_constant(node):  # those may be equal
                first = nodes[producer[name]]
                raise GeError(
                    f"'{name}' is the output of both {describe(first)} and {describe(node)}"
                )
            if name:
                producer[name] = i
    needs = [sorted({producer[name] for name in reads(node) if name in producer}) for node in nodes]
    if all(not n or n[-1] < i for i, n in enumerate(needs)):
        return nodes
    return [nodes[i] for i in _sorted(nodes, needs)]


def _sorted(nodes: Sequence[NodeProto], needs: Sequence[Sequence[int]]) -> list[int]:
    """Depth first, in the order of the file where that is free."""
    order: list[int] = []
    visited: set[int] = set()
    for start in range(len(nodes)):
        path: dict[int, Iterator[int]] = {}
        if start not in visited:
            path[start] = iter(needs[start])
        while path:
            current = next(reversed(path))
            following = next((i for i in path[current] if i not in visited), None)
            if following is None:
                del path[current]
                visited.add(current)
                order.append(current)
            elif following in path:
                raise _cycle(nodes, path, following)
            else:
                path[following] = iter(needs[following])
    return order


def _cycle(nodes: Sequence[NodeProto], path: Mapping[int, object], back: int) -> GeError:
    members = list(path)
    cycle = members[members.index(back) :]
    text = ", ".join(describe(nodes[i]) for i in _some(cycle))
    more = f" and {len(cycle) - 3} more" if len(cycle) > 3 else ""
    return GeError(f"the graph has a cycle: {text}{more}")


def _some(items: Iterable[int], most: int = 3) -> list[int]:
    return list(items)[:most]
