"""A divergence and a loss of a user's own, through every door: solvers, files, report, command line.

Both are registered in one file each (toy_divergence.py, toy_loss.py); the contract suite checks them beside the library's.
"""

import pickle
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from typer.testing import CliRunner

from bregmat import (
    Constraints,
    KernelLearner,
    MetricLearner,
    ScalarLoss,
    SpectralDivergence,
    SquaredHinge,
    VonNeumann,
    load,
    nearest_correlation,
    nearest_kernel,
    nearest_metric,
    save,
    verify,
)
from bregmat.io import write_points
from bregmat.pairs import PairsLearner
from bregmat_app.cli.app import app
from cases import SOLVERS, random_pairs
from toy_divergence import EntropyWithBarrier
from toy_loss import PseudoHuber

OWN = {name for name, solver in SOLVERS.items() if type(solver).__module__.startswith("bregmat.")}  # the library's

TOYS = [
    {"divergence": "entropy_with_barrier"},
    {"divergence": EntropyWithBarrier(share=0.1), "loss": "relative_slack"},
    {"divergence": EntropyWithBarrier(share=2.0), "loss": "squared"},
    {"loss": "pseudo_huber"},
    {"divergence": "vonneumann", "loss": PseudoHuber(width=0.3)},
    {"divergence": "frobenius", "loss": PseudoHuber()},
    {"divergence": EntropyWithBarrier(), "loss": PseudoHuber()},
]


def named(given):
    return "-".join(getattr(x, "name", x) for x in given.values())


def problem(seed=3, n=12, d=4, c=24):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, random_pairs(rng, X, c)


def test_the_toys_are_as_short_as_the_house_promises():
    for name in ("toy_divergence.py", "toy_loss.py"):
        assert len(Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines()) <= 40


# ---------------------------------------------------------------- solvers
@pytest.mark.parametrize("slack_weight", [0.5, 20.0, 1e3])
@pytest.mark.parametrize("given", TOYS, ids=named)
def test_every_solver_solves_or_refuses_by_name(given, slack_weight):
    X, rows = problem()
    given = given | {"slack_weight": slack_weight}
    taken = {}
    for name in SOLVERS:
        steps = []
        try:
            limit = None if name in OWN else 300  # a user's own solver may be slow, but not wrong
            run = {"solver": name, "tol": 1e-8, "max_iter": limit, "callback": steps.append}
            taken[name] = nearest_metric(X, rows, **given, **run)
        except TypeError as error:
            assert f"{name} needs" in str(error)
            whose = {
                "cyclic_projection": "entropy_with_barrier|pseudo_huber|frobenius",
                "definite_boost": "trace",
            }
            assert re.search(whose.get(name, ""), str(error))
            assert steps == []  # before the first step
    assert set(taken) & OWN == OWN - {"cyclic_projection", "definite_boost"}
    best = max(result.dual_bound for result in taken.values())
    for name, result in taken.items():
        assert best <= result.objective + 1e-10 * max(1.0, result.objective)
        if name in OWN:
            assert result.status == "OPTIMAL", repr(result)
            assert result.objective - best <= 2e-8 * max(1.0, result.objective)
    assert nearest_metric(X, rows, **given, tol=1e-8).status == "OPTIMAL"


def test_objective_from_its_definition():
    X, rows = problem()
    D, loss = EntropyWithBarrier(share=0.3), PseudoHuber(width=0.5)
    result = nearest_metric(X, rows, divergence=D, loss=loss, slack_weight=4.0, tol=1e-9)
    W = result.B @ result.B.T
    p = rows.values(X @ result.B)
    hit = np.where(rows.sense > 0, p > rows.bound, p < rows.bound)
    x = (p / rows.bound - 1)[hit] / 0.5
    expected = D(W, np.eye(4)) + 4.0 * (0.25 * (np.sqrt(1 + x**2) - 1)).sum()
    assert result.objective == pytest.approx(expected, rel=1e-9)


def test_the_interior_point_moves_the_bounds_of_a_loss_that_it_has_never_seen():
    """A loss it did not know once stayed where it was, without a word: objective 1,708 in the place of 1.51."""
    X, rows = problem(seed=0, n=30, d=3, c=60)
    solvers = ("mirror_newton", "dual_newton", "interior_point")
    results = [nearest_metric(X, rows, loss=PseudoHuber(), slack_weight=0.1, solver=name) for name in solvers]
    assert [result.status for result in results] == ["OPTIMAL"] * 3
    assert np.ptp([result.objective for result in results]) <= 2e-6 * max(1.0, results[0].objective)


@pytest.mark.parametrize("solver", ["auto", "dual_newton", "interior_point"])
def test_hard_rows(solver):
    X, rows = problem(c=4)
    weight = np.array([np.inf, 1.0, np.inf, 1.0])
    result = nearest_metric(X, rows, divergence="entropy_with_barrier", slack_weight=weight, solver=solver)
    assert result.status == "OPTIMAL"
    assert result.max_violation <= 1e-9


def test_rows_that_only_a_singular_matrix_meets():
    """phi(0) is infinite here, as for LogDet, so that must-links contradict the rest."""
    result = nearest_kernel(np.eye(3), Constraints.sq_distance(0, 1, 0.0, "<="), divergence="entropy_with_barrier")
    assert result.status == "INFEASIBLE"
    assert list(result.conflict) == [0]


def test_low_rank_priors_keep_their_range():
    rng = np.random.default_rng(0)
    G = rng.normal(size=(8, 3))
    result = nearest_kernel(G @ G.T, random_pairs(rng, G, 6), divergence=EntropyWithBarrier(), slack_weight=1.0)
    assert result.status == "OPTIMAL"
    assert np.linalg.matrix_rank(result.kernel(), tol=1e-8) == 3


def test_correlation_matrices():
    C = np.array([[1.2, 0.9, 0.1], [0.9, 1.1, 0.3], [0.1, 0.3, 0.9]])
    result = nearest_correlation(C, divergence="entropy_with_barrier")
    assert result.status == "OPTIMAL"
    assert np.allclose(np.diag(result.X), 1.0)


@dataclass(frozen=True)
class Power(SpectralDivergence):
    """Finite for singular matrices outside the range of the prior, as Frobenius is."""

    name: ClassVar[str] = "power"
    p: float = 1.5

    def phi(self, x):
        return x**self.p / (self.p * (self.p - 1))

    def link(self, x):
        return x ** (self.p - 1) / (self.p - 1)

    def inverse_link(self, t):
        return (np.maximum(t, 0) * (self.p - 1)) ** (1 / (self.p - 1))


@pytest.mark.parametrize("slack_weight", [1.0, 100.0, np.inf])
@pytest.mark.parametrize("p", [1.2, 1.5, 2.0])
def test_a_divergence_that_does_not_keep_the_range(p, slack_weight):
    X, rows = problem()
    rows = rows if np.isfinite(slack_weight) else rows.select(slice(0, 4))
    given = {"divergence": Power(p), "slack_weight": slack_weight, "tol": 1e-7}
    result = nearest_metric(X, rows, **given)
    assert result.status == "OPTIMAL"
    assert result.objective >= result.dual_bound - 1e-12 * result.objective
    if np.isfinite(slack_weight):
        other = nearest_metric(X, rows, **given, solver="interior_point")
        assert other.objective == pytest.approx(result.objective, rel=3e-7)
    if p == 2.0:
        assert nearest_metric(X, rows, **given | {"divergence": "frobenius"}).objective == pytest.approx(
            result.objective, rel=3e-7
        )


def test_correlations_refuse_what_they_have_no_method_for():
    with pytest.raises(TypeError, match="needs a divergence that keeps the range, .*'frobenius' does; got 'power'"):
        nearest_correlation(np.eye(3), divergence=Power())


# ---------------------------------------------------------------- estimators, files, report, command line
def test_estimators_take_and_keep_them(tmp_path):
    X, rows = problem()
    given = {"divergence": EntropyWithBarrier(share=0.2), "loss": PseudoHuber(width=2.0), "slack_weight": 3.0}
    for learner, fed in ((MetricLearner(**given), X), (KernelLearner(**given), X)):
        learner.fit(fed, constraints=rows)
        save(tmp_path / "model.bregmat", learner)
        restored = load(tmp_path / "model.bregmat")
        assert restored.get_params()["divergence"] == given["divergence"]
        assert restored.get_params()["loss"] == given["loss"]
        assert np.array_equal(restored.transform(X[:3]), learner.transform(X[:3]))


def test_results_are_saved_pickled_and_started_from(tmp_path):
    X, rows = problem()
    given = {"divergence": EntropyWithBarrier(share=0.2), "slack_weight": 3.0}
    result = nearest_metric(X, rows, **given)
    save(tmp_path / "result.bregmat", result)
    for again in (load(tmp_path / "result.bregmat"), pickle.loads(pickle.dumps(result))):
        assert again.objective == result.objective
        assert np.array_equal(again.transform(X), result.transform(X))
    assert nearest_metric(X, rows, **given, warm_start=load(tmp_path / "result.bregmat")).n_iter <= 1


def test_a_file_needs_the_name(tmp_path):
    @dataclass(frozen=True)
    class Unregistered(EntropyWithBarrier):
        pass

    X, rows = problem()
    result = nearest_metric(X, rows, divergence=Unregistered(), slack_weight=3.0)
    assert result.status == "OPTIMAL"
    with pytest.raises(TypeError, match=r"'entropy_with_barrier' must be known.*bregmat.register\(Unregistered\)"):
        save(tmp_path / "result.bregmat", result)
    known = nearest_metric(X, rows, divergence=EntropyWithBarrier(), slack_weight=3.0)
    save(tmp_path / "result.bregmat", known)
    elsewhere = [sys.executable, "-c", "import bregmat; bregmat.load('result.bregmat')"]
    done = subprocess.run(elsewhere, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "ModelFileError" in done.stderr
    assert "'entropy_with_barrier', which is not known here; import the module" in done.stderr


@pytest.mark.slow
def test_command_line_and_report(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), np.repeat(["a", "b"], 20)
    X[:, 0] += 2.0 * (y == "b")
    write_points(tmp_path / "points.csv", X, names=["a", "b", "c"], columns={"kind": y})
    asked = ["learn", "points.csv", "--labels", "kind", "--divergence", "entropy_with_barrier", "--out", "m.bregmat"]
    done = CliRunner().invoke(app, [*asked, "--report", "report.html", "--folds", "0"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "entropy_with_barrier" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert load(tmp_path / "m.bregmat").divergence == "entropy_with_barrier"
    shown = CliRunner().invoke(app, ["inspect", "m.bregmat"], catch_exceptions=False)
    assert "entropy_with_barrier" in shown.output


# ---------------------------------------------------------------- what does not belong together is refused
def altered(base, **functions):
    return type("Altered", (base,), functions)()


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        ({"link": lambda self, x: 1.01 * np.log(x)}, "inverse_link must be the inverse of link"),
        ({"phi": lambda self, x: 1.01 * (x * np.log(x) - x)}, "link must be the derivative of phi"),
        ({"phi": lambda self, x: float((x * np.log(x) - x).sum())}, "phi must give one finite value for each"),
        ({"link": lambda self, x: -np.log(x), "inverse_link": lambda self, t: np.exp(-t)}, "link must increase"),
        ({"is_congruence_invariant": True}, "only LogDet is invariant"),
    ],
)
def test_divergences_that_contradict_themselves(functions, message):
    D = altered(VonNeumann, **functions)
    with pytest.raises(ValueError, match=f"'vonneumann': {message}"):
        nearest_kernel(np.eye(2), Constraints.diagonal([1.0, 2.0]), divergence=D)


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        ({"slope": lambda self, q, c: 1.01 * (q - c)}, "at_slope must be the inverse of slope"),
        ({"cost": lambda self, q, c: (q - c) ** 2}, "slope must be the derivative of cost"),
        ({"cost": lambda self, q, c: 0.5 * (q - c) ** 2 + 1}, "slope must increase, and cost and slope must be 0"),
        ({"at_slope": lambda self, m, c: 1.0}, "at_slope must give one finite value"),
    ],
)
def test_losses_that_contradict_themselves(functions, message):
    loss = altered(SquaredHinge, **functions)
    with pytest.raises(ValueError, match=f"'squared_hinge': {message}"):
        nearest_kernel(np.eye(2), Constraints.diagonal([1.0, 2.0]), loss=loss, slack_weight=1.0)


def test_what_is_no_divergence_and_no_loss():
    class Duck:
        name = "duck"
        link = inverse_link = phi = cost = slope = at_slope = staticmethod(np.exp)

    with pytest.raises(TypeError, match=f"got .*Duck.*, which has no base class {SpectralDivergence.__name__}"):
        nearest_kernel(np.eye(2), Constraints.diagonal([1.0, 2.0]), divergence=Duck())
    with pytest.raises(TypeError, match=f"got .*Duck.*, which has no base class {ScalarLoss.__bases__[0].__name__}"):
        nearest_kernel(np.eye(2), Constraints.diagonal([1.0, 2.0]), loss=Duck(), slack_weight=1.0)


# ---------------------------------------------------------------- rooms that know of no terms
@pytest.mark.parametrize("given", [*TOYS, {"solver": "mirror_descent"}], ids=named)
def test_blocks_threads_and_the_second_opinion(given):
    """Rows in blocks, on threads, and what recomputes results apart from the solvers take them as they take the library's."""
    X, rows = problem()
    given = given | {"slack_weight": 2.0, "tol": 1e-6}
    result = nearest_metric(X, rows, **given)
    found = verify(result, X=X, constraints=rows, **given)
    assert (result.status, found.status, found.problems) == ("OPTIMAL", "OPTIMAL", [])
    for where in ({"block_size": 7}, {"executor": 2}):
        if "solver" in given:
            with pytest.raises(TypeError, match="need solver='mirror_newton' or 'auto'; got 'mirror_descent'"):
                nearest_metric(X, rows, **given, **where)
            continue
        other = nearest_metric(X, rows, **given, **where)
        assert other.status == "OPTIMAL"
        assert abs(other.objective - result.objective) <= 2e-6 * max(1.0, result.objective)
    pairs, y = np.stack([X[:6], X[6:]], axis=1), np.array([1, -1] * 3)
    learner = PairsLearner(**given).fit(pairs, y)
    assert learner.result_.solver == given.get("solver", learner.result_.solver)
    assert learner.result_.status == "OPTIMAL"


def test_midpoints_in_every_solver_and_in_blocks():
    """A relation of one's own: solved or refused by name, and the same in blocks and to the second opinion."""
    X, _ = problem()
    rows = Constraints.of("midpoint", [0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], bound=0.5, sense="<=")
    best = nearest_metric(X, rows, slack_weight=2.0, tol=1e-8)
    solved = {}
    for name in SOLVERS:
        try:
            solved[name] = nearest_metric(X, rows, slack_weight=2.0, tol=1e-8, solver=name)
        except TypeError as error:
            assert f"{name} needs" in str(error)
    assert {"mirror_newton", "dual_newton", "interior_point", "mirror_descent"} <= set(solved)
    for result in (*solved.values(), nearest_metric(X, rows, slack_weight=2.0, tol=1e-8, block_size=2)):
        assert abs(result.objective - best.objective) <= 1e-6 * max(1.0, best.objective)
    assert verify(best, X=X, constraints=rows, slack_weight=2.0).status == "OPTIMAL"
