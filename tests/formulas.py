"""The independent judge: divergences, rows and losses as the papers print them, what they say of a result, and random arguments.

Nothing here comes from ``bregmat.verification``, nor from any other code of the library.
"""

import itertools

import numpy as np
import scipy.sparse as sp
from scipy.linalg import logm

NAMES = ("logdet", "vonneumann", "frobenius")
CLOSE = {"rel": 1e-9, "abs": 1e-9}  # logm and inv of matrices with a condition of at most 1e4

SOLVED = (
    1e-4  # of the largest entry: the root of the relative gap of 1e-9 to which such problems are solved, with some room
)


def close(X, Y):
    """Whether a learned matrix is the expected one."""
    return bool(np.allclose(X, Y, rtol=0, atol=SOLVED * np.abs(Y).max()))


def positive(rng, n, rank=None):
    A = rng.normal(size=(n, rank or n))
    return A @ A.T


def well_conditioned(rng, n):
    return positive(rng, n) + 0.5 * np.eye(n)


def orthogonal(rng, n, r=None):
    return np.linalg.qr(rng.normal(size=(n, r or n)))[0]


def symmetric(rng, n):
    A = rng.normal(size=(n, n))
    return (A + A.T) / 2


def low_rank_pair(rng, inside):
    """X and Y of order 6; range(X) equal to range(Y) of rank 3, or a plane in it."""
    W = orthogonal(rng, 6, 3)
    return W @ positive(rng, 3, 2 if inside else 3) @ W.T, W @ positive(rng, 3) @ W.T, W


def scalar_phi(name, x):
    """phi of single eigenvalues (Kulis 2009, section 3.1)."""
    return {"logdet": lambda: -np.log(x), "vonneumann": lambda: x * np.log(x) - x, "frobenius": lambda: x**2 / 2}[
        name
    ]()


def vector_divergence(name, x, y):
    """The scalar divergence of eigenvalues, elementwise (Kulis 2009, eq. 11 and 12)."""
    return OWN_SLACK[name][0](x, y)


def matrix_divergence(name, X, Y):
    """Kulis 2009, eq. 1 and 2, and half the squared Frobenius distance, of positive definite matrices."""
    if name == "logdet":
        P = X @ np.linalg.inv(Y)
        return np.trace(P) - np.linalg.slogdet(P)[1] - len(X)
    if name == "vonneumann":
        return np.trace(X @ logm(X) - X @ logm(Y) - X + Y)
    return np.linalg.norm(X - Y) ** 2 / 2


def gradient(name, X):
    """The gradient of phi at a positive definite matrix: -X^-1, log X, X."""
    return {"logdet": lambda: -np.linalg.inv(X), "vonneumann": lambda: logm(X), "frobenius": lambda: X}[name]()


# ---------------------------------------------------------------- rows and losses, as the papers print them
# the value of a row between samples; at an array (n, n, ...) in the place of K it is the array of the values
ROWS = {
    "sq_distance": lambda K, i, j: K[i, i] + K[j, j] - 2 * K[i, j],
    "similarity": lambda K, i, j: K[i, j],
    "comparison": lambda K, i, j, k, l: K[i, i] + K[j, j] - 2 * K[i, j] - K[k, k] - K[l, l] + 2 * K[k, l],
    "similarity_comparison": lambda K, i, j, k, l: K[i, j] - K[k, l],
    "diagonal": lambda K, i: K[i, i],
    "trace": lambda K: np.trace(K),
}
# the loss d(p, b) of a value and its bound, and the value at which its slope is m
ITAKURA_SAITO = (lambda p, b: p / b - np.log(p / b) - 1, lambda m, b: 1 / np.maximum(1 / b - m, 0.0))
RELATIVE_ENTROPY = (lambda p, b: p * np.log(p / b) - p + b, lambda m, b: b * np.exp(m))
HALF_SQUARE = (lambda p, b: (p - b) ** 2 / 2, lambda m, b: b + m)
OWN_SLACK = {"logdet": ITAKURA_SAITO, "vonneumann": RELATIVE_ENTROPY, "frobenius": HALF_SQUARE}  # Kulis 2009, eq. 22


def row_matrices(rows, n):
    """The symmetric matrices A_i with the values ``tr(A_i K)`` of Constraints between n samples, shape (c, n, n)."""
    unit = np.einsum("ik,jl->ijkl", np.eye(n), np.eye(n))
    unit = (unit + unit.transpose(0, 1, 3, 2)) / 2
    out = np.empty((rows.n_constraints, n, n))
    for k in range(rows.n_constraints):
        relation = rows.relations[rows.relation[k]]
        if relation.takes_matrix:
            C = rows.matrix(k)
            out[k] = (
                (C.vectors * C.weights) @ C.vectors.T if hasattr(C, "vectors") else C.toarray() if sp.issparse(C) else C
            )
        else:
            value = ROWS[relation.name]
            out[k] = value(unit, *rows.index[k, : value.__code__.co_argcount - 1])
    return out


def least_over_supports(A, b, upper, E, e):
    """Least objective over all choices of zero, free, at the upper bound; inf where nothing is feasible."""
    m, best = len(e), np.inf
    sides = [(0, 1, 2) if np.isfinite(u) else (0, 1) for u in upper]
    for choice in itertools.product(*sides):
        side = np.array(choice)
        F, x = np.flatnonzero(side == 1), np.where(side == 2, np.where(np.isfinite(upper), upper, 0.0), 0.0)
        k = len(F)
        K = np.zeros((k + m, k + m))
        K[:k, :k], K[:k, k:], K[k:, :k] = A[np.ix_(F, F)], E[:, F].T, E[:, F]
        rhs = np.concatenate([-(b[F] + A[F] @ x), e - E @ x])
        solution = np.linalg.lstsq(K, rhs, rcond=None)[0] if k + m else rhs
        if np.abs(K @ solution - rhs).max(initial=0.0) > 1e-9:
            continue
        x[F] = solution[:k]
        if (x < -1e-9).any() or (x > upper + 1e-9).any():
            continue
        best = min(best, float(0.5 * x @ A @ x + b @ x))
    return best


def pooled_within(X, codes):
    """Covariance within classes, with the freedom that the means leave."""
    means = np.array([X[codes == c].mean(axis=0) for c in range(codes.max() + 1)])
    apart = X - means[codes]
    return apart.T @ apart / (len(X) - len(means))


def twin_cap(w, m):
    """NumPy twin: the smallest number of capped weights that leaves the others, in proportion, below the cap."""
    order = np.argsort(-w)
    for c in range(m):
        out = w * ((1.0 - c / m) / w[order[c:]].sum())
        out[order[:c]] = 1.0 / m
        if out[order[c]] <= 1.0 / m * (1.0 + 1e-13):
            return out
    raise AssertionError


def long_svd(G):
    """Left singular vectors (n, k) and singular values of a matrix in extended precision, also tiny ones, by Jacobi rotations."""
    Q = np.linalg.svd(G, full_matrices=False)[2].T.astype(np.longdouble)
    for _ in range(2):  # orthogonal to the last digits
        Q = Q @ (3 * np.eye(Q.shape[1]) - Q.T @ Q) / 2
    B = G.astype(np.longdouble) @ Q
    for _ in range(20):
        turned = False
        for p, q in itertools.combinations(range(B.shape[1]), 2):
            a, b, c = B[:, p] @ B[:, p], B[:, q] @ B[:, q], B[:, p] @ B[:, q]
            if abs(c) > 1e-18 * np.sqrt(a * b):
                turned, z = True, (b - a) / (2 * c)
                t = (1 if z >= 0 else -1) / (abs(z) + np.sqrt(1 + z * z))
                B[:, p], B[:, q] = (
                    (B[:, p] - t * B[:, q]) / np.sqrt(1 + t * t),
                    (B[:, q] + t * B[:, p]) / np.sqrt(1 + t * t),
                )
        if not turned:
            break
    sigma = np.sqrt((B * B).sum(axis=0))
    return B / np.where(sigma > 0, sigma, 1), sigma


class MatrixProblem:
    """``minimise D(W, W0) + sum gamma_i d(tr(A_i W), b_i)`` in a basis V of the range of W0: ``W = V M V'``.

    The basis is orthonormal, or, for LogDet beside a prior with small eigenvalues, the one in which the prior is the identity, from
    extended precision. Written from the papers, without the code of the library, for judges of its results. ``is_judged`` is False
    where float64 tells nothing: other ill-conditioned priors, and rows of very different sizes.
    """

    def __init__(self, arguments):
        prior, X, rows = arguments.get("prior"), arguments.get("X"), arguments["constraints"]
        self.name, self.is_metric, self.sense = arguments["divergence"], X is not None, rows.sense
        C = row_matrices(rows, len(X if self.is_metric else getattr(prior, "G0", prior)))
        points = X if self.is_metric else np.eye(C.shape[1])
        is_factor = hasattr(prior, "G0")
        if is_factor:
            V, l, _ = np.linalg.svd(prior.G0, full_matrices=False)
            _, first, copy = np.unique(prior.G0, axis=0, return_index=True, return_inverse=True)
            V, l = V[first[copy.ravel()]], l**2  # equal points have equal coordinates: their difference is exactly 0
        else:
            l, V = np.linalg.eigh(np.eye(points.shape[1]) if prior is None else prior)
        keep = l > 1e-12 * l.max()
        is_whole = self.name != "frobenius" or keep.all()
        if is_factor:  # whose range is exact: a short direction is part of it, unless it is rounding
            is_whole &= (keep | (l <= 1e-28 * l.max())).all()
        # eigenvalues near the cut may count as 0 here and not there
        is_even = not ((l > 1e-14 * l.max()) & (l < 1e-8 * l.max())).any()
        self.l, self.V, self.inverse, self.rounding = l[keep], V[:, keep], V[:, keep].T, np.zeros(keep.sum())
        if self.name == "logdet" and not (is_even and is_whole):
            is_even = is_whole = self._take_identity(prior.G0 if is_factor else prior, is_factor)
        lengths = np.linalg.norm(X, axis=1) if self.is_metric else np.ones(C.shape[1])
        if self.V.dtype == np.longdouble:
            lengths = np.linalg.norm((points @ self.V).astype(float), axis=1)
        self.sizes = np.einsum("cij,i,j->c", np.abs(C), lengths, lengths) + 1e-300  # before differences cancel
        self.C, self.points, Z = C, points, points @ self.V
        self.A = np.array([Z.T @ one @ Z for one in C]).astype(float)
        self.b, gamma = rows.bound, np.broadcast_to(arguments["slack_weight"], rows.n_constraints) * rows.weight
        self.hard, self.gamma = np.isinf(gamma), gamma
        self.loss = getattr(arguments.get("loss"), "name", None)
        self.two_sided = (self.sense == 0) | (~self.hard & (self.loss == "squared"))  # regression counts both sides
        clear = np.abs(self.b) > 1e-8 * self.sizes * self.l.max()
        is_even &= self.V.dtype == np.longdouble or self.sizes.max() < 1e6 * self.sizes.min()
        self.is_judged = bool(is_whole and is_even and (clear | self.hard & (self.b == 0)).all())

    def _take_identity(self, prior, is_factor):
        """Take V with ``W0 = V V'`` from extended precision; return whether the rank of the prior is beyond doubt."""
        U, sigma = long_svd(prior)
        share = sigma / sigma.max()
        # short directions of a factor are exact; eigenvalues of a kernel or metric below 1e-12 of the largest count as 0
        root, cut, doubt = (sigma, 1e-14, 1e2) if is_factor else (np.sqrt(sigma), 1e-12, 1.25)
        keep = share > cut
        self.V, self.inverse, self.l = U[:, keep] * root[keep], (U[:, keep] / root[keep]).T, np.ones(keep.sum())
        # the last digits of a prior, in units of its eigenvalues; a factor is exact
        self.rounding = np.sqrt((not is_factor) * 8 * np.finfo(float).eps / share[keep]).astype(float)
        return not ((share > cut / doubt) & (share < cut * doubt)).any()

    def of(self, F):
        """M of the matrix ``F F'``, and the length of what is outside of the range, relative to F."""
        Y = self.inverse @ F
        outside = np.linalg.norm((F - self.V @ Y).astype(float)) / (np.linalg.norm(F) or 1.0)
        return (Y @ Y.T).astype(float), float(outside)

    def slack(self, i):
        """Loss and inverse slope of a soft row: weight, scale of values, and the two functions."""
        b, g = float(self.b[i]), float(self.gamma[i])
        if b > 0 and self.loss in (None, "relative_slack"):
            return g, 1.0 if self.loss is None else b, *OWN_SLACK[self.name]
        return g, abs(b), *HALF_SQUARE

    def excess(self, p):
        """By how much values miss their bounds."""
        return np.where(self.two_sided, np.abs(p - self.b), np.maximum(self.sense * (p - self.b), 0.0))

    def objective(self, M):
        """The primal value; inf if the divergence or a loss is."""
        p, total = np.einsum("cij,ij->c", self.A, M), self.distance(M)
        for i in np.flatnonzero(~self.hard & (self.excess(p) > 0)):
            g, s, cost, _ = self.slack(i)
            total += g * cost(p[i] / s, self.b[i] / s)
        return float(total)

    def objective_rounding(self, M, size):
        """Change of the losses by the rounding of values in float64, eps |A| |M|; the square of it counts where p is nearly b."""
        p, e, total = np.einsum("cij,ij->c", self.A, M), np.finfo(float).eps * size * self.sizes, 0.0
        excess = [self.excess(q) for q in (p - e, p, p + e)]
        for i in np.flatnonzero(~self.hard):
            g, s, cost, _ = self.slack(i)
            points = zip((p[i] - e[i], p[i], p[i] + e[i]), excess, strict=True)
            losses = [g * cost(q / s, self.b[i] / s) if x[i] > 0 else 0.0 for q, x in points]
            total += np.ptp([loss for loss in losses if np.isfinite(loss)] or [0.0])
        return float(total)

    def objective_of(self, F):
        """The primal value of the part of a matrix ``F F'`` in the range; inf where a hard row is missed."""
        M, _ = self.of(F)
        missed = self.excess(np.einsum("cij,ij->c", self.A, M)) > 1e-9 * np.abs(
            self.b
        ) + 1e-12 * self.sizes * np.linalg.norm(M)
        return np.inf if (missed & self.hard).any() else self.objective(M)

    def distance(self, M):
        """``D(M, diag(l))``."""
        if self.name == "frobenius":
            return np.linalg.norm(M - np.diag(self.l)) ** 2 / 2
        if (
            self.name == "logdet"
        ):  # beside the prior, whose own eigenvalues may be small, the eigenvalues keep their digits
            x = np.maximum(np.linalg.eigvalsh(M / np.sqrt(np.outer(self.l, self.l))), 1e-300)
            return np.sum(x - 1.0 - np.log(x))
        x = np.maximum(np.linalg.eigvalsh(M), 1e-300)
        return np.sum(x * np.log(x) - x) - np.sum(np.diag(M) * np.log(self.l)) + np.sum(self.l)

    def dual_bound(self, mu):
        """The least value of the Lagrangian, which no feasible point is below; -inf if the weights have a wrong sign."""
        if (self.sense * mu < 0)[~self.two_sided].any():
            return -np.inf
        S = np.einsum("c,cij->ij", mu, self.A)
        if self.name == "logdet":
            x = np.linalg.eigvalsh(np.eye(len(S)) + np.sqrt(self.l)[:, None] * S * np.sqrt(self.l))
            total = np.sum(np.log(x)) if x[0] > 0 else -np.inf
        elif self.name == "vonneumann":
            total = np.sum(self.l) - np.sum(np.exp(np.linalg.eigvalsh(np.diag(np.log(self.l)) - S)))
        else:
            x = np.maximum(np.linalg.eigvalsh(np.diag(self.l) - S), 0.0)
            total = (np.sum(self.l**2) - np.sum(x**2)) / 2
        total -= float(mu[self.hard] @ self.b[self.hard])
        for i in np.flatnonzero(~self.hard & (mu != 0)):
            g, s, cost, at_slope = self.slack(i)
            c = self.b[i] / s
            p = at_slope(mu[i] * s / g, c)
            total -= mu[i] * s * p - g * cost(p, c) if np.isfinite(p) else np.inf
        return float(total)

    def is_contradiction(self, y):
        """Whether ``A*(y)`` is positive semidefinite where W may be, while every feasible W has ``tr(A*(y) W) <= y'b < 0``."""
        S = np.einsum("c,cij->ij", y, self.A)
        size = float(np.abs(y) @ self.sizes)
        room = 1e-8 * float(np.abs(y) @ np.abs(self.b))
        return bool((self.sense * y >= 0).all() and np.linalg.eigvalsh(S)[0] >= -1e-8 * size and y @ self.b <= room)


def what_is_wrong(arguments, result):
    """What a result of ``nearest_kernel`` or ``nearest_metric`` claims and the papers' formulas do not give; None if nothing."""
    problem = MatrixProblem(arguments)
    if not problem.is_judged or not np.isfinite(result.objective) and result.status != "INFEASIBLE":
        return None
    if result.status == "INFEASIBLE":
        return (
            None if problem.is_contradiction(result.dual) else "INFEASIBLE, but the dual weights prove no contradiction"
        )
    factor = result.B if problem.is_metric else result.factor
    M, outside = problem.of(factor)
    size = float(np.linalg.norm(M)) + float(problem.l.max())
    if outside > 1e-6:
        return f"{result.status}, but the matrix is {outside:.2g} of itself outside of the range"
    Y = problem.points @ factor.astype(np.longdouble)  # what rounding leaves outside of the range counts for rows
    p = np.array([((C @ Y) * Y).sum() for C in problem.C]).astype(float)
    missed = problem.excess(p)[problem.hard] - (1e-8 * np.abs(problem.b) + 1e-12 * problem.sizes * size)[problem.hard]
    if result.status in ("OPTIMAL", "FEASIBLE") and missed.max(initial=0.0) > 0:
        return f"{result.status}, but a hard row is missed by {missed.max():.2g}"
    room = 1e-6 * max(abs(result.objective), result.unit, np.sum(problem.l if problem.name == "vonneumann" else 1e-8))
    room += problem.rounding @ np.abs(M - np.diag(problem.l)) @ problem.rounding
    if abs(problem.objective(M) - result.objective) > room + problem.objective_rounding(M, size):
        return f"the objective is {result.objective:.9g}, by the formulas {problem.objective(M):.9g}"
    bound = problem.dual_bound(result.dual)
    if result.dual_bound > bound + room + 1e-13 * size * float(np.abs(result.dual) @ problem.sizes):
        return f"the bound is {result.dual_bound:.9g}, the dual weights prove {bound:.9g}"
    return None
