"""Rows of a nearest-matrix problem, written from the formulas of their relations: values, weighted sums, and their rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy

from bregmat.base.tolerances import CANCELLED, EPS, VANISHING
from bregmat.constraints.columns import LowRankMatrix
from bregmat.constraints.constraints import Constraints
from bregmat.constraints.relations import SAMPLES
from bregmat.verification.extended import eigenpairs, numbers, unit_of
from bregmat.verification.verifier import ROUNDINGS

# (sign, coefficient) of the squares ``|z_a + sign z_b|^2`` of an entry of a form
_SQUARES = {"": ((0, 1.0),), "-": ((-1, 1.0),), "+": ((1, 1.0),), ".": ((1, 0.25), (-1, -0.25))}


class WrittenRows:
    """Terms ``coef v_t' M v_t`` of the rows that name samples, and the matrices of the other rows, in a basis P.

    Parameters
    ----------
    constraints : Constraints
    P : ndarray, shape (N, r)
    points : ndarray or scipy.sparse, shape (n, N), or None
        None where the rows of P are the points.
    floor : ndarray, shape (r,), or None
        Rounding errors of the entries of points that are eigenvectors of a kernel: a point with smaller entries counts as 0. None
        for points that are data.
    factors : tuple of ndarray (n, d) and ndarray (d, r) or None, optional
        Points that are data, and the map from these to the basis; None is the identity.
    """

    def __init__(
        self, constraints: Constraints, P: np.ndarray, points: Any, floor: np.ndarray | None, factors: Any = None
    ) -> None:
        self.constraints, self.real = constraints, P.dtype.type
        self.raw: np.ndarray
        self.V: np.ndarray  # vectors of the terms, in the columns of the data, and in the basis
        self.rounding = EPS if factors is None else unit_of(self.real)  # relative, of the vectors of the terms
        n = P.shape[0] if points is None else points.shape[0]
        rows = constraints.touched(n)
        rows = np.arange(n) if rows is None else rows
        if points is None:
            Z = P[rows]
        elif scipy.sparse.issparse(points):
            Z = np.asarray(points[rows] @ P.astype(float)).astype(self.real)
        else:
            Z = points[rows].astype(self.real) @ P
        lengths = np.sqrt((Z * Z).sum(axis=1))
        self.reach = np.ones(len(Z))  # how far errors of P move a point
        if points is not None:
            squares = points[rows].multiply(points[rows]) if scipy.sparse.issparse(points) else points[rows] ** 2
            self.reach = np.sqrt(np.asarray(squares.sum(axis=1), dtype=float).ravel())
        dead, entries, error = np.zeros(len(Z), dtype=bool), np.zeros_like(Z), np.zeros_like(Z)  # errors of the entries
        if floor is not None and len(Z):
            entries = np.minimum(np.abs(Z).max(axis=0), lengths[:, None])
            error = np.maximum(VANISHING * entries, floor)
            dead = (lengths <= VANISHING * lengths.max()) | (np.abs(Z) <= 2 * error).all(axis=1)
        Z[dead] = 0
        self.dead, self.touched, self.Z = dead, rows, Z.astype(float)
        place = np.full(n, -1)
        place[rows] = np.arange(len(rows))
        self._write_terms(place)
        # Differences of data are formed before they are mapped.
        self.data = Z if factors is None else factors[0][rows].astype(self.real)  # of the touched points
        self.raw = self.T @ self.data
        self.V = self.raw if factors is None or factors[1] is None else self.raw @ factors[1]
        # A vector that is only rounding of its terms is 0.
        self.error, size = abs(self.T) @ error, abs(self.T) @ lengths
        own = np.sqrt((self.V * self.V).sum(axis=1))
        top = 0.0 if floor is None else lengths.max(initial=0.0)
        self.vanished = own == 0 if factors is not None else own <= VANISHING * np.maximum(size, top)
        self.vanished |= (np.abs(self.V) <= self.error).all(axis=1)
        self.rounded = size if factors is None else own  # lengths that `rounding` is relative to
        self.V = np.where(self.vanished[:, None], 0, self.V)
        # rows with the bound 0 whose terms cancel up to rounding
        self.zero = np.zeros(constraints.n_constraints, dtype=bool)
        whole = np.flatnonzero(constraints.where("is_whole"))
        turned = np.zeros(Z.shape[1]) if floor is None else floor
        self.matrices = {int(row): _whole(constraints.matrix(row), Z, entries, turned) for row in whole}

    def _write_terms(self, place: np.ndarray) -> None:
        """Write every row that names samples as terms ``coef |t' Z|^2``, with a sparse row t of T for each ``z_a + sign z_b``.

        ``place`` is the position of each point among the touched points.
        """
        none = np.zeros(0, dtype=int)
        parts: list[tuple[np.ndarray, ...]] = [(none, np.zeros(0), none, none, np.zeros(0))]
        for code, relation in enumerate(self.constraints.relations):
            on = np.flatnonzero(self.constraints.relation == code)
            for key, coef in relation.form.items() if len(on) and relation.form else ():
                a, b = (place[self.constraints.index[on, SAMPLES.index(name)]] for name in (key[0], key[-1]))
                for sign, part in _SQUARES[key[1:2]]:
                    parts.append((on, np.full(len(on), coef * part), a, b, np.full(len(on), float(sign))))
        joined: list[np.ndarray] = [np.concatenate(column) for column in zip(*parts)]
        self.owner, coefs, first, second, signs = joined
        self.coef, k = coefs.astype(self.real), np.arange(len(coefs))
        ends = (np.r_[np.ones(len(k)), signs], (np.r_[k, k], np.r_[first, second]))
        self.T = scipy.sparse.csr_array(ends, shape=(len(k), len(self.Z)))

    def _cancels(self, row: int) -> bool:
        """Whether the terms of a row cancel up to the rounding of their vectors: ``v e' + e v' + e e'`` in every entry."""
        on = np.flatnonzero(self.owner == row)
        w, V, e = np.abs(self.coef[on])[:, None], np.abs(self.V[on]), self.error[on]
        cross = (w * e).T @ V
        noise = VANISHING * ((w * V).T @ V) + cross + cross.T + (w * e).T @ e
        return bool((np.abs((self.coef[on][:, None] * self.V[on]).T @ self.V[on]) <= noise).all())

    def values(self, G: np.ndarray, B: np.ndarray | None = None, eps: float = EPS) -> tuple[np.ndarray, np.ndarray]:
        """Value of each row, and its error if the entries of G and B are wrong by ``eps``, relative to the terms that they are sums of.

        G (n, k) is a factor of the learned kernel at the touched points. If the points are data, B (d, k) is a factor of the learned
        matrix: it multiplies the differences of points, which are exact.
        """
        c = self.constraints.n_constraints
        p, noise = np.zeros(c, dtype=self.real), np.zeros(c)
        whole = self.T @ G if B is None else self.raw @ B
        Y = self.T @ np.where(self.dead[:, None], 0, G) if B is None else whole.copy()
        Y[self.vanished] = 0.0
        lengths = np.sqrt((Y * Y).sum(axis=1))
        size = np.sqrt((G * G if B is None else (np.abs(self.data) @ np.abs(B)) ** 2).sum(axis=1))
        if B is None:
            blur = eps * (abs(self.T) @ size)
        else:  # rounding of the vectors and of the entries of B
            blur = self.rounding * self.rounded + eps * np.sqrt(((np.abs(self.raw) @ np.abs(B)) ** 2).sum(axis=1))
        blur = blur + np.sqrt(((whole - Y) ** 2).sum(axis=1))  # what counts as 0 is rounding
        np.add.at(p, self.owner, self.coef * lengths**2)
        np.add.at(noise, self.owner, (np.abs(self.coef) * blur * (2.0 * lengths + blur)).astype(float))
        for row, (A, _) in self.matrices.items():
            p[row], noise[row] = _value(self.constraints.matrix(row), G, eps * size.astype(float))
            if not A.any():  # it counts as 0, and 0 <= 0 holds
                p[row], noise[row] = 0.0, (noise[row] + abs(float(p[row]))) * (self.constraints.bound[row] != 0)
        p[self.zero], noise[self.zero] = 0.0, 0.0
        return p, noise

    def is_uncertain(self, p: np.ndarray, own: np.ndarray, unit: np.ndarray) -> np.ndarray:
        """Whether the errors ``own`` of the recomputed values p of a matrix that the result holds are too large to tell if rows are met."""
        room = np.where(self.constraints.sense == 0, 0.0, -self.constraints.sense * (p - self.constraints.bound))
        return np.asarray((own > CANCELLED * unit) & ~(room > ROUNDINGS * own))

    def rounding_of_matrices(self, size: float) -> np.ndarray:
        """One rounding of ``<Z' C Z, M>`` for each row that is a matrix, shape (c,), where M has the norm ``size``; 0 for other rows.

        The solvers form ``Z' C Z`` once. A matrix M that is large where this is small has lost the digits of the value.
        """
        lost, lengths = np.zeros(self.constraints.n_constraints), np.sqrt((self.Z * self.Z).sum(axis=1))
        for row in self.matrices:
            C = self.constraints.matrix(row)
            if C is None:
                lost[row] = EPS * float(lengths @ lengths) * size
            elif not isinstance(C, LowRankMatrix):
                lost[row] = EPS * float(lengths @ np.abs(_dense(C)) @ lengths) * size
        return lost

    def adjoint(self, y: np.ndarray, *, absolute: bool = False) -> np.ndarray:
        """``sum_i y_i A_i``; with ``absolute``, of absolute values of weights and terms."""
        of = np.abs if absolute else (lambda x: x)
        y = np.where(self.zero, 0.0, y)
        w = of(y.astype(self.real)[self.owner] * self.coef)
        on = np.flatnonzero(w)
        A = (self.V[on] * w[on, None]).T @ self.V[on]
        for row, (C, _) in self.matrices.items():
            if y[row]:
                A = A + of(self.real(y[row])) * (_absolute(C) if absolute else C)
        return (A + A.T) / 2

    def blur(self, y: np.ndarray, M: np.ndarray) -> float:
        """Error of ``<sum_i y_i A_i, M>`` due to rounding of the points."""
        y = np.where(self.zero, 0.0, y)
        w = np.abs(y[self.owner] * self.coef.astype(float))
        turned, size = self.rounding * self.rounded.astype(float), np.abs(M)
        # M itself, not |M|: vectors with large weights are often in the null space of M
        pulled = np.linalg.norm(self.V.astype(float) @ M, axis=1) if len(w) else w
        vague = float((w * turned * (2.0 * pulled + turned * float(size.max(initial=0.0)))).sum())
        for row, (_, N) in self.matrices.items():
            C = self.constraints.matrix(row)
            if y[row] and isinstance(C, LowRankMatrix):
                moved = self.rounding * np.abs(C.vectors.T) @ np.linalg.norm(self.Z, axis=1)
                pulled = np.linalg.norm((C.vectors.T @ self.Z) @ M, axis=1)
                error = moved * (2.0 * pulled + moved * float(size.max(initial=0.0)))
                vague += abs(float(y[row])) * float(np.abs(C.weights) @ error)
            elif y[row]:
                vague += EPS * abs(float(y[row])) * float((N * size).sum())
        return vague

    def weight_of_turning(self, y: np.ndarray) -> float:
        """``sum |y_i| |C_i|`` for rows ``<C_i, Z M Z'>``: the factor of squared errors of the columns of P."""
        w = np.abs(np.where(self.zero, 0.0, y)[self.owner] * self.coef.astype(float))
        total, largest = float(w @ (abs(self.T) @ self.reach) ** 2), float(self.reach.max(initial=0.0)) ** 2
        for row in self.matrices:
            C = self.constraints.matrix(row)
            total += abs(float(y[row])) * (1.0 if C is None else float(np.linalg.norm(_dense(C)))) * largest
        return total

    def objective_change_from_rotation(self, y: np.ndarray, M: np.ndarray, turned: np.ndarray) -> float:
        """First-order change of ``<sum_i y_i A_i, M>`` due to errors ``turned`` (r,) of the columns of P.

        ``2 <C Z M, dZ>`` with the sum C of the weighted rows as a matrix over the touched points Z, in which weights may cancel.
        """
        y = np.where(self.zero, 0.0, y)
        C = self.T.T @ ((y[self.owner] * self.coef.astype(float))[:, None] * (self.V.astype(float) @ M))
        for row in np.flatnonzero(y * self.constraints.where("is_whole")):
            matrix = self.constraints.matrix(row)
            part = self.Z if matrix is None else _dense(matrix)[np.ix_(self.touched, self.touched)] @ self.Z
            C += y[row] * (part @ M)
        return 2.0 * float(self.reach @ np.abs(C) @ turned)

    def rounded_entries(self, y: np.ndarray) -> np.ndarray:
        """A bound, shape (r, r), of the change of ``sum_i y_i A_i`` per relative error of the entries of the rows' matrices.

        ``|E_ij| <= |C_ij|`` implies ``-D <= E <= D`` with D the diagonal matrix of the row sums of ``|C|``.
        """
        sums = np.zeros(len(self.Z))
        for row in self.matrices:
            C = self.constraints.matrix(row)
            if y[row] and isinstance(C, LowRankMatrix):
                V = np.abs(C.vectors)
                sums += abs(float(y[row])) * (V @ (np.abs(C.weights) * V.sum(axis=0)))
            elif y[row] and C is not None:
                sums += abs(float(y[row])) * np.abs(_dense(C)).sum(axis=1)
        return (self.Z.T * sums) @ self.Z

    def units(self, l: np.ndarray, scale: float) -> np.ndarray:
        """Unit of each row: ``|b|``, or if b is 0, ``tr(|A_i| diag(l))`` with the eigenvalues l of the prior.

        If that trace is rounding, the unit is ``tr |A_i|`` times the largest eigenvalue, or times ``scale`` if l is 0. Rows whose terms
        cancel, such as comparisons of a pair with itself, become 0 and have the unit 1.
        """
        out, l = np.abs(self.constraints.bound), l.astype(float)
        largest = float(l.max(initial=0.0)) or scale
        for row in np.flatnonzero(out == 0):
            y = np.zeros(len(out))
            y[row] = out[row] = 1.0
            if row not in self.matrices and self._cancels(int(row)):
                self.zero[row] = True
                continue
            t, U = np.linalg.eigh(self.adjoint(y).astype(float))
            size, whole = float(np.abs(t) @ ((U * U).T @ l)), float(np.abs(t).sum()) * largest
            out[row] = (size if size > VANISHING * whole else whole) or 1.0
        return out


def _dense(C: Any) -> np.ndarray:
    """A row's matrix as an array."""
    if isinstance(C, LowRankMatrix):
        return (C.vectors * C.weights) @ C.vectors.T
    return numbers(C)


def _whole(C: Any, Z: np.ndarray, entries: np.ndarray, turned: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``Z' C Z``, or 0 if it is rounding, and the same with absolute values; None stands for the identity.

    Points that are eigenvectors of a kernel have entries of the sizes ``entries`` (n, r) and the further errors ``turned`` (r,).
    """
    if C is None:
        return Z.T @ Z, np.abs(Z).T @ np.abs(Z)
    if isinstance(C, LowRankMatrix):
        V = np.abs(C.vectors.T)
        Y, N = C.vectors.T.astype(Z.dtype) @ Z, V @ np.abs(Z)
        error = VANISHING * (V @ entries) + np.multiply.outer(np.sqrt((V * V).sum(axis=1)), turned)
        is_short = np.sqrt((Y * Y).sum(axis=1)) <= VANISHING * np.sqrt((N * N).sum(axis=1))
        Y[is_short | (np.abs(Y) <= error).all(axis=1)] = 0.0
        B, size = (Y.T * C.weights) @ Y, np.abs(C.weights) @ (Y * Y).sum(axis=1)
        return (B if np.abs(B).max(initial=0) > VANISHING * size else np.zeros_like(B)), (N.T * np.abs(C.weights)) @ N
    A = _dense(C).astype(Z.dtype)
    B, S = Z.T @ A @ Z, np.abs(A)
    lengths, moved = np.sqrt((Z * Z).sum(axis=1)), S.sum(axis=1)
    cross = np.multiply.outer(turned, moved @ entries)
    error = VANISHING * (entries.T @ S @ entries) + cross + cross.T + np.multiply.outer(turned, turned) * moved.sum()
    is_zero = np.abs(B).max(initial=0) <= VANISHING * (lengths @ S @ lengths) or (np.abs(B) <= error).all()
    return (np.zeros_like(B) if is_zero else B), np.abs(Z).T @ S @ np.abs(Z)


def _value(C: Any, G: np.ndarray, blur: np.ndarray) -> tuple[Any, float]:
    """``<C, G G'>``, and its error if the rows of G are wrong by ``blur`` (n,)."""
    lengths = np.sqrt((G * G).sum(axis=1)).astype(float)
    if C is None:
        return (G * G).sum(), float(blur @ (2.0 * lengths + blur))
    if isinstance(C, LowRankMatrix):
        V, w = C.vectors, C.weights
        Y = V.T.astype(G.dtype) @ G
        lengths, blur = np.sqrt((Y * Y).sum(axis=1)).astype(float), np.abs(V).T @ blur
        return (w * (Y * Y).sum(axis=1)).sum(), float(np.abs(w) @ (blur * (2.0 * lengths + blur)))
    A = _dense(C).astype(G.dtype)
    sizes = np.abs(A).astype(float)
    return ((A @ G) * G).sum(), float(blur @ (sizes @ (2.0 * lengths + blur)))


def _absolute(A: np.ndarray) -> np.ndarray:
    """``|A|``, the positive semidefinite absolute value."""
    t, U = eigenpairs(A)
    return (U * np.abs(t)) @ U.T
