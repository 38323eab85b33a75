"""Relations: the kinds of statements about a kernel that constraint rows can make.

A relation is a quadratic form in the rows ``z_i`` of a few points. Every such form is a signed sum of squared norms
``coef |z_a + s z_b|^2`` with ``s`` in {-1, 0, +1}. Its terms determine whether it is positive semidefinite (then values are never
negative) and whether it depends on differences of points only. Relations without terms involve all points: the trace, whose matrix is
the identity, and forms that are given by a matrix for each row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from bregmat.base.checks import as_choice, check_number
from bregmat.base.registry import Registry
from bregmat.base.threads import cached_property
from bregmat.base.tolerances import TINY

SAMPLES = ("i", "j", "k", "l")  # names of the samples of a row, and columns of a constraints file
_FORM = re.compile(r"([ijkl])(?:([-+.])([ijkl]))?")


class Term(NamedTuple):
    """``coef |z_first + sign z_second|^2``; samples are positions in the index of a row, equal if sign is 0."""

    first: int
    second: int
    sign: int
    coef: float


@dataclass(frozen=True)
class Relation:
    """A kind of statement ``<A, K> <sense> bound`` about the kernel ``K = Z Z'`` of a few points.

    Objects work in :meth:`Constraints.of <bregmat.Constraints.of>`. Files, model files and the command line know registered
    relations only (:func:`bregmat.register`).

    Parameters
    ----------
    name : str
        In snake case; used in files and messages.
    form : mapping of str to float
        The form as a sum over samples i, j, k, l: the coefficient of each ``"i"`` (the squared norm of ``z_i``), ``"i-j"``
        and ``"i+j"`` (squared norms of a difference and a sum) and ``"i.j"`` (an inner product). Constraints name as many samples
        as occur, in this order. Empty: it involves all points, and is the trace unless it ``takes_matrix``.
    left, right : str
        The text of a constraint, ``left <sense> right + bound``, with samples in braces. By default the name and the samples.
    one, many : str
        Description of one constraint and of several ("squared distance between two points").
    help : str
        How to write a constraint in a file: the samples, and the meaning of the bound.
    bound, sense
        Defaults for constraints; None: they must be given.
    different : tuple of str
        Samples that must differ, as ``"i j"``, and pairs of samples that must differ, as ``"ij kl"``.
    takes_matrix : bool
        Whether each constraint is given by its own matrix (without a form).

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import Constraints, Relation, nearest_kernel
    >>> middle = Relation("middle", {"i-j": 0.5, "i-k": 0.5, "j-k": -0.25})  # squared distance of i to the midpoint of j and k
    >>> constraints = Constraints.of(middle, [0], [1], [2], bound=0.25, sense="<=")
    >>> K = nearest_kernel(np.eye(3), constraints).kernel()
    >>> to_middle = np.array([1.0, -0.5, -0.5])
    >>> round(float(to_middle @ K @ to_middle), 4)
    0.25
    """

    name: str
    form: Mapping[str, float] = field(default_factory=dict)
    left: str = ""
    right: str = ""
    one: str = ""
    many: str = ""
    help: str = ""
    bound: float | None = None
    sense: str | None = None
    different: tuple[str, ...] = ()
    takes_matrix: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise TypeError(f"name of a relation must be a word; got {self.name!r}.")
        if not isinstance(self.form, Mapping):
            raise TypeError(f"{self.name}: form must be a mapping such as {{'i-j': 1.0}}; got {self.form!r}.")
        for key, coef in self.form.items():
            check_number(f"{self.name}: form[{key!r}]", coef)
            if not np.isfinite(float(coef)):
                raise ValueError(f"{self.name}: form[{key!r}] must be finite; got {coef!r}.")
        if self.bound is not None:
            check_number(f"{self.name}: bound", self.bound, hint="None or ")
            if not np.isfinite(float(self.bound)):
                raise ValueError(f"{self.name}: bound must be finite; got {self.bound!r}.")
        as_choice(f"{self.name}: sense", self.sense, (None, "<=", ">=", "=="))
        unknown = [key for key in self.form if not _FORM.fullmatch(key)]
        if unknown:
            raise ValueError(f'{self.name}: form must be made of "i", "i-j", "i+j" and "i.j"; got {unknown[0]!r}.')
        used = sorted({letter for key in self.form for letter in key if letter in SAMPLES})
        if used != list(SAMPLES[: len(used)]):
            raise ValueError(f"{self.name}: form must use the samples i, j, k, l in this order; got {', '.join(used)}.")
        if self.form and self.takes_matrix:
            raise ValueError(f"{self.name}: a relation has a form, or takes a matrix for each constraint; not both.")
        letters = ", ".join(f"{{{name}}}" for name in used)
        defaults = {
            "left": f"{self.name}({letters})",
            "one": f"{self.name} constraint",
            "many": f"{self.name} constraints",
        }
        defaults["help"] = f"{'sample' if len(used) == 1 else 'samples'} {', '.join(used)} and the bound of its value"
        for key, text in defaults.items():
            if not getattr(self, key):
                object.__setattr__(self, key, text)

    def __hash__(self) -> int:
        return hash(self.name)

    # ------------------------------------------------------------------ facts
    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """The form as squared norms; ``z_a . z_b = (|z_a + z_b|^2 - |z_a - z_b|^2) / 4``."""
        terms = []
        for key, coef in self.form.items():
            a, b = SAMPLES.index(key[0]), SAMPLES.index(key[-1])
            match key[1:2]:
                case ".":
                    terms += [Term(a, b, 1, coef / 4), Term(a, b, -1, -coef / 4)]
                case operation:
                    terms.append(Term(a, b, {"": 0, "+": 1, "-": -1}[operation], float(coef)))
        return tuple(terms)

    @property
    def arity(self) -> int:
        """Number of samples of a constraint."""
        return 1 + max((max(t.first, t.second) for t in self.terms), default=-1)

    @cached_property
    def is_whole(self) -> bool:
        """Whether it involves all points instead of a few named ones."""
        return not self.terms

    @cached_property
    def is_difference(self) -> bool:
        """Whether it depends on differences of points only, so that a translation of all points changes nothing."""
        return bool(self.terms) and all(t.sign == -1 for t in self.terms)

    @cached_property
    def is_sq_distance(self) -> bool:
        """Whether its value is the squared distance of two points."""
        return self.terms == (Term(0, 1, -1, 1.0),)

    @cached_property
    def is_comparison(self) -> bool:
        """Whether its value is the squared distance of one pair minus that of another."""
        return self.terms == (Term(0, 1, -1, 1.0), Term(2, 3, -1, -1.0))

    @cached_property
    def is_psd(self) -> bool:
        """Whether its matrix is positive semidefinite for all samples, so that values are never negative."""
        return _is_psd(self._matrix(range(self.arity))) if self.terms else not self.takes_matrix

    def is_psd_for(self, index: np.ndarray) -> np.ndarray:
        """Whether the matrix of each constraint of samples (c, k) is positive semidefinite, as ``K_ij`` for i = j; boolean, shape (c,)."""
        out = np.full(len(index), self.is_psd)
        if self.is_psd or self.is_whole:
            return out
        k = self.arity
        tied = np.zeros(len(index), dtype=bool)
        for a in range(k):
            for b in range(a):
                tied |= index[:, a] == index[:, b]
        rows = np.flatnonzero(tied)
        same = index[rows, :k, None] == index[rows, None, :k]
        first = same.argmax(axis=2)  # the first position of the same sample
        # one eigenvalue problem for each pattern of equal samples
        code = first @ len(SAMPLES) ** np.arange(k)
        _, where, pattern = np.unique(code, return_index=True, return_inverse=True)
        out[rows] = np.array([_is_psd(self._matrix(first[r])) for r in where], dtype=bool)[pattern]
        return out

    def _matrix(self, place: Sequence[int] | np.ndarray) -> np.ndarray:
        """Matrix of the form on its samples, where sample k is the point ``place[k]``."""
        Q = np.zeros((self.arity, self.arity))
        for t in self.terms:
            v = np.zeros(self.arity)
            v[place[t.first]] = 1.0
            v[place[t.second]] += t.sign
            Q += t.coef * np.outer(v, v)
        return Q

    # ------------------------------------------------------------------ rows
    def clashes(self, index: np.ndarray, names: Sequence[str] = SAMPLES) -> Iterator[tuple[np.ndarray, str, str]]:
        """For each condition of ``different``: the mask of constraints that violate it, its text, and the sample or pair to change."""
        for demand in self.different:
            first, second = [[SAMPLES.index(letter) for letter in word] for word in demand.split()]
            same = (np.sort(index[:, first], axis=1) == np.sort(index[:, second], axis=1)).all(axis=1)
            left, right = [", ".join([names[k] for k in group]) for group in (first, second)]
            if len(first) == 1:
                yield same, f"{left} and {right} must be different samples", left
            else:
                yield same, f"({left}) and ({right}) must be different pairs", f"({left})"

    def sentence(self, samples: Sequence[Any], symbol: str, bound: float) -> str:
        """A constraint as text; a bound beside ``right`` is written on the side where it is positive."""
        named = dict(zip(SAMPLES, samples))
        left, right = self.left.format(**named), self.right.format(**named)
        if not right:
            return f"{left} {symbol} {bound:.6g}"
        if bound < 0:
            return f"{left} + {-bound:.6g} {symbol} {right}"
        return f"{left} {symbol} {right}" + (f" + {bound:.6g}" if bound else "")


def _is_psd(Q: np.ndarray) -> bool:
    """Whether a symmetric matrix is positive semidefinite up to rounding."""
    values = np.linalg.eigvalsh(Q)
    return bool(values[0] >= -1e-12 * max(abs(values[-1]), TINY))


SQ_DISTANCE = Relation(
    "sq_distance",
    {"i-j": 1.0},
    left="sq_dist({i}, {j})",
    one="squared distance between two points",
    many="squared distances between two points",
    help="samples i and j, the bound of their squared distance, sense <= (similar), >= (dissimilar) or ==.",
    different=("i j",),
)
SIMILARITY = Relation(
    "similarity",
    {"i.j": 1.0},
    left="K({i}, {j})",
    one="similarity (inner product) of two points",
    many="similarities (inner products) of two points",
    help="i and j, the bound of their inner product.",
)
COMPARISON = Relation(
    "comparison",
    {"i-j": 1.0, "k-l": -1.0},
    left="sq_dist({i}, {j})",
    right="sq_dist({k}, {l})",
    one="comparison: one pair closer than another",
    many="comparisons: one pair closer than another",
    help="samples i, j, k, l; sq_dist(i, j) - sq_dist(k, l) <= bound, so a margin m is written as the bound -m "
    "(empty: 0); the sense may be left empty.",
    bound=0.0,
    sense="<=",
    different=("i j", "k l", "ij kl"),
)
SIMILARITY_COMPARISON = Relation(
    "similarity_comparison",
    {"i.j": 1.0, "k.l": -1.0},
    left="K({i}, {j})",
    right="K({k}, {l})",
    one="comparison: one pair more similar than another",
    many="comparisons: one pair more similar than another",
    help="i, j, k, l; K(i, j) - K(k, l) <= bound.",
    bound=0.0,
    sense="<=",
    different=("ij kl",),
)
DIAGONAL = Relation(
    "diagonal",
    {"i": 1.0},
    left="K({i}, {i})",
    one="squared length of a point",
    many="squared lengths of points",
    help="i, the squared length of the point.",
    sense="==",
)
TRACE = Relation(
    "trace",
    left="tr K",
    one="trace of the kernel",
    many="trace of the kernel",
    help="no sample; the sum of the squared lengths of all points.",
    sense="==",
)
LINEAR = Relation(
    "linear",
    left="tr(K C_{i})",
    one="general linear constraint on the kernel",
    many="general linear constraints on the kernel",
    takes_matrix=True,
)
BUILT_IN = (SQ_DISTANCE, SIMILARITY, COMPARISON, SIMILARITY_COMPARISON, DIAGONAL, TRACE, LINEAR)

RELATIONS = Registry("relation", example="Relation(name, form)", base=Relation)
for _relation in BUILT_IN:
    RELATIONS.add(_relation)


def table_of(*relations: Relation) -> tuple[Relation, ...]:
    """The relations of the library, then the given ones, each once. Rows store the position of their relation in such a table."""
    table = list(BUILT_IN)
    for relation in relations:
        if relation not in table:
            table.append(relation)
    return tuple(table)
