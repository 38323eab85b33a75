"""Groups of points that are the same according to the answers, and which of them are different."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

if TYPE_CHECKING:
    from bregmat_app.label.answers import Answer

MOST_CLASSES = 30  # largest number of classes, for clusters and questions


@dataclass(frozen=True)
class LabelClass:
    """A class: a group that is known to differ from the groups of all other classes, or a name that was given at the start."""

    key: int  # 1, 2, ...; it stays as long as the class does
    name: str = ""
    group: int | None = None  # None: no point has this class yet


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of points that are the same according to the answers, and which groups are different."""

    of: dict[int, int]  # the group of each point that occurs in an answer
    members: list[list[int]]  # the points of each group, in the order of the answers
    # different groups, the smaller number first: a node of each that an answer calls different, and the number of that answer
    apart: dict[tuple[int, int], tuple[Any, Any, frozenset[int]]]
    names: dict[int, str] = field(default_factory=dict)  # of groups with named points
    classes: list[LabelClass] = field(default_factory=list)  # by key

    def all_apart(self) -> list[LabelClass]:
        """Return the classes that have points; their groups are all different."""
        return [one for one in self.classes if one.group is not None]

    def points(self, one: LabelClass) -> list[int]:
        """Return the points of a class, in the order of the answers."""
        return [] if one.group is None else self.members[one.group]


class Links:
    """Graph of the answers. Its nodes are points and class names; its links join nodes that are the same."""

    def __init__(self, answers: list[Answer]) -> None:
        # points in the order of their first answers; a node without links is a group of its own
        self.links: dict[Any, list[tuple[Any, int]]] = {
            i: [] for answer in answers if answer.kind != "closer" for i in answer.points
        }
        self.apart: list[tuple[Any, Any, frozenset[int]]] = []
        self.closer: list[tuple[frozenset[int], frozenset[int], int]] = []
        named: dict[int, Answer] = {}
        for answer in answers:
            for i, j in answer.same():
                self._link(i, j, answer.number)
            self.apart += [(i, j, frozenset({answer.number})) for i, j in answer.different()]
            self.closer += [(frozenset((a, b)), frozenset((a, c)), answer.number) for a, b, c in answer.closer()]
            named |= dict.fromkeys(answer.named(), answer)  # the last name of a point counts
        self.names = sorted({answer.name for answer in named.values()})
        self.links |= {name: [] for name in self.names}
        for point, answer in named.items():
            self._link(point, answer.name, answer.number)
        self.apart += [(a, b, frozenset()) for k, a in enumerate(self.names) for b in self.names[:k]]
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

    def contradictions(self) -> list[list[int]]:
        """Return sets of answers that no distances can meet: same and different at once, or a cycle of comparisons."""
        found = [self.between(a, b) | numbers for a, b, numbers in self.apart if self.group[a] == self.group[b]]
        if self.closer:
            pairs = {pair: k for k, pair in enumerate(dict.fromkeys(chain(*(ends for *ends, _ in self.closer))))}
            near, far = np.array([[pairs[a], pairs[b]] for a, b, _ in self.closer]).T
            graph = sp.csr_array((np.ones(len(near)), (near, far)), shape=(len(pairs), len(pairs)))
            part = connected_components(graph, connection="strong")[1]
            cycles: dict[int, set[int]] = defaultdict(set)
            for k in np.flatnonzero(part[near] == part[far]).tolist():
                cycles[int(part[near[k]])].add(self.closer[k][2])
            found += map(frozenset, cycles.values())
        return sorted(map(sorted, set(found)), key=lambda numbers: (len(numbers), numbers))

    def groups(self, names: Sequence[str] = (), before: Groups | None = None) -> Groups:
        """Return the groups of points, without the class names.

        The classes `names` exist without points, too, and have the keys 1, 2, ... A class of the groups `before` keeps its key.
        """
        points = [node for node in self.links if not isinstance(node, str)]
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
        found = Groups(of, members, apart, {numbers[self.group[name]]: name for name in self.names})
        found.classes.extend(_classes(found, names, before))
        return found


def _classes(groups: Groups, names: Sequence[str], before: Groups | None) -> list[LabelClass]:
    """Return the classes: those given at the start, those of before, then other groups by their first answers."""
    group_of = {name: group for group, name in groups.names.items()}
    chosen = {key: LabelClass(key, name, group_of.get(name)) for key, name in enumerate(names, 1)}
    taken = {group_of[name] for name in names if name in group_of}

    def add(group: int, key: int) -> None:
        if group not in taken and all((min(group, h), max(group, h)) in groups.apart for h in taken):
            chosen[key] = LabelClass(key, groups.names.get(group, ""), group)
            taken.add(group)

    before = before or Groups({}, [], {})
    for old in before.classes:
        # a class is where the first of its points is that still occurs in an answer
        first = next((i for i in before.points(old) if i in groups.of), None)
        if first is not None and old.key not in chosen:
            add(groups.of[first], old.key)
    for group in range(len(groups.members)):
        if len(chosen) < MOST_CLASSES:
            add(group, next(key for key in count(1) if key not in chosen))
    return [chosen[key] for key in sorted(chosen)]
