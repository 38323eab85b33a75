"""The relaxation of a balanced cut in factor form, for large graphs: a Riemannian Newton method."""

from __future__ import annotations

import numpy as np

from bregmat._kernels import cut
from bregmat.applications.cut.graph import Graph
from bregmat.applications.cut.proof import is_above
from bregmat.applications.cut.rounding import smallest
from bregmat.base.linalg import conjugate_gradients
from bregmat.base.tolerances import TINY

LARGE = 3000  # vertices above which a proof takes long, so that few are computed
FIRST_BOUND = 0.03  # residual below which the first proof is tried
FIRST_LOOK = 0.5  # the same above LARGE vertices, where a Ritz value comes before a proof
DEAD = 0.1  # length of a column of R, relative to the longest one, below which it may be removed
FEW = 12  # columns from the second polynomial on; solutions of grids had rank 3
DEGREES = 8, 32, 128  # of the polynomials of L that smooth the start of a large graph, one after the other
SMALLEST = 1e-10  # residual at which the relaxation is solved to rounding
FORCING = 0.1  # relative residual of the linear systems
SUFFICIENT = 0.05  # least decrease of a step, over the decrease that its slope predicts
SHORTER, SHORTEST = 0.4, 0.01  # factor of the step length from one trial to the next, and the least length
PATIENCE = 80  # limit on steps; 20 are many


class LowRank:
    """``minimize tr(R'LR) / 2`` over R (n x k) with unit rows and ``a'R = 0``, where ``X = RR'`` (Burer and Monteiro).

    For k above ``sqrt(2 n)`` and nearly all L every local minimum is global (Boumal, Voroninski, Bandeira 2016). The rank here is
    smaller; the multipliers prove their bound for every rank. A step is a Newton step by conjugate gradients, which stop at negative
    curvature or at the edge of a trust region. A product with L costs k times the number of edges.

    Attributes
    ----------
    y : ndarray, shape (n,)
        Least-squares multipliers of the unit rows.
    value : float
        ``tr(LX)``: an upper bound of the optimum of the relaxation, in scaled units.
    stalled : bool
    coarse : float
        Multiple of the tolerance to which the relaxation is solved, because proofs for large graphs take long.
    is_new : bool
        Whether the gradient has decreased enough since this was last true, so that a bound and cuts should be computed.
    """

    name, proves_every_step = "low rank", False

    def __init__(self, graph: Graph, rng: np.random.Generator) -> None:
        rank = 30  # number of columns at the start; solutions of large sparse graphs had ranks of 3 to 14
        self.graph = graph
        n = graph.size
        self.coarse = 1.0 if n <= LARGE else 100.0
        self.R = self._start(rng.normal(size=(n, min(int(np.ceil(np.sqrt(2.0 * n))) + 1, n, rank))))
        self.radius = np.sqrt(n) / 4.0
        self.rng, self.stalled, self.is_new = rng, False, False
        self._due, self.n_steps = (FIRST_BOUND if n <= LARGE else FIRST_LOOK), 0
        self._derivatives()

    def _derivatives(self) -> None:
        """Compute the value, the gradient and the multipliers at R."""
        self.LR = self.graph.laplacian_times(self.R)
        # the value of a point that is not balanced is no upper bound; near rank one, balance is only attained approximately
        is_balanced = np.abs(self.graph.a @ self.R).max() <= 1e-5 * len(self.R)
        self.value = float(np.vdot(self.R, self.LR)) if is_balanced else np.inf
        self.inner = self._inner(self.R, self.graph.a, 1e-10)
        self.gradient, a = self._tangent(self.R, 0.0)
        self.y = -a

    def _tangent(self, D: np.ndarray, y: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
        """Projection ``U - diag(t) R - a b'`` of ``U = (L + diag y) D`` onto the tangent space, and t (n,)."""
        U, along, A = np.empty_like(D), np.empty(len(D)), self.graph.A
        cut.curved_inplace(U, along, D, self.R, self.graph.degree + y, A.indptr, A.indices, A.data)
        a = self.graph.a
        b = (a @ U - (a * along) @ self.R) @ self.inner
        along -= a * (self.R @ b)
        U -= along[:, None] * self.R
        U -= np.outer(a, b)
        return U, along

    def _inner(self, R: np.ndarray, a: np.ndarray, rcond: float) -> np.ndarray:
        """The inverse of ``a'a I - R' diag(a^2) R``, the matrix of the equations for the multipliers of ``a'R = 0``."""
        aR = a[:, None] * R
        return np.linalg.pinv(float(a @ a) * np.eye(R.shape[1]) - aR.T @ aR, rcond=rcond, hermitian=True)

    def _retract(self, R: np.ndarray, a: np.ndarray) -> np.ndarray:
        """Scale the rows to length 1 with ``a'R = 0``, by Newton's method."""
        for _ in range(10):
            R = R / np.linalg.norm(R, axis=1, keepdims=True)
            s = a @ R
            if np.abs(s).max() <= 1e-13 * len(R):
                break
            b = self._inner(R, a, 1e-8) @ s
            # R - a b' without its part along R, which would shorten the row of a terminal
            R = R * (1.0 + a * (R @ b))[:, None] - np.outer(a, b)
        return R / np.linalg.norm(R, axis=1, keepdims=True)

    def _start(self, R: np.ndarray) -> np.ndarray:
        """Unit rows, smooth for large graphs; if there is a terminal, they are turned towards it as far as the balance requires."""
        balance, a = self.graph.balance, self.graph.a
        m = len(balance.weights)
        if len(R) > LARGE:
            smooth = self._smoothed(R[:m], a[:m])
            R = np.concatenate([smooth, R[m:, : smooth.shape[1]]])
        if balance.n_terminal:
            share = -a[m] / np.abs(np.delete(a, m)).sum()
            R = R * (np.sqrt(1.0 - share**2) / np.linalg.norm(R, axis=1, keepdims=True))
            R = np.column_stack([R, np.full(len(R), share)])
            R[m] = np.eye(R.shape[1])[-1]
        return self._retract(R, a)

    def _smoothed(self, R: np.ndarray, a: np.ndarray) -> np.ndarray:
        """Rows of the free vertices that hardly change along edges, which saves half of the Newton steps on grids.

        Chebyshev polynomials of L on the complement of a keep the directions of small eigenvalues. The degree grows as long as the value
        falls by half.
        """
        m = len(a)
        A, diagonal, value = self.graph.A[:m, :m], self.graph.size_of_row[:m], np.inf
        top = 2.0 * float(diagonal.max(initial=0.0))
        R = self._retract(R, a)
        for degree in DEGREES if top > 0 else ():
            low = top * min(0.5, (2.5 / degree) ** 2)  # directions of larger eigenvalues shrink to a few hundredths
            shifted, along = diagonal - 0.5 * (top + low), np.empty(m)
            start = R
            if value < np.inf and R.shape[1] > FEW:  # the last polynomial helped, so few eigenvalues matter
                start = R @ np.linalg.eigh(R.T @ R)[1][:, -FEW:]
            last, now = np.zeros_like(start), start
            for k in range(degree):  # T_k+1 = 2 x T_k - T_k-1 with x = (top + low - 2 L) / (top - low)
                new = np.empty_like(start)
                cut.curved_inplace(new, along, now, start, shifted, A.indptr, A.indices, A.data)
                new *= (-4.0 if k else -2.0) / (top - low)
                new -= last
                new -= np.outer(a, a @ new / (a @ a))
                last, now = (now if k else start), new
            now = self._retract(self._without_short_columns(now), a)
            new_value = float(np.vdot(now, (diagonal * now.T).T - A @ now))
            if not new_value < 0.5 * value:
                break
            R, value = now, new_value
        return R

    @staticmethod
    def _without_short_columns(R: np.ndarray, n_long: int = 0) -> np.ndarray:
        """R rotated to its right singular vectors, without short columns if these are the majority.

        ``n_long`` is the number of columns that are long whatever the others are: that of the terminal.
        """
        sizes, V = np.linalg.eigh(R.T @ R)
        kept = 2 * int((sizes > DEAD**2 * sizes[-1 - min(n_long, len(sizes) - 1)]).sum()) + 2
        return R @ V[:, -kept:] if 2 * kept <= len(sizes) else R

    @property
    def residual(self) -> float:
        """The norm of the gradient over that of LR."""
        return float(np.linalg.norm(self.gradient)) / max(float(np.linalg.norm(self.LR)), TINY)

    def step(self) -> None:
        """One step, after short columns have been removed if they are the majority."""
        narrow = self._without_short_columns(self.R, self.graph.balance.n_terminal)
        if narrow is not self.R:
            self.R = self._retract(narrow, self.graph.a)
            self._derivatives()
        self._trust()
        self.n_steps += 1
        self.stalled = self.stalled or self.residual < SMALLEST or self.n_steps >= PATIENCE
        self.is_new = self.stalled or self.residual < self._due
        if self.is_new:
            self._due = (0.1 if len(self.R) <= LARGE else 0.4) * self.residual

    def _trust(self) -> None:
        """One step of the trust-region method."""
        move, model, edge = self._newton()
        if not model < 0:
            self.stalled = True
            return
        before = (self.R, self.LR, self.value, self.inner, self.gradient, self.y)
        noise = 1e-14 * abs(before[2]) if before[2] < np.inf else 0.0
        slope, share = float(np.vdot(self.gradient, move)), 1.0
        while True:  # a shorter step in the same direction costs two products, another direction up to a hundred
            self.R = self._retract(before[0] + share * move, self.graph.a)
            self._derivatives()
            fall = 0.5 * (self.value - before[2]) if before[2] < np.inf else -np.inf
            if fall - noise <= SUFFICIENT * share * slope or share < SHORTEST:
                break
            share *= SHORTER
        ratio = (fall - noise) / (share * slope + share**2 * (model - slope) - noise)
        if ratio < 0.25:
            self.radius *= 0.25
        elif ratio > 0.75 and edge and share == 1.0:
            self.radius = min(2.0 * self.radius, np.sqrt(len(self.R)))
        if not ratio >= SUFFICIENT:
            self.R, self.LR, self.value, self.inner, self.gradient, self.y = before
            self.stalled = self.radius < 1e-10

    def _newton(self) -> tuple[np.ndarray, float, bool]:
        """Steihaug's conjugate gradients: the step, the change of the quadratic model, and whether the step ends on the edge."""
        cg_steps = 100  # limit on conjugate gradient steps for one step of the method
        g = self.gradient
        square = self.radius**2

        # d'd, d'm and m'm by recurrence, because inner products cost as much as products with L
        dd, dm, size, last, alpha = 0.0, 0.0, 0.0, np.inf, 0.0

        def blocked(steps: int, move: np.ndarray, d: np.ndarray, curvature: float, rr: float) -> bool:
            """Whether the curvature is negative or the step leaves the trust region."""
            nonlocal dd, dm, size, last, alpha
            size += alpha * (2.0 * dm + alpha * dd)
            beta = rr / last
            dd, dm, last, alpha = rr + beta * beta * dd, beta * (dm + alpha * dd), rr, rr / curvature
            return curvature <= 1e-14 * dd or size + 2.0 * alpha * dm + alpha**2 * dd >= square

        end = conjugate_gradients(
            lambda d: self._tangent(d, self.y)[0],
            -g,
            goal=float(np.linalg.norm(g)) * FORCING,
            max_iter=cg_steps,
            blocked=blocked,
        )
        move, d = end.x, end.direction
        model = 0.5 * float(np.vdot(move, g - end.residual))  # m'g + m'Hm / 2, with H m = -g - residual
        if d is None:
            return move, model, False
        dd, dm, size = float(np.vdot(d, d)), float(np.vdot(d, move)), float(np.vdot(move, move))
        t = (-dm + np.sqrt(dm**2 + dd * (square - size))) / dd
        return move + t * d, model - t * end.rho + 0.5 * t * t * end.curvature, True

    def level(self, loss: float, is_last: bool) -> float:
        """A proven lower bound of the smallest eigenvalue: a Ritz value minus ``loss / n`` or a multiple of it; -inf if all fail."""
        n, total, graph = len(self.y), float(self.y.sum()), self.graph

        def spare(ritz: float) -> float:
            """The bound minus the last possible weight of a cut below the value, in scaled units of ``4 cut``; -inf if there is none."""
            if graph.step == 0 or not self.value < np.inf:
                return -np.inf
            last = graph.round_up(graph.total(self.value)) - graph.step
            return n * min(ritz, 0.0) - total - 4.0 * (last - graph.base) / graph.scale

        def is_hopeless(ritz: float) -> bool:
            """Whether the bound of a Ritz value is too low for a factorisation; smaller eigenvalues give lower bounds."""
            if n <= LARGE or is_last:
                return False
            return self.value - n * min(ritz, 0.0) + total > 2.0 * self.coarse * loss and spare(ritz) < 50.0 * loss

        lam = smallest(graph, self.y, self.rng, is_hopeless)
        if is_hopeless(lam):
            return -np.inf
        lost = [loss * times for times in ((1.0, 10.0, 100.0, 1e3, 1e4) if n <= LARGE else (30.0, 1e3, 1e4))]
        if n > LARGE and spare(lam) > 0:
            # as much as the possible weights allow, because the Ritz value may be too large
            lost[0] = max(0.5 * spare(lam), 5.0 * loss)
        for less in lost:
            proven = is_above(graph, self.y, min(lam, 0.0) - less / n)
            if proven > -np.inf:
                return proven
        return -np.inf

    def sample(self) -> np.ndarray:
        """The projections of the rows on a random direction."""
        return self.R @ self.rng.normal(size=self.R.shape[1])
