"""Nearest kernels and metrics: every divergence, loss, relation, prior, scale, and rows with structure that chance does not draw.

Bounds come from a definite matrix on the prior's range, so that every problem is feasible; or two rows contradict each other clearly.
"""

from copy import copy
from dataclasses import replace
from functools import partial, reduce
from operator import add

import numpy as np
import scipy.sparse as sp

import bregmat
from bregmat import Constraints as C
from bregmat import Factor, RelativeSlack, Squared, SquaredHinge
from bregmat.base.tolerances import FEASIBLE
from bregmat.verification.matrices import MatrixVerifier
from formulas import MatrixProblem, what_is_wrong
from suite.judge import SECONDS, Case, with_repeats

DIVERGENCES = ("logdet", "vonneumann", "frobenius")
LOSSES = (None, RelativeSlack(), Squared(), SquaredHinge())
PRIORS = (
    "dense",
    "low_rank",
    "factor",
    "deficient_factor",
    "cond6",
    "cond10",
    "cond12",
    "metric",
    "metric_prior",
    "wide",
    "singular_metric",
)
RELATIONS = ("sq_distance", "similarity", "comparison", "similarity_comparison", "diagonal", "trace", "linear")


def first_of_equals(X):
    """For each point the number of the first that is equal to it; shape (n,)."""
    _, first, group = np.unique(X, axis=0, return_index=True, return_inverse=True)
    return first[group.ravel()]


def equalised(K, X):
    """A kernel in which the rows of equal points are equal to the last bit."""
    first = first_of_equals(X)
    return K[first][:, first]


class Draw:
    """One problem on its way: prior, a matrix that meets all rows (as a factor of the kernel), rows, and what was drawn."""

    def __init__(
        self,
        rng,
        *,
        priors=PRIORS,
        sizes=(3, 14),
        scales=(1.0,),
        divergences=DIVERGENCES,
        centred=False,
        spread=0.0,
        repeats=False,
    ):
        self.rng, self.repeats = rng, repeats
        if repeats:  # two reasons for lost digits would leave no status to expect
            priors = tuple(kind for kind in priors if kind not in ("cond10", "cond12"))
        self.divergence = str(rng.choice(divergences))
        self.prior_kind = str(rng.choice(priors))
        self.scale = float(rng.choice(scales))
        self.n = int(rng.integers(*sizes))
        self._prior(centred, spread)
        self.basis = self._equalised(self.basis)
        r = self.basis.shape[1]
        root = rng.normal(size=(r, r)) * 0.5 / np.sqrt(r) + np.eye(r) * rng.uniform(0.5, 1.2)
        self.inner = root
        # a row about copies may be refused, since its value is 0 or below the rounding of the prior
        self.rows, self.gamma, self.feasible, self.may_refuse = [], [], True, repeats

    def _equalised(self, rows):
        """Rows of points in which those of equal points are equal to the last bit."""
        given = self.arguments.get("X", getattr(self.arguments.get("prior"), "G0", self.drawn))
        return rows[first_of_equals(given)]

    @property
    def truth(self):
        """Points of a kernel ``truth truth'`` that meets all rows."""
        return self._equalised(self.basis @ self.inner)

    def _prior(self, centred, spread):
        """``arguments``, and a basis (n, r) with prior kernel ``basis basis'``; for a metric also ``map`` with W = map M map'."""
        rng, n, kind, s = self.rng, self.n, self.prior_kind, np.sqrt(self.scale)
        rank = int(rng.integers(1, n)) if n > 1 else 1
        sizes = 10.0 ** rng.uniform(-spread / 2, spread / 2, size=n)[:, None]

        def points(d):
            X = self._repeated(rng.normal(size=(n, d)) * sizes)
            return X - X.mean(axis=0) if centred else X

        self.map = None
        if kind in ("dense", "cond6", "cond10", "cond12"):
            if kind == "dense":
                G = points(n + 2)
            else:
                Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
                G = self._repeated(Q * np.logspace(0, -float(kind[4:]) / 2, n)) if n > 1 else Q
                G = G - G.mean(axis=0) if centred else G
            self.basis = s * G
            K = self.basis @ self.basis.T
            if n <= G.shape[1] and not centred:
                values, Q = np.linalg.eigh(K)
                self.basis = Q * np.sqrt(np.maximum(values, 0))
            self.arguments = {"prior": equalised((K + K.T) / 2, self.drawn)}
        elif kind == "low_rank":
            self.basis = s * points(rank)
            self.arguments = {"prior": equalised(self.basis @ self.basis.T, self.drawn)}
        elif kind in ("factor", "deficient_factor"):
            G = s * points(rank)
            self.basis = G
            if kind == "deficient_factor":  # columns that depend on each other
                G = np.hstack([G, G @ rng.normal(size=(rank, 2))])
                U, sigma, _ = np.linalg.svd(G, full_matrices=False)
                self.basis = (U * sigma)[:, sigma > 1e-10 * sigma[0]]
            self.arguments = {"prior": Factor(G)}
        else:
            d = {"wide": n + 70, "singular_metric": 6}.get(kind, int(rng.integers(2, 9)))
            X = points(d) * s
            self.arguments, self.map = {"X": X}, np.eye(d)
            if kind == "metric_prior":
                R = rng.normal(size=(d, d)) + 2 * np.eye(d)
                self.arguments["prior"], self.map = R @ R.T, R
            if kind == "singular_metric":
                R = rng.normal(size=(d, 4))
                self.arguments["prior"], self.map = R @ R.T, R
            self.basis = X @ self.map
            if kind == "wide":  # the truth moves on the span of the points only
                self.basis, self.map = None, np.linalg.svd(X, full_matrices=False)[2].T
                self.basis = X @ self.map

    def _repeated(self, X):
        """The points, with some in the place of others if copies are asked for: exact, or so that values of rows have ten digits.

        Nearer copies are in ``far_away``, where no status is expected.
        """
        self.copies, self.errors, self.drawn = [], "", X
        is_kernel = self.prior_kind in ("dense", "low_rank") or "cond" in self.prior_kind  # which has rounded squares
        for _ in range(int(self.rng.integers(1, 1 + max(1, self.n // 3))) if self.repeats else 0):
            i, j = self.pair()
            least = -3 if is_kernel else -6
            exact = self.repeats == "exact" or self.rng.random() < 0.5
            error = 0.0 if exact else 10.0 ** self.rng.uniform(least, -1)
            apart = error * self.rng.normal(size=X.shape[1])
            if error:  # normal numbers may be small
                apart *= max(1.0, 10.0**least * np.linalg.norm(X[j]) / np.linalg.norm(apart * X[j]))
            X[i] = X[j] * (1.0 + apart)
            self.copies.append((i, j))
            self.errors += f" {error:.0e}"
        return X

    # ------------------------------------------------------------------ rows
    def value(self, matrix_or_rows):
        """Values of Constraints at the truth."""
        return matrix_or_rows.values(self.truth)

    def pair(self):
        if self.repeats and self.copies and self.rng.random() < 0.3:
            return self.rng.permutation(self.copies[self.rng.integers(len(self.copies))])
        return self.rng.choice(self.n, 2, replace=False)

    def two_pairs(self):
        while True:
            a, b = self.pair(), self.pair()
            if set(a) != set(b):
                return [int(k) for k in (*a, *b)]

    def matrix(self):
        """A symmetric matrix in one of the notations of linear rows."""
        rng, n = self.rng, self.n
        kind = rng.integers(4)
        if kind == 0:
            R = rng.normal(size=(n, 2))
            return R @ R.T
        if kind == 1:
            R = rng.normal(size=(n, n))
            return (R + R.T) / 2
        if kind == 2:
            i, j = self.pair()
            return sp.csr_array(([1.0, -0.5, -0.5, 0.25], ([i, i, j, j], [i, j, i, j])), shape=(n, n))
        return rng.normal(size=(n, 2)), rng.choice([1.0, -0.5, 0.5], 2)

    def row(self, relation=None, tight=0.2, hard_sense=None):
        """One random row that the truth meets, and often the prior does not."""
        rng = self.rng
        relation = relation or str(rng.choice(RELATIONS, p=[0.34, 0.16, 0.14, 0.08, 0.1, 0.05, 0.13]))
        if relation in ("comparison", "similarity_comparison"):
            where = self.two_pairs()
            (a, b), (c, d) = self.truth[where[:2]], self.truth[where[2:]]
            if relation == "comparison":
                a, b, c, d = a - b, a - b, c - d, c - d
            p, terms = float(a @ b - c @ d), float(np.sqrt(a @ a * (b @ b)) + np.sqrt(c @ c * (d @ d)))
            p = 0.0 if abs(p) <= 1e-12 * terms else p  # equal but for rounding
            if p > 0:
                where, p = where[2:] + where[:2], -p
            share = 1.0 if rng.random() < tight else rng.uniform(0.2, 1.0)
            return getattr(C, relation)(*where, margin=-p * share)
        if relation == "diagonal":
            i = int(rng.integers(self.n))
            return C.diagonal([float(self.truth[i] @ self.truth[i])], [i])
        if relation == "trace":
            return C.trace(float((self.truth**2).sum()))
        if relation == "linear":
            made = partial(C.linear, [self.matrix()])
        else:
            i, j = (int(k) for k in self.pair())
            made = partial(getattr(C, relation), i, j)
        p = float(self.value(made(1.0, "=="))[0])
        prior = float(made(1.0, "==").values(self.basis)[0])
        sense = hard_sense or str(rng.choice(["<=", ">=", "=="], p=[0.5, 0.35, 0.15]))
        if sense == "==":
            return made(p, "==")
        sense = "<=" if (prior > p) == (rng.random() < 0.85) else ">="
        gone = 0.0 if rng.random() < tight else rng.uniform(0, 0.6) * abs(prior - p)
        bound = p + gone if sense == "<=" else p - gone
        if relation == "sq_distance":
            bound = max(bound, 0.0)
        return made(bound, sense)

    def draw_rows(self, count=None, **how):
        r = self.basis.shape[1]
        most = max(1, min(2 * self.n, int(0.7 * r * (r + 1) / 2)))
        for _ in range(count or int(self.rng.integers(1, most + 1))):
            self.rows.append(self.row(**how))

    def case(self, softness=None, solver="auto", **more):
        """The problem itself; ``softness``: "hard", "soft" or "mixed"."""
        rng = self.rng
        constraints = reduce(add, self.rows)
        c = constraints.n_constraints
        softness = softness or str(rng.choice(["hard", "soft", "mixed"], p=[0.45, 0.35, 0.2]))
        gamma = np.full(c, np.inf)
        if softness != "hard":
            gamma = 10.0 ** rng.uniform(-2, 3, size=c)
            if softness == "mixed":
                gamma[rng.random(c) < 0.5] = np.inf
        loss = LOSSES[rng.integers(4)] if softness != "hard" else None
        arguments = self.arguments | {
            "constraints": constraints,
            "divergence": self.divergence,
            "loss": loss,
            "slack_weight": gamma if softness == "mixed" else (np.inf if softness == "hard" else float(gamma[0])),
        }
        given = dict(arguments)
        first = given.pop("X") if "X" in given else given.pop("prior")
        function = bregmat.nearest_metric if self.map is not None else bregmat.nearest_kernel
        name = type(loss).__name__ if loss is not None else "own"
        text = f"{self.divergence} {self.prior_kind} {softness} {name} scale {self.scale:g} n {self.n} c {c}"
        text += f" copies{self.errors}" if self.repeats else ""
        feasible = self.feasible if np.isinf(gamma).all() else True
        if not self.feasible and softness == "mixed":
            feasible = None

        planted = self.map @ self.inner if self.map is not None else self.truth

        def known(result):
            problem = MatrixProblem(arguments)
            if problem.is_judged:
                return problem.objective_of(planted)
            return objective_at(MatrixVerifier(arguments, result), planted)  # in more digits

        def leaves_range(result):
            problem = planted_in(MatrixVerifier(arguments, result), planted)
            return problem.divergence.keeps_range and problem.outside() > 0

        return Case(
            solve=lambda: function(first, max_seconds=SECONDS, solver=solver, **given),
            arguments=arguments,
            feasible=feasible,
            known=known if feasible and self.feasible else None,
            leaves_range=leaves_range,
            judge=partial(what_is_wrong, arguments),
            text=text,
            may_refuse=self.may_refuse,
            **more,
        )


def planted_in(problem, factor):
    """The problem with another matrix in the place of the result's, given by a factor as a result gives its own."""
    other = copy(problem)
    other.__dict__.pop("F", None)
    other.claimed, other.B = factor.astype(problem.real), None
    return other


def objective_at(problem, factor):
    """The objective of another matrix, given by a factor as a result gives its own; inf where a hard row is missed.

    Where matrices keep the prior's range, of the part of it that is there: divergence and rows of the same matrix.
    """
    other = planted_in(problem, factor)
    if problem.divergence.keeps_range:  # rounding of a dense prior turns its range, by more than short rows are worth
        other.claimed = problem.P @ other.F
    p, _ = other.rows.values(other.lifted())
    if (other.excess(p) > FEASIBLE * problem.unit)[problem.hard].any():
        return np.inf
    return other.distance() + other.losses.cost(p)


# ---------------------------------------------------------------- families
SCALES = tuple(10.0 ** np.arange(-8, 9))


def plain(rng, repeats=False):
    """Whatever comes."""
    draw = Draw(rng, repeats=repeats)
    draw.draw_rows()
    return draw.case()


def scaled(rng, repeats=False):
    """Priors and bounds from 1e-8 to 1e8."""
    draw = Draw(rng, repeats=repeats, scales=SCALES)
    draw.draw_rows()
    return draw.case()


def ill_conditioned(rng, repeats=False):
    """Priors of condition 1e6 to 1e12, and of low rank."""
    draw = Draw(
        rng,
        repeats=repeats,
        priors=("cond6", "cond10", "cond12", "low_rank", "deficient_factor"),
        scales=(1e-4, 1.0, 1e4),
    )
    draw.draw_rows()
    return draw.case()


def larger(rng, repeats=False):
    """20 to 40 points."""
    draw = Draw(rng, repeats=repeats, sizes=(20, 41), priors=("dense", "low_rank", "factor", "cond6", "metric", "wide"))
    draw.draw_rows(int(rng.integers(10, 120)))
    return draw.case()


def vanishing(rng, repeats=False):
    """Rows that are 0 on centred data: held, or impossible. Near copies would make the prior ill-conditioned: copies are exact."""
    priors = ("factor", "metric") if repeats else ("factor", "metric", "low_rank")
    draw = Draw(rng, repeats="exact" if repeats else False, priors=priors, centred=True, sizes=(4, 14))
    if draw.divergence == "frobenius" and draw.prior_kind == "low_rank":
        draw.divergence = "vonneumann"  # Frobenius may leave the range of a dense prior
    n, e = draw.n, np.ones(draw.n)
    form = [
        np.ones((n, n)),
        sp.csr_array(np.ones((n, n))),
        (e[:, None], np.ones(1)),
        (np.stack([e, e], 1), np.array([2.0, -1.0])),
    ]
    sense = str(rng.choice(["<=", ">=", "=="]))
    impossible = rng.random() < 0.4
    size = float((draw.truth**2).sum())
    bound = 0.0
    if impossible:
        bound = size * 10.0 ** rng.uniform(-3, 0) * (-1 if sense == "<=" else 1)
    elif sense != "==" and rng.random() < 0.5:
        bound = size * (1 if sense == "<=" else -1)
    draw.draw_rows(int(rng.integers(1, 6)))
    draw.rows.insert(int(rng.integers(len(draw.rows) + 1)), C.linear([form[rng.integers(4)]], [bound], sense))
    draw.feasible, draw.may_refuse = not impossible, impossible or repeats
    return draw.case("hard" if impossible else None)


def vanishing_point(rng, repeats=False):
    """A point whose entries are 0, or rounding of the others' in a dense prior, with rows about it."""
    draw = Draw(rng, repeats=repeats, priors=("factor", "metric", "low_rank"), sizes=(4, 10))
    k = int(rng.integers(draw.n))
    if draw.prior_kind == "low_rank":
        draw.basis[k] = draw.drawn[k] = 0.0
        noise = rng.choice([0.0, 1e-17]) * np.abs(draw.basis).max() ** 2 * rng.normal(size=draw.n)
        K = draw.basis @ draw.basis.T
        K[k] = K[:, k] = noise
        draw.arguments["prior"] = K
    else:
        G = draw.arguments["X"] if draw.map is not None else draw.arguments["prior"].G0
        G[k] = 0.0
        draw.basis = G if draw.map is None else G @ draw.map
    if draw.divergence == "frobenius" and draw.prior_kind == "low_rank":
        draw.divergence = "logdet"
    draw.draw_rows(int(rng.integers(1, 6)))
    if rng.random() < 0.5:
        draw.rows.append(C.diagonal([0.0], [k]))
    else:
        draw.rows.append(C.similarity(k, (k + 1) % draw.n, 0.0, str(rng.choice(["<=", ">=", "=="]))))
    draw.may_refuse = True
    return draw.case()


def duplicates(rng, repeats=False):
    """Rows said two or three times, in several notations."""
    draw = Draw(rng, repeats=repeats)
    draw.draw_rows(int(rng.integers(1, 6)))
    for row in [draw.rows[k] for k in rng.integers(len(draw.rows), size=rng.integers(1, 5))]:
        draw.rows.append(row)
    i, j = (int(k) for k in draw.pair())
    p = float(draw.value(C.sq_distance(i, j, 1.0, "=="))[0])
    v = np.zeros((draw.n, 1))
    v[i], v[j] = 1.0, -1.0
    draw.rows += [C.sq_distance(i, j, p, "<="), C.sq_distance(j, i, p, "==")]
    if not 0 < p < 1e-6 * float((draw.truth**2).sum()):  # otherwise points as vectors have lost digits of p
        draw.rows.append(C.linear([(v, np.ones(1))], [p], ">="))
    return draw.case()


def redundant(rng, repeats=False):
    """More equalities than there are degrees of freedom: all the distances, all entries, or sums of rows."""
    draw = Draw(rng, repeats=repeats, sizes=(3, 7))
    n, kind = draw.n, rng.integers(3)
    i, j = np.triu_indices(n, 1)
    if kind == 0:
        draw.rows.append(C.sq_distance(i, j, np.maximum(draw.value(C.sq_distance(i, j, 1.0, "==")), 0), "=="))
    elif kind == 1:
        draw.rows.append(C.similarity(i, j, draw.value(C.similarity(i, j, 0.0, "==")), "=="))
        draw.rows.append(C.diagonal((draw.truth**2).sum(axis=1)))
    else:
        draw.rows += [C.diagonal((draw.truth**2).sum(axis=1)), C.trace(float((draw.truth**2).sum()))]
    return draw.case()


def contradictions(rng, repeats=False):
    """Two or three hard rows that contradict each other clearly, among others that do not."""
    draw = Draw(rng, repeats=repeats, scales=(1e-6, 1.0, 1.0, 1e6))
    draw.draw_rows(int(rng.integers(1, 8)))
    i, j = (int(k) for k in draw.pair())
    kind, apart = rng.integers(5), 1.0 + 10.0 ** rng.uniform(-5, 0)
    d = max(float(draw.value(C.sq_distance(i, j, 1.0, "=="))[0]), 1e-3 * draw.scale)
    if kind == 0:
        more = [C.sq_distance(i, j, d, "<="), C.sq_distance(i, j, d * apart, ">=")]
    elif kind == 1:
        more = [C.sq_distance(i, j, d, "=="), C.sq_distance(j, i, d * apart, "==")]
    elif kind == 2:
        where = draw.two_pairs()
        margin = d * 10.0 ** rng.uniform(-4, 0)
        more = [C.comparison(*where, margin=margin), C.comparison(*where[2:], *where[:2], margin=margin)]
    elif kind == 3:
        total = float((draw.truth**2).sum())
        more = [C.trace(total), C.diagonal([total * apart], [i])]
    else:  # |K_ij| <= (K_ii + K_jj) / 2
        a = max(float(draw.truth[i] @ draw.truth[i]), float(draw.truth[j] @ draw.truth[j]), 1e-3 * draw.scale)
        more = [C.diagonal([a, a], [i, j]), C.similarity(i, j, a * apart, ">=")]
    draw.rows += more
    order = rng.permutation(len(draw.rows))
    draw.rows = [draw.rows[k] for k in order]
    draw.feasible = False
    return draw.case("hard")


def rounded(rng, repeats=False):
    """Equalities that differ by rounding: 1e-16 to 1e-12 of the bound."""
    draw = Draw(rng, repeats=repeats)
    draw.draw_rows(int(rng.integers(1, 5)))
    for _ in range(int(rng.integers(1, 4))):
        i, j = (int(k) for k in draw.pair())
        p = float(draw.value(C.sq_distance(i, j, 1.0, "=="))[0])
        off = 10.0 ** rng.uniform(-16, -12)
        senses = [("==", "=="), ("<=", ">="), ("==", ">=")][rng.integers(3)]
        draw.rows += [C.sq_distance(i, j, p, senses[0]), C.sq_distance(i, j, p * (1 + off), senses[1])]
    return draw.case()


def one_point(rng, repeats=False):
    """Rows that name one point, once or several times."""
    draw = Draw(rng, repeats=repeats)
    lengths = (draw.truth**2).sum(axis=1)
    for _ in range(int(rng.integers(1, draw.n + 1))):
        i, j = (int(k) for k in draw.pair())
        kind = rng.integers(4)
        if kind == 0:
            draw.rows.append(C.similarity(i, i, lengths[i] * rng.uniform(1, 1.5), "<="))
        elif kind == 1:
            draw.rows.append(C.similarity(i, i, lengths[i] * rng.uniform(0.5, 1), ">="))
        elif kind == 2:
            a, b = (i, j) if lengths[i] <= lengths[j] else (j, i)
            margin = float(lengths[b] - lengths[a]) * rng.uniform(0, 1)
            # the difference of copies is rounding of the prior
            row = C.similarity_comparison(a, a, b, b, margin=margin) if margin > 0 else C.diagonal([lengths[i]], [i])
            draw.rows.append(row)
        else:
            draw.rows.append(C.diagonal([lengths[i]], [i]))
    return draw.case()


def wide_bounds(rng, repeats=False):
    """Bounds over 12 orders of magnitude: points of very different lengths."""
    draw = Draw(rng, repeats=repeats, priors=("dense", "factor", "metric", "low_rank"), spread=6.0)
    draw.draw_rows()
    return draw.case()


def must_links(rng, repeats=False):
    """Hard squared distances of 0: LogDet has no such matrix, the others merge the points."""
    draw = Draw(rng, repeats=repeats, priors=("dense", "factor", "metric", "metric_prior"), sizes=(4, 10))
    pairs = [draw.pair() for _ in range(int(rng.integers(1, 3)))]
    D = np.array([draw.basis[a] - draw.basis[b] for a, b in pairs])
    _, sigma, Vt = np.linalg.svd(D)
    rank = int((sigma > 1e-10 * sigma[0]).sum())
    if rank >= draw.basis.shape[1]:
        return plain(rng, repeats)
    N = Vt[rank:].T
    draw.inner = N @ (N.T @ draw.inner)
    draw.rows += [C.sq_distance(int(a), int(b), 0.0, "<=") for a, b in pairs]
    relations = ("sq_distance", "diagonal", "trace")
    for _ in range(int(rng.integers(1, 4))):
        row = draw.row(str(rng.choice(relations)), hard_sense="<=")
        if row.bound[0] > 1e-9 * (draw.truth**2).sum():
            draw.rows.append(row)
    if draw.divergence == "logdet" and not all((draw.drawn[a] == draw.drawn[b]).all() for a, b in pairs):
        draw.feasible = False
    return draw.case("hard")


def cliques(rng, repeats=False):
    """Neighbour graphs under ``==``: distances of points in the plane, every row kept as it is."""
    draw = Draw(rng, repeats=repeats, priors=("dense", "factor", "metric"), sizes=(5, 12))
    X = draw.truth
    gone = ((X[:, None] - X[None]) ** 2).sum(-1)
    np.fill_diagonal(gone, -1.0)  # a copy may be as near as the point itself
    near = np.argsort(gone, axis=1)[:, 1 : 1 + int(rng.integers(1, 4))]
    pairs = sorted({(min(i, int(j)), max(i, int(j))) for i in range(draw.n) for j in near[i]})
    i, j = np.array(pairs).T
    draw.rows.append(C.sq_distance(i, j, gone[i, j], "=="))
    return draw.case("hard")


def parallel(rng, repeats=False):
    """Pairs that are nearly parallel, with bounds that pull them apart."""
    draw = Draw(rng, repeats=repeats, priors=("metric",), sizes=(4, 5))
    d, apart = draw.map.shape[0], 10.0 ** rng.uniform(-4, -1)
    X = draw.arguments["X"]
    X[0], X[1] = 0.0, np.eye(d)[0]
    X[2] = X[1] + apart * np.eye(d)[-1]
    draw.basis = X @ draw.map
    p = draw.value(C.sq_distance([0, 0], [1, 2], 1.0, "=="))
    draw.rows.append(C.sq_distance([0, 0], [1, 2], p, "=="))
    return draw.case("hard")


def flat(rng, repeats=False):
    """All distances among some points that lie in fewer dimensions, mostly on a line of whole numbers, and any other rows.

    Not LogDet, which is infinite at every such matrix. The bound has finite weights for what is infinite, so that a gap may be left.
    """
    priors = ("dense", "factor", "metric", "metric_prior")
    draw = Draw(rng, repeats=repeats, priors=priors, sizes=(4, 10), divergences=("vonneumann", "frobenius"))
    r = draw.basis.shape[1]
    if r < 3:
        return plain(rng, repeats)
    points = np.sort(rng.choice(draw.n, int(rng.integers(3, min(draw.n, r + 1) + 1)), replace=False))
    k, l = np.triu_indices(len(points), 1)
    gone = draw.truth[points] - draw.truth[points[0]]  # mapped to a line or a plane; what is orthogonal to it is kept
    if rng.random() < 0.7:
        goal = np.cumsum(rng.integers(1, 4, len(points)))[:, None] * np.sqrt(draw.scale)
    else:
        goal = gone @ rng.normal(size=(draw.truth.shape[1], 2))
    goal = goal - goal[0]
    if np.linalg.matrix_rank(gone, 1e-3 * np.linalg.norm(gone)) < len(points) - 1 or goal.shape[1] >= len(points) - 1:
        return plain(rng, repeats)
    along = np.linalg.pinv(gone)
    inner = np.hstack([draw.inner @ along @ goal, draw.inner @ (np.eye(r) - along @ gone) * (rng.random() < 0.7)])
    draw.inner = inner
    bound = ((goal[k] - goal[l]) ** 2).sum(axis=1)
    if not (bound > 0).all():
        return plain(rng, repeats)
    draw.rows.append(C.sq_distance(points[k], points[l], bound, "=="))
    if rng.random() < 0.8:
        draw.draw_rows(int(rng.integers(1, 5)), relation=None if rng.random() < 0.5 else str(rng.choice(RELATIONS)))
    draw.rows = [draw.rows[k] for k in rng.permutation(len(draw.rows))]
    return draw.case("hard", expected=("OPTIMAL", "FEASIBLE"))


def far_away(rng, repeats=False):
    """Points far from the origin, nearly equal points, or points of very different lengths; bounds from differences of the data."""
    draw = Draw(rng, repeats=repeats, priors=("factor", "metric", "metric_prior"), sizes=(3, 9))
    X = draw.arguments["X"] if draw.map is not None else draw.arguments["prior"].G0
    kind = rng.integers(3)
    if kind == 0:
        X += rng.normal(size=X.shape[1]) * 10.0 ** rng.uniform(3, 14)
    elif kind == 1:
        i, j = draw.pair()
        X[i] = X[j] + 10.0 ** rng.uniform(-16, -5) * rng.normal(size=X.shape[1])
    else:
        X *= 10.0 ** rng.uniform(-8, 8, size=(draw.n, 1))
    draw.basis = X if draw.map is None else X @ draw.map
    root = draw.inner if draw.map is None else draw.map @ draw.inner
    most = max(1, min(draw.n, draw.basis.shape[1]))
    for _ in range(int(rng.integers(1, most + 1))):
        i, j = (int(k) for k in draw.pair())
        sense = str(rng.choice(["<=", ">=", "=="]))
        if kind == 2 and rng.random() < 0.5:
            draw.rows.append(C.similarity(i, j, float((X[i] @ root) @ (X[j] @ root)), sense))
        elif (bound := float((((X[i] - X[j]) @ root) ** 2).sum())) > 0:
            draw.rows.append(C.sq_distance(i, j, bound, sense))
    if not draw.rows:
        return plain(rng, repeats)
    draw.may_refuse = True
    case = draw.case(expected=("OPTIMAL", "FEASIBLE", "UNKNOWN"))
    # the planted point leaves the range of the prior if that loses a direction by the rule of 1e-12 for eigenvalues
    lengths = np.linalg.svd(draw.basis, compute_uv=False)
    return replace(case, known=None) if lengths[-1] ** 2 < 1e-11 * lengths[0] ** 2 else case


FAMILIES = with_repeats(
    *(plain, scaled, ill_conditioned, larger, vanishing, vanishing_point, duplicates, redundant, contradictions),
    *(rounded, one_point, must_links, cliques, parallel, flat, wide_bounds, far_away),
)
COUNTS = {
    "plain": 700,
    "scaled": 500,
    "ill_conditioned": 500,
    "larger": 60,
    "redundant": 200,
    "cliques": 150,
    "parallel": 60,
    "flat": 150,
}
