"""Load: threads, processes, long runs, and ends at random moments: `make soak`; the tests run a short form.

    python tests/soak.py --scale 1 --seed 0

Every part runs in a process of its own with a time limit, and says what it did and by how much its memory grew in its second half.
"""

import argparse
import functools
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import bregmat
from bregmat import ExitReason, Status
from bregmat.base.threads import n_threads

MEGABYTES = (
    24  # by which memory may grow after the first tenth of a part: pools of threads, buffers that stay with a thread
)
DATA = np.random.default_rng(0)
X, PAIRS = DATA.normal(size=(150, 6)), DATA.integers(0, 75, (2, 300)) + [[0], [75]]
Y = (X[:, 0] * X[:, 1] > 0).astype(int)
ROWS = bregmat.Constraints.sq_distance(*PAIRS, 2.0, "<=") + bregmat.Constraints.sq_distance([1, 2], [5, 9], 6.0, ">=")


def resident():
    """Megabytes of memory that this process has."""
    with open("/proc/self/statm") as handle:
        return int(handle.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def estimators():
    """Fresh estimators and what of them must not change, by name."""
    return {
        "metric": (bregmat.MetricLearner(random_state=0), lambda m: m.transform(X)),
        "kernel": (bregmat.KernelLearner(random_state=0, rank=20), lambda m: m.kernel(X[:40])),
        "margin": (bregmat.MarginSVC(random_state=0), lambda m: m.decision_function(X)),
        "clusters": (bregmat.KernelKMeans(3, kernel="rbf", random_state=0), lambda m: m.predict(X)),
    }


def fitted(name):
    """One of them, fitted, as numbers."""
    model, use = estimators()[name]
    return use(model.fit(X, Y))


def solved(kind, **limits):
    """A result of one of the batch problems."""
    if kind == "hard":
        return bregmat.nearest_metric(X, ROWS, **limits)
    if kind == "soft":
        return bregmat.nearest_kernel(X @ X.T + np.eye(150), ROWS, divergence="vonneumann", slack_weight=1.0, **limits)
    if kind == "correlation":
        return bregmat.nearest_correlation(np.cos(X @ X.T) + np.diag(1 - np.cos((X * X).sum(1))), **limits)
    return bregmat.nnqp(X @ X.T + np.eye(150), -np.ones(150), **limits)


SOLVED = ("hard", "soft", "correlation", "quadratic")


def point(result):
    """The point of a result, as numbers."""
    name = {"CorrelationResult": "matrix", "QPResult": "x"}.get(type(result).__name__, "factor")
    return getattr(result, name)


def agree(found, wanted):
    assert np.array_equal(found, wanted), f"differs by {np.abs(np.subtract(found, wanted)).max()}"


class Memory:
    """Growth of memory in the second half of a number of turns."""

    def __init__(self, turns):
        self.first, self.base, self.growth = max(1, turns // 2), None, 0.0

    def turn(self, k):
        if k >= self.first:
            now = resident()
            self.base = now if self.base is None else self.base
            self.growth = max(self.growth, now - self.base)
            assert self.growth < MEGABYTES, f"memory grew by {self.growth:.0f} MB in {k} turns"

    def __str__(self):
        return f"memory grew by {self.growth:.1f} MB"


# ---------------------------------------------------------------- threads and processes
def shared_estimators(scale, rnd):
    """16 threads use the same fitted estimators, and fit and solve beside."""
    models = {name: (model.fit(X, Y), use) for name, (model, use) in estimators().items()}
    wanted = {name: use(model) for name, (model, use) in models.items()}
    answers = {kind: point(solved(kind)) for kind in SOLVED}
    before, turns = n_threads(), max(16, int(1600 * scale))
    memory = Memory(turns)

    def turn(k):
        name, kind = list(models)[k % 4], SOLVED[(k // 4) % 4]
        model, use = models[name]
        agree(use(model), wanted[name])
        if k % 8 == 3:
            agree(fitted(name), wanted[name])
        if k % 8 == 5:
            agree(point(solved(kind)), answers[kind])
        memory.turn(k)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(turn, range(turns)))
    assert n_threads() == before
    return f"{turns} turns in 16 threads; {memory}"


def loky(scale, rnd):
    """joblib's processes, and threads inside each of them."""
    import joblib

    turns = max(4, int(100 * scale))
    wanted = {name: fitted(name) for name in estimators()}
    names = [list(wanted)[k % 4] for k in range(turns)]
    found = joblib.Parallel(n_jobs=2, backend="loky")(joblib.delayed(in_threads)(name) for name in names)
    for name, both in zip(names, found):
        for one in both:
            agree(one, wanted[name])
    return f"{turns} processes' tasks of 2 threads each"


def in_threads(name):
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(fitted, [name, name]))


def forks(scale, rnd):
    """Processes forked after use, while other threads are at work."""
    turns = max(2, int(40 * scale))
    wanted = {name: fitted(name) for name in estimators()}
    stop = threading.Event()

    def work():
        while not stop.is_set():
            agree(point(solved("hard")), answer)

    answer = point(solved("hard"))
    others = [threading.Thread(target=work) for _ in range(2)]
    for thread in others:
        thread.start()
    try:
        for k in range(turns):
            name = list(wanted)[k % 4]
            with multiprocessing.get_context("fork").Pool(2) as pool:
                for both in pool.map_async(in_threads, [name] * 2).get(timeout=120):
                    agree(both[0], wanted[name])
    finally:
        stop.set()
        for thread in others:
            thread.join()
    return f"{turns} pools of 2 forked processes"


def nested(scale, rnd):
    """Cross-validation in threads inside threads."""
    from sklearn.model_selection import cross_val_score

    def score(_):
        return cross_val_score(bregmat.MarginSVC(random_state=0), X, Y, cv=3, n_jobs=2)

    import joblib

    turns = max(4, int(100 * scale))
    wanted = score(0)
    with joblib.parallel_config(backend="threading"), ThreadPoolExecutor(4) as pool:
        for found in pool.map(score, range(turns)):
            agree(found, wanted)
    return f"{turns} cross-validations of 2 threads in 4 threads"


# ---------------------------------------------------------------- long runs
def learn_one(scale, rnd):
    """A million examples, one at a time: the same matrices as in blocks, and no memory."""
    turns = max(2000, int(1e6 * scale))
    rng = np.random.default_rng(1)
    pairs, z, y = rng.integers(0, 10, (1000, 2)) + [0, 10], rng.normal(size=(1000, 5)), rng.random(1000)
    one = bregmat.MatrixExponentiatedGradient(20, instances="pairs"), bregmat.OnlineLogDet(differences=True)
    blocks = bregmat.MatrixExponentiatedGradient(20, instances="pairs"), bregmat.OnlineLogDet(differences=True)
    memory = Memory(turns)
    for k in range(turns // 2):
        one[0].learn_one(pairs[k % 1000], y[k % 1000])
        one[1].learn_one(z[k % 1000], y[k % 1000])
        if k % 1000 == 999:
            blocks[0].partial_fit(pairs, y)
            blocks[1].partial_fit(z, y)
            memory.turn(2 * k)
    for a, b in ((one[0].matrix(), blocks[0].matrix()), (one[1].components_, blocks[1].components_)):
        assert np.allclose(a, b, rtol=1e-6, atol=1e-9 * np.abs(b).max()), "not what blocks give"
    return f"{turns} examples; {memory}"


def fits(scale, rnd):
    """200 fits and solves."""
    turns = max(8, int(200 * scale))
    wanted = {name: fitted(name) for name in estimators()} | {kind: point(solved(kind)) for kind in SOLVED}
    memory = Memory(turns)
    for k in range(turns):
        name = list(wanted)[k % 8]
        agree(fitted(name) if name in estimators() else point(solved(name)), wanted[name])
        memory.turn(k)
    return f"{turns} fits; {memory}"


# ---------------------------------------------------------------- ends at random moments
def promised(result, reasons):
    """A result says why it ended, and proves no more than there is."""
    assert result.exit_reason in reasons, result.exit_reason
    assert not result.gap < -1e-9 and (result.status is not Status.OPTIMAL or result.gap <= 1e-5), result.gap
    assert np.isfinite(point(result)).all()


def with_interrupt(seconds, call):
    """What the call returns, with Ctrl-C after some seconds; None where it was raised."""
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # of what was interrupted
                return call()
        finally:
            timer.cancel()
            timer.join()
            time.sleep(0)  # a signal that is under way comes now
    except KeyboardInterrupt:
        return None


def interrupted_stream(rnd):
    """A block is learned or it is not."""
    learner = bregmat.MatrixExponentiatedGradient(40, instances="pairs")
    pairs = np.array([[0, 1], [2, 3]] * 20)
    for _ in range(20):
        with_interrupt(0.002 * rnd.random(), lambda: learner.partial_fit(pairs, np.ones(40)))
    again = bregmat.MatrixExponentiatedGradient(40, instances="pairs")
    for _ in range(learner.n_seen_ // 40):
        again.partial_fit(pairs, np.ones(40))
    assert learner.n_seen_ % 40 == 0, "half a block was learned"
    if learner.n_seen_:
        agree(learner.matrix(), again.matrix())


def interrupted_fit(seconds):
    """All fitted attributes are there, or none; whether it was raised."""
    model = bregmat.MarginSVC(random_state=0)
    if with_interrupt(seconds, lambda: model.fit(X, Y)) is not None:
        return False
    left = [name for name in vars(model) if name.endswith("_") or name.startswith("_fit")]
    assert left == [] or np.isfinite(model.decision_function(X)).all(), left
    return True


def interrupts(scale, rnd):
    """Ctrl-C at random moments of solves, fits and streams; what follows is as if nothing had been."""
    turns = max(8, int(400 * scale))
    counts = dict.fromkeys(("kept", "raised", "done"), 0)
    answers, lengths, before = {}, {}, n_threads()
    for kind in SOLVED:
        solved(kind)
        start = time.perf_counter()
        answers[kind] = point(solved(kind))
        lengths[kind] = time.perf_counter() - start
    wanted = fitted("margin")
    for k in range(turns):
        kind = (*SOLVED, "fit", "stream")[k % 6]
        if kind == "stream":
            interrupted_stream(rnd)
        elif kind == "fit":
            counts["raised"] += interrupted_fit(0.05 * rnd.random())
            agree(fitted("margin"), wanted)
        else:
            result = with_interrupt(rnd.random() * lengths[kind], functools.partial(solved, kind))
            if result is None:
                counts["raised"] += 1
            else:
                promised(result, set(ExitReason) - {ExitReason.TIME, ExitReason.NONFINITE})
                counts["kept" if result.exit_reason is ExitReason.INTERRUPTED else "done"] += 1
            agree(point(solved(kind)), answers[kind])
        assert n_threads() == before, "BLAS has not its threads back"
    return f"{turns} turns: " + ", ".join(f"{count} {name}" for name, count in counts.items())


def time_limits(scale, rnd):
    """A limit on time at a random moment of a solve."""
    turns, late, most = max(8, int(400 * scale)), 0, 0.0
    for k in range(turns):
        kind = SOLVED[k % 4]
        limit = 10 ** rnd.uniform(-5, -1)
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = solved(kind, max_seconds=limit)
        most = max(most, time.process_time() - start - limit)
        promised(result, set(ExitReason) - {ExitReason.INTERRUPTED, ExitReason.NONFINITE})
        late += result.exit_reason is ExitReason.TIME
    return f"{turns} solves, {late} ended by the limit, at most {most:.2f} s of work later"


def memory_errors(scale, rnd):
    """No memory at a random moment: in a callback, and by a limit of the process."""
    turns, raised = max(8, int(200 * scale)), 0
    answers = {kind: point(solved(kind)) for kind in SOLVED}
    before = n_threads()

    class Callback:
        def __init__(self, left):
            self.left = left

        def __call__(self, record):
            self.left -= 1
            if self.left < 0:
                raise MemoryError

    for k in range(turns):
        kind = SOLVED[k % 4]
        try:
            solved(kind, callback=Callback(rnd.randrange(4)))
        except MemoryError:
            raised += 1
        agree(point(solved(kind)), answers[kind])
        assert n_threads() == before
    return f"{turns} solves, {raised} raised MemoryError; {limited_memory(rnd, max(2, turns // 10))}"


def limited_memory(rnd, turns):
    """Solves that ask for more than the process may have, and once more with all it wants."""
    import resource

    big = np.random.default_rng(0).normal(size=(2000, 3))
    rows = bregmat.Constraints.sq_distance([0, 1], [2, 3], [1.0, 2.0], "==")
    refused = 0
    for _ in range(turns):
        with open("/proc/self/statm") as handle:
            mapped = int(handle.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        free = int(rnd.uniform(5e6, 2e8))
        resource.setrlimit(resource.RLIMIT_AS, (mapped + free, resource.RLIM_INFINITY))
        try:
            bregmat.nearest_kernel(np.eye(2000) + big @ big.T, rows)
        except MemoryError:
            refused += 1
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        agree(point(solved("hard")), point(solved("hard")))
    return f"{refused} of {turns} with 5 to 200 MB left did"


# ---------------------------------------------------------------- workers
def workers(scale, rnd):
    """Workers of a cluster are killed at random moments of runs, by both divergences; results are the same."""
    turns = int(50 * scale)
    if not turns:
        return "none killed at this scale; tests/test_dask.py kills ten"
    from distributed import Client, LocalCluster

    from sharded_cases import KINDS, soft_problem

    problems = [({"slack_weight": 1.0, "divergence": kind}, *soft_problem(n=80, d=4, c=600)) for kind in KINDS]
    whole = [bregmat.nearest_metric(x, rows, block_size=150, **how).metric() for how, x, rows in problems]
    slow = 0.0
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(2)
        for turn in range(turns):
            how, x, rows = problems[turn % len(problems)]
            done, killed = threading.Event(), []

            def kill(after, pid, done=done, killed=killed):
                if not done.wait(after):
                    killed.append(pid)
                    os.kill(pid, signal.SIGKILL)

            while not killed:  # a run that was over before does not count
                done.clear()
                cluster.scale(2)  # one that is killed while it starts is not started again
                client.wait_for_workers(1)
                pids = sorted(client.run(os.getpid, on_error="ignore").values())
                if not pids:
                    continue
                killer = threading.Thread(target=kill, args=(rnd.uniform(0.0, 0.4), rnd.choice(pids)))
                killer.start()
                start = time.perf_counter()
                found = bregmat.nearest_metric(x, rows, block_size=150, executor=client, **how).metric()
                done.set()
                killer.join()
                agree(found, whole[turn % len(problems)])
            slow = max(slow, time.perf_counter() - start)
            print(f"{turn + 1} killed, {slow:.1f} s", file=sys.stderr, flush=True)
    return f"{turns} workers killed in the middle of {turns} runs, whose results are identical; the slowest took {slow:.1f} s"


# ---------------------------------------------------------------- the run
PARTS = {
    part.__name__: part
    for part in (
        shared_estimators,
        loky,
        forks,
        nested,
        learn_one,
        fits,
        interrupts,
        time_limits,
        memory_errors,
        workers,
    )
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=1200, help="limit of each part")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    parser.add_argument("--here", action="store_true", help="in this process, without limit")
    given = parser.parse_args()
    failed = 0
    for name in given.only.split(","):
        if given.here:
            print(PARTS[name](given.scale, random.Random(given.seed)))
            continue
        command = [
            sys.executable,
            __file__,
            "--here",
            "--only",
            name,
            "--scale",
            str(given.scale),
            "--seed",
            str(given.seed),
        ]
        start = time.perf_counter()
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=given.seconds)
            good, said = done.returncode == 0, done.stdout.strip() or done.stderr.strip()[-1500:]
        except subprocess.TimeoutExpired:
            good, said = False, f"not done in {given.seconds:g} s"
        failed += not good
        print(f"{name:18s} {'good' if good else 'FAILED'} {time.perf_counter() - start:6.1f} s  {said}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
