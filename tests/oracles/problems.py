"""The stored problems: which divergence meets which rows, prior and loss; used by ``make_oracles.py`` only."""

import numpy as np
from draw import draw_problem, make_row, row_matrix

MIXED = (
    "sq_distance",
    "sq_distance",
    "similarity",
    "comparison",
    "similarity_comparison",
    "linear",
    "sq_distance",
    "linear",
    "similarity",
    "sq_distance",
    "comparison",
    "linear",
    "sq_distance",
    "similarity_comparison",
)
EVERY = (
    "sq_distance",
    "trace",
    "diagonal",
    "similarity",
    "comparison",
    "similarity_comparison",
    "linear",
    "sq_distance ==",
    "sq_distance",
    "linear",
    "similarity",
    "sq_distance",
)
DISTANCES = ("sq_distance",) * 15
HARD, SOFT = np.inf, 1.0


def groups():
    """All problems, by the file they are stored in."""
    hard, slack, losses = [], [], []
    for shift, divergence in enumerate(("logdet", "vonneumann", "frobenius")):

        def new(name, seed, *, into, _divergence=divergence, _shift=shift, **settings):
            into.append(draw_problem(name, 1000 * _shift + seed, divergence=_divergence, **settings))

        kernel, metric = {"form": "kernel"}, {"form": "metric"}
        new("hard-distances", 1, into=hard, **kernel, size=5, rows=DISTANCES[:6])
        new("hard-every-relation", 2, into=hard, **kernel, size=6, rows=EVERY)
        new("hard-factor-distances", 3, into=hard, **kernel, size=8, rank=3, rows=(*DISTANCES[:4], "sq_distance =="))
        new("hard-factor-every-relation", 4, into=hard, **kernel, size=7, rank=4, rows=EVERY[:7])
        new("hard-diagonal", 5, into=hard, **kernel, size=4, rows=("diagonal",) * 4 + ("similarity",) * 2)
        new("hard-dense-low-rank", 6, into=hard, **kernel, size=6, rank=3, dense=True, rows=MIXED[:5])
        new("hard-metric", 7, into=hard, **metric, size=4, n=8, rows=("sq_distance",) * 5 + ("comparison",) * 5)
        new("hard-metric-prior", 8, into=hard, **metric, size=5, n=7, dense=True, rows=EVERY)
        new("hard-metric-low-rank", 9, into=hard, **metric, size=5, n=7, rank=3, dense=True, rows=MIXED[:4])
        new("hard-wide-scale", 10, into=hard, **kernel, size=5, spread=8.0, rows=DISTANCES[:7])
        hard[-1]["rows"] += [hard[-1]["rows"][0], hard[-1]["rows"][3]]  # the same row twice

        if divergence != "logdet":  # there only singular matrices are feasible: see infeasible()
            new("hard-must-link", 20, into=hard, **kernel, size=5, rows=DISTANCES[:5], zero=(0,))
            hard[-1]["rows"][0]["sense"] = "<="

        soft = {"into": slack, "hard": False}
        new("slack-distances", 11, **soft, **kernel, size=5, rows=DISTANCES[:8])
        new("slack-factor-mixed", 12, **soft, **kernel, size=8, rank=4, slack_weight=10.0, rows=(*MIXED, "trace"))
        new(
            "slack-metric",
            13,
            **soft,
            **metric,
            size=3,
            n=8,
            slack_weight=0.1,
            rows=("sq_distance",) * 10 + ("comparison",) * 5,
        )
        new(
            "slack-metric-low-rank",
            14,
            **soft,
            **metric,
            size=5,
            n=7,
            rank=3,
            dense=True,
            weights=[0.5, 2.0, 4.0, 0.1] * 2,
            rows=MIXED[:8],
        )
        new(
            "slack-and-hard",
            15,
            **soft,
            **kernel,
            size=6,
            slack_weight=2.0,
            weights=[HARD, SOFT, SOFT, HARD, 3.0],
            rows=MIXED[:12],
        )
        new(
            "slack-each-its-own",
            16,
            **soft,
            **kernel,
            size=5,
            slack_weight=[0.3, 1.0, 3.0, 10.0, "inf", 30.0, 5.0],
            rows=("diagonal", "sq_distance ==", "linear", "trace", "sq_distance", "similarity", "similarity_self"),
        )
        new("slack-bound-zero", 17, **soft, **kernel, size=6, rank=4, rows=MIXED[:7], zero=(2, 3, 4))
        new(
            "slack-metric-bound-zero",
            18,
            **soft,
            **metric,
            size=3,
            n=6,
            dense=True,
            rows=("comparison",) * 3 + ("sq_distance",) * 3,
            zero=(0, 1),
        )
        new("slack-heavy", 19, **soft, **metric, size=4, n=8, slack_weight=1000.0, spread=3.0, rows=DISTANCES[:12])

        soft = {"into": losses, "hard": False}
        new("hinge-mixed", 21, **soft, **kernel, size=5, loss="squared_hinge", rows=MIXED[:10])
        new(
            "hinge-metric-and-hard",
            22,
            **soft,
            **metric,
            size=4,
            n=7,
            loss="squared_hinge",
            slack_weight=20.0,
            weights=[SOFT, HARD, SOFT, HARD, 0.2],
            rows=EVERY,
        )
        new("squared-factor", 23, **soft, **kernel, size=8, rank=4, loss="squared", rows=DISTANCES[:12])
        new(
            "squared-metric-and-hard",
            24,
            **soft,
            **metric,
            size=4,
            n=8,
            dense=True,
            loss="squared",
            slack_weight=5.0,
            weights=[HARD, SOFT, 3.0, HARD],
            rows=MIXED,
        )
    return {"hard": hard, "slack": slack, "losses": losses, "infeasible": infeasible(), "structured": structured()}


def structured():
    """What random rows are not: said twice, redundant, zero on the range of the prior, of one point, over many orders of magnitude."""
    problems = []
    for shift, divergence in enumerate(("logdet", "vonneumann", "frobenius")):
        base = 7000 + 100 * shift

        def new(name, seed, *, _divergence=divergence, _base=base, **settings):
            given = {"divergence": _divergence, "form": "kernel", "size": 4} | settings
            problems.append(draw_problem(f"structured-{name}", _base + seed, **given))
            return problems[-1]["rows"]

        rows = new("duplicates", 1, rows=("sq_distance",) * 3 + ("similarity",))
        rows += [dict(row) for row in rows]  # every row twice
        rows = new("duplicates-soft", 2, rows=("sq_distance",) * 3, hard=False)
        rows += [row | {"weight": weight} for row, weight in zip(rows, (2.0, 0.5, 1.0), strict=True)]
        rows = new("duplicate-hard-and-soft", 3, rows=("sq_distance",) * 3 + ("linear",), hard=False)
        rows += [row | {"weight": "inf"} for row in rows[1:3]]
        rows = new("redundant", 4, rows=("sq_distance ==",) * 3)
        rows.append(sum_of(rows, 4))
        rows = new("redundant-inequalities", 5, rows=("diagonal",) * 3)
        looser = {"relation": "similarity", "sense": "<="}  # of a point with itself
        rows += [row | looser | {"points": 2 * row["points"], "bound": 2.0 * row["bound"]} for row in rows]
        rows.append(sum_of(rows[:2], 4))
        rows = new("vanishing", 6, size=5, rank=2, rows=("sq_distance",) * 3)
        factor = np.array(problems[-1]["prior"]["factor"])
        problems[-1]["prior"]["factor"] = centred(factor).tolist()
        everything = {"vectors": [[1.0]] * 5, "weights": [1.0]}  # e'Ke, which is 0 for centred points
        problems[-1]["rows"] = [
            make_row("sq_distance", (i, j), round(float(share * np.sum((a - b) ** 2)), 4), sense)
            for (i, j, share, sense) in ((0, 1, 0.6, "<="), (1, 2, 1.7, ">="), (3, 4, 0.8, "=="))
            for a, b in [(centred(factor)[i], centred(factor)[j])]
        ] + [make_row("linear", (), 0.0, "==", matrix=everything), make_row("linear", (), 1.0, "<=", matrix=everything)]
        rows = new("one-point", 7, rows=("similarity_self", "diagonal", "sq_distance"), hard=False, slack_weight=5.0)
        rows += [row | {"weight": 3.0} for row in rows[:2]]
        new("wide-bounds", 8, form="metric", size=3, n=6, rows=("sq_distance",) * 5, hard=False, loss="squared_hinge")
        lengths = np.array([1e-3, 1e-2, 1.0, 10.0, 100.0, 1000.0])
        points = np.round(lengths[:, None] * np.array(problems[-1]["points"]), 7)
        problems[-1] |= {"points": points.tolist(), "slack_weight": 0.3}
        problems[-1]["rows"] = [
            make_row("diagonal", (i,), float(f"{share * np.sum(points[i] ** 2):.4g}"), "==", 1.0)
            for i, share in enumerate((0.5, 2.0, 0.7, 1.5, 0.8, 1.2))
        ]
        new("rank-deficient", 9, size=6, rank=2, dense=True, rows=("sq_distance", "similarity", "sq_distance"))
    return problems


def centred(factor):
    """Points in hundredths whose sum is exactly 0 in each column."""
    hundredths = np.rint(100 * np.asarray(factor)).astype(int)
    hundredths[-1] -= hundredths.sum(axis=0)
    return hundredths / 100


def sum_of(rows, n):
    """The row that says the sum of others."""
    matrix = {"dense": sum(row_matrix(row, n) for row in rows).tolist()}
    return make_row("linear", (), sum(row["bound"] for row in rows), "==", matrix=matrix)


def infeasible():
    """Hard rows that no positive semidefinite matrix meets, each for another reason."""
    rng = np.random.default_rng(5000)

    def kernel(name, divergence, rows, *, n=5, rank=None, slack_weight="inf"):
        factor = np.round(rng.normal(size=(n, rank or n)) + np.eye(n, rank or n), 2)
        prior = {"factor": factor.tolist()} if rank else {"dense": np.round(factor @ factor.T, 4).tolist()}
        return {
            "name": f"{divergence}-{name}",
            "form": "kernel",
            "divergence": divergence,
            "loss": None,
            "slack_weight": slack_weight,
            "prior": prior,
            "rows": rows,
        }

    def metric(name, divergence, rows, X):
        return {
            "name": f"{divergence}-{name}",
            "form": "metric",
            "divergence": divergence,
            "loss": None,
            "slack_weight": "inf",
            "prior": None,
            "points": X,
            "rows": rows,
        }

    pair = [make_row("sq_distance", (0, 1), 1.0, "<="), make_row("sq_distance", (0, 1), 1.5, ">=")]
    triangle = [
        make_row("sq_distance", (0, 1), 1.0, "<="),
        make_row("sq_distance", (1, 2), 1.0, "<="),
        make_row("sq_distance", (0, 2), 4.4, ">="),
    ]
    others = [make_row("sq_distance", (2, 3), 3.0, "<="), make_row("sq_distance", (1, 4), 2.0, ">=")]
    cauchy = [
        make_row("diagonal", (0,), 1.0, "=="),
        make_row("diagonal", (1,), 1.0, "=="),
        make_row("similarity", (0, 1), 1.3, ">="),
    ]
    trace = [make_row("trace", (), 1.0, "=="), make_row("sq_distance", (0, 1), 2.5, ">=")]
    cycle = [
        make_row("comparison", (0, 1, 2, 3), -0.5),
        make_row("comparison", (2, 3, 0, 4), -0.5),
        make_row("comparison", (0, 4, 0, 1), -0.5),
    ]
    negative = [
        make_row("linear", (), -0.5, "<=", matrix={"vectors": [[1.0], [1.0], [-1.0], [0.0], [0.5]], "weights": [2.0]})
    ]
    line = [make_row("sq_distance", (0, 1), 1.0, "=="), make_row("sq_distance", (0, 2), 5.0, "==")]
    X = [[0.0, 0.0, 0.0], [1.0, 0.5, -1.0], [2.0, 1.0, -2.0], [0.3, 1.0, 0.2], [1.0, -1.0, 0.5]]
    soft = [
        make_row("sq_distance", (0, 1), 1.0, "<=", HARD),
        make_row("sq_distance", (2, 3), 0.5, "<=", 1.0),
        make_row("sq_distance", (0, 1), 2.0, ">=", HARD),
        make_row("sq_distance", (1, 3), 4.0, ">=", 2.0),
    ]
    problems = []
    for divergence in ("logdet", "vonneumann", "frobenius"):
        problems += [
            kernel("pair", divergence, pair + others),
            kernel("triangle", divergence, others + triangle),
            kernel("cauchy", divergence, cauchy + others),
            kernel("cycle", divergence, cycle + others),
            metric("line", divergence, others + line, X),
        ]
    problems += [
        kernel("trace", "logdet", trace),
        kernel("trace", "vonneumann", trace, n=6, rank=3),
        kernel("negative", "frobenius", negative + others),
        kernel("negative", "logdet", negative + others),
        kernel("soft-and-hard", "vonneumann", soft, slack_weight=1.0),
        kernel("soft-and-hard", "logdet", soft, rank=3, n=5, slack_weight=1.0),
        kernel("must-link", "logdet", [make_row("sq_distance", (0, 1), 0.0, "<="), *others]) | {"only_singular": True},
        metric("metric-triangle", "logdet", triangle, X[3:] + X[1:2] + [[0.0, 2.0, 0.0]]),
    ]
    return problems
