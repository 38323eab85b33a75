"""What the equation tests share: the divergences as the papers print them, by SciPy's matrix functions, and random arguments."""

import numpy as np
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
    if name == "logdet":
        return x / y - np.log(x / y) - 1
    if name == "vonneumann":
        return x * np.log(x / y) - x + y
    return (x - y) ** 2 / 2


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
