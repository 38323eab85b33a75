"""What the tests of compiled kernels share: flat rows and bounds, the matrices they stand for, and scalar losses."""

import numpy as np
from scipy.optimize import brentq

from bregmat import SquaredHinge
from bregmat._kernels.arrays import OuterRows, RowBounds
from bregmat.objective.losses import Hard, ItakuraSaito, RelativeEntropy
from cases import equalities

EXACT = {"rtol": 1e-12, "atol": 1e-12}  # sums of some tens of products of numbers around 1
SLACK = (
    ("itakura_saito", 0.5),
    ("relative_entropy", 0.5),
    ("squared_hinge", 0.5),
    ("squared_hinge", -0.4),
    ("squared_hinge", 0.0),
)
COMPILED = {loss.name: loss for loss in (Hard(), ItakuraSaito(), RelativeEntropy(), SquaredHinge())}
CODES = {name: loss.projection_code for name, loss in COMPILED.items()}


def outer_rows(rng, r, counts, shift=(), n=None):
    """Random rows with the given numbers of terms: distances, sums and single points, coefficients of both signs."""
    n, m = n or r + 3, int(sum(counts))
    a = rng.integers(0, n, m).astype(np.int32)
    b = ((a + rng.integers(1, n, m)) % n).astype(np.int32)
    sign = rng.integers(-1, 2, m).astype(np.int8)
    coef = np.where(np.repeat(counts, counts) == 1, 1.0, rng.normal(size=m))
    ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    given = np.zeros(len(counts))
    given[: len(shift)] = shift
    return OuterRows(ptr, coef, rng.normal(size=(n, r)), a, b, sign, given)


def vectors(R):
    return R.Z[R.a] + R.sign[:, None] * R.Z[R.b]


def assembled(R):
    """The matrices A_i."""
    V, out = vectors(R), []
    for i in range(len(R.shift)):
        t = slice(R.ptr[i], R.ptr[i + 1])
        out.append((V[t].T * R.coef[t]) @ V[t] + R.shift[i] * np.eye(R.Z.shape[1]))
    return np.array(out)


def row_bounds(bound, sense, loss="hard", gamma=1.0, scale=1.0):
    c = len(bound)
    codes = np.full(c, CODES[loss], np.int8)
    full = [np.full(c, x, dtype=float) for x in (gamma, scale)]
    return RowBounds(np.array(bound, float), np.array(sense, np.int8), *full, codes, np.maximum(np.abs(bound), 1e-3))


def row(name, b, *, sense=0, gamma=1.0, scale=1.0, mu=0.0, unit=1.0):
    """One row as its projection takes it; ``name`` is that of the loss."""
    return CODES[name], sense, b, gamma, scale, mu, unit


def losses(name, b, gamma, scale):
    """Rows of one loss, both sides of which count; the slacks of divergences have scale 1."""
    full = [np.full(len(b), x, dtype=float) for x in (gamma, scale if name == "squared_hinge" else 1.0)]
    return equalities(COMPILED[name], b, *full)


def relaxed(name, b, gamma, scale, mu):
    return float(losses(name, np.array([b]), gamma, scale).relaxed(np.array([mu]))[0][0])


def root(f, low, high):
    return brentq(f, low, high, xtol=1e-300, rtol=1e-14, maxiter=500)


def sweep_case(rng, r=9, counts=(1, 1, 2, 1, 3, 2, 1, 1), M=None):
    """Rows of several ranks and bounds that a matrix of the cone meets, both senses and equalities."""
    R = outer_rows(rng, r, list(counts))
    A = assembled(R)
    sense = np.array([1, -1, 0, 1, -1, 1, 0, -1])[: len(counts)]
    F = np.eye(r) + 0.2 * rng.normal(size=(r, r))
    met = np.tensordot(A, F @ F.T, 2)
    return R, A, row_bounds(met, sense), sense, met
