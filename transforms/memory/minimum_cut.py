"""The minimum cut of a network, by the maximum flow through it (Ford and Fulkerson 1956): shortest
augmenting paths, all of one length at a time (Dinic 1970)."""

from dataclasses import dataclass, field

UNLIMITED = 1 << 62
"""A capacity that no cut includes."""


@dataclass
class Network:
    """Nodes and edges by number; edge i ^ 1 is the reverse of edge i."""

    edges: list[list[int]] = field(default_factory=list[list[int]])
    """Of each node the edges that leave it."""
    ends: list[int] = field(default_factory=list[int])
    room: list[int] = field(default_factory=list[int])  # residual capacities

    def node(self) -> int:
        """Add a node; its number."""
        self.edges.append([])
        return len(self.edges) - 1

    def edge(self, start: int, end: int, capacity: int) -> None:
        for node, other, room in ((start, end, capacity), (end, start, 0)):
            self.edges[node].append(len(self.ends))
            self.ends.append(other)
            self.room.append(room)

    def sink_side(self, source: int, sink: int) -> list[bool]:
        """For each node whether it is on the sink's side of the minimum cut, of several that with
        the fewest nodes there."""
        while (distance := self.distances(source, sink))[sink] >= 0:
            at = [0] * len(self.edges)
            while self.augment(source, sink, distance, at):
                pass
        reaches = [False] * len(self.edges)
        reaches[sink] = True
        stack = [sink]
        while stack:
            for i in self.edges[stack.pop()]:
                if self.room[i ^ 1] and not reaches[self.ends[i]]:
                    reaches[self.ends[i]] = True
                    stack.append(self.ends[i])
        return reaches

    def distances(self, source: int, sink: int) -> list[int]:
        """Of each node the edges with room on the way from the source; -1: there is no path."""
        distance = [-1] * len(self.edges)
        distance[source] = 0
        queue = [source]
        for node in queue:
            for i in self.edges[node]:
                end = self.ends[i]
                if self.room[i] and distance[end] < 0:
                    distance[end] = distance[node] + 1
                    queue.append(end)
        return distance

    def augment(self, source: int, sink: int, distance: list[int], at: list[int]) -> bool:
        """Send flow along one of the shortest paths; False where there is none. `at`: how many
        edges of each node are known to be dead ends."""
        path: list[int] = []
        node = source
        while node != sink:
            i = self.open_edge(node, distance, at)
            if i is not None:
                path.append(i)
                node = self.ends[i]
            elif path:
                node = self.ends[path.pop() ^ 1]
                at[node] += 1
            else:
                return False
        flow = min(self.room[i] for i in path)
        for i in path:
            self.room[i] -= flow
            self.room[i ^ 1] += flow
        return True

    def open_edge(self, node: int, distance: list[int], at: list[int]) -> int | None:
        """The next edge of a node on a shortest path."""
        edges = self.edges[node]
        while at[node] < len(edges):
            i = edges[at[node]]
            if self.room[i] and distance[self.ends[i]] == distance[node] + 1:
                return i
            at[node] += 1
        return None
