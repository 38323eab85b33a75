"""Proofs that hard rows contradict each other (Farkas for the cone).

Weights ``y`` of the right signs with ``A*(y)`` positive semidefinite and ``y . b < 0``: a matrix M >= 0 that meets the rows would
have ``0 <= <A*(y), M> <= y . b < 0``. Numerically every such M has ``tr M >= -y.b / max(0, -lambda_min A*(y))``.
"""

from __future__ import annotations

import numpy as np

from bregmat.base.linalg import eigh, eigvalsh, symmetrize
from bregmat.certificates.certify import clip_dual
from bregmat.certificates.nearness import Nearness
from bregmat.certificates.phase_one import MOST_ROWS, MOST_WORK, phase_one, work
from bregmat.certificates.problem import Proof
from bregmat.operators.linear_maps import VANISHING, Operator, svec

# eigenvalues of sums of unit rows, relative to the largest: rounding, and clearly none
DEPENDENT, INDEPENDENT = 1e-14, 1e-4
PRUNED = 200  # most must-links that are tried to be left out of a proof
PART = 1e-12  # share of its parts by which a sum of rows may be short of semidefinite
CLEAR = 1e-9  # share of |y| . |b| that y . b must be below 0: rows that contradict each other by less count as met


def infeasibility(problem: Nearness, mu: np.ndarray) -> Proof | None:
    """An irreducible proof from (growing) multipliers, or None."""
    proof = _from_weights(problem, mu)
    return None if proof is None else irreducible(problem, _pruned(problem, proof))


def contradiction_of_few(problem: Nearness, mu: np.ndarray) -> Proof | None:
    """A proof from the hard rows alone, where they are few, or from those with the largest multipliers: a search of its own."""
    rows = np.flatnonzero(problem.losses.hard)
    rows = np.sort(rows[np.argsort(-np.abs(mu * problem.unit)[rows])[:MOST_ROWS]])
    if work(problem, rows) > MOST_WORK:
        return None
    proof = _searched(problem, rows)
    return None if proof is None else irreducible(problem, proof)


def _from_weights(problem: Nearness, mu: np.ndarray) -> Proof | None:
    """Tries multipliers normalised, from the few largest to all, as they are and mended."""
    mu = np.where(problem.losses.hard, clip_dual(problem, mu), 0.0)
    weight = np.abs(mu * problem.unit)
    top = float(weight.max(initial=0.0))
    if not np.isfinite(top) or top == 0:
        return None
    for threshold in (1e-1, 1e-2, 1e-3, 1e-6, 0.0):
        y = np.where(weight > threshold * top, mu, 0.0) / top
        proof = _mended(problem, y) or _known_trace(problem, y)
        if proof is not None:
            return proof
    return None


def _searched(problem: Nearness, rows: np.ndarray) -> Proof | None:
    """A proof that only these rows carry, from a search of its own."""
    for y in phase_one(problem, rows):
        proof = _from_weights(problem, y)
        if proof is not None:
            return proof
    return None


def irreducible(problem: Nearness, proof: Proof) -> Proof:
    """The proof with as few rows as can be: each is left out where the others still contradict each other, with weights of their own."""
    L, few = problem.losses, proof.rows[:MOST_ROWS]
    for row in few[L.sense[few] * L.bound[few] <= 0] if len(proof.rows) > 1 else few[:0]:
        y = np.zeros(problem.c)
        y[row] = -np.sign(L.bound[row])
        alone = _checked(problem, y)
        if alone is not None:
            return alone
    left = MOST_WORK
    for row in proof.rows[np.argsort(np.abs(proof.dual * problem.unit)[proof.rows])]:
        rest = proof.rows[proof.rows != row]
        left -= work(problem, rest)
        if not 1 < len(rest) <= MOST_ROWS or left < 0:
            break
        if row in proof.rows:
            proof = _searched(problem, rest) or proof
    return proof


def _mended(problem: Nearness, y: np.ndarray) -> Proof | None:
    """A proof from weights as they are, or from mended ones."""
    return _checked(problem, y) or _ray(problem, y) or _balanced(problem, y) or _on_face(problem, y)


def singular_rows(problem: Nearness) -> Proof | None:
    """Hard rows that only a singular matrix meets (a value <= 0 of a PSD row), where the divergence admits none."""
    L = problem.losses
    if not problem.divergence.keeps_rank:
        return None
    rows = np.flatnonzero(L.hard & (L.bound == 0))
    if not len(rows):
        return None
    op = problem.operator.restrict(rows)
    probes = op.congruence(np.random.default_rng(0).normal(size=(problem.r, 16)))
    values = np.array([probes.values_diagonal(e) for e in np.eye(16)])
    # x'A_i x of both signs: the row is indefinite, as a comparison is, and needs no eigenvalues
    for side, semidefinite in ((1.0, (values >= 0).all(axis=0)), (-1.0, (values <= 0).all(axis=0))):
        for row in rows[semidefinite & (side * L.sense[rows] >= 0)]:
            y = np.zeros(problem.c)
            y[row] = side
            proof = _checked(problem, y)
            if proof is not None:
                return proof
    return None


def impossible_rows(problem: Nearness, linked: np.ndarray) -> Proof | None:
    """A hard row whose value is 0 wherever those of must-links are, but may not be: weights of these prove it in the limit.

    ``K_00 = 0`` and ``K_01 >= 1``: no finite weights contradict each other. Only where the links are clearly independent or
    clearly dependent, so that rounding does not decide.

    Parameters
    ----------
    problem : Nearness
    linked : ndarray of int
        Rows of rank one that force ``v' M v = 0``.
    """
    op, L = problem.operator, problem.losses
    before = op.norms()
    linked = linked[before[linked] > 0]

    def vanishing(links: np.ndarray, rows: np.ndarray) -> np.ndarray:
        values, V = eigh(op.restrict(links).adjoint(1.0 / before[links]))
        left = values <= DEPENDENT * values[-1]
        if (values[~left] < INDEPENDENT * values[-1]).any():
            return rows[:0]
        return rows[op.restrict(rows).vanishing(V[:, left])]

    sign = np.where(L.sense == 0, -np.sign(L.bound), L.sense)
    wrong = np.flatnonzero(L.hard & (sign * L.bound < 0) & (before > 0))
    found = vanishing(linked, wrong) if len(linked) and len(wrong) else wrong[:0]
    if not len(found):
        return None
    row = found[:1]
    for one in linked[:PRUNED]:
        rest = linked[linked != one]
        if len(rest) and len(vanishing(rest, row)):
            linked = rest
    y = np.zeros(problem.c)
    y[linked] = 1e17 * before[row] / before[linked]  # leaves what is negative below rounding
    y[row] = sign[row]
    return Proof(y, np.sort(np.append(linked, row)))


def _pruned(problem: Nearness, proof: Proof, most: int = 300) -> Proof:
    """The proof without rows it does not need: blocks of the weakest first, then single ones; each removal is proven again."""
    block = max(1, int(np.count_nonzero(proof.dual)) // 2)
    tries = 0
    while block >= 1 and tries < most:
        order = np.flatnonzero(proof.dual)
        order = order[np.argsort(np.abs(proof.dual * problem.unit)[order])]
        for first in range(0, len(order), block):
            rows = order[first : first + block]
            rows = rows[proof.dual[rows] != 0]
            left = np.count_nonzero(proof.dual) - len(rows)
            if len(rows) == 0 or left == 0:
                continue
            tries += 1
            y = proof.dual.copy()
            y[rows] = 0.0
            proof = _mended(problem, y) or proof
            if tries >= most:
                break
        block //= 2
    return proof


def _in_own_units(op: Operator, y: np.ndarray) -> Operator:
    """The operator with every column in the unit of what ``A*(y)`` is made of there."""
    extents = op.extents(np.abs(y))
    return op.congruence(np.diag(1.0 / np.sqrt(np.where(extents > 0, extents, 1.0))))


def _balanced(problem: Nearness, y: np.ndarray) -> Proof | None:
    """A proof with ``A*(y) = 0`` on the rows of y: rows that cancel each other, such as a cycle of comparisons."""
    rows = np.flatnonzero(y)
    if not 1 < len(rows) <= 50:
        return None
    X = _in_own_units(problem.operator, y).restrict(rows).features(None)
    norms = np.maximum(np.linalg.norm(X, axis=1), 1e-300)
    X /= norms[:, None]
    null = eigh(X @ X.T)[1][:, 0] / norms
    null *= np.sign(null @ y[rows])
    if (problem.losses.sense[rows] * null < 0).any():
        return None
    candidate = np.zeros_like(y)
    candidate[rows] = null
    return _checked(problem, candidate)


def _on_face(problem: Nearness, y: np.ndarray) -> Proof | None:
    """A proof near weights whose sum is PSD but for small eigenvalues: Newton's method brings these to 0."""
    rows = np.flatnonzero(y)
    if not 1 < len(rows) <= MOST_ROWS:
        return None
    op = _in_own_units(problem.operator, y).restrict(rows)
    size, z = np.abs(y[rows]), y[rows].copy()
    values = eigvalsh(symmetrize(op.adjoint(z)))
    small = [share for share in (1e-2, 1e-5) if values[0] >= -share * max(values[-1], 1e-300)]
    for share in small:
        for _ in range(3):
            values, V = eigh(symmetrize(op.adjoint(z)))
            N = V[:, values < share * max(values[-1], 1e-300)]
            face = op.congruence(N)
            z = (
                z
                - size * np.linalg.lstsq((face.features(None) * size[:, None]).T, svec(face.adjoint(z)), rcond=1e-11)[0]
            )
            if (z * y[rows] <= 0).any():
                break
            candidate = np.zeros_like(y)
            candidate[rows] = z
            proof = _checked(problem, candidate)
            if proof is not None:
                return proof
        z = y[rows].copy()
    return None


def _ray(problem: Nearness, y: np.ndarray) -> Proof | None:
    """Mend weights: drop negative ones outside the range of the positive part, shrink the others until the sum is PSD."""
    plus, minus = np.where(y > 0, y, 0.0), np.where(y < 0, y, 0.0)
    if not minus.any() or not plus.any():
        return None
    b = problem.losses.bound
    if float(plus @ b) + float(np.minimum(minus * b, 0.0).sum()) >= 0:
        return None  # no smaller negative weights reach y . b < 0
    op = _in_own_units(problem.operator, y)
    values, V = eigh(symmetrize(op.adjoint(plus)))
    keep = values > 1e-9 * max(values[-1], 1e-300)
    if not keep.any():
        return None
    rows = np.flatnonzero(minus)
    outside = V[:, ~keep]
    if outside.shape[1]:
        chosen = op.restrict(rows)
        part = chosen.congruence(outside).exact_norms()
        minus[rows[part > 1e-12 * np.maximum(chosen.exact_norms(), 1e-300)]] = 0.0
        if not minus.any():
            return None
    root = V[:, keep] / np.sqrt(values[keep])
    top = max(float(eigvalsh(root.T @ symmetrize(op.adjoint(-minus)) @ root)[-1]), 1e-300)
    given = float(minus @ b)
    room = 1.0 + top * float(plus @ b) / given if given < 0 else 1.0
    return _checked(problem, plus + min(1.0, (1.0 - _yielding(room)) / top) * minus)


def _known_trace(problem: Nearness, y: np.ndarray) -> Proof | None:
    """Complete weights by as much of a fixed trace as makes the sum PSD."""
    if problem.trace_row is None:
        return None
    at, kappa = problem.trace_row
    rest = y.copy()
    rest[at] = 0.0
    if not rest.any():
        return None
    low = float(eigvalsh(symmetrize(problem.operator.adjoint(rest)))[0])
    b, least = problem.losses.bound, max(0.0, -low) / kappa
    room = -float(rest @ b) / (least * float(b[at])) - 1.0 if least > 0 else 0.0
    rest[at] = (1.0 + _yielding(room)) * least
    return _checked(problem, rest)


def _yielding(room: float) -> float:
    """The share by which weights give way for a sum that is PSD in spite of rounding: half of what would cost the proof, within limits.

    Rounding turns the range of a prior of condition 1e12 by 1e-11.
    """
    return min(max(0.5 * room, 1e-12), 1e-9)


def _checked(problem: Nearness, y: np.ndarray) -> Proof | None:
    """Accept weights only if they prove it in spite of rounding: the sum of matrices is PSD and the bound clearly negative."""
    rows = np.flatnonzero(y)
    if len(rows) == 0:
        return None
    weight, b = y[rows], problem.losses.bound[rows]
    total, size = float(weight @ b), float(np.abs(weight) @ np.abs(b))
    strict = problem.divergence.keeps_rank and size == 0  # <A*(y), M> <= 0: M would be singular
    if not (total < -CLEAR * size or strict):
        return None
    op = problem.operator.restrict(rows)
    extents = op.extents(np.abs(weight))
    used = np.flatnonzero(extents > 0)
    scale = 1.0 / np.sqrt(extents[used])  # every column in the unit of what it is made of, and so its rounding
    A = symmetrize(op.adjoint(weight))[np.ix_(used, used)] * scale * scale[:, None]
    noise = 8.0 * len(extents) * np.finfo(float).eps
    values = eigvalsh(A) if len(used) else np.zeros(1)
    if values[0] < -noise or (strict and not values[-1] > 1e3 * noise):
        return None
    # -noise tr M <= y . b is no contradiction where rounding of huge weights outweighs the bounds
    if not strict and -total <= 1e3 * noise * float(problem.prior @ extents):
        return None
    if values[0] < 1e3 * noise and not _is_semidefinite_in_parts(op, weight):
        return None
    return Proof(y, rows)


def _is_semidefinite_in_parts(op: Operator, weight: np.ndarray) -> bool:
    """Whether ``S = A*(w)`` is PSD up to a small share of each of its parts: ``S + share A*(|w|) >= 0``.

    Rounding of S itself hides what happens along directions in which all parts are small, such as differences of points that are
    nearly equal: there S may be negative, and a large matrix meets the rows. So S is not formed. With parts ``sign_t f_t f_t'`` and
    an orthonormal basis Q of the range of F, ``S = R' Q' diag(sign) Q R``.
    """
    terms = op.outer()
    share = np.repeat(weight, np.diff(terms.ptr)) * terms.coef
    V = terms.Z[terms.a] + terms.sign[:, None] * terms.Z[terms.b]
    whole = float(weight @ terms.shift)
    F = np.vstack([np.sqrt(np.abs(share))[:, None] * V, np.sqrt(abs(whole)) * np.eye(op.r)])
    sign = np.concatenate([np.sign(share), np.full(op.r, np.sign(whole))])
    size = np.linalg.norm(F, axis=0)
    if not size.any():
        return True
    Q, s, _ = np.linalg.svd(F[:, size > 0] / size[size > 0], full_matrices=False)
    on = s > VANISHING * s[0]
    Q = Q[:, on]
    rounding = 8.0 * len(F) * np.finfo(float).eps * s[0] / s[on][-1]
    return bool(eigvalsh(symmetrize((Q.T * sign) @ Q))[0] >= -max(PART, rounding))
