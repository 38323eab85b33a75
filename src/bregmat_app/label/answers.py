"""Answers of a person, with undo and redo, and the constraints that follow from them."""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bregmat.constraints.constraints import Constraints

ARITY = {"same": 2, "different": 2, "closer": 3}
MOST_POINTS = 500  # points of one answer; each brings at least one row
MOST_ENTAILED = 200  # rows that follow from answers within groups, and as many between groups
ENTAILED_WEIGHT = 0.3  # weight of a row that follows from several answers, relative to a row that was answered
MOST_CLASSES = 30  # largest number of different groups, for clusters and questions
MOST_NAME = 60  # characters of a class name
SOFTENING = 0.1  # factor of the weight of an answer that is softened


@dataclass(frozen=True)
class Answer:
    """One answer. `closer` means that the first point is closer to the second than to the third."""

    number: int
    kind: str
    points: tuple[int, ...]
    name: str = ""
    weight: float = 1.0

    def sentence(self, names: Any) -> str:
        """Write the answer as a sentence; `names[i]` is the name of point i."""
        first = [str(names[i]) for i in self.points[:3]]
        if self.kind == "closer":
            return f"{first[0]} is closer to {first[1]} than to {first[2]}"
        if self.kind in ARITY:
            return f"{first[0]} and {first[1]} are {'the same' if self.kind == 'same' else 'different'}"
        listed = ", ".join(first) + (f" and {len(self.points) - 3} more" if len(self.points) > 3 else "")
        return f"{listed}: {'one group' if self.kind == 'group' else f'named {self.name!r}'}"


def checked_event(event: Any, n_points: int) -> dict[str, Any]:
    """Check an event and return it as the journal stores it; ValueError if it is not valid.

    Parameters
    ----------
    event : dict
        ``kind`` is one of same, different, closer, group, name (with ``points``, the last with ``name``), soften, drop (with
        ``answer``, its number), undo, redo.
    n_points : int
        Number of points; a point is an integer below it.
    """
    if not isinstance(event, dict) or not isinstance(kind := event.get("kind"), str):
        raise ValueError("an answer must be an object with a kind")
    if kind in ("undo", "redo"):
        return {"kind": kind}
    if kind in ("soften", "drop"):
        number = event.get("answer")
        if type(number) is not int:
            raise ValueError(f"{kind} needs the number of an answer; got {number!r}")
        return {"kind": kind, "answer": number}
    if kind not in (*ARITY, "group", "name"):
        raise ValueError(f"unknown kind of answer {kind[:40]!r}")
    points = event.get("points")
    if not isinstance(points, list) or not all(type(i) is int and 0 <= i < n_points for i in points):
        raise ValueError(f"points must be a list of numbers from 0 to {n_points - 1}")
    if len(set(points)) != len(points):
        raise ValueError("the points of an answer must differ")
    least = ARITY.get(kind, 1 if kind == "name" else 2)
    most = ARITY.get(kind, MOST_POINTS)
    if not least <= len(points) <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        raise ValueError(f"{kind!r} takes {wanted} points; got {len(points)}")
    if kind != "name":
        return {"kind": kind, "points": points}
    name = event.get("name")
    if not isinstance(name, str) or not (name := name.strip()) or len(name) > MOST_NAME or not name.isprintable():
        raise ValueError(f"the name of a class must be 1 to {MOST_NAME} printable letters")
    return {"kind": kind, "points": points, "name": name}


@dataclass
class Answers:
    """All events so far, in order. Undone events can be redone until the next answer."""

    n_points: int
    done: list[dict[str, Any]] = field(default_factory=list)
    undone: list[dict[str, Any]] = field(default_factory=list)
    count: int = 0  # answers ever given; their numbers are not reused

    def check(self, event: Any) -> dict[str, Any]:
        """Return the event if it can be applied now; ValueError otherwise."""
        event = checked_event(event, self.n_points)
        if event["kind"] == "undo" and not self.done:
            raise ValueError("there is nothing to undo")
        if event["kind"] == "redo" and not self.undone:
            raise ValueError("there is nothing to redo")
        if event["kind"] in ("soften", "drop") and event["answer"] not in {a.number for a in self.active()}:
            raise ValueError(f"there is no answer {event['answer']}")
        return event

    def apply(self, event: dict[str, Any]) -> None:
        """Apply a checked event."""
        if event["kind"] == "undo":
            self.undone.append(self.done.pop())
        elif event["kind"] == "redo":
            self.done.append(self.undone.pop())
        else:
            if "points" in event:
                self.count += 1
                event = {**event, "number": self.count}
            self.done.append(event)
            self.undone.clear()

    def active(self) -> list[Answer]:
        """Return the answers that are neither undone nor dropped, in order."""
        found: dict[int, Answer] = {}
        for event in self.done:
            if event["kind"] == "drop":
                found.pop(event["answer"], None)
            elif event["kind"] == "soften":
                old = found[event["answer"]]
                found[old.number] = Answer(old.number, old.kind, old.points, old.name, old.weight * SOFTENING)
            else:
                number = event["number"]
                found[number] = Answer(number, event["kind"], tuple(event["points"]), event.get("name", ""))
        return list(found.values())


@dataclass(frozen=True, eq=False)
class AnsweredRows:
    """Constraints with the numbers of the answers that each row follows from.

    `keys` identify rows across runs, so that their dual weights can be reused.
    """

    constraints: Constraints
    answers: list[frozenset[int]]
    keys: list[tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of points that are the same according to the answers, and which groups are different.

    Attributes
    ----------
    of : dict of int -> int
        Group of each point that occurs in an answer.
    members : list of list of int
        Points of each group, ascending.
    apart : set of (int, int)
        Pairs of groups, the smaller number first.
    """

    of: dict[int, int]
    members: list[list[int]]
    apart: set[tuple[int, int]]

    def by_size(self, least: int = 1) -> list[int]:
        """Return the groups with at least `least` points, the largest first."""
        sizes = [len(points) for points in self.members]
        return sorted((g for g, size in enumerate(sizes) if size >= least), key=lambda g: -sizes[g])

    def all_apart(self, least: int = 1) -> list[int]:
        """Return at most `MOST_CLASSES` groups with at least `least` points that are all different, the largest first."""
        chosen: list[int] = []
        for g in self.by_size(least)[: 4 * MOST_CLASSES]:
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
            if answer.kind in ("same", "group"):
                for i, j in zip(answer.points, answer.points[1:]):
                    self._link(i, j, answer.number)
            elif answer.kind == "different":
                self.apart.append((answer.points[0], answer.points[1], frozenset({answer.number})))
            elif answer.kind == "name":
                named |= dict.fromkeys(answer.points, answer)  # the last name of a point counts
        for point, answer in named.items():
            self._link(point, answer.name, answer.number)
        classes = sorted({answer.name for answer in named.values()})
        self.apart += [(a, b, frozenset()) for k, a in enumerate(classes) for b in classes[:k]]
        for i, j, _ in self.apart:  # the access creates groups of nodes without links
            self.links[i], self.links[j]
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
        numbers: dict[int, int] = {}
        members: list[list[int]] = []
        of = {}
        for node, group in self.group.items():
            if isinstance(node, str):
                continue
            if group not in numbers:
                numbers[group] = len(members)
                members.append([])
            of[node] = numbers[group]
            members[of[node]].append(node)
        apart = set()
        for i, j, _ in self.apart:
            a, b = numbers.get(self.group[i]), numbers.get(self.group[j])
            if a is not None and b is not None and a != b:
                apart.add((min(a, b), max(a, b)))
        return Groups(of, [sorted(points) for points in members], apart)


def rows_of(answers: list[Answer], near: float, far: float) -> AnsweredRows | None:
    """Turn answers into constraints; None if there is none yet.

    The squared distance of points that are the same is at most `near`, that of different points at least `far`. "Closer" has the
    margin `near`. Pairs that follow from several answers are added with the weight `ENTAILED_WEIGHT`: at most `MOST_ENTAILED` within
    groups and as many between groups. A fixed hash of the pair chooses them, so that another answer changes few of them.
    """
    said: dict[tuple[int, ...], tuple[float, set[int]]] = {}

    def say(kind: int, points: tuple[int, ...], weight: float, numbers: set[int]) -> None:
        key = (kind, *(points if kind == 2 else sorted(points)))
        old = said.get(key, (0.0, set()))
        said[key] = (max(old[0], weight), old[1] | numbers)

    weight = {answer.number: answer.weight for answer in answers}
    for answer in answers:
        if answer.kind in ("same", "group"):
            for pair in zip(answer.points, answer.points[1:]):
                say(0, pair, answer.weight, {answer.number})
        elif answer.kind == "different":
            say(1, answer.points, answer.weight, {answer.number})
        elif answer.kind == "closer":
            say(2, answer.points, answer.weight, {answer.number})
    graph = Links(answers)
    for kind, pairs in enumerate(_entailed(graph, said)):
        for i, j, numbers in pairs:
            least = min((weight[number] for number in numbers), default=1.0)
            say(kind, (i, j), least * (ENTAILED_WEIGHT if len(numbers) > 1 else 1.0), set(numbers))
    if not said:
        return None
    keys = sorted(said, key=lambda key: (min(said[key][1], default=0), key))
    kinds = np.array([key[0] for key in keys])
    weights = np.array([said[key][0] for key in keys])
    parts: list[Constraints] = []
    order: list[int] = []
    two = np.flatnonzero(kinds < 2)
    if len(two):
        i, j = np.array([keys[row][1:] for row in two]).T
        alike = kinds[two] == 0
        bound, sense = np.where(alike, near, far), np.where(alike, "<=", ">=")
        parts.append(Constraints.sq_distance(i, j, bound, sense, weight=weights[two]))
        order += two.tolist()
    triples = np.flatnonzero(kinds == 2)
    if len(triples):
        a, b, c = np.array([keys[row][1:] for row in triples]).T
        parts.append(Constraints.comparison(a, b, a, c, near, weight=weights[triples]))
        order += triples.tolist()
    joined = parts[0] if len(parts) == 1 else parts[0] + parts[1]
    return AnsweredRows(joined, [frozenset(said[keys[row]][1]) for row in order], [keys[row] for row in order])


def _entailed(graph: Links, said: Any) -> tuple[list, list]:
    """Return the pairs (i, j, answers) that follow within groups, and between different groups."""
    groups = graph.groups()
    within = ((i, j) for points in groups.members for k, j in enumerate(points) for i in points[:k])
    unsaid = (((1, *pair) not in said, _mixed(*pair), pair) for pair in within if (0, *pair) not in said)
    same = [
        (*pair, graph.between(*pair)) for _, _, pair in heapq.nsmallest(MOST_ENTAILED, unsaid)
    ]  # pairs that an answer contradicts come first
    ties: dict[tuple[int, int], tuple[Any, Any, frozenset[int]]] = {}
    node_of = {graph.group[points[0]]: k for k, points in enumerate(groups.members)}
    for a, b, numbers in graph.apart:
        ga, gb = node_of.get(graph.group[a]), node_of.get(graph.group[b])
        if ga is not None and gb is not None and ga != gb:
            ties.setdefault((ga, gb) if ga < gb else (gb, ga), (a, b, numbers) if ga < gb else (b, a, numbers))
    across = (
        ((min(i, j), max(i, j)), (i, j, tie))
        for (ga, gb), tie in ties.items()
        for i in groups.members[ga]
        for j in groups.members[gb]
    )
    chosen = heapq.nsmallest(
        MOST_ENTAILED, (x for x in across if (1, *x[0]) not in said), key=lambda x: (_mixed(*x[0]), x[0])
    )
    apart = [(i, j, graph.between(i, a) | numbers | graph.between(j, b)) for _, (i, j, (a, b, numbers)) in chosen]
    return same, apart


def _mixed(i: int, j: int) -> int:
    """Hash a pair of points."""
    x = (i * 0x9E3779B97F4A7C15 + j * 0xC2B2AE3D27D4EB4F) & 0xFFFFFFFFFFFFFFFF
    x ^= x >> 29
    return (x * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF) >> 16
