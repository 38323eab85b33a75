"""Streams: records, Ctrl-C, bad examples, and moving targets."""

import signal
import threading
import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from bregmat.io import load, save
from bregmat.online import (
    MatrixExponentiatedGradient,
    OnlineLogDet,
    OnlinePCA,
    StreamError,
    StreamExit,
    UnreachableLabelWarning,
    run_stream,
)
from states import restored, state_of

D = 12


def kernel(rng, d=D):
    """A random PSD matrix of trace one."""
    G = rng.standard_normal((d, 4))
    return G @ G.T / (G * G).sum()


def examples(rng, n, U):
    """Pairs and half their squared distances."""
    d = len(U)
    a = rng.integers(0, d, n)
    b = (a + rng.integers(1, d, n)) % d
    return np.column_stack([a, b]), 0.5 * (U[a, a] + U[b, b] - 2.0 * U[a, b])


@pytest.fixture
def U(rng):
    return kernel(rng)


@pytest.fixture
def data(rng, U):
    X, y = examples(rng, 2500, U)
    return X, np.maximum(y + 0.01 * rng.standard_normal(2500), 0.0)


def bits(learner):
    """Everything that decides how a learner goes on."""
    meta, arrays = state_of(learner)
    return meta, {name: (a.dtype, a.shape, a.tobytes()) for name, a in arrays.items()}


def chunks(X, y, size):
    return [(X[k : k + size], y[k : k + size]) for k in range(0, len(y), size)]


def stop_at(position):
    """A callback that ends a run."""
    return lambda record: record.position >= position


# ---------------------------------------------------------------------------------------------- one run
def test_a_run_is_partial_fit_with_records(data):
    X, y = data
    plain = MatrixExponentiatedGradient(D).partial_fit(X, y)
    run = run_stream(MatrixExponentiatedGradient(D), chunks(X, y, 700), every=500)
    assert run.exit_reason is StreamExit.END
    assert [r.position for r in run.history] == [500, 1000, 1500, 2000, 2500]
    assert_array_equal(run.learner.matrix(), plain.matrix())
    assert run.loss == plain.cumulative_loss_ == run.history[-1].loss
    assert run.bound == plain.loss_bound()
    assert all(np.diff([r.loss for r in run.history]) > 0) and all(np.diff([r.seconds for r in run.history]) >= 0)


def test_examples_one_by_one_and_chunks_mix(data):
    X, y = data[0][:60], data[1][:60]
    mixed = [*((tuple(x), t) for x, t in zip(X[:20], y[:20])), (X[20:], y[20:])]
    one = run_stream(MatrixExponentiatedGradient(D), mixed, every=16)
    other = run_stream(MatrixExponentiatedGradient(D), [(X, y)], every=16)
    assert_array_equal(one.learner.matrix(), other.learner.matrix())
    assert [r.position for r in one.history] == [r.position for r in other.history] == [16, 32, 48, 60]


def test_each_example_is_learned_when_it_arrives(data):
    """A live stream is not held back until a block is full."""
    learner, seen = MatrixExponentiatedGradient(D), []

    def live():
        for x, t in zip(data[0][:5], data[1][:5]):
            yield x, t
            seen.append(learner.n_seen_)

    run_stream(learner, live())
    assert seen == [1, 2, 3, 4, 5]


def test_records_stay_few(data):
    X, y = np.tile(data[0], (2, 1)), np.tile(data[1], 2)
    run = run_stream(MatrixExponentiatedGradient(D), [(X, y)], every=1)
    positions = [r.position for r in run.history]
    assert 512 <= len(positions) <= 1025  # every second record is dropped beyond 1024
    assert positions[-1] == 5000 and set(np.diff(positions[:-1])) == {8}


@pytest.mark.slow
def test_memory_does_not_grow_with_the_stream(data):
    X, y = data

    def peak(n):
        learner = MatrixExponentiatedGradient(D)
        tracemalloc.start()
        run_stream(learner, ((X, y) for _ in range(n)), every=100)
        memory = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return memory

    peak(1)
    # 40 chunks beside 5: a stream kept would be 1.6 MB more; the records of 40 take some 0.1 MB
    assert peak(40) < peak(5) + 4e5


def test_callback_ends_the_run(data):
    run = run_stream(MatrixExponentiatedGradient(D), [data], every=500, callback=stop_at(1000))
    assert run.exit_reason is StreamExit.INTERRUPTED
    assert run.position == run.learner.n_seen_ == 1000


def test_an_empty_stream():
    run = run_stream(MatrixExponentiatedGradient(D), [])
    assert (run.position, run.loss, len(run.history)) == (0, 0.0, 1)
    assert np.isnan(run.bound)
    assert run_stream(OnlinePCA(2), []).loss == 0.0


def test_the_bound_for_a_known_matrix(rng, U):
    """Lemma 3.2 with U known: on a stream that U fits the loss of U is rounding, and the bound is about twice the loss."""
    run = run_stream(MatrixExponentiatedGradient(D), [examples(rng, 3000, U)], bound=lambda it: it.loss_bound(U))
    assert run.learner.loss_of(U) > 0.0 and np.isinf(run.learner.loss_bound(U, run.learner.loss_of(U)))
    assert run.bound == run.learner.loss_bound(U)
    assert all(r.loss <= r.bound for r in run.history)
    assert 1.0 < run.bound / run.loss < 4.0


def test_a_bound_that_cannot_hold_is_void_in_words(rng, U):
    """Squared distances as they come, at trace 1: nothing fits, and nobody is shown a bound below the loss."""
    X, y = examples(rng, 3000, U)
    with pytest.warns(UnreachableLabelWarning):
        run = run_stream(MatrixExponentiatedGradient(D), [(X, 100.0 * y)], every=500)
    assert run.bound == np.inf and run.history[-1].void.startswith("no matrix of trace 1 fits this stream exactly")
    assert "no matrix of trace 1" in repr(run) and len(repr(run)) < 500 and "6 records" in repr(run)


def test_the_bound_for_a_matrix_that_does_not_fit(data, U):
    learner = MatrixExponentiatedGradient(D, loss_budget=0.5)
    run = run_stream(learner, [data], every=500, bound=lambda it: it.loss_bound(U))
    assert all(r.loss <= r.bound < np.inf for r in run.history)
    assert run.history[0].bound < run.history[-1].bound


def test_other_learners(rng):
    Z, y = rng.standard_normal((300, 4)), rng.uniform(1, 2, 300)
    run = run_stream(OnlineLogDet(eta=0.1, differences=True), chunks(Z, y, 70), every=100)
    assert_array_equal(run.learner.components_, OnlineLogDet(eta=0.1, differences=True).fit(Z, y).components_)
    assert np.isnan(run.bound) and run.loss == run.learner.cumulative_loss_
    plain = OnlinePCA(2).fit(Z)
    for rows in (
        ((Z[k : k + 70], None) for k in range(0, 300, 70)),
        (Z[k : k + 70] for k in range(0, 300, 70)),
        [(z, None) for z in Z],
        iter(Z),
        ((z.tolist(), label) for z, label in zip(Z, y)),
        (tuple(z) for z in Z),
    ):
        pca = run_stream(OnlinePCA(2), rows, every=100)
        assert pca.learner.n_samples_seen_ == 300 and pca.loss <= pca.bound
        assert_array_equal(pca.learner.components_, plain.components_)
    two = run_stream(OnlinePCA(1), iter(Z[:, :2]))  # rows of two numbers are no (instance, label)
    assert two.learner.n_samples_seen_ == 300
    with pytest.raises(
        StreamError, match=r"example 1 of the stream: this learner takes rows, .*\(row, None\); got int"
    ):
        run_stream(OnlinePCA(2), [Z[0], 7])


def test_similar_and_dissimilar_pairs(rng):
    pairs, y = rng.standard_normal((90, 2, 4)), rng.uniform(1, 2, 90)
    sense = rng.choice(["==", "<=", ">="], 90)
    whole = OnlineLogDet().fit(pairs, y, sense=sense)
    items = [((x, x2), label, s) for (x, x2), label, s in zip(pairs, y, sense.tolist())]
    for stream in (items, [(pairs[:50], y[:50], sense[:50]), *items[50:]]):
        assert_array_equal(run_stream(OnlineLogDet(), stream, every=40).learner.components_, whole.components_)
    once = run_stream(OnlineLogDet(), [(pairs, y, "<=")], every=40)
    assert_array_equal(once.learner.components_, OnlineLogDet().fit(pairs, y, sense="<=").components_)
    for learner, item, message in (
        (OnlineLogDet(), (pairs, y, sense[:5]), "a chunk of 90 instances and 5 senses"),
        (OnlineLogDet(), (pairs[0], y[0], "<"), "example 0 of the stream: sense must be"),
        (
            MatrixExponentiatedGradient(3),
            ((0, 1), 0.1, "<="),
            r"takes \(instance, label\) or \(instances, labels\); got",
        ),
    ):
        with pytest.raises(StreamError, match=message):
            run_stream(learner, [item])


# ---------------------------------------------------------------------------------------------- bad examples
BAD = [
    ((3, 3), 0.1, r"must hold pairs of different points; got \(3, 3\)\."),
    ((0, D), 0.1, r"point numbers from 0 to 11; got \(0, 12\)\."),
    ((-1, 2), 0.1, r"point numbers from 0 to 11; got \(-1, 2\)\."),
    ((0, 1), np.nan, r"y must be finite; got nan\."),
]


@pytest.mark.parametrize(("pair", "label", "message"), BAD)
def test_a_bad_example_is_named_and_the_block_is_not_learned(data, pair, label, message):
    X, y = data[0].copy(), data[1].copy()
    X[1234], y[1234] = pair, label
    learner = MatrixExponentiatedGradient(D)
    with pytest.raises(StreamError, match=f"^example 1234 of the stream: .*{message}") as caught:
        run_stream(learner, chunks(X, y, 700), every=500)
    assert caught.value.position == 1234
    before = MatrixExponentiatedGradient(D)
    for block in ((0, 500), (500, 700), (700, 1000)):
        before.partial_fit(X[slice(*block)], y[slice(*block)])
    assert bits(learner) == bits(before)


def test_a_mended_stream_goes_on_to_the_same_bits(data, tmp_path):
    """What was learned is saved, and its rest of the stream learned after loading."""
    X, y = data
    broken = y.copy()
    broken[1234] = np.inf
    learner = MatrixExponentiatedGradient(D)
    with pytest.raises(StreamError, match="example 1234"):
        run_stream(learner, chunks(X, broken, 700), every=500)
    save(tmp_path / "m.bm", learner)
    rest = load(tmp_path / "m.bm")
    assert rest.n_seen_ == 1000
    run_stream(rest, chunks(X[1000:], y[1000:], 700))
    whole = MatrixExponentiatedGradient(D).partial_fit(X, y)
    assert_array_equal(rest.matrix(), whole.matrix())
    assert rest.cumulative_loss_ == whole.cumulative_loss_


@pytest.mark.parametrize("item", [7, (1, 2, 3), np.zeros((3, 3)), (np.zeros((2, 2)), np.zeros(3))])
def test_items_that_are_no_examples(data, item):
    with pytest.raises(StreamError, match="^example 2500 of the stream"):
        run_stream(MatrixExponentiatedGradient(D), [data, item])


def test_other_arguments(data):
    learner = MatrixExponentiatedGradient(D)
    for wrong, kind, message in (
        ({"every": 0}, ValueError, "every must be at least 1; got 0"),
        ({"every": 1.5}, TypeError, "every must be an integer"),
        ({"callback": 5}, TypeError, "callback must be a function or None; got 5"),
        ({"bound": 5}, TypeError, "bound must be a function or None; got 5"),
    ):
        with pytest.raises(kind, match=message):
            run_stream(learner, [data], **wrong)
    with pytest.raises(TypeError, match="stream must be an iterable of examples or chunks; got 5"):
        run_stream(learner, 5)
    with pytest.raises(
        TypeError, match="learner must be a MatrixExponentiatedGradient, an OnlineLogDet or an OnlinePCA; got 5"
    ):
        run_stream(5, [data])
    assert learner.n_seen_ == 0


# ---------------------------------------------------------------------------------------------- Ctrl-C
def test_ctrl_c_waits_for_the_block_and_keeps_the_state(data, tmp_path):
    X, y = data
    whole = run_stream(MatrixExponentiatedGradient(D), chunks(X, y, 700), every=500)

    class Interrupted(MatrixExponentiatedGradient):
        """Somebody presses Ctrl-C while the block that ends at 1000 is learned."""

        def partial_fit(self, X, y):
            if self.n_seen_ == 700:
                signal.raise_signal(signal.SIGINT)
            return super().partial_fit(X, y)

    learner = Interrupted(D)
    with pytest.warns(RuntimeWarning, match="run_stream was interrupted after 1000 examples"):
        run = run_stream(learner, chunks(X, y, 700), every=500)
    assert run.exit_reason is StreamExit.INTERRUPTED
    assert run.position == learner.n_seen_ == 1000
    assert [r.position for r in run.history] == [500, 1000]
    save(tmp_path / "m.bm", restored(MatrixExponentiatedGradient, *state_of(learner)))
    rest = load(tmp_path / "m.bm")
    for part in ((1000, 1400), (1400, 1500), (1500, 2000), (2000, 2100), (2100, 2500)):
        rest.partial_fit(X[slice(*part)], y[slice(*part)])
    assert bits(rest) == bits(whole.learner)


def test_ctrl_c_while_waiting_for_the_stream(data):
    def live():
        yield data
        signal.raise_signal(signal.SIGINT)
        yield data

    with pytest.warns(RuntimeWarning, match="run_stream was interrupted after 2500 examples"):
        run = run_stream(MatrixExponentiatedGradient(D), live())
    assert run.exit_reason is StreamExit.INTERRUPTED and run.position == 2500


def test_threads_are_left_alone(data):
    runs = []
    thread = threading.Thread(target=lambda: runs.append(run_stream(MatrixExponentiatedGradient(D), [data])))
    thread.start()
    thread.join()
    assert runs[0].position == 2500
