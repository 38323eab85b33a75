"""Operators whose rows are not outer products: a matrix per row, signed sums of other rows, and several operators side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy  # scipy.sparse loads on first use, which keeps `import bregmat` quick

from bregmat._kernels.arrays import OuterRows
from bregmat.base.tolerances import RANK_TOL
from bregmat.operators.linear_maps import Operator, PairGraph, RankOneRows, one_term_a_row, svec, weighted_by

FEW_MATRICES = 50  # rows that are taken as matrices in a Gram matrix


class MatrixRows(Operator):
    """A symmetric r x r matrix per row."""

    def __init__(self, A: np.ndarray) -> None:
        self.A = A
        self.c, self.r = A.shape[0], A.shape[1]

    def values(self, X: np.ndarray) -> np.ndarray:
        """``tr(A_i X)``."""
        return self.A.reshape(self.c, self.r**2) @ X.ravel()

    def adjoint(self, w: np.ndarray) -> np.ndarray:
        return (w @ self.A.reshape(self.c, self.r**2)).reshape(self.r, self.r)

    def values_diagonal(self, x: np.ndarray | None) -> np.ndarray:
        d = np.einsum("ikk->ik", self.A)
        return d.sum(axis=1) if x is None else d @ x

    def congruence(self, F: np.ndarray) -> MatrixRows:
        return MatrixRows(F.T @ self.A @ F)

    def restrict(self, rows: np.ndarray) -> MatrixRows:
        return MatrixRows(self.A[rows])

    def astype(self, dtype: type) -> MatrixRows:
        return MatrixRows(self.A.astype(dtype))

    def features(self, S: np.ndarray | None) -> np.ndarray:
        return svec(weighted_by(S, self.A))

    def sizes(self, prior: np.ndarray) -> np.ndarray:
        values, U = np.linalg.eigh(self.A)
        return np.einsum("ik,ijk,j->i", np.abs(values), U * U, prior)

    def norms(self) -> np.ndarray:
        return np.linalg.norm(self.A, axis=(1, 2))

    def absolute(self) -> MatrixRows:
        """Multiples of the identity: ``|<A, M>| <= |A| tr M``."""
        return MatrixRows(self.norms()[:, None, None] * np.eye(self.r))

    def squared_norms(self, Psi: np.ndarray | None) -> np.ndarray:
        return weighted_by(Psi, self.A * self.A).sum(axis=(1, 2))

    def extents(self, w: np.ndarray) -> np.ndarray:
        S = np.einsum("i,ikl->kl", w, np.abs(self.A))
        s = np.full(self.r, S.max(initial=0.0))
        for _ in range(20):  # equilibrates S (Ruiz 2001): each round halves the remaining imbalance, in logarithms
            root = np.sqrt(s)
            s = root * (S / np.where(root > 0, root, 1.0)).max(axis=1, initial=0.0)
        root = np.where(s > 0, np.sqrt(s), 1.0)
        return s * (S / root / root[:, None]).max(initial=1.0)

    def outer(self) -> OuterRows:
        """Eigenvectors of each matrix; a multiple of the identity is stored as a shift."""
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
        rows = one_term_a_row(Z, np.arange(len(Z)), np.arange(len(Z)), np.zeros(len(Z), np.int8))
        ptr = np.concatenate([[0], np.cumsum(counts)])
        return rows._replace(ptr=ptr, coef=np.concatenate([*coef, np.zeros(0)]), shift=shift)


class SignedSums(Operator):
    """Signed sums of the terms of another operator: ``p = P base(X)`` with P sparse (c x terms)."""

    def __init__(self, base: RankOneRows | PairGraph, P: scipy.sparse.csr_array) -> None:
        self.base, self.P = base, P
        self.c, self.r = P.shape[0], base.r

    @property
    def n_vectors(self) -> int:
        return self.base.n_vectors

    def values(self, X: np.ndarray) -> np.ndarray:
        """Signed sums of the values of the terms."""
        return self.P @ self.base.values(X)

    def adjoint(self, w: np.ndarray) -> np.ndarray:
        """Adjoint of the terms at the summed weights."""
        return self.base.adjoint(self.P.T @ w)

    def values_diagonal(self, x: np.ndarray | None) -> np.ndarray:
        return self.P @ self.base.values_diagonal(x)

    def congruence(self, F: np.ndarray) -> SignedSums:
        return SignedSums(self.base.congruence(F), self.P)

    def restrict(self, rows: np.ndarray) -> SignedSums:
        """Some of the rows, with only the terms that they use."""
        P = self.P[rows]
        used = np.flatnonzero(np.bincount(P.indices, minlength=P.shape[1]))
        return SignedSums(self.base.restrict(used), P[:, used])

    def absolute(self) -> SignedSums:
        """The sums of the terms with absolute coefficients."""
        return SignedSums(self.base, abs(self.P))

    def astype(self, dtype: type) -> SignedSums:
        return SignedSums(self.base.astype(dtype), self.P.astype(dtype))

    def features(self, S: np.ndarray | None) -> np.ndarray:
        return self.P @ self.base.features(S)

    def blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Blocks of rows with the same number k of terms: their numbers (m,), and the positions of their terms in P (m, k)."""
        count = np.diff(self.P.indptr)
        for k in np.unique(count[count > 0]):
            rows = np.flatnonzero(count == k)
            for part in np.array_split(rows, 1 + len(rows) * k * self.r // 2**22):
                yield part, self.P.indptr[part][:, None] + np.arange(k)

    def sizes(self, prior: np.ndarray) -> np.ndarray:
        """``tr(|A_i| diag(prior))`` from a QR decomposition of the k vectors of each row and an eigenproblem of order k."""
        out = np.zeros(self.c)
        for part, place in self.blocks():
            terms, slot = np.unique(self.P.indices[place], return_inverse=True)
            V = self.base.vectors(terms)[slot.reshape(place.shape)]  # (rows, k, r)
            Q, T = np.linalg.qr(V.transpose(0, 2, 1))
            values, U = np.linalg.eigh((T * self.P.data[place][:, None, :]) @ T.transpose(0, 2, 1))
            W = Q @ U
            out[part] = np.einsum("ik,ijk,j->i", np.abs(values), W * W, prior)
        return out

    def norms(self) -> np.ndarray:
        """Upper bounds of the Frobenius norms, by the triangle inequality."""
        return abs(self.P) @ self.base.values_diagonal(None)  # |v v'| = |v|^2

    def exact_norms(self) -> np.ndarray:
        """From the inner products of the k vectors of each row; rows whose terms nearly cancel, from their matrices."""
        out, lost = np.zeros(self.c), np.zeros(self.c, dtype=bool)
        for part, place in self.blocks():
            V, coef = self.base.vectors(self.P.indices[place]), self.P.data[place]
            G = V @ V.transpose(0, 2, 1)
            # |A|^2 = sum_st coef_s coef_t (v_s . v_t)^2, wrong by about 1e-16 natural^2
            square = np.einsum("is,ist,it->i", coef, G * G, coef)
            natural = np.einsum("is,iss->i", np.abs(coef), G)
            out[part], lost[part] = np.sqrt(np.maximum(square, 0.0)), square <= RANK_TOL * natural**2
        rows = np.flatnonzero(lost & (self.norms() > 0))
        if len(rows):
            out[rows] = Operator.exact_norms(self.restrict(rows))
        return out

    def squared_norms(self, Psi: np.ndarray | None) -> np.ndarray:
        """Upper bounds of ``<A_i, Psi o A_i>``, by the triangle inequality ``|sum_t P_it A_t| <= sum_t |P_it| |A_t|``."""
        return (abs(self.P) @ np.sqrt(self.base.squared_norms(Psi))) ** 2

    def extents(self, w: np.ndarray) -> np.ndarray:
        return self.base.extents(abs(self.P).T @ w)

    def gram(self, S: np.ndarray | None = None) -> np.ndarray:
        return self.P @ (self.P @ self.base.gram()).T if S is None else super().gram(S)

    def outer(self) -> OuterRows:
        """The terms of each row; if there are more than r, the eigenvectors of its matrix."""
        wide = np.flatnonzero(np.diff(self.P.indptr) > self.r)
        if len(wide):
            dense = [self.restrict(np.array([row])).adjoint(np.ones(1)) for row in wide]
            rest = np.setdiff1d(np.arange(self.c), wide)
            parts: list[tuple[np.ndarray, Operator]] = [(wide, MatrixRows(np.stack(dense)))]
            return Stacked(parts + ([(rest, self.restrict(rest))] if len(rest) else [])).outer()
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


class Stacked(Operator):
    """Several operators, each with some of the rows."""

    def __init__(self, parts: list[tuple[np.ndarray, Operator]]) -> None:
        self.parts = parts
        self.c = sum(len(rows) for rows, _ in parts)
        self.r = parts[0][1].r

    def _gather(self, blocks: list[np.ndarray]) -> np.ndarray:
        out = np.empty((self.c, *blocks[0].shape[1:]), blocks[0].dtype)
        for (rows, _), block in zip(self.parts, blocks, strict=True):
            out[rows] = block
        return out

    def _each(self, method: str, *arguments: Any) -> np.ndarray:
        return self._gather([getattr(op, method)(*arguments) for _, op in self.parts])

    @property
    def n_vectors(self) -> int:
        return sum(op.n_vectors for _, op in self.parts)

    def values(self, X: np.ndarray) -> np.ndarray:
        return self._each("values", X)

    def adjoint(self, w: np.ndarray) -> np.ndarray:
        """Sum of the parts' adjoints."""
        return np.sum([op.adjoint(w[rows]) for rows, op in self.parts], axis=0)

    def values_diagonal(self, x: np.ndarray | None) -> np.ndarray:
        return self._each("values_diagonal", x)

    def congruence(self, F: np.ndarray) -> Stacked:
        return Stacked([(rows, op.congruence(F)) for rows, op in self.parts])

    def restrict(self, rows: np.ndarray) -> Stacked:
        """Some of the rows (a boolean mask or ascending positions)."""
        chosen = np.arange(self.c)[rows]
        place = np.full(self.c, -1)
        place[chosen] = np.arange(len(chosen))
        parts = []
        for mine, op in self.parts:
            keep = np.flatnonzero(place[mine] >= 0)
            if len(keep):
                parts.append((place[mine[keep]], op.restrict(keep)))
        return Stacked(parts or [(chosen, self.parts[0][1].restrict(chosen))])

    def absolute(self) -> Stacked:
        return Stacked([(rows, op.absolute()) for rows, op in self.parts])

    def astype(self, dtype: type) -> Stacked:
        return Stacked([(rows, op.astype(dtype)) for rows, op in self.parts])

    def features(self, S: np.ndarray | None) -> np.ndarray:
        return self._each("features", S)

    def sizes(self, prior: np.ndarray) -> np.ndarray:
        return self._each("sizes", prior)

    def norms(self) -> np.ndarray:
        return self._each("norms")

    def exact_norms(self) -> np.ndarray:
        return self._each("exact_norms")

    def squared_norms(self, Psi: np.ndarray | None) -> np.ndarray:
        return self._each("squared_norms", Psi)

    def extents(self, w: np.ndarray) -> np.ndarray:
        return np.sum([op.extents(w[rows]) for rows, op in self.parts], axis=0)

    def gram(self, S: np.ndarray | None = None) -> np.ndarray:
        """Block by block: few rows beside many are taken as matrices, whose values at the others are their inner products."""
        if S is not None:
            return super().gram(S)
        G = np.empty((self.c, self.c))
        for k, (rows, op) in enumerate(self.parts):
            G[np.ix_(rows, rows)] = op.gram()
            for others, other in self.parts[:k]:
                (few, small), (many, large) = sorted(((rows, op), (others, other)), key=lambda part: len(part[0]))
                if len(few) > FEW_MATRICES:
                    block = small.features(None) @ large.features(None).T
                else:
                    each = (small.restrict(np.array([row])).adjoint(np.ones(1)) for row in range(len(few)))
                    block = np.array([large.values(A) for A in each])
                G[np.ix_(few, many)], G[np.ix_(many, few)] = block, block.T
        return G

    def outer(self) -> OuterRows:
        """The terms of the parts, in the order of the rows."""
        outers = [op.outer() for _, op in self.parts]
        starts = np.cumsum([0, *(len(f.Z) for f in outers)])
        counts = self._gather([np.diff(f.ptr) for f in outers])
        ptr = np.concatenate([[0], np.cumsum(counts)])
        place = [  # positions of the terms of each part
            np.repeat(ptr[:-1][rows] - f.ptr[:-1], np.diff(f.ptr)) + np.arange(len(f.coef))
            for (rows, _), f in zip(self.parts, outers, strict=True)
        ]
        order = np.argsort(np.concatenate(place), kind="stable")

        def joined(columns: list[np.ndarray]) -> np.ndarray:
            return np.concatenate(columns)[order]

        def moved(name: str) -> np.ndarray:
            ends = zip(outers, starts[:-1], strict=True)
            return joined([(getattr(f, name)[: len(f.coef)] + start).astype(np.int32) for f, start in ends])

        return OuterRows(
            ptr,
            joined([f.coef for f in outers]),
            np.concatenate([f.Z for f in outers]),
            moved("a"),
            moved("b"),
            joined([f.sign[: len(f.coef)] for f in outers]),
            self._gather([f.shift for f in outers]),
        )


def with_leaves(op: Any, made: Callable[[Any], Any]) -> Any:
    """The operator with every elementary operator in it replaced by what ``made`` gives for it, with the same values."""
    if isinstance(op, SignedSums):
        return SignedSums(with_leaves(op.base, made), op.P)
    if isinstance(op, Stacked):
        return Stacked([(rows, with_leaves(part, made)) for rows, part in op.parts])
    return made(op)
