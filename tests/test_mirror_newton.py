"""Mirror Newton's stages: heavy slack weights are approached from light ones, and what is certified is the problem itself."""

import numpy as np
import pytest

from bregmat import Constraints, ExitReason, Status, nearest_metric
from cases import DIVERGENCES


@pytest.fixture(scope="module")
def labelled():
    """200 points of four classes, columns over a decade, and what 3,000 pairs of them ask for."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 15)) * np.linspace(0.2, 2.0, 15)
    y = rng.integers(0, 4, 200)
    X[:, :4] += 2.0 * np.eye(4)[y]
    i = rng.integers(0, 200, 3000)
    j = (i + rng.integers(1, 200, 3000)) % 200
    near, far = np.percentile(((X[i] - X[j]) ** 2).sum(1), (5, 95))
    same = y[i] == y[j]
    return X, Constraints.sq_distance(i, j, np.where(same, near, far), np.where(same, "<=", ">="))


@pytest.mark.parametrize("weight", [1e4, 1e6])
@pytest.mark.parametrize("divergence", [D.name for D in DIVERGENCES if D.keeps_range])
def test_heavy_slack_is_solved(labelled, divergence, weight):
    """400 steps ended at gaps of nearly 1 and more."""
    result = nearest_metric(*labelled, divergence=divergence, slack_weight=weight, solver="mirror_newton", max_iter=400)
    assert result.status is Status.OPTIMAL


def test_a_run_that_ends_before_the_last_stage_speaks_of_the_whole_problem(labelled):
    solved = nearest_metric(*labelled, slack_weight=1e4, solver="mirror_newton")
    stopped = nearest_metric(*labelled, slack_weight=1e4, solver="mirror_newton", max_iter=5)
    assert (stopped.status, stopped.exit_reason) == (Status.FEASIBLE, ExitReason.MAX_ITER)
    assert stopped.dual_bound <= solved.objective <= stopped.objective
    assert stopped.history[-2].objective >= solved.objective  # of the whole problem, not of the stage


def test_a_warm_start_has_no_stages(labelled):
    first = nearest_metric(*labelled, slack_weight=1e4, solver="mirror_newton")
    again = nearest_metric(*labelled, slack_weight=1e4, solver="mirror_newton", warm_start=first)
    assert again.status is Status.OPTIMAL
    assert again.n_iter <= 3
