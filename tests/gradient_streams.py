"""Random streams of every kind for the matrix exponentiated gradient learner, and a loss as a user would write it."""

import numpy as np

MODES = ("lanczos", "eigh")


def function(A, f):
    values, U = np.linalg.eigh(A)
    return (U * f(values)) @ U.conj().T


def density(rng, d, *, is_complex=False):
    A = rng.normal(size=(d, d)) + (1j * rng.normal(size=(d, d)) if is_complex else 0.0)
    W = function((A + A.conj().T) / 2, np.exp)
    return W / np.trace(W).real


def measured(U, X):
    """``tr(U X)`` of pairs, vectors or matrices."""
    if X.ndim == 3:
        return np.einsum("tij,ij->t", X.conj(), U).real
    if X.dtype.kind == "i":
        X = (np.eye(len(U))[X[:, 0]] - np.eye(len(U))[X[:, 1]]) / np.sqrt(2)
    return np.einsum("ij,jk,ik->i", X.conj(), U, X).real


def stream(rng, kind, d, T, *, is_complex=False, noise=0.05):
    """Instances of spread at most 1, labels with noise, and the target."""
    U = density(rng, d, is_complex=is_complex)
    if kind == "pairs":
        a = rng.integers(0, d, T)
        X = np.column_stack([a, (a + rng.integers(1, d, T)) % d])
    else:
        shape = (T, d) if kind == "vectors" else (T, d, d)
        X = rng.normal(size=shape) + (1j * rng.normal(size=shape) if is_complex else 0.0)
        X = X / np.linalg.norm(X, axis=1)[:, None] if kind == "vectors" else X + np.conj(np.swapaxes(X, 1, 2))
        if kind == "matrices":
            X /= np.ptp(np.linalg.eigvalsh(X), axis=1)[:, None, None]
    y = measured(U, X) + noise * rng.normal(size=T)
    return U, X, np.maximum(y, 0.0) if kind == "pairs" else y


class Own:
    """The squared loss, as a user would write it."""

    def value(self, prediction, label):
        return (prediction - label) ** 2

    def derivative(self, prediction, label):
        return 2 * (prediction - label)
