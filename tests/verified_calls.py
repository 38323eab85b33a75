"""Every result of the test suite verified: the doors that return results are wrapped once, before any test imports them."""

import functools
import importlib
import inspect
import sys
import threading
import time
import tracemalloc
from dataclasses import replace
from functools import reduce
from operator import add

import numpy as np

from bregmat import Constraints, Factor, MatrixResult, verify
from bregmat.base.points import CheckedPoints
from bregmat.coordinates.priors import Coordinates
from bregmat.sharded.sources import LazyPoints, constraint_sources

LARGEST = 5e7  # operations of a verification, about a tenth of a second: larger problems are counted and left out
MOST = 1e7  # numbers that are read of data in files
DOORS = {
    "bregmat.nearest": ("nearest_kernel", "nearest_metric"),
    "bregmat.applications.correlation": ("nearest_correlation", "factor_correlation", "shrink_correlation"),
    "bregmat.applications.cut": ("balanced_cut",),
    "bregmat.applications.simplex": ("nearest_distribution", "boost_hypotheses"),
    "bregmat.applications.semidefinite": ("semidefinite_program",),
    "bregmat.applications.unfolding": ("unfold",),
    "bregmat.applications.softmax": ("softmax_metric",),
    "bregmat.quadratic": ("nnqp",),
    "bregmat.margin.train": ("trained",),  # of train_margin and of MarginSVC
}
counts = {"verified": 0, "too large": 0, "measured": 0, "of solve alone": 0, "seconds": 0.0}
is_on = True
inside = threading.local()  # how many doors are open, one in another


def operations(result, arguments):
    """About what a verification costs."""
    if hasattr(result, "pairs"):
        return 100.0 * len(result.factor) ** 3
    if "scores" in arguments:
        n, m = result.values.shape
        d = len(result.coordinates.t0)
        return 6.0 * n * m * d + 60.0 * d**3
    if hasattr(result, "coordinates"):
        r, c, prior = len(result.coordinates.t0), len(result.dual), arguments.get("prior")
        n, d = np.shape(getattr(arguments["X"], "points", arguments["X"])) if "X" in arguments else (0, 0)
        if prior is None:
            touched = min(n, arguments["constraints"].index.max(initial=0) + 1)
            order = d if d <= max(300, touched) else touched
        else:
            shape = np.shape(getattr(prior, "G0", prior))
            n, order = n or shape[0], min(shape) if hasattr(prior, "G0") else max(shape)
        linear = int(arguments["constraints"].where("takes_matrix").sum())
        return 60.0 * max(r, order) ** 3 + 4.0 * c * r**2 + 2.0 * linear * n**2
    if hasattr(result, "relaxation_bound"):
        return 60.0 * len(result.labels) ** 3
    if hasattr(result, "residual"):
        return 80.0 * len(result.X) ** 3
    shapes = [np.shape(x) for name, x in arguments.items() if name in ("A", "X", "H")]
    return 50.0 * float(np.prod(shapes[0]))


def in_memory(arguments, result):
    """Rows, points and priors as arrays that a user could give, and the result with them; None where they are too large."""
    if "constraints" not in arguments:
        return arguments, result
    prior = arguments.get("prior")
    if isinstance(prior, Factor) and isinstance(prior.G0, CheckedPoints):  # a prior that a learner has computed
        prior = Factor(prior.G0.points)
        arguments = arguments | {"prior": prior}
    points = arguments["X"] if "X" in arguments else getattr(prior, "G0", prior)
    rows = arguments["constraints"]
    if isinstance(points, LazyPoints):
        if np.prod(points.shape) > MOST:
            return None, result
        name, whole = ("X", points[:]) if "X" in arguments else ("prior", Factor(points[:]))
        arguments = arguments | {name: whole}
    if not isinstance(rows, Constraints):
        if len(result.dual) > MOST:
            return None, result
        rows = reduce(add, [shard.read() for shard in constraint_sources(rows, len(result.dual))])
        arguments = arguments | {"constraints": rows}
    if not isinstance(result.dual, np.ndarray):
        result = replace(result, dual=np.asarray(result.dual), values=np.asarray(result.values))
    return arguments, result


def check(function, given, arguments, result):
    """Fail where a verification disagrees with a result of a door."""
    if tracemalloc.is_tracing():  # memory is measured, and a verification's own would count
        counts["measured"] += 1
        return
    problem = given["problem"] if function == "trained" else arguments
    if function != "trained":
        problem, result = in_memory(arguments, result)
    cost = np.inf if problem is None else 5.0 * problem.n**2 if function == "trained" else operations(result, problem)
    if not cost <= LARGEST:
        counts["too large"] += 1
        return
    began = time.process_time()
    found = verify(result, **({"problem": problem} if function == "trained" else problem))
    counts["seconds"] += time.process_time() - began
    counts["verified"] += 1
    if found.problems:
        raise AssertionError(f"{function}: {found!r}\n{result!r}")


def verify_outcome(outcome, problem, X, constraints, **settings):
    """Fail where a verification disagrees with a run of the loop alone, for points X (n, r) whose metric has a diagonal prior.

    ``settings``: loss and slack weight of the problem.
    """
    result = problem.result(MatrixResult, outcome, Coordinates(X, problem.t0))
    arguments = {"X": X, "prior": np.diag(problem.prior), "divergence": problem.divergence, "constraints": constraints}
    counts["of solve alone"] -= 1
    check("nearest_metric", None, arguments | settings, result)


def wrapped(function):
    """The same function, whose results are verified."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def door(*args, **kwargs):
        inside.door = getattr(inside, "door", 0) + 1
        try:
            result = function(*args, **kwargs)
        finally:
            inside.door -= 1
        if not is_on:
            return result
        given = signature.bind(*args, **kwargs).arguments
        check(function.__name__, given, {k: v for k, v in given.items() if v is not None or k == "total"}, result)
        return result

    return door


def counted(solve):
    """The same loop; runs that no door started are counted."""

    @functools.wraps(solve)
    def run(*args, **kwargs):
        counts["of solve alone"] += is_on and not getattr(inside, "door", 0)
        return solve(*args, **kwargs)

    return run


def install():
    """Put the wrapped doors in the place of the plain ones in every module of the library."""
    import bregmat.applications.unfolding
    import bregmat.engine.loop
    import bregmat.estimators
    import bregmat.online

    for module in DOORS:
        importlib.import_module(module)
    bregmat.engine.loop.solve = counted(bregmat.engine.loop.solve)
    for module, names in DOORS.items():
        for name in names:
            plain = getattr(sys.modules[module], name)
            verified = wrapped(plain)
            for place in [
                m for key, m in list(sys.modules.items()) if key.split(".")[0] == "bregmat" and m is not None
            ]:
                for attribute, value in list(vars(place).items()):
                    if value is plain:
                        setattr(place, attribute, verified)
    for name in (
        "nearest_correlation",
        "factor_correlation",
        "shrink_correlation",
        "balanced_cut",
        "nearest_distribution",
        "boost_hypotheses",
        "semidefinite_program",
        "nnqp",
    ):
        assert hasattr(getattr(bregmat, name), "__wrapped__"), name
