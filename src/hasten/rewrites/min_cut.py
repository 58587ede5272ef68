"""The cheapest cut of a network in two sides, by Dinic's algorithm: shortest paths are filled until none is left."""

from __future__ import annotations

from collections import deque
from typing import Final

ENDLESS: Final = 1 << 60
"""A capacity that no cut ever pays."""
SOURCE: Final = 0
SINK: Final = 1


class Network:
    """Nodes that are numbers, with capacities between them. Source and sink are there from the start."""

    def __init__(self) -> None:
        self._edges: list[list[int]] = [[], []]
        # An edge and its way back are neighbors: of edge `e` that is `e ^ 1`.
        self._targets: list[int] = []
        self._room: list[int] = []

    def add_node(self) -> int:
        """Add a node; return its number."""
        self._edges.append([])
        return len(self._edges) - 1

    def add_edge(self, start: int, end: int, capacity: int) -> None:
        """Let flow go from one node to another; a cut pays for edges that lead from the source's side to the sink's."""
        for node, target, room in ((start, end, capacity), (end, start, 0)):
            self._edges[node].append(len(self._targets))
            self._targets.append(target)
            self._room.append(room)

    def tie(self, nodes: set[int], cost: int) -> None:
        """Let a cut pay `cost` once if not all of the nodes are on one side."""
        if len(nodes) < 2 or cost == 0:
            return
        entry, leave = self.add_node(), self.add_node()
        self.add_edge(entry, leave, cost)
        for node in sorted(nodes):
            self.add_edge(node, entry, ENDLESS)
            self.add_edge(leave, node, ENDLESS)

    def cut(self) -> tuple[int, set[int]]:
        """What the cheapest cut costs, and the nodes on the source's side; of equal cuts the one with the fewest."""
        cost = 0
        while SINK in (distances := self._distances()):
            cost += self._fill(distances)
        return cost, set(distances)

    def _distances(self) -> dict[int, int]:
        """How many edges with room are between the source and each node that can be reached."""
        distances, waiting = {SOURCE: 0}, deque([SOURCE])
        while waiting:
            node = waiting.popleft()
            for edge in self._edges[node]:
                target = self._targets[edge]
                if self._room[edge] and target not in distances:
                    distances[target] = distances[node] + 1
                    waiting.append(target)
        return distances

    def _fill(self, distances: dict[int, int]) -> int:
        """Send flow along shortest paths until each of them is full; return how much."""
        # Edges before this one lead nowhere any more.
        first = dict.fromkeys(distances, 0)
        node, path, sent = SOURCE, list[int](), 0
        while True:
            if node == SINK:
                room = min(self._room[edge] for edge in path)
                for edge in path:
                    self._room[edge] -= room
                    self._room[edge ^ 1] += room
                sent += room
                full = next(place for place, edge in enumerate(path) if self._room[edge] == 0)
                node = self._targets[path[full] ^ 1]
                del path[full:]
            onward = self._next_edge(node, first, distances)
            if onward is not None:
                path.append(onward)
                node = self._targets[onward]
            elif path:
                node = self._targets[path.pop() ^ 1]
                first[node] += 1
            else:
                return sent

    def _next_edge(self, node: int, first: dict[int, int], distances: dict[int, int]) -> int | None:
        edges = self._edges[node]
        while first[node] < len(edges):
            edge = edges[first[node]]
            if self._room[edge] and distances.get(self._targets[edge]) == distances[node] + 1:
                return edge
            first[node] += 1
        return None
