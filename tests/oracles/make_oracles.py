"""Make the stored reference solutions of small problems with CVXPY and Clarabel.

Not part of the test run: it needs ``cvxpy`` and ``clarabel`` in an environment of its own. Run it as
``python tests/oracles/make_oracles.py``; it writes the ``*.json`` files that lie beside it. Nothing is imported from
bregmat, so the numbers are independent of it.

Every problem is solved in coordinates of the range of its prior: with ``P = Q diag(l) Q'`` (``P`` the prior kernel, or
the prior metric and then points ``X``), LogDet works on ``M`` with ``W = Q diag(l)^1/2 M diag(l)^1/2 Q'`` against the
identity, the other two on ``W = Q M Q'`` against ``diag(l)``. Only Frobenius may leave the range of a singular prior,
unless that is given as a factor. "accuracy" holds what was measured at the solver's
answer in plain NumPy: the objective minus the dual bound of the solver's own multipliers, relative to
``max(1, |objective|)``, and the largest relative violation of a hard row.
"""

import itertools
import json
import sys
from pathlib import Path

import clarabel
import cvxpy as cp
import draw
import numpy as np
import problems
import scipy.linalg

HERE = Path(__file__).parent
TOLERANCES = (1e-11, 1e-9, 1e-8)
GOOD_GAP = 1e-9
FAR = 1e8  # stands for the infinite multiplier of a must-link row


def coordinates(problem):
    """Eigenvalues of the prior in its range, and one matrix per row in the coordinates of the divergence."""
    base, lift = draw.base_and_lift(problem)
    values, vectors = np.linalg.eigh(base)
    keep = values > 1e-9 * values[-1]
    if problem["divergence"] == "frobenius" and "factor" not in (problem["prior"] or {}):
        values, keep = np.where(keep, values, 0.0), np.full(len(values), True)
    values, vectors = values[keep], vectors[:, keep]
    if problem["divergence"] == "logdet":
        vectors, values = vectors * np.sqrt(values), np.ones(keep.sum())
    lifted = lift @ vectors
    rows = [lifted.T @ draw.row_matrix(row, lift.shape[0]) @ lifted for row in problem["rows"]]
    return values, [(row + row.T) / 2 for row in rows]


def slack_kinds(problem, prior, matrices):
    """Weight, kind of loss ("hard", "own", "scaled", "plain") and scale of every row."""
    default = np.broadcast_to(draw.number(problem["slack_weight"]), len(matrices))
    for gamma, row, matrix in zip(default, problem["rows"], matrices, strict=True):
        spectrum, vectors = np.linalg.eigh(matrix)
        absolute = (vectors * np.abs(spectrum)) @ vectors.T
        bound = row["bound"]
        scale = abs(bound) if bound else float(np.trace(absolute @ np.diag(prior)))
        weight = float(gamma) * draw.number(row["weight"])
        if weight == np.inf:
            kind = "hard"
        elif problem["loss"] is not None or not bound > 0:
            kind = "scaled"
        else:
            kind = "plain" if problem["divergence"] == "frobenius" else "own"
        yield weight, kind, scale


def loss_term(divergence, kind, weight, scale, bound, moved, unit):
    """What it costs that the row has the value ``moved * unit``, as a CVXPY expression."""
    if kind in ("plain", "scaled"):
        return weight / 2 * (unit / (scale if kind == "scaled" else 1.0)) ** 2 * cp.square(moved - bound / unit)
    if divergence == "logdet":
        return weight * (moved * unit / bound - cp.log(moved * unit / bound) - 1)
    return weight * unit * cp.kl_div(moved, bound / unit)


def divergence_term(divergence, S, M, prior):
    """D(M, diag(prior)) as a CVXPY expression; S is M on its range."""
    if divergence == "logdet":
        return cp.trace(M) - cp.log_det(S) - len(prior)
    if divergence == "vonneumann":
        linear = cp.trace(M @ np.diag(np.log(prior) + 1.0))
        return -cp.von_neumann_entr(S) - linear + prior.sum()
    return cp.sum_squares(M - np.diag(prior)) / 2


def must_link(row):
    """Whether the row wants a squared distance of 0: then M is singular and has no interior; solved on its range."""
    return row["relation"] == "sq_distance" and row["sense"] == "<=" and row["bound"] == 0


def say(*words):
    """One line of progress."""
    sys.stderr.write(" ".join(words) + "\n")


def two_sided(problem, row, kind):
    """Whether the multiplier of the row may have either sign."""
    return row["sense"] == "==" or (kind == "scaled" and problem["loss"] == "squared")


def program_of(problem, prior, matrices, kinds, *, scaled):
    """The CVXPY program, its matrix, and the rows' links with the factors that make multipliers of their duals."""
    divergence = problem["divergence"]
    merged = [must_link(row) for row in problem["rows"]]
    basis = scipy.linalg.null_space(sum(m * A for m, A in zip(merged, matrices)) + np.zeros((len(prior), len(prior))))
    S = cp.Variable((basis.shape[1], basis.shape[1]), PSD=True)
    M = basis @ S @ basis.T
    objective = divergence_term(divergence, S, M, prior)
    links, limits, factors = [], [], []
    for (weight, kind, scale), row, matrix in zip(kinds, problem["rows"], matrices, strict=True):
        unit = scale if scaled else 1.0
        value, start = cp.trace(matrix @ M) / unit, row["bound"] / unit
        moved = start if kind == "hard" else cp.Variable()
        free = two_sided(problem, row, kind)
        factors.append((-1.0 if row["sense"] == ">=" and not free else 1.0) / unit)
        if free:
            links.append(value == moved)
        elif row["sense"] == "<=":
            links.append(value <= moved)
            limits += [] if kind == "hard" else [moved >= start]
        else:
            links.append(value >= moved)
            limits += [] if kind == "hard" else [moved <= start]
        if kind != "hard":
            objective = objective + loss_term(divergence, kind, weight, scale, row["bound"], moved, unit)
    return cp.Problem(cp.Minimize(objective), links + limits), M, links, factors


def solve(problem):
    """The problem's entry with its objective and measured accuracy: the best of a few scalings and tolerances."""
    prior, matrices = coordinates(problem)
    kinds = list(slack_kinds(problem, prior, matrices))
    best = None
    for scaled, tol in itertools.product((False, True), TOLERANCES):
        program, M, links, factors = program_of(problem, prior, matrices, kinds, scaled=scaled)
        try:
            program.solve(solver=cp.CLARABEL, tol_gap_abs=tol, tol_gap_rel=tol, tol_feas=tol, max_iter=500)
        except cp.SolverError:
            continue
        dual = np.array([f * float(link.dual_value) for f, link in zip(factors, links, strict=True)])
        dual[[must_link(row) for row in problem["rows"]]] = FAR
        W = (M.value + M.value.T) / 2
        primal, violation = primal_value(problem, prior, matrices, kinds, W)
        gap = (primal - dual_value(problem, prior, matrices, kinds, dual)) / max(1.0, abs(primal))
        if best is None or max(abs(gap), violation) < best[0]:
            best = (max(abs(gap), violation), primal, gap, violation, program.status)
            active, spectrum = np.sum(abs(dual) > 1e-7), np.linalg.eigvalsh(W)
            say(
                f"{problem['name']}: {len(dual)} rows, {active} active, objective {primal:.9g}, gap {gap:.1e},",
                f"eigenvalues {spectrum[0]:.1e} ... {spectrum[-1]:.1e}, {program.status}",
            )
        if best[0] < GOOD_GAP:
            break
    _, primal, gap, violation, status = best
    return problem | {
        "status": "OPTIMAL",
        "objective": primal,
        "solver": f"CVXPY {cp.__version__}, Clarabel {clarabel.__version__}: {status}",
        "accuracy": {"gap": float(f"{gap:.1e}"), "violation": float(f"{violation:.1e}")},
    }


def refute(problem):
    """The entry of an infeasible problem: weights mu with A*(mu) positive semidefinite and the least mu . b."""
    prior, matrices = coordinates(problem)
    kinds = list(slack_kinds(problem, prior, matrices))
    mu = cp.Variable(len(matrices))
    limits = [cp.norm1(mu) <= 1]
    for position, (row, (_, kind, _)) in enumerate(zip(problem["rows"], kinds, strict=True)):
        if kind != "hard":
            limits.append(mu[position] == 0)
        elif row["sense"] != "==":
            limits.append(mu[position] >= 0 if row["sense"] == "<=" else mu[position] <= 0)
    slack = cp.Variable((len(prior), len(prior)), PSD=True)
    limits.append(sum(mu[i] * matrix for i, matrix in enumerate(matrices)) == slack)
    bounds = np.array([row["bound"] for row in problem["rows"]])
    # where only singular matrices are feasible the trace of A*(mu) takes the place of -mu . b
    goal = cp.trace(slack) if problem.get("only_singular") else -(mu @ bounds)
    limits += [mu @ bounds <= 0] if problem.get("only_singular") else []
    program = cp.Problem(cp.Maximize(goal), limits)
    program.solve(solver=cp.CLARABEL)
    say(f"{problem['name']}: margin of the proof {program.value:.4g}, weights {np.round(mu.value, 4)}")
    if not program.value > 1e-3:
        raise RuntimeError(f"{problem['name']} is not infeasible: {program.value}")
    support = [int(i) for i in np.flatnonzero(np.abs(mu.value) > 1e-4)]
    return problem | {"status": "INFEASIBLE", "margin": float(f"{program.value:.4g}"), "conflict": support}


def row_loss(divergence, kind, weight, scale, bound, value):
    """Loss of a violated row, in NumPy."""
    if kind == "plain":
        return weight / 2 * (value - bound) ** 2
    if kind == "scaled":
        return weight / 2 * ((value - bound) / scale) ** 2
    ratio = value / bound
    if divergence == "logdet":
        return weight * (ratio - np.log(ratio) - 1)
    return weight * bound * (ratio * np.log(ratio) - ratio + 1)


def primal_value(problem, prior, matrices, kinds, M):
    """Objective at M and the largest relative violation of its hard rows."""
    divergence = problem["divergence"]
    spectrum = np.linalg.eigvalsh(M)
    if divergence == "logdet":
        total = float(np.sum(spectrum - np.log(spectrum) - 1))
    elif divergence == "vonneumann":
        positive = spectrum[spectrum > 0]
        total = float(positive @ np.log(positive) - np.diag(M) @ (np.log(prior) + 1) + prior.sum())
    else:
        total = float(np.sum((M - np.diag(prior)) ** 2) / 2)
    worst = 0.0
    for (weight, kind, scale), row, matrix in zip(kinds, problem["rows"], matrices, strict=True):
        value, bound = float(np.sum(matrix * M)), row["bound"]
        excess = {"<=": value - bound, ">=": bound - value, "==": abs(value - bound)}[row["sense"]]
        if kind == "hard":
            worst = max(worst, excess / (abs(bound) or 1.0))
        elif two_sided(problem, row, kind) or excess > 0:
            total += row_loss(divergence, kind, weight, scale, bound, value)
    return total, worst


def dual_value(problem, prior, matrices, kinds, dual):
    """The lower bound that the multipliers prove."""
    divergence = problem["divergence"]
    adjoint = sum(mu * matrix for mu, matrix in zip(dual, matrices, strict=True))
    if divergence == "logdet":
        total = float(np.linalg.slogdet(np.eye(len(prior)) + adjoint)[1])
    elif divergence == "vonneumann":
        total = float(prior.sum() - np.exp(np.linalg.eigvalsh(np.diag(np.log(prior)) - adjoint)).sum())
    else:
        kept = np.maximum(np.linalg.eigvalsh(np.diag(prior) - adjoint), 0)
        total = float(prior @ prior / 2 - kept @ kept / 2)
    for mu, (weight, kind, scale), row in zip(dual, kinds, problem["rows"], strict=True):
        bound = row["bound"]
        if kind == "hard":
            total -= mu * bound
        elif kind in ("plain", "scaled"):
            total -= mu * bound + mu**2 / (2 * weight) * (scale**2 if kind == "scaled" else 1.0)
        elif divergence == "logdet":
            total += weight * np.log1p(-mu * bound / weight)
        else:
            total -= weight * bound * np.expm1(mu / weight)
    return total


def main():
    """Solve every problem, or those of the groups that are named, and write one file per group."""
    for group, members in problems.groups().items():
        if sys.argv[1:] and group not in sys.argv[1:]:
            continue
        entries = [refute(problem) if group == "infeasible" else solve(problem) for problem in members]
        lines = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in entries)
        (HERE / f"{group}.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
