"""Proofs that hard rows contradict each other (the lemma of Farkas for the cone of positive semidefinite matrices).

A proof consists of weights ``y`` of the signs of multipliers, with ``A*(y)`` positive semidefinite and ``y . b < 0``. A matrix M >= 0
that meets the rows would have ``0 <= <A*(y), M> <= y . b < 0``. Growing multipliers of a solver are candidates for such weights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bregmat.base.linalg import eigh, eigvalsh, symmetrize
from bregmat.base.threads import seconds_left
from bregmat.base.tolerances import VANISHING
from bregmat.certificates.phase_one import MAX_HARD_ROWS, MOST_WORK, phase_one, work
from bregmat.engine.problem import CLEAR, Proof
from bregmat.operators.linear_maps import Operator

if TYPE_CHECKING:  # problems use this module
    from bregmat.certificates.problem import NearestMatrix

# eigenvalues of sums of rows of norm 1, relative to the largest: below the first they are rounding, above the second they are not
DEPENDENT, INDEPENDENT = 1e-14, 1e-4
MAX_PRUNED_LINKS = 200  # must-links that are tried to be left out of a proof
MAX_PRUNING = 300  # attempts to leave rows out of a proof
PART = 1e-12  # a sum S of rows counts as semidefinite if S + PART (sum of their absolute parts) is
MAX_STACKED = 4  # rows over columns of vectors that are factorised
SAFETY_FACTOR = 1e3  # factor of safety over rounding errors


def infeasibility(problem: NearestMatrix, mu: np.ndarray) -> Proof | None:
    """A proof from multipliers, with as few rows as possible; None if they are no proof."""
    proof = _from_weights(problem, mu)
    return None if proof is None else _with_margin(problem, irreducible(problem, _pruned(problem, proof)))


def contradiction_of_few(problem: NearestMatrix, mu: np.ndarray) -> Proof | None:
    """A proof from a search over the hard rows, or over those with the largest multipliers if there are many; None if it fails."""
    rows = np.flatnonzero(problem.losses.hard)
    rows = np.sort(rows[np.argsort(-np.abs(mu * problem.unit)[rows])[:MAX_HARD_ROWS]])
    if work(problem, rows) > MOST_WORK:
        return None
    proof = _searched(problem, rows)
    return None if proof is None else _with_margin(problem, irreducible(problem, proof))


def _from_weights(problem: NearestMatrix, mu: np.ndarray) -> Proof | None:
    """A proof from the largest multipliers, from more of them, or from all; None if no attempt succeeds."""
    mu = np.where(problem.losses.hard, problem.clip_dual(mu), 0.0)
    weight = np.abs(mu * problem.unit)
    top = float(weight.max(initial=0.0))
    if not np.isfinite(top) or top == 0:
        return None
    for threshold in (1e-1, 1e-2, 1e-3, 1e-6, 0.0):
        if seconds_left() <= 0:
            return None
        y = np.where(weight > threshold * top, mu, 0.0) / top
        proof = _mended(problem, y) or _known_trace(problem, y)
        if proof is not None:
            return proof
    return None


def _searched(problem: NearestMatrix, rows: np.ndarray) -> Proof | None:
    """A proof that has weights on these rows only, from a search; None if it fails."""
    for y in phase_one(problem, rows):
        if seconds_left() <= 0:
            return None
        proof = _from_weights(problem, y)
        if proof is not None:
            return proof
    return None


def irreducible(problem: NearestMatrix, proof: Proof) -> Proof:
    """A proof with as few rows as possible: each row is left out if the others still contradict each other, with other weights."""
    L, few = problem.losses, proof.rows[:MAX_HARD_ROWS]
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
        if not 1 < len(rest) <= MAX_HARD_ROWS or left < 0 or seconds_left() <= 0:
            break
        if row in proof.rows:
            proof = _searched(problem, rest) or proof
    return proof


def _with_margin(problem: NearestMatrix, proof: Proof) -> Proof:
    """The proof with smaller negative weights, so that ``A*(y)`` is PSD by more than the rounding of weights; or the proof itself.

    The sum becomes ``(1 - s) A*(y) + s A*(y+)``, and s is at most half of the share at which ``y . b`` would be 0.
    """
    margin = 1e-6  # share by which negative weights of a proof are reduced at most
    y, b = proof.dual, problem.losses.bound
    minus = np.minimum(y, 0.0)
    if not minus.any() or not (y > 0).any():
        return proof
    gain = max(-float(minus @ b), 1e-300)
    return _checked(problem, y - min(margin, 0.5 * -float(y @ b) / gain) * minus) or proof


def _mended(problem: NearestMatrix, y: np.ndarray) -> Proof | None:
    """A proof from weights as they are, or from corrected ones; None if both fail."""
    return _checked(problem, y) or _ray(problem, y) or _balanced(problem, y)


def singular_rows(problem: NearestMatrix) -> Proof | None:
    """A hard row that only singular matrices meet (``<A_i, M> <= 0`` with ``A_i >= 0``), if the divergence excludes these; else None."""
    L = problem.losses
    if not problem.divergence.keeps_rank:
        return None
    rows = np.flatnonzero(L.hard & (L.bound == 0))
    if not len(rows):
        return None
    op = problem.operator.restrict(rows)
    probes = op.congruence(np.random.default_rng(0).normal(size=(problem.r, 16)))
    values = np.array([probes.values_diagonal(e) for e in np.eye(16)])
    # x'A_i x of both signs: A_i is indefinite, as of a comparison, and its eigenvalues need not be computed
    for side, semidefinite in ((1.0, (values >= 0).all(axis=0)), (-1.0, (values <= 0).all(axis=0))):
        for row in rows[semidefinite & (side * L.sense[rows] >= 0)]:
            y = np.zeros(problem.c)
            y[row] = side
            proof = _checked(problem, y)
            if proof is not None:
                return proof
    return None


def impossible_rows(problem: NearestMatrix, linked: np.ndarray) -> Proof | None:
    """A hard row whose bound excludes 0 although must-links force its value to 0; the proof has large weights on the must-links.

    An example is ``K_00 = 0`` and ``K_01 >= 1``, where only the limit of infinite weights is a proof. The result is None unless the
    must-links (``linked``: rows of rank one with ``v' M v = 0``) are clearly independent or clearly dependent, so that rounding does
    not decide.
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
    vanished = vanishing(linked, wrong) if len(linked) and len(wrong) else wrong[:0]
    if not len(vanished):
        return None
    row = vanished[:1]
    for one in linked[:MAX_PRUNED_LINKS]:
        rest = linked[linked != one]
        if len(rest) and len(vanishing(rest, row)):
            linked = rest
    y = np.zeros(problem.c)
    # large enough for negative eigenvalues of A*(y) to be below rounding
    y[linked] = 1e17 * before[row] / before[linked]
    y[row] = sign[row]
    return Proof(y, np.sort(np.append(linked, row)))


def _pruned(problem: NearestMatrix, proof: Proof) -> Proof:
    """The proof without rows that it does not need: blocks of rows with the smallest weights first, then single rows."""
    block = max(1, int(np.count_nonzero(proof.dual)) // 2)
    tries = 0
    while block >= 1 and tries < MAX_PRUNING and seconds_left() > 0:
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
            if tries >= MAX_PRUNING or seconds_left() <= 0:
                break
        block //= 2
    return proof


def _in_own_units(op: Operator, y: np.ndarray) -> Operator:
    """The operator in coordinates in which the terms of ``A*(y)`` have size 1 in every column."""
    extents = op.extents(np.abs(y))
    return op.congruence(np.diag(1.0 / np.sqrt(np.where(extents > 0, extents, 1.0))))


def _balanced(problem: NearestMatrix, y: np.ndarray) -> Proof | None:
    """A proof with ``A*(y) = 0`` from the rows of y: rows that cancel each other, such as a cycle of comparisons."""
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


def _ray(problem: NearestMatrix, y: np.ndarray) -> Proof | None:
    """A proof from corrected weights: negative ones are set to 0 outside the range of the positive part, otherwise reduced.

    With ``P = A*(y+)`` on its range and ``N = -A*(y-)``, the sum ``P - theta N`` is PSD for ``theta <= 1 / lambda_max(P^-1/2 N P^-1/2)``.
    """
    distinct = 1e-11  # singular values of the positive part of a sum, relative to the largest, that are not rounding
    plus, minus = np.where(y > 0, y, 0.0), np.where(y < 0, y, 0.0)
    if not minus.any() or not plus.any():
        return None
    b = problem.losses.bound
    if float(plus @ b) + float(np.minimum(minus * b, 0.0).sum()) >= 0:
        return None  # y . b < 0 needs larger negative weights
    op = _in_own_units(problem.operator, y)
    s, V = _positive_part(op, plus)
    keep = s > distinct * max(s[0], 1e-300)
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
    inside = op.congruence(V[:, keep] / s[keep])
    top = max(float(eigvalsh(symmetrize(inside.adjoint(-minus)))[-1]), 1e-300)
    gain = float(minus @ b)
    slack = 1.0 + top * float(plus @ b) / gain if gain < 0 else 1.0
    return _checked(problem, plus + min(1.0, (1.0 - _correction(slack)) / top) * minus)


def _positive_part(op: Operator, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Descending s (r,) and orthonormal columns V with ``A*(w) = V diag(s^2) V'``; 0 in place of negative eigenvalues.

    The vectors of rows that are sums of squares tell s to one rounding of the largest, and A*(w) tells s^2 so.
    """
    on = np.flatnonzero(weight)
    is_small = len(on) <= MAX_STACKED * op.r  # a factorisation of more vectors costs more than one of the matrix
    F, sign = _parts(op.restrict(on), weight[on]) if is_small else (weight, np.full(1, -1.0))
    if (sign < 0).any():
        values, V = eigh(symmetrize(op.adjoint(weight)))
        return np.where(values > 1e-9 * values[-1], np.sqrt(np.maximum(values, 0.0)), 0.0)[::-1], V[:, ::-1]
    _, s, Vt = np.linalg.svd(np.linalg.qr(F, mode="r"))
    return np.append(s, np.zeros(op.r - len(s))), Vt.T


def _parts(op: Operator, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """F (m, r) and signs (m,) with ``A*(w) = F' diag(sign) F``, from the terms of the rows."""
    terms = op.outer()
    share = np.repeat(weight, np.diff(terms.ptr)) * terms.coef
    V = terms.Z[terms.a] + terms.sign[:, None] * terms.Z[terms.b]
    F, sign = np.sqrt(np.abs(share))[:, None] * V, np.sign(share)
    whole = float(weight @ terms.shift)
    if whole == 0.0:
        return F, sign
    return np.vstack([F, np.sqrt(abs(whole)) * np.eye(op.r)]), np.append(sign, np.full(op.r, np.sign(whole)))


def _known_trace(problem: NearestMatrix, y: np.ndarray) -> Proof | None:
    """A proof from weights to which a fixed trace is added: ``A*(y) - lambda_min I`` is PSD."""
    if problem.trace_row is None:
        return None
    at, kappa = problem.trace_row
    rest = y.copy()
    rest[at] = 0.0
    if not rest.any():
        return None
    low = float(eigvalsh(symmetrize(problem.operator.adjoint(rest)))[0])
    b, least = problem.losses.bound, max(0.0, -low) / kappa
    slack = -float(rest @ b) / (least * float(b[at])) - 1.0 if least > 0 else 0.0
    rest[at] = (1.0 + _correction(slack)) * least
    return _checked(problem, rest)


def _correction(slack: float) -> float:
    """The fraction by which weights are changed so that the sum is PSD in spite of rounding.

    It is half of the fraction at which the proof would fail, between 1e-12 and 1e-9: rounding rotates the range of a prior of condition
    1e12 by about 1e-11.
    """
    return min(max(0.5 * slack, 1e-12), 1e-9)


def _checked(problem: NearestMatrix, y: np.ndarray) -> Proof | None:
    """The proof if weights are one in spite of rounding: ``A*(y)`` is PSD and ``y . b`` is clearly negative; else None."""
    rows = np.flatnonzero(y)
    if len(rows) == 0:
        return None
    weight, b = y[rows], problem.losses.bound[rows]
    total, size = float(weight @ b), float(np.abs(weight) @ np.abs(b))
    strict = problem.divergence.keeps_rank and size == 0  # <A*(y), M> <= 0 holds for singular M only
    if not (total < -CLEAR * size or strict):
        return None
    op = problem.operator.restrict(rows)
    extents = op.extents(np.abs(weight))
    used = np.flatnonzero(extents > 0)
    # the terms have size 1 in every column, so the rounding error is the same in all
    scale = 1.0 / np.sqrt(extents[used])
    A = symmetrize(op.adjoint(weight))[np.ix_(used, used)] * scale * scale[:, None]
    noise = 8.0 * len(extents) * np.finfo(float).eps
    values = eigvalsh(A) if len(used) else np.zeros(1)
    if values[0] < -noise or (strict and not values[-1] > SAFETY_FACTOR * noise):
        return None
    # <A*(y), M> >= -noise tr M does not contradict <A*(y), M> <= y . b if rounding of huge weights outweighs the bounds
    if not strict and -total <= SAFETY_FACTOR * noise * float(problem.prior @ extents):
        return None
    if values[0] < SAFETY_FACTOR * noise and not _is_semidefinite_in_parts(op, weight):
        return None
    return Proof(y, rows)


def _is_semidefinite_in_parts(op: Operator, weight: np.ndarray) -> bool:
    """Whether ``S = A*(w)`` is PSD up to a small share of each of its parts: ``S + PART A*(|w|) >= 0``.

    Along directions in which all parts are small, such as differences of nearly equal points, rounding of S hides negative values,
    and a large matrix may meet the rows. So S is not formed. With parts ``sign_t f_t f_t'``, the rows f_t of F, and ``F = Q R`` with
    orthonormal columns of Q, ``S = R' Q' diag(sign) Q R`` is PSD if ``Q' diag(sign) Q`` is.
    """
    F, sign = _parts(op, weight)
    size = np.linalg.norm(F, axis=0)
    if not size.any():
        return True
    Q, s, _ = np.linalg.svd(F[:, size > 0] / size[size > 0], full_matrices=False)
    on = s > VANISHING * s[0]
    Q = Q[:, on]
    rounding = 8.0 * len(F) * np.finfo(float).eps * s[0] / s[on][-1]
    return bool(eigvalsh(symmetrize((Q.T * sign) @ Q))[0] >= -max(PART, rounding))
