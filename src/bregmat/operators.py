"""Linear maps of a constraint set: ``p_i = <A_i, Z X Z'>`` and its adjoint ``Z' (sum w_i A_i) Z`` (made by :mod:`bregmat.binding`).

One file for every form, because the forms differ in nothing but cost:

=================  =============================================================  ===========================
:class:`Rows`      one vector per row, ``p_i = v_i' X v_i``                         c r^2 a product, c r memory
:class:`Pairs`     vectors ``z_a + s z_b`` named by pairs, never built              c r + n r^2, n r memory
:class:`Matrices`  a symmetric r x r matrix per row                                 c r^2
:class:`Mixed`     sparse signed sums of the terms of another operator              as that operator
:class:`Stack`     several of them, each for some of the rows
=================  =============================================================  ===========================
"""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

import numpy as np
import scipy  # scipy.sparse loads on first use, which keeps `import bregmat` quick

from bregmat._kernels import pairs as kernels
from bregmat._kernels.rows import OuterRows


class Operator(Protocol):
    """A linear map of symmetric r x r matrices to c values, with its adjoint."""

    c: int
    r: int

    def values(self, X: np.ndarray) -> np.ndarray: ...
    def adjoint(self, w: np.ndarray) -> np.ndarray: ...
    def values_diagonal(self, x: np.ndarray | None) -> np.ndarray: ...
    def congruence(self, F: np.ndarray) -> Operator: ...
    def restrict(self, rows: np.ndarray) -> Operator: ...
    def astype(self, dtype: type) -> Operator: ...
    def features(self, S: np.ndarray | None) -> np.ndarray: ...
    def sizes(self, prior: np.ndarray) -> np.ndarray: ...
    def norms(self) -> np.ndarray: ...
    def outer(self) -> OuterRows: ...


@lru_cache(maxsize=16)
def _svec_index(r: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Upper triangle and the weights (1 or sqrt 2) that make svec an isometry."""
    k, l = np.triu_indices(r)
    return k, l, np.where(k == l, 1.0, np.sqrt(2.0))


def svec(X: np.ndarray) -> np.ndarray:
    """Upper triangle of symmetric matrices (..., r, r) as vectors; an isometry."""
    k, l, weight = _svec_index(X.shape[-1])
    return X[..., k, l] * weight


def smat(x: np.ndarray, r: int) -> np.ndarray:
    """Inverse of :func:`svec` for one vector."""
    k, l, weight = _svec_index(r)
    X = np.empty((r, r))
    X[k, l] = X[l, k] = x / weight
    return X


class Rows:
    """One vector per row: ``p_i = v_i' X v_i``."""

    def __init__(self, V: np.ndarray) -> None:
        self.V = V
        self.c, self.r = V.shape

    def values(self, X: np.ndarray) -> np.ndarray:
        """``v_i' X v_i`` for every row."""
        return np.einsum("ij,ij->i", self.V @ X, self.V)

    def adjoint(self, w: np.ndarray) -> np.ndarray:
        """``sum_i w_i v_i v_i'``."""
        return (self.V.T * w) @ self.V

    def values_diagonal(self, x: np.ndarray | None) -> np.ndarray:
        """``values(diag(x))``; None stands for the identity."""
        return np.einsum("ij,ij->i", self.V, self.V) if x is None else (self.V * self.V) @ x

    def congruence(self, F: np.ndarray) -> Rows:
        """The operator of ``X -> F X F'``."""
        return Rows(self.V @ F)

    def restrict(self, rows: np.ndarray) -> Rows:
        """Some of the rows."""
        return Rows(self.V[rows])

    def astype(self, dtype: type) -> Rows:
        """The same in another precision."""
        return Rows(self.V.astype(dtype))

    def features(self, S: np.ndarray | None) -> np.ndarray:
        """Rows ``svec(S o A_i)``, shape (c, r (r + 1) / 2)."""
        k, l, weight = _svec_index(self.r)
        weight = weight if S is None else weight * S[k, l]
        columns = np.ascontiguousarray(self.V.T)  # gathering whole rows of it is quicker than picking columns
        found = columns[k]
        found *= columns[l]
        found *= weight[:, None]
        return found.T

    def vectors(self, rows: np.ndarray) -> np.ndarray:
        """The vectors of some rows, of any shape: (..., r)."""
        return self.V[rows]

    def sizes(self, prior: np.ndarray) -> np.ndarray:
        """``tr(|A_i| diag(prior))``: the natural size of a row whose bound is 0."""
        return self.values_diagonal(prior)

    def norms(self) -> np.ndarray:
        """Frobenius norms of the A_i, or upper bounds of them."""
        return self.values_diagonal(None)

    def outer(self) -> OuterRows:
        """One term a row."""
        return _plain_terms(self.V, np.arange(self.c), np.arange(self.c), np.zeros(self.c, np.int8))


class Pairs:
    """Vectors ``z_a + sign z_b`` of rows of Z, never built."""

    def __init__(
        self, Z: np.ndarray, a: np.ndarray, b: np.ndarray, sign: np.ndarray, graph: tuple | None = None
    ) -> None:
        self.Z, self.a, self.b, self.sign = np.ascontiguousarray(Z), a, b, sign
        self.c, self.r = len(a), Z.shape[1]
        self._graph = graph

    @property
    def graph(self) -> tuple:
        """Adjacency of the pairs, built when first needed and shared by congruent operators."""
        if self._graph is None:
            self._graph = kernels.adjacency(self.a, self.b, self.sign, len(self.Z))
        return self._graph

    def values(self, X: np.ndarray) -> np.ndarray:
        """``(z_a + s z_b)' X (z_a + s z_b)`` by one product with X and a gather."""
        out = np.empty(self.c, self.Z.dtype)
        kernels.bilinear_inplace(out, self.Z, self.Z @ X, self.a, self.b, self.sign)
        return out

    def adjoint(self, w: np.ndarray) -> np.ndarray:
        """``Z' L(w) Z`` with L the weighted graph matrix of the pairs."""
        Y = np.empty_like(self.Z)
        ptr, edge, other = self.graph
        kernels.laplacian_product_inplace(Y, ptr, edge, other, self.sign, w, self.Z)
        return self.Z.T @ Y

    def values_diagonal(self, x: np.ndarray | None) -> np.ndarray:
        """``values(diag(x))``; None stands for the identity."""
        out = np.empty(self.c)
        Z = self.Z if x is None else self.Z * np.sqrt(x)
        kernels.sq_norms_inplace(out, Z, self.a, self.b, self.sign)
        return out

    def congruence(self, F: np.ndarray) -> Pairs:
        """The operator of ``X -> F X F'``."""
        return Pairs(self.Z @ F, self.a, self.b, self.sign, self._graph)

    def restrict(self, rows: np.ndarray) -> Pairs | Rows:
        """Some of the rows; their vectors themselves once there are fewer of them than points."""
        a, b, sign = self.a[rows], self.b[rows], self.sign[rows]
        if len(a) <= len(self.Z):
            return Rows(self.Z[a] + self.Z[b] * sign[:, None])
        return Pairs(self.Z, a, b, sign)

    def astype(self, dtype: type) -> Pairs:
        """The same in another precision."""
        return Pairs(self.Z.astype(dtype), self.a, self.b, self.sign, self._graph)

    def features(self, S: np.ndarray | None) -> np.ndarray:
        """Rows ``svec(S o A_i)``; forms c x r (r + 1) / 2 entries."""
        return Rows(self.vectors(np.arange(self.c))).features(S)

    def vectors(self, rows: np.ndarray) -> np.ndarray:
        """The vectors of some rows, of any shape: (..., r)."""
        return self.Z[self.a[rows]] + self.Z[self.b[rows]] * self.sign[rows][..., None]

    def sizes(self, prior: np.ndarray) -> np.ndarray:
        """``tr(|A_i| diag(prior))``."""
        return self.values_diagonal(prior)

    def norms(self) -> np.ndarray:
        """Frobenius norms of the A_i."""
        return self.values_diagonal(None)

    def outer(self) -> OuterRows:
        """One term a row, its vector still named by the pair."""
        return _plain_terms(self.Z, self.a, self.b, self.sign)


class Matrices:
    """A symmetric r x r matrix per row."""

    def __init__(self, A: np.ndarray) -> None:
        self.A = A
        self.c, self.r = A.shape[0], A.shape[1]

    def values(self, X: np.ndarray) -> np.ndarray:
        """``tr(A_i X)``."""
        return self.A.reshape(self.c, self.r**2) @ X.ravel()

    def adjoint(self, w: np.ndarray) -> np.ndarray:
        """``sum_i w_i A_i``."""
        return (w @ self.A.reshape(self.c, self.r**2)).reshape(self.r, self.r)

    def values_diagonal(self, x: np.ndarray | None) -> np.ndarray:
        """``values(diag(x))``; None stands for the identity."""
        d = np.einsum("ikk->ik", self.A)
        return d.sum(axis=1) if x is None else d @ x

    def congruence(self, F: np.ndarray) -> Matrices:
        """The operator of ``X -> F X F'``."""
        return Matrices(F.T @ self.A @ F)

    def restrict(self, rows: np.ndarray) -> Matrices:
        """Some of the rows."""
        return Matrices(self.A[rows])

    def astype(self, dtype: type) -> Matrices:
        """The same in another precision."""
        return Matrices(self.A.astype(dtype))

    def features(self, S: np.ndarray | None) -> np.ndarray:
        """Rows ``svec(S o A_i)``."""
        return svec(self.A if S is None else self.A * S)

    def sizes(self, prior: np.ndarray) -> np.ndarray:
        """``tr(|A_i| diag(prior))``."""
        values, U = np.linalg.eigh(self.A)
        return np.einsum("ik,ijk,j->i", np.abs(values), U * U, prior)

    def norms(self) -> np.ndarray:
        """Frobenius norms of the A_i."""
        return np.linalg.norm(self.A, axis=(1, 2))

    def outer(self) -> OuterRows:
        """Eigenvectors of each matrix; a multiple of the identity is kept as one."""
        coef, vectors, counts, shift = [], [], np.zeros(self.c, np.int64), np.zeros(self.c)
        for i, A in enumerate(self.A):
            values, U = np.linalg.eigh(A)
            size = np.abs(values).max(initial=0.0)
            if values[-1] - values[0] <= 1e-14 * size:
                shift[i] = values[-1]
                continue
            keep = np.abs(values) > 1e-15 * size * self.r
            coef.append(values[keep])
            vectors.append(U[:, keep].T)
            counts[i] = keep.sum()
        Z = np.ascontiguousarray(np.concatenate(vectors)) if vectors else np.zeros((1, self.r))
        rows = _plain_terms(Z, np.arange(len(Z)), np.arange(len(Z)), np.zeros(len(Z), np.int8))
        ptr = np.concatenate([[0], np.cumsum(counts)])
        return rows._replace(ptr=ptr, coef=np.concatenate([*coef, np.zeros(0)]), shift=shift)


class Mixed:
    """Signed sums of the terms of another operator: ``p = P base(X)`` with P sparse (c x terms)."""

    def __init__(self, base: Rows | Pairs, P: scipy.sparse.csr_array) -> None:
        self.base, self.P = base, P
        self.c, self.r = P.shape[0], base.r

    def values(self, X: np.ndarray) -> np.ndarray:
        """Signed sums of the values of the terms."""
        return self.P @ self.base.values(X)

    def adjoint(self, w: np.ndarray) -> np.ndarray:
        """Adjoint of the terms at the summed weights."""
        return self.base.adjoint(self.P.T @ w)

    def values_diagonal(self, x: np.ndarray | None) -> np.ndarray:
        """``values(diag(x))``; None stands for the identity."""
        return self.P @ self.base.values_diagonal(x)

    def congruence(self, F: np.ndarray) -> Mixed:
        """The operator of ``X -> F X F'``."""
        return Mixed(self.base.congruence(F), self.P)

    def restrict(self, rows: np.ndarray) -> Mixed:
        """Some of the rows, with only the terms that they use."""
        P = self.P[rows]
        used = np.unique(P.indices)
        return Mixed(self.base.restrict(used), P[:, used])

    def astype(self, dtype: type) -> Mixed:
        """The same in another precision."""
        return Mixed(self.base.astype(dtype), self.P.astype(dtype))

    def features(self, S: np.ndarray | None) -> np.ndarray:
        """Rows ``svec(S o A_i)``."""
        return self.P @ self.base.features(S)

    def sizes(self, prior: np.ndarray) -> np.ndarray:
        """``tr(|A_i| diag(prior))`` from the few vectors of each row: a QR and an eigenproblem of their number."""
        out = np.zeros(self.c)
        count = np.diff(self.P.indptr)
        for k in np.unique(count[count > 0]):
            rows = np.flatnonzero(count == k)
            for part in np.array_split(rows, 1 + len(rows) * k * self.r // 2**22):
                place = self.P.indptr[part][:, None] + np.arange(k)
                terms, slot = np.unique(self.P.indices[place], return_inverse=True)
                V = self.base.vectors(terms)[slot.reshape(place.shape)]  # (rows, k, r)
                Q, T = np.linalg.qr(V.transpose(0, 2, 1))
                values, U = np.linalg.eigh((T * self.P.data[place][:, None, :]) @ T.transpose(0, 2, 1))
                W = Q @ U
                out[part] = np.einsum("ik,ijk,j->i", np.abs(values), W * W, prior)
        return out

    def norms(self) -> np.ndarray:
        """Upper bounds of the Frobenius norms, by the triangle inequality over the terms."""
        return abs(self.P) @ self.base.norms()

    def outer(self) -> OuterRows:
        """The terms of each row; more of them than r are replaced by eigenvectors."""
        wide = np.flatnonzero(np.diff(self.P.indptr) > self.r)
        if len(wide):
            dense = [self.restrict(np.array([row])).adjoint(np.ones(1)) for row in wide]
            rest = np.setdiff1d(np.arange(self.c), wide)
            parts: list[tuple[np.ndarray, Operator]] = [(wide, Matrices(np.stack(dense)))]
            return Stack(parts + ([(rest, self.restrict(rest))] if len(rest) else [])).outer()
        base = self.base.outer()  # one term each
        t = self.P.indices
        return base._replace(
            ptr=self.P.indptr.astype(np.int64),
            coef=self.P.data * base.coef[t],
            a=base.a[t],
            b=base.b[t],
            sign=base.sign[t],
            shift=np.zeros(self.c),
        )


class Stack:
    """Several operators, each for some of the rows."""

    def __init__(self, parts: list[tuple[np.ndarray, Operator]]) -> None:
        self.parts = parts
        self.c = sum(len(rows) for rows, _ in parts)
        self.r = parts[0][1].r

    def _gather(self, blocks: list[np.ndarray]) -> np.ndarray:
        out = np.empty((self.c, *blocks[0].shape[1:]), blocks[0].dtype)
        for (rows, _), block in zip(self.parts, blocks, strict=True):
            out[rows] = block
        return out

    def values(self, X: np.ndarray) -> np.ndarray:
        """Values of all rows in order."""
        return self._gather([op.values(X) for _, op in self.parts])

    def adjoint(self, w: np.ndarray) -> np.ndarray:
        """Sum of the parts' adjoints."""
        return np.sum([op.adjoint(w[rows]) for rows, op in self.parts], axis=0)

    def values_diagonal(self, x: np.ndarray | None) -> np.ndarray:
        """``values(diag(x))``; None stands for the identity."""
        return self._gather([op.values_diagonal(x) for _, op in self.parts])

    def congruence(self, F: np.ndarray) -> Stack:
        """The operator of ``X -> F X F'``."""
        return Stack([(rows, op.congruence(F)) for rows, op in self.parts])

    def restrict(self, rows: np.ndarray) -> Stack:
        """Some of the rows (a boolean mask or ascending positions)."""
        chosen = np.arange(self.c)[rows]
        place = np.full(self.c, -1)
        place[chosen] = np.arange(len(chosen))
        parts = []
        for mine, op in self.parts:
            keep = np.flatnonzero(place[mine] >= 0)
            if len(keep):
                parts.append((place[mine[keep]], op.restrict(keep)))
        return Stack(parts or [(chosen, self.parts[0][1].restrict(chosen))])

    def astype(self, dtype: type) -> Stack:
        """The same in another precision."""
        return Stack([(rows, op.astype(dtype)) for rows, op in self.parts])

    def features(self, S: np.ndarray | None) -> np.ndarray:
        """Rows ``svec(S o A_i)``."""
        return self._gather([op.features(S) for _, op in self.parts])

    def sizes(self, prior: np.ndarray) -> np.ndarray:
        """``tr(|A_i| diag(prior))``."""
        return self._gather([op.sizes(prior) for _, op in self.parts])

    def norms(self) -> np.ndarray:
        """Frobenius norms of the A_i, or upper bounds of them."""
        return self._gather([op.norms() for _, op in self.parts])

    def outer(self) -> OuterRows:
        """The terms of the parts, in the order of the rows."""
        found = [op.outer() for _, op in self.parts]
        starts = np.cumsum([0, *(len(f.Z) for f in found)])
        counts = self._gather([np.diff(f.ptr) for f in found])
        ptr = np.concatenate([[0], np.cumsum(counts)])
        place = [  # where the terms of each part go
            np.repeat(ptr[:-1][rows] - f.ptr[:-1], np.diff(f.ptr)) + np.arange(len(f.coef))
            for (rows, _), f in zip(self.parts, found, strict=True)
        ]
        order = np.argsort(np.concatenate(place), kind="stable")

        def joined(columns: list[np.ndarray]) -> np.ndarray:
            return np.concatenate(columns)[order]

        return OuterRows(
            ptr,
            joined([f.coef for f in found]),
            np.concatenate([f.Z for f in found]),
            joined(
                [(f.a[: len(f.coef)] + start).astype(np.int32) for f, start in zip(found, starts[:-1], strict=True)]
            ),
            joined(
                [(f.b[: len(f.coef)] + start).astype(np.int32) for f, start in zip(found, starts[:-1], strict=True)]
            ),
            joined([f.sign[: len(f.coef)] for f in found]),
            self._gather([f.shift for f in found]),
        )


def _plain_terms(Z: np.ndarray, a: np.ndarray, b: np.ndarray, sign: np.ndarray) -> OuterRows:
    """One term with coefficient 1 for each row."""
    c = len(a)
    index = np.arange(c + 1, dtype=np.int64)
    Z = np.ascontiguousarray(Z, dtype=float)
    return OuterRows(index, np.ones(c), Z, a.astype(np.int32), b.astype(np.int32), sign.astype(np.int8), np.zeros(c))
