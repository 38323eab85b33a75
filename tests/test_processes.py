"""Threads and processes: the same bits on any number of threads, forks after use, limits that overlap."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from bregmat import MatrixExponentiatedGradient, OnlineLogDet, OnlinePCA
from bregmat.base import threads
from bregmat.base.threads import held_interrupts, in_parts, single_thread_blas, single_thread_for

THREADS = "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"
PROBLEMS = """
    import numpy as np, warnings
    import bregmat
    warnings.simplefilter("ignore")  # runs are cut short
    rng = np.random.default_rng(5)

    def margin():
        X = np.random.default_rng(1).normal(size=(2500, 12))
        model = bregmat.MarginSVC(max_iter=400, random_state=0).fit(X, X[:, 0] * X[:, 1] > 0)
        return model.decision_function(X)

    def metric(n_pairs=60_000):
        X = np.random.default_rng(2).normal(size=(1000, 60))
        i, j = np.random.default_rng(3).integers(0, 500, (2, n_pairs))
        rows = bregmat.Constraints.sq_distance(i, j + 500, 90.0, "<=")
        return bregmat.nearest_metric(X, rows, slack_weight=1.0, max_iter=3).metric()
"""


def python(code, n_threads):
    """What a fresh interpreter prints; a fork that hangs ends by the time limit."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=os.environ | dict.fromkeys(THREADS, str(n_threads)),
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def child(code, n_threads):
    """The same, with the problems defined."""
    return python(textwrap.dedent(PROBLEMS) + textwrap.dedent(code), n_threads)


@pytest.fixture
def blas(monkeypatch):
    """Two libraries that count, one of them with a limit for each thread."""

    class Library:
        def __init__(self, threading_layer):
            self.threading_layer, self.counts = threading_layer, {}

        @property
        def key(self):
            return threading.get_ident() if self.threading_layer == "openmp" else None

        @property
        def num_threads(self):
            return self.counts.get(self.key, 7)

        def set_num_threads(self, n):
            self.counts[self.key] = n

    libraries = [Library("pthreads"), Library("openmp")]
    monkeypatch.setattr(threads, "_libraries", lambda: libraries)
    return lambda: [library.num_threads for library in libraries]


# ---------------------------------------------------------------- one BLAS thread
def test_overlapping_limits_restore_what_was_there(blas):
    """The first in leaves while the second is inside: it restored 7, and the second, last out, left 1 for good."""
    inside, leave = threading.Event(), threading.Event()
    seen = []

    def second():
        with single_thread_blas():
            seen.append(blas())
            inside.set()
            leave.wait(10)
            seen.append(blas())
        seen.append(blas())

    thread = threading.Thread(target=second)
    with single_thread_blas():
        thread.start()
        assert inside.wait(10)
        with single_thread_blas():
            assert blas() == [1, 1]
    assert blas() == [1, 7]  # of the process, of this thread
    leave.set()
    thread.join()
    assert seen == [[1, 1], [1, 1], [7, 7]] and blas() == [7, 7]


def test_a_limit_that_an_interrupt_kept_from_leaving_is_lifted(blas):
    holder = single_thread_blas()
    holder.__enter__()
    assert blas() == [1, 1]
    del holder  # as when Ctrl-C comes between the end of the block and its exit
    assert blas() == [7, 7]
    with single_thread_for(64):
        assert blas() == [7, 7]


def test_an_example_at_a_time_leaves_blas_alone(monkeypatch):
    """Small products take one thread by themselves; setting it took a third of each trial."""
    set_to = []
    monkeypatch.setattr(threads, "_set_threads", lambda library, n: set_to.append(n))
    learners = MatrixExponentiatedGradient(6), OnlineLogDet(differences=True), OnlinePCA(2)
    examples = (0, 3), np.arange(4.0), np.arange(5.0)
    for learner, x in zip(learners, examples):
        labels = () if learner is learners[2] else (0.5,)
        learner.learn_one(x, *labels)  # the first one makes its matrix
        set_to.clear()
        learner.learn_one(x, *labels)
        assert set_to == []
    assert [learner.n_seen_ for learner in learners[:2]] == [2, 2]
    with single_thread_blas():
        assert set_to and set(set_to) == {1}


def test_many_threads_leave_blas_as_it_was():
    import scipy.linalg  # noqa: F401 - has a BLAS of its own
    from threadpoolctl import threadpool_info, threadpool_limits

    def counts():
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    def limited(k):
        for _ in range(10):
            with single_thread_blas():
                assert set(counts()) == {1}
        return k

    with threadpool_limits(2, user_api="blas"), ThreadPoolExecutor(8) as pool:
        before = counts()
        assert sum(pool.map(limited, range(8))) == 28
        assert counts() == before


# ---------------------------------------------------------------- shared loops
@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_every_number_is_in_one_part(monkeypatch, n_threads):
    monkeypatch.setattr(threads, "n_threads", lambda: n_threads)
    for size, work, unit in ((0, 1e9, 1), (1, 1e9, 4), (10, 0.0, 1), (1003, 5e6, 4), (1003, 1e9, 4), (70, 1e8, 1)):
        counts = np.zeros(size, int)

        def run(start, stop, size=size, unit=unit, counts=counts):
            assert start % unit == 0 and (stop % unit == 0 or stop == size)
            counts[start:stop] += 1

        in_parts(run, size, work, unit)
        assert (counts == 1).all()


def test_threads_that_share_their_loops_do_not_wait_for_each_other(monkeypatch):
    monkeypatch.setattr(threads, "n_threads", lambda: 4)
    outer, inner = [], []  # lengths of parts; appending is atomic

    def nested(start, stop):
        outer.append(stop - start)
        in_parts(lambda first, last: inner.append(last - first), 100, 1e8)

    with ThreadPoolExecutor(16) as pool:
        runs = [pool.submit(in_parts, nested, 100, 1e8) for _ in range(32)]
        for run in runs:
            run.result(timeout=30)
    assert sum(outer) == 32 * 100 and len(outer) > 32
    assert sum(inner) == len(outer) * 100


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, MemoryError])
def test_an_error_in_a_part_ends_the_loop(monkeypatch, error):
    monkeypatch.setattr(threads, "n_threads", lambda: 3)
    begun = []

    def run(start, stop):
        begun.append(start)
        if len(begun) == 5:
            raise error("part")

    with pytest.raises(error):
        in_parts(run, 10_000, 1e9)
    count = len(begun)
    assert count < 100
    in_parts(run, 10, 1e9)  # the helpers are there for the next one
    assert len(begun) == count + 10


# ---------------------------------------------------------------- processes
@pytest.mark.slow
def test_a_fork_after_use_computes_as_its_parent_does():
    """And several threads at once, in the parent and in the children."""
    out = child(
        """
        import multiprocessing
        from concurrent.futures import ThreadPoolExecutor

        def both(_):
            return margin(), metric()

        def in_threads(k):
            with ThreadPoolExecutor(2) as pool:
                return list(pool.map(both, range(2)))[k % 2]

        first = both(0)
        for with_threads in (in_threads(0), *multiprocessing.get_context("fork").Pool(2).map(in_threads, range(2))):
            for a, b in zip(first, with_threads):
                assert (a == b).all()
        print("same")
        """,
        n_threads=2,
    )
    assert out == "same\n"


def test_a_fork_inside_another_threads_limit_gets_its_threads_back():
    out = child(
        """
        import os, threading
        from bregmat.base.threads import n_threads, single_thread_blas
        from threadpoolctl import threadpool_info
        counts = lambda: {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}
        np.ones((300, 300)) @ np.ones((300, 300))
        inside, leave = threading.Event(), threading.Event()
        def other():
            with single_thread_blas():
                inside.set(); leave.wait()
        threading.Thread(target=other, daemon=True).start()
        inside.wait()
        assert counts() == {1} and n_threads() == 2
        if os.fork() == 0:
            good = counts() == {2}
            with single_thread_blas():
                good = good and counts() == {1}
            os._exit(0 if good and counts() == {2} else 1)
        code = os.waitstatus_to_exitcode(os.wait()[1])
        leave.set()
        print(code)
        """,
        n_threads=2,
    )
    assert out == "0\n"


def test_a_fork_inside_another_threads_property_does_not_wait_for_it():
    """Python 3.11's cached properties hold one lock for all objects of a class, which a fork keeps locked."""
    out = child(
        """
        import os, threading
        from bregmat.base.threads import cached_property

        inside, leave = threading.Event(), threading.Event()

        class Slow:
            @cached_property
            def wide(self):
                inside.set(); leave.wait()
                return 1

        slow, ready = Slow(), Slow()
        threading.Thread(target=lambda: slow.wide, daemon=True).start()
        inside.wait()
        if os.fork() == 0:
            leave.set()
            os._exit(0 if ready.wide == 1 else 1)
        code = os.waitstatus_to_exitcode(os.wait()[1])
        leave.set()
        print(code)
        """,
        n_threads=2,
    )
    assert out == "0\n"


@pytest.mark.slow
def test_one_thread_and_two_give_the_same_bits():
    """Estimators, batch solvers and streams, at sizes where BLAS and shared loops take several threads."""
    code = """
        import hashlib
        X = rng.normal(size=(540, 540))
        y = rng.integers(0, 3, 540)

        def learner():
            model = bregmat.KernelLearner(max_iter=2, random_state=0).fit(X[:, :20], y)
            return np.hstack([model.transform(X[:40, :20]), model.kernel(X[:40, :20])])

        def stream():
            model = bregmat.MatrixExponentiatedGradient(500, instances="vectors")
            for x in X[:3, :500] / 30:
                model.learn_one(x, 1.0)
            return model.partial_fit(X[3:9, :500] / 30, np.ones(6)).matrix()

        def correlation():
            C = X + X.T
            np.fill_diagonal(C, 1.0)
            return bregmat.nearest_correlation(C / 40, scale=True, max_iter=3).matrix

        def clusters():
            return bregmat.KernelKMeans(3, random_state=0, n_init=1, max_iter=3).fit(X).inertia_

        for part in (margin, metric, learner, stream, correlation, clusters):
            print(part.__name__, hashlib.sha256(np.ascontiguousarray(part())).hexdigest())
        """
    one, two = (child(code, n) for n in (1, 2))
    assert one.count("\n") == 6 and one == two


def test_a_second_ctrl_c_does_not_wait():
    before = signal.getsignal(signal.SIGINT)
    reached = False
    with pytest.raises(KeyboardInterrupt), held_interrupts():
        signal.raise_signal(signal.SIGINT)
        reached = True
        signal.raise_signal(signal.SIGINT)
        raise AssertionError
    assert reached and signal.getsignal(signal.SIGINT) is before


@pytest.mark.slow
def test_load_and_ends_at_random_moments():
    """The short form of `make soak`."""
    script = Path(__file__).with_name("soak.py")
    done = subprocess.run(
        [sys.executable, str(script), "--here", "--scale", "0.01"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("\n") == 10  # a line a part
