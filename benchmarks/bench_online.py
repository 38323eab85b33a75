"""How fast does the matrix exponentiated gradient learner read a stream, and how near to its bound does it stay?

(a) 200,000 distance examples of 52 points, beside the loop that an author would write in NumPy (eigendecomposition,
    W, update), which must come to the same loss; the bound of Lemma 3.2 (Tsuda 2004, the comparison matrix is the target) over
    the total loss, on several targets.
(b) A step at d = 500, 1000 and 2000, beside a step of that loop.
(c) Steps a second beside that loop; and for context beside river's linear regressors, which learn something else: weights of the
    points.
(d) A million calls of `learn_one`: resident memory.
(e) Total loss beside gradient updates with correction (Xing, Ng, Jordan and Russell 2003; Tsuda 2004, sections 1 and 3, contrasts
    them): a gradient step, then negative eigenvalues are set to 0. No bound is known for them, so the best of several rates is
    shown, of either update.

(b) and (c) start where a stream ends, not where it begins: at W = 0.97 target + 0.03 I / d, with noise on the labels. From
I / d a step is several times cheaper, because W is then the identity but for a few entries.

One thread, CPU time, medians, after a warm-up.

    python benchmarks/bench_online.py                   # about 4 minutes; half of it the eigendecompositions of (a)
    python benchmarks/bench_online.py --parts b c       # some parts only
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import numpy as np

from bregmat.online import MatrixExponentiatedGradient

D, N = 52, 200_000
STREAM_TARGET = 2.0  # seconds
LOSS_TARGET = 1e-12  # relative, against the loop in NumPy
RATIO = (1.8, 2.2)  # bound over loss; 1.96 where the stream fits exactly
STEP_TARGET = {500: 0.35, 1000: 1.3, 2000: 11.0}  # milliseconds
MEMORY_TARGET = 1.0  # MB of growth over the last 900,000 of a million calls


def target_kernel(d: int, seed: int = 0) -> np.ndarray:
    """Gaussian kernel of three overlapping clusters in eight dimensions, trace one."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((3, 8))[np.arange(d) % 3] + rng.standard_normal((d, 8))
    sq = ((X[:, None] - X[None]) ** 2).sum(-1)
    K = np.exp(-sq / (2 * 2.5**2))
    return K / np.trace(K)


def distance_examples(K: np.ndarray, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Random pairs of different points, and half their squared distances."""
    rng, d = np.random.default_rng(seed), len(K)
    a = rng.integers(0, d, n)
    b = (a + rng.integers(1, d, n)) % d
    return np.column_stack([a, b]), 0.5 * (K[a, a] + K[b, b] - 2.0 * K[a, b])


def late(d: int, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A W near the target, with all eigenvalues in use; pairs, and labels with 30 % noise."""
    K = target_kernel(d)
    pairs, y = distance_examples(K, n)
    return 0.97 * K + 0.03 * np.eye(d) / d, pairs, y * np.random.default_rng(1).lognormal(0.0, 0.3, n)


def warm_up() -> None:
    """Import what is imported on first use, and touch the memory."""
    pairs, y = distance_examples(target_kernel(D), 50)
    MatrixExponentiatedGradient(D).partial_fit(pairs, y).learn_one(pairs[0], y[0])


def word(figure: float, target: float, unit: str = "") -> str:
    return f"target {target:g}{unit}: {harness.verdict_word(figure <= target)}"


# ---------------------------------------------------------------------------------------------- (a)
def whole_stream(repeats: int) -> None:
    K = target_kernel(D)
    pairs, y = distance_examples(K, N)
    eigh = harness.timed(lambda: author_style(np.eye(D) / D, pairs, y))
    ours = harness.timed(lambda: MatrixExponentiatedGradient(D).partial_fit(pairs, y), repeats=repeats)
    apart = abs(ours.value.cumulative_loss_ - eigh.value) / eigh.value
    row = [
        f"{ours.cpu_median:.2f} s (wall {ours.wall_median:.2f} s)",
        word(ours.cpu_median, STREAM_TARGET, " s"),
        f"{eigh.cpu_median:.1f} s",
        f"{eigh.cpu_median / ours.cpu_median:.0f}",
        f"{apart:.1e}",
        word(apart, LOSS_TARGET),
    ]
    header = ["time", "", "eigh each step", "ratio", "total loss apart", ""]
    harness.print_table(f"(a) {N:,} pairs of {D} points", header, [row])
    ratios = []
    for seed in range(5):
        U = target_kernel(D, seed)
        learner = MatrixExponentiatedGradient(D).partial_fit(*distance_examples(U, N, seed))
        ratios.append(learner.loss_bound(U) / learner.cumulative_loss_)
    inside = RATIO[0] <= min(ratios) and max(ratios) <= RATIO[1]
    print(
        f"\nbound / total loss on 5 targets: median {statistics.median(ratios):.3f} ({min(ratios):.3f} ... {max(ratios):.3f}), "
        f"target {RATIO[0]} ... {RATIO[1]}: {harness.verdict_word(inside)}"
    )


# ---------------------------------------------------------------------------------------------- (b)
def per_step(learner: Any, pairs: np.ndarray, y: np.ndarray, blocks: int) -> float:
    """Median over blocks of the CPU seconds of a step."""
    figures = []
    for X, labels in zip(np.array_split(pairs, blocks), np.array_split(y, blocks)):
        start = time.process_time()
        learner.partial_fit(X, labels)
        figures.append((time.process_time() - start) / len(labels))
    return statistics.median(figures)


def steps() -> None:
    rows = []
    for d, target in STEP_TARGET.items():
        W, pairs, y = late(d, 640)
        learner = MatrixExponentiatedGradient(prior=W).partial_fit(pairs[:40], y[:40])
        ours = per_step(learner, pairs[40:], y[40:], 6) * 1e3
        eigh = harness.timed(lambda W=W, pairs=pairs, y=y: author_style(W, pairs[:3], y[:3])).cpu_median / 3 * 1e3
        rows.append([d, f"{ours:.3g} ms", word(ours, target, " ms"), f"{eigh:.3g} ms", f"{eigh / ours:.0f}"])
    harness.print_table("(b) a step in many dimensions", ["d", "learn", "", "loop with eigh", "ratio"], rows)


# ---------------------------------------------------------------------------------------------- (c)
def author_style(W1: np.ndarray, pairs: np.ndarray, y: np.ndarray, eta: float = 2.0) -> float:
    """The update as the page has it, in NumPy: W from an eigendecomposition of its logarithm, every time."""
    lam, V = np.linalg.eigh(W1)
    H, loss = (V * np.log(lam)) @ V.T, 0.0
    for (a, b), label in zip(pairs, y):
        lam, V = np.linalg.eigh(H)
        x = np.exp(lam - lam[-1])
        W = (V * (x / x.sum())) @ V.T
        error = 0.5 * (W[a, a] + W[b, b] - 2.0 * W[a, b]) - label
        loss += error * error
        g = eta * error  # 2 eta error, times the entries 1/2 of the instance
        H[a, a] -= g
        H[b, b] -= g
        H[a, b] += g
        H[b, a] += g
    return loss


def beside_others(repeats: int) -> None:
    n = 2000
    W, pairs, y = late(D, n)
    rows = []

    def row(name: str, run: Callable[[], Any], base: float | None = None) -> harness.Timed:
        figure = harness.timed(run, repeats=repeats)
        rate = n / figure.cpu_median
        rows.append([name, f"{rate:,.0f}", "" if base is None else f"{rate * base:.2f}", _loss(figure.value)])
        return figure

    ours = row("partial_fit", lambda: MatrixExponentiatedGradient(prior=W).partial_fit(pairs, y))
    base = ours.cpu_median / n
    one = [(tuple(x), t) for x, t in zip(pairs.tolist(), y.tolist())]
    row("learn_one", lambda: _one_by_one(MatrixExponentiatedGradient(prior=W), one), base)
    rival = row("author-style eigh loop in NumPy", lambda: author_style(W, pairs, y), base)
    apart = abs(rival.value - ours.value.cumulative_loss_) / rival.value
    sparse = [({a: 1.0, b: -1.0}, t) for (a, b), t in one]
    for name, make in river_regressors():
        row(f"river {name}, predict_one + learn_one", lambda make=make: _river(make(), sparse), base)
    header = ["learner", "steps a second", "beside partial_fit", "total loss"]
    harness.print_table(f"(c) {n:,} pairs of {D} points, in memory", header, rows)
    print(
        f"\npartial_fit over the author-style loop: {rival.cpu_median / ours.cpu_median:.1f} times; losses apart {apart:.1e}"
    )


def _loss(value: Any) -> str:
    loss = getattr(value, "cumulative_loss_", value)
    return f"{loss:.6g}" if isinstance(loss, float) else ""


def _one_by_one(learner: Any, examples: list) -> Any:
    for x, y in examples:
        learner.learn_one(x, y)
    return learner


def _river(model: Any, examples: list) -> None:
    for x, y in examples:
        model.predict_one(x)
        model.learn_one(x, y)


def river_regressors() -> list[tuple[str, Callable[[], Any]]]:
    """river's regressors with the least work a step; none where river is not installed."""
    try:
        from river import linear_model
    except ImportError:
        print("\nriver is not installed; its rows are left out")
        return []
    return [(name, getattr(linear_model, name)) for name in ("LinearRegression", "PARegressor")]


# ---------------------------------------------------------------------------------------------- (d)
def resident_mb() -> float:
    """Resident memory now, in MB (10^6 bytes); the peak where the system does not tell."""
    status = Path("/proc/self/statm")
    if status.exists():
        return int(status.read_text().split()[1]) * resource.getpagesize() / 1e6
    return harness.peak_memory_mb()


def memory() -> None:
    pairs, y = distance_examples(target_kernel(D), 100_000)
    examples = [(tuple(x), t) for x, t in zip(pairs.tolist(), y.tolist())]
    learner, figures, start = MatrixExponentiatedGradient(D), [], time.process_time()
    for _ in range(10):
        _one_by_one(learner, examples)
        figures.append(resident_mb())
    each = (time.process_time() - start) / learner.n_seen_
    growth = figures[-1] - figures[0]
    print(
        f"\n(d) {learner.n_seen_:,} calls of learn_one, {each * 1e6:.1f} us each: resident {figures[0]:.1f} MB after 100,000, "
        f"{figures[-1]:.1f} MB at the end, growth {growth:.2f} MB; {word(growth, MEMORY_TARGET, ' MB')}"
    )


# ---------------------------------------------------------------------------------------------- (e)
def corrected_gradient(W: np.ndarray, pairs: np.ndarray, y: np.ndarray, eta: float) -> float:
    """``W <- [W - 2 eta (tr(W X) - y) X]_+``: the total loss of gradient steps, after which negative eigenvalues are set to 0."""
    W, loss = W.copy(), 0.0
    for (a, b), label in zip(pairs, y):
        error = 0.5 * (W[a, a] + W[b, b] - 2.0 * W[a, b]) - label
        loss += error * error
        W[[a, b, a, b], [a, b, b, a]] -= eta * error * np.array([1.0, 1.0, -1.0, -1.0])
        lam, V = np.linalg.eigh(W)
        if lam[0] < 0.0:
            W = (V * np.maximum(lam, 0.0)) @ V.T
    return loss


def beside_corrected_gradient() -> None:
    n, rows = 5000, []
    rates = {"exponentiated": (2.0, 5.0, 10.0, 20.0, 50.0), "corrected": (0.03, 0.1, 0.3, 1.0)}
    for seed in range(3):
        K = target_kernel(D, seed)
        pairs, y = distance_examples(K, n, seed)
        for noise in (0.0, 0.3):
            labels = y * np.random.default_rng(1).lognormal(0.0, noise, n)
            learners = {eta: MatrixExponentiatedGradient(D, eta=eta) for eta in rates["exponentiated"]}
            ours = {eta: learner.partial_fit(pairs, labels).cumulative_loss_ for eta, learner in learners.items()}
            other = {eta: corrected_gradient(np.eye(D) / D, pairs, labels, eta) for eta in rates["corrected"]}
            bound = learners[2.0].loss_bound(K) if noise == 0.0 else np.nan
            best = [f"{min(losses.values()):.4g} ({min(losses, key=losses.get)})" for losses in (ours, other)]
            rows.append([seed, noise, f"{bound:.4g}", f"{ours[2.0]:.4g}", *best])
    header = ["target", "noise", "bound", "rate 2 of the bound", "best rate", "corrected, best rate"]
    harness.print_table(f"(e) total loss of {n:,} pairs of {D} points, from I / d", header, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", default=list("abcde"), choices=list("abcde"))
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    harness.one_thread()
    print(harness.machine())
    warm_up()
    if "a" in args.parts:
        whole_stream(args.repeats)
    if "b" in args.parts:
        steps()
    if "c" in args.parts:
        beside_others(args.repeats)
    if "d" in args.parts:
        memory()
    if "e" in args.parts:
        beside_corrected_gradient()


if __name__ == "__main__":
    harness.steady(main)
