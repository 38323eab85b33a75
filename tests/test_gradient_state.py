"""What the matrix exponentiated gradient learner is made of: files, parameters, chunks, what bad input, errors and Ctrl-C leave."""

import contextlib
import inspect
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone

import bregmat.online
from bregmat.online import MatrixExponentiatedGradient, OnlineLogDet, SpectralSpreadWarning, SquaredLoss
from gradient_streams import Logistic, Own, density, stream
from states import restored, saved_and_loaded, state_of

# noise takes labels beyond what the target's trace can predict; the warning has a test of its own
pytestmark = pytest.mark.filterwarnings("ignore::bregmat.online.UnreachableLabelWarning")


# ---------------------------------------------------------------- resume
RESUMED = {
    "pairs": {"dim": 9},
    "trace": {"dim": 9, "trace": 2.0},
    "a rate": {"dim": 9, "eta": 0.1},
    "vectors": {"instances": "vectors", "loss": SquaredLoss(), "eta": 0.1},
    "complex vectors": {"instances": "vectors"},
    "matrices": {"instances": "matrices", "loss_budget": 0.1},
    "prior": {"prior": np.diag(np.arange(1.0, 10.0)) / 45},
}


@pytest.mark.parametrize("case", RESUMED)
def test_a_resumed_learner_continues_to_the_same_bits(rng, case):
    settings = RESUMED[case]
    _, X, y = stream(rng, settings.get("instances", "pairs"), 9, 100, is_complex="complex" in case)
    X, y = np.tile(X, (50, *[1] * (X.ndim - 1)))[:2600], np.clip(np.tile(y, 50), 0, 1)[:2600]  # past a refresh
    if case == "matrices":
        X, y = X[:200], y[:200]
    half = len(y) // 2
    straight = MatrixExponentiatedGradient(**settings).partial_fit(X[:half], y[:half])
    state = state_of(straight)
    straight.partial_fit(X[half:], y[half:])
    resumed = restored(MatrixExponentiatedGradient, *state)
    assert resumed.n_seen_ == half
    resumed.predict_one(X[0])  # looking does not change anything
    resumed.matrix()
    resumed.partial_fit(X[half:], y[half:])
    assert resumed.cumulative_loss_ == straight.cumulative_loss_
    assert (resumed.matrix() == straight.matrix()).all()
    assert resumed.eta_ == straight.eta_
    assert resumed.loss_bound(loss_of_U=0.5) == straight.loss_bound(loss_of_U=0.5)
    if straight._state.tally is not None:
        U = np.eye(9) / 9 * straight.settings.trace
        assert resumed.loss_of(U) == straight.loss_of(U)


def test_a_learner_that_has_seen_nothing_can_be_saved():
    fresh = MatrixExponentiatedGradient(instances="vectors")
    again = saved_and_loaded(fresh)
    assert (again.dim, again.n_seen_, again.cumulative_loss_) == (None, 0, 0.0)
    assert "0 examples" in repr(again.learn_one([1.0, 0.0], 0.5)) or again.n_seen_ == 1


def test_blocks_do_not_matter(rng):
    _, X, y = stream(rng, "pairs", 8, 2500)
    whole = MatrixExponentiatedGradient(8).partial_fit(X, y)
    steps = MatrixExponentiatedGradient(8)
    for x, label in zip(X[:100], y[:100], strict=True):
        steps.learn_one(x, label)
    steps.partial_fit(X[100:], y[100:])
    assert (whole.matrix() == steps.matrix()).all()
    assert whole.cumulative_loss_ == steps.cumulative_loss_


def test_memory_is_flat(rng):
    _, X, y = stream(rng, "pairs", 8, 5000)
    learner = MatrixExponentiatedGradient(8)

    def size():
        return sum(a.nbytes for a in state_of(learner)[1].values())

    learner.partial_fit(X[:1], y[:1])
    before = size()
    learner.partial_fit(X[1:], y[1:])
    assert size() == before
    assert sum(v.nbytes for v in vars(learner._state).values() if isinstance(v, np.ndarray)) < 8 * (
        8 * 8 + 60 * 8 + 100
    )


# ---------------------------------------------------------------- bad input
WRONG = {
    "a == b": ("pairs", [(0, 1), (2, 2)], [0.1, 0.1], ValueError, r"different points; got \(2, 2\) in row 1"),
    "out of range": ("pairs", [(0, 4)], [0.1], ValueError, r"from 0 to 3; got \(0, 4\) in row 0"),
    "negative": ("pairs", [(0, -1)], [0.1], ValueError, "from 0 to 3"),
    "half an index": (
        "pairs",
        [(0.0, 0.5)],
        [0.1],
        ValueError,
        r"whole point numbers from 0 to 3; got \(0.0, 0.5\) in row 0",
    ),
    "three": ("pairs", [(0, 1, 2)], [0.1], ValueError, "shape .n, 2."),
    "names": ("pairs", [("a", "b")], [0.1], TypeError, "pairs of point numbers"),
    "NaN label": ("pairs", [(0, 1), (1, 2)], [0.1, np.nan], ValueError, "y must be finite; got nan in row 1"),
    "infinite label": ("pairs", [(0, 1)], [np.inf], ValueError, "y must be finite"),
    "negative label": ("pairs", [(0, 1), (1, 2)], [0.1, -0.2], ValueError, "at least 0: .*; got -0.2 in row 1. Clip"),
    "huge label": ("pairs", [(0, 1)], [1e200], ValueError, "too large"),
    "complex label": ("pairs", [(0, 1)], [1j], (TypeError, ValueError), "y must be real; got complex"),
    "too few labels": ("pairs", [(0, 1), (1, 2)], [0.1], ValueError, "one entry per example .2."),
    "short vector": (
        "vectors",
        [[1.0, 2.0]],
        [0.1],
        ValueError,
        "one vector of 4 numbers per row|is expecting 4 features",
    ),
    "NaN vector": (
        "vectors",
        [[1.0, np.nan, 0, 0]],
        [0.1],
        ValueError,
        "X must be finite; got NaN or infinity in row 0",
    ),
    "text vector": ("vectors", [["a", "b", "c", "d"]], [0.1], TypeError, "X must be numeric"),
    "not symmetric": ("matrices", [np.triu(np.ones((4, 4)))], [0.1], ValueError, r"X\[0\] must be symmetric"),
    "not Hermitian": ("matrices", [1j * np.ones((4, 4))], [0.1], ValueError, r"X\[0\] must be Hermitian"),
    "wrong dimension": ("matrices", [np.eye(4), np.eye(3)], [0.1, 0.1], ValueError, r"X\[1\] must have shape \(4, 4\)"),
    "NaN matrix": ("matrices", [np.full((4, 4), np.nan)], [0.1], ValueError, r"X\[0\] must be finite"),
    "sparse": ("matrices", [scipy.sparse.eye_array(5)], [0.1], ValueError, r"X\[0\] must have shape \(4, 4\)"),
    "one matrix": ("matrices", np.eye(4), [0.1] * 4, ValueError, "an array of shape .n, d, d. or a list"),
}


@pytest.mark.parametrize("case", WRONG)
def test_bad_input_leaves_the_state_unchanged(rng, case):
    kind, X, y, error, message = WRONG[case]
    learner = MatrixExponentiatedGradient(4, instances=kind, eta=0.3)
    _, good, labels = stream(rng, kind, 4, 5)
    learner.partial_fit(good, labels)
    before = state_of(learner)
    with pytest.raises(error, match=message):
        learner.partial_fit(X, y)
    if "label" not in case and case != "one matrix":
        with pytest.raises(error, match=message.replace("row 1", "row 0").replace(r"X\[1", r"X\[0")):
            learner.predict_one(X[-1])
    after = state_of(learner)
    assert before[0] == after[0]
    assert all((before[1][name] == after[1][name]).all() for name in before[1])


def test_labels_of_pairs_that_are_not_distances():
    """Classes may be negative, and zeros may be off by rounding."""
    MatrixExponentiatedGradient(3, loss=Logistic(), eta=0.1).learn_one((0, 1), -1.0)
    assert MatrixExponentiatedGradient(3).learn_one((0, 1), -1e-16).void_ is None


def test_parameters_as_scikit_learn_wants_them(rng):
    prior, loss = density(rng, 4), SquaredLoss()
    learner = MatrixExponentiatedGradient(prior=prior, loss=loss, eta=0.2).learn_one((0, 1), 1.0)
    assert learner.get_params()["prior"] is prior and learner.get_params()["dim"] is None
    twin = clone(learner)
    assert twin.n_seen_ == 0 and repr(twin.get_params()) == repr(learner.get_params())
    assert twin.set_params(eta=0.3) is twin and twin.eta_ == 0.3 and twin.dim_ == 4
    with pytest.raises(ValueError, match="Invalid parameter 'rate'"):
        twin.set_params(rate=1.0)
    assert twin.eta_ == 0.3
    for use in (
        lambda: clone(twin).set_params(eta=-1.0).eta_,
        lambda: clone(twin).set_params(eta=-1.0).learn_one((0, 1), 1.0),
    ):
        with pytest.raises(ValueError, match="eta must be"):
            use()
    again = saved_and_loaded(learner)
    assert np.abs(again.get_params()["prior"] - prior).max() < 1e-15 and clone(again).dim_ == 4


class Broken(Own):
    """Not finite from the third example on; the fourth raises."""

    def __init__(self, raises):
        self.calls, self.raises = 0, raises

    def derivative(self, prediction, label):
        self.calls += 1
        if self.calls == 3 and self.raises:
            raise ZeroDivisionError("mine")
        return np.nan if self.calls == 3 else 0.3


@pytest.mark.parametrize("kind", ["vectors", "matrices"])
@pytest.mark.parametrize(("raises", "error"), [(True, ZeroDivisionError), (False, FloatingPointError)])
def test_a_failing_loss_takes_the_whole_block_back(rng, kind, raises, error):
    _, X, y = stream(rng, kind, 4, 5)
    learner = MatrixExponentiatedGradient(4, loss=Broken(raises), eta=0.3, instances=kind)
    with pytest.warns(SpectralSpreadWarning), pytest.raises(error):
        learner.partial_fit(2 * X, y)
    assert (learner.n_seen_, learner.cumulative_loss_, learner.void_ is None) == (0, 0.0, True)
    assert np.abs(learner.matrix() - np.eye(4) / 4).max() < 1e-15
    unknown = MatrixExponentiatedGradient(loss=Broken(raises), eta=0.3, instances=kind)
    with pytest.raises(error):
        unknown.partial_fit(X, y)
    assert unknown.dim is None


ARGUMENTS = [
    ({"dim": 0}, ValueError, "dim must be at least 1"),
    ({"dim": 2.5}, TypeError, "dim must be an integer"),
    ({"dim": None}, ValueError, "dim must be given for instances='pairs'"),
    ({"eta": 0.0}, ValueError, "eta must be 'bound' or positive and finite; got 0.0"),
    ({"eta": -1.0}, ValueError, "eta"),
    ({"eta": np.nan}, ValueError, "eta"),
    ({"eta": "best"}, TypeError, "eta must be 'bound' or a number"),
    ({"loss": Own()}, ValueError, "eta='bound' is the rate of Lemma 3.2"),
    ({"loss": "huber"}, ValueError, "loss must be .*'squared'"),
    ({"loss": 3}, TypeError, "value.prediction, label."),
    ({"trace": 0.0}, ValueError, "trace must be positive"),
    ({"spectral_spread": np.inf}, ValueError, "spectral_spread must be positive and finite"),
    ({"loss_budget": -1.0}, ValueError, "loss_budget must be finite and at least 0"),
    ({"instances": "triples"}, ValueError, "instances must be one of 'pairs', 'vectors', 'matrices'; got"),
    ({"prior": np.eye(3) / 3}, ValueError, r"prior must have shape \(4, 4\)"),
    ({"prior": np.eye(4)}, ValueError, "prior must have the trace 1, the argument trace; got 4"),
    ({"prior": np.diag([1.0, 0.0, 0.0, 0.0])}, ValueError, "prior must be positive definite"),
    ({"prior": np.triu(np.ones((4, 4)))}, ValueError, "prior must be symmetric"),
    ({"prior": "identity"}, TypeError, "prior must be numeric; got 'identity'"),
]


@pytest.mark.parametrize(("arguments", "error", "message"), ARGUMENTS)
def test_arguments(arguments, error, message):
    learner = MatrixExponentiatedGradient(**{"dim": 4, **arguments})  # as in scikit-learn, asked when it is used
    for use in (lambda: learner.settings, lambda: learner.learn_one((0, 1), 0.5), lambda: learner.predict([[0, 1]])):
        with pytest.raises(error, match=message):
            use()
    assert not [name for name in vars(learner) if name.startswith("_")]


def test_signature():
    parameters = inspect.signature(MatrixExponentiatedGradient).parameters
    assert next(iter(parameters)) == "dim"
    assert all(p.kind is p.KEYWORD_ONLY for name, p in parameters.items() if name != "dim")
    with pytest.raises(ValueError, match="dim is not known yet"):
        MatrixExponentiatedGradient(instances="vectors").matrix()


# ---------------------------------------------------------------- Ctrl-C
HERE = str(Path(bregmat.online.__file__).parent)


@contextlib.contextmanager
def interrupted_after(steps):
    """Ctrl-C after so many bytecodes within the online learners; yields a list that tells whether it came."""
    left, came, before = [steps], [], sys.gettrace()

    def trace(frame, event, arg):
        if not frame.f_code.co_filename.startswith(HERE) or came:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            left[0] -= 1
            if left[0] < 0:
                came.append(True)
                raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        yield came
    except KeyboardInterrupt:
        assert came
    finally:
        sys.settrace(before)


def bits(learner):
    meta, arrays = state_of(learner)
    return repr(meta), {name: array.tobytes() for name, array in arrays.items()}


INTERRUPTED = {
    "pairs": {},
    "vectors": {"instances": "vectors"},
    "matrices": {"instances": "matrices"},
}


@pytest.mark.parametrize("case", INTERRUPTED)
@pytest.mark.parametrize("n", [1, 2])
def test_an_interrupt_leaves_a_trial_undone_or_done(rng, case, n):
    """The state and the tally of the stream never disagree; at most what follows the last trial can come too late."""
    settings = INTERRUPTED[case]
    _, X, y = stream(rng, settings.get("instances", "pairs"), 4, 8)
    y = np.maximum(y, 0.0)
    # after 2000 trials the normaliser, or the eigenvectors, are refreshed: before the first of the trials below
    many, labels = np.resize(X[:5], (2000, *X.shape[1:])), np.resize(y[:5], 2000)
    start = MatrixExponentiatedGradient(4, **settings).partial_fit(many, labels)
    state, before = state_of(start), bits(start)
    after = bits(start.partial_fit(X[5 : 5 + n], y[5 : 5 + n]))
    undone, done = 0, 0
    for steps in range(0, 100_000, 7):
        learner = restored(MatrixExponentiatedGradient, *state)
        with interrupted_after(steps) as came:
            learner.partial_fit(X[5 : 5 + n], y[5 : 5 + n])
        found = bits(learner)
        assert found in (before, after), steps
        if not came:
            break
        undone, done = undone + (found == before), done + (found == after)
        if found == before and steps % 5 == 0:
            assert bits(learner.partial_fit(X[5 : 5 + n], y[5 : 5 + n])) == after
    assert not came and undone > 20 and done <= 6


def test_the_first_example_interrupted():
    """Nothing of the dimension is left, and a trial is not lost on the way to it."""
    for steps in range(0, 10_000, 5):
        learner = MatrixExponentiatedGradient(instances="vectors")
        with interrupted_after(steps) as came:
            learner.learn_one([0.6, 0.5], 0.3)
        if learner.n_seen_ == 0:
            assert (learner.dim, learner._state) == (None, None)
            assert not hasattr(learner, "eta_")
        else:
            assert learner.n_seen_ == 1 and learner.dim_ == 2
        if not came:
            return


@pytest.mark.parametrize("known", [True, False])
def test_an_interrupted_metric(known):
    for steps in range(0, 10_000, 5):
        learner = OnlineLogDet(differences=True)
        if known:
            learner.learn_one([1.0, 0.0], 2.0)
        with interrupted_after(steps) as came:
            learner.learn_one([0.0, 1.0], 0.5)
        assert learner.n_seen_ in (known, 1 + known)
        assert hasattr(learner, "n_features_in_") == (learner.n_seen_ > 0)
        if not came:
            return


def test_a_failed_first_example_leaves_no_learning_rate():
    learner = MatrixExponentiatedGradient(loss=Broken(False), eta=0.3, instances="vectors")
    with pytest.raises(FloatingPointError):
        learner.partial_fit(0.5 * np.eye(4), np.zeros(4))
    assert learner.dim is None and not hasattr(learner, "eta_")


# ---------------------------------------------------------------- what belongs to the caller
def test_the_tally_is_the_learners_own(rng):
    state = state_of(MatrixExponentiatedGradient(4).learn_one((0, 1), 0.2))
    one, two = (restored(MatrixExponentiatedGradient, *state) for _ in range(2))
    U = density(rng, 4)
    before = two.loss_of(U)
    one.learn_one((0, 1), 0.9)
    assert two.loss_of(U) == before


def test_points_to_transform():
    learner = MatrixExponentiatedGradient(4)
    assert learner.transform(2.0).shape == (4,) and learner.transform([]).shape == (0, 4)
    for points, error in (([9], ValueError), ([1, -1], ValueError), ([0.7], ValueError), (["a"], TypeError)):
        with pytest.raises(error, match="points must hold"):
            learner.transform(points)
    with pytest.raises(ValueError, match=r"points must hold whole point numbers from 0 to 3; got -1 in row 1"):
        learner.transform([1, -1])


def test_chunks_of_a_table_are_the_whole_stream(rng, tmp_path):
    _, X, y = stream(rng, "pairs", 5, 90)
    path = tmp_path / "pairs.csv"
    pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y}).to_csv(path, index=False)
    learner = MatrixExponentiatedGradient(5)
    for rows in pd.read_csv(path, chunksize=40):
        learner.partial_fit(rows[["a", "b"]], rows["y"])
    whole = MatrixExponentiatedGradient(5).partial_fit(X, y)
    assert learner.n_seen_ == 90
    assert np.array_equal(learner.matrix(), whole.matrix())
    assert learner.cumulative_loss_ == whole.cumulative_loss_
