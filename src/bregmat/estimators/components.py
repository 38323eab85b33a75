"""The learned map turned so that its first components matter most."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bregmat.estimators.priors import covariance
from bregmat.linalg import eigh
from bregmat.result import MatrixResult

MOST_FEATURES = 2000  # beyond, nothing of size d x d is formed
MOST_ROWS = 20_000  # rows looked at to order the components
MOST_NUMBERS = 40_000_000  # in the mapped rows, with many features
RANK_TOL = 1e-10


def principal_components(result: MatrixResult, X: Any, n_components: int | None) -> np.ndarray | None:
    """Components (r, d) along which the mapped X varies most, then second most, ...; uncorrelated over X.

    All of them leave the learned distances as they are. None: with very many features, and all components wanted, the
    map is better left in the form the solver has it in.
    """
    n, d = X.shape
    if d <= MOST_FEATURES:
        S, _ = covariance(X[:: -(-n // MOST_ROWS)])
        B = result.B
        _, Q = eigh(B.T @ S @ B)
        return _signed((B @ Q[:, ::-1][:, :n_components]).T)
    if n_components is None:
        return None
    T = result.transform(X[:: -(-n * d // MOST_NUMBERS)])
    T -= T.mean(axis=0)
    values, U = eigh(T @ T.T)
    rank = int((values > RANK_TOL * values[-1]).sum())
    if n_components > rank:
        raise ValueError(
            f"n_components must be at most {rank}, the number of directions in which {len(T)} rows of X vary, where "
            f"there are more than {MOST_FEATURES} features; got {n_components}."
        )
    top = slice(None, -n_components - 1, -1)
    return _signed(_map_product(result, T.T @ (U[:, top] / np.sqrt(values[top]))).T)


def _map_product(result: MatrixResult, V: np.ndarray) -> np.ndarray:
    """``B @ V`` without B: where a span is in use the map within it is symmetric."""
    place = result.coordinates
    if place.span is None:
        return result.B @ V
    inner = replace(place, R=None).transform(V.T, result.iterate).T
    return inner if place.R is None else place.R @ inner


def _signed(components: np.ndarray) -> np.ndarray:
    """Signs that do not depend on the eigenvalue routine: the largest entry of each row is positive."""
    largest = np.abs(components).argmax(axis=1)
    signs = np.where(components[np.arange(len(components)), largest] < 0, -1.0, 1.0)
    return np.ascontiguousarray(components * signs[:, None])
