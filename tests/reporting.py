"""What the tests of the report share: learned data as the command line hands it over."""

from dataclasses import replace
from functools import cache

import numpy as np
from sklearn.datasets import load_wine

from bregmat import MetricLearner
from bregmat_app.cli.measure import held_out_neighbours
from bregmat_app.report import ReportData

inf = float("inf")
PICTURES = ["embedding-0", "embedding-1", "embedding-2"]


def learned(X, y, title, **settings):
    """What the command line hands over after learning from labels."""
    learner = MetricLearner(strategy="random", random_state=0, **settings).fit(X, y)
    return ReportData(title, learner.result_, X, learner.constraints_, y=y, learner=learner)


@cache
def wine_learned():
    """Wine with everything a report can show; learned once."""
    bunch = load_wine()
    data = learned(bunch.data, bunch.target, "Metric learned from wine", slack_weight=1.0)

    def fit(rows):
        return MetricLearner(random_state=0).fit(bunch.data[rows], bunch.target[rows])

    return replace(
        data,
        held_out=held_out_neighbours(fit, bunch.data, bunch.target),
        has_hard=False,
        y=bunch.target_names[bunch.target],
        summary=[
            ("4-NN accuracy", 0.672, 0.944, 0.966),
            ("constraints met", "10 of 300", None, "250 of 300"),
            ("pairs", 300, None, None),
        ],
        settings={"divergence": "logdet", "slack_weight": inf, "prior": np.eye(13)},
    )
