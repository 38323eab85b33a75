"""Random streams of every kind for the matrix exponentiated gradient learner, the learner in NumPy, and losses of a user's own."""

import numpy as np


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


def instance_of(x, d):
    """X of a pair, a vector or a matrix."""
    x = np.asarray(x)
    if x.ndim == 2:
        return x
    if x.dtype.kind == "i":
        x = (np.eye(d)[x[0]] - np.eye(d)[x[1]]) / np.sqrt(2)
    return np.outer(x, x.conj())


def twin_trials(X, y, W1, eta, slope=lambda p, y: 2.0 * (p - y)):
    """The update as the paper has it (Tsuda 2004, eq. 4), by an eigendecomposition a trial: predictions and the last matrix."""
    H, predictions = function(W1, np.log), []
    for x, label in zip(X, y):
        A, values = instance_of(x, len(H)), np.linalg.eigvalsh(H)
        W = function(H - values[-1] * np.eye(len(H)), np.exp)
        W *= np.trace(W1).real / np.trace(W).real
        predictions.append(np.vdot(A, W).real)
        H = H - eta * slope(predictions[-1], label) * A
    W = function(H - np.linalg.eigvalsh(H)[-1] * np.eye(len(H)), np.exp)
    return np.array(predictions), W * (np.trace(W1).real / np.trace(W).real)


class Absolute:
    """``|p - y|``; its derivative at ``p = y`` is taken as 0."""

    def value(self, prediction, label):
        return np.abs(prediction - label)

    def derivative(self, prediction, label):
        return np.sign(prediction - label)


class Logistic:
    """``log(1 + exp(-y (p - threshold)))`` for labels -1 and 1."""

    threshold = 0.2

    def value(self, prediction, label):
        return np.logaddexp(0.0, -label * (prediction - self.threshold))

    def derivative(self, prediction, label):
        return -label / (1.0 + np.exp(label * (prediction - self.threshold)))


class ForwardEntropic:
    """``p log(p / y) + (1 - p) log((1 - p) / (1 - y))`` (Tsuda 2004, footnote 3); p and y are clipped to [floor, 1 - floor]."""

    floor = 1e-9

    def _clipped(self, prediction, label):
        return np.clip([prediction, label], self.floor, 1.0 - self.floor)

    def value(self, prediction, label):
        p, y = self._clipped(prediction, label)
        return p * np.log(p / y) + (1.0 - p) * np.log((1.0 - p) / (1.0 - y))

    def derivative(self, prediction, label):
        p, y = self._clipped(prediction, label)
        return np.log(p / y) - np.log((1.0 - p) / (1.0 - y))


class Entropic(ForwardEntropic):
    """The relative entropy of the label to the prediction."""

    def value(self, prediction, label):
        return super().value(label, prediction)

    def derivative(self, prediction, label):
        p, y = self._clipped(prediction, label)
        return (1.0 - y) / (1.0 - p) - y / p


class Own:
    """The squared loss, as a user would write it."""

    def value(self, prediction, label):
        return (prediction - label) ** 2

    def derivative(self, prediction, label):
        return 2 * (prediction - label)
