"""Registries: one entry per class of a kind, so that a new divergence, loss, operator or solver is tested by adding it here.

``PROBLEMS`` have an optimum that can be worked out by hand.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import brentq

import formulas
from bregmat import (
    Constraints,
    CyclicProjection,
    Frobenius,
    LogDet,
    RelativeSlack,
    Result,
    Squared,
    SquaredHinge,
    VonNeumann,
    nearest_kernel,
)
from bregmat.constraints.relations import RELATIONS as REGISTRY
from bregmat.objective.losses import ItakuraSaito, RelativeEntropy
from bregmat.objective.row_losses import RowLosses
from bregmat.operators.compound import MatrixRows, SignedSums, Stacked
from bregmat.operators.linear_maps import PairGraph, RankOneRows
from bregmat.solvers.base import SOLVERS as SOLVER_CLASSES
from toy_divergence import EntropyWithBarrier
from toy_loss import PseudoHuber
from toy_relation import MIDPOINT
from toy_solver import MirrorDescent

DIVERGENCES = (LogDet(), VonNeumann(), Frobenius(), EntropyWithBarrier())
BY_NAME = {D.name: D for D in DIVERGENCES}

# scalar loss d(p, b), and what computes it
LOSSES = {
    ItakuraSaito(): lambda p, b, scale: formulas.ITAKURA_SAITO[0](p, b),
    RelativeEntropy(): lambda p, b, scale: formulas.RELATIVE_ENTROPY[0](p, b),
    SquaredHinge(): lambda p, b, scale: formulas.HALF_SQUARE[0](p / scale, b / scale),
    PseudoHuber(): lambda p, b, scale: np.sqrt(1 + ((p - b) / scale) ** 2) - 1,
}


def equalities(loss, b, g, scale) -> RowLosses:
    """Rows of one scalar loss with bounds, weights and scales (c,), both sides of which count."""
    none = np.zeros(len(b), np.int8)
    return RowLosses(b, none, g, scale, (loss,), none)


# value of a relation between samples, for every registered one without matrices
RELATIONS = formulas.ROWS | {
    MIDPOINT.name: lambda K, i, j, k: K[i, i] + (K[j, j] + K[k, k] + 2 * K[j, k]) / 4 - K[i, j] - K[i, k],
}

REGISTERED = REGISTRY  # the registry itself, with the relation of the tests
SOLVERS = {name: cls() for name, cls in SOLVER_CLASSES.items()}
assert MirrorDescent.name in SOLVERS  # registered by its own file
SOFT_SOLVERS = [name for name in SOLVERS if name != "definite_boost"]  # which is for hard rows and a trace


# ---------------------------------------------------------------- operators
def _pairs(rng: np.random.Generator, c: int = 30, n: int = 7, r: int = 4) -> PairGraph:
    """Distances, sums and single points, some of them twice."""
    a = rng.integers(0, n, c).astype(np.int32)
    b = ((a + rng.integers(1, n, c)) % n).astype(np.int32)
    sign = rng.integers(-1, 2, c).astype(np.int8)
    b[sign == 0] = a[sign == 0]
    a[1], b[1], sign[1] = a[0], b[0], sign[0]
    return PairGraph(rng.normal(size=(n, r)), a, b, sign)


def _rows(rng: np.random.Generator, c: int = 12, r: int = 4) -> RankOneRows:
    return RankOneRows(rng.normal(size=(c, r)))


def _matrices(rng: np.random.Generator, c: int = 9, r: int = 4) -> MatrixRows:
    A = rng.normal(size=(c, r, r))
    return MatrixRows(A + A.transpose(0, 2, 1))


def _mixed(rng: np.random.Generator) -> SignedSums:
    base = _pairs(rng)
    P = sp.random_array((11, base.c), density=0.2, rng=rng, format="csr")
    return SignedSums(base, P)


def _stack(rng: np.random.Generator) -> Stacked:
    """Rows that come from several operators in turn, not block by block."""
    parts = [_rows(rng), _mixed(rng), _matrices(rng), _pairs(rng)]
    order = rng.permutation(sum(op.c for op in parts))
    ends = np.cumsum([op.c for op in parts])
    return Stacked([(np.sort(rows), op) for rows, op in zip(np.split(order, ends[:-1]), parts)])


OPERATORS: dict[str, Callable[[np.random.Generator], Any]] = {
    "rows": _rows,
    "pairs": _pairs,
    "matrices": _matrices,
    "mixed": _mixed,
    "stack": _stack,
}


def dense(operator: Any) -> np.ndarray:
    """The matrices A_i themselves, shape (c, r, r), written out from what defines the operator."""
    match operator:
        case RankOneRows(V=V):
            return np.einsum("ij,ik->ijk", V, V)
        case PairGraph(Z=Z, a=a, b=b, sign=sign):
            return dense(RankOneRows(Z[a] + sign[:, None] * Z[b]))
        case MatrixRows(A=A):
            return A
        case SignedSums(base=base, P=P):
            return np.tensordot(P.toarray(), dense(base), 1)
        case Stacked(parts=parts):
            out = np.empty((operator.c, operator.r, operator.r))
            for rows, part in parts:
                out[rows] = dense(part)
            return out
    raise TypeError(f"add {type(operator).__name__} to dense()")


# ---------------------------------------------------------------- problems with a known optimum
@dataclass(frozen=True, eq=False)
class Problem:
    """A small problem and its optimum: objective and learned kernel; ``objective=None``: nothing is feasible."""

    name: str
    divergence: Any
    prior: np.ndarray
    constraints: Constraints
    objective: float | None
    kernel: np.ndarray | None = None
    slack_weight: float = np.inf
    loss: Any = None
    conflict: tuple[int, ...] = ()

    @property
    def is_hard(self) -> bool:
        return bool(np.isinf(self.slack_weight))

    def solve(self, **settings: Any) -> Result:
        given = {"divergence": self.divergence, "loss": self.loss, "slack_weight": self.slack_weight} | settings
        return nearest_kernel(self.prior, self.constraints, **given)

    def __repr__(self) -> str:
        return f"{self.name}-{self.divergence.name}"


def scalar(D: Any, x: float, y: float) -> float:
    """The divergence of two numbers."""
    return float(D.phi(np.array([x]))[0] - D.phi(np.array([y]))[0] - D.link(np.array([y]))[0] * (x - y))


def _along_pair(x: float) -> np.ndarray:
    """The identity of order 3 with eigenvalue x along e_0 - e_1."""
    v = np.array([1.0, -1.0, 0.0])
    return np.eye(3) + (x - 1) / 2 * np.outer(v, v)


def _own_slack_optimum(D: Any, gamma: float, b: float) -> float:
    """x that minimises D(x, 1) + gamma d(2 x, b), the slack in the divergence's own form (Kulis 2009, eq. 22)."""
    known = {
        "logdet": (1 + gamma) / (1 + 2 * gamma / b),
        "vonneumann": (b / 2) ** (2 * gamma / (1 + 2 * gamma)),
        "frobenius": (1 + 2 * gamma * b) / (1 + 4 * gamma),
    }
    if D.name in known:
        return known[D.name]

    def stationary(x: float) -> float:
        now, prior, p, bound = D.link(np.array([x, 1.0, 2 * x, b]))
        return float(now - prior + 2 * gamma * (p - bound))

    return float(brentq(stationary, 1e-3, 1.0, xtol=1e-15))


def _own_slack(D: Any, gamma: float, p: float, b: float) -> float:
    return gamma * scalar(D, p, b)


def _feasible(D: Any) -> list[Problem]:
    eye, e2 = np.eye(3), np.exp(2.0)
    pair = Constraints.sq_distance
    problems = [
        Problem("met-already", D, eye, pair(0, 1, 3.0, "<="), 0.0, eye),
        Problem("nearer", D, eye, pair(0, 1, 0.5, "<="), scalar(D, 0.25, 1.0), _along_pair(0.25)),
        Problem("farther", D, eye, pair(0, 1, 6.0, ">="), scalar(D, 3.0, 1.0), _along_pair(3.0)),
        Problem("exactly", D, eye, pair(0, 1, 6.0, "=="), scalar(D, 3.0, 1.0), _along_pair(3.0)),
        Problem(
            "duplicates",
            D,
            eye,
            pair([0, 1, 0], [1, 0, 1], [0.5, 0.5, 1.0], "<="),
            scalar(D, 0.25, 1.0),
            _along_pair(0.25),
        ),
        Problem(
            "diagonal",
            D,
            e2 * eye,
            Constraints.diagonal([0.5, 1.0, 20.0]),
            sum(scalar(D, x, e2) for x in (0.5, 1.0, 20.0)),
            np.diag([0.5, 1.0, 20.0]),
        ),
        Problem("trace", D, eye, Constraints.trace(6.0), 3 * scalar(D, 2.0, 1.0), 2 * eye),
        Problem(
            "linear",
            D,
            eye,
            Constraints.linear([np.diag([1.0, 0, 0])], 0.2, "<="),
            scalar(D, 0.2, 1.0),
            np.diag([0.2, 1, 1]),
        ),
    ]
    for gamma in (0.1, 10.0):
        x = _own_slack_optimum(D, gamma, 0.5)
        value = scalar(D, x, 1.0) + _own_slack(D, gamma, 2 * x, 0.5)
        near = pair(0, 1, 0.5, "<=")
        problems.append(Problem(f"slack-{gamma}", D, eye, near, value, _along_pair(x), slack_weight=gamma))
    # squared hinge with scale |b| = 1, for Frobenius in closed form: gamma = 4, x - 1 + 8 (2 x - 1) = 0
    if D.name == "frobenius":
        x = 9.0 / 17.0
        value = (x - 1) ** 2 / 2 + 2 * (2 * x - 1) ** 2
        hinge = {"slack_weight": 4.0, "loss": SquaredHinge()}
        problems.append(Problem("hinge", D, eye, pair(0, 1, 1.0, "<="), value, _along_pair(x), **hinge))
    if not D.keeps_rank:  # only singular matrices meet a bound of 0
        problems.append(Problem("must-link", D, eye, pair(0, 1, 0.0, "<="), scalar(D, 0.0, 1.0), _along_pair(0.0)))
    return problems


def _infeasible(D: Any) -> list[Problem]:
    pair = Constraints.sq_distance
    opposite = pair([1, 0, 0], [2, 1, 1], [9.0, 1.0, 4.0], ["<=", "<=", ">="])
    triangle = pair([0, 1, 0], [1, 2, 2], [1.0, 1.0, 4.5], ["<=", "<=", ">="])  # (1 + 1)^2 < 4.5
    cycle = Constraints.comparison([0, 1, 2], [1, 2, 0], [1, 2, 0], [2, 0, 1], 0.1)
    return [
        Problem("opposite", D, np.eye(3), opposite, None, conflict=(1, 2)),
        Problem("triangle", D, np.eye(3), triangle, None, conflict=(0, 1, 2)),
        Problem("cycle", D, np.eye(3), cycle, None, conflict=(0, 1, 2)),
    ]


PROBLEMS = [problem for D in DIVERGENCES for problem in _feasible(D)]
INFEASIBLE = [problem for D in DIVERGENCES for problem in _infeasible(D)]


# ---------------------------------------------------------------- random problems
def random_pairs(rng: np.random.Generator, X: np.ndarray, c: int, *, shift: float = 0.0) -> Constraints:
    """Half of the pairs shall be nearer than they are, half farther, by up to a factor of 2."""
    i = rng.integers(0, len(X), c)
    j = (i + rng.integers(1, len(X), c)) % len(X)
    now = ((X[i] - X[j]) ** 2).sum(axis=1)
    near = np.arange(c) % 2 == 0
    factor = rng.uniform(0.5, 1.0, c)
    return Constraints.sq_distance(i, j, now * np.where(near, factor, 1 / factor) + shift, np.where(near, "<=", ">="))


def random_program(rng):
    """A of any rank, perhaps with equal columns; perhaps bounds; up to two rows, some of them infeasible."""
    n = int(rng.integers(1, 7))
    rank = int(rng.integers(1, n + 2))
    X = rng.standard_normal((rank, n))
    if n > 2 and rng.random() < 0.3:
        X[:, 1] = X[:, 0]
    b = -X.T @ rng.standard_normal(rank) if rng.random() < 0.7 else -rng.random(n)
    upper = np.full(n, np.inf)
    if rng.random() < 0.6:
        upper = np.where(rng.random(n) < 0.5, 2 * rng.random(n), np.inf)
    inside = np.minimum(rng.random(n) * (rng.random(n) < 0.5), upper)
    m = 0 if n == 1 or rng.random() < 0.4 else int(rng.integers(1, 3))
    E = rng.standard_normal((m, n)) if rng.random() < 0.5 else rng.choice([-1.0, 1.0], (m, n))
    e = E @ inside if rng.random() < 0.8 else rng.standard_normal(m)
    return X.T @ X, b, upper, E, e, inside


def pairs_case(rng, c=60, n=20, r=6, room=1.05):
    """Points and rows that all hold, with some room, for the points after a linear map of them: feasible, half of them active or so."""
    X = rng.normal(size=(n, r))
    Y = X @ (np.eye(r) + 0.3 * rng.normal(size=(r, r)))
    i = rng.integers(0, n, c)
    j = (i + rng.integers(1, n, c)) % n
    before, after = (((Q[i] - Q[j]) ** 2).sum(axis=1) for Q in (X, Y))
    near = after < before
    return X, Constraints.sq_distance(i, j, after * np.where(near, room, 1 / room), np.where(near, "<=", ">="))


def all_relations(rng: np.random.Generator, K: np.ndarray) -> Constraints:
    """A few rows of every relation, each of them met by the kernel K or nearly so."""
    n = len(K)
    i, j, k, l = np.array([rng.permutation(n)[:4] for _ in range(5)]).T

    def distance(a, b):
        return K[a, a] + K[b, b] - 2 * K[a, b]

    C = rng.normal(size=(n, n))
    C = C + C.T
    v, w = rng.normal(size=(n, 2)), np.array([1.0, -0.5])
    low_rank = v @ np.diag(w) @ v.T
    far = distance(i, j) > distance(k, l)  # the nearer pair goes first
    i, j, k, l = np.where(far, k, i), np.where(far, l, j), np.where(far, i, k), np.where(far, j, l)
    less = K[i, j] < K[k, l]
    a, b, c, d = np.where(less, i, k), np.where(less, j, l), np.where(less, k, i), np.where(less, l, j)
    return (
        Constraints.sq_distance(i, j, 0.9 * distance(i, j), "<=")
        + Constraints.similarity(i, k, K[i, k] + 0.1, ">=")
        + Constraints.comparison(i, j, k, l, 1.1 * (distance(k, l) - distance(i, j)))
        + Constraints.linear([C], [np.sum(K * C) + 0.1], ">=")
        + Constraints.similarity_comparison(a, b, c, d, 1.1 * (K[c, d] - K[a, b]))
        + Constraints.diagonal(1.05 * np.diag(K)[:2])
        + Constraints.linear([(v, w), sp.csr_array(C)], [np.sum(K * low_rank) - 0.1, np.sum(K * C) + 0.5], "<=")
        + Constraints.trace(1.01 * np.trace(K))
    )


# ---------------------------------------------------------------- problems that every solver shall end at the same matrix of
def _moved(rng: np.random.Generator, n: int, r: int) -> tuple[np.ndarray, np.ndarray]:
    """A prior and a kernel with the same range, which the rows are read from, so that all can be met; both of trace 1 or so."""
    G = rng.normal(size=(n, r))
    H = G @ (np.eye(r) + 0.35 * rng.normal(size=(r, r)))
    return G @ G.T / np.sum(H * H), H @ H.T / np.sum(H * H)


def _met_rows(relation: str, rng: np.random.Generator, K: np.ndarray, K0: np.ndarray) -> Constraints:
    """Rows of one relation, or of all, that K meets and K0 hardly: every sense that there is, nearly all of them active."""
    if relation == "all":
        names = ("sq_distance", "similarity", "comparison", "similarity_comparison", "diagonal", "linear")
        parts = [_met_rows(name, rng, K, K0).select(slice(0, 2)) for name in names]
        return sum(parts[1:], parts[0])
    n = len(K)
    i, j, k, l = np.array([rng.permutation(n)[:4] for _ in range(6)]).T

    def distance(a, b):
        return K[a, a] + K[b, b] - 2 * K[a, b]

    if relation in ("sq_distance", "similarity"):
        now, was = (
            (K[i, j], K0[i, j]) if relation == "similarity" else (distance(i, j), K0[i, i] + K0[j, j] - 2 * K0[i, j])
        )
        sense = np.where(now < was, "<=", ">=")
        sense[0] = "=="
        room = np.where(sense == "==", 0.0, np.where(sense == "<=", 0.01, -0.01))
        return getattr(Constraints, relation)(i, j, now + room * np.abs(now), sense)
    if relation == "comparison":
        return Constraints.comparison(i, j, k, l, distance(k, l) - distance(i, j) - 0.01)
    if relation == "similarity_comparison":
        return Constraints.similarity_comparison(i, j, k, l, K[k, l] - K[i, j] - 0.005)
    if relation == "diagonal":
        return Constraints.diagonal(np.diag(K)[:4])
    C, v = rng.normal(size=(3, n, n)), rng.normal(size=(n, 2))
    C = C + C.transpose(0, 2, 1)
    now, was = np.tensordot(C, K, 2), np.tensordot(C, K0, 2)
    rows = Constraints.linear(C, now, np.where(now < was, "<=", ">="))
    return rows + Constraints.linear([(v, np.ones(2))], np.sum((v @ v.T) * K), "==")


@dataclass(frozen=True)
class Agreement:
    """A feasible problem without a known optimum; ``slack_weight=None``: rows hard and soft in turn."""

    divergence: str
    relation: str
    cost: str = "hard"
    trace: bool = False
    rank: int = 4

    def arguments(self) -> tuple[np.ndarray, Constraints, dict[str, Any]]:
        """Prior, rows and settings."""
        rng = np.random.default_rng(0)
        K0, K = _moved(rng, 8, self.rank)
        rows = _met_rows(self.relation, rng, K, K0)
        if self.trace:
            rows = rows + Constraints.trace(1.0, weight=np.inf)
        alternate = np.where(np.arange(rows.n_constraints) % 2 == 0, np.inf, 2.0)
        weight, loss = {
            "hard": (np.inf, None),
            "own slack": (3.0, None),
            "heavy own slack": (30.0, None),
            "relative slack": (1.0, RelativeSlack()),
            "squared": (0.5, Squared()),
            "squared hinge": (10.0, SquaredHinge()),
            "hard and own slack": (alternate, None),
            "hard and squared hinge": (alternate, SquaredHinge()),
        }[self.cost]
        return K0, rows, {"divergence": self.divergence, "slack_weight": weight, "loss": loss}

    def __repr__(self) -> str:
        return f"{self.divergence}-{self.relation}-{self.cost}{'-trace' if self.trace else ''}".replace(" ", "_")


AGREEMENTS = [
    *(
        Agreement("logdet", name)
        for name in ("sq_distance", "similarity", "comparison", "similarity_comparison", "linear")
    ),
    Agreement("logdet", "all", trace=True, rank=6),
    Agreement("logdet", "all", "own slack", rank=6),
    Agreement("logdet", "sq_distance", "heavy own slack", trace=True),
    Agreement("logdet", "sq_distance", "relative slack"),
    Agreement("logdet", "all", "squared", trace=True),
    Agreement("logdet", "all", "squared hinge"),
    Agreement("logdet", "all", "hard and own slack", trace=True, rank=6),
    *(
        Agreement("vonneumann", name, trace=True)
        for name in ("sq_distance", "similarity", "comparison", "similarity_comparison", "linear")
    ),
    Agreement("vonneumann", "all", trace=True, rank=6),
    Agreement("vonneumann", "comparison"),
    Agreement("vonneumann", "all", "own slack", rank=6),
    Agreement("vonneumann", "sq_distance", "heavy own slack", trace=True),
    Agreement("vonneumann", "sq_distance", "relative slack"),
    Agreement("vonneumann", "all", "squared", trace=True),
    Agreement("vonneumann", "all", "squared hinge"),
    Agreement("vonneumann", "all", "hard and squared hinge", trace=True, rank=6),
    Agreement("frobenius", "sq_distance"),
    Agreement("frobenius", "all", "own slack"),
    Agreement("frobenius", "all", "hard and own slack", rank=6),
]


# ---------------------------------------------------------------- runs, sweep by sweep
class Watched:
    """A solver that keeps its states."""

    def __init__(self, solver):
        self.solver, self.states = solver, []
        self.name, self.works_on, self.max_iter = solver.name, solver.works_on, solver.max_iter
        self.check = solver.check

    def init(self, problem, tol, start):
        state = self.solver.init(problem, tol, start)
        self.problem = problem
        self.states.append(state)
        return state

    def step(self, problem, state):
        new = self.solver.step(problem, state)
        self.states.append(new)
        return new


def watch(prior, rows, solver=None, sweeps=1, **settings):
    """(kernel, dual weights) at the start and after each sweep, and the result."""
    watched = Watched(solver or CyclicProjection(root_tol=1e-13, refresh=10**6))
    given = {"max_iter": sweeps, "tol": 1e-30} | settings
    result = nearest_kernel(prior, rows, solver=watched, **given)
    found = []
    for state in watched.states:
        G = result.coordinates.factor(state.iterate)
        found.append((G @ G.T, state.dual.copy()))
    return found, result


def softened(problem: Problem, slack_weight: float) -> Problem:
    """The same problem with finite slack weights."""
    return replace(problem, slack_weight=slack_weight, objective=None, kernel=None)
