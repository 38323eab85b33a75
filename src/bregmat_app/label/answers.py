"""Answers of a person, with undo and redo, and the constraints that follow from them."""

import heapq
import operator
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np

from bregmat.constraints.constraints import Constraints
from bregmat_app.label.groups import MOST_CLASSES, Links

MOST_POINTS = 500  # points of one answer; each brings at least one row
SIZES = {  # least and largest number of points of each kind of answer
    "same": (2, 2),
    "different": (2, MOST_CLASSES + 1),
    "closer": (3, 3),
    "group": (2, MOST_POINTS),
    "name": (1, MOST_POINTS),
}
MOST_ENTAILED = 200  # rows that follow from answers within groups, and as many between groups
ENTAILED_WEIGHT = 0.3  # weight of a row that follows from several answers, relative to a row that was answered
MOST_NAME = 60  # characters of a class name


@dataclass(frozen=True)
class Answer:
    """One answer about points.

    ``same``, ``group``: all points are the same. ``different``: the first point differs from each of the others. ``closer``: the
    first point is closer to the second than to the third. ``name``: the points belong to the class `name`. A point that differs from
    others may have the name of a class, too, which begins with it.

    A point that belongs to one of several groups is the same as a member of it; that it differs from the members of the other groups
    follows, because groups that are offered together are known to be different. A point that belongs to none of them is different
    from a member of each.
    """

    number: int
    kind: str
    points: tuple[int, ...]
    name: str = ""

    def same(self) -> list[tuple[int, ...]]:
        """Return the pairs that this answer calls the same; together they join all such points."""
        return list(zip(self.points, self.points[1:])) if self.kind in ("same", "group") else []

    def different(self) -> list[tuple[int, ...]]:
        """Return the pairs that this answer calls different."""
        return [(self.points[0], other) for other in self.points[1:]] if self.kind == "different" else []

    def closer(self) -> list[tuple[int, ...]]:
        """Return the triple of which the first point is closer to the second than to the third."""
        return [self.points] if self.kind == "closer" else []

    def named(self) -> tuple[int, ...]:
        """Return the points that this answer gives the class `name`."""
        return self.points if self.kind == "name" else self.points[:1] if self.name else ()

    def sentence(self, names: Any) -> str:
        """Write the answer as a sentence; `names[i]` is the name of point i."""
        first = [str(names[i]) for i in self.points[:3]]
        called = f", named {self.name!r}" if self.name else ""
        more = f" and {len(self.points) - 3} more" if len(self.points) > 3 else ""
        match self.kind:
            case "closer":
                return f"{first[0]} is closer to {first[1]} than to {first[2]}"
            case "same":
                return f"{first[0]} and {first[1]} are the same"
            case "different" if len(self.points) == 2:
                return f"{first[0]} and {first[1]} are different{called}"
            case "different":
                return f"{first[0]} differs from {', '.join(first[1:])}{more}{called}"
        return f"{', '.join(first)}{more}: {'one group' if self.kind == 'group' else f'named {self.name!r}'}"


@dataclass
class Answers:
    """All events so far, in order. Undone events can be redone until the next answer."""

    n_points: int
    done: list[dict[str, Any]] = field(default_factory=list)
    undone: list[dict[str, Any]] = field(default_factory=list)
    count: int = 0  # answers ever given; their numbers are not reused

    def check(self, event: Any) -> dict[str, Any]:
        """Return the event as the journal stores it if it can be applied now; ValueError otherwise.

        Its ``kind`` is a kind of :class:`Answer` (with ``points``, the numbers of points, and ``name`` for a name; ``different`` may
        have one), drop (with ``answer``, its number), undo or redo.
        """
        if not isinstance(event, dict) or not isinstance(kind := event.get("kind"), str):
            raise ValueError("an answer must be an object with a kind")
        if kind in ("undo", "redo"):
            if not (self.done if kind == "undo" else self.undone):
                raise ValueError(f"there is nothing to {kind}")
            return {"kind": kind}
        if kind == "drop":
            number = event.get("answer")
            if type(number) is not int or number not in {answer.number for answer in self.active()}:
                raise ValueError(f"there is no answer {number!r}")
            return {"kind": kind, "answer": number}
        if kind not in SIZES:
            raise ValueError(f"unknown kind of answer {kind[:40]!r}")
        points = event.get("points")
        if not isinstance(points, list) or not all(type(i) is int and 0 <= i < self.n_points for i in points):
            raise ValueError(f"points must be a list of numbers from 0 to {self.n_points - 1}")
        if len(set(points)) != len(points):
            raise ValueError("the points of an answer must differ")
        least, most = SIZES[kind]
        if not least <= len(points) <= most:
            wanted = str(least) if least == most else f"{least} to {most}"
            raise ValueError(f"{kind!r} takes {wanted} points; got {len(points)}")
        if kind != "name" and not (kind == "different" and "name" in event):
            return {"kind": kind, "points": points}
        name = event.get("name")
        if not isinstance(name, str) or not (name := name.strip()) or len(name) > MOST_NAME or not name.isprintable():
            raise ValueError(f"the name of a class must be 1 to {MOST_NAME} printable letters")
        return {"kind": kind, "points": points, "name": name}

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


def rows_of(answers: list[Answer], near: float, far: float) -> AnsweredRows | None:
    """Turn answers into constraints; None if there is none yet.

    The squared distance of points that are the same is at most `near`, that of different points at least `far`. "Closer" has the
    margin `near`. Pairs that follow from several answers are added with the weight `ENTAILED_WEIGHT`: at most `MOST_ENTAILED` within
    groups and as many between groups. A fixed hash of the pair chooses them, so that another answer changes few of them.
    """
    said: dict[tuple[int, ...], set[int]] = {}  # the answers of each row

    def key_of(kind: int, points: tuple[int, ...]) -> tuple[int, ...]:
        return (kind, *(points if kind == 2 else sorted(points)))

    for answer in answers:
        for kind, stated in enumerate((answer.same(), answer.different(), answer.closer())):
            for points in stated:
                said.setdefault(key_of(kind, points), set()).add(answer.number)
    weight = dict.fromkeys(said, 1.0)
    for kind, pairs in enumerate(_entailed(Links(answers), said)):
        for i, j, numbers in pairs:
            key = key_of(kind, (i, j))
            said[key], weight[key] = set(numbers), ENTAILED_WEIGHT if len(numbers) > 1 else 1.0
    if not said:
        return None
    # pairs come before comparisons, and rows of earlier answers before others
    keys = sorted(said, key=lambda key: (key[0] == 2, min(said[key], default=0), key))
    weights = np.array([weight[key] for key in keys])
    n_pairs = sum(key[0] < 2 for key in keys)
    parts: list[Constraints] = []
    if n_pairs:
        kind, i, j = np.array(keys[:n_pairs]).T
        bound, sense = np.where(kind == 0, near, far), np.where(kind == 0, "<=", ">=")
        parts.append(Constraints.sq_distance(i, j, bound, sense, weight=weights[:n_pairs]))
    if n_pairs < len(keys):
        _, a, b, c = np.array(keys[n_pairs:]).T
        parts.append(Constraints.comparison(a, b, a, c, near, weight=weights[n_pairs:]))
    return AnsweredRows(reduce(operator.add, parts), [frozenset(said[key]) for key in keys], keys)


def _entailed(graph: Links, said: Any) -> tuple[list, list]:
    """Return the pairs (i, j, answers) that follow within groups, and between different groups."""
    groups = graph.groups()
    within = ((i, j) for points in groups.members for k, j in enumerate(points) for i in points[:k])
    # pairs that an answer contradicts come first
    unsaid = (((1, *pair) not in said, _mixed(*pair), pair) for pair in within if (0, *pair) not in said)
    same = [(*pair, graph.between(*pair)) for _, _, pair in heapq.nsmallest(MOST_ENTAILED, unsaid)]
    across = (
        (_mixed(min(i, j), max(i, j)), min(i, j), max(i, j), (i, j, tie))
        for (g, h), tie in groups.apart.items()
        for i in groups.members[g]
        for j in groups.members[h]
        if (1, min(i, j), max(i, j)) not in said
    )
    chosen = heapq.nsmallest(MOST_ENTAILED, across, key=lambda x: x[:3])
    apart = [(i, j, graph.between(i, a) | numbers | graph.between(j, b)) for *_, (i, j, (a, b, numbers)) in chosen]
    return same, apart


def _mixed(i: int, j: int) -> int:
    """Hash a pair of points."""
    x = (i * 0x9E3779B97F4A7C15 + j * 0xC2B2AE3D27D4EB4F) & 0xFFFFFFFFFFFFFFFF
    x ^= x >> 29
    return (x * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF) >> 16
