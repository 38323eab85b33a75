"""How many answers does the page of `bregmat label` save by choosing its questions?

Six labelled data sets; the class labels answer. Chosen: the questions of `bregmat_app.label.questions`. Random: pairs drawn at
random. Everything else is the page's own in both: rows, bounds, slack weight, metric, clusters (k-means started from the groups
that the answers make; as many as there are classes). Measured after every 10 answers, in the learned metric of all points:

- NMI of the clusters found with the classes;
- 4-NN accuracy, each point judged by its four nearest others.

"Answers needed": where the mean curve of the chosen questions first reaches the level that random ones have after 100 answers (and
for the random ones where they first reach it themselves), both smoothed over three marks. Means over the draws, with standard errors;
the range beside a share is the middle two thirds of what 1,000 redrawings of the draws give.

    python benchmarks/bench_questions.py --draws 8 --jobs 2               # needs BREGMAT_DATA
    python benchmarks/bench_questions.py --choice                         # the sets that the settings were chosen on
    python benchmarks/bench_questions.py --draws 2 --answers 40 --sets wine iris
    python benchmarks/bench_questions.py --picture docs/label-questions.png
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from labelled_sets import labelled_set
from sklearn.metrics import normalized_mutual_info_score as nmi
from sklearn.neighbors import NearestNeighbors

from bregmat_app.label.answers import Answers, Links, rows_of
from bregmat_app.label.clusters import find_clusters
from bregmat_app.label.learning import LabelSettings, Learning
from bregmat_app.label.questions import next_question

SETS = ("balance-scale", "sonar", "letter-recognition", "pendigits", "spambase", "mnist")
# those that bounds, slack weight and the way of asking were chosen on; what is said of them is measured on the others
CHOICE = ("wine", "iris", "digits", "ionosphere", "soybean-large", "breast-cancer-diagnostic")
EVERY = 10
K = 4


def measured(learning, learned, answers, y):
    """(NMI, 4-NN accuracy)."""
    Z, n_classes = learning.X @ learned.map, int(y.max()) + 1
    clusters = find_clusters(Z, Links(answers.active()).groups(), n_classes)
    near = NearestNeighbors(n_neighbors=K).fit(Z).kneighbors(return_distance=False)
    votes = np.stack([(y[near] == c).sum(axis=1) for c in range(n_classes)], axis=1)
    return nmi(y, clusters), float(np.mean(votes.argmax(axis=1) == y))


def curve(X, y, seed, n_answers, is_chosen):
    """One session: (NMI, accuracy) before the first answer and after every EVERY."""
    learning, answers, rng = Learning(X, LabelSettings()), Answers(len(X)), np.random.default_rng(seed)
    learned, found = learning.learn(None), []
    for count in range(n_answers + 1):
        if count % EVERY == 0:
            found.append(measured(learning, learned, answers, y))
        i, j = rng.choice(len(X), 2, replace=False).tolist()
        if is_chosen and (question := next_question(learning, learned, answers.active(), rng)) is not None:
            i, j = question.points
        answers.apply(answers.check({"kind": "same" if y[i] == y[j] else "different", "points": [i, j]}))
        learned = learning.learn(rows_of(answers.active(), learning.near, learning.far), learned)
    return np.array(found)


def smoothed(values):
    """Means of three marks; of two at the ends."""
    padded = np.concatenate([[np.nan], values, [np.nan]])
    return np.nanmean(np.stack([padded[:-2], padded[1:-1], padded[2:]]), axis=0)


def needed(values, level):
    """Answers after which a curve is first at a level, between marks by a straight line; nan where it never is."""
    at = np.flatnonzero(values >= level - 1e-12)
    if not len(at):
        return np.nan
    if (k := int(at[0])) == 0:
        return 0.0
    return EVERY * (k - 1 + (level - values[k - 1]) / (values[k] - values[k - 1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--draws", type=int, default=4)
    parser.add_argument("--answers", type=int, default=100)
    parser.add_argument("--most", type=int, default=500, help="points of a set")
    parser.add_argument("--picture", help="draw the curves")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--choice", action="store_true", help="the sets that the settings were chosen on")
    options = parser.parse_args()
    if options.choice:
        options.sets = CHOICE
    curves = {}
    print(
        "| data | points | measure | before | random, all answers | chosen, half of them | answers: random | chosen | share |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    with ProcessPoolExecutor(options.jobs) as pool:
        for name in options.sets:
            X, y = labelled_set(name, options.most)
            runs = {
                way: [pool.submit(curve, X, y, seed, options.answers, way == "chosen") for seed in range(options.draws)]
                for way in ("random", "chosen")
            }
            curves[name] = {way: np.array([run.result() for run in runs[way]]) for way in runs}
            report(name, f"{X.shape[0]} x {X.shape[1]}", **curves[name])
    report("mean of all", "", *(np.mean([curves[name][way] for name in options.sets], axis=0) for way in runs))
    if options.picture:
        draw(curves, options.picture)


def answers_needed(random, chosen):
    """By random questions, by chosen ones, and the share: to the level that random ones end at. Of curves (draws, marks)."""
    a, b = smoothed(random.mean(axis=0)), smoothed(chosen.mean(axis=0))
    first, second = needed(a, a[-1]), needed(b, a[-1])
    return first, second, second / first if first > 0 else np.nan


def report(name, size, random, chosen):
    """Two lines, NMI and accuracy, of curves (draws, marks, 2)."""
    for m, measure in enumerate(("NMI", "4-NN")):
        a, b = random[:, :, m], chosen[:, :, m]
        first, second, share = answers_needed(a, b)
        rng, draws = np.random.default_rng(0), len(a)
        again = [
            answers_needed(a[rng.integers(draws, size=draws)], b[rng.integers(draws, size=draws)]) for _ in range(1000)
        ]
        shares = np.sort(
            np.nan_to_num([third if one > 0 else np.inf for one, _, third in again], nan=np.inf, posinf=np.inf)
        )
        low, high = shares[[160, 840]]
        level, half = smoothed(a.mean(axis=0))[-1], (a.shape[1] - 1) // 2
        error = b[:, half].std(ddof=1) / np.sqrt(draws) if draws > 1 else np.nan
        end = a[:, -1].std(ddof=1) / np.sqrt(draws) if draws > 1 else np.nan
        said = f"{share:.2f} ({low:.2f} to {high:.2f})" if first > 0 else "-"
        print(
            f"| {name} | {size} | {measure} | {a[:, 0].mean():.3f} | {level:.3f} ± {end:.3f} "
            f"| {smoothed(b.mean(axis=0))[half]:.3f} ± {error:.3f} | {first:.0f} | {second:.0f} | {said} |",
            flush=True,
        )


def draw(curves, path):
    """The curves, one column a data set: NMI above, accuracy below; the band is the standard error over draws."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, len(curves), figsize=(2.1 * len(curves), 4.2), sharex=True, layout="constrained")
    for column, (name, draws) in zip(np.reshape(axes, (2, -1)).T, curves.items()):
        for m, axis in enumerate(column):
            for way, colour in (("random", "#6b7680"), ("chosen", "#0b5cad")):
                values = draws[way][:, :, m]
                x = EVERY * np.arange(values.shape[1])
                mean, error = values.mean(axis=0), values.std(axis=0) / np.sqrt(len(values))
                axis.plot(x, mean, color=colour, label=way, lw=1.6)
                axis.fill_between(x, mean - error, mean + error, color=colour, alpha=0.2, lw=0)
            axis.tick_params(labelsize=7)
        column[0].set_title(name, fontsize=8)
        column[1].set_xlabel("answers", fontsize=8)
    np.reshape(axes, (2, -1))[0, 0].set_ylabel("NMI of the clusters", fontsize=8)
    np.reshape(axes, (2, -1))[1, 0].set_ylabel("4-NN accuracy", fontsize=8)
    np.reshape(axes, (2, -1))[0, 0].legend(fontsize=7, frameon=False)
    figure.savefig(path, dpi=90)


if __name__ == "__main__":
    main()
