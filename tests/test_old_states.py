"""States of version 1, as the first model files hold them, come back in today's words."""

import numpy as np
import pytest

from bregmat import CutResult, DistributionResult, ExitReason, MatrixResult, QPResult, Status
from bregmat.applications.correlation.result import CorrelationResult, Repair
from bregmat.margin.result import MarginResult

STORY = {"status": "FEASIBLE", "exit_reason": "MAX_ITER", "tol": 1e-6, "n_iter": 3, "seconds": 0.25, "solver": "some"}
HISTORY = np.array([[0.0, 0.1, 5.0, np.nan, np.nan, 0.5], [1.0, 0.2, 4.0, 3.0, 0.25, 0.0]])
ONES = np.ones(2)

# class, what was written beside STORY, and attributes that it has to come back with
STATES = {
    "matrix": (
        MatrixResult,
        {
            "coordinates": {"identity": True, "owns_base": False},
            "chart": {"kind": "factored", "logdet": np.log(16.0)},
            "proof": {"upper": 4.0, "objective": 4.0, "dual_bound": 3.0, "gap": "inf", "violation": 0.125},
        },
        {"t0": -ONES, "frame": 2.0 * np.eye(2), "dual": ONES, "values": ONES, "violation": ONES, "trace.step": ONES},
        {"objective": 4.0, "dual_bound": 3.0, "gap": np.inf, "max_violation": 0.125, "conflict": None},
    ),
    "correlation": (
        CorrelationResult,
        {
            "objective": 4.0,
            "dual_bound": 3.0,
            "gap": "inf",
            "max_violation": 0.0,
            "residual": 2.0,
            "divergence": "logdet",
            "min_eig": 0.0,
            "rank": None,
            "repaired": ["clip", 1, 0.5, 1e-6],
            "labels": [["a", "b"], ["a", "b"]],
        },
        {"X": np.eye(2), "rows": np.zeros((2, 2), int), "dual": ONES},
        {"objective": 4.0, "gap": np.inf, "repaired": Repair("clip", 1, 0.5, 1e-6), "labels": (["a", "b"], ["a", "b"])},
    ),
    "cut": (
        CutResult,
        {"cut": 4.0, "imbalance": 0, "lower_bound": 3.0, "relaxation_bound": 2.5, "gap": 0.25},
        {"labels": np.array([0, 1]), "dual": ONES},
        {"objective": 4.0, "dual_bound": 3.0, "cut": 4.0, "lower_bound": 3.0, "max_violation": 0.0},
    ),
    "distribution": (
        DistributionResult,
        {"objective": 4.0, "dual_bound": 3.0, "gap": 0.25, "max_violation": 0.0},
        {"x": ONES, "dual": ONES, "values": ONES, "violation": ONES, "conflict": np.array([1])},
        {"objective": 4.0, "dual_bound": 3.0},
    ),
    "qp": (
        QPResult,
        {
            "objective": 4.0,
            "dual_bound": 3.0,
            "gap": 0.25,
            "kkt_residual": 0.5,
            "max_violation": 0.0,
            "bound_perturbation": 0.0,
        },
        {"x": ONES, "dual": ONES, "equality_dual": np.zeros(0)},
        {"objective": 4.0, "kkt_residual": 0.5, "direction": None, "conflict": None},
    ),
    "margin": (  # whose objective was the dual value
        MarginResult,
        {
            "intercept": 0.5,
            "objective": 3.0,
            "bound": 4.0,
            "gap": 0.25,
            "max_violation": 0.0,
            "margin_bound": np.nan,
            "price": 1.0,
        },
        {"alpha": ONES, "decision": ONES, "certified": np.array([True, False]), "certified_support": np.array([1, 0])},
        {"objective": 4.0, "dual_bound": 3.0, "intercept": 0.5, "price": 1.0},
    ),
}


@pytest.mark.parametrize("name", STATES)
def test_state_of_version_1(name):
    cls, meta, arrays, wanted = STATES[name]
    result = cls.from_state(STORY | meta, arrays | {"history": HISTORY})
    assert (result.status, result.exit_reason) == (Status.FEASIBLE, ExitReason.MAX_ITER)
    assert (result.tol, result.n_iter, result.seconds, result.solver) == (1e-6, 3, 0.25, "some")
    assert {name: getattr(result, name) for name in wanted} == wanted
    assert [row.objective for row in result.history] == [5.0, 4.0]
    np.testing.assert_array_equal(result.dual if name != "margin" else result.alpha, ONES)
    if name == "matrix":
        np.testing.assert_array_equal(result.metric(), 4.0 * np.eye(2))
        np.testing.assert_array_equal(result.trace["step"], ONES)
    again = cls.from_state(*result.to_state())
    assert repr(again) == repr(result)
