"""Tables of pairs and triplets, converted to the columns of a table of constraints (:mod:`bregmat.constraints.tables`).

    a,b,link           must or cannot, same or different, 1 or -1; without this column all pairs belong together
    a,b,similarity     a score of the two, without units: the higher, the nearer; dissimilarity: the higher, the farther
    anchor,near,far    the first is nearer to the second than to the third

Two or three columns, of any name, hold the points. Three columns of numbers need names that say what they hold. The bounds
follow from the points; rows with bounds of their own are in a table with the column relation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bregmat.base.html import listed
from bregmat.constraints.columns import is_number_word

SIMILAR = "must mustlink ml same similar together match matching positive yes y true t"
DISSIMILAR = "cannot cannotlink cl different dissimilar distinct apart mismatch nonmatch negative no n false f"
# names of a column that says whether two points belong together
LINKS = "link links linktype kind type relationship same issame sameclass similar issimilar together match ismatch mustlink y label"
# columns of numbers in units, which are written with the column relation
DISTANCES = "bound sense distance dist sqdistance squareddistance sqdist"
SCORES = {"similarity": True, "dissimilarity": False}  # whether a higher score means nearer
ROLES = (
    "anchor a query reference head i",
    "near nearer closer positive pos winner p j",
    "far farther further negative neg loser n l k",
)
SHAPES = (
    "pairs have two columns of points and, where not all belong together, one called link (must, cannot), similarity or dissimilarity; "
    "triplets have three: anchor, near, far; distances are written with the columns relation, i, j, bound and sense"
)


@dataclass(frozen=True)
class TupleTable:
    """A table of pairs or triplets as the columns of constraints."""

    columns: dict[str, Any]  # of words (c,): relation, i, j, k, l, bound, sense and, where it was given, weight
    called: dict[str, str]  # names of the columns of samples in the table
    said: str  # a sentence that says how the table was read
    is_graded: bool = False  # whether the bounds in ``columns`` are shares of the way from near (0) to far (1)
    rows: np.ndarray | None = None  # row numbers in the table, if rows were left out


def read_tuples(
    words: Mapping[str, np.ndarray],
    raw: Mapping[str, Any],
    place: Callable[[int], str],
    header: str,
    scores: str | None = None,
) -> TupleTable:
    """Read a table without the column ``relation``.

    Parameters
    ----------
    words : mapping of str -> ndarray of str, shape (c,)
        Cells; a missing cell is empty.
    raw : mapping of str -> array-like, shape (c,)
        The same columns as they were given, for the names of points.
    place, header, scores
        As in :func:`bregmat.constraints.tables.table_rows`.

    Raises
    ------
    ValueError
        The table is not one of pairs or triplets, or a cell is not understood; the message names the place.
    """
    plain = {name: _plain(name) for name in words}
    weight = _one(plain, ("weight",), header)
    link = _one(plain, LINKS.split(), header)
    score = _one(plain, tuple(SCORES), header)
    if scores is None and (unread := [name for name, word in plain.items() if word in DISTANCES.split()]):
        raise ValueError(
            f"{header}: a table with the column {unread[0]!r} needs the columns relation, i, j, bound and sense; the row "
            "sq_distance, a, b, 4, <= says that the squared distance of a and b is at most 4"
        )
    if scores is not None:
        score, link = next((name for name in reversed(list(words)) if name != weight), None), None
    points = [name for name in words if name not in (weight, link, score)]
    if link == "y" and "x" in points:  # x and y, and perhaps z, are columns of points
        points, link = [name for name in words if name in (*points, link)], None
    if score is not None and (link or len(points) != 2):
        raise ValueError(f"{header}: a table of scores has two columns of points and the scores, here in {score!r}")
    if link is None and len(points) == 3:
        link = _link_among(words, points, header)
        points = [name for name in points if name != link]
    if len(points) not in (2, 3) or (len(points) == 3 and link):
        more = f"{'unknown ' * (len(points) > 3)}columns {listed(map(repr, points), 6)}" if points else "no columns"
        raise ValueError(
            f"{header}: {more} make no table of pairs or triplets, and there is no column 'relation'; {SHAPES}"
        )
    if numbers := [name for name in points if is_number_word(name)]:
        raise ValueError(f"{header}: {numbers[0]!r} is no name of a column; the first line must hold names. {SHAPES}")
    if len(points) == 3:
        table = _triplets(words, raw, points, header)
    elif score is not None:
        is_similarity = SCORES[_plain(score)] if scores is None else scores == "similarity"
        table = _graded(words, raw, points, score, is_similarity, place)
    else:
        table = _pairs(words, raw, points, link, place)
    if weight is not None:
        table.columns["weight"] = words[weight] if table.rows is None else words[weight][table.rows]
    return table


def holds_numbers(name: str) -> bool:
    """Whether a column of that name holds numbers in every table."""
    return _plain(name) in ("bound", "weight", *SCORES)


def _plain(word: str) -> str:
    """The letters and digits of a word, in lower case."""
    return "".join(c for c in word.lower() if c.isalnum())


def _one(plain: Mapping[str, str], known: Iterable[str], header: str) -> str | None:
    """The column whose plain name is known; ValueError if there are two."""
    names = [name for name, word in plain.items() if word in known]
    if len(names) > 1:
        raise ValueError(
            f"{header}: columns {names[0]!r} and {names[1]!r} have the same meaning; leave one of them out"
        )
    return names[0] if names else None


def _link_among(words: Mapping[str, np.ndarray], points: Sequence[str], header: str) -> str | None:
    """The one of three columns whose cells say whether the points in the others belong together; None for triplets."""
    if _roles(points):
        return None
    for name in points:
        said = {_verdict(word) for word in words[name]}
        numbers = {float(word) for word in words[name] if is_number_word(word)}
        if None in said or (numbers and numbers - {-1.0, 0.0, 1.0}):
            continue
        if numbers <= {0.0, 1.0} and numbers:  # these could be row numbers of points
            raise ValueError(
                f"{header}: column {name!r} holds 0 and 1 only: call it link if it says whether the two others belong together; "
                "if these are triplets of points, call the columns anchor, near, far"
            )
        return name
    if numeric := [name for name in points if all(map(is_number_word, words[name]))]:
        raise ValueError(
            f"{header}: columns {listed(map(repr, points))} do not say what the numbers in {numeric[-1]!r} are: call the three anchor, "
            "near, far if they are triplets of points; call the third one similarity or dissimilarity if it holds scores of pairs (in "
            "Python also scores='similarity' or 'distance'), and link if it holds 1 and -1; distances with units are written with the "
            "columns relation, i, j, bound and sense"
        )
    return None


def _roles(points: Sequence[str]) -> list[str]:
    """The three columns in the order anchor, near, far, if their names say which is which; otherwise none."""
    candidates = [[name for name in points if name.strip().lower() in role.split()] for role in ROLES]
    chosen = [names[0] for names in candidates if len(names) == 1]
    return chosen if len(set(chosen)) == 3 else []


def _verdict(word: str) -> bool | None:
    """Whether a word says that two points belong together or that they do not; None for any other word."""
    if is_number_word(word):
        return {1.0: True, 0.0: False, -1.0: False}.get(float(word))
    plain = _plain(word)
    return True if plain in SIMILAR.split() else False if plain in DISSIMILAR.split() else None


def _pairs(
    words: Mapping[str, np.ndarray],
    raw: Mapping[str, Any],
    points: Sequence[str],
    link: str | None,
    place: Callable[[int], str],
) -> TupleTable:
    a, b = points
    if link is None:
        together = np.ones(len(words[a]), dtype=bool)
        said = f"pairs of {a} and {b}, each of which belong together (no column link says otherwise)"
    else:
        verdicts = [_verdict(word) for word in words[link]]
        for row, verdict in enumerate(verdicts):
            if verdict is None:
                raise ValueError(
                    f"{place(row)}: {link} {str(words[link][row])!r} says neither that two points belong together (such as must, same, "
                    "1) nor that they do not (cannot, different, -1)"
                )
        if {"0", "-1"} <= {str(int(float(word))) for word in words[link] if is_number_word(word)}:
            raise ValueError(
                f"{place(0)}: column {link!r} holds both 0 and -1: which one means that two points are apart?"
            )
        together = np.array(verdicts, dtype=bool)
        said = f"pairs of {a} and {b}; by {link} {together.sum():,} belong together and {(~together).sum():,} do not"
    columns = _columns("sq_distance", raw, points, np.where(together, "<=", ">="))
    return TupleTable(columns, {"i": a, "j": b}, f"{said}; bounds are percentiles of the points' squared distances")


def _triplets(
    words: Mapping[str, np.ndarray], raw: Mapping[str, Any], points: Sequence[str], header: str
) -> TupleTable:
    anchor, near, far = _roles(points) or points
    a, p, n = words[anchor], words[near], words[far]
    # an attention check shows a point beside itself, and its answer says nothing of the metric
    is_check = (a != "") & (p != "") & (n != "") & ((a == p) | (a == n) | (p == n))
    rows = np.flatnonzero(~is_check)
    if not len(rows):
        raise ValueError(f"{header}: each triplet names a point twice; nothing is left to compare")
    raw = {name: np.asarray(raw[name])[rows] for name in points}
    columns = _columns("comparison", raw, (anchor, near, anchor, far), np.full(len(rows), "<="))
    said = f"triplets: {anchor} is nearer to {near} than to {far}; the margin is the median squared distance of the first two"
    if is_check.any():
        said += f"; {is_check.sum():,} of {len(a):,} rows name a point twice, as attention checks do, and are left out"
    called = {"i": anchor, "j": near, "k": anchor, "l": far}
    return TupleTable(columns, called, said, rows=rows if is_check.any() else None)


def _graded(
    words: Mapping[str, np.ndarray],
    raw: Mapping[str, Any],
    points: Sequence[str],
    score: str,
    is_similarity: bool,
    place: Callable[[int], str],
) -> TupleTable:
    """Pairs with scores: the nearest ones have an upper bound, the farthest ones a lower bound, and the others an equality."""
    bad = np.flatnonzero([not is_number_word(word) or not np.isfinite(float(word)) for word in words[score]])
    if len(bad):
        raise ValueError(
            f"{place(int(bad[0]))}: score {str(words[score][bad[0]])!r} in {score!r} is not a finite number"
        )
    values = words[score].astype(float)
    low, high = values.min(), values.max()
    if low == high:
        raise ValueError(f"{place(0)}: all scores in {score!r} are {low:g}, so they order no pairs")
    far = (values - low) / (high - low)
    far = 1.0 - far if is_similarity else far
    sense = np.where(far == 0.0, "<=", np.where(far == 1.0, ">=", "=="))
    columns = _columns("sq_distance", raw, points, sense) | {"bound": far}
    said = (
        f"pairs of {points[0]} and {points[1]} with scores in {score}, {low:g} to {high:g} (the higher, the "
        f"{'nearer' if is_similarity else 'farther'}); bounds are spread between percentiles of the points' distances"
    )
    return TupleTable(columns, {"i": points[0], "j": points[1]}, said, is_graded=True)


def _columns(relation: str, raw: Mapping[str, Any], points: Sequence[str], sense: np.ndarray) -> dict[str, Any]:
    samples = {name: raw[column] for name, column in zip("ijkl", points)}
    n = len(sense)
    return {"relation": np.full(n, relation), **samples, "bound": np.zeros(n), "sense": sense}
