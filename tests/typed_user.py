"""A user's script, for type checkers: ``make types`` reads it with mypy and pyright, both strict; nothing runs it.

What must be found wrong says so; mypy is not told where it cannot see a mistake, because scikit-learn has no types and a class with an
unknown base may take any argument. A comment that ignores nothing is an error of its own, so that each line marked below fails the
check as soon as the mistake in it is no longer seen.
"""
# pyright: strict, reportMissingTypeStubs=false, reportUnusedExpression=false
# (scipy has no stubs; what is wrong stands alone)

from typing import assert_type

import numpy as np
import scipy.sparse as sp

import bregmat
import bregmat.online
from bregmat import Constraints, MetricLearner, nearest_kernel
from bregmat.typing import Array, Frame

X = np.random.default_rng(0).normal(size=(30, 4))
y = np.arange(30) % 3


# ---------------------------------------------------------------- what is right
def rows() -> Constraints:
    near = Constraints.sq_distance([0, 1], [3, 4], bound=1.0, sense="<=")
    far = Constraints.sq_distance(np.array([0, 1]), np.array([5, 6]), [4.0, 5.0], [">=", ">="], weight=2)
    named = Constraints.similarity(["a"], ["b"], 0.5, "==").select([True])
    told = Constraints.from_pairs([(0, 1), (2, 3)], [1, -1], bounds=(1.0, 4.0))
    assert_type(named.n_constraints, int)
    return near + far + told + Constraints.comparison([0], [1], [2], [3], margin=1.0) + Constraints.trace(1.0)


def problems() -> bregmat.MatrixResult:
    result = nearest_kernel(
        np.eye(30), rows(), divergence="vonneumann", loss=bregmat.SquaredHinge(), slack_weight=[1.0]
    )
    again = nearest_kernel(bregmat.Factor(X), rows(), divergence=bregmat.LogDet(), loss="squared", warm_start=result)
    metric = bregmat.nearest_metric(sp.csr_array(X), rows(), solver=bregmat.CyclicProjection())
    assert_type(result.gap, float)
    assert_type(again.n_iter, int)
    assert_type(metric, bregmat.MatrixResult)
    print(result.status is bregmat.Status.OPTIMAL, result.kernel().trace(), metric.transform(X).shape)
    return bregmat.check(metric)


def estimators() -> None:
    learner = MetricLearner("logdet", slack_weight=10, strategy="random", prior=np.eye(4), random_state=0).fit(X, y)
    assert_type(learner, MetricLearner)
    assert_type(learner.result_, bregmat.MatrixResult)
    print(learner.transform(X.tolist()).shape, learner.components_.T, learner.pair_distance(X[:4].reshape(2, 2, 4)))
    kernels = bregmat.KernelLearner("rbf", gamma=0.1).fit(X, constraints=rows())
    print(kernels.kernel(X, X).shape)
    print(bregmat.KernelKMeans(3, kernel="rbf").fit(X).labels_)
    machine = bregmat.MarginSVC(C=10.0, gamma="scale", class_weight="balanced").fit(X, y, sample_weight=np.ones(30))
    print(machine.decision_function(X), machine.predict(X))


def others() -> None:
    solution = bregmat.nnqp(np.eye(2), [-1.0, -1.0], upper=1.0, solver="pivoting")
    assert_type(solution, bregmat.QPResult)
    print(solution.x)
    assert_type(bregmat.nearest_correlation([[1.0, 0.9], [0.9, 1.0]]).matrix, Array | Frame)
    print(bregmat.balanced_cut(np.ones((4, 4)), random_state=0).labels)
    print(bregmat.nearest_distribution([0.5, 0.5], [[1.0, 0.0]], [0.3], "<=").x)
    assert_type(bregmat.Factor(X).widened(0.1), bregmat.Factor)
    drawn = bregmat.constraints_from_labels(X, y, strategy="neighbors", form="comparison")
    assert_type(drawn, Constraints)


def streams() -> None:
    online = bregmat.MatrixExponentiatedGradient(30, eta=0.1, loss="squared", instances="pairs")
    online.learn_one((0, 1), 0.5)
    assert_type(online.predict_one((0, 1)), float)
    metric = bregmat.OnlineLogDet(4).partial_fit(X.reshape(-1, 2, 4), np.ones(15), sense="<=")
    print(metric.components_, bregmat.OnlinePCA(2).fit(X).transform(X))
    print(bregmat.online.OnlinePCA)


def files(path: str) -> None:
    bregmat.save(path, problems(), info={"made": "today"})
    assert_type(bregmat.load(path, MetricLearner), MetricLearner)
    print(bregmat.load(path), bregmat.verify(problems()), bregmat.verify(problems(), X=np.eye(30)))


# ---------------------------------------------------------------- what is wrong
def mistakes() -> None:
    bregmat.nosuch  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    bregmat.online.nosuch  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    MetricLearner(slack_weight="automatic")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    MetricLearner("log_det")  # pyright: ignore[reportArgumentType]
    MetricLearner(strategy="neighbours")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    MetricLearner(solver="newton")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    MetricLearner(prior="inverse")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    MetricLearner(slack_weights=1.0)  # pyright: ignore[reportCallIssue]
    MetricLearner().fit(X, y, rows())  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    MetricLearner().fit(X, constraints=[(0, 1)])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Constraints.sq_distance([0], [1], 1.0, "<")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Constraints.sq_distance([0], [1], "near", "<=")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    nearest_kernel(np.eye(30), rows(), loss="hinge")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    nearest_kernel(np.eye(30), rows(), tol="small")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    problems().optimum  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    bregmat.MarginSVC(kernel="gauss")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    bregmat.nnqp(np.eye(2), [1.0, 1.0], solver="simplex")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    bregmat.MatrixExponentiatedGradient(instances="triples")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    bregmat.KernelKMeans("3")  # pyright: ignore[reportArgumentType]
    bregmat.save(3, X)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
