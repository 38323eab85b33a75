"""What the best fixed matrix would have lost on a stream, from as little memory as that takes.

A stream of pairs with the squared loss is told by the number and the mean of the labels of each pair: one d x d array.
Anything else needs the examples themselves, and those are kept only on request.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from bregmat._kernels import lanczos
from bregmat.columns import LowRankMatrix
from bregmat.constraints import Constraints
from bregmat.linalg import eigh
from bregmat.losses import Squared
from bregmat.nearest import nearest_kernel
from bregmat.online.bounds import largest_divergence, relative_entropy
from bregmat.online.instances import Supported, is_complex
from bregmat.online.losses import SquaredLoss
from bregmat.result import MatrixResult


class Tally:
    """Labels of pairs: counts in the upper triangle, means in the lower, and the squares about the means in one number."""

    def __init__(self, dim: int) -> None:
        self.table, self.within = np.zeros((dim, dim)), 0.0

    def mark(self, block: np.ndarray) -> Any:
        """What :meth:`go_back` needs to forget a block that is about to be added."""
        a, b = block[0].tolist() if len(block) == 1 else block.T
        return a, b, self.table[a, b], self.table[b, a], self.within

    def go_back(self, mark: Any) -> None:
        """As it was when marked."""
        a, b, upper, lower, self.within = mark
        self.table[a, b], self.table[b, a] = upper, lower

    def add(self, block: np.ndarray, y: np.ndarray) -> None:
        """Count examples."""
        a, b = np.ascontiguousarray(block[:, 0]), np.ascontiguousarray(block[:, 1])
        self.within += lanczos.tally_pairs_inplace(self.table, a, b, y)

    def rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Pairs seen (k, 2), how often, and their mean label."""
        a, b = np.nonzero(np.triu(self.table, 1))
        return np.column_stack([a, b]), self.table[a, b], self.table[b, a]

    def arrays(self) -> dict[str, np.ndarray]:
        """For files."""
        return {"tally": self.table, "tally_within": np.array([self.within])}

    def restore(self, arrays: dict[str, np.ndarray], dim: int) -> None:
        """Inverse of :meth:`arrays`."""
        self.table, self.within = arrays["tally"].copy(), float(arrays["tally_within"][0])


class Kept:
    """The examples themselves; memory grows with the stream."""

    def __init__(self) -> None:
        self.blocks: list[Any] = []
        self.labels: list[np.ndarray] = []

    def mark(self, block: Any) -> Any:
        """What :meth:`go_back` needs to forget a block that is about to be added."""
        return len(self.labels)

    def go_back(self, mark: Any) -> None:
        """As it was when marked."""
        del self.blocks[mark:], self.labels[mark:]

    def add(self, block: Any, y: np.ndarray) -> None:
        """Keep examples; copies, for vectors are read where the caller has them."""
        self.blocks.append(block if isinstance(block, list) else block.copy())
        self.labels.append(y.copy())

    @property
    def within(self) -> float:
        """Loss that no prediction avoids; nothing is merged here."""
        return 0.0

    def rows(self) -> tuple[Any, np.ndarray, np.ndarray]:
        """Instances, weight 1 each, labels."""
        y = np.concatenate(self.labels) if self.labels else np.zeros(0)
        if self.blocks and isinstance(self.blocks[0], list):
            return [x for block in self.blocks for x in block], np.ones(len(y)), y
        return (np.concatenate(self.blocks) if self.blocks else np.zeros((0, 2))), np.ones(len(y)), y

    def arrays(self) -> dict[str, np.ndarray]:
        """For files: matrices by support, one after the other."""
        block, _, y = self.rows()
        if not isinstance(block, list):
            return {"kept_X": block, "kept_y": y}
        entries = np.concatenate([x.block.ravel() for x in block])
        index = np.concatenate([x.index for x in block])
        return {
            "kept_X": entries,
            "kept_index": index,
            "kept_sizes": np.array([len(x.index) for x in block]),
            "kept_y": y,
        }

    def restore(self, arrays: dict[str, np.ndarray], dim: int) -> None:
        """Inverse of :meth:`arrays`."""
        X: Any = arrays["kept_X"]
        y = arrays["kept_y"]
        if "kept_sizes" in arrays:
            sizes = arrays["kept_sizes"]
            entries = np.split(X, np.cumsum(sizes**2)[:-1])
            index = np.split(arrays["kept_index"], np.cumsum(sizes)[:-1])
            X = [Supported(i, e.reshape(k, k), dim) for i, e, k in zip(index, entries, sizes, strict=True)]
        self.blocks, self.labels = ([X], [y]) if len(y) else ([], [])


@dataclass(frozen=True, eq=False)
class BestInHindsight:
    """The fixed matrix with (nearly) the least total squared loss.

    Attributes
    ----------
    matrix : ndarray, shape (d, d)
        U, of the learner's trace.
    loss : float
        Its total loss on the stream.
    lower_bound : float
        No matrix of that trace has a smaller total loss: the core's certificate.
    divergence : float
        ``Delta(U, W1)``.
    result : MatrixResult
        Of the nearness problem, in units of the trace: its matrices have the trace one.
    """

    matrix: np.ndarray
    loss: float
    lower_bound: float
    divergence: float
    result: MatrixResult


def total_loss(U: np.ndarray, kind: Any, loss: Any, record: Tally | Kept) -> float:
    """Total loss of a fixed matrix on the recorded stream."""
    block, counts, labels = record.rows()
    if not len(labels):
        return 0.0
    values, V = eigh(U)
    p = kind.values(block, V * np.sqrt(np.maximum(values, 0.0)))
    paid = (
        [float(loss.value(x, label)) for x, label in zip(p, labels, strict=True)]
        if not hasattr(loss, "code")
        else loss.value(p, labels)
    )
    return float(counts @ paid) + record.within


def _realified(A: np.ndarray) -> np.ndarray:
    """A complex Hermitian matrix as a real symmetric one of twice the order, every eigenvalue twice."""
    return np.block([[A.real, -A.imag], [A.imag, A.real]])


def best_in_hindsight(
    kind: Any, record: Tally | Kept, log_prior: np.ndarray, trace: float, weight: float, tol: float
) -> BestInHindsight:
    """Minimise ``sum_t (tr(U X_t) - y_t)^2 + weight Delta(U, W1)`` over ``U >= 0`` of the given trace, by the core.

    All in units of the trace, so that any scale gives the same problem: the loss is trace^2 and the divergence trace times
    that of matrices of trace one.
    """
    block, counts, labels = record.rows()
    d, labels, weight = len(log_prior), labels / trace, weight / trace
    log_prior = log_prior - math.log(trace) * np.eye(d)
    rows = [kind.terms(block, t, d) for t in range(len(labels))]
    doubled = is_complex(block) or log_prior.dtype.kind == "c"
    values, Q = eigh(log_prior)
    prior = (Q * np.exp(values)) @ Q.conj().T
    if doubled:  # W -> half of its real form: same trace, same divergence; X -> its real form
        prior = 0.5 * _realified(prior)
        rows = [
            (np.vstack([np.hstack([V.real, V.imag]), np.hstack([-V.imag, V.real])]), np.tile(mu, 2)) for V, mu in rows
        ]
    # the core's loss is gamma / 2 ((p - b) / b)^2, over the weight of the divergence here; a label 0 has no |b|
    least = 1e-12 * (float(np.abs(labels).max()) or 1.0)
    b = np.where(np.abs(labels) < least, least, labels)
    constraints = Constraints.linear([LowRankMatrix(V.T, mu) for V, mu in rows], b, "==") + Constraints.trace(1.0)
    gamma = np.append(2.0 * counts * b * b / weight, np.inf)
    result = nearest_kernel(prior, constraints, divergence="vonneumann", loss=Squared(), slack_weight=gamma, tol=tol)
    U = result.kernel()
    if doubled:
        U = (U[:d, :d] + U[d:, d:]) + 1j * (U[d:, :d] - U[:d, d:])
    U = 0.5 * (U + U.conj().T)
    U /= float(np.trace(U).real)
    divergence = relative_entropy(U, log_prior)
    U *= trace
    loss = total_loss(U, kind, SquaredLoss(), record)
    # every U: loss >= weight (objective - Delta(U, W1)) >= weight (dual bound - largest divergence), less the rounding of
    # both and of the terms they consist of; the roots of losses for b and for the labels differ by at most `moved`
    farthest, terms = largest_divergence(log_prior), float(np.abs(result.dual) @ np.abs(constraints.bound))
    rounding = 1e-14 * d * (farthest + abs(result.dual_bound) + terms)
    moved = math.sqrt(float(counts @ (b - labels) ** 2))
    lowest = math.sqrt(max(0.0, weight * (result.dual_bound - farthest - rounding)))
    root = trace * max(0.0, lowest - moved)
    return BestInHindsight(U, loss, root * root + record.within, trace * divergence, result)
