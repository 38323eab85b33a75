"""The relaxation of a balanced cut in factor form, for graphs too large for an inverse: a Riemannian Newton method."""

from __future__ import annotations

import numpy as np

from bregmat._kernels import cut
from bregmat.applications.cut.graph import Graph
from bregmat.applications.cut.proof import is_above
from bregmat.applications.cut.rounding import smallest
from bregmat.base.numerics import conjugate_gradients

FIRST_RANK = 30  # solutions of large sparse graphs had ranks of 3 to 14
LARGE = 3000  # vertices above which a factorisation is kept for the end
CG_STEPS = 100
FIRST_BOUND, FIRST_LOOK = 0.03, 0.5  # residuals below which the multipliers are worth a factorisation, and a Ritz value
DEAD = 0.1  # length of a column of R, relative to the longest, up to which it may be left out
SMALLEST = 1e-10
FEW = 12  # columns from the second polynomial on: solutions of grids had rank 3
SMOOTHING = 8, 32, 128  # degrees of polynomials of L, one after the other
FORCING = 0.1  # of the gradient, to which conjugate gradients solve for a step
SUFFICIENT = 0.05  # fall of a move, over what its slope promises
SHORTER, SHORTEST = 0.4, 0.01  # parts of a move: from one to the next, and the last
PATIENCE = 80  # steps at one rank; 20 are many


class LowRank:
    """``minimize tr(R'LR) / 2`` over R (n x k) with rows of length one and ``e'R = 0``: ``X = RR'`` (Burer-Monteiro).

    A rank above ``sqrt(2 n)`` has no local minima that are not global for nearly all L (Boumal, Voroninski, Bandeira 2016); the
    rank starts lower and doubles up to there if the method stops short of the bound. The multipliers prove what they prove
    whatever the rank. A step is one of Newton's, by conjugate gradients that stop at
    negative curvature or the edge of a trust region; a product with L costs k times the number of edges.

    Attributes
    ----------
    y : ndarray, shape (n,)
        Multipliers: the least-squares ones of the rows of unit length.
    value : float
        ``tr(LX)``: an upper bound of the relaxation's value, in scaled units.
    stalled : bool
    coarse : float
        Multiple of the tolerance to which the relaxation is solved: proofs are dear where the graph is large.
    is_new : bool
        Whether the gradient has fallen enough since this was last true: time for a bound and for rounding.
    """

    proves_every_step = False

    def __init__(self, graph: Graph, rng: np.random.Generator, rank: int = FIRST_RANK) -> None:
        self.graph = graph
        n = graph.size
        self.coarse = 1.0 if n <= LARGE else 100.0
        self.most = min(int(np.ceil(np.sqrt(2.0 * n))) + 1, n)
        self.R = self._retract(rng.normal(size=(n, min(self.most, rank))))
        if n > LARGE:
            self.R = self._smoothed(self.R)
        self.radius = np.sqrt(n) / 4.0
        self.rng, self.stalled, self.is_new = rng, False, False
        self.fewest = 1  # columns; where the method has stalled with fewer, these stay
        self._due, self.n_steps = (FIRST_BOUND if n <= LARGE else FIRST_LOOK), 0
        self._derivatives()

    def _derivatives(self) -> None:
        self.LR = self.graph.laplacian_times(self.R)
        # a point far from balance has no say: its value would not bound the relaxation. Near rank one the last digits of
        # balance cannot be had, and only the stopping rule depends on them
        is_balanced = np.abs(self.R.sum(axis=0)).max() <= 1e-5 * len(self.R)
        self.value = float(np.vdot(self.R, self.LR)) if is_balanced else np.inf
        n, k = self.R.shape
        gram = n * np.eye(k) - self.R.T @ self.R
        self.inner = np.linalg.pinv(gram, rcond=1e-10, hermitian=True)
        self.gradient, a = self._tangent(self.R, 0.0)
        self.y = -a

    def _tangent(self, D: np.ndarray, y: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
        """Projection ``U - a R - e b'`` of ``U = (L + diag y) D`` onto the tangent space, and a (n,)."""
        U, along, A = np.empty_like(D), np.empty(len(D)), self.graph.A
        cut.curved_inplace(U, along, D, self.R, self.graph.degree + y, A.indptr, A.indices, A.data)
        b = (U.sum(axis=0) - along @ self.R) @ self.inner
        along -= self.R @ b
        U -= along[:, None] * self.R
        U -= b
        return U, along

    @staticmethod
    def _retract(R: np.ndarray) -> np.ndarray:
        """Rows to length one and the sum of all rows to zero, by Newton's method on the two."""
        n, k = R.shape
        for _ in range(10):
            R = R / np.linalg.norm(R, axis=1, keepdims=True)
            s = R.sum(axis=0)
            if np.abs(s).max() <= 1e-13 * n:
                break
            b = np.linalg.pinv(n * np.eye(k) - R.T @ R, rcond=1e-8, hermitian=True) @ s
            R = R - b
        return R / np.linalg.norm(R, axis=1, keepdims=True)

    def _smoothed(self, R: np.ndarray) -> np.ndarray:
        """A start that hardly changes along edges, from where Newton's steps are few on grids, too: Chebyshev polynomials of L, of
        a higher degree as long as the value falls by half."""
        A, top, value = self.graph.A, 2.0 * float(self.graph.degree.max(initial=0.0)), np.inf
        for degree in SMOOTHING if top > 0 else ():
            low = top * min(0.5, (2.5 / degree) ** 2)  # eigenvalues from there on fall to a few hundredths
            shifted, along = self.graph.degree - 0.5 * (top + low), np.empty(len(R))
            if value < np.inf and R.shape[1] > FEW:  # where that helps, few eigenvalues matter
                start = R @ np.linalg.eigh(R.T @ R)[1][:, -FEW:]
            else:
                start = R
            last, now = np.zeros_like(start), start
            for k in range(degree):  # T_k+1 = 2 x T_k - T_k-1 with x = (top + low - 2 L) / (top - low)
                new = np.empty_like(start)
                cut.curved_inplace(new, along, now, start, shifted, A.indptr, A.indices, A.data)
                new *= (-4.0 if k else -2.0) / (top - low)
                new -= last
                last, now = (now if k else start), new
            now = self._retract(self._turned(now))
            new_value = float(np.vdot(now, self.graph.laplacian_times(now)))
            if not new_value < 0.5 * value:
                break
            R, value = now, new_value
        return R

    @staticmethod
    def _turned(R: np.ndarray) -> np.ndarray:
        """R turned by its right singular vectors, without the columns that have all but died once they are most; else as it is."""
        sizes, V = np.linalg.eigh(R.T @ R)
        alive = int((sizes > DEAD**2 * sizes[-1]).sum())
        return R if 2 * (2 * alive + 2) > len(sizes) else R @ V[:, -(2 * alive + 2) :]

    @property
    def residual(self) -> float:
        """Norm of the gradient over that of LR."""
        return float(np.linalg.norm(self.gradient)) / max(float(np.linalg.norm(self.LR)), 1e-300)

    def step(self) -> None:
        """One step of the trust region, in as many columns as it needs."""
        self._narrow()
        self._trust()
        self.n_steps += 1
        self.stalled = self.stalled or self.residual < SMALLEST or self.n_steps >= PATIENCE
        self.is_new = self.stalled or self.residual < self._due
        if self.is_new:
            self._due = (0.1 if len(self.R) <= LARGE else 0.4) * self.residual

    def _trust(self) -> None:
        move, model, edge = self._newton()
        if not model < 0:
            self.stalled = True
            return
        before = (self.R, self.LR, self.value, self.inner, self.gradient, self.y)
        noise = 1e-14 * abs(before[2]) if before[2] < np.inf else 0.0
        slope, share = float(np.vdot(self.gradient, move)), 1.0
        while True:  # a part of a move that is too long costs two products, another move up to a hundred
            self.R = self._retract(before[0] + share * move)
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
        """Steihaug's conjugate gradients: step, model change, whether it ends on the edge."""
        g = self.gradient
        square = self.radius**2

        # d'd, d'm, m'm by recurrence: passes over R cost as much as L
        dd, dm, size, last, alpha = (
            0.0,
            0.0,
            0.0,
            np.inf,
            0.0,
        )

        def blocked(steps: int, move: np.ndarray, d: np.ndarray, curvature: float, rr: float) -> bool:
            nonlocal dd, dm, size, last, alpha
            size += alpha * (2.0 * dm + alpha * dd)
            beta = rr / last
            dd, dm, last, alpha = rr + beta * beta * dd, beta * (dm + alpha * dd), rr, rr / curvature
            return curvature <= 1e-14 * dd or size + 2.0 * alpha * dm + alpha**2 * dd >= square

        end = conjugate_gradients(
            lambda d: self._tangent(d, self.y)[0],
            -g,
            goal=float(np.linalg.norm(g)) * FORCING,
            most=CG_STEPS,
            blocked=blocked,
        )
        move, d = end.x, end.direction
        model = 0.5 * float(np.vdot(move, g - end.residual))  # m'g + m'Hm / 2, with H m = -g - residual
        if d is None:
            return move, model, False
        dd, dm, size = float(np.vdot(d, d)), float(np.vdot(d, move)), float(np.vdot(move, move))
        t = (-dm + np.sqrt(dm**2 + dd * (square - size))) / dd
        return move + t * d, model - t * end.rho + 0.5 * t * t * end.curvature, True

    def _narrow(self) -> None:
        """Turn R by its right singular vectors, and leave out the columns that have all but died, once they are most."""
        turned = self._turned(self.R)
        if turned is self.R or len(self.R.T) <= self.fewest:
            return
        self.R = self._retract(turned)
        self._derivatives()

    def widen(self) -> bool:
        """Double the rank, to leave a saddle point; False if it is as large as it need be."""
        n, k = self.R.shape
        more = min(2 * k, self.most) - k
        if more <= 0:
            return False
        self.fewest = k + more
        self.R = self._retract(np.hstack([self.R, 1e-2 * self.rng.normal(size=(n, more)) / np.sqrt(more)]))
        self.radius, self.stalled, self._due, self.n_steps = np.sqrt(n) / 4.0, False, FIRST_BOUND, 0
        self._derivatives()
        return True

    def level(self, loss: float, is_last: bool) -> float:
        """A proven lower bound of the smallest eigenvalue: an estimate less ``loss`` over n, or more if need be; or -inf."""
        n, total = len(self.y), float(self.y.sum())

        def spare(ritz: float) -> float:
            """By how much the bound is above the weight below the one to which the value is rounded up."""
            return self._above_a_weight(n * min(ritz, 0.0) - total)

        def is_hopeless(ritz: float) -> bool:
            """Whether the bound is not worth a factorisation; with a smaller eigenvalue it is even less."""
            if n <= LARGE or is_last:
                return False
            return self.value - n * min(ritz, 0.0) + total > 2.0 * self.coarse * loss and spare(ritz) < 50.0 * loss

        lam = smallest(self.graph, self.y, self.rng, is_hopeless)
        if is_hopeless(lam):
            return -np.inf
        lost = [loss * times for times in ((1.0, 10.0, 100.0, 1e3, 1e4) if n <= LARGE else (30.0, 1e3, 1e4))]
        if n > LARGE and spare(lam) > 0:  # no sharper than the weight asks for: the Ritz value may be above
            lost[0] = max(0.5 * spare(lam), 5.0 * loss)
        for less in lost:
            proven = is_above(self.graph, self.y, min(lam, 0.0) - less / n)
            if proven > -np.inf:
                return proven
        return -np.inf

    def _above_a_weight(self, bound: float) -> float:
        """How far a bound is above the last weight below the value; -inf if there is none. In scaled units of ``4 cut``."""
        graph = self.graph
        if graph.step == 0 or not self.value < np.inf:
            return -np.inf
        return bound - 4.0 * (graph.round_up(0.25 * graph.scale * self.value) - graph.step) / graph.scale

    def sample(self, rng: np.random.Generator) -> np.ndarray:
        """Projections of the rows on a random direction."""
        return self.R @ rng.normal(size=self.R.shape[1])
