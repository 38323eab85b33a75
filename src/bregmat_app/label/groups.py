"""Groups of points that are the same according to the answers, and which of them are different."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bregmat_app.label.answers import Answer

MOST_CLASSES = 30  # largest number of different groups, for clusters and questions


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of points that are the same according to the answers, and which groups are different."""

    of: dict[int, int]  # the group of each point that occurs in an answer
    members: list[list[int]]  # the points of each group, ascending
    # different groups, the smaller number first: a node of each that an answer calls different, and the number of that answer
    apart: dict[tuple[int, int], tuple[Any, Any, frozenset[int]]]

    def all_apart(self) -> list[int]:
        """Return at most `MOST_CLASSES` groups that are all different, the largest first."""
        chosen: list[int] = []
        by_size = sorted(range(len(self.members)), key=lambda g: -len(self.members[g]))
        for g in by_size[: 4 * MOST_CLASSES]:
            if len(chosen) < MOST_CLASSES and all((min(g, h), max(g, h)) in self.apart for h in chosen):
                chosen.append(g)
        return chosen


class Links:
    """Graph of the answers. Its nodes are points and class names; its links join nodes that are the same."""

    def __init__(self, answers: list[Answer]) -> None:
        self.links: dict[Any, list[tuple[Any, int]]] = defaultdict(list)
        self.apart: list[tuple[Any, Any, frozenset[int]]] = []
        named: dict[int, Answer] = {}
        for answer in answers:
            for i, j in answer.same():
                self._link(i, j, answer.number)
            self.apart += [(i, j, frozenset({answer.number})) for i, j in answer.different()]
            if answer.kind == "name":
                named |= dict.fromkeys(answer.points, answer)  # the last name of a point counts
        for point, answer in named.items():
            self._link(point, answer.name, answer.number)
        classes = sorted({answer.name for answer in named.values()})
        self.apart += [(a, b, frozenset()) for k, a in enumerate(classes) for b in classes[:k]]
        for a, b, _ in self.apart:
            for node in (a, b):
                self.links.setdefault(node, [])  # a node without links is a group of its own
        self.group, self.path = self._walk()

    def _link(self, a: Any, b: Any, number: int) -> None:
        self.links[a].append((b, number))
        self.links[b].append((a, number))

    def _walk(self) -> tuple[dict[Any, int], dict[Any, tuple[Any, int, int]]]:
        """Return the group of each node, and its (parent, answer, depth) in a breadth-first tree of the group."""
        group: dict[Any, int] = {}
        path: dict[Any, tuple[Any, int, int]] = {}
        count = 0
        for root in self.links:
            if root in group:
                continue
            group[root], path[root], queue = count, (None, 0, 0), [root]
            for node in queue:
                for other, number in self.links[node]:
                    if other not in group:
                        group[other], path[other] = count, (node, number, path[node][2] + 1)
                        queue.append(other)
            count += 1
        return group, path

    def between(self, a: Any, b: Any) -> frozenset[int]:
        """Return the answers on the path between two nodes of a group."""
        found = set()
        while a != b:
            if self.path[a][2] < self.path[b][2]:
                a, b = b, a
            a, number, _ = self.path[a]
            found.add(number)
        return frozenset(found)

    def groups(self) -> Groups:
        """Return the groups of points, without the class names."""
        points = [node for node in self.group if not isinstance(node, str)]
        numbers = {group: k for k, group in enumerate(dict.fromkeys(self.group[i] for i in points))}
        of = {i: numbers[self.group[i]] for i in points}
        members: list[list[int]] = [[] for _ in numbers]
        for i, k in of.items():
            members[k].append(i)
        apart: dict[tuple[int, int], tuple[Any, Any, frozenset[int]]] = {}
        for a, b, answers in self.apart:
            g, h = numbers.get(self.group[a]), numbers.get(self.group[b])
            if g is not None and h is not None and g != h:
                apart.setdefault((min(g, h), max(g, h)), (a, b, answers) if g < h else (b, a, answers))
        return Groups(of, [sorted(points) for points in members], apart)
