"""From what people hand in as a correlation matrix to the problem: checked, named where it is wrong, scaled or repaired where they ask."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np

from bregmat.applications.correlation.entries import Entries, FixedBlocks, fixed_blocks
from bregmat.applications.correlation.problem import CorrelationProblem
from bregmat.applications.correlation.result import Repair
from bregmat.base.checks import (
    Labels,
    as_choice,
    as_matrix,
    check_flag,
    check_integer,
    check_share,
    entry_text,
)
from bregmat.base.linalg import cholesky, eigh, symmetrize
from bregmat.base.threads import single_thread_blas
from bregmat.coordinates.priors import RANK_TOL, Factor
from bregmat.objective.divergences import as_divergence
from bregmat.objective.spectral import SpectralDivergence
from bregmat.operators.linear_maps import VANISHING
from bregmat.typing import RepairName

_HINT = " Where an entry is unknown, nearest_correlation takes a weight of 0 or NaN in weights=; (C + C.T) / 2 is symmetric."
FAR_DIAGONAL = 0.1  # from 1, above which a diagonal is that of another kind of matrix, such as a covariance
INDEFINITE = 1e-9  # share of the largest eigenvalue below which a negative one counts as rounding


def pose(
    C: Any, divergence: Any, fixed: Any, min_eig: Any, rank: Any, repair: Any, floor: Any, scale: Any
) -> CorrelationProblem:
    """Check what was handed in, each thing once, and pose the problem near it.

    Parameters
    ----------
    C, divergence, fixed, min_eig, rank, repair, floor, scale
        As in :func:`bregmat.nearest_correlation`, with shapes and units there.

    Raises
    ------
    TypeError
        For what is not a matrix of real numbers, or a mask; for a divergence that there is no method for.
    ValueError
        For values that make no sense or do not go with each other, each named by its first entry.
    """
    D = as_divergence(divergence)
    if not (D.keeps_range or D.takes_indefinite):
        raise TypeError(
            "nearest_correlation needs a divergence that keeps the range, or takes indefinite matrices as 'frobenius' does; "
            f"got {D.name!r}."
        )
    why = ", because the eigenvalues of a correlation matrix have the mean 1"
    check_share("min_eig", min_eig, zero=True, why=why)
    check_share("floor", floor, why=", in units of the mean eigenvalue")
    as_choice("repair", repair, (None, *get_args(RepairName)))
    check_flag("scale", scale, optional=True)
    check_integer("rank", rank, 1)
    if rank is not None and (fixed is not None or min_eig > 0):
        raise ValueError("rank does not go with fixed entries or min_eig.")
    if D.keeps_range and (min_eig > 0 or rank is not None):
        name = "min_eig" if min_eig > 0 else "rank"
        raise ValueError(f'{name} needs divergence="frobenius"; got {D.name}.')
    if repair is not None and not D.keeps_range:
        raise ValueError(
            f"repair={repair!r} is for LogDet and von Neumann; {D.name} takes an indefinite matrix as it is."
        )
    if isinstance(C, Factor):
        if min_eig > 0 or any(option is not None for option in (fixed, rank, repair, scale)):
            raise ValueError("fixed, min_eig, rank, repair and scale need a matrix; a Factor goes without them.")
        return _near_factor(D, as_matrix("Factor: G0", C.G0))
    A, labels = read_matrix(C)
    A = scaled(A, scale, not D.keeps_range)
    if rank is not None and rank > len(A):
        raise ValueError(f"rank must be between 1 and n = {len(A)}; got {rank}.")
    entries = read_fixed(fixed, A, labels)
    with single_thread_blas(), np.errstate(all="ignore"):
        if D.keeps_range:
            return _near_definite(D, A, entries, floor if repair == "clip" else None)
        low = float(min_eig)
        F = low * np.eye(len(A)) if low else 0.0
        return CorrelationProblem.frobenius(A, entries, F, min_eig=low, blocks=_blocks(A, entries, low))


def read_matrix(C: Any, unknown: np.ndarray | None = None) -> tuple[np.ndarray, Labels]:
    """A symmetric float array with a positive diagonal, and the labels of a DataFrame; what is unknown counts as 0."""
    labels = _labels_of(C)
    if labels is not None:
        C = C.to_numpy()
    if unknown is not None and np.shape(C) == unknown.shape:
        C = np.where(unknown, 0.0, np.asarray(C, dtype=float))
    A: np.ndarray = as_matrix("C", C, symmetric=True, sparse="dense", booleans=True, labels=labels, hint=_HINT)
    low = np.flatnonzero(~(np.diag(A) > 0))
    if len(low):
        i = low[0]
        raise ValueError(f"C must have a positive diagonal; got {A[i, i]:.6g} at {entry_text(i, i, labels)}.")
    if np.abs(A).max() > 1e100:
        i, j = np.unravel_index(int(np.abs(A).argmax()), A.shape)
        raise ValueError(f"C must be scaled towards 1; got {A[i, j]:.3g} at {entry_text(i, j, labels)}.")
    return A, labels


def _labels_of(C: Any) -> Labels:
    """The names of rows and columns of a data frame of pandas, or of polars, whose rows have the names of its columns."""
    if not (hasattr(C, "columns") and hasattr(C, "to_numpy")):
        return None
    columns = list(C.columns)
    labels = (list(C.index) if hasattr(C, "index") else columns, columns)
    if labels[0] != labels[1] and len(labels[0]) == len(labels[1]) and set(labels[0]) == set(labels[1]):
        k = next(k for k, (a, b) in enumerate(zip(*labels, strict=True)) if a != b)
        raise ValueError(
            f"C has the same labels in its index and columns but in another order: {labels[0][k]!r} and {labels[1][k]!r} at {k}."
        )
    if len(labels[0]) == len(labels[1]) and set(labels[0]) != set(labels[1]):
        odd = next(a for a in labels[0] + labels[1] if (a in labels[0]) != (a in labels[1]))
        raise ValueError(f"C must have the same labels in its index and columns; {odd!r} is in one of them only.")
    return labels


def scaled(A: np.ndarray, scale: bool | None, insist: bool) -> np.ndarray:
    """The matrix divided by the square roots of its diagonal, or as it is; ``insist`` on a decision where it is far from 1."""
    diagonal = np.diag(A)
    if scale:
        d = 1.0 / np.sqrt(diagonal)
        A = A * np.multiply.outer(d, d)  # symmetric to the last digit
        np.fill_diagonal(A, 1.0)
        return A
    far = np.flatnonzero(np.abs(diagonal - 1.0) > FAR_DIAGONAL)
    if scale is None and insist and len(far):
        i = far[0]
        raise ValueError(
            f"C has {diagonal[i]:.6g} at [{i}, {i}], where a correlation matrix has 1. If C is a covariance, scale=True divides rows "
            "and columns by the standard deviations; scale=False takes C as it is."
        )
    return A


def aligned(name: str, table: Any, labels: Labels) -> np.ndarray:
    """An array-like as an array; a data frame must have the labels of C."""
    if labels is not None and hasattr(table, "columns"):
        given = (list(getattr(table, "index", labels[0])), list(table.columns))
        for names, wanted, where in zip(given, labels, ("index", "columns"), strict=True):
            if names != wanted:
                raise ValueError(f"{name} must have the {where} of C; got {names[:5]} for {wanted[:5]}.")
    return np.asarray(table.to_numpy() if hasattr(table, "columns") else table)


def read_fixed(fixed: Any, C: np.ndarray, labels: Labels) -> Entries:
    """The entries of a symmetric boolean mask; a fixed diagonal entry must be 1, as it is anyway."""
    n = len(C)
    if fixed is None:
        return Entries.of_diagonal(n, labels)
    mask = aligned("fixed", fixed, labels)
    if mask.dtype != bool:
        raise TypeError(f"fixed must be a boolean mask; got dtype {mask.dtype}.")
    as_matrix("fixed", mask, symmetric=True, order=n, booleans=True, labels=labels)
    off = np.flatnonzero(np.diag(mask) & (np.diag(C) != 1.0))
    if len(off):
        i = off[0]
        raise ValueError(
            f"fixed is True at {entry_text(i, i, labels)}, where C has {C[i, i]:.6g} and a correlation matrix has 1; scale=True "
            "divides by the standard deviations."
        )
    pairs = np.argwhere(np.triu(mask, 1))
    return Entries(n, pairs[:, 0], pairs[:, 1], labels)


# ---------------------------------------------------------------------- posing
def _near_factor(D: SpectralDivergence, G0: np.ndarray) -> CorrelationProblem:
    """Near ``C = G0 G0'``, whose range is kept; G0 has shape (n, k)."""
    zero = np.flatnonzero(~G0.any(axis=1))
    if len(zero):
        raise ValueError(f"Factor: G0 must have no row of zeros, whose diagonal entry is never 1; row {zero[0]} is.")
    C, entries = G0 @ G0.T, Entries.of_diagonal(len(G0))
    basis = G0
    if G0.shape[1] > len(G0) or not D.is_congruence_invariant:
        U, sigma, _ = np.linalg.svd(G0, full_matrices=False)
        if not D.is_congruence_invariant:
            return CorrelationProblem.in_range(D, C, entries, sigma**2, U)
        keep = sigma > VANISHING * sigma[0]
        basis = U[:, keep] * sigma[keep]  # LogDet does not care which factor, but for columns that are rounding
    return CorrelationProblem(D, D.link(np.ones(basis.shape[1])), C=C, entries=entries, basis=basis)


def _near_definite(D: SpectralDivergence, C: np.ndarray, entries: Entries, floor: float | None) -> CorrelationProblem:
    """Near a positive definite prior, a singular one whose range is kept, or one whose eigenvalues are raised to ``floor``."""
    plain = D.is_congruence_invariant and not entries.has_pairs  # then Newton's method needs no eigenvectors
    if plain and floor is None:
        L, ok = cholesky(C)
        if ok and _is_well_conditioned(C, L):
            return _near_product(D, C, entries, L, None)
    values, Q = eigh(C)
    top = float(np.abs(values).max())
    if entries.has_pairs:
        # a definite prior keeps LogDet's matrix definite, which entries of a singular block would not allow
        strict = D.is_congruence_invariant and (floor is not None or values[0] > RANK_TOL * values[-1])
        blocks = _blocks(C, entries, 0.0, strict=strict)
        if blocks.proof is not None:  # there is no matrix, at whatever distance
            return CorrelationProblem(
                D, D.link(np.ones(len(C))), C=C, entries=entries, basis=np.eye(len(C)), blocks=blocks
            )
    prior, repaired = C, None
    if floor is None and values[0] < -INDEFINITE * top:
        raise ValueError(
            f"C must be positive semidefinite for {D.name}; its smallest eigenvalue is {values[0]:.3g}, and "
            f'{int((values < -INDEFINITE * top).sum())} are negative. repair="clip" raises them to floor; '
            'divergence="frobenius" takes C as it is.'
        )
    if floor is not None and values[0] < floor:
        low = values < floor
        repaired = Repair("clip", int(low.sum()), float(np.linalg.norm(floor - values[low])), floor)
        values = np.maximum(values, floor)
        prior = symmetrize((Q * values) @ Q.T)
    singular = values[0] <= RANK_TOL * top
    if plain or singular:
        L, ok = cholesky(prior)
        if plain and ok and not singular:
            return _near_product(D, C, entries, L, repaired)
        if singular and not plain and ok and _is_well_conditioned(prior, L):
            raise ValueError(
                f"C has eigenvalues from {values[0]:.3g} to {top:.3g}, which is singular for {D.name}, only because its variables differ "
                "in scale; scale=True divides by the standard deviations."
            )
    return CorrelationProblem.in_range(D, C, entries, values, Q, repaired=repaired)


def _near_product(
    D: SpectralDivergence, C: np.ndarray, entries: Entries, L: np.ndarray, repaired: Repair | None
) -> CorrelationProblem:
    """LogDet near ``L L'`` with nothing fixed: Newton's method of its own."""
    t0 = D.link(np.ones(len(L)))
    return CorrelationProblem(D, t0, C=C, entries=entries, basis=L, is_triangular=True, repaired=repaired)


def _blocks(C: np.ndarray, entries: Entries, min_eig: float, **how: Any) -> FixedBlocks:
    """What blocks of fixed entries imply for ``X - min_eig I``."""
    if not entries.has_pairs:
        return FixedBlocks()
    return fixed_blocks(entries, entries.prescribed(C, min_eig), **how)


def _is_well_conditioned(A: np.ndarray, L: np.ndarray) -> bool:
    """Whether the condition number (1-norm, estimated) of ``A = L L'``, scaled to a unit diagonal, is below 1e10."""
    from scipy.linalg import get_lapack_funcs

    d = 1.0 / np.sqrt(np.diag(A))
    norm = d * (np.abs(A) @ d)
    return bool(
        get_lapack_funcs("pocon", dtype=np.float64)(np.asfortranarray(d[:, None] * L), norm.max(), uplo="L")[0] > 1e-10
    )
