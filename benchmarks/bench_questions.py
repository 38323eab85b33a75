"""How many answers does the page of `bregmat label` need?

Six labelled data sets; the class labels answer. Chosen: the questions of `bregmat_app.label.questions`, "which of these groups does it
belong to?". Random: whether random pairs of points are the same. One key is one answer in both. Everything else is the page's own:
rows, bounds, slack weight, metric; a question is chosen in the metric before the last answer, as on the page. After random
questions k-means finds the clusters, and is told the number of classes. Measured after every 10 answers, in the learned metric of all
points:

- NMI of the clusters with the classes; it counts the points that were answered about, too;
- 4-NN accuracy, each point judged by its four nearest others.

"Answers to": after how many the mean curve first reaches a level; a dash if it never does. Means over the draws, with standard errors.

    python benchmarks/bench_questions.py --draws 4                        # needs BREGMAT_DATA
    python benchmarks/bench_questions.py --choice                         # the sets that the settings were chosen on
    python benchmarks/bench_questions.py --draws 2 --answers 100 --sets wine iris
    python benchmarks/bench_questions.py --priors --draws 5 --answers 50  # NMI with each prior, and with the one that is chosen
"""

from __future__ import annotations

import argparse
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from labelled_sets import labelled_set
from sklearn.cluster import KMeans
from sklearn.metrics import normalized_mutual_info_score as nmi
from sklearn.neighbors import NearestNeighbors

from bregmat_app.label.answers import Answers, rows_of
from bregmat_app.label.clusters import find_clusters
from bregmat_app.label.groups import Links
from bregmat_app.label.learning import LabelSettings, Learning
from bregmat_app.label.points import LabelPoints
from bregmat_app.label.questions import next_question

SETS = ("balance-scale", "sonar", "letter-recognition", "pendigits", "spambase", "mnist")
# those that bounds, slack weight, clusters and the way of asking were chosen on; what is said of them is measured on the others
CHOICE = ("wine", "iris", "digits", "ionosphere", "soybean-large", "breast-cancer-diagnostic")
EVERY = 10
K = 4
LEVEL = 0.8  # of NMI


def answered(question, y):
    """The answer of the labels to a question, as an event of the page."""
    members = [group[0] for group in question.groups]
    same = [i for i in members if y[i] == y[question.point]]
    if same:
        return {"kind": "same", "points": [question.point, same[0]]}
    return {"kind": "different", "points": [question.point, *members]}


def measured(Z, first, groups, y, is_chosen):
    """(NMI, 4-NN accuracy)."""
    n_classes = int(y.max()) + 1
    if is_chosen:
        clusters = find_clusters(Z, first, groups).key
    else:
        clusters = KMeans(n_classes, n_init=5, random_state=0).fit_predict(Z)
    near = NearestNeighbors(n_neighbors=K).fit(Z).kneighbors(return_distance=False)
    votes = np.stack([(y[near] == c).sum(axis=1) for c in range(n_classes)], axis=1)
    return nmi(y, clusters), float(np.mean(votes.argmax(axis=1) == y))


def curve(X, y, seed, n_answers, is_chosen, prior="auto"):
    """One session: (NMI, accuracy) before the first answer and after every EVERY."""
    start = LabelPoints("", X, [""] * X.shape[1], [""] * len(X)).first_prior
    learning, answers, rng = Learning(X, LabelSettings(prior), start), Answers(len(X)), np.random.default_rng(seed)
    learned, found, space = learning.learn(None), [], learning.start
    for count in range(n_answers + 1):
        asked_in, groups = learning.X @ learned.map, Links(answers.active()).groups()
        if count:
            space = learning.chosen(groups)
            learned = learning.learn(rows_of(answers.active(), space.near, space.far), learned, space)
        if count % EVERY == 0:
            found.append(measured(learning.X @ learned.map, space.first, groups, y, is_chosen))
        i, j = rng.choice(len(X), 2, replace=False).tolist()
        event = {"kind": "same" if y[i] == y[j] else "different", "points": [i, j]}
        if is_chosen:
            question = next_question(asked_in, space.first, groups, rng)
            if question is None:  # every point has its group
                return np.array(found + [found[-1]] * (n_answers // EVERY + 1 - len(found)))
            event = answered(question, y)
        answers.apply(answers.check(event))
    return np.array(found)


def answers_to(values, level):
    """Answers after which a curve first reaches a level, interpolated between two measurements; nan where it never does."""
    at = np.flatnonzero(values >= level - 1e-12)
    if not len(at):
        return np.nan
    if (k := int(at[0])) == 0:
        return 0.0
    return EVERY * (k - 1 + (level - values[k - 1]) / (values[k] - values[k - 1]))


def report(name, size, random, chosen):
    """One line of curves (draws, marks, 2)."""
    count = lambda answers: "-" if np.isnan(answers) else f"{answers:.0f}"  # noqa: E731

    def at(curves, n, m):
        values = curves[:, min(n // EVERY, curves.shape[1] - 1), m]
        error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
        return f"{values.mean():.2f} ± {error:.2f}"

    a, b = random[:, :, 0].mean(axis=0), chosen[:, :, 0].mean(axis=0)
    cells = [
        *(name, size, f"{a[0]:.2f}", at(random, 100, 0), at(chosen, 50, 0), at(chosen, 100, 0)),
        *(count(answers_to(b, a[min(100 // EVERY, len(a) - 1)])), count(answers_to(b, LEVEL)), count(answers_to(a, LEVEL))),
        *(at(random, 100, 1), at(chosen, 100, 1)),
    ]  # fmt: skip
    print(f"| {' | '.join(cells)} |", flush=True)


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


def embedded(name, most):
    """Rows of the ten most frequent classes of embeddings that make_embeddings.py has written."""
    file = np.load(Path(os.environ["BREGMAT_DATA"]) / "embeddings" / f"{name}.npz")
    X, names = (file["X"], file["y"]) if "y" in file else (file["Q"], file["package"])
    y = np.unique(names, return_inverse=True)[1]
    frequent = np.argsort(-np.bincount(y), kind="stable")[:10]
    rows = np.random.default_rng(0).permutation(np.flatnonzero(np.isin(y, frequent)))[:most]
    return X[rows].astype(float), np.unique(y[rows], return_inverse=True)[1]


def compare_priors(names, options):
    """A table of the NMI after the last answer with the identity, with scaled columns, and with the prior that is chosen."""
    print("| data | points | identity | scaled | chosen |\n| --- | --- | --- | --- | --- |")
    for name in names:
        X, y = embedded(name, options.most) if name.endswith("384") else labelled_set(name, options.most)
        cells = []
        for prior in ("identity", "variance", "auto"):
            found = [curve(X, y, seed, options.answers, True, prior)[-1, 0] for seed in range(options.draws)]
            cells.append(f"{np.mean(found):.3f} ± {np.std(found, ddof=1) / np.sqrt(len(found)):.3f}")
        print(f"| {name} | {X.shape[0]} x {X.shape[1]} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--draws", type=int, default=4)
    parser.add_argument("--answers", type=int, default=400)
    parser.add_argument("--most", type=int, default=500, help="points of a set")
    parser.add_argument("--picture", help="draw the curves")
    parser.add_argument(
        "--priors", action="store_true", help="NMI after the last answer with each prior; also on embeddings"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--choice", action="store_true", help="the sets that the settings were chosen on")
    options = parser.parse_args()
    if options.choice:
        options.sets = CHOICE
    if options.priors:
        compare_priors([*options.sets, "packages384", "docstrings384"], options)
        return
    heads = ("data", "points", "NMI before", "random, 100", "chosen, 50", "chosen, 100", "answers to random's 100",
             f"answers to {LEVEL}", "random questions to that", "4-NN: random, 100", "chosen, 100")  # fmt: skip
    print(f"| {' | '.join(heads)} |\n|{' --- |' * len(heads)}")
    curves = {}
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


if __name__ == "__main__":
    main()
